//! Opens connections: the way to the server, TLS, and the first words of HTTP/2.

use super::connection::{Connection, Driver, Heard, Listened, most};
use super::route::Route;
use super::{DialError, Transport};
use crate::options::KubeOptions;
use http::Uri;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsConnector;
use tower::ServiceExt;

/// The windows for what a server sends ahead, of a request and of a connection. They bound the memory that answers which
/// nobody has read yet can take: 256 KiB is an object in most cases, 4 MiB some that come at once.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// How to reach a server.
pub(crate) struct Dial {
    route: Route,
    /// Without it HTTP/1.1 is spoken.
    tls: Option<(TlsConnector, ServerName<'static>)>,
    uri: Uri,
    connect_timeout: Duration,
    ping_interval: Duration,
    ping_timeout: Duration,
}

/// What a server was found to speak.
pub(super) enum Dialed {
    Http2(Arc<Connection>, Box<Driver>),
    Http1,
}

impl Dial {
    /// `tls` without protocols in it, which are set here, and the name that the server's certificate must have.
    pub(crate) fn new(
        route: Route,
        tls: Option<(rustls::ClientConfig, ServerName<'static>)>,
        uri: Uri,
        options: &KubeOptions,
    ) -> Self {
        let tls = tls.map(|(mut config, name)| {
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            (TlsConnector::from(Arc::new(config)), name)
        });
        let ping_timeout = options.dead_link_timeout.saturating_sub(options.ping_interval);
        let (connect_timeout, ping_interval) = (options.connect_timeout, options.ping_interval);
        Self { route, tls, uri, connect_timeout, ping_interval, ping_timeout }
    }

    pub(super) fn may_be_http2(&self) -> bool {
        self.tls.is_some()
    }

    pub(super) async fn dial(&self, transport: &Transport) -> Result<Dialed, DialError> {
        let late = |_| {
            let problem = format!("no connection within {:?}", self.connect_timeout);
            DialError::new(io::Error::new(io::ErrorKind::TimedOut, problem))
        };
        tokio::time::timeout(self.connect_timeout, self.try_dial(transport)).await.map_err(late)?
    }

    async fn try_dial(&self, transport: &Transport) -> Result<Dialed, DialError> {
        let Some((tls, name)) = &self.tls else { return Ok(Dialed::Http1) };
        let link = self.route.clone().oneshot(self.uri.clone()).await.map_err(DialError::new)?;
        let socket = tls.connect(name.clone(), TokioIo::new(link)).await.map_err(DialError::new)?;
        if socket.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Ok(Dialed::Http1);
        }
        let heard = Arc::new(Heard::new());
        let io = TokioIo::new(Listened::new(Box::new(socket), Arc::clone(&heard)));
        let mut builder = hyper::client::conn::http2::Builder::new(Tasks(transport.clone()));
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(self.ping_interval)
            .keep_alive_timeout(self.ping_timeout)
            .keep_alive_while_idle(true)
            // Until the server has told its limit nothing is sent.
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

/// Runs what HTTP/2 wants to have run, until the client goes.
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
