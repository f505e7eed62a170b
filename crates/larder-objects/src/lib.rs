//! The Secrets and ConfigMaps that a node's pods refer to, cached as the kubelet caches them
