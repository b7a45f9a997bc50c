//! The transport of `tine mcp serve`: one JSON-RPC message a line, parsed leniently.
//!
//! A client waits for the answer to each request, so a line that cannot be parsed is answered with
//! a JSON-RPC error, under the request's id if it has one.

use std::future::Future;
use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::link::CHANNEL_CAP;
use super::mended;
use super::program;

/// JSON-RPC's codes for invalid JSON and for an invalid request.
const PARSE_ERROR: i32 = -32_700;
const INVALID_REQUEST: i32 = -32_600;

/// Maximum malformed lines in a row, after which the conversation ends: a client that echoes its
/// input would otherwise be answered without end.
const MALFORMED_CAP: u32 = 100;

/// Maximum messages of one batch that are parsed.
const BATCH_CAP: usize = 1_000;

/// A transport for `rmcp` over two streams of lines.
pub struct ClientLink<W> {
    lines: mpsc::Receiver<String>,
    _reading: AbortOnDropHandle<()>,
    output: Arc<Mutex<W>>,
    /// Parsed messages that `rmcp` has not received yet, the next one last.
    queue: Vec<ClientJsonRpcMessage>,
    /// Malformed lines in a row so far.
    malformed: u32,
}

impl<W: AsyncWrite + Unpin + Send + 'static> ClientLink<W> {
    /// Starts to read, in a task of its own. Cancels `ended` at the end of the input.
    pub fn new(
        input: impl AsyncRead + Unpin + Send + 'static,
        output: W,
        ended: CancellationToken,
    ) -> Self {
        let (said, lines) = mpsc::channel(CHANNEL_CAP);
        let reading = tokio::spawn(async move {
            let _reason = program::read(input, said).await;
            ended.cancel();
        });
        let (output, reading) = (Arc::new(Mutex::new(output)), AbortOnDropHandle::new(reading));
        Self { lines, _reading: reading, output, queue: Vec::new(), malformed: 0 }
    }

    /// Queues the messages of a line, and answers those that are malformed.
    fn accept_line(&mut self, line: &str) {
        let parts = parse_line(line);
        self.malformed = match parts.iter().any(Result::is_ok) {
            true => 0,
            false => self.malformed + 1,
        };
        for part in parts {
            match part {
                Ok(message) => self.queue.push(message),
                Err(None) => {}
                Err(Some(answer)) => {
                    let output = Arc::clone(&self.output);
                    // Writing fails only if the client has gone.
                    tokio::spawn(async move { write(&output, answer.to_string()).await });
                }
            }
        }
        self.queue.reverse();
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> Transport<RoleServer> for ClientLink<W> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = Arc::clone(&self.output);
        async move {
            let text = serde_json::to_string(&message).expect("a message of ours can be written");
            write(&output, text).await
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(message) = self.queue.pop() {
                return Some(message);
            }
            if self.malformed >= MALFORMED_CAP {
                return None;
            }
            let line = self.lines.recv().await?;
            self.accept_line(&line);
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.lines.close();
        Ok(())
    }
}

async fn write(output: &Mutex<impl AsyncWrite + Unpin>, mut text: String) -> io::Result<()> {
    text.push('\n');
    let mut output = output.lock().await;
    output.write_all(text.as_bytes()).await?;
    output.flush().await
}

/// Parses a line. A malformed message is the error that answers it, or `None` if it gets no answer.
fn parse_line(line: &str) -> Vec<Result<ClientJsonRpcMessage, Option<Value>>> {
    let values = mended::parse_values(line);
    if values.is_empty() {
        let id = mended::find_id(line).unwrap_or_default();
        let why = "the line is not valid JSON; send one JSON-RPC message per line";
        return vec![Err(Some(error_response(&id, PARSE_ERROR, why)))];
    }
    let mut parts = Vec::new();
    for value in values {
        if let Value::Array(batch) = &value
            && !batch.is_empty()
        {
            parts.extend(batch.iter().take(BATCH_CAP).cloned().map(parse_message));
        } else {
            parts.push(parse_message(value));
        }
    }
    parts
}

fn parse_message(value: Value) -> Result<ClientJsonRpcMessage, Option<Value>> {
    let Value::Object(mut fields) = value else {
        return Err(Some(error_response(
            &Value::Null,
            INVALID_REQUEST,
            "a message must be a JSON object",
        )));
    };
    let id = fields.get("id").cloned().unwrap_or_default();
    let method = fields.get("method").and_then(Value::as_str).map(str::to_owned);
    let Some(method) = method else {
        if fields.contains_key("result") || fields.contains_key("error") {
            // tine sends no requests, so no call waits for a response.
            return serde_json::from_value(Value::Object(fields)).map_err(|_| None);
        }
        return Err(Some(error_response(&id, INVALID_REQUEST, "the request has no `method`")));
    };
    normalize_request(&method, &mut fields);
    if id.is_null() && !method.starts_with("notifications/") {
        let why = format!("the request `{method}` has no `id`");
        return Err(Some(error_response(&id, INVALID_REQUEST, &why)));
    }
    let message = serde_json::from_value(Value::Object(fields));
    message.map_err(|why| {
        let why = format!("the request `{method}` cannot be parsed: {why}");
        (!id.is_null()).then(|| error_response(&id, INVALID_REQUEST, &why))
    })
}

/// Removes `null` fields, and parses `arguments` that are a string of JSON.
fn normalize_request(method: &str, fields: &mut Map<String, Value>) {
    fields.insert("jsonrpc".to_owned(), "2.0".into());
    fields.retain(|key, value| {
        let is_optional = matches!(key.as_str(), "id" | "params" | "result" | "error");
        !(is_optional && value.is_null())
    });
    if method != "tools/call" {
        return;
    }
    let Some(Value::Object(parameters)) = fields.get_mut("params") else { return };
    let object = match parameters.get("arguments") {
        Some(Value::Null) => None,
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(object @ Value::Object(_)) => Some(object),
            Ok(_) | Err(_) => return,
        },
        Some(_) | None => return,
    };
    match object {
        Some(object) => drop(parameters.insert("arguments".to_owned(), object)),
        None => drop(parameters.remove("arguments")),
    }
}

fn error_response(id: &Value, code: i32, why: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": why } })
}

#[cfg(test)]
mod tests {
    use rmcp::model::JsonRpcMessage;

    use super::*;

    /// Summarizes a parsed line: `asks ID`, `tells`, `answers`, `! ID CODE` for an error response,
    /// `-` for a message that is ignored.
    fn summarize(line: &str) -> String {
        let short = |part| match part {
            Ok(JsonRpcMessage::Request(request)) => {
                let request: rmcp::model::JsonRpcRequest<_> = request;
                format!("asks {}", request.id)
            }
            Ok(JsonRpcMessage::Notification(_)) => "tells".to_owned(),
            Ok(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) => "answers".to_owned(),
            Err(None) => "-".to_owned(),
            Err(Some(answer)) => {
                let answer: Value = answer;
                format!("! {} {}", answer["id"], answer["error"]["code"])
            }
        };
        parse_line(line).into_iter().map(short).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_line_is_read_or_answered_with_an_error() {
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, "asks 1"),
            (r#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":null}"#, "asks a"),
            (r#"{"id":2.0,"method":"tools/list","error":null}"#, "asks 2"),
            ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", "asks 1"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\ud800"}}"#, "asks 1"),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_batch","arguments":null}}"#,
                "asks 1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_batch","arguments":"{}"}}"#,
                "asks 1",
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, "asks 1"),
            (
                r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#,
                "asks 1, asks 2",
            ),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "tells"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"}"#, "tells"),
            (r#"{"jsonrpc":"2.0","id":9,"result":{}}"#, "answers"),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#, "answers"),
            (r#"{"jsonrpc":"2.0","error":"what?"}"#, "-"),
            ("hello", "! null -32700"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"tools/ca"#, "! 7 -32700"),
            (r#"{"jsonrpc":"2.0","id":7}"#, "! 7 -32600"),
            (r#"{"jsonrpc":"2.0","id":7,"method":7}"#, "! 7 -32600"),
            (r#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#, "! {\"a\":1} -32600"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "! 1.5 -32600"),
            (r#"{"jsonrpc":"2.0","method":"tools/list"}"#, "! null -32600"),
            ("[]", "! null -32600"),
            ("[1]", "! null -32600"),
            ("{}", "! null -32600"),
        ] {
            assert_eq!(summarize(line), expected, "{line}");
        }
    }

    #[tokio::test]
    async fn a_client_that_sends_only_malformed_lines_is_disconnected() {
        let (near, far) = tokio::io::duplex(1 << 20);
        let ended = CancellationToken::new();
        let mut link = ClientLink::new(near, tokio::io::sink(), ended.clone());
        let (_, mut far) = tokio::io::split(far);
        far.write_all("echo\n".repeat(200).as_bytes()).await.unwrap();
        assert!(link.receive().await.is_none());
        assert!(!ended.is_cancelled());
    }
}
