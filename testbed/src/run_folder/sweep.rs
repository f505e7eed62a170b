//! Removes every trace of a run, whether it ended in order or was killed.
//!
//! # Guarantees
//!
//! Every process of the run is ended, and none of anybody else's: services are known by their process id files, shims
//! because their arguments name the run's own socket, and containers because they are in a control group that is the
//! run's, or that runc wrote down in the run's folder.

use crate::process::{ProcessId, read_pid_file};
use anyhow::{Context as _, Result, bail};
use rustix::event::{Timespec, poll};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the kernel may take to end a killed process.
const KILL_GRACE: Duration = Duration::from_secs(10);

/// Where the sockets of the shims of containerd 1.6 are, whatever its configuration says.
const SHIM_SOCKETS: &str = "/run/containerd/s/";

/// Where a kubelet links to the logs of containers.
const LOG_LINKS: &str = "/var/log/containers";

/// Removes the run in `folder`, the folder included.
pub(super) fn sweep(folder: &Path, containerd_socket: &Path, cgroup: &str) -> Result<()> {
    let mut groups = own_groups(cgroup)?;
    // What one process was just starting when it was killed shows up after the first round.
    for _ in 0..10 {
        groups.extend(groups_of_containers(folder));
        let mut found = services(folder);
        found.extend(shims(containerd_socket));
        found.extend(groups.iter().flat_map(|group| processes_in(group)));
        if found.is_empty() {
            break;
        }
        for process in &found {
            process.signal_group(Signal::KILL);
            process.signal(Signal::KILL);
        }
        for process in found {
            if !process.wait(KILL_GRACE) {
                bail!("process {} does not end though it was killed", process.pid);
            }
        }
    }
    unmount_all(folder)?;
    for group in groups {
        remove_group(&group)?;
    }
    remove_log_links(folder);
    remove_shim_sockets(folder);
    fs::remove_dir_all(folder)?;
    Ok(())
}

fn services(folder: &Path) -> Vec<ProcessId> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let pid_files = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "pid"));
    pid_files.filter_map(|path| read_pid_file(&path)).filter(|process| process.is_alive()).collect()
}

/// The shims that serve this run's containerd: it gave them its socket as an argument.
fn shims(containerd_socket: &Path) -> Vec<ProcessId> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_shim = |pid: &i32| {
        let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut arguments = command_line.split(|byte| *byte == 0);
        arguments.next().is_some_and(|program| program.ends_with(b"/containerd-shim-runc-v2"))
            && arguments.any(|argument| argument == containerd_socket.as_os_str().as_bytes())
    };
    pids.filter(is_shim).filter_map(ProcessId::of).collect()
}

/// The run's own control group, in every hierarchy.
fn own_groups(cgroup: &str) -> Result<BTreeSet<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("read /proc/self/mountinfo")?;
    let mounts = table.lines().filter_map(|line| line.split_once(" - "));
    let hierarchies = mounts.filter(|(_, kind)| matches!(kind.split(' ').next(), Some("cgroup" | "cgroup2")));
    Ok(hierarchies
        .filter_map(|(mount, _)| Some(PathBuf::from(format!("{}{cgroup}", mount.split(' ').nth(4)?))))
        .collect())
}

/// What runc writes down of a container.
#[derive(Deserialize)]
struct Container {
    id: String,
    /// For each controller the group's folder.
    cgroup_paths: HashMap<String, PathBuf>,
}

/// The control groups of the run's containers, wherever a kubelet had them put.
fn groups_of_containers(folder: &Path) -> BTreeSet<PathBuf> {
    let states = fs::read_dir(folder.join("runc").join("k8s.io")).into_iter().flatten().flatten();
    let read = |state: fs::DirEntry| -> Option<Container> {
        serde_json::from_slice(&fs::read(state.path().join("state.json")).ok()?).ok()
    };
    let containers = states.filter_map(read);
    // A group that is not the container's alone would have others' processes in it.
    containers.flat_map(|it| it.cgroup_paths.into_values().filter(move |path| path.ends_with(&it.id))).collect()
}

/// The processes in a control group, and in those below it.
fn processes_in(group: &Path) -> Vec<ProcessId> {
    let pids = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut processes: Vec<ProcessId> =
        pids.lines().filter_map(|pid| pid.parse().ok()).filter_map(ProcessId::of).collect();
    processes.extend(groups_below(group).iter().flat_map(|below| processes_in(below)));
    processes
}

fn groups_below(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

fn unmount_all(folder: &Path) -> Result<()> {
    // As mountinfo writes a space.
    let inside = format!("{}/", folder.display()).replace(' ', "\\040");
    for _ in 0..10 {
        let table = fs::read_to_string("/proc/self/mountinfo").context("read /proc/self/mountinfo")?;
        let points = table.lines().filter_map(|line| line.split(' ').nth(4));
        let mounts: Vec<&str> = points.filter(|path| path.starts_with(&inside)).collect();
        if mounts.is_empty() {
            return Ok(());
        }
        // Later mounts lie over earlier ones.
        for mount in mounts.iter().rev() {
            let _ = unmount(mount.replace("\\040", " ").as_str(), UnmountFlags::DETACH);
        }
    }
    bail!("mounts below it do not go away")
}

/// Removes a control group and those below it, deepest first, and the one above it if it was kubelet's for this run alone.
fn remove_group(group: &Path) -> Result<()> {
    for below in groups_below(group) {
        remove_group(&below)?;
    }
    // A process that has just ended can hold its group for a moment.
    let mut last = None;
    for _ in 0..200 {
        match fs::remove_dir(group) {
            Ok(()) => break,
            Err(gone) if gone.kind() == io::ErrorKind::NotFound => break,
            Err(busy) => last = Some(busy),
        }
        let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 }));
    }
    if group.exists() {
        return Err(last.unwrap_or_else(|| io::Error::other("it is still there")))
            .with_context(|| format!("remove the control group {}", group.display()));
    }
    if let Some(parent) = group.parent().filter(|parent| parent.ends_with("k8s.io")) {
        // Fails while others have groups in it, and then it is theirs.
        let _ = fs::remove_dir(parent);
    }
    Ok(())
}

/// containerd 1.6 has the sockets of its shims in one folder for all, and writes down their names in its own.
fn remove_shim_sockets(folder: &Path) {
    let shims = folder.join("containerd/state/io.containerd.runtime.v2.task/k8s.io");
    for shim in fs::read_dir(shims).into_iter().flatten().flatten() {
        let address = fs::read_to_string(shim.path().join("address")).unwrap_or_default();
        if let Some(socket) = address.trim().strip_prefix("unix://").filter(|path| path.starts_with(SHIM_SOCKETS)) {
            let _ = fs::remove_file(socket);
        }
    }
}

fn remove_log_links(folder: &Path) {
    for link in fs::read_dir(LOG_LINKS).into_iter().flatten().flatten() {
        if fs::read_link(link.path()).is_ok_and(|target| target.starts_with(folder)) {
            let _ = fs::remove_file(link.path());
        }
    }
}
