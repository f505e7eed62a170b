//! What the kubelet leaves with the sandboxes and containers that it creates, as it reads it back.

use larder_pleg::PodMetadata;
use std::collections::HashMap;

/// The label that holds the UID of a container's pod.
pub(crate) const POD_UID: &str = "io.kubernetes.pod.uid";
/// The label that holds the namespace of a container's pod.
pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// The label that holds the name of a container's pod.
pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
/// The label that holds a container's name.
pub(crate) const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// The annotation that holds the hash of a container's specification, in hexadecimal.
pub(crate) const HASH: &str = "io.kubernetes.container.hash";
/// The annotation that holds how often a container was restarted.
pub(crate) const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";

/// The annotation of a sandbox that says where the kubelet has its pod from.
pub(crate) const SOURCE: &str = "kubernetes.io/config.source";
/// The source of the pods that the API server has.
const API_SOURCE: &str = "api";
/// What the labels of the kubelet itself begin with.
const OWN_PREFIX: &str = "io.kubernetes.pod.";

pub(crate) type Map = HashMap<String, String>;

/// A label's value; empty if it is not there.
pub(crate) fn text(map: &Map, key: &str) -> String {
    map.get(key).cloned().unwrap_or_default()
}

/// The hash in the annotations; 0 if it is not there, or none.
pub(crate) fn hash(annotations: &Map) -> u64 {
    let text = annotations.get(HASH).map_or("", String::as_str);
    // Rust takes a sign here, Go does not.
    if text.starts_with('+') { 0 } else { u64::from_str_radix(text, 16).unwrap_or(0) }
}

/// The number of restarts in the annotations; 0 if it is not there, or none.
pub(crate) fn restart_count(annotations: &Map) -> u32 {
    annotations.get(RESTART_COUNT).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The labels and annotations of a static pod, from those of its sandbox. `None` for a pod of the API server.
pub(crate) fn static_pod(mut labels: Map, annotations: Map) -> Option<PodMetadata> {
    annotations.get(SOURCE).filter(|source| *source != API_SOURCE)?;
    labels.retain(|label, _| !label.starts_with(OWN_PREFIX));
    Some(PodMetadata { labels: labels.into_iter().collect(), annotations: annotations.into_iter().collect() })
}
