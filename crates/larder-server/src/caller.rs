//! Who asks, and whether it may read.

use crate::access::PodAccess;
use crate::error::ApiError;
use crate::token::{TokenPod, TokenRefusal};
use larder_node::{Node, ReadError};
use larder_pod_status::PodUid;
use larder_policy::Policy;
use larder_resource::Pod;
use larder_tls::{Client, Subject};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// Who asks: one variant for each kind of proof. Every field may be logged.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// A process of the host that connected to the socket. The kernel named it at that time.
    Host {
        /// Its user.
        uid: u32,
        /// Its groups.
        gids: Arc<[u32]>,
        /// Whether it sees everything: root does, the daemon's own user, and the admin groups.
        is_admin: bool,
    },
    /// A process of a container that connected to the socket.
    Container(Arc<Container>),
    /// A process that connected to the socket, and that is not known to be of the host or of a container.
    Unresolved {
        /// Its user.
        uid: u32,
        /// Why it is not known.
        why: Arc<str>,
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
    /// A pod whose service-account token the request has.
    Token(Arc<TokenPod>),
    /// A client with a token that larder does not take.
    RefusedToken(Arc<TokenRefusal>),
    /// A caller without any proof.
    Anonymous,
}

/// A container of a pod of this node.
#[derive(Debug)]
pub(crate) struct Container {
    /// The namespace of its pod.
    pub(crate) namespace: String,
    /// The name of its pod.
    pub(crate) pod: String,
    /// The UID by which the container runtime knows its pod.
    pub(crate) uid: PodUid,
    /// Its name.
    pub(crate) name: String,
    /// Its ID in the runtime.
    pub(crate) id: String,
    /// The user of the process that asks, in the daemon's user namespace. It decides nothing.
    pub(crate) user: u32,
    /// What it may see, and the state of its pod and the policy that say so.
    access: Mutex<Option<Judged>>,
}

/// What a container may see, by a state of its pod and a policy.
#[derive(Debug)]
struct Judged {
    pod: Arc<Pod>,
    policy: Arc<Policy>,
    access: Arc<PodAccess>,
}

impl Caller {
    /// Who a client over TLS is.
    pub(crate) fn of_client(client: Client) -> Self {
        match client {
            Client::Known { subject, is_admin, .. } => Self::Certificate { subject: Arc::new(subject), is_admin },
            Client::Refused { why } => Self::Refused { why: why.into() },
            Client::Anonymous => Self::Anonymous,
        }
    }

    /// Whether it sees everything that no rule of a policy file denies.
    pub(crate) fn is_admin(&self) -> bool {
        match self {
            Self::Host { is_admin, .. } | Self::Certificate { is_admin, .. } => *is_admin,
            Self::Container(_)
            | Self::Unresolved { .. }
            | Self::Refused { .. }
            | Self::Token(_)
            | Self::RefusedToken(_)
            | Self::Anonymous => false,
        }
    }

    /// The kind of caller: a word from a bounded set, for a label of metrics.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Host { .. } => "host",
            Self::Container(_) | Self::Token(_) => "pod",
            Self::Unresolved { .. } => "unresolved",
            Self::Certificate { .. } => "client",
            Self::Refused { .. } | Self::RefusedToken(_) | Self::Anonymous => "unknown",
        }
    }

    /// Where it comes in, as the metrics name the listener.
    pub(crate) const fn listener(&self) -> &'static str {
        match self {
            Self::Host { .. } | Self::Container(_) | Self::Unresolved { .. } => "socket",
            Self::Certificate { .. }
            | Self::Refused { .. }
            | Self::Token(_)
            | Self::RefusedToken(_)
            | Self::Anonymous => "listen",
        }
    }

    /// The caller as a key, the same for each connection of it.
    pub(crate) fn key(&self) -> Arc<str> {
        match self {
            Self::Host { uid, gids, is_admin } => format!("host {uid} {gids:?} {is_admin}"),
            Self::Container(container) => format!("container {}/{}", container.uid, container.name),
            Self::Certificate { subject, is_admin } => {
                format!("client {:?} {:?} {is_admin}", subject.name, subject.groups)
            }
            Self::Token(token) => format!("token {}", token.access.subject.uid),
            Self::Unresolved { .. } | Self::Refused { .. } | Self::RefusedToken(_) | Self::Anonymous => String::new(),
        }
        .into()
    }

    /// The answer to a caller that may see nothing: 403 if larder knows the caller, else 401.
    pub(crate) fn refusal(self) -> ApiError {
        match self {
            Self::Host { .. }
            | Self::Container(_)
            | Self::Unresolved { .. }
            | Self::Certificate { .. }
            | Self::Token(_) => ApiError::Forbidden(self),
            Self::RefusedToken(refusal) => ApiError::RefusedToken(refusal),
            Self::Refused { .. } | Self::Anonymous => ApiError::Unauthorized(self),
        }
    }

    /// What a caller that may not read can do about it.
    pub(crate) fn advice(&self) -> &'static str {
        match self {
            Self::Host { .. } => {
                "of the host's processes, only root, larder's own user and the admin groups (--socket-admin-group) may; ask as root, or from a pod for \
                 what is the pod's own"
            }
            Self::Container(_) => {
                "a container sees its own pod, the name and a few labels of its node, and the keys of Secrets and ConfigMaps that it mounts \
                 or has in its environment; read the rest from the API server, or ask as root of the host"
            }
            Self::Unresolved { .. } => {
                "it is not told apart here; use the token of its pod, or a certificate, over TLS (--listen)"
            }
            Self::Token(_) => {
                "by its token, a pod sees itself, the name and a few labels of its node, and the keys of Secrets and ConfigMaps that its \
                 running containers mount or have in their environment; read the rest from the API server"
            }
            Self::Certificate { .. } => {
                "its certificate is not of the group that larder lets in (--admin-group); write a kubeconfig on the node with \
                 `larder kubeconfig`"
            }
            Self::Refused { .. } | Self::RefusedToken(_) | Self::Anonymous => {
                "show a client certificate: write a kubeconfig on the node with `larder kubeconfig`; or, as a pod of this node, its \
                 service-account token"
            }
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { uid, .. } => write!(f, "user {uid}"),
            Self::Container(container) => container.fmt(f),
            Self::Unresolved { uid, why } => write!(f, "a process of user {uid} ({why})"),
            // The name is quoted and escaped: it may have line breaks.
            Self::Certificate { subject, .. } => write!(f, "client {:?}", subject.name),
            Self::Refused { why } => write!(f, "a client whose certificate is refused ({why})"),
            Self::Token(pod) => write!(f, "pod \"{pod}\""),
            Self::RefusedToken(_) => f.write_str("a client whose token is refused"),
            Self::Anonymous => f.write_str("an unknown caller"),
        }
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "container \"{}\" of pod \"{}/{}\"", self.name, self.namespace, self.pod)
    }
}

impl Container {
    /// The container of this ID and name, in the pod that the runtime knows by this UID.
    pub(crate) fn new([namespace, pod, uid]: [&str; 3], name: &str, id: &str, user: u32) -> Self {
        let uid = PodUid::from(uid);
        let [namespace, pod, name, id] = [namespace, pod, name, id].map(str::to_owned);
        Self { namespace, pod, uid, name, id, user, access: Mutex::default() }
    }

    /// Whether the container runtime has told that it has ended, or no longer has it.
    pub(crate) fn has_ended(&self, node: &Node) -> Result<bool, ReadError> {
        Ok(node.live_container(&self.uid, &self.id)?.is_none())
    }

    /// Waits until it has ended, or its pod has gone.
    pub(crate) async fn ended(&self, node: &Node) {
        node.container_ended([&self.namespace, &self.pod], &self.uid, &self.id).await;
    }

    /// What it may see by a policy and the state of its pod. Without a policy file, that does not change while the container runs.
    pub(crate) fn access(&self, policy: &Arc<Policy>, pod: Arc<Pod>) -> Result<Arc<PodAccess>, ApiError> {
        let mut held = self.access.lock();
        if let Some(judged) = &*held
            && Arc::ptr_eq(&judged.pod, &pod)
            && Arc::ptr_eq(&judged.policy, policy)
        {
            return Ok(Arc::clone(&judged.access));
        }
        let access = PodAccess::of(policy, &pod, |name| name == self.name);
        let access =
            Arc::new(access.map_err(|error| ApiError::Unwritable(format!("its pod cannot be read: {error}")))?);
        *held = Some(Judged { pod, policy: Arc::clone(policy), access: Arc::clone(&access) });
        Ok(access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(caller.is_admin(), may_read, "{caller}");
            let refusal = caller.refusal();
            assert_eq!(refusal.code().as_u16(), code, "{refusal}");
            assert!(refusal.to_string().starts_with(text), "{refusal}");
            assert!(refusal.to_string().contains("larder kubeconfig"), "{refusal}");
        }
    }
}
