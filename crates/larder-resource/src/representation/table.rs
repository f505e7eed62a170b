//! Tables: the columns of a kind, the cells of an object, and the documents that hold them.

use super::metadata;
use crate::error::DecodeError;
use crate::kind::Kind;
use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::str::FromStr;

mod cells;
mod columns;
mod node;
mod pod;

pub use cells::ObjectSummary;
pub use columns::{Column, columns};

/// What a row says of the object beside its cells: the query parameter `includeObject`.
///
/// ```
/// use larder_resource::representation::IncludeObject;
///
/// assert_eq!("".parse(), Ok(IncludeObject::Metadata));
/// assert_eq!("Object".parse(), Ok(IncludeObject::Object));
/// assert!("object".parse::<IncludeObject>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata, as a `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

/// A word that `includeObject` does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("supported values: \"\", \"Metadata\", \"None\", \"Object\"")]
pub struct UnknownIncludeObject;

impl FromStr for IncludeObject {
    type Err = UnknownIncludeObject;

    fn from_str(word: &str) -> Result<Self, UnknownIncludeObject> {
        match word {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            _ => Err(UnknownIncludeObject),
        }
    }
}

/// What a row says of itself: whether its object has run to completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct RowCondition {
    /// `Completed`
    #[serde(rename = "type")]
    pub type_: &'static str,
    /// `True`
    pub status: &'static str,
    /// The phase of the pod.
    pub reason: &'static str,
    /// The same, as a sentence.
    pub message: &'static str,
}

/// One object in a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Row<'a> {
    /// A cell for each of the kind's [`columns`].
    pub cells: Vec<Value>,
    /// Of a pod that has ended, that it has; otherwise none.
    pub conditions: &'static [RowCondition],
    metadata: cells::Metadata<'a>,
}

/// The row of one object, from its JSON.
///
/// # Errors
///
/// The bytes are not JSON, or a field that a cell needs has the wrong type; the error names the field.
///
/// ```
/// use larder_resource::Kind;
/// use larder_resource::representation::row;
///
/// let json = br#"{"metadata":{"name":"site","creationTimestamp":"2026-01-01T00:00:00Z"},"data":{"port":"80"}}"#;
/// let row = row(Kind::ConfigMap, json, "2026-01-03T00:00:00Z".parse()?)?;
/// assert_eq!(row.cells, ["site".into(), 1.into(), serde_json::Value::from("2d")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn row(kind: Kind, json: &[u8], now: Timestamp) -> Result<Row<'_>, DecodeError> {
    match kind {
        Kind::Secret => cells::secret(json, now),
        Kind::ConfigMap => cells::config_map(json, now),
        Kind::Pod => pod::row(json, now),
        Kind::Node => node::row(json, now),
        Kind::Namespace => cells::namespace(json, now),
    }
}

/// How to write the documents of kind `Table`.
///
/// A document comes in parts, which make it up one after another. Whole objects are parts of their own and share their bytes, so
/// the values of a Secret are not copied. Nothing follows the last brace, so a document fits into an event of a watch.
///
/// ```
/// use bytes::Bytes;
/// use larder_resource::Kind;
/// use larder_resource::representation::{IncludeObject, Table};
///
/// let json = Bytes::from(r#"{"metadata":{"name":"web","resourceVersion":"7"},"status":{"phase":"Active"}}"#);
/// let table = Table { kind: Kind::Namespace, include: IncludeObject::None, with_columns: false };
/// let parts = table.object(&json, "2026-01-01T00:00:00Z".parse()?)?;
/// assert_eq!(
///     parts.concat(),
///     br#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},"columnDefinitions":null,"#.iter()
///         .chain(br#""rows":[{"cells":["web","Active","<unknown>"],"object":null}]}"#).copied().collect::<Vec<_>>()
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table {
    /// The kind of the objects.
    pub kind: Kind,
    /// What each row says of its object.
    pub include: IncludeObject,
    /// Whether the document defines its columns. In a watch, only the first one does.
    pub with_columns: bool,
}

impl Table {
    /// The table of a list, with the list's version.
    ///
    /// # Errors
    ///
    /// An item has no [`row`].
    pub fn list(
        self,
        resource_version: &str,
        items: impl IntoIterator<Item = Bytes>,
        now: Timestamp,
    ) -> Result<Vec<Bytes>, DecodeError> {
        let mut parts = self.begin(resource_version);
        for (at, json) in items.into_iter().enumerate() {
            if at > 0 {
                parts.text.push(b',');
            }
            self.write_row(&row(self.kind, &json, now)?, &json, &mut parts)?;
        }
        Ok(parts.end())
    }

    /// The table of one object, with the object's version.
    ///
    /// # Errors
    ///
    /// The object has no [`row`].
    pub fn object(self, json: &Bytes, now: Timestamp) -> Result<Vec<Bytes>, DecodeError> {
        self.one(&row(self.kind, json, now)?, json)
    }

    /// The table of a bookmark: an object of which only the version and perhaps the annotation `k8s.io/initial-events-end` is set.
    /// As the API server does, it keeps the metadata of a bookmark with that annotation, whatever is asked for.
    ///
    /// # Errors
    ///
    /// The bytes are not JSON, or a field of the metadata has the wrong type.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use larder_resource::Kind;
    /// use larder_resource::representation::{IncludeObject, Table};
    ///
    /// let json = Bytes::from(r#"{"kind":"Secret","apiVersion":"v1","metadata":{"resourceVersion":"9"}}"#);
    /// let table = Table { kind: Kind::Secret, include: IncludeObject::None, with_columns: false };
    /// let text = String::from_utf8(table.bookmark(&json)?.concat())?;
    /// assert!(text.contains(r#""metadata":{"resourceVersion":"9"}"#));
    /// assert!(text.ends_with(r#""rows":[{"cells":["","",0,"<unknown>"],"object":null}]}"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bookmark(self, json: &Bytes) -> Result<Vec<Bytes>, DecodeError> {
        let cells = match self.kind {
            // What is not stored has none of the defaults of a stored object.
            Kind::Secret => ObjectSummary::default().secret_cells("", Timestamp::UNIX_EPOCH),
            Kind::Namespace => cells::namespace_cells("", "", None, Timestamp::UNIX_EPOCH),
            kind @ (Kind::ConfigMap | Kind::Pod | Kind::Node) => row(kind, b"{}", Timestamp::UNIX_EPOCH)?.cells,
        };
        self.one(&Row { cells, conditions: &[], metadata: cells::Metadata::read(json)? }, json)
    }

    fn one(self, row: &Row<'_>, json: &Bytes) -> Result<Vec<Bytes>, DecodeError> {
        let mut parts = self.begin(&row.metadata.resource_version);
        self.write_row(row, json, &mut parts)?;
        Ok(parts.end())
    }

    fn begin(self, resource_version: &str) -> Parts {
        let mut parts = Parts::default();
        let text = &mut parts.text;
        text.extend_from_slice(br#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":"#);
        metadata::write_list_metadata(resource_version, text);
        text.extend_from_slice(br#","columnDefinitions":"#);
        metadata::write_json(&self.with_columns.then(|| columns(self.kind)), text);
        text.extend_from_slice(br#","rows":["#);
        parts
    }

    fn write_row(self, row: &Row<'_>, json: &Bytes, parts: &mut Parts) -> Result<(), DecodeError> {
        let text = &mut parts.text;
        text.extend_from_slice(br#"{"cells":"#);
        metadata::write_json(&row.cells, text);
        if !row.conditions.is_empty() {
            text.extend_from_slice(br#","conditions":"#);
            metadata::write_json(row.conditions, text);
        }
        text.extend_from_slice(br#","object":"#);
        match self.include {
            IncludeObject::Object => parts.share(json.clone()),
            IncludeObject::None if !row.metadata.ends_initial_events => text.extend_from_slice(b"null"),
            IncludeObject::None | IncludeObject::Metadata => {
                metadata::write_partial(self.kind, row.metadata.json, json, text)?;
            }
        }
        parts.text.push(b'}');
        Ok(())
    }
}

/// A document on its way: text, and between it the bytes of objects.
#[derive(Default)]
struct Parts {
    done: Vec<Bytes>,
    text: Vec<u8>,
}

impl Parts {
    fn share(&mut self, part: Bytes) {
        self.done.push(std::mem::take(&mut self.text).into());
        self.done.push(part);
    }

    fn end(mut self) -> Vec<Bytes> {
        self.text.extend_from_slice(b"]}");
        self.done.push(self.text.into());
        self.done
    }
}

#[cfg(test)]
mod tests;
