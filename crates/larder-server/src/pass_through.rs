//! Requests that larder does not answer, on their way to the API server with the caller's own token.
//!
//! The clients are those of the TLS listener with `Authorization: Bearer` and without an admin's certificate. [`route`] says which requests are
//! answered here.
//!
//! # Guarantees
//!
//! - *As the caller, never as larder*: the API server gets the caller's token, over connections that have no credentials of larder's
//!   ([`PassThrough`](larder_node::PassThrough)). It decides. larder removes what a proxy in front of the API server could be believed
//!   (`X-Remote-*`), and adds the client's address to `X-Forwarded-For`.
//! - *Never a part for the whole*: where larder would show a part of an object, the API server answers, unless it refuses the caller or is away.
//!   Then larder answers as without pass-through, after [`PATIENCE`] at most, and does not let the caller replace the object by the part ([`refusals`]). A list that is not of
//!   this node alone is never larder's. A list or watch that larder would answer in part is larder's only if the API server has refused it to
//!   the caller: a client would take the rest for deleted.
//! - *Unbuffered*: bodies go on as they come, in both directions. A client that does not read its answer holds up the API server's sending.
//! - *Bounded*: requests and upgrades in all and for each caller ([`places`]); the time to connect and to the head of the answer; the pauses of
//!   the API server within an answer that is no stream; the pauses of a client within its body, and the length of that ([`MOST_BODY`]).
//! - *Not kept*: the token is in no log line, error or metric.
//!
//! # Limits
//!
//! An answer under way does not end with the pod of its token, as answers of larder do: the API server decides. An answer that lasts ends with the
//! daemon, after the drain timeout. Over HTTP/2, a client cannot ask for another protocol (RFC 8441).
//!
//! # Cancel safety
//!
//! If a client goes away, so does its request to the API server.

mod body;
mod error;
mod metrics;
mod options;
mod places;
mod refusals;
mod route;

use crate::access::{Guarded, PodAccess};
use crate::activity::{Activity, Exchange};
use crate::app::App;
use crate::audit;
use crate::cache_status::{CacheStatus, Outcome};
use crate::caller::Caller;
use crate::error::ApiError;
use crate::hop_by_hop::{remove_of_connection, upgrade_of};
use crate::token::TokenPod;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use body::{AnswerBody, Ended, InFlight, Problem, RequestBody};
use error::Asked;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use larder_clock::Timestamp;
use larder_node::{PassError, PassThrough};
use larder_policy::View;
use parking_lot::Mutex;
use places::{Identity, Place, Places, Use};
use refusals::{Known, Refusals};
use route::{First, Held, Route, Why};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use error::PassThroughError;
pub(crate) use metrics::PassMetrics;
pub use options::{PassThroughOptionError, PassThroughOptions};

/// How long the API server may take to begin its answer, and pause within it. It ends its own requests after a minute.
const ANSWER: Duration = Duration::from_secs(65);
/// The same where the answer lasts: as long as the kubelet keeps a silent stream. The log of a silent container may begin as late.
const LASTING_ANSWER: Duration = Duration::from_hours(4);
/// How long the API server may take to begin an answer that larder has, too, and how long larder then does not ask it for one. A server that has
/// frozen would else hold up each read of what is here.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the two sides of an upgraded connection may take to change their protocols.
const HANDOVER: Duration = Duration::from_secs(10);
/// The most bytes of a request's body. The API server takes 3 MiB for an object. What goes on to a pod or a service may be longer, and is not
/// kept here: this bounds only how long one request can send.
const MOST_BODY: u64 = 64 << 20;

/// The path that a client asked for, where the router sees another one.
#[derive(Clone, Debug)]
pub(crate) struct AskedUri(pub(crate) Uri);

/// Marks an answer of the API server. The body of its request may still be passed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassedBack;

/// The connection of a request.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    pub(crate) peer: IpAddr,
    pub(crate) activity: Arc<Activity>,
}

/// The time limits and the end of upgraded connections.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    pub(crate) head_timeout: Duration,
    pub(crate) stall_timeout: Duration,
    pub(crate) drain_timeout: Duration,
    pub(crate) tasks: TaskTracker,
    pub(crate) ending: CancellationToken,
}

/// The way to the API server.
#[derive(Debug)]
pub(crate) struct Passing {
    upstream: PassThrough,
    places: Places,
    refusals: Refusals,
    /// When the API server was last away for a request to which larder had an answer.
    away_since: Mutex<Option<Instant>>,
    app: Arc<App>,
    metrics: PassMetrics,
    serving: Serving,
}

/// Whose a request is, and with which token.
pub(crate) struct Sender {
    identity: Identity,
    token: HeaderValue,
    caller: Caller,
    /// What a pod of this node may see.
    access: Option<Arc<PodAccess>>,
}

impl Sender {
    /// A pod of this node, by its verified token.
    pub(crate) fn pod(pod: &Arc<TokenPod>, token: &str) -> Option<Self> {
        Some(Self {
            identity: Identity::Pod(pod.runtime_uid()),
            token: bearer(token)?,
            caller: Caller::Token(Arc::clone(pod)),
            access: Some(Arc::clone(&pod.access)),
        })
    }

    /// Anybody else with a token.
    pub(crate) fn other(connected: &Connected, token: &str, caller: Caller) -> Option<Self> {
        Some(Self { identity: Identity::Address(connected.peer), token: bearer(token)?, caller, access: None })
    }
}

/// The header of a token; `None` for what no header can have.
fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A pod that asks.
pub(crate) struct AskingPod<'a> {
    pub(crate) uid: &'a str,
    pub(crate) view: &'a View,
    pub(crate) node: &'a Guarded,
}

impl Passing {
    pub(crate) fn new(upstream: PassThrough, options: &PassThroughOptions, app: Arc<App>, serving: Serving) -> Self {
        let (places, refusals) = (Places::new(options), Refusals::new());
        let metrics = app.metrics.pass_through.clone();
        metrics.turn_on();
        Self { upstream, places, refusals, away_since: Mutex::default(), app, metrics, serving }
    }

    /// Whether a path is larder's own, whoever asks.
    pub(crate) fn is_own(path: &str) -> bool {
        route::is_own(path)
    }

    /// Answers a pod of this node, here or by the API server. `here` answers as larder does without pass-through.
    pub(crate) async fn answer<F>(
        &self,
        request: Request,
        sender: &Sender,
        pod: AskingPod<'_>,
        here: impl Fn(Request) -> F,
    ) -> Response
    where
        F: Future<Output = Response>,
    {
        let route = Route::of(request.method(), request.uri(), pod.view, pod.node.for_larder().name());
        match route {
            // Only the API server knows whether the caller may, and what the other user sees.
            Route::Here(_) | Route::ServerFirst(_) if impersonates(request.headers()) => {
                self.pass_or_refuse(request, sender, Why::Caller).await
            }
            Route::Own => here(request).await,
            Route::Here(held) => {
                let is_held = match &held {
                    Held::AsAnswered => true,
                    Held::Object(subject) => pod.node.holds(subject.kind, &subject.namespace, &subject.name).await,
                };
                if !is_held {
                    return self.pass_or_refuse(request, sender, Why::NotHeld).await;
                }
                let own = here(copy_of(&request)).await;
                if own.status().is_success() {
                    return own;
                }
                match self.pass(request, sender, Why::NotHeld).await {
                    Err(ApiError::PassThrough(error)) if error.is_away() => own,
                    passed => passed.unwrap_or_else(ApiError::into_response),
                }
            }
            Route::ServerFirst(first) => self.server_first(request, sender, pod.uid, &first, here).await,
            Route::Server(why) => {
                let is_of_part = route::replaced(request.method(), request.uri().path())
                    .is_some_and(|subject| self.refusals.gave_part(pod.uid, &subject));
                if is_of_part {
                    return ApiError::from(PassThroughError::OfPart).into_response();
                }
                self.pass_or_refuse(request, sender, why).await
            }
        }
    }

    /// Answers by the API server, and as larder does without pass-through where the API server refuses or is away.
    async fn server_first<F>(
        &self,
        request: Request,
        sender: &Sender,
        pod: &str,
        first: &First,
        here: impl Fn(Request) -> F,
    ) -> Response
    where
        F: Future<Output = Response>,
    {
        let (why, known) = match first {
            First::Document => (Why::Discovery, Known::Nothing),
            First::Part(verb, subject) => (Why::Part, self.refusals.known(pod, *verb, subject)),
        };
        let copy = copy_of(&request);
        let may_fall_back = may_fall_back_when_away(first, known);
        let is_away = may_fall_back && self.away_since.lock().is_some_and(|since| since.elapsed() < PATIENCE);
        let is_asked_first = known == Known::Refused || is_away;
        if is_asked_first && let Some(own) = self.part(copy_of(&request), pod, first, &here).await {
            return own;
        }
        let patience = if may_fall_back { PATIENCE } else { ANSWER };
        let passed = self.pass_within(patience, request, sender, why).await;
        let falls_back = match (&passed, first) {
            (Ok(answer), First::Part(verb, subject)) if is_refusal(answer) => {
                self.refusals.refused(pod, *verb, subject);
                true
            }
            (Ok(answer), _) if is_refusal(answer) => true,
            (Ok(answer), First::Part(verb, subject)) if answer.status().is_success() => {
                self.refusals.answered(pod, *verb, subject);
                false
            }
            (Ok(answer), _) => answer.status().is_server_error() && may_fall_back,
            (Err(ApiError::PassThrough(error)), _) => error.is_away() && may_fall_back,
            (Err(_), _) => false,
        };
        let is_away = falls_back && !passed.as_ref().is_ok_and(is_refusal);
        *self.away_since.lock() = is_away.then(Instant::now);
        // Each time that larder answers, it counts a decision.
        if falls_back
            && !is_asked_first
            && let Some(own) = self.part(copy, pod, first, &here).await
        {
            return own;
        }
        passed.unwrap_or_else(ApiError::into_response)
    }

    /// What larder answers itself; `None` if it has no answer either.
    async fn part<F>(
        &self,
        request: Request,
        pod: &str,
        first: &First,
        here: &impl Fn(Request) -> F,
    ) -> Option<Response>
    where
        F: Future<Output = Response>,
    {
        let own = here(request).await;
        if !own.status().is_success() {
            return None;
        }
        if let First::Part(_, subject) = first
            && !subject.name.is_empty()
            && !self.refusals.gives_part(pod, subject)
        {
            return None;
        }
        self.metrics.fell_back();
        Some(own)
    }

    /// The API server's answer, or why there is none.
    pub(crate) async fn pass_other(&self, request: Request, sender: &Sender) -> Response {
        self.pass_or_refuse(request, sender, Why::Caller).await
    }

    async fn pass_or_refuse(&self, request: Request, sender: &Sender, why: Why) -> Response {
        self.pass(request, sender, why).await.unwrap_or_else(ApiError::into_response)
    }

    async fn pass(&self, request: Request, sender: &Sender, why: Why) -> Result<Response, ApiError> {
        self.pass_within(ANSWER, request, sender, why).await
    }

    /// Passes a request on, whose answer has to begin in that time if it does not last.
    async fn pass_within(
        &self,
        patience: Duration,
        mut request: Request,
        sender: &Sender,
        why: Why,
    ) -> Result<Response, ApiError> {
        if let Some(AskedUri(uri)) = request.extensions_mut().remove() {
            *request.uri_mut() = uri;
        }
        let audited = audit::Asked::of(&request);
        self.app.passed_on(&sender.caller, sender.access.as_deref(), audited, why.as_str());
        let answer = match upgrade_of(request.headers()).filter(|_| request.version() == Version::HTTP_11) {
            Some(protocol) => self.upgrade(request, sender, protocol).await,
            None => self.forward(request, sender, patience).await,
        };
        self.metrics.passed(why, &answer);
        let mut answer = answer?;
        answer.extensions_mut().insert(PassedBack);
        if let Ok(value) = HeaderValue::from_str(&CacheStatus::new(Outcome::Passed).to_string()) {
            answer.headers_mut().append("cache-status", value);
        }
        Ok(answer)
    }

    async fn forward(
        &self,
        mut request: Request,
        sender: &Sender,
        patience: Duration,
    ) -> Result<Response, PassThroughError> {
        let asked = Asked::of(request.method(), request.uri());
        let place = self.enter(sender, Use::Request, &asked)?;
        let lasts = route::lasts(request.uri());
        prepare(&mut request, sender);
        let too_large = |asked| PassThroughError::TooLarge { asked, most: MOST_BODY };
        if hyper::body::Body::size_hint(request.body()).lower() > MOST_BODY {
            return Err(too_large(asked));
        }
        let mut ended = Ended::default();
        let request = request.map(|body| {
            let (body, of_body) = RequestBody::new(body, MOST_BODY, self.serving.stall_timeout);
            ended = of_body;
            body
        });
        let in_flight = InFlight::new(self.metrics.in_flight(Use::Request));
        // The head of a watch comes at once, and larder may have one, too.
        let after = if lasts && patience == ANSWER { LASTING_ANSWER } else { patience };
        let answer = match tokio::time::timeout(after, self.upstream.send(request, lasts)).await {
            Err(_elapsed) => return Err(self.late(asked, after)),
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                return Err(match ended.get() {
                    Some(Problem::TooLarge) => too_large(asked),
                    Some(Problem::Late) => PassThroughError::LateBody { asked, after: self.serving.stall_timeout },
                    Some(Problem::Cut) => PassThroughError::CutBody { asked },
                    None => self.failed(error, asked, sender),
                });
            }
        };
        let pause = (!lasts).then_some(ANSWER);
        Ok(passed_back(answer.map(Body::new), pause, place, in_flight))
    }

    async fn upgrade(
        &self,
        mut request: Request,
        sender: &Sender,
        protocol: HeaderValue,
    ) -> Result<Response, PassThroughError> {
        let asked = Asked::of(request.method(), request.uri());
        let place = self.enter(sender, Use::Upgrade, &asked)?;
        let in_flight = InFlight::new(self.metrics.in_flight(Use::Upgrade));
        let client = hyper::upgrade::on(&mut request);
        let connected = request.extensions().get::<Connected>().cloned();
        prepare(&mut request, sender);
        change_protocol(request.headers_mut(), protocol);
        let answer = match tokio::time::timeout(ANSWER, self.upstream.upgrade(request)).await {
            Err(_elapsed) => return Err(self.late(asked, ANSWER)),
            Ok(answer) => answer.map_err(|error| self.failed(error, asked, sender))?,
        };
        let protocol = upgrade_of(answer.headers());
        let (Some(protocol), Some(connected), StatusCode::SWITCHING_PROTOCOLS) = (protocol, connected, answer.status())
        else {
            return Ok(passed_back(answer.map(Body::new), Some(ANSWER), place, in_flight));
        };
        let mut answer = answer;
        let server = hyper::upgrade::on(&mut answer);
        let (serving, exchange) = (self.serving.clone(), Exchange::begin(Arc::clone(&connected.activity)));
        self.serving.tasks.spawn(async move {
            let both = async { tokio::try_join!(client, server) };
            match tokio::time::timeout(HANDOVER, both).await {
                Ok(Ok((client, server))) => copy(client, server, &connected.activity, &serving).await,
                Ok(Err(error)) => tracing::debug!(%error, "a connection that is passed on did not change its protocol"),
                Err(_elapsed) => tracing::debug!("a connection that is passed on did not change its protocol in time"),
            }
            drop((exchange, place, in_flight));
        });
        let mut answer = answer.map(|_| Body::empty());
        remove_of_connection(answer.headers_mut());
        change_protocol(answer.headers_mut(), protocol);
        Ok(answer)
    }

    fn late(&self, asked: Asked, after: Duration) -> PassThroughError {
        self.metrics.unanswered(self.now(), format!("no answer within {after:?}"));
        PassThroughError::Late { asked, after }
    }

    fn failed(&self, error: PassError, asked: Asked, sender: &Sender) -> PassThroughError {
        if !matches!(error, PassError::NoRoom) {
            self.metrics.unanswered(self.now(), error.to_string());
        }
        PassThroughError::of(error, asked, sender.knows())
    }

    fn now(&self) -> Timestamp {
        self.app.node.for_larder().now()
    }

    fn enter(&self, sender: &Sender, to_use: Use, asked: &Asked) -> Result<Place, PassThroughError> {
        let place = self.places.enter(&sender.identity, to_use);
        place.ok_or_else(|| PassThroughError::TooMany { asked: asked.clone() })
    }
}

impl Sender {
    /// Whether it may learn where the API server is.
    const fn knows(&self) -> bool {
        matches!(self.identity, Identity::Pod(_))
    }
}

/// Whether larder may answer because the API server is away. A client would take what a list or watch of larder's leaves out for deleted.
fn may_fall_back_when_away(first: &First, known: Known) -> bool {
    match first {
        First::Document | First::Part(larder_policy::Verb::Get, _) => true,
        First::Part(larder_policy::Verb::List | larder_policy::Verb::Watch, _) => known != Known::Nothing,
    }
}

/// Whether a request is to be judged as one of another user.
fn impersonates(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with("impersonate-"))
}

fn is_refusal(answer: &Response) -> bool {
    matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// The same read, without its body.
fn copy_of(request: &Request) -> Request {
    let mut copy = Request::new(Body::empty());
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    *copy.version_mut() = request.version();
    copy.headers_mut().clone_from(request.headers());
    copy.extensions_mut().clone_from(request.extensions());
    copy
}

/// Makes a request one of the caller to the API server.
fn prepare(request: &mut Request, sender: &Sender) {
    let peer = request.extensions().get::<Connected>().map(|connected| connected.peer);
    if let Some(path) = request.uri().path_and_query().cloned() {
        *request.uri_mut() = Uri::from(path);
    }
    let headers = request.headers_mut();
    if headers.contains_key(header::TRANSFER_ENCODING) {
        // Only one of the two can be true (RFC 9112, 6.3).
        headers.remove(header::CONTENT_LENGTH);
    }
    remove_of_connection(headers);
    let trusted: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-remote-")).cloned().collect();
    for name in trusted.iter().chain(&[header::EXPECT, header::HOST, header::PROXY_AUTHORIZATION]) {
        headers.remove(name);
    }
    if let Some(peer) = peer {
        let name = HeaderName::from_static("x-forwarded-for");
        let before: Vec<_> = headers.get_all(&name).iter().filter_map(|value| value.to_str().ok()).collect();
        let all = before.into_iter().map(str::to_owned).chain([peer.to_string()]).collect::<Vec<_>>().join(", ");
        if let Ok(value) = HeaderValue::from_str(&all) {
            headers.insert(name, value);
        }
    }
    headers.insert(header::AUTHORIZATION, sender.token.clone());
}

fn change_protocol(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

/// An answer as the caller gets it.
fn passed_back(answer: Response, pause: Option<Duration>, place: Place, in_flight: InFlight) -> Response {
    let (mut parts, body) = answer.into_parts();
    remove_of_connection(&mut parts.headers);
    let mut response =
        Response::new(Body::new(AnswerBody { body, pause, late: None, _place: place, _in_flight: in_flight }));
    (*response.status_mut(), *response.headers_mut()) = (parts.status, parts.headers);
    response
}

/// Copies between the client and the API server until one of them ends it, the client does not read, or the daemon ends.
async fn copy(
    client: hyper::upgrade::Upgraded,
    server: hyper::upgrade::Upgraded,
    activity: &Activity,
    serving: &Serving,
) {
    let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
    tokio::select! {
        ended = copy_bidirectional(&mut client, &mut server) => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection that is passed on ended");
            }
        }
        () = activity.evicted.cancelled() => {}
        overdue = activity.overdue(serving.head_timeout, serving.stall_timeout) => {
            tracing::debug!(?overdue, "closing a connection that is passed on: its client does not read");
        }
        () = async {
            serving.ending.cancelled().await;
            tokio::time::sleep(serving.drain_timeout).await;
        } => {}
    }
}
