//! JSON whose objects keep every value of a repeated key.
//!
//! A hook that pastes a command's text into its answer lets the text add
//! `"decision": "approve"` behind the hook's own decision, and a parser that keeps the
//! last value would lose the denial.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Maximum different values of one key of an object. Each lengthens the next one's key.
const VALUES_CAP: usize = 8;

/// A value whose objects keep each value of a repeated key: the later ones behind the key
/// with `_` appended, which answers read as the same key.
pub(super) struct KeptValue(pub(super) Value);

impl<'de> Deserialize<'de> for KeptValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeptVisitor).map(Self)
    }
}

struct KeptVisitor;

impl<'de> Visitor<'de> for KeptVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        while let Some(KeptValue(item)) = items.next_element()? {
            kept.push(item);
        }
        Ok(Value::Array(kept))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some((mut key, KeptValue(value))) = entries.next_entry::<String, _>()? {
            let cap = key.len() + VALUES_CAP;
            // The same value again says nothing new.
            while kept.get(&key).is_some_and(|before| *before != value) {
                key.push('_');
            }
            if key.len() >= cap {
                return Err(A::Error::custom("it repeats a key too often"));
            }
            kept.insert(key, value);
        }
        Ok(Value::Object(kept))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_of_a_repeated_key_is_kept() {
        for (text, expected) in [
            (r#"{"a": 1, "a": 2, "a": 3}"#, json!({"a": 1, "a_": 2, "a__": 3})),
            (r#"{"a": 1, "a": 1}"#, json!({"a": 1})),
            (r#"[{"a": {"b": "x", "b": null}}]"#, json!([{"a": {"b": "x", "b_": null}}])),
            (r#"{"a": -1, "b": 0.5, "c": true}"#, json!({"a": -1, "b": 0.5, "c": true})),
        ] {
            let KeptValue(kept) = serde_json::from_str(text).unwrap();
            assert_eq!(kept, expected, "{text}");
        }
        let many: Vec<String> = (0..100_000).map(|value| format!("\"a\":{value}")).collect();
        assert!(serde_json::from_str::<KeptValue>(&format!("{{{}}}", many.join(","))).is_err());
    }
}
