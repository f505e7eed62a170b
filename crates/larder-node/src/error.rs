//! Why a read of a [`Node`](crate::Node) has no object to give.

use crate::config::ConfigError;
use larder_objects::{Freshness, ObjectKey};
use larder_resource::Kind;
use std::sync::Arc;
use std::time::Duration;

/// Why a read has no object to give.
///
/// 'Known to be absent' and 'not known yet' are different variants: nobody is to take the second for the first.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// No pod of this node refers to the object, so it is not this node's to read.
    #[error(
        "{} \"{key}\" is not held: no pod of node \"{node}\" refers to it; {}",
        kind.singular(),
        if *from_manifests { "add a pod that does" } else { "read it from the API server" }
    )]
    NotReferenced {
        /// The object's kind.
        kind: Kind,
        /// The object's namespace and name.
        key: ObjectKey,
        /// This node.
        node: String,
        /// Whether there is no API server that could be asked for it instead.
        from_manifests: bool,
    },
    /// It was asked for a pod that does not refer to it, or whose objects are not held.
    #[error("{} \"{key}\" is not held for pod \"{pod}\" (uid {uid}): {why}", kind.singular())]
    NotReferencedByPod {
        /// The object's kind.
        kind: Kind,
        /// The object's namespace and name.
        key: ObjectKey,
        /// The pod's namespace and name.
        pod: ObjectKey,
        /// The pod's UID.
        uid: String,
        /// Which of the two it is.
        why: &'static str,
    },
    /// The source says that there is no such object.
    #[error("{} \"{}\" not found", kind.resource(), key.name())]
    NotFound {
        /// The object's kind.
        kind: Kind,
        /// The object's namespace, empty for a node, and its name.
        key: ObjectKey,
        /// When and by what its absence was confirmed.
        freshness: Box<Freshness>,
        /// How long ago that was.
        age: Duration,
    },
    /// Nothing is known of it yet, neither that it is there nor that it is not.
    #[error("{what} not known yet: {why}")]
    Unknown {
        /// What was asked for, such as `secret "shop/db"` or `pods`.
        what: String,
        /// Why it is not known.
        why: String,
        /// When asking again may help.
        retry_after: Duration,
    },
    /// The daemon runs without the source that would know.
    #[error("{what}: {why}")]
    NotServed {
        /// What was asked for.
        what: String,
        /// Which source is missing, and how to start with it.
        why: &'static str,
    },
}

impl ReadError {
    /// Nothing is known of a pod's containers, for the runtime has not been listed yet; it is soon. `pod` stands for it in the
    /// message.
    ///
    /// ```
    /// use larder_node::ReadError;
    /// let error = ReadError::runtime_not_listed("shop/web-0");
    /// assert_eq!(error.to_string(), "pod \"shop/web-0\" not known yet: the container runtime has not been listed yet");
    /// ```
    pub fn runtime_not_listed(pod: &str) -> Self {
        Self::Unknown {
            what: format!("pod \"{pod}\""),
            why: "the container runtime has not been listed yet".to_owned(),
            retry_after: Duration::from_secs(1),
        }
    }

    /// Whether the source says that there is no such object.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether it was refused because no pod of this node refers to it.
    pub fn is_not_referenced(&self) -> bool {
        matches!(self, Self::NotReferenced { .. } | Self::NotReferencedByPod { .. })
    }

    /// Whether nothing is known of it yet.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }
}

/// Why a node's larder did not start.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The API server's client cannot be made: the kubeconfig or the credentials cannot be used.
    #[error("cannot use the API server's configuration: {0}")]
    Kube(#[source] Arc<larder_kube::KubeError>),
    /// The directory of manifests cannot be read.
    #[error("cannot use the manifests: {0}")]
    Manifests(#[source] larder_manifests::ManifestError),
    /// The container runtime's endpoint cannot be used.
    #[error("setting runtime: {0}")]
    Runtime(String),
}
