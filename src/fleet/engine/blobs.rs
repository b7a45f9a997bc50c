//! Large things, named after what is in them.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_nats::jetstream::object_store::{GetErrorKind, ObjectInfo, ObjectStore};
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::pieces::Blob;
use super::tries::Failed;
use super::{Engine, EngineError};

/// The largest blob, in bytes: the history of a large repository, and still what a
/// worker holds in memory.
pub const BLOB_CAP: usize = 512 * 1024 * 1024;

/// Longest wait for the next piece.
const PIECE_LIMIT: Duration = Duration::from_secs(10);

/// How often a blob may be missing before that is believed: by then a second has gone.
const MISSES: u32 = 3;

/// How old a blob may be to be there for those that are told of it now; its pieces
/// go a week after they were written.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// A blob's name: the BLAKE3 hash of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hash(blake3::Hash);

impl Hash {
    /// Returns the name of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.to_hex())
    }
}

impl FromStr for Hash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hash = blake3::Hash::from_hex(text);
        hash.map(Self).map_err(|_| format!("`{text}` is not the name of a blob"))
    }
}

impl Engine {
    /// Stores a blob, if it is not there, and returns its name. A server that is away
    /// is waited for: dropping the future gives up.
    ///
    /// # Errors
    ///
    /// One larger than [`BLOB_CAP`], or a store that does not take it.
    pub async fn put_blob(&self, bytes: &[u8]) -> Result<Hash, EngineError> {
        if bytes.len() > BLOB_CAP {
            return Err(EngineError::LargeBlob { size: bytes.len(), cap: BLOB_CAP });
        }
        let hash = Hash::of(bytes);
        let blob = Blob::new(hash, bytes);
        let store = self.blobs().await?;
        let put = || async {
            // Somebody else may have written something else under its name.
            let before = store.info(blob.name()).await.ok().filter(|info| blob.is(info));
            if before.as_ref().is_some_and(is_fresh) {
                return Ok(hash);
            }
            let is_there = async || {
                let now = store.info(blob.name()).await;
                now.is_ok_and(|info| blob.is(&info) && is_fresh(&info))
            };
            self.write_blob(&blob, is_there).await?;
            if let Some(before) = before.filter(|info| is_number(&info.nuid)) {
                // They are old; without this they go by themselves soon.
                let _ = self.purge_pieces(&before.nuid).await;
            }
            Ok(hash)
        };
        self.tried("storing a blob", put).await
    }

    /// Reads a blob and checks that it is what its name says. A server that is away is
    /// waited for.
    ///
    /// # Errors
    ///
    /// None of that name, one that is too large or false, or a store that cannot be
    /// read.
    pub async fn get_blob(&self, hash: Hash) -> Result<Vec<u8>, EngineError> {
        let store = self.blobs().await?;
        let misses = AtomicU32::new(0);
        let get = || async {
            let got = read(&store, hash).await;
            match got {
                // Any server of a cluster may answer, also one that is behind.
                Err(Failed::Final(EngineError::NoBlob { name }))
                    if misses.fetch_add(1, Ordering::Relaxed) < MISSES =>
                {
                    Err(Failed::Passing(format!("blob {name} is not there")))
                }
                got => got,
            }
        };
        self.tried("reading a blob", get).await
    }

    async fn blobs(&self) -> Result<ObjectStore, EngineError> {
        let open = || async {
            let store = self.jetstream.get_object_store(self.names.blobs_bucket()).await;
            store.map_err(|error| Failed::Passing(error.to_string()))
        };
        self.tried("opening the blobs", open).await
    }
}

/// Tells whether an object will be there for a while.
fn is_fresh(info: &ObjectInfo) -> bool {
    let age = info.modified.map(|then| async_nats::datetime::now() - then);
    age.and_then(|age| age.try_into().ok()).is_none_or(|age: Duration| age < FRESH)
}

/// Tells whether this may be the number of pieces, and not a pattern for others.
fn is_number(nuid: &str) -> bool {
    !nuid.is_empty() && nuid.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

async fn read(store: &ObjectStore, hash: Hash) -> Result<Vec<u8>, Failed> {
    let name = hash.to_string();
    let found = store.get(&name).await.map_err(|error| match error.kind() {
        GetErrorKind::NotFound | GetErrorKind::InvalidName | GetErrorKind::BucketLink => {
            Failed::Final(EngineError::NoBlob { name: name.clone() })
        }
        GetErrorKind::ConsumerCreate | GetErrorKind::TimedOut | GetErrorKind::Other => {
            Failed::Passing(error.to_string())
        }
    })?;
    let size = found.info.size;
    if size > BLOB_CAP {
        return Err(Failed::Final(EngineError::LargeBlob { size, cap: BLOB_CAP }));
    }
    let is_false = || Failed::Final(EngineError::FalseBlob { name: name.clone() });
    // What is there may be more than it says of itself.
    let mut pieces = found.take(BLOB_CAP as u64 + 1);
    let mut bytes = Vec::with_capacity(size);
    loop {
        match timeout(PIECE_LIMIT, pieces.read_buf(&mut bytes)).await {
            Err(_) => return Err(Failed::Passing("no piece in time".to_owned())),
            Ok(Ok(0)) => break,
            Ok(Ok(_)) => {}
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
                return Err(is_false());
            }
            Ok(Err(error)) => return Err(Failed::Passing(error.to_string())),
        }
    }
    if Hash::of(&bytes) == hash { Ok(bytes) } else { Err(is_false()) }
}
