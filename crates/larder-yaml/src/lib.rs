#![doc(test(attr(deny(warnings))))]
//! YAML and JSON as the tools of Kubernetes read them, with the place of every value.
//!
//! [`yaml`], [`strict_yaml`] and [`yaml_or_json`] read a text to a tree of [`Node`]s; [`Node::decode`] makes a typed value of one.
//!
//! # Guarantees
//!
//! - *As Kubernetes reads it*: scalars, tags, keys and merges mean what `sigs.k8s.io/yaml` makes of them, and decoding follows
//!   Go's JSON: null is the zero value, unknown fields are passed over, names of fields are case-sensitive, of a key that
//!   stands twice the last one counts, base64 may have line breaks.
//! - *Bounded*: nesting and the expansion of aliases have limits.
//! - *Quiet*: no [`Mistake`] quotes a value. It names the place and the path of the field.
//! - *Overwritten*: the text of scalars is zeroed when a node is dropped. The parser's own buffers are not.
//!
//! # Limits
//!
//! UTF-8 only. A text is one document: what follows the first document is passed over, or refused by [`strict_yaml`]. Nesting ends at 255 levels, and an
//! alias may not repeat more than 16 MiB of text in all.
//!
//! # Example
//!
//! ```
//! #[derive(serde::Deserialize, Default)]
//! #[serde(default)]
//! struct Container {
//!     name: String,
//!     privileged: bool,
//! }
//!
//! let node = larder_yaml::yaml("name: web\nprivileged: yes\n")?;
//! let container: Container = node.decode()?;
//! assert!(container.name == "web" && container.privileged);
//!
//! let mistake = larder_yaml::yaml("name: [web]\n")?.decode::<Container>().err().unwrap();
//! assert_eq!(mistake.to_string(), "name: a list where a string belongs");
//! assert_eq!(mistake.place().unwrap().to_string(), "line 1 column 7");
//! # Ok::<(), larder_yaml::Mistake>(())
//! ```

mod bytes;
mod compose;
mod decode;
mod format;
mod json;
mod mistake;
mod node;
mod scalar;

pub use bytes::Bytes;
pub use mistake::{Mistake, Place};
pub use node::{Node, Value};

/// The first document of a text in YAML, as `sigs.k8s.io/yaml` reads it. A text without a document is null.
///
/// # Errors
///
/// Where the text is not YAML, has a value that JSON does not have, or exceeds a limit.
///
/// ```
/// let node = larder_yaml::yaml("mode: 0400\n")?;
/// assert_eq!(node.get("mode").unwrap().decode::<u32>()?, 0o400);
/// # Ok::<(), larder_yaml::Mistake>(())
/// ```
pub fn yaml(text: &str) -> Result<Node, Mistake> {
    compose::compose(text, false)
}

/// The only document of a text in YAML, in which each key of a map stands once. Scalars are read as by [`yaml`].
///
/// # Errors
///
/// As for [`yaml`]; also a key that stands twice in a map, a merge (`<<`), and a second document.
///
/// ```
/// let mistake = larder_yaml::strict_yaml("effect: deny\neffect: allow\n").unwrap_err();
/// assert_eq!(mistake.to_string(), "effect: this key stands twice: remove one of them");
/// assert_eq!(mistake.place().unwrap().to_string(), "line 2 column 1");
/// assert!(larder_yaml::strict_yaml("a: 1\n---\na: 2\n").is_err());
/// ```
pub fn strict_yaml(text: &str) -> Result<Node, Mistake> {
    compose::compose(text, true)
}

/// A document of a manifest: JSON where the text begins with a brace, otherwise YAML, as the kubelet reads it. What begins with a
/// brace and is not JSON is read as YAML too, as kubectl does and the kubelet does not.
///
/// # Errors
///
/// As for [`yaml`]; of a text that begins with a brace, what is wrong with its JSON.
///
/// ```
/// let node = larder_yaml::yaml_or_json("{\"kind\": \"Pod\"}")?;
/// assert_eq!(node.get("kind").and_then(|kind| kind.as_str()), Some("Pod"));
/// assert!(larder_yaml::yaml_or_json("{kind: Pod}").is_ok());
/// # Ok::<(), larder_yaml::Mistake>(())
/// ```
pub fn yaml_or_json(text: &str) -> Result<Node, Mistake> {
    if text.trim_start().starts_with('{') {
        json::read(text).or_else(|mistake| yaml(text).map_err(|_| mistake))
    } else {
        yaml(text)
    }
}

#[cfg(test)]
mod tests;
