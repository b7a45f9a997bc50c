//! `tine mcp serve`, spoken to as any client would.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::support::tine::{HANG_LIMIT, Place};

/// A client of the binary. What still runs when the test ends is killed.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    heard: Receiver<String>,
}

impl Client {
    fn new(place: &Place, model: &str, flags: &[&str]) -> Self {
        let serving = ["mcp", "serve", "-m", model];
        let mut command = place.tine(serving.iter().chain(flags)).into_command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let (tell, heard) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
        });
        let mut client = Self { child, input, heard };
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        client.ask(0, "initialize", &hello);
        let answer = client.hear();
        assert_eq!(answer["result"]["serverInfo"]["name"], "tine", "{answer}");
        client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn say(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("the input is open");
        writeln!(input, "{message}").expect("the binary reads");
    }

    fn ask(&mut self, id: u32, method: &str, parameters: &Value) {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters });
        self.say(&request);
    }

    fn call(&mut self, id: u32, tasks: &Value) {
        let arguments = json!({ "tasks": tasks });
        let parameters = json!({
            "name": "run_batch",
            "arguments": arguments,
            "_meta": { "progressToken": format!("p{id}") },
        });
        self.ask(id, "tools/call", &parameters);
    }

    /// The next line, which is a message: nothing else is on standard output.
    fn hear(&mut self) -> Value {
        let line = self.heard.recv_timeout(HANG_LIMIT).expect("the binary says something");
        let message: Value = serde_json::from_str(&line).expect("a line is a message");
        assert_eq!(message["jsonrpc"], "2.0");
        message
    }

    /// Hears progress until the answer with this number.
    fn answer(&mut self, id: u32) -> (Vec<Value>, Value) {
        let mut progress = Vec::new();
        loop {
            let message = self.hear();
            if message["id"] == id {
                return (progress, message["result"].clone());
            }
            progress.push(message["params"].clone());
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn task(description: &str) -> Value {
    json!({ "description": description, "prompt": "go", "subagent_type": "explore" })
}

fn script(place: &Place) -> String {
    let units = json!({
        "good": [{ "text": "found it", "usage": { "input": 9, "output": 2 } }],
        "bad": [{ "text": "half", "fault": { "error": { "status": 400, "message": "no" } } }],
        "hung": [{ "text": "so far", "fault": "hang" }],
        "writes": [
            { "calls": [{ "name": "Write", "arguments": { "file_path": "x", "content": "y" } }] },
            { "text": "tried" },
        ],
    });
    place.script("s.json", &json!({ "units": units }))
}

#[test]
fn a_batch_answers_with_its_text_and_what_became_of_each_slot() {
    let place = Place::new();
    let mut client = Client::new(&place, &script(&place), &[]);
    client.ask(1, "tools/list", &json!({}));
    let tools = client.hear()["result"]["tools"].clone();
    assert_eq!(tools[0]["name"], "run_batch");
    let parameters = &tools[0]["inputSchema"]["properties"]["tasks"]["items"]["properties"];
    assert!(parameters["subagent_type"].is_object(), "{tools}");
    assert!(parameters["run_in_background"].is_null(), "{tools}");
    client.call(2, &json!([task("good"), task("bad")]));
    let (progress, result) = client.answer(2);
    assert_eq!(progress.len(), 2, "{progress:?}");
    assert_eq!((&progress[1]["progress"], &progress[1]["total"]), (&json!(2.0), &json!(2.0)));
    assert_eq!(progress[0]["progressToken"], "p2");
    let messages: Vec<&str> = progress.iter().filter_map(|it| it["message"].as_str()).collect();
    assert!(messages.iter().any(|message| message.starts_with("good: ")), "{messages:?}");
    assert_eq!(result["isError"], false);
    let text = result["content"][0]["text"].as_str().expect("there is text");
    assert!(text.contains("found it") && text.contains("half"), "{text}");
    let slots = &result["structuredContent"]["slots"];
    assert_eq!((&slots[0]["status"], &slots[1]["status"]), (&json!("completed"), &json!("failed")));
    assert_eq!(slots[0]["text"], "found it");
    assert_eq!(slots[0]["usage"]["output_tokens"], 2);
    assert_eq!(slots[1]["text"], "half");
}

#[test]
fn what_nobody_can_be_asked_about_is_denied_and_a_flag_allows_it() {
    let place = Place::new();
    for (flags, is_there) in [(&[][..], false), (&["--permission-mode", "acceptEdits"], true)] {
        let mut client = Client::new(&place, &script(&place), flags);
        let writer =
            json!({ "description": "writes", "prompt": "go", "subagent_type": "general-purpose" });
        client.call(1, &json!([writer]));
        assert_eq!(client.answer(1).1["structuredContent"]["slots"][0]["status"], "completed");
        assert_eq!(place.read("x").is_some(), is_there, "{flags:?}");
    }
}

#[test]
fn calls_run_side_by_side_and_a_cancel_ends_one_of_them() {
    let place = Place::new();
    let mut client = Client::new(&place, &script(&place), &[]);
    client.call(1, &json!([task("hung")]));
    client.call(2, &json!([task("good")]));
    let (_, result) = client.answer(2);
    assert_eq!(result["structuredContent"]["status"], "completed");
    let cancel = json!({ "requestId": 1, "reason": "enough" });
    client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel }));
    // The one that was cancelled has no answer, and its place in the pool is free.
    client.call(3, &json!([task("good")]));
    assert_eq!(client.answer(3).1["structuredContent"]["status"], "completed");
    drop(client.input.take());
    assert!(client.child.wait().expect("it ends").success());
}

#[test]
fn a_client_that_closes_its_end_after_a_call_with_progress_gets_the_answer() {
    let place = Place::new();
    let mut client = Client::new(&place, &script(&place), &[]);
    client.call(1, &json!([task("good")]));
    drop(client.input.take());
    let (_, result) = client.answer(1);
    // On a busy machine it may have been stopped before it was done.
    let status = result["structuredContent"]["status"].as_str().expect("there is a status");
    assert!(["completed", "cancelled"].contains(&status), "{result}");
    assert!(client.child.wait().expect("it ends").success());
}

#[test]
fn a_batch_that_hangs_is_stopped_when_the_client_is_gone_and_says_so() {
    let place = Place::new();
    let mut client = Client::new(&place, &script(&place), &[]);
    client.call(1, &json!([task("good"), task("hung")]));
    // One has ended, so the other is under way.
    assert_eq!(client.hear()["params"]["progressToken"], "p1");
    drop(client.input.take());
    let (_, result) = client.answer(1);
    let slots = &result["structuredContent"]["slots"];
    assert_eq!(
        (&slots[0]["status"], &slots[1]["status"]),
        (&json!("completed"), &json!("cancelled"))
    );
    assert!(client.child.wait().expect("it ends").success());
}

#[test]
fn more_calls_than_may_run_wait_for_their_turn() {
    const MOST: usize = 32;
    let place = Place::new();
    // Else the tasks would wait for each other's places in the pool.
    let mut client =
        Client::new(&place, &script(&place), &["--config", "agents.max_concurrent=500"]);
    for id in 1..=100 {
        client.call(id, &json!([task("good"), task("hung")]));
    }
    let mut begun = Vec::new();
    while begun.len() < MOST {
        begun.push(client.hear()["params"]["progressToken"].clone());
    }
    client.ask(200, "ping", &json!({}));
    assert_eq!(client.hear()["id"], 200);
    assert_eq!(place.sessions().len(), MOST);
    // One that ends makes room for another.
    let first: u32 = begun[0].as_str().and_then(|token| token[1..].parse().ok()).expect("a number");
    let cancel = json!({ "requestId": first, "reason": "enough" });
    client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel }));
    let next = loop {
        let token = client.hear()["params"]["progressToken"].clone();
        // Its other task may end before it.
        if token != begun[0] {
            break token;
        }
    };
    assert!(!begun.contains(&next), "{next}");
    drop(client.input.take());
    assert!(client.child.wait().expect("it ends").success());
}

#[test]
fn sessions_of_calls_cannot_have_one_name() {
    let place = Place::new();
    let id = "b8345949-ecc5-4c89-aeef-d7377a54ea43";
    for flags in [["--session-id", id], ["-n", "mine"]] {
        let serving = ["mcp", "serve", "-m", "offline"];
        let refused = place.tine(serving.iter().chain(&flags)).run().exits(2);
        assert!(refused.stderr.starts_with("error: each call is a session of its own"));
    }
}

#[test]
fn a_call_that_is_malformed_is_told_what_is_wrong() {
    let place = Place::new();
    let mut client = Client::new(&place, &script(&place), &[]);
    let background = json!([{ "description": "a", "prompt": "b", "subagent_type": "explore", "run_in_background": true }]);
    for (id, tasks, said) in [
        (1, json!("oops"), "Parameter \"tasks\" must be an array of task objects."),
        (
            2,
            json!([{ "description": "a" }]),
            "Parameter \"prompt\" in tasks[0] must be a non-empty",
        ),
        (3, background, "Parameter \"run_in_background\" means nothing here"),
    ] {
        client.call(id, &tasks);
        let (_, result) = client.answer(id);
        assert_eq!(result["isError"], true);
        let text = result["content"][0]["text"].as_str().expect("there is text");
        assert!(text.starts_with(said), "{text}");
    }
    client.ask(4, "tools/call", &json!({ "name": "other", "arguments": {} }));
    assert_eq!(client.hear()["error"]["message"], "there is no tool `other`");
}

#[test]
fn a_line_that_cannot_be_read_is_answered_with_an_error_and_what_is_meant_is_done() {
    let place = Place::new();
    let mut client = Client::new(&place, &script(&place), &[]);
    for (line, id, code) in [
        ("hello", json!(null), -32700),
        (r#"{"jsonrpc":"2.0","id":7,"method":"tools/li"#, json!(7), -32700),
        (r#"{"jsonrpc":"2.0","id":8}"#, json!(8), -32600),
        (r#"{"jsonrpc":"2.0","id":9,"method":"no/such"}"#, json!(9), -32601),
    ] {
        writeln!(client.input.as_mut().expect("the input is open"), "{line}").expect("it reads");
        let answer = client.hear();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{line}");
    }
    let asked = "\u{feff}{\"id\":10,\"method\":\"tools/list\",\"params\":null}";
    writeln!(client.input.as_mut().expect("the input is open"), "{asked}").expect("it reads");
    let answer = client.hear();
    assert_eq!(answer["id"], 10);
    assert_eq!(answer["result"]["tools"][0]["name"], "run_batch", "{answer}");
}
