//! One object of a manifest, made what the API server or the kubelet would make of it.

use crate::hash::Hash;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use larder_resource::{Kind, MIRROR_ANNOTATION, ObjectKind};
use larder_yaml::{Bytes, Mistake, Node, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The namespace of what gives none.
const DEFAULT_NAMESPACE: &str = "default";

/// The annotations with which the kubelet says where a static pod comes from, and its UID.
const SOURCE_ANNOTATION: &str = "kubernetes.io/config.source";
const HASH_ANNOTATION: &str = "kubernetes.io/config.hash";

/// The kinds that manifests can have.
#[derive(Clone, Copy)]
pub(crate) enum ManifestKind {
    Pod,
    Object(ObjectKind),
}

impl ManifestKind {
    fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Pod).chain(ObjectKind::ALL.map(Self::Object))
    }

    /// The kind of this name, such as `ConfigMap`.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|kind| Kind::from(*kind).as_str() == name)
    }

    /// All of them, in a sentence.
    pub(crate) fn names() -> String {
        Self::all().map(|kind| Kind::from(kind).as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl From<ManifestKind> for Kind {
    fn from(kind: ManifestKind) -> Self {
        match kind {
            ManifestKind::Pod => Self::Pod,
            ManifestKind::Object(kind) => kind.kind(),
        }
    }
}

/// An object with all that it has but its version.
pub(crate) struct Manifest {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
    body: Body,
}

enum Body {
    Pod(Box<Pod>),
    Secret(Box<Secret>),
    ConfigMap(Box<ConfigMap>),
}

/// A Secret as manifests have it.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct SecretFields {
    metadata: ObjectMeta,
    data: BTreeMap<String, Bytes>,
    string_data: BTreeMap<String, String>,
    r#type: String,
    immutable: Option<bool>,
}

/// A ConfigMap as manifests have it.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ConfigMapFields {
    metadata: ObjectMeta,
    data: Option<BTreeMap<String, String>>,
    binary_data: Option<BTreeMap<String, Bytes>>,
    immutable: Option<bool>,
}

impl From<SecretFields> for Secret {
    /// As the API server does it: an entry of stringData replaces one of data.
    fn from(fields: SecretFields) -> Self {
        let texts = fields.string_data.into_iter().map(|(key, text)| (key, ByteString(text.into_bytes())));
        let data: BTreeMap<_, _> = bytes(fields.data).chain(texts).collect();
        Self {
            metadata: fields.metadata,
            data: (!data.is_empty()).then_some(data),
            string_data: None,
            type_: Some(if fields.r#type.is_empty() { "Opaque".to_owned() } else { fields.r#type }),
            immutable: fields.immutable,
        }
    }
}

impl From<ConfigMapFields> for ConfigMap {
    fn from(fields: ConfigMapFields) -> Self {
        Self {
            metadata: fields.metadata,
            data: fields.data,
            binary_data: fields.binary_data.map(|data| bytes(data).collect()),
            immutable: fields.immutable,
        }
    }
}

fn bytes(data: BTreeMap<String, Bytes>) -> impl Iterator<Item = (String, ByteString)> {
    data.into_iter().map(|(key, mut bytes)| (key, ByteString(std::mem::take(&mut *bytes.0))))
}

impl Manifest {
    /// The object of a document.
    ///
    /// # Errors
    ///
    /// What is wrong with it; never what stands there.
    pub(crate) fn new(kind: ManifestKind, mut node: Node) -> Result<Self, Mistake> {
        let at = |path: &str| at(&node, path);
        let place = [at("spec.containers"), at("metadata.name"), at("metadata.namespace")];
        if let Value::Map(fields) = &mut node.value {
            // They have been read, in any case and form.
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        let [containers, name_place, namespace_place] = place;
        let wrong = |place: larder_yaml::Place, path: &str, problem: String| {
            Node { value: Value::Null, place }.mistake(path, problem)
        };
        let body = match kind {
            ManifestKind::Pod => {
                let pod: Pod = node.decode()?;
                if pod.spec.as_ref().is_none_or(|spec| spec.containers.is_empty()) {
                    return Err(wrong(containers, "spec.containers", "a pod needs at least one container".to_owned()));
                }
                Body::Pod(pod.into())
            }
            ManifestKind::Object(ObjectKind::Secret) => Body::Secret(Box::new(node.decode::<SecretFields>()?.into())),
            ManifestKind::Object(ObjectKind::ConfigMap) => {
                Body::ConfigMap(Box::new(node.decode::<ConfigMapFields>()?.into()))
            }
        };
        let mut manifest = Self { kind: kind.into(), namespace: String::new(), name: String::new(), body };
        let meta = manifest.metadata();
        let name = meta.name.clone().unwrap_or_default();
        let namespace = meta.namespace.take().filter(|namespace| !namespace.is_empty());
        let namespace = namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        meta.namespace = Some(namespace.clone());
        if name.is_empty() {
            return Err(wrong(name_place, "metadata.name", "it is missing".to_owned()));
        }
        for (place, field, value, dots) in
            [(name_place, "metadata.name", &name, true), (namespace_place, "metadata.namespace", &namespace, false)]
        {
            if !is_name(value, dots) {
                let problem = format!(
                    "{value:?} is not a name: it takes lower case letters, digits, '-'{}",
                    if dots { " and '.'" } else { "" }
                );
                return Err(wrong(place, field, problem));
            }
        }
        meta.resource_version = None;
        meta.managed_fields = None;
        (manifest.namespace, manifest.name) = (namespace, name);
        Ok(manifest)
    }

    fn metadata(&mut self) -> &mut ObjectMeta {
        match &mut self.body {
            Body::Pod(pod) => &mut pod.metadata,
            Body::Secret(secret) => &mut secret.metadata,
            Body::ConfigMap(config_map) => &mut config_map.metadata,
        }
    }

    /// Gives it what the kubelet gives a static pod: node, UID, annotations and phase; a UID for other kinds too.
    pub(crate) fn settle(&mut self, node: &str, file: &str) {
        let unique = match &mut self.body {
            // A changed pod is another pod, as for the kubelet.
            Body::Pod(pod) => json(&**pod),
            Body::Secret(_) | Body::ConfigMap(_) => {
                format!("{}/{}/{}", self.kind, self.namespace, self.name).into_bytes()
            }
        };
        let hash = Hash::new().with(&unique).with(b"host:").with(node.as_bytes()).with(b"file:").with(file.as_bytes());
        let is_pod = self.kind == Kind::Pod;
        let meta = self.metadata();
        let annotated = meta.annotations.as_ref().filter(|_| is_pod);
        let annotated =
            annotated.and_then(|all| all.get(MIRROR_ANNOTATION).or_else(|| all.get(HASH_ANNOTATION))).cloned();
        let given = meta.uid.take().filter(|uid| !uid.is_empty());
        let uid = given.or(annotated).unwrap_or_else(|| hash.digits());
        meta.uid = Some(uid.clone());
        if let Body::Pod(pod) = &mut self.body {
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert(HASH_ANNOTATION.to_owned(), uid);
            annotations.insert(SOURCE_ANNOTATION.to_owned(), "file".to_owned());
            pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
            pod.status.get_or_insert_default().phase.get_or_insert_with(|| "Pending".to_owned());
        }
    }

    /// What it is, to see whether it has changed.
    pub(crate) fn fingerprint(&self) -> Hash {
        Hash::new().with(&self.json())
    }

    /// Its JSON as of this version.
    pub(crate) fn versioned(&mut self, version: u64) -> Vec<u8> {
        self.metadata().resource_version = Some(version.to_string());
        self.json()
    }

    pub(crate) fn json(&self) -> Vec<u8> {
        match &self.body {
            Body::Pod(pod) => json(&**pod),
            Body::Secret(secret) => json(&**secret),
            Body::ConfigMap(config_map) => json(&**config_map),
        }
    }
}

fn json<T: Serialize>(object: &T) -> Vec<u8> {
    // Writing a value of these types to memory does not fail: all their keys are strings.
    serde_json::to_vec(object).unwrap_or_default()
}

/// The place of a field, or of what comes closest to it.
fn at(node: &Node, path: &str) -> larder_yaml::Place {
    let mut found = node;
    for field in path.split('.') {
        match found.get(field) {
            Some(inner) => found = inner,
            None => break,
        }
    }
    found.place
}

/// Whether the API server would take it as a name: labels of lower case letters, digits and dashes, with dots between them
/// where these are allowed.
fn is_name(name: &str, dots: bool) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(|byte| is_inner(*byte))
            && bytes.last().is_some_and(|byte| is_inner(*byte))
            && bytes.iter().all(|byte| is_inner(*byte) || *byte == b'-')
    };
    let longest = if dots { 253 } else { 63 };
    name.len() <= longest && if dots { name.split('.').all(is_label) } else { is_label(name) }
}

#[cfg(test)]
mod tests;
