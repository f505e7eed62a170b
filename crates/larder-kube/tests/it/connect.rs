//! Kubeconfigs, TLS and credentials, over real sockets.

use crate::fake::{SECRET, secret};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use larder_kube::{KubeClient, KubeError, KubeOptions};
use larder_objects::{Fetch, ObjectKey, ReadKind};
use larder_resource::ObjectKind;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// A server that knows one token, and remembers those that it was shown.
#[derive(Clone)]
struct Tokens {
    valid: &'static str,
    shown: Arc<Mutex<Vec<String>>>,
}

impl Tokens {
    fn new(valid: &'static str) -> Self {
        Self { valid, shown: Arc::default() }
    }

    fn router(&self) -> Router {
        Router::new().fallback(answer).with_state(self.clone())
    }

    async fn serve(&self) -> (SocketAddr, AbortOnDropHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = self.router();
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (address, AbortOnDropHandle::new(server))
    }
}

async fn answer(State(tokens): State<Tokens>, headers: HeaderMap) -> impl IntoResponse {
    let shown = headers.get("authorization").map_or("", |value| value.to_str().unwrap()).to_owned();
    tokens.shown.lock().push(shown.clone());
    if shown == format!("Bearer {}", tokens.valid) {
        (StatusCode::OK, secret("web", "tls", "7").to_string())
    } else {
        (StatusCode::UNAUTHORIZED, String::new())
    }
}

/// A kubeconfig with these lines for the cluster and for the user.
fn kubeconfig(folder: &TempDir, cluster: &str, user: &str) -> PathBuf {
    let path = folder.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- {{name: c, context: {{cluster: k, user: u}}}}\n\
         clusters:\n- name: k\n  cluster: {{{cluster}}}\nusers:\n- name: u\n  user: {{{user}}}\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

async fn connect(path: &Path) -> Result<KubeClient, KubeError> {
    KubeClient::from_kubeconfig(path, None, KubeOptions::default()).await
}

async fn read(client: &KubeClient) -> Result<String, KubeError> {
    let fetch = client.fetcher(ObjectKind::Secret).fetch(&ObjectKey::new("web", "tls"), ReadKind::Consistent);
    fetch.await.map(|secret| secret.resource_version().to_owned())
}

#[tokio::test]
async fn an_invalid_token_file_is_named_with_the_remedy() {
    let folder = TempDir::new().unwrap();
    let token = folder.path().join("token");
    let path = kubeconfig(&folder, "server: 'http://127.0.0.1:1'", "tokenFile: token");
    for (text, what) in
        [(format!("{SECRET}\n{SECRET}\n"), "more than one line"), (format!("{SECRET}\u{1}t"), "control characters")]
    {
        std::fs::write(&token, text).unwrap();
        let error = connect(&path).await.unwrap_err().to_string();
        let says = format!("token {}: the file has {what}; leave only the token in it", token.display());
        assert!(error.ends_with(&says) && !error.contains(SECRET), "{error}");
    }
}

#[tokio::test]
async fn only_regular_files_are_read() {
    let folder = TempDir::new().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
    let good = "server: 'http://127.0.0.1:1'";
    let says = format!("{}: it is a FIFO; put a regular file in its place", fifo.display());
    let error = connect(&fifo).await.unwrap_err().to_string();
    assert!(error.contains(&says), "{error}");
    for (cluster, user) in [
        (&*format!("{good}, certificate-authority: fifo"), "token: t"),
        (good, "tokenFile: fifo"),
        (good, "client-certificate: fifo, client-key-data: YQ=="),
        (good, "client-certificate-data: YQ==, client-key: fifo"),
    ] {
        let error = connect(&kubeconfig(&folder, cluster, user)).await.unwrap_err().to_string();
        assert!(error.contains(&says), "{cluster} {user}: {error}");
    }
}

#[tokio::test]
async fn every_kubeconfig_error_names_the_file() {
    let folder = TempDir::new().unwrap();
    let good = "server: 'http://127.0.0.1:1'";
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let missing = folder.path().join("missing");
    let error = connect(&missing).await.unwrap_err();
    assert!(matches!(&error, KubeError::KubeconfigUnreadable { .. }), "{error:?}");
    let expected = format!("kubeconfig {}: No such file or directory (os error 2); give a file", missing.display());
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert!(connect(folder.path()).await.unwrap_err().to_string().contains("directory"));

    let bad = file("bad", &format!("apiVersion: v1\nkind: Config\nusers:\n- name: [{SECRET}\n"));
    let error = connect(&bad).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("not valid YAML, at line ") && !text.contains(SECRET), "{text}");
    let bad = file("bad", &format!("apiVersion: v1\nkind: Config\nusers: {SECRET}\n"));
    let text = connect(&bad).await.unwrap_err().to_string();
    assert!(text.contains("at line 3") && !text.contains(SECRET), "{text}");

    let path = kubeconfig(&folder, good, "token: t");
    let error = KubeClient::from_kubeconfig(&path, Some("other"), KubeOptions::default()).await.unwrap_err();
    assert!(error.to_string().ends_with("no context \"other\"; it has c"), "{error}");
    file("empty", "");
    let none = file("none", "apiVersion: v1\nkind: Config\n");
    assert!(connect(&none).await.unwrap_err().to_string().contains("it sets no current-context"));

    let table = [
        (
            "server: 'http://h', certificate-authority: /none/ca",
            "token: t",
            "certificate authority /none/ca: No such file",
        ),
        ("server: 'http://h', certificate-authority-data: '%'", "token: t", "base64"),
        (good, "client-certificate: /none/crt, client-key: /none/key", "client certificate /none/crt: No such file"),
        (good, "client-certificate-data: YQ==, client-key: /none/key", "client key /none/key: No such file"),
        (
            good,
            "client-certificate-data: YQ==",
            "has a client certificate without a key; set client-key or client-key-data",
        ),
        (good, "client-certificate-data: YQ==, client-key-data: YQ==", "is not a certificate in PEM; write one there"),
        (good, "tokenFile: /none/token", "token /none/token: No such file"),
        ("insecure-skip-tls-verify: true", "token: t", "has no server; set the address of the API server"),
        (
            "server: 'https://h', tls-server-name: 'a b'",
            "token: t",
            "\"a b\" cannot be the name in a server's certificate; set tls-server-name to one that can",
        ),
        (
            "server: 'https://h', certificate-authority: empty",
            "token: t",
            "empty is not a certificate in PEM; write one",
        ),
        ("server: 'not a url'", "token: t", "it is not an address such as https://HOST:PORT"),
        (
            good,
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: p, interactiveMode: Always}",
            "must have a terminal (interactiveMode: Always), and a daemon has none; set interactiveMode",
        ),
    ];
    for (cluster, user, says) in table {
        let path = kubeconfig(&folder, cluster, user);
        let error = connect(&path).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("kubeconfig {}: ", path.display())), "{error}");
        assert!(error.contains(says), "{cluster} {user}: {error}");
    }
}

#[tokio::test]
async fn invalid_settings_are_refused_before_a_file_is_read() {
    let mut options = KubeOptions::default();
    options.page_size = 0;
    let error = KubeClient::from_kubeconfig("/none", None, options).await.unwrap_err();
    assert_eq!(error.to_string(), "setting page_size: must be from 1 to 65536");
}

#[tokio::test]
async fn outside_of_a_pod_there_is_no_service_account() {
    let error = KubeClient::in_cluster(KubeOptions::default()).await.unwrap_err().to_string();
    assert!(error.starts_with("service account of this pod: ") && error.contains("--kubeconfig"), "{error}");
}

#[tokio::test]
async fn the_token_of_the_kubeconfig_is_sent() {
    let server = Tokens::new("good");
    let (address, _serving) = server.serve().await;
    let folder = TempDir::new().unwrap();
    let client = connect(&kubeconfig(&folder, &format!("server: 'http://{address}'"), "token: good")).await.unwrap();
    assert_eq!(*client.server(), format!("http://{address}"));
    assert_eq!(read(&client).await.unwrap(), "7");
}

#[tokio::test]
async fn blanks_around_a_token_are_not_sent() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("token");
    for user in [r#"token: " good\n""#.to_owned(), format!("tokenFile: {}", file.display())] {
        let server = Tokens::new("new");
        let (address, _serving) = server.serve().await;
        std::fs::write(&file, "good\n").unwrap();
        let path = kubeconfig(&folder, &format!("server: 'http://{address}'"), &user);
        let client = connect(&path).await.unwrap();
        // Read again after a refusal, blanks and all.
        std::fs::write(&file, "\tnew\r\n").unwrap();
        kubeconfig(&folder, &format!("server: 'http://{address}'"), &user.replace("good", "new"));
        assert_eq!(read(&client).await.unwrap(), "7");
        assert_eq!(*server.shown.lock(), ["Bearer good", "Bearer new"]);
    }
}

/// The names of some headers, each with its values.
type Headers<'a> = &'a [(&'a str, &'a [&'a str])];

/// What client-go sends for the same users.
#[tokio::test]
async fn basic_credentials_and_impersonation_are_sent_as_by_client_go() {
    let anyone = "as: 'jane doe', as-uid: 'u-1', as-groups: [ops, 'a b', ''], \
                  as-user-extra: {scopes: [read, write], 'Example.com/a key%': ['1'], none: []}";
    let impersonated: Headers<'_> = &[
        ("impersonate-user", &["jane doe"]),
        ("impersonate-uid", &["u-1"]),
        ("impersonate-group", &["ops", "a b", ""]),
        ("impersonate-extra-scopes", &["read", "write"]),
        ("impersonate-extra-example.com%2fa%20key%25", &["1"]),
    ];
    let with_token: Headers<'_> = &[("authorization", &["Bearer t"])];
    let table: [(&str, &[Headers<'_>]); 6] = [
        ("username: u, password: 'p:\u{e4}'", &[&[("authorization", &["Basic dTpwOsOk"])]]),
        ("username: u", &[&[("authorization", &["Basic dTo="])]]),
        ("password: p", &[]),
        (anyone, &[impersonated]),
        ("as: '', token: t", &[with_token]),
        ("as: jane, token: t", &[with_token, &[("impersonate-user", &["jane"])]]),
    ];
    for (user, expected) in table {
        let shown: Arc<Mutex<Option<HeaderMap>>> = Arc::default();
        let show = {
            let shown = Arc::clone(&shown);
            move |headers: HeaderMap| async move {
                *shown.lock() = Some(headers);
                secret("web", "tls", "7").to_string()
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(show);
        let _serving =
            AbortOnDropHandle::new(tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }));
        let folder = TempDir::new().unwrap();
        let client = connect(&kubeconfig(&folder, &format!("server: 'http://{address}'"), user)).await.unwrap();
        read(&client).await.unwrap();
        let headers = shown.lock().take().unwrap();
        let sent: BTreeMap<&str, Vec<&str>> = headers
            .keys()
            .map(http::HeaderName::as_str)
            .filter(|name| *name == "authorization" || name.starts_with("impersonate-"))
            .map(|name| (name, headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()))
            .collect();
        let expected: BTreeMap<&str, Vec<&str>> =
            expected.iter().copied().flatten().map(|(name, values)| (*name, values.to_vec())).collect();
        assert_eq!(sent, expected, "{user}");
    }
}

#[tokio::test]
async fn renewed_credentials_take_effect_at_the_first_refusal() {
    let server = Tokens::new("new");
    let (address, _serving) = server.serve().await;
    let folder = TempDir::new().unwrap();
    let cluster = format!("server: 'http://{address}'");
    let client = connect(&kubeconfig(&folder, &cluster, "token: old")).await.unwrap();
    kubeconfig(&folder, &cluster, "token: new");
    assert_eq!(read(&client).await.unwrap(), "7");
    assert_eq!(*server.shown.lock(), ["Bearer old", "Bearer new"]);
}

#[tokio::test]
async fn refused_credentials_are_not_read_again_at_every_request() {
    let server = Tokens::new("new");
    let (address, _serving) = server.serve().await;
    let folder = TempDir::new().unwrap();
    let client = connect(&kubeconfig(&folder, &format!("server: 'http://{address}'"), "token: old")).await.unwrap();
    for _ in 0..5 {
        assert!(read(&client).await.unwrap_err().is_unauthorized());
    }
    assert_eq!(server.shown.lock().len(), 5, "what has not changed is not shown a second time");
    let stats = client.stats();
    assert_eq!((stats.configuration_reads, stats.configuration_changes), (2, 0), "{stats:?}");
    let problem = client.credentials_problem().unwrap();
    assert!(problem.contains("the API server answered 401; has the token or client certificate expired"), "{problem}");
}

#[tokio::test]
async fn an_unreachable_server_is_named_with_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let folder = TempDir::new().unwrap();
    let client = connect(&kubeconfig(&folder, &format!("server: 'http://{address}'"), "token: t")).await.unwrap();
    let error = read(&client).await.unwrap_err();
    assert!(error.is_unavailable());
    let text = error.to_string();
    assert!(text.starts_with(&format!("secret web/tls: cannot reach the API server at http://{address}: ")), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let folder = TempDir::new().unwrap();
    // The handshake hangs, too.
    for scheme in ["http", "https"] {
        let path = kubeconfig(&folder, &format!("server: '{scheme}://{address}'"), "token: t");
        let mut options = KubeOptions::default();
        options.fetch_deadline = Duration::from_millis(50);
        let client = KubeClient::from_kubeconfig(&path, None, options).await.unwrap();
        assert!(read(&client).await.unwrap_err().is_timeout());
    }
}

/// A TLS server for `127.0.0.1`, and the PEM of its own authority.
async fn tls(server: &Tokens) -> (SocketAddr, String, AbortOnDropHandle<()>) {
    let authority = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(authority.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![authority.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = server.router();
    let serving = tokio::spawn(async move {
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        loop {
            let (connection, _) = listener.accept().await.unwrap();
            let Ok(connection) = acceptor.accept(connection).await else { continue };
            let service = hyper_util::service::TowerToHyperService::new(router.clone());
            let io = hyper_util::rt::TokioIo::new(connection);
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(io, service));
        }
    });
    (address, authority.cert.pem(), AbortOnDropHandle::new(serving))
}

#[tokio::test]
async fn a_server_is_trusted_by_the_authority_of_the_kubeconfig_alone() {
    let server = Tokens::new("good");
    let (address, authority, _serving) = tls(&server).await;
    let (_, other, _) = tls(&server).await;
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("ca.crt"), authority).unwrap();
    std::fs::write(folder.path().join("other.crt"), other).unwrap();
    let cluster = |ca: &str| {
        let mut text = format!("server: 'https://{address}'");
        write!(text, ", certificate-authority: {ca}").unwrap();
        text
    };
    // Relative to the kubeconfig.
    let client = connect(&kubeconfig(&folder, &cluster("ca.crt"), "token: good")).await.unwrap();
    assert_eq!(read(&client).await.unwrap(), "7");

    let client = connect(&kubeconfig(&folder, &cluster("other.crt"), "token: good")).await.unwrap();
    let error = read(&client).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("certificate"), "{error}");
    assert_eq!(server.shown.lock().len(), 1, "the token is shown to no one else");
}
