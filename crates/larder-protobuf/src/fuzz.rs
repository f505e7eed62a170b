//! Messages of any bytes, and what must hold of what becomes of them.
//!
//! `cargo xtask fuzz` gives these bytes that libFuzzer finds; the tests give the bytes in `fuzz/seeds`, and random ones.

use crate::{
    Envelope, Frames, ListMetadata, Message, Metadata, Problem, ProtobufError, Transcoded, WatchEvent,
    json_to_protobuf, protobuf_to_json,
};

/// The ends of the names of fields that Go writes as `null` though they have a pointer.
const NULL_POINTERS: [&str; 5] = ["deletionTimestamp", "ime", "timeAdded", "startedAt", "fieldsV1"];

/// Reads these bytes as the protobuf and as the JSON of a message, which the first byte chooses, and as an envelope and a watch.
///
/// # Panics
///
/// If what is accepted does not read the same again, or anything else panics.
pub fn transcode(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let message = Message::ALL[usize::from(*first) % Message::ALL.len()];
    if let Ok(json) = protobuf_to_json(message, data) {
        again_from_json(message, &json);
    }
    if let Ok(protobuf) = json_to_protobuf(message, data) {
        again_from_protobuf(message, &protobuf);
    }
    let metadata = Metadata::read(message, data);
    if let Ok(metadata) = metadata {
        metadata.labels.iter().chain(metadata.annotations.iter()).count();
    }
    if let Ok(list) = ListMetadata::read(message, data) {
        list.items.iter().count();
    }
    if let Ok(envelope) = Envelope::parse(data) {
        let bytes = envelope.to_bytes();
        assert_eq!(Envelope::parse(&bytes).as_ref(), Ok(&envelope));
    }
    watch(usize::from(*first) + 1, data);
}

/// The JSON of accepted protobuf is JSON, and gives protobuf that has the same JSON.
fn again_from_json(message: Message, json: &Transcoded) {
    let text = std::str::from_utf8(&json.bytes).expect("JSON is UTF-8");
    let read = json_to_protobuf(message, &json.bytes);
    let protobuf = match read {
        Ok(protobuf) => protobuf,
        // Go writes the year 10000, too, and reads it no more.
        Err(ProtobufError::Json { problem: Problem::Time, .. }) => return,
        Err(error) => panic!("{error}: {text}"),
    };
    let again = protobuf_to_json(message, &protobuf.bytes).expect("protobuf of JSON");
    // Two keys that are no UTF-8 may have become one. JSON within JSON may have names that are no fields. A pointer to the zero time is `null`,
    // which reads as no pointer.
    let is_lossy =
        text.contains("\\ufffd") || NULL_POINTERS.iter().any(|name| text.contains(&format!("{name}\":null")));
    if !is_lossy && message != Message::WatchEvent {
        assert_eq!(protobuf.unknown, None, "{text}");
        assert_eq!(String::from_utf8_lossy(&again.bytes), text);
    }
}

/// The protobuf of accepted JSON has only known fields, and gives JSON that reads the same again.
fn again_from_protobuf(message: Message, protobuf: &Transcoded) {
    let json = protobuf_to_json(message, &protobuf.bytes).expect("JSON of protobuf");
    assert_eq!(json.unknown, None);
    again_from_json(message, &json);
}

/// The frames of a watch are the same in small chunks and in one, and none is longer than the bound.
fn watch(size: usize, data: &[u8]) {
    const MOST: usize = 200;
    let read = |chunks: &mut dyn Iterator<Item = &[u8]>| {
        let (mut frames, mut came) = (Frames::new(MOST), Vec::new());
        for mut chunk in chunks {
            loop {
                match frames.next(&mut chunk) {
                    Ok(Some(frame)) => came.push(frame.to_vec()),
                    Ok(None) => break,
                    Err(error) => return (came, Err(error)),
                }
            }
        }
        (came, frames.finish())
    };
    let (whole, end) = read(&mut std::iter::once(data));
    let (small, small_end) = read(&mut data.chunks(size));
    assert_eq!((&whole, end), (&small, small_end));
    for frame in whole {
        assert!(frame.len() <= MOST);
        if let Ok(event) = WatchEvent::parse(&frame) {
            let _ = event.envelope();
            let written = event.to_frame();
            assert_eq!(WatchEvent::parse(&written[4..]), Ok(event));
        }
    }
}

#[cfg(test)]
mod tests;
