//! How sessions of an editor begin, are loaded again and are left, and what is
//! told of them then.

use std::fs;

use serde_json::{Value, json};

use super::{Editor, Updates, says, stopped};
use crate::review_flow::{react, small};
use crate::review_typed::covers;
use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::{Talk, serve};
use crate::support::tine::Place;

/// Far more than a session takes at once.
const FLOOD: usize = 900;

/// Most sessions that are open at once.
const SESSIONS: usize = 64;

impl Editor {
    fn load(&self, session: &str) -> Value {
        json!({ "sessionId": session, "cwd": self.place.work(), "mcpServers": [] })
    }

    /// Sends requests in one piece, so that nothing is answered in between.
    fn ask_at_once(&mut self, requests: &[(&str, Value)]) -> Vec<u64> {
        let ids = (self.last + 1..).take(requests.len()).collect();
        let line = |(number, (method, params)): (u64, &(&str, Value))| {
            json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params })
                .to_string()
        };
        let lines: Vec<String> = (self.last + 1..).zip(requests).map(line).collect();
        self.last += requests.len() as u64;
        self.running.say(&lines.join("\n"));
        ids
    }

    /// Returns what answers these, in their order.
    fn answers_to(&mut self, ids: &[u64]) -> Vec<Value> {
        let mut answers = vec![Value::Null; ids.len()];
        while answers.iter().any(Value::is_null) {
            let answer = self.running.read_until(|message| message["method"].is_null());
            if let Some(place) = ids.iter().position(|id| answer["id"] == *id) {
                answers[place] = answer;
            }
        }
        answers
    }

    /// Asks for one mode and another, again and again, and then for `last`.
    fn flood(&mut self, session: &str, last: &str) {
        let line = |id: usize| {
            let mode = ["plan", "default"][id % 2];
            let params = json!({ "sessionId": session, "modeId": mode });
            json!({ "jsonrpc": "2.0", "id": format!("flood-{id}"), "method": "session/set_mode",
                "params": params })
        };
        let mut lines: Vec<String> = (0..FLOOD).map(|id| line(id).to_string()).collect();
        lines.push(last.to_owned());
        self.running.say(&lines.join("\n"));
    }
}

fn titles(updates: &Updates) -> Vec<&Value> {
    updates.of("session_info_update").iter().map(|update| &update["title"]).collect()
}

/// What all units of a session have cost so far, as it was told last.
fn cost(updates: &Updates) -> &Value {
    updates.of("usage_update").last().map_or(&Value::Null, |update| &update["cost"]["amount"])
}

#[test]
fn one_name_means_in_each_project_the_model_that_the_project_says() {
    let told = |answer: &'static str| Server::start(move |_| Reaction::text_reply(answer));
    let (users, projects) = (told("the user's"), told("the project's"));
    let entry = |server: &Server| format!("[models.m]\nbase_url = \"{}\"\n", server.base_url());
    let place = Place::new();
    place.configure(&entry(&users));
    place.write(".tine/config.toml", entry(&projects));
    place.tine(["trust", "--yes"]).run().exits(0);
    let running = place.tine(["acp", "-m", "m"]).silent_stdin().start();
    let mut editor = Editor { running, place, last: 0 }.introduced(&json!({}));
    let elsewhere = editor.place.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let trusted = editor.new_session();
    let params = json!({ "cwd": elsewhere, "mcpServers": [] });
    let other = editor.request("session/new", &params)["result"]["sessionId"].clone();
    let (updates, _) = editor.prompt(&trusted, "hi");
    assert_eq!(updates.text("agent_message_chunk"), "the project's");
    let (updates, _) = editor.prompt(other.as_str().unwrap(), "a secret of another project");
    assert_eq!(updates.text("agent_message_chunk"), "the user's");
    editor.leaves();
    assert_eq!((projects.count(), users.count()), (1, 1));
}

#[test]
fn usage_that_was_cancelled_answers_no_later_prompt() {
    let mut editor = Editor::new(&says("the answer"));
    let session = editor.new_session();
    // It takes a while to read such a log.
    stopped(&editor.prompt(&session, &"x".repeat(3_000_000)).1, "end_turn");
    let usage = json!([{ "type": "text", "text": "/usage" }]);
    let id = editor.ask("session/prompt", &json!({ "sessionId": session, "prompt": usage }));
    editor.notify("session/cancel", &json!({ "sessionId": session }));
    let _ = editor.answer_to(id);
    let (updates, answer) = editor.prompt(&session, "real");
    stopped(&answer, "end_turn");
    assert_eq!(updates.text("agent_message_chunk"), "the answer");
    editor.leaves();
}

#[test]
fn a_session_that_is_asked_too_much_can_be_loaded_again_and_others_are_opened() {
    let mut editor = Editor::new(&says("hi"));
    let session = editor.new_session();
    stopped(&editor.prompt(&session, "hi").1, "end_turn");
    let load = json!({ "jsonrpc": "2.0", "id": "load", "method": "session/load",
        "params": editor.load(&session) });
    editor.flood(&session, &load.to_string());
    let loaded = editor.running.read_until(|message| message["id"] == "load");
    assert_eq!(loaded["result"]["modes"]["currentModeId"], "default", "{loaded}");
    editor.new_session();
    editor.leaves();
}

#[test]
fn a_cancel_is_heard_behind_more_than_a_session_takes() {
    let gate = Gate::closed();
    let held = gate.clone();
    let server = Server::start(move |_| Reaction::text_reply("late").behind(&held));
    let mut editor = Editor::at(Place::new(), &server);
    let session = editor.new_session();
    let id = editor.begin_prompt(&session, "hi");
    server.wait_until_came(1);
    let params = json!({ "sessionId": session });
    let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params });
    editor.flood(&session, &cancel.to_string());
    stopped(&editor.answer_to(id).1, "cancelled");
    editor.leaves();
    gate.open();
}

#[test]
fn a_load_that_cannot_be_leaves_what_works_alone() {
    let gate = Gate::closed();
    let held = gate.clone();
    let server = Server::start(move |_| Reaction::text_reply("done").behind(&held));
    let mut editor = Editor::at(Place::new(), &server);
    let session = editor.new_session();
    let id = editor.begin_prompt(&session, "hi");
    server.wait_until_came(1);
    let mut params = editor.load(&session);
    params["cwd"] = json!("/nonexistent");
    let refused = editor.request("session/load", &params);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    gate.open();
    stopped(&editor.answer_to(id).1, "end_turn");
    stopped(&editor.prompt(&session, "and now").1, "end_turn");
    editor.leaves();
}

#[test]
fn a_session_that_is_closed_and_loaded_at_once_answers_both() {
    let mut editor = Editor::new(&says("hi"));
    let session = editor.new_session();
    stopped(&editor.prompt(&session, "hi").1, "end_turn");
    let close = json!({ "sessionId": session });
    let load = editor.load(&session);
    let ids = editor.ask_at_once(&[
        ("session/close", close.clone()),
        ("session/close", close),
        ("session/load", load),
    ]);
    let answers = editor.answers_to(&ids);
    assert_eq!(answers[0]["result"], json!({}), "{answers:?}");
    assert_eq!(answers[1]["result"], json!({}), "{answers:?}");
    assert_eq!(answers[2]["result"]["modes"]["currentModeId"], "default", "{answers:?}");
    editor.leaves();
}

#[test]
fn a_load_that_is_closed_says_so() {
    let mut editor = Editor::new(&says("hi"));
    let session = editor.new_session();
    // What it takes long to tell.
    stopped(&editor.prompt(&session, &"x".repeat(3_000_000)).1, "end_turn");
    let id = editor.ask("session/load", &editor.load(&session));
    editor.running.read_until(|message| {
        message["params"]["update"]["sessionUpdate"] == "session_info_update"
    });
    let close = editor.ask("session/close", &json!({ "sessionId": session }));
    let answers = editor.answers_to(&[id, close]);
    assert_eq!(answers[1]["result"], json!({}), "{answers:?}");
    // The past may have been told by then.
    let was_told = answers[0]["error"].is_null();
    let why = &answers[0]["error"]["data"];
    assert!(was_told || *why == "this session is being closed", "{}", answers[0]["error"]);
    editor.leaves();
}

#[test]
fn a_session_that_goes_on_keeps_its_title_and_what_it_has_cost() {
    let usage = json!({ "input": 10, "output": 5, "cost_usd": 0.5 });
    let script = json!({ "context_window": 100_000,
        "units": { "main": [{ "text": "ok", "usage": usage }] } });
    let mut editor = Editor::new(&script);
    let session = editor.new_session();
    let (updates, _) = editor.prompt(&session, "fix the parser");
    assert_eq!((titles(&updates), cost(&updates)), (vec![&json!("fix the parser")], &json!(0.5)));
    let id = editor.ask("session/load", &editor.load(&session));
    let (updates, _) = editor.answer_to(id);
    assert_eq!((titles(&updates), cost(&updates)), (vec![&json!("fix the parser")], &json!(0.5)));
    let (updates, answer) = editor.prompt(&session, "thanks");
    stopped(&answer, "end_turn");
    assert_eq!((titles(&updates), cost(&updates)), (vec![], &json!(1.0)));
    editor.request("session/resume", &editor.load(&session));
    let (updates, answer) = editor.prompt(&session, "thanks again");
    stopped(&answer, "end_turn");
    assert_eq!((titles(&updates), cost(&updates)), (vec![], &json!(1.5)));
    editor.leaves();
}

#[test]
fn a_session_that_was_given_a_name_is_loaded_with_it() {
    let place = Place::new();
    let model = place.script("script.json", &says("ok"));
    place.tine(["-p", "go", "-m", &model, "--name", "parser"]).run().exits(0);
    let session = place.sessions()[0].file_name().unwrap().to_string_lossy().into_owned();
    let running = place.tine(["acp", "-m", &model]).silent_stdin().start();
    let mut editor = Editor { running, place, last: 0 }.introduced(&json!({}));
    let id = editor.ask("session/load", &editor.load(&session));
    let (updates, _) = editor.answer_to(id);
    assert_eq!(titles(&updates), [&json!("parser")]);
    editor.leaves();
}

#[test]
fn where_there_are_too_many_sessions_the_one_that_rests_longest_is_left() {
    let gate = Gate::closed();
    let held = gate.clone();
    let server =
        Server::start(move |request| match request.json().to_string().contains("wait here") {
            true => Reaction::text_reply("late").behind(&held),
            false => Reaction::text_reply("at once"),
        });
    let mut editor = Editor::at(Place::new(), &server);
    let works = editor.new_session();
    let id = editor.begin_prompt(&works, "wait here");
    server.wait_until_came(1);
    let rests = editor.new_session();
    stopped(&editor.prompt(&rests, "hi").1, "end_turn");
    for _ in 2..=SESSIONS {
        editor.new_session();
    }
    let (_, refused) = editor.prompt(&rests, "there?");
    assert_eq!(refused["error"]["code"], -32002, "{refused}");
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("load it again"), "{why}");
    gate.open();
    stopped(&editor.answer_to(id).1, "end_turn");
    let loaded = editor.request("session/load", &editor.load(&rests));
    assert_eq!(loaded["result"]["modes"]["currentModeId"], "default", "{loaded}");
    stopped(&editor.prompt(&rests, "there?").1, "end_turn");
    editor.leaves();
}

#[test]
fn what_is_odd_about_a_project_is_told_to_the_editor() {
    let notices = json!({ "session": { "notices": {} } });
    let mut editor = Editor::with(&says("hi"), &notices, &[]);
    editor.place.write(".tine/config.toml", "model = \"offline\"\n");
    let session = editor.new_session();
    let (updates, answer) = editor.prompt(&session, "hi");
    stopped(&answer, "end_turn");
    let told: Vec<_> = updates.of("notice").iter().map(|notice| &notice["title"]).collect();
    let expected = json!(
        "`.tine/config.toml` not used: this repository is not trusted; \
        see `tine trust`"
    );
    assert_eq!(told, [&expected]);
    editor.leaves();
}

#[test]
fn an_editor_is_answered_with_what_a_flow_came_to_and_goes_on() {
    let place = Place::new();
    place.write(".tine/skills/greet/SKILL.md", "---\ndescription: Greets.\n---\nGreet.\n");
    let flow = "[inputs]\narguments = \"\"\n[[step]]\nname = \"hello\"\nprompt = \"Greet {{ inputs.arguments }}.\"\n";
    place.write(".tine/skills/greet/flow.toml", flow);
    let script = json!({ "units": {
        "hello": [{ "text": "Hello, Ada.", "expect": { "contains": ["Greet Ada."] } }],
        "main": [{ "text": "fine", "expect": { "contains": ["Hello, Ada.", "so?"] } }],
    }});
    let model = place.script("script.json", &script);
    let running = place.tine(["acp", "-m", &model]).silent_stdin().start();
    let mut editor = Editor { running, place, last: 0 }.introduced(&json!({}));
    let session = editor.new_session();
    let (updates, answer) = editor.prompt(&session, "/greet Ada");
    stopped(&answer, "end_turn");
    assert_eq!(updates.text("agent_message_chunk"), "Hello, Ada.");
    let (updates, answer) = editor.prompt(&session, "so?");
    stopped(&answer, "end_turn");
    assert_eq!(updates.text("agent_message_chunk"), "fine");
    editor.leaves();
}

#[test]
fn an_editor_is_answered_with_the_report_of_a_review_and_goes_on() {
    let server = serve(|talk| match talk.last_prompt().ends_with("so?") {
        true => Reaction::text_reply("ok"),
        false => react(talk),
    });
    let mut editor = Editor::at(small().place, &server);
    let session = editor.new_session();
    let (updates, answer) = editor.prompt(&session, "/review --effort low");
    stopped(&answer, "end_turn");
    let report = updates.text("agent_message_chunk");
    assert!(covers(&report, "src/part01.rs", 2), "{report}");
    let (updates, answer) = editor.prompt(&session, "so?");
    stopped(&answer, "end_turn");
    assert_eq!(updates.text("agent_message_chunk"), "ok");
    editor.leaves();
    let requests = server.finish();
    let last = Talk::of(requests.last().expect("the conversation went on"));
    let report = report.trim_end();
    let said = last.messages().iter().filter_map(|message| message["content"].as_str());
    assert!(said.into_iter().any(|text| text.trim_end() == report), "{report}");
}
