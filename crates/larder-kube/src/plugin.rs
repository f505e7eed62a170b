//! Runs credential plugins, as client-go's `exec` authenticator does.
//!
//! # Guarantees
//!
//! - *Bounded*: a run has a deadline, and its output a largest size.
//! - *Nothing stays*: a plugin is the leader of a process group, and the whole group is killed when the run is over: at its end,
//!   at the deadline, and where the run is dropped.
//! - *The plugin's end counts*: a process that has left the group may hold the output open. It is not waited for: the output counts
//!   as it is one second after the plugin's end.
//! - *Quiet*: no error has the arguments, the environment or the output of a plugin. Its standard error is not read.
//!
//! # Differs from client-go
//!
//! A daemon has no terminal: a plugin gets no standard input, and one that must have it is refused. What a plugin leaves
//! running in its process group is killed, and what it leaves outside of the group is not waited for; client-go waits until all
//! have closed the output. Output is JSON; client-go takes YAML, too.

use crate::kubeconfig::{ExecConfig, InteractiveMode};
use jiff::Timestamp;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getrlimit, kill_process_group, prlimit, waitid,
};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use zeroize::Zeroizing;

/// The most that a plugin may print, in bytes.
const OUTPUT: u64 = 1 << 20;

/// How long the output is read on after a plugin's end, while other processes hold it open.
const GRACE: Duration = Duration::from_secs(1);

/// How long a plugin that was killed may take to be gone.
const GONE: Duration = Duration::from_secs(1);

/// A plugin, with everything that it is run with.
#[derive(PartialEq, Eq)]
pub(crate) struct Plugin {
    command: String,
    args: Vec<String>,
    env: Vec<(String, Zeroizing<String>)>,
    api_version: String,
    install_hint: Option<String>,
    /// The value of `KUBERNETES_EXEC_INFO` for the plugin.
    info: String,
    /// Its soft limit of open files; `None` for that of this process.
    open_files: Option<u64>,
}

/// PEM of a certificate and of its key.
pub(crate) type Certified = (Zeroizing<Vec<u8>>, Zeroizing<Vec<u8>>);

/// The credentials that a plugin gave.
pub(crate) struct Issued {
    pub(crate) token: Option<Zeroizing<String>>,
    pub(crate) certificate: Option<Certified>,
    pub(crate) expires_at: Option<Timestamp>,
}

impl Plugin {
    /// `cluster` is what the plugin is told about the cluster, where the kubeconfig lets it be told.
    ///
    /// # Errors
    ///
    /// A plugin that cannot be run without a terminal.
    pub(crate) fn new(exec: &ExecConfig, cluster: Option<serde_json::Value>) -> Result<Self, String> {
        if exec.interactive_mode == InteractiveMode::Always {
            return Err(format!(
                "the credential plugin {:?} must have a terminal (interactiveMode: Always), and a daemon has none; set \
                 interactiveMode to IfAvailable or Never",
                exec.command
            ));
        }
        let mut spec = serde_json::json!({"interactive": false});
        if let Some(cluster) = cluster {
            spec["cluster"] = cluster;
        }
        let info = serde_json::json!({"kind": "ExecCredential", "apiVersion": exec.api_version, "spec": spec});
        let env = exec.env.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned().into()));
        Ok(Self {
            command: exec.command.clone(),
            args: exec.args.clone(),
            env: env.collect(),
            api_version: exec.api_version.clone(),
            install_hint: exec.install_hint.clone(),
            info: info.to_string(),
            open_files: None,
        })
    }

    /// The same, run with this soft limit of open files.
    pub(crate) fn with_open_files(mut self, open_files: Option<u64>) -> Self {
        self.open_files = open_files;
        self
    }

    /// The value of `KUBERNETES_EXEC_INFO` for the plugin.
    pub(crate) fn info(&self) -> serde_json::Value {
        serde_json::from_str(&self.info).unwrap_or_default()
    }

    /// Its name, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.command
    }

    /// Runs it once.
    ///
    /// # Errors
    ///
    /// Why there are no credentials, and what to do.
    ///
    /// Cancel safe: where it is dropped, the plugin is killed.
    pub(crate) async fn run(&self, deadline: Duration) -> Result<Issued, String> {
        let mut child = self.command().spawn().map_err(|error| self.not_started(&error))?;
        self.limit_files(&child);
        let run = async {
            // Killed where this is dropped or fails, before the leader is reaped and its number can be another's.
            let group = Group::of(&child).ok_or_else(|| io::Error::from(ErrorKind::NotFound))?;
            self.finish(&mut child, group).await
        };
        let ended = tokio::time::timeout(deadline, run).await;
        let (status, output) = match ended {
            Ok(Ok(ended)) => ended,
            Ok(Err(error)) => {
                reap(&mut child).await;
                return Err(self.failed(&error.to_string()));
            }
            Err(_) => {
                reap(&mut child).await;
                return Err(self.failed(&format!("has not ended within {deadline:?} and was killed")));
            }
        };
        if !status.success() {
            return Err(self.failed(&format!("ended with {status}")));
        }
        self.parse(&output)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.command);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value.as_str())))
            .env("KUBERNETES_EXEC_INFO", &self.info)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// Lowers the soft limit of open files, as Go does for the children of a program whose limit it has raised. Go lowers it before
    /// the plugin begins; that needs unsafe code here, so that the plugin has already begun.
    fn limit_files(&self, child: &Child) {
        let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)) else { return };
        let Some(files) = self.open_files else { return };
        let limit = Rlimit { current: Some(files), maximum: getrlimit(Resource::Nofile).maximum };
        // Another user's plugin (setuid) keeps the higher limit, and one that has ended needs none.
        if let Err(error) = prlimit(Some(pid), Resource::Nofile, limit) {
            tracing::debug!(%error, plugin = self.command, "cannot lower the limit of open files of a credential plugin");
        }
    }

    /// How it ended and what it printed.
    async fn finish(&self, child: &mut Child, group: Group) -> io::Result<(ExitStatus, Zeroizing<Vec<u8>>)> {
        let stdout = child.stdout.take().ok_or_else(|| io::Error::from(ErrorKind::BrokenPipe))?;
        let ended = ended(group.0);
        let mut ended = pin!(ended);
        let mut output = Zeroizing::new(Vec::with_capacity(16 << 10));
        {
            let mut limited = stdout.take(OUTPUT + 1);
            // If this future is dropped, the buffer keeps the output that it has read.
            let read = async {
                while limited.read_buf(&mut *output).await? > 0 {}
                io::Result::Ok(())
            };
            let mut read = pin!(read);
            let has_ended = tokio::select! {
                read = &mut read => {
                    read?;
                    false
                }
                ended = &mut ended => {
                    ended?;
                    true
                }
            };
            if has_ended {
                // Child processes may hold the output open. Those that have left the process group are not killed.
                drop(group);
                if let Ok(read) = tokio::time::timeout(GRACE, read).await {
                    read?;
                }
                return self.outcome(child, output).await;
            }
        }
        if output.len() as u64 <= OUTPUT {
            ended.await?;
            drop(group);
        }
        self.outcome(child, output).await
    }

    async fn outcome(
        &self,
        child: &mut Child,
        output: Zeroizing<Vec<u8>>,
    ) -> io::Result<(ExitStatus, Zeroizing<Vec<u8>>)> {
        if output.len() as u64 > OUTPUT {
            return Err(io::Error::other(format!("printed more than {OUTPUT} bytes and was killed")));
        }
        let status = child.wait().await?;
        Ok((status, output))
    }

    fn parse(&self, output: &[u8]) -> Result<Issued, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Credential<'a> {
            #[serde(default)]
            kind: String,
            #[serde(default)]
            api_version: String,
            #[serde(borrow)]
            status: Option<Status<'a>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Status<'a> {
            #[serde(borrow)]
            token: Option<&'a RawValue>,
            #[serde(borrow)]
            client_certificate_data: Option<&'a RawValue>,
            #[serde(borrow)]
            client_key_data: Option<&'a RawValue>,
            #[serde(borrow)]
            expiration_timestamp: Option<&'a RawValue>,
        }
        let wrong = |problem: &str| Err(self.failed(problem));
        // The error's own text can quote the output.
        let Ok(credential) = serde_json::from_slice::<Credential>(output) else {
            return wrong("did not print an ExecCredential in JSON");
        };
        if credential.kind != "ExecCredential" {
            return wrong("did not print an ExecCredential in JSON");
        }
        if credential.api_version != self.api_version {
            return wrong(&format!("did not print the version that the kubeconfig has for it, {}", self.api_version));
        }
        let Some(status) = credential.status else { return wrong("printed an ExecCredential without a status") };
        let text = |name, raw| {
            let text: Option<String> = self.field(name, raw, "a string")?;
            Ok::<_, String>(text.filter(|text| !text.is_empty()))
        };
        let bytes = |text: String| Zeroizing::new(text.into_bytes());
        let token = text("token", status.token)?.map(Zeroizing::new);
        let certificate = text("clientCertificateData", status.client_certificate_data)?;
        let key = text("clientKeyData", status.client_key_data)?;
        let time = "a time such as 2030-01-02T03:04:05Z";
        let expires_at = self.field("expirationTimestamp", status.expiration_timestamp, time)?;
        let certificate = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((bytes(certificate), bytes(key))),
            (None, None) => None,
            _ => return wrong("printed only one of a certificate and its key"),
        };
        if token.is_none() && certificate.is_none() {
            return wrong("printed neither a token nor a certificate with its key");
        }
        Ok(Issued { token, certificate, expires_at })
    }

    /// A field of the status. The error's own text can quote the output.
    fn field<T: DeserializeOwned>(
        &self,
        name: &str,
        raw: Option<&RawValue>,
        expected: &str,
    ) -> Result<Option<T>, String> {
        let wrong = |_| self.failed(&format!("printed an ExecCredential whose status.{name} is not {expected}"));
        raw.map(|raw| serde_json::from_str(raw.get()).map_err(wrong)).transpose()
    }

    fn failed(&self, problem: &str) -> String {
        format!(
            "the credential plugin {:?} {problem}; run it by hand, as the kubeconfig's exec section has it, to see why",
            self.command
        )
    }

    fn not_started(&self, error: &io::Error) -> String {
        const NO_PROGRAM: Option<i32> = Some(rustix::io::Errno::NOEXEC.raw_os_error());
        let has_nul = |text: &str| text.contains('\0');
        let path = Path::new(&self.command);
        let file = path.is_absolute().then(|| path.metadata().ok()).flatten();
        let why = if has_nul(&self.command) {
            "its command has a NUL character; remove it from the kubeconfig".to_owned()
        } else if self.args.iter().any(|arg| has_nul(arg))
            || self.env.iter().any(|(name, value)| has_nul(name) || has_nul(value))
        {
            "one of its arguments or environment variables has a NUL character; remove it from the kubeconfig"
                .to_owned()
        } else if file.as_ref().is_some_and(Metadata::is_dir) {
            "it is a directory; give the path of a program in the kubeconfig".to_owned()
        } else if file.as_ref().is_some_and(|file| !file.is_file()) {
            "it is not a regular file; give the path of a program in the kubeconfig".to_owned()
        } else if file.as_ref().is_some_and(|file| file.mode() & 0o111 == 0) {
            "it is not executable; make it executable (chmod +x), or give the path of a program in the kubeconfig"
                .to_owned()
        } else if error.raw_os_error() == NO_PROGRAM {
            format!(
                "{error}; it must be a program for this machine, or a script whose first line is #! with its interpreter"
            )
        } else if error.kind() == ErrorKind::NotFound && file.is_some() {
            "the interpreter that it needs is missing; install the one that its first line (#!) names".to_owned()
        } else if error.kind() == ErrorKind::NotFound {
            let hint = self.install_hint.as_ref().map(|hint| format!("; {}", hint.trim())).unwrap_or_default();
            let path = if path.is_absolute() { "" } else { ", or give its path in the kubeconfig" };
            format!("{error}; install it{path}{hint}")
        } else if error.kind() == ErrorKind::PermissionDenied {
            format!("{error}; let this process execute it")
        } else {
            format!("{error}; larder tries again")
        };
        format!("the credential plugin {:?} cannot be started: {why}", self.command)
    }
}

/// A process group whose leader has not been reaped. Dropping it kills it.
struct Group(Pid);

impl Group {
    fn of(child: &Child) -> Option<Self> {
        child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).map(Self)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // An error means that nobody is left in it.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

/// Waits until a child has ended, and does not reap it: until then nothing else can have its number.
async fn ended(child: Pid) -> io::Result<()> {
    // Made before the look, so that an end between the two is noticed.
    let mut ends = signal(SignalKind::child())?;
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while waitid(WaitId::Pid(child), look)?.is_none() {
        ends.recv().await;
    }
    Ok(())
}

/// Takes a child that was killed off the list of processes.
async fn reap(child: &mut Child) {
    let _ = tokio::time::timeout(GONE, child.wait()).await;
}

#[cfg(test)]
mod tests;
