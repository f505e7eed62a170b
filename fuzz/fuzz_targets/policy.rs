//! Any text is read as a policy, or refused.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| larder_server::fuzz::policy(data));
