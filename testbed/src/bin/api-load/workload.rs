//! The objects and pods, and what the administrator does to them.

use anyhow::{Context as _, Result};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use larder_testbed::{Testbed, image};
use serde_json::{Value, json};

/// The namespaces that pods are spread over.
pub(crate) const NAMESPACES: usize = 4;
/// How many objects a pod refers to: a Secret and a ConfigMap that it mounts, and one of each for its environment.
pub(crate) const OBJECTS_OF_A_POD: usize = 4;
/// What every object has beside its version, so that bytes are those of ordinary objects.
const FILLER: usize = 1024;
/// How many objects are created at a time.
const CONCURRENCY: usize = 8;

/// An object of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Object {
    /// The pod's number.
    pub(crate) pod: usize,
    pub(crate) kind: Kind,
    /// Read again once a sync period; otherwise at the pod's start only.
    pub(crate) mounted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Secret,
    ConfigMap,
}

impl Object {
    /// Those of a pod, the mounted ones first.
    pub(crate) fn of_pod(pod: usize) -> [Self; OBJECTS_OF_A_POD] {
        let of = |kind, mounted| Self { pod, kind, mounted };
        [of(Kind::Secret, true), of(Kind::ConfigMap, true), of(Kind::Secret, false), of(Kind::ConfigMap, false)]
    }

    pub(crate) fn name(self) -> String {
        let kind = match self.kind {
            Kind::Secret => "secret",
            Kind::ConfigMap => "config",
        };
        format!("web-{:03}-{}-{kind}", self.pod, if self.mounted { "mounted" } else { "env" })
    }

    /// Its path in the Kubernetes API.
    pub(crate) fn path(self) -> String {
        let resource = match self.kind {
            Kind::Secret => "secrets",
            Kind::ConfigMap => "configmaps",
        };
        format!("/api/v1/namespaces/{}/{resource}/{}", namespace(self.pod), self.name())
    }

    /// The version that a body carries.
    pub(crate) fn version(self, body: &str) -> Result<usize> {
        let body: Value = serde_json::from_str(body).context("no JSON")?;
        let version = body["data"]["version"].clone();
        let text = match self.kind {
            Kind::Secret => String::from_utf8(serde_json::from_value::<ByteString>(version)?.0)?,
            Kind::ConfigMap => serde_json::from_value(version)?,
        };
        Ok(text.parse()?)
    }
}

/// The namespace of a pod's number.
pub(crate) fn namespace(pod: usize) -> String {
    format!("team-{}", pod % NAMESPACES)
}

/// The name of a pod; a rollout replaces it by one of the next generation.
pub(crate) fn pod_name(pod: usize, generation: usize) -> String {
    format!("web-{pod:03}-{generation}")
}

/// The administrator of the objects and pods.
#[derive(Clone)]
pub(crate) struct Workload {
    client: Client,
    node_name: String,
}

impl Workload {
    /// Creates the namespaces, every pod's objects in their version 0, and the pods.
    pub(crate) async fn create(testbed: &Testbed, pods: usize) -> Result<Self> {
        for pod in 0..NAMESPACES {
            testbed.create_namespace(&namespace(pod)).await?;
        }
        let workload = Self { client: testbed.client().await?, node_name: testbed.node_name().to_owned() };
        let objects = (0..pods).flat_map(Object::of_pod).map(|object| workload.create_object(object));
        stream::iter(objects).buffer_unordered(CONCURRENCY).try_collect::<()>().await?;
        let all = (0..pods).map(|pod| workload.create_pod(pod, 0));
        stream::iter(all).buffer_unordered(CONCURRENCY).try_collect::<()>().await?;
        Ok(workload)
    }

    async fn create_object(&self, object: Object) -> Result<()> {
        let (namespace, create) = (namespace(object.pod), PostParams::default());
        let metadata = json!({ "name": object.name() });
        let data = json!({ "version": "0", "filler": "x".repeat(FILLER) });
        match object.kind {
            Kind::Secret => {
                let secret: Secret = serde_json::from_value(json!({ "metadata": metadata, "stringData": data }))?;
                Api::namespaced(self.client.clone(), &namespace).create(&create, &secret).await?;
            }
            Kind::ConfigMap => {
                let map: ConfigMap = serde_json::from_value(json!({ "metadata": metadata, "data": data }))?;
                Api::namespaced(self.client.clone(), &namespace).create(&create, &map).await?;
            }
        }
        Ok(())
    }

    /// Creates a pod of the node. Nobody runs it; that it is bound to the node is what counts.
    pub(crate) async fn create_pod(&self, pod: usize, generation: usize) -> Result<()> {
        let [secret, map, env_secret, env_map] = Object::of_pod(pod).map(Object::name);
        let manifest: Pod = serde_json::from_value(json!({
            "metadata": { "name": pod_name(pod, generation) },
            "spec": {
                "nodeName": self.node_name,
                "containers": [{
                    "name": "main",
                    "image": image::BUSYBOX,
                    "envFrom": [{ "secretRef": { "name": env_secret } }, { "configMapRef": { "name": env_map } }],
                    "volumeMounts": [{ "name": "s", "mountPath": "/s" }, { "name": "c", "mountPath": "/c" }],
                }],
                "volumes": [
                    { "name": "s", "secret": { "secretName": secret } },
                    { "name": "c", "configMap": { "name": map } },
                ],
            },
        }))?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace(pod));
        pods.create(&PostParams::default(), &manifest).await.context("create a pod")?;
        Ok(())
    }

    /// Deletes a pod at once.
    pub(crate) async fn delete_pod(&self, pod: usize, generation: usize) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace(pod));
        pods.delete(&pod_name(pod, generation), &DeleteParams::default().grace_period(0)).await?;
        Ok(())
    }

    /// Gives an object a new version.
    pub(crate) async fn update(&self, object: Object, version: usize) -> Result<()> {
        let (namespace, name, patch) = (namespace(object.pod), object.name(), PatchParams::default());
        let data = json!({ "version": version.to_string() });
        match object.kind {
            Kind::Secret => {
                let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
                secrets.patch(&name, &patch, &Patch::Merge(json!({ "stringData": data }))).await?;
            }
            Kind::ConfigMap => {
                let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace);
                maps.patch(&name, &patch, &Patch::Merge(json!({ "data": data }))).await?;
            }
        }
        Ok(())
    }
}
