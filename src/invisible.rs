//! Characters that no reader sees, and text for a model without them.
//!
//! A model reads every character, a person only those that have a shape: tag characters
//! and variation selectors can hold instructions that the user never sees. [`visible`] is
//! called for each text that enters a request (`message::prefix`). `shaping` knows where
//! an invisible character belongs to ordinary text.

mod shaping;

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::message::counted;

pub use shaping::{Neighbour, is_undecided, shapes};

/// Maximum code points that a notice lists.
const LISTED_CAP: usize = 4;

/// Maximum characters that a notice quotes to show where the first one was.
const QUOTED_CAP: usize = 40;

/// Black flag, which the flags of regions begin with.
const FLAG: char = '\u{1f3f4}';

/// Tag characters behind a black flag that make the flags of England, Scotland and Wales.
/// No other flag of this kind is recommended for interchange (Unicode emoji 16).
const FLAG_TAGS: [&str; 3] = [
    "\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
];

/// Returns whether `character` has no shape of its own. Control characters, spaces, and
/// the selectors between text and emoji (U+FE0E, U+FE0F) are not among these.
#[must_use]
pub const fn is_invisible(character: char) -> bool {
    match character {
        // Soft hyphen, grapheme joiner, Hangul fillers.
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => true,
        // Khmer vowels that are only implied, Mongolian selectors and separator.
        '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => true,
        // Marks, embeddings, overrides and isolates that turn text round.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        // Zero width, invisible operators and the isolates among them.
        '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => true,
        // Line and paragraph separators, specials without a meaning, annotation marks.
        '\u{2028}' | '\u{2029}' | '\u{fff0}'..='\u{fffb}' => true,
        // Controls of shorthand and of musical notation.
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
        // Variation selectors.
        '\u{fe00}'..='\u{fe0d}' => true,
        // Tag characters (a second, invisible alphabet), more variation selectors, and
        // what Unicode sets aside for more characters without a shape.
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

/// Returns `text` without its invisible characters and with a notice at its end that
/// says how many there were.
///
/// Characters that ordinary text needs stay: joiners in emoji and in scripts that join
/// letters, single marks of direction, selectors of ideographs, the flags of regions. A
/// text that was returned once is returned as it is.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    let (visible, removed) = without_invisible(text);
    match removed.notice() {
        Some(notice) => Cow::Owned(format!("{visible}\n\n{notice}")),
        None => Cow::Borrowed(text),
    }
}

/// Returns `text` without the characters that [`visible`] removes, and which those were.
#[must_use]
pub fn without_invisible(text: &str) -> (Cow<'_, str>, Removed) {
    let mut removed = Removed::default();
    if text.is_ascii() {
        return (Cow::Borrowed(text), removed);
    }
    let mut visible = String::new();
    // Where the part begins that has not been copied yet.
    let mut start = 0;
    let mut before = Neighbour::Nothing;
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let end = at + character.len_utf8();
        let after = characters.peek().map_or(Neighbour::Nothing, |(_, c)| Neighbour::Is(*c));
        let is_gone = is_removed(before, character, after);
        if character == FLAG
            && let Some(tags) = FLAG_TAGS.iter().find(|tags| text[end..].starts_with(**tags))
        {
            while characters.next_if(|(at, _)| *at < end + tags.len()).is_some() {}
            before = Neighbour::Is(FLAG);
            continue;
        }
        before = Neighbour::Is(character);
        if is_gone {
            visible.push_str(&text[start..at]);
            start = end;
            removed.note(character, &visible, at);
            // The next character has no visible neighbour on this side, even if a selector was
            // removed.
            before = Neighbour::Removed;
        }
    }
    if removed.places.is_empty() {
        return (Cow::Borrowed(text), removed);
    }
    visible.push_str(&text[start..]);
    (Cow::Owned(visible), removed)
}

fn is_removed(before: Neighbour, character: char, after: Neighbour) -> bool {
    match character {
        // One chooses a form; more of them hold something.
        _ if shaping::is_form_selector(character) => match before {
            Neighbour::Is(before) => is_invisible(before) || shaping::is_form_selector(before),
            Neighbour::Nothing | Neighbour::Removed => true,
            Neighbour::Unknown => false,
        },
        // A model reads them as ends of lines.
        '\u{2028}' | '\u{2029}' => false,
        _ => is_invisible(character) && !shapes(before, character, after),
    }
}

/// Characters that were removed from a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Where each one was in the text, in bytes, and its length.
    places: Vec<(usize, usize)>,
    /// The first kinds of them.
    kinds: BTreeSet<char>,
    /// The text before the first one.
    behind: String,
}

impl Removed {
    fn note(&mut self, character: char, before: &str, at: usize) {
        if self.places.is_empty() {
            let line = before.rsplit('\n').next().unwrap_or_default().trim();
            let mut quoted: Vec<char> = line.chars().rev().take(QUOTED_CAP).collect();
            // At the edge of a quotation none of them would shape anything.
            quoted.retain(|c| !is_invisible(*c) && !c.is_control() && !is_tail(*c));
            self.behind = quoted.into_iter().rev().collect();
        }
        if self.kinds.len() <= LISTED_CAP {
            self.kinds.insert(character);
        }
        self.places.push((at, character.len_utf8()));
    }

    /// Returns where a place in the text is in what is left of it.
    #[must_use]
    pub fn moved(&self, place: usize) -> usize {
        let before = self.places.iter().take_while(|(at, _)| *at < place);
        place - before.map(|(_, length)| length).sum::<usize>()
    }

    /// Returns a sentence for the model about what was removed; `None` if nothing was.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        let count = self.places.len();
        if count == 0 {
            return None;
        }
        let listed = self.kinds.iter().take(LISTED_CAP);
        let mut kinds: Vec<_> = listed.map(|c| format!("U+{:04X}", u32::from(*c))).collect();
        if self.kinds.len() > LISTED_CAP {
            kinds.push("…".to_owned());
        }
        let characters = counted(count as u64, "invisible character");
        let place = match &*self.behind {
            "" => String::new(),
            behind if count == 1 => format!(", behind \"{behind}\""),
            behind => format!(", the first behind \"{behind}\""),
        };
        let kinds = kinds.join(", ");
        Some(format!(
            "[tine removed {characters} from this text ({kinds}){place}. Such characters can hide \
             instructions from the user.]"
        ))
    }
}

/// Returns whether a character depends on the one before it.
const fn is_tail(character: char) -> bool {
    matches!(character, '\u{fe0e}' | '\u{fe0f}' | FLAG)
}

#[cfg(test)]
mod tests;
