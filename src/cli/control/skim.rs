//! What can be told of a line that is too long to be read: what it is and whom
//! it concerns, so that whoever waits for an answer to it gets one.
//!
//! The bytes pass by and only a few values are kept. A line that is not valid JSON
//! tells nothing that harms: it is left out either way.

use std::mem;

/// Most bytes that are kept of a value: as many as a request's name may have.
const VALUE_CAP: usize = super::incoming::ID_CAP;

/// What is known of a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::cli) struct Skimmed {
    /// Its `type`.
    pub(super) kind: Option<String>,
    /// What the client calls it.
    pub(super) uuid: Option<String>,
    /// The name of the request that it is.
    pub(super) request: Option<String>,
    /// The name of the request that it answers.
    pub(super) answered: Option<String>,
    /// Whether it is a message that is not to be answered.
    pub(super) is_note: bool,
}

/// Reads a line as it passes by.
#[derive(Debug, Default)]
pub(super) struct Skim {
    known: Skimmed,
    /// How many objects and lists are open.
    depth: usize,
    /// The key that was read last in the outermost object, and in one below it.
    keys: [Vec<u8>; 2],
    /// Whether a key was read, and its value comes or has come.
    has_key: bool,
    is_in_text: bool,
    is_escaped: bool,
    /// The text or the word that was read last, up to its cap.
    kept: Vec<u8>,
    is_cut: bool,
}

impl Skim {
    /// Takes the next bytes of the line.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.byte(*byte));
    }

    /// Returns what is known at the end of the line.
    pub(super) fn end(self) -> Skimmed {
        self.known
    }

    fn byte(&mut self, byte: u8) {
        if self.is_in_text {
            let is_over = byte == b'"' && !self.is_escaped;
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            self.is_in_text = !is_over;
            if !is_over {
                self.keep(byte);
            }
            return;
        }
        match byte {
            b'"' => {
                self.forget();
                self.is_in_text = true;
            }
            b':' => {
                let key = mem::take(&mut self.kept);
                if let Some(place) = self.depth.checked_sub(1).and_then(|it| self.keys.get_mut(it))
                {
                    *place = key;
                }
                self.has_key = true;
                self.forget();
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.has_key = false;
                self.forget();
            }
            b',' | b'}' | b']' => {
                self.note();
                self.depth -= usize::from(byte != b',').min(self.depth);
                self.has_key = false;
                self.forget();
            }
            byte if byte.is_ascii_whitespace() => {}
            byte => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        match self.kept.len() < VALUE_CAP {
            true => self.kept.push(byte),
            false => self.is_cut = true,
        }
    }

    fn forget(&mut self) {
        self.kept.clear();
        self.is_cut = false;
    }

    /// Takes note of a value that has been read.
    fn note(&mut self) {
        if !self.has_key || self.is_cut {
            return;
        }
        let value = || {
            let text = String::from_utf8_lossy(&self.kept);
            serde_json::from_str::<String>(&format!("\"{text}\"")).ok()
        };
        match (self.depth, &*self.keys[0], &*self.keys[1]) {
            (1, b"type", _) => self.known.kind = value(),
            (1, b"uuid", _) => self.known.uuid = value(),
            (1, b"request_id", _) => self.known.request = value(),
            (1, b"shouldQuery", _) => self.known.is_note = self.kept == b"false",
            (2, b"response", b"request_id") => self.known.answered = value(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(line: &Value, expected: Skimmed) {
        for line in [line.to_string(), format!("{line:#}")] {
            // In pieces, as it arrives.
            let mut skim = Skim::default();
            line.as_bytes().chunks(3).for_each(|bytes| skim.take(bytes));
            assert_eq!(skim.end(), expected, "{line}");
        }
    }

    #[test]
    fn a_line_tells_what_it_is_wherever_that_stands() {
        let text = |text: &str| Some(text.to_owned());
        let content = json!([{"type": "text", "text": "{\"uuid\":\"no\", [\\"}, {"uuid": "no"}]);
        let message = json!({"message": {"content": content, "uuid": "no"}, "type": "user",
            "shouldQuery": false, "uuid": "a \"b\" \u{e4}\\", "parent_tool_use_id": null});
        let (kind, uuid) = (text("user"), text("a \"b\" \u{e4}\\"));
        check(&message, Skimmed { kind, uuid, is_note: true, ..Skimmed::default() });
        let request = json!({"request": {"subtype": "x", "request_id": "no"},
            "type": "control_request", "request_id": "r-1"});
        let (kind, request_id) = (text("control_request"), text("r-1"));
        check(&request, Skimmed { kind, request: request_id, ..Skimmed::default() });
        let response = json!({"subtype": "success", "request_id": "call-1",
            "response": {"request_id": "no"}});
        let response = json!({"type": "control_response", "response": response});
        let (kind, answered) = (text("control_response"), text("call-1"));
        check(&response, Skimmed { kind, answered, ..Skimmed::default() });
        let endless = json!({"type": "user", "uuid": "u".repeat(VALUE_CAP + 1)});
        check(&endless, Skimmed { kind: text("user"), ..Skimmed::default() });
    }

    #[test]
    fn what_is_no_json_tells_nothing_and_does_no_harm() {
        for line in ["", "]]}}\"uuid\":\"a\"", "{\"uuid\":\"a", "\\\"{{{", "{\"type\":", ":,:,}"] {
            let mut skim = Skim::default();
            skim.take(line.as_bytes());
            assert_eq!(skim.end(), Skimmed::default(), "{line}");
        }
    }
}
