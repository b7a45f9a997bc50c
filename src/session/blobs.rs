//! What files held before they were changed, named by its hash.
//!
//! The bytes lie in packs in a directory of the session, each kept once: making
//! a file for each would cost more than writing them. A process adds to a pack
//! of its own. Whoever reads bytes checks the hash, since a crash may have left
//! half of them and commands of a run may have written here. What they are kept
//! for is the business of [`super::undo`].

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use thiserror::Error;
use uuid::Uuid;

use super::dirs::BLOBS;
use super::pack::{self, Piece};
use crate::event::Digest;

/// Largest file that is kept: as large as one that a tool changes.
pub const BLOB_CAP: u64 = 32 * 1024 * 1024;

/// Most bytes that are kept for one session: some thousand edits of large
/// source files, and no more than what a build leaves behind.
const TOTAL_CAP: u64 = 512 * 1024 * 1024;

/// The bytes that are kept for one session. A clone keeps them in the same
/// pack and counts them together.
#[derive(Debug, Clone)]
pub struct Blobs {
    directory: PathBuf,
    most: u64,
    // A mutex, because every unit keeps bytes. It is held while they are
    // written, not while they are synced.
    known: Arc<Mutex<Known>>,
}

/// What is known of the packs.
#[derive(Debug, Default)]
struct Known {
    /// The one that this process adds to.
    own: Option<Own>,
    /// How far each was looked through; none before the first look.
    looked: Option<HashMap<Uuid, u64>>,
    /// Where bytes lie, or what is taken for them.
    places: HashMap<Digest, Vec<(Uuid, Piece)>>,
    /// What is known to be on disk.
    synced: HashSet<Digest>,
    /// Packs whose bytes the disk has refused. What a second sync says of them
    /// is worth nothing.
    refused: HashSet<Uuid>,
    /// How many bytes there are.
    kept: u64,
    /// Whether anybody was told that something was not kept.
    is_told: bool,
}

/// A pack to add to.
#[derive(Debug, Clone)]
struct Own {
    name: Uuid,
    file: Arc<File>,
    end: u64,
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
        Self { directory: directory.join(BLOBS), most, known: Arc::default() }
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
        let mut written: HashMap<Uuid, (Arc<File>, Vec<Digest>)> = HashMap::new();
        for (digest, bytes) in all {
            match self.put(digest, bytes) {
                Ok(None) => {}
                Ok(Some((name, file))) => {
                    written.entry(name).or_insert((file, Vec::new())).1.push(digest);
                }
                Err(error) => lost = Some(error),
            }
        }
        // Once for all that came into a pack.
        for (name, (file, digests)) in written {
            match file.sync_data() {
                Ok(()) => self.known().synced.extend(digests),
                Err(error) => {
                    let mut known = self.known();
                    known.own.take_if(|own| own.name == name);
                    known.refused.insert(name);
                    lost = Some(error.into());
                }
            }
        }
        lost.map_or(Ok(()), Err)
    }

    /// Puts bytes into a pack. Returns the one in which they are, which is still
    /// to be synced; `None` if they are on disk.
    fn put(&self, digest: Digest, bytes: &[u8]) -> Result<Option<(Uuid, Arc<File>)>, NotKept> {
        let mut known = self.known();
        if known.synced.contains(&digest) {
            return Ok(None);
        }
        if known.looked.is_none() {
            // What cannot be read is kept anew, or refuses that.
            let _ = self.look(&mut known);
        }
        for &(name, piece) in known.places.get(&digest).into_iter().flatten() {
            if !known.refused.contains(&name)
                && let Ok((file, _)) = self.opened(name, piece, digest)
            {
                return Ok(Some((name, Arc::new(file))));
            }
        }
        let length = bytes.len() as u64;
        if known.kept.saturating_add(length) > self.most {
            return Err(NotKept::Full { most: self.most });
        }
        let own = self.own(&mut known)?;
        let piece = pack::append(&own.file, own.end, digest, bytes)?;
        known.add(own.name, [(digest, piece)]);
        known.own = Some(Own { end: piece.end(), ..own.clone() });
        Ok(Some((own.name, own.file)))
    }

    /// Returns the pack to add to.
    fn own(&self, known: &mut Known) -> io::Result<Own> {
        if let Some(own) = &known.own
            && own.file.metadata()?.nlink() > 0
        {
            return Ok(own.clone());
        }
        let name = Uuid::now_v7();
        let file = match pack::create(&self.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
                if let Some(above) = self.directory.parent() {
                    File::open(above)?.sync_all()?;
                }
                pack::create(&self.path(name))?
            }
            created => created?,
        };
        File::open(&self.directory)?.sync_all()?;
        Ok(known.own.insert(Own { name, file: Arc::new(file), end: 0 }).clone())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("nothing panics while it holds what is known")
    }

    /// Tells whether this is the first time that somebody asks: one warning is
    /// enough for a run.
    #[must_use]
    pub fn is_first_warning(&self) -> bool {
        !std::mem::replace(&mut self.known().is_told, true)
    }

    /// Returns bytes that were kept.
    ///
    /// # Errors
    ///
    /// Why there are none.
    pub fn read(&self, digest: Digest) -> Result<Vec<u8>, Lost> {
        let mut lost = Lost::Missing;
        let mut tried = 0;
        for is_second_look in [false, true] {
            let mut known = self.known();
            if is_second_look && let Err(error) = self.look(&mut known) {
                lost = Lost::Io(error);
            }
            let places = known.places.get(&digest).cloned().unwrap_or_default();
            drop(known);
            for &(name, piece) in places.get(tried..).unwrap_or_default() {
                match self.opened(name, piece, digest) {
                    Ok((_, bytes)) => return Ok(bytes),
                    Err(error) => lost = error,
                }
            }
            tried = places.len();
        }
        Err(lost)
    }

    /// Finds what others have put into packs since the last time.
    fn look(&self, known: &mut Known) -> io::Result<()> {
        known.looked.get_or_insert_default();
        let mut failed = Ok(());
        for (name, path) in packs(&self.directory)? {
            let from = known.looked.as_ref().and_then(|looked| looked.get(&name)).copied();
            match pack::open(&path).and_then(|file| pack::pieces(&file, from.unwrap_or(0))) {
                Ok(pieces) => known.add(name, pieces),
                Err(error) => failed = Err(error),
            }
        }
        failed
    }

    /// Opens the pack in which bytes are, and returns them, too.
    fn opened(&self, name: Uuid, piece: Piece, digest: Digest) -> Result<(File, Vec<u8>), Lost> {
        let lost = |because, lost| {
            move |error: io::Error| match error.kind() == because {
                true => lost,
                false => Lost::Io(error),
            }
        };
        let file = pack::open(&self.path(name));
        let file = file.map_err(lost(io::ErrorKind::NotFound, Lost::Missing))?;
        let bytes = pack::read(&file, piece);
        let bytes = bytes.map_err(lost(io::ErrorKind::UnexpectedEof, Lost::Damaged))?;
        if Digest::of(&bytes) == digest { Ok((file, bytes)) } else { Err(Lost::Damaged) }
    }

    fn path(&self, name: Uuid) -> PathBuf {
        self.directory.join(name.to_string())
    }
}

impl Known {
    /// Notes what lies in a pack behind what was known of it.
    fn add(&mut self, name: Uuid, pieces: impl IntoIterator<Item = (Digest, Piece)>) {
        let looked = self.looked.get_or_insert_default();
        for (digest, piece) in pieces {
            looked.insert(name, piece.end());
            self.kept += piece.length;
            self.places.entry(digest).or_default().push((name, piece));
        }
    }
}

/// Returns the packs in a directory.
fn packs(directory: &Path) -> io::Result<Vec<(Uuid, PathBuf)>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut packs = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        packs.extend(name.and_then(|name| Uuid::try_parse(name).ok()).map(|name| (name, path)));
    }
    Ok(packs)
}

/// Gives the session in `to` what is kept for the one in `from`.
pub(super) fn share(from: &Path, to: &Path) -> io::Result<()> {
    let to = to.join(BLOBS);
    let packs = packs(&from.join(BLOBS))?;
    if packs.is_empty() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&to)?;
    for (name, path) in packs {
        if !path.symlink_metadata()?.is_file() {
            continue;
        }
        let place = to.join(name.to_string());
        // What is in a pack never changes, so one file serves both.
        match fs::hard_link(&path, &place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => {
                let draft = to.join("new");
                fs::copy(&path, &draft)?;
                File::open(&draft)?.sync_all()?;
                fs::rename(&draft, &place)?;
            }
            Ok(()) => {}
        }
    }
    File::open(&to)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// The packs of a session, the oldest first.
    fn packs_of(session: &Path) -> Vec<PathBuf> {
        let mut all = packs(&session.join(BLOBS)).unwrap();
        all.sort();
        all.into_iter().map(|(_, path)| path).collect()
    }

    fn count(session: &Path) -> usize {
        fs::read_dir(session.join(BLOBS)).unwrap().count()
    }

    #[test]
    fn what_is_kept_is_kept_once_for_the_user_alone() {
        let place = tempfile::tempdir().unwrap();
        let blobs = Blobs::of(place.path());
        let digest = Digest::of(b"old");
        assert!(matches!(blobs.read(digest), Err(Lost::Missing)));
        for _ in 0..2 {
            blobs.clone().keep(digest, b"old").unwrap();
        }
        blobs.keep(Digest::of(b""), b"").unwrap();
        assert_eq!(blobs.read(digest).unwrap(), b"old");
        assert_eq!(blobs.read(Digest::of(b"")).unwrap(), b"");
        let [pack] = &packs_of(place.path())[..] else { panic!("there is one pack") };
        let pieces = pack::pieces(&pack::open(pack).unwrap(), 0).unwrap();
        let kept: Vec<Digest> = pieces.into_iter().map(|(digest, _)| digest).collect();
        assert_eq!(kept, [digest, Digest::of(b"")]);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&place.path().join(BLOBS)), mode(pack)), (0o700, 0o600));
    }

    #[test]
    fn what_one_keeps_the_other_reads_and_keeps_no_more() {
        let place = tempfile::tempdir().unwrap();
        let [one, other] = [Blobs::of(place.path()), Blobs::of(place.path())];
        let all = [&b"one"[..], b"two", b"three"].map(|bytes| (Digest::of(bytes), bytes));
        for (digest, bytes) in all {
            assert!(other.read(digest).is_err());
            one.keep(digest, bytes).unwrap();
            assert_eq!(other.read(digest).unwrap(), bytes);
            other.keep(digest, bytes).unwrap();
        }
        assert_eq!(count(place.path()), 1);
        other.keep(Digest::of(b"four"), b"four").unwrap();
        assert_eq!(one.read(Digest::of(b"four")).unwrap(), b"four");
        assert_eq!(count(place.path()), 2);
    }

    #[test]
    fn many_at_once_are_all_kept() {
        let place = tempfile::tempdir().unwrap();
        let blobs = Blobs::of(place.path());
        let bytes_of = |unit: u8, change: u8| vec![unit; usize::from(change) * 100];
        std::thread::scope(|scope| {
            for unit in 0..4 {
                let blobs = blobs.clone();
                scope.spawn(move || {
                    for change in 0..20 {
                        let bytes = bytes_of(unit, change);
                        blobs.keep(Digest::of(&bytes), &bytes).unwrap();
                    }
                });
            }
        });
        let later = Blobs::of(place.path());
        for (unit, change) in (0..4).flat_map(|unit| (0..20).map(move |change| (unit, change))) {
            let bytes = bytes_of(unit, change);
            assert_eq!(later.read(Digest::of(&bytes)).unwrap(), bytes);
        }
        assert_eq!(count(place.path()), 1);
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
        let [pack] = &packs_of(place.path())[..] else { panic!("there is one pack") };
        let forged = fs::read_to_string(pack).unwrap().replace("one", "ONE");
        fs::write(pack, forged).unwrap();
        for blobs in [&blobs, &Blobs::of(place.path())] {
            assert!(matches!(blobs.read(Digest::of(b"one")), Err(Lost::Damaged)));
            assert_eq!(blobs.read(Digest::of(b"two")).unwrap(), b"two");
        }
        let elsewhere = place.path().join("elsewhere");
        fs::rename(pack, &elsewhere).unwrap();
        symlink(elsewhere, pack).unwrap();
        for blobs in [&blobs, &Blobs::of(place.path())] {
            assert!(matches!(blobs.read(Digest::of(b"two")), Err(Lost::Io(_))));
        }
    }

    #[test]
    fn what_a_crash_left_half_written_is_kept_anew() {
        let place = tempfile::tempdir().unwrap();
        let digest = Digest::of(b"whole");
        Blobs::of(place.path()).keep(digest, b"whole").unwrap();
        let [pack] = &packs_of(place.path())[..] else { panic!("there is one pack") };
        let whole = fs::read_to_string(pack).unwrap();
        let halves = [whole.replace("ole", ""), whole.replace("ole", "\0\0\0"), String::new()];
        for (before, half) in halves.iter().enumerate() {
            for pack in packs_of(place.path()) {
                fs::write(pack, half).unwrap();
            }
            Blobs::of(place.path()).keep(digest, b"whole").unwrap();
            assert_eq!(Blobs::of(place.path()).read(digest).unwrap(), b"whole");
            assert_eq!(count(place.path()), before + 2);
        }
    }

    #[test]
    fn what_is_removed_meanwhile_is_begun_anew() {
        let place = tempfile::tempdir().unwrap();
        let blobs = Blobs::of(place.path());
        blobs.keep(Digest::of(b"one"), b"one").unwrap();
        fs::remove_dir_all(place.path().join(BLOBS)).unwrap();
        blobs.keep(Digest::of(b"two"), b"two").unwrap();
        assert!(matches!(blobs.read(Digest::of(b"one")), Err(Lost::Missing)));
        assert_eq!(Blobs::of(place.path()).read(Digest::of(b"two")).unwrap(), b"two");
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
        let [old, new, other] = [b"old", b"new", b"not"].map(|bytes| (Digest::of(bytes), bytes));
        let original = Blobs::of(&from);
        original.keep(old.0, old.1).unwrap();
        fs::write(from.join(BLOBS).join("other"), "no pack").unwrap();
        for _ in 0..2 {
            share(&from, &to).unwrap();
        }
        assert_eq!(count(&to), 1);
        let copy = Blobs::of(&to);
        copy.keep(new.0, new.1).unwrap();
        original.keep(other.0, other.1).unwrap();
        assert!(original.read(new.0).is_err());
        fs::remove_dir_all(&from).unwrap();
        for copy in [copy, Blobs::of(&to)] {
            assert_eq!(copy.read(old.0).unwrap(), old.1);
            assert_eq!(copy.read(new.0).unwrap(), new.1);
        }
    }
}
