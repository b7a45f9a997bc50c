//! `.mcp.json` and what `--mcp-config` names: servers in JSON, as other
//! harnesses write them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::entry::{BadEntry, Entry};
use crate::json_text;

/// Most servers of one file. People have a handful; each may be a process.
pub const SERVERS_CAP: usize = 64;

/// Reads the servers of a file. A server that cannot be read is an error of its
/// own, beside the others.
///
/// # Errors
///
/// What is wrong with the file as a whole, in words to stand behind its name.
pub fn read(text: &str) -> Result<BTreeMap<String, Result<Entry, BadEntry>>, String> {
    let whole: Value =
        json_text::parse(text).map_err(|error| format!("is not valid JSON: {error}"))?;
    let servers = match whole.get("mcpServers") {
        Some(Value::Object(servers)) => servers,
        Some(_) => return Err("has a `mcpServers` that is no object".to_owned()),
        None => return Err("has no `mcpServers`".to_owned()),
    };
    if servers.len() > SERVERS_CAP {
        return Err(format!("has more than {SERVERS_CAP} servers"));
    }
    Ok(entries(servers))
}

/// Reads servers, each by its name.
pub fn entries(servers: &Map<String, Value>) -> BTreeMap<String, Result<Entry, BadEntry>> {
    servers.iter().map(|(name, value)| (name.clone(), entry(value))).collect()
}

fn entry(value: &Value) -> Result<Entry, BadEntry> {
    let Value::Object(fields) = value else {
        return Err(BadEntry::new("mcpServers", "holds something that is no object"));
    };
    Ok(Entry {
        kind: text(fields, "type")?,
        command: text(fields, "command")?,
        arguments: list(fields, "args")?,
        variables: texts(fields, "env")?,
        directory: text(fields, "cwd")?,
        // What gemini and qwen call it where it is no SSE.
        url: text(fields, "httpUrl")?.or(text(fields, "url")?),
        headers: texts(fields, "headers")?,
        is_disabled: truth(fields, "disabled")?.unwrap_or(false)
            || !truth(fields, "enabled")?.unwrap_or(true),
    })
}

/// `null` counts as nothing.
fn given<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    fields.get(key).filter(|value| !value.is_null())
}

fn text(fields: &Map<String, Value>, key: &str) -> Result<Option<String>, BadEntry> {
    match given(fields, key) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(Value::String(_)) => Err(BadEntry::new(key, "is empty")),
        Some(_) => Err(BadEntry::new(key, "is no text")),
    }
}

fn truth(fields: &Map<String, Value>, key: &str) -> Result<Option<bool>, BadEntry> {
    match given(fields, key) {
        None => Ok(None),
        Some(Value::Bool(truth)) => Ok(Some(*truth)),
        Some(_) => Err(BadEntry::new(key, "is neither `true` nor `false`")),
    }
}

fn list(fields: &Map<String, Value>, key: &str) -> Result<Vec<String>, BadEntry> {
    let Some(value) = given(fields, key) else { return Ok(Vec::new()) };
    let texts =
        value.as_array().map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)));
    let texts: Option<Vec<String>> = texts.and_then(Iterator::collect);
    texts.ok_or_else(|| BadEntry::new(key, "is no list of texts"))
}

fn texts(fields: &Map<String, Value>, key: &str) -> Result<BTreeMap<String, String>, BadEntry> {
    let Some(value) = given(fields, key) else { return Ok(BTreeMap::new()) };
    let bad = || BadEntry::new(key, "is no object of texts");
    let fields = value.as_object().ok_or_else(bad)?;
    let pair = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    fields.iter().map(pair).collect::<Option<_>>().ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_other_harnesses_write_them() {
        let text = r#"{"mcpServers":{
            "files":{"command":"npx","args":["-y","server"],"env":{"A":"${A:-1}"},"cwd":"/s"},
            "far":{"type":"http","url":"https://box/mcp","headers":{"X":"y"},"timeout":3},
            "qwen":{"httpUrl":"http://box"},
            "off":{"command":"x","disabled":true}
        }}"#;
        let servers = read(text).unwrap();
        let server = |name: &str| servers[name].clone().unwrap();
        let files = Entry {
            command: Some("npx".into()),
            arguments: vec!["-y".into(), "server".into()],
            variables: BTreeMap::from([("A".into(), "${A:-1}".into())]),
            directory: Some("/s".into()),
            ..Entry::default()
        };
        assert_eq!(server("files"), files);
        assert_eq!(server("far").kind.as_deref(), Some("http"));
        assert_eq!(server("qwen").url.as_deref(), Some("http://box"));
        assert!(server("off").is_disabled);
    }

    #[test]
    fn one_bad_server_is_its_own_error() {
        let text = r#"{"mcpServers":{"a":{"command":7},"b":{"args":"x","command":"y"},
            "c":[],"d":{"command":"y"},"e":{"env":{"A":1}},"f":{"command":""}}}"#;
        let servers = read(text).unwrap();
        let said = servers.iter().map(|(name, server)| match server {
            Ok(_) => format!("{name} is fine"),
            Err(bad) => format!("{name}: {bad}"),
        });
        let expected = [
            "a: `command` is no text",
            "b: `args` is no list of texts",
            "c: `mcpServers` holds something that is no object",
            "d is fine",
            "e: `env` is no object of texts",
            "f: `command` is empty",
        ];
        assert_eq!(said.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_file_that_is_no_such_file_says_why() {
        assert!(read("{").unwrap_err().starts_with("is not valid JSON: "));
        assert_eq!(read("{}"), Err("has no `mcpServers`".to_owned()));
        assert_eq!(read("[]"), Err("has no `mcpServers`".to_owned()));
        let odd = read(r#"{"mcpServers":[]}"#);
        assert_eq!(odd, Err("has a `mcpServers` that is no object".to_owned()));
        let many: Vec<String> = (0..65).map(|number| format!("\"{number}\":{{}}")).collect();
        let many = read(&format!("{{\"mcpServers\":{{{}}}}}", many.join(",")));
        assert_eq!(many, Err("has more than 64 servers".to_owned()));
    }
}
