//! What a client has seen of objects, and what it should have seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::watch;

/// A kind and a name, such as `Secret shop/tls`.
pub(super) type Key = String;

/// All objects at one moment.
pub(super) type Objects = BTreeMap<Key, State>;

pub(super) fn key(kind: &str, name: &str) -> Key {
    format!("{kind} {name}")
}

/// The kind of a key.
pub(super) fn kind_of(key: &str) -> &str {
    key.split(' ').next().unwrap_or_default()
}

/// The state of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct State {
    pub(super) uid: String,
    pub(super) version: u64,
}

/// How a client learned of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The object is new to the client, or it is in a list.
    Added,
    Modified,
    /// One of the two: kube's watcher does not say which.
    Applied,
    /// The object went, and this is its last state.
    Deleted,
}

/// What a client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// All objects of the kind follow, until [`Told::ListEnds`]. Informers do not say so.
    ListBegins(&'static str),
    ListEnds(&'static str),
    Event(How, Key, State),
    /// A request failed.
    Error(String),
}

/// What a client was told, in order, and the objects that it knows of.
pub(super) struct Log {
    told: Mutex<(Vec<Told>, Objects, BTreeMap<&'static str, Objects>)>,
    changed: watch::Sender<()>,
}

impl Log {
    pub(super) fn new() -> Self {
        Self { told: Mutex::default(), changed: watch::channel(()).0 }
    }

    pub(super) fn push(&self, told: Told) {
        {
            let mut log = self.told.lock().expect("the log");
            let (all, objects, listed) = &mut *log;
            match &told {
                Told::ListBegins(kind) => {
                    listed.insert(kind, Objects::new());
                }
                Told::ListEnds(kind) => {
                    objects.retain(|key, _| kind_of(key) != *kind);
                    objects.append(&mut listed.remove(kind).expect("a list that began"));
                }
                Told::Event(How::Deleted, key, _) => {
                    objects.remove(key);
                }
                Told::Event(_, key, state) => {
                    let objects = listed.get_mut(kind_of(key)).unwrap_or(objects);
                    objects.insert(key.clone(), state.clone());
                }
                Told::Error(_) => {}
            }
            all.push(told);
        }
        self.changed.send_replace(());
    }

    pub(super) fn told(&self) -> Vec<Told> {
        self.told.lock().expect("the log").0.clone()
    }

    /// Waits until the client knows of these objects, in these states, and of no others.
    pub(super) async fn wait_for(&self, expected: &Objects, limit: Duration) -> Result<(), String> {
        let mut changed = self.changed.subscribe();
        let reached = async {
            while self.told.lock().expect("the log").1 != *expected {
                changed.changed().await.expect("the log lives");
            }
        };
        match tokio::time::timeout(limit, reached).await {
            Ok(()) => Ok(()),
            Err(_) => Err(difference(&self.told.lock().expect("the log").1, expected)),
        }
    }
}

/// What differs between the objects that a client has and those that it should have.
pub(super) fn difference(has: &Objects, expected: &Objects) -> String {
    let keys: BTreeSet<&Key> = has.keys().chain(expected.keys()).collect();
    let differing = keys.into_iter().filter(|key| has.get(*key) != expected.get(*key));
    let lines = differing.map(|key| format!("{key}: has {:?}, expected {:?}", has.get(key), expected.get(key)));
    lines.collect::<Vec<_>>().join("\n")
}

/// A change at the API server.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) key: Key,
    /// For an object that went, the version at which it went.
    pub(super) state: State,
    pub(super) is_gone: bool,
    /// What a pod refers to.
    pub(super) references: BTreeSet<Key>,
}

/// What a client of larder sees of each object, and the objects that it knows of at the end, if it misses nothing.
///
/// The resource versions of an API server order the changes of all kinds. A Secret or `ConfigMap` is in view while a pod
/// refers to it.
pub(super) fn expected(changes: &[Change]) -> (BTreeMap<Key, Vec<(How, State)>>, Objects) {
    let mut changes = changes.to_vec();
    changes.sort_by_key(|change| change.state.version);
    let mut told: BTreeMap<Key, Vec<(How, State)>> = BTreeMap::new();
    let mut visible = Objects::new();
    let mut present = Objects::new();
    let mut references: BTreeMap<Key, BTreeSet<Key>> = BTreeMap::new();
    for change in &changes {
        let is_pod = kind_of(&change.key) == "Pod";
        let in_view = || references.values().flatten().cloned().collect::<BTreeSet<Key>>();
        let before = in_view();
        let mut see = |key: &Key, state: &State, is_gone: bool| {
            let how = match (is_gone, visible.contains_key(key)) {
                (true, false) => return,
                (true, true) => How::Deleted,
                (false, true) => How::Modified,
                (false, false) => How::Added,
            };
            if is_gone {
                visible.remove(key);
            } else {
                visible.insert(key.clone(), state.clone());
            }
            told.entry(key.clone()).or_default().push((how, state.clone()));
        };
        if is_pod || kind_of(&change.key) == "Node" || before.contains(&change.key) {
            see(&change.key, &change.state, change.is_gone);
        }
        if change.is_gone {
            present.remove(&change.key);
            references.remove(&change.key);
        } else {
            present.insert(change.key.clone(), change.state.clone());
            if is_pod {
                references.insert(change.key.clone(), change.references.clone());
            }
        }
        let after: BTreeSet<Key> = references.values().flatten().cloned().collect();
        for key in before.symmetric_difference(&after) {
            if let Some(state) = present.get(key) {
                see(key, state, before.contains(key));
            }
        }
    }
    (told, visible)
}
