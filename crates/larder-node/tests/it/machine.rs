//! A machine in tokio's time, and connections in memory.

use http::uri::Authority;
use larder_clock::{ClockOffsets, MachineClocks};
use larder_kube::{ByteStream, Connecting, Connector};
use larder_testkit::api_server::ApiServer;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The clocks of a machine that is awake on tokio's time, and asleep when the test says so.
pub(crate) struct Laptop {
    started: Instant,
    slept: AtomicI64,
    offsets: ClockOffsets,
}

impl Laptop {
    pub(crate) fn leaked() -> &'static Self {
        Box::leak(Box::new(Self { started: Instant::now(), slept: AtomicI64::new(0), offsets: ClockOffsets::new() }))
    }

    pub(crate) fn sleep(&self, time: Duration) {
        self.slept.fetch_add(i64::try_from(time.as_nanos()).unwrap(), Ordering::Relaxed);
    }
}

impl MachineClocks for &'static Laptop {
    fn since_boot(&self) -> i128 {
        self.awake() + i128::from(self.slept.load(Ordering::Relaxed))
    }

    fn awake(&self) -> i128 {
        i128::try_from(self.started.elapsed().as_nanos()).unwrap()
    }

    fn awake_at_tick(&self) -> i128 {
        self.awake()
    }

    fn wall(&self) -> i128 {
        self.since_boot()
    }

    fn offsets(&self) -> &ClockOffsets {
        &self.offsets
    }
}

/// Connects to the server over streams in memory, whatever host is asked for.
pub(crate) struct InMemory(pub(crate) Arc<ApiServer>);

impl Connector for InMemory {
    fn connect(&self, _: &Authority) -> Connecting {
        let server = Arc::clone(&self.0);
        Box::pin(async move { Ok(Box::new(server.connect_in_memory()?) as Box<dyn ByteStream>) })
    }
}

impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InMemory")
    }
}
