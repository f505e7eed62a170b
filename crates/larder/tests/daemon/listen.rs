//! The local API over TLS: who is let in, certificates that change while the daemon runs, and `larder kubeconfig`.

use crate::harness::{Answer, Daemon, LIMIT, folder_with, larder, request, request_over_http2, run, until};
use crate::watch::{Watch, request_to};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeAddress, Pod};
use larder_file::private::PrivateFolder;
use larder_testkit::api_server::{ApiServer, User};
use larder_testkit::objects::node;
use larder_tls::{Authority, Issued, ListenerTls, TlsOptions};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: a, image: i}]}}";
const HOUR: Duration = Duration::from_hours(1);
const FIXED: [&str; 6] = ["--manifests", "manifests", "--runtime-endpoint", "none", "--listen", "127.0.0.1:0"];

/// A daemon with one pod that listens over TLS.
async fn listening(settings: &str, arguments: &[&str]) -> Daemon {
    let folder = folder_with(&[("pod.yaml", POD), ("../settings.yaml", settings)]);
    let own = ["--tls-directory", "tls", "--config", "settings.yaml"];
    let daemon = Daemon::spawn(folder, &[&FIXED[..], &own, arguments].concat());
    daemon.ready().await;
    daemon
}

fn authority(daemon: &Daemon) -> Authority {
    Authority::open(&PrivateFolder::open(&daemon.folder.path().join("tls")).unwrap()).unwrap()
}

/// A client: the authorities that it trusts, and the certificate that it shows.
pub(crate) struct Peer<'a> {
    pub(crate) trusts: &'a str,
    pub(crate) shows: Option<&'a Issued>,
    pub(crate) over: &'a [u8],
}

impl<'a> Peer<'a> {
    pub(crate) fn new(authority: &'a Authority, shows: Option<&'a Issued>) -> Self {
        Self { trusts: authority.certificate_pem(), shows, over: b"http/1.1" }
    }

    pub(crate) async fn connect(&self, address: &str) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.trusts.as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let builder = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match self.shows {
            None => builder.with_no_client_auth(),
            Some(issued) => {
                let chain = CertificateDer::pem_slice_iter(issued.certificate.as_bytes()).map(Result::unwrap);
                let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
                // Unlike `with_client_auth_cert`, this shows any certificate.
                let shown = CertifiedKey::new(chain.collect(), any_supported_type(&key).unwrap());
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown)))
            }
        };
        config.alpn_protocols = vec![self.over.to_vec()];
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        tokio::time::timeout(LIMIT, connecting).await.expect("the handshake ends")
    }

    pub(crate) async fn get(&self, address: &str, path: &str) -> Answer {
        let stream = self.connect(address).await.unwrap();
        if self.over == b"h2" {
            return request_over_http2(stream, path).await;
        }
        tokio::time::timeout(LIMIT, request(stream, "GET", path, "*/*")).await.expect("it answers").expect("an answer")
    }
}

/// Waits until the daemon closes the connection.
async fn closed(mut stream: TlsStream<TcpStream>) {
    let mut got = Vec::new();
    let ended = tokio::time::timeout(LIMIT, stream.read_to_end(&mut got)).await;
    assert!(ended.is_ok(), "it is not closed");
}

#[tokio::test]
async fn only_admins_read_over_tls_and_everybody_else_is_told_what_to_do() {
    let daemon = listening("", &[]).await;
    let (address, authority) = (daemon.listen_address().await, authority(&daemon));
    let now = Timestamp::now();
    let issue = |group, at: Timestamp| authority.issue_client("jane", group, HOUR, at).unwrap();
    let admin = issue("larder:admins", now);
    for over in [&b"http/1.1"[..], b"h2"] {
        let peer = Peer { over, ..Peer::new(&authority, Some(&admin)) };
        let answer = peer.get(&address, "/api/v1/pods").await;
        assert_eq!((answer.code, &answer.json()["items"][0]["metadata"]["name"]), (200, &"web".into()), "{answer:?}");
        assert_eq!(peer.get(&address, "/larder/v1/status").await.code, 200);
    }

    let other = tempfile::tempdir().unwrap();
    let mut options = TlsOptions::default();
    options.directory = other.path().join("tls");
    ListenerTls::open(options.clone(), "node-1", &["localhost".to_owned()].into(), now).unwrap();
    let foreign = Authority::open(&PrivateFolder::open(&options.directory).unwrap()).unwrap();
    let foreign = foreign.issue_client("jane", "larder:admins", HOUR, now).unwrap();
    let reader = issue("larder:readers", now);
    let expired = issue("larder:admins", now.saturating_sub(HOUR * 2).unwrap());
    for (shows, code, reason, why) in [
        (None, 401, "Unauthorized", "an unknown caller may not read"),
        (Some(&expired), 401, "Unauthorized", "it has expired"),
        (Some(&foreign), 401, "Unauthorized", "its authority is neither larder's own"),
        (Some(&reader), 403, "Forbidden", "client \"jane\" may not read"),
    ] {
        for over in [&b"http/1.1"[..], b"h2"] {
            let peer = Peer { over, ..Peer::new(&authority, shows) };
            for path in ["/api/v1/pods", "/larder/v1/status", "/metrics", "/", "/none"] {
                let answer = peer.get(&address, path).await;
                let status = answer.json();
                assert_eq!((answer.code, &status["kind"], &status["reason"]), (code, &"Status".into(), &reason.into()));
                let message = status["message"].as_str().unwrap();
                assert!(message.contains(why) && message.contains("larder kubeconfig"), "{message}");
            }
            for path in ["/livez", "/readyz"] {
                let answer = peer.get(&address, path).await;
                assert_eq!((answer.code, answer.text.as_str()), (200, "ok"));
            }
        }
    }
    assert!(!daemon.log().contains("PRIVATE"), "{}", daemon.log());
}

/// The value of the first DER element, and what follows it.
fn element(der: &[u8]) -> (&[u8], &[u8]) {
    let (head, length) = match der[1] {
        0x81 => (3, usize::from(der[2])),
        0x82 => (4, usize::from(der[2]) << 8 | usize::from(der[3])),
        short => (2, usize::from(short)),
    };
    (&der[head..head + length], &der[head + length..])
}

fn sequence(value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).unwrap().to_be_bytes();
    [&[0x30, 0x82], &length[..], value].concat()
}

/// A certificate as one of X.509 version 1: without the version and the extensions. Its signature does not fit.
fn of_version_1(pem: &str) -> String {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let (to_sign, signature) = element(element(&der).0);
    let (mut rest, mut kept) = (to_sign, Vec::new());
    while !rest.is_empty() {
        let (_, next) = element(rest);
        if !matches!(rest[0], 0xa0 | 0xa3) {
            kept.extend_from_slice(&rest[..rest.len() - next.len()]);
        }
        rest = next;
    }
    let der = sequence(&[&sequence(&kept), signature].concat());
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(der))
}

#[tokio::test]
async fn a_certificate_that_cannot_be_read_is_refused_with_an_answer() {
    let daemon = listening("", &[]).await;
    let (address, authority) = (daemon.listen_address().await, authority(&daemon));
    let mut issued = authority.issue_client("jane", "larder:admins", HOUR, Timestamp::now()).unwrap();
    issued.certificate = of_version_1(&issued.certificate);
    for over in [&b"http/1.1"[..], b"h2"] {
        let peer = Peer { over, ..Peer::new(&authority, Some(&issued)) };
        let answer = peer.get(&address, "/api/v1/pods").await;
        assert!(answer.code == 401 && answer.text.contains("no X.509 certificate of version 3"), "{answer:?}");
        assert_eq!(peer.get(&address, "/readyz").await.code, 200);
    }
}

#[tokio::test]
async fn the_folder_of_keys_is_closed_to_others_and_is_not_made_without_a_listener() {
    let daemon = listening("", &[]).await;
    let folder = daemon.folder.path().join("tls");
    let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(""), mode("ca.pem"), mode("serving.pem")), (0o700, 0o600, 0o600));
    let status = daemon.larder("status").await.ok();
    assert!(status.contains("listen      https://127.0.0.1:"), "{status}");

    let folder = folder_with(&[]);
    let daemon =
        Daemon::spawn(folder, &["--manifests", "manifests", "--runtime-endpoint", "none", "--tls-directory", "tls"]);
    daemon.ready().await;
    assert!(!daemon.folder.path().join("tls").exists());
    assert!(daemon.get("/larder/v1/status").await.json().get("listen").is_none());
    let told = daemon.larder("kubeconfig").await.failed();
    assert!(told.contains("start it with --listen"), "{told}");
}

/// What `larder run` with a listener complains of in that folder.
async fn told(folder: &Path, arguments: &[&str]) -> String {
    let mut command = larder();
    command.arg("run").args(FIXED).args(["--socket", "l.sock"]).args(arguments).current_dir(folder);
    run(command).await.failed()
}

#[tokio::test]
async fn files_that_cannot_be_used_end_the_start_with_their_path_and_stay() {
    let folder = folder_with(&[]);
    let path = |name: &str| folder.path().join(name);
    let mut options = TlsOptions::default();
    options.directory = path("tls");
    ListenerTls::open(options, "node-1", &["localhost".to_owned()].into(), Timestamp::now()).unwrap();
    let good = fs::read(path("tls/ca.pem")).unwrap();
    let own = ["--tls-directory", "tls"];

    let damaged = &good[..good.len() / 2];
    fs::write(path("tls/ca.pem"), damaged).unwrap();
    let text = told(folder.path(), &own).await;
    assert!(text.contains("tls/ca.pem: it holds no certificate in PEM") && text.contains("remove it"), "{text}");
    assert_eq!(fs::read(path("tls/ca.pem")).unwrap(), damaged);

    fs::write(path("elsewhere"), &good).unwrap();
    fs::remove_file(path("tls/ca.pem")).unwrap();
    symlink(path("elsewhere"), path("tls/ca.pem")).unwrap();
    let text = told(folder.path(), &own).await;
    assert!(text.contains("tls/ca.pem is a link"), "{text}");
    fs::remove_file(path("tls/ca.pem")).unwrap();

    fs::set_permissions(path("tls"), fs::Permissions::from_mode(0o755)).unwrap();
    let text = told(folder.path(), &own).await;
    assert!(text.contains("must be closed to other users") && text.contains("chmod 700"), "{text}");

    fs::write(path("garbage"), "garbage").unwrap();
    let given = ["--tls-cert-file", "garbage", "--tls-private-key-file", "garbage"];
    let text = told(folder.path(), &[&given[..], &["--tls-directory", "new"]].concat()).await;
    assert!(text.contains("garbage: it holds no certificate in PEM"), "{text}");
    let text = told(folder.path(), &["--client-ca", "none", "--tls-directory", "new"]).await;
    assert!(text.contains("cannot read none"), "{text}");
    let text = told(folder.path(), &["--tls-cert-file", "garbage"]).await;
    assert!(text.contains("--tls-cert-file: it needs a key"), "{text}");
}

#[tokio::test]
async fn any_client_reads_with_the_kubeconfig_that_larder_writes() {
    let daemon = listening("", &[]).await;
    daemon.listen_address().await;
    let path = daemon.folder.path().join("larder.kubeconfig");
    let text = daemon.larder(&format!("kubeconfig --output {}", path.display())).await.ok();
    assert!(text.contains("larder-admin of larder:admins, until "), "{text}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(pods_of(&fs::read_to_string(&path).unwrap()).await, ["web"]);

    let printed = daemon.larder("kubeconfig --name dashboard --validity 10m").await.ok();
    assert_eq!(pods_of(&printed).await, ["web"]);
    assert!(printed.contains("user: dashboard") && printed.contains("current-context: larder-node-1"), "{printed}");

    // Its own file is replaced, and no other.
    let before = fs::read_to_string(&path).unwrap();
    daemon.larder(&format!("kubeconfig --output {}", path.display())).await.ok();
    assert_ne!(fs::read_to_string(&path).unwrap(), before);
    let config = daemon.folder.path().join("config");
    fs::write(&config, "apiVersion: v1").unwrap();
    let told = daemon.larder(&format!("kubeconfig --output {}", config.display())).await.failed();
    assert!(told.contains("this command of larder did not write it") && told.contains("config"), "{told}");
    assert_eq!(fs::read_to_string(&config).unwrap(), "apiVersion: v1");
    for name in ["", "a\u{1b}b", "a\nb"] {
        let mut command = larder();
        command.args(["kubeconfig", "--name", name]).env("LARDER_SOCKET", daemon.socket());
        let told = run(command).await.failed();
        assert!(told.contains("--name") && !told.contains(char::from(0x1b)), "{told}");
    }

    let link = daemon.folder.path().join("link");
    symlink(&path, &link).unwrap();
    let told = daemon.larder(&format!("kubeconfig --output {}", link.display())).await.failed();
    assert!(told.contains("is a link"), "{told}");
    let told = daemon.larder("kubeconfig --server http://127.0.0.1:1").await.failed();
    assert!(told.contains("write https://HOST:PORT"), "{told}");
    let told = daemon.larder("kubeconfig --validity 1s").await.failed();
    assert!(told.contains("--validity"), "{told}");
}

/// The names of the pods that kube-rs gets.
pub(crate) async fn pods_of(kubeconfig: &str) -> Vec<String> {
    let kubeconfig = kube::config::Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let pods: kube::Api<Pod> = kube::Api::all(client);
    let listed = tokio::time::timeout(LIMIT, pods.list(&kube::api::ListParams::default())).await;
    listed.expect("it answers").unwrap().items.into_iter().filter_map(|pod| pod.metadata.name).collect()
}

/// A serving certificate of an authority that is not larder's, as files.
struct Given {
    authority: String,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Given {
    fn new() -> Self {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        Self { authority: params.self_signed(&key).unwrap().pem(), issuer: rcgen::Issuer::new(params, key) }
    }

    fn write(&self, folder: &Path) {
        self.write_until(folder, 4096);
    }

    /// A certificate that expires at the beginning of that year.
    fn write_until(&self, folder: &Path, year: i32) {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
        fs::write(folder.join("tls.crt"), params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
    }
}

#[tokio::test]
async fn a_new_serving_certificate_closes_no_connection_and_a_bad_one_shows_in_the_status() {
    let (given, folder) = (Given::new(), folder_with(&[("pod.yaml", POD)]));
    given.write(folder.path());
    let files = ["--tls-cert-file", "tls.crt", "--tls-private-key-file", "tls.key", "--tls-directory", "tls"];
    let daemon = Daemon::spawn(folder, &[&FIXED[..], &files].concat());
    daemon.ready().await;
    let address = daemon.listen_address().await;
    let peer = Peer { trusts: &given.authority, shows: None, over: b"http/1.1" };
    let mut open = peer.connect(&address).await.unwrap();
    let shown = |stream: &TlsStream<TcpStream>| stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    let before = shown(&open);

    given.write(daemon.folder.path());
    until("new connections get the new one", async || {
        (shown(&peer.connect(&address).await.ok()?) != before).then_some(())
    })
    .await;
    open.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    open.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    fs::write(daemon.folder.path().join("tls.crt"), "garbage").unwrap();
    let told = "tls.crt: it holds no certificate in PEM";
    until("the status says so", async || daemon.larder("status").await.ok().contains(told).then_some(())).await;
    peer.connect(&address).await.expect("the certificate before is served");
    given.write(daemon.folder.path());
    until("all is well", async || daemon.larder("status").await.ok().contains(": healthy").then_some(())).await;

    let told = daemon.larder("kubeconfig").await.failed();
    assert!(told.contains("--certificate-authority"), "{told}");
    let authority = daemon.folder.path().join("ca.crt");
    fs::write(&authority, &given.authority).unwrap();
    let server = format!("https://localhost:{}", address.rsplit(':').next().unwrap());
    let line = format!("kubeconfig --certificate-authority {} --server {server}", authority.display());
    assert_eq!(pods_of(&daemon.larder(&line).await.ok()).await, ["web"]);
}

#[tokio::test]
async fn the_metric_of_its_end_follows_the_serving_certificate() {
    let name = "larder_serving_certificate_expiration_timestamp_seconds";
    let (given, folder) = (Given::new(), folder_with(&[]));
    given.write_until(folder.path(), 2101);
    let files = ["--tls-cert-file", "tls.crt", "--tls-private-key-file", "tls.key", "--tls-directory", "tls"];
    let daemon = Daemon::spawn(folder, &[&FIXED[..], &files].concat());
    daemon.ready().await;
    let end = |year: i16| jiff::civil::date(year, 1, 1).to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp();
    let line = |year| format!("\n# TYPE {name} gauge\n{name} {}\n", end(year).as_second());
    let metrics = daemon.get("/metrics").await.text;
    assert!(metrics.contains(&line(2101)), "{metrics}");
    given.write_until(daemon.folder.path(), 2102);
    until("the metric follows", async || daemon.try_get("/metrics").await?.text.contains(&line(2102)).then_some(()))
        .await;

    let without = Daemon::with_manifests(&[]).await;
    assert!(!without.get("/metrics").await.text.contains(name));
}

#[tokio::test]
async fn the_own_certificate_has_the_addresses_of_the_node_as_they_are_now() {
    let server = ApiServer::start().await.unwrap();
    let with_address = |address: &str| {
        let mut node = node("node-1");
        let addresses = [("InternalIP", address), ("Hostname", "Node-1.example")];
        let addresses = addresses.map(|(type_, address)| NodeAddress { type_: type_.into(), address: address.into() });
        node.status.get_or_insert_default().addresses = Some(addresses.into());
        node
    };
    server.store().create(with_address("10.0.0.7")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    server.write_kubeconfig(&kubeconfig, &server.add_user(User::node("node-1"))).unwrap();
    let arguments = ["--runtime-endpoint", "none", "--listen", "0.0.0.0:0", "--tls-directory", "tls"];
    let arguments = [&["--kubeconfig", kubeconfig.to_str().unwrap()][..], &arguments].concat();
    let daemon = Daemon::spawn(folder, &arguments);
    daemon.ready().await;
    let names_are = async |expected: &[&str]| {
        until("the certificate has these names", async || {
            let listen = daemon.get("/larder/v1/status").await.json()["listen"].take();
            (listen["names"] == serde_json::json!(expected)).then_some(listen)
        })
        .await
    };
    let listen = names_are(&["10.0.0.7", "127.0.0.1", "::1", "localhost", "node-1", "node-1.example"]).await;
    assert!(listen["url"].as_str().unwrap().starts_with("https://10.0.0.7:"), "{listen}");
    server.store().apply(with_address("10.0.0.8")).unwrap();
    names_are(&["10.0.0.8", "127.0.0.1", "::1", "localhost", "node-1", "node-1.example"]).await;
}

#[tokio::test]
async fn a_connection_ends_with_the_clients_certificate_and_with_its_authority() {
    let given = Given::new();
    let folder = folder_with(&[("pod.yaml", POD)]);
    fs::write(folder.path().join("clients.crt"), &given.authority).unwrap();
    let arguments = ["--tls-directory", "tls", "--client-ca", "clients.crt", "--config", "settings.yaml"];
    fs::write(folder.path().join("settings.yaml"), "limits: {headTimeout: 1h}").unwrap();
    let daemon = Daemon::spawn(folder, &[&FIXED[..], &arguments].concat());
    daemon.ready().await;
    let (address, authority) = (daemon.listen_address().await, authority(&daemon));
    let short = authority.issue_client("jane", "larder:admins", Duration::from_secs(3), Timestamp::now()).unwrap();
    closed(Peer::new(&authority, Some(&short)).connect(&address).await.unwrap()).await;

    let admin = authority.issue_client("jane", "larder:admins", HOUR, Timestamp::now()).unwrap();
    let open = Peer::new(&authority, Some(&admin)).connect(&address).await.unwrap();
    fs::write(daemon.folder.path().join("clients.crt"), Given::new().authority).unwrap();
    closed(open).await;
    assert_eq!(Peer::new(&authority, Some(&admin)).get(&address, "/api/v1/pods").await.code, 200);
}

#[tokio::test]
async fn clients_that_do_not_finish_their_handshake_keep_nobody_out() {
    let settings = "limits: {handshakeTimeout: 1h, headTimeout: 1h, listenForeignConnections: 2}";
    let daemon = listening(settings, &[]).await;
    let (address, authority) = (daemon.listen_address().await, authority(&daemon));
    let admin = authority.issue_client("jane", "larder:admins", HOUR, Timestamp::now()).unwrap();
    let peer = Peer::new(&authority, Some(&admin));
    // It counts as an admin's from its handshake on, and so makes no room for the others. The client ends the handshake first: an
    // answer shows that the daemon has too.
    let mut open = peer.connect(&address).await.unwrap();
    open.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut head = [0; 12];
    open.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    let mut hanging = Vec::new();
    for _ in 0..4 {
        hanging.push(TcpStream::connect(&address).await.unwrap());
        assert_eq!(peer.get(&address, "/livez").await.code, 200);
    }
    let end = tokio::time::timeout(LIMIT, hanging[0].read(&mut [0])).await.expect("it is closed");
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    open.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    open.read_to_string(&mut answer).await.unwrap();
    // After the rest of the first answer.
    assert!(answer.contains("HTTP/1.1 200"), "{answer}");

    // A connection that is closed before all is read ends with a reset, which may overtake the answer.
    let answer = until("a client without TLS is told", async || {
        let mut plain = TcpStream::connect(&address).await.unwrap();
        let mut answer = String::new();
        plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.ok()?;
        let read = tokio::time::timeout(LIMIT, plain.read_to_string(&mut answer)).await.expect("it is closed");
        read.ok().map(|_| answer)
    })
    .await;
    assert!(answer.contains("Client sent an HTTP request to an HTTPS server"), "{answer}");
}

#[tokio::test]
async fn a_watch_over_tls_shows_each_change_and_ends_with_the_daemon() {
    let pod = POD.replace("image: i", "image: i, envFrom: [{configMapRef: {name: c}}]");
    let config_map =
        |value: &str| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c}}, data: {{a: '{value}'}}}}");
    for over in [&b"http/1.1"[..], b"h2"] {
        let mut daemon = listening("", &[]).await;
        let (address, authority) = (daemon.listen_address().await, authority(&daemon));
        let admin = authority.issue_client("jane", "larder:admins", HOUR, Timestamp::now()).unwrap();
        daemon.write("pod.yaml", &pod);
        let stream = Peer { over, ..Peer::new(&authority, Some(&admin)) }.connect(&address).await.unwrap();
        let is_http2 = over == b"h2";
        let mut watch = Watch::on(stream, is_http2, request_to(is_http2, "GET", "/api/v1/configmaps?watch=1")).await;
        assert_eq!(watch.code, 200);
        for (kind, value) in [("ADDED", "1"), ("MODIFIED", "2"), ("MODIFIED", "3")] {
            daemon.write("c.yaml", &config_map(value));
            let event = watch.next().await.expect("an event");
            assert_eq!((&event["type"], &event["object"]["data"]["a"]), (&kind.into(), &value.into()), "{event}");
        }
        daemon.signal(rustix::process::Signal::TERM);
        assert!(watch.next_or_error().await.is_none(), "it ends in good order");
        assert!(daemon.ended().await.success());
    }
}

#[tokio::test]
async fn a_full_listener_closes_an_idle_connection_and_turns_away_who_finds_none() {
    let daemon = listening("limits: {listenConnections: 2, headTimeout: 1h}", &[]).await;
    let (address, authority) = (daemon.listen_address().await, authority(&daemon));
    let admin = authority.issue_client("jane", "larder:admins", HOUR, Timestamp::now()).unwrap();
    let peer = Peer::new(&authority, Some(&admin));
    let watch = async || {
        let stream = peer.connect(&address).await.unwrap();
        let mut watch = Watch::on(stream, false, request_to(false, "GET", "/api/v1/pods?watch=1")).await;
        assert_eq!(watch.next().await.expect("an event")["type"], "ADDED");
        watch
    };
    let first = watch().await;
    let idle = peer.connect(&address).await.unwrap();
    let second = watch().await;
    closed(idle).await;

    let answer = peer.get(&address, "/api/v1/pods").await;
    let status = answer.json();
    assert_eq!((answer.code, &status["reason"]), (503, &"ServiceUnavailable".into()), "{answer:?}");
    assert_eq!((answer.header("retry-after"), answer.header("connection")), ("1", "close"));
    let stranger = Peer::new(&authority, None);
    assert_eq!(stranger.get(&address, "/livez").await.code, 200, "strangers have connections of their own");
    let metrics = daemon.get("/metrics").await.text;
    for (name, count) in [("evicted", 1), ("turned_away", 1)] {
        let line = format!("larder_http_connections_{name}_total{{listener=\"listen\"}} {count}\n");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    drop(first);
    until("there is room again", async || (peer.get(&address, "/livez").await.code == 200).then_some(())).await;
    drop(second);
}

#[tokio::test]
async fn a_handshake_has_a_deadline_and_the_end_of_the_daemon_closes_all_connections() {
    let mut daemon = listening("limits: {handshakeTimeout: 50ms}", &[]).await;
    let (address, authority) = (daemon.listen_address().await, authority(&daemon));
    let mut silent = TcpStream::connect(&address).await.unwrap();
    let end = tokio::time::timeout(LIMIT, silent.read(&mut [0])).await.expect("it is closed");
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    let admin = authority.issue_client("jane", "larder:admins", HOUR, Timestamp::now()).unwrap();
    let open = Peer::new(&authority, Some(&admin)).connect(&address).await.unwrap();
    daemon.signal(rustix::process::Signal::TERM);
    closed(open).await;
    assert!(daemon.ended().await.success());
    assert!(TcpStream::connect(&address).now_or_never().is_none_or(|connected| connected.is_err()));
}
