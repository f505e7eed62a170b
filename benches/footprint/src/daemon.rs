//! The daemon as a process, and what the kernel says of it.

use crate::world::{NODE, World};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

/// How long it may take to end when it is told to.
const END: Duration = Duration::from_secs(20);

/// A daemon that runs; killed when dropped.
pub(crate) struct Daemon {
    child: Child,
    pid: u32,
    socket: PathBuf,
}

impl Daemon {
    /// Starts it on these sources, with its socket in the folder.
    pub(crate) fn start(program: &Path, world: &World, folder: &Path) -> Result<Self> {
        let socket = folder.join("larder.sock");
        let mut command = Command::new(program);
        command.args(["run", "--node-name", NODE, "--log-level", "warn", "--kubeconfig"]).arg(world.kubeconfig());
        command.arg("--runtime-endpoint").arg(world.runtime_endpoint()).arg("--socket").arg(&socket);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn();
        let child = child.with_context(|| format!("start {}", program.display()))?;
        let pid = child.id().context("the daemon has ended at once")?;
        Ok(Self { child, pid, socket })
    }

    /// Where it answers.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    fn proc(&self, file: &str) -> Result<String> {
        let path = format!("/proc/{}/{file}", self.pid);
        std::fs::read_to_string(&path).with_context(|| format!("read {path}; has the daemon ended?"))
    }

    /// The memory that it has resident, in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        let status = self.proc("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().context("VmRSS is no number")?;
        Ok(kib * 1024)
    }

    /// The time that its threads have run, those that have ended too.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let stat = self.proc("stat")?;
        // The program's name, in brackets, may hold blanks; behind it stand the numbers from the third field on.
        let (_, fields) = stat.rsplit_once(')').context("no name in /proc/PID/stat")?;
        let ticks = |at: usize| fields.split_whitespace().nth(at - 3).and_then(|field| field.parse::<u64>().ok());
        let (Some(user), Some(system)) = (ticks(14), ticks(15)) else { bail!("no times in /proc/PID/stat") };
        Ok(Duration::from_millis((user + system) * 1_000 / rustix::param::clock_ticks_per_second()))
    }

    /// Tells it to end, and waits for that.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw).context("no process ID")?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = tokio::time::timeout(END, self.child.wait()).await.context("the daemon does not end")??;
        if !status.success() {
            bail!("the daemon: {status}");
        }
        Ok(())
    }
}
