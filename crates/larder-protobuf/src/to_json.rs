//! Protobuf to JSON.
//!
//! Fields of protobuf come by their numbers, and Go's JSON has them in the order of the type. So each message is read twice: its tags, which
//! say where each field stands, and then the fields in order. What is in a nested message is passed over by its length the first time, so
//! each byte of a value is read once, and no tree is made.

use crate::envelope::{self, MAGIC};
use crate::error::{Fault, Problem, ProtobufError, Step, path, path_to};
use crate::escape;
use crate::output::Output;
use crate::schema::{self, Field, Message, Omit, Shape, Type};
use crate::wire::{self, Cursor, LEN, Scalar, Span, VARINT};
use crate::{Transcoded, Unknown, quantity, tape, time};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The JSON of a message, as the API server writes it, without the newline at the end. The message is that in an
/// [`Envelope`](crate::Envelope), or what is in a frame of a watch.
///
/// ```
/// use larder_protobuf::{Message, protobuf_to_json};
/// let pod = protobuf_to_json(Message::Pod, b"\x0a\x05\x0a\x03web")?;
/// assert_eq!(
///     *pod.bytes,
///     br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"},"spec":{"containers":null},"status":{}}"#[..]
/// );
/// # Ok::<(), larder_protobuf::ProtobufError>(())
/// ```
///
/// # Errors
///
/// The bytes are not the protobuf of such a message. What Go merges out of two fields, which no Go program writes, is refused as well.
pub fn protobuf_to_json(message: Message, protobuf: &[u8]) -> Result<Transcoded, ProtobufError> {
    let mut transcoder = Transcoder {
        input: protobuf,
        out: Output::with_capacity(protobuf.len() * 2 + 64),
        slots: Vec::new(),
        path: Vec::new(),
        unknown: None,
    };
    let whole = Span { start: 0, end: protobuf.len() };
    match transcoder.object(message, whole) {
        Ok(()) => Ok(Transcoded { bytes: transcoder.out.finish(), unknown: transcoder.unknown }),
        Err(Fault { problem, byte }) => {
            Err(ProtobufError::Protobuf { message, path: path(&transcoder.path), byte, problem })
        }
    }
}

struct Transcoder<'a> {
    input: &'a [u8],
    out: Output,
    /// Where the fields of each open message stand: from behind the tag of the first value to the end of the last. No value begins at 0.
    slots: Vec<Span>,
    /// The way to the value that is read. After a fault it is the way to that.
    path: Vec<Step>,
    unknown: Option<Unknown>,
}

/// Whether something stands before the next field of an object.
struct Comma(bool);

impl Transcoder<'_> {
    /// A message with its kind and version.
    fn object(&mut self, message: Message, span: Span) -> Result<(), Fault> {
        self.out.byte(b'{');
        let mut comma = Comma(false);
        if message.is_typed() {
            self.name("kind", &mut comma);
            escape::string(&mut self.out, message.kind().as_bytes());
            self.name("apiVersion", &mut comma);
            escape::string(&mut self.out, message.api_version().as_bytes());
        }
        self.fields(span, message.place(), message.is_list(), &mut comma)?;
        self.out.byte(b'}');
        Ok(())
    }

    fn message(&mut self, span: Span, place: u16) -> Result<(), Fault> {
        self.out.byte(b'{');
        self.fields(span, place, false, &mut Comma(false))?;
        self.out.byte(b'}');
        Ok(())
    }

    /// The fields of a message in the order of its type.
    fn fields(&mut self, span: Span, place: u16, is_list: bool, comma: &mut Comma) -> Result<(), Fault> {
        let fields = schema::fields(place);
        let base = self.slots.len();
        self.slots.resize(base + fields.len(), Span::default());
        self.scan(span, fields, base)?;
        for (at, field) in fields.iter().enumerate() {
            let slot = self.slots.get(base + at).copied().unwrap_or_default();
            self.path.push(Step::Field(field));
            self.field(field, slot, is_list, comma)?;
            self.path.pop();
        }
        self.slots.truncate(base);
        Ok(())
    }

    /// Notes where the fields of a message stand.
    fn scan(&mut self, span: Span, fields: &'static [Field], base: usize) -> Result<(), Fault> {
        let mut cursor = Cursor::new(self.input, span);
        let mut hint = 0;
        while !cursor.is_at_end() {
            let (number, wire) = cursor.tag()?;
            let Some(at) = schema::find(fields, hint, |field| field.number() == number) else {
                self.unknown(number);
                cursor.skip(wire)?;
                continue;
            };
            hint = at;
            let (Some(field), Some(slot)) = (fields.get(at), self.slots.get_mut(base + at)) else { continue };
            let start = cursor.at;
            let problem = match (slot.start, field.shape) {
                _ if wire != field.wire() => Some(Problem::WireType(wire)),
                (1.., Shape::Value | Shape::Pointer) => Some(Problem::Twice),
                _ => None,
            };
            if let Some(problem) = problem {
                self.path.push(Step::Field(field));
                return Err(cursor.fault(problem));
            }
            if let Err(fault) = cursor.skip(wire) {
                self.path.push(Step::Field(field));
                return Err(fault);
            }
            if slot.start == 0 {
                slot.start = start;
            }
            slot.end = cursor.at;
        }
        Ok(())
    }

    fn unknown(&mut self, number: u32) {
        if self.unknown.is_none() {
            self.unknown = Some(Unknown(path_to(&self.path, format_args!("#{number}"))));
        }
    }

    /// A field with its name, or nothing where Go leaves it out.
    fn field(&mut self, field: &'static Field, slot: Span, is_list: bool, comma: &mut Comma) -> Result<(), Fault> {
        let is_absent = slot.start == 0;
        match field.shape {
            Shape::Value => self.single(field, slot, comma),
            Shape::Pointer | Shape::List | Shape::Map if is_absent => {
                if field.omit == Omit::Never {
                    self.name(field.name(), comma);
                    // A nil slice is `null`. The API server makes an empty one for the items of a list.
                    let is_items = is_list && field.shape == Shape::List;
                    self.out.put(if is_items { b"[]" } else { b"null" });
                }
                Ok(())
            }
            Shape::Pointer => {
                self.name(field.name(), comma);
                self.value(field.kind, &mut Cursor::new(self.input, slot))
            }
            Shape::List => {
                self.name(field.name(), comma);
                self.list(field, slot)
            }
            Shape::Map => {
                self.name(field.name(), comma);
                self.map(field, slot)
            }
        }
    }

    /// A field that has one value, the zero of its type if it is absent.
    fn single(&mut self, field: &'static Field, slot: Span, comma: &mut Comma) -> Result<(), Fault> {
        let mut cursor = Cursor::new(self.input, slot);
        let is_absent = slot.start == 0;
        let omits = field.omit != Omit::Never;
        match field.kind {
            Type::Bool | Type::Int32 | Type::Int64 => {
                let value = if is_absent { 0 } else { cursor.varint()? };
                if !omits || !is_zero(field.kind, value) {
                    self.name(field.name(), comma);
                    self.number(field.kind, value);
                }
                Ok(())
            }
            Type::String | Type::Bytes => {
                let value = if is_absent { slot } else { cursor.span()? };
                if !omits || !value.is_empty() {
                    self.name(field.name(), comma);
                    self.bytes(field.kind, value);
                }
                Ok(())
            }
            Type::Message(place) if field.is_inlined() => {
                let value = if is_absent { slot } else { cursor.span()? };
                self.fields(value, place, false, comma)
            }
            Type::Time => {
                let value = if is_absent { slot } else { cursor.span()? };
                let seconds = self.seconds(value)?;
                if field.omit != Omit::Zero || seconds.is_some() {
                    self.name(field.name(), comma);
                    self.time(seconds, value)?;
                }
                Ok(())
            }
            // `omitempty` leaves no struct out.
            Type::Quantity | Type::IntOrString | Type::RawJson | Type::RawExtension | Type::Message(_) => {
                let value = if is_absent { slot } else { cursor.span()? };
                self.name(field.name(), comma);
                self.nested(field.kind, value)
            }
        }
    }

    fn list(&mut self, field: &'static Field, slot: Span) -> Result<(), Fault> {
        let mut cursor = Cursor::new(self.input, slot);
        self.out.byte(b'[');
        for index in 0.. {
            if index > 0 {
                self.out.byte(b',');
            }
            self.path.push(Step::Index(index));
            self.value(field.kind, &mut cursor)?;
            self.path.pop();
            if !next_of(field, &mut cursor)? {
                break;
            }
        }
        self.out.byte(b']');
        Ok(())
    }

    /// A map in the order of its keys.
    fn map(&mut self, field: &'static Field, slot: Span) -> Result<(), Fault> {
        let mut cursor = Cursor::new(self.input, slot);
        let mut entries: Vec<(&[u8], Span)> = Vec::new();
        loop {
            let entry = Cursor::new(self.input, cursor.span()?);
            let ([key, value], unknown) = wire::small(entry, [LEN; 2])?;
            if let Some(number) = unknown {
                self.unknown(number);
            }
            let key = key.ok_or(entry.fault(Problem::NoKey))?.bytes();
            // Go writes no value for bytes that are nil, and reads them as empty.
            entries.push((key.of(self.input), value.map(Scalar::bytes).unwrap_or_default()));
            if !next_of(field, &mut cursor)? {
                break;
            }
        }
        entries.sort_unstable_by_key(|(key, _)| *key);
        if entries.is_sorted_by(|(one, _), (next, _)| one < next) {
            self.out.byte(b'{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                if at > 0 {
                    self.out.byte(b',');
                }
                escape::string(&mut self.out, key);
                self.out.byte(b':');
                match field.kind {
                    Type::String | Type::Bytes => self.bytes(field.kind, value),
                    other => self.nested(other, value)?,
                }
            }
            self.out.byte(b'}');
            return Ok(());
        }
        Err(Fault::new(Problem::Twice, slot.start))
    }

    /// The value at the cursor.
    fn value(&mut self, kind: Type, cursor: &mut Cursor<'_>) -> Result<(), Fault> {
        match kind {
            Type::Bool | Type::Int32 | Type::Int64 => {
                let value = cursor.varint()?;
                self.number(kind, value);
                Ok(())
            }
            Type::String | Type::Bytes => {
                let value = cursor.span()?;
                self.bytes(kind, value);
                Ok(())
            }
            Type::Time | Type::Quantity | Type::IntOrString | Type::RawJson | Type::RawExtension | Type::Message(_) => {
                let value = cursor.span()?;
                self.nested(kind, value)
            }
        }
    }

    fn number(&mut self, kind: Type, value: u64) {
        let text = match kind {
            Type::Bool => return self.out.put(if value == 0 { b"false" } else { b"true" }),
            Type::Int32 => int32(value).to_string(),
            _ => value.cast_signed().to_string(),
        };
        self.out.put(text.as_bytes());
    }

    fn bytes(&mut self, kind: Type, span: Span) {
        let bytes = span.of(self.input);
        if kind == Type::String {
            return escape::string(&mut self.out, bytes);
        }
        self.out.byte(b'"');
        let len = bytes.len().div_ceil(3) * 4;
        // The length is right, so nothing is left out.
        self.out.fill(len, |free| STANDARD.encode_slice(bytes, free).unwrap_or_default());
        self.out.byte(b'"');
    }

    /// A message, or a type that is a message on the wire alone. Where the field is absent the span is empty.
    fn nested(&mut self, kind: Type, span: Span) -> Result<(), Fault> {
        match kind {
            Type::Message(place) => self.message(span, place),
            Type::Time => {
                let seconds = self.seconds(span)?;
                self.time(seconds, span)
            }
            Type::Quantity => self.quantity(span),
            Type::IntOrString => self.int_or_string(span),
            Type::RawJson | Type::RawExtension => self.raw(kind, span),
            Type::Bool | Type::Int32 | Type::Int64 | Type::String | Type::Bytes => {
                // A map to numbers, which the table's writer refuses.
                Err(Fault::new(Problem::WireType(LEN), span.start))
            }
        }
    }

    /// The fields of a small message.
    fn small<const N: usize>(&mut self, span: Span, wires: [u8; N]) -> Result<[Option<Scalar>; N], Fault> {
        let (values, unknown) = wire::small(Cursor::new(self.input, span), wires)?;
        if let Some(number) = unknown {
            self.unknown(number);
        }
        Ok(values)
    }

    /// The seconds of a time; none if it is Go's zero time. The nanoseconds do not count, as in Go.
    fn seconds(&mut self, span: Span) -> Result<Option<i64>, Fault> {
        if span.is_empty() {
            return Ok(None);
        }
        let [seconds, _] = self.small(span, [VARINT; 2])?;
        let seconds = seconds.map_or(0, Scalar::number).cast_signed();
        Ok(if seconds == time::ZERO { None } else { Some(seconds) })
    }

    fn time(&mut self, seconds: Option<i64>, span: Span) -> Result<(), Fault> {
        let Some(seconds) = seconds else {
            self.out.put(b"null");
            return Ok(());
        };
        let text = time::format(seconds).ok_or(Fault::new(Problem::Time, span.start))?;
        escape::string(&mut self.out, text.as_bytes());
        Ok(())
    }

    fn quantity(&mut self, span: Span) -> Result<(), Fault> {
        let [text] = self.small(span, [LEN; 1])?;
        let Some(text) = text else {
            self.out.put(br#""0""#);
            return Ok(());
        };
        let text = std::str::from_utf8(text.bytes().of(self.input)).ok();
        let text = text.and_then(quantity::canonical).ok_or(Fault::new(Problem::Quantity, span.start))?;
        escape::string(&mut self.out, text.as_bytes());
        Ok(())
    }

    fn int_or_string(&mut self, span: Span) -> Result<(), Fault> {
        let [kind, int, text] = self.small(span, [VARINT, VARINT, LEN])?;
        match kind.map_or(0, Scalar::number) {
            0 => self.number(Type::Int32, int.map_or(0, Scalar::number)),
            1 => self.bytes(Type::String, text.map(Scalar::bytes).unwrap_or_default()),
            _ => return Err(Fault::new(Problem::IntOrString, span.start)),
        }
        Ok(())
    }

    /// JSON, or the object in an envelope.
    fn raw(&mut self, kind: Type, span: Span) -> Result<(), Fault> {
        let [raw] = self.small(span, [LEN; 1])?;
        let Some(raw) = raw.map(Scalar::bytes) else {
            self.out.put(b"null");
            return Ok(());
        };
        let bytes = raw.of(self.input);
        if kind == Type::RawExtension && bytes.starts_with(MAGIC) {
            let spans = envelope::Spans::read(self.input, raw)?;
            let message = spans.of(self.input)?.message();
            // No event is in another, so the depth is bounded.
            let message = message.ok_or(Fault::new(Problem::Raw, raw.start))?;
            return self.object(message, spans.raw);
        }
        tape::check(bytes).map_err(|Fault { problem, byte }| Fault::new(problem, raw.start + byte))?;
        escape::compact(&mut self.out, bytes);
        Ok(())
    }

    fn name(&mut self, name: &str, comma: &mut Comma) {
        if std::mem::replace(&mut comma.0, true) {
            self.out.byte(b',');
        }
        self.out.byte(b'"');
        self.out.put(name.as_bytes());
        self.out.put(b"\":");
    }
}

impl Field {
    /// The wire type of the field.
    fn wire(&self) -> u8 {
        match self.shape {
            Shape::Value | Shape::Pointer | Shape::List => self.kind.wire(),
            Shape::Map => LEN,
        }
    }
}

/// Passes over other fields to the next value of this one, and says whether there is one. The cursor's part ends with the last value.
fn next_of(field: &Field, cursor: &mut Cursor<'_>) -> Result<bool, Fault> {
    while !cursor.is_at_end() {
        let (number, wire) = cursor.tag()?;
        if number == field.number() {
            return Ok(true);
        }
        cursor.skip(wire)?;
    }
    Ok(false)
}

fn is_zero(kind: Type, value: u64) -> bool {
    if kind == Type::Int32 { int32(value) == 0 } else { value == 0 }
}

/// The lower half, as Go reads a number that should have 32 bits.
fn int32(value: u64) -> i32 {
    let [first, second, third, fourth, ..] = value.to_le_bytes();
    i32::from_le_bytes([first, second, third, fourth])
}
