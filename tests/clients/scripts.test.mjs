// Scripts that were written for other harnesses. They stand here as they were:
// the first word of a call is changed, and nothing else.

import assert from 'node:assert/strict';

import { promise } from './promise.mjs';
import { call, say } from './server.mjs';

/** Puts tine in the place of the other harness. */
const changed = (script) => script.replace(/\b(claude|qwen)(?= |$)/g, 'tine');

const run = (place, script, options) => place.script(changed(script), options);

/** A script, and all that it must come to: this on standard output. */
function writes(script, expected, { input, answers = [say('four')], files = {} } = {}) {
  promise(script, async (place) => {
    for (const [name, text] of Object.entries(files)) place.put(`work/${name}`, text);
    place.server.when('', ...answers);
    const ended = await run(place, script, { input });
    assert.equal(ended.code, 0, ended.stderr);
    assert.equal(ended.stdout, expected);
  });
}

// --- a prompt in, a text out

writes('claude -p "What is 2 + 2?"', 'four\n');
writes('claude --print "What is 2 + 2?"', 'four\n');
writes('claude "What is 2 + 2?" -p', 'four\n');
writes('claude -p --output-format text "What is 2 + 2?"', 'four\n');
writes('claude -p "What is 2 + 2?" --model sonnet', 'four\n');
writes('claude --model sonnet -p "What is 2 + 2?"', 'four\n');
writes('echo "What is 2 + 2?" | claude -p', 'four\n');
writes('claude -p < question.txt', 'four\n', { files: { 'question.txt': 'What is 2 + 2?\n' } });
writes('cat log.txt | claude -p "Explain this"', 'four\n', { files: { 'log.txt': 'it broke\n' } });
writes('qwen -p "What is 2 + 2?"', 'four\n');
writes('qwen --prompt "What is 2 + 2?"', 'four\n');
writes('qwen "What is 2 + 2?" -o text', 'four\n');
writes('echo "What is 2 + 2?" | qwen', 'four\n');
writes('cat log.txt | qwen -p "Explain this" -o text', 'four\n', { files: { 'log.txt': 'it broke\n' } });

// --- flags that change nothing of the answer

for (const flags of [
  '--verbose',
  '--max-turns 3',
  '--effort high',
  '--permission-mode plan',
  '--permission-mode acceptEdits',
  '--permission-mode dontAsk',
  '--permission-mode bypassPermissions',
  '--dangerously-skip-permissions',
  '--add-dir ..',
  '--add-dir .. /tmp',
  '--session-id 0e7a1f5e-3c1d-4f9b-9a50-6d0f3f8b2c11',
  '--no-session-persistence',
  '--fallback-model haiku',
  '--allowedTools "Read" "Bash(git log *)"',
  '--allowedTools "Read,Bash(git log *),Edit"',
  '--allowed-tools Read',
  '--disallowedTools "Bash(rm *)"',
  '--tools Read,Grep',
  '--tools ""',
  '--max-budget-usd 5.00 --model priced',
  '--setting-sources user,project',
  '--strict-mcp-config',
  '--name "A try"',
  '-n "A try"',
]) writes(`claude -p "What is 2 + 2?" ${flags}`, 'four\n');

for (const flags of [
  '--tools default',
  '--permission-mode auto',
  '--settings settings.json',
  `--settings '{"permissions":{"allow":["Bash(ls)"]}}'`,
  '--betas interleaved-thinking',
  '--mcp-config servers.json',
  '--allow-dangerously-skip-permissions',
  '--disable-slash-commands',
  '--plugin-dir ./plugins',
  '--debug-file debug.log',
  '--debug api,hooks',
  '--ide',
  '--no-chrome',
  '--bare',
  '--exclude-dynamic-system-prompt-sections',
]) {
  writes(`claude -p "What is 2 + 2?" ${flags}`, 'four\n', {
    files: { 'settings.json': '{"permissions":{"allow":["Bash(ls)"]}}', 'servers.json': '{"mcpServers":{}}' },
  });
}

for (const flags of [
  '--yolo',
  '--approval-mode plan',
  '--approval-mode auto-edit',
  '--approval-mode yolo',
  '-m qwen3-coder-plus',
  '--model qwen3-coder-plus',
  '--max-session-turns 5',
  '--max-tool-calls 5',
  '--max-subagent-depth 1',
  '--include-directories ..',
  '--allowed-tools Read',
  '--auth-type openai',
  '--channel CI',
  '--extensions none',
  '--debug',
  '--safe-mode',
]) writes(`qwen -p "What is 2 + 2?" ${flags}`, 'four\n');

for (const flags of [
  '-y',
  '--max-session-turns -1',
  '--max-wall-time 90',
  '--include-directories ..,/tmp',
  '--add-dir ..,/tmp',
  '--chat-recording false',
  '--openai-logging',
  '--screen-reader',
  '--bare',
  '-d',
  '--output-style Concise',
  '--insecure',
  '--telemetry false',
  '--experimental-skills',
  '-e none',
]) writes(`qwen -p "What is 2 + 2?" ${flags}`, 'four\n');

for (const flags of [
  '--core-tools read_file,grep_search',
  '--exclude-tools run_shell_command',
  '--allowed-tools "run_shell_command(git status),read_file"',
  '--allowed-tools "ShellTool(git status)"',
]) writes(`qwen -p "What is 2 + 2?" ${flags}`, 'four\n');

promise('a key and an address on the command line are used', async (place) => {
  place.server.when('hello', say('hi'));
  const { code, stdout } = await run(place, `qwen -p hello --openai-api-key sk-typed --openai-base-url "$URL" -m m`, {
    env: { URL: place.server.url, OPENAI_API_KEY: '', OPENAI_BASE_URL: '' },
  });
  assert.deepEqual([code, stdout], [0, 'hi\n']);
  assert.equal(place.server.requests[0].headers.authorization, 'Bearer sk-typed');
});

// --- what is piped in

promise('what is piped in stands beside the prompt', async (place) => {
  place.server.when('Explain this', say('it broke'));
  await run(place, 'printf "line one\\nline two\\n" | claude -p "Explain this"');
  assert.match(place.server.requests[0].prompt, /line one\nline two/);
});

promise('a pipe that stays open and silent holds nothing up', async (place) => {
  place.server.when('hello', say('hi'));
  const { stdout } = await run(place, 'mkfifo pipe; exec 3<>pipe; claude -p hello <&3');
  assert.equal(stdout, 'hi\n');
});

// --- json

promise('claude -p … --output-format json | jq -r .result', async (place) => {
  place.server.when('hello', say('hi'));
  const { stdout } = await run(place, 'claude -p hello --output-format json');
  const result = JSON.parse(stdout);
  assert.deepEqual(
    [result.type, result.subtype, result.is_error, result.result, result.num_turns],
    ['result', 'success', false, 'hi', 1],
  );
  for (const field of ['session_id', 'total_cost_usd', 'duration_ms', 'usage']) assert.ok(field in result, field);
});

promise('a script takes the id of a session from one answer to the next', async (place) => {
  place.server.when('first', say('one')).when('second', say('two'));
  const { stdout, code } = await run(
    place,
    `id=$(claude -p first --output-format json | sed 's/.*"session_id":"\\([^"]*\\)".*/\\1/')\nclaude -p second --resume "$id"`,
  );
  assert.deepEqual([code, stdout], [0, 'two\n']);
  assert.match(place.server.last('second').text('assistant'), /one/);
});

for (const flag of ['-c', '--continue']) {
  promise(`claude ${flag} -p goes on with the latest session`, async (place) => {
    place.server.when('first', say('one')).when('second', say('two'));
    const { stdout } = await run(place, `claude -p first > /dev/null\nclaude ${flag} -p second`);
    assert.equal(stdout, 'two\n');
    assert.match(place.server.last('second').text('assistant'), /one/);
  });
}

promise('claude -r ID "prompt" -p --fork-session goes on in a copy', async (place) => {
  const id = '0e7a1f5e-3c1d-4f9b-9a50-6d0f3f8b2c11';
  place.server.when('first', say('one')).when('second', say('two'));
  const { stdout } = await run(place, `claude -p first --session-id ${id} > /dev/null\nclaude -r ${id} "second" -p --fork-session --output-format json`);
  const result = JSON.parse(stdout);
  assert.equal(result.result, 'two');
  assert.notEqual(result.session_id, id);
});

// --- stream-json

for (const script of [
  'claude -p hello --output-format stream-json --verbose',
  'claude -p hello --output-format=stream-json --verbose',
  'claude --verbose --output-format stream-json -p hello',
  'qwen -p hello --output-format stream-json',
  'qwen -p hello -o stream-json',
]) {
  promise(script, async (place) => {
    place.server.when('hello', say('hi'));
    const ended = await run(place, script);
    const records = ended.records();
    assert.equal(ended.code, 0);
    assert.deepEqual([records[0].type, records[0].subtype], ['system', 'init']);
    assert.deepEqual([records.at(-1).type, records.at(-1).result], ['result', 'hi']);
    assert.equal(records.filter(({ type }) => type === 'result').length, 1);
  });
}

promise('partial messages end with the whole one', async (place) => {
  place.server.when('hello', say('one two'));
  const { records } = await run(place, 'claude -p hello --output-format stream-json --verbose --include-partial-messages');
  const deltas = records().filter(({ event }) => event?.delta?.type === 'text_delta').map(({ event }) => event.delta.text);
  assert.equal(deltas.join(''), 'one two');
});

promise('messages in, records out', async (place) => {
  place.server.when('first', say('one')).when('second', say('two'));
  const line = (content) => JSON.stringify({ type: 'user', message: { role: 'user', content } });
  const { records, code } = await run(place, 'claude -p --input-format stream-json --output-format stream-json --verbose', {
    input: `${line('first')}\n${line([{ type: 'text', text: 'second' }])}\n`,
  });
  assert.equal(code, 0);
  assert.deepEqual(records().filter(({ type }) => type === 'result').map(({ result }) => result), ['one', 'two']);
});

promise('qwen --json-file keeps the records beside the text', async (place) => {
  place.server.when('hello', say('hi'));
  const { stdout } = await run(place, 'qwen -p hello --json-file records.jsonl');
  assert.equal(stdout, 'hi\n');
  const records = place.read('records.jsonl').trim().split('\n').map((line) => JSON.parse(line));
  assert.equal(records.at(-1).result, 'hi');
});

// --- prompts, tools, agents

for (const [flag, pattern] of [
  [`--system-prompt "Speak in rhyme."`, /^Speak in rhyme\./],
  [`--system-prompt-file prompt.txt`, /^Speak in prose\./],
  [`--append-system-prompt "Be brief."`, /Be brief\./],
  [`--append-system-prompt-file prompt.txt`, /Speak in prose\./],
]) {
  promise(`claude -p hello ${flag}`, async (place) => {
    place.put('work/prompt.txt', 'Speak in prose.');
    place.server.when('hello', say('hi'));
    await run(place, `claude -p hello ${flag}`);
    assert.match(place.server.requests[0].system, pattern);
  });
}

promise('claude -p hello --agents … --agent poet', async (place) => {
  place.server.when('hello', say('hi'));
  const agents = JSON.stringify({ poet: { description: 'Writes verse', prompt: 'You are a poet.' } });
  await run(place, `claude -p hello --agents '${agents}' --agent poet`);
  assert.match(place.server.requests[0].system, /You are a poet\./);
});

promise('claude -p "fix it" --permission-mode acceptEdits edits', async (place) => {
  place.server.when('fix it', call('Write', { file_path: 'a.txt', content: 'fixed\n' }), say('done'));
  const { stdout } = await run(place, 'claude -p "fix it" --permission-mode acceptEdits');
  assert.deepEqual([stdout, place.read('a.txt')], ['done\n', 'fixed\n']);
});

promise('claude -p "commit" --allowedTools "Bash(touch *)" runs that and denies the rest', async (place) => {
  place.server.when('commit', call('Bash', { command: 'touch a' }), call('Bash', { command: 'make b' }), say('done'));
  const { stdout } = await run(place, 'claude -p "commit" --allowedTools "Bash(touch *)" --output-format json');
  assert.equal(place.read('a'), '');
  assert.deepEqual(JSON.parse(stdout).permission_denials.map(({ tool_input }) => tool_input.command), ['make b']);
});

promise('qwen --yolo -p "do it" does it', async (place) => {
  place.server.when('do it', call('Bash', { command: 'touch a' }), say('done'));
  const { stdout } = await run(place, 'qwen --yolo -p "do it"');
  assert.deepEqual([stdout, place.read('a')], ['done\n', '']);
});

promise(`claude -p … --output-format json --json-schema '{…}' | jq .structured_output`, async (place) => {
  const schema = JSON.stringify({ type: 'object', properties: { sum: { type: 'number' } }, required: ['sum'] });
  const structured = (request) => {
    const tool = request.tools.find((name) => /structured.?output/i.test(name));
    return tool ? call(tool, { sum: 4 }) : say('{"sum":4}');
  };
  place.server.when('add', structured, say('done'));
  const { stdout } = await run(place, `claude -p add --output-format json --json-schema '${schema}'`);
  assert.deepEqual(JSON.parse(stdout).structured_output, { sum: 4 });
  place.put('work/schema.json', schema);
  place.server.when('add', structured, say('done'));
  const fromFile = await run(place, 'qwen -p add -o stream-json --json-schema @schema.json');
  assert.deepEqual(fromFile.records().at(-1).structured_output, { sum: 4 });
});

// --- what scripts look at when it goes wrong

for (const [what, script, answer] of [
  ['a provider that refuses', 'claude -p hello --output-format json', { status: 401, message: 'no such key' }],
  ['too many turns', 'claude -p hello --output-format json --max-turns 1', call('Glob', { pattern: '*' })],
]) {
  promise(`${what} is an exit code and a result`, async (place) => {
    place.server.when('hello', answer);
    const { code, stdout } = await run(place, script);
    assert.notEqual(code, 0);
    assert.equal(JSON.parse(stdout).is_error, true);
  });
}

promise('an empty prompt is an exit code and no request', async (place) => {
  const { code, stdout } = await run(place, 'claude -p ""', { input: '' });
  assert.notEqual(code, 0);
  assert.equal(stdout, '');
  assert.equal(place.server.requests.length, 0);
});

promise('claude --version and claude -v say a version', async (place) => {
  for (const flag of ['--version', '-v']) assert.match((await run(place, `claude ${flag}`)).stdout, /\d+\.\d+\.\d+/);
});
