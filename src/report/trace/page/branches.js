// Branches as a graph: a line for each unit, which parts from its parent's and
// comes back to it; a thin one goes on with its parent's tokens. From left to
// right stand the moments at which something parts or joins, however long it was
// between them.

/** Where lines part and join in what is looked at. */
const graph = { columns: [], splits: new Map(), joins: new Map(), at: new Map() };

/** How many colours lines have. */
const HUES = 6;

/** Puts the meetings of the prompt that is looked at into columns. */
function lay_out() {
  graph.columns = [...trace.branches.values()]
    .filter((meeting) => looked.prompt === 0 || meeting.prompt === looked.prompt)
    .sort((one, other) => one.id - other.id);
  for (const map of [graph.splits, graph.joins, graph.at]) map.clear();
  graph.columns.forEach((meeting, index) => {
    const column = index + 1;
    if (!graph.at.has(meeting.unit)) graph.at.set(meeting.unit, []);
    graph.at.get(meeting.unit).push({ column, meeting });
    for (const child of meeting.children) (meeting.kind === 'join' ? graph.joins : graph.splits).set(child, { column, meeting });
  });
}

const last_column = () => graph.columns.length + 1;

/** Draws the line of a unit. */
function paint_branch(pen, unit, y, rows) {
  const [split, join] = [graph.splits.get(unit.id), graph.joins.get(unit.id)];
  if (!split && unit.id !== 'main' && !join && !graph.at.has(unit.id)) return;
  const middle = y + ROW / 2;
  const bend = Math.min(ROW / 2, Math.max((rows.x(1) - rows.x(0)) / 2, 3));
  const from = split ? rows.x(split.column) + bend : rows.x(0);
  const to = join ? rows.x(join.column) - bend : rows.x(last_column());
  pen.globalAlpha = looked.found !== null && !looked.found.units.has(unit.id) ? 0.3 : 1;
  pen.strokeStyle = ink.of(unit.id === 'main' ? 'text' : `branch-${number_of(unit) % HUES}`);
  pen.fillStyle = pen.strokeStyle;
  const thickness = split?.meeting.kind === 'step' ? 1 : 2;
  pen.lineWidth = unit.id === looked.unit ? 3 : thickness;
  pen.setLineDash(unit.is_background ? [6, 4] : []);
  pen.beginPath();
  if (split) corner(pen, rows.x(split.column), rows.y(split.meeting.unit), middle, bend);
  pen.moveTo(from, middle);
  pen.lineTo(Math.max(to, from), middle);
  if (join) corner(pen, rows.x(join.column), rows.y(join.meeting.unit), middle, -bend);
  pen.stroke();
  pen.setLineDash([]);
  if (unit.id !== 'main' && (!join || unit.state !== 'completed')) ending(pen, Math.max(to, from), middle, unit);
  for (const { column } of graph.at.get(unit.id) ?? []) {
    pen.beginPath();
    pen.arc(rows.x(column), middle, 4, 0, 7);
    pen.fill();
  }
  name_branch(pen, unit, { from, to, middle });
  pen.globalAlpha = 1;
}

/** Draws the way between a parent's line and a child's. */
function corner(pen, x, parent, middle, bend) {
  if (parent === null) return;
  const above = parent + ROW / 2;
  const round = Math.abs(bend) * Math.sign(middle - above || 1);
  pen.moveTo(x, above);
  pen.lineTo(x, middle - round);
  pen.quadraticCurveTo(x, middle, x + bend, middle);
}

/** A line that did not come back, or not well, ends in the colour of its state. */
function ending(pen, x, y, unit) {
  pen.beginPath();
  pen.fillStyle = ink.of(`state-${unit.state}`);
  pen.arc(x - 5, y, 5, 0, 7);
  pen.fill();
}

/** Writes a branch's tokens above its line. */
function name_branch(pen, unit, { from, to, middle }) {
  const text = unit.tokens === '' ? 'root' : `{${unit.tokens}}`;
  const x = Math.max(from + 6, 4);
  if (to - x < 30) return;
  pen.fillStyle = ink.of('faint');
  pen.fillText(short(text, Math.max(Math.floor((to - x) / 6), 4)), x, middle - 7);
}

const number_of = (unit) => Number(unit.id.replace('agent-', '')) || 0;

/** Draws what happens at each column, as far as there is room. */
function paint_columns(pen, rows) {
  const width = rows.x(1) - rows.x(0);
  pen.fillStyle = ink.of('faint');
  const every = Math.max(1, Math.ceil(95 / width));
  graph.columns.forEach((meeting, index) => {
    const x = rows.x(index + 1);
    if (x < -95 || x > rows.wide || index % every !== 0) return;
    pen.fillRect(x, 18, 1, 8);
    pen.fillText(`${meeting.kind} +${duration(meeting.at_ms - span_of_prompt().from)}`, x + 4, 14);
  });
}
