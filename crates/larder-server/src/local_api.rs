//! larder's own paths: the state of the daemon, the objects that it holds without their data, and the pods as the runtime reports
//! them.

use crate::access::{NodeClock, PodStatusOf, Reader};
use crate::app::Names;
use crate::error::ApiError;
use crate::freshness::AnswerFreshness;
use crate::kube_api::read_timeout;
use crate::params::Params;
use crate::wire::{
    Freshness, FreshnessState, ObjectEntries, ObjectEntry, ObjectMeta, PodStatusAnswer, PodStatusAnswers, RuntimeState,
};
use axum::Json;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use larder_node::{ObjectKind, PodStatusRead, ReadError, Report, SourceState, WaitError};
use larder_objects::ObjectKey;
use larder_resource::Kind;
use std::time::Duration;

/// How long a newer-than read waits if the client gives no timeout.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
/// The bounds of a timeout that a client gives.
const WAIT_TIMEOUT_BOUNDS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_mins(10));

/// `/larder/v1/status`.
pub(crate) async fn status(reader: Reader, params: Params) -> Result<Json<Report>, ApiError> {
    params.only(&["objects"])?;
    Ok(Json(reader.report(params.flag("objects"))?))
}

/// `/larder/v1/objects/{kind}`.
pub(crate) async fn list_entries(
    reader: Reader,
    Names(kind): Names<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let kind =
        ObjectKind::from_resource(&kind).ok_or_else(|| ApiError::UnknownPath(format!("/larder/v1/objects/{kind}")))?;
    params.only(&["namespace", "labelSelector", "fieldSelector", "timeout"])?;
    let (labels, fields) = (params.label_selector()?, params.field_selector(kind.kind())?);
    let namespace = params.text("namespace");
    let wanted = |key: &ObjectKey| {
        namespace.is_none_or(|namespace| namespace == key.namespace()) && fields.may_match(key.namespace(), key.name())
    };
    let timeout = read_timeout(&params)?;
    reader.may_list_some(kind, namespace)?;
    let mut list = reader.objects(kind, wanted, timeout).await?;
    list.items.retain(|answer| fields.matches(&answer.object) && labels.matches(|key| answer.object.label(key)));
    let freshness = AnswerFreshness::of_all(&list.items);
    let entry = |key: &ObjectKey, freshness| ObjectEntry {
        namespace: key.namespace().to_owned(),
        name: key.name().to_owned(),
        object: None,
        freshness,
    };
    let mut items: Vec<_> = list
        .items
        .iter()
        .map(|answer| ObjectEntry {
            object: Some(ObjectMeta::of(&answer.object)),
            ..entry(&answer.object.key(), Freshness::of_answer(reader.clock(), answer))
        })
        .collect();
    // An object that is absent has a name alone to select it by.
    if labels.is_empty() && fields.is_of_name() {
        items.extend(list.absent.iter().map(|(key, freshness)| entry(key, absent(reader.clock(), freshness))));
    }
    items.extend(list.unknown.iter().map(|(key, error)| entry(key, Freshness::unknown(why(error)))));
    items.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let mut response = Json(ObjectEntries { kind: kind.resource().to_owned(), items }).into_response();
    if let Some(freshness) = freshness {
        response.headers_mut().extend(freshness.headers(reader.clock()));
    }
    Ok(response)
}

fn absent(clock: NodeClock<'_>, freshness: &larder_objects::Freshness) -> Freshness {
    Freshness { state: FreshnessState::Absent, ..Freshness::of(clock, freshness, None) }
}

fn why(error: &ReadError) -> String {
    match error {
        ReadError::Unknown { why, .. } => why.clone(),
        other => other.to_string(),
    }
}

/// `/larder/v1/objects/{kind}/{namespace}/{name}`.
pub(crate) async fn get_entry(
    reader: Reader,
    Names((kind, namespace, name)): Names<(String, String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    let kind =
        ObjectKind::from_resource(&kind).ok_or_else(|| ApiError::UnknownPath(format!("/larder/v1/objects/{kind}")))?;
    params.only(&["timeout"])?;
    let timeout = read_timeout(&params)?;
    let answer = reader.one(kind.kind(), &namespace, &name)?.entry(timeout).await?;
    let freshness = AnswerFreshness::of(&answer);
    let entry = ObjectEntry {
        object: Some(ObjectMeta::of(&answer.object)),
        freshness: Freshness::of_answer(reader.clock(), &answer),
        namespace,
        name,
    };
    Ok((freshness.headers(reader.clock()), Json(entry)).into_response())
}

/// `/larder/v1/pods`.
pub(crate) async fn list_pod_statuses(reader: Reader, params: Params) -> Result<Response, ApiError> {
    params.only(&["namespace"])?;
    let namespace = params.text("namespace");
    let mut items: Vec<_> = reader.pod_statuses()?.iter().map(|read| answer(&reader, read)).collect();
    items.retain(|item| namespace.is_none_or(|namespace| namespace == item.namespace));
    Ok(Json(PodStatusAnswers { items, runtime: runtime_state(&reader) }).into_response())
}

/// `/larder/v1/pods/{uid}/status`.
pub(crate) async fn pod_status(
    reader: Reader,
    Names(uid): Names<String>,
    params: Params,
) -> Result<Response, ApiError> {
    read_status(&reader, &reader.pod_status(&uid)?, None, &params).await
}

/// `/larder/v1/namespaces/{namespace}/pods/{name}/status`.
pub(crate) async fn pod_status_by_name(
    reader: Reader,
    Names((namespace, name)): Names<(String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    let status = reader.pod_status_by_name(&namespace, &name)?;
    read_status(&reader, &status, Some((&namespace, &name)), &params).await
}

/// The pod's status: at once, as of a time after `newerThan`, or once it has been written after `changedAfter`.
async fn read_status(
    reader: &Reader,
    status: &PodStatusOf<'_>,
    pod: Option<(&str, &str)>,
    params: &Params,
) -> Result<Response, ApiError> {
    params.only(&["newerThan", "changedAfter", "timeout"])?;
    let timeout = params.duration("timeout", WAIT_TIMEOUT, WAIT_TIMEOUT_BOUNDS)?;
    let wait = match (params.instant("newerThan")?, params.instant("changedAfter")?) {
        (None, None) => None,
        (Some(time), None) => {
            let min = reader.clock().at_wall_time_read_elsewhere(time);
            Some(status.newer_than(min, timeout).boxed())
        }
        (None, Some(time)) => {
            // The time comes from an earlier answer.
            let min = reader.clock().at_wall_time(time);
            Some(status.changed_after(min, timeout).boxed())
        }
        (Some(_), Some(_)) => {
            let problem = "cannot be combined with newerThan".to_owned();
            return Err(ApiError::bad_parameter("changedAfter", params.text("changedAfter").unwrap_or(""), problem));
        }
    };
    let read = match wait {
        None => status.read()?,
        Some(wait) => tokio::select! {
            result = wait => result?.map_err(|error| wait_error(reader, &error))?,
            () = reader.app().ending.cancelled() => return Err(ApiError::Ending),
        },
    };
    let read = if read.is_there { read } else { absent_from_runtime(reader, pod, read)? };
    let body = Json(answer(reader, &read));
    Ok(match read.freshness {
        Some(freshness) => (
            AnswerFreshness::held(freshness, reader.told(read.why.as_deref()).map(str::to_owned))
                .headers(reader.clock()),
            body,
        )
            .into_response(),
        None => body.into_response(),
    })
}

/// Answers for a pod that the runtime does not have. If the pods' source has the pod, the answer has no status: the pod may be
/// about to start, or have ended. Otherwise the pod does not exist.
fn absent_from_runtime(
    reader: &Reader,
    pod: Option<(&str, &str)>,
    read: PodStatusRead,
) -> Result<PodStatusRead, ReadError> {
    let uid = read.uid.to_string();
    let Some(freshness) = read.freshness else {
        return Err(ReadError::runtime_not_listed(&uid));
    };
    if reader.pod_of(&read).is_some() {
        return Ok(read);
    }
    let key = pod.map_or_else(|| ObjectKey::new("", &uid), |(namespace, name)| ObjectKey::new(namespace, name));
    let age = freshness.age(reader.clock().now());
    Err(ReadError::NotFound { kind: Kind::Pod, key, freshness: Box::new(freshness), age })
}

fn wait_error(reader: &Reader, error: &WaitError) -> ApiError {
    match error {
        WaitError::DeadlineExceeded { why, last_known } => ApiError::WaitTimedOut {
            why: reader.told(Some(why)).unwrap_or_default().to_owned(),
            last_known: Box::new(answer(reader, last_known)),
        },
        _ => ApiError::Ending,
    }
}

pub(crate) fn answer(reader: &Reader, read: &PodStatusRead) -> PodStatusAnswer {
    let clock = reader.clock();
    let uid = read.uid.to_string();
    let status = read.status.as_deref();
    let why = reader.told(read.why.as_deref());
    let pod = if status.is_none() { reader.pod_of(read) } else { None };
    let named = |from_status: fn(&larder_pleg::PodStatus) -> &String, from_pod: fn(&larder_resource::Pod) -> &str| {
        status
            .map(from_status)
            .cloned()
            .or_else(|| pod.as_ref().map(|pod| from_pod(pod).to_owned()))
            .unwrap_or_default()
    };
    PodStatusAnswer {
        namespace: named(|status| &status.namespace, |pod| pod.namespace()),
        name: named(|status| &status.name, |pod| pod.name()),
        uid,
        status: status.cloned(),
        error: read.error.as_ref().map(ToString::to_string),
        modified_at: read.modified.and_then(|at| clock.wall_time(at)),
        as_of: read.as_of.and_then(|at| clock.wall_time(at)),
        freshness: read.freshness.map_or_else(
            || Freshness::unknown(why.unwrap_or("not listed yet").to_owned()),
            |freshness| {
                let is_known_absent = !read.is_there && freshness.is_fresh();
                let freshness = Freshness::of(clock, &freshness, why);
                if is_known_absent { Freshness { state: FreshnessState::Absent, ..freshness } } else { freshness }
            },
        ),
        runtime: runtime_state(reader),
    }
}

fn runtime_state(reader: &Reader) -> RuntimeState {
    let source = reader.runtime_report();
    RuntimeState {
        state: source.as_ref().map_or(SourceState::Off, |source| source.state),
        last_relist: source.as_ref().and_then(|source| source.last_contact),
        age_seconds: source.as_ref().and_then(|source| source.age_seconds),
        error: source.and_then(|source| source.last_error),
    }
}
