//! A short string that usually lies inside the JSON it came from.

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A string of an object's JSON: where it stands there, or its own copy where the JSON has it with escapes.
///
/// Names, UIDs and resource versions never need escapes, so an object pays 16 bytes for each and no allocation.
pub(crate) enum Text {
    Span { start: u32, len: u32 },
    Owned(Box<str>),
}

impl Text {
    pub(crate) const EMPTY: Self = Self::Span { start: 0, len: 0 };

    /// Remembers `text`, which was parsed from `json`.
    pub(crate) fn of(json: &[u8], text: &Borrowed<'_>) -> Self {
        if text.0.is_empty() {
            return Self::EMPTY;
        }
        if let Cow::Borrowed(slice) = &text.0 {
            // A difference of addresses, no pointer is made of it; checked against the bounds before it is used.
            let start = slice.as_ptr().addr().wrapping_sub(json.as_ptr().addr());
            let inside = json.get(start..).and_then(|rest| rest.get(..slice.len()));
            if inside == Some(slice.as_bytes())
                && let (Ok(start), Ok(len)) = (u32::try_from(start), u32::try_from(slice.len()))
            {
                return Self::Span { start, len };
            }
        }
        Self::Owned(text.0.as_ref().into())
    }

    /// The string, out of the JSON that it was made with.
    pub(crate) fn get<'a>(&'a self, json: &'a [u8]) -> &'a str {
        match self {
            Self::Span { start, len } => {
                let start = *start as usize;
                // The span was found in this very JSON as UTF-8; were it not, an empty string is the harmless answer.
                json.get(start..start + *len as usize)
                    .and_then(|bytes| std::str::from_utf8(bytes).ok())
                    .unwrap_or_default()
            }
            Self::Owned(text) => text,
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Span { .. } => 0,
            Self::Owned(text) => text.len(),
        }
    }
}

/// A string as serde hands it out: borrowed where it stands in the input without escapes.
#[derive(Default)]
pub(crate) struct Borrowed<'a>(pub(crate) Cow<'a, str>);

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
