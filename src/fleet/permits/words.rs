//! What workers and a coordinator say about permits, and the JSON that it is on its
//! way. Moments are told as times from now: clocks of machines differ.

use std::borrow::Cow;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::model::gate::{Bounds, End, LaneName, Quota, Throttle};
use crate::model::retry::floor::FARTHEST;

/// Most characters of a name. Those of lanes have 32, those of workers not many more.
const NAME_CAP: usize = 256;

/// What a worker says.
#[derive(Debug, PartialEq)]
pub(super) enum ToOffice {
    /// It wants to send a request.
    Ask(Ask),
    /// It tells of permits.
    Tell(Tell),
}

/// A question for a permit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ask {
    pub(super) worker: Arc<str>,
    /// The worker's number for it; no other of that worker has it.
    pub(super) id: u64,
    pub(super) lane: LaneName,
    /// What the worker has configured.
    pub(super) bounds: Bounds,
    pub(super) estimate: u64,
    /// Whether it was told to wait, and does: the answer has time.
    pub(super) waits: bool,
}

/// What became of permits.
#[derive(Debug, PartialEq)]
pub(super) struct Tell {
    pub(super) worker: Arc<str>,
    /// Those that it has, or waits for.
    pub(super) alive: Vec<u64>,
    /// Those that it has no more.
    pub(super) ended: Vec<(u64, End)>,
}

/// What a coordinator says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Answer {
    Passed,
    Held(Throttle),
    /// For so long.
    Shut(Duration),
    /// What was told is known now.
    Noted,
}

impl ToOffice {
    pub(super) fn encode(&self) -> Vec<u8> {
        let body = match self {
            Self::Ask(ask) => ToOfficeBody::Ask(AskBody::of(ask)),
            Self::Tell(Tell { worker, alive, ended }) => ToOfficeBody::Tell(TellBody {
                worker: (&**worker).into(),
                alive: alive.clone(),
                ended: ended.iter().map(|(id, end)| (*id, EndBody::of(*end))).collect(),
            }),
        };
        serde_json::to_vec(&body).expect("text and numbers are always JSON")
    }

    /// Reads what was written; `None` if it is anything else.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        Some(match serde_json::from_slice(bytes).ok()? {
            ToOfficeBody::Ask(body) => Self::Ask(body.into_ask()?),
            ToOfficeBody::Tell(TellBody { worker, alive, ended }) => {
                let ended = ended.into_iter().map(|(id, end)| (id, end.into_end()));
                Self::Tell(Tell { worker: worker.into(), alive, ended: ended.collect() })
            }
        })
    }
}

impl Answer {
    pub(super) fn encode(self) -> Vec<u8> {
        let left = |until: Instant| millis(until.saturating_duration_since(Instant::now()));
        let body = match self {
            Self::Passed => AnswerBody::Passed,
            Self::Held(throttle) => AnswerBody::Held(match throttle {
                Throttle::InFlight => CauseBody::InFlight,
                Throttle::Provider { until } => CauseBody::Provider { wait_ms: left(until) },
                Throttle::Requests { until } => CauseBody::Requests { wait_ms: left(until) },
                Throttle::Tokens { until } => CauseBody::Tokens { wait_ms: left(until) },
            }),
            Self::Shut(wait) => AnswerBody::Shut { wait_ms: millis(wait) },
            Self::Noted => AnswerBody::Noted,
        };
        serde_json::to_vec(&body).expect("text and numbers are always JSON")
    }

    /// Reads what was written; `None` if it is anything else.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let until = |wait_ms| Instant::now() + time(wait_ms);
        Some(match serde_json::from_slice(bytes).ok()? {
            AnswerBody::Passed => Self::Passed,
            AnswerBody::Held(cause) => Self::Held(match cause {
                CauseBody::InFlight => Throttle::InFlight,
                CauseBody::Provider { wait_ms } => Throttle::Provider { until: until(wait_ms) },
                CauseBody::Requests { wait_ms } => Throttle::Requests { until: until(wait_ms) },
                CauseBody::Tokens { wait_ms } => Throttle::Tokens { until: until(wait_ms) },
            }),
            AnswerBody::Shut { wait_ms } => Self::Shut(time(wait_ms)),
            AnswerBody::Noted => Self::Noted,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ToOfficeBody<'a> {
    Ask(AskBody<'a>),
    Tell(TellBody<'a>),
}

#[derive(Serialize, Deserialize)]
struct AskBody<'a> {
    worker: Cow<'a, str>,
    id: u64,
    gate: Cow<'a, str>,
    lane: Cow<'a, str>,
    requests_per_minute: Option<NonZeroU32>,
    tokens_per_minute: Option<NonZeroU32>,
    most_in_flight: Option<NonZeroUsize>,
    estimate: u64,
    waits: bool,
}

impl<'a> AskBody<'a> {
    fn of(ask: &'a Ask) -> Self {
        let Ask { worker, id, lane: LaneName { gate, lane }, bounds, estimate, waits } = ask;
        let Bounds { quota, most_in_flight } = *bounds;
        Self {
            worker: (&**worker).into(),
            id: *id,
            gate: gate.into(),
            lane: lane.into(),
            requests_per_minute: quota.requests_per_minute,
            tokens_per_minute: quota.tokens_per_minute,
            most_in_flight,
            estimate: *estimate,
            waits: *waits,
        }
    }

    fn into_ask(self) -> Option<Ask> {
        // They are kept.
        if [&self.worker, &self.gate, &self.lane].iter().any(|name| name.len() > NAME_CAP) {
            return None;
        }
        let Self { worker, id, gate, lane, most_in_flight, estimate, waits, .. } = self;
        let Self { requests_per_minute, tokens_per_minute, .. } = self;
        let quota = Quota { requests_per_minute, tokens_per_minute };
        Some(Ask {
            worker: worker.into(),
            id,
            lane: LaneName { gate: gate.into_owned(), lane: lane.into_owned() },
            bounds: Bounds { quota, most_in_flight },
            estimate,
            waits,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct TellBody<'a> {
    worker: Cow<'a, str>,
    alive: Vec<u64>,
    ended: Vec<(u64, EndBody)>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EndBody {
    Answered { tokens: u64 },
    Refused { retry_after_ms: Option<u64> },
    Failed { tokens: u64, retry_after_ms: Option<u64> },
    Dropped,
}

impl EndBody {
    fn of(end: End) -> Self {
        match end {
            End::Answered { tokens } => Self::Answered { tokens },
            End::Refused { retry_after } => {
                Self::Refused { retry_after_ms: retry_after.map(millis) }
            }
            End::Failed { tokens, retry_after } => {
                Self::Failed { tokens, retry_after_ms: retry_after.map(millis) }
            }
            End::Dropped => Self::Dropped,
        }
    }

    fn into_end(self) -> End {
        match self {
            Self::Answered { tokens } => End::Answered { tokens },
            Self::Refused { retry_after_ms } => {
                End::Refused { retry_after: retry_after_ms.map(time) }
            }
            Self::Failed { tokens, retry_after_ms } => {
                End::Failed { tokens, retry_after: retry_after_ms.map(time) }
            }
            Self::Dropped => End::Dropped,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AnswerBody {
    Passed,
    Held(CauseBody),
    Shut { wait_ms: u64 },
    Noted,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CauseBody {
    InFlight,
    Provider { wait_ms: u64 },
    Requests { wait_ms: u64 },
    Tokens { wait_ms: u64 },
}

/// Rounds up: what is not yet over is not 0.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

fn time(millis: u64) -> Duration {
    Duration::from_millis(millis).min(FARTHEST)
}
