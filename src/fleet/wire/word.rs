//! What a unit says and what it is answered, as values without channels.

use std::sync::Arc;

use crate::branch::{Branch, Token};
use crate::event::{
    Confinement, Failure, FileChange, Origin, Outcome, Piece, Question, Replied, UnitEnd, UnitId,
    UnitState, Verdict,
};
use crate::guard::Decided;
use crate::line::{CallLeave, Child, Glance, News, RequestLeave, Sent, Told, Until, Wait};
use crate::message::{CallId, Output};
use crate::prompt::Said;

/// What a unit of a far slot says.
#[derive(Debug, Clone, PartialEq)]
pub enum Word {
    /// What happened in it.
    Told(Told),
    /// It has begun a turn, with the leave that it had ahead.
    TurnStarted {
        /// From 1.
        turn: u32,
    },
    /// Its model answered.
    Replied(Replied),
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
    /// Its model writes.
    Delta(Piece),
    /// What it leaves to read if it comes to no answer.
    Leaves(Arc<str>),
    /// Something in it has ended that waited for a person. It stands behind an
    /// `Unheard` that says what nobody waits for.
    Unasked,
    /// Nobody waits any more for the answers to these, or takes the orders that
    /// they would bring.
    Unheard(Vec<AskId>),
    /// It asks something.
    Ask {
        /// Names the question, for its answer.
        id: AskId,
        /// What it asks.
        ask: Ask,
    },
}

/// Names something that was asked within an attempt at a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// What a unit asks. Each is one of [`UnitEvent`](crate::line::UnitEvent), or
/// of [`Tend`](crate::line::Tend).
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// A call begins to run.
    ToolStarted {
        /// The call.
        call: CallId,
        /// The tool's own name.
        tool: Arc<str>,
        /// What the call is about.
        subject: Arc<str>,
        /// How it is kept in bounds; `None` if it runs no command.
        confinement: Option<Confinement>,
        /// Whether it waits until the log is on disk. If not, there is no
        /// answer.
        is_synced: bool,
    },
    /// It is about to change a file.
    FileChanged(Arc<FileChange>),
    /// It declares children.
    Declare {
        /// The call that wants them; `None` if the user or a flow does.
        call: Option<CallId>,
        /// The children, in declared order.
        children: Vec<Child>,
        /// Whether it takes orders about those that it waits for.
        takes_orders: bool,
    },
    /// Whether it may start.
    MayStart,
    /// Whether it may send a request.
    MayRequest {
        /// The turn that it begins, from 1; `None` if it begins none.
        turn: Option<u32>,
    },
    /// Whether calls may run.
    MayCall {
        /// How many.
        count: usize,
    },
    /// Something that only a person may answer.
    User {
        /// What it asks.
        question: Question,
        /// The call that it asks about, as it was decided about there.
        decided: Decided,
    },
    /// It ended.
    Ended {
        /// What became of it.
        outcome: Outcome,
        /// The file that holds its whole text.
        output_file: Option<Arc<str>>,
    },
    /// Its children have come back to it.
    Join {
        /// The children.
        children: Vec<UnitId>,
    },
    /// Tokens for children that it will declare later.
    Reserve {
        /// How many.
        count: u64,
    },
    /// The news there are.
    News {
        /// Whether it waits for some.
        wait: Wait,
    },
    /// What units of its background are at.
    Look {
        /// Which one; `None` for all.
        unit: Option<UnitId>,
    },
    /// That units of its background have ended.
    Await {
        /// The units.
        units: Vec<UnitId>,
        /// How many of them have to end.
        until: Until,
    },
    /// It has been given the whole end of units of its background.
    Taken {
        /// The units.
        units: Vec<UnitId>,
    },
    /// It stops a unit of its background.
    Stop {
        /// The unit.
        unit: UnitId,
    },
    /// It sends a message to a unit of its background.
    Send {
        /// The unit.
        to: UnitId,
        /// The message.
        text: Arc<str>,
    },
    /// What its branch lets it see of other units.
    Visible,
}

/// What comes back of something that was asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Answered {
    /// It is so; the unit goes on.
    GoOn,
    /// One seat for each declared child, in order.
    Seats(Vec<FarSeat>),
    /// Leave to send a request, or why there is none.
    Request(Result<RequestLeave, Failure>),
    /// Leave to run calls.
    Calls(CallLeave),
    /// What a person said.
    Verdict(Verdict),
    /// What the unit had done by its end.
    End(Arc<UnitEnd>),
    /// The first of the tokens.
    First(Token),
    /// The news.
    News(News),
    /// The units that were asked about.
    Glances(Vec<Glance>),
    /// The state of the unit before it was stopped; `None` if there is no such
    /// unit.
    State(Option<UnitState>),
    /// What became of the message.
    Sent(Sent),
    /// What the unit sees, oldest first.
    Visible(Vec<Arc<Said>>),
    /// There is none, as when the channel of a question is dropped.
    Dropped,
}

/// What the dispatcher gives a declared unit, without what holds only within
/// its process: its cancel comes as a message, and no unit of a slot is ever
/// set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarSeat {
    /// Its name.
    pub unit: UnitId,
    /// Its branch.
    pub branch: Branch,
    /// What its conversation begins with.
    pub origin: Origin,
}
