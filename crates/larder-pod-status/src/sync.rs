//! The lock and the map of the cache. Under shuttle's scheduler, others take their place.

#[cfg(not(shuttle))]
mod ordinary;
#[cfg(shuttle)]
mod scheduled;

#[cfg(not(shuttle))]
pub(crate) use ordinary::{Mutex, StatusMap};
#[cfg(shuttle)]
pub(crate) use scheduled::{Mutex, StatusMap};
