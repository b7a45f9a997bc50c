//! From a skill's body to the prompt: arguments and the change are put in.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::change::{parse_what, stat, write_change};
use super::head::{DIRECTORY, FILE};
use super::{Context, Skill};
use crate::front_matter::Source;
use crate::git::{self, Change, GitError};
use crate::prompt;

/// Why a skill could not be used.
#[derive(Debug, Error)]
pub enum SkillError {
    /// There is no change to look at.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The arguments begin with something that looks like an option.
    #[error("unknown option `{flag}`; use {known}")]
    UnknownFlag {
        /// What stands there.
        flag: String,
        /// What could, in words.
        known: &'static str,
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

/// What a skill is given for its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given<'a> {
    /// The values of `$CHANGE_TITLE`, `$CHANGE_FILE` and `$CHANGE_STAT`, under those
    /// names without the dollar and in small letters; none without a change.
    pub change: Vec<(&'static str, String)>,
    /// What of the arguments is left.
    pub rest: &'a str,
}

impl Skill {
    /// Returns the prompt that this skill makes of `arguments`.
    ///
    /// `$ARGUMENTS`, `$ARGUMENTS[N]`, `$1`, `$2` and so on, the names of its
    /// arguments, and the directory of the skill are replaced, each once: what
    /// is put in is not searched again. Arguments that the body asks for nowhere
    /// are appended.
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
            return Ok(self.filled(arguments.trim()));
        }
        let (what, rest) = parse_what(arguments)?;
        let change = git::change(git, root, &what)?;
        let file = write_change(&change, spill, root)?;
        Ok(self.fill(rest, Some((&change, &file))))
    }

    /// Returns what the skill is given for `arguments`: a change, if it has one, as
    /// for [`Skill::expand`], and the rest of them.
    ///
    /// # Errors
    ///
    /// As for [`Skill::expand`].
    pub fn given<'a>(
        &self,
        arguments: &'a str,
        spill: &Path,
        (git, root): (&git::Program, &Path),
    ) -> Result<Given<'a>, SkillError> {
        if !self.change {
            return Ok(Given { change: Vec::new(), rest: arguments });
        }
        let (what, rest) = parse_what(arguments)?;
        let change = git::change(git, root, &what)?;
        let file = write_change(&change, spill, root)?.display().to_string();
        let stat = stat(&change.files);
        let change =
            vec![("change_title", change.title), ("change_file", file), ("change_stat", stat)];
        Ok(Given { change, rest })
    }

    /// Returns the prompt without a change, whether or not it is to be given
    /// one.
    #[must_use]
    pub fn filled(&self, arguments: &str) -> String {
        self.fill(arguments, None)
    }

    /// Tells whether an agent of its own does what it says.
    #[must_use]
    pub fn is_forked(&self) -> bool {
        match self.context {
            Context::Inline => false,
            Context::Fork { .. } => true,
        }
    }

    /// Puts everything into the body in one pass.
    fn fill(&self, arguments: &str, change: Option<(&Change, &Path)>) -> String {
        let places = Places::of(self, arguments);
        let mut filled = String::with_capacity(self.body.len());
        let (mut asked, mut knows_directory) = (false, false);
        let mut rest = self.body.as_str();
        while let Some(at) = rest.find('$') {
            let before = &rest[..at];
            rest = &rest[at..];
            let Some((name, place)) = places.at(rest) else {
                filled.push_str(before);
                filled.push('$');
                rest = &rest[1..];
                continue;
            };
            if let Some(before) = before.strip_suffix('\\') {
                filled.push_str(before);
                filled.push_str(name);
                rest = &rest[name.len()..];
                continue;
            }
            filled.push_str(before);
            let value = match (place, change) {
                (Place::Arguments, _) => Some(arguments.to_owned()),
                (Place::Argument(index), _) => {
                    Some(places.words.get(index).cloned().unwrap_or_default())
                }
                (Place::Directory, _) => self.directory(),
                (Place::ChangeFile, Some((_, file))) => Some(file.display().to_string()),
                (Place::ChangeTitle, Some((change, _))) => Some(change.title.clone()),
                (Place::ChangeStat, Some((change, _))) => Some(stat(&change.files)),
                (Place::ChangeFile | Place::ChangeTitle | Place::ChangeStat, None) => None,
            };
            asked |= matches!(place, Place::Arguments | Place::Argument(_));
            knows_directory |= matches!(place, Place::Directory);
            filled.push_str(value.as_deref().unwrap_or(name));
            rest = &rest[name.len()..];
        }
        filled.push_str(rest);
        if !asked && !arguments.is_empty() {
            filled.push_str("\n\nArguments: ");
            filled.push_str(arguments);
        }
        let directory = self.directory().filter(|_| !knows_directory && self.has_files());
        prompt::skill(&filled, directory.as_deref())
    }

    fn directory(&self) -> Option<String> {
        match &self.source {
            Source::BuiltIn | Source::Given => None,
            Source::File(path) => path.parent().map(|directory| directory.display().to_string()),
        }
    }

    /// Tells whether files come with the skill.
    fn has_files(&self) -> bool {
        let Source::File(path) = &self.source else { return false };
        let is_skill = path.file_name().is_some_and(|name| name == FILE);
        let entries = path.parent().filter(|_| is_skill).and_then(|it| it.read_dir().ok());
        entries.into_iter().flatten().flatten().any(|entry| entry.file_name() != FILE)
    }
}

/// What can stand after a `$`.
#[derive(Clone, Copy)]
enum Place {
    Arguments,
    /// From 0.
    Argument(usize),
    Directory,
    ChangeFile,
    ChangeTitle,
    ChangeStat,
}

/// What stands for what in the body of one skill.
struct Places<'a> {
    names: &'a [String],
    words: Vec<String>,
    /// What number the first argument has.
    first: usize,
}

impl<'a> Places<'a> {
    /// Two ways to count are in use: from `$1`, and from `$0`. A body that has a
    /// `$0` counts from there.
    fn of(skill: &'a Skill, arguments: &str) -> Self {
        let mut places = Self { names: &skill.arguments, words: words(arguments), first: 0 };
        let mut dollars = skill.body.match_indices('$').map(|(at, _)| &skill.body[at..]);
        let is_zero = |text: &str| number(text).is_some_and(|(written, _)| written == "$0");
        places.first = usize::from(!dollars.any(is_zero));
        places
    }

    /// The placeholder at the front of `text`, as it is written and as it is
    /// meant.
    fn at<'t>(&self, text: &'t str) -> Option<(&'t str, Place)> {
        let named = [
            ("$CHANGE_FILE", Place::ChangeFile),
            ("$CHANGE_TITLE", Place::ChangeTitle),
            ("$CHANGE_STAT", Place::ChangeStat),
            ("$ARGUMENTS", Place::Arguments),
        ];
        if let Some(name) = DIRECTORY.into_iter().find(|name| text.starts_with(name)) {
            return Some((&text[..name.len()], Place::Directory));
        }
        if let Some(index) = text.strip_prefix("$ARGUMENTS[")
            && let Some((digits, _)) = index.split_once(']')
            && let Ok(index) = digits.parse()
        {
            let length = "$ARGUMENTS[]".len() + digits.len();
            return Some((&text[..length], Place::Argument(index)));
        }
        if let Some((name, place)) = named.into_iter().find(|(name, _)| is_word(text, name)) {
            return Some((&text[..name.len()], place));
        }
        if let Some(index) = self.names.iter().position(|name| is_word(&text[1..], name)) {
            return Some((&text[..=self.names[index].len()], Place::Argument(index)));
        }
        let (written, number) = number(text)?;
        let index = number.checked_sub(self.first)?;
        // What nobody gave is empty where it can only be an argument; `$20` may
        // be a price.
        let is_meant = (1..=9).contains(&number) || index < self.words.len();
        is_meant.then_some((written, Place::Argument(index)))
    }
}

/// Tells whether a text begins with this and goes on with something else.
fn is_word(text: &str, name: &str) -> bool {
    text.strip_prefix(name).is_some_and(|rest| {
        !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty()
    })
}

/// Returns the number behind a `$`, as it is written and as it is meant. `$1.50`
/// and `$1,000` are prices.
fn number(text: &str) -> Option<(&str, usize)> {
    let digits = text[1..].bytes().take_while(u8::is_ascii_digit).count();
    let (written, rest) = text.split_at(1 + digits);
    let is_price = rest
        .strip_prefix(['.', ','])
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let goes_on = rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    // Two digits are more arguments than anybody types.
    let is_one = (1..=2).contains(&digits) && !is_price && !goes_on;
    Some((written, written[1..].parse().ok().filter(|_| is_one)?))
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::git::What;
    use crate::git::tests::{Repo, program};

    fn skill(body: &str, change: bool) -> Skill {
        let text = format!("---\nname: s\ndescription: d\n---\n{body}");
        let path = Path::new("/skills/s/SKILL.md");
        Skill { change, ..crate::skill::head::skill(&text, path, None, true).unwrap() }
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
        for body in [
            "$",
            "$100 $x",
            "$ARGUMENTSX",
            "$CHANGE_FILE",
            "${TINE_SKILL}",
            "é$",
            "$0",
            "$20",
            "$1.50 or $1,000",
        ] {
            check(body, "", body);
        }
    }

    #[test]
    fn arguments_are_counted_from_one_unless_the_body_has_a_zeroth() {
        check("$1 $2", "a b", "a b");
        check("$0 $1 $2|", "a b", "a b |");
        check("$ARGUMENTS[0] $ARGUMENTS[1] $1", "a b", "a b a");
        check("$10-$11", "a b c d e f g h i j", "j-$11");
        check("\\$1 costs \\$x", "a", "$1 costs \\$x\n\nArguments: a");
    }

    #[test]
    fn arguments_go_by_the_names_that_the_front_matter_gives_them() {
        let text = "---\ndescription: d\narguments: issue branch-name\n---\n\
                    $branch-name: $issue, $issues, $branch";
        let skill =
            crate::skill::head::skill(text, Path::new("/s/s/SKILL.md"), None, true).unwrap();
        assert_eq!(skill.filled("7 'a b'"), "a b: 7, $issues, $branch");
    }

    #[test]
    fn the_files_of_a_skill_are_named_by_their_directory() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let path = root.join("SKILL.md");
        let filled = |body: &str| {
            let text = format!("---\nname: s\ndescription: d\n---\n{body}");
            fs::write(&path, &text).unwrap();
            crate::skill::head::skill(&text, &path, None, true).unwrap().filled("")
        };
        assert_eq!(filled("Run scripts/x."), "Run scripts/x.");
        fs::create_dir(root.join("scripts")).unwrap();
        let shown = root.display();
        let expected = format!(
            "The files of this skill are in {shown}; its relative paths begin there.\n\n\
             Run scripts/x."
        );
        assert_eq!(filled("Run scripts/x."), expected);
        let named = format!("Run {shown}/scripts/x.");
        assert_eq!(filled("Run ${CLAUDE_SKILL_DIR}/scripts/x."), named);
        assert_eq!(filled("Run ${TINE_SKILL_DIR}/scripts/x."), named);
    }

    #[test]
    fn a_command_in_a_body_is_left_to_the_model_and_the_guard() {
        let filled = skill("Status: !`git status`", false).filled("");
        assert!(filled.starts_with("Status: !`git status`\n\n"), "{filled}");
        assert!(filled.contains("with Bash"), "{filled}");
    }

    #[test]
    fn arguments_that_nobody_asks_for_are_appended() {
        check("body", "x y", "body\n\nArguments: x y");
        check("body", "  ", "body");
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
}
