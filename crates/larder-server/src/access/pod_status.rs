//! What the container runtime knows of the pods that a caller may see: statuses, waits for them, and lifecycle events.

use super::Reader;
use crate::error::ApiError;
use larder_clock::Timestamp;
use larder_node::{PodStatusRead, ReadError, WaitError, WhoisPod};
use larder_pleg::{Delivery, EventReceiver, PodLifecycleEvent};
use larder_pod_status::PodUid;
use larder_policy::{Decision, Document, Extent, Verb};
use larder_resource::{Kind, Pod};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The right to read the status of one pod, which may not exist.
///
/// Whoever may create a pod can claim the UID of another one in its annotations. So what the runtime has under the UID is given only to who may
/// see the pod of the namespace and name that the runtime knows.
#[derive(Debug)]
pub(crate) struct PodStatusOf<'a> {
    reader: &'a Reader,
    uid: PodUid,
}

impl Reader {
    /// The right to read the status of the pod that the runtime knows by this UID.
    pub(crate) fn pod_status(&self, uid: &str) -> Result<PodStatusOf<'_>, ApiError> {
        let decision = self.decision_of_pod(uid, || None);
        self.allowed(decision, Verb::Get.as_str(), status_of(uid))?;
        Ok(PodStatusOf { reader: self, uid: PodUid::from(uid) })
    }

    /// The right to read the status of the pod of this namespace and name.
    pub(crate) fn pod_status_by_name(&self, namespace: &str, name: &str) -> Result<PodStatusOf<'_>, ApiError> {
        let right = self.one(Kind::Pod, namespace, name)?;
        let uid = self.node().runtime_uid(namespace, name)?;
        let decision = self.access.of_pod(right.decision.clone(), Verb::Get, [namespace, name, &uid.to_string()]);
        if decision.extent != Some(Extent::Whole) {
            return Err(right.refusal());
        }
        Ok(PodStatusOf { reader: self, uid })
    }

    /// Refuses the pod of a process unless all of it may be seen. The refusal does not name the pod.
    pub(crate) fn may_whois(&self, found: &WhoisPod) -> Result<(), ApiError> {
        let status = found.read.status.as_deref();
        let of_status = || status.map(|status| (&*status.namespace, &*status.name));
        let of_pod = || found.pod.as_ref().map(|pod| (pod.namespace(), pod.name()));
        let decision = self.decision_of_pod(&found.read.uid.to_string(), || of_status().or_else(of_pod));
        self.allowed(decision, Verb::Get.as_str(), "the pod of this process or container").map(drop)
    }

    /// The status of every pod that may be seen.
    pub(crate) fn pod_statuses(&self) -> Result<Vec<PodStatusRead>, ReadError> {
        let mut all = self.node().pod_statuses()?;
        if !self.sees_all() {
            all.retain(|read| {
                let status = read.status.as_deref();
                self.sees_pod(&read.uid, || status.map(|status| (&*status.namespace, &*status.name)))
            });
        }
        Ok(all)
    }

    /// The latest lifecycle events of the pods that may be seen, oldest first, and those that follow.
    pub(crate) fn lifecycle_events(&self) -> Result<(Vec<Arc<PodLifecycleEvent>>, Events), ReadError> {
        let (mut recent, receiver) = self.node().lifecycle_events()?;
        recent.retain(|event| self.sees_event(event));
        Ok((recent, Events { reader: self.clone(), receiver }))
    }

    /// The pod that the runtime knows by this UID, from the source of the pods. For a pod whose status was given.
    pub(crate) fn pod_of(&self, read: &PodStatusRead) -> Option<Arc<Pod>> {
        let uid = read.uid.to_string();
        match &read.status {
            Some(status) => self.node().pod_in_runtime(&uid, &status.namespace, &status.name),
            None => self.node().pod_of_runtime_uid(&uid),
        }
    }

    fn sees_event(&self, event: &PodLifecycleEvent) -> bool {
        self.sees_pod(&event.uid, || Some((&event.namespace, &event.name)))
    }

    /// Whether all of the pod may be seen that the runtime knows by this UID. `named` is its namespace and name, where the runtime knows them.
    fn sees_pod<'a>(&self, uid: &PodUid, named: impl FnOnce() -> Option<(&'a str, &'a str)>) -> bool {
        self.sees_all() || self.decision_of_pod(&uid.to_string(), named).is_allowed()
    }

    fn decision_of_pod<'a>(&self, uid: &str, named: impl FnOnce() -> Option<(&'a str, &'a str)>) -> Decision {
        let every = self.view().may_document(Document::PodStatuses);
        if every.is_allowed() {
            return every;
        }
        let decide = |namespace: &str, name: &str| {
            let decision = self.access.decide(Verb::Get, Kind::Pod, namespace, name);
            let decision = self.access.of_pod(decision, Verb::Get, [namespace, name, uid]);
            let sees = decision.extent == Some(Extent::Whole);
            if sees { decision } else { Decision { extent: None, ..decision } }
        };
        match named() {
            Some((namespace, name)) => decide(namespace, name),
            None => self.node().pod_of_runtime_uid(uid).map_or(every, |pod| decide(pod.namespace(), pod.name())),
        }
    }
}

fn status_of(uid: impl fmt::Display) -> String {
    format!("the status of pod \"{uid}\"")
}

impl PodStatusOf<'_> {
    pub(crate) fn read(&self) -> Result<PodStatusRead, ApiError> {
        let read = self.reader.node().pod_status(&self.uid)?;
        self.may_see(self.reader, &read)?;
        Ok(read)
    }

    /// See [`Node::pod_status_newer_than`](larder_node::Node::pod_status_newer_than).
    pub(crate) async fn newer_than(
        &self,
        min: Timestamp,
        deadline: Duration,
    ) -> Result<Result<PodStatusRead, WaitError>, ApiError> {
        self.waited(self.reader.node().pod_status_newer_than(&self.uid, min, deadline).await?)
    }

    /// See [`Node::pod_status_changed_after`](larder_node::Node::pod_status_changed_after).
    pub(crate) async fn changed_after(
        &self,
        min: Timestamp,
        deadline: Duration,
    ) -> Result<Result<PodStatusRead, WaitError>, ApiError> {
        self.waited(self.reader.node().pod_status_changed_after(&self.uid, min, deadline).await?)
    }

    /// What came of a wait, by the policy at its end.
    fn waited(&self, found: Result<PodStatusRead, WaitError>) -> Result<Result<PodStatusRead, WaitError>, ApiError> {
        let mut reader = self.reader.clone();
        reader.refresh()?;
        match &found {
            Ok(read) => self.may_see(&reader, read)?,
            Err(WaitError::DeadlineExceeded { last_known, .. }) => self.may_see(&reader, last_known)?,
            Err(_) => {}
        }
        Ok(found)
    }

    fn may_see(&self, reader: &Reader, read: &PodStatusRead) -> Result<(), ApiError> {
        let Some(status) = read.status.as_deref() else { return Ok(()) };
        let decision = reader.decision_of_pod(&self.uid.to_string(), || Some((&status.namespace, &status.name)));
        if decision.is_allowed() {
            return Ok(());
        }
        Err(reader.refusal(decision, Verb::Get.as_str(), status_of(&self.uid)))
    }
}

/// The lifecycle events of the pods that may be seen.
#[derive(Debug)]
pub(crate) struct Events {
    reader: Reader,
    receiver: EventReceiver,
}

impl Events {
    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The next event or gap; `None` once the daemon ends, or the caller may see nothing any more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: an event that may not be seen is dropped between two waits.
    pub(crate) async fn recv(&mut self) -> Option<Delivery> {
        loop {
            let delivery = self.receiver.recv().await?;
            // By today's policy.
            self.reader.refresh().ok()?;
            if self.sees(&delivery) {
                return Some(delivery);
            }
        }
    }

    /// An event or gap that has happened already.
    pub(crate) fn try_recv(&mut self) -> Option<Delivery> {
        loop {
            let delivery = self.receiver.try_recv()?;
            if self.sees(&delivery) {
                return Some(delivery);
            }
        }
    }

    fn sees(&self, delivery: &Delivery) -> bool {
        match delivery {
            Delivery::Event(event) => self.reader.sees_event(event),
            Delivery::Gap { .. } => true,
        }
    }
}
