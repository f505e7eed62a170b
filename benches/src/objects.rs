//! The TTL store under the pod-object manager.

use crate::measure::{cycle, nanos_per_operation, shuffled, uids};
use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use larder_clock::MonotonicClock;
use larder_objects::references::Secrets;
use larder_objects::{Fetch, FetchError, NodeTtl, ObjectKey, PodObjects, ReadKind, Source, StoreTtl, TtlStore};
use larder_resource::{DecodeError, Kind, KubeObject};
use std::future::{Ready, ready};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// The same pod as the originals' driver's.
const POD: &str = include_str!("../../oracle/bench/pod.json");
const NAMESPACES: usize = 50;
/// Secrets that a pod refers to.
pub const SECRETS_PER_POD: usize = 4;
/// The kubelet's default, in nanoseconds.
const MINUTE: Duration = Duration::from_mins(1);

/// The API server's answer to every read: a Secret without data.
pub struct EmptySecrets;

/// Why a Secret could not be had.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Unreadable(#[from] DecodeError);

impl FetchError for Unreadable {
    fn is_not_found(&self) -> bool {
        false
    }

    fn class(&self) -> &'static str {
        "failed"
    }
}

impl Fetch for EmptySecrets {
    type Object = KubeObject;
    type Error = Unreadable;

    #[allow(refining_impl_trait, reason = "it captures nothing, and says so with its name")]
    fn fetch(&self, key: &ObjectKey, _: ReadKind) -> Ready<Result<Arc<KubeObject>, Unreadable>> {
        let (name, namespace) = (key.name(), key.namespace());
        let metadata = format!(r#"{{"name":"{name}","namespace":"{namespace}","resourceVersion":"1"}}"#);
        let json = format!(r#"{{"kind":"Secret","apiVersion":"v1","metadata":{metadata}}}"#);
        ready(KubeObject::from_json(Kind::Secret, json.as_bytes()).map(Arc::new).map_err(Unreadable::from))
    }

    fn source(&self, read: ReadKind) -> Source {
        read.source()
    }
}

/// What is measured: the cache of the Secrets that pods refer to, on a node that has the TTL's annotation.
pub type Objects = PodObjects<TtlStore<EmptySecrets, MonotonicClock, NodeTtl>, Secrets>;

/// An empty cache.
pub fn empty() -> Objects {
    let ttl = NodeTtl::new();
    ttl.set_annotation(Some("3600"));
    PodObjects::new(TtlStore::new(EmptySecrets, MonotonicClock::new(), StoreTtl::new(ttl, MINUTE)), Secrets)
}

/// The n-th pod's namespace, and the name of one of its Secrets.
fn named(n: usize, secret: usize) -> (String, String) {
    (format!("team-{:02}", n % NAMESPACES), format!("web-{n:05}-secret-{secret}"))
}

/// So many pods, each with Secrets of its own.
///
/// # Errors
///
/// A pod cannot be read.
pub fn pods(count: usize) -> Result<Vec<Pod>> {
    let pod = |(n, uid): (usize, String)| {
        let mut json = POD
            .replace("POD-NAMESPACE", &named(n, 0).0)
            .replace("POD-NAME", &format!("web-5d9c7b8f6c-{n:05}"))
            .replace("POD-UID", &uid);
        for secret in 0..SECRETS_PER_POD {
            json = json.replace(&format!("SECRET-{secret}"), &named(n, secret).1);
        }
        serde_json::from_str(&json).context("read a pod")
    };
    uids(count).enumerate().map(pod).collect()
}

/// Reads every Secret that so many registered pods refer to.
///
/// # Errors
///
/// One of them cannot be had.
pub fn fetch_all(objects: &Objects, pods: usize) -> Result<()> {
    tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
        for n in 0..pods {
            for secret in 0..SECRETS_PER_POD {
                let (namespace, name) = named(n, secret);
                objects.get_object(&namespace, &name).await?;
            }
        }
        Ok(())
    })
}

/// A cache that knows so many pods and has fetched all that they refer to.
///
/// # Errors
///
/// One of the objects cannot be had.
pub fn registered(pods: &[Pod]) -> Objects {
    let objects = empty();
    for pod in pods {
        objects.register_pod(pod);
    }
    objects
}

/// Reads of 1,000 objects, all fresh, on so many threads.
///
/// # Errors
///
/// There are no objects.
pub fn get(threads: usize) -> Result<f64> {
    get_some(usize::MAX, threads)
}

/// Reads of one object, fresh, on so many threads.
///
/// # Errors
///
/// There are no objects.
pub fn get_hot(threads: usize) -> Result<f64> {
    get_some(1, threads)
}

fn get_some(count: usize, threads: usize) -> Result<f64> {
    const PODS: usize = 250;
    let objects = registered(&pods(PODS)?);
    fetch_all(&objects, PODS)?;
    let names = (0..PODS).flat_map(|n| (0..SECRETS_PER_POD).map(move |secret| named(n, secret)));
    let mut names: Vec<(String, String)> = names.collect();
    if count >= names.len() {
        names = shuffled(names);
    }
    names.truncate(count);
    Ok(nanos_per_operation(threads, |thread, operations| {
        let reads = async {
            for (namespace, name) in cycle(&names, thread, threads).take(operations) {
                let read = objects.get_object(namespace, name).await;
                assert!(black_box(&read).is_ok(), "an object is gone");
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime without drivers needs nothing that can fail").block_on(reads);
    }))
}

/// One pod that comes and goes, beside so many that stay.
///
/// # Errors
///
/// A pod cannot be read.
pub fn register_unregister(others: usize) -> Result<f64> {
    let mut coming = pods(2 * others)?;
    let objects = registered(&coming.split_off(others));
    let coming = shuffled(coming);
    Ok(nanos_per_operation(1, |_, operations| {
        for pod in cycle(&coming, 0, 1).take(operations) {
            objects.register_pod(pod);
            objects.unregister_pod(pod);
        }
    }))
}

/// Registers one of so many pods again, unchanged.
///
/// # Errors
///
/// A pod cannot be read.
pub fn register_again(count: usize) -> Result<f64> {
    let pods = pods(count)?;
    let objects = registered(&pods);
    let pods = shuffled(pods);
    Ok(nanos_per_operation(1, |_, operations| {
        cycle(&pods, 0, 1).take(operations).for_each(|pod| objects.register_pod(pod));
    }))
}
