//! The errors of tokens and keys. None quotes a token.

use jiff::Timestamp;

/// Why a token is refused. No variant holds a part of the token but the public names in its claims, escaped when they are displayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is no signed JWT in the compact form.
    #[error("the token is malformed: {0}")]
    Malformed(&'static str),
    /// A claim is missing, or has another type than it should.
    #[error("the token's claim {name} {problem}")]
    Claim {
        /// The claim, such as `kubernetes.io.pod.uid`.
        name: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// There is no key with the ID that the token names.
    #[error("no key that larder knows has signed the token: its key ID is not among {known} keys")]
    UnknownKey {
        /// How many usable keys there are.
        known: usize,
    },
    /// The header names another algorithm than that of the key.
    #[error("the token names another algorithm than the {expected} of its key")]
    Algorithm {
        /// The algorithm of the key.
        expected: &'static str,
    },
    /// The signature is none of the key's.
    #[error("the token's signature is wrong")]
    Signature,
    /// Somebody else issued the token.
    #[error("the token is of issuer {found:?}, and this cluster's is {expected:?}")]
    Issuer {
        /// The issuer of the token.
        found: String,
        /// The issuer of the cluster.
        expected: String,
    },
    /// The API server does not take the token. It does not say why.
    #[error("the API server does not take the token")]
    NotAuthenticated,
    /// The token is for another audience, such as a vault.
    #[error("the token is for another audience than the API server's ({})", expected.join(", "))]
    Audience {
        /// The accepted audiences.
        expected: Vec<String>,
    },
    /// The token has expired.
    #[error("the token expired at {at}")]
    Expired {
        /// When.
        at: Timestamp,
    },
    /// The token is not valid yet, or issued in the future.
    #[error("the token is not valid before {at}")]
    NotYet {
        /// When it begins to be valid.
        at: Timestamp,
    },
    /// The token is bound to no pod.
    #[error("the token is bound to no pod: larder answers tokens of this node's pods alone")]
    NoPod,
    /// The token is of a pod on another node.
    #[error("the token is of a pod on node {found:?}, and this is node {expected:?}: ask the larder of that node")]
    OtherNode {
        /// The node in the token.
        found: String,
        /// This node.
        expected: String,
    },
    /// The pod is not on this node, or no longer.
    #[error("the token is of pod {pod:?}, which is not a pod of this node, or no longer")]
    PodGone {
        /// Namespace and name of the pod.
        pod: String,
    },
    /// A pod of the same name, deleted and made again, took the place of the token's.
    #[error("the token is of an earlier pod {pod:?}: the pod has been made again, with another UID")]
    OtherPod {
        /// Namespace and name of the pod.
        pod: String,
    },
    /// The pod runs as another service account.
    #[error("the token is of another service account than that of pod {pod:?}")]
    OtherAccount {
        /// Namespace and name of the pod.
        pod: String,
    },
    /// The pod was deleted, and should be gone by now.
    #[error("the token has ended with its pod {pod:?}, which was deleted")]
    PodDeleted {
        /// Namespace and name of the pod.
        pod: String,
    },
}

impl TokenError {
    /// Whether newer keys may verify the token: its key is unknown. A wrong signature is wrong under newer keys, too, because the ID of a key
    /// of Kubernetes is the hash of the key.
    ///
    /// ```
    /// assert!(larder_token::TokenError::UnknownKey { known: 2 }.wants_newer_keys());
    /// assert!(!larder_token::TokenError::Signature.wants_newer_keys());
    /// ```
    pub const fn wants_newer_keys(&self) -> bool {
        matches!(self, Self::UnknownKey { .. })
    }

    /// Whether the token may be good, and is of no pod of this node: it is bound to none, or its pod is on another node or gone.
    ///
    /// ```
    /// assert!(larder_token::TokenError::NoPod.may_hold_elsewhere());
    /// assert!(!larder_token::TokenError::Signature.may_hold_elsewhere());
    /// ```
    pub const fn may_hold_elsewhere(&self) -> bool {
        matches!(self, Self::NoPod | Self::OtherNode { .. } | Self::PodGone { .. })
    }

    /// A word from a bounded set, for a label of metrics.
    ///
    /// ```
    /// assert_eq!(larder_token::TokenError::Signature.reason(), "signature");
    /// ```
    pub const fn reason(&self) -> &'static str {
        self.words().0
    }

    /// The reason in words that name neither the cluster, a node nor an object: for a client that has shown no valid token.
    ///
    /// ```
    /// assert_eq!(larder_token::TokenError::Signature.in_short(), "its signature is wrong");
    /// ```
    pub const fn in_short(&self) -> &'static str {
        self.words().1
    }

    const fn words(&self) -> (&'static str, &'static str) {
        match self {
            Self::Malformed(_) => ("malformed", "it is malformed"),
            Self::Claim { .. } => ("claim", "a claim is missing, or is not as Kubernetes writes it"),
            Self::UnknownKey { .. } => ("unknown-key", "no key that larder knows has signed it"),
            Self::Algorithm { .. } => ("algorithm", "it names another algorithm than that of its key"),
            Self::Signature => ("signature", "its signature is wrong"),
            Self::NotAuthenticated => ("not-authenticated", "the API server does not take it"),
            Self::Issuer { .. } => ("issuer", "another issuer than this cluster's has issued it"),
            Self::Audience { .. } => ("audience", "it is for another audience than the API server's"),
            Self::Expired { .. } => ("expired", "it has expired"),
            Self::NotYet { .. } => ("not-yet", "it is not valid yet"),
            Self::NoPod => ("no-pod", "it is bound to no pod: larder takes the tokens of this node's pods alone"),
            Self::OtherNode { .. } => ("other-node", "it is of a pod on another node: ask the larder of that node"),
            Self::PodGone { .. } => ("pod-gone", "its pod is not a pod of this node, or no longer"),
            Self::OtherPod { .. } => ("other-pod", "its pod has been made again, with another UID"),
            Self::OtherAccount { .. } => ("other-account", "it is of another service account than that of its pod"),
            Self::PodDeleted { .. } => ("pod-deleted", "it has ended with its pod, which was deleted"),
        }
    }
}

/// Why a document of keys cannot be used.
///
/// ```
/// let error = larder_token::Keys::parse(b"garbage").unwrap_err();
/// assert_eq!(error, larder_token::KeysError::Pem);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// It is no JSON, no JWKS, or a name stands twice in it.
    #[error("the keys are no JWKS (RFC 7517): {0}")]
    Jwks(&'static str),
    /// It is no PEM.
    #[error("the keys are neither a JWKS (RFC 7517) nor public keys in PEM (-----BEGIN PUBLIC KEY-----)")]
    Pem,
    /// It holds a private key, which must not be here.
    #[error("the keys hold a private key: give public keys alone, for example by `openssl pkey -pubout`")]
    Private,
    /// It holds more keys than anybody signs with.
    #[error("there are more than {most} keys")]
    TooMany {
        /// The most keys.
        most: usize,
    },
}
