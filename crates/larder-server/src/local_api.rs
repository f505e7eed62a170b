//! larder's own paths: the state of the daemon, the objects that it holds without their data, and the pods as the runtime reports
//! them.

use crate::app::{App, Names, Shared};
use crate::error::ApiError;
use crate::freshness::AnswerFreshness;
use crate::kube_api::read_timeout;
use crate::params::Params;
use crate::wire::{
    Freshness, FreshnessState, ObjectEntries, ObjectEntry, ObjectMeta, PodStatusAnswer, PodStatusAnswers, RuntimeState,
};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use larder_node::{ObjectKind, PodStatusRead, ReadError, Report, SourceState, WaitError};
use larder_objects::ObjectKey;
use larder_pod_status::PodUid;
use larder_resource::Kind;
use std::time::Duration;

/// How long a newer-than read waits if the client gives no timeout.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
/// The bounds of a timeout that a client gives.
const WAIT_TIMEOUT_BOUNDS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_mins(10));

/// `/larder/v1/status`.
pub(crate) async fn status(State(app): Shared, params: Params) -> Result<Json<Report>, ApiError> {
    params.only(&["objects"])?;
    let mut report = if params.flag("objects") { app.node.detailed_report() } else { app.node.report() };
    if let Some(listen) = &app.listen {
        listen.report(&app.node, &mut report);
    }
    Ok(Json(report))
}

/// `/larder/v1/objects/{kind}`.
pub(crate) async fn list_entries(
    State(app): Shared,
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
    let mut list = app.node.list_objects(kind, wanted, read_timeout(&params)?).await?;
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
            ..entry(&answer.object.key(), Freshness::of_answer(&app.node, answer))
        })
        .collect();
    // An object that is absent has a name alone to select it by.
    if labels.is_empty() && fields.is_of_name() {
        items.extend(list.absent.iter().map(|(key, freshness)| entry(key, absent(&app, freshness))));
    }
    items.extend(list.unknown.iter().map(|(key, error)| entry(key, Freshness::unknown(why(error)))));
    items.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let mut response = Json(ObjectEntries { kind: kind.resource().to_owned(), items }).into_response();
    if let Some(freshness) = freshness {
        response.headers_mut().extend(freshness.headers(&app.node));
    }
    Ok(response)
}

fn absent(app: &App, freshness: &larder_objects::Freshness) -> Freshness {
    Freshness { state: FreshnessState::Absent, ..Freshness::of(&app.node, freshness, None) }
}

fn why(error: &ReadError) -> String {
    match error {
        ReadError::Unknown { why, .. } => why.clone(),
        other => other.to_string(),
    }
}

/// `/larder/v1/objects/{kind}/{namespace}/{name}`.
pub(crate) async fn get_entry(
    State(app): Shared,
    Names((kind, namespace, name)): Names<(String, String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    let kind =
        ObjectKind::from_resource(&kind).ok_or_else(|| ApiError::UnknownPath(format!("/larder/v1/objects/{kind}")))?;
    params.only(&["timeout"])?;
    let answer = app.node.get_object(kind, &namespace, &name, read_timeout(&params)?).await?;
    let freshness = AnswerFreshness::of(&answer);
    let entry = ObjectEntry {
        namespace,
        name,
        object: Some(ObjectMeta::of(&answer.object)),
        freshness: Freshness::of_answer(&app.node, &answer),
    };
    Ok((freshness.headers(&app.node), Json(entry)).into_response())
}

/// `/larder/v1/pods`.
pub(crate) async fn list_pod_statuses(State(app): Shared, params: Params) -> Result<Response, ApiError> {
    params.only(&["namespace"])?;
    let namespace = params.text("namespace");
    let mut items: Vec<_> = app.node.pod_statuses()?.iter().map(|read| answer(&app, read)).collect();
    items.retain(|item| namespace.is_none_or(|namespace| namespace == item.namespace));
    Ok(Json(PodStatusAnswers { items, runtime: runtime_state(&app) }).into_response())
}

/// `/larder/v1/pods/{uid}/status`.
pub(crate) async fn pod_status(
    State(app): Shared,
    Names(uid): Names<String>,
    params: Params,
) -> Result<Response, ApiError> {
    read_status(&app, &PodUid::from(uid.as_str()), None, &params).await
}

/// `/larder/v1/namespaces/{namespace}/pods/{name}/status`.
pub(crate) async fn pod_status_by_name(
    State(app): Shared,
    Names((namespace, name)): Names<(String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    let uid = app.node.runtime_uid(&namespace, &name)?;
    read_status(&app, &uid, Some((&namespace, &name)), &params).await
}

/// The pod's status: at once, as of a time after `newerThan`, or once it has been written after `changedAfter`.
async fn read_status(
    app: &App,
    uid: &PodUid,
    pod: Option<(&str, &str)>,
    params: &Params,
) -> Result<Response, ApiError> {
    params.only(&["newerThan", "changedAfter", "timeout"])?;
    let timeout = params.duration("timeout", WAIT_TIMEOUT, WAIT_TIMEOUT_BOUNDS)?;
    let wait = match (params.instant("newerThan")?, params.instant("changedAfter")?) {
        (None, None) => None,
        (Some(time), None) => {
            let min = app.node.from_wall_time_read_elsewhere(time);
            Some(app.node.pod_status_newer_than(uid, min, timeout).boxed())
        }
        (None, Some(time)) => {
            // The time comes from an earlier answer.
            let min = app.node.from_wall_time(time);
            Some(app.node.pod_status_changed_after(uid, min, timeout).boxed())
        }
        (Some(_), Some(_)) => {
            let problem = "cannot be combined with newerThan".to_owned();
            return Err(ApiError::bad_parameter("changedAfter", params.text("changedAfter").unwrap_or(""), problem));
        }
    };
    let read = match wait {
        None => app.node.pod_status(uid)?,
        Some(wait) => tokio::select! {
            result = wait => result?.map_err(|error| wait_error(app, &error))?,
            () = app.ending.cancelled() => return Err(ApiError::Ending),
        },
    };
    let read = if read.is_there { read } else { absent_from_runtime(app, pod, read)? };
    let body = Json(answer(app, &read));
    Ok(match read.freshness {
        Some(freshness) => {
            (AnswerFreshness::held(freshness, read.why.clone()).headers(&app.node), body).into_response()
        }
        None => body.into_response(),
    })
}

/// Answers for a pod that the runtime does not have. If the pods' source has the pod, the answer has no status: the pod may be
/// about to start, or have ended. Otherwise the pod does not exist.
fn absent_from_runtime(app: &App, pod: Option<(&str, &str)>, read: PodStatusRead) -> Result<PodStatusRead, ReadError> {
    let uid = read.uid.to_string();
    let Some(freshness) = read.freshness else {
        return Err(ReadError::runtime_not_listed(&uid));
    };
    if app.node.pod_of_runtime_uid(&uid).is_some() {
        return Ok(read);
    }
    let key = pod.map_or_else(|| ObjectKey::new("", &uid), |(namespace, name)| ObjectKey::new(namespace, name));
    let age = freshness.age(app.node.now());
    Err(ReadError::NotFound { kind: Kind::Pod, key, freshness: Box::new(freshness), age })
}

fn wait_error(app: &App, error: &WaitError) -> ApiError {
    match error {
        WaitError::DeadlineExceeded { why, last_known } => {
            ApiError::WaitTimedOut { why: why.clone(), last_known: Box::new(answer(app, last_known)) }
        }
        _ => ApiError::Ending,
    }
}

pub(crate) fn answer(app: &App, read: &PodStatusRead) -> PodStatusAnswer {
    let node = &app.node;
    let uid = read.uid.to_string();
    let status = read.status.as_deref();
    let pod = if status.is_none() { node.pod_of_runtime_uid(&uid) } else { None };
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
        modified_at: read.modified.and_then(|at| node.wall_time(at)),
        as_of: read.as_of.and_then(|at| node.wall_time(at)),
        freshness: read.freshness.map_or_else(
            || Freshness::unknown(read.why.clone().unwrap_or_else(|| "not listed yet".to_owned())),
            |freshness| {
                let is_known_absent = !read.is_there && freshness.is_fresh();
                let freshness = Freshness::of(node, &freshness, read.why.as_deref());
                if is_known_absent { Freshness { state: FreshnessState::Absent, ..freshness } } else { freshness }
            },
        ),
        runtime: runtime_state(app),
    }
}

fn runtime_state(app: &App) -> RuntimeState {
    let source = app.node.runtime_report();
    RuntimeState {
        state: source.as_ref().map_or(SourceState::Off, |source| source.state),
        last_relist: source.as_ref().and_then(|source| source.last_contact),
        age_seconds: source.as_ref().and_then(|source| source.age_seconds),
        error: source.and_then(|source| source.last_error),
    }
}
