//! Which Secrets and `ConfigMap`s a pod refers to, as the Node authorizer's graph has it.
//!
//! Written over the JSON and apart from larder's own extraction, so that the one can show a gap in the other.

use super::object::Kind;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The references of a pod's JSON.
pub(crate) fn of_pod(pod: &Map<String, Value>) -> BTreeSet<(Kind, String)> {
    let mut found = BTreeSet::new();
    let Some(spec) = pod.get("spec") else { return found };
    let mut add = |kind: Kind, name: Option<&Value>| {
        if let Some(name) = name.and_then(Value::as_str).filter(|name| !name.is_empty()) {
            found.insert((kind, name.to_owned()));
        }
    };
    for reference in items(spec, "imagePullSecrets") {
        add(Kind::Secret, reference.get("name"));
    }
    for volume in items(spec, "volumes") {
        add(Kind::Secret, volume.pointer("/secret/secretName"));
        add(Kind::Secret, volume.pointer("/azureFile/secretName"));
        add(Kind::Secret, volume.pointer("/csi/nodePublishSecretRef/name"));
        add(Kind::ConfigMap, volume.pointer("/configMap/name"));
        for plugin in ["cephfs", "cinder", "rbd", "flexVolume", "scaleIO", "iscsi", "storageos"] {
            add(Kind::Secret, volume.pointer(&format!("/{plugin}/secretRef/name")));
        }
        for source in volume.get("projected").into_iter().flat_map(|projected| items(projected, "sources")) {
            add(Kind::Secret, source.pointer("/secret/name"));
            add(Kind::ConfigMap, source.pointer("/configMap/name"));
        }
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items(spec, list) {
            for variable in items(container, "env") {
                add(Kind::Secret, variable.pointer("/valueFrom/secretKeyRef/name"));
                add(Kind::ConfigMap, variable.pointer("/valueFrom/configMapKeyRef/name"));
            }
            for source in items(container, "envFrom") {
                add(Kind::Secret, source.pointer("/secretRef/name"));
                add(Kind::ConfigMap, source.pointer("/configMapRef/name"));
            }
        }
    }
    found
}

fn items<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    object.get(field).and_then(Value::as_array).into_iter().flatten()
}
