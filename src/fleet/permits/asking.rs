//! The worker's side: it asks the coordinators of its runs, and tells them how
//! requests ended.
//!
//! A permit is told of until its coordinator knows how it ended, so what is lost on
//! the way is said again; whoever gives up waiting has its question taken back the
//! same way.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::office::TICK;
use super::words::{Answer, Ask, Tell, ToOffice};
use crate::event::SessionId;
use crate::fleet::engine::Engine;
use crate::model::gate::{Beyond, End, Permit, Said, Shut, Turn, Wanted};

/// How long a coordinator has to answer, at least.
pub(super) const SILENCE: Duration = Duration::from_millis(250);

/// How long the number of workers is taken for the present one: as long as a worker
/// that has gone is still reported.
const COUNT_EVERY: Duration = Duration::from_secs(15);

/// How often a coordinator is told which permits live, as a part of the lease.
const TELLS: u32 = 4;

/// Sends a message to a run's coordinator; `None` if no answer comes in time.
pub(super) type Mail =
    Arc<dyn Fn(Vec<u8>, Duration) -> BoxFuture<'static, Option<Bytes>> + Send + Sync>;

/// What a worker has its requests permitted by.
pub struct Permits {
    engine: Engine,
    worker: Arc<str>,
    ids: Arc<AtomicU64>,
    sharers: Arc<Sharers>,
    // A mutex, because slots of several runs start side by side.
    runs: Mutex<HashMap<Arc<str>, Weak<Run>>>,
    /// How long a coordinator has to answer if that is more than usual.
    patience: Duration,
    /// Ends the counting of workers.
    _over: DropGuard,
}

impl Permits {
    /// The permits of the worker that is called so. It must be called on one of the
    /// runtime's threads.
    #[must_use]
    pub fn new(engine: Engine, worker: Arc<str>) -> Self {
        let (sharers, over) = (Arc::<Sharers>::default(), CancellationToken::new());
        let counting = Arc::clone(&sharers).count(engine.clone());
        tokio::spawn(over.clone().run_until_cancelled_owned(counting));
        let _over = over.drop_guard();
        let (ids, runs, patience) = (Arc::default(), Mutex::default(), Duration::ZERO);
        Self { engine, worker, ids, sharers, runs, patience, _over }
    }

    /// The same, with coordinators that have longer to answer.
    #[must_use]
    pub fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Returns what permits the requests for a run.
    #[must_use]
    pub fn of(&self, session: &SessionId) -> Arc<dyn Beyond> {
        let session = &session.0;
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = runs.get(session).and_then(Weak::upgrade) {
            return run;
        }
        runs.retain(|_, run| run.strong_count() > 0);
        let (engine, called) = (self.engine.clone(), Arc::clone(session));
        let patience = self.patience;
        let mail: Mail = Arc::new(move |message, limit| {
            let (engine, called) = (engine.clone(), Arc::clone(&called));
            let limit = limit.max(patience);
            async move { engine.permit(&called, message.into(), limit).await.ok() }.boxed()
        });
        let (ids, sharers) = (Arc::clone(&self.ids), Arc::clone(&self.sharers));
        let numbers = Numbers { ids, sharers };
        let names = Names { run: Arc::clone(session), worker: Arc::clone(&self.worker) };
        let run = Arc::new(Run::new(names, mail, numbers, self.engine.lease()));
        runs.insert(Arc::clone(session), Arc::downgrade(&run));
        run
    }
}

/// How many workers share what is configured.
#[derive(Debug, Default)]
pub(super) struct Sharers {
    /// 0 before they are counted.
    pub(super) count: AtomicUsize,
    asked: Notify,
}

impl Sharers {
    fn get(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.count.load(Ordering::Relaxed)).unwrap_or(NonZeroUsize::MIN)
    }

    /// Counts them now and then while there are requests: when the number is needed,
    /// it may be too late to ask for it.
    async fn count(self: Arc<Self>, engine: Engine) {
        loop {
            self.asked.notified().await;
            // The last number is the best guess until there is another.
            if let Ok(count) = engine.worker_count().await {
                self.count.store(count, Ordering::Relaxed);
            }
            sleep(COUNT_EVERY).await;
        }
    }
}

/// Who asks whom.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// What the names of lanes are made with.
    pub(super) run: Arc<str>,
    pub(super) worker: Arc<str>,
}

/// What all runs of a worker have in common.
#[derive(Debug, Clone, Default)]
pub(super) struct Numbers {
    /// The last number that was given to a question.
    pub(super) ids: Arc<AtomicU64>,
    pub(super) sharers: Arc<Sharers>,
}

/// What permits the requests for a run.
pub(super) struct Run {
    names: Names,
    mail: Mail,
    numbers: Numbers,
    // Unbounded: there is one for each request that is under way.
    asked: mpsc::UnboundedSender<(u64, oneshot::Receiver<End>)>,
}

impl Run {
    pub(super) fn new(names: Names, mail: Mail, numbers: Numbers, lease: Duration) -> Self {
        let (asked, asking) = mpsc::unbounded_channel();
        let keeper = Keeper {
            worker: Arc::clone(&names.worker),
            mail: Arc::clone(&mail),
            lease,
            alive: HashSet::new(),
            ends: FuturesUnordered::new(),
            ended: Vec::new(),
        };
        tokio::spawn(keeper.work(asking));
        Self { names, mail, numbers, asked }
    }
}

impl Beyond for Run {
    fn ask(&self, wanted: Wanted) -> BoxFuture<'static, Said> {
        let Wanted { lane, bounds, estimate } = wanted;
        let id = self.numbers.ids.fetch_add(1, Ordering::Relaxed) + 1;
        let (permit, ended) = Permit::new();
        // The keeper is there for as long as this is.
        let _ = self.asked.send((id, ended));
        self.numbers.sharers.asked.notify_one();
        let Names { run, worker } = &self.names;
        let (worker, lane) = (Arc::clone(worker), lane.called(run));
        let ask = Ask { worker, id, lane, bounds, estimate, waits: false };
        let (mail, sharers) = (Arc::clone(&self.mail), Arc::clone(&self.numbers.sharers));
        Box::pin(async move {
            match answer(&mail, &ToOffice::Ask(ask.clone()), SILENCE).await {
                Some(Answer::Passed) => Said::Now(Turn::Passed(permit)),
                Some(Answer::Shut(after)) => Said::Now(shut(after)),
                Some(Answer::Held(cause)) => {
                    let ask = Ask { waits: true, ..ask };
                    Said::Held { cause, turn: Box::pin(wait(mail, ask, permit, sharers)) }
                }
                Some(Answer::Noted) | None => Said::Now(Turn::Silent { sharers: sharers.get() }),
            }
        })
    }
}

/// Waits in the coordinator's queue.
async fn wait(mail: Mail, ask: Ask, permit: Permit, sharers: Arc<Sharers>) -> Turn {
    let ask = ToOffice::Ask(ask);
    loop {
        // It says at least so often that there is nothing to say.
        match answer(&mail, &ask, TICK + SILENCE).await {
            Some(Answer::Passed) => return Turn::Passed(permit),
            Some(Answer::Shut(after)) => return shut(after),
            Some(Answer::Held(_)) => {}
            Some(Answer::Noted) | None => return Turn::Silent { sharers: sharers.get() },
        }
    }
}

async fn answer(mail: &Mail, message: &ToOffice, limit: Duration) -> Option<Answer> {
    Answer::decode(&mail(message.encode(), limit).await?)
}

fn shut(after: Duration) -> Turn {
    Turn::Shut(Shut { until: Instant::now() + after })
}

/// Tells the coordinator of a run about the permits for it.
struct Keeper {
    worker: Arc<str>,
    mail: Mail,
    lease: Duration,
    /// Permits, and questions for some.
    alive: HashSet<u64>,
    ends: FuturesUnordered<BoxFuture<'static, (u64, End)>>,
    /// What the coordinator may not know, and since when.
    ended: Vec<(u64, End, Instant)>,
}

impl Keeper {
    /// Tells until nobody asks any more, and all is told.
    async fn work(mut self, mut asking: mpsc::UnboundedReceiver<(u64, oneshot::Receiver<End>)>) {
        let mut ticks = interval(self.lease / TELLS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_open = true;
        while is_open || !self.alive.is_empty() || !self.ended.is_empty() {
            tokio::select! {
                asked = asking.recv(), if is_open => match asked {
                    Some((id, ended)) => self.takes(id, ended),
                    None => is_open = false,
                },
                Some(end) = self.ends.next() => {
                    self.ends(end);
                    while let Some(Some(end)) = self.ends.next().now_or_never() {
                        self.ends(end);
                    }
                    self.tells().await;
                }
                _ = ticks.tick() => self.tells().await,
            }
        }
    }

    fn takes(&mut self, id: u64, ended: oneshot::Receiver<End>) {
        self.alive.insert(id);
        self.ends.push(Box::pin(async move { (id, ended.await.unwrap_or(End::Dropped)) }));
    }

    fn ends(&mut self, (id, end): (u64, End)) {
        self.alive.remove(&id);
        self.ended.push((id, end, Instant::now()));
    }

    async fn tells(&mut self) {
        if self.alive.is_empty() && self.ended.is_empty() {
            return;
        }
        let tell = ToOffice::Tell(Tell {
            worker: Arc::clone(&self.worker),
            alive: self.alive.iter().copied().collect(),
            ended: self.ended.iter().map(|(id, end, _)| (*id, *end)).collect(),
        });
        match answer(&self.mail, &tell, SILENCE).await {
            Some(Answer::Noted) => self.ended.clear(),
            Some(Answer::Passed | Answer::Held(_) | Answer::Shut(_)) | None => {
                // By then the coordinator has taken them back.
                let lease = self.lease;
                self.ended.retain(|(.., since)| since.elapsed() <= lease * 2);
            }
        }
    }
}
