//! What went wrong at the provider, in words.
//!
//! Turns error bodies, error objects inside answers and broken connections
//! into [`ModelError`]s. Providers agree on no shape, so every shape is read.

use std::error::Error;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::SystemTime;

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::address::Address;
use super::meaning::{Meaning, Told};
use super::secrets::Secrets;
use super::sse::Event;
use super::window::{window_in, window_in_refusal};
use super::{page, spoken};
use crate::model::adaptation::{self, RefusedRequest};
use crate::model::retry::floor;
use crate::model::{ModelError, ModelErrorKind};

/// Most characters of a provider's own words. They end up in a line on the
/// terminal and in a parent's context.
pub const ERROR_TEXT_CAP: usize = 500;

/// An answer with a status other than 2xx.
pub(super) struct Refused<'a> {
    pub(super) status: u16,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
    /// What dates in the headers are compared with.
    pub(super) now: SystemTime,
}

/// Returns the error that stands for a status other than 2xx.
pub(super) fn refused(answer: &Refused<'_>, address: &Address) -> ModelError {
    let &Refused { status, headers, body, now } = answer;
    let header = |name: &str| headers.get(name)?.to_str().ok();
    let text = address.secrets().redact(String::from_utf8_lossy(body).into_owned());
    let is_page = page::is_page(header(CONTENT_TYPE.as_str()).unwrap_or_default(), &text);
    let body = match is_page {
        // Some servers put their error into a page.
        true => json!(page::page_text(&text)),
        false => {
            let text = text.trim_start_matches('\u{feff}').trim();
            serde_json::from_str(text).unwrap_or_else(|_| json!(text))
        }
    };
    let sentence = spoken::sentence(&body);
    // The longer one counts, so that neither is undercut.
    let retry_after = floor::retry_after(header, now).max(spoken::wait(&body, &sentence));
    let refused = RefusedRequest::new(&body);
    let meaning = match (Told::by_status(status, &body, retry_after.is_some()).meaning(), status) {
        // A page comes from a gateway, which knows nothing of the key.
        (Meaning::Kind(ModelErrorKind::Authentication), 403) if is_page => {
            Meaning::Kind(ModelErrorKind::Request)
        }
        (meaning, _) => meaning,
    };
    let meaning = match meaning {
        // A proxy that wants a login wants it the next time, too.
        Meaning::Kind(ModelErrorKind::Request) if is_page && status != 407 => {
            Meaning::Kind(wrong_place(address))
        }
        meaning @ (Meaning::Unpaid | Meaning::Kind(_)) => meaning,
    };
    let is_final = status == 500 && is_template_error(meaning, &refused);
    let meaning = if is_final { Meaning::Kind(ModelErrorKind::Request) } else { meaning };
    let window = window_in_refusal(status, &body, &sentence);
    let sentence = match is_page {
        true => page::describe_page(status, &address.host(), &text),
        false => sentence,
    };
    let message = match short(sentence, address.secrets()) {
        words if words.is_empty() => format!("HTTP {status}"),
        words => format!("HTTP {status}: {words}"),
    };
    let error = with_window(meant(meaning, message), window);
    let retry_after = retry_after.filter(|_| may_name_a_time(&error));
    ModelError {
        status: Some(status),
        retry_after,
        should_retry: floor::should_retry(header).filter(|_| !is_final),
        refused: (meaning != Meaning::Unpaid).then(|| Arc::new(refused)),
        ..error
    }
}

/// Adds the context window that an error names, if the request was too long.
fn with_window(error: ModelError, window: Option<NonZeroU64>) -> ModelError {
    let window = window.filter(|_| error.kind == ModelErrorKind::Overflow);
    ModelError { window, ..error }
}

/// The error of this meaning.
fn meant(meaning: Meaning, message: String) -> ModelError {
    match meaning {
        // A wait mends no account, whatever status the provider has for it.
        Meaning::Unpaid => {
            let message =
                format!("{message} (check the plan and the balance of this key's account)");
            ModelError::new(ModelErrorKind::Request, message)
        }
        Meaning::Kind(kind) => ModelError::new(kind, message),
    }
}

/// The error that stands for a redirect. Following it would send the key and
/// the conversation to a place nobody configured.
pub(super) fn redirected(status: u16, location: &str, address: &Address) -> ModelError {
    let place = short(location.to_owned(), address.secrets());
    let message = format!("HTTP {status}: the server points to `{place}`; set `base_url` to it");
    ModelError { status: Some(status), ..ModelError::new(wrong_place(address), message) }
}

/// Returns the error of a web page with a good status where an answer should be.
pub(super) fn page(address: &Address, page: &str) -> ModelError {
    let heading = match page::page_heading(page) {
        heading if heading.is_empty() => heading,
        heading => format!(" (\"{heading}\")"),
    };
    let url = address.shown();
    let advice = if address.has_answered() { "" } else { "; is `base_url` right?" };
    let message = format!("`{url}` answered with a web page{heading}, not a model{advice}");
    ModelError::new(wrong_place(address), message)
}

/// Returns the sort of error that an answer from somewhere else is. Once a model has
/// answered at the address, a gateway before it is in trouble, and passes on the next
/// request or a later one.
fn wrong_place(address: &Address) -> ModelErrorKind {
    match address.has_answered() {
        true => ModelErrorKind::Overloaded,
        false => ModelErrorKind::Request,
    }
}

/// Converts an error object within an answer to an error.
pub(in crate::model) fn in_answer(error: &Value, secrets: &Secrets) -> ModelError {
    let sentence = spoken::sentence(error);
    let retry_after = spoken::wait(error, &sentence);
    let told = Told::by_object(error, retry_after.is_some());
    let words = short(sentence, secrets);
    let message = format!("the provider answered with an error: {words}");
    let refused = RefusedRequest::new(&redacted(error, secrets));
    let meaning = match told.meaning() {
        // Within an answer, an error may have no code.
        meaning if is_template_error(meaning, &refused) => Meaning::Kind(ModelErrorKind::Request),
        meaning => meaning,
    };
    let error = with_window(meant(meaning, message), window_in(error, &words));
    let retry_after = retry_after.filter(|_| may_name_a_time(&error));
    ModelError { retry_after, refused: Some(Arc::new(refused)), ..error }
}

/// Returns whether a server failed because its chat template refuses the request: it has
/// no other status for that, and refuses it again.
fn is_template_error(meaning: Meaning, refused: &RefusedRequest) -> bool {
    meaning == Meaning::Kind(ModelErrorKind::Overloaded)
        && adaptation::is_template_error(&refused.said)
}

/// Returns the error that an event reports; `None` if it is part of an answer. An event
/// is an error if its name is `error` or its data looks like one. `raw` is its `error`
/// field, for data that cannot be parsed.
pub(in crate::model) fn in_event(
    event: Event<'_>,
    raw: Option<&RawValue>,
    secrets: &Secrets,
) -> Option<ModelError> {
    let is_named = event.name.eq_ignore_ascii_case("error");
    let error = match serde_json::from_str(event.data) {
        Ok(value) => (is_named || spoken::is_error(&value)).then_some(value)?,
        // Half a character or a thousand levels pass as raw JSON.
        Err(_) => json!(raw.map(RawValue::get).or(is_named.then_some(event.data.trim()))?),
    };
    Some(in_answer(&error, secrets))
}

/// Returns the error that a body reports; `None` if it is an answer.
pub(in crate::model) fn in_body(text: &str, secrets: &Secrets) -> Option<ModelError> {
    in_event(Event { name: "", data: text }, None, secrets)
}

/// Returns whether an `error` says nothing: some servers send `""` or `{}` in good
/// answers.
pub(in crate::model) fn is_blank(error: &Value) -> bool {
    spoken::is_blank(error)
}

/// Returns an error object without keys.
fn redacted(error: &Value, secrets: &Secrets) -> Value {
    serde_json::from_str(&secrets.redact(error.to_string())).unwrap_or(Value::Null)
}

/// Returns whether a wait in the error counts: only an error that is retried has
/// one.
fn may_name_a_time(error: &ModelError) -> bool {
    matches!(error.kind, ModelErrorKind::RateLimited | ModelErrorKind::Overloaded)
}

/// The error of an event that is not what the API says.
pub(in crate::model) fn unreadable(
    cause: &serde_json::Error,
    data: &str,
    secrets: &Secrets,
) -> ModelError {
    let start = short(data.to_owned(), secrets);
    let message = format!("the server sent a piece that cannot be read ({cause}): {start}");
    ModelError::new(ModelErrorKind::Cut, message)
}

/// The error of a whole answer that is none, for this reason.
pub(in crate::model) fn no_message(reason: &str, text: &str, secrets: &Secrets) -> ModelError {
    let start = short(text.to_owned(), secrets);
    ModelError::new(ModelErrorKind::Cut, format!("{reason}: {start}"))
}

/// The error of an answer whose body broke off.
pub(in crate::model) fn broken(cause: &str, address: &Address) -> ModelError {
    let message = format!("the answer of `{}` broke off: {cause}", address.shown());
    ModelError::new(ModelErrorKind::Cut, message)
}

/// The error of a request that got no answer.
pub(super) fn no_answer(error: &reqwest::Error, address: &Address) -> ModelError {
    let (cause, url) = (deepest(error), address.shown());
    if is_refused(error) && address.is_loopback() {
        let message =
            format!("nothing listens at `{url}` (connection refused); is the server running?");
        return ModelError::new(ModelErrorKind::NotRunning, message);
    }
    if error.is_connect() {
        let message = format!("cannot connect to `{url}`: {cause}");
        return ModelError::new(ModelErrorKind::Unreachable, message);
    }
    let message = format!("the connection to `{url}` broke before the answer began: {cause}");
    ModelError::new(ModelErrorKind::Connection, message)
}

/// Returns the start of a provider's text, on one line and without secrets.
pub(in crate::model) fn short(text: String, secrets: &Secrets) -> String {
    // Before the cut, which may go through one.
    bounded_line(&secrets.redact(text), ERROR_TEXT_CAP)
}

/// Returns at most so many characters of a text, on one line.
pub(super) fn bounded_line(text: &str, most: usize) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn is_refused(error: &reqwest::Error) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::ConnectionRefused)
}

/// Returns the words of what lies behind all others.
pub(super) fn deepest(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_error_within_an_answer_is_a_refusal() {
        let kind = |error: Value| in_answer(&error, &Secrets::default()).kind;
        let words = "Jinja Exception: roles must alternate";
        for code in [json!(500), json!("500"), Value::Null] {
            let error = json!({ "error": { "message": words, "code": code } });
            assert_eq!(kind(error), ModelErrorKind::Request, "{code}");
        }
        let error = json!({ "error": { "message": "it broke", "code": 500 } });
        assert_eq!(kind(error), ModelErrorKind::Overloaded);
    }
}
