//! What the caller of a request may see, and the only way to what the node holds.
//!
//! The router resolves an [`Access`] for each request, from the caller of the connection and from the caller's pod as it is now. A handler
//! takes a [`Reader`], which the router makes of this access. The reader decides each read with the caller's
//! [`View`](larder_policy::View), and gives only the part of an object that the caller may see.
//!
//! # Guarantees
//!
//! - *No way around*: a handler gets no [`Node`]. [`Guarded`] gives it only to a reader, and to larder's own work. A route without an access
//!   answers nobody.
//! - *Alike*: the refusal of an object depends on its kind and name alone, and not on whether the object exists. It comes before any read.
//! - *As ever for admins*: who sees all gets the objects of the cache themselves, without a copy.
//! - *Today's view*: each request is judged when it arrives. An open watch is judged again when the policy changes and before each event: once
//!   its caller sees something else, the watch ends with 410, and the client lists again.
//! - *Only the same pod*: a container sees pods of its own pod's name only if they have the UID by which the runtime knows its pod.
//! - *Either way*: the pods of the API server and the pods as this node knows them ([`PodsOf`]) are decided on alike.
//!
//! # Limits
//!
//! A caller sees versions of lists and bookmarks, which move when objects change that it does not see. A gap in the lifecycle events counts
//! the events of all pods.

use crate::app::App;
use crate::audit::Asked;
use crate::caller::{Caller, Container};
use crate::error::ApiError;
use crate::freshness::AnswerFreshness;
use crate::kube_api::READ_TIMEOUT;
use crate::usage::{Held, Usage, Watching};
use axum::extract::FromRequestParts;
use http::request;
use larder_clock::Timestamp;
use larder_node::{
    Answer, Check, FetchedDocument, Node, ObjectKind, ObjectList, PodList, ReadError, Report, ReportedNames,
    ServerDocument,
};
use larder_objects::ObjectKey;
use larder_policy::{Decision, Document, Extent, PodSubject, Policy, Subject, Target, Verb, View, restrict};
use larder_resource::journal::Resource;
use larder_resource::{DecodeError, Kind, KubeObject, Pod};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

mod journal;
mod pod_status;
mod policies;

pub(crate) use journal::{SeenEntries, SeenEntry, SeenFollower, SeenJournal};
pub(crate) use pod_status::{Events, PodStatusOf};
pub(crate) use policies::Policies;
pub use policies::PolicyError;

/// Why a watch ends, or cannot resume.
const CHANGED: &str = "what the caller may see has changed: list again";

/// The node, without a way to its objects but through a [`Reader`].
#[derive(Debug)]
pub(crate) struct Guarded(Arc<Node>);

impl Guarded {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self(node)
    }

    /// The node, for larder's own work. No answer to a caller is made of it.
    pub(crate) fn for_larder(&self) -> &Arc<Node> {
        &self.0
    }

    pub(crate) fn clock(&self) -> NodeClock<'_> {
        NodeClock(&self.0)
    }

    /// The kinds that this larder has a source of.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(|kind| self.0.not_served(*kind).is_none())
    }

    pub(crate) fn liveness(&self) -> Vec<Check> {
        self.0.liveness()
    }

    pub(crate) fn readiness(&self) -> Vec<Check> {
        self.0.readiness()
    }

    /// Whether larder holds an object, or reads it when asked. No answer to a caller is made of it.
    pub(crate) async fn holds(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        match kind {
            Kind::Pod => self.0.get_pod(namespace, name).is_ok(),
            Kind::Node => self.0.name() == name,
            Kind::Secret => self.0.not_referenced(ObjectKind::Secret, namespace, name).await.is_none(),
            Kind::ConfigMap => self.0.not_referenced(ObjectKind::ConfigMap, namespace, name).await.is_none(),
            // larder's identity may not be allowed to read it.
            Kind::Namespace => self.0.get_namespace(name, READ_TIMEOUT).await.is_ok(),
        }
    }

    /// A document of the API server, which names no object.
    pub(crate) async fn server_document(&self, document: ServerDocument) -> Result<FetchedDocument, ReadError> {
        self.0.server_document(document).await
    }
}

/// The clock of the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeClock<'a>(&'a Node);

impl NodeClock<'_> {
    pub(crate) fn now(self) -> Timestamp {
        self.0.now()
    }

    pub(crate) fn wall_time(self, at: Timestamp) -> Option<jiff::Timestamp> {
        self.0.wall_time(at)
    }

    /// The wall time now.
    pub(crate) fn wall_now(self) -> jiff::Timestamp {
        self.wall_time(self.now()).unwrap_or_default()
    }

    /// See [`Node::from_wall_time`].
    pub(crate) fn at_wall_time(self, unix_nanoseconds: i128) -> Timestamp {
        self.0.from_wall_time(unix_nanoseconds)
    }

    /// See [`Node::from_wall_time_read_elsewhere`].
    pub(crate) fn at_wall_time_read_elsewhere(self, unix_nanoseconds: i128) -> Timestamp {
        self.0.from_wall_time_read_elsewhere(unix_nanoseconds)
    }
}

/// Which pods a request is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum PodsOf {
    /// Those of the API server or the manifests, as they are there.
    #[default]
    Source,
    /// Those as this node knows them, with versions of larder's own.
    Node,
}

/// What a caller may see, as of one request.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    caller: Caller,
    view: View,
    /// The pod of a container.
    pod: Option<Arc<PodAccess>>,
    /// The caller, for [`Policies`].
    key: Arc<str>,
}

/// What a container of a pod may see.
#[derive(Debug)]
pub(crate) struct PodAccess {
    pub(crate) subject: Arc<PodSubject>,
    /// The UID by which the container runtime knows the pod.
    pub(crate) runtime_uid: String,
    view: View,
}

impl PodAccess {
    /// What containers of this pod may see, all of them together.
    ///
    /// # Errors
    ///
    /// The pod's fields are not of the types of the API.
    pub(crate) fn of(policy: &Policy, pod: &Pod, container: impl Fn(&str) -> bool) -> Result<Self, DecodeError> {
        let typed = pod.typed()?;
        let grants = larder_policy::Grants::of(&typed, container);
        let subject = Arc::new(PodSubject {
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            labels: typed.metadata.labels.clone().unwrap_or_default(),
            service_account: typed.spec.and_then(|spec| spec.service_account_name).unwrap_or_default(),
            grants,
        });
        let view = policy.view(&Subject::Pod(Arc::clone(&subject)));
        Ok(Self { subject, runtime_uid: pod.runtime_uid().to_owned(), view })
    }
}

impl PodAccess {
    /// Whether two pods, or two states of one, see the same.
    pub(crate) fn shows_the_same_as(&self, other: &Self) -> bool {
        self.view == other.view
    }
}

impl Access {
    /// What the caller may see now.
    ///
    /// # Errors
    ///
    /// The caller may see nothing, or its container has ended, or its pod is not known.
    pub(crate) fn of(app: &App, caller: Caller, asked: Asked<'_>) -> Result<Self, ApiError> {
        let (view, pod) = match &caller {
            Caller::Container(container) => {
                let pod = Self::of_container(app, container).inspect_err(|error| {
                    let reason = if matches!(error, ApiError::Ended { .. }) { "ended" } else { "not-known" };
                    app.refused_caller(&caller, asked, reason);
                })?;
                (pod.view.clone(), Some(pod))
            }
            Caller::Token(token) => {
                // The token was judged before the request, and the policy may have changed since.
                let view = app.policy.current().view(&Subject::Pod(Arc::clone(&token.access.subject)));
                (view, Some(Arc::clone(&token.access)))
            }
            other => match subject_of(other).map(|subject| app.policy.current().view(&subject)) {
                Some(view) if !view.sees_nothing() => (view, None),
                _ => {
                    app.refused_caller(&caller, asked, "none");
                    return Err(caller.refusal());
                }
            },
        };
        let key = if app.policy.may_change() { caller.key() } else { Arc::default() };
        app.policy.note(&key, &view);
        Ok(Self { caller, view, pod, key })
    }

    /// Whether a caller that is no container may see anything.
    pub(crate) fn may_any(app: &App, caller: &Caller) -> bool {
        caller.is_admin()
            || subject_of(caller).is_some_and(|subject| !app.policy.current().view(&subject).sees_nothing())
    }

    fn of_container(app: &App, container: &Arc<Container>) -> Result<Arc<PodAccess>, ApiError> {
        let node = app.node.for_larder();
        if container.has_ended(node)? {
            return Err(ApiError::Ended { container: Arc::clone(container), why: "it has ended" });
        }
        let Some(pod) = node.pod_in_runtime(&container.uid.to_string(), &container.namespace, &container.pod) else {
            // Until the pods are known, this one may be among them.
            node.list_pods()?;
            let why = "its pod is not among the pods of this node";
            return Err(ApiError::Ended { container: Arc::clone(container), why });
        };
        container.access(&app.policy.current(), pod)
    }

    /// The same for the pods as this node knows them, which have other versions.
    fn of_node_pods(mut self, app: &App) -> Self {
        if app.policy.may_change() {
            self.key = format!("{} /node", self.key).into();
            app.policy.note(&self.key, &self.view);
        }
        self
    }

    fn decide(&self, verb: Verb, kind: Kind, namespace: &str, name: &str) -> Decision {
        self.view.decide(verb, &Target { kind, namespace, name })
    }

    /// Whether it sees all of everything.
    fn sees_all(&self) -> bool {
        self.view.sees_all()
    }

    /// The decision on a pod that the runtime knows by this UID, given that on its name.
    fn of_pod(&self, decision: Decision, verb: Verb, [namespace, name, runtime_uid]: [&str; 3]) -> Decision {
        let is_own = || self.pod.as_ref().is_some_and(|own| own.runtime_uid == runtime_uid);
        if !decision.is_of_own_pod || is_own() {
            return decision;
        }
        self.view.decide_of_other_pod(verb, &Target { kind: Kind::Pod, namespace, name })
    }

    /// How much of an object may be seen of those that a list or a watch has; `None` for nothing.
    fn extent(&self, verb: Verb, object: &KubeObject) -> Option<Extent> {
        let decision = self.decide(verb, object.kind(), object.namespace(), object.name());
        if !decision.is_of_own_pod {
            return decision.extent;
        }
        self.of_pod(decision, verb, [object.namespace(), object.name(), &runtime_uid(object)]).extent
    }

    /// The part of an object that a list or a watch shows.
    fn seen(&self, verb: Verb, object: &Arc<Resource>) -> Result<Option<Arc<Resource>>, DecodeError> {
        let this: &KubeObject = (**object).as_ref();
        Ok(match self.extent(verb, this) {
            None => None,
            Some(Extent::Whole) => Some(Arc::clone(object)),
            Some(extent) => Some(part(this, &extent)?),
        })
    }
}

/// The UID by which the runtime knows a pod. A pod that cannot be read is nobody's.
fn runtime_uid(pod: &KubeObject) -> String {
    Pod::from_json(&pod.json()).map(|pod| pod.runtime_uid().to_owned()).unwrap_or_default()
}

impl ReportedNames for Access {
    fn has_every(&self, kind: Kind) -> bool {
        self.view.sees_every(Verb::List, kind, None)
    }

    fn has(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        self.sees_all() || self.decide(Verb::List, kind, namespace, name).is_allowed()
    }
}

/// A caller as the rules of a file name it; `None` for a container or a token, whose pod says that, and for nobody that is known.
fn subject_of(caller: &Caller) -> Option<Subject> {
    match caller {
        Caller::Host { uid, gids, is_admin } => {
            Some(Subject::Host { uid: *uid, gids: gids.to_vec(), is_admin: *is_admin })
        }
        Caller::Certificate { subject, is_admin } => {
            Some(Subject::Client { name: subject.name.clone(), groups: subject.groups.clone(), is_admin: *is_admin })
        }
        Caller::Container(_)
        | Caller::Token(_)
        | Caller::Unresolved { .. }
        | Caller::Refused { .. }
        | Caller::RefusedToken(_)
        | Caller::Anonymous => None,
    }
}

/// The part of an object that may be seen, as an object of its own. The bytes of a Secret are overwritten when it is dropped.
fn part(object: &KubeObject, extent: &Extent) -> Result<Arc<KubeObject>, DecodeError> {
    let json = restrict(&object.json(), object.kind(), extent)?;
    Ok(Arc::new(KubeObject::from_json(object.kind(), &json)?))
}

fn unwritable(kind: Kind, error: &DecodeError) -> ApiError {
    ApiError::Unwritable(format!("a {}: {error}", kind.singular()))
}

/// Reads what the caller of a request may see.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    app: Arc<App>,
    access: Access,
    pods: PodsOf,
    /// Counts the watches and bytes of the caller's identity; `None` where nothing is counted.
    usage: Option<Usage>,
}

impl FromRequestParts<Arc<App>> for Reader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        match parts.extensions.get::<Access>() {
            Some(access) => {
                let usage = parts.extensions.get().cloned();
                let pods = parts.extensions.get().copied().unwrap_or_default();
                let access = match pods {
                    PodsOf::Source => access.clone(),
                    PodsOf::Node => access.clone().of_node_pods(app),
                };
                Ok(Self { app: Arc::clone(app), access, pods, usage })
            }
            None => Err(Caller::Anonymous.refusal()),
        }
    }
}

impl Reader {
    pub(crate) fn app(&self) -> &Arc<App> {
        &self.app
    }

    pub(crate) fn clock(&self) -> NodeClock<'_> {
        self.app.node.clock()
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.access.caller
    }

    /// The pod that asks, if a container does.
    pub(crate) fn pod(&self) -> Option<&PodAccess> {
        self.access.pod.as_deref()
    }

    pub(crate) fn view(&self) -> &View {
        &self.access.view
    }

    /// Whether the caller sees all of everything.
    pub(crate) fn sees_all(&self) -> bool {
        self.access.sees_all()
    }

    /// A place for one more watch of the caller's identity, and the bytes with which it begins.
    ///
    /// # Errors
    ///
    /// 429 if it has as many as it may have.
    pub(crate) fn watch_of(&self, bytes: usize) -> Result<Option<(Watching, Held)>, ApiError> {
        let Some(usage) = &self.usage else { return Ok(None) };
        Ok(Some((usage.watch()?, usage.hold(bytes)?)))
    }

    fn node(&self) -> &Arc<Node> {
        &self.app.node.0
    }

    /// Judges the caller again.
    ///
    /// # Errors
    ///
    /// The caller may see nothing any more, or it sees something else than when the request arrived.
    pub(crate) fn still_sees_the_same(&self) -> Result<(), ApiError> {
        if !self.app.policy.may_change() {
            return Ok(());
        }
        let now = Access::of(&self.app, self.caller().clone(), Asked::UNDER_WAY)?;
        if now.view == self.access.view { Ok(()) } else { Err(ApiError::Expired(CHANGED.to_owned())) }
    }

    /// Judges the caller again; `None` if it may see nothing now.
    pub(crate) fn now(&self) -> Option<Access> {
        Access::of(&self.app, self.caller().clone(), Asked::UNDER_WAY).ok()
    }

    /// Takes what the caller sees now.
    fn refresh(&mut self) -> Result<(), ApiError> {
        if self.app.policy.may_change() {
            self.access = Access::of(&self.app, self.caller().clone(), Asked::UNDER_WAY)?;
        }
        Ok(())
    }

    /// The decision, noted; the refusal if nothing may be seen.
    fn allowed(&self, decision: Decision, verb: &'static str, what: impl fmt::Display) -> Result<Decision, ApiError> {
        if !decision.is_allowed() {
            return Err(self.refusal(decision, verb, what));
        }
        self.app.decided(self.caller(), self.pod(), verb, what, &decision);
        Ok(decision)
    }

    /// A refusal, noted.
    fn refusal(&self, decision: Decision, verb: &'static str, what: impl fmt::Display) -> ApiError {
        let what = what.to_string();
        self.app.decided(self.caller(), self.pod(), verb, &what, &decision);
        ApiError::NotSeen { caller: self.caller().clone(), verb, what, rule: decision.rule }
    }

    /// The node, for who may see a document that is about all of it.
    pub(crate) fn document(&self, document: Document, what: &str) -> Result<&Arc<Node>, ApiError> {
        self.allowed(self.view().may_document(document), Verb::Get.as_str(), what)?;
        Ok(self.node())
    }

    /// The status of larder, with the names of what the caller may list.
    pub(crate) fn report(&self, with_objects: bool) -> Result<Report, ApiError> {
        self.document(Document::Status, "the status of larder")?;
        Ok(self.app.report(&self.access, with_objects))
    }

    /// The right to read one object.
    pub(crate) fn one<'a>(&'a self, kind: Kind, namespace: &'a str, name: &'a str) -> Result<One<'a>, ApiError> {
        let decision = self.access.decide(Verb::Get, kind, namespace, name);
        let decision = self.allowed(decision, Verb::Get.as_str(), Named { kind, namespace, name })?;
        Ok(One { reader: self, kind, namespace, name, decision })
    }

    /// The journal of a kind, of which something may be seen.
    pub(crate) fn journal(&self, verb: Verb, kind: Kind, namespace: Option<&str>) -> Result<SeenJournal, ApiError> {
        self.some(verb, kind, namespace)?;
        let filter = (!self.sees_all()).then(|| (self.access.clone(), verb));
        Ok(SeenJournal::new(self.whole_journal(kind)?, filter, self.clone()))
    }

    /// The journal of a kind, also of what may not be seen.
    fn whole_journal(&self, kind: Kind) -> Result<larder_resource::journal::Journal, ReadError> {
        match (kind, self.pods) {
            (Kind::Pod, PodsOf::Node) => self.node().journal_of_node_pods(),
            (Kind::Pod, PodsOf::Source) | (Kind::Node | Kind::Secret | Kind::ConfigMap | Kind::Namespace, _) => {
                self.node().journal(kind)
            }
        }
    }

    /// How fresh the list of the pods is. The pods themselves are in the [journal](Self::journal).
    pub(crate) fn freshness_of_pods(&self) -> Result<AnswerFreshness, ApiError> {
        let (freshness, why) = match self.pods {
            PodsOf::Source => {
                let PodList { freshness, why, .. } = self.node().list_pods()?;
                (freshness, why)
            }
            PodsOf::Node => self.node().freshness_of_node_pods()?,
        };
        Ok(self.held(freshness, why))
    }

    fn held(&self, freshness: larder_objects::Freshness, why: Option<String>) -> AnswerFreshness {
        // The reason may name other pods.
        AnswerFreshness::held(freshness, why.filter(|_| self.sees_all()))
    }

    /// The pods as this node knows them that may be seen. Nothing is kept of them.
    pub(crate) fn node_pods(&self) -> Result<(Vec<Arc<Resource>>, AnswerFreshness), ApiError> {
        self.some(Verb::List, Kind::Pod, None)?;
        let PodList { items, freshness, why, .. } = self.node().list_node_pods()?;
        let mut seen = Vec::with_capacity(items.len());
        for pod in items {
            let pod: Arc<Resource> = pod;
            if self.sees_all() {
                seen.push(pod);
            } else {
                let part = self.access.seen(Verb::List, &pod).map_err(|error| unwritable(Kind::Pod, &error))?;
                seen.extend(part);
            }
        }
        Ok((seen, self.held(freshness, why)))
    }

    /// How fresh this node's object is.
    pub(crate) fn freshness_of_node(&self) -> Result<AnswerFreshness, ApiError> {
        match self.node().get_node(self.node().name()) {
            Ok(answer) => Ok(AnswerFreshness::of(&answer)),
            Err(ReadError::NotFound { freshness, .. }) => Ok(AnswerFreshness::held(*freshness, None)),
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses a list of a kind of which nothing may be seen.
    pub(crate) fn may_list_some(&self, kind: ObjectKind, namespace: Option<&str>) -> Result<(), ApiError> {
        self.some(Verb::List, kind.kind(), namespace)
    }

    fn some(&self, verb: Verb, kind: Kind, namespace: Option<&str>) -> Result<(), ApiError> {
        let decision = self.view().may_some(verb, kind, namespace);
        let of = namespace.map_or_else(String::new, |namespace| format!(" of namespace \"{namespace}\""));
        self.allowed(decision, verb.as_str(), format_args!("{}{of}", kind.resource())).map(drop)
    }

    /// Reads the Secrets or ConfigMaps that are wanted and may be seen. What may not be seen is not among the unknown ones either.
    pub(crate) async fn objects(
        &self,
        kind: ObjectKind,
        wanted: impl Fn(&ObjectKey) -> bool + Send + Sync,
        timeout: Duration,
    ) -> Result<ObjectList, ApiError> {
        let list =
            self.node().list_objects(kind, |key| wanted(key) && self.may_list(kind.kind(), key), timeout).await?;
        self.parts(list)
    }

    /// The same, of namespaces.
    pub(crate) async fn namespaces(
        &self,
        wanted: impl Fn(&ObjectKey) -> bool + Send + Sync,
        timeout: Duration,
    ) -> Result<ObjectList, ApiError> {
        let list =
            self.node().list_namespaces(|key| wanted(key) && self.may_list(Kind::Namespace, key), timeout).await?;
        self.parts(list)
    }

    fn may_list(&self, kind: Kind, key: &ObjectKey) -> bool {
        self.sees_all() || self.access.decide(Verb::List, kind, key.namespace(), key.name()).is_allowed()
    }

    fn parts(&self, mut list: ObjectList) -> Result<ObjectList, ApiError> {
        if self.sees_all() {
            return Ok(list);
        }
        for answer in &mut list.items {
            match self.access.extent(Verb::List, &answer.object) {
                Some(Extent::Whole) => {}
                Some(extent) => {
                    answer.object =
                        part(&answer.object, &extent).map_err(|error| unwritable(answer.object.kind(), &error))?;
                }
                // It was asked for before it was read.
                None => return Err(ApiError::Unwritable("the caller's view has changed".to_owned())),
            }
        }
        Ok(list)
    }

    /// The name of this node, which all may know that may see anything.
    pub(crate) fn node_name(&self) -> &str {
        self.node().name()
    }

    /// Why this larder does not answer a request that the caller may make, which may name no object. It waits for a namespace that larder
    /// has yet to read for at most `timeout`.
    pub(crate) async fn not_held(
        &self,
        verb: Verb,
        kind: Kind,
        [namespace, name]: [&str; 2],
        timeout: Duration,
    ) -> Option<ReadError> {
        let not_served = self.node().not_served(kind);
        // A list of what is not held is empty, and a watch tells when it comes.
        if not_served.is_some()
            || verb != Verb::Get
            || name.is_empty()
            || !self.access.decide(verb, kind, namespace, name).is_allowed()
        {
            return not_served;
        }
        let error = match kind {
            Kind::Pod => None,
            Kind::Node => self.node().get_node(name).err(),
            Kind::Secret => self.node().not_referenced(ObjectKind::Secret, namespace, name).await,
            Kind::ConfigMap => self.node().not_referenced(ObjectKind::ConfigMap, namespace, name).await,
            Kind::Namespace => self.node().get_namespace(name, timeout).await.err(),
        };
        error.filter(|error| {
            error.is_not_referenced() || error.is_not_permitted() || matches!(error, ReadError::OtherNode { .. })
        })
    }

    /// Why a status is not fresh, as this caller is told it.
    pub(crate) fn told<'a>(&self, why: Option<&'a str>) -> Option<&'a str> {
        // It may name a server, or other containers.
        if self.sees_all() { why } else { why.map(|_| "the reason is told to those who see everything") }
    }

    /// What larder knows of the container runtime.
    pub(crate) fn runtime_report(&self) -> Option<larder_node::SourceReport> {
        let mut report = self.node().runtime_report()?;
        if !self.sees_all() {
            // It may name other containers.
            report.last_error = report.last_error.map(|_| "the container runtime fails".to_owned());
        }
        Some(report)
    }
}

/// An object, in a message.
struct Named<'a> {
    kind: Kind,
    namespace: &'a str,
    name: &'a str,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{} \"{}{slash}{}\"", self.kind.singular(), self.namespace, self.name)
    }
}

/// The right to read one object, which may not exist.
#[derive(Debug)]
pub(crate) struct One<'a> {
    reader: &'a Reader,
    kind: Kind,
    namespace: &'a str,
    name: &'a str,
    decision: Decision,
}

/// What may be seen of an object.
pub(crate) struct Seen {
    pub(crate) object: Arc<Resource>,
    pub(crate) freshness: AnswerFreshness,
}

impl One<'_> {
    /// Reads it, for at most that long.
    pub(crate) async fn read(&self, timeout: Duration) -> Result<Seen, ApiError> {
        let node = self.reader.node();
        match self.kind {
            Kind::Pod if self.reader.pods == PodsOf::Node => {
                let answer = node.get_node_pod(self.namespace, self.name)?;
                let pod = [self.namespace, self.name, &runtime_uid(&answer.object)];
                let decision = self.reader.access.of_pod(self.decision.clone(), Verb::Get, pod);
                self.seen(answer, &decision)
            }
            Kind::Pod => {
                let answer = node.get_pod(self.namespace, self.name)?;
                let pod = [self.namespace, self.name, answer.object.runtime_uid()];
                let decision = self.reader.access.of_pod(self.decision.clone(), Verb::Get, pod);
                self.seen(answer, &decision)
            }
            Kind::Node => self.seen(node.get_node(self.name)?, &self.decision),
            Kind::Namespace => self.seen(node.get_namespace(self.name, timeout).await?, &self.decision),
            Kind::Secret => self.object(ObjectKind::Secret, timeout).await,
            Kind::ConfigMap => self.object(ObjectKind::ConfigMap, timeout).await,
        }
    }

    async fn object(&self, kind: ObjectKind, timeout: Duration) -> Result<Seen, ApiError> {
        self.seen(self.reader.node().get_object(kind, self.namespace, self.name, timeout).await?, &self.decision)
    }

    /// Reads the object for a pod of its namespace, whose references are kept until then.
    ///
    /// # Errors
    ///
    /// Also if the pod may not be seen.
    pub(crate) async fn read_for(&self, pod: &str, timeout: Duration) -> Result<Seen, ApiError> {
        let Some(kind) = self.kind.object_kind() else { return self.read(timeout).await };
        let right = self.reader.one(Kind::Pod, self.namespace, pod)?;
        // That the pod of this name is the one that may be seen.
        right.read(timeout).await?;
        let read = self.reader.node().get_object_for((self.namespace, pod), kind, self.name, timeout).await?;
        self.seen(read, &self.decision)
    }

    /// What larder's own path says of it.
    pub(crate) async fn entry(&self, timeout: Duration) -> Result<Answer<KubeObject>, ApiError> {
        let Some(kind) = self.kind.object_kind() else { return Err(self.refusal()) };
        let mut answer = self.reader.node().get_object(kind, self.namespace, self.name, timeout).await?;
        match &self.decision.extent {
            Some(Extent::Whole) => Ok(answer),
            Some(extent) => {
                answer.object = part(&answer.object, extent).map_err(|error| unwritable(self.kind, &error))?;
                Ok(answer)
            }
            None => Err(self.refusal()),
        }
    }

    /// The version that its journal has reached.
    pub(crate) fn version(&self) -> Result<u64, ApiError> {
        Ok(self.reader.whole_journal(self.kind)?.version())
    }

    /// Waits until its journal has reached a version.
    pub(crate) async fn reached(&self, version: u64) -> Result<(), ApiError> {
        self.reader.whole_journal(self.kind)?.reached(version).await;
        Ok(())
    }

    fn seen<T: AsRef<KubeObject> + Send + Sync + 'static>(
        &self,
        answer: Answer<T>,
        decision: &Decision,
    ) -> Result<Seen, ApiError> {
        let freshness = AnswerFreshness::of(&answer);
        let object: Arc<Resource> = match &decision.extent {
            Some(Extent::Whole) => answer.object,
            Some(extent) => part((*answer.object).as_ref(), extent).map_err(|error| unwritable(self.kind, &error))?,
            None => return Err(self.refusal()),
        };
        Ok(Seen { object, freshness })
    }

    fn refusal(&self) -> ApiError {
        let what = Named { kind: self.kind, namespace: self.namespace, name: self.name };
        self.reader.refusal(Decision::refused(), Verb::Get.as_str(), what)
    }
}

#[cfg(test)]
mod tests;
