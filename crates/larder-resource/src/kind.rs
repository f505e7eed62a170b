//! The kinds of object that a larder holds, and one value for each kind that pods refer to.
//!
//! # Guarantees
//!
//! - *Listed once*: [`Kind::ALL`] and [`ObjectKind::ALL`] are the only lists of kinds. Reports, tables, metrics, tasks and
//!   the names of the command line go through them, or through a [`PerKind`], which has a value for every kind by its type.
//!
//! # Example
//!
//! ```
//! use larder_resource::{ObjectKind, PerKind};
//!
//! let names = PerKind::from_fn(|kind| kind.resource().to_owned());
//! assert_eq!(names.of(ObjectKind::ConfigMap), "configmaps");
//! assert_eq!(names.iter().map(|(kind, _)| kind).collect::<Vec<_>>(), ObjectKind::ALL);
//! ```

use serde::{Deserialize, Serialize};
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
    /// `v1/Namespace`
    Namespace,
}

impl Kind {
    /// Every kind, in the order in which they are listed: first those that pods refer to.
    pub const ALL: [Self; ObjectKind::ALL.len() + 3] = {
        let mut all = [Self::Pod; ObjectKind::ALL.len() + 3];
        let mut at = 0;
        while at < ObjectKind::ALL.len() {
            all[at] = ObjectKind::ALL[at].kind();
            at += 1;
        }
        all[at + 1] = Self::Node;
        all[at + 2] = Self::Namespace;
        all
    };

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

    /// The resource as it stands in a path, such as `configmaps`.
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
            Self::Pod => "pods",
            Self::Node => "nodes",
            Self::Namespace => "namespaces",
        }
    }

    /// The kind in a message and before a name, such as `configmap`.
    pub const fn singular(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::ConfigMap => "configmap",
            Self::Pod => "pod",
            Self::Node => "node",
            Self::Namespace => "namespace",
        }
    }

    /// The short name that kubectl's users know, such as `cm`.
    pub const fn short_name(self) -> Option<&'static str> {
        match self {
            Self::Secret => None,
            Self::ConfigMap => Some("cm"),
            Self::Pod => Some("po"),
            Self::Node => Some("no"),
            Self::Namespace => Some("ns"),
        }
    }

    /// Whether each of its objects has a status, which has a path of its own.
    pub const fn has_status(self) -> bool {
        matches!(self, Self::Pod | Self::Node | Self::Namespace)
    }

    /// Whether its objects live in a namespace.
    pub const fn is_namespaced(self) -> bool {
        !matches!(self, Self::Node | Self::Namespace)
    }

    /// The same kind among those that pods refer to.
    pub const fn object_kind(self) -> Option<ObjectKind> {
        match self {
            Self::Secret => Some(ObjectKind::Secret),
            Self::ConfigMap => Some(ObjectKind::ConfigMap),
            Self::Pod | Self::Node | Self::Namespace => None,
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

impl ObjectKind {
    /// Every kind, in the order in which they are listed.
    pub const ALL: [Self; 2] = {
        // Both sides name every field, so a kind without a place in this list does not compile.
        let PerKind { secrets, config_maps } = PerKind { secrets: Self::Secret, config_maps: Self::ConfigMap };
        [secrets, config_maps]
    };

    /// The kind of this resource, such as `configmaps`.
    pub fn from_resource(resource: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.resource() == resource)
    }

    /// The resource as it stands in a path, such as `configmaps`.
    pub const fn resource(self) -> &'static str {
        self.kind().resource()
    }

    /// The same kind among all that a larder holds.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Secret => Kind::Secret,
            Self::ConfigMap => Kind::ConfigMap,
        }
    }
}

impl From<ObjectKind> for Kind {
    fn from(kind: ObjectKind) -> Self {
        kind.kind()
    }
}

/// One value for each kind that pods refer to.
///
/// As JSON it is a map of the kinds' plurals, `secrets` and `configMaps`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PerKind<T> {
    /// That of Secrets.
    pub secrets: T,
    /// That of ConfigMaps.
    pub config_maps: T,
}

impl<T> PerKind<T> {
    /// What the function gives for each kind; it is called in the order of [`ObjectKind::ALL`].
    pub fn from_fn(mut value: impl FnMut(ObjectKind) -> T) -> Self {
        Self { secrets: value(ObjectKind::Secret), config_maps: value(ObjectKind::ConfigMap) }
    }

    /// The same value for every kind.
    pub fn same(value: T) -> Self
    where
        T: Clone,
    {
        Self { secrets: value.clone(), config_maps: value }
    }

    /// That of a kind.
    pub const fn of(&self, kind: ObjectKind) -> &T {
        match kind {
            ObjectKind::Secret => &self.secrets,
            ObjectKind::ConfigMap => &self.config_maps,
        }
    }

    /// Another value for each, made of this one.
    pub fn map<U>(self, mut value: impl FnMut(ObjectKind, T) -> U) -> PerKind<U> {
        let Self { secrets, config_maps } = self;
        PerKind { secrets: value(ObjectKind::Secret, secrets), config_maps: value(ObjectKind::ConfigMap, config_maps) }
    }

    /// Each kind with its value, in the order of [`ObjectKind::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (ObjectKind, &T)> {
        ObjectKind::ALL.into_iter().map(|kind| (kind, self.of(kind)))
    }

    /// The values, in the order of [`ObjectKind::ALL`].
    pub fn values(&self) -> impl Iterator<Item = &T> {
        ObjectKind::ALL.into_iter().map(|kind| self.of(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_have_every_kind_once() {
        let words = |kinds: &[Kind]| kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>();
        assert_eq!(words(&Kind::ALL), ["Secret", "ConfigMap", "Pod", "Node", "Namespace"]);
        for kind in ObjectKind::ALL {
            assert_eq!(kind.kind().object_kind(), Some(kind));
            assert_eq!(ObjectKind::from_resource(kind.resource()), Some(kind));
        }
        assert_eq!(Kind::ALL.into_iter().filter_map(Kind::object_kind).collect::<Vec<_>>(), ObjectKind::ALL);
        for none in ["pods", "nodes", "secret", "Secrets", ""] {
            assert_eq!(ObjectKind::from_resource(none), None);
        }
    }

    #[test]
    fn each_kind_has_its_value() {
        let values = PerKind::from_fn(ObjectKind::resource);
        assert_eq!(values, PerKind { secrets: "secrets", config_maps: "configmaps" });
        assert!(values.iter().all(|(kind, value)| *value == kind.resource() && values.of(kind) == value));
        assert_eq!(
            values.map(|kind, value| (kind, value.len())).values().collect::<Vec<_>>(),
            [&(ObjectKind::Secret, 7), &(ObjectKind::ConfigMap, 10)]
        );
        assert_eq!(serde_json::to_string(&PerKind::same(1)).unwrap(), r#"{"secrets":1,"configMaps":1}"#);
        assert_eq!(serde_json::from_str::<PerKind<u8>>(r#"{"configMaps":2}"#).unwrap().config_maps, 2);
    }
}
