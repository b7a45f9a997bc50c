// What only `@anthropic-ai/claude-agent-sdk` has: its options, its messages,
// its questions.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { AbortError, SYSTEM_PROMPT_DYNAMIC_BOUNDARY, startup } from '@anthropic-ai/claude-agent-sdk';

import { Feed, TINE, Talk } from './place.mjs';
import { promise } from './promise.mjs';
import { call, held, say } from './server.mjs';

const write = (path, content = 'new\n') => call('Write', { file_path: path, content });
const task = (name) => ({ description: name, prompt: `do ${name}`, subagent_type: 'general-purpose' });
const batch = (...names) => call('Agent', { tasks: names.map(task) });
const no = (message) => ({ behavior: 'deny', message });
const uuid = (digit) => `${String(digit).repeat(8)}-0000-4000-8000-000000000000`;

/** Resolves once tine has read all that was sent before. */
const heard = (talk) => talk.query.setPermissionMode('default');

// --- options, each of which once ended the process

const inert = {
  'sources of settings': { settingSources: ['user', 'project', 'local'] },
  'no sources of settings': { settingSources: [] },
  'only these servers': { strictMcpConfig: true },
  'suggestions': { promptSuggestions: true },
  'summaries of agents': { agentProgressSummaries: true },
  'a stop for each task': { perTaskStopAffordance: true },
  'copies of files': { enableFileCheckpointing: true },
  'prompts as they are': { verbatimPrompts: true },
  'other names for tools': { toolAliases: { Shell: 'Bash' } },
  'a plan in other words': { planModeInstructions: 'Plan in three steps.' },
  'debugging': { debug: true },
  'a title': { title: 'The first try' },
  'all skills': { skills: 'all' },
  'one skill': { skills: ['review'] },
};
const unknown = {
  'adaptive thinking': { thinking: { type: 'adaptive', display: 'summarized' } },
  'a budget for thinking': { thinking: { type: 'enabled', budgetTokens: 2048 } },
  'no thinking': { thinking: { type: 'disabled' } },
  'most tokens of thinking': { maxThinkingTokens: 1024 },
  'a budget of the task': { taskBudget: { total: 10_000 } },
  'a beta': { betas: ['context-1m-2025-08-07'] },
  'settings in line': { settings: { permissions: { allow: ['Bash(ls)'] } } },
  'settings of the company': { managedSettings: { permissions: { deny: ['WebSearch'] } } },
  'settings by the first request': { settings: { permissions: { allow: ['Bash(ls)'] } }, settingsDelivery: 'initialize' },
  'tools left out by the first request': { disallowedTools: ['Bash'], disallowedToolsDelivery: 'initialize' },
  'a sandbox': { sandbox: { enabled: false } },
  'leave to ask nobody': { permissionPrompts: 'none' },
  'the host answers': { permissionPrompts: 'host' },
  'leave to skip permissions': { allowDangerouslySkipPermissions: true },
  'a mode that a model decides': { permissionMode: 'auto' },
  'hooks in the stream': { includeHookEvents: true },
  'a directory of plugins': { plugins: [{ type: 'local', path: '/nowhere' }] },
  'plugins by the first request': { plugins: [{ type: 'local', path: '/nowhere' }], pluginDelivery: 'initialize' },
  'a root for the project': { projectConfigRoot: '/' },
  'words of a later version': { extraArgs: { 'not-yet-known': null, 'nor-this': 'value', 'or-this': '-1' } },
};
const greets = (options) => async (place) => {
  place.server.when('hello', say('hi'));
  assert.equal((await place.claude('hello', options).only()).result, 'hi');
};
for (const [name, options] of Object.entries(inert)) promise(`an option ends nothing: ${name}`, greets(options));
for (const [name, options] of Object.entries(unknown)) promise(`an option ends nothing: ${name}`, greets(options));

promise('a log of its own is written where the client says', async (place) => {
  place.server.when('hello', say('hi'));
  const path = `${place.root}/debug.log`;
  assert.equal((await place.claude('hello', { debugFile: path }).only()).result, 'hi');
  assert.ok(existsSync(path));
});

promise('effort goes to the model', async (place) => {
  place.server.when('hello', say('hi'));
  await place.claude('hello', { effort: 'high', thinking: { type: 'adaptive' } }).only();
  assert.equal(place.server.requests[0].body.reasoning_effort, 'high');
});

promise('another model goes on where the first is overloaded', async (place) => {
  place.server.when('hello', { status: 529, message: 'overloaded' }, say('hi'));
  assert.equal((await place.claude('hello', { model: 'm', fallbackModel: 'spare' }).only()).result, 'hi');
  assert.deepEqual(place.server.requests.map(({ body }) => body.model), ['m', 'spare']);
});

promise('the words of a system prompt are said before the first message', async (place) => {
  place.server.when('hello', say('hi'));
  await place.claude('hello').only();
  assert.ok(place.server.requests[0].system.length > 500);
});

promise('a system prompt in parts is one, without the mark between them', async (place) => {
  place.server.when('hello', say('hi'));
  await place.claude('hello', { systemPrompt: ['Part one.', SYSTEM_PROMPT_DYNAMIC_BOUNDARY, 'Part two.'] }).only();
  const { system } = place.server.requests[0];
  assert.match(system, /Part one\.\s+Part two\./);
  assert.doesNotMatch(system, /BOUNDARY/);
});

promise('a system prompt that is announced as the caller\'s own is used', async (place) => {
  place.server.when('hello', say('hi'));
  await place.claude('hello', { systemPrompt: { type: 'custom', prompt: 'You are a release bot.' } }).only();
  assert.match(place.server.requests[0].system, /^You are a release bot\./);
});

promise('no tools are no tools', async (place) => {
  place.server.when('hello', say('hi'));
  const talk = place.claude('hello', { tools: [] });
  await talk.only();
  assert.deepEqual(place.server.requests[0].tools, []);
  assert.deepEqual(talk.init.tools, []);
});

promise('the tools of the preset are all tools', async (place) => {
  place.server.when('hello', say('hi'));
  await place.claude('hello', { tools: { type: 'preset', preset: 'claude_code' } }).only();
  assert.ok(place.server.requests[0].tools.includes('Agent'));
});

promise('rules with commas and parentheses come through one flag', async (place) => {
  place.server.when('work', call('Bash', { command: 'touch a,b' }), say('done'));
  const talk = place.claude('work', {
    allowedTools: ['Read', 'Bash(touch a,b)', 'Edit(src/**)'],
    canUseTool: async (name) => assert.fail(`asked about ${name}`),
  });
  await talk.only();
  assert.equal(place.read('a,b'), '');
});

promise('rules for tools that there are not do no harm', async (place) => {
  place.server.when('hello', say('hi'));
  const talk = place.claude('hello', {
    allowedTools: ['Task', 'MultiEdit', 'LS', 'WebSearch', 'NotebookEdit', 'KillShell', 'BashOutput', 'mcp__github', 'mcp__github__*'],
    disallowedTools: ['WebSearch', 'ExitPlanMode', 'mcp__slack', 'CronCreate'],
  });
  assert.equal((await talk.only()).result, 'hi');
});

promise('a rule that denies part of a tool leaves it there and denies that part', async (place) => {
  place.server.when('work', call('Bash', { command: 'touch a' }), say('not that'));
  const talk = place.claude('work', {
    disallowedTools: ['Bash(touch *)'],
    permissionMode: 'default',
    canUseTool: async (name) => assert.fail(`asked about ${name}`),
  });
  const result = await talk.only();
  assert.ok(place.server.requests[0].tools.includes('Bash'));
  assert.equal(place.read('a'), undefined);
  assert.deepEqual(result.permission_denials.map(({ tool_name }) => tool_name), ['Bash']);
});

promise('main is the agent that the client names', async (place) => {
  place.server.when('hello', say('hi'));
  await place.claude('hello', {
    agent: 'guard',
    agents: { guard: { description: 'Guards', prompt: 'You guard the gate.', tools: ['Read', 'Grep'], model: 'small' } },
  }).only();
  const [request] = place.server.requests;
  assert.match(request.system, /You guard the gate\./);
  assert.deepEqual(request.tools, ['Read', 'Grep']);
  assert.equal(request.body.model, 'small');
});

promise('a definition says which tools, which model and how many turns', async (place) => {
  place.server.when('fan out', call('Agent', { description: 'l', prompt: 'look', subagent_type: 'looker' }), say('seen'));
  place.server.when('look', call('Glob', { pattern: '*' }), call('Glob', { pattern: '*' }), say('never'));
  const agents = { looker: { description: 'Looks', prompt: 'You look.', tools: ['Glob'], model: 'small', maxTurns: 2 } };
  await place.claude('fan out', { agents }).only();
  const asked = place.server.requests.filter(({ prompt }) => prompt.includes('look'));
  assert.equal(asked.length, 2);
  assert.deepEqual(asked[0].tools, ['Glob']);
  assert.equal(asked[0].body.model, 'small');
});

promise('agents are listed with those of the client', async (place) => {
  place.server.when('hello', say('hi'));
  const talk = place.claude('hello', { agents: { poet: { description: 'Writes verse', prompt: 'You are a poet.' } } });
  const listed = await talk.query.supportedAgents();
  assert.equal(listed.find(({ name }) => name === 'poet').description, 'Writes verse');
  await talk.only();
});

promise('what agents say is told on request', async (place) => {
  place.server.when('fan out', batch('one'), say('back')).when('do one', say('one says so'));
  const talk = place.claude('fan out', { forwardSubagentText: true });
  await talk.only();
  const inside = talk.of('assistant').filter((record) => record.parent_tool_use_id !== null);
  assert.deepEqual(inside.map(({ message }) => message.content[0].text), ['one says so']);
});

promise('a title names the session', async (place) => {
  place.server.when('hello', say('hi'));
  await place.claude('hello', { title: 'The first try' }).only();
  const { stdout } = await place.script('tine sessions');
  assert.match(stdout, /The first try/);
});

promise('instructions of the project are read', async (place) => {
  place.put('work/CLAUDE.md', 'Paint everything blue.\n');
  place.server.when('hello', say('hi'));
  await place.claude('hello').only();
  assert.match(JSON.stringify(place.server.requests[0].messages), /Paint everything blue/);
});

promise('without sources of settings nothing of the project is read', async (place) => {
  place.put('work/CLAUDE.md', 'Paint everything blue.\n');
  place.put('work/.claude/skills/greet/SKILL.md', '---\nname: greet\ndescription: Greets somebody\n---\nGreet.\n');
  place.server.when('hello', say('hi'));
  const talk = place.claude('hello', { settingSources: [] });
  await talk.only();
  assert.doesNotMatch(JSON.stringify(place.server.requests[0].messages), /Paint everything blue/);
  assert.ok(!talk.init.skills.includes('greet'));
});

promise('the latest session of the directory goes on', async (place) => {
  place.server.when('first', say('one')).when('second', say('two'));
  const talk = place.claude('first');
  await talk.only();
  const again = place.claude('second', { continue: true });
  await again.only();
  assert.equal(again.init.session_id, talk.init.session_id);
  assert.match(place.server.last('second').text('assistant'), /one/);
});

promise('a session that is copied under an id of the client has that id', async (place) => {
  place.server.when('first', say('one')).when('second', say('two'));
  const talk = place.claude('first');
  await talk.only();
  const copy = place.claude('second', { resume: talk.init.session_id, forkSession: true, sessionId: uuid(5) });
  await copy.only();
  assert.equal(copy.init.session_id, uuid(5));
  assert.match(place.server.last('second').text('assistant'), /one/);
});

// --- budgets and totals

promise('a budget ends a message that would cost more', async (place) => {
  place.server.when('work', call('Glob', { pattern: '*' }), say('never'));
  const talk = place.claude('work', { model: 'priced', maxBudgetUsd: 0.05 });
  const result = await talk.result();
  assert.equal(result.subtype, 'error_max_budget_usd');
  assert.ok(result.total_cost_usd > 0.05);
  await assert.rejects(talk.results());
});

promise('a budget is for the whole conversation', async (place) => {
  place.server.when('first', say('one')).when('second', call('Glob', { pattern: '*' }), say('never'));
  const feed = new Feed();
  const talk = place.claude(feed, { model: 'priced', maxBudgetUsd: 0.15 });
  feed.say('first');
  assert.equal((await talk.result()).subtype, 'success');
  feed.say('second');
  assert.equal((await talk.result()).subtype, 'error_max_budget_usd');
});

promise('costs and models add up over messages, usage is that of each', async (place) => {
  place.server.when('first', say('one')).when('second', say('two'));
  const feed = new Feed();
  const talk = place.claude(feed, { model: 'priced' });
  feed.say('first');
  const first = await talk.result();
  feed.say('second');
  const second = await talk.result();
  feed.end();
  assert.ok(Math.abs(first.total_cost_usd - 0.11) < 1e-6);
  assert.ok(Math.abs(second.total_cost_usd - 0.22) < 1e-6);
  assert.deepEqual([first.usage.input_tokens, second.usage.input_tokens], [100, 100]);
  assert.deepEqual([first.modelUsage.priced.inputTokens, second.modelUsage.priced.inputTokens], [100, 200]);
});

promise('what agents used is in the sum of models and not in main\'s usage', async (place) => {
  place.server.when('fan out', batch('one', 'two'), say('back')).when('do one', say('1')).when('do two', say('2'));
  const result = await place.claude('fan out', { model: 'priced' }).only();
  assert.equal(result.usage.input_tokens, 200);
  assert.equal(Object.values(result.modelUsage).reduce((sum, { inputTokens }) => sum + inputTokens, 0), 400);
});

promise('a conversation that is not kept takes many messages', async (place) => {
  place.server.when('first', say('one')).when('second', say('two'));
  const feed = new Feed();
  const talk = place.claude(feed, { persistSession: false });
  feed.say('first');
  assert.equal((await talk.result()).result, 'one');
  feed.say('second');
  assert.equal((await talk.result()).result, 'two');
  feed.end();
  assert.deepEqual(await talk.results(), []);
  assert.match(place.server.last('second').text('assistant'), /one/);
  assert.doesNotMatch((await place.script('tine sessions')).stdout, new RegExp(talk.init.session_id.slice(0, 8)));
});

// --- questions

promise('a question names its call, and its agent if it has one', async (place) => {
  place.server.when('fan out', batch('one', 'two'), say('both')).when('own', write('own.txt'), say('fine'));
  for (const name of ['one', 'two']) place.server.when(`do ${name}`, write(`${name}.txt`), say('fine'));
  const asked = [];
  const options = {
    canUseTool: async (_name, input, { agentID, toolUseID }) => {
      const isFirst = !asked.some((other) => other.agentID !== agentID);
      asked.push({ path: input.file_path, agentID, toolUseID });
      return isFirst ? { behavior: 'allow', updatedInput: input } : no('not this agent');
    },
  };
  const talk = place.claude('fan out', options);
  const result = await talk.only();
  const started = talk.of('system', 'task_started').map(({ task_id }) => task_id);
  assert.deepEqual(asked.map(({ agentID }) => agentID).sort(), started.sort());
  assert.deepEqual([asked[0], asked[1]].map(({ path }) => place.read(path)), ['new\n', undefined]);
  assert.equal(result.permission_denials[0].tool_use_id, asked[1].toolUseID);
  asked.length = 0;
  await place.claude('own', options).only();
  assert.deepEqual(asked.map(({ agentID }) => agentID), [undefined]);
});

promise('questions of several slots are open at once', async (place) => {
  const names = ['one', 'two', 'three'];
  place.server.when('fan out', batch(...names), say('all'));
  for (const name of names) place.server.when(`do ${name}`, write(`${name}.txt`), say('fine'));
  const waiting = [];
  const talk = place.claude('fan out', {
    canUseTool: (_name, updatedInput) =>
      new Promise((resolve) => {
        waiting.push(() => resolve({ behavior: 'allow', updatedInput }));
        if (waiting.length === names.length) for (const answer of waiting) answer();
      }),
  });
  await talk.only();
  assert.deepEqual(names.map((name) => place.read(`${name}.txt`)), names.map(() => 'new\n'));
});

promise('a callback that never answers ends with an interrupt, and the next message starts a turn', async (place) => {
  place.server.when('write', write('a.txt')).when('next', say('here'));
  let seen;
  const asked = new Promise((resolve) => (seen = resolve));
  const feed = new Feed();
  const talk = place.claude(feed, {
    canUseTool: (_name, _input, { signal }) => {
      seen(signal);
      return new Promise(() => {});
    },
  });
  feed.say('write');
  const result = talk.result();
  const signal = await asked;
  await talk.query.interrupt();
  assert.equal((await result).subtype, 'error_during_execution');
  assert.equal(signal.aborted, true);
  assert.equal(place.read('a.txt'), undefined);
  feed.say('next');
  assert.equal((await talk.result()).result, 'here');
});

promise('a yes without an input leaves it as it is', async (place) => {
  place.server.when('write', write('a.txt'), say('done'));
  await place.claude('write', { canUseTool: async () => ({ behavior: 'allow' }) }).only();
  assert.equal(place.read('a.txt'), 'new\n');
});

promise('what a question suggests spares the next one', async (place) => {
  place.server.when('work', call('Bash', { command: 'touch a' }), call('Bash', { command: 'touch a' }), say('done'));
  let asked = 0;
  await place.claude('work', {
    canUseTool: async (_name, updatedInput, { suggestions }) => {
      asked += 1;
      assert.equal(suggestions[0].type, 'addRules');
      return { behavior: 'allow', updatedInput, updatedPermissions: suggestions };
    },
  }).only();
  assert.equal(asked, 1);
});

promise('a yes can set the mode', async (place) => {
  place.server.when('work', write('a.txt'), write('b.txt'), say('done'));
  let asked = 0;
  const talk = place.claude('work', {
    canUseTool: async (_name, updatedInput) => {
      asked += 1;
      return { behavior: 'allow', updatedInput, updatedPermissions: [{ type: 'setMode', mode: 'acceptEdits', destination: 'session' }] };
    },
  });
  await talk.only();
  assert.equal(asked, 1);
  assert.equal(place.read('b.txt'), 'new\n');
});

promise('a yes can add a directory, and a rule that denies', async (place) => {
  const path = place.put('other/kept.txt', '').replace('kept', 'new');
  place.server.when('work', write('a.txt'), write(path), call('Bash', { command: 'touch b' }), say('done'));
  const asked = [];
  const updatedPermissions = [
    { type: 'setMode', mode: 'acceptEdits', destination: 'session' },
    { type: 'addDirectories', directories: [`${place.root}/other`], destination: 'session' },
    { type: 'addRules', behavior: 'deny', rules: [{ toolName: 'Bash', ruleContent: 'touch *' }], destination: 'session' },
  ];
  const result = await place.claude('work', {
    canUseTool: async (name, updatedInput) => {
      asked.push(name);
      return { behavior: 'allow', updatedInput, updatedPermissions };
    },
  }).only();
  assert.deepEqual(asked, ['Write']);
  assert.equal(place.read('../other/new.txt'), 'new\n');
  assert.deepEqual(result.permission_denials.map(({ tool_name }) => tool_name), ['Bash']);
});

promise('a mode that asks nobody denies', async (place) => {
  place.server.when('work', write('a.txt'), say('done'));
  const result = await place.claude('work', {
    permissionMode: 'dontAsk',
    canUseTool: async (name) => assert.fail(`asked about ${name}`),
  }).only();
  assert.equal(result.permission_denials.length, 1);
});

promise('a denial without a question is told as it happens', async (place) => {
  place.server.when('work', write('a.txt'), say('done'));
  const talk = place.claude('work', { permissionMode: 'dontAsk' });
  await talk.only();
  const [denied] = talk.of('system', 'permission_denied');
  assert.equal(denied.tool_name, 'Write');
  assert.equal(typeof denied.message, 'string');
});

promise('a question of the model reaches the callback, and its answer the model', async (place) => {
  const questions = [
    { question: 'Which colour?', header: 'Colour', multiSelect: false, options: [{ label: 'red', description: 'warm' }, { label: 'blue', description: 'cold' }] },
  ];
  place.server.when('ask', call('AskUserQuestion', { questions }), say('blue it is'));
  const talk = place.claude('ask', {
    canUseTool: async (name, input) => {
      assert.equal(name, 'AskUserQuestion');
      return { behavior: 'allow', updatedInput: { ...input, answers: { 'Which colour?': 'blue' } } };
    },
  });
  assert.equal((await talk.only()).result, 'blue it is');
  assert.match(place.server.last('ask').outputs[0], /blue/);
});

// --- the state of the session

promise('the state of the session is told to whoever asks for it', async (place) => {
  place.server.when('write', write('a.txt'), say('done'));
  const talk = place.claude('write', {
    env: { CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS: '1' },
    canUseTool: async (_name, updatedInput) => ({ behavior: 'allow', updatedInput }),
  });
  await talk.only();
  const states = talk.of('system', 'session_state_changed').map(({ state }) => state);
  assert.deepEqual(states, ['running', 'requires_action', 'running', 'idle']);
  assert.equal(talk.records.at(-1).state, 'idle');
});

promise('the state of the session is not told to whoever did not ask', async (place) => {
  place.server.when('hello', say('hi'));
  const talk = place.claude('hello');
  await talk.only();
  assert.deepEqual(talk.of('system', 'session_state_changed'), []);
});

promise('a fork that outlives the first result can still ask', async (place) => {
  const gate = place.server.gate();
  place.server
    .when('begin', call('Agent', { description: 'dig', prompt: 'dig deep' }), say('it digs'))
    .when('dig deep', held(gate, write('gold.txt')), say('gold'))
    .when('gold', say('so it was gold'));
  const asked = [];
  const talk = place.claude('begin', {
    canUseTool: async (_name, updatedInput, { agentID }) => {
      asked.push(agentID);
      return { behavior: 'allow', updatedInput };
    },
  });
  assert.equal((await talk.result()).result, 'it digs');
  await gate.reached();
  gate.open();
  const results = await talk.results();
  assert.equal(results.at(-1).result, 'so it was gold');
  assert.equal(place.read('gold.txt'), 'new\n');
  assert.equal(asked.length, 1);
});

// --- messages

promise('a message that asks for no answer goes with the next', async (place) => {
  place.server.when('and now', say('seen'));
  const feed = new Feed();
  feed.say('a note for later', { shouldQuery: false });
  feed.say('and now');
  feed.end();
  const talk = place.claude(feed);
  assert.equal((await talk.only()).result, 'seen');
  assert.equal(place.server.requests.length, 1);
  assert.match(place.server.requests[0].text('user'), /a note for later/);
});

promise('messages are told again on request', async (place) => {
  place.server.when('hello', say('hi'));
  const feed = new Feed();
  feed.say('hello', { uuid: uuid(7) });
  feed.end();
  const talk = place.claude(feed, { extraArgs: { 'replay-user-messages': null } });
  await talk.only();
  const [replayed] = talk.of('user');
  assert.equal(replayed.isReplay, true);
  assert.equal(replayed.uuid, uuid(7));
  assert.deepEqual(replayed.message, { role: 'user', content: 'hello' });
});

promise('a result names the message that it answers', async (place) => {
  place.server.when('hello', say('hi'));
  const feed = new Feed();
  feed.say('hello', { uuid: uuid(7) });
  feed.end();
  assert.equal((await place.claude(feed).only()).user_message_uuid, uuid(7));
});

promise('an interrupt names the messages that will still run', async (place) => {
  const gate = place.server.gate();
  place.server.when('long', held(gate, say('too late'))).when('queued', say('now'));
  const feed = new Feed();
  const talk = place.claude(feed);
  feed.say('long', { uuid: uuid(1) });
  const result = talk.result();
  await gate.reached();
  feed.say('queued', { uuid: uuid(2) });
  await new Promise(setImmediate);
  await heard(talk);
  assert.deepEqual(await talk.query.interrupt(), { still_queued: [uuid(2)] });
  assert.equal((await result).subtype, 'error_during_execution');
  assert.equal((await talk.result()).result, 'now');
});

promise('what is for the command line is answered, and the next message too', async (place) => {
  place.server.when('next', say('here'));
  const feed = new Feed();
  const talk = place.claude(feed);
  feed.say('/usage');
  assert.equal((await talk.result()).is_error, false);
  feed.say('next');
  assert.equal((await talk.result()).result, 'here');
});

promise('a command that there is not ends nothing', async (place) => {
  place.server.when('/nonsense', say('I know no such command')).when('next', say('here'));
  const feed = new Feed();
  const talk = place.claude(feed);
  feed.say('/nonsense');
  await talk.result();
  feed.say('next');
  assert.equal((await talk.result()).result, 'here');
});

promise('a skill is a command', async (place) => {
  place.put('work/.claude/skills/greet/SKILL.md', '---\nname: greet\ndescription: Greets somebody\n---\nGreet $ARGUMENTS warmly.\n');
  place.server.when('Greet Ann warmly', say('hello Ann'));
  const talk = place.claude('/greet Ann');
  assert.equal((await talk.only()).result, 'hello Ann');
  assert.ok(talk.init.slash_commands.includes('greet'));
  assert.ok(talk.init.skills.includes('greet'));
});

// --- structured output

const schema = { type: 'object', properties: { sum: { type: 'number' } }, required: ['sum'], additionalProperties: false };
const outputFormat = { type: 'json_schema', schema };

/** Answers with an object in whichever way the request offers. */
const answer = (object) => (request) => {
  const tool = request.tools.find((name) => /structured.?output/i.test(name));
  return tool ? call(tool, object) : say(JSON.stringify(object));
};

promise('an answer with a schema is an object of the result', async (place) => {
  place.server.when('add', answer({ sum: 5 }), say('done'));
  const result = await place.claude('add', { outputFormat }).only();
  assert.equal(result.subtype, 'success');
  assert.deepEqual(result.structured_output, { sum: 5 });
});

promise('an answer that does not fit its schema is asked for again', async (place) => {
  place.server.when('', answer({ sum: 'five' }), answer({ sum: 5 }), say('done'));
  const result = await place.claude('add', { outputFormat }).only();
  assert.deepEqual(result.structured_output, { sum: 5 });
  assert.ok(place.server.requests.length >= 2);
});

promise('an answer that never fits its schema is an error of its own', async (place) => {
  place.server.when('', ...Array.from({ length: 20 }, () => answer({ sum: 'five' })));
  const talk = place.claude('add', { outputFormat });
  const result = await talk.result();
  assert.equal(result.subtype, 'error_max_structured_output_retries');
  assert.ok(result.errors.length > 0);
  await assert.rejects(talk.results());
});

promise('every message of a conversation is held to the schema', async (place) => {
  place.server.when('first', answer({ sum: 1 }), say('done')).when('second', answer({ sum: 2 }), say('done'));
  const feed = new Feed();
  for (const name of ['first', 'second']) feed.say(name);
  feed.end();
  const results = await place.claude(feed, { outputFormat }).results();
  assert.deepEqual(results.map(({ structured_output }) => structured_output), [{ sum: 1 }, { sum: 2 }]);
});

// --- ends

promise('a refusal at the start answers the first request too', async (place) => {
  const talk = place.claude('hello', { resume: uuid(9) });
  const initialized = talk.query.initializationResult().then(
    () => 'answered',
    (error) => error.message,
  );
  await assert.rejects(talk.results());
  assert.match(await initialized, /answered|99999999/);
});

promise('an abort before the first record throws the same', async (place) => {
  place.server.when('hello', say('hi'));
  const abortController = new AbortController();
  const talk = place.claude('hello', { abortController });
  abortController.abort();
  await assert.rejects(talk.results(), (error) => error instanceof AbortError);
});

promise('a client that dies takes tine with it', async (place) => {
  const gate = place.server.gate();
  place.server.when('long', held(gate, say('too late')));
  const program = `
    import { query } from '@anthropic-ai/claude-agent-sdk';
    for await (const _ of query({ prompt: 'long', options: { pathToClaudeCodeExecutable: ${JSON.stringify(TINE)} } })) {}
  `;
  const client = spawn(process.execPath, ['--input-type=module', '-e', program], {
    cwd: fileURLToPath(new URL('.', import.meta.url)),
    env: place.env,
    stdio: 'ignore',
  });
  place.ends(() => client.kill('SIGKILL'));
  await gate.reached();
  client.kill('SIGKILL');
  await once(client, 'exit');
  await place.server.last('long').gone;
});

promise('a process that was started ahead answers', async (place) => {
  place.server.when('hello', say('hi'));
  const options = { cwd: place.work, pathToClaudeCodeExecutable: TINE, env: place.env };
  const warm = await startup({ options });
  place.ends(() => warm.close?.());
  assert.equal((await new Talk(warm.query('hello')).only()).result, 'hi');
});

promise('two conversations in one directory do not meet', async (place) => {
  place.server.when('left', say('l')).when('right', say('r'));
  const talks = ['left', 'right'].map((name) => place.claude(name));
  const results = await Promise.all(talks.map((talk) => talk.only()));
  assert.deepEqual(results.map(({ result }) => result), ['l', 'r']);
  assert.notEqual(talks[0].init.session_id, talks[1].init.session_id);
});

promise('commands are given no key of the client', async (place) => {
  place.server.when('work', call('Bash', { command: 'echo "key: $OPENAI_API_KEY"' }), say('done'));
  await place.claude('work', { allowedTools: ['Bash'] }).only();
  assert.match(place.server.last('work').outputs[0], /key: *\n/);
});
