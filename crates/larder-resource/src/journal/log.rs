//! The state of a journal: its objects, and the log. [`Journal`](super::Journal) holds it under its lock.

use super::{ENTRIES, Entry, EventType, OLD_BYTES, Order, Resource, ResumeError, Snapshot, version_of};
use crate::kind::Kind;
use crate::object::KubeObject;
use crate::selector::Selectable;
use larder_objects::ObjectKey;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

struct Current {
    object: Arc<Resource>,
    selectable: Arc<Selectable>,
    /// The entry that brought it, if the log has it.
    entry: Option<u64>,
}

pub(super) struct Log {
    kind: Kind,
    order: Order,
    objects: BTreeMap<ObjectKey, Current>,
    entries: VecDeque<Arc<Entry>>,
    /// The number of the first entry.
    first: u64,
    /// The version of the position before the first entry.
    oldest: u64,
    /// The version of the position after the last entry.
    version: u64,
    /// How many followers are before the entry of each number.
    followers: BTreeMap<u64, usize>,
    /// The entries whose objects are no longer current, and still there.
    superseded: BTreeSet<u64>,
    old_bytes: usize,
    epoch: u64,
}

impl Log {
    pub(super) fn new(kind: Kind, order: Order) -> Self {
        Self {
            kind,
            order,
            objects: BTreeMap::new(),
            entries: VecDeque::new(),
            first: 0,
            oldest: 0,
            version: 0,
            followers: BTreeMap::new(),
            superseded: BTreeSet::new(),
            old_bytes: 0,
            epoch: 0,
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of the next entry.
    pub(super) fn end(&self) -> u64 {
        self.first.saturating_add(u64::try_from(self.entries.len()).unwrap_or(u64::MAX))
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn followers(&self) -> usize {
        self.followers.values().sum()
    }

    pub(super) fn enter(&mut self, at: u64) {
        *self.followers.entry(at).or_default() += 1;
    }

    pub(super) fn leave(&mut self, at: u64) {
        if let Some(count) = self.followers.get_mut(&at) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.followers.remove(&at);
            }
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let objects = self.objects.values().map(|held| (Arc::clone(&held.object), Arc::clone(&held.selectable)));
        Snapshot { objects: objects.collect(), version: self.version }
    }

    /// Up to so many entries from that number on. `None` where the log no longer has them.
    pub(super) fn after(&self, at: u64, most: usize) -> Option<Vec<Arc<Entry>>> {
        let skip = usize::try_from(at.checked_sub(self.first)?).ok()?;
        Some(self.entries.iter().skip(skip).take(most).cloned().collect())
    }

    pub(super) fn begin(&mut self, version: u64) {
        let end = self.end();
        self.entries.clear();
        self.superseded.clear();
        self.old_bytes = 0;
        self.first = end;
        for held in self.objects.values_mut() {
            held.entry = None;
        }
        let newest = self.objects.values().map(|held| version_of(&*held.object)).max();
        self.version = match (self.order, newest) {
            // A version that an object has may be a position of an earlier run.
            (Order::AsSeen, Some(newest)) => version.max(newest.saturating_add(1)),
            (Order::AsSeen, None) => version.max(1),
            (Order::OfThisRun, Some(newest)) => newest,
            (Order::OfServer, _) | (Order::OfThisRun, None) => version,
        };
        self.oldest = self.version;
    }

    pub(super) fn reset(&mut self) {
        self.objects.clear();
        self.followers.clear();
        self.epoch += 1;
        // One more, so that followers who wait notice.
        self.first = self.end().saturating_add(1);
        self.entries.clear();
        self.superseded.clear();
        (self.old_bytes, self.version, self.oldest) = (0, 0, 0);
    }

    /// Whether the log will reach this version.
    pub(super) fn is_future(&self, version: u64) -> bool {
        self.order == Order::OfServer && version > self.version
    }

    /// The number of the entry that follows the position of this version.
    pub(super) fn position(&self, version: u64) -> Result<u64, ResumeError> {
        let asked = version;
        if version > self.version {
            return Err(ResumeError::Unknown { asked });
        }
        if version < self.oldest {
            return Err(ResumeError::Expired { asked, oldest: self.oldest });
        }
        // A client with this version may have got it from an object whose position has another.
        let is_ambiguous = self.entries.iter().any(|entry| entry.needs_bookmark() && entry.version == version);
        if is_ambiguous {
            return Err(ResumeError::Ambiguous { asked });
        }
        let seen = self.entries.partition_point(|entry| entry.position <= version);
        let is_given = match seen.checked_sub(1).and_then(|last| self.entries.get(last)) {
            Some(last) => last.position == version,
            None => version == self.oldest,
        };
        if self.order != Order::OfServer && !is_given {
            return Err(ResumeError::Unknown { asked });
        }
        if self.entries.iter().skip(seen).any(|entry| entry.object.is_none()) {
            return Err(ResumeError::ValueDropped { asked });
        }
        Ok(self.first.saturating_add(u64::try_from(seen).unwrap_or(u64::MAX)))
    }

    pub(super) fn progress(&mut self, version: u64) {
        if self.order == Order::OfServer {
            self.version = self.version.max(version);
        }
    }

    pub(super) fn set(&mut self, object: Arc<Resource>) {
        let new = (*object).as_ref();
        let key = new.key();
        let mut before = None;
        if let Some(held) = self.objects.get_mut(&key) {
            let old = (*held.object).as_ref();
            if old.uid() == new.uid() && old.resource_version() == new.resource_version() && same_bytes(old, new) {
                // The cache may have read the same version again: it is kept once.
                held.object = object;
                return;
            }
            if old.uid() == new.uid() {
                before = Some(Arc::clone(&held.selectable));
            } else {
                self.remove(&key, None);
            }
        }
        let selectable = Arc::new(Selectable::of(new));
        let event = if before.is_some() { EventType::Modified } else { EventType::Added };
        let entry = self.append(event, key.clone(), Arc::clone(&object), (Arc::clone(&selectable), before));
        let current = Current { object, selectable, entry: Some(entry) };
        let old = self.objects.insert(key, current);
        self.supersede(old.and_then(|old| old.entry));
    }

    /// Another object of the name may be there already when the end of the one before is told, with its last state.
    pub(super) fn set_after(&mut self, last: Option<Arc<Resource>>, object: Arc<Resource>) {
        let (key, uid) = ((*object).as_ref().key(), (*object).as_ref().uid());
        let is_of = |uid: &str| last.as_ref().is_some_and(|last| (**last).as_ref().uid() == uid);
        let ends = self.objects.get(&key).is_some_and(|held| {
            let held = (*held.object).as_ref().uid();
            held != uid && is_of(held)
        });
        if ends {
            self.remove(&key, last);
        }
        self.set(object);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey, last: Option<Arc<Resource>>) {
        let Some(held) = self.objects.remove(key) else { return };
        // Another object of that name may have gone, of which nobody here knew.
        let last = last.filter(|last| (**last).as_ref().uid() == (*held.object).as_ref().uid());
        let mut object = last.unwrap_or_else(|| Arc::clone(&held.object));
        if self.kind == Kind::Secret {
            let Some(without_data) = (*object).as_ref().without_data() else { return };
            object = Arc::new(without_data);
        }
        let selectable = held.selectable;
        self.append(EventType::Deleted, key.clone(), object, (Arc::clone(&selectable), Some(selectable)));
        self.supersede(held.entry);
    }

    pub(super) fn replace(&mut self, objects: Vec<Arc<Resource>>, version: u64) {
        let went_back = self.order == Order::OfServer && version != 0 && version < self.version;
        if went_back {
            self.reset();
        }
        let listed: BTreeSet<ObjectKey> = objects.iter().map(|object| (**object).as_ref().key()).collect();
        let mut objects = objects;
        objects.sort_by_key(|object| version_of(&**object));
        for object in objects {
            self.set(object);
        }
        // What went between two lists went at no known version. It comes last, at the version of the list.
        self.progress(version);
        let gone: Vec<_> = self.objects.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        for key in gone {
            self.remove(&key, None);
        }
        if went_back {
            self.begin(version);
        }
    }

    /// Appends an entry, and returns its number.
    fn append(
        &mut self,
        event: EventType,
        key: ObjectKey,
        object: Arc<Resource>,
        (selectable, before): (Arc<Selectable>, Option<Arc<Selectable>>),
    ) -> u64 {
        let version = version_of(&*object);
        self.version = match self.order {
            Order::OfServer => self.version.max(version),
            Order::AsSeen | Order::OfThisRun => self.version.saturating_add(1).max(version),
        };
        let number = self.end();
        if event == EventType::Deleted {
            self.old_bytes += (*object).as_ref().json_len();
        }
        let (object, position) = (Some(object), self.version);
        let encodings = std::array::from_fn(|_| OnceLock::new());
        let entry = Entry { event, key, selectable, before, object, version, position, encodings };
        self.entries.push_back(Arc::new(entry));
        number
    }

    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok().filter(|at| *at < self.entries.len())
    }

    /// The object of that entry is no longer current.
    fn supersede(&mut self, number: Option<u64>) {
        let Some((number, at)) = number.and_then(|number| Some((number, self.index(number)?))) else { return };
        if let Some(object) = self.entries.get(at).and_then(|entry| entry.object.as_ref()) {
            self.old_bytes += (**object).as_ref().json_len();
            self.superseded.insert(number);
        }
    }

    /// Drops what the log has too much of, and the old values of Secrets that all followers have been given. The caller drops
    /// what this returns after it has released the lock.
    pub(super) fn trim(&mut self) -> Vec<Arc<Entry>> {
        let mut dropped = Vec::new();
        while self.entries.len() > ENTRIES || self.old_bytes > OLD_BYTES {
            let Some(entry) = self.entries.pop_front() else { break };
            // Those of a removal count from the beginning.
            if self.superseded.remove(&self.first) || entry.event == EventType::Deleted {
                self.forget_bytes(&entry);
            }
            self.oldest = entry.position;
            self.first += 1;
            dropped.push(entry);
        }
        if self.kind == Kind::Secret {
            let given = self.followers.keys().next().copied().unwrap_or(u64::MAX);
            while let Some(number) = self.superseded.first().copied().filter(|number| *number < given) {
                self.superseded.remove(&number);
                let Some(at) = self.index(number) else { continue };
                let Some(entry) = self.entries.get(at) else { continue };
                let entry = Arc::clone(entry);
                self.forget_bytes(&entry);
                if let Some(place) = self.entries.get_mut(at) {
                    *place = Arc::new(entry.without_object());
                }
                dropped.push(entry);
            }
        }
        dropped
    }

    fn forget_bytes(&mut self, entry: &Entry) {
        let bytes = entry.object.as_ref().map_or(0, |object| (**object).as_ref().json_len());
        self.old_bytes = self.old_bytes.saturating_sub(bytes);
    }
}

/// Whether two objects without versions are the same. With versions, the versions say so.
fn same_bytes(old: &KubeObject, new: &KubeObject) -> bool {
    !new.resource_version().is_empty() || *old.json() == *new.json()
}

impl Entry {
    fn without_object(&self) -> Self {
        Self {
            event: self.event,
            key: self.key.clone(),
            selectable: Arc::clone(&self.selectable),
            before: self.before.clone(),
            object: None,
            version: self.version,
            position: self.position,
            encodings: std::array::from_fn(|_| OnceLock::new()),
        }
    }
}
