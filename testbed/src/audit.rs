//! What the API server was asked, by its own audit log: the reference for how many requests a client makes.

use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// What the API server writes down: every request for what larder reads or passes on in a test, once it has ended (a watch also as it starts).
pub(crate) const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  resources:
  - group: \"\"
    resources: [secrets, configmaps, pods, pods/attach, pods/exec, pods/log, pods/portforward, nodes]
  - group: apps
    resources: [deployments]
- level: None
";

/// One request that the API server served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asked, such as `system:node:NAME`.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, ...
    pub verb: String,
    /// Plural and lower case, such as `secrets`.
    pub resource: String,
    /// Empty for all namespaces.
    pub namespace: String,
    /// Empty for lists.
    pub name: String,
    /// The path with its query.
    pub uri: String,
    /// The HTTP status.
    pub code: u16,
    /// A watch is written down when it starts (false) and when it ends (true); any other request when it ends.
    pub ended: bool,
}

impl Request {
    /// Whether a read was allowed to come from the API server's own cache (`resourceVersion=0`).
    pub fn is_from_cache(&self) -> bool {
        let query = self.uri.split_once('?').map_or("", |(_, query)| query);
        query.split('&').any(|pair| pair == "resourceVersion=0")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: User,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

/// Reads the requests in an audit log, in the order in which they were written.
pub(crate) fn read(log: &Path) -> Result<Vec<Request>> {
    let text = fs::read_to_string(log).with_context(|| format!("read the audit log {}", log.display()))?;
    // The last line may be half written.
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    complete.lines().map(|line| parse(line).with_context(|| format!("audit log line {line}"))).collect()
}

fn parse(line: &str) -> Result<Request> {
    let event: Event = serde_json::from_str(line)?;
    Ok(Request {
        user: event.user.username,
        verb: event.verb,
        resource: event.object_ref.resource,
        namespace: event.object_ref.namespace,
        name: event.object_ref.name,
        uri: event.request_uri,
        code: event.response_status.code,
        ended: event.stage != "ResponseStarted",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_a_request() {
        let line = r#"{"stage":"ResponseComplete","requestURI":"/api/v1/namespaces/a/secrets/x?resourceVersion=0",
            "verb":"get","user":{"username":"system:node:n"},"objectRef":{"resource":"secrets","namespace":"a","name":"x"},
            "responseStatus":{"code":200}}"#;
        let request = parse(line).unwrap();
        assert_eq!((request.verb.as_str(), request.name.as_str(), request.code), ("get", "x", 200));
        assert!(request.is_from_cache() && request.ended);
        let consistent = Request { uri: "/api/v1/namespaces/a/secrets/x?resourceVersion=01".into(), ..request };
        assert!(!consistent.is_from_cache());
    }
}
