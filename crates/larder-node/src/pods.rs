//! The pods as this node knows them: the API server's, or those of the manifests, brought up to date from the container runtime
//! ([`larder_pods`]), and static pods that the API server does not have.
//!
//! # Guarantees
//!
//! - *Nothing kept*: a read computes what it gives, and shares the source's pod where the runtime has nothing newer to say.
//! - *Own versions*: the objects of the [journal](NodePods::journal) have the journal's versions as their resource versions. It begins at the wall
//!   time in microseconds, above all versions of an earlier run or an earlier journal. So a resume from one of these is refused.
//! - *Own pods*: the runtime's status of a pod counts only for a pod of the same namespace and name. Whoever may create a pod can claim
//!   the UID of another one, but never its namespace and name.
//!
//! # Limits
//!
//! The journal holds a copy of each pod. It begins with the first read, and ends when nobody has read or followed it for
//! [`IDLE`]. Until the runtime has been listed, and while the inspection of a pod fails, the pod is as its source has it.
//!
//! # Locks
//!
//! One guards the journal and what was put into it. Under it, the source's and the journal's are taken.

use crate::runtime::{PodStatusRead, RuntimeSide};
use crate::tasks::Tasks;
use larder_clock::{Clock as _, MachineClocks, MonotonicClock, Timestamp};
use larder_objects::ObjectKey;
use larder_pleg::{WriteReceiver, Written};
use larder_pod_status::PodUid;
use larder_pods::{Seen, bring_up_to_date, static_pod, with_resource_version};
use larder_resource::journal::{Journal, Order};
use larder_resource::{Change, Changes, Kind, KubeObject, Pod, SourceReader};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long the journal stays when nobody reads or follows it.
const IDLE: Duration = Duration::from_mins(1);
/// How often pods are looked at again that may be newer than the last list of the runtime.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The pods as this node knows them.
pub(crate) struct NodePods<M: MachineClocks> {
    node: Arc<str>,
    clock: MonotonicClock<M>,
    pods: SourceReader<Pod>,
    /// Whether the pods come from manifests, whose UIDs are not the kubelet's.
    is_of_manifests: bool,
    runtime: Option<Arc<RuntimeSide<M>>>,
    shown: Mutex<Option<Shown>>,
}

/// The journal, and what is in it.
struct Shown {
    journal: Journal,
    pods: BTreeMap<ObjectKey, Arc<KubeObject>>,
    /// Pods that are to be looked at again when the runtime has been listed once more.
    undecided: BTreeSet<ObjectKey>,
    used_at: Timestamp,
}

/// A pod as the node knows it.
struct Known {
    pod: Arc<Pod>,
    is_undecided: bool,
}

impl<M: MachineClocks> NodePods<M> {
    pub(crate) fn new(
        node: Arc<str>,
        clock: MonotonicClock<M>,
        pods: SourceReader<Pod>,
        is_of_manifests: bool,
        runtime: Option<Arc<RuntimeSide<M>>>,
    ) -> Self {
        Self { node, clock, pods, is_of_manifests, runtime, shown: Mutex::new(None) }
    }

    /// All pods, ordered by namespace and name.
    pub(crate) fn list(&self) -> Vec<Arc<Pod>> {
        self.known().into_values().map(|known| known.pod).collect()
    }

    fn known(&self) -> BTreeMap<ObjectKey, Known> {
        let static_pods = self.static_pods();
        let bring = |pod: Arc<Pod>| {
            let key = pod.key();
            let known = self.bring(pod, static_pods.get(&key));
            (key, known)
        };
        let mut all: BTreeMap<_, _> = self.pods.list().into_iter().map(bring).collect();
        for (key, uid) in &static_pods {
            if !all.contains_key(key)
                && let Some(known) = self.static_pod(uid)
            {
                all.insert(key.clone(), known);
            }
        }
        all
    }

    fn get(&self, key: &ObjectKey) -> Option<Known> {
        match self.pods.get(key.namespace(), key.name()) {
            Some(pod) => {
                let uid = if self.is_of_manifests { self.static_pods().remove(key) } else { None };
                Some(self.bring(pod, uid.as_ref()))
            }
            None => self.static_pods().get(key).and_then(|uid| self.static_pod(uid)),
        }
    }

    /// The static pods that the runtime has. Of several of one name, the newest.
    fn static_pods(&self) -> BTreeMap<ObjectKey, PodUid> {
        let statuses = self.runtime.iter().flat_map(|runtime| runtime.statuses());
        let mut newest: BTreeMap<ObjectKey, (i64, PodUid)> = BTreeMap::new();
        for status in statuses {
            let Some(sandbox) = status.sandboxes.first().filter(|sandbox| sandbox.static_pod.is_some()) else {
                continue;
            };
            let key = ObjectKey::new(&status.namespace, &status.name);
            let is_newer = newest.get(&key).is_none_or(|(created_at, _)| *created_at < sandbox.created_at);
            if is_newer {
                newest.insert(key, (sandbox.created_at, status.uid.clone()));
            }
        }
        newest.into_iter().map(|(key, (_, uid))| (key, uid)).collect()
    }

    /// A pod of the source, brought up to date. `static_uid` is the static pod of this name that the runtime has.
    fn bring(&self, pod: Arc<Pod>, static_uid: Option<&PodUid>) -> Known {
        let as_it_is = |pod| Known { pod, is_undecided: false };
        let Some(runtime) = &self.runtime else { return as_it_is(pod) };
        let own = pod.runtime_uid();
        let mut read = runtime.read(&PodUid::from(own));
        if let Some(uid) = static_uid
            && self.is_of_manifests
            && !read.is_there
        {
            read = runtime.read(uid);
        }
        let is_of_pod = |read: &PodStatusRead| {
            let status = read.status.as_ref();
            status.is_none_or(|status| status.namespace == pod.namespace() && status.name == pod.name())
        };
        // A pod without a UID is not known to the runtime.
        let Some(as_of) = self.as_of(runtime, &read).filter(|_| !own.is_empty() && is_of_pod(&read)) else {
            return as_it_is(pod);
        };
        let seen = Seen { status: read.status.as_deref(), as_of };
        let brought = match bring_up_to_date(&pod.json(), &seen) {
            Ok(brought) => brought,
            Err(error) => {
                tracing::debug!(pod = %pod.key(), %error, "the pod cannot be brought up to date");
                return as_it_is(pod);
            }
        };
        let is_undecided = brought.is_undecided;
        let now = brought.json.and_then(|json| Pod::from_json(&json).ok());
        Known { pod: now.map_or(pod, Arc::new), is_undecided }
    }

    /// As of when the runtime has said what it says of a pod, in nanoseconds since the Unix epoch. `None` if it has said nothing that counts.
    fn as_of(&self, runtime: &RuntimeSide<M>, read: &PodStatusRead) -> Option<i64> {
        let is_known = if read.is_there { read.status.is_some() } else { runtime.has_relisted() };
        // After a failed inspection, what is known is that of the last good one.
        let at = if read.error.is_some() { read.modified } else { read.as_of };
        let at = self.clock.wall_time(at.filter(|_| is_known)?);
        Some(i64::try_from(at).unwrap_or_default())
    }

    fn static_pod(&self, uid: &PodUid) -> Option<Known> {
        let runtime = self.runtime.as_ref()?;
        let read = runtime.read(uid);
        let (status, as_of) = (read.status.as_deref()?, self.as_of(runtime, &read)?);
        let json = static_pod(status, as_of, &self.node).ok()??;
        Some(Known { pod: Arc::new(Pod::from_json(&json).ok()?), is_undecided: false })
    }

    /// The journal of the pods, which the first call begins. Its task is among `tasks`.
    pub(crate) fn journal(self: &Arc<Self>, tasks: &Tasks) -> Journal {
        let mut shown = self.shown.lock();
        let now = self.clock.now();
        if let Some(shown) = &mut *shown {
            shown.used_at = now;
            return shown.journal.clone();
        }
        // Before the pods are read, so that no change is missed.
        let (changes, writes) = (self.pods.changes(), self.runtime.as_ref().map(|runtime| runtime.watch_writes()));
        let journal = Journal::new(Kind::Pod, Order::OfThisRun);
        let base = u64::try_from(self.clock.wall_time(now) / 1_000).unwrap_or_default();
        let mut new =
            Shown { journal: journal.clone(), pods: BTreeMap::new(), undecided: BTreeSet::new(), used_at: now };
        // Not at version 0, which objects and their versions count from.
        journal.begin(base);
        for (key, known) in self.known() {
            new.put(&key, Some(known));
        }
        journal.begin(base);
        *shown = Some(new);
        let (pods, until) = (Arc::clone(self), tasks.token.clone());
        tasks.short.spawn(async move { until.run_until_cancelled(pods.follow(changes, writes)).await });
        journal
    }

    /// The pod of this namespace and name in the journal, as it is now.
    pub(crate) fn in_journal(&self, namespace: &str, name: &str) -> Option<Arc<KubeObject>> {
        let key = ObjectKey::new(namespace, name);
        self.refresh(&key);
        self.shown.lock().as_ref()?.pods.get(&key).cloned()
    }

    /// Feeds the journal, until nobody uses it.
    async fn follow(&self, mut changes: Changes<Pod>, mut writes: Option<WriteReceiver>) {
        let mut ticks = tokio::time::interval(LOOK_AGAIN);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let written = async {
                match &mut writes {
                    Some(writes) => writes.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                change = changes.next() => match change {
                    Some(Change::Resync(_)) => self.refresh_all(),
                    Some(Change::Set { new: pod, .. } | Change::Removed(pod)) => self.refresh(&pod.key()),
                    // larder is ending, and this task with it.
                    None => return std::future::pending().await,
                },
                written = written => match written {
                    Some(Written::Pod(uid)) => self.refresh_of(&uid),
                    Some(Written::Missed) => self.refresh_all(),
                    None => return std::future::pending().await,
                },
                _ = ticks.tick() => {
                    if self.ends() {
                        return;
                    }
                }
            }
        }
    }

    /// Looks again at what was undecided. Ends the journal, and says so, if nobody uses it.
    fn ends(&self) -> bool {
        let undecided = {
            let mut shown = self.shown.lock();
            let Some(now) = &mut *shown else { return true };
            let idle = self.clock.now().saturating_duration_since(now.used_at);
            if now.journal.followers() > 0 {
                now.used_at = self.clock.now();
            } else if idle > IDLE {
                now.journal.reset();
                *shown = None;
                return true;
            }
            now.undecided.clone()
        };
        for key in undecided {
            self.refresh(&key);
        }
        false
    }

    fn refresh_all(&self) {
        let mut keys: BTreeSet<ObjectKey> = self.pods.list().iter().map(|pod| pod.key()).collect();
        keys.extend(self.static_pods().into_keys());
        if let Some(shown) = &*self.shown.lock() {
            keys.extend(shown.pods.keys().cloned());
        }
        for key in keys {
            self.refresh(&key);
        }
    }

    /// The runtime's status of a pod has changed.
    fn refresh_of(&self, uid: &PodUid) {
        let text = uid.to_string();
        let status = self.runtime.as_ref().and_then(|runtime| runtime.read(uid).status);
        let named = status.map(|status| ObjectKey::new(&status.namespace, &status.name));
        let of_source = self.pods.get_by_runtime_uid(&text).map(|pod| pod.key());
        // A static pod that the API server does not have, and that has ended.
        let is_it = |pod: &KubeObject| pod.uid() == text;
        let of_journal = self
            .shown
            .lock()
            .as_ref()
            .and_then(|shown| shown.pods.iter().find(|(_, pod)| is_it(pod)).map(|(key, _)| key.clone()));
        for key in [named, of_source, of_journal].into_iter().flatten().collect::<BTreeSet<_>>() {
            self.refresh(&key);
        }
    }

    fn refresh(&self, key: &ObjectKey) {
        // Under the lock, so that what two threads see is in one order.
        let mut shown = self.shown.lock();
        if let Some(shown) = &mut *shown {
            shown.put(key, self.get(key));
        }
    }
}

impl Shown {
    /// Puts a pod into the journal, unless it is there as it is.
    fn put(&mut self, key: &ObjectKey, known: Option<Known>) {
        let version = self.journal.version().saturating_add(1);
        let Some(known) = known else {
            self.undecided.remove(key);
            if let Some(last) = self.pods.remove(key) {
                let last = numbered(&last, version).map(|last| last as Arc<larder_resource::journal::Resource>);
                self.journal.remove(key, last);
            }
            return;
        };
        if known.is_undecided {
            self.undecided.insert(key.clone());
        } else {
            self.undecided.remove(key);
        }
        let is_there = self.pods.get(key).is_some_and(|has| {
            let has_version = larder_objects::resource_version_order(has.resource_version());
            numbered(known.pod.as_ref().as_ref(), has_version).is_some_and(|same| *same.json() == *has.json())
        });
        if is_there {
            return;
        }
        if let Some(new) = numbered(known.pod.as_ref().as_ref(), version) {
            self.pods.insert(key.clone(), Arc::clone(&new));
            self.journal.set(new);
        }
    }
}

/// The pod with a version of the journal.
fn numbered(pod: &KubeObject, version: u64) -> Option<Arc<KubeObject>> {
    let json = with_resource_version(&pod.json(), version).ok()?;
    KubeObject::from_json(Kind::Pod, &json).ok().map(Arc::new)
}

impl<M: MachineClocks> fmt::Debug for NodePods<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodePods").field("node", &self.node).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
