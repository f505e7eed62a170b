//! Asks the daemon over its Unix socket.

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Full, Limited};
use hyper_util::rt::TokioIo;
use larder_server::{DaemonError, ErrorBody};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;

/// Where the daemon's socket is, where nobody says.
pub(crate) const DEFAULT_SOCKET: &str = "/run/larder/larder.sock";
/// How much longer than the daemon a client waits: the daemon's own deadline has the better message.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long lines may be quiet before the client asks whether the daemon still answers.
const QUIET: Duration = Duration::from_secs(5);
/// The largest answer that is taken: a thousand Secrets of the largest size that the API server allows.
const LARGEST_ANSWER: usize = 1 << 30;

/// How the daemon is reached.
#[derive(Debug, clap::Args)]
pub(crate) struct Connection {
    /// The daemon's Unix socket
    #[arg(long, value_name = "PATH", env = "LARDER_SOCKET", default_value = DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
}

impl Connection {
    pub(crate) fn client(self) -> Client {
        Client { socket: self.socket }
    }
}

/// Why the daemon has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// It answered with an error; worded as kubectl words the API server's.
    #[error("Error from server ({}): {}", reason(body), message(body))]
    Server { body: Box<ErrorBody> },
    /// It has no answer.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
}

fn reason(body: &ErrorBody) -> &str {
    body.status.reason.as_deref().filter(|reason| !reason.is_empty()).unwrap_or("Unknown")
}

/// What the daemon says of its error.
pub(crate) fn message(body: &ErrorBody) -> &str {
    body.status.message.as_deref().unwrap_or_default()
}

/// An answer of the daemon.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    /// The body as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        serde_json::from_slice(&self.body).context("cannot read larder's answer: the daemon may be of another version")
    }

    /// The texts of the warnings that came with it.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let values = self.headers.get_all(header::WARNING).iter().filter_map(|value| value.to_str().ok());
        values.filter_map(warning_text).collect()
    }
}

/// The text of `299 - "text"`.
fn warning_text(value: &str) -> Option<String> {
    let quoted = value.strip_prefix("299 - \"")?.strip_suffix('"')?;
    Some(quoted.replace("\\\"", "\"").replace("\\\\", "\\"))
}

/// A path of the local API with its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    path: String,
    parameters: Vec<(&'static str, String)>,
}

impl Query {
    /// The path of those segments; whatever they hold is escaped.
    pub(crate) fn new(segments: &[&str]) -> Self {
        let path = segments.iter().flat_map(|segment| ["/".to_owned(), escape(segment)]).collect();
        Self { path, parameters: Vec::new() }
    }

    /// Adds a parameter.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.parameters.push((name, value.into()));
        self
    }

    /// Adds a parameter that has a value.
    #[must_use]
    pub(crate) fn with_some(self, name: &'static str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    fn target(&self) -> String {
        let mut target = self.path.clone();
        for (at, (name, value)) in self.parameters.iter().enumerate() {
            target.push(if at == 0 { '?' } else { '&' });
            target.push_str(name);
            target.push('=');
            target.push_str(&escape(value));
        }
        target
    }
}

/// Everything but letters, digits and `-._~` as `%XX`.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            let hex = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0').to_ascii_uppercase();
            out.extend(['%', hex(byte >> 4), hex(byte & 15)]);
        }
    }
    out
}

/// Asks the daemon.
#[derive(Debug)]
pub(crate) struct Client {
    socket: PathBuf,
}

impl Client {
    #[cfg(test)]
    pub(crate) fn new(socket: impl AsRef<Path>) -> Self {
        Self { socket: socket.as_ref().to_owned() }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks, and takes an answer other than an error. `timeout` is what the daemon was told, or will need.
    pub(crate) async fn get(&self, query: &Query, timeout: Duration) -> Result<Reply, Error> {
        self.ask(query, None, timeout).await
    }

    /// The same, with a JSON body.
    pub(crate) async fn post(&self, query: &Query, body: &Value, timeout: Duration) -> Result<Reply, Error> {
        self.ask(query, Some(body), timeout).await
    }

    async fn ask(&self, query: &Query, body: Option<&Value>, timeout: Duration) -> Result<Reply, Error> {
        let (code, reply) = self.within(timeout.saturating_add(PATIENCE), self.exchange(query, body)).await?;
        if code.is_success() {
            return Ok(reply);
        }
        Err(self.refused(code, &reply.body))
    }

    /// Asks for lines, and hands each to `take` as it comes, until `take` says that it is enough or the daemon ends them.
    ///
    /// The daemon has to begin its answer in time. While the lines are quiet, it has to answer other requests in time.
    pub(crate) async fn lines(
        &self,
        query: &Query,
        mut take: impl FnMut(&[u8]) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let stream = self.connect().await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.broken(&error))?;
        let request = Request::get(query.target())
            .header(header::HOST, "larder")
            .header(header::USER_AGENT, concat!("larder/", env!("CARGO_PKG_VERSION")))
            .body(Empty::<Bytes>::new())
            .map_err(|error| self.broken(&error))?;
        let beginning = async {
            let response = sender.send_request(request).await.map_err(|error| self.broken(&error))?;
            let code = response.status();
            let body = response.into_body();
            if !code.is_success() {
                let body = Limited::new(body, LARGEST_ANSWER).collect().await.map_err(|error| self.broken(&error))?;
                return Err(self.refused(code, &body.to_bytes()));
            }
            Ok(body)
        };
        let reading = async {
            let mut body = self.within(PATIENCE, beginning).await?;
            let mut left = Vec::new();
            loop {
                let Ok(frame) = tokio::time::timeout(QUIET, body.frame()).await else {
                    // Any answer is a sign of life.
                    self.within(PATIENCE, self.exchange(&Query::new(&["livez"]), None)).await?;
                    continue;
                };
                let Some(frame) = frame else { return Ok(()) };
                let frame = frame.map_err(|error| self.broken(&error))?;
                left.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
                let Some(end) = left.iter().rposition(|byte| *byte == b'\n') else { continue };
                for line in left[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    if !take(line)? {
                        return Ok(());
                    }
                }
                left.drain(..=end);
            }
        };
        let mut connection = std::pin::pin!(connection);
        let mut reading = std::pin::pin!(reading);
        tokio::select! {
            read = &mut reading => read,
            _ = &mut connection => reading.await,
        }
    }

    /// What the daemon answers, if it does in time.
    async fn within<T>(&self, after: Duration, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let late = |_| Error::from(DaemonError::Late { socket: self.socket.clone(), after });
        tokio::time::timeout(after, answer).await.map_err(late)?
    }

    async fn connect(&self) -> Result<UnixStream, Error> {
        let connected = UnixStream::connect(&self.socket).await;
        connected.map_err(|source| DaemonError::Unreachable { socket: self.socket.clone(), source }.into())
    }

    async fn exchange(&self, query: &Query, body: Option<&Value>) -> Result<(StatusCode, Reply), Error> {
        let stream = self.connect().await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.broken(&error))?;
        let request = Request::builder()
            .method(if body.is_some() { Method::POST } else { Method::GET })
            .uri(query.target())
            .header(header::HOST, "larder")
            .header(header::USER_AGENT, concat!("larder/", env!("CARGO_PKG_VERSION")))
            .header(header::ACCEPT, "application/json");
        let request = match body {
            Some(body) => request.header(header::CONTENT_TYPE, "application/json").body(Full::from(body.to_string())),
            None => request.body(Full::default()),
        };
        let request: Request<Full<Bytes>> = request.map_err(|error| self.broken(&error))?;
        let answer = async {
            let response = sender.send_request(request).await.map_err(|error| self.broken(&error))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, LARGEST_ANSWER).collect().await.map_err(|error| self.broken(&error))?;
            Ok((parts.status, Reply { headers: parts.headers, body: body.to_bytes() }))
        };
        // The connection is polled beside the answer, and dropped with it.
        let mut connection = std::pin::pin!(connection);
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            answer = &mut answer => answer,
            // The daemon may close it once the answer has been sent.
            _ = &mut connection => answer.await,
        }
    }

    /// An answer that is an error; one whose body is no `Status` is not the daemon's.
    fn refused(&self, code: StatusCode, body: &[u8]) -> Error {
        match serde_json::from_slice::<ErrorBody>(body) {
            Ok(body) if body.status.message.is_some() => Error::Server { body: Box::new(body) },
            _ => self.broken(&format!("HTTP {code}")),
        }
    }

    fn broken(&self, problem: &dyn std::fmt::Display) -> Error {
        DaemonError::Broken { socket: self.socket.clone(), problem: problem.to_string() }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_name_holds_is_escaped() {
        let query =
            Query::new(&["api", "v1", "namespaces", "a/../b", "pods", "x y"]).with("labelSelector", "a in (b)&c=d");
        assert_eq!(query.target(), "/api/v1/namespaces/a%2F..%2Fb/pods/x%20y?labelSelector=a%20in%20%28b%29%26c%3Dd");
    }

    #[test]
    fn warnings_are_read_as_they_are_sent() {
        assert_eq!(warning_text(r#"299 - "secret \"a/b\" not known yet""#).unwrap(), r#"secret "a/b" not known yet"#);
        assert_eq!(warning_text("199 - x"), None);
    }

    #[tokio::test]
    async fn a_missing_socket_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let client = Client::new(dir.path().join("l.sock"));
        let error = client.get(&Query::new(&["livez"]), Duration::from_secs(1)).await.unwrap_err().to_string();
        assert!(error.contains("larder run") && error.contains("--socket"), "{error}");
    }

    #[tokio::test]
    async fn a_dead_socket_says_that_the_daemon_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let error = Client::new(&path).get(&Query::new(&["livez"]), Duration::from_secs(1)).await.unwrap_err();
        assert!(error.to_string().contains("the daemon has ended"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_hangs_is_not_waited_for_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let error = Client::new(&path).get(&Query::new(&["livez"]), Duration::from_secs(1)).await.unwrap_err();
        assert!(matches!(error, Error::Daemon(DaemonError::Late { .. })), "{error}");
    }
}
