//! The messages themselves as bytes: each is one JSON object.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::answers::AnsweredBody;
use super::children::OrderBody;
use super::json::{Raw, Text, each, name, names, text, unit, units};
use super::tasks::GrantBody;
use super::word::{AskId, Word};
use super::words::WordBody;
use super::works::LeftBody;
use super::{Back, Beat, Beaten, Claim, Claimed, FarEnd, Frame, Had, Malformed, ToSlot};
use crate::event::UnitId;
use crate::session::kinds;

impl Frame {
    /// Writes the message as JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        written(&FrameBody::of(self))
    }

    /// Reads what [`Frame::encode`] writes.
    ///
    /// # Errors
    ///
    /// It is something else: why.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        read(bytes, FrameBody::into_message)
    }
}

impl FarEnd {
    /// Writes the message as JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        written(&EndBody::of(self))
    }

    /// Reads what [`FarEnd::encode`] writes.
    ///
    /// # Errors
    ///
    /// It is something else: why.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        read(bytes, EndBody::into_message)
    }
}

impl ToSlot {
    /// Writes the message as JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        written(&ToSlotBody::of(self))
    }

    /// Reads what [`ToSlot::encode`] writes.
    ///
    /// # Errors
    ///
    /// It is something else: why.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        read(bytes, ToSlotBody::into_message)
    }
}

impl Claim {
    /// Writes the message as JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        written(&ClaimBody::of(self))
    }

    /// Reads what [`Claim::encode`] writes.
    ///
    /// # Errors
    ///
    /// It is something else: why.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        read(bytes, ClaimBody::into_message)
    }
}

impl Claimed {
    /// Writes the message as JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        written(&ClaimedBody::of(self))
    }

    /// Reads what [`Claimed::encode`] writes.
    ///
    /// # Errors
    ///
    /// It is something else: why.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        read(bytes, ClaimedBody::into_message)
    }
}

impl Beat {
    /// Writes the message as JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        written(&BeatBody::of(self))
    }

    /// Reads what [`Beat::encode`] writes.
    ///
    /// # Errors
    ///
    /// It is something else: why.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        read(bytes, BeatBody::into_message)
    }
}

impl Beaten {
    /// Writes the message as JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        written(&BeatenBody::of(self))
    }

    /// Reads what [`Beaten::encode`] writes.
    ///
    /// # Errors
    ///
    /// It is something else: why.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        read(bytes, BeatenBody::into_message)
    }
}

pub(super) fn written(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("text and numbers are always JSON")
}

pub(super) fn read<B: DeserializeOwned, T>(
    bytes: &[u8],
    into: impl FnOnce(B) -> Result<T, String>,
) -> Result<T, Malformed> {
    let body = serde_json::from_slice(bytes).map_err(|error| error.to_string());
    body.and_then(into).map_err(|reason| Malformed { reason: kinds::short(reason) })
}

#[derive(Serialize, Deserialize)]
struct FrameBody<'a> {
    attempt: u32,
    seq: u64,
    words: Vec<SpokenBody<'a>>,
}

#[derive(Serialize, Deserialize)]
struct SpokenBody<'a> {
    unit: Text<'a>,
    word: WordBody<'a>,
}

impl<'a> FrameBody<'a> {
    fn of(frame: &'a Frame) -> Self {
        let Frame { attempt, seq, words } = frame;
        Self { attempt: *attempt, seq: *seq, words: spoken(words) }
    }

    fn into_message(self) -> Result<Frame, String> {
        let Self { attempt, seq, words } = self;
        Ok(Frame { attempt, seq, words: heard(words)? })
    }
}

fn spoken(words: &[(UnitId, Word)]) -> Vec<SpokenBody<'_>> {
    let words = words.iter();
    words.map(|(unit, word)| SpokenBody { unit: name(*unit), word: WordBody::of(word) }).collect()
}

fn heard(words: Vec<SpokenBody<'_>>) -> Result<Vec<(UnitId, Word)>, String> {
    each(words, |SpokenBody { unit: name, word }| Ok((unit(&name)?, word.into_word()?)))
}

#[derive(Serialize, Deserialize)]
struct EndBody<'a> {
    attempt: u32,
    after: u64,
    words: Vec<SpokenBody<'a>>,
    outcome: Raw,
    changes: Option<Text<'a>>,
    left: Option<LeftBody<'a>>,
}

impl<'a> EndBody<'a> {
    fn of(end: &'a FarEnd) -> Self {
        let FarEnd { attempt, after, words, outcome, changes, left } = end;
        let words = spoken(words);
        let outcome = kinds::of_outcome(outcome);
        let changes = changes.as_deref().map(text);
        let left = left.as_ref().map(LeftBody::of);
        Self { attempt: *attempt, after: *after, words, outcome, changes, left }
    }

    fn into_message(self) -> Result<FarEnd, String> {
        let Self { attempt, after, words, outcome, changes, left } = self;
        let words = heard(words)?;
        let outcome = kinds::outcome(&outcome)?;
        let left = left.map(LeftBody::into_left).transpose()?;
        Ok(FarEnd { attempt, after, words, outcome, changes: changes.map(Into::into), left })
    }
}

#[derive(Serialize, Deserialize)]
struct ToSlotBody<'a> {
    run: Text<'a>,
    unit: Text<'a>,
    attempt: u32,
    number: u64,
    what: BackBody<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BackBody<'a> {
    Answer { id: u64, answered: AnsweredBody<'a> },
    Order { ask: u64, order: OrderBody<'a> },
    Cancel { unit: Text<'a> },
    HasNews,
    Aside { unit: Text<'a> },
}

impl<'a> ToSlotBody<'a> {
    fn of(message: &'a ToSlot) -> Self {
        let ToSlot { run, unit, attempt, number, what } = message;
        let what = match what {
            Back::Answer { id, answered } => {
                BackBody::Answer { id: id.0, answered: AnsweredBody::of(answered) }
            }
            Back::Order { ask, order } => {
                BackBody::Order { ask: ask.0, order: OrderBody::of(order) }
            }
            Back::Cancel { unit } => BackBody::Cancel { unit: name(*unit) },
            Back::HasNews => BackBody::HasNews,
            Back::Aside { unit } => BackBody::Aside { unit: name(*unit) },
        };
        Self { run: text(run), unit: name(*unit), attempt: *attempt, number: *number, what }
    }

    fn into_message(self) -> Result<ToSlot, String> {
        let Self { run, unit: slot, attempt, number, what } = self;
        let what = match what {
            BackBody::Answer { id, answered } => {
                Back::Answer { id: AskId(id), answered: answered.into_answered()? }
            }
            BackBody::Order { ask, order } => {
                Back::Order { ask: AskId(ask), order: order.into_order()? }
            }
            BackBody::Cancel { unit: name } => Back::Cancel { unit: unit(&name)? },
            BackBody::HasNews => Back::HasNews,
            BackBody::Aside { unit: name } => Back::Aside { unit: unit(&name)? },
        };
        Ok(ToSlot { run: run.into(), unit: unit(&slot)?, attempt, number, what })
    }
}

#[derive(Serialize, Deserialize)]
struct ClaimBody<'a> {
    version: Text<'a>,
    worker: Text<'a>,
    unit: Text<'a>,
    #[serde(default)]
    ended: Vec<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    had: Option<HadBody>,
}

#[derive(Serialize, Deserialize)]
struct HadBody {
    attempt: u32,
    has_ended: bool,
}

impl<'a> ClaimBody<'a> {
    fn of(claim: &'a Claim) -> Self {
        let Claim { version, worker, unit, ended, had } = claim;
        let (version, worker) = (text(version), text(worker));
        let had = had.map(|Had { attempt, has_ended }| HadBody { attempt, has_ended });
        Self { version, worker, unit: name(*unit), ended: names(ended), had }
    }

    fn into_message(self) -> Result<Claim, String> {
        let Self { version, worker, unit: name, ended, had } = self;
        let (version, worker) = (version.into(), worker.into());
        let had = had.map(|HadBody { attempt, has_ended }| Had { attempt, has_ended });
        Ok(Claim { version, worker, unit: unit(&name)?, ended: units(&ended)?, had })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ClaimedBody<'a> {
    Granted(Box<GrantBody<'a>>),
    Held,
    Over,
    Refused(Text<'a>),
}

impl<'a> ClaimedBody<'a> {
    fn of(claimed: &'a Claimed) -> Self {
        match claimed {
            Claimed::Granted(grant) => Self::Granted(Box::new(GrantBody::of(grant))),
            Claimed::Held => Self::Held,
            Claimed::Over => Self::Over,
            Claimed::Refused(why) => Self::Refused(text(why)),
        }
    }

    fn into_message(self) -> Result<Claimed, String> {
        Ok(match self {
            Self::Granted(grant) => Claimed::Granted(Box::new(grant.into_grant()?)),
            Self::Held => Claimed::Held,
            Self::Over => Claimed::Over,
            Self::Refused(why) => Claimed::Refused(why.into()),
        })
    }
}

#[derive(Serialize, Deserialize)]
struct BeatBody<'a> {
    worker: Text<'a>,
    slots: Vec<HeldBody<'a>>,
    broken: Vec<BrokenBody<'a>>,
}

#[derive(Serialize, Deserialize)]
struct HeldBody<'a> {
    unit: Text<'a>,
    attempt: u32,
    heard: u64,
}

#[derive(Serialize, Deserialize)]
struct BrokenBody<'a> {
    unit: Text<'a>,
    attempt: u32,
    why: Text<'a>,
}

impl<'a> BeatBody<'a> {
    fn of(beat: &'a Beat) -> Self {
        let Beat { worker, slots, broken } = beat;
        let held = |&(unit, attempt, heard): &_| HeldBody { unit: name(unit), attempt, heard };
        let cannot = |(unit, attempt, why): &'a (UnitId, u32, Arc<str>)| BrokenBody {
            unit: name(*unit),
            attempt: *attempt,
            why: text(why),
        };
        Self {
            worker: text(worker),
            slots: slots.iter().map(held).collect(),
            broken: broken.iter().map(cannot).collect(),
        }
    }

    fn into_message(self) -> Result<Beat, String> {
        let Self { worker, slots, broken } = self;
        let held = |HeldBody { unit: name, attempt, heard }| -> Result<_, String> {
            Ok((unit(&name)?, attempt, heard))
        };
        let cannot = |BrokenBody { unit: name, attempt, why }| -> Result<_, String> {
            Ok((unit(&name)?, attempt, why.into()))
        };
        let (slots, broken) = (each(slots, held)?, each(broken, cannot)?);
        Ok(Beat { worker: worker.into(), slots, broken })
    }
}

#[derive(Serialize, Deserialize)]
struct BeatenBody<'a> {
    gone: Vec<Text<'a>>,
}

impl BeatenBody<'_> {
    fn of(beaten: &Beaten) -> Self {
        let Beaten { gone } = beaten;
        Self { gone: names(gone) }
    }

    fn into_message(self) -> Result<Beaten, String> {
        Ok(Beaten { gone: units(&self.gone)? })
    }
}
