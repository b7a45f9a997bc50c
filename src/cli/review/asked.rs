//! What somebody wants reviewed: said by flags, by the words behind `/review`, or
//! by the inputs of the flow, which is what a walk that goes on has of it.

use std::path::Path;

use serde_json::Value;

use crate::cli::args::ReviewFlags;
use crate::cli::exit::{Exit, Refusal};
use crate::cli::slash;
use crate::flow::{InputValues, Supplied};
use crate::git::{self, Program, What};
use crate::review::Effort;
use crate::skill;

/// What somebody wants reviewed. What is not said is left to what an earlier walk
/// was given, or to what is usual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    what: Option<What>,
    pub(super) effort: Option<Effort>,
    /// What to look for besides; empty if that is not said.
    focus: String,
}

impl Asked {
    pub(super) fn by_flags(review: &ReviewFlags, effort: Option<&str>) -> Result<Self, Refusal> {
        let what = match (&review.base, &review.commit) {
            (Some(base), _) => Some(What::Base(base.clone())),
            (None, Some(commit)) => Some(What::Commit(commit.clone())),
            (None, None) => review.uncommitted.then_some(What::Uncommitted),
        };
        what.iter().try_for_each(named)?;
        let effort = effort.map(|name| self::effort(name, Exit::Usage)).transpose()?;
        Ok(Self { what, effort, focus: review.words.join(" ") })
    }

    pub(super) fn by_words(words: &str) -> Result<Self, Refusal> {
        let skill::Options { what, effort, rest } =
            skill::options(words).map_err(|error| slash::refusal(&error))?;
        let effort = effort.map(|name| self::effort(name, Exit::BadInput)).transpose()?;
        Ok(Self { what, effort, focus: rest.to_owned() })
    }

    /// Refuses a single word that says which change is meant, and not what to look
    /// for: taken for words, another change would be reviewed, and paid for.
    pub(super) fn check_words(&self, program: &Program, root: &Path) -> Result<(), Refusal> {
        let word = &*self.focus;
        if word.is_empty() || word.contains(char::is_whitespace) {
            return Ok(());
        }
        let is_commit = |name: &str| git::is_commit(program, root, name);
        let (what, hint) = match ends(word) {
            Some((from, to)) if is_commit(from) && is_commit(to) => {
                ("a range of commits", range_hint((from, to)))
            }
            Some(_) | None if is_commit(word) => (
                "a branch or a commit",
                format!(
                    "`--base {word}` reviews what has come since, `--commit {word}` that commit \
                     alone; what to look for is said in several words"
                ),
            ),
            Some(_) | None if is_place(word, root) => (
                "a file",
                format!(
                    "a review is of a whole change; what to look for in it is said in several \
                     words, such as `the errors of {word}`"
                ),
            ),
            Some(_) | None => return Ok(()),
        };
        let message = format!("`{word}` names {what}, and words say what to look for besides");
        Err(Refusal::new(Exit::BadInput, message).hint(hint))
    }

    /// Returns the inputs of the flow that say it.
    pub(super) fn inputs(&self) -> Vec<(String, Supplied)> {
        let mut inputs = Vec::new();
        let mut give = |name: &str, value: Value| {
            inputs.push((name.to_owned(), Supplied::Value(value)));
        };
        if let Some(what) = &self.what {
            // All three, so that none of an earlier walk is left beside it.
            let (is_uncommitted, base, commit) = match what {
                What::Auto => (false, "", ""),
                What::Uncommitted => (true, "", ""),
                What::Base(base) => (false, &**base, ""),
                What::Commit(commit) => (false, "", &**commit),
            };
            give("uncommitted", is_uncommitted.into());
            give("base", base.into());
            give("commit", commit.into());
        }
        if let Some(effort) = self.effort {
            give("effort", effort.as_str().into());
        }
        if !self.focus.is_empty() {
            give("focus", self.focus.as_str().into());
        }
        inputs
    }

    /// Returns what a user would type for the same review.
    pub(super) fn prompt(&self) -> String {
        let mut prompt = "/review".to_owned();
        match &self.what {
            None | Some(What::Auto) => {}
            Some(What::Uncommitted) => prompt.push_str(" --uncommitted"),
            Some(What::Base(base)) => prompt.push_str(&format!(" --base {base}")),
            Some(What::Commit(commit)) => prompt.push_str(&format!(" --commit {commit}")),
        }
        if let Some(effort) = self.effort {
            prompt.push_str(&format!(" --effort {}", effort.as_str()));
        }
        // What follows is no option, however it begins.
        if !self.focus.is_empty() {
            prompt.push_str(&format!(" -- {}", self.focus));
        }
        prompt
    }
}

/// Returns which change inputs name, and how much its review may take.
pub(super) fn of_inputs(inputs: &InputValues) -> Result<(What, Effort), Refusal> {
    let input = |name: &str| inputs.values().get(name).unwrap_or(&Value::Null);
    let text = |name: &str| {
        let text = input(name).as_str();
        text.ok_or_else(|| Refusal::new(Exit::BadInput, format!("the input `{name}` is no text")))
    };
    let is_uncommitted = input("uncommitted").as_bool().ok_or_else(|| {
        Refusal::new(Exit::BadInput, "the input `uncommitted` is neither `true` nor `false`")
    })?;
    let what = match (is_uncommitted, text("base")?, text("commit")?) {
        (false, "", "") => What::Auto,
        (true, "", "") => What::Uncommitted,
        (false, base, "") => What::Base(base.to_owned()),
        (false, "", commit) => What::Commit(commit.to_owned()),
        (_, _, _) => {
            let message = "only one of the inputs `uncommitted`, `base` and `commit` can be given";
            return Err(Refusal::new(Exit::BadInput, message));
        }
    };
    named(&what)?;
    Ok((what, effort(text("effort")?, Exit::BadInput)?))
}

/// Checks that a branch or a commit can be called so.
fn named(what: &What) -> Result<(), Refusal> {
    let name = match what {
        What::Base(name) | What::Commit(name) => name,
        What::Auto | What::Uncommitted => return Ok(()),
    };
    if name.is_empty() || name.contains(char::is_whitespace) {
        let message = format!("no branch or commit is named `{name}`");
        return Err(Refusal::new(Exit::BadInput, message));
    }
    // Only a search for a commit's message may hold the two dots.
    if let Some(ends) = ends(name).filter(|_| !name.contains([':', '{'])) {
        let message = format!("`{name}` is a range, and no branch or commit");
        return Err(Refusal::new(Exit::BadInput, message).hint(range_hint(ends)));
    }
    Ok(())
}

/// Returns the two ends of a range of commits as git writes it, `a..b` or `a...b`.
/// An end that is left out is `HEAD`.
fn ends(range: &str) -> Option<(&str, &str)> {
    let (from, to) = range.split_once("..")?;
    let ends = [from, to.strip_prefix('.').unwrap_or(to)];
    let [from, to] = ends.map(|name| if name.is_empty() { "HEAD" } else { name });
    Some((from, to))
}

fn range_hint((from, to): (&str, &str)) -> String {
    format!("`--base {from}` reviews what has come since, `--commit {to}` that commit alone")
}

/// Tells whether a word can only mean something on disk. A directory's plain name,
/// such as `tests`, may be what to look for.
fn is_place(word: &str, root: &Path) -> bool {
    let path = root.join(word);
    path.is_file() || (word.contains('/') && path.exists())
}

fn effort(name: &str, exit: Exit) -> Result<Effort, Refusal> {
    Effort::from_name(name).ok_or_else(|| {
        Refusal::new(exit, format!("a review has no effort `{name}`"))
            .hint("it is `low`, `medium` or `high`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::review::{computed::Review, flow};
    use crate::definition::Definitions;
    use crate::git::tests::{Repo, program};

    /// Checks that what was typed is what the inputs of the flow say, and is typed
    /// again for the same.
    #[track_caller]
    fn check(words: &str, expected: (What, Effort, &str), prompt: &str) {
        let asked = Asked::by_words(words).map_err(|refusal| refusal.message).unwrap();
        let definitions = Definitions::load(&[], None, |_, _| false).0;
        let flow = flow(&definitions, &std::sync::Arc::<Review>::default());
        let flow = flow.map_err(|refusal| refusal.message).unwrap();
        let inputs = flow.given(asked.inputs()).unwrap();
        let (what, effort) = of_inputs(&inputs).map_err(|refusal| refusal.message).unwrap();
        let focus = inputs.values()["focus"].as_str().unwrap();
        assert_eq!((what, effort, focus), expected, "{words}");
        assert_eq!(asked.prompt(), prompt);
        let again = Asked::by_words(prompt.strip_prefix("/review").unwrap());
        assert_eq!(again.map_err(|refusal| refusal.message).unwrap(), asked);
    }

    #[test]
    fn words_come_to_the_inputs_that_say_the_same() {
        let base = |name: &str| What::Base(name.to_owned());
        check("", (What::Auto, Effort::Medium, ""), "/review");
        check(
            "--uncommitted --effort low",
            (What::Uncommitted, Effort::Low, ""),
            "/review --uncommitted --effort low",
        );
        check(
            "--base=main  the locks",
            (base("main"), Effort::Medium, "the locks"),
            "/review --base main -- the locks",
        );
        check(
            "--effort high --commit abc -- -x",
            (What::Commit("abc".to_owned()), Effort::High, "-x"),
            "/review --commit abc --effort high -- -x",
        );
    }

    #[test]
    fn what_cannot_be_reviewed_is_refused_with_a_reason() {
        let refused = |words: &str| Asked::by_words(words).map_err(|refusal| refusal.message);
        assert_eq!(refused("--effort most"), Err("a review has no effort `most`".to_owned()));
        assert!(refused("--base main --commit abc").is_err());
        let flags = |name: &str| ReviewFlags { base: Some(name.to_owned()), ..Default::default() };
        for name in ["", "two words"] {
            assert!(Asked::by_flags(&flags(name), None).is_err(), "{name}");
        }
        let hint = "`--base v1` reviews what has come since, `--commit HEAD` that commit alone";
        for range in ["v1..HEAD", "v1...", "v1.."] {
            let refusal = Asked::by_flags(&flags(range), None).err();
            let told = refusal.map(|refusal| (refusal.message, refusal.hint));
            let message = format!("`{range}` is a range, and no branch or commit");
            assert_eq!(told, Some((message, Some(hint.to_owned()))));
        }
    }

    #[test]
    fn a_word_that_names_a_commit_or_a_file_is_not_what_to_look_for() {
        let repo = Repo::with_commit();
        repo.write("src/b.rs", "");
        let refused = |words: &str| {
            let asked = Asked::by_words(words).map_err(|refusal| refusal.message)?;
            asked.check_words(&program(), &repo.root()).map_err(|refusal| refusal.message)
        };
        for (word, what) in [
            ("main", "a branch or a commit"),
            ("HEAD^0", "a branch or a commit"),
            ("main..HEAD", "a range of commits"),
            ("main...", "a range of commits"),
            ("a.txt", "a file"),
            ("src/", "a file"),
        ] {
            let message = format!("`{word}` names {what}, and words say what to look for besides");
            assert_eq!(refused(word), Err(message));
        }
        for words in ["", "src", "locks", "a..b", "-- -x", "the locks of main", "--base main"] {
            assert_eq!(refused(words), Ok(()), "{words}");
        }
    }
}
