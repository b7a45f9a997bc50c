//! The bytes of a file, hashed once however many ask for the hash.

use std::ops::Deref;
use std::sync::OnceLock;

use blake3::Hash;

use crate::event::Digest;

/// All bytes of a file.
#[derive(Debug)]
pub struct Contents {
    bytes: Vec<u8>,
    hash: OnceLock<Hash>,
}

impl Contents {
    /// Returns the hash of the bytes.
    #[must_use]
    pub fn hash(&self) -> Hash {
        *self.hash.get_or_init(|| blake3::hash(&self.bytes))
    }

    /// Returns what a log calls the bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest(self.hash().into())
    }
}

impl From<Vec<u8>> for Contents {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, hash: OnceLock::new() }
    }
}

impl Deref for Contents {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}
