//! A port on loopback that leads to a daemon's socket, for clients that cannot dial a socket.

use std::net::SocketAddr;
use std::path::Path;
use tokio::net::{TcpListener, UnixStream};
use tokio::task::JoinSet;

/// Forwards connections until it is dropped.
pub(crate) struct Forward {
    pub(crate) address: SocketAddr,
    _task: JoinSet<()>,
}

impl Forward {
    pub(crate) async fn to(socket: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let socket = socket.to_owned();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let socket = socket.clone();
                connections.spawn(async move {
                    // A daemon that is down refuses, and the client sees its connection end.
                    if let Ok(mut daemon) = UnixStream::connect(&socket).await {
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut daemon).await;
                    }
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, _task: task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}
