//! What clients see of a kind of objects, in a [`Journal`]. Code that may have changed what the store holds calls the view, which
//! then compares the store with its journal.
//!
//! The journal begins with the first list or watch of the Kubernetes API, so a node without any pays nothing.
//!
//! # Guarantees
//!
//! - *As reads see it*: the journal has what [`Store::held`](larder_objects::Store::held) gives of each object that pods refer
//!   to, and gets each change of it before the read or the event that brought it has ended.
//!
//! # Limits
//!
//! A strategy that does not watch notices a change when somebody reads the object. While there are watches of the API, larder
//! reads as the strategy allows ([`ObjectCache::follow`](super::ObjectCache::follow)).
//!
//! # Locks
//!
//! The journal's, and under it the store's.

use larder_objects::{ObjectKey, Scope};
use larder_resource::journal::{Journal, Order, Resource};
use larder_resource::{Kind, KubeObject};
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

/// The store, as the view sees it.
pub(crate) trait Visible: Send + Sync {
    /// An object that pods refer to, if the store holds it.
    fn held(&self, key: &ObjectKey) -> Option<Arc<KubeObject>>;

    /// Every object that pods refer to, of one namespace or of all.
    fn keys(&self, namespace: Option<&str>) -> Vec<ObjectKey>;
}

/// What clients see of a kind of objects.
pub(crate) struct View {
    kind: Kind,
    /// Weak, because the store owns what tells the view.
    store: OnceLock<Weak<dyn Visible>>,
    journal: OnceLock<Journal>,
    is_filled: OnceLock<()>,
}

impl View {
    pub(crate) fn new(kind: Kind) -> Arc<Self> {
        Arc::new(Self { kind, store: OnceLock::new(), journal: OnceLock::new(), is_filled: OnceLock::new() })
    }

    /// The store, once it is made.
    pub(crate) fn set_store(&self, store: Weak<dyn Visible>) {
        // There is one store, and it is set once.
        let _ = self.store.set(store);
    }

    /// The journal, which the first call begins with what the store holds, at `base` or above.
    pub(crate) fn journal(&self, order: Order, base: u64) -> Journal {
        let journal = self.journal.get_or_init(|| Journal::new(self.kind, order));
        // What changes from here on is observed by others too, and nobody follows before all is there.
        self.is_filled.get_or_init(|| {
            self.observe_all(None);
            journal.begin(base);
        });
        journal.clone()
    }

    /// The journal, if it has begun.
    pub(crate) fn begun(&self) -> Option<&Journal> {
        self.journal.get().filter(|_| self.is_filled.get().is_some())
    }

    /// What the store holds of an object may have changed. `last` is the last state of one that was deleted.
    pub(crate) fn observe(&self, key: &ObjectKey, last: Option<Arc<KubeObject>>) {
        let Some(journal) = self.journal.get() else { return };
        let Some(store) = self.store.get().and_then(Weak::upgrade) else { return };
        let last = last.map(|last| last as Arc<Resource>);
        journal.observe(key, last, || store.held(key).map(|object| object as Arc<Resource>));
    }

    /// What the store holds of any object of a scope may have changed.
    pub(crate) fn observe_scope(&self, scope: &Scope) {
        match scope {
            Scope::Object(key) => self.observe(key, None),
            Scope::Namespace(namespace) => self.observe_all(Some(namespace)),
        }
    }

    fn observe_all(&self, namespace: Option<&str>) {
        if self.journal.get().is_none() {
            return;
        }
        let Some(store) = self.store.get().and_then(Weak::upgrade) else { return };
        for key in store.keys(namespace) {
            self.observe(&key, None);
        }
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("kind", &self.kind).field("journal", &self.journal.get()).finish_non_exhaustive()
    }
}
