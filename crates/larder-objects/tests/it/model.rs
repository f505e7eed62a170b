//! The TTL store and the pod-object manager as their documentation describes them: written for reading, with no thought
//! of speed, sharing no code with the caches.
//!
//! An object's generation is a lock with a queue, as the kubelet's is: whoever holds it judges, fetches, takes in the
//! outcome, answers, and lets go.

use crate::harness::{Answer, Failure, FetchState, Outcome, Pod, Thing};
use larder_clock::Timestamp;
use larder_objects::{FetchError, FreshState, Freshness, ReadKind, Source, StaleReason};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

type Key = (String, String);

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) now: i128,
    pub(crate) ttl: Option<i64>,
    pub(crate) default_ttl: i64,
    pub(crate) at_once: Option<Outcome>,
    pub(crate) items: BTreeMap<Key, Item>,
    generations: Vec<Generation>,
    readers: BTreeMap<usize, usize>,
    pub(crate) fetches: Vec<(String, ReadKind, FetchState)>,
    pods: BTreeMap<(String, String, String), BTreeSet<String>>,
    answers: BTreeMap<usize, Answer>,
}

pub(crate) struct Item {
    pub(crate) references: usize,
    /// None since the last reference was added.
    generation: Option<usize>,
}

struct Generation {
    key: Key,
    data: Option<Data>,
    holder: Option<usize>,
    queue: VecDeque<usize>,
    fetch: Option<InFlight>,
}

/// A fetch that was completed, or the last that said something.
#[derive(Clone)]
struct Data {
    object: Option<Thing>,
    at: i128,
    read: ReadKind,
}

struct InFlight {
    id: usize,
    read: ReadKind,
    /// The reader that began it, if it is still the one that drives it.
    owner: Option<usize>,
}

/// What a status page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Nothing,
    Present(Thing),
    Absent,
}

impl Model {
    fn ttl(&self) -> i128 {
        self.ttl.unwrap_or(self.default_ttl).into()
    }

    fn fresh(&self, data: &Data) -> bool {
        data.object.is_some() && self.now < data.at + self.ttl()
    }

    pub(crate) fn new(default_ttl: i64) -> Self {
        Self { default_ttl, ..Self::default() }
    }

    pub(crate) fn add_reference(&mut self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let item = self.items.entry(key).or_insert(Item { references: 0, generation: None });
        item.references += 1;
        item.generation = None;
    }

    pub(crate) fn delete_reference(&mut self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let Some(item) = self.items.get_mut(&key) else { return };
        item.references -= 1;
        if item.references == 0 {
            self.items.remove(&key);
        }
    }

    pub(crate) fn register(&mut self, pod: &Pod) {
        let id = (pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
        let names: BTreeSet<String> = pod.refs.iter().map(|(name, _)| name.clone()).collect();
        let before = self.pods.insert(id, names.clone()).unwrap_or_default();
        for name in names.difference(&before) {
            self.add_reference(&pod.namespace, name);
        }
        for name in before.difference(&names) {
            self.delete_reference(&pod.namespace, name);
        }
    }

    pub(crate) fn unregister(&mut self, pod: &Pod) {
        let id = (pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
        for name in self.pods.remove(&id).unwrap_or_default() {
            self.delete_reference(&pod.namespace, &name);
        }
    }

    pub(crate) fn begin(&mut self, reader: usize, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let Some(item) = self.items.get_mut(&key) else {
            self.answers.insert(reader, Answer::NotRegistered);
            return;
        };
        let generation = *item.generation.get_or_insert_with(|| {
            self.generations.push(Generation { key, data: None, holder: None, queue: VecDeque::new(), fetch: None });
            self.generations.len() - 1
        });
        // Whoever finds the object fresh leaves, without waiting for a fetch that is under way.
        if let Some(data) = self.generations[generation].data.clone().filter(|data| self.fresh(data)) {
            self.answer(reader, &data, None);
            return;
        }
        self.readers.insert(reader, generation);
        self.generations[generation].queue.push_back(reader);
        self.turn(generation);
    }

    pub(crate) fn drop_reader(&mut self, reader: usize) {
        let Some(generation) = self.readers.remove(&reader) else { return };
        let lock = &mut self.generations[generation];
        if lock.holder != Some(reader) {
            lock.queue.retain(|waiting| *waiting != reader);
            return;
        }
        lock.holder = lock.queue.pop_front();
        match (&mut lock.fetch, lock.holder) {
            (Some(fetch), Some(_)) => fetch.owner = None,
            (fetch, _) => {
                if let Some(fetch) = fetch.take() {
                    self.fetches[fetch.id].2 = FetchState::Dropped;
                }
            }
        }
        self.turn(generation);
    }

    pub(crate) fn complete(&mut self, id: usize, outcome: Outcome) {
        let in_flight = |generation: &Generation| generation.fetch.as_ref().is_some_and(|fetch| fetch.id == id);
        let generation = self.generations.iter().position(in_flight).expect("the fetch is in flight");
        self.take_in(generation, outcome);
        self.turn(generation);
    }

    /// The answers since the last call.
    pub(crate) fn take_answers(&mut self) -> BTreeMap<usize, Answer> {
        std::mem::take(&mut self.answers)
    }

    /// What is known of a registered object.
    pub(crate) fn shown(&self, item: &Item) -> Shown {
        match item.generation.and_then(|generation| self.generations[generation].data.as_ref()) {
            None => Shown::Nothing,
            Some(Data { object: Some(object), .. }) => Shown::Present(object.clone()),
            Some(Data { object: None, .. }) => Shown::Absent,
        }
    }

    /// Whether a registered object is being fetched.
    pub(crate) fn fetching(&self, item: &Item) -> bool {
        item.generation.is_some_and(|generation| self.generations[generation].fetch.is_some())
    }

    /// Goes on until somebody has to wait for a fetch, or nobody is left.
    fn turn(&mut self, generation: usize) {
        loop {
            let lock = &mut self.generations[generation];
            if lock.fetch.is_some() {
                return;
            }
            if lock.holder.is_none() {
                lock.holder = lock.queue.pop_front();
            }
            let Some(holder) = lock.holder else { return };
            if let Some(data) = lock.data.clone().filter(|data| self.fresh(data)) {
                self.generations[generation].holder = None;
                self.answer(holder, &data, None);
                continue;
            }
            let lock = &mut self.generations[generation];
            let read = match &lock.data {
                Some(Data { object: Some(_), .. }) => ReadKind::ApiServerCache,
                _ => ReadKind::Consistent,
            };
            let id = self.fetches.len();
            let (namespace, name) = &lock.key;
            self.fetches.push((format!("{namespace}/{name}"), read, FetchState::Open));
            lock.fetch = Some(InFlight { id, read, owner: Some(holder) });
            match self.at_once.clone() {
                Some(outcome) => self.take_in(generation, outcome),
                None => return,
            }
        }
    }

    fn take_in(&mut self, generation: usize, outcome: Outcome) {
        let (now, lock) = (self.now, &mut self.generations[generation]);
        let fetch = lock.fetch.take().expect("something is in flight");
        self.fetches[fetch.id].2 = FetchState::Done;
        let reason = match outcome {
            Ok(new) if lock.data.as_ref().and_then(|it| it.object.as_ref()).is_some_and(|old| older(&new, old)) => {
                Some(StaleReason::OlderVersion)
            }
            Ok(new) => {
                lock.data = Some(Data { object: Some(new), at: now, read: fetch.read });
                None
            }
            Err(Failure::NotFound) => {
                lock.data = Some(Data { object: None, at: now, read: fetch.read });
                None
            }
            Err(failure) if lock.data.is_none() => {
                // The failure itself, for the one whose fetch it was.
                if let Some(owner) = fetch.owner {
                    lock.holder = None;
                    self.readers.remove(&owner);
                    self.answers.insert(owner, Answer::Failed(failure));
                }
                return;
            }
            Err(failure) => Some(StaleReason::FetchFailed { class: failure.class() }),
        };
        if let Some(owner) = fetch.owner {
            lock.holder = None;
            let data = lock.data.clone().expect("something is known");
            self.answer(owner, &data, reason);
        }
    }

    fn answer(&mut self, reader: usize, data: &Data, reason: Option<StaleReason>) {
        self.readers.remove(&reader);
        let source = match data.read {
            ReadKind::Consistent => Source::LiveRead,
            ReadKind::ApiServerCache => Source::ApiServerCache,
        };
        let state = match reason {
            None => FreshState::Fresh,
            Some(reason) => {
                let since = Timestamp::from_nanos(data.at + self.ttl().max(0));
                FreshState::Stale { since, reason }
            }
        };
        // Where nothing is ever fresh, no time ends that.
        let time = (reason.is_none() && self.ttl() > 0).then(|| Duration::from_nanos(self.ttl().try_into().unwrap()));
        let freshness = Freshness::new(Timestamp::from_nanos(data.at), source, state).with_fresh_for(time);
        let answer = match &data.object {
            Some(object) => Answer::Object(object.clone(), freshness),
            None => Answer::NotFound(freshness),
        };
        self.answers.insert(reader, answer);
    }
}

/// Whether one version is older than another: as numbers, where what is not one counts as 0 and what is too large as
/// the largest.
fn older(new: &Thing, old: &Thing) -> bool {
    let number = |thing: &Thing| match thing.version.parse::<u128>() {
        Ok(number) if !thing.version.starts_with('+') => number.min(u64::MAX.into()),
        _ => 0,
    };
    number(new) < number(old)
}
