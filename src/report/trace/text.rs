//! What was said, kept within bounds.

use std::sync::Arc;

/// Most bytes of one text. A page is there to be looked at: what is longer is in
/// the log, and the page says how much of it is missing.
pub const TEXT_CAP: usize = 64 * 1024;

/// Most bytes of all texts together, beyond which each is kept up to
/// half a kilobyte only. A browser opens a page of this size in a second or two.
pub const TEXTS_CAP: usize = 64 * 1024 * 1024;

/// Most bytes of a text when there is no room for more: enough to tell what it
/// is.
const AFTER_CAP: usize = 512;

/// A text, or as much of it as is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// What sort of text it is.
    pub label: Label,
    /// The text, or its beginning.
    pub text: Arc<str>,
    /// How long the whole text is, in bytes.
    pub bytes: u64,
}

impl Said {
    /// Tells whether some of it is missing.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.text.len() as u64 != self.bytes
    }
}

/// What sort of text something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// What a unit was told.
    Prompt,
    /// What a model said.
    Answer,
    /// What a model thought, as far as it shows.
    Thinking,
    /// What a call was given.
    Arguments,
    /// What a call gave back.
    Output,
    /// Why something was refused or decided.
    Reason,
    /// What went wrong.
    Error,
    /// What a person was asked, or what was decided.
    Question,
    /// What a person said to it.
    Verdict,
    /// What stands for a conversation from here on.
    Summary,
    /// What people are told.
    Notice,
}

impl Label {
    /// Returns the name used in the trace's forms.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Answer => "answer",
            Self::Thinking => "thinking",
            Self::Arguments => "arguments",
            Self::Output => "output",
            Self::Reason => "reason",
            Self::Error => "error",
            Self::Question => "question",
            Self::Verdict => "verdict",
            Self::Summary => "summary",
            Self::Notice => "notice",
        }
    }
}

/// How much room the texts of a trace have taken.
#[derive(Debug, Default)]
pub(super) struct Budget {
    taken: usize,
}

impl Budget {
    /// Keeps as much of a text as there is room for.
    pub(super) fn keep(&mut self, label: Label, text: &Arc<str>) -> Said {
        let room = TEXTS_CAP.saturating_sub(self.taken).clamp(AFTER_CAP, TEXT_CAP);
        let kept = match text.len() <= room {
            true => Arc::clone(text),
            false => beginning(text, room).into(),
        };
        self.taken += kept.len();
        Said { label, text: kept, bytes: text.len() as u64 }
    }
}

/// Returns at most so many bytes of a text, in whole characters.
fn beginning(text: &str, cap: usize) -> &str {
    &text[..text.floor_char_boundary(cap)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_beginning_and_says_how_long_it_was() {
        let mut budget = Budget::default();
        let long: Arc<str> = "é".repeat(TEXT_CAP).into();
        let said = budget.keep(Label::Output, &long);
        assert_eq!((said.text.len(), said.bytes), (TEXT_CAP, 2 * TEXT_CAP as u64));
        assert!(said.is_cut() && long.starts_with(&*said.text));
        let odd: Arc<str> = format!("a{long}").into();
        assert_eq!(budget.keep(Label::Output, &odd).text.len(), TEXT_CAP - 1);
        assert!(!budget.keep(Label::Output, &"short".into()).is_cut());
    }

    #[test]
    fn when_all_texts_are_too_much_the_rest_is_told_by_its_beginning() {
        let mut budget = Budget::default();
        let text: Arc<str> = "x".repeat(TEXT_CAP).into();
        for _ in 0..TEXTS_CAP / TEXT_CAP {
            assert!(!budget.keep(Label::Prompt, &text).is_cut());
        }
        assert_eq!(budget.keep(Label::Prompt, &text).text.len(), AFTER_CAP);
        assert!(!budget.keep(Label::Prompt, &"short".into()).is_cut());
    }
}
