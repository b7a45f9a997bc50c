//! What somebody at a terminal sees of a batch while its slots are at work, and at its
//! end.

use serde_json::{Value, json};

use super::both;
use crate::support::repository::Repository;
use crate::support::screen::Screen;
use crate::support::server::{Gate, Reaction};
use crate::support::talk::serve_calls;
use crate::support::terminal::{Sitting, StandardOutput};

const NAMES: [&str; 4] = ["north", "east", "south", "west"];

/// Tells whether these two are at work and have made a call each.
fn are_at_work(screen: &Screen, names: &[&str], counted: &str) -> bool {
    let has_called = |name: &&str| {
        let row = screen.row(name);
        row.is_some_and(|row| row.contains("running") && row.contains("Glob *.rs"))
    };
    // The last line, to its end: before that is written the picture is not whole.
    let is_whole = |row: String| row.contains(" tok ") && row.trim_end().ends_with('s');
    names.iter().all(has_called) && screen.row(counted).is_some_and(is_whole)
}

#[test]
fn a_batch_is_shown_alike_while_it_runs_and_when_it_is_over() {
    both(|side| {
        let gates = [(); 4].map(|()| Gate::closed());
        let opened = gates.clone();
        let task = |name: &str| {
            json!({"description": name, "prompt": name,
            "subagent_type": "explore"})
        };
        let tasks: Vec<Value> = NAMES.map(task).into();
        let model = serve_calls(&[("Agent", json!({ "tasks": tasks }))], move |talk| {
            let index = NAMES.iter().position(|name| *name == talk.task());
            let gate = &gates[index.expect("all have names")];
            match talk.turn() {
                1 => Reaction::call_reply(&[("Glob", json!({"pattern": "*.rs"}))]),
                _ => Reaction::text_reply("Nothing there.").behind(gate),
            }
        });
        side.work(&[2], Some(&model));
        let repository = Repository::new();
        repository.write("here.txt", "here\n");
        repository.commit("Begin");
        let tine = side.tine(&repository.place, &["-p", "go", "-m", "m"]).server(&model);
        let mut terminal = Sitting::watch(tine, StandardOutput::Terminal);
        let mut pictures = Vec::new();
        terminal.wait_until(|screen| are_at_work(screen, &NAMES[..2], "2 running, 2 queued"));
        pictures.push(terminal.snapshot());
        opened[0].open();
        let rest = ["east", "south"];
        terminal.wait_until(|screen| are_at_work(screen, &rest, "2 running, 1 queued"));
        pictures.push(terminal.snapshot());
        for gate in &opened[1..] {
            gate.open();
        }
        assert_eq!(terminal.wait().0, Some(0));
        // Those that are left end in any order.
        let mut last: Vec<String> = terminal.snapshot().lines().map(str::to_owned).collect();
        last.sort();
        (pictures, last)
    });
}
