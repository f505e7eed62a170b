//! The state behind the store's lock.

use super::{CacheLag, HISTORY, StoreError};
use crate::api_server::object::{Key, Kind, Record};
use crate::api_server::selector::Filter;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::time::Instant;

/// How many lists that are being read in pages are remembered; older ones expire.
pub(super) const SNAPSHOTS: usize = 64;

pub(super) struct State {
    pub(super) revision: u64,
    /// A watch can begin after this revision or a later one.
    pub(super) compacted: u64,
    /// Counts the restores: watches from before one end.
    pub(super) epoch: u64,
    pub(super) objects: BTreeMap<(Kind, Key), Arc<Record>>,
    pub(super) history: VecDeque<Arc<Change>>,
    pub(super) cache: Cache,
    pub(super) snapshots: VecDeque<Snapshot>,
    pub(super) rng: StdRng,
}

pub(super) struct Cache {
    pub(super) lag: CacheLag,
    pub(super) revision: u64,
    pub(super) objects: BTreeMap<(Kind, Key), Arc<Record>>,
    /// Changes that it has not seen yet, oldest first; at most as many as were made while it lagged.
    pub(super) pending: VecDeque<Arc<Change>>,
}

pub(super) struct Snapshot {
    pub(super) revision: u64,
    pub(super) kind: Kind,
    pub(super) records: Arc<Vec<Arc<Record>>>,
}

/// One change of one object.
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) kind: Kind,
    pub(crate) before: Option<Arc<Record>>,
    pub(crate) after: Option<Arc<Record>>,
    key: Key,
    made_at: Instant,
}

/// What a list finds, and the revision that it is true for.
pub(crate) struct Listed {
    pub(crate) revision: u64,
    pub(crate) records: Vec<Arc<Record>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    Create,
    Update,
    Apply,
}

impl State {
    pub(super) fn record(&self, kind: Kind, namespace: &str, name: &str) -> Result<&Arc<Record>, StoreError> {
        let key = (kind, Key::new(namespace, name));
        self.objects.get(&key).ok_or_else(|| StoreError::NotFound { kind, name: name.to_owned() })
    }

    pub(super) fn write(
        &mut self,
        kind: Kind,
        mut json: Map<String, Value>,
        write: Write,
        now: i128,
    ) -> Result<Arc<Record>, StoreError> {
        let key = key_of(kind, &json)?;
        let before = self.objects.get(&(kind, key.clone())).cloned();
        let name = || key.name.clone();
        match (&before, write) {
            (Some(_), Write::Create) => return Err(StoreError::AlreadyExists { kind, name: name() }),
            (None, Write::Update) => return Err(StoreError::NotFound { kind, name: name() }),
            _ => {}
        }
        if let Some(before) = &before {
            let expected = metadata(&json, "resourceVersion").and_then(Value::as_str).unwrap_or_default();
            if !expected.is_empty() && expected != before.revision.to_string() {
                return Err(StoreError::Conflict { kind, name: name() });
            }
            let immutable = before.json().get("immutable").and_then(Value::as_bool).unwrap_or_default();
            let changed = ["immutable", "data", "binaryData"].iter().any(|f| before.json().get(*f) != json.get(*f));
            if immutable && changed {
                return Err(StoreError::Immutable { kind, name: name() });
            }
        }
        for field in ["uid", "creationTimestamp"] {
            let value = match before.as_ref().and_then(|before| metadata(before.json(), field)) {
                Some(value) => value.clone(),
                None => match metadata(&json, field) {
                    Some(given) => given.clone(),
                    None if field == "uid" => uuid(&mut self.rng).into(),
                    None => rfc3339(now).into(),
                },
            };
            if let Some(Value::Object(metadata)) = json.get_mut("metadata") {
                metadata.insert(field.into(), value);
            }
        }
        let created_at = before.as_ref().map_or_else(Instant::now, |before| before.created_at);
        let record = Arc::new(Record::new(kind, key.clone(), self.revision + 1, json, created_at));
        self.objects.insert((kind, key.clone()), Arc::clone(&record));
        self.record_change(kind, key, before, Some(Arc::clone(&record)));
        Ok(record)
    }

    pub(super) fn record_change(
        &mut self,
        kind: Kind,
        key: Key,
        before: Option<Arc<Record>>,
        after: Option<Arc<Record>>,
    ) {
        self.revision += 1;
        let change = Arc::new(Change { revision: self.revision, kind, before, after, key, made_at: Instant::now() });
        if self.history.len() == HISTORY
            && let Some(oldest) = self.history.pop_front()
        {
            self.compacted = oldest.revision;
        }
        self.cache.pending.push_back(Arc::clone(&change));
        self.history.push_back(change);
        if self.cache.lag == CacheLag::None {
            self.catch_up();
        }
    }

    /// Lets the watch cache see what its lag lets it see.
    pub(super) fn catch_up(&mut self) {
        let now = Instant::now();
        let due = |change: &Change| match self.cache.lag {
            CacheLag::None => true,
            CacheLag::Frozen => false,
            CacheLag::By(lag) => now.saturating_duration_since(change.made_at) >= lag,
        };
        while self.cache.pending.front().is_some_and(|change| due(change)) {
            let Some(change) = self.cache.pending.pop_front() else { break };
            let id = (change.kind, change.key.clone());
            match &change.after {
                Some(record) => drop(self.cache.objects.insert(id, Arc::clone(record))),
                None => drop(self.cache.objects.remove(&id)),
            }
            self.cache.revision = change.revision;
        }
        if self.cache.lag == CacheLag::None {
            self.cache.revision = self.revision;
        }
    }
}

pub(super) fn select(objects: &BTreeMap<(Kind, Key), Arc<Record>>, kind: Kind, filter: &Filter) -> Vec<Arc<Record>> {
    let first = (kind, Key::new("", ""));
    objects
        .range(first..)
        .take_while(|((k, _), _)| *k == kind)
        .map(|(_, record)| record)
        .filter(|record| filter.matches(record))
        .cloned()
        .collect()
}

fn metadata<'a>(json: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    json.get("metadata")?.get(field)
}

fn key_of(kind: Kind, json: &Map<String, Value>) -> Result<Key, StoreError> {
    let text = |field| metadata(json, field).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let invalid = |why| Err(StoreError::Invalid { kind, why });
    match (name.is_empty(), namespace.is_empty(), kind.is_namespaced()) {
        (true, ..) => invalid("metadata.name is required"),
        (_, true, true) => invalid("metadata.namespace is required"),
        (_, false, false) => invalid("metadata.namespace must be empty"),
        _ => Ok(Key::new(namespace, name)),
    }
}

/// A random (version 4) UUID.
fn uuid(rng: &mut impl rand::Rng) -> String {
    let bits = rng.random::<u128>();
    // The version in the 13th digit, the variant in the 17th.
    let bits = bits & !(0xf_u128 << 76) & !(0xc_u128 << 60) | (0x4_u128 << 76) | (0x8_u128 << 60);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Whole seconds, as `metadata.creationTimestamp` has them.
fn rfc3339(unix_nanos: i128) -> String {
    let seconds = i64::try_from(unix_nanos.div_euclid(1_000_000_000)).unwrap_or_default();
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
}
