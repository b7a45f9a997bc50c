//! The sessions of an editor: which there are, and what is opened next.
//!
//! The one owner of that. Sessions are opened one after another, since the first
//! decides what all of them share; each then goes on by itself.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    ClientCapabilities, ClientNotification, ClientRequest, CloseSessionRequest, InitializeRequest,
    ListSessionsResponse, LoadSessionResponse, McpServer, NewSessionResponse,
    ResumeSessionResponse, SessionId,
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
use super::session::{Opened, Order, Session, Updates};
use super::{Heard, listing, no_session, offer, refused};
use crate::cli::args::{GivenJson, RunFlags};
use crate::cli::exit::{Exit, Refusal};
use crate::cli::start::{Kept, Start};
use crate::config::Environment;
use crate::report::acp::Shows;
use crate::run::Signal;
use crate::telemetry::Exporter;

/// Most sessions that are open at once. Each has files and threads of its own.
const SESSIONS_CAP: usize = 64;

/// Most that an editor wants of a session before it has taken it.
const ORDERS_CAP: usize = 64;

/// Holds the sessions of an editor.
pub(super) struct Host {
    environment: Environment,
    flags: RunFlags,
    editor: ConnectionTo<Client>,
    updates: Updates,
    shows: Shows,
    has_forms: bool,
    shared: Option<Kept>,
    sessions: BTreeMap<Arc<str>, Live>,
    waiting: VecDeque<Opening>,
    is_opening: bool,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// How the process ends, once it is to end.
    exit: Option<Exit>,
    leaving: watch::Sender<Option<Signal>>,
}

/// A session that goes on.
struct Live {
    orders: mpsc::Sender<Order>,
    /// Is cancelled once it has ended.
    ended: CancellationToken,
}

/// A session that is to be opened.
struct Opening {
    cwd: PathBuf,
    directories: Vec<PathBuf>,
    servers: Vec<McpServer>,
    how: How,
}

/// How a session begins here.
enum How {
    New(Responder<NewSessionResponse>),
    /// With its past.
    Load(SessionId, Responder<LoadSessionResponse>),
    /// Without being told of its past.
    Resume(SessionId, Responder<ResumeSessionResponse>),
}

/// Something that was worked on beside everything else.
enum Done {
    Opened(Opening, Result<Box<Start>, Refusal>),
    Listed(Responder<ListSessionsResponse>, Result<ListSessionsResponse, Refusal>),
    Ended(Arc<str>),
}

impl Host {
    pub(super) fn new(
        environment: Environment,
        flags: RunFlags,
        editor: ConnectionTo<Client>,
        updates: Updates,
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
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Request(asked) if self.exit.is_some() => {
                let error = Error::internal_error().data("tine is about to end");
                sent(asked.1.respond_with_error(error));
            }
            Heard::Request(asked) => self.request(asked.0, asked.1),
            Heard::Notification(notification) => {
                if let ClientNotification::CancelNotification(cancel) = *notification {
                    // One of a session that has ended cancels nothing.
                    let _ = self.order(&cancel.session_id, Order::Cancel);
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
                (session_id, Order::Close(Some(responder.cast())))
            }
            ClientRequest::AuthenticateRequest(_) => {
                let error = Error::invalid_params().data("there is nothing to authenticate with");
                return sent(responder.respond_with_error(error));
            }
            _ => return sent(responder.respond_with_error(Error::method_not_found())),
        };
        if let Err(refused) = self.order(&session, order) {
            let (order, error) = *refused;
            order.refuse(error);
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

    fn order(&self, session: &SessionId, order: Order) -> Result<(), Box<(Order, Error)>> {
        let Some(live) = self.sessions.get(&session.0) else {
            return Err(Box::new((order, no_session(session))));
        };
        live.orders.try_send(order).map_err(|error| {
            Box::new(match error {
                mpsc::error::TrySendError::Full(order) => {
                    (order, Error::internal_error().data("too many requests of this session wait"))
                }
                mpsc::error::TrySendError::Closed(order) => (order, no_session(session)),
            })
        })
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
        if self.sessions.len() + self.waiting.len() >= SESSIONS_CAP {
            return wrong(format!("there are {SESSIONS_CAP} sessions already; close one"));
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
        if self.is_opening || self.exit.is_some() {
            return;
        }
        let Some(opening) = self.waiting.pop_front() else { return };
        self.is_opening = true;
        // One that is loaded again is left first: its log has one writer.
        let before = opening.how.resumes().and_then(|id| {
            let live = self.sessions.get(&id.0)?;
            // A session that takes nothing is about to end by itself.
            let _ = live.orders.try_send(Order::Close(None));
            Some(live.ended.clone())
        });
        let (environment, flags) = (self.environment.clone(), self.flags.clone());
        let shared = self.shared.clone();
        self.work.push(Box::pin(async move {
            if let Some(ended) = before {
                ended.cancelled().await;
            }
            let opened = tokio::task::spawn_blocking(move || {
                let start = start(environment, flags, &opening, shared);
                (opening, start.map(Box::new))
            });
            let (opening, start) = opened.await.expect("a session is opened without panics");
            Done::Opened(opening, start)
        }));
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Opened(opening, result) => {
                self.is_opening = false;
                match result {
                    Ok(_) if self.exit.is_some() => {
                        opening.how.refuse(&Refusal::new(Exit::Error, "tine is about to end"));
                    }
                    Ok(start) => self.opened(opening, start),
                    Err(refusal) => opening.how.refuse(&refusal),
                }
            }
            Done::Listed(responder, listed) => sent(match listed {
                Ok(listed) => responder.respond(listed),
                Err(refusal) => responder.respond_with_error(refused(&refusal)),
            }),
            Done::Ended(id) => {
                // It may have been opened again meanwhile.
                if self.sessions.get(&id).is_some_and(|live| live.ended.is_cancelled()) {
                    self.sessions.remove(&id);
                }
            }
        }
    }

    fn opened(&mut self, opening: Opening, start: Box<Start>) {
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
        let opened = Opened { start, at, shows: self.shows, load };
        let (orders, wanted) = mpsc::channel(ORDERS_CAP);
        let ended = CancellationToken::new();
        let session = Session::new(opened, Arc::clone(&self.updates));
        let going = Box::pin(session.go(wanted, self.leaving.subscribe()));
        let guard = ended.clone().drop_guard();
        let task = tokio::spawn(async move {
            let _guard = guard;
            going.await;
        });
        self.sessions.insert(Arc::clone(&id), Live { orders, ended });
        self.work.push(task.map(|_| Done::Ended(id)).boxed());
    }
}

impl How {
    /// Returns the session that is gone on with.
    fn resumes(&self) -> Option<&SessionId> {
        match self {
            Self::New(_) => None,
            Self::Load(id, _) | Self::Resume(id, _) => Some(id),
        }
    }

    fn refuse(self, refusal: &Refusal) {
        let error = refused(refusal);
        sent(match self {
            Self::New(responder) => responder.respond_with_error(error),
            Self::Load(_, responder) => responder.respond_with_error(error),
            Self::Resume(_, responder) => responder.respond_with_error(error),
        });
    }
}

/// Makes a session ready in its own directory.
fn start(
    environment: Environment,
    flags: RunFlags,
    opening: &Opening,
    shared: Option<Kept>,
) -> Result<Start, Refusal> {
    let cwd = directory(&opening.cwd)?;
    let (mut environment, mut flags) = (environment, flags);
    environment.cwd = Some(cwd);
    flags.resume = opening.how.resumes().map(ToString::to_string);
    flags.add_dir.extend(opening.directories.iter().cloned());
    flags.servers.mcp_config.extend(offer::configured(&opening.servers).map(GivenJson::from));
    Start::beside_others(&environment, flags, shared)
}

/// Returns a directory without links in its path.
fn directory(path: &Path) -> Result<PathBuf, Refusal> {
    let cannot = |why: &dyn std::fmt::Display| {
        Refusal::new(Exit::BadInput, format!("cannot work in `{}`: {why}", path.display()))
    };
    let real = path.canonicalize().map_err(|error| cannot(&error))?;
    if real.is_dir() { Ok(real) } else { Err(cannot(&"it is no directory")) }
}

fn sent(result: Result<(), Error>) {
    super::session::sent(result);
}
