//! Label and field selectors, as a list or watch request carries them.

use super::object::{Key, Kind, Record};

/// Which objects a list or watch is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Empty for all namespaces.
    pub(crate) namespace: String,
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    field: String,
    equal: bool,
    value: String,
}

impl Filter {
    /// All objects of a namespace; of all, if it is empty.
    pub(crate) fn namespace(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..Self::default() }
    }

    /// Reads both selectors; the error is the message for the client.
    pub(crate) fn parse(kind: Kind, namespace: &str, labels: &str, fields: &str) -> Result<Self, String> {
        let labels = split_outside_parentheses(labels).into_iter().map(parse_label).collect::<Result<_, _>>()?;
        let fields = fields
            .split(',')
            .filter(|part| !part.trim().is_empty())
            .map(|part| parse_field(kind, part.trim()))
            .collect::<Result<_, _>>()?;
        Ok(Self { namespace: namespace.to_owned(), labels, fields })
    }

    pub(crate) fn matches(&self, record: &Record) -> bool {
        (self.namespace.is_empty() || record.key.namespace == self.namespace)
            && self.labels.iter().all(|requirement| requirement.matches(record))
            && self.fields.iter().all(|r| (record.field(&r.field).unwrap_or_default() == r.value) == r.equal)
    }

    /// The one object that can match, where the selector names it.
    pub(crate) fn only_key(&self) -> Option<Key> {
        let name = self.required_field("metadata.name").filter(|_| !self.namespace.is_empty())?;
        Some(Key::new(&self.namespace, name))
    }

    /// The value that a field must have, where the selector names just one.
    pub(crate) fn required_field(&self, field: &str) -> Option<&str> {
        self.fields.iter().find(|r| r.equal && r.field == field).map(|r| r.value.as_str())
    }
}

impl Requirement {
    fn matches(&self, record: &Record) -> bool {
        match self {
            Self::In(label, values) => record.label(label).is_some_and(|value| values.iter().any(|v| v == value)),
            Self::NotIn(label, values) => !record.label(label).is_some_and(|value| values.iter().any(|v| v == value)),
            Self::Exists(label) => record.label(label).is_some(),
            Self::Absent(label) => record.label(label).is_none(),
        }
    }
}

/// The parts between commas, but not those within the parentheses of a set.
fn split_outside_parentheses(selector: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    selector
        .split(|c: char| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        })
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

fn parse_label(part: &str) -> Result<Requirement, String> {
    let unreadable = || format!("unable to parse requirement: {part:?}");
    let set = |values: &str| -> Option<Vec<String>> {
        let inner = values.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(inner.split(',').map(|value| value.trim().to_owned()).collect())
    };
    if let Some((label, values)) = part.split_once(" notin ") {
        return Ok(Requirement::NotIn(label.trim().into(), set(values).ok_or_else(unreadable)?));
    }
    if let Some((label, values)) = part.split_once(" in ") {
        return Ok(Requirement::In(label.trim().into(), set(values).ok_or_else(unreadable)?));
    }
    if let Some((label, value)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(label.trim().into(), vec![value.trim().into()]));
    }
    if let Some((label, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Requirement::In(label.trim().into(), vec![value.trim().into()]));
    }
    if part.contains(|c: char| c.is_whitespace() || "()<>".contains(c)) {
        return Err(unreadable());
    }
    Ok(match part.strip_prefix('!') {
        Some(label) => Requirement::Absent(label.trim().into()),
        None => Requirement::Exists(part.into()),
    })
}

fn parse_field(kind: Kind, part: &str) -> Result<FieldRequirement, String> {
    let (field, equal, value) = if let Some((field, value)) = part.split_once("!=") {
        (field, false, value)
    } else if let Some((field, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (field, true, value)
    } else {
        return Err(format!("invalid selector: '{part}'; can't understand '{part}'"));
    };
    let known = match field {
        "metadata.name" => true,
        "metadata.namespace" => kind.is_namespaced(),
        "spec.nodeName" => kind == Kind::Pod,
        "status.phase" => matches!(kind, Kind::Pod | Kind::Namespace),
        "type" => kind == Kind::Secret,
        _ => false,
    };
    if !known {
        return Err(format!("field label not supported: {field}"));
    }
    Ok(FieldRequirement { field: field.into(), equal, value: value.into() })
}

#[cfg(test)]
mod tests {
    use super::super::object::Key;
    use super::*;
    use serde_json::json;

    fn pod() -> Record {
        let json = json!({
            "metadata": {"name": "web-0", "namespace": "shop", "labels": {"app": "web", "tier": "front"}},
            "spec": {"nodeName": "n1"},
            "status": {"phase": "Running"},
        });
        let serde_json::Value::Object(json) = json else { unreachable!("written as an object") };
        Record::new(Kind::Pod, Key::new("shop", "web-0"), 1, json, tokio::time::Instant::now())
    }

    fn check(labels: &str, fields: &str, expected: bool) {
        let filter = Filter::parse(Kind::Pod, "", labels, fields).expect("a good selector");
        assert_eq!(filter.matches(&pod()), expected, "labels {labels:?}, fields {fields:?}");
    }

    #[test]
    fn selectors_choose_as_the_api_server_does() {
        for (labels, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier=front", true),
            ("app=api", false),
            ("app!=api", true),
            ("other!=x", true),
            ("app in (api, web)", true),
            ("app in (api),tier", false),
            ("app notin (api,db),tier", true),
            ("!app", false),
            ("!other", true),
            ("tier", true),
        ] {
            check(labels, "", expected);
        }
        for (fields, expected) in [
            ("metadata.name=web-0", true),
            ("metadata.name=web-1", false),
            ("spec.nodeName=n1,metadata.namespace=shop", true),
            ("spec.nodeName!=n1", false),
            ("status.phase==Running", true),
        ] {
            check("", fields, expected);
        }
    }

    #[test]
    fn selectors_that_mean_nothing_are_refused() {
        for (labels, fields) in [("app in web", ""), ("a b", ""), ("", "spec.hostNetwork=true"), ("", "metadata.name")]
        {
            assert!(Filter::parse(Kind::Pod, "", labels, fields).is_err(), "labels {labels:?}, fields {fields:?}");
        }
        assert!(Filter::parse(Kind::Secret, "", "", "spec.nodeName=n1").is_err(), "only pods are on a node");
    }
}
