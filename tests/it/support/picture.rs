//! The picture of a screen that a test keeps: the same in each run, whatever
//! the machine, the hour and the names that were made up for it.

use unicode_width::UnicodeWidthChar as _;

use super::screen::Screen;

/// Returns the rows of a screen between bars, and where the cursor is.
pub(crate) fn picture(screen: &Screen) -> String {
    drawn(&screen.shown(), screen.size().columns, screen.cursor())
}

/// Returns the last rows that are not blank, as many as a screen has, between
/// bars, and where the cursor is in them. Once rows have scrolled away, how many
/// are blank below says how many frames there were, and no more.
pub(crate) fn last_rows(screen: &Screen) -> String {
    let scrolled = screen.scrolled();
    let above = scrolled.len();
    let mut rows = [scrolled, screen.shown()].concat();
    rows.truncate(rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1));
    let first = rows.len().saturating_sub(usize::from(screen.size().rows));
    let cursor = screen.cursor().map(|(row, column)| (above + row - first, column));
    drawn(&rows[first..], screen.size().columns, cursor)
}

fn drawn(rows: &[String], columns: u16, cursor: Option<(usize, usize)>) -> String {
    let mut picture = String::new();
    for row in rows {
        let row = masked(row);
        let width: usize = row.chars().map(|c| c.width().unwrap_or(0)).sum();
        let blanks = usize::from(columns).saturating_sub(width);
        picture += &format!("|{row}{}|\n", " ".repeat(blanks));
    }
    match cursor {
        Some((row, column)) => picture + &format!("cursor at row {row}, column {column}"),
        None => picture + "no cursor",
    }
}

/// What a running time and a count of tokens become. No figure is shorter.
const TIME: &str = "#s";
const TOKENS: &str = "# tok";

/// What the first line of a chat says.
const VERSION: &str = concat!("tine ", env!("CARGO_PKG_VERSION"));

/// How many characters differ in the name of a temporary directory.
const TEMPORARY: usize = 6;

/// The lengths of a session id's parts.
const ID: [usize; 5] = [8, 4, 4, 4, 12];

/// Returns a row that is the same in each run: without running times, counts of
/// tokens, session ids, names of temporary directories, ports and our version.
/// What stands behind them, or ends where they end, keeps its place.
fn masked(row: &str) -> String {
    let mut out = String::new();
    let mut rest = row;
    while let Some(first) = rest.chars().next() {
        let begins = !out.ends_with(|c: char| c.is_alphanumeric() || c == '.');
        if begins && let Some((length, mask)) = figure(rest) {
            let (blanks, after) = (" ".repeat(length - mask.len()), &rest[length..]);
            if out.ends_with("   ") {
                // It is at the right of its column.
                out += &blanks;
                out += mask;
            } else {
                out += mask;
                out += if after.starts_with("  ") { &blanks } else { "" };
            }
            rest = after;
            continue;
        }
        let (kept, changing) = changing(rest).unwrap_or((first.len_utf8(), 0));
        let (kept, after) = rest.split_at(kept);
        let (changing, after) = after.split_at(changing);
        out += kept;
        out.extend(changing.chars().map(|c| if c.is_alphanumeric() { '#' } else { c }));
        rest = after;
    }
    out
}

/// Returns the length of a running time or of a count of tokens at the start of
/// a text, and its mask: `7s`, `40 ms`, `3.2 s`, `1m 05s`, `2h 03m`, `1.2k tok`.
fn figure(text: &str) -> Option<(usize, &'static str)> {
    let after = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &text[..text.len() - after.len()];
    if number.is_empty() || number.starts_with('.') || number.ends_with('.') {
        return None;
    }
    let count = after.strip_prefix(['k', 'M']).unwrap_or(after).strip_prefix(" tok");
    let clock = |unit, part| {
        let (digits, after) = after.strip_prefix(unit)?.split_at_checked(2)?;
        let is_number = digits.chars().all(|c| c.is_ascii_digit());
        if is_number { after.strip_prefix(part) } else { None }
    };
    let time = [" ms", " s", "s"].into_iter().find_map(|unit| after.strip_prefix(unit));
    let time = time.or_else(|| clock("m ", "s")).or_else(|| clock("h ", "m"));
    let (mask, after) = match (count, time) {
        (Some(after), _) => (TOKENS, after),
        (None, Some(after)) => (TIME, after),
        (None, None) => return None,
    };
    let is_whole = !after.starts_with(|c: char| c.is_alphanumeric());
    is_whole.then_some((text.len() - after.len(), mask))
}

/// Returns how many bytes at the start of a text say what is there, and how many
/// behind them are another one each time, and as long.
fn changing(text: &str) -> Option<(usize, usize)> {
    let run = |after: &str, most: usize, fits: fn(&char) -> bool| {
        after.chars().take(most).take_while(fits).count()
    };
    if let Some(after) = text.strip_prefix("/.tmp") {
        let length = run(after, TEMPORARY, char::is_ascii_alphanumeric);
        return Some((text.len() - after.len(), length));
    }
    if let Some(after) = text.strip_prefix("127.0.0.1:") {
        return Some((text.len() - after.len(), run(after, 5, char::is_ascii_digit)));
    }
    if text.starts_with(VERSION) {
        return Some((5, VERSION.len() - 5));
    }
    // Its first parts are enough: the rest may be cut off.
    let mut length = 0;
    for (index, part) in ID.into_iter().enumerate() {
        let digits = run(&text[length..], part, char::is_ascii_hexdigit);
        length += digits;
        if digits < part || index + 1 == ID.len() {
            return (index > 1).then_some((0, length));
        }
        if !text[length..].starts_with('-') {
            // The first part alone stands in lists; it begins with the hour.
            let is_short = text.starts_with("01") && text[length..].starts_with(' ');
            return (index > 0 || is_short).then_some((0, length));
        }
        length += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_counts_look_the_same_however_long_it_took() {
        let row = |time: &str, tokens: &str| {
            masked(&format!("2 b7s running 4 files{tokens:>12}{time:>9}"))
        };
        assert_eq!(row("7s", "24 tok"), "2 b7s running 4 files       # tok       #s");
        assert_eq!(row("1m 04s", "1.2k tok"), row("7s", "24 tok"));
        for time in ["3 ms", "999 ms", "3.2 s", "12 s", "1m 05s", "2h 03m"] {
            let row = masked(&format!("Bash make  12 lines  {time}"));
            assert_eq!(row, "Bash make  12 lines  #s");
            assert_eq!(masked(&format!("done in {time}, 15 tokens")), "done in #s, 15 tokens");
        }
        assert_eq!(masked("throttled 12s   x"), masked("throttled 9s    x"));
        for same in ["14% of 262k", "v1.2 s", "3 sessions", "2026.", "1m", "2 tokens", "4m 5"] {
            assert_eq!(masked(same), same);
        }
    }

    #[test]
    fn names_that_are_made_up_are_masked_and_stay_as_long() {
        for (row, expected) in [
            ("in /tmp/.tmpaB3x9Q/work", "in /tmp/.tmp######/work"),
            ("in /tmp/.tmpaB…", "in /tmp/.tmp##…"),
            ("http://127.0.0.1:40123/v1", "http://127.0.0.1:#####/v1"),
            ("(0193a1b2-c3d4-7e5f-8a9b-0123456789ab)", "(########-####-####-####-############)"),
            ("0193a1b2-c3d4-7e…", "########-####-##…"),
            ("0193a1b2-c3", "0193a1b2-c3"),
            ("2026-11-21 deadbeef-x", "2026-11-21 deadbeef-x"),
        ] {
            assert_eq!(masked(row), expected);
        }
        assert!(masked(&format!("{VERSION}  m")).starts_with("tine #.#"));
    }
}
