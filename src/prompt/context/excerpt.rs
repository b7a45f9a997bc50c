//! Texts cut to what is told of them.

/// The head of a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Excerpt {
    pub(super) head: Box<str>,
    /// How many characters that is.
    pub(super) length: usize,
    /// How many bytes are missing behind it.
    missing: usize,
}

impl Excerpt {
    pub(super) fn of(text: &str, cap: usize) -> Self {
        let text = text.trim();
        let (head, length) = match text.char_indices().nth(cap) {
            Some((end, _)) => (&text[..end], cap),
            None => (text, text.chars().count()),
        };
        Self { head: head.into(), length, missing: text.len() - head.len() }
    }

    /// A head that was cut off elsewhere, with `missing` bytes behind it.
    pub(super) fn from_head(head: Box<str>, missing: usize) -> Self {
        Self { length: head.chars().count(), head, missing }
    }

    /// Returns how many bytes are missing behind the head.
    pub(super) fn missing(&self) -> usize {
        self.missing
    }

    /// Returns the first `share` characters and says what is missing.
    pub(super) fn text(&self, share: usize) -> String {
        let end = self.head.char_indices().nth(share).map_or(self.head.len(), |(end, _)| end);
        match self.missing.saturating_add(self.head.len() - end) {
            0 => self.head.to_string(),
            missing => format!("{}\n[{missing} more bytes are left out]", &self.head[..end]),
        }
    }
}

/// Returns the head of a text with its line breaks as blanks.
pub(super) fn one_line(text: &str, cap: usize) -> String {
    let mut characters = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = characters.by_ref().take(cap).collect();
    if characters.next().is_some() {
        line.push('…');
    }
    line
}
