//! Turns that come again in the same order: A, B, A, B.
//!
//! Only whole turns are compared, with all their calls and outputs. So a look that is
//! repeated between turns that differ is no loop.

use std::collections::VecDeque;

use super::{Key, Repeat, RepeatCount};

/// Longest cycle that is found, in turns. A model that goes in a longer one does much in
/// between.
const TURNS_CAP: usize = 8;

/// Maximum finished turns that are held: what the longest cycle needs before it ends.
const HELD_CAP: usize = TURNS_CAP * 3;

/// Returns after how many rounds of a cycle of so many turns the model is told, and after
/// how many its unit ends: within 12 turns for up to four, and never in the second round.
pub(super) const fn limits(turns: usize) -> (u32, u32) {
    match turns {
        ..=2 => (3, 5),
        3 => (3, 4),
        4.. => (2, 3),
    }
}

/// The turns of a unit since the last message to it.
#[derive(Debug, Default)]
pub(super) struct Cycles {
    /// Those before the current one, each as the hash of its calls.
    finished: VecDeque<[u8; 32]>,
    /// The calls of the current one so far, in order of their keys.
    current: Vec<Key>,
}

impl Cycles {
    /// Begins a turn, which `follows` the one before if no turn without calls was between.
    pub(super) fn begin(&mut self, follows: bool) {
        if !follows || self.current.is_empty() {
            self.finished.clear();
        } else {
            let hash = self.hash();
            self.finished.push_back(hash);
            if self.finished.len() > HELD_CAP {
                self.finished.pop_front();
            }
        }
        self.current.clear();
    }

    /// Forgets all turns.
    pub(super) fn forget(&mut self) {
        self.finished.clear();
        self.current.clear();
    }

    /// Records a call of the current turn, and finds the shortest cycle that the turn may
    /// be the last one of.
    pub(super) fn note(&mut self, key: Key) -> Repeat {
        let place = self.current.partition_point(|other| other.0 <= key.0);
        self.current.insert(place, key);
        let hash = self.hash();
        let mut told = Repeat::Unremarkable;
        for turns in 2..=TURNS_CAP {
            let rounds = self.rounds(&hash, turns);
            let (told_at, ends_at) = limits(turns);
            let repetition = RepeatCount { times: rounds, turns };
            if rounds >= ends_at {
                return Repeat::Ends(repetition);
            }
            if rounds >= told_at && told == Repeat::Unremarkable {
                told = Repeat::Told(repetition);
            }
        }
        told
    }

    /// Returns how many turns and calls are held.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.finished.len() + self.current.len()
    }

    /// Returns how many whole rounds of so many turns end with a turn of this hash.
    fn rounds(&self, hash: &[u8; 32], turns: usize) -> u32 {
        let newest_first = || [hash].into_iter().chain(self.finished.iter().rev());
        let alike = newest_first().zip(newest_first().skip(turns)).take_while(|(a, b)| a == b);
        let count = alike.count();
        let length = if count == 0 { 0 } else { count + turns };
        u32::try_from(length / turns).unwrap_or(u32::MAX)
    }

    fn hash(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for key in &self.current {
            hasher.update(&key.0);
        }
        *hasher.finalize().as_bytes()
    }
}
