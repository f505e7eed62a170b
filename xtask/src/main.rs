//! The project's own commands: `cargo xtask test` runs everything that CI runs; `cargo xtask --help` lists the rest.

mod api_load;
mod checkout;
mod differential;
mod exit_latency;
mod footprint;
mod fuzz;
mod heap_profile;
mod mutants;
mod pods_latency;
mod readme;
mod relist_cost;
mod shell;
mod test;
mod testbed;
mod tools;
mod versus;
mod watch_fanout;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// larder's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run everything that CI runs, installing and starting what it needs.
    Test(test::Arguments),
    /// Run the commands that README.md shows, and compare what they print with what it says they print.
    Readme(readme::Arguments),
    /// A real node to try things on: etcd, kube-apiserver, containerd and runc, on loopback.
    Testbed(testbed::Arguments),
    /// Random traces on larder's caches and on the kubelet's own, compared line by line.
    Differential(differential::Arguments),
    /// Change the caches' code one place at a time, and see whether the tests notice.
    Mutants(mutants::Arguments),
    /// Fuzz the local API with libFuzzer. Needs nightly Rust.
    Fuzz(fuzz::Arguments),
    /// How soon larder and a kubelet beside it know that a container has ended, on a real node.
    ExitLatency(exit_latency::Arguments),
    /// How soon larder and a kubelet beside it answer with the pods of their node, on a real node.
    PodsLatency(pods_latency::Arguments),
    /// How soon a change reaches the last of many watches of larder, and of the API server, on a real node.
    WatchFanout(watch_fanout::Arguments),
    /// What each strategy costs the API server beside the kubelet's same one, and how stale its readers' answers are.
    ApiLoad(api_load::Arguments),
    /// What a relist of a full node costs, and how soon all is known when everything has changed.
    RelistCost(relist_cost::Arguments),
    /// What the daemon takes of a node, and how soon it answers, between a simulated API server and runtime.
    Footprint(footprint::Arguments),
    /// Where the bytes of a wait or an object are, as a profile for dhat's viewer.
    HeapProfile(heap_profile::Arguments),
    /// What larder's caches and the kubelet's own take for the same work, side by side.
    Versus(versus::Arguments),
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Test(arguments) => test::run(&arguments),
        Command::Readme(arguments) => readme::run(&arguments),
        Command::Testbed(arguments) => testbed::run(&arguments),
        Command::Differential(arguments) => differential::run(&arguments),
        Command::Mutants(arguments) => mutants::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::ExitLatency(arguments) => exit_latency::run(&arguments),
        Command::PodsLatency(arguments) => pods_latency::run(&arguments),
        Command::WatchFanout(arguments) => watch_fanout::run(&arguments),
        Command::ApiLoad(arguments) => api_load::run(&arguments),
        Command::RelistCost(arguments) => relist_cost::run(&arguments),
        Command::Footprint(arguments) => footprint::run(&arguments),
        Command::HeapProfile(arguments) => heap_profile::run(&arguments),
        Command::Versus(arguments) => versus::run(&arguments),
    }
}
