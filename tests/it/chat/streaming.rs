//! Answers while they are written: what stays, what is still open, and what an
//! edit looks like.

use serde_json::json;

use super::{at_every_size, footer, open_gate, rests, rows_with};
use crate::support::server::{Gate, Reaction};
use crate::support::talk::serve;

const BEFORE: &str = "fn sum(a: u32, b: u32) -> u32 {\n    a - b\n}\n";

const ANSWER: [&str; 4] = [
    "# What was wrong\n\nThe total was **too small** for two reasons:\n\n- it took `b` away instead \
     of adding it, as [the issue](https://example.com/issues/7) says\n- it",
    " never looked at the third column of the table, which has the numbers that count\n\n\
     | case | before | after |\n|---|---:|---:|\n| one | 1 | 3 |\n| none at all | 0 | 0",
    " |\n\n```rust\nfn sum(a: u32, b: u32) -> u32 {\n    a",
    " + b\n}\n```\n\n> Tests were not run.\n\n1. Run them\n2. Look at the *rounding*\n",
];

#[test]
fn an_answer_is_rendered_as_it_comes_and_an_edit_shows_what_it_changed() {
    at_every_size("streaming", |scene| {
        scene.place.write("sum.rs", BEFORE);
        let gates = [(); 4].map(|()| Gate::closed());
        let steps = Reaction::in_steps(ANSWER.into_iter().zip(&gates));
        let edit = json!({ "file_path": "sum.rs", "old_string": "a - b", "new_string": "a + b" });
        let server = serve(move |talk| match talk.turn() {
            1 => Reaction::reply(Some("I look."), &[("Read", json!({ "file_path": "sum.rs" }))]),
            2 => Reaction::call_reply(&[("Edit", edit.clone())]),
            _ => steps.clone(),
        });
        let mut sitting = scene.chat(&server, &["--permission-mode", "acceptEdits"]);
        sitting.keys("the sum is wrong\r");
        sitting.wait_until(|screen| rows_with(screen, "a + b") == 1);
        server.wait_until_came(3);
        sitting.wait_for("main");
        scene.picture("an edit", &sitting);
        let ends = ["- it", "none at all       0      0", "    a", "2. Look at the rounding"];
        for (gate, end) in gates.iter().zip(ends) {
            gate.open();
            sitting.wait_until(|screen| {
                let shown = screen.shown();
                shown.iter().any(|row| row == end)
                    && (end != ends[3]
                        || (rests(screen) && shown.iter().any(|row| row == "    a + b")))
            });
            scene.picture(&format!("up to `{}`", end.trim()), &sitting);
        }
    });
}

#[test]
fn thinking_is_dim_and_of_much_of_it_the_rest_is_counted() {
    at_every_size("thinking", |scene| {
        let lines: Vec<String> = (1..=20).map(|n| format!("step {n} of the plan")).collect();
        let gate = Gate::closed();
        let thinking = json!({ "role": "assistant", "reasoning_content": lines.join("\n") });
        let answer = json!({ "role": "assistant", "content": "Done." });
        let parts = Reaction::in_parts([(thinking, &open_gate()), (answer, &gate)]);
        let server = serve(move |_| parts.clone());
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("think\r");
        sitting.wait_until(|screen| rows_with(screen, "thinking") == 1);
        scene.picture("it thinks", &sitting);
        gate.open();
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "Done.") == 1);
        scene.picture("it is done", &sitting);
        assert!(sitting.screen.look("step 1").is_some_and(|look| look.dim));
    });
}

#[test]
fn the_last_calls_are_opened_one_after_another() {
    at_every_size("opened", |scene| {
        scene.place.write("a.txt", "one\ntwo\n");
        let server = serve(|talk| match talk.turn() {
            1 => Reaction::call_reply(&[("Glob", json!({ "pattern": "*.txt" }))]),
            2 => Reaction::call_reply(&[("Read", json!({ "file_path": "a.txt" }))]),
            _ => Reaction::text_reply("Two lines."),
        });
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("look\r");
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "Two lines.") == 1);
        scene.picture("calls are a row each", &sitting);
        sitting.keys(super::CTRL_O);
        sitting.wait_for("two");
        sitting.keys(super::CTRL_O);
        sitting.wait_until(|screen| rows_with(screen, "a.txt") > 1);
        sitting.keys(super::CTRL_O);
        sitting.wait_until(|screen| footer(screen).contains("no more calls"));
        scene.picture("all were opened", &sitting);
    });
}
