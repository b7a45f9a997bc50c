//! One session of an editor: its prompts, its run, and what both tell each other.
//!
//! A task of its own that waits for nothing in particular: an editor that does
//! not read keeps its own updates waiting, and neither its cancel nor another
//! session. The run begins with the first prompt and lives on between prompts,
//! so what works in the background outlives an answer.

mod answers;
mod choices;
mod orders;
mod sending;
mod turns;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    AvailableCommandsUpdate, CloseSessionResponse, LoadSessionResponse, PromptResponse,
    SessionUpdate, StopReason,
};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::asking::{At, Said};
use super::live::Ways;
use super::shown::TOLD_CAP;
use super::updates::Updates;
use super::{offer, past};
use crate::cli::exit::{Exit, Refusal};
use crate::cli::kit::Kit;
use crate::cli::start::Start;
use crate::cli::{print, say};
use crate::event::QuestionId;
use crate::mcp::Servers;
use crate::report::acp::{Asked, Ended, Shows, SoFar, Told, View};
use crate::run::{self, FromUser, Main, RunEnd, Signal};
pub(super) use orders::Order;

/// A session that was opened.
pub(super) struct Opened {
    pub(super) start: Box<Start>,
    pub(super) at: At,
    pub(super) shows: Shows,
    /// Who waits until the session's past was told.
    pub(super) load: Option<Responder<LoadSessionResponse>>,
    /// What it has come to, if its past is not told.
    pub(super) so_far: SoFar,
    /// What was said while it was opened.
    pub(super) notes: Vec<String>,
}

/// One session of an editor.
pub(super) struct Session {
    at: At,
    updates: Arc<Updates>,
    shows: Shows,
    servers: Arc<Servers>,
    stage: Stage,
    so_far: SoFar,
    /// What was said while it was opened, until it is passed on.
    notes: Vec<String>,
    /// Where it is told what to show.
    told: Option<mpsc::Receiver<Told>>,
    /// What is to be sent next.
    unsent: Option<Box<SessionUpdate>>,
    prompt: Option<Prompt>,
    work: Work,
    at_work: AtWork,
    /// How often the meaning of a prompt was looked for.
    meanings: u64,
    /// Units that work beside main, or wait to.
    out: usize,
    /// Units that have ended beside main without it being told.
    untold: usize,
    /// Whether news wait until something else happens: the user has ended a turn.
    is_calm: bool,
    questions: Questions,
    /// The signal that ends the process.
    signal: Option<Signal>,
    /// Who is told that it was left, once it is to be.
    closing: Option<Vec<Responder<CloseSessionResponse>>>,
}

type Work = FuturesUnordered<BoxFuture<'static, Done>>;

/// How far a session is.
enum Stage {
    /// What was said before is being told.
    Loading(Loading),
    /// Nothing has been asked.
    Ready(Box<Start>),
    /// The run goes on.
    Sat(Sat),
    /// It could not begin, or has ended.
    Over,
}

/// A session whose past is being told.
struct Loading {
    start: Box<Start>,
    responder: Responder<LoadSessionResponse>,
    /// What it has come to, once all of it was told.
    so_far: oneshot::Receiver<SoFar>,
}

/// A run, and the ways to speak to it.
struct Sat {
    kit: Arc<Kit>,
    /// `None` once it is to end.
    asking: Option<mpsc::Sender<run::Asked>>,
    said: mpsc::Sender<FromUser>,
    signals: mpsc::Sender<Signal>,
    running: JoinHandle<RunEnd>,
    scratch: Option<TempDir>,
    /// How often it was asked something.
    asked: u64,
}

/// A prompt without an answer.
struct Prompt {
    responder: Responder<PromptResponse>,
    /// What it says, until it is begun.
    text: Option<String>,
    is_cancelled: bool,
}

/// What main is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtWork {
    Nothing,
    /// It is found out what a prompt means.
    FindsOut(u64),
    /// It answers the prompt, or hears news.
    Answers,
}

/// Something that was worked on beside everything else.
enum Done {
    Meant { number: u64, text: String, main: Result<Main, Refusal> },
    Used { number: u64, used: Result<String, Refusal> },
    Answered { asked: Arc<Asked>, said: Said },
}

/// Questions without an answer.
#[derive(Default)]
struct Questions {
    waiting: VecDeque<Arc<Asked>>,
    /// Those that the editor shows.
    open: BTreeMap<QuestionId, CancellationToken>,
    /// Rules whose calls are not asked about again: the answer is no.
    never: Vec<Vec<Arc<str>>>,
}

impl Session {
    pub(super) fn new(opened: Opened, updates: Arc<Updates>) -> Self {
        let Opened { start, at, shows, load, so_far, notes } = opened;
        let servers = Arc::clone(&start.kit.servers);
        let (stage, told) = match load {
            None => (Stage::Ready(start), None),
            Some(responder) => {
                let (telling, told) = mpsc::channel(TOLD_CAP);
                let so_far = replay(&start, shows, telling);
                (Stage::Loading(Loading { start, responder, so_far }), Some(told))
            }
        };
        Self {
            at,
            updates,
            shows,
            servers,
            stage,
            so_far,
            notes,
            told,
            unsent: None,
            prompt: None,
            work: FuturesUnordered::new(),
            at_work: AtWork::Nothing,
            meanings: 0,
            out: 0,
            untold: 0,
            is_calm: false,
            questions: Questions::default(),
            signal: None,
            closing: None,
        }
    }

    /// Does what the editor wants until one of both leaves.
    pub(super) async fn go(mut self, mut ways: Ways, mut leaving: watch::Receiver<Option<Signal>>) {
        if matches!(self.stage, Stage::Ready(_)) {
            self.welcome();
        }
        let updates = Arc::clone(&self.updates);
        loop {
            self.feed();
            if self.is_over() {
                let servers = Arc::clone(&self.servers);
                self.wind_up(ways.orders).await;
                return servers.close().await;
            }
            self.say_whether_it_rests(&ways.rests);
            tokio::select! {
                biased;
                // The host ends only after all sessions.
                Ok(()) = leaving.changed() => self.leave(*leaving.borrow_and_update()),
                () = ways.left.cancelled(), if self.closing.is_none() => self.close(None),
                Some(order) = ways.orders.recv() => self.order(order),
                // Behind the prompt that it is about.
                () = ways.cancels.notified() => self.cancel(),
                // A question that is withdrawn goes before the answer of its turn.
                Some(done) = self.work.next() => self.done(done),
                () = room(&updates, self.signal), if self.unsent.is_some() => self.send_unsent(),
                told = next(&mut self.told), if self.unsent.is_none() => match told {
                    Some(told) => self.hear(told),
                    None => self.told_all(),
                },
            }
        }
    }

    /// Tells an editor what there is to choose from, and what is odd.
    fn welcome(&mut self) {
        let notes = std::mem::take(&mut self.notes);
        self.note(&notes);
        let Some(kit) = self.kit() else { return };
        let commands = AvailableCommandsUpdate::new(offer::typed(kit));
        self.send(SessionUpdate::AvailableCommandsUpdate(commands));
    }

    /// Takes what there is to be shown, or done, of the run.
    fn hear(&mut self, told: Told) {
        match told {
            Told::Update(update) => {
                self.unsent = Some(update);
            }
            Told::Asked(asked) => self.put(*asked),
            Told::Answered(id) => self.withdraw(id),
            Told::Began => {
                // It was cancelled before the run knew of it.
                if self.prompt.as_ref().is_some_and(|prompt| prompt.is_cancelled) {
                    self.end_turn();
                }
            }
            Told::Beside { out, untold } => {
                self.is_calm &= untold <= self.untold;
                (self.out, self.untold) = (out, untold);
            }
            Told::Ended(ended) => {
                self.at_work = AtWork::Nothing;
                let was_cancelled = ended == Ended::Stopped(StopReason::Cancelled);
                // Whoever ended the turn does not want another at once.
                self.is_calm |= was_cancelled;
                if self.prompt.as_ref().is_some_and(|prompt| prompt.text.is_none()) {
                    self.answer(match ended {
                        Ended::Stopped(reason) => Ok(reason),
                        Ended::Failed(why) => Err(Error::internal_error().data(why)),
                    });
                }
            }
        }
    }

    /// Nothing more is told: a past was told whole, or the run is over.
    fn told_all(&mut self) {
        self.told = None;
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Loading(Loading { start, responder, mut so_far }) => {
                // What was at work then is no more, and a run tells of it anew.
                (self.out, self.untold) = (0, 0);
                self.so_far = so_far.try_recv().unwrap_or_default();
                let (modes, options) = (offer::modes(&start.kit), offer::options(&start.kit));
                let response = LoadSessionResponse::new().modes(modes).config_options(options);
                self.stage = Stage::Ready(start);
                sent(responder.respond(response));
                self.welcome();
            }
            other @ (Stage::Ready(_) | Stage::Sat(_) | Stage::Over) => self.stage = other,
        }
    }

    fn is_leaving(&self) -> bool {
        self.signal.is_some() || self.closing.is_some()
    }

    fn is_over(&self) -> bool {
        match &self.stage {
            Stage::Sat(_) => self.told.is_none() && self.unsent.is_none(),
            Stage::Loading(_) | Stage::Ready(_) => self.is_leaving(),
            Stage::Over => true,
        }
    }

    /// Tells the host whether nothing is at work here.
    fn say_whether_it_rests(&self, rests: &watch::Sender<Option<Instant>>) {
        let is_loading = matches!(self.stage, Stage::Loading(_));
        let does_nothing = self.prompt.is_none() && self.at_work == AtWork::Nothing;
        let is_resting = does_nothing && self.out == 0 && !is_loading;
        rests.send_if_modified(|since| {
            let has_changed = since.is_some() != is_resting;
            if has_changed {
                *since = is_resting.then(Instant::now);
            }
            has_changed
        });
    }

    /// Ends what is left, and tells whoever waits for it.
    async fn wind_up(mut self, mut orders: mpsc::Receiver<Order>) {
        let mut why = "the session has ended".to_owned();
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Sat(Sat { running, scratch, .. }) => {
                match running.await {
                    Ok(end) => drop(print::wind_up(&end, Exit::Done)),
                    Err(_) => "the run has panicked".clone_into(&mut why),
                }
                // Only now: until here some unit may still have been writing there.
                drop(scratch);
            }
            Stage::Loading(Loading { responder, .. }) => {
                let error = Error::invalid_request().data(orders::CLOSED);
                sent(responder.respond_with_error(error));
            }
            Stage::Ready(_) | Stage::Over => {}
        }
        self.answer(match self.is_leaving() {
            true => Ok(StopReason::Cancelled),
            false => Err(Error::internal_error().data(why)),
        });
        orders.close();
        while let Ok(order) = orders.try_recv() {
            self.too_late(order);
        }
        for responder in self.closing.into_iter().flatten() {
            sent(responder.respond(CloseSessionResponse::new()));
        }
    }

    fn kit(&self) -> Option<&Kit> {
        match &self.stage {
            Stage::Loading(Loading { start, .. }) | Stage::Ready(start) => Some(&start.kit),
            Stage::Sat(sat) => Some(&sat.kit),
            Stage::Over => None,
        }
    }
}

/// Passes over that the editor has gone: it is heard of elsewhere.
pub(super) fn sent(result: Result<(), Error>) {
    if let Err(error) = result {
        tracing::debug!("the editor is gone: {error}");
    }
}

/// Waits until an update may be sent, or nobody reads any more. Whoever leaves
/// waits for no reader.
async fn room(updates: &Updates, leaving: Option<Signal>) {
    if leaving.is_none() {
        updates.room().await;
    }
}

/// Waits for what is told; forever if nothing is. Dropping the future loses
/// nothing.
async fn next(told: &mut Option<mpsc::Receiver<Told>>) -> Option<Told> {
    match told {
        Some(told) => told.recv().await,
        None => std::future::pending().await,
    }
}

fn view(start: &Start, shows: Shows) -> View {
    let kit = &start.kit;
    let window = Some(kit.model.facts().context_window).filter(|window| *window < u64::MAX);
    View::new(shows, kit.root.clone(), window, past::reads(&kit.directory))
}

/// Begins to tell what was said in a session before. What it has come to is
/// known by the time nothing more is told.
fn replay(start: &Start, shows: Shows, telling: mpsc::Sender<Told>) -> oneshot::Receiver<SoFar> {
    let (view, directory) = (view(start, shows).past(), start.kit.directory.clone());
    let (known, so_far) = oneshot::channel();
    // It ends by itself once nobody wants to know any more.
    tokio::task::spawn_blocking(move || {
        let tell = |told: Told| telling.blocking_send(told).is_ok();
        match past::replay(&directory, view, tell) {
            // Nobody may want to know.
            Ok(so_far) => drop(known.send(so_far)),
            Err(error) => say(&format!("warning: what was said before is not told: {error}")),
        }
        drop(telling);
    });
    so_far
}
