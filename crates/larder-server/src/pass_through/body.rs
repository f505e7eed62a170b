//! The bodies of requests that are passed on, and of their answers. Neither is buffered.

use super::places::Place;
use axum::body::{Body, Bytes};
use futures_util::FutureExt as _;
use hyper::body::{Frame, SizeHint};
use prometheus_client::metrics::gauge::Gauge;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};
use tower::BoxError;

/// Why the body of a request is not passed on to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    TooLarge,
    Late,
    Cut,
}

/// Says why the body of a request ended early.
pub(super) type Ended = Arc<OnceLock<Problem>>;

/// The body of a request. It ends with an error once it is too long, or once nothing more comes.
pub(super) struct RequestBody {
    body: Body,
    left: u64,
    pause: Duration,
    /// When nothing more may come, while the client is waited for.
    late: Option<Pin<Box<Sleep>>>,
    ended: Ended,
}

impl RequestBody {
    pub(super) fn new(body: Body, most: u64, pause: Duration) -> (Self, Ended) {
        let ended = Ended::default();
        (Self { body, left: most, pause, late: None, ended: Arc::clone(&ended) }, ended)
    }

    fn end(&self, problem: Problem) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        // The first one counts.
        let _ = self.ended.set(problem);
        Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::ConnectionAborted).into())))
    }
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Pending => {
                let pause = this.pause;
                let late = this.late.get_or_insert_with(|| Box::pin(sleep(pause)));
                if late.poll_unpin(context).is_pending() { Poll::Pending } else { this.end(Problem::Late) }
            }
            Poll::Ready(Some(Ok(frame))) => {
                this.late = None;
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                match this.left.checked_sub(length) {
                    Some(left) => {
                        this.left = left;
                        Poll::Ready(Some(Ok(frame)))
                    }
                    None => this.end(Problem::TooLarge),
                }
            }
            Poll::Ready(Some(Err(_))) => this.end(Problem::Cut),
            Poll::Ready(None) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Counts a request, or an upgraded connection, as in flight.
#[derive(Debug)]
pub(super) struct InFlight(Gauge);

impl InFlight {
    pub(super) fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The body of an answer. It holds the place of its request.
pub(super) struct AnswerBody {
    pub(super) body: Body,
    /// How long the API server may pause within the answer; `None` for as long as it likes, as in a watch.
    pub(super) pause: Option<Duration>,
    pub(super) late: Option<Pin<Box<Sleep>>>,
    pub(super) _place: Place,
    pub(super) _in_flight: InFlight,
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let frame = Pin::new(&mut this.body).poll_frame(context);
        let Some(pause) = this.pause.filter(|_| frame.is_pending()) else {
            // The next pause begins with the next wait. The timer is kept.
            if let Some(late) = &mut this.late
                && let Some(pause) = this.pause
            {
                late.as_mut().reset(Instant::now() + pause);
            }
            return frame;
        };
        let late = this.late.get_or_insert_with(|| Box::pin(sleep(pause)));
        if late.poll_unpin(context).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
