//! The table of the Go types, and how it is read.
//!
//! The table has no pointers, so the dynamic linker does not touch it at the start: its pages are read from the program's file when an
//! object is transcoded, and never before.

#[rustfmt::skip]
mod table;

use crate::wire::{LEN, VARINT};
use std::fmt;
use table::{BY_NUMBER, FIELDS, NAMES, ROOTS, TYPES};

/// A kind of message: objects, their lists, and what the API server sends beside objects. As k8s.io/api 0.37.2 has them.
///
/// ```
/// use larder_protobuf::Message;
/// assert_eq!(Message::of("v1", "PodList"), Some(Message::PodList));
/// assert_eq!(Message::of("apps/v1", "Deployment"), None);
/// assert_eq!((Message::Pod.api_version(), Message::Pod.kind()), ("v1", "Pod"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// `v1/Secret`
    Secret,
    /// `v1/SecretList`
    SecretList,
    /// `v1/ConfigMap`
    ConfigMap,
    /// `v1/ConfigMapList`
    ConfigMapList,
    /// `v1/Pod`
    Pod,
    /// `v1/PodList`
    PodList,
    /// `v1/Node`
    Node,
    /// `v1/NodeList`
    NodeList,
    /// `v1/Namespace`
    Namespace,
    /// `v1/NamespaceList`
    NamespaceList,
    /// `v1/Status`
    Status,
    /// `meta.k8s.io/v1/PartialObjectMetadata`
    PartialObjectMetadata,
    /// `meta.k8s.io/v1/PartialObjectMetadataList`
    PartialObjectMetadataList,
    /// An event of a watch. It has neither kind nor version, and no envelope.
    WatchEvent,
}

impl Message {
    /// Every message, in the order of the table.
    pub const ALL: [Self; 14] = [
        Self::Secret,
        Self::SecretList,
        Self::ConfigMap,
        Self::ConfigMapList,
        Self::Pod,
        Self::PodList,
        Self::Node,
        Self::NodeList,
        Self::Namespace,
        Self::NamespaceList,
        Self::Status,
        Self::PartialObjectMetadata,
        Self::PartialObjectMetadataList,
        Self::WatchEvent,
    ];

    /// The message of this version and kind. A [`WatchEvent`](Self::WatchEvent) has neither.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        let is_it = |message: &Self| message.kind() == kind && message.api_version() == api_version;
        Self::ALL.into_iter().find(|message| message.is_typed() && is_it(message))
    }

    /// The version with its group, such as `v1`.
    pub const fn api_version(self) -> &'static str {
        self.root().0
    }

    /// The kind, such as `PodList`.
    pub const fn kind(self) -> &'static str {
        self.root().1
    }

    /// Whether it is a list of objects.
    ///
    /// ```
    /// use larder_protobuf::Message;
    /// assert!(Message::PodList.is_list() && !Message::Pod.is_list());
    /// ```
    pub const fn is_list(self) -> bool {
        match self {
            Self::SecretList
            | Self::ConfigMapList
            | Self::PodList
            | Self::NodeList
            | Self::NamespaceList
            | Self::PartialObjectMetadataList => true,
            Self::Secret
            | Self::ConfigMap
            | Self::Pod
            | Self::Node
            | Self::Namespace
            | Self::Status
            | Self::PartialObjectMetadata
            | Self::WatchEvent => false,
        }
    }

    /// Whether its JSON has kind and version.
    pub(crate) const fn is_typed(self) -> bool {
        !matches!(self, Self::WatchEvent)
    }

    pub(crate) const fn place(self) -> u16 {
        self.root().2
    }

    const fn root(self) -> (&'static str, &'static str, u16) {
        ROOTS[self as usize]
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    Int32,
    Int64,
    String,
    Bytes,
    /// A `metav1.Time`: a message with seconds.
    Time,
    /// A message with a string.
    Quantity,
    IntOrString,
    /// A message with JSON: `metav1.FieldsV1`.
    RawJson,
    /// A message with JSON, or with an envelope.
    RawExtension,
    /// The type at this place.
    Message(u16),
}

impl Type {
    /// The wire type of one value.
    pub(crate) const fn wire(self) -> u8 {
        match self {
            Self::Bool | Self::Int32 | Self::Int64 => VARINT,
            Self::String
            | Self::Bytes
            | Self::Time
            | Self::Quantity
            | Self::IntOrString
            | Self::RawJson
            | Self::RawExtension
            | Self::Message(_) => LEN,
        }
    }
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One, which is the zero of its type where it is absent.
    Value,
    /// One or none.
    Pointer,
    List,
    Map,
}

/// When Go's JSON leaves a field out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Omit {
    Never,
    /// `omitempty`
    Empty,
    /// `omitzero`, also where `omitempty` stands beside it.
    Zero,
}

/// A field of a Go type.
#[derive(Debug)]
pub(crate) struct Field {
    name: u16,
    name_len: u8,
    number: u8,
    pub(crate) shape: Shape,
    pub(crate) omit: Omit,
    pub(crate) kind: Type,
}

impl Field {
    const fn new(name: u16, name_len: u8, number: u8, shape: Shape, omit: Omit, kind: Type) -> Self {
        Self { name, name_len, number, shape, omit, kind }
    }

    pub(crate) fn name(&self) -> &'static str {
        let start = usize::from(self.name);
        NAMES.get(start..start + usize::from(self.name_len)).unwrap_or_default()
    }

    pub(crate) fn number(&self) -> u32 {
        u32::from(self.number)
    }

    /// Whether the fields of the message stand among those of the outer one in JSON.
    pub(crate) fn is_inlined(&self) -> bool {
        self.name_len == 0
    }
}

/// Where the fields of a type stand.
struct Range {
    first: u16,
    count: u8,
}

impl Range {
    fn of<T>(&self, table: &'static [T]) -> &'static [T] {
        let first = usize::from(self.first);
        table.get(first..first + usize::from(self.count)).unwrap_or_default()
    }
}

/// The fields of a type, in the order of Go's JSON.
pub(crate) fn fields(place: u16) -> &'static [Field] {
    TYPES.get(usize::from(place)).map_or(&[], |range| range.of(&FIELDS))
}

/// The places of a type's fields among them, by ascending number.
pub(crate) fn by_number(place: u16) -> &'static [u8] {
    TYPES.get(usize::from(place)).map_or(&[], |range| range.of(&BY_NUMBER))
}

/// Whether objects of the type may have `kind` and `apiVersion` in JSON.
pub(crate) fn is_object(place: u16) -> bool {
    Message::ALL.iter().any(|message| message.is_typed() && message.place() == place)
}

/// The field for which this holds. What comes next in a message is most often at the hint, or behind it.
pub(crate) fn find(fields: &[Field], hint: usize, matches: impl Fn(&Field) -> bool) -> Option<usize> {
    let is_there = |place: usize| fields.get(place).is_some_and(&matches);
    if is_there(hint) {
        return Some(hint);
    }
    if is_there(hint + 1) {
        return Some(hint + 1);
    }
    fields.iter().position(matches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_messages_are_in_the_order_of_the_table() {
        for (at, message) in Message::ALL.into_iter().enumerate() {
            assert_eq!(message as usize, at);
            assert_eq!(format!("{message:?}"), message.kind());
            assert_eq!(Message::of(message.api_version(), message.kind()), message.is_typed().then_some(message));
            assert_eq!(message.is_list(), message.kind().ends_with("List"));
            assert!(!fields(message.place()).is_empty());
        }
        assert_eq!(ROOTS.len(), Message::ALL.len());
    }

    #[test]
    fn each_type_has_its_fields_by_name_and_by_number() {
        for place in 0..u16::try_from(TYPES.len()).unwrap() {
            let numbers: Vec<u32> =
                by_number(place).iter().map(|at| fields(place)[usize::from(*at)].number()).collect();
            assert!(numbers.is_sorted_by(|a, b| a < b), "{place}: {numbers:?}");
            assert_eq!(numbers.len(), fields(place).len());
            for field in fields(place) {
                assert!(field.name().bytes().all(|byte| byte.is_ascii_alphanumeric()), "{field:?}");
                assert!(!matches!(field.kind, Type::Message(of) if usize::from(of) >= TYPES.len()));
            }
        }
        let names: Vec<&str> = fields(Message::Pod.place()).iter().map(Field::name).collect();
        assert_eq!(names, ["metadata", "spec", "status"]);
    }

    /// The depth of protobuf is bounded because no type is within itself.
    #[test]
    fn no_type_is_within_itself() {
        fn depth(place: u16, outer: &mut HashSet<u16>) -> usize {
            assert!(outer.insert(place), "the type at {place} is within itself");
            let inner = fields(place).iter().filter_map(|field| match field.kind {
                Type::Message(of) => Some(of),
                _ => None,
            });
            let deepest = inner.map(|of| depth(of, outer)).max().unwrap_or_default();
            outer.remove(&place);
            deepest + 1
        }
        for message in Message::ALL {
            assert!(depth(message.place(), &mut HashSet::new()) < 16);
        }
    }

    #[test]
    fn the_table_is_small() {
        let bytes = size_of_val(&FIELDS) + size_of_val(&TYPES) + size_of_val(&BY_NUMBER) + NAMES.len();
        assert!(bytes < 16 << 10, "{bytes}");
    }
}
