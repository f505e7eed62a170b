//! Objects on the testbed's API server, made by its administrator.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use larder_testbed::Testbed;
use larder_testbed::poll::until;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::time::Duration;

/// The namespace that the tests use.
pub(crate) const NAMESPACE: &str = "shop";

/// How long the API server may take for what it does in milliseconds when it has the machine for itself.
const LIMIT: Duration = Duration::from_mins(1);

/// The administrator's view of the namespace.
pub(crate) struct Cluster {
    client: Client,
    node_name: String,
}

impl Cluster {
    /// Creates the namespace.
    pub(crate) async fn new(testbed: &Testbed) -> Self {
        testbed.create_namespace(NAMESPACE).await.expect("namespace");
        Self { client: testbed.client().await.expect("client"), node_name: testbed.node_name().to_owned() }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Debug + Serialize + DeserializeOwned,
    {
        let object = serde_json::from_value(object).expect("an object of its type");
        self.api().create(&PostParams::default(), &object).await.expect("created")
    }

    pub(crate) async fn create_secret(&self, name: &str, value: &str) -> Secret {
        self.create(json!({ "metadata": { "name": name, "labels": { "app": name } }, "stringData": { "key": value } }))
            .await
    }

    pub(crate) async fn create_pull_secret(&self, name: &str) -> Secret {
        let credentials = r#"{"auths":{"registry.example":{"auth":"dTpw"}}}"#;
        let object = json!({
            "metadata": { "name": name },
            "type": "kubernetes.io/dockerconfigjson",
            "stringData": { ".dockerconfigjson": credentials },
        });
        self.create(object).await
    }

    pub(crate) async fn create_config_map(&self, name: &str, value: &str) -> ConfigMap {
        self.create(json!({ "metadata": { "name": name }, "data": { "key": value } })).await
    }

    /// Changes the Secret's one value.
    pub(crate) async fn update_secret(&self, name: &str, value: &str) -> Secret {
        let patch = Patch::Merge(json!({ "stringData": { "key": value } }));
        self.api().patch(name, &PatchParams::default(), &patch).await.expect("patched")
    }

    /// Creates a pod of the node: `spec` is merged into that of a pod whose container `main` sleeps.
    pub(crate) async fn create_pod(&self, name: &str, spec: Value) -> Pod {
        let mut full = json!({
            "nodeName": self.node_name,
            "hostNetwork": true,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
        });
        for (field, value) in spec.as_object().expect("a spec") {
            full[field] = value.clone();
        }
        if full.get("containers").is_none() {
            full["containers"] = json!([container("main", "sleep 100000")]);
        }
        self.create(json!({ "metadata": { "name": name, "labels": { "app": name } }, "spec": full })).await
    }

    /// Creates the mirror of a static pod with that hash.
    pub(crate) async fn create_mirror_pod(&self, name: &str, hash: &str) -> Pod {
        let annotations = json!({
            "kubernetes.io/config.mirror": hash,
            "kubernetes.io/config.hash": hash,
            "kubernetes.io/config.source": "file",
        });
        self.create(json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "nodeName": self.node_name, "hostNetwork": true, "containers": [container("main", "sleep 100000")] },
        }))
        .await
    }

    /// Creates a pod that refers to a Secret by a volume.
    pub(crate) async fn create_pod_with_secret(&self, name: &str, secret: &str) -> Pod {
        self.create_pod(name, json!({ "volumes": [{ "name": "v", "secret": { "secretName": secret } }] })).await
    }

    /// Deletes a pod at once, as a kubelet does when its containers have ended.
    pub(crate) async fn delete_pod(&self, name: &str) {
        let pods: Api<Pod> = self.api();
        pods.delete(name, &DeleteParams::default().grace_period(0)).await.expect("deleted");
        let gone = until("the pod is gone", LIMIT, async || match pods.get_opt(name).await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err("it is still there".to_owned()),
            Err(error) => Err(error.to_string()),
        });
        gone.await.expect("deleted");
    }
}

/// A container that runs a shell command.
pub(crate) fn container(name: &str, command: &str) -> Value {
    json!({
        "name": name,
        "image": larder_testbed::image::BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", command],
    })
}

/// The one value of a Secret of these tests, as the API server gives it (base64).
pub(crate) fn data(secret: &Secret) -> Value {
    serde_json::to_value(&secret.data).expect("JSON")
}
