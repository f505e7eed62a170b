//! Tells reflectors that are quiet whether their connections are alive.

use super::run::Sink;
use crate::client::KubeClient;
use crate::error::{KubeError, Target};
use crate::pool::Liveness;
use parking_lot::Mutex;
use slab::Slab;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// How long the answer to a PING may take at least before what the connection carries counts as stale. It is half of the
/// interval where that is longer: looked at twice in an interval, silence is noticed within two of them.
const GRACE: Duration = Duration::from_secs(2);

/// The reflectors whose watches are open and have caught up: at most as many as run.
pub(super) struct Pulse {
    interval: Duration,
    open: Mutex<Slab<Watched>>,
}

struct Watched {
    sink: Sink,
    target: Target,
    liveness: Liveness,
    /// When its connection was last heard, as far as the sink has been told.
    told: Duration,
    silent: bool,
}

/// A reflector among them, until it is dropped.
pub(super) struct Member<'a> {
    pulse: &'a Pulse,
    id: usize,
}

impl Pulse {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, open: Mutex::default() }
    }

    pub(super) fn join(&self, sink: &Sink, target: Target, liveness: Liveness) -> Member<'_> {
        let told = liveness.heard();
        let id = self.open.lock().insert(Watched { sink: sink.clone(), target, liveness, told, silent: false });
        Member { pulse: self, id }
    }

    /// Looks at them for ever, twice in the interval of PINGs.
    pub(super) async fn beat(&self, client: &KubeClient) -> Infallible {
        let mut ticks = tokio::time::interval(self.interval / 2);
        let patience = self.interval + GRACE.max(self.interval / 2);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for (_, watched) in self.open.lock().iter_mut() {
                watched.look(client, patience);
            }
        }
    }
}

impl Watched {
    fn look(&mut self, client: &KubeClient, patience: Duration) {
        let heard = self.liveness.heard();
        if heard > self.told {
            (self.told, self.silent) = (heard, false);
            // As of when it was heard, and not of this look.
            self.sink.confirm_as_of(self.liveness.silence());
        } else if !self.silent && self.liveness.silence() > patience {
            self.silent = true;
            let error: KubeError = client.late(&self.target, self.liveness.silence());
            self.sink.failed(Arc::new(error));
        }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        // When this returns, the sink is told nothing more by the pulse.
        drop(self.pulse.open.lock().try_remove(self.id));
    }
}
