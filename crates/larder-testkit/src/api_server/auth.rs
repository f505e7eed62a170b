//! Who asks, and what they may read: bearer tokens, and a rule like that of the Node authorizer.

use super::object::{Key, Kind};
use super::request::{Request, Target, Verb};
use super::status::Failure;
use super::store::ObjectStore;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// An identity that a token stands for, with what it may read.
///
/// ```
/// use larder_testkit::api_server::{Grant, Kind, User, Verb};
///
/// let node = User::node("n1");
/// assert_eq!(node.name(), "system:node:n1");
/// // A node that may, besides, watch the Secrets of one namespace.
/// let agent = User::node("n1").allow(Grant::namespace(Kind::Secret, "shop").verbs(&[Verb::List, Verb::Watch]));
/// # let _ = agent;
/// ```
#[derive(Clone, Debug)]
pub struct User {
    name: String,
    groups: Vec<String>,
    access: Access,
    grants: Vec<Grant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Access {
    All,
    Node(String),
    None,
}

impl User {
    /// A member of `system:masters`, who may read all.
    pub fn admin() -> Self {
        Self::with("admin".into(), "system:masters", Access::All)
    }

    /// A node's own identity: its pods, itself, and by name the Secrets and `ConfigMap`s that its pods refer to.
    pub fn node(name: &str) -> Self {
        Self::with(format!("system:node:{name}"), "system:nodes", Access::Node(name.to_owned()))
    }

    /// Someone who may read nothing but what is granted with [`allow`](Self::allow).
    pub fn stranger(name: &str) -> Self {
        Self::with(name.to_owned(), "system:serviceaccounts", Access::None)
    }

    fn with(name: String, group: &str, access: Access) -> Self {
        Self { name, groups: vec![group.into(), "system:authenticated".into()], access, grants: Vec::new() }
    }

    /// Grants something besides.
    #[must_use]
    pub fn allow(mut self, grant: Grant) -> Self {
        self.grants.push(grant);
        self
    }

    /// The name, as `system:node:n1`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The groups.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }
}

/// A rule like a Role's: these verbs on this kind, in one namespace or everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    kind: Kind,
    namespace: Option<String>,
    verbs: Vec<Verb>,
}

impl Grant {
    /// Get, list and watch of a kind in one namespace.
    pub fn namespace(kind: Kind, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..Self::everywhere(kind) }
    }

    /// Get, list and watch of a kind in every namespace.
    pub fn everywhere(kind: Kind) -> Self {
        Self { kind, namespace: None, verbs: vec![Verb::Get, Verb::List, Verb::Watch] }
    }

    /// These verbs instead.
    #[must_use]
    pub fn verbs(mut self, verbs: &[Verb]) -> Self {
        self.verbs = verbs.to_vec();
        self
    }

    fn covers(&self, verb: Verb, kind: Kind, namespace: &str) -> bool {
        let here = self.namespace.as_deref().is_none_or(|own| own == namespace);
        self.kind == kind && here && self.verbs.contains(&verb)
    }
}

/// The tokens and client certificates that are known now.
#[derive(Default)]
pub(crate) struct Tokens {
    users: Mutex<HashMap<String, User>>,
    certificates: Mutex<HashMap<Vec<u8>, User>>,
}

impl Tokens {
    pub(crate) fn insert(&self, token: &str, user: User) {
        self.users.lock().insert(token.to_owned(), user);
    }

    pub(crate) fn remove(&self, token: &str) -> bool {
        self.users.lock().remove(token).is_some()
    }

    pub(crate) fn insert_certificate(&self, der: &[u8], user: User) {
        self.certificates.lock().insert(der.to_owned(), user);
    }

    pub(crate) fn remove_certificate(&self, der: &[u8]) -> bool {
        self.certificates.lock().remove(der).is_some()
    }

    /// The user of a connection's certificate, or else of a request's `Authorization` header.
    pub(crate) fn authenticate(&self, certificate: Option<&[u8]>, headers: &http::HeaderMap) -> Result<User, Failure> {
        let shown = certificate.and_then(|der| self.certificates.lock().get(der).cloned());
        if let Some(user) = shown {
            return Ok(user);
        }
        let header = headers.get(http::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        self.users.lock().get(token.trim()).cloned().ok_or_else(Failure::unauthorized)
    }
}

/// Decides on requests.
pub(crate) struct Authorizer<'a> {
    pub(crate) store: &'a ObjectStore,
    /// How long a new pod's references stay unknown.
    pub(crate) lag: Duration,
}

impl Authorizer<'_> {
    pub(crate) fn authorize(&self, user: &User, target: &Target, request: &Request) -> Result<(), Failure> {
        let Some(kind) = target.kind else { return Ok(()) };
        let node_of_pods = match request {
            Request::List { list, .. } => list.filter.required_field("spec.nodeName"),
            Request::Watch { watch, .. } => watch.filter.required_field("spec.nodeName"),
            _ => None,
        };
        self.decide(user, target.verb, kind, &Key::new(&target.namespace, &target.name), node_of_pods)
    }

    fn decide(
        &self,
        user: &User,
        verb: Verb,
        kind: Kind,
        key: &Key,
        node_of_pods: Option<&str>,
    ) -> Result<(), Failure> {
        if user.access == Access::All || user.grants.iter().any(|grant| grant.covers(verb, kind, &key.namespace)) {
            return Ok(());
        }
        let Access::Node(node) = &user.access else {
            return Err(forbidden(user, verb, kind, key, None));
        };
        let refuse = |why: String| Err(forbidden(user, verb, kind, key, Some(&why)));
        match kind {
            Kind::Node if key.name == *node => Ok(()),
            Kind::Node => refuse(format!("node '{node}' cannot read any other node")),
            // As with the Node authorizer, a node has no right to read namespaces.
            Kind::Namespace => Err(forbidden(user, verb, kind, key, None)),
            Kind::Pod if verb == Verb::Get => match self.store.record(Kind::Pod, key, false).1 {
                Some(pod) if pod.field("spec.nodeName") == Some(node) => Ok(()),
                _ => refuse(format!("no relationship found between node '{node}' and this object")),
            },
            Kind::Pod if node_of_pods == Some(node) => Ok(()),
            Kind::Pod => refuse("can only list/watch pods with spec.nodeName field selector".into()),
            Kind::Secret | Kind::ConfigMap if key.name.is_empty() => {
                refuse("can only read namespaced object of this type".into())
            }
            Kind::Secret | Kind::ConfigMap if self.is_referenced(node, kind, key) => Ok(()),
            Kind::Secret | Kind::ConfigMap => {
                refuse(format!("no relationship found between node '{node}' and this object"))
            }
        }
    }

    fn is_referenced(&self, node: &str, kind: Kind, key: &Key) -> bool {
        let now = Instant::now();
        self.store.any_record(Kind::Pod, &key.namespace, |pod| {
            pod.field("spec.nodeName") == Some(node)
                && pod.refers_to(kind, &key.name)
                && now.saturating_duration_since(pod.created_at) >= self.lag
        })
    }

    /// Answers a `SelfSubjectAccessReview`.
    pub(crate) fn review(&self, user: &User, body: &[u8]) -> Result<Value, Failure> {
        let mut review: Value = serde_json::from_slice(body)
            .map_err(|error| Failure::bad_request(format!("the body is not a SelfSubjectAccessReview: {error}")))?;
        let Some(asked) = review.pointer("/spec/resourceAttributes") else {
            return Err(Failure::new(422, "Invalid", "spec.resourceAttributes: Required value"));
        };
        let text = |field: &str| asked.get(field).and_then(Value::as_str).unwrap_or_default();
        let verb = [Verb::Get, Verb::List, Verb::Watch].into_iter().find(|verb| verb.name() == text("verb"));
        let decision = match (verb, Kind::from_plural(text("resource")), text("group")) {
            (Some(verb), Some(kind), "") => {
                self.decide(user, verb, kind, &Key::new(text("namespace"), text("name")), None)
            }
            _ if user.access == Access::All => Ok(()),
            _ => Err(Failure::of_code(403)),
        };
        review["status"] = match decision {
            Ok(()) => json!({"allowed": true}),
            Err(failure) => json!({"allowed": false, "reason": failure.message}),
        };
        Ok(review)
    }
}

fn forbidden(user: &User, verb: Verb, kind: Kind, key: &Key, why: Option<&str>) -> Failure {
    let name = if key.name.is_empty() { String::new() } else { format!(" {:?}", key.name) };
    let place = if !kind.is_namespaced() || key.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {:?}", key.namespace)
    };
    let plural = kind.plural();
    let mut message = format!(
        "{plural}{name} is forbidden: User {:?} cannot {} resource {plural:?} in API group \"\" {place}",
        user.name,
        verb.name(),
    );
    if let Some(why) = why {
        message.push_str(": ");
        message.push_str(why);
    }
    Failure::new(403, "Forbidden", message)
}
