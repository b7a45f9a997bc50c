//! What an error of a provider says: its sentence, its names, and the time after
//! which it wants to be asked again.
//!
//! Providers agree on no shape, and gateways put one provider's error into the
//! text of another. So every shape is looked into, a few levels deep.

use std::time::Duration;

use serde_json::Value;

use crate::model::retry::floor;

/// Maximum depth of errors within errors that are searched.
const DEPTH: usize = 4;

/// Keys of a sentence, the most usual first.
const SENTENCES: [&str; 10] = [
    "message",
    "detail",
    "msg",
    "error_message",
    "error_msg",
    "errmsg",
    "error_description",
    "status_msg",
    "description",
    "title",
];

/// Keys of a time in seconds, as a number or as a duration.
const SECONDS: [&str; 8] = [
    "retrydelay",
    "retryafter",
    "retryafterseconds",
    "retryinseconds",
    "retryin",
    "waitseconds",
    "resetsinseconds",
    "resetinseconds",
];

/// Keys of a time in milliseconds.
const MILLISECONDS: [&str; 3] = ["retryafterms", "retryaftermilliseconds", "retrydelayms"];

/// Returns the error object in a body; Google wraps it in a list of one element.
pub(super) fn unlisted(value: &Value) -> &Value {
    let only = value.as_array().and_then(|values| match &values[..] {
        [only] => Some(only),
        _ => None,
    });
    only.filter(|only| only.is_object()).unwrap_or(value)
}

/// Returns whether a value says nothing: some servers send `"error": null`, `""`
/// or `{}` in otherwise good chunks.
pub(super) fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Returns a provider's sentence out of an error: `{"error": {"message": …}}`,
/// `{"error": "…"}`, `{"message": …}`, `{"detail": …}` or any other.
pub(super) fn sentence(value: &Value) -> String {
    sentence_within(value, DEPTH)
}

fn sentence_within(value: &Value, depth: usize) -> String {
    let value = unlisted(value);
    let inner = ["error", "errors", "base_resp"].into_iter().find_map(|key| value.get(key));
    let error = unlisted(inner.filter(|inner| !is_blank(inner)).unwrap_or(value));
    let spoken = find_sentence(error).or_else(|| find_sentence(value)).unwrap_or(error);
    let Some(depth) = depth.checked_sub(1) else { return spoken.to_string() };
    let text = match spoken {
        Value::String(text) => match quoted(text) {
            Some(quoted) => sentence_within(&quoted, depth),
            None => text.clone(),
        },
        Value::Object(_) if spoken != error => sentence_within(spoken, depth),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            spoken.to_string()
        }
    };
    // OpenRouter's message says only that there is an error; `metadata` quotes it.
    match error.pointer("/metadata/raw").and_then(Value::as_str) {
        Some(raw) if !raw.trim().is_empty() => {
            let raw = quoted(raw).unwrap_or_else(|| Value::String(raw.to_owned()));
            format!("{text}: {}", sentence_within(&raw, depth))
        }
        Some(_) | None => text,
    }
}

fn find_sentence(error: &Value) -> Option<&Value> {
    SENTENCES.into_iter().filter_map(|key| error.get(key)).find(|spoken| !is_blank(spoken))
}

/// Returns the error that a text is made of, as gateways quote it.
fn quoted(text: &str) -> Option<Value> {
    let text = text.trim();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    let is_error = unlisted(&value).get("error").is_some_and(|error| !is_blank(error));
    (is_error || find_sentence(unlisted(&value)).is_some()).then_some(value)
}

/// Returns the names of an error, its type, its codes and its reasons, with
/// blanks between them.
pub(super) fn names(value: &Value) -> String {
    let value = unlisted(value);
    let mut names = Vec::new();
    for object in [Some(value), value.get("error").map(unlisted)].into_iter().flatten() {
        let own = ["type", "code", "status", "reason"].map(|key| object.get(key));
        let details = object.get("details").and_then(Value::as_array);
        let details = details.into_iter().flatten().filter_map(|detail| detail.get("reason"));
        let inner = object.pointer("/innererror/code");
        names.extend(own.into_iter().flatten().chain(details).chain(inner).filter_map(name));
    }
    names.join(" ")
}

fn name(value: &Value) -> Option<String> {
    match value {
        Value::String(name) => Some(name.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the HTTP status that an error object names.
pub(super) fn status(value: &Value) -> Option<u16> {
    let value = unlisted(value);
    let inner = value.get("error").map(unlisted).filter(|inner| inner.is_object());
    let keys = ["code", "status", "status_code", "http_code", "statusCode"];
    [inner, Some(value)].into_iter().flatten().find_map(|object| {
        keys.into_iter().find_map(|key| {
            let value = object.get(key)?;
            let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
            u16::try_from(number).ok().filter(|status| (400..600).contains(status))
        })
    })
}

/// Returns whether an event that is not part of an answer is an error: by its
/// `error`, by its type, or because it has a sentence and no type.
pub(super) fn is_error(value: &Value) -> bool {
    let value = unlisted(value);
    let has = |key: &str| value.get(key).is_some_and(|error| !is_blank(error));
    if has("error") || has("errors") {
        return true;
    }
    let failed = value.pointer("/base_resp/status_code").and_then(Value::as_i64);
    if failed.is_some_and(|code| code != 0) {
        return true;
    }
    let kind = ["type", "object"].into_iter().find_map(|key| value.get(key)?.as_str());
    if let Some(kind) = kind.filter(|kind| !kind.is_empty()) {
        let kind = kind.to_ascii_lowercase();
        return kind.contains("error") || kind.contains("exception");
    }
    let is_good = ["code", "status", "status_code"].into_iter().filter_map(|key| value.get(key));
    let is_good = is_good
        .filter_map(name)
        .any(|code| ["0", "200", "ok", "success"].contains(&&*code.to_ascii_lowercase()));
    !is_good && (find_sentence(value).is_some() || status(value).is_some())
}

/// Returns how long an error asks to wait, in a field or in its sentence; `None`
/// if it does not say. The longest time counts.
pub(super) fn wait(value: &Value, sentence: &str) -> Option<Duration> {
    let field = wait_in(value, DEPTH + 2).map(|wait| wait.min(floor::FARTHEST));
    field.max(floor::retry_after_in(sentence))
}

fn wait_in(value: &Value, depth: usize) -> Option<Duration> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter_map(|(key, value)| {
                named_wait(key, value).or_else(|| wait_in(value, depth.checked_sub(1)?))
            })
            .max(),
        Value::Array(values) => {
            values.iter().filter_map(|value| wait_in(value, depth.checked_sub(1)?)).max()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn named_wait(key: &str, value: &Value) -> Option<Duration> {
    let key: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
    let key = key.to_ascii_lowercase();
    let unit = if SECONDS.contains(&&*key) {
        1.0
    } else if MILLISECONDS.contains(&&*key) {
        1e-3
    } else {
        return None;
    };
    let wait = match value {
        Value::Number(number) => Duration::try_from_secs_f64(number.as_f64()? * unit).ok()?,
        Value::String(text) => match text.trim().parse::<f64>() {
            Ok(number) => Duration::try_from_secs_f64(number * unit).ok()?,
            Err(_) => floor::duration(text.trim())?,
        },
        // `google.protobuf.Duration`, as some clients write it.
        Value::Object(parts) => Duration::from_secs(parts.get("seconds")?.as_u64()?),
        Value::Null | Value::Bool(_) | Value::Array(_) => return None,
    };
    (!wait.is_zero()).then_some(wait)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sentence_is_found_in_every_shape() {
        let inner = json!({ "error": { "message": "too long" } }).to_string();
        for (body, expected) in [
            (json!({ "error": { "message": "no", "code": 1 } }), "no"),
            (json!([{ "error": { "code": 400, "message": "no", "status": "X" } }]), "no"),
            (json!({ "error": "no" }), "no"),
            (json!({ "error": ["no"] }), r#"["no"]"#),
            (json!({ "errors": [{ "message": "no" }] }), "no"),
            (json!({ "message": "no" }), "no"),
            (json!({ "detail": "no" }), "no"),
            (json!({ "error": { "detail": "no" } }), "no"),
            (json!({ "detail": { "error": "no" } }), "no"),
            (json!({ "detail": [{ "loc": ["a"], "msg": "no" }] }), r#"[{"loc":["a"],"msg":"no"}]"#),
            (json!({ "error_code": 336_003, "error_msg": "no" }), "no"),
            (json!({ "base_resp": { "status_code": 1008, "status_msg": "no" } }), "no"),
            (json!({ "type": "about:blank", "title": "no", "status": 500 }), "no"),
            (json!({ "error": "invalid_grant", "error_description": "no" }), "no"),
            (json!({ "error": {}, "message": "no" }), "no"),
            (json!({ "error": { "message": "" , "code": "x" } }), r#"{"message":"","code":"x"}"#),
            (json!({ "error": { "message": inner } }), "too long"),
            (
                json!({ "error": { "message": "Provider returned error",
                    "metadata": { "raw": inner, "provider_name": "X" } } }),
                "Provider returned error: too long",
            ),
            (
                json!({ "error": { "message": "Provider returned error",
                    "metadata": { "raw": "plain" } } }),
                "Provider returned error: plain",
            ),
            (json!("no"), "no"),
            (json!({ "x": 1 }), r#"{"x":1}"#),
        ] {
            assert_eq!(sentence(&body), expected, "{body}");
        }
    }

    #[test]
    fn an_error_is_told_from_what_else_a_server_may_send() {
        for error in [
            json!({ "error": { "message": "no" } }),
            json!({ "error": "no" }),
            json!({ "message": "no", "code": "x" }),
            json!({ "detail": "no" }),
            json!({ "code": 500 }),
            json!({ "object": "error", "message": "no" }),
            json!({ "type": "server_error", "message": "no" }),
            json!({ "__type": "ThrottlingException", "message": "no" }),
            json!({ "error_code": 18, "error_msg": "no" }),
            json!({ "base_resp": { "status_code": 1002, "status_msg": "no" } }),
            json!([{ "error": { "code": 503 } }]),
        ] {
            assert!(is_error(&error), "{error}");
        }
        for other in [
            json!({}),
            json!({ "type": "ping" }),
            json!({ "id": "x", "object": "chat.completion.chunk" }),
            json!({ "error": null, "id": "x" }),
            json!({ "error": "", "id": "x" }),
            json!({ "type": "status", "message": "loading the model" }),
            json!({ "code": 0, "message": "Success" }),
            json!({ "code": 200, "msg": "ok" }),
            json!({ "base_resp": { "status_code": 0, "status_msg": "" } }),
            json!("words"),
            json!([]),
        ] {
            assert!(!is_error(&other), "{other}");
        }
    }

    #[test]
    fn a_wait_is_read_from_a_field_or_from_the_sentence() {
        let milliseconds = |body: Value| wait(&body, &sentence(&body)).map(|wait| wait.as_millis());
        let google = |delay: &str| {
            json!([{ "error": { "code": 429, "message": "Quota exceeded.", "details": [
                { "@type": "type.googleapis.com/google.rpc.QuotaFailure" },
                { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay } ] } }])
        };
        for (body, expected) in [
            (google("21s"), Some(21_000)),
            (google("3.215s"), Some(3_215)),
            (google("soon"), None),
            (json!({ "error": { "message": "no", "retry_after": 7 } }), Some(7_000)),
            (json!({ "error": { "message": "no", "retry_after": "7" } }), Some(7_000)),
            (json!({ "retryAfterMs": 250, "message": "no" }), Some(250)),
            (json!({ "error": { "resets_in_seconds": 90 } }), Some(90_000)),
            (json!({ "details": { "retryDelay": { "seconds": 4, "nanos": 0 } } }), Some(4_000)),
            (json!({ "error": "Please try again in 3s." }), Some(3_000)),
            (json!({ "message": "retry in 5s", "details": [{ "retryDelay": "3s" }] }), Some(5_000)),
            (json!({ "retry_after": 0, "message": "no" }), None),
            (json!({ "retry_after": -1, "message": "no" }), None),
            (json!({ "retry_after": 1e300, "message": "no" }), None),
            (json!({ "retry_after": 99_999_999 }), Some(floor::FARTHEST.as_millis())),
            (json!({ "message": "no" }), None),
        ] {
            assert_eq!(milliseconds(body.clone()), expected, "{body}");
        }
    }
}
