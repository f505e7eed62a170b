//! The connections of the TLS listener.
//!
//! # Guarantees
//!
//! - A connection counts as foreign until its handshake has shown that its client may read, or until a token has shown that the client is a
//!   pod of this node. Clients that do not finish their handshake take no connection from clients that may read.
//! - From its first good token on, a connection counts as one of the token's pod, with those of its containers on the socket: no pod takes a
//!   connection from another, or from admins. Each request counts to the pod of its own token.
//! - The certificate of an admin, or of a client to whom a rule of the policy file shows something, comes first: a token beside it is not looked at.
//! - A connection of a client that larder does not know, and whose requests go to the API server, counts as one of these. So such clients take no
//!   connection from handshakes.
//! - A connection ends with the client's certificate, and when the authorities of clients change.

use super::Connections;
use crate::access::Access;
use crate::admission::Admitted;
use crate::caller::Caller;
use crate::connection::{self, Client};
use crate::error::ApiError;
use crate::handshake;
use crate::listen::{Listen, wall_time};
use crate::metrics::Listener;
use crate::pass_through::{Connected, Passing, Serving};
use crate::token::{self, Places};
use crate::usage::{Identity as Of, InFlight};
use crate::{activity::Activity, app};
use axum::Extension;
use jiff::Timestamp;
use larder_pod_status::PodUid;
use larder_tls::Client as Identity;
use parking_lot::Mutex;
use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

/// How clients of the TLS listener are served.
struct Clients {
    may_read: Client,
    others: Client,
}

/// The place of a connection among those of the pod whose token it shows first.
struct TokenPlaces {
    connections: Arc<Connections>,
    activity: Arc<Activity>,
    /// Whether the connection has that place.
    has_place: Mutex<bool>,
    /// Whether the connection counts as one whose requests are passed on.
    is_passed: Mutex<bool>,
}

impl fmt::Debug for TokenPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenPlaces").finish_non_exhaustive()
    }
}

impl Places for TokenPlaces {
    fn enter(&self, pod: &PodUid) -> Result<InFlight, ApiError> {
        let (connections, identity) = (&self.connections, Of::Pod(pod.clone()));
        let mut has_place = self.has_place.lock();
        if !*has_place {
            let most = connections.most_of(&identity);
            let admitted = connections.admit(
                |open| {
                    let admitted = open.pods.admit(&identity, most, Arc::clone(&self.activity));
                    if !matches!(admitted, Admitted::No) {
                        open.handshakes.release(&self.activity);
                        open.passed.release(&self.activity);
                    }
                    admitted
                },
                Listener::Tls,
            );
            *has_place = admitted.is_some();
        }
        if *has_place { connections.usages.of(&identity).request() } else { Err(ApiError::TooManyConnections) }
    }

    fn enter_unknown(&self) -> Result<(), ApiError> {
        let mut is_passed = self.is_passed.lock();
        if *is_passed || *self.has_place.lock() {
            return Ok(());
        }
        let admitted = self.connections.admit(
            |open| {
                let admitted = open.passed.admit_as(Arc::clone(&self.activity));
                if !matches!(admitted, Admitted::No) {
                    open.handshakes.release(&self.activity);
                }
                admitted
            },
            Listener::Tls,
        );
        *is_passed = admitted.is_some();
        admitted.map(drop).ok_or(ApiError::TooManyConnections)
    }
}

type Failure = Box<dyn Error + Send + Sync>;

impl Connections {
    /// Takes connections until the token is cancelled.
    pub(super) async fn take_tls(
        self: &Arc<Self>,
        listen: Option<&(TcpListener, Arc<Listen>)>,
        passing: Option<Passing>,
    ) {
        let Some((listener, listen)) = listen else { return };
        let client = |router| Client {
            router,
            head_timeout: self.limits.head_timeout,
            stall_timeout: self.limits.stall_timeout,
            drain_timeout: self.limits.drain_timeout,
            most_requests: usize::MAX,
            http2_streams: Some(self.limits.http2_streams),
            usage: None,
            caller: Caller::Anonymous,
        };
        let clients = Arc::new(Clients {
            may_read: client(app::local(&self.app)),
            others: client(token::routes(&self.app, passing)),
        });
        let accepting = async {
            while let Some(accepted) = self.token.run_until_cancelled(listener.accept()).await {
                let Some(stream) = self.accepted(accepted.map(|(stream, _)| stream)).await else { continue };
                // Without room the connection is dropped: an answer needs a handshake.
                if let Some(activity) = self.admit(|open| open.handshakes.admit(), Listener::Tls) {
                    let (this, listen) = (Arc::clone(self), Arc::clone(listen));
                    self.tracker.spawn(this.connected(listen, stream, Arc::clone(&clients), activity));
                }
            }
        };
        tokio::join!(accepting, listen.keep_up_to_date(self.app.node.for_larder(), &self.token));
    }

    async fn connected(
        self: Arc<Self>,
        listen: Arc<Listen>,
        stream: TcpStream,
        clients: Arc<Clients>,
        activity: Arc<Activity>,
    ) {
        self.app.metrics.connection_opened(Listener::Tls);
        if let Err(error) = self.serve_tls(&listen, stream, &clients, activity).await {
            // The client caused it: it went away, was too slow, or does not speak TLS or HTTP.
            tracing::debug!(%error, "connection to --listen ended");
        }
        self.app.metrics.connection_closed(Listener::Tls);
    }

    async fn serve_tls(
        self: &Arc<Self>,
        listen: &Listen,
        stream: TcpStream,
        clients: &Clients,
        activity: Arc<Activity>,
    ) -> Result<(), Failure> {
        handshake::watch_for_silence(&stream, self.limits.stall_timeout)?;
        let peer = stream.peer_addr()?.ip().to_canonical();
        // Before the handshake: authorities that change during it are those of before.
        let generation = listen.generation();
        let handshake =
            tokio::time::timeout(self.limits.handshake_timeout, handshake::accept(listen.tls.config(), stream));
        let mut stream = tokio::select! {
            done = handshake => match done {
                Ok(stream) => stream?,
                Err(_elapsed) => return Err("the client did not finish its handshake in time".into()),
            },
            () = activity.evicted.cancelled() => return Ok(()),
            () = self.token.cancelled() => return Ok(()),
        };
        let now = wall_time(self.app.node.for_larder());
        let identity = listen.tls.identify(stream.get_ref().1.peer_certificates(), now);
        let until = match &identity {
            Identity::Known { until, .. } => Some(left(*until, now)),
            Identity::Refused { .. } | Identity::Anonymous => None,
        };
        let caller = Caller::of_client(identity);
        let may_read = Access::may_any(&self.app, &caller);
        let (client, activity) = if let Some(of) = Of::of(&caller).filter(|_| may_read) {
            let most = self.most_of(&of);
            match self.admit(|open| open.listen.admit(&of, most, Activity::new()), Listener::Tls) {
                Some(own) => (Client { usage: Some(self.usages.of(&of)), ..clients.may_read.clone() }, own),
                None => return turn_away(&mut stream).await,
            }
        } else {
            self.app.metrics.foreign.inc();
            (self.other_client(&clients.others, &activity, peer), activity)
        };
        let client = Client { caller, ..client };
        let ended = CancellationToken::new();
        let mut serving =
            std::pin::pin!(connection::serve(stream, client, activity, self.tracker.clone(), ended.clone()));
        tokio::select! {
            done = serving.as_mut() => return done,
            () = self.token.cancelled() => {}
            () = generation.cancelled() => {}
            () = expired(until) => {}
        }
        ended.cancel();
        serving.await
    }

    /// The time limits and the end of connections that are passed on.
    pub(super) fn serving(&self) -> Serving {
        Serving {
            head_timeout: self.limits.head_timeout,
            stall_timeout: self.limits.stall_timeout,
            drain_timeout: self.limits.drain_timeout,
            tasks: self.tracker.clone(),
            ending: self.token.clone(),
        }
    }

    /// How one client is served that has no certificate of an admin.
    fn other_client(self: &Arc<Self>, others: &Client, activity: &Arc<Activity>, peer: IpAddr) -> Client {
        let connected = Connected { peer, activity: Arc::clone(activity) };
        let (connections, activity) = (Arc::clone(self), Arc::clone(activity));
        let (has_place, is_passed) = (Mutex::default(), Mutex::default());
        let places: Arc<dyn Places> = Arc::new(TokenPlaces { connections, activity, has_place, is_passed });
        let router = others.router.clone().layer(Extension(places)).layer(Extension(connected));
        // Requests with a token have places of their pod, and the others are answered at once. So one connection keeps no other one waiting.
        Client { router, ..others.clone() }
    }
}

/// How long a certificate is valid from now on.
fn left(until: Timestamp, now: Timestamp) -> Duration {
    until.duration_since(now).try_into().unwrap_or(Duration::ZERO)
}

async fn expired(after: Option<Duration>) {
    match after {
        Some(after) => tokio::time::sleep(after).await,
        None => std::future::pending().await,
    }
}

/// Over HTTP/2 the client finds the connection closed.
async fn turn_away(stream: &mut TlsStream<TcpStream>) -> Result<(), Failure> {
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        super::turn_away(stream).await;
    }
    Ok(())
}
