//! What a unit asks about the units it started in the background.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::event::{UnitEnd, UnitId, UnitState};

/// What a unit asks about the units it started in the background. It can ask
/// about no others.
#[derive(Debug)]
pub enum Tend {
    /// It is at a turn's boundary and takes the news there are.
    News {
        /// Whether it waits for news if there are none yet.
        wait: Wait,
        /// Where they go.
        reply: oneshot::Sender<News>,
    },
    /// It asks about a unit that it started in the background, or about all of
    /// them.
    Look {
        /// Which one; `None` for all.
        unit: Option<UnitId>,
        /// Where what is known goes; of one unit that is not its own, nothing.
        reply: oneshot::Sender<Vec<Glance>>,
    },
    /// It waits for units that it started in the background.
    Await {
        /// The units.
        units: Vec<UnitId>,
        /// How many of them have to end.
        until: Until,
        /// Answered when they have.
        reply: oneshot::Sender<()>,
    },
    /// It has been given the whole end of units that it started in the
    /// background; no news of them are due any more.
    Taken {
        /// The units.
        units: Vec<UnitId>,
        /// Answered when its branch holds theirs.
        reply: oneshot::Sender<()>,
    },
    /// It stops a unit that it started in the background.
    Stop {
        /// The unit.
        unit: UnitId,
        /// Answered with its state before.
        reply: oneshot::Sender<Option<UnitState>>,
    },
    /// It sends a message to a unit that it started in the background.
    Send {
        /// The unit.
        to: UnitId,
        /// The message.
        text: Arc<str>,
        /// Answered with what became of the message.
        reply: oneshot::Sender<Sent>,
    },
}

/// What became of a message to a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The unit reads it at its next turn.
    Queued,
    /// The unit has too many unread messages already.
    Full,
    /// The unit has ended, in this state.
    Ended(UnitState),
    /// There is no such unit in the sender's background.
    Unknown,
}

/// Whether a unit waits for news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It goes on at once.
    No,
    /// It has nothing else to do: it waits until there are news, or until
    /// none can come.
    UntilThereAre,
}

/// What a unit learns at a turn's boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A message for its conversation.
    Message(Arc<str>),
    /// Nothing happened yet that it should know, but units that it started in
    /// the background are out. Never said to a unit that waits.
    NotYet,
    /// Nothing happened that it should know, and nothing will.
    Nothing,
}

/// How many of several units one waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// One of them.
    Any,
    /// Every one.
    All,
}

/// A unit at one moment, as its parent sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Glance {
    /// The unit.
    pub unit: UnitId,
    /// What it is for.
    pub description: Arc<str>,
    /// The agent definition it follows.
    pub agent: Arc<str>,
    /// Its state.
    pub state: UnitState,
    /// The last text its model wrote, whole or not.
    pub text: Arc<str>,
    /// How many turns it has taken.
    pub turns: u32,
    /// How many tool calls it has made.
    pub tool_uses: u32,
    /// Its end, once there is one.
    pub end: Option<Arc<UnitEnd>>,
    /// Messages to it that it has not read. Once it has ended it never will.
    pub unread: usize,
    /// The unit that continues its conversation, since it has ended.
    pub continued_by: Option<UnitId>,
}
