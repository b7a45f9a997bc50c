//! Colours for code and what changed in files, found beside the screen.
//!
//! A thread reads lines of code and says which ink each part of them is. It may
//! take its time, or fail on hostile code: whoever waits for it does so for a
//! bounded time and shows the line plain. Its syntaxes are loaded on it, when
//! the first line comes. Files are read by what the caller gives it.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock};
use std::thread;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::Ink;
use crate::event::FileChange;
use crate::report::caught::caught;
use crate::report::difference::{BothSides, difference, not_shown};
use crate::report::row::{CodeBlock, Row};

/// Most columns of a line that gets colours: longer ones are data.
const LINE_CAP: usize = 400;

/// Most lines that wait for the thread. More than a screen holds need no
/// colours by the time they have them.
const QUEUE_CAP: usize = 1_024;

/// Most blocks whose state is kept. They end without a word, so the oldest go.
const BLOCKS_CAP: usize = 16;

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(SyntaxSet::load_defaults_newlines);

/// Rows that were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coloured {
    /// The number that they were asked for with.
    pub number: u64,
    /// A line of code; or a change, or why that cannot be shown.
    pub rows: Vec<Row>,
}

/// Something on its way to the thread.
struct Job {
    number: u64,
    what: Task,
}

enum Task {
    Line { block: Arc<CodeBlock>, text: String },
    Change { change: Arc<FileChange>, is_whole: bool },
}

/// Returns what a file held before and after a change; `None` where that cannot
/// be told any more.
pub type ReadSides = dyn FnMut(&FileChange) -> Option<BothSides> + Send;

/// The thread that colours code and finds what changed.
pub struct Highlighter {
    jobs: SyncSender<Job>,
}

impl Highlighter {
    /// Starts the thread, which reads with `read` and hands rows to `deliver`.
    ///
    /// # Errors
    ///
    /// If there can be no thread.
    pub fn start(
        read: Box<ReadSides>,
        deliver: impl FnMut(Coloured) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (jobs, waiting) = sync_channel(QUEUE_CAP);
        let work = move || work_on_all(&waiting, read, deliver);
        thread::Builder::new().name("ink".to_owned()).spawn(work)?;
        Ok(Self { jobs })
    }

    /// Sends a row that is a line of code; tells whether it may come back. It
    /// does not if it is none or too much waits already.
    #[must_use]
    pub fn send_line(&self, number: u64, row: &Row) -> bool {
        let Some(block) = row.code() else { return false };
        let what = Task::Line { block: Arc::clone(block), text: row.plain() };
        self.jobs.try_send(Job { number, what }).is_ok()
    }

    /// Sends a change of a file; tells whether it may come back.
    #[must_use]
    pub fn send_change(&self, number: u64, change: &Arc<FileChange>, is_whole: bool) -> bool {
        let what = Task::Change { change: Arc::clone(change), is_whole };
        self.jobs.try_send(Job { number, what }).is_ok()
    }
}

fn work_on_all(
    waiting: &Receiver<Job>,
    mut read: Box<ReadSides>,
    mut deliver: impl FnMut(Coloured),
) {
    let mut pens: HashMap<u64, Option<Pen>> = HashMap::new();
    for Job { number, what } in waiting {
        let rows = match what {
            Task::Line { block, text } => vec![coloured(&mut pens, &block, &text)],
            Task::Change { change, is_whole } => match read(&change) {
                Some(sides) => difference(&sides, is_whole),
                None => vec![not_shown("the file is very large or has changed since")],
            },
        };
        deliver(Coloured { number, rows });
    }
}

fn coloured(pens: &mut HashMap<u64, Option<Pen>>, block: &Arc<CodeBlock>, text: &str) -> Row {
    if pens.len() >= BLOCKS_CAP
        && !pens.contains_key(&block.number)
        && let Some(&oldest) = pens.keys().min()
    {
        pens.remove(&oldest);
    }
    let pen = pens.entry(block.number).or_insert_with(|| Pen::new(&block.language));
    let Some(pen) = pen else { return Row::new().text(Ink::Plain, text) };
    pen.line(text).iter().fold(Row::new(), |row, (ink, part)| row.text(*ink, part))
}

/// Reads the lines of one block of code.
pub struct Pen {
    /// `None` after it failed: from then on lines are plain.
    state: Option<(ParseState, ScopeStack)>,
}

impl Pen {
    /// Returns what reads this language; `None` if it is not known.
    #[must_use]
    pub fn new(language: &str) -> Option<Self> {
        let syntax = syntax(language)?;
        Some(Self { state: Some((ParseState::new(syntax), ScopeStack::new())) })
    }

    /// Returns the parts of the next line, which together are the line.
    pub fn line(&mut self, text: &str) -> Vec<(Ink, String)> {
        let plain = || vec![(Ink::Plain, text.to_owned())];
        if text.chars().nth(LINE_CAP).is_some() {
            return plain();
        }
        let Some((mut parser, mut stack)) = self.state.take() else { return plain() };
        // Code is written by anyone, and some of it has brought parsers down.
        let read = caught(|| {
            let parts = parts(text, &mut parser, &mut stack)?;
            Some((parts, (parser, stack)))
        });
        match read.flatten() {
            Some((parts, state)) => {
                self.state = Some(state);
                parts
            }
            None => plain(),
        }
    }
}

fn parts(
    text: &str,
    parser: &mut ParseState,
    stack: &mut ScopeStack,
) -> Option<Vec<(Ink, String)>> {
    let line = format!("{text}\n");
    let changes = parser.parse_line(&line, &SYNTAXES).ok()?;
    let mut parts: Vec<(Ink, String)> = Vec::new();
    let mut put = |ink: Ink, part: &str| match parts.last_mut() {
        _ if part.is_empty() => {}
        Some((last, text)) if *last == ink => text.push_str(part),
        _ => parts.push((ink, part.to_owned())),
    };
    let mut from = 0;
    for (at, change) in changes {
        let at = at.min(text.len());
        put(ink(stack), text.get(from..at)?);
        from = at;
        stack.apply(&change).ok()?;
    }
    put(ink(stack), text.get(from..)?);
    Some(parts)
}

/// The beginnings of scopes and what they mean; the first that fits counts.
static SCOPES: LazyLock<Vec<(Scope, Ink)>> = LazyLock::new(|| {
    [
        ("comment", Ink::Comment),
        ("string", Ink::Quoted),
        ("markup.inserted", Ink::Added),
        ("markup.deleted", Ink::Removed),
        ("constant", Ink::Constant),
        ("keyword.operator", Ink::Plain),
        ("keyword", Ink::Keyword),
        ("storage", Ink::Keyword),
        ("variable.language", Ink::Keyword),
        ("entity.name.tag", Ink::Attribute),
        ("entity.other.attribute-name", Ink::Attribute),
        ("meta.annotation", Ink::Attribute),
        ("support.macro", Ink::Attribute),
        ("entity.name.function", Ink::Function),
        ("support.function", Ink::Function),
        ("variable.function", Ink::Function),
        ("entity.name", Ink::Type),
        ("entity.other.inherited-class", Ink::Type),
        ("support.type", Ink::Type),
        ("support.class", Ink::Type),
    ]
    .into_iter()
    .filter_map(|(scope, ink)| Some((Scope::new(scope).ok()?, ink)))
    .collect()
});

/// Returns what the innermost scope that means anything means.
fn ink(stack: &ScopeStack) -> Ink {
    let meaning = |scope: &Scope| {
        SCOPES.iter().find(|(beginning, _)| beginning.is_prefix_of(*scope)).map(|(_, ink)| *ink)
    };
    stack.scopes.iter().rev().find_map(meaning).unwrap_or_default()
}

fn syntax(language: &str) -> Option<&'static SyntaxReference> {
    let word = language.split([' ', ',', '{', ':']).next().unwrap_or_default();
    let word = word.to_ascii_lowercase();
    // The set lacks these; what they are read as is close enough for colours.
    let known = match &*word {
        "ts" | "tsx" | "typescript" | "jsx" => "js",
        "toml" | "ini" | "conf" => "properties",
        "jsonc" | "json5" => "json",
        "console" | "shell" | "zsh" => "sh",
        "" | "text" | "txt" | "plain" => return None,
        other => other,
    };
    SYNTAXES.find_syntax_by_token(known)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::event::ChangedBy;

    #[track_caller]
    fn check(language: &str, line: &str, expected: &[(Ink, &str)]) {
        let parts = Pen::new(language).unwrap().line(line);
        let parts: Vec<(Ink, &str)> = parts.iter().map(|(ink, text)| (*ink, &**text)).collect();
        assert_eq!(parts, expected);
    }

    #[test]
    fn code_is_told_apart_by_what_it_means() {
        check(
            "rust",
            "let x = \"a\"; // b",
            &[
                (Ink::Keyword, "let"),
                (Ink::Plain, " x = "),
                (Ink::Quoted, "\"a\""),
                (Ink::Plain, "; "),
                (Ink::Comment, "// b"),
            ],
        );
        check("diff", "+new", &[(Ink::Added, "+new")]);
        check("toml", "a = 1", &[(Ink::Keyword, "a "), (Ink::Plain, "= 1")]);
    }

    #[test]
    fn a_comment_goes_on_in_the_next_line() {
        let mut pen = Pen::new("rs").unwrap();
        pen.line("/* a");
        assert_eq!(pen.line("b"), [(Ink::Comment, "b".to_owned())]);
    }

    #[test]
    fn languages_that_the_set_lacks_are_read_as_others() {
        let known = ["ts", "tsx", "toml", "jsonc", "Rust", "python", "sh", "rust,ignore"];
        assert_eq!(known.map(|language| Pen::new(language).is_some()), [true; 8]);
        assert!(Pen::new("no such").is_none() && Pen::new("").is_none());
    }

    #[test]
    fn a_line_that_is_data_stays_plain() {
        let long = "let ".repeat(200);
        check("rust", &long, &[(Ink::Plain, &long)]);
    }

    #[test]
    fn lines_come_back_with_their_numbers_in_order() {
        let (sender, receiver) = mpsc::channel();
        let deliver = move |coloured: Coloured| {
            // A test that is over needs it no more.
            let _ = sender.send(coloured);
        };
        let read = |_: &FileChange| Some(BothSides { before: Vec::new(), after: b"x\n".into() });
        let highlighter = Highlighter::start(Box::new(read), deliver).unwrap();
        let block = Arc::new(CodeBlock { number: 1, language: "rust".into() });
        let row = |text: &str| Row::new().text(Ink::Plain, text);
        assert!(highlighter.send_line(7, &row("fn").in_code(&block)));
        let change = FileChange {
            by: ChangedBy::Call("c".into()),
            path: "x".into(),
            before: None,
            after: None,
            directories: 0,
        };
        assert!(highlighter.send_change(8, &Arc::new(change), false));
        assert!(!highlighter.send_line(9, &row("x")));
        let next = || receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        let keyword = Row::new().text(Ink::Keyword, "fn");
        assert_eq!(next(), Coloured { number: 7, rows: vec![keyword] });
        let changed = next();
        assert_eq!((changed.number, changed.rows[1].plain()), (8, "  1 + x".to_owned()));
    }
}
