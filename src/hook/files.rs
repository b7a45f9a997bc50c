//! The files of a repository that a hook's command names: what would run.

use std::path::{Component, Path, PathBuf};

/// The ways to write the project's directory in a command.
const PROJECT: [&str; 6] = [
    "$CLAUDE_PROJECT_DIR/",
    "${CLAUDE_PROJECT_DIR}/",
    "$TINE_PROJECT_DIR/",
    "${TINE_PROJECT_DIR}/",
    "$QWEN_PROJECT_DIR/",
    "${QWEN_PROJECT_DIR}/",
];

/// Returns the paths below the project that a command's words may mean, in
/// order and each once. Not each of them need be there.
#[must_use]
pub fn files_named(command: &str, root: &Path) -> Vec<PathBuf> {
    let ends_word = |c: char| c.is_whitespace() || "\"'`;|&<>()=".contains(c);
    // Quotes around the project's directory alone would tear a path in two.
    let whole = command.replace(['"', '\''], "");
    let words = command.split(ends_word).chain(whole.split(ends_word));
    let mut files: Vec<PathBuf> = Vec::new();
    for word in words.filter(|word| !word.is_empty()) {
        let word = PROJECT.iter().find_map(|prefix| word.strip_prefix(prefix)).unwrap_or(word);
        let path = Path::new(word);
        let path = path.strip_prefix(root).unwrap_or(path);
        let path = path.strip_prefix(".").unwrap_or(path);
        let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
        if is_below && !path.as_os_str().is_empty() && !files.iter().any(|file| file == path) {
            files.push(path.to_owned());
        }
    }
    files
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
            ("python3 \"${CLAUDE_PROJECT_DIR}/a b.py\"", vec!["python3", "a", "b.py"]),
            ("/w/x.sh; ../out.sh; /etc/x", vec!["x.sh"]),
        ] {
            let found = named(command);
            let found: Vec<_> = found.iter().map(|path| path.to_str().unwrap()).collect();
            for path in expected {
                assert!(found.contains(&path), "{command}: {found:?}");
            }
            assert!(!found.iter().any(|path| path.starts_with('/') || path.contains("..")));
        }
    }
}
