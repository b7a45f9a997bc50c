//! A part of what a unit is told of others, taken apart: for a unit of another
//! process, where it is written down.

use std::sync::Arc;

use super::excerpt::Excerpt;
use super::{Part, Said};
use crate::branch::TokenSet;
use crate::event::{Invocation, Seq, UnitId};

/// All that a [`Said`] holds.
#[derive(Debug, Clone, PartialEq)]
pub struct SaidApart {
    /// The event that it was taken from.
    pub seq: Seq,
    /// The unit that said it.
    pub unit: UnitId,
    /// The invocation that it was said in.
    pub invocation: Invocation,
    /// Who may see it.
    pub tokens: TokenSet,
    /// Whose it is, in words.
    pub from: Arc<str>,
    /// What sort of part it is.
    pub part: Part,
    /// The head of its text.
    pub head: Box<str>,
    /// How many bytes of the text are missing behind that.
    pub missing: usize,
}

impl Said {
    /// Takes the part apart.
    #[must_use]
    pub fn apart(&self) -> SaidApart {
        let Self { seq, unit, invocation, tokens, from, part, text } = self.clone();
        let missing = text.missing();
        SaidApart { seq, unit, invocation, tokens, from, part, head: text.head, missing }
    }
}

impl From<SaidApart> for Said {
    fn from(apart: SaidApart) -> Self {
        let SaidApart { seq, unit, invocation, tokens, from, part, head, missing } = apart;
        let text = Excerpt::from_head(head, missing);
        Self { seq, unit, invocation, tokens, from, part, text }
    }
}
