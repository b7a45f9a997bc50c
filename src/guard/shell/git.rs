//! git, told to run nothing that a repository names.
//!
//! The settings are those of our own calls and a few more. They are written
//! into the command, so that it is the same wherever it runs.

use crate::git::PROGRAMS;

use super::world::World;

/// Settings that only matter for what the gate lets through.
const MORE: [(&str, &str); 5] = [
    // A directory of the workspace may be made to look like a repository.
    ("safe.bareRepository", "explicit"),
    // These look into submodules with a git of their own.
    ("diff.submodule", "short"),
    ("diff.autoRefreshIndex", "false"),
    ("status.submoduleSummary", "false"),
    // Signatures: a configured format may ask for them.
    ("gpg.openpgp.program", "false"),
];

/// Returns the words to put behind `git` in a directory.
pub(super) fn hardening(
    world: World<'_>,
    directory: &std::path::Path,
) -> Result<Vec<String>, String> {
    let Some(filters) = world.look.git_filters(directory) else {
        return Err("git's configuration there cannot be listed".to_owned());
    };
    if let Some(name) = filters.iter().find(|name| name.contains(['=', '\n'])) {
        return Err(format!("the filter `{name}` cannot be turned off"));
    }
    let mut words = vec!["--no-pager".to_owned(), "--no-optional-locks".to_owned()];
    let mut set =
        |name: &str, value: &str| words.extend(["-c".to_owned(), format!("{name}={value}")]);
    for (name, value) in PROGRAMS.iter().chain(&MORE) {
        set(name, value);
    }
    for filter in filters {
        for (key, value) in [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")]
        {
            set(&format!("filter.{filter}.{key}"), value);
        }
    }
    Ok(words)
}
