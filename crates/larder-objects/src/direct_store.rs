//! The direct store: every read asks the source.
//!
//! # Guarantees
//!
//! - **Consistent**: each read is a consistent fetch of its own, and its answer is the fetch's outcome. Nothing is cached,
//!   so nothing is ever stale.
//! - **Only what is referenced**: a read of an object that no registered pod refers to is refused without a fetch.
//!
//! # Limits
//!
//! Readers share no fetch. Memory grows with the referenced objects only.
//!
//! # Cancel safety
//!
//! A dropped read drops its fetch.
//!
//! # Locks
//!
//! One, for the counts; held for a look at one of them.
//!
//! # Differs from kubelet
//!
//! The kubelet's manager of this strategy (`pkg/kubelet/secret`, `pkg/kubelet/configmap`: the simple managers) counts no
//! references, and reads whatever it is asked for.

use crate::sync::Mutex;
use crate::{
    Effects, Fetch, FetchError, FreshState, Freshness, GetError, Held, Kept, ObjectKey, ObjectState, ObjectStatus,
    Outcome, Read, ReadKind, Store,
};
use larder_clock::Clock;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A store that fetches at every read: the kubelet's `Get` strategy.
///
/// ```
/// use larder_clock::MonotonicClock;
/// use larder_objects::{DirectStore, Store, fetch_fn};
/// use std::sync::Arc;
/// # struct Secret;
/// # impl larder_objects::Object for Secret {
/// #     fn resource_version(&self) -> &str {
/// #         "1"
/// #     }
/// #     fn uid(&self) -> &str {
/// #         ""
/// #     }
/// #     fn is_immutable(&self) -> bool {
/// #         false
/// #     }
/// # }
/// # #[derive(Debug, thiserror::Error)]
/// # #[error("unavailable")]
/// # struct Unavailable;
/// # impl larder_objects::FetchError for Unavailable {
/// #     fn is_not_found(&self) -> bool {
/// #         false
/// #     }
/// #     fn class(&self) -> &'static str {
/// #         "failed"
/// #     }
/// # }
/// let server = fetch_fn(|_, _| async { Ok::<_, Unavailable>(Arc::new(Secret)) });
/// let store = DirectStore::new(server, MonotonicClock::new());
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// assert!(store.get("shop", "db").await.unwrap_err().is_not_registered());
/// store.add_references("shop", &["db"], "0b5c").run();
/// assert!(store.get("shop", "db").await.unwrap().freshness.is_fresh());
/// # });
/// ```
pub struct DirectStore<F, C> {
    fetch: F,
    clock: C,
    references: Mutex<BTreeMap<ObjectKey, usize>>,
}

impl<F: Fetch, C: Clock> DirectStore<F, C> {
    /// An empty store.
    pub fn new(fetch: F, clock: C) -> Self {
        Self { fetch, clock, references: Mutex::new(BTreeMap::new()) }
    }

    /// Where the store fetches from.
    pub fn fetcher(&self) -> &F {
        &self.fetch
    }
}

impl<F: Fetch, C: Clock> Store for DirectStore<F, C> {
    type Object = F::Object;
    type Error = F::Error;

    fn add_references(&self, namespace: &str, names: &[&str], _uid: &str) -> Effects<'_> {
        let mut references = self.references.lock();
        for name in names {
            *references.entry(ObjectKey::new(namespace, name)).or_default() += 1;
        }
        Effects::none()
    }

    fn delete_references(&self, namespace: &str, names: &[&str], _uid: &str) -> Effects<'_> {
        let mut references = self.references.lock();
        for name in names {
            let key = ObjectKey::new(namespace, name);
            if let Some(count) = references.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    references.remove(&key);
                }
            }
        }
        Effects::none()
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Read<Self::Object>, GetError<Self::Error>> {
        let key = ObjectKey::new(namespace, name);
        if !self.references.lock().contains_key(&key) {
            return Err(GetError::NotRegistered { key });
        }
        let fetched = self.fetch.fetch(&key, ReadKind::Consistent).await;
        let source = self.fetch.source(ReadKind::Consistent);
        let freshness = Freshness::new(self.clock.now(), source, FreshState::Fresh);
        match fetched {
            Ok(object) => Ok(Read { object, freshness, outcome: Outcome::Fetched }),
            Err(error) if error.is_not_found() => Err(GetError::NotFound { key, freshness }),
            Err(error) => Err(GetError::Fetch { key, source: Arc::new(error) }),
        }
    }

    fn references(&self, namespace: &str, name: &str) -> usize {
        self.references.lock().get(&ObjectKey::new(namespace, name)).copied().unwrap_or_default()
    }

    fn held(&self, _: &str, _: &str) -> Option<Held<Self::Object>> {
        None
    }

    fn forget(&self, _: &str, _: &str) -> Effects<'_> {
        Effects::none()
    }

    fn snapshot(&self) -> Vec<ObjectStatus> {
        let references = self.references.lock();
        let status = |(key, &references): (&ObjectKey, &usize)| ObjectStatus {
            key: key.clone(),
            references,
            fetching: false,
            kept: Kept::Direct,
            state: ObjectState::NotFetched,
        };
        references.iter().map(status).collect()
    }
}

impl<F, C> fmt::Debug for DirectStore<F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectStore").finish_non_exhaustive()
    }
}
