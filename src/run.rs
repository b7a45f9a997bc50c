//! One run: from a prompt to its one result, or from one prompt of a sitting to
//! the next.
//!
//! [`Run::go`] starts the main unit, and then is nothing but the dispatcher's
//! runtime: it waits for inputs, hands each to [`Dispatcher::handle`] and
//! carries out the effects, in order. Its own are only the clocks: what a second
//! signal means, and how long whatever was told to stop may take.

mod approvals;
mod audience;
mod clock;
mod disk;
pub mod dispatcher;
mod ledger;
mod mentions;
mod offers;
mod prompts;
mod resumed;
mod signals;
mod sink;
mod stage;
mod submitted;
mod traced;
pub mod undo;

use std::io;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::agent::Opening;
use crate::event::{
    CancelReason, Delta, Event, EventKind, InvocationEnd, QuestionId, SessionHead, UnitId, Verdict,
};
use crate::fanout::Fanout;
use crate::flow::Walk;
use crate::guard::Mode;
use crate::line::{Budget, FromUnit, LINE_CAP};
use crate::message::CallId;
use crate::session::{Past, SessionLog};
use crate::tool::files::Seen;

use clock::RunClock;
use dispatcher::{Dispatcher, Effect, Input, Reach, Response, Seed};
use prompts::Sitting;
use signals::Signals;
use sink::{Sink, Stands};
use stage::Stage;

pub use approvals::KeepRule;
pub use clock::now;
pub use dispatcher::WROTE_CAP;
pub use prompts::{Asked, Invoked, NoRewind, NoUndo, Prompts, TakeBack};
pub use resumed::{Resumed, mend};
pub use submitted::Boundaries;

/// Most messages handled before the log is put on disk and answers go out. A
/// flood must not keep a waiting tool waiting.
const BURST: usize = 64;

/// Shows a run to somebody. Called from one thread, in the order of events.
pub trait Reporter: Send {
    /// Takes note of an event.
    ///
    /// # Errors
    ///
    /// An error means that nobody can be shown anything any more.
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// Takes note of a piece of an answer that is still being written.
    ///
    /// # Errors
    ///
    /// As for [`Reporter::event`].
    fn delta(&mut self, delta: &Delta) -> io::Result<()>;

    /// Called when nothing else waits: the time to flush.
    ///
    /// # Errors
    ///
    /// As for [`Reporter::event`].
    fn pause(&mut self) -> io::Result<()>;
}

/// What the operating system or the user asks of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP.
    Hangup,
    /// Standard output has no reader any more.
    OutputGone,
}

/// What the main unit does.
#[derive(Debug, Clone, PartialEq)]
pub enum Main {
    /// It asks its model, as every unit does, and begins with this.
    Conversation(Opening),
    /// It asks no model: it walks a flow, and what that comes to is its answer.
    Flow {
        /// The flow, and what it is walked with.
        walk: Arc<Walk>,
        /// What it is walked for, in the user's words.
        request: Arc<str>,
    },
}

impl From<Opening> for Main {
    fn from(opening: Opening) -> Self {
        Self::Conversation(opening)
    }
}

/// Everything a run is made of.
pub struct Run {
    /// What its main unit is asked to do.
    pub prompts: Prompts,
    /// What all its units share.
    pub fanout: Arc<Fanout>,
    /// The session, as its log begins.
    pub head: SessionHead,
    /// What it has come to, if it began before. Then its log has its head.
    pub resumed: Option<Resumed>,
    /// Most turns of the main conversation for one prompt.
    pub max_turns: Option<u32>,
    /// Most that all its units may use together.
    pub budget: Budget,
    /// The log; `None` if the session is not to be kept.
    pub log: Option<SessionLog>,
    /// Who is shown the run.
    pub reporters: Vec<Box<dyn Reporter>>,
    /// Where signals arrive.
    pub signals: mpsc::Receiver<Signal>,
    /// Where a person's answers to questions arrive; `None` if nobody can be
    /// asked.
    pub answers: Option<mpsc::Receiver<FromUser>>,
    /// Writes what is allowed from now on to the user's settings.
    pub keep_rule: KeepRule,
    /// What of the session's beginning and end hooks hear in it.
    pub boundaries: Boundaries,
}

/// What a person, or a program that speaks for one, says while a run goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromUser {
    /// This is the answer to a question.
    Answered {
        /// The question, so that an answer that comes late answers no other.
        id: QuestionId,
        /// The answer.
        verdict: Verdict,
    },
    /// This is the answer to a question, and the turn is to end with it: main
    /// asks its model no more in between.
    AnsweredLast {
        /// The question.
        id: QuestionId,
        /// The answer.
        verdict: Verdict,
    },
    /// The turn is to end, with all that main waits for.
    EndTurn,
    /// What was asked of the run as this one, counted from 1, is to end: whoever
    /// asks and whoever stops need not know how far the run has come. It ends as
    /// soon as it has begun, and if it is over there is nothing to end.
    EndAsked(u64),
    /// Everything is to end.
    EndAll,
    /// This unit is to stop. Main is not stopped like that, and a unit that has
    /// ended no more.
    Stop(UnitId),
    /// The task of this unit is to be run again, in its place of the batch.
    Again(UnitId),
    /// The units that main waits for are to go on in the background.
    SetAside,
    /// Those of one call are, or all if it names none; whoever says so is told
    /// whether any is.
    SetAsideOf {
        /// The call.
        call: Option<CallId>,
        /// Where that is told.
        moved: Moved,
    },
    /// This is for main, to be read at its next turn's boundary.
    Wrote(Arc<str>),
    /// What main has not read is not meant any more.
    TookBack,
    /// From now on this much runs without a rule.
    Mode(Mode),
}

/// Where it is told whether anything goes on in the background now. Dropped
/// without a word it means that nothing does.
#[derive(Debug, Clone)]
pub struct Moved(pub mpsc::Sender<bool>);

impl PartialEq for Moved {
    fn eq(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }
}

impl Eq for Moved {}

impl Run {
    /// Runs to the end: that of its one prompt, or until nobody asks for
    /// anything any more.
    ///
    /// Never fails: whatever goes wrong is in the returned end, and the
    /// reporters have seen exactly one `InvocationEnded` for each prompt.
    pub async fn go(self) -> RunEnd {
        let (sender, mut inbox) = mpsc::channel(LINE_CAP);
        let clock = RunClock::new();
        let executor = Arc::clone(&self.fanout.executor);
        let Opened { mut dispatcher, mut sitting, mut answers, mut signals, mut sink, effects } =
            self.open(sender, &clock);
        sink.carry_out(effects, &mut signals).await;
        sitting.start(&dispatcher);
        loop {
            let next = tokio::select! {
                biased;
                input = signals.next() => Next::Input(input),
                input = sink.next() => Next::Input(input),
                input = answers.next(sitting.begun()) => Next::Input(input),
                asked = sitting.asked(), if dispatcher.may_begin() => Next::Asked(asked),
                message = inbox.recv() => Next::Input(Input::Unit(
                    message.expect("the sitting holds a sender"),
                )),
            };
            let mut response = match next {
                Next::Input(input) => {
                    if starts_deadline(&input, &dispatcher) {
                        signals.start_deadline();
                    }
                    dispatcher.handle(input, clock.now())
                }
                Next::Asked(asked) => {
                    signals.calm();
                    clock.set();
                    let heard = hear_all(&mut dispatcher, &mut inbox, &clock);
                    sitting.follow(&heard);
                    sink.carry_out(heard.effects, &mut signals).await;
                    let done = sitting.carry_out(asked, &mut dispatcher, sink.log());
                    for event in done.logged {
                        sink.show(event, &mut signals).await;
                    }
                    if let Some(why) = done.lost {
                        sink.lose(why);
                    }
                    done.response
                }
            };
            drain(&mut dispatcher, &mut inbox, &clock, &mut response);
            sitting.follow(&response);
            match sink.carry_out(response.effects, &mut signals).await {
                Stands::GoesOn => sitting.start(&dispatcher),
                Stands::Rests => {
                    signals.calm();
                    sitting.rest().await;
                }
                Stands::Over => {
                    sitting.rest().await;
                    executor.close().await;
                    return sink.close(&mut signals).await;
                }
            }
        }
    }
}

/// A run that has been opened.
struct Opened {
    dispatcher: Dispatcher,
    sitting: Sitting,
    answers: Answers,
    signals: Signals,
    sink: Sink,
    /// What that came to.
    effects: Vec<Effect>,
}

impl Run {
    /// Takes up the session, and begins what there is to begin.
    fn open(self, sender: mpsc::Sender<FromUnit>, clock: &RunClock) -> Opened {
        let Self { prompts, fanout, head, resumed, max_turns, budget, log, .. } = self;
        let Self { reporters, signals, answers, keep_rule, boundaries, .. } = self;
        let written = log.as_ref().map(|log| log.directory().to_owned());
        let (mut dispatcher, past, head, note, read) = match resumed {
            Some(Resumed { from, past, note }) => {
                (Dispatcher::after(Seed::of(&past)), past, None, note, Some(from))
            }
            None => (Dispatcher::new(), Past::default(), Some(head), None, None),
        };
        dispatcher.limit(budget);
        if answers.is_some() {
            dispatcher.ask_people();
        }
        let lives_on = matches!(prompts, Prompts::Many(_));
        let seen = Seen::default();
        let stage = Stage { fanout, max_turns, sender, past, seen, lives_on, boundaries };
        let mut sitting = Sitting::new(prompts, stage, written.or(read));
        let mut response = sitting.open(&mut dispatcher, head);
        if let Some(note) = note {
            response.effects.extend(dispatcher.note(note, clock.now()).effects);
        }
        sitting.follow(&response);
        Opened {
            dispatcher,
            sitting,
            answers: Answers { arriving: answers, ends: None },
            signals: Signals::new(signals),
            sink: Sink::new(log, reporters, keep_rule),
            effects: response.effects,
        }
    }
}

/// What the run does next.
enum Next {
    Input(Input),
    /// `None` once nobody asks for anything any more.
    Asked(Option<Asked>),
}

/// Tells whether the time of what is at work is limited from now on.
fn starts_deadline(input: &Input, dispatcher: &Dispatcher) -> bool {
    match input {
        // Its siblings go on, and so does the turn.
        Input::Cancel(Reach::Unit(_), _) => false,
        Input::Cancel(Reach::Turn, _) | Input::AnswerLast(..) => !dispatcher.rests(),
        Input::Cancel(Reach::All, _) => !dispatcher.is_quiet(),
        Input::Unit(_)
        | Input::Answer(..)
        | Input::NobodyAnswers
        | Input::Overdue
        | Input::Trouble(_)
        | Input::Begin(_)
        | Input::Chosen(_)
        | Input::Mode(_)
        | Input::Wrote(_)
        | Input::TookBack
        | Input::SetAside(_)
        | Input::Again(_)
        | Input::Leave => false,
    }
}

/// What a person says.
struct Answers {
    /// `None` once nobody says anything.
    arriving: Option<mpsc::Receiver<FromUser>>,
    /// What was asked as this one is to end as soon as it has begun.
    ends: Option<u64>,
}

impl Answers {
    /// Waits for what is said. `begun` is how much of what was asked has begun.
    /// Dropping the future loses nothing.
    async fn next(&mut self, begun: u64) -> Input {
        loop {
            if self.ends.take_if(|asked| *asked <= begun).is_some() {
                return Input::Cancel(Reach::Turn, CancelReason::Interrupt);
            }
            let Some(arriving) = &mut self.arriving else { return std::future::pending().await };
            match arriving.recv().await {
                Some(FromUser::EndAsked(asked)) if asked < begun => {}
                Some(FromUser::EndAsked(asked)) => self.ends = Some(asked),
                Some(said) => return said.input(),
                None => {
                    self.arriving = None;
                    return Input::NobodyAnswers;
                }
            }
        }
    }
}

impl FromUser {
    fn input(self) -> Input {
        match self {
            Self::Answered { id, verdict } => Input::Answer(id, verdict),
            Self::AnsweredLast { id, verdict } => Input::AnswerLast(id, verdict),
            Self::EndTurn | Self::EndAsked(_) => {
                Input::Cancel(Reach::Turn, CancelReason::Interrupt)
            }
            Self::Stop(unit) => Input::Cancel(Reach::Unit(unit), CancelReason::Interrupt),
            Self::Again(unit) => Input::Again(unit),
            Self::SetAside => Input::SetAside(None),
            Self::SetAsideOf { call, moved } => Input::SetAside(Some((call, moved))),
            Self::Wrote(text) => Input::Wrote(text),
            Self::TookBack => Input::TookBack,
            Self::Mode(mode) => Input::Mode(mode),
            Self::EndAll => Input::Cancel(Reach::All, CancelReason::Interrupt),
        }
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct RunEnd {
    /// The end of its last invocation; done with nothing if there was none.
    pub end: Arc<InvocationEnd>,
    /// Why nobody could be shown the rest, if so.
    pub output_error: Option<io::Error>,
    /// The last signal there was.
    pub signal: Option<Signal>,
    /// What went wrong too late for anybody to be shown.
    pub trouble: Vec<Arc<str>>,
}

/// Handles all that units have said, so that nothing of it is taken for the
/// words of a main unit that is yet to begin.
fn hear_all(
    dispatcher: &mut Dispatcher,
    inbox: &mut mpsc::Receiver<FromUnit>,
    clock: &RunClock,
) -> Response {
    let mut effects = Vec::new();
    while let Ok(message) = inbox.try_recv() {
        effects.extend(dispatcher.handle(Input::Unit(message), clock.now()).effects);
    }
    Response { effects }
}

/// Handles what else has arrived by now, so that one trip to the disk serves
/// all of it.
fn drain(
    dispatcher: &mut Dispatcher,
    inbox: &mut mpsc::Receiver<FromUnit>,
    clock: &RunClock,
    response: &mut Response,
) {
    for _ in 0..BURST {
        let is_over = matches!(response.effects.last(), Some(Effect::Finish | Effect::Over));
        let Some(message) = (!is_over).then(|| inbox.try_recv().ok()).flatten() else {
            return;
        };
        response.effects.extend(dispatcher.handle(Input::Unit(message), clock.now()).effects);
    }
}

/// Returns the end of the invocation, if the event is it.
fn end_of(event: &Event) -> Option<Arc<InvocationEnd>> {
    match &event.kind {
        EventKind::InvocationEnded(end) => Some(Arc::clone(end)),
        EventKind::SessionOpened(_)
        | EventKind::InvocationStarted { .. }
        | EventKind::Prompted(_)
        | EventKind::Notified { .. }
        | EventKind::Compacted(_)
        | EventKind::PrefixShared(_)
        | EventKind::Throttled(_)
        | EventKind::Admitted { waited_ms: _ }
        | EventKind::RequestFailed(_)
        | EventKind::UnitQueued(_)
        | EventKind::UnitStarted
        | EventKind::Lost { .. }
        | EventKind::TurnStarted { turn: _ }
        | EventKind::Replied(_)
        | EventKind::ToolStarted { .. }
        | EventKind::ToolFinished { call: _, tool: _, output: _, took_ms: _ }
        | EventKind::FileChanged(_)
        | EventKind::Worktree(_)
        | EventKind::HookRan(_)
        | EventKind::Denied { call: _, tool: _, arguments: _, reason: _ }
        | EventKind::Asked { .. }
        | EventKind::Answered { .. }
        | EventKind::UnitEnded(_)
        | EventKind::UserWrote { .. }
        | EventKind::UserTookBack
        | EventKind::SetAside { .. }
        | EventKind::Rewound { .. }
        | EventKind::Walked(_)
        | EventKind::Chosen(_)
        | EventKind::Offered(_)
        | EventKind::Left
        | EventKind::Joined { children: _ }
        | EventKind::Notice { level: _, text: _ } => None,
    }
}
