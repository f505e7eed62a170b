//! What bytes are read as: a request, or what a client sends over a connection.

use arbitrary::{Result, Unstructured};
use std::fmt::Write as _;

/// The most parts of a path, parameters, requests or frames.
const MOST_PARTS: usize = 8;
const MOST_FRAMES: usize = 48;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    /// May read.
    Root,
    /// Another user of the machine.
    Foreign,
    /// Unknown.
    Nobody,
    /// A client of the metrics' address.
    Scraper,
    /// A client over TLS that may not read.
    Stranger,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// Any path.
    Path,
    /// A list, a watch or a document.
    Read,
    /// A review of the caller's rights.
    Review,
}

#[derive(Debug)]
pub(super) struct Asked {
    pub(super) who: Who,
    pub(super) shape: Shape,
    pub(super) method: &'static str,
    pub(super) target: String,
    pub(super) accept: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) body: Vec<u8>,
}

const METHODS: &[&str] =
    &["GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"];

/// Parts of paths, and values of parameters.
const PARTS: &[&str] = &[
    "api",
    "apis",
    "v1",
    "version",
    "openapi",
    "v3",
    "authorization.k8s.io",
    "authentication.k8s.io",
    "selfsubjectaccessreviews",
    "selfsubjectrulesreviews",
    "selfsubjectreviews",
    "namespaces",
    "default",
    "secrets",
    "configmaps",
    "pods",
    "nodes",
    "web",
    "web-node-1",
    "node-1",
    "larder",
    "status",
    "objects",
    "events",
    "livez",
    "readyz",
    "metrics",
    "",
    "..",
    "%",
    "%f",
    "%00",
    "%2F",
    "%ff%fe",
    "{kind}",
    "true",
    "false",
    "10ms",
    "a=b",
    "0",
    "1",
    "7",
    "-1",
    "18446744073709551615",
    "NotOlderThan",
    "Exact",
    "Object",
    "Metadata",
    "None",
    "metadata.name%3Dweb",
    "status.phase!%3DRunning",
    "a%20in%20(b,c)",
    "!a",
];

const PATHS: &[&str] = &[
    "/api",
    "/apis",
    "/api/v1",
    "/api/v1/pods",
    "/api/v1/nodes",
    "/api/v1/secrets",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/pods/web",
    "/apis/authorization.k8s.io/v1",
    "/openapi/v3",
    "/openapi/v3/api/v1",
    "/version",
    "/node/api/v1/pods",
    "/pods",
];

const PARAMETERS: &[&str] = &[
    "timeout",
    "newerThan",
    "changedAfter",
    "labelSelector",
    "fieldSelector",
    "pod",
    "watch",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "timeoutSeconds",
    "limit",
    "continue",
    "includeObject",
    "tail",
    "sync",
    "objects",
    "namespace",
    "partial",
    "verbose",
];

const MEDIA_RANGES: &[&str] = &[
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io;q=0.5",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/vnd.kubernetes.protobuf",
    "*/*",
    "application/*;q=0",
    ";q=",
    "as=Table",
    ",",
];

const REVIEWS: &[&str] = &[
    "authorization.k8s.io/v1/selfsubjectaccessreviews",
    "authorization.k8s.io/v1/selfsubjectrulesreviews",
    "authentication.k8s.io/v1/selfsubjectreviews",
];

const MEDIA_TYPES: &[&str] =
    &["application/json", "application/vnd.kubernetes.protobuf", "application/json; charset=utf-8", "text/plain"];

/// Bodies of reviews, and how they begin.
const BODIES: &[&str] = &[
    "",
    "k8s\0",
    "{}",
    "{\"spec\":{\"resourceAttributes\":{\"verb\":\"get\",\"resource\":\"pods\"}}}",
    "{\"spec\":{\"resourceAttributes\":{},\"nonResourceAttributes\":{}}}",
    "{\"kind\":\"SelfSubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/v1\",\"spec\":",
    "{\"kind\":\"SelfSubjectReview\",\"apiVersion\":\"authentication.k8s.io/v1\"",
];

/// Reads bytes as a request.
pub(super) fn request(u: &mut Unstructured<'_>) -> Result<Asked> {
    let who = *u.choose(&[Who::Root, Who::Root, Who::Root, Who::Foreign, Who::Nobody, Who::Scraper, Who::Stranger])?;
    let shape = *u.choose(&[Shape::Path, Shape::Read, Shape::Review])?;
    let (method, target) = match shape {
        Shape::Path => (*u.choose(METHODS)?, target(u)?),
        Shape::Read => (*u.choose(&["GET", "GET", "HEAD"])?, format!("{}?{}", u.choose(PATHS)?, query(u)?)),
        Shape::Review => ("POST", format!("/apis/{}", u.choose(REVIEWS)?)),
    };
    let accept = if u.arbitrary()? { Some(accept(u)?) } else { None };
    let content_type = match shape {
        Shape::Review => Some((*u.choose(MEDIA_TYPES)?).to_owned()),
        Shape::Path | Shape::Read => None,
    };
    let mut body = Vec::new();
    if matches!(shape, Shape::Review) {
        body.extend_from_slice(u.choose(BODIES)?.as_bytes());
        if u.arbitrary()? {
            body.extend_from_slice(u.bytes(u.len())?);
        }
    }
    Ok(Asked { who, shape, method, target, accept, content_type, body })
}

/// One that larder knows, or bytes of any kind, escaped or as they are.
fn part(u: &mut Unstructured<'_>) -> Result<String> {
    Ok(match u.int_in_range(0..=5)? {
        0 => {
            let mut escaped = String::new();
            for byte in short(u)? {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "%{byte:02x}");
            }
            escaped
        }
        1 => short(u)?.iter().map(|byte| char::from(b'!' + byte % 94)).collect(),
        _ => (*u.choose(PARTS)?).to_owned(),
    })
}

fn short(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let length = u.int_in_range(0..=8)?;
    (0..length).map(|_| u.arbitrary()).collect()
}

fn joined(
    u: &mut Unstructured<'_>,
    between: &str,
    mut part: impl FnMut(&mut Unstructured<'_>) -> Result<String>,
) -> Result<String> {
    let count = u.int_in_range(0..=MOST_PARTS)?;
    let parts: Result<Vec<_>> = (0..count).map(|_| part(u)).collect();
    Ok(parts?.join(between))
}

fn query(u: &mut Unstructured<'_>) -> Result<String> {
    joined(u, "&", |u| {
        let name = if u.ratio(1, 8)? { part(u)? } else { (*u.choose(PARAMETERS)?).to_owned() };
        Ok(format!("{name}={}", part(u)?))
    })
}

fn target(u: &mut Unstructured<'_>) -> Result<String> {
    Ok(format!("/{}?{}", joined(u, "/", part)?, query(u)?))
}

fn accept(u: &mut Unstructured<'_>) -> Result<String> {
    joined(u, ",", |u| if u.ratio(1, 4)? { part(u) } else { Ok((*u.choose(MEDIA_RANGES)?).to_owned()) })
}

/// Reads bytes as what a client sends: themselves, requests of HTTP/1.1, or frames of HTTP/2.
pub(super) fn conversation(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    match u.int_in_range(0..=3)? {
        0 => Ok(u.bytes(u.len())?.to_vec()),
        1 => requests(u),
        _ => frames(u),
    }
}

/// Requests of HTTP/1.1, with headers and bodies that may not fit.
fn requests(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut sent = Vec::new();
    for _ in 0..u.int_in_range(1..=3)? {
        let (method, version) =
            (u.choose(METHODS)?, u.choose(&["HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2", "", "H"])?);
        let head = format!("{method} {} {version}\r\nHost: larder\r\nAccept: {}\r\n", target(u)?, accept(u)?);
        sent.extend_from_slice(head.as_bytes());
        for _ in 0..u.int_in_range(0..=3)? {
            let name = u.choose(&[
                "Content-Length",
                "Transfer-Encoding",
                "Connection",
                "Upgrade",
                "Expect",
                "Accept-Encoding",
                "X",
            ])?;
            let known =
                u.choose(&["0", "5", "chunked", "close", "h2c", "100-continue", "gzip", "-1", "99999999999999999999"])?;
            let value = if u.ratio(1, 4)? { part(u)? } else { (*known).to_owned() };
            sent.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        sent.extend_from_slice(b"\r\n");
        sent.extend(short(u)?);
    }
    Ok(sent)
}

/// Frames of HTTP/2: streams with requests, and frames that do not fit.
fn frames(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    if !u.ratio(1, 16)? {
        frame(&mut sent, 4, 0, 0, &[]);
    }
    let mut next_stream = 1;
    for _ in 0..MOST_FRAMES {
        if u.is_empty() {
            break;
        }
        let known = *u.choose(&[0, 1, 3, next_stream])?;
        match u.int_in_range(0..=11)? {
            0..=3 => {
                let flags = if u.ratio(1, 4)? { u.arbitrary()? } else { 0x5 };
                frame(&mut sent, 1, flags, next_stream, &header_block(u)?);
                next_stream += 2;
            }
            4 => frame(&mut sent, 0, u.arbitrary()?, known, &short(u)?),
            5 => frame(&mut sent, 8, 0, known, &u.arbitrary::<[u8; 4]>()?),
            6 => frame(&mut sent, 3, 0, known, &u.arbitrary::<[u8; 4]>()?),
            7 => {
                let mut settings = u.arbitrary::<[u8; 6]>()?;
                settings[0] = 0;
                settings[1] %= 10;
                frame(&mut sent, 4, 0, 0, &settings);
            }
            8 => frame(&mut sent, 6, u.arbitrary()?, 0, &u.arbitrary::<[u8; 8]>()?),
            9 => frame(&mut sent, 9, u.arbitrary()?, known, &header_block(u)?),
            10 => frame(&mut sent, u.arbitrary()?, u.arbitrary()?, u.arbitrary()?, &short(u)?),
            _ => sent.extend(short(u)?),
        }
    }
    Ok(sent)
}

pub(super) fn frame(sent: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    sent.extend_from_slice(&length[1..]);
    sent.extend_from_slice(&[kind, flags]);
    sent.extend_from_slice(&stream.to_be_bytes());
    sent.extend_from_slice(payload);
}

/// Headers of a request as literals, and sometimes bytes of any kind.
fn header_block(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut block = Vec::new();
    literal(&mut block, ":method", u.choose(METHODS)?);
    literal(&mut block, ":scheme", "http");
    literal(&mut block, ":path", &target(u)?);
    literal(&mut block, ":authority", "larder");
    if u.arbitrary()? {
        literal(&mut block, "accept", &accept(u)?);
    }
    if u.ratio(1, 4)? {
        literal(&mut block, &part(u)?, &part(u)?);
    }
    if u.ratio(1, 4)? {
        block.extend(short(u)?);
    }
    Ok(block)
}

/// A header that is not indexed and not compressed.
pub(super) fn literal(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        length(block, text.len());
        block.extend_from_slice(text.as_bytes());
    }
}

/// An integer with a prefix of seven bits, as HPACK has it.
fn length(block: &mut Vec<u8>, length: usize) {
    let byte = |value: usize| u8::try_from(value).unwrap_or(u8::MAX);
    if length < 127 {
        return block.push(byte(length));
    }
    block.push(127);
    let mut left = length - 127;
    while left >= 128 {
        block.push(byte(left % 128 + 128));
        left /= 128;
    }
    block.push(byte(left));
}
