//! A session's log as text for people.
//!
//! Each event that says something gets a line: how long after the first one it
//! happened, in which unit, what. What was said stands below it, indented;
//! arguments and outputs are cut, since the log itself has them whole.

use std::borrow::Borrow;
use std::io::{self, Write};

use crate::event::{
    Event, EventKind, Invocation, InvocationEnd, Origin, PrefixShare, Replied, Seq, SessionHead,
    UnitHead, UnitId, UnixMillis,
};
use crate::message::{Output, Reply};

use super::result::{Ending, Tally};
use super::unfinished::{Progress, Writer, unfinished_lines};
use super::units::{Counts, Unit, Units};
use super::viewer::View;
use super::{sanitise, words};

/// Most characters of a call's arguments.
const ARGUMENTS_CAP: usize = 200;

/// Most lines of an output. The first ones say what it is; the rest is in the
/// log.
const OUTPUT_LINES: usize = 6;

/// Most characters of each of these lines.
const OUTPUT_COLUMNS: usize = 200;

/// Writes the events of a log, oldest first, as text: those that `view` sees,
/// and below them what is unfinished, whoever sees it.
///
/// # Errors
///
/// Fails as soon as `out` does.
pub fn transcript(
    events: impl Iterator<Item = impl Borrow<Event>>,
    view: &View,
    writer: Writer,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut first = None;
    let mut units = Units::default();
    let mut tally = Tally::default();
    let mut progress = Progress::default();
    for event in events {
        let event = event.borrow();
        progress.take(event);
        let ended = units.take(event);
        let ending = tally.take(event);
        let start = *first.get_or_insert(event.at);
        if view.sees(event) {
            let name = name(event.unit, &units, ended.as_ref());
            let line = Entry { start, event, name, counts: units.counts(), ending };
            line.write(out)?;
        }
    }
    for line in progress.unfinished().iter().flat_map(|left| unfinished_lines(left, writer)) {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

/// An event and what stands in front of it.
struct Entry<'a> {
    start: UnixMillis,
    event: &'a Event,
    name: String,
    /// The units so far.
    counts: Counts,
    /// What the event ended.
    ending: Option<Ending>,
}

impl Entry<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.event.kind {
            EventKind::SessionOpened(head) => self.line(&session(head), out),
            EventKind::InvocationStarted { .. } => self.invocation_started(out),
            EventKind::Prompted(prompt) => self.said("prompt", &words::prompt(prompt), out),
            EventKind::Notified { children: _, text, wrote: _ } => self.said("news", text, out),
            EventKind::UserWrote { text } => {
                self.said("the user wrote, to be read at the next turn", text, out)
            }
            EventKind::UserTookBack => self.line(words::TOOK_BACK, out),
            EventKind::Offered(offered) => self.line(&words::offered(offered), out),
            EventKind::Compacted(compaction) => {
                self.said(&words::compaction(compaction), &compaction.text, out)
            }
            EventKind::PrefixShared(share) => self.prefix_shared(*share, out),
            EventKind::Throttled(throttled) => self.line(&words::throttled(throttled), out),
            EventKind::Admitted { waited_ms } => self.line(&words::admitted(*waited_ms), out),
            EventKind::RequestFailed(failed) => self.line(&words::request_failed(failed), out),
            EventKind::UnitQueued(head) => self.line(&queued(head), out),
            EventKind::UnitStarted => self.line("started", out),
            EventKind::Lost { worker, attempt } => self.line(&words::lost(worker, *attempt), out),
            EventKind::TurnStarted { turn } => self.line(&format!("turn {turn}"), out),
            EventKind::Replied(replied) => self.replied(replied, out),
            EventKind::ToolStarted { call: _, tool, subject, confinement } => {
                self.line(&words::started(tool, subject, *confinement), out)
            }
            EventKind::FileChanged(change) => {
                let Seq(seq) = self.event.seq;
                self.line(&format!("#{seq} {}", words::file_changed(change)), out)
            }
            EventKind::Worktree(worktree) => self.line(&words::worktree(worktree), out),
            EventKind::HookRan(ran) => self.line(&words::hook_ran(ran), out),
            EventKind::ToolFinished { call: _, tool, output, took_ms } => {
                let end = if output.is_error { "gave an error" } else { "ended" };
                let tool = words::call(tool, "");
                let took = words::duration(*took_ms);
                self.line(&format!("{tool} {end} after {took}"), out)?;
                excerpt(output, out)
            }
            EventKind::Denied { call: _, tool, arguments: _, reason } => {
                self.line(&words::denied(tool, reason), out)
            }
            EventKind::Asked { id: _, question } => {
                self.line(&format!("asks: {}", words::question(question)), out)
            }
            EventKind::Answered { id: _, question, answer } => {
                self.line(&words::answered(question, answer), out)
            }
            EventKind::UnitEnded(end) => self.line(&words::unit_end(end), out),
            EventKind::SetAside { units } => self.line(&words::set_aside(units), out),
            EventKind::Rewound { to } => self.line(&words::rewound(*to), out),
            EventKind::Walked(head) => self.line(&words::walked(head), out),
            EventKind::Joined { children } => {
                self.line(&format!("joined {}", words::agents(children.len() as u64)), out)
            }
            EventKind::Notice { level, text } => self.line(&words::notice(*level, text), out),
            EventKind::InvocationEnded(end) => self.invocation_ended(end, out),
            EventKind::Chosen(chosen) => self.line(&words::chosen(chosen), out),
            EventKind::Left => self.line("left the session", out),
        }
    }

    fn replied(&self, replied: &Replied, out: &mut dyn Write) -> io::Result<()> {
        let tokens = words::tokens(replied.usage.total());
        let took = words::duration(replied.took_ms);
        self.line(&format!("reply in {took}, {tokens}"), out)?;
        reply(&replied.reply, out)
    }

    fn invocation_started(&self, out: &mut dyn Write) -> io::Result<()> {
        let Event { seq: Seq(seq), invocation: Invocation(invocation), .. } = self.event;
        self.line(&format!("#{seq} invocation {invocation}"), out)
    }

    fn prefix_shared(&self, share: PrefixShare, out: &mut dyn Write) -> io::Result<()> {
        let PrefixShare { shared_bytes, total_bytes } = share;
        let line = format!("shared {shared_bytes} of {total_bytes} bytes with its parent");
        self.line(&line, out)
    }

    fn invocation_ended(&self, end: &InvocationEnd, out: &mut dyn Write) -> io::Result<()> {
        let state = words::state(end.outcome.state());
        self.line(&format!("invocation {} {state}", self.event.invocation.0), out)?;
        let Some(ending) = &self.ending else { return Ok(()) };
        let lines = words::closing_lines(end, self.counts, ending);
        lines.iter().try_for_each(|line| body(line, out))
    }

    /// Writes a line and below it what was said.
    fn said(&self, line: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
        self.line(line, out)?;
        body(text, out)
    }

    fn line(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        let offset = words::duration(self.event.at.since(self.start));
        writeln!(out, "{offset:>8}  {}  {text}", self.name)
    }
}

fn name(unit: UnitId, units: &Units, ended: Option<&Unit>) -> String {
    match units.get(unit).or(ended) {
        Some(known) => format!("{unit} ({})", words::unit_name(unit, &known.head)),
        None => unit.to_string(),
    }
}

fn session(head: &SessionHead) -> String {
    let SessionHead { session, version, cwd, model, mode, forked_from, sandbox: _ } = head;
    let origin = forked_from.as_ref().map(|origin| format!(", forked from {origin}"));
    let origin = origin.unwrap_or_default();
    let line =
        format!("session {session} in {cwd}, model {model}, mode {mode}, tine {version}{origin}");
    words::short_line(&line, OUTPUT_COLUMNS)
}

fn queued(head: &UnitHead) -> String {
    let agent = words::short_line(&head.agent, OUTPUT_COLUMNS);
    let mut line = format!("queued ({agent})");
    if let Some(slot) = head.slot {
        line.push_str(&format!(", slot {} of {}", slot.index + 1, slot.total));
    }
    if let Some(before) = head.again {
        line.push_str(&format!(", in the place of {before}"));
    }
    if head.is_background {
        line.push_str(", in the background");
    }
    match head.origin {
        Origin::Prompt | Origin::Visible | Origin::Fork | Origin::Steps => line,
        Origin::Reused(unit) => format!("{line}, with the answer of {unit}"),
        Origin::Continued(unit) => format!("{line}, goes on from {unit}"),
    }
}

fn reply(reply: &Reply, out: &mut dyn Write) -> io::Result<()> {
    if !reply.thinking.trim().is_empty() {
        writeln!(out, "{INDENT}(thinking)")?;
        body(&reply.thinking, out)?;
    }
    if !reply.text.trim().is_empty() {
        body(&reply.text, out)?;
    }
    for call in &reply.calls {
        let tool = words::call(&call.tool, "");
        let arguments = words::short_line(&call.arguments, ARGUMENTS_CAP);
        writeln!(out, "{INDENT}→ {tool} {arguments}")?;
    }
    Ok(())
}

/// What stands in front of what was said.
const INDENT: &str = "          | ";

fn body(text: &str, out: &mut dyn Write) -> io::Result<()> {
    for line in sanitise::text(text.trim_end()).lines() {
        writeln!(out, "{INDENT}{line}")?;
    }
    Ok(())
}

fn excerpt(output: &Output, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = output.text.trim_end().lines();
    for line in lines.by_ref().take(OUTPUT_LINES) {
        writeln!(out, "{INDENT}{}", words::short_line(line, OUTPUT_COLUMNS))?;
    }
    match lines.count() {
        0 => {}
        1 => writeln!(out, "{INDENT}… 1 more line")?,
        rest => writeln!(out, "{INDENT}… {rest} more lines")?,
    }
    match &output.images[..] {
        [] => Ok(()),
        images => writeln!(out, "{INDENT}({})", words::images(images)),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::event::{AfterFailure, SessionId, ThrottleCause};
    use crate::message::Usage;
    use crate::report::story::{Story, call_of, done, failed, paid};
    use crate::report::viewer::Viewer;

    fn written(story: &Story) -> String {
        let mut out = Vec::new();
        transcript(story.events().iter(), &View::Everything, Writer::Gone, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_log_reads_from_top_to_bottom() {
        let mut story = Story::new();
        let head = SessionHead {
            session: SessionId("0190-5".into()),
            version: "0.1.0".into(),
            cwd: "/repo".into(),
            model: "m".into(),
            mode: "default".into(),
            forked_from: None,
            sandbox: None,
        };
        story.push(0, EventKind::SessionOpened(head)).invocation("review");
        story.push(0, EventKind::Prompted("review\nall of it\n".into()));
        let rest = Story::batch_of_three();
        for event in &rest.events()[1..] {
            story.push(event.unit.0, event.kind.clone());
        }
        assert_snapshot!(written(&story), @r#"
          0 ms  main  session 0190-5 in /repo, model m, mode default, tine 0.1.0
        100 ms  main  #2 invocation 1
        200 ms  main  prompt
                | review
                | all of it
        300 ms  main  turn 1
        400 ms  main  reply in 50 ms, 110 tokens
                | → Agent {"tasks":[1,2,3]}
        500 ms  main  Agent 3 tasks
        600 ms  agent-1 (correctness)  queued (reviewer), slot 1 of 3
        700 ms  agent-2 (security)  queued (reviewer), slot 2 of 3
        800 ms  agent-3 (style)  queued (reviewer), slot 3 of 3
        900 ms  agent-1 (correctness)  started
         1.0 s  agent-1 (correctness)  turn 1
         1.1 s  agent-2 (security)  started
         1.2 s  agent-2 (security)  turn 1
         1.3 s  agent-1 (correctness)  reply in 50 ms, 220 tokens
                | secret thoughts of a slot
                | → Read {"path":"src/a.rs"}
         1.4 s  agent-1 (correctness)  Read src/a.rs
         1.5 s  agent-1 (correctness)  Read ended after 20 ms
                | fn a() {}
         1.6 s  agent-1 (correctness)  done in 3.2 s, 1.2k tokens
         1.7 s  agent-2 (security)  failed: the provider said 500
         1.8 s  agent-3 (style)  never started
         1.9 s  main  Agent ended after 20 ms
                | 1 of 3 completed
         2.0 s  main  turn 2
         2.1 s  main  reply in 50 ms, 165 tokens
                | All fine.
         2.2 s  main  invocation 1 done
                | 495 tokens
        "#);
    }

    #[test]
    fn what_the_user_does_meanwhile_stands_where_it_happened() {
        let wrote = |text: &str| EventKind::UserWrote { text: text.into() };
        let mut story = Story::new();
        story.invocation("go").batch("c", &["a", "b"]).push(0, wrote("also b\nand c"));
        story.push(0, EventKind::UserTookBack);
        story.push(0, EventKind::SetAside { units: vec![UnitId(1), UnitId(2)] });
        story.over(done("x"), "x").push(0, EventKind::Rewound { to: Seq(1) });
        story.end(1, done("x")).end(2, done("x")).push(0, EventKind::Left);
        assert_snapshot!(written(&story), @"
          0 ms  main  #1 invocation 1
        100 ms  agent-1 (a)  queued (reviewer), slot 1 of 2
        200 ms  agent-2 (b)  queued (reviewer), slot 2 of 2
        300 ms  main  the user wrote, to be read at the next turn
                | also b
                | and c
        400 ms  main  what the user wrote and was not read yet is taken back
        500 ms  main  2 agents set aside: from here on in the background
        600 ms  main  invocation 1 done
        700 ms  main  the conversation is what it was after event 1
        800 ms  agent-1 (a)  done in 3.2 s, 1.2k tokens
        900 ms  agent-2 (b)  done in 3.2 s, 1.2k tokens
         1.0 s  main  left the session
        ");
    }

    #[test]
    fn an_image_is_named_and_not_shown() {
        let mut story = Story::new();
        story.invocation("go").shows(0, "c", "two of them", &[90, 120_000]).over(done("ok"), "ok");
        assert_snapshot!(written(&story), @"
          0 ms  main  #1 invocation 1
        100 ms  main  Read ended after 20 ms
                | two of them
                | (image/png 90 bytes, image/png 120 kB)
        200 ms  main  invocation 1 done
        ");
    }

    #[test]
    fn what_happens_to_a_request_stands_where_it_happened() {
        let mut story = Story::new();
        story.invocation("go").turn(0, 1).throttled(0, ThrottleCause::Provider, Some(1_500));
        story.admitted(0, 1_600).retried(0, 1, Some(503)).admitted(0, 3_000);
        story.request_failed(0, 2, None, AfterFailure::Fallback { model: "small".into() });
        let reply = Reply { text: "x".to_owned(), ..Reply::default() };
        story.replied_by(0, "small", reply, paid(900, 30, 7)).over(done("x"), "x");
        assert_snapshot!(written(&story), @"
          0 ms  main  #1 invocation 1
        100 ms  main  turn 1
        200 ms  main  throttled: provider asked to wait 2 s (`m`)
        300 ms  main  request waited 1.6 s
        400 ms  main  request to `m` failed: the provider said 503; retry 1 of 10 in 3 s
        500 ms  main  request waited 3.0 s
        600 ms  main  request to `m` failed: the answer broke off; goes on with `small`
        700 ms  main  reply in 50 ms, 930 tokens
                | x
        800 ms  main  invocation 1 done
                | 940 tokens, $0.0700, 1 retry, requests waited 4.6 s in all
        ");
    }

    #[test]
    fn long_outputs_and_arguments_are_cut_and_hostile_text_is_shown() {
        let mut story = Story::new();
        let lines: Vec<String> = (1..=9).map(|n| format!("line {n}\u{1b}[2J")).collect();
        let calls = vec![call_of("c", "Bash\u{9b}", &"x".repeat(500))];
        let reply = Reply { thinking: "hm\u{202e}".to_owned(), calls, ..Reply::default() };
        story.invocation("go").replied(0, reply, Usage::default());
        story.output(0, "c", "Bash", &lines.join("\n")).over(failed("a\u{7}b"), "");
        let text = written(&story);
        assert_snapshot!(text.replace(&"x".repeat(199), "[199 x]"), @r#"
          0 ms  main  #1 invocation 1
        100 ms  main  reply in 50 ms, 0 tokens
                | (thinking)
                | hm\u{202e}
                | → Bash\u{9b} [199 x]…
        200 ms  main  Bash ended after 20 ms
                | line 1\u{1b}[2J
                | line 2\u{1b}[2J
                | line 3\u{1b}[2J
                | line 4\u{1b}[2J
                | line 5\u{1b}[2J
                | line 6\u{1b}[2J
                | … 3 more lines
        300 ms  main  invocation 1 failed
                | error: a\u{7}b
        "#);
    }

    #[test]
    fn a_strand_is_shown_alone_and_what_is_unfinished_always() {
        let mut story = Story::new();
        story.invocation("go").batch("c", &["a", "b", "c"]).start(1).start(2).end(1, done("x"));
        let shown = |viewer: &str| {
            let view = Viewer::parse(viewer).unwrap().view(story.events().iter()).unwrap();
            let mut out = Vec::new();
            transcript(story.events().iter(), &view, Writer::Gone, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_snapshot!(shown("2"), @r"
            0 ms  main  #1 invocation 1
          200 ms  agent-2 (b)  queued (reviewer), slot 2 of 3
          500 ms  agent-2 (b)  started
        interrupted: 1 done, 1 cut off (b), 1 never started (c)
        ");
        assert_eq!(shown("").lines().count(), 2);
    }

    #[test]
    fn an_empty_log_is_an_empty_text() {
        assert_eq!(written(&Story::new()), "");
        let mut story = Story::new();
        story.invocation("go").over(done("x"), "x");
        assert_eq!(
            written(&story),
            "    0 ms  main  #1 invocation 1\n  100 ms  main  invocation 1 done\n"
        );
    }
}
