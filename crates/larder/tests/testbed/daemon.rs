//! The binary under test: the daemon, and its client commands.

use http::HeaderMap;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use larder_testbed::Testbed;
use larder_testbed::poll::until;
use larder_testbed::process::{ProcessId, Signal, tail};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::net::UnixStream;

/// How long larder may take to be ready. Generous, for two of these tests share a small machine.
const READY_LIMIT: Duration = Duration::from_mins(1);
/// How long a request or a client command may take, beyond what it is told to wait.
const CALL_LIMIT: Duration = Duration::from_mins(1);

/// A running `larder run`. It is killed when it is dropped.
pub(crate) struct Daemon {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

/// What an HTTP request was answered with.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// Null when it is not JSON.
    pub(crate) body: Value,
}

impl Answer {
    /// `Age`, in whole seconds.
    pub(crate) fn age(&self) -> u64 {
        let age = self.headers.get("age").unwrap_or_else(|| panic!("no Age in {self:?}"));
        age.to_str().expect("ASCII").parse().expect("seconds")
    }

    /// `Cache-Status`.
    pub(crate) fn cache_status(&self) -> &str {
        let status = self.headers.get("cache-status").unwrap_or_else(|| panic!("no Cache-Status in {self:?}"));
        status.to_str().expect("ASCII")
    }

    /// Whether it says that the object is stale: only then its `detail` is the reason.
    pub(crate) fn is_stale(&self) -> bool {
        self.cache_status().contains("detail=\"stale: ")
    }
}

/// What a client command printed.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// Standard output, of a command that should have succeeded.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    /// Standard output as JSON, of a command that should have succeeded.
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).expect("JSON on standard output")
    }
}

impl Daemon {
    /// Starts larder with the node's identity, and waits until it says that it is ready.
    pub(crate) async fn start(testbed: &Testbed) -> Self {
        let kubeconfig = testbed.node_kubeconfig().display().to_string();
        let arguments = ["--kubeconfig", &kubeconfig, "--node-name", testbed.node_name()];
        let daemon = Self::spawn(testbed, &arguments);
        daemon.wait_until_ready().await;
        daemon
    }

    /// Starts larder with these arguments, the testbed's runtime and a socket of its own. Waits for nothing.
    pub(crate) fn spawn(testbed: &Testbed, arguments: &[&str]) -> Self {
        let endpoint = testbed.runtime_endpoint();
        let arguments = [&["--change-detection", "ttl", "--runtime-endpoint", &endpoint], arguments].concat();
        Self::spawn_in(&testbed.folder().join("larder"), &arguments, &[])
    }

    /// Starts larder with these arguments and variables, and with its socket and its log in this folder. Waits for nothing.
    pub(crate) fn spawn_in(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        fs::create_dir_all(folder).expect("folder");
        let (socket, log) = (folder.join("larder.sock"), folder.join("log"));
        let output = File::create(&log).expect("log");
        let child = Command::new(env!("CARGO_BIN_EXE_larder"))
            .args(["run", "--socket"])
            .arg(&socket)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("log"))
            .stderr(output)
            .env_remove("KUBECONFIG")
            .env_remove("NODE_NAME")
            .env("RUST_BACKTRACE", "1")
            .envs(environment.iter().copied())
            .spawn()
            .expect("start larder");
        Self { child, socket, log }
    }

    pub(crate) async fn wait_until_ready(&self) {
        let ready = until("larder is ready", READY_LIMIT, async || {
            let answer = self.try_get("/readyz").await?;
            if answer.status == 200 { Ok(()) } else { Err(format!("{answer:?}")) }
        });
        ready.await.expect("ready");
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// What it has logged and printed so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("log")
    }

    /// A GET over its socket.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.try_get(path).await.unwrap_or_else(|error| panic!("GET {path}: {error}"))
    }

    /// What is answered to a GET over its socket, where that is no JSON.
    pub(crate) async fn text(&self, path: &str) -> String {
        let (_, body) = self.fetch(path).await.unwrap_or_else(|error| panic!("GET {path}: {error}"));
        String::from_utf8(body.to_vec()).expect("UTF-8")
    }

    async fn try_get(&self, path: &str) -> Result<Answer, String> {
        let (head, body) = self.fetch(path).await?;
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }

    async fn fetch(&self, path: &str) -> Result<(http::response::Parts, bytes::Bytes), String> {
        let call = async {
            let stream = UnixStream::connect(&self.socket).await.map_err(|error| format!("connect: {error}"))?;
            let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
            let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
            let connection = tokio::spawn(connection);
            let request = http::Request::get(path).header("host", "larder").body(Empty::<bytes::Bytes>::new());
            let answer = sender.send_request(request.expect("a request")).await.map_err(|error| error.to_string())?;
            let (head, body) = answer.into_parts();
            let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
            connection.abort();
            Ok((head, body))
        };
        tokio::time::timeout(CALL_LIMIT, call).await.map_err(|_| format!("no answer within {CALL_LIMIT:?}"))?
    }

    /// Runs a client command against it.
    pub(crate) async fn larder(&self, arguments: &[&str]) -> Output {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_larder"));
        command
            .args(arguments)
            .env("LARDER_SOCKET", &self.socket)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = tokio::time::timeout(CALL_LIMIT, command.output());
        let output = output.await.unwrap_or_else(|_| panic!("larder {arguments:?} did not end within {CALL_LIMIT:?}"));
        let output = output.expect("start larder");
        Output {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// Sends SIGTERM and waits for its end.
    pub(crate) fn terminate(mut self) -> (ExitStatus, String) {
        let pid = i32::try_from(self.child.id()).expect("process id");
        if let Some(process) = ProcessId::of(pid) {
            process.signal(Signal::TERM);
        }
        self.wait()
    }

    /// Waits for its end, and gives what it had logged.
    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        let pid = i32::try_from(self.child.id()).expect("process id");
        if let Some(process) = ProcessId::of(pid) {
            assert!(process.wait(CALL_LIMIT), "larder did not end within {CALL_LIMIT:?}");
        }
        (self.child.wait().expect("waited"), self.log())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("larder's output ends:\n{}", tail(&self.log, 40));
        }
    }
}
