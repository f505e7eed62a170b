//! JSON to protobuf.
//!
//! The JSON is read once, into a row of tokens. Then the message is written from its end, as Go writes it: the length of each nested message
//! is known when it is due.

use crate::envelope::Envelope;
use crate::error::{Fault, Problem, ProtobufError, Step, path, path_to};
use crate::output::Backward;
use crate::schema::{self, Field, Message, Shape, Type};
use crate::tape::{self, Tape, Text, Token, TokenKind};
use crate::wire::VARINT;
use crate::{Transcoded, Unknown, quantity, time};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use zeroize::Zeroizing;

/// As lenient as Go with the last bits.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// The protobuf of a message, as the API server writes it, without its [`Envelope`].
///
/// JSON has more than protobuf can: fields that the table does not have are left out, and [`Transcoded::unknown`] names the first.
/// What is `null` or empty reads the same afterwards.
///
/// ```
/// use larder_protobuf::{Message, json_to_protobuf};
/// let status = json_to_protobuf(Message::Status, br#"{"kind":"Status","apiVersion":"v1","code":404}"#)?;
/// assert_eq!(status.bytes.last_chunk(), Some(&[0x30, 0x94, 0x03]));
/// # Ok::<(), larder_protobuf::ProtobufError>(())
/// ```
///
/// # Errors
///
/// The bytes are not JSON, a field has another type than its own, a name stands twice, or the object is of another kind or version than
/// asked for.
pub fn json_to_protobuf(message: Message, json: &[u8]) -> Result<Transcoded, ProtobufError> {
    let error = |fault: Fault, steps: &[Step]| ProtobufError::Json {
        message,
        path: path(steps),
        byte: fault.byte,
        problem: fault.problem,
    };
    let tape = Tape::parse(json).map_err(|fault| error(fault, &[]))?;
    let mut transcoder = Transcoder {
        tape: &tape,
        out: Backward::with_capacity(json.len() + 64),
        slots: Vec::new(),
        elements: Vec::new(),
        path: Vec::new(),
        unknown: None,
    };
    let written = transcoder.root(message, 0);
    match written {
        Ok(()) => Ok(Transcoded { bytes: transcoder.out.finish(), unknown: transcoder.unknown }),
        Err(fault) => Err(error(fault, &transcoder.path)),
    }
}

struct Transcoder<'a> {
    tape: &'a Tape<'a>,
    out: Backward,
    /// The values of the fields of each open message, as places on the tape. None is the first, which is the whole.
    slots: Vec<u32>,
    /// The elements of each open list, as places on the tape.
    elements: Vec<u32>,
    path: Vec<Step>,
    unknown: Option<Unknown>,
}

impl<'a> Transcoder<'a> {
    /// A message that says its kind and version, or nothing of either.
    fn root(&mut self, message: Message, at: u32) -> Result<(), Fault> {
        if message.is_typed() {
            let (kind, api_version) = self.type_of(at);
            let is = |said: Option<Token>, expected: &str| {
                said.is_none_or(|said| self.tape.string(said).is_some_and(|said| *said == *expected))
            };
            if !is(kind, message.kind()) || !is(api_version, message.api_version()) {
                return Err(Fault::new(Problem::OtherKind, self.tape.token(at).start()));
            }
        }
        self.message(Some(at), message.place(), true)
    }

    /// What an object says of its kind and version.
    fn type_of(&self, at: u32) -> (Option<Token>, Option<Token>) {
        let (mut kind, mut api_version) = (None, None);
        if self.tape.token(at).kind == TokenKind::Object {
            let mut children = self.tape.children(at);
            while let (Some(key), Some(value)) = (children.next(), children.next()) {
                match self.tape.literal(self.tape.token(key)) {
                    "kind" => kind = Some(self.tape.token(value)),
                    "apiVersion" => api_version = Some(self.tape.token(value)),
                    _ => {}
                }
            }
        }
        let is_said = |token: &Token| token.kind != TokenKind::Null;
        (kind.filter(is_said), api_version.filter(is_said))
    }

    /// The fields of a message, of none if there is no value. What is inlined has the names of the outer message among its own.
    fn message(&mut self, value: Option<u32>, place: u16, is_outermost: bool) -> Result<(), Fault> {
        let fields = schema::fields(place);
        let base = self.slots.len();
        self.slots.resize(base + fields.len(), 0);
        if let Some(at) = value.filter(|at| self.tape.token(*at).kind != TokenKind::Null) {
            self.find_values(at, place, base, is_outermost)?;
        }
        for at in schema::by_number(place).iter().rev() {
            let at = usize::from(*at);
            let (Some(field), Some(slot)) = (fields.get(at), self.slots.get(base + at)) else { continue };
            let inner = if field.is_inlined() { value } else { Some(*slot).filter(|slot| *slot != 0) };
            self.path.push(Step::Field(field));
            self.field(field, inner)?;
            self.path.pop();
        }
        self.slots.truncate(base);
        Ok(())
    }

    /// Notes where the values of the fields stand.
    fn find_values(&mut self, at: u32, place: u16, base: usize, is_outermost: bool) -> Result<(), Fault> {
        let tape = self.tape;
        let token = tape.token(at);
        if token.kind != TokenKind::Object {
            return Err(Fault::new(Problem::Type("an object"), token.start()));
        }
        let fields = schema::fields(place);
        let mut hint = 0;
        let mut children = tape.children(at);
        while let (Some(key), Some(value)) = (children.next(), children.next()) {
            let key = tape.token(key);
            let name = tape::name(tape, key);
            let Some(found) = schema::find(fields, hint, |field| !field.is_inlined() && field.name() == name) else {
                if is_outermost && !is_known(place, &name) && self.unknown.is_none() {
                    self.unknown = Some(Unknown(path_to(&self.path, format_args!("{name}"))));
                }
                continue;
            };
            hint = found;
            let Some(slot) = self.slots.get_mut(base + found) else { continue };
            if *slot != 0 {
                return Err(Fault::new(Problem::Twice, key.start()));
            }
            *slot = value;
        }
        Ok(())
    }

    /// A field with its tag. `null` is as good as no value.
    fn field(&mut self, field: &'static Field, value: Option<u32>) -> Result<(), Fault> {
        let value = value.filter(|at| self.tape.token(*at).kind != TokenKind::Null);
        match (field.shape, value) {
            (Shape::Value, value) => self.value(field.number(), field.kind, value, field.is_inlined()),
            (Shape::Pointer | Shape::List | Shape::Map, None) => Ok(()),
            (Shape::Pointer, Some(_)) => self.value(field.number(), field.kind, value, false),
            (Shape::List, Some(at)) => self.list(field, at),
            (Shape::Map, Some(at)) => self.map(field, at),
        }
    }

    fn list(&mut self, field: &'static Field, at: u32) -> Result<(), Fault> {
        let token = self.tape.token(at);
        if token.kind != TokenKind::Array {
            return Err(Fault::new(Problem::Type("an array"), token.start()));
        }
        let base = self.elements.len();
        self.elements.extend(self.tape.children(at));
        while self.elements.len() > base
            && let Some(element) = self.elements.pop()
        {
            self.path.push(Step::Index(self.elements.len() - base));
            let element = Some(element).filter(|at| self.tape.token(*at).kind != TokenKind::Null);
            self.value(field.number(), field.kind, element, false)?;
            self.path.pop();
        }
        Ok(())
    }

    /// The entries of a map by their keys. Of equal keys the last one counts, as in Go.
    fn map(&mut self, field: &'static Field, at: u32) -> Result<(), Fault> {
        let token = self.tape.token(at);
        if token.kind != TokenKind::Object {
            return Err(Fault::new(Problem::Type("an object"), token.start()));
        }
        let mut entries: Vec<(Text<'a>, u32)> = Vec::new();
        let mut children = self.tape.children(at);
        while let (Some(key), Some(value)) = (children.next(), children.next()) {
            if let Some(key) = self.tape.string(self.tape.token(key)) {
                entries.push((key, value));
            }
        }
        // The sort is stable, and so the last of equal keys comes first from the end.
        entries.sort_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
        let mut before: Option<Text<'a>> = None;
        for (key, value) in entries.into_iter().rev() {
            if before.as_ref().is_some_and(|before| **before == *key) {
                continue;
            }
            let start = self.out.len();
            let is_null = self.tape.token(value).kind == TokenKind::Null;
            if !(is_null && field.kind == Type::Bytes) {
                self.value(2, field.kind, Some(value).filter(|_| !is_null), false)?;
            }
            self.out.value(1, key.as_bytes());
            self.out.header(field.number(), self.out.len() - start);
            before = Some(key);
        }
        Ok(())
    }

    /// A value with its tag; the zero of its type if there is none.
    fn value(&mut self, number: u32, kind: Type, value: Option<u32>, is_inlined: bool) -> Result<(), Fault> {
        let before = self.out.len();
        match kind {
            Type::Bool | Type::Int32 | Type::Int64 => {
                let value = value.map_or(Ok(0), |at| self.number(kind, self.tape.token(at)))?;
                self.out.varint(value.cast_unsigned());
                self.out.tag(number, VARINT);
                return Ok(());
            }
            Type::String => {
                if let Some(at) = value {
                    let text = self.text(self.tape.token(at))?;
                    self.out.put(text.as_bytes());
                }
            }
            Type::Bytes => {
                if let Some(at) = value {
                    let bytes = self.base64(self.tape.token(at))?;
                    self.out.put(&bytes);
                }
            }
            Type::Message(place) => self.message(value, place, !is_inlined)?,
            Type::Time => self.time(value)?,
            Type::Quantity => self.quantity(value)?,
            Type::IntOrString => self.int_or_string(value)?,
            Type::RawJson => {
                if let Some(at) = value {
                    let raw = self.raw(at);
                    self.out.value(1, raw.as_bytes());
                }
            }
            Type::RawExtension => self.raw_extension(value)?,
        }
        self.out.header(number, self.out.len() - before);
        Ok(())
    }

    fn number(&self, kind: Type, token: Token) -> Result<i64, Fault> {
        let fault = |expected| Fault::new(Problem::Type(expected), token.start());
        let literal = self.tape.literal(token);
        match (kind, token.kind) {
            (Type::Bool, TokenKind::True) => Ok(1),
            (Type::Bool, TokenKind::False) => Ok(0),
            (Type::Bool, _) => Err(fault("true or false")),
            (Type::Int32, TokenKind::Number) => {
                literal.parse::<i32>().map(i64::from).map_err(|_| fault("a whole number of 32 bits"))
            }
            (_, TokenKind::Number) => literal.parse().map_err(|_| fault("a whole number of 64 bits")),
            _ => Err(fault("a number")),
        }
    }

    fn text(&self, token: Token) -> Result<Text<'a>, Fault> {
        self.tape.string(token).ok_or(Fault::new(Problem::Type("a string"), token.start()))
    }

    fn base64(&self, token: Token) -> Result<Zeroizing<Vec<u8>>, Fault> {
        let text = self.text(token)?;
        let mut encoded = Text::Borrowed(&text);
        if text.contains(['\r', '\n']) {
            // Go passes over these.
            let mut without = Zeroizing::new(String::with_capacity(text.len()));
            without.extend(text.chars().filter(|character| !matches!(character, '\r' | '\n')));
            encoded = Text::Owned(without);
        }
        let mut bytes = Zeroizing::new(vec![0; base64::decoded_len_estimate(encoded.len())]);
        let len = BASE64
            .decode_slice(encoded.as_bytes(), &mut bytes)
            .map_err(|_| Fault::new(Problem::Type("base64"), token.start()))?;
        bytes.truncate(len);
        Ok(bytes)
    }

    fn time(&mut self, value: Option<u32>) -> Result<(), Fault> {
        let Some(at) = value else { return Ok(()) };
        let token = self.tape.token(at);
        let text = self.text(token)?;
        let seconds = time::parse(&text).ok_or(Fault::new(Problem::Time, token.start()))?;
        if seconds != time::ZERO {
            self.out.varint(0);
            self.out.tag(2, VARINT);
            self.out.varint(seconds.cast_unsigned());
            self.out.tag(1, VARINT);
        }
        Ok(())
    }

    fn quantity(&mut self, value: Option<u32>) -> Result<(), Fault> {
        let Some(at) = value else {
            self.out.value(1, b"0");
            return Ok(());
        };
        let token = self.tape.token(at);
        // A quantity may be a number, too. Go does not read escapes here.
        let canonical = match token.kind {
            TokenKind::Text | TokenKind::Number => {
                let space: &[char] = &[' ', '\t', '\n', '\r'];
                quantity::canonical(self.tape.literal(token).trim_matches(space))
            }
            _ => None,
        };
        let canonical = canonical.ok_or(Fault::new(Problem::Quantity, token.start()))?;
        self.out.value(1, canonical.as_bytes());
        Ok(())
    }

    fn int_or_string(&mut self, value: Option<u32>) -> Result<(), Fault> {
        let token = value.map(|at| self.tape.token(at));
        let text = token.and_then(|token| self.tape.string(token));
        let number = match token {
            Some(token) if text.is_none() => self.number(Type::Int32, token)?,
            _ => 0,
        };
        self.out.value(3, text.as_deref().unwrap_or_default().as_bytes());
        self.out.varint(number.cast_unsigned());
        self.out.tag(2, VARINT);
        self.out.varint(u64::from(text.is_some()));
        self.out.tag(1, VARINT);
        Ok(())
    }

    /// The JSON of a value as it stands.
    fn raw(&self, at: u32) -> &'a str {
        let token = self.tape.token(at);
        let literal = self.tape.literal(token);
        match token.kind {
            // The quotes belong to it.
            TokenKind::Text | TokenKind::EscapedText => {
                let start = token.start();
                self.tape.text.get(start - 1..=start + literal.len()).unwrap_or_default()
            }
            TokenKind::Object
            | TokenKind::Array
            | TokenKind::Number
            | TokenKind::True
            | TokenKind::False
            | TokenKind::Null => literal,
        }
    }

    /// An object of a known kind in its envelope, as in events of protobuf, and other JSON as it stands.
    fn raw_extension(&mut self, value: Option<u32>) -> Result<(), Fault> {
        let Some(at) = value else { return Ok(()) };
        let (kind, api_version) = self.type_of(at);
        let text = |token: Option<Token>| token.and_then(|token| self.tape.string(token));
        let message = match (text(api_version), text(kind)) {
            (Some(api_version), Some(kind)) => Message::of(&api_version, &kind),
            _ => None,
        };
        let Some(message) = message else {
            let raw = self.raw(at);
            self.out.value(1, raw.as_bytes());
            return Ok(());
        };
        let own = Backward::with_capacity(self.raw(at).len() + 64);
        let outer = std::mem::replace(&mut self.out, own);
        self.root(message, at)?;
        let object = std::mem::replace(&mut self.out, outer).finish();
        self.out.value(1, &Envelope::new(message, &object).to_bytes());
        Ok(())
    }
}

/// Whether a type has a field of this name, or one that is inlined, or may say its kind.
fn is_known(place: u16, name: &str) -> bool {
    let is_type = matches!(name, "kind" | "apiVersion") && schema::is_object(place);
    is_type || has_field(place, name)
}

fn has_field(place: u16, name: &str) -> bool {
    schema::fields(place).iter().any(|field| match field.kind {
        Type::Message(inner) if field.is_inlined() => has_field(inner, name),
        _ => field.name() == name,
    })
}
