//! Base64 as Go reads it: with line breaks anywhere, and whatever the unused bits of the last character are.

use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use std::borrow::Cow;
use std::fmt;
use zeroize::Zeroizing;

pub(crate) const GO: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// The text without line breaks.
pub(crate) fn without_breaks(text: &str) -> Cow<'_, str> {
    if text.contains(['\r', '\n']) { Cow::Owned(text.replace(['\r', '\n'], "")) } else { Cow::Borrowed(text) }
}

/// Bytes that a document has as base64. They are zeroed when they are dropped.
///
/// ```
/// let node = larder_yaml::yaml("|\n  aGVs\n  bG8=\n")?;
/// assert_eq!(node.decode::<larder_yaml::Bytes>()?.0.as_slice(), b"hello");
/// # Ok::<(), larder_yaml::Mistake>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bytes(pub Zeroizing<Vec<u8>>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl<'de> serde::Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("base64")
            }

            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Bytes, E> {
                Ok(Bytes(Zeroizing::new(bytes)))
            }
        }
        deserializer.deserialize_byte_buf(Visitor)
    }
}
