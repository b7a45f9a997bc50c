//! JSON that a flag gives: itself, or in a file that the flag names.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::{Arc, OnceLock};

use crate::json_text;

/// Most bytes of such a file. What people write there are kilobytes, and what
/// programs do fits a megabyte; a pipe that never ends is noticed.
pub const GIVEN_CAP: usize = 1024 * 1024;

/// JSON, or the name of a file that holds it.
///
/// A file is read once, whoever asks and however often: it may be a pipe, which
/// has nothing to say to the second one. Copies share what was read.
#[derive(Debug, Clone)]
pub struct GivenJson {
    typed: Arc<str>,
    read: Arc<OnceLock<Result<String, Unread>>>,
}

/// Why a file that a flag names cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// Its name.
    pub file: String,
    /// Why.
    pub why: String,
}

impl From<String> for GivenJson {
    fn from(typed: String) -> Self {
        Self { typed: typed.into(), read: Arc::default() }
    }
}

impl PartialEq for GivenJson {
    fn eq(&self, other: &Self) -> bool {
        self.typed == other.typed
    }
}

impl GivenJson {
    /// Returns the name of the file; `None` if the flag holds the JSON itself,
    /// which begins as an object or a list does. An `@` in front of a name is
    /// none of it.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        let typed = json_text::strip_mark(self.typed.trim()).trim();
        let is_json = typed.starts_with(['{', '[']) || matches!(typed, "true" | "false");
        (!is_json).then(|| typed.strip_prefix('@').unwrap_or(typed))
    }

    /// Returns the JSON, as it is written.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no text of at most [`GIVEN_CAP`] bytes.
    pub fn text(&self) -> Result<&str, &Unread> {
        let Some(file) = self.file() else { return Ok(&self.typed) };
        let reading = || {
            let unread = |error: io::Error| Unread { file: file.into(), why: why(&error) };
            read(file).map_err(unread)
        };
        self.read.get_or_init(reading).as_deref()
    }
}

fn read(file: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(file)?.take(GIVEN_CAP as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > GIVEN_CAP {
        return Err(io::Error::other(format!("it is longer than {GIVEN_CAP} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is no text in UTF-8"))
}

fn why(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        return "there is no such file".to_owned();
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(typed: &str) -> GivenJson {
        GivenJson::from(typed.to_owned())
    }

    #[test]
    fn what_begins_as_json_does_is_no_file() {
        for typed in ["{}", " [1]", "true", "{oops"] {
            let given = given(typed);
            assert_eq!((given.file(), given.text()), (None, Ok(typed)));
        }
        for (typed, file) in
            [("a.json", "a.json"), ("@a.json", "a.json"), (" true.json ", "true.json")]
        {
            assert_eq!(given(typed).file(), Some(file));
        }
    }

    #[test]
    fn a_file_is_read_once_and_its_copies_know_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.json");
        std::fs::write(&path, "{\"a\":1}").unwrap();
        let given = given(&path.to_string_lossy());
        let copy = given.clone();
        assert_eq!(given.text(), Ok("{\"a\":1}"));
        std::fs::write(&path, "{}").unwrap();
        assert_eq!((given.text(), copy.text()), (Ok("{\"a\":1}"), Ok("{\"a\":1}")));
    }

    #[test]
    fn what_cannot_be_read_is_said_and_has_a_bound() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = place.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path.to_string_lossy().into_owned()
        };
        let full = vec![b' '; GIVEN_CAP];
        assert_eq!(given(&write("full", &full)).text().map(str::len), Ok(GIVEN_CAP));
        let long = write("long", &[full, vec![b' ']].concat());
        for (file, why) in [
            (&*long, "it is longer than 1048576 bytes"),
            (&write("bytes", b"{\xff}"), "it is no text in UTF-8"),
            ("/nowhere/a.json", "there is no such file"),
            ("/dev/zero", "it is longer than 1048576 bytes"),
        ] {
            let unread = Unread { file: file.to_owned(), why: why.to_owned() };
            assert_eq!(given(file).text(), Err(&unread));
        }
    }
}
