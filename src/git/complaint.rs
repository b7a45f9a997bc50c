//! Errors of git: its words on one line, and the way out.
//!
//! Git puts the cause into one line and its advice into the following ones.
//! Both are kept here, since the advice often holds the exact command. The
//! repository chooses some of these words, so their length is bounded.

use std::path::{Path, PathBuf};

use super::GitError;

/// Maximum number of lines that are kept. Usage texts are longer, and useless
/// to a user who did not type the command.
const LINES_CAP: usize = 12;

/// Maximum number of characters that are kept.
const WORDS_CAP: usize = 900;

/// Words of git, and what a person can do about them. The first match counts.
const ADVICE: [(&[&str], &str); 11] = [
    (
        &["index uses", "bad index version"],
        "this git is older than the one that wrote the index: install a newer git",
    ),
    (
        &["index file corrupt", "index file smaller than", "bad index file", "bad signature"],
        "`mv .git/index .git/index.bad && git reset` makes a new index and changes no file",
    ),
    (
        &["unknown repository extension", "Expected git repo version", "unknown extension"],
        "this git does not know the repository's format: install a newer git",
    ),
    (&["bad config", "bad numeric config", "bad boolean config"], "fix that configuration"),
    (
        &["not a git repository: ", "invalid gitfile format", "invalid gitfile"],
        "its `.git` file points to no repository: if the repository was moved, `git worktree \
         repair` in it repairs its worktrees; a submodule needs `git submodule update --init`",
    ),
    (
        &["promisor", "lazy fetching disabled", "NO_LAZY_FETCH"],
        "this is a partial clone, and tine does not fetch: `git fetch --refetch --no-filter` \
         gets all objects",
    ),
    (
        &["No space left", "Disk quota exceeded", "file too large"],
        "free some space on that disk and try again",
    ),
    (&["alternate object path"], "`.git/objects/info/alternates` names a directory that is gone"),
    (
        &["is corrupt", "bad object", "invalid object", "unable to read", "missing blob"],
        "objects of the repository are damaged or missing: `git fsck --full` names them, and \
         `git fetch` or a fresh clone restores them",
    ),
    (
        &["Permission denied", "insufficient permission", "Operation not permitted"],
        "give your user access to it (`ls -l` shows the owner), or run tine as its owner",
    ),
    (
        &["it did not end within"],
        "run `git status` there: a slow disk or an unreachable file system can block git",
    ),
];

/// Returns what git wrote to standard error as one line, the cause first.
///
/// Warnings are left out. An empty text means that git said nothing else.
pub(super) fn words(complaint: &str) -> String {
    let lines: Vec<&str> = complaint
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("warning:"))
        .take(LINES_CAP)
        .collect();
    // Of several errors the fatal one names what was tried, the others the cause.
    let first = lines.iter().position(|line| line.starts_with("fatal: ")).unwrap_or(0);
    let (before, from_first) = lines.split_at(first.min(lines.len()));
    let mut words = String::new();
    let mut seen: Vec<&str> = Vec::new();
    for line in from_first.iter().chain(before) {
        if seen.contains(line) {
            continue;
        }
        seen.push(line);
        let marks = ["fatal: ", "error: "];
        let said = marks.iter().find_map(|mark| line.strip_prefix(mark));
        // A line that continues a sentence, or begins one after the end of another.
        let continues = said.is_none()
            && (words.ends_with(['.', ':', ',', ';', '!', '?'])
                || line.starts_with(char::is_lowercase));
        if !words.is_empty() {
            words.push_str(if continues { " " } else { "; " });
        }
        let said = said.unwrap_or(line);
        words.push_str(said.strip_prefix("hint: ").unwrap_or(said));
    }
    match words.char_indices().nth(WORDS_CAP) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

/// Says that `path` has no working tree, if that is what an error of git means.
pub(super) fn no_tree(path: &Path, error: GitError) -> GitError {
    let GitError::Failed { message } = &error else { return error };
    let path = path.to_owned();
    if message.contains("must be run in a work tree") {
        GitError::NoWorkingTree { path }
    } else if message.contains("not a git repository (or any") {
        match damaged(&path) {
            Some(git) => GitError::Damaged { path: git },
            None => GitError::NotARepository { path },
        }
    } else {
        error
    }
}

/// Returns the `.git` of a directory or its ancestors. Git ignores one whose `HEAD`
/// is damaged, and reports that there is no repository.
fn damaged(directory: &Path) -> Option<PathBuf> {
    let found = directory.ancestors().map(|above| above.join(".git"));
    found.into_iter().find(|git| git.join("HEAD").symlink_metadata().is_ok())
}

/// Returns what the user can do about an error of git; `None` if git's message
/// already says it or no remedy is known.
pub(super) fn way_out(message: &str) -> Option<String> {
    let has = |any: &[&str]| any.iter().any(|words| message.contains(words));
    if has(&["dubious ownership", "is owned by someone else", "unsafe repository"]) {
        let directory = text_after(message, "safe.directory ").or_else(|| quoted(message));
        let directory = directory.unwrap_or("DIR");
        return Some(format!(
            "`git config --global --add safe.directory {directory}` if you trust its owner; or \
             run tine as its owner"
        ));
    }
    if has(&["safe.bareRepository"]) {
        return Some("run it in a checkout: `git worktree add ../DIR` makes one".to_owned());
    }
    if message.contains(".lock'") {
        let file = quoted(message).unwrap_or("the file");
        return Some(match message.contains("Permission denied") {
            true => format!("let your user write to the directory of `{file}`"),
            false => format!("if no other git is running here, `rm {file}`"),
        });
    }
    let found = ADVICE.iter().find(|(words, _)| has(words));
    found.map(|(_, advice)| (*advice).to_owned())
}

fn text_after<'a>(message: &'a str, mark: &str) -> Option<&'a str> {
    let rest = message.split_once(mark)?.1;
    // The command ends git's text; a newer git may add a sentence.
    let end = rest.find("; ").unwrap_or(rest.len());
    Some(rest[..end].trim()).filter(|rest| !rest.is_empty())
}

/// Returns the first text in single quotes.
fn quoted(message: &str) -> Option<&str> {
    let rest = message.split_once('\'')?.1;
    Some(rest.split_once('\'')?.0).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUBIOUS: &str = "fatal: detected dubious ownership in repository at '/a b'\nTo add an \
                           exception for this directory, call:\n\n\tgit config --global --add \
                           safe.directory '/a b'\n";

    const LOCKED: &str = "fatal: Unable to create '/r/.git/index.lock': File exists.\n\nAnother \
                          git process seems to be running in this repository, e.g.\nan editor \
                          opened by 'git commit'.\nremove the file manually to continue.\n";

    #[test]
    fn git_keeps_its_advice_and_its_cause_comes_first() {
        assert_eq!(
            words(DUBIOUS),
            "detected dubious ownership in repository at '/a b'; To add an exception for this \
             directory, call: git config --global --add safe.directory '/a b'"
        );
        assert_eq!(
            words(
                "warning: x\nerror: bad signature 0x0\nerror: bad signature 0x0\nfatal: index file corrupt\n"
            ),
            "index file corrupt; bad signature 0x0"
        );
        assert_eq!(
            words("fatal: unknown repository extension found:\n\tfrob\n"),
            "unknown repository extension found: frob"
        );
        assert!(words(LOCKED).ends_with("remove the file manually to continue."));
        assert_eq!((words(""), words("warning: x\n")), (String::new(), String::new()));
        assert_eq!(words(&"x ".repeat(2_000)).chars().count(), WORDS_CAP + 1);
    }

    #[test]
    fn every_known_error_of_git_names_a_way_out() {
        for (complaint, expected) in [
            (DUBIOUS, "`git config --global --add safe.directory '/a b'` if you trust its owner"),
            (
                "fatal: unsafe repository ('/r' is owned by someone else)",
                "`git config --global --add safe.directory /r` if you trust",
            ),
            (LOCKED, "if no other git is running here, `rm /r/.git/index.lock`"),
            (
                "fatal: Unable to create '/r/.git/index.lock': Permission denied",
                "let your user write to the directory of `/r/.git/index.lock`",
            ),
            ("fatal: .git/index: index file smaller than expected", "git reset`"),
            ("error: bad signature 0x0\nfatal: index file corrupt", "git reset`"),
            ("error: bad index version 9\nfatal: index file corrupt", "install a newer git"),
            ("fatal: index uses link extension, which we do not understand", "a newer git"),
            ("fatal: unknown repository extension found:\n\tfrob", "install a newer git"),
            ("fatal: Expected git repo version <= 1, found 7", "install a newer git"),
            ("fatal: bad config line 6 in file .git/config", "fix that configuration"),
            ("fatal: not a git repository: /gone/.git/worktrees/w", "`git worktree repair`"),
            ("fatal: invalid gitfile format: /r/.git", "`git worktree repair`"),
            (
                "fatal: cannot use bare repository '/r' (safe.bareRepository is 'explicit')",
                "`git worktree add",
            ),
            (
                "fatal: could not fetch abc from promisor remote",
                "`git fetch --refetch --no-filter`",
            ),
            ("error: file write error: No space left on device", "free some space"),
            ("fatal: loose object ab (stored in x) is corrupt", "`git fsck --full`"),
            ("fatal: bad object HEAD", "`git fsck --full`"),
            ("error: unable to normalize alternate object path: /gone", "alternates"),
            ("fatal: .git/index: index file open failed: Permission denied", "`ls -l`"),
            (
                "error: insufficient permission for adding an object to repository database",
                "run tine as its owner",
            ),
        ] {
            let told = way_out(&words(complaint));
            let told = told.unwrap_or_else(|| panic!("no advice for: {complaint}"));
            assert!(told.contains(expected), "{complaint}: {told}");
        }
        assert_eq!(way_out("what nobody knows"), None);
    }

    #[test]
    fn a_repository_with_a_damaged_head_is_not_said_to_be_no_repository() {
        let place = tempfile::tempdir().unwrap();
        let failed = || GitError::Failed {
            message: "not a git repository (or any of the parent directories): .git".to_owned(),
        };
        let below = place.path().join("work/sub");
        std::fs::create_dir_all(&below).unwrap();
        let told = no_tree(&below, failed());
        assert!(matches!(told, GitError::NotARepository { .. }), "{told}");
        let git = place.path().join("work/.git");
        std::fs::create_dir(&git).unwrap();
        std::fs::write(git.join("HEAD"), "junk").unwrap();
        assert_eq!(no_tree(&below, failed()), GitError::Damaged { path: git });
        // A worktree whose repository was moved.
        let moved = "not a git repository: /gone/.git/worktrees/w".to_owned();
        let told = no_tree(&below, GitError::Failed { message: moved.clone() });
        assert_eq!(told, GitError::Failed { message: moved });
    }
}
