//! Lists as records, one object a line: what `tine sessions --json` and
//! `tine models --json` print.
//!
//! As for every record, names and order of the fields are a promise.

use std::num::{NonZeroU32, NonZeroUsize};

use serde::Serialize;

use crate::config::{Effort, Found, ListedModel};
use crate::mcp::State;
use crate::message::Price;
use crate::session::{SessionName, SessionSummary};

use super::lines;

/// Returns the record of a session as a line with its line feed. What a
/// terminal would obey or hide is escaped. `excerpt` is what a search found.
#[must_use]
pub fn session_record(session: &SessionSummary, excerpt: Option<&str>) -> Vec<u8> {
    let record = SessionRecord {
        id: &session.id,
        name: session.name.as_ref().map(SessionName::as_str),
        cwd: &session.cwd,
        model: &session.model,
        first_prompt: &session.first_prompt,
        started_ms: session.started.0,
        last_activity_ms: session.last_activity.0,
        bytes: session.size,
        state: session.state.as_str(),
        excerpt,
    };
    line(&record)
}

/// Returns the record of a server of tools as a line with its line feed; `label`
/// is its part in the names of its tools.
#[must_use]
pub fn server_record(name: &str, label: &str, state: &State) -> Vec<u8> {
    let listing = state.listing();
    let tools = listing.iter().flat_map(|listing| &listing.tools);
    let prompts = listing.iter().flat_map(|listing| &listing.prompts);
    let resources = listing.iter().flat_map(|listing| &listing.resources);
    line(&ServerRecord {
        name,
        label,
        status: state.status().as_str(),
        problem: state.why().map(|why| &**why),
        tools: tools.map(|tool| &*tool.name).collect(),
        prompts: prompts.map(|prompt| prompt.name.as_str()).collect(),
        resources: resources.map(|resource| resource.uri.as_str()).collect(),
        left_out: listing.map(|listing| &listing.left_out[..]).unwrap_or_default(),
    })
}

#[derive(Serialize)]
struct ServerRecord<'a> {
    name: &'a str,
    label: &'a str,
    status: &'static str,
    problem: Option<&'a str>,
    tools: Vec<&'a str>,
    prompts: Vec<&'a str>,
    resources: Vec<&'a str>,
    left_out: &'a [String],
}

/// Returns the record of a model that can be chosen, as a line with its line
/// feed.
#[must_use]
pub fn model_record(listed: &ListedModel) -> Vec<u8> {
    let ListedModel { name, kind, is_default, found, .. } = listed;
    let server = found.as_ref().ok().map(|found| &found.server);
    let record = ModelRecord {
        name,
        kind: kind.as_str(),
        default: *is_default,
        problem: found.as_ref().err().map(ToString::to_string),
        ready: found.as_ref().is_ok_and(|found| found.is_ready),
        api: server.map(|server| server.api.as_str()),
        base_url: server.map(|server| server.base_url.as_str()),
        model: server.map(|server| server.model.as_str()).filter(|model| !model.is_empty()),
        key_env: found.as_ref().ok().and_then(|found| found.key_env.as_deref()),
        key_set: found.as_ref().is_ok_and(|found: &Found| found.is_key_set),
        context_window: server.and_then(|server| server.context_window),
        max_output_tokens: server.and_then(|server| server.max_output_tokens),
        price: server.and_then(|server| server.price.as_ref()).map(PriceRecord::from),
        requests_per_minute: server.and_then(|server| server.requests_per_minute),
        tokens_per_minute: server.and_then(|server| server.tokens_per_minute),
        max_in_flight: server.and_then(|server| server.max_in_flight),
        effort: server.and_then(|server| server.effort.as_ref()).map(Effort::as_str),
        images: server.is_some_and(|server| server.images),
    };
    line(&record)
}

pub(super) fn line(record: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::new();
    lines::write(record, &mut line)
        .expect("text and numbers are always JSON, and a buffer takes every write");
    line
}

/// Prices are in US dollars for a million tokens.
#[derive(Serialize)]
struct ModelRecord<'a> {
    name: &'a str,
    kind: &'static str,
    default: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    ready: bool,
    api: Option<&'static str>,
    base_url: Option<&'a str>,
    model: Option<&'a str>,
    key_env: Option<&'a str>,
    key_set: bool,
    context_window: Option<u32>,
    max_output_tokens: Option<u32>,
    price: Option<PriceRecord>,
    requests_per_minute: Option<NonZeroU32>,
    tokens_per_minute: Option<NonZeroU32>,
    max_in_flight: Option<NonZeroUsize>,
    effort: Option<&'a str>,
    images: bool,
}

#[derive(Serialize)]
struct PriceRecord {
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
}

impl From<&Price> for PriceRecord {
    fn from(price: &Price) -> Self {
        let &Price { input, output, cache_read, cache_write } = price;
        Self {
            input: input.dollars(),
            output: output.dollars(),
            cache_read: cache_read.dollars(),
            cache_write: cache_write.dollars(),
        }
    }
}

#[derive(Serialize)]
struct SessionRecord<'a> {
    id: &'a str,
    name: Option<&'a str>,
    cwd: &'a str,
    model: &'a str,
    first_prompt: &'a str,
    started_ms: u64,
    last_activity_ms: u64,
    bytes: u64,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    excerpt: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::UnixMillis;
    use crate::session::SessionState;

    #[test]
    fn a_session_is_one_line_with_every_field() {
        let mut session = SessionSummary {
            id: "0198-a".to_owned(),
            directory: "/state/0198-a".into(),
            name: None,
            cwd: "/repo".to_owned(),
            model: "m".to_owned(),
            first_prompt: "say \"hi\"\u{9b}".to_owned(),
            started: UnixMillis(100),
            last_activity: UnixMillis(200),
            size: 7,
            state: SessionState::Ended,
        };
        let record = |session: &SessionSummary, excerpt| {
            String::from_utf8(session_record(session, excerpt)).unwrap()
        };
        assert_eq!(
            record(&session, None),
            "{\"id\":\"0198-a\",\"name\":null,\"cwd\":\"/repo\",\"model\":\"m\",\
             \"first_prompt\":\"say \\\"hi\\\"\\u009b\",\"started_ms\":100,\
             \"last_activity_ms\":200,\"bytes\":7,\"state\":\"ended\"}\n"
        );
        session.name = Some(SessionName::parse("nightly").unwrap());
        session.state = SessionState::Interrupted;
        let found = record(&session, Some("…hi…"));
        assert!(found.contains("\"name\":\"nightly\"") && found.contains("\"interrupted\""));
        assert!(found.ends_with(",\"excerpt\":\"…hi…\"}\n"), "{found}");
    }
}
