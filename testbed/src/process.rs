//! Processes that a run owns, each known by its id *and* the time at which it started.
//!
//! # Guarantees
//!
//! A signal goes to the process that was meant or to none: the id is pinned with a pidfd, and the start time is compared
//! after that, so an id that the kernel gave to somebody else meanwhile is left alone.

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
pub use rustix::process::Signal;
use rustix::process::{Pid, PidfdFlags, kill_process_group, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a process may take to end after SIGTERM before it is killed.
const TERM_GRACE: Duration = Duration::from_secs(10);
/// How long the kernel may take to end a killed process.
const KILL_GRACE: Duration = Duration::from_secs(10);

/// A process: its id, and when it started, which tells it from a later one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The process id.
    pub pid: i32,
    /// When it started, in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub started: u64,
}

impl ProcessId {
    /// The process that calls.
    ///
    /// # Errors
    ///
    /// When `/proc` is not there.
    pub fn current() -> Result<Self> {
        let pid = i32::try_from(std::process::id()).context("own process id")?;
        Self::of(pid).context("/proc has no entry for this process: is /proc mounted?")
    }

    /// The process that has this id now; none when there is none, or only a zombie.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The command's name stands in parentheses and may contain anything, parentheses included.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        let state = fields.next()?;
        if matches!(state, "Z" | "X" | "x") {
            return None;
        }
        let started = fields.nth(18)?.parse().ok()?;
        Some(Self { pid, started })
    }

    /// Whether it still runs (a stopped process counts, a zombie does not).
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// A handle on the process, if it still runs.
    fn pin(self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        self.is_alive().then_some(handle)
    }

    /// Sends a signal to the process and to no other; false when it has ended already.
    pub fn signal(self, signal: Signal) -> bool {
        self.pin().is_some_and(|handle| pidfd_send_signal(handle, signal).is_ok())
    }

    /// Sends a signal to the process, and to the group that it leads.
    pub fn signal_group(self, signal: Signal) -> bool {
        // While the pidfd is open and its leader alive, the group's id cannot become somebody else's.
        let (Some(handle), Some(group)) = (self.pin(), Pid::from_raw(self.pid)) else { return false };
        let group_reached = kill_process_group(group, signal).is_ok();
        group_reached || pidfd_send_signal(handle, signal).is_ok()
    }

    /// Waits until the process has ended; false when it still runs after `timeout`.
    pub fn wait(self, timeout: Duration) -> bool {
        let Some(handle) = self.pin() else { return true };
        let limit = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        loop {
            match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&limit)) {
                Ok(ready) => return ready > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return !self.is_alive(),
            }
        }
    }
}

/// A program of the testbed that can be started and stopped again and again, always with the same arguments.
#[derive(Debug)]
pub struct Service {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    working_directory: PathBuf,
    log: PathBuf,
    pid_file: PathBuf,
    /// The child, where this process started it: it is reaped when it is stopped.
    child: Mutex<Option<Child>>,
}

impl Service {
    /// A service that keeps its log and its process id in `folder`, and runs in the empty folder `folder/NAME.cwd`.
    ///
    /// It is not started yet; one that another process started in the same folder is found by its process id.
    pub fn new(
        name: &'static str,
        folder: &Path,
        program: PathBuf,
        arguments: Vec<String>,
        environment: Vec<(String, String)>,
    ) -> Self {
        Self {
            name,
            program,
            arguments,
            environment,
            working_directory: folder.join(format!("{name}.cwd")),
            log: folder.join(format!("{name}.log")),
            pid_file: folder.join(format!("{name}.pid")),
            child: Mutex::new(None),
        }
    }

    /// Its name, such as `kube-apiserver`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Where its output goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The running process, if there is one.
    pub fn process(&self) -> Option<ProcessId> {
        read_pid_file(&self.pid_file).filter(|process| process.is_alive())
    }

    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        self.process().is_some()
    }

    /// Starts it, unless it runs already. Does not wait until it is ready.
    ///
    /// # Errors
    ///
    /// When the program cannot be started, or its folder cannot be written.
    pub fn start(&self) -> Result<()> {
        if self.is_running() {
            return Ok(());
        }
        fs::create_dir_all(&self.working_directory)?;
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .current_dir(&self.working_directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A group of its own: Ctrl-C at the terminal ends the test, whose cleanup then ends this in order.
            .process_group(0);
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        let child = command.spawn().with_context(|| format!("start {} ({})", self.name, self.program.display()))?;
        let pid = i32::try_from(child.id()).context("process id")?;
        let process = ProcessId::of(pid)
            .with_context(|| format!("{} ended at once; its log is {}", self.name, self.log.display()))?;
        write_pid_file(&self.pid_file, process)?;
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        Ok(())
    }

    /// Asks it to end (SIGTERM) and waits; kills it when it does not.
    ///
    /// # Errors
    ///
    /// When even a killed process does not end.
    pub fn stop(&self) -> Result<()> {
        if let Some(process) = self.process() {
            process.signal(Signal::TERM);
            if !process.wait(TERM_GRACE) {
                return self.kill();
            }
        }
        self.forget();
        Ok(())
    }

    /// Ends it at once (SIGKILL), as a crash does.
    ///
    /// # Errors
    ///
    /// When the killed process does not end.
    pub fn kill(&self) -> Result<()> {
        if let Some(process) = self.process() {
            process.signal_group(Signal::KILL);
            if !process.wait(KILL_GRACE) {
                bail!("{} (process {}) does not end though it was killed", self.name, process.pid);
            }
        }
        self.forget();
        Ok(())
    }

    /// Stops it in its tracks (SIGSTOP): it holds its sockets open and answers nothing. Undone by [`resume`](Self::resume).
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a paused one go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let process = self.process().with_context(|| format!("{} does not run", self.name))?;
        if !process.signal(signal) {
            bail!("{} ended before it could be signalled", self.name);
        }
        Ok(())
    }

    /// Reaps the ended child and removes its process id.
    fn forget(&self) {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut child) = child {
            // It has ended, so this does not wait.
            let _ = child.wait();
        }
        let _ = fs::remove_file(&self.pid_file);
    }

    /// Reaps the child after somebody else ended it.
    pub(crate) fn reap(&self) {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut child) = child {
            let _ = child.try_wait();
        }
    }

    /// The last lines of its log, for a message about a failure.
    pub fn log_tail(&self) -> String {
        tail(&self.log, 15)
    }
}

/// The last `lines` lines of a file, indented; empty when it cannot be read.
pub fn tail(file: &Path, lines: usize) -> String {
    let bytes = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].iter().flat_map(|line| ["    ", line, "\n"]).collect()
}

/// The process that a process id file names, whether or not it still runs.
pub(crate) fn read_pid_file(file: &Path) -> Option<ProcessId> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// Writes a process id file.
pub(crate) fn write_pid_file(file: &Path, process: ProcessId) -> Result<()> {
    let file = File::create(file)?;
    Ok(serde_json::to_writer(file, &process)?)
}

#[cfg(test)]
mod tests;
