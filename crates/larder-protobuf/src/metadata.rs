//! The metadata of objects and lists, read out of protobuf without the rest of the object.

use crate::error::{Fault, Problem, ProtobufError};
use crate::schema::Message;
use crate::time;
use crate::wire::{self, Cursor, LEN, Scalar, Span, VARINT};
use std::borrow::Cow;

/// The metadata of an object, out of its protobuf. Nothing is copied but strings that are no UTF-8.
///
/// ```
/// use larder_protobuf::{Message, Metadata, json_to_protobuf};
/// let json = br#"{"metadata":{"namespace":"shop","name":"web","uid":"u1","resourceVersion":"7","labels":{"app":"web"}}}"#;
/// let pod = json_to_protobuf(Message::Pod, json)?.bytes;
/// let metadata = Metadata::read(Message::Pod, &pod)?;
/// assert_eq!((&*metadata.namespace, &*metadata.name, &*metadata.uid), ("shop", "web", "u1"));
/// assert_eq!(metadata.resource_version, "7");
/// let labels: Vec<_> = metadata.labels.iter().collect();
/// assert_eq!(labels, [("app".into(), "web".into())]);
/// # Ok::<(), larder_protobuf::ProtobufError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata<'a> {
    /// The namespace; empty for a node.
    pub namespace: Cow<'a, str>,
    /// The name.
    pub name: Cow<'a, str>,
    /// The UID.
    pub uid: Cow<'a, str>,
    /// The version.
    pub resource_version: Cow<'a, str>,
    /// The generation; 0 where there is none.
    pub generation: i64,
    /// When it was created, in seconds since 1970.
    pub created: Option<i64>,
    /// When it is to be deleted, in seconds since 1970.
    pub deleted: Option<i64>,
    /// The labels.
    pub labels: Pairs<'a>,
    /// The annotations.
    pub annotations: Pairs<'a>,
}

impl<'a> Metadata<'a> {
    /// Reads the metadata of an object. The rest of the object is passed over, and not checked.
    ///
    /// # Errors
    ///
    /// The bytes are not the protobuf of such an object as far as they are read, or the message is no object.
    pub fn read(message: Message, protobuf: &'a [u8]) -> Result<Self, ProtobufError> {
        let read = || {
            if message.is_list() || matches!(message, Message::Status | Message::WatchEvent) {
                return Err(Fault::new(Problem::OtherKind, 0));
            }
            Self::of(protobuf, find(Cursor::whole(protobuf), 1)?)
        };
        read().map_err(|fault| in_metadata(message, &fault))
    }

    fn of(input: &'a [u8], span: Span) -> Result<Self, Fault> {
        let mut metadata = Self::default();
        let (mut labels, mut annotations) = (Span::default(), Span::default());
        let mut cursor = Cursor::new(input, span);
        while !cursor.is_at_end() {
            let (number, wire) = cursor.tag()?;
            let start = cursor.at;
            match (number, wire) {
                (1 | 3 | 5 | 6, LEN) => {
                    let text = text(cursor.span()?.of(input));
                    match number {
                        1 => metadata.name = text,
                        3 => metadata.namespace = text,
                        5 => metadata.uid = text,
                        _ => metadata.resource_version = text,
                    }
                }
                (7, VARINT) => metadata.generation = cursor.varint()?.cast_signed(),
                (8 | 9, LEN) => {
                    let seconds = seconds(Cursor::new(input, cursor.span()?))?;
                    *(if number == 8 { &mut metadata.created } else { &mut metadata.deleted }) = seconds;
                }
                (11 | 12, LEN) => {
                    pair(input, cursor.span()?)?;
                    let pairs = if number == 11 { &mut labels } else { &mut annotations };
                    *pairs = Span { start: if pairs.is_empty() { start } else { pairs.start }, end: cursor.at };
                }
                (1 | 3 | 5..=9 | 11 | 12, _) => return Err(cursor.fault(Problem::WireType(wire))),
                _ => cursor.skip(wire)?,
            }
        }
        metadata.labels = Pairs { input, span: labels, number: 11 };
        metadata.annotations = Pairs { input, span: annotations, number: 12 };
        Ok(metadata)
    }
}

/// The labels or annotations of an object, in the order in which they stand: that of their keys, if a Go program wrote them.
#[derive(Clone, Copy, Default)]
pub struct Pairs<'a> {
    input: &'a [u8],
    /// From behind the tag of the first pair to the end of the last one. All of it is known to be right.
    span: Span,
    number: u32,
}

impl<'a> Pairs<'a> {
    /// Each key with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> + use<'a> {
        let Self { input, span, number } = *self;
        let mut cursor = Cursor::new(input, span);
        let mut is_first = true;
        std::iter::from_fn(move || {
            while !cursor.is_at_end() {
                let (found, wire) = if std::mem::take(&mut is_first) { (number, LEN) } else { cursor.tag().ok()? };
                if found == number {
                    let (key, value) = pair(input, cursor.span().ok()?).ok()?;
                    return Some((text(key.of(input)), text(value.of(input))));
                }
                cursor.skip(wire).ok()?;
            }
            None
        })
    }
}

impl std::fmt::Debug for Pairs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // An annotation may hold a copy of a Secret.
        f.debug_list().entries(self.iter().map(|(key, _)| key)).finish()
    }
}

impl PartialEq for Pairs<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Pairs<'_> {}

/// The metadata of a list, and its items.
///
/// ```
/// use larder_protobuf::{ListMetadata, Message, Metadata, json_to_protobuf};
/// let json = br#"{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}"#;
/// let list = json_to_protobuf(Message::PodList, json)?.bytes;
/// let metadata = ListMetadata::read(Message::PodList, &list)?;
/// assert_eq!(metadata.resource_version, "9");
/// for (item, name) in metadata.items.iter().zip(["a", "b"]) {
///     assert_eq!(Metadata::read(Message::Pod, item)?.name, name);
/// }
/// # Ok::<(), larder_protobuf::ProtobufError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListMetadata<'a> {
    /// The version of the list.
    pub resource_version: Cow<'a, str>,
    /// The token for the next page; empty at the last.
    pub continue_token: Cow<'a, str>,
    /// The objects.
    pub items: Items<'a>,
}

impl<'a> ListMetadata<'a> {
    /// Reads the metadata of a list. The items are passed over, and not checked.
    ///
    /// # Errors
    ///
    /// The bytes are not the protobuf of such a list as far as they are read, or the message is no list.
    pub fn read(message: Message, protobuf: &'a [u8]) -> Result<Self, ProtobufError> {
        let read = || {
            if !message.is_list() {
                return Err(Fault::new(Problem::OtherKind, 0));
            }
            let mut metadata = Span::default();
            let mut cursor = Cursor::whole(protobuf);
            while !cursor.is_at_end() {
                match cursor.tag()? {
                    (1, LEN) => metadata = cursor.span()?,
                    (2, LEN) => drop(cursor.span()?),
                    (1 | 2, wire) => return Err(cursor.fault(Problem::WireType(wire))),
                    (_, wire) => cursor.skip(wire)?,
                }
            }
            let resource_version = text(find(Cursor::new(protobuf, metadata), 2)?.of(protobuf));
            let continue_token = text(find(Cursor::new(protobuf, metadata), 3)?.of(protobuf));
            Ok(Self { resource_version, continue_token, items: Items { input: protobuf } })
        };
        read().map_err(|fault| in_metadata(message, &fault))
    }
}

/// The objects of a list, each in protobuf without an envelope.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Items<'a> {
    /// The list, whose fields are known to be right.
    input: &'a [u8],
}

impl<'a> Items<'a> {
    /// Each object, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let input = self.input;
        let mut cursor = Cursor::whole(input);
        std::iter::from_fn(move || {
            while !cursor.is_at_end() {
                let (number, wire) = cursor.tag().ok()?;
                if number == 2 {
                    return Some(cursor.span().ok()?.of(input));
                }
                cursor.skip(wire).ok()?;
            }
            None
        })
    }
}

impl std::fmt::Debug for Items<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} items", self.iter().count())
    }
}

/// The value of a field that has a length before it; empty if the field is absent.
fn find(mut cursor: Cursor<'_>, wanted: u32) -> Result<Span, Fault> {
    let mut found = Span::default();
    while !cursor.is_at_end() {
        match cursor.tag()? {
            (number, LEN) if number == wanted => found = cursor.span()?,
            (number, wire) if number == wanted => return Err(cursor.fault(Problem::WireType(wire))),
            (_, wire) => cursor.skip(wire)?,
        }
    }
    Ok(found)
}

fn pair(input: &[u8], span: Span) -> Result<(Span, Span), Fault> {
    let cursor = Cursor::new(input, span);
    let ([key, value], _) = wire::small(cursor, [LEN; 2])?;
    let key = key.ok_or(cursor.fault(Problem::NoKey))?;
    Ok((key.bytes(), value.map(Scalar::bytes).unwrap_or_default()))
}

fn seconds(cursor: Cursor<'_>) -> Result<Option<i64>, Fault> {
    if cursor.is_at_end() {
        return Ok(None);
    }
    let ([seconds, _], _) = wire::small(cursor, [VARINT; 2])?;
    let seconds = seconds.map_or(0, Scalar::number).cast_signed();
    Ok(Some(seconds).filter(|seconds| *seconds != time::ZERO))
}

/// As JSON has it, but that a row of bad bytes may be one U+FFFD.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn in_metadata(message: Message, fault: &Fault) -> ProtobufError {
    ProtobufError::Protobuf { message, path: "metadata".to_owned(), byte: fault.byte, problem: fault.problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_to_protobuf;

    #[test]
    fn metadata_is_read_out_of_any_object() {
        let json = br#"{"metadata":{"name":"n","generateName":"g","namespace":"ns","uid":"u","resourceVersion":"5","generation":3,
            "creationTimestamp":"1970-01-01T00:00:07Z","deletionTimestamp":"1970-01-01T00:00:08Z","labels":{"b":"2","a":"1"},
            "annotations":{"k":""},"finalizers":["f"]}}"#;
        for message in Message::ALL.into_iter().filter(|message| !message.is_list()) {
            if matches!(message, Message::Status | Message::WatchEvent) {
                assert!(Metadata::read(message, b"").is_err());
                continue;
            }
            let object = json_to_protobuf(message, json).unwrap().bytes;
            let metadata = Metadata::read(message, &object).unwrap();
            assert_eq!((&*metadata.name, &*metadata.namespace, &*metadata.uid), ("n", "ns", "u"));
            assert_eq!((&*metadata.resource_version, metadata.generation), ("5", 3));
            assert_eq!((metadata.created, metadata.deleted), (Some(7), Some(8)));
            let pairs =
                |pairs: Pairs<'_>| pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>();
            assert_eq!(
                (pairs(metadata.labels), pairs(metadata.annotations)),
                (vec!["a=1".into(), "b=2".into()], vec!["k=".into()])
            );
            assert_eq!(format!("{:?}", metadata.labels), r#"["a", "b"]"#);
        }
        assert_eq!(Metadata::read(Message::Pod, b"").unwrap(), Metadata::default());
    }

    #[test]
    fn a_list_has_its_items_wherever_they_stand() {
        // An item, the metadata, a field of a later version, an item.
        let list = b"\x12\x01a\x0a\x08\x12\x019\x1a\x03tok\x18\x07\x12\x00";
        let metadata = ListMetadata::read(Message::PodList, list).unwrap();
        assert_eq!((&*metadata.resource_version, &*metadata.continue_token), ("9", "tok"));
        assert_eq!(metadata.items.iter().collect::<Vec<_>>(), [&b"a"[..], b""]);
        assert!(ListMetadata::read(Message::Pod, list).is_err());
        for len in [1, 2, 4, 12, 14, 16] {
            assert!(ListMetadata::read(Message::PodList, &list[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn bad_metadata_names_its_place() {
        let error = Metadata::read(Message::Pod, b"\x0a\x02\x08\x01").unwrap_err();
        assert_eq!(
            error.to_string(),
            "protobuf of a Pod: metadata, at byte 3: the field has wire type 0, which is not its own"
        );
        let error = Metadata::read(Message::Pod, b"\x0a\x04\x5a\x02\x12\x00").unwrap_err();
        assert_eq!(error.to_string(), "protobuf of a Pod: metadata, at byte 4: an entry of a map has no key");
    }
}
