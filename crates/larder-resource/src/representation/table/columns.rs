//! The columns of each kind, in the words of the API server.

use crate::kind::Kind;
use serde::Serialize;

/// One column of a table, as `columnDefinitions` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Column {
    /// Its name; clients print it in capitals.
    pub name: &'static str,
    /// `string`, also where the cells are numbers.
    #[serde(rename = "type")]
    pub type_: &'static str,
    /// `name` for the column that names the object; otherwise empty.
    pub format: &'static str,
    /// What it holds.
    pub description: &'static str,
    /// 0 for a column that is always shown; more for one that `-o wide` adds.
    pub priority: i32,
}

/// The columns of a kind.
///
/// ```
/// use larder_resource::Kind;
/// use larder_resource::representation::columns;
///
/// let names: Vec<&str> = columns(Kind::Pod).iter().filter(|column| column.priority == 0).map(|column| column.name).collect();
/// assert_eq!(names, ["Name", "Ready", "Status", "Restarts", "Age"]);
/// ```
pub const fn columns(kind: Kind) -> &'static [Column] {
    match kind {
        Kind::Secret => SECRET,
        Kind::ConfigMap => CONFIG_MAP,
        Kind::Pod => POD,
        Kind::Node => NODE,
        Kind::Namespace => NAMESPACE,
    }
}

const fn column(name: &'static str, description: &'static str) -> Column {
    Column { name, type_: "string", format: "", description, priority: 0 }
}

const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { priority: 1, ..column(name, description) }
}

const NAME: Column = Column {
    format: "name",
    ..column(
        "Name",
        "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a \
         client to request the generation of an appropriate name automatically. Name is primarily intended for creation \
         idempotence and configuration definition. Cannot be updated. More info: \
         https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
    )
};

const AGE: Column = column(
    "Age",
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed \
     to be set in happens-before order across separate operations. Clients may not set this value. It is represented \
     in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
);

const ADDRESSES: &str = "List of addresses reachable to the node. Queried from cloud provider, if available. More info: \
     https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field is declared as mergeable, but \
     the merge key is not sufficiently unique, which can cause data corruption when it is merged. Callers should \
     instead use a full-replacement patch. See https://pr.k8s.io/79391 for an example. Consumers should assume that \
     addresses can change during the lifetime of a Node. However, there are some exceptions where this may not be \
     possible, such as Pods that inherit a Node's address in its own status or consumers of the downward API \
     (status.hostIP).";

const POD: &[Column] = &[
    NAME,
    column("Ready", "The aggregate readiness state of this pod for accepting traffic."),
    column("Status", "The aggregate status of the containers in this pod."),
    column(
        "Restarts",
        "The number of times the containers in this pod have been restarted and when the last container in this pod has \
         restarted.",
    ),
    AGE,
    wide("IP", "podIP address allocated to the pod. Routable at least within the cluster. Empty if not yet allocated."),
    wide(
        "Node",
        "NodeName indicates in which node this pod is scheduled. If empty, this pod is a candidate for scheduling by the \
         scheduler defined in schedulerName. Once this field is set, the kubelet for this node becomes responsible for \
         the lifecycle of this pod. This field should not be used to express a desire for the pod to be scheduled on a \
         specific node. https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename",
    ),
    wide(
        "Nominated Node",
        "nominatedNodeName is set only when this pod preempts other pods on the node, but it cannot be scheduled right \
         away as preemption victims receive their graceful termination periods. This field does not guarantee that the \
         pod will be scheduled on this node. Scheduler may decide to place the pod elsewhere if other nodes become \
         available sooner. Scheduler may also decide to give the resources on this node to a higher priority pod that is \
         created after preemption. As a result, this field may be different than PodSpec.nodeName when the pod is \
         scheduled.",
    ),
    wide(
        "Readiness Gates",
        "If specified, all readiness gates will be evaluated for pod readiness. A pod is ready when all its containers \
         are ready AND all conditions specified in the readiness gates have status equal to \"True\" More info: \
         https://git.k8s.io/enhancements/keps/sig-network/580-pod-readiness-gates",
    ),
];

const NODE: &[Column] = &[
    NAME,
    column("Status", "The status of the node"),
    column("Roles", "The roles of the node"),
    AGE,
    column("Version", "Kubelet Version reported by the node."),
    wide("Internal-IP", ADDRESSES),
    wide("External-IP", ADDRESSES),
    wide("OS-Image", "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy))."),
    wide("Kernel-Version", "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64)."),
    wide(
        "Container-Runtime",
        "ContainerRuntime Version reported by the node through runtime remote API (e.g. containerd://1.4.2).",
    ),
];

const SECRET: &[Column] = &[
    NAME,
    column(
        "Type",
        "Used to facilitate programmatic handling of secret data. More info: \
         https://kubernetes.io/docs/concepts/configuration/secret/#secret-types",
    ),
    column(
        "Data",
        "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The serialized \
         form of the secret data is a base64 encoded string, representing the arbitrary (possibly non-string) data value \
         here. Described in https://tools.ietf.org/html/rfc4648#section-4",
    ),
    AGE,
];

const CONFIG_MAP: &[Column] = &[
    NAME,
    column(
        "Data",
        "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. Values \
         with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap with the \
         keys in the BinaryData field, this is enforced during validation process.",
    ),
    AGE,
];

const NAMESPACE: &[Column] = &[NAME, column("Status", "The status of the namespace"), AGE];
