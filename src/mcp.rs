//! Servers of tools: what is configured, who answers, what they offer.
//!
//! [`Servers`] are started lazily and side by side, and each is kept by a task
//! of its own. A server that hangs, floods, dies or lies is its own failure:
//! nobody waits for it longer than a limit, and nothing of it enters a context
//! without a bound.

mod client;
mod connection;
mod content;
mod elicitation;
mod entry;
mod events;
mod failure;
pub mod file;
pub mod form;
mod http;
mod keeper;
mod link;
mod listing;
mod mended;
pub mod name;
mod program;
mod reply;
mod schema;
mod server;
#[cfg(test)]
mod tests;
mod watched;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use client::ClientLink;
pub use connection::{NoAnswer, Open};
pub use content::{output, prompt, resource};
pub use elicitation::{Elicited, People};
pub use entry::{BadEntry, Entry, Launch};
pub use link::{CHANNEL_CAP, Channel, FarEnds, MESSAGE_CAP, channel};
pub use listing::{Listing, PromptOffer, ResourceOffer};
pub use program::Surroundings;
pub use server::{Server, State};

use crate::event::{OfferedTool, ServerGlance};
use crate::tool_name::OtherNames;
use connection::Way;
use server::Made;

/// Most time from a server's start to its list of tools. One that is fetched
/// first takes its time; one that has said nothing by then will not.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(60);

/// How long all servers together may take to end: each has its own limits,
/// which are shorter.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// What rules call reading a resource.
const READING: &str = "read_resource";

/// How long is waited for servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For their tools, when a conversation begins.
    pub startup: Duration,
    /// For one of them to be connected at all.
    pub connect: Duration,
    /// For the answer to a call.
    pub call: Duration,
}

/// Why a server is not connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// In words for people and models.
    pub why: Arc<str>,
    /// What would help.
    pub cause: Cause,
}

/// Causes of a server that is not connected, by what would help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It wants a login.
    NeedsAuth,
    /// A file that it names has changed since the run began; a new session asks about it.
    ChangedFile,
    /// Another attempt may succeed.
    Other,
}

impl Failed {
    fn new(why: impl Into<Arc<str>>) -> Self {
        Self { why: why.into(), cause: Cause::Other }
    }

    fn changed(file: &str) -> Self {
        let why = format!(
            "it is not started, because `{file}` has changed since the run began; look at the file, \
             then trust it again by `tine trust` and a new session"
        );
        Self { why: why.into(), cause: Cause::ChangedFile }
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the call was cancelled"),
            Self::TooLong => f.write_str("it did not answer in time"),
            Self::Gone(why) => write!(f, "the server is gone: {why}"),
            Self::Refused(why) => f.write_str(why),
            Self::NotStarted(why) => f.write_str(why),
        }
    }
}

/// A server that somebody wants.
pub struct Configured {
    /// What it is called; may be anything.
    pub name: String,
    /// Where that stands, for people.
    pub origin: String,
    /// How it is reached.
    pub reached: Reached,
}

/// How a server is reached.
pub enum Reached {
    /// As an entry says.
    Launch(Launch),
    /// By what something else carries.
    Channel(Arc<dyn Open>),
    /// It is not: its entry is wrong.
    Not(BadEntry),
    /// It is not, because that is wanted; why.
    Disabled(String),
}

/// All servers, in the order of their names.
pub struct Servers {
    all: Vec<Arc<Server>>,
    limits: Limits,
    stop: CancellationToken,
    tasks: TaskTracker,
    waited: OnceCell<()>,
    others: OtherNames,
}

impl Servers {
    /// Takes what is configured. Nothing is started by this.
    #[must_use]
    pub fn new(
        mut configured: Vec<Configured>,
        limits: Limits,
        surroundings: Surroundings,
    ) -> Self {
        configured.sort_by(|a, b| a.name.cmp(&b.name));
        let labels = name::labels(configured.iter().map(|server| server.name.as_str()));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let surroundings = Arc::new(surroundings);
        let all = configured.into_iter().zip(labels).map(|(configured, label)| {
            let Configured { name, origin, reached } = configured;
            let way = match reached {
                Reached::Launch(launch) => Ok(Way::Launch(launch)),
                Reached::Channel(open) => Ok(Way::Channel(open)),
                Reached::Not(bad) => Err(State::Failed(bad.to_string().into())),
                Reached::Disabled(why) => Err(State::Disabled(why.into())),
            };
            let made = Made { label, name, origin, way };
            Arc::new(Server::new(made, (limits, &surroundings), (&stop, &tasks)))
        });
        let all = all.collect();
        let others = OtherNames::default();
        Self { all, limits, stop, tasks, waited: OnceCell::new(), others }
    }

    /// No servers.
    #[must_use]
    pub fn none() -> Self {
        let zero = Duration::ZERO;
        let limits = Limits { startup: zero, connect: zero, call: zero };
        Self::new(Vec::new(), limits, Surroundings::default())
    }

    /// Tells whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.all.iter()
    }

    /// Finds one by its part in names, in any case, or by its own name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Server>> {
        let by_label = self.all.iter().find(|server| server.label.eq_ignore_ascii_case(name));
        by_label.or_else(|| self.all.iter().find(|server| &*server.name == name))
    }

    /// Returns the longest time that a conversation waits for them.
    #[must_use]
    pub fn startup(&self) -> Duration {
        self.limits.startup
    }

    /// Has all of them connected, side by side. Needs a runtime.
    pub fn start(&self) {
        self.all.iter().for_each(|server| server.start());
    }

    /// Waits until each is connected or known not to be, at most for the time
    /// that a conversation waits.
    pub async fn settled(&self) {
        let until = Instant::now() + self.limits.startup;
        for server in &self.all {
            // Whoever has not answered by then is late.
            let _ = timeout_at(until, server.settled()).await;
        }
    }

    /// Does the same for the first that calls it and waits to the end, having
    /// all of them connected; later ones wait for nothing. Returns whether this
    /// was the first.
    pub async fn settled_once(&self) -> bool {
        self.start();
        let mut is_first = false;
        self.waited
            .get_or_init(|| async {
                self.settled().await;
                is_first = true;
            })
            .await;
        is_first
    }

    /// Returns what those offer that answer, or would answer a call, in order.
    #[must_use]
    pub fn tools(&self) -> Vec<OfferedTool> {
        let listings = self.all.iter().filter_map(|server| server.state().listing().cloned());
        listings.flat_map(|listing| listing.tools.clone()).collect()
    }

    /// Returns what else tools are called that were told of with
    /// [`Servers::told`].
    #[must_use]
    pub fn other_names(&self) -> &OtherNames {
        &self.others
    }

    /// Takes note of what else people may call tools that a conversation is told
    /// of, and returns those that can be meant by all their names, in order.
    #[must_use = "what no rule can mean must not be offered"]
    pub fn told<'a>(&self, offered: &'a [OfferedTool]) -> Vec<&'a OfferedTool> {
        let mut told = Vec::new();
        for tools in offered.chunk_by(|one, other| one.server == other.server) {
            let server = tools.first().and_then(|tool| self.find(&tool.server));
            let others = server.map(|server| server.others(tools.iter().map(|tool| &*tool.remote)));
            // One that is configured no more answers no call.
            let mut others = others.unwrap_or_default().into_iter();
            told.extend(
                tools
                    .iter()
                    .filter(|tool| self.others.note(&tool.name, others.next().unwrap_or_default())),
            );
        }
        told
    }

    /// Returns the servers one of whose tools somebody may mean by a name; none
    /// if it is that of a whole server.
    pub fn named_in<'a>(&'a self, written: &'a str) -> impl Iterator<Item = &'a Arc<Server>> {
        self.all.iter().filter(move |server| {
            let mut others = server.others([""]).into_iter().flatten();
            others.any(|other| {
                let start = written.get(..other.text.len()).unwrap_or_default();
                other.is_server
                    && start.eq_ignore_ascii_case(&other.text)
                    && written[start.len()..].starts_with("__")
            })
        })
    }

    /// Returns what a rule about the resources of a server calls reading them;
    /// `None` if there is no room for what else it may be called.
    #[must_use]
    pub fn reading(&self, server: &Server) -> Option<String> {
        let tool = format!("{}{}__{READING}", name::PREFIX, server.label);
        let others = server.others([READING]).pop().unwrap_or_default();
        self.others.note(&tool, others).then_some(tool)
    }

    /// Returns how each stands.
    #[must_use]
    pub fn glances(&self) -> Vec<ServerGlance> {
        let glance = |server: &Arc<Server>| ServerGlance {
            name: Arc::clone(&server.name),
            status: server.state().status(),
        };
        self.all.iter().map(glance).collect()
    }

    /// Finds a prompt by what it is typed as, in any case. Whoever offers it
    /// has to have answered.
    #[must_use]
    pub fn find_prompt(&self, name: &str) -> Option<(&Arc<Server>, PromptOffer)> {
        self.all.iter().find_map(|server| {
            let state = server.state();
            let listing = state.listing()?;
            let found =
                listing.prompts.iter().find(|prompt| prompt.name.eq_ignore_ascii_case(name));
            Some((server, found?.clone()))
        })
    }

    /// Returns the prompts of those that answer, in order.
    #[must_use]
    pub fn prompts(&self) -> Vec<PromptOffer> {
        let listings = self.all.iter().filter_map(|server| server.state().listing().cloned());
        listings.flat_map(|listing| listing.prompts.clone()).collect()
    }

    /// Ends all of them. None is started again.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        // What has not ended by then is killed with its task.
        let _ = timeout(CLOSE_PATIENCE, self.tasks.wait()).await;
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Shows names only.
impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|server| &server.name)).finish()
    }
}
