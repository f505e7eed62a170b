//! What runs in the simulated runtime: sandboxes and containers, changed from Rust as a kubelet would through CRI.
//!
//! # Guarantees
//!
//! - A change is in every later answer of the runtime as soon as the call that made it has returned, and its event has
//!   been given to every subscriber.
//!
//! # Limits
//!
//! Nothing runs: a container starts, exits and is removed when it is told to. The state of a sandbox does not follow its
//! containers, nor theirs the sandbox, but that [`stop_sandbox`](Containers::stop_sandbox) ends those that run.
//!
//! # Locks
//!
//! One mutex, held for no longer than a call and never over an `.await`. The closures given to
//! [`edit_sandbox`](Containers::edit_sandbox) and [`edit_container`](Containers::edit_container) run under it.
//!
//! # Example
//!
//! ```
//! use larder_testkit::cri_runtime::{Containers, SandboxSpec};
//!
//! let containers = Containers::new();
//! let sandbox = containers.run_sandbox(&SandboxSpec::new("shop", "web-0", "6f1b…"));
//! let web = containers.create_container(&sandbox, "web", "shop/web:2")?;
//! containers.start_container(&web)?;
//! containers.exit_container(&web, 3)?;
//! // As a kubelet restarts it: another container of the same name, with the next attempt.
//! let again = containers.create_container(&sandbox, "web", "shop/web:2")?;
//! assert_ne!(again, web);
//! # Ok::<(), larder_testkit::cri_runtime::ContainersError>(())
//! ```

use super::events::{Events, Kind};
use larder_clock::{Clock, TokioClock};
use larder_cri::proto::{
    Container, ContainerMetadata, ContainerState, ContainerStatus, ImageSpec, PodIp, PodSandbox, PodSandboxMetadata,
    PodSandboxNetworkStatus, PodSandboxState, PodSandboxStatus,
};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::watch;

/// Why a sandbox or container could not be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContainersError {
    /// There is no sandbox of that ID.
    #[error("there is no sandbox {id:?}")]
    NoSandbox {
        /// The ID that was asked for.
        id: String,
    },
    /// There is no container of that ID.
    #[error("there is no container {id:?}")]
    NoContainer {
        /// The ID that was asked for.
        id: String,
    },
}

/// What a sandbox is made from.
///
/// ```
/// use larder_testkit::cri_runtime::SandboxSpec;
/// let spec = SandboxSpec::new("shop", "web-0", "uid").attempt(1).ips(&["10.1.2.3", "fd00::3"]);
/// # let _ = spec;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSpec {
    namespace: String,
    name: String,
    uid: String,
    attempt: u32,
    ips: Option<Vec<String>>,
    labels: HashMap<String, String>,
    annotations: HashMap<String, String>,
}

impl SandboxSpec {
    /// The first sandbox of a pod, with an IP of its own.
    pub fn new(namespace: &str, name: &str, uid: &str) -> Self {
        let (namespace, name, uid) = (namespace.to_owned(), name.to_owned(), uid.to_owned());
        Self { namespace, name, uid, attempt: 0, ips: None, labels: HashMap::new(), annotations: HashMap::new() }
    }

    /// How many sandboxes the pod had before.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Its IPs; none for a pod on the host's network.
    #[must_use]
    pub fn ips(mut self, ips: &[&str]) -> Self {
        self.ips = Some(ips.iter().map(|ip| (*ip).to_owned()).collect());
        self
    }

    /// A label, besides those that a kubelet sets.
    #[must_use]
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.to_owned(), value.to_owned());
        self
    }

    /// An annotation. `kubernetes.io/config.source` is `api` unless it is given.
    #[must_use]
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.annotations.insert(name.to_owned(), value.to_owned());
        self
    }
}

/// The sandboxes and containers of a simulated runtime; clones share them.
///
/// A change is in every later answer of the runtime as soon as the call that made it has returned, and its event has been
/// given to every subscriber. Nothing runs: a container starts, exits and is removed when it is told to.
#[derive(Clone)]
pub struct Containers {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// Counts the changes, for whoever acts on them without asking over CRI.
    changes: watch::Sender<u64>,
    events: Events,
    clock: TokioClock,
}

struct State {
    sandboxes: BTreeMap<String, PodSandboxStatus>,
    containers: BTreeMap<String, Held>,
    rng: StdRng,
    /// Counts the sandboxes, for their IPs.
    made: u32,
}

struct Held {
    sandbox: String,
    status: ContainerStatus,
}

impl Default for Containers {
    fn default() -> Self {
        Self::new()
    }
}

impl Containers {
    /// None at all.
    pub fn new() -> Self {
        Self::with_seed(0)
    }

    /// None at all, and IDs drawn from a seed.
    pub fn with_seed(seed: u64) -> Self {
        let state = State {
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            rng: StdRng::seed_from_u64(seed),
            made: 0,
        };
        let inner = Inner {
            state: Mutex::new(state),
            changes: watch::channel(0).0,
            events: Events::new(),
            clock: TokioClock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Makes a sandbox that is ready, with the labels of a kubelet; its ID.
    pub fn run_sandbox(&self, spec: &SandboxSpec) -> String {
        let mut state = self.inner.state.lock();
        let id = state.new_id();
        state.made += 1;
        let own = [format!("10.88.{}.{}", (state.made >> 8) & 0xff, state.made & 0xff)];
        let mut ips = spec.ips.as_deref().unwrap_or(&own).iter().cloned();
        let mut labels = spec.labels.clone();
        for (label, value) in [
            ("io.kubernetes.pod.namespace", &spec.namespace),
            ("io.kubernetes.pod.name", &spec.name),
            ("io.kubernetes.pod.uid", &spec.uid),
        ] {
            labels.insert(label.to_owned(), value.clone());
        }
        let mut annotations = spec.annotations.clone();
        annotations.entry("kubernetes.io/config.source".into()).or_insert_with(|| "api".into());
        let network = PodSandboxNetworkStatus {
            ip: ips.next().unwrap_or_default(),
            additional_ips: ips.map(|ip| PodIp { ip }).collect(),
        };
        let status = PodSandboxStatus {
            id: id.clone(),
            metadata: Some(PodSandboxMetadata {
                name: spec.name.clone(),
                uid: spec.uid.clone(),
                namespace: spec.namespace.clone(),
                attempt: spec.attempt,
            }),
            state: PodSandboxState::SandboxReady.into(),
            created_at: self.now(),
            network: Some(network),
            labels,
            annotations,
            ..PodSandboxStatus::default()
        };
        state.sandboxes.insert(id.clone(), status);
        self.announce(&state, Kind::Created, &id, &id);
        self.announce(&state, Kind::Started, &id, &id);
        id
    }

    /// Stops a sandbox: its containers that run end with exit code 137, it is not ready any more and has no IP.
    ///
    /// # Errors
    ///
    /// There is no such sandbox.
    pub fn stop_sandbox(&self, id: &str) -> Result<(), ContainersError> {
        let mut state = self.inner.state.lock();
        state.sandbox(id)?;
        let running = ContainerState::ContainerRunning as i32;
        let theirs = state.containers.iter().filter(|(_, held)| held.sandbox == id && held.status.state == running);
        let theirs: Vec<String> = theirs.map(|(id, _)| id.clone()).collect();
        for container in theirs {
            self.exit(&mut state, &container, 137, "Error", "")?;
        }
        let sandbox = state.sandbox(id)?;
        sandbox.state = PodSandboxState::SandboxNotready.into();
        sandbox.network = Some(PodSandboxNetworkStatus::default());
        self.announce(&state, Kind::Stopped, id, id);
        Ok(())
    }

    /// Removes a sandbox with all its containers.
    ///
    /// # Errors
    ///
    /// There is no such sandbox.
    pub fn remove_sandbox(&self, id: &str) -> Result<(), ContainersError> {
        let mut state = self.inner.state.lock();
        state.sandbox(id)?;
        let theirs: Vec<String> =
            state.containers.iter().filter(|(_, held)| held.sandbox == id).map(|(id, _)| id.clone()).collect();
        for container in theirs {
            state.containers.remove(&container);
            self.announce(&state, Kind::Deleted, &container, id);
        }
        state.sandboxes.remove(id);
        self.announce(&state, Kind::Deleted, id, id);
        Ok(())
    }

    /// Makes a container that is not started yet; its attempt is one more than that of the last of its name in the pod.
    /// Gives its ID.
    ///
    /// # Errors
    ///
    /// There is no such sandbox.
    pub fn create_container(&self, sandbox: &str, name: &str, image: &str) -> Result<String, ContainersError> {
        let mut state = self.inner.state.lock();
        let of = state.sandbox(sandbox)?.clone();
        let uid = of.metadata.as_ref().map(|metadata| metadata.uid.clone());
        let attempts = state.containers.values().filter(|held| {
            let theirs = state.sandboxes.get(&held.sandbox).and_then(|s| s.metadata.as_ref()).map(|m| m.uid.clone());
            theirs == uid && held.status.metadata.as_ref().is_some_and(|metadata| metadata.name == name)
        });
        let attempt =
            attempts.filter_map(|held| held.status.metadata.as_ref()).map(|m| m.attempt + 1).max().unwrap_or(0);
        let id = state.new_id();
        let mut labels: HashMap<_, _> = of
            .labels
            .iter()
            .filter(|(label, _)| label.starts_with("io.kubernetes.pod."))
            .map(|(label, value)| (label.clone(), value.clone()))
            .collect();
        labels.insert("io.kubernetes.container.name".into(), name.to_owned());
        let annotations = [
            ("io.kubernetes.container.hash", format!("{:x}", digest(&[name, image]) & 0xffff_ffff)),
            ("io.kubernetes.container.restartCount", attempt.to_string()),
            ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log".to_owned()),
            ("io.kubernetes.container.terminationMessagePolicy", "File".to_owned()),
            ("io.kubernetes.pod.terminationGracePeriod", "30".to_owned()),
        ];
        let repository = image.rsplit_once(':').map_or(image, |(repository, _)| repository);
        let status = ContainerStatus {
            id: id.clone(),
            metadata: Some(ContainerMetadata { name: name.to_owned(), attempt }),
            state: ContainerState::ContainerCreated.into(),
            created_at: self.now(),
            image: Some(ImageSpec {
                image: image.to_owned(),
                user_specified_image: image.to_owned(),
                ..ImageSpec::default()
            }),
            image_ref: format!("{repository}@{}", sha256_like(&["manifest", image])),
            image_id: sha256_like(&["config", image]),
            labels,
            annotations: annotations.map(|(name, value)| (name.to_owned(), value)).into(),
            log_path: format!("/var/log/pods/{}/{name}/{attempt}.log", uid.unwrap_or_default()),
            ..ContainerStatus::default()
        };
        state.containers.insert(id.clone(), Held { sandbox: sandbox.to_owned(), status });
        self.announce(&state, Kind::Created, &id, sandbox);
        Ok(id)
    }

    /// Starts a container.
    ///
    /// # Errors
    ///
    /// There is no such container.
    pub fn start_container(&self, id: &str) -> Result<(), ContainersError> {
        let mut state = self.inner.state.lock();
        let now = self.now();
        let held = state.container(id)?;
        held.status.state = ContainerState::ContainerRunning.into();
        held.status.started_at = now;
        let sandbox = held.sandbox.clone();
        self.announce(&state, Kind::Started, id, &sandbox);
        Ok(())
    }

    /// Ends a container with an exit code; the reason is `Completed` for 0, else `Error`, as containerd has it. Without
    /// effect on one that has ended.
    ///
    /// # Errors
    ///
    /// There is no such container.
    pub fn exit_container(&self, id: &str, exit_code: i32) -> Result<(), ContainersError> {
        self.exit_container_because(id, exit_code, if exit_code == 0 { "Completed" } else { "Error" }, "")
    }

    /// Ends a container with a reason and message of the caller's, as `OOMKilled`.
    ///
    /// # Errors
    ///
    /// There is no such container.
    pub fn exit_container_because(
        &self,
        id: &str,
        exit_code: i32,
        reason: &str,
        message: &str,
    ) -> Result<(), ContainersError> {
        self.exit(&mut self.inner.state.lock(), id, exit_code, reason, message)
    }

    /// Removes a container.
    ///
    /// # Errors
    ///
    /// There is no such container.
    pub fn remove_container(&self, id: &str) -> Result<(), ContainersError> {
        let mut state = self.inner.state.lock();
        let sandbox = state.container(id)?.sandbox.clone();
        state.containers.remove(id);
        self.announce(&state, Kind::Deleted, id, &sandbox);
        Ok(())
    }

    /// Changes what the runtime says of a sandbox, without an event: for lies about times, missing metadata, unknown states.
    ///
    /// # Errors
    ///
    /// There is no such sandbox.
    pub fn edit_sandbox(&self, id: &str, edit: impl FnOnce(&mut PodSandboxStatus)) -> Result<(), ContainersError> {
        edit(self.inner.state.lock().sandbox(id)?);
        Ok(())
    }

    /// Changes what the runtime says of a container, without an event.
    ///
    /// # Errors
    ///
    /// There is no such container.
    pub fn edit_container(&self, id: &str, edit: impl FnOnce(&mut ContainerStatus)) -> Result<(), ContainersError> {
        edit(&mut self.inner.state.lock().container(id)?.status);
        Ok(())
    }

    /// What the runtime says of a sandbox.
    pub fn sandbox(&self, id: &str) -> Option<PodSandboxStatus> {
        self.inner.state.lock().sandboxes.get(id).cloned()
    }

    /// What the runtime says of a container.
    pub fn container(&self, id: &str) -> Option<ContainerStatus> {
        Some(self.inner.state.lock().containers.get(id)?.status.clone())
    }

    /// All sandboxes, ordered by ID.
    pub fn sandboxes(&self) -> Vec<PodSandboxStatus> {
        self.inner.state.lock().sandboxes.values().cloned().collect()
    }

    /// The containers of a sandbox, ordered by creation.
    pub fn containers_of(&self, sandbox: &str) -> Vec<ContainerStatus> {
        self.inner.state.lock().containers_of(sandbox)
    }

    /// All sandboxes, as a list has them.
    pub(crate) fn listed_sandboxes(&self) -> Vec<PodSandbox> {
        let state = self.inner.state.lock();
        let listed = state.sandboxes.values().map(|sandbox| PodSandbox {
            id: sandbox.id.clone(),
            metadata: sandbox.metadata.clone(),
            state: sandbox.state,
            created_at: sandbox.created_at,
            labels: sandbox.labels.clone(),
            annotations: sandbox.annotations.clone(),
            runtime_handler: sandbox.runtime_handler.clone(),
        });
        listed.collect()
    }

    /// All containers, as a list has them.
    pub(crate) fn listed_containers(&self) -> Vec<Container> {
        let state = self.inner.state.lock();
        let listed = state.containers.values().map(|Held { sandbox, status }| Container {
            id: status.id.clone(),
            pod_sandbox_id: sandbox.clone(),
            metadata: status.metadata.clone(),
            image: status.image.clone(),
            image_ref: status.image_ref.clone(),
            state: status.state,
            created_at: status.created_at,
            labels: status.labels.clone(),
            annotations: status.annotations.clone(),
            image_id: status.image_id.clone(),
        });
        listed.collect()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    pub(crate) fn events(&self) -> &Events {
        &self.inner.events
    }

    /// Nanoseconds since the Unix epoch, on tokio's time.
    pub(crate) fn now(&self) -> i64 {
        i64::try_from(self.inner.clock.now().as_nanos()).unwrap_or(i64::MAX)
    }

    fn exit(
        &self,
        state: &mut State,
        id: &str,
        exit_code: i32,
        reason: &str,
        message: &str,
    ) -> Result<(), ContainersError> {
        let held = state.container(id)?;
        let status = &mut held.status;
        // A container ends once: what a runtime says of its end stays.
        if status.state == i32::from(ContainerState::ContainerExited) {
            return Ok(());
        }
        status.state = ContainerState::ContainerExited.into();
        status.finished_at = self.now();
        status.exit_code = exit_code;
        reason.clone_into(&mut status.reason);
        message.clone_into(&mut status.message);
        let sandbox = held.sandbox.clone();
        self.announce(state, Kind::Stopped, id, &sandbox);
        Ok(())
    }

    /// Sends the event of a change that was just made, under the lock, so that events are in the order of the changes.
    fn announce(&self, state: &State, kind: Kind, id: &str, sandbox: &str) {
        self.inner.changes.send_modify(|changes| *changes += 1);
        self.inner
            .events
            .send(kind, id, self.now(), || (state.sandboxes.get(sandbox).cloned(), state.containers_of(sandbox)));
    }
}

impl State {
    fn sandbox(&mut self, id: &str) -> Result<&mut PodSandboxStatus, ContainersError> {
        self.sandboxes.get_mut(id).ok_or_else(|| ContainersError::NoSandbox { id: id.to_owned() })
    }

    fn container(&mut self, id: &str) -> Result<&mut Held, ContainersError> {
        self.containers.get_mut(id).ok_or_else(|| ContainersError::NoContainer { id: id.to_owned() })
    }

    fn containers_of(&self, sandbox: &str) -> Vec<ContainerStatus> {
        let theirs = self.containers.values().filter(|held| held.sandbox == sandbox);
        let mut theirs: Vec<_> = theirs.map(|held| held.status.clone()).collect();
        theirs.sort_by_key(|status| (status.created_at, status.metadata.as_ref().map_or(0, |m| m.attempt)));
        theirs
    }

    /// 64 hexadecimal digits, as containerd's.
    fn new_id(&mut self) -> String {
        format!("{:032x}{:032x}", self.rng.random::<u128>(), self.rng.random::<u128>())
    }
}

/// FNV-1a: the same on every machine and in every run.
fn digest(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What looks like the digest of something, and is the same for the same thing.
fn sha256_like(parts: &[&str]) -> String {
    let seed = digest(parts);
    let mut rng = StdRng::seed_from_u64(seed);
    format!("sha256:{:032x}{:032x}", rng.random::<u128>(), rng.random::<u128>())
}
