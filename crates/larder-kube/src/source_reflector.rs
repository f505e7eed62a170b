//! Keeps the pods of a node, or the node itself, up to date: one [list-watch](crate::list_watch) for each.
//!
//! # Guarantees
//!
//! Besides the guarantees of [`list_watch`](crate::list_watch) on freshness and backoff:
//!
//! - *No false absence*: a source has [synced](larder_resource::SourceStatus::synced) once a list is known to be current. Until
//!   then the objects of a list from the API server's cache are served as stale; an object that the list lacks is 'not known yet'.
//! - *A dead link is noticed* over HTTP/1.1 too: the kernel probes an idle connection, and a watch without an event or bookmark
//!   for [`KubeOptions::idle_timeout`](crate::KubeOptions::idle_timeout) leads to a new list.
//!
//! # Limits
//!
//! Lists are JSON, of one page. Each source holds one watch.
//!
//! # Cancel safety
//!
//! Cancelling or dropping the run closes the watch. Readers keep the last known objects, marked stale.

use crate::client::KubeClient;
use crate::error::KubeError;
use crate::list_watch::{ListWatch, Listing, Selection, Shared, Sink};
use larder_clock::Clock;
use larder_objects::{FetchError as _, Source};
use larder_resource::source::{self, SourceObject, SourceReader, SourceWriter};
use larder_resource::{Kind, Node, Pod};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The pods that are bound to one node.
pub type PodSource = SourceReflector<Pod>;

/// The node's own object.
pub type NodeSource = SourceReflector<Node>;

/// Keeps pods or a node up to date for its [`reader`](Self::reader).
pub struct SourceReflector<T: SourceObject> {
    list_watch: ListWatch<SourceSink<T>>,
    reader: SourceReader<T>,
}

impl SourceReflector<Pod> {
    /// The pods whose `spec.nodeName` is this node. The clock is for the times in status and freshness.
    ///
    /// # Errors
    ///
    /// [`KubeError::InvalidName`] where no node can have this name.
    pub fn new(client: KubeClient, node: &str, clock: impl Clock) -> Result<Self, KubeError> {
        Self::with(client, Selection::PodsOf(node.into()), clock)
    }
}

impl SourceReflector<Node> {
    /// The node of this name. The clock is for the times in status and freshness.
    ///
    /// # Errors
    ///
    /// [`KubeError::InvalidName`] where no node can have this name.
    pub fn new(client: KubeClient, node: &str, clock: impl Clock) -> Result<Self, KubeError> {
        Self::with(client, Selection::Node(node.into()), clock)
    }
}

impl<T: SourceObject> SourceReflector<T> {
    fn with(client: KubeClient, selection: Selection, clock: impl Clock) -> Result<Self, KubeError> {
        let (writer, reader) = source::new(Source::Watch, clock);
        let sink = SourceSink { client: client.clone(), writer: Arc::new(writer), reader: reader.clone() };
        let list_watch = ListWatch::new(Arc::new(Shared::new(client)), selection, sink, String::new())?;
        Ok(Self { list_watch, reader })
    }

    /// A reader of the known objects; any number may exist.
    pub fn reader(&self) -> SourceReader<T> {
        self.reader.clone()
    }

    /// Runs until cancelled. Retries failures for ever; the reader's status shows the last one.
    pub async fn run(mut self, cancelled: CancellationToken) {
        let shared = Arc::clone(&self.list_watch.shared);
        let is_open = AtomicBool::new(false);
        tokio::select! {
            () = cancelled.cancelled() => {}
            never = shared.confirm_list_watches() => match never {},
            never = self.list_watch.run(&is_open) => match never {},
        }
    }
}

impl<T: SourceObject> fmt::Debug for SourceReflector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceReflector").field("reader", &self.reader).finish_non_exhaustive()
    }
}

/// Fills a source.
struct SourceSink<T: SourceObject> {
    client: KubeClient,
    writer: Arc<SourceWriter<T>>,
    reader: SourceReader<T>,
}

impl<T: SourceObject> Clone for SourceSink<T> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), writer: Arc::clone(&self.writer), reader: self.reader.clone() }
    }
}

impl<T: SourceObject> SourceSink<T> {
    /// The server is back, perhaps restarted: its authorizer has yet to learn of all pods.
    fn server_is_back(&self) {
        if T::KIND == Kind::Pod {
            for pod in self.reader.list() {
                self.client.note_pod(pod.object().namespace());
            }
            self.client.set_unavailable(false);
        }
    }

    fn server_confirms(&self) {
        if self.reader.status().failures > 0 {
            self.server_is_back();
        }
    }
}

impl<T: SourceObject> Sink for SourceSink<T> {
    type Object = T;

    fn listing(&self) {}

    fn replace(&self, objects: Listing<T>, version: &str) {
        self.writer.replace(objects.into_values(), version);
        self.server_is_back();
    }

    fn replace_unconfirmed(&self, objects: Listing<T>, version: &str, error: Arc<KubeError>) {
        self.writer.replace_unconfirmed(objects.into_values(), version, error.class(), error);
        self.server_is_back();
    }

    fn watching(&self) {
        self.writer.watch_begun();
    }

    fn set(&self, object: Arc<T>) {
        let held = object.object();
        if T::KIND == Kind::Pod && self.reader.get(held.namespace(), held.name()).is_none() {
            self.client.note_pod(held.namespace());
        }
        self.writer.set(object);
    }

    fn delete(&self, object: Arc<T>) {
        self.writer.remove(object);
    }

    fn leave(&self, object: Arc<T>) {
        self.delete(object);
    }

    fn bookmark(&self, version: &str) {
        self.server_confirms();
        self.writer.bookmark(version);
    }

    fn confirm(&self, ago: Duration) {
        self.server_confirms();
        self.writer.confirm(ago);
    }

    fn failed(&self, error: Arc<KubeError>) {
        if T::KIND == Kind::Pod && error.is_unavailable() {
            self.client.set_unavailable(true);
        }
        self.writer.failed(error.class(), error);
    }

    fn went_back(&self, _: &str, _: &str) {}
}
