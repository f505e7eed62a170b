//! One line of a trace, read strictly.
//!
//! Fields that an operation does not need are not looked at, but must be JSON. A field that it needs must be there, once,
//! and of its type; one that it may do without may also be `null`.

use crate::GoDuration;
use crate::error::LineError;
use crate::trace::{Header, Kind, ObjectsOp, Op, PodStatusOp};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The version of the format that this reads.
const VERSION: i64 = 1;

/// The statuses with which a server can fail.
const FAILURES: (i64, i64) = (400, 599);

pub(crate) fn header(line: &[u8]) -> Result<Header, LineError> {
    let fields = Fields::parse(line)?;
    if fields.get(Field::LarderTrace).is_none() {
        return Err(LineError::NoHeader);
    }
    let version = fields.integer(Field::LarderTrace)?;
    if version != VERSION {
        return Err(LineError::Version { version });
    }
    match fields.string(Field::Kind)?.as_str() {
        "pod-status" => Ok(Header::PodStatus { evented: fields.optional_bool(Field::Evented)?.unwrap_or(false) }),
        "objects" => Ok(Header::Objects { default_ttl: fields.duration(Field::DefaultTtl)? }),
        other => Err(LineError::Kind { kind: crate::error_excerpt(other) }),
    }
}

pub(crate) fn op(kind: Kind, line: &[u8]) -> Result<Op, LineError> {
    let fields = Fields::parse(line)?;
    if fields.get(Field::Op).is_none() && fields.get(Field::LarderTrace).is_some() {
        return Err(LineError::SecondHeader);
    }
    let name = fields.string(Field::Op)?;
    let op = match kind {
        Kind::PodStatus => pod_status(&name, &fields)?.map(Op::PodStatus),
        Kind::Objects => objects(&name, &fields)?.map(Op::Objects),
    };
    op.ok_or_else(|| LineError::Operation { op: crate::error_excerpt(&name), kind })
}

/// `None` where there is no such operation.
fn pod_status(op: &str, fields: &Fields) -> Result<Option<PodStatusOp>, LineError> {
    let uid = || fields.string(Field::Uid);
    Ok(Some(match op {
        "get" => PodStatusOp::Get { uid: uid()? },
        "set" => PodStatusOp::Set {
            uid: uid()?,
            status: fields.nullable_text(Field::Status)?,
            error: fields.optional_text(Field::Error)?,
            at: fields.integer(Field::T)?,
        },
        "observed" => PodStatusOp::Observed { uid: uid()?, at: fields.integer(Field::T)? },
        "delete" => PodStatusOp::Delete { uid: uid()? },
        "update_time" => PodStatusOp::UpdateTime { at: fields.integer(Field::T)? },
        "newer" => PodStatusOp::Newer { id: fields.integer(Field::Id)?, uid: uid()?, min: fields.integer(Field::Min)? },
        "cancel" => PodStatusOp::Cancel { id: fields.integer(Field::Id)? },
        _ => return Ok(None),
    }))
}

/// `None` where there is no such operation.
fn objects(op: &str, fields: &Fields) -> Result<Option<ObjectsOp>, LineError> {
    let ns = || fields.string(Field::Ns);
    let name = || fields.string(Field::Name);
    let uid = || fields.string(Field::Uid);
    let rv = || fields.string(Field::Rv);
    let data = || fields.string(Field::Data);
    Ok(Some(match op {
        "server_put" => ObjectsOp::ServerPut { ns: ns()?, name: name()?, rv: rv()?, data: data()? },
        "server_delete" => ObjectsOp::ServerDelete { ns: ns()?, name: name()? },
        "server_fail" => ObjectsOp::ServerFail { ns: ns()?, name: name()?, code: fields.code()? },
        "server_cache" => ObjectsOp::ServerCache { ns: ns()?, name: name()?, rv: rv()?, data: data()? },
        "node_ttl" => ObjectsOp::NodeTtl { value: fields.nullable(Field::Value)? },
        "node_fail" => ObjectsOp::NodeFail,
        "advance" => ObjectsOp::Advance { by: fields.duration(Field::By)? },
        "register" => ObjectsOp::Register { ns: ns()?, name: name()?, uid: uid()?, refs: fields.strings(Field::Refs)? },
        "unregister" => {
            ObjectsOp::Unregister { ns: ns()?, name: name()?, uid: uid()?, refs: fields.optional_strings(Field::Refs)? }
        }
        "add_reference" => ObjectsOp::AddReference { ns: ns()?, name: name()?, uid: uid()? },
        "delete_reference" => ObjectsOp::DeleteReference { ns: ns()?, name: name()?, uid: uid()? },
        "get" => ObjectsOp::Get { ns: ns()?, name: name()? },
        _ => return Ok(None),
    }))
}

/// Every field that some line needs.
#[derive(Clone, Copy)]
enum Field {
    LarderTrace,
    Kind,
    Evented,
    DefaultTtl,
    Op,
    Uid,
    Status,
    Error,
    T,
    Id,
    Min,
    Ns,
    Name,
    Rv,
    Data,
    Code,
    Value,
    By,
    Refs,
}

impl Field {
    /// In the order of their declaration, which is the order of their places in [`Fields`].
    const ALL: [(Self, &str); 19] = [
        (Self::LarderTrace, "larder_trace"),
        (Self::Kind, "kind"),
        (Self::Evented, "evented"),
        (Self::DefaultTtl, "default_ttl"),
        (Self::Op, "op"),
        (Self::Uid, "uid"),
        (Self::Status, "status"),
        (Self::Error, "error"),
        (Self::T, "t"),
        (Self::Id, "id"),
        (Self::Min, "min"),
        (Self::Ns, "ns"),
        (Self::Name, "name"),
        (Self::Rv, "rv"),
        (Self::Data, "data"),
        (Self::Code, "code"),
        (Self::Value, "value"),
        (Self::By, "by"),
        (Self::Refs, "refs"),
    ];

    const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(field, _)| *field)
    }
}

/// What stands in the fields of a line, as it is written there.
#[derive(Default)]
struct Fields<'a> {
    values: [Option<&'a RawValue>; Field::ALL.len()],
    twice: Option<Field>,
}

impl<'a> Fields<'a> {
    fn parse(line: &'a [u8]) -> Result<Self, LineError> {
        let text = std::str::from_utf8(line).map_err(|error| LineError::NotUtf8 { at: error.valid_up_to() + 1 })?;
        if text.trim_ascii().is_empty() {
            return Err(LineError::Blank);
        }
        let fields: Self =
            serde_json::from_str(text).map_err(|error| match serde_json::from_str::<&RawValue>(text) {
                Ok(value) if !value.get().starts_with('{') => LineError::NotAnObject { found: type_of(value.get()) },
                _ => LineError::Json { at: error.column(), reason: reason(&error) },
            })?;
        match fields.twice {
            Some(field) => Err(LineError::Twice { field: field.name() }),
            None => Ok(fields),
        }
    }

    fn get(&self, field: Field) -> Option<&'a str> {
        self.values[field as usize].map(RawValue::get)
    }

    fn need(&self, field: Field) -> Result<&'a str, LineError> {
        self.get(field).ok_or(LineError::Missing { field: field.name() })
    }

    /// The field where it is there and is not null.
    fn optional(&self, field: Field) -> Option<&'a str> {
        self.get(field).filter(|raw| *raw != "null")
    }

    fn integer(&self, field: Field) -> Result<i64, LineError> {
        integer(field, self.need(field)?, (i64::MIN, i64::MAX))
    }

    fn code(&self) -> Result<u16, LineError> {
        let code = integer(Field::Code, self.need(Field::Code)?, FAILURES)?;
        Ok(u16::try_from(code).unwrap_or(u16::MAX))
    }

    fn string(&self, field: Field) -> Result<String, LineError> {
        string(field, self.need(field)?, "a string")
    }

    /// A string or null; the field must be there.
    fn nullable(&self, field: Field) -> Result<Option<String>, LineError> {
        match self.need(field)? {
            "null" => Ok(None),
            raw => string(field, raw, "a string or null").map(Some),
        }
    }

    /// A string that is not empty, or null; the field must be there.
    fn nullable_text(&self, field: Field) -> Result<Option<String>, LineError> {
        not_empty(field, self.nullable(field)?)
    }

    /// A string that is not empty, if the field is there.
    fn optional_text(&self, field: Field) -> Result<Option<String>, LineError> {
        let text = self.optional(field).map(|raw| string(field, raw, "a string")).transpose()?;
        not_empty(field, text)
    }

    fn optional_bool(&self, field: Field) -> Result<Option<bool>, LineError> {
        match self.optional(field) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(raw) => Err(LineError::Type { field: field.name(), expected: "true or false", found: type_of(raw) }),
        }
    }

    fn duration(&self, field: Field) -> Result<GoDuration, LineError> {
        string(field, self.need(field)?, "a duration such as \"60s\"")?
            .parse()
            .map_err(|fault| LineError::Duration { field: field.name(), fault })
    }

    fn strings(&self, field: Field) -> Result<Vec<String>, LineError> {
        strings(field, self.need(field)?)
    }

    fn optional_strings(&self, field: Field) -> Result<Option<Vec<String>>, LineError> {
        self.optional(field).map(|raw| strings(field, raw)).transpose()
    }
}

fn not_empty(field: Field, text: Option<String>) -> Result<Option<String>, LineError> {
    match text.as_deref() {
        Some("") => Err(LineError::Empty { field: field.name() }),
        _ => Ok(text),
    }
}

fn integer(field: Field, raw: &str, (min, max): (i64, i64)) -> Result<i64, LineError> {
    let field = field.name();
    if !raw.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return Err(LineError::Type { field, expected: "an integer", found: type_of(raw) });
    }
    if raw.contains(['.', 'e', 'E']) {
        return Err(LineError::NotAnInteger { field, number: crate::error_excerpt(raw) });
    }
    // JSON's integers are of the form that `i64` reads: what is left to go wrong is their size.
    raw.parse().ok().filter(|value| (min..=max).contains(value)).ok_or_else(|| LineError::Range {
        field,
        number: crate::error_excerpt(raw),
        min,
        max,
    })
}

fn string(field: Field, raw: &str, expected: &'static str) -> Result<String, LineError> {
    let field = field.name();
    let Some(inner) = raw.strip_prefix('"') else {
        return Err(LineError::Type { field, expected, found: type_of(raw) });
    };
    match inner.strip_suffix('"') {
        Some(inner) if !inner.contains('\\') => Ok(inner.to_owned()),
        // Escapes: half a surrogate pair is JSON, but no text.
        _ => serde_json::from_str(raw).map_err(|error| LineError::Text { field, reason: reason(&error) }),
    }
}

fn strings(field: Field, raw: &str) -> Result<Vec<String>, LineError> {
    let wrong = |found| LineError::Type { field: field.name(), expected: "an array of strings", found };
    if !raw.starts_with('[') {
        return Err(wrong(type_of(raw)));
    }
    let items: Vec<&RawValue> =
        serde_json::from_str(raw).map_err(|error| LineError::Text { field: field.name(), reason: reason(&error) })?;
    items
        .into_iter()
        .map(RawValue::get)
        .map(|item| {
            if item.starts_with('"') {
                string(field, item, "a string")
            } else {
                Err(wrong("an array with another value"))
            }
        })
        .collect()
}

/// What kind of value a piece of JSON is.
fn type_of(raw: &str) -> &'static str {
    match raw.bytes().next() {
        Some(b'"') => "a string",
        Some(b'[') => "an array",
        Some(b'{') => "an object",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// What `serde_json` says, without its own count of lines.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields<'de>, M::Error> {
        let mut fields = Fields::default();
        while let Some(field) = map.next_key_seed(FieldName)? {
            match field {
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
                Some(field) => {
                    let place = &mut fields.values[field as usize];
                    if place.is_some() {
                        fields.twice = Some(field);
                    }
                    *place = Some(map.next_value()?);
                }
            }
        }
        Ok(fields)
    }
}

/// Reads a field's name; `None` for one that no line needs.
struct FieldName;

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = Option<Field>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Field>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldName {
    type Value = Option<Field>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Option<Field>, E> {
        Ok(Field::named(name))
    }

    fn visit_bytes<E: serde::de::Error>(self, _: &[u8]) -> Result<Option<Field>, E> {
        Err(E::custom("the name of a field is not UTF-8"))
    }
}

#[cfg(test)]
mod tests;
