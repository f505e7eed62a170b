//! When two answers mean the same.

use serde_json::{Map, Value};

/// Settings of a client.
pub(super) fn kubeconfigs(original: &Value, ours: &Value) -> bool {
    let tidy = |answer: &Value| {
        let mut answer = bare(answer.clone());
        if let Some(server) = answer.get_mut("server") {
            *server = server.as_str().unwrap_or_default().trim_end_matches('/').into();
        }
        answer
    };
    tidy(original) == tidy(ours)
}

/// Whether requests can be sent to the server of these settings, through their proxy.
pub(super) fn can_be_reached(settings: &Value) -> bool {
    let is = |field: &str, schemes: &[&str]| settings[field].as_str().is_none_or(|url| is_address(url, schemes));
    is("server", &["https://", "http://"]) && is("proxy", &["https://", "http://", "socks5://"])
}

fn is_address(url: &str, schemes: &[&str]) -> bool {
    let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme)).unwrap_or_default();
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, after)) => (host, after.strip_prefix(':')),
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-') || (c == ':' && place.starts_with('['));
    !host.is_empty()
        && host.chars().all(is_host)
        && port.is_none_or(|port| port.is_empty() || port.parse::<u16>().is_ok())
}

/// Objects, whose quantities may be written in several ways. Larder leaves away what a manifest cannot decide.
pub(super) fn objects(original: &Value, ours: &Value) -> bool {
    let tidy = |answer: &Value| {
        let mut answer = answer.clone();
        if let Some(metadata) = answer.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
            if metadata.get("namespace").is_none_or(|namespace| namespace == "" || namespace == "default") {
                metadata.remove("namespace");
            }
        }
        bare(answer)
    };
    equal(&tidy(original), &tidy(ours))
}

/// The value without fields that have their zero value, which the one writes and the other leaves away.
fn bare(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, bare(value)));
            let is_zero = |value: &Value| match value {
                Value::Null | Value::Bool(false) => true,
                Value::Bool(true) => false,
                Value::Number(number) => number.as_f64() == Some(0.0),
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::Object(fields) => fields.is_empty(),
            };
            fields.filter(|(_, value)| !is_zero(value)).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.into_iter().map(bare).collect(),
        value => value,
    }
}

fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| equal(value, other)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::String(one), Value::String(other)) => {
            one == other || quantity(one).is_some_and(|one| quantity(other) == Some(one))
        }
        (one, other) => one == other,
    }
}

/// A quantity's value, in billionths.
fn quantity(text: &str) -> Option<i128> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    // A suffix alone is nothing of its unit.
    let digits: i128 = if matches!(digits.as_str(), "" | "+" | "-") { 0 } else { digits.parse().ok()? };
    let tens = |power: i32| 10_i128.checked_pow(u32::try_from(power).ok()?);
    let scale = match suffix {
        "n" => tens(0)?,
        "u" => tens(3)?,
        "m" => tens(6)?,
        "" => tens(9)?,
        "k" => tens(12)?,
        "M" => tens(15)?,
        "G" => tens(18)?,
        "T" => tens(21)?,
        "P" => tens(24)?,
        "E" => tens(27)?,
        "Ki" => tens(9)? << 10,
        "Mi" => tens(9)? << 20,
        "Gi" => tens(9)? << 30,
        "Ti" => tens(9)? << 40,
        "Pi" => tens(9)? << 50,
        "Ei" => tens(9)? << 60,
        _ => tens(9 + suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?)?,
    };
    Some(digits.checked_mul(scale)? / 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)
}
