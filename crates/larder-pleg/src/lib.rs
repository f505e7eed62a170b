//! The pod lifecycle event generator: relists the container runtime and reports what changed
