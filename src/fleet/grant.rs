//! What a worker is granted with a slot.

use std::sync::Arc;

use super::load::Given;
use super::wire::{Grant, Work};
use crate::agent::Forked;
use crate::fanout::{Far, Job};

/// Returns what a slot is granted with for this attempt. `is_unlimited` says that
/// nothing limits what it uses.
pub(super) fn grant(far: &Far, (attempt, is_unlimited): (u32, bool), given: &Given) -> Grant {
    let Far { caller, seat, .. } = far;
    let (work, tools, model) = work(far, given);
    Grant {
        unit: seat.unit,
        attempt,
        branch: seat.branch.clone(),
        origin: seat.origin,
        is_unlimited,
        depth: caller.depth,
        work,
        tools,
        model,
        packet: Arc::clone(&given.packet),
        policy: far.policy().parts().encode(),
    }
}

/// Returns what a slot is started for, and the tools and the model that it has, or its
/// caller.
fn work(far: &Far, given: &Given) -> (Work, Vec<String>, Arc<str>) {
    let Far { caller, job, .. } = far;
    let tools = || caller.tools.names().map(str::to_owned).collect();
    let from = || given.from.clone().expect("a slot that goes on was given what from");
    match &**job {
        Job::Typed { task, typed: _, is_verbatim } => {
            let work = Work::Typed { task: task.clone(), is_verbatim: *is_verbatim };
            (work, tools(), Arc::clone(caller.model.name()))
        }
        Job::Fork { task, from: Forked { parent, point } } => {
            let schema = caller.tools.answer().cloned();
            let work = Work::Fork { task: task.clone(), parent: *parent, from: from(), schema };
            (work, tools(), Arc::clone(point.model().name()))
        }
        Job::Continue { ended, parked, message } => {
            let left = parked.elsewhere().expect("what has ended here goes on here");
            let (task, max_turns) = (parked.asked(message), left.max_turns);
            let work = Work::Continued { task, ended: *ended, from: from(), max_turns };
            (work, left.tools.clone(), Arc::clone(&left.model))
        }
    }
}
