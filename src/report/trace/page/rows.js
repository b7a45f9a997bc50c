// Rows of units with a picture beside them. However many there are, only those
// on the screen are made and drawn.

/** How high a row is, in pixels; the style says the same. */
const ROW = 28;

/** The smallest time that is shown whole, in units of a scale. */
const LEAST = 1;

/** What is shown of a line from left to right, and how far it goes. */
class Scale {
  constructor() {
    [this.from, this.to, this.least, this.most] = [0, 1, 0, 1];
  }

  /** Says how far it goes; all of it is shown if all of it was. */
  bound(least, most) {
    const was_all = this.from <= this.least && this.to >= this.most;
    [this.least, this.most] = [least, Math.max(most, least + LEAST)];
    if (was_all) this.fit();
  }

  fit() {
    [this.from, this.to] = [this.least, this.most];
  }

  /** Shows more or less around a place. */
  zoom(factor, at = (this.from + this.to) / 2) {
    const width = Math.min(Math.max((this.to - this.from) * factor, LEAST), this.most - this.least);
    const share = (at - this.from) / (this.to - this.from);
    this.from = at - width * share;
    this.to = this.from + width;
    this.hold();
  }

  move(by) {
    this.from += by;
    this.to += by;
    this.hold();
  }

  /** Shows a part, with some room around it. */
  show(from, to) {
    const width = Math.min(Math.max((to - from) * 1.3, LEAST), this.most - this.least);
    this.from = (from + to - width) / 2;
    this.to = this.from + width;
    this.hold();
  }

  hold() {
    const width = this.to - this.from;
    if (this.from < this.least) [this.from, this.to] = [this.least, this.least + width];
    if (this.to > this.most) [this.from, this.to] = [this.most - width, this.most];
  }
}

/** The colours of the style, as a canvas takes them. */
const ink = {
  probe: null,
  known: new Map(),
  of(name) {
    if (!this.known.has(name)) {
      this.probe ??= document.body.appendChild(make('span', { hidden: true }));
      this.probe.style.color = `var(--${name})`;
      this.known.set(name, getComputedStyle(this.probe).color);
    }
    return this.known.get(name);
  },
};

/** A list of units with a picture beside it. */
class Rows {
  /** `paint` draws a row, `axis` what stands above, `at` says what is where. */
  constructor(host, { label, paint, axis, at }) {
    Object.assign(this, { host, paint, axis, at });
    this.scale = new Scale();
    this.units = [];
    this.places = new Map();
    this.ruler = make('canvas', { name: 'ruler', 'aria-hidden': true });
    this.canvas = make('canvas', { name: 'picture', 'aria-hidden': true });
    this.labels = make('div', { name: 'labels', role: 'presentation' });
    this.height = make('div', { name: 'height', role: 'presentation' });
    this.body = make('div', { name: 'rows', role: 'tree', tabindex: 0, 'aria-label': label, 'aria-description': KEYS }, [
      make('div', { name: 'sticky', role: 'presentation' }, [this.canvas]), this.labels, this.height,
    ]);
    this.none = make('p', { name: 'none', text: 'No agent fits.', hidden: true });
    host.append(make('div', { name: 'ruled' }, [make('span', { name: 'corner', text: 'Agent' }), this.ruler]), this.body, this.none);
    this.body.addEventListener('scroll', () => this.draw(), { passive: true });
    this.body.addEventListener('keydown', (event) => this.key(event));
    this.body.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    this.body.addEventListener('pointerdown', (event) => this.press(event));
    this.body.addEventListener('pointermove', (event) => this.hover(event));
    this.body.addEventListener('pointerleave', () => hide_tip());
    this.body.addEventListener('dblclick', (event) => this.near(event));
    new ResizeObserver(() => this.draw()).observe(this.body);
  }

  /** Shows these units. */
  set(units) {
    this.units = units;
    this.places = new Map(units.map((unit, place) => [unit.id, place]));
    this.height.style.height = `${units.length * ROW}px`;
    this.none.hidden = units.length > 0;
    this.draw();
  }

  /** Draws before the next picture of the screen. */
  draw() {
    if (this.waits || this.host.hidden) return;
    this.waits = true;
    requestAnimationFrame(() => {
      this.waits = false;
      this.draw_now();
    });
  }

  draw_now() {
    const { clientHeight: height, clientWidth: width, scrollTop: top } = this.body;
    if (width === 0) return;
    this.left = this.labels.getBoundingClientRect().width;
    this.wide = Math.max(width - this.left, 50);
    const first = Math.floor(top / ROW);
    const last = Math.min(this.units.length, Math.ceil((top + height) / ROW));
    this.name_rows(first, last);
    const pen = sized(this.canvas, this.wide, height);
    for (let place = first; place < last; place += 1) {
      const y = place * ROW - top;
      const unit = this.units[place];
      if (unit.id === looked.unit) {
        pen.fillStyle = ink.of('chosen');
        pen.fillRect(0, y, this.wide, ROW);
      }
      pen.fillStyle = ink.of('line');
      pen.fillRect(0, y + ROW - 1, this.wide, 1);
    }
    for (let place = first; place < last; place += 1) this.paint(pen, this.units[place], place * ROW - top, this);
    this.axis(sized(this.ruler, this.wide, 26), this);
  }

  x(value) {
    return ((value - this.scale.from) / (this.scale.to - this.scale.from)) * this.wide;
  }

  value(x) {
    return this.scale.from + (x / this.wide) * (this.scale.to - this.scale.from);
  }

  y(unit) {
    const place = this.places.get(unit);
    return place === undefined ? null : place * ROW - this.body.scrollTop;
  }

  name_rows(first, last) {
    const rows = [];
    for (let place = first; place < last; place += 1) rows.push(this.row(this.units[place], place));
    this.labels.replaceChildren(...rows);
    const chosen = this.places.get(looked.unit);
    if (chosen >= first && chosen < last) this.body.setAttribute('aria-activedescendant', `${this.host.id}-${chosen}`);
    else this.body.removeAttribute('aria-activedescendant');
  }

  row(unit, place) {
    const has_children = unit.children.length > 0;
    const folded = looked.folded.has(unit.id);
    const facts = [unit.agent === 'main' ? '' : unit.agent, state_name(unit), duration(end(unit.ended_ms) - unit.queued_ms), `${few(tokens(unit.spent.usage))} tokens`];
    const row = make('div', {
      name: `row${unit.id === looked.unit ? ' is-chosen' : ''}`,
      role: 'treeitem', id: `${this.host.id}-${place}`,
      'aria-level': unit.depth + 1, 'aria-setsize': this.units.length, 'aria-posinset': place + 1,
      'aria-selected': String(unit.id === looked.unit), 'aria-expanded': has_children ? String(!folded) : undefined,
      'aria-label': shown(`${unit.id} ${unit_name(unit)}, ${facts.filter(Boolean).join(', ')}`), 'data-unit': unit.id,
    });
    row.style.top = `${place * ROW}px`;
    const fold = make('span', { name: 'fold', text: has_children ? (folded ? '▸' : '▾') : '' });
    fold.style.marginLeft = `${Math.min(unit.depth, 8) * 14}px`;
    if (has_children) fold.dataset.fold = unit.id;
    row.append(fold, make('span', { name: `dot ${unit.state}` }), make('span', { name: 'name', text: short(unit_name(unit), 80) }));
    if (unit.id !== 'main') row.append(make('span', { name: 'number', text: unit.id.replace('agent-', '') }));
    return row;
  }

  /** Chooses a unit and brings it onto the screen. */
  choose(place) {
    const unit = this.units[Math.min(Math.max(place, 0), this.units.length - 1)];
    if (!unit) return;
    this.reveal(unit.id);
    choose_unit(unit.id);
  }

  reveal(id) {
    const place = this.places.get(id);
    if (place === undefined) return;
    const { scrollTop: top, clientHeight: height } = this.body;
    if (place * ROW < top) this.body.scrollTop = place * ROW;
    else if ((place + 1) * ROW > top + height) this.body.scrollTop = (place + 1) * ROW - height;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const place = this.places.get(looked.unit) ?? 0;
    const page = Math.max(1, Math.floor(this.body.clientHeight / ROW) - 1);
    const width = this.scale.to - this.scale.from;
    const actions = {
      ArrowDown: () => this.choose(place + 1),
      ArrowUp: () => this.choose(place - 1),
      PageDown: () => this.choose(place + page),
      PageUp: () => this.choose(place - page),
      Home: () => this.choose(0),
      End: () => this.choose(this.units.length - 1),
      ArrowRight: () => (event.shiftKey ? this.scale.move(width / 8) : step_span(1)),
      ArrowLeft: () => (event.shiftKey ? this.scale.move(-width / 8) : step_span(-1)),
      Enter: () => open_details(),
      ' ': () => fold(looked.unit),
      '+': () => this.scale.zoom(0.6),
      '=': () => this.scale.zoom(0.6),
      '-': () => this.scale.zoom(1 / 0.6),
      0: () => this.scale.fit(),
      f: () => this.show_unit(trace.units.get(looked.unit)),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
    this.draw();
  }

  wheel(event) {
    const x = event.clientX - this.body.getBoundingClientRect().left - this.left;
    const width = this.scale.to - this.scale.from;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.scale.zoom(Math.exp(Math.min(Math.max(event.deltaY, -200), 200) / 300), this.value(Math.max(x, 0)));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.scale.move(((event.shiftKey ? event.deltaY || event.deltaX : event.deltaX) / this.wide) * width);
    } else return;
    this.draw();
  }

  /** Returns the unit and the value that a pointer is at. */
  pointed(event) {
    const box = this.body.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - this.left, event.clientY - box.top];
    const unit = this.units[Math.floor((y + this.body.scrollTop) / ROW)];
    return { unit, x, y: (y + this.body.scrollTop) % ROW, on_label: x < 0 };
  }

  press(event) {
    if (event.button !== 0) return;
    // A press on the scroll bar is none on a row.
    if (event.clientX - this.body.getBoundingClientRect().left > this.body.clientWidth) return;
    const folds = event.target.dataset?.fold;
    if (folds) return fold(folds);
    const { unit, x, y, on_label } = this.pointed(event);
    const [start, top] = [{ ...this.scale }, this.body.scrollTop];
    let moved = false;
    const move = (now) => {
      const [by, down] = [now.clientX - event.clientX, now.clientY - event.clientY];
      if (!moved && Math.abs(by) + Math.abs(down) < 5) return;
      if (!moved) this.body.setPointerCapture(event.pointerId);
      moved = true;
      Object.assign(this.scale, { from: start.from, to: start.to });
      if (!on_label) this.scale.move((-by / this.wide) * (start.to - start.from));
      this.body.scrollTop = top - down;
      this.draw();
    };
    const up = () => {
      this.body.removeEventListener('pointermove', move);
      this.body.removeEventListener('pointerup', up);
      this.body.removeEventListener('pointercancel', up);
      if (moved || !unit) return;
      choose_unit(unit.id, on_label ? null : this.at(unit, x, y, this));
      open_details();
    };
    this.body.addEventListener('pointermove', move);
    this.body.addEventListener('pointerup', up);
    this.body.addEventListener('pointercancel', up);
  }

  hover(event) {
    if (event.buttons !== 0) return hide_tip();
    const { unit, x, y, on_label } = this.pointed(event);
    if (!unit) return hide_tip();
    const span = on_label ? null : this.at(unit, x, y, this);
    show_tip(event, tip_lines(unit, span));
  }

  /** Shows all of a unit as large as it goes. */
  show_unit(unit) {
    if (this !== views.timeline || !unit) return;
    this.scale.show(unit.queued_ms, end(unit.ended_ms));
    this.draw();
  }

  /** Shows what was pressed twice as large as it goes. */
  near(event) {
    const { unit, x, y, on_label } = this.pointed(event);
    if (!unit) return;
    if (on_label) return this.show_unit(unit);
    const id = this.at(unit, x, y, this);
    const span = id === null ? null : trace.spans[id];
    if (span && span.to_ms !== span.from_ms) this.scale.show(span.from_ms, end(span.to_ms));
    else this.scale.zoom(0.5, this.value(x));
    this.draw();
  }
}

/** Gives a canvas its size, and returns what draws on it. */
function sized(canvas, width, height) {
  const dots = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * dots), Math.round(height * dots)];
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext('2d');
  pen.setTransform(dots, 0, 0, dots, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = '11px system-ui, sans-serif';
  pen.textBaseline = 'middle';
  return pen;
}

/** Returns what is said of a unit, or of a span of it, beside the pointer. */
function tip_lines(unit, id) {
  const span = id === null || id === undefined ? null : trace.spans[id];
  if (!span) {
    const spent = unit.spent.usage;
    return [`${unit.id === 'main' ? '' : `${unit.id}: `}${unit_name(unit)}`, `${state_name(unit)}, ${duration(end(unit.ended_ms) - unit.queued_ms)}`, `${whole(tokens(spent))} tokens, ${cost(spent)}`, `${unit.path} {${unit.tokens}}`];
  }
  const lines = [span_name(span)];
  if (span.to_ms !== span.from_ms) lines.push(`${duration(end(span.to_ms) - span.from_ms)} from ${duration(span.from_ms - span_of_prompt().from)}`);
  if (span.failed) lines.push(span.failed);
  return lines;
}

function show_tip(event, lines) {
  const tip = byId('tip');
  tip.replaceChildren(...lines.map((text) => make('div', { text: short(text, 100) })));
  tip.hidden = false;
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, window.innerWidth - width - 8))}px`;
  tip.style.top = `${event.clientY + 18 + height > window.innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
}

function hide_tip() {
  byId('tip').hidden = true;
}
