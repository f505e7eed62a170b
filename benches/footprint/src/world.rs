//! What the daemon finds on its node: an API server, a container runtime, and pods with Secrets of their own.

use anyhow::{Context as _, Result};
use larder_testkit::api_server::{ApiServer, ApiServerOptions, Kind, User};
use larder_testkit::cri_runtime::{Containers, CriServer, CriServerOptions, SandboxSpec};
use larder_testkit::objects::{node, pod, secret};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};

/// The node's name.
pub(crate) const NODE: &str = "node-1";
/// Secrets that a pod refers to.
pub(crate) const SECRETS_PER_POD: usize = 4;
const NAMESPACES: usize = 10;
/// Bytes of a Secret's value; in base64 and with its metadata, the Secret is one of 4 KiB of JSON.
const VALUE: usize = 2_900;

/// Both sources of the daemon.
pub(crate) struct World {
    api: ApiServer,
    cri: CriServer,
    kubeconfig: PathBuf,
    /// The IDs of containers, in the order in which they were started.
    started: Mutex<Vec<String>>,
}

/// A Secret's namespace and name.
pub(crate) type Name = (String, String);

fn namespace(pod: usize) -> String {
    format!("team-{:02}", pod % NAMESPACES)
}

fn pod_name(pod: usize) -> String {
    format!("web-5d9c7b8f6c-{pod:05}")
}

fn uid(pod: usize) -> String {
    format!("9b7d4e21-0c4d-4e6f-8a8b-{pod:012x}")
}

fn secret_of(pod: usize, secret: usize) -> Name {
    (namespace(pod), format!("web-{pod:05}-secret-{secret}"))
}

/// The Secrets that so many pods refer to.
pub(crate) fn secrets(pods: usize) -> Vec<Name> {
    (0..pods).flat_map(|pod| (0..SECRETS_PER_POD).map(move |secret| secret_of(pod, secret))).collect()
}

/// Where a pod is read.
pub(crate) fn pod_path(pod: usize) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", namespace(pod), pod_name(pod))
}

impl World {
    /// An API server with TLS and an empty runtime; their files are put into the folder.
    pub(crate) async fn start(folder: &Path) -> Result<Self> {
        let api = ApiServer::start_with(ApiServerOptions { tls: true, ..ApiServerOptions::default() }).await?;
        let containers = Containers::new();
        let options = CriServerOptions { containers, ..CriServerOptions::default() };
        let cri = CriServer::start_with(&folder.join("cri.sock"), options).await?;
        let kubeconfig = folder.join("kubeconfig");
        api.write_kubeconfig(&kubeconfig, &api.add_user(User::node(NODE)))?;
        api.store().apply(node(NODE))?;
        Ok(Self { api, cri, kubeconfig, started: Mutex::default() })
    }

    /// The kubeconfig of the node's identity.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The runtime's address.
    pub(crate) fn runtime_endpoint(&self) -> String {
        self.cri.endpoint()
    }

    /// Puts a Secret there, or changes it: `version` is all that tells it from the one before.
    pub(crate) fn put_secret(&self, (namespace, name): &Name, version: usize) -> Result<()> {
        let value = format!("{version:0>VALUE$}");
        self.api.store().apply(secret(namespace, name, &[("value", &value)]))?;
        Ok(())
    }

    /// The Secrets of so many pods.
    pub(crate) fn put_secrets(&self, pods: usize) -> Result<()> {
        secrets(pods).iter().try_for_each(|name| self.put_secret(name, 0))
    }

    /// A pod of the node that refers to its Secrets.
    pub(crate) fn create_pod(&self, number: usize) -> Result<()> {
        let mut it = pod(&namespace(number), &pod_name(number)).node(NODE).uid(&uid(number)).phase("Running");
        it = it.container("web", "registry.example/web:1");
        for secret in 0..SECRETS_PER_POD {
            it = it.secret_volume(&secret_of(number, secret).1);
        }
        self.api.store().create(it.build())?;
        Ok(())
    }

    /// Takes the pod away.
    pub(crate) fn delete_pod(&self, number: usize) -> Result<()> {
        Ok(self.api.store().delete(Kind::Pod, &namespace(number), &pod_name(number))?)
    }

    /// The pod's sandbox, with a container that runs.
    pub(crate) fn run_pod(&self, number: usize) -> Result<()> {
        let containers = self.cri.containers();
        let spec = SandboxSpec::new(&namespace(number), &pod_name(number), &uid(number));
        let sandbox = containers.run_sandbox(&spec);
        let container = containers.create_container(&sandbox, "web", "registry.example/web:1")?;
        containers.start_container(&container)?;
        self.started.lock().push(container);
        Ok(())
    }

    /// The ID of the container of the pod that was run as that one.
    pub(crate) fn container(&self, number: usize) -> Result<String> {
        self.started.lock().get(number).cloned().context("no such pod runs")
    }

    /// Ends both.
    pub(crate) async fn shutdown(self) {
        self.cri.shutdown().await;
        self.api.shutdown().await;
    }
}
