// Ten thousand rows through `tine map`, killed again and again: no row is lost,
// and none is asked again whose answer is on disk.
//
// TINE is the binary. Nothing is timed here; `cargo bench -- map` does that.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

const TINE = process.env.TINE;
assert.ok(TINE, 'set TINE to the binary: TINE=$PWD/target/release/tine npm test');

const ROWS = 10_000;
const AT_ONCE = 16;
const SESSION = '0199a000-0000-4000-8000-000000000002';

/** At how many requests in all the process is killed: early, in the middle, and with its last rows at work. */
const KILLS = [700, 5_000, 5_003, ROWS];

/** What a process may hold at most, in KiB. */
const MEMORY = 200 * 1024;

/** A model that says which row it was asked for, and counts. */
class Model {
  asked = new Map();
  total = 0;
  #waiting = [];

  static async start() {
    const model = new Model();
    model.http = createServer((request, response) => model.#answer(request, response));
    model.http.listen(0, '127.0.0.1');
    await once(model.http, 'listening');
    model.url = `http://127.0.0.1:${model.http.address().port}/v1`;
    return model;
  }

  /** Calls once so many requests have come in all. */
  at(total, call) {
    this.#waiting.push({ total, call });
  }

  async #answer(request, response) {
    const pieces = [];
    try {
      for await (const piece of request) pieces.push(piece);
    } catch {
      return; // Killed while it was sending.
    }
    const body = Buffer.concat(pieces).toString();
    const row = /^r\d+/.exec(body.slice(body.lastIndexOf('Look at ') + 'Look at '.length))[0];
    this.asked.set(row, (this.asked.get(row) ?? 0) + 1);
    this.total += 1;
    const due = this.#waiting.filter(({ total }) => total <= this.total);
    this.#waiting = this.#waiting.filter(({ total }) => total > this.total);
    for (const { call } of due) call();
    const chunk = (choices, more = {}) => `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices, ...more })}\n\n`;
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(chunk([{ index: 0, delta: { role: 'assistant', content: `saw ${row}` }, finish_reason: null }]));
    response.write(chunk([{ index: 0, delta: {}, finish_reason: 'stop' }]));
    response.end(`${chunk([], { usage })}data: [DONE]\n\n`);
  }
}

/** The most memory that a process has held, in KiB; undefined once it is gone. */
function peak(pid) {
  try {
    const [, most] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return most && Number(most);
  } catch {
    return undefined;
  }
}

/** The rows that have ended well, by the session's log. A torn last line says nothing. */
function ended(log) {
  const [rows, done] = [new Map(), new Set()];
  const lines = readFileSync(log, 'utf8').split('\n').slice(0, -1);
  for (const { kind, unit, body } of lines.map((line) => JSON.parse(line))) {
    if (kind === 'unit_queued') rows.set(unit, `r${/^rows\[(\d+)\]$/.exec(body.description)[1]}`);
    if (kind === 'unit_ended' && body.outcome.state === 'done' && rows.has(unit)) done.add(rows.get(unit));
  }
  return done;
}

test('ten thousand rows that are killed again and again are each answered, none twice, in 200 MB', async (t) => {
  const root = mkdtempSync(join(tmpdir(), 'tine-map-'));
  const model = await Model.start();
  t.after(() => {
    model.http.closeAllConnections();
    model.http.close();
    rmSync(root, { recursive: true, force: true });
  });
  writeFileSync(join(root, 'p.md'), 'Look at {{ name }}');
  writeFileSync(join(root, 'items.csv'), `name\n${Array.from({ length: ROWS }, (_, row) => `r${row}\n`).join('')}`);
  const env = { PATH: process.env.PATH, HOME: root, TINE_HOME: root, OPENAI_BASE_URL: model.url, OPENAI_API_KEY: 'sk-for-tests-only' };
  const fixed = ['map', '--input', 'items.csv', '--prompt', 'p.md', '--output', 'out.jsonl', '-m', 'm', '--config', 'retry.most=0', '--max-concurrent', `${AT_ONCE}`];
  const run = async (flags, kill) => {
    const child = spawn(TINE, [...fixed, ...flags], { cwd: root, env, stdio: ['ignore', 'inherit', 'pipe'] });
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (part) => (said += part));
    if (kill) model.at(kill, () => child.kill('SIGKILL'));
    let most = 0;
    const looking = setInterval(() => (most = peak(child.pid) ?? most), 20);
    const [code, signal] = await once(child, 'close');
    clearInterval(looking);
    assert.ok(most > 0 && most <= MEMORY, `it held ${most} KiB`);
    return { code, signal, said };
  };
  const log = () => join(root, readdirSync(root, { recursive: true }).find((name) => name.endsWith(`${SESSION}/log.jsonl`)));

  let done = new Set();
  for (const [index, kill] of KILLS.entries()) {
    const killed = await run(index === 0 ? ['--session-id', SESSION] : ['--resume', SESSION], kill);
    assert.equal(killed.signal, 'SIGKILL', killed.said);
    done = ended(log());
    // A place is free only once a row's end is on disk.
    assert.ok(done.size >= kill - (index + 1) * AT_ONCE && done.size <= kill, `${done.size} of ${kill}`);
  }
  const asked = new Map(model.asked);
  const last = await run(['--resume', SESSION]);
  assert.equal(last.code, 0, last.said);
  const lines = readFileSync(join(root, 'out.jsonl'), 'utf8').split('\n').slice(0, -1).map((line) => JSON.parse(line));
  assert.equal(lines.length, ROWS);
  for (const [index, { id, row, status, result, error, usage, from_before }] of lines.entries()) {
    const name = `r${index}`;
    assert.deepEqual(
      { id, row, status, result, error, tokens: usage.input_tokens, from_before },
      { id: `${index + 1}`, row: index + 1, status: 'completed', result: `saw ${name}`, error: null, tokens: 10, from_before: done.has(name) },
    );
    if (done.has(name)) assert.equal(model.asked.get(name), asked.get(name), `${name} was asked again`);
  }
  assert.equal(model.asked.size, ROWS);
  const again = model.total - ROWS;
  assert.ok(again <= KILLS.length * AT_ONCE, `${again} rows were asked again`);
  assert.match(last.said, new RegExp(`${ROWS} completed \\(${done.size} before\\)`));
});
