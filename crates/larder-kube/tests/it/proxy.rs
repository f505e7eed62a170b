//! The simulated API server behind proxies: a server of a name that only its proxy leads to.

use crate::pool::{read, watch};
use crate::server::{start, until};
use larder_kube::{KubeClient, KubeError, KubeOptions, ProxyEnvironment};
use larder_testkit::api_server::{ApiServer, User};
use larder_testkit::objects::{node, secret};
use larder_testkit::proxy::{Asked, Behaviour, Proxy, Speaks};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// The server's name in its certificate, which is nowhere else.
const SERVER: &str = "https://kubernetes.default.svc:6443";

/// A user and a password that a proxy wants, as they stand in its URL.
const USER: &str = "edge:pa%40ss@";

fn demand() -> Behaviour {
    Behaviour::Demand("edge".to_owned(), "pa@ss".to_owned())
}

/// A server with a Secret, and a kubeconfig for it.
struct Behind {
    server: ApiServer,
    folder: TempDir,
}

impl Behind {
    async fn new() -> Self {
        Self::with(start().await)
    }

    fn with(server: ApiServer) -> Self {
        server.store().create(secret("shop", "tls", &[])).unwrap();
        Self { server, folder: TempDir::new().unwrap() }
    }

    /// A kubeconfig that names the server so, with this proxy.
    fn kubeconfig(&self, address: &str, proxy: Option<&str>) -> PathBuf {
        self.kubeconfig_for(address, proxy, &json!({"token": self.server.admin_token()}))
    }

    fn kubeconfig_for(&self, address: &str, proxy: Option<&str>, user: &Value) -> PathBuf {
        let path = self.folder.path().join("kubeconfig");
        let mut config: Value = serde_json::from_str(&self.server.kubeconfig("")).unwrap();
        config["clusters"][0]["cluster"]["server"] = json!(address);
        config["clusters"][0]["cluster"]["proxy-url"] = json!(proxy);
        config["users"][0]["user"] = user.clone();
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// A client that is led by a proxy that the kubeconfig names.
    async fn led_by(&self, proxy: &str, options: KubeOptions) -> KubeClient {
        connect(&self.kubeconfig(SERVER, Some(proxy)), options).await.unwrap()
    }
}

async fn connect(path: &PathBuf, options: KubeOptions) -> Result<KubeClient, KubeError> {
    KubeClient::from_kubeconfig(path, None, options).await
}

/// Options with an environment that has these variables.
fn environment(vars: &[(&str, &str)]) -> KubeOptions {
    let value = |name: &str| vars.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned());
    let mut options = KubeOptions::default();
    options.proxies = ProxyEnvironment::from_vars(value);
    options
}

fn asked(server: &str, shown: Option<&str>) -> Asked {
    Asked { server: server.to_owned(), shown: shown.map(str::to_owned) }
}

/// What a read fails with. No error, and no `Debug` of one, has the proxy's password.
async fn failure(client: &KubeClient) -> KubeError {
    let error = read(client, "tls").await.unwrap_err();
    let text = format!("{error} {error:?} {client:?}");
    assert!(!text.contains("pa%40ss") && !text.contains("pa@ss") && !text.contains("edge"), "{text}");
    assert!(error.is_unreached(), "{error:?}");
    error
}

#[tokio::test]
async fn each_kind_of_proxy_gets_the_credentials_of_its_url() {
    let behind = Behind::new().await;
    // base64 of "edge:pa@ss".
    let basic = "Basic ZWRnZTpwYUBzcw==";
    for (speaks, shown) in [(Speaks::Http, basic), (Speaks::Https, basic), (Speaks::Socks5, "edge:pa@ss")] {
        let proxy = Proxy::start(&behind.server, speaks).await.unwrap();
        let client = behind.led_by(&proxy.url(), KubeOptions::default()).await;
        read(&client, "tls").await.unwrap();
        proxy.set(demand());
        let client = behind.led_by(&proxy.url_for(USER), KubeOptions::default()).await;
        read(&client, "tls").await.unwrap();
        let server = "kubernetes.default.svc:6443";
        assert_eq!(proxy.asked(), [asked(server, None), asked(server, Some(shown))], "{speaks:?}");
        assert_eq!(*client.server(), format!("{SERVER} through the proxy {}", proxy.url()));
    }
    assert!(behind.server.requests().iter().all(|request| request.http2));
}

#[tokio::test]
async fn every_connection_of_the_pool_is_a_tunnel_and_a_tunnel_that_stalls_is_replaced() {
    let behind = Behind::new().await;
    let proxy = Proxy::start(&behind.server, Speaks::Http).await.unwrap();
    let mut options = KubeOptions::default();
    options.dead_link_timeout = Duration::from_secs(3);
    options.ping_interval = Duration::from_millis(500);
    options.backoff_initial = Duration::from_millis(100);
    let client = behind.led_by(&proxy.url(), options).await;
    let watches: Vec<_> = (0..100).map(|index| watch(&client, &format!("n{index}"))).collect();
    until(|| watches.iter().all(|watched| watched.reader.status().watches == 1)).await;
    assert_eq!((client.stats().connections_open, proxy.open(), proxy.asked().len()), (2, 2, 2));
    behind.server.store().create(node("n7")).unwrap();
    until(|| watches[7].reader.node().is_some()).await;

    proxy.stall(true);
    for index in 10..100 {
        behind.server.store().create(node(&format!("n{index}"))).unwrap();
    }
    until(|| watches[10..].iter().all(|watched| watched.reader.node().is_some())).await;
    assert_eq!((client.stats().pings_lost, client.stats().connections_open), (2, 2));
    proxy.stall(false);
    drop((watches, client));
    until(|| proxy.open() == 0).await;
}

#[tokio::test]
async fn a_proxy_error_names_the_proxy_and_the_server() {
    let behind = Behind::new().await;
    let (http, socks) = (Speaks::Http, Speaks::Socks5);
    for (speaks, user, behaviour, why) in [
        (http, "", demand(), "the proxy wants a user and a password (407): give them in its URL, as in"),
        (http, "edge:wrong@", demand(), "the proxy does not accept the user and password of its URL by basic"),
        (Speaks::Https, "", demand(), "the proxy wants a user and a password (407)"),
        (
            http,
            USER,
            Behaviour::Refuse(403),
            "the proxy answered 403 Forbidden to CONNECT kubernetes.default.svc:6443; it must be told to allow that",
        ),
        (http, "", Behaviour::Refuse(502), "502 Bad Gateway to CONNECT kubernetes.default.svc:6443; can it reach"),
        (http, "", Behaviour::Refuse(400), "the proxy answered 400 Bad Request to CONNECT"),
        (http, USER, Behaviour::Close, "CONNECT through the proxy failed: connection closed before message completed"),
        (
            socks,
            "",
            demand(),
            "the proxy, which was shown no user and password, does not lead there: SOCKS error: server does not",
        ),
        (socks, "edge:wrong@", demand(), "the proxy does not lead there: SOCKS error: credentials not accepted"),
        (socks, USER, Behaviour::Refuse(4), "the proxy does not lead there: SOCKS error: host unreachable"),
        (socks, USER, Behaviour::Close, "the proxy does not lead there: SOCKS error: io error"),
    ] {
        let proxy = Proxy::start(&behind.server, speaks).await.unwrap();
        proxy.set(behaviour.clone());
        let client = behind.led_by(&proxy.url_for(user), KubeOptions::default()).await;
        let told = failure(&client).await.to_string();
        let there =
            format!("secret shop/tls: cannot reach the API server at {SERVER} through the proxy {}: ", proxy.url());
        assert!(told.starts_with(&there) && told.contains(why), "{speaks:?} {behaviour:?}: {told}");
        // It may change its mind.
        proxy.set(Behaviour::Lead);
        until_read(&client).await;
    }
}

/// A proxy that leads to a server, or only answers, in these words.
async fn proxy_in_words(answer: &'static str, server: SocketAddr) -> (String, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serve = async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            asked.push(client.read_u8().await.unwrap());
        }
        client.write_all(answer.as_bytes()).await.unwrap();
        let mut server = TcpStream::connect(server).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    };
    (url, AbortOnDropHandle::new(tokio::spawn(serve)))
}

#[tokio::test]
async fn unusual_proxy_responses_are_understood() {
    let behind = Behind::new().await;
    for answer in [
        "HTTP/1.0 200 Connection established\r\n\r\n",
        "HTTP/1.1 200 OK\r\nProxy-Agent: proxy\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\r\n\r\n",
    ] {
        let (url, _serving) = proxy_in_words(answer, behind.server.address()).await;
        let client = behind.led_by(&url, KubeOptions::default()).await;
        assert!(read(&client, "tls").await.is_ok(), "{answer}");
    }
    for (answer, why) in [
        // A body that does not come is not waited for.
        ("HTTP/1.0 403 Forbidden\r\nContent-Length: 1000\r\n\r\n<html>", "the proxy answered 403 Forbidden"),
        ("HTTP/1.1 302 Found\r\nLocation: http://login/\r\n\r\n", "the proxy answered 302 Found to CONNECT"),
        ("SSH-2.0-OpenSSH\r\n", "CONNECT through the proxy failed: invalid HTTP"),
    ] {
        let (url, _serving) = proxy_in_words(answer, behind.server.address()).await;
        let told = failure(&behind.led_by(&url, KubeOptions::default()).await).await.to_string();
        assert!(told.contains(why), "{answer}: {told}");
    }
}

/// Waits until a read succeeds: after a failure the next attempt may have to wait for the pause to pass.
async fn until_read(client: &KubeClient) {
    let read = async || read(client, "tls").await.ok();
    larder_testkit::poll_until(Duration::from_mins(1), read).await.expect("it is read again");
}

#[tokio::test]
async fn errors_tell_a_proxy_from_the_server() {
    let behind = Behind::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    for scheme in ["http", "https", "socks5"] {
        let client = behind.led_by(&format!("{scheme}://{USER}{nobody}"), KubeOptions::default()).await;
        let told = failure(&client).await.to_string();
        assert!(
            told.contains(&format!(" through the proxy {scheme}://{nobody}: the proxy cannot be reached: ")),
            "{told}"
        );
        assert!(told.contains("Connection refused"), "{told}");
    }
    let stranger = start().await;
    let proxy = Proxy::start(&stranger, Speaks::Https).await.unwrap();
    let told = failure(&behind.led_by(&proxy.url_for(USER), KubeOptions::default()).await).await.to_string();
    assert!(told.contains("the proxy cannot be reached: ") && told.contains("certificate"), "{told}");
    assert!(proxy.asked().is_empty(), "the password is shown to nobody else");
}

#[tokio::test]
async fn the_server_behind_a_proxy_must_be_the_right_one() {
    let behind = Behind::new().await;
    let stranger = start().await;
    let proxy = Proxy::start(&stranger, Speaks::Http).await.unwrap();
    let told = failure(&behind.led_by(&proxy.url(), KubeOptions::default()).await).await.to_string();
    assert!(told.contains("certificate") && !told.contains("the proxy cannot"), "{told}");
    assert!(stranger.requests().is_empty(), "the token is shown to no one else");
}

#[tokio::test]
async fn a_silent_proxy_times_out() {
    let behind = Behind::new().await;
    let short = Duration::from_millis(250);
    for speaks in [Speaks::Http, Speaks::Https, Speaks::Socks5] {
        let proxy = Proxy::start(&behind.server, speaks).await.unwrap();
        proxy.set(Behaviour::Hang);
        let there = format!("through the proxy {}", proxy.url());
        let mut options = KubeOptions::default();
        options.fetch_deadline = short;
        let error = failure(&behind.led_by(&proxy.url_for(USER), options).await).await;
        assert!(error.is_timeout() && error.to_string().contains(&there), "{error}");
        let mut options = KubeOptions::default();
        options.connect_timeout = short;
        let error = failure(&behind.led_by(&proxy.url_for(USER), options).await).await;
        let told = error.to_string();
        assert!(!error.is_timeout() && told.contains(&there) && told.ends_with("within 250ms"), "{told}");
        until(|| proxy.open() == 0).await;
    }
}

#[tokio::test]
async fn the_environment_names_the_proxy_where_the_kubeconfig_names_none() {
    let behind = Behind::new().await;
    let proxy = Proxy::start(&behind.server, Speaks::Http).await.unwrap();
    let url = proxy.url_for(USER);
    for named in [None, Some("")] {
        let options = environment(&[("https_proxy", &url), ("NO_PROXY", "10.0.0.0/8,other.svc")]);
        let client = connect(&behind.kubeconfig(SERVER, named), options).await.unwrap();
        read(&client, "tls").await.unwrap();
    }
    assert_eq!(proxy.asked().len(), 2);
    // Without it: by NO_PROXY, and on loopback in any case.
    let options = environment(&[("HTTPS_PROXY", &url), ("NO_PROXY", ".default.svc:6443")]);
    assert_eq!(connect(&behind.kubeconfig(SERVER, None), options).await.unwrap().server().as_ref(), SERVER);
    let options = environment(&[("HTTPS_PROXY", &url)]);
    let client = connect(&behind.kubeconfig(behind.server.url(), None), options).await.unwrap();
    read(&client, "tls").await.unwrap();
    assert_eq!((client.server().as_ref(), proxy.asked().len()), (behind.server.url(), 2));
}

#[tokio::test]
async fn a_server_without_tls_uses_http_proxy_and_a_tunnel() {
    let behind = Behind::with(ApiServer::start().await.unwrap());
    for speaks in [Speaks::Http, Speaks::Socks5] {
        let proxy = Proxy::start(&behind.server, speaks).await.unwrap();
        let url = proxy.url();
        let options = environment(&[("HTTP_PROXY", &url), ("HTTPS_PROXY", "http://other")]);
        let client = connect(&behind.kubeconfig("http://api.example", None), options).await.unwrap();
        read(&client, "tls").await.unwrap();
        assert_eq!(proxy.asked(), [asked("api.example:80", None)]);
    }
}

#[tokio::test]
async fn the_proxy_of_the_kubeconfig_comes_before_the_environments() {
    let behind = Behind::new().await;
    let proxy = Proxy::start(&behind.server, Speaks::Http).await.unwrap();
    let options = environment(&[("HTTPS_PROXY", "not a proxy"), ("NO_PROXY", "*")]);
    // Its own rules do not hold for it: a server on loopback is reached through it, too.
    for address in [SERVER, behind.server.url()] {
        let client = connect(&behind.kubeconfig(address, Some(&proxy.url())), options.clone()).await.unwrap();
        read(&client, "tls").await.unwrap();
    }
    assert_eq!(proxy.asked().len(), 2);
}

#[tokio::test]
async fn an_invalid_proxy_is_refused_at_the_start() {
    let behind = Behind::new().await;
    for url in ["ftp://edge:pass@proxy", "proxy:3128", "http://edge:pass@", "http://edge:pa ss@proxy"] {
        let path = behind.kubeconfig(SERVER, Some(url));
        let told = connect(&path, KubeOptions::default()).await.unwrap_err().to_string();
        let there = format!(
            "kubeconfig {}: the proxy-url of cluster \"simulated\" is not the URL of a proxy, as in",
            path.display()
        );
        assert!(told.starts_with(&there) && !told.contains("edge"), "{told}");
    }
    let options = environment(&[("HTTPS_PROXY", "ftp://edge:pass@proxy")]);
    let told = connect(&behind.kubeconfig(SERVER, None), options).await.unwrap_err().to_string();
    assert!(told.starts_with("environment variable HTTPS_PROXY: it is not the URL of a proxy, as in"), "{told}");
    assert!(!told.contains("edge"), "{told}");
}

#[tokio::test]
async fn another_proxy_takes_effect_with_the_renewed_credentials() {
    let behind = Behind::new().await;
    let (old, new) = (behind.server.add_user(User::admin()), behind.server.add_user(User::admin()));
    let first = Proxy::start(&behind.server, Speaks::Http).await.unwrap();
    let second = Proxy::start(&behind.server, Speaks::Http).await.unwrap();
    let path = behind.kubeconfig_for(SERVER, Some(&first.url()), &json!({"token": old}));
    let client = connect(&path, KubeOptions::default()).await.unwrap();
    read(&client, "tls").await.unwrap();
    behind.server.expire_token(&old);
    behind.kubeconfig_for(SERVER, Some(&second.url()), &json!({"token": new}));
    read(&client, "tls").await.unwrap();
    assert_eq!((first.asked().len(), second.asked().len()), (1, 1));
}

#[tokio::test]
async fn a_credential_plugin_is_told_the_proxy_of_the_kubeconfig_and_no_other() {
    let behind = Behind::new().await;
    let told = behind.folder.path().join("told");
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": behind.server.admin_token()},
    });
    let script = format!("printenv KUBERNETES_EXEC_INFO > {} && echo '{credential}'", told.display());
    let user = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", script],
        "interactiveMode": "Never",
        "provideClusterInfo": true,
    }});
    let proxy = Proxy::start(&behind.server, Speaks::Http).await.unwrap();
    let url = proxy.url();
    for named in [None, Some(url.as_str())] {
        let path = behind.kubeconfig_for(SERVER, named, &user);
        let client = connect(&path, environment(&[("HTTPS_PROXY", &url)])).await.unwrap();
        read(&client, "tls").await.unwrap();
        let told = std::fs::read_to_string(&told).unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        assert!(told["spec"]["cluster"]["server"].is_string(), "{told}");
        let proxy = told["spec"]["cluster"].get("proxyUrl").or(told["spec"]["cluster"].get("proxy-url"));
        assert_eq!(proxy.and_then(Value::as_str), named, "{told}");
    }
}
