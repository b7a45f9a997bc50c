//! Looks afterwards for what could not be held: protected places that a command
//! has changed all the same.
//!
//! Landlock gives a whole directory or nothing of it, and no mount covers a
//! link. So what is there is noted before, compared afterwards, and put back
//! where it is known; what is new is removed. That is late for a program that
//! looked meanwhile; whoever reads of it has to know. Whatever a command makes
//! of a place, looking at it costs no more than what was there before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::fcntl::OFlag;

use super::layout::{Layout, Protected};
use crate::git::KnownVersions;
use crate::guard::run_later;

/// Most entries of one place of which files are kept. Hooks and settings are a
/// few dozen; of more than these only the stamps are compared.
const KEPT_CAP: usize = 1_000;

/// Most entries of one place that are looked at. A stamp takes some
/// microseconds: more would cost more than the command.
const ENTRY_CAP: usize = 10_000;

/// Most bytes of a file that are kept to put it back.
const FILE_CAP: u64 = 1024 * 1024;

/// Most bytes of all files that are kept.
const TOTAL_CAP: u64 = 16 * 1024 * 1024;

/// Most changes that are told of. All are undone.
const TOLD_CAP: usize = 1_000;

/// How long before it was noted a file must have been changed last so that its
/// stamp alone tells whether it was changed again: some file systems count in
/// seconds.
const SETTLED: Duration = Duration::from_secs(2);

/// A protected place that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tampered {
    /// Which one.
    pub path: PathBuf,
    /// What the command did to it.
    pub what: What,
    /// Whether it is as it was again.
    pub is_undone: bool,
    /// Where that is which stood there: somebody else may have put it there
    /// meanwhile.
    pub kept: Option<PathBuf>,
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
    /// Where that goes which must not stay.
    aside: PathBuf,
    later: RunLater,
}

/// Files in the roots that other programs run later, listed before a command. The command must
/// not create others.
///
/// No stub file reserves these names: there are more than a hundred, and the command would see
/// every stub.
#[derive(Debug, Default)]
struct RunLater {
    roots: Vec<PathBuf>,
    before: BTreeSet<PathBuf>,
    versions: Option<KnownVersions>,
}

impl RunLater {
    fn of(layout: &Layout) -> Self {
        let (roots, versions) = (layout.roots.clone(), layout.versions.clone());
        let before = roots.iter().flat_map(|root| in_root(root)).collect();
        Self { roots, before, versions }
    }

    /// Returns the new files and directories, except those identical to a version that a
    /// branch had: `git switch` creates these.
    fn created(&self) -> Vec<PathBuf> {
        let is_committed = |root: &Path, path: &Path| {
            self.versions.as_ref().is_some_and(|versions| versions.contain(root, path))
        };
        let in_root = |root: &PathBuf| -> Vec<PathBuf> {
            let new = in_root(root).into_iter().filter(|path| !self.before.contains(path));
            new.filter(|path| !is_committed(root, path)).collect()
        };
        self.roots.iter().flat_map(in_root).collect()
    }
}

/// Returns what other programs run later in a root. A link to a directory that holds it
/// takes the place of what it holds: that may be anywhere.
fn in_root(root: &Path) -> Vec<PathBuf> {
    let entry = |path: PathBuf| match path.parent() {
        Some(above) if above != root && above.is_symlink() => above.to_owned(),
        Some(_) | None => path,
    };
    run_later::kept_in(root).into_iter().map(entry).collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Directory {
        mode: u32,
    },
    Link(PathBuf),
    File {
        mode: u32,
        stamp: Stamp,
        /// `None` for one that cannot be kept.
        bytes: Option<Vec<u8>>,
    },
    /// A device, a pipe or a socket.
    Other(Stamp),
    /// Nobody can tell what is in it: never the same as what can be read.
    Unreadable,
    /// A directory with more below it than is looked at.
    TooMany,
}

/// What changes whenever a file does. No program can set the time back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
    /// Whether that was long enough ago for the next change to show.
    is_settled: bool,
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        let changed = (found.ctime(), found.ctime_nsec());
        let seconds = Duration::from_secs(u64::try_from(changed.0).unwrap_or_default());
        let age = SystemTime::now().duration_since(UNIX_EPOCH + seconds);
        let is_settled = age.is_ok_and(|age| age > SETTLED);
        Self { device: found.dev(), inode: found.ino(), size: found.size(), changed, is_settled }
    }

    fn is_of(&self, found: &Metadata) -> bool {
        let Self { device, inode, size, changed, is_settled: _ } = *self;
        (device, inode, size) == (found.dev(), found.ino(), found.size())
            && changed == (found.ctime(), found.ctime_nsec())
    }
}

impl Watch {
    /// Notes everything that a backend without mounts cannot hold.
    pub(super) fn everything(layout: &Layout, own: &[PathBuf], aside: PathBuf) -> Self {
        let protected = layout.protected.iter().map(|Protected { path, .. }| path.clone());
        let open = layout.writable().map(Path::to_owned).collect();
        let watch = Self::of(protected.chain(own.iter().cloned()).collect(), open, aside);
        Self { later: RunLater::of(layout), ..watch }
    }

    /// Notes what mounts cannot hold: links, and what nothing may stand in for.
    pub(super) fn unmountable(layout: &Layout, aside: PathBuf) -> Self {
        let is_one = |Protected { path, .. }: &&Protected| {
            path.symlink_metadata().map_or(true, |found| found.is_symlink())
        };
        let places = layout.protected.iter().filter(is_one);
        let places = places.map(|Protected { path, .. }| path.clone()).collect();
        Self { later: RunLater::of(layout), ..Self::of(places, Vec::new(), aside) }
    }

    fn of(places: Vec<PathBuf>, open: Vec<PathBuf>, aside: PathBuf) -> Self {
        Self { before: look(&places, &open), places, open, aside, later: RunLater::default() }
    }

    /// Returns what is not as it was, after putting it back where it can be.
    pub(super) fn finish(self) -> Vec<Tampered> {
        let Self { before, places, open, aside, later } = self;
        let mut tampered = Vec::new();
        let mut tell = |path: &Path, what, undone: io::Result<Option<PathBuf>>| {
            if tampered.len() < TOLD_CAP {
                let (is_undone, kept) = (undone.is_ok(), undone.ok().flatten());
                tampered.push(Tampered { path: path.to_owned(), what, is_undone, kept });
            }
        };
        let mut lost: BTreeSet<&Path> = BTreeSet::new();
        // Parents come first: by now they are what they were, so nothing here
        // follows a link that the command has put there.
        for (path, was) in &before {
            if path.ancestors().any(|above| lost.contains(above)) {
                continue;
            }
            if !is_still(path, was) {
                let what = if is_there(path) { What::Changed } else { What::Removed };
                let undone = undo(path, was, &aside);
                if undone.is_err() {
                    lost.insert(path);
                }
                tell(path, what, undone);
            }
            if matches!(was, State::Directory { .. }) && !lost.contains(path.as_path()) {
                let Ok(entries) = fs::read_dir(path) else {
                    lost.insert(path);
                    tell(path, What::Changed, Err(io::ErrorKind::PermissionDenied.into()));
                    continue;
                };
                for new in entries.flatten().map(|entry| entry.path()) {
                    if !before.contains_key(&new) && !open.contains(&new) {
                        tell(&new, What::Made, set_aside(&new, &aside));
                    }
                }
            }
        }
        let is_new = |place: &&PathBuf| !before.contains_key(*place) && is_there(place);
        for place in places.iter().filter(is_new) {
            tell(place, What::Made, set_aside(place, &aside));
        }
        for created in later.created() {
            tell(&created, What::Made, set_aside(&created, &aside));
        }
        tampered.sort_by(|one, other| one.path.cmp(&other.path));
        tampered.dedup();
        tampered
    }
}

/// Returns what is at the places and below them. Follows no link.
fn look(places: &[PathBuf], open: &[PathBuf]) -> BTreeMap<PathBuf, State> {
    let mut found = BTreeMap::new();
    let mut room = TOTAL_CAP;
    for place in places {
        let below = look_at(place, open, &mut room);
        if below.len() > ENTRY_CAP {
            found.insert(place.clone(), State::TooMany);
        } else {
            found.extend(below);
        }
    }
    found
}

/// Returns a place and what is below it: everything, or too much.
fn look_at(place: &Path, open: &[PathBuf], room: &mut u64) -> Vec<(PathBuf, State)> {
    let mut found = Vec::new();
    let mut left = vec![place.to_owned()];
    while let Some(path) = left.pop() {
        let mut nothing = 0;
        let room = if found.len() < KEPT_CAP { &mut *room } else { &mut nothing };
        let Some(mut state) = note(&path, room) else { continue };
        if let State::Directory { .. } = state {
            match fs::read_dir(&path) {
                Ok(entries) => {
                    let below = entries.flatten().map(|entry| entry.path());
                    let below = below.filter(|path| !open.contains(path));
                    left.extend(below.take(ENTRY_CAP + 1));
                }
                Err(_) => state = State::Unreadable,
            }
        }
        found.push((path, state));
        if found.len() + left.len() > ENTRY_CAP {
            found.resize(ENTRY_CAP + 1, (PathBuf::new(), State::TooMany));
            break;
        }
    }
    found
}

/// Returns what is there; `None` if nothing is.
fn note(path: &Path, room: &mut u64) -> Option<State> {
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if is_absence(&error) => return None,
        Err(_) => return Some(State::Unreadable),
    };
    let mode = found.mode() & 0o7777;
    if found.is_dir() {
        return Some(State::Directory { mode });
    }
    if found.is_symlink() {
        return Some(path.read_link().map_or(State::Unreadable, State::Link));
    }
    let stamp = Stamp::of(&found);
    if !found.is_file() {
        return Some(State::Other(stamp));
    }
    let fits = found.len() <= FILE_CAP.min(*room);
    let bytes = if fits { read(path, found.len()).ok().flatten() } else { None };
    *room -= bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
    Some(State::File { mode, stamp, bytes })
}

/// Reads a regular file; `None` if it holds more than that by now.
fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(most + 1).unwrap_or_default());
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// Tells whether a path is as it was. What is in a directory is no part of that.
fn is_still(path: &Path, was: &State) -> bool {
    let Ok(found) = path.symlink_metadata() else {
        return *was == State::Unreadable && is_there(path);
    };
    let mode_now = found.mode() & 0o7777;
    match was {
        State::Directory { mode } => found.is_dir() && *mode == mode_now,
        State::Link(target) => path.read_link().is_ok_and(|now| now == *target),
        State::File { mode, stamp, bytes } => {
            let is_untouched = || stamp.is_of(&found);
            let is_file = found.is_file() && *mode == mode_now;
            is_file
                && match bytes {
                    Some(_) if stamp.is_settled && is_untouched() => true,
                    Some(bytes) => {
                        let most = bytes.len() as u64;
                        found.len() == most
                            && read(path, most)
                                .is_ok_and(|now| now.is_some_and(|now| now == *bytes))
                    }
                    None => is_untouched(),
                }
        }
        State::Other(stamp) => {
            let is_other = !found.is_dir() && !found.is_symlink() && !found.is_file();
            is_other && (stamp.device, stamp.inode) == (found.dev(), found.ino())
        }
        State::Unreadable => {
            if found.is_dir() {
                fs::read_dir(path).is_err()
            } else {
                path.read_link().is_err()
            }
        }
        State::TooMany => found.is_dir(),
    }
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().map_or_else(|error| !is_absence(&error), |_| true)
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns where that is which was in the way.
fn undo(path: &Path, was: &State, aside: &Path) -> io::Result<Option<PathBuf>> {
    match was {
        State::Directory { mode } => {
            let mut kept = None;
            if !path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                kept = set_aside(path, aside)?;
                DirBuilder::new().mode(0o700).create(path)?;
            }
            set_mode(path, *mode)?;
            Ok(kept)
        }
        State::Link(target) => {
            let kept = set_aside(path, aside)?;
            symlink(target, path)?;
            Ok(kept)
        }
        State::File { mode, stamp: _, bytes: Some(bytes) } => {
            let kept = set_aside(path, aside)?;
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(bytes)?;
            file.set_permissions(Permissions::from_mode(*mode))?;
            Ok(kept)
        }
        // Better what the command has left than nothing.
        State::File { bytes: None, .. } | State::Other(_) | State::Unreadable | State::TooMany => {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}

/// Moves whatever is there to where nobody obeys it, and returns the place: it
/// need not have been the command that put it there. What cannot be moved is
/// copied; what is too much for that is removed.
fn set_aside(path: &Path, aside: &Path) -> io::Result<Option<PathBuf>> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let Some(name) = path.file_name().filter(|_| is_there(path)) else { return Ok(None) };
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let directory = aside.join(format!("{}-{count}", std::process::id()));
    let kept = directory.join(name);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    let moved = made.and_then(|()| fs::rename(path, &kept)).or_else(|_| {
        let mut room = TOTAL_CAP;
        let copied = copy(path, &kept, &mut room);
        remove(path)?;
        copied
    });
    match moved {
        Ok(()) => Ok(Some(kept)),
        Err(_) if !is_there(path) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Copies a file or a directory with what is in it; of links, pipes and the like
/// nothing.
fn copy(from: &Path, to: &Path, room: &mut u64) -> io::Result<()> {
    let found = from.symlink_metadata()?;
    if found.is_dir() {
        DirBuilder::new().recursive(true).mode(0o700).create(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            *room = room.checked_sub(1).ok_or(io::ErrorKind::FileTooLarge)?;
            copy(&from.join(&name), &to.join(&name), room)?;
        }
    } else if found.is_file() {
        let bytes = read(from, (*room).min(found.len()))?.ok_or(io::ErrorKind::FileTooLarge)?;
        *room -= bytes.len() as u64;
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?.write_all(&bytes)?;
    }
    Ok(())
}

/// Sets the mode of a directory, and of nothing that has come in its place.
fn set_mode(directory: &Path, mode: u32) -> io::Result<()> {
    // One that may not be read cannot be opened in any other way.
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY;
    let held: File = OpenOptions::new().read(true).custom_flags(flags.bits()).open(directory)?;
    let held = format!("/proc/self/fd/{}", held.as_raw_fd());
    fs::set_permissions(held, Permissions::from_mode(mode))
}

/// Removes whatever is there.
fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Err(error) if is_absence(&error) => Ok(()),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).or_else(|_| {
            open_up(path)?;
            fs::remove_dir_all(path)
        }),
        Ok(_) | Err(_) => fs::remove_file(path),
    }
}

/// Makes every directory below, and the directory itself, one that can be
/// emptied.
fn open_up(directory: &Path) -> io::Result<()> {
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        set_mode(&directory, 0o700)?;
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            }
        }
    }
    Ok(())
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
        let before = contents(&places);
        let watch = Watch::of(places.to_vec(), Vec::new(), root.join("aside"));
        change(root);
        let tampered = watch.finish();
        let expected: Vec<_> =
            expected.iter().map(|(name, what)| (root.join(name), *what, true)).collect();
        assert_eq!(plain(&tampered), expected);
        assert_eq!(contents(&places), before);
    }

    /// What became of each place, without where anything is kept.
    fn plain(tampered: &[Tampered]) -> Vec<(PathBuf, What, bool)> {
        let plain = |it: &Tampered| (it.path.clone(), it.what, it.is_undone);
        tampered.iter().map(plain).collect()
    }

    /// What is there, without what differs each time it is written.
    fn contents(places: &[PathBuf]) -> Vec<(PathBuf, State)> {
        let same = Stamp { device: 0, inode: 0, size: 0, changed: (0, 0), is_settled: false };
        let plain = |(path, state)| match state {
            State::File { mode, stamp: _, bytes } => {
                (path, State::File { mode, stamp: same, bytes })
            }
            state @ (State::Directory { .. }
            | State::Link(_)
            | State::Other(_)
            | State::Unreadable
            | State::TooMany) => (path, state),
        };
        look(places, &[]).into_iter().map(plain).collect()
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
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
    fn what_stood_in_a_protected_place_is_kept_elsewhere_whoever_put_it_there() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::write(root.join("config"), "a").unwrap();
        let places = ["config", "absent"].map(|name| root.join(name));
        for (number, aside) in ["aside", "/proc/nowhere"].into_iter().enumerate() {
            let watch = Watch::of(places.to_vec(), Vec::new(), root.join(aside));
            fs::write(root.join("config"), "mine").unwrap();
            fs::create_dir(root.join("absent")).unwrap();
            fs::write(root.join("absent/too"), "mine").unwrap();
            let kept: Vec<Option<PathBuf>> =
                watch.finish().into_iter().map(|tampered| tampered.kept).collect();
            match (number, &kept[..]) {
                (0, [Some(absent), Some(config)]) => {
                    assert_eq!(fs::read(absent.join("too")).unwrap(), b"mine");
                    assert_eq!(fs::read(config).unwrap(), b"mine");
                }
                // Where nothing can be kept it goes all the same.
                (1, [None, None]) => {}
                _ => panic!("{kept:?}"),
            }
            assert_eq!(fs::read(root.join("config")).unwrap(), b"a");
            assert!(!root.join("absent").exists());
        }
    }

    #[test]
    fn what_is_copied_is_all_of_it_and_not_without_end() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir_all(root.join("from/deep")).unwrap();
        fs::write(root.join("from/deep/a"), "mine").unwrap();
        symlink("/etc/passwd", root.join("from/link")).unwrap();
        copy(&root.join("from"), &root.join("to"), &mut 100).unwrap();
        assert_eq!(fs::read(root.join("to/deep/a")).unwrap(), b"mine");
        assert!(!is_there(&root.join("to/link")));
        copy(&root.join("from"), &root.join("again"), &mut 5).unwrap_err();
    }

    #[test]
    fn a_large_file_is_told_of_and_left_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("large");
        fs::write(&path, vec![b'a'; FILE_CAP as usize + 1]).unwrap();
        let watch = Watch::of(vec![path.clone()], Vec::new(), place.path().join("aside"));
        fs::write(&path, "b").unwrap();
        assert_eq!(plain(&watch.finish()), [(path.clone(), What::Changed, false)]);
        assert_eq!(fs::read(&path).unwrap(), b"b");
    }

    #[test]
    fn a_directory_that_was_closed_is_opened_again_and_looked_into() {
        let close = |root: &Path| {
            fs::write(root.join("hooks/two"), "2").unwrap();
            fs::write(root.join("hooks/one"), "x").unwrap();
            set(&root.join("hooks"), 0o000);
        };
        let expected =
            [("hooks", What::Changed), ("hooks/one", What::Changed), ("hooks/two", What::Made)];
        check(close, &expected);
        let hide = |root: &Path| {
            fs::create_dir_all(root.join("absent/deep/er")).unwrap();
            fs::write(root.join("absent/deep/er/x"), "x").unwrap();
            for closed in ["absent/deep/er", "absent/deep", "absent"] {
                set(&root.join(closed), 0o000);
            }
        };
        check(hide, &[("absent", What::Made)]);
        let unread = |root: &Path| {
            fs::write(root.join("config"), "b").unwrap();
            set(&root.join("config"), 0o000);
        };
        check(unread, &[("config", What::Changed)]);
    }

    #[test]
    fn a_change_among_more_entries_than_are_kept_is_seen_and_what_is_new_is_removed() {
        let fill = |root: &Path, count: usize| {
            for number in 0..count {
                fs::write(root.join(format!("hooks/{number:05}")), "x").unwrap();
            }
        };
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("hooks")).unwrap();
        fill(place.path(), KEPT_CAP + 10);
        let hooks = place.path().join("hooks");
        let watch = Watch::of(vec![hooks.clone()], Vec::new(), place.path().join("aside"));
        let kept =
            |path: &PathBuf| matches!(watch.before[path], State::File { bytes: Some(_), .. });
        let unkept = watch.before.keys().find(|path| **path != hooks && !kept(path)).unwrap();
        let unkept = unkept.clone();
        fs::write(&unkept, "yy").unwrap();
        fs::write(hooks.join("new"), "x").unwrap();
        let mut expected = [(unkept, What::Changed, false), (hooks.join("new"), What::Made, true)];
        expected.sort_by(|one, other| one.0.cmp(&other.0));
        assert_eq!(plain(&watch.finish()), expected);
        // Nor does a flood hide what is in it.
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("hooks")).unwrap();
        let watch =
            Watch::of(vec![place.path().join("hooks")], Vec::new(), place.path().join("aside"));
        fill(place.path(), TOLD_CAP + 10);
        assert_eq!(watch.finish().len(), TOLD_CAP);
        assert_eq!(fs::read_dir(place.path().join("hooks")).unwrap().count(), 0);
    }

    #[test]
    fn nothing_is_read_of_a_file_that_has_become_huge() {
        let grow = |name: &str, root: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(root.join(name)).unwrap();
            file.set_len(1 << 40).unwrap();
        };
        check(|root| grow("absent", root), &[("absent", What::Made)]);
        check(|root| grow("config", root), &[("config", What::Changed)]);
    }

    #[test]
    fn what_cannot_be_told_is_the_same_as_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let states = || {
            let mut room = TOTAL_CAP;
            let here = note(place.path(), &mut room).unwrap();
            [here, State::Link("a".into()), State::Unreadable, State::TooMany]
        };
        for (one, state) in states().iter().enumerate() {
            for (other, another) in states().iter().enumerate() {
                assert_eq!(state == another, one == other);
            }
        }
        assert!(!is_still(place.path(), &State::Unreadable));
    }

    #[test]
    fn nothing_is_put_back_below_what_cannot_be() {
        let (place, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let hooks = place.path().join("hooks");
        let watch = Watch {
            before: BTreeMap::from([
                (hooks.clone(), State::TooMany),
                (hooks.join("one"), State::Link("x".into())),
            ]),
            places: vec![hooks.clone()],
            open: Vec::new(),
            aside: PathBuf::new(),
            later: RunLater::default(),
        };
        symlink(elsewhere.path(), &hooks).unwrap();
        let lost = Tampered { path: hooks, what: What::Changed, is_undone: false, kept: None };
        assert_eq!(watch.finish(), [lost]);
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
}
