// What `@anthropic-ai/claude-agent-sdk` asks of a running session, and what it
// is asked: requests, hooks, servers.

import assert from 'node:assert/strict';
import { join } from 'node:path';

import { createSdkMcpServer, tool } from '@anthropic-ai/claude-agent-sdk';
import { z } from 'zod';

import { Feed, outputOf } from './place.mjs';
import { promise } from './promise.mjs';
import { call, held, say } from './server.mjs';

const write = (path, content = 'new\n') => call('Write', { file_path: path, content });
const task = (name) => ({ description: name, prompt: `do ${name}`, subagent_type: 'general-purpose' });
const batch = (...names) => call('Agent', { tasks: names.map(task) });
const edits = { permissionMode: 'acceptEdits' };

/** A conversation that has had one message. */
async function begun(place, options) {
  place.server.when('begin', say('ready'));
  const feed = new Feed();
  const talk = place.claude(feed, options);
  feed.say('begin');
  await talk.result();
  return { feed, talk, query: talk.query };
}

// --- requests

promise('the first request is answered before any message', async (place) => {
  const talk = place.claude(new Feed());
  const { commands, agents, models, output_style, available_output_styles } = await talk.query.initializationResult();
  assert.ok(commands.every(({ name, description, argumentHint }) => [name, description, argumentHint].every((text) => typeof text === 'string')));
  assert.ok(commands.some(({ name }) => name === 'compact'));
  assert.ok(agents.every(({ name, description }) => name && description));
  assert.deepEqual(models.map(({ value }) => value).slice(0, 1), ['m']);
  assert.ok(available_output_styles.includes(output_style));
  assert.equal(place.server.requests.length, 0);
});

promise('commands, models and agents are listed', async (place) => {
  const { query } = place.claude(new Feed());
  const [commands, models, agents] = await Promise.all([query.supportedCommands(), query.supportedModels(), query.supportedAgents()]);
  assert.ok(commands.some(({ name }) => name === 'review'));
  assert.ok(models.every((model) => ['value', 'displayName', 'description'].every((field) => typeof model[field] === 'string')));
  assert.deepEqual(agents.map(({ name }) => name), ['general-purpose', 'explore', 'reviewer']);
});

promise('the account says where the key comes from', async (place) => {
  const account = await place.claude(new Feed()).query.accountInfo();
  assert.equal(typeof account.apiKeySource, 'string');
});

promise('without servers there is a list of none', async (place) => {
  assert.deepEqual(await place.claude(new Feed()).query.mcpServerStatus(), []);
});

promise('the use of the context adds up', async (place) => {
  const { query, feed } = await begun(place);
  const usage = await query.getContextUsage();
  feed.end();
  for (const field of ['totalTokens', 'maxTokens', 'rawMaxTokens', 'percentage']) assert.equal(typeof usage[field], 'number', field);
  for (const field of ['categories', 'gridRows', 'memoryFiles', 'mcpTools', 'agents']) assert.ok(Array.isArray(usage[field]), field);
  assert.equal(usage.model, 'm');
  assert.equal(usage.maxTokens, 128_000);
  assert.equal(typeof usage.isAutoCompactEnabled, 'boolean');
  assert.ok(usage.categories.every(({ name, color, tokens, kind }) => name && color && tokens >= 0 && kind));
  const used = usage.categories.filter(({ kind }) => kind === 'used').reduce((sum, { tokens }) => sum + tokens, 0);
  assert.equal(used, usage.totalTokens);
});

promise('the use of the context is known before the first message, and in brief', async (place) => {
  const usage = await place.claude(new Feed()).query.getContextUsage({ detail: 'summary' });
  assert.ok(usage.totalTokens >= 0);
  assert.equal(usage.apiUsage, null);
});

promise('the model goes back to that of the start', async (place) => {
  const { query, feed, talk } = await begun(place);
  place.server.when('second', say('two')).when('third', say('three'));
  await query.setModel('another');
  feed.say('second');
  await talk.result();
  await query.setModel();
  feed.say('third');
  await talk.result();
  feed.end();
  assert.deepEqual(place.server.requests.map(({ body }) => body.model), ['m', 'another', 'm']);
});

promise('a limit for thinking is set and taken back', async (place) => {
  const { query } = await begun(place);
  await query.setMaxThinkingTokens(1024);
  await query.setMaxThinkingTokens(null);
});

promise('settings of the flags change the model and the rules of the next message', async (place) => {
  const { query, feed, talk } = await begun(place);
  place.server.when('second', call('Bash', { command: 'touch a' }), say('two'));
  await query.applyFlagSettings({ model: 'another', permissions: { allow: ['Bash(touch *)'] } });
  feed.say('second');
  await talk.result();
  feed.end();
  assert.equal(place.server.last('second').body.model, 'another');
  assert.equal(place.read('a'), '');
});

promise('one task is stopped, and the others go on', async (place) => {
  const gate = place.server.gate();
  place.server.when('fan out', batch('one', 'two'), say('one of two'));
  for (const name of ['one', 'two']) place.server.when(`do ${name}`, held(gate, say(`${name} is done`)));
  const feed = new Feed();
  const talk = place.claude(feed);
  feed.say('fan out');
  const started = await talk.until((record) => record.subtype === 'task_started' && record.description === 'one');
  const result = talk.result();
  await gate.reached(2);
  await talk.query.stopTask(started.task_id);
  await place.server.last('do one').gone;
  gate.open();
  assert.equal((await result).result, 'one of two');
  feed.end();
  const ends = Object.fromEntries(talk.of('system', 'task_notification').map(({ task_id, status }) => [task_id, status]));
  assert.equal(ends[started.task_id], 'stopped');
  assert.deepEqual(Object.values(ends).sort(), ['completed', 'stopped']);
});

promise('a task that there is not cannot be stopped', async (place) => {
  const { query } = await begun(place);
  await assert.rejects(query.stopTask('agent-99'));
});

promise('a task that is waited for goes to the background', async (place) => {
  const gate = place.server.gate();
  place.server
    .when('fan out', call('Agent', { ...task('dig') }), say('it digs on'))
    .when('do dig', held(gate, say('gold')))
    .when('gold', say('so it was gold'));
  const feed = new Feed();
  const talk = place.claude(feed);
  feed.say('fan out');
  const result = talk.result();
  await gate.reached();
  assert.equal(await talk.query.backgroundTasks(), true);
  assert.equal((await result).result, 'it digs on');
  gate.open();
  assert.equal((await talk.result()).result, 'so it was gold');
  feed.end();
});

promise('no task of that call goes to the background', async (place) => {
  const { query } = await begun(place);
  assert.equal(await query.backgroundTasks('call_99'), false);
});

promise('the first request may come again', async (place) => {
  const { query } = await begun(place);
  const again = await query.reinitialize();
  assert.deepEqual(again.models, (await query.initializationResult()).models);
});

promise('a request that is not known is refused by its name', async (place) => {
  const { query } = await begun(place);
  await assert.rejects(query.setMcpPermissionModeOverride('nobody', 'default'), /set_mcp_permission_mode_override|nobody/);
});

promise('many requests at once are each answered', async (place) => {
  const { query } = await begun(place);
  const settled = await Promise.allSettled(Array.from({ length: 200 }, () => query.setPermissionMode('plan')));
  assert.ok(settled.every(({ status }) => status === 'fulfilled'));
});

const rare = {
  'skills are read again': async (query) => assert.ok((await query.reloadSkills()).skills.some(({ name }) => name === 'review')),
  'plugins are read again': async (query) => assert.deepEqual((await query.reloadPlugins()).plugins, []),
  'styles are read again': (query) => query.reloadOutputStyles(),
  'a file is read': async (query, place) => {
    place.put('work/a.txt', 'inside\n');
    assert.equal((await query.readFile('a.txt')).contents, 'inside\n');
    assert.equal(await query.readFile('nowhere.txt'), null);
    place.put('work/a.bin', Buffer.from([255, 0]));
    assert.deepEqual(await query.readFile('a.bin', { encoding: 'base64' }), { contents: '/wA=', absPath: join(place.work, 'a.bin'), encoding: 'base64' });
    await query.applyFlagSettings({ permissions: { deny: ['Read(a.txt)'] } });
    assert.equal(await query.readFile('a.txt'), null);
    await query.applyFlagSettings({ permissions: null });
    assert.equal((await query.readFile('a.txt')).contents, 'inside\n');
  },
  'the session is renamed': async (query, place) => {
    await query.renameSession('The second try');
    assert.match((await place.script('tine sessions')).stdout, /The second try/);
  },
  'servers are set to none': async (query) => assert.deepEqual(await query.setMcpServers({}), { added: [], removed: [], errors: {} }),
  'a read is remembered': (query) => query.seedReadState('a.txt', 1),
  'what was used is told': async (query) => assert.equal((await query.usage_EXPERIMENTAL_MAY_CHANGE_DO_NOT_RELY_ON_THIS_API_YET()).rate_limits_available, false),
};
for (const [name, body] of Object.entries(rare)) {
  promise(name, async (place) => {
    const { query } = await begun(place);
    await body(query, place);
  });
}

promise('files go back to what they were before a message', async (place) => {
  place.put('work/a.txt', 'old\n');
  const uuid = '77777777-0000-4000-8000-000000000000';
  place.server.when('work', call('Read', { file_path: 'a.txt' }), write('a.txt'), say('done'));
  const feed = new Feed();
  const talk = place.claude(feed, { ...edits, enableFileCheckpointing: true });
  feed.say('work', { uuid });
  await talk.result();
  assert.equal(place.read('a.txt'), 'new\n');
  assert.equal((await talk.query.rewindFiles(uuid, { dryRun: true })).canRewind, true);
  assert.equal(place.read('a.txt'), 'new\n');
  assert.equal((await talk.query.rewindFiles(uuid)).canRewind, true);
  assert.equal(place.read('a.txt'), 'old\n');
  feed.end();
});

// --- hooks

/** Runs one prompt with hooks, and returns what they were given. */
async function hooked(place, prompt, hooks, options = {}) {
  const given = [];
  const recording = (event, { output = {}, ...matcher }) => ({
    ...matcher,
    hooks: [
      async (input, id, { signal }) => {
        given.push(input);
        assert.ok(signal instanceof AbortSignal);
        return typeof output === 'function' ? output(input, id) : output;
      },
    ],
  });
  const talk = place.claude(prompt, {
    ...edits,
    ...options,
    hooks: Object.fromEntries(Object.entries(hooks).map(([event, matchers]) => [event, [matchers].flat().map((one) => recording(event, one))])),
  });
  const results = await talk.results();
  return { given, talk, results, result: results.at(-1) };
}

const decide = (permissionDecision, more = {}) => ({
  hookSpecificOutput: { hookEventName: 'PreToolUse', permissionDecision, ...more },
});

promise('a hook before a call is told of it', async (place) => {
  place.server.when('work', write('a.txt'), say('done'));
  const { given, talk } = await hooked(place, 'work', { PreToolUse: {} });
  const [input] = given;
  assert.equal(given.length, 1);
  assert.equal(input.hook_event_name, 'PreToolUse');
  assert.equal(input.tool_name, 'Write');
  assert.deepEqual(input.tool_input, { file_path: 'a.txt', content: 'new\n' });
  assert.equal(input.tool_use_id, outputOf(talk.of('user')[0]).tool_use_id);
  assert.equal(input.session_id, talk.init.session_id);
  assert.equal(input.cwd, place.work);
  assert.equal(input.permission_mode, 'acceptEdits');
  assert.equal(typeof input.transcript_path, 'string');
  assert.equal(input.agent_id, undefined);
  assert.equal(place.read('a.txt'), 'new\n');
});

promise('a hook denies a call, and its reason reaches the model', async (place) => {
  place.server.when('work', write('a.txt'), say('then not'));
  await hooked(place, 'work', { PreToolUse: { output: decide('deny', { permissionDecisionReason: 'not on a Sunday' }) } });
  assert.equal(place.read('a.txt'), undefined);
  assert.match(place.server.last('work').outputs[0], /not on a Sunday/);
});

promise('a hook allows what would have been asked', async (place) => {
  place.server.when('work', write('a.txt'), say('done'));
  await hooked(place, 'work', { PreToolUse: { output: decide('allow') } }, {
    permissionMode: 'default',
    canUseTool: async (name) => assert.fail(`asked about ${name}`),
  });
  assert.equal(place.read('a.txt'), 'new\n');
});

promise('a hook does not allow what a rule denies', async (place) => {
  place.server.when('work', write('a.txt'), say('then not'));
  const { given } = await hooked(place, 'work', { PreToolUse: { output: decide('allow') } }, { disallowedTools: ['Write(a.txt)', 'Edit(a.txt)'] });
  assert.equal(place.read('a.txt'), undefined);
  assert.ok(given.length <= 1);
  assert.equal(place.server.last('work').outputs.length, 1);
  // Whatever is not denied is told to it.
  place.server.when('again', write('b.txt'), say('done'));
  assert.equal((await hooked(place, 'again', { PreToolUse: {} })).given.length, 1);
});

promise('a hook asks, and the client is asked', async (place) => {
  place.server.when('work', write('a.txt'), say('done'));
  const asked = [];
  await hooked(place, 'work', { PreToolUse: { output: decide('ask') } }, {
    canUseTool: async (name, updatedInput) => {
      asked.push(name);
      return { behavior: 'allow', updatedInput };
    },
  });
  assert.deepEqual(asked, ['Write']);
});

promise('a hook changes a call before it runs', async (place) => {
  place.server.when('work', write('a.txt'), say('done'));
  await hooked(place, 'work', { PreToolUse: { output: decide('allow', { updatedInput: { file_path: 'b.txt', content: 'changed\n' } }) } });
  assert.deepEqual([place.read('a.txt'), place.read('b.txt')], [undefined, 'changed\n']);
});

promise('only the hooks that match are told', async (place) => {
  place.server.when('work', write('a.txt'), say('done'));
  const { given } = await hooked(place, 'work', {
    PreToolUse: [{ matcher: 'Bash' }, { matcher: 'Edit|Write' }, { matcher: 'Wri.*' }, { matcher: '*' }, {}],
  });
  assert.equal(given.length, 4);
});

promise('a hook after a call is told what came of it, and adds to it', async (place) => {
  place.server.when('work', write('a.txt'), say('done'));
  const { given } = await hooked(place, 'work', {
    PostToolUse: { output: { hookSpecificOutput: { hookEventName: 'PostToolUse', additionalContext: 'format it, too' } } },
  });
  assert.equal(given[0].tool_name, 'Write');
  assert.ok('tool_response' in given[0]);
  assert.match(JSON.stringify(place.server.last('work').messages), /format it, too/);
});

promise('a hook after a call gives the model another output', async (place) => {
  place.server.when('work', call('Glob', { pattern: '*' }), say('done'));
  await hooked(place, 'work', {
    PostToolUse: { output: { hookSpecificOutput: { hookEventName: 'PostToolUse', updatedToolOutput: 'nothing to see' } } },
  });
  assert.equal(place.server.last('work').outputs[0], 'nothing to see');
});

promise('a hook on a prompt adds to it', async (place) => {
  place.server.when('hello', say('hi'));
  const { given } = await hooked(place, 'hello', {
    UserPromptSubmit: { output: { hookSpecificOutput: { hookEventName: 'UserPromptSubmit', additionalContext: 'it is raining' } } },
  });
  assert.equal(given[0].prompt, 'hello');
  assert.match(JSON.stringify(place.server.requests[0].messages), /it is raining/);
});

promise('a hook on a prompt keeps it from the model', async (place) => {
  await hooked(place, 'hello', { UserPromptSubmit: { output: { decision: 'block', reason: 'not today' } } }).catch(() => {});
  assert.equal(place.server.requests.length, 0);
  place.server.when('hello', say('hi'));
  const { given } = await hooked(place, 'hello', { UserPromptSubmit: {} });
  assert.equal(given.length, 1);
});

promise('a hook at the end sends the model on, once', async (place) => {
  place.server.when('hello', say('done')).when('check', say('checked'));
  const { given, result } = await hooked(place, 'hello', {
    Stop: { output: (input) => (input.stop_hook_active ? {} : { decision: 'block', reason: 'check it' }) },
  });
  assert.deepEqual(given.map(({ stop_hook_active }) => stop_hook_active), [false, true]);
  assert.equal(given[0].last_assistant_message, 'done');
  assert.equal(result.result, 'checked');
});

promise('the start and the end of a session are told', async (place) => {
  place.server.when('hello', say('hi'));
  const { given } = await hooked(place, 'hello', {
    SessionStart: { output: { hookSpecificOutput: { hookEventName: 'SessionStart', additionalContext: 'the house is blue' } } },
    SessionEnd: {},
  });
  assert.deepEqual(given.map(({ hook_event_name, source }) => [hook_event_name, source]).at(0), ['SessionStart', 'startup']);
  assert.match(JSON.stringify(place.server.requests[0].messages), /the house is blue/);
});

promise('agents are told by their ids, and so are their calls', async (place) => {
  place.server.when('fan out', batch('one'), say('back')).when('do one', write('a.txt'), say('one is done'));
  const { given, talk } = await hooked(place, 'fan out', { SubagentStart: {}, PreToolUse: { matcher: 'Write' }, SubagentStop: {} });
  const [{ task_id }] = talk.of('system', 'task_started');
  assert.deepEqual(
    given.map(({ hook_event_name, agent_id, agent_type }) => [hook_event_name, agent_id, agent_type]),
    ['SubagentStart', 'PreToolUse', 'SubagentStop'].map((event) => [event, task_id, 'general-purpose']),
  );
  assert.equal(given[2].last_assistant_message, 'one is done');
});

promise('a hook that throws stops nothing, if it says so', async (place) => {
  place.server.when('work', write('a.txt'), say('done'));
  const { given } = await hooked(place, 'work', {
    PreToolUse: {
      onFailure: 'warn',
      output: () => {
        throw new Error('the hook broke');
      },
    },
  });
  assert.equal(given.length, 1);
  assert.equal(place.read('a.txt'), 'new\n');
});

// The client's own harness lets the call run without `onFailure`; here a gate fails closed.
for (const more of [{}, { onFailure: 'block' }]) {
  promise(`a hook that throws stops what it guards: ${JSON.stringify(more)}`, async (place) => {
    place.server.when('work', write('a.txt'), say('then not'));
    await hooked(place, 'work', {
      PreToolUse: {
        ...more,
        output: () => {
          throw new Error('the hook broke');
        },
      },
    });
    assert.equal(place.read('a.txt'), undefined);
  });
}

promise('a hook that never answers is waited for as long as it says', async (place) => {
  place.server.when('work', write('a.txt'), say('done'));
  const { given } = await hooked(place, 'work', {
    PreToolUse: { timeout: 1, onFailure: 'warn', output: () => new Promise(() => {}) },
  });
  assert.equal(given.length, 1);
  assert.equal(place.read('a.txt'), 'new\n');
});

promise('a hook that says so ends the turn', async (place) => {
  place.server.when('work', write('a.txt'), say('never'));
  const { given } = await hooked(place, 'work', { PostToolUse: { output: { continue: false, stopReason: 'enough' } } }).catch((error) => ({ given: [error] }));
  assert.equal(given.length, 1);
  assert.equal(place.server.requests.length, 1);
});

promise('a hook that answers at once for later holds nothing up', async (place) => {
  place.server.when('work', write('a.txt'), say('done'));
  const { given } = await hooked(place, 'work', { PreToolUse: { output: { async: true } } });
  assert.equal(given.length, 1);
  assert.equal(place.read('a.txt'), 'new\n');
});

promise('a hook answers a question before the client does', async (place) => {
  place.server.when('work', write('a.txt'), say('done'));
  const { given } = await hooked(
    place,
    'work',
    { PermissionRequest: { output: { hookSpecificOutput: { hookEventName: 'PermissionRequest', decision: { behavior: 'allow' } } } } },
    { permissionMode: 'default', canUseTool: () => new Promise(() => {}) },
  );
  assert.equal(given[0].tool_name, 'Write');
  assert.equal(place.read('a.txt'), 'new\n');
});

promise('hooks are told in the stream on request', async (place) => {
  place.server.when('work', write('a.txt'), say('done'));
  const { talk } = await hooked(place, 'work', { PreToolUse: {} }, { includeHookEvents: true });
  const [started] = talk.of('system', 'hook_started');
  const response = talk.of('system', 'hook_response').find(({ hook_id }) => hook_id === started.hook_id);
  assert.equal(started.hook_event, 'PreToolUse');
  assert.equal(response.outcome, 'success');
});

// --- servers

const calculator = (used = []) =>
  createSdkMcpServer({
    name: 'calc',
    version: '1.0.0',
    tools: [
      tool(
        'add',
        'Adds two numbers',
        { a: z.number(), b: z.number() },
        async ({ a, b }) => {
          used.push([a, b]);
          return { content: [{ type: 'text', text: `the sum is ${a + b}` }] };
        },
        { annotations: { readOnlyHint: true } },
      ),
    ],
  });

/** A server of lines of JSON, in as few words as it takes. */
const STDIO = `
  const answers = {
    initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'out', version: '1' } }),
    'tools/list': () => ({ tools: [{ name: 'shout', description: 'Shouts', inputSchema: { type: 'object', properties: { word: { type: 'string' } } } }] }),
    'tools/call': ({ arguments: { word } }) => ({ content: [{ type: 'text', text: word.toUpperCase() + process.env.MARK }] }),
    ping: () => ({}),
  };
  require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) return;
    const answer = answers[method];
    console.log(JSON.stringify(answer ? { jsonrpc: '2.0', id, result: answer(params) } : { jsonrpc: '2.0', id, error: { code: -32601, message: 'no' } }));
  });
`;
const shouting = (place) => ({ command: process.execPath, args: [place.put('shout.cjs', STDIO)], env: { MARK: '!' } });

for (const mcpServersDelivery of ['argv', 'initialize']) {
  promise(`a server that tine starts is named by ${mcpServersDelivery}`, async (place) => {
    place.server.when('shout', call('mcp__out__shout', { word: 'hey' }), say('done'));
    const talk = place.claude('shout', { mcpServers: { out: shouting(place) }, mcpServersDelivery, allowedTools: ['mcp__out'] });
    assert.equal((await talk.only()).result, 'done');
    assert.match(place.server.last('shout').outputs[0], /HEY!/);
  });
}

promise('a tool in the client is asked about by its whole name', async (place) => {
  place.server.when('add', call('mcp__calc__add', { a: 2, b: 3 }), say('five'));
  const used = [];
  const asked = [];
  const talk = place.claude('add', {
    mcpServers: { calc: calculator(used) },
    canUseTool: async (name, input) => {
      asked.push(name);
      return { behavior: 'allow', updatedInput: { ...input, b: 40 } };
    },
  });
  await talk.only();
  assert.deepEqual(asked, ['mcp__calc__add']);
  assert.deepEqual(used, [[2, 40]]);
});

for (const [what, allowedTools] of Object.entries({ 'the server': ['mcp__calc'], 'all of the server': ['mcp__calc__*'] })) {
  promise(`a rule for ${what} allows a tool in the client`, async (place) => {
    place.server.when('add', call('mcp__calc__add', { a: 2, b: 3 }), say('five'));
    const used = [];
    await place.claude('add', { mcpServers: { calc: calculator(used) }, allowedTools }).only();
    assert.deepEqual(used, [[2, 3]]);
  });
}

promise('a server in the client is listed with its tools', async (place) => {
  const { query } = await begun(place, { mcpServers: { calc: calculator() } });
  const [server] = await query.mcpServerStatus();
  assert.equal(server.name, 'calc');
  assert.equal(server.status, 'connected');
  assert.deepEqual(server.tools.map(({ name }) => name), ['add']);
});

promise('a server is added to a running session', async (place) => {
  const { query, feed, talk } = await begun(place);
  const used = [];
  const set = await query.setMcpServers({ calc: calculator(used) });
  assert.deepEqual(set.added, ['calc']);
  assert.deepEqual(set.errors, {});
  place.server.when('add', call('mcp__calc__add', { a: 2, b: 3 }), say('five'));
  await query.setPermissionMode('default');
  feed.say('add');
  await talk.result();
  feed.end();
  assert.ok((await query.mcpServerStatus().catch(() => [{ name: 'calc' }])).some(({ name }) => name === 'calc'));
});

promise('a server that cannot be started is told, and the rest goes on', async (place) => {
  place.server.when('hello', say('hi'));
  const talk = place.claude('hello', { mcpServers: { gone: { command: '/nowhere/server' } }, mcpServersDelivery: 'argv' });
  assert.equal((await talk.only()).result, 'hi');
  assert.notEqual(talk.init.mcp_servers.find(({ name }) => name === 'gone').status, 'connected');
});

promise('a tool with another name runs the tool it stands for', async (place) => {
  place.server.when('work', call('Bash', { command: 'ignored', a: 2, b: 3 }), say('five'));
  const used = [];
  await place.claude('work', {
    mcpServers: { calc: calculator(used) },
    allowedTools: ['mcp__calc__add'],
    toolAliases: { Bash: 'mcp__calc__add' },
  }).only();
  assert.deepEqual(used, [[2, 3]]);
});

/** A server whose tool asks before it answers. */
const asking = () =>
  createSdkMcpServer({
    name: 'door',
    version: '1.0.0',
    tools: [
      tool('open', 'Opens the door', {}, async (_input, { sendRequest }) => {
        const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
        const params = { message: 'Who is there?', requestedSchema };
        const { action, content } = await sendRequest({ method: 'elicitation/create', params }, z.any());
        return { content: [{ type: 'text', text: `${action}: ${content?.name}` }] };
      }),
    ],
  });

promise('a server in the client asks, and the client answers it', async (place) => {
  place.server.when('open', call('mcp__door__open', {}), say('welcome'));
  const asked = [];
  await place.claude('open', {
    mcpServers: { door: asking() },
    allowedTools: ['mcp__door'],
    onElicitation: async ({ serverName, message, requestedSchema }) => {
      asked.push([serverName, message, Object.keys(requestedSchema.properties)]);
      return { action: 'accept', content: { name: 'Ann' } };
    },
  }).only();
  assert.deepEqual(asked, [['door', 'Who is there?', ['name']]]);
  assert.match(place.server.last('open').outputs[0], /accept: Ann/);
});

promise('a server in the client asks, and nobody is there to answer', async (place) => {
  place.server.when('open', call('mcp__door__open', {}), say('closed'));
  await place.claude('open', { mcpServers: { door: asking() }, allowedTools: ['mcp__door'] }).only();
  assert.match(place.server.last('open').outputs[0], /decline/);
});

promise('the question about a tool in the client names the agent that calls it', async (place) => {
  place.server.when('fan out', batch('one'), say('back')).when('do one', call('mcp__calc__add', { a: 1, b: 2 }), say('three'));
  const asked = [];
  const talk = place.claude('fan out', {
    mcpServers: { calc: calculator() },
    canUseTool: async (name, updatedInput, { agentID }) => {
      asked.push([name, agentID]);
      return { behavior: 'allow', updatedInput };
    },
  });
  await talk.only();
  assert.deepEqual(asked, [['mcp__calc__add', talk.of('system', 'task_started')[0].task_id]]);
});

promise('an interrupt ends a turn that waits for a tool in the client', async (place) => {
  let reached;
  const waiting = new Promise((resolve) => (reached = resolve));
  const slow = createSdkMcpServer({
    name: 'slow',
    version: '1.0.0',
    tools: [
      tool('wait', 'Waits', {}, () => {
        reached();
        return new Promise(() => {});
      }),
    ],
  });
  place.server.when('work', call('mcp__slow__wait', {})).when('next', say('here'));
  const feed = new Feed();
  const talk = place.claude(feed, { mcpServers: { slow }, allowedTools: ['mcp__slow'] });
  feed.say('work');
  const result = talk.result();
  await waiting;
  await talk.query.interrupt();
  assert.equal((await result).subtype, 'error_during_execution');
  feed.say('next');
  assert.equal((await talk.result()).result, 'here');
});
