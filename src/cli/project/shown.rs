//! The lines of the question whether a repository is trusted: whole, however long.
//!
//! A line that does not fit the terminal goes on in further rows behind a mark, and a
//! long run of white space is counted: neither its end nor what follows is out of sight.

use std::io;

use unicode_width::UnicodeWidthChar as _;

use crate::cli::chat::tty::size;
use crate::report::sanitise;

/// Longest run of white space that is shown as it is.
const BLANKS_CAP: usize = 8;

/// Stands before the first row of a line, and before its further rows.
const INDENTS: [&str; 2] = ["    ", "      : "];

/// Maximum rows that are on every screen at once.
const SCREEN: usize = 20;

/// Returns a line with nothing in it that a terminal would obey or not show.
pub(super) fn shown(line: &str) -> String {
    let line = sanitise::line(line);
    let mut text = String::with_capacity(line.len());
    for run in line.split_inclusive(|c| !is_blank(c)) {
        let word = run.trim_start_matches(is_blank);
        let blanks = &run[..run.len() - word.len()];
        match blanks.chars().count() {
            ..=BLANKS_CAP => text.push_str(run),
            count => text.push_str(&format!(" [{count} blanks] {word}")),
        }
    }
    text
}

/// Returns whether nothing is seen of a character but its width.
fn is_blank(character: char) -> bool {
    character.is_whitespace() || character == '\u{2800}'
}

/// Returns how wide the terminal is that a question is put to; `None` if there is none.
pub(super) fn columns() -> Option<usize> {
    let stderr = io::stderr();
    io::IsTerminal::is_terminal(&stderr).then(|| usize::from(size(stderr).columns))
}

/// Returns a line in rows of at most so many columns, each with its end; in one row
/// without a width.
pub(super) fn rows(line: &str, columns: Option<usize>) -> String {
    let columns = columns.unwrap_or(usize::MAX);
    let mut rows = INDENTS[0].to_owned();
    let mut column = INDENTS[0].len();
    for character in line.chars() {
        let width = character.width().unwrap_or(0);
        if column + width > columns && column > INDENTS[1].len() {
            rows.push('\n');
            rows.push_str(INDENTS[1]);
            column = INDENTS[1].len();
        }
        column += width;
        rows.push(character);
    }
    rows.push('\n');
    rows
}

/// Returns a text with a note at its end if its beginning may have left the screen.
pub(super) fn with_note(text: &str, columns: Option<usize>) -> String {
    let count = text.lines().count();
    match columns {
        Some(_) if count > SCREEN => {
            format!("{text}\n(these are {count} rows; scroll up and read all of them first)")
        }
        Some(_) | None => text.to_owned(),
    }
}

/// Writes a value as lines of dotted keys, each item of an array on its own:
/// nothing hides at the end of a long one.
pub(super) fn flatten(key: &str, value: &toml::Value, lines: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            table.iter().for_each(|(name, value)| flatten(&format!("{key}.{name}"), value, lines));
        }
        toml::Value::Array(items) => {
            items.iter().for_each(|item| flatten(&format!("{key}[]"), item, lines));
        }
        toml::Value::String(_)
        | toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_) => lines.push(shown(&format!("{key} = {value}"))),
    }
}

/// The same for JSON.
pub(super) fn flatten_json(key: &str, value: &serde_json::Value, lines: &mut Vec<String>) {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, it)| flatten_json(&format!("{key}.{name}"), it, lines));
        }
        Value::Array(items) => {
            items.iter().for_each(|item| flatten_json(&format!("{key}[]"), item, lines));
        }
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {
            lines.push(shown(&format!("{key} = {value}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_of_white_space_are_counted() {
        for blank in [' ', '\u{a0}', '\u{2003}', '\u{3000}', '\u{2800}'] {
            let blanks: String = std::iter::repeat_n(blank, 400).collect();
            assert_eq!(shown(&format!("a{blanks}; rm -rf ~")), "a [400 blanks] ; rm -rf ~");
            assert_eq!(shown(&format!("{blanks}a{blanks}")), " [400 blanks] a [400 blanks] ");
        }
        assert_eq!(shown("a        b  c\td\n"), "a        b  c\\td\\n");
        let whole = "x".repeat(10_000) + " ; rm -rf ~";
        assert_eq!(shown(&whole), whole);
    }

    #[test]
    fn a_line_is_shown_whole_and_further_rows_pass_for_no_line() {
        assert_eq!(rows("abcdefghij", Some(14)), "    abcdefghij\n");
        assert_eq!(rows("abcdefghijklmnop", Some(14)), "    abcdefghij\n      : klmnop\n");
        assert_eq!(rows("ab日本語", Some(11)), "    ab日本\n      : 語\n");
        assert_eq!(rows("abc", Some(1)), "    abcd\n".replace("d\n", "\n"));
        assert_eq!(rows(&"x".repeat(500), None).len(), 505);
        let text = "a\n".repeat(21);
        assert!(
            with_note(&text, Some(80))
                .ends_with("(these are 21 rows; scroll up and read all of them first)")
        );
        assert_eq!(with_note(&text, None), text);
        assert_eq!(with_note("a\n", Some(80)), "a\n");
    }
}
