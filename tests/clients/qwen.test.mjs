// What only `@qwen-code/sdk` has: its names for tools and modes, its requests,
// its way to wait.

import assert from 'node:assert/strict';

import { Feed } from './place.mjs';
import { promise } from './promise.mjs';
import { call, held, say } from './server.mjs';

const write = (path, content = 'new\n') => call('Write', { file_path: path, content });
const task = (name) => ({ description: name, prompt: `do ${name}`, subagent_type: 'general-purpose' });
const batch = (...names) => call('Agent', { tasks: names.map(task) });
const SESSION = '0e7a1f5e-3c1d-4f9b-9a50-6d0f3f8b2c11';

/** A conversation that has had one message. */
async function begun(place, options) {
  place.server.when('begin', say('ready'));
  const feed = new Feed();
  const talk = place.qwen(feed, options);
  feed.say('begin');
  await talk.result();
  return { feed, talk, query: talk.query };
}

// --- options

const inert = {
  'a limit for calls': { maxToolCalls: 50 },
  'a depth for agents': { maxSubagentDepth: 2 },
  'a kind of authentication': { authType: 'openai' },
  'another kind of authentication': { authType: 'qwen-oauth' },
  'extensions': { extensions: ['one', 'two'] },
  'names of servers': { allowedMcpServerNames: ['one', 'two'] },
  'safe mode': { safeMode: true },
  'commands left out': { disabledSlashCommands: ['fork', 'undo'] },
  'effort': { effort: 'high' },
  'limits for waiting': { timeout: { canUseTool: 5_000, mcpRequest: 5_000, controlRequest: 5_000, streamClose: 5_000 } },
};
const unknown = {
  'no limit for turns': { maxSessionTurns: -1 },
  'no limit for calls': { maxToolCalls: -1 },
  'trust in any certificate': { insecure: true },
  'a mode that a model decides': { permissionMode: 'auto' },
  'two directories': { includeDirectories: ['/tmp', '/usr'] },
  'words of a later version': { extraArgs: ['--not-yet-known', '--nor-this', 'value', '--bare', '--output-style', 'Concise'] },
};
const foreign = {
  'only its own tools': { coreTools: ['read_file', 'write_file', 'edit', 'run_shell_command', 'grep_search', 'glob', 'list_directory', 'todo_write'] },
  'tools of its own left out': { excludeTools: ['web_fetch', 'save_memory', 'lsp'] },
  'rules in its own names': { allowedTools: ['read_file', 'ShellTool(git status)', 'run_shell_command(ls)', 'web_search'] },
};
const greets = (options) => async (place) => {
  place.server.when('hello', say('hi'));
  assert.equal((await place.qwen('hello', options).only()).result, 'hi');
};
for (const [name, options] of Object.entries(inert)) promise(`an option ends nothing: ${name}`, greets(options));
for (const [name, options] of Object.entries(unknown)) promise(`an option ends nothing: ${name}`, greets(options));
for (const [name, options] of Object.entries(foreign)) promise(`an option ends nothing: ${name}`, greets(options));

promise('its own names of tools leave out and allow ours', async (place) => {
  place.server.when('work', call('Bash', { command: 'touch a' }), say('done'));
  const talk = place.qwen('work', {
    coreTools: ['read_file', 'run_shell_command'],
    allowedTools: ['ShellTool(touch)'],
    canUseTool: async (name) => assert.fail(`asked about ${name}`),
  });
  await talk.only();
  assert.deepEqual(place.server.requests[0].tools, ['Read', 'Bash']);
  assert.equal(place.read('a'), '');
});

promise('a tool that is left out by its own name is gone', async (place) => {
  place.server.when('hello', say('hi'));
  await place.qwen('hello', { excludeTools: ['run_shell_command', 'Edit'] }).only();
  const [{ tools }] = place.server.requests;
  assert.deepEqual(['Bash', 'Edit'].filter((name) => tools.includes(name)), []);
});

promise('a limit for calls ends the run', async (place) => {
  place.server.when('work', call('Glob', { pattern: '*' }), call('Glob', { pattern: '*' }), say('never'));
  const talk = place.qwen('work', { maxToolCalls: 1 });
  const result = await talk.result();
  assert.equal(result.is_error, true);
  assert.ok(place.server.requests.length <= 2);
  await assert.rejects(talk.results());
});

promise('effort of the options goes to the model', async (place) => {
  place.server.when('hello', say('hi'));
  const talk = place.qwen('hello', { effort: 'high' });
  await talk.query.initialized;
  assert.deepEqual(talk.query.getInitialEffortStatus(), { applied: true, override: null, reason: undefined });
  await talk.only();
  assert.equal(place.server.requests[0].body.reasoning_effort, 'high');
});

promise('a definition says which tools, which model and how many turns', async (place) => {
  place.server.when('fan out', call('Agent', { description: 'l', prompt: 'look', subagent_type: 'looker' }), say('seen'));
  place.server.when('look', call('Glob', { pattern: '*' }), call('Glob', { pattern: '*' }), say('never'));
  const looker = { name: 'looker', description: 'Looks', systemPrompt: 'You look.', level: 'session', tools: ['glob'], model: 'small' };
  await place.qwen('fan out', { agents: [{ ...looker, runConfig: { max_turns: 2 } }] }).only();
  const asked = place.server.requests.filter(({ prompt }) => prompt.includes('look'));
  assert.equal(asked.length, 2);
  assert.deepEqual(asked[0].tools, ['Glob']);
  assert.equal(asked[0].body.model, 'small');
});

// --- questions

promise('a callback that never answers is a no after its own time limit', async (place) => {
  place.server.when('write', write('a.txt'), say('then not'));
  const talk = place.qwen('write', { canUseTool: () => new Promise(() => {}), timeout: { canUseTool: 50 } });
  const result = await talk.only();
  assert.equal(result.result, 'then not');
  assert.equal(place.read('a.txt'), undefined);
  assert.match(place.server.last('write').outputs[0], /timeout/i);
});

promise('what a question suggests is given to the callback', async (place) => {
  place.server.when('write', write('a.txt'), say('done'));
  let suggested;
  await place.qwen('write', {
    canUseTool: async (_name, updatedInput, { suggestions }) => {
      suggested = suggestions;
      return { behavior: 'allow', updatedInput };
    },
  }).only();
  assert.ok(suggested.length > 0);
});

promise('questions of many slots are asked one after another, and none is lost', async (place) => {
  const names = Array.from({ length: 6 }, (_, index) => `slot ${index}`);
  place.server.when('fan out', batch(...names), say('all back'));
  for (const name of names) place.server.when(`do ${name}`, write(`${name}.txt`), say('fine'));
  let [open, most] = [0, 0];
  const talk = place.qwen('fan out', {
    canUseTool: async (_name, updatedInput) => {
      most = Math.max(most, (open += 1));
      await new Promise(setImmediate);
      open -= 1;
      return { behavior: 'allow', updatedInput };
    },
  });
  assert.equal((await talk.only()).result, 'all back');
  assert.equal(most, 1);
  assert.deepEqual(names.map((name) => place.read(`${name}.txt`)), names.map(() => 'new\n'));
});

// --- requests

promise('commands are listed by name', async (place) => {
  const { commands } = await place.qwen(new Feed()).query.supportedCommands();
  assert.ok(commands.includes('compact'));
  assert.deepEqual(commands, [...commands].sort());
});

promise('without servers there is a status of none', async (place) => {
  assert.deepEqual((await place.qwen(new Feed()).query.mcpServerStatus()).status, {});
});

for (const showDetails of [false, true]) {
  promise(`the use of the context is told in its own shape, ${showDetails ? 'in detail' : 'in brief'}`, async (place) => {
    const { query } = await begun(place);
    const usage = await query.getContextUsage(showDetails);
    assert.equal(usage.modelName, 'm');
    assert.equal(usage.contextWindowSize, 128_000);
    assert.ok(usage.totalTokens > 0);
    assert.equal(usage.showDetails, showDetails);
    for (const part of ['systemPrompt', 'builtinTools', 'mcpTools', 'memoryFiles', 'skills', 'messages', 'freeSpace', 'autocompactBuffer']) {
      assert.equal(typeof usage.breakdown[part], 'number', part);
    }
    for (const list of ['builtinTools', 'mcpTools', 'memoryFiles', 'skills']) assert.ok(Array.isArray(usage[list]), list);
    assert.equal(usage.builtinTools.length > 0, showDetails);
  });
}

promise('the models are listed', async (place) => {
  const { models } = await place.qwen(new Feed()).query.getAvailableModels();
  assert.ok(models.every(({ id, label }) => id && label));
  assert.ok(models.some(({ id }) => id === 'm'));
});

promise('effort is set for the next message', async (place) => {
  const { query, feed, talk } = await begun(place);
  place.server.when('second', say('two'));
  assert.equal(await query.setEffort('high'), true);
  feed.say('second');
  await talk.result();
  feed.end();
  assert.equal(place.server.last('second').body.reasoning_effort, 'high');
});

promise('what was used is told for days and weeks', async (place) => {
  const { query } = await begun(place);
  assert.equal((await query.getUsageInfo('today')).subtype, 'get_usage_info');
});

promise('a last turn that ended has nothing to continue', async (place) => {
  const { query } = await begun(place);
  assert.equal((await query.continueLastTurn()).accepted, false);
});

promise('a blank model is refused', async (place) => {
  const { query } = await begun(place);
  await assert.rejects(query.setModel(' '), (error) => !/not supported/.test(error.message));
});

for (const mode of ['plan', 'default', 'auto-edit', 'yolo']) {
  promise(`the mode ${mode} can be set`, async (place) => {
    const { query } = await begun(place);
    await query.setPermissionMode(mode);
  });
}

promise('the mode that a model decides can be set', async (place) => {
  const { query } = await begun(place);
  await query.setPermissionMode('auto');
});

// --- sessions

promise('the id of the client is the id of the session', async (place) => {
  place.server.when('hello', say('hi'));
  const talk = place.qwen('hello');
  await talk.only();
  assert.equal(talk.query.getSessionId(), talk.init.session_id);
});

promise('a copy of a session can be resumed by its own id', async (place) => {
  for (const name of ['first', 'second', 'third']) place.server.when(name, say(`to ${name}`));
  await place.qwen('first', { sessionId: SESSION }).only();
  const copy = place.qwen('second', { resume: SESSION, forkSession: true });
  await copy.only();
  const again = place.qwen('third', { resume: copy.init.session_id });
  await again.only();
  assert.match(place.server.last('third').text('assistant'), /to second/);
});

promise('a session of the command line can be resumed by its id', async (place) => {
  place.server.when('first', say('one')).when('second', say('two'));
  const { session_id } = JSON.parse((await place.script("tine -p 'first' --output-format json")).stdout);
  await place.qwen('second', { resume: session_id }).only();
  assert.match(place.server.last('second').text('assistant'), /one/);
});

promise('a refusal at the start is an answer to the first request', async (place) => {
  const talk = place.qwen('hello', { resume: '99999999-0000-4000-8000-000000000000' });
  const initialized = talk.query.initialized.then(
    () => 'answered',
    (error) => error.message,
  );
  await assert.rejects(talk.results());
  assert.match(await initialized, /answered|99999999/);
});

// --- ends

promise('the input ends with the first result of one prompt, and so does the process', async (place) => {
  place.server.when('hello', say('hi'));
  const talk = place.qwen('hello');
  await talk.only();
  await talk.query.transport.waitForExit();
  assert.equal(talk.query.transport.childProcess.exitCode, 0);
});

promise('an abort ends the process with a signal, within its limit', async (place) => {
  const gate = place.server.gate();
  place.server.when('fan out', batch('one', 'two'));
  for (const name of ['one', 'two']) place.server.when(`do ${name}`, held(gate, say('too late')));
  const abortController = new AbortController();
  const talk = place.qwen('fan out', { abortController });
  const results = talk.results();
  await gate.reached(2);
  abortController.abort();
  await assert.rejects(results);
  await Promise.all(['one', 'two'].map((name) => place.server.last(`do ${name}`).gone));
});
