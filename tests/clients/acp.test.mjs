// `@agentclientprotocol/sdk`, unchanged: the client that editors are built on.

import assert from 'node:assert/strict';

import { Editor, choose } from './editor.mjs';
import { promise } from './promise.mjs';
import { call, held, say } from './server.mjs';

const write = (path, content = 'new\n') => call('Write', { file_path: path, content });
const task = (name) => ({ description: name, prompt: `do ${name}`, subagent_type: 'general-purpose' });
const batch = (...names) => call('Agent', { tasks: names.map(task) });

promise('an editor: what tine can do is what it says', async (place) => {
  const { introduction } = await Editor.open(place);
  const { loadSession, promptCapabilities, sessionCapabilities } = introduction.agentCapabilities;
  assert.equal(introduction.agentInfo.name, 'tine');
  assert.deepEqual(introduction.authMethods, []);
  assert.ok(loadSession && promptCapabilities.embeddedContext && !promptCapabilities.image);
  assert.ok(sessionCapabilities.list && sessionCapabilities.resume && sessionCapabilities.close);
});

promise('an editor: an answer is streamed into a session of its own', async (place) => {
  const gate = place.server.gate();
  place.server.when('hello', { text: 'Hello', gate: null, then: { gate, text: ' there.' } });
  const editor = await Editor.open(place);
  const sessionId = await editor.session();
  const stopped = editor.prompt(sessionId, 'hello');
  await gate.reached();
  gate.open();
  assert.equal(await stopped, 'end_turn');
  assert.equal(editor.text(), 'Hello there.');
  assert.ok(editor.updates.every((update) => update.sessionId === sessionId));
  assert.ok(editor.of('available_commands_update')[0].availableCommands.some(({ name }) => name === 'review'));
  assert.ok(editor.of('usage_update')[0].used > 0);
  assert.equal(await editor.leave(), 0);
});

promise('an editor: an edit is allowed, with its diff', async (place) => {
  place.server.when('write', write('a.txt'), say('written'));
  const editor = await Editor.open(place);
  editor.decide = choose('allow_once');
  const sessionId = await editor.session();
  assert.equal(await editor.prompt(sessionId, 'write'), 'end_turn');
  const [{ toolCall }] = editor.questions;
  assert.deepEqual(toolCall.content[0], { type: 'diff', path: `${place.work}/a.txt`, newText: 'new\n' });
  assert.deepEqual(editor.states(toolCall.toolCallId), ['pending', 'in_progress', 'completed']);
  assert.equal(place.read('a.txt'), 'new\n');
});

promise('an editor: an edit is rejected, and the model goes on', async (place) => {
  place.server.when('write', write('a.txt'), say('as you like'));
  const editor = await Editor.open(place);
  editor.decide = choose('reject_once');
  const sessionId = await editor.session();
  assert.equal(await editor.prompt(sessionId, 'write'), 'end_turn');
  assert.equal(editor.text(), 'as you like');
  assert.equal(editor.states(editor.questions[0].toolCall.toolCallId).at(-1), 'failed');
  assert.equal(place.read('a.txt'), undefined);
});

promise('an editor: each slot of a batch is a call of its own, and says who asks', async (place) => {
  place.server.when('go', batch('north', 'south'), say('both')).when('do north', write('n.txt'), say('up')).when('do south', say('down'));
  const editor = await Editor.open(place);
  editor.decide = choose('allow_once');
  const sessionId = await editor.session();
  assert.equal(await editor.prompt(sessionId, 'go'), 'end_turn');
  for (const slot of ['agent-1', 'agent-2']) assert.deepEqual(editor.states(slot), ['pending', 'in_progress', 'completed']);
  assert.equal(editor.questions.length, 1);
  assert.match(editor.questions[0].toolCall.content.at(-1).content.text, /the agent “north” asks/);
  assert.equal(editor.text(), 'both');
  assert.equal(place.read('n.txt'), 'new\n');
});

promise('an editor: a cancel in the middle of a batch, then the next prompt', async (place) => {
  const gate = place.server.gate();
  place.server.when('go', batch('north', 'south')).when('do north', held(gate, say('up'))).when('do south', held(gate, say('down')));
  place.server.when('and now', say('here'));
  const editor = await Editor.open(place);
  const sessionId = await editor.session();
  const stopped = editor.prompt(sessionId, 'go');
  await gate.reached(2);
  await editor.cancel(sessionId);
  assert.equal(await stopped, 'cancelled');
  for (const slot of ['agent-1', 'agent-2']) assert.equal(editor.states(slot).at(-1), 'failed');
  assert.equal(await editor.prompt(sessionId, 'and now'), 'end_turn');
  assert.equal(editor.text(), 'here');
});

promise('an editor: a mode is set, and holds', async (place) => {
  place.server.when('write', write('a.txt'), say('written'));
  const editor = await Editor.open(place);
  const { sessionId, modes } = await editor.request('session/new', { cwd: place.work, mcpServers: [] });
  assert.equal(modes.currentModeId, 'default');
  await editor.request('session/set_mode', { sessionId, modeId: 'acceptEdits' });
  assert.equal(await editor.prompt(sessionId, 'write'), 'end_turn');
  assert.equal(editor.questions.length, 0);
  assert.equal(place.read('a.txt'), 'new\n');
  assert.equal(editor.of('current_mode_update')[0].currentModeId, 'acceptEdits');
});

promise('an editor: a model is chosen for the next prompt', async (place) => {
  place.server.when('hello', say('hi'));
  const editor = await Editor.open(place);
  const sessionId = await editor.session();
  const { configOptions } = await editor.request('session/set_config_option', { sessionId, configId: 'model', value: 'priced' });
  assert.equal(configOptions.find(({ id }) => id === 'model').currentValue, 'priced');
  await editor.prompt(sessionId, 'hello');
  assert.equal(place.server.requests[0].body.model, 'priced');
});

promise('an editor: a session of another process is loaded, and goes on', async (place) => {
  place.server.when('one', say('first')).when('two', say('second'));
  const before = await Editor.open(place);
  const sessionId = await before.session();
  await before.prompt(sessionId, 'one');
  assert.equal(await before.leave(), 0);
  const editor = await Editor.open(place);
  const { sessions } = await editor.request('session/list', { cwd: place.work });
  assert.deepEqual(sessions.map((session) => session.sessionId), [sessionId]);
  await editor.request('session/load', { sessionId, cwd: place.work, mcpServers: [] });
  assert.equal(editor.text('user_message_chunk'), 'one');
  assert.equal(editor.text(), 'first');
  assert.equal(await editor.prompt(sessionId, 'two'), 'end_turn');
  assert.equal(editor.text(), 'firstsecond');
});

promise('an editor: a list of what is to be done is a plan', async (place) => {
  const todo = { content: 'look', status: 'in_progress', activeForm: 'looking' };
  place.server.when('plan', call('TodoWrite', { todos: [todo] }), say('ok'));
  const editor = await Editor.open(place);
  await editor.prompt(await editor.session(), 'plan');
  assert.deepEqual(editor.of('plan')[0].entries, [{ content: 'look', priority: 'medium', status: 'in_progress' }]);
});
