//! Patterns, and what it may cost to look for them.
//!
//! They may look around themselves and refer to what they have found, as those
//! of JavaScript do, and so may go back and read a text again and again. How
//! often is bounded by what is paid before.

use std::sync::OnceLock;

use fancy_regex::{Regex, RegexBuilder};

use super::{BYTES_PER_STEP, PATTERN_BACK_CAPS, PATTERN_MEMORY_CAP, PATTERN_REPEATS_CAP};

/// A regular expression.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) text: String,
    /// How deep it looks around while it looks around.
    looks: u32,
    regex: Regex,
    /// The same, which may go back more often; made once it is needed.
    patient: OnceLock<Option<Regex>>,
}

/// One way to look for a pattern.
pub(super) struct Attempt<'p> {
    pattern: &'p Pattern,
    back_cap: usize,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let Shape { looks, repeats } = Shape::of(text);
        if looks > 0 && repeats > PATTERN_REPEATS_CAP {
            return Err(format!("it repeats more than {PATTERN_REPEATS_CAP} times"));
        }
        let regex = built(text, PATTERN_BACK_CAPS[0])?;
        Ok(Self { text: text.to_owned(), looks, regex, patient: OnceLock::new() })
    }

    /// Returns the ways to look for it, the cheapest first.
    pub(super) fn attempts(&self) -> impl Iterator<Item = Attempt<'_>> {
        PATTERN_BACK_CAPS.into_iter().map(|back_cap| Attempt { pattern: self, back_cap })
    }
}

impl Attempt<'_> {
    /// Returns how many steps it takes at most on a text of so many bytes.
    pub(super) fn cost(&self, length: usize) -> usize {
        let is_first = self.back_cap == PATTERN_BACK_CAPS[0];
        if is_first && self.pattern.looks == 0 {
            return length;
        }
        // What looks ahead may do so at each place, to the end.
        let around = length.saturating_pow(self.pattern.looks.saturating_add(1));
        let back = length.saturating_mul(self.back_cap);
        length.saturating_add(around.saturating_add(back) / BYTES_PER_STEP)
    }

    /// Tells whether the pattern is in a text; `None` if it would have to go
    /// back more often.
    pub(super) fn is_in(&self, text: &str) -> Option<bool> {
        let Pattern { text: written, looks: _, regex, patient } = self.pattern;
        let regex = match self.back_cap == PATTERN_BACK_CAPS[0] {
            true => regex,
            false => patient.get_or_init(|| built(written, self.back_cap).ok()).as_ref()?,
        };
        regex.is_match(text).ok()
    }
}

/// Passes over a set of characters, up to the bracket that closes it.
fn pass_set(rest: &mut std::str::CharIndices<'_>) {
    let mut is_first = true;
    while let Some((_, character)) = rest.next() {
        match character {
            '\\' => drop(rest.next()),
            '^' if is_first => continue,
            ']' if !is_first => return,
            _ => {}
        }
        is_first = false;
    }
}

fn built(text: &str, back_cap: usize) -> Result<Regex, String> {
    let built = RegexBuilder::new(text)
        .backtrack_limit(back_cap)
        .delegate_size_limit(PATTERN_MEMORY_CAP)
        .delegate_dfa_size_limit(PATTERN_MEMORY_CAP)
        .build();
    built.map_err(|error| error.to_string())
}

/// What makes a pattern dear, read off its text.
struct Shape {
    looks: u32,
    repeats: usize,
}

impl Shape {
    fn of(text: &str) -> Self {
        let mut open: Vec<bool> = Vec::new();
        let mut shape = Self { looks: 0, repeats: 1 };
        let mut rest = text.char_indices();
        while let Some((at, character)) = rest.next() {
            let behind = &text[at + character.len_utf8()..];
            match character {
                '\\' => drop(rest.next()),
                '(' => {
                    open.push(["?=", "?!", "?<=", "?<!"].iter().any(|it| behind.starts_with(it)));
                    let looks = open.iter().filter(|is_look| **is_look).count();
                    shape.looks = shape.looks.max(u32::try_from(looks).unwrap_or(u32::MAX));
                }
                // What stands in a set of characters is no bracket.
                '[' => pass_set(&mut rest),
                ')' => drop(open.pop()),
                _ => {}
            }
            // Groups in each other multiply; that others do not is no matter.
            if let Some(count) = behind.strip_prefix('{').filter(|_| character == ')') {
                let count = count.split('}').next().unwrap_or_default();
                let most = count.split(',').filter_map(|it| it.trim().parse().ok()).max();
                shape.repeats = shape.repeats.saturating_mul(most.unwrap_or(1).max(1));
            }
        }
        shape
    }
}
