//! Looks afterwards for what could not be held: protected places that a command
//! has changed all the same.
//!
//! Landlock gives a whole directory or nothing of it, and no mount covers a
//! link. So what is there is noted before, compared afterwards, and put back
//! where it is known. That is late for a program that looked meanwhile; whoever
//! reads of it has to know.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::layout::{Layout, Protected};

/// Most entries of one place. Hooks and settings are a few dozen; a place with
/// more is not looked at below its own name, since that would cost more than
/// the command.
const ENTRY_CAP: usize = 1_000;

/// Most bytes of a file that are kept to put it back.
const FILE_CAP: u64 = 1024 * 1024;

/// Most bytes of all files that are kept.
const TOTAL_CAP: u64 = 16 * 1024 * 1024;

/// A protected place that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tampered {
    /// Which one.
    pub path: PathBuf,
    /// What the command did to it.
    pub what: What,
    /// Whether it is as it was again.
    pub is_undone: bool,
}

/// What a command did to a protected place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It was not there.
    Made,
    /// It was different.
    Changed,
    /// It was there.
    Removed,
}

/// What was there before a command.
#[derive(Debug, Default)]
pub(super) struct Watch {
    before: BTreeMap<PathBuf, State>,
    places: Vec<PathBuf>,
    /// What a command may change all the same, although it is inside a place.
    open: Vec<PathBuf>,
}

#[derive(Debug, Clone)]
enum State {
    Directory,
    Link(PathBuf),
    File {
        mode: u32,
        digest: blake3::Hash,
        /// `None` for one that is too large to be kept.
        bytes: Option<Vec<u8>>,
    },
    /// A device or a socket.
    Other,
}

impl PartialEq for State {
    /// Whether the bytes of a file were kept makes no difference.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Directory, Self::Directory) | (Self::Other, Self::Other) => true,
            (Self::Link(one), Self::Link(other)) => one == other,
            (
                Self::File { mode, digest, bytes: _ },
                Self::File { mode: other_mode, digest: other_digest, bytes: _ },
            ) => mode == other_mode && digest == other_digest,
            (Self::Directory | Self::Other | Self::Link(_) | Self::File { .. }, _) => false,
        }
    }
}

impl Watch {
    /// Notes everything that a backend without mounts cannot hold.
    pub(super) fn everything(layout: &Layout, own: &[PathBuf]) -> Self {
        let protected = layout.protected.iter().map(|Protected { path, .. }| path.clone());
        let open = layout.writable().map(Path::to_owned).collect();
        Self::of(protected.chain(own.iter().cloned()).collect(), open)
    }

    /// Notes what mounts cannot hold: links, and what nothing may stand in for.
    pub(super) fn unmountable(layout: &Layout) -> Self {
        let is_one = |Protected { path, .. }: &&Protected| {
            path.symlink_metadata().map_or(true, |found| found.is_symlink())
        };
        let places = layout.protected.iter().filter(is_one);
        Self::of(places.map(|Protected { path, .. }| path.clone()).collect(), Vec::new())
    }

    fn of(places: Vec<PathBuf>, open: Vec<PathBuf>) -> Self {
        Self { before: look(&places, &open), places, open }
    }

    /// Returns what is not as it was, after putting it back where it can be.
    pub(super) fn finish(self) -> Vec<Tampered> {
        let after = look(&self.places, &self.open);
        let paths: BTreeSet<&PathBuf> = self.before.keys().chain(after.keys()).collect();
        let mut tampered = Vec::new();
        let mut gone: Option<&Path> = None;
        for path in paths {
            let (was, is) = (self.before.get(path), after.get(path));
            if was == is || gone.is_some_and(|gone| path.starts_with(gone) && was.is_none()) {
                continue;
            }
            let what = match (was, is) {
                (None, _) => What::Made,
                (Some(_), None) => What::Removed,
                (Some(_), Some(_)) => What::Changed,
            };
            // Parents come first: by now they are what they were, so nothing
            // here follows a link that the command has put there.
            let undone = undo(path, was, is);
            if undone.is_ok() && was.is_none() {
                gone = Some(path);
            }
            tampered.push(Tampered { path: path.clone(), what, is_undone: undone.is_ok() });
        }
        tampered
    }
}

/// Returns what is at the places and below them. Follows no link.
fn look(places: &[PathBuf], open: &[PathBuf]) -> BTreeMap<PathBuf, State> {
    let mut found = BTreeMap::new();
    let mut room = TOTAL_CAP;
    for place in places {
        let below = paths(place, open);
        found.extend(below.into_iter().filter_map(|path| {
            let state = state(&path, &mut room).ok()?;
            Some((path, state))
        }));
    }
    found
}

/// Returns a place and everything below it, or only the place if that is too
/// much.
fn paths(place: &Path, open: &[PathBuf]) -> Vec<PathBuf> {
    let mut paths = vec![place.to_owned()];
    let mut next = 0;
    while let Some(path) = paths.get(next) {
        next += 1;
        if path.symlink_metadata().is_ok_and(|found| found.is_dir())
            && let Ok(entries) = fs::read_dir(path)
        {
            let below = entries.flatten().map(|entry| entry.path());
            paths.extend(below.filter(|path| !open.contains(path)));
        }
        if paths.len() > ENTRY_CAP {
            return vec![place.to_owned()];
        }
    }
    paths
}

fn state(path: &Path, room: &mut u64) -> io::Result<State> {
    let found = path.symlink_metadata()?;
    if found.is_dir() {
        return Ok(State::Directory);
    }
    if found.is_symlink() {
        return Ok(State::Link(path.read_link()?));
    }
    if !found.is_file() {
        return Ok(State::Other);
    }
    let mut hasher = blake3::Hasher::new();
    let bytes = if found.len() <= FILE_CAP.min(*room) {
        let bytes = fs::read(path)?;
        hasher.update(&bytes);
        *room = room.saturating_sub(found.len());
        Some(bytes)
    } else {
        io::copy(&mut fs::File::open(path)?, &mut hasher)?;
        None
    };
    Ok(State::File { mode: found.mode() & 0o7777, digest: hasher.finalize(), bytes })
}

fn undo(path: &Path, was: Option<&State>, is: Option<&State>) -> io::Result<()> {
    match (was, is) {
        (Some(State::File { bytes: None, .. } | State::Other), _) => {
            // Better what the command has left than nothing.
            return Err(io::ErrorKind::Unsupported.into());
        }
        (_, Some(State::Directory)) => fs::remove_dir_all(path)?,
        (_, Some(State::Link(_) | State::File { .. } | State::Other)) => fs::remove_file(path)?,
        (_, None) => {}
    }
    match was {
        None => Ok(()),
        Some(State::Directory) => fs::create_dir(path),
        Some(State::Link(target)) => symlink(target, path),
        Some(State::File { mode, digest: _, bytes }) => {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(bytes.as_deref().unwrap_or_default())?;
            file.set_permissions(Permissions::from_mode(*mode))
        }
        Some(State::Other) => Err(io::ErrorKind::Unsupported.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `change` on a directory with hooks and a configuration; all of it
    /// must be as it was afterwards.
    #[track_caller]
    fn check(change: impl FnOnce(&Path), expected: &[(&str, What)]) {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir(root.join("hooks")).unwrap();
        fs::write(root.join("hooks/one"), "1").unwrap();
        fs::set_permissions(root.join("hooks/one"), Permissions::from_mode(0o755)).unwrap();
        fs::write(root.join("config"), "a").unwrap();
        symlink("hooks", root.join("link")).unwrap();
        let places = ["hooks", "config", "link", "absent"].map(|name| root.join(name));
        let before = look(&places, &[]);
        let watch = Watch::of(places.to_vec(), Vec::new());
        change(root);
        let tampered = watch.finish();
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, what)| Tampered { path: root.join(name), what: *what, is_undone: true })
            .collect();
        assert_eq!(tampered, expected);
        assert_eq!(look(&places, &[]), before);
    }

    #[test]
    fn what_is_untouched_is_not_told_of() {
        check(|_| {}, &[]);
    }

    #[test]
    fn what_was_made_changed_or_removed_is_as_it_was_and_told_of() {
        check(|root| fs::write(root.join("config"), "b").unwrap(), &[("config", What::Changed)]);
        check(
            |root| fs::remove_file(root.join("hooks/one")).unwrap(),
            &[("hooks/one", What::Removed)],
        );
        check(|root| fs::write(root.join("hooks/two"), "2").unwrap(), &[("hooks/two", What::Made)]);
        let make = |root: &Path| {
            fs::create_dir(root.join("absent")).unwrap();
            fs::write(root.join("absent/inside"), "x").unwrap();
        };
        check(make, &[("absent", What::Made)]);
        let mode = |root: &Path| {
            fs::set_permissions(root.join("hooks/one"), Permissions::from_mode(0o644)).unwrap();
        };
        check(mode, &[("hooks/one", What::Changed)]);
    }

    #[test]
    fn nothing_is_written_through_a_link_that_the_command_has_put_there() {
        let elsewhere = tempfile::tempdir().unwrap();
        let redirect = |root: &Path| {
            fs::remove_dir_all(root.join("hooks")).unwrap();
            symlink(elsewhere.path(), root.join("hooks")).unwrap();
            fs::remove_file(root.join("link")).unwrap();
            symlink(elsewhere.path(), root.join("link")).unwrap();
        };
        let expected =
            [("hooks", What::Changed), ("hooks/one", What::Removed), ("link", What::Changed)];
        check(redirect, &expected);
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_large_file_is_told_of_and_left_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("large");
        fs::write(&path, vec![b'a'; FILE_CAP as usize + 1]).unwrap();
        let watch = Watch::of(vec![path.clone()], Vec::new());
        fs::write(&path, "b").unwrap();
        let expected = Tampered { path: path.clone(), what: What::Changed, is_undone: false };
        assert_eq!(watch.finish(), [expected]);
        assert_eq!(fs::read(&path).unwrap(), b"b");
    }
}
