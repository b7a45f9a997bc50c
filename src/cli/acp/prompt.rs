//! What an editor sends as a prompt, as the text that a model reads.
//!
//! Files that it only names are named to the model, which can read them; those
//! that it sends along stand below the prompt, as attached files do. So what a
//! person has not saved yet is read as they see it.

use agent_client_protocol::v1::schema::{ContentBlock, EmbeddedResourceResource};

use crate::prompt;

/// Returns the prompt; the error says what of it cannot be read.
pub(super) fn text(blocks: &[ContentBlock]) -> Result<String, String> {
    let mut text = String::new();
    let mut files = Vec::new();
    for block in blocks {
        match block {
            ContentBlock::Text(part) => text.push_str(&part.text),
            ContentBlock::ResourceLink(link) => text.push_str(&mention(&link.uri)),
            ContentBlock::Resource(resource) => match &resource.resource {
                EmbeddedResourceResource::TextResourceContents(contents) => {
                    text.push_str(&mention(&contents.uri));
                    files.push(prompt::brought_along(&place(&contents.uri), &contents.text));
                }
                EmbeddedResourceResource::BlobResourceContents(contents) => {
                    return Err(format!("`{}` is no text, and only text is taken", contents.uri));
                }
                _ => return Err("a resource of this kind is not taken".to_owned()),
            },
            ContentBlock::Image(_) => return Err("images are not taken in a prompt".to_owned()),
            ContentBlock::Audio(_) => return Err("audio is not taken in a prompt".to_owned()),
            _ => return Err("content of this kind is not taken in a prompt".to_owned()),
        }
    }
    if text.trim().is_empty() {
        return Err("the prompt is empty".to_owned());
    }
    for file in files {
        text.push_str("\n\n");
        text.push_str(&file);
    }
    Ok(text)
}

fn mention(uri: &str) -> String {
    format!("`{}`", place(uri))
}

/// Returns the path that a URI names, or the URI if it names none.
fn place(uri: &str) -> String {
    match uri.strip_prefix("file://") {
        Some(path) if path.starts_with('/') => decoded(path),
        Some(_) | None => uri.to_owned(),
    }
}

/// Returns a path of a URI as the file system has it.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(blocks: Value, expected: Result<&str, &str>) {
        let blocks: Vec<ContentBlock> = serde_json::from_value(blocks).unwrap();
        assert_eq!(text(&blocks), expected.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn what_is_named_stands_where_it_was_named_and_what_is_sent_along_stands_below() {
        check(
            json!([
                { "type": "text", "text": "compare " },
                { "type": "resource_link", "name": "a", "uri": "file:///w/a%20b.rs#L3" },
                { "type": "text", "text": " with " },
                { "type": "resource", "resource": { "uri": "file:///w/c.rs", "text": "fn c() {}\n" } },
                { "type": "text", "text": ", see " },
                { "type": "resource_link", "name": "d", "uri": "https://example.org/d%20" },
            ]),
            Ok("compare `/w/a b.rs#L3` with `/w/c.rs`, see `https://example.org/d%20`\n\n\
                <file path=\"/w/c.rs\">\nfn c() {}\n</file>"),
        );
    }

    #[test]
    fn what_no_model_would_read_is_an_error_that_says_so() {
        let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
        check(json!([image]), Err("images are not taken in a prompt"));
        let blob = json!({ "uri": "file:///x.bin", "blob": "AA==" });
        check(
            json!([{ "type": "resource", "resource": blob }]),
            Err("`file:///x.bin` is no text, and only text is taken"),
        );
        check(json!([{ "type": "text", "text": " \n" }]), Err("the prompt is empty"));
        check(json!([]), Err("the prompt is empty"));
    }
}
