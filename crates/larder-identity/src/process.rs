//! A process, held so that no other one can take its place.

use crate::cgroup::{BadCgroups, Cgroups};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;

/// The largest file of `/proc/PID` that is read, in bytes: a few dozen hierarchies with the longest paths.
/// 65,536 groups, the most that a process can have, need more: such a process is refused.
const MOST_BYTES: u64 = 256 << 10;
/// The inode of the initial user namespace, which the kernel fixes (`PROC_USER_INIT_INO` in `include/linux/proc_ns.h`).
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;
/// The field of `/proc/PID/stat` with the flags of the process's first thread, counted from 1 (`proc_pid_stat(5)`).
const FLAGS_FIELD: usize = 9;
/// The field with the time at which the process started.
const START_TIME_FIELD: usize = 22;
/// The flag of a thread that is ending, or has ended (`PF_EXITING` in `include/linux/sched.h`).
const EXITING: u64 = 0x4;
/// How often the cgroups of a process that changes them are read.
const MOST_READS: usize = 4;

/// A process of this PID namespace, held by a pidfd (`pidfd_open(2)`, Linux 5.3).
///
/// ```
/// use larder_identity::{Membership, Process};
///
/// let process = Process::open(std::process::id())?;
/// assert!(process.is_alive());
/// assert!(!matches!(process.cgroups()?.resolve(|_| None::<()>), Membership::Container(())));
/// # Ok::<(), larder_identity::ProcessError>(())
/// ```
#[derive(Debug)]
pub struct Process {
    pid: u32,
    fd: OwnedFd,
}

/// Why it is not known which cgroups a process is in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// No process has the PID in this PID namespace, or a thread has it that is not the first of its process.
    #[error("no process has the PID {pid}")]
    NotFound {
        /// The PID.
        pid: u32,
    },
    /// The process has ended.
    #[error("the process with the PID {pid} has ended")]
    Ended {
        /// Its PID, which another process may have by now.
        pid: u32,
    },
    /// The kernel refuses.
    #[error("cannot read the process with the PID {pid}: {problem}")]
    Unreadable {
        /// Its PID.
        pid: u32,
        /// The system's error.
        #[source]
        problem: io::Error,
    },
    /// Its first thread has ended, or ends, and others may live. The kernel says of such a thread that it is in the root of each hierarchy
    /// of cgroup v1 (`proc_cgroup_show` in `kernel/cgroup/cgroup.c`), as if it were of the host.
    #[error("the first thread of the process with the PID {pid} has ended, so that its cgroups are not known")]
    FirstThreadEnded {
        /// The PID.
        pid: u32,
    },
    /// It is moved from cgroup to cgroup, again and again.
    #[error("the cgroups of the process with the PID {pid} change all the time")]
    Unsteady {
        /// The PID.
        pid: u32,
    },
    /// What the kernel says of its cgroups cannot be understood.
    #[error("cannot read /proc/{pid}/cgroup: {problem}")]
    Cgroups {
        /// Its PID.
        pid: u32,
        /// Where.
        #[source]
        problem: BadCgroups,
    },
}

impl Process {
    /// Holds the process that has this PID now.
    ///
    /// # Errors
    ///
    /// There is none, or the kernel has no pidfds.
    ///
    /// ```
    /// let error = larder_identity::Process::open(u32::MAX).unwrap_err();
    /// assert_eq!(error.to_string(), "no process has the PID 4294967295");
    /// ```
    pub fn open(pid: u32) -> Result<Self, ProcessError> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(ProcessError::NotFound { pid })?;
        match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(fd) => Ok(Self { pid, fd }),
            // Of a thread, kernels before 6.9 say that it is invalid, and later ones that it does not exist.
            Err(Errno::SRCH | Errno::NOENT | Errno::INVAL) => Err(ProcessError::NotFound { pid }),
            Err(error) => Err(ProcessError::Unreadable { pid, problem: error.into() }),
        }
    }

    /// Its PID here.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it has not ended; one whose parent has not waited for it yet has.
    pub fn is_alive(&self) -> bool {
        let mut ended = [PollFd::new(&self.fd, PollFlags::IN)];
        // A pidfd becomes readable when the process ends. An error is no proof of life.
        matches!(poll(&mut ended, Some(&Timespec::default())), Ok(0))
    }

    /// The cgroups that it is in now.
    ///
    /// # Errors
    ///
    /// It, or its first thread, has ended, or `/proc` cannot be read.
    pub fn cgroups(&self) -> Result<Cgroups, ProcessError> {
        let mut text = self.cgroups_of_first_thread()?;
        for _ in 1..MOST_READS {
            // Twice, because an `exec` of another thread puts a living first thread in the place of an ended one.
            let again = self.cgroups_of_first_thread()?;
            if again == text {
                let cgroups: Cgroups =
                    text.parse().map_err(|problem| ProcessError::Cgroups { pid: self.pid, problem })?;
                return self.while_alive(|| cgroups.checked());
            }
            text = again;
        }
        Err(ProcessError::Unsteady { pid: self.pid })
    }

    fn cgroups_of_first_thread(&self) -> Result<String, ProcessError> {
        let (before, text, after) =
            self.while_alive(|| Ok((self.first_thread_ends()?, self.read("cgroup")?, self.first_thread_ends()?)))?;
        if before || after { Err(ProcessError::FirstThreadEnded { pid: self.pid }) } else { Ok(text) }
    }

    fn first_thread_ends(&self) -> io::Result<bool> {
        let flags = stat_field(&self.read("stat")?, FLAGS_FIELD).ok_or_else(|| malformed("stat"))?;
        Ok(flags & EXITING != 0)
    }

    /// Its supplementary groups now, in this process's user namespace (`Groups` in `/proc/PID/status`, `proc_pid_status(5)`).
    ///
    /// # Errors
    ///
    /// It has ended, or `/proc` cannot be read.
    ///
    /// ```
    /// let process = larder_identity::Process::open(std::process::id())?;
    /// assert!(process.groups()?.len() <= 65_536);
    /// # Ok::<(), larder_identity::ProcessError>(())
    /// ```
    pub fn groups(&self) -> Result<Vec<u32>, ProcessError> {
        self.while_alive(|| groups(&self.read("status")?).ok_or_else(|| malformed("status")))
    }

    /// Whether its user namespace is the initial one, or this process's own (`user_namespaces(7)`). Only then do its user and groups mean
    /// what they mean here. A process can be root in a user namespace that any user may make.
    ///
    /// # Errors
    ///
    /// It has ended, or the kernel does not let this process look (`PTRACE_MODE_READ_FSCREDS`, `ptrace(2)`).
    ///
    /// ```
    /// let process = larder_identity::Process::open(std::process::id())?;
    /// assert!(process.is_in_host_user_namespace()?);
    /// # Ok::<(), larder_identity::ProcessError>(())
    /// ```
    pub fn is_in_host_user_namespace(&self) -> Result<bool, ProcessError> {
        self.while_alive(|| {
            let of_process = std::fs::metadata(format!("/proc/{}/ns/user", self.pid))?;
            let own = std::fs::metadata("/proc/self/ns/user")?;
            let is_initial = of_process.ino() == INITIAL_USER_NAMESPACE;
            Ok(of_process.dev() == own.dev() && (is_initial || of_process.ino() == own.ino()))
        })
    }

    /// The process of a pidfd, which had this PID when it was made.
    pub(crate) fn of_pidfd(pid: u32, fd: OwnedFd) -> Self {
        Self { pid, fd }
    }

    /// Holds the process that has this PID now, unless it started later than this. One that did got the PID of a process that has ended.
    pub(crate) fn open_started_by(pid: u32, ticks: u64) -> Result<Self, ProcessError> {
        let process = match Self::open(pid) {
            Err(ProcessError::NotFound { pid }) => return Err(ProcessError::Ended { pid }),
            opened => opened?,
        };
        let start_time = || stat_field(&process.read("stat")?, START_TIME_FIELD).ok_or_else(|| malformed("stat"));
        let started = process.while_alive(start_time)?;
        if started > ticks { Err(ProcessError::Ended { pid }) } else { Ok(process) }
    }

    /// What `read` finds in `/proc`, if the process still lives afterwards. Had it ended before, it could be another process's.
    fn while_alive<T>(&self, read: impl FnOnce() -> io::Result<T>) -> Result<T, ProcessError> {
        let pid = self.pid;
        let found = read();
        if !self.is_alive() {
            return Err(ProcessError::Ended { pid });
        }
        found.map_err(|problem| ProcessError::Unreadable { pid, problem })
    }

    fn read(&self, name: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        File::open(format!("/proc/{}/{name}", self.pid))?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MOST_BYTES {
            return Err(io::Error::other(format!("/proc/{}/{name} is larger than {MOST_BYTES} bytes", self.pid)));
        }
        // A name in a path is any bytes. One that is not UTF-8 is nobody's ID.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn malformed(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{name} does not have the form that the kernel gives it"))
}

fn groups(status: &str) -> Option<Vec<u32>> {
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"))?;
    groups.split_ascii_whitespace().map(|group| group.parse().ok()).collect()
}

/// A number of `/proc/PID/stat`, by its field. The process's name, in parentheses, may have spaces and parentheses of its own.
fn stat_field(stat: &str, field: usize) -> Option<u64> {
    let after_name = stat.rsplit_once(')')?.1;
    // The PID and the name are before.
    after_name.split_ascii_whitespace().nth(field.checked_sub(3)?)?.parse().ok()
}

/// The time now, as `/proc/PID/stat` has it: in clock ticks since the boot, rounded down.
pub(crate) fn ticks_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let ticks = rustix::param::clock_ticks_per_second();
    let (seconds, nanoseconds) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds * ticks + nanoseconds * ticks / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_that_has_ended_has_no_cgroups_though_its_pid_is_still_there() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        assert_eq!(process.pid(), child.id());
        assert!(process.is_alive() && process.cgroups().is_ok());
        drop(child.stdin.take());
        // Until it is waited for, its PID stays, and so does its folder in /proc.
        rustix::process::waitid(
            rustix::process::WaitId::Pid(Pid::from_child(&child)),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        )
        .unwrap();
        assert!(File::open(format!("/proc/{}/cgroup", child.id())).is_ok());
        assert!(!process.is_alive());
        assert!(matches!(process.cgroups(), Err(ProcessError::Ended { .. })));
        child.wait().unwrap();
        assert!(matches!(process.cgroups(), Err(ProcessError::Ended { .. })));
        assert!(matches!(Process::open(child.id()), Err(ProcessError::NotFound { .. })));
    }

    /// Says "ended" when its first thread is a zombie, and ends with its standard input.
    const FIRST_THREAD_ENDS: &str = r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <string.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        static void *rest(void *unused) {
            char stat[4096] = "";
            while (!strstr(stat, ") Z ")) {
                FILE *file = fopen("/proc/self/stat", "r");
                if (!file || !fgets(stat, sizeof stat, file)) _exit(1);
                fclose(file);
            }
            if (write(1, "ended\n", 6) != 6) _exit(1);
            while (read(0, stat, 1) > 0) {}
            _exit(0);
        }
        int main(void) {
            pthread_t thread;
            if (pthread_create(&thread, 0, rest, 0)) return 1;
            syscall(SYS_exit, 0);
        }
    "#;

    /// In cgroup v1 the kernel says `/` of such a process, whatever its container.
    #[test]
    fn a_process_whose_first_thread_has_ended_has_no_cgroups_though_it_lives() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("first-thread-ends");
        // The compiler that Rust links with.
        let compiler =
            Command::new("cc").args(["-x", "c", "-pthread", "-o"]).arg(&program).arg("-").stdin(Stdio::piped()).spawn();
        let mut compiler = compiler.unwrap();
        std::io::Write::write_all(&mut compiler.stdin.take().unwrap(), FIRST_THREAD_ENDS.as_bytes()).unwrap();
        assert!(compiler.wait().unwrap().success());
        let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        assert_eq!(&said, b"ended\n");
        let process = Process::open(child.id()).unwrap();
        assert!(process.is_alive());
        assert!(matches!(process.cgroups(), Err(ProcessError::FirstThreadEnded { pid }) if pid == child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(matches!(process.cgroups(), Err(ProcessError::Ended { .. })));
    }

    #[test]
    fn neither_0_nor_a_thread_is_a_process() {
        assert!(matches!(Process::open(0), Err(ProcessError::NotFound { pid: 0 })));
        let thread = std::thread::spawn(|| {
            let id = rustix::thread::gettid().as_raw_nonzero().get();
            Process::open(u32::try_from(id).unwrap()).unwrap_err().to_string()
        });
        assert!(thread.join().unwrap().starts_with("no process has the PID "));
    }
}
