//! The pod status cache of the kubelet, with waits for a status newer than a time
