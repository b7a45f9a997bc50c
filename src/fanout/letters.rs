//! Messages to units in the background: to one that works, or to a conversation that
//! has ended and that they continue.

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use super::caller::Caller;
use super::job::Job;
use super::{batch, recalled};
use crate::event::{UnitId, UnitState};
use crate::line::{Glance, Sent, Tend};
use crate::message::CallId;
use crate::tool::{Delegate as _, MessageDelivery, ToolContext, ToolError};

/// Sends a message to a unit, or to the last one that continues its conversation.
pub(super) async fn send(
    caller: &Caller,
    context: &ToolContext,
    call: &CallId,
    (to, message): (UnitId, Arc<str>),
) -> Result<MessageDelivery, ToolError> {
    let (to, _turn) = lock_last(caller, to).await;
    let text = Arc::clone(&message);
    match caller.line.ask(|reply| Tend::Send { to, text, reply }).await {
        None | Some(Sent::Unknown) => Ok(MessageDelivery::Unknown),
        Some(Sent::Queued) => Ok(MessageDelivery::Queued(to)),
        Some(Sent::Full) => Ok(MessageDelivery::Full(to)),
        Some(Sent::Ended(state)) => {
            caller.may_delegate()?;
            let job = continuation_job(caller, context, (to, state), message).await?;
            let by = batch::start_beside(caller, call, job).await?;
            Ok(MessageDelivery::Continued { ended: to, state, by })
        }
    }
}

/// Returns the last unit of a conversation, and the turn to send it a message. While that
/// is held, no other message starts a unit that continues it.
async fn lock_last(caller: &Caller, unit: UnitId) -> (UnitId, OwnedMutexGuard<()>) {
    let mut last = find_last(caller, unit).await;
    loop {
        let turn = caller.fanout.parking.lock_conversation(last).await;
        // Another message may have started one meanwhile.
        let found = find_last(caller, last).await;
        if found == last {
            return (last, turn);
        }
        last = found;
    }
}

/// Returns the last unit of a conversation: the one that continues the one that
/// continues `unit`, and so on.
async fn find_last(caller: &Caller, unit: UnitId) -> UnitId {
    let mut last = unit;
    // A unit that continues another one has a larger id, so this ends.
    while let Some(next) = look_at(caller, last).await.and_then(|glance| glance.continued_by) {
        if next <= last {
            break;
        }
        last = next;
    }
    last
}

async fn look_at(caller: &Caller, unit: UnitId) -> Option<Glance> {
    let glances = caller.line.ask(|reply| Tend::Look { unit: Some(unit), reply }).await;
    glances.unwrap_or_default().pop()
}

async fn continuation_job(
    caller: &Caller,
    context: &ToolContext,
    (ended, state): (UnitId, UnitState),
    message: Arc<str>,
) -> Result<Job, ToolError> {
    let parked = match caller.fanout.parking.get(ended) {
        Some(parked) => parked,
        None => recalled::recall(caller, context, ended).await.map_err(|why| {
            ToolError::tell(format!(
                "{ended} has ended ({}), and its conversation cannot be continued: {why}. \
                 TaskOutput returns its output. Start another agent and tell it all it needs.",
                state.as_str()
            ))
        })?,
    };
    Ok(Job::Continue { ended, parked: Box::new(parked), message })
}
