//! What the PLEG remembers of each pod between relists, and how one listing is compared with the one before.
//!
//! Nothing here waits or calls the runtime: a listing goes in, and out comes what is to be done. Whoever does it comes back
//! with [`Records::inspected`] or [`Records::failed`]; a pod that nobody comes back with is as it was, and the next listing
//! finds the same to be done. That makes a relist that is dropped half way harmless.

use crate::event::EventKind;
use crate::pod::{ContainerState, RuntimeContainer, RuntimePod};
use larder_pod_status::PodUid;
use std::collections::HashMap;
use std::sync::Arc;

/// One record for each pod that was in the last successful listing, or whose change is not yet dealt with.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pods: HashMap<PodUid, Record>,
    /// Counts the listings, so that a record knows whether it was in the latest.
    listings: u64,
    /// Counts the requests for an inspection, so that one made during an inspection is not taken as served by it.
    requests: u64,
}

#[derive(Debug)]
struct Record {
    /// The pod as it was when it was last inspected with success.
    inspected: Option<Arc<RuntimePod>>,
    /// The pod as it was last listed.
    listed: Arc<RuntimePod>,
    /// The listing that it was last in.
    seen: u64,
    /// The latest request to inspect it whatever the comparison says.
    reinspect: Option<u64>,
}

/// A difference between two listings of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) kind: EventKind,
    pub(crate) container_id: String,
    pub(crate) container_name: String,
}

/// A pod that is to be inspected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspection {
    pub(crate) pod: Arc<RuntimePod>,
    pub(crate) changes: Vec<Change>,
    request: Option<u64>,
}

/// A pod that the runtime has nothing left of. Its record is gone already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) pod: Arc<RuntimePod>,
    pub(crate) changes: Vec<Change>,
}

/// What a listing calls for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) removals: Vec<Removal>,
    pub(crate) inspections: Vec<Inspection>,
}

impl Records {
    /// Takes in a listing of all pods.
    pub(crate) fn list(&mut self, pods: Vec<RuntimePod>) -> Plan {
        self.listings += 1;
        let mut plan = Plan::default();
        for pod in pods {
            plan.inspections.extend(self.see(pod));
        }
        let latest = self.listings;
        plan.removals.extend(
            self.pods
                .extract_if(|_, record| record.seen != latest)
                .map(|(_, record)| Removal { changes: compare(record.inspected.as_deref(), None), pod: record.listed }),
        );
        plan
    }

    /// Takes in what the runtime says of one pod.
    pub(crate) fn list_one(&mut self, uid: &PodUid, pod: Option<RuntimePod>) -> Plan {
        match pod {
            Some(pod) => Plan { removals: Vec::new(), inspections: self.see(pod).into_iter().collect() },
            None => Plan {
                removals: self
                    .pods
                    .remove(uid)
                    .map(|record| Removal { changes: compare(record.inspected.as_deref(), None), pod: record.listed })
                    .into_iter()
                    .collect(),
                inspections: Vec::new(),
            },
        }
    }

    fn see(&mut self, pod: RuntimePod) -> Option<Inspection> {
        let seen = self.listings;
        let Some(record) = self.pods.get_mut(&pod.uid) else {
            let pod = Arc::new(pod);
            let record = Record { inspected: None, listed: Arc::clone(&pod), seen, reinspect: None };
            self.pods.insert(pod.uid.clone(), record);
            let changes = compare(None, Some(&pod));
            return (!changes.is_empty()).then_some(Inspection { pod, changes, request: None });
        };
        record.seen = seen;
        let changes = compare(record.inspected.as_deref(), Some(&pod));
        if changes.is_empty() && record.reinspect.is_none() {
            // As it was: one copy of it is enough.
            record.listed = record.inspected.clone().unwrap_or_else(|| Arc::new(pod));
            return None;
        }
        record.listed = Arc::new(pod);
        Some(Inspection { pod: Arc::clone(&record.listed), changes, request: record.reinspect })
    }

    /// The inspection succeeded: the pod's state at its listing is what the next one is compared with.
    pub(crate) fn inspected(&mut self, inspection: &Inspection) {
        if let Some(record) = self.pods.get_mut(&inspection.pod.uid) {
            record.inspected = Some(Arc::clone(&inspection.pod));
            if record.reinspect == inspection.request {
                record.reinspect = None;
            }
        }
    }

    /// The inspection failed: the pod's record stays as it was, and the next listing inspects it in any case.
    pub(crate) fn failed(&mut self, inspection: &Inspection) {
        self.request(&inspection.pod.uid);
    }

    /// Asks for an inspection at the pod's next listing, whether or not it differs. A pod without a record needs none: its
    /// first listing inspects it. So there are never more requests than pods.
    pub(crate) fn request(&mut self, uid: &PodUid) {
        if let Some(record) = self.pods.get_mut(uid) {
            self.requests += 1;
            record.reinspect = Some(self.requests);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_requested(&self, uid: &PodUid) -> bool {
        self.pods.get(uid).is_some_and(|record| record.reinspect.is_some())
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }
}

/// What tells two listings of a pod apart. The kubelet does not know the state `created` here, and neither does this.
fn kind_of(state: ContainerState) -> EventKind {
    match state {
        ContainerState::Running => EventKind::ContainerStarted,
        ContainerState::Exited => EventKind::ContainerDied,
        ContainerState::Created | ContainerState::Unknown => EventKind::ContainerChanged,
    }
}

/// The containers of a pod, and its sandboxes, which count as containers here.
fn members(pod: Option<&RuntimePod>) -> impl Iterator<Item = &RuntimeContainer> {
    pod.into_iter().flat_map(|pod| pod.containers.iter().chain(&pod.sandboxes))
}

fn compare(old: Option<&RuntimePod>, new: Option<&RuntimePod>) -> Vec<Change> {
    let states = |pod| members(pod).map(|member: &RuntimeContainer| (member.id.as_str(), kind_of(member.state)));
    // By far the most frequent case, and a listing's order is stable.
    if states(old).eq(states(new)) {
        return Vec::new();
    }
    let find = |pod, id: &str| members(pod).find(|member: &&RuntimeContainer| member.id == id);
    let mut changes = Vec::new();
    let mut done: Vec<&str> = Vec::new();
    for member in members(old).chain(members(new)) {
        if done.contains(&member.id.as_str()) {
            continue;
        }
        done.push(&member.id);
        let before = find(old, &member.id).map(|found| kind_of(found.state));
        let after = find(new, &member.id).map(|found| kind_of(found.state));
        if before == after {
            continue;
        }
        let mut push = |kind| {
            changes.push(Change { kind, container_id: member.id.clone(), container_name: member.name.clone() });
        };
        if let Some(kind) = after {
            push(kind);
            continue;
        }
        // That it died was reported when it was seen to have exited, if it was.
        if before != Some(EventKind::ContainerDied) {
            push(EventKind::ContainerDied);
        }
        push(EventKind::ContainerRemoved);
    }
    changes
}

#[cfg(test)]
mod tests;
