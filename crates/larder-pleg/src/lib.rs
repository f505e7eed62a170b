#![doc(test(attr(deny(warnings))))]
//! The pod lifecycle event generator (PLEG): it relists the container runtime, keeps the pod status cache up to date, and sends
//! events of changes to subscribers.
//!
//! A [`Pleg`] lists a [`Runtime`] once a period, compares what it finds with the listing before, inspects the pods that
//! differ, sets their [`PodStatus`] in the cache of [`larder_pod_status`], and delivers a [`PodLifecycleEvent`] for each
//! container that started, died or was removed. It is the cache's only writer.
//!
//! # Guarantees
//!
//! - *Times are never too new.* The time of a relist is read before its first call to the runtime. Entries, observed times and
//!   the cache's global time are set to it. So a status that is served as of a time was read after that time.
//! - *The global time moves last*, after every pod of the listing is inspected. A pod whose inspection failed has its error
//!   in the cache by then, so a wait for that time is answered with the error.
//! - *A listing that fails changes nothing.* It is remembered for [`Pleg::last_relist`] and [`Pleg::health`].
//! - *A change is never lost.* A pod is compared with its state at its last successful inspection; until one succeeds, every
//!   relist finds the change again. A pod whose inspection failed is inspected again even if it looks the same by then,
//!   and [`EventKind::PodSync`] tells of it.
//! - *After any failure, one successful relist brings the cache up to date.*
//! - *A request for one pod is served by a listing that began after it*, and at most once for any number of requests.
//! - *Nobody delays the PLEG*: neither slow subscribers, which get a gap with a count, nor readers of the cache.
//!
//! # Independent pods
//!
//! With [`PlegOptions::independent_pods`], a pod that cannot be inspected delays only the waits for that pod:
//!
//! - *Inspections and listings run concurrently.* A pod has one inspection at a time. If it changes meanwhile, another follows.
//!   An inspection that takes longer than [`PlegOptions::inspection_patience`] gives up its place to another. The inspection
//!   of a pod that has gone is aborted.
//! - *A listing confirms at once every pod that it shows unchanged*: its observed time is the listing's. A pod that is to be
//!   inspected is confirmed by its inspection.
//! - *The global time moves only when what it promises is true*: to the time of a listing all of whose pods are known as of
//!   it. That a pod cannot be inspected is known, too, as of the listing that its inspection failed for; a later listing
//!   that shows the pod before it is tried again (after a pause that grows with each failure, or at once if it shows
//!   something new) does not move the global time. Then a pod in error is one that the global time says nothing of.
//! - *A wait for a pod that is not there* is answered by a relist of that pod, which a wait asks for with
//!   [`PlegOptions::relist_on_wait`], or by the global time.
//!
//! # Events of the runtime
//!
//! [`Pleg::watch_events`] follows the event stream of an [`EventSource`]. Each event requests a relist of its pod, and the rest
//! of the event is ignored, so that only lists and inspections say what the state is. The reader of the stream waits for
//! nothing. A lost stream is counted, and a relist of all pods makes up for the lost events.
//!
//! A runtime whose stream ends at once without an event, several times in a row, has no events, as one that does not know
//! the call: its pods are seen by the relist of every period, nothing counts as lost, and the stream is tried again when the
//! runtime may have been replaced ([`EventSource::replaced`]), and after [`PlegOptions::unsupported_retry`].
//!
//! With [`PlegOptions::independent_pods`] and [`PlegOptions::keep_unchanged`], the runtime is asked for the container of an
//! event as soon as the event arrives, whatever lists are under way; the list of its pod follows. If the container has moved on
//! (from created to running, from running to exited), its new state is in its pod's entry at once. The entry keeps the time as
//! of which all of the pod is known, so a wait for a newer entry waits for the list of the pod, and so do subscribers. Where a
//! later list says something else of the container, all of the pod is inspected.
//!
//! # Limits
//!
//! - The runtime's calls end by the runtime's own deadlines; a call that hangs holds up the relist until then, unless
//!   [`PlegOptions::inspection_deadline`] and [`PlegOptions::inspection_concurrency`] say otherwise.
//! - A container that is created and removed between two listings never shows.
//! - A pod's address alone is not a change that a listing shows.
//!
//! # Cancel safety
//!
//! [`Pleg::relist`] and [`Pleg::run`] may be dropped at any point: a pod is either inspected and updated, or found again by
//! the next relist.
//!
//! # Locks
//!
//! One for the records, one for the times of the last relist, one for the queue, one for the latest events, none held with
//! another nor over an `.await`. Relists take turns by a semaphore.
//!
//! # Example
//!
//! ```
//! use larder_clock::MonotonicClock;
//! use larder_pleg::{
//!     ContainerState, ContainerStatus, KnownPod, Pleg, PlegOptions, PodStatus, Runtime, RuntimeContainer, RuntimeError,
//!     RuntimePod,
//! };
//! use larder_pod_status::{Options, PodUid, pod_status_cache};
//! use std::sync::Arc;
//!
//! /// A runtime with one pod.
//! struct OnePod;
//!
//! impl Runtime for OnePod {
//!     async fn pods(&self) -> Result<Vec<RuntimePod>, RuntimeError> {
//!         Ok(self.pod(&"uid-1".into()).await?.into_iter().collect())
//!     }
//!
//!     async fn pod(&self, uid: &PodUid) -> Result<Option<RuntimePod>, RuntimeError> {
//!         let mut pod = RuntimePod::new(uid.clone(), "default", "web");
//!         let running = ContainerState::Running;
//!         pod.containers.push(RuntimeContainer { id: "4f5e".into(), state: running, ..Default::default() });
//!         Ok(Some(pod))
//!     }
//!
//!     async fn pod_status(&self, pod: &RuntimePod, _: Option<KnownPod<'_>>) -> Result<PodStatus, RuntimeError> {
//!         Ok(PodStatus::new(pod.uid.clone(), pod.namespace.clone(), pod.name.clone()))
//!     }
//!
//!     async fn container_status(
//!         &self,
//!         _: &RuntimePod,
//!         _: &RuntimeContainer,
//!     ) -> Result<Option<ContainerStatus>, RuntimeError> {
//!         Ok(None)
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let (writer, cache) = pod_status_cache(Options::default());
//! let pleg = Pleg::new(Arc::new(OnePod), MonotonicClock::new(), writer, PlegOptions::default()).unwrap();
//! let mut events = pleg.subscribe();
//! pleg.relist().await;
//! assert_eq!(cache.get(&"uid-1".into()).status().unwrap().name, "web");
//! assert!(events.recv().await.is_some());
//! assert_eq!(pleg.health(), Ok(()));
//! # });
//! ```
//!
//! # Differs from kubelet
//!
//! A pod that a relist of its own finds gone is deleted and counts as observed; more requests than fit cause a relist of
//! all pods; events go to any number of subscribers. All differences stand in `docs/differences.md`.

mod error;
mod event;
mod health;
mod observe;
mod options;
mod pleg;
mod pod;
mod queue;
mod records;
mod runtime;
mod runtime_event;
mod status;
mod wire;

pub use error::{PodName, RuntimeCall, RuntimeError};
pub use event::{Delivery, EventKind, EventReceiver, PodLifecycleEvent, WriteReceiver, Written};
pub use health::Unhealthy;
pub use observe::{PlegObserver, PlegStats};
pub use options::{InvalidOption, PlegOptions};
pub use pleg::Pleg;
pub use pod::{ContainerState, RuntimeContainer, RuntimePod};
pub use runtime::{KnownPod, Runtime};
pub use runtime_event::{ContainerEvent, ContainerEventKind, EventSource};
pub use status::{ContainerId, ContainerStatus, PodMetadata, PodStatus, SandboxState, SandboxStatus};
