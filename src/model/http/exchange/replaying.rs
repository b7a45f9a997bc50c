//! Answering from a recording.
//!
//! Everything is read and checked before the first request. A request is
//! answered with the first exchange that has the same canonical bytes and was
//! not used yet, so a retry gets what the retry got. Answers end in the order
//! in which they ended, so that units meet each other where they met.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::canonical::Volatile;
use super::file::{End, Exchange, Order, Piece};
use super::manifest::Manifest;
use super::{Break, MANIFEST, exchanges_in};
use crate::config::ServerModel;
use crate::model::{ModelError, ModelErrorKind};

/// Most bytes of a whole recording: it is held in memory. A long run with a
/// hundred agents stays far below.
const RECORDING_CAP: u64 = 512 * 1024 * 1024;

/// Bytes shown on each side of the place where two requests part.
const CONTEXT: usize = 40;

/// Most unused files that are named.
const NAMED_FILES: usize = 5;

/// Longest that an answer waits for its turn. Where the order cannot be as it
/// was, because fewer agents run at once or one is missing, it is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// How fast recorded answers come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As they came when they were recorded.
    Recorded,
    /// At once. What a provider said about asking again later is left out: it
    /// would be waited for.
    AtOnce,
}

/// Why a recording cannot be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// There is none.
    #[error("`{}` holds no recording", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The file, or the directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("`{}` is no part of a recording: {reason}", path.display())]
    Mangled {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It does not fit into memory.
    #[error("the recording in `{}` has more than {} MiB", path.display(), RECORDING_CAP >> 20)]
    TooLarge {
        /// The directory.
        path: PathBuf,
    },
}

/// A recording that answers.
pub struct Player {
    directory: PathBuf,
    volatile: Volatile,
    pace: Pace,
    manifest: Manifest,
    recorded: Vec<Recorded>,
    state: Mutex<State>,
    /// Tells whoever waits for their turn that something was asked or answered.
    changes: watch::Sender<()>,
}

/// An exchange and the name of its file.
struct Recorded {
    file: String,
    exchange: Exchange,
}

struct State {
    /// What was not used yet, by canonical request, in the order recorded.
    unused: HashMap<Vec<u8>, VecDeque<usize>>,
    /// How many requests were not there, and what the first was told.
    missed: Option<(usize, String)>,
    /// Which exchanges were asked for.
    asked: Vec<bool>,
    /// Which have come to their last piece.
    answered: Vec<bool>,
    /// Whether the order of the recording can still be kept.
    is_ordered: bool,
}

impl Player {
    /// Reads a recording.
    ///
    /// # Errors
    ///
    /// There is none, or something in it cannot be read.
    pub fn open(
        directory: &Path,
        volatile: Volatile,
        pace: Pace,
    ) -> Result<Arc<Self>, ReplayError> {
        let mut room = Room { directory, left: RECORDING_CAP };
        if !directory.join(MANIFEST).exists() {
            return Err(ReplayError::Missing { path: directory.to_owned() });
        }
        let manifest = room.read(MANIFEST, Manifest::from_text)?;
        let unreadable = |source| ReplayError::Unreadable { path: directory.to_owned(), source };
        let mut recorded = Vec::new();
        let mut unused: HashMap<_, VecDeque<usize>> = HashMap::new();
        for file in exchanges_in(directory).map_err(unreadable)? {
            let exchange = room.read(&file, Exchange::from_text)?;
            unused.entry(exchange.request.clone()).or_default().push_back(recorded.len());
            recorded.push(Recorded { file, exchange });
        }
        let state = Mutex::new(State {
            unused,
            missed: None,
            asked: vec![false; recorded.len()],
            answered: vec![false; recorded.len()],
            is_ordered: true,
        });
        let (directory, changes) = (directory.to_owned(), watch::Sender::new(()));
        Ok(Arc::new(Self { directory, volatile, pace, manifest, recorded, state, changes }))
    }

    /// Returns the directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the pace.
    #[must_use]
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Returns the model that answered where none was chosen.
    #[must_use]
    pub fn main_model(&self) -> Option<&ServerModel> {
        self.manifest.models.get(self.manifest.model.as_ref()?)
    }

    /// Returns the models that answered, by name.
    #[must_use]
    pub fn models(&self) -> &BTreeMap<String, ServerModel> {
        &self.manifest.models
    }

    /// Returns what to tell people at the end: what was missing, what is left.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let state = self.state();
        let missed = state.missed.as_ref().filter(|(count, _)| *count > 1);
        let missed = missed.map(|(count, first)| {
            format!("{count} requests were not recorded; the first: {first}")
        });
        missed.into_iter().chain(self.unused(&state)).collect()
    }

    fn unused(&self, state: &State) -> Option<String> {
        let mut unused: Vec<usize> = state.unused.values().flatten().copied().collect();
        unused.sort_unstable();
        let named: Vec<_> =
            unused.iter().take(NAMED_FILES).map(|&at| self.recorded[at].file.as_str()).collect();
        let (count, all) = (unused.len(), self.recorded.len());
        let more = if count > NAMED_FILES { ", …" } else { "" };
        let directory = self.directory.display();
        let names = named.join(", ");
        (count > 0).then(|| {
            format!("{count} of {all} exchanges in `{directory}` were not asked for: {names}{more}")
        })
    }

    /// Finds what was answered to a request.
    ///
    /// # Errors
    ///
    /// It was not recorded; says where it parts from the one most like it.
    pub(super) fn answer(self: &Arc<Self>, body: &[u8]) -> Result<Playing, ModelError> {
        let request = self.volatile.canonical(body);
        let mut state = self.state();
        let next = state.unused.get_mut(&request).and_then(VecDeque::pop_front);
        if let Some(at) = next {
            state.asked[at] = true;
            drop(state);
            self.changes.send_replace(());
            return Ok(Playing { player: Arc::clone(self), at });
        }
        state.is_ordered = false;
        let message = self.mismatch(&request, &state);
        let missed = state.missed.take();
        state.missed =
            Some(missed.map_or((1, message.clone()), |(count, first)| (count + 1, first)));
        drop(state);
        self.changes.send_replace(());
        let error = ModelError::new(ModelErrorKind::Request, message);
        Err(ModelError { should_retry: Some(false), ..error })
    }

    /// Says why there is no answer.
    fn mismatch(&self, request: &[u8], state: &State) -> String {
        let equal = |recorded: &&Recorded| recorded.exchange.request == request;
        if let Some(last) = self.recorded.iter().rfind(equal) {
            let count = self.recorded.iter().filter(equal).count();
            let file = &last.file;
            return match count {
                1 => format!("this request was answered already, with `{file}`"),
                _ => format!("this request was answered {count} times already, last with `{file}`"),
            };
        }
        let mut unused: Vec<usize> = state.unused.values().flatten().copied().collect();
        // The first of those that are equally like it.
        unused.sort_unstable_by_key(|&at| std::cmp::Reverse(at));
        let same = |at: usize| {
            let recorded = &self.recorded[at].exchange.request;
            recorded.iter().zip(request).take_while(|(one, other)| one == other).count()
        };
        let Some((same, at)) = unused.into_iter().map(|at| (same(at), at)).max_by_key(|it| it.0)
        else {
            let (all, directory) = (self.recorded.len(), self.directory.display());
            return format!("this request was not recorded: all {all} in `{directory}` are used");
        };
        let Recorded { file, exchange } = &self.recorded[at];
        let (recorded, now) = (around(&exchange.request, same), around(request, same));
        format!(
            "this request was not recorded: it parts from `{file}` at byte {same}, where `{recorded}` became `{now}`"
        )
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is left of the room for a recording.
struct Room<'a> {
    directory: &'a Path,
    left: u64,
}

impl Room<'_> {
    fn read<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, ReplayError> {
        let path = self.directory.join(name);
        let mut bytes = Vec::new();
        let opened = fs::File::open(&path);
        let read = opened.and_then(|file| file.take(self.left + 1).read_to_end(&mut bytes));
        read.map_err(|source| ReplayError::Unreadable { path: path.clone(), source })?;
        let room = self.left.checked_sub(bytes.len() as u64);
        self.left =
            room.ok_or_else(|| ReplayError::TooLarge { path: self.directory.to_owned() })?;
        let text = String::from_utf8(bytes).map_err(|_| "it is no text".to_owned());
        let parsed = text.and_then(|text| parse(&text));
        parsed.map_err(|reason| ReplayError::Mangled { path, reason })
    }
}

/// What stands around a place, in whole characters.
fn around(body: &[u8], at: usize) -> String {
    let is_inside = |at: &usize| body.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let mut start = at.saturating_sub(CONTEXT).min(body.len());
    let mut end = (at + CONTEXT).min(body.len());
    while is_inside(&start) {
        start += 1;
    }
    while is_inside(&end) {
        end -= 1;
    }
    String::from_utf8_lossy(&body[start..end.max(start)]).into_owned()
}

/// A recorded exchange that is about to answer.
pub(super) struct Playing {
    player: Arc<Player>,
    at: usize,
}

/// How a recorded exchange begins.
pub(super) enum Beginning {
    /// With an answer.
    Answer { status: u16, headers: HeaderMap, body: Body },
    /// With nothing: no connection, for this reason.
    NoAnswer(String),
    /// With silence, until nobody waited any longer.
    Silence,
}

impl Playing {
    /// Begins to answer.
    pub(super) async fn begin(self) -> Beginning {
        let Exchange { status, headers, pieces, end, ended_ms, .. } = self.exchange().clone();
        let pace = self.player.pace;
        let clock = Clock { pace, begun: Instant::now() };
        let Some(status) = status else {
            clock.reach(ended_ms).await;
            self.wait_for_turn().await;
            self.answered();
            return match end {
                End::NoAnswer(why) => Beginning::NoAnswer(why),
                End::Whole | End::Left | End::Broken(_) => Beginning::Silence,
            };
        };
        let is_floor = |name: &str| match pace {
            Pace::Recorded => false,
            Pace::AtOnce => name.starts_with("retry-after") || name.contains("ratelimit"),
        };
        let told = headers.iter().filter(|(name, _)| !is_floor(name));
        let headers = told.filter_map(|(name, value)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        });
        let headers = headers.collect();
        let body = Body { playing: self, clock, pieces: pieces.into(), end, ended_ms };
        Beginning::Answer { status, headers, body }
    }

    fn exchange(&self) -> &Exchange {
        &self.player.recorded[self.at].exchange
    }

    /// Waits until all has happened that had happened when this was answered.
    async fn wait_for_turn(&self) {
        let patience = Instant::now() + PATIENCE;
        let mut changes = self.player.changes.subscribe();
        while !self.is_due() {
            if timeout_at(patience, changes.changed()).await.is_err() {
                self.player.state().is_ordered = false;
                self.player.changes.send_replace(());
                return;
            }
        }
    }

    fn is_due(&self) -> bool {
        let state = self.player.state();
        let Some(own) = self.exchange().order.filter(|_| state.is_ordered) else { return true };
        let is_missing = |(at, recorded): (usize, &Recorded)| {
            recorded.exchange.order.is_some_and(|Order { asked, answered }| {
                (asked < own.answered && !state.asked[at])
                    || (answered < own.answered && !state.answered[at])
            })
        };
        !self.player.recorded.iter().enumerate().any(is_missing)
    }

    fn answered(&self) {
        self.player.state().answered[self.at] = true;
        self.player.changes.send_replace(());
    }
}

/// The body of a recorded answer.
pub(super) struct Body {
    playing: Playing,
    clock: Clock,
    pieces: VecDeque<Piece>,
    end: End,
    ended_ms: u64,
}

impl Body {
    /// Returns the next piece; `None` at its end. A call that is dropped loses
    /// nothing.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Break> {
        let next = self.pieces.front().map_or(self.ended_ms, |piece| piece.after_ms);
        self.clock.reach(next).await;
        if self.pieces.len() <= 1 {
            self.playing.wait_for_turn().await;
            self.playing.answered();
        }
        match self.pieces.pop_front() {
            Some(piece) => Ok(Some(piece.bytes.into())),
            None => match &self.end {
                End::Whole => Ok(None),
                End::Broken(why) => Err(Break::Broken(why.clone())),
                // Nobody waited for more.
                End::Left | End::NoAnswer(_) => Err(Break::Silent),
            },
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // Nobody reads the rest, and others may wait for its end.
        self.playing.answered();
    }
}

#[derive(Clone, Copy)]
struct Clock {
    pace: Pace,
    begun: Instant,
}

impl Clock {
    async fn reach(self, after_ms: u64) {
        match self.pace {
            Pace::Recorded => sleep_until(self.begun + Duration::from_millis(after_ms)).await,
            Pace::AtOnce => {}
        }
    }
}
