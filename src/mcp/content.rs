//! What a server answers a call with, as a model reads it.
//!
//! Text comes as it is; an image that models take comes as one; of all else it
//! is said what it is. Nothing here bounds the text: the loop does that with
//! every output.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::message::{IMAGE_CAP, Image, ImageKind, Output, byte_size};

/// Most blocks of one answer that are looked at.
const BLOCKS_CAP: usize = 1_000;

/// Most characters of a name or an address in a note about a block.
const WORD_CAP: usize = 300;

/// Returns the output for the result of a call.
#[must_use]
pub fn output(result: &Value, takes_images: bool) -> Output {
    let Some(fields) = result.as_object() else {
        return Output::error("The server answered with something that is no result.");
    };
    let is_error = fields.get("isError").and_then(Value::as_bool).unwrap_or(false);
    let mut parts = Parts { takes_images, ..Parts::default() };
    let blocks = fields.get("content").and_then(Value::as_array);
    for block in blocks.into_iter().flatten().take(BLOCKS_CAP) {
        parts.take(block);
    }
    let left = blocks.map_or(0, Vec::len).saturating_sub(BLOCKS_CAP);
    if left > 0 {
        parts.note(format!("{left} more blocks are left out"));
    }
    // A server that gives both means the same by them.
    if let Some(structured) = fields.get("structuredContent")
        && !structured.is_null()
        && !parts.has_text
    {
        parts.texts.push(structured.to_string());
    }
    let text = match parts.texts.join("\n") {
        empty if empty.is_empty() && parts.images.is_empty() => {
            "(the server answered with nothing)".to_owned()
        }
        text => text,
    };
    Output { text, is_error, images: parts.images }
}

/// Returns the text of a resource that was read.
///
/// # Errors
///
/// If there is no text in it, in words.
pub fn resource(result: &Value) -> Result<String, String> {
    let contents = result.get("contents").and_then(Value::as_array);
    let contents = contents.ok_or("the server answered with no contents")?;
    let texts: Vec<&str> = contents.iter().filter_map(|it| text(it, "text")).collect();
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
    let mut parts = Parts::default();
    for message in messages.iter().take(BLOCKS_CAP) {
        let Some(content) = message.get("content") else { continue };
        if text(message, "role") == Some("assistant") {
            parts.texts.push("(as you would answer:)".to_owned());
        }
        parts.take(content);
    }
    match parts.texts.join("\n\n") {
        empty if empty.trim().is_empty() => Err("the prompt is empty".to_owned()),
        text => Ok(text),
    }
}

#[derive(Default)]
struct Parts {
    takes_images: bool,
    texts: Vec<String>,
    images: Vec<Image>,
    has_text: bool,
}

impl Parts {
    fn take(&mut self, block: &Value) {
        match text(block, "type") {
            Some("text") => {
                self.has_text = true;
                self.texts
                    .push(block.get("text").and_then(Value::as_str).unwrap_or_default().into());
            }
            Some("image") => match self.image(block) {
                Ok(image) => self.images.push(image),
                Err(why) => self.note(format!("an image is left out: {why}")),
            },
            Some("audio") => {
                let kind = word(text(block, "mimeType").unwrap_or("audio"));
                self.note(format!("{kind} of {} is left out", size(block, "data")));
            }
            Some("resource") => self.resource(block.get("resource").unwrap_or(&Value::Null)),
            Some("resource_link") => {
                let uri = word(text(block, "uri").unwrap_or_default());
                let name = word(text(block, "name").unwrap_or_default());
                let about = text(block, "description").map(|it| format!(": {}", word(it)));
                self.note(format!("resource {uri} `{name}`{}", about.unwrap_or_default()));
            }
            Some(other) => self.note(format!("a block `{}` is left out", word(other))),
            None => self.note("a block without a type is left out".to_owned()),
        }
    }

    fn note(&mut self, note: String) {
        self.texts.push(format!("[{note}]"));
    }

    fn image(&self, block: &Value) -> Result<Image, String> {
        if !self.takes_images {
            return Err("this model sees none".to_owned());
        }
        let data = text(block, "data").ok_or("it has no data")?;
        let bytes = STANDARD.decode(data.trim()).map_err(|_| "its data is no base64")?;
        if bytes.len() > IMAGE_CAP {
            return Err(format!("it is larger than {}", byte_size(IMAGE_CAP as u64)));
        }
        let kind = ImageKind::of(&bytes).ok_or("it is neither PNG, JPEG, WebP nor GIF")?;
        Ok(Image::new(kind, &bytes))
    }

    fn resource(&mut self, resource: &Value) {
        let uri = word(text(resource, "uri").unwrap_or_default());
        match resource.get("text").and_then(Value::as_str) {
            Some(all) => {
                self.has_text = true;
                self.texts.push(format!("[resource {uri}]\n{all}"));
            }
            None => {
                let kind = word(text(resource, "mimeType").unwrap_or("binary"));
                self.note(format!("resource {uri}, {kind} of {}", size(resource, "blob")));
            }
        }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn word(text: &str) -> String {
    text.chars().take(WORD_CAP).collect()
}

/// The size of base64, as bytes.
fn size(value: &Value, key: &str) -> String {
    let digits = text(value, key).unwrap_or_default().trim_end_matches('=').len() as u64;
    byte_size(digits * 3 / 4)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
             bytes]\n[resource a://3 `three`: third]\n[a block `dance` is left out]\n[a block without a \
             type is left out]",
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
        assert_eq!(blind.text, "[an image is left out: this model sees none]");
        check(&image("!"), "[an image is left out: its data is no base64]");
        check(&image("AAAA"), "[an image is left out: it is neither PNG, JPEG, WebP nor GIF]");
        check(&json!({"content": [{"type": "image"}]}), "[an image is left out: it has no data]");
    }

    #[test]
    fn structured_content_stands_where_there_is_no_text() {
        let structured = json!({"a": 1});
        check(&json!({"structuredContent": structured}), "{\"a\":1}");
        let both =
            json!({"structuredContent": structured, "content": [{"type": "text", "text": "t"}]});
        check(&both, "t");
    }

    #[test]
    fn an_answer_that_lies_is_an_error_or_nothing() {
        assert!(output(&json!("yes"), true).is_error);
        check(&json!({}), "(the server answered with nothing)");
        check(&json!({"content": "text"}), "(the server answered with nothing)");
        let failed = json!({"isError": true, "content": [{"type": "text", "text": "no"}]});
        assert_eq!(output(&failed, true), Output::error("no"));
    }

    #[test]
    fn prompts_and_resources_are_texts_or_say_why_not() {
        let message = |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
        let messages = json!({"messages": [message("user", "go"), message("assistant", "yes")]});
        assert_eq!(prompt(&messages).as_deref(), Ok("go\n\n(as you would answer:)\n\nyes"));
        assert!(prompt(&json!({"messages": []})).is_err());
        let contents = json!({"contents": [{"text": "a"}, {"text": "b"}]});
        assert_eq!(resource(&contents).as_deref(), Ok("a\nb"));
        let blob = json!({"contents": [{"blob": "AA", "mimeType": "x/y"}]});
        assert_eq!(resource(&blob), Err("it is x/y, not text".to_owned()));
        assert!(resource(&json!({})).is_err());
    }
}
