//! No token of any bytes is taken.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| larder_server::fuzz::tokens(data));
