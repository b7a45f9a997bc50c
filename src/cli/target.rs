//! A file that is written when all is over.
//!
//! Until then nothing of it is there: whoever looks at the working directory
//! meanwhile finds no file of ours, and what an earlier run wrote stays where it
//! is if this one comes to nothing.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::exit::{Exit, Refusal};
use super::print;
use super::start::repository_root;
use crate::git::{self, Git};
use crate::real_path;

/// A file that can be written, as far as that is known before.
pub(super) struct Target {
    path: PathBuf,
    /// Where the path led when it was looked at: an agent may put a link there meanwhile.
    leads_to: Option<PathBuf>,
    /// What was open already, or is no plain file; `None` of one that is put in
    /// its place as a whole.
    open: Option<File>,
    readers: Readers,
}

/// Which links out of the repository are followed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Links<'a> {
    /// None: nobody has named the file, or agents have been at work.
    Inside,
    /// The user's own links, as a shell's `>` follows them, because the user has named the
    /// file. Git tells which links the repository has committed.
    OfUser(&'a git::Program),
}

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readers {
    /// As many as of the one that it replaces, or as the user's mask lets.
    AsBefore,
    /// The user alone.
    User,
}

/// Reads the first bytes of a file, to tell what it is.
pub(super) fn head(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut head)?;
    Ok(head)
}

impl Target {
    /// Finds out whether a file can be written, and leaves it as it is.
    pub(super) fn new(path: &Path, links: Links<'_>) -> Result<Self, Refusal> {
        Self::read_by(path, Readers::AsBefore, links)
    }

    /// Does the same for a file that nobody but the user is to read.
    pub(super) fn private(path: &Path, links: Links<'_>) -> Result<Self, Refusal> {
        Self::read_by(path, Readers::User, links)
    }

    fn read_by(path: &Path, readers: Readers, links: Links<'_>) -> Result<Self, Refusal> {
        if let Some(Outside { root, real }) = leads_out(path)
            && let Some(why) = why_refused(path, &root, &real, links)
        {
            let message = format!(
                "`{}` leads out of this directory by a link, to `{}`, and {why}",
                path.display(),
                real.display()
            );
            return Err(Refusal::new(Exit::BadInput, message)
                .hint("name another file, or the one that the link leads to"));
        }
        match probe(path, readers) {
            Ok(open) => {
                let leads_to = locate_here(path);
                Ok(Self { path: path.to_owned(), leads_to, open, readers })
            }
            Err(error) => Err(Refusal::cannot_write(Exit::BadInput, path, &error)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes it.
    pub(super) fn write(self, bytes: &[u8]) -> io::Result<()> {
        if let Some(mut file) = self.open {
            return file.write_all(bytes);
        }
        if locate_here(&self.path) != self.leads_to {
            return Err(io::Error::other("it has become a link to another file meanwhile"));
        }
        // A link stays one.
        let path = self.path.canonicalize().unwrap_or(self.path);
        match replacement(&path, self.readers)? {
            Some(mut file) => {
                file.write_all(bytes)?;
                file.persist(&path).map(|_| ()).map_err(|error| error.error)
            }
            None => fs::write(&path, bytes),
        }
    }
}

/// Returns where a path leads, from the working directory.
fn locate_here(path: &Path) -> Option<PathBuf> {
    real_path::locate(&std::env::current_dir().ok()?.join(path)).ok()
}

/// Where a path leads that is below a directory and leads out of it.
struct Outside {
    root: PathBuf,
    real: PathBuf,
}

/// Returns where a path below the working directory, or the repository around it, leads
/// if that is elsewhere: a repository may bring a link of any name along.
fn leads_out(path: &Path) -> Option<Outside> {
    let cwd = std::env::current_dir().ok()?;
    let root = repository_root(&cwd).unwrap_or_else(|| cwd.clone());
    let path = cwd.join(path);
    let parent = path.parent().and_then(|parent| real_path::locate(parent).ok());
    let is_below = path.starts_with(&root) || parent.is_some_and(|it| it.starts_with(&root));
    let real = real_path::locate(&path).ok().filter(|_| is_below)?;
    (!real.starts_with(&root)).then_some(Outside { root, real })
}

/// Returns why a link out of `root` is not followed; `None` if it is taken for the user's own.
///
/// An agent of an earlier run may have made it, too. So it must not lead to where programs look
/// for what they run or obey.
fn why_refused(path: &Path, root: &Path, real: &Path, links: Links<'_>) -> Option<&'static str> {
    let Links::OfUser(git) = links else {
        return Some("only a link to a file that you name is followed");
    };
    let is_hidden = |part: &OsStr| part.as_encoded_bytes().starts_with(b".");
    let common = real.components().zip(root.components()).take_while(|(one, other)| one == other);
    if real.components().skip(common.count()).any(|part| is_hidden(part.as_os_str())) {
        return Some("links to hidden files are not followed");
    }
    if fs::metadata(real).is_ok_and(|it| it.is_file() && it.mode() & 0o111 != 0) {
        return Some("links to programs are not followed");
    }
    let is_repository = root.join(".git").exists();
    let may_be_brought = is_repository
        && links_below(path, root).iter().any(|link| {
            let name = link.strip_prefix(root).unwrap_or(link);
            let mut pattern = OsString::from(":(top,literal)");
            pattern.push(name);
            let listed = Git::at(git, root).and_then(|git| {
                git.run(&[OsStr::new("ls-files"), "-z".as_ref(), "--".as_ref(), &pattern])
            });
            // If git cannot answer, the link may be a committed one.
            listed.map_or(true, |listed| !listed.is_empty())
        });
    may_be_brought.then_some("the repository has brought that link along")
}

/// Maximum links on the way to a file.
const LINKS_CAP: usize = 40;

/// Returns the links below `root` on the way to where a path leads.
fn links_below(path: &Path, root: &Path) -> Vec<PathBuf> {
    let mut links = Vec::new();
    let Ok(mut rest) = std::env::current_dir().map(|cwd| cwd.join(path)) else { return links };
    while links.len() < LINKS_CAP {
        let ways: Vec<&Path> = rest.ancestors().collect();
        let Some(link) = ways.into_iter().rev().find(|it| it.is_symlink()) else { break };
        let Ok(target) = link.read_link() else { break };
        let behind = rest.strip_prefix(link).unwrap_or(Path::new("")).to_owned();
        links.extend(real_path::locate_entry(link));
        let mut next = link.with_file_name(target);
        if !behind.as_os_str().is_empty() {
            next.push(behind);
        }
        rest = next;
    }
    links.retain(|link| link.starts_with(root));
    links
}

fn probe(path: &Path, readers: Readers) -> io::Result<Option<File>> {
    if print::is_open(path) {
        return print::open(path).map(Some);
    }
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => File::options().write(true).open(path).map(|_| None),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_odd(path) => {
            beside(path, readers).map(|_| None)
        }
        Ok(_) | Err(_) => print::open(path).map(Some),
    }
}

/// Tells whether a name that there is no file of means more than a file: one that
/// a link leads to, or a directory.
fn is_odd(path: &Path) -> bool {
    path.is_symlink() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Returns a new file that can take the place of another one; `None` if that one
/// is more than its name and its bytes.
fn replacement(path: &Path, readers: Readers) -> io::Result<Option<NamedTempFile>> {
    let Ok(old) = fs::metadata(path) else { return beside(path, readers).map(Some) };
    let new = match (beside(path, readers), readers) {
        (Ok(new), _) => new,
        (Err(error), Readers::User) => return Err(error),
        (Err(_), Readers::AsBefore) => return Ok(None),
    };
    if readers == Readers::User {
        // Whatever it was before: others may have it open by another name.
        return Ok(Some(new));
    }
    let is_same = |new: &Metadata| (new.uid(), new.gid()) == (old.uid(), old.gid());
    if old.nlink() > 1 || !is_same(&new.as_file().metadata()?) {
        return Ok(None);
    }
    new.as_file().set_permissions(old.permissions())?;
    Ok(Some(new))
}

/// Makes a new file beside another one, which is gone again when it is dropped.
fn beside(path: &Path, readers: Readers) -> io::Result<NamedTempFile> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    tempfile::Builder::new()
        .prefix(".tine-")
        .permissions(Permissions::from_mode(match readers {
            // What the user's mask leaves of it.
            Readers::AsBefore => 0o666,
            Readers::User => 0o600,
        }))
        .tempfile_in(directory.unwrap_or(Path::new(".")))
        .map_err(|error| without_name(&error))
}

/// Leaves out of an error the name of a file that nobody has asked for.
fn without_name(error: &io::Error) -> io::Error {
    let text = error.to_string();
    let cause = text.split_once(" at path ").map_or(&*text, |(cause, _)| cause);
    io::Error::new(error.kind(), cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_as_it_was_until_it_is_written_and_nothing_stands_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let names = || fs::read_dir(directory.path()).unwrap().count();
        let (new, old) = (directory.path().join("new"), directory.path().join("old"));
        fs::write(&old, "before").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o640)).unwrap();
        let linked = directory.path().join("link");
        std::os::unix::fs::symlink("old", &linked).unwrap();
        let [first, second] = [&new, &linked]
            .map(|path| Target::new(path, Links::Inside).map_err(|it| it.message).unwrap());
        assert_eq!((names(), fs::read_to_string(&old).unwrap()), (2, "before".to_owned()));
        first.write(b"one").unwrap();
        second.write(b"two").unwrap();
        assert_eq!(fs::read_to_string(&new).unwrap(), "one");
        assert_eq!((names(), fs::read_to_string(&old).unwrap()), (3, "two".to_owned()));
        assert_eq!(fs::metadata(&old).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(linked.is_symlink());
    }

    #[test]
    fn a_place_that_cannot_be_written_is_refused_at_once() {
        for path in ["/nowhere/x", "/", "/proc/version/x"] {
            let refused =
                Target::new(Path::new(path), Links::Inside).map(|_| ()).map_err(|it| it.message);
            let message = refused.unwrap_err();
            assert!(message.starts_with(&format!("cannot write `{path}`: ")), "{message}");
            assert!(!message.contains(".tine-") && message.ends_with(')'), "{message}");
        }
    }
}
