//! What files held before they were changed, named by its hash.
//!
//! The bytes lie in packs in a directory of the session: making a file for each
//! would cost more than writing them. Each [`Blobs`] adds to a pack of its own.
//! Whoever reads bytes checks the hash, since a crash may have left half of them
//! and commands of a run may have written here. What they are kept for is the
//! business of [`super::undo`].

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use thiserror::Error;
use uuid::Uuid;

use super::dirs::BLOBS;
use super::pack::{self, Extent};
use crate::event::Digest;

/// Largest file that is kept: as large as one that a tool changes.
pub const BLOB_CAP: u64 = 32 * 1024 * 1024;

/// Most bytes of all packs of one session, also of those that it shares: some
/// thousand edits of large source files, and no more than what a build leaves
/// behind.
const TOTAL_CAP: u64 = 512 * 1024 * 1024;

/// What a pack is called until it is whole, where one is copied.
const DRAFT: &str = "new";

/// The bytes that are kept for one session. A clone keeps them in the same
/// pack and counts them together.
#[derive(Debug, Clone)]
pub struct Blobs {
    /// Where packs lie; `None` if nothing is kept.
    directory: Option<PathBuf>,
    most: u64,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    // Held until what is written is on disk: of two syncs of one file only the
    // first learns that the disk has refused.
    kept: Mutex<Kept>,
    /// Where bytes lie, as far as anybody has looked.
    found: Mutex<Found>,
    /// Whether anybody was told that something was not kept.
    is_told: AtomicBool,
}

/// What was kept here.
#[derive(Debug, Default)]
struct Kept {
    own: Option<Own>,
    /// What is on disk, in the pack that is added to.
    synced: HashSet<Digest>,
    /// How many bytes all packs held when first looked at, and what has come
    /// from here since.
    total: Option<u64>,
}

/// The pack to add to.
#[derive(Debug)]
struct Own {
    path: PathBuf,
    file: File,
    end: u64,
}

#[derive(Debug, Default)]
struct Found {
    /// How far each pack was looked through.
    ends: HashMap<Uuid, u64>,
    /// More than one place where the first may be damaged.
    places: HashMap<Digest, Vec<(Uuid, Extent)>>,
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
    /// It is more than is to be read.
    #[error("what it held before is longer than {most} bytes")]
    TooLong {
        /// The most that was to be read.
        most: u64,
    },
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

    /// Keeps nothing, where nobody can undo anything.
    #[must_use]
    pub fn nowhere() -> Self {
        Self { directory: None, most: 0, shared: Arc::default() }
    }

    fn bounded(directory: &Path, most: u64) -> Self {
        Self { directory: Some(directory.join(BLOBS)), most, shared: Arc::default() }
    }

    /// Keeps bytes, on disk before this returns.
    ///
    /// # Errors
    ///
    /// As for [`Blobs::keep_all`].
    pub fn keep(&self, digest: Digest, bytes: &[u8]) -> Result<(), NotKept> {
        self.keep_all([(digest, bytes)])
    }

    /// Keeps the bytes of several files, on disk before this returns: of all for
    /// which there is room.
    ///
    /// # Errors
    ///
    /// Why some are not kept. What was kept before is not lost by that.
    pub fn keep_all<'a>(
        &self,
        all: impl IntoIterator<Item = (Digest, &'a [u8])>,
    ) -> Result<(), NotKept> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let kept = &mut *self.shared.kept.lock().expect("nothing panics while it keeps");
        let total = *kept.total.get_or_insert_with(|| size(directory));
        let (mut new, mut lost) = (Vec::new(), None);
        let mut room = self.most.saturating_sub(total);
        kept.begin_anew_unless_in_place();
        for (digest, bytes) in all {
            if kept.synced.contains(&digest) {
                continue;
            }
            match room.checked_sub(pack::size(bytes)).filter(|_| bytes.len() as u64 <= BLOB_CAP) {
                Some(left) => {
                    room = left;
                    new.push((digest, bytes));
                }
                None => lost = Some(NotKept::Full { most: self.most }),
            }
        }
        if !new.is_empty()
            && let Err(error) = kept.write(directory, &new)
        {
            lost = Some(error.into());
        }
        lost.map_or(Ok(()), Err)
    }

    /// Tells whether this is the first time that somebody asks: one warning is
    /// enough for a run.
    #[must_use]
    pub fn is_first_warning(&self) -> bool {
        !self.shared.is_told.swap(true, Ordering::Relaxed)
    }

    /// Returns bytes that were kept.
    ///
    /// # Errors
    ///
    /// Why there are none.
    pub fn read(&self, digest: Digest) -> Result<Vec<u8>, Lost> {
        self.read_short(digest, BLOB_CAP)
    }

    /// The same for whoever has no use for more than so many bytes.
    ///
    /// # Errors
    ///
    /// Why there are none.
    pub fn read_short(&self, digest: Digest, most: u64) -> Result<Vec<u8>, Lost> {
        let Some(directory) = &self.directory else { return Err(Lost::Missing) };
        let mut found = self.shared.found.lock().expect("nothing panics while it looks");
        // Most are found where somebody has looked before.
        if let Ok(bytes) = found.read(directory, digest, most) {
            return Ok(bytes);
        }
        let looked = found.look(directory);
        let bytes = found.read(directory, digest, most);
        match (bytes, looked) {
            (Err(Lost::Missing), Err(error)) => Err(Lost::Io(error)),
            (bytes, _) => bytes,
        }
    }
}

impl Kept {
    /// Another pack is begun where this one was moved, emptied or written to by
    /// somebody else: what was in it may be gone.
    fn begin_anew_unless_in_place(&mut self) {
        if self.own.take_if(|own| !own.is_in_place()).is_some() {
            self.synced.clear();
        }
    }

    /// Puts bytes on disk: all of them, or none.
    fn write(&mut self, directory: &Path, new: &[(Digest, &[u8])]) -> io::Result<()> {
        let own = match self.own.take() {
            Some(own) => own,
            None => Own::begin(directory)?,
        };
        let written = new
            .iter()
            .try_fold(own.end, |end, (digest, bytes)| pack::append(&own.file, end, *digest, bytes));
        match written.and_then(|end| own.file.sync_data().map(|()| end)) {
            Ok(end) => {
                self.total = self.total.map(|total| total.saturating_add(end - own.end));
                self.own = Some(Own { end, ..own });
                self.synced.extend(new.iter().map(|(digest, _)| *digest));
                Ok(())
            }
            Err(error) => {
                // The next ones go into another pack. What a later sync would say
                // of this one is worth nothing, and what it said before may have
                // been of bytes beside those that are refused now.
                self.synced.clear();
                own.give_up();
                Err(error)
            }
        }
    }
}

impl Own {
    fn begin(directory: &Path) -> io::Result<Self> {
        let path = directory.join(Uuid::now_v7().to_string());
        let file = match pack::create(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
                if let Some(above) = directory.parent() {
                    File::open(above)?.sync_all()?;
                }
                pack::create(&path)?
            }
            created => created?,
        };
        File::open(directory)?.sync_all()?;
        Ok(Self { path, file, end: 0 })
    }

    /// Takes back what was added last.
    fn give_up(self) {
        // Whoever calls this has an error to tell already, and what stays is no
        // more than room.
        let _ = match self.end {
            0 => fs::remove_file(&self.path),
            end => self.file.set_len(end),
        };
    }

    /// Tells whether it is still what its name stands for, and as it was left:
    /// commands may have moved it away or written to it.
    fn is_in_place(&self) -> bool {
        let named = self.path.symlink_metadata();
        let held = self.file.metadata();
        named.is_ok_and(|named| {
            named.len() == self.end
                && held.is_ok_and(|held| (held.dev(), held.ino()) == (named.dev(), named.ino()))
        })
    }
}

impl Found {
    /// Returns bytes that were found.
    fn read(&self, directory: &Path, digest: Digest, most: u64) -> Result<Vec<u8>, Lost> {
        let mut lost = Lost::Missing;
        for &(name, extent) in self.places.get(&digest).into_iter().flatten() {
            if extent.length() > most {
                lost = Lost::TooLong { most };
                continue;
            }
            let file = pack::open(&directory.join(name.to_string()));
            match file.and_then(|file| pack::read(&file, extent)) {
                Ok(bytes) if Digest::of(&bytes) == digest => return Ok(bytes),
                Ok(_) => lost = Lost::Damaged,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => lost = Lost::Damaged,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => lost = Lost::Io(error),
            }
        }
        Err(lost)
    }

    /// Finds what has come into packs since the last time.
    fn look(&mut self, directory: &Path) -> io::Result<()> {
        let mut looked = Ok(());
        for (name, path) in packs(directory)? {
            let end = self.ends.entry(name).or_default();
            match pack::open(&path).and_then(|file| pack::entries(&file, *end)) {
                Ok(entries) => {
                    for (digest, extent) in entries {
                        *end = extent.end();
                        self.places.entry(digest).or_default().push((name, extent));
                    }
                }
                Err(error) => looked = Err(error),
            }
        }
        looked
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
        // A UUID may be written in several ways; a pack has one name.
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| Uuid::try_parse(name).ok().filter(|uuid| uuid.to_string() == name));
        packs.extend(name.map(|name| (name, path)));
    }
    Ok(packs)
}

/// How many bytes all packs hold; what cannot be looked at holds none.
fn size(directory: &Path) -> u64 {
    let packs = packs(directory).unwrap_or_default();
    let found = packs.iter().filter_map(|(_, path)| path.symlink_metadata().ok());
    found.fold(0, |sum, found| sum.saturating_add(found.len()))
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
        // What is in a pack stays, whatever comes behind it: one file serves both.
        match fs::hard_link(&path, &place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => copy(&path, &place)?,
            Ok(()) => {}
        }
    }
    File::open(&to)?.sync_all()
}

/// Copies a pack where there are no hard links.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let draft = to.with_file_name(DRAFT);
    let copied = fs::copy(from, &draft)
        .and_then(|_| File::open(&draft)?.sync_all())
        .and_then(|()| fs::rename(&draft, to));
    if copied.is_err() {
        // The error that led here is the one to tell.
        let _ = fs::remove_file(&draft);
    }
    copied
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
        assert!(matches!(blobs.read_short(digest, 2), Err(Lost::TooLong { most: 2 })));
        assert_eq!(blobs.read_short(digest, 3).unwrap(), b"old");
        assert_eq!(blobs.read(Digest::of(b"")).unwrap(), b"");
        let [pack] = &packs_of(place.path())[..] else { panic!("there is one pack") };
        let entries = pack::entries(&pack::open(pack).unwrap(), 0).unwrap();
        let kept: Vec<Digest> = entries.into_iter().map(|(digest, _)| digest).collect();
        assert_eq!(kept, [digest, Digest::of(b"")]);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&place.path().join(BLOBS)), mode(pack)), (0o700, 0o600));
    }

    #[test]
    fn what_one_keeps_the_other_reads() {
        let place = tempfile::tempdir().unwrap();
        let [one, other] = [Blobs::of(place.path()), Blobs::of(place.path())];
        for (bytes, keeps, reads) in
            [(&b"one"[..], &one, &other), (b"two", &one, &other), (b"three", &other, &one)]
        {
            let digest = Digest::of(bytes);
            assert!(reads.read(digest).is_err());
            keeps.keep(digest, bytes).unwrap();
            assert_eq!(reads.read(digest).unwrap(), bytes);
        }
        assert_eq!(count(place.path()), 2);
    }

    #[test]
    fn what_is_kept_nowhere_is_missing() {
        let blobs = Blobs::nowhere();
        let digest = Digest::of(b"one");
        blobs.keep(digest, b"one").unwrap();
        assert!(matches!(blobs.read(digest), Err(Lost::Missing)));
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
        // Each stands behind a line of 76 bytes.
        let most = 76 + 6 + 76 + 4;
        let blobs = Blobs::bounded(place.path(), most);
        assert_eq!(keep(&blobs, b"123456"), Ok(()));
        let full = Err("what files held before takes more than 0 MiB".to_owned());
        assert_eq!(keep(&blobs, &[b'x'; 100]), full);
        assert_eq!(keep(&blobs, b"123456"), Ok(()));
        assert_eq!(keep(&blobs, b"1234"), Ok(()));
        assert_eq!(keep(&Blobs::bounded(place.path(), most), b"1"), full);
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
    fn where_the_pack_was_moved_cut_or_written_to_another_one_is_begun() {
        type Meddle = fn(&Path, &Path);
        let same_again = |_: &Path, pack: &Path| {
            let bytes = fs::read(pack).unwrap();
            fs::remove_file(pack).unwrap();
            fs::write(pack, bytes).unwrap();
        };
        let meddle: [Meddle; 5] = [
            same_again,
            |session, _| fs::remove_dir_all(session.join(BLOBS)).unwrap(),
            |session, pack| fs::rename(pack, session.join("moved")).unwrap(),
            |_, pack| fs::write(pack, "").unwrap(),
            |_, pack| fs::write(pack, fs::read_to_string(pack).unwrap() + "x").unwrap(),
        ];
        for meddle in meddle {
            let place = tempfile::tempdir().unwrap();
            let session = place.path().join("session");
            let blobs = Blobs::of(&session);
            blobs.keep(Digest::of(b"one"), b"one").unwrap();
            // A copy of the session still has it.
            share(&session, &place.path().join("copy")).unwrap();
            let first = &packs_of(&session)[0];
            meddle(&session, first);
            for bytes in [b"two", b"one"] {
                blobs.keep(Digest::of(bytes), bytes).unwrap();
            }
            let others = packs_of(&session).into_iter().filter(|pack| pack != first).count();
            assert_eq!(others, 1);
            for (blobs, bytes) in [(&blobs, b"one"), (&Blobs::of(&session), b"two")] {
                assert_eq!(blobs.read(Digest::of(bytes)).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn after_a_disk_that_refuses_all_is_kept_anew_in_another_pack() {
        let place = tempfile::tempdir().unwrap();
        let blobs = Blobs::of(place.path());
        let one = (Digest::of(b"one"), &b"one"[..]);
        blobs.keep(one.0, one.1).unwrap();
        // Nothing can be written to what was opened to be read.
        let sick = place.path().join("sick");
        fs::write(&sick, "").unwrap();
        let own = Own { path: sick.clone(), file: File::open(&sick).unwrap(), end: 0 };
        blobs.shared.kept.lock().unwrap().own = Some(own);
        let two = (Digest::of(b"two"), &b"two"[..]);
        assert!(matches!(blobs.keep(two.0, two.1), Err(NotKept::Io(_))));
        assert!(!sick.exists());
        blobs.keep_all([one, two]).unwrap();
        let [_, second] = &packs_of(place.path())[..] else { panic!("there are two packs") };
        let entries = pack::entries(&pack::open(second).unwrap(), 0).unwrap();
        let kept: Vec<Digest> = entries.into_iter().map(|(digest, _)| digest).collect();
        assert_eq!(kept, [one.0, two.0]);
    }

    #[test]
    fn another_spelling_of_its_name_does_not_hide_a_pack() {
        let place = tempfile::tempdir().unwrap();
        let session = place.path().join("session");
        let blobs = Blobs::of(&session);
        blobs.keep(Digest::of(b"one"), b"one").unwrap();
        let pack = &packs_of(&session)[0];
        let name = pack.file_name().unwrap().to_str().unwrap();
        for alias in [name.replace('-', ""), name.to_uppercase(), format!("{{{name}}}")] {
            fs::write(session.join(BLOBS).join(alias), "no pack").unwrap();
        }
        let copy = place.path().join("copy");
        share(&session, &copy).unwrap();
        for session in [&session, &copy] {
            assert_eq!(Blobs::of(session).read(Digest::of(b"one")).unwrap(), b"one");
        }
        assert_eq!(count(&copy), 1);
    }

    #[test]
    fn a_copy_is_whole_or_not_there() {
        let place = tempfile::tempdir().unwrap();
        let blobs = Blobs::of(place.path());
        blobs.keep(Digest::of(b"one"), b"one").unwrap();
        let pack = &packs_of(place.path())[0];
        let to = place.path().join("to");
        fs::create_dir(&to).unwrap();
        copy(pack, &to.join("copy")).unwrap();
        assert_eq!(fs::read(to.join("copy")).unwrap(), fs::read(pack).unwrap());
        assert!(copy(&place.path().join("missing"), &to.join("other")).is_err());
        assert_eq!(fs::read_dir(&to).unwrap().count(), 1);
    }

    #[test]
    fn one_that_cannot_be_kept_does_not_keep_others_from_it() {
        let place = tempfile::tempdir().unwrap();
        let blobs = Blobs::bounded(place.path(), 200);
        let all = [&b"one"[..], &[b'x'; 300], b"1"].map(|bytes| (Digest::of(bytes), bytes));
        assert!(matches!(blobs.keep_all(all), Err(NotKept::Full { most: 200 })));
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
        // What the original keeps later comes along, which harms nobody.
        original.keep(other.0, other.1).unwrap();
        assert_eq!(copy.read(other.0).unwrap(), other.1);
        assert!(original.read(new.0).is_err());
        fs::remove_dir_all(&from).unwrap();
        for copy in [copy, Blobs::of(&to)] {
            assert_eq!(copy.read(old.0).unwrap(), old.1);
            assert_eq!(copy.read(new.0).unwrap(), new.1);
        }
    }
}
