//! A unit that starts other units, and the permit it lends out meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::pool::{Permit, Pool, Ticket};
use super::{Fanout, batch};
use crate::guard::Policy;
use crate::line::Line;
use crate::message::{CallId, Output};
use crate::model::Model;
use crate::tool::{AgentCall, Delegate, Known, Registry, ToolError};

/// Starts children for one unit.
pub struct Caller {
    /// What all units share.
    pub fanout: Arc<Fanout>,
    /// The unit's line.
    pub line: Line,
    /// The unit's depth; 0 for the main conversation.
    pub depth: u32,
    /// The unit's tools: a child gets no others.
    pub tools: Registry,
    /// The unit's policy: a child is never more permissive.
    pub policy: Arc<Policy>,
    /// The unit's model: a child's, if nothing names another.
    pub model: Arc<dyn Model>,
    /// The unit's permit; `None` for the main conversation, which needs none.
    pub hold: Option<Arc<Hold>>,
    /// Fires when the unit must stop.
    pub cancel: CancellationToken,
}

impl Delegate for Caller {
    fn delegate<'a>(
        &'a self,
        call: &'a CallId,
        agent: AgentCall,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            if self.depth >= self.fanout.limits.max_depth {
                return Err(ToolError::tell(format!(
                    "Agents nest at most {} deep (`agents.max_depth`), and this one is at the \
                     limit. Do the work yourself.",
                    self.fanout.limits.max_depth
                )));
            }
            let (tasks, is_batch) = match agent {
                AgentCall::Fork { description: _, prompt: _ } => {
                    let types = self.fanout.definitions.names().join(", ");
                    return Err(ToolError::tell(format!(
                        "Parameter \"subagent_type\" is required. Available subagents: {types}"
                    )));
                }
                AgentCall::One(task) => (vec![task], false),
                AgentCall::Batch(tasks) => (tasks, true),
            };
            batch::run(self, call, tasks, is_batch).await
        })
    }

    fn known(&self) -> Known {
        Known {
            agents: self.fanout.definitions.names(),
            tools: self.tools.names().map(str::to_owned).collect(),
        }
    }
}

impl Caller {
    /// Waits for children without keeping others out of the pool.
    pub(super) async fn lend_while<T>(&self, children: impl Future<Output = T>) -> T {
        match &self.hold {
            None => children.await,
            Some(hold) => {
                hold.lend();
                let result = children.await;
                tokio::select! {
                    biased;
                    // A cancelled unit has nothing left to do that needs a
                    // permit.
                    () = self.cancel.cancelled() => {}
                    () = hold.take_back() => {}
                }
                result
            }
        }
    }
}

/// A running unit's permit, which it gives back while it waits for children.
#[derive(Debug)]
pub struct Hold {
    pool: Pool,
    ticket: Ticket,
    // A mutex, because several Agent calls of one turn lend the one permit.
    state: Mutex<HoldState>,
}

#[derive(Debug)]
struct HoldState {
    permit: Option<Permit>,
    /// How many Agent calls wait for children.
    lent: u32,
}

impl Hold {
    /// Holds `permit`, which was acquired with `ticket`.
    #[must_use]
    pub fn new(pool: Pool, ticket: Ticket, permit: Permit) -> Self {
        Self { pool, ticket, state: Mutex::new(HoldState { permit: Some(permit), lent: 0 }) }
    }

    fn lend(&self) {
        let permit = {
            let mut state = self.lock();
            state.lent += 1;
            state.permit.take()
        };
        drop(permit);
    }

    /// Gets the permit again once no call waits for children any more.
    async fn take_back(&self) {
        {
            let mut state = self.lock();
            state.lent -= 1;
            if state.lent > 0 {
                return;
            }
        }
        let permit = self.pool.acquire(self.ticket).await;
        let mut state = self.lock();
        // Another call of the same turn may have begun to wait since; then
        // keeping the permit could starve its children.
        if state.lent == 0 {
            state.permit = Some(permit);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HoldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
