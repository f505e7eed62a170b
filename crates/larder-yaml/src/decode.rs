//! From a tree to a typed value, as Go's JSON decoder does it.

use crate::bytes::{GO, without_breaks};
use crate::format;
use crate::mistake::Mistake;
use crate::node::{Node, Value};
use base64::Engine as _;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use std::collections::btree_map;
use std::slice;
use zeroize::Zeroizing;

impl Node {
    fn wrong(&self, wanted: &'static str) -> Mistake {
        let advice = match self.value {
            Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) if wanted == "a string" => {
                "; put it in quotes"
            }
            Value::String(_) if matches!(wanted, "a number" | "a boolean") => "; write it without quotes",
            _ => "",
        };
        Mistake::at(self.place, format!("{} where {wanted} belongs{advice}", self.value.in_words()))
    }

    /// Base64, or a list of the bytes' numbers.
    fn bytes(&self) -> Result<Vec<u8>, Mistake> {
        match &self.value {
            Value::Null => Ok(Vec::new()),
            Value::String(text) => GO
                .decode(without_breaks(text).as_bytes())
                .map_err(|_| Mistake::at(self.place, "it is not base64; encode the value, or use stringData")),
            Value::List(items) => items.iter().map(Self::decode).collect(),
            _ => Err(self.wrong("base64")),
        }
    }

    /// A quantity, such as `500m`, which may be written as a number.
    fn quantity(&self) -> Result<Zeroizing<String>, Mistake> {
        let text = match &self.value {
            Value::Null => Zeroizing::new("0".to_owned()),
            Value::String(text) => Zeroizing::new(text.trim().to_owned()),
            Value::Int(number) => Zeroizing::new(number.to_string()),
            Value::UInt(number) => Zeroizing::new(number.to_string()),
            Value::Float(number) => Zeroizing::new(format::float(*number)),
            Value::Bool(_) | Value::List(_) | Value::Map(_) => return Err(self.wrong("a quantity")),
        };
        if format::is_quantity(&text) {
            Ok(text)
        } else {
            Err(Mistake::at(self.place, "it is not a quantity such as 500m, 2 or 1Gi"))
        }
    }
}

macro_rules! whole_numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
            match &self.value {
                Value::Null => visitor.visit_i64(0),
                Value::Int(number) => visitor.visit_i64(*number),
                Value::UInt(number) => visitor.visit_u64(*number),
                Value::Float(_) => {
                    Err(Mistake::at(self.place, "a decimal or too large number where a whole number belongs"))
                }
                _ => Err(self.wrong("a number")),
            }
            .map_err(|mistake: Mistake| mistake.or_at(self.place))
        }
    )*};
}

macro_rules! decimal_numbers {
    ($($method:ident)*) => {$(
        #[expect(clippy::cast_precision_loss, reason = "as any reader of JSON does")]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
            match &self.value {
                Value::Null => visitor.visit_f64(0.0),
                Value::Int(number) => visitor.visit_f64(*number as f64),
                Value::UInt(number) => visitor.visit_f64(*number as f64),
                Value::Float(number) => visitor.visit_f64(*number),
                _ => Err(self.wrong("a number")),
            }
        }
    )*};
}

macro_rules! strings {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
            match &self.value {
                Value::Null => visitor.visit_str(""),
                Value::String(text) => visitor.visit_str(text),
                _ => Err(self.wrong("a string")),
            }
            .map_err(|mistake: Mistake| mistake.or_at(self.place))
        }
    )*};
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(number) => visitor.visit_i64(*number),
            Value::UInt(number) => visitor.visit_u64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::String(text) => visitor.visit_str(text),
            Value::List(items) => visitor.visit_seq(Items { items: items.iter(), at: 0 }),
            Value::Map(fields) => visitor.visit_map(Fields { fields: fields.iter(), value: None }),
        }
        .map_err(|mistake: Mistake| mistake.or_at(self.place))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.value {
            Value::Null => visitor.visit_bool(false),
            Value::Bool(value) => visitor.visit_bool(*value),
            _ => Err(self.wrong("a boolean")),
        }
    }

    whole_numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }
    decimal_numbers! { deserialize_f32 deserialize_f64 }
    strings! { deserialize_char deserialize_str deserialize_string deserialize_identifier }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.deserialize_byte_buf(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_byte_buf(self.bytes()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        if matches!(self.value, Value::Null) { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_unit()
    }

    /// The types of Kubernetes that read their own text tell their name here.
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Mistake> {
        match name {
            "Quantity" => {
                let text = self.quantity()?;
                visitor.visit_newtype_struct(StrDeserializer::new(&text))
            }
            "Time" | "MicroTime" => match self.as_str() {
                Some(text) if format::is_time(text) => visitor.visit_newtype_struct(self),
                _ => Err(Mistake::at(self.place, "it is not a time such as 2006-01-02T15:04:05Z")),
            },
            _ => visitor.visit_newtype_struct(self),
        }
        .map_err(|mistake: Mistake| mistake.or_at(self.place))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.value {
            Value::Null => visitor.visit_seq(Items { items: [].iter(), at: 0 }),
            Value::List(items) => visitor.visit_seq(Items { items: items.iter(), at: 0 }),
            _ => Err(self.wrong("a list")),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Mistake> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.value {
            Value::Null => visitor.visit_map(Fields { fields: btree_map::Iter::default(), value: None }),
            Value::Map(fields) => visitor.visit_map(Fields { fields: fields.iter(), value: None }),
            _ => Err(self.wrong("a map")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let text = self.as_str().ok_or_else(|| self.wrong("a string"))?;
        let variant: StrDeserializer<'_, Mistake> = text.into_deserializer();
        visitor.visit_enum(variant).map_err(|mistake| mistake.or_at(self.place))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_unit()
    }
}

struct Items<'de> {
    items: slice::Iter<'de, Node>,
    at: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Mistake> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let at = self.at;
        self.at += 1;
        seed.deserialize(item).map(Some).map_err(|mistake| mistake.inside(&format!("[{at}]"), item.place))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Fields<'de> {
    fields: btree_map::Iter<'de, String, Node>,
    value: Option<(&'de str, &'de Node)>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mistake> {
        let Some((key, value)) = self.fields.next() else { return Ok(None) };
        self.value = Some((key, value));
        seed.deserialize(StrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mistake> {
        let Some((key, value)) = self.value.take() else { return Err(Mistake::anywhere("a value without a key")) };
        seed.deserialize(value).map_err(|mistake| mistake.inside(key, value.place))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.fields.len())
    }
}
