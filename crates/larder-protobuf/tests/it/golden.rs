//! Messages that Go has written (`golden/messages.jsonl`, by `cargo xtask differential --bless`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use larder_protobuf::{Envelope, ListMetadata, Message, Metadata, json_to_protobuf, protobuf_to_json};
use serde_json::Value;

/// A message in both forms, each with what Go makes of it in the other. Protobuf is without its envelope.
pub(crate) struct Pair {
    pub(crate) message: Message,
    pub(crate) protobuf: Vec<u8>,
    pub(crate) its_json: String,
    pub(crate) json: String,
    pub(crate) its_protobuf: Vec<u8>,
}

pub(crate) fn pairs() -> Vec<Pair> {
    let lines = include_str!("../golden/messages.jsonl").lines();
    lines
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| line[name].as_str().unwrap().to_owned();
            let message = Message::ALL.into_iter().find(|message| message.kind() == text("kind")).unwrap();
            let protobuf = |name: &str| {
                let bytes = STANDARD.decode(text(name)).unwrap();
                if message == Message::WatchEvent {
                    return bytes;
                }
                let envelope = Envelope::parse(&bytes).unwrap();
                assert_eq!(envelope.message(), Some(message));
                assert_eq!(*Envelope::new(message, envelope.raw).to_bytes(), bytes);
                envelope.raw.to_vec()
            };
            let (protobuf, its_protobuf) = (protobuf("protobuf"), protobuf("its_protobuf"));
            Pair { message, protobuf, its_json: text("its_json"), json: text("json"), its_protobuf }
        })
        .collect()
}

#[test]
fn protobuf_becomes_the_json_that_go_writes() {
    for pair in pairs() {
        let json = protobuf_to_json(pair.message, &pair.protobuf).unwrap();
        assert_eq!(String::from_utf8_lossy(&json.bytes), pair.its_json);
        assert_eq!(json.unknown, None);
    }
}

#[test]
fn json_becomes_the_protobuf_that_go_writes() {
    for pair in pairs() {
        let protobuf = json_to_protobuf(pair.message, pair.json.as_bytes()).unwrap();
        assert_eq!(*protobuf.bytes, pair.its_protobuf, "{}", pair.json);
        assert_eq!(protobuf.unknown, None);
    }
}

#[test]
fn metadata_read_alone_is_that_in_the_json() {
    let mut labels = 0;
    for Pair { message, protobuf, its_json, .. } in pairs() {
        let json: Value = serde_json::from_str(&its_json).unwrap();
        let text = |name: &str| json["metadata"][name].as_str().unwrap_or_default().to_owned();
        if message.is_list() {
            let list = ListMetadata::read(message, &protobuf).unwrap();
            assert_eq!(
                (list.resource_version, list.continue_token),
                (text("resourceVersion").into(), text("continue").into())
            );
            assert_eq!(list.items.iter().count(), json["items"].as_array().unwrap().len());
            continue;
        }
        let Ok(metadata) = Metadata::read(message, &protobuf) else {
            assert!(matches!(message, Message::Status | Message::WatchEvent), "{message}");
            continue;
        };
        assert_eq!((&*metadata.namespace, &*metadata.name), (&*text("namespace"), &*text("name")));
        assert_eq!((&*metadata.uid, &*metadata.resource_version), (&*text("uid"), &*text("resourceVersion")));
        assert_eq!(metadata.generation, json["metadata"]["generation"].as_i64().unwrap_or_default());
        for (name, pairs) in [("labels", metadata.labels), ("annotations", metadata.annotations)] {
            let pairs: serde_json::Map<String, Value> =
                pairs.iter().map(|(key, value)| (key.into_owned(), Value::from(value))).collect();
            labels += pairs.len();
            assert_eq!(json["metadata"].get(name).cloned().unwrap_or_else(|| pairs.clone().into()), Value::from(pairs));
        }
    }
    assert!(labels > 0, "no message has a label");
}
