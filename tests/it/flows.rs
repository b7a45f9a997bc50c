//! Flows: what their texts read, what is walked and what is not, what becomes of
//! failures, and walks that go on where another one ended.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tine::event::UnitState::{Cancelled, Completed, Failed};
use tine::event::{Event, EventKind, FailureKind, Origin, Outcome, UnitHead, UnitId};
use tine::flow::{
    AgentStep, Compute, Expression, Fault, Flow, Given, Input, InputValues, OnError, Passed, Sees,
    Step, Supplied, Walk, Wording,
};
use tine::run::Signal;
use tine::tool::AnswerSchema;

use crate::fanout::check_invariants;
use crate::support::bodies::{self, model_on};
use crate::support::inside::{Setup, Story};
use crate::support::server::{Reaction, Server};

fn words(text: &str) -> Wording {
    Wording::parse(text).expect("the text follows the grammar")
}

fn expression(text: &str) -> Expression {
    Expression::parse(text).expect("the text follows the grammar")
}

fn agent(name: &str, prompt: &str) -> Step {
    Step::Agent(AgentStep::new(name, "explore", words(prompt)))
}

/// An agent whose answer fits any object.
fn answering(name: &str, prompt: &str) -> Step {
    let schema = AnswerSchema::of(&json!({"type": "object"})).expect("the schema can be used");
    let schema = Some(Arc::new(schema));
    Step::Agent(AgentStep { schema, ..AgentStep::new(name, "explore", words(prompt)) })
}

/// An agent whose failure is the flow's.
fn stopping(name: &str) -> Step {
    let agent = AgentStep::new(name, "explore", "look");
    Step::Agent(AgentStep { on_error: OnError::Stop, ..agent })
}

fn times(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).expect("the test walks something")
}

fn each(name: &str, items: &str, most: u32, body: Step) -> Step {
    Step::each(name, expression(items), times(most), body).expect("there are few")
}

fn until(condition: &str, rounds: u32, body: Step) -> Step {
    Step::until(expression(condition), times(rounds), body).expect("there are few")
}

fn when(condition: &str, body: Step) -> Step {
    Step::when(expression(condition), body).expect("there are few")
}

fn sequence<const N: usize>(steps: [Step; N]) -> Step {
    Step::sequence(steps.into()).expect("there are some")
}

fn parallel<const N: usize>(steps: [Step; N]) -> Step {
    Step::parallel(steps.into()).expect("there are some")
}

fn input(name: &str, default: Option<Value>, is_json: bool) -> Input {
    Input { name: name.into(), default, is_json, description: "".into() }
}

/// A walk of steps with inputs.
fn walk(inputs: Vec<Input>, given: &[(&str, &str)], step: Step) -> Walk {
    let flow = Flow::new("test", "", inputs, step).expect("its texts name what is there");
    let given = given
        .iter()
        .map(|(name, words)| ((*name).to_owned(), Supplied::Words((*words).to_owned())));
    let inputs = flow.given(given).expect("the flow takes these");
    Walk::new(Arc::new(flow), inputs)
}

/// A script in which these agents do this and all others say "fine".
fn script(replies: Value) -> Setup {
    let mut units = json!({"*": [{"text": "fine"}]});
    for (name, replies) in replies.as_object().expect("replies have names") {
        units[name] = replies.clone();
    }
    Setup::new(json!({ "units": units }))
}

/// A reply that gives an answer to a schema.
fn gives(answer: Value) -> Value {
    json!([{"calls": [{"name": "StructuredOutput", "arguments": answer}]}])
}

/// A reply whose request holds these texts.
fn told(text: &str, contains: &[&str]) -> Value {
    json!([{"text": text, "expect": {"contains": contains}}])
}

fn heads(story: &Story) -> Vec<(UnitId, &UnitHead, String)> {
    let queued = story.events.iter().filter_map(|event| match &event.kind {
        EventKind::UnitQueued(head) => Some((event.unit, head, event.branch.tokens.to_string())),
        _ => None,
    });
    queued.collect()
}

/// What was declared, with its tokens, in declared order.
fn declared(story: &Story) -> Vec<(String, String)> {
    heads(story)
        .into_iter()
        .map(|(_, head, tokens)| (head.description.to_string(), tokens))
        .collect()
}

fn rows(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(name, tokens)| ((*name).to_owned(), (*tokens).to_owned())).collect()
}

/// The places of all agents in their flows, in declared order.
fn keys(story: &Story) -> Vec<String> {
    heads(story)
        .iter()
        .filter_map(|(_, head, _)| Some(head.step.as_ref()?.key.to_string()))
        .collect()
}

fn warnings(story: &Story) -> Vec<&str> {
    story
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Notice { text, .. } => Some(&**text),
            _ => None,
        })
        .collect()
}

fn done(text: &str) -> Outcome {
    Outcome::Done { text: text.into() }
}

#[tokio::test(start_paused = true)]
async fn a_step_is_walked_for_each_item_and_what_comes_behind_reads_all_of_them() {
    let look = Step::Agent(AgentStep {
        sees: Sees::Nothing,
        ..AgentStep::new("look", "reviewer", words("Look at {{ item.path }} ({{ index }})."))
    });
    let step = sequence([
        answering("plan", "Plan for {{ inputs.base }}."),
        each("look", "steps.plan.value.places", 5, look),
        parallel([
            agent(
                "sum",
                "{% for one in steps.look.items %}{{ one.status }}: {{ one.text }}; {% endfor %}",
            ),
            agent("count", "{{ steps.look.items | length }} of {{ steps.look.status }}"),
        ]),
    ]);
    let setup = script(json!({
        "plan": [{
            "calls": [{"name": "StructuredOutput", "arguments": {"places": [{"path": "a"}, {"path": "b"}, {"path": "c"}]}}],
            "expect": {"contains": ["Plan for trunk."]},
        }],
        "look[0]": told("saw a", &["Look at a (0)."]),
        "look[1]": [{"text": "half", "fault": {"error": {"status": 400, "message": "no"}}, "expect": {"contains": ["Look at b (1)."]}}],
        "look[2]": told("saw c", &["Look at c (2)."]),
        "sum": told("summed", &["completed: saw a; failed: half; completed: saw c; "]),
        "count": told("counted", &["3 of failed"]),
    }));
    let inputs = vec![input("base", Some("main".into()), false)];
    let story = setup.walks(walk(inputs, &[("base", "trunk")], step)).run().await;
    check_invariants(&story);
    assert_eq!(story.states(), [Completed, Completed, Failed, Completed, Completed, Completed]);
    // Five tokens are reserved for the items, and three are used.
    let expected = [
        ("plan", ""),
        ("look[0]", "1"),
        ("look[1]", "2"),
        ("look[2]", "3"),
        ("sum", "1-3,6"),
        ("count", "1-3,7"),
    ];
    assert_eq!(declared(&story), rows(&expected));
    assert_eq!(keys(&story), ["plan", "look[0]", "look[1]", "look[2]", "sum", "count"]);
}

#[tokio::test(start_paused = true)]
async fn steps_for_each_item_have_a_scope_and_tokens_of_their_own() {
    let body = sequence([
        agent("first", "begin {{ item }}"),
        parallel([agent("left", "{{ steps.first.text }}"), agent("right", "{{ item }}")]),
        agent("last", "{{ steps.left.text }} then {{ steps.before.text }}"),
    ]);
    let step = sequence([
        agent("before", "x"),
        each("all", "inputs.items", 3, body),
        agent("end", "{{ steps.all.items[1].items[2].text }}"),
    ]);
    let setup = script(json!({
        "before": [{"text": "was"}],
        "first": [{"text": "one"}],
        "left": [{"text": "two"}],
        "last": told("three", &["two then was"]),
        "end": told("over", &["three"]),
    }));
    let inputs = vec![input("items", None, true)];
    let story = setup.walks(walk(inputs, &[("items", r#"["x", "y"]"#)], step)).run().await;
    check_invariants(&story);
    assert_eq!(story.end.outcome, done("over"));
    let expected =
        [("before", ""), ("all[0]", "1"), ("all[1]", "2"), ("first", "1"), ("first", "2")];
    assert_eq!(declared(&story)[..5], rows(&expected));
    let mut all = keys(&story);
    all.sort();
    assert_eq!(
        all,
        [
            "all[0]/first",
            "all[0]/last",
            "all[0]/left",
            "all[0]/right",
            "all[1]/first",
            "all[1]/last",
            "all[1]/left",
            "all[1]/right",
            "before",
            "end"
        ]
    );
    // The items go side by side, so which of them comes first is nobody's promise.
    let of = |name: &str| -> Vec<String> {
        let rows = declared(&story).into_iter().filter(|row| row.0 == name);
        let mut tokens: Vec<String> = rows.map(|row| row.1).collect();
        tokens.sort();
        tokens
    };
    assert_eq!(of("left"), ["1,4", "2,6"]);
    assert_eq!(of("right"), ["1,5", "2,7"]);
    assert_eq!(of("last"), ["1,4-5", "2,6-7"]);
    assert_eq!(of("end"), ["1-2,4-7"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_none_or_too_long_fails_its_step_and_the_next_reads_why() {
    for (items, why) in [
        (
            "inputs.many",
            "for_each = \"inputs.many\": it gives 3 items; at most 2 are walked (`max_items`)",
        ),
        ("inputs.text", "for_each = \"inputs.text\": it gives string, and not a list"),
        ("inputs.many[0].path", "for_each = \"inputs.many[0].path\": there is no such value"),
    ] {
        let step = sequence([
            each("look", items, 2, agent("look", "{{ item }}")),
            agent("last", "{{ steps.look.status }}: {{ steps.look.error }}"),
        ]);
        let setup = script(json!({ "last": told("read", &[&format!("failed: {why}")]) }));
        let inputs = vec![
            input("many", Some(json!([{}, {}, {}])), true),
            input("text", Some("abc".into()), false),
        ];
        let story = setup.walks(walk(inputs, &[], step)).run().await;
        check_invariants(&story);
        assert_eq!(declared(&story), rows(&[("last", "")]), "{why}");
        assert_eq!(story.end.outcome, done("read"), "{why}");
        assert_eq!(warnings(&story), [format!("the step `look` failed: {why}")]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_nothing_is_walked_for_nobody() {
    let step = sequence([
        each("look", "[]", 2, agent("look", "{{ item }}")),
        agent("last", "{{ steps.look.status }} {{ steps.look.items | length }}"),
    ]);
    let story = script(json!({"last": told("read", &["completed 0"])})).flow(step).run().await;
    assert_eq!(story.end.outcome, done("read"));
}

#[tokio::test(start_paused = true)]
async fn rounds_are_walked_until_the_condition_holds() {
    let mend =
        sequence([agent("fix", "round {{ round }}"), answering("check", "{{ steps.fix.text }}")]);
    let step = sequence([
        until("steps.check.value.ok", 4, mend.named("mend")),
        agent(
            "last",
            "{{ steps.fix.text }} {{ steps.mend.status }} {{ steps.mend.items | length }}",
        ),
    ]);
    let tries = until("round == 3", 4, agent("try", "try {{ round }}"));
    let story = script(json!({
        "try#2": told("fine", &["try 2"]),
        "try#3": told("fine", &["try 3"]),
    }))
    .flow(sequence([tries, agent("end", "{{ steps.try.status }}")]))
    .run()
    .await;
    check_invariants(&story);
    assert_eq!(keys(&story), ["try#1", "try#2", "try#3", "end"]);
    let story = script(json!({
        "check": gives(json!({"ok": true})),
        "fix": [{"text": "fixed"}],
        "last": told("over", &["fixed completed 2"]),
    }))
    .flow(step)
    .run()
    .await;
    assert_eq!(keys(&story), ["mend#1/fix", "mend#1/check", "last"]);
    assert_eq!(story.end.outcome, done("over"));
}

#[tokio::test(start_paused = true)]
async fn rounds_that_come_to_no_end_fail_and_leave_what_they_came_to() {
    let step = sequence([
        until("steps.try.text == 'never'", 2, agent("try", "x")),
        agent("last", "{{ steps.try.status }} after {{ steps.try.text }}: {{ steps.try.error }}"),
    ]);
    let told = told("read", &["failed after fine: until = ", "does not hold after 2 rounds"]);
    let story = script(json!({ "last": told })).flow(step.clone()).run().await;
    check_invariants(&story);
    assert_eq!(story.end.outcome, done("read"));
    let alone = until("steps.try.text == 'never'", 2, agent("try", "x"));
    let story = script(json!({})).flow(alone).run().await;
    let why = "until = \"steps.try.text == 'never'\" does not hold after 2 rounds";
    assert_eq!(story.end.outcome, Outcome::failed(FailureKind::Setup, why));
    // Each round has tokens of its own.
    let pair = parallel([agent("a", "x"), agent("b", "x")]);
    let story = script(json!({})).flow(until("round == 2", 3, pair)).run().await;
    let expected = [("a", "1"), ("b", "2"), ("a", "1-3"), ("b", "1-2,4")];
    assert_eq!(declared(&story), rows(&expected));
}

#[tokio::test(start_paused = true)]
async fn what_a_condition_leaves_out_is_never_declared_and_says_so() {
    let step = sequence([
        agent("first", "x"),
        when(
            "steps.first.text == 'other'",
            parallel([agent("a", "x"), agent("b", "x")]).named("pair"),
        ),
        parallel([
            when("steps.first.text == 'fine'", agent("c", "x")),
            when("steps.pair.status != 'skipped'", agent("d", "x")),
            agent("e", "{{ steps.a.status }} {{ steps.pair.items | length }}"),
        ])
        .named("rest"),
        agent("last", "{% for one in steps.rest.items %}{{ one.status }} {% endfor %}"),
    ]);
    let setup = script(json!({
        "e": told("read", &["skipped 0"]),
        "last": told("over", &["completed skipped completed "]),
    }));
    let story = setup.flow(step).run().await;
    check_invariants(&story);
    assert_eq!(story.end.outcome, done("over"));
    // The tokens are those of the whole tree, whatever is left out of it.
    let expected = [("first", ""), ("c", "3"), ("e", "5"), ("last", "3,5")];
    assert_eq!(declared(&story), rows(&expected));
    let slots = heads(&story)
        .iter()
        .filter_map(|(_, head, _)| head.slot)
        .map(|slot| (slot.index, slot.total))
        .collect::<Vec<_>>();
    assert_eq!(slots, [(0, 2), (1, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_text_about_what_is_not_there_fails_its_step_alone() {
    let step = sequence([
        answering("first", "x"),
        parallel([
            agent("bad", "{{ steps.first.value.place }}"),
            when("steps.first.value.ok", agent("worse", "x")),
            agent("good", "x"),
        ]),
        agent("last", "{{ steps.bad.error }} / {{ steps.worse.error }}"),
    ]);
    let contains = [
        "its prompt cannot be put together: undefined value: `steps.first.value.place` is undefined",
        "when = ",
        "there is no such value",
    ];
    let units = json!({ "first": gives(json!({})), "last": told("read", &contains) });
    let story = script(units).flow(step).run().await;
    check_invariants(&story);
    assert_eq!(story.end.outcome, done("read"), "{:?}", warnings(&story));
    assert_eq!(story.states(), [Completed, Failed, Completed, Completed]);
}

#[tokio::test(start_paused = true)]
async fn a_flow_in_a_flow_has_inputs_and_a_scope_of_its_own() {
    let inside = sequence([
        agent("plan", "{{ inputs.place }}, {{ inputs.list[1] }}, {{ inputs.depth }}"),
        answering("report", "{{ steps.plan.text }}"),
    ]);
    let inputs = vec![
        input("place", None, false),
        input("list", None, true),
        input("depth", Some("flat".into()), false),
    ];
    let audit = Arc::new(Flow::new("audit", "", inputs, inside).unwrap());
    let passed = vec![
        ("place".into(), Passed::Words(words("at {{ steps.plan.text }}"))),
        ("list".into(), Passed::Words(words("{{ inputs.all | tojson }}"))),
    ];
    let inner = Step::inner("audit", audit, passed, OnError::Continue).unwrap();
    let step = sequence([
        agent("plan", "x"),
        inner,
        agent("last", "{{ steps.audit.status }} {{ steps.audit.value.n }} {{ steps.plan.text }}"),
    ]);
    let setup = script(json!({
        "plan": [{"text": "home"}],
        "report": gives(json!({"n": 7})),
        "last": told("over", &["completed 7 home"]),
    }));
    let inputs = vec![input("all", Some(json!([1, "two"])), true)];
    let story = setup.walks(walk(inputs, &[], step)).run().await;
    check_invariants(&story);
    assert_eq!(story.end.outcome, done("over"));
    assert_eq!(keys(&story), ["plan", "audit/plan", "audit/report", "last"]);
    let prompts: Vec<&str> = story
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Prompted(prompt) => Some(&*prompt.text),
            _ => None,
        })
        .collect();
    assert_eq!(prompts[2], "\n\nat home, two, flat");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_stops_its_flow_lets_who_runs_come_to_an_end_and_nobody_else_start() {
    let bad = json!([{"fault": {"error": {"status": 400, "message": "no"}}}]);
    let slow = json!([{"text": "late", "delay_ms": 500}]);
    let step = sequence([
        parallel([
            sequence([stopping("bad"), agent("behind", "x")]),
            sequence([agent("slow", "x"), agent("after", "x")]),
        ]),
        agent("never", "x"),
    ]);
    let story = script(json!({"bad": bad, "slow": slow})).flow(step).run().await;
    check_invariants(&story);
    let names: Vec<String> = declared(&story).into_iter().map(|row| row.0).collect();
    assert_eq!(names, ["sequence", "sequence", "bad", "slow"]);
    let why = "`sequence` failed: `bad` failed: HTTP 400: no";
    assert_eq!(story.end.outcome, Outcome::failed(FailureKind::Request, why));
    // Those that wait in the queue do not start either, whatever they hold.
    let item = when("item != 3", sequence([stopping("bad"), agent("behind", "x")]));
    let bad = json!([{"fault": {"error": {"status": 400, "message": "no"}}}]);
    for (body, asked) in [(stopping("bad"), 2), (item, 2)] {
        let step = each("all", "[1, 2, 3, 4, 5]", 5, body);
        let late = json!([{"text": "late", "delay_ms": 50}]);
        let setup = script(json!({"all[0]": bad, "all[1]": late, "bad": bad}));
        let story = setup.flow(step).cap(2).run().await;
        check_invariants(&story);
        let is_request = |event: &&Event| matches!(event.kind, EventKind::TurnStarted { .. });
        let turns: Vec<UnitId> =
            story.events.iter().filter(is_request).map(|event| event.unit).collect();
        assert_eq!(turns.len(), asked, "{turns:?} of {:#?}", story.events);
        let Outcome::Failed(failure) = &story.end.outcome else { panic!("{:?}", story.end) };
        assert!(failure.message.contains("HTTP 400: no"), "{failure:?}");
    }
    // In a flow of its own it ends that one, and the outer one if that says so.
    for (on_error, is_last) in [(OnError::Continue, true), (OnError::Stop, false)] {
        let inner = Arc::new(Flow::new("inner", "", Vec::new(), stopping("bad")).unwrap());
        let inner = Step::inner("inner", inner, Vec::new(), on_error).unwrap();
        let bad = json!([{"fault": {"error": {"status": 400, "message": "no"}}}]);
        let step = sequence([inner, agent("last", "{{ steps.inner.error }}")]);
        let setup =
            script(json!({"bad": bad, "last": told("over", &["`bad` failed: HTTP 400: no"])}));
        let story = setup.flow(step).run().await;
        assert_eq!(story.end.outcome == done("over"), is_last, "{:?}", story.end.outcome);
    }
}

/// Adds up what agents said.
#[derive(Debug)]
struct Lengths;

impl Compute for Lengths {
    fn reads(&self) -> &[&str] {
        &["look"]
    }

    fn compute(&self, given: &Given) -> Result<Value, Fault> {
        let items = given.step("look").and_then(|look| look["items"].as_array());
        let items = items.ok_or("nothing was looked at")?;
        assert!(given.step("first").is_none(), "only what is read is given");
        let factor = given.input("factor").and_then(Value::as_u64).ok_or("no factor")?;
        let lengths = items.iter().filter_map(|item| Some(item["text"].as_str()?.len() as u64));
        match lengths.sum::<u64>() * factor {
            0 => panic!("a sum of nothing"),
            13 => Err("thirteen".into()),
            sum => Ok(json!({ "sum": sum })),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_computation_reads_results_and_gives_one() {
    for (said, factor, status, text) in [
        ("fine", "2", "completed", r#"{"sum":8}"#),
        ("abcdefghijklm", "1", "failed", "thirteen"),
        ("fine", "0", "failed", "it panicked"),
    ] {
        let step = sequence([
            agent("first", "x"),
            each("look", "[1]", 1, agent("look", "x")),
            Step::computed("sum", Arc::new(Lengths), OnError::Continue),
            agent(
                "last",
                "{{ steps.sum.status }} {{ steps.sum.text }}{{ steps.sum.error or '' }} {{ steps.first.text }}",
            ),
        ]);
        let look = json!([{ "text": said }]);
        let expected = format!("{status} {text} fine");
        let setup = script(json!({ "look[0]": look, "last": told("over", &[&expected]) }));
        let inputs = vec![input("factor", None, true)];
        let story = setup.walks(walk(inputs, &[("factor", factor)], step)).run().await;
        check_invariants(&story);
        assert_eq!(story.end.outcome, done("over"), "{status}");
        assert_eq!(declared(&story).len(), 3);
    }
}

#[tokio::test]
async fn a_prompt_reaches_its_agent_byte_for_byte() {
    // Neither a file's name nor what looks like a mark stands for anything.
    let prompt = "  first\n@session/log.jsonl\n$ARGUMENTS {x} % # }}\n\ttab\u{a0}\r\n";
    let filled = "@session/log.jsonl\n{{ inputs.text }}\n";
    let plain = |name: &str, prompt: &str| {
        let agent = AgentStep::new(name, "explore", words(prompt));
        Step::Agent(AgentStep { sees: Sees::Nothing, ..agent })
    };
    let step = sequence([plain("one", prompt), plain("two", filled)]);
    let server = Server::start(|_| Reaction::text_reply("ok"));
    let model = model_on(&server);
    let inputs = vec![input("text", Some("<b>&\n@session/log.jsonl\n{{ x }}".into()), false)];
    let setup = Setup::on(Arc::clone(&model) as _).walks(walk(inputs, &[], step));
    let story = setup.run().await;
    let bodies = bodies::prove(&story.events, &server.finish(), &model);
    let sent = |unit: u32| -> String {
        let body: Value =
            serde_json::from_str(&format!(r#"{{"m":[{}"#, bodies[&UnitId(unit)][0])).unwrap();
        body["m"][0]["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(sent(1), format!("\n\n{prompt}"));
    assert_eq!(sent(2), "\n\n@session/log.jsonl\n<b>&\n@session/log.jsonl\n{{ x }}\n");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_between_rounds_and_items_starts_nothing_more() {
    let slow = json!({"*": [{"text": "fine", "delay_ms": 1_000}]});
    let step = sequence([until("false", 1_000, agent("try", "x")), agent("never", "x")]);
    let setup = Setup::new(json!({ "units": slow })).flow(step);
    let story = setup.signal(Duration::from_millis(2_500), Signal::Interrupt).run().await;
    check_invariants(&story);
    assert_eq!(story.states(), [Completed, Completed, Cancelled]);
    assert_eq!(story.end.outcome, Outcome::Cancelled { ran: true });
}

/// Steps of most kinds, each of which takes some time.
fn all_kinds() -> Step {
    let body = sequence([agent("look", "at {{ item }}"), agent("verify", "{{ steps.look.text }}")]);
    let pair = parallel([agent("a", "{{ steps.plan.value.of }}"), agent("b", "x")]);
    let inner = Arc::new(
        Flow::new("inner", "", Vec::new(), agent("deep", "inside"))
            .expect("the tree can be walked"),
    );
    sequence([
        answering("plan", "x"),
        each("places", "steps.plan.value.places", 3, body),
        parallel([
            until("round == 2", 3, pair.named("pair")),
            when("steps.places.status == 'completed'", agent("c", "x")),
            Step::inner("inner", inner, Vec::new(), OnError::Continue)
                .expect("the tree can be walked"),
        ]),
        agent("last", "{{ steps.places.items | length }} {{ steps.inner.text }}"),
    ])
}

fn play_all_kinds(step: Step) -> Setup {
    let said = |text: &str| json!([{ "text": text, "delay_ms": 50 }]);
    let mut plan = gives(json!({"places": ["x", "y"], "of": "a"}));
    plan[0]["delay_ms"] = json!(50);
    script(json!({
        "plan": plan, "look": said("looked"), "verify": said("verified"), "a": said("A"),
        "b": said("B"), "c": said("C"),
    }))
    .walks(walk(vec![input("x", Some("1".into()), false)], &[], step))
}

/// Every agent's place and how it ended, in one invocation.
fn ends(story: &Story, invocation: u32) -> Vec<(String, Origin, bool)> {
    let mut ends: Vec<_> = heads(story)
        .into_iter()
        .filter_map(|(unit, head, _)| {
            let own = |event: &&Event| event.unit == unit && event.invocation.0 == invocation;
            let mut events = story.events.iter().filter(own);
            let end = events.find_map(|event| match &event.kind {
                EventKind::UnitEnded(end) => Some(matches!(end.outcome, Outcome::Done { .. })),
                _ => None,
            })?;
            Some((head.step.as_ref()?.key.to_string(), head.origin, end))
        })
        .collect();
    ends.sort_by(|a, b| a.0.cmp(&b.0));
    ends
}

/// Wherever the process dies: what had its answer keeps it and asks nobody, all
/// else runs, and the flow comes to what it would have come to.
#[tokio::test(start_paused = true)]
async fn a_flow_that_was_cut_off_after_any_event_runs_only_what_did_not_finish() {
    let whole = play_all_kinds(all_kinds()).run().await;
    check_invariants(&whole);
    let Outcome::Done { text } = &whole.end.outcome else { panic!("{:?}", whole.end) };
    let all: Vec<String> = ends(&whole, 1).into_iter().map(|end| end.0).collect();
    assert_eq!(all.len(), 12);
    for kept in 4..whole.events.len() {
        let story = play_all_kinds(all_kinds()).run().await;
        let finished: Vec<(String, UnitId)> = heads(&story)
            .into_iter()
            .filter_map(|(unit, head, _)| {
                let is_end = |event: &Event| {
                    event.unit == unit && matches!(event.kind, EventKind::UnitEnded(_))
                };
                let is_done = story.events[..kept].iter().any(is_end);
                is_done.then_some((head.step.as_ref()?.key.to_string(), unit))
            })
            .collect();
        let story = play_all_kinds(all_kinds()).walk_on(story, kept).await;
        check_invariants(&story);
        assert_eq!(story.end.outcome, Outcome::Done { text: Arc::clone(text) }, "{kept}");
        let walked = ends(&story, 2);
        assert_eq!(walked.iter().map(|end| end.0.clone()).collect::<Vec<_>>(), all, "{kept}");
        for (key, origin, is_done) in walked {
            let before = finished.iter().find(|(done, _)| *done == key).map(|(_, unit)| *unit);
            let expected = before.map_or(Origin::Visible, Origin::Reused);
            assert_eq!((origin, is_done), (expected, true), "{kept}: {key}");
        }
        let asked = story
            .events
            .iter()
            .filter(|event| event.invocation.0 == 2 && matches!(event.kind, EventKind::Replied(_)));
        assert_eq!(asked.count(), all.len() - finished.len(), "{kept}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_step_is_changed_only_that_step_and_those_that_quote_or_see_it_run_again() {
    let blind = |name: &str, prompt: &str| {
        Step::Agent(AgentStep {
            sees: Sees::Nothing,
            ..AgentStep::new(name, "explore", words(prompt))
        })
    };
    let flow = |last: &str, middle: &str| {
        let seeing = agent("four", "x");
        sequence([
            agent("one", "x"),
            agent("two", middle),
            blind("three", last),
            blind("five", "x"),
            seeing,
        ])
    };
    let quoting = "{{ steps.two.text }}!";
    let replies = |text: &str| json!({"one": [{"text": "1"}], "two": [{"text": text}]});
    let story = script(replies("2")).flow(flow(quoting, "x")).run().await;
    let kept = story.events.len();
    // Another text of the second step, with another answer.
    let story = script(replies("new")).flow(flow(quoting, "y")).walk_on(story, kept).await;
    check_invariants(&story);
    let origins = |story: &Story, invocation| -> Vec<(String, bool)> {
        let ends = ends(story, invocation);
        ends.into_iter().map(|end| (end.0, matches!(end.1, Origin::Reused(_)))).collect()
    };
    let row = |name: &str, is_reused| (name.to_owned(), is_reused);
    let expected =
        [("five", true), ("four", false), ("one", true), ("three", false), ("two", false)];
    assert_eq!(origins(&story, 2), expected.map(|(name, is_reused)| row(name, is_reused)));
    // Nothing is different now, and nobody is asked.
    let kept = story.events.len();
    let story =
        Setup::new(json!({"units": {}})).flow(flow(quoting, "y")).walk_on(story, kept).await;
    let expected = ["five", "four", "one", "three", "two"].map(|name| row(name, true));
    assert_eq!(origins(&story, 3), expected);
    assert_eq!(story.end.outcome, done("fine"));
}

/// An answer that was given to a failure is none to what came in its place.
#[tokio::test(start_paused = true)]
async fn what_was_said_behind_a_failure_is_asked_again_once_that_is_mended() {
    let flow = || {
        let pair = parallel([agent("one", "x"), agent("beside", "x")]);
        sequence([until("true", 2, pair.named("pair")), agent("sums_up", "x")])
    };
    let first = json!({
        "one": [{"fault": {"error": {"status": 400, "message": "no"}}}],
        "sums_up": told("one is missing", &["HTTP 400: no"]),
    });
    let story = script(first).flow(flow()).run().await;
    assert_eq!(story.end.outcome, done("one is missing"));
    let kept = story.events.len();
    let second = json!({"one": [{"text": "found"}], "sums_up": told("all is there", &["found"])});
    let story = script(second).flow(flow()).walk_on(story, kept).await;
    check_invariants(&story);
    assert_eq!(story.end.outcome, done("all is there"));
    let kept = story.events.len();
    let story = Setup::new(json!({"units": {}})).flow(flow()).walk_on(story, kept).await;
    assert_eq!(story.end.outcome, done("all is there"));
}

#[tokio::test(start_paused = true)]
async fn what_a_flow_goes_on_with_is_told_once_and_what_it_left_behind_is_not() {
    let flow = || sequence([parallel([agent("a", "x"), agent("b", "x")]), agent("last", "x")]);
    let first = json!({
        "a": [{"text": "word(a)"}],
        "b": [{"text": "half(b)", "fault": {"error": {"status": 503, "message": "down"}}}],
        "last": [{"fault": {"error": {"status": 503, "message": "down"}}}],
    });
    let story = script(first).flow(flow()).run().await;
    let kept = story.events.len();
    let second = json!({
        "b": [{"text": "word(b)", "expect": {"contains": ["go"], "lacks": ["word(a)", "half(b)"]}}],
        "last": [{"text": "over", "expect": {
            "contains": ["<said from=\"a\">\nword(a)\n</said>", "<said from=\"b\">\nword(b)\n</said>"],
            "lacks": ["half(b)", "word(a)\n</said>\n\n<said from=\"a\">"],
        }}],
    });
    let story = script(second).flow(flow()).walk_on(story, kept).await;
    check_invariants(&story);
    assert_eq!(story.end.outcome, done("over"));
}

#[tokio::test(start_paused = true)]
async fn the_log_says_what_is_walked_and_with_which_inputs() {
    let inputs = vec![input("base", Some("main".into()), false), input("all", None, true)];
    let walk = walk(inputs, &[("all", "[1]")], sequence([agent("a", "{{ inputs.base }}")]));
    let story = script(json!({})).walks(walk.clone()).run().await;
    let walked: Vec<usize> = story
        .events
        .iter()
        .enumerate()
        .filter(|(_, event)| matches!(event.kind, EventKind::Walked(_)))
        .map(|(place, _)| place)
        .collect();
    // Behind the session's head, the invocation's and the prompt.
    assert_eq!(walked, [3]);
    let EventKind::Walked(head) = &story.events[3].kind else { panic!("no head") };
    assert_eq!((&*head.name, &*head.inputs), ("test", r#"{"base":"main","all":[1]}"#));
    assert_eq!((head.steps, head.goes_on), (2, false));
    let again =
        walk.flow.given_again(&head.inputs, vec![("base".into(), Supplied::Words("x".into()))]);
    assert_eq!(again.unwrap().json(), r#"{"base":"x","all":[1]}"#);
}

/// Returns how many bytes of log so many items come to, each on average.
async fn bytes_for_each_of(count: usize) -> usize {
    let look = AgentStep::new("look", "explore", words("Look at {{ item.path }}."));
    let look = Step::Agent(AgentStep { sees: Sees::Nothing, ..look });
    let step = each("look", "inputs.rows", 10_000, look);
    let rows = (0..count).map(|row| json!({"path": format!("file {row}")}));
    let flow = Flow::new("test", "", vec![input("rows", None, true)], step)
        .expect("the tree can be walked");
    assert!(!flow.keeps("look"), "nobody reads the answers");
    let rows = Supplied::Value(rows.collect());
    let inputs = flow.given([("rows".to_owned(), rows)]).expect("the tree can be walked");
    let setup = script(json!({})).walks(Walk::new(Arc::new(flow), inputs));
    let story = setup.run().await;
    check_invariants(&story);
    assert_eq!(story.states(), vec![Completed; count]);
    assert_eq!(story.most_running(), 8);
    let last = &story.events.last().expect("the tree can be walked").branch.tokens;
    assert_eq!(last.to_string(), format!("1-{count}"));
    story.read("session/log.jsonl").expect("the tree can be walked").len() / count
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_items_come_to_their_end_and_to_no_more_for_each_than_a_hundred() {
    let (few, many) = (bytes_for_each_of(100).await, bytes_for_each_of(10_000).await);
    // The names of later ones have more digits.
    assert!(many < few + few / 4, "{few} and {many}");
}

#[test]
fn inputs_are_taken_as_they_are_declared() {
    let inputs = || vec![input("base", Some("main".into()), false), input("all", None, true)];
    let flow = Flow::new("test", "", inputs(), agent("a", "x")).unwrap();
    let given = |given: &[(&str, &str)]| {
        let given = given
            .iter()
            .map(|(name, words)| ((*name).to_owned(), Supplied::Words((*words).to_owned())));
        match flow.given(given) {
            Ok(values) => values.json(),
            Err(errors) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        }
    };
    assert_eq!(given(&[("all", "{\"x\": 1}")]), r#"{"base":"main","all":{"x":1}}"#);
    assert_eq!(given(&[("base", "[1]"), ("all", "2")]), r#"{"base":"[1]","all":2}"#);
    assert_eq!(
        given(&[("bas", "x"), ("base", "y"), ("base", "z")]),
        "there is no input `bas`; there are `base`, `all`; the input `base` is given twice; the input `all` must be given"
    );
    let wrong = given(&[("all", "{")]);
    assert!(wrong.starts_with("the input `all` takes JSON: EOF while parsing"), "{wrong}");
    assert_eq!(InputValues::default().json(), "{}");
}
