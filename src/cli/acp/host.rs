//! The sessions of an editor: which there are, and what is opened next.
//!
//! The one owner of that. Sessions are opened one after another, since the first
//! decides what all of them share; each then goes on by itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    ClientCapabilities, ClientNotification, ClientRequest, CloseSessionRequest, InitializeRequest,
    ListSessionsResponse, NewSessionResponse, ResumeSessionResponse, SessionId,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, Error};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::asking::At;
use super::live::Live;
use super::opening::{How, Opening, Started, can_be};
use super::session::{Opened, Order, Session};
use super::updates::Updates;
use super::{Heard, listing, offer, refused};
use crate::cli::args::RunFlags;
use crate::cli::exit::{Exit, Refusal};
use crate::cli::start::Kept;
use crate::config::Environment;
use crate::report::acp::Shows;
use crate::run::Signal;
use crate::telemetry::Exporter;

/// Most sessions that are open at once. Each has files and threads of its own.
const SESSIONS_CAP: usize = 64;

/// Most sessions that wait to be opened. They are opened one after another.
const WAITING_CAP: usize = 64;

/// Why nothing is begun any more.
const ENDING: &str = "tine is about to end";

/// Holds the sessions of an editor.
pub(super) struct Host {
    environment: Environment,
    flags: RunFlags,
    editor: ConnectionTo<Client>,
    updates: Arc<Updates>,
    shows: Shows,
    has_forms: bool,
    shared: Option<Kept>,
    sessions: BTreeMap<Arc<str>, Live>,
    waiting: VecDeque<Opening>,
    /// Whether one is on its way, from its first check on.
    is_opening: bool,
    /// That one, while it waits for room.
    checked: Option<Opening>,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// How the process ends, once it is to end.
    exit: Option<Exit>,
    leaving: watch::Sender<Option<Signal>>,
}

/// Whether one more session may be opened.
enum Room {
    Here,
    /// Once another has ended.
    Soon,
    Never,
}

/// Something that was worked on beside everything else.
enum Done {
    Checked(Opening, Result<(), Refusal>),
    Opened(Opening, Result<Box<Started>, Refusal>),
    Listed(Responder<ListSessionsResponse>, Result<ListSessionsResponse, Refusal>),
    Ended(Arc<str>),
}

impl Host {
    pub(super) fn new(
        environment: Environment,
        flags: RunFlags,
        editor: ConnectionTo<Client>,
        updates: Arc<Updates>,
    ) -> Self {
        Self {
            environment,
            flags,
            editor,
            updates,
            shows: Shows::default(),
            has_forms: false,
            shared: None,
            sessions: BTreeMap::new(),
            waiting: VecDeque::new(),
            is_opening: false,
            checked: None,
            work: FuturesUnordered::new(),
            exit: None,
            leaving: watch::Sender::new(None),
        }
    }

    /// Returns what sends the spans of its sessions away, if anything does.
    pub(super) fn exporter(&self) -> Option<Exporter> {
        self.shared.as_ref()?.exporter.clone()
    }

    /// Serves the editor until it leaves or a signal comes. Returns how the
    /// process ends.
    pub(super) async fn go(
        &mut self,
        mut heard: mpsc::Receiver<Heard>,
        mut arriving: mpsc::Receiver<Signal>,
        (editor, gone): (&ConnectionTo<Client>, &CancellationToken),
    ) -> Exit {
        loop {
            self.open_next();
            if let Some(exit) = self.exit
                && self.sessions.is_empty()
                && !self.is_opening
            {
                return exit;
            }
            let is_here = self.exit.is_none();
            tokio::select! {
                biased;
                Some(signal) = arriving.recv() => self.leave(Exit::after(signal), signal),
                Some(heard) = heard.recv() => self.hear(heard),
                () = gone.cancelled(), if is_here => self.leave(Exit::Done, Signal::Hangup),
                () = editor.incoming_closed(), if is_here => self.leave(Exit::Done, Signal::Hangup),
                Some(done) = self.work.next() => self.done(done),
            }
        }
    }

    /// Has every session come to its end.
    fn leave(&mut self, exit: Exit, signal: Signal) {
        self.exit = Some(self.exit.filter(|exit| *exit != Exit::Done).unwrap_or(exit));
        self.leaving.send_replace(Some(signal));
        self.is_opening &= self.checked.is_none();
        for opening in self.checked.take().into_iter().chain(self.waiting.drain(..)) {
            opening.how.refuse(&Refusal::new(Exit::Error, ENDING));
        }
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Request(asked) if self.exit.is_some() => {
                let error = Error::internal_error().data(ENDING);
                sent(asked.1.respond_with_error(error));
            }
            Heard::Request(asked) => self.request(asked.0, asked.1),
            Heard::Notification(notification) => {
                if let ClientNotification::CancelNotification(cancel) = *notification {
                    // One of a session that has ended cancels nothing.
                    self.sessions.get(&cancel.session_id.0).into_iter().for_each(Live::cancel);
                }
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the protocol may grow, and says so")]
    fn request(&mut self, request: ClientRequest, responder: Responder<Value>) {
        match request {
            ClientRequest::InitializeRequest(request) => {
                self.introduced(&request);
                sent(responder.cast().respond(offer::introduction()));
            }
            ClientRequest::NewSessionRequest(request) => self.open(Opening {
                cwd: request.cwd,
                directories: request.additional_directories,
                servers: request.mcp_servers,
                how: How::New(responder.cast()),
            }),
            ClientRequest::LoadSessionRequest(request) => self.open(Opening {
                cwd: request.cwd,
                directories: request.additional_directories,
                servers: request.mcp_servers,
                how: How::Load(request.session_id, responder.cast()),
            }),
            ClientRequest::ResumeSessionRequest(request) => self.open(Opening {
                cwd: request.cwd,
                directories: request.additional_directories,
                servers: request.mcp_servers,
                how: How::Resume(request.session_id, responder.cast()),
            }),
            ClientRequest::ListSessionsRequest(request) => {
                let environment = self.environment.clone();
                self.work.push(Box::pin(async move {
                    let listing = move || listing::sessions(&environment, &request);
                    let listed = tokio::task::spawn_blocking(listing).await;
                    Done::Listed(responder.cast(), listed.expect("logs are listed without panics"))
                }));
            }
            other => self.request_of_session(other, responder),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "what is not known is answered so")]
    fn request_of_session(&mut self, request: ClientRequest, responder: Responder<Value>) {
        let (session, order) = match request {
            ClientRequest::PromptRequest(request) => {
                (request.session_id.clone(), Order::Prompt(Box::new(request), responder.cast()))
            }
            ClientRequest::SetSessionModeRequest(request) => {
                (request.session_id.clone(), Order::SetMode(request, responder.cast()))
            }
            ClientRequest::SetSessionConfigOptionRequest(request) => {
                (request.session_id.clone(), Order::SetOption(request, responder.cast()))
            }
            ClientRequest::CloseSessionRequest(CloseSessionRequest { session_id, .. }) => {
                (session_id, Order::Close(responder.cast()))
            }
            ClientRequest::AuthenticateRequest(_) => {
                let error = Error::invalid_params().data("there is nothing to authenticate with");
                return sent(responder.respond_with_error(error));
            }
            _ => return sent(responder.respond_with_error(Error::method_not_found())),
        };
        match self.sessions.get(&session.0) {
            Some(live) => live.order(order, &session),
            None => order.miss(&session),
        }
    }

    fn introduced(&mut self, request: &InitializeRequest) {
        let ClientCapabilities { session, elicitation, .. } = &request.client_capabilities;
        self.shows = Shows {
            notices: session.as_ref().is_some_and(|session| session.notices.is_some()),
            compactions: session.as_ref().is_some_and(|session| session.compaction.is_some()),
        };
        self.has_forms = elicitation.as_ref().is_some_and(|forms| forms.supports_form());
    }

    /// Has a session opened, once those before it are.
    fn open(&mut self, opening: Opening) {
        match self.check(&opening) {
            Ok(()) => self.waiting.push_back(opening),
            Err(refusal) => opening.how.refuse(&refusal),
        }
    }

    fn check(&self, opening: &Opening) -> Result<(), Refusal> {
        let wrong = |message: String| Err(Refusal::new(Exit::BadInput, message));
        if self.waiting.len() >= WAITING_CAP {
            return wrong(format!("{WAITING_CAP} sessions wait to be opened already"));
        }
        let directories = std::iter::once(&opening.cwd).chain(&opening.directories);
        if let Some(relative) = directories.into_iter().find(|directory| !directory.is_absolute()) {
            return wrong(format!("`{}` is no absolute path", relative.display()));
        }
        match opening.how.resumes() {
            Some(id) if Uuid::parse_str(&id.0).is_err() => wrong(format!("no session `{id}`")),
            Some(_) | None => Ok(()),
        }
    }

    fn open_next(&mut self) {
        while self.exit.is_none() {
            if let Some(opening) = self.checked.take() {
                match self.room_for(&opening) {
                    Room::Here => return self.start(opening),
                    Room::Soon => return self.checked = Some(opening),
                    Room::Never => {
                        self.is_opening = false;
                        let all = format!("{SESSIONS_CAP} sessions are at work; close one");
                        opening.how.refuse(&Refusal::new(Exit::BadInput, all));
                    }
                }
            }
            if self.is_opening {
                return;
            }
            let Some(opening) = self.waiting.pop_front() else { return };
            self.is_opening = true;
            let (environment, flags) = (self.environment.clone(), self.flags.clone());
            self.work.push(Box::pin(async move {
                // Before anything is left for it.
                let checking = move || (can_be(&environment, &flags, &opening), opening);
                let checked = tokio::task::spawn_blocking(checking).await;
                let (checked, opening) = checked.expect("a session is checked without panics");
                Done::Checked(opening, checked)
            }));
        }
    }

    /// Finds room for a session: where there are too many, the one that rests
    /// longest is left. Its log stays.
    fn room_for(&self, opening: &Opening) -> Room {
        let replaces = opening.how.resumes().is_some_and(|id| self.sessions.contains_key(&id.0));
        if replaces || self.sessions.len() < SESSIONS_CAP {
            return Room::Here;
        }
        if self.sessions.values().any(Live::is_left) {
            return Room::Soon;
        }
        let resting = self.sessions.values().filter_map(|live| Some((live.rests_since()?, live)));
        match resting.min_by_key(|(since, _)| *since) {
            Some((_, live)) => {
                live.leave();
                Room::Soon
            }
            None => Room::Never,
        }
    }

    fn start(&mut self, opening: Opening) {
        // One that is loaded again is left first: its log has one writer.
        let before = opening.how.resumes().and_then(|id| self.sessions.get(&id.0));
        let before = before.map(Live::leave);
        let (environment, flags) = (self.environment.clone(), self.flags.clone());
        let shared = self.shared.clone();
        self.work.push(Box::pin(async move {
            if let Some(ended) = before {
                ended.cancelled().await;
            }
            let opened = tokio::task::spawn_blocking(move || {
                let started = Started::of(environment, flags, &opening, shared);
                (opening, started)
            });
            let (opening, started) = opened.await.expect("a session is opened without panics");
            Done::Opened(opening, started.map(Box::new))
        }));
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Checked(opening, Ok(())) if self.exit.is_none() => self.checked = Some(opening),
            Done::Checked(opening, checked) => {
                self.is_opening = false;
                let ending = || Refusal::new(Exit::Error, ENDING);
                opening.how.refuse(&checked.err().unwrap_or_else(ending));
            }
            Done::Opened(opening, result) => {
                self.is_opening = false;
                match result {
                    Ok(_) if self.exit.is_some() => {
                        opening.how.refuse(&Refusal::new(Exit::Error, ENDING));
                    }
                    Ok(started) => self.opened(opening, *started),
                    Err(refusal) => opening.how.refuse(&refusal),
                }
            }
            Done::Listed(responder, listed) => sent(match listed {
                Ok(listed) => responder.respond(listed),
                Err(refusal) => responder.respond_with_error(refused(&refusal)),
            }),
            Done::Ended(id) => {
                // It may have been opened again meanwhile.
                if self.sessions.get(&id).is_some_and(Live::has_ended) {
                    self.sessions.remove(&id);
                }
            }
        }
    }

    fn opened(&mut self, opening: Opening, started: Started) {
        let Started { start, so_far, notes } = started;
        self.shared.get_or_insert_with(|| start.kit.goes_on());
        let Opening { how, .. } = opening;
        let id = Arc::clone(&start.kit.session.0);
        let session = SessionId::new(Arc::clone(&id));
        let (modes, options) = (offer::modes(&start.kit), offer::options(&start.kit));
        // Whatever the session tells comes behind this.
        let load = match how {
            How::New(responder) => {
                let response = NewSessionResponse::new(session.clone());
                sent(responder.respond(response.modes(modes).config_options(options)));
                None
            }
            How::Resume(_, responder) => {
                let response = ResumeSessionResponse::new();
                sent(responder.respond(response.modes(modes).config_options(options)));
                None
            }
            How::Load(_, responder) => Some(responder),
        };
        let at = At { editor: self.editor.clone(), session, has_forms: self.has_forms };
        let opened = Opened { start, at, shows: self.shows, load, so_far, notes };
        let ended = CancellationToken::new();
        let (live, ways) = Live::new(ended.clone());
        let session = Session::new(opened, Arc::clone(&self.updates));
        let going = Box::pin(session.go(ways, self.leaving.subscribe()));
        let guard = ended.drop_guard();
        let task = tokio::spawn(async move {
            let _guard = guard;
            going.await;
        });
        self.sessions.insert(Arc::clone(&id), live);
        self.work.push(task.map(|_| Done::Ended(id)).boxed());
    }
}

fn sent(result: Result<(), Error>) {
    super::session::sent(result);
}
