//! The words of a question as it is put to whoever sits at the terminal.
//!
//! What is asked about is shown whole, line by line behind a bar, so that
//! nothing in it can pass for words of ours; of something very long both ends
//! are shown, and how much is left out between them.

use unicode_width::UnicodeWidthChar as _;

use super::change::{self, Change};
use super::{NAME_CAP, SENTENCE_CAP, confined, question, short_line};
use crate::event::{CallQuestion, Confinement, Question};
use crate::message::counted;
use crate::report::asking::Choices;
use crate::report::row::columns_of;
use crate::report::sanitise;

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

/// Most characters of the rules of an answer.
const RULES_CAP: usize = 200;

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

/// The smallest screen that a question is made for, without what stays free.
const SMALLEST: Room = Room { columns: COLUMNS, rows: SCREEN - FREE };

/// Returns who asks for what, and what follows from the answers, in rows. What
/// is asked about is shown as far as there is room.
#[must_use]
pub fn asked_in(
    name: &str,
    asked: &Question,
    (choices, waiting): (Choices, usize),
    room: Room,
) -> Vec<String> {
    let waiting = match waiting {
        1.. if room.columns < NARROW => format!(" ({waiting} behind it)"),
        _ => behind(waiting),
    };
    match asked {
        Question::Batch { slots: _ } => {
            wrapped(&format!("{name} asks{waiting}: {}", question(asked)), INDENTS_BELOW, room)
        }
        Question::Call(call) => {
            let tool = short_line(&call.tool, NAME_CAP);
            let head =
                wrapped(&format!("{name} asks to use {tool}{waiting}:"), INDENTS_BELOW, room);
            let left = Room { rows: room.rows.saturating_sub(head.len()), ..room };
            head.into_iter().chain(rows_of(call, choices, left)).collect()
        }
    }
}

fn behind(waiting: usize) -> String {
    match u32::try_from(waiting) {
        Ok(0) => String::new(),
        Ok(count) => format!(" ({} behind it)", counted(count, "question")),
        Err(_) => " (many behind it)".to_owned(),
    }
}

/// Returns all that a question is about, line by line behind a bar, and what
/// would change.
#[must_use]
pub fn asked_whole(name: &str, asked: &Question, columns: usize) -> Vec<String> {
    let room = Room { columns, rows: usize::MAX };
    let call = match asked {
        Question::Batch { slots: _ } => {
            return wrapped(&format!("{name} asks: {}", question(asked)), INDENTS_BELOW, room);
        }
        Question::Call(call) => call,
    };
    let tool = short_line(&call.tool, NAME_CAP);
    let mut rows = wrapped(&format!("{name} asks to use {tool}:"), INDENTS_BELOW, room);
    rows.extend(shown(&change::about(call), usize::MAX, room));
    if let Some(Change { what, lines }) = change::change(call) {
        rows.push(format!("{}{what}", INDENTS[0]));
        rows.extend(shown(&lines, usize::MAX, room));
    }
    rows
}

/// Returns a question with the answers that it takes. The cursor stays behind
/// it. `waiting` is how many more there are.
#[must_use]
pub fn asked(name: &str, asked: &Question, choices: Choices, waiting: usize) -> String {
    let waiting = behind(waiting);
    match asked {
        Question::Batch { slots: _ } => {
            format!("{name} asks{waiting}: {} [y/N] ", question(asked))
        }
        Question::Call(call) => {
            let tool = short_line(&call.tool, NAME_CAP);
            let head = format!("{name} asks to use {tool}{waiting}:");
            let offered = format!("{}: ", choices.offered());
            let used = |line: &str| wrapped(line, [""; 2], SMALLEST).len();
            let room = SMALLEST.rows - used(&head) - used(&offered);
            let rows = rows_of(call, choices, Room { rows: room, ..SMALLEST });
            let rows: String = rows.into_iter().map(|row| row + "\n").collect();
            format!("{head}\n{rows}{offered}")
        }
    }
}

/// Returns what is asked and what follows from the answers.
fn rows_of(call: &CallQuestion, choices: Choices, room: Room) -> Vec<String> {
    let CallQuestion { reason, rules, confinement, .. } = call;
    let (about, changes) = (&change::about(call), change::change(call));
    let has_change = changes.is_some();
    let mut words = change::others(call);
    words.push(short_line(reason, SENTENCE_CAP));
    words.extend(confinement.map(after_a_yes));
    if choices.lasts() {
        words.push(choices.lasting().to_owned());
        let rules = rules.iter().map(|rule| format!("`{}`", sanitise::line(rule)));
        words.push(format!("  {}", short_line(&rules.collect::<Vec<_>>().join(", "), RULES_CAP)));
    }
    let words: Vec<String> = words.iter().flat_map(|words| wrapped(words, INDENTS, room)).collect();
    // On a very small screen a third of it is for what is asked about.
    let needed = shown(about, ABOUT_CAP, room).len() + usize::from(has_change) * ABOUT_CAP;
    let most = room.rows - needed.min(room.rows.div_ceil(3));
    let words: Vec<String> = words.into_iter().take(most).collect();
    let free = room.rows.saturating_sub(words.len()).min(ROWS_CAP);
    let mut rows = Vec::new();
    match changes {
        Some(Change { what, lines }) => {
            rows.extend(shown(about, ABOUT_CAP, room));
            rows.push(format!("{}{what}", INDENTS[0]));
            rows.extend(shown(&lines, free.saturating_sub(rows.len()), room));
        }
        None => rows.extend(shown(about, free, room)),
    }
    rows.into_iter().chain(words).collect()
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
    use crate::event::{Access, Backend};

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
        let question = Question::Batch { slots: 40 };
        assert_snapshot!(asked("main", &question, Choices::Batch, 0), @"main asks: start 40 agents at once? [y/N]");
    }

    #[test]
    fn a_sandbox_that_is_in_force_is_named() {
        let bounds =
            Confinement { backend: Backend::Bwrap, access: Access::WorkspaceWrite, network: true };
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

    #[test]
    fn other_arguments_of_a_command_are_shown_and_counted() {
        let bash = json!({"command": "make", "timeout": 600_000, "description": "no rule\nn no: ",
            "a": 1, "b": [2]});
        let shown = asked("main", &with("Bash", "make", &bash), ALL, 0);
        let expected = "\n  | make\n  with a = 1\n  with b = [2]\n  with description = no rule\\nn \
                        no: \n  and 1 more argument\n";
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
            let text = super::asked(&name, &question, ALL, 12);
            let rows: usize =
                text.split('\n').map(|row| wrapped(row, [""; 2], SMALLEST).len()).sum();
            assert!(rows < SCREEN, "{rows} rows:\n{text}");
            assert!(text.starts_with(&name) && text.contains(" left out, of "), "{text}");
        }
    }
}
