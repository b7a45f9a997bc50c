//! Bodies that are read whole, with bounds on bytes and on silence.

use std::time::Duration;

use tokio::time::timeout;

use super::exchange::{Break, Response};
use super::{ANSWER_CAP, Address, fault, sse};
use crate::model::{ModelError, ModelErrorKind};

/// Longest that a body is read after all that is wanted of it has come.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// Longest that an answer waits for the end of its body. On one machine it comes
/// in microseconds, and over a network a request may follow at once.
const LOOK_LIMIT: Duration = Duration::from_millis(5);

/// Most pieces of such a body.
const DRAIN_CAP: usize = 64;

/// How far into an answer is looked for its form.
const FORM_PROBE: usize = 1024;

/// What was read of a body, and how that ended.
pub(super) struct Body {
    bytes: Vec<u8>,
    end: End,
}

enum End {
    Whole,
    /// What came is all that was wanted for now.
    Enough,
    TooLong,
    /// It broke off, for this reason.
    Broken(String),
    Silent,
}

impl Body {
    /// Returns what there is of it.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the whole of it.
    ///
    /// # Errors
    ///
    /// There is more than that, or it did not come.
    pub(super) fn whole(self) -> Result<Vec<u8>, ModelError> {
        let (kind, message) = match self.end {
            End::Whole | End::Enough => return Ok(self.bytes),
            End::TooLong => (ModelErrorKind::Request, "the answer is too long".to_owned()),
            End::Broken(why) => (ModelErrorKind::Cut, format!("the answer broke off: {why}")),
            End::Silent => (ModelErrorKind::Silent, "the answer stopped before its end".to_owned()),
        };
        Err(ModelError::new(kind, message))
    }
}

/// The beginning of an answer.
pub(super) enum Start {
    /// It is a stream of events that begins so.
    Stream(Vec<u8>),
    /// It is no stream, and this is all.
    Whole(Vec<u8>),
    /// The recording has no byte of it: the client gave up waiting.
    Silence,
}

/// Reads an answer until it is clear that it is a stream, else to its end. The
/// wait for its first byte is the caller's to bound.
///
/// # Errors
///
/// It is too long, or its end does not come.
pub(super) async fn read_start(
    response: &mut Response,
    address: &Address,
    idle: Duration,
) -> Result<Start, ModelError> {
    let first = Duration::MAX;
    let body = read_until(response, ANSWER_CAP, first, idle, |bytes| {
        sse::begins_so(&bytes[..bytes.len().min(FORM_PROBE)])
    });
    let body = body.await;
    match body.end {
        End::Enough => Ok(Start::Stream(body.bytes)),
        End::Silent if body.bytes.is_empty() => Ok(Start::Silence),
        End::Broken(why) => Err(fault::broken(&why, address)),
        End::Whole | End::TooLong | End::Silent => body.whole().map(Start::Whole),
    }
}

/// Reads a body of at most `cap` bytes. `idle` is the longest wait for more.
pub(super) async fn read(response: &mut Response, cap: usize, idle: Duration) -> Body {
    read_until(response, cap, idle, idle, |_| false).await
}

/// Reads on until it is enough. `first` is the longest wait for the first byte,
/// `idle` that for more.
async fn read_until(
    response: &mut Response,
    cap: usize,
    first: Duration,
    idle: Duration,
    is_enough: impl Fn(&[u8]) -> bool,
) -> Body {
    let mut bytes = Vec::new();
    let end = loop {
        let limit = if bytes.is_empty() { first } else { idle };
        match timeout(limit, response.chunk()).await {
            Ok(Ok(Some(piece))) => {
                bytes.extend_from_slice(&piece[..piece.len().min(cap - bytes.len())]);
                if bytes.len() == cap {
                    break End::TooLong;
                }
                if is_enough(&bytes) {
                    break End::Enough;
                }
            }
            Ok(Ok(None)) => break End::Whole,
            Ok(Err(Break::Broken(why))) => break End::Broken(why),
            Ok(Err(Break::Silent)) | Err(_) => break End::Silent,
        }
    };
    Body { bytes, end }
}

/// Lets go of a body whose rest nobody wants.
///
/// Its connection takes the next request only once the body has come to its
/// end. Mostly that is there already and needs no more than a look; else it is
/// waited for beside all else, for a moment.
pub(in crate::model) async fn let_go(mut response: Response) {
    if timeout(LOOK_LIMIT, drain(&mut response)).await.is_ok() {
        return;
    }
    // A run may be over before the rest is there.
    response.stop_recording();
    // Nobody needs to know how it went: else the connection is closed.
    tokio::spawn(async move { timeout(DRAIN_LIMIT, drain(&mut response)).await });
}

async fn drain(response: &mut Response) {
    for _ in 0..DRAIN_CAP {
        let Ok(Some(_)) = response.chunk().await else { break };
    }
}
