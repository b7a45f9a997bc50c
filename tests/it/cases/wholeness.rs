//! Slots, rows and reviews whose answers are not whole.

use serde_json::{Value, json};

use crate::support::play::Case;
use crate::support::repository::Repository;
use crate::support::server::{Reaction, RecordedRequest, Server, events};
use crate::support::talk::serve;
use crate::support::tine::{Finished, Place};

const CUT: &str = "the answer stops at the model's output limit; ask for less at once, or raise \
    `max_output_tokens`";
const WITHHELD: &str = "the provider withheld the answer, or the rest of it";

/// Answers that are not whole: the reply, the failure's kind and words, and what is left.
fn faulty() -> Vec<(Value, &'static str, &'static str, &'static str)> {
    vec![
        (json!({ "text": "half", "stop": "max_tokens" }), "output_limit", CUT, "half"),
        (json!({ "text": "half", "stop": "refusal" }), "refusal", WITHHELD, "half"),
        (json!({ "stop": "refusal" }), "refusal", WITHHELD, ""),
    ]
}

/// Answers without a word, which are asked for again before they are given up.
fn wordless() -> Vec<Value> {
    vec![
        json!({}),
        json!({ "text": " \n" }),
        json!({ "thinking": "That is all." }),
        json!({ "thinking": "I th", "stop": "max_tokens" }),
    ]
}

fn lines(finished: &Finished) -> Vec<Value> {
    finished.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_row_whose_answer_was_cut_off_is_failed_and_tried_again() {
    let case = Case::open("map-row-cut-off");
    let script = case.script("script.json");
    let session = "0199a000-0000-7000-8000-000000000034";
    let asked = ["map", "--input", "rows.csv", "--prompt", "look.md", "-m"];
    let run = |model: &str, flags: &[&str]| {
        let arguments: Vec<&str> = asked.iter().chain(&[model]).chain(flags).copied().collect();
        case.tine(&arguments).run()
    };
    let first = run(&script, &["--session-id", session]).exits(1);
    let rows = lines(&first);
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!((&row["status"], &row["result"]), (&json!("failed"), &json!("half of the ans")));
        assert_eq!(row["error"], format!("output_limit: {CUT}"));
    }
    assert!(first.stderr.contains("--retry-failed"), "{}", first.stderr);
    let whole = case.place.script("whole.json", &json!({ "units": { "*": [{ "text": "all" }] } }));
    let again = run(&whole, &["--resume", session, "--retry-failed"]).exits(0);
    assert!(lines(&again).iter().all(|row| row["result"] == "all"), "{}", again.stdout);
}

#[test]
fn rows_that_were_withheld_or_are_empty_are_failed_too() {
    let run = |reply: Value| {
        let place = Place::new();
        place.write("rows.csv", "a\n1\n");
        place.write("look.md", "Look at {{ a }}.");
        let model = place.script("s.json", &json!({ "units": { "*": [reply] } }));
        let asked = ["map", "--input", "rows.csv", "--prompt", "look.md", "-m", &model];
        let flags = ["--config", "retry.most=0"];
        lines(&place.tine(asked.iter().chain(&flags)).run().exits(1)).remove(0)
    };
    for (reply, kind, why, left) in faulty() {
        let row = run(reply);
        let left = if left.is_empty() { Value::Null } else { left.into() };
        assert_eq!((&row["status"], &row["result"]), (&json!("failed"), &left), "{row}");
        assert_eq!(row["error"], format!("{kind}: {why}"));
    }
    for reply in wordless() {
        let row = run(reply);
        assert_eq!((&row["status"], &row["result"]), (&json!("failed"), &Value::Null), "{row}");
        let error = row["error"].as_str().expect("it says why");
        assert!(error.contains("empty") || error.contains("output limit"), "{row}");
    }
}

/// One answer of its schema, in a call that the limit did not reach.
#[test]
fn an_answer_that_fits_its_schema_is_whole_whatever_the_model_stopped_for() {
    let place = Place::new();
    place.write("rows.csv", "a\n1\n");
    place.write("look.md", "Look at {{ a }}.");
    let gives = json!({ "stop": "max_tokens", "text": "So",
        "calls": [{ "name": "StructuredOutput", "arguments": { "b": 1 } }] });
    let says = json!({ "text": "{\"b\":", "stop": "max_tokens", "repeat": true });
    let schema = r#"{"type":"object","properties":{"b":{"type":"integer"}},"required":["b"]}"#;
    let run = |replies: Value, code: i32| {
        let model = place.script(
            "s.json",
            &json!({ "units": { "*": replies },
            "then": { "text": " ", "stop": "max_tokens" } }),
        );
        let asked = ["map", "--input", "rows.csv", "--prompt", "look.md", "-m", &model];
        let flags = ["--schema", schema];
        lines(&place.tine(asked.iter().chain(&flags)).run().exits(code)).remove(0)
    };
    let row = run(json!([gives]), 0);
    assert_eq!((&row["status"], &row["result"]), (&json!("completed"), &json!({ "b": 1 })));
    let row = run(json!([says]), 1);
    let why = "at the last one: it stopped at its output limit without one\nit wrote: {\"b\":";
    assert!(row["error"].as_str().is_some_and(|error| error.ends_with(why)), "{row}");
}

#[test]
fn a_parent_reads_which_reports_are_not_whole_and_what_is_left_of_them() {
    let task =
        |name: &str| json!({ "description": name, "prompt": "p", "subagent_type": "explore" });
    let beside = |name: &str| {
        let mut task = task(name);
        task["run_in_background"] = true.into();
        json!({ "name": "Agent", "arguments": task })
    };
    for (reply, kind, why, left) in faulty() {
        let left =
            if left.is_empty() { String::new() } else { format!("\n\nPartial result:\n\n{left}") };
        let ended = format!("[failed: {why}]{left}");
        let batch =
            json!({ "name": "Agent", "arguments": { "tasks": [task("cut"), task("whole")] } });
        let script = json!({ "units": {
            "main": [
                { "calls": [batch] },
                { "calls": [beside("cut")] },
                { "text": "waits" },
                { "calls": [{ "name": "TaskOutput", "arguments": { "task_id": "agent-3" } }] },
                { "text": "end" },
            ],
            "cut": [reply],
            "whole": [{ "text": "all" }],
        }});
        let records = Place::new().play(&script, &["-o", "stream-json"]).exits(0).records();
        let outputs = records.outputs();
        let first = format!(
            "## Task 1: cut (explore)\n\n{ended}\n\n---\n\n## Task 2: whole (explore)\n\nall"
        );
        assert_eq!(outputs[0].text, first);
        assert!(outputs[2].text.ends_with(&ended), "{outputs:?}");
        let ends = records.system("task_notification");
        let of_cut = ends.iter().filter(|end| end["task_id"] != "agent-2");
        let states: Vec<Value> = of_cut.map(|end| json!([end["status"], end["cause"]])).collect();
        assert_eq!(states, [json!(["failed", kind]), json!(["failed", kind])]);
        let told = records.0.iter().map(Value::to_string);
        let told: Vec<String> = told.filter(|text| text.contains("has ended: ")).collect();
        assert!(told.iter().all(|text| text.contains("has ended: failed")), "{told:?}");
    }
}

#[test]
fn a_run_whose_answer_is_not_whole_prints_what_there_is_and_fails() {
    for (reply, _, why, left) in faulty() {
        let stop = reply["stop"].as_str().unwrap_or("end_turn").to_owned();
        let script = json!({ "units": { "main": [reply] } });
        let plain = Place::new().play(&script, &[]).exits(1);
        assert_eq!(plain.stdout.trim_end(), left);
        assert!(plain.stderr.ends_with(&format!("error: {why}\n")), "{}", plain.stderr);
        let result = Place::new().play(&script, &["-o", "json"]).exits(1).result();
        let left = if left.is_empty() { Value::Null } else { left.into() };
        assert_eq!(
            (&result["subtype"], &result["is_error"]),
            (&json!("error_during_execution"), &json!(true))
        );
        assert_eq!((&result["stop_reason"], &result["result"]), (&json!(stop), &left));
        assert_eq!(result["errors"], json!([why]));
    }
}

#[test]
fn a_step_of_a_flow_whose_answer_is_not_whole_has_failed() {
    let place = Place::new();
    place.write(
        "f.toml",
        "name = \"f\"\ndescription = \"d\"\n[[step]]\nname = \"one\"\ntype = \"explore\"\n\
         prompt = \"p\"\non_error = \"continue\"\n[[step]]\nname = \"two\"\ntype = \"explore\"\n\
         prompt = \"{{ steps.one.status }}: {{ steps.one.error }}: {{ steps.one.text }}\"\n",
    );
    let expected = format!("failed: {CUT}: half");
    let script = json!({ "units": {
        "one": [{ "text": "half", "stop": "max_tokens" }],
        "two": [{ "text": "read", "expect": { "contains": [expected] } }],
    }});
    let model = place.script("s.json", &script);
    let finished = place.tine(["flow", "run", "f.toml", "-m", &model]).run().exits(0);
    assert!(finished.stdout.contains("read"), "{}", finished.stdout);
}

#[test]
fn a_review_says_whose_answer_was_not_whole_and_what_nobody_has_read() {
    let repository = Repository::new();
    repository.write("src/a.rs", "fn a() {}\n");
    repository.commit("Begin");
    repository.write("src/a.rs", "fn a() {\n    b.unwrap();\n}\n");
    let script = json!({ "units": { "*": [
        { "calls": [{ "name": "Glob", "arguments": { "pattern": "src/*" } }] },
        { "text": "- [high] src/a.rs:2: half of a find", "stop": "max_tokens", "repeat": true },
    ] } });
    let place = &repository.place;
    let model = place.script("s.json", &script);
    let finished = place.tine(["review", "-m", &model, "--effort", "low"]).run().exits(1);
    let all = format!("{}{}", finished.stdout, finished.stderr);
    assert!(all.contains("it stopped at its output limit"), "{all}");
}

/// An answer of the Chat API that stops at the output limit.
const HALF: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n\
    data: [DONE]\n\n";

/// A wrong schema or model fails every row, and each row costs requests.
#[test]
fn a_map_whose_first_ten_rows_fail_alike_begins_no_more_unless_it_is_told_to() {
    let missing = json!({ "error": { "message": "there is no such deployment" } });
    let missing = || Reaction::json(400, &missing);
    let run = |good: &'static str, bad: Reaction, flags: &[&str]| {
        let place = Place::new();
        let rows: Vec<String> = (1..=40).map(|row| format!("{row}\n")).collect();
        place.write("rows.csv", format!("a\n{}", rows.concat()));
        place.write("look.md", "Look at {{ a }}.");
        let server = serve(move |talk| match talk.task() == good {
            true => Reaction::text_reply("all"),
            false => bad.clone(),
        });
        let asked = ["map", "--input", "rows.csv", "--prompt", "look.md", "-m", "m"];
        let flags = ["--max-concurrent", "2"].iter().chain(flags);
        let finished = place.tine(asked.iter().chain(flags)).server(&server).run().exits(1);
        let count =
            |status: &str| lines(&finished).iter().filter(|row| row["status"] == status).count();
        ([count("completed"), count("failed"), count("skipped")], finished.stderr)
    };
    let ([completed, failed, skipped], stderr) = run("", missing(), &[]);
    // A row that was about to begin is cancelled.
    let is_early = completed == 0 && (10..20).contains(&failed) && (20..=30).contains(&skipped);
    assert!(is_early, "{failed} {skipped}\n{stderr}");
    let why = "the first 10 all failed for the same reason (request: ";
    assert!(stderr.contains(why) && stderr.contains("`--keep-going` asks all rows"), "{stderr}");
    assert_eq!(run("", missing(), &["--keep-going"]).0, [0, 40, 0]);
    assert_eq!(run("Look at 1.", missing(), &[]).0, [1, 39, 0]);
    // An answer that is too long or empty says nothing about the other rows.
    assert_eq!(run("", Reaction::stream(HALF), &[]).0, [0, 40, 0]);
    assert_eq!(run("", Reaction::text_reply(" "), &[]).0, [0, 40, 0]);
}

#[test]
fn a_summary_that_was_cut_off_says_so_to_the_model_that_goes_on_from_it() {
    let place = Place::new();
    place.play(&json!({ "units": { "main": [{ "text": "one" }] } }), &[]).exits(0);
    let summary = json!({ "text": "We were ab", "stop": "max_tokens" });
    let script = json!({ "units": { "main:compact": [summary], "main": [
        { "text": "two", "expect": { "contains": ["We were ab\n\n[The summary stops here"] } },
    ] } });
    let model = place.script("s.json", &script);
    place.tine(["-m", &model, "-c", "-p", "/compact"]).run().exits(0);
    place.tine(["-m", &model, "-c", "-p", "on"]).run().exits(0);
}

/// The start of a call whose arguments never came, and why the answer ended.
fn bare_call(tool: &str, finish: &str) -> Reaction {
    let call = json!({ "index": 0, "id": "c1", "type": "function",
        "function": { "name": tool, "arguments": "" } });
    let begun = json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] });
    let ended = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": finish }] });
    let mut bytes = events([&begun, &ended]);
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    Reaction::stream(bytes)
}

#[test]
fn a_call_that_was_cut_off_before_its_arguments_or_withheld_does_not_run() {
    // `TaskList` takes no arguments, so that it would run.
    for (finish, code, told) in [
        ("length", 0, "Not run: the answer reached the output limit"),
        ("content_filter", 1, "Not run: the provider withheld a part of the answer"),
        ("tool_calls", 0, ""),
    ] {
        let place = Place::new();
        let server =
            Server::start(move |request: &RecordedRequest| {
                match request.json()["messages"].to_string().contains("tool_call_id") {
                    true => Reaction::text_reply("done"),
                    false => bare_call("TaskList", finish),
                }
            });
        let asking = ["-m", "m", "-p", "go", "-o", "stream-json"];
        let finished = place.tine(asking).server(&server).run().exits(code);
        let outputs = finished.records().outputs();
        let is_refused = outputs[0].text.starts_with("Not run:");
        assert_eq!(is_refused, !told.is_empty(), "{finish}: {outputs:?}");
        assert!(outputs[0].text.starts_with(told), "{finish}: {outputs:?}");
    }
}
