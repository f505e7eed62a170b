//! Traces and their replay on the caches in virtual time
