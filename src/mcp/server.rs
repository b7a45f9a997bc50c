//! One server, kept: connected when it is first wanted, connected again when it
//! has died, given up when that does not help.
//!
//! A task of its own owns the connection. Whoever wants to call asks it for one
//! and waits, so however many units want the server at once, it is started
//! once.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Connection, NoAnswer, Way};
use super::elicitation::{Elicitations, People};
use super::listing::Listing;
use super::program::Surroundings;
use super::{Failed, Limits};
use crate::event::ServerStatus;

/// How often a server that has died is started again before the call that wants
/// it fails.
const TRIES: u32 = 3;

/// The wait before the second try; each further one is twice as long.
const BACKOFF: Duration = Duration::from_millis(250);

/// For how long after it could not be reached nobody tries again: a model that
/// calls on and on starts no process each time.
const REST: Duration = Duration::from_secs(5);

/// How often in a row a server may die before it has answered anything. Then it
/// is given up.
const DEATHS_CAP: u32 = 5;

/// Most units that wait for the connection. They wait for the same thing.
const ASKS_CAP: usize = 64;

/// A server and what is known of it.
pub struct Server {
    /// Its part of the names of its tools.
    pub label: Arc<str>,
    /// Its name as it is configured; may be anything.
    pub name: Arc<str>,
    /// Where it is configured, for people.
    pub origin: Arc<str>,
    way: Result<Arc<Way>, State>,
    limits: Limits,
    surroundings: Arc<Surroundings>,
    state: watch::Sender<State>,
    /// Leads to its keeper, once it is wanted.
    keeper: OnceLock<mpsc::Sender<Ask>>,
    stop: CancellationToken,
    tasks: TaskTracker,
    elicitations: Arc<Elicitations>,
}

/// How a server stands.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Nobody has wanted it yet, or it is about to be connected.
    Pending,
    /// It answers, and offers this.
    Connected(Arc<Listing>),
    /// It cannot be reached; why.
    Failed(Arc<str>),
    /// It wants somebody to log in.
    NeedsAuth(Arc<str>),
    /// It is not to be used; why.
    Disabled(Arc<str>),
}

impl State {
    /// Returns it in a word.
    #[must_use]
    pub fn status(&self) -> ServerStatus {
        match self {
            Self::Pending => ServerStatus::Pending,
            Self::Connected(_) => ServerStatus::Connected,
            Self::Failed(_) => ServerStatus::Failed,
            Self::NeedsAuth(_) => ServerStatus::NeedsAuth,
            Self::Disabled(_) => ServerStatus::Disabled,
        }
    }

    /// Returns why it does not answer, if it does not.
    #[must_use]
    pub fn why(&self) -> Option<&Arc<str>> {
        match self {
            Self::Pending | Self::Connected(_) => None,
            Self::Failed(why) | Self::NeedsAuth(why) | Self::Disabled(why) => Some(why),
        }
    }
}

/// What a keeper is asked.
enum Ask {
    /// For the connection, made anew if need be.
    Connection(oneshot::Sender<Result<Connection, Failed>>),
    /// To find out what the server offers now.
    List,
    /// To take note that it has answered something.
    Answered,
}

/// What a server is made of.
pub(super) struct Made {
    pub(super) label: String,
    pub(super) name: String,
    pub(super) origin: String,
    /// How it is reached, or why it is not.
    pub(super) way: Result<Way, State>,
}

impl Server {
    pub(super) fn new(
        made: Made,
        (limits, surroundings): (Limits, &Arc<Surroundings>),
        (stop, tasks): (&CancellationToken, &TaskTracker),
    ) -> Self {
        let Made { label, name, origin, way } = made;
        let way = way.map(Arc::new);
        let state = way.as_ref().err().cloned().unwrap_or(State::Pending);
        Self {
            label: label.into(),
            name: name.into(),
            origin: origin.into(),
            way,
            limits,
            surroundings: Arc::clone(surroundings),
            state: watch::channel(state).0,
            keeper: OnceLock::new(),
            stop: stop.clone(),
            tasks: tasks.clone(),
            elicitations: Arc::default(),
        }
    }

    /// Returns how it stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Has it connected, beside everything else. Needs a runtime.
    pub fn start(&self) {
        if let Ok(keeper) = self.keeper() {
            // One that is asked already is about to.
            let _ = keeper.try_send(Ask::Connection(oneshot::channel().0));
        }
    }

    /// Waits until it answers or is known not to.
    pub async fn settled(&self) {
        let mut state = self.state.subscribe();
        // The server holds the sender.
        let _ = state.wait_for(|state| !matches!(state, State::Pending)).await;
    }

    /// Calls a tool and returns what the server answers. What it wants to know
    /// meanwhile `people` are asked.
    ///
    /// # Errors
    ///
    /// Why there is no answer.
    pub async fn call(
        &self,
        (tool, arguments): (&str, Map<String, Value>),
        people: &dyn People,
        cancel: &CancellationToken,
    ) -> Result<Value, NoAnswer> {
        let parameters = json!({ "name": tool, "arguments": arguments });
        tokio::select! {
            biased;
            answer = self.ask("tools/call", parameters, cancel) => answer,
            never = self.elicitations.tend(people) => match never {},
        }
    }

    /// Reads a resource.
    ///
    /// # Errors
    ///
    /// As for [`Server::call`].
    pub async fn read(&self, uri: &str, cancel: &CancellationToken) -> Result<Value, NoAnswer> {
        self.ask("resources/read", json!({ "uri": uri }), cancel).await
    }

    /// Gets a prompt.
    ///
    /// # Errors
    ///
    /// As for [`Server::call`].
    pub async fn prompt(
        &self,
        prompt: &str,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
    ) -> Result<Value, NoAnswer> {
        let parameters = json!({ "name": prompt, "arguments": arguments });
        self.ask("prompts/get", parameters, cancel).await
    }

    async fn ask(
        &self,
        method: &str,
        parameters: Value,
        cancel: &CancellationToken,
    ) -> Result<Value, NoAnswer> {
        let connecting = self.connection();
        let connection = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(NoAnswer::Cancelled),
            connection = connecting => connection?,
        };
        let answer = connection.request(method, parameters, Some(self.limits.call), cancel).await;
        if let (Ok(_) | Err(NoAnswer::Refused(_)), Some(keeper)) = (&answer, self.keeper.get()) {
            // A busy keeper has other signs of life.
            let _ = keeper.try_send(Ask::Answered);
        }
        answer
    }

    async fn connection(&self) -> Result<Connection, NoAnswer> {
        let gone = || NoAnswer::Gone("tine is ending".into());
        let keeper = self.keeper().map_err(|state| {
            NoAnswer::Refused(state.why().map_or_else(String::new, |why| why.to_string()))
        })?;
        let (reply, connection) = oneshot::channel();
        keeper.send(Ask::Connection(reply)).await.map_err(|_| gone())?;
        match connection.await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(failed)) => Err(NoAnswer::Refused(failed.why.to_string())),
            Err(_) => Err(gone()),
        }
    }

    /// Returns the way to its keeper, who begins to work with this.
    fn keeper(&self) -> Result<&mpsc::Sender<Ask>, State> {
        let way = self.way.as_ref().map_err(Clone::clone)?;
        Ok(self.keeper.get_or_init(|| {
            let (asking, asks) = mpsc::channel(ASKS_CAP);
            let (changed, changes) = mpsc::channel(1);
            let keeper = Keeper {
                label: Arc::clone(&self.label),
                way: Arc::clone(way),
                limits: self.limits,
                surroundings: Arc::clone(&self.surroundings),
                state: self.state.clone(),
                changed,
                tasks: self.tasks.clone(),
                elicitations: Arc::clone(&self.elicitations),
                connection: None,
                deaths: 0,
                rests_until: None,
                has_connected: false,
            };
            self.tasks.spawn(keeper.keep((asks, changes), self.stop.clone()));
            asking
        }))
    }
}

/// Owns the connection.
struct Keeper {
    label: Arc<str>,
    way: Arc<Way>,
    limits: Limits,
    surroundings: Arc<Surroundings>,
    state: watch::Sender<State>,
    changed: mpsc::Sender<()>,
    tasks: TaskTracker,
    elicitations: Arc<Elicitations>,
    connection: Option<Connection>,
    /// How often in a row it has died without an answer.
    deaths: u32,
    /// Until when nobody tries again, and why.
    rests_until: Option<(Instant, Failed)>,
    has_connected: bool,
}

impl Keeper {
    async fn keep(
        mut self,
        (mut asks, mut changes): (mpsc::Receiver<Ask>, mpsc::Receiver<()>),
        stop: CancellationToken,
    ) {
        loop {
            let ask = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                ask = asks.recv() => ask,
                Some(()) = changes.recv() => Some(Ask::List),
            };
            let working = async {
                match ask {
                    Some(Ask::Connection(reply)) => {
                        // Whoever asked may not want it any more.
                        let _ = reply.send(self.connected().await);
                    }
                    Some(Ask::List) => self.list_again().await,
                    Some(Ask::Answered) => self.deaths = 0,
                    None => {}
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = working => {}
            }
        }
        if let Some(connection) = &self.connection {
            connection.close();
        }
    }

    /// Returns the connection, made anew if it is over.
    async fn connected(&mut self) -> Result<Connection, Failed> {
        if let Some(connection) = &self.connection {
            let Some(why) = connection.over() else { return Ok(connection.clone()) };
            self.connection = None;
            self.deaths += 1;
            if self.deaths >= DEATHS_CAP {
                let why = format!("it has died {DEATHS_CAP} times in a row: {why}");
                self.rests_until = None;
                return Err(self.fail(Failed::new(why)));
            }
        }
        if self.deaths >= DEATHS_CAP {
            return Err(Failed { why: self.why(), needs_auth: false });
        }
        if let Some((until, failed)) = &self.rests_until
            && Instant::now() < *until
        {
            return Err(failed.clone());
        }
        self.try_to_connect().await
    }

    async fn try_to_connect(&mut self) -> Result<Connection, Failed> {
        // What has never answered is most likely set up wrongly.
        let tries = if self.has_connected { TRIES } else { 1 };
        let mut wait = BACKOFF;
        let mut attempt = 1;
        loop {
            match self.connect().await {
                Ok(connection) => {
                    self.has_connected = true;
                    self.rests_until = None;
                    self.connection = Some(connection.clone());
                    return Ok(connection);
                }
                Err(failed) if attempt == tries || failed.needs_auth => {
                    self.rests_until = Some((Instant::now() + REST, failed.clone()));
                    return Err(self.fail(failed));
                }
                Err(_) => {}
            }
            sleep(wait).await;
            (wait, attempt) = (wait * 2, attempt + 1);
        }
    }

    async fn connect(&self) -> Result<Connection, Failed> {
        let connecting = async {
            let hears = (self.changed.clone(), &self.elicitations);
            let opening = Connection::open(&self.way, &self.surroundings, hears, &self.tasks);
            let connection = opening.await?;
            match connection.list(&self.label).await {
                Ok(listing) => Ok((connection, listing)),
                Err(no_answer) => {
                    connection.close();
                    Err(Failed::new(no_answer.to_string()))
                }
            }
        };
        tracing::debug!(target: "tine::mcp", server = %self.label, "a server of tools is started");
        let limit = self.limits.connect;
        let (connection, listing) = timeout(limit, connecting).await.unwrap_or_else(|_| {
            Err(Failed::new(format!("it did not answer within {} s", limit.as_secs_f64())))
        })?;
        tracing::debug!(target: "tine::mcp", server = %self.label, "it has said what it offers");
        self.state.send_replace(State::Connected(Arc::new(listing)));
        Ok(connection)
    }

    /// Finds out what the server offers now. One that does not say offers what
    /// it did.
    async fn list_again(&mut self) {
        let Some(connection) = &self.connection else { return };
        let listing = timeout(self.limits.connect, connection.list(&self.label)).await;
        if let Ok(Ok(listing)) = listing {
            self.state.send_replace(State::Connected(Arc::new(listing)));
        }
    }

    fn fail(&self, failed: Failed) -> Failed {
        let why = Arc::clone(&failed.why);
        tracing::debug!(target: "tine::mcp", server = %self.label, %why, "a server of tools is given up");
        let state = if failed.needs_auth { State::NeedsAuth(why) } else { State::Failed(why) };
        self.state.send_replace(state);
        failed
    }

    fn why(&self) -> Arc<str> {
        self.state.borrow().why().cloned().unwrap_or_default()
    }
}
