// What tine writes is of the types that the clients declare for it: records of
// a conversation with a little of everything, read by the clients' compiler.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { symlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { Feed } from './place.mjs';
import { promise } from './promise.mjs';
import { call, calls, fail, held, say } from './server.mjs';

const MODULES = fileURLToPath(new URL('node_modules', import.meta.url));

/** The type of each record, by its own type and subtype. */
const CLAUDE = {
  assistant: 'SDKAssistantMessage',
  user: 'SDKUserMessage',
  stream_event: 'SDKPartialAssistantMessage',
  result: 'SDKResultMessage',
  'system/init': 'SDKSystemMessage',
  'system/status': 'SDKStatusMessage',
  'system/api_retry': 'SDKAPIRetryMessage',
  'system/compact_boundary': 'SDKCompactBoundaryMessage',
  'system/informational': 'SDKInformationalMessage',
  'system/permission_denied': 'SDKPermissionDeniedMessage',
  'system/session_state_changed': 'SDKSessionStateChangedMessage',
  'system/task_started': 'SDKTaskStartedMessage',
  'system/task_updated': 'SDKTaskUpdatedMessage',
  'system/task_progress': 'SDKTaskProgressMessage',
  'system/task_notification': 'SDKTaskNotificationMessage',
  'system/background_tasks_changed': 'SDKBackgroundTasksChangedMessage',
  'system/hook_started': 'SDKHookStartedMessage',
  'system/hook_response': 'SDKHookResponseMessage',
};
const QWEN = {
  assistant: 'SDKAssistantMessage',
  user: 'SDKUserMessage',
  stream_event: 'SDKPartialAssistantMessage',
  result: 'SDKResultMessage',
  system: 'SDKSystemMessage',
};

/** A conversation with calls, denials, agents that fail, an interrupt. */
async function tour(place, ask) {
  const gate = place.server.gate();
  const task = (name) => ({ description: name, prompt: `do ${name}`, subagent_type: 'general-purpose' });
  place.server
    .when('work', calls(['Glob', { pattern: '*' }], ['Write', { file_path: 'a.txt', content: 'x\n' }], ['Bash', { command: 'rm b' }]), say('done'))
    .when('fan out', call('Agent', { tasks: [task('good'), task('bad')] }), say('one of two'))
    .when('do good', call('Glob', { pattern: '*' }, { text: 'let me see' }), say('fine'))
    .when('do bad', fail(400, 'unwell'))
    .when('dig', call('Agent', { description: 'deep', prompt: 'go deep' }), say('it digs'))
    .when('go deep', say('gold'))
    .when('gold', say('so it was gold'))
    .when('fail', fail(400, 'no'))
    .when('wait', held(gate, say('never')));
  const feed = new Feed();
  const talk = ask(feed, {
    model: 'priced',
    includePartialMessages: true,
    canUseTool: async (name, updatedInput) =>
      name === 'Write' ? { behavior: 'allow', updatedInput } : { behavior: 'deny', message: 'no' },
  });
  for (const prompt of ['work', 'fan out', 'fail', 'dig']) {
    feed.say(prompt);
    await talk.result();
  }
  // What the one that digs found comes in the turn of `dig` or in one after it;
  // the next message would join that one.
  const found = ({ type, result }) => type === 'result' && result === 'so it was gold';
  if (!talk.records.some(found)) await talk.until(found);
  feed.say('wait');
  const result = talk.result();
  await gate.reached();
  await talk.query.interrupt();
  await result;
  feed.end();
  await talk.results();
  return talk.records;
}

/** A value as the compiler reads it: with texts that are no more than themselves. */
function typed(value) {
  if (Array.isArray(value)) return `[${value.map(typed).join(', ')}]`;
  if (value === null || typeof value === 'number') return String(value);
  if (typeof value !== 'object') return `${JSON.stringify(value)} as const`;
  return `{ ${Object.entries(value).map(([name, field]) => `${JSON.stringify(name)}: ${typed(field)}`).join(', ')} }`;
}

/** What the compiler says of records as values of a client's types. */
async function complaints(place, sdk, names, records) {
  const typeOf = ({ type, subtype }) => names[`${type}/${subtype}`] ?? names[type];
  const strangers = new Set(records.filter((record) => !typeOf(record)).map(({ type, subtype }) => `${type}/${subtype}`));
  assert.deepEqual([...strangers], [], 'these records have no type');
  const lines = [
    `import type { ${[...new Set(Object.values(names))].join(', ')} } from '${sdk}';`,
    // By way of a name: fields beyond those of the type are allowed.
    ...records.map((record, index) => `const r${index} = ${typed(record)}; const t${index}: ${typeOf(record)} = r${index};`),
  ];
  place.put('records.ts', lines.join('\n'));
  symlinkSync(MODULES, `${place.root}/node_modules`);
  const flags = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2022', '--pretty', 'false'];
  const compiler = spawn(process.execPath, [`${MODULES}/typescript/bin/tsc`, ...flags, 'records.ts'], { cwd: place.root });
  place.ends(() => compiler.kill('SIGKILL'));
  let said = '';
  compiler.stdout.setEncoding('utf8').on('data', (part) => (said += part));
  const [code] = await once(compiler, 'close');
  assert.equal(code === 0, said === '', said);
  if (code === 0) return [];
  // The last line of a complaint is its reason; one of a kind is enough.
  const reasons = said.split(/^(?=\S)/m).map((block) => block.trimEnd().split('\n').at(-1).trim());
  return [...new Set(reasons.map((line) => line.replace(/^records\.ts.*?: /, '').replace(/'\{.*\}(\[\])?' /, '… ')))];
}

promise('every record is of a type that the Claude SDK declares', async (place) => {
  const records = await tour(place, (prompt, options) => place.claude(prompt, options));
  assert.deepEqual(await complaints(place, '@anthropic-ai/claude-agent-sdk', CLAUDE, records), []);
});

promise('every record is of a type that the Qwen SDK declares', async (place) => {
  const records = await tour(place, (prompt, options) => place.qwen(prompt, options));
  // Its types have no end of a message in pieces, which its code passes on, and
  // capabilities that are an object, where the other client has a list.
  const known = records
    .filter(({ event }) => event?.type !== 'message_delta')
    .map(({ capabilities, ...record }) => record);
  assert.deepEqual(await complaints(place, '@qwen-code/sdk', QWEN, known), []);
});
