//! A stream that tells the connection's [activity](Activity) when the other end takes nothing more, and when it does again.
//!
//! Without it, a client that never reads would hold its connection and its answer for ever.

use crate::activity::Activity;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream whose pending writes are noted.
#[derive(Debug)]
pub(crate) struct StallWatch<S> {
    stream: S,
    activity: Arc<Activity>,
    is_pending: bool,
}

impl<S> StallWatch<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity, is_pending: false }
    }

    /// Passes on what a write came to.
    fn noted<T>(&mut self, outcome: Poll<T>) -> Poll<T> {
        if self.is_pending != outcome.is_pending() {
            self.is_pending = outcome.is_pending();
            if self.is_pending { self.activity.blocked() } else { self.activity.unblocked() }
        }
        outcome
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallWatch<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallWatch<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.noted(outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.noted(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.noted(outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.noted(outcome)
    }
}
