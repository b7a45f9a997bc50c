//! What the model of a slot is sent: the same bytes on a worker as here, but for
//! where the workspace is.

use std::collections::BTreeMap;

use serde_json::json;

use super::{both, task, task_with};
use crate::support::repository::Repository;
use crate::support::server::Reaction;
use crate::support::talk::{Talk, serve_calls};

const AGENT: &str = "---\nname: smith\ndescription: Works.\ntools: Grep, Bash(git *), Read\n---\n\
                     You are the smith.\n";

const SKILL: &str = "---\nname: greet\ndescription: How to greet.\n---\nSay hello.\n";

#[test]
fn a_slot_is_sent_the_same_bytes_wherever_it_runs() {
    both(|side| {
        let repository = Repository::new();
        repository.write("AGENTS.md", "Be brief, @more.md\n");
        repository.write("more.md", "and kind.\n");
        repository.write("src/lib.rs", "fn main() {}\n");
        repository.write(".tine/agents/smith.md", AGENT);
        repository.write(".tine/skills/greet/SKILL.md", SKILL);
        repository.commit("Begin");
        repository.write("src/lib.rs", "fn changed() {}\n");
        let tasks = [
            task("general"),
            task_with("narrow", "tools", json!(["Read", "Glob"])),
            task_with("looks", "subagent_type", "explore"),
            task_with("works", "subagent_type", "smith"),
            task_with("shaped", "schema", json!({"type": "object", "properties": {}})),
        ];
        let server = serve_calls(&[("Agent", json!({ "tasks": tasks }))], |talk| {
            match (talk.task(), talk.turn()) {
                ("general", 1) => Reaction::reply(
                    Some("Let me see."),
                    &[
                        ("Read", json!({"file_path": "src/lib.rs"})),
                        ("Glob", json!({"pattern": "**/*.rs"})),
                        ("Read", json!({"file_path": "none"})),
                        ("Skill", json!({"skill": "greet"})),
                    ],
                ),
                ("shaped", _) => Reaction::call_reply(&[("StructuredOutput", json!({}))]),
                _ => Reaction::text_reply("done here"),
            }
        });
        side.work(&[3, 3], Some(&server));
        let place = &repository.place;
        side.tine(place, &["-p", "go", "-m", "m"]).server(&server).run().exits(0);
        let mut sent: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for request in server.finish() {
            let talk = Talk::of(&request);
            let body = String::from_utf8(request.body.clone()).expect("it is JSON");
            let named = format!("{} {}", talk.task(), talk.turn());
            sent.entry(named).or_default().push(side.plain(place, &body));
        }
        assert_eq!(sent.values().map(Vec::len).sum::<usize>(), 2 + 5 + 1);
        sent
    });
}
