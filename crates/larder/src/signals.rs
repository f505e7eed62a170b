//! The signals that end a process in good order.

use anyhow::Context as _;
use std::process::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Terminate,
    Interrupt,
    Hangup,
}

impl Ending {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
            Self::Hangup => "SIGHUP",
        }
    }

    /// The exit code of a daemon. Nobody asks a daemon to end with SIGHUP: its terminal is gone, or somebody expects a reload. The code
    /// is a shell's for this signal, so a supervisor starts the daemon again.
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Terminate | Self::Interrupt => ExitCode::SUCCESS,
            Self::Hangup => ExitCode::from(129),
        }
    }
}

/// Listens for SIGTERM, SIGINT, and SIGHUP, which comes when the terminal is closed.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` if the process was started with SIGHUP ignored, as by `nohup`.
    hangup: Option<Signal>,
}

impl Signals {
    /// From here on these signals do not end the process by themselves.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        // Without the file, nothing says that SIGHUP is ignored.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hangup = if is_hangup_ignored(&status) { None } else { Some(listen(SignalKind::hangup())?) };
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())?, hangup })
    }

    /// Waits for the first signal.
    ///
    /// Cancel safe.
    pub(crate) async fn any(&mut self) -> Ending {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => drop(hangup.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => Ending::Terminate,
            _ = self.interrupt.recv() => Ending::Interrupt,
            () = hangup => Ending::Hangup,
        }
    }
}

/// Reads `/proc/PID/status`: signal 1 is the lowest bit.
fn is_hangup_ignored(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_started_with_nohup_is_not_ended_by_a_hangup() {
        assert!(is_hangup_ignored("SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"));
        for status in ["SigIgn:\t0000000000001000\n", "SigBlk:\t0000000000000001\n", "SigIgn:\tx\n", ""] {
            assert!(!is_hangup_ignored(status), "{status}");
        }
    }
}
