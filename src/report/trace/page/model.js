// The trace as the page holds it: rows by name, units in the order of a tree,
// and what of it is looked at.

/** What is there. Rows that came later replace those of the same name. */
const trace = { session: {}, prompts: [], units: new Map(), spans: [], branches: new Map(), took: 0, order: [], parting: new Set() };

/** What of it is looked at. */
const looked = {
  /** The number of a prompt; 0 means all. */
  prompt: 0,
  /** A state's name; empty means all. */
  state: '',
  /** What is searched for, in small letters. */
  words: '',
  /** The spans and units that hold it; null where nothing is searched for. */
  found: null,
  /** Units whose children are not shown. */
  folded: new Set(),
  /** The name of the unit that is chosen. */
  unit: 'main',
  /** The span that is chosen, if one is. */
  span: null,
};

/** Takes rows in, and says which spans are new or changed. */
function take(data) {
  trace.session = data.session;
  trace.took = data.took_ms;
  trace.from = data.from_unix_ms;
  trace.last = data.last_event;
  trace.live = data.is_live;
  trace.bad = data.bad_lines;
  trace.unknown = data.unknown_events;
  trace.prompts = data.prompts;
  for (const unit of data.units) {
    const before = trace.units.get(unit.id);
    unit.spans = before?.spans ?? [];
    unit.children = before?.children ?? [];
    trace.units.set(unit.id, unit);
    if (unit.call !== null) trace.parting.add(`${unit.parent} ${unit.call}`);
    if (!before && unit.parent !== null) trace.units.get(unit.parent)?.children.push(unit.id);
  }
  const touched = new Set();
  for (const span of data.spans) {
    if (trace.spans[span.id] === undefined) trace.units.get(span.unit)?.spans.push(span.id);
    trace.spans[span.id] = span;
    touched.add(span.unit);
  }
  for (const meeting of data.branches) trace.branches.set(meeting.id, meeting);
  for (const id of touched) arrange(trace.units.get(id));
  trace.order = ordered();
}

/** Returns all units, each before those that it started. */
function ordered() {
  const order = [];
  const seen = new Set();
  const roots = [...trace.units.values()].filter((unit) => unit.parent === null || !trace.units.has(unit.parent));
  const waiting = roots.reverse();
  while (waiting.length > 0) {
    const unit = waiting.pop();
    if (seen.has(unit.id)) continue;
    seen.add(unit.id);
    order.push(unit);
    for (let index = unit.children.length - 1; index >= 0; index -= 1) waiting.push(trace.units.get(unit.children[index]));
  }
  for (const unit of trace.units.values()) if (!seen.has(unit.id)) order.push(unit);
  return order;
}

/** Most calls side by side in a row; more lie over each other. */
const LANES = 3;

/** Gives each span of a unit a lane, so that those that overlap are seen. */
function arrange(unit) {
  if (!unit) return;
  const spans = unit.spans.map((id) => trace.spans[id]).sort((one, other) => one.from_ms - other.from_ms || one.id - other.id);
  unit.spans = spans.map((span) => span.id);
  let together = [];
  let free = [];
  let until = -1;
  const close = () => {
    for (const span of together) span.lanes = Math.max(free.length, 1);
    [together, free] = [[], []];
  };
  for (const span of spans) {
    if (span.to_ms === span.from_ms) continue;
    if (span.from_ms >= until) close();
    let lane = free.findIndex((end) => end <= span.from_ms);
    if (lane < 0) lane = free.length < LANES ? free.push(0) - 1 : LANES - 1;
    free[lane] = end(span.to_ms);
    until = Math.max(until, free[lane]);
    span.lane = lane;
    together.push(span);
  }
  close();
}

/** Tells whether a call has started agents: its unit waits meanwhile. */
const parts = (span) => span.kind === 'call' && trace.parting.has(`${span.unit} ${span.call}`);

/** Returns when something ends: what is open goes on until now. */
const end = (ms) => (ms === null || ms === undefined ? trace.took : ms);

/** Returns the time that is looked at. */
function span_of_prompt() {
  const prompt = trace.prompts.find((it) => it.number === looked.prompt);
  if (!prompt) return { from: 0, to: Math.max(trace.took, 1) };
  const to = prompt.from_ms + prompt.took_ms;
  return { from: prompt.from_ms, to: Math.max(to, prompt.from_ms + 1) };
}

/** Tells whether a unit has a part in the prompt that is looked at. */
function is_in_prompt(unit, window) {
  if (unit.id === 'main' || looked.prompt === 0 || unit.prompt === looked.prompt) return true;
  return unit.queued_ms < window.to && end(unit.ended_ms) > window.from;
}

/** Tells whether a unit asks models: what holds steps, or was answered before, does not. */
const works = (unit) => unit.begins_with !== 'steps' && unit.begins_with !== 'reused';

/** Returns the units that are looked at, in their order. */
function visible_units() {
  const window = span_of_prompt();
  const hidden = new Set();
  return trace.order.filter((unit) => {
    if (unit.parent !== null && (hidden.has(unit.parent) || looked.folded.has(unit.parent))) {
      hidden.add(unit.id);
      if (!looked.found && looked.state === '') return false;
    }
    if (!is_in_prompt(unit, window)) return false;
    if (looked.state !== '' && unit.state !== looked.state) return false;
    return !looked.found || looked.found.units.has(unit.id);
  });
}

/** Returns the spans and units in which a text occurs, whatever its case. */
function find(words) {
  if (words === '') return null;
  const found = { units: new Set(), spans: new Set(), list: [] };
  const holds = (text) => text !== null && text !== undefined && text.toLowerCase().includes(words);
  for (const unit of trace.order) {
    if ([unit.id, unit.description, unit.agent, unit.path, unit.error, unit.failure].some(holds)) found.units.add(unit.id);
    for (const id of unit.spans) {
      const span = trace.spans[id];
      if (!holds(span.name) && !holds(span.about) && !holds(span.failed) && !span.texts.some((said) => holds(said.text))) continue;
      found.units.add(unit.id);
      found.spans.add(id);
      found.list.push(id);
    }
  }
  return found;
}

/** Returns what a unit is called. */
const unit_name = (unit) => (unit.id === 'main' ? 'main' : `${unit.description.trim() || unit.agent}`);

/** Returns what a span is called. */
function span_name(span) {
  const about = span.about ? ` ${short(span.about, 80)}` : '';
  switch (span.kind) {
    case 'request': return span.usage && tokens(span.usage) > 0 ? `${span.name} ${few(tokens(span.usage) - span.usage.output)} → ${few(span.usage.output)}` : `request ${span.name}`;
    case 'compaction': return `summary ${span.name}`;
    case 'wait': return `waits: ${span.name.replaceAll('_', ' ')}`;
    case 'question': return `asked: ${span.name}${about}`;
    case 'prompt': return 'prompt';
    case 'news': return 'news';
    default: return `${span.name}${about}`;
  }
}

/** Returns the figures of the prompt that is looked at, or of all together. */
function figures() {
  const chosen = trace.prompts.filter((prompt) => looked.prompt === 0 || prompt.number === looked.prompt);
  const sum = { took: 0, work: 0, ideal: 0, most: 0, path: {} };
  for (const prompt of chosen) {
    sum.took += prompt.took_ms;
    sum.work += prompt.work_ms;
    sum.ideal += prompt.ideal_ms;
    sum.most = Math.max(sum.most, prompt.most_at_once);
    for (const [kind, ms] of Object.entries(prompt.path_ms)) sum.path[kind] = (sum.path[kind] ?? 0) + ms;
  }
  sum.speed = sum.took > 0 ? sum.work / sum.took : 1;
  sum.share = sum.took > 0 ? sum.ideal / sum.took : 1;
  const window = span_of_prompt();
  sum.units = trace.order.filter((unit) => unit.id !== 'main' && works(unit) && is_in_prompt(unit, window));
  sum.usage = NO_USAGE;
  sum.requests = 0;
  sum.models = new Map();
  sum.by_unit = new Map();
  for (const span of trace.spans) {
    if (!span?.usage || (looked.prompt !== 0 && span.prompt !== looked.prompt)) continue;
    sum.usage = added(sum.usage, span.usage);
    sum.requests += 1;
    for (const [map, key] of [[sum.models, span.name], [sum.by_unit, span.unit]]) {
      const row = map.get(key) ?? { usage: NO_USAGE, requests: 0 };
      map.set(key, { usage: added(row.usage, span.usage), requests: row.requests + 1 });
    }
  }
  return sum;
}
