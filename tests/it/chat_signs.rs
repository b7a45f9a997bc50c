//! What a chat tells its terminal besides text: the bell, notifications, the
//! window's title, and as many colours as it knows.

use std::collections::BTreeSet;

use serde_json::json;

use crate::support::screen::{Screen, Size};
use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::serve;
use crate::support::terminal::Sitting;
use crate::support::tine::Place;

const SIZE: Size = Size { columns: 100, rows: 24 };

/// Main writes a file, for which it has to ask, once the gate is open; then it
/// is done.
fn asking(gate: &Gate) -> Server {
    let gate = gate.clone();
    serve(move |talk| match talk.turn() {
        1 => {
            let new = json!({ "file_path": "new.txt", "content": "new\n" });
            Reaction::call_reply(&[("Write", new)]).behind(&gate)
        }
        _ => Reaction::text_reply("All done."),
    })
}

fn sit(place: &Place, server: &Server, settings: &[&str]) -> Sitting {
    let settings = settings.iter().flat_map(|setting| ["--config", setting]);
    let tine = place.tine(["-m", "m"].into_iter().chain(settings)).server(server);
    Sitting::start(tine, SIZE)
}

/// Tells whether the last row says that main rests.
fn rests(screen: &Screen) -> bool {
    screen.text().ends_with("/help")
}

/// Goes through a turn with a question in it; returns what was notified, and how
/// often the bell rang.
fn called(settings: &[&str]) -> (Vec<String>, usize) {
    let (place, gate) = (Place::new(), Gate::closed());
    gate.open();
    let server = asking(&gate);
    let mut sitting = sit(&place, &server, settings);
    sitting.wait_until(rests);
    sitting.keys("write it\r");
    sitting.wait_for("y once");
    sitting.keys("y");
    sitting.wait_for("All done.");
    sitting.wait_until(rests);
    sitting.keys("\u{4}");
    assert_eq!(sitting.wait().0, Some(0), "{}", sitting.screen.text());
    let (_, notices, bells) = sitting.screen.calls();
    (notices.to_vec(), bells)
}

#[test]
fn nothing_calls_unless_it_was_asked_for() {
    assert_eq!(called(&["chat.bell_after_s=0"]), (vec![], 0));
}

#[test]
fn a_question_and_the_end_of_a_long_turn_ring() {
    assert_eq!(called(&["chat.bell=bell", "chat.bell_after_s=0"]), (vec![], 2));
}

#[test]
fn the_end_of_a_short_turn_does_not_ring() {
    assert_eq!(called(&["chat.bell=bell", "chat.bell_after_s=3600"]), (vec![], 1));
}

#[test]
fn a_desktop_is_told_who_asks_and_what_is_over() {
    let notices = ["tine: main asks", "tine: the turn is over"].map(str::to_owned).into();
    assert_eq!(called(&["chat.bell=osc9", "chat.bell_after_s=0"]), (notices, 0));
}

#[test]
fn the_title_says_where_and_what_goes_on_and_is_gone_at_the_end() {
    let (place, gate) = (Place::new(), Gate::closed());
    let server = asking(&gate);
    let title = |sign: &str| format!("tine: {}{sign}", place.work().display());
    let mut sitting = sit(&place, &server, &[]);
    sitting.wait_until(|screen| screen.calls().0 == title(""));
    sitting.keys("write it\r");
    sitting.wait_until(|screen| screen.calls().0 == title(" *"));
    gate.open();
    sitting.wait_until(|screen| screen.calls().0 == title(" ?"));
    sitting.wait_for("y once");
    sitting.keys("y");
    sitting.wait_until(|screen| rests(screen) && screen.calls().0 == title(""));
    sitting.keys("\u{4}");
    assert_eq!(sitting.wait().0, Some(0), "{}", sitting.screen.text());
    assert_eq!(sitting.screen.calls(), ("", &[][..], 0));
}

#[test]
fn a_title_that_is_not_wanted_is_never_set() {
    let place = Place::new();
    let server = asking(&Gate::closed());
    let mut sitting = sit(&place, &server, &["chat.title=false"]);
    sitting.wait_until(rests);
    sitting.keys("\u{4}");
    assert_eq!(sitting.wait().0, Some(0), "{}", sitting.screen.text());
    let raw = String::from_utf8_lossy(&sitting.raw);
    assert!(!raw.contains("\u{1b}]"), "{raw:?}");
}

/// Returns the sorts of attributes that a chat wrote which knows these variables.
fn attributes(variables: &[(&str, &str)]) -> BTreeSet<&'static str> {
    let place = Place::new();
    let answer = "# Title\n\nText with `code` and **weight**.\n\n```rust\nfn main() {}\n```\n";
    let server = serve(move |_| Reaction::text_reply(answer));
    let mut tine = place.tine(["-m", "m"]).server(&server);
    for (name, value) in variables {
        tine = tine.env(name, value);
    }
    let mut sitting = Sitting::start(tine, SIZE);
    sitting.wait_until(rests);
    sitting.keys("look\r");
    sitting.wait_until(|screen| screen.text().contains("fn main() {}") && rests(screen));
    sitting.keys("\u{4}");
    assert_eq!(sitting.wait().0, Some(0), "{}", sitting.screen.text());
    let raw = String::from_utf8_lossy(&sitting.raw).into_owned();
    let sequences = raw.split("\u{1b}[").skip(1).filter_map(|rest| {
        let (numbers, _) = rest.split_at(rest.find(|c: char| c.is_ascii_alphabetic())?);
        rest[numbers.len()..].starts_with('m').then(|| numbers.to_owned())
    });
    let sequences: Vec<String> = sequences.collect();
    sequences.iter().flat_map(|numbers| sorts(numbers)).collect()
}

/// Returns what a sequence asks for.
fn sorts(numbers: &str) -> Vec<&'static str> {
    let numbers: Vec<u8> = numbers.split(';').filter_map(|number| number.parse().ok()).collect();
    let mut rest = &numbers[..];
    let mut sorts = Vec::new();
    while let [number, after @ ..] = rest {
        let (sort, length) = match (number, after) {
            (38, [5, _, ..]) => ("of 256", 3),
            (38, [2, _, _, _, ..]) => ("any", 5),
            (30..=37 | 90..=97, _) => ("of 16", 1),
            (0..10, _) => ("weight", 1),
            _ => panic!("unknown: {numbers:?}"),
        };
        sorts.push(sort);
        rest = &rest[length..];
    }
    sorts
}

#[test]
fn a_terminal_gets_as_many_colours_as_it_knows_and_no_others() {
    for (variables, expected) in [
        (&[("TERM", "xterm")][..], &["of 16", "weight"][..]),
        (&[("TERM", "xterm-256color")], &["of 256", "weight"]),
        (&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")], &["any", "weight"]),
        (&[("TERM", "xterm"), ("COLORTERM", "24bit")], &["any", "weight"]),
        (&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor"), ("NO_COLOR", "1")], &[]),
    ] {
        assert_eq!(attributes(variables), expected.iter().copied().collect(), "{variables:?}");
    }
}
