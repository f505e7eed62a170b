//! When two answers are the same.
//!
//! The original decodes objects into Go's types, and encodes those. Larder passes the bytes on. So metadata is compared without the
//! fields that Go does not know or leaves out, and with times to the second.

use super::objects::{SECRET_VALUE, UNKNOWN_FIELD};
use super::{Answer, Question};
use jiff::Timestamp;
use larder_resource::Kind;
use larder_resource::representation::IncludeObject;
use serde_json::{Map, Value};

/// Compares larder's answer with the original's; an error says where they differ.
pub(super) fn check(question: &Question, ours: &Answer, right: &Value) -> Result<(), String> {
    let parse = |text: &[u8]| serde_json::from_slice::<Value>(text).map_err(|error| format!("not JSON: {error}"));
    let (table, metadata) = (parse(&ours.table)?, parse(&ours.metadata)?);
    shows_no_values(question, ours)?;
    equal("metadata", &reduced(question.kind, metadata), &reduced(question.kind, right["metadata"].clone()))?;
    let expected = &right["table"];
    for field in ["kind", "apiVersion", "metadata", "columnDefinitions"] {
        equal(field, &table[field], &expected[field])?;
    }
    let rows = |table: &Value| table["rows"].as_array().cloned().unwrap_or_default();
    let (rows, expected) = (rows(&table), rows(expected));
    if rows.len() != expected.len() {
        return Err(format!("{} rows, not {}", rows.len(), expected.len()));
    }
    for ((row, expected), object) in rows.iter().zip(&expected).zip(question.objects()) {
        equal("cells", &row["cells"], &expected["cells"])?;
        equal("conditions", &row["conditions"], &expected["conditions"])?;
        match question.include {
            IncludeObject::Object => equal("object", &row["object"], object)?,
            IncludeObject::None | IncludeObject::Metadata => {
                let reduced = |row: &Value| reduced(question.kind, row["object"].clone());
                equal("object", &reduced(row), &reduced(expected))?;
            }
        }
    }
    Ok(())
}

fn equal(what: &str, ours: &Value, right: &Value) -> Result<(), String> {
    if ours == right { Ok(()) } else { Err(format!("{what} is\n{ours}, not\n{right}")) }
}

fn shows_no_values(question: &Question, ours: &Answer) -> Result<(), String> {
    let shows = |text: &[u8]| String::from_utf8_lossy(text).contains(SECRET_VALUE);
    let is_whole = question.include == IncludeObject::Object;
    if question.kind == Kind::Secret && (shows(&ours.metadata) || !is_whole && shows(&ours.table)) {
        return Err("it shows a value of a Secret".to_owned());
    }
    Ok(())
}

/// A document of metadata without what is not compared.
fn reduced(kind: Kind, mut document: Value) -> Value {
    for item in document.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        *item = reduced(kind, item.take());
    }
    let Some(Value::Object(metadata)) = document.get_mut("metadata") else { return document };
    match kind {
        Kind::Secret => {
            metadata.remove("managedFields");
            if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
                annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            }
        }
        Kind::Namespace => {
            // The API server sets this label where it is missing, in storage too.
            if let Some(Value::Object(labels)) = metadata.get_mut("labels") {
                labels.remove("kubernetes.io/metadata.name");
            }
        }
        Kind::ConfigMap | Kind::Pod | Kind::Node => {}
    }
    set_fields(metadata);
    document
}

/// Leaves the fields that Go's types have and that are set.
fn set_fields(object: &mut Map<String, Value>) {
    object.remove(UNKNOWN_FIELD);
    for (name, value) in object.iter_mut() {
        match value {
            Value::Object(inner) => set_fields(inner),
            Value::Array(elements) => {
                for element in elements {
                    element.as_object_mut().into_iter().for_each(set_fields);
                    // An element that is `null` is one whose fields are not set.
                    if !is_set(element) {
                        *element = Value::Null;
                    }
                }
            }
            Value::String(text) if name.ends_with("Timestamp") || name == "time" => {
                *value = text.parse::<Timestamp>().ok().map_or(Value::Null, |time| whole_seconds(time).into());
            }
            _ => {}
        }
    }
    object.retain(|_, value| is_set(value));
}

/// Whether the value is another than the zero value of its type in Go.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(value) => value.as_i64() != Some(0),
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// The second in which the time lies; none for Go's zero time.
fn whole_seconds(time: Timestamp) -> Option<i64> {
    let seconds = time.as_second() - i64::from(time.subsec_nanosecond() < 0);
    (seconds != -62_135_596_800).then_some(seconds)
}
