//! The rows that `tine map` goes through: a table as CSV, or one JSON object a
//! line.
//!
//! All of it is read before anything runs: a row that cannot be read is found
//! out while it costs nothing yet.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::flow::ITEMS_CAP;
use crate::message::counted;

/// Most bytes of a table. Its rows are held while they are worked on.
pub(super) const TABLE_CAP: u64 = 64 * 1024 * 1024;

/// Most characters of a row's `id`: it stands in lines that people read.
const ID_CAP: usize = 200;

/// Rows with what they are called.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    /// At least one.
    pub(super) rows: Vec<Row>,
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Its field `id` if the table has that, else its number from 1.
    pub(super) id: Arc<str>,
    /// Where it begins, from 1.
    pub(super) line: u64,
    pub(super) fields: Map<String, Value>,
}

/// What a table is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Csv,
    Jsonl,
}

impl Kind {
    /// Tells what a file is by its name, and where that says nothing by how it
    /// begins.
    pub(super) fn of(name: &str, bytes: &[u8]) -> Self {
        let ends = |suffix: &str| name.to_ascii_lowercase().ends_with(suffix);
        if ends(".jsonl") || ends(".ndjson") || ends(".json") {
            return Self::Jsonl;
        }
        if ends(".csv") {
            return Self::Csv;
        }
        match unmarked(bytes).trim_ascii_start().first() {
            Some(b'{' | b'[') => Self::Jsonl,
            Some(_) | None => Self::Csv,
        }
    }
}

impl Table {
    /// Reads a table.
    ///
    /// # Errors
    ///
    /// What is wrong first, with its line.
    pub(super) fn read(kind: Kind, bytes: &[u8]) -> Result<Self, String> {
        let bytes = unmarked(bytes);
        let rows = match kind {
            Kind::Csv => csv_rows(bytes)?,
            Kind::Jsonl => json_rows(bytes)?,
        };
        if rows.is_empty() {
            return Err("there are no rows in it".to_owned());
        }
        if rows.len() > ITEMS_CAP as usize {
            return Err(format!("it has more than {ITEMS_CAP} rows; map it in parts"));
        }
        named(rows).map(|rows| Self { rows })
    }

    /// Returns the fields of all rows, sorted.
    pub(super) fn columns(&self) -> BTreeSet<&str> {
        self.rows.iter().flat_map(|row| row.fields.keys()).map(String::as_str).collect()
    }

    /// Returns the line of the first row that lacks a field.
    pub(super) fn lacking(&self, column: &str) -> Option<u64> {
        self.rows.iter().find(|row| !row.fields.contains_key(column)).map(|row| row.line)
    }
}

/// Leaves out the mark that some programs put before UTF-8.
fn unmarked(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// A row before it has its name: where it is, and what it holds.
type Unnamed = (u64, Map<String, Value>);

fn csv_rows(bytes: &[u8]) -> Result<Vec<Unnamed>, String> {
    if let Some(line) = left_open(bytes) {
        return Err(format!(
            "line {line}: a field that begins with a quotation mark does not end with one; within \
             it a quotation mark is written twice"
        ));
    }
    let mut reader = csv::ReaderBuilder::new().from_reader(bytes);
    let mut lines = Lines { bytes, at: 0, line: 1 };
    let headers = reader.headers().map_err(|error| csv_error(&error, &mut lines))?.clone();
    let mut seen = BTreeSet::new();
    for header in &headers {
        if header.trim().is_empty() {
            return Err("line 1: a column has no name".to_owned());
        }
        if !seen.insert(header.trim()) {
            return Err(format!("line 1: two columns are called `{}`", header.trim()));
        }
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| csv_error(&error, &mut lines))?;
        let line = lines.of(record.position());
        let fields = headers.iter().zip(&record);
        let fields = fields.map(|(name, value)| (name.trim().to_owned(), Value::from(value)));
        rows.push((line, fields.collect()));
    }
    Ok(rows)
}

/// Where in a table the reader is. Quoted fields know the line of their beginning.
enum At {
    FieldStart,
    Plain,
    Quoted(u64),
    /// Behind a quotation mark, which ends the field unless another one follows.
    Quote(u64),
}

/// Returns the line in which a quoted field begins that has no end, or ends within.
/// The reader takes whole rows for a part of that field, and says nothing.
fn left_open(bytes: &[u8]) -> Option<u64> {
    let (mut line, mut at) = (1, At::FieldStart);
    for byte in bytes {
        at = match (at, byte) {
            (At::FieldStart, b'"') => At::Quoted(line),
            (At::Quoted(begin), b'"') => At::Quote(begin),
            (At::Quote(begin), b'"') | (At::Quoted(begin), _) => At::Quoted(begin),
            (At::FieldStart | At::Plain | At::Quote(_), b',' | b'\r' | b'\n') => At::FieldStart,
            (At::Quote(begin), _) => return Some(begin),
            (At::FieldStart | At::Plain, _) => At::Plain,
        };
        line += u64::from(*byte == b'\n');
    }
    match at {
        At::Quoted(begin) => Some(begin),
        At::FieldStart | At::Plain | At::Quote(_) => None,
    }
}

fn csv_error(error: &csv::Error, lines: &mut Lines<'_>) -> String {
    if let csv::ErrorKind::UnequalLengths { pos, expected_len, len } = error.kind() {
        let (line, len) = (lines.of(pos.as_ref()), counted(*len, "field"));
        let columns = counted(*expected_len, "column");
        return format!("line {line}: the row has {len}, and the first line names {columns}");
    }
    if let csv::ErrorKind::Utf8 { pos, err: _ } = error.kind() {
        let line = lines.of(pos.as_ref());
        return format!("line {line}: it is no UTF-8; save the table as UTF-8");
    }
    error.to_string()
}

/// Counts lines up to rows, which come in order. The reader's own count is short
/// where lines end with two bytes: it begins a row between them.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl Lines<'_> {
    /// Returns the line in which a row begins.
    fn of(&mut self, position: Option<&csv::Position>) -> u64 {
        let byte = position.and_then(|position| usize::try_from(position.byte()).ok());
        let start = byte.unwrap_or(self.at).clamp(self.at, self.bytes.len());
        let rest = self.bytes[start..].iter();
        let ends = rest.take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let passed = &self.bytes[self.at..start + ends];
        self.line += passed.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.at = start + ends;
        self.line
    }
}

fn json_rows(bytes: &[u8]) -> Result<Vec<Unnamed>, String> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err("it is one array; a row is an object on a line of its own: `jq -c '.[]'` \
                    makes lines of it"
            .to_owned());
    }
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(Fields(fields)) => rows.push((number, fields)),
            Err(error) if error.is_data() => {
                return Err(format!("line {number}: {}", without_place(&error)));
            }
            Err(error) => return Err(json_error(number, &error)),
        }
    }
    Ok(rows)
}

fn json_error(line: u64, error: &serde_json::Error) -> String {
    format!(
        "line {line}, column {}: it is not valid JSON: {}",
        error.column(),
        without_place(error)
    )
}

/// Returns what is wrong with a line. The error counts lines, too, and has seen only
/// this one.
fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.rsplit_once(" at line ").map_or(&*message, |(what, _)| what).to_owned()
}

/// The fields of an object, each of which it names once: of two values nobody could
/// tell which one is meant.
struct Fields(Map<String, Value>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Once)
    }
}

/// Tells whether a whole number is none any more once it was read.
fn is_rounded(value: &Value, written: &str) -> bool {
    value.is_f64()
        && written != "-0"
        && written.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

struct Once;

impl<'de> Visitor<'de> for Once {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row, which is an object, such as {\"name\": \"a\"}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format!("two fields are called `{name}`")));
            }
            let written: Box<RawValue> = map.next_value()?;
            let value = serde_json::from_str(written.get()).map_err(A::Error::custom)?;
            if is_rounded(&value, written.get()) {
                return Err(A::Error::custom(format!(
                    "the number of `{name}` is too large to be kept as it is; write it as text"
                )));
            }
            fields.insert(name, value);
        }
        Ok(Fields(fields))
    }
}

/// Gives rows their names. Either all have an `id`, or none has.
fn named(rows: Vec<Unnamed>) -> Result<Vec<Row>, String> {
    let have_ids = rows.iter().any(|(_, fields)| fields.contains_key("id"));
    let mut lines: HashMap<Arc<str>, u64> = HashMap::new();
    let mut named = Vec::with_capacity(rows.len());
    for (number, (line, fields)) in (1_u64..).zip(rows) {
        let id: Arc<str> = match (have_ids, fields.get("id")) {
            (false, _) => number.to_string().into(),
            (true, Some(Value::String(id))) if !id.trim().is_empty() => id.trim().into(),
            (true, Some(Value::Number(id))) => id.to_string().into(),
            (true, _) => {
                return Err(format!("line {line}: the row has no `id`, and others have one"));
            }
        };
        if id.chars().count() > ID_CAP {
            return Err(format!("line {line}: its `id` is longer than {ID_CAP} characters"));
        }
        if let Some(first) = lines.insert(Arc::clone(&id), line) {
            return Err(format!("line {line}: its `id` is `{id}`, and so is that of line {first}"));
        }
        named.push(Row { id, line, fields });
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(kind: Kind, text: &str, expected: Result<Value, &str>) {
        let table = Table::read(kind, text.as_bytes());
        let rows = table.map(|table| {
            let row = |row: Row| json!([&*row.id, row.line, row.fields]);
            Value::from(table.rows.into_iter().map(row).collect::<Vec<_>>())
        });
        assert_eq!(rows, expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn rows_of_a_table_have_the_names_of_the_first_line() {
        check(Kind::Csv, "\u{feff}a, b\n1,\"x, \"\"y\"\"\nz\"\n2,\n", {
            Ok(json!([["1", 2, {"a": "1", "b": "x, \"y\"\nz"}], ["2", 4, {"a": "2", "b": ""}]]))
        });
        check(Kind::Csv, "id,a\nfirst,1\r\nsecond,2", {
            Ok(
                json!([["first", 2, {"id": "first", "a": "1"}], ["second", 3, {"id": "second", "a": "2"}]]),
            )
        });
    }

    #[test]
    fn each_line_of_json_is_a_row() {
        check(Kind::Jsonl, "{\"a\": [1]}\n\n {\"b\": null}\n", {
            Ok(json!([["1", 1, {"a": [1]}], ["2", 3, {"b": null}]]))
        });
        check(Kind::Jsonl, "{\"id\": 7}", Ok(json!([["7", 1, {"id": 7}]])));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        use Kind::{Csv, Jsonl};
        check(Csv, "a,b\n", Err("there are no rows in it"));
        check(Csv, "", Err("there are no rows in it"));
        check(Csv, "a,b\n1,2\n3\n", {
            Err("line 3: the row has 1 field, and the first line names 2 columns")
        });
        check(Csv, "a,b\r\n\r\n1,2\r\n3\r\n", {
            Err("line 4: the row has 1 field, and the first line names 2 columns")
        });
        check(Csv, "a,,c\n1,2,3\n", Err("line 1: a column has no name"));
        check(Csv, "a,a \n1,2\n", Err("line 1: two columns are called `a`"));
        check(Csv, "id\nx\ny\nx\n", Err("line 4: its `id` is `x`, and so is that of line 2"));
        check(Jsonl, "{\"id\":1}\n{}", Err("line 2: the row has no `id`, and others have one"));
        check(Jsonl, "{\"id\":\" \"}", Err("line 1: the row has no `id`, and others have one"));
        check(Jsonl, "{}\n7", {
            Err("line 2: invalid type: integer `7`, expected a row, which is an object, such as \
                 {\"name\": \"a\"}")
        });
        check(Jsonl, "{\"a\":1}\n{\"b\":1,\"a\":2,\"b\":3}", {
            Err("line 2: two fields are called `b`")
        });
        check(Jsonl, "{\"a\":-0}", Ok(json!([["1", 1, {"a": -0.0}]])));
        check(Jsonl, "{\"a\":18446744073709551616}", {
            Err("line 1: the number of `a` is too large to be kept as it is; write it as text")
        });
        check(Jsonl, " [{\"a\": 1}]", {
            Err("it is one array; a row is an object on a line of its own: `jq -c '.[]'` makes \
                 lines of it")
        });
        check(Jsonl, "{\"a\":1}\r\n{\"a\":}\r\n", {
            Err("line 2, column 6: it is not valid JSON: expected value")
        });
        check(Jsonl, "{\"a\":1}\n{a}", {
            Err("line 2, column 2: it is not valid JSON: key must be a string")
        });
        let long = format!("{{\"id\":\"{}\"}}", "x".repeat(ID_CAP + 1));
        check(Jsonl, &long, Err("line 1: its `id` is longer than 200 characters"));
        let table = Table::read(Csv, b"a\n\xff\n");
        assert_eq!(table, Err("line 2: it is no UTF-8; save the table as UTF-8".to_owned()));
    }

    #[test]
    fn a_file_is_what_its_name_says_or_else_how_it_begins() {
        for (name, text, kind) in [
            ("a.csv", "{", Kind::Csv),
            ("a.JSONL", "a", Kind::Jsonl),
            ("a.json", "a", Kind::Jsonl),
            ("-", " {\"a\":1}", Kind::Jsonl),
            ("-", "\u{feff}[", Kind::Jsonl),
            ("-", "a,b", Kind::Csv),
        ] {
            assert_eq!(Kind::of(name, text.as_bytes()), kind, "{name} {text}");
        }
    }
}
