//! larder: a node-local cache for Kubernetes.
//!
//! This file only parses the command line and runs the command; each command has a file of its own.

mod cli;
mod client;
mod completion;
#[cfg(feature = "demo")]
mod demo;
mod events;
mod get;
mod kinds;
mod kubeconfig;
mod output;
mod ps;
mod replay;
mod run;
mod signals;
mod status;
mod wait;

use std::process::ExitCode;

/// Keeps memory flat while objects come and go, where the C library's allocator grows; see `docs/performance.md`.
#[cfg(all(feature = "node", target_arch = "x86_64"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let command = cli::Cli::of_process().command;
    cli::dispatch(command).unwrap_or_else(|error| output::report(&error))
}
