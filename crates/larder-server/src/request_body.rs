//! The body of a request over HTTP/1.1, whose rest is read before the answer is sent.
//!
//! The API mostly ignores bodies, and refuses a write before its body has arrived. hyper closes a connection on which it sends an
//! answer before the body has been read. The client may lose the answer then, or make its next request in vain. So larder reads
//! the rest, as the HTTP server of Go does.
//!
//! # Limits
//!
//! larder reads [`MOST`] bytes within [`LIMIT`], and nothing if the client waits for `100 Continue`. Otherwise the answer says that
//! the connection ends with it. A handler that reads the body has read it when it answers.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The most bytes of a body that are read for nothing.
const MOST: usize = 256 << 10;
/// How long the rest of a body may take.
const LIMIT: Duration = Duration::from_secs(1);

/// The rest of a body, after its handler.
pub(crate) struct Rest {
    body: Arc<Mutex<Option<Incoming>>>,
    /// The client sends the body only when it is asked to.
    waits: bool,
}

/// The body that the handler gets.
struct Shared(Arc<Mutex<Option<Incoming>>>);

/// Splits a body into what the handler reads, and the rest.
pub(crate) fn share(body: Incoming, headers: &HeaderMap) -> (Body, Rest) {
    let body = Arc::new(Mutex::new(Some(body)));
    let rest = Rest { body: Arc::clone(&body), waits: headers.contains_key(header::EXPECT) };
    (Body::new(Shared(body)), rest)
}

impl Rest {
    /// Reads the rest. Returns whether the body has ended, so that the next request can follow.
    pub(crate) async fn read(self) -> bool {
        let Some(mut body) = self.body.lock().take() else { return true };
        if body.is_end_stream() {
            return true;
        }
        if self.waits || body.size_hint().lower() > MOST as u64 {
            return false;
        }
        let read = async {
            let mut left = MOST;
            while let Some(frame) = body.frame().await {
                let length = frame.ok()?.data_ref().map_or(0, Bytes::len);
                left = left.checked_sub(length)?;
            }
            Some(())
        };
        matches!(tokio::time::timeout(LIMIT, read).await, Ok(Some(())))
    }
}

impl hyper::body::Body for Shared {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.0.lock().as_mut() {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().as_ref().map_or(SizeHint::with_exact(0), Incoming::size_hint)
    }
}
