// A run of tine that is read to its end, with what it says and uses, and a row of a table of runs.

import { once } from 'node:events';
import { readFileSync, readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import { Place } from './place.mjs';

/** Milliseconds without a record after which a run counts as hung. */
const HANG = 120_000;

/** Characters that no output of a call exceeds, with room for its notes. */
const OUTPUT_CAP = 20_000;

/** Clock ticks in a second, the unit of CPU time in /proc. */
const TICKS = 100;

/** Returns what a process holds and has used; null once it is gone. */
function usage(pid) {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const field = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)[1]);
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [user, system] = stat.slice(stat.lastIndexOf(')') + 2).split(' ').slice(11, 13).map(Number);
    return {
      resident: field('VmRSS') / 1024,
      peak: field('VmHWM') / 1024,
      threads: field('Threads'),
      descriptors: readdirSync(`/proc/${pid}/fd`).length,
      cpu: (user + system) / TICKS,
    };
  } catch {
    return null;
  }
}

/** A run that is read to its end. `outputs` are those of the main conversation, in order; `agents` are all others. */
export class Run {
  outputs = [];
  agents = [];
  notes = [];
  result = null;
  peak = 0;
  stderr = '';
  isHung = false;
  #begun = new Map();

  static async of(place, { flags = ['-p', 'go'], bytesPerSecond = 0, ...start } = {}) {
    const run = new Run();
    const child = place.start([...flags, '-o', 'stream-json'], { ...start, stderr: 'pipe' });
    child.stderr.setEncoding('utf8').on('data', (part) => (run.stderr += part));
    const ended = once(child, 'close');
    const hung = setTimeout(() => {
      run.isHung = true;
      child.kill('SIGKILL');
    }, HANG);
    const looks = setInterval(() => (run.peak = usage(child.pid)?.peak ?? run.peak), 50);
    let rest = '';
    for await (const part of child.stdout.setEncoding('utf8')) {
      hung.refresh();
      const lines = (rest + part).split('\n');
      rest = lines.pop();
      for (const line of lines) run.#see(JSON.parse(line), child.pid);
      if (bytesPerSecond > 0) await sleep((part.length / bytesPerSecond) * 1_000);
    }
    [run.code, run.signal] = await ended;
    clearTimeout(hung);
    clearInterval(looks);
    return run;
  }

  #see(record, pid) {
    if (record.type === 'result') this.result = record;
    if (record.subtype === 'informational') this.notes.push(record.content);
    for (const part of record.message?.content ?? []) {
      if (record.parent_tool_use_id !== null) {
        if (part.type === 'tool_result') this.agents.push(part);
        continue;
      }
      const now = { at: performance.now(), ...usage(pid) };
      if (part.type === 'tool_use') this.#begun.set(part.id, { name: part.name, now });
      if (part.type !== 'tool_result') continue;
      const { name, now: begun } = this.#begun.get(part.tool_use_id);
      const text = typeof part.content === 'string' ? part.content : JSON.stringify(part.content);
      this.outputs.push({ ...now, name, text, isError: part.is_error, took: (now.at - begun.at) / 1_000, used: now.cpu - begun.cpu });
    }
  }

  /** How it ended, in a few words. */
  get end() {
    if (this.isHung) return 'hung';
    return this.signal ?? (this.code === 0 ? 'fine' : `exit code ${this.code}`);
  }

  get isDone() {
    return this.code === 0 && this.result?.result === 'done';
  }

  /** Whether it succeeded, or failed with a sentence and no crash. */
  get isClear() {
    const isCrash = /panicked|overflowed its stack|stack backtrace/.test(this.stderr);
    return !isCrash && (this.isDone || (this.code > 0 && /^(error|hint|tine): ./m.test(this.stderr)));
  }
}

/** A row of the table under way: it gathers faults and places. */
export class Row {
  faults = [];
  #places = [];

  place(main, more = {}) {
    const place = new Place('bubblewrap', { units: { main: [...main, { text: 'done' }], ...more } });
    this.#places.push(place);
    return place;
  }

  /** Notes a fault unless `holds`. */
  check(holds, fault) {
    if (!holds) this.faults.push(fault);
  }

  /** Checks that a run succeeded, with all its outputs, none too long. */
  checkDone(run, count, what = 'the run') {
    const said = run.stderr.trim().split('\n').slice(0, 2).join(' ');
    this.check(run.isDone, `${what}: ${run.end}, answer ${JSON.stringify(run.result?.result ?? null)}, ${said}`);
    this.check(run.outputs.length === count, `${what}: ${run.outputs.length} of ${count} outputs`);
    const longest = run.outputs.reduce((most, { text }) => Math.max(most, text.length), 0);
    this.check(longest <= OUTPUT_CAP, `${what}: an output of ${longest} characters`);
  }

  /** Checks that no call of a run failed. */
  checkOutputs(run, what = 'the run') {
    const failed = run.outputs.find(({ isError }) => isError);
    this.check(!failed, `${what}: ${failed?.name}: ${failed?.text.slice(0, 200)}`);
  }

  /** Checks that a run succeeded or failed with a clear error, and returns how it ended. */
  clearEnd(run, what) {
    this.check(run.isClear, `${what}: ${run.end} without a clear error: ${run.stderr.slice(0, 200)}`);
    return run.end;
  }

  clear() {
    for (const place of this.#places) place.clear();
  }
}
