//! The JSON of declared children, and of orders about them.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::json::{Raw, Text, name, names, text, token, unit, units};
use crate::branch::Token;
use crate::event::SlotPosition;
use crate::line::{Budget, Child, Order, Strand};
use crate::message::Usd;
use crate::session::kinds;

#[derive(Serialize, Deserialize)]
pub(super) struct ChildBody<'a> {
    description: Text<'a>,
    agent: Text<'a>,
    slot: Option<SlotBody>,
    origin: Raw,
    is_background: bool,
    strand: StrandBody,
    budget: BudgetBody,
    again: Option<Text<'a>>,
    step: Option<Raw>,
}

#[derive(Serialize, Deserialize)]
struct SlotBody {
    index: u32,
    total: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StrandBody {
    Fresh,
    Reserved(u64),
    Parents,
}

#[derive(Serialize, Deserialize)]
struct BudgetBody {
    nano_usd: Option<u64>,
    tokens: Option<NonZeroU64>,
    tool_calls: Option<u32>,
}

impl<'a> ChildBody<'a> {
    pub(super) fn of(child: &'a Child) -> Self {
        let Child { description, agent, slot, origin, is_background, .. } = child;
        let Child { strand, budget, again, step, .. } = child;
        Self {
            description: text(description),
            agent: text(agent),
            slot: slot.map(|SlotPosition { index, total }| SlotBody { index, total }),
            origin: kinds::of_origin(*origin),
            is_background: *is_background,
            strand: match *strand {
                Strand::Fresh => StrandBody::Fresh,
                Strand::Reserved(Token(number)) => StrandBody::Reserved(number),
                Strand::Parents => StrandBody::Parents,
            },
            budget: BudgetBody::of(*budget),
            again: again.map(name),
            step: step.as_ref().map(kinds::of_step),
        }
    }

    pub(super) fn into_child(self) -> Result<Child, String> {
        Ok(Child {
            description: self.description.into(),
            agent: self.agent.into(),
            slot: self.slot.map(|SlotBody { index, total }| SlotPosition { index, total }),
            origin: kinds::origin(&self.origin)?,
            is_background: self.is_background,
            strand: match self.strand {
                StrandBody::Fresh => Strand::Fresh,
                StrandBody::Reserved(number) => Strand::Reserved(token(number)?),
                StrandBody::Parents => Strand::Parents,
            },
            budget: self.budget.into(),
            again: self.again.map(|name| unit(&name)).transpose()?,
            step: self.step.map(|step| kinds::step(&step)).transpose()?,
        })
    }
}

impl BudgetBody {
    fn of(budget: Budget) -> Self {
        let Budget { usd, tokens, tool_calls } = budget;
        Self { nano_usd: usd.map(|usd| usd.0), tokens, tool_calls }
    }
}

impl From<BudgetBody> for Budget {
    fn from(body: BudgetBody) -> Self {
        let BudgetBody { nano_usd, tokens, tool_calls } = body;
        Self { usd: nano_usd.map(Usd), tokens, tool_calls }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OrderBody<'a> {
    Aside(Vec<Text<'a>>),
    Again(Text<'a>),
}

impl OrderBody<'_> {
    pub(super) fn of(order: &Order) -> Self {
        match order {
            Order::Aside(units) => Self::Aside(names(units)),
            Order::Again(unit) => Self::Again(name(*unit)),
        }
    }

    pub(super) fn into_order(self) -> Result<Order, String> {
        Ok(match self {
            Self::Aside(names) => Order::Aside(units(&names)?),
            Self::Again(name) => Order::Again(unit(&name)?),
        })
    }
}
