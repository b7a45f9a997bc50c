//! One run: from a prompt to its one result.
//!
//! [`Run::go`] starts the main unit, and then is nothing but the dispatcher's
//! runtime: it waits for inputs, hands each to [`Dispatcher::handle`] and
//! carries out the effects, in order. Its own are only the clocks: what a second
//! signal means, and how long a run that was told to stop may take.

mod approvals;
mod audience;
mod disk;
pub mod dispatcher;
mod ledger;
mod resumed;
mod sink;
pub mod undo;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::agent::{Bounds, LimitSource, Opening, TurnLimit, Unit};
use crate::event::{
    CancelReason, Delta, Event, EventKind, FailureKind, InvocationEnd, Outcome, QuestionId,
    SessionHead, UnitId, UnixMillis, Verdict,
};
use crate::fanout::{Caller, Fanout};
use crate::flow::{self, Step};
use crate::guard::Policy;
use crate::line::{Budget, FromUnit, LINE_CAP, Line, Told};
use crate::model::Model;
use crate::prompt;
use crate::session::SessionLog;
use crate::tool::files::Seen;
use crate::tool::{ForkPoint, Registry, ToolContext};

use dispatcher::{Dispatcher, Effect, Input, Reach, Response};
use sink::Sink;

pub use approvals::KeepRule;
pub use resumed::{Resumed, mend};

/// How long units have to end by themselves after a cancel. Commands get
/// 200 ms before they are killed; this leaves room for the rest of the way.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

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
}

/// What the main unit does.
#[derive(Debug, Clone, PartialEq)]
pub enum Main {
    /// It asks its model, as every unit does, and begins with this.
    Conversation(Opening),
    /// It asks no model: it walks a flow, and what that comes to is its answer.
    Flow {
        /// The flow.
        flow: Step,
        /// What it is walked for, in the user's words.
        request: Arc<str>,
    },
}

/// Everything a run is made of.
pub struct Run {
    /// What the main unit does.
    pub main: Main,
    /// What all its units share.
    pub fanout: Arc<Fanout>,
    /// The session, as its log begins.
    pub head: SessionHead,
    /// What it has come to, if it began before. Then its log has its head.
    pub resumed: Option<Resumed>,
    /// What the user typed.
    pub typed: Arc<str>,
    /// The main conversation's system prompt, without what every unit gets.
    pub system: String,
    /// The main conversation's model.
    pub model: Arc<dyn Model>,
    /// The main conversation's tools.
    pub tools: Registry,
    /// What the units may do.
    pub policy: Arc<Policy>,
    /// Most turns of the main conversation.
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
    /// The turn is to end.
    EndTurn,
}

impl Run {
    /// Runs to the end.
    ///
    /// Never fails: whatever goes wrong is in the returned end, and the
    /// reporters have seen exactly one `InvocationEnded`, as the last event.
    pub async fn go(mut self) -> RunEnd {
        let (mut dispatcher, opened) = self.open();
        let (sender, mut inbox) = mpsc::channel(LINE_CAP);
        let reporters = std::mem::take(&mut self.reporters);
        let mut sink = Sink::new(self.log.take(), reporters, Arc::clone(&self.keep_rule));
        let mut signals = Signals::new(std::mem::replace(&mut self.signals, mpsc::channel(1).1));
        sink.carry_out(opened.effects, &mut signals).await;
        let mut answers = self.answers.take();
        let main = tokio::spawn(self.main_unit(sender, &dispatcher));
        loop {
            let input = tokio::select! {
                biased;
                input = signals.next() => input,
                input = sink.next() => input,
                input = next_answer(&mut answers) => input,
                message = inbox.recv() => Input::Unit(
                    message.expect("the main unit's line lives until the run is over"),
                ),
            };
            if matches!(input, Input::Cancel(_, _)) {
                signals.start_deadline();
            }
            let mut response = dispatcher.handle(input, now());
            drain(&mut dispatcher, &mut inbox, &mut response);
            if let Some(end) = sink.carry_out(response.effects, &mut signals).await {
                main.abort();
                return sink.close(end, &mut signals).await;
            }
        }
    }

    /// Returns the main unit's life: its loop and the report of its end.
    fn main_unit(
        self,
        sender: mpsc::Sender<FromUnit>,
        dispatcher: &Dispatcher,
    ) -> impl Future<Output = ()> + Send + use<> {
        let line = Line::new(UnitId::MAIN, sender);
        let cancel = dispatcher.main_cancel();
        let caller = Caller {
            fanout: Arc::clone(&self.fanout),
            line: line.clone(),
            depth: 0,
            is_fork: false,
            tools: self.tools.clone(),
            policy: Arc::clone(&self.policy),
            model: Arc::clone(&self.model),
            hold: None,
            place: self.fanout.place(),
            cancel,
        };
        let life: BoxFuture<'static, Outcome> = match self.main {
            Main::Flow { flow, request } => Box::pin(walk(caller, flow, request)),
            Main::Conversation(ref opening) => {
                let opening = opening.clone();
                Box::pin(self.conversation(caller, opening))
            }
        };
        async move {
            let running = std::panic::AssertUnwindSafe(life);
            let outcome = running.catch_unwind().await.unwrap_or_else(|_| {
                Outcome::failed(FailureKind::Panic, "the main conversation panicked")
            });
            line.ended(outcome, None).await;
        }
    }

    /// Runs the main conversation to its end.
    fn conversation(
        self,
        caller: Caller,
        opening: Opening,
    ) -> impl Future<Output = Outcome> + Send + use<> {
        let limits = self.fanout.limits;
        let history = self.history();
        let conversation = history.prefix().clone();
        let point = ForkPoint::new(conversation, &Seen::default(), Arc::clone(&self.model));
        let takes_images = self.model.facts().takes_images;
        let mut unit = Unit {
            persistence: self.fanout.persistence(UnitId::MAIN, &*self.model),
            agent: "main".into(),
            description: Arc::default(),
            model: self.model,
            tools: self.tools,
            policy: self.policy,
            bounds: Bounds {
                max_turns: self.max_turns.map(|most| TurnLimit { most, source: LimitSource::Flag }),
                background_wait: limits.background_wait,
                prime: limits.prime,
            },
            context: ToolContext {
                line: caller.line.clone(),
                cancel: caller.cancel.clone(),
                workspace: Arc::clone(&self.fanout.workspace),
                seen: Seen::default(),
                takes_images,
                skills: Arc::clone(&self.fanout.skills),
                delegate: Arc::new(caller),
                fork_point: Arc::new(point),
            },
            history,
            forked_from: None,
            compacting: self.fanout.compacting(&self.fanout.place()),
        };
        let environment = &self.fanout.surroundings.environment;
        let opening = match &opening {
            Opening::Prompt(prompt) => {
                Opening::Prompt(prompt::with_facts(environment, prompt).into())
            }
            Opening::Fork { task, request } => {
                let request = prompt::with_facts(environment, request).into();
                Opening::Fork { task: task.clone(), request }
            }
            Opening::Compact { hint: _ } => opening,
        };
        async move { unit.run(opening).await }
    }
}

/// Walks a flow on main's branch. What the user asked for stands in the log as
/// main's own, for the steps that may see it.
async fn walk(main: Caller, flow: Step, prompt: Arc<str>) -> Outcome {
    main.line.tell(Told::Prompted { text: prompt }).await;
    flow::walk(&main, &flow).await
}

/// Waits for what a person says. Dropping the future loses nothing.
async fn next_answer(answers: &mut Option<mpsc::Receiver<FromUser>>) -> Input {
    let Some(arriving) = answers else { return std::future::pending().await };
    match arriving.recv().await {
        Some(FromUser::Answered { id, verdict }) => Input::Answer(id, verdict),
        Some(FromUser::EndTurn) => Input::Cancel(Reach::Turn, CancelReason::Interrupt),
        None => {
            *answers = None;
            Input::NobodyAnswers
        }
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct RunEnd {
    /// The end of its invocation.
    pub end: Arc<InvocationEnd>,
    /// Why nobody could be shown the rest, if so.
    pub output_error: Option<io::Error>,
    /// The last signal there was.
    pub signal: Option<Signal>,
    /// What went wrong too late for anybody to be shown.
    pub trouble: Vec<Arc<str>>,
}

/// Handles what else has arrived by now, so that one trip to the disk serves
/// all of it.
fn drain(
    dispatcher: &mut Dispatcher,
    inbox: &mut mpsc::Receiver<FromUnit>,
    response: &mut Response,
) {
    for _ in 0..BURST {
        let is_over = matches!(response.effects.last(), Some(Effect::Finish));
        let Some(message) = (!is_over).then(|| inbox.try_recv().ok()).flatten() else {
            return;
        };
        response.effects.extend(dispatcher.handle(Input::Unit(message), now()).effects);
    }
}

/// Signals, and the time that runs out after the first of them.
struct Signals {
    arriving: mpsc::Receiver<Signal>,
    /// Arrived while the run could not look.
    kept: Option<Signal>,
    last: Option<Signal>,
    interrupted: bool,
    overdue: Option<Instant>,
}

impl Signals {
    fn new(arriving: mpsc::Receiver<Signal>) -> Self {
        Self { arriving, kept: None, last: None, interrupted: false, overdue: None }
    }

    /// Waits for a signal without handling it.
    async fn arrived(&mut self) {
        match self.arriving.recv().await {
            Some(signal) => (self.kept, self.last) = (Some(signal), Some(signal)),
            None => std::future::pending().await,
        }
    }

    /// Tells whether anybody has asked the run to end.
    fn is_told(&self) -> bool {
        self.last.is_some()
    }

    /// From now on units have a limited time to end by themselves.
    fn start_deadline(&mut self) {
        self.overdue = self.overdue.or(Some(Instant::now() + CANCEL_GRACE));
    }

    /// Units were told to stop only now: they have the whole time.
    fn restart_deadline(&mut self) {
        self.overdue = Some(Instant::now() + CANCEL_GRACE);
    }

    async fn next(&mut self) -> Input {
        let overdue = self.overdue;
        let timer = async {
            match overdue {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        if self.kept.is_none() {
            tokio::select! {
                biased;
                () = timer => {
                    self.overdue = None;
                    return Input::Overdue;
                }
                () = self.arrived() => {}
            }
        }
        let signal = self.kept.take().expect("a signal has just arrived");
        match signal {
            Signal::Interrupt if !self.interrupted => {
                self.interrupted = true;
                Input::Cancel(Reach::Turn, CancelReason::Interrupt)
            }
            Signal::Interrupt => Input::Cancel(Reach::All, CancelReason::Interrupt),
            Signal::Hangup => Input::Cancel(Reach::All, CancelReason::Hangup),
            Signal::Terminate => Input::Cancel(Reach::All, CancelReason::Terminate),
        }
    }
}

/// Returns the time of day, as events have it.
#[must_use]
pub fn now() -> UnixMillis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    UnixMillis(since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
}

/// Returns the end of the invocation, if the event is it.
fn end_of(event: &Event) -> Option<Arc<InvocationEnd>> {
    match &event.kind {
        EventKind::InvocationEnded(end) => Some(Arc::clone(end)),
        EventKind::SessionOpened(_)
        | EventKind::InvocationStarted { prompt: _ }
        | EventKind::Prompted { text: _ }
        | EventKind::Notified { .. }
        | EventKind::Compacted(_)
        | EventKind::PrefixShared(_)
        | EventKind::Throttled(_)
        | EventKind::Admitted { waited_ms: _ }
        | EventKind::RequestFailed(_)
        | EventKind::UnitQueued(_)
        | EventKind::UnitStarted
        | EventKind::TurnStarted { turn: _ }
        | EventKind::Replied(_)
        | EventKind::ToolStarted { .. }
        | EventKind::ToolFinished { call: _, tool: _, output: _, took_ms: _ }
        | EventKind::FileChanged(_)
        | EventKind::Worktree(_)
        | EventKind::Denied { call: _, tool: _, arguments: _, reason: _ }
        | EventKind::Asked { .. }
        | EventKind::Answered { .. }
        | EventKind::UnitEnded(_)
        | EventKind::UserWrote { .. }
        | EventKind::UserTookBack
        | EventKind::SetAside { .. }
        | EventKind::Rewound { .. }
        | EventKind::Left
        | EventKind::Joined { children: _ }
        | EventKind::Notice { level: _, text: _ } => None,
    }
}
