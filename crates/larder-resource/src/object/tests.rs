//! What is read of an object's JSON, and what stays as it came.

use super::*;
use crate::{Node, Pod};
use larder_objects::ObjectTtl;

fn parse(json: &str) -> Result<KubeObject, DecodeError> {
    KubeObject::from_json(Kind::ConfigMap, json.as_bytes())
}

#[test]
fn metadata_is_read_whatever_its_order_and_form() {
    let json = r#" {"binaryData":{"x":"AA=="},"immutable":true,"unknown":[{"a":null}],"data":{"a":"1","b":"2"},
        "metadata":{"labels":{"app":"web","tier\u002fx":"\"quoted\""},"resourceVersion":"7","name":"n\u0061me","uid":"u",
        "creationTimestamp":"2026-01-02T03:04:05Z","namespace":"ns"},"apiVersion":"v1","kind":"ConfigMap"}"#;
    let object = parse(json).unwrap();
    assert_eq!((object.namespace(), object.name(), object.uid()), ("ns", "name", "u"));
    assert_eq!((object.resource_version(), object.type_(), object.entries()), ("7", "", 3));
    assert_eq!(object.labels().collect::<Vec<_>>(), [("app", "web"), ("tier/x", "\"quoted\"")]);
    assert_eq!((object.label("app"), object.label("none")), (Some("web"), None));
    assert_eq!(object.created_at(), Some(1_767_323_045));
    assert!(object.is_immutable());
    assert_eq!(*object.json(), *json.as_bytes());
    assert_eq!(object.key(), ObjectKey::new("ns", "name"));
}

#[test]
fn what_is_null_or_left_out_is_not_set() {
    for rest in ["", r#","data":null,"immutable":null,"type":null"#] {
        let meta = r#""name":"n","labels":null,"uid":null,"creationTimestamp":null,"namespace":null"#;
        let object = parse(&format!(r#"{{"metadata":{{{meta}}}{rest}}}"#)).unwrap();
        assert_eq!((object.namespace(), object.uid(), object.resource_version()), ("", "", ""));
        assert_eq!((object.labels().len(), object.created_at(), object.entries()), (0, None, 0));
        assert!(!object.is_immutable());
    }
}

#[test]
fn kind_and_version_are_put_in_front_where_a_list_left_them_out() {
    let table = [
        (
            "{\"metadata\":{\"name\":\"n\"}}",
            "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"n\"}}",
        ),
        (
            " { \"metadata\":{\"name\":\"n\"},\"kind\":\"ConfigMap\"}",
            "{\"apiVersion\":\"v1\", \"metadata\":{\"name\":\"n\"},\"kind\":\"ConfigMap\"}",
        ),
        (
            "{\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"n\"}}",
            "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"n\"}}",
        ),
    ];
    for (given, kept) in table {
        let object = parse(given).unwrap();
        assert_eq!(*object.json(), *kept.as_bytes());
        assert_eq!(object.name(), "n");
    }
}

#[test]
fn what_is_no_object_of_that_kind_is_refused() {
    let table = [
        "",
        "null",
        "5",
        "[]",
        "\"x\"",
        "{",
        "{}",
        "{\"metadata\":null}",
        "{\"metadata\":{}}",
        "{\"metadata\":{\"name\":\"\"}}",
        "{\"metadata\":{\"name\":5}}",
        "{\"metadata\":[\"ns\",\"n\"]}",
        "[\"ConfigMap\",\"v1\"]",
        "{\"metadata\":{\"name\":\"n\"}}x",
        "{\"kind\":\"Secret\",\"metadata\":{\"name\":\"n\"}}",
        "{\"apiVersion\":\"v2\",\"metadata\":{\"name\":\"n\"}}",
        "{\"metadata\":{\"name\":\"n\"},\"metadata\":{\"name\":\"m\"}}",
        "{\"metadata\":{\"name\":\"n\"},\"data\":[1]}",
        "{\"metadata\":{\"name\":\"n\",\"creationTimestamp\":\"yesterday\"}}",
    ];
    for json in table {
        assert!(parse(json).is_err(), "{json}");
    }
    assert!(KubeObject::from_json(Kind::ConfigMap, b"{\"metadata\":{\"name\":\"\xff\"}}").is_err());
}

#[test]
fn every_beginning_of_an_object_is_refused() {
    let json = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","uid":"u"},"status":{"phase":"Running"}}"#;
    for end in 0..json.len() {
        assert!(Pod::from_json(&json.as_bytes()[..end]).is_err(), "{end}");
    }
    Pod::from_json(json.as_bytes()).unwrap();
}

#[test]
fn a_pod_has_its_runtime_uid_phase_and_node() {
    let pod =
        |rest: &str| Pod::from_json(format!(r#"{{"metadata":{{"name":"p","uid":"api"{rest}}}}}"#).as_bytes()).unwrap();
    let plain = pod("");
    assert_eq!((plain.runtime_uid(), plain.node_name(), plain.phase().as_str()), ("api", "", "Unknown"));
    assert!(!plain.is_mirror() && !plain.is_terminal() && !plain.is_deleting());
    let mirror = pod(
        r#","deletionTimestamp":"2026-01-02T03:04:05Z","annotations":{"a":"b","kubernetes.io/config.mirror":"static"}"#,
    );
    assert_eq!((mirror.runtime_uid(), mirror.uid()), ("static", "api"));
    assert!(mirror.is_mirror() && mirror.is_deleting());
    let ended = |phase: &str| {
        Pod::from_json(format!(r#"{{"metadata":{{"name":"p"}},"status":{{"phase":"{phase}"}}}}"#).as_bytes()).unwrap()
    };
    for (phase, terminal) in
        [("Pending", false), ("Running", false), ("Succeeded", true), ("Failed", true), ("Odd", false)]
    {
        let pod = ended(phase);
        assert_eq!(pod.is_terminal(), terminal);
        assert_eq!(pod.phase().to_string(), if phase == "Odd" { "Unknown" } else { phase });
    }
    assert_eq!(plain.typed().unwrap().metadata.uid.as_deref(), Some("api"));
}

#[test]
fn the_nodes_ttl_is_read_as_the_kubelet_reads_it() {
    let ttl = |annotations: &str| {
        Node::from_json(format!(r#"{{"metadata":{{"name":"n","annotations":{annotations}}}}}"#).as_bytes())
            .unwrap()
            .object_ttl()
            .map(ObjectTtl::as_nanos)
    };
    assert_eq!(ttl(r#"{"node.alpha.kubernetes.io/ttl":"30","b":"c"}"#), Some(30_000_000_000));
    assert_eq!(ttl(r#"{"node.alpha.kubernetes.io/ttl":"\u0030"}"#), Some(0));
    for none in ["null", "{}", r#"{"node.alpha.kubernetes.io/ttl":"1m"}"#] {
        assert_eq!(ttl(none), None);
    }
}

#[test]
fn an_object_costs_little_more_than_its_json() {
    let json = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"ns","name":"n","uid":"u","resourceVersion":"1"}}"#;
    let object = parse(json).unwrap();
    assert!(object.memory() - json.len() <= 100, "{}", object.memory() - json.len());
}

#[test]
fn what_stands_behind_the_json_is_not_served() {
    let json = r#"{"kind":"Secret","apiVersion":"v1","metadata":{"namespace":"n\u0073","name":"\u006e","uid":"\u0075",
        "labels":{"\u0061":"\u00e9","b":""}}}"#;
    let object = Arc::new(KubeObject::from_json(Kind::Secret, json.as_bytes()).unwrap());
    assert_eq!((object.namespace(), object.name(), object.uid(), object.type_()), ("ns", "n", "u", ""));
    assert_eq!(object.labels().collect::<Vec<_>>(), [("a", "é"), ("b", "")]);
    assert_eq!(*object.json(), *json.as_bytes());
    let shared = json_of(Arc::clone(&object));
    drop(object);
    assert_eq!(shared.concat(), json.as_bytes());
}

#[test]
fn an_object_in_two_blocks_reads_as_in_one() {
    let mut cut = 0;
    // The end of the first block comes to lie in each of the strings.
    for data in 3800..4100 {
        let json = format!(
            r#"{{"kind":"Secret","apiVersion":"v1","data":{{"a":"{}"}},"metadata":{{"namespace":"web","name":"tls","uid":"u1",
            "resourceVersion":"77","labels":{{"tier":"fr\u006fnt","app":"shop"}}}},"type":"kubernetes.io/tls"}}"#,
            "x".repeat(data)
        );
        let object = Arc::new(KubeObject::from_json(Kind::Secret, json.as_bytes()).unwrap());
        let strings = (object.namespace(), object.name(), object.uid(), object.resource_version(), object.type_());
        assert_eq!(strings, ("web", "tls", "u1", "77", "kubernetes.io/tls"), "{data}");
        assert_eq!(object.labels().collect::<Vec<_>>(), [("tier", "front"), ("app", "shop")], "{data}");
        assert_eq!(*object.json(), *json.as_bytes());
        let shared = json_of(object);
        cut += usize::from(!shared[1].is_empty());
        assert_eq!(shared.concat(), json.as_bytes(), "{data}");
    }
    assert!(cut > 200, "{cut} of them are in two blocks");
    let pod = |data: usize| {
        let annotations = format!(r#"{{"a":"{}","kubernetes.io/config.mirror":"static"}}"#, "x".repeat(data));
        let json =
            format!(r#"{{"metadata":{{"name":"p","annotations":{annotations}}},"spec":{{"nodeName":"node-1"}}}}"#);
        Pod::from_json(json.as_bytes()).unwrap()
    };
    assert!((3900..4100).map(pod).all(|pod| (pod.runtime_uid(), pod.node_name()) == ("static", "node-1")));
}

#[test]
fn debug_never_shows_data() {
    let json = r#"{"metadata":{"namespace":"web","name":"tls"},"data":{"password":"c2VjcmV0"}}"#;
    let object = KubeObject::from_json(Kind::Secret, json.as_bytes()).unwrap();
    let text = format!("{object:?} {object:#?}");
    assert!(text.contains("tls") && !text.contains("c2VjcmV0"), "{text}");
}

#[test]
fn a_newline_behind_an_object_is_not_of_the_object() {
    let object = KubeObject::from_json(
        Kind::ConfigMap,
        b"{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}}\n",
    )
    .unwrap();
    assert_eq!(object.json().to_vec(), br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}"#);
}
