//! Units that make the same call over and over: what their models are told,
//! how they end, and what is no loop.

use serde_json::{Value, json};
use tine::event::{EventKind, FailureKind, Outcome, UnitId, UnitState};
use tine::guard::Mode;

use crate::support::inside::{Setup, Story};

fn call(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

/// A look at a file that is not there.
fn look(name: &str) -> Value {
    call("Read", json!({ "file_path": name }))
}

/// A reply with these calls, for every turn that is left.
fn over_and_over(text: &str, calls: Value) -> Value {
    json!({ "text": text, "calls": calls, "repeat": true })
}

async fn play(main: Value) -> Story {
    Setup::new(json!({ "units": { "main": main } })).run().await
}

/// Cuts the notice off an output, and says which one in a row it speaks of.
fn told(output: &str) -> (&str, Option<&str>) {
    match output.split_once("\n\n[Call ") {
        Some((text, notice)) => (text, notice.split(' ').next()),
        None => (output, None),
    }
}

fn looped(message: &str) -> Outcome {
    Outcome::failed(FailureKind::Loop, message)
}

const READ_FIVE_TIMES: &str =
    "made the same call of Read 5 times in a row, always with the same output";

#[tokio::test(start_paused = true)]
async fn main_is_told_twice_and_then_ends_with_what_it_had_said() {
    let story = play(json!([over_and_over("I look.", json!([look("x")]))])).await;
    assert_eq!(story.end.outcome, looped(READ_FIVE_TIMES));
    assert_eq!(&*story.end.text, "I look.");
    let missing = "There is no file x.";
    let outputs = story.outputs(UnitId::MAIN);
    assert_eq!(
        outputs.iter().map(|output| told(output)).collect::<Vec<_>>(),
        [
            (missing, None),
            (missing, None),
            (missing, Some("3")),
            (missing, Some("4")),
            (missing, None)
        ]
    );
    insta::assert_snapshot!(outputs[2], @"
    There is no file x.

    [Call 3 in a row of `Read` with the same arguments and the same output. One more would bring nothing new. Do something else: other arguments, another tool, another way. If you wait for something, wait longer within one call. If you cannot go on, say what you have found and what is in the way. At 5 in a row your work is ended.]
    ");
}

#[tokio::test(start_paused = true)]
async fn what_the_tool_is_called_and_how_the_arguments_are_written_changes_nothing() {
    let story = play(json!([
        { "calls": [call("Read", json!("{\"file_path\": \"x\", \"limit\": 1}"))] },
        { "calls": [call("read", json!("{\"limit\":1,\"file_path\":\"x\"}"))] },
        { "calls": [call("READ", json!("\n{ \"limit\": 1, \"file_path\": \"x\" }"))] },
        { "text": "enough", "expect": { "contains": ["[Call 3 in a row of `Read`"] } },
    ]))
    .await;
    assert_eq!(story.end.outcome, Outcome::Done { text: "enough".into() });
}

#[tokio::test(start_paused = true)]
async fn calls_that_come_together_again_and_again_are_a_loop() {
    let both = json!([look("x"), call("Glob", json!({ "pattern": "*.none" }))]);
    let story = play(json!([over_and_over("", both)])).await;
    // Whichever ends first.
    let Outcome::Failed(failure) = &story.end.outcome else { panic!("{:?}", story.end) };
    assert_eq!(failure.kind, FailureKind::Loop);
    let outputs = story.outputs(UnitId::MAIN);
    let notices: Vec<_> = outputs.iter().filter_map(|output| told(output).1).collect();
    assert_eq!((outputs.len(), notices), (10, vec!["3", "3", "4", "4"]));
}

#[tokio::test(start_paused = true)]
async fn two_calls_by_turns_are_a_loop_that_ends_within_twelve_calls() {
    let turns: Vec<Value> = (0..40)
        .map(|turn| json!({ "text": "I look.", "calls": [look(["x", "y"][turn % 2])] }))
        .collect();
    let story = play(json!(turns)).await;
    let message =
        "repeated the same 2 turns 5 times in a row, always with the same calls and outputs";
    assert_eq!(story.end.outcome, looped(message));
    let outputs = story.outputs(UnitId::MAIN);
    assert_eq!(outputs.len(), 10);
    let notices = outputs.iter().filter(|output| output.contains("\n\n[Round ")).count();
    assert_eq!(notices, 4);
    insta::assert_snapshot!(outputs[5], @"
    There is no file y.

    [Round 3 of the same 2 turns, with the same calls, arguments and outputs. One more round would bring nothing new. Do something else: other arguments, another tool, another way. If you wait for something, wait longer within one call. If you cannot go on, say what you have found and what is in the way. After 5 rounds your work is ended.]
    ");
}

#[tokio::test(start_paused = true)]
async fn five_calls_in_one_answer_are_told_and_end_nothing() {
    let story = play(json!([
        { "calls": vec![look("x"); 5] },
        { "text": "I see.", "expect": { "contains": ["[Call 5 in a row of `Read`"] } },
    ]))
    .await;
    assert_eq!(story.end.outcome, Outcome::Done { text: "I see.".into() });
    let story = play(json!([{ "calls": vec![look("x"); 5] }, { "calls": [look("x")] }])).await;
    assert_eq!(story.end.outcome, looped(&READ_FIVE_TIMES.replace('5', "6")));
}

#[tokio::test(start_paused = true)]
async fn calls_whose_outputs_differ_never_count() {
    let turn = |number: u32| {
        let content = json!({ "file_path": "log", "content": number.to_string() });
        json!({ "calls": [call("Write", content), look("log")] })
    };
    let turns: Vec<Value> = (0..12).map(turn).chain([json!({ "text": "done" })]).collect();
    let script = json!({ "units": { "main": turns } });
    let story = Setup::new(script).mode(Mode::AcceptEdits).run().await;
    assert_eq!(story.end.outcome, Outcome::Done { text: "done".into() });
    let outputs = story.outputs(UnitId::MAIN);
    assert_eq!(outputs.iter().filter_map(|output| told(output).1).count(), 0, "{outputs:?}");
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_is_caught_in_a_loop_ends_alone() {
    let task =
        |name: &str| json!({ "description": name, "prompt": name, "subagent_type": "explore" });
    let script = json!({ "units": {
        "main": [
            { "calls": [call("Agent", json!({ "tasks": [task("a"), task("b")] }))] },
            { "text": "done" },
        ],
        "a": [over_and_over("a so far", json!([look("x")]))],
        "b": [{ "calls": [look("x")] }, { "text": "found b" }],
    } });
    let story = Setup::new(script).run().await;
    assert_eq!(story.end.outcome, Outcome::Done { text: "done".into() });
    assert_eq!(story.states(), [UnitState::Failed, UnitState::Completed]);
    let end = story.events.iter().find_map(|event| match &event.kind {
        EventKind::UnitEnded(end) if event.unit == UnitId(1) => Some(end),
        _ => None,
    });
    assert_eq!(
        end.map(|end| (&end.outcome, &*end.text)),
        Some((&looped(READ_FIVE_TIMES), "a so far"))
    );
    assert_eq!(
        story.outputs(UnitId::MAIN),
        [format!(
            "## Task 1: a (explore)\n\n[failed: {READ_FIVE_TIMES}]\n\nPartial result:\n\na so far\n\n\
             ---\n\n## Task 2: b (explore)\n\nfound b"
        )]
    );
}

/// An agent that takes long, and main looks at it again and again.
#[tokio::test(start_paused = true)]
async fn waiting_for_an_agent_that_is_out_is_no_loop_however_often() {
    let polls = [
        call("TaskWait", json!({ "timeout_s": 1 })),
        call("TaskOutput", json!({ "task_id": "agent-1", "timeout": 1_000 })),
        call("TaskList", json!({})),
    ];
    for poll in polls {
        let slow = json!({ "description": "slow", "prompt": "slow", "subagent_type": "explore",
            "run_in_background": true });
        let mut main = vec![json!({ "calls": [call("Agent", slow)] })];
        // It is seen in four states at most, one after the other, so some five
        // looks in a row see the same, however late it begins.
        main.extend(vec![json!({ "calls": [poll.clone()] }); 24]);
        main.extend([json!({ "text": "not yet" }), json!({ "text": "all" })]);
        let script =
            json!({ "units": { "main": main, "slow": [{ "text": "found", "delay_ms": 60_000 }] } });
        let story = Setup::new(script).run().await;
        assert_eq!(story.end.outcome, Outcome::Done { text: "all".into() }, "{poll}");
        // Five alike would be a loop.
        let outputs = story.outputs(UnitId::MAIN);
        let alike = |one: &&_| outputs.iter().filter(|other| other == one).count();
        assert!(outputs.iter().any(|one| alike(&one) >= 5), "{outputs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn looking_at_agents_that_have_ended_is_a_loop_as_any_other() {
    let quick = json!({ "description": "quick", "prompt": "quick", "subagent_type": "explore",
        "run_in_background": true });
    let script = json!({ "units": {
        "main": [
            { "calls": [call("Agent", quick)] },
            over_and_over("", json!([call("TaskOutput", json!({ "task_id": "agent-1" }))])),
        ],
        "quick": [{ "text": "found" }],
    } });
    let story = Setup::new(script).run().await;
    assert_eq!(story.end.outcome, looped(&READ_FIVE_TIMES.replace("Read", "TaskOutput")));
}

/// What was counted is in no log: a session that is gone on with has its five
/// calls again.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_resumed_counts_anew() {
    let looking = json!([over_and_over("I look.", json!([look("x")]))]);
    let story = play(looking.clone()).await;
    let all = story.events.len();
    let story = Setup::new(json!({ "units": { "main": looking } })).run_after(story, all).await;
    assert_eq!(story.end.outcome, looped(READ_FIVE_TIMES));
    let outputs = story.outputs(UnitId::MAIN);
    let told: Vec<_> = outputs.iter().map(|output| told(output).1.is_some()).collect();
    assert_eq!(told, [false, false, true, true, false, false, false, true, true, false]);
}
