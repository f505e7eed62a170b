//! The conditions of a pod that follow from its containers, as the kubelet computes them.

use crate::container::{Is, Now};
use crate::wire::{self, Condition, Spec};
use crate::write::Object;
use serde_json::value::RawValue;

/// A condition of the API server.
pub(crate) struct Known<'a> {
    pub(crate) is: Condition<'a>,
    raw: &'a RawValue,
}

impl<'a> Known<'a> {
    pub(crate) fn read(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        Ok(Self { is: wire::object(Some(raw))?, raw })
    }
}

/// What a condition is now.
#[derive(Clone, Default)]
struct Outcome {
    is_true: bool,
    reason: &'static str,
    message: String,
}

impl Outcome {
    fn yes(reason: &'static str) -> Self {
        Self { is_true: true, reason, ..Self::default() }
    }

    fn no(reason: &'static str, message: String) -> Self {
        Self { is_true: false, reason, message }
    }

    fn status(&self) -> &'static str {
        if self.is_true { "True" } else { "False" }
    }
}

/// What the conditions follow from.
pub(crate) struct Facts<'f, 'a> {
    pub(crate) spec: &'f Spec<'a>,
    /// The statuses of the init containers and the regular containers.
    pub(crate) statuses: &'f [&'f Now<'f>],
    pub(crate) phase: &'f str,
    /// The pod's generation.
    pub(crate) generation: i64,
    /// When the containers changed that did, in seconds.
    pub(crate) changed_at: Option<i64>,
}

/// Writes the conditions: those of the API server, of which the three that follow from the containers are brought up to date.
pub(crate) fn write(known: &[Known<'_>], facts: &Facts<'_, '_>, out: &mut Vec<u8>) {
    let containers_ready = containers_ready(facts);
    let ready = ready(known, facts, &containers_ready);
    let own = [("Initialized", initialized(known, facts)), ("Ready", ready), ("ContainersReady", containers_ready)];
    let missing = own.iter().filter(|(name, _)| known.iter().all(|known| known.is.type_.0 != *name));
    let conditions = known.iter().map(|known| {
        let own = own.iter().find(|(name, _)| *name == known.is.type_.0);
        (Some(known), own)
    });
    let has_generation = known.iter().any(|known| known.is.observed_generation.is_some());
    let generation = Some(facts.generation).filter(|generation| has_generation && *generation != 0);
    crate::write::array(out, conditions.chain(missing.map(|own| (None, Some(own)))), |(known, own), out| {
        let is_same = |known: &Known<'_>, outcome: &Outcome| {
            known.is.status.0 == outcome.status()
                && known.is.reason.0 == outcome.reason
                && known.is.message.0 == outcome.message
        };
        match (known, own) {
            (Some(known), None) => out.extend_from_slice(known.raw.get().as_bytes()),
            (Some(known), Some((_, outcome))) if is_same(known, outcome) => {
                out.extend_from_slice(known.raw.get().as_bytes());
            }
            (known, Some((name, outcome))) => {
                let mut condition = Object::begin(out);
                condition.text("type", name);
                if let Some(generation) = generation {
                    condition.number("observedGeneration", generation);
                }
                condition.text("status", outcome.status());
                condition.time("lastProbeTime", None);
                let same_since = known
                    .filter(|known| known.is.status.0 == outcome.status())
                    .and_then(|it| it.is.last_transition_time);
                match same_since {
                    Some(since) => condition.raw("lastTransitionTime", since),
                    None => condition.time("lastTransitionTime", facts.changed_at),
                }
                condition.some_text("reason", outcome.reason);
                condition.some_text("message", &outcome.message);
                condition.end();
            }
            (None, None) => {}
        }
    });
}

fn containers_ready(facts: &Facts<'_, '_>) -> Outcome {
    let sidecars = facts.spec.init_containers.iter().filter(|container| container.is_sidecar());
    let (mut unknown, mut unready) = (Vec::new(), Vec::new());
    for container in sidecars.chain(&facts.spec.containers) {
        match facts.statuses.iter().find(|status| status.name == container.name.0) {
            None => unknown.push(&*container.name.0),
            Some(status) if !status.ready => unready.push(&*container.name.0),
            Some(_) => {}
        }
    }
    match facts.phase {
        "Succeeded" if unknown.is_empty() => return Outcome::no("PodCompleted", String::new()),
        "Failed" => return Outcome::no("PodFailed", String::new()),
        _ => {}
    }
    let message = problems([("unknown", &unknown), ("unready", &unready)]);
    if message.is_empty() { Outcome::yes("") } else { Outcome::no("ContainersNotReady", message) }
}

fn ready(known: &[Known<'_>], facts: &Facts<'_, '_>, containers_ready: &Outcome) -> Outcome {
    if !containers_ready.is_true {
        return containers_ready.clone();
    }
    let problem = |gate: &wire::ReadinessGate<'_>| {
        let name = &gate.condition_type.0;
        match known.iter().find(|known| known.is.type_.0 == *name) {
            None => Some(format!("corresponding condition of pod readiness gate {name:?} does not exist.")),
            Some(known) if known.is.status.0 != "True" => {
                let status = &known.is.status.0;
                Some(format!("the status of pod readiness gate {name:?} is not \"True\", but {status}"))
            }
            Some(_) => None,
        }
    };
    let problems: Vec<_> = facts.spec.readiness_gates.iter().filter_map(problem).collect();
    if problems.is_empty() { Outcome::yes("") } else { Outcome::no("ReadinessGatesNotReady", problems.join(", ")) }
}

fn initialized(known: &[Known<'_>], facts: &Facts<'_, '_>) -> Outcome {
    let (mut unknown, mut incomplete) = (Vec::new(), Vec::new());
    for container in &facts.spec.init_containers {
        match facts.statuses.iter().find(|status| status.name == container.name.0) {
            None => unknown.push(&*container.name.0),
            Some(status) => {
                let is_done = if container.is_sidecar() { status.started == Some(true) } else { status.ready };
                if !is_done {
                    incomplete.push(&*container.name.0);
                }
            }
        }
    }
    if facts.phase == "Succeeded" && unknown.is_empty() {
        return Outcome::yes("PodCompleted");
    }
    let has_started = |status: &&Now<'_>| matches!(status.state.is, Is::Running { .. } | Is::Terminated(_));
    let is_regular = |status: &Now<'_>| facts.spec.containers.iter().any(|container| container.name.0 == status.name);
    let message = problems([("unknown", &unknown), ("incomplete", &incomplete)]);
    // A pod that was initialized once stays so.
    let was_true = known.iter().any(|known| known.is.type_.0 == "Initialized" && known.is.status.0 == "True");
    if message.is_empty() || was_true || facts.statuses.iter().any(|status| is_regular(status) && has_started(status)) {
        return Outcome::yes("");
    }
    Outcome::no("ContainersNotInitialized", message)
}

/// The containers of each status that is none to be ready with, in the kubelet's words.
fn problems(of: [(&str, &Vec<&str>); 2]) -> String {
    let told = of.into_iter().filter(|(_, names)| !names.is_empty());
    let told = told.map(|(status, names)| format!("containers with {status} status: [{}]", names.join(" ")));
    told.collect::<Vec<_>>().join(", ")
}
