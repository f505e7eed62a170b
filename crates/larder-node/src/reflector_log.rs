//! Wraps the reflectors of a store, and writes their events to the fetch log: the health of the source, which watches fail and
//! why, and versions that went back. Each event then goes on to the store.
//!
//! # Locks
//!
//! The log's, for each event of a reflector. It is released before the store gets the event.

use crate::fetch_log::{FetchLog, Scope, SourceError};
use futures_util::TryFutureExt as _;
use larder_clock::Clock;
use larder_objects::{
    FetchError, NamespaceEvent, NamespaceReflectors, NamespaceSink, ObjectKey, ReflectorEvent, ReflectorSink,
    Reflectors,
};
use larder_resource::{KubeObject, ObjectKind};
use std::marker::PhantomData;
use std::sync::Arc;

/// Starts reflectors that write the log. Their errors are converted to those of the fetches.
pub(crate) struct LoggedReflectors<R, C, E> {
    pub(crate) kind: ObjectKind,
    pub(crate) reflect: R,
    pub(crate) clock: C,
    pub(crate) log: Arc<FetchLog>,
    pub(crate) error: PhantomData<fn() -> E>,
}

/// A reflector that runs. When it ends, the log forgets its failure.
pub(crate) struct LoggedReflector<R> {
    _reflector: R,
    scope: Scope,
    log: Arc<FetchLog>,
}

impl<R> Drop for LoggedReflector<R> {
    fn drop(&mut self) {
        self.log.watch_ended(&self.scope);
    }
}

/// Writes the events of one reflector to the log.
struct ScopeLog<C> {
    kind: &'static str,
    scope: Scope,
    clock: C,
    log: Arc<FetchLog>,
}

impl<C: Clock> ScopeLog<C> {
    /// The source has sent one object of the scope, or confirmed all of it.
    fn observed(&self, key: Option<&ObjectKey>) {
        self.log.watch_observed(&self.scope, key, self.clock.now());
    }

    fn failed<E: SourceError>(&self, error: &E) {
        self.log.watch_failed(&self.scope, self.clock.now(), error);
    }

    fn went_back(&self, before: &str, after: &str) {
        tracing::warn!(
            kind = self.kind, object = %self.scope, before, after,
            "resourceVersion went back: was the API server's etcd restored from a backup? Everything is listed again"
        );
    }
}

impl<R, C: Clock + Clone, E> LoggedReflectors<R, C, E> {
    fn log(&self, scope: Scope) -> ScopeLog<C> {
        let kind = self.kind.resource();
        ScopeLog { kind, scope, clock: self.clock.clone(), log: Arc::clone(&self.log) }
    }

    fn logged<T>(&self, scope: Scope, reflector: T) -> LoggedReflector<T> {
        LoggedReflector { _reflector: reflector, scope, log: Arc::clone(&self.log) }
    }
}

impl<R, C, E> Reflectors for LoggedReflectors<R, C, E>
where
    R: Reflectors<Object = KubeObject>,
    R::Error: SourceError + Clone + Into<E>,
    C: Clock + Clone,
    E: FetchError,
{
    type Object = KubeObject;
    type Error = E;
    type Reflector = LoggedReflector<R::Reflector>;

    fn start(
        &self,
        key: &ObjectKey,
        resume: Option<String>,
        sink: ReflectorSink<KubeObject, E>,
    ) -> LoggedReflector<R::Reflector> {
        let scope = Scope::Object(key.clone());
        let (log, of) = (self.log(scope.clone()), key.clone());
        let logged = ReflectorSink::from_fn(move |event: ReflectorEvent<KubeObject, R::Error>| match event {
            ReflectorEvent::Listing => sink.listing(),
            ReflectorEvent::Replace(object, read) => {
                log.observed(Some(&of));
                sink.replace(object, read);
            }
            ReflectorEvent::Set(object) => {
                log.observed(Some(&of));
                sink.set(object);
            }
            ReflectorEvent::Delete => {
                log.observed(Some(&of));
                sink.delete();
            }
            ReflectorEvent::Confirm(ago) => {
                log.observed(None);
                sink.confirm_as_of(ago);
            }
            ReflectorEvent::Bookmark { version } => {
                log.observed(None);
                sink.bookmark(&version);
            }
            ReflectorEvent::Failed(error) => {
                log.failed(&*error);
                sink.failed(Arc::new((*error).clone().into()));
            }
            ReflectorEvent::WentBack { before, after } => {
                log.went_back(&before, &after);
                sink.went_back(&before, &after);
            }
        });
        self.logged(scope, self.reflect.start(key, resume, logged))
    }
}

impl<R, C, E> NamespaceReflectors for LoggedReflectors<R, C, E>
where
    R: NamespaceReflectors<Object = KubeObject>,
    R::Error: SourceError + Clone + Into<E>,
    C: Clock + Clone,
    E: FetchError,
{
    fn may_watch(&self, namespace: &str) -> impl Future<Output = bool> + Send + 'static {
        self.reflect.may_watch(namespace)
    }

    fn count(&self, namespace: &str) -> impl Future<Output = Result<u64, E>> + Send + 'static {
        self.reflect.count(namespace).map_err(Into::into)
    }

    fn start_namespace(&self, namespace: &str, sink: NamespaceSink<KubeObject, E>) -> LoggedReflector<R::Reflector> {
        let scope = Scope::Namespace(namespace.into());
        let (log, of) = (self.log(scope.clone()), namespace.to_owned());
        let logged = NamespaceSink::from_fn(move |event: NamespaceEvent<KubeObject, R::Error>| match event {
            NamespaceEvent::Listing => sink.listing(),
            NamespaceEvent::Replace(objects, read) => {
                log.observed(None);
                for (name, _) in &objects {
                    log.observed(Some(&ObjectKey::new(&of, name)));
                }
                sink.replace(objects, read);
            }
            NamespaceEvent::Set(name, object) => {
                log.observed(Some(&ObjectKey::new(&of, &name)));
                sink.set(&name, object);
            }
            NamespaceEvent::Delete(name) => {
                log.observed(Some(&ObjectKey::new(&of, &name)));
                sink.delete(&name);
            }
            NamespaceEvent::Confirm(ago) => {
                log.observed(None);
                sink.confirm_as_of(ago);
            }
            NamespaceEvent::Bookmark { version } => {
                log.observed(None);
                sink.bookmark(&version);
            }
            NamespaceEvent::Failed(error) => {
                log.failed(&*error);
                sink.failed(Arc::new((*error).clone().into()));
            }
            NamespaceEvent::WentBack { before, after } => {
                log.went_back(&before, &after);
                sink.went_back(&before, &after);
            }
        });
        self.logged(scope, self.reflect.start_namespace(namespace, logged))
    }
}
