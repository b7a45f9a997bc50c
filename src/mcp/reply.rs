//! Lenient parsing of a server's messages.
//!
//! Many servers violate JSON-RPC: they send `error: null` together with a result, a string as the
//! error, the id as a string, an array of replies. This module accepts what is unambiguous. A reply
//! to an open request that cannot be parsed becomes an error of that request, so no reply leaves a
//! call waiting for its timeout.

use rmcp::model::{
    ClientRequest, CustomResult, ErrorCode, ErrorData, JsonRpcMessage, JsonRpcRequest, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use serde_json::{Map, Value, json};

use super::failure::cut;
use super::mended;

/// Maximum characters of a server's text that an error quotes.
const QUOTE_CAP: usize = 300;

/// Code for an error without a code: JSON-RPC's "internal error".
const DEFAULT_CODE: i32 = -32_603;

/// Maximum messages of one batch that are parsed.
const BATCH_CAP: usize = 1_000;

/// One parsed message of a server.
#[derive(Debug)]
pub(super) enum ServerMessage {
    Message(Box<ServerJsonRpcMessage>),
    /// A reply whose id matches no request; its content, in words.
    Stray(String),
    /// A request that cannot be parsed, and the reason. The server waits for an answer.
    BadRequest {
        id: Value,
        why: String,
    },
    /// A message without effect, such as a late or duplicate reply.
    Ignored,
    /// Text that is not JSON-RPC, such as a log line.
    NotJsonRpc,
}

/// The requests that were sent and are not answered yet.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    open: Vec<OpenRequest>,
    highest: Option<i64>,
    /// Requests that a reply without a usable id may have answered.
    suspects: Vec<RequestId>,
    /// The content of those replies, in words.
    strays: Vec<String>,
}

#[derive(Debug, Clone)]
struct OpenRequest {
    id: RequestId,
    /// True if `rmcp` expects a typed result, as it does for `initialize`.
    is_handshake: bool,
}

impl OpenRequests {
    /// Adds a request that is about to be sent.
    pub(super) fn add(&mut self, request: &JsonRpcRequest<ClientRequest>) {
        if let RequestId::Number(number) = &request.id {
            self.highest = self.highest.max(Some(*number));
        }
        let is_handshake = !matches!(request.request, ClientRequest::CustomRequest(_));
        self.open.push(OpenRequest { id: request.id.clone(), is_handshake });
    }

    /// Removes a request that was answered or cancelled.
    pub(super) fn remove(&mut self, id: &RequestId) {
        self.open.retain(|open| open.id != *id);
        self.suspects.retain(|open| open != id);
        if self.suspects.is_empty() {
            self.strays.clear();
        }
    }

    /// Records a reply without a usable id: it answers one of the requests that are open now.
    pub(super) fn add_stray(&mut self, why: String) {
        for OpenRequest { id, .. } in &self.open {
            if !self.suspects.contains(id) {
                self.suspects.push(id.clone());
            }
        }
        if !self.suspects.is_empty() {
            self.strays.push(why);
        }
    }

    /// Returns an error for each request that a stray reply must have answered.
    ///
    /// With one stray reply and two candidates the request is unknown, so both stay open until the
    /// server has answered one of them.
    pub(super) fn resolve_strays(&mut self) -> Vec<ServerJsonRpcMessage> {
        if self.suspects.len() > self.strays.len() {
            return Vec::new();
        }
        let why = self.strays.drain(..).next_back().unwrap_or_default();
        let suspects = std::mem::take(&mut self.suspects);
        self.open.retain(|open| !suspects.contains(&open.id));
        suspects.into_iter().map(|id| error_reply(id, &why)).collect()
    }

    /// Finds the open request with this id, which may be written as a string or a float.
    fn find(&self, id: &Value) -> Option<&OpenRequest> {
        let number = match id {
            Value::Number(number) => number.as_i64().or_else(|| to_whole(number.as_f64()?)),
            Value::String(text) => text.trim().parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        self.open.iter().find(|open| match &open.id {
            RequestId::Number(open) => Some(*open) == number,
            RequestId::String(open) => id.as_str() == Some(&**open),
        })
    }

    /// Returns whether a request with this id was sent at some time.
    fn was_sent(&self, id: &Value) -> bool {
        let number = id.as_i64().or_else(|| id.as_str()?.trim().parse().ok());
        number.is_some_and(|number| 0 <= number && Some(number) <= self.highest)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the number is whole and small")]
fn to_whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64)
}

/// Parses one text of a server: a message, several, or a batch.
pub(super) fn parse_messages(text: &str, open: &OpenRequests) -> Vec<ServerMessage> {
    let values = mended::parse_values(text);
    if values.is_empty() {
        return vec![classify_malformed(text, open)];
    }
    let mut parsed = Vec::new();
    for value in values {
        if let Value::Array(batch) = &value
            && !batch.is_empty()
        {
            let batch = batch.iter().take(BATCH_CAP).cloned();
            parsed.extend(batch.map(|value| parse_message(value, open)));
        } else {
            parsed.push(parse_message(value, open));
        }
    }
    parsed
}

/// Classifies text that is not JSON: a truncated reply, or output of the program.
fn classify_malformed(text: &str, open: &OpenRequests) -> ServerMessage {
    let is_reply = text.contains("\"result\"") || text.contains("\"error\"");
    match mended::find_id(text).filter(|_| is_reply) {
        Some(id) => match open.find(&id) {
            Some(open) => {
                let why = format!("its reply is not valid JSON: {}", quote(text));
                ServerMessage::Message(Box::new(error_reply(open.id.clone(), &why)))
            }
            None => ServerMessage::Ignored,
        },
        None if begins_as_reply(text) => {
            ServerMessage::Stray(format!("its reply is not valid JSON: {}", quote(text)))
        }
        None => ServerMessage::NotJsonRpc,
    }
}

/// Returns whether a text begins with a key of a reply.
fn begins_as_reply(text: &str) -> bool {
    let first = text.trim_start().strip_prefix('{').map_or("", str::trim_start);
    ["\"jsonrpc\"", "\"result\"", "\"error\""].iter().any(|key| first.starts_with(key))
}

fn parse_message(value: Value, open: &OpenRequests) -> ServerMessage {
    let Value::Object(mut fields) = value else { return ServerMessage::NotJsonRpc };
    let id = fields.get("id").cloned().unwrap_or_default();
    let has = |key: &str| fields.get(key).is_some_and(|value| !value.is_null());
    if let Some(Value::String(_)) = fields.get("method")
        && !has("result")
        && !has("error")
    {
        fields.retain(|key, value| {
            let is_null_id = key == "id" && value.is_null();
            !(is_null_id || matches!(key.as_str(), "result" | "error"))
        });
        fields.insert("jsonrpc".to_owned(), "2.0".into());
        return match serde_json::from_value(Value::Object(fields)) {
            Ok(message) => ServerMessage::Message(Box::new(message)),
            Err(_) if id.is_null() => ServerMessage::Ignored,
            Err(why) => ServerMessage::BadRequest { id, why: why.to_string() },
        };
    }
    let is_reply = fields.contains_key("result") || fields.contains_key("error");
    // Log lines may be JSON objects with an `id`.
    if !is_reply && !fields.contains_key("jsonrpc") {
        return ServerMessage::NotJsonRpc;
    }
    if !is_reply && id.is_null() {
        return ServerMessage::Ignored;
    }
    match open.find(&id).cloned() {
        Some(open) => ServerMessage::Message(Box::new(parse_reply(open, &mut fields))),
        None if open.was_sent(&id) => ServerMessage::Ignored,
        None => ServerMessage::Stray(describe_stray(&id, &fields)),
    }
}

/// Describes a reply whose id matches no request.
fn describe_stray(id: &Value, fields: &Map<String, Value>) -> String {
    match fields.get("error").filter(|error| !error.is_null()) {
        Some(error) => error_words(error).1,
        None if id.is_null() => {
            format!("its reply has no id: {}", quote(&json!(fields).to_string()))
        }
        None => format!(
            "its reply has the id `{}`, which matches no request: {}",
            quote(&id.to_string()),
            quote(&json!(fields).to_string())
        ),
    }
}

/// Parses the reply to an open request.
fn parse_reply(open: OpenRequest, fields: &mut Map<String, Value>) -> ServerJsonRpcMessage {
    let OpenRequest { id, is_handshake } = open;
    let result = fields.remove("result");
    let failed = fields.remove("error").filter(|error| !is_no_error(error, result.is_some()));
    if let Some(failed) = failed {
        let (code, mut words) = error_words(&failed);
        if let Some(result) = result.filter(|result| !result.is_null()) {
            words =
                format!("{words} (the reply also has a result: {})", quote(&result.to_string()));
        }
        let data = failed.get("data").filter(|data| !data.is_null()).cloned();
        return JsonRpcMessage::error(ErrorData::new(ErrorCode(code), words, data), Some(id));
    }
    let Some(result) = result else {
        let why = format!(
            "its reply has neither `result` nor `error`: {}",
            quote(&json!(fields).to_string())
        );
        return error_reply(id, &why);
    };
    let result = if result.is_null() { json!({}) } else { result };
    if !is_handshake {
        return JsonRpcMessage::response(ServerResult::CustomResult(CustomResult(result)), id);
    }
    match serde_json::from_value(with_defaults(result)) {
        Ok(result) => JsonRpcMessage::response(result, id),
        Err(why) => error_reply(id, &format!("its result cannot be parsed: {why}")),
    }
}

/// Returns the result of `initialize` with defaults for missing or malformed fields.
fn with_defaults(mut result: Value) -> Value {
    let Value::Object(fields) = &mut result else { return result };
    let capabilities = fields.entry("capabilities").or_insert_with(|| json!({}));
    if let Value::Object(all) = capabilities {
        all.retain(|_, value| !matches!(value, Value::Null | Value::Bool(false)));
        for value in all.values_mut().filter(|value| !value.is_object()) {
            *value = json!({});
        }
    } else {
        *capabilities = json!({});
    }
    let server = fields.entry("serverInfo").or_insert_with(|| json!({}));
    if !server.is_object() {
        *server = json!({});
    }
    for key in ["name", "version"] {
        if !server[key].is_string() {
            server[key] = "".into();
        }
    }
    if fields.get("instructions").is_some_and(|text| !text.is_string()) {
        fields.remove("instructions");
    }
    result
}

/// Returns whether an `error` field means success: `null` or `false`, and if there is a result also
/// an empty value or the code 0.
fn is_no_error(error: &Value, has_result: bool) -> bool {
    match error {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty() && has_result,
        Value::Array(items) => items.is_empty() && has_result,
        Value::Object(fields) => {
            has_result && (fields.is_empty() || fields.get("code").is_some_and(|code| code == 0))
        }
        Value::Number(number) => number.as_f64() == Some(0.0) && has_result,
        Value::Bool(true) => false,
    }
}

/// Returns the code and the message of an error in any form.
fn error_words(error: &Value) -> (i32, String) {
    let code = match error.get("code") {
        Some(Value::Number(code)) => code.as_f64().and_then(to_whole),
        Some(Value::String(code)) => code.trim().parse().ok(),
        Some(_) | None => None,
    };
    let code = code.and_then(|code| i32::try_from(code).ok()).unwrap_or(DEFAULT_CODE);
    let words = ["message", "msg", "error", "detail", "description"];
    let words = words.iter().filter_map(|key| error.get(key)).filter(|value| !value.is_null());
    let words = words.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    let words = words.map(|words| words.trim().to_owned()).find(|words| !words.is_empty());
    let words = words.unwrap_or_else(|| match error.as_str().map(str::trim) {
        Some(text) if !text.is_empty() => text.to_owned(),
        Some(_) | None => format!("its error has no message: {}", quote(&error.to_string())),
    });
    (code, words)
}

fn error_reply(id: RequestId, why: &str) -> ServerJsonRpcMessage {
    let error = ErrorData::new(ErrorCode(DEFAULT_CODE), why.to_owned(), None);
    JsonRpcMessage::error(error, Some(id))
}

/// Returns the beginning of a server's text, without the secrets in URLs.
fn quote(text: &str) -> String {
    let text = cut(text);
    match text.char_indices().nth(QUOTE_CAP) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests;
