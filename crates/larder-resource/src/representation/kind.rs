//! The kinds that have a table.

use crate::kind::{Kind, ObjectKind};

/// The kinds of version `v1` that have a table: those that larder holds, and namespaces.
///
/// ```
/// use larder_resource::Kind;
/// use larder_resource::representation::TableKind;
///
/// assert_eq!(TableKind::from(Kind::Pod), TableKind::Pod);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TableKind {
    /// `v1/Secret`
    Secret,
    /// `v1/ConfigMap`
    ConfigMap,
    /// `v1/Pod`
    Pod,
    /// `v1/Node`
    Node,
    /// `v1/Namespace`
    Namespace,
}

impl TableKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Secret, Self::ConfigMap, Self::Pod, Self::Node, Self::Namespace];

    /// The kind as it stands in an object, such as `ConfigMap`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
            Self::Pod => "Pod",
            Self::Node => "Node",
            Self::Namespace => "Namespace",
        }
    }
}

impl From<Kind> for TableKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Secret => Self::Secret,
            Kind::ConfigMap => Self::ConfigMap,
            Kind::Pod => Self::Pod,
            Kind::Node => Self::Node,
        }
    }
}

impl From<ObjectKind> for TableKind {
    fn from(kind: ObjectKind) -> Self {
        kind.kind().into()
    }
}
