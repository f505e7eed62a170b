//! One store over the strategies: what the policies of the daemon stand on.

use crate::fetch_log::{Logged, SourceFetch, SourceReflect};
use crate::objects::NodeTtl;
use crate::reflect_log::LoggedReflect;
use crate::strategy::Strategy;
use larder_clock::Clock;
use larder_kube::KubeObject;
use larder_objects::{
    AutoOptions, AutoStore, DirectStore, Effects, Fetch, GetError, ObjectStatus, Read, Store, TtlStore, WatchStats,
    WatchStore,
};

/// Reflectors whose errors are those of the fetches.
type Reflecting<F, R, C> = LoggedReflect<R, C, <F as Fetch>::Error>;

/// The store of the strategy that was chosen.
pub(crate) enum ObjectStore<F, R, C>
where
    F: SourceFetch,
    R: SourceReflect<F::Error>,
    C: Clock + Clone,
{
    Direct(DirectStore<Logged<F, C>, C>),
    Ttl(TtlStore<Logged<F, C>, C, NodeTtl>),
    Watch(WatchStore<Logged<F, C>, Reflecting<F, R, C>, C>),
    Auto(AutoStore<Logged<F, C>, Reflecting<F, R, C>, C, NodeTtl>),
}

impl<F, R, C> ObjectStore<F, R, C>
where
    F: SourceFetch,
    R: SourceReflect<F::Error>,
    C: Clock + Clone,
{
    pub(crate) fn new(
        strategy: Strategy,
        fetch: Logged<F, C>,
        reflect: LoggedReflect<R, C, F::Error>,
        clock: C,
        (ttl, default_ttl): (NodeTtl, i64),
        options: AutoOptions,
    ) -> Self {
        match strategy {
            Strategy::Direct => Self::Direct(DirectStore::new(fetch, clock)),
            Strategy::Ttl => Self::Ttl(TtlStore::new(fetch, clock, ttl, default_ttl)),
            Strategy::Watch => Self::Watch(WatchStore::new(fetch, reflect, clock, options.watch)),
            Strategy::Auto => Self::Auto(AutoStore::new(fetch, reflect, clock, ttl, default_ttl, options)),
        }
    }

    pub(crate) const fn strategy(&self) -> Strategy {
        match self {
            Self::Direct(_) => Strategy::Direct,
            Self::Ttl(_) => Strategy::Ttl,
            Self::Watch(_) => Strategy::Watch,
            Self::Auto(_) => Strategy::Auto,
        }
    }

    /// What a store that watches holds of an object, asking nobody; `None` from one that does not.
    pub(crate) fn held(&self, namespace: &str, name: &str) -> Option<Read<KubeObject>> {
        match self {
            Self::Direct(_) | Self::Ttl(_) => None,
            Self::Watch(store) => store.held(namespace, name),
            Self::Auto(store) => store.held(namespace, name),
        }
    }

    /// How many fetches were for the sake of a new reference to an object that was held; `None` where nothing is held.
    pub(crate) fn new_reference_fetches(&self) -> Option<u64> {
        match self {
            Self::Direct(_) => None,
            Self::Ttl(store) => Some(store.new_reference_fetches()),
            Self::Watch(store) => Some(store.stats().verifying_reads),
            Self::Auto(store) => Some(store.stats().verifying_reads),
        }
    }

    /// Drops what is cached of an object, where a store that watches would see to that by itself.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        if let Self::Ttl(store) = self {
            store.forget(namespace, name);
        }
    }

    /// What a store that watches has done.
    pub(crate) fn stats(&self) -> WatchStats {
        match self {
            Self::Direct(_) | Self::Ttl(_) => WatchStats::default(),
            Self::Watch(store) => store.stats(),
            Self::Auto(store) => store.stats(),
        }
    }

    /// Says which objects of a namespace are mounted, and so read again and again, to a store that makes use of that.
    pub(crate) fn mounted<'n>(&self, namespace: &str, names: impl Iterator<Item = &'n str>) {
        if let Self::Auto(store) = self {
            names.for_each(|name| store.set_mounted(namespace, name));
        }
    }

    /// Stops the watches of objects that nobody has read for long.
    pub(crate) fn stop_idle(&self) {
        match self {
            Self::Direct(_) | Self::Ttl(_) => {}
            Self::Watch(store) => store.stop_idle(),
            Self::Auto(store) => store.stop_idle(),
        }
    }
}

/// Calls the store of the strategy that was chosen.
macro_rules! each {
    ($self:ident, $store:ident => $call:expr) => {
        match $self {
            Self::Direct($store) => $call,
            Self::Ttl($store) => $call,
            Self::Watch($store) => $call,
            Self::Auto($store) => $call,
        }
    };
}

impl<F, R, C> Store for ObjectStore<F, R, C>
where
    F: SourceFetch,
    R: SourceReflect<F::Error>,
    C: Clock + Clone,
{
    type Object = KubeObject;
    type Error = F::Error;

    fn add_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_> {
        each!(self, store => store.add_references(namespace, names, uid))
    }

    fn delete_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_> {
        each!(self, store => store.delete_references(namespace, names, uid))
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Read<KubeObject>, GetError<F::Error>> {
        each!(self, store => store.get(namespace, name).await)
    }

    fn references(&self, namespace: &str, name: &str) -> usize {
        each!(self, store => store.references(namespace, name))
    }

    fn snapshot(&self) -> Vec<ObjectStatus> {
        each!(self, store => store.snapshot())
    }
}
