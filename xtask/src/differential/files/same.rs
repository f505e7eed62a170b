//! When two answers mean the same.

use serde_json::{Map, Value};
use std::net::IpAddr;

/// Whether a side does not take a file.
pub(super) fn is_refused(answer: &Value) -> bool {
    answer.get("refused").is_some()
}

/// Two answers to a kubeconfig: taken by both with the same settings, refused by both, taken by larder alone because only blanks
/// around a token keep client-go from sending it, or refused by larder alone because it says at the start what client-go meets
/// at its first request, or because ring does not have a kind of key.
pub(super) fn kubeconfigs(original: &Value, ours: &Value) -> bool {
    if is_refused(original) {
        // Larder sends a token without the blanks around it. client-go sends them, and no header can have the end of a line.
        let has_blanks = ours["token"].as_str().is_some_and(|token| token.trim().len() < token.len());
        return is_refused(ours) || (has_blanks && original["refused"] == NO_HEADER);
    }
    if !can_be_reached(original) {
        // client-go takes any text for a host, and any scheme, and fails at the first request.
        return is_refused(ours) || same_settings(original, ours);
    }
    match (unusable(original), ours["refused"].as_str()) {
        (Some((begin, end)), Some(refusal)) => {
            let said = refusal.strip_prefix("kubeconfig /").and_then(|text| text.split_once(": "));
            said.is_some_and(|(_, text)| text.starts_with(&begin) && text.ends_with(end))
        }
        (None, None) => same_settings(original, ours),
        _ => false,
    }
}

/// How client-go refuses a token that has the end of a line, at the first request.
const NO_HEADER: &str = "net/http: invalid header field value for \"Authorization\"";

/// How the refusal of what larder cannot use begins and ends. Larder looks at the name first, and at the authorities next.
fn unusable(original: &Value) -> Option<(String, &'static str)> {
    let name = original["server_name"].as_str().unwrap_or_default();
    if original["server"].as_str().is_some_and(|server| server.starts_with("https://")) && !is_name(name) {
        return Some((
            format!("{name:?} cannot be the name in a server's certificate"),
            "set tls-server-name to one that can",
        ));
    }
    let kinds = &original["key_kinds"];
    let place = |field: &str| match original[field]["file"].as_str() {
        Some(path) => path.to_owned(),
        None => "kubeconfig /".to_owned(),
    };
    let no_authorities = Vec::new();
    let authorities = kinds["authorities"].as_array().unwrap_or(&no_authorities);
    if !authorities.is_empty() && !authorities.iter().any(|kind| VERIFIES.contains(&kind.as_str().unwrap_or_default()))
    {
        let begin = format!("the certificate authority of {}", place("authorities"));
        return Some((begin, "issue the authority anew"));
    }
    if authorities.is_empty() && original["authorities"].is_object() {
        // client-go takes the system's authorities where the file is empty.
        let begin = format!("the certificate authority of {} is not a certificate in PEM", place("authorities"));
        return Some((begin, "write one there"));
    }
    let client = kinds["client"].as_str().filter(|kind| !kind.is_empty())?;
    if SIGNS.contains(&client) {
        return None;
    }
    Some((format!("the client key of {}", place("key")), "in PEM and without a password"))
}

/// Whether a certificate can be for that; empty is for the server's host.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        (1..=63).contains(&label.len())
            && label.chars().all(is_char)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let labels = name.strip_suffix('.').unwrap_or(name);
    let is_number = labels.rsplit('.').next().is_some_and(|last| last.chars().all(|c| c.is_ascii_digit()));
    name.is_empty() || name.parse::<IpAddr>().is_ok() || (!is_number && labels.split('.').all(is_label))
}

/// The kinds of keys that larder can verify signatures with, and those that it can sign with, in the oracle's words.
const VERIFIES: [&str; 6] = ["p256", "p384", "ed25519", "rsa2048", "rsa4096", "rsa4160"];
const SIGNS: [&str; 5] = ["p256", "p384", "ed25519", "rsa2048", "rsa4096"];

/// Settings of a client.
fn same_settings(original: &Value, ours: &Value) -> bool {
    let tidy = |answer: &Value| {
        let mut answer = bare(answer.clone());
        if let Some(fields) = answer.as_object_mut() {
            fields.remove("key_kinds");
        }
        for server in ["/server", "/exec_info/spec/cluster/server"] {
            if let Some(server) = answer.pointer_mut(server) {
                *server = server.as_str().unwrap_or_default().trim_end_matches('/').into();
            }
        }
        answer
    };
    tidy(original) == tidy(ours)
}

/// Whether requests can be sent to the server of these settings, through their proxy.
fn can_be_reached(settings: &Value) -> bool {
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

/// Two answers to a manifest.
pub(super) fn manifests(original: &Value, ours: &Value) -> bool {
    match (is_refused(original), is_refused(ours)) {
        (false, false) => same_objects(original, ours),
        (original, ours) => original == ours,
    }
}

/// Objects, whose quantities may be written in several ways. Larder leaves away what a manifest cannot decide.
fn same_objects(original: &Value, ours: &Value) -> bool {
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
