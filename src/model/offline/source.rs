//! A changed file as the rules see it: code, text and comments apart.

use std::collections::BTreeMap;

use crate::code::{is_test, language, parts};
use crate::diff::{FileChange, LineKind};
use crate::message::{Call, Output};

/// A changed file and what is known of the lines around the change.
pub(super) struct Source<'a> {
    pub(super) path: &'a str,
    pub(super) language: &'static str,
    pub(super) added: Vec<New<'a>>,
    pub(super) lines: BTreeMap<u32, &'a str>,
}

/// A new line.
pub(super) struct New<'a> {
    pub(super) number: u32,
    /// Whether it belongs to a test.
    pub(super) test: bool,
    pub(super) whole: &'a str,
    /// The line without its comment and with its strings emptied.
    pub(super) code: String,
    /// The line without its comment.
    pub(super) text: String,
    pub(super) comment: String,
}

impl<'a> Source<'a> {
    pub(super) fn new(file: &'a FileChange, outputs: &[(&'a Call, &'a Output)]) -> Option<Self> {
        let path = file.new_path.as_deref()?;
        let language = language(path)?;
        let hunks = || file.hunks.iter().flat_map(|hunk| hunk.lines.iter().map(move |l| (hunk, l)));
        let now = hunks().filter(|(_, line)| line.kind != LineKind::Removed);
        let now: BTreeMap<_, _> =
            now.map(|(_, line)| (line.number, line.text.trim_end())).collect();
        let is_read = |call: &Call| call.tool == "Read" && call.arguments.contains(path);
        let reads = outputs.iter().filter(|(call, output)| !output.is_error && is_read(call));
        let numbered = reads.flat_map(|(_, output)| output.text.lines()).filter_map(|line| {
            let (number, text) = line.split_once('\t')?;
            Some((number.trim().parse().ok()?, text.trim_end()))
        });
        let mut lines: BTreeMap<u32, &str> = numbered.collect();
        // The change may be an old one; then the file shows something else.
        if now.iter().any(|(number, text)| lines.get(number).is_some_and(|line| line != text)) {
            lines.clear();
        }
        lines.extend(now);
        let tests = lines.iter().find(|(_, line)| line.trim() == "#[cfg(test)]").map(|(at, _)| *at);
        let added = hunks().filter(|(_, line)| line.kind == LineKind::Added).map(|(hunk, line)| {
            let whole = line.text.trim_end();
            let [code, text, comment] = parts(whole, language);
            let below = tests.is_some_and(|tests| tests <= line.number);
            let test = is_test(path) || below || hunk.section.starts_with("mod test");
            New { number: line.number, test, whole, code, text, comment }
        });
        Some(Self { path, language, added: added.collect(), lines })
    }
}
