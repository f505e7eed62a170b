//! The PLEG, with a runtime of a few maps.

mod early_write;
mod evented;
mod fake;
mod faults;
mod full;
mod generic;
mod independent_pods;
mod single;
mod waits;
