//! The life of one slot, from its permit to its one end.

use std::io;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::caller::{Caller, Hold};
use super::{Fanout, text};
use crate::agent::{History, Unit};
use crate::definition::AgentDefinition;
use crate::event::{FailureKind, NoticeLevel, Outcome, UnitEnd};
use crate::guard::{Decision, Effect, Policy};
use crate::line::{Line, Seat, Told};
use crate::model::Model;
use crate::tool::files::Seen;
use crate::tool::{Registry, Task, ToolContext, Workspace, regular};

/// How long a unit that ran past its time may take to end by itself before it
/// is dropped where it stands.
const TIMEOUT_GRACE: Duration = Duration::from_secs(2);

/// Most bytes of a file that are read for a prompt. Less is put in, and what
/// is left out is counted.
const READ_CAP: u64 = 16 * 1024 * 1024;

/// A slot that holds its permit and has leave to start.
pub(super) struct Slot {
    fanout: Arc<Fanout>,
    line: Line,
    task: Task,
    seat: Seat,
    depth: u32,
    tools: Registry,
    policy: Arc<Policy>,
    caller_model: Arc<dyn Model>,
    hold: Arc<Hold>,
}

impl Slot {
    pub(super) fn new(caller: &Caller, task: Task, seat: Seat, hold: Hold) -> Self {
        Self {
            fanout: Arc::clone(&caller.fanout),
            line: caller.line.of(seat.unit),
            task,
            seat,
            depth: caller.depth + 1,
            tools: caller.tools.clone(),
            policy: Arc::clone(&caller.policy),
            caller_model: Arc::clone(&caller.model),
            hold: Arc::new(hold),
        }
    }

    /// Runs the slot and reports its end.
    pub(super) async fn run(self) -> Option<Arc<UnitEnd>> {
        let stop = self.seat.cancel.child_token();
        let timeout = self.task.timeout.or(self.fanout.limits.timeout);
        // Setting up is inside, so that its panic is this slot's, too.
        let running = async { Ok(self.set_up(&stop).await?.run(self.prompt().await).await) };
        let caught = AssertUnwindSafe(Box::pin(running)).catch_unwind();
        let outcome = match within(timeout, &stop, caught).await {
            Some(Ok(Ok::<Outcome, Outcome>(outcome) | Err(outcome))) => outcome,
            Some(Err(panic)) => Outcome::failed(FailureKind::Panic, panic_message(&*panic)),
            None => {
                let limit = timeout.unwrap_or_default().as_secs_f64();
                Outcome::failed(
                    FailureKind::Timeout,
                    format!("ran past its time limit of {limit} s"),
                )
            }
        };
        let output_file = self.keep_whole(&outcome).await;
        let end = self.line.ended(outcome, output_file).await;
        // Only now: a slot that starts on this permit must ask to start after
        // the dispatcher has been told that this one ended.
        drop(self.hold);
        end
    }

    /// Keeps the answer in a file, on a thread that may block.
    async fn keep_whole(&self, outcome: &Outcome) -> Option<Arc<str>> {
        let (workspace, outcome) = (Arc::clone(&self.fanout.workspace), outcome.clone());
        let unit = self.seat.unit;
        let keep = move || text::keep_whole(&outcome, &workspace.spill, unit);
        tokio::task::spawn_blocking(keep).await.ok().flatten()
    }

    /// Builds the unit. The error is the slot's outcome.
    async fn set_up(&self, stop: &CancellationToken) -> Result<Unit, Outcome> {
        let fail = |message: String| Outcome::failed(FailureKind::Setup, message);
        let definition = self
            .fanout
            .definitions
            .find(&self.task.agent)
            .ok_or_else(|| fail(format!("agent definition `{}` is gone", self.task.agent)))?;
        let model = self.model(definition).await.map_err(fail)?;
        let tools = self.tools(definition);
        let caller = Caller {
            fanout: Arc::clone(&self.fanout),
            line: self.line.clone(),
            depth: self.depth,
            tools: tools.clone(),
            policy: Arc::clone(&self.policy),
            model: Arc::clone(&model),
            hold: Some(Arc::clone(&self.hold)),
            cancel: stop.clone(),
        };
        let history = History::new(self.fanout.head(&definition.prompt, &tools));
        let max_turns = self.task.max_turns.or(definition.max_turns);
        Ok(Unit {
            agent: Arc::clone(&self.task.agent),
            description: Arc::clone(&self.task.description),
            model,
            tools,
            policy: Arc::clone(&self.policy),
            max_turns: Some(max_turns.unwrap_or(self.fanout.limits.max_turns)),
            context: ToolContext {
                line: self.line.clone(),
                cancel: stop.clone(),
                workspace: Arc::clone(&self.fanout.workspace),
                seen: Seen::default(),
                skills: Arc::clone(&self.fanout.skills),
                delegate: Arc::new(caller),
            },
            history,
        })
    }

    /// Returns the model that the task asks for, else the definition's, else the
    /// caller's. A definition may come from people who use other models; then
    /// the caller's does its work.
    async fn model(&self, definition: &AgentDefinition) -> Result<Arc<dyn Model>, String> {
        if let Some(name) = self.task.model.as_deref() {
            return (self.fanout.find_model)(name);
        }
        let Some(name) = definition.model.as_deref() else {
            return Ok(Arc::clone(&self.caller_model));
        };
        match (self.fanout.find_model)(name) {
            Ok(model) => Ok(model),
            Err(_) => {
                let own = self.caller_model.name();
                let text = format!(
                    "agent `{}` asks for the model `{name}`, which is not configured; it uses \
                     `{own}`",
                    definition.name
                );
                let level = NoticeLevel::Warning;
                self.line.tell(Told::Notice { level, text: text.into() }).await;
                Ok(Arc::clone(&self.caller_model))
            }
        }
    }

    /// Returns the tools that the caller has, the definition allows and the
    /// task asks for. At the depth limit there is no Agent tool to call.
    fn tools(&self, definition: &AgentDefinition) -> Registry {
        let lists = |list: &[String], name: &str| {
            list.iter()
                .any(|listed| crate::tool::registry::canonical(listed).eq_ignore_ascii_case(name))
        };
        self.tools.filtered(|name| {
            definition.tools.as_deref().is_none_or(|tools| lists(tools, name))
                && self.task.tools.as_deref().is_none_or(|tools| lists(tools, name))
                && !lists(&definition.disallowed_tools, name)
                && (name != "Agent" || self.depth < self.fanout.limits.max_depth)
        })
    }

    /// Returns the unit's first message: the facts of the moment, then the
    /// task with the files it names put in. Read only now, so that queued
    /// slots hold no copies, and on a thread that may block.
    async fn prompt(&self) -> Arc<str> {
        let (workspace, policy) = (Arc::clone(&self.fanout.workspace), Arc::clone(&self.policy));
        let task = Arc::clone(&self.task.prompt);
        let attaching = tokio::task::spawn_blocking(move || {
            crate::prompt::attach(&task, |path| attached(&workspace, &policy, path))
        });
        let task = attaching.await.expect("a prompt is put together without panics");
        format!("{}\n\n{task}", self.fanout.surroundings.environment).into()
    }
}

/// Reads a file that a prompt names, as far as this unit may read it.
fn attached(workspace: &Workspace, policy: &Policy, path: &Path) -> io::Result<Vec<u8>> {
    let place = workspace.root.join(path);
    place.symlink_metadata()?;
    let arguments = serde_json::json!({"file_path": path.to_string_lossy()});
    match policy.decide("Read", Effect::Reads, &arguments) {
        Decision::Allow => regular::read(workspace, &place, READ_CAP).map_err(io::Error::other),
        Decision::Deny { reason } => Err(io::Error::new(io::ErrorKind::PermissionDenied, reason)),
    }
}

/// Reports the end of a slot that was cancelled before it started.
pub(super) async fn never_ran(line: &Line) -> Option<Arc<UnitEnd>> {
    line.ended(Outcome::Cancelled { ran: false }, None).await
}

/// Runs to the end or to the time limit; `None` means the limit. At the limit
/// the unit is asked to stop, so that its processes end with it.
async fn within<T>(
    timeout: Option<Duration>,
    stop: &CancellationToken,
    running: impl Future<Output = T>,
) -> Option<T> {
    let Some(timeout) = timeout else {
        return Some(running.await);
    };
    let mut running = std::pin::pin!(running);
    if let Ok(result) = tokio::time::timeout(timeout, &mut running).await {
        return Some(result);
    }
    stop.cancel();
    // However it ends now, it ended because of the limit.
    let _ = tokio::time::timeout(TIMEOUT_GRACE, running).await;
    None
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    format!("panicked: {message}")
}
