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
/// // An object outside of namespaces, such as a node.
/// assert_eq!(ObjectKey::new("", "edge-1").to_string(), "edge-1");
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
fn push_len(out: &mut String, mut len: usize) {
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

/// Appends a part with its length before it.
pub(crate) fn push_part(out: &mut String, part: &str) {
    push_len(out, part.len());
    out.push_str(part);
}

/// The number of bytes that [`push_part`] appends.
pub(crate) const fn len_of_part(part: &str) -> usize {
    len_of_len(part.len()) + part.len()
}

/// The number of bytes that [`push_len`] appends.
const fn len_of_len(len: usize) -> usize {
    match usize::BITS - len.leading_zeros() {
        0 => 1,
        bits => bits.div_ceil(LEN_BITS) as usize,
    }
}

/// Splits a text that begins with a [part](push_part) into that part and the rest.
///
/// Both are empty for a text that does not begin with one, which none of this crate is.
#[inline]
pub(crate) fn split_len(text: &str) -> (&str, &str) {
    match text.as_bytes().first() {
        // The parts of a key are short as a rule, and this is in every look-up's way.
        Some(&len) if len < MORE => split_after(text, 1, len.into()),
        _ => split_long(text),
    }
}

#[cold]
fn split_long(text: &str) -> (&str, &str) {
    let (mut len, mut shift) = (0_usize, 0);
    for (at, byte) in text.bytes().enumerate() {
        len |= usize::from(byte & (MORE - 1)) << shift;
        if byte & MORE == 0 {
            return split_after(text, at + 1, len);
        }
        shift += LEN_BITS;
    }
    Default::default()
}

#[inline]
fn split_after(text: &str, start: usize, len: usize) -> (&str, &str) {
    text.get(start..).and_then(|rest| rest.split_at_checked(len)).unwrap_or_default()
}

/// What follows after a [part](push_part), if the text begins with it.
#[inline]
pub(crate) fn strip_part<'t>(text: &'t [u8], part: &str) -> Option<&'t [u8]> {
    match text.split_first() {
        Some((&len, rest)) if len < MORE => {
            if usize::from(len) == part.len() {
                rest.strip_prefix(part.as_bytes())
            } else {
                None
            }
        }
        Some(_) => strip_long(text, part),
        None => None,
    }
}

#[cold]
fn strip_long<'t>(text: &'t [u8], part: &str) -> Option<&'t [u8]> {
    let mut len = String::new();
    push_len(&mut len, part.len());
    text.strip_prefix(len.as_bytes())?.strip_prefix(part.as_bytes())
}

/// Hashes texts one after another. Where one ends and the next begins counts: foldhash, which hashes all keys here, folds
/// each text in by itself and with its length.
#[inline]
pub(crate) fn hash_parts<H: Hasher>(parts: impl IntoIterator<Item = impl AsRef<str>>, state: &mut H) {
    for part in parts {
        state.write(part.as_ref().as_bytes());
    }
}

impl ObjectKey {
    /// The key of an object.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self::new_in(namespace, name, &mut String::new())
    }

    /// The key of an object, put together in a buffer that the next one can use again: an `Arc<str>` can only be copied
    /// from what it is to hold.
    pub(crate) fn new_in(namespace: &str, name: &str, buffer: &mut String) -> Self {
        buffer.clear();
        buffer.reserve(len_of_part(namespace) + name.len());
        push_part(buffer, namespace);
        buffer.push_str(name);
        Self { text: buffer.as_str().into() }
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
        strip_part(self.text.as_bytes(), namespace) == Some(name.as_bytes())
    }
}

impl Hash for ObjectKey {
    #[inline]
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
        if namespace.is_empty() { f.write_str(name) } else { write!(f, "{namespace}/{name}") }
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
    use std::hash::BuildHasher;

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
            let mut prefix = String::new();
            push_len(&mut prefix, len);
            assert_eq!(len_of_len(len), prefix.len(), "{len}");
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
    fn a_part_is_stripped_only_where_the_text_begins_with_it() {
        for len in [0, 1, 63, 64, 65, 4_095, 4_096] {
            let part = "x".repeat(len);
            let mut text = String::new();
            push_part(&mut text, &part);
            assert_eq!(len_of_part(&part), text.len());
            text.push_str("rest");
            assert_eq!(split_len(&text), (&*part, "rest"));
            assert_eq!(strip_part(text.as_bytes(), &part), Some(&b"rest"[..]));
            for other in [format!("{part}x"), part.replacen('x', "y", 1), "z".repeat(len + 64), "z".to_owned()] {
                assert_eq!(
                    strip_part(text.as_bytes(), &other),
                    (other == part).then_some(&b"rest"[..]),
                    "{len}, {other}"
                );
            }
        }
        assert_eq!(strip_part(b"", "x"), None);
        // What no key begins with.
        for broken in ["", "\u{5}abc", "@", "@@", "\u{1}ä", "ä"] {
            assert_eq!(split_len(broken), ("", ""), "{broken:?}");
        }
    }

    #[test]
    fn where_one_part_ends_counts_in_the_hash() {
        let hasher = foldhash::fast::FixedState::default();
        let hash = |namespace, name| hasher.hash_one(ObjectKey::new(namespace, name));
        assert_eq!(hash("a", "bc"), hash("a", "bc"));
        assert_ne!(hash("a", "bc"), hash("ab", "c"));
        assert_ne!(hash("a", "bc"), hash("a", "bd"));
    }

    #[test]
    fn a_key_is_printed_as_namespace_and_name() {
        let key = ObjectKey::new("a", "x");
        assert_eq!((key.to_string(), format!("{key:?}")), ("a/x".to_owned(), "\"a\"/\"x\"".to_owned()));
        assert_eq!(key.partial_cmp(&ObjectKey::new("a", "y")), Some(std::cmp::Ordering::Less));
    }

    #[test]
    fn keys_are_ordered_by_namespace_then_name() {
        let mut keys = [("b", "a"), ("a", "b"), ("aa", "a"), ("a", "a")].map(|(ns, name)| ObjectKey::new(ns, name));
        keys.sort();
        assert_eq!(keys.map(|key| key.to_string()), ["a/a", "a/b", "aa/a", "b/a"]);
    }
}
