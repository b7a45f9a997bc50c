// The timeline: what each unit was doing, and what happened in it, over time.

/** How a span is filled, by what it is. */
const FILLS = { request: 'request', compaction: 'summary', wait: 'throttled', call: 'call', question: 'asking', hook: 'hook' };

/** Spans that take no time and are worth a sign of their own. */
const SIGNS = new Set(['prompt', 'news', 'mark']);

/** Draws what a unit did. */
function paint_times(pen, unit, y, rows) {
  const { from, to } = rows.scale;
  for (const [activity, began, ended] of unit.doing) {
    if (began > to || end(ended) < from) continue;
    const [x, width] = bar(rows, began, end(ended));
    pen.fillStyle = ink.of(`band-${activity}`);
    if (activity === 'waiting') pen.fillRect(x, y + ROW / 2 - 1, width, 2);
    else pen.fillRect(x, y + 4, width, ROW - 9);
    if (activity === 'queued' && width > 44) write(pen, 'queued', x, y + ROW / 2, width, ink.of('faint'));
  }
  const drawn = new Map();
  for (const id of unit.spans) {
    const span = trace.spans[id];
    if (span.from_ms > to) break;
    if (span.from_ms === span.to_ms) {
      if (span.from_ms >= from && SIGNS.has(span.kind)) sign(pen, span, rows, y, drawn);
    } else if (end(span.to_ms) >= from) paint_span(pen, span, rows, y, drawn);
  }
  if (byId('critical').checked) paint_path(pen, unit, rows, y);
  pen.fillStyle = ink.of('faint');
  const is_seen = unit.queued_ms <= to && end(unit.ended_ms) >= from;
  if (unit.begins_with === 'reused' && is_seen) write(pen, state_name(unit), rows.x(end(unit.ended_ms)), y + ROW / 2, 120, ink.of('faint'));
  if (end(unit.ended_ms) < from) pen.fillText('‹ earlier', 5, y + ROW / 2);
  if (unit.queued_ms > to) pen.fillText('later ›', rows.wide - 44, y + ROW / 2);
}

/** Returns where a bar begins and how wide it is; none is too narrow to see. */
function bar(rows, from, to) {
  const left = Math.max(rows.x(from), -2);
  return [left, Math.max(Math.min(rows.x(to), rows.wide + 2) - left, 1)];
}

/** Draws a span, unless another of its sort is at that place already. */
function paint_span(pen, span, rows, y, drawn) {
  const [x, width] = bar(rows, span.from_ms, end(span.to_ms));
  const sort = span.failed ? 'failed' : span.kind;
  const dim = looked.found !== null && !looked.found.spans.has(span.id);
  const place = `${sort}${span.lane}${dim}`;
  if (width < 2 && drawn.get(place) === Math.floor(x)) return;
  drawn.set(place, Math.floor(x));
  const height = (ROW - 11) / (span.lanes ?? 1);
  const top = y + 5 + height * (span.lane ?? 0);
  const high = Math.max(height - (span.lanes > 1 ? 1 : 0), 2);
  const waits = parts(span);
  pen.globalAlpha = dim ? 0.18 : 1;
  pen.fillStyle = ink.of(waits ? 'band-waiting' : span.failed ? 'failed' : FILLS[span.kind] ?? 'hook');
  const gap = width > 4 ? 1 : 0;
  if (width > 8) {
    pen.beginPath();
    pen.roundRect(x, top, width - gap, high, 2);
    pen.fill();
  } else pen.fillRect(x, top, width - gap, high);
  if (width > 34 && high > 10) write(pen, span_name(span), x, top + high / 2 + 0.5, width, ink.of(waits ? 'text' : 'on-bar'));
  if (looked.span === span.id) {
    pen.strokeStyle = ink.of('text');
    pen.lineWidth = 2;
    pen.strokeRect(x + 1, top, Math.max(width - 2, 2), high);
  }
  pen.globalAlpha = 1;
}

function sign(pen, span, rows, y, drawn) {
  const x = rows.x(span.from_ms);
  if (drawn.get('sign') === Math.floor(x / 2)) return;
  drawn.set('sign', Math.floor(x / 2));
  const dim = looked.found !== null && !looked.found.spans.has(span.id);
  pen.globalAlpha = dim ? 0.2 : 1;
  pen.fillStyle = ink.of(span.failed ? 'failed' : span.kind === 'mark' ? 'faint' : 'text');
  pen.beginPath();
  pen.moveTo(x - 3.5, y + 1);
  pen.lineTo(x + 3.5, y + 1);
  pen.lineTo(x, y + 6);
  pen.fill();
  pen.globalAlpha = 1;
}

function write(pen, text, x, y, width, colour) {
  const left = Math.max(x, 0);
  const room = width - (left - x) - 8;
  if (room < 20) return;
  // A character is seldom narrower than 5 pixels, so a longer text never fits.
  const line = short(text, Math.ceil(room / 5));
  pen.save();
  pen.beginPath();
  pen.rect(left, y - ROW / 2, room + 6, ROW);
  pen.clip();
  pen.fillStyle = colour;
  pen.fillText(line, left + 4, y);
  pen.restore();
}

/** Underlines what of the critical path is in a unit. */
function paint_path(pen, unit, rows, y) {
  pen.fillStyle = ink.of('critical');
  for (const leg of legs_of(unit.id)) {
    if (leg.to_ms < rows.scale.from || leg.from_ms > rows.scale.to) continue;
    const [x, width] = bar(rows, leg.from_ms, leg.to_ms);
    pen.fillRect(x, y + ROW - 4, width, 3);
  }
}

/** The pieces of the critical paths by unit, while the prompts stay the same. */
const known_legs = { prompts: null, by_unit: new Map() };

function legs_of(unit) {
  if (known_legs.prompts !== trace.prompts) {
    known_legs.prompts = trace.prompts;
    known_legs.by_unit = new Map();
    for (const prompt of trace.prompts) {
      for (const leg of prompt.path) {
        if (!known_legs.by_unit.has(leg.unit)) known_legs.by_unit.set(leg.unit, []);
        known_legs.by_unit.get(leg.unit).push(leg);
      }
    }
  }
  return known_legs.by_unit.get(unit) ?? [];
}

/** Returns the span at a place of a row; the shortest of several. */
function span_at(unit, x, y, rows) {
  let best = null;
  let least = Infinity;
  for (const id of unit.spans) {
    const span = trace.spans[id];
    if (span.from_ms > rows.value(x + 4)) break;
    const is_moment = span.from_ms === span.to_ms;
    if (is_moment && !SIGNS.has(span.kind)) continue;
    const [left, right] = is_moment ? [rows.x(span.from_ms) - 4, rows.x(span.from_ms) + 4] : [rows.x(span.from_ms) - 1, rows.x(end(span.to_ms)) + 1];
    if (x < left || x > right || (is_moment && y > 8)) continue;
    const lanes = span.lanes ?? 1;
    const lane = Math.min(Math.max(Math.floor(((y - 5) / (ROW - 11)) * lanes), 0), lanes - 1);
    if (!is_moment && lanes > 1 && lane !== span.lane) continue;
    if (right - left <= least) [best, least] = [id, right - left];
  }
  return best;
}

/** Draws the times above the rows, from the beginning of the prompt on. */
function paint_times_axis(pen, rows) {
  const { from, to } = rows.scale;
  const start = span_of_prompt().from;
  const step = nice((to - from) / Math.max(rows.wide / 90, 1));
  pen.fillStyle = ink.of('faint');
  for (let at = Math.ceil((from - start) / step) * step; at + start <= to; at += step) {
    const x = rows.x(at + start);
    pen.fillRect(x, 18, 1, 8);
    pen.fillText(at === 0 ? '0' : tick(at, step), x + 4, 14);
  }
}

/** Returns a round number of milliseconds that is at least so large. */
function nice(least) {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000, 300000, 600000, 1800000, 3600000, 7200000, 21600000, 86400000];
  return steps.find((step) => step >= least) ?? Math.ceil(least / 86400000) * 86400000;
}

function tick(ms, step) {
  if (Math.abs(ms) < 1000) return `${ms} ms`;
  if (Math.abs(ms) < 60000) return `${(ms / 1000).toFixed(step < 100 ? 2 : step < 1000 ? 1 : 0)} s`;
  const sign = ms < 0 ? '−' : '';
  return sign + (step < 1000 ? `${(Math.abs(ms) / 1000).toFixed(1)} s` : duration(Math.abs(ms)));
}
