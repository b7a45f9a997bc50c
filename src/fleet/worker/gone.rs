//! Runs that nobody coordinates any more: their tickets are dropped, and nobody is asked
//! about them for as long as the queue keeps them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::SOON;

/// Most runs that are known to be over. One that is forgotten is asked about again.
const OVER_CAP: usize = 256;

/// What a worker knows of runs that do not answer.
pub(super) struct Gone {
    lease: Duration,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The runs that were stopped, the last one at the end.
    over: VecDeque<Arc<str>>,
    /// Since when nobody answers for a run, and when that was last so.
    silent: HashMap<Arc<str>, (Instant, Instant)>,
}

impl Gone {
    pub(super) fn new(lease: Duration) -> Self {
        Self { lease, known: Mutex::default() }
    }

    /// Takes note of a run that was stopped: it never goes on under its name.
    pub(super) fn note_over(&self, run: &Arc<str>) {
        let mut known = self.lock();
        known.silent.remove(run);
        if !known.over.contains(run) {
            known.over.push_back(Arc::clone(run));
        }
        if known.over.len() > OVER_CAP {
            known.over.pop_front();
        }
    }

    /// Takes note that somebody has answered for a run.
    pub(super) fn note_answer(&self, run: &str) {
        self.lock().silent.remove(run);
    }

    /// Takes note that nobody has answered for a run. Returns for how long its ticket
    /// waits, or `None` if that can go: a coordinator that comes back gives out anew what
    /// waits.
    pub(super) fn pause(&self, run: &Arc<str>) -> Option<Duration> {
        let (longest, now) = (self.lease * 2, Instant::now());
        let mut known = self.lock();
        // Its tickets come a lease after they were given back, or sooner: where there were
        // none for longer than that, nobody knows of a silence.
        known.silent.retain(|_, (_, last)| last.elapsed() <= longest);
        let (since, last) = known.silent.entry(Arc::clone(run)).or_insert((now, now));
        *last = now;
        let silence = since.elapsed();
        // As long again: after a restart of the server a worker may be there before the
        // coordinator is.
        (silence <= longest).then(|| silence.clamp(SOON, self.lease))
    }

    /// Tells whether a run is known to be over.
    pub(super) fn has(&self, run: &str) -> bool {
        self.lock().over.iter().any(|over| **over == *run)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_run_is_given_up_when_nobody_answers_for_two_leases() {
        let (gone, run): (_, Arc<str>) = (Gone::new(LEASE), "run".into());
        assert!(gone.pause(&run).is_some());
        tokio::time::advance(LEASE * 2).await;
        assert!(gone.pause(&run).is_some());
        gone.note_answer("run");
        tokio::time::advance(LEASE).await;
        assert!(gone.pause(&run).is_some());
        tokio::time::advance(LEASE).await;
        assert!(gone.pause(&run).is_some());
        tokio::time::advance(LEASE + Duration::from_millis(1)).await;
        assert_eq!(gone.pause(&run), None);
        assert!(!gone.has("run"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_ticket_waits_as_long_again_as_nobody_has_answered_and_a_lease_at_most() {
        let (gone, run): (_, Arc<str>) = (Gone::new(LEASE), "run".into());
        assert_eq!(gone.pause(&run), Some(SOON));
        for (seconds, pause) in [(1, 1), (3, 4), (7, LEASE.as_secs())] {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert_eq!(gone.pause(&run), Some(Duration::from_secs(pause)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn two_silences_far_apart_are_not_one() {
        let (gone, run): (_, Arc<str>) = (Gone::new(LEASE), "run".into());
        assert!(gone.pause(&run).is_some());
        tokio::time::advance(LEASE * 9).await;
        assert!(gone.pause(&run).is_some());
    }

    #[test]
    fn what_was_stopped_last_is_known() {
        let gone = Gone::new(LEASE);
        let runs: Vec<Arc<str>> = (0..=OVER_CAP).map(|it| it.to_string().into()).collect();
        runs.iter().chain(&runs[5..]).for_each(|run| gone.note_over(run));
        assert!(!gone.has("0") && gone.has("1"));
    }
}
