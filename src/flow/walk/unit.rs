//! An agent of a flow as a unit: what it is declared as, whether an earlier walk
//! had its answer already, and how it is run.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::came::{Came, of_step};
use super::trail::Trail;
use super::{STOPPED, Stand};
use crate::definition::Definitions;
use crate::event::{FailureKind, Origin, Outcome, StepDigest, StepMark, UnitEnd, UnitId};
use crate::fanout::{self, Begins, Caller, Closing, Job, Submitted};
use crate::flow::UNFILLED;
use crate::flow::finished::Done;
use crate::flow::step::{AgentStep, Sees};
use crate::line::{Budget, Child, Seat, Strand};
use crate::tool::{Isolation, Task, TaskKind, Typed};

/// What an agent is asked, known before it is declared.
pub(super) struct Asked {
    mark: StepMark,
    /// What an earlier walk came to that asked the very same.
    done: Option<Done>,
}

impl Asked {
    /// Finds out what an agent is asked where it stands. The words are not kept:
    /// they are put together again when it starts.
    pub(super) fn of(on: &Stand<'_>, agent: &AgentStep) -> Self {
        let key = on.key.entered(&agent.name);
        let words = on.ground.texts.words(&agent.prompt, &on.scope);
        let followed = on.ground.followed.and_then(|followed| followed.model.as_deref());
        let model = agent.model.as_deref().or(followed);
        let digest = digest(on, agent, model, words.as_deref());
        let mark = StepMark { key: Arc::clone(key.as_text()), digest };
        // What cannot be put together was never asked.
        let done = words.ok().and_then(|_| on.ground.finished.find(on.ground.root, &mark));
        Self { mark, done: done.cloned() }
    }

    /// Returns the trail of the agent that answers, if `unit` is declared for it.
    pub(super) fn trail(&self, unit: UnitId) -> Trail {
        Trail::of(self.done.as_ref().map_or(unit, |done| done.unit))
    }
}

/// Hashes all that makes up what an agent is asked for: its words, whose they
/// are, what it has to answer them with, and who has answered before, if it sees
/// that. Bounds and permissions are left out: an answer that came within others
/// is the answer.
fn digest(
    on: &Stand<'_>,
    agent: &AgentStep,
    model: Option<&str>,
    words: Result<&str, &String>,
) -> StepDigest {
    let AgentStep {
        agent: kind,
        is_built_in,
        sees,
        schema,
        isolation,
        name: _,
        prompt: _,
        model: _,
        limits: _,
        on_error: _,
    } = agent;
    let mut hasher = blake3::Hasher::new();
    let mut part = |bytes: &[u8]| {
        // So that no two lists of parts have the same bytes.
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(kind.as_bytes());
    let definition = match is_built_in {
        true => Definitions::built_in(kind),
        false => on.holder.fanout.definitions.find(kind),
    };
    part(definition.map(|definition| definition.prompt.as_bytes()).unwrap_or_default());
    let own = definition.and_then(|definition| definition.model.as_deref());
    part(model.or(own).unwrap_or_default().as_bytes());
    if let Some(definition) = definition {
        let lists = [
            definition.tools.as_deref(),
            Some(&definition.disallowed_tools),
            Some(&definition.skills),
        ];
        for list in lists {
            part(list.map_or("all".to_owned(), |names| names.join("\n")).as_bytes());
        }
    }
    let schema = schema.as_ref().map(|schema| schema.source().to_string());
    part(schema.unwrap_or_default().as_bytes());
    match sees {
        Sees::Visible => {
            part(b"visible");
            part(on.trail.as_bytes());
        }
        Sees::Nothing => part(b"none"),
    }
    part(match isolation.or(definition.and_then(|definition| definition.isolation)) {
        Some(Isolation::Worktree) => b"worktree",
        None => b"",
    });
    match words {
        Ok(words) => part(words.as_bytes()),
        Err(error) => {
            part(b"failed");
            part(error.as_bytes());
        }
    }
    let bytes: [u8; 32] = hasher.finalize().into();
    let half = bytes.first_chunk().expect("a hash has 32 bytes");
    StepDigest(u128::from_be_bytes(*half))
}

/// Returns what is declared for an agent that goes on where its parent is.
pub(super) fn child(agent: &AgentStep, name: Arc<str>, asked: &Asked) -> Child {
    let origin = match (&asked.done, agent.sees) {
        (Some(done), _) => Origin::Reused(done.unit),
        (None, Sees::Visible) => Origin::Visible,
        (None, Sees::Nothing) => Origin::Prompt,
    };
    Child {
        budget: Budget { tokens: agent.limits.max_tokens, ..Budget::default() },
        step: Some(asked.mark.clone()),
        ..bare(name, Arc::clone(&agent.agent), origin)
    }
}

/// Returns what is declared for a unit that goes on where its parent is.
pub(super) fn bare(description: Arc<str>, agent: Arc<str>, origin: Origin) -> Child {
    Child {
        description,
        agent,
        slot: None,
        origin,
        is_background: false,
        strand: Strand::Parents,
        budget: Budget::default(),
        again: None,
        step: None,
    }
}

/// Runs an agent that goes on where its holder is.
pub(super) async fn alone<'a>(on: Stand<'a>, agent: &'a AgentStep) -> Came {
    let wants = on.is_wanted || on.flow.keeps(&agent.name);
    let asked = Asked::of(&on, agent);
    let name = on.key.entered(&agent.name).label();
    let holder = on.holder;
    let seats = holder.line.declare(None, vec![child(agent, Arc::clone(&name), &asked)]).await;
    let Some(seat) = seats.and_then(|mut seats| seats.pop()) else { return Came::stopped() };
    let unit = seat.unit;
    let trail = asked.trail(unit);
    let closed = on.closed.clone();
    let end = run(on, agent, asked, seat).await;
    let came = Came { trail, ..Came::answered(agent, unit, end.as_deref(), wants) };
    // Before the next one in the queue has its turn.
    let mut came = came.closing(&closed);
    holder.line.join(vec![unit]).await;
    if let Outcome::Failed(failure) = &came.outcome {
        came.outcome = Outcome::Failed(of_step(&name, failure));
    }
    came
}

/// Runs an agent as the unit that was declared for it; `None` if the run was
/// over before it could report. Its place in the order of arrival is taken here
/// and now.
pub(super) fn run<'a>(
    on: Stand<'a>,
    agent: &'a AgentStep,
    asked: Asked,
    seat: Seat,
) -> BoxFuture<'a, Option<Arc<UnitEnd>>> {
    match asked.done {
        Some(done) => Box::pin(reuse(on.holder, done, seat)),
        None => {
            let caller = on.holder;
            let turn = caller.fanout.executor.submit(caller, &seat, Begins::Anew);
            let closing = Closing::new(on.closed.clone(), agent.on_error.closes());
            let make = Box::new(move || match on.is_over() {
                // The flow has ended while its turn came.
                true => Err(STOPPED),
                false => job(&on, agent).map(Arc::new),
            });
            turn.run(Submitted { caller, seat, closing, make })
        }
    }
}

/// Ends a unit at once, with the answer of one that was asked the very same. It
/// needs no permit: it asks no model.
async fn reuse(holder: &Caller, done: Done, seat: Seat) -> Option<Arc<UnitEnd>> {
    let line = holder.line.of(seat.unit);
    if !line.may_start().await {
        return fanout::never_ran(&line).await;
    }
    let UnitEnd { outcome, output_file, .. } = &*done.end;
    line.ended(outcome.clone(), output_file.clone()).await
}

/// Puts together what an agent is started for. The error is its outcome.
fn job(on: &Stand<'_>, agent: &AgentStep) -> Result<Job, Outcome> {
    let words = on.ground.texts.words(&agent.prompt, &on.scope);
    let prompt = words
        .map_err(|error| Outcome::failed(FailureKind::Setup, format!("{UNFILLED}: {error}")))?;
    let typed = Arc::new(Typed {
        agent: Arc::clone(&agent.agent),
        is_built_in: agent.is_built_in,
        model: agent.model.clone(),
        tools: None,
        followed: on.ground.followed.cloned(),
    });
    let task = Task {
        description: on.key.entered(&agent.name).label(),
        prompt,
        kind: TaskKind::Typed(Arc::clone(&typed)),
        max_turns: agent.limits.max_turns,
        max_tokens: agent.limits.max_tokens,
        timeout: agent.limits.timeout,
        isolation: agent.isolation,
        is_background: false,
        schema: agent.schema.clone(),
    };
    Ok(Job::Typed { task, typed, is_verbatim: true })
}
