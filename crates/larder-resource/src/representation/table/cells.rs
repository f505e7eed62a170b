//! What the cells of all kinds have in common, and the printers of Secrets, ConfigMaps and Namespaces.

use super::super::age::age;
use super::super::metadata::fields_of;
use super::Row;
use crate::error::DecodeError;
use crate::json::{Borrowed, Entries, Fields, Strict, read};
use crate::kind::ObjectKind;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// What a table says of a Secret or a ConfigMap: enough for its cells, without a value of its data.
///
/// ```
/// use larder_resource::ObjectKind;
/// use larder_resource::representation::ObjectSummary;
///
/// let summary = ObjectSummary { name: "tls", type_: "kubernetes.io/tls", entries: 2, created: None };
/// let cells = summary.cells(ObjectKind::Secret, "2026-01-01T00:00:00Z".parse()?);
/// assert_eq!(serde_json::Value::from(cells), serde_json::json!(["tls", "kubernetes.io/tls", 2, "<unknown>"]));
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ObjectSummary<'a> {
    /// Its name.
    pub name: &'a str,
    /// The type of a Secret; empty where none is given, which stands for `Opaque`.
    pub type_: &'a str,
    /// How many entries it has.
    pub entries: u64,
    /// When it was created.
    pub created: Option<Timestamp>,
}

impl ObjectSummary<'_> {
    /// The cells of its row.
    pub fn cells(&self, kind: ObjectKind, now: Timestamp) -> Vec<Value> {
        match kind {
            ObjectKind::Secret => self.secret_cells("Opaque", now),
            ObjectKind::ConfigMap => vec![self.name.into(), self.entries.into(), age(self.created, now).into()],
        }
    }

    /// The cells of a Secret, which has the type `without` if it gives none.
    pub(super) fn secret_cells(&self, without: &str, now: Timestamp) -> Vec<Value> {
        let type_ = if self.type_.is_empty() { without } else { self.type_ };
        vec![self.name.into(), type_.into(), self.entries.into(), age(self.created, now).into()]
    }
}

pub(super) fn secret(json: &[u8], now: Timestamp) -> Result<Row<'_>, DecodeError> {
    let Strict(wire): Strict<SecretWire<'_>> = read(json)?;
    let metadata = Metadata::of(wire.metadata, json)?;
    let entries = match &wire.string_data {
        Some(texts) if texts.0 > 0 => secret_keys(json)?,
        _ => entries(&[wire.data]),
    };
    let summary = ObjectSummary { type_: &wire.type_.0, entries, ..metadata.summary() };
    Ok(Row { cells: summary.cells(ObjectKind::Secret, now), conditions: &[], metadata })
}

/// How many keys `data` and `stringData` have together. No stored Secret has `stringData`: the API server moves it to `data`.
fn secret_keys(json: &[u8]) -> Result<u64, DecodeError> {
    let Strict(wire): Strict<SecretKeys<'_>> = read(json)?;
    let keys: BTreeSet<&str> =
        [&wire.data, &wire.string_data].into_iter().flatten().flat_map(|map| &map.0).map(|(key, _)| &*key.0).collect();
    Ok(u64::try_from(keys.len()).unwrap_or(u64::MAX))
}

pub(super) fn config_map(json: &[u8], now: Timestamp) -> Result<Row<'_>, DecodeError> {
    let Strict(wire): Strict<ConfigMapWire<'_>> = read(json)?;
    let metadata = Metadata::of(wire.metadata, json)?;
    let summary = ObjectSummary { entries: entries(&[wire.data, wire.binary_data]), ..metadata.summary() };
    Ok(Row { cells: summary.cells(ObjectKind::ConfigMap, now), conditions: &[], metadata })
}

pub(super) fn namespace(json: &[u8], now: Timestamp) -> Result<Row<'_>, DecodeError> {
    let Strict(wire): Strict<NamespaceWire<'_>> = read(json)?;
    let metadata = Metadata::of(wire.metadata, json)?;
    let phase = wire.status.map(|Strict(status)| status.phase.0).filter(|phase| !phase.is_empty());
    let cells = namespace_cells(&metadata.name, phase.as_deref().unwrap_or("Active"), metadata.created, now);
    Ok(Row { cells, conditions: &[], metadata })
}

pub(super) fn namespace_cells(name: &str, phase: &str, created: Option<Timestamp>, now: Timestamp) -> Vec<Value> {
    vec![name.into(), phase.into(), age(created, now).into()]
}

fn entries(maps: &[Option<Entries>]) -> u64 {
    maps.iter().flatten().map(|entries| u64::from(entries.0)).sum()
}

/// The metadata of an object: as it stands in its JSON, and what a row needs of it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Metadata<'a> {
    /// An object of JSON.
    pub(super) json: &'a str,
    pub(super) name: Cow<'a, str>,
    pub(super) resource_version: Cow<'a, str>,
    pub(super) created: Option<Timestamp>,
    pub(super) is_deleting: bool,
    /// Whether this is the bookmark that ends the initial events of a watch.
    pub(super) ends_initial_events: bool,
}

impl<'a> Metadata<'a> {
    /// The metadata of the object `json`, in which it is `part`.
    pub(super) fn of(part: Option<&'a RawValue>, json: &'a [u8]) -> Result<Self, DecodeError> {
        let Some(part) = part.map(RawValue::get).filter(|text| *text != "null") else {
            return Ok(Self::from_wire("{}", MetadataWire::default()));
        };
        Ok(Self::from_wire(part, fields_of(part, json)?))
    }

    /// The metadata of the object `json`, of which nothing else matters.
    pub(super) fn read(json: &'a [u8]) -> Result<Self, DecodeError> {
        let Strict(part): Strict<Part<'_>> = read(json)?;
        Self::of(part.metadata, json)
    }

    fn from_wire(json: &'a str, wire: MetadataWire<'a>) -> Self {
        let end = wire.annotations.is_some_and(|Strict(all)| all.initial_events_end.is_some_and(|end| end.0 == "true"));
        Self {
            json,
            name: wire.name.0,
            resource_version: wire.resource_version.0,
            created: wire.creation_timestamp,
            is_deleting: wire.deletion_timestamp.is_some(),
            ends_initial_events: end,
        }
    }

    fn summary(&self) -> ObjectSummary<'_> {
        ObjectSummary { name: &self.name, created: self.created, ..ObjectSummary::default() }
    }
}

#[derive(Deserialize)]
struct SecretWire<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "type")]
    type_: Borrowed<'a>,
    data: Option<Entries>,
    #[serde(rename = "stringData")]
    string_data: Option<Entries>,
}

#[derive(Deserialize)]
struct SecretKeys<'a> {
    #[serde(borrow)]
    data: Option<Fields<'a>>,
    #[serde(borrow, rename = "stringData")]
    string_data: Option<Fields<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigMapWire<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    data: Option<Entries>,
    binary_data: Option<Entries>,
}

#[derive(Deserialize)]
struct NamespaceWire<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<Strict<NamespaceStatus<'a>>>,
}

#[derive(Deserialize)]
struct NamespaceStatus<'a> {
    #[serde(borrow, default)]
    phase: Borrowed<'a>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct MetadataWire<'a> {
    #[serde(borrow, default)]
    name: Borrowed<'a>,
    #[serde(borrow, default)]
    resource_version: Borrowed<'a>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    #[serde(borrow)]
    annotations: Option<Strict<Annotations<'a>>>,
}

#[derive(Deserialize)]
struct Annotations<'a> {
    #[serde(borrow, rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<Borrowed<'a>>,
}
