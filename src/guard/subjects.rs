//! What the rules of a tool speak about in a call: its command, its paths, the
//! names it holds; and by which names the tool itself may be meant.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::copies::Copies;
use super::hard_links;
use super::paths;
use crate::patch::{self, Patch};
use crate::path_text;
use crate::tool_name::{self, OtherNames, SANDBOX_NETWORK};

/// What the rules of a tool speak about in a call.
#[derive(Debug, Default)]
pub(super) struct Subjects {
    /// Its command, the agents or the skill it names, or its site.
    pub(super) words: Vec<String>,
    /// Its path, in every way the tool may read it.
    pub(super) paths: Vec<PathBuf>,
    /// Directory entries that are links and are changed themselves: links that are deleted.
    /// Links among their parent directories are followed.
    pub(super) entries: Vec<PathBuf>,
    /// The originals of `entries`, here or on another machine.
    pub(super) original_entries: Vec<PathBuf>,
    /// Other names of the paths: those of the symbolic links that lead to them, and what
    /// those are copies of. Only rules that deny compare them.
    pub(super) names: Vec<PathBuf>,
    /// The originals that the paths are copies of: a rule that denies these denies the copies, too.
    pub(super) originals: Vec<PathBuf>,
    /// The same on another machine: these are compared as they are.
    pub(super) elsewhere: Vec<PathBuf>,
    /// Whether something in the place of a subject cannot be read.
    pub(super) unreadable: bool,
    /// What else the tool may be called.
    pub(super) others: Option<OtherNames>,
}

impl Subjects {
    /// What is spoken of in a call that names one path.
    pub(super) fn of_path(path: &Path) -> Self {
        Self { paths: vec![path.to_owned()], ..Self::default() }
    }

    /// Returns the subjects of a change of a directory entry, which may be a link.
    pub(super) fn of_entry(path: &Path) -> Self {
        Self { entries: vec![path.to_owned()], ..Self::of_path(path) }
    }

    /// What is spoken of in a call that names the copy of a path on another
    /// machine, apart from the copy.
    pub(super) fn of_path_elsewhere(original: &Path) -> Self {
        Self { elsewhere: vec![original.to_owned()], ..Self::default() }
    }

    /// What is spoken of in a call that is one command.
    pub(super) fn of_command(command: &str) -> Self {
        Self { words: vec![command.trim().to_owned()], ..Self::default() }
    }

    /// Tells whether something in the place of a subject cannot be read.
    pub(super) fn is_unreadable(&self) -> bool {
        self.unreadable
    }

    /// Follows the paths, once: what is judged from here on is what the tool
    /// is given leave to touch. A path that cannot be followed stays as it is.
    pub(super) fn located(mut self, root: &Path) -> Self {
        self.names = self.paths.iter().flat_map(|path| paths::names(root, path)).collect();
        for path in &mut self.paths {
            if let Some(place) = paths::opened(root, path) {
                *path = place;
            }
        }
        self.names.extend(self.paths.iter().flat_map(|path| hard_links::other_names(root, path)));
        let entries = self.entries.iter().map(|entry| paths::entry(root, entry));
        self.entries = entries.filter(|entry| !self.paths.contains(entry)).collect();
        self.names.retain(|name| !self.paths.contains(name));
        self
    }

    /// Returns the files and links that the call may touch.
    pub(super) fn into_places(self) -> Vec<PathBuf> {
        self.paths.into_iter().chain(self.entries).collect()
    }

    /// Adds what else the tool may be called.
    pub(super) fn called(self, others: &OtherNames) -> Self {
        Self { others: Some(others.clone()), ..self }
    }

    /// Adds what the paths are copies of; they have been located.
    pub(super) fn among(mut self, copies: &Copies) -> Self {
        self.originals = self.paths.iter().flat_map(|path| copies.originals(path)).collect();
        let named = self.paths.iter().chain(&self.names);
        self.elsewhere = named.flat_map(|path| copies.elsewhere(path)).collect();
        let original_names: Vec<PathBuf> =
            self.names.iter().flat_map(|name| copies.originals(name)).collect();
        self.names.extend(original_names);
        let of_entry =
            |entry: &PathBuf| copies.originals(entry).into_iter().chain(copies.elsewhere(entry));
        self.original_entries = self.entries.iter().flat_map(of_entry).collect();
        self
    }
}

/// Returns what the rules of `tool` speak about in a call.
pub(super) fn subjects(tool: &str, arguments: &Value) -> Subjects {
    let words = |words: Vec<Option<&str>>| Subjects {
        unreadable: words.contains(&None),
        words: words.into_iter().flatten().map(|word| word.trim().to_owned()).collect(),
        ..Subjects::default()
    };
    let paths = |path: Option<&str>| Subjects {
        unreadable: path.is_none(),
        paths: path.map(path_text::readings).unwrap_or_default(),
        ..Subjects::default()
    };
    let given = |name: &str| arguments.get(name).filter(|value| !value.is_null());
    match tool {
        "Bash" => words(vec![arguments["command"].as_str()]),
        "Read" | "Write" | "Edit" => paths(arguments["file_path"].as_str()),
        // Every file that it names, those that files are moved to as well.
        "ApplyPatch" => match patch::text(arguments).map(Patch::parse) {
            Some(Ok(patch)) => Subjects {
                paths: patch.paths().flat_map(path_text::readings).collect(),
                entries: patch.deleted().flat_map(path_text::readings).collect(),
                ..Subjects::default()
            },
            Some(Err(_)) | None => Subjects { unreadable: true, ..Subjects::default() },
        },
        // Nothing and an empty text mean the working directory.
        "Glob" | "Grep" => paths(match given("path") {
            None => Some("."),
            Some(path) => path.as_str(),
        }),
        // The tool takes `/name`, as people type it, for `name`.
        "Skill" => {
            words(vec![arguments["skill"].as_str().map(|name| name.trim_start_matches('/'))])
        }
        "WebFetch" => match arguments["url"].as_str().and_then(site) {
            Some(site) => words(vec![Some(&site)]),
            None => words(vec![None]),
        },
        SANDBOX_NETWORK => words(vec![arguments["host"].as_str()]),
        "Agent" => {
            // What is empty counts as left out, as it does for the tool.
            let given = |name: &str| given(name).filter(|value| !is_empty(value));
            let tasks = match given("tasks") {
                None => Vec::new(),
                Some(Value::Array(tasks)) => {
                    tasks.iter().map(|task| task["subagent_type"].as_str()).collect()
                }
                Some(_) => vec![None],
            };
            // Without a name the call is a fork.
            let single = match (given("subagent_type"), given("tasks")) {
                (Some(name), _) => Some(name.as_str()),
                (None, Some(_)) => None,
                (None, None) => Some(Some(tool_name::FORK)),
            };
            words(tasks.into_iter().chain(single).collect())
        }
        _ => Subjects::default(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns the host of a URL, in lower case.
fn site(url: &str) -> Option<String> {
    let url = reqwest::Url::parse(url).ok()?;
    url.host_str().map(|host| host.trim_end_matches('.').to_owned())
}

/// Tells whether a call is to apply a patch that cannot be read.
pub(super) fn is_no_patch(tool: &str, arguments: &Value) -> bool {
    let parse = || patch::text(arguments).map(Patch::parse);
    tool == "ApplyPatch" && !matches!(parse(), Some(Ok(_)))
}
