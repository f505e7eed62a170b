//! Discovery: which groups, kinds and verbs larder serves, as plain documents and as aggregated ones (KEP-3352).

use crate::app::Shared;
use crate::error::ApiError;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, header};
use larder_resource::Kind;
use serde_json::{Value, json};

/// The media type of the aggregated form.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The verbs of what larder holds.
const READS: [&str; 3] = ["get", "list", "watch"];

/// A kind that is answered, and not held: a review of the caller's own rights.
struct Review {
    group: &'static str,
    resource: &'static str,
    kind: &'static str,
}

const REVIEWS: [Review; 3] = [
    Review { group: "authentication.k8s.io", resource: "selfsubjectreviews", kind: "SelfSubjectReview" },
    Review { group: "authorization.k8s.io", resource: "selfsubjectaccessreviews", kind: "SelfSubjectAccessReview" },
    Review { group: "authorization.k8s.io", resource: "selfsubjectrulesreviews", kind: "SelfSubjectRulesReview" },
];

const GROUPS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

/// Whether the client prefers the aggregated form.
fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let range = accept.split(',').next().unwrap_or_default();
    let has = |wanted: &str| range.split(';').any(|part| part.trim().eq_ignore_ascii_case(wanted));
    has("g=apidiscovery.k8s.io") && has("v=v2") && has("as=APIGroupDiscoveryList")
}

fn document(content_type: &'static str, document: &Value) -> Response {
    let mut response = document.to_string().into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// `/api`.
pub(crate) async fn api(State(app): Shared, headers: HeaderMap) -> Response {
    if wants_aggregated(&headers) {
        let resources: Vec<_> = app.node.kinds().map(aggregated_kind).collect();
        return document(AGGREGATED, &aggregated(&[aggregated_group(None, &resources)]));
    }
    document("application/json", &json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}))
}

/// `/apis`.
pub(crate) async fn apis(headers: HeaderMap) -> Response {
    if wants_aggregated(&headers) {
        let groups = GROUPS.into_iter().map(|group| {
            let resources: Vec<_> =
                REVIEWS.iter().filter(|review| review.group == group).map(aggregated_review).collect();
            aggregated_group(Some(group), &resources)
        });
        return document(AGGREGATED, &aggregated(&groups.collect::<Vec<_>>()));
    }
    let groups: Vec<_> = GROUPS.into_iter().map(group_document).collect();
    document("application/json", &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

fn group_document(group: &str) -> Value {
    let version = json!({"groupVersion": format!("{group}/v1"), "version": "v1"});
    json!({"name": group, "versions": [version], "preferredVersion": version})
}

/// `/apis/{group}`.
pub(crate) async fn group(crate::app::Names(group): crate::app::Names<String>) -> Result<Response, ApiError> {
    if !GROUPS.contains(&group.as_str()) {
        return Err(super::unknown_path(&format!("/apis/{group}")));
    }
    let mut found = group_document(&group);
    if let Some(fields) = found.as_object_mut() {
        fields.insert("kind".to_owned(), "APIGroup".into());
        fields.insert("apiVersion".to_owned(), "v1".into());
    }
    Ok(document("application/json", &found))
}

/// `/apis/{group}/v1`.
pub(crate) async fn group_version(
    crate::app::Names((group, version)): crate::app::Names<(String, String)>,
) -> Result<Response, ApiError> {
    if !GROUPS.contains(&group.as_str()) || version != "v1" {
        return Err(super::unknown_path(&format!("/apis/{group}/{version}")));
    }
    let reviews = REVIEWS.iter().filter(|review| review.group == group);
    let resources: Vec<_> = reviews
        .map(|review| {
            let singular = review.kind.to_lowercase();
            json!({"name": review.resource, "singularName": singular, "namespaced": false, "kind": review.kind, "verbs": ["create"]})
        })
        .collect();
    Ok(document("application/json", &resource_list(&format!("{group}/v1"), &resources)))
}

/// `/api/v1`.
pub(crate) async fn core(State(app): Shared) -> Response {
    let mut resources = Vec::new();
    for kind in app.node.kinds() {
        let mut resource = json!({
            "name": kind.resource(), "singularName": kind.singular(), "namespaced": kind.is_namespaced(),
            "kind": kind.as_str(), "verbs": READS,
        });
        if let (Some(fields), Some(short)) = (resource.as_object_mut(), kind.short_name()) {
            fields.insert("shortNames".to_owned(), json!([short]));
        }
        resources.push(resource);
        if kind.has_status() {
            resources.push(json!({
                "name": format!("{}/status", kind.resource()), "singularName": "", "namespaced": kind.is_namespaced(),
                "kind": kind.as_str(), "verbs": ["get"],
            }));
        }
    }
    document("application/json", &resource_list("v1", &resources))
}

fn resource_list(group_version: &str, resources: &[Value]) -> Value {
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})
}

fn aggregated(groups: &[Value]) -> Value {
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups})
}

fn aggregated_group(name: Option<&str>, resources: &[Value]) -> Value {
    let metadata = name.map_or_else(|| json!({}), |name| json!({"name": name}));
    json!({"metadata": metadata, "versions": [{"version": "v1", "resources": resources, "freshness": "Current"}]})
}

fn aggregated_kind(kind: Kind) -> Value {
    let response = json!({"group": "", "version": "v1", "kind": kind.as_str()});
    let mut resource = json!({
        "resource": kind.resource(), "responseKind": response, "singularResource": kind.singular(), "verbs": READS,
        "scope": if kind.is_namespaced() { "Namespaced" } else { "Cluster" },
    });
    if let Some(fields) = resource.as_object_mut() {
        if let Some(short) = kind.short_name() {
            fields.insert("shortNames".to_owned(), json!([short]));
        }
        if kind == Kind::Pod {
            fields.insert("categories".to_owned(), json!(["all"]));
        }
        if kind.has_status() {
            let status = json!({"subresource": "status", "responseKind": response, "verbs": ["get"]});
            fields.insert("subresources".to_owned(), json!([status]));
        }
    }
    resource
}

fn aggregated_review(review: &Review) -> Value {
    json!({
        "resource": review.resource, "singularResource": review.kind.to_lowercase(), "scope": "Cluster",
        "responseKind": {"group": review.group, "version": "v1", "kind": review.kind}, "verbs": ["create"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_aggregated_form_is_given_to_those_who_prefer_it() {
        let check = |accept: &str, expected| {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(accept).unwrap())]);
            assert_eq!(wants_aggregated(&headers), expected, "{accept}");
        };
        check("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json", true);
        check("application/json; as=APIGroupDiscoveryList; v=v2; g=apidiscovery.k8s.io", true);
        check("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", false);
        check("application/json", false);
        check("", false);
    }
}
