// A model on loopback that says what a test has written down.
//
// It speaks Chat Completions, streamed. Which answer a request gets depends on
// the last thing a user said in it, so that agents side by side are told apart.
// An answer can wait behind a gate: tests meet a run there, and never sleep.

import { once } from 'node:events';
import { createServer } from 'node:http';

/** Answers with a text. */
export const say = (text, more = {}) => ({ text, ...more });

/** Answers with one call of a tool. */
export const call = (name, input, more = {}) => ({ calls: [{ name, input }], ...more });

/** Answers with several calls at once, each `[name, input]`. */
export const calls = (...all) => ({ calls: all.map(([name, input]) => ({ name, input })) });

/** Refuses, as a provider would. */
export const fail = (status, message) => ({ status, message });

/** Holds an answer back until the gate is open. */
export const held = (gate, answer) => ({ ...answer, gate });

/** Writes the first part of a text, and the rest once the gate is open. */
export const cut = (gate, first, rest) => ({ text: first, gate: null, then: { gate, text: rest } });

/** Lets requests wait, counts them, and lets them go. */
class Gate {
  #open = false;
  #waiting = 0;
  #watchers = new Set();

  /** How many requests stand here now. */
  get waiting() {
    return this.#waiting;
  }

  /** Resolves once this many requests stand here. */
  reached(count = 1) {
    return this.#until(() => this.#waiting >= count);
  }

  /** Lets everything through, now and later. */
  open() {
    this.#open = true;
    this.#changed();
  }

  /** Waits for the opening, or for `gone`. */
  async pass(gone) {
    this.#waiting += 1;
    this.#changed();
    await Promise.race([this.#until(() => this.#open), gone]);
    this.#waiting -= 1;
    this.#changed();
  }

  #changed() {
    for (const watcher of [...this.#watchers]) watcher();
  }

  #until(holds) {
    return new Promise((resolve) => {
      const look = () => {
        if (!holds()) return;
        this.#watchers.delete(look);
        resolve();
      };
      this.#watchers.add(look);
      look();
    });
  }
}

/** A request as it came in. */
class Request {
  constructor(body, headers) {
    Object.assign(this, { body, headers });
    this.messages = body.messages ?? [];
    this.tools = (body.tools ?? []).map((tool) => tool.function.name);
  }

  /** All that stands in messages of this role. */
  text(role) {
    return this.messages.filter((message) => message.role === role).map(text).join('\n');
  }

  get system() {
    return this.text('system');
  }

  /** The last thing a user said. */
  get prompt() {
    return text(this.messages.findLast((message) => message.role === 'user') ?? {});
  }

  /** What the tools gave, in order. */
  get outputs() {
    return this.messages.filter((message) => message.role === 'tool').map(text);
  }

  /** What is wrong with the conversation; undefined if nothing is. */
  get fault() {
    const open = new Set();
    for (const message of this.messages) {
      if (message.role === 'tool') {
        if (!open.delete(message.tool_call_id)) return `an output for no call: ${message.tool_call_id}`;
        continue;
      }
      if (open.size > 0) return `no output for ${[...open]}`;
      for (const { id } of message.tool_calls ?? []) open.add(id);
    }
    return open.size > 0 ? `no output for ${[...open]}` : undefined;
  }
}

function text({ content }) {
  if (Array.isArray(content)) return content.map((part) => part.text ?? `[${part.type}]`).join('\n');
  return content ?? '';
}

/** The model. Make one with `ModelServer.start()`. */
export class ModelServer {
  /** What was asked, in order. */
  requests = [];
  /** What no test expected. */
  faults = [];
  #rules = [];
  #watchers = new Set();
  #calls = 0;

  static async start() {
    const server = new ModelServer();
    server.http = createServer((request, response) => server.#answer(request, response));
    server.http.listen(0, '127.0.0.1');
    await once(server.http, 'listening');
    server.url = `http://127.0.0.1:${server.http.address().port}/v1`;
    return server;
  }

  /** Ends, and breaks off whatever is still open. */
  async stop() {
    this.http.closeAllConnections();
    await new Promise((resolve) => this.http.close(resolve));
  }

  gate() {
    return new Gate();
  }

  /**
   * Answers the requests whose last prompt holds `part`, one after another.
   * An answer is a value of the functions above, or a function of the request.
   * The rule made last is looked at first.
   */
  when(part, ...answers) {
    this.#rules.unshift({ part, answers });
    return this;
  }

  /** The first request whose last prompt holds `part`, also one still to come. */
  asked(part, count = 1) {
    const found = () => this.requests.filter((request) => request.prompt.includes(part))[count - 1];
    return new Promise((resolve) => {
      const look = () => {
        const request = found();
        if (!request) return;
        this.#watchers.delete(look);
        resolve(request);
      };
      this.#watchers.add(look);
      look();
    });
  }

  /** The last request whose last prompt holds `part`. */
  last(part) {
    return this.requests.findLast((request) => request.prompt.includes(part));
  }

  async #answer(incoming, response) {
    const gone = once(response, 'close');
    const pieces = [];
    for await (const piece of incoming) pieces.push(piece);
    if (incoming.method !== 'POST' || !incoming.url.endsWith('/chat/completions')) {
      return refuse(response, 404, `there is no ${incoming.method} ${incoming.url}`);
    }
    const request = new Request(JSON.parse(Buffer.concat(pieces)), incoming.headers);
    request.gone = gone;
    this.requests.push(request);
    for (const watcher of [...this.#watchers]) watcher();
    if (request.fault) this.faults.push(request.fault);
    const rule = this.#rules.find(({ part, answers }) => answers.length > 0 && request.prompt.includes(part));
    if (!rule) {
      this.faults.push(`nothing is written for: ${request.prompt.slice(-300)}`);
      return refuse(response, 400, 'nothing is written for this prompt');
    }
    const next = rule.answers.shift();
    await this.#play(typeof next === 'function' ? next(request) : next, response, gone);
  }

  async #play(answer, response, gone) {
    if (answer.gate) await answer.gate.pass(gone);
    if (response.destroyed) return;
    if (answer.status) return refuse(response, answer.status, answer.message);
    const { input = 100, output = 10, cached = 0 } = answer.usage ?? {};
    const stream = new Stream(response);
    if (answer.text) for (const word of answer.text.match(/\s*\S+\s*/g) ?? [answer.text]) stream.delta({ content: word });
    if (answer.then) {
      await answer.then.gate.pass(gone);
      if (response.destroyed) return;
      stream.delta({ content: answer.then.text });
    }
    for (const [index, { name, input: given, id }] of (answer.calls ?? []).entries()) {
      this.#calls += 1;
      stream.delta({
        tool_calls: [
          { index, id: id ?? `call_${this.#calls}`, type: 'function', function: { name, arguments: JSON.stringify(given) } },
        ],
      });
    }
    stream.end(answer.calls ? 'tool_calls' : 'stop', {
      prompt_tokens: input,
      completion_tokens: output,
      total_tokens: input + output,
      prompt_tokens_details: { cached_tokens: cached },
    });
  }
}

class Stream {
  #head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm' };

  constructor(response) {
    this.response = response;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    this.delta({ role: 'assistant', content: '' });
  }

  #send(chunk) {
    this.response.write(`data: ${JSON.stringify({ ...this.#head, ...chunk })}\n\n`);
  }

  delta(delta, finish_reason = null) {
    this.#send({ choices: [{ index: 0, delta, finish_reason }] });
  }

  end(reason, usage) {
    this.delta({}, reason);
    this.#send({ choices: [], usage });
    this.response.end('data: [DONE]\n\n');
  }
}

function refuse(response, status, message) {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ error: { message, type: 'invalid_request_error' } }));
}
