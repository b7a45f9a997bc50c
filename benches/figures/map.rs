//! `tine map` over many rows, each of which is answered at once.

use crate::measure::{median, millis, peak};
use crate::program::{self, Ended, Place};
use crate::script::{Part, SLOT_PROMPT, Script};
use crate::table::{Figure, Unit};

/// How often a map is measured.
const RUNS: usize = 3;

/// The rows of the larger map.
const MANY: u32 = 10_000;

/// The rows of the smaller one.
const SOME: u32 = 1_000;

/// What a map of so many rows takes.
struct Taken {
    /// From the first request's arrival to the process's end, in milliseconds.
    time: f64,
    /// In MiB.
    peak: f64,
    /// Own CPU time of one row, in milliseconds.
    cpu: f64,
}

/// Time, memory and overhead.
pub(crate) fn map() -> Vec<Figure> {
    let (small, large) = (Taken::by(SOME), Taken::by(MANY));
    let time = format!(
        "time of a map of 10,000 rows ({:.2} s) over 1,000 ({:.2} s)",
        large.time / 1e3,
        small.time / 1e3
    );
    // What the server takes is in it: so the overhead is less than that.
    let row = large.time / f64::from(MANY);
    vec![
        Figure::new(time, large.time / small.time, 13.0, Unit::Times),
        Figure::new("peak memory, a map of 10,000 rows", large.peak, 200.0, Unit::MiB),
        Figure::new("time of one of 10,000 rows, the server's too", row, 1.0, Unit::Millis),
        Figure::new("own CPU of one of 10,000 rows", large.cpu, 1.0, Unit::Millis),
    ]
}

impl Taken {
    fn by(rows: u32) -> Self {
        let runs: Vec<Self> = (0..RUNS).map(|_| Self::of(rows)).collect();
        let median_by = |value: fn(&Self) -> f64| median(runs.iter().map(value).collect());
        Self {
            time: median_by(|run| run.time),
            peak: median_by(|run| run.peak),
            cpu: median_by(|run| run.cpu),
        }
    }

    fn of(rows: u32) -> Self {
        let ended = run(rows);
        assert_eq!(ended.code, Some(0), "every row is completed");
        let is_in_order =
            (1..).zip(&ended.records).all(|(number, line): (u32, _)| line["row"] == number);
        assert!(ended.records.len() == rows as usize && is_in_order, "each row has its line");
        assert_eq!(ended.seen.len(), rows as usize, "each row makes one request");
        let (first, last) = (&ended.seen[0], &ended.seen[rows as usize - 1]);
        let cpu = last.cpu.zip(first.cpu).map(|(last, first)| last.saturating_sub(first));
        let cpu = cpu.expect("Linux tells a process's CPU time");
        Self {
            time: millis(ended.ended - first.at),
            peak: peak(&ended),
            cpu: millis(cpu) / f64::from(rows),
        }
    }
}

/// Maps rows of a few columns, as tables have them.
fn run(rows: u32) -> Ended {
    let place = Place::new();
    let write = |name: &str, text: String| {
        std::fs::write(place.workspace().join(name), text).expect("a new file");
    };
    let row = |number: u32| format!("src/module_{number}.rs,team-{},{number}\n", number % 7);
    let table: String = (0..rows).map(row).collect();
    write("items.csv", format!("path,owner,number\n{table}"));
    write(
        "prompt.md",
        format!("Look at {{{{ path }}}} of {{{{ owner }}}}: {SLOT_PROMPT}{{{{ number }}}}"),
    );
    let script = Script { main: Part::TEXT, slots: rows as usize, slot: Part::TEXT };
    let arguments = ["map", "--input", "items.csv", "--prompt", "prompt.md", "-m", "bench"];
    program::start_with(&place, &script, &arguments).wait()
}
