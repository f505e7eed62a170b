//! The PLEG, with a runtime of a few maps.

mod ahead;
mod apart;
mod evented;
mod fake;
mod faults;
mod full;
mod generic;
mod single;
mod waits;
