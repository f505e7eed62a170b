//! Opens a connection: the stream to the server, TLS, and the HTTP/2 handshake.

use super::connection::{Connection, Driver, Heard, Listened, most};
use super::route::{Route, Stream};
use super::{DialError, Transport};
use crate::options::KubeOptions;
use crate::tls::in_words;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection as Connects};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower::Service;

/// The receive windows of a request and of a connection over HTTP/2, in bytes. They bound the memory of unread responses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    stream: u32,
    connection: u32,
}

impl Windows {
    /// For requests of larder's own, which reads each answer at once: 256 KiB holds most objects, 4 MiB some at once.
    pub(crate) const OWN: Self = Self { stream: 256 << 10, connection: 4 << 20 };
    /// For requests of others, whose clients may read slowly. The window of a connection is that of its 100 requests together, so a
    /// client that does not read holds up no other one.
    pub(crate) const OF_OTHERS: Self = Self { stream: 64 << 10, connection: 100 * (64 << 10) };
}

/// Opens connections to one server.
pub(crate) struct Dial {
    route: Route,
    tls: Option<Tls>,
    uri: Uri,
    connect_timeout: Duration,
    ping_interval: Duration,
    ping_timeout: Duration,
    windows: Windows,
}

/// TLS to a server, whose certificate must have this name.
struct Tls {
    name: ServerName<'static>,
    /// Lets the server choose between HTTP/2 and HTTP/1.1.
    either: TlsConnector,
    /// Offers HTTP/1.1 only.
    http1: TlsConnector,
}

/// The protocol of a new connection.
pub(super) enum Dialed {
    Http2(Arc<Connection>, Box<Driver>),
    Http1,
}

impl Dial {
    /// Sets the ALPN protocols of `tls`, which comes with the name that the certificate must have. Without `tls`, HTTP/1.1.
    pub(crate) fn new(
        route: Route,
        tls: Option<(rustls::ClientConfig, ServerName<'static>)>,
        uri: Uri,
        options: &KubeOptions,
        windows: Windows,
    ) -> Self {
        let tls = tls.map(|(config, name)| {
            let speaking = |protocols: &[&[u8]]| {
                let mut config = config.clone();
                config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
                TlsConnector::from(Arc::new(config))
            };
            Tls { name, either: speaking(&[b"h2", b"http/1.1"]), http1: speaking(&[b"http/1.1"]) }
        });
        let ping_timeout = options.dead_link_timeout.saturating_sub(options.ping_interval);
        let (connect_timeout, ping_interval) = (options.connect_timeout, options.ping_interval);
        Self { route, tls, uri, connect_timeout, ping_interval, ping_timeout, windows }
    }

    pub(super) fn may_be_http2(&self) -> bool {
        self.tls.is_some()
    }

    pub(super) async fn dial(&self, transport: &Transport) -> Result<Dialed, DialError> {
        self.in_time(self.try_dial(transport)).await
    }

    /// Opens a stream for HTTP/1.1.
    pub(super) async fn dial_http1(&self) -> Result<Stream, DialError> {
        self.in_time(async {
            let stream = self.route.open(&self.uri).await.map_err(DialError::new)?;
            let Some(tls) = &self.tls else { return Ok(stream) };
            let stream = tls.http1.connect(tls.name.clone(), stream).await.map_err(untrusted)?;
            Ok(Box::new(stream) as Stream)
        })
        .await
    }

    async fn in_time<T>(&self, dial: impl Future<Output = Result<T, DialError>>) -> Result<T, DialError> {
        let late = |_| {
            let problem = format!("no connection within {:?}", self.connect_timeout);
            DialError::new(io::Error::new(io::ErrorKind::TimedOut, problem))
        };
        tokio::time::timeout(self.connect_timeout, dial).await.map_err(late)?
    }

    async fn try_dial(&self, transport: &Transport) -> Result<Dialed, DialError> {
        let Some(tls) = &self.tls else { return Ok(Dialed::Http1) };
        let stream = self.route.open(&self.uri).await.map_err(DialError::new)?;
        let stream = tls.either.connect(tls.name.clone(), stream).await.map_err(untrusted)?;
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Ok(Dialed::Http1);
        }
        let heard = Arc::new(Heard::new());
        let io = TokioIo::new(Listened::new(Box::new(stream), Arc::clone(&heard)));
        let mut builder = hyper::client::conn::http2::Builder::new(Tasks(transport.clone()));
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(self.windows.stream)
            .initial_connection_window_size(self.windows.connection)
            .keep_alive_interval(self.ping_interval)
            .keep_alive_timeout(self.ping_timeout)
            .keep_alive_while_idle(true)
            // Send nothing before the server's limit is known.
            .initial_max_send_streams(0);
        let (sender, mut wire) = builder.handshake(io).await.map_err(DialError::new)?;
        loop {
            tokio::select! {
                ended = &mut wire => {
                    ended.map_err(DialError::new)?;
                    return Err(DialError::new(io::Error::from(io::ErrorKind::UnexpectedEof)));
                }
                () = heard.taken_in.notified() => {}
            }
            let most = most(&wire);
            if most > 0 {
                let connection = Connection::new(sender, heard, most);
                return Ok(Dialed::Http2(Arc::new(connection), Box::new(Driver(wire))));
            }
        }
    }
}

fn untrusted(error: io::Error) -> DialError {
    DialError::new(in_words(error))
}

/// Spawns hyper's HTTP/2 tasks, which end with the client.
#[derive(Clone)]
pub(super) struct Tasks(Transport);

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, future: F) {
        self.0.spawn(async move {
            future.await;
        });
    }
}

/// Opens connections for hyper-util's pool of HTTP/1.1.
#[derive(Clone)]
pub(super) struct Http1Connector {
    pub(super) dial: Arc<Dial>,
    /// Cancelled when the pool is closed.
    pub(super) closed: CancellationToken,
}

impl Service<Uri> for Http1Connector {
    type Response = TokioIo<Http1Stream>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    /// Ignores the address: the pool has one server.
    fn call(&mut self, _: Uri) -> Self::Future {
        let (dial, closed) = (Arc::clone(&self.dial), self.closed.clone());
        Box::pin(async move {
            let stream = dial.dial_http1().await?;
            Ok(TokioIo::new(Http1Stream { stream, closed: Box::pin(closed.cancelled_owned()) }))
        })
    }
}

/// A stream of the HTTP/1.1 pool. Fails when the pool is closed.
pub(super) struct Http1Stream {
    stream: Stream,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connects for Http1Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Http1Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.closed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Http1Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
