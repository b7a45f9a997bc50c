//! Files that take what is too long for a context.
//!
//! A spill file is for one user's eyes (0600 in a 0700 directory) and is never
//! written over: each has a name of its own. This file knows nothing of bounds;
//! whoever spills decides what is too long and names the file to the reader.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

/// Most characters of a spill file's name that come from the caller: a call's
/// id is the provider's choice and may be any text.
const NAME_CAP: usize = 60;

/// A directory of spill files, made on the first use.
#[derive(Debug, Clone)]
pub struct Spill {
    /// Where the files go.
    pub directory: PathBuf,
}

/// A spill file that is being written.
#[derive(Debug)]
pub struct SpillFile {
    /// Where it is.
    pub path: PathBuf,
    /// Open for writing, empty.
    pub file: File,
}

impl Spill {
    /// Makes an empty spill file whose name starts with `name`.
    ///
    /// `name` may be any text. Equal names get numbers; a caller with thousands
    /// of files should put what tells them apart into the name.
    ///
    /// # Errors
    ///
    /// The directory or the file could not be made.
    pub fn create(&self, name: &str) -> io::Result<SpillFile> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let stem = stem(name);
        let mut number = 1_u64;
        loop {
            let path = self.directory.join(match number {
                1 => format!("{stem}.txt"),
                _ => format!("{stem}-{number}.txt"),
            });
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => return Ok(SpillFile { path, file }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps a text in a new spill file and returns where it is.
    ///
    /// # Errors
    ///
    /// The file could not be made or written.
    pub fn keep(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let mut spill = self.create(name)?;
        spill.file.write_all(text.as_bytes())?;
        Ok(spill.path)
    }
}

fn stem(name: &str) -> String {
    let stem: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' })
        .take(NAME_CAP)
        .collect();
    if stem.is_empty() { "output".to_owned() } else { stem }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_directory_and_the_file_are_for_one_user_only() {
        let place = tempfile::tempdir().unwrap();
        let spill = Spill { directory: place.path().join("a/spill") };
        let path = spill.keep("bash-main-call_1", "text").unwrap();
        assert_eq!(path, spill.directory.join("bash-main-call_1.txt"));
        assert_eq!((mode(&spill.directory), mode(&path)), (0o700, 0o600));
        assert_eq!(std::fs::read_to_string(path).unwrap(), "text");
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number_and_nothing_is_written_over() {
        let place = tempfile::tempdir().unwrap();
        let spill = Spill { directory: place.path().to_owned() };
        let paths = ["first", "second", "third"].map(|text| spill.keep("x", text).unwrap());
        assert_eq!(paths, ["x.txt", "x-2.txt", "x-3.txt"].map(|name| place.path().join(name)));
        assert_eq!(
            paths.map(|path| std::fs::read_to_string(path).unwrap()),
            ["first", "second", "third"]
        );
    }

    #[test]
    fn a_hostile_name_stays_in_the_directory_and_is_cut() {
        let place = tempfile::tempdir().unwrap();
        let spill = Spill { directory: place.path().to_owned() };
        let name = |text: &str| {
            let path = spill.create(text).unwrap().path;
            path.strip_prefix(place.path()).unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(name("../../etc/passwd\0"), "------etc-passwd-.txt");
        assert_eq!(name(""), "output.txt");
        assert_eq!(name(&"x".repeat(5_000)), format!("{}.txt", "x".repeat(NAME_CAP)));
    }
}
