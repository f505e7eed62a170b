//! One run: its services, and what a test does to them.

mod services;

use crate::audit::{self, Request};
use crate::credentials::Credentials;
use crate::image;
use crate::pods::PodRunner;
use crate::poll::until;
use crate::process::{Service, tail};
use crate::programs::{Package, Program};
use crate::python::PythonProgram;
use crate::run_folder::{Port, RunFolder};
use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a service may take until it answers.
const READY_LIMIT: Duration = Duration::from_secs(90);

/// Which etcd the API server stores its objects in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Etcd {
    /// 3.7, as a cluster has it today.
    #[default]
    Current,
    /// Debian's 3.4, on which the API server refuses streaming lists.
    Old,
}

/// Which container runtime the node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Containerd {
    /// 2.4, which has an event stream.
    #[default]
    Current,
    /// Debian's 1.6, which has none.
    Old,
}

/// What to bring up.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the node. Default `testbed`.
    pub node_name: String,
    /// Which etcd. Default: the current one.
    pub etcd: Etcd,
    /// Which container runtime. Default: the current one.
    pub containerd: Containerd,
    /// The node's annotation `node.alpha.kubernetes.io/ttl`, in seconds; none by default.
    pub node_ttl: Option<u32>,
    /// Whether a kubelet runs beside it, as a living reference. Default: no; then [`PodRunner`] runs pods.
    pub kubelet: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            node_name: "testbed".into(),
            etcd: Etcd::default(),
            containerd: Containerd::default(),
            node_ttl: None,
            kubelet: false,
        }
    }
}

/// A running node. Dropping it takes it down, unless it was brought up by hand.
#[derive(Debug)]
pub struct Testbed {
    run: RunFolder,
    node_name: String,
    credentials: Credentials,
    etcd: Service,
    api_server: Service,
    containerd: Service,
    kubelet: Option<Service>,
    pods: PodRunner,
    crictl: PathBuf,
    kubectl: PathBuf,
    image_import: services::ImageImport,
    keep: bool,
}

impl Testbed {
    /// Brings a node up and waits until it is ready. The first run on a machine builds the programs, which takes minutes.
    ///
    /// # Errors
    ///
    /// When a program is missing and cannot be built or installed, or a service does not become ready; the message has
    /// the last lines of its log.
    pub async fn start(options: Options) -> Result<Self> {
        Self::install(options.etcd)?;
        let testbed = Self::assemble(RunFolder::claim()?, &options, false)?;
        testbed.bring_up(&options).await?;
        Ok(testbed)
    }

    /// Brings up the node that a person tries things on; what runs of it already stays as it is. It outlives this process.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_by_hand(options: Options) -> Result<Self> {
        Self::install(options.etcd)?;
        let testbed = Self::assemble(RunFolder::by_hand()?, &options, true)?;
        testbed.bring_up(&options).await?;
        Ok(testbed)
    }

    /// The node that a person brought up, whether or not all of it still runs; none if there is none.
    ///
    /// # Errors
    ///
    /// When its programs are gone and cannot be built.
    pub fn existing_by_hand(options: &Options) -> Result<Option<Self>> {
        RunFolder::existing_by_hand().map(|run| Self::assemble(run, options, true)).transpose()
    }

    /// Builds and installs every program, so that a later start takes seconds.
    ///
    /// # Errors
    ///
    /// When one cannot be built or installed.
    pub fn build_programs() -> Result<()> {
        Self::install(Etcd::Current)?;
        for program in Program::ALL {
            println!("{}", program.build()?.display());
        }
        for program in PythonProgram::ALL {
            println!("{}", program.interpreter()?.display());
        }
        Ok(())
    }

    fn install(etcd: Etcd) -> Result<()> {
        let mut packages = vec![Package::RUNC, Package::BUSYBOX];
        if etcd == Etcd::Old {
            packages.push(Package::OLD_ETCD);
        }
        Package::install(&packages)
    }

    fn assemble(run: RunFolder, options: &Options, keep: bool) -> Result<Self> {
        let folder = run.path().to_owned();
        let credentials = Credentials::at(&folder);
        let etcd = services::etcd(&run, options.etcd)?;
        let api_server = services::api_server(&run, &credentials)?;
        let (containerd, image_import) = services::containerd(&run, options.containerd)?;
        let kubelet = options.kubelet.then(|| services::kubelet(&run, &credentials, &options.node_name)).transpose()?;
        let pods = PodRunner::new(&run.containerd_socket(), run.cgroup(), folder.join("pod-logs"))?;
        Ok(Self {
            node_name: options.node_name.clone(),
            credentials,
            etcd,
            api_server,
            containerd,
            kubelet,
            pods,
            crictl: Program::Crictl.build()?,
            kubectl: Program::Kubectl.build()?,
            image_import,
            keep,
            run,
        })
    }

    async fn bring_up(&self, options: &Options) -> Result<()> {
        let folder = self.folder();
        if !self.credentials.node_kubeconfig.exists() {
            self.credentials.write(&self.node_name, &self.api_server_url())?;
            fs::write(folder.join("audit-policy.yaml"), audit::POLICY)?;
        }
        self.etcd.start()?;
        self.api_server.start()?;
        self.containerd.start()?;
        self.wait_for_runtime().await?;
        self.import_images().await?;
        self.wait_for_api_server().await?;
        self.create_node(options.node_ttl).await?;
        if let Some(kubelet) = &self.kubelet {
            kubelet.start()?;
            self.wait_for_kubelet(kubelet).await?;
        }
        Ok(())
    }

    async fn wait_for_kubelet(&self, kubelet: &Service) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client().await?);
        let ready = until("kubelet reports the node", READY_LIMIT, async || {
            if !kubelet.is_running() {
                bail!("it has ended");
            }
            // The node stays 'not ready', for there is no network plugin; host-network pods run all the same.
            let node = nodes.get(&self.node_name).await?;
            let info = node.status.and_then(|status| status.node_info).context("it has reported nothing yet")?;
            if info.kubelet_version.is_empty() {
                bail!("it has not reported its version");
            }
            Ok(())
        });
        ready.await.with_context(|| format!("kubelet's log ends:\n{}", kubelet.log_tail()))
    }

    async fn import_images(&self) -> Result<()> {
        let archive = self.folder().join("images.tar");
        if archive.exists() {
            return Ok(());
        }
        let unfinished = self.folder().join("images.tar.new");
        image::write_archive(&unfinished)?;
        let socket = self.run.containerd_socket();
        let output = tokio::process::Command::new(&self.image_import.program)
            .args(["--namespace", "k8s.io", "--address"])
            .arg(&socket)
            .args(&self.image_import.arguments)
            .arg(&unfinished)
            .stdin(Stdio::null())
            .output()
            .await?;
        if !output.status.success() {
            bail!("import the images: {}", String::from_utf8_lossy(&output.stderr));
        }
        fs::rename(unfinished, archive)?;
        // The CRI side of containerd learns of an import by an event.
        until("the images in the CRI image list", READY_LIMIT, async || {
            let images = self.crictl(&["images", "-o", "json"])?.to_string();
            let missing = [image::BUSYBOX, image::PAUSE].into_iter().find(|name| !images.contains(name));
            missing.map_or(Ok(()), |name| Err(anyhow::anyhow!("{name} is not there")))
        })
        .await
    }

    async fn create_node(&self, ttl: Option<u32>) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client().await?);
        let node: Node = serde_json::from_value(json!({
            "metadata": {
                "name": self.node_name,
                "labels": { "kubernetes.io/hostname": self.node_name, "kubernetes.io/os": "linux" },
            },
        }))?;
        match nodes.create(&PostParams::default(), &node).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(other) => return Err(other).context("create the node"),
        }
        if ttl.is_some() {
            self.set_node_ttl(ttl).await?;
        }
        Ok(())
    }

    /// The folder with the run's logs and files.
    pub fn folder(&self) -> &Path {
        self.run.path()
    }

    /// The node's name.
    pub fn node_name(&self) -> &str {
        &self.node_name
    }

    /// A port of the run that nothing of the testbed uses.
    pub fn spare_port(&self) -> u16 {
        self.run.port(Port::Spare)
    }

    /// The kubeconfig of the node identity: what larder and a kubelet would have.
    pub fn node_kubeconfig(&self) -> &Path {
        &self.credentials.node_kubeconfig
    }

    /// The kubeconfig of the administrator.
    pub fn admin_kubeconfig(&self) -> &Path {
        &self.credentials.admin_kubeconfig
    }

    /// The container runtime's endpoint, `unix:///...`.
    pub fn runtime_endpoint(&self) -> String {
        format!("unix://{}", self.run.containerd_socket().display())
    }

    /// Where the API server is.
    pub fn api_server_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.run.port(Port::ApiServer))
    }

    /// Where etcd serves its clients, as host and port.
    pub fn etcd_address(&self) -> String {
        format!("127.0.0.1:{}", self.run.port(Port::EtcdClient))
    }

    /// etcd, to stop, pause and start.
    pub fn etcd(&self) -> &Service {
        &self.etcd
    }

    /// The API server, to stop, pause and start; [`wait_for_api_server`](Self::wait_for_api_server) after a start.
    pub fn api_server(&self) -> &Service {
        &self.api_server
    }

    /// containerd, to stop, pause and start; [`wait_for_runtime`](Self::wait_for_runtime) after a start. Its containers
    /// go on without it.
    pub fn containerd(&self) -> &Service {
        &self.containerd
    }

    /// kubelet, where one was asked for.
    pub fn kubelet(&self) -> Option<&Service> {
        self.kubelet.as_ref()
    }

    /// The socket of kubelet's own Pods API, where a kubelet was asked for.
    pub fn kubelet_pods_api(&self) -> Option<PathBuf> {
        self.kubelet.is_some().then(|| services::kubelet_root(&self.run).join("pods-api").join("pods-api.sock"))
    }

    /// Where kubelet looks for manifests of static pods.
    pub fn static_pods(&self) -> PathBuf {
        self.folder().join("static-pods")
    }

    /// All services.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        [&self.etcd, &self.api_server, &self.containerd].into_iter().chain(self.kubelet.as_ref())
    }

    /// Runs pods on the container runtime.
    pub fn pods(&self) -> &PodRunner {
        &self.pods
    }

    /// Where crictl is.
    pub fn crictl_program(&self) -> &Path {
        &self.crictl
    }

    /// Where kubectl is.
    pub fn kubectl_program(&self) -> &Path {
        &self.kubectl
    }

    /// A client with the administrator's rights, on connections of its own.
    ///
    /// # Errors
    ///
    /// When the kubeconfig cannot be read.
    pub async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(&self.credentials.admin_kubeconfig)?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(5));
        config.read_timeout = Some(Duration::from_secs(30));
        Ok(Client::try_from(config)?)
    }

    /// Sets or removes the node's TTL annotation.
    ///
    /// # Errors
    ///
    /// When the API server refuses.
    pub async fn set_node_ttl(&self, seconds: Option<u32>) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client().await?);
        let value = seconds.map(|seconds| seconds.to_string());
        let patch = json!({ "metadata": { "annotations": { "node.alpha.kubernetes.io/ttl": value } } });
        nodes.patch(&self.node_name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Creates a namespace.
    ///
    /// # Errors
    ///
    /// When the API server refuses.
    pub async fn create_namespace(&self, name: &str) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client().await?);
        let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        namespaces.create(&PostParams::default(), &namespace).await?;
        Ok(())
    }

    /// Waits until the API server says that it is ready, and has its first namespace.
    ///
    /// # Errors
    ///
    /// When that takes too long; the message has the end of its log.
    pub async fn wait_for_api_server(&self) -> Result<()> {
        let client = self.client().await?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let ready = until("the API server is ready", READY_LIMIT, async || {
            for service in [&self.etcd, &self.api_server] {
                if !service.is_running() {
                    bail!("{} has ended", service.name());
                }
            }
            client.request_text(http::Request::get("/readyz").body(Vec::new())?).await?;
            namespaces.get("default").await?;
            Ok(())
        });
        let logs =
            || format!("etcd's log ends:\n{}kube-apiserver's:\n{}", self.etcd.log_tail(), self.api_server.log_tail());
        ready.await.with_context(logs)
    }

    /// Waits until containerd answers CRI calls.
    ///
    /// # Errors
    ///
    /// When that takes too long; the message has the end of its log.
    pub async fn wait_for_runtime(&self) -> Result<()> {
        let ready = until("containerd answers", READY_LIMIT, async || {
            if !self.containerd.is_running() {
                bail!("it has ended");
            }
            self.pods.version().await
        });
        ready.await.with_context(|| format!("containerd's log ends:\n{}", self.containerd.log_tail()))?;
        Ok(())
    }

    /// What the API server has been asked for secrets, configmaps, pods, their logs and `exec`, nodes and deployments so far, by everybody.
    ///
    /// # Errors
    ///
    /// When the audit log cannot be read.
    pub fn requests(&self) -> Result<Vec<Request>> {
        audit::read(&self.folder().join("audit.log"))
    }

    /// Runs crictl, and reads its output as JSON (null when there is none).
    ///
    /// # Errors
    ///
    /// When it fails, with what it wrote to stderr.
    pub fn crictl(&self, arguments: &[&str]) -> Result<Value> {
        let output = Command::new(&self.crictl)
            .args(["--runtime-endpoint", &self.runtime_endpoint(), "--image-endpoint", &self.runtime_endpoint()])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .context("run crictl")?;
        if !output.status.success() {
            bail!("crictl {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        if output.stdout.trim_ascii().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("read the output of crictl {}", arguments.join(" ")))
    }

    /// Takes the node down and removes its folder.
    ///
    /// # Errors
    ///
    /// When something of it remains.
    pub fn down(self) -> Result<()> {
        self.run.sweep()
        // Dropping it finds nothing left.
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        if std::thread::panicking() {
            self.keep_logs();
        }
        if let Err(error) = self.run.sweep() {
            eprintln!("testbed: {error:#}");
        }
        for service in self.services() {
            service.reap();
        }
    }
}

impl Testbed {
    /// Copies the logs to where they outlive the run, and shows their ends: a test has failed.
    fn keep_logs(&self) {
        let name = std::thread::current().name().unwrap_or("test").replace("::", "-");
        let kept = std::env::temp_dir().join("larder-testbed-logs").join(name);
        let _ = fs::create_dir_all(&kept);
        eprintln!("testbed: the services' logs are kept in {}", kept.display());
        for service in self.services() {
            let state = if service.is_running() { "running" } else { "not running" };
            eprintln!("{} ({state}), the end of its log:\n{}", service.name(), tail(service.log(), 5));
            if let Some(file_name) = service.log().file_name() {
                let _ = fs::copy(service.log(), kept.join(file_name));
            }
        }
    }
}
