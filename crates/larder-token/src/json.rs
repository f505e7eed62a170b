//! JSON in which no name stands twice, at any depth. `serde_json` alone would take the last one, and another reader the first.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// The object that the bytes hold; `None` if they hold anything else, or a name twice.
pub(crate) fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(bytes) {
        Ok(Strict(Value::Object(object))) => Some(object),
        _ => None,
    }
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue).map(Self)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON in which no name stands twice")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Strict(one)) = seq.next_element()? {
            all.push(one);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((name, Strict(value))) = map.next_entry::<String, _>()? {
            if all.insert(name, value).is_some() {
                return Err(A::Error::custom("a name stands twice"));
            }
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_twice() {
        for (text, expected) in [
            (r#"{"a": 1, "b": [{"a": null}], "c": {"a": -1.5, "d": true}}"#, true),
            (r#"{"a": 1, "a": 1}"#, false),
            (r#"{"a": [{"b": 1, "b": 2}]}"#, false),
            ("[]", false),
            ("1", false),
            ("", false),
            ("{} {}", false),
        ] {
            let strict = object(text.as_bytes());
            assert_eq!(strict.is_some(), expected, "{text}");
            if let Some(strict) = strict {
                assert_eq!(Value::Object(strict), serde_json::from_str::<Value>(text).unwrap());
            }
        }
        let deep = [vec![b'['; 10_000], vec![b']'; 10_000]].concat();
        assert_eq!(object(&[b"{\"a\":", &*deep, b"}"].concat()), None, "the depth is bounded");
    }
}
