//! Events of a map, and the lines that come of them.

use std::sync::Mutex;

use insta::assert_snapshot;

use super::*;
use crate::event::testing::{Log, ended, queued};
use crate::event::{FailureKind, InvocationEnd, StepDigest, StepMark};
use crate::message::{Cost, Usd};

/// What was written so far.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// A map of three rows.
fn mapped(is_structured: bool) -> (Mapped, Written) {
    let written = Written::default();
    let names = ["one", "two", "three"].map(Arc::from);
    (Mapped::new(Box::new(written.clone()), names.into(), is_structured), written)
}

fn step(key: &str, origin: Origin) -> EventKind {
    let EventKind::UnitQueued(head) = queued(key, 0, origin, None) else { unreachable!() };
    let mark = StepMark { key: key.into(), digest: StepDigest(1) };
    EventKind::UnitQueued(UnitHead { step: Some(mark), ..head })
}

fn done(text: &str) -> EventKind {
    ended(Outcome::Done { text: text.into() }, text)
}

/// The same, with so much money used.
fn costing(cost: Cost, end: EventKind) -> EventKind {
    let EventKind::UnitEnded(end) = end else { unreachable!() };
    let usage = Usage { input: 3, cost, ..end.usage };
    let end = UnitEnd { usage, turns: 2, duration_ms: 40, ..(*end).clone() };
    EventKind::UnitEnded(Arc::new(end))
}

fn over() -> EventKind {
    EventKind::InvocationEnded(Arc::new(InvocationEnd {
        outcome: Outcome::Done { text: Arc::default() },
        text: Arc::default(),
        cancel: None,
        unfinished: Vec::new(),
    }))
}

/// Three rows that were declared.
fn declared() -> Log {
    let mut log = Log { invocation: 1, ..Log::default() };
    for unit in 1..=3 {
        log.put(unit, "", step(&format!("rows[{}]", unit - 1), Origin::Prompt));
    }
    log
}

fn take(mapped: &mut Mapped, log: &Log) {
    log.events.iter().for_each(|event| mapped.take(event).unwrap());
}

#[test]
fn lines_stand_in_the_order_of_the_table_whichever_row_ends_first() {
    let (mut mapped, written) = mapped(false);
    let mut log = declared();
    log.put(2, "", EventKind::UnitStarted).put(2, "", done("b"));
    take(&mut mapped, &log);
    assert_eq!(written.text(), "");
    let mut log = Log { invocation: 1, ..Log::default() };
    let cost = Cost { usd: Usd(1_500_000), is_partial: false };
    log.put(1, "", EventKind::UnitStarted).put(1, "", costing(cost, done("a")));
    take(&mut mapped, &log);
    assert_eq!(written.text().lines().count(), 2);
    let expected = MapCounts { completed: 2, known: 3, ..MapCounts::default() };
    assert_eq!(mapped.counts(), expected);
    let lines = written.text();
    assert!(begins_as_map(lines.as_bytes()) && begins_as_map(&lines.as_bytes()[..60]));
    // A full disk can cut it off anywhere.
    for kept in 1..60 {
        assert!(begins_as_map(&lines.as_bytes()[..kept]), "{kept}");
    }
    for other in [
        "{\"id\":\"one\"}",
        "{\"id\":\"one\",\"row\":2",
        "{\"id\":\"one\",\"path\":\"a\"}\n",
        &lines[lines.find('\n').unwrap() + 1..],
    ] {
        assert!(!begins_as_map(other.as_bytes()), "{other}");
    }
    assert_snapshot!(written.text().lines().next().unwrap(), @r#"{"id":"one","row":1,"status":"completed","result":"a","error":null,"usage":{"input_tokens":3,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.0015},"turns":2,"duration_ms":40,"agent_id":"agent-1","from_before":false}"#);
}

#[test]
fn a_row_without_an_answer_says_why() {
    let (mut mapped, written) = mapped(false);
    let mut log = declared();
    let partial = Cost { usd: Usd::default(), is_partial: true };
    let failed = ended(Outcome::failed(FailureKind::Timeout, "10m were over"), "half");
    log.put(1, "", EventKind::UnitStarted)
        .put(2, "", EventKind::UnitStarted)
        .put(1, "", costing(partial, failed))
        .put(2, "", ended(Outcome::Cancelled { ran: true }, ""))
        // An agent of a row's own is no row, and a step of another name is none.
        .put(4, "", queued("rows[2]", 2, Origin::Prompt, None))
        .put(4, "", done("x"))
        .put(5, "", step("rows[2]/more", Origin::Prompt))
        .put(5, "", done("x"))
        .put(6, "", step("rows[3]", Origin::Prompt))
        .put(6, "", done("x"))
        .put(0, "", over());
    take(&mut mapped, &log);
    let expected = MapCounts { failed: 1, stopped: 2, known: 3, ..MapCounts::default() };
    assert_eq!(mapped.counts(), expected);
    assert_eq!(mapped.failures(), [(1, "timeout: 10m were over")]);
    assert_snapshot!(written.text(), @r#"
    {"id":"one","row":1,"status":"failed","result":"half","error":"timeout: 10m were over","usage":{"input_tokens":3,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0},"turns":2,"duration_ms":40,"agent_id":"agent-1","from_before":false}
    {"id":"two","row":2,"status":"cancelled","result":null,"error":"it was cancelled","usage":{"input_tokens":0,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.0},"turns":1,"duration_ms":1,"agent_id":"agent-2","from_before":false}
    {"id":"three","row":3,"status":"skipped","result":null,"error":"it never started","usage":{"input_tokens":0,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.0},"turns":0,"duration_ms":0,"agent_id":null,"from_before":false}
    "#);
}

#[test]
fn an_answer_to_a_schema_is_json_in_its_line() {
    let (mut mapped, written) = mapped(true);
    let mut log = declared();
    log.put(1, "", done("{\"a\": [1.0]}")).put(2, "", done("a worktree was kept\n{\"a\":2}")).put(
        3,
        "",
        ended(Outcome::failed(FailureKind::StructuredOutput, "none fits"), "{}"),
    );
    take(&mut mapped, &log);
    let text = written.text();
    let results = text.lines().map(|line| line.split_once("\"result\":").unwrap().1);
    let results: Vec<_> = results.map(|rest| rest.split_once(",\"error\"").unwrap().0).collect();
    assert_eq!(results, ["{\"a\": [1.0]}", "{\"a\":2}", "\"{}\""]);
}

#[test]
fn no_line_has_anything_that_a_terminal_obeys() {
    let (mut mapped, written) = mapped(false);
    let mut log = declared();
    log.put(1, "", done("x\u{9b}2Jy\u{202e}z"));
    take(&mut mapped, &log);
    let text = written.text();
    assert!(text.contains(r"x\u009b2Jy\u202ez"), "{text}");
}

#[test]
fn a_row_that_ended_before_says_so_and_what_it_used_then() {
    let mut before = declared();
    let cost = Cost { usd: Usd(1_500_000), is_partial: false };
    let failed = ended(Outcome::failed(FailureKind::Request, "no"), "half");
    before.put(1, "", costing(cost, done("a"))).put(2, "", costing(cost, failed));
    let (mut mapped, written) = mapped(false);
    before.events.iter().for_each(|event| mapped.recall(event));
    let mut log = Log { invocation: 2, ..Log::default() };
    log.put(4, "", step("rows[0]", Origin::Reused(UnitId(1))))
        .put(5, "", step("rows[1]", Origin::Reused(UnitId(2))))
        .put(6, "", step("rows[2]", Origin::Prompt))
        .put(4, "", EventKind::UnitStarted)
        .put(4, "", done("a"))
        .put(5, "", ended(Outcome::failed(FailureKind::Request, "no"), ""))
        .put(6, "", done("c"));
    take(&mut mapped, &log);
    let ended = MapCounts { completed: 2, failed: 1, from_before: 2, ..MapCounts::default() };
    let expected = MapCounts { known: 3, reused: 2, ..ended };
    assert_eq!(mapped.counts(), expected);
    assert!(mapped.earlier.len() == 1, "what a line has is kept no longer");
    assert_snapshot!(written.text(), @r#"
    {"id":"one","row":1,"status":"completed","result":"a","error":null,"usage":{"input_tokens":3,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.0015},"turns":2,"duration_ms":40,"agent_id":"agent-1","from_before":true}
    {"id":"two","row":2,"status":"failed","result":"half","error":"request: no","usage":{"input_tokens":3,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.0015},"turns":2,"duration_ms":40,"agent_id":"agent-2","from_before":true}
    {"id":"three","row":3,"status":"completed","result":"c","error":null,"usage":{"input_tokens":0,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.0},"turns":1,"duration_ms":1,"agent_id":"agent-6","from_before":false}
    "#);
}

#[test]
fn what_an_earlier_process_had_and_this_one_asks_anew_is_counted() {
    let mut before = declared();
    before
        .put(4, "", step("rows[3]", Origin::Prompt))
        .put(5, "", step("rows[4]", Origin::Prompt))
        .put(1, "", done("a"))
        .put(2, "", done("b"))
        .put(3, "", ended(Outcome::failed(FailureKind::Request, "no"), ""))
        .put(4, "", done("d"));
    let (mut mapped, written) = mapped(false);
    before.events.iter().for_each(|event| mapped.recall(event));
    let mut log = Log { invocation: 2, ..Log::default() };
    log.put(6, "", step("rows[0]", Origin::Reused(UnitId(1))))
        .put(7, "", step("rows[1]", Origin::Prompt))
        .put(8, "", step("rows[2]", Origin::Prompt));
    take(&mut mapped, &log);
    let known = MapCounts { known: 3, reused: 1, changed: 1, gone: 2, ..MapCounts::default() };
    assert_eq!(mapped.counts(), known);
    // Stopped before it could say again what it said then.
    let mut log = Log { invocation: 2, ..Log::default() };
    log.put(6, "", ended(Outcome::Cancelled { ran: false }, ""));
    take(&mut mapped, &log);
    assert_eq!(mapped.counts(), MapCounts { stopped: 1, ..known });
    let line = "{\"id\":\"one\",\"row\":1,\"status\":\"skipped\",";
    assert!(written.text().starts_with(line), "{}", written.text());
    assert!(written.text().contains("\"from_before\":false"), "{}", written.text());
}

#[test]
fn a_row_that_was_lost_does_not_run_until_it_starts_again() {
    let (mut mapped, written) = mapped(false);
    let lost = EventKind::Lost { worker: "w-7".into(), attempt: 1 };
    let mut log = declared();
    log.put(1, "", EventKind::UnitStarted).put(1, "", lost);
    take(&mut mapped, &log);
    assert_eq!(mapped.counts(), MapCounts { known: 3, ..MapCounts::default() });
    let mut log = Log { invocation: 1, ..Log::default() };
    log.put(1, "", EventKind::UnitStarted).put(1, "", done("a"));
    take(&mut mapped, &log);
    let expected = MapCounts { completed: 1, known: 3, ..MapCounts::default() };
    assert_eq!((mapped.counts(), written.text().lines().count()), (expected, 1));
}
