//! Others that have the terminal for a while: editors, the shell, another
//! session that is being opened.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::{CTRL_D, CTRL_G, MIDDLE, chat, chat_of, rests, rows_with, says, sit};
use crate::support::tine::Place;

/// A pipe that keeps whoever reads it until somebody writes.
fn pipe(place: &Place) -> PathBuf {
    let pipe = place.root().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).expect("there is none of that name");
    pipe
}

#[test]
fn two_sessions_that_are_asked_for_at_once_leave_the_terminal_as_it_was() {
    let (place, server) = (Place::new(), says("Hello."));
    let mut sitting = chat(&place, &server, (MIDDLE, &[]));
    sitting.keys("/clear\r/clear\r");
    sitting.wait_until(|screen| rests(screen) && rows_with(screen, "lists keys") >= 2);
    sitting.keys(CTRL_D);
    assert_eq!(sitting.wait().0, Some(0));
    assert_eq!(sitting.settings(), sitting.before);
    assert_eq!(place.sessions(), [""; 0].map(PathBuf::from), "nobody said anything in them");
}

#[test]
fn one_editor_has_the_terminal_at_a_time() {
    let (place, server) = (Place::new(), says("Hello."));
    let pipe = pipe(&place);
    let editor = format!("sh -c 'echo opened; read x < {}; echo closed' --", pipe.display());
    let mut sitting = sit(chat_of(&place, &server, &[]).env("EDITOR", &editor), MIDDLE);
    sitting.keys(&[CTRL_G, CTRL_G].concat());
    for count in 1..=2 {
        sitting.wait_until(|screen| rows_with(screen, "opened") == count);
        fs::write(&pipe, "\n").unwrap();
        sitting.wait_until(|screen| rows_with(screen, "closed") == count);
    }
    sitting.wait_until(|screen| rests(screen) && rows_with(screen, "closed") == 2);
    let said = ["opened", "closed"];
    let text = sitting.screen.text();
    let order: Vec<_> = text.lines().map(str::trim).filter(|row| said.contains(row)).collect();
    assert_eq!(order, ["opened", "closed", "opened", "closed"]);
}

#[test]
fn a_termination_ends_what_has_the_terminal_too() {
    let (place, server) = (Place::new(), says("Hello."));
    let pipe = pipe(&place);
    let mut sitting = chat(&place, &server, (MIDDLE, &[]));
    sitting.keys(&format!("!echo begun; read x < {}\r", pipe.display()));
    sitting.wait_for("begun");
    sitting.signal(Signal::SIGTERM);
    assert_eq!(sitting.wait().0, Some(143), "{}", sitting.screen.text());
    assert_eq!(sitting.settings(), sitting.before);
}

#[test]
fn an_interrupt_is_for_the_program_that_has_the_terminal() {
    let (place, server) = (Place::new(), says("Hello."));
    let pipe = pipe(&place);
    let mut sitting = chat(&place, &server, (MIDDLE, &[]));
    sitting.keys(&format!("!echo begun; read x < {}\r", pipe.display()));
    sitting.wait_until(|screen| screen.shown().iter().any(|row| row == "begun"));
    sitting.keys(super::CTRL_C);
    sitting.wait_until(|screen| rests(screen) && rows_with(screen, "it ended with") == 1);
    sitting.keys("hello\r");
    sitting.wait_until(|screen| rests(screen) && rows_with(screen, "Hello.") == 1);
    sitting.keys(CTRL_D);
    assert_eq!(sitting.wait().0, Some(0));
}

#[test]
fn what_is_typed_while_another_session_is_opened_is_for_that_one() {
    let (place, server) = (Place::new(), says("Hello."));
    let mut sitting = chat(&place, &server, (MIDDLE, &[]));
    sitting.keys("/clear\rhello there\r");
    sitting.wait_until(|screen| rests(screen) && rows_with(screen, "Hello.") == 1);
    sitting.keys(CTRL_D);
    assert_eq!(sitting.wait().0, Some(0));
    assert_eq!((place.sessions().len(), server.finish().len()), (1, 1));
}

#[test]
fn a_termination_ends_a_chat_whose_terminal_takes_nothing_any_more() {
    let (place, server) = (Place::new(), says("Hello."));
    let mut sitting = chat(&place, &server, (MIDDLE, &[]));
    sitting.leave_unread();
    // What that shows is more than a terminal holds.
    sitting.keys(&"/help\r".repeat(60));
    sitting.signal(Signal::SIGTERM);
    assert_eq!(sitting.wait_unread(), Some(143));
}
