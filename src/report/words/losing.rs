//! The words for units that were lost with the worker they ran on.

use super::short_line;

/// Most characters of a worker's name.
const WORKER_CAP: usize = 40;

/// Returns what is said of a unit that was lost with its worker.
#[must_use]
pub fn lost(worker: &str, attempt: u32) -> String {
    let worker = short_line(worker, WORKER_CAP);
    format!("lost with worker {worker} in attempt {attempt}: waits to be run again")
}

/// Returns what is said of a unit that waits because it was lost.
#[must_use]
pub fn waits_again(worker: &str) -> String {
    format!("lost with {}, again", short_line(worker, WORKER_CAP))
}
