//! What files held before they were changed, named by its hash.
//!
//! The bytes lie in a directory of the session, each kept once. Whoever reads
//! them checks the hash, since a crash may have left half of them and commands
//! of a run may have written here. So they need no second name while they are
//! written. What they are kept for is the business of [`super::undo`].

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use nix::fcntl::OFlag;
use thiserror::Error;

use super::dirs::BLOBS;
use crate::event::Digest;

/// Largest file that is kept: as large as one that a tool changes.
pub const BLOB_CAP: u64 = 32 * 1024 * 1024;

/// Most bytes that are kept for one session: some thousand edits of large
/// source files, and no more than what a build leaves behind.
const TOTAL_CAP: u64 = 512 * 1024 * 1024;

/// Tells the unfinished files of this process apart.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The bytes that are kept for one session. A clone keeps them in the same
/// place and counts them together.
#[derive(Debug, Clone)]
pub struct Blobs {
    directory: PathBuf,
    most: u64,
    counted: Arc<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    /// How many bytes are kept, once somebody has looked.
    kept: OnceLock<AtomicU64>,
    /// What is known to be on disk. A mutex, because every unit keeps bytes;
    /// it is held for a look-up.
    synced: Mutex<HashSet<Digest>>,
    /// Whether anybody was told that something was not kept.
    is_told: AtomicBool,
}

/// Why bytes are not kept.
#[derive(Debug, Error)]
pub enum NotKept {
    /// The session has too many already.
    #[error("what files held before takes more than {} MiB", .most / 1024 / 1024)]
    Full {
        /// The most there may be.
        most: u64,
    },
    /// The operating system refused.
    #[error("what files held before cannot be kept: {0}")]
    Io(#[from] io::Error),
}

/// Why there are no bytes.
#[derive(Debug, Error)]
pub enum Lost {
    /// They were not kept, or are gone.
    #[error("what it held before was not kept")]
    Missing,
    /// What is there is not what was kept.
    #[error("what it held before is damaged")]
    Damaged,
    /// The operating system refused.
    #[error("what it held before cannot be read: {0}")]
    Io(#[source] io::Error),
}

impl Blobs {
    /// The bytes that are kept for the session in `directory`. Nothing is made
    /// until there are any.
    #[must_use]
    pub fn of(directory: &Path) -> Self {
        Self::bounded(directory, TOTAL_CAP)
    }

    fn bounded(directory: &Path, most: u64) -> Self {
        Self { directory: directory.join(BLOBS), most, counted: Arc::default() }
    }

    /// Keeps bytes, on disk before this returns.
    ///
    /// # Errors
    ///
    /// As for [`Blobs::keep_all`].
    pub fn keep(&self, digest: Digest, bytes: &[u8]) -> Result<(), NotKept> {
        self.keep_all([(digest, bytes)])
    }

    /// Keeps the bytes of several files, on disk before this returns. All of
    /// them are tried.
    ///
    /// # Errors
    ///
    /// Why some are not kept. Nothing else is lost by that.
    pub fn keep_all<'a>(
        &self,
        all: impl IntoIterator<Item = (Digest, &'a [u8])>,
    ) -> Result<(), NotKept> {
        let mut lost = None;
        let mut written = Vec::new();
        for (digest, bytes) in all {
            if self.synced().contains(&digest) {
                continue;
            }
            match self.put(digest, bytes) {
                Ok(()) => written.push(digest),
                Err(error) => lost = Some(error),
            }
        }
        if !written.is_empty() {
            // Once for all names.
            File::open(&self.directory)?.sync_all()?;
            self.synced().extend(written);
        }
        lost.map_or(Ok(()), Err)
    }

    /// Puts bytes on disk; the name is there once the directory is synced.
    fn put(&self, digest: Digest, bytes: &[u8]) -> Result<(), NotKept> {
        let path = self.path(digest);
        if is_there(&path, digest)? {
            return Ok(());
        }
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let kept = self.counted.kept.get_or_init(|| AtomicU64::new(size(&self.directory)));
        let before = kept.fetch_add(length, Ordering::Relaxed);
        let written = match before.saturating_add(length) > self.most {
            true => Err(NotKept::Full { most: self.most }),
            false => self.write(&path, bytes).map_err(NotKept::Io),
        };
        if written.is_err() {
            kept.fetch_sub(length, Ordering::Relaxed);
        }
        written
    }

    fn synced(&self) -> MutexGuard<'_, HashSet<Digest>> {
        self.counted.synced.lock().expect("nothing panics while it holds what is synced")
    }

    /// Tells whether this is the first time that somebody asks: one warning is
    /// enough for a run.
    #[must_use]
    pub fn is_first_warning(&self) -> bool {
        !self.counted.is_told.swap(true, Ordering::Relaxed)
    }

    /// Returns bytes that were kept.
    ///
    /// # Errors
    ///
    /// Why there are none.
    pub fn read(&self, digest: Digest) -> Result<Vec<u8>, Lost> {
        opened(&self.path(digest), digest).map(|(_, bytes)| bytes)
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.directory.join(digest.to_string())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match write_new(path, bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
                if let Some(above) = self.directory.parent() {
                    File::open(above)?.sync_all()?;
                }
                write_new(path, bytes)
            }
            // Something else: half of it, or another unit is just writing it,
            // which goes on without a name.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let count = COUNT.fetch_add(1, Ordering::Relaxed);
                let draft = self.directory.join(format!("new-{}-{count}", std::process::id()));
                let written = write_new(&draft, bytes).and_then(|()| fs::rename(&draft, path));
                if written.is_err() {
                    // The error that led here is the one to tell.
                    let _ = fs::remove_file(&draft);
                }
                written
            }
            written => written,
        }
    }
}

/// Tells whether bytes are kept already, and puts them on disk.
fn is_there(path: &Path, digest: Digest) -> io::Result<bool> {
    // What cannot be read is replaced, or refuses that.
    let Ok((file, _)) = opened(path, digest) else { return Ok(false) };
    file.sync_data()?;
    Ok(true)
}

/// Opens a file that holds what its name says, and returns that, too.
fn opened(path: &Path, digest: Digest) -> Result<(File, Vec<u8>), Lost> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Lost::Missing),
        opened => opened.map_err(Lost::Io)?,
    };
    // A pipe holds nothing, and is not what holds nothing.
    if !file.metadata().map_err(Lost::Io)?.is_file() {
        return Err(Lost::Damaged);
    }
    let mut bytes = Vec::new();
    (&file).take(BLOB_CAP + 1).read_to_end(&mut bytes).map_err(Lost::Io)?;
    if Digest::of(&bytes) == digest { Ok((file, bytes)) } else { Err(Lost::Damaged) }
}

/// Gives the session in `to` what is kept for the one in `from`.
pub(super) fn share(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (from.join(BLOBS), to.join(BLOBS));
    let entries = match fs::read_dir(&from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    DirBuilder::new().recursive(true).mode(0o700).create(&to)?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let is_kept = name.to_str().and_then(Digest::from_hex).is_some();
        if !is_kept || !entry.file_type()?.is_file() {
            continue;
        }
        let place = to.join(name);
        // Nobody ever writes into what is kept, so one file serves both.
        match fs::hard_link(entry.path(), &place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => write_new(&place, &fs::read(entry.path())?)?,
            Ok(()) => {}
        }
    }
    File::open(&to)?.sync_all()
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_data());
    if written.is_err() {
        // Not its name: somebody else may have put the whole there by now.
        let _ = file.set_len(0);
    }
    written
}

/// How many bytes lie in a directory; what cannot be looked at is none.
fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_kept_is_kept_once_for_the_user_alone() {
        let place = tempfile::tempdir().unwrap();
        let blobs = Blobs::of(place.path());
        let digest = Digest::of(b"old");
        assert!(matches!(blobs.read(digest), Err(Lost::Missing)));
        for _ in 0..2 {
            blobs.keep(digest, b"old").unwrap();
        }
        blobs.keep(Digest::of(b""), b"").unwrap();
        assert_eq!(blobs.read(digest).unwrap(), b"old");
        let directory = place.path().join(BLOBS);
        let mut expected = [digest.to_string(), Digest::of(b"").to_string()];
        expected.sort();
        assert_eq!(names(&directory), expected);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let file = directory.join(digest.to_string());
        assert_eq!((mode(&directory), mode(&file)), (0o700, 0o600));
    }

    #[test]
    fn a_session_keeps_no_more_than_its_bound_also_when_it_is_gone_on_with() {
        let place = tempfile::tempdir().unwrap();
        let keep = |blobs: &Blobs, bytes: &[u8]| {
            blobs.keep(Digest::of(bytes), bytes).map_err(|error| error.to_string())
        };
        let blobs = Blobs::bounded(place.path(), 10);
        assert_eq!(keep(&blobs, b"123456"), Ok(()));
        let full = Err("what files held before takes more than 0 MiB".to_owned());
        assert_eq!(keep(&blobs, b"12345"), full);
        assert_eq!(keep(&blobs, b"123456"), Ok(()));
        assert_eq!(keep(&blobs, b"1234"), Ok(()));
        assert_eq!(keep(&Blobs::bounded(place.path(), 10), b"1"), full);
        let other = blobs.clone();
        assert_eq!((blobs.is_first_warning(), other.is_first_warning()), (true, false));
    }

    #[test]
    fn what_somebody_else_put_there_is_not_taken_for_what_was_kept() {
        let place = tempfile::tempdir().unwrap();
        let blobs = Blobs::of(place.path());
        for bytes in [b"one", b"two"] {
            blobs.keep(Digest::of(bytes), bytes).unwrap();
        }
        let path = |bytes| place.path().join(BLOBS).join(Digest::of(bytes).to_string());
        fs::write(path(b"one"), "ONE").unwrap();
        assert!(matches!(blobs.read(Digest::of(b"one")), Err(Lost::Damaged)));
        fs::remove_file(path(b"two")).unwrap();
        fs::write(place.path().join("two"), "two").unwrap();
        symlink(place.path().join("two"), path(b"two")).unwrap();
        assert!(matches!(blobs.read(Digest::of(b"two")), Err(Lost::Io(_))));
    }

    #[test]
    fn what_a_crash_left_half_written_is_kept_anew() {
        let place = tempfile::tempdir().unwrap();
        let digest = Digest::of(b"whole");
        Blobs::of(place.path()).keep(digest, b"whole").unwrap();
        for half in [&b"wh"[..], b"wh\0\0\0", b""] {
            fs::write(place.path().join(BLOBS).join(digest.to_string()), half).unwrap();
            Blobs::of(place.path()).keep(digest, b"whole").unwrap();
            assert_eq!(Blobs::of(place.path()).read(digest).unwrap(), b"whole");
        }
        assert_eq!(names(&place.path().join(BLOBS)), [digest.to_string()]);
    }

    #[test]
    fn one_that_cannot_be_kept_does_not_keep_others_from_it() {
        let place = tempfile::tempdir().unwrap();
        let blobs = Blobs::bounded(place.path(), 4);
        let all = [&b"one"[..], b"seven", b"1"].map(|bytes| (Digest::of(bytes), bytes));
        assert!(matches!(blobs.keep_all(all), Err(NotKept::Full { most: 4 })));
        let read = all.map(|(digest, _)| blobs.read(digest).is_ok());
        assert_eq!(read, [true, false, true]);
    }

    #[test]
    fn a_copy_has_what_its_original_kept_and_loses_it_with_neither() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        share(&from, &to).unwrap();
        assert!(!to.exists());
        let digest = Digest::of(b"old");
        Blobs::of(&from).keep(digest, b"old").unwrap();
        fs::write(from.join(BLOBS).join("new-1-1"), "half").unwrap();
        for _ in 0..2 {
            share(&from, &to).unwrap();
        }
        fs::remove_dir_all(&from).unwrap();
        assert_eq!(Blobs::of(&to).read(digest).unwrap(), b"old");
        assert_eq!(names(&to.join(BLOBS)), [digest.to_string()]);
    }
}
