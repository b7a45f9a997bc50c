//! Where sessions lie: `ROOT/PROJECT/ID/`.
//!
//! The root comes from [`crate::config::dirs`]; this file owns the names below
//! it and makes directories that nobody else can read.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::event::SessionId;

/// The event log within a session's directory.
pub const LOG: &str = "log.jsonl";

/// What was cut off the log's end because it was not a whole line.
pub const TORN: &str = "log.torn";

/// Locked by the one writer; holds its process id.
pub const LOCK: &str = "lock";

/// What people call the session; not there if it has no name.
pub const NAME: &str = "name";

/// Holds what files held before they were changed.
pub const BLOBS: &str = "before";

/// Most characters of the readable part of a project's name. File names end at
/// 255 bytes, and a listing should still fit on a line.
const SLUG_CAP: usize = 40;

/// How many of the working directory's last segments are in a project's name:
/// enough to tell `work/api` from `play/api` at a glance.
const SLUG_SEGMENTS: usize = 2;

/// How often a directory is made anew that somebody removes meanwhile.
const ATTEMPTS: usize = 3;

/// Returns the directory of one session.
#[must_use]
pub fn session_directory(sessions_root: &Path, cwd: &Path, id: &SessionId) -> PathBuf {
    sessions_root.join(project_name(cwd)).join(&*id.0)
}

/// Returns the name of the directory that holds the sessions of `cwd`: its
/// last segments for people, and a hash of the whole path that tells apart
/// what the segments don't.
#[must_use]
pub fn project_name(cwd: &Path) -> String {
    let hash = blake3::hash(cwd.as_os_str().as_bytes()).to_hex();
    format!("{}-{}", slug(cwd), &hash[..8])
}

/// Makes a directory and what is missing above it, for the user alone.
pub(super) fn create_private(directory: &Path) -> io::Result<()> {
    let create = || DirBuilder::new().recursive(true).mode(0o700).create(directory);
    // A process that removes the last session of a project removes the
    // project's directory, too, perhaps between the two steps of this call.
    (0..ATTEMPTS)
        .find_map(|_| match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            created => Some(created),
        })
        .unwrap_or_else(create)?;
    // It may have been there before, made with a looser mode.
    std::fs::set_permissions(directory, Permissions::from_mode(0o700))
}

fn slug(cwd: &Path) -> String {
    let segments: Vec<_> = cwd.iter().map(|segment| segment.to_string_lossy()).collect();
    let last = &segments[segments.len().saturating_sub(SLUG_SEGMENTS)..];
    let mut slug = String::new();
    for character in last.join("-").chars() {
        if character.is_ascii_alphanumeric() || matches!(character, '_' | '.') {
            slug.push(character);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    // The end says more than the beginning: `…-service-api`.
    let start = slug.len().saturating_sub(SLUG_CAP);
    // A leading dot would hide the directory, a leading dash looks like a flag.
    let slug = slug[start..].trim_matches(['-', '.']);
    if slug.is_empty() { "root".to_owned() } else { slug.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn readable(cwd: &str) -> String {
        let name = project_name(Path::new(cwd));
        let (slug, hash) = name.rsplit_once('-').unwrap();
        assert_eq!(hash.len(), 8, "{name}");
        slug.to_owned()
    }

    #[test]
    fn a_project_is_named_by_its_last_segments() {
        assert_eq!(readable("/home/ada/work/api"), "work-api");
        assert_eq!(readable("/home/ada/Mein Projekt (neu)"), "ada-Mein-Projekt-neu");
        assert_eq!(readable("/home/.hidden"), "home-.hidden");
        assert_eq!(readable("/.hidden"), "hidden");
        assert_eq!(readable("/"), "root");
        assert_eq!(readable("/日本/語"), "root");
        assert_eq!(
            readable(&format!("/{}/end", "x".repeat(200))),
            format!("{}-end", "x".repeat(36))
        );
    }

    #[test]
    fn directories_that_read_the_same_have_different_names() {
        let name = |path: &[u8]| project_name(Path::new(OsStr::from_bytes(path)));
        assert_ne!(name(b"/a/work/api"), name(b"/b/work/api"));
        assert_ne!(name(b"/a/\xff"), name(b"/a/\xfe"));
        assert_eq!(name(b"/a/work/api"), name(b"/a/work/api"));
    }

    #[test]
    fn a_directory_is_for_the_user_alone_even_if_it_was_there_before() {
        let root = tempfile::tempdir().unwrap();
        let (parent, directory) = (root.path().join("a"), root.path().join("a/b"));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        create_private(&directory).unwrap();
        assert_eq!((mode(&parent), mode(&directory)), (0o700, 0o700));
        std::fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
        create_private(&directory).unwrap();
        assert_eq!(mode(&directory), 0o700);
    }
}
