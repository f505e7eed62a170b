//! A forwarder between a client and larder's socket that notes what the two exchange.
//!
//! It serves HTTP/1.1 on a port of the loopback interface and on a Unix socket. It forwards each request and each answer as
//! they come, on a connection to larder for each connection of the client. Where larder does not listen, it closes the client's
//! connection.

use http::{Request, Response, header};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::task::JoinSet;

/// A request and the head of its answer.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Exchange {
    pub(super) path: String,
    pub(super) query: String,
    pub(super) accept: String,
    pub(super) status: u16,
    pub(super) content_type: String,
}

impl Exchange {
    pub(super) fn is_watch(&self) -> bool {
        self.query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1" | "watch=True"))
    }

    pub(super) fn sends_initial_events(&self) -> bool {
        self.is_watch() && self.query.split('&').any(|pair| pair == "sendInitialEvents=true")
    }

    /// Whether the answer has all objects of a kind: a list, or a watch with initial events.
    pub(super) fn is_list_of(&self, kind: &str) -> bool {
        let collection = format!("/api/v1/{}s", kind.to_lowercase());
        self.path == collection && self.status == 200 && (!self.is_watch() || self.sends_initial_events())
    }
}

/// What a client exchanged so far.
#[derive(Clone, Default)]
pub(super) struct Exchanges(Arc<Mutex<Vec<Exchange>>>);

impl Exchanges {
    pub(super) fn push(&self, exchange: Exchange) {
        self.0.lock().expect("the notes").push(exchange);
    }

    pub(super) fn all(&self) -> Vec<Exchange> {
        self.0.lock().expect("the notes").clone()
    }
}

/// A running recorder. Dropping it ends it, and every connection through it.
pub(super) struct Recorder {
    port: u16,
    socket: PathBuf,
    exchanges: Exchanges,
    _tasks: JoinSet<()>,
}

impl Recorder {
    /// Starts one in front of larder's socket. Its own socket gets that name, in the same folder.
    pub(super) async fn start(larder: &Path, name: &str) -> Self {
        let socket = larder.with_file_name(format!("{name}.sock"));
        fs::create_dir_all(larder.parent().expect("a folder")).expect("a folder");
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let unix = UnixListener::bind(&socket).expect("a socket");
        let port = tcp.local_addr().expect("an address").port();
        let exchanges = Exchanges::default();
        let mut tasks = JoinSet::new();
        let (larder, notes) = (larder.to_owned(), exchanges.clone());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (larder, notes) = (larder.clone(), notes.clone());
                tokio::select! {
                    Ok((client, _)) = tcp.accept() => {
                        let _ = client.set_nodelay(true);
                        connections.spawn(forward(client, larder, notes));
                    }
                    Ok((client, _)) = unix.accept() => {
                        connections.spawn(forward(client, larder, notes));
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Self { port, socket, exchanges, _tasks: tasks }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn exchanges(&self) -> &Exchanges {
        &self.exchanges
    }
}

async fn forward(client: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, larder: PathBuf, notes: Exchanges) {
    let Ok(server) = UnixStream::connect(larder).await else { return };
    let Ok((sender, connection)) = handshake::<_, Incoming>(TokioIo::new(server)).await else { return };
    let sender = Arc::new(tokio::sync::Mutex::new(sender));
    let service = service_fn(move |request: Request<Incoming>| {
        let (sender, notes) = (Arc::clone(&sender), notes.clone());
        async move {
            let note = Exchange {
                path: request.uri().path().to_owned(),
                query: request.uri().query().unwrap_or_default().to_owned(),
                accept: text(request.headers(), header::ACCEPT),
                status: 0,
                content_type: String::new(),
            };
            let mut sender = sender.lock().await;
            sender.ready().await?;
            let answer: Response<Incoming> = sender.send_request(request).await?;
            let (status, content_type) = (answer.status().as_u16(), text(answer.headers(), header::CONTENT_TYPE));
            notes.push(Exchange { status, content_type, ..note });
            Ok::<_, hyper::Error>(answer)
        }
    });
    let mut serving = pin!(http1::Builder::new().serve_connection(TokioIo::new(client), service));
    tokio::select! {
        _ = serving.as_mut() => {}
        _ = connection => {
            // The client gets the rest of its answer, and sees that the connection ends.
            serving.as_mut().graceful_shutdown();
            let _ = serving.await;
        }
    }
}

fn text(headers: &http::HeaderMap, name: header::HeaderName) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}
