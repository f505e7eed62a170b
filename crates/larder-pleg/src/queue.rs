//! The requests that wait for the relist loop: pods to relist alone, and containers of events to ask for. Bounded; each pod
//! waits at most once.

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
    /// The same for `targets`.
    target_arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    order: VecDeque<PodUid>,
    asked: HashMap<PodUid, Asked>,
    /// When all pods were last asked for, if that is not served yet.
    all: Option<Timestamp>,
    /// How often a request was turned away because the queue was full.
    overflows: u64,
    targets: VecDeque<EventTarget>,
}

/// When a pod was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The latest request: a relist that began before then does not serve it.
    pub(crate) last: Timestamp,
    /// The earliest of the runtime's events among the requests.
    pub(crate) event: Option<Timestamp>,
}

/// A container that has started or ended, as an event of the runtime says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventTarget {
    pub(crate) pod: PodUid,
    pub(crate) container: String,
    /// When the event arrived.
    pub(crate) at: Timestamp,
}

/// A request, and when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// All pods are to be relisted: somebody asked for that, or more pods than fit were asked for.
    All(Timestamp),
    /// One pod is to be relisted.
    Pod(PodUid, Asked),
}

impl RelistQueue {
    pub(crate) fn new(capacity: NonZeroUsize) -> Self {
        Self {
            waiting: Mutex::default(),
            capacity: capacity.get(),
            arrived: Notify::new(),
            target_arrived: Notify::new(),
        }
    }

    /// Asks for a pod; false if the queue is full, so that all pods are asked for instead.
    pub(crate) fn push(&self, uid: PodUid, at: Timestamp) -> bool {
        self.insert(uid, Asked { last: at, event: None })
    }

    /// Asks for a pod that the runtime has sent an event of; false if the queue is full, so that all pods are asked for.
    pub(crate) fn push_event(&self, uid: PodUid, at: Timestamp) -> bool {
        self.insert(uid, Asked { last: at, event: Some(at) })
    }

    /// Adds the container of an event. A target that does not fit is dropped, because the list of its pod shows the change,
    /// too, later.
    pub(crate) fn push_target(&self, target: EventTarget) {
        let mut waiting = self.waiting.lock();
        if waiting.targets.len() < self.capacity {
            waiting.targets.push_back(target);
        }
        drop(waiting);
        self.target_arrived.notify_one();
    }

    fn insert(&self, uid: PodUid, new: Asked) -> bool {
        let mut waiting = self.waiting.lock();
        let fits = if let Some(asked) = waiting.asked.get_mut(&uid) {
            asked.last = asked.last.max(new.last);
            asked.event = asked.event.into_iter().chain(new.event).min();
            true
        } else if waiting.order.len() < self.capacity {
            waiting.order.push_back(uid.clone());
            waiting.asked.insert(uid, new);
            true
        } else {
            waiting.all = waiting.all.max(Some(new.last));
            waiting.overflows += 1;
            false
        };
        drop(waiting);
        self.arrived.notify_one();
        fits
    }

    /// Asks for all pods.
    pub(crate) fn push_all(&self, at: Timestamp) {
        let mut waiting = self.waiting.lock();
        waiting.all = waiting.all.max(Some(at));
        drop(waiting);
        self.arrived.notify_one();
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

    /// The next target, for one consumer only. A future that is dropped before it has answered has taken nothing.
    pub(crate) async fn next_target(&self) -> EventTarget {
        loop {
            if let Some(target) = self.waiting.lock().targets.pop_front() {
                return target;
            }
            self.target_arrived.notified().await;
        }
    }

    fn pop(&self) -> Option<Request> {
        let mut waiting = self.waiting.lock();
        if let Some(at) = waiting.all.take() {
            return Some(Request::All(at));
        }
        let uid = waiting.order.pop_front()?;
        let asked = waiting.asked.remove(&uid)?;
        Some(Request::Pod(uid, asked))
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

    fn pod(uid: &str, last: i128) -> Request {
        Request::Pod(uid.into(), Asked { last: at(last), event: None })
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
        assert_eq!(take(&queue), Some(pod("a", 3)));
        assert_eq!(take(&queue), Some(pod("b", 2)));
        assert_eq!(take(&queue), None);
    }

    #[test]
    fn a_pod_asked_for_again_while_it_is_served_is_served_again() {
        let queue = queue(1);
        queue.push("a".into(), at(1));
        assert_eq!(take(&queue), Some(pod("a", 1)));
        assert!(queue.push("a".into(), at(1)));
        assert_eq!(take(&queue), Some(pod("a", 1)));
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
        assert_eq!(take(&queue), Some(pod("a", 1)));
        assert_eq!(take(&queue), None);
    }

    #[test]
    fn a_request_wakes_whoever_waits_for_one() {
        let queue = queue(1);
        let mut next = Box::pin(queue.next());
        assert_eq!((&mut next).now_or_never(), None);
        queue.push("a".into(), at(1));
        assert_eq!(next.now_or_never(), Some(pod("a", 1)));
    }

    #[test]
    fn the_earliest_event_and_the_latest_request_of_a_pod_are_kept() {
        let queue = queue(2);
        queue.push("a".into(), at(1));
        queue.push_event("a".into(), at(2));
        queue.push_event("a".into(), at(3));
        queue.push("a".into(), at(4));
        let asked = Asked { last: at(4), event: Some(at(2)) };
        assert_eq!(take(&queue), Some(Request::Pod("a".into(), asked)));
    }

    #[test]
    fn hints_come_in_their_order_and_what_does_not_fit_is_dropped() {
        let queue = queue(2);
        let mut next = Box::pin(queue.next_target());
        assert_eq!((&mut next).now_or_never(), None);
        let target = |n| EventTarget { pod: "a".into(), container: format!("c{n}"), at: at(n) };
        for n in 0..3 {
            queue.push_target(target(n));
        }
        assert_eq!(next.now_or_never(), Some(target(0)));
        assert_eq!((queue.next_target().now_or_never(), queue.next_target().now_or_never()), (Some(target(1)), None));
    }

    #[test]
    fn asking_for_all_goes_first_and_counts_once() {
        let queue = queue(2);
        queue.push("a".into(), at(1));
        queue.push_all(at(2));
        queue.push_all(at(3));
        assert_eq!(take(&queue), Some(Request::All(at(3))));
        assert_eq!(take(&queue), Some(pod("a", 1)));
        assert_eq!((take(&queue), queue.overflows()), (None, 0));
    }
}
