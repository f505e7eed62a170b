//! The types of the report: the state of each source, counts of what is held, and what is degraded. `node/status` fills them.
//!
//! The report is also the answer of `/larder/v1/status` of the local API, with names in camel case and times in RFC 3339.

use jiff::Timestamp;
use larder_resource::{Kind, PerKind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// How a node's larder is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    /// larder's version.
    pub version: String,
    /// The node's name.
    pub node: String,
    /// When this larder started.
    pub started_at: Timestamp,
    /// What is not as it should be, each in a line; empty if all is well.
    pub degraded: Vec<String>,
    /// What is worth knowing though all is well, each in a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The sources, in the order in which data flows.
    pub sources: Vec<SourceReport>,
    /// What is held.
    pub counts: Counts,
    /// How the objects of each kind are kept up to date.
    #[serde(default)]
    pub keeping: Vec<Keeping>,
    /// What is open to the API server; none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server: Option<ApiServerReport>,
    /// The local API over TLS; none without `--listen`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<ListenReport>,
    /// The policy file; none without `--policy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyReport>,
    /// Each object that pods of this node refer to, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<Vec<ObjectReport>>,
}

/// Which objects a report may name. The counts are of all objects.
pub trait ReportedNames: fmt::Debug {
    /// Whether it may name every object of a kind.
    fn has_every(&self, kind: Kind) -> bool;

    /// Whether it may name this object.
    fn has(&self, kind: Kind, namespace: &str, name: &str) -> bool;
}

/// Every object.
#[derive(Clone, Copy, Debug)]
pub struct EveryName;

impl ReportedNames for EveryName {
    fn has_every(&self, _: Kind) -> bool {
        true
    }

    fn has(&self, _: Kind, _: &str, _: &str) -> bool {
        true
    }
}

/// How the objects of a kind are kept up to date. The numbers are of objects, but for the watches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Keeping {
    /// The kind, in the plural of paths.
    pub kind: String,
    /// The strategy: `direct`, `ttl`, `watch` or `auto`; `manifest` where every read looks at what the manifests have.
    pub strategy: String,
    /// Watches of single objects that run.
    pub watches: u64,
    /// Watches of whole namespaces that run.
    pub namespace_watches: u64,
    /// Kept by a watch of their own.
    pub watched: u64,
    /// Kept by the watch of their namespace.
    pub namespace_watched: u64,
    /// Fetched when they are read and their TTL has passed.
    pub polled: u64,
    /// Immutable, and held as they were read.
    pub held: u64,
    /// Watched again when they are read: nobody has for long.
    pub idle: u64,
    /// Asked for at every read.
    pub direct: u64,
    /// The bytes that those which are held take.
    pub bytes: u64,
}

/// The local API over TLS, and how a client gets in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ListenReport {
    /// Where clients reach it.
    pub url: String,
    /// The names and addresses of the serving certificate.
    pub names: Vec<String>,
    /// When the serving certificate expires.
    pub not_after: Timestamp,
    /// The file of the serving certificate, if larder does not issue it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<PathBuf>,
    /// The folder of larder's own authority, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// The group of the clients that may read.
    pub admin_group: String,
    /// The keys that verify the tokens of pods; none where larder takes no tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenKeysReport>,
    /// What went on to the API server; none without `--pass-through`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass_through: Option<PassThroughReport>,
}

/// Requests that larder passes on to the API server, since larder started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct PassThroughReport {
    /// Requests that the API server answered.
    pub answered: u64,
    /// Those of them that the API server refused (401 or 403).
    pub refused: u64,
    /// Requests that larder did not pass on because too many were under way.
    pub limited: u64,
    /// Requests that the API server did not answer.
    pub unanswered: u64,
    /// Requests that larder answered itself because the API server refused them or was away.
    pub fallbacks: u64,
    /// Why the API server last did not answer, kept when all is well again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error_at: Option<Timestamp>,
}

/// The tokens about which larder has asked the API server (`TokenReview`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct TokenReviewsReport {
    /// How many tokens it has vouched for that larder remembers.
    pub remembered: u64,
    /// The last failure to ask it, kept when all is well again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error_at: Option<Timestamp>,
}

/// The keys that verify service-account tokens of pods, and where they come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct TokenKeysReport {
    /// Where they are read: an address, or a file.
    pub from: String,
    /// The issuer of the tokens, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The audiences of which a token has to name one, once they are known.
    pub audiences: Vec<String>,
    /// How many keys there are. Until a token is shown, larder reads none.
    pub keys: u64,
    /// The verdicts of the API server, which count while its keys are not known; none where it is not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reviews: Option<TokenReviewsReport>,
    /// Why larder cannot use further keys, one for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unusable: Vec<String>,
    /// When they were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_at: Option<Timestamp>,
    /// How long ago that was, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// The last failure to read them, kept when all is well again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error_at: Option<Timestamp>,
}

/// The policy file, and whether it is in effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct PolicyReport {
    /// The file.
    pub file: PathBuf,
    /// How many rules are in effect.
    pub rules: usize,
    /// Why the file as it is now cannot be used. The rules in effect are those of before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What is open to the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ApiServerReport {
    /// HTTP/2 connections, each with many watches. Over HTTP/1.1 each watch has one of its own, which is not counted.
    pub connections: u64,
    /// Watches, those of pods and of the node among them.
    pub watches: u64,
}

/// What is known of an object, without anything of its contents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ObjectReport {
    /// Its kind, in the plural of paths.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How many pods refer to it.
    pub references: u64,
    /// How it is kept up to date: `watched`, `namespace watch`, `polled`, `held (immutable)`, `idle` or `direct`.
    pub kept: String,
    /// What is known of it: `fresh`, `due`, `stale`, `absent` or `unknown`.
    pub state: String,
    /// How long ago that was confirmed, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
}

/// How one source is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SourceReport {
    /// What it is the source of: `pods`, `node`, `secrets`, `configmaps` or `runtime`.
    pub name: String,
    /// Where it is: an address, a directory, a socket.
    pub from: String,
    /// How it is doing.
    pub state: SourceState,
    /// When it last said anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_contact: Option<Timestamp>,
    /// How long ago that was, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// The last thing that went wrong, kept when all is well again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_at: Option<Timestamp>,
}

/// The state of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum SourceState {
    /// It has not answered yet, and nothing went wrong so far.
    Starting,
    /// It answers.
    Ok,
    /// It does not answer; what is held of it is stale, if anything is.
    Failing,
    /// It was not asked yet: nothing of it was needed.
    Idle,
    /// This larder runs without it.
    Off,
}

impl SourceState {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ok => "ok",
            Self::Failing => "failing",
            Self::Idle => "idle",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for SourceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Counts {
    /// Pods of this node.
    pub pods: u64,
    /// Those of them whose objects are held: terminal ones have released theirs.
    pub pods_registered: u64,
    /// The objects that pods refer to, of each kind.
    #[serde(flatten)]
    pub objects: PerKind<ObjectCounts>,
    /// Containers, as the runtime has them.
    pub containers: ContainerCounts,
    /// Newer-than waits that are open.
    pub open_waits: u64,
}

/// Objects of a kind. `referenced` is the sum of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ObjectCounts {
    /// That pods of this node refer to.
    pub referenced: u64,
    /// Held, and within its TTL.
    pub fresh: u64,
    /// Held, and past its TTL or without one: the next read confirms it.
    pub due: u64,
    /// Held, and could not be fetched when it was last tried.
    pub stale: u64,
    /// Known to be absent.
    pub absent: u64,
    /// Not known yet.
    pub unknown: u64,
}

/// Containers by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ContainerCounts {
    /// Running.
    pub running: u64,
    /// Exited.
    pub exited: u64,
    /// Created and not started.
    pub created: u64,
    /// In a state that the runtime does not know, or larder does not.
    pub unknown: u64,
}

impl ContainerCounts {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.running + self.exited + self.created + self.unknown
    }
}

/// One of the checks behind `/readyz` and `/livez`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// Why it failed; `None` if it passed.
    pub failure: Option<String>,
}
