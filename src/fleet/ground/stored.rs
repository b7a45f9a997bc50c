//! Which files of states are where workers find them.
//!
//! Such a file need not be made again, nor read: its hash is all that a worker is told.

use std::time::Duration;

use blake3::Hash;
use tokio::time::Instant;

use crate::git::bundle::Part;

/// Most files that are remembered: the histories and states that the units of a run
/// work in at the same time. What is forgotten is made again.
const STORED_CAP: usize = 16;

/// What a file holds: one that is made of the same serves as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Which part of a state.
    pub part: Part,
    /// The commit that holds it.
    pub tip: String,
}

/// The files that are there.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// The one that was put there last is the last.
    files: Vec<File>,
}

#[derive(Debug, Clone)]
struct File {
    content: Content,
    hash: Hash,
    at: Instant,
}

impl Stored {
    /// Takes note of a file that was put there.
    pub fn note(&mut self, content: Content, hash: Hash) {
        self.files.retain(|known| known.content != content);
        if self.files.len() >= STORED_CAP {
            // A history is read by all states upon it, and is the largest file.
            let change = self.files.iter().position(|known| known.content.part == Part::Change);
            self.files.remove(change.unwrap_or(0));
        }
        self.files.push(File { content, hash, at: Instant::now() });
    }

    /// Forgets what was put there so long ago.
    pub fn forget(&mut self, age: Duration) {
        self.files.retain(|known| known.at.elapsed() < age);
    }

    /// Returns the hash of a file that is there.
    pub(super) fn hash(&self, content: &Content) -> Option<Hash> {
        self.files.iter().find(|known| known.content == *content).map(|known| known.hash)
    }
}
