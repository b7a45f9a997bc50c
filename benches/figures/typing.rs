//! What a chat is like to type into while eight agents write: the program on a
//! pseudo-terminal, from a key to the end of the frame that shows it.
//!
//! A key counts as shown once the frame is there whose line ends with it.

use std::time::Duration;

use crate::clock;
use crate::measure::{median, median_of, millis};
use crate::program::{self, Place};
use crate::script::{Act, MAIN_PROMPT, Pace, Part, Script};
use crate::server::Server;
use crate::table::{Figure, Unit};
use crate::terminal::{Sitting, line, row_of_line};

/// How often a start is measured.
const STARTS: usize = 41;

/// How often the typing is.
const RUNS: usize = 3;

/// How many slots write.
const SLOTS: usize = 8;

/// What each of them writes: 200 tokens a second, for somewhat longer than all
/// keys take.
const PACE: Pace = Pace { pieces: 2_600, bytes: 4, per_second: Some(200) };

/// How many keys are typed in a run.
const KEYS: usize = 200;

/// From one key to the next. In no simple ratio to the time between two frames,
/// so that keys come at every moment of one.
const BETWEEN: Duration = Duration::from_millis(47);

/// Longest time from a key to the frame that shows it: a frame of a screen that
/// shows 60 a second.
const ECHO: f64 = 16.0;

/// Most of a core that the program may take meanwhile.
const OWN_CPU: f64 = 15.0;

/// What main writes in a turn where memory is measured, and how many such turns
/// there are: about 10 MB, one of them a second. That is a thousand times what a
/// model does; faster, and the buffers between threads would be measured.
const TURN: Pace = Pace { pieces: 2_000, bytes: 50, per_second: Some(20_000) };
const TURNS: u32 = 100;

/// The turn before which 1 MB has been written.
const EARLY: u32 = 11;

/// Most MiB that memory may grow by from 1 MB of text to 10. What has to be held
/// is the conversation, which a summary replaces before it has 0.4 MB, and what
/// is made of it for a request: about as much again, twice.
const GROWTH: f64 = 4.0;

/// All figures of a chat at a terminal.
pub(crate) fn typing() -> Vec<Figure> {
    let start = median_of(STARTS, |_| {
        let place = Place::new();
        let mut sitting = start(&place, None);
        let at = sitting.wait_until("the first prompt", |screen| row_of_line(screen).is_some());
        millis(at - sitting.started)
    });
    let mut figures = vec![Figure::new("start to first prompt drawn", start, 25.0, Unit::Millis)];
    for (name, keys) in [("8 agents writing", ""), ("one of them followed", "1\r")] {
        let runs: Vec<Typed> = (0..RUNS).map(|_| type_beside(keys)).collect();
        let of = |value: fn(&Typed) -> f64| median(runs.iter().map(value).collect());
        let rows = [
            (format!("key to screen, {name}, half of all"), of(|run| run.half), ECHO, Unit::Millis),
            (format!("key to screen, {name}, 99 of 100"), of(|run| run.most), ECHO, Unit::Millis),
            (format!("own CPU, {name}"), of(|run| run.cpu), OWN_CPU, Unit::Percent),
        ];
        figures
            .extend(rows.map(|(name, value, limit, unit)| Figure::new(name, value, limit, unit)));
    }
    figures.push(growth());
    figures
}

/// How typing went.
struct Typed {
    /// How long half of the keys took at most, and 99 of 100, in milliseconds.
    half: f64,
    most: f64,
    /// In hundredths of a core.
    cpu: f64,
}

/// Types while eight slots write, after some keys that were typed first.
fn type_beside(keys: &str) -> Typed {
    let slot = Part { turns: 2, think_ms: 0, act: Act::Write(PACE) };
    let script = Script { main: Part::TEXT, slots: SLOTS, slot };
    let (place, mut server) = (Place::new(), Server::start(&script));
    let mut sitting = start(&place, Some(&server));
    sitting.wait_until("the first prompt", |screen| row_of_line(screen).is_some());
    sitting.keys(&format!("{MAIN_PROMPT}\r"));
    server.wait_for(1 + SLOTS);
    sitting.wait_until("eight agents that write", |screen| {
        screen.shown().iter().filter(|row| row.contains("writing")).count() == SLOTS
    });
    if !keys.is_empty() {
        sitting.keys(keys);
        sitting.wait_until("a strand", |screen| {
            screen.shown().iter().any(|row| row.starts_with("--- 1 "))
        });
    }
    let (from, cpu) = (clock::now(), sitting.cpu());
    let mut times = Vec::new();
    let mut typed = String::new();
    for (number, letter) in (0..KEYS).zip(('a'..='z').cycle()) {
        sitting.watch_until(from + BETWEEN * u32::try_from(number).expect("a few keys"));
        typed.push(letter);
        let sent = clock::now();
        sitting.keys(&letter.to_string());
        let shown = sitting.wait_until("the key", |screen| line(screen).ends_with(&typed));
        times.push(millis(shown.saturating_sub(sent)));
    }
    let (cpu, took) = (sitting.cpu() - cpu, clock::now() - from);
    let requests = server.finish().len();
    assert_eq!(requests, 1 + SLOTS, "the agents write as long as keys are typed");
    times.sort_by(f64::total_cmp);
    Typed {
        half: times[KEYS / 2],
        most: times[KEYS * 99 / 100],
        cpu: 100.0 * cpu.as_secs_f64() / took.as_secs_f64(),
    }
}

/// How much more memory is held at most after 10 MB of text than after 1 MB.
fn growth() -> Figure {
    let runs: Vec<Grown> = (0..RUNS).map(|_| grow()).collect();
    let of = |value: fn(&Grown) -> f64| median(runs.iter().map(value).collect());
    let (early, log) = (of(|run| run.early), of(|run| run.log));
    let name = format!("memory after 10 MB of text, over {early:.1} MiB after 1 (log {log:.1})");
    Figure::new(name, of(|run| run.late - run.early), GROWTH, Unit::MiB)
}

/// What was held at most and kept, in MiB.
struct Grown {
    early: f64,
    late: f64,
    log: f64,
}

#[expect(clippy::cast_precision_loss, reason = "no peak has more than 52 bits of KiB")]
fn grow() -> Grown {
    let main = Part { turns: TURNS + 1, think_ms: 0, act: Act::Write(TURN) };
    let script = Script { main, slots: 0, slot: Part::TEXT };
    let (place, mut server) = (Place::new(), Server::start(&script));
    let mut sitting = start(&place, Some(&server));
    server.watch(sitting.pid());
    sitting.wait_until("the first prompt", |screen| row_of_line(screen).is_some());
    sitting.keys(&format!("{MAIN_PROMPT}\r"));
    // What is written meanwhile is not looked at: a screen with all of it would
    // need more memory than what is measured.
    server.wait_for_turn(TURNS + 1);
    let peak = |turn: u32, seen: &[crate::server::Seen]| {
        let seen = seen.iter().find(|seen| seen.turn >= turn).and_then(|seen| seen.peak);
        seen.expect("Linux tells a process's peak") as f64 / 1024.0
    };
    let seen = server.finish();
    let (early, late) = (peak(EARLY, &seen), peak(TURNS + 1, &seen));
    let log = program::bytes_of_logs(&place.home()) as f64 / f64::from(1 << 20);
    Grown { early, late, log }
}

/// Starts a chat, with the models of a server if there is one.
fn start(place: &Place, server: Option<&Server>) -> Sitting {
    let mut command = program::command_on_terminal(place);
    // Nobody is asked where there is no server.
    let base_url = server.map_or_else(|| "http://127.0.0.1:9/v1".to_owned(), Server::base_url);
    command.env("OPENAI_BASE_URL", base_url).args(["-m", "bench", "--allow-large-batches"]);
    Sitting::start(command)
}
