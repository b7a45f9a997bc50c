//! What the scripted model remembers of each unit's last request, so that the
//! next one can be compared with it.
//!
//! Length and hash are kept for every unit, the bytes only for those that
//! asked last: the hash finds a difference, the bytes say where it is.

use std::collections::{HashMap, VecDeque};

use blake3::Hash;

use crate::event::UnitId;
use crate::model::check::{Violation, check_continues, stem};
use crate::model::{Asker, Purpose};

/// Most bytes of requests that are kept. Enough for the units of a full pool
/// with long conversations, too little to matter beside the conversations.
const KEPT_BYTES: usize = 32 * 1024 * 1024;

/// Most stems that are known of all requests together: about four megabytes.
/// A fork goes on from what its parent asked a moment ago.
const STEMS_CAP: usize = 100_000;

/// The last request of each unit.
#[derive(Debug, Default)]
pub(super) struct Memory {
    last: HashMap<UnitId, Last>,
    /// Units with bytes, the one that asked longest ago first.
    order: VecDeque<UnitId>,
    bytes: usize,
    stems: HashMap<UnitId, Stems>,
    /// The units of all stems that are kept, in the order they asked.
    stem_order: VecDeque<UnitId>,
    /// The lowest of the units that began here, main aside.
    first_here: Option<UnitId>,
}

/// The stems of a unit's requests.
#[derive(Debug, Default)]
struct Stems {
    /// Length and hash of each, in the order of the requests.
    kept: VecDeque<(usize, Hash)>,
    /// Whether there were older ones.
    is_cut: bool,
}

#[derive(Debug)]
struct Last {
    /// Of the stem: the body without its end.
    length: usize,
    hash: Hash,
    body: Option<Vec<u8>>,
}

impl Memory {
    /// Takes note of a request, after comparing it with the unit's last one.
    /// One that starts afresh is not compared. The request for a summary is
    /// compared and forgotten: the next one goes on from the one before it.
    ///
    /// # Errors
    ///
    /// The request does not start with the bytes of the one before.
    pub(super) fn take(&mut self, asker: &Asker, body: Vec<u8>) -> Result<(), Violation> {
        if let Some(parent) = asker.forked_from {
            self.check_fork(parent, &body)?;
        }
        let last = self.last.get(&asker.unit).filter(|_| !asker.is_afresh);
        if let Some(last) = last {
            last.check(&body)?;
        }
        match asker.purpose {
            Purpose::Turn => {
                self.forget(asker.unit);
                self.remember(asker.unit, body);
                if asker.turn == 1 && asker.unit != UnitId::MAIN {
                    let first = self.first_here.get_or_insert(asker.unit);
                    *first = asker.unit.min(*first);
                }
            }
            Purpose::Summary => {}
        }
        Ok(())
    }

    /// Checks that a fork's first request goes on from one of its parent's.
    /// Not from the last one: the parent may have gone on meanwhile.
    fn check_fork(&self, parent: UnitId, body: &[u8]) -> Result<(), Violation> {
        let is_right = match self.stems.get(&parent) {
            Some(stems) => stems.is_cut || stems.begin(body),
            // It never asked here. In a session that goes on from its log it
            // may have asked in an earlier process, and nothing in a request
            // tells; but units are numbered in order, so one behind a unit that
            // began here began here, too.
            None => self.first_here.is_none_or(|first| parent < first),
        };
        match is_right {
            true => Ok(()),
            false => Err(Violation::Forked { parent: parent.to_string() }),
        }
    }

    fn forget(&mut self, unit: UnitId) {
        if let Some(body) = self.last.remove(&unit).and_then(|last| last.body) {
            self.bytes -= body.len();
            self.order.retain(|other| *other != unit);
        }
    }

    fn drop_oldest_stem(&mut self) {
        let oldest = self.stem_order.pop_front().and_then(|unit| self.stems.get_mut(&unit));
        let stems = oldest.expect("a stem in the order belongs to a unit");
        stems.kept.pop_front();
        stems.is_cut = true;
    }

    fn remember(&mut self, unit: UnitId, body: Vec<u8>) {
        let stem = stem(&body);
        let (length, hash) = (stem.len(), blake3::hash(stem));
        self.stems.entry(unit).or_default().kept.push_back((length, hash));
        self.stem_order.push_back(unit);
        if self.stem_order.len() > STEMS_CAP {
            self.drop_oldest_stem();
        }
        self.bytes += body.len();
        self.order.push_back(unit);
        self.last.insert(unit, Last { length, hash, body: Some(body) });
        while self.bytes > KEPT_BYTES {
            let oldest = self.order.pop_front().expect("kept bytes belong to a unit in the order");
            let body = self.last.get_mut(&oldest).and_then(|last| last.body.take());
            self.bytes -= body.map_or(0, |body| body.len());
        }
    }
}

impl Stems {
    /// Tells whether a body begins with one of them. It is hashed once, from
    /// the shortest on.
    fn begin(&self, body: &[u8]) -> bool {
        let mut stems: Vec<_> =
            self.kept.iter().filter(|(length, _)| *length <= body.len()).collect();
        stems.sort_unstable_by_key(|(length, _)| *length);
        let (mut hasher, mut hashed) = (blake3::Hasher::new(), 0);
        stems.into_iter().any(|(length, hash)| {
            hasher.update(&body[hashed..*length]);
            hashed = *length;
            hasher.finalize() == *hash
        })
    }
}

impl Last {
    fn check(&self, later: &[u8]) -> Result<(), Violation> {
        match &self.body {
            Some(earlier) => check_continues(earlier, later),
            None if later.get(..self.length).map(blake3::hash) == Some(self.hash) => Ok(()),
            None => Err(Violation::Parted {
                at: self.length.min(later.len()),
                earlier: "(no longer kept; the difference is at this byte or before it)".into(),
                later: String::new(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(unit: u32, turn: u32) -> Asker {
        let (unit, agent, description) = (UnitId(unit), "a".into(), "".into());
        let (purpose, is_afresh) = (Purpose::Turn, turn == 1);
        Asker { unit, agent, description, purpose, turn, attempt: 1, is_afresh, forked_from: None }
    }

    fn body(messages: &str) -> Vec<u8> {
        format!(r#"{{"messages":[{messages}]}}"#).into_bytes()
    }

    #[test]
    fn each_unit_goes_on_from_its_own_last_request() {
        let mut memory = Memory::default();
        assert_eq!(memory.take(&asker(1, 1), body("1")), Ok(()));
        assert_eq!(memory.take(&asker(2, 1), body("2")), Ok(()));
        assert_eq!(memory.take(&asker(1, 2), body("1,3")), Ok(()));
        assert!(memory.take(&asker(2, 2), body("1,3")).is_err());
    }

    #[test]
    fn a_fork_goes_on_from_a_request_of_its_parent() {
        let mut memory = Memory::default();
        let fork = |unit| Asker { forked_from: Some(UnitId(1)), ..asker(unit, 1) };
        assert_eq!(memory.take(&asker(1, 1), body("1")), Ok(()));
        assert_eq!(memory.take(&asker(1, 2), body("1,2")), Ok(()));
        assert_eq!(memory.take(&fork(2), body("1,9")), Ok(()));
        assert_eq!(memory.take(&fork(3), body("1,2,9")), Ok(()));
        let parent = "agent-1".to_owned();
        assert_eq!(memory.take(&fork(4), body("9")), Err(Violation::Forked { parent }));
    }

    #[test]
    fn a_fork_may_go_on_from_what_was_asked_before_this_process_and_from_nothing_else() {
        let mut memory = Memory::default();
        let fork = |unit, parent| Asker { forked_from: Some(UnitId(parent)), ..asker(unit, 1) };
        assert_eq!(memory.take(&fork(7, 0), body("1,9")), Ok(()));
        assert_eq!(memory.take(&asker(8, 1), body("1")), Ok(()));
        assert_eq!(memory.take(&fork(10, 0), body("1,9")), Ok(()));
        let parent = "agent-9".to_owned();
        assert_eq!(memory.take(&fork(10, 9), body("1,9")), Err(Violation::Forked { parent }));
    }

    #[test]
    fn only_the_latest_stems_are_kept_and_a_fork_from_an_older_one_is_believed() {
        let mut memory = Memory::default();
        assert_eq!(memory.take(&asker(2, 1), body("2")), Ok(()));
        for _ in 0..=STEMS_CAP {
            assert_eq!(memory.take(&asker(1, 1), body("1")), Ok(()));
        }
        assert_eq!(memory.stem_order.len(), STEMS_CAP);
        assert_eq!(memory.stems.values().map(|stems| stems.kept.len()).sum::<usize>(), STEMS_CAP);
        let fork = Asker { forked_from: Some(UnitId(2)), ..asker(3, 1) };
        assert_eq!(memory.take(&fork, body("2,9")), Ok(()));
    }

    #[test]
    fn a_first_turn_starts_afresh() {
        let mut memory = Memory::default();
        assert_eq!(memory.take(&asker(1, 1), body("1")), Ok(()));
        assert_eq!(memory.take(&asker(1, 1), body("2")), Ok(()));
        assert_eq!(memory.order.len(), 1);
    }

    #[test]
    fn a_summary_goes_on_from_the_last_turn_and_nothing_goes_on_from_it() {
        let mut memory = Memory::default();
        let summary = Asker { purpose: Purpose::Summary, ..asker(1, 7) };
        assert_eq!(memory.take(&asker(1, 1), body("1")), Ok(()));
        assert!(memory.take(&summary, body("2,9")).is_err());
        assert_eq!(memory.take(&summary, body("1,9")), Ok(()));
        assert!(memory.take(&asker(1, 2), body("2")).is_err());
        assert_eq!(memory.take(&asker(1, 2), body("1,3")), Ok(()));
        assert_eq!(memory.take(&summary, body("1,3,9")), Ok(()));
        let afresh = Asker { is_afresh: true, ..asker(1, 3) };
        assert_eq!(memory.take(&afresh, body("5")), Ok(()));
        assert!(memory.take(&asker(1, 4), body("1,3,4")).is_err());
        assert_eq!(memory.order.len(), 1);
    }

    #[test]
    fn a_difference_is_found_after_the_bytes_are_gone() {
        let mut memory = Memory::default();
        let long = "1".repeat(KEPT_BYTES * 2 / 3);
        assert_eq!(memory.take(&asker(1, 1), body(&long)), Ok(()));
        assert_eq!(memory.take(&asker(2, 1), body(&long)), Ok(()));
        assert!(memory.bytes <= KEPT_BYTES);
        assert!(memory.take(&asker(1, 2), body("1")).is_err());
        assert_eq!(memory.take(&asker(1, 1), body(&long)), Ok(()));
        assert_eq!(memory.take(&asker(2, 2), body(&format!("{long},2"))), Ok(()));
    }
}
