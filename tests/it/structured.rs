//! Answers that fit a schema: how they are given, what becomes of those that do
//! not fit, and who is told.

use std::sync::Arc;

use serde_json::{Value, json};
use tine::agent::TRIES_CAP;
use tine::event::{EventKind, FailureKind, Outcome, UnitId, UnitState};

use crate::fanout::check_invariants;
use crate::support::bodies::{self, model_on};
use crate::support::inside::{Setup, Story};
use crate::support::server::{Reaction, RecordedRequest, Server};
use crate::support::talk::{Talk, serve, serve_calls, shown};
use crate::support::tine::{Finished, Place};

/// The output of an answer that fits.
const TAKEN: &str = "This is your answer.";

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "size": {"type": "integer", "minimum": 1}},
        "required": ["name", "size"],
        "additionalProperties": false,
    })
}

fn give(arguments: Value) -> Value {
    json!({ "name": "StructuredOutput", "arguments": arguments })
}

/// A reply that gives an answer.
fn giving(arguments: Value) -> Value {
    json!({ "calls": [give(arguments)] })
}

fn right() -> Value {
    json!({ "name": "tine", "size": 3 })
}

fn wrong() -> Value {
    json!({ "name": "tine", "size": 0 })
}

fn of_main(replies: &[Value]) -> Value {
    json!({ "units": { "main": replies } })
}

/// Runs replies of main, whose answer must fit the schema.
async fn play(replies: &[Value]) -> Story {
    let story = Setup { schema: Some(schema()), ..Setup::new(of_main(replies)) }.run().await;
    check_invariants(&story);
    story
}

fn answered(value: &Value) -> Outcome {
    Outcome::Done { text: value.to_string().into() }
}

fn failed(why: &str) -> Outcome {
    let message = format!("no answer that fits its schema in 5 tries; at the last one: {why}");
    Outcome::failed(FailureKind::StructuredOutput, message)
}

/// Returns how many turns main took.
fn turns(story: &Story) -> usize {
    let is_turn = |kind: &EventKind| matches!(kind, EventKind::TurnStarted { .. });
    story.events.iter().filter(|event| event.unit == UnitId::MAIN && is_turn(&event.kind)).count()
}

const MISFIT: &str = "The answer does not fit the schema. Call `StructuredOutput` again, with the \
    whole answer.\n`/size`: must be at least 1, not 0";

/// What a failure tells of it.
const TOO_SMALL: &str = "`/size`: must be at least 1, not 0";

#[tokio::test(start_paused = true)]
async fn an_answer_that_fits_ends_the_unit_without_another_request() {
    let story = play(&[giving(right())]).await;
    assert_eq!(story.end.outcome, answered(&right()));
    assert_eq!(story.outputs(UnitId::MAIN), [TAKEN]);
    assert_eq!(turns(&story), 1);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_told_with_its_place_and_tried_again() {
    let broken =
        json!({ "calls": [{ "name": "structuredoutput", "arguments": "{\"name\": \"ti" }] });
    let story = play(&[giving(wrong()), broken, giving(right())]).await;
    assert_eq!(story.end.outcome, answered(&right()));
    let outputs = story.outputs(UnitId::MAIN);
    assert_eq!((outputs[0], outputs[2]), (MISFIT, TAKEN));
    assert!(outputs[1].starts_with("The arguments are not valid JSON"), "{}", outputs[1]);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_never_gives_one_that_fits_ends_as_a_failure_of_its_own() {
    let again = json!({ "text": "here", "calls": [give(wrong())], "repeat": true });
    let story = play(&[again]).await;
    assert_eq!(story.end.outcome, failed(TOO_SMALL));
    assert_eq!(&*story.end.text, "here");
    assert_eq!(turns(&story), TRIES_CAP as usize);
    // The same call again and again, and yet no loop: it is said only once why.
    assert!(story.outputs(UnitId::MAIN).iter().all(|output| *output == MISFIT));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_ends_without_an_answer_is_reminded_and_each_time_is_a_try() {
    let story = play(&[json!({ "text": "tine, 3" }), giving(right())]).await;
    assert_eq!(story.end.outcome, answered(&right()));
    let reminders = |story: &Story| {
        let texts = story.events.iter().filter_map(|event| match &event.kind {
            EventKind::Notified { children, text, wrote: 0 } if children.is_empty() => Some(text),
            _ => None,
        });
        texts.filter(|text| text.starts_with("Your answer is still missing.")).count()
    };
    assert_eq!(reminders(&story), 1);
    let story = play(&[json!({ "text": "tine, 3", "repeat": true })]).await;
    assert_eq!(story.end.outcome, failed("it ended without one\nit wrote: tine, 3"));
    assert_eq!((reminders(&story), turns(&story)), (4, 5));
}

#[tokio::test(start_paused = true)]
async fn calls_beside_an_answer_run_and_the_last_answer_counts() {
    let other = json!({ "name": "other", "size": 1 });
    let look = json!({ "name": "Glob", "arguments": { "pattern": "*.none" } });
    let calls = json!({ "calls": [give(right()), look, give(other.clone())] });
    let story = play(&[calls]).await;
    assert_eq!(story.end.outcome, answered(&other));
    let outputs = story.outputs(UnitId::MAIN);
    assert_eq!((outputs.len(), outputs[0], outputs[2]), (3, TAKEN, TAKEN));
    let story = play(&[json!({ "calls": [give(right()), give(wrong())] })]).await;
    assert_eq!((story.end.outcome.clone(), turns(&story)), (answered(&right()), 1));
}

#[tokio::test(start_paused = true)]
async fn news_after_an_answer_may_change_it_and_words_and_misfits_do_not() {
    let task = json!({ "description": "look", "prompt": "look", "subagent_type": "explore", "run_in_background": true });
    let start = json!({ "calls": [{ "name": "Agent", "arguments": task }] });
    let run = async |last: Value| {
        let script = json!({ "units": {
            "main": [start, giving(right()), last],
            "look": [{ "text": "found", "delay_ms": 500 }],
        } });
        Setup { schema: Some(schema()), ..Setup::new(script) }.run().await
    };
    assert_eq!(run(json!({ "text": "So it is." })).await.end.outcome, answered(&right()));
    let other = json!({ "name": "found", "size": 1 });
    assert_eq!(run(giving(other.clone())).await.end.outcome, answered(&other));
    let mut worse = giving(wrong());
    worse["repeat"] = json!(true);
    assert_eq!(run(worse).await.end.outcome, answered(&right()));
}

/// Main answers in words, then with what does not fit, then well.
fn react(request: &RecordedRequest) -> Reaction {
    match Talk::of(request).turn() {
        1 => Reaction::text_reply("tine, 3"),
        2 => Reaction::call_reply(&[("StructuredOutput", wrong())]),
        _ => Reaction::call_reply(&[("StructuredOutput", right())]),
    }
}

#[tokio::test]
async fn every_request_is_rendered_from_the_events_before_it_also_after_a_reminder() {
    let server = Server::start(react);
    let model = model_on(&server);
    let setup = Setup { schema: Some(schema()), ..Setup::on(Arc::clone(&model) as _) };
    let story = setup.run().await;
    let bodies = bodies::prove(&story.events, &server.finish(), &model);
    assert_eq!(bodies[&UnitId::MAIN].len(), 3);
    assert_eq!(story.end.outcome, answered(&right()));
}

/// Main starts these agents and then says `done`.
fn starting(arguments: &Value, more: &Value) -> Value {
    let mut units = json!({
        "main": [{ "calls": [{ "name": "Agent", "arguments": arguments }] }, { "text": "done" }],
    });
    let units_of = units.as_object_mut().expect("units are an object");
    units_of.extend(more.as_object().expect("more units are an object").clone());
    json!({ "units": units })
}

fn task(name: &str) -> Value {
    json!({ "description": name, "prompt": name, "subagent_type": "explore" })
}

fn task_with_schema(name: &str, schema: Value) -> Value {
    let mut task = task(name);
    task["schema"] = schema;
    task
}

#[tokio::test(start_paused = true)]
async fn a_slot_whose_answer_never_fits_fails_alone_and_its_parent_reads_json_of_the_others() {
    let tasks = [task_with_schema("a", schema()), task("b"), task_with_schema("c", schema())];
    let script = starting(
        &json!({ "tasks": tasks }),
        &json!({
            "a": [giving(right())],
            "b": [{ "text": "in words" }],
            "c": [{ "text": "so far", "calls": [give(wrong())], "repeat": true }],
        }),
    );
    let story = Setup::new(script).run().await;
    check_invariants(&story);
    use UnitState::{Completed, Failed};
    assert_eq!(story.states(), [Completed, Completed, Failed]);
    assert_eq!(story.end.outcome, Outcome::Done { text: "done".into() });
    assert_eq!(
        story.outputs(UnitId::MAIN),
        [format!(
            "## Task 1: a (explore)\n\n{}\n\n---\n\n## Task 2: b (explore)\n\nin words\n\n---\n\n\
             ## Task 3: c (explore)\n\n[failed: no answer that fits its schema in 5 tries; at the \
             last one: {TOO_SMALL}]\n\nPartial result:\n\nso far",
            right()
        )]
    );
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_continued_is_held_to_its_schema_again() {
    let mut background = task_with_schema("a", schema());
    background["run_in_background"] = true.into();
    let send =
        json!({ "name": "SendMessage", "arguments": { "to": "agent-1", "message": "and now?" } });
    let script = json!({ "units": {
        "main": [
            { "calls": [{ "name": "Agent", "arguments": background }] },
            { "text": "waiting" },
            { "calls": [send] },
            { "text": "waiting" },
            { "text": "done" },
        ],
        // It begins again with the first of them.
        "a": [{ "text": "tine, 3" }, giving(right())],
    } });
    let story = Setup::new(script).run().await;
    check_invariants(&story);
    let ends = story.events.iter().filter_map(|event| match &event.kind {
        EventKind::UnitEnded(end) => Some(end.outcome.clone()),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), [answered(&right()), answered(&right())]);
}

#[test]
fn a_fork_takes_no_schema_and_a_schema_that_cannot_be_used_starts_nothing() {
    for (arguments, expected) in [
        (
            json!({ "description": "d", "prompt": "p", "schema": schema() }),
            "Parameter \"schema\" cannot be set for a fork: an answer to a schema is given with a \
             tool of its own, and a fork has this conversation's tools. Name another \
             subagent_type, or say in the prompt what the answer shall look like.",
        ),
        (
            json!({ "tasks": [task("a"), task_with_schema("b", json!({ "type": "text" }))] }),
            "Parameter \"schema\" in tasks[1] is not a usable JSON Schema: at `#/type`: must \
             be one of null, boolean, integer, number, string, array and object.",
        ),
        (
            json!({ "tasks": [task_with_schema("a", json!({ "$ref": "http://127.0.0.1:9/" }))] }),
            "Parameter \"schema\" in tasks[0] is not a usable JSON Schema: at `#/$ref`: \
             `http://127.0.0.1:9/` leads out of the schema, and nothing is fetched.",
        ),
    ] {
        let server = serve_calls(&[("Agent", arguments)], |_| Reaction::text_reply("no"));
        Place::new().ask(&server, &[]).exits(0);
        let requests = server.finish();
        assert_eq!((shown(&requests), requests.len()), (vec![expected.to_owned()], 2));
    }
}

#[test]
fn a_fork_ends_with_its_words_though_its_parent_gives_data() {
    let server = serve(|talk| match (talk.directive(), talk.turn()) {
        (None, 1) => Reaction::call_reply(&[(
            "Agent",
            json!({ "tasks": [{ "description": "d", "prompt": "look", "subagent_type": "fork" }] }),
        )]),
        (None, _) => Reaction::call_reply(&[("StructuredOutput", right())]),
        (Some(_), 2) => Reaction::call_reply(&[("StructuredOutput", right())]),
        (Some(_), _) => Reaction::text_reply("found"),
    });
    let finished = Place::new().ask(&server, &["--json-schema", &schema().to_string()]).exits(0);
    assert_eq!(finished.stdout, format!("{}\n", right()));
    let requests = server.finish();
    assert_eq!(shown(&requests), ["## Task 1: d (fork)\n\nfound"]);
    let fork = requests.iter().map(Talk::of).rfind(|talk| talk.directive().is_some()).unwrap();
    let refusal = fork.outputs()[0];
    assert!(refusal.starts_with("You are a fork. `StructuredOutput` is how"), "{refusal}");
}

/// Runs one prompt against a script, with the schema.
fn ask(place: &Place, replies: &[Value], flags: &[&str]) -> Finished {
    let schema = schema().to_string();
    let all: Vec<&str> =
        ["--json-schema", &schema].into_iter().chain(flags.iter().copied()).collect();
    place.play(&of_main(replies), &all)
}

#[test]
fn the_answer_is_data_in_every_format() {
    let replies = [giving(wrong()), json!({ "text": "So:", "calls": [give(right())] })];
    let text = ask(&Place::new(), &replies, &[]).exits(0);
    assert_eq!(text.stdout, format!("{}\n", right()));
    let json = ask(&Place::new(), &replies, &["-o", "json"]).exits(0).result();
    let stream = ask(&Place::new(), &replies, &["-o", "stream-json"]).exits(0).records();
    for result in [&json, stream.result()] {
        assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(false)));
        assert_eq!(result["structured_output"], right());
        assert_eq!(result["result"], right().to_string());
    }
    let tools = stream.system("init")[0]["tools"].as_array().unwrap();
    assert_eq!(tools.last(), Some(&json!("StructuredOutput")));
}

#[test]
fn a_run_without_one_ends_with_a_result_that_says_so() {
    let replies = [json!({ "text": "no", "repeat": true })];
    let result = ask(&Place::new(), &replies, &["-o", "json"]).exits(1).result();
    assert_eq!(result["subtype"], "error_max_structured_output_retries");
    assert_eq!(result["is_error"], true);
    assert_eq!(result["structured_output"], Value::Null);
    let error = "no answer that fits its schema in 5 tries; at the last one: it ended without one\n\
        it wrote: no";
    assert_eq!(result["errors"], json!([error]));
    let text = ask(&Place::new(), &replies, &[]).exits(1);
    assert!(text.stderr.contains(error), "{}", text.stderr);
}

#[test]
fn without_a_schema_nothing_is_said_of_one() {
    let place = Place::new();
    let records = place
        .play(&of_main(&[json!({ "text": "done" })]), &["-o", "stream-json"])
        .exits(0)
        .records();
    assert!(records.result().get("structured_output").is_none());
    assert!(!records.0[0].to_string().contains("StructuredOutput"));
}

#[test]
fn a_schema_may_be_in_a_file_and_its_answer_need_not_be_an_object() {
    let place = Place::new();
    place.write("list.json", "{\"type\": \"array\",\n \"items\": {\"type\": \"integer\"}}\n");
    for name in ["list.json", "@list.json"] {
        let replies = [giving(json!({ "value": ["x"] })), giving(json!({ "value": [1, 2.0] }))];
        let finished =
            place.play(&of_main(&replies), &[&format!("--json-schema={name}"), "-o", "json"]);
        assert_eq!(finished.exits(0).result()["structured_output"], json!([1, 2.0]));
    }
}

#[test]
fn a_schema_that_cannot_be_used_is_refused_before_anything_runs() {
    let place = Place::new();
    let ask = |schema: &str| place.play(&of_main(&[]), &["--json-schema", schema]);
    ask("{\"type\":").refuses(
        42,
        "error: `--json-schema` is not a usable JSON Schema: it is not valid JSON: EOF while \
         parsing a value at line 1 column 8\n",
    );
    ask("{\"properties\":{\"a\":{\"$ref\":\"#/x\"}}}").refuses(
        42,
        "error: `--json-schema` is not a usable JSON Schema: at `#/properties/a/$ref`: \
         `#/x` leads nowhere\n",
    );
    ask("none.json").refuses(
        42,
        "error: cannot read `none.json`: there is no such file\n\
         hint: `--json-schema` takes a JSON object or the name of a file\n",
    );
    place.write("bad.json", "[]");
    ask("bad.json").refuses(
        42,
        "error: `bad.json` is not a usable JSON Schema: at `#`: must be a schema: an \
         object, true or false\n",
    );
    let deep = format!("{}{{}}{}", "{\"not\":".repeat(200), "}".repeat(200));
    let finished = ask(&deep).exits(42);
    assert!(
        finished.stderr.contains("it is not valid JSON: recursion limit exceeded"),
        "{}",
        finished.stderr
    );
    place.write("long.json", format!("{{\"title\":\"{}\"}}", "x".repeat(1_000_000)));
    let finished = ask("long.json").exits(42);
    assert!(
        finished.stderr.contains("it has 1000012 characters; at most 64000"),
        "{}",
        finished.stderr
    );
    assert!(place.sessions().is_empty());
    place.tine(["demo", "--json-schema", "{}"]).run().refuses(
        2,
        "error: this command's answer has a form of its own\n\
         hint: leave `--json-schema` out, or ask with `-p`\n",
    );
}

#[test]
fn a_session_that_goes_on_is_held_to_its_schema_too() {
    let place = Place::new();
    ask(&place, &[giving(right())], &[]).exits(0);
    let other = json!({ "name": "other", "size": 1 });
    let finished = ask(&place, &[giving(wrong()), giving(other.clone())], &["-c", "-o", "json"]);
    assert_eq!(finished.exits(0).result()["structured_output"], other);
    let without = place.play(&of_main(&[json!({ "text": "in words" })]), &["-c", "-o", "json"]);
    let result = without.exits(0).result();
    assert_eq!((&result["result"], result.get("structured_output")), (&json!("in words"), None));
}

#[test]
fn every_message_of_a_program_is_held_to_the_schema() {
    let server = serve(|talk| match talk.turn() {
        1 => Reaction::text_reply("tine, 3"),
        2 | 3 => Reaction::call_reply(&[("StructuredOutput", right())]),
        _ => Reaction::text_reply("no"),
    });
    let schema = format!("--json-schema={}", schema());
    let flags = ["--input-format", "stream-json", "-o", "stream-json", "-m", "m", &schema];
    let place = Place::new();
    let mut running = place.tine(flags).server(&server).silent_stdin().start();
    let mut ask = || {
        let message = json!({ "role": "user", "content": "go" });
        running.say(&json!({ "type": "user", "message": message }).to_string());
        running.read_until(|record| record["type"] == "result")
    };
    for _ in 0..2 {
        let result = ask();
        let end = (&result["subtype"], &result["structured_output"]);
        assert_eq!(end, (&json!("success"), &right()));
    }
    assert_eq!(ask()["subtype"], "error_max_structured_output_retries");
    running.hang_up();
    running.wait().exits(1);
    // Two, one, and five.
    assert_eq!(server.finish().len(), 8);
}

#[test]
fn a_hostile_schema_of_a_task_ends_in_bounded_time() {
    let level = |next: u32| json!({ "anyOf": [{ "$ref": format!("#/$defs/{next}") }, { "$ref": format!("#/$defs/{next}") }] });
    let mut defs: serde_json::Map<String, Value> =
        (0..60).map(|number| (number.to_string(), level(number + 1))).collect();
    defs.insert("60".to_owned(), json!({ "pattern": "^(a|a)*(?<!b)$" }));
    let hostile = json!({
        "type": "object", "$defs": defs, "additionalProperties": { "$ref": "#/$defs/0" },
    });
    let text = "a".repeat(60) + "b";
    let server = serve_calls(
        &[("Agent", json!({ "tasks": [task_with_schema("a", hostile)] }))],
        move |_| Reaction::call_reply(&[("StructuredOutput", json!({ "x": text }))]),
    );
    Place::new().ask(&server, &[]).exits(0);
    let output = shown(&server.finish()).remove(0);
    assert!(output.contains("a pattern of the schema takes too long on the value"), "{output}");
}
