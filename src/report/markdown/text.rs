//! Text of others within a Markdown document: it must not end what surrounds
//! it, nor go on behind it.

use std::borrow::Cow;

/// Returns `text` without control characters but line feeds and tabs. A
/// carriage return is the break of a line, alone or before a line feed.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let is_dropped = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(is_dropped) {
        return Cow::Borrowed(text);
    }
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    Cow::Owned(text.chars().filter(|&c| !is_dropped(c)).collect())
}

/// Returns a line in which no character has a meaning.
pub(super) fn escape(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len() + 8);
    for character in line.chars() {
        if matches!(character, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '&' | '#' | '~' | '|') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Returns a line as code.
pub(super) fn code(line: &str) -> String {
    let ticks = "`".repeat(longest_run(line) + 1);
    // Ticks at its own ends must not touch these; the spaces are not shown.
    let space = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{ticks}{space}{line}{space}{ticks}")
}

/// Returns text as a block of code, in a fence that it cannot end.
pub(super) fn block(text: &str) -> String {
    let fence = "`".repeat(FENCE.max(longest_run(text) + 1));
    format!("{fence}\n{text}\n{fence}")
}

/// Returns text as a quote.
pub(super) fn quote(text: &str) -> String {
    let lines = text.trim_end().lines().map(|line| match line {
        "" => ">".to_owned(),
        line => format!("> {line}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a part that is shown when it is asked for. The summary is ours.
pub(super) fn folded(summary: &str, part: &str) -> String {
    format!("<details><summary>{summary}</summary>\n\n{part}\n\n</details>")
}

/// Returns text as it is; if it leaves a block of code open, with its end.
pub(super) fn closed(text: &str) -> String {
    match open_fence(text) {
        None => text.to_owned(),
        Some(fence) => format!("{text}\n{fence}"),
    }
}

/// The length of a usual fence, which is the shortest.
const FENCE: usize = 3;

/// Most spaces in front of a fence; with more it is code itself.
const INDENT: usize = 3;

fn open_fence(text: &str) -> Option<String> {
    let mut open: Option<(char, usize)> = None;
    for line in text.lines() {
        let rest = line.trim_start_matches(' ');
        let Some(mark) = rest.chars().next().filter(|mark| matches!(mark, '`' | '~')) else {
            continue;
        };
        let after = rest.trim_start_matches(mark);
        let length = rest.len() - after.len();
        if line.len() - rest.len() > INDENT || length < FENCE {
            continue;
        }
        match open {
            Some((opened, least)) if mark == opened && length >= least => {
                open = open.filter(|_| !after.trim().is_empty());
            }
            None if mark == '~' || !after.contains('`') => open = Some((mark, length)),
            Some(_) | None => {}
        }
    }
    open.map(|(mark, length)| mark.to_string().repeat(length))
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_go_and_all_other_text_stays() {
        assert_eq!(plain("a\u{1b}[31mb\u{9b}c\0\td\r\ne\rf\u{7f}"), "a[31mbc\td\ne\nf");
        assert_eq!(plain("Größe \u{202e}世界"), "Größe \u{202e}世界");
    }

    #[test]
    fn code_is_not_ended_by_what_is_in_it() {
        assert_eq!(code("Read a.rs"), "`Read a.rs`");
        assert_eq!(code("Bash echo ``x`"), "``` Bash echo ``x` ```");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(block("x"), "```\nx\n```");
        assert_eq!(block("````\nx\n~~~"), "`````\n````\nx\n~~~\n`````");
    }

    #[test]
    fn a_quote_keeps_every_line() {
        assert_eq!(quote("a\n\n> b\n```\n\n"), "> a\n>\n> > b\n> ```");
        assert_eq!(quote(""), "");
    }

    #[test]
    fn no_character_of_an_escaped_line_has_a_meaning() {
        assert_eq!(
            escape("a_b *c* <i> [x](y) `z` \\ #1"),
            "a\\_b \\*c\\* \\<i> \\[x\\](y) \\`z\\` \\\\ \\#1"
        );
    }

    #[track_caller]
    fn check(text: &str, end: &str) {
        assert_eq!(closed(text), format!("{text}{end}"));
    }

    #[test]
    fn code_that_an_answer_leaves_open_is_ended() {
        check("plain", "");
        check("```rust\nx\n```\nend", "");
        check("```rust\nx", "\n```");
        check("  ~~~~\nx\n~~~\n```", "\n~~~~");
        check("````\n```\n````", "");
        check("```\n``` not an end", "\n```");
        check("``` `x` ``` in a line", "");
        check("    ```\nindented", "");
    }
}
