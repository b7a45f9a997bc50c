//! The bodies of flows: what one is walked with, and which step a unit is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::body::text;
use super::{Text, unit};
use crate::event::{EventKind, FlowHead, Origin, StepDigest, StepMark};

#[derive(Serialize, Deserialize)]
pub(super) struct WalkedBody<'a> {
    name: Text<'a>,
    /// A JSON object, as text: this log knows nothing of what is in it.
    inputs: Text<'a>,
    steps: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    goes_on: bool,
}

impl<'a> WalkedBody<'a> {
    pub(super) fn of(head: &'a FlowHead) -> Self {
        let FlowHead { name, inputs, steps, goes_on } = head;
        Self { name: text(name), inputs: text(inputs), steps: *steps, goes_on: *goes_on }
    }

    pub(super) fn into_kind(self) -> EventKind {
        let Self { name, inputs, steps, goes_on } = self;
        EventKind::Walked(Arc::new(FlowHead {
            name: name.into(),
            inputs: inputs.into(),
            steps,
            goes_on,
        }))
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct StepBody<'a> {
    key: Text<'a>,
    digest: Text<'a>,
}

impl<'a> StepBody<'a> {
    pub(super) fn of(mark: &'a StepMark) -> Self {
        Self { key: text(&mark.key), digest: mark.digest.to_string().into() }
    }

    pub(super) fn into_mark(self) -> Result<StepMark, String> {
        let Self { key, digest } = self;
        let digest = StepDigest::from_hex(&digest)
            .ok_or_else(|| format!("`{digest}` is not the digest of a step"))?;
        Ok(StepMark { key: key.into(), digest })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OriginBody<'a> {
    Visible,
    Fork,
    Continued(Text<'a>),
    Steps,
    Reused(Text<'a>),
}

impl OriginBody<'_> {
    pub(super) fn of(origin: Origin) -> Option<Self> {
        match origin {
            Origin::Prompt => None,
            Origin::Visible => Some(Self::Visible),
            Origin::Fork => Some(Self::Fork),
            Origin::Continued(unit) => Some(Self::Continued(unit.to_string().into())),
            Origin::Steps => Some(Self::Steps),
            Origin::Reused(unit) => Some(Self::Reused(unit.to_string().into())),
        }
    }

    pub(super) fn into_origin(self) -> Result<Origin, String> {
        Ok(match self {
            Self::Visible => Origin::Visible,
            Self::Fork => Origin::Fork,
            Self::Continued(name) => Origin::Continued(unit(&name)?),
            Self::Steps => Origin::Steps,
            Self::Reused(name) => Origin::Reused(unit(&name)?),
        })
    }
}
