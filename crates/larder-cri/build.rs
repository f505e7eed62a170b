//! Compiles the vendored CRI definition to Rust, without `protoc`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    const DEFINITION: &str = "runtime/v1/api.proto";
    println!("cargo:rerun-if-changed=proto/{DEFINITION}");
    println!("cargo:rerun-if-changed=build.rs");

    let descriptors = protox::compile([DEFINITION], ["proto"])?;
    tonic_prost_build::configure()
        .build_client(true)
        .build_server(std::env::var_os("CARGO_FEATURE_SERVER").is_some())
        .build_transport(false)
        // The definition's comments are written for readers of protobuf; indented ones would become Rust doctests.
        .disable_comments(["."])
        .compile_fds(descriptors)?;
    Ok(())
}
