//! A model behind the Responses API: what it says, and what it is told.

use serde_json::{Value, json};

use super::server::{Reaction, RecordedRequest, Server};
use super::talk::Talk;

/// What the model says in one turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Says {
    /// Its reasoning: the summary, and sealed.
    reasoning: Option<String>,
    text: Option<String>,
    /// Names and arguments. Their ids are `call_a` and so on.
    calls: Vec<(String, Value)>,
}

impl Says {
    pub(crate) fn text(text: &str) -> Self {
        Self { text: Some(text.to_owned()), ..Self::default() }
    }

    pub(crate) fn calls(calls: &[(&str, Value)]) -> Self {
        let calls = calls.iter().map(|(name, arguments)| ((*name).to_owned(), arguments.clone()));
        Self { calls: calls.collect(), ..Self::default() }
    }

    /// This, after some reasoning.
    pub(crate) fn after(self, reasoning: &str) -> Self {
        Self { reasoning: Some(reasoning.to_owned()), ..self }
    }

    /// This, and then these calls.
    pub(crate) fn and(self, calls: &[(&str, Value)]) -> Self {
        Self { calls: Self::calls(calls).calls, ..self }
    }

    /// Returns the events of the whole answer, as OpenAI sends them.
    pub(crate) fn events(&self) -> Vec<Value> {
        let mut events = Events::default();
        events.push("response.created", json!({ "response": response("in_progress", &[], None) }));
        let mut output = Vec::new();
        if let Some(reasoning) = &self.reasoning {
            output.push(events.reasoning(output.len(), reasoning));
        }
        if let Some(text) = &self.text {
            output.push(events.message(output.len(), text));
        }
        for ((name, arguments), letter) in self.calls.iter().zip('a'..) {
            output.push(events.call(output.len(), letter, (name, arguments)));
        }
        let usage = json!({ "input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
            "input_tokens_details": { "cached_tokens": 4 },
            "output_tokens_details": { "reasoning_tokens": 2 } });
        let response = response("completed", &output, Some(usage));
        events.push("response.completed", json!({ "response": response }));
        events.0
    }

    pub(crate) fn reaction(&self) -> Reaction {
        Reaction::stream(stream(&self.events()))
    }
}

/// Returns what sealed reasoning is, as it has to come back.
pub(crate) fn sealed(reasoning: &str) -> Value {
    json!({ "type": "reasoning", "id": "rs_0", "encrypted_content": format!("sealed: {reasoning}"),
        "summary": [{ "type": "summary_text", "text": reasoning }] })
}

/// Encodes events with their names.
pub(crate) fn stream(events: &[Value]) -> Vec<u8> {
    let event = |event: &Value| {
        let name = event["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n")
    };
    events.iter().flat_map(|one| event(one).into_bytes()).collect()
}

/// A response as a whole.
pub(crate) fn response(status: &str, output: &[Value], usage: Option<Value>) -> Value {
    json!({ "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": status,
        "error": null, "incomplete_details": null, "output": output, "usage": usage })
}

/// Starts a server that answers conversations.
pub(crate) fn serve(react: impl Fn(&Talk) -> Says + Send + Sync + 'static) -> Server {
    Server::start(move |request| react(&talk(request)).reaction())
}

/// Returns what a request says.
pub(crate) fn talk(request: &RecordedRequest) -> Talk {
    Talk::from(as_chat(&request.json()))
}

/// Returns the same conversation as Chat Completions has it.
fn as_chat(body: &Value) -> Value {
    let mut messages = vec![json!({ "role": "system", "content": body["instructions"] })];
    for item in body["input"].as_array().into_iter().flatten() {
        let is_answer = messages.last().is_some_and(|last| last["role"] == "assistant");
        match (item["type"].as_str(), item["role"].as_str()) {
            (Some("message"), Some("user")) => {
                messages.push(json!({ "role": "user", "content": item["content"] }));
                continue;
            }
            (Some("function_call_output"), _) => {
                messages.push(json!({ "role": "tool", "tool_call_id": item["call_id"],
                    "content": item["output"] }));
                continue;
            }
            _ if !is_answer => messages.push(json!({ "role": "assistant", "tool_calls": [] })),
            _ => {}
        }
        let answer = messages.last_mut().expect("one was put there");
        if item["type"] == "message" {
            answer["content"] = item["content"].clone();
        } else if item["type"] == "function_call" {
            let call = json!({ "id": item["call_id"], "type": "function",
                "function": { "name": item["name"], "arguments": item["arguments"] } });
            answer["tool_calls"].as_array_mut().expect("it has a list").push(call);
        }
    }
    let tools = body["tools"].as_array().into_iter().flatten();
    let tools: Vec<_> = tools.map(|tool| json!({ "type": "function", "function": tool })).collect();
    json!({ "model": body["model"], "tools": tools, "messages": messages })
}

/// Events, numbered.
#[derive(Default)]
struct Events(Vec<Value>);

impl Events {
    fn push(&mut self, kind: &str, mut event: Value) {
        event["type"] = kind.into();
        event["sequence_number"] = self.0.len().into();
        self.0.push(event);
    }

    fn item(&mut self, kind: &str, index: usize, item: &Value) {
        let kind = format!("response.output_item.{kind}");
        self.push(&kind, json!({ "output_index": index, "item": item }));
    }

    fn reasoning(&mut self, index: usize, text: &str) -> Value {
        let mut item = sealed(text);
        let began = json!({ "type": "reasoning", "id": "rs_0", "summary": [] });
        self.item("added", index, &began);
        let part = |key: &str, value: Value| json!({ "item_id": "rs_0", "output_index": index, "summary_index": 0, key: value });
        let summary = |text: &str| json!({ "type": "summary_text", "text": text });
        self.push("response.reasoning_summary_part.added", part("part", summary("")));
        self.push("response.reasoning_summary_text.delta", part("delta", text.into()));
        self.push("response.reasoning_summary_text.done", part("text", text.into()));
        self.push("response.reasoning_summary_part.done", part("part", summary(text)));
        item["status"] = "completed".into();
        self.item("done", index, &item);
        item
    }

    fn message(&mut self, index: usize, text: &str) -> Value {
        let message = |status: &str, content: Value| {
            json!({ "type": "message", "id": "msg_0", "role": "assistant", "status": status,
                "content": content })
        };
        self.item("added", index, &message("in_progress", json!([])));
        let part = |key: &str, value: Value| json!({ "item_id": "msg_0", "output_index": index, "content_index": 0, key: value });
        let said = |text: &str| json!({ "type": "output_text", "annotations": [], "text": text });
        self.push("response.content_part.added", part("part", said("")));
        for word in text.split_inclusive(' ') {
            self.push("response.output_text.delta", part("delta", word.into()));
        }
        self.push("response.output_text.done", part("text", text.into()));
        self.push("response.content_part.done", part("part", said(text)));
        let item = message("completed", json!([said(text)]));
        self.item("done", index, &item);
        item
    }

    fn call(&mut self, index: usize, letter: char, (name, arguments): (&str, &Value)) -> Value {
        let (id, arguments) = (format!("fc_{letter}"), arguments.to_string());
        let call = |status: &str, arguments: &str| {
            json!({ "type": "function_call", "id": id, "call_id": format!("call_{letter}"),
                "status": status, "name": name, "arguments": arguments })
        };
        self.item("added", index, &call("in_progress", ""));
        let part =
            |key: &str, value: &str| json!({ "item_id": id, "output_index": index, key: value });
        for piece in arguments.split_inclusive(':') {
            self.push("response.function_call_arguments.delta", part("delta", piece));
        }
        self.push("response.function_call_arguments.done", part("arguments", &arguments));
        let item = call("completed", &arguments);
        self.item("done", index, &item);
        item
    }
}
