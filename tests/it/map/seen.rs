//! What people see of a map on a terminal.

use serde_json::json;

use crate::support::server::{Gate, Reaction};
use crate::support::talk::serve;
use crate::support::terminal::{Sitting, StandardOutput};

use super::{KEPT, SESSION, echo, map, parse, row, rows};

#[test]
fn a_line_says_how_far_how_fast_and_how_long_until_it_is_over() {
    let (place, gate) = (rows(6), Gate::closed());
    let held = gate.clone();
    let server = serve(move |talk| match row(talk) {
        "r0" => Reaction::text_reply("saw r0"),
        "r1" => Reaction::json(400, &json!({ "error": { "message": "no" } })),
        path => Reaction::text_reply(path).behind(&held),
    });
    let mut terminal = Sitting::watch(map(&place, &server, &KEPT), StandardOutput::Pipe);
    terminal.wait_for(&format!("6 rows, session {SESSION}"));
    terminal.wait_until(|screen| {
        let is_it = |row: String| {
            let words = ["1 failed, 4 running · ", " rows a ", " to go"];
            words.iter().all(|word| row.contains(word))
        };
        screen.row("2 of 6 rows").is_some_and(is_it)
    });
    gate.open();
    assert_eq!(terminal.wait(), (Some(1), String::new()));
    let text = terminal.screen.text();
    let lines: Vec<&str> = text.lines().collect();
    let [begun, summary, _, reason, hint, retry @ ..] = &lines[..] else { panic!("{text}") };
    assert_eq!(*begun, format!("6 rows, session {SESSION}"));
    assert!(summary.starts_with("6 rows: 5 completed, 1 failed in "), "{text}");
    assert!(reason.starts_with("1 row failed: request: ") && reason.contains("no"), "{text}");
    assert!(hint.starts_with("hint: the same command with `--resume "), "{text}");
    assert!(retry.len() <= 1, "nothing is left of the line: {text}");
    assert_eq!(parse(&place.read("out.jsonl").expect("it was written")).len(), 6);
}

#[test]
fn lines_on_the_same_terminal_stand_above_the_line_that_is_rewritten() {
    let place = rows(3);
    let server = echo();
    let map = map(&place, &server, &["--max-concurrent", "1"]);
    let mut terminal = Sitting::watch(map, StandardOutput::Terminal);
    assert_eq!(terminal.wait().0, Some(0));
    let text = terminal.screen.text();
    let begins = |line: &&str| line.starts_with("{\"id\":\"");
    assert_eq!(text.lines().filter(begins).count(), 3, "{text}");
    assert!(text.lines().any(|line| line.starts_with("3 rows: 3 ")), "{text}");
}

#[test]
fn an_interrupt_from_the_keyboard_leaves_a_line_for_each_row_and_says_how_to_go_on() {
    let place = rows(6);
    let server = serve(|talk| match row(talk) {
        "r0" => Reaction::text_reply("saw r0"),
        _ => Reaction::Hang,
    });
    let mut terminal = Sitting::answer(map(&place, &server, &KEPT), StandardOutput::Pipe);
    terminal.wait_for("1 of 6 rows, 4 running");
    terminal.keys("\u{3}");
    assert_eq!(terminal.wait().0, Some(130));
    let text = terminal.screen.text();
    assert!(text.contains("\n6 rows: 1 completed, 5 not done"), "{text}");
    assert!(text.contains(&format!("hint: the same command with `--resume {SESSION}`")), "{text}");
    let lines = parse(&place.read("out.jsonl").expect("it was written"));
    let status: Vec<&str> = lines.iter().filter_map(|line| line["status"].as_str()).collect();
    let cancelled = ["cancelled"; 4];
    assert_eq!(status, [&["completed"], &cancelled[..], &["skipped"]].concat());
}
