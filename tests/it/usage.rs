//! What a session has used, as `/usage` and `tine session usage` tell it.

use std::fs;

use serde_json::{Value, json};

use crate::support::tine::Place;

const SESSION: &str = "0199a000-0000-7000-8000-000000000001";

/// A session of two prompts, the first with a batch of two.
fn session() -> Place {
    let place = Place::new();
    let usage = |input: u64, output: u64| json!({ "input": input, "output": output });
    let task =
        |name: &str| json!({ "description": name, "prompt": "p", "subagent_type": "explore" });
    let tasks = json!({ "tasks": [task("north"), task("south")] });
    let script = json!({ "units": {
        "main": [
            { "calls": [{ "name": "Agent", "arguments": tasks }], "usage": usage(100, 10) },
            { "text": "one", "usage": { "input": 50, "output": 5, "cache_read": 100 } },
        ],
        "north": [{ "text": "I looked.", "usage": usage(2_000, 20) }],
        "south": [{ "text": "So did I.", "usage": usage(3_000, 30) }],
    } });
    let model = place.script("script.json", &script);
    place.tine(["-p", "first", "-m", &model, "--session-id", SESSION]).run().exits(0);
    let script = json!({ "units": { "main": [{ "text": "two", "usage": usage(7, 1) }] } });
    let model = place.script("second.json", &script);
    place.tine(["-p", "second", "-c", "-m", &model]).run().exits(0);
    place
}

/// Returns the text without the model's name, which tells where its file is.
fn figures(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.contains("scripted:"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn usage_tells_what_a_session_used_and_leaves_it_as_it_is() {
    let place = session();
    let [directory] = &place.sessions()[..] else { panic!("there is one session") };
    let files = || {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries.filter(|path| path.is_file()).collect();
        files.sort();
        files.into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect::<Vec<_>>()
    };
    let before = files();
    for arguments in [
        &["-p", "/usage", "-c"][..],
        &["-p", "/usage", "-r", "0199a"],
        &["session", "usage", SESSION],
    ] {
        let finished = place.tine(arguments).run().exits(0);
        assert_eq!(finished.stderr, "");
        assert_eq!(
            figures(&finished.stdout),
            [
                &format!("session {SESSION}: 5 requests"),
                "",
                "input cached written output cost",
                "in all 5.1k 100 0 66 $0.00",
                "",
                "by model",
                "",
                "by prompt",
                "1 first 5.1k 100 0 65 $0.00",
                "2 second 7 0 0 1 $0.00",
                "",
                "by batch",
                "2 agents: north, south 5.0k 0 0 50 $0.00",
                "",
                "by agent",
                "agent-2 south 3.0k 0 0 30 $0.00",
                "agent-1 north 2.0k 0 0 20 $0.00",
                "main 157 100 0 16 $0.00",
            ]
        );
    }
    assert_eq!(files(), before);
}

#[test]
fn programs_get_the_same_as_one_object() {
    let place = session();
    let listed = place.tine(["session", "usage", SESSION, "--json"]).run().exits(0).stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["session_id"], SESSION);
    assert_eq!(listed["total"]["input_tokens"], 5_157);
    assert_eq!(listed["batches"][0]["output_tokens"], 50);
    for format in ["json", "stream-json"] {
        let arguments = ["-p", "/usage", "-c", "-o", format, "--json-file", "records.jsonl"];
        let finished = place.tine(arguments).run().exits(0);
        let result = finished.result();
        assert_eq!(finished.stdout.lines().count(), 1);
        assert_eq!(
            (&result["subtype"], &result["total_cost_usd"]),
            (&json!("success"), &json!(0.0))
        );
        assert_eq!(result["session_usage"], listed);
        assert_eq!(place.read("records.jsonl").as_ref(), Some(&finished.stdout));
    }
}

#[test]
fn usage_of_no_session_is_refused() {
    let place = session();
    let check = |arguments: &[&str], message: &str| {
        let finished = place.tine(arguments).run().exits(2);
        assert!(finished.stderr.starts_with(message), "{}", finished.stderr);
    };
    check(&["-p", "/usage"], "error: `/usage` tells what a session used, and this is a new one");
    check(&["-p", "/usage now", "-c"], "error: nothing stands behind `/usage`");
    let result = place.tine(["-p", "/usage", "-o", "json"]).run().exits(2).result();
    assert_eq!((&result["type"], &result["is_error"]), (&json!("result"), &json!(true)));
}
