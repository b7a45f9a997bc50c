//! The JSON of what units say.

use serde::{Deserialize, Serialize};

use super::asks::AskBody;
use super::facts::{Fact, told_of};
use super::json::{Text, text};
use super::word::{AskId, Word};
use crate::event::{EventKind, Piece};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WordBody<'a> {
    /// What becomes an event as it is.
    Fact(Fact<'a>),
    Text(Text<'a>),
    Thinking(Text<'a>),
    Leaves(Text<'a>),
    Unasked,
    Unheard(Vec<u64>),
    Ask {
        id: u64,
        ask: AskBody<'a>,
    },
}

impl<'a> WordBody<'a> {
    pub(super) fn of(word: &'a Word) -> Self {
        match word {
            Word::Told(told) => Self::Fact(Fact::of(&EventKind::from(told.clone()))),
            Word::TurnStarted { turn } => {
                Self::Fact(Fact::of(&EventKind::TurnStarted { turn: *turn }))
            }
            Word::Replied(replied) => Self::Fact(Fact::of(&EventKind::Replied(replied.clone()))),
            Word::ToolFinished { call, tool, output, took_ms } => {
                Self::Fact(Fact::of(&EventKind::ToolFinished {
                    call: call.clone(),
                    tool: tool.clone(),
                    output: output.clone(),
                    took_ms: *took_ms,
                }))
            }
            Word::Delta(Piece::Text(piece)) => Self::Text(text(piece)),
            Word::Delta(Piece::Thinking(piece)) => Self::Thinking(text(piece)),
            Word::Leaves(left) => Self::Leaves(text(left)),
            Word::Unasked => Self::Unasked,
            Word::Unheard(asks) => Self::Unheard(asks.iter().map(|ask| ask.0).collect()),
            Word::Ask { id, ask } => Self::Ask { id: id.0, ask: AskBody::of(ask) },
        }
    }

    pub(super) fn into_word(self) -> Result<Word, String> {
        Ok(match self {
            Self::Fact(fact) => word_of(fact.into_kind()?)?,
            Self::Text(piece) => Word::Delta(Piece::Text(piece.into())),
            Self::Thinking(piece) => Word::Delta(Piece::Thinking(piece.into())),
            Self::Leaves(left) => Word::Leaves(left.into()),
            Self::Unasked => Word::Unasked,
            Self::Unheard(asks) => Word::Unheard(asks.into_iter().map(AskId).collect()),
            Self::Ask { id, ask } => Word::Ask { id: AskId(id), ask: ask.into_ask()? },
        })
    }
}

fn word_of(kind: EventKind) -> Result<Word, String> {
    let other = match told_of(kind) {
        Ok(told) => return Ok(Word::Told(told)),
        Err(kind) => *kind,
    };
    // Of what is left three are said and not told.
    if let EventKind::TurnStarted { turn } = other {
        Ok(Word::TurnStarted { turn })
    } else if let EventKind::Replied(replied) = other {
        Ok(Word::Replied(replied))
    } else if let EventKind::ToolFinished { call, tool, output, took_ms } = other {
        Ok(Word::ToolFinished { call, tool, output, took_ms })
    } else {
        Err(Fact::is_wrong(&other))
    }
}
