//! Runs pods of the API server on the container runtime, through CRI, with the labels and annotations that kubelet uses.
//!
//! It stands in for a kubelet where a test needs to say exactly when a container starts, ends and starts again.
//!
//! # Limits
//!
//! A pod's containers get its command, arguments, user and `hostPath` volumes, and nothing else: no other volumes, no environment, no
//! probes, no network of their own (sandboxes use the host's). Nothing is restarted unless the test asks for it.

use crate::image;
use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Container, Pod};
use larder_cri::proto;
use proto::runtime_service_client::RuntimeServiceClient;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

/// The annotation by which kubelet tells the UID that the runtime knows a static pod by.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// How long a call to the runtime may take.
const CALL_LIMIT: Duration = Duration::from_mins(1);

/// Starts and stops pods on the run's containerd.
#[derive(Clone, Debug)]
pub struct PodRunner {
    runtime: RuntimeServiceClient<Channel>,
    cgroup: String,
    logs: PathBuf,
}

/// A pod as it was given to the runtime.
#[derive(Clone, Debug)]
pub struct RunningPod {
    /// The UID that the runtime knows it by.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The id of its sandbox.
    pub sandbox: String,
    /// For each container's name the id of its newest instance.
    pub containers: BTreeMap<String, String>,
    sandbox_config: proto::PodSandboxConfig,
    /// For each `hostPath` volume's name its path.
    host_paths: BTreeMap<String, String>,
    restarts: BTreeMap<String, u32>,
}

impl PodRunner {
    /// A runner on the runtime behind a socket. It connects when it is first used, and again after the runtime restarted.
    pub(crate) fn new(socket: &Path, cgroup: String, logs: PathBuf) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()))?.timeout(CALL_LIMIT);
        Ok(Self { runtime: RuntimeServiceClient::new(endpoint.connect_lazy()), cgroup, logs })
    }

    /// The client of the runtime, for calls that the runner has no word for.
    pub fn runtime(&self) -> RuntimeServiceClient<Channel> {
        self.runtime.clone()
    }

    /// The runtime's version; an error while it does not answer.
    ///
    /// # Errors
    ///
    /// When the runtime does not answer.
    pub async fn version(&self) -> Result<String> {
        let answer = self.runtime().version(proto::VersionRequest::default()).await?.into_inner();
        Ok(format!("{} {}", answer.runtime_name, answer.runtime_version))
    }

    /// Starts a sandbox for the pod, and each of its containers in it.
    ///
    /// # Errors
    ///
    /// When the pod has no UID, or the runtime refuses.
    pub async fn run(&self, pod: &Pod) -> Result<RunningPod> {
        let mut running = Box::pin(self.run_sandbox(pod)).await?;
        for container in &pod.spec.as_ref().context("a pod without spec")?.containers {
            Box::pin(self.start_container(&mut running, container)).await?;
        }
        Ok(running)
    }

    /// Starts a sandbox for the pod, and no container.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn run_sandbox(&self, pod: &Pod) -> Result<RunningPod> {
        let name = pod.metadata.name.clone().context("a pod without name")?;
        let namespace = pod.metadata.namespace.clone().unwrap_or_else(|| "default".into());
        let mirror = pod.metadata.annotations.as_ref().and_then(|all| all.get(MIRROR_ANNOTATION));
        let uid =
            mirror.or(pod.metadata.uid.as_ref()).context("a pod without UID: read it from the API server")?.clone();
        let mut labels: std::collections::HashMap<String, String> =
            pod.metadata.labels.clone().unwrap_or_default().into_iter().collect();
        labels.insert("io.kubernetes.pod.name".into(), name.clone());
        labels.insert("io.kubernetes.pod.namespace".into(), namespace.clone());
        labels.insert("io.kubernetes.pod.uid".into(), uid.clone());
        let host = proto::NamespaceOption {
            network: proto::NamespaceMode::Node.into(),
            pid: proto::NamespaceMode::Container.into(),
            ..Default::default()
        };
        let config = proto::PodSandboxConfig {
            metadata: Some(proto::PodSandboxMetadata {
                name: name.clone(),
                uid: uid.clone(),
                namespace: namespace.clone(),
                attempt: 0,
            }),
            log_directory: self.logs.join(format!("{namespace}_{name}_{uid}")).display().to_string(),
            labels,
            annotations: pod.metadata.annotations.clone().unwrap_or_default().into_iter().collect(),
            linux: Some(proto::LinuxPodSandboxConfig {
                cgroup_parent: format!("{}/pod{uid}", self.cgroup),
                security_context: Some(proto::LinuxSandboxSecurityContext {
                    namespace_options: Some(host),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let request = proto::RunPodSandboxRequest { config: Some(config.clone()), ..Default::default() };
        let sandbox = self.runtime().run_pod_sandbox(request).await;
        let sandbox = sandbox.with_context(|| format!("run a sandbox for {namespace}/{name}"))?.into_inner();
        Ok(RunningPod {
            uid,
            namespace,
            name,
            sandbox: sandbox.pod_sandbox_id,
            containers: BTreeMap::new(),
            sandbox_config: config,
            host_paths: host_paths(pod),
            restarts: BTreeMap::new(),
        })
    }

    /// Starts an instance of a container in a running pod: the first, or after an earlier one ended the next. Returns its id.
    ///
    /// # Errors
    ///
    /// When the runtime refuses.
    pub async fn start_container(&self, pod: &mut RunningPod, container: &Container) -> Result<String> {
        let id = Box::pin(self.create_container(pod, container)).await?;
        let start = proto::StartContainerRequest { container_id: id.clone() };
        let started = self.runtime().start_container(start).await;
        started.with_context(|| format!("start {} of {}/{}", container.name, pod.namespace, pod.name))?;
        Ok(id)
    }

    /// As [`start_container`](Self::start_container), but leaves the instance in state created.
    ///
    /// # Errors
    ///
    /// When the runtime refuses.
    pub async fn create_container(&self, pod: &mut RunningPod, container: &Container) -> Result<String> {
        let attempt = pod.restarts.get(&container.name).map_or(0, |earlier| earlier + 1);
        let image = container.image.clone().unwrap_or_else(|| image::BUSYBOX.into());
        let labels = [
            ("io.kubernetes.container.name", &container.name),
            ("io.kubernetes.pod.name", &pod.name),
            ("io.kubernetes.pod.namespace", &pod.namespace),
            ("io.kubernetes.pod.uid", &pod.uid),
        ];
        let annotations = [
            ("io.kubernetes.container.hash", "1f".to_owned()),
            ("io.kubernetes.container.restartCount", attempt.to_string()),
            ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log".to_owned()),
            ("io.kubernetes.container.terminationMessagePolicy", "File".to_owned()),
            ("io.kubernetes.pod.terminationGracePeriod", "30".to_owned()),
        ];
        let config = proto::ContainerConfig {
            metadata: Some(proto::ContainerMetadata { name: container.name.clone(), attempt }),
            image: Some(proto::ImageSpec { image: image.clone(), user_specified_image: image, ..Default::default() }),
            command: container.command.clone().unwrap_or_default(),
            args: container.args.clone().unwrap_or_default(),
            labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value.clone())).collect(),
            annotations: annotations.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            log_path: format!("{}/{attempt}.log", container.name),
            mounts: mounts(pod, container),
            linux: Some(proto::LinuxContainerConfig {
                security_context: Some(proto::LinuxContainerSecurityContext {
                    run_as_user: user(container),
                    namespace_options: pod.sandbox_config.linux.as_ref().and_then(|linux| {
                        linux.security_context.as_ref().and_then(|context| context.namespace_options.clone())
                    }),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        // containerd creates the log's own folder, not the one above it.
        std::fs::create_dir_all(Path::new(&pod.sandbox_config.log_directory).join(&container.name))?;
        let request = proto::CreateContainerRequest {
            pod_sandbox_id: pod.sandbox.clone(),
            config: Some(config),
            sandbox_config: Some(pod.sandbox_config.clone()),
        };
        let created = self.runtime().create_container(request).await;
        let created =
            created.with_context(|| format!("create {} of {}/{}", container.name, pod.namespace, pod.name))?;
        let id = created.into_inner().container_id;
        pod.containers.insert(container.name.clone(), id.clone());
        pod.restarts.insert(container.name.clone(), attempt);
        Ok(id)
    }

    /// Runs a command in a container, as the container's user, and returns what it printed.
    ///
    /// # Errors
    ///
    /// When the runtime refuses, or the command fails.
    pub async fn exec(&self, id: &str, command: &[&str]) -> Result<String> {
        let command: Vec<_> = command.iter().map(|word| (*word).to_owned()).collect();
        let what = command.join(" ");
        let request = proto::ExecSyncRequest { container_id: id.into(), cmd: command, timeout: 30 };
        let answer = self.runtime().exec_sync(request).await.with_context(|| format!("{what} in {id}"))?.into_inner();
        let [out, error] = [answer.stdout, answer.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        ensure!(answer.exit_code == 0, "{what} in {id}: exit code {}: {out}{error}", answer.exit_code);
        Ok(out)
    }

    /// What an instance of a container has printed, each line with its time and stream in front. `attempt` is 0 for the first instance.
    ///
    /// # Errors
    ///
    /// When it has no log yet.
    pub fn log(&self, pod: &RunningPod, container: &str, attempt: u32) -> Result<String> {
        let log = Path::new(&pod.sandbox_config.log_directory).join(container).join(format!("{attempt}.log"));
        std::fs::read_to_string(&log).with_context(|| format!("read {}", log.display()))
    }

    /// Asks a container to end, and kills it after `grace`.
    ///
    /// # Errors
    ///
    /// When the runtime refuses.
    pub async fn stop_container(&self, id: &str, grace: Duration) -> Result<()> {
        let timeout = i64::try_from(grace.as_secs())?;
        let stop = proto::StopContainerRequest { container_id: id.into(), timeout };
        self.runtime().stop_container(stop).await.with_context(|| format!("stop the container {id}"))?;
        Ok(())
    }

    /// Removes an instance of a container.
    ///
    /// # Errors
    ///
    /// When the runtime refuses.
    pub async fn remove_container(&self, id: &str) -> Result<()> {
        let remove = proto::RemoveContainerRequest { container_id: id.into() };
        self.runtime().remove_container(remove).await.with_context(|| format!("remove the container {id}"))?;
        Ok(())
    }

    /// Stops a pod's sandbox with its containers, and leaves them there as exited ones.
    ///
    /// # Errors
    ///
    /// When the runtime refuses.
    pub async fn stop(&self, sandbox: &str) -> Result<()> {
        let stop = proto::StopPodSandboxRequest { pod_sandbox_id: sandbox.into() };
        self.runtime().stop_pod_sandbox(stop).await.with_context(|| format!("stop the sandbox {sandbox}"))?;
        Ok(())
    }

    /// Stops and removes a pod's sandbox with its containers.
    ///
    /// # Errors
    ///
    /// When the runtime refuses.
    pub async fn remove(&self, sandbox: &str) -> Result<()> {
        self.stop(sandbox).await?;
        let remove = proto::RemovePodSandboxRequest { pod_sandbox_id: sandbox.into() };
        self.runtime().remove_pod_sandbox(remove).await.with_context(|| format!("remove the sandbox {sandbox}"))?;
        Ok(())
    }

    /// Makes the runtime run these pods and no other: starts what is missing, removes what is left over. Returns how many
    /// pods it started and removed.
    ///
    /// # Errors
    ///
    /// When the runtime refuses.
    pub async fn run_exactly(&self, pods: &[Pod]) -> Result<(usize, usize)> {
        let list = self.runtime().list_pod_sandbox(proto::ListPodSandboxRequest::default()).await?.into_inner();
        let (mut started, mut removed) = (0, 0);
        let mut there: BTreeMap<String, String> =
            list.items.into_iter().map(|sandbox| (sandbox.metadata.unwrap_or_default().uid, sandbox.id)).collect();
        for pod in pods {
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            if there.remove(&uid).is_none() {
                self.run(pod).await?;
                started += 1;
            }
        }
        for sandbox in there.into_values() {
            self.remove(&sandbox).await?;
            removed += 1;
        }
        Ok((started, removed))
    }
}

fn host_paths(pod: &Pod) -> BTreeMap<String, String> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| Some((volume.name.clone(), volume.host_path.as_ref()?.path.clone()))).collect()
}

fn mounts(pod: &RunningPod, container: &Container) -> Vec<proto::Mount> {
    let mounts = container.volume_mounts.iter().flatten();
    let mounts = mounts.filter_map(|mount| {
        Some(proto::Mount {
            container_path: mount.mount_path.clone(),
            host_path: pod.host_paths.get(&mount.name)?.clone(),
            readonly: mount.read_only.unwrap_or_default(),
            ..Default::default()
        })
    });
    mounts.collect()
}

fn user(container: &Container) -> Option<proto::Int64Value> {
    let value = container.security_context.as_ref()?.run_as_user?;
    Some(proto::Int64Value { value })
}
