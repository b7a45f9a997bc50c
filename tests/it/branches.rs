//! Who sees what: flows as real units, seen on the bytes that were sent and on
//! the branches of all their events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tine::branch::{Token, TokenSet};
use tine::event::UnitState::{Cancelled, Completed, Failed, Skipped};
use tine::event::{Event, EventKind, FailureKind, Outcome, UnitId};
use tine::flow::{AgentStep, Sees, Step};
use tine::run::Signal;

use crate::support::bodies::{self, Bodies, model_on};
use crate::support::inside::{Setup, Story};
use crate::support::server::{End, Gate, Reaction, RecordedRequest, Server, events};
use crate::support::talk::Talk;

/// The pairs have no text in the fixtures.
const THREE_PAIRS: &str = "Seq[P[A,B],P[C,D],P[E,F]]";

/// One agent of a flow.
fn agent(name: &str) -> AgentStep {
    // Alice may start agents of her own.
    let kind = if name == "Alice" { "general-purpose" } else { "explore" };
    AgentStep::new(name, kind, format!("speak as {name}"))
}

/// Reads a flow such as `Seq[P[Alice,Bob],Carol]`.
fn flow(text: &str) -> Step {
    let (step, rest) = step(text);
    assert_eq!(rest, "", "{text}");
    step
}

fn step(text: &str) -> (Step, &str) {
    let end = text.find(['[', ',', ']']).unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    if !rest.starts_with('[') {
        return (Step::Agent(agent(name)), rest);
    }
    let mut steps = Vec::new();
    while let Some(inner) = rest.strip_prefix(['[', ',']) {
        let (inner, after) = step(inner);
        steps.push(inner);
        rest = after;
    }
    let rest = rest.strip_prefix(']').expect("every bracket is closed");
    let made = if name == "Seq" { Step::sequence(steps) } else { Step::parallel(steps) };
    (made.expect("a bracket holds steps"), rest)
}

/// What an agent says; nobody else says it first.
fn word(name: &str) -> String {
    format!("word({name})")
}

/// A table of the fixtures: what it says of an architecture.
struct Table {
    flow: Step,
    tokens: BTreeMap<String, TokenSet>,
    whole: Value,
}

fn table(name: &str) -> Table {
    let fixtures: Value = serde_json::from_str(include_str!("../fixtures/fixtures.json"))
        .expect("the fixtures are JSON");
    let whole = fixtures[name].clone();
    let text = whole["arch"].as_str().unwrap_or(THREE_PAIRS);
    let tokens = whole["tokens"].as_object().into_iter().flatten();
    let tokens: BTreeMap<_, _> = tokens.map(|(name, list)| (name.clone(), set(list))).collect();
    assert!(tokens.len() >= 6, "{whole}");
    Table { flow: flow(text), tokens, whole }
}

fn set(list: &Value) -> TokenSet {
    list.as_array().into_iter().flatten().filter_map(Value::as_u64).map(Token).collect()
}

impl Table {
    /// The agents that an agent sees: those whose tokens it has.
    fn seen_by(&self, viewer: &str) -> BTreeSet<&str> {
        let own = &self.tokens[viewer];
        let others = self.tokens.iter().filter(|(name, _)| *name != viewer);
        others
            .filter(|(_, tokens)| tokens.is_subset_of(own))
            .map(|(name, _)| name.as_str())
            .collect()
    }
}

/// The units of a run by name.
fn units(story: &Story) -> BTreeMap<String, UnitId> {
    let name = |event: &Event| match &event.kind {
        EventKind::UnitQueued(head) => Some((head.description.to_string(), event.unit)),
        _ => None,
    };
    story.events.iter().filter_map(name).collect()
}

/// Checks that every event of an agent has its tokens, and what main joined.
#[track_caller]
fn check_tokens(table: &Table, story: &Story) {
    let units = units(story);
    let not = table.whole["must_not"].get("Final_Reducer_tokens").map(set);
    for (name, tokens) in &table.tokens {
        let own = story.events.iter().filter(|event| event.unit == units[name]);
        let own: Vec<&TokenSet> = own.map(|event| &event.branch.tokens).collect();
        // Declared, started, prompted, a turn, its answer, ended.
        assert!(own.len() >= 6 && own.iter().all(|found| *found == tokens), "{name}: {own:?}");
        if name == "Final_Reducer" {
            assert!(own.iter().all(|found| Some(*found) != not.as_ref()));
        }
    }
    let last = &story.events.last().expect("a run has events").branch.tokens;
    assert_eq!(*last, TokenSet::default().union(table.tokens.values()));
    if let Some(parent) = table.whole.get("final_parent") {
        assert_eq!(*last, set(parent));
    }
}

/// Checks that an agent's request holds the words of those it sees, in the
/// order in which they were said, and of nobody else.
#[track_caller]
fn check_sight(table: &Table, story: &Story, bodies: &Bodies) {
    let units = units(story);
    let said_at = |name: &str| {
        story.events.iter().position(|event| match &event.kind {
            EventKind::Replied(replied) => {
                event.unit == units[name] && replied.reply.text == word(name)
            }
            _ => false,
        })
    };
    for viewer in table.tokens.keys() {
        let seen = table.seen_by(viewer);
        if let Some(row) = table.whole["sees"][viewer].as_array() {
            let row: BTreeSet<&str> = row.iter().filter_map(Value::as_str).collect();
            assert_eq!(seen, row, "the table agrees with itself about {viewer}");
        }
        let body = &bodies[&units[viewer]][0];
        let held = table.tokens.keys().filter(|name| body.contains(&word(name)));
        assert_eq!(held.map(String::as_str).collect::<BTreeSet<_>>(), seen, "{viewer}: {body}");
        let mut in_time: Vec<&str> = seen.iter().copied().collect();
        in_time.sort_by_key(|name| said_at(name));
        let places: Vec<_> = in_time.iter().map(|name| body.find(&word(name))).collect();
        assert!(places.is_sorted(), "{viewer} reads {in_time:?} at {places:?}");
        let asked = body.matches(r#"<said from=\"user\">\ngo\n</said>"#).count();
        assert_eq!(asked, 1, "{viewer}: {body}");
    }
}

/// Returns which agent sent a request.
fn speaker(request: &RecordedRequest) -> String {
    let talk = Talk::of(request);
    let (_, name) = talk.task().rsplit_once("speak as ").expect("agents are told who they are");
    name.to_owned()
}

/// Tells whether the request holds the output of a call.
fn has_looked(request: &RecordedRequest) -> bool {
    Talk::of(request).turn() > 1
}

/// Answers each agent with its word, some of them after a look around.
fn speak(request: &RecordedRequest) -> Reaction {
    let name = speaker(request);
    // So that the first to be declared are not the first to answer.
    if matches!(name.as_str(), "Alice" | "David" | "A" | "left") && !has_looked(request) {
        return Reaction::call_reply(&[("Glob", json!({"pattern": "*.none"}))]);
    }
    Reaction::text_reply(&word(&name))
}

/// Walks a flow over a server and proves every request.
async fn walk(flow: Step, react: fn(&RecordedRequest) -> Reaction) -> (Story, Bodies) {
    let server = Server::start(react);
    let model = model_on(&server);
    let story = Setup::on(Arc::clone(&model) as _).flow(flow).run().await;
    let bodies = bodies::prove(&story.events, &server.finish(), &model);
    (story, bodies)
}

/// Walks an architecture of the fixtures over a server.
async fn check_on_the_wire(name: &str) {
    let table = table(name);
    let (story, bodies) = walk(table.flow.clone(), speak).await;
    check_tokens(&table, &story);
    check_sight(&table, &story, &bodies);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sequence_of_parallels_shows_each_agent_what_the_fixture_says() {
    check_on_the_wire("sequence_of_parallels").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_parallels_show_a_reducer_its_own_group_and_nobody_elses() {
    check_on_the_wire("nested_parallels").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_pairs_show_each_agent_the_pairs_before_its_own() {
    check_on_the_wire("three_pairs").await;
}

/// Plays an architecture of the fixtures on paused time: each agent answers
/// later than the one declared behind it.
async fn check_on_a_script(name: &str, cap: usize) {
    let table = table(name);
    let agents: Vec<&String> = table.tokens.keys().collect();
    let mut units = json!({});
    for (place, name) in agents.iter().enumerate() {
        let seen = table.seen_by(name);
        let (held, not_held): (Vec<String>, Vec<String>) = (
            seen.iter().map(|seen| word(seen)).collect(),
            agents.iter().filter(|other| !seen.contains(other.as_str())).map(|o| word(o)).collect(),
        );
        units[name.as_str()] = json!([{
            "text": word(name), "delay_ms": 1_000 - place * 50,
            "expect": {"contains": held, "lacks": not_held},
        }]);
    }
    let setup = Setup::new(json!({ "units": units })).flow(table.flow.clone()).cap(cap);
    let story = setup.run().await;
    check_tokens(&table, &story);
    let failed: Vec<_> = story.ends().into_iter().filter(|end| end.1 != Completed).collect();
    assert_eq!(failed, [], "a request was not as expected: {:?}", story.end);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_drawn_in_declared_order_whatever_the_timing() {
    for name in ["sequence_of_parallels", "nested_parallels", "three_pairs"] {
        for cap in [1, 2, 8] {
            check_on_a_script(name, cap).await;
        }
    }
}

/// A script in which these agents do this and all others say their word.
fn script(flow: &str, replies: Value) -> Setup {
    let mut units = json!({"*": [{"text": "fine"}]});
    for (name, replies) in replies.as_object().expect("replies have names") {
        units[name] = replies.clone();
    }
    Setup::new(json!({ "units": units })).flow(self::flow(flow))
}

/// The tokens with which a unit was declared.
fn declared(story: &Story, name: &str) -> String {
    let unit = units(story)[name];
    let queued =
        |event: &&Event| event.unit == unit && matches!(event.kind, EventKind::UnitQueued(_));
    let event = story.events.iter().find(queued).expect("the unit was declared");
    event.branch.tokens.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_member_that_failed_or_panicked_joins_and_the_next_step_reads_why() {
    let replies = json!({
        "Alice": [{"text": "half a", "fault": {"error": {"status": 503, "message": "overloaded"}}}],
        "Bob": [{"fault": "panic"}],
        "Reducer": [{"text": "reduced", "expect": {"contains": [
            "<said from=\"Alice\">\n[failed: HTTP 503: overloaded]\n\nPartial result:\n\nhalf a\n</said>",
            "<said from=\"Bob\">\n[failed: panicked: scripted panic]\n</said>",
            "<said from=\"Charlie\">\nfine\n</said>",
        ]}}],
    });
    let story = script("Seq[P[Alice,Bob,Charlie],Reducer]", replies).run().await;
    assert_eq!(story.states(), [Failed, Failed, Completed, Completed], "{:?}", story.end);
    assert_eq!(declared(&story, "Reducer"), "1-3");
    assert_eq!(story.end.outcome, Outcome::Done { text: "reduced".into() });
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_cancelled_joins_and_the_next_step_reads_what_it_had_written() {
    let replies = json!({
        "Alice": [{"text": "fine", "delay_ms": 100}],
        "Bob": [{"text": "so far", "fault": "hang"}],
        "Reducer": [{"text": "reduced", "expect": {"contains": [
            "<said from=\"Bob\">\n[cancelled while it ran]\n\nPartial result:\n\nso far\n</said>",
            "<said from=\"Alice\">\nfine\n</said>",
        ]}}],
    });
    let setup = script("Seq[P[Alice,Bob],Reducer]", replies);
    let story = setup.walk_cancelling("Bob").await;
    assert_eq!(story.states(), [Completed, Cancelled, Completed]);
    assert_eq!(declared(&story, "Reducer"), "1-2");
    assert_eq!(story.end.outcome, Outcome::Done { text: "reduced".into() });
}

#[tokio::test(start_paused = true)]
async fn a_group_that_was_cancelled_takes_its_members_with_it_and_joins() {
    let replies = json!({
        "Alice": [{"text": "so far", "fault": "hang"}],
        "Bob": [{"text": "late", "delay_ms": 1_000}],
        "Last": [{"text": "the end", "expect": {"contains": [
            "<said from=\"Alice\">\n[cancelled while it ran]\n\nPartial result:\n\nso far\n</said>",
            "<said from=\"Bob\">\n[cancelled while it ran]\n</said>",
            "<said from=\"Frank\">\nfine\n</said>",
        ], "lacks": ["Reducer", "sequence"]}}],
    });
    let setup = script("Seq[P[Seq[P[Alice,Bob],Reducer],Frank],Last]", replies);
    let story = setup.walk_cancelling("sequence").await;
    assert_eq!(story.states(), [Cancelled, Completed, Cancelled, Cancelled, Completed]);
    assert_eq!(declared(&story, "Last"), "1-4");
    assert_eq!(story.end.outcome, Outcome::Done { text: "the end".into() });
}

/// Bob's request is refused, and Charlie's answer breaks off.
fn speak_or_break(request: &RecordedRequest) -> Reaction {
    match speaker(request).as_str() {
        "Bob" => Reaction::json(400, &json!({"error": {"message": "Bob is refused"}})),
        "Charlie" => {
            let delta = json!({"choices": [{"index": 0, "delta": {"content": "half a"}}]});
            Reaction::pieces([events([&delta])], End::Cut)
        }
        _ => speak(request),
    }
}

#[tokio::test]
async fn what_went_wrong_is_in_the_next_steps_request_and_nowhere_before_it() {
    let (story, bodies) = walk(flow("Seq[P[Alice,Bob,Charlie],David]"), speak_or_break).await;
    assert_eq!(story.states(), [Completed, Failed, Failed, Completed]);
    let units = units(&story);
    let david = &bodies[&units["David"]][0];
    for told in ["word(Alice)", "Bob is refused", r"Partial result:\n\nhalf a\n</said>"] {
        assert!(david.contains(told), "{told}: {david}");
    }
    let others = ["Alice", "Bob", "Charlie"].map(|name| bodies[&units[name]].concat());
    assert!(others.iter().all(|body| !body.contains("refused") && !body.contains("half a")));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_forks_and_joins_leave_at_most_two_ranges_on_any_event() {
    let pair = |number: u32| {
        let agents = ["a", "b"]
            .map(|side| AgentStep { sees: Sees::Nothing, ..agent(&format!("{side}{number}")) });
        Step::parallel(agents.into_iter().map(Step::Agent).collect()).unwrap()
    };
    let thousand = Step::sequence((0..1_000).map(pair).collect()).unwrap();
    let units = json!({"units": {"*": [{"text": "fine"}]}});
    let story = Setup::new(units).flow(thousand).run().await;
    assert_eq!(story.states(), [Completed; 2_000]);
    let most = story.events.iter().map(|event| event.branch.tokens.range_count()).max();
    assert_eq!(most, Some(2));
    let queued = story.events.iter().filter(|event| matches!(event.kind, EventKind::UnitQueued(_)));
    let stored: usize = queued.map(|event| event.branch.tokens.range_count()).sum();
    assert_eq!(stored, 2_999);
    assert_eq!(story.events.last().unwrap().branch.tokens.to_string(), "1-2000");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_at_once_have_the_same_tokens_and_see_nothing_of_each_other() {
    let (gate, came) = (Gate::closed(), AtomicUsize::new(0));
    let server = Server::start(move |request| {
        // Nobody gets an answer before both runs are under way.
        if came.fetch_add(1, Ordering::Relaxed) == 3 {
            gate.open();
        }
        speak(request).behind(&gate)
    });
    let model = model_on(&server);
    let run = |arch: &str| Setup::on(Arc::clone(&model) as _).flow(flow(arch)).run();
    let (red, blue) =
        tokio::join!(run("Seq[P[R1,R2],P[R3,R4],R5]"), run("Seq[P[B1,B2],P[B3,B4],B5]"));
    let (of_red, of_blue): (Vec<_>, Vec<_>) =
        server.finish().into_iter().partition(|request| speaker(request).starts_with('R'));
    let branches = |story: &Story| -> Vec<(UnitId, String)> {
        let ends = story.events.iter().filter(|event| {
            matches!(event.kind, EventKind::UnitQueued(_) | EventKind::Joined { .. })
        });
        ends.map(|event| (event.unit, event.branch.tokens.to_string())).collect()
    };
    assert_eq!(branches(&red), branches(&blue));
    for (story, requests, other) in [(&red, of_red, "word(B"), (&blue, of_blue, "word(R")] {
        assert_eq!(story.states(), [Completed; 5]);
        let bodies = bodies::prove(&story.events, &requests, &model);
        assert!(bodies.values().flatten().all(|body| !body.contains(other)));
        assert!(!format!("{:?}", story.events).contains(other));
    }
}

/// Alice starts two agents of her own; each says its word.
fn delegate(request: &RecordedRequest) -> Reaction {
    let task = |name: &str| json!({"description": name, "prompt": format!("speak as {name}"), "subagent_type": "explore"});
    match (speaker(request).as_str(), has_looked(request)) {
        ("Alice", false) => {
            Reaction::call_reply(&[("Agent", json!({"tasks": [task("left"), task("right")]}))])
        }
        (name, _) => Reaction::text_reply(&word(name)),
    }
}

/// Walks a flow whose Alice starts two agents, and checks the tokens with which
/// its units were declared and whose words their last requests hold.
async fn check_delegating(arch: &str, expected: &[(&str, &str, &[&str])]) {
    let (story, bodies) = walk(flow(arch), delegate).await;
    assert_eq!(story.states(), vec![Completed; expected.len()]);
    let units = units(&story);
    for (name, tokens, words) in expected {
        assert_eq!(declared(&story, name), *tokens, "{name}");
        let body = bodies[&units[*name]].last().expect("every agent asks its model");
        let held = expected.iter().map(|row| row.0).filter(|other| body.contains(&word(other)));
        assert_eq!(held.collect::<Vec<_>>(), *words, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_a_step_starts_itself_come_after_all_reserved_tokens_and_join() {
    check_delegating(
        "Seq[P[Alice,Bob],P[Charlie,David],Last]",
        &[
            ("left", "1,5", &[]),
            ("right", "1,6", &[]),
            // The words are in the output of her call.
            ("Alice", "1", &["left", "right"]),
            ("Bob", "2", &[]),
            ("Charlie", "1-3,5-6", &["left", "right", "Alice", "Bob"]),
            ("David", "1-2,4-6", &["left", "right", "Alice", "Bob"]),
            ("Last", "1-6", &["left", "right", "Alice", "Bob", "Charlie", "David"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn agents_that_a_step_in_a_row_starts_itself_join_before_the_next_step() {
    check_delegating(
        "Seq[Alice,P[Charlie,David],Last]",
        &[
            ("left", "3", &[]),
            ("right", "4", &[]),
            ("Alice", "", &["left", "right"]),
            ("Charlie", "1,3-4", &["left", "right", "Alice"]),
            ("David", "2-4", &["left", "right", "Alice"]),
            ("Last", "1-4", &["left", "right", "Alice", "Charlie", "David"]),
        ],
    )
    .await;
}

/// Main says its word and starts two slots; each says its own.
fn batch(request: &RecordedRequest) -> Reaction {
    let task = |name: &str| json!({"description": name, "prompt": format!("speak as {name}"), "subagent_type": "explore"});
    let is_main = Talk::of(request).system().starts_with("be good");
    match (is_main, has_looked(request)) {
        (true, false) => {
            let tasks = json!({"tasks": [task("left"), task("right")]});
            Reaction::reply(Some(&word("main")), &[("Agent", tasks)])
        }
        (true, true) => Reaction::text_reply("all done"),
        (false, _) => speak(request),
    }
}

#[tokio::test]
async fn a_slot_of_an_agent_call_sees_nothing_of_its_caller_or_its_siblings() {
    let server = Server::start(batch);
    let model = model_on(&server);
    let story = Setup::on(Arc::clone(&model) as _).run().await;
    let bodies = bodies::prove(&story.events, &server.finish(), &model);
    let held = |body: &str| -> Vec<String> {
        ["main", "left", "right"].map(word).into_iter().filter(|word| body.contains(word)).collect()
    };
    let units = units(&story);
    for name in ["left", "right"] {
        assert_eq!(held(&bodies[&units[name]].concat()), [""; 0], "{name}");
        assert!(!bodies[&units[name]][0].contains("go"), "{name}");
    }
    let [first, next] = &bodies[&UnitId::MAIN][..] else { panic!("{bodies:?}") };
    assert_eq!(held(first), [""; 0]);
    assert_eq!(held(next), ["main", "left", "right"].map(word));
}

#[tokio::test]
async fn an_agent_that_shall_see_nothing_is_told_its_own_prompt_only() {
    let blind = Step::Agent(AgentStep { sees: Sees::Nothing, ..agent("Bob") });
    let Step::Agent(alice) = flow("Alice") else { panic!("one name is one agent") };
    let steps = vec![Step::Agent(alice), blind, flow("Charlie")];
    let (story, bodies) = walk(Step::sequence(steps).unwrap(), speak).await;
    let units = units(&story);
    assert_eq!(bodies[&units["Bob"]][0], r#"{"role":"user","content":"\n\nspeak as Bob"}]}"#);
    assert!(bodies[&units["Charlie"]][0].contains("word(Bob)"));
    // What others said is kept once, where they said it.
    let prompts = story.events.iter().filter_map(|event| match &event.kind {
        EventKind::Prompted(prompt) => Some(&*prompt.text),
        _ => None,
    });
    let expected = ["go", "\n\nspeak as Alice", "\n\nspeak as Bob", "\n\nspeak as Charlie"];
    assert_eq!(prompts.collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_flow_comes_to_what_its_last_step_did() {
    let replies = json!({
        "Bad": [{"fault": {"error": {"status": 400, "message": "no"}}}],
        "Worse": [{"fault": {"error": {"status": 401, "message": "no key"}}}],
    });
    let done = |text: &str| Outcome::Done { text: text.into() };
    for (arch, expected) in [
        ("Seq[Bad,Good]", done("fine")),
        ("Good", done("fine")),
        (
            "Seq[Good,P[Fine,Bad]]",
            Outcome::failed(FailureKind::Request, "`Bad` failed: HTTP 400: no"),
        ),
        ("Seq[Good,Bad]", Outcome::failed(FailureKind::Request, "`Bad` failed: HTTP 400: no")),
        (
            "P[Worse,Seq[Good,Bad]]",
            Outcome::failed(FailureKind::Authentication, "`Worse` failed: HTTP 401: no key"),
        ),
        (
            "P[Seq[Good,Bad]]",
            Outcome::failed(FailureKind::Request, "`sequence` failed: `Bad` failed: HTTP 400: no"),
        ),
    ] {
        let story = script(arch, replies.clone()).run().await;
        assert_eq!(story.end.outcome, expected, "{arch}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_flow_starts_nothing_more_and_every_unit_has_its_end() {
    let replies = json!({"*": [{"text": "fine", "delay_ms": 1_000}]});
    let setup = script("Seq[P[Alice,Seq[Bob,Charlie],David],Reducer]", replies);
    let story = setup.cap(2).signal(Duration::from_millis(500), Signal::Interrupt).run().await;
    // Alice, the sequence, David, and Bob, who was declared after him.
    assert_eq!(story.states(), [Cancelled, Cancelled, Cancelled, Skipped]);
    assert_eq!(story.end.outcome, Outcome::Cancelled { ran: true });
    assert_eq!(story.end.unfinished, []);
}

/// Alice names a file that there is, on a line of its own.
fn name_a_file(request: &RecordedRequest) -> Reaction {
    match speaker(request).as_str() {
        "Alice" => Reaction::text_reply("see\n@session/log.jsonl\nthere"),
        name => Reaction::text_reply(&word(name)),
    }
}

#[tokio::test]
async fn a_line_of_another_agent_that_names_a_file_is_not_replaced_by_its_text() {
    let (story, bodies) = walk(flow("Seq[Alice,Bob]"), name_a_file).await;
    let body = &bodies[&units(&story)["Bob"]][0];
    assert!(body.contains(r"see\n@session/log.jsonl\nthere\n</said>"), "{body}");
}
