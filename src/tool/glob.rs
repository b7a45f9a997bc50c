//! The Glob tool: files by a pattern of their path, newest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use ignore::DirEntry;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::guard::Searches;
use crate::message::{Output, ToolSchema};
use crate::path_text;

use super::arguments;
use super::blocking::{cancelled, stoppable};
use super::patterns::{SearchPattern, may_be_name};
use super::walk::{self, Missing, SearchScope, WalkItem, leads_out, refuse_missing};
use super::{Effect, Granted, OUTPUT_CAP, Tool, ToolContext, ToolError, Workspace, regular};

/// Most files of one listing: more is not read, it is scrolled past.
pub const RESULT_CAP: usize = 200;

/// Part of [`OUTPUT_CAP`] that is kept for the notes below a listing.
const NOTES_ROOM: usize = 300 + walk::NOTES_CAP;

/// Finds files by pattern.
#[derive(Debug, Clone, Copy)]
pub struct Glob;

const PARAMETERS: &str = r#"{"type":"object","properties":{
    "pattern":{"type":"string","description":"The pattern, relative to \"path\"."},
    "path":{"type":"string","description":"The directory to search; the working directory if left out."},
    "include_ignored":{"type":"boolean","description":"List files that git ignores and hidden files, too."}
    },"required":["pattern"]}"#;

impl Tool for Glob {
    fn schema(&self) -> ToolSchema {
        arguments::schema("Glob", include_str!("../../prompts/tools/glob.md"), PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn subject(&self, arguments: &Value) -> String {
        arguments::subject(arguments, "pattern")
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let (workspace, places) = (Arc::clone(&context.workspace), call.places.clone());
            let searches = context.searches.clone();
            let wanted = Wanted::parse(&workspace.root, arguments)?;
            let within = move |token: &_| find((&workspace, &searches), &wanted, &places, token);
            stoppable(&context.cancel, within).await
        })
    }
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    pattern: Value,
    #[serde(default)]
    path: Value,
    #[serde(default)]
    include_ignored: Value,
}

struct Wanted {
    base: PathBuf,
    pattern: String,
    matcher: SearchPattern,
    /// Set if ignored and hidden files are listed, too.
    everything: bool,
}

impl Wanted {
    fn parse(root: &Path, arguments: Value) -> Result<Self, ToolError> {
        let raw: Raw = arguments::parse(arguments)?;
        let pattern = arguments::text("pattern", raw.pattern)?;
        let base = match arguments::optional_text("path", raw.path)? {
            Some(path) => arguments::search_path(root, &path)?,
            None => root.to_owned(),
        };
        let relative = relative_to(&base, &pattern)?;
        let matcher = SearchPattern::compile("pattern", relative)?;
        let everything = arguments::flag("include_ignored", &raw.include_ignored, false)?;
        Ok(Self { base, pattern: relative.to_owned(), matcher, everything })
    }
}

/// Returns the pattern as seen from `base`. One that leads elsewhere is
/// refused, because the guard judges a search by its `path`.
fn relative_to<'a>(base: &Path, pattern: &'a str) -> Result<&'a str, ToolError> {
    let base = base.display().to_string();
    // The root, and a worktree's top directory, end with a slash.
    let below = pattern.strip_prefix(base.trim_end_matches('/'));
    let pattern = below.and_then(|below| below.strip_prefix('/')).unwrap_or(pattern);
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    if pattern.starts_with('/') || pattern.split('/').any(|segment| segment == "..") {
        return Err(ToolError::tell(
            "Parameter \"pattern\" must lead downwards from \"path\"; put the directory into \"path\".",
        ));
    }
    Ok(pattern)
}

fn find(
    (workspace, searches): (&Workspace, &Searches),
    wanted: &Wanted,
    places: &[PathBuf],
    token: &CancellationToken,
) -> Result<Output, ToolError> {
    let shown = path_text::shown(&workspace.root, &wanted.base);
    if !refuse_missing(workspace, &wanted.base)?.is_dir() {
        return Err(ToolError::tell(format!("{shown} is not a directory.")));
    }
    let left_out = searches.left_out("Glob", &wanted.base);
    regular::refuse_elsewhere(workspace, &wanted.base, &left_out.place(&wanted.base), places)?;
    let mut newest = Newest::default();
    let mut missing = Missing::default();
    let matches = |entry: &DirEntry| {
        let below = entry.path().strip_prefix(&wanted.base).unwrap_or(entry.path());
        let is_directory = entry.file_type().is_none_or(|kind| kind.is_dir());
        !is_directory && wanted.matcher.is_match(below)
    };
    let scope =
        SearchScope::new(&workspace.root, &wanted.base, Some(&wanted.pattern), wanted.everything);
    for found in scope.walk(None) {
        if token.is_cancelled() {
            return Err(cancelled(std::time::Duration::ZERO));
        }
        match found {
            WalkItem::Entry(entry) if matches(&entry) => {
                if left_out.covers(entry.path()) {
                    missing.denied += 1;
                    continue;
                }
                let changed = entry.metadata().ok().and_then(|metadata| metadata.modified().ok());
                newest.push(changed.unwrap_or(SystemTime::UNIX_EPOCH), entry.into_path());
            }
            WalkItem::Entry(entry) => {
                if let Some((_, true)) = leads_out(&entry, &left_out.place(&wanted.base)) {
                    missing.links.push(&path_text::shown(&workspace.root, entry.path()));
                }
            }
            WalkItem::LeftOut(entry, cause) if matches(&entry) => missing.push_left_out(cause),
            WalkItem::LeftOut(..) => {}
            WalkItem::MoreLeftOut => missing.push_more(),
            WalkItem::Unread(path) => {
                missing.unread.push(&path_text::shown(&workspace.root, &path));
            }
        }
    }
    if newest.total > 0 {
        return Ok(Output::ok(newest.list(&workspace.root) + &missing.note()));
    }
    if missing.is_nothing() {
        wanted.matcher.refuse_malformed("pattern")?;
    }
    let pattern = &wanted.pattern;
    let note = missing.note() + &wanted.hint();
    Ok(Output::ok(format!("No file in {shown} matches {pattern}\n{note}")))
}

impl Wanted {
    /// Says how to find what the pattern may mean if no file matches.
    fn hint(&self) -> String {
        let pattern = self.pattern.trim_end_matches('/');
        if pattern.split('/').any(|name| name == ".git") {
            return "[`.git` is left out. Set \"path\" to it to list its files.]\n".to_owned();
        }
        if may_be_name(pattern) && self.base.join(pattern).is_dir() {
            return format!(
                "[{pattern} is a directory: {pattern}/** matches the files below it.]\n"
            );
        }
        String::new()
    }
}

/// The newest files of a walk; the others are only counted.
#[derive(Default)]
struct Newest {
    /// The least new one on top, ready to be dropped.
    heap: BinaryHeap<(Reverse<SystemTime>, PathBuf)>,
    total: usize,
}

impl Newest {
    fn push(&mut self, changed: SystemTime, path: PathBuf) {
        self.total += 1;
        self.heap.push((Reverse(changed), path));
        if self.heap.len() > RESULT_CAP {
            self.heap.pop();
        }
    }

    /// Newest first; of the same age in the order of paths.
    fn list(self, root: &Path) -> String {
        let mut text = String::new();
        let mut left = OUTPUT_CAP - NOTES_ROOM;
        let mut listed = 0;
        for (_, path) in self.heap.into_sorted_vec() {
            let line = path_text::shown(root, &path);
            let characters = line.chars().count() + 1;
            if characters > left {
                break;
            }
            left -= characters;
            listed += 1;
            text.push_str(&line);
            text.push('\n');
        }
        match self.total - listed {
            0 => text,
            more => text + &format!("[{more} older files match too; narrow the pattern.]\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::ffi::OsStrExt;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::tool::testing::Place;

    /// Makes a file that was changed `age` seconds before the newest.
    fn put(place: &Place, name: &str, age: u64) {
        let path = place.put(name, "");
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age);
        File::options().write(true).open(path).unwrap().set_modified(changed).unwrap();
    }

    async fn check(place: &Place, arguments: Value, expected: &str) {
        let text = place.call(&Glob, arguments).await;
        assert_eq!(text.as_deref(), Ok(expected));
    }

    #[tokio::test]
    async fn files_are_listed_newest_first_and_relative_to_the_working_directory() {
        let place = Place::new();
        put(&place, "src/old.rs", 9);
        put(&place, "src/deep/new.rs", 1);
        put(&place, "top.rs", 5);
        put(&place, "b.txt", 5);
        put(&place, "a.txt", 5);
        check(&place, json!({"pattern": "**/*.rs"}), "src/deep/new.rs\ntop.rs\nsrc/old.rs\n").await;
        check(&place, json!({"pattern": "*.{txt,rs}"}), "a.txt\nb.txt\ntop.rs\n").await;
        check(&place, json!({"pattern": "*.rs", "path": "src"}), "src/old.rs\n").await;
        let absolute = format!("{}/src/*.rs", place.root().display());
        check(&place, json!({"pattern": absolute}), "src/old.rs\n").await;
    }

    #[tokio::test]
    async fn files_that_a_rule_denies_are_only_counted() {
        let place = Place::with_deny_rules(&["Read(keys/**)"]);
        put(&place, "keys/a", 1);
        put(&place, "b", 1);
        let note = "[1 file is left out, because a permission rule denies it.]\n";
        check(&place, json!({"pattern": "**/*"}), &format!("b\n{note}")).await;
    }

    #[tokio::test]
    async fn ignored_and_hidden_files_are_left_out_unless_the_pattern_names_a_dot() {
        let place = Place::new();
        for name in ["target/a.yml", ".github/b.yml", ".git/c.yml", "d.yml", ".gitignore"] {
            put(&place, name, 0);
        }
        place.put(".gitignore", "target/\n");
        let left_out = "[Left out: 1 file that git ignores, 1 hidden file. Set \
                        \"include_ignored\": true to include them.]\n";
        check(&place, json!({"pattern": "**/*.yml"}), &format!("d.yml\n{left_out}")).await;
        check(&place, json!({"pattern": "target/*.yml"}), "target/a.yml\n").await;
        check(&place, json!({"pattern": ".github/*.yml"}), ".github/b.yml\n").await;
        let in_git = "No file in . matches .git/*.yml\n\
                      [`.git` is left out. Set \"path\" to it to list its files.]\n";
        check(&place, json!({"pattern": ".git/*.yml"}), in_git).await;
        check(&place, json!({"pattern": "*.yml", "path": ".git"}), ".git/c.yml\n").await;
    }

    #[tokio::test]
    async fn a_name_that_is_not_utf8_is_listed_so_that_it_can_be_read() {
        let place = Place::new();
        let name = std::ffi::OsStr::from_bytes(b"caf\xE9.txt");
        std::fs::write(place.root().join(name), "").unwrap();
        check(&place, json!({"pattern": "*.txt"}), "caf\\xe9.txt\n").await;
    }

    #[tokio::test]
    async fn a_long_listing_is_bounded_and_says_how_many_more_there_are() {
        let place = Place::new();
        for number in 0..RESULT_CAP as u64 + 50 {
            put(&place, &format!("{number}.txt"), number);
        }
        let text = place.call(&Glob, json!({"pattern": "*"})).await.unwrap();
        let expected = "[50 older files match too; narrow the pattern.]";
        assert_eq!((text.lines().count(), text.lines().last()), (RESULT_CAP + 1, Some(expected)));
        assert!(text.starts_with("0.txt\n1.txt\n"));

        let long = "x".repeat(240);
        for number in 0..100 {
            put(&place, &format!("{long}/{number}.long"), number);
        }
        let text = place.call(&Glob, json!({"pattern": "**/*.long"})).await.unwrap();
        assert!(text.chars().count() <= OUTPUT_CAP);
        assert!(text.ends_with(" older files match too; narrow the pattern.]\n"));
    }

    #[test]
    fn a_whole_path_is_seen_from_its_base_however_that_ends() {
        for (base, pattern, expected) in [
            ("/a", "/a/*.rs", Some("*.rs")),
            ("/a/", "/a/*.rs", Some("*.rs")),
            ("/a//", "/a/b/*.rs", Some("b/*.rs")),
            ("/", "/etc/*", Some("etc/*")),
            ("/[x]/", "/[x]/*", Some("*")),
            ("/a", "/ab/*", None),
            ("/a/", "/a", None),
            ("/a/", "/b/*", None),
        ] {
            let found = relative_to(Path::new(base), pattern).ok();
            assert_eq!(found, expected, "{base} {pattern}");
        }
    }

    #[tokio::test]
    async fn calls_that_cannot_be_answered_are_refused_in_words() {
        let place = Place::new();
        place.put("file", "");
        let downwards = "Parameter \"pattern\" must lead downwards from \"path\"; put the directory into \"path\".";
        for (arguments, expected) in [
            (json!({}), "Parameter \"pattern\" must be a non-empty string."),
            (json!({"pattern": "/etc/*"}), downwards),
            (json!({"pattern": "a/../../*"}), downwards),
            (json!({"pattern": "*", "path": "none"}), "There is no file or directory none."),
            (json!({"pattern": "*", "path": "file"}), "file is not a directory."),
        ] {
            assert_eq!(place.call(&Glob, arguments).await.unwrap_err(), expected);
        }
        let refused = place.call(&Glob, json!({"pattern": "{a"})).await.unwrap_err();
        assert!(refused.starts_with("Parameter \"pattern\" is not a valid pattern: "), "{refused}");
    }

    #[test]
    fn a_search_stops_when_its_token_has_fired() {
        let place = Place::new();
        place.put("a", "");
        let wanted = Wanted::parse(place.root(), json!({"pattern": "*"})).unwrap();
        let token = CancellationToken::new();
        token.cancel();
        let within = (&*place.workspace, &place.context.searches);
        let stopped = find(within, &wanted, &[place.root().to_owned()], &token);
        assert!(matches!(stopped, Err(ToolError::Cancelled { .. })));
    }
}
