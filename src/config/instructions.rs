//! The instructions that people write for agents: `AGENTS.md`.
//!
//! The text goes to the model as it is. A repository's file is read only if it
//! truly lies in the repository: a link must not send a private file to a
//! provider.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::dirs::{config_directory, up_to_root};
use super::{Environment, Sources};

/// Most bytes of one file that reach the model, about 8,000 tokens. Every
/// request of every unit carries them.
pub const INSTRUCTIONS_CAP: usize = 32 * 1024;

/// The names, the first one found in a directory wins.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Reads the nearest instructions from the working directory up to the
/// repository root, and then the user's. Each with its path; a text that is
/// too long is cut and says so, one that cannot be read says why.
#[must_use]
pub fn instructions(
    cwd: &Path,
    repo_root: Option<&Path>,
    environment: &Environment,
    sources: Sources,
) -> Vec<(PathBuf, String)> {
    let directories = up_to_root(cwd, repo_root);
    let project = directories.iter().find_map(|directory| file_in(directory)).map(|path| {
        let root = directories.last().expect("the working directory is one of them");
        let text = if lies_in(&path, root) {
            text_of(&path)
        } else {
            "(not read: it is a link that leads out of the project)".to_owned()
        };
        (path, text)
    });
    let user = config_directory(environment)
        .and_then(|directory| file_in(&directory))
        .map(|path| (path.clone(), text_of(&path)));
    let project = project.filter(|_| sources.project);
    project.into_iter().chain(user.filter(|_| sources.user)).collect()
}

fn file_in(directory: &Path) -> Option<PathBuf> {
    // Files only: a pipe of that name would never end.
    NAMES.iter().map(|name| directory.join(name)).find(|path| path.is_file())
}

fn lies_in(path: &Path, root: &Path) -> bool {
    match (path.canonicalize(), root.canonicalize()) {
        (Ok(path), Ok(root)) => path.starts_with(root),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

fn text_of(path: &Path) -> String {
    read(path).unwrap_or_else(|error| format!("(not read: {error})"))
}

fn read(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(INSTRUCTIONS_CAP as u64).read_to_end(&mut bytes)?;
    // The cap may have cut through a character; no length means just that.
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    let dropped = length.saturating_sub(bytes.len() as u64);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if dropped > 0 {
        write!(text, "\n\n(cut: the file has {dropped} more bytes)")
            .expect("a string takes every write");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A home with a repository `repo` in it and a directory `repo/sub`.
    struct Place {
        root: tempfile::TempDir,
    }

    impl Place {
        fn new(files: &[(&str, &str)]) -> Self {
            let root = tempfile::tempdir().unwrap();
            for directory in ["repo/sub", ".config/tine"] {
                fs::create_dir_all(root.path().join(directory)).unwrap();
            }
            for (path, text) in files {
                fs::write(root.path().join(path), text).unwrap();
            }
            Self { root }
        }

        #[track_caller]
        fn check(&self, expected: &[(&str, &str)]) {
            let home = self.root.path();
            let environment = Environment::from_variables([("HOME", home)]);
            let repo = home.join("repo");
            let cwd = repo.join("sub");
            let found = |sources| instructions(&cwd, Some(&repo), &environment, sources);
            assert_eq!(found(Sources::NONE), []);
            let found = found(Sources::default());
            let expected: Vec<_> =
                expected.iter().map(|&(path, text)| (home.join(path), text.to_owned())).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn the_nearest_file_comes_first_and_then_the_users() {
        let user = (".config/tine/AGENTS.md", "of the user");
        let (far, near) = (("repo/AGENTS.md", "far"), ("repo/sub/AGENTS.md", "near"));
        Place::new(&[]).check(&[]);
        Place::new(&[user]).check(&[user]);
        Place::new(&[far, user]).check(&[far, user]);
        Place::new(&[near, far, user]).check(&[near, user]);
        Place::new(&[("AGENTS.md", "above the repository")]).check(&[]);
    }

    #[test]
    fn the_other_name_counts_where_the_first_is_missing() {
        let (agents, claude) = (("repo/AGENTS.md", "a"), ("repo/CLAUDE.md", "c"));
        Place::new(&[agents, claude]).check(&[agents]);
        Place::new(&[claude]).check(&[claude]);
        let near = ("repo/sub/CLAUDE.md", "near");
        Place::new(&[agents, near]).check(&[near]);
    }

    #[test]
    fn a_long_file_is_cut_at_a_whole_character_and_says_so() {
        let text = format!("x{}", "é".repeat(INSTRUCTIONS_CAP));
        let kept = format!("x{}", "é".repeat(INSTRUCTIONS_CAP / 2 - 1));
        let dropped = text.len() - kept.len();
        let note = format!("{kept}\n\n(cut: the file has {dropped} more bytes)");
        Place::new(&[("repo/AGENTS.md", &text)]).check(&[("repo/AGENTS.md", &note)]);
    }

    #[test]
    fn a_link_is_followed_within_the_project_and_not_out_of_it() {
        let place = Place::new(&[("repo/CLAUDE.md", "c"), ("secret", "s")]);
        let link = place.root.path().join("repo/sub/AGENTS.md");
        symlink("../CLAUDE.md", &link).unwrap();
        place.check(&[("repo/sub/AGENTS.md", "c")]);
        fs::remove_file(&link).unwrap();
        symlink(place.root.path().join("secret"), &link).unwrap();
        let note = "(not read: it is a link that leads out of the project)";
        place.check(&[("repo/sub/AGENTS.md", note)]);
    }
}
