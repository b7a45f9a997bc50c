//! What a terminal sends, turned into keys and pastes.
//!
//! However the bytes are cut into reads, the same keys come of them: the
//! beginning of a sequence waits for its rest. Only silence tells the Esc key
//! from the beginning of another one, so whoever reads says when there was
//! some. Nothing here reads a terminal or asks it anything.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// How long the rest of a key's bytes is waited for. A terminal sends them at
/// once, and over a network they come in one piece; nobody types two keys in
/// that time.
pub const ESC_WAIT: Duration = Duration::from_millis(25);

/// How long the rest of a paste is waited for. A network may stall in the
/// middle of one, and what came behind it would be typed, line breaks and all.
pub const PASTE_WAIT: Duration = Duration::from_secs(10);

/// Most bytes of a paste; the rest is left out and counted. More than a model
/// reads, and little to hold.
pub const PASTE_CAP: usize = 1024 * 1024;

/// Most bytes of one key's sequence. The longest that terminals send has twenty.
const SEQUENCE_CAP: usize = 64;

/// Most bytes of an answer that some program before us has asked the terminal
/// for. After so many it is no answer, and what comes is keys again.
const ANSWER_CAP: usize = 4_096;

const ESC: u8 = 0x1b;

/// What ends a paste. Its first byte is nowhere else in it.
const PASTE_END: &[u8] = b"\x1b[201~";

/// What somebody did at the keyboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    /// A key was pressed.
    Key(KeyEvent),
    /// A text was pasted.
    Paste(Pasted),
}

/// A text that was pasted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pasted {
    /// The text; its lines end in `\n`.
    pub text: String,
    /// How many bytes behind it were left out.
    pub left_out: usize,
}

/// Turns bytes into what was typed.
#[derive(Debug, Default)]
pub struct Decoder {
    mode: Mode,
    /// The beginning of a key; empty in other modes.
    pending: Vec<u8>,
}

#[derive(Debug, Default)]
enum Mode {
    #[default]
    Keys,
    Paste(Pasting),
    /// A sequence that is too long to be a key, up to its last byte.
    TooLong,
    /// An answer of the terminal, which is nobody's text.
    Answer {
        taken: usize,
        after_escape: bool,
    },
}

/// A paste on its way.
#[derive(Debug, Default)]
struct Pasting {
    bytes: Vec<u8>,
    left_out: usize,
    /// How much of its end was seen last.
    matched: usize,
}

impl Decoder {
    /// Takes what was read; `typed` gets all that is whole.
    pub fn feed(&mut self, bytes: &[u8], typed: &mut Vec<Typed>) {
        for &byte in bytes {
            self.take(byte, typed);
        }
    }

    /// Returns how long to wait before [`Decoder::settle`]; `None` if nothing
    /// is begun.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        match self.mode {
            Mode::Keys => (!self.pending.is_empty()).then_some(ESC_WAIT),
            Mode::TooLong | Mode::Answer { .. } => Some(ESC_WAIT),
            Mode::Paste(_) => Some(PASTE_WAIT),
        }
    }

    /// Takes what is begun for all there is: nothing came for a while.
    pub fn settle(&mut self, typed: &mut Vec<Typed>) {
        match std::mem::take(&mut self.mode) {
            Mode::Keys => self.parse(Rest::NeverComes, typed),
            Mode::Paste(pasting) => typed.push(Typed::Paste(pasting.finish())),
            Mode::TooLong | Mode::Answer { .. } => {}
        }
        self.pending.clear();
    }

    fn take(&mut self, byte: u8, typed: &mut Vec<Typed>) {
        match &mut self.mode {
            Mode::Keys => {
                self.pending.push(byte);
                self.parse(Rest::MayCome, typed);
            }
            Mode::Paste(pasting) => {
                if pasting.take(byte) {
                    let pasting = std::mem::take(pasting);
                    self.mode = Mode::Keys;
                    typed.push(Typed::Paste(pasting.finish()));
                }
            }
            Mode::TooLong => match byte {
                0x20..0x40 => {}
                0x40..0x7f => self.mode = Mode::Keys,
                _ => {
                    self.mode = Mode::Keys;
                    self.take(byte, typed);
                }
            },
            Mode::Answer { taken, after_escape } => {
                *taken += 1;
                let is_over = matches!(byte, 0x07 | 0x18 | 0x1a) || *taken == ANSWER_CAP;
                let ends = *after_escape;
                *after_escape = byte == ESC;
                if ends && byte != b'\\' {
                    // That escape was the beginning of something else.
                    self.mode = Mode::Keys;
                    self.pending.push(ESC);
                    self.take(byte, typed);
                } else if ends || is_over {
                    self.mode = Mode::Keys;
                }
            }
        }
    }

    /// Takes off what is whole.
    fn parse(&mut self, rest: Rest, typed: &mut Vec<Typed>) {
        while !self.pending.is_empty() {
            let (length, found) = parse(&self.pending, rest);
            match found {
                Found::Part => return,
                Found::Nothing => {}
                Found::Key(key) => typed.push(Typed::Key(key)),
                Found::Paste => self.mode = Mode::Paste(Pasting::default()),
                Found::TooLong => self.mode = Mode::TooLong,
                Found::Answer => self.mode = Mode::Answer { taken: 0, after_escape: false },
            }
            self.pending.drain(..length);
        }
    }
}

impl Pasting {
    /// Takes a byte; `true` if the paste ends with it.
    fn take(&mut self, byte: u8) -> bool {
        if byte == PASTE_END[self.matched] {
            self.matched += 1;
            return self.matched == PASTE_END.len();
        }
        // It was text that looks like the end.
        let matched = std::mem::take(&mut self.matched);
        PASTE_END[..matched].iter().for_each(|&byte| self.keep(byte));
        if byte == ESC {
            self.matched = 1;
        } else {
            self.keep(byte);
        }
        false
    }

    fn keep(&mut self, byte: u8) {
        if self.bytes.len() < PASTE_CAP {
            self.bytes.push(byte);
        } else {
            self.left_out += 1;
        }
    }

    fn finish(mut self) -> Pasted {
        if self.left_out > 0 {
            // Not half a character, nor a line end that is cut in two.
            let whole = match std::str::from_utf8(&self.bytes) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                Ok(_) | Err(_) => self.bytes.len(),
            };
            self.left_out += self.bytes.len() - whole;
            self.bytes.truncate(whole);
        }
        let text = String::from_utf8_lossy(&self.bytes).replace("\r\n", "\n").replace('\r', "\n");
        Pasted { text, left_out: self.left_out }
    }
}

/// Whether more bytes of a key can come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    MayCome,
    NeverComes,
}

/// What the first bytes are.
enum Found {
    /// The beginning of something.
    Part,
    /// Something that means nothing to us.
    Nothing,
    Key(KeyEvent),
    /// The beginning of a paste.
    Paste,
    /// The beginning of a sequence that is no key.
    TooLong,
    /// The beginning of an answer.
    Answer,
}

const NONE: KeyModifiers = KeyModifiers::NONE;

fn key(code: KeyCode, modifiers: KeyModifiers) -> Found {
    Found::Key(KeyEvent::new(code, modifiers))
}

/// Tells what the first of these bytes are, and how many they are. There is at
/// least one.
fn parse(bytes: &[u8], rest: Rest) -> (usize, Found) {
    let part = |length: usize| match rest {
        Rest::MayCome => (0, Found::Part),
        Rest::NeverComes => (length, Found::Nothing),
    };
    match bytes {
        [ESC] if rest == Rest::MayCome => (0, Found::Part),
        [ESC] => (1, key(KeyCode::Esc, NONE)),
        // Some terminals put another escape before a key that is pressed with Alt.
        [ESC, ESC] if rest == Rest::MayCome => (0, Found::Part),
        [ESC, ESC, b'[' | b'O', ..] => {
            let (length, found) = sequence(&bytes[1..], rest);
            let is_whole = matches!(found, Found::Key(_) | Found::Part);
            if is_whole && length != 2 {
                (if length == 0 { 0 } else { length + 1 }, with_alt(found))
            } else {
                (1, key(KeyCode::Esc, NONE))
            }
        }
        [ESC, ESC, ..] => (1, key(KeyCode::Esc, NONE)),
        [ESC, b'[' | b'O' | b']' | b'P' | b'_', ..] => sequence(bytes, rest),
        [ESC, after @ ..] => match character(after) {
            Some((length, found)) => (length + 1, with_alt(found)),
            None => part(bytes.len()),
        },
        _ => character(bytes).unwrap_or_else(|| part(bytes.len())),
    }
}

fn with_alt(found: Found) -> Found {
    match found {
        Found::Key(mut key) => {
            key.modifiers |= KeyModifiers::ALT;
            Found::Key(key)
        }
        other @ (Found::Part | Found::Nothing | Found::Paste | Found::TooLong | Found::Answer) => {
            other
        }
    }
}

/// A key that is one character; `None` if its rest is not there.
fn character(bytes: &[u8]) -> Option<(usize, Found)> {
    let control = |c: u8| key(KeyCode::Char(char::from(c)), KeyModifiers::CONTROL);
    let first = bytes[0];
    let found = match first {
        b'\r' => key(KeyCode::Enter, NONE),
        b'\t' => key(KeyCode::Tab, NONE),
        0x7f => key(KeyCode::Backspace, NONE),
        0 => control(b' '),
        0x01..=0x1a => control(first - 1 + b'a'),
        0x1c..=0x1f => control(first - 0x1c + b'\\'),
        ESC => key(KeyCode::Esc, NONE),
        0x20..0x7f => text(char::from(first)),
        0x80.. => {
            let length = match first {
                0xc2..0xe0 => 2,
                0xe0..0xf0 => 3,
                0xf0..0xf5 => 4,
                _ => return Some((1, Found::Nothing)),
            };
            let given = &bytes[..length.min(bytes.len())];
            return match std::str::from_utf8(given) {
                Ok(whole) => {
                    let c = whole.chars().next().expect("it is one character");
                    // 8-bit control characters are no text, and no terminal's keys.
                    Some((length, if c.is_control() { Found::Nothing } else { text(c) }))
                }
                Err(error) if error.error_len().is_none() => None,
                Err(_) => Some((1, Found::Nothing)),
            };
        }
    };
    Some((1, found))
}

/// A character as it is typed: capitals come with Shift, by which the commands
/// of vi know them.
fn text(c: char) -> Found {
    key(KeyCode::Char(c), if c.is_uppercase() { KeyModifiers::SHIFT } else { NONE })
}

/// What begins with an escape and a byte that has more behind it.
fn sequence(bytes: &[u8], rest: Rest) -> (usize, Found) {
    let alt = || {
        let (_, found) = character(&bytes[1..]).expect("it is ASCII");
        (2, with_alt(found))
    };
    match (bytes[1], bytes.get(2)) {
        (_, None) if rest == Rest::MayCome => (0, Found::Part),
        (_, None) => alt(),
        (b'[', Some(_)) => control_sequence(bytes, rest),
        (b'O', Some(&last)) => match single_shift(last) {
            Some(found) => (3, found),
            None => alt(),
        },
        // Answers of a terminal to whoever asked it before us. What follows
        // tells them from a key that was pressed with Alt.
        (b']', Some(b'0'..=b'9'))
        | (b'P', Some(b'0'..=b'9' | b'>' | b'!'))
        | (b'_', Some(b'G')) => (3, Found::Answer),
        (_, Some(_)) => alt(),
    }
}

/// Keys of the keypad, and arrows where a program before us has left them so.
fn single_shift(last: u8) -> Option<Found> {
    let arrow = |last: u8| arrow(last).map(|code| key(code, NONE));
    match last {
        b'M' => Some(key(KeyCode::Enter, NONE)),
        b'X' => Some(text('=')),
        b'j'..=b'y' => Some(text(char::from(last - b'j' + b'*'))),
        b'a'..=b'd' => {
            let code = self::arrow(last.to_ascii_uppercase())?;
            Some(key(code, KeyModifiers::CONTROL))
        }
        _ => arrow(last),
    }
}

fn arrow(last: u8) -> Option<KeyCode> {
    match last {
        b'A' => Some(KeyCode::Up),
        b'B' => Some(KeyCode::Down),
        b'C' => Some(KeyCode::Right),
        b'D' => Some(KeyCode::Left),
        b'F' => Some(KeyCode::End),
        b'H' => Some(KeyCode::Home),
        b'P'..=b'S' => Some(KeyCode::F(last - b'P' + 1)),
        _ => None,
    }
}

/// What begins with `ESC [` and has at least one byte behind it.
fn control_sequence(bytes: &[u8], rest: Rest) -> (usize, Found) {
    let body = &bytes[2..];
    let part = |length: usize| match rest {
        Rest::MayCome => (0, Found::Part),
        Rest::NeverComes => (length, Found::Nothing),
    };
    // The Linux console's first function keys.
    if body[0] == b'[' {
        return match body.get(1) {
            None => part(bytes.len()),
            Some(&last @ b'A'..=b'E') => (4, key(KeyCode::F(last - b'A' + 1), NONE)),
            Some(_) => (3, Found::Nothing),
        };
    }
    let Some(end) = body.iter().position(|byte| !(0x20..0x40).contains(byte)) else {
        if body.len() >= SEQUENCE_CAP {
            return (bytes.len(), Found::TooLong);
        }
        return part(bytes.len());
    };
    let last = body[end];
    if !(0x40..0x7f).contains(&last) {
        // Cut off by something else, which is looked at by itself.
        return (2 + end, Found::Nothing);
    }
    let length = 2 + end + 1;
    if last == b'M' && end == 0 {
        // A click, reported as three bytes, where a program has left that on.
        return if body.len() < 4 { part(bytes.len()) } else { (length + 3, Found::Nothing) };
    }
    (length, meaning(&body[..end], last))
}

/// The meaning of a sequence by its parameters and its last byte.
fn meaning(parameters: &[u8], last: u8) -> Found {
    let Ok(parameters) = std::str::from_utf8(parameters) else { return Found::Nothing };
    let mut fields = parameters.split(';');
    let first = fields.next().unwrap_or_default();
    let second = fields.next().unwrap_or_default();
    let third = fields.next().unwrap_or_default();
    let (modifiers, action) = second.split_once(':').unwrap_or((second, "1"));
    // A key that is let go is none that is pressed.
    if action == "3" {
        return Found::Nothing;
    }
    let number = |text: &str| text.parse::<u32>().ok();
    let held = modifiers_of(number(modifiers).unwrap_or(1));
    match last {
        // A terminal that says where its cursor is, says so with this byte, too.
        b'R' if first != "1" => Found::Nothing,
        b'Z' if parameters.is_empty() => key(KeyCode::BackTab, KeyModifiers::SHIFT),
        b'~' if first == "200" => Found::Paste,
        b'~' if first == "27" => number(third).map_or(Found::Nothing, |code| coded(code, held)),
        b'~' => numbered(number(first)).map_or(Found::Nothing, |code| key(code, held)),
        b'u' => {
            let mut codes = first.split(':').map(number);
            let (plain, shifted) = (codes.next().flatten(), codes.next().flatten());
            let shifted = shifted.filter(|_| held.contains(KeyModifiers::SHIFT));
            shifted.or(plain).map_or(Found::Nothing, |code| coded(code, held))
        }
        _ if matches!(first, "" | "1") => {
            arrow(last).map_or(Found::Nothing, |code| key(code, held))
        }
        _ => Found::Nothing,
    }
}

fn numbered(number: Option<u32>) -> Option<KeyCode> {
    let function = |number: u32, before: u32| u8::try_from(number - before).ok().map(KeyCode::F);
    match number? {
        1 | 7 => Some(KeyCode::Home),
        2 => Some(KeyCode::Insert),
        3 => Some(KeyCode::Delete),
        4 | 8 => Some(KeyCode::End),
        5 => Some(KeyCode::PageUp),
        6 => Some(KeyCode::PageDown),
        // Gaps are those of a keyboard of 1983.
        number @ 11..=15 => function(number, 10),
        number @ 17..=21 => function(number, 11),
        number @ 23..=24 => function(number, 12),
        _ => None,
    }
}

/// A key by its code point, as terminals tell it that were asked to.
fn coded(code: u32, held: KeyModifiers) -> Found {
    let code = match code {
        27 => KeyCode::Esc,
        13 => KeyCode::Enter,
        9 if held.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
        9 => KeyCode::Tab,
        8 | 127 => KeyCode::Backspace,
        // Keys without a character stand in the area for private use.
        0xe000..=0xf8ff => return Found::Nothing,
        _ => match char::from_u32(code).filter(|c| !c.is_control()) {
            Some(c) if held.contains(KeyModifiers::SHIFT) && c.is_ascii_lowercase() => {
                KeyCode::Char(c.to_ascii_uppercase())
            }
            Some(c) => KeyCode::Char(c),
            None => return Found::Nothing,
        },
    };
    key(code, held)
}

fn modifiers_of(number: u32) -> KeyModifiers {
    let bits = number.saturating_sub(1);
    let kinds = [
        (1, KeyModifiers::SHIFT),
        (2, KeyModifiers::ALT),
        (4, KeyModifiers::CONTROL),
        // Few keyboards have it, and terminals that do mean Alt.
        (32, KeyModifiers::ALT),
    ];
    kinds.into_iter().filter(|(bit, _)| bits & bit != 0).map(|(_, kind)| kind).collect()
}

#[cfg(test)]
mod tests;
