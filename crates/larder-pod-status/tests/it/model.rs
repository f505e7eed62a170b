//! Any sequence of operations, on the cache and on a model that does nothing clever.

use crate::{Reader, Seen, Woken, at, seen, uid};
use larder_pod_status::{EntryTimes, NewerThan, Options, pod_status_cache};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;

const PODS: [&str; 3] = ["a", "2a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8b", "2a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8c"];

#[derive(Clone, Debug)]
enum Op {
    Get(usize),
    Set(usize, Option<u32>, Option<u32>, i128),
    Observed(usize, i128),
    Delete(usize),
    UpdateTime(i128),
    /// A wait begins, and is polled at once or not.
    Newer(usize, i128, bool),
    /// The oldest, or another, of the waits that are held is dropped.
    Cancel(prop::sample::Index),
    /// The deadline of one of them passes.
    Deadline(prop::sample::Index),
    /// One of them is polled, woken or not.
    Poll(prop::sample::Index),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let pod = || 0..PODS.len();
    // Few times, so that they are often equal and out of order, and those at the limits.
    let time = || prop_oneof![12 => 0..6_i128, 1 => Just(i128::MIN), 1 => Just(i128::MAX)];
    let wait = any::<prop::sample::Index>;
    let op = prop_oneof![
        1 => pod().prop_map(Op::Get),
        3 => (pod(), any::<Option<u32>>(), prop::option::weighted(0.2, any::<u32>()), time())
            .prop_map(|(pod, status, error, time)| Op::Set(pod, status, error, time)),
        2 => (pod(), time()).prop_map(|(pod, time)| Op::Observed(pod, time)),
        1 => pod().prop_map(Op::Delete),
        2 => time().prop_map(Op::UpdateTime),
        8 => (pod(), time(), any::<bool>()).prop_map(|(pod, min, polled)| Op::Newer(pod, min, polled)),
        1 => wait().prop_map(Op::Cancel),
        1 => wait().prop_map(Op::Deadline),
        3 => wait().prop_map(Op::Poll),
    ];
    prop::collection::vec(op, 1..80)
}

struct Cached {
    status: Option<u32>,
    error: Option<u32>,
    modified: i128,
    observed: i128,
}

/// The cache as design and kubelet describe it: lists, and every question asked of every element.
#[derive(Default)]
struct Model {
    evented: bool,
    pods: BTreeMap<usize, Cached>,
    global: Option<i128>,
    /// Open waits by number.
    open: BTreeMap<usize, (usize, i128)>,
    /// Answers that are not taken.
    answered: BTreeMap<usize, Seen>,
}

impl Model {
    fn get(&self, pod: usize) -> Seen {
        self.pods.get(&pod).map_or(Seen::Empty, |cached| Seen::Set(cached.status, cached.error))
    }

    /// Answers the open waits for which the pod fits and the time has come.
    fn notify(&mut self, pods: impl Fn(usize) -> bool, time: i128) {
        for (number, (pod, min)) in std::mem::take(&mut self.open) {
            if pods(pod) && time >= min {
                self.answered.insert(number, self.get(pod));
            } else {
                self.open.insert(number, (pod, min));
            }
        }
    }

    fn set(&mut self, pod: usize, status: Option<u32>, error: Option<u32>, time: i128) -> bool {
        if self.evented && self.pods.get(&pod).is_some_and(|cached| cached.modified > time) {
            return false;
        }
        self.pods.insert(pod, Cached { status, error, modified: time, observed: time });
        self.notify(|waits_for| waits_for == pod, time);
        true
    }

    fn observed(&mut self, pod: usize, time: i128) {
        if let Some(cached) = self.pods.get_mut(&pod) {
            cached.observed = time;
        }
        self.notify(|waits_for| waits_for == pod, time);
    }

    fn update_time(&mut self, time: i128) {
        self.global = Some(time);
        self.notify(|_| true, time);
    }

    fn newer(&mut self, number: usize, pod: usize, min: i128) {
        let cached = self.pods.get(&pod);
        let own = cached.is_some_and(|cached| cached.modified > min || cached.observed > min);
        if own || self.global.is_some_and(|global| global > min) {
            self.answered.insert(number, self.get(pod));
        } else {
            self.open.insert(number, (pod, min));
        }
    }
}

/// A wait of the real cache, and how often it was woken.
struct Held {
    wait: NewerThan<u32, u32>,
    woken: Arc<Woken>,
    polled: bool,
}

#[derive(Default)]
struct Waits {
    next: usize,
    held: BTreeMap<usize, Held>,
}

impl Waits {
    fn pick(&self, which: prop::sample::Index) -> Option<usize> {
        let numbers: Vec<_> = self.held.keys().copied().collect();
        (!numbers.is_empty()).then(|| numbers[which.index(numbers.len())])
    }

    /// Polls a wait, which gives what the model has for it, or nothing.
    fn poll(&mut self, number: usize, model: &mut Model) -> Result<(), TestCaseError> {
        let Some(held) = self.held.get_mut(&number) else { return Ok(()) };
        let expected = model.answered.remove(&number);
        match held.woken.clone().poll(&mut held.wait) {
            Poll::Pending => {
                prop_assert_eq!(expected, None, "wait {} is not answered", number);
                held.polled = true;
            }
            Poll::Ready(Ok(entry)) => {
                prop_assert_eq!(expected, Some(seen(&entry)), "wait {}", number);
                self.held.remove(&number);
            }
            Poll::Ready(Err(error)) => prop_assert!(false, "wait {}: {}", number, error),
        }
        Ok(())
    }

    /// Each wait that was polled has been woken if it is answered, and only then, and only once.
    fn check(&self, model: &Model, reader: &Reader) -> Result<(), TestCaseError> {
        for (number, held) in &self.held {
            let woken = usize::from(held.polled && model.answered.contains_key(number));
            prop_assert_eq!(held.woken.count(), woken, "wait {} was not woken as often as it should be", number);
        }
        prop_assert_eq!(reader.open_waits(), model.open.len());
        let mut waited_for: Vec<_> = model.open.values().map(|&(pod, _)| uid(PODS[pod])).collect();
        waited_for.sort();
        waited_for.dedup();
        let mut told = reader.waited_for();
        told.sort();
        prop_assert_eq!(told, waited_for);
        for (pod, name) in PODS.iter().enumerate() {
            prop_assert_eq!(seen(&reader.get(&uid(name))), model.get(pod));
            let cached = model.pods.get(&pod);
            let mut times = EntryTimes::default();
            times.modified = cached.map(|cached| at(cached.modified));
            times.observed = cached.map(|cached| at(cached.observed));
            times.global = model.global.map(at);
            prop_assert_eq!(reader.times(&uid(name)), times);
        }
        let mut uids = reader.uids();
        uids.sort();
        let mut expected: Vec<_> = model.pods.keys().map(|&pod| uid(PODS[pod])).collect();
        expected.sort();
        prop_assert_eq!(uids, expected);
        Ok(())
    }
}

proptest! {
    #[test]
    fn the_cache_does_what_the_model_does(evented in any::<bool>(), ops in ops()) {
        let mut options = Options::default();
        options.evented_ordering = evented;
        let (writer, reader) = pod_status_cache::<u32, u32>(options);
        let mut model = Model { evented, ..Model::default() };
        let mut waits = Waits::default();
        for op in ops {
            match op {
                Op::Get(pod) => prop_assert_eq!(seen(&reader.get(&uid(PODS[pod]))), model.get(pod)),
                Op::Set(pod, status, error, time) => {
                    let set = writer.set(&uid(PODS[pod]), status.map(Into::into), error.map(Into::into), at(time));
                    prop_assert_eq!(set, model.set(pod, status, error, time));
                }
                Op::Observed(pod, time) => {
                    writer.set_observed_time(&uid(PODS[pod]), at(time));
                    model.observed(pod, time);
                }
                Op::Delete(pod) => {
                    writer.delete(&uid(PODS[pod]));
                    model.pods.remove(&pod);
                }
                Op::UpdateTime(time) => {
                    writer.update_time(at(time));
                    model.update_time(time);
                }
                Op::Newer(pod, min, polled) => {
                    let (number, wait) = (waits.next, reader.get_newer_than(uid(PODS[pod]), at(min)));
                    waits.next += 1;
                    waits.held.insert(number, Held { wait, woken: Arc::default(), polled: false });
                    model.newer(number, pod, min);
                    if polled {
                        waits.poll(number, &mut model)?;
                    }
                }
                Op::Cancel(which) => {
                    if let Some(number) = waits.pick(which) {
                        waits.held.remove(&number);
                        model.open.remove(&number);
                        model.answered.remove(&number);
                    }
                }
                Op::Deadline(which) => {
                    // A wait with a deadline that has passed already when it is polled, for the same pod and time.
                    if let Some(number) = waits.pick(which)
                        && let Some(&(pod, min)) = model.open.get(&number)
                    {
                        let mut bounded =
                            std::pin::pin!(reader.get_newer_than_or(uid(PODS[pod]), at(min), std::future::ready(())));
                        model.newer(usize::MAX, pod, min);
                        match (crate::poll(&mut bounded), model.answered.remove(&usize::MAX)) {
                            (Poll::Ready(Ok(entry)), Some(expected)) => prop_assert_eq!(seen(&entry), expected),
                            (Poll::Ready(Err(error)), None) => {
                                model.open.remove(&usize::MAX);
                                prop_assert!(error.is_deadline_exceeded());
                                prop_assert_eq!(seen(error.last_known()), model.get(pod));
                            }
                            (other, expected) => prop_assert!(false, "{:?} instead of {:?}", other, expected),
                        }
                    }
                }
                Op::Poll(which) => {
                    if let Some(number) = waits.pick(which) {
                        waits.poll(number, &mut model)?;
                    }
                }
            }
            waits.check(&model, &reader)?;
        }
        for number in waits.held.keys().copied().collect::<Vec<_>>() {
            waits.poll(number, &mut model)?;
        }
        prop_assert!(model.answered.is_empty());
        // The waits that are left end with the writer.
        drop(writer);
        prop_assert_eq!(waits.held.len(), model.open.len());
        for (number, mut held) in waits.held {
            let Poll::Ready(Err(error)) = held.woken.clone().poll(&mut held.wait) else {
                return Err(TestCaseError::fail(format!("wait {number} outlives the writer")));
            };
            prop_assert!(error.is_writer_gone());
            prop_assert_eq!(seen(error.last_known()), model.get(model.open[&number].0));
            prop_assert_eq!(held.woken.count(), 1);
        }
        prop_assert_eq!(reader.open_waits(), 0);
    }
}
