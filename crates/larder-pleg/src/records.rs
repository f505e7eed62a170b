//! What the PLEG remembers of each pod between relists, and the comparison of a listing with the one before.
//!
//! Nothing here waits or calls the runtime: a listing goes in, and a plan of inspections and removals comes out. The caller
//! reports each result with [`Records::inspected`] or [`Records::failed`]. A pod without a result stays as it was, and the next
//! listing gives the same plan for it. So a relist that is dropped half way does no harm.

use crate::event::EventKind;
use crate::pod::{ContainerState, RuntimeContainer, RuntimePod};
use larder_clock::Timestamp;
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
    /// Counts the records ever made, so that what is known of a pod that is gone is never taken for one of its successor.
    made: u64,
}

#[derive(Debug)]
struct Record {
    /// Which record this is.
    number: u64,
    /// The pod as it was when it was last inspected with success.
    inspected: Option<Arc<RuntimePod>>,
    /// The pod as it was last listed.
    listed: Arc<RuntimePod>,
    /// When that listing began.
    listed_at: Timestamp,
    /// When the listing began whose inspection was applied last, with or without success.
    applied_at: Option<Timestamp>,
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
    /// The pod as it was when it was last inspected with success, unless all of it is to be looked at anew.
    pub(crate) before: Option<Arc<RuntimePod>>,
    /// When the listing began that called for it.
    pub(crate) at: Timestamp,
    record: u64,
    request: Option<u64>,
}

/// How a pod stands after an inspection of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The runtime has nothing left of it.
    Gone,
    /// It is known as of the listing that began then.
    Known(Timestamp),
    /// It is to be inspected again.
    Due(Inspection),
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
    /// Takes in a listing of all pods that began at that time.
    pub(crate) fn list(&mut self, pods: Vec<RuntimePod>, at: Timestamp) -> Plan {
        self.listings += 1;
        let mut plan = Plan::default();
        for pod in pods {
            plan.inspections.extend(self.see(pod, at));
        }
        let latest = self.listings;
        plan.removals.extend(
            self.pods
                .extract_if(|_, record| record.seen != latest)
                .map(|(_, record)| Removal { changes: compare(record.inspected.as_deref(), None), pod: record.listed }),
        );
        plan
    }

    /// Takes in what the runtime, asked at that time, says of one pod.
    pub(crate) fn list_one(&mut self, uid: &PodUid, pod: Option<RuntimePod>, at: Timestamp) -> Plan {
        match pod {
            Some(pod) => Plan { removals: Vec::new(), inspections: self.see(pod, at).into_iter().collect() },
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

    fn see(&mut self, pod: RuntimePod, at: Timestamp) -> Option<Inspection> {
        let seen = self.listings;
        let Some(record) = self.pods.get_mut(&pod.uid) else {
            let pod = Arc::new(pod);
            self.made += 1;
            let record = Record {
                number: self.made,
                inspected: None,
                listed: Arc::clone(&pod),
                listed_at: at,
                applied_at: None,
                seen,
                reinspect: None,
            };
            let due = record.due();
            self.pods.insert(pod.uid.clone(), record);
            return due;
        };
        record.seen = seen;
        record.listed_at = at;
        record.listed = Arc::new(pod);
        let due = record.due();
        if let (None, Some(inspected)) = (&due, &record.inspected) {
            // As it was: one copy of it is enough.
            record.listed = Arc::clone(inspected);
        }
        due
    }

    /// The inspection succeeded: the pod's state at its listing is what the next one is compared with.
    pub(crate) fn inspected(&mut self, inspection: &Inspection) {
        if let Some(record) = self.pods.get_mut(&inspection.pod.uid) {
            record.inspected = Some(Arc::clone(&inspection.pod));
            record.applied_at = Some(inspection.at);
            if record.reinspect == inspection.request {
                record.reinspect = None;
            }
        }
    }

    /// The inspection failed: the pod's record stays as it was, and the next listing inspects it in any case.
    pub(crate) fn failed(&mut self, inspection: &Inspection) {
        if let Some(record) = self.pods.get_mut(&inspection.pod.uid) {
            record.applied_at = Some(inspection.at);
        }
        self.request(&inspection.pod.uid);
    }

    /// Whether the outcome of the inspection still says something: the pod has not gone meanwhile, even if another of its
    /// UID has come, and nothing newer is known of it.
    pub(crate) fn is_current(&self, inspection: &Inspection) -> bool {
        self.pods.get(&inspection.pod.uid).is_some_and(|record| {
            record.number == inspection.record && record.applied_at.is_none_or(|applied| applied <= inspection.at)
        })
    }

    /// How the pod stands.
    pub(crate) fn standing(&self, uid: &PodUid) -> Standing {
        let Some(record) = self.pods.get(uid) else { return Standing::Gone };
        record.due().map_or(Standing::Known(record.listed_at), Standing::Due)
    }

    /// The pods that there are.
    pub(crate) fn uids(&self) -> Vec<PodUid> {
        self.pods.keys().cloned().collect()
    }

    /// The pod as it was last listed.
    pub(crate) fn listed(&self, uid: &PodUid) -> Option<Arc<RuntimePod>> {
        self.pods.get(uid).map(|record| Arc::clone(&record.listed))
    }

    /// The pod that has, or had when it was last listed or inspected, the container or sandbox of that ID.
    pub(crate) fn pod_of(&self, id: &str) -> Option<PodUid> {
        let has = |pod: &RuntimePod| members(Some(pod)).any(|member| member.id == id);
        let of = |record: &Record| has(&record.listed) || record.inspected.as_deref().is_some_and(has);
        self.pods.iter().find(|(_, record)| of(record)).map(|(uid, _)| uid.clone())
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

impl Record {
    fn due(&self) -> Option<Inspection> {
        let changes = compare(self.inspected.as_deref(), Some(&self.listed));
        (!changes.is_empty() || self.reinspect.is_some()).then(|| Inspection {
            pod: Arc::clone(&self.listed),
            changes,
            before: self.inspected.clone().filter(|_| self.reinspect.is_none()),
            at: self.listed_at,
            record: self.number,
            request: self.reinspect,
        })
    }
}

/// Whether two listings of a pod show the same.
pub(crate) fn is_alike(one: &RuntimePod, other: &RuntimePod) -> bool {
    compare(Some(one), Some(other)).is_empty()
}

/// What a container's coming into a state is.
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
    let states = |pod| members(pod).map(|member: &RuntimeContainer| (member.id.as_str(), member.state));
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
        let before = find(old, &member.id).map(|found| found.state);
        let after = find(new, &member.id).map(|found| found.state);
        if before == after {
            continue;
        }
        let (before, after) = (before.map(kind_of), after.map(kind_of));
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
