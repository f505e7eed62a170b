//! What each service of a run is started with.

use super::{Containerd, Etcd};
use crate::credentials::Credentials;
use crate::image;
use crate::process::Service;
use crate::programs::{Program, debians_containerd};
use crate::run_folder::{Port, RunFolder};
use anyhow::Result;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) fn etcd(run: &RunFolder, etcd: Etcd) -> Result<Service> {
    let client = format!("http://127.0.0.1:{}", run.port(Port::EtcdClient));
    let peer = format!("http://127.0.0.1:{}", run.port(Port::EtcdPeer));
    let mut arguments = vec![
        "--name=testbed".to_owned(),
        format!("--data-dir={}", run.path().join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=testbed={peer}"),
    ];
    let program = match etcd {
        Etcd::Current => {
            // Nothing of a test needs to outlive the machine.
            arguments.push("--unsafe-no-fsync".to_owned());
            Program::Etcd.build()?
        }
        Etcd::Old => PathBuf::from("/usr/bin/etcd"),
    };
    Ok(Service::new("etcd", run.path(), program, arguments, Vec::new()))
}

pub(super) fn api_server(run: &RunFolder, credentials: &Credentials) -> Result<Service> {
    let folder = run.path();
    let arguments = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", run.port(Port::EtcdClient)),
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={}", run.port(Port::ApiServer)),
        format!("--tls-cert-file={}", credentials.server_certificate.display()),
        format!("--tls-private-key-file={}", credentials.server_key.display()),
        format!("--cert-dir={}", folder.join("certificates").display()),
        format!("--token-auth-file={}", credentials.tokens.display()),
        "--authorization-mode=Node,RBAC".into(),
        "--enable-admission-plugins=NodeRestriction".into(),
        // Pods need no service account here, for there is no controller that makes one in each namespace.
        "--disable-admission-plugins=ServiceAccount".into(),
        "--service-account-issuer=https://larder.test".into(),
        format!("--service-account-key-file={}", credentials.service_account_public_key.display()),
        format!("--service-account-signing-key-file={}", credentials.service_account_key.display()),
        "--service-cluster-ip-range=10.97.0.0/24".into(),
        "--endpoint-reconciler-type=none".into(),
        format!("--audit-policy-file={}", folder.join("audit-policy.yaml").display()),
        format!("--audit-log-path={}", folder.join("audit.log").display()),
        // A request is in the log before its answer has ended.
        "--audit-log-mode=blocking".into(),
    ];
    Ok(Service::new("kube-apiserver", folder, Program::KubeApiserver.build()?, arguments, Vec::new()))
}

/// kubelet's folder. Short, for it makes sockets below it.
pub(super) fn kubelet_root(run: &RunFolder) -> PathBuf {
    run.path().join("kubelet")
}

pub(super) fn kubelet(run: &RunFolder, credentials: &Credentials, node_name: &str) -> Result<Service> {
    let folder = run.path();
    let configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": run.port(Port::Kubelet),
        "healthzPort": run.port(Port::KubeletHealth),
        "authentication": { "anonymous": { "enabled": true }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
        "containerRuntimeEndpoint": format!("unix://{}", run.containerd_socket().display()),
        "staticPodPath": folder.join("static-pods"),
        "podLogsDir": folder.join("pod-logs"),
        "volumePluginDir": folder.join("volume-plugins"),
        // Control groups as they are here, and nothing changed that the rest of the machine sees.
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": false,
        "cgroupRoot": run.cgroup(),
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "makeIPTablesUtilChains": false,
        "protectKernelDefaults": false,
        // A developer's disk is often nearly full; that must not keep pods from running, nor remove the images.
        "evictionHard": { "memory.available": "10Mi" },
        "imageGCHighThresholdPercent": 100,
        // A container that ends again and again is started again within a second, not within five minutes.
        "crashLoopBackOff": { "maxContainerRestartPeriod": "1s" },
        "featureGates": { "PodsAPI": true, "EventedPLEG": true },
    });
    fs::create_dir_all(folder.join("static-pods"))?;
    let file = folder.join("kubelet.json");
    fs::write(&file, serde_json::to_vec_pretty(&configuration)?)?;
    let arguments = vec![
        format!("--config={}", file.display()),
        format!("--kubeconfig={}", credentials.node_kubeconfig.display()),
        format!("--hostname-override={node_name}"),
        format!("--root-dir={}", kubelet_root(run).display()),
        format!("--cert-dir={}", folder.join("kubelet-certificates").display()),
    ];
    // On starting it removes every plain file in its working directory; a service's is empty and its own.
    Ok(Service::new("kubelet", folder, Program::Kubelet.build()?, arguments, Vec::new()))
}

/// containerd, and how its own client is told to import an image.
pub(super) fn containerd(run: &RunFolder, containerd: Containerd) -> Result<(Service, ImageImport)> {
    let folder = run.path();
    let (program, configuration, import) = match containerd {
        Containerd::Current => {
            let configuration = containerd_configuration(run, &Program::ContainerdShim.build()?);
            let arguments = vec!["images", "import", "--local"];
            (Program::Containerd.build()?, configuration, ImageImport { program: Program::Ctr.build()?, arguments })
        }
        Containerd::Old => {
            let programs = debians_containerd()?;
            let configuration = old_containerd_configuration(run, &programs.join("containerd-shim-runc-v2"));
            let import = ImageImport { program: programs.join("ctr"), arguments: vec!["images", "import"] };
            (programs.join("containerd"), configuration, import)
        }
    };
    let file = folder.join("containerd.toml");
    fs::write(&file, configuration)?;
    let arguments = vec!["--config".into(), file.display().to_string()];
    Ok((Service::new("containerd", folder, program, arguments, Vec::new()), import))
}

/// What imports an archive of images: the runtime's client and its arguments, before the archive's name.
#[derive(Debug)]
pub(super) struct ImageImport {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<&'static str>,
}

fn old_containerd_configuration(run: &RunFolder, shim: &Path) -> String {
    let folder = run.path().display();
    let socket = run.containerd_socket();
    let (socket, shim) = (socket.display(), shim.display());
    let pause = image::PAUSE;
    format!(
        "version = 2
root = '{folder}/containerd/root'
state = '{folder}/containerd/state'
imports = []

[grpc]
address = '{socket}'

[ttrpc]
address = '{socket}.ttrpc'

[plugins.'io.containerd.internal.v1.opt']
path = '{folder}/containerd/opt'

[plugins.'io.containerd.grpc.v1.cri']
sandbox_image = '{pause}'
restrict_oom_score_adj = true

[plugins.'io.containerd.grpc.v1.cri'.cni]
bin_dir = '{folder}/cni/bin'
conf_dir = '{folder}/cni/conf'

[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
runtime_path = '{shim}'

[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]
BinaryName = '/usr/sbin/runc'
Root = '{folder}/runc'
"
    )
}

fn containerd_configuration(run: &RunFolder, shim: &Path) -> String {
    let folder = run.path().display();
    let socket = run.containerd_socket();
    let (socket, shim) = (socket.display(), shim.display());
    let pause = image::PAUSE;
    format!(
        "version = 4
root = '{folder}/containerd/root'
state = '{folder}/containerd/state'
imports = []
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.image-verifier.v1.bindir']

[plugins.'io.containerd.server.v1.grpc']
address = '{socket}'

[plugins.'io.containerd.server.v1.ttrpc']
address = '{socket}.ttrpc'

[plugins.'io.containerd.shim.v1.manager']
socket_dir = '{folder}/s'

[plugins.'io.containerd.internal.v1.opt']
path = '{folder}/containerd/opt'

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{pause}'

[plugins.'io.containerd.cri.v1.runtime']
# Without this a sandbox fails wherever the machine does not let a process lower its score.
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{folder}/cni/bin']
conf_dir = '{folder}/cni/conf'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
runtime_path = '{shim}'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = '/usr/sbin/runc'
Root = '{folder}/runc'
"
    )
}
