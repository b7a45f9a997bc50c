//! The blocks of a result.

use serde_json::Value;

use super::BLOCKS_CAP;
use super::picture::{self, Picture};
use crate::message::{Image, byte_size};

/// Maximum characters of a name or an address in a note about a block.
const WORD_CAP: usize = 300;

/// Maximum characters of JSON that a note quotes.
const JSON_CAP: usize = 2_000;

/// The texts and images of a result so far.
#[derive(Default)]
pub(super) struct ResultParts {
    pub(super) takes_images: bool,
    pub(super) texts: Vec<String>,
    pub(super) images: Vec<Image>,
}

impl ResultParts {
    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.images.is_empty()
    }

    pub(super) fn push_text(&mut self, text: String) {
        self.texts.push(text);
    }

    pub(super) fn push_note(&mut self, note: &str) {
        self.texts.push(format!("[{note}]"));
    }

    /// Adds the content of a result: an array of blocks, or what some servers send instead.
    pub(super) fn take_content(&mut self, content: &Value) {
        match content {
            Value::Array(blocks) => self.take_all(blocks),
            Value::Null => {}
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                self.take(content);
            }
        }
    }

    pub(super) fn take_all(&mut self, blocks: &[Value]) {
        blocks.iter().take(BLOCKS_CAP).for_each(|block| self.take(block));
        if let Some(left) = blocks.len().checked_sub(BLOCKS_CAP).filter(|left| *left > 0) {
            self.push_note(&format!("{left} more blocks are left out"));
        }
    }

    fn take(&mut self, block: &Value) {
        let block = match block {
            Value::Object(_) => block,
            Value::String(text) => return self.push_text(text.clone()),
            Value::Array(blocks) if blocks.iter().any(|block| text(block, "type").is_some()) => {
                return self.take_all(blocks);
            }
            Value::Null => return,
            Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                return self.push_text(block.to_string());
            }
        };
        match text(block, "type") {
            Some("text") => match block.get("text") {
                Some(Value::String(text)) => self.push_text(text.clone()),
                Some(Value::Null) | None => {
                    self.push_note(&format!(
                        "a block of text without `text`: {}",
                        json_start(block)
                    ));
                }
                Some(other) => self.push_text(other.to_string()),
            },
            Some("image" | "image_url") => self.image(block),
            Some("audio") => {
                let kind = word(text(block, "mimeType").unwrap_or("audio"));
                self.push_note(&format!("{kind} of {} is left out", size(block, "data")));
            }
            Some("resource") => self.resource(block.get("resource").unwrap_or(block)),
            Some("resource_link" | "resourceLink") => self.link(block),
            Some(other) => {
                let (other, start) = (word(other), json_start(block));
                self.push_note(&format!("a block of the unknown type `{other}`: {start}"));
            }
            None => match block.get("text") {
                Some(Value::String(text)) => self.push_text(text.clone()),
                Some(_) | None if block.get("data").is_some_and(Value::is_string) => {
                    self.image(block);
                }
                Some(_) | None => self.push_text(json_start(block)),
            },
        }
    }

    fn image(&mut self, block: &Value) {
        if !self.takes_images {
            return self.push_note("an image is left out: this model does not accept images");
        }
        match picture::read_image(block) {
            Ok(Picture::Image(image)) => self.images.push(image),
            Ok(Picture::Drawing(text)) => self.push_text(text),
            Err(why) => self.push_note(&format!("an image is left out: {why}")),
        }
    }

    fn link(&mut self, block: &Value) {
        let uri = word(text(block, "uri").unwrap_or_default());
        let name = word(text(block, "name").unwrap_or_default());
        let about = text(block, "description").map(|it| format!(": {}", word(it)));
        self.push_note(&format!("resource {uri} `{name}`{}", about.unwrap_or_default()));
    }

    fn resource(&mut self, resource: &Value) {
        let uri = word(text(resource, "uri").unwrap_or_default());
        if let Some(all) = resource_text(resource) {
            return self.push_text(format!("[resource {uri}]\n{all}"));
        }
        let kind = text(resource, "mimeType").unwrap_or("binary");
        if kind.starts_with("image/") && self.takes_images {
            self.push_note(&format!("resource {uri}"));
            return self.image(resource);
        }
        let kind = word(kind);
        self.push_note(&format!("resource {uri}, {kind} of {}", size(resource, "blob")));
    }
}

/// Returns the text of a resource, decoded if the server sends it as base64.
pub(super) fn resource_text(resource: &Value) -> Option<String> {
    match resource.get("text") {
        Some(Value::String(text)) => return Some(text.clone()),
        Some(Value::Null) | None => {}
        Some(other) => return Some(other.to_string()),
    }
    if let Value::String(text) = resource {
        return Some(text.clone());
    }
    let kind = text(resource, "mimeType").unwrap_or_default();
    let is_text = kind.starts_with("text/")
        || ["json", "xml", "yaml", "javascript"].iter().any(|word| kind.contains(word));
    let bytes = picture::decode(text(resource, "blob").filter(|_| is_text)?)?;
    String::from_utf8(bytes).ok()
}

/// Returns a text that is not empty.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Returns the beginning of a JSON value.
pub(super) fn json_start(value: &Value) -> String {
    let json = value.to_string();
    match json.char_indices().nth(JSON_CAP) {
        Some((end, _)) => format!("{}…", &json[..end]),
        None => json,
    }
}

fn word(text: &str) -> String {
    text.chars().take(WORD_CAP).collect()
}

/// The size of base64, as bytes.
fn size(value: &Value, key: &str) -> String {
    let digits = text(value, key).unwrap_or_default().trim_end_matches('=').len() as u64;
    byte_size(digits * 3 / 4)
}
