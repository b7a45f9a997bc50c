//! Ends of every sort: the terminal is as it was, and the session can be gone
//! on with.

use nix::sys::signal::Signal;

use super::{
    CTRL_C, CTRL_D, MIDDLE, at_every_size, batch, chat, chat_of, footer, open_gate, rests,
    rows_with, says,
};
use crate::support::server::{Gate, Reaction};
use crate::support::talk::{Talk, serve};
use crate::support::terminal::Sitting;
use crate::support::tine::Place;

/// What the last prompt ends with, behind the facts of the moment.
fn last_word(talk: &Talk) -> &str {
    talk.last_prompt().split_whitespace().last().unwrap_or_default()
}

/// Ends a chat, and a second one in the middle of an answer.
#[track_caller]
fn check(code: i32, end: impl Fn(&mut Sitting)) {
    for is_busy in [false, true] {
        let (place, gate) = (Place::new(), Gate::closed());
        let server = serve(move |talk| match last_word(talk) {
            "two" => Reaction::in_steps([("Sec", &open_gate()), ("ond.", &gate)]),
            "on" => Reaction::text_reply("It goes on."),
            _ => Reaction::text_reply("First."),
        });
        let mut sitting = chat(&place, &server, (MIDDLE, &[]));
        assert_ne!(sitting.settings(), sitting.before, "it is raw");
        sitting.keys("one\r");
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "First.") == 1);
        if is_busy {
            sitting.keys("two\r");
            sitting.wait_until(|screen| rows_with(screen, "Sec") == 1);
        }
        end(&mut sitting);
        assert_eq!(sitting.wait().0, Some(code), "{}", sitting.screen.text());
        if sitting.has_terminal() {
            is_as_it_was(&sitting);
        }
        let asked = place.tine(["-c", "-p", "go on", "-m", "m"]).server(&server).run().exits(0);
        assert_eq!(asked.stdout, "It goes on.\n");
        let requests = server.finish();
        let last = requests.last().expect("there were three at least");
        let last = String::from_utf8_lossy(&last.body);
        assert!(last.contains("First."), "{last}");
    }
}

#[track_caller]
fn is_as_it_was(sitting: &Sitting) {
    assert_eq!(sitting.settings(), sitting.before);
    let screen = &sitting.screen;
    assert!(!screen.marks_pastes() && screen.cursor().is_some_and(|(_, column)| column == 0));
    assert_eq!(screen.calls(), ("", &[][..], 0), "the title is nobody's");
    let text = screen.text();
    assert!(text.ends_with("`tine -c` goes on with it"), "{text}");
    assert!(!text.contains("/help\n"), "nothing is left of the region:\n{text}");
}

#[test]
fn ctrl_d_leaves_and_while_work_goes_on_it_is_said_twice() {
    check(0, |sitting| {
        sitting.keys(CTRL_D);
        if rows_with(&sitting.screen, "Sec") == 1 {
            sitting.wait_until(|screen| footer(screen).contains("Ctrl-D again"));
            sitting.keys(CTRL_D);
        }
    });
}

#[test]
fn the_command_leaves() {
    check(0, |sitting| sitting.keys("/quit\r"));
}

#[test]
fn a_termination_leaves() {
    check(143, |sitting| sitting.signal(Signal::SIGTERM));
}

#[test]
fn an_interrupt_from_outside_ends_the_turn_and_two_keys_leave() {
    check(130, |sitting| {
        sitting.signal(Signal::SIGINT);
        if rows_with(&sitting.screen, "Sec") == 1 {
            sitting.wait_until(rests);
        }
        sitting.keys(&[CTRL_C, CTRL_C].concat());
    });
}

#[test]
fn a_window_that_is_closed_leaves() {
    check(129, Sitting::hang_up);
}

#[test]
fn a_screen_that_takes_nothing_is_a_window_that_is_closed() {
    // No signal says so, and nothing is drawn that could not be.
    for is_busy in [false, true] {
        let (place, gate) = (Place::new(), Gate::closed());
        let server = serve(move |_| Reaction::in_steps([("Sec", &open_gate()), ("ond.", &gate)]));
        let mut sitting = Sitting::apart(chat_of(&place, &server, &[]), MIDDLE);
        sitting.wait_until(|screen| footer(screen).contains("/help"));
        if is_busy {
            sitting.keys("two\r");
            sitting.wait_until(|screen| rows_with(screen, "Sec") == 1);
        }
        assert_eq!(sitting.wait_unread(), Some(129), "{}", sitting.screen.text());
        assert_eq!(sitting.settings(), sitting.before);
    }
}

#[test]
fn leaving_with_agents_in_the_background_is_said_twice() {
    at_every_size("leaving", |scene| {
        let gate = Gate::closed();
        let calling = Reaction::call_reply(&batch(&["north", "south"]));
        let server = serve(move |talk| match (talk.task(), talk.turn()) {
            ("go", 1) => calling.clone(),
            ("go", _) => Reaction::text_reply("They go on."),
            _ => Reaction::in_steps([("I lo", &open_gate()), ("ok.", &gate)]),
        });
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("go\r");
        sitting.wait_until(|screen| rows_with(screen, "writing") == 2);
        sitting.keys(super::CTRL_B);
        sitting.wait_until(|screen| footer(screen).contains("in the background"));
        sitting.keys(CTRL_D);
        sitting.wait_until(|screen| footer(screen).contains("in the background: Ctrl-D"));
        scene.picture("it asks", &sitting);
        sitting.keys(CTRL_D);
        assert_eq!(sitting.wait().0, Some(0));
        scene.picture("it was left", &sitting);
    });
}

#[test]
fn a_session_in_which_nothing_was_said_leaves_nothing_behind() {
    let (place, server) = (Place::new(), says("Hello."));
    let mut sitting = chat(&place, &server, (MIDDLE, &[]));
    sitting.keys(CTRL_D);
    assert_eq!(sitting.wait().0, Some(0));
    assert_eq!(place.sessions(), [""; 0].map(std::path::PathBuf::from));
    assert!(!sitting.screen.text().contains("tine -c` goes on"), "{}", sitting.screen.text());
}
