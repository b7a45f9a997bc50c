//! The instructions that people write for agents: `AGENTS.md`.
//!
//! Every directory from the repository's root down to the working directory may
//! have a file, and each file may import others (`imports`). The text goes to
//! the model as it is. A repository's file is read only if its real path is in the
//! repository: a link must not send a private file to a provider.

mod imports;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::dirs::{config_directory, up_to_root};
use super::{Environment, Sources};

/// Maximum bytes of one file that reach the model, about 8,000 tokens. Every
/// request of every unit carries them.
pub const INSTRUCTIONS_CAP: usize = 32 * 1024;

/// Maximum bytes of all files together, about 24,000 tokens.
pub const ALL_INSTRUCTIONS_CAP: usize = 96 * 1024;

/// The names, the first one found in a directory wins.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Decides whether a file that a text imports may be read; the error says why not.
pub type MayRead<'a> = &'a dyn Fn(&Path) -> Result<(), String>;

/// Reads the user's instructions, then those of every directory from the
/// repository root down to the working directory: the nearest come last. What
/// a file imports comes before it.
///
/// A text that is too long is cut, with a note. A note replaces a text that cannot
/// be read. If all of them together exceed [`ALL_INSTRUCTIONS_CAP`], notes replace
/// the farthest.
#[must_use]
pub fn instructions(
    (cwd, repo_root): (&Path, Option<&Path>),
    environment: &Environment,
    sources: Sources,
    may_read: MayRead<'_>,
) -> Vec<(PathBuf, String)> {
    let directories = up_to_root(cwd, repo_root);
    let root = directories.last().expect("the working directory is one of them");
    let mut files = InstructionFiles {
        home: environment.home.as_deref(),
        bounds: None,
        may_read,
        seen: BTreeSet::new(),
        texts: Vec::new(),
    };
    if sources.user
        && let Some(path) = config_directory(environment).and_then(|at| file_in(&at))
    {
        files.add(&path, 0);
    }
    let users = files.texts.len();
    files.bounds = Some(root);
    if sources.project {
        let paths = directories.iter().rev().filter_map(|directory| file_in(directory));
        paths.for_each(|path| files.add(&path, 0));
    }
    let mut texts = files.texts;
    leave_out_farthest(&mut texts, users);
    texts
}

/// Instruction files, in the order in which the model reads them.
struct InstructionFiles<'a> {
    home: Option<&'a Path>,
    /// The directory that no file may lie outside of.
    bounds: Option<&'a Path>,
    may_read: MayRead<'a>,
    /// The real paths of all files, so that none is read twice.
    seen: BTreeSet<PathBuf>,
    texts: Vec<(PathBuf, String)>,
}

impl InstructionFiles<'_> {
    /// Adds a file and, before it, what it imports.
    fn add(&mut self, path: &Path, depth: usize) {
        if let Ok(real) = path.canonicalize()
            && !self.seen.insert(real)
        {
            return;
        }
        if self.bounds.is_some_and(|root| !lies_in(path, root)) {
            let text = "(not read: it is a link to a file outside the project)";
            self.texts.push((path.to_owned(), text.to_owned()));
            return;
        }
        let mut text = text_of(path);
        let notes = self.add_imports(path, &text, depth);
        for note in notes {
            write!(text, "\n\n{note}").expect("a string takes every write");
        }
        self.texts.push((path.to_owned(), text));
    }
}

/// Leaves out the texts that exceed the limit. The user's texts and then the nearest
/// ones keep their places.
fn leave_out_farthest(texts: &mut [(PathBuf, String)], users: usize) {
    let mut room = ALL_INSTRUCTIONS_CAP;
    for index in (0..users).chain((users..texts.len()).rev()) {
        let text = &mut texts[index].1;
        match room.checked_sub(text.len()) {
            Some(rest) => room = rest,
            None => {
                *text = format!(
                    "(left out: the instructions exceed {ALL_INSTRUCTIONS_CAP} bytes in total)"
                );
            }
        }
    }
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
    let text = String::from_utf8_lossy(&bytes);
    // Some editors begin a file with a byte order mark.
    let mut text = text.trim_start_matches('\u{feff}').to_owned();
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
                let path = root.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self { root }
        }

        #[track_caller]
        fn check(&self, expected: &[(&str, &str)]) {
            let home = self.root.path();
            let environment = Environment::from_variables([("HOME", home)]);
            let repo = home.join("repo");
            let cwd = repo.join("sub");
            let found = |sources| {
                instructions((&cwd, Some(&repo)), &environment, sources, &|path| match path
                    .file_name()
                    .is_some_and(|name| name == "secret")
                {
                    true => Err("a rule denies it".to_owned()),
                    false => Ok(()),
                })
            };
            assert_eq!(found(Sources::NONE), []);
            let found = found(Sources::default());
            let expected: Vec<_> =
                expected.iter().map(|&(path, text)| (home.join(path), text.to_owned())).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn the_users_file_comes_first_and_the_nearest_of_the_project_last() {
        let user = (".config/tine/AGENTS.md", "of the user");
        let (far, near) = (("repo/AGENTS.md", "far"), ("repo/sub/AGENTS.md", "near"));
        Place::new(&[]).check(&[]);
        Place::new(&[user]).check(&[user]);
        Place::new(&[far, user]).check(&[user, far]);
        Place::new(&[near, far, user]).check(&[user, far, near]);
        Place::new(&[("AGENTS.md", "above the repository")]).check(&[]);
        Place::new(&[("repo/AGENTS.md", "\u{feff}marked")]).check(&[("repo/AGENTS.md", "marked")]);
    }

    #[test]
    fn the_farthest_files_are_left_out_where_all_are_too_long() {
        let long = "x".repeat(INSTRUCTIONS_CAP);
        let user = (".config/tine/AGENTS.md", &*long);
        let (far, near) =
            (("repo/AGENTS.md", &*long), ("repo/sub/AGENTS.md", "@more.md\n@last.md"));
        let (more, last) = (("repo/sub/more.md", &*long), ("repo/sub/last.md", "of little"));
        let note = "(left out: the instructions exceed 98304 bytes in total)";
        Place::new(&[user, far, near, more, last]).check(&[user, (far.0, note), more, last, near]);
    }

    #[test]
    fn the_other_name_counts_where_the_first_is_missing() {
        let (agents, claude) = (("repo/AGENTS.md", "a"), ("repo/CLAUDE.md", "c"));
        Place::new(&[agents, claude]).check(&[agents]);
        Place::new(&[claude]).check(&[claude]);
        let near = ("repo/sub/CLAUDE.md", "near");
        Place::new(&[agents, near]).check(&[agents, near]);
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
        let place = Place::new(&[("repo/docs.md", "c"), ("secret", "s")]);
        let link = place.root.path().join("repo/sub/AGENTS.md");
        symlink("../docs.md", &link).unwrap();
        place.check(&[("repo/sub/AGENTS.md", "c")]);
        fs::remove_file(&link).unwrap();
        symlink(place.root.path().join("secret"), &link).unwrap();
        let note = "(not read: it is a link to a file outside the project)";
        place.check(&[("repo/sub/AGENTS.md", note)]);
    }

    #[test]
    fn what_a_file_imports_comes_before_it_once_and_round_in_circles_ends() {
        let main = ("repo/CLAUDE.md", "See @docs/a.md, @docs/b.md and @AGENT.md.");
        let a = ("repo/docs/a.md", "a\n@b.md\n@../CLAUDE.md");
        let b = ("repo/docs/b.md", "b\n@a.md");
        let other = ("repo/AGENT.md", "other");
        Place::new(&[main, a, b, other]).check(&[b, a, other, main]);
    }

    #[test]
    fn what_is_not_imported_is_told_in_the_file_that_names_it() {
        let text =
            "@gone.md\n@../secret\n@~/secret\n@sub/secret\n@.git/config\n@types/node\n@sub\n@data";
        let place = Place::new(&[
            ("secret", "s"),
            ("repo/sub/secret", "s"),
            ("repo/.git/config", "token"),
            ("repo/data", "\0\u{1}"),
            ("repo/CLAUDE.md", text),
        ]);
        let notes = [
            "(not imported: `@gone.md`: there is no such file)",
            "(not imported: `@../secret`: it is outside the project)",
            "(not imported: `@~/secret`: it is outside the project)",
            "(not imported: `@sub/secret`: a rule denies it)",
            "(not imported: `@.git/config`: it is in a `.git` directory)",
            "(not imported: `@data`: it is not text)",
        ];
        place.check(&[("repo/CLAUDE.md", &format!("{text}\n\n{}", notes.join("\n\n")))]);
    }

    #[test]
    fn imports_go_five_files_deep_and_the_users_own_may_be_anywhere() {
        let names: Vec<String> = (0..7).map(|number| format!("repo/{number}.md")).collect();
        let texts: Vec<String> = (1..8).map(|number| format!("@{number}.md")).collect();
        let mut files: Vec<(&str, &str)> =
            names.iter().zip(&texts).map(|(name, text)| (&**name, &**text)).collect();
        files.push(("repo/AGENTS.md", "@0.md"));
        let note = "@5.md\n\n(not imported: `@5.md`: imports are nested more than 5 deep)";
        let expected = [
            (files[4].0, note),
            files[3],
            files[2],
            files[1],
            files[0],
            ("repo/AGENTS.md", "@0.md"),
        ];
        Place::new(&files).check(&expected);
        let own = (".config/tine/AGENTS.md", "@~/notes.md");
        let notes = ("notes.md", "mine");
        Place::new(&[own, notes]).check(&[notes, own]);
    }
}
