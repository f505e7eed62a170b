//! The JSON of the part of an object that may be seen.

use crate::extent::{Extent, Keys, Metadata};
use larder_resource::json::{Borrowed, Fields};
use larder_resource::{DecodeError, Kind};
use serde_json::value::RawValue;
use zeroize::Zeroizing;

/// The labels of a node that its pods may see: those that say where the node is and what it is, and not what it is for.
pub const NODE_LABELS: [&str; 6] = [
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// The JSON of the part of an object that may be seen. It is never longer than the object's, and is zeroed when it is dropped.
///
/// A part has `apiVersion`, `kind` and of `metadata` what the extent says. With keys of a Secret or ConfigMap, it also has `type`,
/// `immutable`, and these keys of `data`, `binaryData` and `stringData`, with their values as they stand. Everything else is dropped,
/// also annotations, among them kubectl's copy of the whole object, owner references and finalizers: they say who manages the object.
/// A field that stands twice and may be seen stands twice in the part, so a reader takes from both the same.
///
/// # Errors
///
/// The bytes are not JSON, or a map whose entries have to be chosen is not an object: `metadata`, a node's labels, or the data. The
/// error has no value of the object.
///
/// ```
/// use larder_policy::{Extent, restrict};
/// use larder_resource::Kind;
///
/// let node = br#"{"kind": "Node", "metadata": {"name": "edge-1", "annotations": {"a": "b"},
///     "labels": {"kubernetes.io/os": "linux", "team": "a"}}, "spec": {"podCIDR": "10.0.0.0/24"}}"#;
/// assert_eq!(
///     *restrict(node, Kind::Node, &Extent::node())?,
///     br#"{"kind":"Node","metadata":{"name":"edge-1","labels":{"kubernetes.io/os":"linux"}}}"#
/// );
/// # Ok::<(), larder_resource::DecodeError>(())
/// ```
pub fn restrict(json: &[u8], kind: Kind, extent: &Extent) -> Result<Zeroizing<Vec<u8>>, DecodeError> {
    let (metadata, keys) = match extent {
        Extent::Whole => return Ok(Zeroizing::new(json.to_vec())),
        Extent::Part { metadata, keys } => (*metadata, keys),
    };
    let has_data = match kind {
        Kind::Secret | Kind::ConfigMap => *keys != Keys::none(),
        Kind::Pod | Kind::Node | Kind::Namespace => false,
    };
    // Room for all of it: growing would leave copies behind.
    let mut out = Zeroizing::new(Vec::with_capacity(json.len()));
    let Fields(fields) = serde_json::from_slice(json)?;
    write_object(&fields, &mut out, |name, value, out| {
        match name {
            "apiVersion" | "kind" => out.value(value),
            "metadata" => out.map(value, |fields, out| write_metadata(fields, metadata, out))?,
            "type" | "immutable" if has_data => out.value(value),
            "data" | "binaryData" | "stringData" if has_data => out.map(value, |fields, out| {
                write_object(fields, out, |key, value, out| {
                    if keys.has(key) {
                        out.value(value);
                    }
                    Ok(())
                })
            })?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(out)
}

fn write_metadata(fields: &Entries<'_>, metadata: Metadata, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    write_object(fields, out, |name, value, out| {
        match (name, metadata) {
            ("labels", Metadata::Node) => out.map(value, |labels, out| {
                write_object(labels, out, |label, value, out| {
                    if NODE_LABELS.contains(&label) {
                        out.value(value);
                    }
                    Ok(())
                })
            })?,
            (
                "name"
                | "namespace"
                | "uid"
                | "resourceVersion"
                | "generation"
                | "creationTimestamp"
                | "deletionTimestamp"
                | "deletionGracePeriodSeconds",
                Metadata::Node | Metadata::Identity,
            )
            | ("labels", Metadata::Identity) => out.value(value),
            (_, Metadata::Node | Metadata::Identity) => {}
        }
        Ok(())
    })
}

type Entries<'a> = Vec<(Borrowed<'a>, &'a RawValue)>;

/// Writes an object of those fields for which `write` writes a value.
fn write_object<'a>(
    fields: &Entries<'a>,
    out: &mut Vec<u8>,
    mut write: impl FnMut(&str, &'a RawValue, &mut Field<'_>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    out.push(b'{');
    let mut is_first = true;
    for (name, value) in fields {
        let mut field = Field { name: &name.0, is_first, is_written: false, out };
        write(&name.0, value, &mut field)?;
        is_first &= !field.is_written;
    }
    out.push(b'}');
    Ok(())
}

/// A field whose name is written once its value is.
struct Field<'a> {
    name: &'a str,
    is_first: bool,
    is_written: bool,
    out: &'a mut Vec<u8>,
}

impl Field<'_> {
    /// Writes the value as it stands.
    fn value(&mut self, value: &RawValue) {
        self.begin().extend_from_slice(value.get().as_bytes());
    }

    /// Writes a part of a value that is an object; `null` as it stands.
    fn map<'a>(
        &mut self,
        value: &'a RawValue,
        write: impl FnOnce(&Entries<'a>, &mut Vec<u8>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        if value.get() == "null" {
            self.value(value);
            return Ok(());
        }
        let Fields(fields) = serde_json::from_str(value.get())?;
        write(&fields, self.begin())
    }

    fn begin(&mut self) -> &mut Vec<u8> {
        self.is_written = true;
        if !self.is_first {
            self.out.push(b',');
        }
        // A string and writing to a vector do not fail. No character is longer than it was in the object.
        let _ = serde_json::to_writer(&mut *self.out, self.name);
        self.out.push(b':');
        self.out
    }
}

#[cfg(test)]
mod tests;
