//! The representations of objects, lists and events, and which one a client gets: JSON of the objects, a `Table`, or the
//! metadata alone (`PartialObjectMetadata`). The JSON of an object is sent as the cache holds it, without a copy.

use crate::app::App;
use crate::error::ApiError;
use crate::freshness::AnswerFreshness;
use crate::params::Params;
use crate::usage::Length;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body as _, Frame, SizeHint};
use larder_resource::journal::Resource;
use larder_resource::representation::{IncludeObject, Table, partial_metadata, partial_metadata_list};
use larder_resource::{Kind, json_of_resource, whole_json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What an answer has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// One object.
    One,
    /// A list.
    List,
    /// The events of a watch.
    Events,
}

impl Shape {
    /// What larder offers.
    const fn offers(self) -> &'static str {
        match self {
            Self::One | Self::Events => {
                "application/json, alone or as Table or PartialObjectMetadata of meta.k8s.io/v1"
            }
            Self::List => "application/json, alone or as Table or PartialObjectMetadataList of meta.k8s.io/v1",
        }
    }

    /// Whether the answer can be of that kind.
    const fn can_be(self, form: Form) -> bool {
        !matches!((self, form), (Self::One, Form::MetadataList) | (Self::List, Form::Metadata))
    }
}

/// A kind for which a client asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Object,
    Table,
    Metadata,
    MetadataList,
}

/// How an answer represents objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Representation {
    /// As they are.
    Object,
    /// In a table.
    Table(IncludeObject),
    /// Their metadata alone.
    Metadata,
}

impl Representation {
    /// What the client accepts first of what there is.
    ///
    /// # Errors
    ///
    /// 406 if it accepts nothing of that, 400 for an `includeObject` that is unknown.
    pub(crate) fn of(headers: &HeaderMap, params: &Params, shape: Shape) -> Result<Self, ApiError> {
        let accepted: Vec<&str> =
            headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
        let accepted = accepted.join(",");
        let mut ranges: Vec<_> = accepted.split(',').map(str::trim).filter(|range| !range.is_empty()).collect();
        if ranges.is_empty() {
            ranges.push("application/json");
        }
        // Stable: of equal weight, the first is preferred.
        ranges.sort_by_key(|range| std::cmp::Reverse(weight(range)));
        let found = ranges.iter().filter(|range| weight(range) > 0).find_map(|range| offered(range));
        // As at the API server, a kind that does not fit is refused, even if the client accepts others too.
        match found.filter(|form| shape.can_be(*form)) {
            Some(Form::Table) => {
                let word = params.text("includeObject").unwrap_or_default();
                let include = word.parse::<IncludeObject>();
                let include =
                    include.map_err(|error| ApiError::bad_parameter("includeObject", word, error.to_string()))?;
                Ok(Self::Table(include))
            }
            Some(Form::Object) => Ok(Self::Object),
            Some(Form::Metadata | Form::MetadataList) => Ok(Self::Metadata),
            None => {
                let accepts = accepted.chars().take(200).collect();
                Err(ApiError::NotAcceptable { accepts, offers: shape.offers() })
            }
        }
    }

    /// A list of that version.
    pub(crate) fn list(
        self,
        app: &App,
        kind: Kind,
        version: u64,
        items: Vec<Arc<Resource>>,
        freshness: Option<&AnswerFreshness>,
    ) -> Result<Response, ApiError> {
        let items = items.into_iter().map(json_of_resource);
        let list = match self {
            Self::Object => kubernetes_list(kind.as_str(), Some(version), items),
            Self::Table(include) => {
                let table = Table { kind, include, with_columns: true };
                body(
                    table
                        .list(&version.to_string(), items.map(|json| whole_json(&json)), now(app))
                        .map_err(|error| unwritable(&error))?,
                )
            }
            Self::Metadata => {
                let list = partial_metadata_list(kind, &version.to_string(), items.map(|json| whole_json(&json)));
                body(vec![list.map_err(|error| unwritable(&error))?])
            }
        };
        Ok(json(app, freshness, list.into_body()))
    }

    /// One object.
    pub(crate) fn one(
        self,
        app: &App,
        kind: Kind,
        object: [Bytes; 2],
        freshness: &AnswerFreshness,
    ) -> Result<Response, ApiError> {
        let one = match self {
            Self::Object => {
                let mut whole = ChunkedBody::default();
                for piece in object {
                    whole.push(piece);
                }
                whole
            }
            Self::Table(_) | Self::Metadata => {
                body(self.parts(app, kind, &object, true).map_err(|error| unwritable(&error))?)
            }
        };
        Ok(json(app, Some(freshness), one.into_body()))
    }

    /// The parts of one object, in an event of a watch. In a watch of tables, the first event alone defines the columns.
    pub(crate) fn parts(
        self,
        app: &App,
        kind: Kind,
        json: &[Bytes; 2],
        with_columns: bool,
    ) -> Result<Vec<Bytes>, larder_resource::DecodeError> {
        match self {
            Self::Object => Ok(json.iter().filter(|piece| !piece.is_empty()).cloned().collect()),
            Self::Table(include) => Table { kind, include, with_columns }.object(&whole_json(json), now(app)),
            Self::Metadata => Ok(vec![partial_metadata(kind, &whole_json(json))?]),
        }
    }

    /// The parts of a bookmark.
    pub(crate) fn bookmark(
        self,
        kind: Kind,
        json: &Bytes,
        with_columns: bool,
    ) -> Result<Vec<Bytes>, larder_resource::DecodeError> {
        match self {
            Self::Object => Ok(vec![json.clone()]),
            Self::Table(include) => Table { kind, include, with_columns }.bookmark(json),
            Self::Metadata => Ok(vec![partial_metadata(kind, json)?]),
        }
    }

    /// Whether it has whole objects, with the values of Secrets.
    pub(crate) const fn has_data(self) -> bool {
        matches!(self, Self::Object | Self::Table(IncludeObject::Object))
    }

    /// Where all watches share the encoding of an event; `None` for the bytes of the object, which are shared anyway.
    pub(crate) const fn shared_encoding(self) -> Option<usize> {
        match self {
            Self::Object => None,
            Self::Metadata => Some(0),
            Self::Table(IncludeObject::None) => Some(1),
            Self::Table(IncludeObject::Metadata) => Some(2),
            Self::Table(IncludeObject::Object) => Some(3),
        }
    }
}

/// A list of pods without a version, as the kubelet gives it, or 304 if the client has the same already.
pub(super) fn pod_list(
    app: &App,
    pods: Vec<Arc<Resource>>,
    freshness: &AnswerFreshness,
    request: &HeaderMap,
) -> Response {
    let list = kubernetes_list(Kind::Pod.as_str(), None, pods.into_iter().map(json_of_resource));
    let tag = list.tag();
    let mut response = if has_tag(request, &tag) {
        let mut response = json(app, Some(freshness), Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().remove(header::CONTENT_TYPE);
        response
    } else {
        json(app, Some(freshness), list.into_body())
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Whether the client has the answer with this tag.
fn has_tag(request: &HeaderMap, tag: &str) -> bool {
    let given = request.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    given
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|given| given == "*" || given.strip_prefix("W/").unwrap_or(given) == tag)
}

/// An answer of JSON, with what it says of its freshness.
pub(super) fn json(app: &App, freshness: Option<&AnswerFreshness>, body: Body) -> Response {
    let length = body.size_hint().exact();
    let mut response = body.into_response();
    if let Some(length) = length {
        response.extensions_mut().insert(Length(length));
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(freshness) = freshness {
        headers.extend(freshness.headers(app.node.clock()));
    }
    response
}

fn body(parts: Vec<Bytes>) -> ChunkedBody {
    let mut whole = ChunkedBody::default();
    for part in parts {
        whole.push(part);
    }
    whole.push(Bytes::from_static(b"\n"));
    whole
}

fn now(app: &App) -> jiff::Timestamp {
    app.node.clock().wall_now()
}

fn unwritable(error: &larder_resource::DecodeError) -> ApiError {
    ApiError::Unwritable(error.to_string())
}

/// The weight of a media range in thousandths.
pub(super) fn weight(range: &str) -> u16 {
    let given = range.split(';').skip(1).find_map(|part| part.trim().strip_prefix("q="));
    let weight = given.map_or(Some(1.0), |text| text.trim().parse::<f32>().ok()).unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
    let thousandths = (weight.clamp(0.0, 1.0) * 1000.0) as u16;
    thousandths
}

/// The kind of a media range, if larder has it.
fn offered(range: &str) -> Option<Form> {
    let mut parts = range.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
    if !matches!(media_type.as_str(), "application/json" | "application/*" | "*/*") {
        return None;
    }
    let (mut form, mut group, mut version) = (None, None, None);
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => form = Some(value),
            Some(("g", value)) => group = Some(value),
            Some(("v", value)) => version = Some(value),
            Some(("stream", value)) if !matches!(value, "" | "watch") => return None,
            _ => {}
        }
    }
    match (form, group, version) {
        (None, None, None) => Some(Form::Object),
        (Some("Table"), Some("meta.k8s.io"), Some("v1")) => Some(Form::Table),
        (Some("PartialObjectMetadata"), Some("meta.k8s.io"), Some("v1")) => Some(Form::Metadata),
        (Some("PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1")) => Some(Form::MetadataList),
        _ => None,
    }
}

/// A body of several parts and of a known length. Each part is sent without a copy.
#[derive(Debug, Default)]
struct ChunkedBody {
    parts: VecDeque<Bytes>,
    left: u64,
}

impl ChunkedBody {
    fn push(&mut self, part: Bytes) {
        if !part.is_empty() {
            self.left = self.left.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
            self.parts.push_back(part);
        }
    }

    /// The entity tag of these bytes.
    fn tag(&self) -> String {
        let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
        for part in &self.parts {
            hash.update(part);
        }
        let mut tag = String::from("\"");
        // Half of it is enough to tell two lists apart.
        for byte in hash.finish().as_ref().iter().take(16) {
            // Writing to a string cannot fail.
            let _ = write!(tag, "{byte:02x}");
        }
        tag.push('"');
        tag
    }

    fn into_body(self) -> Body {
        Body::new(UnsyncBoxBody::new(self))
    }
}

impl hyper::body::Body for ChunkedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = self.parts.pop_front();
        if let Some(part) = &part {
            self.left = self.left.saturating_sub(u64::try_from(part.len()).unwrap_or(u64::MAX));
        }
        Poll::Ready(part.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A Kubernetes list in JSON, made of the JSON of its items.
fn kubernetes_list(kind: &str, version: Option<u64>, items: impl IntoIterator<Item = [Bytes; 2]>) -> ChunkedBody {
    let mut parts = ChunkedBody::default();
    let mut head = BytesMut::new();
    head.extend_from_slice(br#"{"kind":""#);
    head.extend_from_slice(kind.as_bytes());
    head.extend_from_slice(br#"List","apiVersion":"v1","metadata":{"#);
    if let Some(version) = version {
        head.extend_from_slice(format!("\"resourceVersion\":\"{version}\"").as_bytes());
    }
    head.extend_from_slice(br#"},"items":["#);
    parts.push(head.freeze());
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            parts.push(Bytes::from_static(b","));
        }
        for piece in item {
            parts.push(piece);
        }
    }
    parts.push(Bytes::from_static(b"]}\n"));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;
    use larder_resource::journal::ENCODINGS;
    use std::collections::HashMap;

    fn of(accept: &str, shape: Shape) -> Option<Representation> {
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(accept).unwrap())]);
        Representation::of(&headers, &Params::new(HashMap::new()), shape).ok()
    }

    #[test]
    fn a_client_gets_what_it_accepts_first_of_what_there_is() {
        let table = Representation::Table(IncludeObject::Metadata);
        for (accept, expected) in [
            ("", Some(Representation::Object)),
            ("*/*", Some(Representation::Object)),
            ("application/json", Some(Representation::Object)),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Some(table),
            ),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", None),
            ("application/vnd.kubernetes.protobuf, application/json", Some(Representation::Object)),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/yaml", None),
            ("text/html, */*;q=0.1", Some(Representation::Object)),
            ("application/json;q=0", None),
            (
                "application/json;q=0.2, application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1;q=0.9",
                Some(Representation::Metadata),
            ),
            ("application/json;g=meta.k8s.io;v=v1", None),
            ("application/json;stream=watch", Some(Representation::Object)),
            ("application/json;stream=other", None),
            ("application/json;as=Widget;g=meta.k8s.io;v=v1", None),
            ("application/json;q=many", None),
            (";;;,,,", None),
        ] {
            assert_eq!(of(accept, Shape::One), expected, "{accept}");
        }
    }

    #[test]
    fn the_metadata_of_a_list_is_a_list() {
        let accept = |kind: &str| format!("application/json;as={kind};g=meta.k8s.io;v=v1,application/json");
        for (kind, expected) in
            [("PartialObjectMetadata", [true, false, true]), ("PartialObjectMetadataList", [false, true, true])]
        {
            for (shape, is_served) in [Shape::One, Shape::List, Shape::Events].into_iter().zip(expected) {
                let expected = is_served.then_some(Representation::Metadata);
                assert_eq!(of(&accept(kind), shape), expected, "{kind} {shape:?}");
            }
        }
    }

    #[test]
    fn each_representation_has_a_place_of_its_own_for_its_encoding() {
        let all = [IncludeObject::None, IncludeObject::Metadata, IncludeObject::Object].map(Representation::Table);
        let mut places: Vec<_> =
            all.into_iter().chain([Representation::Metadata]).map(Representation::shared_encoding).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places, (0..ENCODINGS).map(Some).collect::<Vec<_>>());
    }

    async fn check(items: &[&'static str], expected: &str) {
        let items = items.iter().map(|item| [Bytes::from_static(item.as_bytes()), Bytes::new()]);
        let parts = kubernetes_list("Secret", Some(7), items);
        let length = parts.size_hint().exact();
        let sent = parts.collect().await.unwrap().to_bytes();
        assert_eq!(sent, expected);
        assert_eq!(length, Some(u64::try_from(expected.len()).unwrap()));
    }

    #[tokio::test]
    async fn a_list_is_json_of_a_known_length() {
        let head = r#"{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":["#;
        check(&[], &format!("{head}]}}\n")).await;
        check(&["{}"], &format!("{head}{{}}]}}\n")).await;
        check(&["{}", r#"{"a":1}"#], &format!(r#"{head}{{}},{{"a":1}}]}}{}"#, "\n")).await;
    }
}
