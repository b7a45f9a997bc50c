//! Sends a request, and a second one beside it if the server sends no headers.
//!
//! A connection may die silently, and a gateway may lose a request. The first request stays
//! open beside the second: a slow server may have read most of the prompt already.

use std::future::Future;
use std::pin::{Pin, pin};

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};

use super::Endpoint;
use crate::model::gate::Pass;
use crate::model::http;
use crate::model::http::awake::timeout_awake;
use crate::model::http::exchange::{Exchanges, Outgoing, Response};
use crate::model::{ModelError, ModelErrorKind};

/// The result of sending a request.
pub(super) struct Sent {
    /// The response whose headers came first; `None` if a recorded client did not wait for it.
    pub(super) result: Result<Option<Response>, ModelError>,
    /// `true` if the request was sent twice.
    pub(super) is_twice: bool,
}

impl Endpoint {
    /// Sends a request and waits for the headers of the response.
    pub(super) async fn send(&self, body: Bytes) -> Sent {
        let mut deadline = Instant::now() + self.timeouts.headers;
        let mut is_twice = false;
        let sending = self.send_twice(body, &mut is_twice);
        let result = match timeout_awake(&mut deadline, sending).await {
            Ok(result) => result,
            Err(_) => Err(self.no_headers()),
        };
        Sent { result, is_twice }
    }

    /// Sends a second request if the first one gets no headers in time.
    async fn send_twice(
        &self,
        body: Bytes,
        is_twice: &mut bool,
    ) -> Result<Option<Response>, ModelError> {
        let client = self.connections.client(&self.address);
        let mut first = pin!(self.outgoing(client, body.clone()).send());
        let after = match self.route.exchanges {
            Exchanges::Live => self.timeouts.second_request,
            // A recording holds each request once.
            Exchanges::Record(_) | Exchanges::Replay(_) => None,
        };
        let Some(after) = after else { return first.await };
        let may_send = async {
            let mut due = Instant::now() + after;
            // Nothing ends this wait but its deadline.
            let _ = timeout_awake(&mut due, std::future::pending::<()>()).await;
            self.pass_beside().await
        };
        let pass = tokio::select! {
            biased;
            result = &mut first => return result,
            pass = may_send => pass,
        };
        tracing::debug!(url = self.address.shown(), "no headers: the request is sent once more");
        *is_twice = true;
        first_of(first, pin!(self.send_second(body, pass))).await
    }

    /// Waits until a second request may be sent.
    async fn pass_beside(&self) -> Option<Pass> {
        let lane = self.lane.as_ref()?;
        loop {
            match lane.pass_beside() {
                Ok(pass) => return Some(pass),
                Err(until) => sleep_until(until).await,
            }
        }
    }

    /// Sends the second request on a new connection. If it gets headers, all later requests
    /// use the new connection: the old one may be dead.
    async fn send_second(
        &self,
        body: Bytes,
        pass: Option<Pass>,
    ) -> Result<Option<Response>, ModelError> {
        let client = self.address.connections()?;
        let sent = self.outgoing(Ok(client.clone()), body).send().await?;
        let Some(mut response) = sent else { return Ok(None) };
        match http::refuse(&mut response, &self.address).await {
            Ok(()) => {
                self.connections.replace(client);
                Ok(Some(response))
            }
            // The server may still answer the first request; only the gate needs the error.
            Err(error) => {
                match pass {
                    Some(pass) if error.is_refusal() => pass.refused(error.retry_after),
                    Some(pass) => pass.failed(0, error.retry_after),
                    None => {}
                }
                Err(error)
            }
        }
    }

    fn outgoing(&self, client: Result<reqwest::Client, ModelError>, body: Bytes) -> Outgoing<'_> {
        Outgoing { route: &self.route, address: &self.address, client, body }
    }

    pub(super) fn no_headers(&self) -> ModelError {
        let (url, seconds) = (self.address.shown(), self.timeouts.headers.as_secs_f32());
        let message = format!("no answer from `{url}` within {seconds} s");
        ModelError::new(ModelErrorKind::Silent, message)
    }
}

/// Waits for the earlier response.
///
/// # Errors
///
/// The error of the first request, if both fail.
async fn first_of<T>(
    mut first: Pin<&mut impl Future<Output = Result<T, ModelError>>>,
    mut second: Pin<&mut impl Future<Output = Result<T, ModelError>>>,
) -> Result<T, ModelError> {
    tokio::select! {
        biased;
        result = &mut first => match result {
            Ok(response) => Ok(response),
            Err(error) => second.await.map_err(|_| error),
        },
        result = &mut second => match result {
            Ok(response) => Ok(response),
            Err(_) => first.await,
        },
    }
}
