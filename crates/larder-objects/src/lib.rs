#![doc(test(attr(deny(warnings))))]
//! The Secrets and ConfigMaps that a node's pods refer to, cached as the kubelet caches them.
//!
//! Two parts, each of use alone:
//!
//! - a [`Store`] counts the references to each object and answers reads of it. Three of them are the kubelet's strategies:
//!   [`DirectStore`] fetches at every read, [`TtlStore`] when an object is read and its TTL has passed, [`WatchStore`] keeps a
//!   [reflector](Reflectors) for each object. [`AutoStore`] chooses for each object; a [`StrategyStore`] is the one that a
//!   setting names. [`LastKnown`] keeps what the first two do not, for outages;
//! - [`PodObjects`] stands before a store and turns pods that come, change and go into references.
//!
//! Both are generic: over the object, over how it is [fetched](Fetch), over the [clock](larder_clock::Clock), over the
//! [TTL](Ttl) and over how a pod's references are [found](References).
//!
//! # Guarantees
//!
//! - **Only what is referenced.** A read of an object that no registered pod refers to is refused without a fetch.
//! - **As new as the reference.** A read that begins after a reference was added is never answered with what was fetched,
//!   or was being fetched, before it.
//! - **One fetch at a time** for an object between two added references, but for the direct store; other objects never wait
//!   for it.
//! - **Versions do not go back** by a poll: a lower `resourceVersion` never replaces the cached one in the TTL store, and in
//!   those that watch only by a consistent read or list that began later.
//! - **Every answer has its age.** A [`Read`] says when its object was last confirmed, by what, and whether it is stale
//!   and why; 'known to be absent' and 'could not be fetched' are different errors.
//!
//! # Limits
//!
//! No I/O, no clock and no task of its own: fetches are polled by whoever reads. A deadline is the caller's (drop the
//! future) and the fetch's own.
//!
//! # Where to change what
//!
//! | | |
//! | --- | --- |
//! | the TTL rule: the node's annotation, the default, until when an object is fresh | `ttl`; `freshness` for what an answer says of it |
//! | what may replace what is held | `order` |
//! | when a strategy fetches or watches | `ttl_store` (`ttl_store/known` decides), `direct_store`; `reflector_store` for both stores that watch (`reflector_store/item` decides) |
//! | what is served in an outage | `last_known`, around the stores that do not keep it themselves |
//! | which objects a pod refers to | `references` finds them, `pod_objects` counts them |
//!
//! # Example
//!
//! ```
//! use larder_clock::{Timestamp, VirtualClock};
//! use larder_objects::{DefaultTtl, FetchError, Object, ObjectKey, ReadKind, Store, StoreTtl, TtlStore, fetch_fn};
//! use std::future::ready;
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! struct Secret {
//!     resource_version: String,
//! }
//! impl Object for Secret {
//!     fn resource_version(&self) -> &str {
//!         &self.resource_version
//!     }
//!     fn uid(&self) -> &str {
//!         ""
//!     }
//!     fn is_immutable(&self) -> bool {
//!         false
//!     }
//! }
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error("not found")]
//! struct NotFound;
//! impl FetchError for NotFound {
//!     fn is_not_found(&self) -> bool {
//!         true
//!     }
//!     fn class(&self) -> &'static str {
//!         "failed"
//!     }
//! }
//!
//! // The API server has one Secret.
//! let server = fetch_fn(|key: &ObjectKey, _: ReadKind| {
//!     let found = key.name() == "db-password";
//!     ready(if found { Ok(Arc::new(Secret { resource_version: "7".into() })) } else { Err(NotFound) })
//! });
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let ttl = StoreTtl::new(DefaultTtl, Duration::from_mins(1));
//! let store = TtlStore::new(server, VirtualClock::new(Timestamp::ZERO), ttl);
//! assert!(store.get("shop", "db-password").await.unwrap_err().is_not_registered());
//!
//! store.add_references("shop", &["db-password"], "0b5c").run();
//! let read = store.get("shop", "db-password").await.unwrap();
//! assert_eq!(read.object.resource_version(), "7");
//! assert!(read.freshness.is_fresh());
//!
//! store.add_references("shop", &["db-pasword"], "0b5c").run();
//! assert!(store.get("shop", "db-pasword").await.unwrap_err().is_not_found());
//! # });
//! ```

mod auto_store;
mod direct_store;
mod effects;
mod error;
mod fetched;
mod freshness;
mod hash_seed;
mod key;
mod last_known;
mod object;
mod order;
mod pod_objects;
mod read;
pub mod references;
mod reflector;
mod reflector_store;
mod shared_map;
mod store;
mod strategy;
mod strategy_store;
mod sync;
mod ttl;
mod ttl_store;
mod version;
mod watch_store;

pub use auto_store::{AutoOptions, AutoStore};
pub use direct_store::DirectStore;
pub use effects::Effects;
pub use error::GetError;
pub use freshness::{FreshState, Freshness, Source, StaleReason};
pub use hash_seed::HashSeed;
pub use key::ObjectKey;
pub use last_known::{LastKnown, WentBack};
pub use object::{Fetch, FetchError, FetchFn, Object, ReadKind, fetch_fn};
pub use pod_objects::PodObjects;
pub use read::{Held, Outcome, Read};
pub use references::{PodIdentity, Reference, References};
pub use reflector::{ReflectorEvent, ReflectorSink, Reflectors, Scope};
pub use reflector_store::ReflectorStore;
pub use store::{Kept, ObjectState, ObjectStatus, Store};
pub use strategy::{Strategy, UnknownStrategy};
pub use strategy_store::{StrategyOptions, StrategyStore};
pub use ttl::{DefaultTtl, NodeTtl, ObjectTtl, StoreTtl, TTL_ANNOTATION, Ttl};
pub use ttl_store::TtlStore;
pub use version::resource_version_order;
pub use watch_store::{WatchOptions, WatchStats, WatchStore};
