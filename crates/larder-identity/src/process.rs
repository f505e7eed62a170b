//! A process, held so that no other one can take its place.

use crate::cgroup::{BadCgroups, Cgroups};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;

/// The largest `/proc/PID/cgroup` that is read, in bytes: a few dozen hierarchies with the longest paths.
const MOST_BYTES: u64 = 256 << 10;

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
    /// It has ended, or `/proc` cannot be read.
    pub fn cgroups(&self) -> Result<Cgroups, ProcessError> {
        let pid = self.pid;
        let read = self.read_cgroups();
        // Had it ended before the file was opened, the file could be another process's.
        if !self.is_alive() {
            return Err(ProcessError::Ended { pid });
        }
        let text = read.map_err(|problem| ProcessError::Unreadable { pid, problem })?;
        text.parse().map_err(|problem| ProcessError::Cgroups { pid, problem })
    }

    fn read_cgroups(&self) -> io::Result<String> {
        let mut bytes = Vec::new();
        File::open(format!("/proc/{}/cgroup", self.pid))?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MOST_BYTES {
            return Err(io::Error::other(format!("/proc/{}/cgroup is larger than {MOST_BYTES} bytes", self.pid)));
        }
        // A name in a path is any bytes. One that is not UTF-8 is nobody's ID.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
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
