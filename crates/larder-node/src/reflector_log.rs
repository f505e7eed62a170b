//! Wraps the reflectors of a store, and writes their events to the fetch log: the health of the source, which watches fail and
//! why, and versions that went back. Each event then goes on to the store, and then the view looks at what the store holds.
//!
//! # Locks
//!
//! The log's, for each event of a reflector. It is released before the store gets the event. The view's comes after that.

use crate::fetch_log::{FetchLog, SourceError};
use crate::objects::View;
use futures_util::TryFutureExt as _;
use larder_clock::Clock;
use larder_objects::{FetchError, ObjectKey, ReflectorEvent, ReflectorSink, Reflectors, Scope};
use larder_resource::{Kind, KubeObject};
use std::marker::PhantomData;
use std::sync::Arc;

/// Starts reflectors that write the log. Their errors are converted to those of the fetches.
pub(crate) struct LoggedReflectors<R, C, E> {
    pub(crate) reflectors: R,
    pub(crate) told: Arc<Told<C>>,
    pub(crate) error: PhantomData<fn() -> E>,
}

/// Who is told of the events. One for all reflectors, of which there are as many as objects.
pub(crate) struct Told<C> {
    pub(crate) kind: Kind,
    pub(crate) clock: C,
    pub(crate) log: Arc<FetchLog>,
    pub(crate) view: Arc<View>,
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
    told: Arc<Told<C>>,
    scope: Scope,
}

impl<C: Clock> ScopeLog<C> {
    /// The source has confirmed the scope, or has sent the state of the object `key`.
    fn observed(&self, key: Option<&ObjectKey>) {
        self.told.log.watch_observed(&self.scope, key, self.told.clock.now());
    }

    fn observed_object(&self, name: &str) {
        self.observed(Some(&self.key(name)));
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.scope.namespace(), name)
    }

    fn failed<E: SourceError>(&self, error: &E) {
        self.told.log.watch_failed(&self.scope, self.told.clock.now(), error);
    }

    fn went_back(&self, before: &str, after: &str) {
        tracing::warn!(
            kind = self.told.kind.resource(), object = %self.scope, before, after,
            "resourceVersion went back: was the API server's etcd restored from a backup? Everything is listed again"
        );
    }
}

impl<R, C, E> Reflectors for LoggedReflectors<R, C, E>
where
    R: Reflectors<Object = KubeObject>,
    R::Error: SourceError + Clone + Into<E>,
    C: Clock,
    E: FetchError,
{
    type Object = KubeObject;
    type Error = E;
    type Reflector = LoggedReflector<R::Reflector>;

    fn start(
        &self,
        scope: &Scope,
        resume: Option<String>,
        sink: ReflectorSink<KubeObject, E>,
    ) -> LoggedReflector<R::Reflector> {
        let log = ScopeLog { told: Arc::clone(&self.told), scope: scope.clone() };
        let logged = ReflectorSink::from_fn(move |event: ReflectorEvent<KubeObject, R::Error>| match event {
            ReflectorEvent::Listing => sink.listing(),
            ReflectorEvent::Replace(objects, read) => {
                log.observed(match &log.scope {
                    // An empty list is an answer, too: the object does not exist.
                    Scope::Object(key) => Some(key),
                    Scope::Namespace(_) => None,
                });
                for (name, _) in &objects {
                    log.observed_object(name);
                }
                sink.replace(objects, read);
                log.told.view.observe_scope(&log.scope);
            }
            ReflectorEvent::Set(name, object) => {
                log.observed_object(&name);
                sink.set(&name, object);
                log.told.view.observe(&log.key(&name), None);
            }
            ReflectorEvent::Delete(name, last) => {
                log.observed_object(&name);
                sink.delete(&name, last.clone());
                log.told.view.observe(&log.key(&name), last);
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
        let reflector = self.reflectors.start(scope, resume, logged);
        LoggedReflector { _reflector: reflector, scope: scope.clone(), log: Arc::clone(&self.told.log) }
    }

    fn may_watch(&self, namespace: &str) -> impl Future<Output = bool> + Send + 'static {
        self.reflectors.may_watch(namespace)
    }

    fn count(&self, namespace: &str) -> impl Future<Output = Result<u64, E>> + Send + 'static {
        self.reflectors.count(namespace).map_err(Into::into)
    }
}
