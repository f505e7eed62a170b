//! `/larder/v1/whois`: which pod and container a process, a container's ID or a cgroup belongs to.

use crate::access::{NodeClock, Reader};
use crate::error::ApiError;
use crate::freshness::AnswerFreshness;
use crate::params::Params;
use crate::wire::{Freshness, Owner, WhoisAnswer, WhoisPod, WhoisScope};
use axum::Json;
use axum::response::{IntoResponse as _, Response};
use larder_node::{Whois, WhoisTarget};
use larder_policy::Document;
use std::time::Duration;

/// How long a container that the runtime has not told of is waited for if the client gives no timeout.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The bounds of a timeout that a client gives.
const TIMEOUT_BOUNDS: (Duration, Duration) = (Duration::ZERO, Duration::from_mins(10));
/// The longest ID of a container, in bytes, with the runtime's name in front: twice as long as they are.
const LONGEST_ID: usize = 160;
/// The longest path of a cgroup, in bytes, as of any file (`PATH_MAX`).
const LONGEST_PATH: usize = 4096;

/// `/larder/v1/whois`.
pub(crate) async fn whois(reader: Reader, params: Params) -> Result<Response, ApiError> {
    let node = reader.document(Document::Whois, "whose a process is")?;
    let app = reader.app();
    params.only(&["pid", "containerID", "cgroup", "timeout"])?;
    let target = target(&params)?;
    let timeout = params.duration("timeout", TIMEOUT, TIMEOUT_BOUNDS)?;
    let found = tokio::select! {
        found = node.whois(&target, timeout) => found?,
        () = app.ending.cancelled() => return Err(ApiError::Ending),
    };
    let Whois::Pod(found) = found else {
        let answer = WhoisAnswer { scope: WhoisScope::Host, id: None, container: None, pod: None, freshness: None };
        return Ok(Json(answer).into_response());
    };
    reader.may_whois(&found)?;
    let freshness = found.read.freshness.map(|freshness| AnswerFreshness::held(freshness, found.read.why.clone()));
    let headers = freshness.map(|freshness| freshness.headers(reader.clock()));
    let body = Json(answer(reader.clock(), *found));
    Ok(match headers {
        Some(headers) => (headers, body).into_response(),
        None => body.into_response(),
    })
}

/// What is asked for: exactly one of the three.
fn target(params: &Params) -> Result<WhoisTarget, ApiError> {
    let (pid, container, cgroup) = (params.text("pid"), params.text("containerID"), params.text("cgroup"));
    match (pid, container, cgroup) {
        (Some(pid), None, None) => pid
            .parse()
            .map(WhoisTarget::Pid)
            .map_err(|_| ApiError::bad_parameter("pid", pid, "is not the ID of a process, a whole number".to_owned())),
        (None, Some(id), None) => Ok(WhoisTarget::Container(bounded("containerID", id, LONGEST_ID)?)),
        (None, None, Some(path)) if path.starts_with('/') => {
            Ok(WhoisTarget::Cgroup(bounded("cgroup", path, LONGEST_PATH)?))
        }
        (None, None, Some(path)) => {
            let problem = "is not the path of a cgroup: write it as /proc/PID/cgroup does, such as /kubepods/…";
            Err(ApiError::bad_parameter("cgroup", path, problem.to_owned()))
        }
        (None, None, None) => Err(ApiError::MissingParameter(&["pid", "containerID", "cgroup"])),
        _ => {
            let problem = "cannot be combined: give one of pid, containerID and cgroup";
            let (name, value) = container.map_or(("cgroup", cgroup), |id| ("containerID", Some(id)));
            Err(ApiError::bad_parameter(name, value.unwrap_or_default(), problem.to_owned()))
        }
    }
}

/// A value that an error may quote.
fn bounded(name: &'static str, value: &str, most: usize) -> Result<String, ApiError> {
    if value.len() > most {
        return Err(ApiError::bad_parameter(name, value, format!("is longer than {most} bytes")));
    }
    Ok(value.to_owned())
}

fn answer(clock: NodeClock<'_>, found: larder_node::WhoisPod) -> WhoisAnswer {
    let runtime_uid = found.read.uid.to_string();
    let status = found.read.status.as_deref();
    let mut pod = WhoisPod {
        namespace: status.map(|status| status.namespace.clone()).unwrap_or_default(),
        name: status.map(|status| status.name.clone()).unwrap_or_default(),
        uid: runtime_uid.clone(),
        ..WhoisPod::default()
    };
    if let Some(known) = &found.pod {
        (pod.namespace, pod.name, pod.uid) =
            (known.namespace().to_owned(), known.name().to_owned(), known.uid().to_owned());
        pod.runtime_uid = (pod.uid != runtime_uid).then_some(runtime_uid);
        // A pod whose fields have other types than the API's is still told by its name.
        if let Ok(typed) = known.typed() {
            let owners = typed.metadata.owner_references.unwrap_or_default();
            pod.owner = owners.into_iter().find(|owner| owner.controller == Some(true)).map(|owner| Owner {
                api_version: owner.api_version,
                kind: owner.kind,
                name: owner.name,
                uid: owner.uid,
            });
            pod.service_account_name = typed.spec.and_then(|spec| spec.service_account_name).unwrap_or_default();
        }
    }
    WhoisAnswer {
        scope: if found.container.is_some() { WhoisScope::Container } else { WhoisScope::Sandbox },
        id: Some(found.id),
        container: found.container,
        pod: Some(pod),
        freshness: found.read.freshness.map(|freshness| Freshness::of(clock, &freshness, found.read.why.as_deref())),
    }
}
