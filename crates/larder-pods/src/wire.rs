//! What is read of a pod's JSON.

use larder_resource::json::{Borrowed, Fields, Strict};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The fields of an object, in their order.
pub(crate) type Raw<'a> = Vec<(Borrowed<'a>, &'a RawValue)>;

/// The value of a field; of one that stands twice, the last.
pub(crate) fn field<'a>(fields: &Raw<'a>, name: &str) -> Option<&'a RawValue> {
    fields.iter().rev().find(|(has, _)| has.0 == name).map(|(_, value)| *value).filter(|value| value.get() != "null")
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Meta<'a> {
    #[serde(borrow, default)]
    pub(crate) annotations: Annotations<'a>,
    #[serde(borrow)]
    pub(crate) deletion_timestamp: Option<&'a RawValue>,
    pub(crate) generation: Option<i64>,
}

/// The annotations that count here.
#[derive(Default)]
pub(crate) struct Annotations<'a> {
    /// Where the kubelet has the pod from.
    pub(crate) source: Option<Borrowed<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Annotations<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Known<'a> {
            #[serde(borrow, rename = "kubernetes.io/config.source")]
            source: Option<Borrowed<'a>>,
        }
        let known = Option::<Strict<Known<'a>>>::deserialize(deserializer)?;
        Ok(Self { source: known.and_then(|Strict(known)| known.source) })
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec<'a> {
    #[serde(borrow, default, deserialize_with = "list")]
    pub(crate) containers: Vec<Container<'a>>,
    #[serde(borrow, default, deserialize_with = "list")]
    pub(crate) init_containers: Vec<Container<'a>>,
    #[serde(borrow, default, deserialize_with = "list")]
    pub(crate) ephemeral_containers: Vec<Container<'a>>,
    #[serde(borrow, default)]
    pub(crate) restart_policy: Borrowed<'a>,
    #[serde(borrow, default, deserialize_with = "list")]
    pub(crate) readiness_gates: Vec<ReadinessGate<'a>>,
    pub(crate) host_network: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Container<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Borrowed<'a>,
    #[serde(borrow, default)]
    pub(crate) image: Borrowed<'a>,
    #[serde(borrow, default)]
    pub(crate) restart_policy: Borrowed<'a>,
    #[serde(borrow, default, deserialize_with = "list")]
    pub(crate) restart_policy_rules: Vec<RestartRule<'a>>,
    #[serde(borrow)]
    pub(crate) readiness_probe: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) startup_probe: Option<&'a RawValue>,
}

impl Container<'_> {
    /// Whether it is a sidecar, if it is an init container.
    pub(crate) fn is_sidecar(&self) -> bool {
        self.restart_policy.0 == "Always"
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RestartRule<'a> {
    #[serde(borrow, default)]
    pub(crate) action: Borrowed<'a>,
    #[serde(borrow)]
    pub(crate) exit_codes: Option<Strict<ExitCodes<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct ExitCodes<'a> {
    #[serde(borrow, default)]
    pub(crate) operator: Borrowed<'a>,
    #[serde(default, deserialize_with = "numbers")]
    pub(crate) values: Vec<i64>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReadinessGate<'a> {
    #[serde(borrow, default)]
    pub(crate) condition_type: Borrowed<'a>,
}

/// The status of a container in the API.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerStatus<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Borrowed<'a>,
    #[serde(borrow)]
    pub(crate) state: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) last_state: Option<&'a RawValue>,
    pub(crate) ready: Option<bool>,
    pub(crate) started: Option<bool>,
    pub(crate) restart_count: Option<i64>,
    #[serde(borrow, default)]
    pub(crate) image: Borrowed<'a>,
    #[serde(borrow, default, rename = "imageID")]
    pub(crate) image_id: Borrowed<'a>,
    #[serde(borrow, default, rename = "containerID")]
    pub(crate) container_id: Borrowed<'a>,
}

#[derive(Deserialize, Default)]
pub(crate) struct State<'a> {
    #[serde(borrow)]
    pub(crate) waiting: Option<Strict<Waiting<'a>>>,
    pub(crate) running: Option<Strict<Running>>,
    #[serde(borrow)]
    pub(crate) terminated: Option<Strict<Terminated<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct Waiting<'a> {
    #[serde(borrow, default)]
    pub(crate) reason: Borrowed<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Running {
    pub(crate) started_at: Option<jiff::Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Terminated<'a> {
    #[serde(default)]
    pub(crate) exit_code: Option<i64>,
    #[serde(borrow, default)]
    pub(crate) reason: Borrowed<'a>,
    pub(crate) started_at: Option<jiff::Timestamp>,
    pub(crate) finished_at: Option<jiff::Timestamp>,
    #[serde(borrow, default, rename = "containerID")]
    pub(crate) container_id: Borrowed<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(crate) type_: Borrowed<'a>,
    #[serde(borrow, default)]
    pub(crate) status: Borrowed<'a>,
    #[serde(borrow, default)]
    pub(crate) reason: Borrowed<'a>,
    #[serde(borrow, default)]
    pub(crate) message: Borrowed<'a>,
    #[serde(borrow)]
    pub(crate) last_transition_time: Option<&'a RawValue>,
    pub(crate) observed_generation: Option<i64>,
}

/// A list of objects; `null` is an empty one.
fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let list = Option::<Vec<Strict<T>>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(list.into_iter().map(|Strict(element)| element).collect())
}

fn numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<i64>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The elements of a list in a field, each as it stands; `null` and a missing field are an empty list.
pub(crate) fn elements(value: Option<&RawValue>) -> Result<Vec<&RawValue>, serde_json::Error> {
    value.map_or(Ok(Vec::new()), |value| serde_json::from_str(value.get()))
}

/// Reads a struct from an object; its default where there is none.
pub(crate) fn object<'a, T: Deserialize<'a> + Default>(value: Option<&'a RawValue>) -> Result<T, serde_json::Error> {
    let read = value.map(|value| serde_json::from_str::<Strict<T>>(value.get())).transpose()?;
    Ok(read.map(|Strict(read)| read).unwrap_or_default())
}

/// The fields of an object; none where there is none.
pub(crate) fn fields<'a>(value: Option<&'a RawValue>) -> Result<Raw<'a>, serde_json::Error> {
    let read = value.map(|value| serde_json::from_str::<Fields<'a>>(value.get())).transpose()?;
    Ok(read.map(|Fields(fields)| fields).unwrap_or_default())
}

/// A text that is borrowed again.
pub(crate) fn again<'a>(text: &'a Borrowed<'_>) -> Cow<'a, str> {
    Cow::Borrowed(&text.0)
}
