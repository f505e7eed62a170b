//! Field selectors, and what selectors see of an object.

use super::{LabelSelector, SelectorError, malformed};
use crate::kind::Kind;
use crate::object::KubeObject;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::fmt;

/// A field selector such as `metadata.name=db,status.phase!=Running`, for one kind.
///
/// Each kind has the fields by which the API server selects (`ToSelectableFields` in `pkg/registry/core/*/strategy.go`). A
/// value may have escaped commas, equals signs and backslashes (`\,`).
///
/// ```
/// use larder_resource::selector::FieldSelector;
/// use larder_resource::{Kind, KubeObject};
///
/// let selector = FieldSelector::parse("status.phase=Running", Kind::Pod)?;
/// let pod = KubeObject::from_json(Kind::Pod, br#"{"metadata":{"name":"a"},"status":{"phase":"Running"}}"#)?;
/// assert!(selector.matches(&pod));
/// assert!(FieldSelector::parse("status.phase=Running", Kind::Secret).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    field: &'static str,
    equal: bool,
    value: String,
}

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";
const NODE_NAME: &str = "spec.nodeName";
const PHASE: &str = "status.phase";

/// The fields of a kind besides name and namespace.
const fn fields_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Secret => &["type"],
        Kind::ConfigMap => &[],
        Kind::Pod => &[
            NODE_NAME,
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            PHASE,
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        Kind::Node => &["spec.unschedulable"],
        Kind::Namespace => &[PHASE],
    }
}

impl FieldSelector {
    /// # Errors
    ///
    /// The text is not a selector, or names a field by which objects of this kind are not selected.
    pub fn parse(text: &str, kind: Kind) -> Result<Self, SelectorError> {
        let terms = split_unescaped(text);
        let requirements = terms.into_iter().filter(|term| !term.is_empty()).map(|term| requirement(term, kind));
        Ok(Self { requirements: requirements.collect::<Result<_, _>>()? })
    }

    /// Whether it selects every object.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether it selects by namespace and name alone.
    pub fn is_of_name(&self) -> bool {
        self.requirements.iter().all(|requirement| matches!(requirement.field, NAME | NAMESPACE))
    }

    /// The name that each selected object has, if the selector names one.
    pub fn name(&self) -> Option<&str> {
        self.required(NAME)
    }

    /// The namespace that each selected object has, if the selector names one.
    pub fn namespace(&self) -> Option<&str> {
        self.required(NAMESPACE)
    }

    /// The node that each selected pod is on, if the selector names one.
    ///
    /// ```
    /// use larder_resource::Kind;
    /// use larder_resource::selector::FieldSelector;
    ///
    /// let selector = FieldSelector::parse("spec.nodeName=node-1,metadata.name!=db", Kind::Pod)?;
    /// assert_eq!((selector.node_name(), selector.name(), selector.namespace()), (Some("node-1"), None, None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn node_name(&self) -> Option<&str> {
        self.required(NODE_NAME)
    }

    fn required(&self, field: &str) -> Option<&str> {
        let required = |requirement: &&Requirement| requirement.equal && requirement.field == field;
        self.requirements.iter().find(required).map(|requirement| &*requirement.value)
    }

    /// Whether an object of that namespace and name can be selected, as far as these two tell.
    pub fn may_match(&self, namespace: &str, name: &str) -> bool {
        self.requirements.iter().all(|requirement| match requirement.field {
            NAME => requirement.holds(name),
            NAMESPACE => requirement.holds(namespace),
            _ => true,
        })
    }

    /// Whether an object is selected.
    pub fn matches(&self, object: &KubeObject) -> bool {
        let mut fields = None;
        self.requirements.iter().all(|requirement| match requirement.field {
            NAME => requirement.holds(object.name()),
            NAMESPACE => requirement.holds(object.namespace()),
            field => requirement.holds(value(fields.get_or_insert_with(|| Fields::of(object)), field)),
        })
    }
}

impl Requirement {
    fn holds(&self, value: &str) -> bool {
        (self.value == value) == self.equal
    }
}

/// The parts between the commas that no backslash escapes.
fn split_unescaped(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn requirement(term: &str, kind: Kind) -> Result<Requirement, SelectorError> {
    // The first operator counts. A field has none of these characters.
    let at = term.find(['=', '!']).ok_or_else(|| malformed(term, "expected '=', '==' or '!='"))?;
    let (field, rest) = term.split_at(at);
    let (equal, value) = if let Some(value) = rest.strip_prefix("!=") {
        (false, value)
    } else if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
        (true, value)
    } else {
        return Err(malformed(term, "expected '=', '==' or '!='"));
    };
    // As at the API server, a space is part of the name.
    let known = [NAME, NAMESPACE].into_iter().filter(|known| kind.is_namespaced() || *known == NAME);
    let field = known
        .chain(fields_of(kind).iter().copied())
        .find(|known| *known == field || (field == "spec.host" && *known == NODE_NAME))
        .ok_or_else(|| SelectorError::UnknownField { field: field.chars().take(200).collect(), kind })?;
    Ok(Requirement { field, equal, value: unescaped(value, term)? })
}

/// A value without its escapes, as `UnescapeValue` of apimachinery reads it.
fn unescaped(value: &str, term: &str) -> Result<String, SelectorError> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                _ => return Err(malformed(term, "a backslash escapes a backslash, a comma or an equals sign")),
            },
            ',' | '=' => return Err(malformed(term, "an equals sign or comma in a value needs a backslash")),
            other => out.push(other),
        }
    }
    Ok(out)
}

impl SelectorError {
    pub(super) fn fields_of(kind: Kind) -> String {
        let all = [NAME].into_iter().chain(kind.is_namespaced().then_some(NAMESPACE));
        all.chain(fields_of(kind).iter().copied()).collect::<Vec<_>>().join(", ")
    }
}

/// What selectors see of an object: its labels, and the fields of its kind.
pub struct Selectable {
    namespace: Box<str>,
    name: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    fields: Fields,
}

impl Selectable {
    /// That of an object.
    pub fn of(object: &KubeObject) -> Self {
        Self {
            namespace: object.namespace().into(),
            name: object.name().into(),
            labels: object.labels().map(|(key, value)| (key.into(), value.into())).collect(),
            fields: Fields::of(object),
        }
    }

    /// What selectors saw of a part of the object that shows only labels that `shows` names. `now` is a later state of that part, whose
    /// fields are taken: a part shows no field that changes.
    ///
    /// ```
    /// use larder_resource::selector::{FieldSelector, LabelSelector, Selectable};
    /// use larder_resource::{Kind, KubeObject};
    ///
    /// let node = |json: &str| KubeObject::from_json(Kind::Node, json.as_bytes()).map(|node| Selectable::of(&node));
    /// let before = node(r#"{"metadata":{"name":"a","labels":{"os":"linux","team":"a"}},"spec":{"unschedulable":true}}"#)?;
    /// let now = node(r#"{"metadata":{"name":"a","labels":{"os":"linux"}}}"#)?;
    /// let part = before.part(&now, |label| label == "os");
    /// let selects = |labels: &str, fields: &str| {
    ///     let fields = FieldSelector::parse(fields, Kind::Node).unwrap();
    ///     part.is_selected(&labels.parse::<LabelSelector>().unwrap(), &fields)
    /// };
    /// assert!(selects("os=linux", "") && !selects("team=a", "") && !selects("", "spec.unschedulable=true"));
    /// # Ok::<(), larder_resource::DecodeError>(())
    /// ```
    #[must_use]
    pub fn part(&self, now: &Self, shows: impl Fn(&str) -> bool) -> Self {
        Self {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            labels: self.labels.iter().filter(|(key, _)| shows(key)).cloned().collect(),
            fields: Fields(now.fields.0.clone()),
        }
    }

    /// Whether both selectors select it.
    pub fn is_selected(&self, labels: &LabelSelector, fields: &FieldSelector) -> bool {
        fields.requirements.iter().all(|requirement| match requirement.field {
            NAME => requirement.holds(&self.name),
            NAMESPACE => requirement.holds(&self.namespace),
            field => requirement.holds(value(&self.fields, field)),
        }) && labels.matches(|key| self.labels.iter().find_map(|(has, value)| (**has == *key).then_some(&**value)))
    }
}

impl fmt::Debug for Selectable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Selectable({}/{})", self.namespace, self.name)
    }
}

/// The values of the fields of a kind, without those that are empty.
struct Fields(Box<[(&'static str, Box<str>)]>);

fn value<'f>(fields: &'f Fields, field: &str) -> &'f str {
    fields.0.iter().find_map(|(has, value)| (*has == field).then_some(&**value)).unwrap_or_default()
}

impl Fields {
    fn of(object: &KubeObject) -> Self {
        let fields: Vec<(&'static str, Cow<'_, str>)> = match object.kind() {
            Kind::Secret => vec![("type", object.type_().into())],
            Kind::ConfigMap => Vec::new(),
            Kind::Node => {
                let node: Wire<NodeSpec, IgnoredAny> = serde_json::from_slice(&object.json()).unwrap_or_default();
                let unschedulable = node.spec.unwrap_or_default().unschedulable.unwrap_or_default();
                vec![("spec.unschedulable", unschedulable.to_string().into())]
            }
            Kind::Namespace => {
                let namespace: Wire<IgnoredAny, PodStatus> = serde_json::from_slice(&object.json()).unwrap_or_default();
                vec![(PHASE, namespace.status.unwrap_or_default().phase.unwrap_or_default().into())]
            }
            Kind::Pod => {
                let pod: Wire<PodSpec, PodStatus> = serde_json::from_slice(&object.json()).unwrap_or_default();
                let (spec, status) = (pod.spec.unwrap_or_default(), pod.status.unwrap_or_default());
                let text = |value: Option<String>| Cow::from(value.unwrap_or_default());
                vec![
                    (NODE_NAME, text(spec.node_name)),
                    ("spec.restartPolicy", text(spec.restart_policy)),
                    ("spec.schedulerName", text(spec.scheduler_name)),
                    ("spec.serviceAccountName", text(spec.service_account_name)),
                    ("spec.hostNetwork", spec.host_network.unwrap_or_default().to_string().into()),
                    (PHASE, text(status.phase)),
                    ("status.podIP", text(status.pod_ip)),
                    ("status.nominatedNodeName", text(status.nominated_node_name)),
                ]
            }
        };
        Self(
            fields
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| (name, value.into()))
                .collect(),
        )
    }
}

/// An object whose fields are not of their types is selected as one that lacks them.
#[derive(Deserialize)]
struct Wire<Spec, Status> {
    spec: Option<Spec>,
    status: Option<Status>,
}

impl<Spec, Status> Default for Wire<Spec, Status> {
    fn default() -> Self {
        Self { spec: None, status: None }
    }
}

#[derive(Deserialize, Default)]
struct NodeSpec {
    unschedulable: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    node_name: Option<String>,
    restart_policy: Option<String>,
    scheduler_name: Option<String>,
    service_account_name: Option<String>,
    host_network: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct PodStatus {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    nominated_node_name: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(json: &str) -> KubeObject {
        KubeObject::from_json(Kind::Pod, json.as_bytes()).unwrap()
    }

    /// Both ways of matching, which must agree.
    fn is_selected(selector: &str, object: &KubeObject) -> bool {
        let selector = FieldSelector::parse(selector, object.kind()).unwrap();
        let matches = selector.matches(object);
        assert_eq!(matches, Selectable::of(object).is_selected(&LabelSelector::default(), &selector));
        assert!(!matches || selector.may_match(object.namespace(), object.name()));
        matches
    }

    #[test]
    fn objects_are_selected_by_the_fields_of_their_kind() {
        let running = pod(
            r#"{"metadata":{"namespace":"web","name":"a"},"spec":{"nodeName":"n","restartPolicy":"Always","hostNetwork":true},
            "status":{"phase":"Running","podIP":"10.0.0.1"}}"#,
        );
        for (selector, expected) in [
            ("", true),
            ("metadata.name=a,metadata.namespace!=x", true),
            ("metadata.name==b", false),
            ("spec.nodeName=n,status.phase=Running", true),
            ("spec.host=n", true),
            ("status.phase!=Running", false),
            ("spec.hostNetwork=true,status.podIP=10.0.0.1,status.podIPs=", true),
            ("status.nominatedNodeName=", true),
            ("spec.restartPolicy!=Never,,", true),
        ] {
            assert_eq!(is_selected(selector, &running), expected, "{selector}");
        }
        let secret = KubeObject::from_json(Kind::Secret, br#"{"metadata":{"name":"a"},"type":"Opaque"}"#).unwrap();
        assert!(is_selected("type=Opaque", &secret) && !is_selected("type!=Opaque", &secret));
        let node = br#"{"metadata":{"name":"n"},"spec":{"unschedulable":true},"status":{"nodeInfo":{}}}"#;
        let node = KubeObject::from_json(Kind::Node, node).unwrap();
        assert!(is_selected("spec.unschedulable=true", &node) && !is_selected("metadata.name=m", &node));
        let namespace =
            br#"{"metadata":{"name":"web"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#;
        let namespace = KubeObject::from_json(Kind::Namespace, namespace).unwrap();
        assert!(is_selected("status.phase=Active,metadata.name=web", &namespace));
        assert!(!is_selected("status.phase=Terminating", &namespace));
        let odd = pod(r#"{"metadata":{"name":"a"},"spec":{"nodeName":7},"status":null}"#);
        assert!(is_selected("spec.nodeName=", &odd));
    }

    #[test]
    fn what_is_not_a_field_selector_of_the_kind_is_refused_by_name() {
        for (selector, kind) in [
            ("status.phase=Running", Kind::ConfigMap),
            ("spec.nodeName=n", Kind::Node),
            ("metadata.namespace=x", Kind::Node),
            ("metadata.namespace=x", Kind::Namespace),
            ("metadata.name", Kind::Pod),
            ("metadata.name!a", Kind::Pod),
            ("metadata.name=a=b", Kind::Pod),
            (" metadata.name=a", Kind::Pod),
            ("metadata.name =a", Kind::Pod),
            ("metadata.name=a, metadata.namespace=b", Kind::Pod),
            (r"metadata.name=a\b", Kind::Pod),
            (r"metadata.name=a\", Kind::Pod),
        ] {
            assert!(FieldSelector::parse(selector, kind).is_err(), "{selector}");
        }
        let error = FieldSelector::parse("spec.foo=1", Kind::Secret).unwrap_err().to_string();
        assert_eq!(
            error,
            "field label not supported: \"spec.foo\": secrets are selected by metadata.name, metadata.namespace, type"
        );
    }

    #[test]
    fn values_may_be_escaped() {
        let selector = FieldSelector::parse(r"metadata.name=a\,b\=c\\", Kind::Pod).unwrap();
        assert!(selector.may_match("", r"a,b=c\") && !selector.may_match("", "a"));
    }
}
