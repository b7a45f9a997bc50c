//! A unit that starts other units, and the permit it lends out meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::clock::{Clock, Going};
use super::confirm::confirm;
use super::job::Job;
use super::pool::{Permit, Pool, Ticket};
use super::slot::unpriced;
use super::worktree::Place;
use super::{Fanout, batch, letters};
use crate::event::UnitId;
use crate::guard::Policy;
use crate::line::Line;
use crate::message::{CallId, Output};
use crate::model::Model;
use crate::tool::{
    AgentCall, Delegate, Known, MessageDelivery, Registry, Task, TaskKind, ToolContext, ToolError,
};

/// Starts children for one unit.
#[derive(Clone)]
pub struct Caller {
    /// What all units share.
    pub fanout: Arc<Fanout>,
    /// The unit's line.
    pub line: Line,
    /// The unit's depth; 0 for the main conversation.
    pub depth: u32,
    /// Whether the unit is a fork or was started by one. A property of the
    /// unit, not of what is said in it: no text can set it or take it away.
    pub is_fork: bool,
    /// The unit's tools: a child gets no others.
    pub tools: Registry,
    /// The unit's policy: a child is never more permissive.
    pub policy: Arc<Policy>,
    /// The unit's model: a child's, if nothing names another.
    pub model: Arc<dyn Model>,
    /// The unit's permit; `None` for the main conversation, which needs none.
    pub hold: Option<Arc<Hold>>,
    /// Where the unit works, and a child that wants no place of its own.
    pub place: Place,
    /// Fires when the unit must stop.
    pub cancel: CancellationToken,
}

impl Delegate for Caller {
    fn delegate<'a>(
        &'a self,
        context: &'a ToolContext,
        call: Option<&'a CallId>,
        agent: AgentCall,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            self.may_delegate()?;
            let (tasks, is_batch) = match agent {
                AgentCall::One(task) => (vec![task], false),
                AgentCall::Batch(tasks) => {
                    confirm(self, tasks.len()).await?;
                    (tasks, true)
                }
            };
            let tasks = tasks.into_iter().map(|task| self.beside_if_defined_so(task)).collect();
            batch::run(self, call, Job::all(tasks, context), is_batch).await
        })
    }

    fn send<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a CallId,
        to: UnitId,
        message: Arc<str>,
    ) -> BoxFuture<'a, Result<MessageDelivery, ToolError>> {
        Box::pin(letters::send(self, context, call, (to, message)))
    }

    fn lend<'a>(&'a self, wait: BoxFuture<'a, ()>) -> BoxFuture<'a, ()> {
        Box::pin(self.lend_while(wait))
    }

    fn with_tools(&self, tools: Registry) -> Arc<dyn Delegate> {
        Arc::new(Self { tools, ..self.clone() })
    }

    fn known(&self) -> Known {
        Known {
            agents: self.fanout.definitions.names(),
            tools: self.tools.filtered(|_| true).names().map(str::to_owned).collect(),
        }
    }

    fn may_delegate(&self) -> Result<(), ToolError> {
        if self.is_fork {
            let refusal = include_str!("../../prompts/fork_refused.md").trim_end();
            return Err(ToolError::tell(refusal));
        }
        if self.depth >= self.fanout.limits.max_depth {
            return Err(ToolError::tell(format!(
                "Agents nest at most {} deep (`agents.max_depth`), and this one is at the limit. \
                 Do the work yourself.",
                self.fanout.limits.max_depth
            )));
        }
        Ok(())
    }

    fn find_model(&self, name: &str) -> Result<Arc<dyn Model>, String> {
        let model = (self.fanout.find_model)(name)?;
        match self.fanout.limits.needs_price && model.facts().price.is_none() {
            true => Err(unpriced(model.name())),
            false => Ok(model),
        }
    }
}

impl Caller {
    /// Has a task run beside the unit if its agent's definition says so.
    fn beside_if_defined_so(&self, task: Task) -> Task {
        let is_defined_so = match &task.kind {
            TaskKind::Typed(typed) => self.fanout.definition(typed),
            TaskKind::Fork => None,
        };
        let is_background = is_defined_so.is_some_and(|definition| definition.is_background);
        Task { is_background: task.is_background || is_background, ..task }
    }

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
    clock: Arc<Clock>,
    // A mutex, because several Agent calls of one turn lend the one permit.
    state: Mutex<HoldState>,
    /// Says that a call has stopped waiting for the unit's permit.
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct HoldState {
    /// With what keeps the unit's clock going.
    permit: Option<(Permit, Going)>,
    /// How many Agent calls wait for children.
    lent: u32,
    /// Whether a call waits in the pool for the unit's permit.
    is_being_taken: bool,
}

/// A call that waits in the pool for the unit's permit. When it stops, by
/// whatever way, the others look again.
struct Taking<'a> {
    hold: &'a Hold,
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.hold.lock().is_being_taken = false;
        self.hold.changed.send_replace(());
    }
}

impl Hold {
    /// Holds `permit`, which was acquired with `ticket`. `parent` is what the
    /// unit's parent holds, if that needs a permit.
    #[must_use]
    pub fn new(pool: Pool, ticket: Ticket, permit: Permit, parent: Option<&Self>) -> Self {
        let clock = Clock::new(parent.map(|parent| Arc::clone(&parent.clock)));
        let permit = Some((permit, clock.go()));
        let state = HoldState { permit, lent: 0, is_being_taken: false };
        Self { pool, ticket, clock, state: Mutex::new(state), changed: watch::channel(()).0 }
    }

    /// Waits until the unit has worked for this long, itself or by what it
    /// started.
    pub(super) async fn has_worked(&self, limit: Duration) {
        self.clock.has_gone(limit).await;
    }

    fn lend(&self) {
        let permit = {
            let mut state = self.lock();
            state.lent += 1;
            state.permit.take()
        };
        drop(permit);
    }

    /// Gets the permit again once no call waits for children any more. One of
    /// several calls of the same turn does; the others wait for it, since the
    /// permit that one gets is the unit's.
    async fn take_back(&self) {
        let mut changes = self.changed.subscribe();
        self.lock().lent -= 1;
        loop {
            let taking = {
                let mut state = self.lock();
                if state.lent > 0 || state.permit.is_some() {
                    return;
                }
                (!std::mem::replace(&mut state.is_being_taken, true)).then(|| Taking { hold: self })
            };
            match taking {
                Some(taking) => {
                    let permit = self.pool.acquire(self.ticket).await;
                    let mut state = self.lock();
                    // Another call may have begun to wait since; then keeping
                    // the permit could starve its children.
                    if state.lent == 0 {
                        state.permit = Some((permit, self.clock.go()));
                    }
                    drop(state);
                    drop(taking);
                    return;
                }
                None => changes.changed().await.expect("the hold has the sender"),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HoldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn of_several_calls_that_have_waited_one_takes_the_permit_for_all() {
        let pool = Pool::new(NonZeroUsize::MIN);
        let ticket = pool.ticket();
        let hold = Hold::new(pool.clone(), ticket, pool.acquire(ticket).await, None);
        hold.lend();
        let child = pool.acquire(pool.ticket()).await;
        let mut first = Box::pin(hold.take_back());
        assert!(first.as_mut().now_or_never().is_none());
        // Another call begins to wait and ends while the first one queues.
        hold.lend();
        let mut second = Box::pin(hold.take_back());
        assert!(second.as_mut().now_or_never().is_none());
        drop(child);
        first.await;
        second.await;
        assert!(hold.lock().permit.is_some());
    }

    #[tokio::test]
    async fn a_call_that_stops_waiting_leaves_the_permit_to_the_next() {
        let pool = Pool::new(NonZeroUsize::MIN);
        let ticket = pool.ticket();
        let hold = Hold::new(pool.clone(), ticket, pool.acquire(ticket).await, None);
        hold.lend();
        let child = pool.acquire(pool.ticket()).await;
        let mut first = Box::pin(hold.take_back());
        assert!(first.as_mut().now_or_never().is_none());
        hold.lend();
        let mut second = Box::pin(hold.take_back());
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        drop(child);
        second.await;
        assert!(hold.lock().permit.is_some());
    }
}
