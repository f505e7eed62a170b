//! Real processes at the other end of real sockets.
//!
//! A test that needs another process runs itself again, in a process that has [`CONNECT_TO`] in its environment and only connects.

use super::*;
use crate::cgroup::Membership;
use std::env;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The socket that this process is to connect to.
const CONNECT_TO: &str = "LARDER_TEST_CONNECT_TO";
/// Set in a PID namespace of the test's own.
const OWN_PIDS: &str = "LARDER_TEST_OWN_PIDS";
/// The processes that this one is to look at.
const OTHER_PIDS: &str = "LARDER_TEST_OTHER_PIDS";

/// Connects, as another process's test says, and stays until its standard input ends. True in such a process.
fn only_connects() -> bool {
    let Some(path) = env::var_os(CONNECT_TO) else { return false };
    let _connection = UnixStream::connect(path).unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    true
}

fn this_test(program: &mut Command) -> &mut Command {
    let name = std::thread::current().name().unwrap().to_owned();
    program.arg(env::current_exe().unwrap()).args(["--exact", &name, "--nocapture"])
}

struct Connected {
    child: Child,
    stream: UnixStream,
    _folder: TempDir,
}

impl Connected {
    /// This test, in a process below `wrapper`, has connected.
    fn by(wrapper: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let mut program = Command::new(wrapper[0]);
        program.args(&wrapper[1..]);
        let child =
            this_test(&mut program).env(CONNECT_TO, &path).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let stream = listener.accept().unwrap().0;
        Self { child, stream, _folder: folder }
    }

    fn end(&mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

const BOTH: [PidSource; 2] = [PidSource::Socket, PidSource::Pid];

fn is_ended(peer: &Result<Peer, PeerError>) -> bool {
    matches!(peer, Err(PeerError::Process(ProcessError::Ended { .. })))
}

#[test]
fn a_peer_is_held_while_it_lives_and_refused_when_it_has_ended() {
    if only_connects() {
        return;
    }
    let mut connected = Connected::by(&["env"]);
    let own = Process::open(std::process::id()).unwrap();
    let peers = BOTH.map(|source| Peer::of(&connected.stream, source).unwrap());
    for (peer, source) in peers.iter().zip(BOTH) {
        assert_eq!(peer.process().pid(), connected.child.id());
        assert_eq!(peer.uid(), rustix::process::geteuid().as_raw());
        assert_eq!(peer.gid(), rustix::process::getegid().as_raw());
        assert_eq!(peer.groups(), own.groups().unwrap());
        assert_eq!(peer.source(), source);
        assert!(peer.process().is_in_host_user_namespace().unwrap());
    }
    connected.end();
    for (peer, source) in peers.into_iter().zip(BOTH) {
        let process = peer.into_process();
        assert!(!process.is_alive());
        assert!(matches!(process.cgroups(), Err(ProcessError::Ended { .. })));
        assert!(matches!(process.groups(), Err(ProcessError::Ended { .. })));
        assert!(matches!(process.is_in_host_user_namespace(), Err(ProcessError::Ended { .. })));
        assert!(is_ended(&Peer::of(&connected.stream, source)), "{source:?}");
    }
}

#[test]
fn a_socket_that_is_passed_on_stays_its_connectors() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    // The child inherits the only other end.
    let mut child = Command::new("cat").stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs))).spawn().unwrap();
    for source in BOTH {
        let peer = Peer::of(&ours, source).unwrap();
        assert_eq!(peer.process().pid(), std::process::id());
        assert_ne!(peer.process().pid(), child.id());
    }
    drop(ours);
    child.wait().unwrap();
}

#[test]
fn root_of_a_user_namespace_of_its_own_is_not_in_the_hosts() {
    if only_connects() {
        return;
    }
    let mut connected = Connected::by(&["unshare", "--user", "--map-root-user"]);
    for source in BOTH {
        let peer = Peer::of(&connected.stream, source).unwrap();
        assert!(!peer.process().is_in_host_user_namespace().unwrap());
        assert_eq!(peer.uid(), rustix::process::geteuid().as_raw(), "as it is here, not there");
    }
    connected.end();
}

#[test]
fn a_peer_of_a_pid_namespace_above_cannot_be_seen() {
    if env::var_os(OWN_PIDS).is_some() {
        // The peer is this test in the namespace above.
        let stream = UnixStream::from(std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned().unwrap());
        for source in BOTH {
            assert!(matches!(Peer::of(&stream, source), Err(PeerError::NotVisible)), "{source:?}");
        }
        return;
    }
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let mut program = Command::new("unshare");
    program.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
    let status = this_test(&mut program)
        .env(OWN_PIDS, "1")
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(ours)))
        .status()
        .unwrap();
    assert!(status.success());
}

/// In a cgroup namespace, larder reads `/` for its own container, and `/..` for what is above.
#[test]
fn a_cgroup_namespace_shows_the_own_container_as_the_hosts_and_another_as_a_container() {
    let (ours, others) = ("0".repeat(64), "1".repeat(64));
    if let Ok(pids) = env::var(OTHER_PIDS) {
        let own = Process::open(std::process::id()).unwrap().cgroups().unwrap();
        let [sibling, same] = [0, 1].map(|at| {
            let pid = pids.split(' ').nth(at).unwrap().parse().unwrap();
            Process::open(pid).unwrap().cgroups().unwrap().resolve_within(&own, |_| None::<()>)
        });
        assert_eq!(own.resolve(|_| None::<()>), Membership::Host);
        assert_eq!(same, Membership::Host);
        assert_eq!(sibling, Membership::Unknown(others));
        return;
    }
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"].map(Path::new);
    let roots: Vec<_> = roots.into_iter().filter(|root| root.join("cgroup.procs").exists()).collect();
    assert!(!roots.is_empty(), "no hierarchy of cgroups is mounted below /sys/fs/cgroup");
    let folder = |root: &Path| root.join(format!("larder-identity-test-{}", std::process::id()));
    let in_container = |id: &str| {
        let mut program = Command::new("cat");
        let child = program.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        for root in &roots {
            let container = folder(root).join(id);
            std::fs::create_dir_all(&container).unwrap();
            std::fs::write(container.join("cgroup.procs"), child.id().to_string()).unwrap();
        }
        child
    };
    let mut children = [in_container(&others), in_container(&ours)];
    let procs: Vec<_> = roots.iter().map(|root| folder(root).join(&ours).join("cgroup.procs")).collect();
    let enter: Vec<_> = procs.iter().map(|procs| format!("echo $$ > {} && ", procs.display())).collect();
    let mut program = Command::new("sh");
    program.args(["-c", &format!("{}exec unshare --cgroup \"$@\"", enter.concat()), "sh"]);
    let pids = children.each_ref().map(|child| child.id().to_string()).join(" ");
    let status = this_test(&mut program).env(OTHER_PIDS, pids).status().unwrap();
    for child in &mut children {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
    for root in &roots {
        for folder in [folder(root).join(&ours), folder(root).join(&others), folder(root)] {
            std::fs::remove_dir(folder).unwrap();
        }
    }
    assert!(status.success());
}

/// How often a PID is reused.
const REUSED: usize = 100;

/// In a PID namespace of its own, where nothing else takes PIDs.
#[test]
fn another_process_with_a_peers_pid_is_not_taken_for_the_peer() {
    if only_connects() {
        return;
    }
    if env::var_os(OWN_PIDS).is_none() {
        let mut program = Command::new("unshare");
        program.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
        assert!(this_test(&mut program).env(OWN_PIDS, "1").status().unwrap().success());
        return;
    }
    for _ in 0..REUSED {
        reuse_a_pid();
    }
}

fn reuse_a_pid() {
    let mut connected = Connected::by(&["env"]);
    let pid = connected.child.id();
    let held = BOTH.map(|source| Peer::of(&connected.stream, source).unwrap());
    let called_at = crate::process::ticks_since_boot();
    connected.end();
    while crate::process::ticks_since_boot() <= called_at {
        std::thread::yield_now();
    }
    let mut successor = with_pid(pid);
    for peer in held {
        assert!(matches!(peer.process().cgroups(), Err(ProcessError::Ended { .. })));
        assert!(matches!(peer.process().groups(), Err(ProcessError::Ended { .. })));
    }
    assert!(is_ended(&Peer::of(&connected.stream, PidSource::Socket)));
    // The PID was reused between the call and its opening.
    assert!(matches!(Process::open_started_by(pid, called_at), Err(ProcessError::Ended { .. })));
    assert!(Process::open(pid).unwrap().is_alive());
    // What is left without SO_PEERPIDFD: the PID was reused before the call.
    assert_eq!(Peer::of(&connected.stream, PidSource::Pid).unwrap().process().pid(), pid);
    drop(successor.stdin.take());
    successor.wait().unwrap();
}

/// A process that has this PID, which is free.
fn with_pid(pid: u32) -> Child {
    std::fs::write(Path::new("/proc/sys/kernel/ns_last_pid"), (pid - 1).to_string()).unwrap();
    let mut program = Command::new("sh");
    let child = program.args(["-c", "echo; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    assert_eq!(child.id(), pid);
    child
}
