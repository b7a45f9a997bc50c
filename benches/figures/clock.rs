//! Clocks and counters of the system, for this process and for others.
//!
//! What is read of another process is there on Linux only.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
#[cfg(target_os = "linux")]
use nix::unistd::Pid;

/// Returns the time since some fixed moment, the same in all processes.
pub(crate) fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every system has this clock").into()
}

/// Returns the CPU time of all threads of a process, ended ones included, in
/// user space and in the kernel; `None` if the process is gone.
///
/// This is the process's own CPU clock: it counts in nanoseconds, where
/// `/proc/PID/stat` counts in hundredths of a second. The kernel adds the time
/// of a thread that runs at this moment only once it has stopped or at the next
/// tick.
#[cfg(target_os = "linux")]
pub(crate) fn cpu_time(pid: i32) -> Option<Duration> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid)).ok()?;
    clock_gettime(clock).ok().map(Duration::from)
}

/// As on Linux; elsewhere no process's clock can be read by another.
#[cfg(not(target_os = "linux"))]
pub(crate) fn cpu_time(_pid: i32) -> Option<Duration> {
    None
}

/// Returns the most memory a process has held so far, in KiB: `VmHWM`.
pub(crate) fn peak_memory(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
