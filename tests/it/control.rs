//! A program that speaks for a person, over standard input.

mod files;
mod hosts;
mod messages;
mod rewinding;
mod settings;

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::sync::mpsc;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::server::{End, Reaction, RecordedRequest, Server};
use crate::support::tine::{HANG_LIMIT, Place, Running};

const FLAGS: [&str; 4] = ["--input-format", "stream-json", "-o", "stream-json"];

/// A client and the process that it speaks to.
struct Client {
    running: Running,
    place: Place,
}

impl Client {
    fn new(script: &Value) -> Self {
        let place = Place::new();
        let model = place.script("script.json", script);
        let running = place.tine(FLAGS.iter().chain(&["-m", &model])).silent_stdin().start();
        Self { running, place }
    }

    fn say(&mut self, line: &Value) {
        self.running.say(&line.to_string());
    }

    fn ask(&mut self, text: &str) {
        self.say(&json!({"type": "user", "message": {"role": "user", "content": text}}));
    }

    /// Sends a request and returns what became of it.
    fn request(&mut self, request: &Value) -> Value {
        self.say(&json!({"type": "control_request", "request_id": "r-1", "request": request}));
        let reply = self.running.read_until(|record| record["type"] == "control_response");
        assert_eq!(reply["response"]["request_id"], "r-1");
        reply["response"].clone()
    }

    /// Waits until it is asked something.
    fn is_asked(&mut self) -> Value {
        self.running.read_until(|record| record["type"] == "control_request")
    }

    /// Answers a question.
    fn answer(&mut self, question: &Value, response: &Value) {
        let response = json!({"subtype": "success", "request_id": question["request_id"],
            "response": response});
        self.say(&json!({"type": "control_response", "response": response}));
    }

    fn result(&mut self) -> Value {
        self.running.read_until(|record| record["type"] == "result")
    }

    /// Ends the input and waits for the end of the process.
    fn ends(mut self, code: i32) -> Place {
        self.running.hang_up();
        self.running.wait().exits(code);
        self.place
    }
}

fn write(path: &str) -> Value {
    json!({"name": "Write", "arguments": {"file_path": path, "content": "new\n"}})
}

/// Main writes a file in each of its turns, and then says so.
fn writes(paths: &[&str]) -> Value {
    let turns = paths.iter().flat_map(|path| {
        [json!({"calls": [write(path)]}), json!({"text": format!("wrote {path}")})]
    });
    json!({"units": {"main": turns.collect::<Vec<_>>()}})
}

/// A slot writes a file.
fn slot_writes(path: &str) -> Value {
    let task = |name: &str| json!({"description": name, "prompt": "go", "subagent_type": "general-purpose"});
    let tasks = [task("fixer"), task("other")];
    json!({"units": {
        "main": [{"calls": [{"name": "Agent", "arguments": {"tasks": tasks}}]}, {"text": "done"}],
        "fixer": [{"calls": [write(path)]}, {"text": "fixed"}],
        "other": [{"text": "nothing"}],
    }})
}

#[test]
fn initialize_is_answered_before_any_message_and_needs_none() {
    let mut client = Client::new(&writes(&[]));
    let reply = client.request(&json!({"subtype": "initialize", "hooks": null}));
    assert_eq!(reply["subtype"], "success");
    let response = &reply["response"];
    assert_eq!(response["subtype"], "initialize");
    assert_eq!(response["capabilities"]["can_handle_can_use_tool"], true);
    let names = |list: &str| -> Vec<Value> {
        let named = response[list].as_array().unwrap();
        named.iter().map(|named| named["name"].clone()).collect()
    };
    assert!(names("commands").contains(&json!("review")), "{response}");
    assert!(names("agents").contains(&json!("explore")), "{response}");
    client.ends(0);
}

#[test]
fn a_slots_question_reaches_the_client_with_its_agent_and_a_yes_lets_it_write() {
    let mut client = Client::new(&slot_writes("a.txt"));
    client.ask("go");
    let question = client.is_asked();
    let request = &question["request"];
    assert_eq!(request["subtype"], "can_use_tool");
    assert_eq!((&request["tool_name"], &request["agent_id"]), (&json!("Write"), &json!("agent-1")));
    assert_eq!(request["input"], json!({"file_path": "a.txt", "content": "new\n"}));
    assert_eq!(request["blocked_path"], "a.txt");
    assert_eq!(request["permission_suggestions"][0]["type"], "addRules");
    client.answer(&question, &json!({"behavior": "allow", "updatedInput": request["input"]}));
    assert_eq!(client.result()["subtype"], "success");
    assert_eq!(client.ends(0).read("a.txt").as_deref(), Some("new\n"));
}

#[test]
fn a_client_may_change_what_it_allows() {
    let mut client = Client::new(&writes(&["a.txt"]));
    client.ask("go");
    let question = client.is_asked();
    let changed = json!({"file_path": "b.txt", "content": "changed\n"});
    client.answer(&question, &json!({"behavior": "allow", "updatedInput": changed}));
    client.result();
    let place = client.ends(0);
    assert_eq!((place.read("a.txt"), place.read("b.txt").as_deref()), (None, Some("changed\n")));
}

#[test]
fn a_no_and_a_callback_that_throws_are_denials_and_the_turn_goes_on() {
    let mut client = Client::new(&writes(&["a.txt", "b.txt"]));
    client.ask("go");
    let question = client.is_asked();
    client.answer(&question, &json!({"behavior": "deny", "message": "not there"}));
    let result = client.result();
    assert_eq!((&result["subtype"], &result["result"]), (&json!("success"), &json!("wrote a.txt")));
    assert_eq!(result["permission_denials"][0]["tool_name"], "Write");
    client.ask("again");
    let question = client.is_asked();
    let error =
        json!({"subtype": "error", "request_id": question["request_id"], "error": "it broke"});
    client.say(&json!({"type": "control_response", "response": error}));
    let output = client.running.read_until(|record| record["type"] == "user");
    let text = &output["message"]["content"][0]["content"];
    assert_eq!(*text, "Permission to use Write denied: the user said no: it broke");
    client.result();
    let place = client.ends(0);
    assert_eq!((place.read("a.txt"), place.read("b.txt")), (None, None));
}

#[test]
fn rules_for_the_session_hold_for_the_next_message_too() {
    // The script begins again with each message.
    let mut client = Client::new(&writes(&["a.txt"]));
    client.ask("go");
    let question = client.is_asked();
    let suggested = &question["request"]["permission_suggestions"];
    client.answer(&question, &json!({"behavior": "allow", "updatedPermissions": suggested}));
    client.result();
    client.ask("again");
    let mut asked = false;
    client.running.read_until(|record| {
        asked |= record["type"] == "control_request";
        record["type"] == "result"
    });
    assert!(!asked, "it was allowed for the session");
    client.ends(0);
}

#[test]
fn a_no_that_interrupts_ends_the_turn_and_the_next_message_starts_another() {
    let mut client = Client::new(&writes(&["a.txt", "b.txt"]));
    client.ask("go");
    let question = client.is_asked();
    client.answer(&question, &json!({"behavior": "deny", "message": "stop", "interrupt": true}));
    let result = client.result();
    assert_eq!(result["subtype"], "error_during_execution");
    client.ask("again");
    let question = client.is_asked();
    client.answer(&question, &json!({"behavior": "allow"}));
    assert_eq!(client.result()["subtype"], "success");
    client.ends(0);
}

#[test]
fn an_interrupt_withdraws_the_question_and_a_late_answer_answers_no_other() {
    let mut client = Client::new(&writes(&["a.txt", "b.txt"]));
    client.ask("go");
    let late = client.is_asked();
    client.say(&json!({"type": "control_request", "request_id": "r-2", "request": {"subtype": "interrupt"}}));
    let taken_back = client.running.read_until(|record| record["type"] == "control_cancel_request");
    assert_eq!(taken_back["request_id"], late["request_id"]);
    assert_eq!(client.result()["subtype"], "error_during_execution");
    client.ask("again");
    let question = client.is_asked();
    assert_ne!(question["request_id"], late["request_id"]);
    client.answer(&late, &json!({"behavior": "allow"}));
    client.answer(&question, &json!({"behavior": "deny", "message": "no"}));
    client.result();
    let place = client.ends(0);
    assert_eq!((place.read("a.txt"), place.read("b.txt")), (None, None));
}

#[test]
fn the_end_of_the_input_answers_no_to_what_is_open_and_the_work_is_finished() {
    let mut client = Client::new(&slot_writes("a.txt"));
    client.ask("go");
    client.is_asked();
    client.running.hang_up();
    let result = client.result();
    assert_eq!((&result["subtype"], &result["result"]), (&json!("success"), &json!("done")));
    assert_eq!(result["permission_denials"][0]["agent_id"], "agent-1");
    client.running.wait().exits(0);
    assert_eq!(client.place.read("a.txt"), None);
}

#[test]
fn what_is_piped_in_at_once_is_answered_message_by_message() {
    let user = |text: &str| json!({"type": "user", "message": {"role": "user", "content": text}});
    let (place, script) = (Place::new(), json!({"units": {"main": [{"text": "one"}]}}));
    let model = place.script("script.json", &script);
    let tine = place.tine(FLAGS.iter().chain(&["-m", &model]));
    let lines = format!("{}\n{}", user("a"), user("b"));
    let finished = tine.stdin(lines).run().exits(0);
    let results = finished.stdout.matches(r#"{"type":"result","subtype":"success""#).count();
    assert_eq!(results, 2, "{}", finished.stdout);
    assert!(finished.stdout.lines().last().unwrap().contains(r#""type":"result""#));
}

#[test]
fn a_client_that_writes_all_it_has_to_say_before_it_reads_gets_every_result() {
    let place = Place::new();
    let model = place.script("script.json", &writes(&["a.txt"]));
    let mut command = place.tine(FLAGS.iter().chain(&["-m", &model])).into_command();
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Killed(pipes.spawn().unwrap());
    // The first one asks something, and is answered by the end of the input. The
    // others can be answered at once: no model takes them.
    let user =
        |content: Value| json!({"type": "user", "message": {"role": "user", "content": content}});
    let mut text = format!("{}\n", user(json!("go")));
    for _ in 1..2_000 {
        text.push_str(&format!("{}\n", user(json!([{"type": "image"}]))));
    }
    let (mut stdin, mut stdout) = (child.0.stdin.take().unwrap(), child.0.stdout.take().unwrap());
    let (say_over, over) = mpsc::channel();
    std::thread::spawn(move || {
        stdin.write_all(text.as_bytes()).unwrap();
        drop(stdin);
        say_over.send(String::new()).unwrap();
        let mut records = String::new();
        stdout.read_to_string(&mut records).unwrap();
        say_over.send(records).unwrap();
    });
    over.recv_timeout(HANG_LIMIT).expect("the process reads while nobody reads of it");
    let records = over.recv_timeout(HANG_LIMIT).expect("the process ends with its input");
    assert_eq!(records.matches(r#"{"type":"result""#).count(), 2_000);
}

/// A process that ends with its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn bad_lines_have_a_result_each_and_end_nothing() {
    let mut client = Client::new(&json!({"units": {"main": [{"text": "fine"}]}}));
    for line in ["{", "[]", "{\"type\":\"dance\"}", "", "{\"type\":\"control_response\"}"] {
        client.running.say(line);
    }
    for _ in 0..3 {
        let result = client.result();
        let why = result["errors"][0].as_str().unwrap_or_default();
        assert!(why.starts_with("a line of standard input cannot be read: "), "{result}");
    }
    client.say(&json!({"type": "keep_alive"}));
    let unknown = client.request(&json!({"subtype": "dance"}));
    assert_eq!(
        (&unknown["subtype"], &unknown["error"]),
        (&json!("error"), &json!("`dance` is not supported"))
    );
    let empty = client.request(&json!({}));
    assert_eq!(empty["subtype"], "error");
    client
        .say(&json!({"type": "user", "message": {"role": "user", "content": [{"type": "image"}]}}));
    let result = client.result();
    assert_eq!(result["is_error"], true);
    client.ask("/nonsense");
    assert_eq!(client.result()["is_error"], true);
    client.ask("go");
    assert_eq!(client.result()["result"], "fine");
    client.running.hang_up();
    let finished = client.running.wait().exits(0);
    assert_eq!(
        finished.stderr.matches("warning: a line is left out: ").count(),
        1,
        "{}",
        finished.stderr
    );
}

#[test]
fn an_answer_counts_once_whatever_comes_after_it() {
    let mut client = Client::new(&writes(&["a.txt", "b.txt"]));
    client.ask("go");
    let question = client.is_asked();
    client.answer(&question, &json!({"behavior": "allow"}));
    client.answer(&question, &json!({"behavior": "deny", "message": "no"}));
    client.answer(&question, &json!({"behavior": "allow"}));
    client.answer(&json!({"request_id": "question-99"}), &json!({"behavior": "allow"}));
    assert_eq!(client.result()["result"], "wrote a.txt");
    // The next question is not answered by what was left over.
    client.ask("again");
    let question = client.is_asked();
    client.answer(&question, &json!({"behavior": "deny", "message": "no"}));
    client.result();
    let place = client.ends(0);
    assert_eq!((place.read("a.txt").as_deref(), place.read("b.txt")), (Some("new\n"), None));
}

#[test]
fn a_line_without_an_end_has_a_result_and_the_next_is_read() {
    let mut client = Client::new(&writes(&[]));
    client.running.say(&"x".repeat(40 * 1024 * 1024));
    let result = client.result();
    let why = result["errors"][0].as_str().unwrap_or_default();
    assert!(why.contains("cannot be read: it is longer than 25.1 MB"), "{result}");
    let reply = client.request(&json!({"subtype": "supported_commands"}));
    assert_eq!(reply["subtype"], "success");
    client.ends(42);
}

#[test]
fn an_input_that_ends_before_it_has_begun_or_in_a_line_is_an_end() {
    for (input, code, results) in [
        ("", 0, 0),
        ("\n", 0, 0),
        ("{\"type\":\"keep_alive\"}", 0, 0),
        // A client that sent a truncated message waits for its result.
        ("{\"type\":\"user\"", 42, 1),
    ] {
        let place = Place::new();
        let model = place.script("script.json", &writes(&[]));
        let tine = place.tine(FLAGS.iter().chain(&["-m", &model]));
        let finished = tine.stdin(input).run().exits(code);
        assert_eq!(finished.stdout.lines().count(), results, "{input}");
    }
}

#[test]
fn the_permission_mode_is_set_between_messages() {
    let mut client = Client::new(&writes(&["a.txt"]));
    let reply = client.request(&json!({"subtype": "set_permission_mode", "mode": "acceptEdits"}));
    assert_eq!(reply["response"], json!({"status": "updated", "mode": "acceptEdits"}));
    client.ask("go");
    let init = client.running.read_until(|record| record["subtype"] == "init");
    assert_eq!(init["permissionMode"], "acceptEdits");
    client.result();
    assert_eq!(client.ends(0).read("a.txt").as_deref(), Some("new\n"));
}

#[test]
fn a_signal_ends_a_process_that_waits_for_a_message() {
    let mut client = Client::new(&writes(&[]));
    client.request(&json!({"subtype": "initialize"}));
    client.running.signal(Signal::SIGTERM);
    client.running.wait().exits(143);
}

#[test]
fn a_signal_ends_a_run_that_asks_with_its_result() {
    let mut client = Client::new(&writes(&["a.txt"]));
    client.ask("go");
    client.is_asked();
    client.running.signal(Signal::SIGTERM);
    let result = client.result();
    assert_eq!(result["cancel_reason"], "terminate");
    assert_eq!(result["terminal_reason"], "aborted_tools");
    client.running.wait().exits(143);
}

/// A client of a process that asks `server`.
fn client_of(server: &Server, model: &str, flags: &[&str]) -> Client {
    let place = Place::new();
    let tine = place.tine(FLAGS.iter().chain(&["-m", model]).chain(flags)).server(server);
    Client { running: tine.silent_stdin().start(), place }
}

/// The last message of a request, as text.
fn last(request: &RecordedRequest) -> String {
    let request = request.json();
    let messages = request["messages"].as_array().expect("there are messages");
    messages.last().expect("there is one").to_string()
}

#[test]
fn a_session_that_is_not_kept_goes_on_from_message_to_message() {
    let server = Server::start(|request| {
        let knows = request.json()["messages"].to_string().contains("my name is Ada");
        Reaction::text_reply(if knows && last(request).contains("who") { "Ada" } else { "hello" })
    });
    let mut client = client_of(&server, "m", &["--no-session-persistence"]);
    client.ask("my name is Ada");
    assert_eq!(client.result()["result"], "hello");
    client.ask("who am I?");
    assert_eq!(client.result()["result"], "Ada");
    client.ends(0);
}

/// Main has an agent beside it write a file, and is told of it; the agent asks
/// before it writes.
fn writes_beside() -> Server {
    Server::start(|request| {
        let last = last(request);
        let task = json!({"description": "writer", "prompt": "write it down",
            "subagent_type": "general-purpose", "run_in_background": true});
        if last.contains("start it") {
            Reaction::call_reply(&[("Agent", task)])
        } else if last.contains("write it down") {
            Reaction::call_reply(&[("Write", json!({"file_path": "a.txt", "content": "new\n"}))])
        } else if last.contains("runs in the background") {
            Reaction::text_reply("started")
        } else if last.contains("it is over") {
            Reaction::text_reply("told")
        } else if last.contains("and now") {
            Reaction::text_reply("next")
        } else {
            Reaction::text_reply("it is over")
        }
    })
}

impl Client {
    /// Waits for a result and for a question, in whichever order they come.
    fn result_and_question(&mut self) -> (Value, Value) {
        let (mut result, mut question) = (Value::Null, Value::Null);
        self.running.read_until(|record| {
            match record["type"].as_str() {
                Some("result") => result = record.clone(),
                Some("control_request") => question = record.clone(),
                _ => {}
            }
            !result.is_null() && !question.is_null()
        });
        (result, question)
    }
}

#[test]
fn what_works_in_the_background_outlives_a_result_and_main_is_told_of_it() {
    let server = writes_beside();
    let mut client = client_of(&server, "m", &[]);
    client.ask("start it");
    let (started, question) = client.result_and_question();
    assert_eq!(started["result"], "started");
    // Nobody has answered: it still works, and the next message does not wait.
    client.ask("and now?");
    assert_eq!(client.result()["result"], "next");
    client.answer(&question, &json!({"behavior": "allow"}));
    let ended = client.running.read_until(|record| record["subtype"] == "task_notification");
    assert_eq!(ended["status"], "completed");
    client.running.read_until(|record| record["subtype"] == "init");
    assert_eq!(client.result()["result"], "told");
    assert_eq!(client.ends(0).read("a.txt").as_deref(), Some("new\n"));
}

#[test]
fn the_end_of_the_input_waits_for_the_background_and_tells_main_in_one_more_turn() {
    let server = writes_beside();
    let mut client = client_of(&server, "m", &[]);
    client.ask("start it");
    let (started, _) = client.result_and_question();
    assert_eq!(started["result"], "started");
    // Nobody answers any more, so the file is not written, and all is finished.
    client.running.hang_up();
    assert_eq!(client.result()["result"], "told");
    client.running.wait().exits(0);
}

#[test]
fn what_is_still_at_work_when_its_time_is_up_is_named_and_is_no_success() {
    let server = Server::start(|request| {
        let last = last(request);
        let task = json!({"description": "endless", "prompt": "never end",
            "subagent_type": "general-purpose", "run_in_background": true});
        if last.contains("start it") {
            Reaction::call_reply(&[("Agent", task)])
        } else if last.contains("never end") {
            Reaction::pieces([Vec::new()], End::Hang)
        } else {
            Reaction::text_reply("started")
        }
    });
    let mut client = client_of(&server, "m", &["--config", "background.wait_s=0"]);
    client.ask("start it");
    let started = client.result();
    assert_eq!(started["result"], "started", "{started}");
    client.running.hang_up();
    let result = client.result();
    assert_eq!(result["is_error"], true, "{result}");
    assert_eq!(result["unfinished"], json!(["agent-1"]), "{result}");
    client.running.wait().exits(1);
}

#[test]
fn a_task_is_stopped_by_its_id_and_its_sibling_goes_on() {
    let mut client = Client::new(&slot_writes("a.txt"));
    client.ask("go");
    let question = client.is_asked();
    let stop = json!({"subtype": "stop_task", "task_id": "agent-1"});
    client.say(&json!({"type": "control_request", "request_id": "r-2", "request": stop}));
    client.running.read_until(|record| record["type"] == "control_cancel_request");
    client.answer(&question, &json!({"behavior": "allow"}));
    assert_eq!(client.result()["result"], "done");
    assert_eq!(client.ends(0).read("a.txt"), None);
}

#[test]
fn only_what_was_waited_for_goes_to_the_background() {
    let mut client = Client::new(&slot_writes("a.txt"));
    let moved = |client: &mut Client, request: Value| {
        let reply = client.request(&request);
        assert_eq!(reply["subtype"], "success");
        reply["response"]["backgrounded"].clone()
    };
    let all = json!({"subtype": "background_tasks"});
    assert_eq!(moved(&mut client, all), false);
    client.ask("go");
    let started = client.running.read_until(|record| record["subtype"] == "task_started");
    let of = |call: &Value| json!({"subtype": "background_tasks", "tool_use_id": call});
    // It is asked before the call could end.
    let question = client.is_asked();
    assert_eq!(moved(&mut client, of(&json!("call-99"))), false);
    assert_eq!(moved(&mut client, of(&started["tool_use_id"])), true);
    client.answer(&question, &json!({"behavior": "deny"}));
    client.running.hang_up();
    client.running.wait();
}

#[test]
fn a_mode_that_is_set_while_a_turn_goes_on_holds_for_its_next_call() {
    let both = json!([{"calls": [write("a.txt")]}, {"calls": [write("b.txt")]}, {"text": "done"}, {"text": "again"}]);
    let mut client = Client::new(&json!({"units": {"main": both}}));
    client.ask("go");
    let question = client.is_asked();
    let reply = client.request(&json!({"subtype": "set_permission_mode", "mode": "acceptEdits"}));
    assert_eq!(reply["response"]["mode"], "acceptEdits");
    client.answer(&question, &json!({"behavior": "allow"}));
    // The second file is not asked about.
    assert_eq!(client.result()["result"], "done");
    client.ask("again");
    let init = client.running.read_until(|record| record["subtype"] == "init");
    assert_eq!(init["permissionMode"], "acceptEdits");
    client.result();
    let place = client.ends(0);
    assert_eq!(place.read("b.txt").as_deref(), Some("new\n"));
}

#[test]
fn a_result_names_the_message_that_it_answers_and_no_other() {
    let mut client = Client::new(&json!({"units": {"main": [{"text": "one"}, {"text": "two"}]}}));
    let uuid = "77777777-0000-4000-8000-000000000000";
    client.say(&json!({"type": "user", "uuid": uuid, "message": {"content": "go"}}));
    assert_eq!(client.result()["user_message_uuid"], uuid);
    client.ask("and on");
    assert_eq!(client.result().get("user_message_uuid"), None);
    client.ends(0);
}

#[test]
fn settings_change_the_rules_from_the_next_message_on_and_replace_each_other() {
    let mut client = Client::new(&writes(&["a.txt"]));
    let apply = |client: &mut Client, permissions: Value| {
        let settings = json!({"permissions": permissions});
        let reply =
            client.request(&json!({"subtype": "apply_flag_settings", "settings": settings}));
        reply["subtype"].clone()
    };
    assert_eq!(apply(&mut client, json!({"allow": ["Write(a.txt)"]})), "success");
    client.ask("one");
    // Nobody is asked.
    assert_eq!(client.result()["permission_denials"], json!([]));
    assert_eq!(apply(&mut client, json!({"deny": ["Write(*.txt)"]})), "success");
    client.ask("two");
    assert_eq!(client.result()["permission_denials"][0]["tool_input"]["file_path"], "a.txt");
    // Rules that cannot be read change nothing.
    assert_eq!(apply(&mut client, json!({"allow": ["Write("]})), "error");
    assert_eq!(apply(&mut client, json!({"ask": ["Write"]})), "success");
    client.ask("three");
    let question = client.is_asked();
    client.answer(&question, &json!({"behavior": "allow"}));
    assert_eq!(client.result()["permission_denials"], json!([]));
    assert!(client.ends(0).read("a.txt").is_some());
}

#[test]
fn plugins_are_none_and_servers_are_those_of_the_start() {
    let mut client = Client::new(&writes(&[]));
    let mut ask = |request: Value| client.request(&request)["response"].clone();
    let plugins = ask(json!({"subtype": "reload_plugins"}));
    assert_eq!((&plugins["plugins"], &plugins["error_count"]), (&json!([]), &json!(0)));
    assert!(plugins["agents"].as_array().is_some_and(|agents| !agents.is_empty()), "{plugins}");
    let set = |servers: Value| json!({"subtype": "mcp_set_servers", "servers": servers});
    let unchanged = json!({"added": [], "removed": [], "errors": {}});
    assert_eq!(ask(set(json!({}))), unchanged);
    let added = ask(set(json!({"calc": {"type": "sdk", "name": "calc"}})));
    assert_eq!((&added["added"], added["errors"]["calc"].is_string()), (&json!([]), true));
    client.ends(0);
}

#[test]
fn a_tool_runs_in_place_of_the_one_that_is_called_under_its_own_rules() {
    let call = |path: &str| json!({"calls": [{"name": "Read", "arguments": {"file_path": path, "content": "new\n"}}]});
    let script = json!({"units": {"main": [call("a.txt"), call("b.txt"), {"text": "done"}]}});
    let mut client = Client::new(&script);
    let wish = json!({"subtype": "initialize", "toolAliases": {"Read": "Write"}});
    assert_eq!(client.request(&wish)["subtype"], "success");
    client.ask("go");
    let question = client.is_asked();
    assert_eq!(question["request"]["tool_name"], "Write");
    client.answer(&question, &json!({"behavior": "allow"}));
    let question = client.is_asked();
    client.answer(&question, &json!({"behavior": "deny"}));
    client.result();
    let place = client.ends(0);
    assert_eq!((place.read("a.txt").as_deref(), place.read("b.txt")), (Some("new\n"), None));
}

#[test]
fn a_fork_that_is_called_by_another_name_continues_the_whole_conversation() {
    let look = json!({"name": "Read", "arguments": {"file_path": "a.txt"}});
    let fork = json!({"name": "Spawn", "arguments": {"description": "look", "prompt": "go on"}});
    let knows = json!({"text": "seen", "expect": {"contains": ["MARKER-1", "go on"]}});
    let script = json!({"units": {
        "main": [{"calls": [look]}, {"calls": [fork]}, {"text": "done"}, {"text": "done"}],
        "look": [knows],
    }});
    let mut client = Client::new(&script);
    let wish = json!({"subtype": "initialize", "toolAliases": {"Spawn": "Agent"}});
    assert_eq!(client.request(&wish)["subtype"], "success");
    client.ask("MARKER-1");
    let is_end = |record: &Value| record["subtype"] == "task_notification";
    let end = client.running.read_until(is_end);
    assert_eq!(end["status"], "completed", "{end}");
    client.ends(0);
}

#[test]
fn another_model_answers_from_the_next_message_on() {
    let server = Server::start(|_| Reaction::text_reply("fine"));
    let mut client = client_of(&server, "first", &[]);
    let mut models = Vec::new();
    for model in [None, Some(json!("second")), Some(json!(null))] {
        if let Some(model) = model {
            let reply = client.request(&json!({"subtype": "set_model", "model": model}));
            assert_eq!(reply["subtype"], "success", "{reply}");
        }
        client.ask("go");
        let init = client.running.read_until(|record| record["subtype"] == "init");
        models.push(init["model"].clone());
        client.result();
    }
    assert_eq!(models, ["first", "second", "first"]);
    let refused = client.request(&json!({"subtype": "set_model", "model": "scripted:nothing"}));
    assert_eq!(refused["subtype"], "error", "{refused}");
    client.ends(0);
    let asked: Vec<_> =
        server.finish().iter().map(|request| request.json()["model"].clone()).collect();
    assert_eq!(asked, ["first", "second", "first"]);
}

#[test]
fn a_budget_is_that_of_all_messages_together() {
    let place = Place::new();
    let paid = json!({"text": "ok", "usage": {"input": 1, "output": 1, "cost_usd": 0.6}});
    let model = place.script("script.json", &json!({"units": {"main": [paid]}}));
    let flags = ["-m", &model, "--max-budget-usd", "1"];
    let running = place.tine(FLAGS.iter().chain(&flags)).silent_stdin().start();
    let mut client = Client { running, place };
    let mut ended = Vec::new();
    for text in ["a", "b", "c"] {
        client.ask(text);
        let result = client.result();
        ended.push((result["subtype"].clone(), result["total_cost_usd"].clone()));
    }
    let expected = [("success", 0.6), ("success", 1.2), ("error_max_budget_usd", 1.2)];
    assert_eq!(ended, expected.map(|(subtype, cost)| (json!(subtype), json!(cost))));
    client.ends(53);
}

#[test]
fn messages_need_records_and_no_prompt_beside_them() {
    let refusal = "error: `--input-format stream-json` needs `--output-format stream-json`\n";
    Place::new().tine(["--input-format", "stream-json"]).run().refuses(2, refusal);
    let finished = Place::new().tine(FLAGS.iter().chain(&["-p", "hi"])).run().exits(2);
    assert!(finished.stderr.starts_with("error: with `--input-format stream-json` there is no"));
}

/// Asks a server a message for each of `texts`, one after the other, and
/// returns their results and what was said to people.
fn ask_all(
    place: &Place,
    server: Option<&Server>,
    flags: &[&str],
    texts: &[&str],
) -> (Vec<Value>, String) {
    let tine = place.tine(FLAGS.iter().chain(&["--config", "retry.most=0"]).chain(flags));
    let tine = match server {
        Some(server) => tine.server(server),
        None => tine,
    };
    let mut running = tine.silent_stdin().start();
    let mut results = Vec::new();
    for text in texts {
        let message = json!({"role": "user", "content": text});
        running.say(&json!({"type": "user", "message": message}).to_string());
        results.push(running.read_until(|record| record["type"] == "result"));
    }
    running.hang_up();
    (results, running.wait().stderr)
}

#[test]
fn what_a_provider_says_of_its_limits_holds_for_the_next_message() {
    let server = Server::start(|_| {
        let headers = [("content-type", "application/json"), ("retry-after", "3600")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let body = json!({"error": {"message": "slow down"}}).to_string();
        Reaction::Status { code: 429, headers: headers.into(), body: body.into() }
    });
    let (results, _) = ask_all(&Place::new(), Some(&server), &["-m", "m"], &["a", "b"]);
    assert_eq!(results.iter().filter(|result| result["is_error"] == true).count(), 2);
    assert_eq!(server.finish().len(), 1, "within the hour nobody asks again");
}

#[test]
fn all_messages_of_a_client_are_one_recording() {
    let (here, there) = (Place::new(), Place::new());
    let server = Server::start(|request| {
        let last = request.json()["messages"].as_array().unwrap().last().unwrap().to_string();
        Reaction::text_reply(if last.contains("first") { "one" } else { "two" })
    });
    let texts = ["first", "second"];
    let answers = |results: Vec<Value>| results.into_iter().map(|result| result["result"].clone());
    let recording = here.root().join("recording").display().to_string();
    let flags = ["-m", "m", "--record", &recording];
    let (results, stderr) = ask_all(&here, Some(&server), &flags, &texts);
    assert_eq!(answers(results).collect::<Vec<_>>(), ["one", "two"], "{stderr}");
    assert_eq!(server.finish().len(), 2);
    let mut files: Vec<_> =
        fs::read_dir(&recording).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["0001.json", "0002.json", "recording.json"]);
    let (results, stderr) = ask_all(&there, None, &["--replay", &recording], &texts);
    assert_eq!(answers(results).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(stderr, "");
}

#[test]
fn what_a_client_wants_of_the_run_holds_for_its_first_message() {
    let server = Server::start(|_| Reaction::text_reply("fine"));
    let mut client = client_of(&server, "m", &["--agent", "scout"]);
    let wishes = json!({"subtype": "initialize", "appendSystemPrompt": "Be brief.",
        "agents": {"scout": {"description": "looks", "prompt": "You look.", "tools": ["Read"]}}});
    let reply = client.request(&wishes);
    let agents = reply["response"]["agents"].as_array().unwrap();
    assert!(agents.iter().any(|agent| agent["name"] == "scout"), "{reply}");
    client.ask("go");
    let init = client.running.read_until(|record| record["subtype"] == "init");
    assert_eq!(init["tools"], json!(["Read"]));
    client.result();
    client.ends(0);
    let asked = server.finish()[0].json();
    let system = asked["messages"][0]["content"].to_string();
    assert!(system.contains("You look.") && system.contains("Be brief."), "{system}");
}

#[test]
fn what_cannot_be_as_a_client_wants_it_is_refused_and_so_is_its_message() {
    let server = Server::start(|_| Reaction::text_reply("fine"));
    let mut client = client_of(&server, "m", &[]);
    let reply = client.request(&json!({"subtype": "initialize", "agents": {"a": {}}}));
    assert_eq!(reply["subtype"], "error", "{reply}");
    assert!(reply["error"].to_string().contains("the agent `a` needs"), "{reply}");
    client.ask("go");
    assert_eq!(client.result()["is_error"], true);
    client.ends(2);
    assert_eq!(server.finish().len(), 0);
}

#[test]
fn a_run_that_cannot_begin_says_so_to_whoever_introduces_itself() {
    let place = Place::new();
    let running =
        place.tine(FLAGS.iter().chain(&["-m", "scripted:nothing"])).silent_stdin().start();
    let mut client = Client { running, place };
    let reply = client.request(&json!({"subtype": "initialize"}));
    assert_eq!(reply["subtype"], "error", "{reply}");
    let result = client.result();
    assert_eq!((&result["is_error"], result["errors"].is_array()), (&json!(true), true));
}

#[test]
fn a_programs_flags_that_are_not_known_end_nothing() {
    let server = Server::start(|_| Reaction::text_reply("fine"));
    let flags = ["--thinking=adaptive", "--some-new-flag", "value", "--max-turns", "-1"];
    let mut client = client_of(&server, "m", &flags);
    client.ask("go");
    assert_eq!(client.result()["result"], "fine");
    client.running.hang_up();
    let stderr = client.running.wait().exits(0).stderr;
    for flag in ["--thinking", "--some-new-flag"] {
        assert!(stderr.contains(&format!("note: `{flag}` does nothing here")), "{stderr}");
    }
}

#[test]
fn messages_are_repeated_on_request_as_they_are_taken_up() {
    let server = Server::start(|_| Reaction::text_reply("fine"));
    let mut client = client_of(&server, "m", &["--replay-user-messages"]);
    client.say(&json!({"type": "user", "uuid": "u-1", "message": {"content": "go"}}));
    let repeated = client.running.read_until(|record| record["isReplay"] == true);
    assert_eq!((&repeated["uuid"], &repeated["message"]["content"]), (&json!("u-1"), &json!("go")));
    client.result();
    client.ends(0);
}

#[test]
fn what_is_asked_just_before_the_end_of_the_input_is_answered() {
    let mut client = Client::new(&writes(&["a.txt"]));
    client.request(&json!({"subtype": "set_permission_mode", "mode": "acceptEdits"}));
    client.ask("go");
    client.result();
    let ask = |number: u32| {
        let request = json!({"subtype": "get_context_usage"});
        json!({"type": "control_request", "request_id": number.to_string(), "request": request})
    };
    (0..20).for_each(|number| client.say(&ask(number)));
    client.running.hang_up();
    let mut answered = 0;
    while answered < 20 {
        client.running.read_until(|record| record["type"] == "control_response");
        answered += 1;
    }
    client.running.wait().exits(0);
}

#[test]
fn a_client_is_told_what_it_asks_for_while_a_turn_goes_on_and_while_none_does() {
    let mut client = Client::new(&writes(&["a.txt"]));
    let ask = |client: &mut Client, subtype: &str| {
        let reply = client.request(&json!({"subtype": subtype}));
        assert_eq!(reply["subtype"], "success", "{subtype}: {reply}");
        reply["response"].clone()
    };
    let look = |client: &mut Client| {
        assert!(ask(client, "get_context_usage")["totalTokens"].is_u64());
        let commands = ask(client, "supported_commands");
        assert!(commands["commands"].as_array().unwrap().contains(&json!("review")));
        assert!(ask(client, "mcp_status")["mcpServers"].is_array());
        assert!(ask(client, "get_session_cost")["session"]["total_cost_usd"].is_number());
        assert_eq!(
            ask(client, "get_settings")["effective"]["permissions"]["defaultMode"],
            "default"
        );
        assert_eq!(ask(client, "get_available_models")["models"].as_array().unwrap().len(), 1);
    };
    look(&mut client);
    client.ask("go");
    let question = client.is_asked();
    look(&mut client);
    client.answer(&question, &json!({"behavior": "allow"}));
    client.result();
    client.ends(0);
}

/// Main asks the user two things, and so does a slot.
fn asks_the_user(unit: &str) -> Value {
    let option = |label: &str| json!({"label": label, "description": "it is there"});
    let question = |text: &str, several: bool| {
        json!({"question": text, "header": "h", "multiSelect": several,
            "options": [option("Postgres"), option("SQLite")]})
    };
    let questions = [question("Which database?", false), question("Which ones to test?", true)];
    let asks = json!([
        {"calls": [{"name": "AskUserQuestion", "arguments": {"questions": questions}}]},
        {"text": "done"},
    ]);
    let task = json!({"description": "asker", "prompt": "go", "subagent_type": "general-purpose"});
    match unit {
        "main" => json!({"units": {"main": asks}}),
        _ => json!({"units": {
            "main": [{"calls": [{"name": "Agent", "arguments": task}]}, {"text": "done"}],
            "asker": asks,
        }}),
    }
}

/// Returns what the first call of AskUserQuestion gave, and whether as an error.
fn said(result: &Value) -> (String, bool) {
    let block = &result["message"]["content"][0];
    (block["content"].as_str().expect("it is a text").to_owned(), block["is_error"] == true)
}

#[test]
fn a_question_of_the_model_goes_to_the_client_and_its_answers_come_back_in_the_changed_input() {
    for unit in ["main", "slot"] {
        let mut client = Client::new(&asks_the_user(unit));
        client.ask("go");
        let question = client.is_asked();
        let request = &question["request"];
        assert_eq!(request["tool_name"], "AskUserQuestion");
        assert_eq!(request["input"]["questions"][0]["question"], "Which database?");
        assert_eq!(request["permission_suggestions"], json!([]));
        let agent = if unit == "main" { Value::Null } else { json!("agent-1") };
        assert_eq!(request["agent_id"], agent);
        let mut input = request["input"].clone();
        input["answers"] = json!({"Which database?": "neither of them", "Which ones to test?": "SQLite, Postgres"});
        client.answer(&question, &json!({"behavior": "allow", "updatedInput": input}));
        let output = client.running.read_until(|record| record["type"] == "user");
        let expected = "The user has answered:\n\nWhich database?\n> neither of them\n\nWhich ones \
                        to test?\n> Postgres, SQLite";
        assert_eq!(said(&output), (expected.to_owned(), false));
        assert_eq!(client.result()["permission_denials"], json!([]));
        client.ends(0);
    }
}

#[test]
fn a_client_that_does_not_answer_a_question_of_the_model_says_why() {
    let mut client = Client::new(&asks_the_user("main"));
    client.ask("go");
    let question = client.is_asked();
    client.answer(&question, &json!({"behavior": "deny", "message": "ask me tomorrow"}));
    let output = client.running.read_until(|record| record["type"] == "user");
    let expected = "The user does not want to answer, and says: ask me tomorrow. Go on with your \
                    best judgement, and do not ask the same again.";
    assert_eq!(said(&output), (expected.to_owned(), false));
    client.result();
    client.ends(0);
}

#[test]
fn an_interrupt_takes_a_question_of_the_model_back() {
    let mut client = Client::new(&asks_the_user("main"));
    client.ask("go");
    let question = client.is_asked();
    let interrupt = json!({"subtype": "interrupt"});
    client.say(&json!({"type": "control_request", "request_id": "r-1", "request": interrupt}));
    let taken_back = |record: &Value| record["type"] == "control_cancel_request";
    let taken_back = client.running.read_until(taken_back);
    assert_eq!(taken_back["request_id"], question["request_id"]);
    assert_eq!(client.result()["subtype"], "error_during_execution");
    client.ends(0);
}
