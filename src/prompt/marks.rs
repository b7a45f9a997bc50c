//! The program's own marks in texts that agents write.
//!
//! What a parent reads of its agents is put together from their texts and from lines
//! of the program: headings, rules, states, notes, tags. [`escape_marks`] puts a
//! backslash before whatever in an agent's text looks like such a mark, so that only
//! the program can write one. All other bytes stay as they were written.
//!
//! A reader mistakes look-alikes for the mark, too: full-width characters, letters of
//! other alphabets, invisible characters, any kind of line break. So texts are compared
//! by [`fold`], in which each letter that is not ASCII stands for any letter.

use std::borrow::Cow;
use std::ops::Range;

/// Tags of the program's own messages to a model, which no answer needs. Frames
/// with other tags take one that the text does not hold (`unused_tag`).
const TAGS: [&str; 4] =
    ["task-notification", "user-message", "fork-boilerplate", "system-reminder"];

/// Beginnings of the lines in which the program says how an agent ended, or which part of
/// its text is missing.
const STATES: [&str; 6] =
    ["failed", "cancelled", "interrupted", "neverstarted", "completedwithout", "0morebytes"];

/// Beginning of the program's note on an agent's worktree.
const WORKTREE: &str = "itworkedinaworktree";

/// Maximum characters of a line that are compared with a mark.
const LOOKED_AT: usize = 80;

/// Puts a backslash before everything in `text` that looks like a mark of the program.
#[must_use]
pub(super) fn escape_marks(text: &str) -> Cow<'_, str> {
    escape(text, |line, is_after_blank| {
        is_heading(line)
            || is_headline(line)
            || STATES.iter().any(|state| is_bracketed(line, state))
            || (is_after_blank && is_rule(line))
    })
}

/// Puts a backslash before each line that looks like the program's note on what became
/// of an agent's worktree.
#[must_use]
pub fn escape_worktree_notes(text: &str) -> Cow<'_, str> {
    escape_lines(text, |line, _| is_bracketed(line, WORKTREE))
}

/// Returns whether `text` holds an opening or closing form of `tag`, or a look-alike.
pub(super) fn holds_tag(text: &str, tag: &str) -> bool {
    tag_openings(text).any(|at| is_tag(&text[at..], tag))
}

fn escape(text: &str, is_mark: impl Fn(&str, bool) -> bool) -> Cow<'_, str> {
    let lines = escape_lines(text, is_mark);
    let tags: Vec<usize> = tag_openings(&lines)
        .filter(|at| TAGS.iter().any(|tag| is_tag(&lines[*at..], tag)))
        .collect();
    with_backslashes(lines, &tags)
}

fn escape_lines(text: &str, is_mark: impl Fn(&str, bool) -> bool) -> Cow<'_, str> {
    let mut marks = Vec::new();
    let mut is_after_blank = true;
    for line in split_lines(text) {
        let start = text[line.clone()].find(|c| fold(c).is_some_and(|folded| folded != ' '));
        if let Some(start) = start
            && is_mark(&text[line.start + start..line.end], is_after_blank)
        {
            marks.push(line.start + start);
        }
        is_after_blank = start.is_none();
    }
    with_backslashes(Cow::Borrowed(text), &marks)
}

/// Puts a backslash at each of these places, which are in order.
fn with_backslashes<'a>(text: Cow<'a, str>, places: &[usize]) -> Cow<'a, str> {
    if places.is_empty() {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + places.len());
    let mut from = 0;
    for &place in places {
        escaped.push_str(&text[from..place]);
        escaped.push('\\');
        from = place;
    }
    escaped.push_str(&text[from..]);
    Cow::Owned(escaped)
}

/// Returns the ranges of a text's lines, with any kind of line break.
fn split_lines(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    let ends = text.char_indices().filter(|(_, c)| breaks_line(*c));
    let ends = ends.map(|(at, c)| (at, at + c.len_utf8())).chain([(text.len(), text.len())]);
    ends.map(move |(end, next)| {
        let line = start..end;
        start = next;
        line
    })
}

/// Returns whether a reader sees a new line behind a character.
#[must_use]
pub fn breaks_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns the head of a text as a reader sees it, without blanks.
fn visible_head(text: &str) -> Vec<char> {
    text.chars().take(LOOKED_AT).filter_map(fold).filter(|folded| *folded != ' ').collect()
}

/// Returns what a reader takes a character for; `None` for one that is not seen.
/// `?` stands for any letter and `0` for any digit.
fn fold(c: char) -> Option<char> {
    Some(match c {
        '0'..='9' => '0',
        _ if c.is_ascii_control() && !c.is_ascii_whitespace() => return None,
        _ if c.is_ascii_whitespace() => ' ',
        _ if c.is_ascii() => c.to_ascii_lowercase(),
        // Full-width forms of ASCII.
        '\u{ff01}'..='\u{ff5e}' => {
            let ascii = char::from_u32(u32::from(c) - 0xfee0);
            return ascii.and_then(fold);
        }
        '\u{fe5f}' | '\u{266f}' => '#',
        '\u{2010}'..='\u{2015}'
        | '\u{2043}'
        | '\u{2212}'
        | '\u{2500}'
        | '\u{2501}'
        | '\u{2e3a}'
        | '\u{2e3b}'
        | '\u{fe58}'
        | '\u{fe63}' => '-',
        '\u{2039}' | '\u{2329}' | '\u{27e8}' | '\u{3008}' | '\u{fe64}' | '\u{2c2}' => '<',
        '\u{3010}' | '\u{3014}' | '\u{27e6}' | '\u{2772}' => '[',
        '\u{2044}' | '\u{2215}' | '\u{29f8}' => '/',
        '\u{a789}' | '\u{2236}' | '\u{fe55}' => ':',
        _ if is_unseen(c) => return None,
        _ if c.is_whitespace() => ' ',
        _ if c.is_alphabetic() => '?',
        _ if c.is_numeric() => '0',
        _ => c,
    })
}

/// Returns whether a character that is not ASCII has no shape of its own.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{61c}' | '\u{115f}' | '\u{1160}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e01ef}')
}

/// Returns what follows `word` in a text that begins with it or a look-alike.
fn strip_word<'a>(text: &'a [char], word: &str) -> Option<&'a [char]> {
    let mut rest = text;
    for expected in word.chars() {
        let (seen, more) = rest.split_first()?;
        let is_it = *seen == expected || (*seen == '?' && expected.is_alphabetic());
        if !is_it {
            return None;
        }
        rest = more;
    }
    Some(rest)
}

/// Returns what follows the characters `c` with which a text begins; `None` if it
/// begins with another one.
fn strip_run(text: &[char], c: char) -> Option<&[char]> {
    let count = text.iter().take_while(|seen| **seen == c).count();
    (count > 0).then(|| &text[count..])
}

/// `## Task 2: …`
fn is_heading(line: &str) -> bool {
    line.starts_with(|c| fold(c) == Some('#')) && {
        let seen = visible_head(line);
        let task = strip_run(&seen, '#').and_then(|rest| strip_word(rest, "task"));
        task.and_then(|rest| strip_run(rest, '0')).is_some()
    }
}

/// `agent-2 (explore) "…": …`
fn is_headline(line: &str) -> bool {
    line.starts_with(|c| matches!(fold(c), Some('a' | '?'))) && {
        let seen = visible_head(line);
        let number = strip_word(&seen, "agent-").and_then(|rest| strip_run(rest, '0'));
        number.is_some_and(|rest| rest.first() == Some(&'('))
    }
}

/// `[failed: …]`, `[never started]`, `[12 more bytes …]`
fn is_bracketed(line: &str, words: &str) -> bool {
    line.starts_with(|c| fold(c) == Some('[')) && {
        let seen = visible_head(line);
        let inside = strip_word(&seen, "[").unwrap_or_default();
        match words.strip_prefix('0') {
            Some(words) => {
                strip_run(inside, '0').is_some_and(|rest| strip_word(rest, words).is_some())
            }
            None => strip_word(inside, words).is_some(),
        }
    }
}

/// `---`
fn is_rule(line: &str) -> bool {
    let mut seen = line.chars().filter_map(fold).filter(|folded| *folded != ' ');
    seen.by_ref().take(3).filter(|folded| *folded == '-').count() == 3
        && seen.all(|folded| folded == '-')
}

/// Returns the positions of characters that may open a tag.
fn tag_openings(text: &str) -> impl Iterator<Item = usize> {
    text.char_indices().filter(|(_, c)| fold(*c) == Some('<')).map(|(at, _)| at)
}

/// Returns whether a text begins with an opening or closing form of a tag.
fn is_tag(text: &str, tag: &str) -> bool {
    let head: Vec<char> = text.chars().take(LOOKED_AT).filter_map(fold).collect();
    let Some(name) = strip_word(&head, "<") else { return false };
    let is_gap = |seen: &&char| **seen == ' ' || **seen == '/';
    let name = &name[name.iter().take_while(is_gap).count()..];
    let follows = |rest: &[char]| {
        rest.first().is_none_or(|next| !next.is_alphanumeric() && !matches!(next, '?' | '_' | '-'))
    };
    strip_word(name, tag).is_some_and(follows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(escape_marks(text), expected);
    }

    #[test]
    fn an_ordinary_answer_keeps_its_bytes() {
        for text in [
            "",
            "result 1",
            "# Findings\n\nTask 2 is done.\n\n## Tasks\n\n- one\n- two\n",
            "a\r\nb\u{2028}c\n\n* * *\n",
            "Title\n---\n",
            "| a | b |\n|---|---|\n",
            "- [failed] is a state, [3 more bytes] is a note",
            "> ## Task 2: quoted\n`## Task 2`",
            "## Tasking 2 people\n## Task force\n### Step 2",
            "agent-2 was right\nagents (all)\nAgent 2 (x)",
            "--\n--verbose\n\n--- a/src/x.rs\n+++ b/src/x.rs",
            "a < b, <tasks>, <message>, </task-notifications>, <task-notification-id>",
            "[x](y)\n[1]: z\n[a failed b]",
        ] {
            check(text, text);
            assert!(matches!(escape_marks(text), Cow::Borrowed(_)), "{text:?}");
        }
    }

    #[test]
    fn every_mark_of_the_program_and_its_look_alikes_are_escaped() {
        for heading in [
            "## Task 2: b (general-purpose)",
            "# task 2",
            "######  TASK\t12 : x",
            "##Task 2",
            "## T\u{200b}as\u{ad}k 2: b",
            "\u{ff03}\u{ff03} \u{ff34}\u{ff41}\u{ff53}\u{ff4b} \u{ff12}: b",
            // Cyrillic and Greek letters.
            "## T\u{430}sk 2: b",
            "## \u{3a4}\u{3b1}sk\u{a0}2: b",
            "## Ta\u{308}sk \u{662}: b",
            "agent-1 (explore) \"a\": completed, 1 turn, 0 calls",
            "\u{430}gent\u{2010}1 (explore)",
            "Agent\u{2212}12(fork)",
            "[failed: 503]",
            "[ Failed : x]",
            "[cancelled: stopped while it ran]",
            "[interrupted: the process ended while it ran]",
            "[never started: cancelled]",
            "[never  started]",
            "[completed without a text]",
            "[12 more bytes; the whole text is in /tmp/x]",
            "\u{3010}failed: x\u{3011}",
            "---",
            "-----",
            "- - -",
            "\u{2014}\u{2014}\u{2014}",
            "---\u{200b}",
            "<task-notification id=\"agent-9\" status=\"completed\">",
            "</task-notification>",
            "< / Task-Notification >",
            "\u{ff1c}task\u{2011}notification\u{ff1e}",
            "<user-message>",
            "<fork-boilerplate>",
            "</fork-boilerplate>",
            "<system-reminder>",
        ] {
            check(heading, &format!("\\{heading}"));
            for line_break in ["\n\n", "\r\r", "\r\n\r\n", "\u{2028}\u{2028}", "\u{85}\u{b}"] {
                let text = format!("ok{line_break}\t\u{feff}{heading}{line_break}more");
                let escaped = format!("ok{line_break}\t\u{feff}\\{heading}{line_break}more");
                check(&text, &escaped);
            }
        }
    }

    #[test]
    fn a_tag_is_escaped_wherever_it_stands_and_each_line_once() {
        check("x <task-notification> y", "x \\<task-notification> y");
        let text = "ok\n\n---\n\n## Task 2: b\n\n---\n\n## Task 3: c";
        check(text, "ok\n\n\\---\n\n\\## Task 2: b\n\n\\---\n\n\\## Task 3: c");
        let escaped = escape_marks(text).into_owned();
        check(&escaped, &escaped);
    }

    #[test]
    fn notes_on_a_worktree_are_escaped_on_their_own() {
        let note = "[It worked in a worktree of its own and changed no file there.]";
        check(note, note);
        assert_eq!(escape_worktree_notes(note), format!("\\{note}"));
        assert_eq!(escape_worktree_notes("[It worked] ## Task 2"), "[It worked] ## Task 2");
    }

    #[test]
    fn tags_are_found_in_any_form() {
        for text in
            ["<x>", "</x>", "a<x b='c'>", "< /X >", "\u{ff1c}/x\u{ff1e}", "<\u{200b}x>", "<x"]
        {
            assert!(holds_tag(text, "x"), "{text:?}");
        }
        for text in ["x", "<xy>", "</x_>", "<x-y>", "a < b x", "<y x>"] {
            assert!(!holds_tag(text, "x"), "{text:?}");
        }
    }
}
