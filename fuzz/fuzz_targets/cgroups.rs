//! Any bytes are read as cgroup lines, or refused.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| larder_server::fuzz::cgroups(data));
