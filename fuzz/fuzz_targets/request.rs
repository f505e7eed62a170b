//! A request of any bytes is answered.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| larder_server::fuzz::request(data));
