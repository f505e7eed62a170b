//! A pod with another resource version.

use crate::wire;
use crate::write::Object;
use larder_resource::DecodeError;
use larder_resource::json::Fields;

/// The JSON of a pod with another resource version, in the place of its own or behind its metadata. Everything else stays as it is, byte for byte.
///
/// # Errors
///
/// The bytes are not the JSON of an object, or its metadata is none.
///
/// ```
/// let pod = br#"{"metadata":{"resourceVersion":"7", "name":"web"},"spec":{ }}"#;
/// let numbered = larder_pods::with_resource_version(pod, 9)?;
/// assert_eq!(numbered, br#"{"metadata":{"resourceVersion":"9","name":"web"},"spec":{ }}"#);
/// # Ok::<(), larder_resource::DecodeError>(())
/// ```
pub fn with_resource_version(json: &[u8], version: u64) -> Result<Vec<u8>, DecodeError> {
    const NAME: &str = "resourceVersion";
    let Fields(fields) = serde_json::from_slice(json)?;
    let version = version.to_string();
    let mut out = Vec::with_capacity(json.len() + version.len() + NAME.len());
    let mut pod = Object::begin(&mut out);
    for (name, value) in &fields {
        if name.0 != "metadata" {
            pod.raw(&name.0, value);
            continue;
        }
        let metadata = wire::fields(Some(value))?;
        let mut meta = Object::begin(pod.name("metadata"));
        let mut is_written = false;
        for (name, value) in &metadata {
            if name.0 != NAME {
                meta.raw(&name.0, value);
            } else if !std::mem::replace(&mut is_written, true) {
                meta.text(NAME, &version);
            }
        }
        if !is_written {
            meta.text(NAME, &version);
        }
        meta.end();
    }
    pod.end();
    Ok(out)
}
