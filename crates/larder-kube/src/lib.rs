#![doc(test(attr(deny(warnings))))]
//! The Kubernetes API server as a source of this node's pods, of the node itself, and of Secrets and ConfigMaps.
//!
//! The only crate of larder that uses `kube`, and of `kube` it uses what takes long to get right: kubeconfig and
//! in-cluster configuration, credentials and TLS. Deadlines, retries, lists and watches are larder's own.
//!
//! - [`KubeClient`]: one API server; made from a kubeconfig or the pod's service account.
//! - [`KubeFetch`]: reads of one Secret or ConfigMap, for the stores of `larder-objects`.
//! - [`KubeReflect`]: a list and watch for each Secret or ConfigMap, or one for a namespace, for the same stores.
//! - [`PodSource`] and [`NodeSource`]: list and watch, what is known is read through a [`SourceReader`].
//! - [`source`]: the same reading end for any other source, such as a folder of manifests.

mod arrivals;
mod backoff;
mod client;
mod connect;
mod error;
mod fetch;
mod listwatch;
mod node;
mod object;
mod options;
mod pod;
mod pool;
mod reflect;
mod reflector;
pub mod source;
mod stats;
mod strict;
mod text;

pub use client::{KubeClient, NodeCheck};
pub use error::{DecodeProblem, KubeError, Target};
pub use fetch::KubeFetch;
pub use node::Node;
pub use object::{Kind, KubeObject, ObjectKind};
pub use options::KubeOptions;
pub use pod::{MIRROR_ANNOTATION, Phase, Pod, runtime_uid};
pub use reflect::{KubeReflect, KubeReflector};
pub use reflector::{NodeSource, PodSource, Reflector};
pub use source::{Change, Changes, Fault, SourceReader, SourceStatus, SourceWriter};
pub use stats::KubeStats;
