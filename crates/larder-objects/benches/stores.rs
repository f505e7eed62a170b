//! What reads and registrations cost: `cargo bench -p larder-objects`.
//!
//! The figures for several threads are per operation of one thread; wall time over all threads' operations is that divided
//! by the number of threads, as long as there are as many cores.
#![allow(missing_docs, reason = "the benches are read by name")]

use divan::{Bencher, black_box};
use larder_clock::MonotonicClock;
use larder_objects::{
    FetchError, NodeTtl, Object, ObjectKey, PodIdentity, PodObjects, ReadKind, Reference, References, Store, StoreTtl,
    TtlStore, fetch_fn,
};
use std::cell::Cell;
use std::future::ready;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

const NAMESPACES: usize = 50;
const OBJECTS: usize = 1_000;
const REFERENCES: usize = 4;
const MINUTE: Duration = Duration::from_mins(1);

fn main() {
    divan::main();
}

struct Secret;

impl Object for Secret {
    fn resource_version(&self) -> &'static str {
        "1"
    }

    fn uid(&self) -> &'static str {
        ""
    }

    fn is_immutable(&self) -> bool {
        false
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not found")]
struct Absent;

impl FetchError for Absent {
    fn is_not_found(&self) -> bool {
        true
    }

    fn class(&self) -> &'static str {
        "failed"
    }
}

/// A pod: who it is, and the names of its Secrets.
struct Pod {
    namespace: String,
    name: String,
    uid: String,
    secrets: Vec<String>,
}

struct Secrets;

impl References<Pod> for Secrets {
    fn identity<'p>(&self, pod: &'p Pod) -> PodIdentity<'p> {
        PodIdentity { namespace: &pod.namespace, name: &pod.name, uid: &pod.uid }
    }

    fn visit<'p>(&self, pod: &'p Pod, visit: impl FnMut(Reference<'p>)) {
        pod.secrets.iter().map(|name| Reference { name, optional: false }).for_each(visit);
    }
}

/// A store whose source has every Secret but those named `absent`, at once, on a node with the TTL's annotation.
fn store() -> impl Store {
    let fetch = fetch_fn(|key: &ObjectKey, _: ReadKind| {
        ready(if key.name() == "absent" { Err(Absent) } else { Ok(Arc::new(Secret)) })
    });
    let ttl = NodeTtl::new();
    ttl.set_annotation(Some("3600"));
    TtlStore::new(fetch, MonotonicClock::new(), StoreTtl::new(ttl, MINUTE))
}

fn namespace(n: usize) -> String {
    format!("team-{:02}", n % NAMESPACES)
}

fn pod(n: usize) -> Pod {
    let secrets = (0..REFERENCES).map(|secret| format!("web-{n:05}-secret-{secret}")).collect();
    let (name, uid) = (format!("web-5d9c7b8f6c-{n:05}"), format!("9b7d4e21-0c4d-4e6f-8a8b-{n:012x}"));
    Pod { namespace: namespace(n), name, uid, secrets }
}

/// Polls once: no fetch here waits for anything.
fn now<T>(future: impl Future<Output = T>) -> bool {
    let future = std::pin::pin!(future);
    black_box(future.poll(&mut Context::from_waker(Waker::noop()))).is_ready()
}

/// One of so many, in an order without a pattern.
fn any(of: usize) -> usize {
    thread_local!(static AT: Cell<usize> = const { Cell::new(0) });
    AT.with(|at| {
        at.set(at.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        (at.get() >> 33) % of
    })
}

/// Reads of so many fresh objects.
#[divan::bench(threads = [1, 2], args = [1, OBJECTS], sample_size = 20_000)]
fn get_fresh(bencher: Bencher, objects: usize) {
    let store = store();
    let names: Vec<(String, String)> = (0..objects).map(|n| (namespace(n), format!("secret-{n:05}"))).collect();
    for (namespace, name) in &names {
        store.add_references(namespace, &[name], "uid").run();
        assert!(now(store.get(namespace, name)), "the source answers at once");
    }
    bencher.bench(|| {
        let (namespace, name) = &names[any(names.len())];
        now(store.get(namespace, name))
    });
}

/// A read that fetches: one that is absent is asked for each time.
#[divan::bench(sample_size = 1_000)]
fn get_absent(bencher: Bencher) {
    let store = store();
    store.add_references("team", &["absent"], "uid").run();
    bencher.bench(|| now(store.get("team", "absent")));
}

#[divan::bench(sample_size = 1_000)]
fn register_and_unregister(bencher: Bencher) {
    let (objects, pods) = (PodObjects::new(store(), Secrets), (0..250).map(pod).collect::<Vec<_>>());
    for other in 250..500 {
        objects.register_pod(&pod(other));
    }
    bencher.bench(|| {
        let pod = &pods[any(pods.len())];
        objects.register_pod(pod);
        objects.unregister_pod(pod);
    });
}

#[divan::bench(sample_size = 1_000)]
fn register_again(bencher: Bencher) {
    let (objects, pods) = (PodObjects::new(store(), Secrets), (0..250).map(pod).collect::<Vec<_>>());
    for pod in &pods {
        objects.register_pod(pod);
    }
    bencher.bench(|| objects.register_pod(&pods[any(pods.len())]));
}
