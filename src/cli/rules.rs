//! Lists of rules and of tools, as flags give them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::{Asks, RunFlags};
use super::exit::{Exit, Refusal};
use super::{project, start};
use crate::config::dirs::{config_directory, config_file, trust_file};
use crate::config::settings;
use crate::config::{Config, Environment, Permissions, WrittenRule};
use crate::event::Backend;
use crate::git;
use crate::guard::sandbox::Sandbox;
use crate::guard::shell::Machine;
use crate::guard::{Gate, Mode, Policy, Rule, Rules, SandboxIsThere, Secrets, Source, Sourced};
use crate::run::KeepRule;

/// Splits at commas and white space outside parentheses, so that one flag can
/// hold `Bash(git status), Edit(src/**)`.
pub(super) fn split(lists: &[String]) -> Vec<String> {
    let mut items = Vec::new();
    for list in lists {
        let mut depth = 0_u32;
        let mut item = String::new();
        for character in list.chars() {
            match character {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && (character == ',' || character.is_whitespace()) {
                items.extend((!item.is_empty()).then(|| std::mem::take(&mut item)));
            } else {
                item.push(character);
            }
        }
        items.extend((!item.is_empty()).then_some(item));
    }
    items
}

/// Builds what units may do from the configuration and the flags, and finds the
/// git by which commands are judged and that our own calls run.
///
/// # Errors
///
/// If a rule cannot be read, or a directory is not there.
pub(super) fn policy(
    environment: &Environment,
    config: &Config,
    flags: &RunFlags,
    (root, sandbox): (&Path, &Arc<Sandbox>),
) -> Result<(Policy, git::Program), Refusal> {
    let parse = |written: &[WrittenRule], flagged: &[String]| {
        let mut rules = Vec::new();
        for WrittenRule { text, source } in written {
            rules.push(sourced(environment, text, *source)?);
        }
        for text in split(flagged) {
            rules.push(sourced(environment, &text, Source::Flag)?);
        }
        Ok(rules)
    };
    let Permissions { mode: _, allow, ask, deny } = &config.permissions;
    let rules = Rules {
        allow: parse(allow, &flags.allowed_tools)?,
        ask: parse(ask, &[])?,
        deny: parse(deny, &flags.disallowed_tools)?,
    };
    let given = project::given(flags)?.unwrap_or_default();
    let roots = roots(flags, root)?;
    // Whoever writes there decides what later runs may do.
    let own = config_directory(environment).into_iter().chain(trust_file(environment).ok());
    let guarded: Vec<PathBuf> = own.collect();
    let settings = config_file(environment);
    let secrets = Secrets::new(environment.home.as_deref(), settings.as_deref());
    let path = environment.inherited.path().unwrap_or_default();
    let git = start::git(environment, &roots);
    let machine = Machine::new(path, environment.home.as_deref(), &roots, git.clone());
    let sandbox = Arc::clone(sandbox);
    let gate = Gate {
        machine: Arc::new(machine),
        sandbox: SandboxIsThere::new(move || sandbox.backend() != Backend::None),
    };
    let mode = mode_of_flags(flags).or(given.mode).unwrap_or(config.permissions.mode);
    let policy = Policy::new(mode, roots).with_rules(rules);
    let policy = match flags.borrowed.permission_prompts {
        Some(Asks::None) => policy.without_questions(),
        Some(Asks::Host) | None => policy,
    };
    Ok((policy.guarding(guarded).keeping(secrets).with_gate(gate), git))
}

/// Returns the directories that are the workspace: `root`, and those that flags add.
pub(super) fn roots(flags: &RunFlags, root: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let given = project::given(flags)?.unwrap_or_default();
    let mut roots = vec![root.to_owned()];
    for directory in flags.add_dir.iter().flat_map(|list| each(list)).chain(given.directories) {
        roots.push(directory.canonicalize().map_err(|error| {
            Refusal::new(Exit::Usage, format!("cannot add `{}`: {error}", directory.display()))
        })?);
    }
    Ok(roots)
}

/// Reads the rules of settings that a program gives while its session goes on:
/// those that allow, those that ask, those that deny.
pub(super) fn of_settings(
    environment: &Environment,
    [allow, ask, deny]: &[Vec<String>; 3],
) -> Result<Rules, Refusal> {
    let read = |texts: &[String]| -> Result<Vec<Sourced>, Refusal> {
        texts.iter().map(|text| sourced(environment, text, Source::Settings)).collect()
    };
    Ok(Rules { allow: read(allow)?, ask: read(ask)?, deny: read(deny)? })
}

/// Returns the directories of a list with commas, or the one that has them in its
/// name.
fn each(list: &Path) -> Vec<PathBuf> {
    match list.to_str() {
        Some(text) if text.contains(',') && !list.exists() => {
            text.split(',').map(str::trim).filter(|it| !it.is_empty()).map(PathBuf::from).collect()
        }
        Some(_) | None => vec![list.to_owned()],
    }
}

/// Returns what writes a rule to the user's settings.
pub(super) fn keep(environment: &Environment) -> KeepRule {
    let environment = environment.clone();
    Arc::new(move |text| {
        let rule = Rule::parse(text, environment.home.as_deref()).map_err(|it| it.to_string())?;
        let kept = settings::allow(&environment, &rule);
        kept.map(drop).map_err(|error| Refusal::because(Exit::Error, &error).message)
    })
}

fn sourced(environment: &Environment, text: &str, source: Source) -> Result<Sourced, Refusal> {
    let exit = match source {
        Source::Flag => Exit::Usage,
        Source::User | Source::Project | Source::Settings | Source::Agent | Source::Skill => {
            Exit::BadConfig
        }
    };
    let rule = Rule::parse(text, environment.home.as_deref()).map_err(|error| {
        Refusal::new(exit, error.to_string()).hint("see «Permissions» in README.md")
    })?;
    Ok(Sourced { rule, source })
}

/// Returns the mode that flags name, if they do.
pub(super) fn mode_of_flags(flags: &RunFlags) -> Option<Mode> {
    match flags.dangerously_skip_permissions {
        true => Some(Mode::BypassPermissions),
        false => flags.permission_mode,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_split_at_commas_unless_one_is_called_so() {
        let place = tempfile::tempdir().unwrap();
        let odd = place.path().join("a,b");
        std::fs::create_dir(&odd).unwrap();
        assert_eq!(each(&odd), [odd]);
        assert_eq!(each(Path::new("/no/a, /no/b,")), [Path::new("/no/a"), Path::new("/no/b")]);
        assert_eq!(each(Path::new("..")), [Path::new("..")]);
    }

    #[test]
    fn lists_are_split_outside_parentheses() {
        let lists = ["Read, Bash(git log, x) Edit".to_owned(), "Write".to_owned()];
        assert_eq!(split(&lists), ["Read", "Bash(git log, x)", "Edit", "Write"]);
    }
}
