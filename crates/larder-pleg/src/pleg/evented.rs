//! Following the runtime's events: each has its pod relisted, and a stream that was lost is made up for.

use super::Pleg;
use crate::error::RuntimeError;
use crate::hint::{ContainerEvent, ContainerEventKind, EventSource};
use crate::runtime::Runtime;
use futures_util::StreamExt;
use larder_clock::Clock;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, trace, warn};

/// How a stream came to its end.
struct Ended {
    error: Option<RuntimeError>,
    received: u64,
}

impl<R: Runtime, C: Clock> Pleg<R, C> {
    /// Follows the events of `source` until `cancel` is cancelled: each asks for a relist of its pod, which
    /// [`run`](Self::run) serves. What they say of the pod is not believed.
    ///
    /// Between two events the reader waits for nothing, so that the runtime is never held up. An event that does not say
    /// which pod it is of has it looked up by its container, or all pods relisted. A stream that is lost has all pods
    /// relisted, at once and again when it is opened anew. A runtime without events is asked again from time to time only.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time; that closes the stream.
    pub async fn watch_events(&self, source: &impl EventSource, cancel: CancellationToken) {
        let watched = async {
            let mut losses = 0_u32;
            let mut is_unsupported = false;
            loop {
                let Ended { error, received } = self.follow(source).await;
                if let Some(error) = error.as_ref().filter(|error| error.is_unsupported()) {
                    if !is_unsupported {
                        info!(%error, period = ?self.options.relist_period, "the container runtime has no events: it is relisted every period only");
                    }
                    is_unsupported = true;
                    tokio::time::sleep(self.options.unsupported_retry).await;
                    continue;
                }
                is_unsupported = false;
                self.counters.event_streams_lost.add();
                self.queue.push_all(self.clock.now());
                losses = if received == 0 { losses.saturating_add(1) } else { 1 };
                let reason = error.map_or_else(|| "the runtime ended it".to_owned(), |error| error.to_string());
                if losses == 1 && received == 0 {
                    // It may never have been there: nothing is known to be lost.
                    warn!(
                        reason,
                        "the container runtime's events cannot be followed, trying on; all pods are relisted"
                    );
                } else if losses == 1 {
                    warn!(reason, "the container runtime's event stream is lost; all pods are relisted");
                } else {
                    debug!(reason, losses, "the container runtime's event stream is lost again");
                }
                tokio::time::sleep(self.pause_before_reconnecting(losses)).await;
                // Until the stream is open again, nobody tells of what happens.
                self.queue.push_all(self.clock.now());
            }
        };
        cancel.run_until_cancelled(watched).await;
    }

    async fn follow(&self, source: &impl EventSource) -> Ended {
        let mut received = 0;
        let mut events = pin!(source.events());
        self.counters.event_streams_opened.add();
        let _open = open(&self.counters.event_stream_open);
        loop {
            match events.next().await {
                Some(Ok(event)) => {
                    received += 1;
                    self.take(event);
                }
                Some(Err(error)) => return Ended { error: Some(error), received },
                None => return Ended { error: None, received },
            }
        }
    }

    /// Takes an event in. Never waits.
    fn take(&self, event: ContainerEvent) {
        let now = self.clock.now();
        trace!(kind = %event.kind, container = event.container_id, pod.uid = ?event.pod, "event of the container runtime");
        self.counters.runtime_events.add();
        let pod = event.pod.or_else(|| {
            self.counters.runtime_events_without_pod.add();
            self.records.lock().pod_of(&event.container_id)
        });
        let is_change = matches!(event.kind, ContainerEventKind::Started | ContainerEventKind::Stopped);
        let container = is_change.then_some(event.container_id);
        match pod {
            Some(uid) => drop(self.queue.push_event(uid, now, container)),
            None => self.queue.push_all(now),
        }
    }

    fn pause_before_reconnecting(&self, losses: u32) -> Duration {
        let doubled = self.options.reconnect_initial.saturating_mul(1 << losses.saturating_sub(1).min(16));
        let longest = doubled.min(self.options.reconnect_max);
        // Random enough that the clients of a runtime that comes back do not all come at once.
        let random = RandomState::new().hash_one(losses) % 1024;
        longest.mul_f64(1.0 - f64::from(u32::try_from(random).unwrap_or(0)) / 2048.0)
    }
}

/// Says that the stream is open until it is dropped.
fn open(flag: &AtomicBool) -> impl Drop + '_ {
    struct Open<'a>(&'a AtomicBool);
    impl Drop for Open<'_> {
        fn drop(&mut self) {
            // For whoever looks at it from outside; nothing is read on the strength of it.
            self.0.store(false, Ordering::Relaxed);
        }
    }
    flag.store(true, Ordering::Relaxed);
    Open(flag)
}
