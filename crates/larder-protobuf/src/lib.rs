#![doc(test(attr(deny(warnings))))]
//! Objects of Kubernetes between protobuf and JSON, both as the API server writes them.
//!
//! Protobuf of Kubernetes is not what protobuf's own JSON mapping makes of it: a time is a message, a quantity a string, and which empty
//! fields are left out stands in the Go types alone. So this crate has a table of the Go types: of each field the name in JSON, the
//! number, the type, and when it is left out. The table is written from k8s.io/api by `cargo xtask differential --bless`.
//!
//! # Guarantees
//!
//! - *Equal JSON*: [`protobuf_to_json`] gives, byte by byte, what the API server's serializer gives of the same object, without the
//!   newline at the end. `cargo xtask differential` compares both with random objects, and with upstream's test data of several
//!   releases.
//! - *Equal protobuf*: [`json_to_protobuf`] gives what the API server's serializer gives, byte by byte.
//! - *No silent loss*: a field that the table does not have is in neither result. The result names the first one, so that the
//!   caller can fall back on the bytes that it has.
//! - *No panic*: bad input is an error that names its place, and no value.
//! - *Bounded*: the table has no type within itself, so the depth of protobuf is bounded by the types; JSON within an object has a bound of
//!   its own. A frame of a watch has the bound of [`Frames::new`].
//! - *Overwritten*: all buffers that had a value are overwritten when they are dropped or grow.
//!
//! # Limits
//!
//! - It has the kinds in [`Message`], in the version of `Message`'s documentation.
//! - JSON tells `null`, empty and absent apart, and protobuf does not: what goes through protobuf has `null` for an empty field that is
//!   always written. The `items` of a list are `[]`.
//! - A string that is no UTF-8 has U+FFFD for each bad byte in JSON, as Go writes it. Protobuf from a client may have such strings, and
//!   the API server does not refuse them.
//! - A quantity with more than 36 digits is refused.
//!
//! # Example
//!
//! ```
//! use larder_protobuf::{Envelope, Message, json_to_protobuf, protobuf_to_json};
//!
//! let json = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"settings"},"data":{"level":"info"}}"#;
//! let protobuf = json_to_protobuf(Message::ConfigMap, json)?;
//! assert_eq!(protobuf.unknown, None);
//!
//! let sent = Envelope::new(Message::ConfigMap, &protobuf.bytes).to_bytes();
//! let envelope = Envelope::parse(&sent)?;
//! assert_eq!(envelope.message(), Some(Message::ConfigMap));
//! assert_eq!(*protobuf_to_json(Message::ConfigMap, envelope.raw)?.bytes, json[..]);
//! # Ok::<(), larder_protobuf::ProtobufError>(())
//! ```

mod envelope;
mod error;
mod escape;
mod frames;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod metadata;
mod output;
mod quantity;
mod schema;
mod tape;
mod time;
mod to_json;
mod to_protobuf;
mod wire;

pub use envelope::{Envelope, MAGIC};
pub use error::{Problem, ProtobufError};
pub use frames::{Frames, WatchEvent};
pub use metadata::{Items, ListMetadata, Metadata, Pairs};
pub use schema::Message;
pub use to_json::protobuf_to_json;
pub use to_protobuf::json_to_protobuf;
use zeroize::Zeroizing;

/// An object in its new form.
#[derive(Debug)]
pub struct Transcoded {
    /// The object. The bytes are overwritten when they are dropped.
    pub bytes: Zeroizing<Vec<u8>>,
    /// The first field that the table does not have. It is not in the bytes.
    pub unknown: Option<Unknown>,
}

/// A field that the table does not have, such as one of a newer API server.
///
/// ```
/// use larder_protobuf::{Message, json_to_protobuf};
/// let pod = json_to_protobuf(Message::Pod, br#"{"spec":{"containers":[{"name":"web","new":1}]}}"#)?;
/// assert_eq!(pod.unknown.unwrap().to_string(), "spec.containers[0].new");
/// # Ok::<(), larder_protobuf::ProtobufError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(pub(crate) String);

impl std::fmt::Display for Unknown {
    /// The way to the field; of a field of protobuf the number, as in `spec.#99`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
