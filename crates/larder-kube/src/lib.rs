//! The Kubernetes API server as a source of pods, the node, Secrets and ConfigMaps
