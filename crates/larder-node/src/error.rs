//! The errors: why a read of a [`Node`](crate::Node) has no object, and why a node does not start.

use crate::config::ConfigError;
use larder_objects::{Freshness, ObjectKey};
use larder_resource::Kind;
use std::sync::Arc;
use std::time::Duration;

/// Why a read has no object to give.
///
/// 'Known to be absent' and 'not known yet' are different variants, so that no caller confuses them.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// No pod of this node refers to the object, so larder does not read it.
    #[error(
        "{} \"{key}\" is not held: no pod of node \"{node}\" {}; {}",
        kind.singular(),
        if *kind == Kind::Namespace { "is in it" } else { "refers to it" },
        if *from_manifests { "add a pod that does" } else { "read it from the API server" }
    )]
    NotReferenced {
        /// The object's kind.
        kind: Kind,
        /// The object's namespace and name.
        key: ObjectKey,
        /// This node.
        node: String,
        /// Whether objects come from manifests, so that no API server can be asked instead.
        from_manifests: bool,
    },
    /// The node is not the one of this larder, and may exist.
    #[error("node \"{name}\" is not held: this larder holds node \"{own}\" alone; ask the API server")]
    OtherNode {
        /// The node that was asked for.
        name: String,
        /// This node.
        own: String,
    },
    /// larder's identity may not read the object at the API server, and larder has not read it before.
    #[error(
        "{} \"{key}\" is not held, because larder may not read it: grant larder's identity a ClusterRole with the verb \"get\" \
         on the resource \"{}\"; {why}",
        kind.singular(),
        kind.resource()
    )]
    NotPermitted {
        /// The object's kind.
        kind: Kind,
        /// The object's namespace, empty for a namespace, and its name.
        key: ObjectKey,
        /// The refusal, with the identity that the API server saw.
        why: String,
    },
    /// The read was for a pod that does not refer to the object, or whose objects are not held.
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
    /// It is not known yet whether the object exists.
    #[error("{what} not known yet: {why}")]
    Unknown {
        /// What the caller asked for, such as `secret "shop/db"` or `pods`.
        what: String,
        /// Why it is not known.
        why: String,
        /// When a retry may help.
        retry_after: Duration,
    },
    /// The daemon runs without the source that could answer.
    #[error("{what}: {why}")]
    NotServed {
        /// What the caller asked for.
        what: String,
        /// Which source is missing, and how to start with it.
        why: &'static str,
    },
}

impl ReadError {
    /// The containers of a pod are not known, because the runtime has not been listed yet. `pod` is its name in the message.
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

    /// Whether larder refused the read because no pod, or not the given pod, refers to the object.
    pub fn is_not_referenced(&self) -> bool {
        matches!(self, Self::NotReferenced { .. } | Self::NotReferencedByPod { .. })
    }

    /// Whether the API server does not let larder read the object.
    pub fn is_not_permitted(&self) -> bool {
        matches!(self, Self::NotPermitted { .. })
    }

    /// Whether it is not known yet whether the object exists.
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
