// A headless Chromium, driven over its own pipe: what a page says, asks for and
// looks like.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** How long an answer may take before a test gives it up. */
const HANG_LIMIT = 60_000;

export class Browser {
  #next = 1;
  #waiting = new Map();
  #pages = new Map();

  /** Starts one that ends with the test. */
  static async start(t) {
    const browser = new Browser();
    browser.directory = mkdtempSync(join(tmpdir(), 'tine-page-'));
    const flags = [
      '--headless=new', '--remote-debugging-pipe', `--user-data-dir=${browser.directory}`, '--no-first-run', '--disable-gpu',
      '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage', '--disable-extensions',
      // Root has no sandbox of Chromium's; the page is what is tested.
      ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []), 'about:blank',
    ];
    browser.process = spawn(process.env.CHROMIUM ?? 'chromium', flags, { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'], detached: true });
    const failed = new Promise((_, reject) => browser.process.on('error', reject));
    let rest = '';
    browser.process.stdio[4].setEncoding('utf8').on('data', (part) => {
      const messages = (rest + part).split('\0');
      rest = messages.pop();
      for (const message of messages) browser.#heard(JSON.parse(message));
    });
    browser.process.stdio[3].on('error', () => {});
    t.after(() => browser.#end());
    await Promise.race([browser.say('Target.getTargets'), failed]);
    return browser;
  }

  /** Says something to the browser, or to a page, and returns its answer. */
  say(method, params = {}, sessionId = undefined) {
    const id = this.#next++;
    this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => {
      const hung = setTimeout(() => reject(new Error(`${method} has no answer`)), HANG_LIMIT);
      this.#waiting.set(id, { resolve, reject, hung, method });
    });
  }

  #heard({ id, result, error, method, params, sessionId }) {
    if (id === undefined) return this.#pages.get(sessionId)?.heard(method, params);
    const { resolve, reject, hung, method: said } = this.#waiting.get(id);
    clearTimeout(hung);
    this.#waiting.delete(id);
    if (error) reject(new Error(`${said}: ${error.message}`));
    else resolve(result);
  }

  /** Opens an address in a window of this size. */
  async open(url, { width = 1280, height = 800, dark = false } = {}) {
    const { targetId } = await this.say('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.say('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId);
    this.#pages.set(sessionId, page);
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await page.say(`${domain}.enable`);
    await page.say('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
    await page.say('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }] });
    const loaded = page.event('Page.loadEventFired');
    await page.say('Page.navigate', { url });
    await loaded;
    await page.settle();
    return page;
  }

  async #end() {
    const { pid, exitCode, signalCode } = this.process;
    if (pid === undefined) return;
    if (exitCode === null && signalCode === null) {
      const exit = new Promise((resolve) => this.process.once('exit', resolve));
      // Its own processes are in its group; one that lives on would write.
      process.kill(-pid, 'SIGKILL');
      await exit;
    }
    rmSync(this.directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

class Page {
  /** What was said on the console that should not be, and scripts that failed. */
  errors = [];
  /** The address of every request. */
  requests = [];
  #expected = new Map();

  constructor(browser, session, target) {
    Object.assign(this, { browser, session, target });
  }

  say(method, params) {
    return this.browser.say(method, params, this.session);
  }

  event(method) {
    return new Promise((resolve) => this.#expected.set(method, resolve));
  }

  heard(method, params) {
    this.#expected.get(method)?.(params);
    if (method === 'Network.requestWillBeSent') this.requests.push(params.request.url);
    if (method === 'Runtime.exceptionThrown') this.errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === 'Runtime.consoleAPICalled' && ['error', 'warning', 'assert'].includes(params.type)) this.errors.push(params.args.map((it) => it.value).join(' '));
    if (method === 'Log.entryAdded' && ['error', 'warning'].includes(params.entry.level)) this.errors.push(params.entry.text);
  }

  /** Runs an expression in the page and returns its value. */
  async run(expression) {
    const { result, exceptionDetails } = await this.say('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    assert.equal(exceptionDetails, undefined, exceptionDetails?.exception?.description);
    return result.value;
  }

  /** Waits until the page has drawn what it was told. */
  settle() {
    return this.run('new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(() => done(1))), 30))');
  }

  /** Waits until an expression holds. */
  async until(expression) {
    const holds = await this.run(`new Promise((done) => {
      const began = Date.now();
      const look = () => (${expression}) ? done(true) : Date.now() - began > ${HANG_LIMIT} ? done(false) : setTimeout(look, 25);
      look();
    })`);
    assert.ok(holds, `${expression} never held`);
    await this.settle();
  }

  async press(key, code = key) {
    const keys = { ArrowDown: 40, ArrowUp: 38, ArrowRight: 39, ArrowLeft: 37, Enter: 13, Escape: 27, Home: 36, End: 35, Tab: 9 };
    const text = key.length === 1 ? { text: key } : key === 'Enter' ? { text: '\r' } : {};
    const common = { key, code, windowsVirtualKeyCode: keys[key] ?? key.charCodeAt(0) };
    await this.say('Input.dispatchKeyEvent', { type: 'keyDown', ...common, ...text });
    await this.say('Input.dispatchKeyEvent', { type: 'keyUp', ...common });
    await this.settle();
  }

  async type(text) {
    await this.say('Input.insertText', { text });
    await this.settle();
  }

  async click(x, y) {
    for (const type of ['mousePressed', 'mouseReleased']) await this.say('Input.dispatchMouseEvent', { type, x, y, button: 'left', buttons: type === 'mousePressed' ? 1 : 0, clickCount: 1 });
    await this.settle();
  }

  /** Takes a picture, if pictures are wanted. */
  async picture(name) {
    if (!process.env.PICTURES) return;
    const { data } = await this.say('Page.captureScreenshot', { format: 'png' });
    writeFileSync(join(process.env.PICTURES, `${name}.png`), Buffer.from(data, 'base64'));
  }

  /** Nothing went wrong, and nothing was asked of anybody else. */
  check(origin = 'file://') {
    assert.deepEqual(this.errors, []);
    const others = this.requests.filter((url) => !url.startsWith(origin) && !url.startsWith('data:'));
    assert.deepEqual(others, []);
  }

  close() {
    return this.browser.say('Target.closeTarget', { targetId: this.target });
  }
}
