//! The runtime's own events, for whoever measures others by them.

use futures_util::StreamExt as _;
use larder_cri::CriRuntime;
use larder_pleg::{ContainerEventKind, EventSource as _};
use std::pin::pin;

/// Hands the ID of each container that ends to `take`, until the stream ends.
pub async fn stopped(runtime: &CriRuntime, mut take: impl FnMut(String)) {
    let mut events = pin!(runtime.events());
    while let Some(Ok(event)) = events.next().await {
        if event.kind == ContainerEventKind::Stopped {
            take(event.container_id);
        }
    }
}
