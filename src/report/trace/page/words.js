'use strict';

// Words and numbers as people read them, and the one way in which text comes
// onto the page: as text.

/** Characters that are not seen, or turn round what is: shown as escapes. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e01ef}]/gu;

/** Returns a text in which nothing is hidden. */
function shown(text) {
  return String(text).replace(/\r\n/g, '\n').replace(HIDDEN, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

/** Returns at most so many characters of the first line of a text. */
function short(text, cap = 120) {
  const line = shown(text).trim().split('\n', 1)[0];
  return line.length > cap ? `${line.slice(0, cap)}…` : line;
}

/** Makes an element. Its text is set as text, its attributes are names of ours. */
function make(tag, { text, name, on, ...attributes } = {}, children = []) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = shown(text);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) element.setAttribute(key, value === true ? '' : value);
  }
  for (const [event, action] of Object.entries(on ?? {})) element.addEventListener(event, action);
  element.append(...children);
  return element;
}

const byId = (id) => document.getElementById(id);

/** Returns milliseconds as people say them: `340 ms`, `3.2 s`, `2m 05s`. */
function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  const two = (number) => String(number).padStart(2, '0');
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${two(seconds % 60)}s`;
  return `${Math.floor(seconds / 3600)}h ${two(Math.floor(seconds / 60) % 60)}m`;
}

/** Returns a number in few characters: `812`, `1.2k`, `3.4M`. */
function few(number) {
  if (number < 1000) return String(number);
  if (number < 100000) return `${(Math.floor(number / 100) / 10).toFixed(1)}k`;
  if (number < 1000000) return `${Math.floor(number / 1000)}k`;
  return `${(Math.floor(number / 100000) / 10).toFixed(1)}M`;
}

const whole = (number) => Math.round(number).toLocaleString('en');
const percent = (share) => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
const counted = (number, thing) => `${whole(number)} ${thing}${number === 1 ? '' : 's'}`;

/** Returns what something cost, as far as it is known. */
function cost({ cost_usd: dollars, cost_is_partial: partial }) {
  if (dollars === 0 && partial) return '?';
  const digits = dollars !== 0 && dollars < 0.1 ? 4 : 2;
  return `$${dollars.toFixed(digits)}${partial ? '+' : ''}`;
}

const NO_USAGE = { input: 0, output: 0, cache_read: 0, cache_creation: 0, cost_usd: 0, cost_is_partial: false };

/** Returns the sum of two sums of tokens. */
function added(one, other) {
  const sum = {};
  for (const key of ['input', 'output', 'cache_read', 'cache_creation', 'cost_usd']) sum[key] = one[key] + other[key];
  sum.cost_is_partial = one.cost_is_partial || other.cost_is_partial;
  return sum;
}

const tokens = (usage) => usage.input + usage.cache_read + usage.cache_creation + usage.output;

/** What each state is called. */
const STATES = {
  queued: 'queued',
  running: 'running',
  throttled: 'throttled',
  awaiting_approval: 'asking',
  completed: 'done',
  failed: 'failed',
  cancelled: 'cancelled',
  skipped: 'never started',
  interrupted: 'interrupted',
};

/** What those are called that were not asked, since an earlier walk had their answer. */
const BEFORE = { completed: 'answered before', failed: 'failed before' };

/** Returns what the state of a unit is called. */
const state_name = (unit) => (unit.begins_with === 'reused' && BEFORE[unit.state]) || STATES[unit.state];

/** What each piece of a critical path is called. */
const LEGS = {
  request: 'models answered',
  call: 'tools ran',
  own: 'tine itself',
  queued: 'waited for a place',
  throttled: 'requests waited',
  asking: 'a person was asked',
};
