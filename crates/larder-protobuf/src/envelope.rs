//! The envelope that tells what a message of protobuf is: `k8s`, a zero, and `runtime.Unknown`.

use crate::error::{Fault, Problem, ProtobufError};
use crate::output::Backward;
use crate::schema::Message;
use crate::wire::{self, Cursor, LEN, Span};
use zeroize::Zeroizing;

/// What protobuf of Kubernetes begins with.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// An object in protobuf with its version and kind: what the API server sends, and what it takes.
///
/// ```
/// use larder_protobuf::{Envelope, Message};
/// let bytes = Envelope::new(Message::Pod, b"").to_bytes();
/// let envelope = Envelope::parse(&bytes)?;
/// assert_eq!((envelope.api_version, envelope.kind), ("v1", "Pod"));
/// assert_eq!(envelope.message(), Some(Message::Pod));
/// # Ok::<(), larder_protobuf::ProtobufError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The version with its group, such as `v1`.
    pub api_version: &'a str,
    /// The kind, such as `Pod`.
    pub kind: &'a str,
    /// The object itself.
    pub raw: &'a [u8],
    /// How the object is compressed; empty, for Kubernetes has never compressed one here.
    pub content_encoding: &'a str,
    /// What the object is; empty for protobuf.
    pub content_type: &'a str,
}

impl std::fmt::Debug for Envelope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { api_version, kind, raw, .. } = self;
        write!(f, "Envelope({api_version}/{kind}, {} bytes)", raw.len())
    }
}

impl<'a> Envelope<'a> {
    /// The envelope of a message. The message is `raw`.
    pub const fn new(message: Message, raw: &'a [u8]) -> Self {
        Self { api_version: message.api_version(), kind: message.kind(), raw, content_encoding: "", content_type: "" }
    }

    /// Reads an envelope. What is in it is not read.
    ///
    /// # Errors
    ///
    /// The bytes do not begin as they should, or the envelope is malformed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ProtobufError> {
        if !bytes.starts_with(MAGIC) {
            return Err(ProtobufError::NoEnvelope);
        }
        let whole = Span { start: 0, end: bytes.len() };
        Spans::read(bytes, whole)
            .and_then(|spans| spans.of(bytes))
            .map_err(|Fault { problem, byte }| ProtobufError::Envelope { byte, problem })
    }

    /// The message that is in it, if it is one that this crate has and it is not compressed.
    pub fn message(&self) -> Option<Message> {
        let is_plain = self.content_encoding.is_empty() && self.content_type.is_empty();
        Message::of(self.api_version, self.kind).filter(|_| is_plain)
    }

    /// The envelope as the API server writes it. The bytes are overwritten when they are dropped.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Backward::with_capacity(self.raw.len() + 64);
        self.write(&mut out);
        out.finish()
    }

    pub(crate) fn write(&self, out: &mut Backward) {
        out.value(4, self.content_type.as_bytes());
        out.value(3, self.content_encoding.as_bytes());
        out.value(2, self.raw);
        let before = out.len();
        out.value(2, self.kind.as_bytes());
        out.value(1, self.api_version.as_bytes());
        out.header(1, out.len() - before);
        out.put(MAGIC);
    }
}

/// Where the parts of an envelope stand in the bytes that it came in.
pub(crate) struct Spans {
    api_version: Span,
    kind: Span,
    pub(crate) raw: Span,
    content_encoding: Span,
    content_type: Span,
}

impl Spans {
    /// Reads an envelope that begins as it should.
    pub(crate) fn read(input: &[u8], mut span: Span) -> Result<Self, Fault> {
        span.start += MAGIC.len();
        // Fields of a later version would say what to do with the object, so the object alone is not enough then.
        let known = |cursor, unknown: Option<u32>| match unknown {
            None => Ok(()),
            Some(_) => Err(Cursor::fault(&cursor, Problem::Number)),
        };
        let cursor = Cursor::new(input, span);
        let ([type_meta, raw, content_encoding, content_type], unknown) = wire::small(cursor, [LEN; 4])?;
        known(cursor, unknown)?;
        let bytes = |value: Option<wire::Scalar>| value.map_or(Span::default(), wire::Scalar::bytes);
        let cursor = Cursor::new(input, bytes(type_meta));
        let ([api_version, kind], unknown) = wire::small(cursor, [LEN; 2])?;
        known(cursor, unknown)?;
        Ok(Self {
            api_version: bytes(api_version),
            kind: bytes(kind),
            raw: bytes(raw),
            content_encoding: bytes(content_encoding),
            content_type: bytes(content_type),
        })
    }

    /// The parts themselves.
    pub(crate) fn of<'a>(&self, input: &'a [u8]) -> Result<Envelope<'a>, Fault> {
        let text = |span: Span| std::str::from_utf8(span.of(input)).map_err(|_| Fault::new(Problem::Utf8, span.start));
        Ok(Envelope {
            api_version: text(self.api_version)?,
            kind: text(self.kind)?,
            raw: self.raw.of(input),
            content_encoding: text(self.content_encoding)?,
            content_type: text(self.content_type)?,
        })
    }
}
