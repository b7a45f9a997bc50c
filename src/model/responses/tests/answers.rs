//! Answers: what the events of a stream come to, whichever of them a server
//! sends and in whatever order.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{TAG, api};
use crate::event::UnitId;
use crate::message::{Call, Head, Prefix, Reply, Sealed, StopReason, Usage};
use crate::model::http::sse::Event;
use crate::model::{Answer, Asker, Chunk, ModelError, ModelErrorKind, Purpose};

fn asker() -> Asker {
    Asker {
        unit: UnitId::MAIN,
        agent: "main".into(),
        description: "".into(),
        purpose: Purpose::Turn,
        turn: 1,
        attempt: 1,
        is_afresh: true,
        forked_from: None,
    }
}

fn empty() -> Prefix {
    Prefix::new(Arc::new(Head::new(String::new(), Vec::new())))
}

fn take(events: &[(&str, String)]) -> Result<Answer, ModelError> {
    let mut assembly = api().assembly();
    let (mut text, mut thinking) = (String::new(), String::new());
    for (name, data) in events {
        assembly.take(Event { name, data }, &mut |chunk| match chunk {
            Chunk::Text(more) => text.push_str(&more),
            Chunk::Thinking(more) => thinking.push_str(&more),
            Chunk::Finished(_) | Chunk::SentTwice(_) => unreachable!("the client says that"),
        })?;
    }
    assert!(assembly.is_complete(), "the answer has no end");
    let answer = assembly.finish(&asker(), &empty())?;
    assert_eq!((&answer.reply.text, &answer.reply.thinking), (&text, &thinking), "what was said");
    Ok(answer)
}

fn taken(events: &[Value]) -> Result<Answer, ModelError> {
    let events: Vec<_> = events.iter().map(|event| ("", event.to_string())).collect();
    take(&events)
}

/// What an answer says, in short.
fn short(answer: &Answer) -> (&str, Vec<(&str, &str, &str)>, StopReason) {
    let calls = &answer.reply.calls;
    let calls = calls.iter().map(|call| (&*call.id.0, &*call.tool, &*call.arguments)).collect();
    (&answer.reply.text, calls, answer.stop)
}

#[track_caller]
fn check(events: &[Value], text: &str, calls: &[(&str, &str, &str)], stop: StopReason) {
    let answer = taken(events).unwrap();
    assert_eq!(short(&answer), (text, calls.to_vec(), stop));
}

fn event(name: &str, fields: Value) -> Value {
    let mut event = json!({ "type": format!("response.{name}") });
    event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    event
}

fn completed() -> Value {
    event("completed", json!({ "response": { "status": "completed", "output": [] } }))
}

fn added(index: u64, item: Value) -> Value {
    event("output_item.added", json!({ "output_index": index, "item": item }))
}

fn done(index: u64, item: Value) -> Value {
    event("output_item.done", json!({ "output_index": index, "item": item }))
}

fn text_delta(id: &str, index: u64, delta: &str) -> Value {
    let fields =
        json!({ "item_id": id, "output_index": index, "content_index": 0, "delta": delta });
    event("output_text.delta", fields)
}

fn arguments_delta(id: &str, index: u64, delta: &str) -> Value {
    let fields = json!({ "item_id": id, "output_index": index, "delta": delta });
    event("function_call_arguments.delta", fields)
}

fn message(id: &str, text: &str) -> Value {
    json!({ "type": "message", "id": id, "role": "assistant", "status": "completed",
        "content": [{ "type": "output_text", "text": text, "annotations": [] }] })
}

fn calling(id: &str, call_id: &str, name: &str, arguments: &str) -> Value {
    json!({ "type": "function_call", "id": id, "call_id": call_id, "name": name,
        "arguments": arguments, "status": "in_progress" })
}

/// An answer as OpenAI streams it.
fn openai() -> Vec<Value> {
    let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
    let reasoning = |summary: Value| {
        json!({ "type": "reasoning", "id": "rs_1", "summary": summary, "status": null,
            "encrypted_content": "gAAA" })
    };
    let summary = json!([{ "type": "summary_text", "text": "**A**" },
        { "type": "summary_text", "text": "B\n" }]);
    let summed = |index: u64, name: &str, key: &str, text: &str| {
        let name = format!("reasoning_summary_text.{name}");
        event(
            &name,
            json!({ "item_id": "rs_1", "output_index": 0, "summary_index": index, key: text }),
        )
    };
    let said = |name: &str, key: &str, value: Value| {
        event(
            name,
            json!({ "item_id": "msg_1", "output_index": 1, "content_index": 0, key: value }),
        )
    };
    let usage = json!({ "input_tokens": 100, "output_tokens": 40, "total_tokens": 140,
        "input_tokens_details": { "cached_tokens": 60, "cache_write_tokens": 30 },
        "output_tokens_details": { "reasoning_tokens": 24 } });
    let mut commentary = message("msg_1", "Let me see.");
    commentary["phase"] = json!("commentary");
    let call = calling("fc_1", "call_1", "Read", r#"{"path":"a"}"#);
    let output = json!([reasoning(summary.clone()), commentary, call]);
    vec![
        event("created", json!({ "response": { "status": "in_progress", "usage": null } })),
        event("in_progress", json!({ "response": { "status": "in_progress", "usage": null } })),
        added(0, reasoning(json!([]))),
        summed(0, "delta", "delta", "**"),
        summed(0, "delta", "delta", "A**"),
        summed(0, "done", "text", "**A**"),
        summed(1, "delta", "delta", "B\n"),
        done(0, reasoning(summary)),
        added(1, json!({ "type": "message", "id": "msg_1", "content": [], "phase": "commentary" })),
        said("content_part.added", "part", part("")),
        said("output_text.delta", "delta", json!("Let me")),
        said("output_text.delta", "delta", json!(" see.")),
        said("output_text.done", "text", json!("Let me see.")),
        said("content_part.done", "part", part("Let me see.")),
        done(1, commentary.clone()),
        added(2, calling("fc_1", "call_1", "Read", "")),
        arguments_delta("fc_1", 2, r#"{"path""#),
        arguments_delta("fc_1", 2, r#":"a"}"#),
        event(
            "function_call_arguments.done",
            json!({ "item_id": "fc_1", "output_index": 2, "arguments": r#"{"path":"a"}"# }),
        ),
        done(2, call),
        event(
            "completed",
            json!({ "response": { "status": "completed", "error": null,
                "incomplete_details": null, "output": output, "usage": usage } }),
        ),
    ]
}

#[test]
fn an_answer_holds_what_its_events_say() {
    let json = concat!(
        r#"[{"reasoning":{"type":"reasoning","id":"rs_1","#,
        r#""summary":[{"type":"summary_text","text":"**A**"},{"type":"summary_text","text":"B\n"}],"#,
        r#""encrypted_content":"gAAA"}},"#,
        r#"{"message":{"start":0,"end":11,"phase":"commentary"}},{"call":0}]"#,
    );
    let expected = Answer {
        reply: Reply {
            text: "Let me see.".into(),
            thinking: "**A**\n\nB\n".into(),
            calls: vec![Call {
                id: "call_1".into(),
                tool: "Read".into(),
                arguments: r#"{"path":"a"}"#.into(),
            }],
            sealed: Some(Sealed { by: TAG.into(), json: json.into() }),
        },
        usage: Usage {
            input: 10,
            output: 40,
            cache_read: 60,
            cache_creation: 30,
            ..Usage::default()
        },
        stop: StopReason::ToolUse,
    };
    assert_eq!(taken(&openai()), Ok(expected));
}

#[test]
fn nothing_of_an_answer_needs_more_than_one_of_the_events_that_tell_of_it() {
    let whole = taken(&openai()).unwrap();
    let kinds = |kinds: &[&str]| {
        let is_kept =
            |event: &&Value| kinds.iter().any(|kind| event["type"] == format!("response.{kind}"));
        let events: Vec<_> = openai().iter().filter(is_kept).cloned().collect();
        taken(&events).unwrap()
    };
    assert_eq!(kinds(&["completed"]), whole);
    assert_eq!(kinds(&["output_item.done", "completed"]), whole);
    assert_eq!(kinds(&["output_item.added", "output_item.done", "completed"]), whole);
    let deltas = ["output_text.delta", "reasoning_summary_text.delta", "completed"];
    assert_eq!(kinds(&deltas), whole);
    let arguments = ["function_call_arguments.delta", "output_item.done", "completed"];
    assert_eq!(kinds(&arguments).reply.calls, whole.reply.calls);
}

#[test]
fn what_an_event_is_may_stand_in_its_name_alone() {
    let events: Vec<_> = openai()
        .into_iter()
        .map(|mut event| {
            let kind = event.as_object_mut().unwrap().remove("type").unwrap();
            (kind.as_str().unwrap().to_owned(), event.to_string())
        })
        .collect();
    let events: Vec<_> = events.iter().map(|(name, data)| (&**name, data.clone())).collect();
    assert_eq!(take(&events), taken(&openai()));
}

#[test]
fn a_server_without_numbers_and_ids_of_calls_is_understood() {
    // llama.cpp: all ends come last, calls have no id of their own.
    let call = |id: &str, arguments: &str| json!({ "type": "function_call", "call_id": id, "name": "Read", "arguments": arguments });
    let delta = |id: &str, delta: &str| {
        event("function_call_arguments.delta", json!({ "item_id": id, "delta": delta }))
    };
    let reasoning = json!({ "type": "reasoning", "id": "rs_1", "summary": [],
        "content": [{ "type": "reasoning_text", "text": "hm" }], "encrypted_content": "" });
    let item =
        |name: &str, item: Value| event(&format!("output_item.{name}"), json!({ "item": item }));
    let answer = taken(&[
        item("added", json!({ "type": "reasoning", "id": "rs_1", "summary": [], "content": [] })),
        event("reasoning_text.delta", json!({ "item_id": "rs_1", "delta": "hm" })),
        item("added", json!({ "type": "message", "id": "msg_1", "content": [] })),
        event("output_text.delta", json!({ "item_id": "msg_1", "delta": "Hi" })),
        item("added", call("fc_a", "")),
        delta("fc_a", "{\"a\":"),
        delta("fc_a", "1}"),
        item("added", call("fc_b", "")),
        delta("fc_b", "{}"),
        item("done", reasoning.clone()),
        event("output_text.done", json!({ "item_id": "msg_1", "text": "Hi" })),
        item("done", message("msg_1", "Hi")),
        item("done", call("fc_a", "{\"a\":1}")),
        item("done", call("fc_b", "{}")),
        event(
            "completed",
            json!({ "response": { "status": "completed",
                "output": [reasoning, message("msg_1", "Hi"), call("fc_a", "{\"a\":1}"), call("fc_b", "{}")],
                "usage": { "input_tokens": 7, "output_tokens": 3 } } }),
        ),
    ])
    .unwrap();
    let calls = vec![("fc_a", "Read", "{\"a\":1}"), ("fc_b", "Read", "{}")];
    assert_eq!(short(&answer), ("Hi", calls, StopReason::ToolUse));
    assert_eq!(answer.reply.thinking, "hm");
    assert_eq!(answer.usage, Usage { input: 7, output: 3, ..Usage::default() });
    let json = answer.reply.sealed.unwrap().json;
    assert_eq!(
        &*json,
        concat!(
            r#"[{"reasoning":{"type":"reasoning","id":"rs_1","summary":[],"#,
            r#""content":[{"type":"reasoning_text","text":"hm"}]}},"#,
            r#"{"message":{"start":0,"end":2}},{"call":0},{"call":1}]"#,
        )
    );
}

#[test]
fn items_with_one_number_or_with_other_ids_at_their_end_are_kept_apart() {
    let calls = [("call_1", "Read", "{\"a\":1}"), ("call_2", "Glob", "{\"b\":2}")];
    let one_number = [
        added(0, calling("fc_1", "call_1", "Read", "")),
        arguments_delta("fc_1", 0, "{\"a\":1}"),
        added(0, calling("fc_2", "call_2", "Glob", "")),
        arguments_delta("fc_2", 0, "{\"b\":2}"),
        done(0, calling("fc_1", "call_1", "Read", "{\"a\":1}")),
        done(0, calling("fc_2", "call_2", "Glob", "{\"b\":2}")),
        completed(),
    ];
    check(&one_number, "", &calls, StopReason::ToolUse);
    let ends_alone = [one_number[4].clone(), one_number[5].clone(), completed()];
    check(&ends_alone, "", &calls, StopReason::ToolUse);
    let other_ids = [
        added(0, calling("a", "x", "Read", "")),
        arguments_delta("b", 0, "{\"a\":1}"),
        done(0, calling("c", "call_1", "Read", "{\"a\":1}")),
        added(1, calling("d", "y", "Glob", "")),
        done(1, calling("e", "call_2", "Glob", "{\"b\":2}")),
        event(
            "completed",
            json!({ "response": { "output": [calling("f", "call_3", "Read", "{\"a\":1}"),
                calling("g", "call_4", "Glob", "{\"b\":2}")] } }),
        ),
    ];
    check(&other_ids, "", &calls, StopReason::ToolUse);
}

#[test]
fn calls_may_begin_with_arguments_have_no_end_or_come_as_objects() {
    let started = [
        added(0, calling("fc_1", "call_1", "Read", "{\"a\"")),
        arguments_delta("fc_1", 0, "{\"a\""),
        arguments_delta("fc_1", 0, ":1}"),
        completed(),
    ];
    check(&started, "", &[("call_1", "Read", "{\"a\":1}")], StopReason::ToolUse);
    let at_once = [added(0, calling("fc_1", "call_1", "Read", "{\"a\":1}")), completed()];
    check(&at_once, "", &[("call_1", "Read", "{\"a\":1}")], StopReason::ToolUse);
    let object = json!({ "type": "function_call", "name": "Read", "arguments": { "a": 1 } });
    check(
        &[done(0, object), completed()],
        "",
        &[("call_0_1_0", "Read", "{\"a\":1}")],
        StopReason::ToolUse,
    );
    let unannounced = [
        event(
            "function_call_arguments.done",
            json!({ "item_id": "fc_1", "output_index": 0, "name": "Read", "arguments": "{}" }),
        ),
        completed(),
    ];
    check(&unannounced, "", &[("fc_1", "Read", "{}")], StopReason::ToolUse);
}

#[test]
fn messages_stand_apart_and_go_back_as_they_came() {
    let mut first = message("m1", "One.");
    first["phase"] = json!("commentary");
    let events = [
        done(0, first),
        text_delta("m2", 1, "Two"),
        text_delta("m1", 0, "One and"),
        text_delta("m2", 1, ", three."),
        done(1, message("m2", "Two, three.")),
        completed(),
    ];
    let answer = taken(&events).unwrap();
    assert_eq!(answer.reply.text, "One.\n\nTwo\n\nOne and\n\n, three.");
    let json = answer.reply.sealed.unwrap().json;
    assert_eq!(
        &*json,
        concat!(
            r#"[{"message":{"start":0,"end":4,"phase":"commentary"}},{"message":{"start":6,"end":9}},"#,
            r#"{"message":{"start":11,"end":18,"phase":"commentary"}},{"message":{"start":20,"end":28}}]"#,
        )
    );
}

#[test]
fn reasoning_is_read_once_and_kept_only_if_something_can_go_on_from_it() {
    let delta = |name: &str, delta: &str| {
        event(
            &format!("{name}.delta"),
            json!({ "item_id": "r", "output_index": 0, "delta": delta }),
        )
    };
    let end = |content: Value, encrypted: Value| {
        let item = json!({ "type": "reasoning", "id": "r", "content": content,
            "summary": [{ "type": "summary_text", "text": "short" }], "encrypted_content": encrypted });
        done(0, item)
    };
    let read = |events: &[Value]| {
        let reply = taken(events).unwrap().reply;
        (reply.thinking, reply.sealed.is_some())
    };
    let (text, long) =
        (text_delta("m", 1, "Hi"), json!([{ "type": "reasoning_text", "text": "long" }]));
    let both = [
        delta("reasoning_text", "lo"),
        delta("reasoning_summary_text", "short"),
        delta("reasoning_text", "ng"),
        end(long.clone(), json!("e")),
        text.clone(),
        completed(),
    ];
    assert_eq!(read(&both), ("long".to_owned(), true));
    let bare = [end(json!(null), json!(null)), text.clone(), completed()];
    assert_eq!(read(&bare), ("short".to_owned(), false));
    let plain = [end(long, json!(null)), text, completed()];
    assert_eq!(read(&plain), ("short".to_owned(), true));
    // Nothing of the answer stands behind it.
    let cut = [end(json!(null), json!("e")), completed()];
    assert_eq!(read(&cut), ("short".to_owned(), false));
}

#[test]
fn answers_end_for_the_reason_that_was_given() {
    let ended = |name: &str, response: Value| {
        [text_delta("m", 0, "Hi"), event(name, json!({ "response": response }))]
    };
    let reason = |reason: &str| json!({ "status": "incomplete", "incomplete_details": { "reason": reason } });
    check(&ended("incomplete", reason("max_output_tokens")), "Hi", &[], StopReason::MaxTokens);
    check(&ended("incomplete", reason("content_filter")), "Hi", &[], StopReason::Refusal);
    check(&ended("completed", reason("max_output_tokens")), "Hi", &[], StopReason::MaxTokens);
    check(&ended("incomplete", json!({})), "Hi", &[], StopReason::MaxTokens);
    check(&ended("completed", json!({})), "Hi", &[], StopReason::EndTurn);
    check(&ended("done", json!(null)), "Hi", &[], StopReason::EndTurn);
    let refused = [event("refusal.delta", json!({ "delta": "No." })), completed()];
    check(&refused, "No.", &[], StopReason::Refusal);
    let at_the_end =
        json!({ "type": "message", "content": [{ "type": "refusal", "refusal": "No." }] });
    check(&[done(0, at_the_end), completed()], "No.", &[], StopReason::Refusal);
}

#[test]
fn the_end_mark_proves_no_end() {
    let mut assembly = api().assembly();
    let delta = text_delta("m", 0, "Hi").to_string();
    assembly.take(Event { name: "", data: &delta }, &mut |_| {}).unwrap();
    assembly.take(Event { name: "", data: "[DONE]" }, &mut |_| {}).unwrap();
    assert_eq!((assembly.is_over(), assembly.is_complete()), (true, false));
}

#[test]
fn only_what_adds_something_counts_as_progress() {
    let mut assembly = api().assembly();
    let mut grew = |event: Value| {
        assembly.take(Event { name: "", data: &event.to_string() }, &mut |_| {}).unwrap();
        (assembly.grew(), assembly.has_ended())
    };
    assert_eq!(grew(event("created", json!({ "response": {} }))), (false, false));
    assert_eq!(grew(event("ping", json!({}))), (false, false));
    assert_eq!(grew(text_delta("m", 0, "")), (false, false));
    assert_eq!(grew(text_delta("m", 0, "a")), (true, false));
    assert_eq!(grew(done(0, message("m", "a"))), (false, false));
    assert_eq!(grew(arguments_delta("f", 1, "{")), (true, false));
    assert_eq!(grew(arguments_delta("f", 1, "")), (false, false));
    assert_eq!(grew(completed()), (true, true));
}

#[test]
fn a_whole_answer_is_read_as_the_end_of_a_stream() {
    let whole = |body: &Value| {
        let mut assembly = api().assembly();
        assembly.take_whole(body.to_string().as_bytes(), &mut |_| {})?;
        assembly.finish(&asker(), &empty())
    };
    let events = openai();
    assert_eq!(whole(&events.last().unwrap()["response"]), taken(&events));
    for body in [json!({}), json!({ "status": "queued" }), json!("hi")] {
        assert_eq!(whole(&body).unwrap_err().kind, ModelErrorKind::Cut, "{body}");
    }
}

#[test]
fn an_error_that_is_hardly_json_is_one_all_the_same() {
    let nested = format!("{}{}", "[".repeat(500), "]".repeat(500));
    for error in [&nested, r#""\ud83e""#] {
        let event = format!(r#"{{"type":"error","error":{error}}}"#);
        let failed = format!(r#"{{"type":"response.failed","response":{{"error":{error}}}}}"#);
        for data in [event, failed] {
            assert_eq!(take(&[("", data)]).unwrap_err().kind, ModelErrorKind::Overloaded);
        }
    }
}

#[test]
fn a_call_with_an_id_of_an_earlier_one_gets_its_own() {
    let events = [done(0, calling("fc", "call_1", "Read", "{}")), completed()];
    let mut assembly = api().assembly();
    for event in &events {
        assembly.take(Event { name: "", data: &event.to_string() }, &mut |_| {}).unwrap();
    }
    let earlier = taken(&events).unwrap().reply;
    let mut prefix = empty();
    prefix.push(crate::message::Message::Model(Arc::new(earlier)));
    let answer = assembly.finish(&asker(), &prefix).unwrap();
    assert_eq!(answer.reply.calls[0].id, "call_0_1_0".into());
}
