// Sessions that are written down event by event, as tine's log has them.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The first event's time. */
const FROM = 1_790_000_000_000;

export class Log {
  lines = [];

  /** Adds an event so many milliseconds after the first. */
  put(ms, unit, kind, body = {}, { tokens = unit === 'main' ? '' : unit.replace('agent-', ''), path = unit === 'main' ? 'main' : `main.${unit}`, prompt = 1 } = {}) {
    const seq = this.lines.length + 1;
    const version = kind === 'session_opened' ? { v: 1 } : {};
    this.lines.push(JSON.stringify({ ...version, seq, at: FROM + Math.round(ms), inv: prompt, unit, branch: tokens, path, kind, body }));
    return this;
  }

  open(id, more = {}) {
    return this.put(0, 'main', 'session_opened', { session: id, version: '0.1.0', cwd: '/home/ada/work/api', model: 'opus', mode: 'default', ...more });
  }

  ask(ms, prompt, number = 1) {
    return this.put(ms, 'main', 'invocation_started', { prompt }, { prompt: number }).put(ms, 'main', 'prompted', { text: prompt }, { prompt: number });
  }

  queue(ms, unit, description, { agent = 'reviewer', call = 'call-1', parent = 'main', depth = 1, ...more } = {}, at = {}) {
    return this.put(ms, unit, 'unit_queued', { description, agent, call, parent, depth, slot: null, ...more }, at);
  }

  /** A turn: its request and what it says and calls. */
  turn(ms, took, unit, { text = '', calls = [], model = 'opus', usage = [1200, 300, 0], turn = 1, thinking = '', is_begun = false } = {}, at = {}) {
    const [input, output, cache_read] = usage;
    const nano_usd = input * 3000 + output * 15000 + cache_read * 300;
    if (!is_begun) this.put(ms, unit, 'turn_started', { turn }, at);
    return this.put(ms + took, unit, 'replied', {
      text, thinking, calls: calls.map(([id, tool, given]) => ({ id, tool, arguments: typeof given === 'string' ? given : JSON.stringify(given) })),
      model, usage: { input, output, cache_read, cache_creation: 0, nano_usd }, stop: calls.length > 0 ? 'tool_use' : 'end_turn', took_ms: took,
    }, at);
  }

  start_call(ms, unit, call, tool, subject, at = {}) {
    return this.put(ms, unit, 'tool_started', { call, tool, subject }, at);
  }

  end_call(ms, took, unit, call, tool, text, is_error = false, at = {}) {
    return this.put(ms, unit, 'tool_finished', { call, tool, text, is_error, took_ms: Math.max(Math.round(took), 1) }, at);
  }

  end(ms, unit, outcome, text = '', at = {}) {
    return this.put(ms, unit, 'unit_ended', { outcome, text, usage: { input: 1, output: 1, cache_read: 0, cache_creation: 0 }, turns: 1, tool_uses: 0, duration_ms: 1 }, at);
  }

  over(ms, outcome, text = '', number = 1) {
    return this.put(ms, 'main', 'invocation_ended', { outcome, text, unfinished: [] }, { prompt: number });
  }

  /** Writes it where tine finds it. */
  write(home, id) {
    const directory = join(home, 'sessions', 'project', id);
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, 'log.jsonl'), `${this.lines.join('\n')}\n`);
  }
}

const done = (text) => ({ state: 'done', text });

/** Sorts what was put down side by side, and numbers it anew. */
function in_order(log) {
  const events = log.lines.map((line) => JSON.parse(line)).sort((one, other) => one.at - other.at || one.seq - other.seq);
  log.lines = events.map((event, index) => JSON.stringify({ ...event, seq: index + 1 }));
  return log;
}

/** A review with five agents of which three run at once; one fails, one asks. */
export function review(id) {
  const log = new Log().open(id);
  log.ask(5, 'Review the change on this branch: what is wrong, what is missing?');
  const angles = ['correctness', 'security', 'performance', 'tests', 'clarity'];
  const tasks = angles.map((angle) => ({ description: angle, prompt: `Look for ${angle}`, subagent_type: 'reviewer' }));
  log.turn(10, 2400, 'main', { text: 'Five reviewers will look at it.', thinking: 'The change is large; five angles.', calls: [['call-1', 'Agent', { tasks }]], usage: [5200, 410, 0] });
  log.start_call(2415, 'main', 'call-1', 'Agent', '5 tasks');
  const begins = [2420, 2425, 2430, 9300, 12_900];
  const ends = [12_800, 17_400, 9_200, 15_100, 21_600];
  angles.forEach((angle, index) => {
    const unit = `agent-${index + 1}`;
    const at = { path: `main.review.${angle}` };
    log.queue(2416 + index, unit, angle, { slot: { index, total: 5 } }, at);
    log.put(begins[index], unit, 'unit_started', {}, at);
    log.put(begins[index] + 1, unit, 'prompted', { text: `Look for ${angle} in this change.\n\n--- a/src/retry.rs\n+++ b/src/retry.rs\n@@ -1,4 +1,9 @@\n fn wait() {}` }, at);
    let now = begins[index] + 3;
    let turn = 1;
    while (now < ends[index] - 3200) {
      const is_begun = index === 1 && turn === 2;
      if (is_begun) {
        log.put(now, unit, 'turn_started', { turn }, at).put(now + 1, unit, 'throttled', { model: 'opus', cause: 'provider', wait_ms: 1800 }, at).put(now + 1900, unit, 'admitted', { waited_ms: 1900 }, at);
        now += 1900;
      }
      const took = 900 + ((index * 37 + turn * 211) % 700);
      const calls = [[`${unit}-r${turn}`, 'Read', { path: `src/${angle}.rs` }], [`${unit}-g${turn}`, 'Grep', { pattern: 'retry' }]];
      log.turn(now, took, unit, { text: '', calls, usage: [900 + 400 * turn, 120 + 13 * index, 2000 * turn], turn, is_begun, model: index === 3 ? 'haiku' : 'opus' }, at);
      now += took + 4;
      for (const [call, tool] of calls) log.start_call(now, unit, call, tool, tool === 'Read' ? `src/${angle}.rs` : 'retry in src', at);
      log.end_call(now + 340, 340, unit, calls[1][0], 'Grep', 'src/retry.rs:12: fn retry()', false, at);
      log.end_call(now + 610, 610, unit, calls[0][0], 'Read', `fn ${angle}() {\n    todo!()\n}`, false, at);
      now += 620;
      turn += 1;
    }
    if (index === 0) {
      const question = { call: { call: 'bash-1', tool: 'Bash', subject: 'cargo test', arguments: '{"command":"cargo test"}', reason: 'no rule allows it', rules: ['Bash(cargo test *)'], confinement: null } };
      log.put(now, unit, 'asked', { id: 50, question }, at).put(now + 1100, unit, 'answered', { id: 50, question, answer: 'yes' }, at);
      log.start_call(now + 1105, unit, 'bash-1', 'Bash', 'cargo test', at).end_call(now + 1900, 790, unit, 'bash-1', 'Bash', 'error: test failed', true, at);
    }
    if (index === 2) {
      log.put(ends[index] - 400, unit, 'request_failed', { model: 'opus', attempt: 1, status: 500, message: 'HTTP 500: internal error', usage: { input: 0, output: 0, cache_read: 0, cache_creation: 0 }, took_ms: 300, next: 'nothing' }, at);
      log.end(ends[index], unit, { state: 'failed', kind: 'provider', message: 'the provider said 500' }, 'so far', at);
    } else {
      log.turn(ends[index] - 1200, 1150, unit, { text: `Two findings about ${angle}.`, usage: [4100, 380, 6000], turn }, at);
      log.end(ends[index], unit, done(`Two findings about ${angle}.`), `Two findings about ${angle}.`, at);
    }
  });
  log.put(21_605, 'main', 'joined', { children: angles.map((_, index) => `agent-${index + 1}`) }, { tokens: '1-5' });
  log.end_call(21_610, 19_190, 'main', 'call-1', 'Agent', '4 of 5 completed', false, { tokens: '1-5' });
  log.turn(21_615, 3100, 'main', { text: 'Eight findings, two of them serious.', usage: [9800, 900, 5200], turn: 2 }, { tokens: '1-5' });
  log.over(24_720, done('Eight findings'), 'Eight findings, two of them serious.');
  return in_order(log);
}

/** A session in which this text stands wherever a text can. */
export function hostile(id, text) {
  const at = { path: `main.${text}` };
  const other = { ...at, tokens: '1' };
  const usage = { input: 10, output: 20, cache_read: 30, cache_creation: 40, nano_usd: 50 };
  const question = { call: { call: text, tool: text, subject: text, arguments: text, reason: text, rules: [text], confinement: null } };
  const form = { form: { call: text, tool: text, arguments: text, message: text, fields: [{ name: text, header: text, text, takes: 'words', may_be_empty: false }] } };
  const log = new Log().open(id, { version: text, cwd: text, model: text, mode: text, forked_from: text });
  log.put(1, 'main', 'offered', { servers: [{ name: text, status: 'connected' }], tools: [{ name: text, server: text, remote: text, description: text, parameters: '{}' }] });
  log.ask(2, text);
  log.put(10, 'main', 'turn_started', { turn: 1 });
  log.put(20, 'main', 'request_failed', { model: text, attempt: 1, status: 529, message: text, usage, took_ms: 9, next: { retry: { delay_ms: 5, most: 10 } } });
  log.put(25, 'main', 'admitted', { waited_ms: 5 });
  log.put(40, 'main', 'replied', { text, thinking: text, calls: [{ id: text, tool: 'Agent', arguments: text }], model: text, usage, stop: 'tool_use', took_ms: 15 });
  log.start_call(41, 'main', text, 'Agent', text);
  log.queue(42, 'agent-1', text, { agent: text, call: text, slot: { index: 0, total: 1 } }, other);
  log.put(43, 'agent-1', 'unit_started', {}, other).put(44, 'agent-1', 'prompted', { text }, other);
  log.put(45, 'agent-1', 'throttled', { model: text, cause: 'in_flight' }, other).put(50, 'agent-1', 'admitted', { waited_ms: 5 }, other);
  log.put(60, 'agent-1', 'replied', { text, thinking: text, calls: [{ id: text, tool: text, arguments: text }], model: text, usage, stop: 'tool_use', took_ms: 10 }, other);
  log.put(61, 'agent-1', 'hook_ran', { event: 'PreToolUse', hook: text, call: text, outcome: 'blocked', exit_code: 2, decision: 'deny', reason: text, context: text, message: text, changes_input: true, took_ms: 1 }, other);
  log.put(62, 'agent-1', 'asked', { id: 15, question }, other).put(70, 'agent-1', 'answered', { id: 15, question, answer: 'no_because', message: text }, other);
  log.put(71, 'agent-1', 'denied', { call: text, tool: text, arguments: text, reason: text }, other);
  log.end_call(72, 1, 'agent-1', text, text, text, true, other);
  log.put(73, 'agent-1', 'asked', { id: 20, question: form }, other).put(80, 'agent-1', 'answered', { id: 20, question: form, answer: 'filled', given: [{ words: text }] }, other);
  log.put(81, 'agent-1', 'file_changed', { call: text, path: text }, other);
  log.put(82, 'agent-1', 'worktree', { kept: { path: text, patch: text, conflicts: [text] } }, other);
  log.put(83, 'agent-1', 'compacted', { trigger: 'auto', text, kept_prompts: 1, tokens_before: 9, tokens_after: 1, model: text, usage, took_ms: 1 }, other);
  log.end(90, 'agent-1', { state: 'failed', kind: 'provider', message: text }, text, other);
  log.put(91, 'main', 'joined', { children: ['agent-1'] }, { tokens: '1' });
  log.end_call(92, 50, 'main', text, 'Agent', text, true);
  log.put(93, 'main', 'notified', { children: ['agent-1'], text }).put(94, 'main', 'user_wrote', { text });
  log.put(95, 'main', 'notice', { level: 'warning', text }).put(96, 'main', 'chosen', { model: text, mode: text });
  log.over(97, { state: 'failed', kind: 'provider', message: text }, text);
  return log;
}

/** A session of about so many events: batches of agents, each with some turns. */
export function large(id, events) {
  const log = new Log().open(id);
  log.ask(1, 'Migrate every file.');
  const width = 8;
  let unit = 0;
  let now = 10;
  let turn = 1;
  while (log.lines.length < events - 200) {
    const call = `call-${turn}`;
    log.turn(now, 900, 'main', { calls: [[call, 'Agent', '{"tasks":[]}']], turn }).start_call(now + 901, 'main', call, 'Agent', '100 tasks');
    const first = unit + 1;
    const free = Array(width).fill(now + 905);
    for (let index = 0; index < 100; index += 1) {
      unit += 1;
      const name = `agent-${unit}`;
      log.queue(now + 902, name, `file ${unit}`, { agent: 'general-purpose', call, slot: { index, total: 100 } });
      const place = free.indexOf(Math.min(...free));
      let at = free[place];
      log.put(at, name, 'unit_started').put(at, name, 'prompted', { text: `Change file ${unit}.` });
      for (let step = 0; step < 3; step += 1) {
        const took = 300 + ((unit * 131 + step * 57) % 900);
        log.turn(at, took, name, { text: `step ${step}`, calls: [[`${name}-${step}`, 'Edit', `{"path":"src/file_${unit}.rs"}`]], turn: step + 1 });
        log.start_call(at + took, name, `${name}-${step}`, 'Edit', `src/file_${unit}.rs`).end_call(at + took + 40, 40, name, `${name}-${step}`, 'Edit', 'edited', unit % 97 === 0);
        at += took + 45;
      }
      log.end(at, name, unit % 53 === 0 ? { state: 'failed', kind: 'max_turns', message: '3 turns' } : done('changed'), 'changed');
      free[place] = at + 1;
    }
    now = Math.max(...free) + 5;
    log.put(now, 'main', 'joined', { children: Array.from({ length: unit - first + 1 }, (_, index) => `agent-${first + index}`) }, { tokens: `1-${unit}` });
    log.end_call(now + 1, now, 'main', call, 'Agent', 'done');
    now += 5;
    turn += 1;
  }
  log.over(now, done('all changed'), 'all changed');
  return in_order(log);
}
