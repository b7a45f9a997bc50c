//! Text that others wrote, made safe for a terminal.
//!
//! Models, tools and files can hold sequences that move the cursor, set the
//! clipboard, hide text or turn it round. Whatever a terminal would obey or
//! not show is written as an escape such as `\u{1b}`. This file decides which
//! characters those are; the callers decide what is shown at all. `invisible` knows those
//! without a shape, and where such a character belongs to ordinary text.

mod pieces;

use std::borrow::Cow;
use std::fmt::Write as _;

pub use crate::invisible::Neighbour;
use crate::invisible::{is_invisible, shapes};
pub use pieces::SafePieces;

/// Returns `text` as one line: line breaks and tabs are shown as escapes too.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, [Neighbour::Nothing; 2], is_hidden_in_line)
}

/// Returns a part of a text as one line. What is next to it is not known.
#[must_use]
pub fn line_part(text: &str) -> Cow<'_, str> {
    escape(text, [Neighbour::Unknown; 2], is_hidden_in_line)
}

/// Returns `text` with its line breaks and tabs kept. A carriage return before
/// a line break goes, since it is part of that break.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    text_between(text, [Neighbour::Nothing; 2])
}

/// Does the same as [`text`] for a part of a text whose neighbouring characters are known.
#[must_use]
pub fn text_between(text: &str, beside: [Neighbour; 2]) -> Cow<'_, str> {
    if text.contains("\r\n") {
        Cow::Owned(escape(&text.replace("\r\n", "\n"), beside, is_hidden).into_owned())
    } else {
        escape(text, beside, is_hidden)
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
        _ => is_invisible(character),
    }
}

fn is_hidden_in_line(character: char) -> bool {
    is_hidden(character) || matches!(character, '\n' | '\t')
}

fn escape(
    text: &str,
    [before, behind]: [Neighbour; 2],
    is_escaped: impl Fn(char) -> bool,
) -> Cow<'_, str> {
    let Some(first) = text.find(&is_escaped) else { return Cow::Borrowed(text) };
    let mut safe = String::with_capacity(text.len() + 16);
    safe.push_str(&text[..first]);
    let mut before = text[..first].chars().next_back().map_or(before, Neighbour::Is);
    let mut characters = text[first..].chars().peekable();
    while let Some(character) = characters.next() {
        let after = characters.peek().copied().map_or(behind, Neighbour::Is);
        let is_shown = !is_escaped(character) || shapes(before, character, after);
        before = Neighbour::Is(character);
        match character {
            _ if is_shown => safe.push(character),
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(character));
            }
        }
    }
    if safe == text { Cow::Borrowed(text) } else { Cow::Owned(safe) }
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
        check("\u{17b4}\u{17b5}", "\\u{17b4}\\u{17b5}");
        check("a\u{180f}\u{fff0}\u{fff8}", "a\\u{180f}\\u{fff0}\\u{fff8}");
        check("\u{e0080}\u{e0fff}\u{2065}", "\\u{e0080}\\u{e0fff}\\u{2065}");
        check("\u{1d173}\u{1bca0}", "\\u{1d173}\\u{1bca0}");
    }

    #[test]
    fn what_ordinary_text_needs_is_shown_as_it_is() {
        for ordinary in [
            "می\u{200c}خواهم خانه\u{200c}ای",
            "क्\u{200d}ष क्\u{200c}ष ක්\u{200d}ර",
            "ന്\u{200d} റ",
            "ᠠ\u{200d}ᠡ",
            "👨\u{200d}👩\u{200d}👧 👩🏽\u{200d}💻 🏳\u{fe0f}\u{200d}🌈 ❤\u{fe0f}\u{200d}🔥",
            "abc\u{200f}אבג",
            "C++\u{200e} עם",
            "\u{200f}שלום\u{200f}",
            "م\u{61c}1",
            "葛\u{e0100}城 神\u{fe00}",
            "ᠠ\u{180b}ᠡ\u{180f}",
        ] {
            assert_eq!(line(ordinary), ordinary);
            assert_eq!(text(ordinary), ordinary);
            let parts = ordinary.split_inclusive(' ').map(line_part).collect::<String>();
            assert_eq!(parts, ordinary);
        }
    }

    #[test]
    fn what_only_hides_is_an_escape_wherever_it_is() {
        for (hostile, shown) in [
            ("pass\u{200d}word", "pass\\u{200d}word"),
            ("pass\u{200c}word", "pass\\u{200c}word"),
            ("\u{200d}", "\\u{200d}"),
            ("\u{200f}", "\\u{200f}"),
            ("1\u{200d}2", "1\\u{200d}2"),
            ("م\u{200d}\u{200d}م", "م\\u{200d}\\u{200d}م"),
            ("م\u{200c} م", "م\\u{200c} م"),
            ("👨\u{200d}a", "👨\\u{200d}a"),
            ("👨\u{200c}👩", "👨\\u{200c}👩"),
            ("a\u{200f}\u{200e}ב", "a\\u{200f}\\u{200e}ב"),
            ("a\u{200f}\u{202e}ב", "a\\u{200f}\\u{202e}ב"),
            ("x\u{fe00}", "x\\u{fe00}"),
            ("葛\u{e0100}\u{e0101}", "葛\u{e0100}\\u{e0101}"),
            ("葛\u{e01ef}", "葛\\u{e01ef}"),
        ] {
            assert_eq!(line(hostile), shown);
            assert_eq!(text(hostile), shown);
        }
        for embedding in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}') {
            let shown = line_part(&format!("م{embedding}م")).into_owned();
            assert_eq!(shown, format!("م\\u{{{:x}}}م", u32::from(embedding)));
        }
    }

    #[test]
    fn what_was_made_safe_as_a_whole_does_not_change_in_parts() {
        let whole = "می\u{200c}خواهم 👨\u{200d}👩 abc\u{200f}אבג 葛\u{e0100}";
        for (at, _) in whole.char_indices() {
            let (before, behind) = whole.split_at(at);
            assert_eq!(line_part(before).into_owned() + &line_part(behind), whole);
        }
        assert_eq!(line_part("\u{200d}"), "\u{200d}");
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
        for plain in ["", "fn main() {}", "Grüße, 世界 ⚠️ café", "می\u{200c}خواهم"]
        {
            assert!(matches!(line(plain), Cow::Borrowed(same) if same == plain));
            assert!(matches!(text(plain), Cow::Borrowed(same) if same == plain));
        }
    }
}
