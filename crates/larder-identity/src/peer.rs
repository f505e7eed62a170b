//! The process at the other end of a Unix socket, as the kernel noted it when the connection was made.

use crate::process::{Process, ProcessError};
use nix::sys::socket::{getsockopt, sockopt};
use std::io;
use std::os::fd::AsFd;

/// The peer of a connected Unix stream: who it was when it connected, and its process.
///
/// The kernel notes user, group and process of whoever calls `connect` (`SO_PEERCRED`, `unix(7)`). A socket that is passed on to
/// another process, or inherited by a child, stays its connector's.
///
/// ```
/// use larder_identity::{Peer, PidSource};
/// use std::os::unix::net::UnixStream;
///
/// let (ours, _theirs) = UnixStream::pair()?;
/// let peer = Peer::of(&ours, PidSource::Socket)?;
/// assert_eq!(peer.process().pid(), std::process::id());
/// assert!(peer.process().is_alive());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Peer {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    process: Process,
    source: PidSource,
}

/// Where the pidfd of a peer comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PidSource {
    /// The socket's `SO_PEERPIDFD` (Linux 6.5). An older kernel has none: there it is [`Pid`](Self::Pid).
    #[default]
    Socket,
    /// `pidfd_open(2)` of the PID that `SO_PEERCRED` gives.
    ///
    /// If the peer ends after it has connected, another process can get its PID before the PID is opened. [`Peer::of`] refuses a
    /// process that started after the call. A process that got the PID between the peer's `connect` and the call is taken for the
    /// peer, so call [`Peer::of`] as soon as the connection is accepted. User and group are the connector's in any case.
    Pid,
}

/// Why the peer of a socket is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The socket has no peer with credentials, such as a TCP socket.
    #[error("cannot read the credentials of the socket's peer: {problem}")]
    NoCredentials {
        /// The system's error.
        #[source]
        problem: io::Error,
    },
    /// The peer has no PID in this PID namespace (`pid_namespaces(7)`): its PID is 0 here.
    #[error("the socket's peer is in another PID namespace and cannot be seen from here")]
    NotVisible,
    /// The peer has ended, or cannot be read.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl Peer {
    /// The peer of a connected Unix stream. Call it as soon as the connection is accepted: [`PidSource::Pid`] says why.
    ///
    /// It blocks on nothing but `/proc`.
    ///
    /// # Errors
    ///
    /// [`PeerError::NotVisible`] for a peer in another PID namespace, [`ProcessError::Ended`] for a peer that has ended,
    /// [`PeerError::NoCredentials`] for a socket that is not a Unix stream.
    ///
    /// ```
    /// use larder_identity::{Peer, PeerError, PidSource};
    /// use std::net::TcpListener;
    ///
    /// let socket = TcpListener::bind("127.0.0.1:0")?;
    /// assert!(matches!(Peer::of(&socket, PidSource::Socket), Err(PeerError::NotVisible | PeerError::NoCredentials { .. })));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn of(stream: &impl AsFd, source: PidSource) -> Result<Self, PeerError> {
        let called_at = crate::process::ticks_since_boot();
        let no_credentials = |error: nix::Error| PeerError::NoCredentials { problem: error.into() };
        let credentials = getsockopt(stream, sockopt::PeerCredentials).map_err(no_credentials)?;
        let pid = u32::try_from(credentials.pid()).ok().filter(|pid| *pid != 0).ok_or(PeerError::NotVisible)?;
        let of_socket = match source {
            PidSource::Socket => match getsockopt(stream, sockopt::PeerPidfd) {
                Ok(fd) => Some(Process::of_pidfd(pid, fd)),
                Err(nix::Error::ENOPROTOOPT) => None,
                // Kernels before 6.16 have no pidfd for a process that was waited for.
                Err(nix::Error::ESRCH | nix::Error::EINVAL | nix::Error::ENODATA) => {
                    return Err(ProcessError::Ended { pid }.into());
                }
                Err(error) => return Err(no_credentials(error)),
            },
            PidSource::Pid => None,
        };
        let (process, source) = match of_socket {
            Some(process) => (process, PidSource::Socket),
            None => (Process::open_started_by(pid, called_at)?, PidSource::Pid),
        };
        let groups = process.groups()?;
        Ok(Self { uid: credentials.uid(), gid: credentials.gid(), groups, process, source })
    }

    /// Its effective user when it connected, in larder's user namespace.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Its effective group when it connected, in larder's user namespace.
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// Its supplementary groups when [`Peer::of`] was called. They come from `/proc/PID/status` (`proc_pid_status(5)`).
    pub fn groups(&self) -> &[u32] {
        &self.groups
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Gives its process away.
    pub fn into_process(self) -> Process {
        self.process
    }

    /// Where its pidfd came from.
    pub fn source(&self) -> PidSource {
        self.source
    }
}

#[cfg(test)]
mod tests;
