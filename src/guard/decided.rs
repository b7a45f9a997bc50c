//! A call as it was decided about, for rules that a person grants afterwards.
//!
//! Whether such a rule answers a question is found out later, by whoever keeps
//! the answers. Nothing is looked up again then: what is compared is what the
//! unit decided about, and what runs is that, too. So no link that has been
//! changed since, or that leads elsewhere from another working directory, makes
//! a rule answer for a file that it does not match.

use std::path::{Path, PathBuf};

use super::paths;
use super::rules::Rule;
use super::shell;
use super::subjects::Subjects;

/// What rules that are granted later are compared with. The default is a call
/// that no rule answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decided {
    tool: String,
    /// What one rule has to allow.
    whole: Option<About>,
    /// Or each of these, by whichever rule; never, if there are none.
    parts: Vec<About>,
}

/// What a call is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// A command.
    Command {
        /// As it is written.
        text: String,
        /// Whether only a rule with its very words allows it.
        only_exactly: bool,
    },
    /// Agents, a skill or a site.
    Names(Vec<String>),
    /// Files, every link followed.
    Places(Vec<Place>),
    /// Something that cannot be told.
    Unknown,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The whole path.
    pub path: PathBuf,
    /// From the working directory on, if it is in there.
    pub relative: Option<PathBuf>,
}

impl Decided {
    /// What was decided about in `root`. The paths have been located.
    pub(super) fn of(tool: &str, subjects: &Subjects, root: &Path) -> Self {
        let root_place = paths::resolved(root, Path::new("."));
        let about_paths = |paths: &[PathBuf]| {
            let place = |path: &PathBuf| {
                // What cannot be followed, or not any more, is no file that a
                // rule could be sure of.
                let path = paths::opened(root, path).filter(|opened| opened == path)?;
                let relative = path.strip_prefix(&root_place).ok().map(Path::to_owned);
                Some(Place { path, relative })
            };
            let places: Option<Vec<Place>> = paths.iter().map(place).collect();
            places.filter(|places| !places.is_empty()).map_or(About::Unknown, About::Places)
        };
        let Subjects { words, paths, .. } = subjects;
        let (whole, parts) = match (tool, &words[..]) {
            // A pattern is about what a link leads to.
            _ if subjects.is_unreadable() || !subjects.entries.is_empty() => {
                (Some(About::Unknown), Vec::new())
            }
            ("Bash", [command]) => {
                let whole = About::Command { text: command.clone(), only_exactly: true };
                (Some(whole), shell::plain(command).map_or(Vec::new(), |plain| commands(&plain)))
            }
            ("ApplyPatch", _) => (None, paths.chunks(1).map(about_paths).collect()),
            ("Read" | "Write" | "Edit" | "Glob" | "Grep", _) => {
                (Some(about_paths(paths)), Vec::new())
            }
            _ => (Some(About::Names(words.clone())), Vec::new()),
        };
        Self { tool: tool.to_owned(), whole, parts }
    }

    /// Returns the tool, what one rule has to allow, and the parts of which each
    /// may be allowed by another one: for a process that asks in another's name.
    #[must_use]
    pub fn parts(&self) -> (&str, Option<&About>, &[About]) {
        (&self.tool, self.whole.as_ref(), &self.parts)
    }

    /// Puts together what [`Decided::parts`] took apart.
    #[must_use]
    pub fn from_parts(tool: String, whole: Option<About>, parts: Vec<About>) -> Self {
        Self { tool, whole, parts }
    }

    /// Returns what stands beside the rules that together allow the call; `None`
    /// if they do not. No I/O.
    pub fn covered_by<'a, T>(
        &self,
        granted: impl Iterator<Item = (&'a Rule, T)> + Clone,
    ) -> Option<Vec<T>> {
        let find = |about: &About| {
            let covers = |(rule, _): &(&Rule, T)| rule.covers(&self.tool, about);
            granted.clone().find(covers).map(|(_, beside)| beside)
        };
        if let Some(beside) = self.whole.as_ref().and_then(find) {
            return Some(vec![beside]);
        }
        let beside: Option<Vec<T>> = self.parts.iter().map(find).collect();
        beside.filter(|beside| !beside.is_empty())
    }
}

fn commands(plain: &shell::Plain<'_>) -> Vec<About> {
    let about = |(text, launches): (&str, bool)| About::Command {
        text: text.trim().to_owned(),
        only_exactly: launches,
    };
    plain.judged_texts().map(about).collect()
}
