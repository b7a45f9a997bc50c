//! Both ends of a line that leads from one process to another.
//!
//! On the far side [`part`] takes a unit's event apart: what can be sent, and
//! the channel for the answer, which stays. On the near side [`heard`] and
//! [`event`] put the event together again, with a channel of its own, and give
//! what will come out of that. Who keeps the channels, and numbers what was
//! asked, is not decided here.
//!
//! A channel that is closed means something to the dispatcher: nobody waits
//! any more. So the far side says what is [`Reply::is_unheard`], and the near
//! side then drops the future, and with it its end of the channel.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::word::{Answered, Ask, AskId, FarSeat, Word};
use crate::branch::Token;
use crate::event::{Failure, UnitEnd, UnitState, Verdict};
use crate::line::{CallLeave, Glance, News, Orders, RequestLeave, Seat, Sent, Tend, UnitEvent};
use crate::prompt::Said;

/// A unit's event, taken apart.
#[derive(Debug)]
pub enum Parted {
    /// Something that is only said.
    Word(Word),
    /// Something that is asked. Whoever sends it names it.
    Asked {
        /// What is asked.
        ask: Ask,
        /// Where the answer goes; `None` if there will be none.
        reply: Option<Reply>,
        /// Where orders go, if it declares children and takes some.
        orders: Option<Orders>,
    },
}

/// Where an answer goes, by what is answered.
#[derive(Debug)]
pub enum Reply {
    /// That it may go on.
    GoOn(oneshot::Sender<()>),
    /// Seats.
    Seats {
        /// How many there have to be.
        count: usize,
        /// Where they go.
        sender: oneshot::Sender<Vec<Seat>>,
    },
    /// Leave to send a request.
    Request(oneshot::Sender<Result<RequestLeave, Failure>>),
    /// Leave to run calls.
    Calls(oneshot::Sender<CallLeave>),
    /// What a person says.
    Verdict(oneshot::Sender<Verdict>),
    /// What the unit had done.
    End(oneshot::Sender<Arc<UnitEnd>>),
    /// The first of some tokens.
    First(oneshot::Sender<Token>),
    /// News.
    News(oneshot::Sender<News>),
    /// Units at one moment.
    Glances(oneshot::Sender<Vec<Glance>>),
    /// A state.
    State(oneshot::Sender<Option<UnitState>>),
    /// What became of a message.
    Sent(oneshot::Sender<Sent>),
    /// What is seen of other units.
    Visible(oneshot::Sender<Vec<Arc<Said>>>),
}

/// Takes a unit's event apart.
///
/// # Panics
///
/// On [`UnitEvent::Lost`] and [`UnitEvent::Ahead`]: only whoever gives a unit away
/// says these of it.
#[must_use]
pub fn part(event: UnitEvent) -> Parted {
    let (ask, reply) = match event {
        UnitEvent::Told(told) => return Parted::Word(Word::Told(told)),
        UnitEvent::Delta(piece) => return Parted::Word(Word::Delta(piece)),
        UnitEvent::TurnStarted { turn } => return Parted::Word(Word::TurnStarted { turn }),
        UnitEvent::Replied(replied) => return Parted::Word(Word::Replied(replied)),
        UnitEvent::ToolFinished { call, tool, output, took_ms } => {
            return Parted::Word(Word::ToolFinished { call, tool, output, took_ms });
        }
        UnitEvent::Unasked => return Parted::Word(Word::Unasked),
        UnitEvent::Leaves(left) => return Parted::Word(Word::Leaves(left)),
        UnitEvent::ToolStarted { call, tool, subject, confinement, synced } => {
            let is_synced = synced.is_some();
            let ask = Ask::ToolStarted { call, tool, subject, confinement, is_synced };
            return Parted::Asked { ask, reply: synced.map(Reply::GoOn), orders: None };
        }
        UnitEvent::Declare { call, children, orders, reply } => {
            let reply = Some(Reply::Seats { count: children.len(), sender: reply });
            let ask = Ask::Declare { call, children, takes_orders: orders.is_some() };
            return Parted::Asked { ask, reply, orders };
        }
        UnitEvent::FileChanged { change, synced } => {
            (Ask::FileChanged(change), Reply::GoOn(synced))
        }
        UnitEvent::MayStart { reply } => (Ask::MayStart, Reply::GoOn(reply)),
        UnitEvent::MayRequest { turn, reply } => (Ask::MayRequest { turn }, Reply::Request(reply)),
        UnitEvent::MayCall { count, reply } => (Ask::MayCall { count }, Reply::Calls(reply)),
        UnitEvent::Ask { question, decided, reply } => {
            (Ask::User { question, decided }, Reply::Verdict(reply))
        }
        UnitEvent::Ended { outcome, output_file, reply } => {
            (Ask::Ended { outcome, output_file }, Reply::End(reply))
        }
        UnitEvent::Join { children, reply } => (Ask::Join { children }, Reply::GoOn(reply)),
        UnitEvent::Reserve { count, reply } => (Ask::Reserve { count }, Reply::First(reply)),
        UnitEvent::Tend(tend) => part_tend(tend),
        UnitEvent::Visible { reply } => (Ask::Visible, Reply::Visible(reply)),
        UnitEvent::Lost { .. } | UnitEvent::Ahead { .. } => {
            unreachable!("only whoever gives a unit away says that")
        }
    };
    Parted::Asked { ask, reply: Some(reply), orders: None }
}

fn part_tend(tend: Tend) -> (Ask, Reply) {
    match tend {
        Tend::News { wait, reply } => (Ask::News { wait }, Reply::News(reply)),
        Tend::Look { unit, reply } => (Ask::Look { unit }, Reply::Glances(reply)),
        Tend::Await { units, until, reply } => (Ask::Await { units, until }, Reply::GoOn(reply)),
        Tend::Taken { units, reply } => (Ask::Taken { units }, Reply::GoOn(reply)),
        Tend::Stop { unit, reply } => (Ask::Stop { unit }, Reply::State(reply)),
        Tend::Send { to, text, reply } => (Ask::Send { to, text }, Reply::Sent(reply)),
    }
}

impl Reply {
    /// Gives the unit its answer. One that is none to what was asked, or
    /// [`Answered::Dropped`], drops the channel: to the unit there is no
    /// answer. `make_seat` adds to a seat what holds only within this process.
    pub fn give(self, answered: Answered, make_seat: impl FnMut(FarSeat) -> Seat) {
        match (self, answered) {
            (Self::GoOn(sender), Answered::GoOn) => give(sender, ()),
            (Self::Seats { count, sender }, Answered::Seats(seats)) if seats.len() == count => {
                give(sender, seats.into_iter().map(make_seat).collect());
            }
            (Self::Request(sender), Answered::Request(leave)) => give(sender, leave),
            (Self::Calls(sender), Answered::Calls(leave)) => give(sender, leave),
            (Self::Verdict(sender), Answered::Verdict(verdict)) => give(sender, verdict),
            (Self::End(sender), Answered::End(end)) => give(sender, end),
            (Self::First(sender), Answered::First(token)) => give(sender, token),
            (Self::News(sender), Answered::News(news)) => give(sender, news),
            (Self::Glances(sender), Answered::Glances(glances)) => give(sender, glances),
            (Self::State(sender), Answered::State(state)) => give(sender, state),
            (Self::Sent(sender), Answered::Sent(sent)) => give(sender, sent),
            (Self::Visible(sender), Answered::Visible(said)) => give(sender, said),
            (
                Self::GoOn(_)
                | Self::Seats { .. }
                | Self::Request(_)
                | Self::Calls(_)
                | Self::Verdict(_)
                | Self::End(_)
                | Self::First(_)
                | Self::News(_)
                | Self::Glances(_)
                | Self::State(_)
                | Self::Sent(_)
                | Self::Visible(_),
                _,
            ) => {}
        }
    }

    /// Tells whether nobody waits for the answer any more.
    #[must_use]
    pub fn is_unheard(&self) -> bool {
        match self {
            Self::GoOn(sender) => sender.is_closed(),
            Self::Seats { count: _, sender } => sender.is_closed(),
            Self::Request(sender) => sender.is_closed(),
            Self::Calls(sender) => sender.is_closed(),
            Self::Verdict(sender) => sender.is_closed(),
            Self::End(sender) => sender.is_closed(),
            Self::First(sender) => sender.is_closed(),
            Self::News(sender) => sender.is_closed(),
            Self::Glances(sender) => sender.is_closed(),
            Self::State(sender) => sender.is_closed(),
            Self::Sent(sender) => sender.is_closed(),
            Self::Visible(sender) => sender.is_closed(),
        }
    }
}

fn give<T>(sender: oneshot::Sender<T>, answer: T) {
    // Whoever asked may have gone meanwhile.
    let _ = sender.send(answer);
}

/// What a word of a far unit comes to on the near side.
#[derive(Debug)]
pub enum Heard {
    /// An event for the dispatcher, to which nothing comes back.
    Event(UnitEvent),
    /// Nobody waits for the answers to these: their futures are dropped, and
    /// the receivers of their orders.
    Unheard(Vec<AskId>),
    /// Something is asked: see [`event`].
    Asked(AskId, Ask),
}

/// Puts together what a far unit only says.
#[must_use]
pub fn heard(word: Word) -> Heard {
    Heard::Event(match word {
        Word::Told(told) => UnitEvent::Told(told),
        Word::TurnStarted { turn } => UnitEvent::TurnStarted { turn },
        Word::Replied(replied) => UnitEvent::Replied(replied),
        Word::ToolFinished { call, tool, output, took_ms } => {
            UnitEvent::ToolFinished { call, tool, output, took_ms }
        }
        Word::Delta(piece) => UnitEvent::Delta(piece),
        Word::Leaves(left) => UnitEvent::Leaves(left),
        Word::Unasked => UnitEvent::Unasked,
        Word::Unheard(asks) => return Heard::Unheard(asks),
        Word::Ask { id, ask } => return Heard::Asked(id, ask),
    })
}

/// What came of something that was asked.
#[derive(Debug)]
pub enum Came {
    /// What the far unit is told.
    Answered(Answered),
    /// The seats of what it declared. Their tokens are watched on this side;
    /// it is told [`Answered::Seats`] of them: see [`FarSeat::from`].
    Seats(Vec<Seat>),
}

/// Puts together what a far unit asks, with the future of what will come of
/// it; `None` if nothing will. The future never fails: if the dispatcher drops
/// the question, [`Answered::Dropped`] comes of it. `orders` are for a
/// declaration that takes some.
#[must_use]
pub fn event(ask: Ask, orders: Option<Orders>) -> (UnitEvent, Option<BoxFuture<'static, Came>>) {
    let (event, coming) = match ask {
        Ask::ToolStarted { call, tool, subject, confinement, is_synced } => {
            let (synced, coming) = is_synced.then(|| asked(|()| Answered::GoOn)).unzip();
            return (UnitEvent::ToolStarted { call, tool, subject, confinement, synced }, coming);
        }
        Ask::FileChanged(change) => {
            let (synced, coming) = asked(|()| Answered::GoOn);
            (UnitEvent::FileChanged { change, synced }, coming)
        }
        Ask::Declare { call, children, takes_orders } => {
            let orders = orders.filter(|_| takes_orders);
            let (reply, coming) = channel(Came::Seats);
            (UnitEvent::Declare { call, children, orders, reply }, coming)
        }
        Ask::MayStart => with(asked(|()| Answered::GoOn), |reply| UnitEvent::MayStart { reply }),
        Ask::MayRequest { turn } => {
            with(asked(Answered::Request), |reply| UnitEvent::MayRequest { turn, reply })
        }
        Ask::MayCall { count } => {
            with(asked(Answered::Calls), |reply| UnitEvent::MayCall { count, reply })
        }
        Ask::User { question, decided } => {
            with(asked(Answered::Verdict), |reply| UnitEvent::Ask { question, decided, reply })
        }
        Ask::Ended { outcome, output_file } => {
            with(asked(Answered::End), |reply| UnitEvent::Ended { outcome, output_file, reply })
        }
        Ask::Join { children } => {
            with(asked(|()| Answered::GoOn), |reply| UnitEvent::Join { children, reply })
        }
        Ask::Reserve { count } => {
            with(asked(Answered::First), |reply| UnitEvent::Reserve { count, reply })
        }
        Ask::News { wait } => with(asked(Answered::News), |reply| Tend::News { wait, reply }),
        Ask::Look { unit } => with(asked(Answered::Glances), |reply| Tend::Look { unit, reply }),
        Ask::Await { units, until } => {
            with(asked(|()| Answered::GoOn), |reply| Tend::Await { units, until, reply })
        }
        Ask::Taken { units } => {
            with(asked(|()| Answered::GoOn), |reply| Tend::Taken { units, reply })
        }
        Ask::Stop { unit } => with(asked(Answered::State), |reply| Tend::Stop { unit, reply }),
        Ask::Send { to, text } => {
            with(asked(Answered::Sent), |reply| Tend::Send { to, text, reply })
        }
        Ask::Visible => with(asked(Answered::Visible), |reply| UnitEvent::Visible { reply }),
    };
    (event, Some(coming))
}

/// A channel for an answer, and what will come out of it.
type Asked<T> = (oneshot::Sender<T>, BoxFuture<'static, Came>);

fn asked<T: Send + 'static>(answered: fn(T) -> Answered) -> Asked<T> {
    channel(move |answer| Came::Answered(answered(answer)))
}

fn channel<T: Send + 'static>(came: impl FnOnce(T) -> Came + Send + 'static) -> Asked<T> {
    let (sender, receiver) = oneshot::channel();
    let dropped = Came::Answered(Answered::Dropped);
    (sender, Box::pin(async move { receiver.await.map_or(dropped, came) }))
}

fn with<T, E: Into<UnitEvent>>(
    (reply, coming): Asked<T>,
    event: impl FnOnce(oneshot::Sender<T>) -> E,
) -> (UnitEvent, BoxFuture<'static, Came>) {
    (event(reply).into(), coming)
}

impl From<&Seat> for FarSeat {
    fn from(seat: &Seat) -> Self {
        let Seat { unit, branch, origin, cancel: _, aside: _ } = seat;
        Self { unit: *unit, branch: branch.clone(), origin: *origin }
    }
}
