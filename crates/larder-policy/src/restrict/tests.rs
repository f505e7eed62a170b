//! Parts of objects, compared with a naive filter, also of JSON that no API server writes.

use super::*;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value};

fn part(json: &str, kind: Kind, extent: &Extent) -> Result<String, DecodeError> {
    restrict(json.as_bytes(), kind, extent).map(|part| String::from_utf8(part.to_vec()).unwrap())
}

fn check(json: &str, kind: Kind, extent: &Extent, wants: &str) {
    assert_eq!(part(json, kind, extent).as_deref(), Ok(wants), "{json}");
}

#[test]
fn a_part_has_the_fields_that_are_named() {
    let json = r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "shop", "generateName": "d",
        "uid": "u", "resourceVersion": "7", "generation": 2, "creationTimestamp": null, "labels": {"app":"web"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "all of it"}, "managedFields": [{"manager": "m"}],
        "ownerReferences": [{"name": "o"}], "finalizers": ["f"], "selfLink": "s", "unknown": 1},
        "type": "Opaque", "immutable": true, "data": {"a": "YQ==", "b": "Yg=="}, "stringData": {"a": "a"}, "spec": {}}"#;
    let metadata = r#""metadata":{"name":"db","namespace":"shop","uid":"u","resourceVersion":"7","generation":2,"creationTimestamp":null,"labels":{"app":"web"}}"#;
    let head = format!(r#"{{"apiVersion":"v1","kind":"Secret",{metadata}"#);
    let a = Extent::of_keys(Keys::named(["a", "absent"]));
    let data = r#""type":"Opaque","immutable":true,"data":{"a":"YQ=="},"stringData":{"a":"a"}}"#;
    check(json, Kind::Secret, &a, &format!("{head},{data}"));
    check(json, Kind::Secret, &Extent::identity(), &format!("{head}}}"));
    check(json, Kind::Pod, &a, &format!("{head}}}"));
    check(json, Kind::Secret, &Extent::node(), &format!("{head}}}").replace(r#"{"app":"web"}"#, "{}"));
    check(json, Kind::Secret, &Extent::Whole, json);
}

#[test]
fn names_are_read_as_a_reader_of_json_reads_them() {
    let a = Extent::of_keys(Keys::named(["a"]));
    let config_map = |json: &str, wants: &str| check(json, Kind::ConfigMap, &a, wants);
    config_map(r#"{"d\u0061ta": {"\u0061": 1, "\u0062": 2}}"#, r#"{"data":{"a":1}}"#);
    config_map(r#"{"Data": {"a": 1}, "DATA": {"a": 1}, "data ": {"a": 1}, "data\u0000": {"a": 1}}"#, "{}");
    config_map(r#"{"data": {"a": 1, "b": 2, "a": 3}, "data": {"b": 4}}"#, r#"{"data":{"a":1,"a":3},"data":{}}"#);
    config_map(r#"{"data": {"a": null, "b": null}, "binaryData": null}"#, r#"{"data":{"a":null},"binaryData":null}"#);
    config_map(r#"{"metadata": null}"#, r#"{"metadata":null}"#);
    config_map("{}", "{}");
}

#[test]
fn a_map_that_is_no_object_is_an_error_without_a_value() {
    let a = Extent::of_keys(Keys::named(["a"]));
    for value in [r#""marker""#, r#"["marker"]"#, "12345", "true"] {
        for name in ["metadata", "data", "binaryData", "stringData"] {
            let error = part(&format!(r#"{{"{name}": {value}}}"#), Kind::Secret, &a).unwrap_err();
            assert!(!format!("{error} {error:?}").contains(value.trim_matches(['"', '[', ']'])), "{error:?}");
        }
        assert!(part(value, Kind::Secret, &a).is_err());
        assert!(part(&format!(r#"{{"metadata": {{"labels": {value}}}}}"#), Kind::Node, &Extent::node()).is_err());
    }
    for json in ["", "null", "{", r#"{"data": {"a": "#, r#"{"data": {}} {}"#, r#"{"\ud800": 1}"#] {
        assert!(part(json, Kind::Secret, &a).is_err(), "{json}");
    }
    assert!(restrict(b"{\"data\": {\"a\": \"\xff\"}}", Kind::Secret, &a).is_err());
}

#[test]
fn deep_nesting_is_passed_over() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    check(&format!(r#"{{"spec": {deep}, "kind": "Pod"}}"#), Kind::Pod, &Extent::identity(), r#"{"kind":"Pod"}"#);
}

const FIELDS: [&str; 15] = [
    "apiVersion",
    "kind",
    "metadata",
    "metadata",
    "data",
    "data",
    "binaryData",
    "stringData",
    "type",
    "immutable",
    "spec",
    "status",
    "Data",
    "Metadata",
    "items",
];
const METADATA: [&str; 16] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "managedFields",
    "ownerReferences",
    "finalizers",
    "generateName",
    "Labels",
    "data",
];
const LABELS: [&str; 4] = ["kubernetes.io/os", "topology.kubernetes.io/zone", "team", "Kubernetes.io/os"];
const KEYS: [&str; 6] = ["a", "b", "A", "a\"\\\n", "é", ""];

/// Whether a value may be seen, by its path.
fn is_seen(path: &[&str], has_data: bool, extent: &Extent) -> bool {
    let Extent::Part { metadata, keys } = extent else { return true };
    match path {
        ["apiVersion" | "kind"] => true,
        ["type" | "immutable"] => has_data,
        ["data" | "binaryData" | "stringData", key] => has_data && keys.has(key),
        ["metadata", "labels", label] => *metadata == Metadata::Identity || NODE_LABELS.contains(label),
        ["metadata", field] => METADATA[..8].contains(field),
        _ => false,
    }
}

/// Those fields below a path that may be seen, and the maps that have them.
fn naive(value: &Value, path: &[&str], has_data: bool, extent: &Extent) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let mut seen = Map::new();
    for (name, value) in fields {
        let path = [path, &[name.as_str()]].concat();
        let is_map = match path[..] {
            ["metadata"] | ["metadata", "labels"] => true,
            ["data" | "binaryData" | "stringData"] => has_data,
            _ => false,
        };
        if is_map {
            seen.insert(name.clone(), naive(value, &path, has_data, extent));
        } else if is_seen(&path, has_data, extent) {
            seen.insert(name.clone(), value.clone());
        }
    }
    Value::Object(seen)
}

/// Names of fields, whether each is written with escapes, and the space around it.
fn fields(names: &'static [&'static str]) -> impl Strategy<Value = Vec<(&'static str, bool, &'static str)>> {
    proptest::collection::vec((select(names), any::<bool>(), select(vec!["", " ", "\n\t"])), 0..8)
}

fn write(names: &[(&str, bool, &str)], mut value: impl FnMut(&str) -> String) -> String {
    let fields = names.iter().map(|(name, escaped, space)| {
        let text = match escaped {
            true => {
                let units: Vec<_> = name.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
                format!("\"{}\"", units.concat())
            }
            false => serde_json::to_string(name).unwrap(),
        };
        format!("{space}{text}{space}:{space}{}{space}", value(name))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Fields may stand twice, in any order, with escaped names.
    #[test]
    fn a_part_has_all_that_may_be_seen_and_nothing_else(
        top in fields(&FIELDS),
        metadata in fields(&METADATA),
        labels in fields(&LABELS),
        data in fields(&KEYS),
        kind in select(&Kind::ALL[..]),
        granted in proptest::option::of(proptest::collection::vec(select(&KEYS[..]), 0..3)),
        whole_labels in any::<bool>(),
        nested in any::<bool>(),
    ) {
        let keys = granted.map_or(Keys::All, Keys::named);
        let has_data = kind.object_kind().is_some() && keys != Keys::none();
        let metadata_extent = if whole_labels { Metadata::Identity } else { Metadata::Node };
        let extent = Extent::Part { metadata: metadata_extent, keys };
        let mut seen = 0;
        let mut leaf = |path: &[&str]| match is_seen(path, has_data, &extent) {
            true => {
                seen += 1;
                "\"shown\"".to_owned()
            }
            false if nested => r#"{"a": "hidden", "data": {"a": ["hidden"]}}"#.to_owned(),
            false => "\"hidden\"".to_owned(),
        };
        let json = write(&top, |field| match field {
            "metadata" => write(&metadata, |field| match field {
                "labels" => write(&labels, |label| leaf(&["metadata", "labels", label])),
                _ => leaf(&["metadata", field]),
            }),
            "data" | "binaryData" | "stringData" => write(&data, |key| leaf(&[field, key])),
            _ => leaf(&[field]),
        });
        let part = part(&json, kind, &extent).unwrap();
        prop_assert!(part.len() <= json.len());
        prop_assert!(!part.contains("hidden"), "{part}");
        prop_assert_eq!(part.matches("shown").count(), seen);
        let whole: Value = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&part).unwrap(), naive(&whole, &[], has_data, &extent));
    }

    #[test]
    fn any_text_is_an_error_or_has_a_part_that_is_not_longer(text in r#"[\{\}\[\]:,"\\ adtu01]{0,40}"#) {
        let json = format!(r#"{{"data":{text}"#);
        for json in [&json, &text] {
            if let Ok(part) = part(json, Kind::Secret, &Extent::of_keys(Keys::named(["a"]))) {
                prop_assert!(part.len() <= json.len());
                prop_assert!(serde_json::from_str::<&RawValue>(&part).is_ok());
            }
        }
    }
}
