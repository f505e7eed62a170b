//! The printer of nodes: `printNode` of upstream.

use super::super::age::age;
use super::super::metadata::fields_of;
use super::Row;
use super::cells::Metadata;
use crate::error::DecodeError;
use crate::json::{Borrowed, List, Pairs, Strict, or_default, read};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeSet;

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE: &str = "kubernetes.io/role";

pub(super) fn row(json: &[u8], now: Timestamp) -> Result<Row<'_>, DecodeError> {
    let Strict(wire): Strict<NodeWire<'_>> = read(json)?;
    let metadata = Metadata::of(wire.metadata, json)?;
    let labelled: Labelled<'_> = fields_of(metadata.json, json)?;
    let info = &wire.status.node_info;
    let or_unknown = |text: &Borrowed<'_>| if text.0.is_empty() { "<unknown>".to_owned() } else { text.0.to_string() };
    let mut kernel = or_unknown(&info.kernel_version);
    if !info.architecture.0.is_empty() {
        kernel = format!("{kernel} ({})", info.architecture.0);
    }
    Ok(Row {
        cells: vec![
            metadata.name.as_ref().into(),
            status(&wire).into(),
            roles(labelled.labels.as_ref()).into(),
            age(metadata.created, now).into(),
            info.kubelet_version.0.as_ref().into(),
            address(&wire.status, "InternalIP").into(),
            address(&wire.status, "ExternalIP").into(),
            or_unknown(&info.os_image).into(),
            kernel.into(),
            or_unknown(&info.container_runtime_version).into(),
        ],
        conditions: &[],
        metadata,
    })
}

fn status(node: &NodeWire<'_>) -> String {
    // As upstream, the last of several conditions of a type counts.
    let ready = node.status.conditions.0.iter().rev().find(|has| has.type_.0 == "Ready");
    let word = match ready.map(|has| &*has.status.0) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let is_unschedulable = node.spec.unschedulable == Some(true);
    format!("{word}{}", if is_unschedulable { ",SchedulingDisabled" } else { "" })
}

fn roles(labels: Option<&Pairs<'_>>) -> String {
    let roles: BTreeSet<&str> = labels
        .iter()
        .flat_map(|labels| &labels.0)
        .filter_map(|(key, value)| {
            let role = key.0.strip_prefix(ROLE_PREFIX).or_else(|| (key.0 == ROLE).then_some(&value.0))?;
            (!role.is_empty()).then_some(role)
        })
        .collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn address(status: &NodeStatus<'_>, type_: &str) -> String {
    let found = status.addresses.0.iter().find(|has| has.type_.0 == type_);
    found.map_or_else(|| "<none>".to_owned(), |has| has.address.0.to_string())
}

#[derive(Deserialize)]
struct NodeWire<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "or_default")]
    spec: NodeSpec,
    #[serde(borrow, default, deserialize_with = "or_default")]
    status: NodeStatus<'a>,
}

#[derive(Deserialize)]
struct Labelled<'a> {
    #[serde(borrow)]
    labels: Option<Pairs<'a>>,
}

#[derive(Deserialize, Default)]
struct NodeSpec {
    unschedulable: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct NodeStatus<'a> {
    #[serde(borrow)]
    conditions: List<Condition<'a>>,
    #[serde(borrow)]
    addresses: List<Address<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    node_info: NodeInfo<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    type_: Borrowed<'a>,
    #[serde(borrow)]
    status: Borrowed<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Address<'a> {
    #[serde(borrow, rename = "type")]
    type_: Borrowed<'a>,
    #[serde(borrow)]
    address: Borrowed<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfo<'a> {
    #[serde(borrow)]
    kubelet_version: Borrowed<'a>,
    #[serde(borrow)]
    os_image: Borrowed<'a>,
    #[serde(borrow)]
    kernel_version: Borrowed<'a>,
    #[serde(borrow)]
    container_runtime_version: Borrowed<'a>,
    #[serde(borrow)]
    architecture: Borrowed<'a>,
}
