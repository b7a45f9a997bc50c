//! What is piped in, and what configuration files hold.

use serde_json::{Value, json};

use crate::support::play::Case;
use crate::support::tine::Place;

#[test]
fn what_a_slow_command_pipes_in_is_waited_for() {
    let case = Case::open("stdin-of-a-slow-command");
    // It writes once it is said that it is waited for.
    let pipeline =
        "(until grep -q waiting said; do sleep 0.02; done; echo 'PIPED DATA') | \"$@\" 2> said";
    let tine = case.tine(&["-m", "scripted:@CASE@/script.json", "-p", "why does this fail?"]);
    case.place.write("said", "");
    let finished = tine.by("bash", ["-c", pipeline, "bash"]).run().exits(0);
    assert_eq!(finished.stdout, "got it\n");
    let said = case.place.read("said").unwrap_or_default();
    assert!(said.starts_with("note: waiting for standard input, which is open"), "{said}");
}

#[test]
fn a_pipe_that_nothing_can_come_from_is_an_error() {
    let place = Place::new();
    let line = "mkfifo pipe; \"$@\" 0<> pipe";
    for prompt in ["go", "-"] {
        let tine = place.tine(["-p", prompt, "-m", "offline"]);
        let finished = tine.by("bash", ["-c", line, "bash"]).run().exits(42);
        let expected = "error: standard input is open, but no other process can write to it\n\
                        hint: close it in the program that starts tine, or run with `< /dev/null`\n";
        assert!(finished.stderr.ends_with(expected), "{}", finished.stderr);
        assert_eq!(finished.stdout, "");
        std::fs::remove_file(place.work().join("pipe")).expect("it was made");
    }
}

#[test]
fn a_script_at_the_end_of_a_pipeline_waits_for_the_other_command() {
    let case = Case::open("stdin-of-a-slow-command");
    // The shell that starts tine reads the same pipe.
    let pipeline = "(until grep -q waiting said; do sleep 0.02; done; echo 'PIPED DATA') | \
                    { \"$@\" 2> said; exit $?; }";
    let tine = case.tine(&["-m", "scripted:@CASE@/script.json", "-p", "why does this fail?"]);
    case.place.write("said", "");
    let finished = tine.by("bash", ["-c", pipeline, "bash"]).run().exits(0);
    assert_eq!(finished.stdout, "got it\n");
    let said = case.place.read("said").unwrap_or_default();
    assert!(!said.contains("continuing without it"), "{said}");
}

#[test]
fn a_blank_prompt_does_not_wait_for_an_inherited_pipe() {
    for blank in ["", " \n"] {
        let place = Place::new();
        let tine = place.tine(["-p", blank, "-m", "offline"]).silent_stdin();
        let finished = tine.by("sh", ["-c", "\"$@\"; exit $?", "sh"]).run().exits(2);
        assert!(finished.stderr.starts_with("error: there is no prompt\n"), "{}", finished.stderr);
    }
}

#[test]
fn input_of_a_pipe_that_nobody_else_holds_is_used_although_the_pipe_does_not_end() {
    let place = Place::new();
    let script = json!({ "units": { "main": [{ "text": "answered" }] } });
    let model = place.script("s.json", &script);
    let line = "mkfifo pipe; exec 0<> pipe; echo piped >&0; exec \"$@\"";
    for prompt in ["go", "-"] {
        let tine = place.tine(["-p", prompt, "-m", &model]);
        let finished = tine.by("bash", ["-c", line, "bash"]).run().exits(0);
        assert_eq!(finished.stdout, "answered\n");
        let note =
            "note: standard input is still open but silent; continuing with the input so far";
        assert!(finished.stderr.starts_with(note), "{}", finished.stderr);
        std::fs::remove_file(place.work().join("pipe")).expect("it was made");
    }
}

/// Sends these bytes to a client's run; returns the results, each an answer or an error.
fn results(lines: &[u8]) -> (Vec<Result<String, String>>, i32) {
    let place = Place::new();
    let script = json!({ "units": { "main": [{ "text": "answered", "repeat": true }] } });
    let model = place.script("s.json", &script);
    let flags = ["--input-format", "stream-json", "-o", "stream-json", "-m", &model];
    let finished = place.tine(flags).stdin(lines).run();
    let lines = finished.stdout.lines();
    let records: Vec<Value> =
        lines.map(|line| serde_json::from_str(line).expect("a record is JSON")).collect();
    let results = records.iter().filter(|record| record["type"] == "result");
    let result = |record: &Value| match record["result"].as_str() {
        Some(text) if record["is_error"] == false => Ok(text.to_owned()),
        Some(_) | None => Err(record["errors"][0].as_str().unwrap_or_default().to_owned()),
    };
    (results.map(result).collect(), finished.status.code().expect("it ends by itself"))
}

#[test]
fn every_line_of_a_client_has_a_result() {
    let user = |text: &str| {
        json!({ "type": "user", "message": { "role": "user", "content": text } }).to_string()
    };
    let mut latin = user("cafX").into_bytes();
    latin.iter_mut().filter(|byte| **byte == b'X').for_each(|byte| *byte = 0xe9);
    for line in [
        format!("\u{feff}{}", user("hi")).into_bytes(),
        format!("\u{feff}\r\n\r\n{}\r", user("hi")).into_bytes(),
        user("X").replace('X', "a\\ud83d").into_bytes(),
        latin,
    ] {
        let (results, code) = results(&line);
        let shown = String::from_utf8_lossy(&line);
        assert_eq!((results, code), (vec![Ok("answered".to_owned())], 0), "{shown}");
    }
    for (line, expected) in [
        ("hello", "it is not a JSON object: expected value"),
        ("{\"type\":\"user\",\"message\"", "it is not a JSON object: EOF"),
        ("[]", "it is not a JSON object: invalid type"),
        ("\"hi\"", "it is not a JSON object: invalid type"),
        ("{}", "it has no `type`"),
        ("{\"type\":\"prompt\",\"text\":\"hi\"}", "its `type` `prompt` is not known"),
        ("{\"type\":\"user\",\"message\":\"hi\"}", "content"),
    ] {
        let (results, code) = results(line.as_bytes());
        let [Err(why)] = &results[..] else { panic!("{line}: {results:?}") };
        assert!(why.contains(expected) && code != 0, "{line}: {why} {code}");
    }
    // The next line is answered all the same.
    let (results, code) = results(format!("nonsense\n{}\n", user("hi")).as_bytes());
    assert!(matches!(&results[..], [Err(_), Ok(_)]) && code == 0, "{results:?} {code}");
}

#[test]
fn a_byte_order_mark_before_json_is_passed_over_wherever_a_file_is_named() {
    let case = Case::open("json-with-byte-order-mark");
    case.tine(&["-m", "offline", "-p", "go", "--mcp-config", "mcp.json"]).run().exits(0);
    let place = Place::new();
    let marked = |name: &str, json: &Value| {
        place.write(name, format!("\u{feff}{json}\r\n")).display().to_string()
    };
    let settings = marked("settings.json", &json!({ "permissions": { "deny": ["Bash"] } }));
    let schema = marked("schema.json", &json!({ "type": "object" }));
    let agent = json!({ "a": { "description": "d", "prompt": "p" } });
    let agents = marked("agents.json", &agent);
    let said = json!({ "value": 1 });
    let call = json!({ "calls": [{ "name": "StructuredOutput", "arguments": said }] });
    let script = marked("s.json", &json!({ "units": { "main": [call, { "text": "END" }] } }));
    marked(".mcp.json", &json!({ "mcpServers": {} }));
    marked(".claude/settings.json", &json!({ "hooks": { "Stop": [] } }));
    let stop = json!([{ "hooks": [{ "type": "command", "command": "touch stopped" }] }]);
    marked(".tine/hooks.json", &json!({ "hooks": { "Stop": stop } }));
    let flags = ["--settings", &settings, "--json-schema", &schema, "--agents", &agents, "--trust"];
    let model = format!("scripted:{script}");
    let finished = place.tine(["-p", "go", "-m", &model].iter().chain(&flags)).run();
    assert_eq!(finished.stderr.matches("JSON").count(), 0, "{}", finished.stderr);
    finished.exits(0);
    assert!(place.read("stopped").is_some());
}

#[test]
fn a_comment_in_json_is_called_one() {
    let place = Place::new();
    let commented = "{\n  // none\n  \"mcpServers\": {}\n}";
    let mcp = place.write("mcp.json", commented).display().to_string();
    for (flags, expected) in [
        (
            ["--mcp-config", &mcp],
            "is not valid JSON: JSON does not allow comments at line 2 column 3",
        ),
        (["--settings", &mcp], "line 2, column 3: JSON does not allow comments"),
        (["--agents", &mcp], "is not valid JSON: JSON does not allow comments at line 2 column 3"),
        (["--settings", "{\"model\": \"m\",}"], "JSON does not allow a comma before `}` or `]`"),
    ] {
        let finished = place.tine(["-p", "go", "-m", "offline"].iter().chain(&flags)).run();
        let stderr = &finished.stderr;
        assert!(!finished.status.success() && stderr.contains(expected), "{flags:?}: {stderr}");
    }
}
