//! Follows the event stream of the runtime: each event requests a relist of its pod, and a lost stream requests a relist of
//! all.

use super::Pleg;
use crate::error::RuntimeError;
use crate::queue::EventTarget;
use crate::runtime::Runtime;
use crate::runtime_event::{ContainerEvent, ContainerEventKind, EventSource};
use futures_util::StreamExt;
use larder_clock::Clock;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, trace, warn};

/// A stream that the runtime ends within this time, without an event, was refused.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);
/// So many refusals in a row mean that the runtime has no events. The kubelet gives up after as many failures.
const REFUSALS: u32 = 5;

/// A stream that stays open for this time works, although a quiet runtime has sent no event yet.
const WORKS_AFTER: Duration = Duration::from_secs(5);

/// How a stream came to its end.
struct Ended {
    error: Option<RuntimeError>,
    received: u64,
    after: Duration,
}

impl Ended {
    /// Whether the runtime said that it has no event stream.
    fn is_unsupported(&self) -> bool {
        self.error.as_ref().is_some_and(RuntimeError::is_unsupported)
    }

    /// Whether the stream worked: it brought an event, or stayed open for long.
    fn has_worked(&self) -> bool {
        self.received > 0 || self.after >= WORKS_AFTER
    }

    /// Whether the runtime ended the stream at once, as CRI-O does where pod events are off. Nothing is lost with it.
    fn is_refused(&self) -> bool {
        self.error.is_none() && self.received == 0 && self.after < REFUSED_WITHIN
    }
}

impl<R: Runtime, C: Clock> Pleg<R, C> {
    /// Follows the events of `source` until `cancel` is cancelled: each asks for a relist of its pod, which
    /// [`run`](Self::run) serves. What they say of the pod is not believed.
    ///
    /// Between two events the reader waits for nothing, so that the runtime is never held up. An event that does not say
    /// which pod it is of has it looked up by its container, or all pods relisted. A stream that is lost has all pods
    /// relisted, at once and again when it is opened anew. A runtime without events is asked again rarely, and when it may
    /// have been replaced; see the [crate's documentation](crate#events-of-the-runtime).
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time; that closes the stream.
    pub async fn watch_events(&self, source: &impl EventSource, cancel: CancellationToken) {
        let watched = async {
            let mut losses = 0_u32;
            let mut refusals = 0_u32;
            loop {
                let ended = self.follow(source).await;
                if ended.is_unsupported() {
                    refusals = REFUSALS;
                } else if ended.is_refused() {
                    refusals = refusals.saturating_add(1);
                } else {
                    refusals = 0;
                    losses = if ended.has_worked() { 1 } else { losses.saturating_add(1) };
                    self.note_lost_stream(&ended, losses);
                }
                let has_none = refusals >= REFUSALS;
                self.note_events_unsupported(has_none, &ended);
                if has_none {
                    tokio::select! {
                        () = tokio::time::sleep(self.options.unsupported_retry) => {}
                        () = source.replaced() => {}
                    }
                } else {
                    tokio::time::sleep(self.pause_before_reconnecting(losses.max(refusals))).await;
                }
                // Until the stream is open again, nobody tells of what happens.
                self.queue.push_all(self.clock.now());
            }
        };
        cancel.run_until_cancelled(watched).await;
    }

    fn note_lost_stream(&self, ended: &Ended, losses: u32) {
        self.counters.event_streams_lost.add();
        self.queue.push_all(self.clock.now());
        let reason = ended.error.as_ref().map_or_else(|| "the runtime ended it".to_owned(), ToString::to_string);
        if losses > 1 {
            *self.event_stream_failure.lock() = Some(reason.as_str().into());
        }
        if losses == 1 && !ended.has_worked() {
            // It may never have been there: nothing is known to be lost.
            warn!(reason, "cannot open the container runtime's event stream; larder retries, and relists all pods");
        } else if losses == 1 {
            warn!(reason, "the container runtime's event stream is lost; larder reopens it, and relists all pods");
        } else {
            debug!(reason, losses, "the container runtime's event stream is lost again");
        }
    }

    /// Keeps whether the runtime has no events, for whoever looks at it from outside.
    fn note_events_unsupported(&self, has_none: bool, ended: &Ended) {
        let before = self.counters.event_stream_unsupported.swap(has_none, Ordering::Relaxed);
        if has_none {
            *self.event_stream_failure.lock() = None;
        }
        if has_none && !before {
            let reason =
                ended.error.as_ref().map_or_else(|| "it ends the stream at once".to_owned(), ToString::to_string);
            let (period, retry) = (self.options.relist_period, self.options.unsupported_retry);
            info!(
                reason,
                ?period,
                ?retry,
                "the container runtime has no events; larder only lists all pods every period"
            );
        }
    }

    async fn follow(&self, source: &impl EventSource) -> Ended {
        let began = Instant::now();
        let mut received = 0;
        let mut events = pin!(source.events());
        self.counters.event_streams_opened.add();
        let _open = open(&self.counters.event_stream_open);
        let mut works = pin!(tokio::time::sleep(WORKS_AFTER));
        loop {
            let next = tokio::select! {
                biased;
                next = events.next() => next,
                () = &mut works, if !works.is_elapsed() => {
                    *self.event_stream_failure.lock() = None;
                    continue;
                }
            };
            match next {
                Some(Ok(event)) => {
                    if received == 0 {
                        *self.event_stream_failure.lock() = None;
                    }
                    received += 1;
                    self.counters.event_stream_unsupported.store(false, Ordering::Relaxed);
                    self.take(event);
                }
                Some(Err(error)) => return Ended { error: Some(error), received, after: began.elapsed() },
                None => return Ended { error: None, received, after: began.elapsed() },
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
        let Some(uid) = pod else { return self.queue.push_all(now) };
        let is_change = matches!(event.kind, ContainerEventKind::Started | ContainerEventKind::Stopped);
        if is_change && self.options.independent_pods && self.options.keep_unchanged {
            self.queue.push_target(EventTarget { pod: uid.clone(), container: event.container_id, at: now });
        }
        self.queue.push_event(uid, now);
    }

    fn pause_before_reconnecting(&self, times: u32) -> Duration {
        let doubled = self.options.reconnect_initial.saturating_mul(1 << times.saturating_sub(1).min(16));
        let longest = doubled.min(self.options.reconnect_max);
        // Random enough that the clients of a runtime that comes back do not all come at once.
        self.options.jitter.scale(longest, 0.5..=1.0)
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
