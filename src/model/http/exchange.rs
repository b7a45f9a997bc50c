//! One request and what comes back: over the network, over the network and
//! into a recording, or out of a recording and from nowhere else.
//!
//! All APIs go this way, so all of them are recorded alike. Nothing here knows
//! what a request or an answer says.

mod canonical;
mod file;
mod manifest;
mod recording;
mod replaying;

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap};

use self::file::End;
use self::recording::Tape;
use self::replaying::{Beginning, Body};
use super::address::Address;
use super::fault;
use crate::model::{ModelError, ModelErrorKind};

pub use canonical::Volatile;
pub use recording::{RecordError, Recorder};
pub use replaying::{Pace, Player, ReplayError};

/// The file that names a recording's models.
const MANIFEST: &str = "recording.json";

/// Where requests go, and where their answers come from.
#[derive(Clone, Default)]
pub enum Exchanges {
    /// The network.
    #[default]
    Live,
    /// The network; all of it is written down.
    Record(Arc<Recorder>),
    /// A recording. No request leaves.
    Replay(Arc<Player>),
}

impl Exchanges {
    /// Returns what to tell people when a run is over.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        match self {
            Self::Live => Vec::new(),
            Self::Record(recorder) => recorder.trouble().into_iter().collect(),
            Self::Replay(player) => player.remarks(),
        }
    }
}

/// Whose requests go where.
pub(in crate::model) struct Route {
    /// The name people gave the model.
    pub(in crate::model) model: Arc<str>,
    /// The name of the API.
    pub(in crate::model) api: &'static str,
    /// What the API puts behind the base URL.
    pub(in crate::model) path: &'static str,
    pub(in crate::model) exchanges: Exchanges,
}

/// A request on its way.
pub(in crate::model) struct Outgoing<'a> {
    pub(in crate::model) route: &'a Route,
    pub(in crate::model) address: &'a Address,
    /// The connections that it goes over.
    pub(in crate::model) client: Result<reqwest::Client, ModelError>,
    pub(in crate::model) body: Bytes,
}

impl Outgoing<'_> {
    /// Sends it; `None` if, as recorded, nobody waited for an answer.
    ///
    /// # Errors
    ///
    /// There is no answer.
    pub(in crate::model) async fn send(self) -> Result<Option<Response>, ModelError> {
        let Route { model, api, path, exchanges } = self.route;
        let mut tape = match exchanges {
            Exchanges::Live => None,
            Exchanges::Record(recorder) => {
                Some(Box::new(recorder.begin(model, api, path, &self.body)))
            }
            Exchanges::Replay(player) => return replayed(player, &self.body).await,
        };
        match self.post().await {
            Ok(response) => {
                if let Some(tape) = &mut tape {
                    tape.answered(response.status().as_u16(), response.headers());
                }
                Ok(Some(Response(Source::Live { response, tape })))
            }
            Err(error) => {
                if let Some(tape) = &mut tape {
                    tape.end(End::NoAnswer(error.message.clone()));
                }
                Err(error)
            }
        }
    }

    async fn post(self) -> Result<reqwest::Response, ModelError> {
        let Self { route: _, address, client, body } = self;
        let request = client?
            .post(address.target())
            .headers(address.headers().clone())
            .header(CONTENT_TYPE, "application/json")
            // A compressing proxy holds small pieces back.
            .header(ACCEPT_ENCODING, "identity")
            .body(body);
        request.send().await.map_err(|error| fault::no_answer(&error, address))
    }
}

async fn replayed(player: &Arc<Player>, body: &[u8]) -> Result<Option<Response>, ModelError> {
    match player.answer(body)?.begin().await {
        Beginning::Answer { status, headers, body } => {
            let body = Box::new(body);
            Ok(Some(Response(Source::Recorded { status, headers, body })))
        }
        Beginning::NoAnswer(why) => Err(ModelError::new(ModelErrorKind::Connection, why)),
        Beginning::Silence => Ok(None),
    }
}

/// An answer that has begun.
pub(in crate::model) struct Response(Source);

enum Source {
    Live { response: reqwest::Response, tape: Option<Box<Tape>> },
    Recorded { status: u16, headers: HeaderMap, body: Box<Body> },
}

/// Why an answer has no next piece and no end.
pub(in crate::model) enum Break {
    /// It broke off, for this reason.
    Broken(String),
    /// As recorded, nobody waited for more.
    Silent,
}

impl Response {
    /// An answer that is not recorded.
    pub(super) fn live(response: reqwest::Response) -> Self {
        Self(Source::Live { response, tape: None })
    }

    pub(super) fn status(&self) -> u16 {
        match &self.0 {
            Source::Live { response, tape: _ } => response.status().as_u16(),
            Source::Recorded { status, headers: _, body: _ } => *status,
        }
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        match &self.0 {
            Source::Live { response, tape: _ } => response.headers(),
            Source::Recorded { status: _, headers, body: _ } => headers,
        }
    }

    /// Returns the next piece; `None` at the end. A call that is dropped loses
    /// nothing.
    pub(in crate::model) async fn chunk(&mut self) -> Result<Option<Bytes>, Break> {
        let (response, tape) = match &mut self.0 {
            Source::Live { response, tape } => (response, tape),
            Source::Recorded { status: _, headers: _, body } => return body.chunk().await,
        };
        let next = response.chunk().await.map_err(|error| fault::deepest(&error));
        if let Some(tape) = tape {
            match &next {
                Ok(Some(piece)) => tape.piece(piece),
                Ok(None) => tape.end(End::Whole),
                Err(why) => tape.end(End::Broken(why.clone())),
            }
        }
        next.map_err(Break::Broken)
    }

    /// Records nothing of what is still to come, which nobody reads.
    pub(super) fn stop_recording(&mut self) {
        match &mut self.0 {
            Source::Live { response: _, tape } => drop(tape.take()),
            Source::Recorded { .. } => {}
        }
    }
}

fn file_name(number: u32) -> String {
    format!("{number:04}.json")
}

/// Returns the names of the files that hold exchanges, in their order.
fn exchanges_in(directory: &Path) -> io::Result<Vec<String>> {
    let mut numbered = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".json")?.parse::<u32>().ok());
        if let (Some(number), Some(name)) = (number, name.to_str()) {
            numbered.push((number, name.to_owned()));
        }
    }
    numbered.sort_unstable();
    Ok(numbered.into_iter().map(|(_, name)| name).collect())
}

#[cfg(test)]
mod tests;
