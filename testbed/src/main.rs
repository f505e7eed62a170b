//! `cargo xtask testbed`: a testbed to try things on by hand.

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand, ValueEnum};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use larder_testbed::run_folder::{sweep_all, sweep_stale};
use larder_testbed::{Etcd, Options, RunFolder, Testbed};

/// A real node to try things on: etcd, kube-apiserver, containerd and runc, on loopback.
#[derive(Parser)]
#[command(name = "cargo xtask testbed", bin_name = "cargo xtask testbed")]
struct Arguments {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Bring it up, or bring up what of it does not run.
    Up {
        /// Which etcd the API server stores its objects in.
        #[arg(long, value_enum, default_value_t = EtcdVersion::Current)]
        etcd: EtcdVersion,
        /// The node's TTL annotation, in seconds.
        #[arg(long)]
        node_ttl: Option<u32>,
        /// Run a kubelet, too; it then runs the node's pods.
        #[arg(long)]
        kubelet: bool,
    },
    /// Take it down.
    Down {
        /// Take down those of tests that are running, too.
        #[arg(long, conflicts_with = "stale")]
        all: bool,
        /// Only remove what tests left that were killed.
        #[arg(long)]
        stale: bool,
    },
    /// Say what runs, and where.
    Status,
    /// Make the container runtime run the pods that the API server has for the node, once; a kubelet would do it always.
    RunPods,
    /// Build and install the programs, and bring up nothing.
    Build,
    /// Bring up one as a test does, with a pod, say where it is, and hold it until it is killed or input ends.
    #[command(hide = true)]
    Hold,
}

#[derive(Clone, Copy, ValueEnum)]
enum EtcdVersion {
    /// As a cluster has it today.
    Current,
    /// Debian's 3.4, on which the API server refuses streaming lists.
    Old,
}

#[tokio::main]
async fn main() -> Result<()> {
    match Arguments::parse().command {
        Action::Up { etcd, node_ttl, kubelet } => {
            let etcd = match etcd {
                EtcdVersion::Current => Etcd::Current,
                EtcdVersion::Old => Etcd::Old,
            };
            let testbed = Testbed::start_by_hand(Options { etcd, node_ttl, kubelet, ..Options::default() }).await?;
            describe(&testbed);
        }
        Action::Down { all: true, .. } => println!("{} testbeds taken down", sweep_all()?),
        Action::Down { stale: true, .. } => println!("{} testbeds of killed tests taken down", sweep_stale()?),
        Action::Down { .. } => match RunFolder::existing_by_hand() {
            Some(run) => {
                run.sweep()?;
                println!("the testbed is down");
            }
            None => println!("there is no testbed"),
        },
        Action::Status => describe(&existing()?),
        Action::RunPods => {
            let testbed = existing()?;
            let pods: Api<Pod> = Api::all(testbed.client().await?);
            let here = ListParams::default().fields(&format!("spec.nodeName={}", testbed.node_name()));
            let pods = pods.list(&here).await.context("list the node's pods")?.items;
            let (started, removed) = testbed.pods().run_exactly(&pods).await?;
            println!("{} pods: {started} started, {removed} removed", pods.len());
        }
        Action::Build => Testbed::build_programs()?,
        Action::Hold => {
            let testbed = Testbed::start(Options::default()).await?;
            let pod: Pod = serde_json::from_value(serde_json::json!({
                "metadata": { "name": "held", "uid": "00000000-0000-4000-8000-000000000000" },
                "spec": { "containers": [{ "name": "main", "command": ["sleep", "100000"] }] },
            }))?;
            testbed.pods().run(&pod).await?;
            println!("{}", testbed.folder().display());
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
        }
    }
    Ok(())
}

fn existing() -> Result<Testbed> {
    let kubelet = RunFolder::existing_by_hand().is_some_and(|run| run.path().join("kubelet.json").exists());
    match Testbed::existing_by_hand(&Options { kubelet, ..Options::default() })? {
        Some(testbed) => Ok(testbed),
        None => bail!("there is no testbed; `cargo xtask testbed up` brings one up"),
    }
}

fn describe(testbed: &Testbed) {
    for service in testbed.services() {
        match service.process() {
            Some(process) => {
                println!("{:<15} process {}, log {}", service.name(), process.pid, service.log().display());
            }
            None => println!("{:<15} does not run; its log is {}", service.name(), service.log().display()),
        }
    }
    let (admin, node) = (testbed.admin_kubeconfig().display(), testbed.node_kubeconfig().display());
    let (endpoint, name) = (testbed.runtime_endpoint(), testbed.node_name());
    println!(
        "
node            {name}
API server      {}
administrator   {admin}
node identity   {node}
runtime         {endpoint}

Try:
  export KUBECONFIG={admin} CONTAINER_RUNTIME_ENDPOINT={endpoint}
  {} apply -f testbed/examples/pods.yaml
  cargo xtask testbed run-pods
  {} ps -a
  cargo run -- run --kubeconfig {node} --node-name {name} --runtime-endpoint {endpoint} --socket /tmp/larder.sock
  cargo run -- ps --socket /tmp/larder.sock
  kill -9 one of the processes above, and bring it back with `cargo xtask testbed up`
  cargo xtask testbed down",
        testbed.api_server_url(),
        testbed.kubectl_program().display(),
        testbed.crictl_program().display(),
    );
}
