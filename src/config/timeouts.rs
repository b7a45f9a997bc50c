//! Timeouts of requests to the server of a model.
//!
//! A hosted model sends the headers of its answer within seconds. A server of one's own
//! sends nothing before it has loaded the model and read the prompt, and reads one prompt
//! after the other.

use std::time::Duration;

/// The timeouts of a request, one for each part of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerTimeouts {
    /// From sending the request to the headers of the response.
    pub headers: Duration,
    /// From the headers to the first piece of the answer.
    pub first_piece: Duration,
    /// Between two pieces. Comments that keep a connection open do not count as
    /// pieces: a proxy sends them for a dead server, too.
    pub idle: Duration,
    /// After this time without headers the request is sent once more, on another
    /// connection; `None` if it never is.
    pub second_request: Option<Duration>,
}

impl AnswerTimeouts {
    /// Timeouts of hosted models. One that is silent for longer has lost the request; the
    /// headers of most come within ten seconds.
    pub const HOSTED: Self = Self {
        headers: Duration::from_secs(180),
        first_piece: Duration::from_secs(180),
        idle: Duration::from_secs(60),
        second_request: Some(Duration::from_secs(45)),
    };

    /// Timeouts of the presets that are servers of one's own, wherever they run. A second
    /// request would only wait behind the first.
    pub const OWN: Self = Self {
        headers: Duration::from_secs(600),
        first_piece: Duration::from_secs(600),
        idle: Duration::from_secs(120),
        second_request: None,
    };

    /// Timeouts of a server on this machine or in a private network. It may read a long
    /// prompt for minutes, and the requests of other agents before this one; to give up
    /// means to begin again from the start.
    pub const NEAR: Self = Self {
        headers: Duration::from_secs(60 * 60),
        first_piece: Duration::from_secs(60 * 60),
        ..Self::OWN
    };
}
