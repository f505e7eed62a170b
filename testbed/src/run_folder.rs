//! The folder of a run: who owns it, which ports it has, and how every trace of it is removed.
//!
//! A run's files, sockets, mounts, control groups and ports all follow from the number of its folder, which a run gets by
//! creating it. So two runs never collide, and a run that crashed can be cleaned up by anybody who finds the folder.
//!
//! # Guarantees
//!
//! Sweeping ends every process of the run, and none of anybody else's: services by their process id files, shims
//! because their arguments name the run's own socket, and containers because they are in the run's own control group.

use crate::process::{ProcessId, read_pid_file, write_pid_file};
use anyhow::{Context as _, Result, bail};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The slot of the testbed that a person brings up; tests take the others.
const BY_HAND: u16 = 0;
/// One past the last slot: how many testbeds can run side by side.
const SLOTS: u16 = 100;
/// Ports lie below the range from which the kernel picks those of outgoing connections.
const FIRST_PORT: u16 = 21_000;
const PORTS_PER_SLOT: u16 = 10;
/// How long the kernel may take to end a killed process.
const KILL_GRACE: Duration = Duration::from_secs(10);

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
        // A shim that containerd was just starting may show up after the first round.
        for _ in 0..10 {
            let mut found = self.service_processes();
            found.extend(self.shims());
            found.extend(self.contained_processes());
            if found.is_empty() {
                break;
            }
            for process in &found {
                process.signal_group(Signal::KILL);
                process.signal(Signal::KILL);
            }
            for process in found {
                if !process.wait(KILL_GRACE) {
                    bail!("process {} of the testbed in {} does not end", process.pid, self.path.display());
                }
            }
        }
        self.unmount_all()?;
        self.remove_cgroups()?;
        fs::remove_dir_all(&self.path).with_context(|| format!("remove {}", self.path.display()))
    }

    fn service_processes(&self) -> Vec<ProcessId> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let pid_files = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "pid"));
        pid_files.filter_map(|path| read_pid_file(&path)).filter(|process| process.is_alive()).collect()
    }

    /// The shims that serve this run's containerd: it gave them its socket as an argument.
    fn shims(&self) -> Vec<ProcessId> {
        let socket = self.containerd_socket();
        all_pids()
            .filter(|pid| {
                let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let mut arguments = command_line.split(|byte| *byte == 0);
                arguments.next().is_some_and(|program| program.ends_with(b"/containerd-shim-runc-v2"))
                    && arguments.any(|argument| argument == socket.as_os_str().as_bytes())
            })
            .filter_map(ProcessId::of)
            .collect()
    }

    /// The processes in this run's control groups.
    fn contained_processes(&self) -> Vec<ProcessId> {
        let inside = format!("{}/", self.cgroup());
        all_pids()
            .filter(|pid| {
                let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
                // `HIERARCHY:CONTROLLERS:PATH` on each line.
                groups.lines().filter_map(|line| line.splitn(3, ':').nth(2)).any(|path| path.starts_with(&inside))
            })
            .filter_map(ProcessId::of)
            .collect()
    }

    fn unmount_all(&self) -> Result<()> {
        let mut inside = format!("{}/", self.path.display());
        // As mountinfo writes a space.
        inside = inside.replace(' ', "\\040");
        for _ in 0..10 {
            let table = fs::read_to_string("/proc/self/mountinfo").context("read /proc/self/mountinfo")?;
            let mounts: Vec<&str> = table
                .lines()
                .filter_map(|line| line.split(' ').nth(4))
                .filter(|path| path.starts_with(&inside))
                .collect();
            if mounts.is_empty() {
                return Ok(());
            }
            // Later mounts lie over earlier ones.
            for mount in mounts.iter().rev() {
                let _ = unmount(mount.replace("\\040", " ").as_str(), UnmountFlags::DETACH);
            }
        }
        bail!("{} still has mounts below it", self.path.display())
    }

    fn remove_cgroups(&self) -> Result<()> {
        let table = fs::read_to_string("/proc/self/mountinfo").context("read /proc/self/mountinfo")?;
        for line in table.lines() {
            let Some((before, after)) = line.split_once(" - ") else { continue };
            if !matches!(after.split(' ').next(), Some("cgroup" | "cgroup2")) {
                continue;
            }
            let Some(root) = before.split(' ').nth(4) else { continue };
            remove_cgroup(&PathBuf::from(format!("{root}{}", self.cgroup())))?;
        }
        Ok(())
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

fn all_pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Removes a control group and those below it, deepest first. Processes in them must have ended.
fn remove_cgroup(group: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(group) else { return Ok(()) };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_cgroup(&entry.path())?;
        }
    }
    // A process that has just ended can hold its group for a moment.
    let mut last = None;
    for _ in 0..200 {
        match fs::remove_dir(group) {
            Ok(()) => return Ok(()),
            Err(gone) if gone.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(busy) => last = Some(busy),
        }
        let _ = rustix::event::poll(&mut [], Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 10_000_000 }));
    }
    match last {
        Some(error) => Err(error).with_context(|| format!("remove the control group {}", group.display())),
        None => Ok(()),
    }
}
