//! Who asks, as far as a rule can name it.

use crate::grants::Grants;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Who asks.
///
/// ```
/// use larder_policy::Subject;
/// let root = Subject::Host { uid: 0, gids: vec![0], is_admin: true };
/// assert!(root.is_admin());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A process of the host.
    Host {
        /// Its user.
        uid: u32,
        /// Its groups: the effective one and the supplementary ones.
        gids: Vec<u32>,
        /// Whether it is root, the daemon's user, or of an admin group.
        is_admin: bool,
    },
    /// Containers of a pod: the one that asks over the socket, or with a token all of the pod's.
    Pod(Arc<PodSubject>),
    /// A client with a certificate.
    Client {
        /// The common name.
        name: String,
        /// The organizations.
        groups: Vec<String>,
        /// Whether it is of the admin group.
        is_admin: bool,
    },
}

impl Subject {
    /// Whether it sees everything that no rule of a file denies.
    pub fn is_admin(&self) -> bool {
        match self {
            Self::Host { is_admin, .. } | Self::Client { is_admin, .. } => *is_admin,
            Self::Pod(_) => false,
        }
    }

    /// The kind of subject: `host`, `pod` or `client`. A label of metrics.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Host { .. } => "host",
            Self::Pod(_) => "pod",
            Self::Client { .. } => "client",
        }
    }
}

/// The containers of a pod that ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSubject {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    pub uid: String,
    /// The name of its service account.
    pub service_account: String,
    /// The pod's labels.
    pub labels: BTreeMap<String, String>,
    /// What the containers that ask refer to.
    pub grants: Grants,
}
