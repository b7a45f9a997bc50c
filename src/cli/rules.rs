//! Lists of rules and of tools, as flags give them.

use super::exit::{Exit, Refusal};
use crate::config::dirs::config_directory;
use crate::config::{Config, Environment};
use crate::guard::{Mode, Policy, Rule};

use super::args::RunFlags;

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

/// Builds what units may do from the configuration and the flags.
///
/// # Errors
///
/// If a rule cannot be read, or a directory is not there.
pub(super) fn policy(
    environment: &Environment,
    config: &Config,
    flags: &RunFlags,
    root: &std::path::Path,
) -> Result<Policy, Refusal> {
    let home = environment.home.as_deref();
    let parse = |exit: Exit, rules: &[String]| -> Result<Vec<Rule>, Refusal> {
        let parse = |rule: &String| Rule::parse(rule, home);
        rules.iter().map(parse).collect::<Result<_, _>>().map_err(|error| {
            Refusal::new(exit, error.to_string()).hint("see «Permissions» in README.md")
        })
    };
    let mut allow = parse(Exit::BadConfig, &config.permissions.allow)?;
    allow.extend(parse(Exit::Usage, &split(&flags.allowed_tools))?);
    let mut deny = parse(Exit::BadConfig, &config.permissions.deny)?;
    deny.extend(parse(Exit::Usage, &split(&flags.disallowed_tools))?);
    let mut roots = vec![root.to_owned()];
    for directory in &flags.add_dir {
        roots.push(directory.canonicalize().map_err(|error| {
            Refusal::new(Exit::Usage, format!("cannot add `{}`: {error}", directory.display()))
        })?);
    }
    // Whoever writes there decides what later runs may do.
    let guarded = config_directory(environment).into_iter().collect();
    Ok(Policy { mode: mode(config, flags), allow, deny, roots: roots.into(), guarded })
}

fn mode(config: &Config, flags: &RunFlags) -> Mode {
    if flags.dangerously_skip_permissions {
        return Mode::BypassPermissions;
    }
    flags.permission_mode.unwrap_or(config.permissions.mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_outside_parentheses() {
        let lists = ["Read, Bash(git log, x) Edit".to_owned(), "Write".to_owned()];
        assert_eq!(split(&lists), ["Read", "Bash(git log, x)", "Edit", "Write"]);
    }
}
