//! The API server of a trace.

use larder_objects::{Fetch, FetchError, Object, ObjectKey, ReadKind, Source};
use std::collections::HashMap;
use std::future::{Future, Ready, ready};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An object as the server has it.
#[derive(Debug)]
pub(super) struct Stored {
    rv: Arc<str>,
    data: Arc<str>,
}

impl Stored {
    pub(super) fn new(rv: &str, data: &str) -> Arc<Self> {
        Arc::new(Self { rv: rv.into(), data: data.into() })
    }

    /// Its resourceVersion, and what it holds.
    pub(super) fn contents(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.rv), Arc::clone(&self.data))
    }
}

impl Object for Stored {
    fn resource_version(&self) -> &str {
        &self.rv
    }

    fn uid(&self) -> &'static str {
        ""
    }

    fn is_immutable(&self) -> bool {
        false
    }
}

/// The HTTP status of a failed read.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the API server answers with status {0}")]
pub(super) struct Status(pub(super) u16);

impl Status {
    const NOT_FOUND: Self = Self(404);
}

impl FetchError for Status {
    fn is_not_found(&self) -> bool {
        self.0 == Self::NOT_FOUND.0
    }

    fn class(&self) -> &'static str {
        "failed"
    }
}

/// What consistent reads of an object see.
pub(super) enum Served {
    Object(Arc<Stored>),
    Failure(Status),
    Absent,
}

/// What the server has of one object.
struct Record {
    served: Served,
    /// What reads with resourceVersion "0" see instead.
    cached: Option<Arc<Stored>>,
}

/// The API server; clones are the same one.
#[derive(Clone, Default)]
pub(super) struct ApiServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: HashMap<ObjectKey, Record>,
    /// The reads since they were last asked for.
    reads: Vec<ReadKind>,
}

impl ApiServer {
    fn state(&self) -> MutexGuard<'_, State> {
        // No step under this lock leaves a half-made change behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what all reads of the object see.
    pub(super) fn put(&self, ns: &str, name: &str, served: Served) {
        let key = ObjectKey::new(ns, name);
        let mut state = self.state();
        match served {
            Served::Absent => drop(state.objects.remove(&key)),
            served => drop(state.objects.insert(key, Record { served, cached: None })),
        }
    }

    /// Sets what reads of the object with resourceVersion "0" see.
    pub(super) fn put_cache(&self, ns: &str, name: &str, cached: Arc<Stored>) {
        let mut state = self.state();
        let absent = || Record { served: Served::Absent, cached: None };
        state.objects.entry(ObjectKey::new(ns, name)).or_insert_with(absent).cached = Some(cached);
    }

    /// The reads since this was last called, in order.
    pub(super) fn take_reads(&self) -> Vec<ReadKind> {
        std::mem::take(&mut self.state().reads)
    }

    fn read(&self, key: &ObjectKey, kind: ReadKind) -> Result<Arc<Stored>, Status> {
        let mut state = self.state();
        state.reads.push(kind);
        let Some(record) = state.objects.get(key) else { return Err(Status::NOT_FOUND) };
        match (kind, &record.cached, &record.served) {
            (ReadKind::ApiServerCache, Some(object), _) | (_, _, Served::Object(object)) => Ok(Arc::clone(object)),
            (_, _, Served::Failure(status)) => Err(*status),
            (_, _, Served::Absent) => Err(Status::NOT_FOUND),
        }
    }
}

impl Fetch for ApiServer {
    type Object = Stored;
    type Error = Status;

    fn fetch(
        &self,
        key: &ObjectKey,
        read: ReadKind,
    ) -> impl Future<Output = Result<Arc<Stored>, Status>> + Send + 'static {
        let answered: Ready<_> = ready(self.read(key, read));
        answered
    }

    fn source(&self, read: ReadKind) -> Source {
        read.source()
    }
}
