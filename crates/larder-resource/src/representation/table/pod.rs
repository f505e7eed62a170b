//! The printer of pods: `printPod` of upstream, step by step, so that a change there is easy to carry over.

use super::super::age::{age, is_set};
use super::cells::Metadata;
use super::{Row, RowCondition};
use crate::error::DecodeError;
use crate::json::{Borrowed, List, Strict, or_default, read};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;

const SUCCEEDED: &[RowCondition] = &[RowCondition {
    type_: "Completed",
    status: "True",
    reason: "Succeeded",
    message: "The pod has completed successfully.",
}];

const FAILED: &[RowCondition] =
    &[RowCondition { type_: "Completed", status: "True", reason: "Failed", message: "The pod failed." }];

pub(super) fn row(json: &[u8], now: Timestamp) -> Result<Row<'_>, DecodeError> {
    let Strict(wire): Strict<PodWire<'_>> = read(json)?;
    let metadata = Metadata::of(wire.metadata, json)?;
    let PodWire { spec, status, .. } = wire;

    let seen = look_at(&spec, &status);
    let reason = match &*status.reason.0 {
        "NodeLost" if metadata.is_deleting => "Unknown".into(),
        _ if metadata.is_deleting && !matches!(&*status.phase.0, "Succeeded" | "Failed") => "Terminating".into(),
        _ => seen.reason,
    };
    let restarts = match seen.restarts.last {
        Some(last) if seen.restarts.count != 0 => format!("{} ({} ago)", seen.restarts.count, age(Some(last), now)),
        _ => seen.restarts.count.to_string(),
    };
    let sidecars = spec.init_containers.0.iter().filter(|container| container.is_sidecar()).count();
    let total = spec.containers.0.len() + sidecars;
    let none = |text: Cow<'_, str>| if text.is_empty() { "<none>".into() } else { text.into_owned() };
    Ok(Row {
        cells: vec![
            metadata.name.as_ref().into(),
            format!("{}/{total}", seen.ready).into(),
            reason.into(),
            restarts.into(),
            age(metadata.created, now).into(),
            none(ip(&status)).into(),
            none(spec.node_name.0).into(),
            none(status.nominated_node_name.0).into(),
            readiness_gates(&spec.readiness_gates, &status.conditions).into(),
        ],
        conditions: match &*status.phase.0 {
            "Succeeded" => SUCCEEDED,
            "Failed" => FAILED,
            _ => &[],
        },
        metadata,
    })
}

/// What the containers' states come to.
struct Seen {
    ready: usize,
    reason: String,
    restarts: Restarts,
}

/// How often containers have restarted, and when the last of them ended before that.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &ContainerStatus<'_>) {
        self.count = self.count.saturating_add(i64::from(container.restart_count.unwrap_or_default()));
        self.last = self.last.max(container.last_end());
    }
}

fn look_at(spec: &PodSpec<'_>, status: &PodStatus<'_>) -> Seen {
    let mut reason = if status.reason.0.is_empty() { &status.phase.0 } else { &status.reason.0 }.to_string();
    if status.conditions.0.iter().any(|has| has.type_.0 == "PodScheduled" && has.reason.0 == "SchedulingGated") {
        "SchedulingGated".clone_into(&mut reason);
    }

    let mut ready = 0;
    let (mut restarts, mut sidecar_restarts) = (Restarts::default(), Restarts::default());
    // As upstream, the last of several containers with one name counts.
    let is_sidecar: HashMap<&str, bool> =
        spec.init_containers.0.iter().map(|container| (&*container.name.0, container.is_sidecar())).collect();
    let mut is_initializing = false;
    for (at, container) in status.init_container_statuses.0.iter().enumerate() {
        let is_sidecar = is_sidecar.get(&*container.name.0).copied().unwrap_or_default();
        restarts.add(container);
        if is_sidecar {
            sidecar_restarts.add(container);
        }
        let state = &container.state;
        if state.terminated.as_ref().is_some_and(|Strict(end)| end.exit_code.unwrap_or_default() == 0) {
            continue;
        }
        if is_sidecar && container.started == Some(true) {
            ready += usize::from(container.ready == Some(true));
            continue;
        }
        reason = match (&state.terminated, state.waiting_reason()) {
            (Some(Strict(end)), _) => format!("Init:{}", end.reason()),
            (None, Some(reason)) if reason != "PodInitializing" => format!("Init:{reason}"),
            (None, _) => format!("Init:{at}/{}", spec.init_containers.0.len()),
        };
        is_initializing = true;
        break;
    }
    if is_initializing && !is_first_true(&status.conditions, "Initialized") {
        return Seen { ready, reason, restarts };
    }

    restarts = sidecar_restarts;
    let mut is_running = false;
    let mut failure = None;
    for container in status.container_statuses.0.iter().rev() {
        restarts.add(container);
        let state = &container.state;
        if let Some(waits) = state.waiting_reason() {
            waits.clone_into(&mut reason);
        } else if let Some(Strict(end)) = &state.terminated {
            reason = end.reason().into_owned();
            if end.exit_code.unwrap_or_default() != 0 {
                failure = Some(reason.clone());
            }
        } else if container.ready == Some(true) && state.running.is_some() {
            is_running = true;
            ready += 1;
        }
    }
    // A container that has ended well does not hide one that still runs, or one that has failed.
    if reason == "Completed" {
        let is_ready = || status.conditions.0.iter().any(|has| has.type_.0 == "Ready" && has.status.0 == "True");
        if is_running && is_ready() {
            "Running".clone_into(&mut reason);
        } else if let Some(failure) = failure {
            reason = failure;
        } else if is_running {
            "NotReady".clone_into(&mut reason);
        }
    }
    Seen { ready, reason, restarts }
}

/// Whether the first condition of this type is true.
fn is_first_true(conditions: &List<Condition<'_>>, type_: &str) -> bool {
    conditions.0.iter().find(|has| has.type_.0 == type_).is_some_and(|has| has.status.0 == "True")
}

fn readiness_gates(gates: &List<ReadinessGate<'_>>, conditions: &List<Condition<'_>>) -> String {
    if gates.0.is_empty() {
        return "<none>".to_owned();
    }
    let is_open = gates.0.iter().filter(|gate| is_first_true(conditions, &gate.condition_type.0)).count();
    format!("{is_open}/{}", gates.0.len())
}

/// The address of the pod: `podIP`, which the API server puts in the place of `podIPs` where the two differ.
fn ip<'a>(status: &PodStatus<'a>) -> Cow<'a, str> {
    if !status.pod_ip.0.is_empty() {
        return status.pod_ip.0.clone();
    }
    status.pod_ips.0.first().map(|first| first.ip.0.clone()).unwrap_or_default()
}

#[derive(Deserialize)]
struct PodWire<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    spec: PodSpec<'a>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    status: PodStatus<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec<'a> {
    #[serde(borrow)]
    node_name: Borrowed<'a>,
    #[serde(borrow)]
    init_containers: List<Container<'a>>,
    containers: List<Passed>,
    #[serde(borrow)]
    readiness_gates: List<ReadinessGate<'a>>,
}

/// An element that only counts.
#[derive(Deserialize, Default)]
struct Passed {}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Container<'a> {
    #[serde(borrow)]
    name: Borrowed<'a>,
    #[serde(borrow)]
    restart_policy: Borrowed<'a>,
}

impl Container<'_> {
    /// Whether this init container runs beside the others.
    fn is_sidecar(&self) -> bool {
        self.restart_policy.0 == "Always"
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ReadinessGate<'a> {
    #[serde(borrow)]
    condition_type: Borrowed<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus<'a> {
    #[serde(borrow)]
    phase: Borrowed<'a>,
    #[serde(borrow)]
    reason: Borrowed<'a>,
    #[serde(borrow)]
    nominated_node_name: Borrowed<'a>,
    #[serde(borrow, rename = "podIP")]
    pod_ip: Borrowed<'a>,
    #[serde(borrow, rename = "podIPs")]
    pod_ips: List<PodIp<'a>>,
    #[serde(borrow)]
    conditions: List<Condition<'a>>,
    #[serde(borrow)]
    init_container_statuses: List<ContainerStatus<'a>>,
    #[serde(borrow)]
    container_statuses: List<ContainerStatus<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PodIp<'a> {
    #[serde(borrow)]
    ip: Borrowed<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    type_: Borrowed<'a>,
    #[serde(borrow)]
    status: Borrowed<'a>,
    #[serde(borrow)]
    reason: Borrowed<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus<'a> {
    #[serde(borrow)]
    name: Borrowed<'a>,
    restart_count: Option<i32>,
    ready: Option<bool>,
    started: Option<bool>,
    #[serde(borrow, deserialize_with = "or_default")]
    state: State<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    last_state: State<'a>,
}

impl ContainerStatus<'_> {
    /// When the container ended before its last restart.
    fn last_end(&self) -> Option<Timestamp> {
        self.last_state.terminated.as_ref().and_then(|Strict(end)| end.finished_at).filter(is_set)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct State<'a> {
    #[serde(borrow)]
    waiting: Option<Strict<Waiting<'a>>>,
    running: Option<Strict<Passed>>,
    #[serde(borrow)]
    terminated: Option<Strict<Terminated<'a>>>,
}

impl State<'_> {
    /// Why the container waits, where it does and says so.
    fn waiting_reason(&self) -> Option<&str> {
        self.waiting.as_ref().map(|Strict(waiting)| &*waiting.reason.0).filter(|reason| !reason.is_empty())
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Waiting<'a> {
    #[serde(borrow)]
    reason: Borrowed<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Terminated<'a> {
    #[serde(borrow)]
    reason: Borrowed<'a>,
    signal: Option<i32>,
    exit_code: Option<i32>,
    finished_at: Option<Timestamp>,
}

impl Terminated<'_> {
    fn reason(&self) -> Cow<'_, str> {
        match self.signal.unwrap_or_default() {
            _ if !self.reason.0.is_empty() => (&*self.reason.0).into(),
            0 => format!("ExitCode:{}", self.exit_code.unwrap_or_default()).into(),
            signal => format!("Signal:{signal}").into(),
        }
    }
}

#[cfg(test)]
mod tests;
