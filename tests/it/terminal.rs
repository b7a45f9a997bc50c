//! The live region on a pseudo-terminal: a line for each slot, the rest
//! counted, and nothing of it left at the end.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::screen::Screen;
use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::serve_calls;
use crate::support::terminal::{Sitting, StandardOutput};
use crate::support::tine::Place;

/// Four slots; each looks for files, and its answer waits for the gate.
fn four_slots(gate: &Gate) -> Server {
    let task =
        |name: &str| json!({ "description": name, "prompt": name, "subagent_type": "explore" });
    let tasks: Vec<Value> = ["north", "east", "south", "west"].map(task).into();
    let gate = gate.clone();
    serve_calls(&[("Agent", json!({ "tasks": tasks }))], move |talk| match talk.turn() {
        1 => Reaction::call_reply(&[("Glob", json!({ "pattern": "*.rs" }))]),
        _ => Reaction::text_reply("Nothing there.").behind(&gate),
    })
}

fn start(
    place: &Place,
    server: &Server,
    stdout: StandardOutput,
    variables: &[(&str, &str)],
) -> Sitting {
    let mut tine = place.asking(server, &["--config", "agents.max_concurrent=2"]);
    for (name, value) in variables {
        tine = tine.env(name, value);
    }
    Sitting::watch(tine, stdout)
}

/// Two slots work and two wait.
fn shows_the_batch(screen: &Screen) -> bool {
    let is_at_work = |name| {
        screen.row(name).is_some_and(|row| row.contains("running") && row.contains("Glob *.rs"))
    };
    is_at_work("north") && is_at_work("east") && screen.row("2 running, 2 queued").is_some()
}

#[test]
fn each_slot_at_work_has_a_line_and_the_queued_ones_are_counted() {
    let (place, gate) = (Place::new(), Gate::closed());
    let server = four_slots(&gate);
    let mut terminal = start(&place, &server, StandardOutput::Pipe, &[]);
    terminal.wait_until(shows_the_batch);
    let screen = &terminal.screen;
    assert_eq!((screen.row("south"), screen.row("west")), (None, None), "{}", screen.text());
    assert!(screen.row("north").unwrap().contains("15 tok"), "{}", screen.text());
    gate.open();
    let (code, stdout) = terminal.wait();
    assert_eq!((code, stdout.as_str()), (Some(0), "done\n"));
}

#[test]
fn the_region_is_gone_at_the_end_and_what_stays_is_the_talk_and_the_answer() {
    let (place, gate) = (Place::new(), Gate::closed());
    let server = four_slots(&gate);
    let mut terminal = start(&place, &server, StandardOutput::Terminal, &[]);
    terminal.wait_until(shows_the_batch);
    gate.open();
    assert_eq!(terminal.wait(), (Some(0), String::new()));
    let text = terminal.screen.text();
    let lines: Vec<_> = text.lines().collect();
    let [call, queued, ends @ .., answer, tokens] = &lines[..] else { panic!("{text}") };
    assert_eq!([*call, *queued, *answer], ["Agent 4 tasks", "4 agents queued", "done"]);
    assert_eq!(*tokens, "150 tokens");
    assert_eq!(ends.len(), 4, "{text}");
    for name in ["north", "east", "south", "west"] {
        let start = format!("[{name}] done in ");
        assert!(ends.iter().any(|line| line.starts_with(&start)), "{text}");
    }
}

#[test]
fn colours_are_left_out_if_the_user_wants_none() {
    for (variables, has_colours) in [(&[][..], true), (&[("NO_COLOR", "1")], false)] {
        let (place, gate) = (Place::new(), Gate::closed());
        gate.open();
        let server = four_slots(&gate);
        let mut terminal = start(&place, &server, StandardOutput::Pipe, variables);
        assert_eq!(terminal.wait().0, Some(0));
        let raw = String::from_utf8_lossy(&terminal.raw);
        assert_eq!(raw.contains("\u{1b}[36m"), has_colours, "{raw:?}");
    }
}

#[test]
fn there_is_no_region_where_nobody_watches_it() {
    for variable in [("CI", "true"), ("TERM", "dumb")] {
        let (place, gate) = (Place::new(), Gate::closed());
        gate.open();
        let server = four_slots(&gate);
        let mut terminal = start(&place, &server, StandardOutput::Pipe, &[variable]);
        assert_eq!(terminal.wait().0, Some(0));
        assert!(!terminal.raw.contains(&0x1b), "{:?}", terminal.screen.text());
        assert!(terminal.screen.row("[north] started (explore)").is_some());
    }
}

#[test]
fn an_interrupt_clears_the_region_and_says_so() {
    let (place, gate) = (Place::new(), Gate::closed());
    let server = four_slots(&gate);
    let mut terminal = start(&place, &server, StandardOutput::Terminal, &[]);
    terminal.wait_until(shows_the_batch);
    let id = i32::try_from(terminal.id()).unwrap();
    kill(Pid::from_raw(id), Signal::SIGINT).unwrap();
    assert_eq!(terminal.wait().0, Some(130));
    let text = terminal.screen.text();
    assert!(text.ends_with("\nerror: interrupted"), "{text}");
    assert!(!text.contains("running"), "{text}");
}

#[test]
fn an_answer_cannot_steer_the_terminal() {
    let place = Place::new();
    let script =
        json!({ "units": { "main": [{ "text": "red \u{1b}[31malert\u{7}\u{1b}]0;title\u{7}" }] } });
    let model = place.script("script.json", &script);
    let tine = place.tine(["-p", "go", "-m", &model]);
    let mut terminal = Sitting::watch(tine, StandardOutput::Terminal);
    assert_eq!(terminal.wait().0, Some(0));
    let raw = String::from_utf8_lossy(&terminal.raw);
    assert!(!raw.contains("\u{1b}[31m") && !raw.contains('\u{7}'), "{raw:?}");
    assert!(terminal.screen.text().contains("alert"), "{raw:?}");
}
