//! Flows beside skills: what somebody means who types `/name words`.
//!
//! Nothing of a flow is read before it is wanted, so an edit of its file counts at
//! once, and one that cannot be used is in nobody's way until then.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Beginning, Meant, check_place, known, refused};
use crate::cli::exit::{Exit, Refusal};
use crate::cli::kit::Kit;
use crate::cli::{review, slash};
use crate::definition::Definitions;
use crate::flow::file::{self, FILE};
use crate::flow::{Flow, Input, Supplied};
use crate::front_matter::Source;
use crate::run::Main;
use crate::skill::{self, Files, Given, REVIEW, Skill, Skills};

/// The input of a flow that gets what was typed behind the name of its skill.
const ARGUMENTS: &str = "arguments";

/// Where the flow of a skill is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Beside {
    /// In this file.
    File(PathBuf),
    /// In the program.
    Bundled(Files),
    /// In the program, which also makes values for it: the review.
    Review,
}

impl Beside {
    /// Finds the flow of a skill, if it has one.
    pub(in crate::cli) fn of(skill: &Skill) -> Option<Self> {
        match &skill.source {
            Source::File(path) => file_beside(path).map(Self::File),
            Source::BuiltIn if skill.name == REVIEW => Some(Self::Review),
            Source::BuiltIn => {
                let has_flow = skill.files.iter().any(|(name, _)| *name == FILE);
                has_flow.then_some(Self::Bundled(skill.files))
            }
            Source::Given => None,
        }
    }

    /// Reads it.
    pub(super) fn read(&self, definitions: &Definitions) -> Result<Arc<Flow>, Refusal> {
        let known = known(definitions);
        let read = match self {
            Self::File(path) => file::read(path, &known),
            Self::Bundled(files) => file::bundled(Path::new(FILE), files, &known),
            Self::Review => return review::flow(definitions, &Arc::default()),
        };
        read.map_err(|findings| refused(&findings))
    }
}

/// Returns the flow file beside the file of a skill. One that nobody can read is
/// there all the same: nothing else is done in its place.
pub(in crate::cli) fn file_beside(path: &Path) -> Option<PathBuf> {
    let is_skill = path.file_name().is_some_and(|name| name == skill::FILE);
    let file = path.with_file_name(FILE);
    (is_skill && file.symlink_metadata().is_ok()).then_some(file)
}

/// Finds the skill with a flow that somebody names in the place of a file: by its
/// name, with or without a `/` before it.
pub(super) fn named<'a>(path: &Path, skills: &'a Skills) -> Option<(&'a Skill, Beside)> {
    let name = path.to_str().filter(|_| path.symlink_metadata().is_err())?;
    let skill = skills.find(name.strip_prefix('/').unwrap_or(name))?;
    Some((skill, Beside::of(skill)?))
}

/// Returns the flow that somebody means who names a skill in the place of a file.
pub(in crate::cli) fn meant_by(path: &Path, skills: &Skills) -> Option<Beside> {
    named(path, skills).map(|(_, beside)| beside)
}

/// Tells whether somebody who names this in the place of a file means the review.
pub(super) fn is_review(path: &Path, skills: &Skills) -> bool {
    matches!(named(path, skills), Some((_, Beside::Review)))
}

/// Says of a name that it is neither that of a file nor that of a skill with a flow.
pub(super) fn nobodys(path: &Path, skills: &Skills) -> Refusal {
    let message = format!(
        "there is no flow file `{}`, and no skill of that name with a flow",
        path.display()
    );
    let with_flows = skills.iter().filter(|skill| Beside::of(skill).is_some());
    let names: Vec<&str> = with_flows.map(|skill| &*skill.name).collect();
    let refusal = Refusal::new(Exit::BadInput, message);
    match names.as_slice() {
        [] => refusal,
        names => refusal.hint(format!("skills with flows are {}", names.join(", "))),
    }
}

/// Returns what main does for somebody who has typed the name of a skill with a
/// flow, and these words behind it.
pub(in crate::cli) fn main_of(
    kit: &Kit,
    (skill, beside): (&Skill, &Beside),
    words: &str,
) -> Result<Main, Refusal> {
    if let Beside::Review = beside {
        return review::typed(kit, words);
    }
    let flow = beside.read(&kit.definitions)?;
    let takes = |name: &str| flow.inputs().iter().find(|input| *input.name == *name);
    let around = (&kit.git, &*kit.root);
    let given = skill.given(words, &kit.directory, around);
    let Given { change, rest } = given.map_err(|error| slash::refusal(&error))?;
    let change = change.into_iter().filter(|(name, _)| takes(name).is_some());
    let change = change.map(|(name, text)| (name.to_owned(), Supplied::Words(text)));
    let arguments = arguments(skill, &flow, (rest.trim(), takes(ARGUMENTS)))?;
    let begins = Beginning::typed(kit, &flow, change.chain(arguments))?;
    check_place(kit, &flow)?;
    let followed = Some(Arc::clone(&skill.followed));
    Ok(begins.main(Meant { flow, followed }).1)
}

/// Returns what the flow of a skill is given of the words behind its name.
fn arguments(
    skill: &Skill,
    flow: &Flow,
    (words, input): (&str, Option<&Input>),
) -> Result<Option<(String, Supplied)>, Refusal> {
    let name = &skill.name;
    match (words, input) {
        ("", Some(input)) if input.default.is_none() => {
            let usage = format!("`/{name} {}`", skill.argument_hint);
            let hint = if skill.argument_hint.is_empty() { &*input.description } else { &*usage };
            let refusal = Refusal::new(Exit::BadInput, format!("`/{name}` needs words behind it"));
            Err(if hint.is_empty() { refusal } else { refusal.hint(hint) })
        }
        ("", _) => Ok(None),
        (words, Some(_)) => Ok(Some((ARGUMENTS.to_owned(), Supplied::Words(words.to_owned())))),
        (_, None) => {
            let message = format!(
                "`/{name}` takes no words: its flow `{}` has no input `{ARGUMENTS}`",
                flow.name()
            );
            Err(Refusal::new(Exit::BadInput, message)
                .hint(format!("`tine flow run /{name} --input NAME=VALUE` gives its inputs")))
        }
    }
}
