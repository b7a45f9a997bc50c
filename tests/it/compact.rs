//! Summaries that take the place of a conversation: when they are asked for,
//! with which bytes, and what is sent afterwards.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tine::agent::{History, Opening, REQUEST_CAP, SUMMARY_CAP};
use tine::branch::Branch;
use tine::event::{
    CancelReason, Compaction, CompactionTrigger, Event, EventKind, FailureKind, NoticeLevel,
    Outcome, Replied, UnitId, UnitState,
};
use tine::line::Told;
use tine::message::{Cost, Head, Reply, StopReason, Usage, Usd};
use tine::model::Model;
use tine::model::check;
use tine::model::served::{Served, ServedSettings};
use tine::run::Signal;

use crate::support::inside::{Setup, Story};
use crate::support::server::{Reaction, RecordedRequest, Server, events};
use crate::support::talk::serve;
use crate::support::tine::Place;

/// What every request for a summary says, and no other message.
const ASKS_FOR_SUMMARY: &str = "Write a summary of this conversation.";

/// The context window of the models here. They are compacted at 800 tokens.
const WINDOW: u64 = 1_000;

/// The answer of a model that says something, makes at most one call, and has
/// counted what it was sent.
fn counted(sent: u64, text: &str, call: Option<(&str, Value)>) -> Reaction {
    let calls = call.map(|(name, arguments)| {
        json!([{ "index": 0, "id": format!("call_{text}"), "type": "function",
            "function": { "name": name, "arguments": arguments.to_string() } }])
    });
    let finish = if calls.is_some() { "tool_calls" } else { "stop" };
    let delta = json!({ "role": "assistant", "content": text, "tool_calls": calls });
    let usage = json!({ "prompt_tokens": sent, "completion_tokens": 10 });
    let mut bytes = events([
        &json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] }),
        &json!({ "choices": [], "usage": usage }),
    ]);
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    Reaction::stream(bytes)
}

fn glob() -> Option<(&'static str, Value)> {
    Some(("Glob", json!({ "pattern": "*" })))
}

fn http(server: &Server) -> Arc<Served> {
    let settings = ServedSettings {
        context_window: WINDOW,
        ..ServedSettings::new("m", "m", server.base_url())
    };
    Arc::new(Served::new(settings).expect("the settings can be sent"))
}

fn text_of(request: &RecordedRequest) -> &str {
    std::str::from_utf8(&request.body).expect("the client sends JSON")
}

fn is_summary(request: &RecordedRequest) -> bool {
    text_of(request).contains(ASKS_FOR_SUMMARY)
}

#[track_caller]
fn check_holds(request: &RecordedRequest, there: &[&str], not_there: &[&str]) {
    let text = text_of(request);
    for wanted in there {
        assert!(text.contains(wanted), "no `{wanted}` in {text}");
    }
    for unwanted in not_there {
        assert!(!text.contains(unwanted), "`{unwanted}` in {text}");
    }
}

/// The bytes from the first user message on, without the end.
fn messages_of(body: &[u8]) -> &[u8] {
    let user = br#"{"role":"user""#;
    let start = body.windows(user.len()).position(|window| window == user);
    &check::stem(body)[start.expect("a request has a user message")..]
}

fn compactions(story: &Story, unit: UnitId) -> Vec<&Compaction> {
    let of_unit = story.events.iter().filter(|event| event.unit == unit);
    let compacted = of_unit.filter_map(|event| match &event.kind {
        EventKind::Compacted(compaction) => Some(&**compaction),
        _ => None,
    });
    compacted.collect()
}

/// The names of a unit's events, without those that say nothing here.
fn course(story: &Story, unit: UnitId) -> Vec<&'static str> {
    let of_unit = story.events.iter().filter(|event| event.unit == unit);
    let name = |event: &Event| match &event.kind {
        EventKind::TurnStarted { .. } => Some("turn"),
        EventKind::Replied(_) => Some("reply"),
        EventKind::ToolFinished { .. } => Some("output"),
        EventKind::Joined { .. } => Some("joined"),
        EventKind::Compacted(_) => Some("compacted"),
        EventKind::Notice { level: NoticeLevel::Warning, .. } => Some("warning"),
        EventKind::UnitEnded(_) | EventKind::InvocationEnded(_) => Some("end"),
        _ => None,
    };
    of_unit.filter_map(name).collect()
}

fn warnings(story: &Story) -> Vec<&str> {
    let told = story.events.iter().filter_map(|event| match &event.kind {
        EventKind::Notice { level: NoticeLevel::Warning, text } => Some(&**text),
        _ => None,
    });
    told.collect()
}

#[tokio::test]
async fn a_long_conversation_goes_on_from_its_summary() {
    let todos = json!({ "todos": [{ "content": "paint the fence", "status": "pending" }] });
    let server = Server::start(move |request| match request.sequence {
        0 => counted(300, "FIRST", Some(("TodoWrite", todos.clone()))),
        1 => counted(800, "SECOND", glob()),
        2 => counted(850, "IN-SHORT", glob()),
        _ => counted(200, "done", None),
    });
    let model = http(&server);
    let story = Setup::on(Arc::clone(&model) as _).run().await;
    let requests = server.finish();
    assert_eq!(requests.iter().map(is_summary).collect::<Vec<_>>(), [false, false, true, false]);

    // The provider has read all of the summary's request but its end before.
    assert_eq!(check::check_continues(&requests[1].body, &requests[2].body), Ok(()));
    check_holds(&requests[2], &["FIRST", "paint the fence", "Todo list", "SECOND"], &[]);
    check_holds(&requests[3], &["IN-SHORT"], &["FIRST", "paint the fence", "SECOND", "\"tool\""]);
    let [before, after] = [&requests[2], &requests[3]].map(|request| request.json());
    for name in ["model", "tools"] {
        assert_eq!(before[name], after[name]);
    }
    assert_eq!(before["messages"][0], after["messages"][0], "the system prompt stays");

    let turns = ["turn", "reply", "output", "turn", "reply", "output"];
    assert_eq!(
        course(&story, UnitId::MAIN),
        [&turns[..], &["compacted", "turn", "reply", "end"]].concat()
    );
    let [compaction] = compactions(&story, UnitId::MAIN)[..] else { panic!("not one") };
    assert_eq!((compaction.trigger, compaction.kept_prompts), (CompactionTrigger::Auto, 0));
    let cost = Cost { usd: Usd(0), is_partial: true };
    assert_eq!(compaction.usage, Usage { input: 850, output: 10, cost, ..Usage::default() });
    let (before, after) = (compaction.tokens_before, compaction.tokens_after);
    assert!((810..900).contains(&before) && (100..900).contains(&after), "{compaction:?}");
    // The call in the summary's answer was not looked at.
    assert_eq!(story.outputs(UnitId::MAIN).len(), 2);

    let up_to = |event: &&Event| !matches!(event.kind, EventKind::TurnStarted { turn: 3 });
    let events = story.events.iter().take_while(up_to).filter(|event| event.unit == UnitId::MAIN);
    let head = Arc::new(Head::new(String::new(), Vec::new()));
    let folded = History::of(head, events.map(|event| &event.kind));
    assert_eq!(messages_of(&model.body(folded.prefix())), messages_of(&requests[3].body));
}

/// Main starts two agents, one after the other. Both read something of their
/// own; the second has a long conversation. Main's own is long before it
/// starts them.
fn react_to_batch(request: &RecordedRequest) -> Reaction {
    let text = text_of(request);
    let has = |word: &str| text.contains(word);
    let task =
        |name: &str| json!({ "description": name, "prompt": name, "subagent_type": "explore" });
    let tasks = json!({ "tasks": [task("ask-left"), task("ask-right")] });
    let is_main = has("be good");
    match (is_main, is_summary(request), has("ask-left"), has("\"tool\"")) {
        (true, false, false, _) if has("MAIN-SHORT") => counted(100, "done", None),
        (true, false, _, _) => counted(900, "main", Some(("Agent", tasks))),
        (true, true, _, _) => counted(900, "MAIN-SHORT", None),
        (false, true, _, _) => counted(900, "RIGHT-SHORT", None),
        (false, false, true, false) => counted(100, "LEFT-INNER", glob()),
        (false, false, true, true) => counted(100, "LEFT-ANSWER", None),
        (false, false, false, _) if has("RIGHT-SHORT") => counted(100, "RIGHT-ANSWER", None),
        (false, false, false, _) => counted(900, "RIGHT-INNER", glob()),
    }
}

#[tokio::test]
async fn a_running_batch_is_not_cut_and_what_has_not_joined_is_in_no_summary() {
    let server = Server::start(react_to_batch);
    let story = Setup::on(http(&server)).cap(1).run().await;
    let requests = server.finish();
    let (left, right) = (UnitId(1), UnitId(2));
    assert_eq!(story.states(), [UnitState::Completed; 2]);

    let summaries: Vec<_> = requests.iter().filter(|request| is_summary(request)).collect();
    let [of_right, of_main] = summaries[..] else { panic!("{} summaries", summaries.len()) };
    check_holds(of_right, &["ask-right", "RIGHT-INNER"], &["LEFT", "ask-left", "be good"]);
    let joined = ["ask-left", "ask-right", "LEFT-ANSWER", "RIGHT-ANSWER"];
    check_holds(of_main, &joined, &["LEFT-INNER", "RIGHT-INNER", "RIGHT-SHORT"]);
    let before = |summary: &RecordedRequest| &requests[summary.sequence - 1];
    assert_eq!(check::check_continues(&before(of_right).body, &of_right.body), Ok(()));
    assert_eq!(check::check_continues(&requests[0].body, &of_main.body), Ok(()));
    let after = |summary: &RecordedRequest| &requests[summary.sequence + 1];
    let task = "<request>\\nask-right\\n</request>";
    check_holds(after(of_right), &["RIGHT-SHORT", task], &["RIGHT-INNER", "\"tool\""]);
    check_holds(after(of_main), &["MAIN-SHORT"], &["ANSWER", "ask-", "\"tool\""]);

    assert_eq!(compactions(&story, left).len(), 0);
    assert_eq!(
        course(&story, right),
        ["turn", "reply", "output", "compacted", "turn", "reply", "end"]
    );
    assert_eq!(
        course(&story, UnitId::MAIN),
        ["turn", "reply", "joined", "output", "compacted", "turn", "reply", "end"]
    );
    let branch = |unit: UnitId| {
        let mut of_unit = story.events.iter().filter(|event| event.unit == unit);
        let compacted = of_unit.find(|event| matches!(event.kind, EventKind::Compacted(_)));
        compacted.map(|event| event.branch.clone()).unwrap()
    };
    assert_eq!(branch(right).tokens.to_string(), "2");
    assert_eq!(branch(UnitId::MAIN), Branch::root());
}

/// A script of main whose turns have so many tokens and make a call, all but
/// the last.
fn turns(sizes: &[u64], summaries: Value) -> Value {
    let turn = |(index, size): (usize, &u64)| {
        let calls = if index + 1 < sizes.len() {
            json!([{ "name": "Glob", "arguments": { "pattern": format!("{index}*") } }])
        } else {
            json!([])
        };
        json!({ "text": format!("SAID-{index}"), "calls": calls, "usage": { "input": size } })
    };
    let turns: Vec<Value> = sizes.iter().enumerate().map(turn).collect();
    json!({ "context_window": WINDOW, "units": { "main": turns, "main:compact": summaries } })
}

#[tokio::test]
async fn the_second_summary_sums_up_the_first() {
    let mut script = turns(
        &[500, 850, 300, 850, 100],
        json!([
            { "text": "ONE", "expect": { "contains": ["go", "SAID-0", "SAID-1"] } },
            { "text": "TWO", "expect": { "contains": ["ONE", "SAID-2", "SAID-3"], "lacks": ["SAID-0"] } },
        ]),
    );
    script["units"]["main"][2]["expect"] = json!({ "contains": ["ONE"], "lacks": ["SAID-0"] });
    script["units"]["main"][4]["expect"] = json!({ "contains": ["TWO"], "lacks": ["ONE", "SAID"] });
    let story = Setup::new(script).run().await;
    assert_eq!(story.end.outcome, Outcome::Done { text: "SAID-4".into() });
    assert_eq!(warnings(&story), [""; 0]);
    let [_, second] = compactions(&story, UnitId::MAIN)[..] else { panic!("not two") };
    // The request in hand is there once, not the one that the first text holds.
    assert_eq!(second.text.matches("<request>").count(), 1, "{}", second.text);
    assert!(second.text.contains("<request>\ngo\n</request>"), "{}", second.text);
}

#[tokio::test]
async fn a_compaction_that_fails_is_told_changes_nothing_and_is_tried_again_later() {
    for (fault, reason) in [
        (json!({ "fault": { "error": { "status": 503, "message": "down" } } }), "HTTP 503: down"),
        (json!({ "fault": "cut" }), "the answer broke off before its end"),
        (json!({ "text": " \n", "thinking": "Hm" }), "the summary is empty"),
        (json!({ "calls": [{ "name": "Glob", "arguments": {} }] }), "the summary is empty"),
    ] {
        let mut script = turns(&[850, 870, 960, 100], json!([fault, { "text": "LATE" }]));
        let all = json!({ "contains": ["SAID-0", "SAID-1"] });
        script["units"]["main"][2]["expect"] = all;
        script["units"]["main"][3]["expect"] = json!({ "contains": ["LATE"], "lacks": ["SAID"] });
        let story = Setup::new(script).run().await;
        assert_eq!(story.end.outcome, Outcome::Done { text: "SAID-3".into() }, "{reason}");
        let turn = ["turn", "reply", "output"];
        let first = [&turn[..], &["warning"], &turn, &turn].concat();
        assert_eq!(
            course(&story, UnitId::MAIN),
            [&first[..], &["compacted", "turn", "reply", "end"]].concat()
        );
        let warning = format!("the conversation could not be compacted and goes on: {reason}");
        assert_eq!(warnings(&story), [warning]);
    }
}

#[tokio::test]
async fn a_conversation_that_stays_too_long_is_not_compacted_in_every_turn() {
    let summaries = json!([{ "text": "ONE" }, { "text": "TWO" }]);
    let story = Setup::new(turns(&[900, 900, 900, 950, 1_000, 900], summaries)).run().await;
    assert_eq!(story.end.outcome.state(), UnitState::Completed);
    let turn = ["turn", "reply", "output"];
    let until_it_has_grown = [&turn[..], &turn, &turn, &turn].concat();
    assert_eq!(
        course(&story, UnitId::MAIN),
        [&turn[..], &["compacted"], &until_it_has_grown, &["compacted", "turn", "reply", "end"]]
            .concat()
    );
}

#[tokio::test]
async fn what_the_provider_does_not_count_is_estimated() {
    let long = "x".repeat(4 * 700);
    let script = json!({ "context_window": 30_000, "units": {
        "main": [{ "text": "short", "calls": [{ "name": "Glob", "arguments": { "pattern": "*" } }] },
            { "text": long.repeat(40), "calls": [{ "name": "Glob", "arguments": { "pattern": "*" } }] },
            { "text": "done", "expect": { "contains": ["ONE"], "lacks": ["xxx"] } }],
        "main:compact": [{ "text": "ONE" }] } });
    let story = Setup::new(script).run().await;
    assert_eq!(story.end.outcome, Outcome::Done { text: "done".into() });
    let [compaction] = compactions(&story, UnitId::MAIN)[..] else { panic!("not one") };
    assert!((28_000..40_000).contains(&compaction.tokens_before), "{compaction:?}");
    assert!(compaction.tokens_after < 10_000, "{compaction:?}");
}

#[tokio::test]
async fn a_summary_and_the_request_in_hand_are_bounded() {
    let long = |end: &str| format!("{}{end}", "é".repeat(SUMMARY_CAP));
    let setup = Setup::new(turns(&[900, 100], json!([{ "text": long("the end") }])));
    let opening = Opening::Prompt(long("the task's end").into());
    let story = setup.opens(opening).run().await;
    let [compaction] = compactions(&story, UnitId::MAIN)[..] else { panic!("not one") };
    let text = &compaction.text;
    assert!(text.chars().count() < SUMMARY_CAP + REQUEST_CAP + 1_000);
    assert!(text.contains("the end") && text.contains("the task's end"));
    assert_eq!(text.matches("bytes left out").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_fork_begins_in_its_parents_bytes_and_stays_a_fork_after_a_compaction() {
    let call = |tool: &str, arguments: Value| json!([{ "name": tool, "arguments": arguments }]);
    let fork = |name: &str| json!({ "description": name, "prompt": format!("DO-{name}") });
    let glob = json!({ "pattern": "*" });
    let story = Setup::new(json!({ "context_window": WINDOW, "units": {
        "main": [{ "text": "SAID", "calls": call("Agent", fork("mend")), "usage": { "input": 100 } },
            { "text": "ok", "usage": { "input": 100 }, "repeat": true }],
        "mend": [
            { "calls": call("Glob", glob), "usage": { "input": 900 }, "expect": { "contains": ["SAID"] } },
            { "calls": call("Agent", fork("again")), "usage": { "input": 100 },
                "expect": { "contains": ["SHORT", "DO-mend", "You are a fork"], "lacks": ["SAID"] } },
            { "text": "mended", "expect": { "contains": ["Do this work"], "lacks": ["SAID"] } }],
        "mend:compact": [{ "text": "SHORT", "expect": { "contains": ["SAID", "DO-mend"] } }] } }))
    .run()
    .await;
    assert_eq!(story.states(), [UnitState::Completed], "{:?}", warnings(&story));
    let turn = ["turn", "reply", "output"];
    let turns = [&turn[..], &["compacted"], &turn, &["turn", "reply", "end"]].concat();
    assert_eq!(course(&story, UnitId(1)), turns);
    assert!(story.outputs(UnitId(1))[1].starts_with("You are a fork"));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_a_unit_in_the_middle_of_its_summary() {
    let hang = json!([{ "text": "so fa", "fault": "hang" }]);
    let script = turns(&[900, 100], hang.clone());
    let signal = |script| Setup::new(script).signal(Duration::from_secs(1), Signal::Interrupt);
    let story = signal(script).run().await;
    assert_eq!(story.end.outcome, Outcome::Cancelled { ran: true });
    assert_eq!(story.end.cancel, Some(CancelReason::Interrupt));
    assert_eq!(&*story.end.text, "SAID-0", "no part of a summary is an answer");
    assert_eq!(story.took, Duration::from_secs(1));
    assert_eq!(course(&story, UnitId::MAIN), ["turn", "reply", "output", "end"]);

    let task = |name: &str, timeout: Option<u32>| json!({ "description": name, "prompt": name, "subagent_type": "explore", "timeout_s": timeout });
    let tasks = json!({ "tasks": [task("a", Some(7)), task("b", None)] });
    let glob = json!([{ "name": "Glob", "arguments": { "pattern": "*" } }]);
    let script = json!({ "context_window": WINDOW, "units": {
        "main": [{ "calls": [{ "name": "Agent", "arguments": tasks }] }],
        "agent:explore": [{ "calls": glob, "usage": { "input": 900 } }],
        "*:compact": hang } });
    let story = Setup::new(script).signal(Duration::from_secs(9), Signal::Interrupt).run().await;
    assert_eq!(story.states(), [UnitState::Failed, UnitState::Cancelled]);
    assert_eq!(story.took, Duration::from_secs(9));
}

/// A batch of one that is compacted, as main is afterwards.
fn compacted_twice() -> Value {
    let tasks = json!({ "tasks": [{ "description": "look", "prompt": "look", "subagent_type": "explore" }] });
    let glob = json!([{ "name": "Glob", "arguments": { "pattern": "*" } }]);
    json!({ "context_window": WINDOW, "units": {
        "main": [{ "calls": [{ "name": "Agent", "arguments": tasks }], "usage": { "input": 900, "output": 1 } },
            { "text": "done", "usage": { "input": 10, "output": 2 } }],
        "main:compact": [{ "text": "MAIN-SHORT", "usage": { "input": 1_000, "output": 4 } }],
        "look": [{ "calls": glob, "usage": { "input": 20_000, "output": 8 } },
            { "text": "found", "usage": { "input": 100_000, "output": 16 } }],
        "look:compact": [{ "text": "LOOK-SHORT", "usage": { "input": 3_000_000, "output": 32 } }] } })
}

#[test]
fn a_compaction_has_its_record_in_its_place_and_its_part_of_every_sum() {
    let finished = Place::new().play(&compacted_twice(), &["-o", "stream-json"]).exits(0);
    let records = finished.records();
    let boundaries = records.system("compact_boundary");
    let [of_slot, of_main] = boundaries[..] else { panic!("{boundaries:?}") };
    assert_eq!((&of_slot["agent_id"], &of_slot["branch"]), (&json!("agent-1"), &json!("1")));
    assert_eq!((&of_main["agent_id"], &of_main["branch"]), (&Value::Null, &Value::Null));
    for (boundary, least) in [(of_slot, 20_008), (of_main, 901)] {
        let metadata = &boundary["compact_metadata"];
        assert_eq!(metadata["trigger"], "auto");
        assert!(metadata["pre_tokens"].as_u64() >= Some(least), "{metadata}");
        assert!(metadata["post_tokens"].as_u64() > Some(0), "{metadata}");
    }
    // What stands right before and right behind each.
    let place = |boundary: &Value| records.0.iter().position(|record| record == boundary).unwrap();
    let slot: Vec<&Value> = records.of_unit("agent-1");
    let at = slot.iter().position(|record| *record == of_slot).unwrap();
    let neighbours = (&slot[at - 1]["subtype"], &slot[at + 1]["subtype"]);
    assert_eq!(neighbours, (&json!("task_progress"), &json!("task_progress")));
    let types = (&records.0[place(of_main) - 1]["type"], &records.0[place(of_main) + 1]["type"]);
    assert_eq!(types, (&json!("user"), &json!("assistant")));

    let notification = &records.system("task_notification")[0]["usage"]["total_tokens"];
    assert_eq!(notification, &json!(3_120_000 + 56));
    let result = records.result();
    assert_eq!(result["num_turns"], 2);
    assert_eq!(result["usage"]["input_tokens"], 900 + 10 + 1_000);
    assert_eq!(result["usage"]["output_tokens"], 1 + 2 + 4);
    let models = result["modelUsage"].as_object().unwrap();
    let (_, of_all) = models.iter().next().unwrap();
    assert_eq!(of_all["inputTokens"], 3_121_910);
    assert_eq!(of_all["outputTokens"], 63);
}

#[test]
fn a_compaction_is_told_to_people_too() {
    let place = Place::new();
    let finished = place.play(&compacted_twice(), &[]).exits(0);
    assert_eq!(finished.stdout, "done\n");
    let told: Vec<_> =
        finished.stderr.lines().filter(|line| line.contains("compacted from")).collect();
    let [of_slot, of_main] = told[..] else { panic!("{}", finished.stderr) };
    assert!(of_slot.starts_with("[look] compacted from 20.0k tokens to about "), "{of_slot}");
    assert!(of_main.starts_with("compacted from "), "{of_main}");
    let quiet = place.play(&compacted_twice(), &["--config", "session.compact_at=0"]).exits(0);
    assert!(!quiet.stderr.contains("compacted"), "{}", quiet.stderr);
}

#[test]
fn compact_without_a_conversation_says_that_there_is_nothing() {
    let (place, server) = (Place::new(), serve(|_| Reaction::text_reply("no")));
    let nothing = "There is nothing to compact: nothing has been answered yet.\n";
    for prompt in ["/compact", "/compact keep the paths"] {
        let finished = place.tine(["-p", prompt, "-m", "m"]).server(&server).run().exits(0);
        assert_eq!((&*finished.stdout, &*finished.stderr), (nothing, ""));
    }
    let flags = ["-p", "/compact", "-m", "m", "-o", "stream-json"];
    let records = place.tine(flags).server(&server).run().exits(0).records();
    let kinds: Vec<_> = records.0.iter().map(|record| record["subtype"].as_str()).collect();
    assert_eq!(kinds, [Some("init"), Some("success")]);
    assert_eq!(
        records.0[0]["slash_commands"],
        json!([
            "compact", "fork", "undo", "usage", "review", "init", "explain", "fix", "test",
            "migrate"
        ])
    );
    assert_eq!(records.result()["num_turns"], 0);
    assert_eq!(server.count(), 0);
}

#[test]
fn a_skill_cannot_take_the_place_of_a_command() {
    let place = Place::new();
    place.write(".tine/skills/compact/SKILL.md", "---\ndescription: d\n---\nMy own way.");
    let finished = place.tine(["-p", "/compact", "-m", "offline"]).run().exits(0);
    assert!(finished.stdout.starts_with("There is nothing to compact"), "{}", finished.stdout);
    assert_eq!(
        finished.stderr,
        "warning: the skill `compact` cannot be typed: `/compact` is a built-in command\n"
    );
    let flags = ["-p", "/compact", "-m", "offline", "-o", "stream-json"];
    let records = place.tine(flags).run().exits(0).records();
    assert_eq!(
        records.0[0]["slash_commands"],
        json!([
            "compact", "fork", "undo", "usage", "review", "init", "explain", "fix", "test",
            "migrate"
        ])
    );
    assert_eq!(
        records.0[0]["skills"],
        json!(["compact", "review", "init", "explain", "fix", "test", "migrate"])
    );
}

/// Three turns that were taken before, each of so many tokens.
fn before(tokens: usize) -> Vec<EventKind> {
    let turn = |number: u32| {
        let text = format!("{} ANSWERED-{number}", "word".repeat(tokens));
        let reply = Arc::new(Reply { text, ..Reply::default() });
        let (model, usage, stop) = ("m".into(), Usage::default(), StopReason::EndTurn);
        [
            EventKind::Prompted(format!("ASKED-{number}").into()),
            EventKind::Replied(Replied { reply, model, usage, stop, took_ms: 1 }),
        ]
    };
    (1..=3).flat_map(turn).collect()
}

fn history(events: &[EventKind]) -> History {
    let head = Arc::new(Head::new("be good".to_owned(), Vec::new()));
    History::of(head, events)
}

/// Returns the events that a unit told of its conversation.
fn events_of(told: Vec<Told>) -> Vec<EventKind> {
    let event = |told| match told {
        Told::Compacted(compaction) => Some(EventKind::Compacted(compaction)),
        Told::Prompted(prompt) => Some(EventKind::Prompted(prompt)),
        _ => None,
    };
    told.into_iter().filter_map(event).collect()
}

#[tokio::test]
async fn the_last_turns_and_a_prompt_without_an_answer_stay_word_for_word() {
    let server = Server::start(|request| match request.sequence {
        0 => counted(850, "IN-SHORT", None),
        _ => counted(100, "done", None),
    });
    let model = http(&server);
    // One turn fits a fifth of the window, two do not.
    let mut events = before(150);
    events.extend(before(150).into_iter().map(|event| match event {
        EventKind::Prompted(prompt) => EventKind::Prompted(format!("LATER-{}", prompt.text).into()),
        other => other,
    }));
    let opening = Opening::Prompt("PENDING".into());
    let setup = Setup::on(Arc::clone(&model) as _).opens(opening);
    let (outcome, told) = setup.run_unit(history(&events)).await;
    assert_eq!(outcome, Outcome::Done { text: "done".into() });

    let requests = server.finish();
    let [summary, next] = &requests[..] else { panic!("{} requests", requests.len()) };
    // The prompt in hand stays as it is, so it is not summed up.
    check_holds(summary, &["ASKED-1", "LATER-ASKED-3", ASKS_FOR_SUMMARY], &["PENDING"]);
    let dropped = ["ASKED-1", "ANSWERED-1", "ASKED-2", "ANSWERED-2", ASKS_FOR_SUMMARY];
    check_holds(next, &["IN-SHORT", "LATER-ASKED-3", "ANSWERED-3", "PENDING"], &dropped);

    let told = events_of(told);
    let [EventKind::Prompted(_), EventKind::Compacted(compaction)] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(compaction.kept_prompts, 2);
    events.extend(told);
    assert_eq!(messages_of(&model.body(history(&events).prefix())), messages_of(&next.body));
}

/// Compacts a conversation because the user asked for it.
async fn compact(
    events: &[EventKind],
    hint: Option<&str>,
    script: Value,
) -> (Outcome, Vec<EventKind>) {
    let opening = Opening::Compact { hint: hint.map(Into::into) };
    let setup = Setup::new(script).opens(opening);
    let (outcome, told) = setup.run_unit(history(events)).await;
    (outcome, events_of(told))
}

#[tokio::test]
async fn compact_replaces_the_conversation_and_says_how_much_that_was() {
    let expect = json!({ "contains": ["ASKED-1", "ANSWERED-3", "heed this: keep the paths"] });
    let script = json!({ "units": { "main:compact": [{ "text": "IN-SHORT", "expect": expect }] } });
    let (outcome, told) = compact(&before(4_000), Some("keep the paths"), script).await;
    let [EventKind::Compacted(compaction)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((compaction.trigger, compaction.kept_prompts), (CompactionTrigger::Manual, 0));
    assert!(compaction.text.contains("IN-SHORT"));
    let after = compaction.tokens_after;
    assert!((50..200).contains(&after), "{after}");
    let text = format!("Compacted: 12.0k tokens to about {after}.");
    assert_eq!(outcome, Outcome::Done { text: text.into() });
}

#[tokio::test]
async fn compact_says_why_it_did_nothing() {
    let empty = json!({ "units": {} });
    let nothing = "There is nothing to compact: nothing has been answered yet.";
    let (outcome, told) = compact(&[], None, empty.clone()).await;
    assert_eq!((outcome, told), (Outcome::Done { text: nothing.into() }, Vec::new()));

    let down = json!({ "fault": { "error": { "status": 503, "message": "down" } } });
    let script = json!({ "units": { "main:compact": [down] } });
    let (outcome, told) = compact(&before(10), None, script).await;
    let message = "the conversation could not be compacted: HTTP 503: down";
    assert_eq!(outcome, Outcome::failed(FailureKind::Provider, message));
    assert_eq!(told, Vec::new());
}

#[tokio::test]
async fn a_conversation_with_an_open_call_is_not_compacted() {
    let call = tine::message::Call { id: "c".into(), tool: "Glob".into(), arguments: "{}".into() };
    let reply = Arc::new(Reply { calls: vec![call], ..Reply::default() });
    let (model, usage, stop) = ("m".into(), Usage::default(), StopReason::ToolUse);
    let mut events = before(10);
    events.push(EventKind::Replied(Replied { reply, model, usage, stop, took_ms: 1 }));
    let script = json!({ "units": { "main:compact": [{ "text": "IN-SHORT" }] } });
    let (_, told) = compact(&events, None, script).await;
    assert_eq!(told, Vec::new());
}
