//! The bodies of requests.

use bytes::Bytes;
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower::BoxError;

/// The body of a request.
pub(crate) enum Body {
    /// Bytes of larder's own.
    Own(Full<Bytes>),
    /// The body of a request that larder passes on. It is not buffered.
    Passed(UnsyncBoxBody<Bytes, BoxError>),
}

impl Body {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self::Own(Full::new(bytes))
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Own(body) => Pin::new(body).poll_frame(cx).map_err(|never: Infallible| match never {}),
            Self::Passed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(body) => body.is_end_stream(),
            Self::Passed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(body) => body.size_hint(),
            Self::Passed(body) => body.size_hint(),
        }
    }
}
