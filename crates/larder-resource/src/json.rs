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

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
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
