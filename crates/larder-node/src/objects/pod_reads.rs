//! Reads for a pod, and what they keep: the pod's references, until the read is answered.
//!
//! The registrar unregisters a pod that is deleted or terminal. While reads for this pod are in flight, the cache defers that
//! to the end of the last one.

use super::ObjectCache;
use crate::answer::Answer;
use crate::error::ReadError;
use crate::fetch_log::{SourceFetch, SourceReflectors};
use larder_clock::Clock;
use larder_objects::{Effects, ObjectKey, PodIdentity};
use larder_resource::KubeObject;
use std::collections::HashMap;
use std::time::Duration;

/// A pod, by namespace, name and UID.
type PodKey = (String, String, String);

/// The pods for which reads are in flight.
pub(super) type PodReads = HashMap<PodKey, InFlight>;

/// The reads in flight for one pod.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Their number; never 0.
    reads: usize,
    /// Whether the end of the last read unregisters the pod.
    is_leaving: bool,
}

fn key_of(pod: PodIdentity<'_>) -> PodKey {
    (pod.namespace.to_owned(), pod.name.to_owned(), pod.uid.to_owned())
}

/// A read in flight for a pod. It keeps the pod's references until it is dropped.
struct PodRead<'c, F, R, C>
where
    F: SourceFetch,
    R: SourceReflectors<F::Error>,
    C: Clock + Clone,
{
    cache: &'c ObjectCache<F, R, C>,
    pod: PodIdentity<'c>,
}

impl<F, R, C> Drop for PodRead<'_, F, R, C>
where
    F: SourceFetch,
    R: SourceReflectors<F::Error>,
    C: Clock + Clone,
{
    fn drop(&mut self) {
        let key = key_of(self.pod);
        let mut pod_reads = self.cache.pod_reads.lock();
        let Some(open) = pod_reads.get_mut(&key) else { return };
        open.reads -= 1;
        if open.reads > 0 {
            return;
        }
        // Under the lock, so that a read that begins now does not find the pod half unregistered.
        let is_leaving = pod_reads.remove(&key).is_some_and(|open| open.is_leaving);
        let effects = is_leaving.then(|| self.cache.unregister_now(self.pod));
        drop(pod_reads);
        drop(effects);
    }
}

impl<F, R, C> ObjectCache<F, R, C>
where
    F: SourceFetch,
    R: SourceReflectors<F::Error>,
    C: Clock + Clone,
{
    /// Reads an object for a pod, for at most `deadline`. The pod may be deleted meanwhile.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read); [`ReadError::NotReferencedByPod`] names the pod.
    pub(crate) async fn read_for(
        &self,
        pod: PodIdentity<'_>,
        name: &str,
        deadline: Duration,
    ) -> Result<Answer<KubeObject>, ReadError> {
        let refused = |why| ReadError::NotReferencedByPod {
            kind: self.kind,
            key: ObjectKey::new(pod.namespace, name),
            pod: ObjectKey::new(pod.namespace, pod.name),
            uid: pod.uid.to_owned(),
            why,
        };
        let result = match self.begin_read(pod) {
            None => Err(refused("its objects are not held: it is gone, or it has ended")),
            Some(_) if !self.references_of(pod).contains(&ObjectKey::new(pod.namespace, name)) => {
                Err(refused("the pod does not refer to it"))
            }
            Some(_read) => return self.read(pod.namespace, name, deadline).await,
        };
        self.metrics.read(&result, self.clock.now());
        result
    }

    /// Keeps the references of a pod that is registered until the guard is dropped.
    fn begin_read<'c>(&'c self, pod: PodIdentity<'c>) -> Option<PodRead<'c, F, R, C>> {
        let mut pod_reads = self.pod_reads.lock();
        if !self.objects.is_registered(pod) {
            return None;
        }
        pod_reads.entry(key_of(pod)).or_default().reads += 1;
        Some(PodRead { cache: self, pod })
    }

    /// Unregisters a pod that is deleted or terminal, once no read for it is in flight.
    pub(crate) fn unregister_pod(&self, pod: PodIdentity<'_>) {
        let mut pod_reads = self.pod_reads.lock();
        let effects = match pod_reads.get_mut(&key_of(pod)) {
            Some(open) => {
                open.is_leaving = true;
                Effects::none()
            }
            // Under the lock, as when a read ends.
            None => self.unregister_now(pod),
        };
        drop(pod_reads);
        effects.run();
    }

    /// The pod is registered again, so the end of its reads does not unregister it.
    pub(super) fn cancel_unregister(&self, pod: PodIdentity<'_>) {
        if let Some(open) = self.pod_reads.lock().get_mut(&key_of(pod)) {
            open.is_leaving = false;
        }
    }
}
