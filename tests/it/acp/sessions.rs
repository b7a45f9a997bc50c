//! How sessions of an editor begin, are loaded again and are left, and what is
//! told of them then.

use std::fs;

use serde_json::{Value, json};

use super::{Editor, Updates, says, stopped};
use crate::support::server::{Gate, Reaction, Server};
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
            let params = json!({ "sessionId": session, "modeId": ["plan", "default"][id % 2] });
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
