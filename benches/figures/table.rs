//! The table: each figure beside its limit.

use std::fmt;

/// One measured value and what it may be at most.
pub(crate) struct Figure {
    name: String,
    measured: f64,
    limit: f64,
    unit: Unit,
    /// What was counted, if it should not be there at all.
    faults: Vec<String>,
}

/// What a figure is counted in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    /// Nanoseconds.
    Nanos,
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
    /// Mebibytes.
    MiB,
    /// One value over another.
    Times,
    /// Hundredths.
    Percent,
    /// Occurrences.
    Count,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, measured: f64, limit: f64, unit: Unit) -> Self {
        Self { name: name.into(), measured, limit, unit, faults: Vec::new() }
    }

    /// A count of what must not happen.
    pub(crate) fn none_of(name: impl Into<String>, faults: Vec<String>) -> Self {
        let count = u32::try_from(faults.len()).unwrap_or(u32::MAX);
        Self { faults, ..Self::new(name, f64::from(count), 0.0, Unit::Count) }
    }

    pub(crate) fn is_met(&self) -> bool {
        self.measured <= self.limit
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: f64| match self.unit {
            Unit::Nanos => format!("{value:.1} ns"),
            Unit::Micros => format!("{value:.2} µs"),
            Unit::Millis => format!("{value:.2} ms"),
            Unit::MiB => format!("{value:.1} MiB"),
            Unit::Times => format!("{value:.2} x"),
            Unit::Percent => format!("{value:.1} %"),
            Unit::Count => format!("{value}"),
        };
        let ratio = if self.limit > 0.0 {
            format!("{:.2}", self.measured / self.limit)
        } else {
            "-".to_owned()
        };
        let verdict = if self.is_met() { "ok" } else { "MISSED" };
        let (measured, limit) = (show(self.measured), show(self.limit));
        self.faults.iter().try_for_each(|fault| writeln!(f, "fault: {fault}"))?;
        write!(
            f,
            "| {:<63} | {measured:>11} | {limit:>11} | {ratio:>5} | {verdict:<6} |",
            self.name
        )
    }
}

/// Writes the line of a table's head.
pub(crate) fn head() -> String {
    let titles = format!(
        "| {:<63} | {:>11} | {:>11} | {:>5} | {:<6} |",
        "figure", "median", "limit", "ratio", ""
    );
    let line = |width: usize| "-".repeat(width);
    let rule = format!("|{}|{}:|{}:|{}:|{}|", line(65), line(12), line(12), line(6), line(8));
    format!("{titles}\n{rule}")
}

/// Describes the machine in one line.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let memory: u64 = memory.trim_end_matches(" kB").parse().unwrap_or_default();
    format!(
        "{cores} cores, {}, {} GiB, Linux {}; load {}",
        field(&read("/proc/cpuinfo"), "model name"),
        memory >> 20,
        read("/proc/sys/kernel/osrelease").trim(),
        read("/proc/loadavg").split(' ').next().unwrap_or_default(),
    )
}
