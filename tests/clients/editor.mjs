// An editor: `@agentclientprotocol/sdk`, with tine at the other end of its pipes.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Readable, Writable } from 'node:stream';

import * as acp from '@agentclientprotocol/sdk';

import { TINE } from './place.mjs';

/** A connection, and what it was told of each session. */
export class Editor {
  /** Every update so far. */
  updates = [];
  /** Every question so far. */
  questions = [];
  /** Answers questions; a test may put another one here. */
  decide = () => ({ outcome: { outcome: 'cancelled' } });

  /** Starts tine and is introduced to it. */
  static async open(place, ...flags) {
    const editor = new Editor();
    editor.place = place;
    const child = spawn(TINE, ['acp', ...flags], { cwd: place.root, env: place.env, stdio: ['pipe', 'pipe', 'ignore'] });
    editor.child = child;
    place.ends(async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    });
    const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
    const app = acp
      .client({ name: 'tests' })
      .onNotification(acp.methods.client.session.update, ({ params }) => void editor.updates.push(params))
      .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
        editor.questions.push(params);
        return editor.decide(params);
      });
    editor.connection = app.connect(stream);
    editor.agent = editor.connection.agent;
    const protocolVersion = acp.PROTOCOL_VERSION;
    editor.introduction = await editor.request('initialize', { protocolVersion, clientCapabilities: {} });
    assert.equal(editor.introduction.protocolVersion, protocolVersion);
    return editor;
  }

  request(method, params) {
    return this.agent.request(method, params);
  }

  /** Begins a session in the working directory. */
  async session() {
    const { sessionId } = await this.request('session/new', { cwd: this.place.work, mcpServers: [] });
    return sessionId;
  }

  /** Sends a prompt and returns how its turn stopped. */
  async prompt(sessionId, text) {
    const { stopReason } = await this.request('session/prompt', { sessionId, prompt: [{ type: 'text', text }] });
    return stopReason;
  }

  cancel(sessionId) {
    return this.agent.notify('session/cancel', { sessionId });
  }

  /** The updates of a kind. */
  of(kind) {
    return this.updates.map(({ update }) => update).filter((update) => update.sessionUpdate === kind);
  }

  /** The text of all pieces of a kind. */
  text(kind = 'agent_message_chunk') {
    return this.of(kind).map(({ content }) => content.text).join('');
  }

  /** The states that a call was in, one after the other. */
  states(id) {
    const told = this.updates.map(({ update }) => update).filter(({ toolCallId }) => toolCallId === id);
    // A call that is new and says nothing of it is pending.
    const states = told.map(({ sessionUpdate, status }) => status ?? (sessionUpdate === 'tool_call' ? 'pending' : undefined));
    return states.filter((status) => status).filter((status, at, all) => status !== all[at - 1]);
  }

  /** Ends the input, and waits for the end of the process. */
  async leave() {
    this.child.stdin.end();
    if (this.child.exitCode === null) await once(this.child, 'exit');
    return this.child.exitCode;
  }
}

/** Chooses the first option of a kind. */
export const choose = (kind) => ({ options }) => {
  const { optionId } = options.find((option) => option.kind === kind);
  return { outcome: { outcome: 'selected', optionId } };
};
