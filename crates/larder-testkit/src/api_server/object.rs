//! The kinds that the simulated API server holds, and one stored version of an object.

use super::references;
use bytes::Bytes;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;
use tokio::time::Instant;

/// A kind of the core/v1 group that the simulated API server holds.
///
/// ```
/// use larder_testkit::api_server::Kind;
/// assert_eq!(Kind::ConfigMap.plural(), "configmaps");
/// assert_eq!(Kind::from_plural("pods"), Some(Kind::Pod));
/// assert!(!Kind::Node.is_namespaced());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// v1 Pod.
    Pod,
    /// v1 Node.
    Node,
    /// v1 Secret.
    Secret,
    /// v1 `ConfigMap`.
    ConfigMap,
    /// v1 Namespace.
    Namespace,
}

impl Kind {
    /// Every kind, in the order of the enum.
    pub const ALL: [Self; 5] = [Self::Pod, Self::Node, Self::Secret, Self::ConfigMap, Self::Namespace];

    /// The name of the resource in a path: `pods`, `nodes`, `secrets`, `configmaps`, `namespaces`.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Node => "nodes",
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
            Self::Namespace => "namespaces",
        }
    }

    /// The `kind` of an object: `Pod`, `Node`, `Secret`, `ConfigMap`, `Namespace`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Node => "Node",
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
            Self::Namespace => "Namespace",
        }
    }

    /// Whether its objects are in a namespace.
    pub const fn is_namespaced(self) -> bool {
        !matches!(self, Self::Node | Self::Namespace)
    }

    /// The kind that a path's resource stands for.
    pub fn from_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A typed object that the store takes and gives: `Pod`, `Node`, `Secret`, `ConfigMap` or `Namespace` of [`k8s_openapi`].
pub trait ApiObject:
    k8s_openapi::Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned + Send + Sync + 'static + sealed::Sealed
{
    /// Its kind.
    const OBJECT_KIND: Kind;
}

macro_rules! api_object {
    ($($object:ident),*) => {$(
        impl sealed::Sealed for $object {}
        impl ApiObject for $object {
            const OBJECT_KIND: Kind = Kind::$object;
        }
    )*};
}
api_object!(Pod, Node, Secret, ConfigMap, Namespace);

/// Namespace (empty for a node or a namespace) and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// One version of an object, as etcd would hold it. No `Debug`: the JSON of a Secret is in it.
pub(crate) struct Record {
    pub(crate) kind: Kind,
    pub(crate) key: Key,
    pub(crate) revision: u64,
    /// The object without `apiVersion` and `kind`, as a list's items are.
    json: Map<String, Value>,
    /// `json`, as text.
    bare: Bytes,
    /// What a pod refers to.
    references: BTreeSet<(Kind, String)>,
    /// When the object, not this version of it, was created.
    pub(crate) created_at: Instant,
}

impl Record {
    pub(crate) fn new(kind: Kind, key: Key, revision: u64, mut json: Map<String, Value>, created_at: Instant) -> Self {
        json.remove("apiVersion");
        json.remove("kind");
        if let Some(metadata) = json.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".into(), revision.to_string().into());
        }
        let bare = Value::Object(json.clone()).to_string().into();
        let references = if kind == Kind::Pod { references::of_pod(&json) } else { BTreeSet::new() };
        Self { kind, key, revision, json, bare, references, created_at }
    }

    /// The same content under another revision, as the event of its deletion has it.
    pub(crate) fn at_revision(&self, revision: u64) -> Self {
        Self::new(self.kind, self.key.clone(), revision, self.json.clone(), self.created_at)
    }

    pub(crate) fn json(&self) -> &Map<String, Value> {
        &self.json
    }

    /// The object as an item of a list: without `apiVersion` and `kind`.
    pub(crate) fn item(&self) -> &Bytes {
        &self.bare
    }

    /// The object as a get or a watch event has it.
    pub(crate) fn full(&self) -> Vec<u8> {
        let mut full = format!(r#"{{"kind":"{}","apiVersion":"v1","#, self.kind.name()).into_bytes();
        // The bare text always begins with '{' and has at least its metadata in it.
        full.extend_from_slice(&self.bare[1..]);
        full
    }

    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.json.get("metadata")?.get("labels")?.get(name)?.as_str()
    }

    /// The value of a field that a field selector can name; `None` for a field that the kind does not offer.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let text = |object: &str, field: &str| {
            self.json.get(object).and_then(|o| o.get(field)).and_then(Value::as_str).unwrap_or_default()
        };
        match name {
            "metadata.name" => Some(&self.key.name),
            "metadata.namespace" if self.kind.is_namespaced() => Some(&self.key.namespace),
            "spec.nodeName" if self.kind == Kind::Pod => Some(text("spec", "nodeName")),
            "status.phase" if matches!(self.kind, Kind::Pod | Kind::Namespace) => Some(text("status", "phase")),
            "type" if self.kind == Kind::Secret => {
                Some(self.json.get("type").and_then(Value::as_str).unwrap_or("Opaque"))
            }
            _ => None,
        }
    }

    /// The object, typed.
    pub(crate) fn parse<T: ApiObject>(&self) -> Result<T, serde_json::Error> {
        let mut json = self.json.clone();
        // The typed objects insist on the two fields that a list's items go without.
        json.insert("apiVersion".into(), "v1".into());
        json.insert("kind".into(), self.kind.name().into());
        serde_json::from_value(Value::Object(json))
    }

    pub(crate) fn refers_to(&self, kind: Kind, name: &str) -> bool {
        self.references.iter().any(|(k, n)| *k == kind && n == name)
    }
}
