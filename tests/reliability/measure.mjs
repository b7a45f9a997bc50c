// Counts what kills and signals do to a run: what is lost, what runs twice, what lives on.
//
// TINE is the binary. `npm run kills -- 60` kills 60 runs in each sandbox at random moments
// and resumes each; `npm run signals` sends three signals and kill -9 in several stages of
// a run. Both print a Markdown table. A seed (SEED, 1 by default) decides the moments.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { BACKENDS, Place, call } from './place.mjs';

const SLOTS = 10;

/** Milliseconds after which nothing of a killed run may be left. */
const GRACE = 1_000;

/** Random numbers below 1 that a seed repeats (mulberry32). */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Starts a run whose output is read and not kept. */
function run(place, flags, script) {
  const child = place.start(flags, { script });
  child.stdout.on('data', () => {});
  return child;
}

/** A batch whose slots edit, write and append. */
function batch() {
  const names = [...Array(SLOTS).keys()].map((number) => `slot${number}`);
  const tasks = names.map((name) => ({ description: name, prompt: name, subagent_type: 'general-purpose' }));
  const units = { main: [{ calls: [call('Agent', { tasks })] }, { text: 'done' }] };
  for (const name of names) {
    const file_path = `${name}.txt`;
    units[name] = [
      { calls: [call('Write', { file_path, content: 'one\n' })], delay_ms: 20 },
      { calls: [call('Edit', { file_path, old_string: 'one', new_string: 'two' })], delay_ms: 20 },
      { calls: [call('Bash', { command: `echo ran >> ${name}.log; sleep 0.2` })], delay_ms: 20 },
      { text: 'found', repeat: true },
    ];
  }
  return { units };
}

async function kills(count) {
  const next = random(Number(process.env.SEED ?? 1));
  console.log('| sandbox | kills | resumed | appended | appended twice | runs that left processes | processes |');
  console.log('|---|---|---|---|---|---|---|');
  for (const backend of Object.keys(BACKENDS)) {
    const total = { resumed: 0, appended: 0, twice: 0, runs: 0, processes: 0 };
    for (let kill = 0; kill < count; kill += 1) {
      const place = new Place(backend, batch());
      const child = run(place, ['-p', 'go']);
      const ended = once(child, 'close');
      await sleep(50 + next() * 1_200);
      child.kill('SIGKILL');
      await ended;
      await sleep(GRACE);
      const left = place.processes().length;
      total.runs += left > 0 ? 1 : 0;
      total.processes += left;
      const resumes = join(place.root, 'resumes.json');
      writeFileSync(resumes, JSON.stringify({ units: { '*': [{ text: 'resumed', repeat: true }] } }));
      const [code] = await once(run(place, ['-c', '-p', 'on'], resumes), 'close');
      // A run that was killed before its session began has none to resume.
      total.resumed += code === 0 || !existsSync(join(place.root, '.local/state/tine/sessions')) ? 1 : 0;
      for (let slot = 0; slot < SLOTS; slot += 1) {
        const file = join(place.work, `slot${slot}.log`);
        const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n').length - 1 : 0;
        total.appended += lines > 0 ? 1 : 0;
        total.twice += lines > 1 ? 1 : 0;
      }
      place.clear();
    }
    const { resumed, appended, twice, runs, processes } = total;
    console.log(`| ${backend} | ${count} | ${resumed} | ${appended} | ${twice} | ${runs} | ${processes} |`);
  }
}

/** What main does when the signal comes. */
const STAGES = {
  'before the first byte': { text: 'late', delay_ms: 60_000 },
  'a command': { calls: [call('Bash', { command: 'sleep 60' })] },
  'a command that ignores TERM': { calls: [call('Bash', { command: "trap '' TERM; while :; do sleep 1; done" })] },
  'a child in a session of its own': { calls: [call('Bash', { command: 'setsid sleep 60 & sleep 60' })] },
  'eight agents, two of them queued': {
    calls: [call('Agent', {
      tasks: [...Array(SLOTS).keys()].map((number) => ({
        description: `hang${number}`, prompt: 'hang', subagent_type: 'general-purpose',
      })),
    })],
  },
};

async function signals() {
  console.log('| sandbox | stage | signal | exit code | ended after | processes left |');
  console.log('|---|---|---|---|---|---|');
  for (const backend of Object.keys(BACKENDS)) {
    for (const [stage, reply] of Object.entries(STAGES)) {
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGKILL']) {
        const hang = [{ calls: [call('Bash', { command: 'sleep 60' })] }, { text: 'end' }];
        const units = { main: [reply, { text: 'end' }], '*': hang };
        const place = new Place(backend, { units });
        const child = run(place, ['-p', 'go']);
        const ended = once(child, 'close');
        await sleep(1_000);
        const sent = performance.now();
        child.kill(signal);
        const [code, by] = await ended;
        const took = Math.round(performance.now() - sent);
        await sleep(GRACE);
        const left = place.clear();
        console.log(`| ${backend} | ${stage} | ${signal} | ${code ?? by} | ${took} ms | ${left} |`);
      }
    }
  }
}

const [what, count] = process.argv.slice(2);
switch (what) {
  case 'kills':
    await kills(Number(count ?? 60));
    break;
  case 'signals':
    await signals();
    break;
  default:
    assert.fail('say what to measure: kills or signals');
}
