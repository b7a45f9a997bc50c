//! What a server offers, as far as it can be used.
//!
//! A server says whatever it likes. Each tool is read on its own: one that
//! cannot be used is left out and said to be, and the others stay. Names,
//! descriptions and schemas go into every request, so all of them are bounded.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::name::{self, Label};
use super::schema::{self, AcceptedSchema};
use crate::event::OfferedTool;

/// Most tools of one server. Models lose their way in far fewer.
pub(super) const TOOLS_CAP: usize = 128;

/// Most bytes of a tool's description: a page. It is cut.
pub(super) const DESCRIPTION_CAP: usize = 4_000;

/// Most bytes of a tool's schema. One that is longer is left out: cut, it would
/// be no schema.
pub(super) const SCHEMA_CAP: usize = 32_000;

/// Most bytes of descriptions and schemas of one server, about 30,000 tokens,
/// which every request would hold.
pub(super) const SERVER_CAP: usize = 120_000;

/// Most prompts, and most resources, of one server that are listed.
pub(super) const LISTED_CAP: usize = 200;

/// Most characters of a text of a server in a line for people.
const WORD_CAP: usize = 80;

/// What a server offers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listing {
    /// Its tools, by name.
    pub tools: Vec<OfferedTool>,
    /// Its prompts, by name.
    pub prompts: Vec<PromptOffer>,
    /// Its resources, in its own order.
    pub resources: Vec<ResourceOffer>,
    /// What is left out and why, a sentence each.
    pub left_out: Vec<String>,
}

/// A prompt of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptOffer {
    /// What it is typed as, without the `/`.
    pub name: String,
    /// What the server calls it.
    pub remote: String,
    /// What it does; may be empty.
    pub description: String,
    /// Its arguments' names, in order, and whether each must be given.
    pub arguments: Vec<(String, bool)>,
}

/// A resource of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceOffer {
    /// Where it is.
    pub uri: String,
    /// What the server calls it.
    pub name: String,
}

/// A tool that can be used, before it has its name.
struct Usable {
    remote: String,
    description: String,
    schema: Box<RawValue>,
}

impl Listing {
    /// Reads what a server lists; `label` is the server's own part in names.
    #[must_use]
    pub fn read(label: &Label, tools: &[Value], prompts: &[Value], resources: &[Value]) -> Self {
        let mut listing = Self::default();
        listing.read_tools(label, tools);
        listing.read_prompts(label, prompts);
        let resource = |value: &Value| {
            let uri = text(value, "uri")?.to_owned();
            let name = text(value, "name").unwrap_or_default().to_owned();
            Some(ResourceOffer { uri, name })
        };
        listing.resources = resources.iter().filter_map(resource).take(LISTED_CAP).collect();
        listing
    }

    fn read_tools(&mut self, label: &Label, values: &[Value]) {
        // By name, whatever the order in which the server lists them. Of two
        // with one name, the server could only ever mean one.
        let mut usable = BTreeMap::new();
        for value in values {
            match read_tool(value) {
                Ok(tool) => {
                    if let Some(twin) = usable.insert(tool.remote.clone(), tool) {
                        self.leave_out(&twin.remote, "it is listed twice");
                    }
                }
                Err((name, why)) => self.leave_out(&name, &why),
            }
        }
        let mut room = SERVER_CAP;
        let mut kept = Vec::new();
        for tool in usable.into_values() {
            let length = tool.description.len() + tool.schema.get().len();
            match room.checked_sub(length) {
                Some(_) if kept.len() == TOOLS_CAP => {
                    self.leave_out(&tool.remote, &format!("at most {TOOLS_CAP} tools are used"));
                }
                Some(left) => {
                    room = left;
                    kept.push(tool);
                }
                None => {
                    let why = format!("the tools before it take up all of {SERVER_CAP} bytes");
                    self.leave_out(&tool.remote, &why);
                }
            }
        }
        let names = name::tools(label, kept.iter().map(|tool| tool.remote.as_str()));
        let offered = names.into_iter().zip(kept).map(|(name, tool)| OfferedTool {
            name: name.into(),
            server: Arc::clone(&label.whole),
            remote: tool.remote.into(),
            description: tool.description.into(),
            parameters: tool.schema.get().into(),
        });
        self.tools = offered.collect();
        self.tools.sort_by(|a, b| a.name.cmp(&b.name));
    }

    fn read_prompts(&mut self, label: &Label, values: &[Value]) {
        let prompt = |value: &Value| {
            let arguments = value.get("arguments").and_then(Value::as_array);
            let argument = |value: &Value| {
                let required = value.get("required").and_then(Value::as_bool).unwrap_or(false);
                Some((text(value, "name")?.to_owned(), required))
            };
            Some(PromptOffer {
                name: String::new(),
                remote: text(value, "name")?.to_owned(),
                description: text(value, "description").unwrap_or_default().to_owned(),
                arguments: arguments.into_iter().flatten().filter_map(argument).collect(),
            })
        };
        let mut prompts: Vec<_> = values.iter().filter_map(prompt).take(LISTED_CAP).collect();
        prompts.sort_by(|a, b| a.remote.cmp(&b.remote));
        prompts.dedup_by(|a, b| a.remote == b.remote);
        let names = name::tools(label, prompts.iter().map(|prompt| prompt.remote.as_str()));
        self.prompts = names
            .into_iter()
            .zip(prompts)
            .map(|(name, prompt)| PromptOffer { name, ..prompt })
            .collect();
    }

    fn leave_out(&mut self, name: &str, why: &str) {
        // A server may list any number of them.
        if self.left_out.len() < TOOLS_CAP {
            self.left_out.push(format!("its tool `{}` is left out: {why}", word(name)));
        }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn word(text: &str) -> String {
    text.chars().take(WORD_CAP).collect()
}

/// The error is the tool's name and why it is left out.
fn read_tool(value: &Value) -> Result<Usable, (String, String)> {
    let remote = text(value, "name").ok_or((String::new(), "it has no name".to_owned()))?;
    let bad = |why: String| (remote.to_owned(), why);
    // The other names are those of providers' APIs, which some servers copy.
    let written = ["inputSchema", "input_schema", "parameters"].into_iter();
    let written = written.filter_map(|key| value.get(key)).find(|schema| !schema.is_null());
    let AcceptedSchema { schema, words } = schema::accept(written).map_err(bad)?;
    let schema = to_raw_value(&schema).map_err(|error| bad(error.to_string()))?;
    if schema.get().len() > SCHEMA_CAP {
        return Err(bad(format!("its schema has more than {SCHEMA_CAP} bytes")));
    }
    let description = text(value, "description").or(text(value, "title")).unwrap_or_default();
    let description = match (cut(description.trim()), words) {
        (description, words) if words.is_empty() => description,
        (description, words) if description.is_empty() => words,
        (description, words) => format!("{description}\n\nArguments: {words}"),
    };
    Ok(Usable { remote: remote.to_owned(), description, schema })
}

/// Cuts a description at a character's end.
fn cut(text: &str) -> String {
    if text.len() <= DESCRIPTION_CAP {
        return text.to_owned();
    }
    let end = (0..=DESCRIPTION_CAP).rev().find(|&end| text.is_char_boundary(end));
    format!("{} […]", &text[..end.unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(tools: &[Value]) -> Listing {
        Listing::read(&"s".into(), tools, &[], &[])
    }

    fn names(listing: &Listing) -> Vec<&str> {
        listing.tools.iter().map(|tool| &*tool.name).collect()
    }

    #[test]
    fn tools_stand_by_name_whatever_order_they_are_listed_in() {
        let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
        let listing = read(&[tool("b"), tool("a c"), tool("a")]);
        assert_eq!(names(&listing), ["mcp__s__a", "mcp__s__a_c", "mcp__s__b"]);
        assert_eq!(listing, read(&[tool("a"), tool("b"), tool("a c")]));
        assert_eq!(&*listing.tools[1].remote, "a c");
        assert_eq!(&*listing.tools[0].parameters, r#"{"properties":{},"type":"object"}"#);
    }

    #[test]
    fn a_tool_that_cannot_be_used_is_left_out_alone_and_said_to_be() {
        let listing = read(&[
            json!({"name": "fine", "inputSchema": {"properties": {"a": {}}}}),
            json!({"name": "list", "inputSchema": {"type": "array"}}),
            json!({"name": "text", "inputSchema": "object"}),
            json!({"name": "none"}),
            json!({"name": "odd", "inputSchema": {"type": "object", "properties": [1]}}),
            json!({"inputSchema": {}}),
            json!(7),
            json!({"name": "long", "inputSchema": {"description": "x".repeat(SCHEMA_CAP)}}),
            json!({"name": "twin", "inputSchema": {}}),
            json!({"name": "twin", "inputSchema": {}}),
        ]);
        assert_eq!(names(&listing), ["mcp__s__fine", "mcp__s__none", "mcp__s__twin"]);
        let expected = [
            "its tool `list` is left out: its schema has the type \"array\", not \"object\"",
            "its tool `text` is left out: its schema is not an object",
            "its tool `odd` is left out: the `properties` of its schema are not an object",
            "its tool `` is left out: it has no name",
            "its tool `` is left out: it has no name",
            "its tool `long` is left out: its schema has more than 32000 bytes",
            "its tool `twin` is left out: it is listed twice",
        ];
        assert_eq!(listing.left_out, expected);
    }

    #[test]
    fn what_goes_into_every_request_is_bounded() {
        let many: Vec<Value> = (0..TOOLS_CAP + 5)
            .map(|number| json!({"name": format!("t{number:04}"), "inputSchema": {}}))
            .collect();
        let listing = read(&many);
        assert_eq!((listing.tools.len(), listing.left_out.len()), (TOOLS_CAP, 5));
        let large: Vec<Value> = (0..100)
            .map(|number| {
                let description = "ß".repeat(DESCRIPTION_CAP);
                json!({"name": format!("t{number}"), "description": description, "inputSchema": {}})
            })
            .collect();
        let listing = read(&large);
        let lengths =
            listing.tools.iter().map(|tool| tool.description.len() + tool.parameters.len());
        assert!(lengths.clone().all(|length| length < DESCRIPTION_CAP + 100));
        assert!(lengths.sum::<usize>() <= SERVER_CAP);
        assert_eq!(listing.tools.len() + listing.left_out.len(), 100);
        assert!(listing.tools[0].description.ends_with("ß […]"));
    }

    #[test]
    fn prompts_and_resources_are_read_as_far_as_they_can_be() {
        let prompts = [
            json!({"name": "b", "arguments": [{"name": "x", "required": true}, {"name": "y"}, 3]}),
            json!({"name": "a", "description": "what"}),
            json!({}),
        ];
        let resources = [json!({"uri": "demo://1", "name": "One"}), json!({"name": "no"})];
        let listing = Listing::read(&"s".into(), &[], &prompts, &resources);
        assert_eq!(listing.prompts[0].name, "mcp__s__a");
        let arguments = [("x".to_owned(), true), ("y".to_owned(), false)];
        assert_eq!(listing.prompts[1].arguments, arguments);
        let one = ResourceOffer { uri: "demo://1".to_owned(), name: "One".to_owned() };
        assert_eq!(listing.resources, [one]);
    }
}
