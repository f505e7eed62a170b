//! Cells of each kind, and the documents around them. `cargo xtask differential --tables N` compares them with upstream's.

use super::*;
use serde_json::json;

fn now() -> Timestamp {
    "2026-01-02T00:00:00Z".parse().unwrap()
}

/// The cells, as words.
fn cells(kind: Kind, object: &Value) -> Vec<String> {
    let json = object.to_string();
    let row = row(kind, json.as_bytes(), now()).unwrap_or_else(|error| panic!("{error}: {json}"));
    assert_eq!(row.cells.len(), columns(kind).len(), "{json}");
    row.cells.iter().map(|cell| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned)).collect()
}

#[test]
fn every_kind_has_a_row_for_an_object_without_fields() {
    for (kind, expected) in [
        (Kind::Secret, "|Opaque|0|<unknown>"),
        (Kind::ConfigMap, "|0|<unknown>"),
        (Kind::Pod, "|0/0||0|<unknown>|<none>|<none>|<none>|<none>"),
        (Kind::Node, "|Unknown|<none>|<unknown>||<none>|<none>|<unknown>|<unknown>|<unknown>"),
        (Kind::Namespace, "|Active|<unknown>"),
    ] {
        let nulls =
            json!({"metadata": null, "spec": null, "status": null, "data": null, "binaryData": null, "type": null});
        let inner = json!({"metadata": {"name": null, "creationTimestamp": null, "labels": null, "annotations": null},
            "spec": {"containers": null, "nodeName": null}, "status": {"conditions": null, "nodeInfo": null, "phase": null}});
        for object in [json!({}), nulls, inner] {
            assert_eq!(cells(kind, &object).join("|"), expected, "{kind:?} {object}");
        }
    }
}

#[test]
fn objects_are_put_in_cells() {
    let metadata = json!({"name": "a", "creationTimestamp": "2026-01-01T23:00:00Z"});
    let node = json!({
        "metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {
            "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/": "x", "node-role.kubernetes.io/control-plane": "",
            "kubernetes.io/role": "edge", "other": "y"}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}],
            "addresses": [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.1"},
                {"type": "InternalIP", "address": "fd00::1"}, {"type": "ExternalIP", "address": "1.2.3.4"}],
            "nodeInfo": {"kubeletVersion": "v1.37.2", "osImage": "Debian", "kernelVersion": "6.12", "architecture": "amd64",
                "containerRuntimeVersion": "containerd://2.4.0"}}});
    for (kind, object, expected) in [
        (Kind::Secret, json!({"metadata": metadata, "type": "t", "data": {"a": "", "b": null}}), "a|t|2|60m"),
        (Kind::Secret, json!({"data": {"a": "", "b": ""}, "stringData": {"b": "", "c": ""}}), "|Opaque|3|<unknown>"),
        (Kind::ConfigMap, json!({"metadata": metadata, "data": {"a": ""}, "binaryData": {"b": ""}}), "a|2|60m"),
        (Kind::Namespace, json!({"metadata": metadata, "status": {"phase": "Terminating"}}), "a|Terminating|60m"),
        (
            Kind::Node,
            node,
            "n|Ready,SchedulingDisabled|control-plane,edge,worker|24h|v1.37.2|10.0.0.1|1.2.3.4|Debian|6.12 (amd64)|\
             containerd://2.4.0",
        ),
        (
            Kind::Node,
            json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Ready", "status": "Unknown"}],
                "nodeInfo": {"architecture": "arm64"}}}),
            "|NotReady|<none>|<unknown>||<none>|<none>|<unknown>|<unknown> (arm64)|<unknown>",
        ),
    ] {
        assert_eq!(cells(kind, &object).join("|"), expected, "{object}");
    }
}

#[test]
fn what_is_read_is_checked_and_named() {
    for (kind, object, field) in [
        (Kind::Pod, json!({"metadata": {"name": 5}}), "metadata.name"),
        (Kind::Pod, json!({"metadata": []}), "metadata"),
        (Kind::Pod, json!({"metadata": {"creationTimestamp": "yesterday"}}), "metadata.creationTimestamp"),
        (Kind::Pod, json!({"spec": {"containers": {}}}), "spec.containers"),
        (Kind::Pod, json!({"spec": {"containers": [5]}}), "spec.containers[0]"),
        (Kind::Pod, json!({"status": {"podIPs": [{}, {"ip": []}]}}), "status.podIPs[1].ip"),
        (
            Kind::Pod,
            json!({"status": {"containerStatuses": [{"restartCount": 2_147_483_648_i64}]}}),
            "status.containerStatuses[0].restartCount",
        ),
        (
            Kind::Pod,
            json!({"status": {"initContainerStatuses": [{"state": {"terminated": {"exitCode": "1"}}}]}}),
            "status.initContainerStatuses[0].state.terminated.exitCode",
        ),
        (Kind::Node, json!({"metadata": {"labels": {"a": {}}}}), "metadata.labels.a"),
        (Kind::Node, json!({"spec": {"unschedulable": "true"}}), "spec.unschedulable"),
        (Kind::Secret, json!({"data": ["c2VjcmV0"]}), "data"),
        (Kind::Secret, json!({"type": true}), "type"),
        (Kind::Namespace, json!({"status": "Active"}), "status"),
    ] {
        let json = object.to_string();
        let error = row(kind, json.as_bytes(), now()).unwrap_err();
        assert!(matches!(&error, DecodeError::WrongType { field: at, .. } if **at == *field), "{json}: {error:?}");
        assert!(error.to_string().starts_with(&format!("the field {field} has the wrong type")), "{error}");
    }
    for kind in Kind::ALL {
        assert!(matches!(row(kind, b"[]", now()), Err(DecodeError::Shape { .. })));
        assert!(matches!(row(kind, b"{\"metadata\":", now()), Err(DecodeError::Truncated { .. })));
        assert!(matches!(row(kind, b"{}{}", now()), Err(DecodeError::Syntax { .. })));
        assert!(row(kind, b"{\"metadata\":{\"name\":\"\xff\"}}", now()).is_err());
    }
}

#[test]
fn documents_are_those_of_the_api_server() {
    let pod = Bytes::from(
        r#"{"kind":"Pod","metadata":{"name":"a","resourceVersion":"5","new":1e400},"status":{"phase":"Failed"},"new":null}"#,
    );
    let cells = r#""cells":["a","0/0","Failed","0","<unknown>","<none>","<none>","<none>","<none>"]"#;
    let conditions =
        r#""conditions":[{"type":"Completed","status":"True","reason":"Failed","message":"The pod failed."}]"#;
    let partial = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","resourceVersion":"5","new":1e400}}"#;
    let whole = std::str::from_utf8(&pod).unwrap();
    for (include, object) in
        [(IncludeObject::None, "null"), (IncludeObject::Metadata, partial), (IncludeObject::Object, whole)]
    {
        let table = Table { kind: Kind::Pod, include, with_columns: false };
        let row = format!("{{{cells},{conditions},\"object\":{object}}}");
        let head = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":"#;
        let middle = r#","columnDefinitions":null,"rows":["#;
        let one = table.object(&pod, now()).unwrap().concat();
        let expected = format!(r#"{head}{{"resourceVersion":"5"}}{middle}{row}]}}"#);
        assert_eq!(String::from_utf8(one).unwrap(), expected);
        let two = table.list("7", [pod.clone(), pod.clone()], now()).unwrap().concat();
        let expected = format!(r#"{head}{{"resourceVersion":"7"}}{middle}{row},{row}]}}"#);
        assert_eq!(String::from_utf8(two).unwrap(), expected);
        let none = table.list("", [], now()).unwrap().concat();
        assert_eq!(String::from_utf8(none).unwrap(), format!("{head}{{}}{middle}]}}"));
    }
}

#[test]
fn columns_are_given_where_they_are_asked_for() {
    for kind in Kind::ALL {
        let table = Table { kind, include: IncludeObject::None, with_columns: true };
        let document: Value = serde_json::from_slice(&table.list("1", [], now()).unwrap().concat()).unwrap();
        let given = document["columnDefinitions"].as_array().unwrap();
        assert_eq!(given.len(), columns(kind).len());
        assert_eq!(given[0]["format"], "name");
        for (given, column) in given.iter().zip(columns(kind)) {
            assert_eq!(given["name"], column.name);
            assert_eq!(given["type"], "string");
            assert_eq!(given["priority"], column.priority);
            assert_eq!(given["description"], column.description);
        }
    }
}

/// The bytes of a whole object are the ones that came in, so a Secret's values lie in no other place.
#[test]
fn whole_objects_are_not_copied() {
    let secret = Bytes::from(r#"{"metadata":{"name":"a"},"data":{"key":"c2VjcmV0"}}"#);
    let table = Table { kind: Kind::Secret, include: IncludeObject::Object, with_columns: true };
    let parts = table.list("1", [secret.clone()], now()).unwrap();
    let (whole, rest): (Vec<_>, Vec<_>) = parts.iter().partition(|part| part.as_ptr() == secret.as_ptr());
    assert_eq!(whole, [&secret]);
    assert!(rest.iter().all(|part| !String::from_utf8_lossy(part).contains("c2VjcmV0")));
}

#[test]
fn rows_show_no_values_of_secrets() {
    let secret = Bytes::from(
        r#"{"metadata":{"name":"a","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"c2VjcmV0"},
            "managedFields":[{"fieldsV1":{"f:data":{"f:key":{}}}}]},"data":{"key":"c2VjcmV0"}}"#,
    );
    for include in [IncludeObject::None, IncludeObject::Metadata] {
        let table = Table { kind: Kind::Secret, include, with_columns: true };
        let text = String::from_utf8(table.object(&secret, now()).unwrap().concat()).unwrap();
        assert!(!text.contains("c2VjcmV0") && !text.contains("f:key"), "{text}");
    }
}

#[test]
fn a_bookmark_is_a_row_of_an_object_without_fields() {
    let json = Bytes::from(r#"{"kind":"Pod","metadata":{"resourceVersion":"9"}}"#);
    let end = Bytes::from(
        r#"{"kind":"Pod","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}"#,
    );
    for kind in Kind::ALL {
        let table = Table { kind, include: IncludeObject::None, with_columns: false };
        let row = |json| {
            let document = table.bookmark(json).unwrap().concat();
            let mut document: Value = serde_json::from_slice(&document).unwrap();
            assert_eq!(document["metadata"]["resourceVersion"], "9");
            document["rows"][0].take()
        };
        assert_eq!(row(&json)["object"], Value::Null);
        // The end of the initial events must reach a client that asked for no metadata.
        assert_eq!(row(&end)["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
        assert_eq!(row(&end)["cells"][0], "");
    }
}
