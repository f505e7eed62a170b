//! Bytes that are not what they should be. Each error names its place, and no value.

use super::golden::{Pair, pairs};
use larder_protobuf::{Message, Problem, ProtobufError, json_to_protobuf, protobuf_to_json};

/// Those that are changed at each of their bytes.
fn short_pairs() -> impl Iterator<Item = Pair> {
    pairs().into_iter().filter(|pair| pair.json.len() < 1_500)
}

#[test]
fn protobuf_that_ends_early_is_refused_or_is_less() {
    for Pair { message, protobuf, its_json, .. } in short_pairs() {
        for len in 0..protobuf.len() {
            if let Ok(json) = protobuf_to_json(message, &protobuf[..len]) {
                assert!(json.bytes.len() <= its_json.len() + 64, "{message}");
            }
        }
    }
}

#[test]
fn json_that_ends_early_is_refused() {
    for Pair { message, json, .. } in short_pairs() {
        for len in 0..json.len() {
            assert!(json_to_protobuf(message, &json.as_bytes()[..len]).is_err(), "{}", &json[..len.min(40)]);
        }
    }
}

#[test]
fn a_changed_byte_is_never_a_panic() {
    for Pair { message, mut protobuf, json, .. } in short_pairs() {
        let mut json = json.into_bytes();
        for at in 0..protobuf.len().max(json.len()) {
            for change in [0x01, 0x80, 0xff] {
                if let Some(byte) = protobuf.get_mut(at) {
                    *byte ^= change;
                    let _ = protobuf_to_json(message, &protobuf);
                    protobuf[at] ^= change;
                }
                if let Some(byte) = json.get_mut(at) {
                    *byte ^= change;
                    let _ = json_to_protobuf(message, &json);
                    json[at] ^= change;
                }
            }
        }
    }
}

#[test]
fn bad_protobuf_is_refused_with_its_place() {
    let table: [(Message, &[u8], &str); 21] = [
        (Message::Pod, b"\x0a", "metadata, at byte 1: the bytes end within a value"),
        (Message::Pod, b"\x0a\x02\x0a", "metadata, at byte 1: a value is longer than what it is in"),
        (
            Message::Pod,
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "metadata, at byte 1: a value is longer than what it is in",
        ),
        (
            Message::Pod,
            b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
            "metadata, at byte 1: a number has more than 64 bits",
        ),
        (Message::Pod, b"\x02\x00", "at byte 0: no field can have this number"),
        (Message::Pod, b"\xfa\xff\xff\xff\x7f\x00", "at byte 0: no field can have this number"),
        (Message::Pod, b"\x08\x01", "metadata, at byte 1: the field has wire type 0"),
        (Message::Pod, b"\x0b\x0c", "metadata, at byte 1: the field has wire type 3"),
        (Message::Pod, b"\x9b\x06\x9c\x06", "at byte 2: a group of protobuf"),
        (Message::Pod, b"\x9c\x06", "at byte 2: a group of protobuf"),
        (Message::Pod, b"\x9d\x06\x00", "at byte 2: the bytes end within a value"),
        (Message::Pod, b"\x9f\x06\x00", "at byte 2: the field has wire type 7"),
        (Message::Pod, b"\x0a\x00\x0a\x00", "metadata, at byte 3: the field or the key stands twice"),
        // The second environment variable of the first container has a name that is a number.
        (
            Message::Pod,
            b"\x12\x08\x12\x06\x3a\x00\x3a\x02\x08\x01",
            "spec.containers[0].env[1].name, at byte 9: the field has wire type 0",
        ),
        (Message::ConfigMap, b"\x12\x03\x12\x01v", "data, at byte 2: an entry of a map has no key"),
        (Message::ConfigMap, b"\x12\x02\x08\x01", "data, at byte 3: the field has wire type 0"),
        (
            Message::ConfigMap,
            b"\x12\x03\x0a\x01k\x12\x03\x0a\x01k",
            "data, at byte 1: the field or the key stands twice",
        ),
        (
            Message::Pod,
            b"\x12\x0a\x82\x02\x07\x0a\x01c\x12\x02\x0a\x00",
            "spec.overhead, at byte 10: it is no quantity",
        ),
        (
            Message::Pod,
            b"\x0a\x0c\x42\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
            "metadata.creationTimestamp, at byte 4: it is no time",
        ),
        (Message::WatchEvent, b"\x12\x03\x0a\x01{", "object, at byte 5: the bytes end within a value"),
        (
            Message::WatchEvent,
            b"\x12\x0a\x0a\x08k8s\0\x0a\x02\x0a\x00",
            "object, at byte 4: it is neither JSON nor protobuf",
        ),
    ];
    for (message, bytes, expected) in table {
        let error = protobuf_to_json(message, bytes).unwrap_err().to_string();
        let expected = format!("protobuf of a {message}: {expected}");
        assert!(error.starts_with(&expected), "{error:?}, and not {expected:?}, of {bytes:?}");
    }
}

#[test]
fn bad_json_is_refused_with_its_place() {
    let table = [
        ("", "at byte 0: the bytes end within a value"),
        ("[]", "at byte 0: it is not an object"),
        (r#"{"kind":"Node"}"#, "at byte 0: the object is of another kind or version"),
        (r#"{"kind":1}"#, "at byte 0: the object is of another kind or version"),
        (r#"{"apiVersion":"v2"}"#, "at byte 0: the object is of another kind or version"),
        (r#"{"spec":{"containers":{}}}"#, "spec.containers, at byte 22: it is not an array"),
        (
            r#"{"spec":{"containers":[{"name":"a"},{"name":7}]}}"#,
            "spec.containers[1].name, at byte 44: it is not a string",
        ),
        (r#"{"spec":{"priority":1.0}}"#, "spec.priority, at byte 20: it is not a whole number of 32 bits"),
        (r#"{"spec":{"priority":2147483648}}"#, "spec.priority, at byte 20: it is not a whole number of 32 bits"),
        (r#"{"spec":{"hostPID":"true"}}"#, "spec.hostPID, at byte 20: it is not true or false"),
        (r#"{"spec":{"hostPID":true,"hostPID":true}}"#, "spec, at byte 25: the field or the key stands twice"),
        (r#"{"spec":{"volumes":[{"emptyDir":[]}]}}"#, "spec.volumes[0].emptyDir, at byte 32: it is not an object"),
        (r#"{"spec":{"overhead":{"cpu":"1x"}}}"#, "spec.overhead, at byte 28: it is no quantity"),
        (r#"{"metadata":{"creationTimestamp":"today"}}"#, "metadata.creationTimestamp, at byte 34: it is no time"),
        (r#"{"metadata":{"labels":[]}}"#, "metadata.labels, at byte 22: it is not an object"),
        ("{\"metadata\":{\"name\":\"\u{1}\"}}", "at byte 21: the JSON is broken: a string has a control character"),
    ];
    for (json, expected) in table {
        let error = json_to_protobuf(Message::Pod, json.as_bytes()).unwrap_err().to_string();
        let expected = format!("JSON of a Pod: {expected}");
        assert!(error.starts_with(&expected), "{error:?}, and not {expected:?}, of {json}");
    }
    let error = json_to_protobuf(Message::Secret, br#"{"data":{"password":"hunter2!"}}"#).unwrap_err();
    assert_eq!(error.to_string(), "JSON of a Secret: data, at byte 21: it is not base64");
    let error = json_to_protobuf(Message::Pod, b"\"\xff\"").unwrap_err();
    assert!(matches!(error, ProtobufError::Json { byte: 1, problem: Problem::Utf8, .. }), "{error}");
    let deep = [b"[".repeat(1 << 20), b"]".repeat(1 << 20)].concat();
    let error = json_to_protobuf(Message::Pod, &deep).unwrap_err();
    assert!(matches!(error, ProtobufError::Json { problem: Problem::Depth(_), .. }), "{error}");
}

#[test]
fn an_event_within_an_event_is_refused() {
    // An event has no envelope, so an envelope that says otherwise is of no known kind.
    let event = b"\x12\x1a\x0a\x18k8s\0\x0a\x10\x0a\x02v1\x12\x0aWatchEvent\x12\x00";
    let error = protobuf_to_json(Message::WatchEvent, event).unwrap_err();
    assert!(matches!(error, ProtobufError::Protobuf { problem: Problem::Raw, .. }), "{error}");
}

#[test]
fn a_field_of_a_later_version_is_named() {
    let table: [(Message, &[u8], &str); 5] = [
        (Message::Pod, b"\x98\x06\x01", "#99"),
        (Message::Pod, b"\x12\x05\x12\x03\x98\x06\x01", "spec.containers[0].#99"),
        (Message::ConfigMap, b"\x12\x07\x0a\x00\x1d\x00\x00\x00\x00", "data.#3"),
        (Message::Pod, b"\x0a\x06\x42\x04\x08\x01\x18\x01", "metadata.creationTimestamp.#3"),
        // Of more than one, the first.
        (Message::Pod, b"\x98\x06\x01\xa0\x06\x01", "#99"),
    ];
    for (message, bytes, expected) in table {
        let json = protobuf_to_json(message, bytes).unwrap();
        assert_eq!(json.unknown.map(|unknown| unknown.to_string()).as_deref(), Some(expected));
    }
    for (json, expected) in [
        (r#"{"new":1}"#, Some("new")),
        (r#"{"spec":{"volumes":[{"emptyDir":{}},{"newVolume":{}}]}}"#, Some("spec.volumes[1].newVolume")),
        (r#"{"spec":{"kind":"a"}}"#, Some("spec.kind")),
        (r#"{"spec":{"Containers":[]}}"#, Some("spec.Containers")),
        (r#"{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"new":"1"}}}"#, None),
    ] {
        let protobuf = json_to_protobuf(Message::Pod, json.as_bytes()).unwrap();
        assert_eq!(protobuf.unknown.map(|unknown| unknown.to_string()).as_deref(), expected, "{json}");
    }
    // An item of a list says its kind, or does not.
    let list = json_to_protobuf(Message::PodList, br#"{"items":[{"kind":"Pod","apiVersion":"v1"}]}"#).unwrap();
    assert_eq!(list.unknown, None);
}
