//! What a relist costs beside the runtime's own calls: `cargo bench -p larder-pleg`.
#![allow(missing_docs, reason = "the benches are read by name")]

use divan::Bencher;
use larder_clock::MonotonicClock;
use larder_pleg::{
    ContainerState, ContainerStatus, KnownPod, Pleg, PlegOptions, PodStatus, Runtime, RuntimeContainer, RuntimeError,
    RuntimePod,
};
use larder_pod_status::{Options, PodUid, pod_status_cache};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn main() {
    divan::main();
}

/// A runtime that answers at once; its pods have a container each.
struct InMemory {
    pods: usize,
    /// Counts the listings between which every container changes, if any do.
    listings: AtomicUsize,
    changes: AtomicBool,
}

impl InMemory {
    fn uid(n: usize) -> PodUid {
        PodUid::from(format!("9b7d4e21-0c4d-4e6f-8a8b-{n:012x}").as_str())
    }

    fn listed(&self, n: usize) -> RuntimePod {
        let mut pod = RuntimePod::new(Self::uid(n), "team", format!("web-{n:05}"));
        let odd = self.listings.load(Ordering::Relaxed) % 2 == 1;
        let state = if odd { ContainerState::Exited } else { ContainerState::Running };
        pod.containers.push(RuntimeContainer { id: format!("{n:064x}"), state, ..Default::default() });
        pod
    }
}

impl Runtime for InMemory {
    async fn pods(&self) -> Result<Vec<RuntimePod>, RuntimeError> {
        if self.changes.load(Ordering::Relaxed) {
            self.listings.fetch_add(1, Ordering::Relaxed);
        }
        Ok((0..self.pods).map(|n| self.listed(n)).collect())
    }

    async fn pod(&self, uid: &PodUid) -> Result<Option<RuntimePod>, RuntimeError> {
        Ok((0..self.pods).find(|n| Self::uid(*n) == *uid).map(|n| self.listed(n)))
    }

    async fn pod_status(&self, pod: &RuntimePod, _: Option<KnownPod<'_>>) -> Result<PodStatus, RuntimeError> {
        Ok(PodStatus::new(pod.uid.clone(), pod.namespace.clone(), pod.name.clone()))
    }

    async fn container_status(
        &self,
        _: &RuntimePod,
        _: &RuntimeContainer,
    ) -> Result<Option<ContainerStatus>, RuntimeError> {
        Ok(None)
    }
}

fn relist(bencher: Bencher, pods: usize, changes: bool) {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let runtime = InMemory { pods, listings: AtomicUsize::new(0), changes: AtomicBool::new(changes) };
    let (writer, _cache) = pod_status_cache(Options::default());
    let pleg = Pleg::new(Arc::new(runtime), MonotonicClock::new(), writer, PlegOptions::default());
    let pleg = pleg.expect("the defaults are valid");
    tokio.block_on(pleg.relist());
    bencher.bench_local(|| tokio.block_on(pleg.relist()));
}

#[divan::bench(args = [110, 1_000])]
fn nothing_has_changed(bencher: Bencher, pods: usize) {
    relist(bencher, pods, false);
}

#[divan::bench(args = [110, 1_000])]
fn every_pod_has_changed(bencher: Bencher, pods: usize) {
    relist(bencher, pods, true);
}
