//! Looks for what is in the way of a run: workers that slots wait for, and the way to
//! the server.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::engine::Lost;
use super::post::Post;
use super::worker::State;
use crate::event::NoticeLevel;
use crate::line::{Line, Told};

/// Says why no worker takes what waits, to one of those that wait, and that there is no
/// server, to one of all.
pub(super) struct Lookout {
    post: Arc<Post>,
    label: Option<Arc<str>>,
    lease: Duration,
    /// Whoever has it looks; the others rely on that.
    seen: Mutex<Seen>,
    /// What was last said to be lost, until it is said that it is there again. Held as
    /// `seen` is.
    lost: Mutex<Option<Lost>>,
}

/// What was found so far.
#[derive(Default)]
struct Seen {
    said: BTreeSet<String>,
    /// What was found when it was last looked.
    last: Option<String>,
}

impl Lookout {
    pub(super) fn new(post: Arc<Post>, label: Option<Arc<str>>, lease: Duration) -> Self {
        Self { post, label, lease, seen: Mutex::default(), lost: Mutex::default() }
    }

    /// Looks for as long as a slot is queued or at work: when the server has not been
    /// there for a lease, whoever is on this line is told, and when it is again. All wait
    /// meanwhile.
    pub(super) async fn listens(&self, line: &Line) -> Infallible {
        let mut told = self.lost.lock().await;
        let engine = &self.post.engine;
        loop {
            if told.is_none() {
                // Before it is told: whoever goes on with this says that it is over.
                let lost = told.insert(engine.is_lost(self.lease).await);
                let text = format!("agents wait: {}", lost.why).into();
                line.tell(Told::Notice { level: NoticeLevel::Warning, text }).await;
            }
            if let Some(lost) = &*told {
                engine.is_back(lost).await;
            }
            if let Some(lost) = told.take() {
                let text = lost.again().into();
                line.tell(Told::Notice { level: NoticeLevel::Info, text }).await;
            }
        }
    }

    /// Looks for as long as a slot waits: when no worker has taken any for two leases,
    /// and at both looks the same was in the way, whoever is on this line is told what.
    /// The same is told once.
    pub(super) async fn looks(&self, line: &Line) -> Infallible {
        let mut seen = self.seen.lock().await;
        loop {
            let before = self.post.grants();
            sleep(self.lease).await;
            if self.post.grants() != before {
                seen.last = None;
                continue;
            }
            // A server that does not answer is no news: it is waited for.
            let Ok(Ok(found)) = timeout(self.lease, self.post.engine.workers()).await else {
                continue;
            };
            let found: Vec<State> =
                found.iter().filter_map(|(_, state)| State::decode(state)).collect();
            let found = why(&found, self.label.as_deref());
            let last = std::mem::replace(&mut seen.last, found.clone());
            // What workers say of themselves is some seconds old.
            let Some(why) = found.filter(|found| last.as_ref() == Some(found)) else { continue };
            if seen.said.insert(why.clone()) {
                line.tell(Told::Notice { level: NoticeLevel::Warning, text: why.into() }).await;
            }
        }
    }
}

/// Returns why none of these workers takes slots of a run with this label; `None` if
/// they are at work.
fn why(workers: &[State], label: Option<&str>) -> Option<String> {
    let own = env!("CARGO_PKG_VERSION");
    let has_label =
        |it: &&State| label.is_none_or(|label| it.labels.iter().any(|its| **its == *label));
    let labelled: Vec<&State> =
        workers.iter().filter(|it| !it.is_draining).filter(has_label).collect();
    let same: Vec<&State> = labelled.iter().copied().filter(|it| it.version == own).collect();
    let option = label.map(|label| format!(" --label {label}")).unwrap_or_default();
    match (labelled.first(), same.is_empty()) {
        (None, _) => Some(match label {
            Some(label) => format!(
                "agents wait: no worker with the label `{label}` is there; start one with `tine worker{option}`"
            ),
            None => "agents wait: no worker is there; start one with `tine worker`".to_owned(),
        }),
        (Some(other), true) => Some(format!(
            "agents wait: this is tine {own}, and the workers are tine {}; install the same on both",
            other.version
        )),
        // One that has slots may be full: what these have started takes places, too.
        (Some(_), false) => same.iter().any(|it| it.running == 0).then(|| {
            "agents wait: there are workers with nothing to do that take none; they say why where \
             they run"
                .to_owned()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(version: &str, label: Option<&str>, (running, most): (usize, usize)) -> State {
        let labels = label.into_iter().map(Into::into).collect();
        State { version: version.to_owned(), labels, most, running, is_draining: false }
    }

    #[track_caller]
    fn check(workers: &[State], label: Option<&str>, expected: Option<&str>) {
        let why = why(workers, label);
        assert_eq!(why.is_some(), expected.is_some(), "{why:?}");
        assert!(why.unwrap_or_default().contains(expected.unwrap_or_default()));
    }

    #[test]
    fn it_is_said_what_is_missing_and_nothing_of_workers_that_are_busy() {
        let own = env!("CARGO_PKG_VERSION");
        let drains = State { is_draining: true, ..state(own, None, (0, 1)) };
        check(&[], None, Some("no worker is there; start one with `tine worker`"));
        check(&[drains], None, Some("no worker is there"));
        let busy = state(own, Some("gpu"), (2, 2));
        check(std::slice::from_ref(&busy), None, None);
        check(std::slice::from_ref(&busy), Some("gpu"), None);
        check(
            std::slice::from_ref(&busy),
            Some("tpu"),
            Some("start one with `tine worker --label tpu`"),
        );
        let old = state("0.0.1", None, (0, 2));
        check(
            std::slice::from_ref(&old),
            None,
            Some("the workers are tine 0.0.1; install the same"),
        );
        check(&[old, busy], None, None);
        check(&[state(own, None, (1, 2))], None, None);
        check(&[state(own, None, (0, 2))], None, Some("nothing to do that take none"));
    }
}
