//! `larder proxy`: who is answered, that answers are the daemon's own, and how it begins and ends.

use crate::harness::{Answer, Daemon, LIMIT, Output, binary_for_all, larder, run, until};
use crate::listen::pods_of;
use crate::watch::{Watch, request_to};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: a, image: i, envFrom: [{configMapRef: {name: c}}]}]}}";
const FILE: &str = "larder-proxy.kubeconfig";
/// The user and group `nobody`.
const NOBODY: u32 = 65_534;
/// As many connections as a proxy takes.
const CONNECTIONS: usize = 64;
const OVER: [&[u8]; 2] = [b"http/1.1", b"h2"];

fn config_map(value: &str) -> String {
    format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c, namespace: shop}}, data: {{a: '{value}'}}}}")
}

async fn daemon() -> Daemon {
    Daemon::with_manifests(&[("pod.yaml", POD), ("c.yaml", &config_map("1"))]).await
}

/// A proxy that runs, or has run.
struct Proxy {
    child: Child,
    folder: PathBuf,
    address: String,
    authority: Vec<u8>,
    token: String,
}

impl Proxy {
    /// A proxy to the daemon, in its folder.
    async fn start(daemon: &Daemon) -> Self {
        Self::start_in(daemon.folder.path(), larder(), &daemon.socket()).await
    }

    /// A proxy in that folder.
    async fn start_in(folder: &Path, mut larder: Command, socket: &Path) -> Self {
        let before = fs::read_to_string(folder.join(FILE)).ok();
        let child = larder
            .args(["proxy", "--socket"])
            .arg(socket)
            .current_dir(folder)
            .stdout(File::create(folder.join("proxy.stdout")).unwrap())
            .stderr(File::create(folder.join("proxy.stderr")).unwrap())
            .spawn()
            .unwrap();
        // It listens before it writes the file.
        let read = || fs::read_to_string(folder.join(FILE)).ok().filter(|text| Some(text) != before.as_ref());
        let text = until("the kubeconfig is written", async || read()).await;
        let kubeconfig = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        let cluster = kubeconfig.clusters[0].cluster.clone().unwrap();
        let address = cluster.server.unwrap().strip_prefix("https://").unwrap().to_owned();
        let authority = STANDARD.decode(cluster.certificate_authority_data.unwrap()).unwrap();
        let user = text.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap();
        Self { child, folder: folder.to_owned(), address, authority, token: user.to_owned() }
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    async fn connect(&self, over: &[u8]) -> TlsStream<TcpStream> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&self.authority).unwrap()).unwrap();
        let builder = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![over.to_vec()];
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        tokio::time::timeout(LIMIT, connecting).await.expect("the handshake ends").unwrap()
    }

    /// Sends a request on a connection of its own, which the set keeps.
    async fn send(
        &self,
        over: &[u8],
        request: http::Request<Full<bytes::Bytes>>,
    ) -> (http::Response<Incoming>, JoinSet<()>) {
        let io = TokioIo::new(self.connect(over).await);
        let mut task = JoinSet::new();
        let sending = async {
            if over == b"h2" {
                let (mut sender, connection) =
                    hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
                task.spawn(async move { drop(connection.await) });
                sender.send_request(request).await.unwrap()
            } else {
                let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
                task.spawn(async move { drop(connection.await) });
                sender.send_request(request).await.unwrap()
            }
        };
        let response = tokio::time::timeout(LIMIT, sending).await.expect("it answers");
        (response, task)
    }

    /// The answer to a request with these values of the header `Authorization`.
    async fn answer(&self, over: &[u8], method: &str, path: &str, authorization: &[String]) -> Answer {
        let mut request = to(over, method, path);
        for value in authorization {
            request = request.header("authorization", value);
        }
        let (response, _task) = self.send(over, request.body(Full::default()).unwrap()).await;
        collect(response).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.answer(b"http/1.1", "GET", path, &[self.bearer()]).await
    }

    async fn watch(&self, over: &[u8], path: &str) -> Watch {
        let is_http2 = over == b"h2";
        let request = request_to(is_http2, "GET", path).header("authorization", self.bearer());
        let watch = Watch::on(self.connect(over).await, is_http2, request).await;
        assert_eq!(watch.code, 200);
        watch
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().try_into().unwrap()).unwrap(), signal).unwrap();
    }

    async fn ended(&mut self) -> ExitStatus {
        let child = std::sync::Mutex::new(&mut self.child);
        until("the proxy ends", async || child.lock().unwrap().try_wait().unwrap()).await
    }

    /// All that it has printed.
    fn printed(&self) -> String {
        ["proxy.stdout", "proxy.stderr"].map(|name| fs::read_to_string(self.folder.join(name)).unwrap()).concat()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the proxy printed:\n{}", self.printed());
        }
    }
}

/// A request for a name that nobody has: only the token decides.
fn to(over: &[u8], method: &str, path: &str) -> http::request::Builder {
    request_to(over == b"h2", method, path)
}

async fn collect(response: http::Response<Incoming>) -> Answer {
    let (parts, body) = response.into_parts();
    let body = tokio::time::timeout(LIMIT, body.collect()).await.expect("the answer ends").unwrap().to_bytes();
    let text = String::from_utf8_lossy(&body).into_owned();
    Answer { code: parts.status.as_u16(), headers: parts.headers, text }
}

#[tokio::test]
async fn without_the_token_there_is_no_answer_but_401() {
    let daemon = daemon().await;
    let proxy = Proxy::start(&daemon).await;
    let (token, bearer) = (&proxy.token, proxy.bearer());
    assert_eq!(token.len(), 64, "256 bits");
    let basic = format!("Basic {}", STANDARD.encode(format!("{token}:{token}")));
    let wrong = |text: &str| vec![format!("Bearer {text}")];
    for (sends, why) in [
        (vec![], "has no token"),
        (wrong(""), "has not the token"),
        (wrong(&token[1..]), "has not the token"),
        (wrong(&format!("{token}0")), "has not the token"),
        (wrong(&token.replace(|digit: char| digit.is_ascii_digit(), "a")), "has not the token"),
        (vec![token.clone()], "has not the token"),
        (vec![basic], "has not the token"),
        (vec![bearer.clone(), "Bearer x".to_owned()], "has not the token"),
        (vec!["Bearer x".to_owned(), bearer.clone()], "has not the token"),
    ] {
        for over in OVER {
            for (method, path) in [
                ("GET", "/api/v1/pods".to_owned()),
                ("GET", "/livez".to_owned()),
                ("GET", "/metrics".to_owned()),
                ("GET", format!("/api/v1/pods?token={token}&access_token={token}")),
                ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned()),
                ("OPTIONS", "/api/v1/pods".to_owned()),
            ] {
                let answer = proxy.answer(over, method, &path, &sends).await;
                let status = answer.json();
                let expected = (401, &json!("Status"), &json!("Unauthorized"));
                assert_eq!((answer.code, &status["kind"], &status["reason"]), expected, "{method} {path} {sends:?}");
                let message = status["message"].as_str().unwrap();
                assert!(message.contains(why) && message.contains("larder proxy"), "{message}");
                assert!(!answer.text.contains(token.as_str()), "{answer:?}");
                assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("access-control")), "{answer:?}");
            }
        }
    }
    assert_eq!(proxy.answer(b"h2", "GET", "/api/v1/pods", &[bearer.replace("Bearer", "bearer")]).await.code, 200);
    assert!(!proxy.printed().contains(token.as_str()) && !daemon.log().contains(token.as_str()));
}

#[tokio::test]
async fn answers_are_those_of_the_socket() {
    let large = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c, namespace: shop}}, data: {{a: '{}'}}}}",
        "x".repeat(200_000)
    );
    let daemon = Daemon::with_manifests(&[("pod.yaml", POD), ("c.yaml", &large)]).await;
    let proxy = Proxy::start(&daemon).await;
    for path in [
        "/api/v1/pods",
        "/api/v1/namespaces/shop/pods/web",
        "/api/v1/namespaces/shop/configmaps/none",
        "/none",
        "/livez",
        "/api/v1/pods?labelSelector=a%20in%20(b",
    ] {
        let own = daemon.get(path).await;
        for over in OVER {
            let answer = proxy.answer(over, "GET", path, &[proxy.bearer()]).await;
            assert_eq!((answer.code, &answer.text), (own.code, &own.text), "{path}");
            for name in ["content-type", "content-length", "cache-status"] {
                assert_eq!(answer.headers.get(name), own.headers.get(name), "{path}: {name}");
            }
            assert!(answer.headers.contains_key("age") == own.headers.contains_key("age"), "{path}: {answer:?}");
            let head = proxy.answer(over, "HEAD", path, &[proxy.bearer()]).await;
            assert_eq!((head.code, head.text.as_str()), (own.code, ""), "{path}");
            assert_eq!(head.headers.get("content-length"), own.headers.get("content-length"), "{path}");
            assert_eq!(proxy.answer(over, "DELETE", path, &[proxy.bearer()]).await.code, 405, "{path}");
        }
    }
    for over in OVER {
        let request = to(over, "GET", "/api/v1/configmaps").header("authorization", proxy.bearer());
        let request = request.header("accept-encoding", "gzip").body(Full::default());
        let (response, _task) = proxy.send(over, request.unwrap()).await;
        assert_eq!(response.headers()["content-encoding"], "gzip");
        assert!(response.into_body().collect().await.unwrap().to_bytes().starts_with(&[0x1f, 0x8b]));
        // A review has a body, with or without its kind, and names who asks: the user of the proxy, whomever the client names.
        let whole = r#"{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}"#;
        for (review, code) in [(whole, 201), ("{}", 201), (r#"{"kind":"Pod"}"#, 400)] {
            let request = to(over, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews");
            let request = request.header("authorization", proxy.bearer()).header("content-type", "application/json");
            let request = request.header("impersonate-user", "jane").body(Full::from(review));
            let (response, _task) = proxy.send(over, request.unwrap()).await;
            let answer = collect(response).await;
            assert_eq!(answer.code, code, "{review}: {answer:?}");
            if code == 201 {
                let user = format!("user {}", rustix::process::geteuid());
                let answer = answer.json();
                assert_eq!(answer["status"]["userInfo"]["username"], json!(user), "{answer}");
                assert_eq!(
                    (&answer["kind"], &answer["apiVersion"]),
                    (&json!("SelfSubjectReview"), &json!("authentication.k8s.io/v1"))
                );
            }
        }
    }
}

#[tokio::test]
async fn a_watch_streams_until_the_proxy_ends() {
    for (over, signal) in OVER.into_iter().zip([Signal::INT, Signal::TERM]) {
        let daemon = daemon().await;
        let mut proxy = Proxy::start(&daemon).await;
        let mut watch = proxy.watch(over, "/api/v1/configmaps?watch=1").await;
        for value in ["1", "2", "3"] {
            let event = watch.next_or_error().await.expect("an event").unwrap();
            assert_eq!(event["object"]["data"]["a"], value);
            daemon.write("c.yaml", &config_map(&(value.parse::<u32>().unwrap() + 1).to_string()));
        }
        assert_eq!(watch.next_or_error().await.expect("an event").unwrap()["object"]["data"]["a"], "4");
        proxy.signal(signal);
        assert!(watch.next_or_error().await.is_none(), "it ends in good order");
        assert!(proxy.ended().await.success());
        assert!(!proxy.folder.join(FILE).exists(), "{}", proxy.printed());
        assert!(TcpStream::connect(&proxy.address).await.is_err());
    }
}

#[tokio::test]
async fn a_daemon_that_goes_away_breaks_watches_and_is_found_again() {
    for over in OVER {
        let mut daemon = daemon().await;
        let proxy = Proxy::start(&daemon).await;
        let mut watch = proxy.watch(over, "/api/v1/configmaps?watch=1").await;
        watch.next_or_error().await.expect("an event").unwrap();
        daemon.kill();
        assert!(watch.next_or_error().await.expect("not an end in good order").is_err());
        for why in ["the daemon has ended", "the socket does not exist"] {
            let answer = proxy.answer(over, "GET", "/api/v1/pods", &[proxy.bearer()]).await;
            let status = answer.json();
            assert_eq!((answer.code, &status["reason"]), (503, &json!("ServiceUnavailable")), "{answer:?}");
            assert_eq!(answer.header("retry-after"), "1");
            let message = status["message"].as_str().unwrap();
            let socket = daemon.socket();
            assert!(message.contains(socket.to_str().unwrap()) && message.contains(why), "{message}");
            let _ = fs::remove_file(socket);
        }
        let second = self::daemon().await;
        symlink(second.socket(), daemon.socket()).unwrap();
        until("the new daemon answers", async || (proxy.get("/api/v1/pods").await.code == 200).then_some(())).await;
    }
}

/// What `larder proxy` complains of with these arguments, in that folder.
async fn told(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = larder();
    command.arg("proxy").args(arguments).current_dir(folder);
    run(command).await
}

#[tokio::test]
async fn the_kubeconfig_is_closed_to_others_and_of_use_to_clients() {
    let daemon = daemon().await;
    let mut proxy = Proxy::start(&daemon).await;
    let path = proxy.folder.join(FILE);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(pods_of(&fs::read_to_string(&path).unwrap()).await, ["web"]);
    let printed = proxy.printed();
    assert!(
        printed.contains(&format!("https://{}", proxy.address)) && printed.contains("l.sock, as this process may"),
        "{printed}"
    );

    // A second one on the same port says so, and leaves the file.
    let port = proxy.address.rsplit(':').next().unwrap();
    let before = fs::read(&path).unwrap();
    let output = told(&proxy.folder, &["--socket", "l.sock", "--port", port]).await.failed();
    assert!(output.contains(&format!("cannot listen on 127.0.0.1:{port} (--port)")), "{output}");
    assert_eq!(fs::read(&path).unwrap(), before);
    // Nor does it replace a file of somebody else.
    fs::write(proxy.folder.join("config"), "apiVersion: v1").unwrap();
    symlink(&path, proxy.folder.join("link")).unwrap();
    for (name, why) in [
        ("config", "this command of larder did not write it"),
        ("link", "is a link"),
        ("none/config", "cannot open folder"),
    ] {
        let output = told(&proxy.folder, &["--socket", "l.sock", "--output", name]).await.failed();
        assert!(output.contains(name.split('/').next().unwrap()) && output.contains(why), "{output}");
    }
    assert_eq!(fs::read_to_string(proxy.folder.join("config")).unwrap(), "apiVersion: v1");

    // Nor one that a proxy wrote that still runs.
    let output = told(&proxy.folder, &["--socket", "l.sock"]).await.failed();
    for part in [FILE, "is in use", "still runs", "choose another path", "--output"] {
        assert!(output.contains(part), "{output}");
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(pods_of(&fs::read_to_string(&path).unwrap()).await, ["web"]);

    // What a killed one left is replaced.
    proxy.child.kill().unwrap();
    proxy.ended().await;
    assert!(path.exists());
    let (address, token) = (proxy.address.clone(), proxy.token.clone());
    let mut second = Proxy::start(&daemon).await;
    assert!(second.address != address && second.token != token);
    second.signal(Signal::HUP);
    assert_eq!(second.ended().await.code(), Some(129));
    assert!(!path.exists());
}

#[tokio::test]
async fn at_the_start_it_is_told_why_clients_will_get_no_answers() {
    let daemon = daemon().await;
    assert!(rustix::process::geteuid().is_root(), "this test changes the user of a process, and so needs root");
    let outside = tempfile::tempdir().unwrap();
    let binary = binary_for_all(outside.path());
    let own = outside.path().join("own");
    fs::create_dir(&own).unwrap();
    chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(daemon.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut as_nobody = Command::new(binary);
    as_nobody.uid(NOBODY).gid(NOBODY).env_clear();
    let proxy = Proxy::start_in(&own, as_nobody, &daemon.socket()).await;
    let refused = proxy.get("/api/v1/pods").await;
    assert_eq!(refused.code, 403, "{refused:?}");
    let why = refused.json()["message"].as_str().unwrap().to_owned();
    let warning = format!("warning: each request to this proxy will be refused: {why}\n");
    until("that is told", async || proxy.printed().contains(&warning).then_some(())).await;
    assert!(why.contains(&format!("user {NOBODY} may not read")) && why.contains("ask as root"), "{why}");

    let nowhere = daemon.folder.path().join("none.sock");
    let proxy = Proxy::start_in(daemon.folder.path(), larder(), &nowhere).await;
    let told = |part: &str| proxy.printed().contains(part);
    until("that there is no daemon is told", async || {
        (told("requests to this proxy will fail for now: ") && told(nowhere.to_str().unwrap())).then_some(())
    })
    .await;
    // One who may read is told nothing.
    fs::remove_file(daemon.folder.path().join(FILE)).unwrap();
    let quiet = Proxy::start(&daemon).await;
    assert_eq!(quiet.get("/api/v1/pods").await.code, 200);
    assert!(!quiet.printed().contains("warning"), "{}", quiet.printed());
}

#[tokio::test]
async fn connections_are_bounded_and_idle_ones_make_room() {
    let daemon = daemon().await;
    let proxy = Proxy::start(&daemon).await;
    let mut idle = proxy.connect(b"http/1.1").await;
    let mut silent = TcpStream::connect(&proxy.address).await.unwrap();
    let mut watches = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut watch = proxy.watch(b"http/1.1", "/api/v1/pods?watch=1").await;
        watch.next_or_error().await.expect("an event").unwrap();
        watches.push(watch);
    }
    for gone in [&mut idle as &mut (dyn tokio::io::AsyncRead + Unpin), &mut silent] {
        let end = tokio::time::timeout(LIMIT, gone.read(&mut [0])).await.expect("it made room");
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    }
    // All are busy now.
    let mut late = TcpStream::connect(&proxy.address).await.unwrap();
    let end = tokio::time::timeout(LIMIT, late.read(&mut [0])).await.expect("it is closed");
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    let mut watch = watches.pop().unwrap();
    watch.connection.abort_all();
    assert!(watch.next_or_error().await.is_none_or(|event| event.is_err()));
    until("there is room again", async || {
        let mut stream = TcpStream::connect(&proxy.address).await.ok()?;
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        answer.contains("Client sent an HTTP request to an HTTPS server").then_some(())
    })
    .await;
}
