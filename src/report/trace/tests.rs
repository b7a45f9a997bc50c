//! What a trace makes of events.

use serde_json::{Value, json};

use super::*;
use crate::event::testing;
use crate::event::{AfterFailure, Event, EventKind, Origin, Outcome, ThrottleCause, Verdict};
use crate::message::{Output, Reply};
use crate::report::story::{
    Story, call_of, cancelled, done, failed, paid, question, skipped, usage,
};

/// Events at times of their own, in milliseconds; those of a [`Story`] are 100 ms
/// after each other.
struct Timed(Vec<Event>);

impl Timed {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn at(mut self, ms: u64, unit: u32, kind: EventKind) -> Self {
        let mut story = Story::new();
        story.push(unit, kind);
        let mut event = story.events()[0].clone();
        (event.at, event.seq) = (UnixMillis(1_000_000 + ms), Seq(self.0.len() as u64 + 1));
        self.0.push(event);
        self
    }

    /// A turn with one request of so many milliseconds, which asks for calls.
    fn turn(self, ms: u64, unit: u32, took: u64, calls: &[(&str, &str)]) -> Self {
        let reply = testing::called("", calls);
        self.at(ms, unit, EventKind::TurnStarted { turn: 1 }).at(
            ms + took,
            unit,
            took_ms(reply, took),
        )
    }

    fn call(self, from: u64, to: u64, unit: u32, tool: &str) -> Self {
        let started = EventKind::ToolStarted {
            call: tool.into(),
            tool: tool.into(),
            subject: "s".into(),
            confinement: None,
        };
        let finished = EventKind::ToolFinished {
            call: tool.into(),
            tool: tool.into(),
            output: Arc::new(Output::ok("out")),
            took_ms: to - from,
        };
        self.at(from, unit, started).at(to, unit, finished)
    }

    fn start(self, ms: u64, unit: u32) -> Self {
        self.at(ms, unit, EventKind::UnitStarted)
    }

    fn end(self, ms: u64, unit: u32, outcome: Outcome) -> Self {
        self.at(ms, unit, testing::ended(outcome, ""))
    }

    fn queue(self, ms: u64, unit: u32, call: Option<&str>) -> Self {
        self.at(ms, unit, testing::queued("x", 0, Origin::Prompt, call))
    }

    fn asked(self) -> Self {
        self.at(0, 0, EventKind::InvocationStarted { prompt: "go".into(), message: None })
    }

    fn over(self, ms: u64, outcome: Outcome) -> Self {
        let mut story = Story::new();
        story.over(outcome, "");
        let kind = story.events()[0].kind.clone();
        self.at(ms, 0, kind)
    }

    fn trace(&self) -> Trace {
        let mut trace = Trace::default();
        self.0.iter().for_each(|event| trace.take(event));
        trace
    }
}

fn took_ms(kind: EventKind, took_ms: u64) -> EventKind {
    let EventKind::Replied(replied) = kind else { panic!("it is an answer") };
    EventKind::Replied(crate::event::Replied { took_ms, ..replied })
}

fn of(story: &Story) -> Trace {
    let mut trace = Trace::default();
    story.events().iter().for_each(|event| trace.take(event));
    trace
}

fn read(trace: &Trace) -> Value {
    serde_json::from_slice(&trace.json(&TraceFacts::default())).unwrap()
}

/// Returns what a unit was doing, as `queued 0-5, running 5-9`.
fn doing(trace: &Trace, unit: u32) -> String {
    let (first, unit) = (trace.first(), trace.unit(UnitId(unit)).unwrap());
    let told = |doing: &Doing| {
        let to = doing.to.map_or("…".to_owned(), |to| to.since(first).to_string());
        format!("{} {}-{to}", doing.activity.as_str(), doing.from.since(first))
    };
    unit.doing.iter().map(told).collect::<Vec<_>>().join(", ")
}

/// Returns the critical path, as `main request 0-5`.
fn path(course: &Course) -> Vec<String> {
    let told = |leg: &Leg| {
        let (from, to) = (leg.from.since(course.from), leg.to.since(course.from));
        format!("{} {} {from}-{to}", leg.unit, leg.kind.as_str())
    };
    course.path.iter().map(told).collect()
}

#[test]
fn a_unit_is_queued_then_runs_then_waits_for_those_it_started() {
    let mut story = Story::new();
    let calls = vec![call_of("c", "Agent", "{}")];
    story.invocation("go").turn(0, 1).replied(0, Reply { calls, ..Reply::default() }, usage(1, 1));
    story.call(0, "c", "Agent", "1 task").batch("c", &["a"]).start(1).turn(1, 1);
    story.throttled(1, ThrottleCause::InFlight, None).admitted(1, 100).reply(1, "yes", 1, 1);
    story.asks(1, 11, question("ls")).answered(1, 11, (question("ls"), Verdict::Yes));
    story.end(1, done("yes")).output(0, "c", "Agent", "done").over(done("ok"), "ok");
    let trace = of(&story);
    assert_eq!(doing(&trace, 0), "running 0-300, waiting 300-1300, running 1300-1400");
    let slot = "queued 400-500, running 500-700, throttled 700-800, running 800-1000, \
                asking 1000-1100, running 1100-1200";
    assert_eq!(doing(&trace, 1), slot);
}

#[test]
fn a_unit_that_was_lost_is_queued_again_and_its_request_was_cut_off() {
    let mut story = Story::new();
    story.invocation("go").call(0, "c", "Agent", "1").batch("c", &["a"]).start(1).turn(1, 1);
    story.lose(1, 1).start(1).turn(1, 1).reply(1, "yes", 1, 1).end(1, done("yes"));
    let trace = of(&story);
    assert_eq!(
        doing(&trace, 1),
        "queued 200-300, running 300-500, queued 500-600, running 600-900"
    );
    let spans = trace.spans.iter().filter(|span| span.unit == UnitId(1));
    let told: Vec<String> = spans
        .map(|span| {
            let failed = span.failed.as_deref().unwrap_or("-");
            format!("{} {} {failed}", span.kind.as_str(), span.about)
        })
        .collect();
    assert_eq!(
        told,
        [
            "request  cut off",
            "mark lost with worker w-7 in attempt 1: waits to be run again -",
            "request end_turn -"
        ]
    );
}

#[test]
fn a_slot_that_never_started_was_queued_to_its_end() {
    let mut story = Story::new();
    story.invocation("go").call(0, "c", "Agent", "2").batch("c", &["a", "b"]).start(1);
    story.end(1, cancelled()).end(2, skipped());
    let trace = of(&story);
    assert_eq!(doing(&trace, 2), "queued 300-600");
    let unit = trace.unit(UnitId(2)).unwrap();
    assert_eq!((unit.state, unit.started), (UnitState::Skipped, None));
    assert_eq!(trace.unit(UnitId(1)).unwrap().state, UnitState::Cancelled);
}

#[test]
fn requests_waits_and_failures_are_spans_of_their_own() {
    let mut story = Story::new();
    story.invocation("go").turn(0, 1).retried(0, 1, Some(503)).admitted(0, 100);
    story.request_failed(0, 2, None, AfterFailure::Fallback { model: "b".into() });
    story.replied_by(0, "b", Reply { text: "hi".into(), ..Reply::default() }, paid(7, 3, 2));
    let trace = of(&story);
    let told: Vec<String> = trace
        .spans
        .iter()
        .map(|span| {
            let failed = span.failed.as_deref().unwrap_or("-");
            format!("{} {} {failed}", span.kind.as_str(), span.name)
        })
        .collect();
    let expected = ["request m HTTP 503", "wait retry -", "request m no answer", "request b -"];
    assert_eq!(told, expected);
    let spent = trace.unit(UnitId::MAIN).unwrap().spent;
    assert_eq!((spent.requests, spent.retries, spent.waited_ms), (3, 1, 100));
    assert_eq!(spent.usage.cost.usd.to_string(), "$0.0200");
    assert_eq!(&*trace.spans[3].texts[0].text, "hi");
}

#[test]
fn the_critical_path_goes_through_the_slot_that_ended_last() {
    let trace = Timed::new()
        .asked()
        .turn(0, 0, 100, &[("Agent", "{}")])
        .at(
            110,
            0,
            EventKind::ToolStarted {
                call: "Agent".into(),
                tool: "Agent".into(),
                subject: "2".into(),
                confinement: None,
            },
        )
        .queue(110, 1, Some("Agent"))
        .queue(110, 2, Some("Agent"))
        .start(110, 1)
        .turn(110, 1, 90, &[])
        .end(200, 1, done("a"))
        .start(200, 2)
        .turn(200, 2, 50, &[("Read", "{}")])
        .call(250, 400, 2, "Read")
        .end(420, 2, done("b"))
        .at(430, 0, testing::finished("Agent", Output::ok("both")))
        .turn(430, 0, 70, &[])
        .over(500, done("ok"))
        .trace();
    let [course] = &trace.courses(&TraceFacts::default())[..] else { panic!("one prompt") };
    let expected = [
        "main request 0-100",
        "main own 100-110",
        "agent-2 queued 110-200",
        "agent-2 request 200-250",
        "agent-2 call 250-400",
        "agent-2 own 400-420",
        "main own 420-430",
        "main request 430-500",
    ];
    assert_eq!(path(course), expected);
    let sum: u64 = LegKind::ALL.into_iter().map(|kind| course.path_ms(kind)).sum();
    assert_eq!((sum, course.took_ms()), (500, 500));
    // Main 110 + 70, the slots 90 and 220, never two at once.
    assert_eq!((course.work_ms, course.most_at_once), (490, 1));
    assert_eq!(course.ideal_ms(), 490);
}

#[test]
fn the_ideal_spreads_the_work_but_cannot_shorten_the_path() {
    let both = |second: u64| {
        Timed::new()
            .asked()
            .queue(0, 1, None)
            .queue(0, 2, None)
            .start(0, 1)
            .start(0, 2)
            .turn(0, 1, 100, &[])
            .end(100, 1, done("a"))
            .turn(0, 2, second, &[])
            .end(second, 2, done("b"))
            .over(second, done("ok"))
            .trace()
    };
    let even = &both(100).courses(&TraceFacts::default())[0];
    assert_eq!((even.work_ms, even.most_at_once, even.ideal_ms()), (200, 2, 100));
    assert!((even.share_of_ideal() - 1.0).abs() < 1e-9 && (even.speed_up() - 2.0).abs() < 1e-9);
    // All of the longer one is one thing after the other.
    let uneven = &both(300).courses(&TraceFacts::default())[0];
    assert_eq!((uneven.work_ms, uneven.ideal_ms(), uneven.took_ms()), (400, 300, 300));
}

#[test]
fn what_holds_steps_or_was_answered_before_is_at_no_work() {
    let declared = |origin, parent| testing::queued("x", parent, origin, None);
    let trace = Timed::new()
        .asked()
        .at(0, 1, declared(Origin::Steps, 0))
        .start(0, 1)
        .at(0, 2, declared(Origin::Reused(UnitId(9)), 1))
        .at(0, 3, declared(Origin::Reused(UnitId(8)), 1))
        .at(0, 4, declared(Origin::Prompt, 1))
        .start(0, 2)
        .start(0, 3)
        .start(0, 4)
        .turn(0, 4, 100, &[])
        .end(20, 2, done("a"))
        .end(20, 3, done("b"))
        .end(100, 4, done("c"))
        .end(100, 1, done("all"))
        .over(100, done("all"))
        .trace();
    let course = &trace.courses(&TraceFacts::default())[0];
    assert_eq!((course.work_ms, course.most_at_once, course.ideal_ms()), (100, 1, 100));
    let file: Value = serde_json::from_slice(&trace.perfetto(&TraceFacts::default())).unwrap();
    let counts = file["traceEvents"].as_array().unwrap().iter().filter(|it| it["ph"] == "C");
    let running = counts.map(|it| it["args"]["running"].as_u64().unwrap());
    assert_eq!(running.max(), Some(1));
}

#[test]
fn branches_of_one_call_part_at_one_place_and_come_back_together() {
    let mut story = Story::batch_of_three();
    story.push(0, EventKind::Joined { children: vec![UnitId(1), UnitId(2), UnitId(3)] });
    let trace = of(&story);
    let told: Vec<(MeetingKind, usize)> =
        trace.meetings.iter().map(|it| (it.kind, it.children.len())).collect();
    assert_eq!(told, [(MeetingKind::Split, 3), (MeetingKind::Join, 3)]);
}

#[test]
fn what_a_dead_process_left_open_ends_when_it_was_last_alive() {
    let interrupted = |ms: u64| {
        Timed::new()
            .asked()
            .queue(10, 1, Some("Agent"))
            .queue(10, 2, Some("Agent"))
            .start(20, 1)
            .at(30, 1, EventKind::TurnStarted { turn: 1 })
            .end(ms, 1, Outcome::Interrupted)
            .end(ms, 2, skipped())
            .over(ms, Outcome::Interrupted)
            .trace()
    };
    let trace = interrupted(1_000_000);
    assert_eq!(doing(&trace, 1), "queued 10-20, running 20-30");
    assert_eq!(doing(&trace, 2), "queued 10-30");
    assert_eq!(trace.courses(&TraceFacts::default())[0].took_ms(), 30);
    assert_eq!(read(&trace)["took_ms"], 30);
}

#[test]
fn rows_that_no_later_event_has_changed_are_left_out() {
    let story = Story::batch_of_three();
    let trace = of(&story);
    let after = |seq| -> Value {
        serde_json::from_slice(&trace.json_after(&TraceFacts::default(), Seq(seq))).unwrap()
    };
    let names = |value: &Value| -> Vec<String> {
        let units = value["units"].as_array().unwrap().iter();
        units.map(|unit| unit["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&after(0)), ["main", "agent-1", "agent-2", "agent-3"]);
    let last = trace.last().0;
    assert_eq!(names(&after(last - 1)), ["main"]);
    let none = after(last);
    assert_eq!((names(&none).len(), none["spans"].as_array().unwrap().len()), (0, 0));
    assert_eq!(none["prompts"].as_array().unwrap().len(), 1);
}

#[test]
fn a_log_without_sense_makes_a_trace_all_the_same() {
    let mut story = Story::batch_of_three();
    let events: Vec<Event> = story.events().to_vec();
    // Backwards, twice, with units that are their own parents.
    let mut trace = Trace::default();
    for event in events.iter().rev().chain(&events).chain(&events) {
        trace.take(event);
    }
    story.push(9, testing::queued("own parent", 9, Origin::Prompt, None));
    story.push(9, EventKind::Joined { children: vec![UnitId(77)] });
    trace.take(&story.events()[story.events().len() - 2]);
    trace.take(&story.events()[story.events().len() - 1]);
    let facts = TraceFacts::default();
    assert!(!trace.json(&facts).is_empty() && !trace.perfetto(&facts).is_empty());
    for course in trace.courses(&facts) {
        assert!(course.path.iter().all(|leg| leg.from <= leg.to));
    }
}

#[test]
fn nothing_that_was_said_can_end_the_element_it_stands_in() {
    let hostile = "</script><script>alert(1)</script><!-- \u{2028}\u{202e}";
    let mut story = Story::new();
    story.invocation(hostile).turn(0, 1).reply(0, hostile, 1, 1);
    let page = String::from_utf8(of(&story).page(&TraceFacts::default(), Reach::Nothing)).unwrap();
    assert_eq!(page.matches("</script").count(), 2);
    assert_eq!(page.matches("<script").count(), 2);
    assert!(
        page.contains(r"\u003c/script>\u003cscript>alert(1)\u003c/script>\u003c!-- \u2028\u202e")
    );
    assert_eq!(page.matches("<!--").count(), 1);
    assert!(page.contains("default-src 'none'; img-src data:; style-src 'sha256-"));
    let served = of(&story).page(&TraceFacts::default(), Reach::Server);
    assert!(String::from_utf8(served).unwrap().contains("connect-src 'self'; "));
}

#[test]
fn chrome_gets_spans_that_do_not_overlap_within_a_thread() {
    let trace = Timed::new()
        .asked()
        .turn(0, 0, 10, &[("a", "{}"), ("b", "{}")])
        .at(
            10,
            0,
            EventKind::ToolStarted {
                call: "a".into(),
                tool: "a".into(),
                subject: "".into(),
                confinement: None,
            },
        )
        .call(12, 20, 0, "b")
        .at(30, 0, testing::finished("a", Output::error("no")))
        .over(40, failed("no"))
        .trace();
    let file: Value = serde_json::from_slice(&trace.perfetto(&TraceFacts::default())).unwrap();
    let events = file["traceEvents"].as_array().unwrap();
    let call = |name: &str| events.iter().find(|it| it["name"] == name && it["cat"] == "call");
    let (a, b) = (call("a").unwrap(), call("b").unwrap());
    assert_eq!((&a["ts"], &a["dur"]), (&json!(10_000), &json!(20_000)));
    assert_eq!(a["args"]["failed"], "error");
    assert_ne!(a["tid"], b["tid"]);
    assert!(events.iter().any(|it| it["ph"] == "C" && it["args"]["running"] == 1));
}
