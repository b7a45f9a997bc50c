//! The task that owns a server's connection: made when somebody wants it, made
//! anew when it is over, given up when that does not help.
//!
//! It deals with one thing at a time, but no call waits for anything here
//! longer than it may: whoever asks has a limit of its own.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::connection::{Connection, Way};
use super::entry::Launch;
use super::link::Noise;
use super::listing::Listing;
use super::name::Label;
use super::program::Surroundings;
use super::server::State;
use super::{Cause, Failed, Limits};
use crate::hook::Footing;
use crate::path_text;

/// How often a server that has died is started again before the call that wants
/// it fails.
const TRIES: u32 = 3;

/// The wait before the second try; each further one is twice as long.
const BACKOFF: Duration = Duration::from_millis(250);

/// For how long after it could not be reached nobody tries again: a model that
/// calls on and on starts no process each time.
const REST: Duration = Duration::from_secs(5);

/// Least time from one answer to what a server offers until it is asked again.
/// One that answers each time with the word that it has changed is asked twelve
/// times a minute, which costs nothing; one that really changes waits no longer.
const RELIST_PAUSE: Duration = Duration::from_secs(5);

/// How often in a row a server may die before it has answered anything. Then it
/// is given up.
const DEATHS_CAP: u32 = 5;

/// What a keeper is asked.
pub(super) enum Ask {
    /// For the connection, made anew if need be.
    Connection(oneshot::Sender<Result<Connection, Failed>>),
    /// To be connected, for whoever wants it later.
    Start,
    /// To take note that it has answered something.
    Answered,
    /// For the first file of its program that has changed; `None` if none has.
    Change(oneshot::Sender<Option<Change>>),
    /// To start it with a change.
    Accept(Change),
}

/// A file of a server's program that has changed since the run began.
#[derive(Debug)]
pub(super) struct Change {
    /// The file as people know it.
    pub(super) file: String,
    /// What the program is held to with the file as it is now.
    footing: Footing,
}

/// What a keeper keeps.
pub(super) struct Kept {
    pub(super) label: Label,
    pub(super) way: Arc<Way>,
    pub(super) limits: Limits,
    pub(super) surroundings: Arc<Surroundings>,
    pub(super) noise: Arc<Noise>,
}

/// Owns the connection.
pub(super) struct Keeper {
    kept: Kept,
    state: watch::Sender<State>,
    /// Say that the server's lists have changed.
    changed: mpsc::Sender<()>,
    changes: mpsc::Receiver<()>,
    tasks: TaskTracker,
    connection: Option<Connection>,
    /// Finds out what the server offers now, beside everything else: one that
    /// does not say keeps no call waiting.
    relisting: Option<AbortOnDropHandle<Option<Listing>>>,
    /// When that was last found out.
    relisted: Option<Instant>,
    /// How often in a row it has died without an answer.
    deaths: u32,
    /// Until when nobody tries again, and why.
    rests_until: Option<(Instant, Failed)>,
    has_connected: bool,
    /// What the program is held to since the user has accepted a change of its files.
    accepted: Option<Footing>,
}

/// What a keeper has to deal with.
enum Next {
    Asked(Ask),
    /// The server says that its lists have changed.
    Changed,
    /// What it offers now; `None` if it did not say.
    Listed(Option<Listing>),
    /// The connection is over; why.
    Over(Arc<str>),
}

impl Keeper {
    /// Returns the keeper of a server that nobody has wanted yet.
    pub(super) fn new(kept: Kept, state: watch::Sender<State>, tasks: TaskTracker) -> Self {
        let (changed, changes) = mpsc::channel(1);
        Self {
            kept,
            state,
            changed,
            changes,
            tasks,
            connection: None,
            relisting: None,
            relisted: None,
            deaths: 0,
            rests_until: None,
            has_connected: false,
            accepted: None,
        }
    }

    /// Keeps the server until it is stopped or nobody can want it any more.
    pub(super) async fn keep(mut self, mut asks: mpsc::Receiver<Ask>, stop: CancellationToken) {
        loop {
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                why = over(self.connection.as_ref()) => Next::Over(why),
                listing = listed(&mut self.relisting) => Next::Listed(listing),
                ask = asks.recv() => match ask {
                    Some(ask) => Next::Asked(ask),
                    // Nobody is left who could want it.
                    None => break,
                },
                // The keeper holds a sender, so there is always one to come. One
                // that comes meanwhile waits.
                Some(()) = self.changes.recv(), if self.relisting.is_none() => Next::Changed,
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.deal_with(next) => {}
            }
        }
        if let Some(connection) = &self.connection {
            connection.close();
        }
    }

    async fn deal_with(&mut self, next: Next) {
        match next {
            Next::Asked(Ask::Connection(reply)) => {
                // A call that has been given up starts no server.
                if !reply.is_closed() {
                    // Whoever asked may not want it any more.
                    let _ = reply.send(self.connected().await);
                }
            }
            // Whoever wants it later is told what became of this.
            Next::Asked(Ask::Start) => drop(self.connected().await),
            Next::Asked(Ask::Answered) => self.deaths = 0,
            Next::Asked(Ask::Change(reply)) => {
                // Whoever asked may not want it any more.
                let _ = reply.send(self.change().await);
            }
            Next::Asked(Ask::Accept(change)) => {
                self.accepted = Some(change.footing);
                self.rests_until = None;
            }
            Next::Changed => self.list_again(),
            Next::Listed(listing) => self.listed(listing),
            Next::Over(why) => self.died(&why),
        }
    }

    /// Returns the connection, made anew if it is over.
    async fn connected(&mut self) -> Result<Connection, Failed> {
        if let Some(connection) = &self.connection {
            match connection.over() {
                None => return Ok(connection.clone()),
                Some(why) => self.died(&why),
            }
        }
        if self.deaths >= DEATHS_CAP {
            return Err(Failed::new(self.why()));
        }
        if let Some((until, failed)) = &self.rests_until
            && Instant::now() < *until
        {
            return Err(failed.clone());
        }
        self.try_to_connect().await
    }

    /// Returns the first change of the program's files that the user has not accepted.
    async fn change(&mut self) -> Option<Change> {
        let Way::Launch(Launch::Program { footing, .. }) = &*self.kept.way else { return None };
        let change = self.accepted.as_ref().unwrap_or(footing).with_change().await;
        let Some((file, footing)) = change else {
            // It was taken back, so the next call need not wait.
            self.rests_until = None;
            return None;
        };
        let file = path_text::shown(&self.kept.surroundings.directory, &file);
        Some(Change { file, footing })
    }

    /// Takes note that the connection is over.
    fn died(&mut self, why: &Arc<str>) {
        (self.connection, self.relisting) = (None, None);
        self.deaths += 1;
        if self.deaths >= DEATHS_CAP {
            let why = format!("it has died {DEATHS_CAP} times in a row: {why}");
            self.rests_until = None;
            self.fail(&Failed::new(why));
            return;
        }
        self.state.send_modify(|state| {
            if let State::Connected(listing) = state {
                *state = State::Ended(Arc::clone(why), Arc::clone(listing));
            }
        });
    }

    async fn try_to_connect(&mut self) -> Result<Connection, Failed> {
        // What has never answered is most likely set up wrongly.
        let tries = if self.has_connected { TRIES } else { 1 };
        // One that hangs is not waited for again and again.
        let until = Instant::now() + self.kept.limits.connect;
        let mut wait = BACKOFF;
        let mut attempt = 1;
        loop {
            match self.connect(until).await {
                Ok(connection) => {
                    self.has_connected = true;
                    self.rests_until = None;
                    self.connection = Some(connection.clone());
                    return Ok(connection);
                }
                Err(failed)
                    if attempt == tries
                        || failed.cause != Cause::Other
                        || Instant::now() + wait >= until =>
                {
                    self.rests_until = Some((Instant::now() + REST, failed.clone()));
                    self.fail(&failed);
                    return Err(failed);
                }
                Err(_) => {}
            }
            sleep(wait).await;
            (wait, attempt) = (wait * 2, attempt + 1);
        }
    }

    async fn connect(&self, until: Instant) -> Result<Connection, Failed> {
        let connecting = async {
            let Kept { way, surroundings, noise, .. } = &self.kept;
            let heard = (self.changed.clone(), noise);
            let accepted = self.accepted.as_ref();
            let opening = Connection::open(way, accepted, surroundings, heard, &self.tasks);
            let connection = opening.await?;
            match connection.list(&self.kept.label).await {
                Ok(listing) => Ok((connection, listing)),
                Err(no_answer) => {
                    connection.close();
                    Err(Failed::new(no_answer.to_string()))
                }
            }
        };
        let label = &self.kept.label.whole;
        tracing::debug!(target: "tine::mcp", server = %label, "a server of tools is started");
        let limit = self.kept.limits.connect;
        let (connection, listing) = timeout_at(until, connecting).await.unwrap_or_else(|_| {
            Err(Failed::new(format!("it did not answer within {} s", limit.as_secs_f64())))
        })?;
        tracing::debug!(target: "tine::mcp", server = %label, "it has said what it offers");
        self.state.send_replace(State::Connected(Arc::new(listing)));
        Ok(connection)
    }

    /// Finds out what the server offers now, but not all the time.
    fn list_again(&mut self) {
        let Some(connection) = self.connection.clone() else { return };
        let (label, limit) = (self.kept.label.clone(), self.kept.limits.connect);
        let at = self.relisted.map_or_else(Instant::now, |last| last + RELIST_PAUSE);
        let listing = self.tasks.spawn(async move {
            sleep_until(at).await;
            timeout(limit, connection.list(&label)).await.ok()?.ok()
        });
        self.relisting = Some(AbortOnDropHandle::new(listing));
    }

    /// Takes what the server offers now. One that does not say offers what it
    /// did.
    fn listed(&mut self, listing: Option<Listing>) {
        (self.relisting, self.relisted) = (None, Some(Instant::now()));
        let Some(listing) = listing else { return };
        self.state.send_if_modified(|state| {
            let is_connected = matches!(state, State::Connected(_));
            if is_connected {
                *state = State::Connected(Arc::new(listing));
            }
            is_connected
        });
    }

    fn fail(&self, failed: &Failed) {
        let why = Arc::clone(&failed.why);
        let server = &self.kept.label.whole;
        tracing::debug!(target: "tine::mcp", %server, %why, "a server of tools is given up");
        let state = match failed.cause {
            Cause::NeedsAuth => State::NeedsAuth(why),
            Cause::ChangedFile | Cause::Other => State::Failed(why),
        };
        self.state.send_replace(state);
    }

    fn why(&self) -> Arc<str> {
        self.state.borrow().why().cloned().unwrap_or_default()
    }
}

/// Waits for the end of a connection, if there is one.
async fn over(connection: Option<&Connection>) -> Arc<str> {
    match connection {
        Some(connection) => connection.ended().await,
        None => pending().await,
    }
}

/// Waits for what a server offers now, if somebody asks it.
async fn listed(relisting: &mut Option<AbortOnDropHandle<Option<Listing>>>) -> Option<Listing> {
    match relisting {
        // One that broke off has found out nothing.
        Some(relisting) => relisting.await.ok().flatten(),
        None => pending().await,
    }
}
