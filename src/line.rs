//! A unit's only way to speak to the rest of the program.
//!
//! A [`Line`] carries [`UnitEvent`]s to the dispatcher. Some of them ask
//! something and carry the channel for the answer; that is why they never leave
//! the program: what leaves is [`crate::event::Event`].

mod ahead;
mod budget;
mod order;
mod tend;
#[cfg(test)]
pub(crate) mod testing;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::branch::{Branch, Token};
use crate::event::{
    Compaction, Confinement, EventKind, Failure, FileChange, FlowHead, HookRan, NoticeLevel,
    Offered, Origin, Outcome, Piece, PrefixShare, Question, Replied, RequestFailed, SlotPosition,
    StepMark, Throttled, UnitEnd, UnitId, Verdict, Worktree,
};
use crate::guard::Decided;
use crate::message::{CallId, Output, Prompt};
use crate::prompt::Said;

pub use ahead::Ahead;
pub use budget::{Budget, CallLeave, RequestLeave};
pub use order::{ORDERS_CAP, Order, Orders};
pub use tend::{Glance, News, Sent, Tend, Until, Wait};

/// Most messages that wait for the dispatcher. Units that say more have to
/// wait: a flood of text in one unit must not become memory.
pub const LINE_CAP: usize = 256;

/// A message of a unit, with the unit's name.
#[derive(Debug)]
pub struct FromUnit {
    /// Who speaks.
    pub unit: UnitId,
    /// What it says.
    pub event: UnitEvent,
}

/// What a unit tells or asks the dispatcher.
#[derive(Debug)]
pub enum UnitEvent {
    /// It says what happened in it.
    Told(Told),
    /// Its model writes.
    Delta(Piece),
    /// Its model answered.
    Replied(Replied),
    /// A call begins to run. The answer comes once the log holds this on disk,
    /// if `synced` is there; a tool with side effects waits for it.
    ToolStarted {
        /// The call.
        call: CallId,
        /// The tool's own name.
        tool: Arc<str>,
        /// What the call is about.
        subject: Arc<str>,
        /// How it is kept in bounds; `None` if it runs no command.
        confinement: Option<Confinement>,
        /// Answered after the log is on disk.
        synced: Option<oneshot::Sender<()>>,
    },
    /// It is about to change a file. The answer comes once the log holds this
    /// on disk.
    FileChanged {
        /// The change.
        change: Arc<FileChange>,
        /// Answered after the log is on disk.
        synced: oneshot::Sender<()>,
    },
    /// A call has its output.
    ToolFinished {
        /// The call.
        call: CallId,
        /// The tool's own name.
        tool: Arc<str>,
        /// What the model reads.
        output: Arc<Output>,
        /// How long it ran, in milliseconds.
        took_ms: u64,
    },
    /// It declares children, all at once. The answer has one seat for each, in
    /// order; no answer means that a cancel has begun.
    Declare {
        /// The call that wants them; `None` if the user or a flow does.
        call: Option<CallId>,
        /// The children, in declared order.
        children: Vec<Child>,
        /// Where orders about those that it waits for go; `None` if it takes
        /// none.
        orders: Option<Orders>,
        /// Where the seats go.
        reply: oneshot::Sender<Vec<Seat>>,
    },
    /// It has a permit and asks whether it may start. No answer means that it
    /// never runs.
    MayStart {
        /// Where the leave goes.
        reply: oneshot::Sender<()>,
    },
    /// It was lost with the worker it ran on, and is to be run again from its
    /// beginning. The answer comes once the log holds this on disk. No answer
    /// means that it does not run, or that a cancel has begun: then whoever
    /// asks ends it.
    Lost {
        /// The worker.
        worker: Arc<str>,
        /// Which attempt that was, from 1.
        attempt: u32,
        /// Where the leave to try again goes.
        reply: oneshot::Sender<()>,
    },
    /// It wants to send a request. The answer is leave, or why there is none:
    /// a limit that it, or a unit on whose behalf it works, has reached. No
    /// answer means that a cancel has begun.
    MayRequest {
        /// The turn that it begins, from 1; `None` if it begins none.
        turn: Option<u32>,
        /// Where the leave goes.
        reply: oneshot::Sender<Result<RequestLeave, Failure>>,
    },
    /// It goes where answers take their time, and wants to know ahead what it
    /// would ask. No answer means that it does not run.
    Ahead {
        /// Where that goes.
        reply: oneshot::Sender<Ahead>,
    },
    /// It has begun a turn, with the leave that it had ahead.
    TurnStarted {
        /// From 1.
        turn: u32,
    },
    /// Its model asks for calls, and calls are limited. No answer means that
    /// a cancel has begun.
    MayCall {
        /// How many.
        count: usize,
        /// Where the leave goes.
        reply: oneshot::Sender<CallLeave>,
    },
    /// It asks something that only a person may answer. No answer means that a
    /// cancel has begun.
    Ask {
        /// What it asks.
        question: Question,
        /// The call that it asks about, as it was decided about there: what
        /// people have allowed is compared with that and with nothing else.
        decided: Decided,
        /// Where the answer goes.
        reply: oneshot::Sender<Verdict>,
    },
    /// Something in it has ended that waited for a person: whatever it asked
    /// and nobody waits for is taken back.
    Unasked,
    /// What it leaves to read if it comes to no answer.
    Leaves(Arc<str>),
    /// It ended. The answer says what it had done by then.
    Ended {
        /// What became of it.
        outcome: Outcome,
        /// The file that holds its whole text.
        output_file: Option<Arc<str>>,
        /// Where the summary goes.
        reply: oneshot::Sender<Arc<UnitEnd>>,
    },
    /// Its children have all ended and come back to it.
    Join {
        /// The children.
        children: Vec<UnitId>,
        /// Answered when its branch holds theirs.
        reply: oneshot::Sender<()>,
    },
    /// It wants tokens for children that it will declare later. The answer is
    /// the first of `count` consecutive ones.
    Reserve {
        /// How many.
        count: u64,
        /// Where the first goes.
        reply: oneshot::Sender<Token>,
    },
    /// It tends the units that it started in the background.
    Tend(Tend),
    /// It asks what its branch lets it see of other units. No answer means
    /// that nothing is kept of it.
    Visible {
        /// Where that goes, oldest first.
        reply: oneshot::Sender<Vec<Arc<Said>>>,
    },
}

/// What a unit says that needs no answer and sets nothing off.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// Its conversation got a user message: all of it.
    Prompted(Prompt),
    /// Its conversation got a reminder of what its answer must be.
    Reminded {
        /// The whole message.
        text: Arc<str>,
    },
    /// It has put its first request together, which its parent had sent a
    /// part of.
    PrefixShared(PrefixShare),
    /// It walks a flow.
    Walked(Arc<FlowHead>),
    /// Servers of tools offer something to it.
    Offered(Arc<Offered>),
    /// Its conversation was replaced by a summary.
    Compacted(Arc<Compaction>),
    /// Its request waits in the gate.
    Throttled(Throttled),
    /// Its request goes out after it had to wait.
    Admitted {
        /// In milliseconds.
        waited_ms: u64,
    },
    /// Its request failed.
    RequestFailed(Arc<RequestFailed>),
    /// Something became of its own worktree.
    Worktree(Worktree),
    /// A hook was asked on its behalf.
    HookRan(Arc<HookRan>),
    /// The guard refused a call.
    Denied {
        /// The call.
        call: CallId,
        /// The tool's own name.
        tool: Arc<str>,
        /// The arguments, as the model wrote them.
        arguments: Arc<str>,
        /// Why.
        reason: Arc<str>,
    },
    /// Something people should know.
    Notice {
        /// How much it matters.
        level: NoticeLevel,
        /// One sentence.
        text: Arc<str>,
    },
}

impl From<Told> for UnitEvent {
    fn from(told: Told) -> Self {
        Self::Told(told)
    }
}

/// What the log makes of it.
impl From<Told> for EventKind {
    fn from(told: Told) -> Self {
        match told {
            Told::Prompted(prompt) => Self::Prompted(prompt),
            Told::Reminded { text } => Self::Notified { children: Vec::new(), text, wrote: 0 },
            Told::PrefixShared(share) => Self::PrefixShared(share),
            Told::Walked(head) => Self::Walked(head),
            Told::Offered(offered) => Self::Offered(offered),
            Told::Compacted(compaction) => Self::Compacted(compaction),
            Told::Throttled(throttled) => Self::Throttled(throttled),
            Told::Admitted { waited_ms } => Self::Admitted { waited_ms },
            Told::RequestFailed(failed) => Self::RequestFailed(failed),
            Told::Worktree(worktree) => Self::Worktree(worktree),
            Told::HookRan(ran) => Self::HookRan(ran),
            Told::Denied { call, tool, arguments, reason } => {
                Self::Denied { call, tool, arguments, reason }
            }
            Told::Notice { level, text } => Self::Notice { level, text },
        }
    }
}

impl From<Tend> for UnitEvent {
    fn from(tend: Tend) -> Self {
        Self::Tend(tend)
    }
}

/// A child that a unit declares.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// What it is for.
    pub description: Arc<str>,
    /// The agent definition it follows.
    pub agent: Arc<str>,
    /// Its place in the batch; `None` for a single call.
    pub slot: Option<SlotPosition>,
    /// What its conversation begins with.
    pub origin: Origin,
    /// Whether its parent goes on while it runs.
    pub is_background: bool,
    /// Where its branch comes from.
    pub strand: Strand,
    /// Most that it and all it starts may use.
    pub budget: Budget,
    /// The unit whose place in its call it takes.
    pub again: Option<UnitId>,
    /// Which step of a flow it is, if it is one that asks a model.
    pub step: Option<StepMark>,
}

/// Where a child's branch comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strand {
    /// Its parent's, and a fresh token.
    #[default]
    Fresh,
    /// Its parent's, and a token that was reserved for it.
    Reserved(Token),
    /// Its parent's: it goes on where the parent is.
    Parents,
}

/// What the dispatcher gives a declared unit.
#[derive(Debug, Clone)]
pub struct Seat {
    /// Its name.
    pub unit: UnitId,
    /// Its branch.
    pub branch: Branch,
    /// What its conversation begins with.
    pub origin: Origin,
    /// Fires when the unit must stop.
    pub cancel: CancellationToken,
    /// Fires when it is set aside, to go on beside its parent.
    pub aside: CancellationToken,
}

/// A unit's own sender. A clone speaks for the same unit.
#[derive(Debug, Clone)]
pub struct Line {
    unit: UnitId,
    sender: mpsc::Sender<FromUnit>,
}

impl Line {
    /// The line of `unit`.
    #[must_use]
    pub fn new(unit: UnitId, sender: mpsc::Sender<FromUnit>) -> Self {
        Self { unit, sender }
    }

    /// Returns the line of another unit to the same dispatcher.
    #[must_use]
    pub fn of(&self, unit: UnitId) -> Self {
        Self { unit, sender: self.sender.clone() }
    }

    /// Returns whose line it is.
    #[must_use]
    pub fn unit(&self) -> UnitId {
        self.unit
    }

    /// Tells the dispatcher something.
    pub async fn tell(&self, event: impl Into<UnitEvent>) {
        // The dispatcher goes away only when the run is over, and then there
        // is nobody left to tell.
        let _ = self.sender.send(FromUnit { unit: self.unit, event: event.into() }).await;
    }

    /// Asks whether this unit may start; `false` means never.
    pub async fn may_start(&self) -> bool {
        self.ask(|reply| UnitEvent::MayStart { reply }).await.is_some()
    }

    /// Says that this unit was lost with the worker it ran on, in the attempt
    /// with this number, and asks whether it may be run again; `false` means
    /// that it is to be ended.
    pub async fn lost(&self, worker: Arc<str>, attempt: u32) -> bool {
        self.ask(|reply| UnitEvent::Lost { worker, attempt, reply }).await.is_some()
    }

    /// Asks for leave to send a request, which may begin the turn with this
    /// number. The error is why there is none; `None` once a cancel has begun.
    pub async fn may_request(&self, turn: Option<u32>) -> Option<Result<RequestLeave, Failure>> {
        self.ask(|reply| UnitEvent::MayRequest { turn, reply }).await
    }

    /// Asks what can be known ahead of what this unit, which has started, would
    /// ask; `None` if it does not run.
    pub async fn ahead(&self) -> Option<Ahead> {
        self.ask(|reply| UnitEvent::Ahead { reply }).await
    }

    /// Asks for leave to run calls; `None` once a cancel has begun.
    pub async fn may_call(&self, count: usize) -> Option<CallLeave> {
        self.ask(|reply| UnitEvent::MayCall { count, reply }).await
    }

    /// Asks the user, about a call as it was decided about; `None` once a cancel
    /// has begun.
    pub async fn ask_user(&self, question: Question, decided: Decided) -> Option<Verdict> {
        self.ask(|reply| UnitEvent::Ask { question, decided, reply }).await
    }

    /// Takes back what this unit asked and nobody waits for any more. It is for
    /// whoever is being dropped, and so waits for nothing.
    pub fn take_back(&self) {
        let unasked = FromUnit { unit: self.unit, event: UnitEvent::Unasked };
        // Without a dispatcher there are no questions; without a runtime there
        // is nobody left who could be asked.
        if let Err(mpsc::error::TrySendError::Full(unasked)) = self.sender.try_send(unasked)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let sender = self.sender.clone();
            runtime.spawn(async move { drop(sender.send(unasked).await) });
        }
    }

    /// Declares children; `None` once a cancel has begun.
    pub async fn declare(&self, call: Option<CallId>, children: Vec<Child>) -> Option<Vec<Seat>> {
        self.ask(|reply| UnitEvent::Declare { call, children, orders: None, reply }).await
    }

    /// Declares children and takes orders about those that it waits for; `None`
    /// once a cancel has begun.
    pub async fn declare_with(
        &self,
        call: Option<CallId>,
        children: Vec<Child>,
        orders: Orders,
    ) -> Option<Vec<Seat>> {
        let orders = Some(orders);
        self.ask(|reply| UnitEvent::Declare { call, children, orders, reply }).await
    }

    /// Reports the end of this unit and returns what it had done by then.
    pub async fn ended(
        &self,
        outcome: Outcome,
        output_file: Option<Arc<str>>,
    ) -> Option<Arc<UnitEnd>> {
        self.ask(|reply| UnitEvent::Ended { outcome, output_file, reply }).await
    }

    /// Takes the branches of its ended children into this unit's own.
    pub async fn join(&self, children: Vec<UnitId>) {
        // No answer means that the run is over; then nobody looks at branches.
        let _ = self.ask(|reply| UnitEvent::Join { children, reply }).await;
    }

    /// Takes the news at a turn's boundary.
    pub async fn news(&self, wait: Wait) -> News {
        // No answer means that the run is over; then nothing is new any more.
        self.ask(|reply| Tend::News { wait, reply }).await.unwrap_or(News::Nothing)
    }

    /// Reserves `count` tokens in a row and returns the first; `None` if the
    /// run is over.
    pub async fn reserve(&self, count: u64) -> Option<Token> {
        self.ask(|reply| UnitEvent::Reserve { count, reply }).await
    }

    /// Returns what this unit's branch lets it see of others, oldest first;
    /// `None` if nothing is kept of it.
    pub async fn visible(&self) -> Option<Vec<Arc<Said>>> {
        self.ask(|reply| UnitEvent::Visible { reply }).await
    }

    /// Asks, and waits for the answer; `None` if the question was dropped.
    pub async fn ask<T, Q: Into<UnitEvent>>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Q,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.tell(question(reply)).await;
        answer.await.ok()
    }
}
