//! A daemon in a folder of its own, and how to ask it.

use http_body_util::{BodyExt as _, Empty, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::UnixStream;

/// How long anything may take: generous, since nothing is waited for longer than it takes.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// Looks again and again until the condition gives something.
pub(crate) async fn until<T, F>(what: &str, condition: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    larder_testkit::poll_until(LIMIT, condition).await.unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// A daemon that runs, or has run.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) folder: TempDir,
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// What a command that succeeded printed.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    /// What a command that failed complained of, having printed nothing.
    pub(crate) fn failed(self) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (Some(1), ""), "{self:?}");
        self.stderr
    }
}

/// What was answered to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(crate) fn age(&self) -> u64 {
        self.header("age").parse().unwrap_or_else(|_| panic!("no age: {self:?}"))
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.header("cache-status").contains("stale:")
    }
}

/// A folder with these files in its folder `manifests`.
pub(crate) fn folder_with(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("manifests")).unwrap();
    for (name, text) in files {
        fs::write(folder.path().join("manifests").join(name), text).unwrap();
    }
    folder
}

/// The command `larder`, without what the environment of the tests may say.
pub(crate) fn larder() -> Command {
    larder_where("--default-signal=HUP")
}

/// The same, with what `env` is told about signals: the tests themselves may have been started with `nohup`.
fn larder_where(signals: &str) -> Command {
    let mut command = Command::new("env");
    command.args([signals, env!("CARGO_BIN_EXE_larder")]);
    for name in ["LARDER_SOCKET", "LARDER_LOG", "NODE_NAME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"] {
        command.env_remove(name);
    }
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.stdin(Stdio::null());
    command
}

/// The command `larder` as the last arguments of a program that runs it.
fn wrapped(program: &str, before: &[&OsStr]) -> Command {
    let larder = larder();
    let mut command = Command::new(program);
    command.args(before).arg(larder.get_program()).args(larder.get_args()).stdin(Stdio::null());
    for (name, _) in larder.get_envs() {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end.
pub(crate) async fn run(command: Command) -> Output {
    let mut command = tokio::process::Command::from(command);
    let output = tokio::time::timeout(LIMIT, command.kill_on_drop(true).output());
    let output = output.await.expect("it ends").expect("it starts");
    Output {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Daemon {
    /// A daemon with these manifests and without a runtime, ready.
    pub(crate) async fn with_manifests(files: &[(&str, &str)]) -> Self {
        let daemon = Self::spawn(folder_with(files), &["--manifests", "manifests", "--runtime-endpoint", "none"]);
        daemon.ready().await;
        daemon
    }

    /// The same, started as with `nohup`.
    pub(crate) async fn ignoring_hangups() -> Self {
        let folder = folder_with(&[]);
        let log = File::create(folder.path().join("stderr")).unwrap();
        let arguments = ["--manifests", "manifests", "--runtime-endpoint", "none"];
        let daemon = Self::start(larder_where("--ignore-signal=HUP"), folder, &arguments, log);
        daemon.ready().await;
        daemon
    }

    /// A daemon with these arguments, in that folder. Waits for nothing.
    pub(crate) fn spawn(folder: TempDir, arguments: &[&str]) -> Self {
        let log = File::create(folder.path().join("stderr")).unwrap();
        Self::spawn_with_log(folder, arguments, log)
    }

    /// The same, with a variable in its environment.
    pub(crate) fn spawn_where(name: &str, value: &str, folder: TempDir, arguments: &[&str]) -> Self {
        let log = File::create(folder.path().join("stderr")).unwrap();
        let mut larder = larder();
        larder.env(name, value);
        Self::start(larder, folder, arguments, log)
    }

    /// The same, with the environment and the files of a pod: a service account for the server at this address.
    pub(crate) fn spawn_in_pod(server: SocketAddr, account: &Path, folder: TempDir, arguments: &[&str]) -> Self {
        // Only the daemon sees what is mounted.
        const MOUNT: &str = "mount -t tmpfs tmpfs /var/run && mkdir -p /var/run/secrets/kubernetes.io/serviceaccount && \
                             mount --bind \"$0\" /var/run/secrets/kubernetes.io/serviceaccount && exec \"$@\"";
        assert!(rustix::process::geteuid().is_root(), "this test mounts a folder, and so needs root");
        let log = File::create(folder.path().join("stderr")).unwrap();
        let before = ["--mount".as_ref(), "sh".as_ref(), "-c".as_ref(), MOUNT.as_ref(), account.as_os_str()];
        let mut command = wrapped("unshare", &before);
        command.env("KUBERNETES_SERVICE_HOST", server.ip().to_string());
        command.env("KUBERNETES_SERVICE_PORT", server.port().to_string());
        Self::start(command, folder, arguments, log)
    }

    /// The same, with limits that the shell's `ulimit` sets.
    pub(crate) fn spawn_with_limits(ulimit: &str, folder: TempDir, arguments: &[&str]) -> Self {
        let log = File::create(folder.path().join("stderr")).unwrap();
        let limit = format!("{ulimit} && exec \"$0\" \"$@\"");
        Self::start(wrapped("sh", &["-c".as_ref(), limit.as_ref()]), folder, arguments, log)
    }

    /// The same, with its log in this file.
    pub(crate) fn spawn_with_log(folder: TempDir, arguments: &[&str], log: File) -> Self {
        Self::start(larder(), folder, arguments, log)
    }

    /// The same, as another user, who owns the folder and all that is in it.
    pub(crate) fn spawn_as(user: u32, folder: TempDir, arguments: &[&str]) -> Self {
        assert!(rustix::process::geteuid().is_root(), "this test changes the user of a process, and so needs root");
        let log = File::create(folder.path().join("stderr")).unwrap();
        give(folder.path(), user);
        let mut larder = Command::new(binary_for_all(folder.path()));
        larder.uid(user).gid(user).env_clear().stdin(Stdio::null());
        Self::start(larder, folder, arguments, log)
    }

    fn start(mut larder: Command, folder: TempDir, arguments: &[&str], log: File) -> Self {
        if !larder.get_envs().any(|(name, value)| name == "NODE_NAME" && value.is_some()) {
            larder.env("NODE_NAME", "node-1");
        }
        let child = larder
            .arg("run")
            .args(["--socket", "l.sock", "--metrics-address", "127.0.0.1:0"])
            .args(arguments)
            .current_dir(folder.path())
            .stdout(File::create(folder.path().join("stdout")).unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("l.sock")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has something to serve.
    pub(crate) async fn ready(&self) {
        until(&format!("ready: {}", self.folder.path().display()), async || {
            self.try_get("/readyz").await.filter(|answer| answer.code == 200)
        })
        .await;
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("stderr")).unwrap()
    }

    /// Waits until that has been logged: what is logged is written a moment later.
    pub(crate) async fn logged(&self, text: &str) {
        until(&format!("\"{text}\" is logged"), async || self.log().contains(text).then_some(())).await;
    }

    /// The address of its metrics, as it has printed it.
    pub(crate) async fn metrics_address(&self) -> String {
        until("it says where its metrics are", async || {
            let printed = self.printed();
            let rest = printed.split_once("metrics  http://")?.1;
            rest.split_once("/metrics").map(|(address, _)| address.to_owned())
        })
        .await
    }

    /// The address of the local API over TLS, as it has printed it.
    pub(crate) async fn listen_address(&self) -> String {
        until("it says where it listens", async || {
            let printed = self.printed();
            let rest = printed.split_once("listen   https://")?.1;
            rest.split_once(' ').map(|(address, _)| address.to_owned())
        })
        .await
    }

    /// What it has printed so far.
    pub(crate) fn printed(&self) -> String {
        fs::read_to_string(self.folder.path().join("stdout")).unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join("manifests").join(name), text).unwrap();
    }

    /// The answer to a GET over its socket; none if it does not answer.
    pub(crate) async fn try_get(&self, path: &str) -> Option<Answer> {
        request(UnixStream::connect(self.socket()).await.ok()?, "GET", path, "*/*").await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        tokio::time::timeout(LIMIT, self.try_get(path)).await.ok().flatten().unwrap_or_else(|| panic!("{path}"))
    }

    /// Runs `larder` with these arguments against its socket.
    pub(crate) async fn larder(&self, line: &str) -> Output {
        let mut command = larder();
        command.args(line.split_whitespace()).env("LARDER_SOCKET", self.socket());
        run(command).await
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// How it ended.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let child = std::sync::Mutex::new(&mut self.child);
        until("it ends", async || child.lock().unwrap().try_wait().unwrap()).await
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the daemon printed:\n{}and logged:\n{}", self.printed(), self.log());
        }
    }
}

/// The answer to one request on a connection of its own.
pub(crate) async fn request<S>(stream: S, method: &str, path: &str, accept: &str) -> Option<Answer>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    request_with(stream, method, path, accept, Full::default()).await
}

/// As [`request`], with a body.
pub(crate) async fn request_with<S>(
    stream: S,
    method: &str,
    path: &str,
    accept: &str,
    body: Full<bytes::Bytes>,
) -> Option<Answer>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    let request = http::Request::builder().method(method).uri(path).header("host", "larder").header("accept", accept);
    let request = request.body(body).unwrap();
    let exchange = async {
        let response = sender.send_request(request).await.ok()?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        Some(Answer { code: parts.status.as_u16(), headers: parts.headers, text })
    };
    let connection = async {
        let _ = connection.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        answer = exchange => answer,
        () = connection => None,
    }
}

/// The answer to one GET over HTTP/2, on a connection of its own.
pub(crate) async fn request_over_http2<S>(stream: S, path: &str) -> Answer
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let request = http::Request::get(format!("http://larder{path}")).body(Empty::<bytes::Bytes>::new()).unwrap();
    let exchange = async {
        let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        Answer { code: parts.status.as_u16(), headers: parts.headers, text }
    };
    tokio::select! {
        answer = exchange => answer,
        ended = connection => panic!("{path}: {ended:?}"),
    }
}

/// Gives a folder and all that is in it to a user.
fn give(folder: &Path, user: u32) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            give(&entry.path(), user);
        }
        chown(entry.path(), Some(user), Some(user)).unwrap();
    }
    chown(folder, Some(user), Some(user)).unwrap();
}

/// The binary in that folder, where any user can run it: the build's own folder may be closed to them.
pub(crate) fn binary_for_all(folder: &Path) -> PathBuf {
    let (built, copy) = (env!("CARGO_BIN_EXE_larder"), folder.join("larder"));
    if !copy.exists() && fs::hard_link(built, &copy).is_err() {
        fs::copy(built, &copy).unwrap();
    }
    for path in [folder, &copy] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    copy
}

/// Whether a file is there and a socket.
pub(crate) fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    fs::metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}
