// What a test here is: a promise with a place and a time limit of its own, or
// one that is known not to be kept yet.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Place } from './place.mjs';

/** Milliseconds after which a test counts as hanging. Nothing is measured by it. */
const LIMIT = 60_000;

/** Milliseconds after which a promise that is known to be open counts as broken. */
const GAP_LIMIT = 4_000;

/** A promise that tine keeps. */
export const promise = (name, body) => test(name, { timeout: LIMIT }, (t) => keep(t, body));

/**
 * A promise that tine does not keep yet. It fails once it is kept, so that the
 * mark is taken away with the gap.
 */
export const gap = (number, name, body) =>
  test(`gap ${number}: ${name}`, { timeout: LIMIT }, async (t) => {
    const broken = await broke(keep(t, body));
    assert.ok(broken, `gap ${number} is closed here: make this test a \`promise\``);
    t.diagnostic(`open: ${String(broken.message ?? broken).split('\n')[0]}`);
  });

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
