//! The events of a log that make up one unit's conversation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::line;
use super::log::LogError;
use super::read::{Entry, read};
use crate::event::{Event, EventKind, Origin, UnitHead, UnitId};

/// Reads the events of a unit, of the units whose conversation it continues, and of the
/// unit that started the first of them. Events of other units are not parsed.
///
/// # Errors
///
/// Only if the log cannot be opened.
pub fn conversation_of(directory: &Path, unit: UnitId) -> Result<Vec<Event>, LogError> {
    let heads = heads(directory)?;
    let mut wanted = BTreeSet::new();
    let mut next = Some(unit);
    // A damaged log may say that two units continue each other.
    while let Some(unit) = next.filter(|unit| wanted.insert(*unit)) {
        let Some(head) = heads.get(&unit) else { break };
        next = match head.origin {
            Origin::Continued(before) | Origin::Reused(before) => Some(before),
            Origin::Fork => Some(head.parent),
            Origin::Prompt | Origin::Visible | Origin::Steps => {
                wanted.insert(head.parent);
                None
            }
        };
    }
    let is_wanted = |text: &[u8]| line::peek(text).is_ok_and(|peek| wanted.contains(&peek.unit));
    Ok(events_where(directory, is_wanted)?.collect())
}

fn heads(directory: &Path) -> Result<BTreeMap<UnitId, UnitHead>, LogError> {
    let is_head = |text: &[u8]| line::peek(text).is_ok_and(|peek| peek.kind == "unit_queued");
    let heads = events_where(directory, is_head)?.filter_map(|event| {
        let EventKind::UnitQueued(head) = event.kind else { return None };
        Some((event.unit, head))
    });
    Ok(heads.collect())
}

fn events_where(
    directory: &Path,
    mut is_wanted: impl FnMut(&[u8]) -> bool,
) -> Result<impl Iterator<Item = Event>, LogError> {
    let mut entries = read(directory)?;
    let entries = std::iter::from_fn(move || entries.next_where(&mut is_wanted));
    Ok(entries.filter_map(|entry| match entry {
        Entry::Event(event) => Some(event),
        Entry::Unknown { .. } | Entry::Bad { .. } => None,
    }))
}
