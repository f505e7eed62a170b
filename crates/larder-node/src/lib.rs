//! One node's larder: sources, caches and policy wired together
