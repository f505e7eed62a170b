//! What a kubelet beside larder says of its pods' containers is what larder says of them, whatever happens to them.
//!
//! A kubelet runs pods on the same containerd, and its Pods API (KEP-4188) is the reference. Pods start, containers exit, are
//! killed and restarted, sandboxes are removed behind the kubelet's back, pods are deleted, and containerd is killed: so many
//! of each, in an order that a seed gives. After every few of them, both are looked at until they agree on every container.

use crate::cluster::Cluster;
use crate::daemon::Daemon;
use k8s_openapi::api::core::v1::Pod;
use k8s_pb::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus};
use k8s_pb::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::DeleteParams;
use larder_testbed::poll::until;
use larder_testbed::process::{ProcessId, Signal};
use larder_testbed::{Options, Testbed, image, pods_api};
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

/// How long larder and the kubelet may take to agree. The kubelet syncs a pod that failed again after ten seconds.
const LIMIT: Duration = Duration::from_mins(2);
/// How many things happen before the two are compared.
const AT_ONCE: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    /// A pod is created.
    Start,
    /// A container exits, with a code of its own.
    Exit,
    /// A container's process is killed.
    Kill,
    /// The runtime is asked to stop a container, behind the kubelet's back.
    Stop,
    /// A sandbox is stopped and removed, behind the kubelet's back; of a pod that is restarted always. In others the kubelet
    /// starts containers anew that have ended, but its status manager takes that for an error, and its API stays as it was.
    RemoveSandbox,
    /// A pod is deleted.
    Delete,
    /// containerd is killed, and started again.
    RestartRuntime,
}

/// How often each happens: 200 in all.
const ACTIONS: [(Action, usize); 7] = [
    (Action::Start, 40),
    (Action::Exit, 70),
    (Action::Kill, 25),
    (Action::Stop, 15),
    (Action::RemoveSandbox, 20),
    (Action::Delete, 20),
    (Action::RestartRuntime, 10),
];

/// A container that the kubelet says is running.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Running {
    uid: String,
    pod: String,
    name: String,
    /// With the runtime's name in front.
    id: String,
}

/// What must show before the two are compared, or they would agree on what was before.
#[derive(Debug)]
enum Effect {
    /// The kubelet says of each container of the pod that it has been started.
    Started { uid: String, containers: usize },
    /// The kubelet no longer says that this one runs.
    Ended(Running),
    /// The kubelet does not have the pod any more.
    Gone { uid: String },
}

#[tokio::test]
async fn what_the_kubelet_says_of_containers_is_what_larder_says_whatever_happens_to_them() {
    let seed = std::env::var("LARDER_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"));
    println!("LARDER_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let testbed = Testbed::start(Options { kubelet: true, ..Options::default() }).await.expect("testbed");
    let bench = Bench {
        cluster: Cluster::new(&testbed).await,
        daemon: Daemon::start(&testbed).await,
        kubelet: testbed.kubelet_pods_api().expect("a kubelet"),
        testbed: &testbed,
        gone: RefCell::default(),
    };
    std::fs::create_dir_all(bench.fifos()).expect("a folder");
    until("the kubelet has its pods", LIMIT, async || pods_api::list(&bench.kubelet).await).await.expect("a kubelet");

    let mut actions: Vec<Action> = ACTIONS.iter().flat_map(|(action, times)| vec![*action; *times]).collect();
    actions.shuffle(&mut random);
    let mut compared = Seen::default();
    let mut pods = 0;
    for (round, actions) in actions.chunks(AT_ONCE).enumerate() {
        let mut effects = Vec::new();
        let mut touched = BTreeSet::new();
        for action in actions {
            let running: Vec<Running> =
                bench.running().await.into_iter().filter(|one| !touched.contains(&one.uid)).collect();
            let may_be = |one: &&Running| *action != Action::RemoveSandbox || one.pod.starts_with("always-");
            let target =
                running.iter().filter(may_be).collect::<Vec<_>>().choose(&mut random).map(|one| (*one).clone());
            let done = match (action, target) {
                (Action::RestartRuntime, _) => {
                    bench.restart_runtime().await;
                    Vec::new()
                }
                (Action::Exit, Some(target)) => {
                    bench.exit(&target, random.random_range(0..4)).await;
                    vec![Effect::Ended(target)]
                }
                (Action::Kill, Some(target)) => {
                    bench.kill(&target);
                    vec![Effect::Ended(target)]
                }
                (Action::Stop, Some(target)) => {
                    bench.testbed.pods().stop_container(bare(&target.id), Duration::ZERO).await.expect("stopped");
                    vec![Effect::Ended(target)]
                }
                (Action::RemoveSandbox, Some(target)) => {
                    bench.remove_sandbox(&target).await;
                    running.iter().filter(|one| one.uid == target.uid).cloned().map(Effect::Ended).collect()
                }
                (Action::Delete, Some(target)) => {
                    let pods: Api<Pod> = bench.cluster.api();
                    pods.delete(&target.pod, &DeleteParams::default().grace_period(0)).await.expect("deleted");
                    vec![Effect::Gone { uid: target.uid }]
                }
                // Where nothing runs, something is started.
                (Action::Start, _) | (_, None) => {
                    pods += 1;
                    vec![bench.start(pods, &mut random).await]
                }
            };
            for effect in &done {
                touched.insert(match effect {
                    Effect::Started { uid, .. } | Effect::Gone { uid } => uid.clone(),
                    Effect::Ended(running) => running.uid.clone(),
                });
            }
            effects.extend(done);
        }
        let mut last = String::new();
        let agreed = until("larder and the kubelet agree", LIMIT, async || {
            let outcome = bench.compare(&effects).await;
            if let Err(reason) = &outcome {
                last.clone_from(reason);
            }
            outcome
        });
        compared +=
            agreed.await.unwrap_or_else(|_| panic!("seed {seed}, round {round}, {actions:?}, {effects:?}: {last}"));
    }
    println!("{pods} pods; compared after every {AT_ONCE} of {} things: {compared:?}", actions.len());
    assert!(compared.running > 0 && compared.ended > 0 && compared.last > 0 && compared.restarts > 0, "{compared:?}");
}

/// What has been compared.
#[derive(Debug, Default)]
struct Seen {
    /// Containers that run.
    running: usize,
    /// Containers that have ended.
    ended: usize,
    /// Ends of earlier lives.
    last: usize,
    /// Ends that the kubelet remembers of containers that the runtime has no more.
    remembered: usize,
    /// The sum of restart counts.
    restarts: usize,
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, more: Self) {
        self.running += more.running;
        self.ended += more.ended;
        self.last += more.last;
        self.remembered += more.remembered;
        self.restarts += more.restarts;
    }
}

struct Bench<'a> {
    cluster: Cluster,
    daemon: Daemon,
    kubelet: PathBuf,
    testbed: &'a Testbed,
    /// Containers that the runtime was seen to have no more.
    gone: RefCell<BTreeSet<String>>,
}

impl Bench<'_> {
    fn fifos(&self) -> PathBuf {
        self.testbed.folder().join("fifos")
    }

    fn fifo(&self, pod: &str, container: &str) -> PathBuf {
        self.fifos().join(format!("{pod}-{container}"))
    }

    async fn start(&self, number: usize, random: &mut Xoshiro256PlusPlus) -> Effect {
        let policy = ["Always", "Always", "OnFailure", "Never"].choose(random).expect("one of them");
        let pod = format!("{}-{number}", policy.to_lowercase());
        let containers: Vec<Value> = (0..random.random_range(1..=2))
            .map(|n| {
                let name = format!("c{n}");
                let fifo = self.fifo(&pod, &name);
                rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).expect("a FIFO");
                json!({
                    "name": name,
                    "image": image::BUSYBOX,
                    "imagePullPolicy": "Never",
                    "command": ["sh", "-c", format!("read code < /fifos/{pod}-{name}; exit $code")],
                    "volumeMounts": [{ "name": "fifos", "mountPath": "/fifos" }],
                })
            })
            .collect();
        let count = containers.len();
        let created = self.cluster.create_pod(
            &pod,
            json!({
                "restartPolicy": policy,
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "tolerations": [{ "operator": "Exists" }],
                "containers": containers,
                "volumes": [{ "name": "fifos", "hostPath": { "path": self.fifos() } }],
            }),
        );
        Effect::Started { uid: created.await.metadata.uid.expect("a UID"), containers: count }
    }

    /// Tells a container to exit.
    async fn exit(&self, target: &Running, code: u8) {
        let fifo = self.fifo(&target.pod, &target.name);
        until("the container reads", LIMIT, async || {
            // Opening it fails while nobody reads, rather than wait for that.
            let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            let mut fifo = std::fs::OpenOptions::new().write(true).custom_flags(flags).open(&fifo)?;
            writeln!(fifo, "{code}")
        })
        .await
        .unwrap_or_else(|error| panic!("{target:?}: {error:#}"));
    }

    fn kill(&self, target: &Running) {
        // The kubelet may be late to say that it has ended by itself.
        let inspected = self.testbed.crictl(&["inspect", "-o", "json", bare(&target.id)]).unwrap_or_default();
        let pid = inspected["info"]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        if let Some(process) = pid.filter(|pid| *pid > 0).and_then(ProcessId::of) {
            process.signal(Signal::KILL);
        }
    }

    async fn remove_sandbox(&self, target: &Running) {
        let inspected = self.testbed.crictl(&["inspect", "-o", "json", bare(&target.id)]).expect("crictl");
        let sandbox = inspected["info"]["sandboxID"].as_str().expect("a sandbox");
        // The kubelet may be starting a container in it at the same time, which the runtime does not remove.
        until("the sandbox is removed", LIMIT, async || self.testbed.pods().remove(sandbox).await)
            .await
            .expect("removed");
    }

    async fn restart_runtime(&self) {
        self.testbed.containerd().kill().expect("killed");
        self.testbed.containerd().start().expect("started");
        self.testbed.wait_for_runtime().await.expect("containerd");
    }

    /// The containers that the kubelet says are running.
    async fn running(&self) -> Vec<Running> {
        let mut all = Vec::new();
        for pod in pods_api::list(&self.kubelet).await.expect("the kubelet's pods") {
            let name = pod.metadata.as_ref().map_or("", |metadata| metadata.name());
            for status in statuses(&pod) {
                if state(status.state.as_ref()).is_running {
                    all.push(Running {
                        uid: pods_api::uid(&pod).to_owned(),
                        pod: name.to_owned(),
                        name: status.name().to_owned(),
                        id: status.container_id().to_owned(),
                    });
                }
            }
        }
        all.sort();
        all
    }

    /// Fails, with the reason, while something has not shown yet or the two differ.
    async fn compare(&self, effects: &[Effect]) -> Result<Seen, String> {
        let pods = pods_api::list(&self.kubelet).await.map_err(|error| format!("{error:#}"))?;
        let by_uid: BTreeMap<&str, &pods_api::Pod> = pods.iter().map(|pod| (pods_api::uid(pod), pod)).collect();
        for effect in effects {
            has_shown(effect, &by_uid)?;
        }
        let mut seen = Seen::default();
        for (uid, pod) in by_uid {
            let now = jiff::Timestamp::now();
            let answer = self.daemon.get(&format!("/larder/v1/pods/{uid}/status?newerThan={now}&timeout=10s")).await;
            if answer.status != 200 {
                return Err(format!("larder answers {answer:?} for {uid}"));
            }
            for status in statuses(pod) {
                self.compare_container(status, &answer.body, &mut seen)
                    .map_err(|reason| format!("{reason}\nthe kubelet says {status:?}\nlarder says {}", answer.body))?;
            }
        }
        Ok(seen)
    }

    fn compare_container(&self, status: &ContainerStatus, pod: &Value, seen: &mut Seen) -> Result<(), String> {
        let (now, before) = (state(status.state.as_ref()), state(status.last_state.as_ref()));
        let of_name = || containers(pod).filter(|container| container["name"] == status.name());
        if now.is_running {
            // Newest first.
            let newest = of_name().next().ok_or("larder knows no such container")?;
            equal("id", &newest["id"], status.container_id())?;
            equal("state", &newest["state"], "running")?;
            equal("restart count", &newest["restartCount"], status.restart_count())?;
            equal("image", &newest["imageRef"], status.image_id())?;
            equal("started", &seconds(&newest["startedAt"]), now.started)?;
            seen.running += 1;
            seen.restarts += usize::try_from(status.restart_count()).unwrap_or(0);
        }
        if let Some(ended) = now.ended {
            let newest = of_name().next();
            if let Some(newest) = newest.filter(|newest| newest["id"] == status.container_id()) {
                equal("restart count", &newest["restartCount"], status.restart_count())?;
                equal("image", &newest["imageRef"], status.image_id())?;
                compare_end(ended, newest)?;
                seen.ended += 1;
            } else if newest.is_some() {
                return Err("larder has another as the newest".into());
            } else {
                self.is_remembered(ended)?;
                seen.remembered += 1;
            }
        }
        if let Some(ended) = before.ended {
            if let Some(found) = of_name().find(|container| container["id"] == ended.container_id()) {
                compare_end(ended, found)?;
                seen.last += 1;
            } else {
                self.is_remembered(ended)?;
                seen.remembered += 1;
            }
        }
        Ok(())
    }

    /// Whether the runtime, too, has no such container any more: the kubelet alone remembers it.
    fn is_remembered(&self, ended: &ContainerStateTerminated) -> Result<(), String> {
        let id = bare(ended.container_id());
        // One whose end the kubelet did not see has no ID.
        if id.is_empty() || self.gone.borrow().contains(id) {
            return Ok(());
        }
        match self.testbed.crictl(&["ps", "-a", "--no-trunc", "--id", id, "-o", "json"]) {
            Ok(listed) if listed["containers"].as_array().is_none_or(Vec::is_empty) => {
                self.gone.borrow_mut().insert(id.to_owned());
                Ok(())
            }
            Ok(_) => Err(format!("larder does not know {id}, which the runtime has")),
            Err(error) => Err(format!("{error:#}")),
        }
    }
}

fn has_shown(effect: &Effect, pods: &BTreeMap<&str, &pods_api::Pod>) -> Result<(), String> {
    let shown = match effect {
        Effect::Started { uid, containers } => pods.get(uid.as_str()).is_some_and(|pod| {
            let started = |status: &&ContainerStatus| !status.container_id().is_empty();
            statuses(pod).filter(started).count() == *containers
        }),
        Effect::Gone { uid } => !pods.contains_key(uid.as_str()),
        Effect::Ended(one) => pods.get(one.uid.as_str()).is_none_or(|pod| {
            statuses(pod)
                .filter(|status| status.name() == one.name)
                .all(|status| status.container_id() != one.id || !state(status.state.as_ref()).is_running)
        }),
    };
    if shown { Ok(()) } else { Err(format!("the kubelet has not seen it yet: {effect:?}, {pods:?}")) }
}

fn compare_end(ended: &ContainerStateTerminated, container: &Value) -> Result<(), String> {
    equal("state", &container["state"], "exited")?;
    equal("id", &container["id"], ended.container_id())?;
    equal("exit code", &container["exitCode"], ended.exit_code())?;
    equal("reason", &container["reason"], ended.reason())?;
    equal("started", &seconds(&container["startedAt"]), time(ended.started_at.as_ref()))?;
    equal("finished", &seconds(&container["finishedAt"]), time(ended.finished_at.as_ref()))
}

fn equal(what: &str, larder: &Value, kubelet: impl Into<Value>) -> Result<(), String> {
    let kubelet = kubelet.into();
    if *larder == kubelet { Ok(()) } else { Err(format!("{what}: larder {larder}, kubelet {kubelet}")) }
}

/// What a state in the Kubernetes API says.
#[derive(Default)]
struct State<'a> {
    is_running: bool,
    started: Option<i64>,
    ended: Option<&'a ContainerStateTerminated>,
}

fn state(state: Option<&ContainerState>) -> State<'_> {
    let Some(state) = state else { return State::default() };
    let running = state.running.as_ref();
    State {
        is_running: running.is_some(),
        started: running.and_then(|running| time(running.started_at.as_ref())),
        ended: state.terminated.as_ref(),
    }
}

fn statuses(pod: &pods_api::Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| &status.container_statuses)
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    pod["status"]["containers"].as_array().into_iter().flatten()
}

/// Whole seconds since the Unix epoch; none where it is not set, which the kubelet gives as 1970.
fn time(time: Option<&Time>) -> Option<i64> {
    time.map(Time::seconds).filter(|seconds| *seconds != 0)
}

fn seconds(time: &Value) -> Value {
    let parsed = time.as_str().map(|text| text.parse::<jiff::Timestamp>().expect("RFC 3339").as_second());
    json!(parsed)
}

/// A container's ID without the runtime's name in front.
fn bare(id: &str) -> &str {
    id.split_once("://").map_or(id, |(_, id)| id)
}
