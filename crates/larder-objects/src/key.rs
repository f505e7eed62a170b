//! The name of an object: its namespace and its name in one small allocation that clones share.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A namespace and a name; clones share the text.
///
/// Any two strings make a key, and no two different pairs make equal keys.
///
/// ```
/// use larder_objects::ObjectKey;
///
/// let key = ObjectKey::new("kube-system", "registry");
/// assert_eq!((key.namespace(), key.name()), ("kube-system", "registry"));
/// assert_eq!(key.to_string(), "kube-system/registry");
/// assert_ne!(ObjectKey::new("a/b", "c"), ObjectKey::new("a", "b/c"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ObjectKey {
    /// The namespace's length in bytes, as [`push_len`] writes it, then the namespace, then the name.
    text: Arc<str>,
}

/// Bits of a length that one byte of it carries. With bit 6 for 'more follows', every byte stays ASCII and so the whole
/// stays a `str`.
const LEN_BITS: u32 = 6;
const MORE: u8 = 1 << LEN_BITS;

/// Appends a length, its lowest bits first.
pub(crate) fn push_len(out: &mut String, mut len: usize) {
    loop {
        let low = (len & usize::from(MORE - 1)).to_le_bytes()[0];
        len >>= LEN_BITS;
        if len == 0 {
            out.push(char::from(low));
            return;
        }
        out.push(char::from(low | MORE));
    }
}

/// Splits a text that begins with a length into the part of that length and the rest.
///
/// Both are empty for a text that [`push_len`] did not begin, which none of this crate is.
pub(crate) fn split_len(text: &str) -> (&str, &str) {
    let (mut len, mut shift) = (0_usize, 0);
    for (at, byte) in text.bytes().enumerate() {
        len |= usize::from(byte & (MORE - 1)) << shift;
        if byte & MORE == 0 {
            return text.get(at + 1..).and_then(|rest| rest.split_at_checked(len)).unwrap_or_default();
        }
        shift += LEN_BITS;
    }
    Default::default()
}

/// Hashes texts one after another, so that where one ends and the next begins counts.
#[inline]
pub(crate) fn hash_parts<H: Hasher>(parts: impl IntoIterator<Item = impl AsRef<str>>, state: &mut H) {
    for part in parts {
        state.write(part.as_ref().as_bytes());
        // No byte of UTF-8.
        state.write_u8(0xff);
    }
}

impl ObjectKey {
    /// The key of an object. Allocates once.
    pub fn new(namespace: &str, name: &str) -> Self {
        let mut text = String::with_capacity(namespace.len() + name.len() + 2);
        push_len(&mut text, namespace.len());
        text.push_str(namespace);
        text.push_str(name);
        Self { text: text.into() }
    }

    /// The object's namespace.
    pub fn namespace(&self) -> &str {
        split_len(&self.text).0
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        split_len(&self.text).1
    }

    /// Whether this is the key of that namespace and name; compares without allocating.
    ///
    /// ```
    /// # use larder_objects::ObjectKey;
    /// assert!(ObjectKey::new("a", "x").is("a", "x"));
    /// assert!(!ObjectKey::new("a", "x").is("a", "y"));
    /// ```
    #[inline]
    pub fn is(&self, namespace: &str, name: &str) -> bool {
        // Namespaces are short: their length is one byte. This is in every read's way.
        if namespace.len() < usize::from(MORE)
            && let Some((len, text)) = self.text.as_bytes().split_first()
        {
            return usize::from(*len) == namespace.len()
                && text.len() == namespace.len() + name.len()
                && text.starts_with(namespace.as_bytes())
                && text.ends_with(name.as_bytes());
        }
        split_len(&self.text) == (namespace, name)
    }
}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_parts([self.namespace(), self.name()], state);
    }
}

impl Ord for ObjectKey {
    /// By namespace, then by name.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        split_len(&self.text).cmp(&split_len(&other.text))
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = split_len(&self.text);
        write!(f, "{namespace}/{name}")
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = split_len(&self.text);
        write!(f, "{namespace:?}/{name:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_two_strings_come_back() {
        let long = "n".repeat(5_000);
        for (namespace, name) in
            [("", ""), ("", "x"), ("a", ""), ("ä/ö", "\u{1}日本"), (&*long, "x"), ("\u{3f}@", &*long)]
        {
            let key = ObjectKey::new(namespace, name);
            assert_eq!((key.namespace(), key.name()), (namespace, name));
            assert!(key.is(namespace, name));
        }
        for len in [0, 1, 63, 64, 65, 4_095, 4_096, 262_143, 262_144] {
            let part = "x".repeat(len);
            assert_eq!(ObjectKey::new(&part, "n").namespace().len(), len);
        }
    }

    #[test]
    fn different_pairs_are_different_keys() {
        let pairs = [("a", "bc"), ("ab", "c"), ("abc", ""), ("", "abc"), ("a/b", "c"), ("a", "b/c")];
        for (at, one) in pairs.iter().enumerate() {
            for other in &pairs[at + 1..] {
                assert_ne!(ObjectKey::new(one.0, one.1), ObjectKey::new(other.0, other.1));
                assert!(!ObjectKey::new(one.0, one.1).is(other.0, other.1));
            }
        }
    }

    #[test]
    fn keys_are_ordered_by_namespace_then_name() {
        let mut keys = [("b", "a"), ("a", "b"), ("aa", "a"), ("a", "a")].map(|(ns, name)| ObjectKey::new(ns, name));
        keys.sort();
        assert_eq!(keys.map(|key| key.to_string()), ["a/a", "a/b", "aa/a", "b/a"]);
    }
}
