//! What is read without a lock: the answers are the same either way, so this is seen from inside only.

use super::observed::tests::{Doc, Failure, doc};
use super::*;
use crate::{Object as _, ReadKind, ReflectorSink, fetch_fn};
use futures_util::FutureExt;
use larder_clock::VirtualClock;
use std::sync::Mutex;

/// Two referenced objects are enough for a namespace's watch.
struct Two;

impl Rules for Two {
    const POLLS: bool = true;

    fn polling(&self) -> Option<ObjectTtl> {
        Some(ObjectTtl::from_nanos(i64::MAX))
    }

    fn namespaces_from(&self) -> Option<usize> {
        Some(2)
    }
}

/// A source in which every namespace may be watched, and has two objects.
#[derive(Default)]
struct Namespaces(Mutex<Vec<ReflectorSink<Doc, Failure>>>);

impl Reflectors for Namespaces {
    type Object = Doc;
    type Error = Failure;
    type Reflector = ();

    fn start(&self, scope: &Scope, _: Option<String>, sink: ReflectorSink<Doc, Failure>) {
        assert_eq!(*scope, Scope::Namespace("ns".into()));
        self.0.lock().unwrap().push(sink);
    }

    fn may_watch(&self, _: &str) -> impl Future<Output = bool> + Send + 'static {
        std::future::ready(true)
    }

    fn count(&self, _: &str) -> impl Future<Output = Result<u64, Failure>> + Send + 'static {
        std::future::ready(Ok(2))
    }
}

#[test]
fn every_object_of_a_namespace_whose_watch_is_healthy_is_read_without_a_lock() {
    let fetch = fetch_fn(|_, _| std::future::pending::<Result<Arc<Doc>, Failure>>());
    let cache =
        ReflectorStore::with_rules(fetch, Namespaces::default(), VirtualClock::default(), Two, WatchOptions::default());
    cache.add_references("ns", &["a", "b"], "pod").run();
    cache.consider("ns").expect("to be asked").now_or_never().expect("answered at once");
    let sink = cache.reflectors.0.lock().unwrap()[0].clone();
    let without_lock = || ["a", "b"].map(|name| cache.get_published("ns", name).is_some());
    assert_eq!(without_lock(), [false, false]);
    sink.replace(vec![("a".to_owned(), doc(1)), ("b".to_owned(), doc(2))], ReadKind::Consistent);
    assert_eq!(without_lock(), [true, true]);
    sink.failed(Arc::new(Failure::Unavailable));
    assert_eq!(without_lock(), [false, false]);
    // What is told of one object shows that the watch is well again.
    sink.set("a", doc(3));
    assert_eq!(without_lock(), [true, true]);
    assert!(matches!(cache.get_published("ns", "b"), Some(Ok(read)) if read.object.resource_version() == "2"));
}
