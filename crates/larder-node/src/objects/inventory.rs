//! All objects of a cache: what is known of each, and what keeps them.

use super::{ObjectCache, ObjectList};
use crate::error::ReadError;
use crate::fetch_log::{FetchLog, SourceFetch, SourceReflectors};
use futures_util::stream::{self, StreamExt as _};
use larder_clock::Clock;
use larder_objects::{FreshState, Kept, ObjectKey, ObjectState, ObjectStatus, Store as _, WatchStats};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Objects that a list or the keeper reads at once.
const READS_AT_ONCE: usize = 16;

impl<F, R, C> ObjectCache<F, R, C>
where
    F: SourceFetch,
    R: SourceReflectors<F::Error>,
    C: Clock + Clone,
{
    /// Reads every object that pods refer to and that `wanted` selects, for at most `deadline`. How fresh each is, is judged at the
    /// end: none whose TTL has passed while others were fetched is called fresh.
    pub(crate) async fn list(&self, wanted: impl Fn(&ObjectKey) -> bool, deadline: Duration) -> ObjectList {
        let mut keys: Vec<_> = self.objects.store().snapshot().into_iter().map(|status| status.key).collect();
        keys.retain(|key| wanted(key));
        keys.sort_unstable();
        // One deadline for all of them: what is not reached in time is answered with what is held.
        let end = tokio::time::Instant::now() + deadline;
        let reads = keys.into_iter().map(|key| async move {
            let left = end.saturating_duration_since(tokio::time::Instant::now());
            let result = self.read(key.namespace(), key.name(), left).await;
            (key, result)
        });
        let results: Vec<_> = stream::iter(reads).buffered(READS_AT_ONCE).collect().await;
        let mut list = ObjectList { items: Vec::with_capacity(results.len()), absent: Vec::new(), unknown: Vec::new() };
        // Those that came first have waited for the others.
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
                // Its last pod went while the list was made.
                Err(ReadError::NotReferenced { .. }) => {}
                Err(error) => list.unknown.push((key, error)),
            }
        }
        list
    }

    /// The state of every object that pods refer to; nothing is fetched for it.
    pub(crate) fn snapshot(&self) -> Vec<ObjectStatus> {
        let mut all = self.objects.store().snapshot();
        for status in &mut all {
            // What is in this process is as good as looked at.
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

    /// How many fetches were for the sake of a new reference to an object that was held; `None` where there are none such:
    /// nothing is held, or nothing is fetched from anywhere.
    pub(crate) fn new_reference_fetches(&self) -> Option<u64> {
        self.objects.store().new_reference_fetches().filter(|_| !self.is_of_manifests())
    }

    /// What a store that watches has done, and holds.
    pub(crate) fn watch_stats(&self) -> WatchStats {
        self.objects.store().stats()
    }

    /// The bytes that the objects which are held take.
    pub(crate) fn held_bytes(&self) -> usize {
        let store = self.objects.store();
        let held = |status: ObjectStatus| store.held(status.key.namespace(), status.key.name())?.object;
        store.snapshot().into_iter().filter_map(held).map(|object| object.memory()).sum()
    }

    /// Stops the watches of objects that nobody has read for long, again and again, until the token is cancelled.
    pub(crate) async fn stop_idle(&self, every: Duration, token: CancellationToken) {
        while token.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
            self.objects.store().stop_idle();
        }
    }

    /// Fetches what pods refer to and nobody has read yet, until the token is cancelled; but for what every read asks for
    /// all the same.
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
                // What came of it stands in the log and in the metrics.
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
