// Where a test runs: directories of its own, a model of its own, and tine.
//
// Nothing of the surroundings is seen there but `PATH`. Whatever a test leaves
// behind ends with it: the model first, so that no request keeps a run alive,
// then the clients, then the directories.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { query as claudeQuery } from '@anthropic-ai/claude-agent-sdk';
import { query as qwenQuery } from '@qwen-code/sdk';

import { ModelServer } from './server.mjs';

/** The binary under test. */
export const TINE = process.env.TINE;
assert.ok(TINE, 'set TINE to the binary: TINE=$PWD/target/release/tine npm test');

/** A home, a working directory and a model. */
export class Place {
  #endings = [];

  /** Makes one that is gone when the test is over. */
  static async make(t) {
    const place = new Place();
    place.root = realpathSync(mkdtempSync(join(tmpdir(), 'tine-clients-')));
    place.server = await ModelServer.start();
    t.after(() => place.#leave());
    for (const name of ['home', 'work']) mkdirSync(join(place.root, name));
    place.put('home/config.toml', place.#config());
    return place;
  }

  get home() {
    return join(this.root, 'home');
  }

  get work() {
    return join(this.root, 'work');
  }

  get env() {
    return {
      PATH: process.env.PATH,
      HOME: this.home,
      TINE_HOME: this.home,
      OPENAI_BASE_URL: this.server.url,
      OPENAI_API_KEY: 'sk-for-tests-only',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_CONFIG_NOSYSTEM: '1',
    };
  }

  /** Waiting for a second attempt would cost real time. */
  #config() {
    const price = 'price = { input = 1000, output = 1000 }';
    return `model = "m"\n\n[retry]\nmost = 0\n\n[models.priced]\nbase_url = "${this.server.url}"\nmodel = "priced"\n${price}\n`;
  }

  /** Writes a file below the place. */
  put(name, text) {
    const path = join(this.root, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    return path;
  }

  /** Reads a file of the working directory; undefined if there is none. */
  read(name) {
    try {
      return readFileSync(join(this.work, name), 'utf8');
    } catch {
      return undefined;
    }
  }

  /** Says how something ends that must not outlive the test. */
  ends(ending) {
    this.#endings.push(ending);
  }

  /** Asks through `@anthropic-ai/claude-agent-sdk`. */
  claude(prompt, options = {}) {
    const { env, ...rest } = options;
    const query = claudeQuery({
      prompt,
      options: { cwd: this.work, pathToClaudeCodeExecutable: TINE, env: { ...this.env, ...env }, ...rest },
    });
    this.ends(() => ended(query.transport.process).then(() => query.return()));
    return new Talk(query);
  }

  /** Asks through `@qwen-code/sdk`. */
  qwen(prompt, options = {}) {
    const { env, ...rest } = options;
    // It merges what it is given into its own environment.
    const cleared = Object.fromEntries(Object.keys(process.env).map((name) => [name, '']));
    const query = qwenQuery({
      prompt,
      options: { cwd: this.work, pathToQwenExecutable: TINE, env: { ...cleared, ...this.env, ...env }, ...rest },
    });
    // It listens neither to its own first request nor to the input of a process
    // that has gone; what comes of either is read from its records.
    query.initialized.catch(() => {});
    query.transport.childProcess?.stdin?.on('error', () => {});
    this.ends(() => ended(query.transport.childProcess).then(() => query.close()));
    return new Talk(query);
  }

  /**
   * Runs a command line in a shell, as a script would, with tine in the place
   * of the other harness. Returns what it wrote and its exit code.
   */
  async script(line, { input, env = {} } = {}) {
    const child = spawn('/bin/sh', ['-c', line], {
      cwd: this.work,
      env: { ...this.env, PATH: `${dirname(TINE)}:${process.env.PATH}`, ...env },
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      detached: true,
    });
    // Whatever the shell has started is in its group.
    this.ends(() => ended(child, () => process.kill(-child.pid, 'SIGKILL')));
    const written = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr']) child[name].setEncoding('utf8').on('data', (part) => (written[name] += part));
    child.stdin?.end(input);
    const [code] = await once(child, 'close');
    const lines = written.stdout.split('\n').filter((text) => text !== '');
    return { ...written, code, lines, records: () => lines.map((text) => JSON.parse(text)) };
  }

  async #leave() {
    await this.server.stop();
    await Promise.allSettled(this.#endings.map((end) => end()));
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** A query and what has come of it. */
export class Talk {
  /** Every record so far. */
  records = [];

  constructor(query) {
    this.query = query;
  }

  /** Reads until a record fits, and returns it. */
  until(fits) {
    return awaited(this.#until(fits));
  }

  /** Reads until the next result, and returns it. */
  result() {
    return this.until((record) => record.type === 'result');
  }

  /** Reads to the end, and returns the results on the way. */
  results() {
    return awaited(this.#rest());
  }

  /** Reads to the end, which is one result. */
  only() {
    return awaited(this.#rest(1).then(([result]) => result));
  }

  async #until(fits) {
    for (;;) {
      const { value, done } = await this.query.next();
      assert.ok(!done, `the stream ended; ${this.#told()}`);
      this.records.push(value);
      if (fits(value)) return value;
    }
  }

  async #rest(count) {
    const before = this.records.length;
    for (;;) {
      const { value, done } = await this.query.next();
      if (done) break;
      this.records.push(value);
    }
    const results = this.records.slice(before).filter((record) => record.type === 'result');
    if (count !== undefined) assert.equal(results.length, count, this.#told());
    return results;
  }

  /** The records of a type, and of a subtype if one is given. */
  of(type, subtype) {
    return this.records.filter((record) => record.type === type && (!subtype || record.subtype === subtype));
  }

  get init() {
    return this.of('system', 'init')[0];
  }

  #told() {
    return this.records.map(({ type, subtype }) => (subtype ? `${type}/${subtype}` : type)).join(' ');
  }
}

/** Ends a process that a test left behind: it writes where nothing will be. */
async function ended(child, kill = () => child.kill('SIGKILL')) {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  kill();
  await once(child, 'exit');
}

/** Lets a test look at a promise later than it fails. */
function awaited(promise) {
  promise.catch(() => {});
  return promise;
}

/** An iterable that a test feeds as it goes on. */
export class Feed {
  #waiting = [];
  #wake = () => {};
  #ended = false;

  /** Sends a message: a text, or blocks, and whatever else its line holds. */
  say(content, more = {}) {
    this.#waiting.push({ type: 'user', message: { role: 'user', content }, parent_tool_use_id: null, session_id: '', ...more });
    this.#wake();
  }

  end() {
    this.#ended = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      while (this.#waiting.length > 0) yield this.#waiting.shift();
      if (this.#ended) return;
      await new Promise((resolve) => (this.#wake = resolve));
    }
  }
}

/** What a tool call gave, in a record. */
export const outputOf = (record) => record.message.content[0];
