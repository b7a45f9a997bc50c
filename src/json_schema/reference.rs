//! Where a `$ref` leads: to a place in the same document, by a JSON Pointer, by
//! the name of an anchor or by the `$id` of a part.

use std::collections::HashMap;

use serde_json::Value;

use super::PLACE_LENGTH_CAP;

/// The places of a document that can be named.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Where each `$id` stands, as it is written.
    ids: HashMap<String, String>,
    /// The parts with an `$id` of their own, by their pointers.
    parts: Vec<String>,
    /// The anchors of each part: by the part's pointer and the anchor's name.
    anchors: HashMap<(String, String), String>,
}

impl Places {
    /// Finds all there are.
    pub(super) fn of(root: &Value) -> Self {
        let mut places = Self::default();
        let mut named = Vec::new();
        let mut open = vec![(String::new(), root)];
        while let Some((pointer, value)) = open.pop() {
            match value {
                Value::Object(fields) => {
                    for (name, value) in fields {
                        if let Value::String(text) = value {
                            places.note(name, text, &pointer, &mut named);
                        } else if pointer.len() + name.len() < PLACE_LENGTH_CAP {
                            open.push((below(&pointer, name), value));
                        }
                    }
                }
                Value::Array(items) if pointer.len() < PLACE_LENGTH_CAP => {
                    let items = items.iter().enumerate();
                    open.extend(items.map(|(at, item)| (below(&pointer, &at.to_string()), item)));
                }
                Value::Array(_)
                | Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_) => {}
            }
        }
        for (anchor, pointer) in named {
            let part = places.part_of(&pointer).to_owned();
            places.anchors.insert((part, anchor), pointer);
        }
        places
    }

    fn note(
        &mut self,
        keyword: &str,
        text: &str,
        pointer: &str,
        named: &mut Vec<(String, String)>,
    ) {
        match (keyword, text.strip_prefix('#')) {
            ("$anchor" | "$dynamicAnchor", None) => {
                named.push((text.to_owned(), pointer.to_owned()));
            }
            // As draft 7 writes an anchor.
            ("$id", Some(anchor)) => named.push((anchor.to_owned(), pointer.to_owned())),
            ("$id", None) => {
                let id = text.strip_suffix('#').unwrap_or(text);
                self.ids.insert(id.to_owned(), pointer.to_owned());
                self.parts.push(pointer.to_owned());
            }
            _ => {}
        }
    }

    /// Returns the part with an `$id` of its own that a place is in; the whole
    /// document is one.
    fn part_of(&self, pointer: &str) -> &str {
        let holds = |part: &&String| {
            pointer
                .strip_prefix(part.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.parts.iter().filter(holds).max_by_key(|part| part.len()).map_or("", String::as_str)
    }

    /// Returns the pointer that a reference stands for, which is written at
    /// `pointer`. The error is the reason why there is none.
    pub(super) fn resolve(&self, reference: &str, pointer: &str) -> Result<String, String> {
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let part = match document {
            "" => self.part_of(pointer),
            id => self.ids.get(id).map(String::as_str).ok_or_else(|| {
                format!("`{reference}` leads out of the schema, and nothing is fetched")
            })?,
        };
        let fragment = decoded(fragment).ok_or_else(|| format!("`{reference}` is no reference"))?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return Ok(format!("{part}{fragment}"));
        }
        let anchor = self.anchors.get(&(part.to_owned(), fragment));
        anchor.cloned().ok_or_else(|| format!("`{reference}` names no anchor of the schema"))
    }
}

/// Returns the pointer to what a place holds by this name.
pub(super) fn below(pointer: &str, name: &str) -> String {
    let name = name.replace('~', "~0").replace('/', "~1");
    format!("{pointer}/{name}")
}

/// Replaces `%41` by `A`; `None` if that gives no text.
fn decoded(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}
