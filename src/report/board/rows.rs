//! The rows of the board, for the columns and the rows there are.

use super::{Activity, Board, Ended};
use crate::event::{UnitId, UnitState, UnixMillis};
use crate::message::{counted, short_number};
use crate::report::ink::Ink;
use crate::report::prose::wrapped;
use crate::report::row::Row;
use crate::report::units::{Counts, Doing, Unit};
use crate::report::words;

/// Most columns of a name: what a unit does needs the rest of the row.
const NAME_COLUMNS: usize = 24;

/// Columns of a name on the narrowest screen.
const NARROW_NAME: usize = 12;

/// Columns of a row's tokens and of its time.
const TOKENS: usize = 9;
const TIME: usize = 8;

/// Fewest columns of a screen on which tokens are told, and the word for what
/// most units do: work.
const WIDE: u16 = 60;

/// What a board is drawn for.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// How wide a row may be.
    pub columns: u16,
    /// How many rows there may be.
    pub rows: usize,
    /// The time.
    pub now: UnixMillis,
    /// The unit that keys point at.
    pub picked: Option<UnitId>,
}

/// What a row says. What has most to say comes first where rows are few.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    rank: Rank,
    /// What its row is sorted by.
    place: UnitId,
    unit: UnitId,
    name: String,
    ink: Ink,
    /// Its state in words; empty where it only says what most do.
    state: String,
    what: String,
    tokens: u64,
    time: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Picked,
    Asks,
    Works,
    Waits,
    Ended,
}

impl Board {
    /// Returns its rows, top to bottom.
    #[must_use]
    pub fn rows(&self, view: View) -> Vec<Row> {
        let mut lines = self.lines(view);
        let agents = self.agents();
        let main = self.main_line(view, lines.is_empty());
        let is_one = agents <= 1 && lines.len() <= 1;
        let rests = self.started.is_none() && self.open() == 0;
        let sums = if is_one || rests { Vec::new() } else { self.sums(agents, view) };
        let room = view.rows.saturating_sub(sums.len() + usize::from(main.is_some()));
        lines.sort();
        lines.truncate(room);
        lines.sort_by_key(|line| line.place);
        let lines: Vec<Line> = main.into_iter().chain(lines).collect();
        let widest = lines.iter().map(|line| crate::report::row::columns_of(&line.name)).max();
        let most = (usize::from(view.columns) / 4).clamp(NARROW_NAME, NAME_COLUMNS);
        let name_columns = widest.unwrap_or(0).min(most);
        let rows = lines.iter().map(|line| self.row(line, name_columns, view));
        let mut rows: Vec<Row> = rows.chain(sums).collect();
        rows.truncate(view.rows);
        rows
    }

    /// Returns how many units there are in this invocation.
    fn agents(&self) -> u64 {
        let Counts { completed, failed, cancelled, skipped, interrupted, .. } = self.counts();
        self.open() + completed + failed + cancelled + skipped + interrupted
    }

    /// Returns how many of them have not ended.
    fn open(&self) -> u64 {
        let Counts { queued, running, throttled, waiting, .. } = self.counts();
        queued + running + throttled + waiting
    }

    fn lines(&self, view: View) -> Vec<Line> {
        let open = self.at_work(view.picked).into_iter();
        let mut lines: Vec<Line> = open.map(|(unit, known)| self.line(unit, known, view)).collect();
        let queued = (1..).zip(self.queued());
        lines.extend(queued.map(|(place, (unit, known))| Line {
            rank: rank(unit, Rank::Waits, view),
            place: self.place(unit),
            unit,
            name: words::unit_name(unit, &known.head),
            ink: Ink::Dim,
            state: format!("queued {}", ordinal(place)),
            what: known.lost_with.as_ref().map(|it| words::waits_again(it)).unwrap_or_default(),
            tokens: known.usage.total(),
            time: None,
        }));
        lines.extend(self.told().map(|ended| self.ended_line(ended, view)));
        lines
    }

    fn line(&self, unit: UnitId, known: &Unit, view: View) -> Line {
        let is_asking = self.units.questions_of(unit) > 0;
        let (ink, state, what) = self.activity(unit, known.doing(), view);
        Line {
            rank: rank(unit, if is_asking { Rank::Asks } else { Rank::Works }, view),
            place: self.place(unit),
            unit,
            name: words::unit_name(unit, &known.head),
            ink,
            state,
            what,
            tokens: known.usage.total(),
            time: known.started.map(|started| view.now.since(started)),
        }
    }

    fn ended_line(&self, ended: &Ended, view: View) -> Line {
        let state = ended.end.outcome.state();
        Line {
            rank: rank(ended.unit, Rank::Ended, view),
            place: self.place(ended.unit),
            unit: ended.unit,
            name: words::unit_name(ended.unit, &ended.head),
            ink: ink_of(state),
            state: words::state(state).to_owned(),
            what: String::new(),
            tokens: if view.columns >= WIDE - 1 { ended.end.usage.total() } else { 0 },
            time: Some(ended.end.duration_ms),
        }
    }

    /// Returns a row for main, if nothing else is to be told or it is main that
    /// waits.
    fn main_line(&self, view: View, is_alone: bool) -> Option<Line> {
        let started = self.started?;
        let hold = self.units.hold(UnitId::MAIN);
        let is_asking = self.units.questions_of(UnitId::MAIN) > 0;
        if !is_alone && hold.is_none() && !is_asking {
            return None;
        }
        let doing = hold.map_or(Doing::Work, Doing::Hold);
        let (ink, state, what) = self.activity(UnitId::MAIN, doing, view);
        let tokens = if is_alone { self.tally.total_tokens() } else { 0 };
        let time = Some(view.now.since(started));
        let (rank, name, unit) = (Rank::Works, "main".to_owned(), UnitId::MAIN);
        Some(Line { rank, place: unit, unit, name, ink, state, what, tokens, time })
    }

    /// Returns the state of something at work, and what it does.
    fn activity(&self, unit: UnitId, doing: Doing, view: View) -> (Ink, String, String) {
        let is_wide = view.columns >= WIDE - 1;
        let call = match self.doing.get(&unit) {
            Some(Activity::Calls(call)) => words::call(&call.tool, &call.subject),
            Some(Activity::Writes) => "writing".to_owned(),
            Some(Activity::Thinks) => "thinking".to_owned(),
            Some(Activity::Waits) | None => String::new(),
        };
        if self.units.questions_of(unit) > 0 {
            return (Ink::Caution, "asks".to_owned(), if is_wide { call } else { String::new() });
        }
        match doing {
            Doing::Work if is_wide || call.is_empty() => {
                (Ink::Working, words::state(UnitState::Running).to_owned(), call)
            }
            Doing::Work => (Ink::Working, String::new(), call),
            Doing::Wait => (Ink::Plain, "waiting".to_owned(), call),
            Doing::Hold(hold) => {
                let why = match hold.left(view.now) {
                    Some(left) if !is_wide => words::wait(left),
                    left => words::hold(hold.cause, left),
                };
                (Ink::Caution, words::state(UnitState::Throttled).to_owned(), why)
            }
        }
    }

    fn row(&self, line: &Line, name_columns: usize, view: View) -> Row {
        let Line { unit, name, ink, state, what, tokens, time, .. } = line;
        let is_picked = view.picked == Some(*unit);
        let has_numbers = !self.numbers.is_empty();
        let mut row = Row::new();
        if has_numbers {
            let number = self.number_of(*unit).map_or_else(|| " ".to_owned(), |n| n.to_string());
            let mark = if is_picked { ">" } else { " " };
            row = row.text(Ink::Plain, &number).text(Ink::Caution, mark);
        }
        let name = Row::new().text(Ink::Plain, name).cut(name_columns);
        let name = if is_picked { name.all(Ink::Picked) } else { name };
        row = row.row(&name).padded(usize::from(has_numbers) * 2 + name_columns + 2);
        row = row.text(*ink, state);
        if !what.is_empty() {
            row = row.text(Ink::Plain, if state.is_empty() { "" } else { " " });
            row = row.text(Ink::Plain, what);
        }
        let row = with_figures(row, *tokens, *time, view.columns);
        if line.rank == Rank::Ended && !is_picked { row.all(Ink::Dim) } else { row }
    }

    /// Returns the units by their states.
    fn sums(&self, agents: u64, view: View) -> Vec<Row> {
        let Counts { queued, running, throttled, waiting, .. } = self.counts();
        let Counts { completed, failed, cancelled, skipped, interrupted, .. } = self.counts();
        let asks = self.units.asking().filter(|unit| *unit != UnitId::MAIN).count();
        let asks = u64::try_from(asks).unwrap_or(u64::MAX);
        let states = [
            (running.saturating_sub(asks), words::state(UnitState::Running)),
            (asks, if asks == 1 { "asks" } else { "ask" }),
            (throttled, words::state(UnitState::Throttled)),
            (waiting, "waiting"),
            (queued, words::state(UnitState::Queued)),
            (completed, words::state(UnitState::Completed)),
            (failed, words::state(UnitState::Failed)),
            (cancelled, words::state(UnitState::Cancelled)),
            (skipped, words::state(UnitState::Skipped)),
            (interrupted, words::state(UnitState::Interrupted)),
        ];
        let told = states.iter().filter(|(count, _)| *count > 0);
        let told: Vec<String> = told.map(|(count, state)| format!("{count} {state}")).collect();
        let cost = words::cost(self.tally.total_cost()).map(|cost| format!("  {cost}"));
        let cost = cost.unwrap_or_default();
        let text = format!("{}: {}{cost}", counted_agents(agents), told.join(", "));
        let figures = figures_columns(view.columns);
        let columns = usize::from(view.columns).saturating_sub(figures).max(8);
        let columns = u16::try_from(columns).unwrap_or(view.columns);
        let mut rows = wrapped(Ink::Plain, &text, columns, 2);
        let time = self.started.map(|started| view.now.since(started));
        if let Some(last) = rows.pop() {
            rows.push(with_figures(last, self.tally.total_tokens(), time, view.columns));
        }
        rows
    }
}

fn counted_agents(agents: u64) -> String {
    counted(u32::try_from(agents).unwrap_or(u32::MAX), "agent")
}

fn rank(unit: UnitId, rank: Rank, view: View) -> Rank {
    if view.picked == Some(unit) { Rank::Picked } else { rank }
}

/// Returns the ink of a state.
#[must_use]
pub(in crate::report) fn ink_of(state: UnitState) -> Ink {
    match state {
        UnitState::Running => Ink::Working,
        UnitState::Completed => Ink::Good,
        UnitState::Failed | UnitState::Interrupted => Ink::Bad,
        UnitState::Throttled | UnitState::AwaitingApproval | UnitState::Cancelled => Ink::Caution,
        UnitState::Queued | UnitState::Skipped => Ink::Dim,
    }
}

/// Returns how many columns stand at the end of a row for its figures.
fn figures_columns(columns: u16) -> usize {
    if columns >= WIDE - 1 { TOKENS + TIME + 1 } else { TIME }
}

/// Returns a row with its tokens and its time at its end.
fn with_figures(row: Row, tokens: u64, time: Option<u64>, columns: u16) -> Row {
    let room = usize::from(columns).saturating_sub(figures_columns(columns));
    let mut row = row.cut(room);
    if columns >= WIDE - 1 && tokens > 0 {
        let tokens = format!("{} tok", short_number(tokens));
        row = row.padded(room).text(Ink::Dim, &format!(" {tokens:>TOKENS$}"));
    }
    match time {
        Some(time) => {
            let time = words::elapsed(time);
            let before = usize::from(columns).saturating_sub(TIME);
            row.padded(before).text(Ink::Dim, &format!("{time:>TIME$}"))
        }
        None => row,
    }
}

fn ordinal(place: usize) -> String {
    let ending = match (place % 10, place % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        (_, _) => "th",
    };
    format!("{place}{ending}")
}
