//! The version of the cluster, and the `OpenAPI` schemas of what larder serves: the cluster's own.

use super::unknown_path;
use crate::app::{App, Names, Shared};
use crate::error::ApiError;
use crate::freshness;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use flate2::read::GzDecoder;
use http::{HeaderMap, HeaderValue, header};
use larder_node::{FetchedDocument, ServerDocument};
use serde_json::Value;
use std::io::Read as _;

/// `/version`.
pub(crate) async fn version(State(app): Shared, headers: HeaderMap) -> Result<Response, ApiError> {
    document(&app, ServerDocument::Version, &headers).await
}

/// `/openapi/v3`: the cluster's, without the schemas of what larder does not serve.
pub(crate) async fn schemas(State(app): Shared) -> Result<Response, ApiError> {
    let fetched = app.node.server_document(ServerDocument::OpenApi).await?;
    let mut index: Value = serde_json::from_slice(&decompressed(&fetched)?)
        .map_err(|error| ApiError::Unwritable(format!("the API server's /openapi/v3: {error}")))?;
    if let Some(paths) = index.get_mut("paths").and_then(Value::as_object_mut) {
        paths.retain(|path, _| of_path(path).is_some());
    }
    Ok(answer(&app, &fetched, index.to_string().into_bytes()))
}

/// `/openapi/v3/{path}`.
pub(crate) async fn schema(
    State(app): Shared,
    Names(path): Names<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let found = of_path(&path).ok_or_else(|| unknown_path(&format!("/openapi/v3/{path}")))?;
    document(&app, found, &headers).await
}

/// The document of a path below `/openapi/v3/`.
fn of_path(path: &str) -> Option<ServerDocument> {
    let is_it = |document: &ServerDocument| document.path().strip_prefix("/openapi/v3/") == Some(path);
    ServerDocument::ALL.into_iter().find(is_it)
}

async fn document(app: &App, document: ServerDocument, headers: &HeaderMap) -> Result<Response, ApiError> {
    let fetched = app.node.server_document(document).await?;
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let takes_gzip =
        accepted.flat_map(|value| value.split(',')).any(|coding| coding.trim().eq_ignore_ascii_case("gzip"));
    if !takes_gzip {
        return Ok(answer(app, &fetched, decompressed(&fetched)?));
    }
    let mut response = answer(app, &fetched, fetched.gzip.to_vec());
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Ok(response)
}

fn decompressed(fetched: &FetchedDocument) -> Result<Vec<u8>, ApiError> {
    let mut json = Vec::new();
    // It was compressed in this process, from what the API server's client bounds.
    GzDecoder::new(&*fetched.gzip).read_to_end(&mut json).map_err(|error| ApiError::Unwritable(error.to_string()))?;
    Ok(json)
}

fn answer(app: &App, fetched: &FetchedDocument, body: Vec<u8>) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.extend(freshness::of_document(fetched, app.node.clock()));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    response
}
