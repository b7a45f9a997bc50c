//! The JSON of what units see of others.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::facts::Fact;
use super::json::{Text, name, text, unit};
use crate::event::{EventKind, Invocation, Seq, UnitEnd, UnitState};
use crate::line::Glance;
use crate::prompt::{SaidApart, SaidPart};

#[derive(Serialize, Deserialize)]
pub(super) struct GlanceBody<'a> {
    unit: Text<'a>,
    description: Text<'a>,
    agent: Text<'a>,
    state: Text<'a>,
    text: Text<'a>,
    turns: u32,
    tool_uses: u32,
    end: Option<Fact<'a>>,
    unread: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    continued_by: Option<Text<'a>>,
}

impl<'a> GlanceBody<'a> {
    pub(super) fn of(glance: &'a Glance) -> Self {
        let Glance { unit, description, agent, state, text: written, .. } = glance;
        let Glance { turns, tool_uses, end, unread, continued_by, .. } = glance;
        let of_end = |end: &Arc<UnitEnd>| Fact::of(&EventKind::UnitEnded(Arc::clone(end)));
        Self {
            unit: name(*unit),
            description: text(description),
            agent: text(agent),
            state: state.as_str().into(),
            text: text(written),
            turns: *turns,
            tool_uses: *tool_uses,
            end: end.as_ref().map(of_end),
            unread: *unread,
            continued_by: continued_by.map(name),
        }
    }

    pub(super) fn into_glance(self) -> Result<Glance, String> {
        Ok(Glance {
            unit: unit(&self.unit)?,
            description: self.description.into(),
            agent: self.agent.into(),
            state: state(&self.state)?,
            text: self.text.into(),
            turns: self.turns,
            tool_uses: self.tool_uses,
            end: self.end.map(end_of).transpose()?,
            unread: self.unread,
            continued_by: self.continued_by.map(|name| unit(&name)).transpose()?,
        })
    }
}

/// Reads a unit's end.
pub(super) fn end_of(fact: Fact<'_>) -> Result<Arc<UnitEnd>, String> {
    let found = fact.into_kind()?;
    let EventKind::UnitEnded(end) = found else { return Err(Fact::is_wrong(&found)) };
    Ok(end)
}

/// Reads the name of a state.
pub(super) fn state(name: &str) -> Result<UnitState, String> {
    let found = UnitState::ALL.into_iter().find(|state| state.as_str() == name);
    found.ok_or_else(|| format!("`{name}` is not known"))
}

#[derive(Serialize, Deserialize)]
pub(super) struct SaidBody {
    seq: u64,
    unit: String,
    invocation: u32,
    tokens: String,
    from: String,
    part: PartBody,
    head: Box<str>,
    missing: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PartBody {
    Asked,
    Said,
    Called(Box<str>),
    SummedUp { before: u64 },
}

impl SaidBody {
    pub(super) fn of(said: SaidApart) -> Self {
        let SaidApart { seq, unit, invocation, tokens, from, part, head, missing } = said;
        let part = match part {
            SaidPart::Asked => PartBody::Asked,
            SaidPart::Said => PartBody::Said,
            SaidPart::Called(call) => PartBody::Called(call),
            SaidPart::SummedUp { before } => PartBody::SummedUp { before: before.0 },
        };
        Self {
            seq: seq.0,
            unit: unit.to_string(),
            invocation: invocation.0,
            tokens: tokens.to_string(),
            from: (*from).to_owned(),
            part,
            head,
            missing,
        }
    }

    pub(super) fn into_apart(self) -> Result<SaidApart, String> {
        let Self { seq, unit: name, invocation, tokens, from, part, head, missing } = self;
        let part = match part {
            PartBody::Asked => SaidPart::Asked,
            PartBody::Said => SaidPart::Said,
            PartBody::Called(call) => SaidPart::Called(call),
            PartBody::SummedUp { before } => SaidPart::SummedUp { before: Seq(before) },
        };
        Ok(SaidApart {
            seq: Seq(seq),
            unit: unit(&name)?,
            invocation: Invocation(invocation),
            tokens: tokens.parse().map_err(|error| format!("tokens: {error}"))?,
            from: from.into(),
            part,
            head,
            missing,
        })
    }
}
