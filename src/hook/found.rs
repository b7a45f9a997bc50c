//! Finds the JSON objects in a hook's output.
//!
//! Shell profiles and tools print lines of their own around a hook's answer: a banner,
//! a version, a Markdown fence. An object counts at any position. Text that looks like
//! an object and cannot be parsed is reported, so that a gate can refuse.

use serde_json::{Map, Value};

use super::answer::names_restriction;
use super::repeated::KeptValue;

/// Maximum failed attempts to parse an object. Each attempt may scan the rest of the
/// output, which may be a megabyte.
const FAILURES_CAP: usize = 64;

/// Maximum quoted lines of an output, and maximum characters of each.
const QUOTED_LINES: usize = 3;
const QUOTED_CHARACTERS: usize = 120;

/// Words that only a hook's answer contains, in lower case and without `_`.
const ANSWER_WORDS: [&str; 5] =
    ["permissiondecision", "hookspecificoutput", "\"decision\"", "\"behavior\"", "\"permission\""];

/// The JSON objects of an output.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PrintedObjects {
    pub(super) objects: Vec<PrintedObject>,
    /// True if the output is one object and nothing else.
    pub(super) is_alone: bool,
    /// The parse error of text that looks like an answer.
    pub(super) unread: Option<String>,
    /// The parse error of an object at the end of the output that names a key that may deny.
    pub(super) unread_at_end: Option<String>,
}

/// One JSON object of an output.
#[derive(Debug, PartialEq)]
pub(super) struct PrintedObject {
    pub(super) fields: Map<String, Value>,
    /// True if the object begins a line at the start or the end of the output. Code
    /// samples in a text for the model are in its middle.
    pub(super) is_at_an_end: bool,
}

impl PrintedObjects {
    /// Finds the objects in an output.
    pub(super) fn read(printed: &str) -> Self {
        let text = trim_marks(printed);
        match serde_json::from_str(text) {
            Ok(KeptValue(Value::Object(fields))) => {
                let objects = vec![PrintedObject { fields, is_at_an_end: true }];
                return Self { objects, is_alone: true, ..Self::default() };
            }
            // An object that was encoded twice.
            Ok(KeptValue(Value::String(inner))) if trim_marks(&inner).starts_with('{') => {
                return Self::scan(trim_marks(&inner));
            }
            Ok(_) | Err(_) => {}
        }
        Self::scan(text)
    }

    fn scan(text: &str) -> Self {
        let mut found = Self::default();
        let (mut failures, mut at) = (0, 0);
        // The text outside of all objects begins with the rest behind the last one.
        let (mut outside, mut end) = (String::new(), 0);
        while let Some(start) = text[at..].find('{').map(|offset| at + offset) {
            if failures >= FAILURES_CAP {
                let why = "it holds too many braces that begin no object".to_owned();
                found.unread_at_end = names_restriction(&text[start..]).then(|| why.clone());
                found.unread = Some(why);
                break;
            }
            let mut objects = serde_json::Deserializer::from_str(&text[start..]).into_iter();
            let is_gap = |c: char| c != '\n' && (c.is_whitespace() || is_mark(c));
            let before = text[..start].trim_end_matches(is_gap);
            let begins_line = before.is_empty() || before.ends_with('\n');
            match objects.next() {
                Some(Ok(KeptValue(Value::Object(fields)))) => {
                    at = start + objects.byte_offset();
                    outside.push_str(&text[end..start]);
                    end = at;
                    let is_first = trim_marks(&text[..start]).is_empty();
                    // A quote in the wrong place may have ended it early in its line.
                    let (_, behind) = text[at..].split_once('\n').unwrap_or_default();
                    let is_last = trim_marks(behind).trim_matches('`').trim().is_empty();
                    let is_at_an_end = begins_line && (is_first || is_last);
                    found.objects.push(PrintedObject { fields, is_at_an_end });
                }
                other => {
                    (failures, at) = (failures + 1, start + 1);
                    if let Some(Err(error)) = other.filter(|_| begins_line) {
                        let rest = &text[start..];
                        if reaches_end(rest) && names_restriction(rest) {
                            found.unread_at_end.get_or_insert_with(|| error.to_string());
                        }
                        found.unread.get_or_insert_with(|| error.to_string());
                    }
                }
            }
        }
        outside.push_str(&text[end..]);
        let outside = outside.replace('_', "").to_ascii_lowercase();
        if let Some(word) = ANSWER_WORDS.iter().find(|word| outside.contains(**word)) {
            found.unread.get_or_insert_with(|| format!("it has {word} outside of any JSON object"));
        }
        // For example UTF-16.
        if found.objects.is_empty() && text.contains('{') && text.contains(['\0', '\u{fffd}']) {
            found.unread.get_or_insert_with(|| "it is not UTF-8".to_owned());
        }
        found
    }
}

/// Returns whether a malformed object that begins a text may end with it. A quote in the
/// wrong place hides where it ends, so a closed one counts only if it has lines behind it.
fn reaches_end(text: &str) -> bool {
    let text = trim_marks(trim_marks(text).trim_end_matches('`'));
    let (mut depth, mut is_quoted, mut is_escaped) = (0_u32, false, false);
    let is_closed = text.chars().any(|c| {
        match c {
            _ if is_escaped => {}
            '"' => is_quoted = !is_quoted,
            '{' if !is_quoted => depth += 1,
            '}' if !is_quoted => depth -= 1,
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
        depth == 0
    });
    !is_closed || text.ends_with('}') || !text.contains('\n')
}

/// Returns the first lines of a text, so that people can find the program that printed it.
pub(super) fn first_lines(text: &str) -> String {
    let lines = trim_marks(text).lines().map(str::trim).filter(|line| !line.is_empty());
    let line = |line: &str| line.chars().take(QUOTED_CHARACTERS).collect::<String>();
    lines.take(QUOTED_LINES).map(line).collect::<Vec<_>>().join(" / ")
}

/// Trims white space and byte order marks.
fn trim_marks(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || is_mark(c))
}

fn is_mark(c: char) -> bool {
    c == '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deny() -> String {
        r#"{"decision": "deny"}"#.to_owned()
    }

    #[test]
    fn an_object_is_found_wherever_it_is_printed() {
        let deny = deny();
        let pretty = "{\r\n  \"decision\":\r\n    \"deny\"\r\n}";
        for printed in [
            deny.clone(),
            format!("\u{feff}{deny}\r\n"),
            format!("Now using node v20\n{deny}"),
            format!("a\n\u{feff}{deny}\nb\n"),
            format!("checked: {deny}"),
            format!("```json\n{pretty}\n```\n"),
            format!("{{not json}}\n{deny}"),
            format!("[{deny}]"),
            format!("[INFO] {{}} {deny}"),
            format!("{:?}", deny),
            format!("\u{1b}[32mready\u{1b}[0m\n{deny}\u{1b}[0m"),
        ] {
            let found = PrintedObjects::read(&printed);
            let says = |object: &PrintedObject| object.fields.get("decision").is_some();
            assert!(found.objects.iter().any(says), "{printed:?}: {found:?}");
        }
    }

    #[test]
    fn an_output_is_alone_if_it_is_exactly_one_object() {
        let deny = deny();
        for (printed, is_alone) in [
            (deny.clone(), true),
            (format!("\u{feff} {deny}\n\n"), true),
            (format!("{deny}\n{deny}"), false),
            (format!("banner\n{deny}"), false),
            (format!("{deny}\nbye"), false),
            (format!("[{deny}]"), false),
        ] {
            assert_eq!(PrintedObjects::read(&printed).is_alone, is_alone, "{printed:?}");
        }
    }

    #[test]
    fn what_looks_like_an_answer_and_is_none_is_named() {
        for printed in [
            "{\"decision\":",
            "{'decision': 'block'}",
            "banner\n  {\"decision\": \"block\",}",
            "permissionDecision: deny",
            "{decision: block}",
            "cfg={} {\"decision\":\"deny\",\"reason\":\"a\nb\"}",
            "cfg={} {\"permission_decision\":\"deny\",}",
            "{\"level\":\"info\"} result: {\"Behavior\":\"deny\"",
            "{\0\"\0",
        ] {
            assert!(PrintedObjects::read(printed).unread.is_some(), "{printed:?}");
        }
        let deny = deny();
        let around = format!("cfg={{}} {deny} done");
        for printed in
            [&*around, "", "all is well", "ran {3} checks", "fn a() {}", "[1, 2]", "null"]
        {
            assert_eq!(PrintedObjects::read(printed).unread, None, "{printed:?}");
        }
        let braces = "{\n".repeat(1_000_000);
        assert!(PrintedObjects::read(&braces).unread.is_some());
    }

    #[test]
    fn a_malformed_answer_at_the_end_is_told_from_a_sample() {
        let bad = r#"{"decision":"block","reason":"x",}"#;
        let braces = "{ a\n".repeat(100);
        for (printed, expected) in [
            (format!("banner\n{bad}"), true),
            (format!("banner\n  {bad}\r\n"), true),
            (format!("banner\n```json\n{bad}\n```\n"), true),
            ("banner\n{\"decision\":\"block\",\"reason\":\"a\nb\"}".to_owned(), true),
            ("banner\n{\"blocked\":true,\"reason\":\"a \"}\" b\"}".to_owned(), true),
            ("banner\n{'permission_decision': 'deny'}".to_owned(), true),
            ("banner\n{ continue: false }".to_owned(), true),
            ("banner\n{\n  \"allow\" = false\n}".to_owned(), true),
            ("banner\n{\"decision\":\"block\",\"rea".to_owned(), true),
            (format!("{braces}{bad}"), true),
            (format!("answer\n{bad}\nto stop a call"), false),
            ("fn a()\n{\n    b();\n}".to_owned(), false),
            ("the decision: none\n{ a\n".to_owned(), false),
            (braces, false),
        ] {
            let found = PrintedObjects::read(&printed);
            let is_answer = found.objects.iter().any(|object| object.is_at_an_end);
            assert_eq!(found.unread_at_end.is_some() || is_answer, expected, "{found:?}");
        }
    }
}
