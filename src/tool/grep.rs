//! The Grep tool: files and lines that match a regular expression.
//!
//! Results come in the order of the files' paths, so a search that has said enough can
//! stop, and the same call gives the same text. How one file is searched is in `hits`, and
//! how several are at once in `run`.

mod hits;
mod run;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use ignore::types::{Types, TypesBuilder};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::guard::Searches;
use crate::message::{Output, ToolSchema};

use run::{GrepRun, GrepTask};

use super::arguments;
use super::blocking::stoppable;
use super::patterns::SearchPattern;
use super::walk::{self, SearchScope, names_hidden, refuse_missing};
use super::{Effect, Granted, OUTPUT_CAP, Tool, ToolContext, ToolError, Workspace, regular};

/// Most lines of context on each side of a match; Read shows more.
pub const CONTEXT_CAP: u64 = 50;

/// Part of [`OUTPUT_CAP`] that is kept for the notes below the hits.
const NOTES_ROOM: usize = 300 + walk::NOTES_CAP;

/// Searches the contents of files.
#[derive(Debug, Clone, Copy)]
pub struct Grep;

const PARAMETERS: &str = r#"{"type":"object","properties":{
    "pattern":{"type":"string","description":"The regular expression."},
    "path":{"type":"string","description":"The directory or file to search; the working directory if left out."},
    "glob":{"type":"string","description":"Only files whose name (or, with a slash, path below \"path\") matches; a leading ! leaves them out instead."},
    "type":{"type":"string","description":"Only files of this type, such as rust, py, js, go, md."},
    "output_mode":{"type":"string","enum":["files_with_matches","content","count"]},
    "-i":{"type":"boolean","description":"Ignore case."},
    "-n":{"type":"boolean","description":"Show line numbers (content); true if left out."},
    "-A":{"type":"integer","minimum":0,"description":"Lines to show after each match (content)."},
    "-B":{"type":"integer","minimum":0,"description":"Lines to show before each match (content)."},
    "-C":{"type":"integer","minimum":0,"description":"Lines to show before and after each match (content)."},
    "head_limit":{"type":"integer","minimum":0,"description":"Most lines or files to list; 0 for as many as fit."},
    "multiline":{"type":"boolean","description":"Let a match span lines."},
    "include_ignored":{"type":"boolean","description":"Search files that git ignores and hidden files, too."}
    },"required":["pattern"]}"#;

impl Tool for Grep {
    fn schema(&self) -> ToolSchema {
        arguments::schema("Grep", include_str!("../../prompts/tools/grep.md"), PARAMETERS)
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
            let within = move |token: &_| search((&workspace, &searches), &wanted, &places, token);
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
    glob: Value,
    #[serde(default, rename = "type")]
    kind: Value,
    #[serde(default)]
    output_mode: Value,
    #[serde(default, rename = "-i")]
    ignore_case: Value,
    #[serde(default, rename = "-n")]
    numbers: Value,
    #[serde(default, rename = "-A")]
    after: Value,
    #[serde(default, rename = "-B")]
    before: Value,
    #[serde(default, rename = "-C")]
    around: Value,
    #[serde(default)]
    head_limit: Value,
    #[serde(default)]
    multiline: Value,
    #[serde(default)]
    include_ignored: Value,
}

/// What a call asks for.
struct Wanted {
    base: PathBuf,
    pattern: String,
    matcher: RegexMatcher,
    /// Set if the pattern itself names carriage returns. Else one before a line feed
    /// belongs to the end of the line.
    names_returns: bool,
    files: Option<FileFilter>,
    types: Option<Types>,
    /// Set if ignored and hidden files are searched, too.
    everything: bool,
    /// Most rows; `None` for as many as fit.
    rows: Option<u64>,
    style: Style,
}

/// How the hits in a file are shown.
#[derive(Debug, Clone, Copy)]
struct Style {
    mode: Mode,
    numbers: bool,
    before: usize,
    after: usize,
    multiline: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Files,
    Content,
    Count,
}

/// Which files a `glob` lets in.
struct FileFilter {
    pattern: SearchPattern,
    text: String,
    names_hidden: bool,
    /// Without a slash the pattern is about names, at any depth.
    by_name: bool,
    negated: bool,
}

impl Wanted {
    fn parse(root: &Path, arguments: Value) -> Result<Self, ToolError> {
        let raw: Raw = arguments::parse(arguments)?;
        let pattern = arguments::text("pattern", raw.pattern)?;
        let style = Style {
            mode: Mode::parse(raw.output_mode)?,
            numbers: arguments::flag("-n", &raw.numbers, true)?,
            before: context("-B", &raw.before, &raw.around)?,
            after: context("-A", &raw.after, &raw.around)?,
            multiline: arguments::flag("multiline", &raw.multiline, false)?,
        };
        let ignore_case = arguments::flag("-i", &raw.ignore_case, false)?;
        let path = arguments::optional_text("path", raw.path)?;
        let base = path.map_or(Ok(root.to_owned()), |path| arguments::search_path(root, &path))?;
        let files = arguments::optional_text("glob", raw.glob)?;
        let everything = arguments::flag("include_ignored", &raw.include_ignored, false)?;
        let kind = arguments::optional_text("type", raw.kind)?;
        let rows = arguments::optional_number("head_limit", &raw.head_limit)?;
        let names_returns = names_returns(&pattern);
        let files = files.map(|files| FileFilter::parse(&files)).transpose()?;
        Ok(Self {
            base,
            matcher: compile(&pattern, ignore_case, style.multiline, names_returns)?,
            pattern,
            names_returns,
            files,
            types: kind.map(|kind| types(&kind)).transpose()?,
            everything,
            rows: rows.filter(|rows| *rows > 0),
            style,
        })
    }
}

impl Wanted {
    fn scope(&self, root: &Path) -> SearchScope {
        let pattern = self.files.as_ref().and_then(FileFilter::of_paths);
        let names_hidden = self.files.as_ref().is_some_and(|files| files.names_hidden);
        SearchScope::new(root, &self.base, pattern, self.everything).with_hidden(names_hidden)
    }
}

impl Mode {
    fn parse(value: Value) -> Result<Self, ToolError> {
        match arguments::optional_text("output_mode", value)?.as_deref() {
            None | Some("files_with_matches") => Ok(Self::Files),
            Some("content") => Ok(Self::Content),
            Some("count") => Ok(Self::Count),
            Some(_) => {
                let expected = "\"files_with_matches\", \"content\" or \"count\"";
                Err(arguments::wrong("output_mode", expected))
            }
        }
    }
}

impl FileFilter {
    fn parse(pattern: &str) -> Result<Self, ToolError> {
        let names_hidden = names_hidden(pattern);
        let (negated, pattern) = match pattern.strip_prefix('!') {
            Some(pattern) => (true, pattern),
            None => (false, pattern),
        };
        let by_name = !pattern.contains('/');
        let text = pattern.trim_start_matches("./").trim_start_matches('/');
        let pattern = SearchPattern::compile("glob", text)?;
        if negated {
            pattern.refuse_malformed("glob")?;
        }
        Ok(Self { pattern, text: text.to_owned(), names_hidden, by_name, negated })
    }

    /// Returns the pattern, if it is one of the paths that are let in.
    fn of_paths(&self) -> Option<&str> {
        (!self.negated && !self.by_name).then_some(&*self.text)
    }

    fn lets_in(&self, base: &Path, path: &Path) -> bool {
        let name = path.file_name().map(Path::new).unwrap_or(path);
        let below = path.strip_prefix(base).ok().filter(|below| !below.as_os_str().is_empty());
        let seen = if self.by_name { name } else { below.unwrap_or(name) };
        self.pattern.is_match(seen) != self.negated
    }
}

fn context(name: &str, value: &Value, around: &Value) -> Result<usize, ToolError> {
    let around = arguments::optional_number("-C", around)?;
    let lines = arguments::optional_number(name, value)?.or(around).unwrap_or(0);
    Ok(usize::try_from(lines.min(CONTEXT_CAP)).expect("a bounded number is small"))
}

/// Returns whether a regular expression names carriage returns.
fn names_returns(pattern: &str) -> bool {
    ["\r", "\\r", "\\x0d", "\\x0D", "\\x{d}", "\\x{D}", "\\u000d", "\\u000D"]
        .iter()
        .any(|name| pattern.contains(name))
}

fn compile(
    pattern: &str,
    ignore_case: bool,
    multiline: bool,
    names_returns: bool,
) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder.multi_line(true).case_insensitive(ignore_case).dot_matches_new_line(multiline);
    match (multiline, names_returns) {
        (true, _) => {}
        (false, true) => {
            builder.line_terminator(Some(b'\n'));
        }
        // Read shows the lines of a file with CRLF without their carriage returns.
        (false, false) => {
            builder.crlf(true);
        }
    }
    builder.build(pattern).map_err(|error| {
        let hint = if !multiline && pattern.contains("\\n") || pattern.contains('\n') {
            " To match across lines set \"multiline\"."
        } else {
            ""
        };
        ToolError::tell(format!("Parameter \"pattern\" is no regular expression: {error}.{hint}"))
    })
}

fn types(kind: &str) -> Result<Types, ToolError> {
    TypesBuilder::new().add_defaults().select(kind).build().map_err(|_| {
        let kind: String = kind.chars().take(arguments::SUBJECT_CAP).collect();
        ToolError::tell(format!("Parameter \"type\" is not known: {kind}. Use \"glob\" instead."))
    })
}

fn search(
    (workspace, searches): (&Workspace, &Searches),
    wanted: &Wanted,
    places: &[PathBuf],
    token: &CancellationToken,
) -> Result<Output, ToolError> {
    let metadata = refuse_missing(workspace, &wanted.base)?;
    if !metadata.is_dir() {
        regular::refuse_special(workspace, &wanted.base, metadata.file_type())?;
    }
    let listing =
        Listing { left: OUTPUT_CAP - NOTES_ROOM, rows: wanted.rows, ..Listing::default() };
    let left_out = searches.left_out("Grep", &wanted.base);
    regular::refuse_elsewhere(workspace, &wanted.base, &left_out.place(&wanted.base), places)?;
    let task = GrepTask { workspace, left_out: &left_out, wanted, token };
    let mut run = GrepRun::new(task, listing);
    run.search(wanted.scope(&workspace.root).walk(wanted.types.as_ref()))?;
    run.output()
}

/// The rows of an output, as many as fit.
#[derive(Default)]
struct Listing {
    text: String,
    /// Characters that still fit.
    left: usize,
    /// Rows that may still come; `None` for as many as fit.
    rows: Option<u64>,
    listed: u64,
    /// Whether a row was refused.
    more: bool,
}

impl Listing {
    fn push(&mut self, row: &str) {
        let characters = row.chars().count() + 1;
        if self.more || characters > self.left || self.rows == Some(0) {
            self.more = true;
            return;
        }
        self.left -= characters;
        self.rows = self.rows.map(|rows| rows - 1);
        self.listed += 1;
        self.text.push_str(row);
        self.text.push('\n');
    }

    fn text(self, wanted: &Wanted, shown: &str) -> String {
        let Self { mut text, listed, more, .. } = self;
        if listed == 0 && !more {
            let (pattern, dropped) =
                super::bound::first_characters(&wanted.pattern, arguments::SUBJECT_CAP);
            let dots = if dropped > 0 { "…" } else { "" };
            return format!("No match in {shown} for {pattern}{dots}\n");
        }
        if more {
            let what = match wanted.style.mode {
                Mode::Content => "lines",
                Mode::Files | Mode::Count => "files",
            };
            text.push_str(&format!(
                "[The first {listed} {what} are shown; more follow. Narrow the search.]\n"
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::blocking::StoppableFile;
    use crate::tool::testing::Place;

    fn place() -> Place {
        let place = Place::new();
        place.put("b.rs", "fn b() {\n    call();\n}\n");
        place.put("a/deep.rs", "// Call\nfn a() {}\n");
        place.put("a.txt", "call call\nx\ncall\n");
        place
    }

    async fn check(place: &Place, arguments: Value, expected: &str) {
        let text = place.call(&Grep, arguments).await;
        assert_eq!(text.as_deref(), Ok(expected));
    }

    #[tokio::test]
    async fn each_mode_lists_files_lines_or_counts_in_the_order_of_paths() {
        let place = place();
        check(&place, json!({"pattern": "(?i)call"}), "a/deep.rs\na.txt\nb.rs\n").await;
        let content = json!({"pattern": "call", "output_mode": "content"});
        check(&place, content, "a.txt:1:call call\na.txt:3:call\nb.rs:2:    call();\n").await;
        let count = json!({"pattern": "call", "output_mode": "count", "-i": true});
        check(&place, count, "a/deep.rs:1\na.txt:2\nb.rs:1\n").await;
        check(&place, json!({"pattern": "none"}), "No match in . for none\n").await;
    }

    /// The searcher has no type for the error of a line that is too long, only words.
    #[tokio::test]
    async fn a_file_that_does_not_fit_into_memory_is_told() {
        const LARGE: usize = 17 * 1024 * 1024;
        let place = Place::new();
        place.put("a.txt", "x".repeat(LARGE));
        place.put("b.txt", "a hit\n");
        let expected =
            "b.txt\n[a.txt is too large to be searched this way; use `grep`.]\n".to_owned();
        check(&place, json!({"pattern": "hit"}), &expected).await;
        check(&place, json!({"pattern": "hit", "multiline": true}), &expected).await;
        // Each line fits.
        place.put("a.txt", "x\n".repeat(LARGE / 2) + "hit\n");
        check(&place, json!({"pattern": "hit"}), "a.txt\nb.txt\n").await;
        check(&place, json!({"pattern": "hit", "multiline": true}), &expected).await;
    }

    #[tokio::test]
    async fn path_glob_and_type_narrow_the_search() {
        let place = place();
        let search = |name: &str, value: &str| json!({"pattern": "(?i)call", name: value});
        check(&place, search("path", "a"), "a/deep.rs\n").await;
        check(&place, search("path", "b.rs"), "b.rs\n").await;
        check(&place, search("glob", "*.rs"), "a/deep.rs\nb.rs\n").await;
        check(&place, search("glob", "!*.rs"), "a.txt\n").await;
        check(&place, search("glob", "a/**"), "a/deep.rs\n").await;
        check(&place, search("type", "rust"), "a/deep.rs\nb.rs\n").await;
    }

    #[tokio::test]
    async fn what_a_rule_denies_is_not_searched_from_wherever_a_search_starts() {
        let place = Place::with_deny_rules(&["Read(keys/**)", "Grep(**/*.pem)", "Glob(**/*.rs)"]);
        for name in ["a.rs", "keys/a", "keys/deep/b", "lib/c.pem"] {
            place.put(name, "hit");
        }
        let one = "[1 file is left out, because a permission rule denies it.]\n";
        let three = "[3 files are left out, because permission rules deny them.]\n";
        check(&place, json!({"pattern": "hit"}), &format!("a.rs\n{three}")).await;
        let search = |path: &str| json!({"pattern": "hit", "path": path});
        let none = |path: &str, note: &str| format!("No match in {path} for hit\n{note}");
        check(&place, search("lib"), &none("lib", one)).await;
        check(&place, search("keys/deep"), &none("keys/deep", one)).await;
        std::os::unix::fs::symlink("keys", place.path("link")).unwrap();
        check(&place, search("link/deep"), &none("link/deep", one)).await;
    }

    #[tokio::test]
    async fn context_is_shown_as_by_grep() {
        let place = Place::new();
        place.put("a", "1\n2\nhit\n4\n5\n6\n7\nhit\n");
        let content = |name: &str, lines: Value| json!({"pattern": "hit", "output_mode": "content", name: lines});
        check(&place, content("-A", json!("1")), "a:3:hit\na-4-4\n--\na:8:hit\n").await;
        let around = "a-2-2\na:3:hit\na-4-4\n--\na-7-7\na:8:hit\n";
        check(&place, content("-C", json!(1)), around).await;
        check(&place, content("-B", json!(1)), "a-2-2\na:3:hit\n--\na-7-7\na:8:hit\n").await;
        check(&place, content("-n", json!(false)), "a:hit\na:hit\n").await;
    }

    #[tokio::test]
    async fn a_match_may_span_lines_if_asked() {
        let place = place();
        let pattern = json!({"pattern": r"\{.*\}", "output_mode": "content", "multiline": true});
        let expected = "a/deep.rs:2:fn a() {}\nb.rs:1:fn b() {\nb.rs:2:    call();\nb.rs:3:}\n";
        check(&place, pattern, expected).await;
        let refused = place.call(&Grep, json!({"pattern": r"a\nb"})).await.unwrap_err();
        assert!(refused.ends_with(" To match across lines set \"multiline\"."), "{refused}");
    }

    #[tokio::test]
    async fn ignored_hidden_and_binary_files_are_left_out() {
        let place = Place::new();
        for name in ["target/a", ".hidden/b", ".git/c", "d"] {
            place.put(name, "hit\n");
        }
        place.put(".gitignore", "target\n");
        place.put("binary", "hit\0\n");
        place.put("late", ["hit\n".repeat(50_000).as_bytes(), b"\0"].concat());
        let notes = "[Left out: 1 file that git ignores, 2 hidden files. Set \"include_ignored\": \
                     true to include them.]\n\
                     [binary is a binary file and was not searched; `grep -a` would.]\n\
                     [late is binary from byte 200000 on; the matches before it are shown.]\n";
        let count = json!({"pattern": "hit", "output_mode": "count"});
        check(&place, count, &format!("d:1\nlate:50000\n{notes}")).await;
        check(&place, json!({"pattern": "hit", "glob": ".hidden/*"}), ".hidden/b\n").await;
        check(&place, json!({"pattern": "hit", "path": ".hidden"}), ".hidden/b\n").await;
    }

    #[tokio::test]
    async fn head_limit_and_the_cap_bound_the_output_and_it_says_that_more_follows() {
        let place = Place::new();
        place.put("a", "hit\n".repeat(10_000));
        place.put("b", "hit\n");
        let two = json!({"pattern": "hit", "output_mode": "content", "head_limit": 2});
        let expected =
            "a:1:hit\na:2:hit\n[The first 2 lines are shown; more follow. Narrow the search.]\n";
        check(&place, two, expected).await;
        let one = json!({"pattern": "hit", "head_limit": "1"});
        let expected = "a\n[The first 1 files are shown; more follow. Narrow the search.]\n";
        check(&place, one, expected).await;
        check(&place, json!({"pattern": "hit", "head_limit": 2}), "a\nb\n").await;
        let all = json!({"pattern": "hit", "output_mode": "content", "head_limit": 0});
        let text = place.call(&Grep, all).await.unwrap();
        assert!(text.chars().count() <= OUTPUT_CAP);
        assert!(text.ends_with(" are shown; more follow. Narrow the search.]\n"));
    }

    #[tokio::test]
    async fn a_long_line_is_cut() {
        let place = Place::new();
        place.put("a", "ß".repeat(507));
        let expected = format!("a:1:{} [... 7 more characters]\n", "ß".repeat(500));
        check(&place, json!({"pattern": "ß", "output_mode": "content"}), &expected).await;
    }

    #[tokio::test]
    async fn calls_that_cannot_be_answered_are_refused_in_words() {
        let place = Place::new();
        nix::unistd::mkfifo(&place.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mode =
            "Parameter \"output_mode\" must be \"files_with_matches\", \"content\" or \"count\".";
        for (arguments, expected) in [
            (json!({}), "Parameter \"pattern\" must be a non-empty string."),
            (json!({"pattern": "x", "path": "none"}), "There is no file or directory none."),
            (json!({"pattern": "x", "path": "pipe"}), "pipe is a named pipe, not a regular file."),
            (json!({"pattern": "x", "output_mode": "lines"}), mode),
            (
                json!({"pattern": "x", "type": "klingon"}),
                "Parameter \"type\" is not known: klingon. Use \"glob\" instead.",
            ),
        ] {
            assert_eq!(place.call(&Grep, arguments).await.unwrap_err(), expected);
        }
        let refused = place.call(&Grep, json!({"pattern": "(a"})).await.unwrap_err();
        assert!(refused.starts_with("Parameter \"pattern\" is no regular expression: "));
        assert!(refused.contains("unclosed group"), "{refused}");
    }

    #[test]
    fn a_search_begins_where_the_call_was_judged_or_nowhere() {
        let place = place();
        std::os::unix::fs::symlink("a", place.path("link")).unwrap();
        let wanted = Wanted::parse(place.root(), json!({"pattern": "call", "path": "link"}));
        let token = CancellationToken::new();
        let judged = [place.path("a").canonicalize().unwrap()];
        let within = (&*place.workspace, &place.context.searches);
        let search = || search(within, wanted.as_ref().unwrap(), &judged, &token);
        assert!(search().is_ok());
        std::fs::remove_file(place.path("link")).unwrap();
        std::os::unix::fs::symlink("/etc", place.path("link")).unwrap();
        let Err(ToolError::TellModel { message }) = search() else { panic!("it is refused") };
        assert!(message.starts_with("link now leads to /etc, not where it led"), "{message}");
    }

    #[test]
    fn a_search_stops_when_its_token_has_fired() {
        let place = place();
        let wanted = Wanted::parse(place.root(), json!({"pattern": "x"})).unwrap();
        let token = CancellationToken::new();
        token.cancel();
        let within = (&*place.workspace, &place.context.searches);
        let stopped = search(within, &wanted, &[place.root().to_owned()], &token);
        assert!(matches!(stopped, Err(ToolError::Cancelled { .. })));
        let listing = Listing { left: 100, ..Listing::default() };
        let file = std::fs::File::open(place.path("b.rs")).unwrap();
        let file = StoppableFile { file, token: &token };
        assert!(hits::FileSearcher::new(&wanted).search(file, "b.rs", &listing).is_err());
    }

    /// Hits, binary files, links, ignored and hidden files, over several batches.
    fn large_place() -> Place {
        let place = Place::with_deny_rules(&["Read(d3/secret*)"]);
        for number in 0..1_500 {
            let text = if number % 7 == 0 { "hit one\nno\nhit two\n" } else { "no\n" };
            place.put(&format!("d{}/f{number}.txt", number % 9), text);
        }
        for number in 0..40 {
            place.put(&format!("d{}/secret{number}", number % 9), "hit\n");
            place.put(&format!("d{}/b{number}", number % 9), "hit\0\n");
            place.put(&format!("d{}/.h{number}", number % 9), "hit\n");
            place.put(&format!("out/{number}"), "hit\n");
        }
        place.put(".gitignore", "out/\n");
        std::os::unix::fs::symlink("/etc", place.path("d4/link")).unwrap();
        place
    }

    #[test]
    fn the_result_is_the_same_with_any_number_of_threads() {
        let place = large_place();
        for arguments in [
            json!({"pattern": "hit"}),
            json!({"pattern": "nothing has this"}),
            json!({"pattern": "hit", "output_mode": "content", "-C": 1, "head_limit": 0}),
            json!({"pattern": "hit", "output_mode": "count", "head_limit": 90}),
            json!({"pattern": "one\nno", "multiline": true, "output_mode": "content"}),
            json!({"pattern": "hit", "glob": "*5*", "include_ignored": true}),
            json!({"pattern": "hit", "head_limit": 1}),
        ] {
            let wanted = Wanted::parse(place.root(), arguments.clone()).unwrap();
            let token = CancellationToken::new();
            let workspace = &*place.workspace;
            let left_out = place.context.searches.left_out("Grep", &wanted.base);
            let output = |threads: usize| {
                let task =
                    GrepTask { workspace, left_out: &left_out, wanted: &wanted, token: &token };
                let listing = Listing {
                    left: OUTPUT_CAP - NOTES_ROOM,
                    rows: wanted.rows,
                    ..Listing::default()
                };
                let mut run = GrepRun::new(task, listing).with_threads(threads);
                run.search(wanted.scope(&workspace.root).walk(None)).unwrap();
                run.output().unwrap().text
            };
            let alone = output(1);
            assert!(alone.len() > 20, "{alone}");
            for threads in [2, 3, 8, 2, 3, 8] {
                assert_eq!(output(threads), alone, "{threads} threads, {arguments}");
            }
        }
    }
}
