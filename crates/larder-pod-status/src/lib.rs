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
//! - *A miss is not an error*: a pod that is not cached gives the [empty](Entry::is_empty) entry, which is another thing than
//!   one that was set without a status. A cached error comes together with its status.
//! - *Newer than*: a wait for a time is answered at once if the pod's modified time, its observed time or the global time is
//!   **after** it, and else by the first of them that is set to it **or later**.
//! - *As of its answer*: an answered wait gives the entry of the moment at which its time came, however late it is polled
//!   and whatever is set or deleted meanwhile.
//! - *No wait is stranded*: each is answered, ends with [`WaitError`] at its deadline or with the writer, or is dropped.
//! - *Cost*: a time that answers no wait costs the same with a million open waits as with none. One that answers some costs
//!   by those, and not by those that go on waiting.
//!
//! # Limits
//!
//! - Nothing expires: the writer [deletes](PodStatusWriter::delete) the pods that are gone, and the waits that are open are
//!   as many as its users hold.
//! - Times are compared and never checked: the writer's are stored as they come, backwards too, but for
//!   [`evented_ordering`](Options::evented_ordering).
//! - What is replaced or deleted is freed a little later, when no reader can be looking at it any more: some dozens of
//!   statuses a thread can be in memory beside those that are cached.
//! - [`peek`](PodStatusReader::peek) delays that for as long as it lasts.
//!
//! # Cancel safety
//!
//! A wait can be dropped at any time, also while it is being answered, and leaves nothing behind.
//!
//! # Locks
//!
//! One, for the global time, the waits, and whoever changes the pods. It is held for no longer than a change takes, never
//! over an `.await`, and never while code of others runs: wakers are cloned, woken and dropped, statuses are dropped, and
//! the call that [`on_wait`](PodStatusWriter::on_wait) was given is made without it. If a waker or the drop of a status panics,
//! the other waits are woken first; then the panic goes on in the writer's call.
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
//! What the kubelet's cache does (`pkg/kubelet/container/cache.go`), this one does. Beyond that, waits can be dropped, have
//! a deadline, end with the writer and tell of themselves, and the times of an entry can be read. The kubelet's waits block
//! a goroutine until they are answered, and each global time visits all of them.

mod cache;
mod entry;
mod error;
mod sync;
mod table;
mod uid;
mod wait;

pub use cache::{Options, PodStatusReader, PodStatusWriter, pod_status_cache};
pub use entry::{Entry, EntryRef, EntryTimes};
pub use error::WaitError;
pub use uid::PodUid;
pub use wait::NewerThan;
