//! The run as it is now, for a terminal.
//!
//! A region at the bottom of the screen has one row for each agent that runs,
//! up to a bound, and a row of sums; what should stay is printed above it.
//! Events only change what is known; the rows follow when nothing else waits,
//! so a flood of events costs one drawing. At the end the region goes and the
//! answer is written to standard output.

mod sums;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{
    MultiProgress, ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressState, ProgressStyle,
};

use crate::event::{
    AfterFailure, Delta, Event, EventKind, InvocationEnd, NoticeLevel, Outcome, UnitEnd, UnitId,
    UnitState, UnixMillis, Verdict, Worktree,
};
use crate::message::short_number;
use crate::run::Reporter;

use super::answer::{Stderr, Stdout};
use super::plain::line_of;
use super::result::{Ending, Tally};
use super::row::columns_of;
use super::units::{Doing, LastCall, Unit, Units};
use super::words;
use sums::sums;

/// Most rows for running units. With the rows of sums and a few lines of talk
/// they fit a terminal of 24 lines.
const ROWS: usize = 8;

/// What a unit does whose children run in its place.
const WAITING: &str = "waiting";

/// Most columns of a name: what a unit does needs the rest of the row.
const NAME_COLUMNS: usize = 24;

/// Most ends of units, and changes of their models, that are printed one by one
/// in an invocation. A failure should be seen, but ten thousand of them are a
/// number.
const FATES_PRINTED: u32 = 50;

/// Most lines that wait until a question is answered. What a screen holds, and
/// some more to scroll.
const HELD_CAP: usize = 100;

/// Returns the time of day, in the same measure as events.
pub type Clock = Arc<dyn Fn() -> UnixMillis + Send + Sync>;

/// How the region looks and moves.
#[derive(Clone)]
pub struct LiveOptions {
    /// Whether states have colours.
    pub colours: bool,
    /// How often running times go on; `None` only with the next event.
    pub tick: Option<Duration>,
    /// What running times are measured with.
    pub clock: Clock,
}

/// Shows a run on a terminal while it goes on.
pub struct Live {
    stdout: Stdout,
    /// Where the lines below the answer go: the region is gone by then.
    stderr: Stderr,
    screen: MultiProgress,
    options: LiveOptions,
    /// Top to bottom.
    rows: Vec<Row>,
    units: Units,
    tally: Tally,
    /// When the invocation started; `None` when none is under way.
    started: Option<UnixMillis>,
    /// What main does.
    main_call: Option<LastCall>,
    printed: u32,
    held: Held,
}

/// Lines that wait until a question is answered, so that none tears what is
/// typed.
#[derive(Default)]
struct Held {
    lines: Vec<String>,
    left_out: u32,
}

impl Held {
    fn take(&mut self, line: &str) {
        if self.lines.len() < HELD_CAP {
            self.lines.push(line.to_owned());
        } else {
            self.left_out += 1;
        }
    }
}

/// A row on the screen.
struct Row {
    bar: ProgressBar,
    /// Since when its time counts, for the row's own ticks.
    since: Arc<AtomicU64>,
    shown: RowText,
}

/// What a row says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct RowText {
    /// Cut off at the terminal's width.
    text: String,
    tokens: String,
    since: UnixMillis,
}

impl Live {
    /// The answer to `stdout`, the region to `target`, which is the terminal
    /// that `stderr` writes to.
    #[must_use]
    pub fn new(
        stdout: Stdout,
        stderr: Box<dyn Write + Send>,
        target: ProgressDrawTarget,
        options: LiveOptions,
    ) -> Self {
        Self {
            stdout,
            stderr: Stderr::new(stderr),
            screen: MultiProgress::with_draw_target(target),
            options,
            rows: Vec::new(),
            units: Units::default(),
            tally: Tally::default(),
            started: None,
            main_call: None,
            printed: 0,
            held: Held::default(),
        }
    }

    /// Brings the rows in line with what is known.
    fn draw(&mut self) {
        let started = self.started.filter(|_| !self.units.is_asking());
        let texts = started.map_or_else(Vec::new, |started| self.texts(started));
        while self.rows.len() > texts.len() {
            let row = self.rows.remove(0);
            row.bar.finish_and_clear();
            self.screen.remove(&row.bar);
        }
        for (row, text) in self.rows.iter_mut().zip(&texts) {
            row.show(text);
        }
        for text in texts.into_iter().skip(self.rows.len()) {
            self.rows.push(Row::new(&self.screen, &self.options, text));
        }
    }

    /// Returns what the rows should say, top to bottom: main, if no unit runs or
    /// if its request has to wait, the units that run, and the sums if there are
    /// any.
    fn texts(&self, started: UnixMillis) -> Vec<RowText> {
        let counts = self.units.counts();
        let tokens = tokens(self.tally.total_tokens());
        let sums =
            sums(counts).map(|text| RowText { text, tokens: tokens.clone(), since: started });
        let mut texts = self.unit_texts();
        let main_hold = self.units.hold(UnitId::MAIN);
        if texts.is_empty() || main_hold.is_some() {
            let doing = main_hold.map_or(Doing::Work, Doing::Hold);
            let text = self.line("main", doing, self.main_call.as_ref());
            // The sums have the tokens where there are sums.
            let tokens = if sums.is_none() { tokens } else { String::new() };
            texts.insert(0, RowText { text, tokens, since: started });
        }
        texts.extend(sums);
        texts
    }

    fn unit_texts(&self) -> Vec<RowText> {
        let named: Vec<(String, &Unit)> = self
            .units
            .running()
            .take(ROWS)
            .map(|(id, unit)| (words::unit_name(id, &unit.head), unit))
            .map(|(name, unit)| (words::in_columns(&name, NAME_COLUMNS), unit))
            .collect();
        let width = named.iter().map(|(name, _)| columns_of(name)).max().unwrap_or(0);
        named
            .into_iter()
            .map(|(name, unit)| RowText {
                text: self.line(
                    &words::padded(&name, width),
                    unit.doing(),
                    unit.last_call.as_ref(),
                ),
                tokens: tokens(unit.usage.total()),
                since: unit.started.unwrap_or_default(),
            })
            .collect()
    }

    /// Returns the text of a row: who, in which state, and why or at what.
    fn line(&self, name: &str, doing: Doing, call: Option<&LastCall>) -> String {
        let call = call.map(|call| words::call(&call.tool, &call.subject));
        let (state, what) = match doing {
            Doing::Work => (self.paint(UnitState::Running), call),
            Doing::Wait => (WAITING.to_owned(), call),
            Doing::Hold(hold) => {
                (self.paint(UnitState::Throttled), Some(words::hold(hold.cause, hold.wait_ms)))
            }
        };
        match what {
            Some(what) => format!("{name}  {state}  {what}"),
            None => format!("{name}  {state}"),
        }
    }

    /// Returns a state in words, coloured if colours are on.
    fn paint(&self, state: UnitState) -> String {
        let word = words::state(state);
        let colour = match state {
            UnitState::Running => 36,
            UnitState::Completed => 32,
            UnitState::Failed => 31,
            UnitState::Throttled
            | UnitState::AwaitingApproval
            | UnitState::Cancelled
            | UnitState::Skipped
            | UnitState::Interrupted => 33,
            UnitState::Queued => 90,
        };
        if self.options.colours {
            format!("\u{1b}[{colour}m{word}\u{1b}[0m")
        } else {
            word.to_owned()
        }
    }

    /// Tells whether an event is printed above the region: what main does, what
    /// went wrong, and every end as long as the units fit the rows.
    fn is_printed(&mut self, event: &Event, ended: Option<&Unit>) -> bool {
        match &event.kind {
            EventKind::ToolStarted { .. } | EventKind::Compacted(_) => event.unit == UnitId::MAIN,
            EventKind::Denied { .. } => true,
            EventKind::Lost { .. } => self.has_room(),
            EventKind::FileChanged(_) => false,
            EventKind::Worktree(worktree) => match worktree {
                Worktree::Made { .. } | Worktree::Dropped => false,
                Worktree::Applied { .. } | Worktree::Kept { .. } => true,
            },
            EventKind::HookRan(ran) => words::hook(ran).is_some(),
            EventKind::Notice { level, text: _ } => match level {
                NoticeLevel::Info => event.unit == UnitId::MAIN,
                NoticeLevel::Warning => true,
            },
            EventKind::UnitQueued(head) => head.parent == UnitId::MAIN,
            // Any other answer stands where the question stood, or nobody was asked.
            EventKind::Answered { question, answer, .. } => {
                *answer == Verdict::NobodyToAsk && words::is_told_alone(question, answer)
            }
            EventKind::UnitEnded(end) => is_end_wanted(ended, end) && self.has_room(),
            EventKind::RequestFailed(failed) => match &failed.next {
                AfterFailure::Fallback { .. } => self.has_room(),
                // The rows say it, or what follows.
                AfterFailure::Retry { .. }
                | AfterFailure::Compact
                | AfterFailure::LeaveOut
                | AfterFailure::TooLong
                | AfterFailure::Nothing => false,
            },
            EventKind::SessionOpened(_)
            | EventKind::InvocationStarted { .. }
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { waited_ms: _ }
            | EventKind::UnitStarted
            | EventKind::TurnStarted { .. }
            | EventKind::Replied(_)
            | EventKind::ToolFinished { .. }
            | EventKind::Asked { .. }
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Joined { .. }
            | EventKind::InvocationEnded(_) => false,
        }
    }

    /// Takes one of the lines that may be printed, if there is any left.
    fn has_room(&mut self) -> bool {
        let has_room = self.printed < FATES_PRINTED;
        self.printed += u32::from(has_room);
        has_room
    }

    fn start(&mut self, at: UnixMillis) {
        self.started = Some(at);
        self.main_call = None;
        self.printed = 0;
        // What is printed above an empty region leaves the cursor at the end
        // of its line; so there is a region from the first moment.
        self.draw();
    }

    /// Leaves the end of the screen to a question.
    fn make_way(&mut self) {
        self.draw();
        // As in `print`.
        let _ = self.screen.clear();
    }

    /// Takes the end of the screen back, once no question is open.
    fn come_back(&mut self) -> io::Result<()> {
        if self.units.is_asking() {
            return Ok(());
        }
        self.draw();
        let Held { lines, left_out } = std::mem::take(&mut self.held);
        lines.iter().try_for_each(|line| self.print(line))?;
        match left_out {
            0 => Ok(()),
            _ => self.print(&words::notice(NoticeLevel::Info, &words::lines_left_out(left_out))),
        }
    }

    fn print(&mut self, line: &str) -> io::Result<()> {
        if self.units.is_asking() {
            self.held.take(line);
            return Ok(());
        }
        match self.started {
            // As for `Stderr`: talk that nobody hears ends nothing.
            Some(_) => self.screen.println(line).or(Ok(())),
            None => writeln!(self.stderr, "{line}"),
        }
    }

    fn close(&mut self, end: &InvocationEnd, ending: &Ending) -> io::Result<()> {
        self.started = None;
        self.draw();
        // As above.
        let _ = self.screen.clear();
        self.stdout.answer(&end.text)?;
        for line in words::closing_lines(end, self.units.counts(), ending) {
            writeln!(self.stderr, "{line}")?;
        }
        self.stderr.flush()
    }
}

impl Reporter for Live {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let ended = self.units.take(event);
        let ending = self.tally.take(event);
        if let (EventKind::InvocationEnded(end), Some(ending)) = (&event.kind, ending) {
            return self.close(end, &ending);
        }
        match &event.kind {
            EventKind::InvocationStarted { .. } => self.start(event.at),
            EventKind::ToolStarted { call: _, tool, subject, confinement: _ }
                if event.unit == UnitId::MAIN =>
            {
                self.main_call = Some(LastCall { tool: tool.clone(), subject: subject.clone() });
            }
            EventKind::Asked { .. } => self.make_way(),
            EventKind::Answered { .. } => self.come_back()?,
            EventKind::SessionOpened(_)
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::Compacted(_)
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { waited_ms: _ }
            | EventKind::RequestFailed(_)
            | EventKind::UnitQueued(_)
            | EventKind::UnitStarted
            | EventKind::Lost { .. }
            | EventKind::TurnStarted { .. }
            | EventKind::Replied(_)
            | EventKind::ToolStarted { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { .. }
            | EventKind::UnitEnded(_)
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Joined { .. }
            | EventKind::Notice { .. }
            | EventKind::InvocationEnded(_) => {}
        }
        if self.is_printed(event, ended.as_ref())
            && let Some(line) = line_of(event, &self.units, ended.as_ref())
        {
            self.print(&line)?;
        }
        Ok(())
    }

    fn delta(&mut self, _: &Delta) -> io::Result<()> {
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        self.draw();
        self.stderr.flush()
    }
}

impl Row {
    fn new(screen: &MultiProgress, options: &LiveOptions, text: RowText) -> Self {
        let since = Arc::new(AtomicU64::new(text.since.0));
        // Complete before it is on the screen: from then on it draws itself.
        let bar = ProgressBar::hidden()
            .with_finish(ProgressFinish::AndClear)
            .with_style(style(Arc::clone(&since), Arc::clone(&options.clock)))
            .with_prefix(text.tokens.clone())
            .with_message(text.text.clone());
        let bar = screen.add(bar);
        match options.tick {
            Some(tick) => bar.enable_steady_tick(tick),
            None => bar.tick(),
        }
        Self { bar, since, shown: text }
    }

    fn show(&mut self, text: &RowText) {
        if self.shown == *text {
            return;
        }
        self.since.store(text.since.0, Ordering::Relaxed);
        if self.shown.tokens != text.tokens {
            self.bar.set_prefix(text.tokens.clone());
        }
        // Draws the row also when only its time is another one.
        self.bar.set_message(text.text.clone());
        self.shown = text.clone();
    }
}

/// Returns how a row is laid out: its text up to the width, then the tokens
/// and the running time in columns of their own.
fn style(since: Arc<AtomicU64>, clock: Clock) -> ProgressStyle {
    let write_elapsed = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
        let now = clock();
        let since = UnixMillis(since.load(Ordering::Relaxed));
        // Writing to the row's buffer cannot fail.
        let _ = out.write_str(&words::elapsed(now.since(since)));
    };
    ProgressStyle::with_template("{wide_msg} {prefix:>10} {running_time:>7}")
        .expect("the template is a constant that every run of the tests parses")
        .with_key("running_time", write_elapsed)
}

fn tokens(count: u64) -> String {
    format!("{} tok", short_number(count))
}

/// Tells whether the end of a unit should be seen: a bad one, and every one as
/// long as the units fit the rows.
fn is_end_wanted(ended: Option<&Unit>, end: &UnitEnd) -> bool {
    if ended.is_some_and(|unit| !unit.tells(end)) {
        return false;
    }
    let total = ended.and_then(|unit| unit.head.slot).map_or(1, |slot| slot.total);
    match &end.outcome {
        Outcome::Failed(_) => true,
        Outcome::Done { text: _ } | Outcome::Cancelled { ran: true } | Outcome::Interrupted => {
            total as usize <= ROWS
        }
        Outcome::Cancelled { ran: false } => false,
    }
}

#[cfg(test)]
mod tests {
    use indicatif::TermLike;
    use insta::assert_snapshot;
    use std::sync::Mutex;

    use super::*;
    use crate::event::ThrottleCause;
    use crate::report::StdoutKind;
    use crate::report::story::{Paper, Story, cancelled, done, failed, skipped, tell};

    /// A screen without a bottom: what a terminal shows of what is drawn.
    #[derive(Debug, Clone, Default)]
    struct Screen(Arc<Mutex<Cells>>);

    #[derive(Debug, Default)]
    struct Cells {
        rows: Vec<Vec<char>>,
        row: usize,
        column: usize,
        drawn: usize,
    }

    const WIDTH: usize = 70;

    impl Screen {
        fn text(&self) -> String {
            let cells = self.0.lock().unwrap();
            let rows = cells.rows.iter().map(|row| row.iter().collect::<String>());
            let rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
            rows.join("\n").trim_end().to_owned()
        }

        /// Returns how many characters were drawn.
        fn drawn(&self) -> usize {
            self.0.lock().unwrap().drawn
        }

        fn cursor(&self) -> (usize, usize) {
            let cells = self.0.lock().unwrap();
            (cells.row, cells.column)
        }
    }

    impl Cells {
        fn put(&mut self, character: char) {
            self.drawn += 1;
            match character {
                '\r' => self.column = 0,
                '\n' => self.row += 1,
                _ => {
                    // As on a terminal, the break comes with the character
                    // that no longer fits.
                    if self.column == WIDTH {
                        (self.row, self.column) = (self.row + 1, 0);
                    }
                    if self.rows.len() <= self.row {
                        self.rows.resize(self.row + 1, vec![' '; WIDTH]);
                    }
                    self.rows[self.row][self.column] = character;
                    self.column += 1;
                }
            }
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            WIDTH as u16
        }

        fn height(&self) -> u16 {
            24
        }

        fn move_cursor_up(&self, n: usize) -> io::Result<()> {
            self.0.lock().unwrap().row -= n;
            Ok(())
        }

        fn move_cursor_down(&self, n: usize) -> io::Result<()> {
            self.0.lock().unwrap().row += n;
            Ok(())
        }

        fn move_cursor_right(&self, n: usize) -> io::Result<()> {
            self.0.lock().unwrap().column += n;
            Ok(())
        }

        fn move_cursor_left(&self, n: usize) -> io::Result<()> {
            self.0.lock().unwrap().column -= n;
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)?;
            self.write_str("\r\n")
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            let mut cells = self.0.lock().unwrap();
            text.chars().for_each(|character| cells.put(character));
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            let mut cells = self.0.lock().unwrap();
            let row = cells.row;
            if let Some(row) = cells.rows.get_mut(row) {
                row.fill(' ');
            }
            cells.column = 0;
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Stage {
        screen: Screen,
        stdout: Paper,
        stderr: Paper,
        live: Live,
    }

    /// A live view on an empty screen, at 60 s after the first second of a
    /// story.
    fn stage() -> Stage {
        let (screen, stdout, stderr) = (Screen::default(), Paper::default(), Paper::default());
        let options =
            LiveOptions { colours: false, tick: None, clock: Arc::new(|| UnixMillis(1_060_000)) };
        let live = Live::new(
            Stdout::new(stdout.writer(), StdoutKind::Terminal),
            stderr.writer(),
            ProgressDrawTarget::term_like(Box::new(screen.clone())),
            options,
        );
        Stage { screen, stdout, stderr, live }
    }

    #[test]
    fn running_units_have_a_row_each_and_the_rest_is_summed() {
        let mut story = Story::new();
        story.invocation("go").call(0, "call-1", "Agent", "4 tasks");
        story.batch("call-1", &["correctness", "security", "style", "tests"]).start(1).start(2);
        story.reply(1, "x", 1_000, 200).call(1, "g", "Grep", "\"unwrap\"");
        story.start(3).end(3, failed("boom"));
        let mut stage = stage();
        tell(&mut stage.live, &story);
        assert_snapshot!(stage.screen.text(), @r#"
        Agent 4 tasks
        4 agents queued
        [style] failed: boom
        correctness  running  Grep "unwrap"                   1.2k tok     59s
        security     running                                     0 tok     59s
        2 running, 1 queued, 1 failed                         1.2k tok     59s
        "#);
    }

    #[test]
    fn rows_are_bounded_and_nothing_wraps() {
        let names: Vec<String> =
            (1..=30).map(|n| format!("{n} {}", "long description ".repeat(9))).collect();
        let mut story = Story::new();
        story.invocation("go").batch("c", &names.iter().map(|n| &**n).collect::<Vec<_>>());
        for unit in 1..=10 {
            story.start(unit).call(unit, "b", "Bash", &"cargo test ".repeat(30));
        }
        story.end(1, done("x"));
        let mut stage = stage();
        tell(&mut stage.live, &story);
        assert_snapshot!(stage.screen.text(), @r#"
        30 agents queued
        2 long description long…  running  Bash cargo test       0 tok     56s
        3 long description long…  running  Bash cargo test       0 tok     56s
        4 long description long…  running  Bash cargo test       0 tok     56s
        5 long description long…  running  Bash cargo test       0 tok     56s
        6 long description long…  running  Bash cargo test       0 tok     55s
        7 long description long…  running  Bash cargo test       0 tok     55s
        8 long description long…  running  Bash cargo test       0 tok     55s
        9 long description long…  running  Bash cargo test       0 tok     55s
        9 running, 20 queued, 1 done (1 not shown)               0 tok     59s
        "#);
    }

    #[test]
    fn a_unit_whose_request_waits_says_why_and_how_long() {
        let mut story = Story::new();
        story.invocation("go").batch("c", &["correctness", "security", "style", "tests", "speed"]);
        for unit in 1..=4 {
            story.start(unit).turn(unit, 1);
        }
        story.call(1, "g", "Grep", "\"unwrap\"").call(2, "r", "Read", "src/a.rs");
        story.throttled(2, ThrottleCause::Provider, Some(12_000)).retried(3, 2, Some(503));
        story.throttled(4, ThrottleCause::InFlight, None);
        let mut stage = stage();
        tell(&mut stage.live, &story);
        assert_snapshot!(stage.screen.text(), @r#"
        5 agents queued
        correctness  running  Grep "unwrap"                      0 tok     59s
        security     throttled  provider asked to wait 12 s      0 tok     59s
        style        throttled  retry 2 of 10 in 3 s             5 tok     58s
        tests        throttled  waits for other requests         0 tok     58s
        1 running, 3 throttled, 1 queued                         5 tok     59s
        "#);

        let told = story.events().len();
        story.admitted(2, 12_000).reply(3, "x", 10, 1).admitted(4, 100);
        let next = AfterFailure::Fallback { model: "small".into() };
        story.request_failed(4, 3, Some(529), next);
        story.events()[told..].iter().for_each(|event| stage.live.event(event).unwrap());
        stage.live.pause().unwrap();
        assert_snapshot!(stage.screen.text(), @r#"
        5 agents queued
        [tests] warning: request to `m` failed: the provider said 529; goes on
         with `small`
        correctness  running  Grep "unwrap"                      0 tok     59s
        security     running  Read src/a.rs                      0 tok     59s
        style        running                                    16 tok     58s
        tests        running                                     5 tok     58s
        4 running, 1 queued                                     21 tok     59s
        "#);
    }

    #[test]
    fn main_has_a_row_while_its_request_waits_also_beside_units() {
        let mut story = Story::new();
        story.invocation("go").turn(0, 1).throttled(0, ThrottleCause::Requests, Some(5_500));
        let mut stage = stage();
        tell(&mut stage.live, &story);
        assert_snapshot!(stage.screen.text(), @"main  throttled  requests per minute are used up fo      0 tok     59s");
        let told = story.events().len();
        story.admitted(0, 5_500).batch("c", &["a", "b"]).start(1).retried(0, 1, None);
        story.events()[told..].iter().for_each(|event| stage.live.event(event).unwrap());
        stage.live.pause().unwrap();
        assert_snapshot!(stage.screen.text(), @"
        2 agents queued
        main  throttled  retry 1 of 10 in 3 s                              59s
        a  running                                               0 tok     59s
        1 running, 1 queued                                      5 tok     59s
        ");
    }

    #[test]
    fn waits_between_two_drawings_cost_none() {
        let mut story = Story::new();
        story.invocation("go").batch("c", &["a"]).start(1).turn(1, 1);
        let mut stage = stage();
        tell(&mut stage.live, &story);
        let (told, before) = (story.events().len(), stage.screen.drawn());
        for _ in 0..100 {
            story.throttled(1, ThrottleCause::InFlight, None).admitted(1, 10);
            story.retried(1, 1, Some(429)).admitted(1, 10);
        }
        story.events()[told..].iter().for_each(|event| stage.live.event(event).unwrap());
        assert_eq!(stage.screen.drawn(), before);
    }

    #[test]
    fn main_alone_has_one_row() {
        let mut story = Story::new();
        story.invocation("go").turn(0, 1).reply(0, "x", 5_000, 10);
        story.call(0, "b", "Bash", "cargo test");
        let mut stage = stage();
        tell(&mut stage.live, &story);
        assert_snapshot!(stage.screen.text(), @r#"
        Bash cargo test
        main  running  Bash cargo test                        5.0k tok     59s
        "#);
    }

    #[test]
    fn the_region_is_gone_before_the_answer_is_written() {
        let mut stage = stage();
        tell(&mut stage.live, &Story::batch_of_three());
        assert_snapshot!(stage.screen.text(), @r#"
        Agent 3 tasks
        3 agents queued
        [correctness] done in 3.2 s, 1.2k tokens
        [security] failed: the provider said 500
        "#);
        // The answer starts on a line of its own.
        assert_eq!(stage.screen.cursor(), (4, 0));
        assert_eq!(stage.stdout.text(), "All fine.\n");
        assert_eq!(stage.stderr.text(), "495 tokens\n");
    }

    #[test]
    fn rows_go_as_units_end_and_main_comes_back() {
        let mut story = Story::new();
        story.invocation("go").batch("c", &["a", "b", "c"]).start(1).start(2).start(3);
        let mut stage = stage();
        tell(&mut stage.live, &story);
        let told = story.events().len();
        story.end(2, cancelled()).call(3, "r", "Read", "src/a.rs");
        story.events()[told..].iter().for_each(|event| stage.live.event(event).unwrap());
        stage.live.pause().unwrap();
        assert_snapshot!(stage.screen.text(), @r#"
        3 agents queued
        [b] cancelled
        a  running                                               0 tok     59s
        c  running  Read src/a.rs                                0 tok     59s
        2 running, 1 cancelled                                   0 tok     59s
        "#);

        let told = story.events().len();
        story.end(1, done("x")).end(3, failed("boom"));
        story.events()[told..].iter().for_each(|event| stage.live.event(event).unwrap());
        stage.live.pause().unwrap();
        assert_snapshot!(stage.screen.text(), @r#"
        3 agents queued
        [b] cancelled
        [a] done in 3.2 s, 1.2k tokens
        [c] failed: boom
        main  running                                                      59s
        1 done, 1 failed, 1 cancelled                            0 tok     59s
        "#);
    }

    #[test]
    fn a_bad_end_says_why_below_the_answer() {
        let mut story = Story::new();
        story.invocation("go").batch("c", &["a"]).end(1, skipped());
        story.over_after(failed("no\u{1b}key"), "half", None, &[1]);
        let mut stage = stage();
        tell(&mut stage.live, &story);
        assert_eq!(stage.stdout.text(), "half\n");
        assert_eq!(
            stage.stderr.text(),
            "warning: 1 agent did not finish: agent-1\nerror: no\\u{1b}key\n"
        );
    }

    #[test]
    fn hostile_text_never_reaches_the_screen() {
        const HOSTILE: &str = "a\u{1b}[2J\n\u{9b}H\u{202e}";
        let mut story = Story::new();
        story.invocation("go").call(0, "c", HOSTILE, HOSTILE).batch("c", &[HOSTILE]).start(1);
        story.call(1, "r", "Read", HOSTILE);
        let mut stage = stage();
        tell(&mut stage.live, &story);
        assert!(!stage.screen.text().chars().any(crate::report::sanitise::is_hidden));
        assert_snapshot!(stage.screen.text(), @r#"
        a\u{1b}[2J\n\u{9b}H\u{202e} a\u{1b}[2J\n\u{9b}H\u{202e}
        a\u{1b}[2J\n\u{9b}H\u{2…  running  Read a\u{1b}[2J\      0 tok     59s
        1 running                                                0 tok     59s
        "#);
    }

    #[test]
    fn what_only_holds_the_branch_of_steps_has_no_row_and_is_not_counted() {
        let mut stage = stage();
        tell(&mut stage.live, &Story::angles());
        assert_snapshot!(stage.screen.text(), @r#"
        [security[0]] failed: boom
        [tests] failed: for_each = "x": it gives none, and not a list
        correctness[0]  running                                  0 tok     59s
        1 running, 1 failed                                      0 tok     59s
        "#);
    }

    #[test]
    fn states_have_colours_only_when_asked_for() {
        let mut stage = stage();
        assert_eq!(stage.live.paint(UnitState::Failed), "failed");
        stage.live.options.colours = true;
        assert_eq!(stage.live.paint(UnitState::Failed), "\u{1b}[31mfailed\u{1b}[0m");
        assert_eq!(stage.live.paint(UnitState::Throttled), "\u{1b}[33mthrottled\u{1b}[0m");
    }
}
