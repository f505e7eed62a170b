//! Reviews in protobuf, in which kubectl and other clients in Go send them (`generated.proto` of `k8s.io/api` and
//! `k8s.io/apimachinery`). Answers are JSON, which all of these accept.

use prost::Message as _;
use serde_json::{Value, json};

/// What a message of the Kubernetes API begins with.
const MAGIC: &[u8] = b"k8s\0";

/// `runtime.Unknown`
#[derive(Clone, PartialEq, prost::Message)]
struct Envelope {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", optional, tag = "2")]
    raw: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TypeMeta {
    #[prost(string, optional, tag = "1")]
    api_version: Option<String>,
    #[prost(string, optional, tag = "2")]
    kind: Option<String>,
}

/// Any of the three reviews: of a `SelfSubjectAccessReview` it has all, of the others what they have.
#[derive(Clone, PartialEq, prost::Message)]
struct Review {
    #[prost(message, optional, tag = "2")]
    spec: Option<Spec>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Spec {
    #[prost(message, optional, tag = "1")]
    resource: Option<ResourceAttributes>,
    #[prost(message, optional, tag = "2")]
    non_resource: Option<NonResourceAttributes>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ResourceAttributes {
    #[prost(string, optional, tag = "1")]
    namespace: Option<String>,
    #[prost(string, optional, tag = "2")]
    verb: Option<String>,
    #[prost(string, optional, tag = "3")]
    group: Option<String>,
    #[prost(string, optional, tag = "4")]
    version: Option<String>,
    #[prost(string, optional, tag = "5")]
    resource: Option<String>,
    #[prost(string, optional, tag = "6")]
    subresource: Option<String>,
    #[prost(string, optional, tag = "7")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct NonResourceAttributes {
    #[prost(string, optional, tag = "1")]
    path: Option<String>,
    #[prost(string, optional, tag = "2")]
    verb: Option<String>,
}

/// `SelfSubjectRulesReview`
#[derive(Clone, PartialEq, prost::Message)]
struct RulesReview {
    #[prost(message, optional, tag = "2")]
    spec: Option<RulesSpec>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RulesSpec {
    #[prost(string, optional, tag = "1")]
    namespace: Option<String>,
}

/// The review as JSON.
///
/// # Errors
///
/// What is wrong with the message.
pub(super) fn to_json(body: &[u8]) -> Result<Value, String> {
    let body = body.strip_prefix(MAGIC).ok_or("does not begin as protobuf of the Kubernetes API does (k8s\\0)")?;
    let bad = |error: prost::DecodeError| format!("is no protobuf of the Kubernetes API: {error}");
    let envelope = Envelope::decode(body).map_err(bad)?;
    let meta = envelope.type_meta.unwrap_or_default();
    let raw = envelope.raw.unwrap_or_default();
    let kind = meta.kind.unwrap_or_default();
    let spec = match kind.as_str() {
        "SelfSubjectAccessReview" => {
            let spec = Review::decode(&*raw).map_err(bad)?.spec.unwrap_or_default();
            json!({
                "resourceAttributes": spec.resource.map(|of| without_empty(json!({
                    "namespace": of.namespace, "verb": of.verb, "group": of.group, "version": of.version,
                    "resource": of.resource, "subresource": of.subresource, "name": of.name,
                }))),
                "nonResourceAttributes":
                    spec.non_resource.map(|of| without_empty(json!({"path": of.path, "verb": of.verb}))),
            })
        }
        "SelfSubjectRulesReview" => {
            let spec = RulesReview::decode(&*raw).map_err(bad)?.spec.unwrap_or_default();
            json!({"namespace": spec.namespace})
        }
        _ => json!({}),
    };
    Ok(json!({"apiVersion": meta.api_version, "kind": kind, "spec": without_empty(spec)}))
}

fn without_empty(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null() && value != "");
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, raw: Vec<u8>) -> Vec<u8> {
        let type_meta =
            TypeMeta { api_version: Some("authorization.k8s.io/v1".to_owned()), kind: Some(kind.to_owned()) };
        [MAGIC, &Envelope { type_meta: Some(type_meta), raw: Some(raw) }.encode_to_vec()].concat()
    }

    #[test]
    fn a_review_is_read_as_from_json() {
        let resource = ResourceAttributes {
            verb: Some("list".to_owned()),
            resource: Some("pods".to_owned()),
            group: Some(String::new()),
            ..ResourceAttributes::default()
        };
        let review = Review { spec: Some(Spec { resource: Some(resource), non_resource: None }) };
        assert_eq!(
            to_json(&message("SelfSubjectAccessReview", review.encode_to_vec())).unwrap(),
            json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}},
            })
        );
        let rules = RulesReview { spec: Some(RulesSpec { namespace: Some("web".to_owned()) }) };
        let rules = to_json(&message("SelfSubjectRulesReview", rules.encode_to_vec())).unwrap();
        assert_eq!(rules["spec"], json!({"namespace": "web"}));
    }

    #[test]
    fn what_is_no_message_is_refused_and_never_a_panic() {
        let whole = message("SelfSubjectAccessReview", Review { spec: Some(Spec::default()) }.encode_to_vec());
        for len in 0..whole.len() {
            let _ = to_json(&whole[..len]);
        }
        assert!(to_json(b"{}").unwrap_err().contains("k8s"));
        assert!(to_json(b"k8s\0\xff\xff").is_err());
        assert!(to_json(&message("SelfSubjectAccessReview", vec![0xff; 20])).is_err());
    }
}
