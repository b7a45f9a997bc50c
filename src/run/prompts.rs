//! What the main unit of a run is asked to do: one thing, or one after another
//! while the run lives on.
//!
//! In a run that lives on, each prompt's main begins in the conversation that
//! the log tells, as it would in the next process: so nothing that a cancel
//! left half done stays in memory. What main has seen of files is remembered
//! from one to the next.

use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::dispatcher::{Answer, Dispatcher, Effect, Input, Response, Typed};
use super::sink::why_lost;
use super::stage::Stage;
use super::submitted::Voice;
use super::undo::{Book, Said, Undo, UndoError};
use super::{Main, now};
use crate::event::{Chosen, Event, Seq, SessionHead};
use crate::guard::Policy;
use crate::message::counted;
use crate::model::Model;
use crate::prompt::Context;
use crate::session::undo::Plan;
use crate::session::{Entries, SessionLog, read};
use crate::tool::Registry;
use crate::tool::files::Seen;

/// What main is asked to do, and what it does that with.
pub struct Invoked {
    /// What the user typed; empty if it is news that main is told.
    pub typed: Arc<str>,
    /// What a client calls it; `None` if it has no name for it.
    pub message: Option<Arc<str>>,
    /// What the main unit does.
    pub main: Main,
    /// The main conversation's model.
    pub model: Arc<dyn Model>,
    /// The main conversation's tools.
    pub tools: Registry,
    /// What the units may do.
    pub policy: Arc<Policy>,
    /// The main conversation's system prompt, without what every unit gets.
    pub system: String,
}

impl Invoked {
    fn asked(&self) -> Typed {
        Typed { prompt: Arc::clone(&self.typed), message: self.message.clone() }
    }

    /// Returns what of it a person may have chosen.
    fn chosen(&self) -> Chosen {
        Chosen { model: Arc::clone(self.model.name()), mode: self.policy.mode().as_str().into() }
    }
}

/// What is asked of a run.
pub enum Prompts {
    /// One thing. The run is over when that is.
    One(Box<Invoked>),
    /// Whatever is asked for while main rests. Once nobody can ask any more the
    /// run comes to its end: main finishes what it is at, and what works beside
    /// it then is told to stop.
    Many(mpsc::Receiver<Asked>),
}

/// What is asked of a run whose main rests.
pub enum Asked {
    /// The next invocation.
    Invoke(Box<Invoked>),
    /// The last invocation: it waits for what works beside it, and the run is
    /// over when it is.
    InvokeLast(Box<Invoked>),
    /// Main's conversation is to be again what it was after this event.
    Rewind(Seq, oneshot::Sender<Result<(), NoRewind>>),
    /// Files are to go back.
    Undo(Box<TakeBack>, oneshot::Sender<Result<(), NoUndo>>),
}

/// What is taken back of what a session did to files.
#[derive(Debug)]
pub struct TakeBack {
    /// The files and what they have held.
    pub undo: Undo,
    /// What is done about them.
    pub plan: Plan,
    /// What stands in the log of it.
    pub said: Said,
    /// Whether whoever watches sees it as a prompt of its own. A program that has
    /// asked for it is answered instead.
    pub is_shown: bool,
}

/// Why a conversation does not go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoRewind {
    /// Units still work, and what they come to would be told to nobody.
    #[error("{} still at work: wait, or stop what is not wanted", counted(*units, "agent"))]
    Busy {
        /// How many.
        units: u32,
    },
    /// What it was then is not held, or was in the middle of something.
    #[error("the conversation cannot go back to #{}", to.0)]
    NotThere {
        /// The event.
        to: Seq,
    },
}

/// Why files do not go back.
#[derive(Debug, Error)]
pub enum NoUndo {
    /// Units still work, and may change the same files.
    #[error("{} still at work: wait, or stop what is not wanted", counted(*units, "agent"))]
    Busy {
        /// How many.
        units: u32,
    },
    /// There is no log that could tell of it.
    #[error("the session is not kept")]
    NotKept,
    /// The undo itself went wrong.
    #[error(transparent)]
    Failed(#[from] UndoError),
}

/// What came of something that was asked.
pub(super) struct Done {
    /// What happened and is in the log already, for people to be shown.
    pub(super) logged: Vec<Event>,
    /// Why the log is not written any more.
    pub(super) lost: Option<Arc<str>>,
    /// What the dispatcher says.
    pub(super) response: Response,
}

impl From<Response> for Done {
    fn from(response: Response) -> Self {
        Self { logged: Vec::new(), lost: None, response }
    }
}

/// The main unit of a run: what it is asked, and where its conversation stands.
pub(super) struct Sitting {
    asking: Option<mpsc::Receiver<Asked>>,
    /// What main does as soon as its invocation is recorded.
    next: Option<Box<Invoked>>,
    main: Option<JoinHandle<()>>,
    /// Tells hooks that the session ends.
    farewell: Option<JoinHandle<()>>,
    /// Who would tell them; `None` as long as nothing was asked.
    last: Option<Voice>,
    stage: Stage,
    /// How many invocations of this run have begun.
    begun: u64,
    /// Where the log is, if there is one.
    directory: Option<PathBuf>,
}

impl Sitting {
    pub(super) fn new(prompts: Prompts, stage: Stage, directory: Option<PathBuf>) -> Self {
        let (asking, next) = match prompts {
            Prompts::One(invoked) => (None, Some(invoked)),
            Prompts::Many(asking) => (Some(asking), None),
        };
        let begun = u64::from(next.is_some());
        Self { asking, next, main: None, farewell: None, last: None, stage, begun, directory }
    }

    /// Begins the session if it is new, and the invocation if there is a prompt
    /// for it already.
    pub(super) fn open(
        &mut self,
        dispatcher: &mut Dispatcher,
        head: Option<SessionHead>,
    ) -> Response {
        let Some(invoked) = &self.next else { return dispatcher.live_on(head, now()) };
        self.tell_of_others(invoked, dispatcher);
        let typed = invoked.asked();
        let Some(head) = head else {
            let mut response = dispatcher.handle(Input::Chosen(invoked.chosen()), now());
            response.effects.extend(dispatcher.go_on(typed, now()).effects);
            return response;
        };
        dispatcher.open(head, typed, now())
    }

    /// Returns how many invocations of this run have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Waits for what is asked next; `None` once nobody can ask any more.
    /// Dropping the future loses nothing.
    pub(super) async fn asked(&mut self) -> Option<Asked> {
        let Some(asking) = &mut self.asking else { return std::future::pending().await };
        let asked = asking.recv().await;
        if asked.is_none() {
            self.say_farewell().await;
        }
        asked
    }

    /// Has hooks hear that the session ends, once, if it has begun. Dropping
    /// the future loses nothing.
    async fn say_farewell(&mut self) {
        if let Some(voice) = self.last.take().filter(|_| self.stage.boundaries.ends) {
            let saying = async move { voice.said("prompt_input_exit", false).await };
            self.farewell = Some(tokio::spawn(saying));
        }
        if let Some(farewell) = &mut self.farewell {
            // Whatever became of it, there is nothing more to be said.
            let _ = farewell.await;
            self.farewell = None;
        }
    }

    /// Does what is asked while main rests.
    pub(super) fn carry_out(
        &mut self,
        asked: Option<Asked>,
        dispatcher: &mut Dispatcher,
        log: Option<&mut SessionLog>,
    ) -> Done {
        match asked {
            Some(Asked::Invoke(invoked)) => self.invoke(invoked, dispatcher).into(),
            Some(Asked::InvokeLast(invoked)) => {
                let response = self.invoke(invoked, dispatcher);
                dispatcher.rest_no_more();
                self.stage.lives_on = false;
                response.into()
            }
            Some(Asked::Rewind(to, reply)) => {
                let response = match self.may_rewind(to, dispatcher) {
                    Ok(()) => {
                        // Whoever has not read a file must not write it.
                        self.stage.seen = Seen::default();
                        dispatcher.rewind(to, reply, now())
                    }
                    Err(refused) => answered(Answer::Rewound(reply, Err(refused))),
                };
                response.into()
            }
            Some(Asked::Undo(take_back, reply)) => {
                let mut logged = Vec::new();
                let result = self.undo(&take_back, dispatcher, log, &mut logged);
                let lost = match &result {
                    Err(NoUndo::Failed(UndoError::Log(error))) if error.ends_the_log() => {
                        Some(why_lost(error))
                    }
                    Ok(()) | Err(NoUndo::Busy { .. } | NoUndo::NotKept | NoUndo::Failed(_)) => None,
                };
                Done { logged, lost, response: answered(Answer::Undone(reply, result)) }
            }
            None => dispatcher.handle(Input::Leave, now()).into(),
        }
    }

    fn invoke(&mut self, invoked: Box<Invoked>, dispatcher: &mut Dispatcher) -> Response {
        self.begun += 1;
        self.tell_of_others(&invoked, dispatcher);
        let begin = Input::Begin(invoked.asked());
        let mut response = dispatcher.handle(Input::Chosen(invoked.chosen()), now());
        self.next = Some(invoked);
        response.effects.extend(dispatcher.handle(begin, now()).effects);
        response
    }

    /// Tells whether main's conversation can go back to what it was after an
    /// event: nothing works, no summary has taken its place since, and every
    /// call had its output then.
    fn may_rewind(&self, to: Seq, dispatcher: &Dispatcher) -> Result<(), NoRewind> {
        if !dispatcher.is_quiet() {
            return Err(NoRewind::Busy { units: dispatcher.at_work() });
        }
        let past = &self.stage.past;
        if to < past.rewinds_to() || to > past.last() || !past.was_settled_after(to) {
            return Err(NoRewind::NotThere { to });
        }
        Ok(())
    }

    fn undo(
        &mut self,
        take_back: &TakeBack,
        dispatcher: &mut Dispatcher,
        log: Option<&mut SessionLog>,
        logged: &mut Vec<Event>,
    ) -> Result<(), NoUndo> {
        if !dispatcher.is_quiet() {
            return Err(NoUndo::Busy { units: dispatcher.at_work() });
        }
        let log = log.ok_or(NoUndo::NotKept)?;
        let TakeBack { undo, plan, said, is_shown } = take_back;
        let mut book = Book::new(dispatcher, log, &mut self.stage.past);
        let done = undo.carry_out_at_rest(plan, said, &mut book);
        if *is_shown {
            *logged = book.events();
        }
        Ok(done?)
    }

    /// Lets a flow see what others have said.
    fn tell_of_others(&self, invoked: &Invoked, dispatcher: &mut Dispatcher) {
        let sees = matches!(&invoked.main, Main::Flow { walk, .. } if walk.flow.sees_others());
        if sees && !dispatcher.keeps_context() {
            // A log that cannot be read any more tells nothing of others.
            let entries = self.directory.as_ref().and_then(|directory| read(directory).ok());
            let mut context = Context::default();
            let events = entries.into_iter().flat_map(Entries::events);
            events.for_each(|event| context.take(&event));
            dispatcher.keep_context(context);
        }
    }

    /// Takes note of what happened, as the next main begins with it.
    pub(super) fn follow(&mut self, response: &Response) {
        if !self.stage.lives_on {
            return;
        }
        for effect in &response.effects {
            if let Effect::Record(event) = effect {
                self.stage.past.take(event);
            }
        }
    }

    /// Starts the main unit of an invocation that has been recorded.
    pub(super) fn start(&mut self, dispatcher: &Dispatcher) {
        if let Some(invoked) = self.next.take() {
            self.last = Some(self.stage.voice(&invoked));
            self.main = Some(tokio::spawn(self.stage.enter(*invoked, dispatcher)));
        }
    }

    /// Lets go of a main unit whose end is in the log. What it has said is all
    /// in the inbox then, and is heard before the next one says anything.
    pub(super) async fn rest(&mut self) {
        if let Some(farewell) = self.farewell.take() {
            farewell.abort();
        }
        if let Some(main) = self.main.take() {
            main.abort();
            // It was cut off, or it has said all it had to say.
            let _ = main.await;
        }
    }
}

/// What comes of a request that asks nothing of the dispatcher.
fn answered(answer: Answer) -> Response {
    Response { effects: vec![Effect::Answer(answer)] }
}
