//! The run as lines, for pipes and files.
//!
//! What happens goes to standard error as it happens; the answer goes to
//! standard output, alone. Of what goes wrong with requests a unit tells each
//! sort once: in a storm the line at the end has the sums.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use crate::event::{
    AfterFailure, Delta, Event, EventKind, InvocationEnd, Origin, ThrottleCause, UnitEnd, UnitHead,
    UnitId,
};
use crate::run::Reporter;

use super::answer::{Stderr, Stdout};
use super::result::{Ending, Tally};
use super::units::{Hold, HoldCause, Unit, Units};
use super::words;

/// How long a request has to wait at least for its unit to say so, in
/// milliseconds. Shorter waits are what a limit is for.
const LONG_WAIT_MS: u64 = 5_000;

/// Writes what happens as one line each.
pub struct Plain {
    stdout: Stdout,
    stderr: BufWriter<Stderr>,
    units: Units,
    tally: Tally,
    /// What units have told that have not ended.
    told: BTreeMap<UnitId, BTreeSet<Trouble>>,
}

/// The sorts of trouble that a unit tells once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    Throttled(ThrottleCause),
    /// By the status of the answer, if there was one.
    Failed(Option<u16>),
    /// By the model that goes on.
    Fallback(Arc<str>),
}

impl Plain {
    /// The answer to `stdout`, the talk to `stderr`.
    #[must_use]
    pub fn new(stdout: Stdout, stderr: Box<dyn Write + Send>) -> Self {
        Self {
            stdout,
            stderr: BufWriter::new(Stderr::new(stderr)),
            units: Units::default(),
            tally: Tally::default(),
            told: BTreeMap::new(),
        }
    }

    /// Tells whether an event is worth a line. `before` is what the unit's
    /// request waited for until then.
    fn is_worth_a_line(&mut self, event: &Event, before: Option<Hold>) -> bool {
        let trouble = match &event.kind {
            EventKind::Throttled(throttled) => throttled
                .wait_ms
                .filter(|wait| *wait >= LONG_WAIT_MS)
                .map(|_| Trouble::Throttled(throttled.cause)),
            EventKind::Admitted { waited_ms } => before.and_then(|hold| match hold.cause {
                HoldCause::Gate(cause) if *waited_ms >= LONG_WAIT_MS => {
                    Some(Trouble::Throttled(cause))
                }
                HoldCause::Gate(_) | HoldCause::Retry { .. } => None,
            }),
            EventKind::RequestFailed(failed) => match &failed.next {
                AfterFailure::Retry { .. } => Some(Trouble::Failed(failed.status)),
                AfterFailure::Fallback { model } => Some(Trouble::Fallback(Arc::clone(model))),
                // What follows says it: a compaction, an end.
                AfterFailure::Compact
                | AfterFailure::LeaveOut
                | AfterFailure::TooLong
                | AfterFailure::Nothing => None,
            },
            EventKind::SessionOpened(_)
            | EventKind::InvocationStarted { .. }
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::Compacted(_)
            | EventKind::UnitQueued(_)
            | EventKind::UnitStarted
            | EventKind::Lost { .. }
            | EventKind::TurnStarted { .. }
            | EventKind::PrefixShared(_)
            | EventKind::Replied(_)
            | EventKind::ToolStarted { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { .. }
            | EventKind::Asked { .. }
            | EventKind::Answered { .. }
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
            | EventKind::InvocationEnded(_) => return true,
        };
        trouble.is_some_and(|trouble| self.told.entry(event.unit).or_default().insert(trouble))
    }

    fn close(&mut self, end: &InvocationEnd, ending: &Ending) -> io::Result<()> {
        // In this order, so that on one screen the answer stands below the
        // talk and the error below the answer.
        self.stderr.flush()?;
        self.stdout.answer(&end.text)?;
        for line in words::closing_lines(end, self.units.counts(), ending) {
            writeln!(self.stderr, "{line}")?;
        }
        self.stderr.flush()
    }
}

impl Reporter for Plain {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let before = self.units.hold(event.unit);
        let ended = self.units.take(event);
        let ending = self.tally.take(event);
        if let (EventKind::InvocationEnded(end), Some(ending)) = (&event.kind, ending) {
            self.told.remove(&UnitId::MAIN);
            return self.close(end, &ending);
        }
        if ended.is_some() {
            self.told.remove(&event.unit);
        }
        if !self.is_worth_a_line(event, before) {
            return Ok(());
        }
        match line_of(event, &self.units, ended.as_ref()) {
            Some(line) => writeln!(self.stderr, "{line}"),
            None => Ok(()),
        }
    }

    fn delta(&mut self, _: &Delta) -> io::Result<()> {
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        self.stderr.flush()
    }
}

/// Returns the line for an event, if it has one. `ended` is what was known of
/// a unit that the event ended.
pub(super) fn line_of(event: &Event, units: &Units, ended: Option<&Unit>) -> Option<String> {
    let name = |unit| units.get(unit).map(|known| words::unit_name(unit, &known.head));
    let line = match &event.kind {
        EventKind::UnitQueued(head) => {
            return batch_line(head, units.to_run(), name(head.parent));
        }
        EventKind::UnitStarted => started(&units.get(event.unit)?.head)?,
        EventKind::Lost { worker, attempt } => words::lost(worker, *attempt),
        EventKind::ToolStarted { call: _, tool, subject, confinement: _ } => {
            words::call(tool, subject)
        }
        EventKind::ToolFinished { output, .. } if output.images.is_empty() => return None,
        EventKind::ToolFinished { call: _, tool, output, took_ms: _ } => {
            format!("{} shows {}", words::call(tool, ""), words::images(&output.images))
        }
        EventKind::Worktree(worktree) => words::worktree(worktree),
        EventKind::HookRan(ran) => words::hook(ran)?,
        EventKind::Denied { call: _, tool, arguments: _, reason } => words::denied(tool, reason),
        EventKind::Answered { id: _, question, answer } => {
            words::is_told_alone(question, answer).then(|| words::answered(question, answer))?
        }
        EventKind::Notice { level, text } => words::notice(*level, text),
        EventKind::Compacted(compaction) => words::compaction(compaction),
        EventKind::Throttled(throttled) => words::throttled(throttled),
        EventKind::Admitted { waited_ms } => words::admitted(*waited_ms),
        EventKind::RequestFailed(failed) => match &failed.next {
            AfterFailure::Fallback { .. } => format!("warning: {}", words::request_failed(failed)),
            AfterFailure::Retry { .. }
            | AfterFailure::Compact
            | AfterFailure::LeaveOut
            | AfterFailure::TooLong
            | AfterFailure::Nothing => words::request_failed(failed),
        },
        EventKind::UnitEnded(end) => return end_line(event.unit, ended?, end),
        EventKind::SessionOpened(_)
        | EventKind::InvocationStarted { .. }
        | EventKind::Prompted(_)
        | EventKind::Notified { .. }
        | EventKind::PrefixShared(_)
        | EventKind::TurnStarted { .. }
        | EventKind::Replied(_)
        | EventKind::FileChanged(_)
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
        | EventKind::InvocationEnded(_) => return None,
    };
    Some(match (event.unit, name(event.unit)) {
        (UnitId::MAIN, _) => line,
        (_, Some(name)) => format!("[{name}] {line}"),
        (unit, None) => format!("[{unit}] {line}"),
    })
}

/// Says that a unit runs; nothing of one that asks no model.
fn started(head: &UnitHead) -> Option<String> {
    head.origin.asks().then(|| format!("started ({})", words::short_line(&head.agent, 40)))
}

fn end_line(unit: UnitId, known: &Unit, end: &UnitEnd) -> Option<String> {
    let name = words::unit_name(unit, &known.head);
    let line = match known.head.origin {
        Origin::Reused(before) => format!("[{name}] ended before, as {before}: not run again"),
        Origin::Prompt | Origin::Visible | Origin::Fork | Origin::Continued(_) | Origin::Steps => {
            format!("[{name}] {}", words::unit_end(end))
        }
    };
    known.tells(end).then_some(line)
}

/// Returns the line that announces a batch: one, with its last slot, for only
/// then is known how many of them have a model to ask. A single one needs none,
/// since its start follows.
fn batch_line(head: &UnitHead, to_run: u32, parent: Option<String>) -> Option<String> {
    let is_last = head.slot.is_some_and(|slot| slot.index + 1 == slot.total);
    if !is_last || head.again.is_some() || to_run < 2 {
        return None;
    }
    let queued = format!("{} queued", words::agents(to_run.into()));
    Some(match parent {
        Some(parent) => format!("[{parent}] {queued}"),
        None => queued,
    })
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::event::{CancelReason, NoticeLevel};
    use crate::report::StdoutKind;
    use crate::report::story::{BrokenPipe, Paper, Story, cancelled, done, failed, skipped, tell};

    /// Returns what a story writes to standard output and standard error.
    fn told(story: &Story, kind: StdoutKind) -> (String, String) {
        let (stdout, stderr) = (Paper::default(), Paper::default());
        tell(&mut Plain::new(Stdout::new(stdout.writer(), kind), stderr.writer()), story);
        (stdout.text(), stderr.text())
    }

    #[test]
    fn the_talk_tells_every_unit_and_the_answer_stands_alone() {
        let (stdout, stderr) = told(&Story::batch_of_three(), StdoutKind::Other);
        assert_eq!(stdout, "All fine.\n");
        assert_snapshot!(stderr, @"
        Agent 3 tasks
        3 agents queued
        [correctness] started (reviewer)
        [security] started (reviewer)
        [correctness] Read src/a.rs
        [correctness] done in 3.2 s, 1.2k tokens
        [security] failed: the provider said 500
        [style] never started
        495 tokens
        ");
    }

    #[test]
    fn a_failed_a_cancelled_and_a_skipped_slot_say_what_became_of_them() {
        let mut story = Story::new();
        story.invocation("go").batch("call-1", &["a", "b", "c"]).start(1).start(2);
        story.end(1, failed("boom")).end(2, cancelled()).end(3, skipped());
        story.over_after(cancelled(), "so far", Some(CancelReason::Interrupt), &[2, 3]);
        let (stdout, stderr) = told(&story, StdoutKind::Other);
        assert_eq!(stdout, "so far\n");
        assert_snapshot!(stderr, @r#"
        3 agents queued
        [a] started (reviewer)
        [b] started (reviewer)
        [a] failed: boom
        [b] cancelled
        [c] never started
        agents: 1 failed, 1 cancelled, 1 never started
        warning: 2 agents did not finish: agent-2, agent-3
        error: interrupted
        "#);
    }

    #[test]
    fn an_image_that_a_model_is_shown_is_told_without_its_bytes() {
        let mut story = Story::new();
        story.invocation("go").queue("look", "c", None).start(1);
        story.call(1, "r", "Read", "a.png").shows(1, "r", "a.png: image/png, 5 x 3 pixels", &[90]);
        let (_, stderr) = told(&story, StdoutKind::Other);
        assert_snapshot!(stderr, @r#"
        [look] started (reviewer)
        [look] Read a.png
        [look] Read shows image/png 90 bytes
        "#);
    }

    #[test]
    fn notices_and_refusals_are_told() {
        let mut story = Story::new();
        story.invocation("go").notice(NoticeLevel::Warning, "the cap is 1").queue("fix", "c", None);
        story.start(1).denied(1, "call-2", "Bash", "a rule denies `rm`");
        story.notice(NoticeLevel::Info, "done soon").over(failed("no more\ntokens"), "");
        let (stdout, stderr) = told(&story, StdoutKind::Other);
        assert_eq!(stdout, "");
        assert_snapshot!(stderr, @"
        warning: the cap is 1
        [fix] started (reviewer)
        [fix] denied Bash: a rule denies `rm`
        note: done soon
        1 call was denied
        error: no more
        tokens
        ");
    }

    #[test]
    fn a_retry_a_long_wait_and_another_model_are_told() {
        let mut story = Story::new();
        story.invocation("go").turn(0, 1).retried(0, 1, Some(529)).admitted(0, 3_000);
        story.reply(0, "x", 1_000, 10).batch("c", &["a", "b"]).start(1).start(2);
        story.throttled(1, ThrottleCause::Provider, Some(12_000)).admitted(1, 12_000);
        story.throttled(1, ThrottleCause::Tokens, Some(400)).admitted(1, 400);
        story.throttled(2, ThrottleCause::InFlight, None).admitted(2, 42_000);
        let next = AfterFailure::Fallback { model: "small".into() };
        story.request_failed(2, 11, Some(503), next);
        story.request_failed(1, 1, Some(400), AfterFailure::Compact);
        story.end(1, done("x")).request_failed(2, 1, Some(401), AfterFailure::Nothing);
        story.end(2, failed("the provider said 401")).over(done("x"), "x");
        let (_, stderr) = told(&story, StdoutKind::Other);
        assert_snapshot!(stderr, @"
        request to `m` failed: the provider said 529; retry 1 of 10 in 3 s
        2 agents queued
        [a] started (reviewer)
        [b] started (reviewer)
        [a] throttled: provider asked to wait 12 s (`m`)
        [b] request waited 42.0 s
        [b] warning: request to `m` failed: the provider said 503; goes on with `small`
        [a] done in 3.2 s, 1.2k tokens
        [b] failed: the provider said 401
        1.0k tokens, 1 retry, requests waited 57.4 s in all
        ");
    }

    #[test]
    fn in_a_storm_each_unit_tells_each_sort_of_trouble_once() {
        let mut story = Story::new();
        story.invocation("go").batch("c", &["a", "b"]).start(1).start(2);
        for attempt in 1..=50 {
            for unit in [1, 2] {
                story.retried(unit, attempt, Some(429)).admitted(unit, 3_000);
                story.throttled(unit, ThrottleCause::Provider, Some(9_000)).admitted(unit, 9_000);
            }
        }
        story.retried(1, 51, None).end(1, done("x")).end(2, done("x")).over(done("x"), "x");
        let (_, stderr) = told(&story, StdoutKind::Other);
        assert_snapshot!(stderr, @"
        2 agents queued
        [a] started (reviewer)
        [b] started (reviewer)
        [a] request to `m` failed: the provider said 429; retry 1 of 10 in 3 s
        [a] throttled: provider asked to wait 9 s (`m`)
        [b] request to `m` failed: the provider said 429; retry 1 of 10 in 3 s
        [b] throttled: provider asked to wait 9 s (`m`)
        [a] request to `m` failed: the answer broke off; retry 51 of 10 in 3 s
        [a] done in 3.2 s, 1.2k tokens
        [b] done in 3.2 s, 1.2k tokens
        505 tokens, 101 retries, requests waited 20m 00s in all
        ");
    }

    #[test]
    fn the_answer_ends_in_exactly_one_line_break() {
        for answer in ["x", "x\n", "x\n\n\r\n"] {
            let mut story = Story::new();
            story.invocation("go").over(done(answer), answer);
            assert_eq!(told(&story, StdoutKind::Other).0, "x\n");
        }
    }

    #[test]
    fn hostile_text_never_reaches_a_terminal() {
        const HOSTILE: &str = "a\u{1b}]0;t\u{7}\n\u{9b}2J\u{202e}\u{e0041}";
        let mut story = Story::new();
        story.invocation("go").notice(NoticeLevel::Warning, HOSTILE).batch("c", &[HOSTILE]);
        story.start(1).call(1, "r", HOSTILE, HOSTILE).denied(1, "d", HOSTILE, HOSTILE);
        story.end(1, failed(HOSTILE)).over(failed(HOSTILE), HOSTILE);
        let (stdout, stderr) = told(&story, StdoutKind::Terminal);
        assert_eq!(stdout, "a\\u{1b}]0;t\\u{7}\n\\u{9b}2J\\u{202e}\\u{e0041}\n");
        assert_snapshot!(stderr, @r#"
        warning: a\u{1b}]0;t\u{7}\n\u{9b}2J\u{202e}\u{e0041}
        [a\u{1b}]0;t\u{7}\n\u{9b}2J\u{202e}\u{e0…] started (reviewer)
        [a\u{1b}]0;t\u{7}\n\u{9b}2J\u{202e}\u{e0…] a\u{1b}]0;t\u{7}\n\u{9b}2J\u{202e}\u{e0… a\u{1b}]0;t\u{7}\n\u{9b}2J\u{202e}\u{e0041}
        [a\u{1b}]0;t\u{7}\n\u{9b}2J\u{202e}\u{e0…] denied a\u{1b}]0;t\u{7}\n\u{9b}2J\u{202e}\u{e0…: a\u{1b}]0;t\u{7}\n\u{9b}2J\u{202e}\u{e0041}
        [a\u{1b}]0;t\u{7}\n\u{9b}2J\u{202e}\u{e0…] failed: a\u{1b}]0;t\u{7}\n\u{9b}2J\u{202e}\u{e0041}
        1 call was denied
        error: a\u{1b}]0;t\u{7}
        \u{9b}2J\u{202e}\u{e0041}
        "#);
        assert!(!stderr.chars().any(crate::report::sanitise::is_hidden));
    }

    #[test]
    fn a_pipe_gets_the_answer_byte_for_byte() {
        let mut story = Story::new();
        story.invocation("go").over(done("\u{1b}[1mx"), "\u{1b}[1mx");
        assert_eq!(told(&story, StdoutKind::Other).0, "\u{1b}[1mx\n");
    }

    #[test]
    fn nothing_is_flushed_between_pauses() {
        let stderr = Paper::default();
        let stdout = Stdout::new(Paper::default().writer(), StdoutKind::Other);
        let mut plain = Plain::new(stdout, stderr.writer());
        let mut story = Story::new();
        story.invocation("go").batch("c", &["a", "b"]).start(1).start(2);
        for event in story.events() {
            plain.event(event).unwrap();
        }
        assert_eq!((stderr.flushes(), stderr.text()), (0, String::new()));
        plain.pause().unwrap();
        assert_eq!(stderr.flushes(), 1);
        assert_eq!(
            stderr.text(),
            "2 agents queued\n[a] started (reviewer)\n[b] started (reviewer)\n"
        );
    }

    #[test]
    fn a_broken_pipe_is_an_error_and_no_panic() {
        let stdout = Stdout::new(Box::new(BrokenPipe), StdoutKind::Other);
        let mut plain = Plain::new(stdout, Paper::default().writer());
        let mut story = Story::new();
        story.over(done("x"), "x");
        let error = plain.event(&story.events()[0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_step_that_ended_before_is_not_said_to_run_or_to_wait() {
        let mut story = Story::new();
        story.steps(0, Origin::Reused(UnitId(7)), &["plan", "look"]);
        story.start(1).end(1, done("all")).start(2).end(2, done("all"));
        let (_, stderr) = told(&story, StdoutKind::Other);
        assert_snapshot!(stderr, @"
        [plan] ended before, as agent-7: not run again
        [look] ended before, as agent-7: not run again
        ");
    }

    #[test]
    fn what_only_holds_the_branch_of_steps_is_no_agent_and_its_failure_is_told_once() {
        let mut story = Story::angles();
        story.steps(1, Origin::Prompt, &["more[0]", "more[1]"]).start(6).end(6, done("x"));
        story.end(4, cancelled()).end(7, skipped()).end(1, cancelled());
        story.over_after(cancelled(), "", Some(CancelReason::Interrupt), &[]);
        let (_, stderr) = told(&story, StdoutKind::Other);
        assert_snapshot!(stderr, @r#"
        [correctness[0]] started (reviewer)
        [security[0]] started (reviewer)
        [security[0]] failed: boom
        [tests] failed: for_each = "x": it gives none, and not a list
        [correctness] 2 agents queued
        [more[0]] started (reviewer)
        [more[0]] done in 3.2 s, 1.2k tokens
        [correctness[0]] cancelled
        [more[1]] never started
        agents: 1 done, 1 failed, 1 cancelled, 1 never started
        error: interrupted
        "#);
    }
}
