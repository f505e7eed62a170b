//! A connection on which any bytes arrive is answered, and ends.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| larder_server::fuzz::connection(data));
