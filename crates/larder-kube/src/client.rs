//! Sends one request to the API server: deadline, credentials of the current session, retry after a renewal, error with its reason.
//!
//! [`fetch`](crate::fetch) and the list-watches call [`KubeClient`]; [`session`](crate::session) supplies connections and credentials.

use crate::availability::Availability;
use crate::connect::{Origin, absolute, without_credentials};
use crate::error::{KubeError, Target, causes};
use crate::fetch::KubeFetch;
use crate::forbidden_grace::ForbiddenGrace;
use crate::list_watch::requests::encode;
use crate::options::KubeOptions;
use crate::pass_through::PassThrough;
use crate::pool::{AGENT, Answer, Body, NoRoom, Transport, is_unconnected};
use crate::session::{Session, Sessions, Why};
use crate::stats::{Counters, KubeStats};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use larder_resource::{DecodeError, Kind, Node};
use serde::Deserialize;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

/// The largest part of an error's body that is read.
const STATUS_BYTES: usize = 64 << 10;

const JSON: &str = "application/json";

/// A client of one API server, with larder's credentials. Clones share the connections.
///
/// # Guarantees
///
/// - *Deadlines*: every request has one that covers the body too; see [`KubeOptions`].
/// - *One attempt*: the client does not retry, except in two cases. It replaces a connection that the server closed before the
///   request was sent. After a 401, or without a connection, it reads the configuration again, and retries once if the
///   configuration or the plugin's credentials have changed.
/// - *Changes take effect*: the client reads the kubeconfig, its files and the pod's service account again when a request
///   fails, and every 10 s otherwise. Requests that fail meanwhile wait for that one read. A new server or certificate needs
///   new connections, and the watches resume on these.
/// - *Plugins*: a credential plugin runs as under client-go, once for all requests that need it. The plugin and its children
///   are killed after [`KubeOptions::plugin_deadline`], and when the last clone of the client is dropped.
/// - *Few connections*: over HTTP/2 all requests and watches share a few, and a stuck one is replaced. See
///   [`KubeOptions::streams_per_connection`] and [`KubeOptions::dead_link_timeout`].
/// - *The kubelet's proxy*: the `proxy-url` of a kubeconfig's cluster (`http`, `https` or `socks5`), else the proxy that
///   [`KubeOptions::proxies`] names for the server.
///
/// # Limits
///
/// Over HTTP/1.1 (no TLS, or a server without HTTP/2) every watch takes a connection. A plugin has no terminal.
///
/// # Example
///
/// ```no_run
/// # let _ = async {
/// use larder_kube::{KubeClient, KubeOptions, NodeCheck};
///
/// let client = KubeClient::from_kubeconfig("/etc/kubernetes/kubelet.conf", None, KubeOptions::default()).await?;
/// match client.check_node("node-1").await? {
///     NodeCheck::Found(node) => println!("{} is there", node.name()),
///     NodeCheck::Unknown(error) => println!("not known yet: {error}"),
/// }
/// # Ok::<(), larder_kube::KubeError>(())
/// # };
/// ```
#[derive(Clone)]
pub struct KubeClient {
    inner: Arc<Inner>,
}

struct Inner {
    sessions: Sessions,
    options: KubeOptions,
    forbidden_grace: ForbiddenGrace,
    availability: Arc<Availability>,
    transport: Transport,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.transport.stop.cancel();
    }
}

/// A request.
#[derive(Clone, Copy)]
struct Ask<'a> {
    method: &'a Method,
    path: &'a str,
    accept: &'static str,
    body: &'a Bytes,
}

/// The result of [`KubeClient::check_node`].
#[derive(Debug)]
pub enum NodeCheck {
    /// The current node.
    Found(Box<Node>),
    /// The server could not be reached or could not answer; the name may be right.
    Unknown(KubeError),
}

impl KubeClient {
    /// A client for the server and user of a kubeconfig's context, by default its `current-context`.
    ///
    /// Sends nothing yet. A credential plugin runs in the background, and the first requests wait for it.
    ///
    /// # Errors
    ///
    /// [`KubeError`] if the kubeconfig, a file that it names or a setting is invalid, with a variant for each cause.
    pub async fn from_kubeconfig(
        path: impl AsRef<Path>,
        context: Option<&str>,
        options: KubeOptions,
    ) -> Result<Self, KubeError> {
        let path = absolute(path.as_ref());
        Self::connect(Origin::Kubeconfig { path, context: context.map(str::to_owned) }, options).await
    }

    /// A client for the API server of the cluster that this process runs in, as the pod's service account.
    ///
    /// # Errors
    ///
    /// [`KubeError::Config`] if this process does not run in a pod with a service account.
    pub async fn in_cluster(options: KubeOptions) -> Result<Self, KubeError> {
        Self::connect(Origin::service_account()?, options).await
    }

    /// A client for a server that asks for no credentials, such as `kubectl proxy`, by its URL.
    ///
    /// ```
    /// use larder_kube::KubeClient;
    /// let client = KubeClient::without_credentials("http://127.0.0.1:8001", Default::default())?;
    /// assert_eq!(&*client.server(), "http://127.0.0.1:8001");
    /// # Ok::<(), larder_kube::KubeError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`KubeError::Config`] for an invalid URL, [`KubeError::InvalidOption`] for an invalid setting.
    pub fn without_credentials(server: &str, options: KubeOptions) -> Result<Self, KubeError> {
        options.validate()?;
        let transport = Transport::new();
        let sessions = Sessions::fixed(without_credentials(server)?, &options, &transport);
        let bad = |problem| KubeError::Config { origin: format!("server {server:?}"), problem };
        Ok(Self::assemble(sessions.map_err(bad)?, options, Arc::default(), transport))
    }

    pub(crate) async fn connect(origin: Origin, options: KubeOptions) -> Result<Self, KubeError> {
        options.validate()?;
        let (transport, availability) = (Transport::new(), Arc::default());
        let sessions = Sessions::kept(origin, &options, &transport, &availability).await?;
        Ok(Self::assemble(sessions, options, availability, transport))
    }

    fn assemble(
        sessions: Sessions,
        options: KubeOptions,
        availability: Arc<Availability>,
        transport: Transport,
    ) -> Self {
        let forbidden_grace = ForbiddenGrace::new(options.forbidden_grace);
        Self { inner: Arc::new(Inner { sessions, options, forbidden_grace, availability, transport }) }
    }

    /// The server's current address and its proxy, for messages.
    pub fn server(&self) -> Arc<str> {
        self.inner.sessions.server()
    }

    /// The problem with the configuration or credentials, and the remedy: unreadable files, a plugin that fails or hangs,
    /// credentials that the server refuses. None if there is no problem. Holds no secret.
    pub fn credentials_problem(&self) -> Option<String> {
        self.inner.sessions.problem()
    }

    /// The settings.
    pub fn options(&self) -> &KubeOptions {
        &self.inner.options
    }

    /// Gauges and counters for metrics.
    pub fn stats(&self) -> KubeStats {
        self.counters().stats()
    }

    /// Reports that the machine has slept. tokio's clock stood still meanwhile, so the client cannot notice the silence by
    /// itself. If the sleep was longer than the silence that a watch tolerates, quiet watches fail until their connections
    /// bring data.
    pub fn note_sleep(&self, slept: Duration) {
        self.inner.transport.slept.send_modify(|total| *total = total.saturating_add(slept));
    }

    /// How long the machine has slept in total.
    pub(crate) fn slept(&self) -> watch::Receiver<Duration> {
        self.inner.transport.slept.subscribe()
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.inner.transport.counters
    }

    /// Reads of objects of a kind, for a store of `larder-objects`. The key of an object outside of namespaces has an empty
    /// namespace.
    pub fn fetcher(&self, kind: impl Into<Kind>) -> KubeFetch {
        KubeFetch::new(self.clone(), kind.into())
    }

    /// A way for the requests of others to the same server, with their own credentials. It carries this many requests at once.
    pub fn pass_through(&self, requests: u32) -> PassThrough {
        PassThrough::new(self.inner.sessions.clone(), &self.inner.options, &self.inner.transport, requests)
    }

    /// Reports a new pod in this namespace, so that a 403 for its objects is retried during [`KubeOptions::forbidden_grace`]. A
    /// [`PodSource`](crate::PodSource) calls this by itself.
    pub fn note_pod(&self, namespace: &str) {
        self.inner.forbidden_grace.note(namespace);
    }

    /// Whether the server serves larder.
    pub(crate) fn availability(&self) -> &Availability {
        &self.inner.availability
    }

    pub(crate) fn set_unavailable(&self, unavailable: bool) {
        self.inner.forbidden_grace.set_unavailable(unavailable);
    }

    pub(crate) fn doubts_forbidden(&self, namespace: &str) -> bool {
        self.inner.forbidden_grace.doubts(namespace)
    }

    /// Checks at the start that the node exists and that larder may read it. An error means that a retry does not help; a
    /// server that does not answer gives [`NodeCheck::Unknown`].
    ///
    /// # Errors
    ///
    /// [`KubeError::WrongNode`] if the server has no such node or refuses these credentials the node (the error names their
    /// user), and [`KubeError::Status`] with 401 if the server rejects the credentials.
    ///
    /// Cancel safe.
    pub async fn check_node(&self, node: &str) -> Result<NodeCheck, KubeError> {
        let target = Target::Node(node.into());
        let path = segment(node).map(|name| format!("/api/v1/nodes/{name}"));
        let path = path.ok_or_else(|| KubeError::InvalidName { target: target.clone() })?;
        let deadline = Instant::now() + self.options().fetch_deadline;
        let error = match self.get(&target, &path, deadline, self.options().max_object_bytes).await {
            Ok(body) => match Node::from_json(&body) {
                Ok(found) if found.name() == node => return Ok(NodeCheck::Found(Box::new(found))),
                Ok(_) => KubeError::decode(target, DecodeError::AnotherObject { field: "metadata.name" }),
                Err(problem) => KubeError::decode(target, problem),
            },
            Err(error) => error,
        };
        match &error {
            KubeError::Status { code: code @ (403 | 404), message, .. } => Err(KubeError::WrongNode {
                node: node.to_owned(),
                // Only the message needs the identity.
                identity: self.identity().await.unwrap_or_default(),
                problem: format!("the API server answered {code}: {message}"),
                code: *code,
            }),
            KubeError::Status { code: 401, .. } => Err(error),
            _ => Ok(NodeCheck::Unknown(error)),
        }
    }

    /// The user that the server sees in larder's credentials, such as `system:node:node-1`.
    ///
    /// # Errors
    ///
    /// [`KubeError`] if the request fails or the response names no user.
    ///
    /// Cancel safe.
    pub async fn identity(&self) -> Result<String, KubeError> {
        #[derive(Deserialize)]
        struct Review {
            status: ReviewStatus,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ReviewStatus {
            user_info: UserInfo,
        }
        #[derive(Deserialize)]
        struct UserInfo {
            username: String,
        }
        let target = Target::Identity;
        let review = Bytes::from_static(br#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#);
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let deadline = Instant::now() + self.options().fetch_deadline;
        let response = self.send(&target, &Method::POST, path, &review, deadline).await?;
        let body = self.collect(&target, response, deadline, STATUS_BYTES).await?;
        let review: Review = serde_json::from_slice(&body).map_err(|error| KubeError::decode(target, error.into()))?;
        Ok(review.status.user_info.username)
    }

    /// A document of the server, such as `/version`, in JSON.
    ///
    /// # Errors
    ///
    /// The server does not answer within [`KubeOptions::fetch_deadline`], or refuses.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn document(&self, path: &'static str) -> Result<Vec<u8>, KubeError> {
        self.document_as(path, JSON).await
    }

    /// As [`document`](Self::document), with this `Accept` header: some documents have a media type of their own.
    ///
    /// # Errors
    ///
    /// As [`document`](Self::document).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn document_as(&self, path: &'static str, accept: &'static str) -> Result<Vec<u8>, KubeError> {
        let (deadline, limit) = (Instant::now() + self.options().fetch_deadline, self.options().max_page_bytes);
        let mut body = self.get_as(&Target::Document(path), path, accept, deadline, limit).await?;
        Ok(std::mem::take(&mut *body))
    }

    /// The body of a GET.
    pub(crate) async fn get(
        &self,
        target: &Target,
        path: &str,
        deadline: Instant,
        limit: usize,
    ) -> Result<Zeroizing<Vec<u8>>, KubeError> {
        self.get_as(target, path, JSON, deadline, limit).await
    }

    /// The body of a GET with this `Accept` header.
    pub(crate) async fn get_as(
        &self,
        target: &Target,
        path: &str,
        accept: &'static str,
        deadline: Instant,
        limit: usize,
    ) -> Result<Zeroizing<Vec<u8>>, KubeError> {
        let ask = Ask { method: &Method::GET, path, accept, body: &Bytes::new() };
        let response = self.ask(target, ask, deadline).await?;
        self.collect(target, response, deadline, limit).await
    }

    /// Sends a request and returns the head of a successful response. Retries once after a renewal of the session.
    pub(crate) async fn send(
        &self,
        target: &Target,
        method: &Method,
        path: &str,
        body: &Bytes,
        deadline: Instant,
    ) -> Result<Response<Answer>, KubeError> {
        self.ask(target, Ask { method, path, accept: JSON, body }, deadline).await
    }

    async fn ask(&self, target: &Target, ask: Ask<'_>, deadline: Instant) -> Result<Response<Answer>, KubeError> {
        let sessions = &self.inner.sessions;
        let session = sessions.current(deadline).await.map_err(|problem| {
            self.inner.availability.lost();
            KubeError::Credentials { target: target.clone(), problem }
        })?;
        let error = match self.attempt(&session, target, ask, deadline).await {
            Ok(answer) => return Ok(answer),
            Err((error, None)) => return Err(error),
            Err((error, Some(why))) => match sessions.newer(&session, why, deadline).await {
                Some(newer) => match self.attempt(&newer, target, ask, deadline).await {
                    Ok(answer) => return Ok(answer),
                    Err((error, _)) => error,
                },
                None => error,
            },
        };
        if error.is_unauthorized() {
            sessions.refused(&error);
        }
        Err(error)
    }

    /// Makes one attempt. The error says why a newer session may help, if one may.
    async fn attempt(
        &self,
        session: &Session,
        target: &Target,
        ask: Ask<'_>,
        deadline: Instant,
    ) -> Result<Response<Answer>, (KubeError, Option<Why>)> {
        let begun = Instant::now();
        let Ask { method, path, accept, body } = ask;
        let mut request = Request::builder().method(method).uri(format!("{}{path}", session.base));
        if let Some(headers) = request.headers_mut() {
            headers.clone_from(&session.headers);
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
            if !body.is_empty() {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
            }
        }
        let request = request
            .body(Body::new(body.clone()))
            .map_err(|_| (KubeError::InvalidName { target: target.clone() }, None))?;
        let response = match timeout_at(deadline, session.pool.send(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let (target, server) = (target.clone(), Arc::clone(&session.server));
                if let Some(NoRoom { setting }) = error.downcast_ref() {
                    return Err((KubeError::NoRoom { target, server, setting }, None));
                }
                self.inner.availability.lost();
                let why = is_unconnected(&error).then_some(Why::Unconnected);
                return Err((KubeError::Transport { target, server, problem: causes(&*error) }, why));
            }
            Err(_) => {
                self.inner.availability.lost();
                self.inner.sessions.failed(Why::Unconnected);
                return Err((self.late(target, deadline - begun), None));
            }
        };
        if response.status().is_success() {
            self.inner.availability.answered();
            self.inner.sessions.served();
            return Ok(response);
        }
        let code = response.status().as_u16();
        let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(seconds);
        // The code counts even if the body is not a readable Status.
        let body = self.collect(target, response, deadline, STATUS_BYTES).await.unwrap_or_default();
        let error = self.refusal(target, code, header, &body);
        if error.is_unavailable() {
            self.inner.availability.lost();
        }
        let why = error.is_unauthorized().then_some(Why::Refused);
        Err((error, why))
    }

    /// The error of a refusing response or of a watch's error event: the texts of its Status without credentials.
    pub(crate) fn refusal(&self, target: &Target, code: u16, retry_after: Option<Duration>, body: &[u8]) -> KubeError {
        #[derive(Deserialize, Default)]
        struct Status {
            kind: String,
            #[serde(default)]
            reason: String,
            #[serde(default)]
            message: String,
            details: Option<Details>,
            code: Option<u16>,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase")]
        struct Details {
            retry_after_seconds: Option<u32>,
        }
        let status: Status = serde_json::from_slice(body).unwrap_or_default();
        let status = if status.kind == "Status" { status } else { Status::default() };
        let asked = status.details.unwrap_or_default().retry_after_seconds.filter(|asked| *asked > 0);
        let asked = retry_after.or_else(|| asked.map(|asked| Duration::from_secs(asked.into())));
        let asked = asked.map(|asked| asked.min(self.options().retry_after_max));
        // A watch's error event has its code only in the Status.
        let code = if code == 200 { status.code.unwrap_or(500) } else { code };
        // Before the message is cut to its longest: half a token is no token to look for.
        let [reason, message] = [status.reason, status.message].map(|text| self.inner.sessions.redacted(text));
        KubeError::status(target.clone(), code, reason, message, asked)
    }

    /// Reads the whole body, up to a limit, into memory that is overwritten when dropped.
    pub(crate) async fn collect(
        &self,
        target: &Target,
        response: Response<Answer>,
        deadline: Instant,
        limit: usize,
    ) -> Result<Zeroizing<Vec<u8>>, KubeError> {
        let begun = Instant::now();
        let too_large = || KubeError::decode(target.clone(), DecodeError::TooLarge { limit });
        let mut body = response.into_body();
        let expected = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if expected > limit {
            return Err(too_large());
        }
        let mut whole = Zeroizing::new(Vec::with_capacity(expected));
        loop {
            let frame = match timeout_at(deadline, body.frame()).await {
                Ok(None) => return Ok(whole),
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return Err(self.cut(target, &error)),
                Err(_) => return Err(self.late(target, deadline - begun)),
            };
            let Ok(data) = frame.into_data() else { continue };
            if data.len() > limit - whole.len() {
                return Err(too_large());
            }
            if data.len() > whole.capacity() - whole.len() {
                // Not `reserve`, which would leave the old buffer without overwriting it.
                let room = (whole.len() + data.len()).max(whole.capacity().saturating_mul(2));
                let mut larger = Zeroizing::new(Vec::with_capacity(room));
                larger.extend_from_slice(&whole);
                whole = larger;
            }
            whole.extend_from_slice(&data);
        }
    }

    /// The error of a response that broke off.
    pub(crate) fn cut(&self, target: &Target, error: &(dyn std::error::Error + 'static)) -> KubeError {
        let problem = format!("the answer broke off: {}", causes(error));
        KubeError::Transport { target: target.clone(), server: self.server(), problem }
    }

    /// The error of a response that missed its deadline.
    pub(crate) fn late(&self, target: &Target, after: Duration) -> KubeError {
        KubeError::Timeout { target: target.clone(), server: self.server(), after: in_millis(after) }
    }

    /// The error of a watch that ended this long ago and has not been reopened.
    pub(crate) fn unwatched(&self, target: &Target, after: Duration) -> KubeError {
        KubeError::Unwatched { target: target.clone(), server: self.server(), after: in_millis(after) }
    }
}

impl fmt::Debug for KubeClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeClient").field("server", &self.server()).finish_non_exhaustive()
    }
}

/// Rounded, for an error's text.
fn in_millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from((time.as_micros() + 500) / 1000).unwrap_or(u64::MAX))
}

/// `Retry-After` in seconds, as API servers send it. For a date, larder's own backoff applies.
fn seconds(header: &str) -> Option<Duration> {
    header.trim().parse::<u32>().ok().map(|asked| Duration::from_secs(asked.into()))
}

/// A name as one segment of a path; none if it is not exactly one. client-go refuses such a name too.
pub(crate) fn segment(name: &str) -> Option<String> {
    let is_segment = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '%']);
    is_segment.then(|| encode(name))
}
