//! Bodies that share their bytes with the cache: larder sends the JSON of an object without a copy.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Frame, SizeHint};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body of several parts and of a known length. Each part is sent without a copy.
#[derive(Debug, Default)]
pub(crate) struct ChunkedBody {
    parts: VecDeque<Bytes>,
    left: u64,
}

impl ChunkedBody {
    pub(crate) fn push(&mut self, part: Bytes) {
        if !part.is_empty() {
            self.left = self.left.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
            self.parts.push_back(part);
        }
    }

    pub(crate) fn into_body(self) -> Body {
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
pub(crate) fn kubernetes_list(kind: &str, version: u64, items: impl IntoIterator<Item = [Bytes; 2]>) -> ChunkedBody {
    let mut parts = ChunkedBody::default();
    let mut head = BytesMut::new();
    head.extend_from_slice(br#"{"kind":""#);
    head.extend_from_slice(kind.as_bytes());
    head.extend_from_slice(br#"List","apiVersion":"v1","metadata":{"resourceVersion":""#);
    head.extend_from_slice(version.to_string().as_bytes());
    head.extend_from_slice(br#""},"items":["#);
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
    use hyper::body::Body as _;

    async fn check(items: &[&'static str], expected: &str) {
        let items = items.iter().map(|item| [Bytes::from_static(item.as_bytes()), Bytes::new()]);
        let parts = kubernetes_list("Secret", 7, items);
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
