//! Which pods wait for a relist of their own: bounded, each pod at most once.

use larder_clock::Timestamp;
use larder_pod_status::PodUid;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use tokio::sync::Notify;

/// The requests that have not been served. Its lock is never held over an `.await`.
#[derive(Debug)]
pub(crate) struct RelistQueue {
    waiting: Mutex<Waiting>,
    capacity: usize,
    /// One consumer, so a single stored permit is enough.
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    order: VecDeque<PodUid>,
    /// When each was last asked for: a relist that began before then does not serve it.
    asked: HashMap<PodUid, Timestamp>,
    /// When a request was last turned away because the queue was full, if that is not served yet.
    overflowed: Option<Timestamp>,
    /// How often a request was turned away.
    overflows: u64,
}

/// A request, and when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// More pods than fit were asked for: all are to be relisted.
    All(Timestamp),
    /// One pod is to be relisted.
    Pod(PodUid, Timestamp),
}

impl RelistQueue {
    pub(crate) fn new(capacity: NonZeroUsize) -> Self {
        Self { waiting: Mutex::default(), capacity: capacity.get(), arrived: Notify::new() }
    }

    /// Asks for a pod; false if the queue is full, so that all pods are asked for instead.
    pub(crate) fn push(&self, uid: PodUid, at: Timestamp) -> bool {
        let mut waiting = self.waiting.lock();
        let fits = if let Some(asked) = waiting.asked.get_mut(&uid) {
            *asked = at.max(*asked);
            true
        } else if waiting.order.len() < self.capacity {
            waiting.order.push_back(uid.clone());
            waiting.asked.insert(uid, at);
            true
        } else {
            waiting.overflowed = waiting.overflowed.max(Some(at));
            waiting.overflows += 1;
            false
        };
        drop(waiting);
        self.arrived.notify_one();
        fits
    }

    /// The next request. For one consumer only; dropped before it has answered, it has taken nothing.
    pub(crate) async fn next(&self) -> Request {
        loop {
            if let Some(request) = self.pop() {
                return request;
            }
            self.arrived.notified().await;
        }
    }

    fn pop(&self) -> Option<Request> {
        let mut waiting = self.waiting.lock();
        if let Some(at) = waiting.overflowed.take() {
            return Some(Request::All(at));
        }
        let uid = waiting.order.pop_front()?;
        let at = waiting.asked.remove(&uid)?;
        Some(Request::Pod(uid, at))
    }

    /// How often a request was turned away, so that all pods were asked for.
    pub(crate) fn overflows(&self) -> u64 {
        self.waiting.lock().overflows
    }

    /// How many pods wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.lock().order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn at(nanos: i128) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    fn queue(capacity: usize) -> RelistQueue {
        RelistQueue::new(NonZeroUsize::new(capacity).unwrap())
    }

    fn take(queue: &RelistQueue) -> Option<Request> {
        queue.next().now_or_never()
    }

    #[test]
    fn a_pod_waits_once_with_the_time_of_its_latest_request() {
        let queue = queue(2);
        assert!(queue.push("a".into(), at(1)) && queue.push("b".into(), at(2)) && queue.push("a".into(), at(3)));
        assert_eq!(queue.len(), 2);
        assert_eq!(take(&queue), Some(Request::Pod("a".into(), at(3))));
        assert_eq!(take(&queue), Some(Request::Pod("b".into(), at(2))));
        assert_eq!(take(&queue), None);
    }

    #[test]
    fn a_pod_asked_for_again_while_it_is_served_is_served_again() {
        let queue = queue(1);
        queue.push("a".into(), at(1));
        assert_eq!(take(&queue), Some(Request::Pod("a".into(), at(1))));
        assert!(queue.push("a".into(), at(1)));
        assert_eq!(take(&queue), Some(Request::Pod("a".into(), at(1))));
    }

    #[test]
    fn more_pods_than_fit_ask_for_all_and_are_not_kept() {
        let queue = queue(1);
        queue.push("a".into(), at(1));
        for n in 2..10_000 {
            assert!(!queue.push(format!("pod-{n}").as_str().into(), at(n)));
        }
        assert_eq!((queue.len(), queue.overflows()), (1, 9_998));
        assert_eq!(take(&queue), Some(Request::All(at(9_999))));
        assert_eq!(take(&queue), Some(Request::Pod("a".into(), at(1))));
        assert_eq!(take(&queue), None);
    }

    #[test]
    fn a_request_wakes_whoever_waits_for_one() {
        let queue = queue(1);
        let mut next = Box::pin(queue.next());
        assert_eq!((&mut next).now_or_never(), None);
        queue.push("a".into(), at(1));
        assert_eq!(next.now_or_never(), Some(Request::Pod("a".into(), at(1))));
    }
}
