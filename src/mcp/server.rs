//! One server, kept: connected when it is first wanted, connected again when it
//! has died, given up when that does not help.
//!
//! A task of its own owns the connection. Whoever wants to call asks it for one
//! and waits, so however many units want the server at once, it is started
//! once.

use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Connection, NoAnswer, Way};
use super::elicitation::{Elicited, People};
use super::keeper::{Ask, Change, Keeper, Kept};
use super::link::Noise;
use super::listing::Listing;
use super::name::{self, Label};
use super::program::Surroundings;
use super::{Cause, Failed, Limits};
use crate::event::ServerStatus;
use crate::tool_name::OtherName;

/// Most units that wait for the connection. They wait for the same thing.
const ASKS_CAP: usize = 64;

/// Maximum changed files that a call asks people about.
const CHANGES_CAP: usize = 8;

/// A server and what is known of it.
pub struct Server {
    /// Its part of the names of its tools, where there is room for it.
    pub label: Arc<str>,
    pub(super) named: Label,
    /// Its name as it is configured; may be anything.
    pub name: Arc<str>,
    /// Where it is configured, for people.
    pub origin: Arc<str>,
    way: Result<Arc<Way>, State>,
    limits: Limits,
    surroundings: Arc<Surroundings>,
    noise: Arc<Noise>,
    state: watch::Sender<State>,
    /// Leads to its keeper, once it is wanted.
    keeper: OnceLock<mpsc::Sender<Ask>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// How a server stands.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Nobody has wanted it yet, or it is about to be connected.
    Pending,
    /// It answers, and offers this.
    Connected(Arc<Listing>),
    /// It has ended, and why. The next call starts it again, so what it offered
    /// is offered still.
    Ended(Arc<str>, Arc<Listing>),
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
            Self::Failed(_) | Self::Ended(..) => ServerStatus::Failed,
            Self::NeedsAuth(_) => ServerStatus::NeedsAuth,
            Self::Disabled(_) => ServerStatus::Disabled,
        }
    }

    /// Returns why it does not answer, if it does not.
    #[must_use]
    pub fn why(&self) -> Option<&Arc<str>> {
        match self {
            Self::Pending | Self::Connected(_) => None,
            Self::Ended(why, _)
            | Self::Failed(why)
            | Self::NeedsAuth(why)
            | Self::Disabled(why) => Some(why),
        }
    }

    /// Returns what it offers to whoever calls it.
    #[must_use]
    pub fn listing(&self) -> Option<&Arc<Listing>> {
        match self {
            Self::Connected(listing) | Self::Ended(_, listing) => Some(listing),
            Self::Pending | Self::Failed(_) | Self::NeedsAuth(_) | Self::Disabled(_) => None,
        }
    }
}

/// What a server is made of.
pub(super) struct Made {
    pub(super) label: Label,
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
            label: Arc::clone(&label.whole),
            named: label,
            name: name.into(),
            origin: origin.into(),
            way,
            limits,
            surroundings: Arc::clone(surroundings),
            noise: Arc::default(),
            state: watch::channel(state).0,
            keeper: OnceLock::new(),
            stop: stop.clone(),
            tasks: tasks.clone(),
        }
    }

    /// Returns how it stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Returns the warning about lines on its standard output that are not messages, once.
    #[must_use = "a warning that is dropped is never shown"]
    pub fn take_warning(&self) -> Option<String> {
        self.noise.take_warning()
    }

    /// Returns what else people may call its tools, in the order in which these
    /// are given as it calls them.
    pub(super) fn others<'a>(
        &self,
        tools: impl IntoIterator<Item = &'a str>,
    ) -> Vec<Vec<OtherName>> {
        name::others(&self.named, &self.name, tools)
    }

    /// Has it connected, beside everything else. Needs a runtime.
    pub fn start(&self) {
        if let Ok(keeper) = self.keeper() {
            // One that is asked already is about to.
            let _ = keeper.try_send(Ask::Start);
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
        self.ask(("tools/call", parameters), Some(people), cancel).await
    }

    /// Reads a resource.
    ///
    /// # Errors
    ///
    /// As for [`Server::call`].
    pub async fn read(&self, uri: &str, cancel: &CancellationToken) -> Result<Value, NoAnswer> {
        self.ask(("resources/read", json!({ "uri": uri })), None, cancel).await
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
        self.ask(("prompts/get", parameters), None, cancel).await
    }

    /// Asks the server something. Its time is one, for the connection and the
    /// answer, and stands still while `people` are asked.
    async fn ask(
        &self,
        (method, parameters): (&str, Value),
        people: Option<&dyn People>,
        cancel: &CancellationToken,
    ) -> Result<Value, NoAnswer> {
        let (asks, is_asking) = watch::channel(false);
        let mut too_long = pin!(run_out(self.limits.call, is_asking));
        let connection = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(NoAnswer::Cancelled),
            connection = self.connection_by(people, &asks) => connection?,
            () = &mut too_long => return Err(NoAnswer::TooLong),
        };
        let called = people.map(|people| (connection.called(), people));
        let tending = async {
            match &called {
                Some((called, people)) => called.tend(*people, &asks).await,
                None => pending().await,
            }
        };
        let answer = tokio::select! {
            biased;
            answer = connection.request(method, parameters, too_long, cancel) => answer,
            never = tending => match never {},
        };
        if let (Ok(_) | Err(NoAnswer::Refused(_)), Some(keeper)) = (&answer, self.keeper.get()) {
            // A busy keeper has other signs of life.
            let _ = keeper.try_send(Ask::Answered);
        }
        answer
    }

    /// Returns the connection. If the server is not started because files of its program have
    /// changed, `people` are asked about each of them.
    async fn connection_by(
        &self,
        people: Option<&dyn People>,
        asks: &watch::Sender<bool>,
    ) -> Result<Connection, NoAnswer> {
        let mut connection = self.connection().await;
        for _ in 0..CHANGES_CAP {
            let (Err(NoAnswer::NotStarted(_)), Some(people)) = (&connection, people) else { break };
            if let Some(change) = self.keep(Ask::Change).await? {
                let Change { file, .. } = &change;
                let question = format!(
                    "`{file}` has changed since you trusted it. The server `{}` uses it and runs \
                     outside of the sandbox. Start the server with the changed file?",
                    self.name
                );
                asks.send_replace(true);
                let said = people.ask(&question, &json!({ "type": "object" })).await;
                asks.send_replace(false);
                match said {
                    Elicited::Given(_) => self.tell_keeper(Ask::Accept(change)).await?,
                    Elicited::Declined | Elicited::Cancelled => break,
                }
            }
            connection = self.connection().await;
        }
        connection
    }

    /// Asks the keeper something, and waits for the answer.
    async fn keep<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        self.tell_keeper(ask(reply)).await?;
        answer.await.map_err(|_| is_ending())
    }

    async fn tell_keeper(&self, ask: Ask) -> Result<(), NoAnswer> {
        let keeper = self.keeper().map_err(|state| {
            NoAnswer::Refused(state.why().map_or_else(String::new, |why| why.to_string()))
        })?;
        keeper.send(ask).await.map_err(|_| is_ending())
    }

    async fn connection(&self) -> Result<Connection, NoAnswer> {
        match self.keep(Ask::Connection).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(Failed { why, cause: Cause::ChangedFile })) => Err(NoAnswer::NotStarted(why)),
            Ok(Err(failed)) => Err(NoAnswer::Refused(failed.why.to_string())),
            Err(no_answer) => Err(no_answer),
        }
    }

    /// Returns the way to its keeper, who begins to work with this.
    fn keeper(&self) -> Result<&mpsc::Sender<Ask>, State> {
        let way = self.way.as_ref().map_err(Clone::clone)?;
        Ok(self.keeper.get_or_init(|| {
            let (asking, asks) = mpsc::channel(ASKS_CAP);
            let kept = Kept {
                label: self.named.clone(),
                way: Arc::clone(way),
                limits: self.limits,
                surroundings: Arc::clone(&self.surroundings),
                noise: Arc::clone(&self.noise),
            };
            let keeper = Keeper::new(kept, self.state.clone(), self.tasks.clone());
            self.tasks.spawn(keeper.keep(asks, self.stop.clone()));
            asking
        }))
    }
}

fn is_ending() -> NoAnswer {
    NoAnswer::Gone("tine is ending".into())
}

/// Comes once a call has had so much time that nobody was being asked.
async fn run_out(mut left: Duration, mut is_asking: watch::Receiver<bool>) {
    loop {
        // Whoever asks on behalf of a call lives as long as the call.
        let _ = is_asking.wait_for(|is_asking| !is_asking).await;
        let began = Instant::now();
        let asked = async {
            if is_asking.wait_for(|is_asking| *is_asking).await.is_err() {
                pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = sleep(left) => return,
            () = asked => left = left.saturating_sub(began.elapsed()),
        }
    }
}
