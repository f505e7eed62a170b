//! Any question whose a process is is answered.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| larder_server::fuzz::whois(data));
