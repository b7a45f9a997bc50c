//! What a Chat Completions request says.

use serde_json::Value;

use super::server::{Reaction, RecordedRequest, Server};

/// A conversation as a request holds it.
pub(crate) struct Talk(Value);

impl From<Value> for Talk {
    fn from(body: Value) -> Self {
        Self(body)
    }
}

impl Talk {
    pub(crate) fn of(request: &RecordedRequest) -> Self {
        Self(request.json())
    }

    /// Returns what the unit was asked: its first message without the facts
    /// of the moment.
    pub(crate) fn task(&self) -> &str {
        let first = self.messages().iter().find(|message| message["role"] == "user");
        let text = first.and_then(|message| message["content"].as_str()).unwrap_or_default();
        text.split_once("</environment>\n\n").map_or(text, |(_, task)| task)
    }

    /// Returns whether the request is that of a review's verifier.
    pub(crate) fn verifies(&self) -> bool {
        self.task().lines().any(|line| line.starts_with("Finding: "))
    }

    /// Returns what a fork was told to do; `None` if the request is no fork's.
    pub(crate) fn directive(&self) -> Option<&str> {
        let texts = self.messages().iter().filter_map(|message| message["content"].as_str());
        let own = texts.rev().find(|text| text.contains("<fork-boilerplate>\nYou are a fork"))?;
        let (_, directive) = own.split_once("Directive:\n\n")?;
        directive.strip_suffix("\n</fork-boilerplate>")
    }

    /// Returns the last user message.
    pub(crate) fn last_prompt(&self) -> &str {
        let last = self.messages().iter().rfind(|message| message["role"] == "user");
        last.and_then(|message| message["content"].as_str()).unwrap_or_default()
    }

    /// Returns which turn the request asks for, from 1.
    pub(crate) fn turn(&self) -> usize {
        self.messages().iter().filter(|message| message["role"] == "assistant").count() + 1
    }

    /// Returns the outputs of the last answer's calls, in order.
    pub(crate) fn outputs(&self) -> Vec<&str> {
        let messages = self.messages();
        let last = messages.iter().rposition(|message| message["role"] == "assistant");
        let since = &messages[last.map_or(messages.len(), |last| last + 1)..];
        since.iter().filter_map(|message| message["content"].as_str()).collect()
    }

    pub(crate) fn system(&self) -> &str {
        self.messages()[0]["content"].as_str().unwrap_or_default()
    }

    pub(crate) fn model(&self) -> &str {
        self.0["model"].as_str().unwrap_or_default()
    }

    /// Returns the names of the tools, in order.
    pub(crate) fn tools(&self) -> Vec<&str> {
        let tools = self.0["tools"].as_array().into_iter().flatten();
        tools.filter_map(|tool| tool["function"]["name"].as_str()).collect()
    }

    /// Returns all that it says, oldest first.
    pub(crate) fn messages(&self) -> &[Value] {
        self.0["messages"].as_array().map_or(&[], Vec::as_slice)
    }
}

/// Starts a server that answers conversations.
pub(crate) fn serve(react: impl Fn(&Talk) -> Reaction + Send + Sync + 'static) -> Server {
    Server::start(move |request| react(&Talk::of(request)))
}

/// Starts a server whose main conversation makes these calls in its first turn
/// and answers `done` to their outputs. `react` answers all other units.
pub(crate) fn serve_calls(
    calls: &[(&str, Value)],
    react: impl Fn(&Talk) -> Reaction + Send + Sync + 'static,
) -> Server {
    let calling = Reaction::call_reply(calls);
    serve(move |talk| match (talk.task(), talk.turn()) {
        ("go", 1) => calling.clone(),
        ("go", _) => Reaction::text_reply("done"),
        _ => react(talk),
    })
}

/// Returns the outputs that main's last request shows.
pub(crate) fn shown(requests: &[RecordedRequest]) -> Vec<String> {
    let mut talks = requests.iter().map(Talk::of);
    let last = talks.rfind(|talk| talk.task() == "go").expect("main has asked");
    last.outputs().into_iter().map(str::to_owned).collect()
}
