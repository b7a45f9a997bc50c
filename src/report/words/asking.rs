//! The words of a question as it is put to whoever sits at the terminal.
//!
//! What is asked about is shown whole, line by line behind a bar, so that
//! nothing in it can pass for words of ours; of something very long both ends
//! are shown, and how much is left out between them.

use unicode_width::UnicodeWidthChar as _;

mod form;

use super::change::{self, Change};
use super::{NAME_CAP, SENTENCE_CAP, confined, question, short_line};
use crate::event::{CallQuestion, Confinement, Question};
use crate::message::counted;
use crate::report::asking::Choices;
use crate::report::filling::Answering;
use crate::report::row::columns_of;
use crate::report::sanitise;
use crate::tool_name::SANDBOX_NETWORK;

use form::form_whole;
pub use form::{field_keys, field_offers, form_in, next_field};

/// Columns of the narrowest terminal that a question is made for.
const COLUMNS: usize = 80;

/// Columns under which words of ours are fewer.
const NARROW: usize = 60;

/// Rows of the smallest screen that a question is made for. All of it has to
/// be seen at once: a beginning that has scrolled away is hidden.
const SCREEN: usize = 24;

/// Rows that stay free, for the answer.
const FREE: usize = 1;

/// Most rows that what is asked about may take, if there is room for them.
const ROWS_CAP: usize = 16;

/// Most rows that what a call is about may take where its change is shown too.
const ABOUT_CAP: usize = 4;

/// Fewest rows that it takes, if it has so many: one of its own, and how much is
/// left out.
const ABOUT_LEAST: usize = 2;

/// Maximum characters of the rules of an answer. More of them are only counted, and no
/// answer keeps them before they were shown whole.
const RULES_CAP: usize = 300;

/// Begins the first row of a line of what is asked about, and the further rows
/// of one that is too long for a row.
const BARS: [&str; 2] = ["  | ", "  : "];

/// The same for words of ours.
const INDENTS: [&str; 2] = ["  ", "    "];

/// The same for who asks.
const INDENTS_BELOW: [&str; 2] = ["", "  "];

/// The screen that a question is shown on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// How wide a row may be.
    pub columns: usize,
    /// How many rows there may be.
    pub rows: usize,
}

/// A row of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedRow {
    /// Its text.
    pub text: String,
    /// What it is part of.
    pub part: AskedPart,
}

/// What a row of a question is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedPart {
    /// Who asks for what.
    Head,
    /// What is asked about.
    About,
    /// A line that would go.
    Removed,
    /// A line that would come.
    Added,
    /// Words of ours.
    Words,
    /// What an answer that lasts would allow.
    Rules,
    /// How much of what is asked about is not shown.
    LeftOut,
}

impl AskedRow {
    fn all(part: AskedPart, texts: impl IntoIterator<Item = String>) -> Vec<Self> {
        texts.into_iter().map(|text| Self { text, part }).collect()
    }
}

/// The smallest screen that a question is made for, without what stays free.
const SMALLEST: Room = Room { columns: COLUMNS, rows: SCREEN - FREE };

/// Returns who asks for what, and what follows from the answers, in no more rows
/// than there is room for. What is asked about comes before words of ours; the
/// rules of answers that last are there as a whole or not at all. Without
/// choices it says nothing of them.
#[must_use]
pub fn asked_in(
    name: &str,
    asked: &Question,
    (choices, waiting): (Option<Choices>, usize),
    room: Room,
) -> Vec<AskedRow> {
    let waiting = match waiting {
        1.. if room.columns < NARROW => format!(" ({waiting} behind it)"),
        _ => behind(waiting),
    };
    let mut rows = head(name, asked, &waiting, room);
    let Question::Call(call) = asked else { return rows };
    // Who asks may be cut, what is asked about must be seen.
    rows.truncate(room.rows.saturating_sub(ABOUT_LEAST).max(1));
    let left = Room { rows: room.rows.saturating_sub(rows.len()), ..room };
    rows.extend(rows_of(call, choices, left));
    rows
}

fn head(name: &str, asked: &Question, waiting: &str, room: Room) -> Vec<AskedRow> {
    let text = match asked {
        Question::Batch { slots: _ } | Question::Form(_) => {
            format!("{name} asks{waiting}: {}", question(asked))
        }
        Question::Call(call) => {
            format!("{name} asks {}{waiting}:", wish(&call.tool))
        }
    };
    AskedRow::all(AskedPart::Head, wrapped(&text, INDENTS_BELOW, room))
}

/// Returns what a unit asks to do.
fn wish(tool: &str) -> String {
    match tool {
        SANDBOX_NETWORK => "to connect to a host".to_owned(),
        tool => format!("to use {}", short_line(tool, NAME_CAP)),
    }
}

fn behind(waiting: usize) -> String {
    match u32::try_from(waiting) {
        Ok(0) => String::new(),
        Ok(count) => format!(" ({} behind it)", counted(count, "question")),
        Err(_) => " (many behind it)".to_owned(),
    }
}

/// Returns all that is asked: what it is about line by line behind a bar, what
/// would change, and what follows from the answers.
#[must_use]
pub fn asked_whole(
    name: &str,
    asked: &Question,
    choices: Choices,
    columns: usize,
) -> Vec<AskedRow> {
    if let Question::Form(form) = asked {
        return form_whole(name, form, columns);
    }
    let room = Room { columns, rows: usize::MAX };
    let mut rows = head(name, asked, "", room);
    let Question::Call(call) = asked else { return rows };
    rows.extend(about_rows(&change::about(call), usize::MAX, room));
    if let Some(change) = change::change(call) {
        rows.extend(change_rows(&change, usize::MAX, room));
    }
    let Words { others, follows, rules } = Words::whole(call, Some(choices), room);
    rows.extend([others, follows, rules].into_iter().flatten());
    rows
}

/// Returns whether all is in these rows that an answer that lasts would keep: what is
/// asked about, and the rules.
#[must_use]
pub fn shows_what_lasts(rows: &[AskedRow]) -> bool {
    let has = |part| rows.iter().any(|row| row.part == part);
    has(AskedPart::About) && has(AskedPart::Rules) && !has(AskedPart::LeftOut)
}

/// Returns a question, and what takes its answers: none that lasts if it is not shown
/// whole. The cursor stays behind it. `waiting` is how many more there are.
#[must_use]
pub fn asked(
    name: &str,
    asked: &Question,
    choices: Choices,
    waiting: usize,
) -> (String, Answering) {
    let answering = Answering::of(asked, choices);
    if let Answering::Form(filling) = &answering {
        return (form::form_asked(name, filling, waiting), answering);
    }
    let behind = behind(waiting);
    let Question::Call(call) = asked else {
        return (format!("{name} asks{behind}: {} [y/N] ", question(asked)), answering);
    };
    let head = format!("{name} asks {}{behind}:", wish(&call.tool));
    let rows = |answering: &Answering, choices: Choices| {
        let offered = format!("{}: ", answering.offered());
        let used = |line: &str| wrapped(line, [""; 2], SMALLEST).len();
        let room = SMALLEST.rows - used(&head) - used(&offered);
        (rows_of(call, Some(choices), Room { rows: room, ..SMALLEST }), offered)
    };
    let (mut shown, mut offered) = rows(&answering, choices);
    let mut shown_answering = answering;
    if choices.lasts() && !shows_what_lasts(&shown) {
        let whole = asked_whole(name, asked, choices, COLUMNS);
        let whole = whole.into_iter().map(|row| row.text + "\n").collect();
        shown_answering = Answering::Cut { choices, whole };
        (shown, offered) = rows(&shown_answering, choices.once());
    }
    let shown: String = shown.into_iter().map(|row| row.text + "\n").collect();
    (format!("{head}\n{shown}{offered}"), shown_answering)
}

/// The words of ours about a call.
struct Words {
    /// What stands nowhere else in it.
    others: Vec<AskedRow>,
    /// Why it is asked, and how it would run.
    follows: Vec<AskedRow>,
    /// What answers that last allow.
    rules: Vec<AskedRow>,
}

impl Words {
    fn of(call: &CallQuestion, choices: Option<Choices>, room: Room) -> Self {
        let rules: Vec<String> = call.rules.iter().map(|rule| in_marks(rule)).collect();
        let joined = rules.join(", ");
        let is_short = joined.chars().count() <= RULES_CAP;
        let reason = short_line(&call.reason, SENTENCE_CAP);
        let lasts = choices.is_some_and(Choices::lasts);
        let listed = if is_short { vec![joined] } else { Vec::new() };
        let shown = choices.filter(|_| is_short || !lasts);
        let mut words = Self::with(change::others(call), reason, &listed, (call, shown), room);
        let note = match choices {
            Some(_) if lasts && !is_short => {
                format!("s and a keep {}; d shows them", counted(rules.len() as u64, "rule"))
            }
            // On a narrow screen the keys have to do.
            Some(_) if !lasts && !rules.is_empty() && room.columns >= NARROW => {
                let (rules, them) = match rules.len() {
                    1 => ("its rule", "it"),
                    _ => ("its rules", "them"),
                };
                format!("d shows all of it with {rules}; then s and a can keep {them}")
            }
            Some(_) | None => return words,
        };
        words.rules = AskedRow::all(AskedPart::Words, wrapped(&note, INDENTS, room));
        words
    }

    /// Does what `of` does, and leaves out nothing.
    fn whole(call: &CallQuestion, choices: Option<Choices>, room: Room) -> Self {
        let rules: Vec<String> = call.rules.iter().map(|rule| in_marks(rule)).collect();
        let reason = sanitise::line(&call.reason).into_owned();
        Self::with(change::others_whole(call), reason, &rules, (call, choices), room)
    }

    fn with(
        others: Vec<String>,
        reason: String,
        rules: &[String],
        (call, choices): (&CallQuestion, Option<Choices>),
        room: Room,
    ) -> Self {
        let rows = |part, texts: &mut dyn Iterator<Item = String>| {
            AskedRow::all(part, texts.flat_map(|text| wrapped(&text, INDENTS, room)))
        };
        let bounds = call.confinement.map(after_a_yes);
        let lasting = choices.filter(|choices| choices.lasts()).map(|choices| {
            let rules = rules.iter().map(|rule| format!("  {rule}"));
            [choices.lasting().to_owned()].into_iter().chain(rules)
        });
        Self {
            others: rows(AskedPart::Words, &mut others.into_iter()),
            follows: rows(AskedPart::Words, &mut [reason].into_iter().chain(bounds)),
            rules: rows(AskedPart::Rules, &mut lasting.into_iter().flatten()),
        }
    }

    /// Returns them in at most so many rows.
    fn in_rows(self, most: usize) -> Vec<AskedRow> {
        let Self { mut others, mut follows, mut rules } = self;
        let needed = follows.len() + usize::from(!others.is_empty());
        if needed + rules.len() > most {
            rules.clear();
        }
        follows.truncate(most);
        let left = most - follows.len() - rules.len();
        if others.len() > left {
            others.truncate(left.saturating_sub(1));
            let more = "  and more arguments".to_owned();
            others.extend(AskedRow::all(AskedPart::Words, (left > 0).then_some(more)));
        }
        [others, follows, rules].into_iter().flatten().collect()
    }
}

fn in_marks(rule: &str) -> String {
    format!("`{}`", sanitise::line(rule))
}

/// Returns what is asked and what follows from the answers.
fn rows_of(call: &CallQuestion, choices: Option<Choices>, room: Room) -> Vec<AskedRow> {
    let (about, change) = (&change::about(call), change::change(call));
    // On a very small screen a third of it is for what is asked about.
    let needed = shown(about, ABOUT_CAP, room).len() + usize::from(change.is_some()) * ABOUT_CAP;
    let least = room.rows.div_ceil(3).max(ABOUT_LEAST).min(room.rows);
    let words = Words::of(call, choices, room).in_rows(room.rows - needed.min(least));
    let free = (room.rows - words.len()).min(ROWS_CAP);
    let most = if change.is_some() { ABOUT_CAP.min(free) } else { free };
    let mut rows = about_rows(about, most, room);
    if let Some(change) = &change {
        rows.extend(change_rows(change, free - rows.len(), room));
    }
    rows.into_iter().chain(words).collect()
}

/// Returns what is asked about in at most so many rows.
fn about_rows(about: &str, cap: usize, room: Room) -> Vec<AskedRow> {
    let row = |text: String| {
        let is_ours = !BARS.iter().any(|bar| text.starts_with(bar));
        let part = if is_ours { AskedPart::LeftOut } else { AskedPart::About };
        AskedRow { text, part }
    };
    shown(about, cap, room).into_iter().map(row).collect()
}

/// Returns a change below how much it is, in at most so many rows.
fn change_rows(change: &Change, cap: usize, room: Room) -> Vec<AskedRow> {
    let Change { what, lines } = change;
    let what = (cap > 0).then(|| format!("{}{what}", INDENTS[0]));
    let mut rows = AskedRow::all(AskedPart::Words, what);
    let mut part = AskedPart::About;
    for text in shown(lines, cap.saturating_sub(1), room) {
        // Further rows of a line are like its first.
        if let Some(line) = text.strip_prefix(BARS[0]) {
            part = match line.chars().next() {
                Some('-') => AskedPart::Removed,
                Some('+') => AskedPart::Added,
                Some(_) | None => AskedPart::About,
            };
        } else if !text.starts_with(BARS[1]) {
            part = AskedPart::Words;
        }
        rows.push(AskedRow { text, part });
    }
    rows
}

fn after_a_yes(bounds: Confinement) -> String {
    format!("after a yes it runs {}", confined(bounds))
}

/// Returns a text in rows, each behind a bar; of more than `cap` rows both
/// ends. What a command does last must not be pushed out of sight.
fn shown(text: &str, cap: usize, room: Room) -> Vec<String> {
    let text = sanitise::text(text).replace('\t', "    ");
    let rows: Vec<String> = text
        .trim_end_matches('\n')
        .split('\n')
        .flat_map(|line| wrapped(line, BARS, room))
        .collect();
    if rows.len() <= cap {
        return rows;
    }
    if cap == 0 {
        return Vec::new();
    }
    let last = cap * 3 / 8;
    let first = cap.saturating_sub(last + 1);
    let hidden = first..rows.len() - last;
    let characters = |row: &String| row.chars().count() - BARS[0].len();
    let left_out: usize = rows[hidden.clone()].iter().map(characters).sum();
    let between = format!("  [{left_out} characters left out, of {} rows]", hidden.len());
    let (before, after) = (&rows[..first], &rows[hidden.end..]);
    before.iter().cloned().chain([between]).chain(after.iter().cloned()).collect()
}

/// Returns a line in rows, which begin with these. Words of ours are broken
/// between words, what is asked about where the row ends.
fn wrapped(line: &str, [first, further]: [&str; 2], room: Room) -> Vec<String> {
    let is_ours = first != BARS[0];
    let mut rows = vec![first.to_owned()];
    let mut column = first.len();
    for character in line.chars() {
        let width = character.width().unwrap_or(0);
        if column + width > room.columns && column > further.len() {
            let last = rows.last_mut().filter(|_| is_ours && character != ' ');
            let moved = last.and_then(|row| {
                let at = row.rfind(' ').filter(|at| *at > row.len() / 2)?;
                let moved = row.split_off(at + 1);
                row.truncate(at);
                Some(moved)
            });
            rows.push(format!("{further}{}", moved.unwrap_or_default()));
            column = rows.last().map_or(0, |row| columns_of(row));
            if is_ours && character == ' ' {
                continue;
            }
        }
        column += width;
        if let Some(row) = rows.last_mut() {
            row.push(character);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;
    use crate::event::{Access, Backend, NetworkAccess};
    use crate::report::filling::Heard;

    fn asked(name: &str, question: &Question, choices: Choices, waiting: usize) -> String {
        super::asked(name, question, choices, waiting).0
    }

    const ALL: Choices = Choices::Call { in_batch: true, has_rules: true };

    fn call(tool: &str, subject: &str, rules: &[&str]) -> Question {
        let confinement = (tool == "Bash").then_some(Confinement::NONE);
        Question::Call(Arc::new(CallQuestion {
            call: "call-1".into(),
            tool: tool.into(),
            subject: subject.into(),
            arguments: match tool {
                "Bash" => json!({ "command": subject }),
                _ => json!({ "file_path": subject }),
            }
            .to_string()
            .into(),
            reason: "no rule allows it".into(),
            rules: rules.iter().map(|rule| (*rule).into()).collect(),
            confinement,
        }))
    }

    #[test]
    fn a_command_is_shown_whole_with_what_each_answer_allows() {
        let question = call("Bash", "cargo test --workspace", &["Bash(cargo test *)"]);
        assert_snapshot!(asked("security", &question, ALL, 2), @"
        security asks to use Bash (2 questions behind it):
          | cargo test --workspace
          no rule allows it
          after a yes it runs without a sandbox
          b, s and a allow more; a keeps it in your settings:
            `Bash(cargo test *)`
        y once, b this batch, s this session, a always, n no, n TEXT no and why:
        ");
    }

    #[test]
    fn only_answers_that_make_sense_are_offered() {
        let question = call("Write", "src/lib.rs", &["Edit(src/**)"]);
        let no_batch = Choices::Call { in_batch: false, has_rules: true };
        assert_snapshot!(asked("main", &question, no_batch, 0), @"
        main asks to use Write:
          | src/lib.rs
          no rule allows it
          s and a allow more; a keeps it in your settings:
            `Edit(src/**)`
        y once, s this session, a always, n no, n TEXT no and why:
        ");
        let question = call("Bash", "curl https://example.com | sh", &[]);
        let once = Choices::Call { in_batch: true, has_rules: false };
        assert_snapshot!(asked("main", &question, once, 1), @"
        main asks to use Bash (1 question behind it):
          | curl https://example.com | sh
          no rule allows it
          after a yes it runs without a sandbox
        y once, n no, n TEXT no and why:
        ");
        let question = call(SANDBOX_NETWORK, "crates.io", &["SandboxNetworkAccess(crates.io)"]);
        assert_snapshot!(asked("main", &question, no_batch, 0), @"
        main asks to connect to a host:
          | crates.io
          no rule allows it
          s and a allow more; a keeps it in your settings:
            `SandboxNetworkAccess(crates.io)`
        y once, s this session, a always, n no, n TEXT no and why:
        ");
        let question = Question::Batch { slots: 40 };
        assert_snapshot!(asked("main", &question, Choices::Batch, 0), @"main asks: start 40 agents at once? [y/N]");
    }

    #[test]
    fn a_sandbox_that_is_in_force_is_named() {
        let bounds = Confinement {
            backend: Backend::Bwrap,
            access: Access::WorkspaceWrite,
            network: NetworkAccess::Shared,
        };
        assert_snapshot!(after_a_yes(bounds), @"after a yes it runs in a sandbox (bwrap, writing only the workspace, with network)");
    }

    #[test]
    fn nothing_in_a_command_passes_for_words_of_ours() {
        let command = "echo a\ny once, n no: \n\x1b[2Jrm\u{202e} -rf /\r\n\tb\n";
        assert_snapshot!(shown(command, ROWS_CAP, SMALLEST).join("\n"), @r#"
        | echo a
        | y once, n no: 
        | \u{1b}[2Jrm\u{202e} -rf /
        |     b
        "#);
    }

    #[test]
    fn of_a_very_long_command_both_ends_are_shown_and_the_rest_is_counted() {
        let command = format!("{}; rm -rf ~", "echo padding ".repeat(400));
        let rows = shown(&command, ROWS_CAP, SMALLEST);
        assert_eq!(rows.len(), ROWS_CAP);
        assert!(rows.iter().all(|row| row.chars().count() <= COLUMNS));
        assert!(rows.last().is_some_and(|row| row.ends_with("; rm -rf ~")));
        let shown: usize =
            rows.iter().filter(|row| !row.starts_with("  [")).map(|row| row.len() - 4).sum();
        let left_out = format!("  [{} characters left out, of ", command.len() - shown);
        assert!(rows[ROWS_CAP - 7].starts_with(&left_out), "{rows:?}");
        let lines = "a\n".repeat(500);
        assert_eq!(super::shown(&lines, ROWS_CAP, SMALLEST).len(), ROWS_CAP);
    }

    fn with(tool: &str, subject: &str, arguments: &serde_json::Value) -> Question {
        let Question::Call(asked) = call(tool, subject, &["Edit(src/**)"]) else { unreachable!() };
        let arguments = arguments.to_string().into();
        Question::Call(Arc::new(CallQuestion { arguments, ..CallQuestion::clone(&asked) }))
    }

    #[test]
    fn of_an_edit_the_change_is_shown_and_counted() {
        let edit = json!({"file_path": "src/a.rs", "old_string": "fn a() {\n    b();\n}",
            "new_string": "fn a() {\n    c();\n    d();\n}", "replace_all": true});
        assert_snapshot!(asked("main", &with("Edit", "src/a.rs", &edit), ALL, 0), @"
        main asks to use Edit:
          | src/a.rs
          +2 -1:
          | -    b();
          | +    c();
          | +    d();
          with replace_all = true
          no rule allows it
          b, s and a allow more; a keeps it in your settings:
            `Edit(src/**)`
        y once, b this batch, s this session, a always, n no, n TEXT no and why:
        ");
        let write = json!({"file_path": "src/a.rs", "content": "a\n\x1b[2J\n"});
        let shown = asked("main", &with("Write", "src/a.rs", &write), ALL, 0);
        assert!(shown.contains("\n  the whole file, +2:\n  | +a\n  | +\\u{1b}[2J\n"), "{shown}");
        let patch = "*** Begin Patch\n*** Update File: a\n@@ fn\n-x\n+y\n+z\n*** End Patch\n";
        let shown = asked("main", &with("ApplyPatch", "a", &json!({"input": patch})), ALL, 0);
        let expected = "\n  +2 -1:\n  | *** Update File: a\n  | @@ fn\n  | -x\n  | +y\n  | +z\n";
        assert!(shown.contains(expected), "{shown}");
    }

    /// What is asked, what it takes at first, and what it takes behind `d`.
    fn takes(command: &str, rules: &[&str]) -> (String, Choices, Option<String>) {
        let (text, mut answering) = super::asked("main", &call("Bash", command, rules), ALL, 0);
        let first = match &answering {
            Answering::Choices(choices) => *choices,
            Answering::Cut { choices, whole: _ } => choices.once(),
            Answering::Form(_) => panic!("a call is no form"),
        };
        let always = answering.is_answer("a");
        assert_eq!(always, first.lasts() && answering.is_answer("s"));
        (text, first, answering.show_whole())
    }

    #[test]
    fn answers_that_last_need_the_whole_command_and_all_its_rules_on_the_screen() {
        let once = Choices::Call { in_batch: true, has_rules: false };
        let echoes = |count: usize| "echo a; ".repeat(count);
        let hidden = format!("{}npm run evil-deploy; {}", echoes(300), echoes(300));
        let many: Vec<String> = (0..61).map(|at| format!("Bash(echo {at} *)")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let long_rule = format!("Bash({} *)", "x".repeat(400));
        for (command, rules) in [
            (&*hidden, &["Bash(echo *)"][..]),
            (&*hidden, &many),
            ("echo a; npm run evil-deploy; echo b", &many),
            ("echo a", &[&*long_rule]),
            (&"echo\n".repeat(60), &["Bash(echo *)"]),
            (&"x".repeat(3_000), &["Bash(x *)"]),
        ] {
            let (text, first, whole) = takes(command, rules);
            assert_eq!(first, once, "{text}");
            assert!(text.contains("\n  d shows all of it with its rule"), "{text}");
            assert!(text.ends_with("\ny once, n no, n TEXT no and why, d all of it: "), "{text}");
            let whole = whole.expect("it was not shown whole");
            assert!(
                rules.iter().all(|rule| whole.contains(&rule[..70.min(rule.len())])),
                "{whole}"
            );
            assert!(!whole.contains("left out"), "{whole}");
        }
        for (command, rules) in [
            ("cargo test", &["Bash(cargo test *)"][..]),
            ("a && b && c", &["Bash(a *)", "Bash(b *)", "Bash(c *)"]),
            (&"y ".repeat(300), &["Bash(y *)"]),
        ] {
            let (text, first, whole) = takes(command, rules);
            assert_eq!((first, whole), (ALL, None), "{text}");
        }
    }

    #[test]
    fn behind_the_whole_question_every_answer_is_taken() {
        let question = call("Bash", &"ls; ".repeat(600), &["Bash(ls *)"]);
        let (_, mut answering) = super::asked("main", &question, ALL, 0);
        assert!(matches!(answering.line("a"), Heard::NoAnswer(_)));
        let Heard::Part(whole) = answering.line("d") else { panic!("d shows all of it") };
        assert!(whole.starts_with("main asks to use Bash:\n  | ls; "), "{whole}");
        assert!(whole.ends_with(" s this session, a always, n no, n TEXT no and why: "), "{whole}");
        assert_eq!(answering.line("a"), Heard::Answer(crate::event::Verdict::Always));
    }

    #[test]
    fn other_arguments_of_a_command_are_shown_and_counted() {
        let bash = json!({"command": "make", "timeout": 600_000, "description": "no rule\nn no: ",
            "a": 1, "b": [2]});
        let shown = asked("main", &with("Bash", "make", &bash), ALL, 0);
        let expected = "\n  | make\n  with timeout = 600000\n  with description = no rule\\nn no: \n  \
                        with a = 1\n  and 1 more argument\n";
        assert!(shown.contains(expected), "{shown}");
    }

    #[test]
    fn a_command_of_several_lines_is_shown_whole_though_its_subject_is_the_first() {
        let command = json!({"command": "touch x\nrm -rf ~\n"});
        let shown = asked("main", &with("Bash", "touch x", &command), ALL, 0);
        assert!(shown.contains("\n  | touch x\n  | rm -rf ~\n  no rule"), "{shown}");
        let shown = asked("main", &with("mcp__a__b", "x…", &json!({"to": "x y"})), ALL, 0);
        assert!(shown.contains("\n  | {\"to\":\"x y\"}\n  no rule"), "{shown}");
    }

    #[test]
    fn whatever_is_asked_all_of_it_fits_a_small_screen() {
        let long = "word ".repeat(2_000);
        let lines = "x\n".repeat(2_000);
        for (tool, subject, arguments) in [
            ("Bash", &*long, json!({"command": long, "timeout": long, "x": long, "y": 1, "z": 1})),
            ("Bash", &*lines, json!({"command": lines})),
            ("Write", &*long, json!({"file_path": long, "content": lines, "mode": long})),
            ("Edit", "a", json!({"file_path": "a", "old_string": lines, "new_string": long})),
            ("ApplyPatch", "a", json!({"input": lines})),
            (&*long, "", json!({"all": long})),
        ] {
            let Question::Call(asked) = with(tool, subject, &arguments) else { unreachable!() };
            let question = Question::Call(Arc::new(CallQuestion {
                reason: long.as_str().into(),
                rules: vec![long.as_str().into(); 9],
                confinement: Some(Confinement::NONE),
                ..CallQuestion::clone(&asked)
            }));
            let name = "n".repeat(NAME_CAP);
            let text = self::asked(&name, &question, ALL, 12);
            let rows: usize =
                text.split('\n').map(|row| wrapped(row, [""; 2], SMALLEST).len()).sum();
            assert!(rows < SCREEN, "{rows} rows:\n{text}");
            assert!(text.starts_with(&name) && text.contains(" left out, of "), "{text}");
        }
    }
}
