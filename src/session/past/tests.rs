//! What a session has come to, by its events and by its log.

use proptest::prelude::*;

use super::*;
use crate::branch::BranchPath;
use crate::event::{
    AfterFailure, Compaction, CompactionTrigger, Event, FlowHead, ForkShare, NoticeLevel, Origin,
    PrefixShare, Replied, RequestFailed, SlotPosition,
};
use crate::message::{Call, Output, Reply, StopReason, Usage};
use crate::session::SessionLog;
use crate::session::dirs::LOG;
use crate::session::samples::{ended, event, opened, started};

/// Events of one invocation, numbered as they come.
#[derive(Default)]
struct Story {
    events: Vec<Event>,
}

impl Story {
    fn new() -> Self {
        let mut story = Self::default();
        story.main(opened()).main(started("go")).main(prompted("go"));
        story
    }

    fn push(&mut self, unit: u32, tokens: &str, kind: EventKind) -> &mut Self {
        let seq = self.events.len() as u64 + 1;
        let tokens = tokens.parse().unwrap();
        let branch = Branch { tokens, path: BranchPath::main() };
        self.events.push(Event { unit: UnitId(unit), branch, ..event(seq, kind) });
        self
    }

    fn main(&mut self, kind: EventKind) -> &mut Self {
        self.push(0, "", kind)
    }

    /// Main makes a call, and it starts.
    fn calls(&mut self, id: &str, tool: &str) -> &mut Self {
        self.main(replied("", &[id])).main(tool_started(id, tool))
    }

    /// Main starts a unit beside itself, with one call for it.
    fn fork(&mut self, unit: u32) -> &mut Self {
        let call = format!("fork-{unit}");
        self.calls(&call, "Agent");
        let head = UnitHead { is_background: true, slot: None, ..head(&call, 0) };
        self.push(unit, &unit.to_string(), EventKind::UnitQueued(head));
        self.push(unit, &unit.to_string(), EventKind::UnitStarted);
        self.main(finished(&call, "started"))
    }

    fn end(&mut self, unit: u32) -> &mut Self {
        let tokens = unit.to_string();
        self.push(unit, &tokens, EventKind::UnitEnded(Arc::new(unit_end("found"))))
    }

    fn past(&self) -> Past {
        let mut past = Past::default();
        self.events.iter().for_each(|event| past.take(event));
        past
    }
}

fn prompted(text: &str) -> EventKind {
    EventKind::Prompted(text.into())
}

fn replied(text: &str, calls: &[&str]) -> EventKind {
    let call =
        |id: &&str| Call { id: (*id).into(), tool: "read".to_owned(), arguments: "{}".to_owned() };
    let calls = calls.iter().map(call).collect();
    EventKind::Replied(Replied {
        reply: Arc::new(Reply { text: text.to_owned(), calls, ..Reply::default() }),
        model: "later".into(),
        usage: Usage { input: 5, ..Usage::default() },
        stop: StopReason::EndTurn,
        took_ms: 1,
    })
}

fn tool_started(id: &str, tool: &str) -> EventKind {
    EventKind::ToolStarted {
        call: id.into(),
        tool: tool.into(),
        subject: "it".into(),
        confinement: None,
    }
}

fn finished(id: &str, text: &str) -> EventKind {
    let output = Arc::new(Output::ok(text));
    EventKind::ToolFinished { call: id.into(), tool: "Read".into(), output, took_ms: 1 }
}

fn joined(children: &[u32]) -> EventKind {
    EventKind::Joined { children: children.iter().copied().map(UnitId).collect() }
}

fn notified(children: &[u32]) -> EventKind {
    let children = children.iter().copied().map(UnitId).collect();
    EventKind::Notified { children, text: "news".into(), wrote: 0 }
}

fn compacted(kept_prompts: u32) -> EventKind {
    EventKind::Compacted(Arc::new(Compaction {
        trigger: CompactionTrigger::Auto,
        text: "in short".into(),
        kept_prompts,
        tokens_before: 9,
        tokens_after: 3,
        model: "m".into(),
        usage: Usage::default(),
        took_ms: 1,
    }))
}

fn head(call: &str, index: u32) -> UnitHead {
    UnitHead {
        description: "look".into(),
        agent: "explore".into(),
        call: Some(call.into()),
        parent: UnitId::MAIN,
        depth: 1,
        slot: Some(SlotPosition { index, total: 2 }),
        origin: Origin::Prompt,
        is_background: false,
        again: None,
        step: None,
    }
}

fn unit_end(text: &str) -> UnitEnd {
    UnitEnd {
        outcome: Outcome::Done { text: text.into() },
        text: text.into(),
        usage: Usage::default(),
        turns: 1,
        tool_uses: 0,
        duration_ms: 1,
        output_file: None,
        share: None,
    }
}

fn untold(past: &Past) -> Vec<u32> {
    past.untold().map(|(id, _)| id.0).collect()
}

#[test]
fn an_empty_log_has_come_to_nothing() {
    let past = Past::default();
    assert!(past.is_empty());
    assert_eq!((past.next_unit(), past.model()), (UnitId(1), None));
}

#[test]
fn what_a_run_needs_to_go_on_is_counted_from_the_log() {
    let mut story = Story::new();
    story.push(4, "1-3,8", EventKind::UnitStarted).main(replied("hi", &[]));
    let past = story.past();
    assert_eq!(past.last(), Seq(5));
    assert_eq!(past.next_unit(), UnitId(5));
    let invocation = PastInvocation { largest: Some(Token(8)), is_open: true };
    assert_eq!(past.invocations(), &BTreeMap::from([(Invocation(1), invocation)]));
    assert_eq!(past.model(), Some("later"));
    assert_eq!(past.head().map(|head| &*head.model), Some("offline"));
}

#[test]
fn an_open_call_is_known_and_whether_it_began() {
    let mut story = Story::new();
    story.main(replied("", &["a", "b"])).main(tool_started("a", "Bash"));
    let past = story.past();
    let open = past.main().open.iter();
    let open: Vec<(&str, &str, bool)> =
        open.map(|call| (&*call.id.0, &*call.tool, call.has_started())).collect();
    assert_eq!(open, [("a", "Bash", true), ("b", "read", false)]);
}

#[test]
fn a_unit_that_was_cut_off_has_done_what_it_had_done_by_then() {
    let mut story = Story::new();
    story.calls("c", "Agent").push(1, "1", EventKind::UnitQueued(head("c", 0)));
    story.push(1, "1", EventKind::UnitStarted);
    story.push(1, "1", EventKind::TurnStarted { turn: 1 });
    let share = PrefixShare { shared_bytes: 8, total_bytes: 9 };
    story.push(1, "1", EventKind::PrefixShared(share)).push(1, "1", replied("so far", &["x", "y"]));
    // What came of a call says nothing of how long the unit was at work.
    story.push(1, "1", finished("x", "fine"));
    let past = story.past();
    let end = past.units()[&UnitId(1)].work.ended(Outcome::Interrupted);
    let expected = UnitEnd {
        outcome: Outcome::Interrupted,
        text: "so far".into(),
        usage: Usage { input: 5, ..Usage::default() },
        turns: 1,
        tool_uses: 2,
        duration_ms: 300,
        output_file: None,
        share: Some(ForkShare { prefix: share, cached_tokens: 0 }),
    };
    assert_eq!(end, expected);
}

#[test]
fn a_unit_that_was_lost_has_used_what_it_used_and_owes_nothing_of_what_it_had_started() {
    let mut story = Story::new();
    story.calls("c", "Agent").push(1, "1", EventKind::UnitQueued(head("c", 0)));
    story.push(1, "1", EventKind::UnitStarted);
    story.push(1, "1", EventKind::TurnStarted { turn: 1 });
    story.push(1, "1", replied("so far", &["x"])).push(1, "1", tool_started("x", "Agent"));
    let below = UnitHead { parent: UnitId(1), ..head("x", 0) };
    story.push(2, "1-2", EventKind::UnitQueued(below.clone()));
    story.push(2, "1-2", EventKind::UnitStarted).end(2);
    let cut_off = UnitEnd { outcome: Outcome::Interrupted, ..unit_end("") };
    story.push(1, "1-2", joined(&[2])).push(3, "1,3", EventKind::UnitQueued(below));
    story.push(3, "1,3", EventKind::UnitEnded(Arc::new(cut_off)));
    story.push(1, "1-2", finished("x", "lost with its worker"));
    story.push(1, "1", EventKind::Lost { worker: "w-7".into(), attempt: 1 });
    let past = story.past();
    let units: Vec<UnitId> = past.units().keys().copied().collect();
    assert_eq!(units, [UnitId(1)]);
    let unit = &past.units()[&UnitId(1)];
    assert_eq!((unit.work.started, unit.work.has_run()), (None, true));
    assert_eq!(unit.branch.tokens.to_string(), "1");
    let end = unit.work.ended(Outcome::Interrupted);
    let expected = UnitEnd {
        outcome: Outcome::Interrupted,
        text: "".into(),
        usage: Usage { input: 5, ..Usage::default() },
        turns: 0,
        tool_uses: 1,
        duration_ms: 0,
        output_file: None,
        share: None,
    };
    assert_eq!(end, expected);
    let states = past.account().units.iter().map(|(unit, (_, state))| (*unit, *state));
    let states: Vec<_> = states.collect();
    assert_eq!(states, [(UnitId(1), UnitState::Queued), (UnitId(2), UnitState::Completed)]);
}

#[test]
fn the_ends_of_a_batch_are_kept_until_its_call_has_its_output() {
    let mut story = Story::new();
    story.calls("c", "Agent");
    story.push(1, "1", EventKind::UnitQueued(head("c", 0)));
    story.push(2, "2", EventKind::UnitQueued(head("c", 1)));
    story.push(2, "2", EventKind::UnitStarted).end(2);
    let past = story.past();
    assert_eq!(past.main().open[0].children, [UnitId(1), UnitId(2)]);
    assert_eq!(past.units()[&UnitId(2)].end.as_deref(), Some(&unit_end("found")));
    story.end(1).push(0, "1-2", joined(&[1, 2]));
    assert!(story.past().units().values().all(|unit| unit.is_joined));
    story.push(0, "1-2", finished("c", "all"));
    assert_eq!(story.past().units().len(), 0);
    assert_eq!(story.past().joins().joined_in(Invocation(1)).to_string(), "1-2");
}

#[test]
fn an_end_is_news_until_main_has_been_told_of_it() {
    let mut story = Story::new();
    story.fork(1).fork(2).end(1);
    assert_eq!(untold(&story.past()), [1]);
    story.push(0, "1", joined(&[1]));
    assert_eq!(untold(&story.past()), [1], "that is not yet news");
    story.push(0, "1", notified(&[1]));
    assert_eq!(untold(&story.past()), [0_u32; 0]);
    assert_eq!(story.past().units().keys().collect::<Vec<_>>(), [&UnitId(2)]);
    story.push(0, "1", ended());
    assert_eq!(story.past().units().len(), 1, "a unit beside main may outlive the turn");
}

/// A call that takes the whole end of a unit gives it to the model with its
/// output, so without the output it was never given.
#[test]
fn an_end_that_was_taken_is_told_only_once_the_output_is_there() {
    let mut taken = Story::new();
    taken.fork(1).end(1).calls("wait", "TaskOutput").push(0, "1", joined(&[1]));
    assert_eq!(untold(&taken.past()), [1]);
    let with_output = |text: &str| {
        let mut story = Story { events: taken.events.clone() };
        story.push(0, "1", finished("wait", text));
        untold(&story.past())
    };
    assert_eq!(with_output("found"), [0_u32; 0]);
    assert_eq!(with_output(CUT_OFF), [1]);
}

#[test]
fn the_end_of_a_flow_is_a_part_of_the_conversation_and_other_ends_are_none() {
    let walked = || {
        let (name, inputs) = ("audit".into(), "{}".into());
        EventKind::Walked(Arc::new(FlowHead { name, inputs, steps: 1, goes_on: false }))
    };
    let mut story = Story::new();
    story.main(walked()).main(ended());
    let before = story.events.len() as u64;
    story.main(started("two")).main(prompted("two")).main(replied("answer", &[])).main(ended());
    let past = story.past();
    let kept = [prompted("go"), walked(), ended(), prompted("two"), replied("answer", &[])];
    assert_eq!(past.conversation(), kept);
    story.main(EventKind::Rewound { to: Seq(before) });
    assert_eq!(story.past().conversation(), &kept[..3]);
}

#[test]
fn a_summary_takes_the_place_of_what_it_sums_up() {
    let mut story = Story::new();
    story.calls("a", "Read").main(finished("a", "x")).main(replied("one", &[]));
    story.main(prompted("two")).main(replied("answer", &[])).main(compacted(1));
    let past = story.past();
    let kept = [prompted("two"), replied("answer", &[]), compacted(1)];
    assert_eq!(past.conversation(), kept);
    assert_eq!(past.summed_up_calls(), [CallId::from("a")]);
    story.main(compacted(9));
    assert_eq!(story.past().conversation(), [&kept[..], &[compacted(9)]].concat());
    story.main(compacted(0));
    assert_eq!(story.past().conversation(), [compacted(0)]);
}

/// A request of main that was given up, or is made again.
fn request_failed(next: AfterFailure) -> EventKind {
    EventKind::RequestFailed(Arc::new(RequestFailed {
        model: "m".into(),
        attempt: 1,
        status: Some(400),
        message: "no".into(),
        usage: Usage::default(),
        took_ms: 1,
        next,
    }))
}

#[test]
fn prompts_around_a_request_that_was_given_up_are_one_message() {
    let failed = || request_failed(AfterFailure::Nothing);
    let mut story = Story::new();
    story.main(request_failed(AfterFailure::Compact)).main(failed()).main(failed());
    story.main(prompted("two")).main(replied("one", &[]));
    let kept = [prompted("go"), failed(), prompted("two"), replied("one", &[])];
    assert_eq!(story.past().conversation(), kept);
    // The summary keeps both prompts, since they were sent as one.
    story.main(compacted(1));
    assert_eq!(story.past().conversation(), [&kept[..], &[compacted(1)]].concat());
    story.main(prompted("three")).main(replied("two", &[])).main(compacted(1));
    let last = [prompted("three"), replied("two", &[]), compacted(1)];
    assert_eq!(story.past().conversation(), last);
}

#[test]
fn a_joined_prompt_is_kept_alone_once_those_before_it_are_left_out() {
    let failed = || request_failed(AfterFailure::Nothing);
    let parted = || request_failed(AfterFailure::LeaveOut);
    let mut story = Story::new();
    story.main(failed()).main(prompted("two")).main(failed()).main(prompted("three"));
    story.main(parted()).main(compacted(1));
    let kept = [prompted("three"), parted(), compacted(1)];
    assert_eq!(story.past().conversation(), kept);
    // The next one is joined with it, and parted again.
    story.main(failed()).main(prompted("four")).main(parted()).main(compacted(1));
    let kept = [prompted("four"), parted(), compacted(1)];
    assert_eq!(story.past().conversation(), kept);
}

#[test]
fn what_main_has_gone_back_behind_is_no_part_of_its_conversation() {
    let mut story = Story::new();
    story.main(replied("one", &[])).main(ended()).main(started("two")).main(prompted("two"));
    story.calls("a", "Read").main(finished("a", "x")).main(replied("done", &[])).main(ended());
    let before = story.past();
    story.main(EventKind::Rewound { to: Seq(5) });
    let past = story.past();
    assert_eq!(past.conversation(), [prompted("go"), replied("one", &[])]);
    assert_eq!(past.summed_up_calls(), [CallId::from("a")], "no call has that id again");
    let mut taken = before;
    taken.take(story.events.last().unwrap());
    assert_eq!(taken, past);

    story.main(compacted(1)).main(prompted("three"));
    assert_eq!(story.past().rewinds_to(), Seq(14));
    story.main(EventKind::Rewound { to: Seq(2) });
    let kept = [prompted("go"), replied("one", &[]), compacted(1)];
    assert_eq!(story.past().conversation(), kept, "what was summed up is not held any more");
}

#[test]
fn units_that_were_set_aside_are_news_when_they_end() {
    let mut story = Story::new();
    story.calls("c", "Agent");
    story.push(1, "1", EventKind::UnitQueued(head("c", 0)));
    story.push(2, "2", EventKind::UnitQueued(head("c", 1)));
    story.end(1).main(EventKind::SetAside { units: vec![UnitId(2)] });
    story.push(0, "1", joined(&[1])).push(0, "1", finished("c", "one, and one to come"));
    story.push(0, "1", ended()).end(2);
    assert_eq!(untold(&story.past()), [2]);
    story.push(0, "1-2", joined(&[2])).push(0, "1-2", notified(&[2]));
    assert_eq!(story.past().units().len(), 0);
}

#[test]
fn a_conversation_with_damaged_lines_can_still_be_sent() {
    let mut story = Story::default();
    // The prompt's line is lost, and so is that of an output.
    story.main(opened()).main(started("go")).calls("a", "Read").main(replied("done", &[]));
    let lost = EventKind::ToolFinished {
        call: "a".into(),
        tool: "Read".into(),
        output: Arc::new(Output::error(
            "The output of this call was lost: the log of the session is damaged.",
        )),
        took_ms: 0,
    };
    let expected = [prompted("go"), replied("", &["a"]), lost, replied("done", &[])];
    assert_eq!(story.past().conversation(), expected);
    // An output whose call cannot be read answers nothing.
    story.main(finished("gone", "x"));
    assert_eq!(story.past().conversation(), expected);
}

#[test]
fn the_account_is_of_the_last_invocation() {
    let mut story = Story::new();
    story.calls("c", "Agent").push(1, "1", EventKind::UnitQueued(head("c", 0)));
    story.push(1, "1", EventKind::UnitStarted).main(tool_started("c", "Bash"));
    story.main(finished("c", CUT_OFF));
    let past = story.past();
    let unit = ("look".into(), UnitState::Running);
    assert_eq!(past.account().units, BTreeMap::from([(UnitId(1), unit)]));
    let (call, tool, subject) = ("c".into(), "Bash".into(), "it".into());
    assert_eq!(past.account().cut_off, [CutOff { unit: UnitId::MAIN, call, tool, subject }]);
    assert_eq!((&*past.account().prompt, &past.account().outcome), ("go", &None));
    story.main(ended()).main(started("more"));
    assert_eq!(story.past().account(), &Account { prompt: "more".into(), ..Account::default() });
}

#[test]
fn what_only_holds_the_branch_of_steps_is_in_no_account() {
    let mut story = Story::new();
    let holder = UnitHead { call: None, origin: Origin::Steps, ..head("c", 0) };
    story.push(1, "1", EventKind::UnitQueued(holder));
    let inside = UnitHead { call: None, parent: UnitId(1), ..head("c", 0) };
    story.push(2, "1", EventKind::UnitQueued(inside));
    let past = story.past();
    assert_eq!(past.account().units.keys().copied().collect::<Vec<_>>(), [UnitId(2)]);
}

#[test]
fn what_works_beside_main_outlives_an_invocation_with_all_it_waits_for() {
    let mut story = Story::new();
    story.fork(1);
    let inner = UnitHead { parent: UnitId(1), ..head("x", 0) };
    story.push(2, "1", EventKind::UnitQueued(inner.clone()));
    story.push(3, "1", EventKind::UnitQueued(UnitHead { parent: UnitId(2), ..inner }));
    story.push(4, "4", EventKind::UnitQueued(head("c", 0)));
    story.main(ended());
    let open = |story: &Story| story.past().units().keys().copied().collect::<Vec<_>>();
    assert_eq!(open(&story), [1, 2, 3].map(UnitId));
    story.main(started("more"));
    assert_eq!(open(&story), [1, 2, 3].map(UnitId));
    let named: Vec<UnitId> = story.past().account().units.keys().copied().collect();
    assert_eq!(named, [1, 2, 3].map(UnitId), "it may be cut off in this one");
    // Main that is told news works on what was asked before.
    story.main(ended()).main(started(""));
    assert_eq!(&*story.past().account().prompt, "more");
}

#[test]
fn numbers_that_nothing_could_follow_are_damage() {
    let root = tempfile::tempdir().unwrap();
    let mut log = SessionLog::create(root.path()).unwrap();
    let whole = event(1, opened());
    let huge = [
        Event { seq: Seq(u64::MAX), ..event(2, started("x")) },
        Event { unit: UnitId(u32::MAX), ..event(2, EventKind::UnitStarted) },
        Event { invocation: Invocation(u32::MAX), ..event(2, started("x")) },
    ];
    for event in [whole].iter().chain(&huge) {
        log.append(event).unwrap();
    }
    let past = Past::read(root.path()).unwrap();
    assert_eq!((past.last(), past.next_unit(), past.bad_lines()), (Seq(1), UnitId(1), 3));
}

fn any_kind() -> impl Strategy<Value = EventKind> {
    let id = prop::sample::select(vec!["a", "b", "c"]);
    let units = prop::collection::vec(1_u32..4, 0..3);
    let text = prop::sample::select(vec!["x", CUT_OFF, "a \"quoted\" \n text"]);
    prop_oneof![
        Just(started("go")),
        text.clone().prop_map(prompted),
        (text.clone(), prop::collection::vec(id.clone(), 0..3))
            .prop_map(|(text, calls)| replied(text, &calls)),
        id.clone().prop_map(|id| tool_started(id, "Bash")),
        (id.clone(), text.clone()).prop_map(|(id, text)| finished(id, text)),
        (id.clone(), text).prop_map(|(id, text)| EventKind::Denied {
            call: id.into(),
            tool: "Bash".into(),
            arguments: "{}".into(),
            reason: text.into(),
        }),
        (id, 0_u32..3, any::<bool>()).prop_map(|(id, parent, is_background)| {
            let parent = UnitId(parent);
            EventKind::UnitQueued(UnitHead { parent, is_background, ..head(id, 0) })
        }),
        Just(EventKind::UnitStarted),
        Just(EventKind::Lost { worker: "w-7".into(), attempt: 1 }),
        Just(EventKind::TurnStarted { turn: 3 }),
        Just(EventKind::UnitEnded(Arc::new(unit_end("y")))),
        units.clone().prop_map(|units| joined(&units)),
        units.prop_map(|units| notified(&units)),
        (0_u32..3).prop_map(compacted),
        Just(EventKind::Notice { level: NoticeLevel::Info, text: "x".into() }),
        Just(ended()),
    ]
}

proptest! {
    /// What is only skimmed changes nothing.
    #[test]
    fn a_log_is_read_to_what_its_events_come_to(
        kinds in prop::collection::vec((0_u32..4, 1_u32..3, 0_u64..5, any_kind()), 0..40),
    ) {
        let root = tempfile::tempdir().unwrap();
        let (mut log, mut folded) = (Vec::new(), Past::default());
        for (seq, (unit, invocation, token, kind)) in (1..).zip(kinds) {
            let tokens = [Token(token)].into_iter().filter(|token| token.0 > 0).collect();
            let branch = Branch { tokens, path: BranchPath::main() };
            let (unit, invocation) = (UnitId(unit), Invocation(invocation));
            let event = Event { unit, invocation, branch, ..event(seq, kind) };
            line::encode(&event, &mut log);
            folded.take(&event);
        }
        // Not by a writer, which would sync each of many logs.
        std::fs::write(root.path().join(LOG), log).unwrap();
        prop_assert_eq!(Past::read(root.path()).unwrap(), folded);
    }
}
