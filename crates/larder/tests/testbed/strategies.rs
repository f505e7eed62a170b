//! Each strategy through each fault: every answer is right or honestly stale, and all is fresh again afterwards.
//!
//! A test runs one larder for each strategy beside one another, and reads all of them all the time while it does something to
//! the API server or to the way there. What an answer may say is in [`fleet`]. The faults that a real API server can have are
//! in [`real`]; those that only a simulated one can be told to have are in [`simulated`].

mod fleet;
mod real;
mod simulated;
