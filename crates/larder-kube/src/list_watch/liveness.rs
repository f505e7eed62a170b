//! Confirms quiet watches by their connections' signs of life, and makes them stale when a connection is silent, and when
//! the machine has slept.

use super::Sink;
use crate::client::KubeClient;
use crate::error::Target;
use crate::pool::Liveness;
use parking_lot::Mutex;
use slab::Slab;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// The least time that the answer to a PING may take before what the connection carries counts as stale. It is half of the
/// interval where that is longer: looked at twice in an interval, silence is noticed within two of them.
const GRACE: Duration = Duration::from_secs(2);

/// The watches of a kind that are open, have caught up, and share HTTP/2 connections.
pub(super) struct QuietWatches<S> {
    interval: Duration,
    open: Mutex<Slab<Quiet<S>>>,
}

struct Quiet<S> {
    sink: S,
    target: Target,
    liveness: Liveness,
    /// When its connection was last heard, as far as the sink has been told.
    told: Duration,
    silent: bool,
}

/// A watch among them, until this is dropped.
pub(super) struct Member<'a, S> {
    all: &'a QuietWatches<S>,
    id: usize,
}

impl<S: Sink> QuietWatches<S> {
    /// `interval` is that of the PINGs.
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, open: Mutex::default() }
    }

    pub(super) fn join(&self, sink: &S, target: Target, liveness: Liveness) -> Member<'_, S> {
        let told = liveness.heard();
        let id = self.open.lock().insert(Quiet { sink: sink.clone(), target, liveness, told, silent: false });
        Member { all: self, id }
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
                    for (_, quiet) in self.open.lock().iter_mut() {
                        quiet.look(client, patience);
                    }
                }
                Ok(()) = sleep.changed() => {
                    let slept = sleep.borrow().saturating_sub(noted);
                    noted += slept;
                    if slept > patience {
                        for (_, quiet) in self.open.lock().iter_mut() {
                            quiet.wake(client, slept);
                        }
                    }
                }
            }
        }
    }
}

impl<S: Sink> Quiet<S> {
    fn look(&mut self, client: &KubeClient, patience: Duration) {
        let heard = self.liveness.heard();
        if heard > self.told {
            (self.told, self.silent) = (heard, false);
            // As of when it was heard, and not of this look.
            self.sink.confirm(self.liveness.silence());
        } else if !self.silent && self.liveness.silence() > patience {
            self.silent = true;
            self.sink.failed(Arc::new(client.late(&self.target, self.liveness.silence())));
        }
    }

    /// The machine has slept, and tokio's time stood still: what was heard before confirms nothing any more.
    fn wake(&mut self, client: &KubeClient, slept: Duration) {
        self.told = self.liveness.heard();
        if !self.silent {
            self.silent = true;
            self.sink.failed(Arc::new(client.late(&self.target, self.liveness.silence() + slept)));
        }
    }
}

impl<S> Drop for Member<'_, S> {
    fn drop(&mut self) {
        // When this returns, nobody else confirms or fails the sink.
        drop(self.all.open.lock().try_remove(self.id));
    }
}
