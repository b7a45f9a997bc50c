//! A provider on paused time that takes so many requests and no more.
//!
//! It answers every slot with one call after the other until it has answered
//! so many requests, and refuses what is over its limits as real ones do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use serde_json::{Value, json};
use tine::event::UnitId;
use tine::message::{Call, Reply, StopReason, Usage};
use tine::model::gate::{Gate, Lane, Quota};
use tine::model::retry::Jitter;
use tine::model::{Answer, Chunk, Model, ModelError, ModelErrorKind, Request};
use tokio::time::Instant;

/// From sending a request to hearing that it is refused.
const REFUSAL: Duration = Duration::from_millis(40);

/// What a provider takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Takes {
    /// So many in flight until it has answered half of all, then so many.
    InFlight { first: usize, then: usize, all: usize },
    /// So many in each stretch of time.
    Each { many: usize, window: Duration },
}

/// A provider and what has happened there.
pub(crate) struct Provider {
    name: Arc<str>,
    takes: Takes,
    /// What main asks for first.
    batch: Value,
    /// How many requests each slot makes.
    each: u32,
    tells: bool,
    service: Duration,
    lane: Lane,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    jitter: Jitter,
    in_flight: usize,
    answered: usize,
    /// When each request came that was taken.
    taken: Vec<Instant>,
    refused: BTreeMap<UnitId, usize>,
    /// Times that refusals have named.
    told: Vec<ToldTime>,
    /// Requests that came before the time that was asked for, while nothing was answered
    /// since or as many were in flight as then.
    early: usize,
}

/// A time that a refusal has asked for.
struct ToldTime {
    heard: Instant,
    until: Instant,
    /// Requests that were in flight.
    beside: usize,
    /// `true` once one was answered.
    is_answered: bool,
}

/// What there is to tell of a storm.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) answered: usize,
    pub(crate) refused: usize,
    pub(crate) early: usize,
}

impl Provider {
    /// One for a batch of so many slots that make so many requests each. If it
    /// `tells`, its refusals say when to come again. An answer takes about a
    /// second.
    pub(crate) fn new(takes: Takes, slots: usize, each: u32, tells: bool, seed: u64) -> Arc<Self> {
        let task = |number: usize| {
            json!({ "description": format!("slot {number}"), "prompt": "work",
                "subagent_type": "explore" })
        };
        Arc::new(Self {
            name: "provider".into(),
            takes,
            batch: json!({ "tasks": (0..slots).map(task).collect::<Vec<_>>() }),
            each,
            tells,
            service: Duration::from_secs(1),
            lane: Gate::new(None).lane(Quota::default()),
            shared: Arc::new(Mutex::new(Shared {
                jitter: Jitter::new(seed),
                in_flight: 0,
                answered: 0,
                taken: Vec::new(),
                refused: BTreeMap::new(),
                told: Vec::new(),
                early: 0,
            })),
        })
    }

    pub(crate) fn tally(&self) -> Tally {
        let shared = self.shared.lock().expect("nothing panics while it holds the lock");
        Tally {
            answered: shared.answered,
            refused: shared.refused.values().sum(),
            early: shared.early,
        }
    }

    /// Takes the request, or says when to come again.
    fn come(&self, unit: UnitId) -> Result<Duration, Option<Duration>> {
        let now = Instant::now();
        let mut shared = self.shared.lock().expect("nothing panics while it holds the lock");
        let shared = &mut *shared;
        let is_early = |told: &ToldTime| {
            let is_within = told.heard < now && now < told.until;
            is_within && (!told.is_answered || shared.in_flight >= told.beside)
        };
        shared.early += usize::from(shared.told.iter().any(is_early));
        let (is_full, wait) = match self.takes {
            Takes::InFlight { first, then, all } => {
                let most = if shared.answered < all / 2 { first } else { then };
                (shared.in_flight >= most, self.service / 2)
            }
            Takes::Each { many, window } => {
                let recent = shared.taken.iter().rev().take_while(|came| now - **came < window);
                let wait = match shared.taken.len().checked_sub(many) {
                    Some(first) => window.saturating_sub(now - shared.taken[first]),
                    None => Duration::ZERO,
                };
                (recent.count() >= many, wait)
            }
        };
        if is_full {
            *shared.refused.entry(unit).or_default() += 1;
            let wait = self.tells.then_some(wait);
            let (heard, beside) = (now + REFUSAL, shared.in_flight);
            let told = |wait| ToldTime { heard, until: heard + wait, beside, is_answered: false };
            shared.told.extend(wait.map(told));
            return Err(wait);
        }
        shared.in_flight += 1;
        shared.taken.push(now);
        // From nine to eleven tenths of a second.
        Ok(self.service.mul_f64(0.9 + shared.jitter.draw() / 5.0))
    }

    fn answer(&self, request: &Request) -> Answer {
        let asker = &request.asker;
        let (tool, arguments) = match (asker.unit, asker.turn) {
            (UnitId::MAIN, 1) => ("Agent", self.batch.clone()),
            (UnitId::MAIN, _) => return said("all done"),
            (_, turn) if turn >= self.each => return said("done"),
            (_, turn) => ("Grep", json!({ "pattern": format!("nothing has {turn} of this") })),
        };
        let id = format!("call-{}-{}", asker.unit, asker.turn);
        let call = Call {
            id: id.as_str().into(),
            tool: tool.to_owned(),
            arguments: arguments.to_string(),
        };
        let reply = Reply { calls: vec![call], ..Reply::default() };
        Answer { reply, usage: Usage::default(), stop: StopReason::ToolUse }
    }
}

fn said(text: &str) -> Answer {
    let reply = Reply { text: text.to_owned(), ..Reply::default() };
    Answer { reply, usage: Usage::default(), stop: StopReason::EndTurn }
}

impl Model for Provider {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn lane(&self) -> Option<&Lane> {
        Some(&self.lane)
    }

    fn respond(&self, request: Request) -> BoxStream<'static, Result<Chunk, ModelError>> {
        let came = self.come(request.asker.unit);
        let answer = self.answer(&request);
        let place = came.is_ok().then(|| Place(Arc::clone(&self.shared)));
        stream::once(async move {
            match came {
                Ok(service) => {
                    tokio::time::sleep(service).await;
                    place.expect("whoever is taken has a place").done();
                    Ok(Chunk::Finished(Box::new(answer)))
                }
                Err(retry_after) => {
                    tokio::time::sleep(REFUSAL).await;
                    let error = ModelError::new(ModelErrorKind::RateLimited, "HTTP 429: slow");
                    Err(ModelError { status: Some(429), retry_after, ..error })
                }
            }
        })
        .boxed()
    }
}

/// A request in flight.
struct Place(Arc<Mutex<Shared>>);

impl Place {
    fn done(self) {
        let mut shared = self.0.lock().expect("nothing panics while it holds the lock");
        shared.answered += 1;
        let now = Instant::now();
        let heard = shared.told.iter_mut().filter(|told| told.heard <= now);
        heard.for_each(|told| told.is_answered = true);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.lock().expect("nothing panics while it holds the lock").in_flight -= 1;
    }
}
