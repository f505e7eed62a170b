//! The phase of a pod, as the kubelet computes it of the statuses of the containers.

use crate::container::{Is, Now};
use crate::wire::{Container, Spec};

/// Why a container ended that is restarted with all others of its pod.
const RESTARTING_ALL: &str = "RestartingAllContainers";

/// Whether a phase is the last.
pub(crate) fn is_terminal(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

/// What is known of the pod besides its containers.
pub(crate) struct Pod {
    /// Whether no container of it will be started again, whatever the restart policy.
    pub(crate) is_ending: bool,
    /// Whether a regular container has started in the sandbox of now.
    pub(crate) has_initialized: bool,
}

/// The phase of a pod with these containers.
pub(crate) fn phase(spec: &Spec<'_>, pod: &Pod, statuses: &[&Now<'_>]) -> &'static str {
    let status_of = |container: &Container<'_>| statuses.iter().find(|status| status.name == container.name.0).copied();
    let mut init = Counts::default();
    let mut has_failed_for_good = false;
    for container in spec.init_containers.iter().filter(|container| !container.is_sidecar()) {
        match status_of(container).map(ended) {
            Some(Ended::Now(exit) | Ended::Before(exit)) => {
                has_failed_for_good |= exit.code != 0 && !exit.restarts(container, spec);
            }
            Some(Ended::No) | None => init.waiting += 1,
        }
    }
    if has_failed_for_good {
        return "Failed";
    }
    let mut counts = Counts::default();
    let mut has_pending_sidecar = false;
    for container in spec.init_containers.iter().filter(|container| container.is_sidecar()) {
        let status = status_of(container);
        match status.map(|status| (&status.state.is, status.last.terminated())) {
            Some((Is::Running { .. }, _)) => {
                has_pending_sidecar |= status.is_some_and(|status| status.started != Some(true));
                counts.running += 1;
            }
            // An ended sidecar does not count.
            Some((Is::Terminated(_), _) | (Is::Waiting { .. }, Some(_))) => {}
            Some((Is::Waiting { .. }, None)) => {
                has_pending_sidecar = true;
                counts.waiting += 1;
            }
            Some((Is::Unset, _)) => {
                has_pending_sidecar = true;
                counts.unknown += 1;
            }
            None => counts.unknown += 1,
        }
    }
    for container in &spec.containers {
        let Some(status) = status_of(container) else {
            counts.unknown += 1;
            continue;
        };
        match (ended(status), &status.state.is) {
            (Ended::Now(exit), _) => {
                counts.stop(exit.restarts(container, spec));
                counts.succeeded += usize::from(exit.code == 0);
            }
            (Ended::Before(exit), _) => counts.stop(exit.restarts(container, spec)),
            (Ended::No, Is::Running { .. }) => counts.running += 1,
            (Ended::No, Is::Waiting { .. }) => counts.waiting += 1,
            (Ended::No, Is::Unset | Is::Terminated(_)) => counts.unknown += 1,
        }
    }
    let is_initializing = init.waiting > 0 || has_pending_sidecar && !pod.has_initialized;
    if is_initializing || counts.waiting > 0 {
        return "Pending";
    }
    let outcome = if counts.stopped == counts.succeeded { "Succeeded" } else { "Failed" };
    match counts {
        Counts { running: 1.., unknown: 0, .. } => "Running",
        Counts { running: 0, stopped: 1.., unknown: 0, .. } if pod.is_ending => outcome,
        Counts { running: 0, stopped: 1.., unknown: 0, stopped_for_good, .. } if counts.stopped != stopped_for_good => {
            "Running"
        }
        Counts { running: 0, stopped: 1.., unknown: 0, .. } => outcome,
        _ => "Pending",
    }
}

#[derive(Default)]
struct Counts {
    unknown: usize,
    running: usize,
    waiting: usize,
    stopped: usize,
    stopped_for_good: usize,
    succeeded: usize,
}

impl Counts {
    fn stop(&mut self, restarts: bool) {
        self.stopped += 1;
        self.stopped_for_good += usize::from(!restarts);
    }
}

/// Whether a container has ended: now, or before it began to wait.
enum Ended<'a> {
    No,
    Now(Exit<'a>),
    Before(Exit<'a>),
}

struct Exit<'a> {
    code: i64,
    reason: &'a str,
}

fn ended<'a>(status: &'a Now<'_>) -> Ended<'a> {
    let exit = |ended: &'a crate::container::Terminated<'_>| Exit { code: ended.exit_code, reason: &ended.reason };
    match (&status.state.is, status.last.terminated()) {
        (Is::Terminated(ended), _) => Ended::Now(exit(ended)),
        (Is::Waiting { .. }, Some(ended)) => Ended::Before(exit(ended)),
        (Is::Waiting { .. } | Is::Running { .. } | Is::Unset, _) => Ended::No,
    }
}

impl Exit<'_> {
    /// Whether the container is restarted after it: by its rules, by its own policy, or by that of the pod.
    fn restarts(&self, container: &Container<'_>, spec: &Spec<'_>) -> bool {
        if self.reason == RESTARTING_ALL {
            return true;
        }
        let by_policy = |policy: &str| match policy {
            "Always" => Some(true),
            "OnFailure" => Some(self.code != 0),
            "Never" => Some(false),
            _ => None,
        };
        let own = &container.restart_policy.0;
        if !own.is_empty() {
            let matching = container.restart_policy_rules.iter().find(|rule| {
                rule.exit_codes.as_ref().is_some_and(|codes| match &*codes.0.operator.0 {
                    "In" => codes.0.values.contains(&self.code),
                    "NotIn" => !codes.0.values.contains(&self.code),
                    _ => false,
                })
            });
            if matching.is_some_and(|rule| matches!(&*rule.action.0, "Restart" | "RestartAllContainers")) {
                return true;
            }
            if let Some(restarts) = by_policy(own) {
                return restarts;
            }
        }
        by_policy(&spec.restart_policy.0).unwrap_or(true)
    }
}
