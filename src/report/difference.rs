//! What changed in a file, as rows with the numbers of its lines.
//!
//! The bytes are given: nothing here opens a file. Of a long change both ends
//! are shown, and how much is left out between them.

use std::time::Duration;

use similar::{Algorithm, ChangeTag, TextDiff};

use super::ink::Ink;
use super::row::Row;
use crate::message::counted;

/// Most rows of a change; the rest of it is counted.
const ROWS_CAP: usize = 40;

/// Most bytes of a file whose change is shown.
const FILE_CAP: usize = 1 << 20;

/// Lines around a change that are shown with it.
const AROUND: usize = 3;

/// How long the smallest change is looked for. After that a larger one will do.
const PATIENCE: Duration = Duration::from_millis(200);

/// What a file held before a change and holds after it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BothSides {
    /// Its bytes before; none if it was not there.
    pub before: Vec<u8>,
    /// Its bytes after; none if it is gone.
    pub after: Vec<u8>,
}

/// Returns a row for a change of which nothing can be shown.
#[must_use]
pub fn not_shown(why: &str) -> Row {
    Row::new().text(Ink::Dim, &format!("  [the change is not shown: {why}]"))
}

/// Returns what changed, below a row with its counts; only that it is not shown
/// if the file is no text or very large. `is_whole` shows all of it.
#[must_use]
pub fn difference(sides: &BothSides, is_whole: bool) -> Vec<Row> {
    let BothSides { before, after } = sides;
    if before.len().max(after.len()) > FILE_CAP {
        return vec![not_shown("the file is very large")];
    }
    let text = |bytes| std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let (Some(before), Some(after)) = (text(before), text(after)) else {
        return vec![not_shown("the file is no text")];
    };
    let changes = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .timeout(PATIENCE)
        .diff_lines(before, after);
    let most = before.lines().count().max(after.lines().count());
    let digits = most.to_string().len();
    let (mut rows, mut added, mut removed) = (Vec::new(), 0_u32, 0_u32);
    for (number, group) in changes.grouped_ops(AROUND).iter().enumerate() {
        if number > 0 {
            rows.push(Row::new().text(Ink::Dim, &format!("  {:>digits$}", "...")));
        }
        for change in group.iter().flat_map(|op| changes.iter_changes(op)) {
            let (sign, ink, at) = match change.tag() {
                ChangeTag::Equal => (' ', Ink::Plain, change.new_index()),
                ChangeTag::Delete => ('-', Ink::Removed, change.old_index()),
                ChangeTag::Insert => ('+', Ink::Added, change.new_index()),
            };
            added += u32::from(sign == '+');
            removed += u32::from(sign == '-');
            let line = change.value();
            let line = line.strip_suffix('\n').unwrap_or(line);
            let line = line.strip_suffix('\r').unwrap_or(line);
            let at = at.map_or(0, |index| index + 1);
            let row = Row::new().text(Ink::Dim, &format!("  {at:>digits$} "));
            rows.push(row.text(ink, &format!("{sign} ")).text(ink, line));
        }
    }
    if rows.is_empty() {
        return rows;
    }
    if !is_whole {
        rows = both_ends(rows);
    }
    rows.insert(0, counts(added, removed));
    rows
}

fn counts(added: u32, removed: u32) -> Row {
    let row = Row::new().text(Ink::Plain, "  ");
    let (plus, minus) = (format!("+{added}"), format!("-{removed}"));
    match (added, removed) {
        (_, 0) => row.text(Ink::Added, &plus),
        (0, _) => row.text(Ink::Removed, &minus),
        (_, _) => row.text(Ink::Added, &plus).text(Ink::Plain, " ").text(Ink::Removed, &minus),
    }
}

/// Returns the first and the last of many rows.
fn both_ends(rows: Vec<Row>) -> Vec<Row> {
    if rows.len() <= ROWS_CAP {
        return rows;
    }
    let last = ROWS_CAP * 3 / 8;
    let first = ROWS_CAP - 1 - last;
    let hidden = rows.len() - first - last;
    let words = counted(u32::try_from(hidden).unwrap_or(u32::MAX), "row");
    let between = Row::new().text(Ink::Dim, &format!("  [{words} left out]"));
    let (before, after) = (&rows[..first], &rows[rows.len() - last..]);
    before.iter().cloned().chain([between]).chain(after.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn sides(before: &str, after: &str) -> BothSides {
        BothSides { before: before.into(), after: after.into() }
    }

    fn plain(rows: &[Row]) -> String {
        rows.iter().map(|row| row.plain() + "\n").collect()
    }

    #[test]
    fn lines_have_the_numbers_that_they_have_in_the_file_that_holds_them() {
        let before = "fn a() {\n    b();\n}\n\n1\n2\n3\n4\n5\n6\n7\nold end\n";
        let after = "fn a() {\n    c();\n    d();\n}\n\n1\n2\n3\n4\n5\n6\n7\nnew end\n";
        assert_snapshot!(plain(&difference(&sides(before, after), false)), @"
        +3 -2
         1   fn a() {
         2 -     b();
         2 +     c();
         3 +     d();
         4   }
         5   
         6   1
        ...
        10   5
        11   6
        12   7
        12 - old end
        13 + new end
        ");
    }

    #[test]
    fn a_new_file_has_only_lines_that_are_new() {
        let rows = difference(&sides("", "a\r\n\tb\u{1b}[2J\n"), false);
        assert_snapshot!(plain(&rows), @r#"
        +2
        1 + a
        2 +   b\u{1b}[2J
        "#);
    }

    #[test]
    fn of_a_long_change_both_ends_are_shown_unless_all_of_it_is_wanted() {
        let after: String = (1..=200).map(|number| format!("{number}\n")).collect();
        let sides = sides("", &after);
        let rows = difference(&sides, false);
        assert_eq!(rows.len(), 1 + ROWS_CAP);
        assert_eq!(rows[25].plain(), "  [161 rows left out]");
        assert_eq!(rows[40].plain(), "  200 + 200");
        assert_eq!(difference(&sides, true).len(), 201);
    }

    #[test]
    fn of_what_is_no_text_or_very_large_is_told_that_it_is_not_shown() {
        let large = vec![b'a'; FILE_CAP + 1];
        for (before, why) in [
            (&b"\xff"[..], "the file is no text"),
            (b"a\0b", "the file is no text"),
            (&large, "the file is very large"),
        ] {
            let sides = BothSides { before: before.to_vec(), after: b"x".to_vec() };
            assert_eq!(difference(&sides, false), [not_shown(why)]);
        }
        assert_eq!(difference(&sides("same\n", "same\n"), false), []);
    }
}
