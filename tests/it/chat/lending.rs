//! Others that have the terminal for a while: editors, the shell, another
//! session that is being opened.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::{CTRL_D, CTRL_G, CTRL_Z, MIDDLE, chat, chat_of, footer, rests, rows_with, says, sit};
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
    sitting.wait_until(|screen| screen.shown().iter().any(|row| row == "begun"));
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
fn a_quit_is_for_the_program_that_has_the_terminal() {
    let (place, server) = (Place::new(), says("Hello."));
    let pipe = pipe(&place);
    let mut sitting = chat(&place, &server, (MIDDLE, &[]));
    sitting.keys(&format!("!ulimit -c 0; echo begun; read x < {}\r", pipe.display()));
    sitting.wait_until(|screen| screen.shown().iter().any(|row| row == "begun"));
    sitting.keys("\u{1c}");
    sitting.wait_until(|screen| rests(screen) && rows_with(screen, "it ended with signal: 3") == 1);
    sitting.keys(CTRL_D);
    assert_eq!(sitting.wait().0, Some(0));
}

#[test]
fn what_is_typed_while_a_program_has_the_terminal_stands_in_the_line_afterwards() {
    let (place, server) = (Place::new(), says("Hello."));
    let pipe = pipe(&place);
    let mut sitting = chat(&place, &server, (MIDDLE, &[]));
    sitting.keys(&format!("!echo begun; read x < {}\r", pipe.display()));
    sitting.wait_until(|screen| screen.shown().iter().any(|row| row == "begun"));
    sitting.keys("!touch typed\rthree\r\u{4}");
    // The terminal has it, and shows it.
    sitting.wait_for("three");
    fs::write(&pipe, "\n").unwrap();
    sitting.wait_until(|screen| {
        rows_with(screen, "> !touch typed") == 1 && footer(screen).contains("/help")
    });
    assert_eq!((server.count(), place.read("typed")), (0, None));
    sitting.signal(Signal::SIGTERM);
    assert_eq!(sitting.wait().0, Some(143));
}

#[test]
fn a_program_that_leaves_the_terminal_in_disorder_harms_nobody() {
    let (place, server) = (Place::new(), says("Hello."));
    let mut sitting = chat(&place, &server, (MIDDLE, &[]));
    sitting.keys("!stty -echo raw; echo done\r");
    sitting.wait_until(|screen| {
        rests(screen) && screen.shown().iter().any(|row| row.trim() == "done")
    });
    sitting.keys(CTRL_D);
    assert_eq!(sitting.wait().0, Some(0));
    assert_eq!(sitting.settings(), sitting.before);
}

#[test]
fn one_stop_takes_one_word_to_go_on() {
    // A shell with jobs, as people have one.
    const SHELL: &str = "set -m; \"$0\" \"$@\"; echo stopped 1; fg >/dev/null; \
        echo stopped 2; fg >/dev/null; echo stopped 3; fg >/dev/null; echo left";
    let (place, server) = (Place::new(), says("Hello."));
    let tine = chat_of(&place, &server, &[]).by("bash", ["-c", SHELL]);
    let mut sitting = sit(tine, MIDDLE);
    for time in 1..=3 {
        sitting.keys(CTRL_Z);
        let stopped = format!("stopped {time}");
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, &stopped) == 1);
        sitting.keys(&format!("{time}\r"));
        sitting
            .wait_until(|screen| rests(screen) && screen.text().matches("Hello.").count() == time);
        assert_eq!(sitting.screen.text().matches("stopped").count(), time);
    }
    sitting.keys(CTRL_D);
    assert_eq!(sitting.wait().0, Some(0));
    let text = sitting.screen.text();
    let left = text.find("left").expect("the shell had the last word");
    assert!(text.find("goes on with it").is_some_and(|farewell| farewell < left), "{text}");
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
