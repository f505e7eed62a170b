//! A runtime that does as it is told, and a PLEG on it.

use crate::{
    ContainerId, ContainerState, ContainerStatus, Delivery, EventKind, EventReceiver, KnownPod, Pleg, PlegOptions,
    PodStatus, Runtime, RuntimeCall, RuntimeContainer, RuntimeError, RuntimePod, SandboxState, SandboxStatus,
};
use larder_clock::{Clock, Timestamp};
use larder_pod_status::{Options, PodStatusReader, PodUid, pod_status_cache};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Called {
    Pods,
    Pod(PodUid),
    Status(PodUid),
    Container(String),
}

type Hook = Box<dyn Fn(&Called) + Send>;
type Latency = Box<dyn Fn(&Called) -> Duration + Send>;

#[derive(Default)]
struct State {
    pods: Vec<RuntimePod>,
    ips: HashMap<PodUid, Vec<String>>,
    /// What a container's own status says where that is not what the lists say.
    contradicted: HashMap<String, ContainerState>,
    failing: HashSet<Option<PodUid>>,
    hanging: HashSet<Option<PodUid>>,
    called: Vec<Called>,
    inspecting: usize,
    most_inspecting: usize,
    hook: Option<Hook>,
    latency: Option<Latency>,
}

#[derive(Default)]
pub(super) struct FakeRuntime {
    state: Mutex<State>,
    changed: Notify,
}

pub(super) fn failure() -> RuntimeError {
    RuntimeError::Failed { call: RuntimeCall::new("test").into(), code: "Internal", reason: "told to".into() }
}

impl FakeRuntime {
    pub(super) fn set(&self, pods: Vec<RuntimePod>) {
        self.state.lock().pods = pods;
    }

    pub(super) fn pods_now(&self) -> Vec<RuntimePod> {
        self.state.lock().pods.clone()
    }

    /// The addresses of the pod.
    pub(super) fn set_ips(&self, uid: &str, ips: &[&str]) {
        self.state.lock().ips.insert(uid.into(), ips.iter().map(ToString::to_string).collect());
    }

    /// Has the status of a container, asked for on its own, say something else than the lists.
    pub(super) fn contradict(&self, container: &str, state: ContainerState) {
        self.state.lock().contradicted.insert(container.into(), state);
    }

    /// Whether inspections of the pod fail; without a pod, whether lists do.
    pub(super) fn fail(&self, uid: Option<&str>, yes: bool) {
        toggle(&mut self.state.lock().failing, uid, yes);
    }

    /// Whether inspections of the pod hang until told otherwise; without a pod, whether lists do.
    pub(super) fn hang(&self, uid: Option<&str>, yes: bool) {
        toggle(&mut self.state.lock().hanging, uid, yes);
        self.changed.notify_waiters();
    }

    /// Has `hook` called at the beginning of each call.
    pub(super) fn on_call(&self, hook: impl Fn(&Called) + Send + 'static) {
        self.state.lock().hook = Some(Box::new(hook));
    }

    /// Has each call take so long.
    pub(super) fn set_latency(&self, latency: impl Fn(&Called) -> Duration + Send + 'static) {
        self.state.lock().latency = Some(Box::new(latency));
    }

    /// The calls since this was last asked.
    pub(super) fn take_called(&self) -> Vec<Called> {
        std::mem::take(&mut self.state.lock().called)
    }

    /// How many inspections are open.
    pub(super) fn inspecting(&self) -> usize {
        self.state.lock().inspecting
    }

    /// How many inspections were open at most at the same time.
    pub(super) fn most_inspecting(&self) -> usize {
        self.state.lock().most_inspecting
    }

    /// What an inspection of the pod gives, as the runtime is now.
    pub(super) fn truth(&self, uid: &PodUid) -> Option<PodStatus> {
        let state = self.state.lock();
        let pod = state.pods.iter().find(|pod| pod.uid == *uid)?;
        Some(status_of(pod, state.ips.get(uid).cloned().unwrap_or_default()))
    }

    async fn begin(&self, call: Called, uid: Option<&PodUid>) -> Result<(), RuntimeError> {
        let latency = {
            let mut state = self.state.lock();
            if let Some(hook) = &state.hook {
                hook(&call);
            }
            let latency = state.latency.as_ref().map(|latency| latency(&call));
            state.called.push(call);
            latency
        };
        // A point where a test can cut the relist short.
        tokio::task::yield_now().await;
        if let Some(latency) = latency {
            tokio::time::sleep(latency).await;
        }
        loop {
            let changed = self.changed.notified();
            if !self.state.lock().hanging.contains(&uid.cloned()) {
                break;
            }
            changed.await;
        }
        if self.state.lock().failing.contains(&uid.cloned()) { Err(failure()) } else { Ok(()) }
    }
}

fn toggle(set: &mut HashSet<Option<PodUid>>, uid: Option<&str>, yes: bool) {
    let uid = uid.map(PodUid::from);
    if yes {
        set.insert(uid);
    } else {
        set.remove(&uid);
    }
}

fn status_of(pod: &RuntimePod, ips: Vec<String>) -> PodStatus {
    let state = |state| match state {
        ContainerState::Running => SandboxState::Ready,
        ContainerState::Exited => SandboxState::NotReady,
        _ => SandboxState::Unknown,
    };
    let mut status = PodStatus::new(pod.uid.clone(), pod.namespace.clone(), pod.name.clone());
    status.ips = ips;
    status.sandboxes = pod
        .sandboxes
        .iter()
        .map(|sandbox| SandboxStatus {
            id: sandbox.id.clone(),
            state: state(sandbox.state),
            ..SandboxStatus::default()
        })
        .collect();
    status.containers = pod
        .containers
        .iter()
        .map(|container| ContainerStatus {
            id: ContainerId::new("fake", container.id.clone()),
            name: container.name.clone(),
            state: container.state,
            exit_code: if container.state == ContainerState::Exited { 3 } else { 0 },
            ..ContainerStatus::default()
        })
        .collect();
    status
}

impl Runtime for FakeRuntime {
    async fn pods(&self) -> Result<Vec<RuntimePod>, RuntimeError> {
        self.begin(Called::Pods, None).await?;
        Ok(self.pods_now())
    }

    async fn pod(&self, uid: &PodUid) -> Result<Option<RuntimePod>, RuntimeError> {
        self.begin(Called::Pod(uid.clone()), None).await?;
        Ok(self.pods_now().into_iter().find(|pod| pod.uid == *uid))
    }

    async fn pod_status(&self, pod: &RuntimePod, _: Option<KnownPod<'_>>) -> Result<PodStatus, RuntimeError> {
        struct Inspecting<'a>(&'a FakeRuntime);
        impl Drop for Inspecting<'_> {
            fn drop(&mut self) {
                self.0.state.lock().inspecting -= 1;
            }
        }
        {
            let mut state = self.state.lock();
            state.inspecting += 1;
            state.most_inspecting = state.most_inspecting.max(state.inspecting);
        }
        let _inspecting = Inspecting(self);
        self.begin(Called::Status(pod.uid.clone()), Some(&pod.uid)).await?;
        let ips = self.state.lock().ips.get(&pod.uid).cloned().unwrap_or_default();
        Ok(status_of(pod, ips))
    }

    async fn container_status(
        &self,
        pod: &RuntimePod,
        container: &RuntimeContainer,
    ) -> Result<Option<ContainerStatus>, RuntimeError> {
        // Answers whatever the inspections of its pod do.
        self.begin(Called::Container(container.id.clone()), Some(&container.id.as_str().into())).await?;
        let contradicted = self.state.lock().contradicted.get(&container.id).copied();
        let status = self
            .truth(&pod.uid)
            .and_then(|status| status.containers.into_iter().find(|status| status.id.id == container.id));
        Ok(status.map(|status| ContainerStatus { state: contradicted.unwrap_or(status.state), ..status }))
    }
}

pub(super) fn container(id: &str, state: ContainerState) -> RuntimeContainer {
    RuntimeContainer { id: id.into(), name: format!("name-{id}"), state, ..RuntimeContainer::default() }
}

pub(super) fn pod(uid: &str, containers: &[(&str, ContainerState)]) -> RuntimePod {
    let mut pod = RuntimePod::new(uid.into(), "ns", format!("name-{uid}"));
    pod.containers = containers.iter().map(|&(id, state)| container(id, state)).collect();
    pod
}

pub(super) fn pod_of_sandboxes(uid: &str, sandboxes: &[(&str, ContainerState)]) -> RuntimePod {
    let mut pod = pod(uid, sandboxes);
    std::mem::swap(&mut pod.containers, &mut pod.sandboxes);
    pod
}

/// A PLEG on a fake runtime, its cache, and one subscriber.
pub(super) struct Bench<C> {
    pub(super) runtime: Arc<FakeRuntime>,
    pub(super) pleg: Arc<Pleg<FakeRuntime, C>>,
    pub(super) cache: PodStatusReader<PodStatus, RuntimeError>,
    pub(super) events: EventReceiver,
}

impl<C: Clock> Bench<C> {
    pub(super) fn new(clock: C, options: PlegOptions) -> Self {
        Self::with_cache(clock, options, Options::default())
    }

    pub(super) fn with_cache(clock: C, options: PlegOptions, cache: Options) -> Self {
        let runtime = Arc::new(FakeRuntime::default());
        let (writer, cache) = pod_status_cache(cache);
        let pleg = Arc::new(Pleg::new(Arc::clone(&runtime), clock, writer, options).unwrap());
        let events = pleg.subscribe();
        Self { runtime, pleg, cache, events }
    }

    /// The events since this was last asked, sorted: pod, container, kind.
    pub(super) fn take_events(&mut self) -> Vec<(String, String, EventKind)> {
        let mut events = Vec::new();
        while let Some(delivery) = self.events.try_recv() {
            let Delivery::Event(event) = delivery else { panic!("{delivery:?}") };
            events.push((event.uid.to_string(), event.container_id.clone().unwrap_or_default(), event.kind));
        }
        events.sort();
        events
    }
}

pub(super) fn events(expected: &[(&str, &str, EventKind)]) -> Vec<(String, String, EventKind)> {
    let mut events: Vec<_> =
        expected.iter().map(|&(uid, container, kind)| (uid.to_owned(), container.to_owned(), kind)).collect();
    events.sort();
    events
}

pub(super) fn at(nanos: i128) -> Timestamp {
    Timestamp::from_nanos(nanos)
}
