//! A watch: events from the history as they come, bookmarks, and the ways in which it ends.

use super::StreamingLists;
use super::log::RequestLog;
use super::object::{Kind, Record};
use super::request::{Version, Watch};
use super::status::Failure;
use super::store::{Change, Changes, HistoryError, Listed, ObjectStore};
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use serde_json::json;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// What is done to all open watches; see the methods of `ApiServer`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    pub(crate) stalled: bool,
    /// Counts the calls that expire all watches.
    pub(crate) expired: u64,
    /// Counts the calls that fail all watches.
    pub(crate) failed: u64,
    /// How the last of these calls fails them.
    pub(crate) failure: Option<Arc<Failure>>,
    /// Counts the calls that end all watches.
    pub(crate) ended: u64,
}

/// What a watch needs of the server.
pub(crate) struct Setting {
    pub(crate) store: ObjectStore,
    pub(crate) log: Arc<RequestLog>,
    pub(crate) control: watch::Receiver<Control>,
    pub(crate) bookmark_interval: Duration,
    pub(crate) default_timeout: Duration,
    pub(crate) streaming_lists: StreamingLists,
}

struct Running {
    setting: Setting,
    kind: Kind,
    watch: Watch,
    epoch: u64,
    /// All changes up to this revision are sent or queued.
    position: u64,
    changes: Changes,
    queue: VecDeque<Bytes>,
    control: Control,
    deadline: Instant,
    next_bookmark: Instant,
    /// Nothing follows the queue.
    ending: bool,
    _open: Open,
}

/// Counts a watch as open for as long as it lives.
struct Open(Arc<RequestLog>);

impl Open {
    fn new(log: &Arc<RequestLog>) -> Self {
        log.count(|counts| {
            counts.watches_open += 1;
            counts.watches_peak = counts.watches_peak.max(counts.watches_open);
        });
        Self(Arc::clone(log))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.count(|counts| counts.watches_open -= 1);
    }
}

/// Begins a watch: the chunks of its body, or why it is refused before any is sent.
pub(crate) fn start(
    kind: Kind,
    watch: Watch,
    mut setting: Setting,
) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + 'static, Failure> {
    if watch.initial_events && setting.streaming_lists == StreamingLists::Forbidden {
        let message = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        return Err(Failure::new(422, "Invalid", message));
    }
    // Before the first look at the store, so that no change between the two is missed.
    let changes = setting.store.subscribe(watch.filter.only_key().map(|key| (kind, key)));
    let control = setting.control.borrow_and_update().clone();
    let now = Instant::now();
    let mut running = Running {
        kind,
        epoch: setting.store.epoch(),
        position: 0,
        changes,
        queue: VecDeque::new(),
        control,
        deadline: now + watch.timeout.unwrap_or(setting.default_timeout),
        next_bookmark: now + setting.bookmark_interval,
        ending: false,
        _open: Open::new(&setting.log),
        watch,
        setting,
    };
    running.begin();
    Ok(stream::try_unfold(running, |mut running| async move {
        let chunk = running.next().await?;
        Ok(chunk.map(|chunk| (chunk, running)))
    }))
}

impl Running {
    fn begin(&mut self) {
        if self.watch.initial_events && self.setting.streaming_lists == StreamingLists::ErrorEvent {
            let message = "a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled";
            self.fail(&Failure::new(500, "InternalError", message));
            return;
        }
        let Listed { revision, records } = match self.watch.version {
            Version::Any => self.setting.store.list_cached(self.kind, &self.watch.filter),
            Version::Newest => self.setting.store.list_records(self.kind, &self.watch.filter),
            Version::NotOlderThan(_) | Version::Exact(_) if self.watch.initial_events => {
                self.setting.store.list_records(self.kind, &self.watch.filter)
            }
            // A revision of the future is not an error: the watch says nothing until it has come.
            Version::NotOlderThan(revision) | Version::Exact(revision) => Listed { revision, records: Vec::new() },
        };
        self.position = revision;
        self.queue.extend(records.iter().map(|record| event("ADDED", &record.full())));
        if self.watch.initial_events {
            self.bookmark(true);
        }
    }

    /// The next chunk of the body; `None` when it ends.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let control = self.setting.control.borrow_and_update().clone();
            if control.expired != self.control.expired {
                self.queue.clear();
                self.fail(&Failure::expired(self.position, self.setting.store.revision()));
            }
            if let Some(failure) = control.failure.as_ref().filter(|_| control.failed != self.control.failed) {
                self.queue.clear();
                self.fail(failure);
            }
            self.ending |= control.ended != self.control.ended;
            self.control = control;
            if !self.control.stalled {
                if let Some(chunk) = self.queue.pop_front() {
                    self.setting.log.count(|counts| counts.body_bytes += chunk.len() as u64);
                    return Ok(Some(chunk));
                }
                if self.ending {
                    return Ok(None);
                }
                self.look()?;
                if !self.queue.is_empty() {
                    continue;
                }
            }
            self.wait().await?;
        }
    }

    /// Queues what has changed since the last look.
    fn look(&mut self) -> io::Result<()> {
        match self.setting.store.changes_after(self.kind, self.position, self.epoch) {
            Ok((revision, changes)) => {
                self.position = revision;
                let events: Vec<Bytes> = changes.iter().filter_map(|change| self.event_of(change)).collect();
                self.queue.extend(events);
                Ok(())
            }
            // It has sent all that there was to send, and was not woken for what there was not.
            Err(HistoryError::Compacted(oldest)) if self.changes.none_since(self.position) => {
                self.position = oldest;
                Ok(())
            }
            Err(HistoryError::Compacted(oldest)) => {
                self.fail(&Failure::expired(self.position, oldest));
                Ok(())
            }
            Err(HistoryError::Restored) => {
                Err(io::Error::new(io::ErrorKind::ConnectionReset, "the store was restored"))
            }
        }
    }

    async fn wait(&mut self) -> io::Result<()> {
        let bookmarks = self.watch.bookmarks && !self.control.stalled;
        tokio::select! {
            // The store and the server outlive the watch; a closed channel ends it.
            changed = self.changes.changed(), if !self.control.stalled => self.ending |= !changed,
            changed = self.setting.control.changed() => self.ending |= changed.is_err(),
            () = tokio::time::sleep_until(self.next_bookmark), if bookmarks => {
                self.next_bookmark += self.setting.bookmark_interval;
                self.bookmark_of_now()?;
            }
            () = tokio::time::sleep_until(self.deadline), if !self.ending => {
                if self.watch.bookmarks {
                    self.bookmark_of_now()?;
                }
                self.ending = true;
            }
        }
        Ok(())
    }

    /// A bookmark of the store's revision, behind all that is to be sent until then.
    fn bookmark_of_now(&mut self) -> io::Result<()> {
        self.look()?;
        if !self.ending {
            self.bookmark(false);
        }
        Ok(())
    }

    /// The event by which this watch sees a change; `None` if it does not concern it.
    fn event_of(&self, change: &Change) -> Option<Bytes> {
        let seen = |record: &Option<Arc<Record>>| record.clone().filter(|record| self.watch.filter.matches(record));
        match (seen(&change.before), seen(&change.after)) {
            (None, Some(after)) => Some(event("ADDED", &after.full())),
            (Some(_), Some(after)) => Some(event("MODIFIED", &after.full())),
            (Some(before), None) => Some(event("DELETED", &before.at_revision(change.revision).full())),
            (None, None) => None,
        }
    }

    fn fail(&mut self, failure: &Failure) {
        self.queue.push_back(event("ERROR", failure.to_json().to_string().as_bytes()));
        self.ending = true;
    }

    fn bookmark(&mut self, ends_initial_events: bool) {
        let mut metadata = json!({"resourceVersion": self.position.to_string(), "creationTimestamp": null});
        if ends_initial_events {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({"kind": self.kind.name(), "apiVersion": "v1", "metadata": metadata});
        self.queue.push_back(event("BOOKMARK", object.to_string().as_bytes()));
    }
}

fn event(kind: &str, object: &[u8]) -> Bytes {
    let mut line = format!(r#"{{"type":"{kind}","object":"#).into_bytes();
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}
