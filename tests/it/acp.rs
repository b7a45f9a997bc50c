//! An editor that speaks the Agent Client Protocol over standard input.

mod edits;
mod sessions;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::server::{End, Gate, Reaction, RecordedRequest, Server};
use crate::support::tine::{Place, Running};

/// An editor, and the process that it speaks to.
struct Editor {
    running: Running,
    place: Place,
    last: u64,
}

impl Editor {
    /// Starts tine with a scripted model, and is introduced.
    fn new(script: &Value) -> Self {
        Self::with(script, &json!({}), &[])
    }

    fn with(script: &Value, capabilities: &Value, flags: &[&str]) -> Self {
        let place = Place::new();
        let model = place.script("script.json", script);
        let running = place.tine(["acp", "-m", &model].iter().chain(flags)).silent_stdin().start();
        Self { running, place, last: 0 }.introduced(capabilities)
    }

    /// Starts tine with a server.
    fn at(place: Place, server: &Server) -> Self {
        let flags = ["acp", "-m", "m", "--config", "retry.most=0"];
        let running = place.tine(flags).server(server).silent_stdin().start();
        Self { running, place, last: 0 }.introduced(&json!({}))
    }

    fn introduced(mut self, capabilities: &Value) -> Self {
        let introduced = self.request(
            "initialize",
            &json!({ "protocolVersion": 1, "clientCapabilities": capabilities }),
        );
        assert_eq!(introduced["result"]["protocolVersion"], 1, "{introduced}");
        self
    }

    /// Sends a request and returns its id.
    fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let line = json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params });
        self.running.say(&line.to_string());
        self.last
    }

    fn notify(&mut self, method: &str, params: &Value) {
        let line = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.running.say(&line.to_string());
    }

    /// Sends a request and returns what answers it.
    #[track_caller]
    fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        self.answer_to(id).1
    }

    /// Returns what answers a request, and the updates on the way.
    #[track_caller]
    fn answer_to(&mut self, id: u64) -> (Updates, Value) {
        let mut updates = Vec::new();
        let answer = self.running.read_until(|message| {
            if message["method"] == "session/update" {
                updates.push(message["params"]["update"].clone());
            }
            message["id"] == id && message["method"].is_null()
        });
        (Updates(updates), answer)
    }

    fn new_session(&mut self) -> String {
        let cwd = self.place.work();
        let params = json!({ "cwd": cwd, "mcpServers": [] });
        let answer = self.request("session/new", &params);
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    fn begin_prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.ask("session/prompt", &json!({ "sessionId": session, "prompt": prompt }))
    }

    #[track_caller]
    fn prompt(&mut self, session: &str, text: &str) -> (Updates, Value) {
        let id = self.begin_prompt(session, text);
        self.answer_to(id)
    }

    /// Waits until it is asked something.
    #[track_caller]
    fn is_asked(&mut self, method: &str) -> Value {
        self.running.read_until(|message| message["method"] == method)
    }

    fn reply(&mut self, request: &Value, result: &Value) {
        let line = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        self.running.say(&line.to_string());
    }

    fn choose(&mut self, request: &Value, option: &str) {
        let outcome = json!({ "outcome": "selected", "optionId": option });
        self.reply(request, &json!({ "outcome": outcome }));
    }

    /// Leaves, and waits for the end of the process.
    #[track_caller]
    fn leaves(mut self) -> Place {
        self.running.hang_up();
        self.running.wait().exits(0);
        self.place
    }
}

/// What an editor was told.
struct Updates(Vec<Value>);

impl Updates {
    fn of(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|update| update["sessionUpdate"] == kind).collect()
    }

    /// The text of all pieces of a kind.
    fn text(&self, kind: &str) -> String {
        self.of(kind).iter().filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    /// The states that a call was in, one after the other.
    fn states(&self, call: &str) -> Vec<String> {
        let of_call = self.0.iter().filter(|update| update["toolCallId"] == call);
        // A call that is new and says nothing of it is pending.
        let state = |update: &'_ Value| match update["sessionUpdate"].as_str() {
            Some("tool_call") => Some(update["status"].as_str().unwrap_or("pending").to_owned()),
            _ => update["status"].as_str().map(str::to_owned),
        };
        let mut states: Vec<String> = of_call.filter_map(state).collect();
        states.dedup();
        states
    }

    /// The last that was told of a call with this field.
    fn last(&self, call: &str, field: &str) -> &Value {
        let told = self.0.iter().rev();
        let mut told = told.filter(|it| it["toolCallId"] == call && !it[field].is_null());
        told.next().map_or(&Value::Null, |update| &update[field])
    }
}

fn says(text: &str) -> Value {
    json!({ "units": { "main": [{ "text": text }] } })
}

fn write(path: &str) -> Value {
    json!({ "name": "Write", "arguments": { "file_path": path, "content": "new\n" } })
}

fn task(name: &str) -> Value {
    json!({ "description": name, "prompt": "go", "subagent_type": "general-purpose" })
}

fn stopped(answer: &Value, reason: &str) {
    assert_eq!(answer["result"]["stopReason"], reason, "{answer}");
}

#[test]
fn an_editor_learns_what_there_is_before_it_asks_for_anything() {
    let place = Place::new();
    let running = place.tine(["acp", "-m", "offline"]).silent_stdin().start();
    let mut editor = Editor { running, place, last: 0 };
    let params = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    let result = editor.request("initialize", &params)["result"].clone();
    assert_eq!(result["agentInfo"]["name"], "tine");
    assert_eq!(result["authMethods"], json!([]));
    let capabilities = &result["agentCapabilities"];
    assert_eq!(capabilities["loadSession"], true);
    let prompt = &capabilities["promptCapabilities"];
    assert_eq!((&prompt["embeddedContext"], &prompt["image"]), (&json!(true), &json!(false)));
    let params = json!({ "cwd": editor.place.work(), "mcpServers": [] });
    let answer = editor.request("session/new", &params);
    let result = &answer["result"];
    assert_eq!(result["modes"]["currentModeId"], "default", "{answer}");
    assert_eq!(result["modes"]["availableModes"].as_array().unwrap().len(), 5);
    assert_eq!(result["configOptions"][1]["currentValue"], "offline");
    let commands = editor.running.read_until(|message| {
        message["params"]["update"]["sessionUpdate"] == "available_commands_update"
    });
    let commands = commands["params"]["update"]["availableCommands"].as_array().unwrap();
    let named = |name: &str| commands.iter().any(|command| command["name"] == name);
    assert!(named("compact") && named("review") && !named("undo"), "{commands:?}");
    assert_eq!(editor.leaves().sessions(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn an_answer_comes_in_pieces_and_whole() {
    let mut editor = Editor::new(&says("Hello from here."));
    let session = editor.new_session();
    let (updates, answer) = editor.prompt(&session, "hi");
    stopped(&answer, "end_turn");
    assert_eq!(updates.text("agent_message_chunk"), "Hello from here.");
    assert_eq!(updates.text("user_message_chunk"), "");
    assert_eq!(updates.of("session_info_update")[0]["title"], "hi");
    editor.leaves();
}

#[test]
fn what_a_tool_does_is_a_call_of_its_own_with_its_file_and_its_output() {
    let read = json!({ "name": "Read", "arguments": { "file_path": "a.txt", "offset": 2 } });
    let script = json!({ "units": { "main": [{ "thinking": "hm", "text": "Looking. ", "calls": [read] },
        { "text": "Done." }] } });
    let mut editor = Editor::new(&script);
    editor.place.write("a.txt", "one\ntwo\n");
    let session = editor.new_session();
    let (updates, answer) = editor.prompt(&session, "look");
    stopped(&answer, "end_turn");
    assert_eq!(updates.text("agent_thought_chunk"), "hm");
    assert_eq!(updates.text("agent_message_chunk"), "Looking. Done.");
    let [call] = updates.of("tool_call")[..] else { panic!("one call was made") };
    let id = call["toolCallId"].as_str().unwrap();
    assert_eq!((&call["kind"], &call["name"]), (&json!("read"), &json!("Read")));
    assert_eq!(call["rawInput"], json!({ "file_path": "a.txt", "offset": 2 }));
    let file = editor.place.work().join("a.txt");
    assert_eq!(call["locations"], json!([{ "path": file, "line": 2 }]));
    assert_eq!(updates.states(id), ["pending", "in_progress", "completed"]);
    assert_eq!(updates.last(id, "title"), "Read a.txt");
    let content = &updates.last(id, "content")[0]["content"]["text"];
    assert!(content.as_str().unwrap().contains("two"), "{content}");
    assert_eq!(updates.last(id, "rawOutput")["isError"], false);
    editor.leaves();
}

#[test]
fn an_edit_is_asked_about_with_its_diff_and_shown_as_it_was_made() {
    let edit = json!({ "name": "Edit", "arguments": { "file_path": "a.txt",
        "old_string": "two", "new_string": "2" } });
    let read = json!({ "name": "Read", "arguments": { "file_path": "a.txt" } });
    let script = json!({ "units": { "main": [{ "calls": [read] }, { "calls": [edit] }, { "text": "ok" }] } });
    let mut editor = Editor::new(&script);
    editor.place.write("a.txt", "one\ntwo\n");
    let session = editor.new_session();
    let id = editor.begin_prompt(&session, "edit");
    let asked = editor.is_asked("session/request_permission");
    let params = &asked["params"];
    assert_eq!(params["sessionId"], session);
    let kinds: Vec<_> =
        params["options"].as_array().unwrap().iter().map(|option| option["kind"].clone()).collect();
    let expected = ["allow_once", "allow_always", "allow_always", "reject_once", "reject_always"];
    assert_eq!(kinds, expected, "{params}");
    let file = editor.place.work().join("a.txt");
    let diff = &params["toolCall"]["content"][0];
    assert_eq!(*diff, json!({ "type": "diff", "path": file, "oldText": "two", "newText": "2" }));
    let call = params["toolCall"]["toolCallId"].as_str().unwrap().to_owned();
    editor.choose(&asked, "allow_once");
    let (updates, answer) = editor.answer_to(id);
    stopped(&answer, "end_turn");
    let made =
        json!([{ "type": "diff", "path": file, "oldText": "one\ntwo\n", "newText": "one\n2\n" }]);
    assert_eq!(*updates.last(&call, "content"), made);
    assert_eq!(*updates.last(&call, "locations"), json!([{ "path": file, "line": 2 }]));
    assert_eq!(editor.leaves().read("a.txt").as_deref(), Some("one\n2\n"));
}

#[test]
fn a_no_is_an_output_of_its_call_and_one_for_all_like_it_is_not_asked_again() {
    let script = json!({ "units": { "main": [{ "calls": [write("a.txt")] },
        { "calls": [write("a.txt")] }, { "text": "no then" }] } });
    let mut editor = Editor::new(&script);
    let session = editor.new_session();
    let id = editor.begin_prompt(&session, "write");
    let asked = editor.is_asked("session/request_permission");
    editor.choose(&asked, "reject_always");
    let mut questions = 0;
    let answer = editor.running.read_until(|message| {
        questions += usize::from(message["method"] == "session/request_permission");
        message["id"] == id && message["method"].is_null()
    });
    stopped(&answer, "end_turn");
    assert_eq!(questions, 0);
    assert_eq!(editor.leaves().read("a.txt"), None);
}

#[test]
fn each_slot_is_a_call_of_its_own_and_its_question_says_who_asks() {
    let tasks = [task("fixer"), task("other")];
    let batch = json!({ "name": "Agent", "arguments": { "tasks": tasks } });
    let script = json!({ "units": {
        "main": [{ "calls": [batch] }, { "text": "both are back" }],
        "fixer": [{ "calls": [write("a.txt")] }, { "text": "fixed" }],
        "other": [{ "fault": { "error": { "status": 400, "message": "no" } } }],
    } });
    let mut editor = Editor::new(&script);
    let session = editor.new_session();
    let id = editor.begin_prompt(&session, "go");
    let mut before = Vec::new();
    let asked = editor.running.read_until(|message| {
        before.push(message["params"]["update"].clone());
        message["method"] == "session/request_permission"
    });
    let call = &asked["params"]["toolCall"];
    assert_eq!(call["_meta"]["tine"]["agent"], "agent-1", "{asked}");
    let text = call["content"].as_array().unwrap().last().unwrap()["content"]["text"].clone();
    assert!(text.as_str().unwrap().starts_with("the agent “fixer” asks: "), "{text}");
    editor.choose(&asked, "allow_once");
    let (Updates(after), answer) = editor.answer_to(id);
    stopped(&answer, "end_turn");
    let updates = Updates(before.into_iter().chain(after).collect());
    assert_eq!(updates.states("agent-1"), ["pending", "in_progress", "completed"]);
    assert_eq!(updates.states("agent-2"), ["pending", "in_progress", "failed"]);
    assert_eq!(updates.last("agent-1", "title"), "general-purpose: fixer");
    assert_eq!(updates.last("agent-1", "content")[0]["content"]["text"], "fixed");
    let failed = updates.last("agent-2", "content")[0]["content"]["text"].to_string();
    assert!(failed.contains("failed: "), "{failed}");
    let calls = updates.of("tool_call");
    let slot = calls.iter().find(|call| call["toolCallId"] == "agent-1").unwrap();
    let parent = &slot["_meta"]["tine"]["parentToolCallId"];
    assert!(calls.iter().any(|call| call["toolCallId"] == *parent && call["name"] == "Agent"));
    assert_eq!(updates.text("agent_message_chunk"), "both are back");
    assert_eq!(editor.leaves().read("a.txt").as_deref(), Some("new\n"));
}

/// Answers main with a batch of three, whose slots wait, and then with a text.
fn waits_in_slots(gate: &Gate) -> impl Fn(&RecordedRequest) -> Reaction + Send + Sync + use<> {
    let gate = gate.clone();
    move |request| {
        let body = request.json().to_string();
        if body.contains("wait here") && !body.contains("tool_call_id") && !body.contains("start") {
            return Reaction::text_reply("late").behind(&gate);
        }
        if body.contains("and now") {
            return Reaction::text_reply("here again");
        }
        let task = |name: &str| json!({ "description": name, "prompt": "wait here", "subagent_type": "explore" });
        let tasks = [task("a"), task("b"), task("c")];
        Reaction::call_reply(&[("Agent", json!({ "tasks": tasks }))])
    }
}

#[test]
fn a_cancel_reaches_every_slot_and_the_next_prompt_is_answered() {
    let gate = Gate::closed();
    let server = Server::start(waits_in_slots(&gate));
    let mut editor = Editor::at(Place::new(), &server);
    let session = editor.new_session();
    let id = editor.begin_prompt(&session, "start");
    server.wait_until_came(4);
    editor.notify("session/cancel", &json!({ "sessionId": session }));
    let (updates, answer) = editor.answer_to(id);
    stopped(&answer, "cancelled");
    for slot in ["agent-1", "agent-2", "agent-3"] {
        assert_eq!(updates.states(slot).last().map(String::as_str), Some("failed"), "{slot}");
        assert_eq!(updates.last(slot, "content")[0]["content"]["text"], "cancelled");
    }
    let (updates, answer) = editor.prompt(&session, "and now");
    stopped(&answer, "end_turn");
    assert_eq!(updates.text("agent_message_chunk"), "here again");
    editor.leaves();
    gate.open();
}

#[test]
fn a_question_that_nobody_answers_ends_with_the_turn_and_a_late_answer_allows_nothing() {
    let script =
        json!({ "units": { "main": [{ "calls": [write("a.txt")] }, { "text": "again" }] } });
    let mut editor = Editor::new(&script);
    let session = editor.new_session();
    let id = editor.begin_prompt(&session, "write");
    let asked = editor.is_asked("session/request_permission");
    editor.notify("session/cancel", &json!({ "sessionId": session }));
    let withdrawn = editor.is_asked("$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    stopped(&editor.answer_to(id).1, "cancelled");
    let id = editor.begin_prompt(&session, "again");
    let second = editor.is_asked("session/request_permission");
    editor.choose(&asked, "allow_once");
    editor.choose(&second, "reject_once");
    stopped(&editor.answer_to(id).1, "end_turn");
    assert_eq!(editor.leaves().read("a.txt"), None);
}

#[test]
fn a_second_prompt_while_one_is_answered_is_an_error_that_says_so() {
    let gate = Gate::closed();
    let held = gate.clone();
    let server = Server::start(move |_| Reaction::text_reply("first").behind(&held));
    let mut editor = Editor::at(Place::new(), &server);
    let session = editor.new_session();
    let first = editor.begin_prompt(&session, "one");
    server.wait_until_came(1);
    let (_, refused) = editor.prompt(&session, "two");
    let said = refused["error"]["data"].as_str().unwrap();
    assert!(said.contains("is being answered"), "{refused}");
    gate.open();
    stopped(&editor.answer_to(first).1, "end_turn");
    editor.leaves();
}

#[test]
fn two_sessions_work_side_by_side_each_in_its_own_directory() {
    let gate = Gate::closed();
    let held = gate.clone();
    let server = Server::start(move |request| {
        let body = request.json().to_string();
        match body.contains("slow") {
            true => Reaction::text_reply("slow").behind(&held),
            false => Reaction::text_reply("fast"),
        }
    });
    let mut editor = Editor::at(Place::new(), &server);
    let first = editor.new_session();
    let elsewhere = editor.place.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let params = json!({ "cwd": elsewhere, "mcpServers": [] });
    let second = editor.request("session/new", &params)["result"]["sessionId"].clone();
    let waiting = editor.begin_prompt(&first, "slow");
    server.wait_until_came(1);
    stopped(&editor.prompt(second.as_str().unwrap(), "quick").1, "end_turn");
    gate.open();
    stopped(&editor.answer_to(waiting).1, "end_turn");
    let bodies: Vec<String> =
        server.requests().iter().map(|request| request.json().to_string()).collect();
    let names = |body: &str, place: &Path| body.contains(&*place.to_string_lossy());
    assert!(names(&bodies[0], &editor.place.work()) && !names(&bodies[0], &elsewhere));
    assert!(names(&bodies[1], &elsewhere) && !names(&bodies[1], &editor.place.work()));
    editor.leaves();
}

#[test]
fn a_mode_holds_from_the_next_call_on_and_is_told_both_ways() {
    let script = json!({ "units": { "main": [{ "calls": [write("a.txt")] }, { "text": "ok" }] } });
    let mut editor = Editor::new(&script);
    let session = editor.new_session();
    let wrong = editor.request("session/set_mode", &json!({ "sessionId": session, "modeId": "x" }));
    assert_eq!(wrong["error"]["data"], "there is no mode `x`");
    let id =
        editor.ask("session/set_mode", &json!({ "sessionId": session, "modeId": "acceptEdits" }));
    let (updates, answer) = editor.answer_to(id);
    assert_eq!(answer["result"], json!({}), "{answer}");
    assert_eq!(updates.of("current_mode_update")[0]["currentModeId"], "acceptEdits");
    stopped(&editor.prompt(&session, "write").1, "end_turn");
    assert_eq!(editor.place.read("a.txt").as_deref(), Some("new\n"));
    let params = json!({ "sessionId": session, "configId": "mode", "value": "plan" });
    let answer = editor.request("session/set_config_option", &params);
    assert_eq!(answer["result"]["configOptions"][0]["currentValue"], "plan", "{answer}");
    let params = json!({ "sessionId": session, "configId": "model", "value": "offline" });
    let answer = editor.request("session/set_config_option", &params);
    assert_eq!(answer["result"]["configOptions"][1]["currentValue"], "offline", "{answer}");
    editor.leaves();
}

#[test]
fn a_session_is_loaded_with_all_that_was_said_and_goes_on() {
    let script =
        json!({ "units": { "main": [{ "calls": [write("a.txt")] }, { "text": "written" }] } });
    let flags = ["--permission-mode", "acceptEdits"];
    let mut editor = Editor::with(&script, &json!({}), &flags);
    let session = editor.new_session();
    stopped(&editor.prompt(&session, "write it").1, "end_turn");
    let cwd = editor.place.work();
    let listed = editor.request("session/list", &json!({ "cwd": cwd }));
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], session, "{listed}");
    assert_eq!(listed["result"]["sessions"][0]["title"], "write it");
    // Also one that is open: it is left first.
    let params = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
    let id = editor.ask("session/load", &params);
    let (updates, answer) = editor.answer_to(id);
    assert_eq!(answer["result"]["modes"]["currentModeId"], "acceptEdits", "{answer}");
    assert_eq!(updates.text("user_message_chunk"), "write it");
    assert_eq!(updates.text("agent_message_chunk"), "written");
    let [call] = updates.of("tool_call")[..] else { panic!("one call was made") };
    let made = updates.last(call["toolCallId"].as_str().unwrap(), "content");
    assert_eq!(made[0]["newText"], "new\n", "{made}");
    assert_eq!(made[0]["oldText"], Value::Null);
    // A script begins anew with its session; the conversation does not.
    let (updates, answer) = editor.prompt(&session, "go on");
    stopped(&answer, "end_turn");
    assert_eq!(updates.text("agent_message_chunk"), "written");
    let closed = editor.request("session/close", &json!({ "sessionId": session }));
    assert_eq!(closed["result"], json!({}), "{closed}");
    let (_, refused) = editor.prompt(&session, "there?");
    assert_eq!(refused["error"]["code"], -32002, "{refused}");
    // By now nothing of it is left.
    let closed = editor.request("session/close", &json!({ "sessionId": session }));
    assert_eq!(closed["result"], json!({}), "{closed}");
    let place = editor.leaves();
    let prompts = place.log().iter().filter(|line| line["kind"] == "invocation_started").count();
    assert_eq!(prompts, 2);
}

#[test]
fn a_list_of_what_is_to_be_done_is_a_plan() {
    let item = |content: &str, status: &str| json!({ "content": content, "status": status, "activeForm": content });
    let todos =
        json!([item("look", "completed"), item("fix", "in_progress"), item("test", "pending")]);
    let call = json!({ "name": "TodoWrite", "arguments": { "todos": todos } });
    let script = json!({ "units": { "main": [{ "calls": [call] }, { "text": "ok" }] } });
    let mut editor = Editor::new(&script);
    let session = editor.new_session();
    let (updates, _) = editor.prompt(&session, "plan");
    let entry = |content: &str, status: &str| json!({ "content": content, "priority": "medium", "status": status });
    let expected =
        json!([entry("look", "completed"), entry("fix", "in_progress"), entry("test", "pending")]);
    assert_eq!(updates.of("plan")[0]["entries"], expected);
    assert!(updates.of("tool_call").is_empty());
    editor.leaves();
}

fn asks() -> Value {
    let option = |label: &str| json!({ "label": label, "description": "so" });
    let question = json!({ "question": "Which database?", "header": "Database", "multiSelect": false,
        "options": [option("Postgres"), option("SQLite")] });
    let call = json!({ "name": "AskUserQuestion", "arguments": { "questions": [question] } });
    json!({ "units": { "main": [{ "calls": [call] }, { "text": "ok" }] } })
}

#[test]
fn a_question_of_the_model_is_a_form_where_an_editor_has_forms() {
    let forms = json!({ "elicitation": { "form": {} } });
    let mut editor = Editor::with(&asks(), &forms, &[]);
    let session = editor.new_session();
    let id = editor.begin_prompt(&session, "ask");
    let asked = editor.is_asked("elicitation/create");
    let params = &asked["params"];
    assert_eq!((&params["mode"], &params["message"]), (&json!("form"), &json!("Which database?")));
    let field = &params["requestedSchema"]["properties"]["field_00"];
    assert_eq!(field["oneOf"][1]["const"], "SQLite", "{params}");
    editor.reply(&asked, &json!({ "action": "accept", "content": { "field_00": "SQLite" } }));
    let (updates, answer) = editor.answer_to(id);
    stopped(&answer, "end_turn");
    let told = updates.of("tool_call_update").iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains("> SQLite"), "{told}");
    editor.leaves();
}

#[test]
fn a_question_of_the_model_is_asked_option_by_option_where_an_editor_has_no_forms() {
    let mut editor = Editor::new(&asks());
    let session = editor.new_session();
    let id = editor.begin_prompt(&session, "ask");
    let asked = editor.is_asked("session/request_permission");
    let params = &asked["params"];
    assert_eq!(params["toolCall"]["title"], "Which database?", "{params}");
    assert_eq!(params["options"][0]["name"], "Postgres");
    editor.choose(&asked, "pick_0");
    let (updates, answer) = editor.answer_to(id);
    stopped(&answer, "end_turn");
    let told = updates.of("tool_call_update").iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains("> Postgres"), "{told}");
    editor.leaves();
}

#[test]
fn a_server_whose_file_has_changed_is_started_again_if_the_user_says_so() {
    let call = |name: &str, arguments: Value| json!({ "calls": [{ "name": name, "arguments": arguments }] });
    let turns = json!([
        call("Write", json!({ "file_path": "state.json", "content": "{\"a\":1}\n" })),
        call("mcp__x__die", json!({})),
        call("mcp__x__echo", json!({ "b": 2 })),
        call("mcp__x__echo", json!({ "c": 3 })),
        { "text": "ok" },
    ]);
    let script = json!({ "units": { "main": turns } });
    let forms = json!({ "elicitation": { "form": {} } });
    let flags = ["--permission-mode", "acceptEdits", "--allowed-tools", "mcp__x"];
    let odd = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/odd.mjs");
    // What is answered, and whether the file changes before that.
    for answers in
        [&[("yes", false)][..], &[("no", false), ("no", false)], &[("yes", true), ("yes", false)]]
    {
        let mut editor = Editor::with(&script, &forms, &flags);
        let servers = json!([
            { "name": "x", "command": "env", "args": ["node", odd, "plain", "state.json"], "env": [] },
        ]);
        let params = json!({ "cwd": editor.place.work(), "mcpServers": servers });
        let session = editor.request("session/new", &params)["result"]["sessionId"].clone();
        let session = session.as_str().expect("an id is a text");
        let id = editor.begin_prompt(session, "go");
        for (answer, changes) in answers {
            let asked = editor.is_asked("elicitation/create");
            let message = asked["params"]["message"].to_string();
            assert!(message.contains("`state.json` has changed since you trusted it"), "{message}");
            if *changes {
                editor.place.write("state.json", "{\"a\":2}");
            }
            editor.reply(&asked, &json!({ "action": "accept", "content": { "field_00": answer } }));
        }
        let (updates, answer) = editor.answer_to(id);
        stopped(&answer, "end_turn");
        let told =
            updates.of("tool_call_update").iter().map(ToString::to_string).collect::<String>();
        let is_started = answers.iter().all(|(answer, _)| *answer == "yes");
        assert_eq!(told.contains("{\\\"c\\\":3}"), is_started, "{told}");
        assert_eq!(told.contains("then trust it again by `tine trust`"), !is_started, "{told}");
        editor.leaves();
    }
}

#[test]
fn servers_of_an_editor_are_connected_and_one_that_cannot_be_is_named() {
    let notices = json!({ "session": { "notices": {} } });
    let reply = json!({ "text": "hi", "expect": { "contains": ["tool mcp__odd__echo"] } });
    let mut editor = Editor::with(&json!({ "units": { "main": [reply] } }), &notices, &[]);
    let odd = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/odd.mjs");
    let servers = json!([
        { "name": "odd", "command": "node", "args": [odd, "plain"], "env": [] },
        { "name": "files", "command": "/bin/false", "args": [], "env": [] },
    ]);
    let params = json!({ "cwd": editor.place.work(), "mcpServers": servers });
    let session = editor.request("session/new", &params)["result"]["sessionId"].clone();
    let text = json!([{ "type": "text", "text": "go" }]);
    let id = editor.ask("session/prompt", &json!({ "sessionId": session, "prompt": text }));
    let notice = editor
        .running
        .read_until(|message| message["params"]["update"]["sessionUpdate"] == "notice");
    let title = notice["params"]["update"]["title"].to_string();
    assert!(title.contains("the server `files`"), "{title}");
    let (_, answer) = editor.answer_to(id);
    stopped(&answer, "end_turn");
    editor.leaves();
}

#[test]
fn what_cannot_be_read_is_answered_and_what_follows_is_read() {
    let mut editor = Editor::new(&says("hi"));
    editor.running.say("{ no json");
    let error = editor.running.read_until(|message| !message["error"].is_null());
    assert_eq!((&error["error"]["code"], &error["id"]), (&json!(-32700), &Value::Null));
    assert!(error["error"]["data"].is_null(), "{error}");
    editor.running.say("[]");
    let error = editor.running.read_until(|message| !message["error"].is_null());
    assert_eq!(error["error"]["code"], -32600);
    editor.running.say(&"x".repeat(25 * 1024 * 1024));
    let error = editor.running.read_until(|message| !message["error"].is_null());
    assert_eq!(error["error"]["data"], "the line is too long");
    let cwd = editor.place.work();
    for (method, params, code) in [
        ("dance", json!({}), -32601),
        ("session/new", json!({ "cwd": 7 }), -32602),
        ("session/new", json!({ "cwd": "relative", "mcpServers": [] }), -32602),
        ("session/load", json!({ "sessionId": "x", "cwd": cwd, "mcpServers": [] }), -32602),
        ("session/prompt", json!({ "sessionId": "x", "prompt": [] }), -32002),
        ("authenticate", json!({ "methodId": "x" }), -32602),
        ("session/delete", json!({ "sessionId": "x" }), -32601),
    ] {
        let answer = editor.request(method, &params);
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
    }
    let session = editor.new_session();
    let image = json!([{ "type": "image", "data": "AA==", "mimeType": "image/png" }]);
    let answer =
        editor.request("session/prompt", &json!({ "sessionId": session, "prompt": image }));
    assert_eq!(answer["error"]["data"], "images are not taken in a prompt");
    stopped(&editor.prompt(&session, "hi").1, "end_turn");
    editor.leaves();
}

#[test]
fn an_editor_that_goes_in_the_middle_leaves_a_session_that_can_be_gone_on_with() {
    let gate = Gate::closed();
    let server = Server::start(waits_in_slots(&gate));
    let mut editor = Editor::at(Place::new(), &server);
    let session = editor.new_session();
    editor.begin_prompt(&session, "start");
    server.wait_until_came(4);
    let place = editor.leaves();
    let is_end = |line: &Value| line["kind"] == "unit_ended" && line["unit"] != "main";
    assert_eq!(place.log().iter().filter(|line| is_end(line)).count(), 3);
    let mut editor = Editor::at(place, &server);
    let params = json!({ "sessionId": session, "cwd": editor.place.work(), "mcpServers": [] });
    let answer = editor.request("session/resume", &params);
    assert_eq!(answer["result"]["modes"]["currentModeId"], "default", "{answer}");
    stopped(&editor.prompt(&session, "and now").1, "end_turn");
    editor.leaves();
    gate.open();
}

#[test]
fn a_failure_of_the_provider_is_the_error_of_its_prompt() {
    let server =
        Server::start(|_| Reaction::json(401, &json!({ "error": { "message": "bad key" } })));
    let mut editor = Editor::at(Place::new(), &server);
    let session = editor.new_session();
    let (_, answer) = editor.prompt(&session, "hi");
    assert!(answer["error"]["data"].as_str().unwrap().contains("bad key"), "{answer}");
    editor.leaves();
}

#[test]
fn a_signal_ends_all_of_it_and_the_answer_is_still_given() {
    let server = Server::start(|_| Reaction::pieces([""; 0], End::Hang));
    let mut editor = Editor::at(Place::new(), &server);
    let session = editor.new_session();
    let id = editor.begin_prompt(&session, "hi");
    server.wait_until_came(1);
    editor.running.signal(Signal::SIGTERM);
    stopped(&editor.answer_to(id).1, "cancelled");
    editor.running.wait().exits(143);
}

#[test]
fn an_editor_that_reads_nothing_is_waited_for_and_can_still_cancel() {
    // Far more updates than may be on their way, and than a pipe holds.
    let tasks: Vec<Value> = (0..2_000).map(|number| task(&format!("t{number}"))).collect();
    let batch = json!({ "name": "Agent", "arguments": { "tasks": tasks } });
    let script = json!({ "units": { "main": [{ "calls": [batch] }, { "text": "all back" }] },
        "then": { "text": "done", "repeat": true } });
    let place = Place::new();
    let model = place.script("script.json", &script);
    let flags = ["acp", "-m", &model, "--allow-large-batches"];
    let mut child = place
        .tine(flags)
        .into_command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut say = |line: &Value| stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut line = String::new();
    let params = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    say(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }));
    stdout.read_line(&mut line).unwrap();
    let params = json!({ "cwd": place.work(), "mcpServers": [] });
    say(&json!({ "jsonrpc": "2.0", "id": 2, "method": "session/new", "params": params }));
    line.clear();
    stdout.read_line(&mut line).unwrap();
    let opened: Value = serde_json::from_str(&line).unwrap();
    let session = &opened["result"]["sessionId"];
    let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "go" }] });
    say(&json!({ "jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": params }));
    // Until this is answered, nothing of the batch is read.
    let params = json!({ "sessionId": session });
    say(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }));
    let stopped = stdout.lines().map_while(Result::ok).find_map(|line| {
        let message: Value = serde_json::from_str(&line).unwrap();
        (message["id"] == 3).then(|| message["result"]["stopReason"].clone())
    });
    assert_eq!(stopped, Some(json!("cancelled")));
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
