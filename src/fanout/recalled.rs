//! Conversations of ended units that this process does not hold: those of an earlier
//! process, those that were stopped, and those that ended long ago. They are rebuilt
//! from the session log.

use std::path::PathBuf;
use std::sync::Arc;

use super::caller::Caller;
use super::job::Job;
use super::parked::{Here, Left, Parked};
use super::slot::{isolation, limit_of, policy, tools_of};
use crate::agent::{Forked, History, render};
use crate::event::{
    Event, EventKind, Origin, Question, Replied, UnitHead, UnitId, Verdict, Worktree,
};
use crate::message::CallId;
use crate::model::Model;
use crate::session;
use crate::tool::agent::PARAMETERS;
use crate::tool::coerce::{coerce, read_arguments};
use crate::tool::files::Seen;
use crate::tool::{AgentCall, Delegate as _, Known, Task, TaskKind, ToolContext, Typed};
use crate::tool_name::{SKILL, canonical};

#[cfg(test)]
mod tests;

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
    let Some((at, first)) = find_first_head(&events, unit) else {
        return Err("the session log has no record of its start".to_owned());
    };
    let job = job_of(context, first, task_of(&events[..at], first, &caller.known())?)?;
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

/// Returns the declaration of the unit that began the conversation, and its index.
fn find_first_head(events: &[Event], unit: UnitId) -> Option<(usize, &UnitHead)> {
    let declared = |unit: UnitId| {
        events.iter().enumerate().filter(|(_, event)| event.unit == unit).find_map(|(at, event)| {
            let EventKind::UnitQueued(head) = &event.kind else { return None };
            Some((at, head))
        })
    };
    let before = |(_, head): &(usize, &UnitHead)| match head.origin {
        Origin::Continued(before) => declared(before),
        Origin::Prompt | Origin::Visible | Origin::Fork | Origin::Steps | Origin::Reused(_) => None,
    };
    // A damaged log may say that two units continue each other.
    std::iter::successors(declared(unit), before).take(events.len()).last()
}

/// Returns the task of a unit, from the arguments of the call that started it. `events` are
/// those before the unit. A unit that the user or a skill started has no such arguments, so
/// its task has no limits of its own.
///
/// # Errors
///
/// The arguments cannot be found or read. They may limit the unit, so it must not go on
/// without them.
fn task_of(events: &[Event], head: &UnitHead, known: &Known) -> Result<Task, String> {
    let Some(id) = &head.call else { return Ok(task_without_limits(head)) };
    let (tool, arguments) = find_call(events, head.parent, id)
        .ok_or_else(|| "the session log does not have the call that started it".to_owned())?;
    if canonical(tool) == SKILL {
        return Ok(task_without_limits(head));
    }
    let text = arguments.ok_or_else(|| {
        "a hook changed the arguments of the call that started it, and the session log does not \
         have them"
            .to_owned()
    })?;
    // The log holds what the model wrote.
    let read = read_arguments(text).and_then(|mut arguments| {
        coerce(&mut arguments, PARAMETERS);
        AgentCall::parse(&arguments, known)
    });
    let asked = read.map_err(|why| {
        let why = why.trim_end_matches('.');
        format!("the arguments of the call that started it cannot be used: {why}")
    })?;
    let task = match asked {
        AgentCall::One(task) => Some(task),
        AgentCall::Batch(tasks) => {
            tasks.into_iter().nth(head.slot.map_or(0, |slot| slot.index as usize))
        }
    };
    task.ok_or_else(|| "the call that started it does not have its task".to_owned())
}

/// Returns the tool of the last call with this id, and the arguments that it ran with;
/// `None` for arguments if a hook changed them, because the log does not have those.
fn find_call<'a>(
    events: &'a [Event],
    unit: UnitId,
    id: &CallId,
) -> Option<(&'a str, Option<&'a str>)> {
    let mut found = None;
    for event in events.iter().filter(|event| event.unit == unit) {
        if let EventKind::Replied(replied) = &event.kind
            && let Some(call) = replied.reply.calls.iter().find(|call| call.id == *id)
        {
            found = Some((&*call.tool, Some(&*call.arguments)));
        }
        let Some((_, arguments)) = &mut found else { continue };
        if let EventKind::HookRan(ran) = &event.kind
            && ran.call.as_ref() == Some(id)
            && ran.changes_input
        {
            *arguments = None;
        }
        if let EventKind::Answered { id: _, question: Question::Call(asked), answer } = &event.kind
            && asked.call == *id
        {
            let changed = match answer {
                Verdict::YesWith(terms) => terms.arguments.as_deref(),
                Verdict::Yes
                | Verdict::ForBatch
                | Verdict::ForSession
                | Verdict::Always
                | Verdict::Covered(_)
                | Verdict::Filled(_)
                | Verdict::No
                | Verdict::NoBecause(_)
                | Verdict::NobodyToAsk
                | Verdict::Withdrawn => None,
            };
            *arguments = Some(changed.unwrap_or(&asked.arguments));
        }
    }
    found
}

fn task_without_limits(head: &UnitHead) -> Task {
    Task {
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
    }
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
