//! Any bytes are read as objects in protobuf and JSON, and as watches, or refused.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| larder_protobuf::fuzz::transcode(data));
