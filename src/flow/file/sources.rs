//! Where flow files and what they name are read from: the disk, or the program
//! itself.
//!
//! What a flow names lies below its own directory, however links lead, and is a
//! plain file: a pipe would be waited for without an end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use nix::fcntl::OFlag;

/// Where files are read from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sources {
    Disk,
    /// Paths and texts.
    Bundled(&'static [(&'static str, &'static str)]),
}

/// What tells a file from all others, whatever it is called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Identity {
    /// The device and its number there.
    Disk(u64, u64),
    /// Its path.
    Bundled(PathBuf),
}

/// A file that was read.
pub(super) struct Opened {
    pub(super) identity: Identity,
    pub(super) bytes: Vec<u8>,
}

impl Sources {
    /// Reads a file of at most `cap` bytes, or says what is wrong with it.
    pub(super) fn open(self, path: &Path, cap: usize) -> Result<Opened, String> {
        match self {
            Self::Disk => read(path, cap),
            Self::Bundled(files) => {
                let text = files.iter().find(|(name, _)| Path::new(name) == path);
                let (_, text) = text.ok_or_else(no_such_file)?;
                let identity = Identity::Bundled(path.to_owned());
                Ok(Opened { identity, bytes: text.as_bytes().to_vec() })
            }
        }
    }

    /// Tells whether they are a part of the program.
    pub(super) fn is_bundled(self) -> bool {
        match self {
            Self::Disk => false,
            Self::Bundled(_) => true,
        }
    }

    /// Tells whether a directory is meant, and so the flow file in it.
    pub(super) fn is_directory(self, path: &Path) -> bool {
        match self {
            Self::Disk => path.is_dir(),
            Self::Bundled(_) => false,
        }
    }

    /// Finds a file that another one names: below that one's directory, and
    /// nowhere else.
    pub(super) fn beside(self, path: &Path, named: &str) -> Result<PathBuf, String> {
        let relative = Path::new(named);
        let is_below = relative.components().all(|part| match part {
            Component::Normal(_) | Component::CurDir => true,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => false,
        });
        if !is_below {
            return Err("it must lie below the directory of the flow file, named from there".into());
        }
        let directory = match path.parent() {
            Some(directory) if directory != Path::new("") => directory,
            Some(_) | None => Path::new("."),
        };
        let path = match self {
            Self::Disk => directory.join(relative),
            Self::Bundled(_) => return Ok(clean(&directory.join(relative))),
        };
        let whole = path.canonicalize().map_err(|error| why(&error))?;
        let directory = directory.canonicalize().map_err(|error| why(&error))?;
        match whole.starts_with(&directory) {
            true => Ok(clean(&path)),
            false => Err(format!(
                "it leads to `{}`, which does not lie below the directory of the flow file",
                whole.display()
            )),
        }
    }
}

/// Reads a plain file.
fn read(path: &Path, cap: usize) -> Result<Opened, String> {
    // Not to wait for whoever would write to a pipe.
    let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    let open = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = open.map_err(|error| why(&error))?;
    let metadata = file.metadata().map_err(|error| why(&error))?;
    if !metadata.is_file() {
        return Err("this is not a regular file".to_owned());
    }
    let bytes = bounded(file, cap).map_err(|error| why(&error))?;
    if bytes.len() > cap {
        return Err(format!("the file is larger than {cap} bytes"));
    }
    Ok(Opened { identity: Identity::Disk(metadata.dev(), metadata.ino()), bytes })
}

fn bounded(file: File, cap: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(cap as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns a path without the parts that lead nowhere.
fn clean(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

fn why(error: &io::Error) -> String {
    match error.kind() == io::ErrorKind::NotFound {
        true => no_such_file(),
        false => format!("cannot be read: {error}"),
    }
}

fn no_such_file() -> String {
    "there is no such file".to_owned()
}
