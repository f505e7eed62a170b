//! What a list-watch follows: which objects, and by which requests.

use super::requests::{Scope, encode};
use crate::client::segment;
use crate::error::{KubeError, Target};
use larder_objects::ObjectKey;
use larder_resource::{ApiObject, DecodeError, Kind, ObjectKind};
use std::sync::Arc;

/// An object that most namespaces have as a `ConfigMap`; a list of this name has at most one object, and need not have any.
const ANY_NAME: &str = "kube-root-ca.crt";

/// The objects that one list-watch follows.
#[derive(Clone, Debug)]
pub(crate) enum Selection {
    /// One Secret or `ConfigMap`.
    Object(ObjectKind, ObjectKey),
    /// All Secrets or `ConfigMap`s of a namespace.
    Namespace(ObjectKind, Arc<str>),
    /// The pods that are bound to a node.
    PodsOf(Arc<str>),
    /// The node of this name.
    Node(Arc<str>),
}

impl Selection {
    /// Checks the names: one that would be another path or another selector is refused.
    pub(crate) fn validate(&self) -> Result<(), KubeError> {
        let is_value = |name: &str| segment(name).is_some() && !name.contains([',', '=', '!', '\\']);
        let is_good = match self {
            Self::Object(_, key) => segment(key.namespace()).is_some() && is_value(key.name()),
            Self::Namespace(_, namespace) => segment(namespace).is_some(),
            Self::PodsOf(node) | Self::Node(node) => is_value(node),
        };
        if is_good { Ok(()) } else { Err(KubeError::InvalidName { target: self.target() }) }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Object(kind, _) | Self::Namespace(kind, _) => (*kind).into(),
            Self::PodsOf(_) => Kind::Pod,
            Self::Node(_) => Kind::Node,
        }
    }

    pub(crate) fn target(&self) -> Target {
        match self {
            Self::Object(kind, key) => Target::Object((*kind).into(), key.clone()),
            Self::Namespace(kind, namespace) => Target::Namespace((*kind).into(), Arc::clone(namespace)),
            Self::PodsOf(node) => Target::PodsOf(Arc::clone(node)),
            Self::Node(node) => Target::Node(Arc::clone(node)),
        }
    }

    /// The namespace in which a 403 is doubted after a pod's arrival.
    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Object(_, key) => Some(key.namespace()),
            Self::Namespace(_, namespace) => Some(namespace),
            Self::PodsOf(_) | Self::Node(_) => None,
        }
    }

    /// What is listed and watched. Made anew for each request, which spares memory while watches are open.
    pub(crate) fn scope(&self) -> Scope {
        match self {
            Self::Object(_, key) => self.scope_of(key.namespace(), &[("metadata.name", key.name())]),
            Self::Namespace(_, namespace) => self.scope_of(namespace, &[]),
            Self::PodsOf(node) => self.scope_of("", &[("spec.nodeName", node)]),
            Self::Node(node) => self.scope_of("", &[("metadata.name", node)]),
        }
    }

    /// A list of at most one object, of the same kind: it says which version the server is at, and costs the server a read
    /// of one key.
    pub(crate) fn probe(&self) -> Scope {
        match self {
            Self::Object(..) | Self::Node(_) => self.scope(),
            Self::Namespace(_, namespace) => self.scope_of(namespace, &[("metadata.name", ANY_NAME)]),
            // The node's name is in it because a node may list no other pods. There need not be such a pod.
            Self::PodsOf(node) => self.scope_of("default", &[("metadata.name", node), ("spec.nodeName", node)]),
        }
    }

    fn scope_of(&self, namespace: &str, fields: &[(&str, &str)]) -> Scope {
        let kind = self.kind();
        let namespaces = if namespace.is_empty() { "" } else { "namespaces/" };
        let slash = if namespace.is_empty() { "" } else { "/" };
        let path = format!("/api/v1/{namespaces}{}{slash}{}", encode(namespace), kind.resource());
        let fields: Vec<String> = fields.iter().map(|(field, value)| format!("{field}={value}")).collect();
        Scope { kind, path, field_selector: encode(&fields.join(",")), target: self.target() }
    }

    /// Whether a consistent list reads far more than the selection from etcd, where the API server does not serve it from
    /// its watch cache: etcd has no index by node.
    pub(crate) fn is_costly(&self) -> bool {
        match self {
            Self::PodsOf(_) => true,
            Self::Object(..) | Self::Namespace(..) | Self::Node(_) => false,
        }
    }

    /// Whether a list of it can have any number of objects, so that it is asked for in pages.
    pub(crate) fn is_paged(&self) -> bool {
        match self {
            Self::Namespace(..) => true,
            // Pages of pods would be read from etcd.
            Self::Object(..) | Self::PodsOf(_) | Self::Node(_) => false,
        }
    }

    /// Whether it tries a server that cannot be reached every few seconds, for all that use the client. There is one such
    /// list-watch of a kind at most.
    pub(crate) fn knocks(&self) -> bool {
        match self {
            Self::PodsOf(_) | Self::Node(_) => true,
            Self::Object(..) | Self::Namespace(..) => false,
        }
    }

    /// The error of an object of these that cannot be read.
    pub(crate) fn unreadable(&self, problem: DecodeError) -> KubeError {
        let target = match self {
            Self::Object(..) | Self::Namespace(..) => self.target(),
            Self::PodsOf(_) | Self::Node(_) => Target::Any(self.kind()),
        };
        KubeError::decode(target, problem)
    }

    /// Whether an object is one of these; a server that passes over selectors shall not confuse anyone.
    pub(crate) fn has(&self, object: &impl ApiObject) -> bool {
        let of = object.object();
        match self {
            Self::Object(_, key) => of.name() == key.name() && of.namespace() == key.namespace(),
            Self::Namespace(_, namespace) => of.namespace() == &**namespace,
            Self::PodsOf(node) => object.node_name() == &**node,
            Self::Node(node) => of.name() == &**node,
        }
    }
}
