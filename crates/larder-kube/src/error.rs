//! The crate's error: what failed, for which object or server, why, and what to do.
//!
//! Retries follow the predicates: [`KubeError::is_unavailable`] is an outage, [`KubeError::is_forbidden`] may come before the
//! authorizer knows the pod.

use larder_objects::{FetchError, ObjectKey};
use larder_resource::{DecodeError, Kind};
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The largest part of a server's message that is kept, in bytes.
const MESSAGE: usize = 1024;

/// The target of a request, as messages name it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Target {
    /// One object.
    Object(Kind, ObjectKey),
    /// The pods of this node.
    PodsOf(Arc<str>),
    /// The node of this name.
    Node(Arc<str>),
    /// The objects of a kind in a namespace.
    Namespace(Kind, Arc<str>),
    /// The user of larder's credentials.
    Identity,
    /// An object of this kind with an unknown name.
    Any(Kind),
    /// A document of the server, by its path.
    Document(&'static str),
    /// Whose a token is (`TokenReview`).
    TokenReview,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(kind, key) => write!(f, "{} {key}", kind.singular()),
            Self::PodsOf(node) => write!(f, "pods of node {node}"),
            Self::Node(node) => write!(f, "node {node}"),
            Self::Namespace(kind, namespace) => write!(f, "{}s of namespace {namespace}", kind.singular()),
            Self::Identity => f.write_str("own identity"),
            Self::Any(kind) => f.write_str(kind.singular()),
            Self::Document(path) => f.write_str(path),
            Self::TokenReview => f.write_str("review of a token"),
        }
    }
}

/// The errors between larder and the API server.
///
/// Clones are cheap. No variant or message holds an object's contents.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KubeError {
    /// The kubeconfig cannot be read.
    #[error("kubeconfig {}: {source}; give a file that this process may read with --kubeconfig", path.display())]
    KubeconfigUnreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Arc<std::io::Error>,
    },
    /// The file is not valid YAML of a kubeconfig.
    #[error("kubeconfig {}: not a valid kubeconfig: {problem}", path.display())]
    KubeconfigInvalid {
        /// The file.
        path: PathBuf,
        /// The problem, with its line if known.
        problem: String,
    },
    /// The kubeconfig lacks the context that was asked for.
    #[error("kubeconfig {}: no context {context:?}; it has {}", path.display(), in_words(known))]
    UnknownContext {
        /// The file.
        path: PathBuf,
        /// The requested context.
        context: String,
        /// The contexts that it has.
        known: Vec<String>,
    },
    /// A certificate, key or token file that the configuration names cannot be read.
    #[error("{origin}: {what} {}: {source}", path.display())]
    CredentialFile {
        /// The kubeconfig, or the service account.
        origin: String,
        /// The file's purpose.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: Arc<std::io::Error>,
    },
    /// The configuration is readable but invalid.
    #[error("{origin}: {problem}")]
    Config {
        /// The kubeconfig, or the service account.
        origin: String,
        /// The problem.
        problem: String,
    },
    /// A setting is invalid.
    #[error("setting {field}: {problem}{}", other.map(|other| format!(" {other}")).unwrap_or_default())]
    InvalidOption {
        /// The field of [`KubeOptions`](crate::KubeOptions).
        field: &'static str,
        /// The problem.
        problem: String,
        /// The other field of a conflict, after `problem`: "must be shorter than".
        other: Option<&'static str>,
    },
    /// An invalid namespace or name; nothing was sent.
    #[error("{target}: not a name that an object can have")]
    InvalidName {
        /// The object.
        target: Target,
    },
    /// The server answered with an error.
    #[error("{target}: {}", answer(*code, reason, message, hint))]
    Status {
        /// The target of the request.
        target: Target,
        /// The HTTP status.
        code: u16,
        /// The reason of the server's Status, such as `Forbidden`; empty without a Status.
        reason: String,
        /// The message of the server's Status; empty without a Status.
        message: String,
        /// The pause that the server asks for.
        retry_after: Option<Duration>,
        /// The remedy.
        hint: &'static str,
    },
    /// The connection could not be opened, or broke.
    #[error("{target}: cannot reach the API server at {server}: {problem}")]
    Transport {
        /// The target of the request.
        target: Target,
        /// The server.
        server: Arc<str>,
        /// The chain of causes.
        problem: String,
    },
    /// No credentials for the request.
    #[error("{target}: no credentials for the API server: {problem}")]
    Credentials {
        /// The target of the request.
        target: Target,
        /// Why, without the credentials.
        problem: String,
    },
    /// The deadline passed without a response.
    #[error("{target}: no answer from the API server at {server} within {after:?}")]
    Timeout {
        /// The target of the request.
        target: Target,
        /// The server.
        server: Arc<str>,
        /// The deadline.
        after: Duration,
    },
    /// A watch ended and is not reopened yet: the objects may have changed since.
    #[error(
        "{target}: its watch at {server} has ended, and has not been opened again within {after:?}; larder goes on trying"
    )]
    Unwatched {
        /// The watched object or list.
        target: Target,
        /// The server.
        server: Arc<str>,
        /// How long ago it ended.
        after: Duration,
    },
    /// Watches fill all connections that larder may open. The object or list is polled instead, and stale between two lists.
    #[error(
        "{target}: no room for its watch: watches fill all connections to {server} that the setting {setting} allows; larder \
         lists it again and again until there is room: raise the setting"
    )]
    NoRoom {
        /// The object or list that has no watch.
        target: Target,
        /// The server.
        server: Arc<str>,
        /// The setting that bounds the connections.
        setting: &'static str,
    },
    /// The response is not the requested object or list.
    #[error("{target}: the answer cannot be used: {problem}")]
    Decode {
        /// The target of the request.
        target: Target,
        /// The problem, without the contents.
        problem: DecodeError,
    },
    /// A list came from the API server's cache and may be old.
    #[error(
        "{target}: listed from the API server's cache at version {has}, which may be old; stale until its watch {}",
        progress(*wants)
    )]
    Behind {
        /// The list.
        target: Target,
        /// The version of the list.
        has: String,
        /// The version from which on the list is current; 0 if the server may not be asked for the version.
        wants: u64,
    },
    /// The node does not exist, or larder may not read it.
    #[error("node {node}: {problem}; check --node-name (NODE_NAME): {}", advice(identity, node))]
    WrongNode {
        /// The configured node name.
        node: String,
        /// The user of larder's credentials; empty if unknown.
        identity: String,
        /// What the server said.
        problem: String,
        /// The answer's HTTP status.
        code: u16,
    },
}

impl KubeError {
    /// The same error for another target, whose request waited for the one that failed.
    pub(crate) fn with_target(mut self, shared_by: Target) -> Self {
        match &mut self {
            Self::InvalidName { target }
            | Self::Status { target, .. }
            | Self::Transport { target, .. }
            | Self::Credentials { target, .. }
            | Self::Timeout { target, .. }
            | Self::Unwatched { target, .. }
            | Self::NoRoom { target, .. }
            | Self::Decode { target, .. }
            | Self::Behind { target, .. } => *target = shared_by,
            Self::KubeconfigUnreadable { .. }
            | Self::KubeconfigInvalid { .. }
            | Self::UnknownContext { .. }
            | Self::CredentialFile { .. }
            | Self::Config { .. }
            | Self::InvalidOption { .. }
            | Self::WrongNode { .. } => {}
        }
        self
    }

    pub(crate) fn decode(target: Target, problem: DecodeError) -> Self {
        Self::Decode { target, problem }
    }

    pub(crate) fn status(
        target: Target,
        code: u16,
        reason: String,
        mut message: String,
        retry_after: Option<Duration>,
    ) -> Self {
        let mut end = MESSAGE.min(message.len());
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
        let hint = hint(code, &target);
        Self::Status { target, code, reason, message, retry_after, hint }
    }

    /// The HTTP status, if the server responded with an error.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } | Self::WrongNode { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The server says that the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// The server says that larder may not read this.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// The server does not accept larder's credentials.
    pub fn is_unauthorized(&self) -> bool {
        self.code() == Some(401)
    }

    /// The requested resource version is too old: list again.
    pub fn is_expired(&self) -> bool {
        self.code() == Some(410)
    }

    /// The server's watch cache is older than the requested version.
    pub(crate) fn is_version_too_large(&self) -> bool {
        matches!(self, Self::Status { code: 504, message, .. } if message.contains("Too large resource version"))
    }

    /// The server throttles larder (429).
    pub fn is_throttled(&self) -> bool {
        self.code() == Some(429)
    }

    /// No answer before the deadline.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout { .. })
    }

    /// An outage: the server is unreachable, fails, rejects larder's credentials, throttles or redirects. Other requests fail
    /// too, and a retry may help.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Transport { .. } | Self::Timeout { .. } | Self::Credentials { .. } => true,
            Self::Status { code, .. } => matches!(code, 300..=399 | 401 | 429 | 500..),
            _ => false,
        }
    }

    /// The request or its response was lost: retry as soon as the server answers any request.
    ///
    /// ```
    /// use larder_kube::KubeError;
    /// let problem = "connection refused".to_owned();
    /// let away = KubeError::Transport { target: larder_kube::Target::Identity, server: "https://k".into(), problem };
    /// assert!(away.is_unreached() && away.is_unavailable());
    /// ```
    pub fn is_unreached(&self) -> bool {
        matches!(self, Self::Transport { .. } | Self::Timeout { .. })
    }

    /// Watches fill all connections that larder may open.
    pub(crate) fn is_no_room(&self) -> bool {
        matches!(self, Self::NoRoom { .. })
    }

    /// The pause that the server asks for with `Retry-After`.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl FetchError for KubeError {
    fn is_not_found(&self) -> bool {
        self.is_not_found()
    }

    fn class(&self) -> &'static str {
        match self {
            Self::Status { code, .. } | Self::WrongNode { code, .. } => match code {
                401 => "unauthorized",
                403 => "forbidden",
                404 => "not_found",
                410 => "expired",
                429 => "throttled",
                500.. => "server_error",
                _ => "refused",
            },
            Self::Transport { .. } => "unreachable",
            Self::Credentials { .. } => "credentials",
            Self::Timeout { .. } => "timeout",
            Self::Decode { .. } => "decode",
            Self::Behind { .. } => "behind",
            Self::Unwatched { .. } => "unwatched",
            Self::NoRoom { .. } => "no_room",
            _ => "config",
        }
    }
}

/// The causes of an error in one line, each once.
pub(crate) fn causes(error: &(dyn Error + 'static)) -> String {
    let mut line = in_short(&error.to_string());
    let mut next = error.source();
    while let Some(cause) = next {
        let text = in_short(&cause.to_string());
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        next = cause.source();
    }
    line
}

/// Shortens rustls's advice to its users.
fn in_short(text: &str) -> String {
    const CUT_OFF: &str = "peer closed connection without sending TLS close_notify";
    match text.split_once(CUT_OFF) {
        Some((before, after)) => {
            let after = after.trim_start_matches(": ").trim_start_matches(|c: char| !matches!(c, ' ' | ')'));
            format!("{before}the server cut the connection off{after}")
        }
        None => text.to_owned(),
    }
}

fn progress(wants: u64) -> String {
    match wants {
        0 => "brings a change or a bookmark".to_owned(),
        wants => format!("has reached version {wants}"),
    }
}

fn in_words(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

fn answer(code: u16, reason: &str, message: &str, hint: &str) -> String {
    let mut text = format!("the API server answered {code}");
    for part in [reason, message] {
        if !part.is_empty() {
            text.push_str(if std::ptr::eq(part, reason) { " " } else { ": " });
            text.push_str(part);
        }
    }
    if !hint.is_empty() {
        text.push_str("; ");
        text.push_str(hint);
    }
    text
}

fn advice(identity: &str, node: &str) -> String {
    match identity.strip_prefix("system:node:") {
        Some(own) if own != node => format!("the credentials are those of node {own:?}"),
        Some(_) => "the node may not have registered yet, then start larder again once it has".to_owned(),
        None if identity.is_empty() => "it must be the name of the node's object, as in `kubectl get nodes`".to_owned(),
        None => format!(
            "it must be the name of the node's object, as in `kubectl get nodes`, and user {identity:?} must be allowed to \
             get it"
        ),
    }
}

fn hint(code: u16, target: &Target) -> &'static str {
    match (code, target) {
        (401, _) => "has the token or client certificate expired, or is it another cluster's?",
        (403, Target::Object(..)) => {
            "a node's identity may read only what a pod bound to its node refers to; any other one needs a role that allows \
             `get` of it"
        }
        (403, Target::PodsOf(_) | Target::Node(_)) => {
            "a node's identity may read only its own node and pods: is --node-name the node of these credentials? Any \
             other identity needs a role that allows `get`, `list` and `watch` of pods and nodes"
        }
        (404, Target::PodsOf(_)) => "is this the address of a Kubernetes API server?",
        (429, _) => "the server is overloaded or limits this client; larder retries later",
        (500.., _) => "larder retries later",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::in_short;

    #[test]
    fn a_cut_connection_is_reported_briefly() {
        let tls = "peer closed connection without sending TLS close_notify: https://docs.rs/rustls/x/index.html#unexpected-eof";
        assert_eq!(in_short(tls), "the server cut the connection off");
        assert_eq!(
            in_short(&format!("client error ({tls}) at last")),
            "client error (the server cut the connection off) at last"
        );
        assert_eq!(in_short("connection refused: see https://x"), "connection refused: see https://x");
    }
}
