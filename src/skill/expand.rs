//! From a skill's body to the prompt: arguments and the change are put in.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::Skill;
use crate::diff::{ChangeKind, FileChange};
use crate::front_matter::Source;
use crate::git::{self, Change, GitError, What};

/// Most files that `$CHANGE_STAT` lists. A longer list says less, not more,
/// and the diff names them all.
pub const STAT_FILES_CAP: usize = 60;

/// Most characters of a file name in `$CHANGE_STAT`.
const STAT_NAME_CAP: usize = 200;

/// Most changes that are kept for one session.
const CHANGES_CAP: u32 = 1_000;

/// Why a skill could not be used.
#[derive(Debug, Error)]
pub enum SkillError {
    /// There is no change to look at.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The arguments begin with something that looks like an option.
    #[error("unknown option `{flag}`; use --uncommitted, --base BRANCH or --commit SHA")]
    UnknownFlag {
        /// What stands there.
        flag: String,
    },
    /// An option has no value.
    #[error("`{flag}` needs a value")]
    MissingValue {
        /// The option.
        flag: String,
    },
    /// More than one option says which change is meant.
    #[error("only one of --uncommitted, --base and --commit can be used")]
    TwoChanges,
    /// The change could not be written down.
    #[error("cannot write the change to {path}")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Skill {
    /// Returns the prompt that this skill makes of `arguments`.
    ///
    /// `$ARGUMENTS`, `$1` to `$9` and `${TINE_SKILL_DIR}` are replaced, each
    /// once: what is put in is not searched again. Arguments that the body
    /// asks for nowhere are appended.
    ///
    /// A skill with `change` first takes `--uncommitted`, `--base BRANCH` or
    /// `--commit SHA` from the front of the arguments, gets that change of the
    /// repository around `root`, writes it to a private file in `spill` and
    /// also replaces `$CHANGE_FILE`, `$CHANGE_TITLE` and `$CHANGE_STAT`.
    ///
    /// # Errors
    ///
    /// Only for a skill with `change`: see [`SkillError`].
    pub fn expand(
        &self,
        arguments: &str,
        spill: &Path,
        (git, root): (&git::Program, &Path),
    ) -> Result<String, SkillError> {
        if !self.change {
            return Ok(self.fill(arguments.trim(), None));
        }
        let (what, rest) = parse_what(arguments)?;
        let change = git::change(git, root, &what)?;
        let file = write_change(&change, spill, root)?;
        Ok(self.fill(rest, Some((&change, &file))))
    }

    /// Puts everything into the body in one pass.
    fn fill(&self, arguments: &str, change: Option<(&Change, &Path)>) -> String {
        let mut filled = String::with_capacity(self.body.len());
        let mut asked = false;
        let mut rest = self.body.as_str();
        while let Some(at) = rest.find('$') {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            let Some((name, place)) = placeholder(rest) else {
                filled.push('$');
                rest = &rest[1..];
                continue;
            };
            let value = match (place, change) {
                (Place::Arguments, _) => Some(arguments.to_owned()),
                (Place::Argument(number), _) => {
                    Some(words(arguments).into_iter().nth(number - 1).unwrap_or_default())
                }
                (Place::Directory, _) => self.directory(),
                (Place::ChangeFile, Some((_, file))) => Some(file.display().to_string()),
                (Place::ChangeTitle, Some((change, _))) => Some(change.title.clone()),
                (Place::ChangeStat, Some((change, _))) => Some(stat(&change.files)),
                (Place::ChangeFile | Place::ChangeTitle | Place::ChangeStat, None) => None,
            };
            asked |= matches!(place, Place::Arguments | Place::Argument(_));
            filled.push_str(value.as_deref().unwrap_or(name));
            rest = &rest[name.len()..];
        }
        filled.push_str(rest);
        if !asked && !arguments.is_empty() {
            filled.push_str("\n\nArguments: ");
            filled.push_str(arguments);
        }
        filled
    }

    fn directory(&self) -> Option<String> {
        match &self.source {
            Source::BuiltIn | Source::Given => None,
            Source::File(path) => path.parent().map(|directory| directory.display().to_string()),
        }
    }
}

/// What can stand after a `$`.
#[derive(Clone, Copy)]
enum Place {
    Arguments,
    /// From 1.
    Argument(usize),
    Directory,
    ChangeFile,
    ChangeTitle,
    ChangeStat,
}

/// The placeholder at the front of `text`, as it is written and as it is meant.
fn placeholder(text: &str) -> Option<(&str, Place)> {
    let named = [
        ("$ARGUMENTS", Place::Arguments),
        ("${TINE_SKILL_DIR}", Place::Directory),
        ("$CHANGE_FILE", Place::ChangeFile),
        ("$CHANGE_TITLE", Place::ChangeTitle),
        ("$CHANGE_STAT", Place::ChangeStat),
    ];
    let follows_word = |at: usize| {
        text.as_bytes().get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    };
    if let Some((name, place)) = named.into_iter().find(|(name, _)| text.starts_with(name)) {
        let whole = name.ends_with('}') || !follows_word(name.len());
        return whole.then_some((&text[..name.len()], place));
    }
    let digit = text.as_bytes().get(1).copied().filter(|byte| (b'1'..=b'9').contains(byte))?;
    // `$100` is a price.
    (!follows_word(2)).then(|| (&text[..2], Place::Argument(usize::from(digit - b'0'))))
}

/// Splits arguments at white space; quotes hold words together.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            (Some(_) | None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Takes the options from the front of the arguments; the rest is free text.
fn parse_what(arguments: &str) -> Result<(What, &str), SkillError> {
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
fn write_change(change: &Change, spill: &Path, root: &Path) -> Result<PathBuf, SkillError> {
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
fn stat(files: &[FileChange]) -> String {
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
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::git::tests::{Repo, program};

    fn skill(body: &str, change: bool) -> Skill {
        Skill {
            name: "s".to_owned(),
            description: "d".to_owned(),
            argument_hint: String::new(),
            disable_model_invocation: false,
            user_invocable: true,
            allowed_tools: Vec::new(),
            body: body.to_owned(),
            source: Source::File(PathBuf::from("/skills/s/SKILL.md")),
            change,
        }
    }

    #[track_caller]
    fn check(body: &str, arguments: &str, expected: &str) {
        let expanded =
            skill(body, false).expand(arguments, Path::new(""), (&program(), Path::new("")));
        assert_eq!(expanded.unwrap(), expected);
    }

    #[test]
    fn arguments_are_put_in_once() {
        check("do $ARGUMENTS now", " a  b ", "do a  b now");
        check("$2-$1-$3|", "one 'two three'", "two three-one-|");
        check("$1 $ARGUMENTS", "$ARGUMENTS $1", "$ARGUMENTS $ARGUMENTS $1");
        check("see ${TINE_SKILL_DIR}/x", "", "see /skills/s/x");
    }

    #[test]
    fn what_only_looks_like_a_placeholder_stays() {
        for body in ["$", "$100 $0 $x", "$ARGUMENTSX", "$CHANGE_FILE", "${TINE_SKILL}", "é$"] {
            check(body, "", body);
        }
    }

    #[test]
    fn arguments_that_nobody_asks_for_are_appended() {
        check("body", "x y", "body\n\nArguments: x y");
        check("body", "  ", "body");
    }

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
    fn a_change_is_written_to_a_private_file_and_named_in_the_prompt() {
        let repo = Repo::with_commit();
        repo.write("a.txt", "two\n");
        repo.write("new.txt", "$ARGUMENTS\n");
        let spill = repo.root().join("../spill/s");
        let body = "$CHANGE_TITLE|@$CHANGE_FILE|$CHANGE_STAT|$ARGUMENTS";
        let expanded = skill(body, true)
            .expand("--uncommitted x", &spill, (&program(), &repo.root()))
            .unwrap();
        let file = spill.join("change.diff");
        let title = "uncommitted change of work";
        let stat = "- a.txt (+1 -1)\n- new.txt (+1 -0, added)";
        assert_eq!(expanded, format!("{title}|@{}|{stat}|x", file.display()));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&spill).unwrap().permissions().mode() & 0o777, 0o700);
        let change = git::change(&program(), &repo.root(), &What::Uncommitted).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("# {title}\n{}", change.diff));
    }

    #[test]
    fn a_second_change_of_a_session_gets_its_own_file() {
        let repo = Repo::with_commit();
        let spill = repo.root().join("../spill");
        let skill = skill("$CHANGE_FILE", true);
        let first = skill.expand("", &spill, (&program(), &repo.root())).unwrap();
        let second = skill.expand("", &spill, (&program(), &repo.root())).unwrap();
        assert!(first.ends_with("/change.diff"), "{first}");
        assert!(second.ends_with("/change-2.diff"), "{second}");
    }

    #[test]
    fn below_the_top_the_file_says_where_names_start() {
        let repo = Repo::with_commit();
        repo.write("sub/b.txt", "b\n");
        let spill = repo.root().join("../spill");
        let skill = skill("$CHANGE_FILE", true);
        let file = skill.expand("", &spill, (&program(), &repo.root().join("sub"))).unwrap();
        let second = fs::read_to_string(file).unwrap().lines().nth(1).unwrap().to_owned();
        let top = repo.root().canonicalize().unwrap();
        assert_eq!(second, format!("# File names are relative to {}", top.display()));
    }

    #[test]
    fn without_a_change_there_is_no_prompt() {
        let repo = Repo::new();
        let spill = repo.root().join("../spill");
        let error = skill("x", true).expand("", &spill, (&program(), &repo.root())).unwrap_err();
        assert!(matches!(error, SkillError::Git(GitError::NoCommits)), "{error}");
        assert!(!spill.exists());
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
