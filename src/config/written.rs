//! What values of TOML are called and come to, in the configuration and in other
//! files that people write.

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// In which order the fields of a table come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// That of the alphabet: the same table is the same bytes, whoever wrote it.
    Sorted,
    /// That in which they are written: an order that people have chosen.
    Written,
}

/// Says in words what a value is.
#[must_use]
pub fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// Returns a value as JSON; `None` if it holds what JSON does not have.
#[must_use]
pub fn json(value: &DeValue<'_>, order: Order) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(Value::from(&**text)),
        DeValue::Integer(written) => {
            i64::from_str_radix(written.as_str(), written.radix()).ok().map(Value::from)
        }
        DeValue::Float(written) => {
            Number::from_f64(written.as_str().parse().ok()?).map(Value::Number)
        }
        DeValue::Boolean(boolean) => Some(Value::from(*boolean)),
        DeValue::Datetime(_) => None,
        DeValue::Array(array) => array.iter().map(|item| json(item.get_ref(), order)).collect(),
        DeValue::Table(table) => {
            let field = |(key, value): (&str, &Spanned<DeValue<'_>>)| {
                Some((key.to_owned(), json(value.get_ref(), order)?))
            };
            fields(table, order)
                .into_iter()
                .map(field)
                .collect::<Option<Map<_, _>>>()
                .map(Value::Object)
        }
    }
}

/// Returns the fields of a table, which itself goes by the alphabet.
fn fields<'a>(table: &'a DeTable<'a>, order: Order) -> Vec<(&'a str, &'a Spanned<DeValue<'a>>)> {
    let mut fields: Vec<_> = table.iter().collect();
    if order == Order::Written {
        fields.sort_by_key(|(key, _)| key.span().start);
    }
    fields.into_iter().map(|(key, value)| (&**key.get_ref(), value)).collect()
}
