//! The fakes, asked by clients that know nothing of them.
//!
//! - `api_reads`: gets, lists, selectors, pages, the watch cache, authorization
//! - `api_watches`: watches, resumption, bookmarks, 410, streaming lists, a restored store
//! - `api_faults`: everything that the API server does wrong on command
//! - `cluster`: both, with a kubelet between them
//! - `cri`: the container runtime: lists, statuses, events, faults

mod api_faults;
mod api_reads;
mod api_watches;
mod client;
mod cluster;
mod cri;
