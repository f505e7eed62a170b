//! `larder demo`: the daemon on a laptop, between a simulated API server and a simulated container runtime.
//!
//! Only the two ends are simulated, by `larder-testkit`; they speak the real protocols over loopback and a Unix socket.
//! Between them runs the daemon of `larder run`, with the settings that a node would have.
//!
//! All files are in one folder of the user's, mode 0700, that is removed at the end. Another terminal reaches the demo
//! by `control.sock` in it, which stands beside the daemon's socket: `LARDER_SOCKET` names both.

mod agent;
mod control;
mod folder;
mod guide;
mod session;
mod shop;

use crate::client::Connection;
use crate::run::duration;
use clap::Subcommand;
use control::Command;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  # Until Ctrl-C; it prints commands to try in another terminal
  larder demo
  # For a minute, with an outage of the API server in the middle
  larder demo --for 1m --outage-after 20s --outage-for 15s
  # From another terminal, with LARDER_SOCKET set as the demo prints it
  larder demo outage
  larder demo crash api")]
pub(crate) struct Args {
    #[command(flatten)]
    start: Start,
    #[command(subcommand)]
    act: Option<Act>,
}

#[derive(Debug, clap::Args)]
struct Start {
    /// End after this time [default: at Ctrl-C]
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    lasts: Option<Duration>,
    /// Stop the API server after this time
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    outage_after: Option<Duration>,
    /// How long the API server stays away
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "outage_after", default_value = "30s")]
    outage_for: Duration,
    /// Create this folder for the demo's files; it must not exist
    /// [default: larder-demo-PID in the user's runtime folder, or else in the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The seed for the random times of the simulated pods
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// What the daemon logs to standard error: off, error, warn, info, debug, or directives
    #[arg(long, value_name = "LEVEL", default_value = "off")]
    log_level: String,
}

/// What to do to the demo that runs in another terminal.
#[derive(Debug, Subcommand)]
enum Act {
    /// Stop the demo's API server
    Outage {
        #[command(flatten)]
        connection: Connection,
    },
    /// Start the demo's API server again
    Restore {
        #[command(flatten)]
        connection: Connection,
    },
    /// Make a pod's container exit
    Crash {
        /// The pod's name
        pod: String,
        /// The exit code
        #[arg(long, value_name = "CODE", default_value_t = 1)]
        code: i32,
        #[command(flatten)]
        connection: Connection,
    },
    /// Change the value of a Secret
    Rotate {
        #[command(flatten)]
        connection: Connection,
    },
    /// End the demo
    Quit {
        #[command(flatten)]
        connection: Connection,
    },
}

/// Runs the demo, or tells the one that runs.
pub(crate) fn main(args: Args) -> anyhow::Result<ExitCode> {
    let (connection, command) = match args.act {
        None => return session::main(args.start),
        Some(Act::Outage { connection }) => (connection, Command::Outage),
        Some(Act::Restore { connection }) => (connection, Command::Restore),
        Some(Act::Crash { pod, code, connection }) => (connection, Command::Crash { pod, code }),
        Some(Act::Rotate { connection }) => (connection, Command::Rotate),
        Some(Act::Quit { connection }) => (connection, Command::Quit),
    };
    control::tell(&control::beside(&connection.socket), &command)
}

#[cfg(test)]
mod tests;
