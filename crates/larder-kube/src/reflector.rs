//! Lists and watches the pods of a node, or the node itself, for as long as it is run.
//!
//! # Guarantees
//!
//! - *Consistent start*: every list is a consistent read (no `resourceVersion`), so what it lacks does not exist.
//! - *No gap*: a watch begins at the version that the list or the watch before it ended with. Where the server no longer
//!   has that version (410), or an event cannot be read, everything is listed again.
//! - *A dead link is noticed*: by the kernel, which probes an idle connection, and otherwise when nothing, no bookmark
//!   either, has come for [`KubeOptions::idle_timeout`](crate::KubeOptions::idle_timeout): everything is listed again.
//! - *Versions that go back are noticed*, as after etcd was restored from a backup. A watch that was lost goes on only after
//!   the server was asked which version it is at: to one from its future it would say nothing. A lower version leads to a new
//!   list, and so does an event or bookmark that is older than what was told before.
//! - *Patience*: after a failure it waits, longer each time up to
//!   [`KubeOptions::backoff_max`](crate::KubeOptions::backoff_max), at random, and as long as `Retry-After` asks. The first
//!   success of any request to a server that was away or refused larder ends the wait, but for what `Retry-After` asks.
//!
//! # Limits
//!
//! Lists are pages of JSON. It holds one watch.
//!
//! # Cancel safety
//!
//! Cancelling or dropping the run closes the connection; readers keep what was last known, marked stale.

use crate::backoff::Backoff;
use crate::client::{KubeClient, segment};
use crate::error::{KubeError, Target};
use crate::listwatch::{Begin, End, Event, Item, Scope, Watch, encode, list};
use crate::node::Node;
use crate::object::Kind;
use crate::pod::Pod;
use crate::reach::Reach;
use crate::source::{self, Held, SourceReader, SourceWriter};
use larder_clock::Clock;
use larder_objects::{FetchError, Source, resource_version_order};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A watch that ends sooner than this without having told anything is a failure of sorts, and the next one waits.
const SHORT: Duration = Duration::from_secs(1);

/// A path, and the fields that are the node's name in it.
type Selection = (&'static str, &'static [&'static str]);

/// The pods that are bound to one node.
pub type PodSource = Reflector<Pod>;

/// The node's own object.
pub type NodeSource = Reflector<Node>;

/// Follows pods or a node; what it knows is read through its [`reader`](Self::reader).
#[derive(Debug)]
pub struct Reflector<T: Held> {
    client: KubeClient,
    scope: Scope,
    /// At most one object, of the same kind: a list of it says which version the server is at, and costs next to nothing.
    probe: Selection,
    node: String,
    /// Whether an object is of this node; a server that passes over selectors shall not confuse anyone.
    belongs: fn(&T, &str) -> bool,
    writer: SourceWriter<T>,
    reader: SourceReader<T>,
}

impl Reflector<Pod> {
    /// The pods whose `spec.nodeName` is this node. The clock is for the times in status and freshness.
    ///
    /// # Errors
    ///
    /// [`KubeError::InvalidName`] where no node can have this name.
    pub fn new(client: KubeClient, node: &str, clock: impl Clock) -> Result<Self, KubeError> {
        // There need not be such a pod. The node's name is in it because a node may list no other pods.
        let probe: Selection = ("namespaces/default/pods", &["metadata.name", "spec.nodeName"]);
        let belongs = |pod: &Pod, node: &str| pod.node_name() == node;
        Self::with(client, node, Target::PodsOf(node.into()), ("pods", &["spec.nodeName"]), probe, belongs, clock)
    }
}

impl Reflector<Node> {
    /// The node of this name. The clock is for the times in status and freshness.
    ///
    /// # Errors
    ///
    /// [`KubeError::InvalidName`] where no node can have this name.
    pub fn new(client: KubeClient, node: &str, clock: impl Clock) -> Result<Self, KubeError> {
        let alone: Selection = ("nodes", &["metadata.name"]);
        let belongs = |found: &Node, node: &str| found.name() == node;
        Self::with(client, node, Target::Node(node.into()), alone, alone, belongs, clock)
    }
}

impl<T: Held> Reflector<T> {
    fn with(
        client: KubeClient,
        node: &str,
        target: Target,
        all: Selection,
        probe: Selection,
        belongs: fn(&T, &str) -> bool,
        clock: impl Clock,
    ) -> Result<Self, KubeError> {
        // Commas and equals signs would make another selector of it; no node's name has them.
        if segment(node).is_none() || node.contains([',', '=', '!', '\\']) {
            return Err(KubeError::InvalidName { target });
        }
        let scope = scope(T::KIND, all, node, target);
        let (writer, reader) = source::new(Source::Watch, clock);
        Ok(Self { client, scope, probe, node: node.to_owned(), belongs, writer, reader })
    }

    /// What is known, for as many readers as wanted.
    pub fn reader(&self) -> SourceReader<T> {
        self.reader.clone()
    }

    /// Follows until it is cancelled. Failures are retried for ever; the reader's status has the last one.
    pub async fn run(mut self, cancelled: CancellationToken) {
        cancelled.run_until_cancelled(self.follow()).await;
    }

    async fn follow(&mut self) -> Infallible {
        let options = self.client.options().clone();
        let mut backoff = Backoff::new(options.backoff_initial, options.backoff_max);
        let mut at = Position::default();
        loop {
            let listed = at.version.is_empty();
            at.told = false;
            let returns = self.client.reach().returns();
            let mut asked = None;
            let begun = Instant::now();
            let ended = self.round(&mut at).await;
            if begun.elapsed() >= options.backoff_max {
                backoff.reset();
            }
            let is_short = begun.elapsed() < SHORT;
            let pause = match ended {
                Ok(End::Closed { early }) => {
                    at.lost = early;
                    if is_short && !at.told { backoff.pause() } else { Duration::ZERO }
                }
                Ok(End::Idle) => {
                    at.version.clear();
                    Duration::ZERO
                }
                // Once it is a restore; a server whose versions go to and fro is to be left alone.
                Ok(End::WentBack) => {
                    at.version.clear();
                    if listed && is_short { backoff.pause() } else { Duration::ZERO }
                }
                // Once it is the way of things; a server that does not know its own list's version is to be left alone.
                Err(error) if error.is_expired() && !at.version.is_empty() => {
                    tracing::info!(target = %self.scope.target, "the watch's version is too old, listing anew");
                    at.version.clear();
                    asked = error.retry_after();
                    if listed { backoff.pause_after(asked) } else { Duration::ZERO }
                }
                Err(error) => {
                    at.lost = true;
                    if !resumes(&error) {
                        at.version.clear();
                    }
                    asked = error.retry_after();
                    let pause = backoff.pause_after(asked);
                    // While the server cannot be reached, this one knocks every few seconds for all that use the client.
                    let pause = if error.is_unreached() { Reach::knock(pause) } else { pause };
                    self.failed(error);
                    pause
                }
            };
            self.client.reach().pause(&mut backoff, pause, asked, returns).await;
        }
    }

    /// A list where one is due, and a watch until it ends.
    async fn round(&mut self, at: &mut Position) -> Result<End, KubeError> {
        if at.version.is_empty() {
            at.version = self.list().await?;
        } else if at.lost {
            let probe = scope(T::KIND, self.probe, &self.node, self.scope.target.clone());
            match list(&self.client, &probe, |_| Ok(())).await {
                Ok(version) if advanced(&at.version, &version).is_some() => {}
                Ok(_) => return Ok(self.went_back(at)),
                // Who may not ask has to look.
                Err(error) if error.is_forbidden() => at.version = self.list().await?,
                Err(error) => return Err(error),
            }
        }
        self.watch(at).await
    }

    fn went_back(&self, at: &Position) -> End {
        tracing::warn!(
            target = %self.scope.target, before = %at.version,
            "the API server's versions went back, as after a restore of etcd; listing anew"
        );
        End::WentBack
    }

    async fn list(&mut self) -> Result<String, KubeError> {
        let mut all: Vec<Arc<T>> = Vec::new();
        let (node, belongs) = (&self.node, self.belongs);
        let version = list(&self.client, &self.scope, |item| {
            match item {
                Item::Raw(json) => {
                    let object = T::decode_json(json)?;
                    if belongs(&object, node) {
                        all.push(Arc::new(object));
                    }
                }
                Item::Restart => all.clear(),
            }
            Ok(())
        })
        .await?;
        if T::KIND == Kind::Pod {
            // After its own start the server's authorizer has yet to learn of all pods.
            for pod in &all {
                self.client.note_pod(pod.object().namespace());
            }
            self.client.set_away(false);
        }
        self.answered();
        self.writer.replace(all);
        Ok(version)
    }

    async fn watch(&mut self, at: &mut Position) -> Result<End, KubeError> {
        let mut watch = Watch::begin(&self.client, &self.scope, Begin::After(&at.version)).await?;
        at.lost = false;
        let was_away = self.reader.status().failures > 0;
        self.answered();
        if T::KIND == Kind::Pod && was_away {
            // The server may have started anew, and its authorizer has yet to learn of all pods.
            for pod in self.reader.list() {
                self.client.note_pod(pod.object().namespace());
            }
            self.client.set_away(false);
        }
        self.writer.watching();
        let patience = self.client.options().idle_timeout;
        loop {
            let event = match watch.next(patience).await? {
                Ok(event) => event,
                Err(end) => {
                    if end == End::Idle {
                        tracing::info!(target = %self.scope.target, "the watch has gone silent, listing anew");
                    }
                    return Ok(end);
                }
            };
            let version = match event {
                Event::Set(json) => self.set(&json, &at.version)?,
                Event::Deleted(json) => {
                    let old = T::decode_json(&json)?;
                    let old = old.object();
                    let version = advanced(&at.version, old.resource_version());
                    if version.is_some() {
                        self.writer.remove(old.namespace(), old.name());
                    }
                    version
                }
                Event::Bookmark { version, .. } => {
                    self.writer.contact();
                    advanced(&at.version, &version)
                }
            };
            let Some(version) = version else { return Ok(self.went_back(at)) };
            (at.version, at.told) = (version, true);
        }
    }

    /// Takes in a new or changed object; none where it is older than what the watch has told already.
    fn set(&mut self, json: &[u8], at: &str) -> Result<Option<String>, KubeError> {
        let object = T::decode_json(json)?;
        let held = object.object();
        let version = advanced(at, held.resource_version());
        if version.is_some() {
            let (namespace, name) = (held.namespace(), held.name());
            if (self.belongs)(&object, &self.node) {
                if T::KIND == Kind::Pod && self.reader.get(namespace, name).is_none() {
                    self.client.note_pod(namespace);
                }
                self.writer.set(Arc::new(object));
            } else {
                self.writer.remove(namespace, name);
            }
        }
        Ok(version)
    }

    fn answered(&self) {
        if self.reader.status().failures > 0 {
            tracing::info!(target = %self.scope.target, "the API server answers again");
        }
    }

    fn failed(&mut self, error: KubeError) {
        let status = self.reader.status();
        let told = status.last_fault.filter(|_| status.failures > 0).map(|fault| fault.error.to_string());
        if told.is_some_and(|told| told == error.to_string()) {
            tracing::debug!(%error, "the API server is still away");
        } else if status.last_contact.is_some() {
            tracing::warn!(%error, "lost the API server, what is known is served on");
        } else {
            tracing::warn!(%error, "cannot reach the API server, trying on");
        }
        if T::KIND == Kind::Pod && error.is_unavailable() {
            self.client.set_away(true);
        }
        self.writer.failed(error.class(), Arc::new(error));
    }
}

fn scope(kind: Kind, (path, fields): Selection, node: &str, target: Target) -> Scope {
    let selector = fields.iter().map(|field| format!("{field}={node}")).collect::<Vec<_>>().join(",");
    Scope { kind, path: format!("/api/v1/{path}"), field_selector: encode(&selector), target }
}

/// How far a reflector has come.
#[derive(Default)]
struct Position {
    /// The last version that was told; empty where a list is due.
    version: String,
    /// Whether the watch before did not end in good order: the server may be another one, with versions of its own.
    lost: bool,
    /// Whether the watch has told anything.
    told: bool,
}

/// The version after an event, or none if it is older than the one before. A version that is no number says nothing of order.
pub(crate) fn advanced(before: &str, version: &str) -> Option<String> {
    let (was, is) = (resource_version_order(before), resource_version_order(version));
    if version.is_empty() {
        return Some(before.to_owned());
    }
    (was == 0 || is == 0 || is >= was).then(|| version.to_owned())
}

/// Whether a watch that failed so can go on where it was. What could not be read may hide a change, and a request that
/// the server takes for wrong would be wrong again.
pub(crate) fn resumes(error: &KubeError) -> bool {
    match error {
        KubeError::Decode { .. } => false,
        KubeError::Status { code, .. } => matches!(code, 401 | 403 | 429) || *code >= 500,
        _ => true,
    }
}
