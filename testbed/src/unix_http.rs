//! HTTP over a Unix socket: what programs ask the daemons that they measure.

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use std::path::Path;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

/// One connection, which is kept open. Each request on it waits for the one before; who makes them sets the deadline.
#[derive(Debug)]
pub struct Connection {
    requests: SendRequest<Empty<Bytes>>,
    /// Ends with it.
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Connects to the daemon that listens there.
    ///
    /// # Errors
    ///
    /// When nobody does.
    pub async fn open(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket).await.with_context(|| format!("connect to {}", socket.display()))?;
        let (requests, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // What goes wrong with it is seen by the request that it goes wrong for.
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { requests, driver })
    }

    /// Whether the daemon has closed it, as one does that has been idle for long.
    pub fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    /// A GET: the status of the answer, and all of its body.
    ///
    /// # Errors
    ///
    /// When the connection ends before the answer does.
    pub async fn get(&mut self, target: &str) -> Result<(StatusCode, Bytes)> {
        let request = Request::get(target).header("host", "localhost").body(Empty::new())?;
        self.requests.ready().await?;
        let answer = self.requests.send_request(request).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }
}

/// A GET on a connection of its own: the code of the answer, and its text.
///
/// # Errors
///
/// When nobody listens, or the answer cannot be read.
pub async fn get(socket: &Path, target: &str) -> Result<(u16, String)> {
    let (status, body) = Connection::open(socket).await?.get(target).await?;
    Ok((status.as_u16(), String::from_utf8(body.into())?))
}
