//! The reviews with which clients ask for their own rights: `SelfSubjectAccessReview`, `SelfSubjectRulesReview` and
//! `SelfSubjectReview`.
//!
//! An answer says what larder serves, and what the caller's [view](larder_policy::View) shows of it, with the rule as the reason.

use super::READ_TIMEOUT;
use crate::access::{PodAccess, Reader};
use crate::caller::Caller;
use crate::error::{ApiError, why_refused};
use axum::Json;
use axum::body::Bytes;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use larder_policy::{Decision, Document, Rule, Target, Verb};
use larder_resource::{Kind, ObjectKind};
use serde_json::{Value, json};
use std::time::Duration;

mod protobuf;

/// The largest review.
const LARGEST: usize = 64 << 10;
/// How long the body may take.
const LIMIT: Duration = Duration::from_secs(10);

const READS: [&str; 3] = ["get", "list", "watch"];

/// The paths that anybody may read who may read anything, besides those of objects.
const PATHS: [&str; 12] = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/larder/v1/events",
    "/larder/v1/objects/*",
    "/larder/v1/pods",
    "/larder/v1/pods/*",
    "/livez",
    "/openapi/*",
    "/readyz",
    "/version",
];

/// The JSON of a review of that kind.
async fn review(request: Request, group: &str, kind: &'static str) -> Result<Value, ApiError> {
    let media_type =
        request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_protobuf = match media_type.split(';').next().unwrap_or_default().trim() {
        "" | "application/json" => false,
        "application/vnd.kubernetes.protobuf" => true,
        other => return Err(ApiError::UnsupportedMediaType(other.chars().take(200).collect())),
    };
    let body = tokio::time::timeout(LIMIT, Limited::new(request.into_body(), LARGEST).collect()).await;
    let body = body.map_err(|_| ApiError::LateBody(LIMIT))?;
    let body: Bytes = body
        .map_err(|error| ApiError::BadBody(format!("cannot be read, or is larger than {LARGEST} bytes: {error}")))?
        .to_bytes();
    let review = if is_protobuf {
        protobuf::to_json(&body).map_err(ApiError::BadBody)?
    } else {
        let bad = |error| ApiError::BadBody(format!("is not the JSON of a {kind}: {error}"));
        serde_json::from_slice::<Value>(&body).map_err(bad)?
    };
    complete(review, group, kind)
}

/// The review with its kind and version. As at the API server, the path gives them where the body has none. Python's client sends
/// none.
fn complete(mut review: Value, group: &str, kind: &'static str) -> Result<Value, ApiError> {
    let wrong = || ApiError::BadBody(format!("is not a {kind} of {group}/v1"));
    let fields = review.as_object_mut().ok_or_else(wrong)?;
    for (field, expected) in [("kind", kind), ("apiVersion", &format!("{group}/v1"))] {
        match fields.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::String(found)) if found.is_empty() || found == expected => {}
            Some(_) => return Err(wrong()),
        }
        fields.insert(field.to_owned(), expected.into());
    }
    Ok(review)
}

/// Refuses a `SelfSubjectAccessReview` that asks for nothing, or for two things, in the API server's words.
fn validate(spec: &Value) -> Result<(), ApiError> {
    let has = |section| spec.get(section).is_some_and(Value::is_object);
    let (field, problem) = match (has("resourceAttributes"), has("nonResourceAttributes")) {
        (true, false) | (false, true) => return Ok(()),
        (true, true) => ("spec.nonResourceAttributes", "cannot be specified in combination with resourceAttributes"),
        (false, false) => {
            ("spec.resourceAttributes", "exactly one of nonResourceAttributes or resourceAttributes must be specified")
        }
    };
    Err(ApiError::InvalidReview { field, problem })
}

fn created(mut review: Value, status: Value) -> Response {
    if let Some(fields) = review.as_object_mut() {
        fields.entry("metadata").or_insert_with(|| json!({}));
        fields.insert("status".to_owned(), status);
    }
    (StatusCode::CREATED, Json(review)).into_response()
}

/// The reason why an object is not served that may be seen, which is that of a get.
async fn not_held(reader: &Reader, asked: &Asked) -> Option<String> {
    match asked {
        Asked::Objects { verb, kind, namespace, name } => {
            let error = reader.not_held(*verb, *kind, [namespace, name], READ_TIMEOUT).await;
            error.map(|error| error.to_string())
        }
        Asked::Path(_) => None,
    }
}

/// What a review asks for, of what larder serves.
enum Asked {
    Objects { verb: Verb, kind: Kind, namespace: String, name: String },
    Path(String),
}

/// What a review asks for, if larder serves it, and why not otherwise.
fn served(spec: &Value) -> Result<Asked, String> {
    let text = |section: &str, field: &str| {
        spec.get(section).and_then(|section| section.get(field)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    if spec.get("nonResourceAttributes").is_some_and(Value::is_object) {
        let verb = text("nonResourceAttributes", "verb");
        let is_read = matches!(verb.as_str(), "get" | "head");
        let path = text("nonResourceAttributes", "path");
        return if is_read { Ok(Asked::Path(path)) } else { Err("larder only reads".to_owned()) };
    }
    let [group, resource, subresource, verb, namespace, name] =
        ["group", "resource", "subresource", "verb", "namespace", "name"]
            .map(|field| text("resourceAttributes", field));
    let Some(verb) = Verb::ALL.into_iter().find(|known| known.as_str() == verb) else {
        return Err(format!("larder serves get, list and watch, not \"{verb}\": ask the API server"));
    };
    let kind = Kind::ALL.into_iter().find(|kind| kind.resource() == resource).filter(|_| group.is_empty());
    match kind {
        None => Err(format!(
            "larder does not serve the resource \"{resource}\" of the group \"{group}\": ask the API server"
        )),
        Some(kind) if subresource.is_empty() || subresource == "status" && kind.has_status() && verb == Verb::Get => {
            let namespace = if kind.is_namespaced() { namespace } else { String::new() };
            Ok(Asked::Objects { verb, kind, namespace, name })
        }
        Some(_) => Err(format!("larder does not serve \"{resource}/{subresource}\": ask the API server")),
    }
}

/// What the caller's view says of it; `None` of a path that anybody may read who may read anything.
fn decision(reader: &Reader, asked: &Asked) -> Option<Decision> {
    let view = reader.view();
    match asked {
        Asked::Objects { verb: verb @ (Verb::List | Verb::Watch), kind, namespace, name } if name.is_empty() => {
            let namespace = Some(&**namespace).filter(|namespace| !namespace.is_empty());
            Some(view.may_some(*verb, *kind, namespace))
        }
        Asked::Objects { verb, kind, namespace, name } => {
            Some(view.decide(*verb, &Target { kind: *kind, namespace, name }))
        }
        Asked::Path(path) => {
            let document = match path.as_str() {
                "/larder/v1/status" => Document::Status,
                "/larder/v1/whois" => Document::Whois,
                "/metrics" => Document::Metrics,
                path if view.sees_all() || PATHS.iter().any(|served| covers(served, path)) => return None,
                _ => return Some(Decision::refused()),
            };
            Some(view.may_document(document))
        }
    }
}

/// The rule that allows it. Of several objects, one that denies some of them is named, too.
fn why_allowed(reader: &Reader, asked: &Asked, rule: &Rule) -> String {
    let narrowing = match asked {
        Asked::Objects { verb: verb @ (Verb::List | Verb::Watch), kind, namespace, name } if name.is_empty() => {
            let namespace = Some(&**namespace).filter(|namespace| !namespace.is_empty());
            reader.view().narrowed_by(*verb, *kind, namespace)
        }
        Asked::Objects { .. } | Asked::Path(_) => None,
    };
    narrowing.map_or_else(|| rule.to_string(), |narrowing| format!("{rule}, but for what {narrowing} denies"))
}

/// Whether a path is that one, or below it if that one ends with `*`.
fn covers(served: &str, path: &str) -> bool {
    served.strip_suffix('*').map_or(served == path, |above| path.starts_with(above))
}

/// `POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews`.
pub(crate) async fn access(reader: Reader, request: Request) -> Result<Response, ApiError> {
    let review = review(request, "authorization.k8s.io", "SelfSubjectAccessReview").await?;
    let spec = review.get("spec").cloned().unwrap_or_default();
    validate(&spec)?;
    let (allowed, reason) = match served(&spec) {
        Err(why) => (false, Some(why)),
        Ok(asked) => match decision(&reader, &asked) {
            None => (true, None),
            Some(Decision { extent: None, rule, .. }) => (false, Some(why_refused(reader.caller(), &rule))),
            Some(Decision { rule, .. }) => match not_held(&reader, &asked).await {
                None => (true, Some(why_allowed(&reader, &asked, &rule))),
                Some(why) => (false, Some(why)),
            },
        },
    };
    let status = match reason {
        None => json!({"allowed": allowed}),
        Some(reason) => json!({"allowed": allowed, "reason": reason}),
    };
    Ok(created(review, status))
}

/// `POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews`.
pub(crate) async fn rules(reader: Reader, request: Request) -> Result<Response, ApiError> {
    let review = review(request, "authorization.k8s.io", "SelfSubjectRulesReview").await?;
    let mut status = match reader.pod() {
        None if reader.caller().is_admin() => rules_of_admins(&reader.app().node.kinds().collect::<Vec<_>>()),
        None => json!({"resourceRules": [], "nonResourceRules": []}),
        Some(pod) => {
            let asked = review.get("spec").and_then(|spec| spec.get("namespace")).and_then(Value::as_str);
            rules_of_pod(pod, asked.unwrap_or_default(), reader.node_name())
        }
    };
    // The rules of a policy file are not listed.
    status["incomplete"] = reader.view().has_rules().into();
    Ok(created(review, status))
}

fn rules_of_admins(kinds: &[Kind]) -> Value {
    let resources: Vec<_> = kinds.iter().map(|kind| kind.resource()).collect();
    let with_status = kinds.iter().filter(|kind| kind.has_status());
    let statuses: Vec<_> = with_status.map(|kind| format!("{}/status", kind.resource())).collect();
    json!({
        "resourceRules": [
            {"verbs": READS, "apiGroups": [""], "resources": resources},
            {"verbs": ["get"], "apiGroups": [""], "resources": statuses},
        ],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["*"]}],
    })
}

/// What a container may read in a namespace, by name.
fn rules_of_pod(pod: &PodAccess, namespace: &str, node: &str) -> Value {
    let rule = |verbs: &[&str], resource: &str, names: &[&str]| json!({"verbs": verbs, "apiGroups": [""], "resources": [resource], "resourceNames": names});
    let mut rules = vec![rule(&READS, "nodes", &[node]), rule(&["get"], "nodes/status", &[node])];
    let subject = &pod.subject;
    if subject.namespace == namespace {
        rules.extend([rule(&READS, "pods", &[&subject.name]), rule(&["get"], "pods/status", &[&subject.name])]);
        for kind in ObjectKind::ALL {
            let names: Vec<_> = subject.grants.iter().filter(|(of, ..)| *of == kind).map(|(_, name, _)| name).collect();
            if !names.is_empty() {
                rules.push(rule(&READS, kind.resource(), &names));
            }
        }
    }
    json!({
        "resourceRules": rules,
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": PATHS}],
    })
}

/// `POST /apis/authentication.k8s.io/v1/selfsubjectreviews`.
pub(crate) async fn subject(reader: Reader, request: Request) -> Result<Response, ApiError> {
    let review = review(request, "authentication.k8s.io", "SelfSubjectReview").await?;
    let caller = reader.caller();
    let user = match (caller, reader.pod()) {
        (_, Some(pod)) if !pod.subject.service_account.is_empty() => user_of(pod, reader.node_name()),
        (Caller::Certificate { subject, .. }, _) => json!({"username": subject.name, "groups": subject.groups}),
        (
            Caller::Host { .. }
            | Caller::Container(_)
            | Caller::Unresolved { .. }
            | Caller::Refused { .. }
            | Caller::Token(_)
            | Caller::RefusedToken(_)
            | Caller::Anonymous,
            _,
        ) => {
            json!({"username": caller.to_string()})
        }
    };
    Ok(created(review, json!({"userInfo": user})))
}

/// The user of a pod's service account, as the API server has it for a token of the pod.
fn user_of(pod: &PodAccess, node: &str) -> Value {
    let subject = &pod.subject;
    let namespace = &subject.namespace;
    json!({
        "username": format!("system:serviceaccount:{namespace}:{}", subject.service_account),
        "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated"],
        "extra": {
            "authentication.kubernetes.io/node-name": [node],
            "authentication.kubernetes.io/pod-name": [subject.name],
            "authentication.kubernetes.io/pod-uid": [subject.uid],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::bench::{Bench, root};
    use axum::body::Body;
    use futures_util::StreamExt as _;

    #[test]
    fn a_body_that_never_ends_is_not_waited_for() {
        let bench = Bench::new();
        for path in [
            "authorization.k8s.io/v1/selfsubjectaccessreviews",
            "authorization.k8s.io/v1/selfsubjectrulesreviews",
            "authentication.k8s.io/v1/selfsubjectreviews",
        ] {
            let body =
                futures_util::stream::iter([Ok::<_, std::io::Error>("{")]).chain(futures_util::stream::pending());
            let request = http::Request::post(format!("/apis/{path}")).body(Body::from_stream(body)).unwrap();
            let began = bench.runtime.block_on(async { tokio::time::Instant::now() });
            let (code, status) = bench.answer_to(&bench.local, request, Some(root()));
            let took = bench.runtime.block_on(async { began.elapsed() });
            assert_eq!((code.as_u16(), status.unwrap().reason.as_deref()), (408, Some("Timeout")), "{path}");
            assert!(took <= Duration::from_secs(11), "{path}: {took:?}");
        }
    }

    #[test]
    fn a_review_gets_the_kind_and_version_that_it_lacks_and_no_others() {
        let (group, kind) = ("authorization.k8s.io", "SelfSubjectAccessReview");
        let whole = json!({"kind": kind, "apiVersion": "authorization.k8s.io/v1", "spec": {}});
        for lacks in [
            whole.clone(),
            json!({"spec": {}}),
            json!({"kind": kind, "spec": {}}),
            json!({"apiVersion": "authorization.k8s.io/v1", "spec": {}}),
            json!({"kind": null, "apiVersion": "", "spec": {}}),
        ] {
            assert_eq!(complete(lacks.clone(), group, kind).unwrap(), whole, "{lacks}");
        }
        for wrong in [
            json!({"kind": "SelfSubjectReview"}),
            json!({"apiVersion": "authorization.k8s.io/v1beta1"}),
            json!({"kind": kind, "apiVersion": "v1"}),
            json!({"kind": 1}),
            json!([]),
            Value::Null,
        ] {
            assert_eq!(complete(wrong.clone(), group, kind).unwrap_err().code(), 400, "{wrong}");
        }
    }

    #[test]
    fn an_access_review_asks_for_exactly_one_thing() {
        let (resource, other) = (json!({"verb": "get"}), json!({"path": "/"}));
        assert!(validate(&json!({"resourceAttributes": resource})).is_ok());
        assert!(validate(&json!({"resourceAttributes": resource, "nonResourceAttributes": null})).is_ok());
        assert!(validate(&json!({"nonResourceAttributes": other})).is_ok());
        for spec in [json!(null), json!({}), json!({"resourceAttributes": resource, "nonResourceAttributes": other})] {
            assert_eq!(validate(&spec).unwrap_err().code(), 422, "{spec}");
        }
    }

    #[test]
    fn a_review_says_what_is_served_and_why_the_rest_is_not() {
        let check = |attributes: Value, expected: bool| {
            let answer = served(&json!({"resourceAttributes": attributes})).map(drop);
            assert_eq!(answer.is_ok(), expected, "{attributes}: {answer:?}");
        };
        check(json!({"verb": "get", "resource": "pods"}), true);
        check(json!({"verb": "watch", "resource": "secrets", "namespace": "web", "name": "tls"}), true);
        check(json!({"verb": "get", "resource": "pods", "subresource": "status"}), true);
        check(json!({"verb": "get", "resource": "pods", "subresource": "log"}), false);
        check(json!({"verb": "get", "resource": "namespaces", "subresource": "status"}), true);
        check(json!({"verb": "update", "resource": "namespaces", "subresource": "finalize"}), false);
        check(json!({"verb": "get", "resource": "secrets", "subresource": "status"}), false);
        check(json!({"verb": "create", "resource": "pods"}), false);
        check(json!({"verb": "*", "resource": "*"}), false);
        check(json!({"verb": "get", "resource": "deployments", "group": "apps"}), false);
        check(json!({"verb": "get", "resource": "pods", "group": "metrics.k8s.io"}), false);
        check(json!(null), false);
        assert!(served(&json!({"nonResourceAttributes": {"verb": "get", "path": "/version"}})).is_ok());
        assert!(served(&json!({"nonResourceAttributes": {"verb": "post", "path": "/version"}})).is_err());
        assert!(served(&Value::Null).is_err());
    }
}
