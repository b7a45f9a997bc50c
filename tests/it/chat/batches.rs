//! Batches: a row for each agent, and what keys do to one of them, to all, and
//! to the turn.

use serde_json::json;

use super::{
    CTRL_B, CTRL_C, CTRL_D, ESC, MIDDLE, Scene, at_every_size, batch, chat, footer, open_gate,
    rests, rows_with,
};
use crate::support::screen::Screen;
use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::{Talk, serve};
use crate::support::terminal::Sitting;
use crate::support::tine::Place;

const EIGHT: [&str; 8] =
    ["logic", "security", "tests", "speed", "clarity", "docs", "style", "naming"];

/// Main starts a batch and says `done` once it is over; `react` is what its
/// agents get.
fn serve_batch(
    names: &[&str],
    react: impl Fn(&Talk) -> Reaction + Send + Sync + 'static,
) -> Server {
    let calling = Reaction::call_reply(&batch(names));
    serve(move |talk| match (talk.task(), talk.turn()) {
        ("go", 1) => calling.clone(),
        ("go", _) => Reaction::text_reply("All is done."),
        _ => react(talk),
    })
}

/// An agent that looks for files and stops in the middle of its answer.
fn works(talk: &Talk, gate: &Gate) -> Reaction {
    match talk.turn() {
        1 => Reaction::call_reply(&[("Glob", json!({ "pattern": "*.rs" }))]),
        _ => Reaction::in_steps([("I found ", &open_gate()), ("nothing.", gate)]),
    }
}

/// Starts a chat whose batch works as far as it can.
fn at_work(scene: &Scene, server: &Server, (flags, writing): (&[&str], usize)) -> Sitting {
    let mut sitting = scene.chat(server, flags);
    sitting.keys("go\r");
    sitting.wait_until(|screen| writing_rows(screen) == writing.min(room(scene)));
    sitting
}

/// How many agents there are rows for.
fn room(scene: &Scene) -> usize {
    if scene.size.rows < 20 { 9 } else { 20 }
}

fn writing_rows(screen: &Screen) -> usize {
    rows_with(screen, "writing")
}

#[test]
fn eight_agents_have_a_row_each_and_two_of_them_wait() {
    at_every_size("eight", |scene| {
        let gate = Gate::closed();
        let held = gate.clone();
        let server = serve_batch(&EIGHT, move |talk| works(talk, &held));
        let flags = ["--config", "agents.max_concurrent=6"];
        let mut sitting = at_work(scene, &server, (&flags, 6));
        scene.picture("six work and two wait", &sitting);
        gate.open();
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "All is done.") == 1);
        scene.picture("all have ended", &sitting);
    });
}

#[test]
fn an_agent_is_picked_and_followed_while_others_go_on() {
    at_every_size("follow", |scene| {
        let gate = Gate::closed();
        let held = gate.clone();
        let server = serve_batch(&EIGHT[..3], move |talk| match talk.task() {
            "security" => match talk.turn() {
                1 => Reaction::call_reply(&[("Glob", json!({ "pattern": "*.rs" }))]),
                _ => Reaction::in_steps([
                    (
                        "I have looked.\n\n# Findings\n\nThe total is summed in `f32`; amo",
                        &open_gate(),
                    ),
                    ("unts lose cents.", &held),
                ]),
            },
            _ => works(talk, &held),
        });
        let mut sitting = at_work(scene, &server, (&[], 3));
        sitting.keys("2");
        sitting.wait_until(|screen| footer(screen).contains("Enter follows"));
        scene.picture("one is picked", &sitting);
        sitting.keys("\r");
        sitting.wait_until(|screen| rows_with(screen, "--- 2 security") == 1);
        scene.picture("it is followed", &sitting);
        sitting.keys("and a message");
        sitting.wait_for("and a message");
        scene.picture("something is typed meanwhile", &sitting);
        sitting.keys("\u{15}");
        sitting.wait_until(|screen| rows_with(screen, "and a message") == 0);
        gate.open();
        sitting.wait_until(|screen| rows_with(screen, "120 tokens") == 1);
        scene.picture("it has ended", &sitting);
        sitting.keys(ESC);
        sitting.wait_until(rests);
    });
}

#[test]
fn one_agent_is_stopped_alone_and_run_again() {
    at_every_size("stop", |scene| {
        let gates = [Gate::closed(), Gate::closed()];
        let held = gates.clone();
        let server = serve_batch(&EIGHT[..3], move |talk| match talk.task() {
            "security" => works(talk, &held[0]),
            _ => works(talk, &held[1]),
        });
        let mut sitting = at_work(scene, &server, (&[], 3));
        sitting.keys("2x");
        sitting.wait_until(|screen| writing_rows(screen) == 2);
        sitting.wait_until(|screen| rows_with(screen, "cancelled") >= 1);
        scene.picture("one is stopped", &sitting);
        sitting.keys("r");
        sitting.wait_until(|screen| writing_rows(screen) == 3);
        scene.picture("it is run again", &sitting);
        gates.iter().for_each(Gate::open);
        sitting.wait_until(|screen| rows_with(screen, "All is done.") == 1);
        sitting.wait_until(|screen| footer(screen).contains("/help"));
        scene.picture("all have ended", &sitting);
    });
}

#[test]
fn esc_ends_the_turn_and_a_fork_in_the_background_lives_on() {
    at_every_size("background", |scene| {
        let gates = [Gate::closed(), Gate::closed()];
        let held = gates.clone();
        let fork = json!({ "description": "history", "prompt": "look at the history",
            "run_in_background": true });
        let server = serve(move |talk| match (talk.directive(), talk.turn()) {
            (Some(_), _) => Reaction::in_steps([("It is ", &open_gate()), ("old.", &held[0])]),
            (None, 1) => Reaction::call_reply(&[("Agent", fork.clone())]),
            (None, _) if talk.last_prompt().contains("It is old.") => {
                Reaction::text_reply("The history is old.")
            }
            (None, _) => Reaction::in_steps([("It is at wo", &open_gate()), ("rk.", &held[1])]),
        });
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("go\r");
        sitting.wait_until(|screen| rows_with(screen, "It is at wo") == 1);
        sitting.wait_until(|screen| writing_rows(screen) == 1);
        scene.picture("a fork works beside main", &sitting);
        sitting.keys(ESC);
        sitting.wait_until(|screen| footer(screen).contains("in the background"));
        scene.picture("the turn was ended", &sitting);
        gates[0].open();
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "The history is old.") == 1);
        let text = sitting.screen.text();
        assert!(
            text.contains("\n> (news of agents in the background)\n  history  done in "),
            "{text}"
        );
    });
}

#[test]
fn a_fork_that_is_typed_is_told_to_people() {
    let place = Place::new();
    let server = serve(|talk| match talk.directive() {
        Some(_) => Reaction::text_reply("It is old."),
        None => Reaction::text_reply("Hello."),
    });
    let mut sitting = chat(&place, &server, (MIDDLE, &[]));
    sitting.keys("hi\r");
    sitting.wait_until(|screen| rests(screen) && rows_with(screen, "Hello.") == 1);
    sitting.keys("/fork look at the history\r");
    sitting.wait_until(|screen| rests(screen) && rows_with(screen, "done in ") == 1);
    let text = sitting.screen.text();
    assert!(text.contains("\nagent-1 runs in the background\n"), "{text}");
    assert!(!text.contains("TaskWait"), "{text}");
    sitting.keys(CTRL_D);
    assert_eq!(sitting.wait().0, Some(0));
}

#[test]
fn what_main_has_asked_for_is_no_news() {
    let (place, fork) = (
        Place::new(),
        json!({ "description": "history",
        "prompt": "look at the history", "run_in_background": true }),
    );
    let server = serve(move |talk| match (talk.directive(), talk.turn()) {
        (Some(_), _) => Reaction::text_reply("It is old."),
        (None, 1) => Reaction::call_reply(&[("Agent", fork.clone())]),
        (None, 2) => Reaction::call_reply(&[("TaskOutput", json!({ "task_id": "agent-1" }))]),
        (None, turn) => Reaction::text_reply(&format!("This is turn {turn}.")),
    });
    let mut sitting = chat(&place, &server, (MIDDLE, &[]));
    for (prompt, answer) in [("go", "This is turn 3."), ("on", "This is turn 4.")] {
        sitting.keys(&format!("{prompt}\r"));
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, answer) == 1);
    }
    sitting.keys(CTRL_D);
    assert_eq!(sitting.wait().0, Some(0));
    let log = place.log();
    let begun = log.iter().filter(|line| line["kind"] == "invocation_started").count();
    assert_eq!(begun, 2);
}

#[test]
fn a_batch_that_is_set_aside_goes_on_and_comes_back_as_news() {
    at_every_size("aside", |scene| {
        let gates = [Gate::closed(), Gate::closed()];
        let held = gates.clone();
        let calling = Reaction::call_reply(&batch(&EIGHT[..2]));
        let server = serve(move |talk| match (talk.task(), talk.turn()) {
            ("go", 1) => calling.clone(),
            ("go", 2) => Reaction::text_reply("They go on beside us."),
            ("go", 3) => Reaction::text_reply("One has found nothing."),
            ("go", _) => Reaction::text_reply("Nor has the other."),
            ("logic", _) => works(talk, &held[0]),
            (_, _) => works(talk, &held[1]),
        });
        let mut sitting = at_work(scene, &server, (&[], 2));
        sitting.keys(CTRL_B);
        sitting.wait_until(|screen| {
            footer(screen).contains("in the background")
                && rows_with(screen, "They go on beside us.") == 1
        });
        scene.picture("they are set aside", &sitting);
        sitting.keys("a draft");
        sitting.wait_for("> a draft");
        gates[0].open();
        sitting.wait_until(|screen| footer(screen).contains("come with your message"));
        scene.picture("news wait for a draft", &sitting);
        sitting.keys("\u{15}");
        sitting.wait_until(|screen| {
            rows_with(screen, "One has found nothing.") == 1
                && footer(screen).contains("in the background")
        });
        scene.picture("news of one", &sitting);
        gates[1].open();
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "Nor has the other.") == 1);
        scene.picture("news of the other", &sitting);
    });
}

#[test]
fn two_interrupts_end_all_and_leave_the_terminal_as_it_was() {
    at_every_size("interrupts", |scene| {
        let gate = Gate::closed();
        let server = serve_batch(&EIGHT[..2], move |talk| works(talk, &gate));
        let mut sitting = at_work(scene, &server, (&[], 2));
        sitting.keys(&[CTRL_C, CTRL_C].concat());
        assert_eq!(sitting.wait().0, Some(130));
        scene.picture("it is over", &sitting);
    });
}
