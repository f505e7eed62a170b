//! The metadata of objects alone, as `PartialObjectMetadata` and its list.

use crate::error::DecodeError;
use crate::json::{Borrowed, Fields, Strict, read};
use crate::kind::Kind;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The `PartialObjectMetadata` of one object, from its JSON.
///
/// A Secret's has neither the annotation of the configuration that was last applied, nor `managedFields`.
///
/// # Errors
///
/// The bytes are not JSON, or the metadata is not an object.
///
/// ```
/// use larder_resource::Kind;
/// use larder_resource::representation::partial_metadata;
///
/// let json = br#"{"metadata":{"name":"db","managedFields":[],"generation":3},"data":{"password":"c2VjcmV0"}}"#;
/// assert_eq!(
///     partial_metadata(Kind::Secret, json)?,
///     r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"db","generation":3}}"#
/// );
/// # Ok::<(), larder_resource::DecodeError>(())
/// ```
pub fn partial_metadata(kind: Kind, json: &[u8]) -> Result<Bytes, DecodeError> {
    let mut out = Vec::new();
    write_partial(kind, metadata_of(json)?, json, &mut out)?;
    Ok(out.into())
}

/// The `PartialObjectMetadataList` of a list of this version, from the JSON of its items.
///
/// # Errors
///
/// An item has no [`partial_metadata`].
///
/// ```
/// use larder_resource::Kind;
/// use larder_resource::representation::partial_metadata_list;
///
/// let list = partial_metadata_list(Kind::Pod, "7", [br#"{"metadata":{"name":"web"},"spec":{}}"#])?;
/// assert!(list.starts_with(br#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","#));
/// assert!(list.ends_with(br#""metadata":{"name":"web"}}]}"#));
/// # Ok::<(), larder_resource::DecodeError>(())
/// ```
pub fn partial_metadata_list(
    kind: Kind,
    resource_version: &str,
    items: impl IntoIterator<Item = impl AsRef<[u8]>>,
) -> Result<Bytes, DecodeError> {
    let mut out = Vec::new();
    out.extend_from_slice(br#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":"#);
    write_list_metadata(resource_version, &mut out);
    out.extend_from_slice(br#","items":["#);
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let json = item.as_ref();
        write_partial(kind, metadata_of(json)?, json, &mut out)?;
    }
    out.extend_from_slice(b"]}");
    Ok(out.into())
}

fn metadata_of(json: &[u8]) -> Result<&str, DecodeError> {
    let Strict(part): Strict<Part<'_>> = read(json)?;
    match part.metadata.map_or("null", RawValue::get) {
        "null" => Ok("{}"),
        // What is not an object is refused with its place.
        metadata if !metadata.starts_with('{') => fields_of::<Nothing>(metadata, json).map(|Nothing {}| metadata),
        metadata => Ok(metadata),
    }
}

/// The `PartialObjectMetadata` with the metadata of the object `json`, which is an object too.
pub(super) fn write_partial(kind: Kind, metadata: &str, json: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    out.extend_from_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#);
    match kind {
        Kind::Secret => write_without_values(metadata, json, out)?,
        Kind::ConfigMap | Kind::Pod | Kind::Node | Kind::Namespace => {
            out.extend_from_slice(metadata.as_bytes());
        }
    }
    out.push(b'}');
    Ok(())
}

/// The metadata of a Secret without what repeats its values or names its keys.
fn write_without_values(metadata: &str, json: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let Fields(fields) = serde_json::from_str(metadata)?;
    let kept = fields.iter().filter(|(name, _)| name.0 != "managedFields");
    write_object(kept, out, |(name, value), out| {
        if name.0 != "annotations" || value.get() == "null" {
            out.extend_from_slice(value.get().as_bytes());
            return Ok(());
        }
        let Fields(annotations) = match serde_json::from_str(value.get()) {
            Ok(annotations) => annotations,
            Err(error) => fields_of::<Annotated<'_>>(metadata, json)?.annotations.ok_or(DecodeError::from(error))?,
        };
        let kept = annotations.iter().filter(|(name, _)| name.0 != LAST_APPLIED);
        write_object(kept, out, |(_, value), out| {
            out.extend_from_slice(value.get().as_bytes());
            Ok(())
        })
    })
}

fn write_object<'f, 'a: 'f>(
    fields: impl Iterator<Item = &'f (Borrowed<'a>, &'a RawValue)>,
    out: &mut Vec<u8>,
    mut write_value: impl FnMut(&(Borrowed<'a>, &'a RawValue), &mut Vec<u8>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    out.push(b'{');
    for (at, field) in fields.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_json(&*field.0.0, out);
        out.push(b':');
        write_value(field, out)?;
    }
    out.push(b'}');
    Ok(())
}

/// The metadata of a list or of a table.
pub(super) fn write_list_metadata(resource_version: &str, out: &mut Vec<u8>) {
    if resource_version.is_empty() {
        out.extend_from_slice(b"{}");
        return;
    }
    out.extend_from_slice(br#"{"resourceVersion":"#);
    write_json(resource_version, out);
    out.push(b'}');
}

pub(super) fn write_json(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    // Nothing that is written here has keys other than strings, and writing to a vector does not fail.
    let _ = serde_json::to_writer(out, value);
}

/// Fields of the metadata `part` of the object `json`.
pub(super) fn fields_of<'a, T: Deserialize<'a>>(part: &'a str, json: &'a [u8]) -> Result<T, DecodeError> {
    #[derive(Deserialize)]
    struct Envelope<T> {
        #[expect(dead_code, reason = "it is read for its error")]
        metadata: Option<Strict<T>>,
    }

    match serde_json::from_str(part) {
        Ok(Strict(fields)) => Ok(fields),
        // The whole object is read again, to find the field's place in it.
        Err(error) => Err(read::<Strict<Envelope<T>>>(json).err().unwrap_or_else(|| error.into())),
    }
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Annotated<'a> {
    #[serde(borrow)]
    annotations: Option<Fields<'a>>,
}

#[derive(Deserialize)]
struct Nothing {}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(kind: Kind, json: &str) -> String {
        let bytes = partial_metadata(kind, json.as_bytes()).unwrap_or_else(|error| panic!("{error}: {json}"));
        let head = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#;
        let text = std::str::from_utf8(&bytes).unwrap();
        text.strip_prefix(head).and_then(|rest| rest.strip_suffix('}')).unwrap().to_owned()
    }

    #[test]
    fn metadata_stays_as_it_is() {
        for given in [
            r#"{"name":"a","generation":123456789012345678901234567890,"new":{"x":[1e999,null]},"labels":{"b":"\u00e9\n"}}"#,
            r#"{ "managedFields" : [] , "annotations": {"kubectl.kubernetes.io/last-applied-configuration":"{}"}}"#,
        ] {
            let json = format!(r#"{{"spec":{{"x":1}},"metadata":{given}}}"#);
            for kind in [Kind::ConfigMap, Kind::Pod, Kind::Node, Kind::Namespace] {
                assert_eq!(metadata(kind, &json), given);
            }
        }
        for json in ["{}", r#"{"metadata":null}"#, r#"{"metadata":{}}"#] {
            for kind in Kind::ALL {
                assert_eq!(metadata(kind, json), "{}");
            }
        }
    }

    #[test]
    fn the_metadata_of_a_secret_shows_no_values() {
        for (given, expected) in [
            (r#"{"name":"a"}"#, r#"{"name":"a"}"#),
            (r#"{"managedFields":[{"f:data":{}}],"name":"a"}"#, r#"{"name":"a"}"#),
            (r#"{"managed\u0046ields":[],"managedFields":1}"#, "{}"),
            (r#"{"annotations":null,"new":1e999}"#, r#"{"annotations":null,"new":1e999}"#),
            (
                r#"{"annotations":{"a":"1","kubectl.kubernetes.io/last-applied-configuration":"v","b":{"c":[2]}}}"#,
                r#"{"annotations":{"a":"1","b":{"c":[2]}}}"#,
            ),
            (
                r#"{"annotations":{"kubectl.kubernetes.io\/last\u002dapplied-configuration":"v"}}"#,
                r#"{"annotations":{}}"#,
            ),
            (
                r#"{"annotations":{"a":"1"},"annotations":{"b":"2"}}"#,
                r#"{"annotations":{"a":"1"},"annotations":{"b":"2"}}"#,
            ),
        ] {
            let json = format!(r#"{{"metadata":{given},"data":{{"key":"v"}}}}"#);
            assert_eq!(metadata(Kind::Secret, &json), expected);
        }
    }

    #[test]
    fn metadata_that_is_no_object_is_refused() {
        for json in [r#"{"metadata":5}"#, r#"{"metadata":"c2VjcmV0"}"#, r#"{"metadata":[{}]}"#] {
            for kind in Kind::ALL {
                let error = partial_metadata(kind, json.as_bytes()).unwrap_err();
                assert!(matches!(&error, DecodeError::WrongType { field, .. } if &**field == "metadata"), "{error:?}");
                assert!(partial_metadata_list(kind, "1", [json]).is_err());
            }
        }
        let json = br#"{"metadata":{"annotations":"c2VjcmV0"}}"#;
        let error = partial_metadata(Kind::Secret, json).unwrap_err();
        assert_eq!(error.to_string(), "the field metadata.annotations has the wrong type, at line 1 column 37");
        for json in ["", "[]", "null", r#"{"metadata":{"#, "{} {}"] {
            assert!(partial_metadata(Kind::Pod, json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn a_list_has_each_item_by_itself() {
        let one = partial_metadata(Kind::Pod, br#"{"metadata":{"name":"a"}}"#).unwrap();
        let one = std::str::from_utf8(&one).unwrap();
        let head = r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":"#;
        let list = |version, items: &[&str]| partial_metadata_list(Kind::Pod, version, items).unwrap();
        assert_eq!(list("", &[]), format!(r#"{head}{{}},"items":[]}}"#));
        let items = [r#"{"metadata":{"name":"a"}}"#; 2];
        assert_eq!(list("7", &items), format!(r#"{head}{{"resourceVersion":"7"}},"items":[{one},{one}]}}"#));
    }
}
