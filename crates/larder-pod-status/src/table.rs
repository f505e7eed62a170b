//! The waits that are open, ordered by the time they wait for, and those that are answered but not yet fetched.
//!
//! Each pod that is waited for has a record, found by its UID: the wait for the earliest time, and a heap of the others. A
//! heap over all pods orders them by that earliest time. So a time that wakes nobody costs one comparison, and one that
//! wakes k waits among n costs O(k log n) at most; to begin or drop a wait costs O(log n) at most, and mostly O(1): a wait
//! for a later time than most stays where it is put, at the end of the heap.
//!
//! # Limits
//!
//! The table holds what is open or answered, and little else: its slabs and heaps give memory back as waits end. What
//! bounds it is the number of futures that its users hold.

mod heap;
mod slab;

use crate::{Entry, PodUid};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use heap::{Heap, Order};
use larder_clock::Timestamp;
pub(crate) use slab::Id;
use slab::Slab;
use std::hash::BuildHasher;
use std::task::Waker;

/// Every wait, by its [`Id`], which its future holds and gives back.
pub(crate) struct WaitTable<S, E> {
    waits: Slab<Wait<S, E>>,
    pods: Slab<Pod>,
    /// For each pod the wait that is its `first`.
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

impl<S, E> Wait<S, E> {
    /// How it ended and with what, if it did.
    pub(crate) fn ended(self) -> Option<(End, Entry<S, E>)> {
        match self {
            Self::Open(_) => None,
            Self::Ended(end, entry) => Some((end, entry)),
        }
    }
}

pub(crate) struct Open {
    min: Min,
    waker: Option<Waker>,
    pod: Id,
    /// The place in the pod's heap of other waits; meaningless for its first.
    at: u32,
}

/// How a wait ended, that is to say without being dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The time waited for has come.
    Answered,
    /// The writer was dropped.
    WriterGone,
}

/// A timestamp that is not aligned to 16 bytes, for what is held in great numbers.
#[derive(Clone, Copy)]
struct Min([u8; 16]);

impl Min {
    fn new(time: Timestamp) -> Self {
        Self(time.as_nanos().to_ne_bytes())
    }

    fn nanos(self) -> i128 {
        i128::from_ne_bytes(self.0)
    }
}

/// A pod that is waited for.
struct Pod {
    uid: PodUid,
    /// The wait for the earliest time.
    first: Id,
    /// The place of `first` in the heap of all pods.
    at: u32,
    others: Option<Box<Heap>>,
}

/// The hash is held so that the table grows without looking at the pods.
struct Bucket {
    pod: Id,
    hash: u32,
}

impl Bucket {
    /// The table takes its buckets from the lower bits of a hash, and its tags from the upper ones.
    fn spread(hash: u32) -> u64 {
        u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Heap places are kept in 32 bits: there are no more elements than [`Id`]s.
fn narrow(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The order of one pod's waits, the first excepted.
struct OfPod<'t, S, E>(&'t mut Slab<Wait<S, E>>);

impl<S, E> Order for OfPod<'_, S, E> {
    fn key(&self, id: Id) -> i128 {
        key(self.0, id)
    }

    fn place(&mut self, id: Id, at: usize) {
        if let Some(Wait::Open(open)) = self.0.get_mut(id) {
            open.at = narrow(at);
        }
    }
}

/// The order of all pods by their first waits.
struct OfAll<'t, S, E>(&'t Slab<Wait<S, E>>, &'t mut Slab<Pod>);

impl<S, E> Order for OfAll<'_, S, E> {
    fn key(&self, id: Id) -> i128 {
        key(self.0, id)
    }

    fn place(&mut self, id: Id, at: usize) {
        if let Some(Wait::Open(open)) = self.0.get(id)
            && let Some(pod) = self.1.get_mut(open.pod)
        {
            pod.at = narrow(at);
        }
    }
}

fn key<S, E>(waits: &Slab<Wait<S, E>>, id: Id) -> i128 {
    match waits.get(id) {
        Some(Wait::Open(open)) => open.min.nanos(),
        // Only open waits are in a heap.
        _ => i128::MAX,
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

    /// Waits that are neither answered nor dropped.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// The pods that are waited for, in no particular order.
    pub(crate) fn uids(&self) -> Vec<PodUid> {
        self.pods.iter().map(|(_, pod)| pod.uid.clone()).collect()
    }

    /// Whether any wait is due at `now`, whichever pod it is for.
    pub(crate) fn any_due(&self, now: Timestamp) -> bool {
        self.earliest.peek().is_some_and(|first| key(&self.waits, first) <= now.as_nanos())
    }

    /// Opens a wait, which stays until it is [taken](Self::take) or [removed](Self::remove).
    pub(crate) fn begin(&mut self, uid: &PodUid, min: Timestamp) -> Id {
        self.open += 1;
        let hash = self.hash(uid);
        let new = |pod| Wait::Open(Open { min: Min::new(min), waker: None, pod, at: 0 });
        let Some(pod_id) = self.find(hash, uid) else {
            return self.begin_first(hash, uid.clone(), new);
        };
        let id = self.waits.insert_with(|_| new(pod_id));
        if let Some(pod) = self.pods.get_mut(pod_id) {
            let (first, at) = (pod.first, pod.at);
            let earlier = min.as_nanos() < key(&self.waits, first);
            let other = if earlier { std::mem::replace(&mut pod.first, id) } else { id };
            let others = pod.others.get_or_insert_with(|| Box::new(Heap::new()));
            others.push(&mut OfPod(&mut self.waits), other);
            if earlier {
                self.earliest.replace(&mut OfAll(&self.waits, &mut self.pods), at as usize, id);
            }
        }
        id
    }

    /// Opens the only wait of a pod; the two records name each other.
    fn begin_first(&mut self, hash: u32, uid: PodUid, new: impl Fn(Id) -> Wait<S, E>) -> Id {
        let Self { waits, pods, .. } = self;
        let pod = pods.insert_with(|pod| Pod { uid, first: waits.insert_with(|_| new(pod)), at: 0, others: None });
        let id = pods[pod].first;
        self.by_uid.insert_unique(Bucket::spread(hash), Bucket { pod, hash }, |bucket| Bucket::spread(bucket.hash));
        self.earliest.push(&mut OfAll(&self.waits, &mut self.pods), id);
        id
    }

    /// Adds a wait that has ended already.
    pub(crate) fn insert_ended(&mut self, end: End, entry: Entry<S, E>) -> Id {
        self.waits.insert_with(|_| Wait::Ended(end, entry))
    }

    /// Removes the wait if it has ended, and says how and with what.
    pub(crate) fn take(&mut self, id: Id) -> Option<(End, Entry<S, E>)> {
        if !matches!(self.waits.get(id)?, Wait::Ended(..)) {
            return None;
        }
        self.waits.remove(id).and_then(Wait::ended)
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
        if let Some(Wait::Open(open)) = self.waits.get(id) {
            let (pod, at) = (open.pod, open.at);
            self.unlink(id, pod, at);
            self.open -= 1;
        }
        self.waits.remove(id)
    }

    /// Takes an open wait out of its pod's order, and the pod out of the order of all if it was the last.
    fn unlink(&mut self, id: Id, pod_id: Id, at: u32) {
        let Some(pod) = self.pods.get_mut(pod_id) else { return };
        let others = pod.others.as_deref_mut();
        if pod.first != id {
            if let Some(others) = others {
                others.remove(&mut OfPod(&mut self.waits), at as usize);
            }
            return;
        }
        let next = others.and_then(|others| others.pop(&mut OfPod(&mut self.waits)));
        let at = pod.at as usize;
        if let Some(next) = next {
            pod.first = next;
            self.earliest.replace(&mut OfAll(&self.waits, &mut self.pods), at, next);
        } else {
            self.earliest.remove(&mut OfAll(&self.waits, &mut self.pods), at);
            self.remove_pod(pod_id);
        }
    }

    fn remove_pod(&mut self, id: Id) {
        let Some(pod) = self.pods.remove(id) else { return };
        let hash = self.hash(&pod.uid);
        if let Ok(found) = self.by_uid.find_entry(Bucket::spread(hash), |bucket| bucket.pod == id) {
            found.remove();
        }
        if self.by_uid.len() < self.by_uid.capacity() / 8 {
            self.by_uid.shrink_to(self.by_uid.len() * 2, |bucket| Bucket::spread(bucket.hash));
        }
    }

    /// Answers the pod's waits for `now` and before with the entry that it has.
    pub(crate) fn answer_pod(
        &mut self,
        uid: &PodUid,
        now: Timestamp,
        entry: impl FnOnce(&PodUid) -> Entry<S, E>,
    ) -> Wakers {
        let mut wakers = Wakers::default();
        if !self.any_due(now) {
            return wakers;
        }
        let Some(pod_id) = self.find(self.hash(uid), uid) else { return wakers };
        let (first, at) = (self.pods[pod_id].first, self.pods[pod_id].at as usize);
        if key(&self.waits, first) > now.as_nanos() {
            return wakers;
        }
        let next = self.end_due(pod_id, now, End::Answered, entry, &mut Vec::new(), &mut wakers);
        if let Some(next) = next {
            self.earliest.replace(&mut OfAll(&self.waits, &mut self.pods), at, next);
        } else {
            self.earliest.remove(&mut OfAll(&self.waits, &mut self.pods), at);
            self.remove_pod(pod_id);
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
        if !self.any_due(now) {
            return wakers;
        }
        let mut firsts = Vec::new();
        self.earliest.take_due(&mut OfAll(&self.waits, &mut self.pods), now.as_nanos(), &mut firsts);
        let mut scratch = Vec::new();
        for first in firsts {
            let Some(Wait::Open(open)) = self.waits.get(first) else { continue };
            let pod_id = open.pod;
            match self.end_due(pod_id, now, end, &mut entry, &mut scratch, &mut wakers) {
                Some(next) => self.earliest.push(&mut OfAll(&self.waits, &mut self.pods), next),
                None => self.remove_pod(pod_id),
            }
        }
        wakers
    }

    /// Ends the waits of a pod whose first is due, and gives its new first, if waits are left.
    fn end_due(
        &mut self,
        pod_id: Id,
        now: Timestamp,
        end: End,
        entry: impl FnOnce(&PodUid) -> Entry<S, E>,
        due: &mut Vec<Id>,
        wakers: &mut Wakers,
    ) -> Option<Id> {
        let pod = self.pods.get_mut(pod_id)?;
        due.clear();
        let mut next = None;
        if let Some(others) = pod.others.as_deref_mut() {
            let order = &mut OfPod(&mut self.waits);
            others.take_due(order, now.as_nanos(), due);
            next = others.pop(order);
        }
        let first = pod.first;
        pod.first = next.unwrap_or(first);
        let entry = entry(&pod.uid);
        self.open -= due.len() + 1;
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
            wakers.0.extend(open.waker);
        }
    }

    fn hash(&self, uid: &PodUid) -> u32 {
        let hash = self.hasher.hash_one(uid);
        u32::try_from(hash >> 32).unwrap_or_default()
    }

    fn find(&self, hash: u32, uid: &PodUid) -> Option<Id> {
        let is_it =
            |bucket: &Bucket| bucket.hash == hash && self.pods.get(bucket.pod).is_some_and(|pod| pod.uid == *uid);
        self.by_uid.find(Bucket::spread(hash), is_it).map(|bucket| bucket.pod)
    }
}

/// The wakers of waits that have ended, to be woken once the lock is released; that is done when it is dropped.
#[derive(Default)]
#[must_use = "the waits are woken when it is dropped, which is to be after the lock is"]
pub(crate) struct Wakers(Vec<Waker>);

impl Drop for Wakers {
    fn drop(&mut self) {
        for waker in self.0.drain(..) {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests;
