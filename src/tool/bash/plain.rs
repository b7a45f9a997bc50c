//! The text of what a command prints for a terminal.
//!
//! Colors, titles and links are removed, and a line that overwrites itself, such as a
//! progress bar, appears once, in its final state. It takes bytes as they come, in any encoding
//! that has ASCII as it is.

use crate::tool::bound::is_continuation;

/// Maximum bytes of a line that can still be overwritten. A longer line is not a progress
/// bar.
const LINE_CAP: usize = 8 * 1024;

/// Maximum bytes of a title, a link or a picture. A longer sequence is abandoned.
const STRING_CAP: usize = 256 * 1024;

/// Maximum columns that one sequence moves the cursor by.
const MOVE_CAP: usize = 200;

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;
const BACKSPACE: u8 = 0x08;

/// Turns what is written to a terminal into the text that it shows.
#[derive(Debug, Default)]
pub(super) struct TerminalText {
    state: SequenceState,
    /// The line that is being written, as long as it may be printed over.
    line: Vec<u8>,
    /// The byte of it at which the cursor is.
    cursor: usize,
    /// Set once the beginning of the line has been appended to the text.
    is_open: bool,
    /// Carriage returns whose line feed may still come.
    returns: usize,
    /// True if any text was overwritten.
    has_overwritten: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum SequenceState {
    #[default]
    Text,
    /// Behind an escape, and its intermediate bytes.
    Escape,
    /// In a control sequence. `number` is its first parameter.
    Control { number: usize, is_private: bool, is_first: bool },
    /// In a string that a bell, or an escape and a backslash, ends.
    String { length: usize },
    /// Behind an escape in a string.
    StringEscape { length: usize },
}

impl TerminalText {
    /// Takes more bytes, and appends the text that is final.
    pub(super) fn push(&mut self, bytes: &[u8], text: &mut Vec<u8>) {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if self.state == SequenceState::Text && !is_special(byte) {
                let end = rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len());
                self.write(&rest[..end], text);
                rest = &rest[end..];
                continue;
            }
            self.take(byte, text);
            rest = after;
        }
    }

    /// Appends what is left at the end.
    pub(super) fn finish(&mut self, text: &mut Vec<u8>) {
        self.settle_returns(text);
        self.flush(text);
    }

    /// Returns whether anything was printed over, and so is missing from the text.
    pub(super) fn has_overwritten(&self) -> bool {
        self.has_overwritten
    }

    fn take(&mut self, byte: u8, text: &mut Vec<u8>) {
        self.state = match self.state {
            SequenceState::Text => self.control(byte, text),
            SequenceState::Escape => match byte {
                b'[' => SequenceState::Control { number: 0, is_private: false, is_first: true },
                b']' | b'P' | b'X' | b'^' | b'_' => SequenceState::String { length: 0 },
                b' '..=b'/' => SequenceState::Escape,
                // The next line, and the one above.
                b'D' | b'E' | b'M' => {
                    self.break_line(text);
                    SequenceState::Text
                }
                ESCAPE => SequenceState::Escape,
                _ => SequenceState::Text,
            },
            SequenceState::Control { number, is_private, is_first } => match byte {
                b'0'..=b'9' if is_first => {
                    let number = number.saturating_mul(10).saturating_add((byte - b'0').into());
                    SequenceState::Control { number, is_private, is_first }
                }
                b'0'..=b';' => SequenceState::Control { number, is_private, is_first: false },
                b'<'..=b'?' => SequenceState::Control { number, is_private: true, is_first },
                b' '..=b'/' => SequenceState::Control { number, is_private: true, is_first },
                ESCAPE => SequenceState::Escape,
                // Not a sequence: the line must not be lost.
                b'\n' => self.control(byte, text),
                _ => {
                    if !is_private {
                        self.obey(byte, number, text);
                    }
                    SequenceState::Text
                }
            },
            SequenceState::String { length } | SequenceState::StringEscape { length }
                if length > STRING_CAP =>
            {
                SequenceState::Text
            }
            SequenceState::String { length } => match byte {
                BELL => SequenceState::Text,
                b'\n' => self.control(byte, text),
                ESCAPE => SequenceState::StringEscape { length },
                _ => SequenceState::String { length: length + 1 },
            },
            SequenceState::StringEscape { length } => match byte {
                b'\\' => SequenceState::Text,
                b'[' => SequenceState::Control { number: 0, is_private: false, is_first: true },
                _ => SequenceState::String { length: length + 1 },
            },
        };
    }

    /// Takes a control character.
    fn control(&mut self, byte: u8, text: &mut Vec<u8>) -> SequenceState {
        match byte {
            ESCAPE => return SequenceState::Escape,
            b'\n' => {
                // A terminal's driver doubles the return.
                let ending: &[u8] =
                    if std::mem::take(&mut self.returns) > 0 { b"\r\n" } else { b"\n" };
                self.flush(text);
                text.extend_from_slice(ending);
                self.is_open = false;
            }
            b'\r' => self.returns += 1,
            BACKSPACE => {
                self.settle_returns(text);
                self.step_back(1);
            }
            BELL => {}
            // A model cannot see it, and some servers refuse it.
            _ => {
                let picture = char::from_u32(0x2400 + u32::from(byte)).unwrap_or(' ');
                self.write(picture.encode_utf8(&mut [0; 4]).as_bytes(), text);
            }
        }
        SequenceState::Text
    }

    /// Obeys a control sequence as far as it changes what is read.
    fn obey(&mut self, kind: u8, number: usize, text: &mut Vec<u8>) {
        let count = number.clamp(1, MOVE_CAP);
        match kind {
            b'C' => {
                self.settle_returns(text);
                let end = (0..count).fold(self.cursor, |at, _| at + self.width_at(at).max(1));
                let missing = end.saturating_sub(self.line.len());
                self.line.extend(std::iter::repeat_n(b' ', missing));
                self.cursor = end.min(self.line.len());
            }
            b'D' => {
                self.settle_returns(text);
                self.step_back(count);
            }
            b'G' => {
                self.settle_returns(text);
                self.cursor = 0;
                for _ in 1..number.min(MOVE_CAP) {
                    self.cursor += self.width_at(self.cursor);
                }
            }
            b'K' => {
                self.settle_returns(text);
                match number {
                    0 => self.cut(self.cursor),
                    1 => self.blank(),
                    _ => {
                        self.cut(0);
                        self.cursor = 0;
                    }
                }
            }
            // Below the line that is being written there is nothing.
            b'J' if number == 0 => {
                self.settle_returns(text);
                self.cut(self.cursor);
            }
            // Text that is written elsewhere on the screen is appended below.
            b'A' | b'B' | b'E' | b'F' | b'H' | b'J' | b'd' | b'f' => self.break_line(text),
            _ => {}
        }
    }

    /// Writes text without control characters at the cursor.
    fn write(&mut self, bytes: &[u8], text: &mut Vec<u8>) {
        self.settle_returns(text);
        if self.cursor == self.line.len() {
            self.line.extend_from_slice(bytes);
            self.cursor = self.line.len();
        } else {
            self.overwrite(bytes);
        }
        if self.line.len() > LINE_CAP {
            self.flush(text);
            self.is_open = true;
        }
    }

    fn overwrite(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && self.cursor < self.line.len() {
            let length = width(rest, 0);
            // The rest of a character that arrived in two pieces overwrites nothing.
            let is_rest = self.cursor > 0 && is_continuation(rest[0]);
            let old = if is_rest { 0 } else { self.width_at(self.cursor) };
            let range = self.cursor..self.cursor + old;
            self.has_overwritten |= self.line[range.clone()].iter().any(|byte| *byte != b' ');
            self.line.splice(range, rest[..length].iter().copied());
            self.cursor += length;
            rest = &rest[length..];
        }
        self.line.extend_from_slice(rest);
        self.cursor += rest.len();
    }

    /// Goes back to the beginning of the line for returns behind which more came.
    fn settle_returns(&mut self, text: &mut Vec<u8>) {
        if std::mem::take(&mut self.returns) == 0 {
            return;
        }
        if self.is_open {
            // Its beginning is out already.
            self.break_line(text);
        }
        self.cursor = 0;
    }

    fn step_back(&mut self, columns: usize) {
        for _ in 0..columns {
            while self.cursor > 0 {
                self.cursor -= 1;
                if !is_continuation(self.line[self.cursor]) {
                    break;
                }
            }
        }
    }

    /// Removes what is behind a byte of the line.
    fn cut(&mut self, end: usize) {
        self.has_overwritten |= self.line[end..].iter().any(|byte| *byte != b' ');
        self.line.truncate(end);
    }

    /// Replaces what is up to the cursor by spaces, the character at the cursor included.
    fn blank(&mut self) {
        let end = self.cursor + self.width_at(self.cursor);
        let columns = |line: &[u8]| line.iter().filter(|byte| !is_continuation(**byte)).count();
        let (before, all) = (columns(&self.line[..self.cursor]), columns(&self.line[..end]));
        self.has_overwritten |= self.line[..end].iter().any(|byte| *byte != b' ');
        self.line.splice(..end, std::iter::repeat_n(b' ', all));
        self.cursor = before;
    }

    fn break_line(&mut self, text: &mut Vec<u8>) {
        let is_empty = self.line.is_empty() && !self.is_open;
        self.returns = 0;
        self.flush(text);
        if !is_empty {
            text.push(b'\n');
        }
        self.is_open = false;
    }

    fn flush(&mut self, text: &mut Vec<u8>) {
        text.append(&mut self.line);
        self.cursor = 0;
    }

    fn width_at(&self, at: usize) -> usize {
        if at < self.line.len() { width(&self.line, at) } else { 0 }
    }
}

/// Returns whether a byte is a control character that is not just shown.
fn is_special(byte: u8) -> bool {
    byte < b' ' && byte != b'\t'
}

/// Returns the bytes of the character that begins at `at`.
fn width(bytes: &[u8], at: usize) -> usize {
    1 + bytes[at + 1..].iter().take(3).take_while(|byte| is_continuation(**byte)).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(pieces: &[&[u8]]) -> (String, bool) {
        let (mut plain, mut text) = (TerminalText::default(), Vec::new());
        pieces.iter().for_each(|piece| plain.push(piece, &mut text));
        plain.finish(&mut text);
        (String::from_utf8_lossy(&text).into_owned(), plain.has_overwritten())
    }

    #[track_caller]
    fn check(printed: &str, expected: &str) {
        assert_eq!(plain(&[printed.as_bytes()]).0, expected, "{printed:?}");
        let bytes: Vec<&[u8]> = printed.as_bytes().chunks(1).collect();
        assert_eq!(plain(&bytes).0, expected, "{printed:?} byte by byte");
    }

    #[test]
    fn colours_titles_and_links_are_taken_out() {
        check("\u{1b}[31mred\u{1b}[0m plain", "red plain");
        check("\u{1b}[1;38;5;200mbold\u{1b}[m\n", "bold\n");
        check("\u{1b}[38:2:1:2:3mx", "x");
        check("\u{1b}]0;title\u{7}text", "text");
        check("\u{1b}]8;;http://a/b\u{1b}\\link\u{1b}]8;;\u{1b}\\.", "link.");
        check("\u{1b}P$q\"p\u{1b}\\x\u{1b}_Gf=100;AAAA\u{1b}\\y", "xy");
        check("\u{1b}(B\u{1b}[?25l\u{1b}[?2004hx\u{1b}7\u{1b}8\u{1b}=y\u{1b}[>4;1mz", "xyz");
        check("a\u{1b}\u{1b}[1mb", "ab");
        check("ding\u{7}", "ding");
    }

    #[test]
    fn overwritten_text_appears_in_its_final_state() {
        check(" 10%\r 50%\r100%\n", "100%\n");
        check("loading...\r\u{1b}[Kdone\n", "done\n");
        check("loading...\u{1b}[2K\rdone\n", "done\n");
        check("\u{1b}[1Gabc\u{1b}[1Gxyz", "xyz");
        check("abcdef\rxyz", "xyzdef");
        check("größe\rGRÖ", "GRÖße");
        check("a\u{8}b N\u{8}NA\u{8}A _\u{8}x", "b NA x");
        check("abc\u{1b}[2Dxy", "axy");
        check("⠋ wait\r⠙ wait\r✔ done\n", "✔ done\n");
        check(" 10%\r\u{1b}[J 50%\r\u{1b}[J100%\n", "100%\n");
        check("one\ntwo 1\r\u{1b}[0Jtwo\n", "one\ntwo\n");
        check("loading...\u{1b}[7D\u{1b}[J\n", "loa\n");
        check("10%\u{1b}[1K\rdone\n", "done\n");
        check("abc\u{1b}[1Kd", "   d");
        check("name: 10%\u{1b}[3D\u{1b}[1Kx", "      x0%");
        check("größe\u{1b}[2D\u{1b}[1Kx", "   xe");
        check("abc\r\u{1b}[1Kx", "xbc");
        assert!(plain(&[b"abc\x1b[1K"]).1 && plain(&[b"abc\r\x1b[J"]).1);
        assert!(!plain(&[b"a\n\x1b[J\x1b[1Kb"]).1);
        assert!(plain(&[b"10%\r20%"]).1 && plain(&[b"abc\x1b[2K"]).1);
        assert!(!plain(&[b"a\r\nb\r\n\x1b[32mc\x1b[0m\x1b[K"]).1);
    }

    #[test]
    fn lines_stay_apart_wherever_they_were_written() {
        check(
            "one\ntwo\n\u{1b}[2A\u{1b}[2Kone: done\n\u{1b}[2Ktwo: done\n",
            "one\ntwo\none: done\ntwo: done\n",
        );
        check("\u{1b}[2J\u{1b}[Htop\u{1b}[5;10Hbelow", "top\nbelow");
        check("a\u{1b}[5Cb", "a     b");
        check("name\u{1b}[999Cx", &format!("name{}x", " ".repeat(MOVE_CAP)));
        check("a\u{1b}[12\nb", "a\nb");
        check("\u{1b}]0;no end\nnext", "\nnext");
    }

    #[test]
    fn ordinary_text_is_as_it_was() {
        for text in ["", "a\tb\n\nc", "dos\r\nlines\r\n", "größe 日本語", "no end of line"] {
            check(text, text);
        }
        check("tty\r\r\nx", "tty\r\nx");
        check("a\0b\u{b}c", "a\u{2400}b\u{240b}c");
        assert_eq!(plain(&[b"caf\xE9 \x1b[1mx"]).0, "caf\u{FFFD} x");
        let long = "x".repeat(LINE_CAP * 3);
        check(&long, &long);
        check(&format!("{long}\ry\n"), &format!("{long}\ny\n"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_grow(bytes in prop::collection::vec(
            prop_oneof![
                any::<u8>(),
                prop::sample::select(&b"\x1b[];0129CDGKHAm\r\n\x08\x07\xc3\x9f"[..]),
            ], 0..400,
        )) {
            let pieces: Vec<&[u8]> = bytes.chunks(7).collect();
            let (whole, apart) = (plain(&[&bytes]), plain(&pieces));
            prop_assert_eq!(&whole, &apart);
            let is_plain = !whole.0.contains(char::from(ESCAPE));
            prop_assert!(is_plain);
        }
    }
}
