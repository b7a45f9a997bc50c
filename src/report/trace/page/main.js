// The page itself: what is pressed, typed and chosen, and what follows from it.

const views = {};

/** Reads the data and shows it. */
function start() {
  take(JSON.parse(byId('data').textContent));
  byId('data').remove();
  const prompts = trace.prompts;
  looked.prompt = prompts.length > 1 ? prompts.at(-1).number : 0;
  views.timeline = new Rows(byId('view-timeline'), { label: 'Agents over time', paint: paint_times, axis: paint_times_axis, at: span_at });
  views.branches = new Rows(byId('view-branches'), { label: 'Agents by branch', paint: paint_branch, axis: paint_columns, at: () => null });
  legend();
  wire();
  refresh();
  for (const rows of Object.values(views)) rows.scale.fit();
  if (trace.live && location.protocol.startsWith('http')) {
    byId('live').hidden = false;
    follow();
  }
}

/** Shows everything anew: other data, or another part of it. */
function refresh() {
  document.title = `tine trace: ${short(trace.session.name ?? trace.session.id, 60)}`;
  const facts = [trace.session.name, trace.session.id, trace.session.cwd, trace.session.model].filter(Boolean);
  byId('session').textContent = facts.map((fact) => short(fact, 80)).join(' · ');
  byId('session').title = byId('session').textContent;
  fill_choices();
  looked.found = find(looked.words);
  show_figures();
  warn();
  lay_out();
  const window = span_of_prompt();
  const room = (window.to - window.from) * 0.01;
  views.timeline.scale.bound(window.from - room, window.to + room);
  views.branches.scale.bound(0, last_column() + 0.2);
  const units = visible_units();
  for (const rows of Object.values(views)) rows.set(units);
  count_found(units);
  show_tables();
  // What somebody reads stays as it is while the run goes on.
  if (!trace.live) show_details();
}

function draw_all() {
  for (const rows of Object.values(views)) rows.draw();
}

function show_tables() {
  if (!byId('view-path').hidden) show_path();
  if (!byId('view-cost').hidden) show_cost();
}

function fill_choices() {
  const option = (value, text, chosen) => {
    const made = make('option', { text, value });
    made.selected = chosen;
    return made;
  };
  const all = option(0, `All ${trace.prompts.length} prompts`, looked.prompt === 0);
  const prompts = trace.prompts.map((prompt) => option(prompt.number, `${prompt.number}: ${short(prompt.prompt.text, 60)}`, looked.prompt === prompt.number));
  byId('prompt').replaceChildren(...(prompts.length > 1 ? [all, ...prompts] : [option(0, short(trace.prompts[0]?.prompt.text ?? 'no prompt', 60), true)]));
  const states = new Map();
  for (const unit of trace.units.values()) states.set(unit.state, (states.get(unit.state) ?? 0) + 1);
  const state = [...states].map(([name, count]) => option(name, `${STATES[name]} (${count})`, looked.state === name));
  byId('state').replaceChildren(option('', 'All states', looked.state === ''), ...state);
}

function show_figures() {
  const sum = figures();
  const failed = sum.units.filter((unit) => unit.state === 'failed').length;
  const waits = (sum.path.queued ?? 0) + (sum.path.throttled ?? 0) + (sum.path.asking ?? 0);
  const shown_figures = [
    ['Time', duration(sum.took), `${whole(sum.took)} ms from the prompt to the end`],
    ['Work', duration(sum.work), 'the time of all agents that ran, added up'],
    ['Speed-up', `${sum.speed.toFixed(2)}×`, 'work ÷ time'],
    ['Of the ideal', percent(sum.share), `the least time was ${whole(sum.ideal)} ms; the view “Critical path” says why`],
    ['Waits on the path', duration(waits), 'for a place, for the provider, for a person'],
    ['Agents', failed > 0 ? `${whole(sum.units.length)}, ${failed} failed` : whole(sum.units.length), `${sum.most} ran at once at the most`],
    ['Requests', whole(sum.requests), ''],
    ['Tokens', few(tokens(sum.usage)), `${whole(tokens(sum.usage) - sum.usage.output)} in, ${whole(sum.usage.output)} out`],
    ['Cost', cost(sum.usage), ''],
  ];
  byId('figures').replaceChildren(...shown_figures.map(([name, value, title]) => make('div', { name: 'figure-card', title }, [make('span', { name: 'term', text: name }), make('span', { name: 'value', text: value })])));
}

function warn() {
  const said = [];
  if (trace.bad > 0) said.push(`${counted(trace.bad, 'line')} of the log could not be read; what they said is missing.`);
  if (trace.unknown > 0) said.push(`${counted(trace.unknown, 'event')} of a later tine left out.`);
  byId('warnings').textContent = said.join(' ');
  byId('warnings').hidden = said.length === 0;
}

function count_found(units) {
  byId('found').textContent = looked.found ? `${whole(looked.found.list.length)} in ${counted(units.length, 'agent')}` : '';
}

/** What keys do. */
const KEYS = 'Arrows choose, + − 0 zoom, f shows the agent whole, Shift+arrows move, Enter opens, / searches';

function legend() {
  const entries = [['request', 'request'], ['call', 'call'], ['throttled', 'throttled'], ['asking', 'asking'], ['summary', 'summary'], ['failed', 'failed'], ['band-queued', 'queued'], ['band-running', 'running'], ['band-waiting', 'waits for agents'], ['critical', 'critical path']];
  byId('legend').replaceChildren(...entries.map(([name, text]) => make('span', {}, [make('span', { name: `key fill-${name}`, 'aria-hidden': true }), document.createTextNode(text)])), make('span', { name: 'keys-hint', text: KEYS }));
}

/** Shows one view. */
function show_view(name) {
  for (const tab of document.querySelectorAll('[role=tab]')) {
    const is_it = tab.id === `tab-${name}`;
    tab.setAttribute('aria-selected', String(is_it));
    tab.tabIndex = is_it ? 0 : -1;
    byId(tab.getAttribute('aria-controls')).hidden = !is_it;
  }
  const has_rows = name === 'timeline' || name === 'branches';
  document.querySelector('.zoom').hidden = !has_rows;
  byId('legend').hidden = name !== 'timeline';
  show_tables();
  draw_all();
}

const current_rows = () => (byId('view-branches').hidden ? views.timeline : views.branches);

function choose_unit(id, span = null) {
  looked.unit = id;
  looked.span = span;
  say_chosen();
  show_details();
  draw_all();
}

function choose_span(id) {
  const span = trace.spans[id];
  if (!span) return;
  looked.span = id;
  looked.unit = span.unit;
  byId('details').hidden = false;
  const { scale } = views.timeline;
  if (end(span.to_ms) < scale.from || span.from_ms > scale.to) scale.show(span.from_ms, end(span.to_ms));
  current_rows().reveal(span.unit);
  say_chosen();
  show_details();
  draw_all();
}

/** Shows a unit, or a span of it, where its time is seen. */
function go_to(unit, span) {
  if (byId('view-timeline').hidden && byId('view-branches').hidden) show_view('timeline');
  if (span !== null) return choose_span(span);
  choose_unit(unit);
  current_rows().reveal(unit);
  open_details();
}

/** Goes to the next span of the unit, or the one before. */
function step_span(by) {
  const spans = trace.units.get(looked.unit)?.spans ?? [];
  if (spans.length === 0) return;
  const place = spans.indexOf(looked.span);
  const next = place < 0 ? (by > 0 ? 0 : spans.length - 1) : place + by;
  if (spans[next] !== undefined) choose_span(spans[next]);
}

function fold(id) {
  if (looked.folded.has(id)) looked.folded.delete(id);
  else if (trace.units.get(id)?.children.length > 0) looked.folded.add(id);
  const units = visible_units();
  for (const rows of Object.values(views)) rows.set(units);
}

/** Tells a reader of the screen what is chosen. */
function say_chosen() {
  const span = looked.span === null ? null : trace.spans[looked.span];
  byId('said').textContent = span ? short(`${span_name(span)}, ${duration(end(span.to_ms) - span.from_ms)}${span.failed ? `, ${span.failed}` : ''}`, 160) : '';
}

/** Goes to the next place where the searched words are. */
function next_found(by) {
  const list = looked.found?.list ?? [];
  if (list.length === 0) return;
  const place = list.indexOf(looked.span);
  choose_span(list[(place + by + (place < 0 && by < 0 ? 1 : 0) + list.length) % list.length]);
}

function wire() {
  byId('prompt').addEventListener('change', (event) => {
    looked.prompt = Number(event.target.value);
    looked.span = null;
    refresh();
    for (const rows of Object.values(views)) rows.scale.fit();
    draw_all();
  });
  byId('state').addEventListener('change', (event) => {
    looked.state = event.target.value;
    refresh();
  });
  let pause;
  byId('search').addEventListener('input', (event) => {
    clearTimeout(pause);
    pause = setTimeout(() => {
      looked.words = event.target.value.trim().toLowerCase();
      refresh();
    }, 120);
  });
  byId('search').addEventListener('keydown', (event) => {
    if (event.key === 'Enter') next_found(event.shiftKey ? -1 : 1);
  });
  byId('critical').addEventListener('change', draw_all);
  byId('zoom-in').addEventListener('click', () => zoom(0.6));
  byId('zoom-out').addEventListener('click', () => zoom(1 / 0.6));
  byId('zoom-fit').addEventListener('click', () => {
    current_rows().scale.fit();
    draw_all();
  });
  byId('theme').addEventListener('click', turn_theme);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', new_colours);
  const tabs = [...document.querySelectorAll('[role=tab]')];
  for (const tab of tabs) tab.addEventListener('click', () => show_view(tab.id.replace('tab-', '')));
  document.querySelector('[role=tablist]').addEventListener('keydown', (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const place = tabs.indexOf(document.activeElement);
    if (!by || place < 0) return;
    const tab = tabs[(place + by + tabs.length) % tabs.length];
    tab.focus();
    tab.click();
  });
  document.addEventListener('keydown', anywhere);
}

function zoom(factor) {
  current_rows().scale.zoom(factor);
  draw_all();
}

function anywhere(event) {
  const is_typing = event.target.matches?.('input, select, textarea');
  if (event.key === 'Escape') {
    if (is_typing && byId('search').value !== '') return;
    if (!byId('details').hidden) close_details();
  }
  if (is_typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === '/') {
    event.preventDefault();
    byId('search').focus();
  }
}

const THEMES = ['auto', 'light', 'dark'];

function turn_theme() {
  const root = document.documentElement;
  const theme = THEMES[(THEMES.indexOf(root.dataset.theme ?? 'auto') + 1) % THEMES.length];
  root.dataset.theme = theme;
  byId('theme').textContent = `Theme: ${theme}`;
  new_colours();
}

function new_colours() {
  ink.known.clear();
  draw_all();
}

start();
