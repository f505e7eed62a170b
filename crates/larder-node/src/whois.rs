//! Which pod and container of this node a process, a container's ID or a cgroup belongs to.
//!
//! Security and tracing agents see PIDs and cgroups. larder-identity reads the container's ID from them; the pod status cache knows the
//! containers, and the source of the pods the pods.
//!
//! # Guarantees
//!
//! - A container that has just started is waited for, until the deadline: the runtime is listed, and each write of a pod's status is
//!   looked at. Nothing is polled.
//! - *Not known is not the host*: a process in a cgroup of the form of a container's is never answered with [`Whois::Host`].

use crate::error::ReadError;
use crate::runtime::{PodStatusRead, RuntimeSide};
use larder_clock::MachineClocks;
use larder_identity::{Cgroups, Membership, Process, ProcessError};
use larder_pleg::{ContainerStatus, PodStatus};
use larder_resource::Pod;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The fewest characters of a container's ID that stand for it. `crictl ps` prints 13.
const FEWEST_DIGITS: usize = 8;

/// What is asked for.
///
/// ```
/// use larder_node::{Cluster, Config, Node, RuntimeEndpoint, WhoisTarget};
/// use std::time::Duration;
/// use tokio_util::sync::CancellationToken;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let manifests = tempfile::tempdir().unwrap();
/// let mut config = Config::new("edge-1", Cluster::Manifests(manifests.path().to_owned()));
/// config.runtime = RuntimeEndpoint::None;
/// let node = Node::start(config, CancellationToken::new()).await.unwrap();
/// let error = node.whois(&WhoisTarget::Pid(4711), Duration::ZERO).await.unwrap_err();
/// assert!(error.to_string().contains("without a container runtime"), "{error}");
/// node.stop().await;
/// # });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhoisTarget {
    /// The process that has this PID in larder's PID namespace.
    Pid(u32),
    /// The container or sandbox of this ID, or of the only ID that begins so. The runtime's name may be in front: `containerd://…`.
    Container(String),
    /// Whatever runs in the cgroup of this path, without the mount point: `/kubepods/…`.
    Cgroup(String),
}

/// Whose it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Whois {
    /// The host's: it is in no container's and in no pod's cgroup.
    Host,
    /// A pod's.
    Pod(Box<WhoisPod>),
}

/// The pod that something belongs to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WhoisPod {
    /// The ID of the container, or of the sandbox.
    pub id: String,
    /// The container; `None` if it is the sandbox, whose own process holds the pod's namespaces.
    pub container: Option<ContainerStatus>,
    /// The pod's status in the runtime, and how fresh that is.
    pub read: PodStatusRead,
    /// The pod as its source has it; `None` if the source does not have it.
    pub pod: Option<Arc<Pod>>,
}

/// Why it is not known whose it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WhoisError {
    /// The runtime has not been listed, or larder runs without one.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There is no such process, or it cannot be read.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// larder cannot see its own mounts, and so not who may have named a cgroup.
    #[error("cannot read the mounts of this process: {0}")]
    Mounts(#[source] io::Error),
    /// The runtime has no such container.
    #[error("{what} is not known: the container runtime of this node has no container \"{id}\"")]
    NotFound {
        /// What was asked for.
        what: String,
        /// The container's ID, or what stands for it.
        id: String,
    },
    /// Several containers have IDs that begin so.
    #[error("several containers have an ID that begins with \"{id}\": give more of it")]
    SeveralContainers {
        /// What the IDs begin with.
        id: String,
    },
    /// The ID is too short.
    #[error("a container's ID needs at least {FEWEST_DIGITS} characters, and \"{id}\" has fewer")]
    TooShort {
        /// The ID.
        id: String,
    },
    /// The cgroup hierarchies name different containers.
    #[error("{what} is in the cgroups of several containers")]
    Contradictory {
        /// What was asked for.
        what: String,
    },
}

/// Where to look for it.
enum Search {
    Id(String),
    /// On a node with those cgroups.
    Cgroups {
        cgroups: Cgroups,
        own: Cgroups,
    },
    /// A process with these cgroups, for a larder with those: a process of larder's own container is the host's.
    Process {
        process: Cgroups,
        own: Cgroups,
    },
}

/// A container or sandbox in the runtime: its pod's UID there, and its ID.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Found<'a> {
    status: &'a PodStatus,
    id: &'a str,
}

/// The result of one look; an `Err` has the ID that the runtime does not know yet.
type Look<'a> = Result<Option<Found<'a>>, String>;

impl WhoisTarget {
    fn what(&self) -> String {
        match self {
            Self::Pid(pid) => what_process(*pid),
            Self::Container(id) => format!("container \"{id}\""),
            Self::Cgroup(path) => format!("cgroup \"{path}\""),
        }
    }

    fn search(&self) -> Result<Search, WhoisError> {
        Ok(match self {
            Self::Pid(pid) => Search::Cgroups { cgroups: Process::open(*pid)?.cgroups()?, own: own_cgroups()? },
            Self::Cgroup(path) => {
                let cgroups = Cgroups::of_path(path).checked().map_err(WhoisError::Mounts)?;
                Search::Cgroups { cgroups, own: own_cgroups()? }
            }
            Self::Container(id) => {
                let id = id.split_once("://").map_or(id.as_str(), |(_runtime, id)| id).to_owned();
                if id.chars().count() < FEWEST_DIGITS {
                    return Err(WhoisError::TooShort { id });
                }
                Search::Id(id)
            }
        })
    }
}

impl Search {
    fn of_process(process: &Process) -> Result<Self, WhoisError> {
        Ok(Self::Process { process: process.cgroups()?, own: own_cgroups()? })
    }

    /// `what` is what was asked for, in an error.
    fn look<'a>(&self, statuses: &'a [Arc<PodStatus>], what: &str) -> Result<Look<'a>, WhoisError> {
        let known = || found(statuses).map(|found| (found.id, found)).collect::<HashMap<_, _>>();
        let membership = match self {
            Self::Id(id) => {
                let mut all = found(statuses).filter(|found| found.id.starts_with(id));
                match (all.next(), all.next()) {
                    (None, _) => Membership::Unknown(id.clone()),
                    (Some(one), None) => Membership::Container(one),
                    // IDs have one length, so that none begins with another.
                    (Some(_), Some(_)) => return Err(WhoisError::SeveralContainers { id: id.clone() }),
                }
            }
            Self::Cgroups { cgroups, own } => {
                let known = known();
                cgroups.resolve_on(own, |id| known.get(id).copied())
            }
            Self::Process { process, own } => {
                let known = known();
                process.resolve_within(own, |id| known.get(id).copied())
            }
        };
        match membership {
            Membership::Host => Ok(Ok(None)),
            Membership::Container(found) => Ok(Ok(Some(found))),
            Membership::Unknown(id) => Ok(Err(id)),
            Membership::Contradictory => Err(WhoisError::Contradictory { what: what.to_owned() }),
        }
    }
}

/// Those of this process.
fn own_cgroups() -> Result<Cgroups, WhoisError> {
    Ok(Process::open(std::process::id())?.cgroups()?)
}

fn what_process(pid: u32) -> String {
    format!("the process with the PID {pid}")
}

/// Whether the process is in no container's and in no pod's cgroup, whatever the runtime knows. A process of larder's own container is the
/// host's.
pub(crate) fn is_of_host(process: &Process) -> Result<bool, WhoisError> {
    let is_host = |search: &Search| Ok(matches!(search.look(&[], "")?, Ok(None)));
    match is_host(&Search::of_process(process)?) {
        // The runtime may tell more.
        Err(WhoisError::Contradictory { .. }) => Ok(false),
        answer => answer,
    }
}

/// Every container and sandbox of the runtime.
fn found(statuses: &[Arc<PodStatus>]) -> impl Iterator<Item = Found<'_>> {
    statuses.iter().flat_map(|status| {
        let containers = status.containers.iter().map(|container| container.id.id.as_str());
        let sandboxes = status.sandboxes.iter().map(|sandbox| sandbox.id.as_str());
        containers.chain(sandboxes).map(|id| Found { status, id })
    })
}

impl<M: MachineClocks> RuntimeSide<M> {
    /// Whose it is; waits for a container that the runtime has not told of yet, for at most `deadline`.
    pub(crate) async fn whois(&self, target: &WhoisTarget, deadline: Duration) -> Result<Option<WhoisPod>, WhoisError> {
        self.search(&target.search()?, &target.what(), deadline).await
    }

    /// As [`whois`](Self::whois), for a process that is known not to be the host's.
    pub(crate) async fn whois_process(
        &self,
        process: &Process,
        deadline: Duration,
    ) -> Result<Option<WhoisPod>, WhoisError> {
        let search = Search::of_process(process)?;
        self.search(&search, &what_process(process.pid()), deadline).await
    }

    async fn search(&self, search: &Search, what: &str, deadline: Duration) -> Result<Option<WhoisPod>, WhoisError> {
        let mut unknown = String::new();
        let look = |runtime: &Self| {
            let statuses = runtime.statuses();
            match search.look(&statuses, what) {
                Ok(Ok(found)) => Some(Ok(found.map(|found| runtime.whois_pod(found)))),
                Ok(Err(id)) => {
                    unknown = id;
                    None
                }
                Err(error) => Some(Err(error)),
            }
        };
        let answer = self.find_in_time(look, deadline).await;
        answer.unwrap_or_else(|| Err(WhoisError::NotFound { what: what.to_owned(), id: unknown }))
    }

    fn whois_pod(&self, found: Found<'_>) -> WhoisPod {
        let container = found.status.containers.iter().find(|container| container.id.id == found.id);
        WhoisPod {
            id: found.id.to_owned(),
            container: container.cloned(),
            read: self.read(&found.status.uid),
            pod: None,
        }
    }
}

#[cfg(test)]
mod tests;
