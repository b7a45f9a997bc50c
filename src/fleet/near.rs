//! The near end of a slot's line: it is where the dispatcher is, and the unit runs
//! elsewhere.
//!
//! What the far end says goes to the dispatcher, once and in order, as if the unit
//! spoke here. It speaks for the slot and for what that started, and for nobody else.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{BoxFuture, Fuse};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::wire::relay::{self, Came};
use super::wire::{Answered, Ask, AskId, Back, Claimed, FarEnd, FarSeat, Frame, Had, ToSlot, Word};
use crate::event::UnitId;
use crate::line::{Line, ORDERS_CAP, Order, Seat, Strand, UnitEvent};
use crate::tool::BATCH_CAP;

/// Most frames that are kept because one before them is missing.
const EARLY_CAP: usize = 1_024;

/// How long a slot that is to stop has until its worker says what it came to. Its
/// commands have a fifth of a second, and the way takes milliseconds.
pub(super) const STOPPING: Duration = Duration::from_secs(5);

/// What arrives for one attempt of a slot.
#[derive(Debug)]
pub(super) enum FromFar {
    /// Some of what its units say.
    Frame(Frame),
    /// What it came to.
    End(FarEnd),
    /// Its worker lives, and has heard up to this number.
    Beat { attempt: u32, heard: u64 },
    /// A worker asks for it.
    Claim(Claimant),
    /// Something that its units say came and cannot be read.
    Unreadable {
        /// The attempt; `None` if the message does not tell.
        attempt: Option<u32>,
    },
    /// What it came to will never be known, and no other attempt would come to more: why.
    NoEnd {
        /// The attempt; `None` if it may be any, since there is one result.
        attempt: Option<u32>,
        why: Arc<str>,
    },
    /// Nothing arrives any more for any slot: why.
    Broken(Arc<str>),
}

/// A worker that asks for a slot, and waits.
#[derive(Debug)]
pub(super) struct Claimant {
    /// Who.
    pub(super) worker: Arc<str>,
    /// What it had of the slot before.
    pub(super) had: Option<Had>,
    /// When it asked. It waits for a lease.
    pub(super) since: Instant,
    /// Where the answer goes.
    pub(super) reply: oneshot::Sender<Claimed>,
}

/// How an attempt ended.
pub(super) enum Ended {
    /// It came to an outcome.
    Over(FarEnd),
    /// Nothing is heard of its worker any more; another asks for the slot, if one
    /// does.
    Lost(Option<Claimant>),
    /// It never was there: its worker had not waited for the answer, and nothing was
    /// heard.
    NeverBegan(Option<Claimant>),
    /// It was to stop, and its worker has not said in time what it came to.
    Stopped,
    /// Nothing arrives any more, or not what it came to: why.
    Broken(Arc<str>),
}

/// What an attempt is made of.
pub(super) struct Attempt<'a> {
    pub(super) run: &'a Arc<str>,
    pub(super) number: u32,
    pub(super) worker: &'a Arc<str>,
    /// How long its worker may be silent.
    pub(super) lease: Duration,
    /// Whether it was granted while its worker waited for that.
    pub(super) is_awaited: bool,
    /// Tells since when this process has been connected; `None` if it is not.
    pub(super) connected: &'a (dyn Fn() -> Option<Instant> + Send + Sync),
    /// Sends to the far end.
    pub(super) send: &'a (dyn Fn(&ToSlot) + Send + Sync),
    /// Answers a worker that asks for what another one holds.
    pub(super) grant: &'a (dyn Fn() -> Claimed + Send + Sync),
}

/// The near end of one attempt of a slot.
pub(super) struct Near<'a> {
    line: Line,
    attempt: Attempt<'a>,
    /// The slot, and what it started.
    units: HashSet<UnitId>,
    /// The last frame that went to the dispatcher.
    frame: u64,
    /// Frames that came before their turn.
    early: BTreeMap<u64, Frame>,
    sent: u64,
    /// What the far end may not have heard.
    unheard: VecDeque<ToSlot>,
    // Lists, because what nobody waits for any more has to go at once.
    answers: Vec<(AskId, BoxFuture<'static, Came>)>,
    orders: Vec<(AskId, mpsc::Receiver<Order>)>,
    /// What units of the slot are to hear as soon as it is so.
    signals: FuturesUnordered<BoxFuture<'static, Back>>,
    /// Comes with the first message that somebody sends the slot.
    news: Fuse<oneshot::Receiver<()>>,
    end: Option<FarEnd>,
    heard_at: Instant,
    /// Whether anything was heard.
    is_heard: bool,
    /// Since when something is missing before what has arrived.
    missing_since: Option<Instant>,
    /// Until when it has to stop.
    stops_by: Option<Instant>,
}

impl<'a> Near<'a> {
    /// The near end for the slot with this seat. `line` is anybody's.
    pub(super) fn new(
        line: &Line,
        seat: &Seat,
        news: oneshot::Receiver<()>,
        attempt: Attempt<'a>,
    ) -> Self {
        let near = Self {
            line: line.of(seat.unit),
            attempt,
            units: HashSet::from([seat.unit]),
            frame: 0,
            early: BTreeMap::new(),
            sent: 0,
            unheard: VecDeque::new(),
            answers: Vec::new(),
            orders: Vec::new(),
            signals: FuturesUnordered::new(),
            news: news.fuse(),
            end: None,
            heard_at: Instant::now(),
            is_heard: false,
            missing_since: None,
            stops_by: None,
        };
        near.watch(Back::Cancel { unit: seat.unit }, seat.cancel.clone());
        near.watch(Back::Aside { unit: seat.unit }, seat.aside.clone());
        near
    }

    /// Relays until the attempt is over.
    pub(super) async fn relay(mut self, arriving: &mut mpsc::Receiver<FromFar>) -> Ended {
        loop {
            // Whatever it said stands before what it came to.
            if let Some(mut end) = self.end.take_if(|end| end.after <= self.frame) {
                for (unit, word) in std::mem::take(&mut end.words) {
                    self.word(unit, word).await;
                }
                return Ended::Over(end);
            }
            let wakes = self.wakes();
            tokio::select! {
                biased;
                (id, came) = next_answer(&mut self.answers) => self.answered(id, came),
                (ask, order) = next_order(&mut self.orders) => self.tell(Back::Order { ask, order }),
                Some(signal) = self.signals.next() => {
                    if signal == (Back::Cancel { unit: self.line.unit() }) {
                        self.stops_by = Some(Instant::now() + STOPPING);
                    }
                    self.tell(signal);
                }
                Ok(()) = &mut self.news => self.tell(Back::HasNews),
                Some(from) = arriving.recv() => {
                    if let Some(ended) = self.hear(from).await {
                        return ended;
                    }
                }
                () = sleep_until(wakes) => {
                    if let Some(ended) = self.overdue() {
                        return ended;
                    }
                }
            }
        }
    }

    /// Returns when to look whether anything is overdue.
    fn wakes(&mut self) -> Instant {
        self.missing_since = match self.early.is_empty() && self.end.is_none() {
            true => None,
            false => Some(self.missing_since.unwrap_or_else(Instant::now)),
        };
        let lease = self.attempt.lease;
        let missing = self.missing_since.map(|since| since + lease);
        let others = missing.into_iter().chain(self.stops_by);
        others.fold(self.heard_at + lease * 2, Instant::min)
    }

    /// Ends what has waited long enough.
    fn overdue(&mut self) -> Option<Ended> {
        let now = Instant::now();
        if self.stops_by.is_some_and(|by| by <= now) {
            return Some(Ended::Stopped);
        }
        if self.missing_since.is_some_and(|since| since + self.attempt.lease <= now) {
            // What is missing will not come. An outcome stands all the same, with what
            // was said last: no other attempt can come to one.
            match &self.end {
                Some(end) => self.frame = end.after,
                None => return Some(Ended::Lost(None)),
            }
        }
        let is_silent = self.heard_at + self.attempt.lease * 2 <= now && self.is_silent();
        is_silent.then(|| self.lost(None))
    }

    fn lost(&self, next: Option<Claimant>) -> Ended {
        match self.is_heard || self.attempt.is_awaited {
            true => Ended::Lost(next),
            false => Ended::NeverBegan(next),
        }
    }

    /// Tells whether the worker is the one that is silent, and not everybody.
    fn is_silent(&mut self) -> bool {
        match (self.attempt.connected)() {
            Some(since) if since <= self.heard_at => true,
            Some(since) => {
                self.heard_at = since;
                false
            }
            None => {
                self.heard_at = Instant::now();
                false
            }
        }
    }

    async fn hear(&mut self, from: FromFar) -> Option<Ended> {
        let number = self.attempt.number;
        let is_this = |attempt: Option<u32>| attempt.is_none_or(|attempt| attempt == number);
        match from {
            FromFar::Frame(frame) => self.frame(frame).await,
            // The first one that came to an outcome is the one that did.
            FromFar::End(end) if end.attempt < number => {
                return Some(Ended::Over(used(&self.line, end).await));
            }
            // Nobody was given that one.
            FromFar::End(end) if end.attempt > number => {}
            FromFar::End(end) => self.end = Some(end),
            FromFar::Beat { attempt, heard } if attempt == number => self.beat(heard),
            FromFar::Claim(claimant) => return self.claimed(claimant),
            FromFar::Unreadable { attempt } if is_this(attempt) => return Some(Ended::Lost(None)),
            // Its outcome came first, and waits for what was said before.
            FromFar::NoEnd { .. } if self.end.is_some() => {}
            FromFar::NoEnd { attempt, why } if is_this(attempt) => return Some(Ended::Broken(why)),
            // They are about another attempt.
            FromFar::Beat { .. } | FromFar::Unreadable { attempt: _ } | FromFar::NoEnd { .. } => {}
            FromFar::Broken(why) => return Some(Ended::Broken(why)),
        }
        None
    }

    /// A worker asks for the slot. The one that has it did not hear the answer, or tells
    /// what became of this attempt; any other was given its ticket because that one is
    /// silent.
    fn claimed(&mut self, claimant: Claimant) -> Option<Ended> {
        let is_its_own = claimant.worker == *self.attempt.worker;
        let had = claimant.had.filter(|had| is_its_own && had.attempt == self.attempt.number);
        let is_lost = match had {
            // If it has heard it after all, nothing comes of this: it runs no attempt twice.
            None if is_its_own => {
                // It may have gone by now; then it is silent soon.
                let _ = claimant.reply.send((self.attempt.grant)());
                return None;
            }
            None => self.heard_at.elapsed() * 4 >= self.attempt.lease * 3 && self.is_silent(),
            // What it came to is on its way, or it was dropped.
            Some(had) => !had.has_ended,
        };
        self.is_heard |= had.is_some();
        // It has come to an outcome, which only waits for what was said before.
        if self.end.is_none() && is_lost {
            return Some(self.lost(Some(claimant)));
        }
        // It may have gone by now.
        let _ = claimant.reply.send(Claimed::Held);
        None
    }

    /// Takes note of how far the far end has heard, and says the rest again.
    fn beat(&mut self, heard: u64) {
        (self.heard_at, self.is_heard) = (Instant::now(), true);
        while self.unheard.front().is_some_and(|to| to.number <= heard) {
            self.unheard.pop_front();
        }
        for to in &self.unheard {
            (self.attempt.send)(to);
        }
    }

    async fn frame(&mut self, frame: Frame) {
        if frame.attempt != self.attempt.number || frame.seq <= self.frame {
            return;
        }
        (self.heard_at, self.is_heard) = (Instant::now(), true);
        let before = self.frame;
        if self.early.len() < EARLY_CAP {
            self.early.insert(frame.seq, frame);
        }
        while let Some(next) = self.early.remove(&(self.frame + 1)) {
            self.frame = next.seq;
            for (unit, word) in next.words {
                self.word(unit, word).await;
            }
        }
        // One that is early brings none of those before it.
        if self.frame > before {
            self.missing_since = None;
        }
    }

    async fn word(&mut self, unit: UnitId, word: Word) {
        // A worker speaks for nobody that it was not given.
        if !self.units.contains(&unit) {
            return;
        }
        let event = match relay::heard(word) {
            relay::Heard::Event(event) => event,
            relay::Heard::Unheard(asks) => {
                self.answers.retain(|(id, _)| !asks.contains(id));
                self.orders.retain(|(id, _)| !asks.contains(id));
                return;
            }
            // The file is in a tree that goes; the change is told of when it gets into
            // the workspace.
            relay::Heard::Asked(id, Ask::FileChanged(_)) => {
                return self.tell(Back::Answer { id, answered: Answered::GoOn });
            }
            relay::Heard::Asked(id, ask) if self.may_ask(unit, &ask) => self.asked(id, ask),
            relay::Heard::Asked(id, _) => {
                return self.tell(Back::Answer { id, answered: Answered::Dropped });
            }
        };
        self.line.of(unit).tell(event).await;
    }

    /// Tells whether something is asked about nobody but the slot and what it started,
    /// in the way in which agents ask it: a worker is believed no further.
    fn may_ask(&self, asker: UnitId, ask: &Ask) -> bool {
        let slot = self.line.unit();
        let is_known = |unit: &UnitId| *unit != slot && self.units.contains(unit);
        match ask {
            Ask::Declare { children, .. } => {
                children.len() <= BATCH_CAP
                    && children.iter().all(|child| {
                        // Only flows choose tokens, and those are walked here.
                        child.strand == Strand::Fresh
                            && child.step.is_none()
                            && child.again.as_ref().is_none_or(is_known)
                    })
            }
            Ask::Reserve { .. } => false,
            Ask::Join { children } | Ask::Taken { units: children } => {
                children.iter().all(is_known)
            }
            Ask::Await { units, .. } => units.iter().all(is_known),
            Ask::Stop { unit } | Ask::Send { to: unit, .. } => is_known(unit),
            Ask::Look { unit } => unit.as_ref().is_none_or(is_known),
            // The slot's own start and end are said here.
            Ask::MayStart | Ask::Ended { .. } => asker != slot,
            Ask::ToolStarted { .. }
            | Ask::FileChanged(_)
            | Ask::MayRequest { .. }
            | Ask::MayCall { .. }
            | Ask::User { .. }
            | Ask::News { .. }
            | Ask::Visible => true,
        }
    }

    fn asked(&mut self, id: AskId, ask: Ask) -> UnitEvent {
        let takes_orders = matches!(ask, Ask::Declare { takes_orders: true, .. });
        let (orders, ordered) = takes_orders.then(|| mpsc::channel(ORDERS_CAP)).unzip();
        let (event, coming) = relay::event(ask, orders);
        self.orders.extend(ordered.map(|ordered| (id, ordered)));
        self.answers.extend(coming.map(|coming| (id, coming)));
        event
    }

    fn answered(&mut self, id: AskId, came: Came) {
        let answered = match came {
            Came::Answered(answered) => answered,
            Came::Seats(seats) => {
                for seat in &seats {
                    self.units.insert(seat.unit);
                    self.watch(Back::Cancel { unit: seat.unit }, seat.cancel.clone());
                }
                Answered::Seats(seats.iter().map(FarSeat::from).collect())
            }
        };
        self.tell(Back::Answer { id, answered });
    }

    fn tell(&mut self, what: Back) {
        self.sent += 1;
        let (unit, attempt) = (self.line.unit(), self.attempt.number);
        let run = Arc::clone(self.attempt.run);
        let to = ToSlot { run, unit, attempt, number: self.sent, what };
        (self.attempt.send)(&to);
        self.unheard.push_back(to);
    }

    /// Has something said once the token fires.
    fn watch(&self, signal: Back, fires: CancellationToken) {
        self.signals.push(Box::pin(async move {
            fires.cancelled().await;
            signal
        }));
    }
}

/// Has the dispatcher hear what a slot has used up to an end that comes late: what it
/// said before that is of a conversation that is over.
pub(super) async fn used(line: &Line, mut end: FarEnd) -> FarEnd {
    for (unit, word) in std::mem::take(&mut end.words) {
        if unit != line.unit() {
            continue;
        }
        match word {
            Word::TurnStarted { turn } => line.tell(UnitEvent::TurnStarted { turn }).await,
            Word::Replied(replied) => line.tell(UnitEvent::Replied(replied)).await,
            Word::Told(_)
            | Word::ToolFinished { .. }
            | Word::Delta(_)
            | Word::Leaves(_)
            | Word::Unasked
            | Word::Unheard(_)
            | Word::Ask { .. } => {}
        }
    }
    end
}

/// Waits for the first of some answers; for ever if there are none.
async fn next_answer(answers: &mut Vec<(AskId, BoxFuture<'static, Came>)>) -> (AskId, Came) {
    poll_fn(|context| {
        let ready = answers.iter_mut().enumerate().find_map(|(index, (_, coming))| {
            match coming.poll_unpin(context) {
                Poll::Ready(came) => Some((index, came)),
                Poll::Pending => None,
            }
        });
        match ready {
            Some((index, came)) => Poll::Ready((answers.swap_remove(index).0, came)),
            None => Poll::Pending,
        }
    })
    .await
}

/// Waits for the first of some orders; for ever if there are none.
async fn next_order(orders: &mut Vec<(AskId, mpsc::Receiver<Order>)>) -> (AskId, Order) {
    poll_fn(|context| {
        let mut next = Poll::Pending;
        orders.retain_mut(|(ask, ordered)| match next {
            Poll::Ready(_) => true,
            Poll::Pending => match ordered.poll_recv(context) {
                Poll::Ready(Some(order)) => {
                    next = Poll::Ready((*ask, order));
                    true
                }
                // Nobody orders anything any more.
                Poll::Ready(None) => false,
                Poll::Pending => true,
            },
        });
        next
    })
    .await
}
