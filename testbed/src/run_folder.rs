//! The folder of a run: who owns it, which ports it has, and how every trace of it is removed.
//!
//! A run's files, sockets, mounts, control groups and ports all follow from the number of its folder, which a run gets by
//! creating it. So two runs never collide, and a run that crashed can be cleaned up by anybody who finds the folder.

mod sweep;

use crate::process::{ProcessId, read_pid_file, write_pid_file};
use anyhow::{Context as _, Result, bail};
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

/// The slot of the testbed that a person brings up; tests take the others.
const BY_HAND: u16 = 0;
/// One past the last slot: how many testbeds can run side by side.
const SLOTS: u16 = 100;
/// Ports lie below the range from which the kernel picks those of outgoing connections.
const FIRST_PORT: u16 = 21_000;
const PORTS_PER_SLOT: u16 = 10;
/// What a port of the run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// etcd's clients.
    EtcdClient = 0,
    /// etcd's peers.
    EtcdPeer = 1,
    /// kube-apiserver.
    ApiServer = 2,
    /// kubelet's own API.
    Kubelet = 3,
    /// kubelet's health check.
    KubeletHealth = 4,
    /// For the test's own use, such as larder's metrics.
    Spare = 5,
}

/// The folder of one run.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    slot: u16,
}

impl RunFolder {
    /// Takes a free slot for the process that calls, after having swept what crashed runs left behind.
    ///
    /// # Errors
    ///
    /// When the folder of all runs cannot be written (root is needed), or every slot is taken.
    pub fn claim() -> Result<Self> {
        let owner = ProcessId::current()?;
        let _lock = lock()?;
        sweep_stale_locked()?;
        for slot in BY_HAND + 1..SLOTS {
            let run = Self::at(slot);
            match fs::create_dir(&run.path) {
                Ok(()) => {}
                Err(taken) if taken.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(other) => return Err(other).with_context(|| format!("create {}", run.path.display())),
            }
            write_pid_file(&run.owner_file(), owner)?;
            if run.ports_are_free() {
                return Ok(run);
            }
            fs::remove_dir_all(&run.path)?;
        }
        bail!(
            "all {SLOTS} testbeds below {} are taken; `cargo xtask testbed down --all` removes them",
            base().display()
        )
    }

    /// The folder of the testbed that a person brings up; it outlives the process that calls.
    ///
    /// # Errors
    ///
    /// When it cannot be created (root is needed).
    pub fn by_hand() -> Result<Self> {
        let _lock = lock()?;
        let run = Self::at(BY_HAND);
        fs::create_dir_all(&run.path).with_context(|| format!("create {}", run.path.display()))?;
        Ok(run)
    }

    /// The folder of the testbed that a person brought up, if there is one.
    pub fn existing_by_hand() -> Option<Self> {
        let run = Self::at(BY_HAND);
        run.path.is_dir().then_some(run)
    }

    /// Every run's folder that exists, those of running tests included.
    pub fn all() -> Vec<Self> {
        (BY_HAND..SLOTS).map(Self::at).filter(|run| run.path.is_dir()).collect()
    }

    fn at(slot: u16) -> Self {
        Self { path: base().join(slot.to_string()), slot }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The port of this run for a purpose, on 127.0.0.1.
    pub fn port(&self, port: Port) -> u16 {
        FIRST_PORT + self.slot * PORTS_PER_SLOT + port as u16
    }

    /// The control group, in every hierarchy, below which the run's containers are.
    pub fn cgroup(&self) -> String {
        format!("/larder-testbed-{}", self.slot)
    }

    /// containerd's socket.
    pub fn containerd_socket(&self) -> PathBuf {
        self.path.join("containerd.sock")
    }

    fn owner_file(&self) -> PathBuf {
        self.path.join("owner")
    }

    fn ports_are_free(&self) -> bool {
        (0..PORTS_PER_SLOT).all(|offset| {
            let port = FIRST_PORT + self.slot * PORTS_PER_SLOT + offset;
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
        })
    }

    /// Whether the process that claimed it is gone. The testbed brought up by hand belongs to no process.
    fn is_stale(&self) -> bool {
        self.slot != BY_HAND && !read_pid_file(&self.owner_file()).is_some_and(ProcessId::is_alive)
    }

    /// Ends every process of the run, takes down its mounts and control groups, and removes the folder.
    ///
    /// It needs no service to be alive, so it is also the way to clean up after a crash.
    ///
    /// # Errors
    ///
    /// When something remains: a process that does not end, or a mount that is in use.
    pub fn sweep(&self) -> Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        // Locked, for whoever finds a folder half removed would remove it too.
        let _lock = lock()?;
        self.sweep_locked()
    }

    fn sweep_locked(&self) -> Result<()> {
        sweep::sweep(&self.path, &self.containerd_socket(), &self.cgroup())
            .with_context(|| format!("remove the testbed in {}", self.path.display()))
    }
}

/// Removes the folders of runs whose process is gone, with all that still runs in them.
///
/// # Errors
///
/// As [`RunFolder::sweep`].
pub fn sweep_stale() -> Result<usize> {
    if !base().exists() {
        return Ok(0);
    }
    let _lock = lock()?;
    sweep_stale_locked()
}

fn sweep_stale_locked() -> Result<usize> {
    let stale: Vec<RunFolder> = RunFolder::all().into_iter().filter(RunFolder::is_stale).collect();
    for run in &stale {
        run.sweep_locked()?;
    }
    Ok(stale.len())
}

/// Removes every run, that of a person and those of running tests included.
///
/// # Errors
///
/// As [`RunFolder::sweep`].
pub fn sweep_all() -> Result<usize> {
    let runs = RunFolder::all();
    for run in &runs {
        run.sweep()?;
    }
    Ok(runs.len())
}

/// The folder of all runs. Short, for the path of a Unix socket has at most 107 bytes.
fn base() -> PathBuf {
    PathBuf::from("/var/lib/larder-testbed")
}

/// Held while folders are claimed and stale ones removed; released when dropped.
fn lock() -> Result<File> {
    fs::create_dir_all(base())
        .with_context(|| format!("create {}: a testbed runs containers, so it needs root", base().display()))?;
    let file = File::create(base().join("lock"))?;
    file.lock().context("lock the folder of all testbeds")?;
    Ok(file)
}
