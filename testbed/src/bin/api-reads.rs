//! The part of `cargo xtask footprint` that needs a real API server: how many reads a second larder answers, and how soon, beside
//! the API server.
//!
//! Both are asked for the same objects by the same client, over the same number of HTTP/1.1 connections. Each connection asks for
//! the next answer when it has the last one. larder is asked at its Unix socket and over TLS. The client shares the machine with
//! whom it asks, so all rates are below what the servers could do for clients on other machines.

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use clap::Parser;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::PostParams;
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Config};
use larder_testbed::beside::Beside;
use larder_testbed::poll::until;
use larder_testbed::statistics::percentile;
use larder_testbed::{Options, Testbed, image};
use rustls::pki_types::ServerName;
use secrecy::ExposeSecret as _;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

/// How long it may take until everybody has what is asked for.
const LIMIT: Duration = Duration::from_mins(1);
/// How long a connection or an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The bytes of the Secret's value: 9 KB in base64, with what is around it.
const SECRET_BYTES: usize = 6_600;
const PODS: usize = 30;
/// Each server is asked in so many turns, so that what changes on the machine meets all of them.
const TURNS: u32 = 3;

#[derive(Parser)]
#[command(name = "cargo xtask footprint", bin_name = "cargo xtask footprint")]
struct Arguments {
    /// Fail where larder answers fewer reads a second than the API server, or later.
    #[arg(long)]
    check: bool,
    /// For how long each server is asked for each thing.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// How many connections ask at once.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    connections: u32,
    /// The larder under test.
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let testbed = Testbed::start(Options::default()).await?;
    let (address, keys) = (format!("127.0.0.1:{}", testbed.spare_port()), testbed.folder().join("keys"));
    let listen = ["--listen", &address, "--tls-directory", &keys.display().to_string()].map(str::to_owned);
    let beside = Beside::start_with(&testbed, &arguments.larder, &listen).await?;
    make(&testbed).await?;

    let kubeconfig = testbed.folder().join("larder.kubeconfig");
    let mut write = tokio::process::Command::new(&arguments.larder);
    write.args(["kubeconfig", "--socket"]).arg(beside.socket()).arg("--output").arg(&kubeconfig);
    let written = write.output().await.context("start larder")?;
    ensure!(written.status.success(), "larder kubeconfig: {}", String::from_utf8_lossy(&written.stderr));
    let servers = [
        ("larder, Unix socket", Server::Unix(beside.socket().to_owned())),
        ("larder, TLS", Server::of_kubeconfig(&kubeconfig).await?),
        ("API server, TLS", Server::of_kubeconfig(testbed.admin_kubeconfig()).await?),
    ];
    let paths = [
        ("a Secret of 9 KB", "/api/v1/namespaces/default/secrets/tls".to_owned()),
        ("30 pods", format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}", testbed.node_name())),
    ];
    println!(
        "reads over {} connections, for {} s each\n| | | reads a second | p50 | p99 | KB of an answer |\n| --- | --- | --- | --- | --- | --- |",
        arguments.connections, arguments.seconds
    );
    let mut met = true;
    for (what, path) in &paths {
        for (whose, server) in &servers {
            let look = async || server.connect().await?.get(path).await.map(drop);
            until(&format!("{whose} answers"), LIMIT, look).await?;
        }
        let mut measured = [const { Measured::NONE }; 3];
        for _ in 0..TURNS {
            for ((_, server), measured) in servers.iter().zip(&mut measured) {
                let lasts = Duration::from_secs(arguments.seconds) / TURNS;
                measured.add(server.measure(path, arguments.connections, lasts).await?);
            }
        }
        for ((whose, _), measured) in servers.iter().zip(&mut measured) {
            measured.print(what, whose);
        }
        let [_, of_larder, of_server] = &measured;
        met &= of_larder.per_second() >= of_server.per_second() && of_larder.percentile(99) <= of_server.percentile(99);
    }
    beside.stop()?;
    drop(testbed);
    Ok(if met || !arguments.check { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes the pods, all of which refer to the Secret. Nothing runs them.
async fn make(testbed: &Testbed) -> Result<()> {
    let client = testbed.client().await?;
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "tls"},
        "stringData": {"key": "k".repeat(SECRET_BYTES)},
    }))?;
    Api::default_namespaced(client.clone())
        .create(&PostParams::default(), &secret)
        .await
        .context("create the Secret")?;
    let pods: Api<Pod> = Api::default_namespaced(client);
    for number in 0..PODS {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": format!("web-{number}"), "labels": {"app": "web"}},
            "spec": {
                "nodeName": testbed.node_name(),
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": "main",
                    "image": image::BUSYBOX,
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                    "volumeMounts": [{"name": "tls", "mountPath": "/etc/tls"}],
                }],
                "volumes": [{"name": "tls", "secret": {"secretName": "tls"}}],
            },
        }))?;
        pods.create(&PostParams::default(), &pod).await.with_context(|| format!("create pod {number}"))?;
    }
    Ok(())
}

/// Who is asked.
enum Server {
    Unix(PathBuf),
    Tls { address: String, name: ServerName<'static>, tls: TlsConnector, token: Option<String> },
}

impl Server {
    async fn of_kubeconfig(path: &Path) -> Result<Self> {
        let config =
            Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default()).await?;
        let host = config.cluster_url.host().context("a server without a host")?.to_owned();
        let port = config.cluster_url.port_u16().unwrap_or(443);
        let mut tls = config.rustls_client_config()?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = ServerName::try_from(config.tls_server_name.unwrap_or_else(|| host.clone()))?;
        let token = config.auth_info.token.as_ref().map(|token| format!("Bearer {}", token.expose_secret()));
        Ok(Self::Tls { address: format!("{host}:{port}"), name, tls: TlsConnector::from(Arc::new(tls)), token })
    }

    async fn connect(&self) -> Result<Connection> {
        let connect = async {
            match self {
                Self::Unix(socket) => Connection::over(UnixStream::connect(socket).await?, None).await,
                Self::Tls { address, name, tls, token } => {
                    let stream = TcpStream::connect(address).await?;
                    stream.set_nodelay(true)?;
                    Connection::over(tls.connect(name.clone(), stream).await?, token.clone()).await
                }
            }
        };
        timeout(ANSWER_LIMIT, connect).await.context("no connection")?
    }

    /// Has so many connections ask again and again, for so long.
    async fn measure(&self, path: &str, connections: u32, lasts: Duration) -> Result<Measured> {
        let mut open = Vec::new();
        for _ in 0..connections {
            open.push(self.connect().await?);
        }
        let (mut readers, begun) = (JoinSet::new(), Instant::now());
        for mut connection in open {
            let path = path.to_owned();
            readers.spawn(async move {
                let (mut took, mut bytes) = (Vec::new(), 0);
                while begun.elapsed() < lasts {
                    let asked = Instant::now();
                    bytes = connection.get(&path).await?;
                    took.push(asked.elapsed());
                }
                anyhow::Ok((took, bytes))
            });
        }
        let mut measured = Measured::NONE;
        while let Some(reader) = readers.join_next().await {
            let (took, bytes) = reader.context("a reader broke off")??;
            measured.took.extend(took);
            measured.bytes = bytes;
        }
        measured.lasted = begun.elapsed();
        Ok(measured)
    }
}

struct Connection {
    requests: SendRequest<Empty<Bytes>>,
    /// The header `Authorization`, where the client has no certificate.
    authorization: Option<String>,
    _driver: JoinSet<()>,
}

impl Connection {
    async fn over(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        authorization: Option<String>,
    ) -> Result<Self> {
        let (requests, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut driver = JoinSet::new();
        driver.spawn(async move { drop(connection.await) });
        Ok(Self { requests, authorization, _driver: driver })
    }

    /// The bytes of an answer.
    async fn get(&mut self, path: &str) -> Result<usize> {
        let mut request = Request::get(path).header("host", "localhost").header("accept", "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let request = request.body(Empty::new())?;
        let answer = async {
            self.requests.ready().await?;
            let answer = self.requests.send_request(request).await?;
            let status = answer.status();
            let body = answer.into_body().collect().await?.to_bytes();
            ensure!(status == 200, "{path}: {status}: {}", String::from_utf8_lossy(&body));
            Ok(body.len())
        };
        timeout(ANSWER_LIMIT, answer).await.with_context(|| format!("{path}: no answer"))?
    }
}

/// How long each read took.
struct Measured {
    took: Vec<Duration>,
    lasted: Duration,
    bytes: usize,
}

impl Measured {
    const NONE: Self = Self { took: Vec::new(), lasted: Duration::ZERO, bytes: 0 };

    fn add(&mut self, other: Self) {
        self.took.extend(other.took);
        self.took.sort_unstable();
        self.lasted += other.lasted;
        self.bytes = other.bytes;
    }

    fn percentile(&self, percent: usize) -> Duration {
        percentile(&self.took, percent)
    }

    fn per_second(&self) -> u128 {
        u128::try_from(self.took.len()).unwrap_or(u128::MAX) * 1_000 / self.lasted.as_millis().max(1)
    }

    fn print(&self, what: &str, whose: &str) {
        let [p50, p99] = [50, 99].map(|percent| self.percentile(percent).as_secs_f64() * 1_000.0);
        println!("| {what} | {whose} | {} | {p50:.2} ms | {p99:.2} ms | {} |", self.per_second(), self.bytes / 1_000);
    }
}
