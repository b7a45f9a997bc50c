//! The measurements: one function for each row or group of rows.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::clock;
use crate::program::{self, Ended, Place};
use crate::script::{Act, Part, Script, Who};
use crate::table::{Figure, Unit};

/// Describes how the figures come about, in one line.
pub(crate) fn method() -> String {
    format!(
        "Medians of {STARTS} starts, of {RUNS} runs, and of {LONG_RUNS} runs of the larger \
         batches; the server is a process of its own."
    )
}

/// How often a start is measured.
const STARTS: usize = 41;

/// How often a run of a second or less is measured.
pub(crate) const RUNS: usize = 7;

/// How often a run of several seconds is measured.
const LONG_RUNS: usize = 3;

/// How many turns around the named one a turn's cost is the mean of.
const WINDOW: u32 = 9;

/// The configured cap of the pool, which is its default.
const CAP: usize = 8;

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn median_of(runs: usize, measure: impl FnMut(usize) -> f64) -> f64 {
    median((0..runs).map(measure).collect())
}

fn loop_of(turns: u32, act: Act) -> Script {
    Script { main: Part { turns, think_ms: 0, act }, slots: 0, slot: Part::TEXT }
}

/// From just before the process is made to the server's having the whole first
/// request; and `--version`, to the end of the process.
pub(crate) fn start() -> Vec<Figure> {
    let script = loop_of(1, Act::Todo);
    let first = median_of(STARTS, |_| {
        let ended = program::run(&script, &[]);
        millis(ended.seen[0].at - ended.started)
    });
    let place = Place::new();
    let version = median_of(STARTS, |_| {
        let mut command = program::command(&place);
        command.arg("--version");
        let started = clock::now();
        let status = command.status().expect("the program can be started");
        assert!(status.success(), "`--version` failed");
        millis(clock::now() - started)
    });
    vec![
        Figure::new("process start to first request", first, 25.0, Unit::Millis),
        Figure::new("`--version`", version, 5.0, Unit::Millis),
    ]
}

/// Own CPU time from one request's arrival to the next one's.
pub(crate) fn turn() -> Vec<Figure> {
    let mut figures = Vec::new();
    for (act, name) in [(Act::Read, "Read"), (Act::Todo, "TodoWrite")] {
        let (mut early, mut late) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let ended = program::run(&loop_of(200 + WINDOW, act), &[]);
            early.push(cost_of_turn(&ended, 20));
            late.push(cost_of_turn(&ended, 200));
        }
        let (early, late) = (median(early), median(late));
        figures.push(Figure::new(
            format!("own CPU of one turn, at turn 20 ({name})"),
            early,
            1.0,
            Unit::Millis,
        ));
        figures.push(Figure::new(
            format!("own CPU of one turn, at turn 200 ({name})"),
            late,
            3.0 * early,
            Unit::Millis,
        ));
    }
    figures
}

/// Returns the mean over the turns around `turn`. A mean, because a thread that
/// still runs when the clock is read is only counted with a later turn.
fn cost_of_turn(ended: &Ended, turn: u32) -> f64 {
    let cpu = |turn: u32| {
        let seen = ended.seen.iter().find(|seen| seen.turn == turn);
        seen.and_then(|seen| seen.cpu).expect("Linux tells a process's CPU time")
    };
    let first = turn - WINDOW / 2;
    millis(cpu(first + WINDOW).saturating_sub(cpu(first))) / f64::from(WINDOW)
}

/// From the first request's arrival to the process's end. The limit is what
/// the model's time alone comes to: the main conversation's own turns (none),
/// and the slots' turns, as many waves of them as the cap makes.
pub(crate) fn schedule() -> Vec<Figure> {
    let part = |turns, think_ms| Part { turns, think_ms, act: Act::Read };
    let cases = [
        ("makespan of 8 slots x 3 turns x 200 ms", 8, part(3, 200), RUNS),
        ("makespan of 100 slots x 1 turn x 200 ms, 8 at once", 100, part(1, 200), LONG_RUNS),
    ];
    let mut figures = Vec::new();
    for (name, slots, slot, runs) in cases {
        let script = Script { main: Part::TEXT, slots, slot };
        let waves = u32::try_from(slots.div_ceil(CAP)).expect("a small number");
        let limit = Duration::from_millis(slot.think_ms) * slot.turns * waves;
        let mut peaks = Vec::new();
        let makespan = median_of(runs, |_| {
            let ended = program::run(&script, &[]);
            peaks.push(peak(&ended));
            millis(ended.ended - ended.seen[0].at)
        });
        figures.push(Figure::new(name, makespan, 1.05 * millis(limit), Unit::Millis));
        if slots == CAP {
            let name = "peak memory, 8 slots running";
            figures.push(Figure::new(name, median(peaks), 40.0, Unit::MiB));
        }
    }
    figures
}

/// Returns the peak up to the last request, in MiB. All slots have ended by
/// then, and what follows it is one short text.
#[expect(clippy::cast_precision_loss, reason = "no peak has more than 52 bits of KiB")]
pub(crate) fn peak(ended: &Ended) -> f64 {
    let last = ended.seen.iter().rev().find_map(|seen| seen.peak);
    last.expect("Linux tells a process's peak") as f64 / 1024.0
}

/// Batches of many slots that are answered at once.
pub(crate) fn many() -> Vec<Figure> {
    let (small, large) = (Batch::of(1_000), Batch::of(10_000));
    let time = format!(
        "time of 10,000 slots ({:.2} s) over 1,000 ({:.2} s)",
        large.time / 1e3,
        small.time / 1e3
    );
    let log =
        format!("log of 10,000 slots ({:.2} MiB) over 1,000 ({:.2} MiB)", large.log, small.log);
    vec![
        Figure::new("peak memory, 10,000 slots queued", large.peak, 150.0, Unit::MiB),
        Figure::new(time, large.time / small.time, 13.0, Unit::Times),
        Figure::new(log, large.log / small.log, 11.0, Unit::Times),
    ]
}

/// What a batch came to: the medians of its runs.
struct Batch {
    /// In milliseconds.
    time: f64,
    /// In MiB, as is the log.
    peak: f64,
    log: f64,
}

impl Batch {
    fn of(slots: usize) -> Self {
        let run = |_| {
            let ended = program::run(&Script { main: Part::TEXT, slots, slot: Part::TEXT }, &[]);
            assert_eq!(ended.seen.len(), slots + 2, "each slot makes one request");
            let time = millis(ended.ended - ended.seen[0].at);
            Self { time, peak: peak(&ended), log: mebibytes_of_log(&ended) }
        };
        let runs: Vec<Self> = (0..LONG_RUNS).map(run).collect();
        let median_by = |value: fn(&Self) -> f64| median(runs.iter().map(value).collect());
        Self {
            time: median_by(|run| run.time),
            peak: median_by(|run| run.peak),
            log: median_by(|run| run.log),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "no log has more than 52 bits of bytes")]
fn mebibytes_of_log(ended: &Ended) -> f64 {
    assert!(ended.log > 0, "a run leaves a log");
    ended.log as f64 / f64::from(1 << 20)
}

/// SIGINT while four slots wait for their model, four run a command, and four
/// are queued.
pub(crate) fn interrupt() -> Vec<Figure> {
    let slot = Part { turns: 2, think_ms: 0, act: Act::Stall };
    let script = Script { main: Part::TEXT, slots: 12, slot };
    let mut faults = Vec::new();
    let time = median_of(RUNS, |_| {
        let place = Place::new();
        let mut running = program::start(&place, &script, &["--permission-mode=bypassPermissions"]);
        running.server.wait_for(1 + CAP);
        wait_for_commands(&place);
        // Else the count after the end would find nothing, whatever is left.
        assert!(running.processes() > CAP / 2, "the program and its commands are found");
        let sent = clock::now();
        kill(Pid::from_raw(running.pid), Signal::SIGINT).expect("the process runs");
        let ended = running.wait();
        faults.extend(faults_of_interrupt(&ended, sent));
        millis(ended.ended - sent)
    });
    vec![
        Figure::new("SIGINT to exit, 8 running and 4 queued", time, 200.0, Unit::Millis),
        Figure::none_of("... faults: result, 8 cancelled, 4 skipped, requests, processes", faults),
    ]
}

/// Waits until the commands of the odd slots among the running say that they
/// run.
fn wait_for_commands(place: &Place) {
    let runs = |number: usize| place.workspace().join(format!("stalled-{number}")).exists();
    while !(1..CAP).step_by(2).all(runs) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn faults_of_interrupt(ended: &Ended, sent: Duration) -> Vec<String> {
    let results = ended.records.iter().filter(|record| record["type"] == "result").count();
    let is_last = ended.records.last().is_some_and(|record| record["type"] == "result");
    let notices = |is_wanted: &dyn Fn(&Value) -> bool| {
        let is_notice = |record: &&Value| record["subtype"] == "task_notification";
        ended.records.iter().filter(is_notice).filter(|record| is_wanted(record)).count()
    };
    let never = |record: &Value| record["reason"] == "never_started";
    let skipped = notices(&|record| record["status"] == "stopped" && never(record));
    let cancelled = notices(&|record| record["status"] == "stopped" && !never(record));
    let late = ended.seen.iter().filter(|seen| seen.at > sent).count();
    let mains = ended.seen.iter().filter(|seen| seen.who == Who::Main).count();
    let checks = [
        ("results", results, 1),
        ("results as the last record", usize::from(is_last), 1),
        ("cancelled slots", cancelled, 8),
        ("skipped slots", skipped, 4),
        ("requests after the signal", late, 0),
        ("requests of the main conversation", mains, 1),
        ("processes left", ended.left, 0),
        ("exit code 130", usize::from(ended.code == Some(130)), 1),
    ];
    checks
        .iter()
        .filter(|(_, found, wanted)| found != wanted)
        .map(|(what, found, wanted)| format!("{what}: {found}, not {wanted}"))
        .collect()
}
