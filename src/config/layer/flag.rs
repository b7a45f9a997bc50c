//! One `KEY=VALUE` of the command line, made into a table.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::one_line;

/// Reads a dotted key; `None` if it is none.
pub(super) fn key_segments(key: &str) -> Option<Vec<String>> {
    // A line break would make it a document of its own.
    let text = Some(format!("{key} = 0")).filter(|text| !text.contains(['\n', '\r']))?;
    let parsed = DeTable::parse(&text).ok()?;
    let mut table = parsed.get_ref();
    let mut segments = Vec::new();
    loop {
        let mut entries = table.iter();
        let (Some((key, value)), None) = (entries.next(), entries.next()) else { return None };
        segments.push(key.get_ref().to_string());
        match value.get_ref().as_table() {
            Some(inner) => table = inner,
            None => return Some(segments),
        }
    }
}

/// Reads a value of the command line: TOML, or else a string, so that
/// `model=qwen3` needs no quotes that a shell would eat.
pub(super) fn flag_value(text: &str) -> Result<DeValue<'_>, String> {
    match DeValue::parse(text) {
        Ok(value) => Ok(value.into_inner()),
        // Whoever opens a quote or a bracket means TOML.
        Err(error) if text.starts_with(['"', '\'', '[', '{']) => Err(one_line(error.message())),
        Err(_) => Ok(DeValue::String(text.into())),
    }
}

/// Builds the table in which `value` has the given key.
pub(super) fn nested(segments: Vec<String>, value: DeValue<'_>) -> DeTable<'_> {
    let mut segments = segments.into_iter().rev();
    let last = segments.next().expect("a key has at least one segment");
    // Nobody asks where a value of the command line stands.
    let entry = |key: String, value| {
        DeTable::from_iter([(Spanned::new(0..0, Cow::Owned(key)), Spanned::new(0..0, value))])
    };
    let innermost = entry(last, value);
    segments.fold(innermost, |table, key| entry(key, DeValue::Table(table)))
}
