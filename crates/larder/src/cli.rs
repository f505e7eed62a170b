//! The command line: which commands there are, and what they share.

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::process::ExitCode;

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
    Run(Box<crate::run::Args>),
    /// Show the Secrets, ConfigMaps, pods and node that the daemon holds
    Get(crate::get::Args),
    /// List this node's containers, as the runtime reports them
    Ps(crate::ps::Args),
    /// Wait until a pod reaches a state, or until its status is newer than a time
    Wait(crate::wait::Args),
    /// Show the events of this node's containers
    Events(crate::events::Args),
    /// Show whether the daemon is healthy, with its sources, their age, and counts of objects
    Status(crate::status::Args),
    /// Write a kubeconfig with which any Kubernetes client reads from the daemon over TLS (larder run --listen)
    Kubeconfig(crate::kubeconfig::Args),
    /// Replay a trace on the caches in virtual time
    Replay(crate::replay::Args),
    /// Try larder without a cluster: a simulated API server and container runtime
    #[cfg(feature = "demo")]
    Demo(crate::demo::Args),
    /// Print a completion script for a shell
    Completion(crate::completion::Args),
}

impl Cli {
    /// The process's command line; one that makes no sense ends it, as does a plea for help.
    pub(crate) fn of_process() -> Self {
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
pub(crate) fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => crate::run::main(&args),
        Command::Get(args) => block_on(crate::get::main(args)),
        Command::Ps(args) => block_on(crate::ps::main(args)),
        Command::Wait(args) => block_on(crate::wait::main(args)),
        Command::Events(args) => block_on(crate::events::main(args)),
        Command::Status(args) => block_on(crate::status::main(args)),
        Command::Kubeconfig(args) => block_on(crate::kubeconfig::main(args)),
        Command::Replay(args) => crate::replay::main(args),
        #[cfg(feature = "demo")]
        Command::Demo(args) => crate::demo::main(args),
        Command::Completion(args) => crate::completion::main(&args),
    }
}

/// Runs a client command on a runtime of one thread.
fn block_on(command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?
        .block_on(command)
}

#[cfg(test)]
mod tests;
