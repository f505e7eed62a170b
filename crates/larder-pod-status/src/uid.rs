//! The UID of a pod: any string, the usual ones in 16 bytes.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;
use std::str::FromStr;
use std::sync::Arc;

/// The UID of a pod, as the container runtime and the kubelet know it.
///
/// Any string is a UID, and comes back exactly as it went in: two UIDs are equal when their strings are, and in the order
/// of their strings. The API server's are canonical lower-case UUIDs, which are held in 16 bytes without an allocation;
/// those of static pods are hashes and are held as shared strings. A clone never copies a string.
///
/// ```
/// use larder_pod_status::PodUid;
///
/// let uid = PodUid::from("2a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8b");
/// assert_eq!(uid.to_string(), "2a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8b");
/// // The kubelet compares UIDs as strings, and so does larder: this is another pod.
/// assert_ne!(uid, PodUid::from("2A1F3C5E-9B7D-4E21-8F60-0C4D5E6F7A8B"));
/// ```
#[derive(Clone)]
pub struct PodUid(Repr);

/// 16 bytes: the first half of a UUID is never zero, which leaves the zero to tell that the second half is a pointer.
#[derive(Clone)]
enum Repr {
    /// A canonical UUID whose first half is not zero, as two big-endian halves.
    Uuid(NonZeroU64, u64),
    /// Every other string, the canonical UUIDs whose first half is zero among them. Twice indirect to be one word wide.
    Other(Arc<Box<str>>),
}

/// Bytes of a UUID in its canonical form.
const CANONICAL: usize = 36;

impl PodUid {
    fn parse(text: &str) -> Option<Repr> {
        let bytes: &[u8; CANONICAL] = text.as_bytes().try_into().ok()?;
        let mut value: u128 = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if is_hyphen(at) {
                if byte != b'-' {
                    return None;
                }
                continue;
            }
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => return None,
            };
            value = value * 16 + u128::from(digit);
        }
        let [high, low] = halves(value);
        Some(Repr::Uuid(NonZeroU64::new(high)?, low))
    }

    /// Calls `read` with the UID as a string, without an allocation.
    fn with_str<T>(&self, read: impl FnOnce(&str) -> T) -> T {
        match &self.0 {
            Repr::Other(text) => read(text),
            Repr::Uuid(high, low) => {
                let mut digits = whole(*high, *low).rotate_left(4);
                let mut text = [b'-'; CANONICAL];
                for (at, byte) in text.iter_mut().enumerate() {
                    if !is_hyphen(at) {
                        *byte = b"0123456789abcdef"[usize::from(digits.to_le_bytes()[0] & 0xf)];
                        digits = digits.rotate_left(4);
                    }
                }
                // Only hyphens and hexadecimal digits stand in it, so it is always UTF-8.
                read(std::str::from_utf8(&text).unwrap_or_default())
            }
        }
    }
}

/// Whether a canonical UUID has a hyphen there.
const fn is_hyphen(at: usize) -> bool {
    matches!(at, 8 | 13 | 18 | 23)
}

/// The upper and the lower 64 bits.
fn halves(value: u128) -> [u64; 2] {
    let bytes = value.to_be_bytes();
    let (high, low) = bytes.split_at(8);
    [high, low].map(|half| half.iter().fold(0, |sum, &byte| sum * 256 + u64::from(byte)))
}

/// What [`halves`] took apart.
#[inline]
fn whole(high: NonZeroU64, low: u64) -> u128 {
    (u128::from(high.get()) << 64) + u128::from(low)
}

impl From<&str> for PodUid {
    fn from(text: &str) -> Self {
        Self(Self::parse(text).unwrap_or_else(|| Repr::Other(Arc::new(text.into()))))
    }
}

impl From<String> for PodUid {
    fn from(text: String) -> Self {
        Self(Self::parse(&text).unwrap_or_else(|| Repr::Other(Arc::new(text.into_boxed_str()))))
    }
}

impl FromStr for PodUid {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.into())
    }
}

impl PartialEq for PodUid {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Uuid(high, low), Repr::Uuid(other_high, other_low)) => (high, low) == (other_high, other_low),
            (Repr::Other(text), Repr::Other(other_text)) => text == other_text,
            // A string is held in one way only.
            (Repr::Uuid(..), Repr::Other(_)) | (Repr::Other(_), Repr::Uuid(..)) => false,
        }
    }
}

impl Eq for PodUid {}

impl Hash for PodUid {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            // At once, which is one multiplication.
            Repr::Uuid(high, low) => state.write_u128(whole(*high, *low)),
            Repr::Other(text) => text.hash(state),
        }
    }
}

impl PartialOrd for PodUid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PodUid {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            // The order of the digits is that of the characters.
            (Repr::Uuid(high, low), Repr::Uuid(other_high, other_low)) => (high, low).cmp(&(other_high, other_low)),
            _ => self.with_str(|text| other.with_str(|other_text| text.cmp(other_text))),
        }
    }
}

impl fmt::Display for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_str(|text| f.pad(text))
    }
}

impl fmt::Debug for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_str(|text| fmt::Debug::fmt(text, f))
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for PodUid {
    fn serialize<T: serde::Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        self.with_str(|text| serializer.serialize_str(text))
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for PodUid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = PodUid;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a pod's UID as a string")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<PodUid, E> {
                Ok(text.into())
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests;
