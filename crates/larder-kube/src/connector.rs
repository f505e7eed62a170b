//! Opens byte streams to hosts: TCP, or streams in memory for a test. Tunnels, TLS and HTTP lie on top, in `pool`.

use crate::options::KubeOptions;
use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use hyper_util::client::legacy::connect::HttpConnector;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::ServiceExt;

/// Opens byte streams to hosts, for [`KubeOptions::connector`].
///
/// A stream carries bytes in order and reports when the peer closes it. The caller sets the deadline and drops the future
/// afterwards, so an implementation may wait for ever.
///
/// # Example
///
/// A server in the same process, without a socket:
///
/// ```
/// use http::uri::Authority;
/// use larder_kube::{ByteStream, Connecting, Connector, KubeClient, KubeOptions};
/// use std::sync::Arc;
///
/// #[derive(Debug)]
/// struct InMemory;
///
/// impl Connector for InMemory {
///     fn connect(&self, host: &Authority) -> Connecting {
///         println!("a connection to {host}");
///         let (client, _server) = tokio::io::duplex(64 << 10);
///         // A hyper server would be handed the other half here.
///         Box::pin(async move { Ok(Box::new(client) as Box<dyn ByteStream>) })
///     }
/// }
///
/// let mut options = KubeOptions::default();
/// options.connector = Some(Arc::new(InMemory));
/// let client = KubeClient::without_credentials("http://in-memory", options)?;
/// assert_eq!(&*client.server(), "http://in-memory");
/// # Ok::<(), larder_kube::KubeError>(())
/// ```
pub trait Connector: fmt::Debug + Send + Sync {
    /// A new stream to a host and port.
    fn connect(&self, host: &Authority) -> Connecting;
}

/// A stream that is being opened. Dropping the future gives up.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn ByteStream>>> + Send>>;

/// A stream of bytes in both directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// TCP by hyper-util, which resolves the name and tries the addresses in turn.
#[derive(Clone, Debug)]
pub(crate) struct Tcp(HttpConnector);

impl Tcp {
    pub(crate) fn new(options: &KubeOptions) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(options.connect_timeout));
        // The kernel closes a connection whose peer acknowledges no data or no probe.
        let probe = options.dead_link_timeout / 3;
        tcp.set_keepalive(Some(probe));
        tcp.set_keepalive_interval(Some(probe));
        tcp.set_keepalive_retries(Some(2));
        tcp.set_tcp_user_timeout(Some(options.dead_link_timeout));
        Self(tcp)
    }
}

impl Connector for Tcp {
    fn connect(&self, host: &Authority) -> Connecting {
        let mut parts = http::uri::Parts::default();
        // hyper-util takes the port from the authority but requires a scheme.
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(host.clone());
        parts.path_and_query = Some(PathAndQuery::from_static("/"));
        let (tcp, to) = (self.0.clone(), Uri::from_parts(parts));
        Box::pin(async move {
            let to = to.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
            let stream = tcp.oneshot(to).await.map_err(io::Error::other)?;
            Ok(Box::new(stream.into_inner()) as Box<dyn ByteStream>)
        })
    }
}
