// The trace page in a headless Chromium: what it shows, that it asks nobody for
// anything, and that nothing that a session said is run.
//
// TINE is the binary. With PICTURES=DIR the views are put there as pictures.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { Browser } from './browser.mjs';
import { hostile, large, review } from './session.mjs';

const TINE = process.env.TINE;
assert.ok(TINE, 'set TINE to the binary: TINE=$PWD/target/release/tine npm test');

const ID = '0199a000-0000-4000-8000-000000000001';

/** A directory that is a home and a working directory, gone after the test. */
function place(t) {
  const root = mkdtempSync(join(tmpdir(), 'tine-trace-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  return root;
}

const env = (root) => ({ PATH: process.env.PATH, HOME: root, TINE_HOME: root });

function tine(root, ...flags) {
  const { status, stderr, stdout } = spawnSync(TINE, flags, { cwd: root, env: env(root), encoding: 'utf8', maxBuffer: 1 << 30 });
  assert.equal(status, 0, stderr);
  return { stderr, stdout };
}

/** Writes a session's page and returns where it is. */
function page_of(t, log) {
  const root = place(t);
  log.write(root, ID);
  const { stderr } = tine(root, 'trace', ID, '-o', 'trace.html');
  assert.equal(stderr, `the trace of session ${ID} is in \`trace.html\`\n`);
  return { root, url: pathToFileURL(join(root, 'trace.html')).href };
}

const rows = (view) => `[...document.querySelectorAll('#${view} [role=treeitem] .name')].map((row) => row.textContent)`;
const figure = (name) => `[...document.querySelectorAll('.figure-card')].find((it) => it.firstChild.textContent === ${JSON.stringify(name)}).lastChild.textContent`;

/** How many dots of a colour the picture of a view holds, around a row. */
const painted = (view) => `(() => {
  const canvas = document.querySelector('#${view} .picture');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) colours.add(data[at] << 16 | data[at + 1] << 8 | data[at + 2]);
  return colours.size;
})()`;

for (const [name, size] of Object.entries({ wide: { width: 1280, height: 800 }, small: { width: 800, height: 600 } })) {
  for (const dark of [false, true]) {
    test(`a review is seen ${name} and ${dark ? 'dark' : 'light'}, in every view`, async (t) => {
      const browser = await Browser.start(t);
      const page = await browser.open(page_of(t, review(ID)).url, { ...size, dark });
      const look = (view) => page.picture(`${name}-${dark ? 'dark' : 'light'}-${view}`);
      const expected = ['main', 'correctness', 'security', 'performance', 'tests', 'clarity'];
      assert.equal(await page.run(`byId('warnings').hidden`), true, 'every line of the log is one');
      assert.deepEqual(await page.run(rows('view-timeline')), expected);
      assert.ok((await page.run(painted('view-timeline'))) > 6);
      assert.equal(await page.run(figure('Time')), '24.7 s');
      assert.equal(await page.run(figure('Agents')), '5, 1 failed');
      await look('timeline');
      await page.run(`byId('tab-branches').click()`);
      await page.settle();
      assert.deepEqual(await page.run(rows('view-branches')), expected);
      assert.ok((await page.run(painted('view-branches'))) > 5);
      await look('branches');
      await page.run(`byId('tab-path').click()`);
      const path = await page.run(`[...document.querySelectorAll('#view-path tbody tr')].map((row) => row.children[1].textContent + ' ' + row.children[3].textContent)`);
      assert.equal(path[0], 'models answered main');
      assert.ok(path.includes('waited for a place clarity'), path);
      assert.ok(path.includes('models answered clarity') && path.includes('tools ran clarity'), path);
      // Whoever was done before the last one has no part in it but by its place.
      assert.ok(!path.some((leg) => leg.endsWith(' tests')), path);
      await look('path');
      await page.run(`byId('tab-cost').click()`);
      assert.equal(await page.run(`document.querySelectorAll('#view-cost table:first-of-type tbody tr').length`), 6);
      await look('cost');
      await page.run(`byId('tab-timeline').click(); choose_unit('agent-3'); open_details()`);
      await page.settle();
      const said = await page.run(`byId('details').textContent`);
      assert.ok(said.includes('the provider said 500') && said.includes('main.review.performance'), said);
      await look('details');
      await page.run(`choose_span(trace.units.get('agent-1').spans.find((id) => trace.spans[id].name === 'Bash' && trace.spans[id].failed))`);
      await page.settle();
      assert.ok((await page.run(`byId('details').textContent`)).includes('error: test failed'));
      await look('span');
      page.check();
    });
  }
}

test('on a narrow screen nothing lies beside it', async (t) => {
  const browser = await Browser.start(t);
  const page = await browser.open(page_of(t, review(ID)).url, { width: 400, height: 700 });
  for (const view of ['timeline', 'branches', 'path', 'cost']) {
    await page.run(`byId('tab-${view}').click()`);
    await page.settle();
    assert.equal(await page.run('document.documentElement.scrollWidth'), 400, view);
    await page.picture(`narrow-${view}`);
  }
});

test('nothing that a session said is run, wherever it stands', async (t) => {
  const texts = [
    '</script><img src=x onerror="window.hit=1"><script>window.hit=1</script>',
    '"><svg onload=window.hit=1><iframe srcdoc="<script>parent.hit=1</script>"></iframe><!--',
    "javascript:window.hit=1 ${window.hit=1} {{window.hit=1}} '-window.hit=1-' \u2028window.hit=1\u2029 \u202e \u001b[2J",
    '<link rel=stylesheet href="http://example.invalid/x.css"><style>@import "http://example.invalid/y.css";</style>',
    '__proto__', 'constructor',
  ];
  const browser = await Browser.start(t);
  for (const text of texts) {
    const page = await browser.open(page_of(t, hostile(ID, text)).url);
    assert.equal(await page.run(`document.getElementById('warnings').hidden`), true, 'every line of the log is one');
    for (const view of ['branches', 'path', 'cost', 'timeline']) {
      await page.run(`byId('tab-${view}').click()`);
      await page.settle();
    }
    const spans = await page.run('trace.spans.length');
    assert.ok(spans > 20);
    await page.run(`choose_unit('agent-1'); open_details()`);
    await page.settle();
    for (let span = 0; span < spans; span += 1) await page.run(`choose_span(${span}); 0`);
    await page.run(`byId('search').value = ${JSON.stringify(text)}; byId('search').dispatchEvent(new Event('input'))`);
    await page.until('looked.found !== null');
    await page.run(`show_tip({ clientX: 9, clientY: 9 }, tip_lines(trace.units.get('agent-1'), 5))`);
    await page.settle();
    assert.equal(await page.run('typeof window.hit'), 'undefined');
    assert.equal(await page.run(`document.querySelectorAll('img, svg, iframe, body script:not(:last-of-type), link[rel=stylesheet]').length`), 0);
    assert.equal(await page.run('({}).description'), undefined);
    page.check();
    await page.close();
  }
});

test('the policy stops what a mistake would let in', async (t) => {
  const browser = await Browser.start(t);
  const page = await browser.open(page_of(t, review(ID)).url);
  await page.run(`document.body.insertAdjacentHTML('beforeend', '<img src="http://example.invalid/x" onerror="window.hit=1"><p style="color:red" onclick="window.hit=1">')`);
  await page.run(`document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.hit = 1' })); document.querySelector('p[onclick]').click()`);
  await page.run(`fetch('http://example.invalid/').catch(() => 0)`);
  await page.settle();
  assert.equal(await page.run('typeof window.hit'), 'undefined');
  assert.ok(page.errors.length >= 3, page.errors);
});

test('keys alone choose, open, search and show', async (t) => {
  const browser = await Browser.start(t);
  const page = await browser.open(page_of(t, review(ID)).url);
  await page.run(`document.querySelector('#view-timeline [role=tree]').focus()`);
  for (const key of ['ArrowDown', 'ArrowDown', 'Enter']) await page.press(key);
  assert.equal(await page.run('looked.unit'), 'agent-2');
  assert.ok((await page.run(`byId('details').textContent`)).startsWith('security'));
  assert.equal(await page.run(`document.querySelector('[aria-activedescendant]').getAttribute('aria-activedescendant')`), 'view-timeline-2');
  await page.press('ArrowRight');
  assert.equal(await page.run(`trace.spans[looked.span].kind`), 'prompt');
  const width = 'views.timeline.scale.to - views.timeline.scale.from';
  const before = await page.run(width);
  await page.press('+');
  assert.ok((await page.run(width)) < before);
  await page.press('0');
  assert.equal(await page.run(width), before);
  await page.press('/');
  assert.equal(await page.run('document.activeElement.id'), 'search');
  await page.type('cargo test');
  await page.until('looked.found?.list.length > 0');
  assert.deepEqual(await page.run(rows('view-timeline')), ['correctness']);
  await page.press('Enter');
  assert.equal(await page.run(`trace.spans[looked.span].unit`), 'agent-1');
  const unnamed = await page.run(`[...document.querySelectorAll('button, select, input, [role=tree], [role=treeitem], [role=tab], section, aside')].filter((it) => !(it.getAttribute('aria-label') || it.getAttribute('aria-labelledby') || it.labels?.length || it.textContent.trim())).map((it) => it.outerHTML)`);
  assert.deepEqual(unnamed, []);
  page.check();
});

test('a press on a bar shows what it was', async (t) => {
  const browser = await Browser.start(t);
  const page = await browser.open(page_of(t, review(ID)).url);
  const [x, y] = await page.run(`(() => {
    const box = document.querySelector('#view-timeline .picture').getBoundingClientRect();
    return [box.left + views.timeline.x(1000), box.top + 14];
  })()`);
  await page.click(x, y);
  const said = await page.run(`byId('details').textContent`);
  assert.ok(said.includes('Five reviewers will look at it.') && said.includes('The change is large'), said);
  page.check();
});

test('a page of 50,000 events is there soon and stays quick', async (t) => {
  const log = large(ID, 50_000);
  assert.ok(log.lines.length > 49_000);
  const { root, url } = page_of(t, log);
  t.diagnostic(`${log.lines.length} events, ${(statSync(join(root, 'trace.html')).size / 1e6).toFixed(1)} MB`);
  const browser = await Browser.start(t);
  const began = performance.now();
  const page = await browser.open(url);
  const opened = performance.now() - began;
  const took = (what) => page.run(`(async () => {
    const began = performance.now();
    ${what};
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return performance.now() - began;
  })()`);
  const units = await page.run('trace.units.size');
  assert.ok(units > 2000);
  assert.ok((await page.run(`document.querySelectorAll('#view-timeline [role=treeitem]').length`)) < 60, 'only what is on the screen is made');
  const scrolled = await took(`document.querySelector('#view-timeline .rows').scrollTop = 30000`);
  assert.ok((await page.run(rows('view-timeline')))[0].startsWith('file 107'));
  const zoomed = await took('views.timeline.scale.zoom(0.01); draw_all()');
  await page.picture('large-zoomed');
  const searched = await took(`looked.words = 'file_2001'; refresh()`);
  assert.deepEqual(await page.run(rows('view-timeline')), ['file 2001']);
  const told = await took(`looked.words = ''; refresh(); byId('tab-path').click()`);
  await page.run(`byId('tab-branches').click(); views.timeline.scale.fit(); document.querySelector('#view-branches .rows').scrollTop = 0`);
  await page.settle();
  await page.picture('large-branches');
  await page.run(`byId('tab-timeline').click(); document.querySelector('#view-timeline .rows').scrollTop = 0`);
  await page.settle();
  await page.picture('large-timeline');
  t.diagnostic(`opened ${opened.toFixed(0)} ms, scrolled ${scrolled.toFixed(0)} ms, zoomed ${zoomed.toFixed(0)} ms, searched ${searched.toFixed(0)} ms, path ${told.toFixed(0)} ms`);
  // Ten times what it takes on a machine with nothing else to do.
  assert.ok(opened < 30_000 && scrolled < 2000 && zoomed < 2000 && searched < 10_000 && told < 10_000);
  page.check();
});

test('a run that goes on is followed, and its end is told', async (t) => {
  const root = place(t);
  const work = join(root, 'work');
  mkdirSync(work);
  const script = { units: { main: [{ calls: [{ name: 'Bash', arguments: { command: 'until [ -e go ]; do sleep 0.1; done; echo gone on' } }] }, { text: 'all is done' }] } };
  const scripted = join(root, 'script.json');
  appendFileSync(scripted, JSON.stringify(script));
  const run = spawn(TINE, ['-p', 'wait for it', '-m', `scripted:${scripted}`, '--session-id', ID, '--yolo', '--config', 'sandbox.mode="off"'], { cwd: work, env: env(root), stdio: 'ignore' });
  t.after(() => run.kill('SIGKILL'));
  const sessions = () => spawnSync(TINE, ['session', 'show', ID], { cwd: work, env: env(root), encoding: 'utf8' }).stdout;
  const began = Date.now();
  while (!sessions().includes('Bash') && Date.now() - began < 60_000) await new Promise((resolve) => setTimeout(resolve, 50));
  const follow = spawn(TINE, ['trace', '--follow'], { cwd: work, env: env(root), stdio: ['ignore', 'pipe', 'ignore'] });
  t.after(() => follow.kill('SIGKILL'));
  const url = await new Promise((resolve) => follow.stdout.setEncoding('utf8').once('data', (text) => resolve(text.trim())));
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/\?token=[0-9a-f]{32}$/);
  const browser = await Browser.start(t);
  const page = await browser.open(url);
  assert.equal(await page.run(`byId('live').textContent`), 'live');
  assert.equal(await page.run(`trace.prompts[0].to_ms`), null);
  await page.picture('live');
  appendFileSync(join(work, 'go'), '');
  await page.until(`byId('live').textContent === 'ended'`);
  assert.equal(await page.run(`trace.prompts[0].state`), 'completed');
  assert.ok((await page.run(`trace.spans.some((span) => span.texts.some((said) => said.text.includes('gone on')))`)));
  page.check(new URL(url).origin);
  const code = await new Promise((resolve) => (follow.exitCode === null ? follow.once('exit', resolve) : resolve(follow.exitCode)));
  assert.equal(code, 0);
});

test('a text that is too long is cut, and the page says so', async (t) => {
  const log = review(ID);
  const last = JSON.parse(log.lines.at(-1));
  log.lines.splice(-1, 1);
  log.put(24_700, 'main', 'user_wrote', { text: `begin ${'x'.repeat(200_000)} end` });
  log.over(24_720, last.body.outcome, 'ok');
  const browser = await Browser.start(t);
  const { root, url } = page_of(t, log);
  const page = await browser.open(url);
  await page.run(`choose_span(trace.spans.find((span) => span.texts.some((said) => said.cut_from_bytes)).id)`);
  await page.settle();
  const said = await page.run(`byId('details').textContent`);
  assert.ok(said.includes('these are the first 65,536 of 200,010 bytes'), said.slice(-300));
  assert.ok(!readFileSync(join(root, 'trace.html'), 'utf8').includes('x end'));
  page.check();
});
