//! larder: a node-local cache for Kubernetes.
//!
//! This file has the command line: which commands there are, and how they run. Each command has a file of its own.

mod auth;
mod client;
mod completion;
#[cfg(feature = "demo")]
mod demo;
mod events;
mod get;
mod kinds;
mod kubeconfig;
mod output;
mod proxy;
mod ps;
mod replay;
mod run;
mod signals;
mod status;
mod wait;
mod whois;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::process::ExitCode;

/// Keeps memory flat while objects come and go, where the C library's allocator grows; see `docs/performance.md`.
#[cfg(all(feature = "node", target_arch = "x86_64"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    dispatch(Cli::of_process().command).unwrap_or_else(|error| output::report(&error))
}

/// Caches Kubernetes objects and container statuses on a node, for the workloads and agents that read them often.
///
/// `larder run` is the daemon; the other commands query it over its Unix socket.
#[derive(Debug, Parser)]
#[command(name = "larder", version, propagate_version = true, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run this node's daemon
    Run(Box<run::Args>),
    /// Show the Secrets, ConfigMaps, pods and node that the daemon holds
    Get(get::Args),
    /// List this node's containers, as the runtime reports them
    Ps(ps::Args),
    /// Show which pod and container a process, a container ID or a cgroup belongs to
    Whois(whois::Args),
    /// Show whom the daemon takes this process for, and what it may see
    Auth(auth::Args),
    /// Wait until a pod reaches a state, or until its status is newer than a time
    Wait(wait::Args),
    /// Show the events of this node's containers
    Events(events::Args),
    /// Show whether the daemon is healthy, with its sources, their age, and counts of objects
    Status(status::Args),
    /// Write a kubeconfig with which any Kubernetes client reads from the daemon over TLS (larder run --listen)
    Kubeconfig(kubeconfig::Args),
    /// Serve what this user may read on a loopback port, for clients that cannot dial a Unix socket
    Proxy(proxy::Args),
    /// Replay a trace on the caches in virtual time
    Replay(replay::Args),
    /// Try larder without a cluster: a simulated API server and container runtime
    #[cfg(feature = "demo")]
    Demo(demo::Args),
    /// Print a completion script for a shell
    Completion(completion::Args),
}

impl Cli {
    /// The process's command line; one that makes no sense ends it, as does a plea for help.
    fn of_process() -> Self {
        let mut command = command();
        let matches = command.get_matches_mut();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
    }
}

/// The definition, with each usage line as it is: clap would add to it, after a mistake, what the environment sets.
fn command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    for each in command.get_subcommands_mut() {
        let usage = each.render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").to_owned();
        *each = each.clone().override_usage(usage);
    }
    command
}

/// Runs the command; its exit code, or the error that ended it.
fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => run::main(&args),
        Command::Get(args) => block_on(|| get::main(args)),
        Command::Ps(args) => block_on(|| ps::main(args)),
        Command::Whois(args) => block_on(|| whois::main(args)),
        Command::Auth(args) => block_on(|| auth::main(args)),
        Command::Wait(args) => block_on(|| wait::main(args)),
        Command::Events(args) => block_on(|| events::main(args)),
        Command::Status(args) => block_on(|| status::main(args)),
        Command::Kubeconfig(args) => block_on(|| kubeconfig::main(args)),
        Command::Proxy(args) => block_on(|| proxy::main(args)),
        Command::Replay(args) => replay::main(args),
        #[cfg(feature = "demo")]
        Command::Demo(args) => demo::main(args),
        Command::Completion(args) => completion::main(&args),
    }
}

/// Runs a client command on a runtime of one thread.
// Not inlined: the daemon would keep the stack of all commands.
#[inline(never)]
fn block_on<F: Future<Output = anyhow::Result<ExitCode>>>(command: impl FnOnce() -> F) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?
        .block_on(command())
}

#[cfg(test)]
mod tests;
