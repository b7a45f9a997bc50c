//! Opens regular files for the file tools, or says in words why not.
//!
//! A directory, a pipe or a device is refused before it is opened: opening a
//! pipe waits for its other end, for ever.

use std::ffi::{OsStr, OsString};
use std::fs::{File, FileType, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::look_alike::PlainText;
use crate::path_text;
use crate::real_path::locate;
use crate::slips::distance;

use super::{ToolError, Workspace};

/// Most names of a directory that are compared with a name that is missing.
const NAMES_CAP: usize = 10_000;

/// A regular file that is open for reading.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: File,
    /// What is known of it.
    pub metadata: Metadata,
    /// The file itself, with every link followed.
    pub target: PathBuf,
}

/// Opens a regular file for reading.
///
/// # Errors
///
/// A sentence for the model: there is none (and what is near), it is a
/// directory or special, or it may not be read.
pub fn open(workspace: &Workspace, path: &Path) -> Result<Opened, ToolError> {
    let failed = |error: io::Error| failed(workspace, path, "read", &error);
    let target = locate(path).map_err(failed)?;
    let metadata = workspace.roots.metadata(&target).map_err(failed)?;
    refuse_special(workspace, path, metadata.file_type())?;
    // Something else may stand there by now.
    let file = workspace.roots.file(&target).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    refuse_special(workspace, path, metadata.file_type())?;
    Ok(Opened { file, metadata, target })
}

/// Reads a regular file of at most `most` bytes that is one of `places`.
///
/// # Errors
///
/// As for [`open`], or that the file is larger or elsewhere.
pub fn read(
    workspace: &Workspace,
    path: &Path,
    places: &[PathBuf],
    most: u64,
) -> Result<Vec<u8>, ToolError> {
    let Opened { file, metadata: _, target } = open(workspace, path)?;
    refuse_elsewhere(workspace, path, &target, places)?;
    let mut bytes = Vec::new();
    // Its length says little: the file may grow, or be one of `/proc`.
    let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| failed(workspace, path, "read", &error))?;
    if bytes.len() as u64 > most {
        let shown = path_text::shown(&workspace.root, path);
        return Err(ToolError::tell(format!("{shown} is larger than {most} bytes.")));
    }
    Ok(bytes)
}

/// Refuses a file that is none of the `places` where the paths of the call led
/// when it was judged: something was renamed or linked since.
///
/// # Errors
///
/// A sentence for the model. `path` is as the call names it.
pub fn refuse_elsewhere(
    workspace: &Workspace,
    path: &Path,
    target: &Path,
    places: &[PathBuf],
) -> Result<(), ToolError> {
    if places.iter().any(|place| place == target) {
        return Ok(());
    }
    let (shown, target) = (path_text::shown(&workspace.root, path), path_text::to_text(target));
    Err(ToolError::tell(format!(
        "{shown} now leads to {target}, not where it led when the call was allowed; nothing was \
         done. Call again if that is what you want."
    )))
}

/// Refuses what is no regular file.
///
/// # Errors
///
/// A sentence for the model that says what it is instead.
pub fn refuse_special(workspace: &Workspace, path: &Path, kind: FileType) -> Result<(), ToolError> {
    let shown = path_text::shown(&workspace.root, path);
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        return Err(ToolError::tell(format!(
            "{shown} is a directory. Use Glob with \"path\": \"{shown}\" to see its files."
        )));
    }
    let what = if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(ToolError::tell(format!("{shown} is {what}, not a regular file.")))
}

/// Returns the sentence for a failed read or write of a file.
#[must_use]
pub fn failed(workspace: &Workspace, path: &Path, verb: &str, error: &io::Error) -> ToolError {
    let shown = path_text::shown(&workspace.root, path);
    ToolError::tell(if error.kind() == io::ErrorKind::NotFound {
        if let Some(gone) = workspace.missing_root().filter(|_| path.starts_with(&workspace.root)) {
            return ToolError::tell(gone);
        }
        if let Ok(to) = path.read_link() {
            let to = path_text::to_text(&to);
            return ToolError::tell(format!(
                "{shown} is a dangling symbolic link: {to} does not exist. Write creates that \
                 file; ApplyPatch deletes the link."
            ));
        }
        let near = nearest(path).map(|name| path.with_file_name(name));
        let near = near.map(|near| path_text::shown(&workspace.root, &near));
        let hint = near.map_or(String::new(), |near| format!(" Did you mean {near}?"));
        format!("There is no file {shown}.{hint}")
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        format!("Permission denied: cannot {verb} {shown}.")
    } else {
        format!("Cannot {verb} {shown}: {error}.")
    })
}

/// Returns the name in the path's directory that is nearest to its last part,
/// if one is near: what looks alike first, whatever its case.
fn nearest(path: &Path) -> Option<OsString> {
    let plain = |name: &OsStr| {
        let plain = PlainText::of(name.to_string_lossy().to_lowercase().as_bytes());
        String::from_utf8_lossy(&plain.bytes).chars().collect::<Vec<char>>()
    };
    let name = path.file_name()?;
    let wanted = plain(name);
    let directory = locate(path.parent()?).ok()?;
    let names = directory.read_dir().ok()?.take(NAMES_CAP).filter_map(Result::ok);
    let most = (wanted.len() / 3).max(1);
    names
        .filter_map(|entry| {
            let found = entry.file_name();
            let near = distance(&wanted, &plain(&found));
            (near <= most && found != name).then_some((near, found))
        })
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::Place;

    #[track_caller]
    fn check(place: &Place, name: &str, expected: &str) {
        let refused = open(&place.workspace, &place.path(name)).unwrap_err();
        assert_eq!(refused.to_string(), expected);
    }

    #[test]
    fn a_missing_file_is_named_with_the_nearest_name() {
        let place = Place::new();
        place.put("src/main.rs", "");
        place.put("src/lib.rs", "");
        check(&place, "src/mian.rs", "There is no file src/mian.rs. Did you mean src/main.rs?");
        check(&place, "src/Lib.rs", "There is no file src/Lib.rs. Did you mean src/lib.rs?");
        check(&place, "src/quite_other.rs", "There is no file src/quite_other.rs.");
        check(&place, "none/main.rs", "There is no file none/main.rs.");
    }

    #[test]
    fn a_name_that_looks_alike_is_opened_or_suggested() {
        let place = Place::new();
        let (one, two) = ("caf\u{e9}.txt", "cafe\u{301}.txt");
        place.put(two, "");
        assert_eq!(open(&place.workspace, &place.path(one)).unwrap().target, place.path(two));
        place.put("it\u{2019}s.md", "");
        place.put("no\u{a0}break.md", "");
        place.put("n", "");
        std::os::unix::fs::symlink("nowhere/x", place.path("l")).unwrap();
        for (name, expected) in [
            ("CAF\u{c9}.txt", format!("There is no file CAF\u{c9}.txt. Did you mean {two}?")),
            ("it's.md", "There is no file it's.md. Did you mean it\u{2019}s.md?".to_owned()),
            (
                "No break.md",
                "There is no file No break.md. Did you mean no\u{a0}break.md?".to_owned(),
            ),
            (
                "l",
                "l is a dangling symbolic link: nowhere/x does not exist. Write creates that \
                 file; ApplyPatch deletes the link."
                    .to_owned(),
            ),
        ] {
            check(&place, name, &expected);
        }
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_opening_it() {
        let place = Place::new();
        nix::unistd::mkfifo(&place.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(place.path("socket")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", place.path("zero")).unwrap();
        check(&place, "pipe", "pipe is a named pipe, not a regular file.");
        check(&place, "socket", "socket is a socket, not a regular file.");
        check(&place, "zero", "zero is a device, not a regular file.");
        let expected = ". is a directory. Use Glob with \"path\": \".\" to see its files.";
        check(&place, "", expected);
    }

    #[test]
    fn a_file_is_read_as_a_whole_or_not_at_all() {
        let place = Place::new();
        let path = place.put("a", "12345");
        let places = [path.clone()];
        assert_eq!(read(&place.workspace, &path, &places, 5).unwrap(), b"12345");
        let refused = read(&place.workspace, &path, &places, 4).unwrap_err();
        assert_eq!(refused.to_string(), "a is larger than 4 bytes.");
        assert!(read(&place.workspace, &path, &[place.path("b")], 5).is_err());
    }

    #[test]
    fn permission_denied_is_said() {
        let place = Place::new();
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(
            failed(&place.workspace, &place.path("a"), "read", &error).to_string(),
            "Permission denied: cannot read a."
        );
    }
}
