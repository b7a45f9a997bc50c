//! What a server answers a call with, as a model reads it.
//!
//! Text and images are passed on; any other block is described, with its beginning. A result that
//! does not have the protocol's form is passed on as far as it can be interpreted, so no answer of
//! a server reads as an empty one. Nothing here bounds the text: the loop does that with every
//! output.

mod parts;
mod picture;
mod structured;

use serde_json::{Map, Value};

use crate::message::Output;
use parts::{ResultParts, json_start, text};

/// Most blocks of one answer that are looked at.
const BLOCKS_CAP: usize = 1_000;

/// Keys of a result that say nothing to a model.
const SILENT_KEYS: [&str; 7] =
    ["_meta", "content", "isError", "is_error", "resultType", "structuredContent", "toolResult"];

/// Returns the output for the result of a call.
#[must_use]
pub fn output(result: &Value, takes_images: bool) -> Output {
    let mut parts = ResultParts { takes_images, ..ResultParts::default() };
    let mut is_error = false;
    match result {
        Value::Object(fields) => {
            let flag = fields.get("isError").or_else(|| fields.get("is_error"));
            is_error = flag.is_some_and(is_true);
            take_fields(fields, &mut parts);
        }
        Value::Null => {}
        Value::String(text) => parts.push_text(text.clone()),
        Value::Array(blocks) if blocks.iter().any(|block| text(block, "type").is_some()) => {
            parts.take_all(blocks);
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => parts.push_text(result.to_string()),
    }
    let ResultParts { texts, images, .. } = parts;
    let text = match texts.join("\n") {
        empty if empty.is_empty() && images.is_empty() => match is_error {
            true => "(the server reports an error without a message)".to_owned(),
            false => "(the server answered with nothing)".to_owned(),
        },
        text => text,
    };
    Output { text, is_error, images }
}

/// Takes the parts of a result that is an object.
fn take_fields(fields: &Map<String, Value>, parts: &mut ResultParts) {
    if let Some(content) = fields.get("content") {
        parts.take_content(content);
    }
    // The protocol of 2024-10-07.
    if let Some(old) = fields.get("toolResult").filter(|old| !old.is_null()) {
        parts.push_text(old.as_str().map_or_else(|| old.to_string(), str::to_owned));
    }
    if let Some(structured) = fields.get("structuredContent").filter(|it| !it.is_null())
        && !structured::is_contained(structured, &parts.texts)
    {
        parts.push_text(structured.to_string());
    }
    let rest = fields.iter().filter(|(key, _)| !SILENT_KEYS.contains(&key.as_str()));
    let rest: Map<String, Value> = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
    if parts.is_empty() && !rest.is_empty() {
        let start = json_start(&Value::Object(rest));
        parts.push_note(&format!("the result does not have the protocol's form: {start}"));
    }
}

/// Returns whether a flag is set, in whatever type a server writes it.
fn is_true(flag: &Value) -> bool {
    match flag {
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => text.trim().eq_ignore_ascii_case("true") || text.trim() == "1",
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Returns the text of a resource that was read.
///
/// # Errors
///
/// If there is no text in it, in words.
pub fn resource(result: &Value) -> Result<String, String> {
    let one;
    let contents: &[Value] = match result.get("contents").or_else(|| result.get("content")) {
        Some(Value::Array(contents)) => contents,
        Some(other) if !other.is_null() => {
            one = [other.clone()];
            &one
        }
        Some(_) | None => return Err("the server answered with no contents".to_owned()),
    };
    let texts: Vec<String> = contents.iter().filter_map(parts::resource_text).collect();
    match (texts.is_empty(), contents.first()) {
        (false, _) => Ok(texts.join("\n")),
        (true, Some(first)) => {
            Err(format!("it is {}, not text", text(first, "mimeType").map_or("binary", |it| it)))
        }
        (true, None) => Err("it is empty".to_owned()),
    }
}

/// Returns what a prompt of a server says, as one message.
///
/// # Errors
///
/// If it says nothing.
pub fn prompt(result: &Value) -> Result<String, String> {
    let messages = result.get("messages").and_then(Value::as_array);
    let messages = messages.ok_or("the server answered with no messages")?;
    let mut parts = ResultParts::default();
    for message in messages.iter().take(BLOCKS_CAP) {
        let content = message.get("content").unwrap_or(message);
        if text(message, "role") == Some("assistant") {
            parts.texts.push("(as you would answer:)".to_owned());
        }
        parts.take_content(content);
    }
    match parts.texts.join("\n\n") {
        empty if empty.trim().is_empty() => Err("the prompt is empty".to_owned()),
        text => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use serde_json::json;

    use super::*;
    use crate::message::ImageKind;

    /// A PNG of one pixel.
    const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    #[track_caller]
    fn check(result: &Value, expected: &str) {
        assert_eq!(output(result, true).text, expected);
    }

    #[test]
    fn every_kind_of_block_is_read_or_said_to_be_left_out() {
        let result = json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "a://1", "text": "two"}},
            {"type": "resource", "resource": {"uri": "a://2", "blob": "AAAA", "mimeType": "x/y"}},
            {"type": "resource_link", "uri": "a://3", "name": "three", "description": "third"},
            {"type": "dance"},
            7,
        ]});
        check(
            &result,
            "one\n[audio/wav of 3 bytes is left out]\n[resource a://1]\ntwo\n[resource a://2, x/y of 3 \
             bytes]\n[resource a://3 `three`: third]\n[a block of the unknown type `dance`: \
             {\"type\":\"dance\"}]\n7",
        );
    }

    #[test]
    fn an_image_is_one_if_it_is_one_and_the_model_sees_any() {
        let image =
            |data: &str| json!({"content": [{"type": "image", "data": data, "mimeType": "?"}]});
        let seen = output(&image(PIXEL), true);
        assert_eq!((seen.text.as_str(), seen.images.len()), ("", 1));
        assert_eq!(seen.images[0].kind, ImageKind::Png);
        let blind = output(&image(PIXEL), false);
        assert_eq!(blind.text, "[an image is left out: this model does not accept images]");
        check(&image("!"), "[an image is left out: its data is not base64]");
        check(&image("AAAA"), "[an image is left out: it is neither PNG, JPEG, WebP nor GIF]");
        check(&json!({"content": [{"type": "image"}]}), "[an image is left out: it has no data]");
    }

    #[test]
    fn structured_content_is_given_where_the_text_does_not_hold_it() {
        let structured = json!({"a": 1});
        check(&json!({"structuredContent": structured}), "{\"a\":1}");
        let both =
            json!({"structuredContent": structured, "content": [{"type": "text", "text": "t"}]});
        check(&both, "t\n{\"a\":1}");
    }

    #[test]
    fn an_answer_of_another_form_is_given_as_far_as_it_can_be_understood() {
        check(&json!({}), "(the server answered with nothing)");
        check(&json!({"content": "text"}), "text");
        check(&json!({"content": null}), "(the server answered with nothing)");
        check(&json!({"content": {"type": "text", "text": "one"}}), "one");
        check(&json!({"content": {"a": 1}}), "{\"a\":1}");
        check(&json!({"content": 7}), "7");
        check(
            &json!({"content": ["one", 2, null, {"text": "three"}, {"b": 4}]}),
            "one\n2\nthree\n{\"b\":4}",
        );
        check(&json!({"content": [[{"type": "text", "text": "nested"}]]}), "nested");
        let block = |text: Value| json!({"content": [{"type": "text", "text": text}]});
        check(&block(json!(42)), "42");
        check(&block(json!({"a": 1})), "{\"a\":1}");
        check(
            &block(json!(null)),
            "[a block of text without `text`: {\"type\":\"text\",\"text\":null}]",
        );
        check(
            &json!({"content": [{"type": "text", "value": "x"}]}),
            "[a block of text without `text`: {\"type\":\"text\",\"value\":\"x\"}]",
        );
        check(&json!({"toolResult": "old"}), "old");
        check(&json!({"toolResult": {"a": 1}}), "{\"a\":1}");
        check(
            &json!({"output": "x", "_meta": {}}),
            "[the result does not have the protocol's form: {\"output\":\"x\"}]",
        );
        check(&json!("yes"), "yes");
        check(&json!(7), "7");
        check(&json!(null), "(the server answered with nothing)");
        check(&json!([{"type": "text", "text": "bare"}]), "bare");
        check(&json!([1, 2]), "[1,2]");
        let long = "x".repeat(10_000);
        assert!(
            output(&json!({"content": [{"type": "odd", "data": long}]}), true).text.len() < 3_000
        );
    }

    #[test]
    fn an_error_is_told_as_one_in_whatever_type_the_flag_is() {
        for flag in [json!(true), json!("true"), json!("TRUE"), json!(1), json!("1")] {
            let failed = json!({"isError": flag, "content": [{"type": "text", "text": "no"}]});
            assert_eq!(output(&failed, true), Output::error("no"), "{flag}");
        }
        for flag in [json!(false), json!("false"), json!(0), json!(null), json!("")] {
            let fine = json!({"isError": flag, "content": [{"type": "text", "text": "yes"}]});
            assert_eq!(output(&fine, true), Output::ok("yes"), "{flag}");
        }
        let silent = "(the server reports an error without a message)";
        for content in [json!([]), json!(null), json!("")] {
            let failed = json!({"isError": true, "content": content});
            assert!(output(&failed, true).is_error);
        }
        assert_eq!(output(&json!({"isError": true, "content": []}), true), Output::error(silent));
    }

    #[test]
    fn structured_content_is_given_where_the_text_holds_only_a_part_of_it() {
        let both = |text: &str, structured: &Value| {
            let result = json!({"content": [{"type": "text", "text": text}], "structuredContent": structured});
            output(&result, true).text
        };
        let items = json!({"items": [{"id": 7, "name": "a \"b\""}, {"id": 9}], "more": false});
        let pretty = serde_json::to_string_pretty(&items).unwrap();
        for text in [
            items.to_string(),
            pretty.clone(),
            format!("Here it is:\n{items}"),
            format!("{{a}} {{\"b\":1}}:\n```json\n{pretty}\n```\n2 items"),
        ] {
            assert_eq!(both(&text, &items), text, "held");
        }
        for text in ["2 items", "7: a \"b\", 9 (more: false)", "7: a \"b\", 9", "{", ""] {
            assert_eq!(both(text, &items), format!("{text}\n{items}"), "not held");
        }
        // The same values say something else without their keys.
        for (text, structured) in [
            ("Done in 3 s, true", json!({"errors": 3, "ok": true})),
            ("1.3", json!({"errors": 3})),
            ("-5", json!({"result": 5})),
            ("no errors", json!({"errors": "no"})),
            ("{\"seen\":3}", json!({"errors": 3})),
            ("none", json!({"items": []})),
            ("[1,2,3]", json!({"result": [1, 2]})),
        ] {
            assert_eq!(both(text, &structured), format!("{text}\n{structured}"), "not held");
        }
        for (text, structured) in [
            ("3", json!({"result": 3})),
            ("a word", json!({"result": "a word"})),
            ("a word\n", json!({"content": "a word\n"})),
            ("[1, 2]", json!({"result": [1, 2]})),
            ("a", json!({"result": ["a"]})),
        ] {
            assert_eq!(both(text, &structured), text, "held");
        }
        let each = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "{\"b\":1}"}]);
        let result = json!({"content": each, "structuredContent": {"result": ["a", {"b": 1}]}});
        check(&result, "a\n{\"b\":1}");
        assert_eq!(both("none", &json!(null)), "none");
        assert_eq!(both("none", &json!({})), "none");
        let many = json!((0..5_000).collect::<Vec<_>>());
        assert_eq!(both(&many.to_string(), &many), many.to_string());
        assert_eq!(both("0 to 4999", &many), format!("0 to 4999\n{many}"));
    }

    #[test]
    fn images_are_read_in_whatever_way_their_base64_is_written() {
        let lines =
            PIXEL.as_bytes().chunks(20).map(|line| String::from_utf8_lossy(line).into_owned());
        let lines: Vec<String> = lines.collect();
        let written = [
            PIXEL.to_owned(),
            lines.join("\n"),
            lines.join("\r\n") + "\n",
            lines.join(" "),
            lines.join("\\n"),
            format!("data:image/png;base64,{PIXEL}"),
            format!("DATA:image/jpeg;charset=utf-8;base64, {}", lines.join("\n")),
            format!(
                "data:;base64,{}",
                PIXEL.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
            ),
            PIXEL.replace('+', "-").replace('/', "_"),
            PIXEL.trim_end_matches('=').to_owned(),
            PIXEL.replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned(),
        ];
        let blocks = written.iter().flat_map(|data| {
            [
                json!({"type": "image", "data": data, "mimeType": "image/png"}),
                json!({"type": "image", "data": data}),
                json!({"data": data, "mimeType": "image/jpeg"}),
                json!({"type": "image", "source": {"type": "base64", "media_type": "x", "data": data}}),
                json!({"type": "image_url", "image_url": {"url": data}}),
                json!({"type": "resource", "resource": {"uri": "a://1", "mimeType": "image/png", "blob": data}}),
            ]
        });
        for block in blocks {
            let seen = output(&json!({"content": [block]}), true);
            assert_eq!(seen.images.len(), 1, "{block}: {}", seen.text);
            assert_eq!((seen.images[0].kind, &*seen.images[0].base64), (ImageKind::Png, PIXEL));
        }
        let drawing = base64::engine::general_purpose::STANDARD.encode("<svg/>");
        check(
            &json!({"content": [{"type": "image", "data": drawing, "mimeType": "image/svg+xml"}]}),
            "<svg/>",
        );
        let address = json!({"content": [{"type": "image", "url": "https://example.com/a.png"}]});
        check(&address, "[an image is left out: it is a URL, not image data]");
    }

    #[test]
    fn resources_in_bytes_that_are_text_are_read_as_text() {
        let text = base64::engine::general_purpose::STANDARD.encode("grün");
        for kind in ["text/plain", "application/json", "image/svg+xml"] {
            let resource = json!({"uri": "a://1", "mimeType": kind, "blob": text});
            check(
                &json!({"content": [{"type": "resource", "resource": resource}]}),
                "[resource a://1]\ngrün",
            );
            assert_eq!(super::resource(&json!({"contents": [resource]})).as_deref(), Ok("grün"));
            assert_eq!(super::resource(&json!({"contents": resource})).as_deref(), Ok("grün"));
        }
        let flat = json!({"content": [{"type": "resource", "uri": "a://1", "text": "flat"}]});
        check(&flat, "[resource a://1]\nflat");
        assert_eq!(super::resource(&json!({"contents": "bare"})).as_deref(), Ok("bare"));
    }

    #[test]
    fn prompts_and_resources_are_texts_or_say_why_not() {
        let message = |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
        let messages = json!({"messages": [message("user", "go"), message("assistant", "yes")]});
        assert_eq!(prompt(&messages).as_deref(), Ok("go\n\n(as you would answer:)\n\nyes"));
        assert!(prompt(&json!({"messages": []})).is_err());
        let bare = json!({"messages": [{"role": "user", "content": "go"}, {"content": [{"type": "text", "text": "on"}]}]});
        assert_eq!(prompt(&bare).as_deref(), Ok("go\n\non"));
        let contents = json!({"contents": [{"text": "a"}, {"text": "b"}]});
        assert_eq!(resource(&contents).as_deref(), Ok("a\nb"));
        let blob = json!({"contents": [{"blob": "AA", "mimeType": "x/y"}]});
        assert_eq!(resource(&blob), Err("it is x/y, not text".to_owned()));
        assert!(resource(&json!({})).is_err());
    }
}
