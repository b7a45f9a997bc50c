//! What a program sees of a run: stream-json record by record, json, text, and
//! the files that flags ask for.

use std::sync::Mutex;

use serde_json::{Value, json};

use crate::support::records::Records;
use crate::support::server::{End, Reaction, Server};
use crate::support::talk::serve_calls;
use crate::support::tine::Place;

/// Two slots under a cap of one: the first calls a tool, the second fails.
fn script() -> Value {
    let task =
        |name: &str| json!({ "description": name, "prompt": "p", "subagent_type": "explore" });
    json!({ "units": {
        "main": [
            { "text": "Two looks.", "usage": { "input": 100, "output": 10 }, "calls": [
                { "name": "Agent", "id": "the_call", "arguments": { "tasks": [task("good"), task("bad")] } }] },
            { "text": "All done.", "usage": { "input": 200, "output": 20, "cache_read": 5 } },
        ],
        "good": [
            { "text": "Hm.", "usage": { "input": 1_000, "output": 100 }, "calls": [
                { "name": "Glob", "arguments": { "pattern": "*" } }] },
            { "text": "Found.", "chunk": 3, "usage": { "input": 2_000, "output": 200 } },
        ],
        "bad": [{ "text": "Well", "fault": { "error": { "status": 500, "message": "boom" } } }],
    } })
}

fn stream(flags: &[&str]) -> Records {
    let flags = [&["-o", "stream-json", "--config", "agents.max_concurrent=1"], flags].concat();
    Place::new().play(&script(), &flags).exits(0).records()
}

/// Says in a word or two what a record is.
fn short(record: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match &*word(&record["type"]) {
        "system" => match &*word(&record["subtype"]) {
            "task_updated" => word(&record["patch"]["status"]),
            "task_notification" => format!("notified {}", word(&record["status"])),
            other => other.to_owned(),
        },
        "stream_event" => format!("event {}", word(&record["event"]["type"])),
        "result" => "result".to_owned(),
        _ => word(&record["message"]["content"][0]["type"]),
    }
}

fn shorts<'a>(records: impl IntoIterator<Item = &'a Value>) -> Vec<String> {
    records.into_iter().map(short).collect()
}

fn of_main(records: &Records) -> Vec<&Value> {
    records.0.iter().filter(|record| record["agent_id"].is_null()).collect()
}

#[test]
fn a_batch_is_told_unit_by_unit_as_it_happens() {
    let records = stream(&[]);
    let main = ["init", "text", "tool_use", "tool_result", "text", "result"];
    assert_eq!(shorts(of_main(&records)), main);
    let good = [
        "task_started",
        "pending",
        "running",
        "tool_use",
        "task_progress",
        "tool_result",
        "task_progress",
        "task_progress",
        "completed",
        "notified completed",
    ];
    assert_eq!(shorts(records.of_unit("agent-1")), good);
    let bad = ["task_started", "pending", "running", "failed", "notified failed"];
    assert_eq!(shorts(records.of_unit("agent-2")), bad);
    // Both are declared before any runs, and the end of one makes room for the other.
    let states: Vec<_> = records.system("task_updated").into_iter().map(short).collect();
    let expected = ["pending", "pending", "running", "completed", "running", "failed"];
    assert_eq!(states, expected);
}

#[test]
fn every_record_of_a_unit_says_whose_it_is() {
    let records = stream(&["--forward-subagent-text", "--include-partial-messages"]);
    for (unit, index, branch) in [("agent-1", 0, "1"), ("agent-2", 1, "2")] {
        let own = records.of_unit(unit);
        assert!(own.len() >= 5, "{unit} has {} records", own.len());
        for record in own {
            assert_eq!(record["slot"], json!({ "index": index, "total": 2 }), "{record}");
            assert_eq!(record["branch"], branch, "{record}");
            let call = match record["type"].as_str() {
                Some("system") => &record["tool_use_id"],
                _ => &record["parent_tool_use_id"],
            };
            // An update names its task alone.
            if record["subtype"] != "task_updated" {
                assert_eq!(call, "the_call", "{record}");
            }
            if record["type"] == "system" {
                assert_eq!(record["task_id"], unit, "{record}");
            } else {
                assert_eq!(record["subagent_type"], "explore", "{record}");
            }
        }
    }
}

#[test]
fn the_first_record_says_what_a_client_may_rely_on() {
    let records = stream(&[]);
    let init = &records.0[0];
    let lists = ["tools", "mcp_servers", "slash_commands", "agents", "skills", "capabilities"];
    assert!(lists.iter().all(|name| init[*name].is_array()), "{init}");
    assert_eq!(init["capabilities"], json!(["agent_batch_v1", "agent_queue_v1", "branches_v1"]));
    assert_eq!(init["agents"], json!(["general-purpose", "explore", "reviewer"]));
    assert_eq!(
        (&init["permissionMode"], &init["output_style"]),
        (&json!("default"), &json!("default"))
    );
}

#[test]
fn the_result_has_mains_usage_and_the_models_sum_of_every_unit() {
    let server = serve_calls(
        &[(
            "Agent",
            json!({ "tasks": [
            { "description": "a", "prompt": "a", "subagent_type": "explore" },
            { "description": "b", "prompt": "b", "subagent_type": "explore", "model": "other" },
        ] }),
        )],
        |_| Reaction::text_reply("ok"),
    );
    let result = Place::new().ask(&server, &["-o", "json"]).exits(0).result();
    // The scripted server counts 10 and 5 for each request.
    assert_eq!(
        (&result["usage"]["input_tokens"], &result["usage"]["output_tokens"]),
        (&json!(20), &json!(10))
    );
    let of = |model: &str| {
        let usage = &result["modelUsage"][model];
        (usage["inputTokens"].as_u64(), usage["outputTokens"].as_u64())
    };
    assert_eq!((of("m"), of("other")), ((Some(30), Some(15)), (Some(10), Some(5))));
    assert_eq!(result["num_turns"], 2);

    let result = stream(&[]).result().clone();
    assert_eq!(result["usage"]["input_tokens"], 300);
    let models = result["modelUsage"].as_object().unwrap();
    let [sum] = &models.values().collect::<Vec<_>>()[..] else { panic!("one model: {models:?}") };
    assert_eq!((&sum["inputTokens"], &sum["outputTokens"]), (&json!(3_300), &json!(330)));
    assert_eq!(sum["cacheReadInputTokens"], 5);
}

#[test]
fn a_failed_slot_tells_its_error_in_its_own_records() {
    let records = stream(&[]);
    let [patch] = &records
        .of_unit("agent-2")
        .into_iter()
        .filter(|r| r["patch"]["status"] == "failed")
        .collect::<Vec<_>>()[..]
    else {
        panic!("one end")
    };
    assert!(patch["patch"]["error"].as_str().unwrap().contains("boom"), "{patch}");
    let notified = records.system("task_notification");
    assert_eq!(notified.len(), 2);
    assert!(notified[1]["summary"].as_str().unwrap().contains("boom"), "{}", notified[1]);
    assert_eq!(notified[0]["usage"]["total_tokens"], 3_300);
}

#[test]
fn what_units_say_comes_only_when_asked_for() {
    let texts = |records: &Records| {
        let texts = records.of_unit("agent-1").into_iter().filter(|record| short(record) == "text");
        texts
            .map(|record| record["message"]["content"][0]["text"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(&stream(&[])), [""; 0]);
    assert_eq!(texts(&stream(&["--forward-subagent-text"])), ["Hm.", "Found."]);
}

#[test]
fn pieces_of_answers_come_only_when_asked_for_and_add_up_to_them() {
    let events = |records: &Records, unit: Option<&str>| -> Vec<Value> {
        let of = |record: &&Value| record["agent_id"].as_str() == unit;
        let events = records.0.iter().filter(|record| record["type"] == "stream_event").filter(of);
        events.map(|record| record["event"].clone()).collect()
    };
    assert_eq!(events(&stream(&[]), None), [Value::Null; 0]);
    let main_only = stream(&["--include-partial-messages"]);
    let words: Vec<_> =
        events(&main_only, None).iter().map(|event| event["type"].clone()).collect();
    let message = |blocks: usize| {
        let block = ["content_block_start", "content_block_delta", "content_block_stop"];
        let mut words = vec!["message_start"];
        words.extend(block.repeat(blocks));
        words.extend(["message_delta", "message_stop"]);
        words
    };
    assert_eq!(words, [message(2), message(1)].concat());
    assert_eq!(events(&main_only, Some("agent-1")), [Value::Null; 0]);

    let all = stream(&["--include-partial-messages", "--forward-subagent-text"]);
    let pieces: Vec<_> = events(&all, Some("agent-1"))
        .iter()
        .filter_map(|event| event["delta"]["text"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(pieces, ["Hm.", "Fou", "nd."]);
}

#[test]
fn json_is_one_object_also_for_a_run_that_could_not_begin() {
    let result = Place::new().play(&script(), &["-o", "json"]).exits(0).result();
    assert_eq!((&result["type"], &result["result"]), (&json!("result"), &json!("All done.")));
    for format in ["json", "stream-json"] {
        let finished =
            Place::new().tine(["-p", "/nope", "-m", "offline", "-o", format]).run().exits(42);
        let result = finished.result();
        assert_eq!((&result["type"], &result["is_error"]), (&json!("result"), &json!(true)));
        assert_eq!(result["errors"], json!(["there is no skill `/nope`"]));
    }
}

#[test]
fn text_has_the_answer_alone_on_standard_output_and_lines_on_standard_error() {
    let finished = Place::new().play(&script(), &["--config", "agents.max_concurrent=1"]).exits(0);
    assert_eq!(finished.stdout, "All done.\n");
    let lines: Vec<_> = finished.stderr.lines().collect();
    let [first, queued, started, glob, done, starts, failed, tokens] = lines[..] else {
        panic!("{}", finished.stderr)
    };
    assert_eq!([first, queued], ["Agent 2 tasks", "2 agents queued"]);
    assert_eq!([started, glob], ["[good] started (explore)", "[good] Glob *"]);
    assert!(done.starts_with("[good] done in ") && done.ends_with(", 3.3k tokens"), "{done}");
    assert_eq!([starts, failed], ["[bad] started (explore)", "[bad] failed: HTTP 500: boom"]);
    assert_eq!(tokens, "3.6k tokens (5 from the cache)");
}

#[test]
fn what_only_holds_the_steps_of_a_flow_has_no_lines_and_its_failure_is_told_once() {
    let place = Place::new();
    let side = |name: &str, items: &str| {
        format!("[[step.parallel]]\nname = \"{name}\"\nfor_each = \"{items}\"\nprompt = \"x\"\n")
    };
    place.write("a.toml", format!("[[step]]\n{}{}", side("left", "[1, 2]"), side("right", "[3]")));
    let boom = json!([{ "fault": { "error": { "status": 500, "message": "boom" } } }]);
    let units = json!({ "right[0]": boom, "*": [{ "text": "y" }] });
    let model = place.script("script.json", &json!({ "units": units }));
    let run = ["flow", "run", "a.toml", "-m", &model, "--config", "retry.most=0"];
    let stderr = place.tine(run).run().stderr;
    let of = |names: &[&str]| -> Vec<&str> {
        let is_of = |line: &&str| names.iter().any(|name| line.starts_with(&format!("[{name}] ")));
        stderr.lines().filter(is_of).collect()
    };
    assert_eq!(of(&["left", "right"]), ["[left] 2 agents queued"], "{stderr}");
    assert_eq!(of(&["left[0]", "left[1]"]).len(), 4, "{stderr}");
    let [started, failed] = of(&["right[0]"])[..] else { panic!("{stderr}") };
    assert_eq!(started, "[right[0]] started (general-purpose)");
    assert_eq!(failed, "[right[0]] failed: HTTP 500: boom");
}

#[test]
fn a_request_that_is_made_again_is_told_and_what_it_had_streamed_is_void() {
    let half = json!({ "choices": [{ "index": 0, "delta": { "content": "Hel" } }] });
    let half = format!("data: {half}\n\n");
    let reactions = Mutex::new(vec![
        Reaction::text_reply("Hello"),
        Reaction::pieces([half], End::Cut),
        Reaction::json(503, &json!({ "error": { "message": "not now" } })),
    ]);
    let server = Server::start(move |_| reactions.lock().unwrap().pop().expect("three requests"));
    let retry = ["--config", "retry.most=10", "--config", "retry.base_ms=1"];
    let flags = [&["-o", "stream-json", "--include-partial-messages"], &retry[..]].concat();
    let records = Place::new().ask(&server, &flags).exits(0).records();
    let retries = records.system("api_retry");
    let said = |retry: &Value| {
        [&retry["attempt"], &retry["error_status"], &retry["error"]].map(Value::clone)
    };
    assert_eq!(
        retries.iter().map(|retry| said(retry)).collect::<Vec<_>>(),
        [[json!(1), json!(503), json!("server_error")], [json!(2), Value::Null, json!("unknown")],]
    );
    let ends = records.0.iter().filter(|record| record["event"]["type"] == "message_stop");
    let is_void: Vec<bool> = ends.map(|end| end["void"] == true).collect();
    assert_eq!(is_void, [true, false]);
    let result = records.result();
    assert_eq!((&result["result"], &result["api_retries"]), (&json!("Hello"), &json!(2)));
    assert_eq!(result["cost_is_partial"], true);
    assert_eq!(result["modelUsage"]["m"]["contextWindow"], 128_000);
}

#[test]
fn a_file_can_take_the_records_while_people_read_text() {
    let place = Place::new();
    let finished = place.play(&script(), &["--json-file", "records.jsonl"]).exits(0);
    assert_eq!(finished.stdout, "All done.\n");
    let records = Records::parse(&place.read("records.jsonl").unwrap());
    assert_eq!(records.system("task_started").len(), 2);
    assert_eq!(records.result()["result"], "All done.");
    place.play(&script(), &["--json-file", "none/records.jsonl"]).exits(42);
}

#[test]
fn a_file_can_take_the_last_message() {
    let place = Place::new();
    let finished = place.play(&script(), &["--output-last-message", "answer.md"]).exits(0);
    assert_eq!(
        (finished.stdout.as_str(), place.read("answer.md").as_deref()),
        ("All done.\n", Some("All done."))
    );
}

#[test]
fn what_a_terminal_would_obey_is_escaped_in_records() {
    let script = json!({ "units": { "main": [{ "text": "a\u{1b}[31mred\u{202e}" }] } });
    let finished = Place::new().play(&script, &["-o", "stream-json"]).exits(0);
    assert!(finished.stdout.contains("a\\u001b[31mred\\u202e"), "{}", finished.stdout);
    assert_eq!(finished.records().result()["result"], "a\u{1b}[31mred\u{202e}");
}
