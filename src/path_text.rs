//! Paths as text and back, without loss.
//!
//! A model reads and writes text, a path is bytes. What text cannot carry on
//! one line (bytes that are not UTF-8, control characters) is shown as `\xNN`,
//! and so is a backslash that would read like such an escape. Whether a path
//! may be touched is the guard's business.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Writes a path as one line of text; [`from_text`] gives the same path back.
#[must_use]
pub fn to_text(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        let valid = chunk.valid();
        for (at, c) in valid.char_indices() {
            if c.is_ascii_control() || escape(&valid.as_bytes()[at..]).is_some() {
                push_escape(&mut text, c as u8);
            } else {
                text.push(c);
            }
        }
        for &byte in chunk.invalid() {
            push_escape(&mut text, byte);
        }
    }
    text
}

/// Reads a path written by [`to_text`].
#[must_use]
pub fn from_text(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if let Some(byte) = escape(rest) {
            bytes.push(byte);
            rest = &rest[4..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The error for a text that a shell or a browser would expand to another path.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "`{text}` begins with `{start}`, which tools do not expand: it would name a file or directory \
     called `{start}`, and there is none. Give the whole path{}, or one from the working directory",
    if start.starts_with("file:") { String::new() } else { format!(" (in Bash, `echo {start}` prints it)") }
)]
pub struct Unexpanded {
    text: String,
    /// The part that is not expanded.
    start: String,
}

/// Returns the path a model means by `text`; relative ones start at `root`.
///
/// A file with literally that name comes first, so that a name which looks
/// like an escape can be given as it is.
///
/// # Errors
///
/// It begins with `~`, a variable or a scheme, and nothing here has that name. Such a
/// text is always written for a program that expands it.
pub fn resolve(root: &Path, text: &str) -> Result<PathBuf, Unexpanded> {
    if let Some(start) = expandable(text)
        && root.join(start).symlink_metadata().is_err()
    {
        return Err(Unexpanded { text: text.to_owned(), start: start.to_owned() });
    }
    let literal = root.join(text);
    let read = root.join(from_text(text));
    Ok(if read == literal || literal.symlink_metadata().is_ok() { literal } else { read })
}

/// Returns the first name of a path if a shell would put something else in its place.
fn expandable(text: &str) -> Option<&str> {
    let (first, has_more) = text.split_once('/').map_or((text, false), |(first, _)| (first, true));
    let is_name = |name: &str, is_in: fn(char) -> bool| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| is_in(c) || c == '_' || c.is_ascii_digit())
    };
    let is_user = |name: &str| is_name(name, |c| c.is_ascii_lowercase() || c == '-');
    let is_variable = |name: &str| is_name(name, |c| c.is_ascii_uppercase());
    let braced = |name: &str| {
        let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        name.is_some_and(is_variable)
    };
    let is_expandable = match first.split_at_checked(1) {
        Some(("~", "")) => true,
        Some(("~", user)) => has_more && is_user(user),
        Some(("$", name)) => is_variable(name) || braced(name),
        Some(_) => text.starts_with("file://"),
        None => false,
    };
    is_expandable.then_some(first)
}

/// Returns every path that [`resolve`] may take `text` for. Which one it is
/// can change between two looks, so whoever judges a path judges all of them.
#[must_use]
pub fn readings(text: &str) -> Vec<PathBuf> {
    let (literal, read) = (PathBuf::from(text), from_text(text));
    if read == literal { vec![literal] } else { vec![literal, read] }
}

/// Returns the text for a path: relative to `root` where it is inside.
#[must_use]
pub fn shown(root: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(root).unwrap_or(path);
    let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
    to_text(inside)
}

/// Returns the byte that an escape at the start of `bytes` stands for.
fn escape(bytes: &[u8]) -> Option<u8> {
    let [b'\\', b'x', high, low, ..] = bytes else { return None };
    let digit =
        |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? * 16 + digit(low)?)
}

fn push_escape(text: &mut String, byte: u8) {
    write!(text, "\\x{byte:02x}").expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(name: &[u8], text: &str) {
        let path = PathBuf::from(OsString::from_vec(name.to_vec()));
        assert_eq!(to_text(&path), text);
        assert_eq!(from_text(text), path);
    }

    #[test]
    fn an_ordinary_path_is_its_own_text() {
        check(b"src/main.rs", "src/main.rs");
        check("src/größe~.rs".as_bytes(), "src/größe~.rs");
        check(br"a\b\xg0\x1", r"a\b\xg0\x1");
    }

    #[test]
    fn bytes_that_are_not_utf8_and_control_characters_are_shown_as_escapes() {
        check(b"caf\xe9.txt", r"caf\xe9.txt");
        check(b"\xff\xfe", r"\xff\xfe");
        check(b"two\nlines\x1b", r"two\x0alines\x1b");
    }

    #[test]
    fn a_name_that_looks_like_an_escape_is_escaped_itself() {
        check(br"a\x41", r"a\x5cx41");
        check(br"\x5cx41", r"\x5cx5cx41");
    }

    proptest! {
        #[test]
        fn every_path_survives_the_way_through_text(name in proptest::collection::vec(any::<u8>(), 0..40)) {
            let path = PathBuf::from(OsString::from_vec(name));
            let text = to_text(&path);
            prop_assert_eq!(from_text(&text), path);
            prop_assert!(!text.contains(char::is_control) || text.chars().all(|c| !c.is_ascii_control()));
        }

        #[test]
        fn names_full_of_escapes_survive_too(name in r"[\\x4af]{0,12}") {
            let path = PathBuf::from(name);
            prop_assert_eq!(from_text(&to_text(&path)), path);
        }
    }

    #[test]
    fn resolve_prefers_a_file_with_literally_that_name() {
        let place = tempfile::tempdir().unwrap();
        let resolved = |text| resolve(place.path(), text).unwrap();
        assert_eq!(resolved(r"a\x41"), place.path().join("aA"));
        std::fs::write(place.path().join(r"a\x41"), "").unwrap();
        assert_eq!(resolved(r"a\x41"), place.path().join(r"a\x41"));
    }

    #[test]
    fn resolve_starts_at_the_root() {
        let root = Path::new("/w");
        assert_eq!(resolve(root, "a/b").unwrap(), Path::new("/w/a/b"));
        assert_eq!(resolve(root, "/a/b").unwrap(), Path::new("/a/b"));
    }

    #[test]
    fn what_a_shell_would_expand_is_refused_unless_it_is_the_name_of_something() {
        let place = tempfile::tempdir().unwrap();
        for text in [
            "~",
            "~/",
            "~/b",
            "~ada/b",
            "$HOME",
            "$HOME/b",
            "${HOME}/b",
            "$XDG_DATA_HOME/b",
            "file:///b",
        ] {
            assert!(resolve(place.path(), text).is_err(), "{text}");
        }
        for text in [
            "~b",
            "a/~/b",
            "./~/b",
            "b~",
            "~$doc.docx",
            "$",
            "$id.tsx",
            "$lib/b",
            "~1/b",
            "{A}/b",
            "file:b",
        ] {
            assert_eq!(resolve(place.path(), text).unwrap(), place.path().join(text));
        }
        std::fs::create_dir(place.path().join("~")).unwrap();
        assert_eq!(resolve(place.path(), "~/b").unwrap(), place.path().join("~/b"));
        assert_eq!(
            resolve(place.path(), "$HOME/b").unwrap_err().to_string(),
            "`$HOME/b` begins with `$HOME`, which tools do not expand: it would name a file or \
             directory called `$HOME`, and there is none. Give the whole path (in Bash, `echo \
             $HOME` prints it), or one from the working directory"
        );
    }

    #[test]
    fn a_path_inside_the_root_is_shown_relative() {
        assert_eq!(shown(Path::new("/w"), Path::new("/w/a/b")), "a/b");
        assert_eq!(shown(Path::new("/w"), Path::new("/w")), ".");
        assert_eq!(shown(Path::new("/w"), Path::new("/wide")), "/wide");
    }
}
