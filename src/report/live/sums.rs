//! How many units are in which state, in one line.

use super::{ROWS, WAITING};
use crate::event::UnitState;
use crate::report::units::Counts;
use crate::report::words;

/// Returns how many units are in which state, without the states that no unit
/// is in; `None` if there are no units.
pub(super) fn sums(counts: Counts) -> Option<String> {
    let Counts { queued, running, throttled, waiting, .. } = counts;
    let Counts { completed, failed, cancelled, skipped, interrupted, .. } = counts;
    let parts: Vec<String> = [
        (running, words::state(UnitState::Running)),
        (throttled, words::state(UnitState::Throttled)),
        (waiting, WAITING),
        (queued, words::state(UnitState::Queued)),
        (completed, words::state(UnitState::Completed)),
        (failed, words::state(UnitState::Failed)),
        (cancelled, words::state(UnitState::Cancelled)),
        (skipped, words::state(UnitState::Skipped)),
        (interrupted, words::state(UnitState::Interrupted)),
    ]
    .into_iter()
    .filter(|&(count, _)| count > 0)
    .map(|(count, state)| format!("{count} {state}"))
    .collect();
    let hidden = match (running + throttled + waiting).saturating_sub(ROWS as u64) {
        0 => String::new(),
        more => format!(" ({more} not shown)"),
    };
    (!parts.is_empty()).then(|| format!("{}{hidden}", parts.join(", ")))
}
