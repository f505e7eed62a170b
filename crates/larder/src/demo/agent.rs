//! Who asks larder in a demo: an agent that reads all objects once a second, and look-outs for what has just happened.

use super::shop::{Changed, NAMESPACE};
use larder_node::Node;
use larder_objects::{FreshState, resource_version_order};
use larder_resource::ObjectKind;
use larder_testkit::cluster::Happening;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// How long it is looked out for something.
const LOOK_OUT: Duration = Duration::from_mins(1);
/// How often an agent reads.
const READS: Duration = Duration::from_secs(1);
/// How long a read may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the agent has been answered.
#[derive(Debug, Default)]
pub(super) struct Answers {
    fresh: AtomicU64,
    stale: AtomicU64,
    none: AtomicU64,
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only counters: no other memory is read by them.
        let [fresh, stale, none] = [&self.fresh, &self.stale, &self.none].map(|count| count.load(Ordering::Relaxed));
        write!(f, "{fresh} fresh answers, {stale} stale answers, {none} without an answer")
    }
}

/// Reads, once a second, every Secret and ConfigMap that larder holds, as agents on a node do.
pub(super) async fn run(node: Arc<Node>, answers: Arc<Answers>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(READS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let read = async {
        loop {
            ticks.tick().await;
            for kind in ObjectKind::ALL {
                let Ok(list) = node.list_objects(kind, |_| true, PATIENCE).await else {
                    answers.none.fetch_add(1, Ordering::Relaxed);
                    continue;
                };
                answers.none.fetch_add(list.unknown.len() as u64, Ordering::Relaxed);
                for answer in list.items {
                    let is_fresh = matches!(answer.freshness.state, FreshState::Fresh);
                    let count = if is_fresh { &answers.fresh } else { &answers.stale };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    };
    stop.run_until_cancelled(read).await;
}

/// Waits, as `larder wait --for=newer-than` does, until larder knows of an exit; how long that took.
pub(super) async fn look_out_for_exit(node: Arc<Node>, happening: Happening) -> Option<String> {
    let (asked, Happening { namespace, pod, .. }) = (node.now(), happening);
    let uid = node.runtime_uid(&namespace, &pod).ok()?;
    node.pod_status_newer_than(&uid, asked, LOOK_OUT).await.ok()?.ok()?;
    let after = node.now().saturating_duration_since(asked);
    Some(format!("larder: saw the exit in pod {namespace}/{pod} after {:.1} s", after.as_secs_f64()))
}

/// Reads an object from larder until it is as new as the change; how long that took.
pub(super) async fn look_out_for_change(node: Arc<Node>, changed: Changed) -> Option<String> {
    let Changed { kind, name, resource_version, .. } = changed;
    let object_kind = ObjectKind::from_resource(kind.plural())?;
    let wanted = resource_version_order(&resource_version);
    let asked = Instant::now();
    while asked.elapsed() < LOOK_OUT {
        if let Ok(answer) = node.get_object(object_kind, NAMESPACE, name, PATIENCE).await
            && resource_version_order(answer.object.resource_version()) >= wanted
        {
            let (kind, after) = (kind.name().to_lowercase(), asked.elapsed().as_secs_f64());
            return Some(format!("larder: has the new {kind} {NAMESPACE}/{name} after {after:.1} s"));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    None
}
