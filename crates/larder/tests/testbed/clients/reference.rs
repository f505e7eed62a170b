//! What the API server says of the objects, by a watch of each kind at the API server itself.

use super::history::{Change, How, Key, Log, Objects, State, Told, difference, expected, key};
use crate::cluster::NAMESPACE;
use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::core::Resource;
use larder_testbed::Testbed;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

/// How long a change may take until the reference has it.
const LIMIT: Duration = Duration::from_mins(1);

/// The changes of all objects that a client of larder may see, as the API server tells them.
pub(super) struct Reference {
    log: Arc<Log>,
    changes: Arc<Mutex<Vec<Change>>>,
    /// Why the reference is not to be trusted.
    lost: Arc<Mutex<Option<String>>>,
    _tasks: JoinSet<()>,
}

impl Reference {
    pub(super) async fn start(testbed: &Testbed) -> Self {
        let client = testbed.client().await.expect("a client");
        let node = testbed.node_name();
        let mut tasks = JoinSet::new();
        let this = (Arc::new(Log::new()), Arc::default(), Arc::default());
        let mut follow = |resource: ApiResource, namespace: Option<&str>, fields: String| {
            let api = match namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            let (log, changes, lost) = &this;
            let follower = Follower {
                kind: resource.kind,
                api,
                fields,
                log: Arc::clone(log),
                changes: Arc::clone(changes),
                lost: Arc::clone(lost),
                held: Objects::new(),
            };
            tasks.spawn(follower.run());
        };
        follow(ApiResource::erase::<Pod>(&()), None, format!("spec.nodeName={node}"));
        follow(ApiResource::erase::<Node>(&()), None, format!("metadata.name={node}"));
        follow(ApiResource::erase::<Secret>(&()), Some(NAMESPACE), String::new());
        follow(ApiResource::erase::<ConfigMap>(&()), Some(NAMESPACE), String::new());
        let (log, changes, lost) = this;
        Self { log, changes, lost, _tasks: tasks }
    }

    /// Waits until the API server has told of the objects that somebody wrote.
    pub(super) async fn wait_for(&self, written: &Objects) {
        let reached = self.log.wait_for(written, LIMIT).await;
        reached.unwrap_or_else(|why| panic!("the API server does not tell of what was written:\n{why}"));
        if let Some(why) = &*self.lost.lock().expect("the reason") {
            panic!("the reference lost states: {why}");
        }
    }

    pub(super) fn changes(&self) -> Vec<Change> {
        self.changes.lock().expect("the changes").clone()
    }

    /// The objects that a client of larder should have now.
    pub(super) fn visible(&self) -> Objects {
        expected(&self.changes()).1
    }
}

struct Follower {
    kind: String,
    api: Api<DynamicObject>,
    fields: String,
    log: Arc<Log>,
    changes: Arc<Mutex<Vec<Change>>>,
    lost: Arc<Mutex<Option<String>>>,
    held: Objects,
}

impl Follower {
    async fn run(mut self) {
        let mut is_first = true;
        loop {
            // The API server may be down: it is asked again.
            let list = ListParams::default().fields(&self.fields);
            let Ok(list) = self.api.list(&list).await else {
                tokio::time::sleep(Duration::from_millis(25)).await;
                continue;
            };
            if is_first {
                list.items.iter().for_each(|object| self.take(object, false));
                is_first = false;
            } else {
                let listed = list.items.iter().map(|object| self.describe(object)).collect();
                if self.held != listed {
                    let why = difference(&listed, &self.held);
                    *self.lost.lock().expect("the reason") = Some(why);
                }
            }
            let version = list.metadata.resource_version.unwrap_or_default();
            let watch = WatchParams::default().fields(&self.fields);
            let Ok(events) = self.api.watch(&watch, &version).await else { continue };
            let mut events = pin!(events);
            while let Ok(Some(event)) = events.try_next().await {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => self.take(&object, false),
                    WatchEvent::Deleted(object) => self.take(&object, true),
                    WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(_) => break,
                }
            }
        }
    }

    fn describe(&self, object: &DynamicObject) -> (Key, State) {
        describe(&self.kind, object)
    }

    fn take(&mut self, object: &DynamicObject, is_gone: bool) {
        let (key, state) = self.describe(object);
        if is_gone {
            self.held.remove(&key);
        } else {
            self.held.insert(key.clone(), state.clone());
        }
        let references = references(object);
        let change = Change { key: key.clone(), state: state.clone(), is_gone, references };
        self.changes.lock().expect("the changes").push(change);
        let how = if is_gone { How::Deleted } else { How::Applied };
        self.log.push(Told::Event(how, key, state));
    }
}

/// An object of a kind as this test knows it.
pub(super) fn describe<K: Resource>(kind: &str, object: &K) -> (Key, State) {
    let meta = object.meta();
    let name = meta.name.as_deref().unwrap_or_default();
    let name = meta.namespace.as_ref().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
    let version = meta.resource_version.as_deref().and_then(|version| version.parse().ok());
    let state = State { uid: meta.uid.clone().unwrap_or_default(), version: version.unwrap_or_default() };
    (key(kind, &name), state)
}

/// The Secrets and `ConfigMap`s of a pod's volumes.
fn references(object: &DynamicObject) -> BTreeSet<Key> {
    let volumes = object.data["spec"]["volumes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named = |kind: &str, name: &serde_json::Value| Some(key(kind, &format!("{NAMESPACE}/{}", name.as_str()?)));
    let of = |volume: &serde_json::Value| {
        named("Secret", &volume["secret"]["secretName"]).or_else(|| named("ConfigMap", &volume["configMap"]["name"]))
    };
    volumes.iter().filter_map(of).collect()
}
