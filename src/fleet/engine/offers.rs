//! Tickets that a coordinator offers, many at a time and in order.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::error::EngineError;
use super::publish::Unpublished;
use super::{Engine, Job, layout};

/// Most tickets that were sent and not acknowledged.
pub const OFFERS_UNACKED: usize = 256;

/// All that is in a ticket: the version of its form. The rest is its subject.
pub(super) const TICKET: &[u8] = b"1";

/// Offers jobs in the order in which they are pushed.
#[derive(Clone, Debug)]
pub struct Offers {
    // Unbounded: whoever pushes holds the slots themselves, which are larger.
    jobs: mpsc::UnboundedSender<Job>,
    unsettled: Unsettled,
}

/// How many were pushed and are neither stored nor refused. Told is only when none are left.
type Unsettled = Arc<watch::Sender<usize>>;

/// The jobs that no server takes.
#[derive(Debug)]
pub struct Refused {
    refused: mpsc::UnboundedReceiver<(Job, EngineError)>,
}

impl Offers {
    /// Offers a job, after all that were pushed before. Returns at once.
    ///
    /// It is sent until it is acknowledged; after a crash of the server those of
    /// one window may be stored in another order.
    pub fn push(&self, job: Job) {
        self.unsettled.send_if_modified(|count| {
            *count += 1;
            false
        });
        // The task ends only after this end is gone, or with the runtime.
        let _ = self.jobs.send(job);
    }

    /// Waits until all that was pushed is stored or refused.
    pub async fn settled(&self) {
        let mut unsettled = self.unsettled.subscribe();
        // This end keeps it open.
        let _ = unsettled.wait_for(|count| *count == 0).await;
    }
}

impl Refused {
    /// Returns the next job that will never be stored, and why. `None` once every
    /// [`Offers`] is dropped and everything else is stored.
    pub async fn next(&mut self) -> Option<(Job, EngineError)> {
        self.refused.recv().await
    }
}

impl Engine {
    /// Starts a queue of offers. It runs until [`Offers`] is dropped and all is
    /// stored, or [`Refused`] is dropped.
    #[must_use]
    pub fn offer_queue(&self) -> (Offers, Refused) {
        let (jobs, pushed) = mpsc::unbounded_channel();
        let (refuse, refused) = mpsc::unbounded_channel();
        let unsettled = Unsettled::default();
        let offers = Offers { jobs, unsettled: Arc::clone(&unsettled) };
        let queue = Queue { engine: self.clone(), sent: VecDeque::new(), refuse, unsettled };
        tokio::spawn(queue.run(pushed));
        (offers, Refused { refused })
    }

    /// Returns the slots of a run that have a ticket, whether a worker has drawn it or not.
    ///
    /// # Errors
    ///
    /// What will not pass; a server that is away is waited for.
    pub async fn offered(&self, run: &str) -> Result<HashSet<u32>, EngineError> {
        let (stream, filter) = (self.names.jobs_stream(), self.names.jobs_of(run));
        let subject = format!("STREAM.INFO.{stream}");
        let (mut units, mut offset) = (HashSet::new(), 0);
        loop {
            // The server tells of so many subjects at once.
            let body = json!({ "subjects_filter": filter, "offset": offset });
            let page = self.awaited::<Page>(&subject, &body).await;
            let page = page.map_err(|denied| denied.into_error("looking for tickets"))?;
            let subjects = page.state.subjects.unwrap_or_default();
            offset += subjects.len();
            let jobs = subjects.keys().filter_map(|subject| self.names.parse_job(subject));
            units.extend(jobs.map(|job| job.unit));
            if subjects.is_empty() || offset >= page.total {
                return Ok(units);
            }
        }
    }

    /// Takes back all jobs of a run that nobody has taken yet. Those that are still in
    /// a queue of offers are not reached.
    ///
    /// # Errors
    ///
    /// What will not pass; a server that is away is waited for.
    pub async fn withdraw_run(&self, run: &str) -> Result<(), EngineError> {
        self.purge(self.names.jobs_of(run)).await
    }

    pub(super) async fn purge(&self, subject: String) -> Result<(), EngineError> {
        let purge = format!("STREAM.PURGE.{}", self.names.jobs_stream());
        let purged = self.awaited::<Value>(&purge, &json!({ "filter": subject })).await;
        purged.map(drop).map_err(|denied| denied.into_error("withdrawing tickets"))
    }
}

/// Some of the subjects of a stream.
#[derive(Deserialize)]
struct Page {
    state: Subjects,
    /// How many there are altogether.
    #[serde(default)]
    total: usize,
}

#[derive(Deserialize)]
struct Subjects {
    /// With how many messages each has.
    subjects: Option<HashMap<String, u64>>,
}

fn ticket(job: &Job) -> PublishMessage {
    let id = format!("{}/{}", job.run, job.unit);
    PublishMessage::build().message_id(id).payload(Bytes::from_static(TICKET))
}

struct Queue {
    engine: Engine,
    sent: VecDeque<Sent>,
    refuse: mpsc::UnboundedSender<(Job, EngineError)>,
    unsettled: Unsettled,
}

struct Sent {
    job: Job,
    acknowledged: BoxFuture<'static, Result<PublishAck, Unpublished>>,
}

impl Queue {
    async fn run(mut self, mut pushed: mpsc::UnboundedReceiver<Job>) {
        let mut reconnected = self.engine.signs.reconnected();
        let mut is_open = true;
        while is_open || !self.sent.is_empty() {
            let has_room = is_open && self.sent.len() < OFFERS_UNACKED;
            tokio::select! {
                biased;
                () = self.refuse.closed() => return,
                () = reconnected.next() => self.send_again().await,
                outcome = first(&mut self.sent), if !self.sent.is_empty() => {
                    self.settle(outcome).await;
                }
                job = pushed.recv(), if has_room => match job {
                    Some(job) => {
                        let sent = send(&self.engine, job).await;
                        self.sent.push_back(sent);
                    }
                    None => is_open = false,
                },
            }
        }
    }

    /// Sends everything again that was not acknowledged, in order. What the server
    /// has, it knows by its subject.
    async fn send_again(&mut self) {
        for sent in std::mem::take(&mut self.sent) {
            let sent = send(&self.engine, sent.job).await;
            self.sent.push_back(sent);
        }
    }

    /// Takes down what became of the first.
    async fn settle(&mut self, outcome: Result<PublishAck, Unpublished>) {
        let error = match outcome {
            Ok(_) | Err(Unpublished::Crowded) => {
                self.settled();
                return;
            }
            Err(Unpublished::Passing(cause)) => {
                layout::pause(&cause).await;
                return self.send_again().await;
            }
            Err(Unpublished::NoStream) => {
                layout::pause("no stream").await;
                return self.send_again().await;
            }
            Err(error @ (Unpublished::NotFirst | Unpublished::Final(_))) => error.into_error(),
        };
        if let Some(job) = self.settled() {
            // Whoever does not listen does not want to know.
            let _ = self.refuse.send((job, error));
        }
    }

    /// Takes the first off.
    fn settled(&mut self) -> Option<Job> {
        let sent = self.sent.pop_front()?;
        self.unsettled.send_if_modified(|count| {
            *count -= 1;
            *count == 0
        });
        Some(sent.job)
    }
}

async fn send(engine: &Engine, job: Job) -> Sent {
    let acknowledged = match engine.send(&engine.names.job(&job), &ticket(&job)).await {
        Ok(sent) => {
            let engine = engine.clone();
            let word = async move { sent.await.map_err(|error| engine.unpublished(&error)) };
            word.boxed()
        }
        Err(error) => std::future::ready(Err(error)).boxed(),
    };
    Sent { job, acknowledged }
}

/// Waits for what becomes of the first.
async fn first(sent: &mut VecDeque<Sent>) -> Result<PublishAck, Unpublished> {
    match sent.front_mut() {
        Some(sent) => (&mut sent.acknowledged).await,
        None => std::future::pending().await,
    }
}
