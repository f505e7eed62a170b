//! Requests of others on their way to the API server, with their own credentials.
//!
//! # Guarantees
//!
//! - *Never as larder*: the connections are for these requests alone. They lead to the server of larder's configuration, by the same
//!   authorities, server name and proxy, and have no client certificate. No header is added to a request, so that the server sees the
//!   credentials of the request and no others.
//! - *Few connections*: requests and watches share HTTP/2 connections, as larder's own do. A request for an upgrade has an HTTP/1.1
//!   connection of its own.
//! - *Unbuffered*: a body goes on as it comes, in both directions. A client that does not read its answer holds up no other one.
//! - *Today's server*: a request goes to the server that larder's own requests go to now. When that changes, requests under way stay where
//!   they are.
//!
//! # Limits
//!
//! It neither reads nor changes headers. The caller removes those of the connection, and bounds the time of an answer.
//!
//! # Cancel safety
//!
//! Dropping a request or its answer resets the stream, or closes its connection.
//!
//! # Locks
//!
//! One, over the connections to the current server, never held over an `.await`.

use crate::connect::Endpoint;
use crate::error::causes;
use crate::options::KubeOptions;
use crate::pool::{Answer, Body, NoRoom, Pool, Transport, is_unconnected};
use crate::session::{Sessions, Why};
use crate::stats::Counters;
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use tower::BoxError;

/// Why a request did not get to the API server, or its answer not back.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// There is no connection, so nothing was sent.
    #[error("cannot reach the API server at {server}: {problem}")]
    Unreached {
        /// The server.
        server: Arc<str>,
        /// The chain of causes.
        problem: String,
    },
    /// The connection broke before the answer came. The server may have received the request.
    #[error("the API server at {server} broke off before it answered: {problem}")]
    Broken {
        /// The server.
        server: Arc<str>,
        /// The chain of causes.
        problem: String,
    },
    /// Watches fill all connections.
    #[error("watches fill all connections to the API server")]
    NoRoom,
}

/// Sends requests of others to the API server. Clones share the connections.
#[derive(Clone)]
pub struct PassThrough(Arc<Inner>);

struct Inner {
    sessions: Sessions,
    options: KubeOptions,
    transport: Transport,
    current: Mutex<Option<Current>>,
}

/// The connections to a server.
#[derive(Clone)]
struct Current {
    endpoint: Arc<Endpoint>,
    server: Arc<str>,
    base: Arc<str>,
    pool: Pool,
}

impl PassThrough {
    pub(crate) fn new(sessions: Sessions, options: &KubeOptions, transport: &Transport, requests: u32) -> Self {
        let per_connection = options.streams_per_connection.max(1);
        let options = KubeOptions {
            // One connection more, because the server may close some to new requests.
            max_connections: requests.div_ceil(per_connection).saturating_add(1),
            http1_connections: requests.max(2),
            ..options.clone()
        };
        // Statistics are of larder's own requests.
        let transport = Transport { counters: Arc::<Counters>::default(), ..transport.clone() };
        Self(Arc::new(Inner { sessions, options, transport, current: Mutex::default() }))
    }

    /// Sends a request, and returns the head of the answer. The request's URI is a path with a query. A watch, or another request whose answer
    /// lasts, is `lasting`.
    ///
    /// # Errors
    ///
    /// [`PassError`] if there is no answer.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn send<B>(&self, request: Request<B>, lasting: bool) -> Result<Response<Answer>, PassError>
    where
        B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let current = self.current().await?;
        let request = current.request(request)?;
        current.pool.send_as(request, lasting).await.map_err(|error| self.failed(&current, &error))
    }

    /// Sends a request that asks for another protocol. The answer 101 has the upgraded connection in it
    /// ([`hyper::upgrade::on`]).
    ///
    /// # Errors
    ///
    /// [`PassError`] if there is no answer.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn upgrade<B>(&self, request: Request<B>) -> Result<Response<Incoming>, PassError>
    where
        B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let current = self.current().await?;
        let request = current.request(request)?;
        current.pool.upgrade(request).await.map_err(|error| self.failed(&current, &error))
    }

    /// The connections to the server of now.
    async fn current(&self) -> Result<Current, PassError> {
        let endpoint = self.0.sessions.endpoint();
        let held = |current: &Option<Current>| {
            current.as_ref().filter(|current| Arc::ptr_eq(&current.endpoint, &endpoint)).cloned()
        };
        if let Some(current) = held(&self.0.current.lock()) {
            return Ok(current);
        }
        let (options, transport, of) = (self.0.options.clone(), self.0.transport.clone(), Arc::clone(&endpoint));
        let made = tokio::task::spawn_blocking(move || of.pool_of_others(&options, &transport)).await;
        let made = made.unwrap_or_else(|_| Err("larder is ending".to_owned()));
        let pool = made.map_err(|problem| PassError::Unreached { server: endpoint.server(), problem })?;
        let mut current = self.0.current.lock();
        // Another request may have been faster. Its connections are shared.
        if let Some(current) = held(&current) {
            return Ok(current);
        }
        let (server, base) = (endpoint.server(), endpoint.base().into());
        let made = Current { endpoint: Arc::clone(&endpoint), server, base, pool };
        *current = Some(made.clone());
        Ok(made)
    }

    fn failed(&self, current: &Current, error: &BoxError) -> PassError {
        if error.is::<NoRoom>() {
            return PassError::NoRoom;
        }
        let (server, problem) = (Arc::clone(&current.server), causes(&**error));
        if is_unconnected(error) {
            // The configuration may name another server by now.
            self.0.sessions.failed(Why::Unconnected);
            return PassError::Unreached { server, problem };
        }
        PassError::Broken { server, problem }
    }
}

impl fmt::Debug for PassThrough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassThrough").finish_non_exhaustive()
    }
}

impl Current {
    /// A request to this server.
    fn request<B>(&self, request: Request<B>) -> Result<Request<Body>, PassError>
    where
        B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let uri = format!("{}{path}", self.base).parse::<Uri>();
        let problem = |error: http::uri::InvalidUri| error.to_string();
        parts.uri =
            uri.map_err(|error| PassError::Unreached { server: Arc::clone(&self.server), problem: problem(error) })?;
        (parts.version, parts.extensions) = (http::Version::default(), http::Extensions::new());
        Ok(Request::from_parts(parts, Body::Passed(body.map_err(Into::into).boxed_unsync())))
    }
}
