// The trace page of sessions that tine itself has made: a review by a flow, and
// one that was interrupted and went on.
//
// TINE is the binary. With PICTURES=DIR the views are put there as pictures.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { call, held, ModelServer } from '../clients/server.mjs';
import { Browser } from './browser.mjs';

const TINE = process.env.TINE;
assert.ok(TINE, 'set TINE to the binary: TINE=$PWD/target/release/tine npm test');

const ID = '0199a000-0000-4000-8000-000000000002';

/** What reviewers look for, each for itself. */
const ANGLES = ['correctness', 'security', 'tests', 'performance', 'clarity'];

/** Most requests that a test makes: an answer waits for each. */
const MOST = 100;

/** A repository with a change of one file, a model, and what ends with the test. */
class Place {
  /** All that was started. */
  runs = [];

  static async make(t) {
    const place = new Place();
    place.root = mkdtempSync(join(tmpdir(), 'tine-real-'));
    place.work = join(place.root, 'work');
    place.server = await ModelServer.start();
    t.after(async () => {
      for (const run of place.runs) run.kill('SIGKILL');
      await place.server.stop();
      rmSync(place.root, { recursive: true, force: true });
    });
    mkdirSync(place.work);
    const git = (...words) => {
      const made = spawnSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@localhost', ...words], { cwd: place.work, env: place.env, encoding: 'utf8' });
      assert.equal(made.status, 0, made.stderr);
    };
    git('init', '--quiet');
    writeFileSync(join(place.work, 'half.rs'), 'fn half() {}\n');
    git('add', '.');
    git('commit', '--quiet', '-m', 'Begin');
    writeFileSync(join(place.work, 'half.rs'), 'fn half(text: &str) -> u32 {\n    text.parse::<u32>().unwrap() / 2\n}\n');
    return place;
  }

  get env() {
    return {
      PATH: process.env.PATH,
      HOME: this.root,
      TINE_HOME: this.root,
      OPENAI_BASE_URL: this.server.url,
      OPENAI_API_KEY: 'sk-for-tests-only',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_CONFIG_NOSYSTEM: '1',
    };
  }

  /** Starts tine; what it ends with is known by `ended`. */
  start(...flags) {
    const run = spawn(TINE, flags, { cwd: this.work, env: this.env, stdio: ['ignore', 'ignore', 'pipe'] });
    this.runs.push(run);
    run.said = '';
    run.stderr.setEncoding('utf8').on('data', (part) => (run.said += part));
    run.ended = once(run, 'close').then(([code]) => code);
    return run;
  }

  /** Has the change reviewed, and returns what was said meanwhile. */
  async reviews(...flags) {
    const run = this.start('review', '-m', 'm', '--config', 'retry.most=0', ...flags);
    assert.equal(await run.ended, 0, run.said);
    assert.deepEqual(this.server.faults, []);
    return run.said;
  }

  /** Writes the page of the session and returns where it is. */
  async page() {
    const run = this.start('trace', ID, '-o', 'trace.html');
    assert.equal(await run.ended, 0, run.said);
    return pathToFileURL(join(this.work, 'trace.html')).href;
  }
}

/** What a reviewer, or whoever checks what one has found, answers. */
function react(request) {
  const gives = (answer) => call('StructuredOutput', answer);
  if (request.outputs.length === 0) return call('Read', { file_path: 'half.rs' });
  if (request.prompt.includes('Finding: ')) return gives({ verdict: 'confirmed', reason: 'I looked.' });
  const finding = { path: 'half.rs', line: 2, severity: 'high', title: 'text without a number ends the program', reason: '`unwrap` panics on "x"' };
  return gives({ findings: request.prompt.includes('for correctness') ? [finding] : [] });
}

const names = (unit) => `trace.order.filter((unit) => ${unit}).map(unit_name)`;
const figure = (name) => `[...document.querySelectorAll('.figure-card')].find((it) => it.firstChild.textContent === ${JSON.stringify(name)}).lastChild.textContent`;

/** Looks at each view. */
async function look(page, name) {
  for (const view of ['branches', 'path', 'cost', 'timeline']) {
    await page.run(`byId('tab-${view}').click()`);
    await page.settle();
    await page.picture(`${name}-${view}`);
  }
}

test('the page of a real review lists its agents, and its branches part and come back', async (t) => {
  const place = await Place.make(t);
  place.server.when('', ...Array(MOST).fill(react));
  const said = await place.reviews('--session-id', ID);
  const browser = await Browser.start(t);
  const page = await browser.open(await place.page());
  await look(page, 'real');
  assert.equal(await page.run(`byId('warnings').hidden`), true, 'every line of the log is one');
  const agents = await page.run(names(`unit.id !== 'main' && unit.begins_with !== 'steps'`));
  const parts = ANGLES.map((angle) => `${angle}[0]`);
  assert.deepEqual(agents.filter((name) => parts.includes(name)).sort(), [...parts].sort());
  assert.equal(agents.length, ANGLES.length + 1, `${agents}: somebody checks the one finding`);
  const shown = await page.run(`[...document.querySelectorAll('#view-timeline [role=treeitem] .name')].map((row) => row.textContent)`);
  assert.ok(shown[0] === 'main' && parts.every((name) => shown.includes(name)), shown);
  // Whoever parts from a branch comes back to it.
  const children = (kind) => `[...trace.branches.values()].filter((it) => it.kind === '${kind}').flatMap((it) => it.children).sort()`;
  const parted = await page.run(children('split'));
  assert.deepEqual(await page.run(children('join')), parted);
  assert.deepEqual(parted, (await page.run(`[...trace.units.keys()].filter((id) => id !== 'main').sort()`)));
  assert.deepEqual(await page.run('[graph.splits.size, graph.joins.size]'), [parted.length, parted.length]);
  // What holds the branch of an angle's parts is a row, and no agent.
  assert.deepEqual((await page.run(names(`unit.begins_with === 'steps'`))).sort(), [...ANGLES].sort());
  page.check();
  assert.equal(await page.run(figure('Agents')), String(agents.length));
  assert.ok(!said.includes('(for_each)'), said);
});

test('the head of a page counts whoever was asked, and no one that was answered before', async (t) => {
  const place = await Place.make(t);
  const gate = place.server.gate();
  const [flags, done] = [['--config', 'agents.max_concurrent=1'], new Set()];
  // One at a time: when the second reviewer asks, the first has ended.
  const first = (request) => {
    done.add(request.prompt);
    return done.size > 1 ? held(gate, react(request)) : react(request);
  };
  place.server.when('', ...Array(MOST).fill(first));
  const run = place.start('review', '-m', 'm', '--config', 'retry.most=0', ...flags, '--session-id', ID);
  await Promise.race([gate.reached(1), run.ended.then((code) => assert.fail(`it ended with ${code}: ${run.said}`))]);
  run.kill('SIGINT');
  assert.equal(await run.ended, 130, run.said);
  place.server.when('', ...Array(MOST).fill(react));
  const said = await place.reviews(...flags, '-c');
  const browser = await Browser.start(t);
  const page = await browser.open(await place.page());
  await look(page, 'went-on');
  assert.equal(await page.run('trace.prompts.length'), 2);
  assert.equal(await page.run('looked.prompt'), 2);
  const [reused, ...more] = await page.run(`trace.order.filter((unit) => unit.begins_with === 'reused').map((unit) => unit.id)`);
  assert.ok(reused && more.length === 0, 'one had ended');
  await page.run(`choose_unit('${reused}'); open_details()`);
  await page.settle();
  const details = await page.run(`byId('details').textContent`);
  assert.ok(details.includes('the answer of agent-') && !details.includes('undefined'), details);
  await page.picture('went-on-details');
  page.check();
  assert.ok(details.includes('answered before'), details);
  const row = await page.run(`document.querySelector('#view-timeline [data-unit="${reused}"]').getAttribute('aria-label')`);
  assert.ok(row.includes('answered before'), row);
  const asked = await page.run(names(`unit.prompt === 2 && ['prompt', 'visible'].includes(unit.begins_with)`));
  assert.equal(await page.run(figure('Agents')), String(asked.length));
  assert.deepEqual(await page.run('[trace.prompts[1].most_at_once, figures().most]'), [1, 1], 'no two are at work under a cap of one');
  assert.ok(!said.includes('1 agent queued'), said);
});
