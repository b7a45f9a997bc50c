//! Writing exchanges down as they pass.
//!
//! Whoever reads an answer gets each piece as it comes; a [`Tape`] keeps what
//! passed and writes its file when the answer ends, breaks off or is let go of.
//! What cannot be written is counted and never ends a run.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::header::HeaderMap;
use thiserror::Error;
use tokio::time::Instant;

use super::canonical::Volatile;
use super::file::{End, Exchange, Order, Piece};
use super::manifest::Manifest;
use super::{MANIFEST, exchanges_in, file_name};
use crate::config::ServerModel;
use crate::message::counted;
use crate::model::http::ANSWER_CAP;

/// The headers of an answer that say something of it: what it is, when to ask
/// again by which clock, what is left of a limit, how the provider finds it.
const HEADERS: [&str; 8] = [
    "content-type",
    "date",
    "location",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "x-request-id",
    "x-should-retry",
];

/// What the names of more such headers begin with.
const HEADER_FAMILIES: [&str; 3] = ["x-ratelimit-", "ratelimit-", "anthropic-ratelimit-"];

/// Why nothing can be recorded.
#[derive(Debug, Error)]
pub enum RecordError {
    /// There is a recording already.
    #[error("`{}` holds a recording already", path.display())]
    Taken {
        /// The directory.
        path: PathBuf,
    },
    /// The directory cannot be made or written.
    #[error("cannot record to `{}`", path.display())]
    Unwritable {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A recording that is being made.
pub struct Recorder {
    directory: PathBuf,
    volatile: Volatile,
    /// How many requests and pieces there were, for their order.
    counted: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    manifest: Manifest,
    /// What the directory's manifest says; `None` if it has none yet.
    manifest_on_disk: Option<String>,
    /// The number of the last exchange.
    last: u32,
    /// How many exchanges could not be written, and why the first could not.
    lost: Option<(u32, String)>,
}

impl Recorder {
    /// Makes a place for a recording, with nothing in it yet.
    ///
    /// # Errors
    ///
    /// There is a recording in that directory, or it cannot be written.
    pub fn create(directory: &Path, volatile: Volatile) -> Result<Arc<Self>, RecordError> {
        let path = || directory.to_owned();
        let cannot = |source| RecordError::Unwritable { path: path(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(cannot)?;
        let is_taken = directory.join(MANIFEST).exists()
            || !exchanges_in(directory).map_err(cannot)?.is_empty();
        if is_taken {
            return Err(RecordError::Taken { path: path() });
        }
        tempfile::tempfile_in(directory).map_err(cannot)?;
        let (directory, state) = (directory.to_owned(), Mutex::default());
        Ok(Arc::new(Self { directory, volatile, counted: AtomicU64::new(0), state }))
    }

    /// Takes note of a model that is going to be asked.
    pub fn add_model(&self, server: &ServerModel) {
        self.state().manifest.add(server);
    }

    /// Returns what to tell people at the end, if anything was lost.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let state = self.state();
        let (count, why) = state.lost.as_ref()?;
        let exchanges = counted(*count, "exchange");
        let directory = self.directory.display();
        Some(format!("{exchanges} could not be recorded in `{directory}`: {why}"))
    }

    /// Begins with a request that is about to be sent.
    pub(super) fn begin(self: &Arc<Self>, model: &str, api: &str, path: &str, body: &[u8]) -> Tape {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        drop(state);
        let asked = self.count();
        let exchange = Exchange {
            model: model.to_owned(),
            api: api.to_owned(),
            path: path.to_owned(),
            request: self.volatile.canonical(body),
            status: None,
            headers: BTreeMap::new(),
            pieces: Vec::new(),
            end: End::Left,
            ended_ms: 0,
            order: Some(Order { asked, answered: asked }),
        };
        let (recorder, begun) = (Arc::clone(self), Instant::now());
        Tape { recorder, number, begun, kept: 0, exchange: Some(exchange) }
    }

    fn count(&self) -> u64 {
        self.counted.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn write(&self, number: u32, mut exchange: Exchange) {
        self.redact(&mut exchange);
        let text = exchange.to_text();
        let mut state = self.state();
        let written = self
            .write_manifest(&mut state)
            .and_then(|()| self.put(&file_name(number), &text, Over::Nothing));
        if let Err(error) = written {
            let why = error.to_string();
            state.lost = Some(state.lost.take().map_or((1, why), |(count, why)| (count + 1, why)));
        }
    }

    fn redact(&self, exchange: &mut Exchange) {
        let mut pieces: Vec<_> =
            exchange.pieces.iter_mut().map(|piece| std::mem::take(&mut piece.bytes)).collect();
        self.volatile.without_keys(&mut pieces);
        for (piece, bytes) in exchange.pieces.iter_mut().zip(pieces) {
            piece.bytes = bytes;
        }
        let texts = exchange.headers.values_mut().chain(match &mut exchange.end {
            End::Broken(why) | End::NoAnswer(why) => Some(why),
            End::Whole | End::Left => None,
        });
        texts.for_each(|text| *text = self.volatile.text_without_keys(text));
    }

    fn write_manifest(&self, state: &mut State) -> io::Result<()> {
        let text = self.volatile.text_without_keys(&state.manifest.to_text());
        if state.manifest_on_disk.as_ref() == Some(&text) {
            return Ok(());
        }
        let over = match state.manifest_on_disk {
            Some(_) => Over::Ours,
            None => Over::Nothing,
        };
        self.put(MANIFEST, &text, over)?;
        state.manifest_on_disk = Some(text);
        Ok(())
    }

    /// Puts a file there, whole or not at all, for the user alone.
    fn put(&self, name: &str, text: &str, over: Over) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        file.write_all(text.as_bytes())?;
        let path = self.directory.join(name);
        let put = match over {
            Over::Ours => file.persist(path),
            // Another process may record there too.
            Over::Nothing => file.persist_noclobber(path),
        };
        put.map(drop).map_err(|error| error.error)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a new file may take the place of.
enum Over {
    Nothing,
    Ours,
}

/// An exchange that is going on.
pub(super) struct Tape {
    recorder: Arc<Recorder>,
    number: u32,
    begun: Instant,
    /// Bytes of the answer so far.
    kept: usize,
    /// `None` once it is written.
    exchange: Option<Exchange>,
}

impl Tape {
    /// The answer begins.
    pub(super) fn answered(&mut self, status: u16, headers: &HeaderMap) {
        let Some(exchange) = &mut self.exchange else { return };
        exchange.status = Some(status);
        let told = headers.iter().filter(|(name, _)| is_told(name.as_str()));
        exchange.headers = told
            .map(|(name, value)| {
                (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            })
            .collect();
    }

    /// A piece of it passes. What is over the cap is read by nobody.
    pub(super) fn piece(&mut self, bytes: &[u8]) {
        let after_ms = self.after_ms();
        let Some(exchange) = &mut self.exchange else { return };
        let answered = self.recorder.count();
        exchange.order = exchange.order.map(|order| Order { answered, ..order });
        let bytes = &bytes[..bytes.len().min(ANSWER_CAP - self.kept)];
        self.kept += bytes.len();
        match exchange.pieces.last_mut() {
            // No clock that anybody looks at tells them apart.
            Some(last) if last.after_ms == after_ms => last.bytes.extend_from_slice(bytes),
            Some(_) | None => exchange.pieces.push(Piece { after_ms, bytes: bytes.to_vec() }),
        }
    }

    /// It has ended, and is written.
    pub(super) fn end(&mut self, end: End) {
        let ended_ms = self.after_ms();
        let Some(mut exchange) = self.exchange.take() else { return };
        if exchange.pieces.is_empty() {
            let answered = self.recorder.count();
            exchange.order = exchange.order.map(|order| Order { answered, ..order });
        }
        self.recorder.write(self.number, Exchange { end, ended_ms, ..exchange });
    }

    fn after_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.end(End::Left);
    }
}

fn is_told(name: &str) -> bool {
    HEADERS.contains(&name) || HEADER_FAMILIES.iter().any(|family| name.starts_with(family))
}
