// Measures runs at the limits of a machine: full disks, resource limits, large files, many
// files, many runs at once, floods of output, and the memory of long runs.
//
// TINE is the binary. `npm run limits` prints a Markdown table, and exits with 1 if a run
// has lost something, hangs, or fails without a clear error. Options: `--files 1000000`
// (200000 by default), `--scale 0.1` for shorter runs, `--only memory` for rows whose name
// matches. It needs Linux; some rows need a mount namespace or faketime, and say so. Files
// are made in TMPDIR: a million of them take 4 GB.

import { spawnSync } from 'node:child_process';
import {
  closeSync, existsSync, ftruncateSync, mkdirSync, openSync, readFileSync, readdirSync,
} from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { TINE, call } from './place.mjs';
import { Row, Run } from './run.mjs';

const { values: options } = parseArgs({
  options: {
    files: { type: 'string', default: '200000' },
    scale: { type: 'string', default: '1' },
    only: { type: 'string', default: '' },
  },
});
const FILES = Number(options.files);

const LARGE = 2 * 2 ** 30;

/** Returns a count of the table, or less with `--scale`. */
const scaled = (count) => Math.max(8, Math.round(count * Number(options.scale)));

const numbers = (count) => [...Array(count).keys()];

const seconds = (value) => `${value.toFixed(2)} s`;

/** A prefix that makes a mount namespace, with root or a user namespace; null if there is none. */
const NAMESPACE = [['unshare', '-m'], ['unshare', '-rm']].find(([program, ...flags]) => (
  spawnSync(program, [...flags, 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0
)) ?? null;

const NO_NAMESPACE = 'skipped: needs root or user namespaces';

/** The library of faketime, which moves the clock of a process. */
const FAKETIME = process.env.FAKETIME_LIB ?? ['x86_64', 'aarch64']
  .map((machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`).find(existsSync);

/** Wraps a run in shell commands that are run before it, such as `ulimit`. */
const after = (commands, prefix = []) => [...prefix, 'bash', '-c', `${commands} && exec "$@"`, 'bash'];

const turn = (name, args) => ({ calls: [call(name, args)] });

/** Turns that read, write and edit, and fill 1.5 MB of log. */
const work = () => [
  ...numbers(120).map((number) => turn('Read', { file_path: 'long.txt', offset: 1 + number, limit: 200 })),
  turn('Write', { file_path: 'new.txt', content: 'one\n' }),
  turn('Edit', { file_path: 'new.txt', old_string: 'one', new_string: 'two' }),
];

const LONG = 'a line of fifty characters, again and again, so on\n'.repeat(1_000);

async function stateFull(row) {
  if (!NAMESPACE) return NO_NAMESPACE;
  const ends = [];
  for (const size of ['64k', '256k', '1m']) {
    const place = row.place(work());
    place.write('long.txt', LONG);
    const mount = `mkdir -p "$HOME/.local/state" && mount -t tmpfs -o size=${size} none "$HOME/.local/state"`;
    const run = await Run.of(place, { wrap: after(mount, NAMESPACE) });
    row.checkDone(run, 122, size);
    row.check(readFileSync(join(place.work, 'new.txt'), 'utf8') === 'two\n', `${size}: the edit is lost`);
    const isTold = run.notes.some((note) => /No space left/.test(note));
    row.check(isTold, `${size}: not a word about the full disk`);
    ends.push(`${size}: ${run.end}, ${run.outputs.length} of 122 outputs, ${isTold ? 'told' : 'not told'}`);
  }
  return ends.join('; ');
}

async function workspaceFull(row) {
  if (!NAMESPACE) return NO_NAMESPACE;
  const more = 'x'.repeat(90_000);
  const place = row.place([
    turn('Read', { file_path: 'old.txt' }),
    turn('Edit', { file_path: 'old.txt', old_string: 'old', new_string: more }),
    turn('Write', { file_path: 'new.txt', content: more }),
    turn('Read', { file_path: 'old.txt' }),
    turn('Glob', { pattern: '**/*', include_ignored: true }),
  ]);
  const mount = 'mount -t tmpfs -o size=64k none "$PWD" && cd "$PWD" && echo old > old.txt';
  const run = await Run.of(place, { wrap: after(mount, NAMESPACE) });
  row.checkDone(run, 5);
  const [before, edit, write, still, names] = run.outputs;
  row.check(edit?.isError && write?.isError, 'Edit or Write reports no error');
  row.check(still?.text === before?.text, 'the original is lost');
  row.check(names?.text.trim() === 'old.txt', `left behind: ${names?.text}`);
  return `${run.end}; Edit: ${edit?.text.trim()}`;
}

async function stateReadOnly(row) {
  if (!NAMESPACE) return NO_NAMESPACE;
  const place = row.place([]);
  const mount = 'mkdir -p "$HOME/.local/state" && mount -t tmpfs -o ro none "$HOME/.local/state"';
  const run = await Run.of(place, { wrap: after(mount, NAMESPACE) });
  return `${row.clearEnd(run, 'read-only')}: ${firstLine(run)}`;
}

async function noHome(row) {
  const run = await Run.of(row.place([]), { env: { HOME: undefined } });
  return `${row.clearEnd(run, 'no HOME')}: ${firstLine(run)}`;
}

const firstLine = (run) => run.stderr.trim().split('\n')[0] || run.notes[0] || 'no message';

/** Sixteen agents that each read and run a command, under a resource limit. */
function limited(limits) {
  return async (row) => {
    const ends = [];
    for (const limit of limits) {
      const place = row.place([batch(16)], { '*': [turn('Bash', { command: 'echo ran' }), { text: 'found', repeat: true }] });
      const run = await Run.of(place, { wrap: after(`ulimit ${limit}`) });
      const found = run.outputs[0]?.text.match(/^found$/gm)?.length ?? 0;
      const end = row.clearEnd(run, `ulimit ${limit}`);
      const panic = run.outputs[0]?.text.match(/^.*panicked.*$/m);
      row.check(!panic, `ulimit ${limit}: ${panic}`);
      row.check(!run.isDone || panic || found === 16 || /failed/.test(run.outputs[0].text), `ulimit ${limit}: ${found} of 16 slots`);
      const failed = run.agents.filter((output) => output.is_error);
      const said = [run.isDone && !run.notes[0] ? '' : firstLine(run), failed[0]?.content].filter(Boolean).join('; ');
      ends.push(`${limit}: ${end}, ${found} of 16 slots, ${run.agents.length - failed.length} commands${said && ` (${said})`}`);
    }
    return ends.join('; ');
  };
}

/** A call of a batch of agents. Each call differs, since repeated calls are stopped. */
function batch(count, label = '') {
  const tasks = numbers(count).map((number) => ({ description: `slot${number}`, prompt: `look ${label}`, subagent_type: 'general-purpose' }));
  return turn('Agent', { tasks });
}

async function largeFile(row) {
  const calls = {
    Read: turn('Read', { file_path: 'large.txt', limit: 10 }),
    'Read behind the text': turn('Read', { file_path: 'large.txt', offset: 5_000 }),
    'Grep of none': turn('Grep', { pattern: 'not there', path: 'large.txt' }),
    Edit: turn('Edit', { file_path: 'large.txt', old_string: 'again', new_string: 'once' }),
  };
  const place = row.place(Object.values(calls));
  const file = openSync(place.write('large.txt', LONG), 'r+');
  ftruncateSync(file, LARGE);
  closeSync(file);
  const run = await Run.of(place);
  row.checkDone(run, 4);
  row.check(run.outputs[3]?.isError, 'Edit of 2 GB is not refused');
  const named = await Run.of(row.place([]), { flags: ['-p', `look at @${join(place.work, 'large.txt')}`] });
  row.checkDone(named, 0, '@file');
  const took = Object.keys(calls).map((name, index) => `${name} ${seconds(run.outputs[index]?.took ?? NaN)}`);
  return `${took.join(', ')}; @file ${named.end}; ${peak(run)}`;
}

const peak = (run) => `${run.peak.toFixed(0)} MB at most`;

async function manyFiles(row) {
  const grep = (pattern) => turn('Grep', { pattern });
  const searches = {
    'Glob of all': [turn('Glob', { pattern: '**/*' })],
    'Glob of one': [turn('Glob', { pattern: '**/f7.txt' })],
    'Grep of none (best of three)': ['absent1', 'absent2', 'absent3'].map(grep),
    'Grep of many': [grep('file')],
    'a sandboxed command': [turn('Bash', { command: 'echo ran' })],
  };
  const place = row.place(Object.values(searches).flat());
  for (let number = 0; number < FILES; number += 1) {
    const directory = `d${Math.floor(number / 1_000)}`;
    if (number % 1_000 === 0) mkdirSync(join(place.work, directory));
    place.write(`${directory}/f${number}.txt`, `file ${number}\n`);
  }
  const run = await Run.of(place);
  row.checkDone(run, 7);
  const outputs = [...run.outputs];
  const took = Object.entries(searches).map(([name, { length }]) => {
    const [best] = outputs.splice(0, length).sort((one, other) => one.took - other.took);
    row.check(best && !best.isError, `${name}: ${best?.text.slice(0, 200)}`);
    return `${name} ${seconds(best?.took ?? NaN)} (CPU ${seconds(best?.used ?? NaN)})`;
  });
  return `${took.join(', ')}; ${peak(run)}`;
}

/** Returns the days between the first and the last line of the one session log. */
function sessionDays(place) {
  const sessions = join(place.root, '.local/state/tine/sessions');
  const log = readdirSync(sessions, { recursive: true }).find((name) => name.endsWith('/log.jsonl'));
  const times = readFileSync(join(sessions, log), 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line).at);
  return (times.at(-1) - times[0]) / 86_400_000;
}

async function clockMoves(row) {
  if (!FAKETIME) return 'skipped: needs faketime (FAKETIME_LIB is its library)';
  const ends = [];
  for (const shift of ['+1d', '-1d', '+10y', '-30y']) {
    const place = row.place([
      turn('Bash', { command: `echo '${shift}' > clock` }),
      { ...turn('Bash', { command: 'sleep 20', timeout: 1_000 }), delay_ms: 500 },
    ]);
    const env = { LD_PRELOAD: FAKETIME, FAKETIME_TIMESTAMP_FILE: place.write('clock', '+0'), FAKETIME_NO_CACHE: '1', FAKETIME_DONT_FAKE_MONOTONIC: '1' };
    const begun = performance.now();
    const run = await Run.of(place, { env });
    const took = performance.now() - begun;
    row.checkDone(run, 2, shift);
    row.check(took < 10_000 && run.outputs[1]?.took > 0.9, `${shift}: a timeout of 1 s took ${seconds(run.outputs[1]?.took ?? NaN)}`);
    const said = run.result?.duration_ms;
    row.check(said > 1_400 && said <= took, `${shift}: \`duration_ms\` is ${said} after ${took.toFixed(0)} ms`);
    const resumed = await Run.of(place, { flags: ['-c', '-p', 'on'], env, script: place.write('../then.json', '{"units": {}, "then": {"text": "done"}}') });
    row.checkDone(resumed, 0, `${shift}: resumed`);
    const days = sessionDays(place);
    row.check(Math.abs(days) > 0.9, `${shift}: the clock has not moved`);
    ends.push(`${shift}: ${days.toFixed(0)} days in the log, ${run.end}, \`duration_ms\` ${said} of ${took.toFixed(0)}, resumed: ${resumed.end}`);
  }
  return ends.join('; ');
}

async function atOnce(row) {
  const ends = [];
  for (const count of [16, 64]) {
    const place = row.place([]);
    const runs = await Promise.all(numbers(count).map((number) => {
      const main = [
        turn('Write', { file_path: `run${number}.txt`, content: 'one\n' }),
        turn('Edit', { file_path: `run${number}.txt`, old_string: 'one', new_string: 'two' }),
        turn('Bash', { command: `echo ran >> run${number}.log` }),
        { text: 'done' },
      ];
      return Run.of(place, { script: place.write(`../script${number}.json`, JSON.stringify({ units: { main } })) });
    }));
    runs.forEach((run, number) => {
      row.checkDone(run, 3, `run ${number} of ${count}`);
      row.checkOutputs(run, `run ${number} of ${count}`);
    });
    const text = (name) => (existsSync(join(place.work, name)) ? readFileSync(join(place.work, name), 'utf8') : null);
    const whole = numbers(count).filter((number) => text(`run${number}.txt`) === 'two\n' && text(`run${number}.log`) === 'ran\n').length;
    row.check(whole === count, `${count - whole} of ${count} runs lost a change`);
    const env = { HOME: place.root, PATH: place.path };
    const listed = spawnSync(TINE, ['sessions', 'list', '--all', '--json'], { cwd: place.work, env, encoding: 'utf8' });
    const sessions = listed.stdout.split('\n').filter(Boolean).length;
    row.check(sessions === count, `${sessions} of ${count} sessions are listed`);
    const noted = runs.filter(({ stderr }) => stderr);
    ends.push(`${whole} of ${count} whole, ${sessions} sessions listed, ${noted.length} with a note${noted.length ? ` (${firstLine(noted[0])})` : ''}`);
  }
  return ends.join('; ');
}

async function floods(row) {
  const commands = {
    yes: 'yes | head -c 200000000',
    'yes without end': 'yes',
    urandom: 'head -c 50000000 /dev/urandom',
    'a line of 50 MB': "head -c 50000000 /dev/zero | tr '\\0' x",
    'standard error': 'head -c 20000000 /dev/zero >&2; head -c 20000000 /dev/zero',
  };
  const turns = Object.values(commands).map((command) => turn('Bash', { command, timeout: 2_000 }));
  const run = await Run.of(row.place(turns));
  row.checkDone(run, turns.length);
  const took = Object.keys(commands).map((name, index) => `${name} ${seconds(run.outputs[index]?.took ?? NaN)}`);
  return `${took.join(', ')}; ${peak(run)}`;
}

async function slowReader(row) {
  const count = scaled(60);
  const place = row.place(numbers(count).map((number) => turn('Read', { file_path: 'long.txt', offset: 1 + number, limit: 200 })));
  place.write('long.txt', LONG);
  const begun = performance.now();
  const run = await Run.of(place, { bytesPerSecond: 10 * 1024 });
  row.checkDone(run, count);
  return `${run.outputs.length} of ${count} outputs after ${seconds((performance.now() - begun) / 1_000)}; ${peak(run)}`;
}

/** Returns memory, threads and descriptors after the first, some further and the last output. */
function growth(run, places = []) {
  const all = run.outputs.filter(({ resident }) => resident);
  if (all.length === 0) return 'nothing was measured';
  const looks = [0, ...places, all.length - 1].filter((index) => index < all.length).map((index) => all[index]);
  const each = (name) => looks.map((look) => look[name].toFixed(0)).join(', ');
  return `${all.length} outputs: ${each('resident')} MB; ${each('threads')} threads; ${each('descriptors')} descriptors; ${peak(run)}`;
}

async function turnsMemory(row) {
  const count = scaled(3_000);
  const place = row.place(numbers(count).map((number) => turn('Read', { file_path: 'long.txt', offset: 1 + number, limit: 1 })));
  place.write('long.txt', LONG.repeat(3));
  const run = await Run.of(place);
  row.checkDone(run, count);
  row.checkOutputs(run);
  return growth(run);
}

async function commandsMemory(row) {
  const count = scaled(600);
  const run = await Run.of(row.place(numbers(count).map((number) => turn('Bash', { command: `echo ran ${number}` }))));
  row.checkDone(run, count);
  row.check(run.outputs.every(({ text }, number) => text.includes(`ran ${number}`)), 'a command has not run');
  return growth(run);
}

/** Batches of eight agents, each with `first` before its answer. */
function batchesMemory(most, first, places) {
  return async (row) => {
    const count = scaled(most);
    const place = row.place(numbers(count).map((number) => batch(8, number)), { '*': [...first, { text: 'found', repeat: true }] });
    const run = await Run.of(place);
    row.checkDone(run, count);
    const short = run.outputs.filter(({ text }) => text.match(/^found$/gm)?.length !== 8).length;
    row.check(short === 0, `${short} of ${count} batches lack an answer`);
    const ran = run.agents.filter(({ is_error: isError }) => !isError).length;
    row.check(ran === 8 * count * first.length, `${ran} of ${8 * count * first.length} calls of agents succeeded`);
    return growth(run, places);
  };
}

const ROWS = {
  'state on a tmpfs that fills': stateFull,
  'workspace on a tmpfs that fills': workspaceFull,
  'state read-only': stateReadOnly,
  'no HOME': noHome,
  'ulimit -n': limited(['-n 64', '-n 24', '-n 12']),
  'ulimit -v': limited(['-v 400000', '-v 150000']),
  'ulimit -s': limited(['-s 256']),
  'ulimit -f': limited(['-f 8']),
  'a file of 2 GB': largeFile,
  [`${FILES} files`]: manyFiles,
  'the clock moves in the middle': clockMoves,
  '16 and 64 runs at once in one state directory': atOnce,
  'floods of output': floods,
  'a reader at 10 KiB/s': slowReader,
  'memory: 3,000 turns': turnsMemory,
  'memory: 600 sandboxed commands': commandsMemory,
  'memory: 200 batches of 8, each slot a sandboxed command': batchesMemory(200, [turn('Bash', { command: 'echo ran' })]),
  'memory: 1,000 batches of 8 (first, 200th, last)': batchesMemory(1_000, [], [199]),
};

console.log('| try | measured | took | lost, hung or unclear |');
console.log('|---|---|---|---|');
for (const [name, measure] of Object.entries(ROWS)) {
  if (!new RegExp(options.only).test(name)) continue;
  const row = new Row();
  const begun = performance.now();
  let measured;
  try {
    measured = await measure(row);
  } finally {
    row.clear();
  }
  const cell = (text) => text.replaceAll('\n', ' ').replaceAll('|', '\\|');
  const faults = row.faults.slice(0, 5).join('; ') || '-';
  console.log(`| ${name} | ${cell(measured)} | ${seconds((performance.now() - begun) / 1_000)} | ${cell(faults)} |`);
  if (row.faults.length > 0) process.exitCode = 1;
}
