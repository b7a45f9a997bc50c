//! The change that a skill is given: which one, and where it is written down.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::SkillError;
use crate::diff::{ChangeKind, FileChange};
use crate::git::{Change, What};

/// Most files that `$CHANGE_STAT` lists. A longer list says less, not more,
/// and the diff names them all.
pub const STAT_FILES_CAP: usize = 60;

/// Most characters of a file name in `$CHANGE_STAT`.
const STAT_NAME_CAP: usize = 200;

/// Most changes that are kept for one session.
const CHANGES_CAP: u32 = 1_000;

/// Takes the options from the front of the arguments; the rest is free text.
pub(super) fn parse_what(arguments: &str) -> Result<(What, &str), SkillError> {
    let mut what = None;
    let mut rest = arguments.trim();
    while rest.starts_with('-') {
        let (option, mut after) = first_word(rest);
        if option == "--" {
            rest = after;
            break;
        }
        let (flag, value) = match option.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (option, None),
        };
        let new = match flag {
            "--uncommitted" if value.is_none() => What::Uncommitted,
            "--base" | "--commit" => {
                let value = value.unwrap_or_else(|| {
                    let (word, rest) = first_word(after);
                    after = rest;
                    word
                });
                let value = Some(value)
                    .filter(|value| !value.is_empty())
                    .ok_or_else(|| SkillError::MissingValue { flag: flag.to_owned() })?
                    .to_owned();
                if flag == "--base" { What::Base(value) } else { What::Commit(value) }
            }
            _ => return Err(SkillError::UnknownFlag { flag: flag.to_owned() }),
        };
        if what.replace(new).is_some() {
            return Err(SkillError::TwoChanges);
        }
        rest = after;
    }
    Ok((what.unwrap_or_default(), rest))
}

fn first_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim_start())
}

/// Writes the diff to a new file that only its owner can read. An earlier
/// change of the session stays: its reviewers' reports speak of it.
pub(super) fn write_change(
    change: &Change,
    spill: &Path,
    root: &Path,
) -> Result<PathBuf, SkillError> {
    let unwritable = |path: &Path, source| SkillError::Unwritable { path: path.to_owned(), source };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(spill)
        .map_err(|error| unwritable(spill, error))?;
    let mut path = spill.join("change.diff");
    for number in 2..=CHANGES_CAP {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                let text = preamble(change, root) + &change.diff;
                file.write_all(text.as_bytes()).map_err(|error| unwritable(&path, error))?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                path = spill.join(format!("change-{number}.diff"));
            }
            Err(error) => return Err(unwritable(&path, error)),
        }
    }
    Err(unwritable(&path, io::Error::other("the session holds too many changes")))
}

/// What a reader of the file alone has to know. Git skips such lines, too.
fn preamble(change: &Change, root: &Path) -> String {
    let mut text = format!("# {}\n", change.title);
    if root.canonicalize().ok() != change.root.canonicalize().ok() {
        text.push_str(&format!("# File names are relative to {}\n", change.root.display()));
    }
    text
}

/// One line for each file: what happened and how many lines came and went.
pub(super) fn stat(files: &[FileChange]) -> String {
    let mut lines = files
        .iter()
        .take(STAT_FILES_CAP)
        .map(|file| {
            let kind = match file.kind {
                ChangeKind::Added => ", added",
                ChangeKind::Modified => "",
                ChangeKind::Deleted => ", deleted",
                ChangeKind::Renamed => ", renamed",
                ChangeKind::Copied => ", copied",
            };
            // A name can hold anything, a newline too.
            let name = file.path().escape_debug().take(STAT_NAME_CAP).collect::<String>();
            let (added, removed) = (file.added().count(), file.removed().count());
            match file.binary {
                true => format!("- {name} (not text{kind})"),
                false => format!("- {name} (+{added} -{removed}{kind})"),
            }
        })
        .collect::<Vec<_>>();
    if files.len() > STAT_FILES_CAP {
        lines.push(format!("- and {} more files", files.len() - STAT_FILES_CAP));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_stand_before_the_free_text() {
        let parsed = |text: &'static str| parse_what(text).map_err(|error| error.to_string());
        let base = What::Base("main".to_owned());
        assert_eq!(parsed(""), Ok((What::Auto, "")));
        assert_eq!(parsed("look at --base"), Ok((What::Auto, "look at --base")));
        assert_eq!(parsed("--uncommitted  the  locks"), Ok((What::Uncommitted, "the  locks")));
        assert_eq!(parsed("--base main x"), Ok((base.clone(), "x")));
        assert_eq!(parsed("--base=main"), Ok((base, "")));
        assert_eq!(parsed("--commit abc -- -x"), Ok((What::Commit("abc".to_owned()), "-x")));
        for (text, error) in [
            ("--commit", "`--commit` needs a value"),
            ("--base= x", "`--base` needs a value"),
            (
                "--uncommitted --base x",
                "only one of --uncommitted, --base and --commit can be used",
            ),
            ("-x", "unknown option `-x`; use --uncommitted, --base BRANCH or --commit SHA"),
        ] {
            assert_eq!(parsed(text), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_long_list_of_files_is_cut_and_names_stay_on_their_line() {
        let file = FileChange {
            old_path: None,
            new_path: Some("a\nb".to_owned()),
            kind: ChangeKind::Added,
            binary: true,
            hunks: Vec::new(),
        };
        let stat = stat(&vec![file; STAT_FILES_CAP + 2]);
        assert_eq!(stat.lines().count(), STAT_FILES_CAP + 1);
        assert_eq!(stat.lines().next(), Some("- a\\nb (not text, added)"));
        assert_eq!(stat.lines().last(), Some("- and 2 more files"));
    }
}
