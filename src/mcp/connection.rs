//! One connection to a server, from the handshake to its end.
//!
//! The protocol's library does not notice that a server has died, so whatever
//! waits here waits for the end of the conversation, too.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, CustomRequest, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability,
    Implementation, ProtocolVersion, ServerResult,
};
use rmcp::service::{
    NotificationContext, Peer, PeerRequestOptions, RequestContext, RequestHandle, RunningService,
    ServiceError,
};
use rmcp::transport::Transport;
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::elicitation::{Called, Elicitations, Elicited};
use super::entry::Launch;
use super::link::{Channel, Link, Noise};
use super::listing::{LISTED_CAP, Listing, TOOLS_CAP};
use super::name::Label;
use super::program::{Program, Started, Surroundings};
use super::watched::{Over, Watched};
use super::{Cause, Failed, failure, http};
use crate::hook::Footing;
use crate::path_text;

/// Most pages of a list that are asked for. A server that never ends one is
/// left at that.
const PAGES_CAP: usize = 32;

/// How long a server may take to say what it offers besides tools.
const REST_PATIENCE: Duration = Duration::from_secs(2);

/// How long a server may take to hear that a call is cancelled. Nobody waits
/// for it.
const CANCEL_PATIENCE: Duration = Duration::from_secs(1);

/// How a server is reached.
pub(super) enum Way {
    /// As it is configured.
    Launch(Launch),
    /// By whatever opens a channel.
    Channel(Arc<dyn Open>),
}

/// Opens channels to a server that something else carries: a client's control
/// channel, a test.
pub trait Open: Send + Sync {
    /// Opens a new channel, over which the whole protocol is spoken from its
    /// beginning.
    ///
    /// # Errors
    ///
    /// Why there is none, in words.
    fn open(&self) -> Result<Channel, String>;
}

/// A connection that has shaken hands. A clone is the same one.
#[derive(Clone)]
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    /// Why it is over, once it is.
    over: watch::Receiver<Option<Arc<str>>>,
    stop: CancellationToken,
    tasks: TaskTracker,
    elicitations: Arc<Elicitations>,
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoAnswer {
    /// It was cancelled.
    Cancelled,
    /// The server took too long.
    TooLong,
    /// The connection ended meanwhile; why.
    Gone(Arc<str>),
    /// The server refused, or answered with something else.
    Refused(String),
    /// The server is not started, because a file that it names has changed; which one.
    NotStarted(Arc<str>),
}

/// Says what a server may be told of its client.
struct Handler {
    /// Told that the server's lists have changed.
    changed: mpsc::Sender<()>,
    /// Where its questions to people go.
    elicitations: Arc<Elicitations>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        // No sampling, no roots, and no elicitation by a page of the web: what is
        // not announced is not asked for. What is asked all the same is declined.
        let form = ElicitationCapability::new().with_form(FormElicitationCapability::new());
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(form);
        let own = Implementation::new("tine", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, own)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { .. } = request else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        // What it asks was taken as it came, so that questions keep their order.
        let said = tokio::select! {
            biased;
            () = context.ct.cancelled() => Elicited::Cancelled,
            said = self.elicitations.answer(&context.id) => said,
        };
        Ok(match said {
            Elicited::Given(content) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
            }
            Elicited::Declined => ElicitResult::new(ElicitationAction::Decline),
            Elicited::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
        })
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        // One that waits says the same.
        let _ = self.changed.try_send(());
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.changed.try_send(());
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.changed.try_send(());
    }
}

impl Connection {
    /// Connects, for as long as it takes: whoever calls this limits it. A program is held to what
    /// the user has `accepted` of its files, or to what they were when the run began.
    pub(super) async fn open(
        way: &Way,
        accepted: Option<&Footing>,
        surroundings: &Surroundings,
        (changed, noise): (mpsc::Sender<()>, &Arc<Noise>),
        tasks: &TaskTracker,
    ) -> Result<Self, Failed> {
        let elicitations = Arc::new(Elicitations::default());
        let handler = Handler { changed, elicitations: Arc::clone(&elicitations) };
        let (running, over_now, program) = match way {
            Way::Launch(launch @ Launch::Program { .. }) => {
                let started = Started::of(launch, surroundings);
                let started = started.expect("it is a program");
                // What an agent has written since must not run.
                if let Some(file) = accepted.unwrap_or(started.footing).changed_file().await {
                    return Err(Failed::changed(&path_text::shown(&surroundings.directory, &file)));
                }
                let (channel, program) = Program::start(&started, tasks)
                    .map_err(|error| Failed::new(format!("`{}`: {error}", started.program)))?;
                match shake_hands(handler, Link::new(channel, Arc::clone(noise))).await {
                    Ok((running, over)) => (running, over, Some(program)),
                    Err(failed) => {
                        let words = program.end().await;
                        return Err(Failed::new(format!("{}; {words}", failed.why)));
                    }
                }
            }
            Way::Launch(Launch::Http { url, headers }) => {
                let transport = http::transport(url, headers).map_err(Failed::new)?;
                let (running, over) = shake_hands(handler, transport).await?;
                (running, over, None)
            }
            Way::Channel(open) => {
                let channel = open.open().map_err(Failed::new)?;
                let (running, over) =
                    shake_hands(handler, Link::new(channel, Arc::clone(noise))).await?;
                (running, over, None)
            }
        };
        let peer = running.peer().clone();
        let (tell, over) = watch::channel(None);
        let stop = CancellationToken::new();
        tasks.spawn(tend((running, program), over_now, stop.clone(), tell));
        Ok(Self { peer, over, stop, tasks: tasks.clone(), elicitations })
    }

    /// Waits until it is over, and returns why.
    pub(super) async fn ended(&self) -> Arc<str> {
        let mut over = self.over.clone();
        let why = over.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        why.unwrap_or_else(|| "the connection is over".into())
    }

    /// Says that a call begins, under which the server may ask people.
    pub(super) fn called(&self) -> Called<'_> {
        self.elicitations.called()
    }

    /// Returns why it is over; `None` if it is not.
    pub(super) fn over(&self) -> Option<Arc<str>> {
        self.over.borrow().clone()
    }

    /// Begins to end it.
    pub(super) fn close(&self) {
        self.stop.cancel();
    }

    /// Returns what the server offers.
    pub(super) async fn list(&self, label: &Label) -> Result<Listing, NoAnswer> {
        let info = self.peer.peer_info();
        let has = |capability: &str| {
            let info = info.as_deref().and_then(|info| serde_json::to_value(info).ok());
            info.is_some_and(|info| info["capabilities"].get(capability).is_some())
        };
        let (has_tools, has_prompts, has_resources) =
            (has("tools"), has("prompts"), has("resources"));
        let tools = async {
            match has_tools {
                true => self.pages("tools/list", "tools", 2 * TOOLS_CAP).await,
                false => Ok(Vec::new()),
            }
        };
        // A server without its tools is no use; without the rest it is some.
        let rest = async |is_there, method, key| {
            let asking = async {
                match is_there {
                    true => self.pages(method, key, LISTED_CAP).await.unwrap_or_default(),
                    false => Vec::new(),
                }
            };
            timeout(REST_PATIENCE, asking).await.unwrap_or_default()
        };
        let (tools, prompts, resources) = tokio::join!(
            tools,
            rest(has_prompts, "prompts/list", "prompts"),
            rest(has_resources, "resources/list", "resources"),
        );
        let tools = tools?;
        Ok(Listing::read(label, &tools, &prompts, &resources))
    }

    /// Asks for a list, page by page, until there are so many or no more.
    async fn pages(&self, method: &str, key: &str, most: usize) -> Result<Vec<Value>, NoAnswer> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES_CAP {
            let parameters = match &cursor {
                Some(cursor) => json!({ "cursor": cursor }),
                None => json!({}),
            };
            let cancel = CancellationToken::new();
            // What the library sends is large, and so is whatever holds it.
            let page = Box::pin(self.request(method, parameters, pending(), &cancel)).await?;
            match page.get(key) {
                Some(Value::Array(items)) => all.extend(items.iter().cloned()),
                // The empty list of Go.
                Some(Value::Null) => {}
                Some(_) | None => {
                    let why = format!("it answered `{method}` without `{key}`");
                    return Err(NoAnswer::Refused(why));
                }
            }
            let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            if next.is_none() || next == cursor || all.len() >= most {
                break;
            }
            cursor = next;
        }
        Ok(all)
    }

    /// Sends a request and returns its result, whatever that is. `too_long`
    /// comes once the server has had its time.
    pub(super) async fn request(
        &self,
        method: &str,
        parameters: Value,
        too_long: impl Future<Output = ()>,
        cancel: &CancellationToken,
    ) -> Result<Value, NoAnswer> {
        let request = CustomRequest::new(method, Some(parameters));
        let request = ClientRequest::CustomRequest(request);
        let mut handle = None;
        let answering = async {
            let options = PeerRequestOptions::no_options();
            let sent = self.peer.send_cancellable_request(request, options).await?;
            let handle = handle.insert(sent);
            (&mut handle.rx).await.unwrap_or(Err(ServiceError::TransportClosed))
        };
        let ended = tokio::select! {
            biased;
            answer = answering => match answer {
                Ok(result) => return value(&result),
                Err(error) => self.refused(error).await,
            },
            () = cancel.cancelled() => NoAnswer::Cancelled,
            why = self.ended() => NoAnswer::Gone(why),
            () = too_long => NoAnswer::TooLong,
        };
        match (&ended, handle) {
            (NoAnswer::Cancelled, Some(handle)) => self.tell_cancelled(handle, "cancelled"),
            (NoAnswer::TooLong, Some(handle)) => self.tell_cancelled(handle, "it took too long"),
            (NoAnswer::Cancelled | NoAnswer::TooLong, None)
            | (NoAnswer::Gone(_) | NoAnswer::Refused(_) | NoAnswer::NotStarted(_), _) => {}
        }
        Err(ended)
    }

    /// Tells the server that nobody waits any more. Nobody waits for that.
    fn tell_cancelled(&self, handle: RequestHandle<RoleClient>, why: &str) {
        let why = why.to_owned();
        self.tasks.spawn(async move {
            // A server that hears nothing is not told.
            let _ = timeout(CANCEL_PATIENCE, handle.cancel(Some(why))).await;
        });
    }

    async fn refused(&self, error: ServiceError) -> NoAnswer {
        if let ServiceError::McpError(error) = error {
            return NoAnswer::Refused(failure::of_server(&error));
        }
        // Why it is over is known in a moment.
        let mut over = self.over.clone();
        match timeout(CANCEL_PATIENCE, over.wait_for(Option::is_some)).await {
            Ok(Ok(why)) => NoAnswer::Gone(why.clone().unwrap_or_default()),
            Ok(Err(_)) | Err(_) => NoAnswer::Refused(failure::of_request(&error)),
        }
    }
}

/// Waits for the end of a connection, and tells why it is over.
async fn tend(
    (running, program): (RunningService<RoleClient, Handler>, Option<Program>),
    over: Over,
    stop: CancellationToken,
    tell: watch::Sender<Option<Arc<str>>>,
) {
    let is_asked = tokio::select! {
        biased;
        () = stop.cancelled() => true,
        () = over.wait() => false,
    };
    // The library ends its side with this.
    drop(running);
    let how = match program {
        Some(program) => {
            let how = program.end().await;
            over.why().unwrap_or(how)
        }
        None if over.why().is_some() => over.why().unwrap_or_default(),
        None if is_asked => "it was closed".to_owned(),
        None => "it ended the connection".to_owned(),
    };
    tell.send_replace(Some(how.into()));
}

/// Shakes hands over a transport. What comes with it fires once it is over.
async fn shake_hands<T>(
    handler: Handler,
    transport: T,
) -> Result<(RunningService<RoleClient, Handler>, Over), Failed>
where
    T: Transport<RoleClient> + Send + 'static,
{
    let (transport, over) = Watched::new(transport, Arc::clone(&handler.elicitations));
    let running = rmcp::serve_client(handler, transport).await;
    let running = running.map_err(|error| Failed {
        cause: match error.is_authorization_required() {
            true => Cause::NeedsAuth,
            false => Cause::Other,
        },
        why: over.why().unwrap_or_else(|| failure::of_handshake(&error)).into(),
    })?;
    Ok((running, over))
}

/// Returns the answer as JSON: what it means, the caller finds out.
fn value(result: &ServerResult) -> Result<Value, NoAnswer> {
    match serde_json::to_value(result) {
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(value) => Ok(value),
        Err(why) => Err(NoAnswer::Refused(format!("its answer cannot be read: {why}"))),
    }
}
