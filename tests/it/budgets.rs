//! Limits on money, tokens, calls and time: what counts, who ends, and what is
//! still told of it.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use serde_json::{Value, json};
use tine::agent::Opening;
use tine::event::{EventKind, FailureKind, Outcome, UnitId, UnitState};
use tine::flow::{AgentStep, Sees, Step, StepLimits};
use tine::line::Budget;
use tine::message::Usd;
use tine::model::{Chunk, Facts, Model, ModelError, Request};
use tine::tool::Task;

use crate::fanout::check_invariants;
use crate::support::inside::{Setup, Story};
use crate::support::server::{Reaction, Server};
use crate::support::tine::Place;

fn task(description: &str) -> Value {
    json!({"description": description, "prompt": "do it", "subagent_type": "general-purpose"})
}

fn agent(arguments: Value) -> Value {
    json!({"name": "Agent", "arguments": arguments})
}

fn batch(tasks: &[Value]) -> Value {
    agent(json!({ "tasks": tasks }))
}

fn todo() -> Value {
    json!({"name": "TodoWrite", "arguments": {"todos": []}})
}

fn script(units: Value) -> Value {
    json!({ "units": units })
}

/// A reply that used so many tokens, at a dollar each.
fn reply(text: &str, calls: &[Value], tokens: u64) -> Value {
    json!({"text": text, "calls": calls, "usage": {"output": tokens, "cost_usd": tokens}})
}

/// The same, after some time.
fn after(milliseconds: u64, mut reply: Value) -> Value {
    reply["delay_ms"] = json!(milliseconds);
    reply
}

fn dollars(most: u64) -> Budget {
    Budget { usd: Some(Usd(most * Usd::ONE.0)), ..Budget::default() }
}

fn tool_calls(most: u32) -> Budget {
    Budget { tool_calls: Some(most), ..Budget::default() }
}

async fn run(units: Value, budget: Budget) -> Story {
    let setup = Setup { budget, ..Setup::new(script(units)) };
    let story = setup.run().await;
    check_invariants(&story);
    story
}

fn turns(story: &Story) -> usize {
    let starts = |kind: &EventKind| matches!(kind, EventKind::TurnStarted { .. });
    story.events.iter().filter(|event| starts(&event.kind)).count()
}

#[tokio::test(start_paused = true)]
async fn at_the_runs_budget_agents_end_with_what_they_had_and_then_the_run_does() {
    let units = json!({
        "main": [reply("Let me see.", &[batch(&[task("a"), task("b")])], 1), reply("all", &[], 1)],
        "a": [after(10, reply("a so far", &[todo()], 2)), after(10, reply("a is done", &[], 2))],
        "b": [after(30, reply("b so far", &[todo()], 2))],
    });
    let story = run(units, dollars(5)).await;
    assert_eq!(story.states(), [UnitState::Completed, UnitState::Failed]);
    let limit = "the run reached its limit of $5.00 (`--max-budget-usd`): $7.00 used";
    assert_eq!(
        story.outputs(UnitId::MAIN),
        [format!(
            "## Task 1: a (general-purpose)\n\na is done\n\n---\n\n\
             ## Task 2: b (general-purpose)\n\n[failed: {limit}]\n\nPartial result:\n\nb so far"
        )]
    );
    assert_eq!(story.end.outcome, Outcome::failed(FailureKind::Budget, limit));
    assert_eq!(&*story.end.text, "Let me see.");
    assert_eq!(turns(&story), 4);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_only_just_goes_over_the_budget_is_one() {
    let units = json!({"main": [reply("Let me see.", &[todo()], 4), reply("done", &[], 9)]});
    let story = run(units, dollars(5)).await;
    assert_eq!(story.end.outcome, Outcome::Done { text: "done".into() });
}

#[tokio::test(start_paused = true)]
async fn what_a_fork_in_the_background_uses_counts_for_its_parent() {
    let fork = agent(json!({"description": "look", "prompt": "look"}));
    let units = json!({
        "main": [reply("forking", &[fork], 1), reply("waiting", &[], 1), reply("never", &[], 1)],
        "look": [after(10, reply("looked", &[], 3))],
    });
    let story = run(units, dollars(5)).await;
    let limit = "the run reached its limit of $5.00 (`--max-budget-usd`): $5.00 used";
    assert_eq!(story.end.outcome, Outcome::failed(FailureKind::Budget, limit));
    assert_eq!((&*story.end.text, story.states()), ("waiting", vec![UnitState::Completed]));
}

#[tokio::test(start_paused = true)]
async fn a_message_to_an_agent_that_reached_its_tokens_gives_it_as_many_again() {
    let mut look = task("look");
    look["max_tokens"] = json!(10);
    look["run_in_background"] = json!(true);
    let send = json!({"name": "SendMessage", "arguments": {"to": "agent-1", "message": "go on"}});
    let wait = json!({"name": "TaskWait", "arguments": {}});
    let units = json!({
        "main": [
            reply("", &[agent(look), wait.clone()], 1), reply("", &[send, wait], 1),
            reply("done", &[], 1), reply("done", &[], 1),
        ],
        "look": [reply("so far", &[todo()], 10)],
    });
    let story = run(units, Budget::default()).await;
    let limit = "reached its limit of 10 tokens (`max_tokens`): 10 used";
    let failed = Outcome::failed(FailureKind::MaxTokens, limit);
    let ends: Vec<_> = story
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::UnitEnded(end) => Some((event.unit.0, end.usage.total(), &end.outcome)),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [(1, 10, &failed), (2, 10, &failed)]);
}

#[tokio::test(start_paused = true)]
async fn a_tasks_tokens_are_also_those_of_what_it_starts() {
    let mut outer = task("outer");
    outer["max_tokens"] = json!(10);
    let units = json!({
        "main": [reply("", &[batch(&[outer, task("beside")])], 1), reply("done", &[], 1)],
        "outer": [reply("asking", &[batch(&[task("inner")])], 3), reply("never", &[], 1)],
        "inner": [reply("working", &[todo()], 7), reply("never", &[], 1)],
        "beside": [reply("", &[todo()], 90), reply("fine", &[], 90)],
    });
    let story = run(units, Budget::default()).await;
    let limit = "reached its limit of 10 tokens (`max_tokens`): 10 used";
    assert_eq!(
        story.outputs(UnitId(1)),
        [format!(
            "## Task 1: inner (general-purpose)\n\n[failed: agent-1, on whose behalf it works, \
             {limit}]\n\nPartial result:\n\nworking"
        )]
    );
    assert_eq!(
        story.outputs(UnitId::MAIN),
        [format!(
            "## Task 1: outer (general-purpose)\n\n[failed: {limit}]\n\nPartial result:\n\n\
             asking\n\n---\n\n## Task 2: beside (general-purpose)\n\nfine"
        )]
    );
    assert_eq!(story.end.outcome, Outcome::Done { text: "done".into() });
}

#[tokio::test(start_paused = true)]
async fn a_step_of_a_flow_has_its_tokens_too() {
    let step = Step::Agent(AgentStep {
        sees: Sees::Nothing,
        limits: StepLimits { max_tokens: NonZeroU64::new(5), ..StepLimits::default() },
        ..AgentStep::new("look", "explore", "look")
    });
    let units = json!({"look": [reply("so far", &[todo()], 6)]});
    let story = Setup::new(script(units)).flow(step).run().await;
    let message = "`look` failed: reached its limit of 5 tokens (`max_tokens`): 6 used";
    assert_eq!(story.end.outcome, Outcome::failed(FailureKind::MaxTokens, message));
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_limit_do_not_run_and_say_so_and_then_the_unit_ends() {
    let glob = json!({"name": "Glob", "arguments": {"pattern": "*"}});
    let calls = [todo(), glob, todo()];
    let units = json!({
        "main": [reply("first", &[todo()], 1), reply("then", &calls, 1), reply("never", &[], 1)],
    });
    let story = run(units, tool_calls(2)).await;
    let limit = "the run reached its limit of 2 tool calls (`--max-tool-calls`): 4 asked for";
    let outputs = story.outputs(UnitId::MAIN);
    assert_eq!(outputs.len(), 4);
    assert_eq!(outputs[2..], [&*format!("Not run: {limit}."); 2]);
    assert!(outputs[..2].iter().all(|output| !output.contains("Not run")), "{outputs:?}");
    assert_eq!(story.end.outcome, Outcome::failed(FailureKind::MaxToolCalls, limit));
    assert_eq!(&*story.end.text, "then");
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_agents_count_and_one_that_needs_no_more_gives_its_answer() {
    let units = json!({
        "main": [reply("", &[batch(&[task("a"), task("b")])], 1), reply("done", &[], 1)],
        "*": [reply("", &[todo()], 1), reply("fine", &[], 1)],
    });
    let story = run(units, tool_calls(3)).await;
    assert_eq!(story.states(), [UnitState::Completed; 2]);
    assert_eq!(story.end.outcome, Outcome::Done { text: "done".into() });
}

#[tokio::test(start_paused = true)]
async fn turns_are_a_units_own_and_the_limit_is_named_as_it_was_set() {
    let mut inner = task("inner");
    inner["max_turns"] = json!(1);
    // Calls that differ are no loop.
    let glob = |number| json!({"name": "Glob", "arguments": {"pattern": format!("{number}*")}});
    let turns: Vec<Value> = (0..51).map(|number| reply("", &[glob(number)], 1)).collect();
    let units = json!({
        "main": [reply("", &[batch(&[inner, task("other")])], 1), reply("", &[todo()], 1)],
        "*": turns,
    });
    let setup = Setup { max_turns: Some(2), ..Setup::new(script(units)) };
    let story = setup.run().await;
    let output = story.outputs(UnitId::MAIN)[0];
    assert!(output.contains("[failed: reached its limit of 1 turn (`max_turns`)]"), "{output}");
    let default = "[failed: reached its limit of 50 turns (`agents.max_turns`)]";
    assert!(output.contains(default), "{output}");
    let message = "reached its limit of 2 turns (`--max-turns`)";
    assert_eq!(story.end.outcome, Outcome::failed(FailureKind::MaxTurns, message));
}

#[tokio::test(start_paused = true)]
async fn a_summary_is_a_request_like_any_other() {
    let long = "x".repeat(4_000);
    let mut script = script(json!({
        "main": [reply(&long, &[todo()], 900), reply("never", &[], 1)],
        "main:compact": [reply("never", &[], 1)],
    }));
    script["context_window"] = json!(1_000);
    let story = Setup { budget: dollars(900), ..Setup::new(script) }.run().await;
    let limit = "the run reached its limit of $900.00 (`--max-budget-usd`): $900.00 used";
    assert_eq!(story.end.outcome, Outcome::failed(FailureKind::Budget, limit));
    let compacted = |kind: &EventKind| matches!(kind, EventKind::Compacted(_));
    assert!(!story.events.iter().any(|event| compacted(&event.kind)));
}

#[tokio::test(start_paused = true)]
async fn a_fork_that_the_user_started_is_paid_for_by_the_run() {
    let opening =
        Opening::Fork { task: Task::background_fork("look", "look"), request: "/fork look".into() };
    let units = json!({"look": [reply("so far", &[todo()], 6), reply("never", &[], 1)]});
    let setup = Setup { budget: dollars(5), ..Setup::new(script(units)) };
    let story = setup.opens(opening).run().await;
    assert_eq!(story.states(), [UnitState::Failed]);
    let limit = "the run reached its limit of $5.00 (`--max-budget-usd`): $6.00 used";
    assert_eq!(story.end.outcome, Outcome::failed(FailureKind::Budget, limit));
}

/// A model of which nobody has said what it costs.
struct Unpriced(Arc<str>, Facts);

impl Model for Unpriced {
    fn name(&self) -> &Arc<str> {
        &self.0
    }

    fn facts(&self) -> &Facts {
        &self.1
    }

    fn respond(&self, _: Request) -> BoxStream<'static, Result<Chunk, ModelError>> {
        panic!("it is asked")
    }
}

#[tokio::test(start_paused = true)]
async fn where_money_is_limited_no_agent_uses_a_model_without_a_price() {
    let mut deep = task("deep");
    deep["model"] = json!("deep");
    let units = json!({
        "main": [reply("", &[batch(&[deep, task("usual")])], 1), reply("done", &[], 1)],
        "usual": [reply("fine", &[], 1)],
    });
    let model = Unpriced("deep".into(), Facts { price: None, ..Facts::UNBOUNDED });
    let models = [("deep", Arc::new(model) as Arc<dyn Model>)].into();
    let setup = Setup { budget: dollars(100), models, ..Setup::new(script(units)) };
    let story = setup.run().await;
    check_invariants(&story);
    assert_eq!(
        story.outputs(UnitId::MAIN),
        ["## Task 1: deep (general-purpose)\n\n[failed: the price of `deep` is not known, so \
          `--max-budget-usd` could not hold; set `models.deep.price`, or choose another model]\
          \n\n---\n\n## Task 2: usual (general-purpose)\n\nfine"]
    );
}

/// Tasks with this time limit, in seconds.
fn timed(names: &[&str], limit: f64) -> Value {
    let timed = |name: &&str| {
        let mut task = task(name);
        task["timeout_s"] = json!(limit);
        task
    };
    batch(&names.iter().map(timed).collect::<Vec<_>>())
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_unit_begins_when_it_starts_and_not_when_it_is_queued() {
    let units = json!({
        "main": [reply("", &[timed(&["a", "b", "c"], 1.0)], 1), reply("done", &[], 1)],
        "*": [{"text": "fine", "delay_ms": 900}],
    });
    let story = Setup::new(script(units)).cap(1).run().await;
    assert_eq!(story.states(), [UnitState::Completed; 3]);
    assert_eq!(story.took, Duration::from_millis(2_700));
}

#[tokio::test(start_paused = true)]
async fn a_units_time_stands_still_while_all_that_it_waits_for_is_queued() {
    let slow = |milliseconds| json!([{"text": "fine", "delay_ms": milliseconds}]);
    for (inner, outer_ends) in [(700, UnitState::Completed), (900, UnitState::Failed)] {
        let asks = json!({"calls": [batch(&[task("inner")])], "delay_ms": 100});
        let units = json!({
            "main": [
                reply("", &[timed(&["outer"], 1.0), batch(&[task("beside")])], 1),
                reply("done", &[], 1),
            ],
            "outer": [asks, {"text": "outer", "delay_ms": 100}],
            "inner": slow(inner),
            // Declared before the inner one, it has the permit for longer than
            // the outer one may work.
            "beside": slow(5_000),
        });
        let story = Setup::new(script(units)).cap(1).run().await;
        check_invariants(&story);
        let [outer, beside, _] = story.states()[..] else { panic!("{:?}", story.states()) };
        assert_eq!((outer, beside), (outer_ends, UnitState::Completed), "{inner}");
    }
}

#[test]
fn a_limit_that_ends_the_run_is_its_exit_code_and_its_result() {
    let units = json!({
        "main": [reply("Let me see.", &[todo()], 2), reply("done", &[todo(), todo()], 1)],
    });
    let rows = [
        (
            ["--max-budget-usd", "1.5"],
            "error_max_budget_usd",
            "the run reached its limit of $1.50 (`--max-budget-usd`): $2.00 used",
            "Let me see.",
        ),
        (
            ["--max-tool-calls", "2"],
            "error_during_execution",
            "the run reached its limit of 2 tool calls (`--max-tool-calls`): 3 asked for",
            "done",
        ),
        (
            ["--max-turns", "1"],
            "error_max_turns",
            "reached its limit of 1 turn (`--max-turns`)",
            "Let me see.",
        ),
    ];
    for (flags, subtype, error, text) in rows {
        let place = Place::new();
        let flags = [&["-o", "json"][..], &flags].concat();
        let result = place.play(&script(units.clone()), &flags).exits(53).result();
        assert_eq!(result["subtype"], subtype);
        assert_eq!(result["errors"], json!([error]));
        assert_eq!(result["result"], text);
    }
}

#[test]
fn a_run_that_may_make_no_call_may_answer_in_words_or_in_its_form_and_do_nothing_else() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}}).to_string();
    let give = json!({"name": "StructuredOutput", "arguments": {"n": 4}});
    let none = ["-o", "json", "--max-tool-calls", "0"];
    let with_schema = [&none[..], &["--json-schema", &schema]].concat();
    let of_main = |replies: &[Value]| script(json!({ "main": replies }));
    let play = |replies: &[Value], flags: &[&str]| Place::new().play(&of_main(replies), flags);
    let result = play(&[reply("four", &[], 1)], &none).exits(0).result();
    assert_eq!(result["result"], "four");
    let result = play(&[reply("", std::slice::from_ref(&give), 1)], &with_schema).exits(0).result();
    assert_eq!(result["structured_output"], json!({"n": 4}));
    let error = "the run reached its limit of 0 tool calls (`--max-tool-calls`): 1 asked for";
    for replies in [[reply("", &[todo()], 1)], [reply("", &[todo(), give], 1)]] {
        let result = play(&replies, &with_schema).exits(53).result();
        assert_eq!(result["errors"], json!([error]));
    }
    let limited = json!({"main": [reply("", &[todo()], 1), reply("done", &[], 1)]});
    let unlimited = ["-o", "json", "--max-tool-calls", "-1"];
    Place::new().play(&script(limited), &unlimited).exits(0);
}

#[test]
fn money_is_what_a_servers_tokens_cost_at_the_configured_price() {
    let place = Place::new();
    let server = Server::start(|_| Reaction::call_reply(&[("TodoWrite", json!({"todos": []}))]));
    let url = server.base_url();
    place.configure(&format!(
        "[models.m]\nbase_url = '{url}'\nprice = {{ input = 100000, output = 200000 }}"
    ));
    let flags = ["-p", "go", "-m", "m", "--max-budget-usd", "5", "-o", "json"];
    let result = place.tine(flags).run().exits(53).result();
    let error = "the run reached its limit of $5.00 (`--max-budget-usd`): $6.00 used";
    assert_eq!(result["errors"], json!([error]));
    assert_eq!((server.count(), &result["total_cost_usd"]), (3, &json!(6.0)));
}

#[test]
fn a_limit_on_money_that_cannot_hold_is_said_and_ends_nothing() {
    let (place, server) = (Place::new(), Server::start(|_| Reaction::text_reply("hi")));
    let finished = place.ask(&server, &["--max-budget-usd", "1"]).exits(0);
    assert_eq!(finished.stdout, "hi\n");
    let said = "warning: the price of `m` is not known, so `--max-budget-usd` does not count it\n\
         hint: set `models.m.price` in `config.toml`; see `config.example.toml`\n";
    assert!(finished.stderr.contains(said), "{}", finished.stderr);
    assert_eq!(server.count(), 1);
}

#[test]
fn a_limit_of_no_money_lets_nothing_be_spent_twice() {
    let place = Place::new();
    let server = Server::start(|_| Reaction::call_reply(&[("TodoWrite", json!({"todos": []}))]));
    let url = server.base_url();
    place
        .configure(&format!("[models.m]\nbase_url = '{url}'\nprice = {{ input = 1, output = 1 }}"));
    let flags = ["-p", "go", "-m", "m", "--max-budget-usd", "0", "-o", "json"];
    let result = place.tine(flags).run().exits(53).result();
    assert_eq!(result["subtype"], "error_max_budget_usd");
    assert!(server.count() <= 1, "{} requests", server.count());
}

#[test]
fn an_amount_that_is_none_is_a_usage_error() {
    let place = Place::new();
    for amount in ["-1", "nan", "much"] {
        let flag = format!("--max-budget-usd={amount}");
        let said = place.tine(["-p", "go", &flag]).run().exits(2).stderr;
        assert!(said.contains("expected dollars, such as 2.50"), "{said}");
    }
}
