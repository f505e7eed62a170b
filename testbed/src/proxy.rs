//! A TCP proxy between a client and the API server that counts what passes, and stops forwarding when it is told to.
//!
//! TLS passes through it untouched, so what it counts is what the network carries, and what it can do to a connection is what
//! a network can: stall it, without closing it, or cut it.

use anyhow::{Context as _, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How much is read at once.
const BUFFER: usize = 16 * 1024;

/// A running proxy. Dropping it closes its port and every connection through it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    counters: Arc<Counters>,
    orders: watch::Sender<Orders>,
    // Owns the listener's task, which owns those of the connections.
    _tasks: JoinSet<()>,
}

/// What has passed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections that clients have opened.
    pub connections: u64,
    /// How many of them are open now.
    pub open: u64,
    /// How many were open at a time, at most.
    pub most_open: u64,
    /// Bytes from clients to the server, TLS included.
    pub sent: u64,
    /// Bytes from the server to clients, TLS included.
    pub received: u64,
}

#[derive(Debug, Default)]
struct Counters {
    connections: AtomicU64,
    open: AtomicU64,
    most_open: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// What is to be done to connections, each known by its number.
#[derive(Clone, Copy, Debug, Default)]
struct Orders {
    /// Those below it are not forwarded.
    stalled_below: u64,
    /// Those below it are closed.
    cut_below: u64,
    /// New ones are closed at once.
    refuse: bool,
}

impl Proxy {
    /// Starts one on a free port of the loopback interface, in front of a port of it.
    ///
    /// # Errors
    ///
    /// When no port can be had.
    pub async fn start(server_port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("open the proxy's port")?;
        let address = listener.local_addr()?;
        let counters = Arc::new(Counters::default());
        let (orders, received) = watch::channel(Orders::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, server_port, Arc::clone(&counters), received));
        Ok(Self { address, counters, orders, _tasks: tasks })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What has passed so far.
    pub fn traffic(&self) -> Traffic {
        // Each count stands for itself; nobody needs them to be of one moment.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            connections: read(&self.counters.connections),
            open: read(&self.counters.open),
            most_open: read(&self.counters.most_open),
            sent: read(&self.counters.sent),
            received: read(&self.counters.received),
        }
    }

    /// Stops forwarding on the connections that are open now, in both directions, and closes none. New ones are forwarded.
    /// Returns how many there are.
    pub fn stall_open_connections(&self) -> u64 {
        let connections = self.counters.connections.load(Ordering::Relaxed);
        self.orders.send_modify(|orders| orders.stalled_below = connections);
        self.counters.open.load(Ordering::Relaxed)
    }

    /// Closes new connections at once, or forwards them again. Those that are open go on.
    pub fn refuse(&self, refuse: bool) {
        self.orders.send_modify(|orders| orders.refuse = refuse);
    }

    /// Closes the connections that are open now.
    pub fn cut_open_connections(&self) {
        let connections = self.counters.connections.load(Ordering::Relaxed);
        self.orders.send_modify(|orders| orders.cut_below = connections);
    }
}

async fn accept(listener: TcpListener, server_port: u16, counters: Arc<Counters>, orders: watch::Receiver<Orders>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A client that is gone before it is accepted is no connection.
                let Ok((client, _)) = accepted else { continue };
                if orders.borrow().refuse {
                    continue;
                }
                let number = counters.connections.fetch_add(1, Ordering::Relaxed);
                let open = counters.open.fetch_add(1, Ordering::Relaxed) + 1;
                counters.most_open.fetch_max(open, Ordering::Relaxed);
                let (counters, orders) = (Arc::clone(&counters), orders.clone());
                connections.spawn(async move {
                    forward(client, server_port, &counters, orders, number).await;
                    counters.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Forwards until both sides have ended, or it is told to cut.
async fn forward(
    client: TcpStream,
    server_port: u16,
    counters: &Counters,
    orders: watch::Receiver<Orders>,
    number: u64,
) {
    // Where nobody listens the client sees its connection closed.
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server_port)).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut cut = orders.clone();
    let both = async {
        tokio::join!(
            copy(from_client, to_server, &counters.sent, orders.clone(), number),
            copy(from_server, to_client, &counters.received, orders.clone(), number),
        )
    };
    tokio::select! {
        _ = both => {}
        // An error means that the proxy is dropped, and this task with it.
        _ = cut.wait_for(|orders| number < orders.cut_below) => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    counter: &AtomicU64,
    mut orders: watch::Receiver<Orders>,
    number: u64,
) {
    let mut buffer = vec![0; BUFFER];
    // The end of one direction is passed on; the other may go on.
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if orders.wait_for(|orders| number >= orders.stalled_below).await.is_err() {
            return;
        }
        counter.fetch_add(read as u64, Ordering::Relaxed);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::until;
    use std::time::Duration;

    const LIMIT: Duration = Duration::from_secs(30);

    async fn echo() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        port
    }

    async fn round_trip(stream: &mut TcpStream, text: &[u8]) {
        stream.write_all(text).await.unwrap();
        let mut back = vec![0; text.len()];
        tokio::time::timeout(LIMIT, stream.read_exact(&mut back)).await.unwrap().unwrap();
        assert_eq!(back, text);
    }

    #[tokio::test]
    async fn it_counts_what_passes() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut one = TcpStream::connect(proxy.address()).await.unwrap();
        let mut two = TcpStream::connect(proxy.address()).await.unwrap();
        round_trip(&mut one, b"hello").await;
        round_trip(&mut two, b"you").await;
        drop(two);
        until("the second has ended", LIMIT, async || {
            let traffic = proxy.traffic();
            if traffic.open == 1 { Ok(()) } else { Err(format!("{traffic:?}")) }
        })
        .await
        .unwrap();
        assert_eq!(proxy.traffic(), Traffic { connections: 2, open: 1, most_open: 2, sent: 8, received: 8 });
    }

    #[tokio::test]
    async fn a_stalled_connection_stays_open_and_carries_nothing_while_new_ones_do() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut stalled = TcpStream::connect(proxy.address()).await.unwrap();
        round_trip(&mut stalled, b"before").await;
        assert_eq!(proxy.stall_open_connections(), 1);
        stalled.write_all(b"after").await.unwrap();
        let mut new = TcpStream::connect(proxy.address()).await.unwrap();
        round_trip(&mut new, b"new").await;
        assert_eq!((proxy.traffic().open, proxy.traffic().sent), (2, 9), "nothing of the stalled one has passed");

        proxy.cut_open_connections();
        let mut rest = [0; 8];
        let ended = tokio::time::timeout(LIMIT, stalled.read(&mut rest)).await.unwrap();
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    }
}
