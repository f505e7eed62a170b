//! Who is at the other end of a connection to the socket, as the kernel says.

use std::io;
use tokio::net::UnixStream;

/// The process at the other end, when it connected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Its user.
    pub(crate) uid: u32,
    /// The user that the daemon runs as.
    own: u32,
}

impl Peer {
    /// # Errors
    ///
    /// If the kernel does not say.
    pub(crate) fn of(stream: &UnixStream) -> io::Result<Self> {
        let uid = stream.peer_cred()?.uid();
        Ok(Self { uid, own: rustix::process::geteuid().as_raw() })
    }

    /// Whether it may read: root and the daemon's own user may, nobody else.
    pub(crate) fn is_allowed(self) -> bool {
        self.uid == 0 || self.uid == self.own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_own_user_may_read() {
        for (uid, own, expected) in [(0, 0, true), (0, 500, true), (500, 500, true), (500, 0, false), (501, 500, false)]
        {
            assert_eq!(Peer { uid, own }.is_allowed(), expected, "{uid} on {own}");
        }
    }
}
