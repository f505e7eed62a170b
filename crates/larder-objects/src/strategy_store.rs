//! A store whose strategy is chosen at run time, with what an owner may want beyond the exact strategies.

use crate::{
    AutoOptions, AutoStore, DirectStore, Effects, Fetch, GetError, Held, LastKnown, ObjectStatus, Read, Reflectors,
    Store, StoreTtl, Strategy, Ttl, TtlStore, WatchStats, WatchStore, WentBack,
};
use larder_clock::Clock;
use std::fmt;
use std::sync::Arc;

/// What a [`StrategyStore`] does beyond its strategy. A strategy uses what it needs; by default, each is exact.
///
/// ```
/// use larder_objects::StrategyOptions;
/// let mut options = StrategyOptions::<()>::default();
/// assert!(!options.negative_entries && options.went_back.is_none());
/// options.keep_last_known = true;
/// ```
#[non_exhaustive]
pub struct StrategyOptions<O> {
    /// How watches are kept, and how [`Strategy::Auto`] chooses. Its hash seed counts for every strategy.
    pub auto: AutoOptions,
    /// With [`Strategy::Ttl`]: [`TtlStore::with_negative_entries`].
    pub negative_entries: bool,
    /// With [`Strategy::Direct`] and [`Strategy::Ttl`], whose stores do not do that by themselves: [`LastKnown`] keeps what
    /// was read last.
    pub keep_last_known: bool,
    /// With these two: who is told that a lower version was believed. `None`: it is not.
    pub went_back: Option<WentBack<O>>,
}

impl<O> Default for StrategyOptions<O> {
    fn default() -> Self {
        Self { auto: AutoOptions::default(), negative_entries: false, keep_last_known: false, went_back: None }
    }
}

/// The store of a [`Strategy`] that is chosen at run time, as by a setting.
///
/// ```
/// use larder_clock::MonotonicClock;
/// use larder_objects::{DefaultTtl, Store, StoreTtl, Strategy, StrategyOptions, StrategyStore, fetch_fn};
/// use larder_objects::{ReadKind, ReflectorSink, Reflectors, Scope};
/// use std::sync::Arc;
/// use std::time::Duration;
///
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
/// /// A source in which every object is there, and no namespace may be watched.
/// struct Constant;
/// impl Reflectors for Constant {
///     type Object = Secret;
///     type Error = Unavailable;
///     type Reflector = ();
///     fn start(&self, _: &Scope, _: Option<String>, sink: ReflectorSink<Secret, Unavailable>) {
///         sink.replace(vec![("db".to_owned(), Arc::new(Secret))], ReadKind::Consistent);
///     }
/// #     fn may_watch(&self, _: &str) -> impl Future<Output = bool> + Send + 'static {
/// #         std::future::ready(false)
/// #     }
/// #     fn count(&self, _: &str) -> impl Future<Output = Result<u64, Unavailable>> + Send + 'static {
/// #         std::future::ready(Err(Unavailable))
/// #     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let strategy: Strategy = "watch".parse().unwrap();
/// let fetch = fetch_fn(|_, _| async { Ok::<_, Unavailable>(Arc::new(Secret)) });
/// let (clock, ttl) = (MonotonicClock::new(), StoreTtl::new(DefaultTtl, Duration::from_mins(1)));
/// let store = StrategyStore::new(strategy, fetch, Constant, clock, ttl, StrategyOptions::default());
/// store.add_references("shop", &["db"], "0b5c").run();
/// assert!(store.get("shop", "db").await.unwrap().freshness.is_fresh());
/// assert_eq!((store.strategy(), store.stats().watching), (Strategy::Watch, 1));
/// # });
/// ```
pub enum StrategyStore<F, R, C, T>
where
    F: Fetch,
    R: Reflectors<Object = F::Object, Error = F::Error>,
    C: Clock,
    T: Ttl,
{
    /// [`Strategy::Direct`].
    Direct(LastKnown<DirectStore<F, C>, C>),
    /// [`Strategy::Ttl`].
    Ttl(LastKnown<TtlStore<F, C, T>, C>),
    /// [`Strategy::Watch`].
    Watch(Arc<WatchStore<F, R, C>>),
    /// [`Strategy::Auto`].
    Auto(Arc<AutoStore<F, R, C, T>>),
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

impl<F: Fetch, R: Reflectors<Object = F::Object, Error = F::Error>, C: Clock + Clone, T: Ttl>
    StrategyStore<F, R, C, T>
{
    /// An empty store. A strategy uses what it needs: `reflectors` where it watches, `ttl` where it polls, `options` as they say.
    pub fn new(
        strategy: Strategy,
        fetch: F,
        reflectors: R,
        clock: C,
        ttl: StoreTtl<T>,
        options: StrategyOptions<F::Object>,
    ) -> Self {
        let StrategyOptions { auto, negative_entries, keep_last_known: keep, went_back } = options;
        match strategy {
            Strategy::Direct => {
                Self::Direct(LastKnown::new(DirectStore::new(fetch, clock.clone()), clock, keep, went_back))
            }
            Strategy::Ttl => {
                let store = TtlStore::new(fetch, clock.clone(), ttl)
                    .with_hash_seed(auto.watch.hash_seed)
                    .with_negative_entries(negative_entries);
                Self::Ttl(LastKnown::new(store, clock, keep, went_back))
            }
            Strategy::Watch => Self::Watch(WatchStore::new(fetch, reflectors, clock, auto.watch)),
            Strategy::Auto => Self::Auto(AutoStore::new(fetch, reflectors, clock, ttl, auto)),
        }
    }

    /// The strategy that was chosen.
    pub const fn strategy(&self) -> Strategy {
        match self {
            Self::Direct(_) => Strategy::Direct,
            Self::Ttl(_) => Strategy::Ttl,
            Self::Watch(_) => Strategy::Watch,
            Self::Auto(_) => Strategy::Auto,
        }
    }

    /// Where the store fetches from.
    pub fn fetcher(&self) -> &F {
        match self {
            Self::Direct(store) => store.store().fetcher(),
            Self::Ttl(store) => store.store().fetcher(),
            Self::Watch(store) => store.fetcher(),
            Self::Auto(store) => store.fetcher(),
        }
    }

    /// How many fetches a new reference to an object that was held has caused; `None` from a store that holds nothing.
    pub fn new_reference_fetches(&self) -> Option<u64> {
        match self {
            Self::Direct(_) => None,
            Self::Ttl(store) => Some(store.store().new_reference_fetches()),
            Self::Watch(store) => Some(store.stats().verifying_reads),
            Self::Auto(store) => Some(store.stats().verifying_reads),
        }
    }

    /// What a store that watches has done, and holds; all zero from one that does not.
    pub fn stats(&self) -> WatchStats {
        match self {
            Self::Direct(_) | Self::Ttl(_) => WatchStats::default(),
            Self::Watch(store) => store.stats(),
            Self::Auto(store) => store.stats(),
        }
    }

    /// Hands in what was known of an object before this store was there, as [`WatchStore::restore`] says.
    pub fn restore(&self, namespace: &str, name: &str, before: Read<F::Object>) {
        each!(self, store => store.restore(namespace, name, before));
    }

    /// Says that an object is mounted, and so read once a sync period, to the store that [makes use of
    /// it](AutoStore::set_mounted).
    pub fn set_mounted(&self, namespace: &str, name: &str) {
        match self {
            Self::Auto(store) => store.set_mounted(namespace, name),
            Self::Direct(_) | Self::Ttl(_) | Self::Watch(_) => {}
        }
    }

    /// Stops the watches of objects that nobody reads. The owner of a store that watches calls this once a minute.
    pub fn stop_idle(&self) {
        match self {
            Self::Direct(_) | Self::Ttl(_) => {}
            Self::Watch(store) => store.stop_idle(),
            Self::Auto(store) => store.stop_idle(),
        }
    }
}

impl<F: Fetch, R: Reflectors<Object = F::Object, Error = F::Error>, C: Clock, T: Ttl> Store
    for StrategyStore<F, R, C, T>
{
    type Object = F::Object;
    type Error = F::Error;

    fn add_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_> {
        each!(self, store => store.add_references(namespace, names, uid))
    }

    fn delete_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_> {
        each!(self, store => store.delete_references(namespace, names, uid))
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Read<F::Object>, GetError<F::Error>> {
        each!(self, store => store.get(namespace, name).await)
    }

    fn references(&self, namespace: &str, name: &str) -> usize {
        each!(self, store => store.references(namespace, name))
    }

    fn held(&self, namespace: &str, name: &str) -> Option<Held<F::Object>> {
        each!(self, store => store.held(namespace, name))
    }

    fn forget(&self, namespace: &str, name: &str) -> Effects<'_> {
        each!(self, store => store.forget(namespace, name))
    }

    fn snapshot(&self) -> Vec<ObjectStatus> {
        each!(self, store => store.snapshot())
    }
}

impl<F: Fetch, R: Reflectors<Object = F::Object, Error = F::Error>, C: Clock, T: Ttl> fmt::Debug
    for StrategyStore<F, R, C, T>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        each!(self, store => store.fmt(f))
    }
}
