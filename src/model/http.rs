//! The way to a server, the same for every API: where it is, what goes with
//! each request, what comes back, and what went wrong there in words.
//!
//! Nothing here knows what an answer says. One request is one call of
//! `open`; it tells a stream of events from a whole answer and turns all else
//! into errors.

pub(super) mod address;
pub(super) mod awake;
pub(super) mod body;
pub(super) mod connections;
pub mod exchange;
pub(super) mod fault;
mod meaning;
mod page;
pub mod probe;
pub(super) mod secrets;
mod spoken;
pub mod sse;
mod window;

use std::time::{Duration, SystemTime};

use jiff::fmt::rfc2822;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, DATE, HeaderName, LOCATION};

use self::body::Start;
use self::exchange::Response;
use self::fault::Refused;
use super::ModelError;

pub use address::shown;
pub(super) use address::{Address, bearer, configured, secret};
pub use fault::ERROR_TEXT_CAP;

/// Most bytes of one answer. Far above any output limit: this stops a server
/// that never ends.
pub const ANSWER_CAP: usize = 16 * 1024 * 1024;

/// Most bytes of an error body that are read: more than any provider writes,
/// little enough to hold for every unit at once.
const ERROR_BODY_CAP: usize = 64 * 1024;

/// Longest wait for more of an error body. The status alone says nearly all.
const ERROR_BODY_LIMIT: Duration = Duration::from_secs(5);

/// What a server answers with.
pub(super) enum Opened {
    /// A stream of events, and its first bytes where they were read already.
    Stream(Response, Vec<u8>),
    /// The whole answer at once: the server does not stream.
    Whole(Vec<u8>),
    /// Nothing, for as long as anybody waited when it was recorded.
    Silence,
}

/// Returns the answer of a response once that begins. `idle` is the longest wait for
/// more of an answer that is read whole.
///
/// # Errors
///
/// A status other than 2xx, a web page, or a whole answer that does not come to its end.
pub(super) async fn open(
    mut response: Response,
    address: &Address,
    idle: Duration,
) -> Result<Opened, ModelError> {
    refuse(&mut response, address).await?;
    // Types are wrong in both directions: streams that are called JSON, and an
    // error or a whole answer that is called a stream.
    let opened = match body::read_start(&mut response, address, idle).await? {
        Start::Stream(start) => Opened::Stream(response, start),
        Start::Silence => Opened::Silence,
        Start::Whole(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            if page::is_page(header(&response, &CONTENT_TYPE), &text) {
                return Err(fault::page(address, &text));
            }
            Opened::Whole(bytes)
        }
    };
    Ok(opened)
}

/// Accepts every 2xx.
///
/// # Errors
///
/// The error that another status stands for.
pub(super) async fn refuse(response: &mut Response, address: &Address) -> Result<(), ModelError> {
    let status = response.status();
    let kind = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if kind.is_success() {
        return Ok(());
    }
    if kind.is_redirection() {
        return Err(fault::redirected(status, header(response, &LOCATION), address));
    }
    let body = body::read(response, ERROR_BODY_CAP, ERROR_BODY_LIMIT).await;
    // Whoever names a moment means it by its own clock.
    let now = provider_time(header(response, &DATE)).unwrap_or_else(SystemTime::now);
    let refused = Refused { status, headers: response.headers(), body: body.bytes(), now };
    Err(fault::refused(&refused, address))
}

fn provider_time(date: &str) -> Option<SystemTime> {
    rfc2822::DateTimeParser::new().parse_timestamp(date).ok().map(SystemTime::from)
}

fn header<'a>(response: &'a Response, name: &HeaderName) -> &'a str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
