//! A session's name: a small file beside its log.
//!
//! It is no event, because a listing must not read whole logs for it and it may
//! change while a run writes the log. The file is replaced as a whole, so a
//! reader finds the old name or the new one.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::OFlag;
use thiserror::Error;

use super::dirs;
use super::log::LogError;

/// Most characters of a name: a listing shows it beside the prompt.
const NAME_CAP: usize = 80;

/// Most bytes read of a name's file; the longest name has 4 for a character.
const FILE_CAP: u64 = 4 * NAME_CAP as u64 + 1;

/// What people call a session: one line of 1 to 80 characters, with nothing
/// around it and no control character in it.
///
/// It is what a user typed: strip what a terminal would obey or hide before
/// showing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionName(String);

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// There is nothing in it.
    #[error("the session's name is empty\nhint: give it 1 to {NAME_CAP} characters")]
    Empty,
    /// It would not fit in a listing.
    #[error("the session's name has {characters} characters\nhint: it may have {NAME_CAP}")]
    TooLong {
        /// How many it has.
        characters: usize,
    },
    /// It holds a line break or another control character.
    #[error("the session's name holds a line break or a control character\nhint: leave it out")]
    Control,
}

impl SessionName {
    /// Takes a name as it was typed, without the space around it.
    ///
    /// # Errors
    ///
    /// If it is empty, too long, or not one line of text.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let text = text.trim();
        let characters = text.chars().count();
        if text.is_empty() {
            Err(NameError::Empty)
        } else if characters > NAME_CAP {
            Err(NameError::TooLong { characters })
        } else if text.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
            Err(NameError::Control)
        } else {
            Ok(Self(text.to_owned()))
        }
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether somebody who typed `wanted` means this name: the whole of
    /// it, in any case.
    #[must_use]
    pub fn is(&self, wanted: &str) -> bool {
        self.0.to_lowercase() == wanted.trim().to_lowercase()
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the name of the session in `directory`; `None` if it has none, or
/// none that can be read.
#[must_use]
pub fn read_name(directory: &Path) -> Option<SessionName> {
    let mut options = OpenOptions::new();
    // Commands of a run can write here: a link is not followed, and a pipe that
    // nobody writes to does not hold up a listing.
    options.read(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
    let file = options.open(directory.join(dirs::NAME)).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(FILE_CAP).read_to_string(&mut text).ok()?;
    SessionName::parse(&text).ok()
}

/// Names the session in `directory`, also while a run writes its log.
///
/// # Errors
///
/// The session then has the name that it had before.
pub fn write_name(directory: &Path, name: &SessionName) -> Result<(), LogError> {
    let path = directory.join(dirs::NAME);
    replace(directory, name).map_err(|error| LogError::io("write", &path, error))
}

/// Takes the name of the session in `directory` away, if it has one.
///
/// # Errors
///
/// The session may then still have its name.
pub fn remove_name(directory: &Path) -> Result<(), LogError> {
    let path = directory.join(dirs::NAME);
    let removed = match fs::remove_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => sync(directory),
    };
    removed.map_err(|error| LogError::io("remove", &path, error))
}

fn replace(directory: &Path, name: &SessionName) -> io::Result<()> {
    // It is made for the user alone.
    let mut file = tempfile::Builder::new().prefix(".name-").tempfile_in(directory)?;
    writeln!(file, "{name}")?;
    file.as_file().sync_all()?;
    file.persist(directory.join(dirs::NAME)).map_err(|error| error.error)?;
    sync(directory)
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, NameError>) {
        let parsed = SessionName::parse(text).map(|name| name.to_string());
        assert_eq!(parsed, expected.map(str::to_owned));
    }

    #[test]
    fn a_name_is_one_line_of_1_to_80_characters() {
        check(" nightly review\n", Ok("nightly review"));
        check("Größe 😀", Ok("Größe 😀"));
        check(&"é".repeat(80), Ok(&"é".repeat(80)));
        check(&"é".repeat(81), Err(NameError::TooLong { characters: 81 }));
        check("", Err(NameError::Empty));
        check(" \t\n", Err(NameError::Empty));
        for control in ["a\nb", "a\tb", "a\u{1b}[1m", "a\u{9b}b", "a\u{2028}b", "a\0b"] {
            check(control, Err(NameError::Control));
        }
    }

    #[test]
    fn a_name_is_meant_in_any_case_and_only_as_a_whole() {
        let name = SessionName::parse("Große Prüfung").unwrap();
        assert!(name.is("große prüfung") && name.is(" GROßE PRÜFUNG "));
        assert!(!name.is("große") && !name.is("") && !name.is("große prüfung 2"));
    }

    #[test]
    fn the_last_name_that_was_given_counts() {
        let session = tempfile::tempdir().unwrap();
        let directory = session.path();
        assert_eq!(read_name(directory), None);
        for text in ["first", "second, and longer", "third"] {
            let name = SessionName::parse(text).unwrap();
            write_name(directory, &name).unwrap();
            assert_eq!(read_name(directory), Some(name));
        }
        let mode = fs::metadata(directory.join("name")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory).unwrap().count(), 1);
        remove_name(directory).unwrap();
        remove_name(directory).unwrap();
        assert_eq!(read_name(directory), None);
    }

    #[test]
    fn what_is_no_name_is_read_as_none() {
        let session = tempfile::tempdir().unwrap();
        let path = session.path().join("name");
        for bytes in [&b"two\nlines"[..], b"\xff\xfe", b"", "x".repeat(10_000).as_bytes()] {
            fs::write(&path, bytes).unwrap();
            assert_eq!(read_name(session.path()), None);
        }
        fs::remove_file(&path).unwrap();
        fs::write(session.path().join("other"), "elsewhere").unwrap();
        symlink("other", &path).unwrap();
        assert_eq!(read_name(session.path()), None);
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read_name(session.path()), None);
    }
}
