//! The connection to the runtime, and what a failed call says about it.

use crate::client::is_optional;
use crate::endpoint::Endpoint;
use crate::options::CriOptions;
use hyper_util::rt::TokioIo;
use larder_pleg::{RuntimeCall, RuntimeError};
use std::error::Error;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower::service_fn;

/// The longest text of a runtime that goes into an error, in bytes.
const LONGEST_REASON: usize = 512;

/// How many connections have been made; clones share the count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections(Arc<watch::Sender<u64>>);

impl Connections {
    pub(crate) fn count(&self) -> u64 {
        *self.0.borrow()
    }

    fn add(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    /// Ends with the next connection.
    pub(crate) async fn another(&self) {
        // Fails only when the sender is gone, which this is.
        let _ = self.0.subscribe().changed().await;
    }
}

/// A channel that connects when it is first used, and again whenever the connection is gone. Each connection is counted.
///
/// To be called within a tokio runtime: the channel's worker runs there until the last clone is dropped.
pub(crate) fn channel(endpoint: &Endpoint, options: &CriOptions, connections: &Connections) -> Channel {
    let path: Arc<Path> = endpoint.path().into();
    let connections = connections.clone();
    // The address only fills the `:authority` of requests. A list may be megabytes: with the windows of the default, it
    // would take a round trip for each 64 KiB.
    tonic::transport::Endpoint::from_static("http://localhost")
        .connect_timeout(options.connect_timeout)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(2 << 20)
        .connect_with_connector_lazy(service_fn(move |_| {
            let (path, connections) = (Arc::clone(&path), connections.clone());
            async move {
                let stream = UnixStream::connect(&*path).await?;
                connections.add();
                Ok::<_, io::Error>(TokioIo::new(stream))
            }
        }))
}

/// Turns a failed call into the error that says what to do.
pub(crate) async fn explain(status: Status, call: RuntimeCall, endpoint: &Endpoint) -> RuntimeError {
    let call = Arc::new(call);
    let at = || Arc::from(endpoint.to_string());
    if let Some(error) = cause::<io::Error>(&status) {
        return RuntimeError::Unavailable { call, endpoint: at(), reason: advise(endpoint.path(), error).await.into() };
    }
    let reason = shorten(status.message());
    match status.code() {
        Code::NotFound => RuntimeError::NotFound { call, reason },
        // A service that is not known means something else, as below.
        Code::Unimplemented if is_optional(call.name) && !reason.contains("unknown service") => {
            RuntimeError::Unsupported { call, reason }
        }
        Code::Unimplemented => {
            let reason = format!(
                "{reason}; containerd answers so when its CRI plugin is disabled or has failed to load, or when it is older \
                 than 1.6"
            );
            RuntimeError::NotCri { call, endpoint: at(), reason: reason.into() }
        }
        // Not the runtime's answer but the connection's.
        _ if status.source().is_some() => {
            let reason = chain(&status);
            if is_protocol_error(&reason) {
                let reason = format!("it does not speak gRPC ({reason}); is it the socket of another program?").into();
                RuntimeError::NotCri { call, endpoint: at(), reason }
            } else {
                RuntimeError::Unavailable { call, endpoint: at(), reason: reason.into() }
            }
        }
        Code::Unavailable => RuntimeError::Unavailable { call, endpoint: at(), reason },
        Code::OutOfRange => {
            let reason = format!(
                "{reason}; if the node has that many containers, raise max_message_bytes (cri.maxMessageBytes in the file of \
                 `larder run --config`)"
            );
            RuntimeError::BadResponse { call, reason: reason.into() }
        }
        Code::ResourceExhausted if reason.contains("larger than max") => {
            let reason = format!(
                "{reason}; this is the runtime's own limit: raise it there (containerd: grpc.max_send_message_size), or use a \
                 version with streaming lists (containerd 2.4)"
            );
            RuntimeError::BadResponse { call, reason: reason.into() }
        }
        code => RuntimeError::Failed { call, code: name(code), reason },
    }
}

/// The first error of that type among the sources of a status.
fn cause<E: Error + 'static>(status: &Status) -> Option<&E> {
    let mut source = status.source();
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        source = error.source();
    }
    None
}

/// The innermost of the sources, which says what happened where the outer ones say only that something did.
fn chain(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = status.source();
    while let Some(error) = source {
        text = error.to_string();
        source = error.source();
    }
    shorten(&text).to_string()
}

fn is_protocol_error(reason: &str) -> bool {
    ["frame with invalid size", "http2 error", "protocol error", "PROTOCOL_ERROR", "FRAME_SIZE_ERROR"]
        .iter()
        .any(|sign| reason.contains(sign))
}

pub(crate) async fn advise(path: &Path, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::NotFound => "there is no such socket; is the runtime started?",
        io::ErrorKind::PermissionDenied => "root, or the group that owns the socket, may connect to it",
        io::ErrorKind::ConnectionRefused if !is_socket(path).await => return "it is not a socket".into(),
        io::ErrorKind::ConnectionRefused => "nothing listens on the socket; is the runtime running?",
        _ => return error.to_string(),
    };
    format!("{error}: {advice}")
}

async fn is_socket(path: &Path) -> bool {
    tokio::fs::metadata(path).await.is_ok_and(|metadata| metadata.file_type().is_socket())
}

fn shorten(text: &str) -> Arc<str> {
    let mut end = LONGEST_REASON.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    if end == text.len() { text.into() } else { format!("{}…", &text[..end]).into() }
}

fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "Ok",
        Code::Cancelled => "Cancelled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}
