//! The kinds of object that a larder holds, and which of them pods refer to.

use std::fmt;

/// The kinds of object that a larder holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// `v1/Secret`
    Secret,
    /// `v1/ConfigMap`
    ConfigMap,
    /// `v1/Pod`
    Pod,
    /// `v1/Node`
    Node,
}

impl Kind {
    /// The kind as it stands in an object, such as `ConfigMap`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
            Self::Pod => "Pod",
            Self::Node => "Node",
        }
    }

    /// The resource as it stands in a path, such as `configmaps`.
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
            Self::Pod => "pods",
            Self::Node => "nodes",
        }
    }

    /// The kind in a message, such as `configmap`.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::ConfigMap => "configmap",
            Self::Pod => "pod",
            Self::Node => "node",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The kinds that pods refer to, and that are fetched one by one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ObjectKind {
    /// `v1/Secret`
    Secret,
    /// `v1/ConfigMap`
    ConfigMap,
}

impl From<ObjectKind> for Kind {
    fn from(kind: ObjectKind) -> Self {
        match kind {
            ObjectKind::Secret => Self::Secret,
            ObjectKind::ConfigMap => Self::ConfigMap,
        }
    }
}
