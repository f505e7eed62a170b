//! Confirms quiet watches by their connections' signs of life, and makes them stale
//!
//! - when their connection is silent,
//! - when the machine has slept,
//! - when a watch has ended and no new one opens within the time that a connection may be silent.

use super::Sink;
use crate::client::KubeClient;
use crate::error::Target;
use crate::pool::Liveness;
use parking_lot::Mutex;
use slab::Slab;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The least time that the answer to a PING may take before what the connection carries counts as stale. It is half of the
/// interval where that is longer: looked at twice in an interval, silence is noticed within two of them.
const GRACE: Duration = Duration::from_secs(2);

/// The list-watches of a kind of which something is held as current: those whose watch is open, has caught up, and shares an
/// HTTP/2 connection, and those whose watch has ended.
pub(super) struct CurrentListWatches<S> {
    interval: Duration,
    all: Arc<Mutex<Slab<Tracked<S>>>>,
}

struct Tracked<S> {
    sink: S,
    target: Target,
    by: By,
    silent: bool,
}

/// The proof that a list-watch is current.
enum By {
    /// The connection of an open watch.
    Connection {
        liveness: Liveness,
        /// When its connection was last heard, as far as the sink has been told.
        reported: Duration,
    },
    /// There has been no proof since then: the watch has ended.
    Nothing { since: Instant },
}

/// A list-watch among them, until this is dropped.
pub(super) struct Member<S> {
    all: Arc<Mutex<Slab<Tracked<S>>>>,
    id: usize,
}

impl<S: Sink> CurrentListWatches<S> {
    /// `interval` is that of the PINGs.
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, all: Arc::default() }
    }

    /// A watch is open and has caught up.
    pub(super) fn join(&self, sink: &S, target: Target, liveness: Liveness) -> Member<S> {
        let reported = liveness.heard();
        self.insert(sink, target, By::Connection { liveness, reported })
    }

    /// The list-watch is current as of now, and has no open watch. It becomes stale unless the member is dropped in time.
    pub(super) fn unwatched(&self, sink: &S, target: Target) -> Member<S> {
        self.insert(sink, target, By::Nothing { since: Instant::now() })
    }

    fn insert(&self, sink: &S, target: Target, by: By) -> Member<S> {
        let id = self.all.lock().insert(Tracked { sink: sink.clone(), target, by, silent: false });
        Member { all: Arc::clone(&self.all), id }
    }

    /// Looks at them for ever, twice in the interval of PINGs. One task does it for all: a timer for each would wake
    /// thousands of tasks every few seconds.
    pub(super) async fn look(&self, client: &KubeClient) -> Infallible {
        let mut ticks = tokio::time::interval(self.interval / 2);
        let patience = self.interval + GRACE.max(self.interval / 2);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut sleep = client.slept();
        let mut noted = *sleep.borrow_and_update();
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    for (_, tracked) in self.all.lock().iter_mut() {
                        tracked.look(client, patience);
                    }
                }
                Ok(()) = sleep.changed() => {
                    let slept = sleep.borrow().saturating_sub(noted);
                    noted += slept;
                    if slept > patience {
                        for (_, tracked) in self.all.lock().iter_mut() {
                            tracked.wake(client, slept);
                        }
                    }
                }
            }
        }
    }
}

impl<S: Sink> Tracked<S> {
    fn look(&mut self, client: &KubeClient, patience: Duration) {
        if let By::Connection { liveness, reported } = &mut self.by {
            let heard = liveness.heard();
            if heard > *reported {
                (*reported, self.silent) = (heard, false);
                // As of when it was heard, and not of this look.
                self.sink.confirm(liveness.silence());
                return;
            }
        }
        if self.silence() > patience {
            self.stale(client, Duration::ZERO);
        }
    }

    /// The machine has slept, and tokio's time stood still: what was heard before confirms nothing any more.
    fn wake(&mut self, client: &KubeClient, slept: Duration) {
        if let By::Connection { liveness, reported } = &mut self.by {
            *reported = liveness.heard();
        }
        self.stale(client, slept);
    }

    /// For how long nothing has said that it is current, but for a sleep of the machine.
    fn silence(&self) -> Duration {
        match &self.by {
            By::Connection { liveness, .. } => liveness.silence(),
            By::Nothing { since } => since.elapsed(),
        }
    }

    fn stale(&mut self, client: &KubeClient, slept: Duration) {
        if !std::mem::replace(&mut self.silent, true) {
            let after = self.silence() + slept;
            let error = match &self.by {
                By::Connection { .. } => client.late(&self.target, after),
                By::Nothing { .. } => client.unwatched(&self.target, after),
            };
            self.sink.failed(Arc::new(error));
        }
    }
}

impl<S> Member<S> {
    /// Whether the sink was told that it is stale.
    pub(super) fn is_stale(&self) -> bool {
        self.all.lock().get(self.id).is_some_and(|tracked| tracked.silent)
    }
}

impl<S> Drop for Member<S> {
    fn drop(&mut self) {
        // When this returns, nobody else confirms or fails the sink.
        drop(self.all.lock().try_remove(self.id));
    }
}
