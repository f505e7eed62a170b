//! What the cache promises, seen from outside.
//!
//! | module | what it shows |
//! | --- | --- |
//! | `kubelet` | a counterpart of each scenario of the kubelet's own tests |
//! | `beyond` | what larder adds: waits that are dropped, that have a deadline, that outlive the writer, that tell of themselves |
//! | `model` | any sequence of operations against a naive model |
//! | `threads` | readers beside a writer, on real threads |
//! | `races` | what runs at the same time, in every order that shuttle tries: only with `--cfg shuttle` |

#[cfg(not(shuttle))]
mod beyond;
#[cfg(not(shuttle))]
mod kubelet;
#[cfg(not(shuttle))]
mod model;
#[cfg(shuttle)]
mod races;
#[cfg(not(shuttle))]
mod threads;

use larder_clock::Timestamp;
use larder_pod_status::{Entry, Options, PodStatusReader, PodStatusWriter, PodUid, pod_status_cache};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake};

type Status = u32;
type Error = u32;
type Writer = PodStatusWriter<Status, Error>;
type Reader = PodStatusReader<Status, Error>;

fn at(nanos: i128) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn uid(text: &str) -> PodUid {
    PodUid::from(text)
}

fn cache() -> (Writer, Reader) {
    pod_status_cache(Options::default())
}

/// An entry in a form that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Empty,
    Set(Option<Status>, Option<Error>),
}

fn seen(entry: &Entry<Status, Error>) -> Seen {
    if entry.is_empty() {
        assert!(entry.status().is_none() && entry.error().is_none());
        return Seen::Empty;
    }
    Seen::Set(entry.status().map(|status| **status), entry.error().map(|error| **error))
}

/// A waker that counts.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Woken {
    #[cfg(not(shuttle))]
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Polls a future with this as its waker.
    fn poll<F: Future + Unpin>(self: &Arc<Self>, future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(&Arc::clone(self).into()))
    }
}

/// Polls a future whose waker does nothing.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Arc::<Woken>::default().poll(future)
}
