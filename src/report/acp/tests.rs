//! What an editor is shown of runs that are written down here.

use serde_json::{Value, json};

use super::*;
use crate::event::{ChangedBy, Digest, FileChange, FileState};
use crate::message::{Call, Output, Reply};
use crate::report::difference::BothSides;
use crate::report::story::{Story, cancelled, done, failed, skipped, text_delta, thinking_delta};

/// Files that nobody can read.
fn nothing() -> Reads {
    Reads { sides: Box::new(|_| None), now: Box::new(|_| Now::Unshown) }
}

fn view() -> View {
    View::new(Shows::default(), PathBuf::from("/w"), Some(1_000), nothing())
}

/// Returns the updates among what is told, as they go out.
fn updates(view: &mut View) -> Vec<Value> {
    let update = |told: Told| match told {
        Told::Update(update) => Some(serde_json::to_value(*update).unwrap()),
        Told::Asked(_) | Told::Answered(_) | Told::Began | Told::Beside { .. } | Told::Ended(_) => {
            None
        }
    };
    view.told().into_iter().filter_map(update).collect()
}

fn of(mut view: View, story: &Story) -> Vec<Value> {
    story.events().iter().for_each(|event| view.event(event));
    updates(&mut view)
}

/// Returns each update's kind and its text.
fn texts(updates: &[Value]) -> Vec<(&str, &str)> {
    let text = |update: &'_ Value| update["content"]["text"].as_str().is_some();
    let told = updates.iter().filter(|update| text(update));
    told.map(|it| (it["sessionUpdate"].as_str().unwrap(), it["content"]["text"].as_str().unwrap()))
        .collect()
}

const ANSWER: &str = "agent_message_chunk";
const THOUGHT: &str = "agent_thought_chunk";

#[test]
fn pieces_are_gathered_and_an_answer_that_was_shown_is_not_shown_again() {
    let mut view = view();
    let mut story = Story::new();
    story.turn(0, 1).reply(0, "Hello.", 3, 4);
    view.event(&story.events()[0]);
    for delta in
        [thinking_delta(0, "h"), thinking_delta(0, "m"), text_delta(0, "Hel"), text_delta(0, "lo.")]
    {
        view.delta(&delta);
    }
    view.event(&story.events()[1]);
    assert_eq!(texts(&updates(&mut view)), [(THOUGHT, "hm"), (ANSWER, "Hello.")]);
    let long = "x".repeat(CHUNK_CAP);
    view.delta(&text_delta(0, &long));
    assert_eq!(texts(&updates(&mut view)), [(ANSWER, &*long)]);
}

#[test]
fn what_only_holds_the_branch_of_steps_is_no_call_and_its_own_failure_a_warning() {
    let updates = of(view(), &Story::angles());
    let calls = updates.iter().filter(|update| update["sessionUpdate"] == "tool_call");
    let calls: Vec<&str> = calls.map(|call| call["toolCallId"].as_str().unwrap()).collect();
    assert_eq!(calls, ["agent-4", "agent-5"]);
    let others =
        |update: &&Value| update["toolCallId"].as_str().is_some_and(|call| !calls.contains(&call));
    assert_eq!(updates.iter().find(others), None);
    let warning = "warning: [tests] failed: for_each = \"x\": it gives none, and not a list\n\n";
    assert!(texts(&updates).contains(&(ANSWER, warning)), "{updates:?}");
}

#[test]
fn what_others_than_main_write_is_not_mixed_into_its_answer() {
    let mut view = view();
    view.delta(&text_delta(1, "slot"));
    view.flush();
    assert_eq!(updates(&mut view), [] as [Value; 0]);
}

#[test]
fn an_answer_that_is_asked_for_again_is_a_message_of_its_own() {
    let mut view = view();
    let mut story = Story::new();
    story.turn(0, 1).retried(0, 1, Some(500)).reply(0, "whole", 1, 1);
    view.event(&story.events()[0]);
    view.delta(&text_delta(0, "wh"));
    view.event(&story.events()[1]);
    view.event(&story.events()[2]);
    let told = updates(&mut view);
    assert_eq!(texts(&told), [(ANSWER, "wh"), (ANSWER, "whole")]);
    assert_ne!(told[0]["messageId"], told[1]["messageId"]);
}

#[test]
fn every_end_of_a_slot_is_told_with_its_reason() {
    let mut story = Story::new();
    story.invocation("go").batch("call", &["a", "b", "c", "d"]);
    story.start(1).start(2).start(3);
    story.end(1, done("found")).end(2, failed("HTTP 500")).end(3, cancelled()).end(4, skipped());
    let told = of(view(), &story);
    let ends: Vec<_> = told
        .iter()
        .filter(|update| !update["rawOutput"].is_null())
        .map(|it| (&it["status"], &it["rawOutput"]["state"], &it["content"][0]["content"]["text"]))
        .map(|(status, state, text)| json!([status, state, text]))
        .collect();
    let expected = [
        json!(["completed", "completed", "found"]),
        json!(["failed", "failed", "failed: HTTP 500"]),
        json!(["failed", "cancelled", "cancelled"]),
        json!(["failed", "skipped", "cancelled before it started"]),
    ];
    assert_eq!(ends, expected);
    let queued = told.iter().find(|update| update["toolCallId"] == "agent-1").unwrap();
    let ours = json!({ "agent": "agent-1", "state": "queued", "parentToolCallId": "call" });
    assert_eq!((&queued["title"], &queued["_meta"]["tine"]), (&json!("reviewer: a"), &ours));
}

#[test]
fn a_past_shows_what_was_typed_and_ends_what_was_cut_off() {
    let call =
        Call { id: "c1".into(), tool: "Bash".into(), arguments: r#"{"command":"make"}"#.into() };
    let reply = Reply { calls: vec![call], ..Reply::default() };
    let mut story = Story::new();
    story.invocation("build it").replied(0, reply, Usage::default());
    story.batch("c2", &["a"]).start(1);
    let mut view = view().past();
    story.events().iter().for_each(|event| view.event(event));
    view.cut_off();
    let told = updates(&mut view);
    assert_eq!(texts(&told), [("user_message_chunk", "build it")]);
    let last = |id: &str| told.iter().rfind(|update| update["toolCallId"] == id).unwrap();
    for (id, why) in
        [("c1", "interrupted, state unknown"), ("agent-1", "the process ended before it did")]
    {
        assert_eq!(
            (&last(id)["status"], &last(id)["content"][0]["content"]["text"]),
            (&json!("failed"), &json!(why))
        );
    }
}

#[test]
fn arguments_that_are_no_json_are_shown_as_they_are() {
    let call = Call { id: "c1".into(), tool: "read_file".into(), arguments: "{oops".into() };
    let reply = Reply { calls: vec![call], ..Reply::default() };
    let mut story = Story::new();
    story.replied(0, reply, Usage::default());
    let output = EventKind::ToolFinished {
        call: "c1".into(),
        tool: "Read".into(),
        output: Arc::new(Output::error("no JSON")),
        took_ms: 1,
    };
    story.push(0, output);
    let told = of(view(), &story);
    assert_eq!((&told[0]["name"], &told[0]["kind"]), (&json!("Read"), &json!("read")));
    assert_eq!(told[0]["rawInput"], json!({ "_raw": "{oops" }));
    let last = told.last().unwrap();
    assert_eq!((&last["status"], &last["rawOutput"]["isError"]), (&json!("failed"), &json!(true)));
}

#[test]
fn a_turn_ends_for_the_reason_that_the_protocol_has_a_word_for() {
    let end = |outcome, cancel| InvocationEnd {
        outcome,
        text: "".into(),
        cancel,
        unfinished: Vec::new(),
    };
    let limit = |kind| Outcome::failed(kind, "limit");
    for (outcome, cancel, expected) in [
        (done("x"), None, Ended::Stopped(StopReason::EndTurn)),
        (
            cancelled(),
            Some(crate::event::CancelReason::Interrupt),
            Ended::Stopped(StopReason::Cancelled),
        ),
        (limit(FailureKind::MaxTurns), None, Ended::Stopped(StopReason::MaxTurnRequests)),
        (limit(FailureKind::MaxTokens), None, Ended::Stopped(StopReason::MaxTokens)),
        (limit(FailureKind::Provider), None, Ended::Failed("limit".to_owned())),
    ] {
        let mut view = view();
        view.ended(&end(outcome, cancel));
        let [Told::Ended(ended)] = &view.told()[..] else { panic!("one end is told") };
        assert_eq!(*ended, expected);
    }
}

#[test]
fn how_full_the_window_is_is_told_with_each_answer_of_main() {
    let mut story = Story::new();
    story.turn(0, 1).reply(0, "a", 100, 20).batch("b", &["x"]).start(1).reply(1, "b", 7, 7);
    let told = of(view(), &story);
    let used: Vec<_> = told.iter().filter(|it| it["sessionUpdate"] == "usage_update").collect();
    assert_eq!(used.len(), 1);
    assert_eq!((&used[0]["used"], &used[0]["size"]), (&json!(120), &json!(1_000)));
}

#[test]
fn what_a_call_changed_is_shown_up_to_a_bound_and_named_beyond_it() {
    let half = "x".repeat(1 << 19);
    let read = half.clone();
    let reads = Reads {
        sides: Box::new(move |_| {
            Some(BothSides { before: read.clone().into(), after: read.clone().into() })
        }),
        now: Box::new(|_| Now::Unshown),
    };
    let mut view = View::new(Shows::default(), PathBuf::from("/w"), None, reads);
    let call = Call { id: "c1".into(), tool: "ApplyPatch".into(), arguments: "{}".into() };
    let mut story = Story::new();
    story.replied(0, Reply { calls: vec![call], ..Reply::default() }, Usage::default());
    let state = Some(FileState { digest: Digest::of(half.as_bytes()), mode: 0o644 });
    for number in 0..10 {
        let change = FileChange {
            path: format!("/w/{number}").into(),
            by: ChangedBy::Call("c1".into()),
            before: state,
            after: state,
            directories: 0,
        };
        story.push(0, EventKind::FileChanged(Arc::new(change)));
    }
    let output = Arc::new(Output::ok("done"));
    let (call, tool) = ("c1".into(), "ApplyPatch".into());
    story.push(0, EventKind::ToolFinished { call, tool, output, took_ms: 1 });
    story.events().iter().for_each(|event| view.event(event));
    let told = updates(&mut view);
    let last = told.last().unwrap();
    assert_eq!(last["content"].as_array().unwrap().len(), 4);
    assert_eq!(last["locations"].as_array().unwrap().len(), 10);
}

#[test]
fn what_a_session_has_come_to_goes_on() {
    let mut story = Story::new();
    story.invocation("first").turn(0, 1).reply(0, "a", 100, 20);
    let mut before = view().past();
    story.events().iter().for_each(|event| before.event(event));
    let mut after = view().after(before.so_far());
    story.events().iter().for_each(|event| after.event(event));
    let told = updates(&mut after);
    assert!(told.iter().all(|it| it["sessionUpdate"] != "session_info_update"), "{told:?}");
    let (once, twice) = (before.so_far(), after.so_far());
    assert_eq!(twice.used.total(), 2 * once.used.total());
}
