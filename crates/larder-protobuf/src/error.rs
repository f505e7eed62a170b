//! The errors. None quotes a value.

use crate::schema::{Field, Message};
use std::fmt::Write as _;

/// Why bytes are not what they should be.
///
/// ```
/// use larder_protobuf::{Message, protobuf_to_json};
/// let error = protobuf_to_json(Message::Secret, b"\x0a\x05\x0a\x04ab").unwrap_err();
/// assert_eq!(error.to_string(), "protobuf of a Secret: metadata, at byte 1: a value is longer than what it is in");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtobufError {
    /// The bytes are not the protobuf of such a message.
    #[error("protobuf of a {message}: {place}: {problem}", place = place(path, *byte))]
    Protobuf {
        /// What the bytes should be.
        message: Message,
        /// The way to the field, such as `spec.containers[1].env`; empty at the message itself.
        path: String,
        /// Where in the bytes the problem is.
        byte: usize,
        /// What is wrong.
        problem: Problem,
    },
    /// The bytes are not the JSON of such a message.
    #[error("JSON of a {message}: {place}: {problem}", place = place(path, *byte))]
    Json {
        /// What the bytes should be.
        message: Message,
        /// The way to the field, such as `spec.containers[1].env`; empty at the message itself.
        path: String,
        /// Where in the bytes the problem is.
        byte: usize,
        /// What is wrong.
        problem: Problem,
    },
    /// The bytes begin otherwise than protobuf of Kubernetes.
    #[error("protobuf of Kubernetes begins with `k8s` and a zero, and these bytes do not")]
    NoEnvelope,
    /// The envelope is malformed.
    #[error("the envelope of an object in protobuf: at byte {byte}: {problem}")]
    Envelope {
        /// Where in the bytes the problem is.
        byte: usize,
        /// What is wrong.
        problem: Problem,
    },
    /// A frame of a watch is longer than the bound.
    #[error("a frame of a watch has {length} bytes, more than the {most} that it may have")]
    FrameTooLong {
        /// The length that the frame announces.
        length: usize,
        /// The bound.
        most: usize,
    },
    /// A watch ended within a frame.
    #[error("the watch ended within a frame, after {bytes} bytes of it")]
    FrameIncomplete {
        /// How many bytes of the frame have come.
        bytes: usize,
    },
}

fn place(path: &str, byte: usize) -> String {
    if path.is_empty() { format!("at byte {byte}") } else { format!("{path}, at byte {byte}") }
}

/// What is wrong at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The bytes end within a value.
    #[error("the bytes end within a value")]
    Truncated,
    /// A value's length leads out of the message that the value is in.
    #[error("a value is longer than what it is in")]
    Length,
    /// A number of protobuf has more than ten bytes.
    #[error("a number has more than 64 bits")]
    Varint,
    /// A field has the number 0, or one beyond the largest of protobuf.
    #[error("no field can have this number")]
    Number,
    /// A field has another type on the wire than its own.
    #[error("the field has wire type {0}, which is not its own")]
    WireType(u8),
    /// A group of protobuf, which Kubernetes does not have.
    #[error("a group of protobuf, which objects of Kubernetes never have")]
    Group,
    /// A field that is no list, or the key of a map, stands twice.
    #[error("the field or the key stands twice")]
    Twice,
    /// An entry of a map has no key.
    #[error("an entry of a map has no key")]
    NoKey,
    /// A quantity such as `100m` is expected.
    #[error("it is no quantity, such as 100m or 1Gi")]
    Quantity,
    /// A time is expected.
    #[error("it is no time that RFC 3339 can have")]
    Time,
    /// The type of an `IntOrString` is neither.
    #[error("it is neither a number nor a string")]
    IntOrString,
    /// JSON within protobuf is expected.
    #[error("it is neither JSON nor protobuf of a known kind")]
    Raw,
    /// The JSON breaks the grammar.
    #[error("the JSON is broken: {0}")]
    Syntax(&'static str),
    /// The JSON is nested too deeply.
    #[error("the JSON is nested more than {0} levels deep")]
    Depth(usize),
    /// Another type of JSON is expected.
    #[error("it is not {0}")]
    Type(&'static str),
    /// The bytes are no UTF-8.
    #[error("the JSON is not UTF-8")]
    Utf8,
    /// The JSON is larger than its index can be.
    #[error("the JSON has 4 GiB or more")]
    Size,
    /// The object says that it is of another kind.
    #[error("the object is of another kind or version")]
    OtherKind,
}

/// A problem and its byte, before the way to it is known.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) problem: Problem,
    pub(crate) byte: usize,
}

impl Fault {
    pub(crate) fn new(problem: Problem, byte: usize) -> Self {
        Self { problem, byte }
    }
}

/// A step of the way to a field.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    Field(&'static Field),
    Index(usize),
}

/// The way to a field as text; what is inlined has no name.
pub(crate) fn path(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        // Writing to a string cannot fail.
        let _ = match step {
            Step::Field(field) if field.is_inlined() => Ok(()),
            Step::Field(field) if text.is_empty() => write!(text, "{}", field.name()),
            Step::Field(field) => write!(text, ".{}", field.name()),
            Step::Index(index) => write!(text, "[{index}]"),
        };
    }
    text
}

/// The way to a field by its name or number.
pub(crate) fn path_to(steps: &[Step], name: std::fmt::Arguments<'_>) -> String {
    let mut text = path(steps);
    let _ = if text.is_empty() { write!(text, "{name}") } else { write!(text, ".{name}") };
    text
}
