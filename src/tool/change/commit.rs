//! Changes of files, one after the other, all of them or none.
//!
//! What a file is changed to is known here, and what it was; who may, and who
//! is told, is the business of the callers. A file is touched only while it is
//! what it was looked at as, and put back only while it is what was made of
//! it: what somebody else wrote in between stays.

use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, readlinkat};
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};

use super::{Before, Change, FILE_CAP};
use crate::event::FileState;
use crate::tool::replace::{self, Failed, Made, Stamp};
use crate::tool::roots::{Roots, Spot, is_swapped};

/// One file, and what shall become of it.
#[derive(Debug)]
pub struct Piece<'a> {
    /// Where files are opened.
    pub roots: &'a Roots,
    /// The file, with every link followed.
    pub target: &'a Path,
    /// Its directory, if it is held already. Else it is opened when the piece's
    /// turn comes, and made if it is missing.
    pub spot: Option<&'a Spot>,
    /// What it was when the change was worked out.
    pub was: Was<'a>,
    /// What it shall become.
    pub change: &'a Change,
}

/// What a name stood for when a change was worked out.
#[derive(Debug, Clone, Copy)]
pub enum Was<'a> {
    /// Nothing.
    Nothing,
    /// A file.
    File(&'a Before),
    /// A link.
    Link(&'a Link),
}

/// Entry of a directory as it was found.
#[derive(Debug)]
pub enum FoundEntry {
    /// Nothing.
    Nothing,
    /// A file.
    File(Before),
    /// A link.
    Link(Link),
}

impl FoundEntry {
    /// Returns what a change of the name starts from.
    #[must_use]
    pub fn was(&self) -> Was<'_> {
        match self {
            Self::Nothing => Was::Nothing,
            Self::File(before) => Was::File(before),
            Self::Link(link) => Was::Link(link),
        }
    }

    /// Returns what a log calls it, and the bytes that it names; `None` if there is
    /// nothing.
    #[must_use]
    pub fn state(&self) -> Option<(FileState, &[u8])> {
        match self {
            Self::Nothing => None,
            Self::File(before) => Some((before.state(), &before.bytes)),
            Self::Link(link) => Some((link.state(), link.to.as_os_str().as_bytes())),
        }
    }
}

/// A symbolic link.
#[derive(Debug)]
pub struct Link {
    /// Where it leads.
    pub to: PathBuf,
    stamp: Stamp,
}

/// Why nothing is changed.
#[derive(Debug)]
pub struct Undone {
    /// The index of the piece that could not be made.
    pub at: usize,
    /// Why.
    pub error: io::Error,
    /// The pieces that are not what they were, and why.
    pub lost: Vec<(usize, io::Error)>,
}

/// Makes every change, in order, on disk before this returns; if one fails,
/// what was done is put back.
///
/// # Errors
///
/// Which one failed, and what could not be put back.
pub fn all_or_none(pieces: &[Piece<'_>]) -> Result<Vec<Made>, Undone> {
    let mut steps: Vec<Step<'_>> = Vec::with_capacity(pieces.len());
    let mut all = Vec::with_capacity(pieces.len());
    for (at, piece) in pieces.iter().enumerate() {
        let mut step = Step { piece, left: Left::Untouched, directories: 0 };
        let made = step.make();
        steps.push(step);
        match made {
            Ok(made) => all.push(made),
            Err(error) => {
                let put_back = |(at, step): (usize, &Step<'_>)| Some((at, step.put_back().err()?));
                let lost = steps.iter().enumerate().rev().filter_map(put_back).collect();
                return Err(Undone { at, error, lost });
            }
        }
    }
    Ok(all)
}

impl<'a> Was<'a> {
    /// A file, or nothing.
    #[must_use]
    pub fn file(before: Option<&'a Before>) -> Self {
        before.map_or(Self::Nothing, Self::File)
    }

    fn stamp(self) -> Option<Stamp> {
        match self {
            Self::Nothing => None,
            Self::File(before) => Some(before.stamp),
            Self::Link(link) => Some(link.stamp),
        }
    }
}

impl Link {
    /// Reads the link of a spot; `None` if there is nothing.
    ///
    /// # Errors
    ///
    /// It is no link, or cannot be read.
    pub fn at(spot: &Spot) -> io::Result<Option<Self>> {
        let Some(stamp) = Stamp::at(spot)? else { return Ok(None) };
        let to = readlinkat(spot.directory(), spot.name())?.into();
        Ok(Some(Self { to, stamp }))
    }

    /// Returns what a log calls it.
    #[must_use]
    pub fn state(&self) -> FileState {
        FileState::of_link(self.to.as_os_str().as_bytes())
    }
}

/// Reads the file or the link of a spot.
///
/// # Errors
///
/// It is neither, or a large file, or cannot be read.
pub fn look(spot: &Spot) -> io::Result<FoundEntry> {
    let metadata = match spot.metadata() {
        Ok(Some(metadata)) => metadata,
        Ok(None) => return Ok(FoundEntry::Nothing),
        Err(error) if is_swapped(&error) => {
            return Ok(Link::at(spot)?.map_or(FoundEntry::Nothing, FoundEntry::Link));
        }
        Err(error) => return Err(error),
    };
    if !metadata.is_file() {
        // Opening a pipe waits for its other end.
        return Err(io::Error::other("it is no regular file any more"));
    }
    let file = spot.open(OFlag::O_RDONLY | OFlag::O_NONBLOCK)?;
    let metadata = file.metadata()?;
    let too_large = || io::Error::other(format!("it is larger than {} MiB", FILE_CAP >> 20));
    if metadata.len() > FILE_CAP {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.take(FILE_CAP + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > FILE_CAP {
        true => Err(too_large()),
        false => Ok(FoundEntry::File(Before::of(bytes, &metadata))),
    }
}

/// A change that is being made.
struct Step<'a> {
    piece: &'a Piece<'a>,
    left: Left,
    /// How many directories were made for it.
    directories: usize,
}

/// What a step has left of its file.
enum Left {
    /// What it was.
    Untouched,
    /// This; `None` if the name is gone.
    Changed(Option<Stamp>),
}

impl Step<'_> {
    fn make(&mut self) -> io::Result<Made> {
        let Piece { roots, target, spot, was, change } = *self.piece;
        let opened;
        let spot = match (spot, change) {
            (Some(spot), _) => spot,
            (None, Change::Write { .. } | Change::Link(_)) => {
                let (spot, made) = roots.make_spot(target)?;
                self.directories = made;
                opened = spot;
                &opened
            }
            (None, Change::Delete) => {
                opened = roots.spot(target)?;
                &opened
            }
        };
        if Stamp::at(spot)? != was.stamp() {
            return Err(io::Error::other("somebody else changed it meanwhile"));
        }
        let (made, left) = match change_of(spot, was, change) {
            Ok(changed) => changed,
            Err(Failed { error, half }) => {
                if let Some(stamp) = half {
                    self.left = Left::Changed(Some(stamp));
                }
                return Err(error);
            }
        };
        self.left = Left::Changed(left);
        fsync(spot.directory())?;
        Ok(made)
    }

    /// Makes the file what it was before.
    fn put_back(&self) -> io::Result<()> {
        let Piece { roots, target, spot, was, change: _ } = *self.piece;
        if let Left::Changed(left) = &self.left {
            let opened;
            let spot = match spot {
                Some(spot) => spot,
                None => {
                    opened = roots.spot(target)?;
                    &opened
                }
            };
            if Stamp::at(spot)? != *left {
                return Err(io::Error::other("somebody else has changed it since, so it stays"));
            }
            match (was, left) {
                (Was::File(before), _) => replace::restore(spot, &before.bytes, before.rights)?,
                (Was::Link(link), Some(_)) => drop(replace::link_over(spot, &link.to)?),
                (Was::Link(link), None) => drop(replace::link(spot, &link.to)?),
                (Was::Nothing, _) => replace::unlink(spot)?,
            }
            fsync(spot.directory())?;
        }
        for directory in target.ancestors().skip(1).take(self.directories) {
            let above = roots.spot(directory)?;
            // Somebody else may have put something in there.
            let _ = unlinkat(above.directory(), above.name(), UnlinkatFlags::RemoveDir);
        }
        Ok(())
    }
}

/// Makes one change. Returns what it left; `None` if the name is gone.
fn change_of(spot: &Spot, was: Was<'_>, change: &Change) -> Result<(Made, Option<Stamp>), Failed> {
    let (made, left) = match (change, was) {
        (Change::Write { bytes, access }, Was::Link(_)) => {
            (Made::Renamed, replace::write_over_link(spot, bytes, *access)?)
        }
        (Change::Write { bytes, access }, Was::Nothing | Was::File(_)) => {
            replace::write(spot, bytes, *access)?
        }
        (Change::Link(to), Was::Nothing) => (Made::Created, replace::link(spot, to)?),
        (Change::Link(to), Was::Link(_)) => (Made::Renamed, replace::link_over(spot, to)?),
        (Change::Link(to), Was::File(_)) => {
            replace::refuse_protected(spot)?;
            (Made::Renamed, replace::link_over(spot, to)?)
        }
        (Change::Delete, Was::Link(_)) => {
            replace::unlink(spot)?;
            return Ok((Made::Deleted, None));
        }
        (Change::Delete, Was::Nothing | Was::File(_)) => {
            replace::refuse_protected(spot)?;
            replace::unlink(spot)?;
            return Ok((Made::Deleted, None));
        }
    };
    Ok((made, Some(left)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::tool::replace::{Access, Rights};

    /// A directory with files in it, and the pieces of a call.
    struct Place {
        _directory: tempfile::TempDir,
        root: PathBuf,
        roots: Roots,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap();
            let roots = Roots::open([root.as_path()]).unwrap();
            Self { _directory: directory, root, roots }
        }

        fn look(&self, name: &str) -> Option<Before> {
            match look(&self.roots.spot(&self.root.join(name)).unwrap()).unwrap() {
                FoundEntry::File(before) => Some(before),
                FoundEntry::Nothing | FoundEntry::Link(_) => None,
            }
        }

        fn piece<'a>(
            &'a self,
            target: &'a Path,
            before: Option<&'a Before>,
            change: &'a Change,
        ) -> Piece<'a> {
            Piece { roots: &self.roots, target, spot: None, was: Was::file(before), change }
        }
    }

    fn write(text: &str) -> Change {
        Change::Write { bytes: text.as_bytes().to_vec().into(), access: Access::Usual }
    }

    #[test]
    fn what_somebody_changed_after_a_step_was_made_is_named_and_stays() {
        let place = Place::new();
        let paths = ["a", "b", "new"].map(|name| place.root.join(name));
        for path in &paths[..2] {
            std::fs::write(path, "old").unwrap();
        }
        let (a, change) = (place.look("a").unwrap(), write("new"));
        for (path, before) in [(&paths[0], Some(&a)), (&paths[2], None)] {
            let piece = place.piece(path, before, &change);
            let mut step = Step { piece: &piece, left: Left::Untouched, directories: 0 };
            step.make().unwrap();
            std::fs::write(path, "the user's own").unwrap();
            let refused = step.put_back().unwrap_err().to_string();
            assert_eq!(refused, "somebody else has changed it since, so it stays");
            assert_eq!(std::fs::read(path).unwrap(), b"the user's own");
        }
        let b = place.look("b").unwrap();
        let piece = place.piece(&paths[1], Some(&b), &Change::Delete);
        let mut step = Step { piece: &piece, left: Left::Untouched, directories: 0 };
        step.make().unwrap();
        std::fs::write(&paths[1], "the user's own").unwrap();
        step.put_back().unwrap_err();
        assert_eq!(std::fs::read(&paths[1]).unwrap(), b"the user's own");
    }

    #[test]
    fn what_was_left_half_written_is_put_back_and_so_are_modes_that_forbid_writing() {
        let place = Place::new();
        let path = place.root.join("a");
        std::fs::write(&path, "old and longer").unwrap();
        std::fs::hard_link(&path, place.root.join("b")).unwrap();
        let (a, change) = (place.look("a").unwrap(), write("new"));
        let piece = place.piece(&path, Some(&a), &change);
        // As a full disk leaves it.
        std::fs::write(&path, "new and").unwrap();
        let left = Stamp::at(&place.roots.spot(&path).unwrap()).unwrap();
        Step { piece: &piece, left: Left::Changed(left), directories: 0 }.put_back().unwrap();
        assert_eq!(std::fs::read(place.root.join("b")).unwrap(), b"old and longer");
        // What was made without the right to write goes away again.
        let new = place.root.join("d/new");
        let rights = Rights { mode: 0o444, ..a.rights };
        let change = Change::Write { bytes: b"x".to_vec().into(), access: Access::Exactly(rights) };
        let last = place.root.join("a/below");
        let pieces = [place.piece(&new, None, &change), place.piece(&last, None, &change)];
        let Undone { at, error: _, lost } = all_or_none(&pieces).unwrap_err();
        assert_eq!((at, lost.len(), place.root.join("d").exists()), (1, 0, false));
    }

    #[test]
    fn links_come_and_go_with_the_files_or_not_at_all() {
        let place = Place::new();
        let path = |name: &str| place.root.join(name);
        std::fs::write(path("file"), "old").unwrap();
        std::fs::set_permissions(path("file"), std::fs::Permissions::from_mode(0o600)).unwrap();
        for name in ["link", "gone", "real"] {
            std::os::unix::fs::symlink("before", path(name)).unwrap();
        }
        let spot = |name: &str| place.roots.spot(&path(name)).unwrap();
        let file = place.look("file").unwrap();
        let was = ["link", "gone", "real"].map(|name| Link::at(&spot(name)).unwrap().unwrap());
        let changes = [
            ("file", Was::File(&file), Change::Link("after".into())),
            ("link", Was::Link(&was[0]), Change::Link("after".into())),
            ("gone", Was::Link(&was[1]), Change::Delete),
            ("real", Was::Link(&was[2]), write("new")),
            ("d/made", Was::Nothing, Change::Link("after".into())),
            ("file/below", Was::Nothing, write("new")),
        ];
        let targets: Vec<PathBuf> = changes.iter().map(|(name, ..)| path(name)).collect();
        let pieces: Vec<Piece<'_>> = targets
            .iter()
            .zip(&changes)
            .map(|(target, (_, was, change))| Piece {
                was: *was,
                ..place.piece(target, None, change)
            })
            .collect();
        let stands = |name: &str| match path(name).read_link() {
            Ok(to) => to.into_os_string().into_string().ok(),
            Err(_) => std::fs::read_to_string(path(name)).ok(),
        };
        let stand = || ["file", "link", "gone", "real", "d/made"].map(stands);
        let undone = all_or_none(&pieces).unwrap_err();
        assert_eq!((undone.at, undone.lost.len()), (5, 0), "{undone:?}");
        let text = |text: &str| Some(text.to_owned());
        let before = [text("old"), text("before"), text("before"), text("before"), None];
        assert_eq!((stand(), path("d").exists()), (before, false));
        assert_eq!(place.look("file").unwrap().rights, file.rights);
        // All of them, once nothing is in the way.
        let file = place.look("file").unwrap();
        let was = ["link", "gone", "real"].map(|name| Link::at(&spot(name)).unwrap().unwrap());
        let was = [Was::File(&file), Was::Link(&was[0]), Was::Link(&was[1]), Was::Link(&was[2])];
        let again = was.into_iter().chain([Was::Nothing]);
        let pieces: Vec<Piece<'_>> =
            pieces.into_iter().zip(again).map(|(piece, was)| Piece { was, ..piece }).collect();
        all_or_none(&pieces).unwrap();
        assert_eq!(stand(), [text("after"), text("after"), None, text("new"), text("after")]);
    }

    #[test]
    fn a_file_gets_back_its_bytes_and_its_rights() {
        let place = Place::new();
        let path = place.root.join("a");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o604)).unwrap();
        if nix::unistd::Uid::effective().is_root() {
            std::os::unix::fs::chown(&path, Some(12345), Some(54321)).unwrap();
        }
        let a = place.look("a").unwrap();
        for change in [Change::Delete, write("new")] {
            let a = place.look("a").unwrap();
            let piece = place.piece(&path, Some(&a), &change);
            let mut step = Step { piece: &piece, left: Left::Untouched, directories: 0 };
            step.make().unwrap();
            step.put_back().unwrap();
            let again = place.look("a").unwrap();
            assert_eq!((&*again.bytes, again.rights), (&b"old"[..], a.rights));
        }
        assert_eq!(a.rights.mode, 0o604);
    }
}
