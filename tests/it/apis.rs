//! Three APIs, one behaviour: the same conversation over each of them is the
//! same run, as far as programs see it.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::anthropic;
use crate::support::responses;
use crate::support::server::{Reaction, RecordedRequest, Server};
use crate::support::talk::Talk;
use crate::support::tine::Place;

/// An API, and how its side of a conversation is played.
#[derive(Debug, Clone, Copy)]
enum Spoken {
    Chat,
    Responses,
    Anthropic,
}

impl Spoken {
    const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Anthropic];

    fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
        }
    }

    fn talk(self, request: &RecordedRequest) -> Talk {
        match self {
            Self::Chat => Talk::of(request),
            Self::Responses => responses::talk(request),
            Self::Anthropic => anthropic::talk(request),
        }
    }

    fn says(self, text: &str) -> Reaction {
        match self {
            Self::Chat => Reaction::text_reply(text),
            Self::Responses => responses::Says::text(text).reaction(),
            Self::Anthropic => anthropic::text_reply(text),
        }
    }

    fn calls(self, calls: &[(&str, Value)]) -> Reaction {
        match self {
            Self::Chat => Reaction::call_reply(calls),
            Self::Responses => responses::Says::calls(calls).reaction(),
            Self::Anthropic => anthropic::call_reply(calls),
        }
    }

    /// Runs one prompt.
    fn run(self, react: impl Fn(Self, &Talk) -> Reaction + Send + Sync + 'static) -> Vec<Value> {
        let place = Place::new();
        place.write("a.txt", "alpha\n");
        let server = Server::start(move |request| react(self, &self.talk(request)));
        let (name, url) = (self.name(), server.base_url());
        place.configure(&format!(
            "[models.m]\napi = '{name}'\nbase_url = '{url}'\nkey_env = 'M_KEY'\n\
             price = {{ input = 1, output = 2 }}\n[retry]\nbase_ms = 1\n"
        ));
        let flags = ["-p", "go", "-m", "m", "-o", "stream-json", "--forward-subagent-text"];
        let finished = place.tine(flags).env("M_KEY", "sk-for-tests-only").run();
        let records = finished.exits(0).records();
        records.0.iter().map(|record| alike(record, &place.work().to_string_lossy())).collect()
    }
}

/// Takes out of a record what differs between two runs, and what the APIs count
/// and name in their own ways.
fn alike(record: &Value, work: &str) -> Value {
    const OWN: [&str; 18] = [
        "uuid",
        "session_id",
        "id",
        "usage",
        "modelUsage",
        "total_cost_usd",
        "duration_ms",
        "duration_api_ms",
        "tool_use_id",
        "parent_tool_use_id",
        "retry_delay_ms",
        "wait_ms",
        "throttled_ms",
        "output_file",
        "end_time",
        "prefix_share",
        // It says how long something took.
        "summary",
        "waited_ms",
    ];
    match record {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !OWN.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), alike(value, work)))
            .collect(),
        Value::Array(values) => values.iter().map(|value| alike(value, work)).collect(),
        Value::String(text) => Value::String(text.replace(work, "WORK")),
        Value::Null | Value::Bool(_) | Value::Number(_) => record.clone(),
    }
}

#[test]
fn the_same_conversation_is_the_same_run_over_each_api() {
    let task = |name: &str, agent: &str| json!({ "description": name, "prompt": name, "subagent_type": agent });
    let runs = Spoken::ALL.map(|spoken| {
        // One slot at a time: two would tell of themselves in any order.
        let tasks = json!({ "tasks": [task("look", "explore")] });
        let came = AtomicUsize::new(0);
        spoken.run(move |api, talk| {
            let is_first = came.fetch_add(1, Ordering::SeqCst) == 0;
            match (talk.directive().unwrap_or(talk.task()), talk.turn()) {
                _ if is_first => {
                    let refused = json!({ "error": { "message": "slow down" } });
                    let headers = vec![("retry-after-ms".to_owned(), "2".to_owned())];
                    let body = refused.to_string().into_bytes();
                    Reaction::Status { code: 429, headers, body }
                }
                ("go", 1) => api.calls(&[("Read", json!({ "file_path": "a.txt" }))]),
                ("go", 2) => {
                    assert!(talk.outputs().concat().contains("alpha"));
                    api.calls(&[("Agent", tasks.clone())])
                }
                ("go", 3) => api.calls(&[(
                    "Agent",
                    json!({ "tasks": [{ "description": "mend", "prompt": "mend", "subagent_type": "fork" }] }),
                )]),
                ("go", _) => api.says("All done."),
                ("look", 1) => api.calls(&[("Glob", json!({ "pattern": "*.txt" }))]),
                (other, _) => api.says(&format!("I did {other}.")),
            }
        })
    });
    let [chat, responses, anthropic] = &runs;
    let is_retry = |record: &&Value| record["subtype"] == "api_retry";
    assert_eq!(chat.iter().filter(is_retry).count(), 1, "{chat:?}");
    assert_eq!(chat.last().unwrap()["result"], "All done.");
    for (name, run) in [("responses", responses), ("anthropic", anthropic)] {
        for (theirs, ours) in run.iter().zip(chat) {
            assert_eq!(theirs, ours, "{name}");
        }
        assert_eq!(run.len(), chat.len(), "{name}");
    }
}
