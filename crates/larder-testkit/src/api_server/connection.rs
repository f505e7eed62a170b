//! Connections: the socket, cut or stalled on command, under HTTP/1.1 or HTTP/2.

use super::log::RequestLog;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The connections that are open now.
pub(crate) struct Connections {
    log: Arc<RequestLog>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    open: HashMap<u64, (CancellationToken, Arc<Gate>)>,
}

/// One open connection; dropping it takes it off the list.
pub(crate) struct Connection {
    pub(crate) number: u64,
    pub(crate) cut: CancellationToken,
    pub(crate) gate: Arc<Gate>,
    all: Arc<Connections>,
}

impl Connections {
    pub(crate) fn new(log: Arc<RequestLog>) -> Self {
        Self { log, state: Mutex::default() }
    }

    pub(crate) fn open(self: &Arc<Self>) -> Connection {
        let (cut, gate) = (CancellationToken::new(), Arc::new(Gate::default()));
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        state.open.insert(number, (cut.clone(), Arc::clone(&gate)));
        drop(state);
        self.log.count(|counts| {
            counts.connections_accepted += 1;
            counts.connections_open += 1;
        });
        Connection { number, cut, gate, all: Arc::clone(self) }
    }

    pub(crate) fn cut_all(&self) {
        for (cut, _) in self.state.lock().open.values() {
            cut.cancel();
        }
    }

    pub(crate) fn stall_all(&self, stalled: bool) {
        for (_, gate) in self.state.lock().open.values() {
            gate.set(stalled);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.cut.cancel();
        self.all.state.lock().open.remove(&self.number);
        self.all.log.count(|counts| counts.connections_open -= 1);
    }
}

/// Whether bytes pass. Closed, the connection is as dead as behind a broken router: open, and silent.
#[derive(Default)]
pub(crate) struct Gate {
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
pub(crate) struct Gated {
    pub(crate) stream: TcpStream,
    pub(crate) gate: Arc<Gate>,
}

macro_rules! pass {
    ($self:ident, $side:ident, $cx:ident) => {
        if $self.gate.pass(&$self.gate.$side, $cx).is_pending() {
            return Poll::Pending;
        }
    };
}

impl AsyncRead for Gated {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        pass!(self, reader, cx);
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Gated {
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
    pub(crate) tasks: TaskTracker,
    pub(crate) cut: CancellationToken,
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
