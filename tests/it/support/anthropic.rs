//! Anthropic's side of a conversation: answers as it streams them, what its
//! requests say, and its cache of prompts.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tine::message::{Head, ToolSchema};

use super::server::{Reaction, RecordedRequest, Server};
use super::talk::Talk;

/// How many blocks the cache looks back from a mark, the marked one included.
const LOOKBACK: usize = 20;

/// One block of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Part<'a> {
    Text(&'a str),
    /// The reasoning, and what it is signed with.
    Thinking(&'a str, &'a str),
    /// A call of this tool. Ids count from `toolu_a`.
    Call(&'a str, Value),
}

/// The answer of a model that says `text`.
pub(crate) fn text_reply(text: &str) -> Reaction {
    reply(&[Part::Text(text)])
}

/// The answer of a model that makes calls.
pub(crate) fn call_reply(calls: &[(&str, Value)]) -> Reaction {
    let calls: Vec<_> = calls.iter().map(|(tool, input)| Part::Call(tool, input.clone())).collect();
    reply(&calls)
}

/// The answer of a model in these blocks.
pub(crate) fn reply(parts: &[Part<'_>]) -> Reaction {
    Reaction::stream(events(parts, &json!({ "input_tokens": 10, "output_tokens": 1 })))
}

/// The events of an answer to a prompt that was counted like this.
pub(crate) fn events(parts: &[Part<'_>], usage: &Value) -> Vec<u8> {
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage });
    let mut events = vec![json!({ "type": "message_start", "message": message })];
    let has_calls = parts.iter().any(|part| matches!(part, Part::Call(_, _)));
    let mut ids = 'a'..;
    for (index, part) in parts.iter().enumerate() {
        let mut add = |kind: &str, key: &str, value: Value| {
            let mut event = json!({ "type": kind, "index": index });
            event[key] = value;
            events.push(event);
        };
        let (start, deltas) = blocks(part, &mut ids);
        add("content_block_start", "content_block", start);
        for delta in deltas {
            add("content_block_delta", "delta", delta);
        }
        events.push(json!({ "type": "content_block_stop", "index": index }));
        if index == 0 {
            events.push(json!({ "type": "ping" }));
        }
    }
    let reason = if has_calls { "tool_use" } else { "end_turn" };
    events.push(json!({ "type": "message_delta", "usage": { "output_tokens": 5 },
        "delta": { "stop_reason": reason, "stop_sequence": null } }));
    events.push(json!({ "type": "message_stop" }));
    encoded(&events)
}

/// Encodes events: each value is one event's data.
pub(crate) fn encoded(events: &[Value]) -> Vec<u8> {
    let event = |event: &Value| {
        let name = event["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n").into_bytes()
    };
    events.iter().flat_map(event).collect()
}

/// Returns the start of a block and the deltas that follow.
fn blocks(part: &Part<'_>, ids: &mut impl Iterator<Item = char>) -> (Value, Vec<Value>) {
    match part {
        Part::Text(text) => {
            let (first, rest) = halves(text);
            let delta = |text: &str| json!({ "type": "text_delta", "text": text });
            (json!({ "type": "text", "text": "" }), vec![delta(first), delta(rest)])
        }
        Part::Thinking(text, signature) => (
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
            vec![
                json!({ "type": "thinking_delta", "thinking": text }),
                json!({ "type": "signature_delta", "signature": signature }),
            ],
        ),
        Part::Call(tool, input) => {
            let id = format!("toolu_{}", ids.next().expect("there are enough letters"));
            let text = input.to_string();
            let (first, rest) = halves(&text);
            let delta = |json: &str| json!({ "type": "input_json_delta", "partial_json": json });
            (
                json!({ "type": "tool_use", "id": id, "name": tool, "input": {} }),
                vec![delta(""), delta(first), delta(rest)],
            )
        }
    }
}

fn halves(text: &str) -> (&str, &str) {
    let middle = (text.len() / 2..).find(|&at| text.is_char_boundary(at));
    text.split_at(middle.expect("a text ends at a character"))
}

/// Starts a server that answers conversations.
pub(crate) fn serve(react: impl Fn(&Talk) -> Reaction + Send + Sync + 'static) -> Server {
    Server::start(move |request| react(&talk(request)))
}

/// Starts a server that answers conversations in these blocks, and counts what
/// its cache has of each.
pub(crate) fn serve_cached(
    cache: &Arc<Cache>,
    react: impl Fn(&Talk) -> Vec<Part<'static>> + Send + Sync + 'static,
) -> Server {
    let cache = Arc::clone(cache);
    Server::start(move |request| {
        let usage = cache.take(&request.json());
        Reaction::stream(events(&react(&talk(request)), &usage.json()))
    })
}

/// Returns what a request says, in the words of Chat Completions.
pub(crate) fn talk(request: &RecordedRequest) -> Talk {
    let body = request.json();
    let mut messages = Vec::new();
    for block in body["system"].as_array().into_iter().flatten() {
        messages.push(json!({ "role": "system", "content": block["text"] }));
    }
    for message in body["messages"].as_array().into_iter().flatten() {
        let is_model = message["role"] == "assistant";
        let mut spoken = json!({ "role": message["role"], "content": "", "tool_calls": [] });
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") => spoken["content"] = block["text"].clone(),
                Some("tool_result") => messages.push(json!({ "role": "tool",
                    "tool_call_id": block["tool_use_id"], "content": block["content"] })),
                _ => {}
            }
        }
        if is_model || spoken["content"] != "" {
            messages.push(spoken);
        }
    }
    let tools = body["tools"].as_array().into_iter().flatten();
    let tools: Vec<_> = tools.map(|tool| json!({ "function": { "name": tool["name"] } })).collect();
    Talk::from(json!({ "model": body["model"], "tools": tools, "messages": messages }))
}

/// Returns what stands before the first message of a request.
pub(crate) fn head_of(request: &RecordedRequest) -> Arc<Head> {
    #[derive(serde::Deserialize)]
    struct Body {
        tools: Vec<Tool>,
    }
    #[derive(serde::Deserialize)]
    struct Tool {
        name: String,
        description: String,
        input_schema: Box<RawValue>,
    }
    let body: Body = serde_json::from_slice(&request.body).expect("the client sends JSON");
    let tools = body.tools.into_iter().map(|tool| {
        let Tool { name, description, input_schema: parameters } = tool;
        ToolSchema { name, description, parameters }
    });
    let system = request.json()["system"][0]["text"].as_str().unwrap_or_default().to_owned();
    Arc::new(Head::new(system, tools.collect()))
}

/// A cache of prompts, as it is documented: a prompt is the sequence of its
/// tools, its system prompt and the blocks of its messages. At each mark, what
/// came up to there is written into the cache, and looked for there: at the
/// mark itself, then block by block before it, at most [`LOOKBACK`] of them.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    entries: Mutex<HashMap<u64, usize>>,
}

/// What the cache had of a prompt, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) read: usize,
    pub(crate) written: usize,
    pub(crate) other: usize,
}

impl Counted {
    fn json(self) -> Value {
        json!({ "input_tokens": self.other, "cache_read_input_tokens": self.read,
            "cache_creation_input_tokens": self.written, "output_tokens": 1 })
    }
}

impl Cache {
    /// Reads and writes what a request marks.
    pub(crate) fn take(&self, body: &Value) -> Counted {
        let blocks = blocks_of(body);
        let mut hasher = DefaultHasher::new();
        let mut bytes = 0;
        let mut upto = Vec::with_capacity(blocks.len());
        for (block, _) in &blocks {
            block.hash(&mut hasher);
            bytes += block.len();
            upto.push((hasher.finish(), bytes));
        }
        let mut entries = self.entries.lock().expect("nothing panics while it holds the lock");
        let marks: Vec<_> = (0..blocks.len()).filter(|&at| blocks[at].1).collect();
        let found = marks.iter().filter_map(|&mark| {
            let looked_at = upto[..=mark].iter().rev().take(LOOKBACK);
            looked_at.filter_map(|(hash, _)| entries.get(hash).copied()).next()
        });
        let read = found.max().unwrap_or(0);
        let marked = marks.last().map_or(0, |&mark| upto[mark].1);
        entries.extend(marks.iter().map(|&mark| upto[mark]));
        Counted { read, written: marked - read, other: bytes - marked }
    }
}

/// Returns the blocks of a prompt without their marks, and whether they are
/// marked.
fn blocks_of(body: &Value) -> Vec<(String, bool)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of_messages = list(&body["messages"]).into_iter().flat_map(|message| {
        let role = message["role"].clone();
        list(&message["content"]).into_iter().map(move |mut block| {
            block["role"] = role.clone();
            block
        })
    });
    let blocks = list(&body["tools"]).into_iter().chain(list(&body["system"])).chain(of_messages);
    blocks
        .map(|mut block| {
            let fields = block.as_object_mut().expect("a block is an object");
            let mark = fields.remove("cache_control");
            (block.to_string(), mark.is_some())
        })
        .collect()
}
