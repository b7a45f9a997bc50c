//! Requests: their bytes, how they go on from one another, and what goes back of
//! an answer.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{TAG, api, options};
use crate::message::{
    Call, Head, Image, ImageKind, Message, Output, Prefix, Prompt, Reply, Sealed, ToolSchema,
    fork_base,
};
use crate::model::api::Options;
use crate::model::check::check_continues;
use crate::model::responses::Responses;

fn prefix(messages: impl IntoIterator<Item = Message>) -> Prefix {
    let mut prefix = Prefix::new(Arc::new(Head::new("Be brief.".into(), Vec::new())));
    messages.into_iter().for_each(|message| prefix.push(message));
    prefix
}

fn user(text: &str) -> Message {
    Message::User(text.into())
}

fn call(id: &str, tool: &str, arguments: &str) -> Call {
    Call { id: id.into(), tool: tool.into(), arguments: arguments.into() }
}

fn sealed(by: &str, json: &str) -> Option<Sealed> {
    Some(Sealed { by: by.into(), json: json.into() })
}

fn text(options: Options, prefix: &Prefix) -> String {
    String::from_utf8(Responses::new(options).unwrap().body(prefix)).unwrap()
}

fn key(options: Options, prefix: &Prefix) -> Value {
    let body: Value = serde_json::from_str(&text(options, prefix)).unwrap();
    body["prompt_cache_key"].clone()
}

/// Checks the items that a message is sent as.
#[track_caller]
fn check_items(message: Message, expected: &str) {
    check_items_with(options(), message, expected);
}

#[track_caller]
fn check_items_with(options: Options, message: Message, expected: &str) {
    let body = text(options, &prefix([message]));
    let (_, input) = body.split_once(r#""input":["#).unwrap();
    assert_eq!(input.strip_suffix("]}").unwrap(), expected);
}

#[test]
fn keys_have_one_order_and_the_input_comes_last() {
    let schema = ToolSchema {
        name: "Read".into(),
        description: "Reads.".into(),
        parameters: RawValue::from_string(r#"{"z":1,"a":2}"#.into()).unwrap(),
    };
    let mut prefix = Prefix::new(Arc::new(Head::new("Be brief.".into(), vec![schema])));
    prefix.push(user("Hi."));
    let extra = Map::from_iter([("temperature".to_owned(), json!(0))]);
    let (max_output_tokens, effort) = (Some(9), Some("high".to_owned()));
    assert_eq!(
        text(Options { max_output_tokens, effort, extra, ..options() }, &prefix),
        concat!(
            r#"{"model":"m","stream":true,"store":false,"include":["reasoning.encrypted_content"],"#,
            r#""max_output_tokens":9,"reasoning":{"effort":"high"},"#,
            r#""prompt_cache_key":"KEY","temperature":0,"#,
            r#""instructions":"Be brief.","tools":[{"type":"function","name":"Read","#,
            r#""description":"Reads.","parameters":{"z":1,"a":2},"strict":false}],"#,
            r#""input":[{"type":"message","role":"user","content":"Hi."}]}"#,
        )
        .replace("KEY", key(options(), &prefix).as_str().unwrap())
    );
}

#[test]
fn configured_keys_replace_our_own() {
    let ours = [
        ("store", json!(true)),
        ("include", json!([])),
        ("max_output_tokens", json!(5)),
        ("reasoning", json!({ "effort": "low", "summary": "auto" })),
        ("prompt_cache_key", json!("k")),
    ];
    let extra = ours.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
    let (max_output_tokens, effort) = (Some(9), Some("high".to_owned()));
    assert_eq!(
        text(
            Options { max_output_tokens, effort, extra, ..options() },
            &Prefix::new(Arc::new(Head::new(String::new(), Vec::new())))
        ),
        concat!(
            r#"{"model":"m","stream":true,"store":true,"include":[],"max_output_tokens":5,"#,
            r#""reasoning":{"effort":"low","summary":"auto"},"#,
            r#""prompt_cache_key":"k","input":[]}"#,
        )
    );
}

#[test]
fn models_that_do_not_reason_are_not_asked_for_reasoning() {
    for (model, asked) in [
        ("gpt-5.6", true),
        ("o3", true),
        ("openai/gpt-oss-120b", true),
        ("qwen3-coder", true),
        ("gpt-4.1-mini", false),
        ("openai/gpt-4o", false),
        ("ft:gpt-4.1-2025-04-14:us::x", false),
        ("gpt-5-chat-latest", false),
    ] {
        let body = text(Options { model: model.into(), ..options() }, &prefix([]));
        assert_eq!(body.contains("encrypted_content"), asked, "{model}");
    }
}

#[test]
fn a_conversation_and_its_forks_have_one_cache_and_others_have_their_own() {
    let calling = Reply { calls: vec![call("c1", "Agent", "{}")], ..Reply::default() };
    let parent = prefix([user("go"), Message::Model(Arc::new(calling))]);
    let mut fork = fork_base(&parent, "going on");
    fork.push(user("look"));
    let own = key(options(), &parent);
    assert_eq!(own.as_str().map(str::len), Some(32));
    assert_eq!(key(options(), &fork), own);
    assert_eq!(key(options(), &prefix([user("go")])), own);
    assert_ne!(key(options(), &prefix([user("go on")])), own);
    let mut other_head = Prefix::new(Arc::new(Head::new("Be long.".into(), Vec::new())));
    other_head.push(user("go"));
    assert_ne!(key(options(), &other_head), own);
}

#[test]
fn a_later_turn_begins_with_the_bytes_of_the_one_before() {
    let mut conversation = prefix([user("go")]);
    let mut bodies = vec![api().body(&conversation)];
    let json = r#"[{"reasoning":{"type":"reasoning","id":"r","summary":[],"encrypted_content":"x"}},{"call":0}]"#;
    let reply = Reply {
        calls: vec![call("c1", "Read", "{}")],
        sealed: sealed(TAG, json),
        ..Reply::default()
    };
    conversation.push(Message::Model(Arc::new(reply)));
    conversation.push(Message::Output { call: "c1".into(), output: Arc::new(Output::ok("a")) });
    bodies.push(api().body(&conversation));
    conversation.push(Message::Model(Arc::default()));
    conversation.push(user("and now?"));
    bodies.push(api().body(&conversation));
    for pair in bodies.windows(2) {
        assert_eq!(check_continues(&pair[0], &pair[1]), Ok(()));
    }
}

#[test]
fn a_reply_is_its_text_and_then_its_calls() {
    let reply = Reply {
        text: "Let me see.".into(),
        thinking: "hm".into(),
        calls: vec![call("c1", "Read", r#"{"path": "a"}"#), call("c2", "no tool", "[")],
        sealed: None,
    };
    check_items(
        Message::Model(Arc::new(reply)),
        concat!(
            r#"{"type":"message","role":"assistant","content":"Let me see."},"#,
            r#"{"type":"function_call","call_id":"c1","name":"Read","arguments":"{\"path\": \"a\"}"},"#,
            r#"{"type":"function_call","call_id":"c2","name":"no_tool","arguments":"{}"}"#,
        ),
    );
    check_items(Message::Model(Arc::default()), "");
}

#[test]
fn sealed_reasoning_goes_back_to_where_it_stood_word_for_word() {
    let json = concat!(
        r#"[{"reasoning":{"type":"reasoning","id":"r1","summary":[],"encrypted_content":"a\/b"}},"#,
        r#"{"message":{"start":0,"end":3,"phase":"commentary"}},{"call":0},"#,
        r#"{"reasoning":{"type":"reasoning","id":"r2","summary":[],"encrypted_content":"c"}},{"call":1}]"#,
    );
    let reply = |by: &str, json: &str| {
        Message::Model(Arc::new(Reply {
            text: "One".into(),
            calls: vec![call("c1", "Read", "{}"), call("c2", "Glob", "{}")],
            sealed: sealed(by, json),
            ..Reply::default()
        }))
    };
    let message = r#"{"type":"message","role":"assistant","content":"One""#;
    let first = r#"{"type":"function_call","call_id":"c1","name":"Read","arguments":"{}"}"#;
    let second = r#"{"type":"function_call","call_id":"c2","name":"Glob","arguments":"{}"}"#;
    check_items(
        reply(TAG, json),
        &format!(
            "{},{message},\"phase\":\"commentary\"}},{first},{},{second}",
            r#"{"type":"reasoning","id":"r1","summary":[],"encrypted_content":"a\/b"}"#,
            r#"{"type":"reasoning","id":"r2","summary":[],"encrypted_content":"c"}"#,
        ),
    );
    // What another model sealed, and what does not fit the reply, stays away.
    let without = format!("{message}}},{first},{second}");
    check_items(reply("responses http://localhost other", json), &without);
    for json in [
        "",
        "[]",
        r#"[{"call":0}]"#,
        r#"[{"call":1},{"call":0}]"#,
        r#"[{"call":0},{"call":1},{"call":2}]"#,
        r#"[{"message":{"start":0,"end":4}},{"call":0},{"call":1}]"#,
    ] {
        check_items(reply(TAG, json), &without);
    }
}

#[test]
fn an_output_is_a_text_and_with_images_a_list_of_parts() {
    let image = Image { kind: ImageKind::Png, base64: "AAAA".into() };
    let output = |text: &str, images: &[Image]| Message::Output {
        call: "c1".into(),
        output: Arc::new(Output { images: images.to_vec(), ..Output::error(text) }),
    };
    check_items(
        output("no such file", &[]),
        r#"{"type":"function_call_output","call_id":"c1","output":"no such file"}"#,
    );
    let seen = output("a picture", std::slice::from_ref(&image));
    let start = concat!(
        r#"{"type":"function_call_output","call_id":"c1","output":["#,
        r#"{"type":"input_text","text":"a picture"},"#,
    );
    check_items(
        seen.clone(),
        &format!(
            r#"{start}{{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,AAAA"}}]}}"#
        ),
    );
    let unseen = r#"{"type":"input_text","text":"[There is an image here. You cannot see it.]"}]}"#;
    let blind = Options { takes_images: false, ..options() };
    check_items_with(blind, seen, &format!("{start}{unseen}"));
}

#[test]
fn images_of_a_prompt_stand_where_the_user_has_put_them() {
    let image = Image { kind: ImageKind::Png, base64: "AAAA".into() };
    let prompt = Prompt::joined(["see".into(), image.into(), "well".into()]);
    let item = |image: &str| {
        format!(
            r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":"see"}},{image},{{"type":"input_text","text":"well"}}]}}"#
        )
    };
    let seen = r#"{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,AAAA"}"#;
    check_items(Message::User(prompt.clone()), &item(seen));
    let unseen = r#"{"type":"input_text","text":"[There is an image here. You cannot see it.]"}"#;
    let blind = Options { takes_images: false, ..options() };
    check_items_with(blind, Message::User(prompt), &item(unseen));
}
