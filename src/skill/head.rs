//! From a file to a skill: what each key of its front matter means.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::bundled::Bundled;
use super::{AGENT, Context, Followed, Skill};
use crate::front_matter::{self, FrontMatterError, Hint, Names, Source};
use crate::guard::{self, Rule, Sourced};

/// The file of a skill, in a directory of its name.
pub const FILE: &str = "SKILL.md";

/// What stands in rules and bodies for the directory of the skill; the second
/// is what others call it.
pub(super) const DIRECTORY: [&str; 2] = ["${TINE_SKILL_DIR}", "${CLAUDE_SKILL_DIR}"];

/// The front matter of a skill. What is not named here is left out.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Head {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) argument_hint: Option<Hint>,
    pub(super) arguments: Option<Names>,
    pub(super) disable_model_invocation: Option<bool>,
    pub(super) user_invocable: Option<bool>,
    pub(super) allowed_tools: Option<Names>,
    pub(super) model: Option<String>,
    pub(super) context: Option<Place>,
    pub(super) agent: Option<String>,
    pub(super) background: Option<bool>,
    pub(super) metadata: Option<Metadata>,
    // For people and for other programs, and known so that nobody is told
    // that they are not.
    #[serde(rename = "license")]
    _license: Option<IgnoredAny>,
    #[serde(rename = "compatibility")]
    _compatibility: Option<IgnoredAny>,
    #[serde(flatten)]
    pub(super) unknown: BTreeMap<String, IgnoredAny>,
}

/// Every key that is known, for whoever looks for what another one was meant
/// to be.
pub(super) const KEYS: [&str; 14] = [
    "name",
    "description",
    "license",
    "compatibility",
    "metadata",
    "allowed-tools",
    "argument-hint",
    "arguments",
    "disable-model-invocation",
    "user-invocable",
    "model",
    "context",
    "agent",
    "background",
];

/// Other programs keep keys of their own here.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Metadata {
    #[serde(rename = "tine-context")]
    context: Option<Given>,
}

/// What a skill is given besides its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Given {
    Change,
}

/// Where a skill is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Place {
    Inline,
    Fork,
}

/// Tells what a skill says besides its instructions: what counts only if the
/// user trusts it. One that cannot be used says nothing.
#[must_use]
pub fn powers(text: &str, path: &Path) -> Vec<String> {
    let Ok((head, _)) = front_matter::parse::<Head>(text, path) else { return Vec::new() };
    let allowed = head.allowed_tools.map(|names| names.0).unwrap_or_default();
    allowed.iter().map(|rule| format!("allowed-tools: {rule}")).collect()
}

pub(super) fn bundled(Bundled { text, files }: Bundled) -> Skill {
    let skill =
        self::skill(text, Path::new(FILE), None, true).expect("a test parses the bundled skills");
    Skill { source: Source::BuiltIn, files, ..skill }
}

pub(super) fn skill(
    text: &str,
    path: &Path,
    home: Option<&Path>,
    is_trusted: bool,
) -> Result<Skill, FrontMatterError> {
    let (mut head, body) = front_matter::parse::<Head>(text, path)?;
    let directory = path.parent().and_then(Path::file_name).unwrap_or_default();
    let name = head.name.take().unwrap_or_else(|| directory.to_string_lossy().into_owned());
    front_matter::check_name(&name)
        .map_err(|message| malformed(path, front_matter::line_of(text, "name"), message))?;
    let description = front_matter::one_line(&head.description.take().unwrap_or_default());
    if description.is_empty() {
        let line = front_matter::line_of(text, "description");
        return Err(malformed(path, line, format!("the skill `{name}` needs a `description:`")));
    }
    Ok(of(head, body, Named { name, description, path, home, is_trusted }))
}

/// Reads a command: its name is the file's, and what says nothing of itself is
/// described by its first line.
pub(super) fn command(
    text: &str,
    (above, path): (&[String], &Path),
    home: Option<&Path>,
    is_trusted: bool,
) -> Result<Skill, FrontMatterError> {
    let (mut head, body) = front_matter::parse::<Head>(text, path)?;
    let own = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = [above, &[own]].concat().join(":");
    front_matter::check_name(&name).map_err(|message| malformed(path, 1, message))?;
    if body.trim().is_empty() {
        return Err(malformed(path, 1, format!("the command `{name}` says nothing")));
    }
    let first = body.trim().lines().next().unwrap_or_default().trim_start_matches('#');
    let description = head.description.take();
    let description = front_matter::one_line(description.as_deref().unwrap_or(first));
    let command = of(head, body, Named { name, description, path, home, is_trusted });
    Ok(Skill { disable_model_invocation: true, user_invocable: true, change: false, ..command })
}

fn malformed(path: &Path, line: usize, message: String) -> FrontMatterError {
    FrontMatterError::Malformed { path: path.to_owned(), line, message }
}

/// What is known of a skill before its other keys are looked at.
struct Named<'a> {
    name: String,
    description: String,
    path: &'a Path,
    home: Option<&'a Path>,
    is_trusted: bool,
}

fn of(head: Head, body: &str, named: Named<'_>) -> Skill {
    let Named { name, description, path, home, is_trusted } = named;
    for key in head.unknown.keys() {
        tracing::debug!(path = %path.display(), key, "left out a key of a skill");
    }
    let allowed_tools = head.allowed_tools.unwrap_or_default().0;
    let leave = match is_trusted {
        true => allowed_tools.iter().filter_map(|text| rule(text, path, home)).collect(),
        false => Vec::new(),
    };
    let is_own = |model: &String| !model.eq_ignore_ascii_case("inherit");
    let followed = Followed {
        skill: name.clone(),
        leave: leave.into(),
        model: head.model.filter(is_own).map(Into::into),
    };
    let context = match head.context {
        None | Some(Place::Inline) => Context::Inline,
        Some(Place::Fork) => Context::Fork {
            agent: head.agent.unwrap_or_else(|| AGENT.to_owned()),
            is_background: head.background.unwrap_or(false),
        },
    };
    let hint = head.argument_hint.map_or_else(String::new, |hint| hint.0);
    Skill {
        name,
        description,
        argument_hint: front_matter::one_line(&hint),
        arguments: head.arguments.unwrap_or_default().0,
        disable_model_invocation: head.disable_model_invocation.unwrap_or(false),
        user_invocable: head.user_invocable.unwrap_or(true),
        allowed_tools,
        followed: Arc::new(followed),
        context,
        body: body.trim().to_owned(),
        source: Source::File(path.to_owned()),
        files: &[],
        change: head.metadata.and_then(|metadata| metadata.context) == Some(Given::Change),
        hides: Vec::new(),
    }
}

/// Reads a rule of what a skill may use. One that means nothing here is kept
/// out: people write them for other programs, too.
fn rule(text: &str, path: &Path, home: Option<&Path>) -> Option<Sourced> {
    let rule = parsed(text, path, home);
    if let Err(error) = &rule {
        tracing::debug!(path = %path.display(), "left out a rule of a skill: {error}");
    }
    Some(Sourced { rule: rule.ok()?, source: guard::Source::Skill })
}

/// Reads a rule, with the skill's directory put in.
pub(super) fn parsed(
    text: &str,
    path: &Path,
    home: Option<&Path>,
) -> Result<Rule, guard::RuleError> {
    let directory = path.parent().map(|directory| directory.to_string_lossy()).unwrap_or_default();
    let text = DIRECTORY.iter().fold(text.to_owned(), |text, it| text.replace(it, &directory));
    Rule::parse(&text, home)
}
