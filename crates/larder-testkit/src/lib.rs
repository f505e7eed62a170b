//! Fakes that speak the real protocols: an API server and a CRI runtime
