//! `tine mcp serve`: tine's own batch as a tool of a server, over standard
//! input and output.
//!
//! Each call is a run of its own, whose main starts the batch and does nothing
//! else. All of them share one pool and the gates of their models. Nobody can
//! be asked: what no rule allows is denied. Standard output carries the
//! protocol and nothing else.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ProgressToken, ServerCapabilities, ServerConfig, Tool as RemoteTool,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::progress::{Finished, Progress, Telling};
use crate::agent::Opening;
use crate::cli::args::RunFlags;
use crate::cli::exit::{Exit, Refusal};
use crate::cli::model::DefaultModel;
use crate::cli::start::{Kept, Start};
use crate::cli::{print, signals, telemetry};
use crate::config::Environment;
use crate::event::Outcome;
use crate::mcp::ClientLink;
use crate::prompt;
use crate::run::Signal;
use crate::tool::coerce::coerce;
use crate::tool::{AgentCall, Known, Task, Tool as _};

/// The name of the tool.
const RUN_BATCH: &str = "run_batch";

/// Most signals that wait for a run.
const SIGNALS_CAP: usize = 8;

/// Most calls that run. Each is a run with threads and files of its own, and
/// the pool lets no more than `agents.max_concurrent` of their tasks run in any
/// case. The others wait.
const RUNNING_CAP: usize = 32;

/// Most calls that wait for their turn. They hold their tasks and nothing else.
const WAITING_CAP: usize = 1_024;

/// How long batches may go on once the client has closed its end: it may have
/// written its calls and listen still, and what is done by then it gets whole.
/// Nobody pays longer for a client that is gone.
const LAST_PATIENCE: Duration = Duration::from_millis(500);

/// How long batches may take to end once they are stopped.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// Serves until the client closes standard input or a signal comes.
pub(super) fn run(environment: &Environment, flags: RunFlags) -> Result<Exit, Refusal> {
    // Each call is a session of its own: a second one cannot have the first's name.
    if flags.session_id.is_some() || flags.name.is_some() {
        return Err(Refusal::new(Exit::Usage, "each call is a session of its own")
            .hint("leave `--session-id` and `--name` out"));
    }
    // What is wrong is said now, and not with the first call.
    let start = Start::new(environment, flags.clone(), DefaultModel::None)?;
    let runtime = print::runtime()?;
    let kept = start.kit.goes_on();
    let known = Known {
        agents: start.kit.definitions.names(),
        tools: start.kit.tools.names().map(str::to_owned).collect(),
    };
    let batch = Batch {
        environment: environment.clone(),
        flags,
        kept: kept.clone(),
        known,
        parameters: parameters(&start),
        ended: CancellationToken::new(),
        stop: CancellationToken::new(),
        running: TaskTracker::new(),
        turns: Arc::new(Semaphore::new(RUNNING_CAP)),
        waiting: Semaphore::new(WAITING_CAP),
    };
    drop(start);
    let exit = runtime.block_on(serve(batch));
    runtime.block_on(kept.servers.close());
    runtime.block_on(telemetry::close(kept.exporter.as_ref(), exit.as_ref().ok().copied()));
    runtime.shutdown_timeout(print::SHUTDOWN_GRACE);
    exit
}

async fn serve(batch: Batch) -> Result<Exit, Refusal> {
    let refuse = |what: &str, error: &dyn std::fmt::Display| {
        Refusal::new(Exit::Error, format!("cannot {what}: {error}"))
    };
    let mut signals = signals::listen().map_err(|error| refuse("listen to signals", &error))?;
    let (stop, running) = (batch.stop.clone(), batch.running.clone());
    let ended = batch.ended.clone();
    let link = ClientLink::new(tokio::io::stdin(), tokio::io::stdout(), ended.clone());
    let serving = tokio::select! {
        biased;
        Some(signal) = signals.recv() => return Ok(Exit::after(signal)),
        serving = batch.serve(link) => serving,
    };
    let serving = match serving {
        Ok(serving) => serving,
        // A client that says nothing wants nothing.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(Exit::Done),
        Err(error) => return Err(refuse("serve", &error)),
    };
    let stopping = async {
        ended.cancelled().await;
        tokio::time::sleep(LAST_PATIENCE).await;
        stop.cancel();
        std::future::pending::<Infallible>().await
    };
    let exit = tokio::select! {
        biased;
        Some(signal) = signals.recv() => Exit::after(signal),
        _ = serving.waiting() => Exit::Done,
        never = stopping => match never {},
    };
    stop.cancel();
    running.close();
    // What has not ended by then ends with the process.
    let _ = tokio::time::timeout(END_PATIENCE, running.wait()).await;
    Ok(exit)
}

/// Returns the schema of the tool's arguments: the batch form of the Agent call.
fn parameters(start: &Start) -> Map<String, Value> {
    let agent = start.kit.tools.find("Agent").map(|(_, tool)| tool.schema());
    let agent = agent.unwrap_or_else(|| crate::tool::agent::Agent::new([]).schema());
    let all: Value = serde_json::from_str(agent.parameters.get()).unwrap_or_default();
    let mut tasks = all["properties"]["tasks"].clone();
    if let Some(properties) = tasks["items"]["properties"].as_object_mut() {
        properties.remove("run_in_background");
    }
    let schema =
        json!({ "type": "object", "properties": { "tasks": tasks }, "required": ["tasks"] });
    schema.as_object().cloned().unwrap_or_default()
}

/// Answers calls.
struct Batch {
    environment: Environment,
    flags: RunFlags,
    kept: Kept,
    known: Known,
    parameters: Map<String, Value>,
    /// Fires when the client says nothing any more.
    ended: CancellationToken,
    /// Fires when batches are to end.
    stop: CancellationToken,
    running: TaskTracker,
    /// Who has one may run.
    turns: Arc<Semaphore>,
    /// Who has one may wait for its turn.
    waiting: Semaphore,
}

impl ServerHandler for Batch {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("tine", env!("CARGO_PKG_VERSION")))
            .with_instructions(prompt::serve_instructions())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let agents = self.known.agents.join(", ");
        let description = prompt::run_batch(&agents);
        let tool = RemoteTool::new(RUN_BATCH, description, Arc::new(self.parameters.clone()));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != RUN_BATCH {
            let message = format!("there is no tool `{}`", request.name);
            return Err(ErrorData::invalid_params(message, None));
        }
        let mut arguments = Value::Object(request.arguments.unwrap_or_default());
        let schema = Value::Object(self.parameters.clone()).to_string();
        coerce(&mut arguments, &schema);
        let tasks = match tasks(&arguments, &self.known) {
            Ok(tasks) => tasks,
            Err(why) => return Ok(error(why).into()),
        };
        let result = match self.run_batch(tasks, &context).await {
            Ok(finished) => result(&finished),
            Err(refusal) => error(refusal.message),
        };
        Ok(result.into())
    }
}

impl Batch {
    /// Waits for a turn, for as long as the client wants the answer.
    async fn turn(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<OwnedSemaphorePermit, Refusal> {
        let _waiting = self.waiting.try_acquire().map_err(|_| {
            Refusal::new(Exit::Error, format!("{WAITING_CAP} calls wait for their turn already"))
        })?;
        let cancelled = || Refusal::new(Exit::Error, "cancelled before it began");
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(cancelled()),
            () = self.stop.cancelled() => Err(cancelled()),
            turn = Arc::clone(&self.turns).acquire_owned() => {
                Ok(turn.expect("the semaphore is never closed"))
            }
        }
    }

    /// Runs a batch, and tells the client of each slot's end if it wants that.
    async fn run_batch(
        &self,
        tasks: Vec<Task>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Finished, Refusal> {
        let turn = self.turn(context).await?;
        let (environment, flags) = (self.environment.clone(), self.flags.clone());
        let kept = self.kept.clone();
        let (telling, mut told) = mpsc::unbounded_channel();
        let (signals, arriving) = mpsc::channel(SIGNALS_CAP);
        let opening = tokio::task::spawn_blocking(move || {
            let start = Start::again(&environment, flags, kept)?;
            let request = format!("{RUN_BATCH}: {} tasks", tasks.len());
            let opening = Opening::Batch { tasks, request: request.as_str().into() };
            start.run_for(&request, opening.into(), Box::new(Telling::new(telling)), arriving)
        });
        let (run, scratch) = opening.await.expect("a run is put together without panics")?;
        let running = self.running.spawn(async move {
            let end = run.go().await;
            // Only now: until here some unit may still have been writing there.
            drop(scratch);
            drop(turn);
            end
        });
        let (progress, coming) = mpsc::unbounded_channel();
        let telling =
            tokio::spawn(tell(context.peer.clone(), context.meta.get_progress_token(), coming));
        let telling = AbortOnDropHandle::new(telling);
        let mut is_stopped = false;
        let finished = loop {
            tokio::select! {
                biased;
                () = context.ct.cancelled(), if !is_stopped => is_stopped = stop(&signals),
                () = self.stop.cancelled(), if !is_stopped => is_stopped = stop(&signals),
                news = told.recv() => match news {
                    Some(Progress::Ended { ended, total, message }) => {
                        // Nobody listens where none is wanted.
                        let _ = progress.send((ended, total, message));
                    }
                    Some(Progress::Over(finished)) => break Some(*finished),
                    None => break None,
                }
            }
        };
        // The log is closed with this.
        let _ = running.await;
        drop(progress);
        tokio::select! {
            biased;
            // The library sends nothing more of its own.
            () = self.ended.cancelled() => {}
            () = context.ct.cancelled() => {}
            // What is told of a batch comes before its answer.
            _ = telling => {}
        }
        finished.ok_or_else(|| Refusal::new(Exit::Error, "the batch broke off"))
    }
}

/// Ends a run.
fn stop(signals: &mpsc::Sender<Signal>) -> bool {
    // A run that has so many of them is about to end.
    let _ = signals.try_send(Signal::Terminate);
    true
}

/// Tells the client of each slot's end, if it has asked for that. In a task of
/// its own: once the client says nothing any more the library sends no progress,
/// and whoever waited for that would never answer.
async fn tell(
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    mut coming: mpsc::UnboundedReceiver<(u32, u32, String)>,
) {
    let Some(token) = token else { return };
    while let Some((ended, total, message)) = coming.recv().await {
        let progress = ProgressNotificationParam::new(token.clone(), ended.into())
            .with_total(total.into())
            .with_message(message);
        // A client that is gone hears nothing.
        let _ = peer.notify_progress(progress).await;
    }
}

fn tasks(arguments: &Value, known: &Known) -> Result<Vec<Task>, String> {
    match AgentCall::parse(arguments, known)? {
        AgentCall::Batch(tasks) if tasks.iter().any(|task| task.is_background) => Err(
            "Parameter \"run_in_background\" means nothing here: the call ends with its last task."
                .to_owned(),
        ),
        AgentCall::Batch(tasks) => Ok(tasks),
        AgentCall::One(_) => Err("Parameter \"tasks\" is missing.".to_owned()),
    }
}

fn error(why: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}

fn result(finished: &Finished) -> CallToolResult {
    let Finished { end, slots } = finished;
    let (text, status) = match &end.outcome {
        Outcome::Done { text } => (text.to_string(), "completed"),
        Outcome::Failed(failure) => (failure.message.to_string(), "failed"),
        Outcome::Cancelled { .. } | Outcome::Interrupted => ("cancelled".to_owned(), "cancelled"),
    };
    let is_well = slots.iter().any(|slot| slot["status"] == "completed");
    let mut result = match is_well {
        true => CallToolResult::success(vec![ContentBlock::text(text)]),
        false => CallToolResult::error(vec![ContentBlock::text(text)]),
    };
    result.structured_content = Some(json!({ "status": status, "slots": slots }));
    result
}
