#![doc(test(attr(deny(warnings))))]
//! The pod status cache of the kubelet: the status of each pod as the container runtime last gave it, and waits for a
//! status that is newer than a time.
//!
//! One [`PodStatusWriter`] fills the cache, usually from a PLEG; any number of [`PodStatusReader`]s read it. Both are
//! generic over the status `S` and the error `E` of an inspection. The crate does no I/O, reads no clock, and is bound to no
//! async runtime: times are [`Timestamp`](larder_clock::Timestamp)s that the writer passes in.
//!
//! # Guarantees
//!
//! - *Reads without a lock*: [`get`](PodStatusReader::get) and [`peek`](PodStatusReader::peek) never wait, whatever the
//!   writer does.
//! - *A miss is not an error*: a read of a pod that is not cached returns the [empty](Entry::is_empty) entry. It differs from
//!   an entry that was set without a status. A cached error comes together with its status.
//! - *Newer than*: a wait for a time is answered at once if the pod's modified time, its observed time or the global time is
//!   **after** it, and else by the first of them that is set to it **or later**.
//! - *As of its answer*: an answered wait returns the entry of the moment at which its time came, however late it is polled
//!   and whatever is set or deleted meanwhile.
//! - *No wait is stranded*: each is answered, ends with [`WaitError`] at its deadline or with the writer, or is dropped.
//! - *Cost*: a time that answers no wait costs the same with a million open waits as with none. Otherwise the cost grows with
//!   the number of waits that it answers, not with the number that stay open.
//!
//! # Limits
//!
//! - Nothing expires: the writer [deletes](PodStatusWriter::delete) the pods that are gone. The number of open waits is the
//!   number that the users hold.
//! - Times are not checked: the writer may set an earlier time than before, except with
//!   [`evented_ordering`](Options::evented_ordering).
//! - A status that is replaced or deleted is freed a little later, when no reader can use it any more. So some dozens of
//!   statuses for each thread can be in memory beside the cached ones.
//! - [`peek`](PodStatusReader::peek) delays that for as long as it lasts.
//!
//! # Cancel safety
//!
//! A wait can be dropped at any time, also while it is being answered, and leaves nothing behind.
//!
//! # Locks
//!
//! One, for the global time, the waits, and changes of the pods. It is held only during a change, never over an `.await`, and
//! never while foreign code runs: wakers are cloned, woken and dropped, statuses are dropped, and the callback of
//! [`on_wait`](PodStatusWriter::on_wait) runs without it. If a waker or the drop of a status panics, the other waits are woken
//! first, and then the panic continues in the writer's call.
//!
//! # Example
//!
//! ```
//! use larder_clock::Timestamp;
//! use larder_pod_status::{Options, PodUid, pod_status_cache};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let (writer, reader) = pod_status_cache::<String, std::io::Error>(Options::default());
//! let uid = PodUid::from("2a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8b");
//!
//! // Something has been done to the pod at 10, and what it led to is of interest.
//! let wait = reader.get_newer_than(uid.clone(), Timestamp::from_nanos(10));
//!
//! writer.set(&uid, Some("exited".to_owned().into()), None, Timestamp::from_nanos(12));
//! assert_eq!(wait.await.unwrap().status().map(|status| status.as_str()), Some("exited"));
//! # });
//! ```
//!
//! # Differs from kubelet
//!
//! The cache does what the kubelet's does (`pkg/kubelet/container/cache.go`). In addition, waits can be dropped, have a
//! deadline, end with the writer and notify the writer when they begin, and the times of an entry can be read. A wait of the
//! kubelet blocks a goroutine until it is answered, and each global time visits all waits.

mod cache;
mod entry;
mod error;
mod sync;
mod table;
mod uid;

pub use cache::{NewerThan, Options, PodStatusReader, PodStatusWriter, pod_status_cache};
pub use entry::{Entry, EntryRef, EntryTimes};
pub use error::WaitError;
pub use uid::PodUid;
