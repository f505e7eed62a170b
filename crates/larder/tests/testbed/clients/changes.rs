//! Random changes of the objects that clients see.

use super::history::{Key, Objects, key};
use super::reference::describe;
use crate::cluster::{Cluster, NAMESPACE, container};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use larder_testbed::Testbed;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

/// How many names there are of each kind.
const NAMES: u32 = 5;

/// One write to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Create(Kind, u32),
    Update(Kind, u32),
    Delete(Kind, u32),
    Status(u32),
    Node,
}

/// The kinds of namespaced objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pod,
    Secret,
    ConfigMap,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }

    fn key(self, n: u32) -> Key {
        key(self.as_str(), &format!("{NAMESPACE}/{}", self.name(n)))
    }

    fn name(self, n: u32) -> String {
        format!("{}-{n}", self.as_str().to_lowercase())
    }
}

impl Write {
    /// Whether other Secrets and `ConfigMap`s may be in view after it.
    pub(super) fn changes_references(self) -> bool {
        matches!(self, Self::Create(Kind::Pod, _) | Self::Delete(Kind::Pod, _))
    }
}

/// Makes the changes, and knows which objects there are.
pub(super) struct Changes {
    cluster: Cluster,
    nodes: Api<Node>,
    node_name: String,
    random: Xoshiro256PlusPlus,
    /// Grows with each write, so that each is a change.
    count: u64,
    written: Objects,
}

impl Changes {
    /// Creates a Secret, a `ConfigMap` and a pod that refers to both.
    pub(super) async fn begin(testbed: &Testbed, cluster: Cluster, seed: u64) -> Self {
        let nodes = Api::all(testbed.client().await.expect("a client"));
        let node_name = testbed.node_name().to_owned();
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let node = nodes.get(&node_name).await.expect("the node");
        let written = Objects::from([describe("Node", &node)]);
        let mut changes = Self { cluster, nodes, node_name, random, count: 0, written };
        changes.make(Write::Create(Kind::Secret, 0)).await;
        changes.make(Write::Create(Kind::ConfigMap, 0)).await;
        let object = changes.pod(0, &[volume(Kind::Secret, 0), volume(Kind::ConfigMap, 0)]);
        changes.create::<Pod>(Kind::Pod, object).await;
        changes
    }

    /// All objects of this node and of the namespace, as they were written.
    pub(super) fn written(&self) -> &Objects {
        &self.written
    }

    pub(super) fn random(&mut self) -> &mut Xoshiro256PlusPlus {
        &mut self.random
    }

    /// The writes of the next random change.
    pub(super) fn plan(&mut self) -> Vec<Write> {
        let n = self.random.random_range(0..NAMES);
        let kind = match self.random.random_range(0..20) {
            0 => return vec![Write::Node],
            1..=6 => Kind::Pod,
            7..=13 => Kind::Secret,
            _ => Kind::ConfigMap,
        };
        if !self.written.contains_key(&kind.key(n)) {
            return vec![Write::Create(kind, n)];
        }
        match self.random.random_range(0..10) {
            0..=1 => vec![Write::Delete(kind, n)],
            2..=3 => vec![Write::Delete(kind, n), Write::Create(kind, n)],
            4..=5 if kind == Kind::Pod => vec![Write::Status(n)],
            _ => vec![Write::Update(kind, n)],
        }
    }

    /// Makes a change at the API server.
    pub(super) async fn make(&mut self, write: Write) {
        self.count += 1;
        let count = self.count.to_string();
        match write {
            Write::Create(Kind::Pod, n) => {
                let references: Vec<Value> = [Kind::Secret, Kind::ConfigMap]
                    .into_iter()
                    .flat_map(|kind| (0..NAMES).map(move |n| (kind, n)))
                    .filter(|_| self.random.random_bool(0.3))
                    .map(|(kind, n)| volume(kind, n))
                    .collect();
                let object = self.pod(n, &references);
                self.create::<Pod>(Kind::Pod, object).await;
            }
            Write::Create(Kind::Secret, n) => {
                let object = json!({ "metadata": { "name": Kind::Secret.name(n) }, "stringData": { "key": count } });
                self.create::<Secret>(Kind::Secret, object).await;
            }
            Write::Create(Kind::ConfigMap, n) => {
                let object = json!({ "metadata": { "name": Kind::ConfigMap.name(n) }, "data": { "key": count } });
                self.create::<ConfigMap>(Kind::ConfigMap, object).await;
            }
            Write::Update(Kind::Pod, n) => {
                let patch = json!({ "metadata": { "labels": { "count": count } } });
                self.update::<Pod>(Kind::Pod, n, patch).await;
            }
            Write::Update(Kind::Secret, n) => {
                self.update::<Secret>(Kind::Secret, n, json!({ "stringData": { "key": count } })).await;
            }
            Write::Update(Kind::ConfigMap, n) => {
                self.update::<ConfigMap>(Kind::ConfigMap, n, json!({ "data": { "key": count } })).await;
            }
            Write::Delete(Kind::Pod, n) => self.delete::<Pod>(Kind::Pod, n).await,
            Write::Delete(Kind::Secret, n) => self.delete::<Secret>(Kind::Secret, n).await,
            Write::Delete(Kind::ConfigMap, n) => self.delete::<ConfigMap>(Kind::ConfigMap, n).await,
            Write::Status(n) => {
                let patch = Patch::Merge(json!({ "status": { "phase": "Running", "message": count } }));
                let pods = self.cluster.api::<Pod>();
                let pod = pods.patch_status(&Kind::Pod.name(n), &PatchParams::default(), &patch).await;
                self.written.extend([describe("Pod", &pod.expect("patched"))]);
            }
            Write::Node => {
                let patch = Patch::Merge(json!({ "metadata": { "labels": { "count": count } } }));
                let node = self.nodes.patch(&self.node_name, &PatchParams::default(), &patch).await;
                self.written.extend([describe("Node", &node.expect("patched"))]);
            }
        }
    }

    fn pod(&self, n: u32, volumes: &[Value]) -> Value {
        json!({
            "metadata": { "name": Kind::Pod.name(n) },
            "spec": {
                "nodeName": self.node_name,
                "terminationGracePeriodSeconds": 0,
                "containers": [container("main", "sleep 100000")],
                "volumes": volumes,
            },
        })
    }

    async fn create<K>(&mut self, kind: Kind, object: Value)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Debug + Serialize + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object).expect("an object of its type");
        let created = self.cluster.api::<K>().create(&PostParams::default(), &object).await.expect("created");
        self.written.extend([describe(kind.as_str(), &created)]);
    }

    async fn update<K>(&mut self, kind: Kind, n: u32, patch: Value)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Debug + Serialize + DeserializeOwned,
    {
        let api = self.cluster.api::<K>();
        let updated = api.patch(&kind.name(n), &PatchParams::default(), &Patch::Merge(patch)).await.expect("patched");
        self.written.extend([describe(kind.as_str(), &updated)]);
    }

    async fn delete<K>(&mut self, kind: Kind, n: u32)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Debug + Serialize + DeserializeOwned,
    {
        let api = self.cluster.api::<K>();
        // With this grace period, nobody has to confirm the end of a pod.
        api.delete(&kind.name(n), &DeleteParams::default().grace_period(0)).await.expect("deleted");
        self.written.remove(&kind.key(n));
    }
}

/// A volume of a Secret or `ConfigMap`.
fn volume(kind: Kind, n: u32) -> Value {
    let name = kind.name(n);
    match kind {
        Kind::ConfigMap => json!({ "name": name, "configMap": { "name": name, "optional": true } }),
        Kind::Secret | Kind::Pod => json!({ "name": name, "secret": { "secretName": name, "optional": true } }),
    }
}
