//! How the JSON of the Kubernetes API is read: structs from objects only, strings without a copy, `null` as not set.
//!
//! # Example
//!
//! ```
//! use larder_resource::json::{Borrowed, Strict};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! struct Meta<'a> {
//!     #[serde(borrow, default)]
//!     name: Borrowed<'a>,
//! }
//!
//! let Strict(meta): Strict<Meta<'_>> = serde_json::from_str(r#"{"name":"web"}"#)?;
//! assert_eq!(meta.name.0, "web");
//! let Strict(meta): Strict<Meta<'_>> = serde_json::from_str(r#"{"name":null}"#)?;
//! assert_eq!(meta.name.0, "");
//! assert!(serde_json::from_str::<Strict<Meta<'_>>>(r#"["web"]"#).is_err());
//! # Ok::<(), serde_json::Error>(())
//! ```

use crate::error::DecodeError;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A derived struct that is not read from an array of its fields' values, which serde would take as well.
pub struct Strict<T>(
    /// The struct.
    pub T,
);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Strict<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
            type Value = T;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_map(Object(PhantomData)).map(Self)
    }
}

/// A string as serde hands it out: borrowed where it stands in the input without escapes.
#[derive(Default)]
pub struct Borrowed<'a>(
    /// The string; empty where the JSON has `null`.
    pub Cow<'a, str>,
);

impl<'de: 'a, 'a> Deserialize<'de> for Borrowed<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Borrowed<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Borrowed(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Borrowed(Cow::Owned(text.to_owned())))
            }
            fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
                Ok(Borrowed(Cow::Owned(text)))
            }
            // `null` stands for a value that is not set, as everywhere in the Kubernetes API.
            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Borrowed::default())
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// Reads a value from JSON. Where a field has the wrong type, the error names it.
pub(crate) fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, DecodeError> {
    serde_json::from_slice(json).map_err(|error| {
        // To follow the path costs time, so only what is wrong is read that way, once more.
        let mut again = serde_json::Deserializer::from_slice(json);
        match serde_path_to_error::deserialize::<_, T>(&mut again) {
            Err(named) if error.is_data() => DecodeError::wrong_type(named.path(), &error),
            _ => error.into(),
        }
    })
}

/// A value, or its default where the JSON has `null`.
pub(crate) fn or_default<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<Strict<T>>::deserialize(deserializer)?.map(|Strict(value)| value).unwrap_or_default())
}

/// The elements of an array of objects; an element that is `null` is the default, and `null` is an empty array.
#[derive(Default)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Array<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for Array<T> {
            type Value = List<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(element) = array.next_element::<Option<Strict<T>>>()? {
                    list.push(element.map(|Strict(element)| element).unwrap_or_default());
                }
                Ok(List(list))
            }
            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(List(Vec::new()))
            }
        }
        deserializer.deserialize_any(Array(PhantomData))
    }
}

/// The pairs of a map of strings, in order.
#[derive(Default)]
pub(crate) struct Pairs<'a>(pub(crate) Vec<(Borrowed<'a>, Borrowed<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        entries_of(deserializer, "a map of strings").map(Pairs)
    }
}

/// The fields of an object, in order, each with its value as it stands there. A name that stands twice is there twice.
///
/// ```
/// use larder_resource::json::Fields;
/// let Fields(fields) = serde_json::from_str(r#"{"a": 1, "b": [2], "\u0061": 3}"#)?;
/// let fields: Vec<_> = fields.iter().map(|(name, value)| (&*name.0, value.get())).collect();
/// assert_eq!(fields, [("a", "1"), ("b", "[2]"), ("a", "3")]);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub struct Fields<'a>(
    /// Each name with its value.
    pub Vec<(Borrowed<'a>, &'a RawValue)>,
);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        entries_of(deserializer, "an object").map(Fields)
    }
}

/// How many entries a map has; what is in them is passed over.
pub(crate) struct Entries(pub(crate) u32);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Entries;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = 0u32;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    entries = entries.saturating_add(1);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Map)
    }
}

/// The entries of a map, in order.
fn entries_of<'de, D: Deserializer<'de>, K: Deserialize<'de>, V: Deserialize<'de>>(
    deserializer: D,
    what: &'static str,
) -> Result<Vec<(K, V)>, D::Error> {
    struct Map<K, V>(&'static str, PhantomData<(K, V)>);
    impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for Map<K, V> {
        type Value = Vec<(K, V)>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::with_capacity(map.size_hint().unwrap_or_default());
            while let Some(entry) = map.next_entry()? {
                entries.push(entry);
            }
            Ok(entries)
        }
    }
    deserializer.deserialize_map(Map(what, PhantomData))
}
