//! Traces of the TTL store under the pod-object manager.

mod world;

use crate::answer::{Answer, Fetched};
use crate::error::LineError;
use crate::trace::ObjectsOp;
use futures_util::FutureExt;
use larder_clock::{Clock, Timestamp, VirtualClock};
use larder_objects::{
    GetError, NodeTtl, ObjectTtl, PodIdentity, PodObjects, ReadKind, Reference, References, Store, StoreTtl, TtlStore,
};
use std::fmt;
use std::sync::Arc;
use world::{ApiServer, Served, Status, Stored};

/// The caches, and the world around them.
pub(super) struct Objects {
    manager: PodObjects<TtlStore<ApiServer, VirtualClock, Arc<NodeTtl>>, NamedReferences>,
    server: ApiServer,
    node: Arc<NodeTtl>,
    clock: VirtualClock,
}

/// A pod of a trace.
struct Pod {
    ns: String,
    name: String,
    uid: String,
    refs: Vec<String>,
}

/// The names that a trace gives to a pod.
struct NamedReferences;

impl References<Pod> for NamedReferences {
    fn identity<'p>(&self, pod: &'p Pod) -> PodIdentity<'p> {
        PodIdentity { namespace: &pod.ns, name: &pod.name, uid: &pod.uid }
    }

    fn visit<'p>(&self, pod: &'p Pod, mut visit: impl FnMut(Reference<'p>)) {
        pod.refs.iter().for_each(|name| visit(Reference { name, optional: false }));
    }
}

impl Objects {
    pub(super) fn new(default_ttl: i64) -> Self {
        let clock = VirtualClock::new(Timestamp::ZERO);
        let server = ApiServer::default();
        let node = Arc::new(NodeTtl::new());
        let store = TtlStore::new(
            server.clone(),
            clock.clone(),
            StoreTtl::new(Arc::clone(&node), ObjectTtl::from_nanos(default_ttl)),
        );
        Self { manager: PodObjects::new(store, NamedReferences), server, node, clock }
    }

    pub(super) fn run(&mut self, op: ObjectsOp) -> Result<Answer, LineError> {
        match op {
            ObjectsOp::ServerPut { ns, name, rv, data } => {
                self.server.put(&ns, &name, Served::Object(Stored::new(&rv, &data)));
            }
            ObjectsOp::ServerDelete { ns, name } => self.server.put(&ns, &name, Served::Absent),
            ObjectsOp::ServerFail { ns, name, code } => self.server.put(&ns, &name, Served::Failure(Status(code))),
            ObjectsOp::ServerCache { ns, name, rv, data } => {
                self.server.put_cache(&ns, &name, Stored::new(&rv, &data));
            }
            ObjectsOp::NodeTtl { value } => self.node.set_annotation(value.as_deref()),
            ObjectsOp::NodeFail => self.node.set_annotation(None),
            ObjectsOp::Advance { by } => {
                self.clock.set(self.clock.now().saturating_add_nanos(by.nanos().into()));
            }
            ObjectsOp::Register { ns, name, uid, refs } => self.manager.register_pod(&Pod { ns, name, uid, refs }),
            ObjectsOp::Unregister { ns, name, uid, refs } => {
                self.manager.unregister_pod(&Pod { ns, name, uid, refs: refs.unwrap_or_default() });
            }
            ObjectsOp::AddReference { ns, name, uid } => self.manager.store().add_references(&ns, &[&name], &uid).run(),
            ObjectsOp::DeleteReference { ns, name, uid } => {
                self.manager.store().delete_references(&ns, &[&name], &uid).run();
            }
            ObjectsOp::Get { ns, name } => return self.get(&ns, &name),
        }
        Ok(Answer::default())
    }

    fn get(&self, ns: &str, name: &str) -> Result<Answer, LineError> {
        // The API server of a trace answers a fetch at once, and nobody else reads: there is nothing to wait for.
        let read = self.manager.get_object(ns, name).now_or_never().ok_or(LineError::Stuck { op: "get" })?;
        let reads = self.server.take_reads();
        let fetches = reads.into_iter().map(|read| Fetched { from_cache: read == ReadKind::ApiServerCache }).collect();
        let answer = Answer { fetches: Some(fetches), ..Answer::default() };
        Ok(match read {
            Ok(read) => {
                let (rv, data) = read.object.contents();
                Answer { rv: Some(rv), data: Some(data), ..answer }
            }
            Err(error) => Answer { error: Some(word(&error).into()), ..answer },
        })
    }
}

/// The trace's word for why a read has no object.
fn word(error: &GetError<Status>) -> String {
    match error {
        GetError::NotRegistered { .. } => "not_registered".to_owned(),
        GetError::NotFound { .. } => "not_found".to_owned(),
        GetError::Fetch { source, .. } => format!("status_{}", source.0),
        // An error that this replay does not know must not pass for one that it does.
        other => format!("unexpected: {other}"),
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("now", &self.clock.now()).finish_non_exhaustive()
    }
}
