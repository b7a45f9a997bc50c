//! An HTTP client that parses server-sent events as leniently as lines of a program.
//!
//! `rmcp` ignores an event that it cannot parse, and the request goes on waiting. A response of
//! type `application/json` is left to `rmcp`, which fails the request with the reason.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use super::MESSAGE_CAP;
use super::reply::{self, OpenRequests, ServerMessage};

type Events = BoxStream<'static, Result<Sse, SseError>>;
type Headers = HashMap<HeaderName, HeaderValue>;
type HttpError = StreamableHttpError<reqwest::Error>;

/// A client of `rmcp` that repairs events before `rmcp` parses them.
#[derive(Clone)]
pub(super) struct LenientClient(pub(super) reqwest::Client);

impl StreamableHttpClient for LenientClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let most = MESSAGE_CAP;
        self.post_message_with_max_sse_event_size(uri, message, session, auth, headers, most).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let mut open = OpenRequests::default();
        if let JsonRpcMessage::Request(request) = &message {
            open.add(request);
        }
        let answer = self
            .0
            .post_message_with_max_sse_event_size(uri, message, session, auth, headers, most)
            .await?;
        let StreamableHttpPostResponse::Sse(events, session) = answer else { return Ok(answer) };
        Ok(StreamableHttpPostResponse::Sse(repair_stream(events, open), session))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        self.0.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<Events, HttpError> {
        let most = MESSAGE_CAP;
        self.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, most).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<Events, HttpError> {
        let events = self
            .0
            .get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, most)
            .await?;
        Ok(repair_stream(events, OpenRequests::default()))
    }
}

fn repair_stream(events: Events, mut open: OpenRequests) -> Events {
    events
        .flat_map(move |event| {
            stream::iter(match event {
                Ok(event) => repair_event(event, &mut open).into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            })
        })
        .boxed()
}

/// Splits an event into events that `rmcp` can parse, one for each message.
fn repair_event(event: Sse, open: &mut OpenRequests) -> Vec<Sse> {
    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
    let data = event.data.as_deref().filter(|data| is_message && !data.trim().is_empty());
    let Some(data) = data else { return vec![event] };
    let mut messages = Vec::new();
    for incoming in reply::parse_messages(data, open) {
        match incoming {
            ServerMessage::Message(message) => {
                if let JsonRpcMessage::Response(response) = &*message {
                    open.remove(&response.id);
                }
                messages.push(*message);
            }
            ServerMessage::Stray(why) => open.add_stray(why),
            ServerMessage::BadRequest { .. }
            | ServerMessage::Ignored
            | ServerMessage::NotJsonRpc => {}
        }
    }
    messages.extend(open.resolve_strays());
    let texts = messages.iter().map(|message| {
        serde_json::to_string(message).expect("a message that was read can be written")
    });
    let events: Vec<Sse> = texts.map(|text| Sse { data: Some(text), ..event.clone() }).collect();
    // `rmcp` records the ids of events that it cannot parse, too.
    if events.is_empty() { vec![event] } else { events }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ClientRequest, CustomRequest, JsonRpcRequest, RequestId};

    use super::*;

    #[test]
    fn an_event_becomes_one_that_rmcp_can_parse() {
        for (data, expected) in [
            (
                r#"{"id":1,"result":{"a":1},"error":null}"#,
                vec![r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#],
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#,
                vec![r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}"#],
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"bad"}}"#,
                vec![r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"bad"}}"#],
            ),
            (
                r#"[{"jsonrpc":"2.0","method":"x"},{"id":"1","result":{}}]"#,
                vec![
                    r#"{"jsonrpc":"2.0","method":"x","params":null}"#,
                    r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
                ],
            ),
            ("ping", vec!["ping"]),
            ("", vec![""]),
        ] {
            let mut open = OpenRequests::default();
            let request = ClientRequest::CustomRequest(CustomRequest::new("tools/call", None));
            open.add(&JsonRpcRequest::new(RequestId::Number(1), request));
            let event =
                Sse { data: Some(data.to_owned()), id: Some("7".to_owned()), ..Sse::default() };
            let read = repair_event(event, &mut open);
            assert!(read.iter().all(|event| event.id.as_deref() == Some("7")));
            let read: Vec<&str> = read.iter().filter_map(|event| event.data.as_deref()).collect();
            assert_eq!(read, expected, "{data}");
        }
    }
}
