//! What the stores that watch have in common: the cache behind them, as a [`Store`].

use crate::object_cache::{ObjectCache, Rules};
use crate::{Effects, Fetch, GetError, Held, ObjectStatus, Read, Reflectors, Store, WatchStats};
use larder_clock::Clock;
use std::fmt;
use std::sync::Arc;

/// A store whose objects are kept up to date by reflectors, by rules: a [`WatchStore`](crate::WatchStore) or an
/// [`AutoStore`](crate::AutoStore), which have examples.
pub struct ReflectorStore<F: Fetch, R: Reflectors<Object = F::Object, Error = F::Error>, C, P> {
    pub(crate) cache: Arc<ObjectCache<F, R, C, P>>,
}

impl<F, R, C, P> ReflectorStore<F, R, C, P>
where
    F: Fetch,
    R: Reflectors<Object = F::Object, Error = F::Error>,
    C: Clock,
    P: Rules,
{
    /// Where the store fetches from.
    pub fn fetcher(&self) -> &F {
        &self.cache.fetch
    }

    /// What starts the store's reflectors.
    pub fn reflectors(&self) -> &R {
        &self.cache.reflectors
    }

    /// Stops the watches of objects that nobody has read for [`max_idle`](crate::WatchOptions::max_idle), but for those that
    /// have not synced yet; and the watches of namespaces that are no longer worth it. The owner of the store calls this
    /// once a minute.
    pub fn stop_idle(&self) {
        self.cache.stop_idle();
    }

    /// Hands in what was known of an object before this store existed, for instance from a disk. The object is held, stale
    /// and with its age, until the source says something. A read waits for the source as before. Without effect on an
    /// object that is not referenced, or of which something is known.
    pub fn restore(&self, namespace: &str, name: &str, before: Read<F::Object>) {
        self.cache.restore(namespace, name, before);
    }

    /// What the store has done, and holds.
    pub fn stats(&self) -> WatchStats {
        self.cache.stats()
    }
}

impl<F, R, C, P> Store for ReflectorStore<F, R, C, P>
where
    F: Fetch,
    R: Reflectors<Object = F::Object, Error = F::Error>,
    C: Clock,
    P: Rules,
{
    type Object = F::Object;
    type Error = F::Error;

    fn add_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_> {
        self.cache.add_references(namespace, names, uid)
    }

    fn delete_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_> {
        self.cache.delete_references(namespace, names, uid)
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Read<Self::Object>, GetError<Self::Error>> {
        if let Some(answer) = self.cache.get_published(namespace, name) {
            return answer;
        }
        if let Some(considering) = self.cache.consider(namespace) {
            considering.await;
        }
        self.cache.get(namespace, name).await
    }

    fn references(&self, namespace: &str, name: &str) -> usize {
        self.cache.references(namespace, name)
    }

    fn held(&self, namespace: &str, name: &str) -> Option<Held<Self::Object>> {
        self.cache.held(namespace, name)
    }

    fn forget(&self, namespace: &str, name: &str) -> Effects<'_> {
        self.cache.forget(namespace, name)
    }

    fn snapshot(&self) -> Vec<ObjectStatus> {
        self.cache.snapshot()
    }
}

impl<F, R, C, P> fmt::Debug for ReflectorStore<F, R, C, P>
where
    F: Fetch,
    R: Reflectors<Object = F::Object, Error = F::Error>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorStore").finish_non_exhaustive()
    }
}
