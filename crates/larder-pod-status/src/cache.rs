//! The state that the two handles of a cache share: the entries, the global time, and the open waits.

mod reader;
mod wait;
mod writer;

use crate::PodUid;
use crate::entry::Record;
use crate::sync::{Mutex, StatusMap};
use crate::table::WaitTable;
use larder_clock::Timestamp;
pub use reader::PodStatusReader;
use std::sync::{Arc, OnceLock};
pub use wait::NewerThan;
pub use writer::PodStatusWriter;

/// Settings of a pod status cache.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Whether [`set`](PodStatusWriter::set) refuses a status that is older than the cached one. Default: no.
    ///
    /// The kubelet does so with its feature gate `EventedPLEG`, where statuses can arrive out of order.
    pub evented_ordering: bool,
}

/// An empty pod status cache: the handle that fills it, and one that reads it.
///
/// `S` is the status of a pod, `E` the error of an inspection that failed.
///
/// ```
/// use larder_clock::Timestamp;
/// use larder_pod_status::{Options, PodUid, pod_status_cache};
///
/// let (writer, reader) = pod_status_cache::<String, std::io::Error>(Options::default());
/// let uid = PodUid::from("a");
/// writer.set(&uid, Some("running".to_owned().into()), None, Timestamp::from_nanos(1));
/// assert_eq!(reader.get(&uid).status().map(|status| status.as_str()), Some("running"));
/// ```
pub fn pod_status_cache<S, E>(options: Options) -> (PodStatusWriter<S, E>, PodStatusReader<S, E>) {
    let Options { evented_ordering } = options;
    let shared = Arc::new(Shared {
        pods: StatusMap::new(),
        state: Mutex::new(State { global: None, writer_gone: false, waits: WaitTable::new() }),
        on_wait: OnceLock::new(),
        evented_ordering,
    });
    (PodStatusWriter::new(Arc::clone(&shared)), PodStatusReader::new(shared))
}

/// What the handles and the waits of a cache share.
pub(crate) struct Shared<S, E> {
    pods: StatusMap<Record<S, E>>,
    state: Mutex<State<S, E>>,
    on_wait: OnceLock<OnWait>,
    evented_ordering: bool,
}

type OnWait = Box<dyn Fn(&PodUid, Timestamp) + Send + Sync>;

/// What is guarded by the lock. Every change of `pods` is made under it, too, so that whoever holds it sees the pods,
/// the global time and the waits as of one moment.
struct State<S, E> {
    global: Option<Timestamp>,
    writer_gone: bool,
    waits: WaitTable<S, E>,
}
