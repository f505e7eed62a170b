#![doc(test(attr(deny(warnings))))]
//! Kubernetes objects as their source sent them, what a source knows of them, and the selectors of lists.
//!
//! The API server's client, the manifests, the node and the local API hand these objects to each other. Nothing here does I/O,
//! reads a clock, or spawns a task.
//!
//! - [`KubeObject`]: the bytes of one object, and the metadata that a cache needs.
//! - [`Pod`] and [`Node`]: the same, with what a node needs of its pods and of itself.
//! - [`Kind`] and [`ObjectKind`]: the kinds that larder holds, and those that pods refer to; [`PerKind`]: a value for each.
//! - [`source`]: the pods or the node as a source last had them, for readers and followers.
//! - [`journal`]: what became visible, changed and went, for watches of the Kubernetes API.
//! - [`selector`]: label and field selectors.
//! - [`representation`]: objects as tables, and as their metadata alone.
//! - [`json`]: how the JSON of the Kubernetes API is read.
//!
//! # Guarantees
//!
//! - *Verbatim*: an object keeps the bytes that its source sent, so fields that larder does not know survive.
//! - *Quiet*: no `Debug` and no [`DecodeError`] shows what is in an object. The bytes of a Secret are overwritten when the last
//!   user drops them.
//!
//! # Limits
//!
//! JSON only. An object's metadata is what larder reads of it: no owner references, no finalizers, of annotations two. A table reads
//! the fields that it shows, when it is asked for.
//!
//! # Example
//!
//! ```
//! use larder_resource::selector::LabelSelector;
//! use larder_resource::{Kind, KubeObject};
//!
//! let json = br#"{"metadata":{"namespace":"web","name":"site","labels":{"app":"web"}},"data":{"port":"80"}}"#;
//! let config_map = KubeObject::from_json(Kind::ConfigMap, json)?;
//! assert_eq!(config_map.key().to_string(), "web/site");
//!
//! let selector: LabelSelector = "app in (web, shop)".parse()?;
//! assert!(selector.matches(|label| config_map.label(label)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
pub mod journal;
pub mod json;
mod kind;
mod node;
mod object;
mod pieces;
mod pod;
pub mod representation;
pub mod selector;
pub mod source;
mod text;

pub use error::DecodeError;
pub use kind::{Kind, ObjectKind, PerKind};
pub use node::Node;
pub use object::{ApiObject, KubeObject, json_of, json_of_resource, whole_json};
pub use pieces::Json;
pub use pod::{MIRROR_ANNOTATION, Phase, Pod, runtime_uid};
pub use source::{Change, Changes, Fault, SourceReader, SourceStatus, SourceWriter};
