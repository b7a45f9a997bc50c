//! What is found in a file that somebody has written for a model: for whoever
//! wrote it, with the line.

use std::path::{Path, PathBuf};

use super::{DESCRIPTION_CAP, FrontMatterError, Problem, Source};
use crate::slips::distance;
use crate::tool_name;

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works, though perhaps not as it was meant.
    Warning,
    /// Something that is asked for does not happen.
    Error,
}

impl Severity {
    /// Returns the word for people and in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    pub message: String,
}

impl From<FrontMatterError> for Finding {
    fn from(error: FrontMatterError) -> Self {
        let (path, line, message) = match error {
            FrontMatterError::Unreadable { path, source } => {
                (path, 1, format!("cannot be read: {source}"))
            }
            FrontMatterError::Malformed { path, line, message } => (path, line, message),
        };
        Self { path, line, severity: Severity::Error, message }
    }
}

impl From<Problem> for Finding {
    fn from(problem: Problem) -> Self {
        let Problem { path, message } = problem;
        Self { path, line: 1, severity: Severity::Warning, message }
    }
}

/// A look at one file.
pub(crate) struct Findings<'a> {
    path: &'a Path,
    text: &'a str,
    found: Vec<Finding>,
}

impl<'a> Findings<'a> {
    pub(crate) fn of(path: &'a Path, text: &'a str) -> Self {
        Self { path, text, found: Vec::new() }
    }

    /// Returns what was found, from the first line to the last.
    pub(crate) fn done(mut self) -> Vec<Finding> {
        self.found.sort_by_key(|finding| finding.line);
        self.found
    }

    pub(crate) fn failed(&mut self, error: FrontMatterError) {
        self.found.push(error.into());
    }

    pub(crate) fn error(&mut self, line: usize, message: String) {
        self.add(line, Severity::Error, message);
    }

    pub(crate) fn warning(&mut self, line: usize, message: String) {
        self.add(line, Severity::Warning, message);
    }

    /// Returns the line that sets a key.
    pub(crate) fn line(&self, key: &str) -> usize {
        super::line_of(self.text, key)
    }

    /// Says of a description that nobody reads the whole of it.
    pub(crate) fn description(&mut self, description: Option<&str>) {
        let length = description.map_or(0, |text| text.chars().count());
        if length > DESCRIPTION_CAP {
            let message = format!(
                "the description has {length} characters; models read the first {DESCRIPTION_CAP}"
            );
            self.warning(self.line("description"), message);
        }
    }

    /// Says of keys that nobody knows, and what they were perhaps meant to be.
    pub(crate) fn unknown<'k>(&mut self, keys: impl Iterator<Item = &'k String>, known: &[&str]) {
        for key in keys {
            let near = nearest(key, known).map(|near| format!("; is it `{near}`?"));
            let message = format!("`{key}` is not read here{}", near.unwrap_or_default());
            self.warning(self.line(key), message);
        }
    }

    /// Says of a tool that there is none of its name.
    pub(crate) fn tool(&mut self, key: &str, entry: &str) {
        let name = entry.split('(').next().unwrap_or_default().trim();
        if name == "*" || tool_name::is_ruled(tool_name::canonical(name)) {
            if tool_name::is_elsewhere(name) {
                self.warning(self.line(key), format!("`{key}`: there is no tool `{name}` here"));
            }
            return;
        }
        let near = nearest(name, &tool_name::KNOWN).map(|near| format!("; is it `{near}`?"));
        let message = format!("`{key}`: there is no tool `{name}`{}", near.unwrap_or_default());
        self.error(self.line(key), message);
    }

    fn add(&mut self, line: usize, severity: Severity, message: String) {
        self.found.push(Finding { path: self.path.to_owned(), line, severity, message });
    }
}

/// Most characters of a word that are compared: more is no slip of the fingers.
const WORD_CAP: usize = 64;

/// Returns the known word that another one was perhaps meant to be.
fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let letters = |word: &str| word.to_lowercase().chars().take(WORD_CAP).collect::<Vec<char>>();
    let word = letters(word);
    let near = known.iter().map(|known| (distance(&letters(known), &word), *known)).min()?;
    (near.0 <= near.1.len().div_ceil(3)).then_some(near.1)
}

impl Source {
    /// Returns the file that it is, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::BuiltIn | Self::Given => None,
        }
    }
}
