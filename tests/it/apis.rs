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
        let server = Server::start(move |request| react(self, &self.talk(request)));
        self.run_on(&server, &["--forward-subagent-text"])
    }

    /// Runs one prompt with these flags against a server.
    fn run_on(self, server: &Server, flags: &[&str]) -> Vec<Value> {
        let place = Place::new();
        place.write("a.txt", "alpha\n");
        let (name, url) = (self.name(), server.base_url());
        place.configure(&format!(
            "[models.m]\napi = '{name}'\nbase_url = '{url}'\nkey_env = 'M_KEY'\n\
             price = {{ input = 1, output = 2 }}\n[retry]\nbase_ms = 1\n"
        ));
        let all = ["-p", "go", "-m", "m", "-o", "stream-json"].iter().chain(flags);
        let finished = place.tine(all).env("M_KEY", "sk-for-tests-only").run();
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

/// Schema of the answers, and one that fits it.
const SCHEMA: &str =
    r#"{"type":"object","properties":{"size":{"type":"integer"}},"required":["size"]}"#;
const FITTING: &str = r#"{"size":3}"#;

#[test]
fn a_model_that_never_calls_a_tool_is_held_to_the_schema_as_text_in_its_last_two_tries() {
    for spoken in Spoken::ALL {
        // The fourth try writes JSON that does not fit.
        let server = Server::start(move |request| match spoken.talk(request).turn() {
            1..=3 => spoken.says("It is 3."),
            4 => spoken.says(r#"{"size":"three"}"#),
            _ => spoken.says(FITTING),
        });
        let records = spoken.run_on(&server, &["--json-schema", SCHEMA]);
        let result = records.last().expect("there is a result");
        assert_eq!(result["structured_output"], json!({ "size": 3 }), "{spoken:?}");
        let schema: Value = serde_json::from_str(SCHEMA).expect("it is JSON");
        let (none, wanted) = match spoken {
            Spoken::Chat => {
                let format = json!({ "name": "answer", "schema": schema });
                let format = json!({ "type": "json_schema", "json_schema": format });
                (json!("none"), ("response_format", format))
            }
            Spoken::Responses => {
                let format = json!({ "type": "json_schema", "name": "answer", "schema": schema });
                (json!("none"), ("text", json!({ "format": format })))
            }
            Spoken::Anthropic => {
                let format = json!({ "type": "json_schema", "schema": schema });
                (json!({ "type": "none" }), ("output_config", json!({ "format": format })))
            }
        };
        let bodies: Vec<Value> = server.finish().iter().map(RecordedRequest::json).collect();
        assert_eq!(bodies.len(), 5, "{spoken:?}");
        for (number, body) in (1..).zip(&bodies) {
            let is_text = number > 3;
            let (choice, format) = (body.get("tool_choice"), body.get(wanted.0));
            assert_eq!(choice, is_text.then_some(&none), "{spoken:?}, request {number}");
            assert_eq!(format, is_text.then_some(&wanted.1), "{spoken:?}, request {number}");
            assert_eq!(body["tools"], bodies[0]["tools"], "{spoken:?}, request {number}");
        }
    }
}

#[test]
fn a_server_that_refuses_the_schema_is_asked_again_without_it() {
    for (spoken, status) in Spoken::ALL.into_iter().zip([400, 500, 422]) {
        let server = Server::start(move |request| {
            let has_format = request.json().get("tool_choice").is_some();
            match spoken.talk(request).turn() {
                1..=3 => spoken.says("It is 3."),
                _ if has_format => {
                    let body = json!({ "error": { "message": "no grammar for this schema" } });
                    let body = body.to_string().into_bytes();
                    Reaction::Status { code: status, headers: Vec::new(), body }
                }
                4 => spoken.says("```json\n{\"size\": 3}\n```"),
                turn => panic!("there is no turn {turn}"),
            }
        });
        let records = spoken.run_on(&server, &["--json-schema", SCHEMA]);
        let result = records.last().expect("there is a result");
        assert_eq!(result["structured_output"], json!({ "size": 3 }), "{spoken:?}");
        assert_eq!(server.finish().len(), 5, "{spoken:?}");
    }
}
