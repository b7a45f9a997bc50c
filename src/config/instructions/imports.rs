//! Imports in instructions: `@path` in the text of a file.
//!
//! A path is relative to the file that names it, absolute, or begins with `~/`.
//! Words in code (spans and blocks) and in comments are not imports, and neither
//! is a word such as `@types/node` that names no file.

use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use super::{InstructionFiles, lies_in};

/// Maximum number of files between an instruction file and what it imports.
const DEPTH_CAP: usize = 5;

/// Maximum number of files that are read of a project or of the user. Each is a
/// section in every system prompt.
const FILES_CAP: usize = 100;

/// Extensions of files that a text certainly means to import: a missing one is
/// reported.
const TEXTS: [&str; 4] = [".md", ".mdc", ".markdown", ".txt"];

/// Marks that may follow a path without being part of it.
const PUNCTUATION: &[char] = &['.', ',', ';', ':', '!', '?', ')', ']', '}', '"', '\'', '*', '>'];

impl InstructionFiles<'_> {
    /// Adds the files that the text of `path` imports. Returns a note for each
    /// one that is not read.
    pub(super) fn add_imports(&mut self, path: &Path, text: &str, depth: usize) -> Vec<String> {
        let mut notes = Vec::new();
        for word in imports(text) {
            let Some((shown, found)) = self.find(path, &word) else { continue };
            let file = found.and_then(|file| {
                if depth >= DEPTH_CAP {
                    return Err(format!("imports are nested more than {DEPTH_CAP} deep"));
                }
                if self.texts.len() >= FILES_CAP {
                    return Err(format!("more than {FILES_CAP} files are imported"));
                }
                self.check(&file)?;
                Ok(file)
            });
            match file {
                Ok(file) => self.add(&file, depth + 1),
                Err(why) => notes.push(format!("(not imported: `@{shown}`: {why})")),
            }
        }
        notes
    }

    /// Finds the file that a word means; `None` if it is not an import.
    fn find(&self, from: &Path, word: &str) -> Option<(String, Result<PathBuf, String>)> {
        let trimmed = word.trim_end_matches(PUNCTUATION);
        let unanchored = trimmed.split('#').next().unwrap_or(trimmed);
        for written in [word, trimmed, unanchored] {
            let path = self.resolve(from, written)?;
            if path.is_file() {
                return Some((written.to_owned(), Ok(path)));
            }
        }
        let is_text = TEXTS.iter().any(|ending| unanchored.ends_with(ending));
        is_text.then(|| (unanchored.to_owned(), Err("there is no such file".to_owned())))
    }

    fn resolve(&self, from: &Path, written: &str) -> Option<PathBuf> {
        let written = written.replace("\\ ", " ");
        match written.strip_prefix("~/") {
            Some(below) => Some(self.home?.join(below)),
            None if written.is_empty() => None,
            None => Some(from.parent()?.join(written)),
        }
    }

    /// Says why a file must not be read.
    fn check(&self, path: &Path) -> Result<(), String> {
        if self.bounds.is_some_and(|root| !lies_in(path, root)) {
            return Err("it is outside the project".to_owned());
        }
        // It may name a remote with a password.
        let real = path.canonicalize().map_err(|error| error.to_string())?;
        if self.bounds.is_some()
            && real.components().any(|it| it == Component::Normal(".git".as_ref()))
        {
            return Err("it is in a `.git` directory".to_owned());
        }
        (self.may_read)(&real)?;
        match is_text(&real) {
            Ok(true) => Ok(()),
            Ok(false) => Err("it is not text".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Returns whether the head of a file has no NUL byte.
fn is_text(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    std::fs::File::open(path)?.take(4_096).read_to_end(&mut head)?;
    Ok(!head.contains(&0))
}

/// Returns the words of a Markdown text that follow an `@`, in order and each
/// once. Those in code and in comments are left out.
fn imports(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for prose in prose(text) {
        let prose = without_comments(&prose);
        for word in without_spans(&prose).split_at_imports() {
            if !words.contains(&word) {
                words.push(word);
            }
        }
    }
    words
}

/// Returns the runs of lines that are in no fenced code block.
fn prose(text: &str) -> Vec<String> {
    let mut runs = vec![String::new()];
    let mut fence: Option<(char, usize)> = None;
    for line in text.lines() {
        let marks = fence_of(line);
        match (fence, marks) {
            (None, Some((mark, length, _))) => {
                fence = Some((mark, length));
                runs.push(String::new());
            }
            (Some((open, least)), Some((mark, length, is_bare)))
                if mark == open && length >= least && is_bare =>
            {
                fence = None;
            }
            (Some(_), _) => {}
            (None, None) => {
                let run = runs.last_mut().expect("there is always one");
                run.push_str(line);
                run.push('\n');
            }
        }
    }
    runs
}

/// Returns the fence character of a line that opens or closes a code block, how
/// often it is repeated, and whether nothing follows it.
fn fence_of(line: &str) -> Option<(char, usize, bool)> {
    let line = line.trim_start_matches([' ', '>', '-', '*']);
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == mark).count();
    let rest = &line[length..];
    // One line may hold a whole span in three backticks.
    (length >= 3 && !(mark == '`' && rest.contains('`'))).then_some((
        mark,
        length,
        rest.trim().is_empty(),
    ))
}

fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        kept.push_str(before);
        match comment.split_once("-->") {
            Some((_, after)) => rest = after,
            None => return kept,
        }
    }
    kept.push_str(rest);
    kept
}

/// A text without its code spans.
struct SpanlessText(String);

/// Removes the code spans: the text between two runs of equally many backticks.
fn without_spans(text: &str) -> SpanlessText {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let run = rest[at..].chars().take_while(|c| *c == '`').count();
        kept.push_str(&rest[..at]);
        let inside = &rest[at + run..];
        match closing(inside, run) {
            Some(end) => {
                // Text precedes it, so no word begins here.
                kept.push('`');
                rest = &inside[end + run..];
            }
            None => {
                kept.push_str(&rest[at..at + run]);
                rest = inside;
            }
        }
    }
    kept.push_str(rest);
    SpanlessText(kept)
}

/// Returns where a run of exactly so many backticks begins, in the same paragraph.
fn closing(text: &str, run: usize) -> Option<usize> {
    let paragraph = text.find("\n\n").map_or(text, |end| &text[..end]);
    let mut at = 0;
    while let Some(found) = paragraph[at..].find('`') {
        let start = at + found;
        let length = paragraph[start..].chars().take_while(|c| *c == '`').count();
        if length == run {
            return Some(start);
        }
        at = start + length;
    }
    None
}

impl SpanlessText {
    /// Returns what follows each `@` that begins a word, up to the next space.
    fn split_at_imports(&self) -> Vec<String> {
        let Self(text) = self;
        let mut words = Vec::new();
        for (at, _) in text.match_indices('@') {
            let before = text[..at].chars().next_back();
            let begins =
                before.is_none_or(|c| c.is_whitespace() || matches!(c, '(' | '[' | '*' | '"'));
            if !begins {
                continue;
            }
            let mut word = String::new();
            let mut is_escaped = false;
            for c in text[at + 1..].chars() {
                if c.is_whitespace() && !(c == ' ' && is_escaped) {
                    break;
                }
                is_escaped = c == '\\';
                word.push(c);
            }
            if !word.is_empty() {
                words.push(word);
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(imports(text), expected, "{text}");
    }

    #[test]
    fn a_word_after_an_at_sign_is_an_import() {
        check("@a.md", &["a.md"]);
        check("See @docs/a.md and @~/b.md.\n- @../c", &["docs/a.md", "~/b.md.", "../c"]);
        check("@my\\ file.md rest", &["my\\ file.md"]);
        check("(@a.md) **@b.md** twice @a.md)", &["a.md)", "b.md**"]);
        check("a\r\n@a.md\r\n", &["a.md"]);
    }

    #[test]
    fn words_in_code_comments_and_addresses_are_not_imports() {
        for text in [
            "ada@example.com",
            "`@a.md`",
            "``a ` @a.md``",
            "`a\n@a.md`",
            "```\n@a.md\n```",
            "~~~md\n```\n@a.md\n~~~",
            "````\n```\n@a.md\n````",
            "  - ```sh\n    @a.md\n    ```",
            "```\n@a.md",
            "<!-- @a.md -->",
            "<!-- @a.md",
            "@ a.md",
            "@",
        ] {
            check(text, &[]);
        }
        check("``` not closed ``` @a.md", &["a.md"]);
        check("one ` alone @a.md\n\nand ` more", &["a.md"]);
        check("```\nx\n```\n@a.md", &["a.md"]);
        check("`x`@a.md", &[]);
    }
}
