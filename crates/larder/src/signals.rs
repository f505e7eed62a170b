//! The signals that end a process in good order.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, SIGINT, and SIGHUP, which comes when the terminal is closed.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// None where it was being ignored before, as `nohup` has it.
    hangup: Option<Signal>,
}

impl Signals {
    /// From here on they do not end the process by themselves.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        // What cannot be read says nothing of `nohup`.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hangup = if is_hangup_ignored(&status) { None } else { Some(listen(SignalKind::hangup())?) };
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())?, hangup })
    }

    /// The name of the first that comes.
    ///
    /// Cancel safe.
    pub(crate) async fn any(&mut self) -> &'static str {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => drop(hangup.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            () = hangup => "SIGHUP",
        }
    }
}

/// By what `/proc/PID/status` says of a process: signal 1 is the lowest bit.
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
