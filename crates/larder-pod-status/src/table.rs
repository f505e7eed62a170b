//! The open waits, ordered by the time that they wait for, and the ended waits whose futures were not polled since.
//!
//! Each pod with waits has a record, found by its UID: the wait for the earliest time, and a heap of the others. A heap over
//! all pods orders them by that earliest time. So a time that ends no wait costs one comparison, and a time that ends k waits
//! among n costs O(k log n) at most. To begin or drop a wait costs O(log n) at most, and O(1) if it is for a later time than
//! most.
//!
//! # Limits
//!
//! The table frees memory as waits end. Its size is bounded by the number of futures that its users hold.

mod heap;
mod slab;

use crate::{Entry, PodUid};
use foldhash::quality::RandomState;
use hashbrown::HashTable;
use heap::Heap;
use larder_clock::Timestamp;
pub(crate) use slab::Id;
use slab::Slab;
use std::hash::BuildHasher;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;

/// Every wait, by its [`Id`], which its future holds and gives back.
pub(crate) struct WaitTable<S, E> {
    waits: Slab<Wait<S, E>>,
    pods: Slab<Pod>,
    /// The pods by their earliest waits.
    earliest: Heap,
    by_uid: HashTable<Bucket>,
    hasher: RandomState,
    open: usize,
}

/// A wait and what became of it.
pub(crate) enum Wait<S, E> {
    Open(Open),
    Ended(End, Entry<S, E>),
}

pub(crate) struct Open {
    waker: Option<Waker>,
    pod: Id,
    /// The place among the pod's other waits; 0 for its first, which was the earliest of them if it was one of them.
    at: u32,
}

/// How a wait ended, other than by being dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The time waited for has come.
    Answered,
    /// The writer was dropped.
    WriterGone,
}

impl<S, E> Wait<S, E> {
    /// How it ended and with what, if it did.
    pub(crate) fn ended(self) -> Option<(End, Entry<S, E>)> {
        match self {
            Self::Open(_) => None,
            Self::Ended(end, entry) => Some((end, entry)),
        }
    }
}

/// A pod that is waited for.
struct Pod {
    uid: PodUid,
    /// The wait for the earliest time.
    first: Id,
    /// The place in the heap of all pods, which holds that time.
    at: u32,
    /// Its other waits, if there are any.
    others: Option<Box<Heap>>,
}

/// The hash is held so that the table grows without looking at the pods.
struct Bucket {
    pod: Id,
    hash: u32,
}

/// The table takes buckets from the lower bits of a hash, and tags from the upper ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Notes where the waits of a pod are in its heap.
fn place_waits<S, E>(waits: &mut Slab<Wait<S, E>>) -> impl FnMut(Id, u32) {
    |id, at| {
        if let Some(Wait::Open(open)) = waits.get_mut(id) {
            open.at = at;
        }
    }
}

/// Notes where pods are in the heap of all.
fn place_pods(pods: &mut Slab<Pod>) -> impl FnMut(Id, u32) {
    |id, at| {
        if let Some(pod) = pods.get_mut(id) {
            pod.at = at;
        }
    }
}

impl<S, E> WaitTable<S, E> {
    pub(crate) fn new() -> Self {
        Self {
            waits: Slab::new(),
            pods: Slab::new(),
            earliest: Heap::new(),
            by_uid: HashTable::new(),
            hasher: RandomState::default(),
            open: 0,
        }
    }

    /// Waits that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// The pods that open waits are for, in no particular order.
    pub(crate) fn uids(&self) -> Vec<PodUid> {
        self.pods.values().map(|pod| pod.uid.clone()).collect()
    }

    /// Whether any wait is for `now` or before.
    pub(crate) fn any_due(&self, now: Timestamp) -> bool {
        self.earliest.min().is_some_and(|min| min <= now)
    }

    /// Opens a wait, which stays until it is [taken](Self::take) or [removed](Self::remove).
    pub(crate) fn begin(&mut self, uid: &PodUid, min: Timestamp) -> Id {
        self.open += 1;
        let hash = self.hash(uid);
        let Some(pod_id) = self.find(hash, uid) else { return self.begin_first(hash, uid, min) };
        let id = self.waits.insert(Wait::Open(Open { waker: None, pod: pod_id, at: 0 }));
        if let Some(pod) = self.pods.get_mut(pod_id) {
            let at = pod.at;
            let first_min = self.earliest.min_at(at).filter(|&first_min| min < first_min);
            let (other_min, other) = match first_min {
                Some(first_min) => (first_min, std::mem::replace(&mut pod.first, id)),
                None => (min, id),
            };
            match &mut pod.others {
                Some(others) => others.push(other_min, other, &mut place_waits(&mut self.waits)),
                // The other one need not be looked at, and likely is in no cache: its place is 0 whether it is new or was
                // first.
                none => *none = Some(Box::new(Heap::of_one(other_min, other))),
            }
            if first_min.is_some() {
                self.earliest.set_min(at, min, &mut place_pods(&mut self.pods));
            }
        }
        id
    }

    /// Opens the only wait of a pod.
    fn begin_first(&mut self, hash: u32, uid: &PodUid, min: Timestamp) -> Id {
        let pod = self.pods.next_id();
        let id = self.waits.insert(Wait::Open(Open { waker: None, pod, at: 0 }));
        let pod = self.pods.insert(Pod { uid: uid.clone(), first: id, at: 0, others: None });
        self.by_uid.insert_unique(spread(hash), Bucket { pod, hash }, |bucket| spread(bucket.hash));
        self.earliest.push(min, pod, &mut place_pods(&mut self.pods));
        id
    }

    /// Adds a wait that has ended already.
    pub(crate) fn insert_ended(&mut self, end: End, entry: Entry<S, E>) -> Id {
        self.waits.insert(Wait::Ended(end, entry))
    }

    /// Removes the wait if it has ended, and says how and with what.
    pub(crate) fn take(&mut self, id: Id) -> Option<(End, Entry<S, E>)> {
        match self.waits.get(id)? {
            Wait::Open(_) => None,
            Wait::Ended(..) => self.waits.remove(id).and_then(Wait::ended),
        }
    }

    /// The pod of a wait that is open.
    pub(crate) fn uid(&self, id: Id) -> Option<&PodUid> {
        match self.waits.get(id)? {
            Wait::Open(open) => self.pods.get(open.pod).map(|pod| &pod.uid),
            Wait::Ended(..) => None,
        }
    }

    /// The waker of a wait that is open.
    pub(crate) fn waker(&mut self, id: Id) -> Option<&mut Option<Waker>> {
        match self.waits.get_mut(id)? {
            Wait::Open(open) => Some(&mut open.waker),
            Wait::Ended(..) => None,
        }
    }

    /// Removes a wait, ended or not. What it held is the caller's to drop, where no lock is held.
    pub(crate) fn remove(&mut self, id: Id) -> Option<Wait<S, E>> {
        let removed = self.waits.remove(id)?;
        if let Wait::Open(open) = &removed {
            self.open -= 1;
            self.unlink(id, open);
        }
        Some(removed)
    }

    /// Takes an open wait out of its pod's order, and the pod out of the order of all if it was its last.
    fn unlink(&mut self, id: Id, open: &Open) {
        let Some(pod) = self.pods.get_mut(open.pod) else { return };
        if pod.first == id {
            let next = next_first(pod, &mut self.waits);
            self.reorder(open.pod, next);
        } else if let Some(others) = &mut pod.others {
            others.remove(open.at, &mut place_waits(&mut self.waits));
            if others.is_empty() {
                pod.others = None;
            }
        }
    }

    /// Moves a pod to where its new first wait belongs, or removes it if it has no wait any more.
    fn reorder(&mut self, pod_id: Id, first_min: Option<Timestamp>) {
        let Some(at) = self.pods.get(pod_id).map(|pod| pod.at) else { return };
        if let Some(min) = first_min {
            self.earliest.set_min(at, min, &mut place_pods(&mut self.pods));
        } else {
            self.earliest.remove(at, &mut place_pods(&mut self.pods));
            self.remove_pod(pod_id);
        }
    }

    fn remove_pod(&mut self, id: Id) {
        let Some(pod) = self.pods.remove(id) else { return };
        if let Ok(found) = self.by_uid.find_entry(spread(self.hash(&pod.uid)), |bucket| bucket.pod == id) {
            found.remove();
        }
        // What is left over when it has shrunk is room enough for as many again.
        if self.by_uid.len() < self.by_uid.num_buckets() / 16 {
            self.by_uid.shrink_to(self.by_uid.len() * 2, |bucket| spread(bucket.hash));
        }
    }

    /// Ends the pod's waits for `now` and before, with the entry that it has; none where no pod's wait is due, which is most
    /// often so, and known without a search.
    #[inline]
    pub(crate) fn answer_pod(
        &mut self,
        uid: &PodUid,
        now: Timestamp,
        entry: impl FnOnce(&PodUid) -> Entry<S, E>,
    ) -> Option<Wakers> {
        self.any_due(now).then(|| self.answer_due(uid, now, entry))
    }

    #[cold]
    fn answer_due(&mut self, uid: &PodUid, now: Timestamp, entry: impl FnOnce(&PodUid) -> Entry<S, E>) -> Wakers {
        let mut wakers = Wakers::default();
        if let Some(pod_id) = self.find(self.hash(uid), uid)
            && self.pods.get(pod_id).and_then(|pod| self.earliest.min_at(pod.at)).is_some_and(|min| min <= now)
        {
            let next = self.end_due(pod_id, now, End::Answered, entry, &mut Vec::new(), &mut wakers);
            self.reorder(pod_id, next);
        }
        wakers
    }

    /// Ends every pod's waits for `now` and before, each with the entry that its pod has.
    pub(crate) fn end_all(
        &mut self,
        now: Timestamp,
        end: End,
        mut entry: impl FnMut(&PodUid) -> Entry<S, E>,
    ) -> Wakers {
        let mut wakers = Wakers::default();
        let mut pods = Vec::new();
        self.earliest.take_due(now, &mut pods, &mut place_pods(&mut self.pods));
        let mut due = Vec::new();
        for pod_id in pods {
            if let Some(min) = self.end_due(pod_id, now, end, &mut entry, &mut due, &mut wakers) {
                self.earliest.push(min, pod_id, &mut place_pods(&mut self.pods));
            } else {
                self.remove_pod(pod_id);
            }
        }
        wakers
    }

    /// Ends the waits of a pod whose first is due, and says for when its new first is, if there is one.
    fn end_due(
        &mut self,
        pod_id: Id,
        now: Timestamp,
        end: End,
        entry: impl FnOnce(&PodUid) -> Entry<S, E>,
        due: &mut Vec<Id>,
        wakers: &mut Wakers,
    ) -> Option<Timestamp> {
        let pod = self.pods.get_mut(pod_id)?;
        due.clear();
        if let Some(others) = &mut pod.others {
            others.take_due(now, due, &mut place_waits(&mut self.waits));
        }
        let first = pod.first;
        let next = next_first(pod, &mut self.waits);
        let entry = entry(&pod.uid);
        for &id in &*due {
            self.end(id, end, entry.clone(), wakers);
        }
        self.end(first, end, entry, wakers);
        next
    }

    fn end(&mut self, id: Id, end: End, entry: Entry<S, E>, wakers: &mut Wakers) {
        if let Some(wait) = self.waits.get_mut(id)
            && let Wait::Open(open) = std::mem::replace(wait, Wait::Ended(end, entry))
        {
            self.open -= 1;
            wakers.0.extend(open.waker);
        }
    }

    fn hash(&self, uid: &PodUid) -> u32 {
        u32::try_from(self.hasher.hash_one(uid) >> 32).unwrap_or_default()
    }

    fn find(&self, hash: u32, uid: &PodUid) -> Option<Id> {
        let is_it =
            |bucket: &Bucket| bucket.hash == hash && self.pods.get(bucket.pod).is_some_and(|pod| pod.uid == *uid);
        self.by_uid.find(spread(hash), is_it).map(|bucket| bucket.pod)
    }
}

/// Makes the earliest of a pod's other waits its first, and says for when it is; `None` where there is no other.
fn next_first<S, E>(pod: &mut Pod, waits: &mut Slab<Wait<S, E>>) -> Option<Timestamp> {
    let others = pod.others.as_deref_mut()?;
    let next = others.pop(&mut place_waits(waits));
    if others.is_empty() {
        pod.others = None;
    }
    let (min, first) = next?;
    pod.first = first;
    Some(min)
}

/// The wakers of waits that have ended; dropping it wakes them. One that panics keeps none of the others from being woken: the
/// first panic goes on once all are, unless the thread is unwinding already.
#[derive(Default)]
#[must_use = "the waits are woken when it is dropped, which is to be after the lock is"]
pub(crate) struct Wakers(Vec<Waker>);

impl Drop for Wakers {
    fn drop(&mut self) {
        let mut panic = None;
        for waker in self.0.drain(..) {
            // What a waker leaves half done when it panics is its own.
            match catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                Err(payload) if panic.is_none() => panic = Some(payload),
                // To drop it could panic again.
                Err(payload) => std::mem::forget(payload),
                Ok(()) => {}
            }
        }
        match panic {
            Some(panic) if std::thread::panicking() => std::mem::forget(panic),
            Some(panic) => resume_unwind(panic),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
