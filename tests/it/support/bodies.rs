//! The proof that every request is a fold over the session's events.

use std::collections::BTreeMap;
use std::sync::Arc;

use tine::agent::render;
use tine::event::{Event, EventKind, UnitId};
use tine::message::Head;
use tine::model::Model;
use tine::model::anthropic::unmarked;
use tine::model::served::{Served, ServedSettings};

use super::server::{RecordedRequest, Server};

/// A model on a scripted server.
pub(crate) fn model_on(server: &Server) -> Arc<Served> {
    let settings = ServedSettings::new("m", "m", server.base_url());
    Arc::new(Served::new(settings).expect("the server's address is one"))
}

/// What a unit sent in each of its turns, from the first user message on.
pub(crate) type Bodies = BTreeMap<UnitId, Vec<String>>;

/// Checks that the requests of a run are what its events say, no more and no
/// less: for every turn that a unit started, one request whose bytes are the
/// rendering of the events before that turn.
///
/// Only what stands before the first user message is not in the log.
#[track_caller]
pub(crate) fn prove(events: &[Event], requests: &[RecordedRequest], model: &Served) -> Bodies {
    prove_behind(&Arc::new(Head::new(String::new(), Vec::new())), events, requests, model)
}

/// The same for requests that all begin with this.
#[track_caller]
pub(crate) fn prove_behind(
    head: &Arc<Head>,
    events: &[Event],
    requests: &[RecordedRequest],
    model: &Served,
) -> Bodies {
    let mut bodies = Bodies::new();
    for (place, event) in events.iter().enumerate() {
        if let EventKind::TurnStarted { turn: _ } = event.kind {
            let history = render(&events[..place], event.unit, Arc::clone(head));
            let body = messages_of(&model.body(history.prefix()));
            bodies.entry(event.unit).or_default().push(body);
        }
    }
    let mut sent: Vec<String> = requests.iter().map(|request| messages_of(&request.body)).collect();
    let mut rendered: Vec<String> = bodies.values().flatten().cloned().collect();
    sent.sort_unstable();
    rendered.sort_unstable();
    let parted = sent.iter().zip(&rendered).find(|(sent, rendered)| sent != rendered);
    assert_eq!(parted, None, "what was sent is not what the log gives");
    assert_eq!(sent.len(), rendered.len());
    bodies
}

/// Returns a body from its first user message on, without its cache marks.
fn messages_of(body: &[u8]) -> String {
    let body = unmarked(body);
    let body = std::str::from_utf8(&body).expect("a request is text");
    // As Chat Completions and Anthropic write it, and as Responses does.
    let starts = [r#"{"role":"user""#, r#"{"type":"message","role":"user""#];
    let start = starts.into_iter().filter_map(|start| body.find(start)).min();
    let start = start.expect("a request has a user message");
    body[start..].to_owned()
}
