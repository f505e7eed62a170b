//! A kubelet's part: what the API server has of a node's pods is run in the runtime, and its state told back.

use super::behaviour::Behaviour;
use super::narration::{Happening, What};
use super::status::{self, Known};
use crate::api_server::{Kind, ObjectStore};
use crate::cri_runtime::{Containers, SandboxSpec};
use k8s_openapi::api::core::v1::Pod;
use larder_cri::proto::ContainerState;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How the simulated kubelet takes its time.
#[derive(Clone, Debug)]
pub struct KubeletOptions {
    /// The name of its node. No default that means anything: `node-1`.
    pub node: String,
    /// What all random times are drawn from. Default: 0.
    pub seed: u64,
    /// How long a sandbox, and then each container, takes to start. Default: 100 to 400 ms.
    pub start_delay: RangeInclusive<Duration>,
    /// The first pause before a container is started again; doubled each time. Default: 10 s, a kubelet's.
    pub backoff: Duration,
    /// The longest of these pauses. Default: 5 minutes, a kubelet's.
    pub backoff_max: Duration,
    /// How long the containers of a deleted pod take to stop. Default: 1 s.
    pub stop_delay: Duration,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        Self {
            node: "node-1".into(),
            seed: 0,
            start_delay: Duration::from_millis(100)..=Duration::from_millis(400),
            backoff: Duration::from_secs(10),
            backoff_max: Duration::from_mins(5),
            stop_delay: Duration::from_secs(1),
        }
    }
}

/// The simulated kubelet. [`run`](Self::run) is the whole of it.
pub(crate) struct Kubelet {
    options: KubeletOptions,
    store: ObjectStore,
    containers: Containers,
    /// Whether the API server can be reached; else pods run on as they were last known.
    reachable: watch::Receiver<bool>,
    happenings: broadcast::Sender<Happening>,
    rng: StdRng,
    runs: BTreeMap<String, Run>,
}

/// One pod that is run.
struct Run {
    pod: Pod,
    namespace: String,
    name: String,
    sandbox: Option<String>,
    sandbox_due: Instant,
    containers: Vec<(String, ContainerRun)>,
    /// When it is to be gone, once it is deleted.
    gone_at: Option<Instant>,
    phase: &'static str,
}

#[derive(Default)]
struct ContainerRun {
    known: Known,
    image: String,
    behaviour: Behaviour,
    /// When it is started, for the first time or again.
    start_due: Option<Instant>,
    /// When it ends by itself, and with which code.
    exit_due: Option<(Instant, i32)>,
    /// Its exit has been noticed.
    ended: bool,
}

impl Kubelet {
    pub(crate) fn new(
        options: KubeletOptions,
        store: ObjectStore,
        containers: Containers,
        reachable: watch::Receiver<bool>,
        happenings: broadcast::Sender<Happening>,
    ) -> Self {
        let rng = StdRng::seed_from_u64(options.seed);
        Self { options, store, containers, reachable, happenings, rng, runs: BTreeMap::new() }
    }

    /// Runs until it is cancelled.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let (mut pods, mut runtime) = (self.store.subscribe(None), self.containers.subscribe());
        while !stop.is_cancelled() {
            pods.mark_unchanged();
            runtime.mark_unchanged();
            self.reachable.mark_unchanged();
            let next = self.step(Instant::now());
            tokio::select! {
                () = stop.cancelled() => {}
                // A closed channel means that what the kubelet works for is gone.
                changed = pods.changed() => if !changed { return },
                changed = runtime.changed() => if changed.is_err() { return },
                changed = self.reachable.changed() => if changed.is_err() { return },
                () = sleep_until(next) => {}
            }
        }
    }

    /// Does all that is due; when the next thing is.
    fn step(&mut self, now: Instant) -> Option<Instant> {
        let reachable = *self.reachable.borrow();
        if reachable {
            self.see_pods(now);
        }
        for uid in self.runs.keys().cloned().collect::<Vec<_>>() {
            // Taken out, so that the rest of the kubelet can be used meanwhile.
            let Some(mut run) = self.runs.remove(&uid) else { continue };
            if self.step_pod(&uid, &mut run, now) {
                if reachable {
                    self.tell(&run);
                }
                self.runs.insert(uid, run);
            }
        }
        self.runs.values().filter_map(Run::next_due).min()
    }

    /// Learns which pods there are to run, and which not any more.
    fn see_pods(&mut self, now: Instant) {
        let pods = self.store.list::<Pod>("");
        let own =
            |pod: &&Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_ref() == Some(&self.options.node));
        let own: BTreeMap<String, &Pod> = pods.iter().filter(own).map(|pod| (runtime_uid(pod), pod)).collect();
        for (uid, run) in &mut self.runs {
            let is_gone = own.get(uid).is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
            if is_gone && run.gone_at.is_none() {
                run.gone_at = Some(now + self.options.stop_delay);
            }
        }
        for (uid, pod) in own {
            if let Some(run) = self.runs.get_mut(&uid) {
                run.pod = pod.clone();
                continue;
            }
            let over = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            if matches!(over, Some("Succeeded" | "Failed")) {
                continue;
            }
            let delay = self.rng.random_range(self.options.start_delay.clone());
            self.runs.insert(uid, Run::new(pod.clone(), now + delay));
        }
    }

    /// Moves one pod on; whether it is still there.
    fn step_pod(&mut self, uid: &str, run: &mut Run, now: Instant) -> bool {
        if let Some(gone_at) = run.gone_at {
            if gone_at > now {
                return true;
            }
            if let Some(sandbox) = run.sandbox.take() {
                // It may have been taken away by the test itself.
                let _ = self.containers.stop_sandbox(&sandbox).and_then(|()| self.containers.remove_sandbox(&sandbox));
            }
            // Deleted gracefully: it is the kubelet that lets it go.
            let _ = self.store.delete(Kind::Pod, &run.namespace, &run.name);
            self.say(run, What::Removed);
            return false;
        }
        if run.phase == "Succeeded" || run.phase == "Failed" {
            return true;
        }
        if run.sandbox.is_none() {
            if run.sandbox_due > now {
                return true;
            }
            let spec = SandboxSpec::new(&run.namespace, &run.name, uid);
            run.sandbox = Some(self.containers.run_sandbox(&spec));
            self.say(run, What::SandboxReady);
            for (_, container) in &mut run.containers {
                container.start_due = Some(now + self.rng.random_range(self.options.start_delay.clone()));
            }
        }
        for index in 0..run.containers.len() {
            self.step_container(run, index, now);
        }
        run.phase = phase_of(run, &self.containers);
        match run.phase {
            "Succeeded" => self.end(run, What::Succeeded),
            "Failed" => self.end(run, What::Failed),
            _ => {}
        }
        true
    }

    fn end(&self, run: &Run, what: What) {
        if let Some(sandbox) = &run.sandbox {
            let _ = self.containers.stop_sandbox(sandbox);
        }
        self.say(run, what);
    }

    fn step_container(&mut self, run: &mut Run, index: usize, now: Instant) {
        let Some(sandbox) = run.sandbox.clone() else { return };
        let policy = run.pod.spec.as_ref().and_then(|spec| spec.restart_policy.clone()).unwrap_or_default();
        let (name, container) = &mut run.containers[index];
        let name = name.clone();
        if container.start_due.is_some_and(|due| due <= now) {
            container.start_due = None;
            let again = container.known.id.is_some();
            let Ok(id) = self.containers.create_container(&sandbox, &name, &container.image) else { return };
            let _ = self.containers.start_container(&id);
            if let Some(before) = container.known.previous.take() {
                // Like a kubelet, it keeps one dead container of each name.
                let _ = self.containers.remove_container(&before);
            }
            container.known.previous = container.known.id.replace(id);
            container.known.restarts += u32::from(again);
            container.known.waits_for_restart = false;
            container.ended = false;
            container.exit_due = match &container.behaviour {
                Behaviour::Runs => None,
                Behaviour::Exits { code, after } => Some((now + self.rng.random_range(after.clone()), *code)),
            };
            let restarts = container.known.restarts;
            self.say(run, What::Started { container: name.clone(), restarts });
        }
        let (_, container) = &mut run.containers[index];
        let Some(id) = container.known.id.clone() else { return };
        if let Some((_, code)) = container.exit_due.filter(|(due, _)| *due <= now) {
            container.exit_due = None;
            let _ = self.containers.exit_container(&id, code);
        }
        let status = self.containers.container(&id);
        let exit = match &status {
            // Removed behind the kubelet's back.
            None => Some(137),
            Some(status) => (status.state() == ContainerState::ContainerExited).then_some(status.exit_code),
        };
        let Some(code) = exit.filter(|_| !container.ended) else { return };
        container.ended = true;
        container.exit_due = None;
        let restarts = match policy.as_str() {
            "Never" => false,
            "OnFailure" => code != 0,
            _ => true,
        };
        let restart_in = restarts.then(|| backoff(&self.options, container.known.restarts));
        container.known.waits_for_restart = restarts;
        container.start_due = restart_in.map(|after| now + after);
        self.say(run, What::Exited { container: name, code, restart_in });
    }

    /// Writes the status into the API, if it is another.
    fn tell(&self, run: &Run) {
        let known: Vec<_> = run.containers.iter().map(|(name, run)| (name.clone(), run.known.clone())).collect();
        let sandbox = run.sandbox.as_deref().and_then(|id| self.containers.sandbox(id));
        let status = status::of_pod(&run.pod, run.phase, sandbox.as_ref(), &known, &self.containers);
        if run.pod.status.as_ref() == Some(&status) {
            return;
        }
        // Compared with what the store has: times lose their fraction there.
        let same = |pod: &Pod| serde_json::to_value(&pod.status).ok() == serde_json::to_value(Some(&status)).ok();
        if !same(&run.pod) {
            // It may have been deleted this moment.
            let _ = self.store.modify(&run.namespace, &run.name, |pod: &mut Pod| pod.status = Some(status.clone()));
        }
    }

    fn say(&self, run: &Run, what: What) {
        let happening = Happening { namespace: run.namespace.clone(), pod: run.name.clone(), what };
        // Nobody may be listening.
        let _ = self.happenings.send(happening);
    }
}

impl Run {
    fn new(pod: Pod, sandbox_due: Instant) -> Self {
        let annotations = pod.metadata.annotations.clone().unwrap_or_default();
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| {
            let behaviour = annotations.get(&Behaviour::annotation(&container.name));
            let behaviour = behaviour.and_then(|text| text.parse().ok()).unwrap_or_default();
            let image = container.image.clone().unwrap_or_default();
            (container.name.clone(), ContainerRun { image, behaviour, ..ContainerRun::default() })
        });
        Self {
            containers: containers.collect(),
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            pod,
            sandbox: None,
            sandbox_due,
            gone_at: None,
            phase: "Pending",
        }
    }

    fn next_due(&self) -> Option<Instant> {
        if self.gone_at.is_some() {
            return self.gone_at;
        }
        if self.sandbox.is_none() {
            return Some(self.sandbox_due);
        }
        let dues = self.containers.iter().flat_map(|(_, run)| [run.start_due, run.exit_due.map(|(due, _)| due)]);
        dues.flatten().min()
    }
}

fn phase_of(run: &Run, containers: &Containers) -> &'static str {
    let all = |is: &dyn Fn(&ContainerRun) -> bool| run.containers.iter().all(|(_, container)| is(container));
    if all(&|container| container.ended && !container.known.waits_for_restart) {
        let code =
            |run: &ContainerRun| run.known.id.as_deref().and_then(|id| containers.container(id)).map(|s| s.exit_code);
        return if all(&|container| code(container) == Some(0)) { "Succeeded" } else { "Failed" };
    }
    if all(&|container| container.known.id.is_none()) { "Pending" } else { "Running" }
}

/// The UID that the runtime has: a static pod's own, which its mirror pod names, else the API's.
fn runtime_uid(pod: &Pod) -> String {
    let mirror = pod.metadata.annotations.as_ref().and_then(|all| all.get("kubernetes.io/config.mirror"));
    mirror.or(pod.metadata.uid.as_ref()).cloned().unwrap_or_default()
}

fn backoff(options: &KubeletOptions, restarts: u32) -> Duration {
    options.backoff.saturating_mul(1_u32.checked_shl(restarts).unwrap_or(u32::MAX)).min(options.backoff_max)
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
