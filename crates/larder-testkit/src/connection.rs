//! Connections of a simulated server: sockets, cut or stalled on command, under HTTP/1.1 or HTTP/2.

use futures_util::task::AtomicWaker;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How many bytes are under way in a connection in memory, in each direction.
const IN_MEMORY: usize = 64 << 10;

/// The connections that are open now.
#[derive(Default)]
pub(crate) struct Connections {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    accepted: u64,
    open: HashMap<u64, Open>,
    /// Whether new connections are stalled, too.
    frozen: bool,
}

struct Open {
    cut: CancellationToken,
    drain: CancellationToken,
    gate: Arc<Gate>,
}

/// One open connection; dropping it takes it off the list.
pub(crate) struct Connection {
    pub(crate) number: u64,
    pub(crate) cut: CancellationToken,
    drain: CancellationToken,
    gate: Arc<Gate>,
    all: Arc<Connections>,
}

impl Connections {
    fn open(self: &Arc<Self>) -> Connection {
        let (cut, drain, gate) = (CancellationToken::new(), CancellationToken::new(), Arc::new(Gate::default()));
        let mut state = self.state.lock();
        state.accepted += 1;
        let number = state.accepted;
        gate.set(state.frozen);
        state.open.insert(number, Open { cut: cut.clone(), drain: drain.clone(), gate: Arc::clone(&gate) });
        Connection { number, cut, drain, gate, all: Arc::clone(self) }
    }

    /// How many were accepted, and how many are open.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.accepted, state.open.len() as u64)
    }

    pub(crate) fn cut_all(&self) {
        for open in self.state.lock().open.values() {
            open.cut.cancel();
        }
    }

    pub(crate) fn drain_all(&self) {
        for open in self.state.lock().open.values() {
            open.drain.cancel();
        }
    }

    pub(crate) fn freeze(&self, frozen: bool) {
        let mut state = self.state.lock();
        state.frozen = frozen;
        for open in state.open.values() {
            open.gate.set(frozen);
        }
    }

    pub(crate) fn stall_all(&self, stalled: bool) {
        for open in self.state.lock().open.values() {
            open.gate.set(stalled);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.cut.cancel();
        self.all.state.lock().open.remove(&self.number);
    }
}

/// A socket that is listened on.
pub(crate) trait Listener: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = TcpListener::accept(self).await?;
        // Without it, small events wait for acknowledgements.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        UnixListener::accept(self).await.map(|(stream, _)| stream)
    }
}

/// Serves one connection, from its first byte on.
pub(crate) trait Serve<S>: Clone + Send + 'static {
    fn serve(self, stream: Gated<S>, connection: &Connection, streams: Streams) -> impl Future<Output = ()> + Send;
}

/// A server that listens, until it is stopped or dropped.
pub(crate) struct Listening {
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
    connections: Arc<Connections>,
    /// Serves the connections that nobody has to listen for.
    in_memory: TaskTracker,
}

impl Listening {
    pub(crate) fn start<L: Listener>(listener: L, connections: Arc<Connections>, serve: impl Serve<L::Stream>) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(listener, Arc::clone(&connections), serve, stop.clone()));
        Self { stop, task: Some(task), connections, in_memory: TaskTracker::new() }
    }

    /// Serves a connection in memory, and returns the client's end of it.
    pub(crate) fn connect(&self, serve: impl Serve<DuplexStream>) -> DuplexStream {
        let (client, server) = tokio::io::duplex(IN_MEMORY);
        self.in_memory.spawn(serve_one(server, self.connections.open(), serve));
        client
    }

    /// Stops listening, cuts all connections, and returns when their tasks have ended.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // A panic in it has been reported by tokio.
            let _ = task.await;
        }
        self.in_memory.close();
        self.in_memory.wait().await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn run<L: Listener>(
    listener: L,
    connections: Arc<Connections>,
    serve: impl Serve<L::Stream>,
    stop: CancellationToken,
) {
    let mut serving = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = serving.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok(stream) => drop(serving.spawn(serve_one(stream, connections.open(), serve.clone()))),
                Err(error) => {
                    tracing::warn!(%error, "a simulated server cannot accept a connection");
                    // Out of descriptors: the next attempt is worth making once some are closed.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
    drop(listener);
    connections.cut_all();
    while serving.join_next().await.is_some() {}
}

async fn serve_one<S: Send + 'static>(stream: S, connection: Connection, serve: impl Serve<S>) {
    let gated = Gated { stream, gate: Arc::clone(&connection.gate) };
    let (cut, drain) = (connection.cut.clone(), connection.drain.clone());
    let streams = Streams { tasks: TaskTracker::new(), cut, drain };
    connection.cut.run_until_cancelled(serve.serve(gated, &connection, streams.clone())).await;
    connection.cut.cancel();
    streams.tasks.close();
    streams.tasks.wait().await;
}

/// Speaks HTTP/1.1 or HTTP/2, whichever the client begins with.
pub(crate) async fn serve_http<I, S, B>(io: I, streams: Streams, max_concurrent_streams: u32, service: S)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: hyper::service::Service<Request<Incoming>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: hyper::body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let drain = streams.drain.clone();
    let mut builder = auto::Builder::new(streams);
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(max_concurrent_streams);
    let mut serving = pin!(builder.serve_connection_with_upgrades(TokioIo::new(io), service));
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = drain.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of a simulated server ended");
    }
}

/// Whether bytes pass. Closed, the connection is as dead as behind a broken router: open, and silent.
#[derive(Default)]
struct Gate {
    closed: AtomicBool,
    reader: AtomicWaker,
    writer: AtomicWaker,
}

impl Gate {
    fn set(&self, closed: bool) {
        // The wakers' own synchronisation orders this before the next poll; a poll that comes before the store sees it
        // the next time.
        self.closed.store(closed, Ordering::Release);
        self.reader.wake();
        self.writer.wake();
    }

    fn pass(&self, waker: &AtomicWaker, cx: &Context<'_>) -> Poll<()> {
        // Registered first: an opening between the look and the registration would else be missed.
        waker.register(cx.waker());
        if self.closed.load(Ordering::Acquire) { Poll::Pending } else { Poll::Ready(()) }
    }
}

/// A socket behind a gate.
pub(crate) struct Gated<S> {
    stream: S,
    gate: Arc<Gate>,
}

macro_rules! pass {
    ($self:ident, $side:ident, $cx:ident) => {
        if $self.gate.pass(&$self.gate.$side, $cx).is_pending() {
            return Poll::Pending;
        }
    };
}

impl<S: AsyncRead + Unpin> AsyncRead for Gated<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        pass!(self, reader, cx);
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gated<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        pass!(self, writer, cx);
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pass!(self, writer, cx);
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pass!(self, writer, cx);
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Runs the tasks that HTTP/2 wants for its streams, so that none outlives its connection.
#[derive(Clone)]
pub(crate) struct Streams {
    tasks: TaskTracker,
    cut: CancellationToken,
    drain: CancellationToken,
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        self.tasks.spawn(self.cut.clone().run_until_cancelled_owned(future));
    }
}
