//! Whose a held process is, and when a container has ended, on a simulated runtime.

use larder_identity::Process;
use larder_node::{Cluster, Config, Node, ProcessError, RuntimeEndpoint, Whois, WhoisError};
use larder_pod_status::PodUid;
use larder_testkit::cri_runtime::{CriServer, SandboxSpec};
use larder_testkit::poll_until;
use std::future::Future;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(30);
const POD: [&str; 2] = ["shop", "web"];
const UID: &str = "2f6f3d1c-6f0e-4f4e-9d5c-0a1b2c3d4e5f";

struct World {
    cri: CriServer,
    node: Arc<Node>,
    sandbox: String,
    folder: TempDir,
}

impl World {
    /// A node with one pod, whose sandbox runs.
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let manifests = folder.path().join("manifests");
        std::fs::create_dir(&manifests).unwrap();
        let pod = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"shop","name":"web","uid":"{UID}"}},"spec":{{"containers":[{{"name":"app","image":"a:1"}}]}}}}"#
        );
        std::fs::write(manifests.join("web.json"), pod).unwrap();
        let cri = CriServer::start(&folder.path().join("cri.sock")).await.unwrap();
        let mut config = Config::new("edge-1", Cluster::Manifests(manifests));
        config.runtime = RuntimeEndpoint::At(cri.endpoint());
        let node = Node::start(config, CancellationToken::new()).await.unwrap();
        node.settled().await;
        let uid = node.get_pod("shop", "web").unwrap().object.runtime_uid().to_owned();
        let sandbox = cri.containers().run_sandbox(&SandboxSpec::new("shop", "web", &uid));
        Self { cri, node, sandbox, folder }
    }

    fn uid(&self) -> PodUid {
        self.node.runtime_uid("shop", "web").unwrap()
    }

    fn manifest(&self) -> PathBuf {
        self.folder.path().join("manifests/web.json")
    }

    /// A container that runs, once the node knows.
    async fn run(&self) -> String {
        let id = self.cri.containers().create_container(&self.sandbox, "app", "a:1").unwrap();
        self.cri.containers().start_container(&id).unwrap();
        poll_until(LIMIT, async || self.node.live_container(&self.uid(), &id).ok().flatten()).await.unwrap();
        id
    }
}

/// Whether the future returns when it is asked once more.
async fn has_returned(future: &mut (impl Future<Output = ()> + Unpin)) -> bool {
    std::future::poll_fn(|context| Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_ready())).await
}

#[tokio::test]
async fn a_container_ends_when_the_runtime_says_so_and_its_successor_goes_on() {
    let world = World::start().await;
    let (uid, first) = (world.uid(), world.run().await);
    let second = world.run().await;
    let mut first_ended = Box::pin(world.node.container_ended(POD, &uid, &first));
    let mut second_ended = Box::pin(world.node.container_ended(POD, &uid, &second));
    assert!(!has_returned(&mut first_ended).await && !has_returned(&mut second_ended).await);
    assert_eq!(world.node.live_container(&uid, &first).unwrap().unwrap().name, "app");

    world.cri.containers().exit_container(&first, 0).unwrap();
    tokio::time::timeout(LIMIT, first_ended).await.unwrap();
    assert!(world.node.live_container(&uid, &first).unwrap().is_none());
    assert!(!has_returned(&mut second_ended).await);
    assert!(world.node.live_container(&uid, &second).unwrap().is_some());
    // One that had ended before.
    tokio::time::timeout(LIMIT, world.node.container_ended(POD, &uid, &first)).await.unwrap();

    world.cri.containers().exit_container(&second, 0).unwrap();
    world.cri.containers().remove_container(&second).unwrap();
    tokio::time::timeout(LIMIT, second_ended).await.unwrap();
    world.node.stop().await;
}

#[tokio::test]
async fn a_container_ends_with_its_pod_in_the_source() {
    let world = World::start().await;
    let (uid, app) = (world.uid(), world.run().await);
    let mut ended = Box::pin(world.node.container_ended(POD, &uid, &app));
    assert!(!has_returned(&mut ended).await);
    std::fs::remove_file(world.manifest()).unwrap();
    tokio::time::timeout(LIMIT, ended).await.unwrap();
    assert!(world.node.live_container(&uid, &app).unwrap().is_some(), "the runtime has it yet");
    world.node.stop().await;
}

#[tokio::test]
async fn a_container_whose_pod_comes_after_it_ends_when_the_pod_has_gone_again() {
    let world = World::start().await;
    let (uid, app, web) = (world.uid(), world.run().await, std::fs::read_to_string(world.manifest()).unwrap());
    let is_known = async |name: &str, expected: bool| {
        poll_until(LIMIT, async || (world.node.get_pod("shop", name).is_ok() == expected).then_some(())).await.unwrap();
    };
    std::fs::remove_file(world.manifest()).unwrap();
    is_known("web", false).await;
    let mut ended = Box::pin(world.node.container_ended(POD, &uid, &app));
    assert!(!has_returned(&mut ended).await);
    let other = web.replace("\"web\"", "\"other\"").replace(UID, "another");
    std::fs::write(world.folder.path().join("manifests/other.json"), other).unwrap();
    is_known("other", true).await;
    assert!(!has_returned(&mut ended).await);
    std::fs::write(world.manifest(), web).unwrap();
    is_known("web", true).await;
    assert!(!has_returned(&mut ended).await);
    std::fs::remove_file(world.manifest()).unwrap();
    tokio::time::timeout(LIMIT, ended).await.unwrap();
    world.node.stop().await;
}

#[tokio::test]
async fn a_container_does_not_end_because_the_runtime_is_silent() {
    let world = World::start().await;
    let (uid, app) = (world.uid(), world.run().await);
    let mut ended = Box::pin(world.node.container_ended(POD, &uid, &app));
    assert!(!has_returned(&mut ended).await);
    world.cri.outage().await;
    poll_until(LIMIT, async || world.node.pod_status(&uid).unwrap().why).await.unwrap();
    assert!(!has_returned(&mut ended).await);
    assert!(world.node.live_container(&uid, &app).unwrap().is_some());
    world.cri.containers().exit_container(&app, 0).unwrap();
    world.cri.restore().await.unwrap();
    tokio::time::timeout(LIMIT, ended).await.unwrap();
    world.node.stop().await;
}

/// A child in a cgroup of this name, in the hierarchy of version 2 and in one of version 1, as far as the machine has them.
struct InCgroup {
    child: Child,
    folders: Vec<PathBuf>,
}

impl InCgroup {
    fn new(name: &str) -> Self {
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"].map(PathBuf::from);
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut folders = Vec::new();
        for root in roots.into_iter().filter(|root| root.join("cgroup.procs").exists()) {
            // Another run of the tests has containers of the same IDs.
            let folder = root.join(format!("larder-test-{}", child.id())).join(name);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("cgroup.procs"), child.id().to_string()).unwrap();
            folders.push(folder);
        }
        assert!(!folders.is_empty(), "no hierarchy of cgroups is mounted below /sys/fs/cgroup");
        Self { child, folders }
    }

    fn process(&self) -> Process {
        Process::open(self.child.id()).unwrap()
    }

    fn end(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

impl Drop for InCgroup {
    fn drop(&mut self) {
        self.end();
        for folder in &self.folders {
            std::fs::remove_dir(folder).unwrap();
            std::fs::remove_dir(folder.parent().unwrap()).unwrap();
        }
    }
}

#[tokio::test]
async fn a_process_is_its_containers_once_the_runtime_tells_and_the_hosts_without_it() {
    let world = World::start().await;
    let own = Process::open(std::process::id()).unwrap();
    let id = world.cri.containers().create_container(&world.sandbox, "app", "a:1").unwrap();
    let child = InCgroup::new(&id);
    let process = child.process();
    let wait = world.node.whois_process(&process, LIMIT);
    world.cri.containers().start_container(&id).unwrap();
    let Whois::Pod(found) = wait.await.unwrap() else { panic!("the host's") };
    assert_eq!((found.id.as_str(), found.container.unwrap().name.as_str()), (id.as_str(), "app"));
    assert_eq!(found.pod.unwrap().name(), "web");

    world.cri.outage().await;
    assert!(matches!(world.node.whois_process(&own, Duration::ZERO).await, Ok(Whois::Host)));
    assert!(matches!(world.node.whois_process(&process, Duration::ZERO).await, Ok(Whois::Pod(_))));
    drop(child);
    let ended = world.node.whois_process(&process, Duration::ZERO).await;
    assert!(matches!(ended, Err(WhoisError::Process(ProcessError::Ended { .. }))), "{ended:?}");
    world.node.stop().await;
}

#[tokio::test]
async fn a_process_that_ends_while_its_container_is_waited_for_is_refused() {
    let world = World::start().await;
    let mut child = InCgroup::new(&"e".repeat(64));
    let process = child.process();
    let mut wait = Box::pin(world.node.whois_process(&process, Duration::from_millis(200)));
    let first = std::future::poll_fn(|context| Poll::Ready(wait.as_mut().poll(context))).await;
    assert!(first.is_pending());
    child.end();
    let ended = wait.await;
    assert!(matches!(ended, Err(WhoisError::Process(ProcessError::Ended { .. }))), "{ended:?}");
    world.node.stop().await;
}
