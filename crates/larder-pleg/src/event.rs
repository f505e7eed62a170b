//! The lifecycle events of pods: what happened to a pod's containers between two relists, and their delivery to many
//! subscribers.
//!
//! # Guarantees
//!
//! - A subscriber gets the events of one pod in the order in which they were found, from its subscription on.
//! - When an event is delivered, the pod's entry in the cache is at least as new as the event.
//! - Nobody waits for a subscriber. A subscriber that falls behind by more events than are kept loses the oldest of them, and
//!   learns how many ([`Delivery::Gap`]). It can read the state that it missed from the cache.
//!
//! # Limits
//!
//! Events are no complete log: a container that is created and removed between two relists causes none.
//!
//! # Cancel safety
//!
//! If [`EventReceiver::recv`] is dropped before it has answered, no event is lost.
//!
//! # Differs from kubelet
//!
//! The kubelet has one subscriber. If its channel is full, the newest events are dropped, and only a metric shows that.

use larder_clock::Timestamp;
use larder_pod_status::PodUid;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::broadcast;

/// A change of a pod's state that a relist found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PodLifecycleEvent {
    /// The pod.
    pub uid: PodUid,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// What happened.
    pub kind: EventKind,
    /// The container or the sandbox that it happened to, as the runtime names it; none for [`EventKind::PodSync`].
    pub container_id: Option<String>,
    /// The container's name; empty for a sandbox, none for [`EventKind::PodSync`].
    pub container_name: Option<String>,
    /// What the container exited with, for one that died and whose status is still to be had.
    pub exit_code: Option<i32>,
    /// The time of the relist that found it, on the PLEG's clock.
    pub at: Timestamp,
}

/// What happened to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventKind {
    /// A container is running that was not before.
    ContainerStarted,
    /// A container has exited, or is gone without having been seen to exit.
    ContainerDied,
    /// A container is gone.
    ContainerRemoved,
    /// A container's state is neither running nor exited. Makes the pod be inspected; not delivered.
    ContainerChanged,
    /// The pod was inspected again, without any of the above.
    PodSync,
}

impl EventKind {
    /// The event's name as the kubelet has it.
    ///
    /// ```
    /// assert_eq!(larder_pleg::EventKind::PodSync.as_str(), "PodSync");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ContainerStarted => "ContainerStarted",
            Self::ContainerDied => "ContainerDied",
            Self::ContainerRemoved => "ContainerRemoved",
            Self::ContainerChanged => "ContainerChanged",
            Self::PodSync => "PodSync",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a subscriber receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The next event.
    Event(Arc<PodLifecycleEvent>),
    /// The subscriber was too slow: so many events were dropped before the next one.
    Gap {
        /// How many.
        missed: u64,
    },
}

/// One subscriber's end of the event stream.
#[derive(Debug)]
pub struct EventReceiver {
    events: broadcast::Receiver<Arc<PodLifecycleEvent>>,
    discarded: Arc<AtomicU64>,
}

impl EventReceiver {
    pub(crate) fn new(events: broadcast::Receiver<Arc<PodLifecycleEvent>>, discarded: Arc<AtomicU64>) -> Self {
        Self { events, discarded }
    }

    /// The next event, or the gap before it; `None` once the PLEG is gone and everything has been received.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it has answered, it has taken nothing.
    pub async fn recv(&mut self) -> Option<Delivery> {
        match self.events.recv().await {
            Ok(event) => Some(Delivery::Event(event)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(self.gap(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// The next event or gap, if there is one already.
    pub fn try_recv(&mut self) -> Option<Delivery> {
        match self.events.try_recv() {
            Ok(event) => Some(Delivery::Event(event)),
            Err(broadcast::error::TryRecvError::Lagged(missed)) => Some(self.gap(missed)),
            Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed) => None,
        }
    }

    fn gap(&self, missed: u64) -> Delivery {
        // A plain count: nothing is read on the strength of it.
        self.discarded.fetch_add(missed, Ordering::Relaxed);
        Delivery::Gap { missed }
    }
}

/// A write to the pod status cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// The entry of this pod was written.
    Pod(PodUid),
    /// Some writes were missed: any entry may have been written.
    Missed,
}

/// Tells which pods' entries in the cache have been written.
#[derive(Debug)]
pub struct WriteReceiver {
    writes: broadcast::Receiver<PodUid>,
}

impl WriteReceiver {
    pub(crate) fn new(writes: broadcast::Receiver<PodUid>) -> Self {
        Self { writes }
    }

    /// Returns once the pod's entry has been written, or may have been: some writes were missed, or the PLEG is gone, of
    /// which this is false. To be called after the entry was read, and before it is read again.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it has answered, it has forgotten the writes of other pods only.
    pub async fn written(&mut self, uid: &PodUid) -> bool {
        self.written_where(|written| written == uid).await
    }

    /// As [`written`](Self::written), for the entry of any pod.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it has answered, it has forgotten nothing.
    pub async fn any_written(&mut self) -> bool {
        self.written_where(|_| true).await
    }

    /// The next write; `None` once the PLEG is gone.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a write that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Option<Written> {
        match self.writes.recv().await {
            Ok(uid) => Some(Written::Pod(uid)),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Written::Missed),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    async fn written_where(&mut self, is_wanted: impl Fn(&PodUid) -> bool) -> bool {
        loop {
            match self.writes.recv().await {
                Ok(written) if is_wanted(&written) => return true,
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return true,
                Err(broadcast::error::RecvError::Closed) => return false,
            }
        }
    }
}
