#![doc(test(attr(deny(warnings))))]
//! Time as larder's caches see it: a [`Timestamp`], a [`Clock`] that is passed in, and the [`Jitter`] of pauses.
//!
//! The caches never read a clock of their own accord: whoever builds one hands it the clock. A daemon passes a
//! [`MonotonicClock`] (or, with the feature `tokio`, a [`TokioClock`] that a test can pause), a simulation and a replay
//! pass a [`VirtualClock`].
//!
//! # Guarantees
//!
//! - A [`Timestamp`] has room for every sum that a trace can ask for: nanoseconds in 128 bits, so that neither a TTL of
//!   `i64::MAX` nanoseconds nor many of them after one another wrap.
//! - [`MonotonicClock`] never goes back, whatever is done to the wall clock, and goes on while the machine sleeps.
//!
//! # Limits
//!
//! A timestamp says nothing of which clock it came from; two clocks' timestamps are not to be compared. What a person
//! reads is converted at the edge, with [`MonotonicClock::wall_time`].
//!
//! # Example
//!
//! ```
//! use larder_clock::{Clock, Timestamp, VirtualClock};
//! use std::time::Duration;
//!
//! let clock = VirtualClock::new(Timestamp::ZERO);
//! let fetched = clock.now();
//! clock.advance(Duration::from_secs(60));
//! assert_eq!(clock.now().saturating_duration_since(fetched), Duration::from_secs(60));
//! ```

mod clock;
mod jitter;
mod timestamp;

#[cfg(feature = "tokio")]
pub use clock::TokioClock;
pub use clock::{Clock, ClockOffsets, MachineClocks, MonotonicClock, ThisMachine, VirtualClock};
pub use jitter::Jitter;
pub use timestamp::Timestamp;
