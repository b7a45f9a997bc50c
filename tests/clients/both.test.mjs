// What both clients do, unchanged, with tine in the place of their own harness.

import assert from 'node:assert/strict';

import * as claude from '@anthropic-ai/claude-agent-sdk';
import * as qwen from '@qwen-code/sdk';
import { z } from 'zod';

import { Feed, outputOf } from './place.mjs';
import { promise } from './promise.mjs';
import { call, calls, cut, fail, held, say } from './server.mjs';

const CLIENTS = {
  claude: {
    sdk: claude,
    ask: (place, prompt, options) => place.claude(prompt, options),
    only: (tools) => ({ tools }),
    without: (tools) => ({ disallowedTools: tools }),
    directories: (directories) => ({ additionalDirectories: directories }),
    turns: (maxTurns) => ({ maxTurns }),
    append: (append) => ({ systemPrompt: { type: 'preset', preset: 'claude_code', append } }),
    agent: (name, description, prompt) => ({ agents: { [name]: { description, prompt } } }),
    edits: 'acceptEdits',
    everything: { permissionMode: 'bypassPermissions', allowDangerouslySkipPermissions: true },
  },
  qwen: {
    sdk: qwen,
    ask: (place, prompt, options) => place.qwen(prompt, options),
    only: (tools) => ({ coreTools: tools }),
    without: (tools) => ({ excludeTools: tools }),
    directories: (directories) => ({ includeDirectories: directories }),
    turns: (maxSessionTurns) => ({ maxSessionTurns }),
    append: (append) => ({ systemPrompt: { type: 'preset', preset: 'qwen_code', append } }),
    agent: (name, description, systemPrompt) => ({ agents: [{ name, description, systemPrompt, level: 'session' }] }),
    edits: 'auto-edit',
    everything: { permissionMode: 'yolo' },
  },
};

/** A promise for each client. */
function both(name, body) {
  for (const [id, client] of Object.entries(CLIENTS)) {
    promise(`${id}: ${name}`, (place) => body(place, client));
  }
}

const write = (path, content = 'new\n') => call('Write', { file_path: path, content });
const task = (name) => ({ description: name, prompt: `do ${name}`, subagent_type: 'general-purpose' });
const batch = (...names) => call('Agent', { tasks: names.map(task) });
const allow = async (_name, input) => ({ behavior: 'allow', updatedInput: input });

// --- prompts

both('one prompt is one result, and the last record', async (place, client) => {
  place.server.when('hello', say('hi there'));
  const talk = client.ask(place, 'hello');
  const result = await talk.only();
  assert.equal(result.subtype, 'success');
  assert.equal(result.is_error, false);
  assert.equal(result.result, 'hi there');
  assert.equal(result.num_turns, 1);
  assert.equal(talk.records.at(-1), result);
  assert.equal(talk.init, talk.records.find((record) => record.subtype !== 'session_state_changed'));
  assert.equal(talk.of('assistant').map((record) => record.message.content[0].text).join(), 'hi there');
  for (const record of talk.records) {
    assert.match(record.uuid, /^[0-9a-f-]{36}$/);
    assert.equal(record.session_id, talk.init.session_id);
  }
  assert.equal(place.server.requests.length, 1);
});

both('an iterable of three is three results in order, in one conversation', async (place, client) => {
  const feed = new Feed();
  for (const name of ['first', 'second', 'third']) {
    place.server.when(name, say(`to the ${name}`));
    feed.say(name);
  }
  feed.end();
  const talk = client.ask(place, feed);
  const results = await talk.results();
  assert.deepEqual(results.map(({ result }) => result), ['to the first', 'to the second', 'to the third']);
  assert.equal(talk.of('system', 'init').length, 3);
  assert.equal(new Set(talk.records.map((record) => record.session_id)).size, 1);
  const last = place.server.last('third');
  assert.deepEqual(
    last.messages.filter(({ role }) => role === 'assistant').map(({ content }) => content),
    ['to the first', 'to the second'],
  );
});

both('a message that waits for the answer before it gets its own', async (place, client) => {
  const feed = new Feed();
  const talk = client.ask(place, feed);
  for (const name of ['first', 'second']) {
    place.server.when(name, say(`to the ${name}`));
    feed.say(name);
    assert.equal((await talk.result()).result, `to the ${name}`);
  }
  feed.end();
  assert.deepEqual(await talk.results(), []);
});

both('blocks of text are one message', async (place, client) => {
  place.server.when('second half', say('whole'));
  const feed = new Feed();
  feed.say([{ type: 'text', text: 'first half' }, { type: 'text', text: 'second half' }]);
  feed.end();
  const talk = client.ask(place, feed);
  assert.equal((await talk.only()).result, 'whole');
  assert.match(place.server.requests[0].prompt, /first half\s+second half/);
});

both('an image in a message reaches the model', async (place, client) => {
  place.put('home/config.toml', `model = "seeing"\n[models.seeing]\nbase_url = "${place.server.url}"\nmodel = "seeing"\nimages = true\n`);
  place.server.when('what is this', say('a dot'));
  const feed = new Feed();
  const data = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=';
  feed.say([
    { type: 'text', text: 'what is this' },
    { type: 'image', source: { type: 'base64', media_type: 'image/png', data } },
  ]);
  feed.end();
  assert.equal((await client.ask(place, feed).only()).result, 'a dot');
  const parts = place.server.requests[0].messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
  const image = parts.find((part) => part.type === 'image_url');
  assert.match(image.image_url.url, /^data:image\/png;base64,/);
});

both('partial messages are the pieces of the whole one', async (place, client) => {
  place.server.when('hello', say('one two three'));
  const talk = client.ask(place, 'hello', { includePartialMessages: true });
  await talk.only();
  const events = talk.of('stream_event').map(({ event }) => event);
  assert.equal(events.map(({ delta }) => delta?.text ?? '').join(''), 'one two three');
  const kinds = [...new Set(events.map(({ type }) => type))];
  assert.deepEqual(kinds, [
    'message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop',
  ]);
  assert.ok(talk.of('stream_event').every((record) => record.parent_tool_use_id === null));
  assert.equal(events[0].message.id, talk.of('assistant')[0].message.id);
});

both('what a provider refuses is a result that says so', async (place, client) => {
  place.server.when('hello', fail(401, 'this key is not known'));
  const talk = client.ask(place, 'hello');
  const result = await talk.result();
  assert.equal(result.is_error, true);
  assert.match(JSON.stringify([result.errors, result.result]), /key/);
  // The process says so with its exit code too, as the clients expect.
  await assert.rejects(talk.results());
});

both('a message after one that failed is answered', async (place, client) => {
  place.server.when('bad', fail(400, 'no')).when('good', say('yes'));
  const feed = new Feed();
  const talk = client.ask(place, feed);
  feed.say('bad');
  assert.equal((await talk.result()).is_error, true);
  feed.say('good');
  assert.equal((await talk.result()).result, 'yes');
  feed.end();
  assert.deepEqual(await talk.results(), []);
});

// --- approvals

both('what is allowed with another input runs with that', async (place, client) => {
  place.server.when('write', write('a.txt', 'from the model\n'), say('done'));
  const asked = [];
  const talk = client.ask(place, 'write', {
    canUseTool: async (name, input) => {
      asked.push([name, input]);
      return { behavior: 'allow', updatedInput: { ...input, file_path: 'b.txt', content: 'from the client\n' } };
    },
  });
  const result = await talk.only();
  assert.deepEqual(asked, [['Write', { file_path: 'a.txt', content: 'from the model\n' }]]);
  assert.equal(place.read('a.txt'), undefined);
  assert.equal(place.read('b.txt'), 'from the client\n');
  assert.deepEqual(result.permission_denials, []);
});

both('a no with a message is an output, and the turn goes on', async (place, client) => {
  place.server.when('write', write('a.txt'), say('then not'));
  const talk = client.ask(place, 'write', { canUseTool: async () => ({ behavior: 'deny', message: 'use another name' }) });
  const result = await talk.only();
  assert.equal(result.subtype, 'success');
  assert.equal(result.result, 'then not');
  assert.equal(place.read('a.txt'), undefined);
  assert.match(place.server.last('write').outputs[0], /use another name/);
  const { is_error, content } = outputOf(talk.of('user')[0]);
  assert.equal(is_error, true);
  assert.match(content, /use another name/);
  assert.equal(result.permission_denials.length, 1);
  const [denial] = result.permission_denials;
  assert.equal(denial.tool_name, 'Write');
  assert.deepEqual(denial.tool_input, { file_path: 'a.txt', content: 'new\n' });
  assert.equal(denial.tool_use_id, outputOf(talk.of('user')[0]).tool_use_id);
});

both('a callback that throws denies, and the turn goes on', async (place, client) => {
  place.server.when('write', write('a.txt'), say('then not'));
  const talk = client.ask(place, 'write', {
    canUseTool: async () => {
      throw new Error('the dialog broke');
    },
  });
  assert.equal((await talk.only()).result, 'then not');
  assert.equal(place.read('a.txt'), undefined);
  assert.match(place.server.last('write').outputs[0], /the dialog broke/);
});

both('a no that interrupts ends the turn, and the next message starts another', async (place, client) => {
  place.server.when('write', write('a.txt')).when('again', say('here'));
  const feed = new Feed();
  const talk = client.ask(place, feed, {
    canUseTool: async () => ({ behavior: 'deny', message: 'stop', interrupt: true }),
  });
  feed.say('write');
  const result = await talk.result();
  assert.equal(result.subtype, 'error_during_execution');
  feed.say('again');
  assert.equal((await talk.result()).result, 'here');
  feed.end();
  assert.deepEqual(await talk.results(), []);
});

both('without a callback a question is a no', async (place, client) => {
  place.server.when('write', write('a.txt'), say('then not'));
  const talk = client.ask(place, 'write');
  const result = await talk.only();
  assert.equal(result.result, 'then not');
  assert.equal(place.read('a.txt'), undefined);
  assert.equal(result.permission_denials.length, 1);
});

both('rules that allow spare the question', async (place, client) => {
  place.server.when('work', calls(['Write', { file_path: 'a.txt', content: 'x\n' }], ['Bash', { command: 'touch b.txt' }]), say('done'));
  const talk = client.ask(place, 'work', {
    allowedTools: ['Write', 'Bash(touch *)'],
    canUseTool: async (name) => assert.fail(`asked about ${name}`),
  });
  const result = await talk.only();
  assert.equal(result.result, 'done');
  assert.deepEqual([place.read('a.txt'), place.read('b.txt')], ['x\n', '']);
});

both('the mode for edits is for edits', async (place, client) => {
  place.server.when('work', calls(['Write', { file_path: 'a.txt', content: 'x\n' }], ['Bash', { command: 'touch b.txt' }]), say('done'));
  const asked = [];
  const talk = client.ask(place, 'work', {
    permissionMode: client.edits,
    canUseTool: async (name) => {
      asked.push(name);
      return { behavior: 'deny', message: 'no' };
    },
  });
  await talk.only();
  assert.deepEqual(asked, ['Bash']);
  assert.deepEqual([place.read('a.txt'), place.read('b.txt')], ['x\n', undefined]);
});

both('the mode for everything asks nothing', async (place, client) => {
  place.server.when('work', call('Bash', { command: 'touch b.txt' }), say('done'));
  const talk = client.ask(place, 'work', client.everything);
  assert.equal((await talk.only()).result, 'done');
  assert.equal(place.read('b.txt'), '');
});

both('plan mode changes nothing and asks nobody', async (place, client) => {
  place.server.when('work', write('a.txt'), say('a plan'));
  const talk = client.ask(place, 'work', {
    permissionMode: 'plan',
    canUseTool: async (name) => assert.fail(`asked about ${name}`),
  });
  assert.equal((await talk.only()).result, 'a plan');
  assert.equal(place.read('a.txt'), undefined);
});

both('a mode set in a running turn holds for its next call', async (place, client) => {
  const gate = place.server.gate();
  place.server.when('work', write('a.txt'), held(gate, write('b.txt')), say('done'));
  const asked = [];
  const feed = new Feed();
  const talk = client.ask(place, feed, {
    canUseTool: async (_name, input) => {
      asked.push(input.file_path);
      return { behavior: 'allow', updatedInput: input };
    },
  });
  feed.say('work');
  const result = talk.result();
  await gate.reached();
  await talk.query.setPermissionMode(client.edits);
  gate.open();
  assert.equal((await result).result, 'done');
  feed.end();
  assert.deepEqual(asked, ['a.txt']);
  assert.equal(place.read('b.txt'), 'new\n');
});

both('a mode set between messages holds for the next', async (place, client) => {
  place.server.when('first', say('ready')).when('second', write('a.txt'), say('done'));
  const feed = new Feed();
  const talk = client.ask(place, feed, { canUseTool: async (name) => assert.fail(`asked about ${name}`) });
  feed.say('first');
  await talk.result();
  await talk.query.setPermissionMode(client.edits);
  feed.say('second');
  assert.equal((await talk.result()).result, 'done');
  feed.end();
  assert.equal(place.read('a.txt'), 'new\n');
});

// --- interrupt, abort, limits

both('an interrupt ends the turn, and the next message starts another', async (place, client) => {
  const gate = place.server.gate();
  place.server.when('long', held(gate, say('too late'))).when('short', say('at once'));
  const feed = new Feed();
  const talk = client.ask(place, feed);
  feed.say('long');
  const result = talk.result();
  await gate.reached();
  await talk.query.interrupt();
  assert.equal((await result).subtype, 'error_during_execution');
  await place.server.last('long').gone;
  feed.say('short');
  assert.equal((await talk.result()).result, 'at once');
  feed.end();
  assert.deepEqual(await talk.results(), []);
});

both('an interrupt in the middle of a batch stops every slot, and the next message starts a turn', async (place, client) => {
  const gate = place.server.gate();
  place.server.when('fan out', batch('one', 'two', 'three')).when('next', say('here'));
  for (const name of ['one', 'two', 'three']) place.server.when(`do ${name}`, held(gate, say('too late')));
  const feed = new Feed();
  const talk = client.ask(place, feed);
  feed.say('fan out');
  const result = talk.result();
  await gate.reached(3);
  await talk.query.interrupt();
  const ended = await result;
  assert.equal(ended.subtype, 'error_during_execution');
  assert.equal(ended.is_error, true);
  const stopped = talk.of('system', 'task_notification');
  assert.deepEqual(stopped.map(({ status }) => status), ['stopped', 'stopped', 'stopped']);
  feed.say('next');
  assert.equal((await talk.result()).result, 'here');
  feed.end();
  assert.deepEqual(await talk.results(), []);
});

both('an interrupt between messages changes nothing', async (place, client) => {
  place.server.when('first', say('one')).when('second', say('two'));
  const feed = new Feed();
  const talk = client.ask(place, feed);
  feed.say('first');
  await talk.result();
  await talk.query.interrupt();
  feed.say('second');
  assert.equal((await talk.result()).result, 'two');
  feed.end();
  assert.deepEqual(await talk.results(), []);
});

both('an abort ends the process and throws at the reader', async (place, client) => {
  const gate = place.server.gate();
  place.server.when('long', held(gate, say('too late')));
  const abortController = new AbortController();
  const talk = client.ask(place, 'long', { abortController });
  const result = talk.result();
  await gate.reached();
  abortController.abort();
  await assert.rejects(result, (error) => error instanceof client.sdk.AbortError);
  await place.server.last('long').gone;
});

both('the most turns of a message are a result of their own', async (place, client) => {
  place.server.when('work', call('Glob', { pattern: '*' }), call('Glob', { pattern: '*' }), say('never'));
  const talk = client.ask(place, 'work', client.turns(2));
  const result = await talk.result();
  assert.equal(result.subtype, 'error_max_turns');
  assert.equal(result.is_error, true);
  assert.equal(result.num_turns, 2);
  await assert.rejects(talk.results());
});

// --- agents

both('the question of a slot reaches the callback, and a no to one is no answer to the other', async (place, client) => {
  place.server.when('fan out', batch('left', 'right'), say('both back'));
  place.server.when('do left', write('left.txt'), say('left is done'));
  place.server.when('do right', write('right.txt'), say('right may not'));
  const talk = client.ask(place, 'fan out', {
    canUseTool: async (_name, input) =>
      input.file_path === 'left.txt' ? allow(null, input) : { behavior: 'deny', message: 'not there' },
  });
  const result = await talk.only();
  assert.equal(result.result, 'both back');
  assert.deepEqual([place.read('left.txt'), place.read('right.txt')], ['new\n', undefined]);
  assert.match(place.server.last('do right').outputs[0], /not there/);
  assert.equal(result.permission_denials.length, 1);
});

both('a slot that fails is named, and there is no stray result', async (place, client) => {
  place.server.when('fan out', batch('good', 'bad'), say('one of two'));
  place.server.when('do good', say('it went well')).when('do bad', fail(400, 'the model is unwell'));
  const talk = client.ask(place, 'fan out');
  const result = await talk.only();
  assert.equal(result.subtype, 'success');
  assert.equal(result.result, 'one of two');
  const ends = Object.fromEntries(talk.of('system', 'task_notification').map(({ task_id, status }) => [task_id, status]));
  assert.deepEqual(Object.values(ends).sort(), ['completed', 'failed']);
  const [output] = place.server.last('fan out').outputs;
  assert.match(output, /it went well/);
  assert.match(output, /the model is unwell/);
});

both('twelve tasks at a cap of eight are never nine, and all come back in order', async (place, client) => {
  const names = Array.from({ length: 12 }, (_, index) => `task ${String.fromCharCode(97 + index)}`);
  const gate = place.server.gate();
  place.server.when('fan out', batch(...names), say('all back'));
  for (const name of names) place.server.when(`do ${name}`, held(gate, say(`${name} is done`)));
  const talk = client.ask(place, 'fan out');
  const reading = talk.only();
  await gate.reached(8);
  gate.open();
  assert.equal((await reading).result, 'all back');
  assert.equal(talk.of('system', 'task_started').length, 12);
  let [now, most] = [0, 0];
  for (const { patch } of talk.of('system', 'task_updated')) {
    if (patch.status === 'running') most = Math.max(most, (now += 1));
    if (patch.status === 'completed') now -= 1;
  }
  assert.deepEqual([now, most], [0, 8]);
  assert.deepEqual(talk.of('system', 'task_notification').map(({ status }) => status), names.map(() => 'completed'));
  const [output] = place.server.last('fan out').outputs;
  const order = names.map((name) => output.indexOf(`${name} is done`));
  assert.deepEqual(order, [...order].sort((a, b) => a - b));
  assert.ok(order[0] >= 0);
  const parents = new Set(talk.of('system', 'task_started').map(({ tool_use_id }) => tool_use_id));
  assert.deepEqual([...parents], [talk.of('assistant')[0].message.content[0].id]);
});

both('what agents call is told with their call of Agent, what they say only on request', async (place, client) => {
  place.server.when('fan out', batch('one'), say('back'));
  place.server.when('do one', call('Glob', { pattern: '*' }, { text: 'let me see' }), say('nothing there'));
  const talk = client.ask(place, 'fan out');
  await talk.only();
  const parent = talk.of('assistant')[0].message.content[0].id;
  const inside = talk.records.filter((record) => record.parent_tool_use_id === parent);
  assert.deepEqual(inside.map(({ type }) => type), ['assistant', 'user']);
  assert.equal(inside[0].message.content[0].type, 'tool_use');
  assert.equal(outputOf(inside[1]).tool_use_id, inside[0].message.content[0].id);
});

both('a fork in the background outlives the first result, and another message is answered meanwhile', async (place, client) => {
  const gate = place.server.gate();
  place.server
    .when('begin', call('Agent', { description: 'dig', prompt: 'dig deep' }), say('it digs'))
    .when('dig deep', held(gate, say('gold')))
    .when('meanwhile', say('still here'))
    .when('gold', say('so it was gold'));
  const feed = new Feed();
  const talk = client.ask(place, feed);
  feed.say('begin');
  assert.equal((await talk.result()).result, 'it digs');
  await gate.reached();
  feed.say('meanwhile');
  assert.equal((await talk.result()).result, 'still here');
  assert.equal(gate.waiting, 1);
  gate.open();
  const told = await talk.until((record) => record.subtype === 'task_notification');
  assert.equal(told.status, 'completed');
  assert.equal((await talk.result()).result, 'so it was gold');
  feed.end();
  assert.deepEqual(await talk.results(), []);
});

both('a fork that outlives the one prompt of a client is waited for, and told to the model', async (place, client) => {
  const gate = place.server.gate();
  place.server
    .when('begin', call('Agent', { description: 'dig', prompt: 'dig deep' }), say('it digs'))
    .when('dig deep', held(gate, say('gold')))
    .when('gold', say('so it was gold'));
  const talk = client.ask(place, 'begin');
  const reading = talk.results();
  await gate.reached();
  gate.open();
  const results = await reading;
  assert.equal(results.at(-1).result, 'so it was gold');
  assert.equal(talk.of('system', 'task_notification')[0].status, 'completed');
});

both('a definition of the client is an agent', async (place, client) => {
  place.server.when('fan out', call('Agent', { description: 'p', prompt: 'recite', subagent_type: 'poet' }), say('nice'));
  place.server.when('recite', say('roses are red'));
  const talk = client.ask(place, 'fan out', client.agent('poet', 'Writes verse', 'You are a poet of few words.'));
  assert.equal((await talk.only()).result, 'nice');
  assert.match(place.server.last('recite').system, /You are a poet of few words/);
  assert.ok(talk.init.agents.includes('poet'));
});

// --- the model, the prompt, the tools

both('the model of the options answers', async (place, client) => {
  place.server.when('hello', say('hi'));
  const talk = client.ask(place, 'hello', { model: 'another' });
  await talk.only();
  assert.equal(place.server.requests[0].body.model, 'another');
  assert.equal(talk.init.model, 'another');
});

both('a model set between messages answers the next', async (place, client) => {
  place.server.when('first', say('one')).when('second', say('two'));
  const feed = new Feed();
  const talk = client.ask(place, feed);
  feed.say('first');
  await talk.result();
  await talk.query.setModel('another');
  feed.say('second');
  await talk.result();
  feed.end();
  assert.deepEqual(place.server.requests.map(({ body }) => body.model), ['m', 'another']);
  assert.equal(talk.of('system', 'init')[1].model, 'another');
});

both('a system prompt of the client takes the place of the own', async (place, client) => {
  place.server.when('hello', say('hi'));
  await client.ask(place, 'hello', { systemPrompt: 'You answer in rhyme.' }).only();
  assert.match(place.server.requests[0].system, /^You answer in rhyme\./);
});

both('words for the system prompt stand behind the own', async (place, client) => {
  place.server.when('plain', say('hi')).when('hello', say('hi'));
  await client.ask(place, 'plain').only();
  await client.ask(place, 'hello', client.append('Always explain yourself.')).only();
  const [plain, appended] = place.server.requests.map(({ system }) => system);
  assert.ok(appended.startsWith(plain.slice(0, 200)));
  assert.match(appended, /Always explain yourself\./);
});

both('tools that the client leaves out are not offered', async (place, client) => {
  place.server.when('hello', say('hi'));
  const talk = client.ask(place, 'hello', client.without(['Bash', 'WebFetch', 'NotebookEdit']));
  await talk.only();
  const [{ tools }] = place.server.requests;
  assert.ok(!tools.includes('Bash'), tools.join());
  assert.ok(tools.includes('Read'));
  assert.ok(!talk.init.tools.includes('Bash'));
});

both('only the tools that the client names are offered, also among names that are not known', async (place, client) => {
  place.server.when('hello', say('hi'));
  await client.ask(place, 'hello', client.only(['Read', 'Grep', 'LSP', 'NotebookEdit'])).only();
  assert.deepEqual(place.server.requests[0].tools, ['Read', 'Grep']);
});

both('another directory may be edited as the working directory may', async (place, client) => {
  const path = place.put('other/a.txt', 'old\n');
  place.server.when('work', write(path), say('done'));
  const talk = client.ask(place, 'work', {
    ...client.directories([`${place.root}/other`, `${place.root}/home`]),
    permissionMode: client.edits,
    canUseTool: async (name) => assert.fail(`asked about ${name}`),
  });
  assert.equal((await talk.only()).result, 'done');
  assert.deepEqual(place.server.last('work').outputs.length, 1);
  assert.doesNotMatch(place.server.last('work').outputs[0], /denied|outside/);
});

// --- servers in the client's own process

const calculator = ({ createSdkMcpServer, tool }, used) =>
  createSdkMcpServer({
    name: 'calc',
    version: '1.0.0',
    tools: [
      tool('add', 'Adds two numbers', { a: z.number(), b: z.number() }, async ({ a, b }) => {
        used.push([a, b]);
        if (a === b) throw new Error('not the same twice');
        return { content: [{ type: 'text', text: `the sum is ${a + b}` }] };
      }),
    ],
  });

both('a tool that runs in the client is offered, called and answers', async (place, { sdk, ask }) => {
  const used = [];
  place.server.when('add', call('mcp__calc__add', { a: 2, b: 3 }), say('five'));
  const talk = ask(place, 'add', { mcpServers: { calc: calculator(sdk, used) }, allowedTools: ['mcp__calc__add'] });
  assert.equal((await talk.only()).result, 'five');
  assert.deepEqual(used, [[2, 3]]);
  assert.ok(place.server.requests[0].tools.includes('mcp__calc__add'));
  assert.match(place.server.last('add').outputs[0], /the sum is 5/);
  assert.deepEqual(talk.init.mcp_servers.map(({ name, status }) => [name, status]), [['calc', 'connected']]);
});

both('a tool in the client that throws is an output of that call', async (place, { sdk, ask }) => {
  place.server.when('add', call('mcp__calc__add', { a: 2, b: 2 }), say('oh'));
  const talk = ask(place, 'add', { mcpServers: { calc: calculator(sdk, []) }, allowedTools: ['mcp__calc__add'] });
  assert.equal((await talk.only()).result, 'oh');
  const { is_error, content } = outputOf(talk.of('user')[0]);
  assert.equal(is_error, true);
  assert.match(JSON.stringify(content), /not the same twice/);
});

both('slots call tools that run in the client side by side', async (place, { sdk, ask }) => {
  const used = [];
  place.server.when('fan out', batch('one', 'two'), say('both'));
  place.server.when('do one', call('mcp__calc__add', { a: 1, b: 2 }), say('three'));
  place.server.when('do two', call('mcp__calc__add', { a: 3, b: 4 }), say('seven'));
  const talk = ask(place, 'fan out', { mcpServers: { calc: calculator(sdk, used) }, allowedTools: ['mcp__calc__add'] });
  assert.equal((await talk.only()).result, 'both');
  assert.deepEqual(used.sort(), [[1, 2], [3, 4]]);
});

// --- sessions

both('a session goes on where it ended', async (place, client) => {
  place.server.when('first', say('one')).when('second', say('two'));
  const talk = client.ask(place, 'first', { sessionId: '0e7a1f5e-3c1d-4f9b-9a50-6d0f3f8b2c11' });
  await talk.only();
  assert.equal(talk.init.session_id, '0e7a1f5e-3c1d-4f9b-9a50-6d0f3f8b2c11');
  const again = client.ask(place, 'second', { resume: talk.init.session_id });
  await again.only();
  assert.equal(again.init.session_id, talk.init.session_id);
  assert.match(place.server.last('second').text('assistant'), /one/);
});

both('a copy of a session goes on under a name of its own', async (place, client) => {
  for (const name of ['first', 'second', 'third']) place.server.when(name, say(`to ${name}`));
  const talk = client.ask(place, 'first');
  await talk.only();
  const id = talk.init.session_id;
  const copy = client.ask(place, 'second', { resume: id, forkSession: true });
  await copy.only();
  assert.notEqual(copy.init.session_id, id);
  assert.match(place.server.last('second').text('assistant'), /to first/);
  await client.ask(place, 'third', { resume: id }).only();
  assert.doesNotMatch(place.server.last('third').text('assistant'), /to second/);
});

both('a session that is not there is an error that names it', async (place, client) => {
  const id = '11111111-2222-4333-8444-555555555555';
  const talk = client.ask(place, 'hello', { resume: id, stderr: () => {} });
  await assert.rejects(talk.results());
  const result = talk.of('result')[0];
  assert.equal(result?.is_error, true);
  assert.match(result.errors.join(), /11111111/);
});

// --- the rest

both('what tine says on standard error reaches the client', async (place, client) => {
  place.put('home/config.toml', 'model = "m"\n[agents]\nmax_concurrent = 0\n');
  place.server.when('hello', say('hi'));
  const heard = [];
  await client.ask(place, 'hello', { stderr: (part) => heard.push(part), debug: true }).only();
  assert.match(heard.join(''), /max_concurrent/);
});

both('a client that closes in the middle of an answer ends the process', async (place, client) => {
  const gate = place.server.gate();
  place.server.when('long', cut(gate, 'once upon', ' a time'));
  const talk = client.ask(place, 'long', { includePartialMessages: true });
  await talk.until(({ event }) => event?.delta?.text === 'once ');
  talk.query.close();
  await place.server.last('long').gone;
});
