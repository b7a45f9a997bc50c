//! Where things are looked for: configuration, sessions, skills, agents.
//!
//! Paths only: nothing here looks at the disk, and a directory that is named
//! need not be there.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{Environment, Sources};

/// There is nowhere to keep anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("there is no home directory\nhint: set `HOME` or `TINE_HOME`")]
pub struct NoHome;

/// Returns the root of all sessions: `$TINE_HOME/sessions`, else
/// `$XDG_STATE_HOME/tine/sessions`.
///
/// # Errors
///
/// If the environment names no home directory.
pub fn sessions_root(environment: &Environment) -> Result<PathBuf, NoHome> {
    state_root(environment).map(|root| root.join("sessions"))
}

/// Returns the root of the worktrees that units work in, beside that of the
/// sessions.
///
/// # Errors
///
/// If the environment names no home directory.
pub fn worktrees_root(environment: &Environment) -> Result<PathBuf, NoHome> {
    state_root(environment).map(|root| root.join("worktrees"))
}

fn state_root(environment: &Environment) -> Result<PathBuf, NoHome> {
    let under_home = || Some(home(environment)?.join(".local/state"));
    let state = || Some(environment.state_home.clone().or_else(under_home)?.join("tine"));
    environment.tine_home.clone().or_else(state).ok_or(NoHome)
}

/// Returns where workers keep what they work on, beside the sessions.
///
/// # Errors
///
/// If the environment names no home directory.
pub fn worker_root(environment: &Environment) -> Result<PathBuf, NoHome> {
    state_root(environment).map(|root| root.join("worker"))
}

/// Returns where it is kept what sandboxes have left to clean up, beside the
/// sessions.
///
/// # Errors
///
/// If the environment names no home directory.
pub fn sandbox_root(environment: &Environment) -> Result<PathBuf, NoHome> {
    Ok(sessions_root(environment)?.with_file_name("sandbox"))
}

/// Returns where it is kept which repositories are trusted, beside the sessions.
///
/// # Errors
///
/// If the environment names no home directory.
pub fn trust_file(environment: &Environment) -> Result<PathBuf, NoHome> {
    Ok(sessions_root(environment)?.with_file_name("trust.json"))
}

/// Returns the file of the adaptations that models need, next to the sessions.
///
/// # Errors
///
/// If the environment names no home directory.
pub fn adaptations_file(environment: &Environment) -> Result<PathBuf, NoHome> {
    Ok(sessions_root(environment)?.with_file_name("adaptations.json"))
}

/// Returns where it is kept what was typed in chats, beside the sessions.
///
/// # Errors
///
/// If the environment names no home directory.
pub fn history_file(environment: &Environment) -> Result<PathBuf, NoHome> {
    Ok(sessions_root(environment)?.with_file_name("history.txt"))
}

/// Returns where the user's configuration, instructions, skills and agents
/// are: `$TINE_HOME`, else `$XDG_CONFIG_HOME/tine`. `None` without a home
/// directory.
#[must_use]
pub fn config_directory(environment: &Environment) -> Option<PathBuf> {
    let under_home = || Some(home(environment)?.join(".config"));
    let config = || Some(environment.config_home.clone().or_else(under_home)?.join("tine"));
    environment.tine_home.clone().or_else(config)
}

/// Returns the user's configuration file.
#[must_use]
pub fn config_file(environment: &Environment) -> Option<PathBuf> {
    Some(config_directory(environment)?.join("config.toml"))
}

/// Returns where skills are looked for, the first to win first: the project's
/// from the working directory up to the repository root, then the user's.
#[must_use]
pub fn skill_directories(
    cwd: &Path,
    repo_root: Option<&Path>,
    environment: &Environment,
    sources: Sources,
) -> Vec<PathBuf> {
    places("skills", (cwd, repo_root), environment, sources)
}

/// Returns where commands are looked for, as for skills.
#[must_use]
pub fn command_directories(
    cwd: &Path,
    repo_root: Option<&Path>,
    environment: &Environment,
    sources: Sources,
) -> Vec<PathBuf> {
    places("commands", (cwd, repo_root), environment, sources)
}

/// Returns where agent definitions are looked for, as for skills.
#[must_use]
pub fn agent_directories(
    cwd: &Path,
    repo_root: Option<&Path>,
    environment: &Environment,
    sources: Sources,
) -> Vec<PathBuf> {
    places("agents", (cwd, repo_root), environment, sources)
}

/// Returns the working directory and those above it up to the repository
/// root. What lies above the root, or around a directory that is in no
/// repository, belongs to somebody else.
pub(super) fn up_to_root<'a>(cwd: &'a Path, repo_root: Option<&Path>) -> Vec<&'a Path> {
    let root = repo_root.filter(|root| cwd.starts_with(root)).unwrap_or(cwd);
    cwd.ancestors().take_while(|directory| directory.starts_with(root)).collect()
}

fn places(
    kind: &str,
    (cwd, repo_root): (&Path, Option<&Path>),
    environment: &Environment,
    sources: Sources,
) -> Vec<PathBuf> {
    let below = |directory: &Path| {
        [".tine", ".agents", ".claude"].map(|owner| directory.join(owner).join(kind))
    };
    let project = up_to_root(cwd, repo_root).into_iter().flat_map(below);
    let project = project.filter(|_| sources.project);
    let own = config_directory(environment).map(|directory| directory.join(kind));
    let shared = home(environment)
        .into_iter()
        .flat_map(|home| [".agents", ".claude"].map(|owner| home.join(owner).join(kind)));
    let mut places: Vec<PathBuf> = Vec::new();
    for place in project.chain(own.into_iter().chain(shared).filter(|_| sources.user)) {
        // The home directory may itself be the project.
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

fn home(environment: &Environment) -> Option<&Path> {
    environment.home.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::from_variables(variables.iter().copied())
    }

    #[test]
    fn sessions_and_configuration_follow_tine_home_then_xdg_then_home() {
        let mut variables = vec![];
        let mut check = |variable, sessions: &str, config: &str| {
            variables.push(variable);
            let environment = environment(&variables);
            assert_eq!(sessions_root(&environment), Ok(sessions.into()));
            assert_eq!(config_file(&environment), Some(config.into()));
        };
        check(("HOME", "/h"), "/h/.local/state/tine/sessions", "/h/.config/tine/config.toml");
        check(("XDG_STATE_HOME", "/s"), "/s/tine/sessions", "/h/.config/tine/config.toml");
        check(("XDG_CONFIG_HOME", "/c"), "/s/tine/sessions", "/c/tine/config.toml");
        check(("TINE_HOME", "/t"), "/t/sessions", "/t/config.toml");
    }

    #[test]
    fn without_a_home_there_is_an_error_and_not_a_directory_somewhere() {
        assert_eq!(sessions_root(&environment(&[])), Err(NoHome));
        assert_eq!(config_file(&environment(&[])), None);
        let elsewhere = environment(&[("XDG_STATE_HOME", "/s"), ("XDG_CONFIG_HOME", "/c")]);
        assert_eq!(sessions_root(&elsewhere), Ok("/s/tine/sessions".into()));
        assert_eq!(config_directory(&elsewhere), Some("/c/tine".into()));
    }

    #[track_caller]
    fn check(cwd: &str, root: Option<&str>, variables: &[(&str, &str)], expected: &[&str]) {
        let found = skill_directories(
            Path::new(cwd),
            root.map(Path::new),
            &environment(variables),
            Sources::default(),
        );
        assert_eq!(found, expected.iter().map(PathBuf::from).collect::<Vec<_>>());
    }

    #[test]
    fn skills_are_looked_for_up_to_the_repository_root_and_then_at_home() {
        check(
            "/h/repo/sub",
            Some("/h/repo"),
            &[("HOME", "/h")],
            &[
                "/h/repo/sub/.tine/skills",
                "/h/repo/sub/.agents/skills",
                "/h/repo/sub/.claude/skills",
                "/h/repo/.tine/skills",
                "/h/repo/.agents/skills",
                "/h/repo/.claude/skills",
                "/h/.config/tine/skills",
                "/h/.agents/skills",
                "/h/.claude/skills",
            ],
        );
    }

    #[test]
    fn only_the_sources_that_were_asked_for_are_looked_at() {
        let at = |user, project| {
            let (cwd, environment) = (Path::new("/h/r"), environment(&[("HOME", "/h")]));
            skill_directories(cwd, None, &environment, Sources { user, project })
        };
        let project = ["/h/r/.tine/skills", "/h/r/.agents/skills", "/h/r/.claude/skills"];
        let user = ["/h/.config/tine/skills", "/h/.agents/skills", "/h/.claude/skills"];
        assert_eq!(at(false, true), project.map(PathBuf::from));
        assert_eq!(at(true, false), user.map(PathBuf::from));
        assert_eq!(at(false, false), [] as [PathBuf; 0]);
    }

    #[test]
    fn outside_a_repository_only_the_working_directory_counts() {
        let here = ["/a/b/.tine/skills", "/a/b/.agents/skills", "/a/b/.claude/skills"];
        check("/a/b", None, &[], &here);
        check("/a/b", Some("/elsewhere"), &[], &here);
    }

    #[test]
    fn tine_home_takes_the_place_of_the_users_own_directory() {
        check(
            "/h",
            Some("/h"),
            &[("HOME", "/h"), ("TINE_HOME", "/t")],
            &["/h/.tine/skills", "/h/.agents/skills", "/h/.claude/skills", "/t/skills"],
        );
        let agents = agent_directories(
            Path::new("/r"),
            None,
            &environment(&[("HOME", "/h"), ("TINE_HOME", "/t")]),
            Sources::default(),
        );
        assert_eq!(agents[3], Path::new("/t/agents"));
    }
}
