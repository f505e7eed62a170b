//! The object caches against a naive model, against the scenarios of the kubelet's own tests, and under every
//! interleaving that shuttle tries.
//!
//! - [`harness`]: a server whose every answer the test gives
//! - [`readers`]: an executor that polls only who was woken
//! - [`model`]: the caches as design and documentation describe them, with no regard to speed
//! - [`state_machine`]: random operations on both
//! - [`ttl_store`]: what the documentation promises, one test a promise
//! - [`kubelet_scenarios`]: the counterparts of `cache_based_manager_test.go`
//! - [`source`]: reflectors and fetches that do as the test says
//! - [`watch_store`]: what the watch store promises, and the counterparts of `watch_based_manager_test.go`
//! - [`direct_store`]: what the direct store promises
//! - [`last_known`]: what is kept of what a store reads and does not keep
//! - [`auto_store`]: what the adaptive store promises
//! - [`strategy_store`]: a store whose strategy is chosen at run time
//! - [`watch_model`]: random operations on the watch store and on a naive model of it
//! - [`server_history`]: both stores that watch, against a simulated API server whose history is known
//! - [`callbacks`]: foreign code that calls the store back, or panics
//! - [`pod_references`]: each way that a pod refers to an object
//! - [`stress`]: the lock-free map under many schedules of real threads
//! - [`threads`]: real threads on the store as it is built for use
//! - [`watch_threads`]: the same on the stores that watch
//! - [`interleavings`]: threads under chosen schedules, with `--cfg shuttle`

#[cfg(not(shuttle))]
mod auto_store;
#[cfg(not(shuttle))]
mod callbacks;
#[cfg(not(shuttle))]
mod direct_store;
#[cfg(not(shuttle))]
mod harness;
#[cfg(shuttle)]
mod interleavings;
#[cfg(all(not(shuttle), feature = "k8s"))]
mod kubelet_scenarios;
#[cfg(not(shuttle))]
mod last_known;
#[cfg(not(shuttle))]
mod model;
#[cfg(all(not(shuttle), feature = "k8s"))]
mod pod_references;
#[cfg(not(shuttle))]
mod readers;
#[cfg(not(shuttle))]
mod server_history;
#[cfg(not(shuttle))]
mod source;
#[cfg(not(shuttle))]
mod state_machine;
#[cfg(not(shuttle))]
mod strategy_store;
#[cfg(not(shuttle))]
mod stress;
#[cfg(not(shuttle))]
mod threads;
#[cfg(not(shuttle))]
mod ttl_store;
#[cfg(not(shuttle))]
mod watch_model;
#[cfg(not(shuttle))]
mod watch_store;
#[cfg(not(shuttle))]
mod watch_threads;
