//! The forms other than plain JSON in which the API server gives objects: `Table`, and `PartialObjectMetadata`.
//!
//! Everything here is a function of the object's JSON and of the time. The columns and cells are those of Kubernetes 1.37: the
//! printers of `k8s.io/kubernetes/pkg/printers/internalversion`. `cargo xtask differential` compares them with those printers.
//!
//! - [`columns`] and [`row`]: the columns of a kind, and the cells of one object. `larder get` prints them.
//! - [`Table`]: the documents, of a list, of one object, and of a bookmark of a watch.
//! - [`partial_metadata`] and [`partial_metadata_list`]: the metadata alone.
//! - [`age`] and [`human_duration`]: times as kubectl's users know them.
//!
//! # Guarantees
//!
//! - *Verbatim*: metadata and whole objects keep the bytes that they came with, so unknown fields and large numbers survive.
//! - *Metadata shows no values*: of a Secret, the metadata loses the annotation
//!   `kubectl.kubernetes.io/last-applied-configuration`, which repeats the data, and `managedFields`, which names the keys. The API
//!   server keeps both.
//! - *Odd objects*: a field that is missing or `null` reads as its zero value, as in Go. A field of a wrong type that a cell needs is
//!   a [`DecodeError`](crate::DecodeError) that names the field.
//!
//! # Limits
//!
//! Version `v1` of `meta.k8s.io` alone. Cells read the fields that they need, and check no others.

mod age;
mod metadata;
mod table;

pub use age::{age, human_duration};
pub use metadata::{partial_metadata, partial_metadata_list};
pub use table::{Column, IncludeObject, ObjectSummary, Row, RowCondition, Table, UnknownIncludeObject, columns, row};
