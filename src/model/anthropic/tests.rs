//! Answers, from their events to the request that sends them back.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::assemble::Assembly;
use super::encode::{body, marked, unmarked};
use crate::event::UnitId;
use crate::message::{Call, Head, Message, Output, Prefix, Reply, StopReason, Usage, fork_base};
use crate::model::api::Options;
use crate::model::http::sse::Event;
use crate::model::{Answer, Asker, Chunk, ModelErrorKind, Purpose, check};

fn options() -> Arc<Options> {
    let sealed_by = "anthropic http://x m".into();
    Arc::new(Options { sealed_by, ..Options::new("m") })
}

fn asker() -> Asker {
    Asker {
        unit: UnitId::MAIN,
        agent: "main".into(),
        description: "".into(),
        purpose: Purpose::Turn,
        turn: 1,
        is_afresh: true,
        attempt: 1,
        forked_from: None,
    }
}

fn prefix(system: &str) -> Prefix {
    let mut prefix = Prefix::new(Arc::new(Head::new(system.into(), Vec::new())));
    prefix.push(Message::User("go".into()));
    prefix
}

fn start() -> Value {
    let usage = json!({ "input_tokens": 3, "cache_read_input_tokens": 40,
        "cache_creation_input_tokens": 5, "output_tokens": 1 });
    json!({ "type": "message_start", "message": { "content": [], "usage": usage } })
}

/// What is counted for [`start`] and an answer of so many tokens.
fn counted(output: u64) -> Usage {
    Usage { input: 3, output, cache_read: 40, cache_creation: 5, ..Usage::default() }
}

fn begin(index: u64, block: Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn delta(index: u64, delta: Value) -> Value {
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn stop(index: u64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({ "type": "message_delta", "delta": { "stop_reason": reason },
            "usage": { "output_tokens": 20 } }),
        json!({ "type": "message_stop" }),
    ]
}

fn feed(assembly: &mut Assembly, events: &[Value]) -> Vec<Chunk> {
    let mut said = Vec::new();
    for event in events {
        let data = event.to_string();
        let name = event["type"].as_str().unwrap_or_default();
        assembly.take(Event { name, data: &data }, &mut |chunk| said.push(chunk)).unwrap();
    }
    said
}

fn answer(prefix: &Prefix, events: &[Value]) -> Answer {
    let mut assembly = Assembly::new(options());
    feed(&mut assembly, events);
    assert!(assembly.is_complete());
    assembly.finish(&asker(), prefix).unwrap()
}

fn thinking(index: u64, text: &str, signature: &str) -> [Value; 4] {
    [
        begin(index, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(index, json!({ "type": "thinking_delta", "thinking": text })),
        delta(index, json!({ "type": "signature_delta", "signature": signature })),
        stop(index),
    ]
}

fn text(index: u64, text: &str) -> [Value; 3] {
    [
        begin(index, json!({ "type": "text", "text": "" })),
        delta(index, json!({ "type": "text_delta", "text": text })),
        stop(index),
    ]
}

fn tool_use(index: u64, id: &str, pieces: &[&str]) -> Vec<Value> {
    let block = json!({ "type": "tool_use", "id": id, "name": "Read", "input": {} });
    let piece =
        |piece: &&str| delta(index, json!({ "type": "input_json_delta", "partial_json": piece }));
    let mut events = vec![begin(index, block)];
    events.extend(pieces.iter().map(piece));
    events.push(stop(index));
    events
}

fn call(id: &str, arguments: &str) -> Call {
    Call { id: id.into(), tool: "Read".into(), arguments: arguments.into() }
}

/// The blocks of the last message with this role in a request.
fn last_blocks(prefix: &Prefix, role: &str) -> Value {
    let body: Value = serde_json::from_slice(&body(&options(), prefix)).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let last = messages.iter().rfind(|message| message["role"] == role);
    last.map_or(Value::Null, |message| message["content"].clone())
}

/// The conversation with this answer and its outputs.
fn after(mut prefix: Prefix, answer: &Answer) -> Prefix {
    prefix.push(Message::Model(Arc::new(answer.reply.clone())));
    for call in &answer.reply.calls {
        let output = Arc::new(Output::ok("found"));
        prefix.push(Message::Output { call: call.id.clone(), output });
    }
    prefix
}

fn thoughtful() -> Vec<Value> {
    let redacted = json!({ "type": "redacted_thinking", "data": "XYZ", "new": [1.50] });
    let mut events = vec![start(), json!({ "type": "ping" })];
    events.extend(thinking(0, "First,\nlook.", "sig1"));
    events.extend(text(1, "Looking. "));
    events.extend(tool_use(2, "toolu_1", &["", r#"{"p": "#, "1}"]));
    events.extend([begin(3, redacted), stop(3)]);
    events.extend(tool_use(4, "toolu_2", &[]));
    events.extend(end("tool_use"));
    events
}

#[test]
fn a_streamed_answer_is_put_together_block_by_block() {
    let mut assembly = Assembly::new(options());
    let said = feed(&mut assembly, &thoughtful());
    assert_eq!(said, [Chunk::Thinking("First,\nlook.".into()), Chunk::Text("Looking. ".into())]);
    assert!(assembly.has_ended() && assembly.is_over());
    let Answer { reply, usage, stop } = assembly.finish(&asker(), &prefix("s")).unwrap();
    assert_eq!((usage, stop), (counted(20), StopReason::ToolUse));
    let Reply { text, thinking, calls, sealed } = reply;
    assert_eq!((text.as_str(), thinking.as_str()), ("Looking. ", "First,\nlook."));
    assert_eq!(calls, [call("toolu_1", r#"{"p": 1}"#), call("toolu_2", "{}")]);
    assert_eq!(&*sealed.unwrap().by, "anthropic http://x m");
}

#[test]
fn reasoning_goes_back_word_for_word_and_in_its_places() {
    let prefix = prefix("s");
    let answer = answer(&prefix, &thoughtful());
    let sent = after(prefix, &answer);
    assert_eq!(
        last_blocks(&sent, "assistant"),
        json!([
            { "type": "thinking", "thinking": "First,\nlook.", "signature": "sig1" },
            { "type": "text", "text": "Looking. " },
            { "type": "tool_use", "id": "toolu_1", "name": "Read", "input": { "p": 1 } },
            { "type": "redacted_thinking", "data": "XYZ", "new": [1.50] },
            { "type": "tool_use", "id": "toolu_2", "name": "Read", "input": {} },
        ])
    );
    let bytes = String::from_utf8(body(&options(), &sent)).unwrap();
    assert!(bytes.contains(r#"{"type":"redacted_thinking","data":"XYZ","new":[1.5]}"#), "{bytes}");
}

#[test]
fn a_fork_keeps_what_was_thought_before_the_arguments_that_it_lost() {
    let prefix = prefix("s");
    let answer = answer(&prefix, &thoughtful());
    let mut parent = prefix;
    parent.push(Message::Model(Arc::new(answer.reply)));
    assert_eq!(
        last_blocks(&fork_base(&parent, "going on"), "assistant"),
        json!([
            { "type": "thinking", "thinking": "First,\nlook.", "signature": "sig1" },
            { "type": "text", "text": "Looking. " },
            { "type": "tool_use", "id": "toolu_1", "name": "Read", "input": {} },
            { "type": "tool_use", "id": "toolu_2", "name": "Read", "input": {} },
        ])
    );
}

#[test]
fn reasoning_is_left_out_where_anything_before_it_has_changed() {
    let prefix = prefix("s");
    let answer = answer(&prefix, &thoughtful());
    let has_thinking = |prefix: &Prefix| {
        let blocks = last_blocks(&after(prefix.clone(), &answer), "assistant");
        blocks[0]["type"] == "thinking"
    };
    assert!(has_thinking(&prefix.unrendered()));
    assert!(!has_thinking(&self::prefix("another")));
    let mut longer = prefix.clone();
    longer.push(Message::User("quickly".into()));
    assert!(!has_thinking(&longer));
    assert!(!has_thinking(&Prefix::new(Arc::clone(&prefix.head))));
    let elsewhere = Options { sealed_by: "anthropic http://y m".into(), ..(*options()).clone() };
    let body = body(&elsewhere, &after(prefix, &answer));
    assert!(!String::from_utf8(body).unwrap().contains("sig1"));
}

#[test]
fn later_reasoning_goes_with_earlier_reasoning() {
    // What the provider signed stands on all reasoning before it.
    let first = prefix("s");
    let one = answer(&first, &thoughtful());
    let second = after(first.clone(), &one);
    let two = answer(&second, &thoughtful());
    let whole = body(&options(), &after(second, &two));
    assert_eq!(String::from_utf8(whole).unwrap().matches("sig1").count(), 2);
    let bare = Answer { reply: Reply { sealed: None, ..one.reply.clone() }, ..one };
    let without = body(&options(), &after(after(first.unrendered(), &bare), &two));
    assert_eq!(String::from_utf8(without).unwrap().matches("sig1").count(), 0);
}

#[test]
fn no_answer_ends_in_reasoning_or_holds_reasoning_that_was_cut_off() {
    let prefix = prefix("s");
    let mut events = vec![start()];
    events.extend(text(0, "Well"));
    events.extend(thinking(1, "hm", "sig1"));
    events.extend(end("end_turn"));
    let closed = answer(&prefix, &events);
    let blocks = last_blocks(&after(prefix.clone(), &closed), "assistant");
    assert_eq!(blocks, json!([{ "type": "text", "text": "Well" }]));
    let mut events = vec![start()];
    events.extend(thinking(0, "hm, hm", ""));
    events.extend(end("max_tokens"));
    let cut = answer(&prefix, &events);
    assert_eq!((cut.stop, cut.reply.sealed.is_none()), (StopReason::MaxTokens, true));
    assert_eq!(last_blocks(&after(prefix, &cut), "assistant"), Value::Null);
}

#[test]
fn reasoning_without_a_signature_goes_back_too() {
    // Servers that imitate the API sign nothing, and want it back all the same.
    let prefix = prefix("s");
    let mut events = vec![start()];
    events.extend(thinking(0, "hm", ""));
    events.extend(tool_use(1, "a", &["{}"]));
    events.extend(end("tool_use"));
    let sent = after(prefix.clone(), &answer(&prefix, &events));
    let first = json!({ "type": "thinking", "thinking": "hm", "signature": "" });
    assert_eq!(last_blocks(&sent, "assistant")[0], first);
}

#[track_caller]
fn check_calls(events: &[Value], expected: &[Call]) {
    let mut whole = vec![start()];
    whole.extend_from_slice(events);
    whole.extend(end("end_turn"));
    let Answer { reply, stop, .. } = answer(&prefix("s"), &whole);
    assert_eq!((reply.calls.as_slice(), stop), (expected, StopReason::ToolUse));
}

#[test]
fn calls_are_read_however_a_server_sends_their_arguments() {
    let named =
        |input: Value| json!({ "type": "tool_use", "id": "a", "name": "Read", "input": input });
    let piece = |index, json: Value| {
        delta(index, json!({ "type": "input_json_delta", "partial_json": json }))
    };
    let whole = [call("a", r#"{"p":1}"#)];
    // All in the start, and none there at all.
    check_calls(&[begin(0, named(json!({ "p": 1 })))], &whole);
    check_calls(&[begin(0, named(json!(r#"{"p":1}"#)))], &whole);
    check_calls(&[begin(0, named(Value::Null)), piece(0, json!(r#"{"p":1}"#))], &whole);
    // In the start, and again in pieces.
    check_calls(&[begin(0, named(json!({ "p": 1 }))), piece(0, json!(r#"{"p":1}"#))], &whole);
    // As an object, and not as the text of one.
    check_calls(&[begin(0, named(json!({}))), piece(0, json!({ "p": 1 }))], &whole);
    // The same block begun anew with each piece.
    let again = [r#"{"p""#, ":1}"].map(|part| [begin(0, named(json!({}))), piece(0, json!(part))]);
    check_calls(again.as_flattened(), &whole);
    // Two at once, in turns; and every block with the same number.
    let second = json!({ "type": "tool_use", "id": "b", "name": "Read", "input": {} });
    let (one, other) = (begin(1, named(json!({}))), begin(2, second.clone()));
    let parts = [piece(1, json!("{\"p\"")), piece(2, json!("{\"q\"")), piece(1, json!(":1}"))];
    let [first, middle, last] = parts;
    let both = [call("a", r#"{"p":1}"#), call("b", r#"{"q":2}"#)];
    check_calls(&[one, other, first, middle, last, piece(2, json!(":2}"))], &both);
    let (one, other) = (begin(0, named(json!({}))), begin(0, second));
    let pieces = [piece(0, json!(r#"{"p":1}"#)), piece(0, json!(r#"{"q":2}"#))];
    let [first, last] = pieces;
    check_calls(&[one, first, other, last], &both);
}

#[test]
fn texts_are_read_however_a_server_numbers_its_blocks() {
    let said = |events: &[Value]| {
        let mut assembly = Assembly::new(options());
        feed(&mut assembly, events);
        let Answer { reply, .. } = assembly.finish(&asker(), &prefix("s")).unwrap();
        (reply.text, reply.thinking, reply.calls.len())
    };
    let (word, thought) = (json!({ "text": "a" }), json!({ "thinking": "b" }));
    let expected = ("aa".to_owned(), "bb".to_owned(), 0);
    // Without starts, without numbers, with other types than are named.
    let bare = |delta: &Value| json!({ "type": "content_block_delta", "delta": delta });
    assert_eq!(said(&[&thought, &thought, &word, &word].map(bare)), expected);
    let odd = begin(0, json!({ "type": "tool_use_result" }));
    let deltas = [&thought, &word, &thought, &word].map(|it| delta(0, it.clone()));
    assert_eq!(said(&[&[odd][..], &deltas].concat()), expected);
    // Pieces of calls that no call belongs to.
    let stray = delta(0, json!({ "type": "input_json_delta", "partial_json": "" }));
    assert_eq!(said(&[stray, delta(0, word)]), ("a".to_owned(), String::new(), 0));
}

#[test]
fn the_prompt_is_counted_before_a_word_is_said() {
    let mut assembly = Assembly::new(options());
    feed(&mut assembly, &[start()]);
    assert_eq!((assembly.usage(), assembly.grew()), (counted(1), false));
}

#[test]
fn what_only_keeps_the_connection_open_adds_nothing_but_while_it_thinks_in_secret() {
    let mut assembly = Assembly::new(options());
    let grew = |assembly: &mut Assembly, event: Value| {
        feed(assembly, &[event]);
        assembly.grew()
    };
    let ping = || json!({ "type": "ping" });
    assert!(!grew(&mut assembly, start()) && !grew(&mut assembly, ping()));
    assert!(!grew(&mut assembly, begin(0, json!({ "type": "thinking" }))));
    let alive = (0..1000).filter(|_| grew(&mut assembly, ping())).count();
    assert_eq!(alive, 360);
    let signed = delta(0, json!({ "type": "signature_delta", "signature": "s" }));
    assert!(grew(&mut assembly, signed) && !grew(&mut assembly, ping()));
    assert!(!assembly.has_ended() && grew(&mut assembly, end("end_turn")[0].clone()));
    assert!(assembly.has_ended() && !assembly.is_over());
    assert!(!grew(&mut assembly, end("end_turn")[1].clone()) && assembly.is_over());
}

#[test]
fn reasons_for_the_end_are_told_apart() {
    let stop = |reason: &str| {
        let events = [&text(0, "a")[..], &end(reason)].concat();
        answer(&prefix("s"), &events).stop
    };
    for reason in ["end_turn", "stop_sequence"] {
        assert_eq!(stop(reason), StopReason::EndTurn, "{reason}");
    }
    assert_eq!(stop("max_tokens"), StopReason::MaxTokens);
    assert_eq!(stop("refusal"), StopReason::Refusal);
}

#[test]
fn an_end_for_want_of_room_is_an_overflow_with_a_word_and_without() {
    for words in [&[][..], &text(0, "a")] {
        let mut assembly = Assembly::new(options());
        let end = end("model_context_window_exceeded");
        feed(&mut assembly, &[&[start()][..], words, &end].concat());
        let error = assembly.finish(&asker(), &prefix("s")).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Overflow);
    }
}

/// Any event, mostly one that could come.
fn any_event() -> impl Strategy<Value = Value> {
    let word = || prop::sample::select(vec!["", " ", "a", "{}", r#"{"p":1}"#, "\u{1f914}"]);
    let block = prop::sample::select(vec![
        "text",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "server_tool_use",
    ]);
    let kind = prop::sample::select(vec![
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "ping",
    ]);
    let field = prop::sample::select(vec!["text", "thinking", "signature", "partial_json"]);
    (kind, block, field, 0_u64..4, (word(), word())).prop_map(
        |(kind, block, field, index, words)| {
            let block = json!({ "type": block, "text": words.0, "thinking": words.0, "data": "x",
            "id": words.1, "name": words.0, "signature": words.1, "input": {} });
            json!({ "type": kind, "index": index, "content_block": block,
            "delta": { field: words.0 }, "usage": { "output_tokens": index } })
        },
    )
}

proptest! {
    #[test]
    fn whatever_a_server_says_goes_back_as_the_api_takes_it(
        events in prop::collection::vec(any_event(), 0..12),
        again in prop::collection::vec(any_event(), 0..12),
    ) {
        let mut talk = prefix("s");
        for events in [events, again] {
            let mut assembly = Assembly::new(options());
            feed(&mut assembly, &events);
            let answer = assembly.finish(&asker(), &talk).unwrap();
            let earlier = body(&options(), &talk);
            talk = after(talk, &answer);
            talk.push(Message::User("and?".into()));
            let later = marked(&options(), &talk);
            prop_assert_eq!(check::anthropic::check(&later), Ok(()));
            prop_assert_eq!(check::check_continues(&earlier, &later), Ok(()));
            prop_assert_eq!(&*unmarked(&later), body(&options(), &talk.unrendered()));
        }
    }
}

#[test]
fn a_whole_answer_is_read_as_a_stream_is() {
    let json = json!({
        "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "usage": { "input_tokens": 3, "output_tokens": 20 },
        "content": [
            { "type": "thinking", "thinking": "hm", "signature": "s" },
            { "type": "text", "text": "Looking." },
            { "type": "tool_use", "id": "a", "name": "Read", "input": { "p": 1 } },
        ],
    });
    let mut assembly = Assembly::new(options());
    let mut said = Vec::new();
    assembly.take_whole(json.to_string().as_bytes(), &mut |chunk| said.push(chunk)).unwrap();
    assert_eq!(said, [Chunk::Thinking("hm".into()), Chunk::Text("Looking.".into())]);
    let prefix = prefix("s");
    let answer = assembly.finish(&asker(), &prefix).unwrap();
    assert_eq!(answer.reply.calls, [call("a", r#"{"p":1}"#)]);
    assert_eq!(last_blocks(&after(prefix, &answer), "assistant"), json["content"]);
}
