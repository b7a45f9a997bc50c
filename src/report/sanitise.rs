//! Text that others wrote, made safe for a terminal.
//!
//! Models, tools and files can hold sequences that move the cursor, set the
//! clipboard, hide text or turn it round. Whatever a terminal would obey or
//! not show is written as an escape such as `\u{1b}`. This file decides which
//! characters those are; the callers decide what is shown at all.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns `text` as one line: line breaks and tabs are shown as escapes too.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, |character| is_hidden(character) || matches!(character, '\n' | '\t'))
}

/// Returns `text` with its line breaks and tabs kept. A carriage return before
/// a line break goes, since it is part of that break.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") {
        Cow::Owned(escape(&text.replace("\r\n", "\n"), is_hidden).into_owned())
    } else {
        escape(text, is_hidden)
    }
}

/// Returns a piece of JSON with the same meaning in which hidden characters
/// are written as JSON escapes. Outside its strings valid JSON holds none.
#[must_use]
pub fn json(fragment: &str) -> Cow<'_, str> {
    if !fragment.contains(is_hidden) {
        return Cow::Borrowed(fragment);
    }
    let mut text = String::with_capacity(fragment.len() + 16);
    for character in fragment.chars() {
        if is_hidden(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            text.push(character);
        }
    }
    Cow::Owned(text)
}

/// Tells whether a terminal would obey `character` or show nothing for it.
/// Line feed and tab are not among these.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // C0, DEL and C1: with ESC, CSI, OSC and DCS gone no sequence begins.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        // Soft hyphen, grapheme joiner, Hangul fillers, Mongolian separator.
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{180e}' => {
            true
        }
        // Marks, embeddings, overrides and isolates that turn text round.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        // Zero width, invisible operators and the isolates among them.
        '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => true,
        // Line and paragraph separators, annotation marks.
        '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}' => true,
        // Variation selectors; FE0E and FE0F only choose between text and emoji.
        '\u{fe00}'..='\u{fe0d}' | '\u{e0100}'..='\u{e01ef}' => true,
        // Tag characters: a second, invisible alphabet.
        '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(&is_escaped) else { return Cow::Borrowed(text) };
    let mut safe = String::with_capacity(text.len() + 16);
    safe.push_str(&text[..first]);
    for character in text[first..].chars() {
        match character {
            _ if !is_escaped(character) => safe.push(character),
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(character));
            }
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(hostile: &str, shown: &str) {
        assert_eq!(line(hostile), shown);
        assert!(!line(hostile).chars().any(is_hidden));
        assert!(!text(hostile).chars().any(is_hidden));
    }

    #[test]
    fn sequences_are_shown_and_never_begin() {
        check("\u{1b}[31mred", "\\u{1b}[31mred");
        check("\u{1b}]52;c;aGk=\u{7}", "\\u{1b}]52;c;aGk=\\u{7}");
        check("\u{9b}2J\u{90}q\u{9c}", "\\u{9b}2J\\u{90}q\\u{9c}");
        check("a\u{8}b\u{7f}\0", "a\\u{8}b\\u{7f}\\u{0}");
    }

    #[test]
    fn text_that_hides_or_turns_round_is_shown() {
        check("user\u{202e}nimda\u{2066}", "user\\u{202e}nimda\\u{2066}");
        check("a\u{200b}b\u{feff}", "a\\u{200b}b\\u{feff}");
        check("\u{e0068}\u{e0069}", "\\u{e0068}\\u{e0069}");
        check("x\u{e0100}", "x\\u{e0100}");
    }

    #[test]
    fn a_line_has_no_breaks_and_a_text_keeps_its_own() {
        assert_eq!(line("a\n\tb\r\nc"), "a\\n\\tb\\r\\nc");
        assert_eq!(text("a\n\tb\r\nc\rd"), "a\n\tb\nc\\rd");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let line = "{\"a\":\"\u{202e}\u{9b}\u{e0068}é\"}";
        let shown = json(line);
        assert_eq!(shown, r#"{"a":"\u202e\u009b\udb40\udc68é"}"#);
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&shown), value(line));
    }

    #[test]
    fn ordinary_text_is_borrowed_as_it_is() {
        for plain in ["", "fn main() {}", "Grüße, 世界 ⚠️ café"] {
            assert!(matches!(line(plain), Cow::Borrowed(same) if same == plain));
            assert!(matches!(text(plain), Cow::Borrowed(same) if same == plain));
        }
    }
}
