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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass_through::options::PassThroughOptions;
    use crate::pass_through::places::{Identity, Places, Use};
    use futures_util::stream;
    use http_body_util::{BodyExt as _, Collected};
    use std::convert::Infallible;

    const PAUSE: Duration = Duration::from_secs(30);
    const ALMOST: Duration = Duration::from_secs(29);

    /// A body that sends these parts, each after a pause, and then says nothing more if it `hangs`.
    fn body<const N: usize>(parts: [(&'static str, Duration); N], hangs: bool) -> Body {
        let parts = stream::unfold(parts.into_iter(), move |mut parts| async move {
            let Some((part, pause)) = parts.next() else {
                return if hangs { std::future::pending().await } else { None };
            };
            tokio::time::sleep(pause).await;
            Some((Ok::<_, Infallible>(Bytes::from_static(part.as_bytes())), parts))
        });
        Body::from_stream(parts)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_passed_on_unless_it_is_too_long_or_stops_coming() {
        let twice = [("one", ALMOST), ("two", ALMOST)];
        for (body, expected) in [
            (body(twice, false), Ok("onetwo")),
            (body([("onetwo", ALMOST)], false), Ok("onetwo")),
            (body([("one", ALMOST), ("three", ALMOST)], false), Err(Problem::TooLarge)),
            (body([("one", PAUSE * 2)], false), Err(Problem::Late)),
            (body(twice, true), Err(Problem::Late)),
        ] {
            let (body, ended) = RequestBody::new(body, 6, PAUSE);
            let collected = body.collect().await.map(Collected::to_bytes);
            let got = collected.map_err(|_| *ended.get().expect("a reason"));
            assert_eq!(got, expected.map(|text| Bytes::from_static(text.as_bytes())));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_breaks_off_once_the_server_pauses_and_one_that_lasts_does_not() {
        let place = || {
            let places = Places::new(&PassThroughOptions::default());
            places.enter(&Identity::Address([127, 0, 0, 1].into()), Use::Request).unwrap()
        };
        let gauge = Gauge::default();
        let collected = async |body: Body, pause: Option<Duration>| {
            let (place, in_flight) = (place(), InFlight::new(gauge.clone()));
            let body = AnswerBody { body, pause, late: None, _place: place, _in_flight: in_flight };
            assert_eq!(gauge.get(), 1);
            body.collect().await.map(Collected::to_bytes)
        };
        let slow = [("one", ALMOST), ("two", ALMOST)];
        assert_eq!(collected(body(slow, false), Some(PAUSE)).await.unwrap(), "onetwo");
        assert!(collected(body(slow, true), Some(PAUSE)).await.is_err());
        assert_eq!(collected(body([("one", PAUSE * 1000)], false), None).await.unwrap(), "one");
        assert_eq!(gauge.get(), 0);
    }
}
