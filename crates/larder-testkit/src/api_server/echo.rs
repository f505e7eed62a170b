//! A path that answers with what it was asked, for proxies in front of the server: head, body, and an upgraded connection.
//!
//! The answer to `/apis/test.larder.dev/v1/echo` is a line of JSON with the request's method, path and headers, and after it the request's body as it
//! comes. A request that asks for the protocol `echo` gets back each byte that it sends then, after the same line.

use super::answer::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, BodyStream, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::io;
use tokio::io::{AsyncWriteExt as _, copy, split};

/// The path.
pub const ECHO: &str = "/apis/test.larder.dev/v1/echo";

pub(crate) fn is_asked(request: &Request<Incoming>) -> bool {
    request.uri().path().strip_prefix(ECHO).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub(crate) fn answer(mut request: Request<Incoming>) -> Response<Body> {
    let line = format!("{}\n", described(&request));
    if request.headers().get(header::UPGRADE).is_some_and(|protocol| protocol == "echo") {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let upgraded = upgrade.await.map_err(io::Error::other)?;
            let (mut reader, mut writer) = split(TokioIo::new(upgraded));
            writer.write_all(line.as_bytes()).await?;
            copy(&mut reader, &mut writer).await?;
            writer.shutdown().await
        });
        let mut response = Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("echo"));
        return response;
    }
    let head = stream::iter([Ok(Frame::data(Bytes::from(line)))]);
    let rest = BodyStream::new(request.into_body()).map(|frame| frame.map_err(io::Error::other));
    Response::new(StreamBody::new(head.chain(rest)).boxed_unsync())
}

fn described(request: &Request<Incoming>) -> Value {
    let path = request.uri().path_and_query().map_or("", |path| path.as_str());
    json!({"method": request.method().as_str(), "path": path, "headers": listed(request.headers())})
}

/// Each name with its values.
fn listed(headers: &HeaderMap) -> Value {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let values = |name| headers.get_all(name).iter().map(text).collect::<Vec<_>>();
    headers.keys().map(|name| (name.as_str().to_owned(), json!(values(name)))).collect::<serde_json::Map<_, _>>().into()
}
