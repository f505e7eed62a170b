//! The connections of the socket, and whose they are.
//!
//! The kernel names the process that connected, and `larder-identity` holds it. A process of the host, and one in a container that the
//! runtime has told of, is known at once. Any other one is waited for in the connection's own task.
//!
//! # Guarantees
//!
//! - *Known once*: who a connection is of is decided before its first request, and for all of them. A connection that is handed on to another
//!   process stays that of its first one.
//! - *The host's alone are admins*: root, the daemon's user and the admin groups count only in no container, and in the daemon's user and PID
//!   namespace. Everybody else is a container, whatever its user and groups, or nobody.
//! - *Ended is closed*: the connection of a container ends when the runtime tells that the container has ended, or when its pod has gone. A
//!   request under way then, such as a watch, ends with it.
//! - *Apart*: the connections of pods, of admins, and of those who may see nothing have places of their own, and pods [share](super::shares) theirs.
//!   So have those of containers that are waited for.

use super::{Connections, turn_away, turned_away};
use crate::access::Access;
use crate::activity::Activity;
use crate::admins::Admins;
use crate::app;
use crate::caller::{Caller, Container};
use crate::connection::{self, Client};
use crate::metrics::Listener;
use crate::socket::PersistentSocket;
use crate::usage::{Identity, Usage};
use futures_util::FutureExt as _;
use larder_identity::{Peer, PeerError, Process, ProcessError};
use larder_node::{Node, Whois, WhoisError, WhoisPod};
use larder_pleg::ContainerState;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;

/// How long the runtime may take to tell of the container of a process that has connected.
const IDENTIFY: Duration = Duration::from_secs(5);
/// How many connections may be closed to open the files that one look takes.
const MOST_EVICTIONS: usize = 8;

impl Connections {
    /// Takes connections until the token is cancelled.
    pub(super) async fn take_local(self: &Arc<Self>, socket: &mut PersistentSocket) {
        let client = Client {
            router: app::local(&self.app),
            head_timeout: self.limits.head_timeout,
            stall_timeout: self.limits.stall_timeout,
            drain_timeout: self.limits.drain_timeout,
            most_requests: usize::MAX,
            http2_streams: Some(self.limits.http2_streams),
            usage: None,
            caller: Caller::Anonymous,
        };
        while let Some(accepted) = self.token.run_until_cancelled(socket.accept()).await {
            let Some(stream) = self.accepted(accepted).await else { continue };
            // Now, and not in a task: the sooner, the surer that the process is the one that connected.
            match self.first_look(&stream).await {
                Look::Known(caller) => self.serve_caller(stream, caller, client.clone()),
                Look::Later(peer) => self.serve_once_known(stream, peer, client.clone()),
            }
        }
    }

    /// Who a connection is of, if that is known without waiting for the runtime.
    async fn first_look(&self, stream: &UnixStream) -> Look {
        let mut tries = MOST_EVICTIONS;
        loop {
            let looked = look(self.app.node.for_larder(), &self.admins, stream);
            match looked {
                // A look opens files, and an idle connection makes room for them, as for a new connection.
                Err(error) if is_out_of_files(&error) && tries > 0 && !self.token.is_cancelled() => {
                    tries -= 1;
                    self.accepted::<()>(Err(io::Error::from(Errno::MFILE))).await;
                }
                Err(error) => {
                    let uid = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
                    return Look::Known(unresolved(uid, &error));
                }
                Ok(look) => return look,
            }
        }
    }

    /// Waits in a task until the runtime tells of the container of the process.
    fn serve_once_known(self: &Arc<Self>, stream: UnixStream, peer: Peer, client: Client) {
        let Some(activity) = self.admit(|open| open.unidentified.admit(), Listener::Socket) else {
            drop(stream.try_write(&turned_away()));
            return;
        };
        let this = Arc::clone(self);
        self.tracker.spawn(async move {
            let caller = tokio::select! {
                caller = identify(this.app.node.for_larder(), &this.admins, &peer, IDENTIFY) => {
                    caller.unwrap_or_else(|error| unresolved(peer.uid(), &error))
                }
                () = activity.evicted.cancelled() => return,
                () = this.token.cancelled() => return,
            };
            drop(activity);
            this.serve_caller(stream, caller, client);
        });
    }

    fn serve_caller(self: &Arc<Self>, stream: UnixStream, caller: Caller, client: Client) {
        let may_read = matches!(caller, Caller::Container(_)) || Access::may_any(&self.app, &caller);
        let Some(identity) = Identity::of(&caller).filter(|_| may_read) else {
            return self.serve_foreign(stream, caller, client);
        };
        let (usage, most) = (self.usages.of(&identity), self.most_of(&identity));
        let activity = self.admit(
            |open| {
                let shares = if identity.is_admin() { &mut open.own } else { &mut open.pods };
                shares.admit(&identity, most, Activity::new())
            },
            Listener::Socket,
        );
        let Some(activity) = activity else { return self.turn_away(stream, usage) };
        let client = Client { usage: Some(usage), caller, ..client };
        match client.caller.clone() {
            Caller::Container(container) => self.serve_container(stream, container, client, activity),
            _ => self.serve(stream, Listener::Socket, client, activity),
        }
    }

    /// Serves a caller who may see nothing.
    fn serve_foreign(self: &Arc<Self>, stream: UnixStream, caller: Caller, client: Client) {
        self.app.metrics.foreign.inc();
        // One request at a time, as over HTTP/1.1: then the limit of connections is enough.
        let client = Client { http2_streams: Some(1), caller, ..client };
        match self.admit(|open| open.foreign.admit(), Listener::Socket) {
            Some(activity) => self.serve(stream, Listener::Socket, client, activity),
            // Written only as far as that is possible without waiting. The client finds the connection closed in any case.
            None => drop(stream.try_write(&turned_away())),
        }
    }

    /// Answers a connection for which there is no room.
    fn turn_away(&self, mut stream: UnixStream, usage: Usage) {
        match usage.turn_away() {
            Some(place) => drop(self.tracker.spawn(async move {
                turn_away(&mut stream).await;
                drop((place, usage));
            })),
            // Written only as far as that is possible without waiting.
            None => drop(stream.try_write(&turned_away())),
        }
    }

    fn serve_container(
        self: &Arc<Self>,
        stream: UnixStream,
        container: Arc<Container>,
        client: Client,
        activity: Arc<Activity>,
    ) {
        tracing::debug!(%container, id = container.id, user = container.user, "a container has connected");
        let this = Arc::clone(self);
        self.tracker.spawn(async move {
            this.app.metrics.connection_opened(Listener::Socket);
            let ending = this.token.clone();
            let serving = connection::serve(stream, client, activity, this.tracker.clone(), ending);
            tokio::select! {
                biased;
                () = container.ended(this.app.node.for_larder()) => {
                    tracing::debug!(%container, "closing a connection: the container has ended");
                }
                served = serving => if let Err(error) = served {
                    // The client caused it: it went away, was too slow, or does not speak HTTP.
                    tracing::debug!(%error, %container, "connection ended");
                },
            }
            this.app.metrics.connection_closed(Listener::Socket);
        });
    }
}

/// What a first look finds.
enum Look {
    Known(Caller),
    /// A process in a container that the runtime has not told of yet.
    Later(Peer),
}

/// Why it is not known whose a connection is.
#[derive(Debug, thiserror::Error)]
enum Unknown {
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Whois(#[from] WhoisError),
}

fn look(node: &Node, admins: &Admins, stream: &UnixStream) -> Result<Look, Unknown> {
    let peer = Peer::of(stream, admins.source)?;
    match identify(node, admins, &peer, IDENTIFY).now_or_never() {
        Some(caller) => Ok(Look::Known(caller?)),
        None => Ok(Look::Later(peer)),
    }
}

/// Whether this process, or the machine, can open no more files.
fn is_out_of_files(error: &Unknown) -> bool {
    let problem = match error {
        Unknown::Peer(
            PeerError::NoCredentials { problem } | PeerError::Process(ProcessError::Unreadable { problem, .. }),
        )
        | Unknown::Process(ProcessError::Unreadable { problem, .. })
        | Unknown::Whois(WhoisError::Process(ProcessError::Unreadable { problem, .. })) => problem,
        Unknown::Peer(_) | Unknown::Process(_) | Unknown::Whois(_) => return false,
    };
    matches!(Errno::from_io_error(problem), Some(Errno::MFILE | Errno::NFILE))
}

/// Who the process is, as soon as that is known, and within `deadline`.
async fn identify(node: &Node, admins: &Admins, peer: &Peer, deadline: Duration) -> Result<Caller, Unknown> {
    Ok(match node.whois_process(peer.process(), deadline).await? {
        Whois::Host => of_host(admins, peer)?,
        Whois::Pod(found) => of_pod(peer.uid(), &found),
        _ => unresolved(peer.uid(), &"it is neither of the host nor of a pod"),
    })
}

fn of_host(admins: &Admins, peer: &Peer) -> Result<Caller, ProcessError> {
    let (uid, own) = (peer.uid(), rustix::process::geteuid());
    let means_the_same = match peer.process().is_in_host_user_namespace() {
        Ok(means_the_same) => means_the_same,
        // A daemon that is not root may not look at processes of other users and groups. The kernel names the user in the daemon's user
        // namespace all the same.
        Err(ProcessError::Unreadable { problem, .. }) if !own.is_root() && is_denied(&problem) => true,
        Err(error) => return Err(error),
    };
    let gids: Arc<[u32]> = std::iter::once(peer.gid()).chain(peer.groups().iter().copied()).collect();
    // Elsewhere a user and its groups mean something else, and no rule is about them.
    if !means_the_same || !is_in_own_pid_namespace(peer.process()) {
        return Ok(unresolved(uid, &"it is in a user or PID namespace of its own"));
    }
    let is_admin = uid == 0 || uid == own.as_raw() || admins.have(&gids);
    Ok(Caller::Host { uid, gids, is_admin })
}

fn is_denied(problem: &io::Error) -> bool {
    problem.kind() == io::ErrorKind::PermissionDenied
}

/// Whether a process is in the daemon's PID namespace, and not in one below. A container whose cgroup has no name of a container is in one
/// below, and users and groups mean little there: most containers are root or 65532, and a pod chooses its groups.
fn is_in_own_pid_namespace(process: &Process) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid()));
    status.is_ok_and(|status| has_one_id(&status, process.pid())) && process.is_alive()
}

/// Whether that is the only ID of a process. A process has one ID in each namespace from the daemon's down to its own.
fn has_one_id(status: &str, pid: u32) -> bool {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.is_some_and(|ids| ids.trim() == pid.to_string())
}

fn of_pod(user: u32, found: &WhoisPod) -> Caller {
    let (Some(status), Some(container)) = (&found.read.status, &found.container) else {
        return unresolved(user, &"it is of the sandbox of a pod, and of no container");
    };
    if container.state == ContainerState::Exited {
        return unresolved(user, &"its container has ended");
    }
    // Each request looks for its pod, which may come later.
    let pod = [&*status.namespace, &*status.name, &*found.read.uid.to_string()];
    Caller::Container(Arc::new(Container::new(pod, &container.name, &container.id.id, user)))
}

fn unresolved(uid: u32, why: &impl ToString) -> Caller {
    Caller::Unresolved { uid, why: why.to_string().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(is_in_own_pid_namespace(&Process::open(std::process::id()).unwrap()));
    }
}
