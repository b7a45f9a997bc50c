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

/// What somebody has typed who wants a change reviewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options<'a> {
    /// Which change, if that is said.
    pub what: Option<What>,
    /// How much it may take, as it is written, if that is said.
    pub effort: Option<&'a str>,
    /// What stands behind the options.
    pub rest: &'a str,
}

/// Takes the options of a review from the front of the words behind `/review`.
///
/// # Errors
///
/// What looks like an option and is none, lacks its value, or names a second
/// change.
pub fn options(words: &str) -> Result<Options<'_>, SkillError> {
    parse(words, "--uncommitted, --base BRANCH, --commit SHA or --effort low|medium|high", true)
}

/// Takes the options from the front of the arguments; the rest is free text.
pub(super) fn parse_what(arguments: &str) -> Result<(What, &str), SkillError> {
    let known = "--uncommitted, --base BRANCH or --commit SHA";
    let Options { what, effort: _, rest } = parse(arguments, known, false)?;
    Ok((what.unwrap_or_default(), rest))
}

fn parse<'a>(
    arguments: &'a str,
    known: &'static str,
    has_effort: bool,
) -> Result<Options<'a>, SkillError> {
    let (mut what, mut effort) = (None, None);
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
        let mut value = || {
            let value = value.unwrap_or_else(|| {
                let (word, rest) = first_word(after);
                after = rest;
                word
            });
            let value = Some(value).filter(|value| !value.is_empty());
            value.ok_or_else(|| SkillError::MissingValue { flag: flag.to_owned() })
        };
        let new = match flag {
            "--uncommitted" if !option.contains('=') => Some(What::Uncommitted),
            "--base" => Some(What::Base(value()?.to_owned())),
            "--commit" => Some(What::Commit(value()?.to_owned())),
            "--effort" if has_effort => {
                effort = Some(value()?);
                None
            }
            _ => return Err(SkillError::UnknownFlag { flag: flag.to_owned(), known }),
        };
        if new.is_some() && what.is_some() {
            return Err(SkillError::TwoChanges);
        }
        what = new.or(what);
        rest = after;
    }
    Ok(Options { what, effort, rest })
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
    fn a_review_has_an_effort_besides() {
        let parsed = |text: &'static str| {
            let Options { what, effort, rest } =
                options(text).map_err(|error| error.to_string())?;
            Ok((what, effort, rest))
        };
        assert_eq!(parsed(" the locks "), Ok((None, None, "the locks")));
        assert_eq!(
            parsed("--effort low --base main --effort=high x"),
            Ok((Some(What::Base("main".to_owned())), Some("high"), "x"))
        );
        assert_eq!(parsed("-- --effort low"), Ok((None, None, "--effort low")));
        for (text, error) in [
            ("--effort", "`--effort` needs a value"),
            (
                "--sarif x",
                "unknown option `--sarif`; use --uncommitted, --base BRANCH, --commit SHA or \
                 --effort low|medium|high",
            ),
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
