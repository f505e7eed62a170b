//! A simulated Kubernetes API server on loopback: pods, nodes, Secrets and `ConfigMap`s over real HTTP.
//!
//! It speaks HTTP/1.1 and HTTP/2 (with prior knowledge, or by ALPN over TLS), get, list and watch as an API server does,
//! and does wrong whatever a test asks for. Objects are changed through its [`ObjectStore`], from Rust.
//!
//! # Guarantees
//!
//! - Lists are consistent with one revision, and a watch from that revision misses nothing.
//! - Errors are `metav1.Status`; a watch that fell out of the history gets an `ERROR` event of code 410.
//! - [`outage`](ApiServer::outage) and [`restore`](ApiServer::restore) keep the port: no other process can take it meanwhile.
//!
//! # Limits
//!
//! Read-only over HTTP but for `SelfSubjectAccessReview`, `TokenReview` and [`ECHO`]; JSON only; no tables, no partial metadata, no
//! admission, no compression. A list from the watch cache takes no notice of `limit`, as an API server's.
//!
//! # Cancel safety
//!
//! Dropping an [`ApiServer`] ends its tasks soon; [`shutdown`](ApiServer::shutdown) waits until they have ended.
//!
//! # Example
//!
//! ```
//! use larder_testkit::api_server::{ApiServer, Fault, Kind, User, Verb};
//! use larder_testkit::objects::{pod, secret};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let server = ApiServer::start().await?;
//! server.store().create(secret("shop", "tls", &[("key", "k")]))?;
//! server.store().create(pod("shop", "web-0").node("n1").container("web", "web:2").secret_volume("tls").build())?;
//!
//! // What a node's client is configured with; write_kubeconfig puts it into a file of mode 0600.
//! let token = server.add_user(User::node("n1"));
//! let kubeconfig = server.kubeconfig(&token);
//! assert!(kubeconfig.contains(server.url()));
//!
//! // The next two gets of Secrets fail; then nothing listens; then all is well again.
//! server.inject(Fault::status(503).verb(Verb::Get).kind(Kind::Secret).times(2));
//! server.outage().await;
//! server.restore().await?;
//! server.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! # Ok::<(), std::io::Error>(())
//! ```

mod answer;
mod auth;
mod echo;
mod fault;
mod kubeconfig;
mod log;
mod object;
mod references;
mod request;
mod selector;
mod status;
mod store;
mod tls;
mod watch;

pub use auth::{Grant, User};
pub use echo::ECHO;
pub use fault::{Fault, FaultId};
pub use kubeconfig::write_private;
pub use log::{Counts, REQUESTS, RequestRecord};
pub use object::{ApiObject, Kind};
pub use request::Verb;
pub use store::{Backup, CacheLag, HISTORY, ObjectStore, StoreError};
pub use tls::ClientCertificate;

use crate::connection::{Connection, Connections, Gated, Listening, Serve, Streams, serve_http};
use answer::{Body, Distortion};
use auth::Tokens;
use fault::{Action, Faults};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use kubeconfig::Credential;
use log::RequestLog;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use status::Failure;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tls::Tls;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpSocket;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// What the server does with a streaming list (`sendInitialEvents=true`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamingLists {
    /// Serves it.
    #[default]
    Served,
    /// Answers 200 and an `ERROR` event of code 500, as on an etcd that is too old.
    ErrorEvent,
    /// Answers 422, as with the feature gate off.
    Forbidden,
}

/// How a simulated API server is set up.
#[derive(Clone)]
pub struct ApiServerOptions {
    /// The objects. Default: an empty store.
    pub store: ObjectStore,
    /// Whether it speaks TLS, with an authority of its own that its kubeconfigs name. Default: no, for speed.
    pub tls: bool,
    /// Streaming lists. Default: served, as API servers of this version do.
    pub streaming_lists: StreamingLists,
    /// How often a watch that allows bookmarks gets one. Default: a minute, as an API server about does.
    pub bookmark_interval: Duration,
    /// How long a watch lasts that names no timeout. Default: 30 minutes, the least that an API server grants.
    pub default_watch_timeout: Duration,
    /// HTTP/2 streams that a connection may have. Default: 100, an API server's.
    pub max_concurrent_streams: u32,
    /// How long the Node authorizer does not know a new pod's references. Default: zero.
    pub authorizer_lag: Duration,
}

impl Default for ApiServerOptions {
    fn default() -> Self {
        Self {
            store: ObjectStore::new(),
            tls: false,
            streaming_lists: StreamingLists::Served,
            bookmark_interval: Duration::from_mins(1),
            default_watch_timeout: Duration::from_mins(30),
            max_concurrent_streams: 100,
            authorizer_lag: Duration::ZERO,
        }
    }
}

/// A simulated API server that listens on a port of loopback. See the [module](self).
pub struct ApiServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    url: String,
    admin_token: String,
    max_concurrent_streams: u32,
    /// Bound, never listening: keeps the port through an outage.
    _reserved: TcpSocket,
    listening: Mutex<Option<Listening>>,
}

/// What the connections share.
pub(crate) struct Shared {
    store: ObjectStore,
    tls: Mutex<Option<Tls>>,
    tokens: Tokens,
    faults: Faults,
    log: Arc<RequestLog>,
    connections: Arc<Connections>,
    control: tokio::sync::watch::Sender<watch::Control>,
    streaming_lists: Mutex<StreamingLists>,
    bookmark_interval: Duration,
    default_watch_timeout: Duration,
    authorizer_lag: Duration,
    /// The issuer and the JWKS of service-account tokens.
    token_keys: Mutex<Option<(String, String)>>,
    reviewed_tokens: Mutex<Option<std::collections::HashMap<String, serde_json::Value>>>,
    token_rng: Mutex<StdRng>,
}

impl ApiServer {
    /// Starts one with the defaults, on a free port.
    ///
    /// # Errors
    ///
    /// No port of loopback can be bound.
    pub async fn start() -> io::Result<Self> {
        Self::start_with(ApiServerOptions::default()).await
    }

    /// Starts one on a free port.
    ///
    /// # Errors
    ///
    /// No port of loopback can be bound, or no certificate made.
    pub async fn start_with(options: ApiServerOptions) -> io::Result<Self> {
        let reserved = socket((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = reserved.local_addr()?;
        let tls = if options.tls { Some(Tls::generate()?) } else { None };
        let scheme = if tls.is_some() { "https" } else { "http" };
        let log = Arc::new(RequestLog::default());
        let shared = Shared {
            store: options.store,
            tls: Mutex::new(tls),
            tokens: Tokens::default(),
            faults: Faults::default(),
            connections: Arc::default(),
            log,
            control: tokio::sync::watch::channel(watch::Control::default()).0,
            streaming_lists: Mutex::new(options.streaming_lists),
            bookmark_interval: options.bookmark_interval,
            default_watch_timeout: options.default_watch_timeout,
            authorizer_lag: options.authorizer_lag,
            token_keys: Mutex::default(),
            reviewed_tokens: Mutex::default(),
            // Tokens are not drawn from a seed: another user of the machine must not be able to guess them.
            token_rng: Mutex::new(StdRng::from_rng(&mut rand::rng())),
        };
        let mut server = Self {
            shared: Arc::new(shared),
            address,
            url: format!("{scheme}://{address}"),
            admin_token: String::new(),
            max_concurrent_streams: options.max_concurrent_streams,
            _reserved: reserved,
            listening: Mutex::new(None),
        };
        server.admin_token = server.add_user(User::admin());
        server.restore().await?;
        Ok(server)
    }

    /// The objects; clones share them.
    pub fn store(&self) -> &ObjectStore {
        &self.shared.store
    }

    /// Where it listens, as `http://127.0.0.1:40123`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate authority that its clients are to trust, in PEM; `None` without TLS.
    pub fn ca_pem(&self) -> Option<String> {
        self.shared.tls.lock().as_ref().map(|tls| tls.ca_pem.clone())
    }

    /// Lets it have another certificate authority and another certificate of that, for connections from now on. Those that are
    /// open go on, and so do the client certificates that they have shown.
    ///
    /// # Errors
    ///
    /// No certificate can be made, or it speaks no TLS.
    pub fn rotate_tls(&self) -> io::Result<()> {
        let mut tls = self.shared.tls.lock();
        if tls.is_none() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the server speaks no TLS"));
        }
        *tls = Some(Tls::generate()?);
        Ok(())
    }

    /// Makes a client certificate for a user.
    ///
    /// # Errors
    ///
    /// It cannot be made, or the server speaks no TLS.
    pub fn add_certificate(&self, user: User) -> io::Result<ClientCertificate> {
        let tls = self.shared.tls.lock().clone();
        let tls = tls.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "the server speaks no TLS"))?;
        let certificate = tls.issue(user.name())?;
        self.shared.tokens.insert_certificate(&certificate.der, user);
        Ok(certificate)
    }

    /// Lets a client certificate expire: requests over connections that have shown it get 401. Says whether it was known.
    pub fn expire_certificate(&self, certificate: &ClientCertificate) -> bool {
        self.shared.tokens.remove_certificate(&certificate.der)
    }

    /// What it speaks TLS with, for what speaks TLS in front of it.
    pub(crate) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.shared.tls.lock().as_ref().map(|tls| tls.acceptor.clone())
    }

    /// A token of a user who may read all.
    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// Makes a token for a user.
    pub fn add_user(&self, user: User) -> String {
        let token = format!("{:032x}", self.shared.token_rng.lock().random::<u128>());
        self.shared.tokens.insert(&token, user);
        token
    }

    /// Lets a token stand for a user, whomever it stood for before.
    pub fn set_token(&self, token: &str, user: User) {
        self.shared.tokens.insert(token, user);
    }

    /// Lets a token expire: requests with it get 401. Watches that are open go on, as an API server's do. Says whether it
    /// was known.
    pub fn expire_token(&self, token: &str) -> bool {
        self.shared.tokens.remove(token)
    }

    /// The text of a kubeconfig for a token.
    pub fn kubeconfig(&self, token: &str) -> String {
        kubeconfig::text(&self.url, self.ca_pem().as_deref(), Credential::Token(token))
    }

    /// The text of a kubeconfig that reads its token from a file, which can be rotated with [`write_private`].
    pub fn kubeconfig_with_token_file(&self, token_file: &Path) -> String {
        kubeconfig::text(&self.url, self.ca_pem().as_deref(), Credential::TokenFile(token_file))
    }

    /// Writes a kubeconfig for a token into a file of mode 0600.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write_kubeconfig(&self, path: &Path, token: &str) -> io::Result<()> {
        write_private(path, &self.kubeconfig(token))
    }

    /// Injects a fault; it stays until it is used up, removed or cleared.
    pub fn inject(&self, fault: Fault) -> FaultId {
        self.shared.faults.inject(fault)
    }

    /// Takes a fault back; says whether it was there.
    pub fn remove_fault(&self, id: FaultId) -> bool {
        self.shared.faults.remove(id)
    }

    /// Takes all faults back.
    pub fn clear_faults(&self) {
        self.shared.faults.clear();
    }

    /// Stalls all watches, present and future, or lets them go on: stalled, they stay open and say nothing, not even a
    /// bookmark.
    pub fn stall_watches(&self, stalled: bool) {
        self.shared.control.send_modify(|control| control.stalled = stalled);
    }

    /// Ends all open watches with an `ERROR` event of code 410.
    pub fn expire_watches(&self) {
        self.shared.control.send_modify(|control| control.expired += 1);
    }

    /// Ends all open watches with an `ERROR` event of this code and message.
    pub fn fail_watches(&self, code: u16, message: &str) {
        let failure = Arc::new(Failure { message: message.to_owned(), ..Failure::of_code(code) });
        self.shared.control.send_modify(|control| {
            control.failed += 1;
            control.failure = Some(failure);
        });
    }

    /// Lets everybody read the issuer of service-account tokens and their keys, a JWKS. Before, nobody may: an API server lets
    /// only service accounts.
    pub fn set_token_keys(&self, issuer: &str, jwks: &str) {
        *self.shared.token_keys.lock() = Some((issuer.to_owned(), jwks.to_owned()));
    }

    /// Lets everybody create a `TokenReview`, by which these tokens are those of these users (a `UserInfo`), and no others are anybody's. Before,
    /// nobody may.
    pub fn set_reviewed_tokens(&self, users: impl IntoIterator<Item = (String, serde_json::Value)>) {
        *self.shared.reviewed_tokens.lock() = Some(users.into_iter().collect());
    }

    /// Ends all open watches in good order, as at their timeout.
    pub fn end_watches(&self) {
        self.shared.control.send_modify(|control| control.ended += 1);
    }

    /// Sets what becomes of streaming lists from now on.
    pub fn set_streaming_lists(&self, streaming_lists: StreamingLists) {
        *self.shared.streaming_lists.lock() = streaming_lists;
    }

    /// Cuts all open connections; new ones are accepted.
    pub fn cut_connections(&self) {
        self.shared.connections.cut_all();
    }

    /// Asks the clients of the connections that are open now to leave them, as an API server does before it ends: with GOAWAY
    /// over HTTP/2. What is under way goes on, watches too.
    pub fn drain_connections(&self) {
        self.shared.connections.drain_all();
    }

    /// Stalls the connections that are open now, or lets them go on: stalled, they stay open and pass no byte either way,
    /// as behind a broken link. New connections are not stalled.
    pub fn stall_connections(&self, stalled: bool) {
        self.shared.connections.stall_all(stalled);
    }

    /// Freezes the server, or lets it go on, as SIGSTOP and SIGCONT do: connections stay open and are accepted, and answer
    /// nothing.
    pub fn freeze(&self, frozen: bool) {
        self.shared.connections.freeze(frozen);
    }

    /// Stops listening and cuts all connections, and returns when that is done. Clients are refused until
    /// [`restore`](Self::restore). Without effect during an outage.
    pub async fn outage(&self) {
        let listening = self.listening.lock().take();
        if let Some(listening) = listening {
            listening.stop().await;
        }
    }

    /// Listens again on the same port. Without effect if it listens.
    ///
    /// # Errors
    ///
    /// The port cannot be listened on.
    #[expect(clippy::unused_async, reason = "must be called within a tokio runtime, as `outage`")]
    pub async fn restore(&self) -> io::Result<()> {
        let mut listening = self.listening.lock();
        if listening.is_none() {
            let listener = socket(self.address)?.listen(1024)?;
            *listening = Some(Listening::start(listener, Arc::clone(&self.shared.connections), self.server()));
        }
        Ok(())
    }

    fn server(&self) -> Server {
        Server { shared: Arc::clone(&self.shared), max_concurrent_streams: self.max_concurrent_streams }
    }

    /// A connection without a socket, so that a test can pause tokio's time. It is cut, stalled and drained as the others are.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused` during an outage.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let server = larder_testkit::api_server::ApiServer::start().await?;
    /// let _client = server.connect_in_memory()?;
    /// server.outage().await;
    /// assert_eq!(server.connect_in_memory().unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn connect_in_memory(&self) -> io::Result<DuplexStream> {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        Ok(self.listening.lock().as_ref().ok_or_else(refused)?.connect(self.server()))
    }

    /// Whether it listens.
    pub fn is_up(&self) -> bool {
        self.listening.lock().is_some()
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        let (connections_accepted, connections_open) = self.shared.connections.counts();
        Counts { connections_accepted, connections_open, ..self.shared.log.counts() }
    }

    /// The last [`REQUESTS`] requests, oldest first.
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.shared.log.records()
    }

    /// Forgets the requests and their counts; what is open stays counted.
    pub fn clear_requests(&self) {
        self.shared.log.clear();
    }

    /// Ends it, and waits until all its tasks have ended.
    pub async fn shutdown(self) {
        self.outage().await;
    }
}

/// A socket bound to an address that other sockets of this user may be bound to as well.
fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Serves the connections.
#[derive(Clone)]
struct Server {
    shared: Arc<Shared>,
    max_concurrent_streams: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Serve<S> for Server {
    async fn serve(self, stream: Gated<S>, connection: &Connection, streams: Streams) {
        let (number, cut) = (connection.number, connection.cut.clone());
        let tls = self.shared.tls.lock().clone();
        let service = |certificate: Option<Arc<[u8]>>| {
            service_fn(move |request| {
                handle(Arc::clone(&self.shared), number, cut.clone(), certificate.clone(), request)
            })
        };
        match tls {
            None => serve_http(stream, streams, self.max_concurrent_streams, service(None)).await,
            Some(tls) => match tls.acceptor.accept(stream).await {
                Ok(stream) => {
                    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                    let shown = shown.map(|certificate| Arc::from(certificate.as_ref()));
                    serve_http(stream, streams, self.max_concurrent_streams, service(shown)).await;
                }
                Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
            },
        }
    }
}

async fn handle(
    shared: Arc<Shared>,
    connection: u64,
    cut: CancellationToken,
    certificate: Option<Arc<[u8]>>,
    request: Request<Incoming>,
) -> io::Result<Response<Body>> {
    let (target, understood) = request::parse(request.method(), request.uri());
    let understood = understood.and_then(|asked| request::accepted(asked, request.headers()));
    let user = shared.tokens.authenticate(certificate.as_deref(), request.headers());
    let number = shared.log.asked(&target, &request, user.as_ref().map_or("", User::name), connection);
    let met = shared.faults.meet(&target);
    let distortion = met.as_ref().and_then(|(_, action)| Distortion::of(action));
    let response = match met {
        Some((_, Action::Status { code, message, retry_after })) => {
            let seconds = retry_after.map(|after| after.as_secs() + u64::from(after.subsec_nanos() > 0));
            let usual = Failure::of_code(code);
            let message = message.unwrap_or_else(|| usual.message.clone());
            shared.failed(&Failure { retry_after: seconds, message, ..usual })
        }
        Some((_, Action::Cut)) => {
            cut.cancel();
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "cut on command"));
        }
        met => {
            match met {
                Some((id, Action::Hang)) => shared.faults.removed(id).await,
                Some((_, Action::Slow(by))) => tokio::time::sleep(by).await,
                _ => {}
            }
            if user.is_ok() && echo::is_asked(&request) {
                echo::answer(request)
            } else {
                shared.answer(user, &target, understood, request.into_body(), distortion).await
            }
        }
    };
    shared.log.answered(number, response.status().as_u16());
    Ok(response)
}
