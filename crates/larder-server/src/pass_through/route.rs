//! Where a request of a pod is answered: here, at the API server, or here only if the API server does not answer the pod.
//!
//! # Guarantees
//!
//! - *Whole or not here*: larder answers first only where the caller sees all of each object, and all objects of a list, by larder's policy.
//! - *Of this node alone*: a list or watch is answered here only if its selector leaves nothing that another node may have. A watch is answered here
//!   only if that holds for as long as the caller lives: of its own pod, its node, what it refers to, or the pods of this node.
//! - *Unknown is passed on*: what this module does not understand, such as an escaped path, is the API server's.

use super::refusals::Subject;
use http::{Method, Uri};
use larder_policy::{Extent, Target, Verb, View};
use larder_resource::Kind;
use larder_resource::selector::FieldSelector;
use std::borrow::Cow;

/// The paths of larder's own.
const OWN: [&str; 6] = ["larder", "node", "pods", "livez", "readyz", "metrics"];

/// Where a request is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Here: a path of larder's own.
    Own,
    /// Here, and by the API server where larder does not hold it.
    Here(Held),
    /// By the API server, and here if it refuses or is away.
    ServerFirst(First),
    /// By the API server.
    Server(Why),
}

/// What larder has to hold to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// What the handler says: it refuses what larder does not hold.
    AsAnswered,
    /// This object: a list of it would be empty otherwise.
    Object(Subject),
}

/// What larder may have an answer of its own to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// Discovery and schemas.
    Document,
    /// A part of an object, or some of this node's pods.
    Part(Verb, Subject),
}

/// Why a request goes to the API server: a word of a bounded set, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It writes, or is a review.
    Write,
    /// It is of a kind or path that larder does not serve.
    Kind,
    /// It is a list or watch that is not of this node alone.
    List,
    /// larder's policy does not show it to the caller.
    Policy,
    /// larder shows the caller a part of it.
    Part,
    /// It is discovery.
    Discovery,
    /// larder does not hold it.
    NotHeld,
    /// larder does not take the caller's token.
    Caller,
}

impl Why {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Kind => "kind",
            Self::List => "list",
            Self::Policy => "policy",
            Self::Part => "part",
            Self::Discovery => "discovery",
            Self::NotHeld => "not-held",
            Self::Caller => "caller",
        }
    }
}

/// A path of the core group that larder may hold something of.
enum Path<'a> {
    Object(Kind, &'a str, &'a str),
    List(Kind, Option<&'a str>),
}

impl Route {
    /// The route of a request of a pod with this view, on the node of this name.
    pub(super) fn of(method: &Method, uri: &Uri, view: &View, node: &str) -> Self {
        let path = uri.path();
        if is_own(path) {
            return Self::Own;
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Self::Server(Why::Write);
        }
        if path.contains('%') {
            return Self::Server(Why::Kind);
        }
        if is_document(path) {
            return Self::ServerFirst(First::Document);
        }
        match path_of(path) {
            Some(Path::Object(kind, namespace, name)) => of_object(view, kind, namespace, name),
            Some(Path::List(kind, namespace)) => of_list(view, kind, namespace, uri.query().unwrap_or_default(), node),
            None => Self::Server(Why::Kind),
        }
    }
}

/// Whether a path is of larder's own.
pub(super) fn is_own(path: &str) -> bool {
    let mut parts = path.trim_end_matches('/').split('/').skip(1);
    let first = parts.next().unwrap_or_default();
    OWN.contains(&first) && (matches!(first, "larder" | "node") || parts.next().is_none())
}

/// The object that a PUT of it replaces.
pub(super) fn replaced(method: &Method, path: &str) -> Option<Subject> {
    match path_of(path).filter(|_| method == Method::PUT)? {
        Path::Object(kind, namespace, name) => Some(subject(kind, namespace, name)),
        Path::List(..) => None,
    }
}

/// Whether a request asks for an answer that lasts: a watch, a log that is followed, or what goes on to a pod or a service.
pub(super) fn lasts(uri: &Uri) -> bool {
    let is_set = |name: &str| flag(uri.query().unwrap_or_default(), name);
    let is_lasting = |part: &str| matches!(part, "watch" | "proxy" | "exec" | "attach" | "portforward");
    is_set("watch") || is_set("follow") || uri.path().split('/').any(is_lasting)
}

fn subject(kind: Kind, namespace: &str, name: &str) -> Subject {
    Subject { kind, namespace: namespace.to_owned(), name: name.to_owned() }
}

/// Discovery, the version and the schemas: what larder has an answer of its own to.
fn is_document(path: &str) -> bool {
    let parts: Vec<_> = path.trim_end_matches('/').split('/').skip(1).collect();
    matches!(
        *parts,
        ["version" | "api" | "apis"] | ["api", "v1"] | ["apis", _] | ["apis", _, _] | ["openapi", "v3", ..]
    )
}

fn path_of(path: &str) -> Option<Path<'_>> {
    let parts: Vec<_> = path.trim_end_matches('/').split('/').skip(1).collect();
    let ["api", "v1", rest @ ..] = &*parts else { return None };
    if rest.iter().any(|part| part.is_empty()) {
        return None;
    }
    let kind = |resource: &str, is_namespaced: bool| {
        Kind::ALL.into_iter().find(|kind| kind.resource() == resource && (!is_namespaced || kind.is_namespaced()))
    };
    Some(match *rest {
        ["namespaces", name] | ["namespaces", name, "status"] => Path::Object(Kind::Namespace, "", name),
        ["nodes", name] | ["nodes", name, "status"] => Path::Object(Kind::Node, "", name),
        [resource] => Path::List(kind(resource, false)?, None),
        ["namespaces", namespace, resource] => Path::List(kind(resource, true)?, Some(namespace)),
        ["namespaces", namespace, resource, name] => Path::Object(kind(resource, true)?, namespace, name),
        ["namespaces", namespace, "pods", name, "status"] => Path::Object(Kind::Pod, namespace, name),
        _ => return None,
    })
}

fn of_object(view: &View, kind: Kind, namespace: &str, name: &str) -> Route {
    match view.decide(Verb::Get, &Target { kind, namespace, name }).extent {
        Some(Extent::Whole) => Route::Here(Held::AsAnswered),
        Some(Extent::Part { .. }) => Route::ServerFirst(First::Part(Verb::Get, subject(kind, namespace, name))),
        None => Route::Server(Why::Policy),
    }
}

fn of_list(view: &View, kind: Kind, namespace: Option<&str>, query: &str, node: &str) -> Route {
    let Some(fields) = parameter(query, "fieldSelector").and_then(|text| FieldSelector::parse(&text, kind).ok()) else {
        return Route::Server(Why::List);
    };
    let verb = if flag(query, "watch") { Verb::Watch } else { Verb::List };
    let is_of_node = kind == Kind::Pod && fields.node_name() == Some(node);
    let namespace = namespace.or_else(|| fields.namespace());
    match (fields.name(), namespace) {
        (Some(name), namespace) if !kind.is_namespaced() || namespace.is_some() => {
            let target = Target { kind, namespace: namespace.unwrap_or_default(), name };
            let decision = view.decide(verb, &target);
            let subject = subject(kind, target.namespace, name);
            let stays = is_of_node || decision.is_of_own_pod || kind == Kind::Node || view.refers_to(&target);
            match decision.extent {
                // It may come to be elsewhere, or nobody may refer to it any more.
                Some(Extent::Whole) if verb == Verb::Watch && !stays => Route::Server(Why::List),
                Some(Extent::Whole) if is_of_node => Route::Here(Held::AsAnswered),
                Some(Extent::Whole) => Route::Here(Held::Object(subject)),
                Some(Extent::Part { .. }) => Route::ServerFirst(First::Part(verb, subject)),
                None => Route::Server(Why::Policy),
            }
        }
        (None, namespace) if is_of_node && view.sees_every(verb, kind, namespace) => Route::Here(Held::AsAnswered),
        (None, namespace) if is_of_node && view.may_some(verb, kind, namespace).is_allowed() => {
            Route::ServerFirst(First::Part(verb, subject(kind, namespace.unwrap_or_default(), "")))
        }
        _ => Route::Server(Why::List),
    }
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    // The first one counts, as at the API server.
    form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value)
}

/// Whether a flag is set, as the API server reads it.
fn flag(query: &str, name: &str) -> bool {
    parameter(query, name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}

#[cfg(test)]
mod tests;
