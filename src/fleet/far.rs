//! The far end of a slot's line: it is where the unit runs, and the dispatcher is
//! elsewhere.
//!
//! What the slot and all that it starts say goes out in frames, numbered and in
//! order. What is asked waits here for its answer, unless that is known ahead. A unit
//! cannot tell that line from one that leads straight to a dispatcher.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::wire::relay::{Parted, Reply, part};
use super::wire::{Answered, Ask, AskId, Back, FarSeat, Frame, ToSlot, Word};
use crate::event::{Piece, UnitId};
use crate::line::{FromUnit, News, Order, Orders, RequestLeave, Seat};

/// Most words that wait to go out. Units that say more have to wait.
const WORDS_CAP: usize = 256;

/// How long what nobody waits for may wait for more of it. A person sees ten changes
/// a second as text that flows; each frame is a write on a disk.
const SOON: Duration = Duration::from_millis(100);

/// The far end of one attempt of a slot.
pub(super) struct Far {
    slot: UnitId,
    attempt: u32,
    /// How much of what the coordinator says has arrived.
    heard: Arc<Heard>,
    frames: u64,
    asks: u64,
    waiting: HashMap<AskId, Waiting>,
    /// Where orders go about the units of a call that is waited for.
    orders: HashMap<AskId, Declared>,
    units: HashMap<UnitId, Unit>,
    words: Vec<(UnitId, Word)>,
    touches: Touches,
    /// When the words have to go, if nobody waits for any of them.
    due: Option<Instant>,
    /// Whether nobody hears what is said.
    is_unheard: bool,
}

/// How far a slot has heard what the coordinator says to it.
#[derive(Debug)]
pub(super) struct Heard {
    /// Up to this number.
    number: AtomicU64,
    /// Fires where something before what arrives is missing.
    missing: Arc<Notify>,
}

impl Heard {
    pub(super) fn new(missing: Arc<Notify>) -> Self {
        Self { number: AtomicU64::new(0), missing }
    }

    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }
}

/// Whether anything a slot does may have changed files where it works.
#[derive(Debug, Clone, Default)]
pub(super) struct Touches(Arc<AtomicBool>);

impl Touches {
    pub(super) fn is_touched(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A unit that has asked.
struct Waiting {
    unit: UnitId,
    reply: Reply,
}

/// Units of one call that somebody waits for.
struct Declared {
    by: UnitId,
    orders: Orders,
    units: Vec<UnitId>,
}

/// What a unit here has of its seat, and what is known of it ahead.
struct Unit {
    cancel: CancellationToken,
    aside: CancellationToken,
    /// Whether each of its requests has leave.
    is_unlimited: bool,
    /// Whether it may have news: units that run beside it, or messages.
    has_news: bool,
}

impl Unit {
    fn new(cancel: CancellationToken, aside: CancellationToken) -> Self {
        Self { cancel, aside, is_unlimited: false, has_news: false }
    }
}

/// What was said behind the last frame.
pub(super) struct Rest {
    /// That frame's number.
    pub(super) after: u64,
    pub(super) words: Vec<(UnitId, Word)>,
}

/// What the far end is tied to.
pub(super) struct Ties {
    /// What the units say.
    pub(super) said: mpsc::Receiver<FromUnit>,
    /// What the coordinator says.
    pub(super) told: mpsc::Receiver<ToSlot>,
    /// Where frames go.
    pub(super) frames: mpsc::Sender<Frame>,
    /// Fires when the slot has come to its outcome: then all that was said goes out,
    /// and that was all.
    pub(super) over: oneshot::Receiver<()>,
}

impl Far {
    /// The far end for the slot with this seat, in the attempt with this number.
    /// `is_unlimited` says that nothing limits what the slot uses.
    pub(super) fn new(
        seat: &Seat,
        (attempt, is_unlimited): (u32, bool),
        heard: Arc<Heard>,
    ) -> Self {
        let slot = Unit::new(seat.cancel.clone(), seat.aside.clone());
        let slot = Unit { is_unlimited, ..slot };
        Self {
            slot: seat.unit,
            attempt,
            heard,
            frames: 0,
            asks: 0,
            waiting: HashMap::new(),
            orders: HashMap::new(),
            units: HashMap::from([(seat.unit, slot)]),
            words: Vec::new(),
            touches: Touches::default(),
            due: None,
            is_unheard: false,
        }
    }

    /// Returns what takes note of what may change files.
    pub(super) fn touches(&self) -> Touches {
        self.touches.clone()
    }

    /// Relays until the slot is over. What was said last comes back: it goes with the
    /// slot's end.
    pub(super) async fn relay(mut self, ties: Ties) -> Rest {
        let Ties { mut said, mut told, frames, mut over } = ties;
        let mut is_over = false;
        loop {
            if is_over {
                return Rest { after: self.frames, words: self.words };
            }
            let due = self.due;
            tokio::select! {
                biased;
                Some(to) = told.recv() => self.hear(to),
                () = frames.closed(), if !self.is_unheard => self.falls_silent(),
                Ok(room) = frames.reserve(), if self.must_go() => {
                    room.send(self.frame());
                }
                Some(from) = said.recv(), if self.words.len() < WORDS_CAP => self.say(from),
                _ = &mut over, if !is_over => {
                    is_over = true;
                    // It has said its last word before it came to its outcome.
                    while let Ok(from) = said.try_recv() {
                        self.say(from);
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    // As soon as there is room.
                    self.due = None;
                }
                else => is_over = true,
            }
        }
    }

    /// Tells whether there is something to say that does not wait for more.
    fn must_go(&self) -> bool {
        let is_full = self.words.len() >= WORDS_CAP;
        is_full || (!self.words.is_empty() && self.due.is_none())
    }

    fn frame(&mut self) -> Frame {
        self.frames += 1;
        self.due = None;
        Frame { attempt: self.attempt, seq: self.frames, words: std::mem::take(&mut self.words) }
    }

    /// Has nobody wait any more: what is said from now on is heard by nobody. A unit takes
    /// a question that is dropped for the end of its run.
    fn falls_silent(&mut self) {
        self.is_unheard = true;
        self.waiting.clear();
        self.orders.clear();
        self.words.clear();
        self.due = None;
    }

    fn say(&mut self, from: FromUnit) {
        let FromUnit { unit, event } = from;
        let word = match part(event) {
            Parted::Asked { ask, .. } if self.is_unheard => return self.note(unit, &ask),
            Parted::Word(_) if self.is_unheard => return,
            Parted::Word(word) => word,
            Parted::Asked { ask, reply, orders } => match (self.known(unit, &ask), reply) {
                (Some(answered), Some(reply)) => {
                    self.gives(unit, reply, answered);
                    return;
                }
                (_, reply) => self.asks(unit, ask, (reply, orders)),
            },
        };
        self.push(unit, word);
    }

    /// Has a question go out, and its answer awaited.
    fn asks(
        &mut self,
        unit: UnitId,
        ask: Ask,
        (reply, orders): (Option<Reply>, Option<Orders>),
    ) -> Word {
        self.asks += 1;
        let id = AskId(self.asks);
        if let Some(reply) = reply {
            self.waiting.insert(id, Waiting { unit, reply });
        }
        if let Some(orders) = orders {
            self.orders.insert(id, Declared { by: unit, orders, units: Vec::new() });
        }
        self.note(unit, &ask);
        Word::Ask { id, ask }
    }

    /// Takes note of what follows from something that is asked.
    fn note(&mut self, unit: UnitId, ask: &Ask) {
        match ask {
            // Commands alone have bounds to be kept in.
            Ask::ToolStarted { confinement: Some(_), .. } | Ask::FileChanged(_) => {
                self.touches.note();
            }
            Ask::Declare { children, .. } => {
                if children.iter().any(|child| child.is_background) {
                    self.may_have_news(unit);
                }
            }
            Ask::Send { to, text: _ } => self.may_have_news(*to),
            Ask::ToolStarted { confinement: None, .. }
            | Ask::MayStart
            | Ask::MayRequest { .. }
            | Ask::MayCall { .. }
            | Ask::User { .. }
            | Ask::Ended { .. }
            | Ask::Join { .. }
            | Ask::Reserve { .. }
            | Ask::News { .. }
            | Ask::Look { .. }
            | Ask::Await { .. }
            | Ask::Taken { .. }
            | Ask::Stop { .. }
            | Ask::Visible => {}
        }
    }

    /// Returns what the coordinator would answer, where that is known ahead.
    fn known(&mut self, unit: UnitId, ask: &Ask) -> Option<Answered> {
        let of = self.units.get(&unit)?;
        if let Ask::News { wait: _ } = ask {
            return (!of.has_news).then_some(Answered::News(News::Nothing));
        }
        let Ask::MayRequest { turn } = *ask else { return None };
        if !of.is_unlimited {
            return None;
        }
        // After a cancel there is no answer.
        if of.cancel.is_cancelled() {
            return Some(Answered::Dropped);
        }
        if let Some(turn) = turn {
            self.push(unit, Word::TurnStarted { turn });
        }
        Some(Answered::Request(Ok(RequestLeave::default())))
    }

    /// Takes note that a unit may have news from now on.
    fn may_have_news(&mut self, unit: UnitId) {
        if let Some(unit) = self.units.get_mut(&unit) {
            unit.has_news = true;
        }
    }

    fn push(&mut self, unit: UnitId, word: Word) {
        let is_awaited = match &word {
            Word::Ask { id, ask: _ } => self.waiting.contains_key(id),
            Word::Unheard(_) | Word::Unasked => true,
            Word::Delta(_)
            | Word::Told(_)
            | Word::TurnStarted { .. }
            | Word::Replied(_)
            | Word::ToolFinished { .. }
            | Word::Leaves(_) => false,
        };
        if is_awaited {
            self.due = None;
        } else if self.words.is_empty() {
            self.due = Some(Instant::now() + SOON);
        }
        match &word {
            Word::Delta(piece) if self.grows(unit, piece) => return,
            // The whole answer holds them.
            Word::Replied(_) => {
                self.words.retain(|(of, word)| *of != unit || !matches!(word, Word::Delta(_)));
            }
            Word::Unasked => self.takes_back(unit),
            Word::Delta(_)
            | Word::Told(_)
            | Word::TurnStarted { .. }
            | Word::ToolFinished { .. }
            | Word::Leaves(_)
            | Word::Unheard(_)
            | Word::Ask { .. } => {}
        }
        self.words.push((unit, word));
    }

    /// Says to which of its questions a unit waits for no answer any more: the
    /// dispatcher looks for those once it hears that there are some.
    fn takes_back(&mut self, unit: UnitId) {
        let is_unheard = |waiting: &Waiting| waiting.unit == unit && waiting.reply.is_unheard();
        let unheard = self.waiting.extract_if(|_, waiting| is_unheard(waiting));
        let asks: Vec<AskId> = unheard.map(|(id, _)| id).collect();
        if !asks.is_empty() {
            self.words.push((unit, Word::Unheard(asks)));
        }
    }

    /// Adds what a model writes to what it wrote last.
    fn grows(&mut self, unit: UnitId, piece: &Piece) -> bool {
        let Some((of, Word::Delta(last))) = self.words.last_mut() else { return false };
        let (whole, more): (&mut Arc<str>, &Arc<str>) = match (last, piece) {
            (Piece::Text(whole), Piece::Text(more))
            | (Piece::Thinking(whole), Piece::Thinking(more)) => (whole, more),
            (Piece::Text(_), Piece::Thinking(_)) | (Piece::Thinking(_), Piece::Text(_)) => {
                return false;
            }
        };
        if *of != unit {
            return false;
        }
        *whole = format!("{whole}{more}").into();
        true
    }

    /// Does as the coordinator says, once and in order.
    fn hear(&mut self, to: ToSlot) {
        let heard = self.heard.number();
        if to.attempt != self.attempt || to.number <= heard {
            return;
        }
        if to.number > heard + 1 {
            self.heard.missing.notify_one();
            return;
        }
        self.heard.number.store(to.number, Ordering::Relaxed);
        match to.what {
            Back::Answer { id, answered } => self.answer(id, answered),
            Back::Order { ask, order } => self.order(ask, order),
            Back::Cancel { unit } => {
                if let Some(unit) = self.units.get(&unit) {
                    unit.cancel.cancel();
                }
            }
            Back::HasNews => self.may_have_news(self.slot),
            Back::Aside { unit } => {
                if let Some(unit) = self.units.get(&unit) {
                    unit.aside.cancel();
                }
            }
        }
    }

    fn answer(&mut self, id: AskId, answered: Answered) {
        let Some(Waiting { unit, reply }) = self.waiting.remove(&id) else { return };
        let seated = self.gives(unit, reply, answered);
        if let Some(declared) = self.orders.get_mut(&id) {
            declared.units = seated;
        }
    }

    /// Answers a unit. Returns the units that are seated with that.
    fn gives(&mut self, unit: UnitId, reply: Reply, answered: Answered) -> Vec<UnitId> {
        let parent = self.units.get(&unit).map(|unit| unit.cancel.clone()).unwrap_or_default();
        let mut seated = Vec::new();
        reply.give(answered, |FarSeat { unit, branch, origin }| {
            let (cancel, aside) = (parent.child_token(), CancellationToken::new());
            seated.push((unit, Unit::new(cancel.clone(), aside.clone())));
            Seat { unit, branch, origin, cancel, aside }
        });
        let units = seated.iter().map(|(unit, _)| *unit).collect();
        self.units.extend(seated);
        units
    }

    fn order(&mut self, ask: AskId, order: Order) {
        let Some(declared) = self.orders.get(&ask) else { return };
        let by = declared.by;
        if let Order::Aside(units) = &order {
            for unit in units.iter().chain(&declared.units) {
                if let Some(unit) = self.units.get(unit) {
                    unit.aside.cancel();
                }
            }
        }
        let is_aside = matches!(order, Order::Aside(_));
        // Whoever waited has gone on, or has as much to do as it can take.
        let _ = declared.orders.try_send(order);
        if is_aside {
            self.may_have_news(by);
        }
    }
}
