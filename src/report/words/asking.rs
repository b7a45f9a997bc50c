//! The words of a question as it is put to whoever sits at the terminal.
//!
//! What is asked about is shown whole, line by line behind a bar, so that
//! nothing in it can pass for words of ours; of something very long both ends
//! are shown, and how much is left out between them.

use unicode_width::UnicodeWidthChar as _;

use super::{NAME_CAP, SENTENCE_CAP, confined, question, short_line};
use crate::event::{CallQuestion, Confinement, Question};
use crate::message::counted;
use crate::report::asking::Choices;
use crate::report::sanitise;

/// Columns of the narrowest terminal that a question is made for.
const COLUMNS: usize = 80;

/// Most rows that what is asked about may take: with the words around it a
/// screen of 24 holds all of it.
const ROWS_CAP: usize = 16;

/// How many of these rows stand at the end, if something is left out: what a
/// command does last must not be pushed out of sight.
const LAST_ROWS: usize = 6;

/// Most characters of the rules of an answer.
const RULES_CAP: usize = 200;

/// Begins the first row of a line of what is asked about, and the further rows
/// of one that is too long for a row.
const BARS: [&str; 2] = ["  | ", "  : "];

/// The same for words of ours.
const INDENTS: [&str; 2] = ["  ", "    "];

/// Returns a question with the answers that it takes. The cursor stays behind
/// it. `waiting` is how many more there are.
#[must_use]
pub fn asked(name: &str, asked: &Question, choices: Choices, waiting: usize) -> String {
    let waiting = match u32::try_from(waiting) {
        Ok(0) => String::new(),
        Ok(count) => format!(" ({} behind it)", counted(count, "question")),
        Err(_) => " (many behind it)".to_owned(),
    };
    match asked {
        Question::Batch { slots: _ } => {
            format!("{name} asks{waiting}: {} [y/N] ", question(asked))
        }
        Question::Call(call) => {
            let tool = short_line(&call.tool, NAME_CAP);
            let rows = rows_of(call, choices);
            format!("{name} asks to use {tool}{waiting}:\n{rows}{}: ", choices.offered())
        }
    }
}

fn rows_of(call: &CallQuestion, choices: Choices) -> String {
    let CallQuestion { subject, arguments, reason, rules, confinement, .. } = call;
    let about = if subject.trim().is_empty() { arguments } else { subject };
    let mut words = vec![short_line(reason, SENTENCE_CAP)];
    words.extend(confinement.map(after_a_yes));
    if choices.lasts() {
        words.push(choices.lasting().to_owned());
        let rules = rules.iter().map(|rule| format!("`{}`", sanitise::line(rule)));
        words.push(format!("  {}", short_line(&rules.collect::<Vec<_>>().join(", "), RULES_CAP)));
    }
    let words = words.iter().flat_map(|words| wrapped(words, INDENTS));
    let rows = shown(about).into_iter().chain(words);
    rows.map(|row| row + "\n").collect()
}

fn after_a_yes(bounds: Confinement) -> String {
    format!("after a yes it runs {}", confined(bounds))
}

/// Returns a text in rows, each behind a bar.
fn shown(text: &str) -> Vec<String> {
    let text = sanitise::text(text).replace('\t', "    ");
    let rows: Vec<String> =
        text.trim_end_matches('\n').split('\n').flat_map(|line| wrapped(line, BARS)).collect();
    if rows.len() <= ROWS_CAP {
        return rows;
    }
    let first = ROWS_CAP - LAST_ROWS - 1;
    let hidden = first..rows.len() - LAST_ROWS;
    let characters = |row: &String| row.chars().count() - BARS[0].len();
    let left_out: usize = rows[hidden.clone()].iter().map(characters).sum();
    let between = format!("  [{left_out} characters left out]");
    let (before, after) = (&rows[..first], &rows[hidden.end..]);
    before.iter().cloned().chain([between]).chain(after.iter().cloned()).collect()
}

/// Returns a line in rows, which begin with these.
fn wrapped(line: &str, [first, further]: [&str; 2]) -> Vec<String> {
    let mut rows = vec![first.to_owned()];
    let mut column = first.len();
    for character in line.chars() {
        let width = character.width().unwrap_or(0);
        if column + width > COLUMNS {
            rows.push(further.to_owned());
            column = further.len();
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

    use super::*;
    use crate::event::{Access, Backend};

    const ALL: Choices = Choices::Call { in_batch: true, has_rules: true };

    fn call(tool: &str, subject: &str, rules: &[&str]) -> Question {
        let confinement = (tool == "Bash").then_some(Confinement::NONE);
        Question::Call(Arc::new(CallQuestion {
            call: "call-1".into(),
            tool: tool.into(),
            subject: subject.into(),
            arguments: "{}".into(),
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
        assert_snapshot!(shown(command).join("\n"), @r#"
        | echo a
        | y once, n no: 
        | \u{1b}[2Jrm\u{202e} -rf /
        |     b
        "#);
    }

    #[test]
    fn of_a_very_long_command_both_ends_are_shown_and_the_rest_is_counted() {
        let command = format!("{}; rm -rf ~", "echo padding ".repeat(400));
        let rows = shown(&command);
        assert_eq!(rows.len(), ROWS_CAP);
        assert!(rows.iter().all(|row| row.chars().count() <= COLUMNS));
        assert!(rows.last().is_some_and(|row| row.ends_with("; rm -rf ~")));
        let shown: usize =
            rows.iter().filter(|row| !row.starts_with("  [")).map(|row| row.len() - 4).sum();
        let left_out = format!("  [{} characters left out]", command.len() - shown);
        assert_eq!(rows[ROWS_CAP - LAST_ROWS - 1], left_out);
        let lines = "a\n".repeat(500);
        assert_eq!(super::shown(&lines).len(), ROWS_CAP);
    }
}
