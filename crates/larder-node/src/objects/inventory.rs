//! All objects of a cache: lists and snapshots of them, prefetches, and the end of idle watches.

use super::{ObjectCache, ObjectList};
use crate::error::ReadError;
use crate::fetch_log::{FetchLog, SourceFetch, SourceReflectors};
use futures_util::stream::{self, StreamExt as _};
use larder_clock::Clock;
use larder_objects::{FreshState, Kept, ObjectKey, ObjectState, ObjectStatus, Store as _, WatchStats};
use larder_resource::journal::{Journal, Order};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How many objects a list or a prefetch reads at once.
const READS_AT_ONCE: usize = 16;

impl<F, R, C> ObjectCache<F, R, C>
where
    F: SourceFetch,
    R: SourceReflectors<F::Error>,
    C: Clock + Clone,
{
    /// Reads every object that pods refer to and that `wanted` selects, for at most `deadline`. The freshness of each object is
    /// judged at the end, because a TTL may expire while other objects are fetched.
    pub(crate) async fn list(&self, wanted: impl Fn(&ObjectKey) -> bool, deadline: Duration) -> ObjectList {
        let mut keys: Vec<_> = self.objects.store().snapshot().into_iter().map(|status| status.key).collect();
        keys.retain(|key| wanted(key));
        keys.sort_unstable();
        // One deadline for all reads. An object that is not fetched in time is answered with the object that is held.
        let end = tokio::time::Instant::now() + deadline;
        let reads = keys.into_iter().map(|key| async move {
            let left = end.saturating_duration_since(tokio::time::Instant::now());
            let result = self.read(key.namespace(), key.name(), left).await;
            (key, result)
        });
        let results: Vec<_> = stream::iter(reads).buffered(READS_AT_ONCE).collect().await;
        let mut list = ObjectList { items: Vec::with_capacity(results.len()), absent: Vec::new(), unknown: Vec::new() };
        // The first answers have waited for the last ones.
        let now = self.clock.now();
        for (key, result) in results {
            match result {
                Ok(mut answer) => {
                    answer.freshness = answer.freshness.at(now);
                    if let FreshState::Stale { reason, .. } = answer.freshness.state {
                        answer.why.get_or_insert_with(|| reason.to_string());
                    }
                    list.items.push(answer);
                }
                Err(ReadError::NotFound { freshness, .. }) => list.absent.push((key, freshness.at(now))),
                // The last pod that refers to it went while the list was made.
                Err(ReadError::NotReferenced { .. }) => {}
                Err(error) => list.unknown.push((key, error)),
            }
        }
        list
    }

    /// The state of every object that pods refer to. Nothing is fetched.
    pub(crate) fn snapshot(&self) -> Vec<ObjectStatus> {
        let mut all = self.objects.store().snapshot();
        for status in &mut all {
            // The manifests are in this process, and every read looks into them.
            if let ObjectState::Present(freshness) = &mut status.state
                && self.is_of_manifests()
                && self.log.failure(&status.key).is_none()
            {
                freshness.state = FreshState::Fresh;
            }
        }
        all
    }

    pub(crate) fn log(&self) -> &FetchLog {
        &self.log
    }

    /// How many fetches a new reference to an object that was held has caused. `None` if there can be none, because the store
    /// holds nothing or the objects come from manifests.
    pub(crate) fn new_reference_fetches(&self) -> Option<u64> {
        self.objects.store().new_reference_fetches().filter(|_| !self.is_of_manifests())
    }

    /// The statistics of a store that watches.
    pub(crate) fn watch_stats(&self) -> WatchStats {
        self.objects.store().stats()
    }

    /// The memory of the objects that are held, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let store = self.objects.store();
        let held = |status: ObjectStatus| store.held(status.key.namespace(), status.key.name())?.object;
        store.snapshot().into_iter().filter_map(held).map(|object| object.memory()).sum()
    }

    /// Periodically stops the watches of idle objects, until the token is cancelled.
    pub(crate) async fn stop_idle(&self, every: Duration, token: CancellationToken) {
        while token.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
            self.objects.store().stop_idle();
        }
    }

    /// The journal of what clients see of these objects; the first call begins it, at `base` or above.
    pub(crate) fn journal(&self, base: u64) -> Journal {
        let order = if self.is_of_manifests() { Order::OfThisRun } else { Order::AsSeen };
        self.view.journal(order, base)
    }

    /// Reads all objects again and again as long as somebody watches them by the Kubernetes API, until the token is cancelled:
    /// a strategy that does not watch sees a change when the object is read. A read costs a request only where the strategy
    /// says so.
    pub(crate) async fn follow(&self, every: Duration, deadline: Duration, token: CancellationToken) {
        while token.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
            if !self.is_followed() {
                continue;
            }
            if token.run_until_cancelled(self.read_all(deadline)).await.is_none() {
                return;
            }
        }
    }

    /// Reads all objects for the journal. These reads are larder's own, so the metrics do not count them.
    pub(crate) async fn read_all(&self, deadline: Duration) {
        let reads = self.objects.store().snapshot().into_iter().map(|status| async move {
            // The log has the result.
            let _ = self.read_inner(&status.key, self.clock.now(), deadline).await;
        });
        stream::iter(reads).buffer_unordered(READS_AT_ONCE).collect::<()>().await;
    }

    /// Whether somebody watches these objects by the Kubernetes API.
    pub(crate) fn is_followed(&self) -> bool {
        self.view.begun().is_some_and(|journal| journal.followers() > 0)
    }

    /// Fetches the objects that pods refer to and that were never fetched, until the token is cancelled. Skips objects of the
    /// direct strategy, because every read fetches them anyway.
    pub(crate) async fn prefetch(&self, every: Duration, deadline: Duration, token: CancellationToken) {
        loop {
            tokio::select! {
                () = token.cancelled() => return,
                () = self.new_references.notified() => {}
                () = tokio::time::sleep(every) => {}
            }
            let is_missing = |status: &ObjectStatus| {
                status.state == ObjectState::NotFetched && status.kept != Kept::Direct && !status.fetching
            };
            let missing = self.objects.store().snapshot().into_iter().filter(is_missing);
            let reads = missing.map(|status| async move {
                let key = status.key;
                // The log and the metrics have the result.
                let _ = self.read(key.namespace(), key.name(), deadline).await;
            });
            let all = stream::iter(reads).buffer_unordered(READS_AT_ONCE).collect::<()>();
            tokio::select! {
                () = token.cancelled() => return,
                () = all => {}
            }
        }
    }
}
