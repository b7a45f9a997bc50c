// The critical path and the cost, as tables.

/** How many rows of a table are made at once; a button makes more. */
const ROWS_AT_ONCE = 200;

/** Fills a table's body piece by piece. */
function fill(body, rows, one) {
  let made = 0;
  const more = make('button', { type: 'button', name: 'more' });
  const add = () => {
    body.append(...rows.slice(made, made + ROWS_AT_ONCE).map(one));
    made = Math.min(made + ROWS_AT_ONCE, rows.length);
    more.textContent = `Show ${Math.min(ROWS_AT_ONCE, rows.length - made)} more of ${whole(rows.length - made)}`;
    more.hidden = made >= rows.length;
  };
  more.addEventListener('click', add);
  add();
  return more;
}

const cell = (text, name) => make('td', { text, name });

/** A bar as long as a share of the widest one. */
function share_bar(share, name) {
  const bar = make('span', { name: `share ${name ?? ''}` });
  bar.style.width = `${Math.max(share * 100, share > 0 ? 0.5 : 0)}%`;
  return make('span', { name: 'shares', 'aria-hidden': true }, [bar]);
}

/** Pieces of the path below this share of it are only counted. */
const LEAST_SHARE = 0.002;

function show_path() {
  const host = byId('view-path');
  const sum = figures();
  const legs = trace.prompts.filter((it) => looked.prompt === 0 || it.number === looked.prompt).flatMap((it) => it.path);
  const work = (sum.path.request ?? 0) + (sum.path.call ?? 0) + (sum.path.own ?? 0);
  const body = make('tbody');
  const start = span_of_prompt().from;
  const told = legs.filter((leg) => leg.to_ms - leg.from_ms >= sum.took * LEAST_SHARE);
  const left = legs.filter((leg) => leg.to_ms - leg.from_ms < sum.took * LEAST_SHARE);
  const more = fill(body, told, (leg) => {
    const unit = trace.units.get(leg.unit);
    const span = leg.span === null ? null : trace.spans[leg.span];
    const name = span ? span_name(span) : leg.kind === 'queued' ? 'before it began' : 'between what is recorded';
    const open = make('button', { type: 'button', name: 'link', text: short(name, 90), on: { click: () => go_to(leg.unit, leg.span) } });
    return make('tr', {}, [
      cell(`+${duration(leg.from_ms - start)}`, 'figure'),
      make('td', {}, [make('span', { name: `key leg-${leg.kind}` }), document.createTextNode(LEGS[leg.kind])]),
      make('td', {}, [open]),
      cell(unit ? short(unit_name(unit), 50) : leg.unit),
      cell(duration(leg.to_ms - leg.from_ms), 'figure'),
      make('td', { name: 'bars' }, [share_bar(sum.took > 0 ? (leg.to_ms - leg.from_ms) / sum.took : 0, `leg-${leg.kind}`)]),
    ]);
  });
  const kinds = Object.keys(LEGS).filter((kind) => sum.path[kind] > 0);
  const stack = make('div', { name: 'stack', role: 'img', 'aria-label': kinds.map((kind) => `${LEGS[kind]}: ${duration(sum.path[kind])}`).join(', ') });
  for (const kind of kinds) {
    const part = make('span', { name: `leg-${kind}`, title: `${LEGS[kind]}: ${duration(sum.path[kind])}` });
    part.style.flexGrow = sum.path[kind];
    stack.append(part);
  }
  host.replaceChildren(
    make('h2', { text: 'What determined the end' }),
    make('p', { name: 'sentence', text: `The path is found from the end backwards: whatever ended last is what the rest had waited for. Its ${counted(legs.length, 'piece')} add up to ${whole(sum.took)} ms.` }),
    stack,
    make('ul', { name: 'keys' }, kinds.map((kind) => make('li', {}, [make('span', { name: `key leg-${kind}` }), document.createTextNode(`${LEGS[kind]} ${whole(sum.path[kind])} ms`)]))),
    make('h2', { text: `${percent(sum.share)} of the ideal speed-up` }),
    make('p', { name: 'sentence', text: `The ideal is the time that all the work of the agents (${whole(sum.work)} ms) would take if it were spread evenly over as many agents as ran at once at the most (${sum.most}), and no less than the work on the critical path (${whole(work)} ms): ${whole(sum.ideal)} ms. It took ${whole(sum.took)} ms, which is ${sum.speed.toFixed(2)} times as fast as one agent after the other, where ${(sum.ideal > 0 ? sum.work / sum.ideal : 1).toFixed(2)} times was possible.` }),
    make('table', {}, [
      make('thead', {}, [make('tr', {}, ['At', 'What', 'In particular', 'Agent', 'Took', 'Share'].map((text) => make('th', { text, scope: 'col', name: text === 'At' || text === 'Took' ? 'figure' : '' })))]),
      body,
    ]), more,
    make('p', { name: 'sentence', text: left.length > 0 ? `${counted(left.length, 'piece')} of less than ${percent(LEAST_SHARE)} each, ${whole(left.reduce((ms, leg) => ms + leg.to_ms - leg.from_ms, 0))} ms together, left out.` : '' }),
  );
}

/** Which column the cost is sorted by, and which way. */
const sorted = { by: 'cost', down: true };

const COLUMNS = {
  agent: { title: 'Agent', of: (row) => row.place },
  requests: { title: 'Requests', of: (row) => row.requests },
  input: { title: 'Input', of: (row) => row.usage.input },
  cached: { title: 'Cached', of: (row) => row.usage.cache_read },
  written: { title: 'Written', of: (row) => row.usage.cache_creation },
  output: { title: 'Output', of: (row) => row.usage.output },
  cost: { title: 'Cost', of: (row) => row.usage.cost_usd || row.share * 1e-12 },
};

function show_cost() {
  const host = byId('view-cost');
  const sum = figures();
  const all = tokens(sum.usage);
  const share = (usage) => (sum.usage.cost_usd > 0 ? usage.cost_usd / sum.usage.cost_usd : all > 0 ? tokens(usage) / all : 0);
  const rows = trace.order.flatMap((unit, place) => {
    const spent = sum.by_unit.get(unit.id);
    return spent ? [{ unit, place, ...spent, share: share(spent.usage) }] : [];
  });
  const { of } = COLUMNS[sorted.by];
  rows.sort((one, other) => (of(other) - of(one)) * (sorted.down ? 1 : -1) || one.place - other.place);
  const figures_of = ({ requests, usage }) => [requests, usage.input, usage.cache_read, usage.cache_creation, usage.output].map((number) => cell(whole(number), 'figure'));
  const body = make('tbody');
  const more = fill(body, rows, (row) => make('tr', {}, [
    make('td', {}, [make('button', { type: 'button', name: 'link', text: short(unit_name(row.unit), 60), on: { click: () => go_to(row.unit.id, null) } })]),
    ...figures_of(row), cell(cost(row.usage), 'figure'), make('td', { name: 'bars' }, [share_bar(row.share)]),
  ]));
  const heads = Object.entries(COLUMNS).map(([by, { title }]) => {
    const is_sorted = sorted.by === by;
    const turn = () => {
      Object.assign(sorted, { by, down: is_sorted ? !sorted.down : by !== 'agent' });
      show_cost();
      byId('view-cost').querySelector(`[data-by="${by}"]`).focus();
    };
    const sign = is_sorted ? (sorted.down ? ' ↓' : ' ↑') : '';
    return make('th', { scope: 'col', 'aria-sort': is_sorted ? (sorted.down ? 'descending' : 'ascending') : undefined, name: by === 'agent' ? '' : 'figure' }, [
      make('button', { type: 'button', name: 'sort', text: title + sign, 'data-by': by, on: { click: turn } }),
    ]);
  });
  const models = [...sum.models].sort(([, one], [, other]) => other.usage.cost_usd - one.usage.cost_usd || tokens(other.usage) - tokens(one.usage));
  const model_body = make('tbody');
  const more_models = fill(model_body, models, ([name, row]) => make('tr', {}, [
    cell(short(name || 'no model', 60)), ...figures_of(row), cell(cost(row.usage), 'figure'), make('td', { name: 'bars' }, [share_bar(share(row.usage))]),
  ]));
  const table = (title, heads, body) => make('table', {}, [make('caption', { text: title }), make('thead', {}, [make('tr', {}, [...heads, make('th', { scope: 'col', text: 'Share' })])]), body]);
  const plain = ['Model', 'Requests', 'Input', 'Cached', 'Written', 'Output', 'Cost'].map((text, place) => make('th', { text, scope: 'col', name: place > 0 ? 'figure' : '' }));
  host.replaceChildren(
    make('p', { name: 'sentence', text: `${counted(sum.requests, 'request')}, ${whole(all)} tokens, ${cost(sum.usage)}${sum.usage.cost_is_partial ? ' (“+”: at least that much, “?”: not known, since not every model has a price)' : ''}.` }),
    table('By agent', heads, body), more, table('By model', plain, model_body), more_models,
  );
}
