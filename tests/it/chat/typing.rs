//! What is typed, pasted, looked for, completed and edited elsewhere, while the
//! chat rests and while it works.

use serde_json::json;

use super::{
    ALT_UP, CTRL_D, CTRL_G, CTRL_R, ESC, MIDDLE, UP, at_every_size, at_usual_size, chat_of, footer,
    rests, rows_with, says, sit,
};
use crate::support::server::{Gate, Reaction};
use crate::support::talk::{Talk, serve};
use crate::support::tine::Place;

#[test]
fn a_chat_may_begin_with_a_prompt_and_a_command_as_if_they_were_typed() {
    let (place, server) = (Place::new(), serve(|_| Reaction::text_reply("Good morning.")));
    let mut sitting = sit(chat_of(&place, &server, &["--prompt-interactive", "hello"]), MIDDLE);
    sitting.wait_until(|screen| rests(screen) && rows_with(screen, "Good morning.") == 1);
    sitting.keys("again\r");
    sitting.wait_until(|screen| rests(screen) && rows_with(screen, "Good morning.") == 2);
    sitting.keys(CTRL_D);
    assert_eq!(sitting.wait().0, Some(0));
    let mut sitting = sit(chat_of(&place, &server, &["-i", "/help"]), MIDDLE);
    sitting.wait_for("/export");
    sitting.keys(CTRL_D);
    assert_eq!(sitting.wait().0, Some(0));
    let prompts: Vec<String> =
        server.finish().iter().map(|request| Talk::of(request).last_prompt().to_owned()).collect();
    assert_eq!(prompts.len(), 2);
    assert!(prompts[0].ends_with("hello") && prompts[1].ends_with("again"), "{prompts:?}");
}

#[test]
fn a_message_waits_for_the_next_boundary_and_can_be_taken_back() {
    at_every_size("waiting", |scene| {
        let gate = Gate::closed();
        let server = serve(move |talk| match talk.turn() {
            1 => Reaction::in_steps([("I am at wo", &super::open_gate()), ("rk.", &gate)]),
            _ => Reaction::text_reply("The docs, too, then."),
        });
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("go\r");
        sitting.wait_for("I am at wo");
        sitting.keys("and the tests\r");
        sitting.wait_for("waits: and the tests");
        sitting.keys("also the docs\r");
        sitting.wait_for("waits: also the docs");
        scene.picture("two wait", &sitting);
        sitting.keys(ALT_UP);
        sitting.wait_until(|screen| rows_with(screen, "waits:") == 0);
        scene.picture("they were taken back", &sitting);
        sitting.keys("\u{15}\u{15}\u{15}\u{15}");
        sitting.wait_until(|screen| rows_with(screen, "and the tests") == 0);
        scene.picture("their lines were deleted", &sitting);
    });
}

#[test]
fn a_message_that_waits_is_read_when_the_turn_ends() {
    at_usual_size("waiting-read", |scene| {
        let gate = Gate::closed();
        let held = gate.clone();
        let server = serve(move |talk| match talk.turn() {
            1 => Reaction::in_steps([("I am at wo", &super::open_gate()), ("rk.", &held)]),
            _ => Reaction::text_reply("The docs, too, then."),
        });
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("go\r");
        sitting.wait_for("I am at wo");
        sitting.keys("also the docs\r");
        sitting.wait_for("waits: also the docs");
        gate.open();
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "too, then.") == 1);
        scene.picture("it was read", &sitting);
        let requests = server.finish();
        assert_eq!(requests.len(), 2);
        assert!(Talk::of(&requests[1]).last_prompt().contains("also the docs"));
    });
}

#[test]
fn a_paste_of_two_hundred_lines_is_one_message() {
    at_every_size("paste", |scene| {
        let server = says("That is long.");
        let mut sitting = scene.chat(&server, &[]);
        let lines: Vec<String> = (1..=200).map(|number| format!("line {number} of it")).collect();
        sitting.paste(&lines.join("\n"));
        sitting.wait_for("line 200 of it");
        scene.picture("it was pasted", &sitting);
        sitting.keys("\r");
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "That is long.") == 1);
        scene.picture("it was sent", &sitting);
        let requests = server.finish();
        assert_eq!(requests.len(), 1, "nothing was sent before Enter");
        assert!(Talk::of(&requests[0]).task().contains(&lines.join("\n")));
    });
}

#[test]
fn an_older_message_is_found_again() {
    at_every_size("history", |scene| {
        let server = serve(|talk| Reaction::text_reply(&format!("Turn {}.", talk.turn())));
        let mut sitting = scene.chat(&server, &[]);
        for (turn, text) in (1..).zip(["where are the retries?", "and the tests?", "thanks"]) {
            sitting.keys(&format!("{text}\r"));
            let answer = format!("Turn {turn}.");
            sitting.wait_until(|screen| rests(screen) && rows_with(screen, &answer) == 1);
        }
        sitting.keys(UP);
        sitting.wait_for("> thanks");
        sitting.keys(CTRL_R);
        sitting.wait_for("--- history");
        sitting.keys(&"\u{7f}".repeat("thanks".len()));
        // Part of the word fits all of them, too.
        let texts = ["--- history  t", "  where are the retries?"];
        sitting.wait_until(|screen| texts.map(|text| rows_with(screen, text)) == [0, 1]);
        scene.picture("all of them", &sitting);
        sitting.keys("test");
        sitting.wait_for("--- history  test");
        scene.picture("those with a word", &sitting);
        sitting.keys("\r");
        sitting.wait_until(|screen| rows_with(screen, "--- history") == 0);
        scene.picture("one was chosen", &sitting);
    });
}

#[test]
fn the_line_knows_the_keys_of_vi() {
    at_usual_size("vi", |scene| {
        let server = says("I see.");
        let mut sitting = scene.chat(&server, &["--config", "chat.editing=vi"]);
        sitting.keys("hello big world");
        sitting.wait_for("> hello big world");
        sitting.keys(ESC);
        sitting.wait_until(|screen| screen.cursor().is_some_and(|(_, column)| column == 16));
        sitting.keys("bbcwsmall");
        sitting.wait_for("> hello small world");
        sitting.keys(ESC);
        sitting.wait_until(|screen| screen.cursor().is_some_and(|(_, column)| column == 12));
        scene.picture("a word was changed", &sitting);
        sitting.keys("dd");
        sitting.wait_until(|screen| rows_with(screen, "hello") == 0);
        sitting.keys("p");
        sitting.wait_until(|screen| rows_with(screen, "hello small world") == 1);
        scene.picture("a line was deleted and put back", &sitting);
        sitting.keys("\r");
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "I see.") == 1);
    });
}

#[test]
fn commands_and_files_are_completed() {
    at_every_size("completion", |scene| {
        for name in ["src/library.rs", "src/lines.rs", "target/lib.rs", ".gitignore", ".git/HEAD"] {
            scene.place.write(name, if name == ".gitignore" { "/target\n" } else { "" });
        }
        let server = says("I see.");
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("/re");
        // Others begin with the first letter, too.
        sitting.wait_until(|screen| {
            let has = |text| rows_with(screen, text) > 0;
            has("> /re") && has("  /rewind ") && !has("  /clear ")
        });
        scene.picture("commands", &sitting);
        sitting.keys("s\t");
        sitting.wait_for("> /resume");
        sitting.keys("\u{15}look at @src/li");
        sitting.wait_for("lines.rs");
        scene.picture("files", &sitting);
        sitting.keys("b\t");
        sitting.wait_for("> look at @src/library.rs");
        scene.picture("one was completed", &sitting);
    });
}

#[test]
fn an_editor_has_the_terminal_while_work_goes_on() {
    at_every_size("editor", |scene| {
        let place = &scene.place;
        let edit = "cat \"$1\"; echo; echo the editor has it; read line; echo and more >> \"$1\"\n";
        let editor = format!("sh {}", place.write("edit.sh", edit).display());
        let gate = Gate::closed();
        let held = gate.clone();
        let server = serve(move |talk| match talk.turn() {
            1 => Reaction::call_reply(&[("Glob", json!({ "pattern": "*.sh" }))]).behind(&held),
            _ => Reaction::text_reply("There is one."),
        });
        let mut sitting = sit(chat_of(place, &server, &[]).env("EDITOR", &editor), scene.size);
        sitting.keys("go\r");
        sitting.wait_for("main");
        sitting.keys("a draft");
        sitting.wait_for("> a draft");
        sitting.keys(CTRL_G);
        sitting.wait_for("the editor has it");
        gate.open();
        server.wait_until_came(2);
        scene.picture("the editor has the terminal", &sitting);
        sitting.keys("\r");
        sitting.wait_until(|screen| {
            rows_with(screen, "There is one.") == 1
                && rows_with(screen, "and more") == 1
                && footer(screen).ends_with("/help")
        });
        scene.picture("it was left", &sitting);
    });
}

#[test]
fn a_shell_line_has_the_terminal_and_stays_out_of_the_conversation() {
    at_every_size("shell", |scene| {
        let server = says("I see.");
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("!echo one; echo two; exit 3\r");
        sitting.wait_until(|screen| rows_with(screen, "exit status: 3") == 1);
        scene.picture("it has run", &sitting);
        sitting.keys("what was that?\r");
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "I see.") == 1);
        let body = String::from_utf8(server.finish().remove(0).body).unwrap();
        assert!(!body.contains("echo one"), "{body}");
    });
}

#[test]
fn a_name_that_nobody_knows_stays_in_the_line() {
    at_every_size("unknown", |scene| {
        let server = says("I see.");
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("/reviw the last commit\r");
        sitting.wait_until(|screen| footer(screen).contains("try /review"));
        scene.picture("it was refused", &sitting);
        assert_eq!(server.count(), 0);
    });
}

#[test]
fn a_line_breaks_where_it_is_told_to_and_where_the_window_ends() {
    at_every_size("lines", |scene| {
        let server = says("I see.");
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("first\u{1b}\rsecond\\\rthird, which is so long that it does not fit into one row of any window that anybody has here");
        sitting.wait_until(|screen| screen.text().contains("ere\n"));
        scene.picture("three lines", &sitting);
        sitting.keys(&[UP, UP].concat());
        sitting.keys("!");
        sitting.wait_for("> first!");
        scene.picture("the cursor went up", &sitting);
    });
}
