//! A stream whose writes fail once the other end has taken nothing for too long.
//!
//! A client that asks and never reads would otherwise hold its connection, and the answer, for ever.

use crate::admission::Activity;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// A stream with a limit on how long a write may be pending.
#[derive(Debug)]
pub(crate) struct StallGuard<S> {
    stream: S,
    limit: Duration,
    /// Learns of a write that is pending.
    activity: Arc<Activity>,
    /// Runs while a write is pending.
    timer: Pin<Box<Sleep>>,
    pending: bool,
}

impl<S> StallGuard<S> {
    pub(crate) fn new(stream: S, limit: Duration, activity: Arc<Activity>) -> Self {
        Self { stream, limit, activity, timer: Box::pin(sleep_until(Instant::now() + limit)), pending: false }
    }

    /// Passes on what a write came to; a pending one fails once the limit has passed.
    fn watch<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            if self.pending {
                self.pending = false;
                self.activity.moves();
            }
            return outcome;
        }
        if !self.pending {
            self.pending = true;
            self.activity.stalls();
            self.timer.as_mut().reset(Instant::now() + self.limit);
        }
        ready!(self.timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Admission, Admitted};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    const LIMIT: Duration = Duration::from_secs(30);

    fn guard<S>(stream: S) -> StallGuard<S> {
        let Admitted::Free(activity) = Admission::new(1).admit() else { panic!("there is room for one") };
        StallGuard::new(stream, LIMIT, activity)
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_nobody_takes_fails_after_the_limit() {
        let (near, _far) = tokio::io::duplex(4);
        let mut guard = guard(near);
        let begun = Instant::now();
        let error = guard.write_all(b"more than four").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), LIMIT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_that_keeps_reading_is_served() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut guard = guard(near);
        let reader = tokio::spawn(async move {
            let mut got = [0; 12];
            for chunk in got.chunks_mut(4) {
                tokio::time::advance(LIMIT / 2).await;
                far.read_exact(chunk).await.unwrap();
            }
            got
        });
        guard.write_all(b"twelve bytes").await.unwrap();
        assert_eq!(&reader.await.unwrap(), b"twelve bytes");
    }
}
