//! `/larder/v1/events`: what happens to the containers of this node, as JSON lines.
//!
//! The answer begins with the latest events: all that are kept, or as many as `tail` says. With `watch=true`, new events follow as they
//! happen, until the client goes away or the daemon ends. `namespace` and `pod` (a name) select events. A caller gets the events of the
//! pods that it may see.
//!
//! A client that reads too slowly gets the number of events that it has missed, and then the state of every pod, from which it can
//! continue. The buffer of a client is bounded by the kept events and the connection's own buffers.

use crate::access::{Events, Reader};
use crate::error::ApiError;
use crate::local_api::answer;
use crate::params::Params;
use crate::usage::{Held, Watching};
use crate::wire::{EventLine, LifecycleEvent};
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::stream;
use http::header;
use larder_pleg::{Delivery, PodLifecycleEvent};
use std::convert::Infallible;

/// The media type of one JSON document a line.
const JSON_LINES: &str = "application/jsonl";

/// `/larder/v1/events`.
pub(crate) async fn lifecycle(reader: Reader, params: Params) -> Result<Response, ApiError> {
    params.only(&["watch", "tail", "sync", "namespace", "pod"])?;
    let (recent, events) = reader.lifecycle_events()?;
    let text = |name| params.text(name).map(str::to_owned);
    let tail = params.count("tail")?.unwrap_or(usize::MAX);
    let mut lines = Lines { namespace: text("namespace"), pod: text("pod"), events, place: None };
    let mut first = BytesMut::new();
    if params.flag("sync") {
        lines.sync(&mut first);
    } else {
        let wanted: Vec<_> = recent.iter().filter(|event| lines.is_wanted(&event.namespace, &event.name)).collect();
        for event in &wanted[wanted.len().saturating_sub(tail)..] {
            lines.event(&mut first, event);
        }
    }
    let headers = [(header::CONTENT_TYPE, JSON_LINES)];
    if !params.flag("watch") {
        return Ok((headers, first.freeze()).into_response());
    }
    lines.place = reader.watch_of(first.len())?;
    // The first part goes out at once, even if it is empty, so that the client gets the head of the answer.
    let first = stream::iter([Ok::<Bytes, Infallible>(first.freeze())]);
    let more = stream::unfold(lines, |mut lines| async move { Some((Ok(lines.next().await?), lines)) });
    Ok((headers, Body::from_stream(stream::StreamExt::chain(first, more))).into_response())
}

struct Lines {
    /// Only events of this namespace.
    namespace: Option<String>,
    /// Only events of pods of this name.
    pod: Option<String>,
    events: Events,
    /// Among the watches of the caller's identity, with the bytes that its first part holds.
    place: Option<(Watching, Held)>,
}

impl Lines {
    fn reader(&self) -> &Reader {
        self.events.reader()
    }

    /// The next lines; `None` once the daemon ends.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some((_, held)) = &mut self.place {
            held.clear();
        }
        let mut out = BytesMut::new();
        let ending = self.reader().app().ending.clone();
        while out.is_empty() {
            let delivery = tokio::select! {
                delivery = self.events.recv() => delivery?,
                () = ending.cancelled() => return None,
            };
            self.take(&mut out, delivery);
            // Other waiting events go with it.
            while out.len() < MOST_AT_ONCE
                && let Some(delivery) = self.events.try_recv()
            {
                self.take(&mut out, delivery);
            }
        }
        Some(out.freeze())
    }

    fn take(&self, out: &mut BytesMut, delivery: Delivery) {
        match delivery {
            Delivery::Event(event) => self.event(out, &event),
            Delivery::Gap { missed } => {
                line(out, &EventLine::Gap { missed });
                self.sync(out);
            }
        }
    }

    /// The state of every pod, and then [`EventLine::Synced`].
    fn sync(&self, out: &mut BytesMut) {
        // Before the first list of the runtime there is no state yet.
        for read in self.reader().pod_statuses().unwrap_or_default() {
            let pod = answer(self.reader(), &read);
            if self.is_wanted(&pod.namespace, &pod.name) {
                line(out, &EventLine::Pod { pod: Box::new(pod) });
            }
        }
        line(out, &EventLine::Synced);
    }

    fn event(&self, out: &mut BytesMut, event: &PodLifecycleEvent) {
        if self.is_wanted(&event.namespace, &event.name) {
            let at = self.reader().clock().wall_time(event.at);
            line(out, &EventLine::Event { event: LifecycleEvent::of(event, at) });
        }
    }

    fn is_wanted(&self, namespace: &str, pod: &str) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
            && self.pod.as_deref().is_none_or(|wanted| wanted == pod)
    }
}

/// About how many bytes are sent at once.
const MOST_AT_ONCE: usize = 64 << 10;

fn line(out: &mut BytesMut, line: &EventLine) {
    let before = out.len();
    // JSON can hold all of these types, so this does not fail. If it did, the line would be left out.
    match serde_json::to_writer((&mut *out).writer(), line) {
        Ok(()) => out.put_u8(b'\n'),
        Err(error) => {
            out.truncate(before);
            tracing::error!(%error, "cannot write an event");
        }
    }
}
