//! Servers of tools: real ones from npm, and one that does what it is told to,
//! behind the binary and on the wire.

mod changed;
mod names;
mod offers;
mod serve;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::tine::{Finished, Place};

/// Where the tests' servers are.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp")
}

/// An entry for the server that does what it is told to.
fn odd(mode: &[&str]) -> Value {
    let script = folder().join("odd.mjs");
    let script = [script.to_str().expect("the path is UTF-8")];
    let arguments: Vec<&str> = script.iter().chain(mode).copied().collect();
    json!({ "command": "node", "args": arguments })
}

/// The program of a real server; `None` where it is not installed, which no CI
/// allows.
#[expect(clippy::print_stderr, reason = "whoever runs the tests is told that one did nothing")]
fn real(name: &str) -> Option<PathBuf> {
    let path = folder().join("node_modules/@modelcontextprotocol").join(name).join("dist/index.js");
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "run `npm ci` in tests/mcp");
    eprintln!("skipped: run `npm ci` in tests/mcp");
    None
}

/// The flags that name servers.
fn config(servers: &Value) -> String {
    json!({ "mcpServers": servers }).to_string()
}

/// A script in which main makes these calls, one a turn, and is done.
fn calling(calls: &[(&str, Value)]) -> Value {
    let reply = |(name, arguments): &(&str, Value)| json!({ "calls": [{ "name": name, "arguments": arguments }] });
    let mut replies: Vec<Value> = calls.iter().map(reply).collect();
    replies.push(json!({ "text": "done" }));
    json!({ "units": { "main": replies } })
}

/// A place where servers that are there are in time, however busy the machine is.
fn place() -> Place {
    let place = Place::new();
    place.configure("[mcp]\nstartup_ms = 60000\n");
    place
}

/// For one that says nothing: enough for others to be in time.
const IMPATIENT: [&str; 2] = ["--config", "mcp.startup_ms=8000"];

fn play(place: &Place, servers: &Value, calls: &[(&str, Value)], flags: &[&str]) -> Finished {
    let config = config(servers);
    let given = ["--mcp-config", &config, "-o", "stream-json", "--yolo"];
    let flags: Vec<&str> = given.iter().chain(flags).copied().collect();
    place.play(&calling(calls), &flags)
}

/// The records of a run.
fn records(finished: &Finished) -> Vec<Value> {
    let lines = finished.stdout.lines();
    lines.map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// What main's calls gave, in order: whether it is an error, and the text.
fn outputs(finished: &Finished) -> Vec<(bool, String)> {
    let records = records(finished);
    let users = records.iter().filter(|record| record["type"] == "user");
    let output = |record: &Value| {
        let result = &record["message"]["content"][0];
        let text = match &result["content"] {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => blocks
                .iter()
                .filter_map(|block| block["text"].as_str())
                .collect::<Vec<_>>()
                .join("|"),
            other => other.to_string(),
        };
        (result["is_error"] == true, text)
    };
    users.map(output).collect()
}

fn init(finished: &Finished) -> Value {
    let records = records(finished);
    assert_eq!(records[0]["subtype"], "init", "{}", records[0]);
    records[0].clone()
}

/// The names of servers' tools in a record.
fn served(init: &Value) -> Vec<&str> {
    let tools = init["tools"].as_array().expect("there are tools").iter();
    tools.filter_map(Value::as_str).filter(|name| name.starts_with("mcp__")).collect()
}

#[test]
fn tools_of_servers_are_offered_in_a_fixed_order_and_answer() {
    let place = place();
    let servers = json!({ "zeta": odd(&["plain"]), "alpha": odd(&["lie"]) });
    let calls = [("mcp__zeta__echo", json!({ "a": 1 })), ("mcp__zeta__fail", json!({}))];
    let finished = play(&place, &servers, &calls, &[]).exits(0);
    let init = init(&finished);
    let expected = json!([
        { "name": "alpha", "status": "connected" },
        { "name": "zeta", "status": "connected" },
    ]);
    assert_eq!(init["mcp_servers"], expected);
    let names = served(&init);
    assert_eq!((names[0], names[2]), ("mcp__alpha__bare", "mcp__alpha__fine"));
    assert!(names.is_sorted(), "{names:?}");
    let expected = [(false, "{\"a\":1}".to_owned()), (true, "it broke".to_owned())];
    assert_eq!(outputs(&finished), expected);
}

#[test]
fn a_server_that_lies_loses_what_it_lies_about_and_nothing_of_it_reaches_a_terminal() {
    let place = place();
    let calls = [("mcp__a__odd", json!({})), ("mcp__a__fine", json!({}))];
    let config = config(&json!({ "a": odd(&["lie"]) }));
    let model = place.script("s.json", &calling(&calls));
    let finished =
        place.tine(["-p", "go", "-m", &model, "--mcp-config", &config, "--yolo"]).run().exits(0);
    for left in ["array", "text"] {
        let said = format!("its tool `{left}` is left out");
        assert!(finished.stderr.contains(&said), "{}", finished.stderr);
    }
    assert!(!finished.stderr.contains('\u{1b}'), "{}", finished.stderr);
    assert_eq!(finished.stdout, "done\n");
}

#[test]
fn a_server_that_hangs_floods_or_dies_is_its_own_failure_and_the_turn_goes_on() {
    for mode in ["hang", "flood", "noise", "chatter", "die"] {
        let place = place();
        let servers = json!({ "bad": odd(&[mode]), "good": odd(&["plain"]) });
        let calls = [("mcp__good__echo", json!({ "b": 2 })), ("mcp__bad__echo", json!({}))];
        let flags = if mode == "hang" { &IMPATIENT[..] } else { &[] };
        let finished = play(&place, &servers, &calls, flags).exits(0);
        let init = init(&finished);
        let status = init["mcp_servers"][0]["status"].as_str().expect("a status is text");
        let expected = if mode == "hang" { "pending" } else { "failed" };
        assert_eq!(status, expected, "{mode}");
        let outputs = outputs(&finished);
        assert_eq!(outputs[0], (false, "{\"b\":2}".to_owned()), "{mode}");
        assert!(outputs[1].1.starts_with("Tool \"mcp__bad__echo\" not found"), "{mode}");
        let why = match mode {
            "die" => "the key is wrong",
            "chatter" => "it floods: more than ",
            _ => "",
        };
        assert!(finished.stdout.contains(why), "{mode}: {}", finished.stdout);
    }
}

#[test]
fn a_server_that_dies_in_a_call_is_started_again_by_the_next_one() {
    let place = place();
    let log = place.root().join("log");
    let servers = json!({ "a": odd(&["plain", log.to_str().expect("the path is UTF-8")]) });
    let calls = [("mcp__a__die", json!({})), ("mcp__a__echo", json!({ "c": 3 }))];
    let finished = play(&place, &servers, &calls, &[]).exits(0);
    let outputs = outputs(&finished);
    let said = "The server `a` gave no result: the server is gone: it ended: exit status: 7; its last \
                words: out of luck";
    assert_eq!(outputs[0], (true, said.to_owned()));
    assert_eq!(outputs[1], (false, "{\"c\":3}".to_owned()));
    let log = std::fs::read_to_string(log).expect("the server wrote it");
    assert_eq!(log.matches("started").count(), 2, "{log}");
}

#[test]
fn a_call_that_takes_too_long_ends_and_the_server_is_told() {
    let place = place();
    let log = place.root().join("log");
    let servers = json!({ "a": odd(&["plain", log.to_str().expect("the path is UTF-8")]) });
    let calls = [("mcp__a__wait", json!({})), ("mcp__a__echo", json!({}))];
    let finished = play(&place, &servers, &calls, &["--config", "mcp.call_ms=300"]).exits(0);
    let said = "The server `a` gave no result: it did not answer in time";
    assert_eq!(outputs(&finished)[0], (true, said.to_owned()));
    let log = std::fs::read_to_string(log).expect("the server wrote it");
    assert!(log.contains("notifications/cancelled it"), "{log}");
}

#[test]
fn a_large_result_is_bounded_and_kept_whole_in_a_file() {
    let place = place();
    let calls = [("mcp__a__large", json!({}))];
    let finished = play(&place, &json!({ "a": odd(&["plain"]) }), &calls, &[]).exits(0);
    let (_, text) = &outputs(&finished)[0];
    assert!(text.chars().count() <= 16_000 && text.ends_with("END"), "{}", text.len());
    let (_, rest) = text.split_once("the whole text is in ").expect("a file is named");
    let (path, _) = rest.split_once(" ...]").expect("the notice ends");
    assert_eq!(std::fs::read_to_string(path).expect("it is kept").len(), 1_000_003);
}

#[test]
fn a_server_inherits_no_keys_and_gets_what_its_entry_names() {
    let place = place();
    let mut entry = odd(&["plain"]);
    entry["env"] = json!({ "MINE": "${GIVEN:-x}" });
    let config = config(&json!({ "a": entry }));
    let model = place.script("s.json", &calling(&[("mcp__a__environment", json!({}))]));
    let flags = ["-p", "go", "-m", &model, "--mcp-config", &config, "--yolo", "-o", "stream-json"];
    let tine = place.tine(flags).env("OPENAI_API_KEY", "k").env("OTHER_TOKEN", "t");
    let finished = tine.run().exits(0);
    let (_, names) = &outputs(&finished)[0];
    assert!(names.split(' ').any(|name| name == "MINE"), "{names}");
    assert!(!names.contains("KEY") && !names.contains("TOKEN"), "{names}");
}

#[test]
fn a_servers_own_word_that_it_only_reads_approves_nothing_and_a_rule_does() {
    let place = place();
    let config = config(&json!({ "a": odd(&["plain"]) }));
    let model = place.script("s.json", &calling(&[("mcp__a__echo", json!({}))]));
    let run = |flags: &[&str]| {
        let given = ["-p", "go", "-m", &model, "--mcp-config", &config, "-o", "stream-json"];
        outputs(&place.tine(given.iter().chain(flags)).run().exits(0))[0].clone()
    };
    assert!(run(&[]).1.starts_with("Permission to use mcp__a__echo denied"), "{:?}", run(&[]));
    for rule in ["mcp__a", "mcp__a__echo", "mcp__a__*"] {
        assert_eq!(run(&["--allowed-tools", rule]), (false, "{}".to_owned()), "{rule}");
    }
    assert!(run(&["--yolo", "--disallowed-tools", "mcp__a"]).1.contains("not found"));
}

#[test]
fn nothing_outlives_a_run() {
    let place = place();
    let log = place.root().join("log");
    let servers = json!({ "a": odd(&["hang", log.to_str().expect("the path is UTF-8")]) });
    play(&place, &servers, &[], &IMPATIENT).exits(0);
    let log = std::fs::read_to_string(log).expect("the server was started");
    let pid = log.trim().strip_prefix("started ").expect("it says its number");
    assert!(!Path::new("/proc").join(pid).exists(), "{pid} still runs");
}

#[test]
fn servers_of_a_repository_are_started_only_once_they_are_trusted() {
    let place = place();
    let log = place.root().join("log");
    let servers = json!({ "a": odd(&["plain", log.to_str().expect("the path is UTF-8")]) });
    place.write(".mcp.json", config(&servers));
    let model = place.script("s.json", &calling(&[]));
    let flags = ["-p", "go", "-m", &model, "-o", "stream-json"];
    let finished = place.tine(flags).run().exits(0);
    assert!(finished.stderr.contains("`.mcp.json` not used"), "{}", finished.stderr);
    assert_eq!(init(&finished)["mcp_servers"], json!([]));
    assert!(!log.exists());
    let finished = place.tine(flags.iter().chain(&["--trust"])).run().exits(0);
    assert_eq!(init(&finished)["mcp_servers"][0]["status"], "connected");
    let strict = place.tine(flags.iter().chain(&["--trust", "--strict-mcp-config"])).run().exits(0);
    assert_eq!(init(&strict)["mcp_servers"], json!([]));
    let shown = place.tine(["trust", "--yes"]).run().exits(0);
    assert!(shown.stderr.contains("! server `a` runs node "), "{}", shown.stderr);
    assert!(place.tine(flags).run().exits(0).stdout.contains("mcp__a__echo"));
}

#[test]
fn a_projects_servers_are_given_no_key_whichever_file_names_them() {
    let entry = |name: &str| {
        let mut entry = odd(&["plain"]);
        entry["env"] = json!({ "MINE": "${OPENAI_API_KEY}" });
        json!({ name: entry })
    };
    let toml = |name: &str| {
        let entry = odd(&["plain"]);
        let (command, arguments) = (&entry["command"], &entry["args"]);
        format!(
            "[mcp]\nstartup_ms = 60000\n[mcp.servers.{name}]\ncommand = {command}\n\
             args = {arguments}\nenv = {{ MINE = \"${{OPENAI_API_KEY}}\" }}\n"
        )
    };
    let place = place();
    place.configure(&toml("own"));
    place.write(".tine/config.toml", toml("settings"));
    place.write(".mcp.json", config(&entry("file")));
    let model = place.script("s.json", &calling(&[]));
    let flag = "mcp.servers.settings.enabled=true";
    let flags = ["-p", "go", "-m", &model, "-o", "stream-json", "--trust", "--config", flag];
    let finished = place.tine(flags).env("OPENAI_API_KEY", "k").run().exits(0);
    let servers = init(&finished)["mcp_servers"].clone();
    let expected = json!([
        { "name": "file", "status": "failed" },
        { "name": "own", "status": "connected" },
        { "name": "settings", "status": "failed" },
    ]);
    assert_eq!(servers, expected);
    let why = "needs the variable `OPENAI_API_KEY`, which is not set";
    assert_eq!(finished.stdout.matches(why).count(), 2, "{}", finished.stdout);
    let shown = place.tine(["trust", "--yes"]).run().exits(0);
    assert!(shown.stderr.contains("mcp.servers.settings.command = "), "{}", shown.stderr);
}

#[test]
fn what_a_server_wants_to_know_somebody_answers_or_nobody() {
    let place = place();
    let servers = json!({ "a": odd(&["ask"]) });
    let calls = [("mcp__a__ask", json!({}))];
    let finished = play(&place, &servers, &calls, &[]).exits(0);
    assert_eq!(outputs(&finished), [(false, r#"{"action":"cancel"}"#.to_owned())]);
    let model = place.script("s.json", &calling(&calls));
    let config = config(&servers);
    let flags = ["--input-format", "stream-json", "-o", "stream-json", "--yolo", "-m", &model];
    let more = ["--mcp-config", &config];
    let mut running = place.tine(flags.iter().chain(&more)).silent_stdin().start();
    let prompt = json!({ "type": "user", "message": { "role": "user", "content": "go" } });
    running.say(&prompt.to_string());
    let asked = running.read_until(|record| record["type"] == "control_request");
    assert_eq!(asked["request"]["message"], "Who is it for?", "{asked}");
    let said = json!({ "action": "accept", "content": { "who": "Ann" } });
    let response =
        json!({ "subtype": "success", "request_id": asked["request_id"], "response": said });
    running.say(&json!({ "type": "control_response", "response": response }).to_string());
    let output = running.read_until(|record| record["type"] == "user");
    let text = output["message"]["content"][0]["content"].to_string();
    assert!(text.contains("accept") && text.contains("Ann"), "{output}");
    running.read_until(|record| record["type"] == "result");
    running.hang_up();
    running.wait().exits(0);
}

#[test]
fn what_a_url_may_hold_of_a_key_is_shown_nowhere() {
    let place = place();
    let servers = json!({
        "query": { "url": "http://127.0.0.1:1/mcp?key=${MY_KEY}" },
        "user": { "url": "http://me:${MY_KEY}@127.0.0.1:1/mcp" },
    });
    let config = config(&servers);
    for debug in [&[][..], &["--debug=tine=debug"]] {
        let flags = ["mcp", "list", "--mcp-config", &config];
        let listing = place.tine(flags.iter().chain(debug)).env("MY_KEY", "SECRET");
        let finished = listing.run().exits(1);
        let all = format!("{}{}", finished.stdout, finished.stderr);
        assert!(all.contains("`http://127.0.0.1:1/mcp` cannot be reached"), "{all}");
        assert!(!all.contains("SECRET") && !all.contains("Transport ["), "{all}");
    }
}

#[test]
fn what_cannot_be_read_names_the_file_and_the_key_and_stops_no_other_server() {
    let place = place();
    let file = place.write("servers.json", "{");
    let file = file.to_str().expect("the path is UTF-8");
    let finished = place.tine(["-p", "go", "-m", "offline", "--mcp-config", file]).run().exits(52);
    assert!(
        finished.stderr.contains(&format!("`{file}` is not valid JSON")),
        "{}",
        finished.stderr
    );
    let servers = json!({
        "a": { "command": 7 },
        "b": { "type": "sse", "url": "http://localhost:1" },
        "c": { "command": "node", "env": { "A": "${NOT_SET}" } },
        "d": odd(&["plain"]),
        "e": { "command": "/no/such/program" },
    });
    let finished = play(&place, &servers, &[("mcp__d__echo", json!({}))], &[]).exits(0);
    assert_eq!(outputs(&finished), [(false, "{}".to_owned())]);
    for said in [
        "`command` is no text",
        "`type` is `sse`",
        "`env.A` needs the variable `NOT_SET`, which is not set",
        "/no/such/program",
    ] {
        assert!(finished.stdout.contains(said), "{said}: {}", finished.stdout);
    }
}

#[test]
fn the_real_server_of_everything_answers_with_text_images_and_structure() {
    let Some(program) = real("server-everything") else { return };
    let place = place();
    let servers = json!({ "all": { "command": "node", "args": [program, "stdio"] } });
    let calls = [
        ("mcp__all__echo", json!({ "message": "hello" })),
        ("mcp__all__get-sum", json!({ "a": 2, "b": 3 })),
        ("mcp__all__get-tiny-image", json!({})),
        ("mcp__all__get-structured-content", json!({ "location": "New York" })),
    ];
    let finished = play(&place, &servers, &calls, &[]).exits(0);
    assert_eq!(init(&finished)["mcp_servers"][0]["status"], "connected");
    let outputs = outputs(&finished);
    assert_eq!(outputs[0], (false, "Echo: hello".to_owned()));
    assert!(outputs[1].1.contains('5'), "{outputs:?}");
    assert!(
        outputs[2].1.contains("an image is left out: this model does not accept images"),
        "{outputs:?}"
    );
    assert!(outputs[3].1.contains("temperature"), "{outputs:?}");
}

#[test]
fn the_real_server_of_files_reads_and_writes_where_it_may() {
    let Some(program) = real("server-filesystem") else { return };
    let place = place();
    let root = place.work();
    place.write("a.txt", "what is in it\n");
    let servers = json!({ "files": { "command": "node", "args": [program, root] } });
    let path = |name: &str| root.join(name).to_str().expect("the path is UTF-8").to_owned();
    let calls = [
        ("mcp__files__read_text_file", json!({ "path": path("a.txt") })),
        ("mcp__files__write_file", json!({ "path": path("b.txt"), "content": "new" })),
        ("mcp__files__read_text_file", json!({ "path": "/etc/passwd" })),
    ];
    let finished = play(&place, &servers, &calls, &[]).exits(0);
    let outputs = outputs(&finished);
    assert_eq!(outputs[0], (false, "what is in it\n".to_owned()));
    assert_eq!(place.read("b.txt").as_deref(), Some("new"));
    assert!(outputs[2].0 && outputs[2].1.contains("Access denied"), "{outputs:?}");
}

/// A server that listens; killed when the test ends.
struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_real_server_answers_over_streamable_http() {
    let Some(program) = real("server-everything") else { return };
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let port = free.local_addr().expect("it has an address").port().to_string();
    drop(free);
    let mut child = Command::new("node")
        .arg(program)
        .arg("streamableHttp")
        .env("PORT", &port)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("node starts");
    let errors = child.stderr.take().expect("it is a pipe");
    let _listening = Listening(child);
    let mut lines = BufReader::new(errors).lines();
    let is_there = |line: &String| line.contains("listening");
    lines.by_ref().map_while(Result::ok).find(is_there).expect("it listens");
    std::thread::spawn(move || lines.for_each(drop));
    let place = place();
    let url = format!("http://127.0.0.1:{port}/mcp");
    let servers = json!({
        "far": { "type": "http", "url": url, "headers": { "X-Team": "tools" } },
        "gone": { "url": "http://127.0.0.1:1/mcp" },
    });
    let calls = [("mcp__far__echo", json!({ "message": "over there" }))];
    let finished = play(&place, &servers, &calls, &[]).exits(0);
    let servers = &init(&finished)["mcp_servers"];
    assert_eq!(
        (&servers[0]["status"], &servers[1]["status"]),
        (&json!("connected"), &json!("failed"))
    );
    assert_eq!(outputs(&finished)[0], (false, "Echo: over there".to_owned()));
}
