//! The runtime's event stream, and what can go wrong with it.

use larder_cri::proto::{ContainerEventResponse, ContainerEventType, ContainerStatus, PodSandboxStatus};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::time::Instant;

/// How many events a subscriber may be behind before it loses some, as with CRI-O.
const BUFFER: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Created,
    Started,
    Stopped,
    Deleted,
}

impl From<Kind> for ContainerEventType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Created => Self::ContainerCreatedEvent,
            Kind::Started => Self::ContainerStartedEvent,
            Kind::Stopped => Self::ContainerStoppedEvent,
            Kind::Deleted => Self::ContainerDeletedEvent,
        }
    }
}

/// What goes wrong with the events from now on. The default is nothing.
///
/// ```
/// use larder_testkit::cri_runtime::EventFaults;
/// use std::time::Duration;
/// let late_and_twice = EventFaults { late: Duration::from_millis(50), repeated: 1, ..EventFaults::default() };
/// # let _ = late_and_twice;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventFaults {
    /// No event is sent.
    pub dropped: bool,
    /// How often each is sent again.
    pub repeated: u32,
    /// How late each comes.
    pub late: Duration,
    /// They carry no sandbox status.
    pub without_sandbox: bool,
    /// They carry no container statuses.
    pub without_containers: bool,
    /// They are of a type that CRI does not know.
    pub unknown_type: bool,
}

#[derive(Clone)]
pub(crate) enum Item {
    Event {
        event: Box<ContainerEventResponse>,
        due: Instant,
    },
    /// The stream breaks.
    Cut,
}

pub(crate) struct Events {
    sender: broadcast::Sender<Item>,
    faults: Mutex<EventFaults>,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::channel(BUFFER).0, faults: Mutex::default() }
    }

    pub(crate) fn set_faults(&self, faults: EventFaults) {
        *self.faults.lock() = faults;
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Item> {
        self.sender.subscribe()
    }

    pub(crate) fn subscribers(&self) -> usize {
        self.sender.receiver_count()
    }

    /// Breaks the streams that are open.
    pub(crate) fn cut(&self) {
        // Nobody listens: nothing to break.
        let _ = self.sender.send(Item::Cut);
    }

    /// Sends the event of a change; `state` is asked for what it is to carry, if anybody listens.
    pub(crate) fn send(
        &self,
        kind: Kind,
        id: &str,
        now: i64,
        state: impl FnOnce() -> (Option<PodSandboxStatus>, Vec<ContainerStatus>),
    ) {
        let faults = *self.faults.lock();
        if faults.dropped || self.sender.receiver_count() == 0 {
            return;
        }
        let (sandbox, containers) = state();
        let event = ContainerEventResponse {
            container_id: id.to_owned(),
            container_event_type: if faults.unknown_type { 77 } else { ContainerEventType::from(kind).into() },
            created_at: now,
            pod_sandbox_status: sandbox.filter(|_| !faults.without_sandbox),
            containers_statuses: if faults.without_containers { Vec::new() } else { containers },
        };
        let item = Item::Event { event: Box::new(event), due: Instant::now() + faults.late };
        for _ in 0..=faults.repeated {
            // The last listener may have gone.
            let _ = self.sender.send(item.clone());
        }
    }
}
