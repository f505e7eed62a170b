//! A map from objects to values, read without a lock.
//!
//! In a test that explores interleavings it is a table under a lock, which shuttle sees.

#[cfg(shuttle)]
mod explored;
#[cfg(not(shuttle))]
mod lock_free;

#[cfg(shuttle)]
pub(crate) use explored::{SharedMap, View};
#[cfg(not(shuttle))]
pub(crate) use lock_free::{SharedMap, View};
