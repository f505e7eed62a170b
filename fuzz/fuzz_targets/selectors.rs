//! Any text is read as selectors, or refused.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| larder_server::fuzz::selectors(data));
