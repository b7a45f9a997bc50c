// What a test here is: a promise with a place and a time limit of its own, or
// one that is known not to be kept yet.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Place } from './place.mjs';

/** Milliseconds after which a test counts as hanging. Nothing is measured by it. */
const LIMIT = 60_000;

/** Milliseconds after which a promise that is known to be open counts as broken. */
const GAP_LIMIT = 4_000;

/**
 * What tine does not do yet. Once a number is taken out of here, the gaps that
 * have it are promises.
 */
const OPEN = new Map([
  [2, 'tools of other harnesses end it, too, and tools that are left out stay'],
  [3, 'the first request is not read'],
  [4, 'there are no servers of tools'],
  [5, 'there are no hooks'],
  [6, 'answers have no schema'],
  [7, 'requests that are common are refused'],
  [8, 'the state of the session is not told'],
  [9, 'a message waits for agents in the background'],
  [10, 'a mode, a directory or a rule does not hold at once'],
  [11, 'messages are texts that are answered, and nothing else'],
  [12, 'totals and budgets are those of one message'],
  [13, 'a refusal at the start leaves the first request unanswered'],
  [15, 'requests that are rare are refused'],
  [17, 'tine outlives its client'],
  [18, 'the model cannot ask'],
]);

/** With `GAPS=closed` every gap is a promise: to see what is missing, in full. */
const isOpen = (number) => OPEN.has(number) && process.env.GAPS !== 'closed';

/** A promise that tine keeps. */
export const promise = (name, body) => test(name, { timeout: LIMIT }, (t) => keep(t, body));

/**
 * A promise that tine does not keep yet. It fails once it is kept, so that the
 * mark is taken away with the gap.
 */
export function gap(number, name, body) {
  if (!isOpen(number)) return promise(name, body);
  return test(`gap ${number}: ${name}`, { timeout: LIMIT }, async (t) => {
    const broken = await broke(keep(t, body));
    assert.ok(broken, `gap ${number} is closed here: make this test a \`promise\``);
    t.diagnostic(`open: ${String(broken.message ?? broken).split('\n')[0]}`);
  });
}

async function keep(t, body) {
  const place = await Place.make(t);
  await body(place, t);
  assert.deepEqual(place.server.faults, []);
}

async function broke(kept) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('nothing more came')), GAP_LIMIT);
  });
  try {
    await Promise.race([kept, late]);
    return undefined;
  } catch (error) {
    return error;
  } finally {
    clearTimeout(timer);
  }
}
