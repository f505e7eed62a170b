//! The lock and the map of the cache, and what stands in for them under shuttle's scheduler.

#[cfg(not(shuttle))]
mod ordinary;
#[cfg(shuttle)]
mod scheduled;

#[cfg(not(shuttle))]
pub(crate) use ordinary::{Mutex, Pin, StatusMap};
#[cfg(shuttle)]
pub(crate) use scheduled::{Mutex, Pin, StatusMap};
