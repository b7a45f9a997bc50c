//! The directories that files are opened beneath, held open since the start.
//!
//! A path is followed once, by name, and judged; then the file it led to is
//! opened from a held directory, past no link at all. So whatever is renamed
//! or linked meanwhile, a file is either the one that was judged or an error.
//! What is written there is the business of `replace`.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{Mode, mkdirat};
use thiserror::Error;

/// The mode of a new directory; the process's own mask takes bits away.
const NEW_DIRECTORY_MODE: u32 = 0o777;

/// Directories that are held open, and the file system's root for paths in
/// none of them.
#[derive(Debug)]
pub struct Roots {
    /// The deepest first, so that the first one that fits is the nearest.
    held: Vec<Root>,
}

#[derive(Debug)]
struct Root {
    /// Where it was at the start, every link followed.
    path: PathBuf,
    directory: OwnedFd,
}

/// A name in a directory that is held open. Nothing above the name can be
/// swapped for something else any more.
#[derive(Debug)]
pub struct Spot {
    directory: OwnedFd,
    name: OsString,
}

impl Roots {
    /// Opens directories; the file system's root comes by itself.
    ///
    /// # Errors
    ///
    /// One is missing or no directory.
    pub fn open<'a>(directories: impl IntoIterator<Item = &'a Path>) -> io::Result<Self> {
        let directories = directories.into_iter().chain([Path::new("/")]);
        let mut held = directories.map(Root::open).collect::<io::Result<Vec<_>>>()?;
        held.sort_by_key(|root| std::cmp::Reverse(root.path.components().count()));
        Ok(Self { held })
    }

    /// Opens a located file for reading, whatever it is.
    ///
    /// # Errors
    ///
    /// There is none, it may not be read, or a link stands on the way.
    pub fn file(&self, target: &Path) -> io::Result<File> {
        // Something else may stand there than was looked at; without blocking,
        // opening a pipe comes back at once.
        self.beneath(target, OFlag::O_RDONLY | OFlag::O_NONBLOCK)
    }

    /// Returns what stands at a located path, without opening it.
    ///
    /// # Errors
    ///
    /// Nothing does, or a link stands on the way.
    pub fn metadata(&self, target: &Path) -> io::Result<Metadata> {
        self.beneath(target, OFlag::O_PATH)?.metadata()
    }

    /// Holds the directory of a located file, which need not exist itself.
    ///
    /// # Errors
    ///
    /// The directory is missing, or a link stands on the way.
    pub fn spot(&self, target: &Path) -> io::Result<Spot> {
        let (parent, name) = split(target)?;
        let directory = self.beneath(parent, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?.into();
        Ok(Spot { directory, name })
    }

    /// Makes the missing directories of a located file and holds the last one.
    /// Returns how many there were to make, too.
    ///
    /// # Errors
    ///
    /// One cannot be made, or a link stands on the way.
    pub fn make_spot(&self, target: &Path) -> io::Result<(Spot, usize)> {
        let (parent, name) = split(target)?;
        let (root, below) = self.nearest(parent)?;
        let step = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let (mut directory, mut made) =
            (open_beneath(root.directory.as_fd(), Path::new("."), step)?, 0);
        for part in below {
            let part = Path::new(part);
            directory = match open_beneath(directory.as_fd(), part, step) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match mkdirat(&directory, part, Mode::from_bits_truncate(NEW_DIRECTORY_MODE)) {
                        Ok(()) => made += 1,
                        // Another unit needed it as well.
                        Err(Errno::EEXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    open_beneath(directory.as_fd(), part, step)?
                }
                opened => opened?,
            };
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        Ok((
            Spot { directory: open_beneath(directory.as_fd(), Path::new("."), flags)?, name },
            made,
        ))
    }

    fn beneath(&self, target: &Path, flags: OFlag) -> io::Result<File> {
        let (root, below) = self.nearest(target)?;
        open_beneath(root.directory.as_fd(), below, flags).map(File::from)
    }

    /// Returns the root that holds a located path, and the rest of the path.
    fn nearest<'a>(&self, target: &'a Path) -> io::Result<(&Root, &'a Path)> {
        let (root, below) = self
            .held
            .iter()
            .find_map(|root| Some((root, target.strip_prefix(&root.path).ok()?)))
            .ok_or_else(|| io::Error::other("its path is not absolute"))?;
        root.refuse_moved()?;
        Ok((root, below))
    }
}

impl Root {
    fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory = nix::fcntl::open(&path, flags, Mode::empty())?;
        Ok(Self { path, directory })
    }

    /// The guard judges names. Where a root's own name has come to mean another
    /// directory, what it judged is not what is held.
    fn refuse_moved(&self) -> io::Result<()> {
        let held = nix::sys::stat::fstat(&self.directory)?;
        let same = |found: Metadata| (found.dev(), found.ino()) == (held.st_dev, held.st_ino);
        if self.path.symlink_metadata().is_ok_and(same) {
            return Ok(());
        }
        let path = self.path.display();
        Err(io::Error::other(format!("the directory {path} was moved or replaced since the start")))
    }
}

impl Spot {
    /// The directory that is held.
    #[must_use]
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The name in it.
    #[must_use]
    pub fn name(&self) -> &Path {
        Path::new(&self.name)
    }

    /// Returns what has the name; `None` if nothing has. A link is an error.
    ///
    /// # Errors
    ///
    /// It is a link, or cannot be looked at.
    pub fn metadata(&self) -> io::Result<Option<Metadata>> {
        match self.open(OFlag::O_PATH) {
            Ok(file) => file.metadata().map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens what has the name; never through a link.
    ///
    /// # Errors
    ///
    /// Nothing has, it is a link, or the file system refuses.
    pub fn open(&self, flags: OFlag) -> io::Result<File> {
        open_beneath(self.directory(), self.name(), flags).map(File::from)
    }
}

/// Why a located path is not followed: it had no links when it was located.
#[derive(Debug, Error)]
#[error("a link has come to stand on its path")]
struct Swapped;

/// Tells whether something on a located path was swapped for a link.
#[must_use]
pub fn is_swapped(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|source| source.is::<Swapped>())
}

fn split(target: &Path) -> io::Result<(&Path, OsString)> {
    match (target.parent(), target.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name.to_owned())),
        (Some(_) | None, _) => Err(io::Error::from(io::ErrorKind::IsADirectory)),
    }
}

/// Opens a path of plain names below a directory.
fn open_beneath(directory: BorrowedFd<'_>, path: &Path, flags: OFlag) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlag::RESOLVE_BENEATH
        | ResolveFlag::RESOLVE_NO_MAGICLINKS
        | ResolveFlag::RESOLVE_NO_SYMLINKS;
    let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve);
    let opened = match openat2(directory, path, how) {
        // A kernel before 5.6, or a sandbox that does not know the call.
        Err(Errno::ENOSYS) => step_by_step(directory, path, flags),
        opened => opened,
    };
    opened.map_err(|error| {
        let is_swapped = matches!(error, Errno::ELOOP | Errno::EXDEV);
        if is_swapped { io::Error::other(Swapped) } else { error.into() }
    })
}

/// Does what `openat2` does, one name at a time: a path without links is the
/// same either way.
fn step_by_step(directory: BorrowedFd<'_>, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let open = |directory: BorrowedFd<'_>, name: &Path, flags| {
        let opened =
            openat(directory, name, flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())?;
        // With O_PATH the link itself is opened.
        let kind = nix::sys::stat::fstat(&opened)?.st_mode & nix::libc::S_IFMT;
        if kind == nix::libc::S_IFLNK { Err(Errno::ELOOP) } else { Ok(opened) }
    };
    let mut held = None;
    let mut names = path.iter().map(Path::new).peekable();
    while let Some(name) = names.next() {
        let above = held.as_ref().map_or(directory, OwnedFd::as_fd);
        let flags = if names.peek().is_some() { OFlag::O_PATH } else { flags };
        held = Some(open(above, name, flags)?);
    }
    held.ok_or(Errno::ENOENT)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf, Roots) {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let root = top.join("work");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), "inside").unwrap();
        std::fs::write(top.join("outside"), "outside").unwrap();
        symlink("a", root.join("link")).unwrap();
        symlink("../outside", root.join("a/out")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        let roots = Roots::open([root.as_path()]).unwrap();
        (place, root, roots)
    }

    #[test]
    fn a_located_file_is_opened_and_nothing_is_opened_through_a_link() {
        let (_place, root, roots) = place();
        assert_eq!(
            io::read_to_string(roots.file(&root.join("a/b/file")).unwrap()).unwrap(),
            "inside"
        );
        let outside = root.with_file_name("outside");
        assert_eq!(io::read_to_string(roots.file(&outside).unwrap()).unwrap(), "outside");
        for name in ["link/b/file", "a/out", "magic/etc/hosts", "magic"] {
            let refused = roots.file(&root.join(name)).unwrap_err();
            assert_eq!(refused.to_string(), "a link has come to stand on its path", "{name}");
            assert!(roots.make_spot(&root.join(name).join("new")).is_err(), "{name}");
        }
        assert!(roots.spot(&root.join("a/out")).unwrap().metadata().is_err());
        assert!(roots.spot(Path::new("/")).is_err());
    }

    #[test]
    fn names_taken_one_at_a_time_lead_where_the_system_call_leads() {
        let (_place, root, roots) = place();
        let top = roots.nearest(&root).unwrap().0.directory.as_fd();
        for flags in [OFlag::O_RDONLY, OFlag::O_PATH] {
            for (name, expected) in [
                ("a/b/file", Ok(())),
                ("a/b", Ok(())),
                ("a/none", Err(Errno::ENOENT)),
                ("a/b/file/x", Err(Errno::ENOTDIR)),
                ("a/out", Err(Errno::ELOOP)),
                ("link/b/file", Err(Errno::ELOOP)),
            ] {
                let stepped = step_by_step(top, Path::new(name), flags).map(drop);
                assert_eq!(stepped, expected, "{name}");
                assert_eq!(open_beneath(top, Path::new(name), flags).is_ok(), expected.is_ok());
            }
        }
    }

    #[test]
    fn missing_directories_are_made_and_counted() {
        let (_place, root, roots) = place();
        let target = root.join("a/x/y/file");
        assert!(roots.spot(&target).is_err());
        let (spot, made) = roots.make_spot(&target).unwrap();
        assert_eq!((made, spot.metadata().unwrap().is_none()), (2, true));
        assert!(root.join("a/x/y").is_dir());
        assert_eq!(roots.make_spot(&target).unwrap().1, 0);
    }

    #[test]
    fn a_directory_that_was_moved_is_named() {
        let (_place, root, roots) = place();
        let moved = root.with_file_name("moved");
        std::fs::rename(&root, &moved).unwrap();
        for _ in 0..2 {
            let refused = roots.spot(&root.join("a/b/file")).unwrap_err();
            let expected = "was moved or replaced since the start";
            assert!(refused.to_string().ends_with(expected), "{refused}");
            let _ = symlink(&moved, &root);
        }
    }
}
