//! One object of a manifest, made what the API server or the kubelet would make of it.

use crate::hash::Hash;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use larder_kube::{Kind, MIRROR_ANNOTATION};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The namespace of what gives none.
const DEFAULT_NAMESPACE: &str = "default";

/// The annotations with which the kubelet says where a static pod comes from, and its UID.
const SOURCE_ANNOTATION: &str = "kubernetes.io/config.source";
const HASH_ANNOTATION: &str = "kubernetes.io/config.hash";

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

impl Manifest {
    /// The object of a document.
    ///
    /// # Errors
    ///
    /// What is wrong with it; for a Secret without a word of what stands there.
    pub(crate) fn new(kind: &str, mut value: Value) -> Result<Self, String> {
        let (kind, body) = match kind {
            "Pod" => {
                stringify_quantities(&mut value);
                let pod: Pod = typed(value, true)?;
                if pod.spec.as_ref().is_none_or(|spec| spec.containers.is_empty()) {
                    return Err("a pod needs at least one container in spec.containers".to_owned());
                }
                (Kind::Pod, Body::Pod(pod.into()))
            }
            "Secret" => {
                let mut secret: Secret = typed(value, false)?;
                if let Some(texts) = secret.string_data.take() {
                    // As the API server does: an entry of stringData replaces one of data.
                    let texts = texts.into_iter().map(|(key, text)| (key, k8s_openapi::ByteString(text.into_bytes())));
                    secret.data.get_or_insert_default().extend(texts);
                }
                secret.type_.get_or_insert_with(|| "Opaque".to_owned());
                (Kind::Secret, Body::Secret(secret.into()))
            }
            _ => (Kind::ConfigMap, Body::ConfigMap(typed::<ConfigMap>(value, true)?.into())),
        };
        let mut manifest = Self { kind, namespace: String::new(), name: String::new(), body };
        let meta = manifest.metadata();
        let name = meta.name.clone().unwrap_or_default();
        let namespace = meta.namespace.get_or_insert_with(|| DEFAULT_NAMESPACE.to_owned()).clone();
        if name.is_empty() {
            return Err("metadata.name is missing".to_owned());
        }
        for (field, value, dots) in [("metadata.name", &name, true), ("metadata.namespace", &namespace, false)] {
            if !is_name(value, dots) {
                return Err(format!(
                    "{field} {value:?} is not a name: it takes lower case letters, digits, '-'{}",
                    if dots { " and '.'" } else { "" }
                ));
            }
        }
        meta.resource_version = None;
        meta.managed_fields = None;
        (manifest.namespace, manifest.name) = (namespace, name);
        Ok(manifest)
    }

    fn metadata(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
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

    fn json(&self) -> Vec<u8> {
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

/// The value as this type. What is wrong is said with the field's path, and with what stands there where that may be said.
fn typed<T: DeserializeOwned + for<'de> Deserialize<'de>>(value: Value, may_quote: bool) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner().to_string();
        let advice = if inner.contains("expected a string") || inner.contains("expected string") {
            "; put it in quotes"
        } else {
            ""
        };
        if may_quote {
            format!("{path}: {inner}{advice}")
        } else {
            format!("{path}: a value of the wrong type{advice}")
        }
    })
}

/// Quantities may be written as numbers (`cpu: 2`); what serves them has strings.
fn stringify_quantities(value: &mut Value) {
    fn number_to_string(value: &mut Value) {
        if let Value::Number(number) = value {
            *value = Value::String(number.to_string());
        }
    }
    fn all(map: &mut Map<String, Value>) {
        for (key, value) in map {
            match (key.as_str(), value) {
                ("limits" | "requests" | "overhead" | "capacity" | "allocatedResources", Value::Object(quantities)) => {
                    quantities.values_mut().for_each(number_to_string);
                }
                ("sizeLimit" | "divisor", value) => number_to_string(value),
                (_, value) => stringify_quantities(value),
            }
        }
    }
    match value {
        Value::Object(map) => all(map),
        Value::Array(items) => items.iter_mut().for_each(stringify_quantities),
        _ => {}
    }
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
