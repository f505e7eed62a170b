//! Which Secrets and ConfigMaps a pod refers to.

use super::oracle;
use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use larder_objects::{Reference, references};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// Pods that are compared.
const COUNT: usize = 5_000;

/// Compares random pods. Returns how many.
pub(super) fn check(program: &Path, seed: u64) -> Result<usize> {
    let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(seed));
    let pods: Vec<String> = (0..COUNT).map(|_| random.pod().to_string()).collect();
    let answers = oracle::answer_lines(program, "references", &pods)?;
    let mut names = 0;
    for (pod, right) in pods.iter().zip(&answers) {
        let right: Value = serde_json::from_str(right).with_context(|| format!("the oracle's {right:?}"))?;
        let ours = larder(pod)?;
        if ours != right {
            bail!("the pod {pod} refers to {right} to the original and to {ours} to larder");
        }
        names += right["secrets"].as_array().map_or(0, Vec::len) + right["config_maps"].as_array().map_or(0, Vec::len);
    }
    ensure!(names > pods.len(), "{} pods refer to {names} objects only", pods.len());
    Ok(pods.len())
}

fn larder(pod: &str) -> Result<Value> {
    let parsed: Pod = serde_json::from_str(pod).with_context(|| format!("parse the pod {pod}"))?;
    Ok(
        json!({"config_maps": names(&references::config_maps(&parsed)), "secrets": names(&references::secrets(&parsed))}),
    )
}

fn names<'p>(references: &[Reference<'p>]) -> BTreeSet<&'p str> {
    references.iter().map(|reference| reference.name).collect()
}

/// Random pods in JSON, as an API server would send them, and such that it would not admit.
struct Random(Xoshiro256PlusPlus);

impl Random {
    fn percent(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }

    fn pod(&mut self) -> Value {
        let mut spec = Map::new();
        if self.percent(40) {
            spec.insert("imagePullSecrets".into(), self.several(Self::local_reference));
        }
        for containers in ["initContainers", "containers", "ephemeralContainers"] {
            if self.percent(60) {
                spec.insert(containers.into(), self.several(Self::container));
            }
        }
        if self.percent(70) {
            spec.insert("volumes".into(), self.several(Self::volume));
        }
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec})
    }

    fn several(&mut self, mut one: impl FnMut(&mut Self) -> Value) -> Value {
        (0..self.0.random_range(0..4)).map(|_| one(self)).collect()
    }

    /// From few names, so that the same is referred to in several ways; now and then an empty one.
    fn name(&mut self) -> String {
        if self.percent(8) { String::new() } else { format!("name-{}", self.0.random_range(0..8)) }
    }

    /// A reference that may be optional, or may lack its name.
    fn reference(&mut self) -> Value {
        let mut reference = Map::new();
        if self.percent(95) {
            reference.insert("name".into(), self.name().into());
        }
        if self.percent(30) {
            reference.insert("optional".into(), self.percent(50).into());
        }
        if self.percent(50) {
            reference.insert("key".into(), "k".into());
        }
        reference.into()
    }

    fn local_reference(&mut self) -> Value {
        if self.percent(95) { json!({"name": self.name()}) } else { json!({}) }
    }

    fn container(&mut self) -> Value {
        let env_from = self.several(|random| match random.0.random_range(0..3) {
            0 => json!({"secretRef": random.reference()}),
            1 => json!({"configMapRef": random.reference(), "prefix": "P_"}),
            _ => json!({"secretRef": random.reference(), "configMapRef": random.reference()}),
        });
        let env = self.several(|random| match random.0.random_range(0..5) {
            0 => json!({"name": "A", "value": "v"}),
            1 => json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
            2 => json!({"name": "A", "valueFrom": {"secretKeyRef": random.reference()}}),
            3 => json!({"name": "A", "valueFrom": {"configMapKeyRef": random.reference()}}),
            _ => json!({"name": "A", "valueFrom": {"secretKeyRef": random.reference(), "configMapKeyRef": random.reference()}}),
        });
        json!({"name": "c", "image": "i", "envFrom": env_from, "env": env})
    }

    fn volume(&mut self) -> Value {
        let mut volume = json!({"name": "v"});
        // An API server admits one source; which of several counts is the original's to say.
        let sources = if self.percent(15) { 2 } else { 1 };
        for _ in 0..sources {
            let (kind, source) = self.source();
            volume[kind] = source;
        }
        volume
    }

    fn source(&mut self) -> (&'static str, Value) {
        // Where the reference of a plugin stands, if it stands there at all.
        let plugin = |random: &mut Self, mut source: Value, field: &str| {
            if random.percent(85) {
                source[field] = random.local_reference();
            }
            source
        };
        match self.0.random_range(0..15) {
            0 => ("azureFile", json!({"secretName": self.name(), "shareName": "s"})),
            1 => ("cephfs", plugin(self, json!({"monitors": ["m"]}), "secretRef")),
            2 => ("cinder", plugin(self, json!({"volumeID": "i"}), "secretRef")),
            3 => ("flexVolume", plugin(self, json!({"driver": "d"}), "secretRef")),
            4 => ("rbd", plugin(self, json!({"monitors": ["m"], "image": "i"}), "secretRef")),
            5 => ("scaleIO", plugin(self, json!({"gateway": "g", "system": "s"}), "secretRef")),
            6 => ("iscsi", plugin(self, json!({"targetPortal": "p", "iqn": "q", "lun": 0}), "secretRef")),
            7 => ("storageos", plugin(self, json!({}), "secretRef")),
            8 => ("csi", plugin(self, json!({"driver": "d"}), "nodePublishSecretRef")),
            9 | 10 => ("secret", json!({"secretName": self.name(), "optional": self.percent(30)})),
            11 => ("configMap", self.reference()),
            12 => ("emptyDir", json!({})),
            13 => ("projected", json!({"sources": self.several(Self::projection)})),
            _ => ("projected", json!({"sources": self.several(Self::projection), "defaultMode": 420})),
        }
    }

    fn projection(&mut self) -> Value {
        match self.0.random_range(0..5) {
            0 => json!({"serviceAccountToken": {"path": "token"}}),
            1 => json!({"downwardAPI": {"items": []}}),
            2 => json!({"secret": self.reference()}),
            3 => json!({"configMap": self.reference()}),
            _ => json!({"secret": self.reference(), "configMap": self.reference()}),
        }
    }
}
