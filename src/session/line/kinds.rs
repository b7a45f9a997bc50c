//! Values of the log for whoever sends them elsewhere, in the log's own form.
//!
//! What leaves here is JSON that is already made, so the structs of the line
//! format stay where they are, and what is true of them on disk (a later tine
//! may add fields, a missing one is an error) is true of them on a wire.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::body::{self, Body};
use super::ends::OutcomeBody;
use super::flows::{OriginBody, StepBody};
use super::questions::VerdictBody;
use super::{bounded, parse, unit};
use crate::event::{EventKind, Origin, Outcome, StepMark, UnitId, Verdict};

/// A value in the log's form.
pub(crate) type Raw = Box<RawValue>;

/// Returns the name of a kind of event, and its body.
pub(crate) fn of_kind(kind: &EventKind) -> (&'static str, Raw) {
    let body = Body::of(kind);
    (body.kind(), raw(&body))
}

/// Reads the body of a kind of event. Here a kind that is not known is an
/// error: who sends and who reads are of the same version.
pub(crate) fn kind(name: &str, body: &RawValue) -> Result<EventKind, String> {
    body::read(name, body.get().as_bytes())?.ok_or_else(|| format!("`{name}` is not known"))
}

pub(crate) fn of_outcome(outcome: &Outcome) -> Raw {
    raw(&OutcomeBody::of(outcome))
}

pub(crate) fn outcome(body: &RawValue) -> Result<Outcome, String> {
    parse::<OutcomeBody<'_>>(body.get().as_bytes())?.into_outcome()
}

pub(crate) fn of_verdict(verdict: &Verdict) -> Raw {
    raw(&VerdictBody::of(verdict))
}

pub(crate) fn verdict(body: &RawValue) -> Result<Verdict, String> {
    parse::<VerdictBody<'_>>(body.get().as_bytes())?.into_verdict()
}

/// `null` stands for the unit's own prompt.
pub(crate) fn of_origin(origin: Origin) -> Raw {
    raw(&OriginBody::of(origin))
}

pub(crate) fn origin(body: &RawValue) -> Result<Origin, String> {
    parse::<Option<OriginBody<'_>>>(body.get().as_bytes())?
        .map_or(Ok(Origin::Prompt), OriginBody::into_origin)
}

pub(crate) fn of_step(mark: &StepMark) -> Raw {
    raw(&StepBody::of(mark))
}

pub(crate) fn step(body: &RawValue) -> Result<StepMark, String> {
    parse::<StepBody<'_>>(body.get().as_bytes())?.into_mark()
}

/// Reads the name of a unit.
pub(crate) fn unit_of(name: &str) -> Result<UnitId, String> {
    unit(name)
}

/// Cuts a reason why something cannot be read down to what people are told.
pub(crate) fn short(reason: String) -> String {
    bounded(reason)
}

fn raw(body: &impl Serialize) -> Raw {
    to_raw_value(body).expect("text and numbers are always JSON")
}
