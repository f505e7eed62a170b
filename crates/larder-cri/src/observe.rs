//! What the client counts and measures, for whoever exports it as metrics.

use larder_pleg::ContainerEvent;
use std::time::Duration;

/// Receives the duration of each call to the runtime, and each of its events.
pub trait CriObserver: Send + Sync + 'static {
    /// A call has ended: its name in the CRI, how it ended (`ok`, or [`RuntimeError::kind`](larder_pleg::RuntimeError::kind)),
    /// and how long it took. Calls that were dropped before they ended are not told of. Not to wait.
    fn call(&self, name: &'static str, outcome: &'static str, duration: Duration);

    /// An event of the runtime has arrived. Not to wait.
    fn event(&self, event: &ContainerEvent);
}

/// Observes nothing.
impl CriObserver for () {
    fn call(&self, _: &'static str, _: &'static str, _: Duration) {}

    fn event(&self, _: &ContainerEvent) {}
}

/// What the client has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CriStats {
    /// Connections made to the runtime; every one after the first is a reconnection.
    pub connections: u64,
    /// Connections made for the event stream.
    pub event_connections: u64,
    /// Sandboxes of the last full list that do not say which pod they are of, and were left out.
    pub skipped_sandboxes: u64,
    /// Containers of the last full list that do not say which pod they are of, and were left out.
    pub skipped_containers: u64,
}
