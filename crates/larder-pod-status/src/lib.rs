#![doc(test(attr(deny(warnings))))]
//! The pod status cache of the kubelet, with waits for a status newer than a time.

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
