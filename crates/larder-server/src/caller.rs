//! Who asks, and whether it may read.

use crate::error::ApiError;
use larder_tls::{Client, Subject};
use std::fmt;
use std::io;
use std::sync::Arc;
use tokio::net::UnixStream;

/// Who asks: one variant for each kind of proof. Every field may be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A process that connected to the socket. The kernel named its user at that time.
    Process {
        /// Its user.
        uid: u32,
        /// Whether it may read: root may, and the daemon's own user in the daemon's own PID namespace.
        ///
        /// A user means little across containers: many images run as 65532, for one.
        may_read: bool,
    },
    /// A client with a certificate of an authority that larder trusts.
    Certificate {
        /// Whom the certificate names.
        subject: Arc<Subject>,
        /// Whether the certificate is of the group that may read.
        is_admin: bool,
    },
    /// A client with a certificate that larder does not accept.
    Refused {
        /// Why not.
        why: Arc<str>,
    },
    /// A caller without any proof.
    Anonymous,
}

impl Caller {
    /// # Errors
    ///
    /// If the kernel does not name the user.
    pub(crate) fn of(stream: &UnixStream) -> io::Result<Self> {
        let peer = stream.peer_cred()?;
        let own = rustix::process::geteuid().as_raw();
        let is_near = || peer.pid().is_some_and(is_in_own_pid_namespace);
        Ok(Self::Process { uid: peer.uid(), may_read: is_allowed(peer.uid(), own, is_near) })
    }

    /// Who a client over TLS is.
    pub(crate) fn of_client(client: Client) -> Self {
        match client {
            Client::Known { subject, is_admin, .. } => Self::Certificate { subject: Arc::new(subject), is_admin },
            Client::Refused { why } => Self::Refused { why: why.into() },
            Client::Anonymous => Self::Anonymous,
        }
    }

    /// Whether it may read what this node holds.
    pub(crate) fn may_read(&self) -> bool {
        match self {
            Self::Process { may_read, .. } => *may_read,
            Self::Certificate { is_admin, .. } => *is_admin,
            Self::Refused { .. } | Self::Anonymous => false,
        }
    }

    /// The answer to a caller that may not read: 403 if larder knows the caller, else 401.
    pub(crate) fn refusal(self) -> ApiError {
        match self {
            Self::Process { .. } | Self::Certificate { .. } => ApiError::Forbidden(self),
            Self::Refused { .. } | Self::Anonymous => ApiError::Unauthorized(self),
        }
    }

    /// What a caller that may not read can do about it.
    pub(crate) fn advice(&self) -> &'static str {
        match self {
            Self::Process { .. } => "only root may, and larder's own user outside of other containers; ask as root",
            Self::Certificate { .. } => {
                "its certificate is not of the group that larder lets in (--admin-group); write a kubeconfig on the node with \
                 `larder kubeconfig`"
            }
            Self::Refused { .. } | Self::Anonymous => {
                "show a client certificate: write a kubeconfig on the node with `larder kubeconfig`"
            }
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { uid, .. } => write!(f, "user {uid}"),
            // The name is quoted and escaped: it may have line breaks.
            Self::Certificate { subject, .. } => write!(f, "client {:?}", subject.name),
            Self::Refused { why } => write!(f, "a client whose certificate is refused ({why})"),
            Self::Anonymous => f.write_str("an unknown caller"),
        }
    }
}

fn is_allowed(uid: u32, own: u32, is_near: impl FnOnce() -> bool) -> bool {
    uid == 0 || uid == own && is_near()
}

/// Whether a process is in the daemon's PID namespace, and not in one below. A process in any other namespace is invisible, and has the
/// ID 0.
fn is_in_own_pid_namespace(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| has_one_id(&status, pid))
}

/// Whether that is the only ID of a process. A process has one ID in each namespace from the daemon's down to its own.
fn has_one_id(status: &str, pid: i32) -> bool {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.is_some_and(|ids| ids.trim() == pid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_own_user_of_the_own_container_may_read() {
        for (uid, own, is_near, expected) in [
            (0, 0, true, true),
            (0, 0, false, true),
            (0, 500, false, true),
            (500, 500, true, true),
            (500, 500, false, false),
            (500, 0, true, false),
            (501, 500, true, false),
        ] {
            assert_eq!(is_allowed(uid, own, || is_near), expected, "{uid} on {own}, near: {is_near}");
        }
    }

    #[test]
    fn a_client_may_read_with_a_certificate_of_the_admins_group_alone() {
        let known = |is_admin| {
            let subject = Subject { name: "a\nb".to_owned(), groups: Vec::new() };
            Caller::of_client(Client::Known { subject, is_admin, until: jiff::Timestamp::MAX })
        };
        let refused = Caller::of_client(Client::Refused { why: "it has expired".to_owned() });
        for (caller, may_read, code, text) in [
            (known(true), true, 403, "client \"a\\nb\" may not read"),
            (known(false), false, 403, "client \"a\\nb\" may not read"),
            (refused, false, 401, "a client whose certificate is refused (it has expired) may not read"),
            (Caller::of_client(Client::Anonymous), false, 401, "an unknown caller may not read"),
        ] {
            assert_eq!(caller.may_read(), may_read, "{caller}");
            let refusal = caller.refusal();
            assert_eq!(refusal.code().as_u16(), code, "{refusal}");
            assert!(refusal.to_string().starts_with(text), "{refusal}");
            assert!(refusal.to_string().contains("larder kubeconfig"), "{refusal}");
        }
    }

    #[test]
    fn a_process_of_the_own_namespace_has_one_id() {
        for (status, expected) in [
            ("Pid:\t7\nNSpid:\t7\nNSpgid:\t7\n", true),
            ("NSpid:\t7\t1\n", false),
            ("NSpid:\t8\n", false),
            ("NSpid:\n", false),
            ("Pid:\t7\n", false),
        ] {
            assert_eq!(has_one_id(status, 7), expected, "{status:?}");
        }
        assert!(is_in_own_pid_namespace(std::process::id().try_into().unwrap()));
        assert!(!is_in_own_pid_namespace(0), "it cannot be seen");
    }
}
