//! Compiles the vendored definition of the kubelet's Pods API to Rust, without `protoc`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    const DEFINITION: &str = "pods/v1alpha1/api.proto";
    println!("cargo:rerun-if-changed=proto/{DEFINITION}");
    println!("cargo:rerun-if-changed=build.rs");

    let mut descriptors = protox::compile([DEFINITION], ["proto"])?;
    for file in &mut descriptors.file {
        // The definition's comments are written for readers of protobuf; indented ones would become Rust doctests.
        file.source_code_info = None;
    }
    tonic_prost_build::configure().build_server(false).build_transport(false).compile_fds(descriptors)?;
    Ok(())
}
