//! Requests with the service-account token of a pod: whose they are, what they see, and until when.
//!
//! # Guarantees
//!
//! - *Of the request*: a token counts for the request that has it, and for no other request of the connection.
//! - *As the pod is now*: each request looks at today's pod, with the token's UID and service account, and at its containers that have
//!   not ended. What these mount, or have in their environment, is what the token shows.
//! - *Ended is closed*: an answer under way, such as a watch, ends when the token would no longer be taken, or would show something else: the
//!   pod has gone, was deleted a minute ago or made again, one of its containers has ended whose keys no other one has, or the token has expired.
//! - *Not kept*: a token is dropped once it is verified. No log line, error or metric has it.
//!
//! # Limits
//!
//! The times of a token have a minute of leeway ([`LEEWAY`]), as at the API server.

use crate::access::PodAccess;
use crate::app::{self, App};
use crate::audit::{Asked, verb_of};
use crate::caller::Caller;
use crate::error::ApiError;
use crate::freshness::generated;
use crate::pass_through::{AskingPod, Connected, Passing, Sender};
use crate::usage::InFlight;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request, State};
use axum::middleware::map_response;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, header};
use hyper::body::{Body as _, Frame, SizeHint};
use jiff::{SignedDuration, Timestamp};
use larder_node::{ReadError, TokenCheckError};
use larder_pod_status::PodUid;
use larder_policy::Subject;
use larder_resource::Pod;
use larder_token::{Bound, LEEWAY, PodNow, TokenError};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::ServiceExt as _;

/// How long the runtime may take to tell of the containers of a pod whose token is shown.
const CONTAINERS: Duration = Duration::from_secs(5);

/// A pod whose token a request has. Everything but the token's claims is as of the request.
#[derive(Debug)]
pub(crate) struct TokenPod {
    bound: Bound,
    pod: Arc<Pod>,
    live: BTreeSet<String>,
    pub(crate) access: Arc<PodAccess>,
    /// When the pod's deletion ends the token.
    ends: Timestamp,
}

/// Why a token is refused.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum TokenRefusal {
    /// It is not valid. Whoever shows it may be anybody, so that nothing here is named.
    #[error("the token is refused: {}", .0.in_short())]
    Invalid(TokenError),
    /// It is valid, and not of a pod of this node.
    #[error("the token is of no pod of this node: {}", .0.in_short())]
    Elsewhere(TokenError),
    /// No container of its pod runs.
    #[error("pod \"{0}\" may not read from larder any more: its containers have ended")]
    Ended(String),
    /// What it shows has changed.
    #[error("what pod \"{0}\" may see has changed: ask again")]
    Changed(String),
    /// larder has no keys yet.
    #[error("larder does not know the keys yet that verify tokens: `larder status` on the node says why")]
    NoKeys,
    /// larder runs without keys.
    #[error("this larder takes no tokens: show a client certificate")]
    Off,
    /// The pods, or their containers, are not known yet. The reason may name a server, and the pod of the token may be on another node.
    #[error("the pods of this node, or their containers, are not known yet")]
    NotKnown,
    /// larder does not know which containers live.
    #[error("this larder runs without a container runtime, and so takes no tokens")]
    NoRuntime,
    /// The pod cannot be read.
    #[error("the pod of the token cannot be read")]
    Unreadable,
}

impl TokenRefusal {
    fn of(error: TokenError) -> Self {
        if error.may_hold_elsewhere() { Self::Elsewhere(error) } else { Self::Invalid(error) }
    }

    /// A word from a bounded set, for a label of metrics.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(error) | Self::Elsewhere(error) => error.reason(),
            Self::Ended(_) => "containers-ended",
            Self::Changed(_) => "changed",
            Self::NoKeys => "no-keys",
            Self::Off => "off",
            Self::NotKnown => "not-known",
            Self::NoRuntime => "no-runtime",
            Self::Unreadable => "unreadable-pod",
        }
    }
}

impl From<TokenCheckError> for TokenRefusal {
    fn from(error: TokenCheckError) -> Self {
        match error {
            TokenCheckError::Refused(error) => Self::of(error),
            TokenCheckError::Off => Self::Off,
            _ => Self::NoKeys,
        }
    }
}

impl From<ReadError> for TokenRefusal {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotServed { .. } => Self::NoRuntime,
            _ => Self::NotKnown,
        }
    }
}

impl TokenPod {
    /// The pod of a token that is shown now.
    async fn of(app: &App, token: &str) -> Result<Self, TokenRefusal> {
        let bound = app.node.for_larder().verify_token(token).await?;
        Self::now(app, bound, CONTAINERS).await
    }

    /// The pod of a verified token as it is now. It waits that long for a first container.
    async fn now(app: &App, bound: Bound, wait: Duration) -> Result<Self, TokenRefusal> {
        let node = app.node.for_larder();
        let now = app.node.clock().wall_now();
        if bound.has_expired(now) {
            return Err(TokenRefusal::Invalid(TokenError::Expired { at: bound.expires }));
        }
        let pod = match node.get_pod(&bound.namespace, &bound.pod.name) {
            Ok(answer) => answer.object,
            Err(error) if error.is_not_found() => {
                let pod = format!("{}/{}", bound.namespace, bound.pod.name);
                return Err(TokenRefusal::of(TokenError::PodGone { pod }));
            }
            Err(error) => return Err(error.into()),
        };
        let typed = pod.typed().map_err(|_| TokenRefusal::Unreadable)?;
        let account = typed.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref()).unwrap_or_default();
        let deletion = typed.metadata.deletion_timestamp.as_ref().map(|at| at.0);
        let pod_now = PodNow { uid: pod.uid(), service_account: account, deletion };
        bound.check_pod(Some(pod_now), now).map_err(TokenRefusal::of)?;
        let live = node.live_containers(&PodUid::from(pod.runtime_uid()), wait).await?;
        if live.is_empty() {
            return Err(TokenRefusal::Ended(format!("{}/{}", pod.namespace(), pod.name())));
        }
        let access = PodAccess::of(&app.policy.current(), &pod, |name| live.contains(name));
        let access = Arc::new(access.map_err(|_| TokenRefusal::Unreadable)?);
        let ends = deletion.map_or(bound.expires, |at| at.min(bound.expires));
        Ok(Self { bound, pod, live, access, ends })
    }

    /// Waits until the token would be refused, or would show something else, and says why.
    async fn ended(self: Arc<Self>, app: Arc<App>) -> TokenRefusal {
        let mut this = self;
        loop {
            let left = this.ends.saturating_add(LEEWAY).unwrap_or(Timestamp::MAX);
            // A moment later, so that the time has come by the clock that decides.
            let left = left.duration_since(app.node.clock().wall_now()).saturating_add(SignedDuration::from_millis(5));
            tokio::select! {
                () = app.node.for_larder().pod_changed(&this.pod, &this.live) => {}
                () = tokio::time::sleep(left.try_into().unwrap_or(Duration::ZERO)) => {}
            }
            match Self::now(&app, this.bound.clone(), Duration::ZERO).await {
                Ok(now) if now.access.shows_the_same_as(&this.access) => this = Arc::new(now),
                Ok(now) => return TokenRefusal::Changed(now.to_string()),
                Err(refusal) => return refusal,
            }
        }
    }

    /// The UID by which the container runtime knows the pod.
    pub(crate) fn runtime_uid(&self) -> PodUid {
        PodUid::from(self.pod.runtime_uid())
    }
}

impl fmt::Display for TokenPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bound.namespace, self.bound.pod.name)
    }
}

/// Counts a connection as one of the pod whose token it has shown, and a request as one of that pod.
pub(crate) trait Places: Send + Sync + fmt::Debug {
    /// A place for a request of the pod that the runtime knows by this UID.
    ///
    /// # Errors
    ///
    /// The pod has as many connections, or requests, as it may have.
    fn enter(&self, pod: &PodUid) -> Result<InFlight, ApiError>;

    /// Counts the connection as one of a client that larder does not know, and whose requests go to the API server.
    ///
    /// # Errors
    ///
    /// There are as many as there may be.
    fn enter_unknown(&self) -> Result<(), ApiError>;
}

struct Routes {
    app: Arc<App>,
    local: Router,
    strangers: Router,
    /// The way of what larder does not answer, if pass-through is on.
    passing: Option<Passing>,
}

/// The routes of clients of the TLS listener without an admin's certificate: the local API for pods with a token, and for others what
/// [strangers](app::strangers) get. With pass-through, what larder does not answer goes to the API server.
pub(crate) fn routes(app: &Arc<App>, passing: Option<Passing>) -> Router {
    let routes = Routes { app: Arc::clone(app), local: app::local(app), strangers: app::strangers(app), passing };
    Router::new().fallback(dispatch).layer(map_response(generated)).with_state(Arc::new(routes))
}

async fn dispatch(
    State(routes): State<Arc<Routes>>,
    places: Option<Extension<Arc<dyn Places>>>,
    mut request: Request,
) -> Response {
    let app = &routes.app;
    let Some(token) = take_bearer(request.headers_mut()) else { return call(&routes.strangers, request).await };
    let token = match token {
        Ok(token) => token,
        Err(error) => {
            let refusal = TokenRefusal::Invalid(error);
            let reason = refusal.reason();
            return refuse(&routes, request, Caller::RefusedToken(Arc::new(refusal)), reason).await;
        }
    };
    let pod = match TokenPod::of(app, &token).await {
        Ok(pod) => Arc::new(pod),
        Err(refusal) => return pass_or_refuse(&routes, places, request, &token, refusal).await,
    };
    let place = match places.map(|Extension(places)| places.enter(&pod.runtime_uid())).transpose() {
        Ok(place) => place.map(Arc::new),
        Err(full) => return full.into_response(),
    };
    let here = |request| answer_here(&routes, request, &pod, place.clone());
    let sender = Sender::pod(&pod, &token);
    let (Some(passing), Some(sender)) = (&routes.passing, sender) else { return here(request).await };
    let view = app.policy.current().view(&Subject::Pod(Arc::clone(&pod.access.subject)));
    let asking = AskingPod { uid: &pod.access.subject.uid, view: &view, node: &app.node };
    passing.answer(request, &sender, asking, here).await
}

/// Answers a pod as larder does without pass-through.
async fn answer_here(
    routes: &Routes,
    mut request: Request,
    pod: &Arc<TokenPod>,
    place: Option<Arc<InFlight>>,
) -> Response {
    let app = &routes.app;
    if let Some(place) = &place {
        request.extensions_mut().insert(place.usage().clone());
    }
    request.extensions_mut().insert(Caller::Token(Arc::clone(pod)));
    let (verb, path) = (verb_of(request.method()), request.uri().path().to_owned());
    let mut ended = Box::pin(noted_end(Arc::clone(app), Arc::clone(pod), verb, path));
    let response = tokio::select! {
        biased;
        response = call(&routes.local, request) => response,
        refusal = &mut ended => return Caller::RefusedToken(Arc::new(refusal)).refusal().into_response(),
    };
    // What has a length is whole already.
    let mut response = match response.body().size_hint().exact() {
        Some(_) => response,
        None => response.map(|body| Body::new(EndingBody { body, ended })),
    };
    // The connection holds the place until the answer has ended.
    if let Some(place) = place {
        response.extensions_mut().insert(place);
    }
    response
}

/// Waits until the token of a request would be refused, or would show something else, and notes that.
async fn noted_end(app: Arc<App>, pod: Arc<TokenPod>, verb: &'static str, path: String) -> TokenRefusal {
    let refusal = Arc::clone(&pod).ended(Arc::clone(&app)).await;
    app.refused_token(&Caller::Token(pod), Asked { verb, path: &path }, refusal.reason());
    refusal
}

async fn call(router: &Router, request: Request) -> Response {
    let answer: Result<Response, Infallible> = router.clone().oneshot(request).await;
    answer.unwrap_or_else(|never| match never {})
}

/// Passes on the request of a client whose token larder does not take, or answers as to a stranger.
async fn pass_or_refuse(
    routes: &Routes,
    places: Option<Extension<Arc<dyn Places>>>,
    request: Request,
    token: &str,
    refusal: TokenRefusal,
) -> Response {
    let reason = refusal.reason();
    let caller = Caller::RefusedToken(Arc::new(refusal));
    let connected = request.extensions().get::<Connected>();
    let sender = connected.and_then(|connected| Sender::other(connected, token, caller.clone()));
    match (&routes.passing, sender) {
        (Some(passing), Some(sender)) if !Passing::is_own(request.uri().path()) => {
            routes.app.metrics.refused_token(reason);
            tracing::debug!(reason, "a token is left to the API server");
            if let Some(Err(full)) = places.map(|Extension(places)| places.enter_unknown()) {
                return full.into_response();
            }
            passing.pass_other(request, &sender).await
        }
        _ => refuse(routes, request, caller, reason).await,
    }
}

/// Answers as to a stranger, who may ask whether larder is ready.
async fn refuse(routes: &Routes, mut request: Request, caller: Caller, reason: &'static str) -> Response {
    routes.app.refused_token(&caller, Asked::of(&request), reason);
    request.extensions_mut().insert(caller);
    call(&routes.strangers, request).await
}

/// Takes the token out of the headers, so that nothing further on has it; `None` without one.
fn take_bearer(headers: &mut HeaderMap) -> Option<Result<String, TokenError>> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (first, more) = (values.next()?, values.next().is_some());
    let malformed = |problem| Some(Err(TokenError::Malformed(problem)));
    let Ok(text) = first.to_str() else { return malformed("it is not ASCII") };
    let (scheme, token) = text.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    if more {
        return malformed("there are several");
    }
    let token = token.trim().to_owned();
    headers.remove(header::AUTHORIZATION);
    Some(Ok(token))
}

/// The body of an answer that ends with the token.
struct EndingBody {
    body: Body,
    ended: Pin<Box<dyn Future<Output = TokenRefusal> + Send>>,
}

impl hyper::body::Body for EndingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(refusal) = self.ended.as_mut().poll(context) {
            // The client learns that the answer is not whole.
            return Poll::Ready(Some(Err(axum::Error::new(refusal))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_refusal_of_a_pod_that_is_not_known_names_no_server() {
        let (why, retry_after) = ("https://192.0.2.1:6443 does not answer".to_owned(), Duration::from_secs(1));
        let refusal = TokenRefusal::from(ReadError::Unknown { what: "pods".to_owned(), why, retry_after });
        let answer = ApiError::RefusedToken(Arc::new(refusal));
        assert_eq!((answer.code().as_u16(), answer.to_string().contains("192.0.2.1")), (503, false), "{answer}");
        let without = ReadError::NotServed { what: "containers".to_owned(), why: "without a container runtime" };
        assert_eq!(ApiError::RefusedToken(Arc::new(without.into())).code().as_u16(), 501);
    }

    #[test]
    fn a_token_is_taken_out_of_the_headers() {
        for (values, expected) in [
            (&["Bearer a.b.c"][..], Some(Some("a.b.c"))),
            (&["bearer   a.b.c "], Some(Some("a.b.c"))),
            (&["Basic YTpi"], None),
            (&["Bearer"], None),
            (&[], None),
            (&["Bearer a.b.c", "Bearer d.e.f"], Some(None)),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
            }
            let taken = take_bearer(&mut headers);
            let taken = taken.as_ref().map(|token| token.as_deref().ok());
            assert_eq!(taken, expected, "{values:?}");
            assert!(taken.flatten().is_none() || headers.is_empty(), "{values:?}");
        }
    }
}
