//! Follows the pods of this node, and registers each with the object cache of each kind.
//!
//! The source of the pods sends the changes. A read of the node calls [`Registrar::caught_up`] before it asks a cache.
//!
//! # Guarantees
//!
//! - A pod is registered from when its source reports it until it is deleted or, with
//!   [`release_ended_pods`](crate::Policy::release_ended_pods), terminal, whichever is first. A version of a pod that cannot be
//!   parsed changes nothing.
//! - A pod whose deletion the source missed, because its watch had a gap, is unregistered by the next full list.
//! - A read that comes between a pod's arrival and its registration waits for the registration. So it is not refused, and it is
//!   not answered with an object that was fetched before the pod came.

use crate::objects::ObjectCache;
use crate::source::{ObjectReflectors, ObjectSource};
use futures_util::FutureExt as _;
use larder_clock::{MachineClocks, MonotonicClock, ThisMachine};
use larder_objects::PodIdentity;
use larder_resource::{Change, PerKind, Pod, SourceReader};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The object cache of one kind.
pub(crate) type Cache<M = ThisMachine> = ObjectCache<ObjectSource, ObjectReflectors, MonotonicClock<M>>;

/// The object cache of each kind.
pub(crate) type Caches<M = ThisMachine> = PerKind<Cache<M>>;

/// Registers the pods with the caches.
pub(crate) struct Registrar<M: MachineClocks = ThisMachine> {
    pods: SourceReader<Pod>,
    caches: Arc<Caches<M>>,
    /// Whether a terminal pod releases its objects.
    release_ended: bool,
    /// How many changes of the pods have been applied. Reads that wait for a registration watch it.
    done: watch::Sender<u64>,
    /// Pods that cannot be parsed, by namespace and name, each with the error.
    unreadable: Mutex<BTreeMap<(String, String), String>>,
}

fn identity(pod: &Pod) -> PodIdentity<'_> {
    PodIdentity { namespace: pod.namespace(), name: pod.name(), uid: pod.uid() }
}

impl<M: MachineClocks> Registrar<M> {
    pub(crate) fn new(pods: SourceReader<Pod>, caches: Arc<Caches<M>>, release_ended: bool) -> Self {
        Self { pods, caches, release_ended, done: watch::Sender::new(0), unreadable: Mutex::default() }
    }

    /// Follows the pods until the token is cancelled, or their source is gone.
    pub(crate) async fn run(&self, token: CancellationToken) {
        let mut changes = self.pods.changes();
        while let Some(Some(change)) = token.run_until_cancelled(changes.next()).await {
            self.apply(&change);
            loop {
                // Counted before the queue is seen to be empty: then every change that was counted has been applied.
                let counted = self.pods.status().changes;
                match changes.next().now_or_never() {
                    Some(Some(change)) => self.apply(&change),
                    Some(None) => return,
                    None => {
                        self.done.send_replace(counted);
                        break;
                    }
                }
            }
        }
    }

    fn apply(&self, change: &Change<Pod>) {
        match change {
            Change::Resync(all) => self.resync(all),
            Change::Set { new, .. } => self.set(new),
            Change::Removed(old) => self.remove(old),
        }
    }

    fn resync(&self, all: &[Arc<Pod>]) {
        let there: HashSet<(&str, &str, &str)> =
            all.iter().map(|pod| (pod.namespace(), pod.name(), pod.uid())).collect();
        for cache in self.caches.values() {
            for (pod, uid) in cache.registered_pods() {
                if !there.contains(&(pod.namespace(), pod.name(), uid.as_str())) {
                    cache.unregister_pod(PodIdentity { namespace: pod.namespace(), name: pod.name(), uid: &uid });
                }
            }
        }
        self.unreadable
            .lock()
            .retain(|(namespace, name), _| all.iter().any(|pod| pod.namespace() == namespace && pod.name() == name));
        for pod in all {
            self.set(pod);
        }
    }

    fn set(&self, pod: &Pod) {
        if self.release_ended && pod.is_terminal() {
            return self.remove(pod);
        }
        let key = || (pod.namespace().to_owned(), pod.name().to_owned());
        match pod.typed() {
            Ok(typed) => {
                self.unreadable.lock().remove(&key());
                for cache in self.caches.values() {
                    cache.register_pod(&typed);
                }
            }
            Err(error) => {
                tracing::warn!(namespace = pod.namespace(), pod = pod.name(), %error, "cannot read the pod: larder holds the objects of the version before, if it could read that");
                self.unreadable.lock().insert(key(), error.to_string());
            }
        }
    }

    fn remove(&self, pod: &Pod) {
        self.unreadable.lock().remove(&(pod.namespace().to_owned(), pod.name().to_owned()));
        for cache in self.caches.values() {
            cache.unregister_pod(identity(pod));
        }
    }

    /// Waits until every change of the pods that is known now has been applied. So a read that begins when a pod is known finds
    /// the pod's references. Cancel safe.
    pub(crate) async fn caught_up(&self) {
        let known = self.pods.status().changes;
        if *self.done.borrow() < known {
            // An error means that the registrar is gone, because the daemon ends.
            let _ = self.done.subscribe().wait_for(|done| *done >= known).await;
        }
    }

    /// Pods that cannot be parsed, each with the error.
    ///
    /// A pod that may not be named is only counted.
    pub(crate) fn unreadable(&self, may_name: impl Fn(&str, &str) -> bool) -> Vec<String> {
        let unreadable = self.unreadable.lock();
        let (named, others): (Vec<_>, Vec<_>) =
            unreadable.iter().partition(|((namespace, name), _)| may_name(namespace, name));
        let mut lines: Vec<_> =
            named.into_iter().map(|((namespace, name), why)| format!("pod {namespace}/{name}: {why}")).collect();
        if !others.is_empty() {
            lines.push(format!("pods that cannot be read, and that you may not see: {}", others.len()));
        }
        lines
    }
}

#[cfg(test)]
mod tests;
