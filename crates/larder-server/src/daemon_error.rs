//! Why a daemon has no answer for those who ask it over its socket: the commands, and the [proxy](crate::proxy).

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

/// Why the daemon has no answer. Each message says where the daemon was looked for, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// It cannot be reached.
    #[error("cannot reach larder at {}: {}", socket.display(), advice(source))]
    Unreachable {
        /// Where its socket should be.
        socket: PathBuf,
        /// Why it cannot be reached.
        source: io::Error,
    },
    /// It was reached, and the exchange broke off.
    #[error("the connection to larder at {} broke: {problem}", socket.display())]
    Broken {
        /// Its socket.
        socket: PathBuf,
        /// What broke.
        problem: String,
    },
    /// It did not answer in time.
    #[error(
        "larder at {} did not answer within {after:?}: look at the daemon's log and the load of the node, and restart the daemon if it \
         hangs",
        socket.display()
    )]
    Late {
        /// Its socket.
        socket: PathBuf,
        /// How long it was waited for.
        after: Duration,
    },
}

/// What to do about a socket that cannot be connected to.
fn advice(error: &io::Error) -> String {
    let hint = "start the daemon with 'larder run', or name its socket with --socket or LARDER_SOCKET";
    match error.kind() {
        ErrorKind::NotFound => format!("the socket does not exist: {hint}"),
        ErrorKind::ConnectionRefused => format!("no process listens on the socket, so the daemon has ended: {hint}"),
        ErrorKind::PermissionDenied => "this user may not connect to the socket: run the command as root".to_owned(),
        _ => format!("{error}: {hint}"),
    }
}
