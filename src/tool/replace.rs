//! Puts new bytes into a file so that a crash leaves the old or the new ones.
//!
//! The way is a temporary file in the same directory, then a rename. The temporary file
//! has no name until it is on disk, so a process that is killed leaves nothing behind,
//! unless the file system can only make files with names. Where a
//! rename would lose something (other names of the file, its owner), the file
//! is written in place. All of it happens in a directory that is held, by
//! name, so nothing can lead it elsewhere. Locks and hashes are the business
//! of `files`.

use std::ffi::OsString;
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, fstatat};
use nix::unistd::{UnlinkatFlags, linkat, symlinkat, unlinkat};

use super::roots::Spot;

/// The mode of a new file; the process's own mask takes bits away.
pub const NEW_FILE_MODE: u32 = 0o666;

/// The bits that let a file be run.
const RUNNABLE_BITS: u32 = 0o111;

/// The bits of a mode that can be given to a file.
const MODE_BITS: u32 = 0o7777;

/// Most names that are tried for a temporary file. One is taken only where a
/// process of the same number was killed before.
const NAMES_CAP: u32 = 1_000;

/// Tells the temporary files of this process apart.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// How a file was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// There was no file.
    Created,
    /// A new file took the old one's place.
    Renamed,
    /// The file was written in place, because it has other names too.
    InPlaceForLinks,
    /// The file was written in place, because a new one could not be given to
    /// the same owner.
    InPlaceForOwner,
    /// The name is gone.
    Deleted,
}

/// Whose a file is, and who may do what with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// The mode, without the kind of file.
    pub mode: u32,
    /// The user.
    pub owner: u32,
    /// The group.
    pub group: u32,
}

impl Rights {
    /// Returns those of a file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        let mode = metadata.mode() & MODE_BITS;
        Self { mode, owner: metadata.uid(), group: metadata.gid() }
    }
}

/// What tells that a file is as it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    node: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// That of no file: of one that cannot be looked at.
    const NONE: Self = Self { node: (0, 0), size: 0, modified: (0, 0), changed: (0, 0) };

    /// That of an open file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            node: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// That of what has a name, be it a link; `None` if nothing has.
    ///
    /// # Errors
    ///
    /// The file system refused.
    pub fn at(spot: &Spot) -> io::Result<Option<Self>> {
        let found = match fstatat(spot.directory(), spot.name(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Err(Errno::ENOENT) => return Ok(None),
            found => found?,
        };
        Ok(Some(Self {
            node: (found.st_dev, found.st_ino),
            size: found.st_size.cast_unsigned(),
            modified: (found.st_mtime, found.st_mtime_nsec),
            changed: (found.st_ctime, found.st_ctime_nsec),
        }))
    }
}

/// Why a file was not written.
#[derive(Debug)]
pub struct Failed {
    /// Why.
    pub error: io::Error,
    /// What is left of a file that was being written in place; `None` if it
    /// still has its old bytes.
    pub half: Option<Stamp>,
}

impl<E: Into<io::Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self { error: error.into(), half: None }
    }
}

/// Who may do what with a file that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// An old file keeps its rights; a new one gets what the process's own mask
    /// allows.
    Usual,
    /// The same, but a new one can be run.
    Runnable,
    /// These.
    Exactly(Rights),
}

impl Access {
    /// Returns the mode of a file that had the mode `before`; of a new one the
    /// process's own mask takes bits away, if the mode is not asked for.
    #[must_use]
    pub fn mode(self, before: Option<u32>) -> u32 {
        match self {
            Self::Usual => before.unwrap_or(NEW_FILE_MODE),
            Self::Runnable => before.unwrap_or(NEW_FILE_MODE | RUNNABLE_BITS),
            Self::Exactly(rights) => rights.mode,
        }
    }

    fn rights(self) -> Option<Rights> {
        match self {
            Self::Usual | Self::Runnable => None,
            Self::Exactly(rights) => Some(rights),
        }
    }
}

/// Makes `bytes` the contents of a file, on disk before this returns; a new
/// name is there once the directory is synced.
///
/// # Errors
///
/// The file system refused.
pub fn write(spot: &Spot, bytes: &[u8], access: Access) -> Result<(Made, Stamp), Failed> {
    let Some(old) = writable(spot)? else {
        let new = Temporary::written(spot, bytes, access.mode(None))?;
        if let Some(rights) = access.rights() {
            // Only root may give files away; anybody's own new file is theirs.
            let _ = new.take(rights)?;
        }
        new.file.sync_data()?;
        return Ok((Made::Created, new.become_first()?));
    };
    let metadata = old.metadata()?;
    let own = Rights::of(&metadata);
    let mode = access.mode(Some(own.mode));
    if metadata.nlink() > 1 {
        return Ok((Made::InPlaceForLinks, write_in_place(old, bytes, mode)?));
    }
    match replaced(spot, bytes, Rights { mode, ..own })? {
        Some(stamp) => Ok((Made::Renamed, stamp)),
        None => Ok((Made::InPlaceForOwner, write_in_place(old, bytes, mode)?)),
    }
}

/// Puts a file in the place of a link.
///
/// # Errors
///
/// The file system refused.
pub fn write_over_link(spot: &Spot, bytes: &[u8], access: Access) -> io::Result<Stamp> {
    let new = Temporary::written(spot, bytes, access.mode(None))?;
    if let Some(rights) = access.rights() {
        // As for a file that is new.
        let _ = new.take(rights)?;
    }
    new.file.sync_data()?;
    new.replace()
}

/// Makes a link where nothing is.
///
/// # Errors
///
/// Something is there, or the file system refused.
pub fn link(spot: &Spot, to: &Path) -> io::Result<Stamp> {
    symlinkat(to, spot.directory(), spot.name())?;
    Ok(Stamp::at(spot)?.unwrap_or(Stamp::NONE))
}

/// Puts a link in the place of whatever has the name.
///
/// # Errors
///
/// It is a directory, or the file system refused.
pub fn link_over(spot: &Spot, to: &Path) -> io::Result<Stamp> {
    let directory = spot.directory();
    let (name, ()) = fresh(|name| symlinkat(to, directory, name))?;
    let name = Path::new(&name);
    if let Err(error) = renameat(directory, name, directory, spot.name()) {
        // The error that led here is said.
        let _ = unlinkat(directory, name, UnlinkatFlags::NoRemoveDir);
        return Err(error.into());
    }
    Ok(Stamp::at(spot)?.unwrap_or(Stamp::NONE))
}

/// Makes a file again what it was, whatever protects it from being written: it
/// is as it is because of us.
///
/// # Errors
///
/// The file system refused.
pub fn restore(spot: &Spot, bytes: &[u8], rights: Rights) -> io::Result<()> {
    let found = fstatat(spot.directory(), spot.name(), AtFlags::AT_SYMLINK_NOFOLLOW);
    let has_other_names = found.is_ok_and(|found| found.st_nlink > 1);
    if found.is_ok() && !has_other_names && replaced(spot, bytes, rights)?.is_some() {
        return Ok(());
    }
    write(spot, bytes, Access::Exactly(rights)).map(drop).map_err(|failed| failed.error)
}

/// Takes a name away; it is gone once the directory is synced.
///
/// # Errors
///
/// There is nothing, or the file system refused.
pub fn unlink(spot: &Spot) -> io::Result<()> {
    Ok(unlinkat(spot.directory(), spot.name(), UnlinkatFlags::NoRemoveDir)?)
}

/// Refuses a file that may not be written, or is none.
///
/// # Errors
///
/// Why not.
pub fn refuse_protected(spot: &Spot) -> io::Result<()> {
    writable(spot)?.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Puts a new file in an old one's place; `None` if it cannot be given to the
/// same owner.
fn replaced(spot: &Spot, bytes: &[u8], rights: Rights) -> io::Result<Option<Stamp>> {
    let new = Temporary::written(spot, bytes, rights.mode)?;
    if !new.take(rights)? {
        return Ok(None);
    }
    // With its size and its rights: they come with what tells where the bytes
    // of a new file are.
    new.file.sync_data()?;
    new.replace().map(Some)
}

/// Opens a file for writing: a rename would get past a file's own protection.
fn writable(spot: &Spot) -> io::Result<Option<File>> {
    match spot.open(OFlag::O_WRONLY | OFlag::O_NONBLOCK) {
        Ok(file) if file.metadata()?.is_file() => Ok(Some(file)),
        Ok(_) => Err(io::Error::other("it is not a regular file any more")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file beside the one that is to be replaced; dropped, it is deleted.
struct Temporary<'a> {
    spot: &'a Spot,
    /// The name that stands for it, if it has one.
    name: Option<OsString>,
    file: File,
}

impl<'a> Temporary<'a> {
    fn written(spot: &'a Spot, bytes: &[u8], mode: u32) -> io::Result<Self> {
        let mut new = Self::create(spot, mode)?;
        new.file.write_all(bytes)?;
        Ok(new)
    }

    /// Makes an empty one; the process's own mask takes bits of the mode away.
    fn create(spot: &'a Spot, mode: u32) -> io::Result<Self> {
        let (flags, mode) =
            (OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::from_bits_truncate(mode & 0o777));
        if let Ok(file) = openat(spot.directory(), ".", flags | OFlag::O_TMPFILE, mode) {
            let file = File::from(file);
            // Its name comes by this way.
            if own_path(&file).exists() {
                return Ok(Self { spot, name: None, file });
            }
        }
        // Whatever else is wrong is said of this one.
        let flags = flags | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        let (name, file) = fresh(|name| openat(spot.directory(), name, flags, mode))?;
        Ok(Self { spot, name: Some(name), file: file.into() })
    }

    /// Gives it an owner and a mode. `false` if the owner could not be.
    fn take(&self, rights: Rights) -> io::Result<bool> {
        let Rights { mode, owner, group } = rights;
        let own = Rights::of(&self.file.metadata()?);
        if own == rights {
            return Ok(true);
        }
        let same = (own.owner, own.group) == (owner, group);
        let has_owner = same || fchown(&self.file, Some(owner), Some(group)).is_ok();
        // Last, because a change of owner and a write clear some bits. The mask
        // does not hold for a mode that is asked for.
        self.file.set_permissions(Permissions::from_mode(mode))?;
        Ok(has_owner)
    }

    /// Takes the name that is free; fails if it is not.
    fn become_first(mut self) -> io::Result<Stamp> {
        match self.link(self.spot.name()) {
            // Before it is looked at: a name that goes is a change of the file.
            Ok(()) => self.unname(),
            // A file system without hard links: whoever makes the file has it.
            Err(Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EMLINK) => {
                let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
                openat(self.spot.directory(), self.spot.name(), flags, Mode::empty())?;
                if let Err(error) = self.rename() {
                    // The empty file is ours.
                    let own = self.spot.name();
                    let _ = unlinkat(self.spot.directory(), own, UnlinkatFlags::NoRemoveDir);
                    return Err(error);
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(stamp(&self.file))
    }

    /// Gives it one more name in its directory.
    fn link(&self, name: &Path) -> nix::Result<()> {
        let directory = self.spot.directory();
        match &self.name {
            Some(own) => linkat(directory, Path::new(own), directory, name, AtFlags::empty()),
            None => {
                let own = own_path(&self.file);
                linkat(AT_FDCWD, &own, directory, name, AtFlags::AT_SYMLINK_FOLLOW)
            }
        }
    }

    /// Takes the place of the old file.
    fn replace(mut self) -> io::Result<Stamp> {
        self.rename()?;
        Ok(stamp(&self.file))
    }

    fn rename(&mut self) -> io::Result<()> {
        let directory = self.spot.directory();
        let name = match self.name.take() {
            Some(name) => name,
            // Only now, for a rename replaces a file and a link does not.
            None => fresh(|name| self.link(name))?.0,
        };
        let name = self.name.insert(name);
        renameat(directory, Path::new(name), directory, self.spot.name())?;
        self.name = None;
        Ok(())
    }

    fn unname(&mut self) {
        let Some(name) = self.name.take() else { return };
        // What cannot be deleted stays; an error that led here is said.
        let _ = unlinkat(self.spot.directory(), Path::new(&name), UnlinkatFlags::NoRemoveDir);
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        self.unname();
    }
}

/// Returns the path by which the kernel leads to an open file.
fn own_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Makes something under a name that nothing has.
fn fresh<T>(make: impl Fn(&Path) -> nix::Result<T>) -> io::Result<(OsString, T)> {
    for _ in 0..NAMES_CAP {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".tine-{}-{count}", std::process::id()));
        match make(Path::new(&name)) {
            Ok(made) => return Ok((name, made)),
            Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other("there is no free name for a temporary file"))
}

/// That of the file itself, whatever has its name by now.
fn stamp(file: &File) -> Stamp {
    file.metadata().map_or(Stamp::NONE, |metadata| Stamp::of(&metadata))
}

fn write_in_place(mut file: File, bytes: &[u8], mode: u32) -> Result<Stamp, Failed> {
    let written = fill(&mut file, bytes, mode);
    let left = stamp(&file);
    written.map(|()| left).map_err(|error| Failed { error, half: Some(left) })
}

fn fill(file: &mut File, bytes: &[u8], mode: u32) -> io::Result<()> {
    file.write_all(bytes)?;
    // After the write: cutting first would leave nothing if the disk is full.
    file.set_len(u64::try_from(bytes.len()).expect("a length fits 64 bits"))?;
    if file.metadata()?.mode() & MODE_BITS != mode {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::roots::Roots;

    #[track_caller]
    fn names(directory: &Path) -> Vec<String> {
        let entries = directory.read_dir().unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn spot(path: &Path) -> Spot {
        let directory = path.parent().unwrap().canonicalize().unwrap();
        Roots::open([]).unwrap().spot(&directory.join(path.file_name().unwrap())).unwrap()
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_and_owner_and_leaves_nothing_behind() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("run.sh");
        std::fs::write(&path, "old and longer").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o750)).unwrap();
        if nix::unistd::Uid::effective().is_root() {
            std::os::unix::fs::chown(&path, Some(12345), Some(54321)).unwrap();
        }
        let before = path.metadata().unwrap();
        assert_eq!(write(&spot(&path), b"new", Access::Usual).unwrap().0, Made::Renamed);
        let after = path.metadata().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(
            (after.mode(), after.uid(), after.gid()),
            (before.mode(), before.uid(), before.gid())
        );
        assert_ne!(after.ino(), before.ino());
        assert_eq!(names(place.path()), ["run.sh"]);
    }

    #[test]
    fn a_file_that_is_being_written_has_no_name_and_one_that_is_dropped_leaves_none() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a");
        std::fs::write(&path, "old").unwrap();
        let spot = spot(&path);
        let new = Temporary::written(&spot, b"new", 0o600).unwrap();
        assert_eq!((new.name.is_none(), names(place.path())), (true, vec!["a".to_owned()]));
        drop(new);
        // As where the file system can make only files with names.
        let named = || {
            let (name, file) = fresh(|name| {
                let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
                openat(spot.directory(), name, flags, Mode::from_bits_truncate(0o600))
            })
            .unwrap();
            Temporary { spot: &spot, name: Some(name), file: file.into() }
        };
        drop(named());
        assert_eq!(names(place.path()), ["a"]);
        assert!(named().become_first().is_err(), "the name is taken");
        Temporary::written(&spot, b"new", 0o600).unwrap().replace().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        named().replace().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        std::fs::remove_file(&path).unwrap();
        assert!(named().become_first().is_ok());
        assert_eq!(names(place.path()), ["a"]);
    }

    #[test]
    fn a_new_file_has_the_mode_the_mask_allows_or_the_one_that_is_asked_for() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let rights = Rights { mode: 0o707, ..Rights::of(&place.path().metadata().unwrap()) };
        assert_eq!(write(&spot(&path("a")), b"new", Access::Usual).unwrap().0, Made::Created);
        assert_eq!(
            write(&spot(&path("c")), b"new", Access::Exactly(rights)).unwrap().0,
            Made::Created
        );
        std::fs::write(path("b"), "").unwrap();
        let mode = |name: &str| path(name).metadata().unwrap().mode();
        assert_eq!((mode("a"), mode("c") & 0o777), (mode("b"), 0o707));
        assert_eq!(
            (std::fs::read(path("a")).unwrap(), names(place.path())),
            (b"new".to_vec(), ["a", "b", "c"].map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn a_hard_linked_file_is_written_in_place() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("a"), place.path().join("b"));
        std::fs::write(&path, "old and longer").unwrap();
        std::fs::hard_link(&path, &other).unwrap();
        assert_eq!(write(&spot(&path), b"new", Access::Usual).unwrap().0, Made::InPlaceForLinks);
        assert_eq!(std::fs::read(&other).unwrap(), b"new");
    }

    #[test]
    fn a_removed_file_is_gone_and_a_missing_one_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a");
        std::fs::write(&path, "x").unwrap();
        refuse_protected(&spot(&path)).unwrap();
        unlink(&spot(&path)).unwrap();
        assert_eq!(names(place.path()), [""; 0]);
        assert!(refuse_protected(&spot(&path)).is_err() && unlink(&spot(&path)).is_err());
    }

    #[test]
    fn a_link_that_took_the_files_place_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let spot = spot(&place.path().join("a"));
        std::fs::write(place.path().join("b"), "x").unwrap();
        std::os::unix::fs::symlink("b", place.path().join("a")).unwrap();
        assert!(write(&spot, b"new", Access::Usual).is_err());
        assert!(refuse_protected(&spot).is_err());
        assert_eq!(std::fs::read(place.path().join("b")).unwrap(), b"x");
        assert_eq!(names(place.path()), ["a", "b"]);
    }
}
