// What is known of a unit or of something that happened in it, with what was
// said.

/** How many entries of a unit are listed at once. */
const LISTED_AT_ONCE = 100;

/** Shows the details of what is chosen. */
function open_details() {
  byId('details').hidden = false;
  show_details();
  draw_all();
}

function close_details() {
  byId('details').hidden = true;
  draw_all();
}

function show_details() {
  const host = byId('details');
  if (host.hidden) return;
  const span = looked.span === null ? null : trace.spans[looked.span];
  const unit = trace.units.get(span?.unit ?? looked.unit);
  if (!unit) return;
  host.replaceChildren(...(span ? about_span(span, unit) : about_unit(unit)));
  host.scrollTop = 0;
}

function heading(text, number) {
  const close = make('button', { type: 'button', name: 'close', text: '×', 'aria-label': 'Close the details', on: { click: close_details } });
  return make('div', { name: 'heading' }, [make('h2', { text: short(text, 200) }), make('span', { name: 'number', text: number }), close]);
}

/** A list of terms and what there is to each; what is empty is left out. */
function facts(rows) {
  const list = make('dl');
  for (const [term, value, name] of rows) {
    if (value === null || value === undefined || value === '') continue;
    list.append(make('dt', { text: term }), make('dd', { text: value, name }));
  }
  return list;
}

const usage_rows = (usage) => [
  ['tokens in', `${whole(usage.input)}${usage.cache_read ? ` and ${whole(usage.cache_read)} cached` : ''}${usage.cache_creation ? `, ${whole(usage.cache_creation)} written` : ''}`],
  ['tokens out', whole(usage.output)],
  ['cost', cost(usage)],
];

const BEGINS = { prompt: 'its own prompt', visible: 'what its branch sees, then its prompt', fork: 'its parent’s conversation', continued: 'the conversation of', reused: 'the answer of', steps: 'nothing: it holds steps of a flow' };

function about_unit(unit) {
  const times = Object.entries(unit.times_ms).filter(([, ms]) => ms > 0).map(([name, ms]) => `${name} ${duration(ms)}`);
  const start = span_of_prompt().from;
  const rows = [
    ['state', state_name(unit), `state ${unit.state}`],
    ['error', unit.error ? `${unit.failure}: ${unit.error}` : null, 'wrong'],
    ['agent', unit.agent],
    ['of', unit.parent],
    ['begins with', `${BEGINS[unit.begins_with]}${unit.continues ? ` ${unit.continues}` : ''}`],
    ['slot', unit.slot ? `${unit.slot[0]} of ${unit.slot[1]}` : null],
    ['background', unit.is_background ? 'its parent goes on beside it' : null],
    ['repeats', unit.repeats],
    ['branch', unit.path],
    ['tokens', unit.tokens === '' ? 'none: the root' : `{${unit.tokens}}`],
    ['declared', `+${duration(unit.queued_ms - start)}`],
    ['took', duration(end(unit.ended_ms) - (unit.started_ms ?? unit.queued_ms))],
    ['times', times.join(', ')],
    ['did', `${counted(unit.turns, 'turn')}, ${counted(unit.tool_uses, 'call')}, ${counted(unit.spent.requests, 'request')}${unit.spent.retries ? ` (${unit.spent.retries} made again)` : ''}`],
    ...usage_rows(unit.spent.usage),
  ];
  const list = make('ol', { name: 'happened' });
  const spans = unit.spans.map((id) => trace.spans[id]).filter((span) => looked.prompt === 0 || span.prompt === looked.prompt || unit.id !== 'main');
  const more = fill_list(list, spans, start);
  return [heading(unit_name(unit), unit.id), facts(rows), make('h3', { text: `What happened (${whole(spans.length)})` }), list, more];
}

function fill_list(list, spans, start) {
  let made = 0;
  const more = make('button', { type: 'button', name: 'more' });
  const add = () => {
    list.append(...spans.slice(made, made + LISTED_AT_ONCE).map((span) => listed(span, start)));
    made = Math.min(made + LISTED_AT_ONCE, spans.length);
    more.textContent = `Show ${Math.min(LISTED_AT_ONCE, spans.length - made)} more of ${whole(spans.length - made)}`;
    more.hidden = made >= spans.length;
  };
  more.addEventListener('click', add);
  add();
  return more;
}

function listed(span, start) {
  const said = span.texts.at(-1);
  const took = span.to_ms === span.from_ms ? '' : duration(end(span.to_ms) - span.from_ms);
  const open = make('button', { type: 'button', name: `entry ${span.failed ? 'wrong' : ''}`, on: { click: () => choose_span(span.id) } }, [
    make('span', { name: 'when', text: `+${duration(span.from_ms - start)}` }),
    make('span', { name: `key kind-${span.failed ? 'failed' : span.kind}` }),
    make('span', { name: 'what', text: span_name(span) }),
    make('span', { name: 'when', text: took }),
    make('span', { name: 'glimpse', text: said ? short(said.text, 120) : '' }),
  ]);
  return make('li', {}, [open]);
}

const KINDS = { request: 'a request', compaction: 'a summary of the conversation', wait: 'a request that waits', call: 'a call', question: 'a question to a person', hook: 'a hook', prompt: 'a message to the agent', news: 'news for the agent', mark: 'a note' };

function about_span(span, unit) {
  const start = span_of_prompt().from;
  const back = make('button', { type: 'button', name: 'link', text: `${unit_name(unit)} (${unit.id})`, on: { click: () => go_to(unit.id, null) } });
  const is_asking = span.kind === 'request' || span.kind === 'compaction';
  const rows = [
    ['what', KINDS[span.kind]],
    ['failed', span.failed, 'wrong'],
    [is_asking ? 'model' : 'name', span.name],
    [is_asking ? 'ended by' : 'about', span.about.replaceAll('_', ' ')],
    ['from', `+${duration(span.from_ms - start)}`],
    ['took', span.to_ms === null ? 'goes on' : span.to_ms === span.from_ms ? null : `${whole(span.to_ms - span.from_ms)} ms`],
    ['call', span.call],
    ...(span.usage ? usage_rows(span.usage) : []),
  ];
  const texts = span.texts.flatMap((said) => [make('h3', { text: said.label }), text_block(said)]);
  const steps = make('div', { name: 'steps' }, [
    make('button', { type: 'button', text: '← Before', on: { click: () => step_span(-1) } }),
    make('button', { type: 'button', text: 'Next →', on: { click: () => step_span(1) } }),
  ]);
  return [heading(span_name(span), `event in ${unit.id}`), make('p', { name: 'back' }, [document.createTextNode('in '), back]), steps, facts(rows), ...texts];
}

/** A text as it is, with what is searched for marked in it. */
function text_block(said) {
  const block = make('pre', { tabindex: 0 });
  const text = indented(said);
  const words = looked.words;
  const small = words === '' ? '' : text.toLowerCase();
  // In a text whose small letters take other room, places would be wrong.
  const can_mark = words !== '' && small.length === text.length;
  let at = 0;
  for (let marks = 0; can_mark && marks < 500; marks += 1) {
    const next = small.indexOf(words, at);
    if (next < 0) break;
    block.append(document.createTextNode(text.slice(at, next)), make('mark', { text: text.slice(next, next + words.length) }));
    at = next + words.length;
  }
  block.append(document.createTextNode(text.slice(at)));
  if (said.cut_from_bytes === undefined) return block;
  const kept = new TextEncoder().encode(said.text).length;
  return make('div', {}, [block, make('p', { name: 'cut', text: `Cut here: these are the first ${whole(kept)} of ${whole(said.cut_from_bytes)} bytes. “tine session show ${trace.session.id} --format jsonl” has all of it.` })]);
}

/** Returns a text as it is shown; JSON that stands on one line is laid out. */
function indented(said) {
  if (said.label !== 'arguments') return shown(said.text);
  try {
    return shown(JSON.stringify(JSON.parse(said.text), null, 2));
  } catch {
    return shown(said.text);
  }
}
