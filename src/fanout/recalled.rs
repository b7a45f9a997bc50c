//! Conversations of ended units that this process does not hold: those of an earlier
//! process, those that were stopped, and those that ended long ago. They are rebuilt
//! from the session log.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::caller::Caller;
use super::job::Job;
use super::parked::{Here, Left, Parked};
use super::slot::{isolation, limit_of, policy, tools_of};
use crate::agent::{Forked, History, render};
use crate::event::{Event, EventKind, Origin, Replied, UnitHead, UnitId, Worktree};
use crate::model::Model;
use crate::session;
use crate::tool::files::Seen;
use crate::tool::{AgentCall, Delegate as _, Known, Task, TaskKind, ToolContext, Typed};

/// Rebuilds the conversation of an ended unit, and its policy and tools.
///
/// # Errors
///
/// The reason why it cannot be rebuilt, worded for a model.
pub(super) async fn recall(
    caller: &Caller,
    context: &ToolContext,
    unit: UnitId,
) -> Result<Parked, String> {
    let Some(directory) = caller.fanout.parking.log.clone() else {
        return Err("this session is not saved on disk".to_owned());
    };
    let reading = tokio::task::spawn_blocking(move || session::conversation_of(&directory, unit));
    let events = reading.await.expect("a log is read without panics");
    let events = events.map_err(|error| error.to_string())?;
    let Some(first) = find_first_head(&events, unit) else {
        return Err("the session log has no record of its start".to_owned());
    };
    let job = job_of(context, first, task_of(&events, first, &caller.known()))?;
    let here = rebuild(caller, (&events, unit), &job)?;
    Ok(Parked {
        description: Arc::clone(&first.description),
        agent: job.agent(),
        policy: policy(caller, &job),
        is_fork: caller.is_fork || job.is_fork(),
        max_tokens: job.max_tokens(),
        timeout: job.timeout(),
        isolation: isolation(&caller.fanout, &job),
        former: find_trees(&events, first.parent),
        left: Left::Here(here),
    })
}

/// Returns the directories of the worktrees that units of the conversation worked in, and
/// not those of `parent`, which started the first of them.
fn find_trees(events: &[Event], parent: UnitId) -> Arc<[PathBuf]> {
    let of_units = events.iter().filter(|event| event.unit != parent);
    let trees = of_units.filter_map(|event| {
        let EventKind::Worktree(Worktree::Made { path, base: _ }) = &event.kind else {
            return None;
        };
        Some(PathBuf::from(&**path))
    });
    trees.collect()
}

/// Returns the declaration of the unit that began the conversation.
fn find_first_head(events: &[Event], unit: UnitId) -> Option<&UnitHead> {
    let declared = |unit: UnitId| {
        events.iter().filter(|event| event.unit == unit).find_map(|event| {
            let EventKind::UnitQueued(head) = &event.kind else { return None };
            Some(head)
        })
    };
    let before = |head: &&UnitHead| match head.origin {
        Origin::Continued(before) => declared(before),
        Origin::Prompt | Origin::Visible | Origin::Fork | Origin::Steps | Origin::Reused(_) => None,
    };
    // A damaged log may say that two units continue each other.
    std::iter::successors(declared(unit), before).take(events.len()).last()
}

/// Returns the task of a unit, from the arguments of the call that started it. A unit that
/// the user started has no call, so its task has no limits of its own.
fn task_of(events: &[Event], head: &UnitHead, known: &Known) -> Task {
    let arguments = head.call.as_ref().and_then(|id| {
        replies(events, head.parent).find_map(|replied| {
            let call = replied.reply.calls.iter().find(|call| call.id == *id)?;
            serde_json::from_str::<Value>(&call.arguments).ok()
        })
    });
    let index = head.slot.map_or(0, |slot| slot.index as usize);
    let asked = arguments.and_then(|arguments| AgentCall::parse(&arguments, known).ok());
    let asked = asked.and_then(|call| match call {
        AgentCall::One(task) => Some(task),
        AgentCall::Batch(tasks) => tasks.into_iter().nth(index),
    });
    asked.unwrap_or_else(|| Task {
        description: Arc::clone(&head.description),
        prompt: Arc::default(),
        kind: match head.origin {
            Origin::Fork => TaskKind::Fork,
            Origin::Prompt
            | Origin::Visible
            | Origin::Continued(_)
            | Origin::Steps
            | Origin::Reused(_) => TaskKind::Typed(Arc::new(Typed {
                agent: Arc::clone(&head.agent),
                is_built_in: false,
                model: None,
                tools: None,
                followed: None,
            })),
        },
        max_turns: None,
        max_tokens: None,
        timeout: None,
        isolation: None,
        is_background: true,
        schema: None,
    })
}

fn job_of(context: &ToolContext, head: &UnitHead, task: Task) -> Result<Job, String> {
    match (head.origin, &task.kind) {
        (Origin::Fork, _) => {
            let point = Arc::clone(&context.fork_point);
            Ok(Job::Fork { task, from: Forked { parent: head.parent, point } })
        }
        (Origin::Prompt, TaskKind::Typed(typed)) => {
            Ok(Job::Typed { typed: Arc::clone(typed), task, is_verbatim: false })
        }
        (Origin::Prompt, TaskKind::Fork) => Err("its task was for a fork".to_owned()),
        (Origin::Visible | Origin::Steps | Origin::Reused(_) | Origin::Continued(_), _) => {
            Err("it was a step of a flow".to_owned())
        }
    }
}

/// Returns the conversation, with the model that answered last and the tools of its job.
fn rebuild(caller: &Caller, (events, unit): (&[Event], UnitId), job: &Job) -> Result<Here, String> {
    let fanout = &caller.fanout;
    let (tools, head, max_turns) = match job {
        Job::Typed { task, typed, is_verbatim: _ } => {
            let definition = fanout
                .definition(typed)
                .ok_or_else(|| format!("its agent definition `{}` is gone", typed.agent))?;
            let tools = tools_of(caller, caller.depth + 1, typed.tools.as_deref(), definition);
            let tools = tools.answering(task.schema.as_ref());
            let (prompt, _) = definition.prompt_with(&fanout.skills);
            (tools.clone(), fanout.head(&prompt, &tools), limit_of(task, Some(definition)))
        }
        Job::Fork { task, from } => {
            let head = Arc::clone(&from.point.base().head);
            (caller.tools.clone(), head, limit_of(task, None))
        }
        Job::Continue { .. } => unreachable!("a conversation begins with a task"),
    };
    let history: History = render(events, unit, head);
    if !history.is_settled() {
        return Err("it was stopped while its calls were running".to_owned());
    }
    Ok(Here {
        model: model_of(caller, events, unit),
        tools,
        // Files that it has read may have changed since, so it must read them again.
        seen: Seen::default(),
        conversation: history.prefix().clone(),
        max_turns,
    })
}

/// Returns the model that answered a unit last, or that of its caller if it is not there.
fn model_of(caller: &Caller, events: &[Event], unit: UnitId) -> Arc<dyn Model> {
    let last = replies(events, unit).next();
    let found = last.and_then(|replied| caller.find_model(&replied.model).ok());
    found.unwrap_or_else(|| Arc::clone(&caller.model))
}

/// Returns the answers of a unit's model, the last one first.
fn replies(events: &[Event], unit: UnitId) -> impl Iterator<Item = &Replied> {
    events.iter().rev().filter(move |event| event.unit == unit).filter_map(|event| {
        let EventKind::Replied(replied) = &event.kind else { return None };
        Some(replied)
    })
}
