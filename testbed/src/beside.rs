//! larder and a kubelet side by side on one testbed: what the programs share that compare them.

use crate::poll::until;
use crate::process::Service;
use crate::testbed::Testbed;
use crate::unix_http;
use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long larder may take until it is ready.
const READY_LIMIT: Duration = Duration::from_mins(1);
/// How long the containers of a pod may take to start.
const START_LIMIT: Duration = Duration::from_mins(15);

/// A larder that runs on a testbed which has a kubelet.
#[derive(Debug)]
pub struct Beside<'a> {
    testbed: &'a Testbed,
    larder: Service,
    socket: PathBuf,
}

impl<'a> Beside<'a> {
    /// Starts `larder run` with the node's own credentials, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When it does not become ready; the message has the end of its log.
    pub async fn start(testbed: &'a Testbed, program: &Path) -> Result<Self> {
        Self::start_with(testbed, program, &[]).await
    }

    /// As [`start`](Self::start), with more arguments of `larder run`.
    ///
    /// # Errors
    ///
    /// When it does not become ready; the message has the end of its log.
    pub async fn start_with(testbed: &'a Testbed, program: &Path, more: &[String]) -> Result<Self> {
        let socket = testbed.folder().join("larder.sock");
        let arguments = [
            "run",
            "--kubeconfig",
            &testbed.node_kubeconfig().display().to_string(),
            "--node-name",
            testbed.node_name(),
            "--runtime-endpoint",
            &testbed.runtime_endpoint(),
            "--socket",
            &socket.display().to_string(),
            "--log-level",
            "warn",
        ]
        .map(str::to_owned);
        let program = program.canonicalize().with_context(|| format!("find {}", program.display()))?;
        let arguments = [&arguments[..], more].concat();
        let larder = Service::new("larder", testbed.folder(), program, arguments, Vec::new());
        larder.start()?;
        let beside = Self { testbed, larder, socket };
        until("larder is ready", READY_LIMIT, async || {
            let (code, body) = beside.get("/readyz").await?;
            if code == 200 { Ok(()) } else { bail!("{code}: {body}") }
        })
        .await
        .with_context(|| format!("larder's log ends:\n{}", beside.larder.log_tail()))?;
        Ok(beside)
    }

    /// larder's socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The socket of the kubelet's Pods API.
    ///
    /// # Errors
    ///
    /// When the testbed has no kubelet.
    pub fn kubelet_pods_api(&self) -> Result<PathBuf> {
        self.testbed.kubelet_pods_api().context("no kubelet")
    }

    /// A GET at larder's socket, its answer as JSON.
    ///
    /// # Errors
    ///
    /// When larder does not answer.
    pub async fn get(&self, target: &str) -> Result<(u16, Value)> {
        let (code, body) = unix_http::get(&self.socket, target).await?;
        Ok((code, serde_json::from_str(&body).unwrap_or(Value::String(body))))
    }

    /// Has the kubelet run a pod with these containers and volumes, none of them ever restarted, and waits until larder says
    /// that all of them run. Returns the pod's UID.
    ///
    /// # Errors
    ///
    /// When the API server refuses the pod, or it does not start; the message has the end of the kubelet's log.
    pub async fn run_pod(&self, name: &str, containers: &[Value], volumes: &[Value]) -> Result<String> {
        let pods: Api<Pod> = Api::default_namespaced(self.testbed.client().await?);
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": {
                "nodeName": self.testbed.node_name(),
                "hostNetwork": true,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "tolerations": [{ "operator": "Exists" }],
                "containers": containers,
                "volumes": volumes,
            },
        }))?;
        let created = pods.create(&PostParams::default(), &pod).await.with_context(|| format!("create pod {name}"))?;
        let uid = created.metadata.uid.context("a pod without a UID")?;
        self.until_running(&uid, containers.len()).await.with_context(|| format!("pod {name}"))?;
        Ok(uid)
    }

    async fn until_running(&self, uid: &str, expected: usize) -> Result<()> {
        until("the pod's containers run", START_LIMIT, async || {
            let (_, body) = self.get(&format!("/larder/v1/pods/{uid}/status")).await?;
            let containers = body["status"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
            let running = containers.iter().filter(|container| container["state"] == "running").count();
            ensure!(running == expected, "{running} of {expected} run");
            Ok(())
        })
        .await
        .with_context(|| {
            let log = |service: &Service| service.log_tail();
            format!("kubelet's log ends:\n{}", self.testbed.kubelet().map(log).unwrap_or_default())
        })
    }

    /// larder's resident memory, in KiB.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn memory(&self) -> Result<u64> {
        let pid = self.larder.process().context("larder does not run")?.pid;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("read larder's memory")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = resident.and_then(|rest| rest.trim().strip_suffix(" kB"));
        number.and_then(|number| number.parse().ok()).context("no VmRSS")
    }

    /// Ends larder.
    ///
    /// # Errors
    ///
    /// When it does not end.
    pub fn stop(self) -> Result<()> {
        self.larder.stop()
    }
}
