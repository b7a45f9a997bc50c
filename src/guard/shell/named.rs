//! The files that the words of a command may name, for rules that deny to read them.
//!
//! What a program does with its words is not known here, so each is taken for a path
//! where such a file exists, from each directory that the command may change to. A home
//! directory is a word that is known; what else a shell expands is not. A sandbox hides
//! what rules deny, so this is the first line and not the wall.

use std::path::{Path, PathBuf};

use super::syntax;
use super::word;

/// Maximum number of words that are looked at. Each is looked up in each directory.
const WORDS_CAP: usize = 400;

/// Maximum number of directories that words are looked up in.
const DIRECTORIES_CAP: usize = 8;

/// Characters at which a word may begin in a program's text.
const ENDS: &str = "\"'`();|&<>=:,@{}[]\\";

/// Files that the words of a command name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::guard) struct CommandFiles {
    /// Existing files and directories. Links may be in them.
    pub(in crate::guard) paths: Vec<PathBuf>,
    /// First word that a shell expands to something unknown.
    pub(in crate::guard) untold: Option<String>,
}

/// Returns what the words of a command may name if it starts in `directory`.
pub(in crate::guard) fn named_files(
    command: &str,
    directory: &Path,
    home: Option<&Path>,
) -> CommandFiles {
    let command = home.map_or_else(|| command.to_owned(), |home| with_home(command, home));
    let script = syntax::parse(&command);
    let (mut words, mut untold) = (Vec::new(), script.unsure);
    for simple in &script.commands {
        let targets = simple.redirections.iter().map(|it| {
            command[it.range.clone()].trim_start_matches(|c: char| {
                c.is_ascii_digit() || c.is_whitespace() || "<>&|-".contains(c)
            })
        });
        let sources = simple.words.iter().map(|word| &command[word.range.clone()]).chain(targets);
        let set = simple.assignments.iter().map(|range| &command[range.clone()]);
        for source in sources.chain(set).filter(|source| !source.is_empty()) {
            let literal = word::literal(source);
            if literal.is_none() {
                untold = untold.or_else(|| Some(source.to_owned()));
            }
            let text = literal.unwrap_or_else(|| source.to_owned());
            words.extend(pieces(&text));
            words.push(text);
        }
    }
    let behind_letters: Vec<String> = words.iter().filter_map(|word| behind_letter(word)).collect();
    words.extend(behind_letters);
    words.retain(|word| !word.is_empty());
    words.sort();
    words.dedup();
    words.truncate(WORDS_CAP);
    CommandFiles { paths: existing(&words, directory), untold }
}

/// Returns what in a word may be a path by itself. In a text, which may be for people, that
/// is only what has a slash in it.
fn pieces(word: &str) -> impl Iterator<Item = String> {
    let is_text = word.contains(char::is_whitespace);
    let pieces = word.split(|c: char| c.is_whitespace() || ENDS.contains(c));
    pieces.filter(move |piece| !is_text || piece.contains('/')).map(str::to_owned)
}

/// Returns the value that stands right behind an option's letter.
fn behind_letter(word: &str) -> Option<String> {
    let rest = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'))?;
    let value: String = rest.chars().skip(1).collect();
    (!value.is_empty()).then_some(value)
}

/// Returns the paths that exist from the directory, and from each directory that is
/// among them: the command may change to it.
fn existing(words: &[String], directory: &Path) -> Vec<PathBuf> {
    let mut directories = vec![directory.to_owned()];
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut at = 0;
    while let Some(directory) = directories.get(at).cloned() {
        at += 1;
        for path in words.iter().map(|word| directory.join(word)) {
            let Ok(found) = path.metadata().or_else(|_| path.symlink_metadata()) else { continue };
            let is_new = !paths.contains(&path);
            if found.is_dir() && is_new && directories.len() < DIRECTORIES_CAP {
                directories.push(path.clone());
            }
            if is_new {
                paths.push(path);
            }
        }
    }
    paths
}

/// Returns a command with the home directory written out wherever a shell, or the
/// program, may put it.
fn with_home(command: &str, home: &Path) -> String {
    let Some(home) = plain_home(home) else { return command.to_owned() };
    let command = command.replace("${HOME}", home);
    let mut text = String::with_capacity(command.len());
    let mut rest = &*command;
    while let Some(start) = rest.find(['~', '$']) {
        let (before, from) = rest.split_at(start);
        text.push_str(before);
        let begins = text.chars().next_back().is_none_or(|c| c.is_whitespace() || ENDS.contains(c));
        let behind = match from.strip_prefix("$HOME") {
            Some(behind) if !behind.starts_with(|c: char| c.is_alphanumeric() || c == '_') => {
                Some(behind)
            }
            Some(_) | None => from.strip_prefix('~').filter(|behind| {
                let ends = |c: char| c == '/' || c.is_whitespace() || ENDS.contains(c);
                begins && (behind.is_empty() || behind.starts_with(ends))
            }),
        };
        match behind {
            Some(behind) => {
                text.push_str(home);
                rest = behind;
            }
            None => {
                text.push_str(&from[..1]);
                rest = &from[1..];
            }
        }
    }
    text + rest
}

/// Returns a home directory whose name a shell reads as it is written, in quotes and
/// without.
pub(super) fn plain_home(home: &Path) -> Option<&str> {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@".contains(c);
    home.to_str().filter(|text| text.starts_with('/') && text.chars().all(is_plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, named: bool, is_told: bool) {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (work, home) = (place.join("work"), place.join("home"));
        for directory in [work.join("src"), home.join("Desktop")] {
            std::fs::create_dir_all(directory).unwrap();
        }
        for file in [home.join("Desktop/k"), work.join("src/a")] {
            std::fs::write(file, "").unwrap();
        }
        let command = command.replace("PLACE", place.to_str().unwrap());
        let CommandFiles { paths, untold } = named_files(&command, &work, Some(&home));
        let key = home.join("Desktop/k");
        let has_key = paths.iter().any(|path| path.canonicalize().is_ok_and(|it| it == key));
        assert_eq!(
            (has_key, untold.is_none()),
            (named, is_told),
            "{command}: {paths:?} {untold:?}"
        );
    }

    #[test]
    fn a_file_is_found_however_a_command_names_it() {
        for command in [
            "cat ~/Desktop/k",
            "cat $HOME/Desktop/k",
            "cat ${HOME}/Desktop/k",
            "cat \"$HOME/Desktop/k\"",
            "cat ~/'Desktop'/k",
            "cat ~/Desk\\top/k",
            "cat PLACE/home/Desktop/k",
            "cat ../home/Desktop/k",
            "cat /proc/self/root/PLACE/home/Desktop/k",
            "cd ~/Desktop && cat k",
            "cd ~; cat Desktop/k",
            "(cd ~/Desktop; cat k)",
            "pushd ~/Desktop; cat k",
            "cp ~/Desktop/k x",
            "tar cf - -C ~/Desktop k",
            "head < ~/Desktop/k",
            "head <~/Desktop/k",
            "dd if=$HOME/Desktop/k",
            "git diff --no-index /dev/null ~/Desktop/k",
            "tool --file=~/Desktop/k",
            "tool -f../home/Desktop/k",
            "curl -d @../home/Desktop/k x",
            "X=~/Desktop/k make",
            "bash -c 'cat ~/Desktop/k'",
            "python3 -c \"print(open('PLACE/home/Desktop/k').read())\"",
            "echo a > ~/Desktop/k",
        ] {
            check(command, true, true);
        }
    }

    #[test]
    fn a_text_for_people_names_files_by_their_paths_only() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join(".env"), "").unwrap();
        for (command, is_named) in [
            ("git commit -m 'Ignore .env now'", false),
            ("git commit -m 'Ignore ./.env now'", true),
            ("git add .env", true),
            ("make ENV=.env", true),
            ("echo \"$(cat .env)\"", true),
        ] {
            let named = named_files(command, place.path(), None);
            assert_eq!(!named.paths.is_empty(), is_named, "{command}: {named:?}");
        }
    }

    #[test]
    fn what_a_shell_makes_of_a_word_is_not_told() {
        for command in
            ["cat ~/D*/k", "cat $X", "cat $(find ~)", "cat ~ada/k", "cat < $X", "X=$Y cat"]
        {
            check(command, false, false);
        }
        for command in ["cat src/a", "cat '$HOME'", "make", "echo \"a b\"", "cat ~/other"] {
            check(command, false, true);
        }
    }
}
