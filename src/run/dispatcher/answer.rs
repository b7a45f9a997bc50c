//! What units, and whoever asks something of a run, are answered, and the giving
//! of it.
//!
//! Whether and when an answer is given is the dispatcher's; here is only the
//! way to whoever waits for it.

use std::sync::Arc;

use tokio::sync::mpsc::OwnedPermit;
use tokio::sync::oneshot;

use super::super::{Moved, NoRewind, NoUndo};
use crate::branch::Token;
use crate::event::{Failure, UnitEnd, UnitState, Verdict};
use crate::line::{Ahead, CallLeave, Glance, News, Order, RequestLeave, Seat, Sent};
use crate::prompt::Said;

/// An answer that a unit waits for, or whoever asks something of the run.
#[derive(Debug)]
pub enum Answer {
    /// It may go on: it may start, its call is on disk, its children are in.
    GoOn(oneshot::Sender<()>),
    /// Its children have seats.
    Seats(oneshot::Sender<Vec<Seat>>, Vec<Seat>),
    /// Whether it may send its request.
    Request(oneshot::Sender<Result<RequestLeave, Failure>>, Result<RequestLeave, Failure>),
    /// What is known ahead of what it would ask.
    Ahead(oneshot::Sender<Ahead>, Ahead),
    /// Which of its calls it may run.
    Calls(oneshot::Sender<CallLeave>, CallLeave),
    /// What became of its question.
    Verdict(oneshot::Sender<Verdict>, Verdict),
    /// It ended, and this is what it had done.
    End(oneshot::Sender<Arc<UnitEnd>>, Arc<UnitEnd>),
    /// Its tokens are reserved from this one on.
    Reserved(oneshot::Sender<Token>, Token),
    /// What it learns at its turn's boundary.
    News(oneshot::Sender<News>, News),
    /// What is known of its background units.
    Glances(oneshot::Sender<Vec<Glance>>, Vec<Glance>),
    /// What its branch lets it see of others.
    Visible(oneshot::Sender<Vec<Arc<Said>>>, Vec<Arc<Said>>),
    /// The state that one of them is in; `None` if it is none of them.
    State(oneshot::Sender<Option<UnitState>>, Option<UnitState>),
    /// What is done about units that it waits for.
    Order(OwnedPermit<Order>, Order),
    /// Whether anything went on in the background.
    Moved(Moved, bool),
    /// What became of its message.
    Sent(oneshot::Sender<Sent>, Sent),
    /// Whether the conversation went back.
    Rewound(oneshot::Sender<Result<(), NoRewind>>, Result<(), NoRewind>),
    /// Whether files went back.
    Undone(oneshot::Sender<Result<(), NoUndo>>, Result<(), NoUndo>),
}

impl Answer {
    /// Gives the answer.
    pub fn give(self) {
        // Whoever no longer waits was dropped; it needs no answer.
        match self {
            Self::GoOn(reply) => drop(reply.send(())),
            Self::Seats(reply, seats) => drop(reply.send(seats)),
            Self::Request(reply, leave) => drop(reply.send(leave)),
            Self::Ahead(reply, ahead) => drop(reply.send(ahead)),
            Self::Calls(reply, leave) => drop(reply.send(leave)),
            Self::Verdict(reply, verdict) => drop(reply.send(verdict)),
            Self::End(reply, end) => drop(reply.send(end)),
            Self::Reserved(reply, token) => drop(reply.send(token)),
            Self::News(reply, news) => drop(reply.send(news)),
            Self::Glances(reply, glances) => drop(reply.send(glances)),
            Self::Visible(reply, said) => drop(reply.send(said)),
            Self::State(reply, state) => drop(reply.send(state)),
            Self::Order(permit, order) => drop(permit.send(order)),
            Self::Moved(Moved(reply), moved) => drop(reply.try_send(moved)),
            Self::Sent(reply, sent) => drop(reply.send(sent)),
            Self::Rewound(reply, result) => drop(reply.send(result)),
            Self::Undone(reply, result) => drop(reply.send(result)),
        }
    }
}
