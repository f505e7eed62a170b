//! A whole node, against the API server of larder-testkit.
//!
//! - `sleep`: the machine sleeps, over streams in memory and in paused time.

mod sleep;
