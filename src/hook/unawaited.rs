//! Commands that nobody waits for, until the run ends: then they are waited
//! for after all, but not for long, and those that still run are ended.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::process::{self, Ended, Order};
use crate::event::HookRan;

/// Most commands that nobody waits for and that run at once. They have places
/// of their own: they may run for as long as they like, and hold up no hook
/// that somebody waits for. As many as one moment can have.
pub const UNAWAITED_CAP: usize = 32;

/// How long they may go on once the run has ended. Enough for a note that is on
/// its way, and no more than a person who leaves puts up with.
pub const UNAWAITED_GRACE: Duration = Duration::from_secs(2);

/// The commands of a run that nobody waits for.
#[derive(Debug, Default)]
pub(super) struct Unawaited {
    // All units of a run start some, side by side, and no task owns the hooks;
    // it is held for no longer than it takes to start one.
    running: Mutex<Running>,
}

/// Ends them all at once when dropped.
#[derive(Debug, Default)]
struct Running {
    /// What is to be told of one that was ended.
    tasks: JoinSet<Option<HookRan>>,
    over: CancellationToken,
}

impl Unawaited {
    /// Starts a command, and tells whether there was a place for it. `ended` is
    /// what is told of it if it is ended.
    pub(super) fn start(
        &self,
        order: Order,
        input: Vec<u8>,
        limit: Duration,
        ended: HookRan,
    ) -> bool {
        let mut running = self.running.lock().expect("nothing panics while it is held");
        while running.tasks.try_join_next().is_some() {}
        let has_place = running.tasks.len() < UNAWAITED_CAP;
        if has_place {
            let over = running.over.clone();
            running.tasks.spawn(async move {
                // Nobody hears what becomes of one that ends by itself.
                match process::run(&order, input, limit, &over).await {
                    Ended::Cancelled => Some(ended),
                    Ended::Exited { .. } | Ended::TimedOut { .. } | Ended::NotStarted(_) => None,
                }
            });
        }
        has_place
    }

    /// Waits for those that run, for as long as `grace`, and ends the rest.
    /// Returns what is to be told of those.
    pub(super) async fn finish(&self, grace: Duration) -> Vec<Arc<HookRan>> {
        let running =
            std::mem::take(&mut *self.running.lock().expect("nothing panics while it is held"));
        let Running { mut tasks, over } = running;
        let until = Instant::now() + grace;
        while let Ok(Some(_)) = timeout_at(until, tasks.join_next()).await {}
        over.cancel();
        let mut ended = Vec::new();
        while let Some(joined) = tasks.join_next().await {
            // One that panicked runs no more, either.
            ended.extend(joined.ok().flatten().map(Arc::new));
        }
        ended
    }
}
