//! Paths into the workspace, in the calls of a unit that works in a copy of it.
//!
//! They are replaced before hooks, the guard, the user and the tool see the call, so
//! all of them get the path of the file that is opened.

use serde_json::Value;

use super::Unit;
use super::calls::Ready;
use crate::guard::{PathMeaning, PathUse};
use crate::patch;
use crate::path_text::{shown, to_text};

/// End of the note about a path that means the workspace itself.
const NOT_IN_COPY: &str = " is not in your copy: this is the one in the workspace itself.";

impl Unit {
    /// Replaces the paths of a call that lead into the workspace by those of the copy
    /// that the unit works in.
    pub(super) fn redirect(&self, ready: &mut Ready<'_>) {
        if self.context.workspace.original.is_none() && !self.policy.has_copies() {
            return;
        }
        let mut arguments = ready.arguments.clone();
        let mut redirects = PathRedirects { unit: self, notes: Vec::new(), is_moved: false };
        match &*ready.tool {
            "Read" => redirects.replace(&mut arguments, "file_path", PathUse::Source),
            "Write" | "Edit" => redirects.replace(&mut arguments, "file_path", PathUse::Target),
            "Glob" | "Grep" => {
                redirects.replace(&mut arguments, "path", PathUse::Source);
                if &*ready.tool == "Glob" {
                    redirects.replace_pattern(&mut arguments);
                }
            }
            "ApplyPatch" => redirects.replace_in_patch(&mut arguments),
            _ => return,
        }
        let PathRedirects { notes, is_moved, .. } = redirects;
        if is_moved {
            ready.change(arguments);
        }
        // A hook or the user may have changed the arguments since.
        ready.notes.retain(|note| !note.ends_with(NOT_IN_COPY));
        ready.notes.extend(notes);
    }
}

/// The replacements in one call.
struct PathRedirects<'a> {
    unit: &'a Unit,
    /// Sentences for the model about them.
    notes: Vec<String>,
    is_moved: bool,
}

impl PathRedirects<'_> {
    fn replace(&mut self, arguments: &mut Value, name: &str, named: PathUse) {
        let Some(given) = arguments.get(name).and_then(Value::as_str) else { return };
        if let Some(path) = self.resolve(given, named) {
            arguments[name] = path.into();
        }
    }

    fn replace_in_patch(&mut self, arguments: &mut Value) {
        let Some(text) = patch::text(arguments) else { return };
        let other = |path: &str, is_name: bool| {
            self.resolve(path, if is_name { PathUse::Name } else { PathUse::Target })
        };
        let Some(changed) = patch::with_other_paths(text, other) else { return };
        let name = if arguments["patch"].is_string() { "patch" } else { "input" };
        arguments[name] = changed.into();
    }

    /// Replaces the directory that a pattern begins with, if it names one.
    fn replace_pattern(&mut self, arguments: &mut Value) {
        let Some(pattern) = arguments.get("pattern").and_then(Value::as_str) else { return };
        if !pattern.starts_with('/') {
            return;
        }
        let plain = pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len());
        let slashes = || pattern.match_indices('/').map(|(at, _)| at).skip(1);
        let last_plain = slashes().filter(|slash| *slash < plain).last();
        // The workspace's own name may have the characters of patterns.
        let others = slashes().filter(|slash| *slash > plain);
        let found = last_plain.into_iter().chain(others).find_map(|slash| {
            let meaning = self.unit.policy.path_meaning(&pattern[..slash], PathUse::Target)?;
            let PathMeaning::Copy(copy) = meaning else { return None };
            Some((slash, copy))
        });
        let Some((slash, copy)) = found else { return };
        let (directory, rest) = pattern.split_at(slash);
        let text = format!("{}{rest}", copy.display());
        self.note_redirect(directory, &to_text(&copy));
        self.is_moved = true;
        arguments["pattern"] = text.into();
    }

    /// Returns the path that is meant, relative to where the unit works; `None` if
    /// the path stays.
    fn resolve(&mut self, given: &str, named: PathUse) -> Option<String> {
        match self.unit.policy.path_meaning(given, named)? {
            PathMeaning::Copy(copy) => {
                self.note_redirect(given, &to_text(&copy));
                self.is_moved = true;
                Some(shown(&self.unit.context.workspace.root, &copy))
            }
            PathMeaning::Original => {
                self.notes.push(format!("{given}{NOT_IN_COPY}"));
                None
            }
        }
    }

    /// Says once what such a path means.
    fn note_redirect(&mut self, given: &str, copy: &str) {
        let original = self.unit.context.workspace.original.as_ref();
        if original.is_some_and(|original| original.begin_to_tell()) {
            self.notes.push(format!(
                "{given} refers to {copy} here: you work in a copy, and paths into the workspace \
                 refer to the copy's files. This note appears only once."
            ));
        }
    }
}
