//! A node as a row: status, roles, age, version.

use super::{Row, time};
use crate::output::age;
use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeStatus};
use serde_json::Value;

const ROLE: &str = "node-role.kubernetes.io/";

/// The row of a node in JSON.
pub(super) fn row(node: Value, now: Timestamp) -> anyhow::Result<Row> {
    let node: Node = serde_json::from_value(node).context("cannot read the node in larder's answer")?;
    let status = node.status.clone().unwrap_or_default();
    let info = status.node_info.clone();
    let text = |get: fn(&k8s_openapi::api::core::v1::NodeSystemInfo) -> &String| {
        info.as_ref().map(get).filter(|text| !text.is_empty()).cloned().unwrap_or_else(|| "<unknown>".to_owned())
    };
    Ok(Row {
        namespace: String::new(),
        name: node.metadata.name.clone().unwrap_or_default(),
        narrow: vec![
            word(&node, &status),
            roles(&node),
            age::since(time(node.metadata.creation_timestamp.as_ref()), now),
            text(|info| &info.kubelet_version),
        ],
        wide: vec![
            address(&status, "InternalIP"),
            address(&status, "ExternalIP"),
            text(|info| &info.os_image),
            text(|info| &info.kernel_version),
            text(|info| &info.container_runtime_version),
        ],
    })
}

fn word(node: &Node, status: &NodeStatus) -> String {
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
    let mut word = match ready.map(|condition| condition.status.as_str()) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        word.push_str(",SchedulingDisabled");
    }
    word
}

fn roles(node: &Node) -> String {
    let labels = node.metadata.labels.iter().flatten();
    let roles: Vec<&str> =
        labels.filter_map(|(key, _)| key.strip_prefix(ROLE)).filter(|role| !role.is_empty()).collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

fn address(status: &NodeStatus, of: &str) -> String {
    let found = status.addresses.iter().flatten().find(|address| address.type_ == of);
    found.map_or_else(|| "<none>".to_owned(), |address| address.address.clone())
}
