//! The files of a repository that a hook's command names: what would run, as
//! far as that can be told from its words.

use std::path::{Component, Path, PathBuf};

use crate::real_path;

/// The ways to write the project's directory in a command.
const PROJECT: [&str; 6] = [
    "$CLAUDE_PROJECT_DIR/",
    "${CLAUDE_PROJECT_DIR}/",
    "$TINE_PROJECT_DIR/",
    "${TINE_PROJECT_DIR}/",
    "$QWEN_PROJECT_DIR/",
    "${QWEN_PROJECT_DIR}/",
];

/// Programs that run what a file of the project says, and which: not a word of
/// the command tells.
const RUNNERS: [&str; 47] = [
    "ant",
    "bazel",
    "bun",
    "bundle",
    "cargo",
    "cmake",
    "composer",
    "deno",
    "docker",
    "dotnet",
    "eslint",
    "find",
    "git",
    "gmake",
    "go",
    "gradle",
    "gradlew",
    "invoke",
    "jest",
    "just",
    "make",
    "meson",
    "mix",
    "mvn",
    "mvnw",
    "ninja",
    "nox",
    "npm",
    "npx",
    "parallel",
    "pip",
    "pipenv",
    "pnpm",
    "poetry",
    "pre-commit",
    "pytest",
    "rake",
    "rspec",
    "sbt",
    "task",
    "tox",
    "tsx",
    "uv",
    "uvx",
    "vitest",
    "xargs",
    "yarn",
];

/// Words of a shell after which names mean something else, or words are put
/// together.
const SHIFTS: [&str; 5] = ["cd", "pushd", "popd", "eval", "alias"];

/// Tells whether each file that a command runs by itself is among those that it
/// names, as far as its words tell. What those run in turn is another matter.
#[must_use]
pub fn names_its_files(command: &str) -> bool {
    let plain = PROJECT.iter().fold(command.to_owned(), |text, name| {
        // With the quotes that may be around it.
        text.replace(&name.replace('/', "\"/"), "").replace(name, "")
    });
    let is_put_together = plain.contains(['$', '`', '*', '?', '[', '{', '\\', '~']);
    let is_elsewhere = Path::new(&plain).components().any(|part| part == Component::ParentDir)
        || plain.contains("../");
    let mut words = plain.split(ends_word);
    let shifts = words.any(|word| {
        let name = word.rsplit('/').next().unwrap_or_default();
        // `-C` goes elsewhere, `-m` names a module.
        RUNNERS.contains(&name) || SHIFTS.contains(&word) || matches!(name, "-C" | "-m")
    });
    !is_put_together && !is_elsewhere && !shifts
}

/// Tells whether a command names the project's directory.
pub(super) fn names_project(command: &str, root: &Path) -> bool {
    let variables = PROJECT.iter().map(|name| name.trim_end_matches('/'));
    variables.chain(root.to_str()).any(|name| command.contains(name))
}

fn ends_word(c: char) -> bool {
    c.is_whitespace() || "\"'`;|&<>()=".contains(c)
}

/// Returns the paths below the project that a command's words may mean, in
/// order and each once. Not each of them need be there.
#[must_use]
pub fn files_named(command: &str, root: &Path) -> Vec<PathBuf> {
    // Quotes around the project's directory alone would tear a path in two.
    let whole = command.replace(['"', '\''], "");
    // What is between quotes, or an argument, may be a path with spaces.
    let quoted = command.split(['"', '\'']).chain([&*whole]);
    let words = command.split(ends_word).chain(whole.split(ends_word)).chain(quoted);
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let mut files: Vec<PathBuf> = Vec::new();
    for word in &words {
        let word = PROJECT.iter().find_map(|prefix| word.strip_prefix(prefix)).unwrap_or(word);
        let path = Path::new(word);
        let path = path.strip_prefix(root).unwrap_or(path);
        let path = path.strip_prefix(".").unwrap_or(path);
        let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
        if is_below && !path.as_os_str().is_empty() && !files.iter().any(|file| file == path) {
            files.push(path.to_owned());
        }
    }
    // A way to the project that we do not know: `~/work/x`, `$(…)/x`.
    let ends = words.iter().flat_map(|word| {
        word.match_indices('/').map(|(index, slash)| Path::new(&word[index + slash.len()..]))
    });
    for end in ends {
        let is_below = end.components().all(|part| matches!(part, Component::Normal(_)));
        if is_below && root.join(end).is_file() && !files.iter().any(|file| file == end) {
            files.push(end.to_owned());
        }
    }
    files
}

/// Returns the paths below `project` that words with `..` lead to from `base`.
pub(super) fn files_above(command: &str, base: &Path, project: &Path) -> Vec<PathBuf> {
    let goes_up = |word: &&str| word.contains("..");
    let lead = |word: &str| {
        let real = real_path::locate(&base.join(word)).ok()?;
        real.strip_prefix(project).ok().map(Path::to_owned)
    };
    let words = command.split(ends_word).chain([command]);
    words.filter(goes_up).filter_map(lead).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_may_be_files_of_the_project_are_found() {
        let named = |command: &str| files_named(command, Path::new("/w"));
        for (command, expected) in [
            ("./check.sh --fast", vec!["check.sh", "--fast"]),
            (
                "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/a.sh",
                vec![".claude/hooks/a.sh", "$CLAUDE_PROJECT_DIR"],
            ),
            ("python3 \"${CLAUDE_PROJECT_DIR}/a b.py\"", vec!["python3", "a", "b.py", "a b.py"]),
            ("sh 'a b.sh' c", vec!["a b.sh", "c"]),
            ("/w/x.sh; ../out.sh; /etc/x", vec!["x.sh"]),
        ] {
            let found = named(command);
            for path in expected {
                assert!(found.contains(&PathBuf::from(path)), "{command}: {found:?}");
            }
            let is_below =
                |path: &PathBuf| path.components().all(|it| matches!(it, Component::Normal(_)));
            assert!(found.iter().all(is_below), "{command}: {found:?}");
        }
    }
}
