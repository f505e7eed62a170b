//! A directory of manifests as a source of pods, Secrets and ConfigMaps
