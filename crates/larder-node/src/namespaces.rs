//! The namespaces of this node's pods, which are read when somebody asks for them.
//!
//! An [`ObjectCache`] with a TTL holds one object for each namespace that has a pod of this node. Each is read by its name, so the
//! verb `get` suffices.
//!
//! # Guarantees
//!
//! - *Lazy*: until somebody asks for a namespace, no request is sent and nothing is held.
//! - *Alone*: where larder's identity may not read a namespace, nothing else notices. After a refusal, the API server is not asked
//!   for this namespace again before a pause, which grows to [`LONGEST_PAUSE`].
//!
//! # Limits
//!
//! A watch notices a change of a namespace when larder reads the namespace again, as with the strategy `ttl`.
//!
//! # Cancel safety
//!
//! A dropped read leaves nothing behind.
//!
//! # Locks
//!
//! One, for the namespaces that are held. It comes before all locks of the cache, and is never held over an `.await`.

use crate::answer::Answer;
use crate::error::ReadError;
use crate::objects::{ObjectCacheConfig, ObjectList};
use crate::registrar::Cache;
use crate::source::{ObjectReflectors, ObjectSource};
use crate::strategy::Strategy;
use larder_clock::{MachineClocks, MonotonicClock, ThisMachine};
use larder_objects::{Effects, ObjectKey};
use larder_resource::journal::Journal;
use larder_resource::{Change, Kind, KubeObject, Pod, SourceReader};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// The longest pause after fetches of a namespace that failed. A refusal lasts until a person changes the rules.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The settings of the cache.
pub(crate) type Config<M> = ObjectCacheConfig<ObjectSource, ObjectReflectors, MonotonicClock<M>>;

/// The namespaces of this node's pods.
pub(crate) struct Namespaces<M: MachineClocks = ThisMachine> {
    pods: SourceReader<Pod>,
    cache: Cache<M>,
    held: Mutex<Held>,
    /// Whether the task that serves watches was started.
    follows: AtomicBool,
}

/// The namespaces that the cache holds.
#[derive(Default)]
struct Held {
    keys: BTreeSet<ObjectKey>,
    /// How many changes the pods had when the namespaces were last taken from them.
    changes: Option<u64>,
}

impl<M: MachineClocks> Namespaces<M> {
    /// The namespaces of these pods. Of the settings, the strategy is [`Strategy::Ttl`], and the longest backoff is larger.
    pub(crate) fn new(pods: SourceReader<Pod>, mut config: Config<M>) -> Self {
        config.strategy = Strategy::Ttl;
        config.policy.fetch_backoff_max = config.policy.fetch_backoff_max.max(LONGEST_PAUSE);
        Self { pods, cache: Cache::new(config), held: Mutex::default(), follows: AtomicBool::new(false) }
    }

    /// Whether a pod of this node is in the namespace.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.refresh();
        self.cache.references("", name) > 0
    }

    /// Reads a namespace, for at most `deadline`.
    ///
    /// # Errors
    ///
    /// [`ReadError::NotPermitted`] where larder's identity may not read it, and those of [`ObjectCache::read`](crate::objects::ObjectCache::read).
    pub(crate) async fn read(&self, name: &str, deadline: Duration) -> Result<Answer<KubeObject>, ReadError> {
        self.refresh();
        let read = self.cache.read("", name, deadline).await;
        read.map_err(|error| self.explained(&ObjectKey::new("", name), error))
    }

    /// Reads the namespaces that `wanted` selects, for at most `deadline`.
    pub(crate) async fn list(&self, wanted: impl Fn(&ObjectKey) -> bool, deadline: Duration) -> ObjectList {
        self.refresh();
        let mut list = self.cache.list(wanted, deadline).await;
        for (key, error) in &mut list.unknown {
            *error = self.explained(key, error.clone());
        }
        list
    }

    /// The journal, which the first call begins at a version above `base`; and whether this is the first call. Then the caller
    /// runs [`follow`](Self::follow).
    pub(crate) fn journal(&self, base: u64) -> (Journal, bool) {
        self.refresh();
        // Nothing else depends on the flag.
        (self.cache.journal(base), !self.follows.swap(true, Ordering::Relaxed))
    }

    /// As long as somebody watches namespaces, reads them periodically, and when a pod has come or gone, until the token is
    /// cancelled.
    pub(crate) async fn follow(&self, every: Duration, deadline: Duration, token: CancellationToken) {
        let mut changes = self.pods.changes();
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = token.cancelled() => return,
                Some(change) = changes.next() => match change {
                    // A pod does not change its namespace.
                    Change::Set { old: Some(_), .. } => continue,
                    Change::Resync(_) | Change::Set { old: None, .. } | Change::Removed(_) => {}
                },
                _ = ticks.tick() => {}
            }
            if !self.cache.is_followed() {
                continue;
            }
            self.refresh();
            if token.run_until_cancelled(self.cache.read_all(deadline)).await.is_none() {
                return;
            }
        }
    }

    /// Holds the namespaces of the pods as they are now, and no others.
    fn refresh(&self) {
        let status = self.pods.status();
        // Pods and namespaces have the same API server.
        if let Some(at) = status.last_contact.filter(|_| status.failures == 0) {
            self.cache.log().source_answered(at);
        }
        let mut effects = Effects::none();
        let mut held = self.held.lock();
        // Before the pods: a change in between is seen by the next call.
        let changes = Some(self.pods.status().changes);
        if held.changes != changes {
            let pods = self.pods.list();
            let names: BTreeSet<&str> = pods.iter().map(|pod| pod.namespace()).collect();
            let keys: BTreeSet<_> = names.into_iter().map(|name| ObjectKey::new("", name)).collect();
            for key in held.keys.difference(&keys) {
                effects = effects.and(self.cache.unhold(key));
            }
            for key in keys.difference(&held.keys) {
                effects = effects.and(self.cache.hold(key));
            }
            *held = Held { keys, changes };
        }
        drop(held);
        effects.run();
    }

    /// The error, if it is a refusal, with what to do about it.
    fn explained(&self, key: &ObjectKey, error: ReadError) -> ReadError {
        match (error, self.cache.log().failure(key)) {
            (ReadError::Unknown { why, .. }, Some(failure)) if failure.class == "forbidden" => {
                ReadError::NotPermitted { kind: Kind::Namespace, key: key.clone(), why }
            }
            (error, _) => error,
        }
    }
}
