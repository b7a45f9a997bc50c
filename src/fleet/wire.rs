//! What a slot that runs elsewhere and its coordinator say to each other, and
//! the JSON that it is on its way.
//!
//! A line's events carry the channels for their answers; here they are taken
//! apart into values and put together again (see [`relay`]). The JSON is
//! written out by hand in private structs, as the log's is: what a unit tells
//! has the very form in which the log will keep it. Both conversions are total,
//! and unknown fields are skipped. Who sends what when is not decided here.

mod answers;
mod asks;
mod children;
mod conversation;
mod facts;
mod json;
mod messages;
pub mod relay;
#[cfg(test)]
pub(super) mod samples;
mod seen;
mod tasks;
#[cfg(test)]
mod tests;
mod word;
mod words;
mod works;

use std::sync::Arc;

use thiserror::Error;

use crate::agent::TurnLimit;
use crate::branch::Branch;
use crate::event::{Origin, Outcome, UnitId};
use crate::fanout::Elsewhere;
use crate::line::Order;
use crate::tool::{AnswerSchema, Task};

pub use crate::fanout::Shipped;
pub use conversation::Conversation;
pub use word::{Answered, Ask, AskId, FarSeat, Word};

/// Why bytes are none of the messages that were expected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("malformed message: {reason}")]
pub struct Malformed {
    /// What is wrong with them, cut to what people are told.
    reason: String,
}

/// Some of what the units of a slot say, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// The attempt at the slot, from 1.
    pub attempt: u32,
    /// The frame's number within the attempt, from 1.
    pub seq: u64,
    /// Who says what: the slot itself, or a unit that it or one of those started.
    pub words: Vec<(UnitId, Word)>,
}

/// The one result of a slot.
#[derive(Debug, Clone, PartialEq)]
pub struct FarEnd {
    /// The attempt that came to it, from 1.
    pub attempt: u32,
    /// The last frame before it; 0 if there is none.
    pub after: u64,
    /// What its units said behind that.
    pub words: Vec<(UnitId, Word)>,
    /// What became of the slot.
    pub outcome: Outcome,
    /// The blob that holds what it changed, as a patch; `None` if that is
    /// nothing.
    pub changes: Option<Arc<str>>,
    /// What it takes to go on from it; `None` if its caller has waited for it, or
    /// nobody can.
    pub left: Option<Elsewhere>,
}

/// What the coordinator says to a slot.
#[derive(Debug, Clone, PartialEq)]
pub struct ToSlot {
    /// What the slot's run is called.
    pub run: Arc<str>,
    /// The slot.
    pub unit: UnitId,
    /// The attempt that it is said to, from 1.
    pub attempt: u32,
    /// The message's number within the attempt, from 1.
    pub number: u64,
    /// What is said.
    pub what: Back,
}

/// What comes back to a slot.
#[derive(Debug, Clone, PartialEq)]
pub enum Back {
    /// The answer to something that one of its units asked.
    Answer {
        /// Names what was asked.
        id: AskId,
        /// The answer.
        answered: Answered,
    },
    /// An order about units that one of its units waits for.
    Order {
        /// Names the declaration of those units.
        ask: AskId,
        /// What to do.
        order: Order,
    },
    /// A unit of it must stop.
    Cancel {
        /// The unit.
        unit: UnitId,
    },
    /// Somebody has sent the slot a message: from now on it asks for news.
    HasNews,
    /// Its caller goes on without a unit.
    Aside {
        /// The unit.
        unit: UnitId,
    },
}

/// A worker that has a ticket asks for the slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The version of tine that the worker is.
    pub version: String,
    /// The worker's id.
    pub worker: Arc<str>,
    /// The slot.
    pub unit: UnitId,
    /// Slots of the run that had their places there before: those that the worker has
    /// brought to their ends last.
    pub ended: Vec<UnitId>,
    /// What the worker had of the slot before, if it had it.
    pub had: Option<Had>,
}

/// What a worker had of a slot that it has not any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Had {
    /// Which attempt.
    pub attempt: u32,
    /// Whether it has stored what that came to; else it has dropped it.
    pub has_ended: bool,
}

/// What comes of a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum Claimed {
    /// The worker runs the slot.
    Granted(Box<Grant>),
    /// Another worker has it.
    Held,
    /// Nobody runs it any more: the ticket is dropped.
    Over,
    /// This worker cannot run it: why, in words for its log.
    Refused(String),
}

/// A slot's task and all that is its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// The slot.
    pub unit: UnitId,
    /// The attempt at it that begins with this, from 1.
    pub attempt: u32,
    /// The slot's branch.
    pub branch: Branch,
    /// What its conversation begins with.
    pub origin: Origin,
    /// Whether nothing limits what it uses: it asks for leave for none of its
    /// requests.
    pub is_unlimited: bool,
    /// 1 for a child of the main conversation.
    pub depth: u32,
    /// What it is started for.
    pub work: Work,
    /// The names of its caller's tools; of one that goes on from a conversation, of
    /// those that this had.
    pub tools: Vec<String>,
    /// The model of its caller, or of that conversation, as the configuration names
    /// it.
    pub model: Arc<str>,
    /// The blob that holds what all slots of the run have in common.
    pub packet: Arc<str>,
    /// What it may do, in a form of the guard's.
    pub policy: Vec<u8>,
}

/// What a slot is started for.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// A task for an agent with a conversation of its own.
    Typed {
        /// The task.
        task: Task,
        /// Whether its words are sent as they are: no file stands for its name.
        is_verbatim: bool,
    },
    /// A task that continues the conversation of its caller.
    Fork {
        /// The task.
        task: Task,
        /// Its caller.
        parent: UnitId,
        /// That conversation.
        from: Shipped,
        /// What that one's answer must fit: one of its tools gives it.
        schema: Option<Arc<AnswerSchema>>,
    },
    /// A message to a unit that has ended.
    Continued {
        /// The message, with the bounds that the unit had.
        task: Task,
        /// The unit.
        ended: UnitId,
        /// What was said in it.
        from: Shipped,
        /// The most turns it had.
        max_turns: Option<TurnLimit>,
    },
}

/// A worker says that it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// The worker's id.
    pub worker: Arc<str>,
    /// The slots of the run that it has: the slot, its attempt, and the number
    /// of the last message to it before which none is missing.
    pub slots: Vec<(UnitId, u32, u64)>,
    /// The slots of the run that it had and cannot bring to an end that anybody
    /// hears of: the slot, its attempt, and why.
    pub broken: Vec<(UnitId, u32, Arc<str>)>,
}

/// The coordinator says that it is there, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beaten {
    /// Slots that it does not know any more: the worker stops them.
    pub gone: Vec<UnitId>,
}
