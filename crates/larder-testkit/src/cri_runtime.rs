//! A simulated container runtime that speaks CRI v1 on a Unix socket.
//!
//! It answers what a reader of state asks (`Version`, `Status`, lists and statuses of sandboxes and containers, the event
//! stream, images), and does wrong whatever a test asks for. What "runs" in it is changed through [`Containers`], from
//! Rust.
//!
//! # Guarantees
//!
//! - Answers are consistent with one moment of its [`Containers`], the one in which all delays of the call are over.
//! - Events are in the order of the changes.
//! - [`outage`](CriServer::outage) and [`restore`](CriServer::restore) use the same socket; the containers "run" on meanwhile.
//!
//! # Limits
//!
//! Calls that would change anything are refused as not implemented. A subscriber that is more than 4,096 events behind
//! loses the stream with `DATA_LOSS`; containerd would block instead.
//!
//! # Cancel safety
//!
//! Dropping a [`CriServer`] ends its tasks soon; [`shutdown`](CriServer::shutdown) waits until they have ended.
//!
//! # Example
//!
//! ```
//! use larder_testkit::cri_runtime::{Call, CallFault, CriServer, SandboxSpec};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let folder = tempfile::tempdir()?;
//! let server = CriServer::start(&folder.path().join("cri.sock")).await?;
//! let sandbox = server.containers().run_sandbox(&SandboxSpec::new("shop", "web-0", "6f1b…"));
//! let web = server.containers().create_container(&sandbox, "web", "shop/web:2")?;
//! server.containers().start_container(&web)?;
//!
//! // One container's inspection hangs; then the whole runtime is away for a while.
//! let hang = server.inject(CallFault::hang().call(Call::ContainerStatus).id(&web));
//! server.remove_fault(hang);
//! server.outage().await;
//! server.restore().await?;
//! assert!(server.endpoint().starts_with("unix:///"));
//! server.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! # Ok::<(), std::io::Error>(())
//! ```

mod containers;
mod events;
mod fault;
mod service;

pub use containers::{Containers, ContainersError, SandboxSpec};
pub use events::EventFaults;
pub use fault::{Call, CallCounts, CallFault, CallFaultId};

use crate::connection::{Connection, Connections, Gated, Listening, Serve, Streams, serve_http};
use fault::Calls;
use hyper_util::service::TowerToHyperService;
use larder_cri::proto::image_service_server::ImageServiceServer;
use larder_cri::proto::runtime_service_server::RuntimeServiceServer;
use parking_lot::Mutex;
use service::Service;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tonic::service::Routes;

/// How a simulated runtime is set up.
#[derive(Clone)]
pub struct CriServerOptions {
    /// What runs in it. Default: nothing.
    pub containers: Containers,
    /// The name that it gives. Default: `containerd`.
    pub name: String,
    /// The version that it gives. Default: `v2.4.2`.
    pub version: String,
    /// How it answers a request for events.
    pub events: EventStream,
    /// Whether it streams its lists. Default: yes, as containerd 2.4; older runtimes and CRI-O do not.
    pub streaming_lists: bool,
    /// Whether the status of a sandbox carries those of its containers, as CRI-O's does. Default: no, as containerd.
    pub statuses_with_containers: bool,
    /// Where latencies are drawn from. Default: 0.
    pub seed: u64,
}

impl Default for CriServerOptions {
    fn default() -> Self {
        Self {
            containers: Containers::new(),
            name: "containerd".into(),
            version: "v2.4.2".into(),
            events: EventStream::Open,
            streaming_lists: true,
            statuses_with_containers: false,
            seed: 0,
        }
    }
}

/// How a runtime answers a request for its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventStream {
    /// With a stream of them.
    #[default]
    Open,
    /// It does not know the call, as containerd 1.6.
    Unimplemented,
    /// With a stream that ends at once, as CRI-O without `enable_pod_events`.
    EndsAtOnce,
}

/// A simulated container runtime on a Unix socket. See the [module](self).
pub struct CriServer {
    socket: PathBuf,
    service: Service,
    connections: Arc<Connections>,
    listening: Mutex<Option<Listening>>,
}

impl CriServer {
    /// Starts one with the defaults. The socket's folder must exist, and nothing may be at its path.
    ///
    /// # Errors
    ///
    /// The socket cannot be made.
    pub async fn start(socket: &Path) -> io::Result<Self> {
        Self::start_with(socket, CriServerOptions::default()).await
    }

    /// Starts one.
    ///
    /// # Errors
    ///
    /// The socket cannot be made.
    pub async fn start_with(socket: &Path, options: CriServerOptions) -> io::Result<Self> {
        let service = Service {
            containers: options.containers,
            calls: Arc::new(Calls::new(options.seed)),
            name: options.name,
            version: options.version,
            events: options.events,
            streaming_lists: options.streaming_lists,
            statuses_with_containers: options.statuses_with_containers,
        };
        let server =
            Self { socket: socket.to_owned(), service, connections: Arc::default(), listening: Mutex::new(None) };
        server.restore().await?;
        Ok(server)
    }

    /// What runs in it; clones share it.
    pub fn containers(&self) -> &Containers {
        &self.service.containers
    }

    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The endpoint, as `unix:///run/…/cri.sock`.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Injects a fault; it stays until it is used up, removed or cleared.
    pub fn inject(&self, fault: CallFault) -> CallFaultId {
        self.service.calls.inject(fault)
    }

    /// Takes a fault back; says whether it was there.
    pub fn remove_fault(&self, id: CallFaultId) -> bool {
        self.service.calls.remove(id)
    }

    /// Takes all faults of calls back. Those of events stay.
    pub fn clear_faults(&self) {
        self.service.calls.clear();
    }

    /// Sets how long a call takes from now on; each time is drawn from the range.
    pub fn set_latency(&self, call: Call, latency: RangeInclusive<Duration>) {
        self.service.calls.set_latency(call, latency);
    }

    /// Sets what goes wrong with events from now on.
    pub fn set_event_faults(&self, faults: EventFaults) {
        self.containers().events().set_faults(faults);
    }

    /// Breaks the event streams that are open.
    pub fn cut_events(&self) {
        self.containers().events().cut();
    }

    /// How many event streams are open.
    pub fn event_streams(&self) -> usize {
        self.containers().events().subscribers()
    }

    /// How often a call was made.
    pub fn calls(&self, call: Call) -> CallCounts {
        self.service.calls.counts(call)
    }

    /// Cuts all open connections; new ones are accepted.
    pub fn cut_connections(&self) {
        self.connections.cut_all();
    }

    /// Stalls the connections that are open now, or lets them go on: stalled, they stay open and pass no byte either way.
    pub fn stall_connections(&self, stalled: bool) {
        self.connections.stall_all(stalled);
    }

    /// Stops listening, cuts all connections and removes the socket, and returns when that is done. Without effect during
    /// an outage.
    pub async fn outage(&self) {
        let listening = self.listening.lock().take();
        if let Some(listening) = listening {
            let _ = std::fs::remove_file(&self.socket);
            listening.stop().await;
        }
    }

    /// Listens again on the same path. Without effect if it listens.
    ///
    /// # Errors
    ///
    /// The socket cannot be made.
    #[expect(clippy::unused_async, reason = "must be called within a tokio runtime, as `outage`")]
    pub async fn restore(&self) -> io::Result<()> {
        let mut listening = self.listening.lock();
        if listening.is_none() {
            let listener = UnixListener::bind(&self.socket)?;
            *listening = Some(Listening::start(listener, Arc::clone(&self.connections), self.service.clone()));
        }
        Ok(())
    }

    /// Whether it listens.
    pub fn is_up(&self) -> bool {
        self.listening.lock().is_some()
    }

    /// Ends it, and waits until all its tasks have ended.
    pub async fn shutdown(self) {
        self.outage().await;
    }
}

impl Drop for CriServer {
    fn drop(&mut self) {
        if self.listening.lock().is_some() {
            // Nothing listens any more; a path that is left behind would only mislead.
            let _ = std::fs::remove_file(&self.socket);
        }
    }
}

impl Serve<UnixStream> for Service {
    async fn serve(self, stream: Gated<UnixStream>, _: &Connection, streams: Streams) {
        let mut routes = Routes::builder();
        routes.add_service(RuntimeServiceServer::new(self.clone())).add_service(ImageServiceServer::new(self));
        let service = TowerToHyperService::new(routes.routes().prepare());
        serve_http(stream, streams, u32::MAX, service).await;
    }
}
