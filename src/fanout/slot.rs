//! The life of one slot, from its permit to its one end.

#[cfg(feature = "nats")]
mod far;
mod left;
mod wished;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::caller::{Caller, Hold};
use super::closing::Closing;
use super::job::Job;
use super::parked::{Left, Parked};
use super::worktree::{NotMade, OwnTree, Place, Wanted};
use super::{Fanout, news, text};
use crate::agent::{Bounds, History, LimitSource, Opening, TurnLimit, Unit, with_files};
use crate::definition::AgentDefinition;
use crate::event::{FailureKind, Origin, Outcome, UnitEnd, UnitId};
use crate::guard::{Policy, Searches};
use crate::line::{Line, Seat};
use crate::message::Head;
use crate::model::Model;
use crate::prompt;
use crate::tool::files::Seen;
use crate::tool::{ForkPoint, Isolation, Registry, Task, ToolContext, Typed};
#[cfg(feature = "nats")]
pub(crate) use far::{Changes, Far, lived, over};
use left::{escape_notes, noted};

/// How long a unit that ran past its time may take to end by itself before it
/// is dropped where it stands.
const TIMEOUT_GRACE: Duration = Duration::from_secs(2);

/// A slot that holds its permit and has leave to start.
pub(super) struct Slot {
    fanout: Arc<Fanout>,
    line: Line,
    job: Arc<Job>,
    seat: Seat,
    depth: u32,
    is_fork: bool,
    tools: Registry,
    policy: Arc<Policy>,
    caller_model: Arc<dyn Model>,
    /// Where it works: its caller's place, or that of its own worktree.
    place: Place,
    hold: Arc<Hold>,
}

impl Slot {
    pub(super) fn new(caller: &Caller, job: Arc<Job>, seat: Seat, hold: Arc<Hold>) -> Self {
        Self {
            fanout: Arc::clone(&caller.fanout),
            line: caller.line.of(seat.unit),
            is_fork: caller.is_fork || job.is_fork(),
            policy: policy(caller, &job),
            job,
            seat,
            depth: caller.depth + 1,
            tools: caller.tools.clone(),
            caller_model: Arc::clone(&caller.model),
            place: caller.place.clone(),
            hold,
        }
    }

    /// Runs the slot and reports its end.
    pub(super) async fn run(mut self, closing: Closing) -> Option<Arc<UnitEnd>> {
        let stop = self.seat.cancel.child_token();
        let own = match self.own_tree(&stop).await {
            Ok(own) => own,
            Err(outcome) => {
                let end = self.line.ended(outcome, None).await;
                closing.hears(end.as_deref());
                return end;
            }
        };
        if let Some(own) = &own {
            self.place = own.place.clone();
            self.policy = Arc::clone(&own.policy);
        }
        let notice = own.as_ref().map(|own| Arc::clone(&own.notice));
        let (outcome, parked) = self.live(&stop, notice.as_deref()).await;
        let outcome = escape_notes(outcome);
        let (outcome, note) = match own {
            Some(own) => self.leave(own, outcome).await,
            None => (outcome, None),
        };
        let output_file = keep_whole(&self.fanout, self.seat.unit, &outcome).await;
        // Before its end is known: whoever hears of it may send a message.
        if let Some(parked) = parked.filter(|_| runs_beside(&self.job, &self.seat)) {
            self.fanout.parking.keep(self.seat.unit, parked);
        }
        let end = self.line.ended(outcome, output_file).await;
        closing.hears(end.as_deref());
        // Only now: a slot that starts on this permit must ask to start after
        // the dispatcher has been told that this one ended.
        drop(self.hold);
        end.map(|end| noted(end, note))
    }

    /// Makes the worktree that the task or the definition asks for. The error
    /// is the slot's outcome.
    async fn own_tree(&self, stop: &CancellationToken) -> Result<Option<OwnTree>, Outcome> {
        match self.isolation() {
            None => return Ok(None),
            Some(Isolation::Worktree) => {}
        }
        let wanted = Wanted {
            line: &self.line,
            place: &self.place,
            policy: &self.policy,
            former: self.job.former(),
            cancel: stop,
            jitter: self.fanout.jitter.of(self.seat.unit.0.into()),
        };
        self.fanout.worktrees.make(wanted).await.map(Some).map_err(|error| match error {
            NotMade::Cancelled => Outcome::Cancelled { ran: true },
            NotMade::Failed(message) => Outcome::failed(FailureKind::Setup, message),
        })
    }

    fn isolation(&self) -> Option<Isolation> {
        isolation(&self.fanout, &self.job)
    }

    /// Sets the unit up and runs it to its end.
    async fn live(
        &self,
        stop: &CancellationToken,
        notice: Option<&str>,
    ) -> (Outcome, Option<Parked>) {
        let timeout = self.job.timeout().or(self.fanout.limits.timeout);
        // Setting up is inside, so that its panic is this slot's, too.
        let running = async {
            let mut unit = self.set_up(stop).await?;
            let outcome = unit.run(Opening::Prompt(self.prompt(notice).await.into())).await;
            // A cancel may have overtaken news that the log holds and the
            // conversation does not; so that one cannot be continued.
            let is_whole = !matches!(outcome, Outcome::Cancelled { ran: _ });
            let parked = Parked::of(&unit, self.is_fork, &self.job, self.isolation());
            Ok((outcome, parked.filter(|_| is_whole)))
        };
        let caught = AssertUnwindSafe(Box::pin(running)).catch_unwind();
        match self.within(timeout, stop, caught).await {
            Some(Ok(Ok(ended))) => ended,
            Some(Ok(Err(outcome))) => (outcome, None),
            Some(Err(panic)) => (Outcome::failed(FailureKind::Panic, panic_message(&*panic)), None),
            None => {
                let limit = timeout.unwrap_or_default().as_secs_f64();
                let message = format!("ran past its time limit of {limit} s");
                (Outcome::failed(FailureKind::Timeout, message), None)
            }
        }
    }

    /// Runs to the end or to the time limit; `None` means the limit. At the
    /// limit the unit is asked to stop, so that its processes end with it.
    async fn within<T>(
        &self,
        timeout: Option<Duration>,
        stop: &CancellationToken,
        running: impl Future<Output = T>,
    ) -> Option<T> {
        let Some(timeout) = timeout else {
            return Some(running.await);
        };
        let mut running = std::pin::pin!(running);
        tokio::select! {
            biased;
            result = &mut running => return Some(result),
            () = self.hold.has_worked(timeout) => {}
        }
        stop.cancel();
        // However it ends now, it ended because of the limit.
        let _ = tokio::time::timeout(TIMEOUT_GRACE, running).await;
        None
    }

    /// Builds the unit. The error is the slot's outcome.
    async fn set_up(&self, stop: &CancellationToken) -> Result<Unit, Outcome> {
        let Made { model, tools, history, seen, max_turns } = match &*self.job {
            Job::Typed { task, typed, is_verbatim: _ } => self.make_typed(task, typed).await?,
            Job::Fork { task, from } => Made {
                model: Arc::clone(from.point.model()),
                tools: self.tools.clone(),
                history: History::after(from.point.base().clone()),
                seen: from.point.seen(),
                max_turns: limit_of(task, None),
            },
            Job::Continue { ended: _, parked, message: _ } => {
                let Left::Here(here) = &parked.left else {
                    unreachable!("what ended elsewhere goes on there");
                };
                Made {
                    model: Arc::clone(&here.model),
                    tools: here.tools.clone(),
                    history: History::after(here.conversation.clone()),
                    seen: self.seen_before(parked, &here.seen),
                    max_turns: here.max_turns,
                }
            }
        };
        let caller = self.caller(&tools, &model, stop);
        let point = first_point(&history, &model);
        let takes_images = model.facts().takes_images;
        // A fork has its parent's tools, but it ends as forks do.
        let answer = tools.answer().filter(|_| !self.job.is_fork()).cloned();
        self.place.workspace.files.note_name(self.seat.unit, self.job.description());
        Ok(Unit {
            persistence: self.fanout.persistence(self.seat.unit, &*model),
            agent: self.job.agent(),
            description: Arc::clone(self.job.description()),
            model,
            tools,
            answer,
            policy: Arc::clone(&self.policy),
            hooks: Arc::clone(&self.fanout.hooks),
            bounds: self.bounds(max_turns),
            context: ToolContext {
                line: self.line.clone(),
                cancel: stop.clone(),
                workspace: Arc::clone(&self.place.workspace),
                policy: Arc::clone(&self.policy),
                searches: Searches::by(&self.policy),
                seen,
                takes_images,
                skills: Arc::clone(&self.fanout.skills),
                delegate: Arc::new(caller),
                fork_point: Arc::new(point),
            },
            history,
            forked_from: match &*self.job {
                Job::Fork { from, .. } => Some(from.clone()),
                Job::Typed { .. } | Job::Continue { .. } => None,
            },
            compacting: self.fanout.compacting(&self.place),
            offers: None,
        })
    }

    /// Returns what the unit had seen before, with the files of its former worktrees as
    /// those of its own.
    fn seen_before(&self, parked: &Parked, seen: &Seen) -> Seen {
        seen.with_moved_files(|path| {
            let is_former = parked.former.iter().any(|tree| path.starts_with(tree));
            is_former.then(|| self.policy.counterpart(path)).flatten()
        })
    }

    /// Returns what starts units for this one.
    fn caller(&self, tools: &Registry, model: &Arc<dyn Model>, stop: &CancellationToken) -> Caller {
        Caller {
            fanout: Arc::clone(&self.fanout),
            line: self.line.clone(),
            depth: self.depth,
            is_fork: self.is_fork,
            tools: tools.clone(),
            policy: Arc::new(self.policy.without_leave()),
            model: Arc::clone(model),
            hold: Some(Arc::clone(&self.hold)),
            place: self.place.clone(),
            cancel: stop.clone(),
        }
    }

    fn bounds(&self, max_turns: Option<TurnLimit>) -> Bounds {
        let limits = self.fanout.limits;
        Bounds {
            max_turns: max_turns.or(turn_limit(Some(limits.max_turns), LimitSource::Config)),
            background_wait: Some(limits.background_wait),
            prime: limits.prime,
        }
    }

    async fn make_typed(&self, task: &Task, typed: &Typed) -> Result<Made, Outcome> {
        let fail = |message: String| Outcome::failed(FailureKind::Setup, message);
        let Typed { agent, is_built_in: _, model, tools, followed } = typed;
        let definition = self
            .fanout
            .definition(typed)
            .ok_or_else(|| fail(format!("agent definition `{agent}` is gone")))?;
        let model = match model.as_deref() {
            Some(name) => (self.fanout.find_model)(name).map_err(fail)?,
            None => self.wished_model(followed.as_deref(), definition).await,
        };
        if self.fanout.limits.needs_price && model.facts().price.is_none() {
            return Err(fail(unpriced(model.name())));
        }
        let tools = self.tools(tools.as_deref(), definition).answering(task.schema.as_ref());
        let prompt = self.with_skills(definition).await;
        let history = self.history(self.fanout.head(&prompt, &tools)).await?;
        let max_turns = limit_of(task, Some(definition));
        Ok(Made { model, tools, history, seen: Seen::default(), max_turns })
    }

    /// Returns the conversation that an agent of its own goes on from.
    async fn history(&self, head: Arc<Head>) -> Result<History, Outcome> {
        match self.seat.origin {
            Origin::Prompt
            | Origin::Fork
            | Origin::Continued(_)
            | Origin::Steps
            | Origin::Reused(_) => Ok(History::new(head)),
            Origin::Visible => match self.line.visible().await {
                Some(said) => Ok(History::seeing(head, &said)),
                None => {
                    Err(Outcome::failed(FailureKind::Setup, "nothing is kept of what others said"))
                }
            },
        }
    }

    /// Returns the tools that the caller has, the definition allows and the
    /// task asks for. At the depth limit there are no tools to start or tend
    /// agents with.
    fn tools(&self, asked_for: Option<&[String]>, definition: &AgentDefinition) -> Registry {
        filtered(&self.tools, (&self.fanout, self.depth), asked_for, definition)
    }

    /// Returns the unit's first message: for a conversation of its own the
    /// facts of the moment, then the task with the files it names put in. Read
    /// only now, so that queued slots hold no copies.
    ///
    /// `notice` is what a unit that goes on from a conversation must know of
    /// where it works.
    async fn prompt(&self, notice: Option<&str>) -> Arc<str> {
        let (task, fork) = match &*self.job {
            Job::Typed { task, is_verbatim: true, typed: _ } => {
                return prompt::with_facts(&self.place.environment, &task.prompt).into();
            }
            Job::Typed { task, .. } => (Arc::clone(&task.prompt), None),
            Job::Fork { task, from } => (Arc::clone(&task.prompt), Some(from)),
            // As a unit that has not ended would get it.
            Job::Continue { message, .. } => {
                return with_notice(notice, news::framed_message(message)).into();
            }
        };
        let task = with_files(&self.place.workspace, &self.policy, &task).await;
        let environment = &self.place.environment;
        match fork {
            // The facts of the moment are in what it goes on from.
            Some(fork) if !fork.point.base().entries.is_empty() => {
                prompt::directive(&with_notice(notice, task)).into()
            }
            Some(_) => prompt::with_facts(environment, &prompt::directive(&task)).into(),
            None => prompt::with_facts(environment, &task).into(),
        }
    }
}

/// Keeps the answer in a file, on a thread that may block.
async fn keep_whole(fanout: &Fanout, unit: UnitId, outcome: &Outcome) -> Option<Arc<str>> {
    let (workspace, outcome) = (Arc::clone(&fanout.workspace), outcome.clone());
    let keep = move || text::keep_whole(&outcome, &workspace.spill, unit);
    tokio::task::spawn_blocking(keep).await.ok().flatten()
}

/// Returns the tools of a unit that `caller` starts at this depth, as in [`Slot::tools`].
pub(super) fn tools_of(
    caller: &Caller,
    depth: u32,
    asked_for: Option<&[String]>,
    definition: &AgentDefinition,
) -> Registry {
    filtered(&caller.tools, (&caller.fanout, depth), asked_for, definition)
}

fn filtered(
    tools: &Registry,
    (fanout, depth): (&Fanout, u32),
    asked_for: Option<&[String]>,
    definition: &AgentDefinition,
) -> Registry {
    let others = fanout.servers.other_names();
    tools.filtered(|name| {
        definition.has(name, others)
            && asked_for.is_none_or(|tools| others.lists(tools, name))
            && (!crate::tool_name::is_for_agents(name) || depth < fanout.limits.max_depth)
    })
}

/// Tells whether a unit's caller goes on without it.
fn runs_beside(job: &Job, seat: &Seat) -> bool {
    job.is_background() || seat.aside.is_cancelled()
}

/// Returns what keeps a unit's changes from others: as the task asks for, or the
/// definition.
pub(super) fn isolation(fanout: &Fanout, job: &Job) -> Option<Isolation> {
    let by_definition = || match job {
        Job::Typed { typed, .. } => fanout.definition(typed)?.isolation,
        Job::Fork { .. } | Job::Continue { .. } => None,
    };
    job.isolation().or_else(by_definition)
}

/// Returns what a unit may do: what its caller may, less what its definition
/// takes away. One that goes on may do no more than it could before.
pub(super) fn policy(caller: &Caller, job: &Job) -> Arc<Policy> {
    match job {
        Job::Typed { task: _, typed, is_verbatim: _ } => {
            match caller.fanout.definition(typed) {
                Some(definition) => {
                    let policy =
                        caller.policy.narrowed(definition.permission_mode, &definition.denied);
                    Arc::new(match &typed.followed {
                        Some(followed) => policy.with_leave(&followed.leave),
                        None => policy,
                    })
                }
                // It fails when it is set up.
                None => Arc::clone(&caller.policy),
            }
        }
        Job::Fork { task: _, from: _ } => Arc::clone(&caller.policy),
        Job::Continue { parked, .. } => Arc::new(parked.policy.within(&caller.policy)),
    }
}

fn with_notice(notice: Option<&str>, text: String) -> String {
    notice.map_or_else(|| text.clone(), |notice| format!("{notice}\n\n{text}"))
}

/// What is different from one kind of unit to another.
struct Made {
    model: Arc<dyn Model>,
    tools: Registry,
    history: History,
    seen: Seen,
    /// What the task or the definition asks for.
    max_turns: Option<TurnLimit>,
}

/// Returns the most turns that a task asks for, or else its definition.
pub(super) fn limit_of(
    task: &Task,
    definition: Option<&Arc<AgentDefinition>>,
) -> Option<TurnLimit> {
    let of_definition = definition.and_then(|definition| definition.max_turns);
    turn_limit(task.max_turns, LimitSource::Task)
        .or(turn_limit(of_definition, LimitSource::Definition))
}

fn turn_limit(most: Option<u32>, source: LimitSource) -> Option<TurnLimit> {
    most.map(|most| TurnLimit { most, source })
}

/// Says why a model cannot be used where the run's money is limited.
pub(super) fn unpriced(model: &str) -> String {
    format!(
        "the price of `{model}` is not known, so `--max-budget-usd` could not hold; set \
         `models.{model}.price`, or choose another model"
    )
}

/// Reports the end of a slot that was cancelled before it started.
pub(crate) async fn never_ran(line: &Line) -> Option<Arc<UnitEnd>> {
    line.ended(Outcome::Cancelled { ran: false }, None).await
}

/// Where forks would begin before the first answer.
fn first_point(history: &History, model: &Arc<dyn Model>) -> ForkPoint {
    ForkPoint::new(history.prefix().clone(), &Seen::default(), Arc::clone(model))
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    format!("panicked: {message}")
}
