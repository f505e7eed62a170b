//! A static pod that the API server does not have, from what the kubelet left with its sandbox.

use crate::pod::{Seen, bring};
use crate::write::{Object, array};
use larder_pleg::PodStatus;
use larder_resource::DecodeError;
use std::collections::BTreeMap;

/// The JSON of a static pod without a mirror in the API server, such as one that the kubelet runs before it has reached the API server.
/// `None` if the pod is not static: the API server has it, or has deleted it.
///
/// It has what the container runtime knows: the namespace, name, UID, labels and annotations, and the containers with their images and states.
/// The runtime does not tell init containers from others, and does not know probes. So no container is ready, and there are no conditions.
///
/// # Errors
///
/// None that a runtime causes.
///
/// ```
/// use larder_pleg::{ContainerState, ContainerStatus, PodMetadata, PodStatus, SandboxStatus};
/// use larder_pods::static_pod;
///
/// let mut status = PodStatus::new("5f0c".into(), "kube-system", "etcd-edge-1");
/// assert_eq!(static_pod(&status, 0, "edge-1")?, None);
/// let annotations = [("kubernetes.io/config.source".to_owned(), "file".to_owned())];
/// let metadata = PodMetadata { annotations: annotations.into(), ..PodMetadata::default() };
/// status.sandboxes.push(SandboxStatus { static_pod: Some(metadata.into()), ..SandboxStatus::default() });
/// let (name, image) = ("etcd".to_owned(), "etcd:3".to_owned());
/// status.containers.push(ContainerStatus { name, image, state: ContainerState::Running, ..ContainerStatus::default() });
/// let pod: serde_json::Value = serde_json::from_slice(&static_pod(&status, 0, "edge-1")?.unwrap()).unwrap();
/// assert_eq!(pod["metadata"]["uid"], "5f0c");
/// assert_eq!(pod["spec"]["containers"][0]["image"], "etcd:3");
/// assert_eq!((&pod["status"]["phase"], &pod["status"]["containerStatuses"][0]["ready"]), (&"Running".into(), &false.into()));
/// # Ok::<(), larder_resource::DecodeError>(())
/// ```
pub fn static_pod(status: &PodStatus, as_of: i64, node: &str) -> Result<Option<Vec<u8>>, DecodeError> {
    let Some(sandbox) = status.sandboxes.first() else { return Ok(None) };
    let Some(metadata) = &sandbox.static_pod else { return Ok(None) };
    let mut out = Vec::new();
    let mut pod = Object::begin(&mut out);
    pod.text("kind", "Pod");
    pod.text("apiVersion", "v1");
    let mut meta = Object::begin(pod.name("metadata"));
    meta.text("name", &status.name);
    meta.text("namespace", &status.namespace);
    meta.text("uid", &status.uid.to_string());
    texts("labels", &metadata.labels, &mut meta);
    texts("annotations", &metadata.annotations, &mut meta);
    meta.end();
    let mut spec = Object::begin(pod.name("spec"));
    // Of several lives of a container, the first is the newest.
    let mut containers = BTreeMap::new();
    for container in &status.containers {
        containers.entry(&container.name).or_insert(&container.image);
    }
    array(spec.name("containers"), containers, |(name, image), out| {
        let mut container = Object::begin(out);
        container.text("name", name);
        container.some_text("image", image);
        container.end();
    });
    // A static pod may have another policy, which the runtime does not know.
    spec.text("restartPolicy", "Always");
    spec.some_text("nodeName", node);
    if sandbox.host_network {
        spec.flag("hostNetwork", true);
    }
    spec.end();
    let mut empty = Object::begin(pod.name("status"));
    empty.text("phase", "Pending");
    empty.end();
    pod.end();
    let brought = bring(&out, &Seen { status: Some(status), as_of }, false)?;
    Ok(Some(brought.json.unwrap_or(out)))
}

/// A map of texts, unless it is empty.
fn texts(name: &str, entries: &BTreeMap<String, String>, object: &mut Object<'_>) {
    if entries.is_empty() {
        return;
    }
    let mut map = Object::begin(object.name(name));
    for (key, value) in entries {
        map.text(key, value);
    }
    map.end();
}
