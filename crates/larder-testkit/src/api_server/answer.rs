//! Answers to requests, right and, on command, wrong.

use super::auth::{Authorizer, User};
use super::fault::Action;
use super::object::{Key, Kind};
use super::request::{Continue, Discovery, List, Request, Target, Version};
use super::status::Failure;
use super::store::Listed;
use super::{Shared, watch};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::{Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The body of an answer: whole, a stream of events, or broken off.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// The longest body that is read of a request.
const MAX_REQUEST: usize = 1 << 20;

/// The time in which what a body has given is surely flushed; a body that fails at once takes it along.
const FLUSH: Duration = Duration::from_millis(20);

/// How a fault distorts an answer that is otherwise made as usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distortion {
    Truncate,
    Garbage,
    WrongShape,
}

impl Distortion {
    pub(crate) fn of(action: &Action) -> Option<Self> {
        match action {
            Action::Truncate => Some(Self::Truncate),
            Action::Garbage => Some(Self::Garbage),
            Action::WrongShape => Some(Self::WrongShape),
            Action::Status { .. } | Action::Hang | Action::Slow(_) | Action::Cut => None,
        }
    }
}

impl Shared {
    /// Answers a request that no fault has kept from being answered.
    pub(crate) async fn answer(
        &self,
        user: Result<User, Failure>,
        target: &Target,
        request: Result<Request, Failure>,
        body: Incoming,
        distortion: Option<Distortion>,
    ) -> Response<Body> {
        match self.try_answer(user, target, request, body, distortion).await {
            Ok(response) => response,
            Err(failure) => self.failed(&failure),
        }
    }

    async fn try_answer(
        &self,
        user: Result<User, Failure>,
        target: &Target,
        request: Result<Request, Failure>,
        body: Incoming,
        distortion: Option<Distortion>,
    ) -> Result<Response<Body>, Failure> {
        if let Ok(Request::Discovery(Discovery::Health)) = request {
            return Ok(self.whole(StatusCode::OK, "text/plain; charset=utf-8", b"ok".to_vec(), distortion));
        }
        let (user, request) = (user?, request?);
        let authorizer = Authorizer { store: &self.store, lag: self.authorizer_lag };
        authorizer.authorize(&user, target, &request)?;
        let json = match request {
            Request::Get { kind, key, version } => self.get(kind, &key, version)?,
            Request::List { kind, list } => self.list(kind, &list)?,
            Request::Watch { kind, watch } => return self.watch(kind, watch, distortion),
            Request::Review | Request::TokenReview => {
                let read = Limited::new(body, MAX_REQUEST).collect().await;
                let read = read.map_err(|error| Failure::bad_request(format!("cannot read the body: {error}")))?;
                let review = match request {
                    Request::TokenReview => self.review_token(&read.to_bytes())?,
                    _ => authorizer.review(&user, &read.to_bytes())?,
                };
                return Ok(self.whole(StatusCode::CREATED, JSON, review.to_string().into_bytes(), distortion));
            }
            Request::Discovery(Discovery::Issuer) => self.token_keys()?.0.into_bytes(),
            Request::Discovery(Discovery::Jwks) => self.token_keys()?.1.into_bytes(),
            Request::Discovery(what) => discovery(what).to_string().into_bytes(),
        };
        Ok(self.whole(StatusCode::OK, JSON, json, distortion))
    }

    fn get(&self, kind: Kind, key: &Key, version: Version) -> Result<Vec<u8>, Failure> {
        self.check_version(version)?;
        let (_, record) = self.store.record(kind, key, version == Version::Any);
        Ok(record.ok_or_else(|| Failure::not_found(kind, &key.name))?.full())
    }

    /// The issuer's document and the keys of tokens, as they are set.
    fn token_keys(&self) -> Result<(String, String), Failure> {
        let set = self.token_keys.lock().clone();
        let (issuer, jwks) = set.ok_or_else(|| {
            Failure::new(403, "Forbidden", "forbidden: the keys of tokens are for service accounts alone".to_owned())
        })?;
        Ok((json!({"issuer": issuer, "jwks_uri": "https://192.0.2.1:6443/openid/v1/jwks"}).to_string(), jwks))
    }

    /// Answers a `TokenReview`.
    fn review_token(&self, body: &[u8]) -> Result<serde_json::Value, Failure> {
        let mut review: serde_json::Value = serde_json::from_slice(body)
            .map_err(|error| Failure::bad_request(format!("the body is not a TokenReview: {error}")))?;
        let users = self.reviewed_tokens.lock();
        let users = users.as_ref().ok_or_else(|| {
            Failure::new(403, "Forbidden", "tokenreviews.authentication.k8s.io is forbidden".to_owned())
        })?;
        let user = review["spec"]["token"].as_str().and_then(|token| users.get(token)).cloned();
        review["status"] = match user {
            Some(user) => {
                let audiences = review["spec"]["audiences"].clone();
                json!({"authenticated": true, "user": user, "audiences": audiences})
            }
            None => json!({"user": {}, "error": "[invalid bearer token]"}),
        };
        Ok(review)
    }

    fn check_version(&self, version: Version) -> Result<(), Failure> {
        let current = self.store.revision();
        match version {
            Version::NotOlderThan(asked) | Version::Exact(asked) if asked > current => {
                Err(Failure::too_large(asked, current))
            }
            _ => Ok(()),
        }
    }

    fn list(&self, kind: Kind, list: &List) -> Result<Vec<u8>, Failure> {
        self.check_version(list.version)?;
        let exact = match (&list.from, list.version) {
            (Some(from), _) => Some(from.revision),
            (None, Version::Exact(revision)) if revision != self.store.revision() => Some(revision),
            (None, Version::Newest) if list.limit > 0 => Some(self.store.take_snapshot(kind)),
            _ => None,
        };
        let Listed { revision, mut records } = match exact {
            Some(revision) => {
                let all = self.store.snapshot(kind, revision);
                let all = all.ok_or_else(|| Failure::expired(revision, self.store.revision()))?;
                Listed { revision, records: all.iter().filter(|r| list.filter.matches(r)).map(Arc::clone).collect() }
            }
            None if list.version == Version::Any => self.store.list_cached(kind, &list.filter),
            None if let Version::NotOlderThan(asked) = list.version => {
                let listed = self.store.list_cached(kind, &list.filter);
                if asked > listed.revision {
                    return Err(Failure::too_large(asked, listed.revision));
                }
                listed
            }
            None => self.store.list_records(kind, &list.filter),
        };
        if let Some(from) = &list.from {
            records.retain(|record| record.key > from.after);
        }
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        // As an API server does, a list from the watch cache takes no notice of the limit.
        if exact.is_some() && list.limit > 0 && records.len() > list.limit {
            metadata["remainingItemCount"] = json!(records.len() - list.limit);
            records.truncate(list.limit);
            if let Some(last) = records.last() {
                metadata["continue"] = Continue { revision, after: last.key.clone() }.to_token().into();
            }
        }
        let mut json =
            format!(r#"{{"kind":"{}List","apiVersion":"v1","metadata":{metadata},"items":["#, kind.name()).into_bytes();
        for (index, record) in records.iter().enumerate() {
            if index > 0 {
                json.push(b',');
            }
            json.extend_from_slice(record.item());
        }
        json.extend_from_slice(b"]}");
        Ok(json)
    }

    fn watch(
        &self,
        kind: Kind,
        watch: super::request::Watch,
        distortion: Option<Distortion>,
    ) -> Result<Response<Body>, Failure> {
        let setting = watch::Setting {
            store: self.store.clone(),
            log: Arc::clone(&self.log),
            control: self.control.subscribe(),
            bookmark_interval: self.bookmark_interval,
            default_timeout: self.default_watch_timeout,
            streaming_lists: *self.streaming_lists.lock(),
        };
        let events = watch::start(kind, watch, setting)?;
        let body = match distortion {
            None => StreamBody::new(events.map(|chunk| chunk.map(Frame::data))).boxed_unsync(),
            Some(distortion) => {
                // The first event is spoilt, and the stream breaks off.
                let spoilt = events.take(1).map(move |chunk| chunk.map(|chunk| distortion.of_chunk(&chunk)));
                StreamBody::new(spoilt.chain(breaking_off()).map(|chunk| chunk.map(Frame::data))).boxed_unsync()
            }
        };
        Ok(response(StatusCode::OK, JSON, body))
    }

    /// An answer with a `metav1.Status`.
    pub(crate) fn failed(&self, failure: &Failure) -> Response<Body> {
        let status = StatusCode::from_u16(failure.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = self.whole(status, JSON, failure.to_json().to_string().into_bytes(), None);
        if let Some(seconds) = failure.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }

    fn whole(
        &self,
        status: StatusCode,
        content_type: &'static str,
        bytes: Vec<u8>,
        distortion: Option<Distortion>,
    ) -> Response<Body> {
        let full_length = bytes.len();
        let bytes = match distortion {
            None => Bytes::from(bytes),
            Some(distortion) => distortion.of_chunk(&bytes),
        };
        self.log.count(|counts| counts.body_bytes += bytes.len() as u64);
        if distortion == Some(Distortion::Truncate) {
            let half = futures_util::stream::once(async { Ok(bytes) });
            let body = StreamBody::new(half.chain(breaking_off()).map(|chunk| chunk.map(Frame::data))).boxed_unsync();
            let mut response = response(status, content_type, body);
            response.headers_mut().insert(header::CONTENT_LENGTH, full_length.into());
            return response;
        }
        let body = http_body_util::Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
        response(status, content_type, body)
    }
}

impl Distortion {
    fn of_chunk(self, chunk: &[u8]) -> Bytes {
        match self {
            Self::Truncate => Bytes::copy_from_slice(&chunk[..chunk.len() / 2]),
            Self::Garbage => Bytes::from_static(b"<html><body>502 Bad Gateway</body></html>\n"),
            Self::WrongShape => Bytes::from_static(b"{\"kind\":[],\"metadata\":\"none\",\"items\":7}\n"),
        }
    }
}

const JSON: &str = "application/json";

/// The end of a body that is broken off, once what came before it has left the connection's buffers.
fn breaking_off() -> impl Stream<Item = io::Result<Bytes>> {
    futures_util::stream::once(async {
        tokio::time::sleep(FLUSH).await;
        Err(io::Error::new(io::ErrorKind::ConnectionReset, "broken off on command"))
    })
}

fn response(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache, private"));
    response
}

fn discovery(what: Discovery) -> Value {
    match what {
        Discovery::Health => json!("ok"),
        Discovery::Version => {
            json!({"major": "1", "minor": "37", "gitVersion": "v1.37.2-simulated", "platform": "linux/amd64"})
        }
        Discovery::Api => json!({"kind": "APIVersions", "versions": ["v1"]}),
        // They are set, and not made.
        Discovery::Issuer | Discovery::Jwks => Value::Null,
        Discovery::Apis => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}),
        Discovery::CoreV1 => {
            let resource = |kind: Kind| {
                json!({
                    "name": kind.plural(),
                    "singularName": kind.name().to_lowercase(),
                    "namespaced": kind.is_namespaced(),
                    "kind": kind.name(),
                    "verbs": ["get", "list", "watch"],
                    "shortNames": match kind {
                        Kind::Pod => vec!["po"],
                        Kind::Node => vec!["no"],
                        Kind::ConfigMap => vec!["cm"],
                        Kind::Namespace => vec!["ns"],
                        Kind::Secret => vec![],
                    },
                })
            };
            json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": Kind::ALL.map(resource)})
        }
    }
}
