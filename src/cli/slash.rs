//! Commands that are typed as `/name` and built in.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

use super::exit::{Exit, Refusal};
use super::flow::Beside;
use crate::agent::Opening;
use crate::git;
use crate::skill::{Skill, SkillError, Skills};
use crate::tool::{FORK, Task};

/// Every command, by name. A skill of the same name cannot be typed.
const COMMANDS: [&str; 4] = [COMPACT, FORK, UNDO, USAGE];

/// Puts a summary in the place of the conversation.
const COMPACT: &str = "compact";

/// Puts files back. It begins nothing, so it is looked for before a session is
/// opened.
pub(super) const UNDO: &str = "undo";

/// Tells what the session used.
const USAGE: &str = "usage";

/// Most characters of a directive that name the fork it is for.
const FORK_NAME_CAP: usize = 60;

/// Tells whether a name is that of a built-in command.
pub(super) fn is_command(name: &str) -> bool {
    COMMANDS.iter().any(|command| command.eq_ignore_ascii_case(name))
}

/// Returns what a command begins with; `None` if there is no such command.
pub(super) fn opening(name: &str, arguments: &str) -> Option<Result<Opening, Refusal>> {
    let argument = Some(arguments.trim()).filter(|text| !text.is_empty());
    match (name, argument) {
        (COMPACT, hint) => Some(Ok(Opening::Compact { hint: hint.map(Into::into) })),
        (FORK, Some(directive)) => {
            let name: String = directive.chars().take(FORK_NAME_CAP).collect();
            let task = Task::background_fork(&name, directive);
            Some(Ok(Opening::Fork { task, request: format!("/{FORK} {directive}").into() }))
        }
        (FORK, None) => {
            let refusal = Refusal::new(Exit::Usage, "`/fork` needs to know what the fork shall do");
            Some(Err(refusal.hint("for example: `/fork look for other callers of this function`")))
        }
        (USAGE, None) => Some(Err(needs_a_session())),
        (USAGE, Some(_)) => {
            let refusal = Refusal::new(Exit::Usage, "nothing stands behind `/usage`");
            Some(Err(refusal.hint("it tells of the session that `-c` or `-r SESSION` means")))
        }
        _ => None,
    }
}

/// Tells whether a prompt asks what the session used. That begins nothing, so it
/// is looked for before a session is opened.
pub(super) fn asks_for_usage(prompt: &str) -> bool {
    prompt.strip_prefix('/').is_some_and(|line| line.trim_end() == USAGE)
}

/// Says that a new session has used nothing.
pub(super) fn needs_a_session() -> Refusal {
    Refusal::new(Exit::Usage, "`/usage` tells what a session used, and this is a new one")
        .hint("add `--continue` or `--resume SESSION`; `tine sessions` lists them")
}

/// Returns the names of all that can be typed as `/name`: commands first.
pub(super) fn names(skills: &Skills) -> Vec<String> {
    let skills = skills.iter().filter(|skill| skill.user_invocable).map(|skill| &*skill.name);
    let skills = skills.filter(|name| !COMMANDS.contains(name));
    COMMANDS.into_iter().chain(skills).map(str::to_owned).collect()
}

/// What a typed prompt means.
pub(super) enum Meant<'a> {
    /// What it says.
    Typed,
    /// A skill, and the prompt it makes.
    Skill { skill: &'a Skill, text: String },
    /// A skill with a flow, and what stands behind its name.
    Flow { skill: &'a Skill, flow: Beside, words: &'a str },
    /// A built-in command.
    Command(Opening),
}

/// Where a prompt was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Typed {
    /// On the command line, or by a program.
    Line,
    /// Into a chat, which has commands of its own.
    Chat,
}

/// Finds out what `/name arguments` means, or that it is a plain prompt.
pub(super) fn expand<'a>(
    prompt: &'a str,
    typed: Typed,
    skills: &'a Skills,
    spill: &Path,
    repository: (&git::Program, &Path),
) -> Result<Meant<'a>, Refusal> {
    let Some((name, arguments)) = named(prompt) else {
        return Ok(Meant::Typed);
    };
    let skill = skills.find(name).filter(|skill| skill.user_invocable);
    if let Some(opening) = opening(name, arguments) {
        let opening = opening?;
        if skill.is_some() && typed == Typed::Line {
            super::say(&format!(
                "warning: the skill `{name}` cannot be typed: `/{name}` is a built-in command"
            ));
        }
        return Ok(Meant::Command(opening));
    }
    let Some(skill) = skill else {
        if is_place(name) {
            return Ok(Meant::Typed);
        }
        let names: Vec<String> = names(skills).iter().map(|name| format!("/{name}")).collect();
        return Err(Refusal::new(Exit::BadInput, format!("there is no skill `/{name}`"))
            .hint(format!("there are: {}", names.join(", "))));
    };
    if let Some(flow) = Beside::of(skill) {
        return Ok(Meant::Flow { skill, flow, words: arguments });
    }
    let text = skill.expand(arguments, spill, repository).map_err(|error| refusal(&error))?;
    Ok(Meant::Skill { skill, text })
}

/// Tells whether somebody who types a name may mean what is called so: a command
/// of a directory goes by its own name, too.
pub(super) fn is_called(own: &str, typed: &str) -> bool {
    let (own, typed) = (own.to_lowercase(), typed.to_lowercase());
    own == typed || own.rsplit_once(':').is_some_and(|(_, last)| last == typed)
}

/// Returns the name that a text begins with as `/name`, and what follows it;
/// `None` if it does not begin so.
pub(super) fn named(text: &str) -> Option<(&str, &str)> {
    let line = text.strip_prefix('/')?;
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let is_name = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ':'));
    (is_name && !name.is_empty()).then_some((name, arguments))
}

/// Tells whether a name is that of something below the root of the file system:
/// `/tmp is full` is a sentence about a directory.
pub(super) fn is_place(name: &str) -> bool {
    places().contains(name)
}

/// Returns what is below the root. It is looked at once: whoever asks again
/// waits for no disk.
pub(super) fn places() -> &'static BTreeSet<String> {
    static PLACES: OnceLock<BTreeSet<String>> = OnceLock::new();
    PLACES.get_or_init(|| {
        // What cannot be listed is no place to talk about.
        let entries = std::fs::read_dir("/").into_iter().flatten().filter_map(Result::ok);
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    })
}

/// Says why a skill cannot be used.
pub(super) fn refusal(error: &SkillError) -> Refusal {
    match error {
        SkillError::Git(error) => Refusal::no_change(error),
        SkillError::UnknownFlag { .. }
        | SkillError::MissingValue { .. }
        | SkillError::TwoChanges => Refusal::new(Exit::BadInput, error.to_string()),
        SkillError::Unwritable { source, .. } => {
            Refusal::new(Exit::Error, format!("{error}: {source}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_there_is_begins_something() {
        for name in COMMANDS.into_iter().filter(|name| ![UNDO, USAGE].contains(name)) {
            assert!(opening(name, "x").is_some_and(|opening| opening.is_ok()), "{name}");
        }
        assert!(opening("compacts", "x").is_none());
    }

    #[test]
    fn usage_is_asked_for_by_its_name_alone() {
        for (prompt, is_asked) in [
            ("/usage", true),
            ("/usage \n", true),
            ("/usage now", false),
            ("/usages", false),
            ("usage", false),
        ] {
            assert_eq!(asks_for_usage(prompt), is_asked, "{prompt}");
        }
        for arguments in ["", "now"] {
            assert!(opening(USAGE, arguments).is_some_and(|opening| opening.is_err()));
        }
    }

    #[test]
    fn the_hint_is_what_stands_behind_the_name() {
        let hint = |arguments| match opening("compact", arguments) {
            Some(Ok(Opening::Compact { hint })) => hint,
            _ => panic!("`/compact{arguments}` is no compaction"),
        };
        assert_eq!(hint(" keep the\npaths \n").as_deref(), Some("keep the\npaths"));
        assert_eq!(hint(" \n"), None);
    }
}
