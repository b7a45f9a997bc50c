// What a test here is: a promise with a place and a time limit of its own, or
// one that is known not to be kept yet.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { OPEN } from './open.mjs';
import { Place } from './place.mjs';

/** Milliseconds after which a test counts as hanging. Nothing is measured by it. */
const LIMIT = 60_000;

/** Milliseconds after which a promise that is known to be open counts as broken. */
const GAP_LIMIT = 4_000;

/** With `GAPS=closed` every gap is a promise: to see what is missing, in full. */
const open = new Set(process.env.GAPS === 'closed' ? [] : Object.values(OPEN).flat());

/**
 * A promise. One that is not kept yet stands in `open.mjs`, and fails once it is
 * kept, so that it is taken out of there.
 */
export function promise(name, body) {
  if (!open.has(name)) return test(name, { timeout: LIMIT }, (t) => keep(t, body));
  return test(`open: ${name}`, { timeout: LIMIT }, async (t) => {
    const broken = await broke(keep(t, body));
    assert.ok(broken, 'this promise is kept: take its name out of `open.mjs`');
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
