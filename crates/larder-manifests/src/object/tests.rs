//! From a document to what is served.

use super::*;
use serde_json::{Value, json};

fn manifest(kind: &str, value: &Value) -> Manifest {
    let node = larder_yaml::yaml_or_json(&value.to_string()).unwrap();
    Manifest::new(ManifestKind::from_name(kind).unwrap(), node).unwrap_or_else(|problem| panic!("{problem}"))
}

fn made(kind: &str, value: &Value) -> Value {
    let mut manifest = manifest(kind, value);
    manifest.settle("n1", "/dir/a.yaml");
    serde_json::from_slice(&manifest.versioned(7)).unwrap()
}

fn pod(name: &str, image: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

#[test]
fn a_secrets_texts_are_merged_into_its_data_as_the_api_server_does() {
    let secret = made(
        "Secret",
        &json!({"metadata": {"name": "s"}, "data": {"a": "b2xk", "b": "Yg=="}, "stringData": {"a": "new", "c": ""}}),
    );
    assert_eq!(secret["data"], json!({"a": "bmV3", "b": "Yg==", "c": ""}));
    assert_eq!((&secret["stringData"], &secret["type"]), (&Value::Null, &"Opaque".into()));
    assert_eq!(
        made("Secret", &json!({"metadata": {"name": "s"}, "type": "kubernetes.io/tls"}))["type"],
        "kubernetes.io/tls"
    );
}

#[test]
fn a_pod_gets_what_the_kubelet_gives_a_static_one() {
    let made = made("Pod", &pod("web", "i"));
    assert_eq!((&made["metadata"]["namespace"], &made["spec"]["nodeName"]), (&"default".into(), &"n1".into()));
    assert_eq!((&made["status"]["phase"], &made["metadata"]["resourceVersion"]), (&"Pending".into(), &"7".into()));
    let uid = made["metadata"]["uid"].as_str().unwrap();
    assert!(uid.len() == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit()), "{uid}");
    assert_eq!(
        made["metadata"]["annotations"],
        json!({"kubernetes.io/config.hash": uid, "kubernetes.io/config.source": "file"})
    );
}

#[test]
fn a_uid_is_the_same_for_the_same_and_another_for_another() {
    let uid = |kind: &str, value: &Value, node: &str, file: &str| {
        let mut manifest = manifest(kind, value);
        manifest.settle(node, file);
        let made: Value = serde_json::from_slice(&manifest.versioned(1)).unwrap();
        made["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let first = uid("Pod", &pod("web", "i"), "n1", "a");
    assert_eq!(first, uid("Pod", &pod("web", "i"), "n1", "a"));
    for (value, node, file) in [
        (pod("web", "j"), "n1", "a"),
        (pod("wec", "i"), "n1", "a"),
        (pod("web", "i"), "n2", "a"),
        (pod("web", "i"), "n1", "b"),
    ] {
        assert_ne!(first, uid("Pod", &value, node, file));
    }
    let map = |data: &str| json!({"metadata": {"name": "m"}, "data": {"a": data}});
    assert_eq!(
        uid("ConfigMap", &map("1"), "n1", "a"),
        uid("ConfigMap", &map("2"), "n1", "a"),
        "a changed one is the same"
    );
    assert_ne!(uid("ConfigMap", &map("1"), "n1", "a"), uid("Secret", &json!({"metadata": {"name": "m"}}), "n1", "a"));

    let with = |meta: Value| {
        let mut value = pod("web", "i");
        value["metadata"] = meta;
        uid("Pod", &value, "n1", "a")
    };
    assert_eq!(with(json!({"name": "web", "uid": "given"})), "given");
    assert_eq!(with(json!({"name": "web", "annotations": {"kubernetes.io/config.hash": "hashed"}})), "hashed");
    assert_eq!(with(json!({"name": "web", "annotations": {"kubernetes.io/config.mirror": "mirrored"}})), "mirrored");
}

#[test]
fn quantities_may_be_numbers() {
    let mut value = pod("web", "i");
    value["spec"]["containers"][0]["resources"] =
        json!({"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"cpu": 0.5}});
    value["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {"sizeLimit": 1024}}]);
    let made = made("Pod", &value);
    assert_eq!(made["spec"]["containers"][0]["resources"]["limits"], json!({"cpu": "2", "memory": "1Gi"}));
    assert_eq!(made["spec"]["containers"][0]["resources"]["requests"]["cpu"], "0.5");
    assert_eq!(made["spec"]["volumes"][0]["emptyDir"]["sizeLimit"], "1024");
}

#[test]
fn names_are_those_that_the_api_server_takes() {
    let long = "a".repeat(254);
    for (name, dots, good) in [
        ("a", true, true),
        ("a-b.c-1", true, true),
        ("0", true, true),
        ("a.b", false, false),
        ("a-b", false, true),
        ("", true, false),
        ("A", true, false),
        ("a_b", true, false),
        ("-a", true, false),
        ("a-", true, false),
        ("a..b", true, false),
        (".a", true, false),
        ("a/b", true, false),
        ("é", true, false),
        (&long, true, false),
        (&long[..253], true, true),
        (&long[..64], false, false),
    ] {
        assert_eq!(is_name(name, dots), good, "{name:?}");
    }
}

#[test]
fn a_version_that_a_manifest_gives_is_passed_over() {
    let mut value = pod("web", "i");
    value["metadata"]["resourceVersion"] = "999".into();
    assert_eq!(made("Pod", &value)["metadata"]["resourceVersion"], "7");
}
