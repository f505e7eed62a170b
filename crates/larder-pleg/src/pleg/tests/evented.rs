//! The runtime's events, and the stream that they come by.

use super::fake::{Called, failure, pod};
use super::single::{Loop, MOMENT, PERIOD, settle};
use crate::ContainerState::{Exited, Running};
use crate::{ContainerEvent, ContainerEventKind, EventSource, PlegOptions, RuntimeCall, RuntimeError};
use futures_util::{FutureExt, Stream, StreamExt, stream};
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

type Item = Result<ContainerEvent, RuntimeError>;

/// Streams that say what a test has them say.
#[derive(Default)]
struct FakeEvents {
    open: Mutex<Option<UnboundedSender<Item>>>,
    opened: Mutex<u32>,
    has_none: Mutex<Option<NoEvents>>,
    replaced: Notify,
}

/// How a runtime without events answers.
#[derive(Clone, Copy)]
enum NoEvents {
    /// It does not know the call.
    Unimplemented,
    /// It ends the stream at once.
    EndsAtOnce,
}

impl EventSource for FakeEvents {
    fn events(&self) -> impl Stream<Item = Item> + Send + '_ {
        let opening = async {
            *self.opened.lock() += 1;
            let (sender, receiver) = unbounded_channel();
            let has_none = *self.has_none.lock();
            match has_none {
                Some(NoEvents::Unimplemented) => {
                    let call = RuntimeCall::new("GetContainerEvents").into();
                    let _ = sender.send(Err(RuntimeError::Unsupported { call, reason: "unknown method".into() }));
                }
                Some(NoEvents::EndsAtOnce) => {}
                None => *self.open.lock() = Some(sender),
            }
            stream::unfold(receiver, async |mut receiver: UnboundedReceiver<Item>| {
                let item = receiver.recv().await?;
                Some((item, receiver))
            })
        };
        stream::once(opening).flatten()
    }

    async fn replaced(&self) {
        self.replaced.notified().await;
    }
}

impl FakeEvents {
    fn send(&self, kind: ContainerEventKind, container: &str, pod: Option<&str>) {
        let event = ContainerEvent { kind, container_id: container.into(), pod: pod.map(Into::into), created_at: 0 };
        self.open.lock().as_ref().expect("a stream").send(Ok(event)).expect("read");
    }

    /// The runtime is away.
    fn cut(&self) {
        if let Some(open) = self.open.lock().take() {
            let _ = open.send(Err(failure()));
        }
    }

    fn opened(&self) -> u32 {
        *self.opened.lock()
    }
}

struct Watched {
    it: Loop,
    source: Arc<FakeEvents>,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Watched {
    async fn start(options: PlegOptions) -> Self {
        Self::start_on(options, FakeEvents::default()).await
    }

    async fn start_on(options: PlegOptions, source: FakeEvents) -> Self {
        let it = Loop::start(PlegOptions { independent_pods: true, ..options }).await;
        let (source, cancel) = (Arc::new(source), CancellationToken::new());
        let (pleg, from, token) = (it.bench.pleg.clone(), source.clone(), cancel.clone());
        let task = tokio::spawn(async move { pleg.watch_events(&*from, token).await });
        settle().await;
        Self { it, source, cancel, task }
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap();
        self.it.stop().await;
    }

    fn called(&self) -> Vec<Called> {
        self.it.bench.runtime.take_called()
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_event_relists_its_pod_alone_and_wakes_its_waits() {
    let watched = Watched::start(PlegOptions::default()).await;
    for kind in [
        ContainerEventKind::Created,
        ContainerEventKind::Started,
        ContainerEventKind::Stopped,
        ContainerEventKind::Deleted,
        ContainerEventKind::Unknown,
    ] {
        let bench = &watched.it.bench;
        bench.runtime.set(vec![pod("u", &[("c", Running)]), pod("v", &[("d", Running)])]);
        bench.pleg.relist().await;
        tokio::time::advance(MOMENT).await;
        bench.runtime.set(vec![pod("u", &[("c", Exited)]), pod("v", &[("d", Exited)])]);
        watched.called();
        let (mut other, wait) = (watched.it.newer("v"), watched.it.newer("u"));
        watched.source.send(kind, "c", Some("u"));
        settle().await;
        assert_eq!(watched.called(), [Called::Pod("u".into()), Called::Status("u".into())], "{kind}");
        let entry = wait.now_or_never().expect("answered at once").unwrap();
        assert_eq!(entry.status().unwrap().containers[0].state, Exited);
        assert!((&mut other).now_or_never().is_none());
    }
    assert_eq!(watched.it.bench.pleg.stats().runtime_events, 5);
    watched.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_an_event_says_is_not_believed() {
    let mut watched = Watched::start(PlegOptions::default()).await;
    watched.it.bench.runtime.set(vec![pod("u", &[("c", Running)])]);
    watched.it.bench.pleg.relist().await;
    watched.it.bench.take_events();
    let before = watched.it.bench.cache.get(&"u".into()).status().cloned();
    tokio::time::advance(MOMENT).await;
    for kind in [ContainerEventKind::Stopped, ContainerEventKind::Deleted, ContainerEventKind::Created] {
        watched.source.send(kind, "c", Some("u"));
        settle().await;
    }
    assert_eq!(watched.it.bench.cache.get(&"u".into()).status().cloned(), before);
    assert_eq!(watched.it.bench.take_events(), []);
    watched.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_does_not_say_its_pod_is_counted_and_its_pod_looked_up_or_all_relisted() {
    let watched = Watched::start(PlegOptions::default()).await;
    watched.it.bench.runtime.set(vec![pod("u", &[("c", Running)]), pod("v", &[("d", Running)])]);
    watched.it.bench.pleg.relist().await;
    tokio::time::advance(Duration::from_millis(200)).await;
    watched.called();
    watched.source.send(ContainerEventKind::Stopped, "d", None);
    settle().await;
    assert_eq!(watched.called(), [Called::Pod("v".into())]);
    watched.source.send(ContainerEventKind::Created, "never seen", None);
    settle().await;
    assert_eq!(watched.called(), [Called::Pods]);
    let stats = watched.it.bench.pleg.stats();
    assert_eq!((stats.runtime_events, stats.runtime_events_without_pod), (2, 2));

    // However many there are, the lists of all pods keep a distance.
    for n in 0..1_000 {
        watched.source.send(ContainerEventKind::Created, &format!("never seen {n}"), None);
        tokio::time::advance(Duration::from_micros(100)).await;
    }
    settle().await;
    assert!(watched.called().len() <= 2);
    watched.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_events_that_does_not_fit_costs_one_relist_of_all() {
    let options = PlegOptions { relist_queue: NonZeroUsize::new(4).unwrap(), ..PlegOptions::default() };
    let watched = Watched::start(options).await;
    let pods: Vec<_> = (0..20).map(|n| pod(&format!("pod{n}"), &[("c", Running)])).collect();
    watched.it.bench.runtime.set(pods);
    tokio::time::advance(Duration::from_millis(200)).await;
    for n in 0..20 {
        watched.source.send(ContainerEventKind::Started, "c", Some(&format!("pod{n}")));
    }
    settle().await;
    let called = watched.called();
    let lists: Vec<_> = called.iter().filter(|call| !matches!(call, Called::Status(_))).collect();
    assert_eq!(lists, [&Called::Pods]);
    assert_eq!(called.len(), 21, "each pod is inspected once");
    assert_eq!(watched.it.bench.cache.uids().len(), 20);
    watched.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_stream_is_counted_made_up_for_by_a_relist_and_opened_again_after_growing_pauses() {
    let watched = Watched::start(PlegOptions::default()).await;
    assert!(watched.it.bench.pleg.stats().event_stream_open);
    tokio::time::advance(Duration::from_millis(200)).await;
    watched.it.bench.runtime.set(vec![pod("u", &[("c", Running)])]);
    watched.called();
    // The event of the new pod is lost with the stream.
    watched.source.cut();
    settle().await;
    let stats = watched.it.bench.pleg.stats();
    assert_eq!((stats.event_streams_lost, stats.event_stream_open), (1, false));
    assert_eq!(watched.called(), [Called::Pods, Called::Status("u".into())]);
    assert!(watched.it.bench.cache.get(&"u".into()).status().is_some());

    // At most the first pause, at least half of it.
    tokio::time::advance(Duration::from_millis(49)).await;
    settle().await;
    assert_eq!(watched.source.opened(), 1);
    tokio::time::advance(Duration::from_millis(51)).await;
    settle().await;
    assert_eq!(watched.source.opened(), 2);
    // What happened until it was open again is made up for, too.
    tokio::time::advance(Duration::from_millis(100)).await;
    settle().await;
    assert_eq!(watched.called(), [Called::Pods]);

    // Streams that break at once are opened less and less often.
    let before = watched.source.opened();
    for _ in 0..60 {
        watched.source.cut();
        settle().await;
        tokio::time::advance(Duration::from_secs(1)).await;
        settle().await;
    }
    let opened = watched.source.opened() - before;
    assert!((10..=25).contains(&opened), "{opened} times in a minute");

    // One that works is as good as new.
    while watched.source.open.lock().is_none() {
        tokio::time::advance(PERIOD).await;
        settle().await;
    }
    watched.source.send(ContainerEventKind::Started, "c", Some("u"));
    settle().await;
    let before = watched.source.opened();
    watched.source.cut();
    settle().await;
    tokio::time::advance(Duration::from_millis(100)).await;
    settle().await;
    assert_eq!(watched.source.opened(), before + 1);
    watched.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_without_events_is_relisted_every_period_and_asked_again_rarely() {
    for (how, opened) in [(NoEvents::Unimplemented, 1), (NoEvents::EndsAtOnce, 5)] {
        let source = FakeEvents { has_none: Mutex::new(Some(how)), ..FakeEvents::default() };
        let watched = Watched::start_on(PlegOptions::default(), source).await;
        // The pauses between the first openings are over.
        tokio::time::advance(PERIOD).await;
        settle().await;
        for _ in 0..4 {
            tokio::time::advance(PERIOD).await;
            settle().await;
        }
        assert_eq!(watched.source.opened(), opened);
        watched.called();
        for _ in 0..10 {
            tokio::time::advance(PERIOD).await;
            settle().await;
        }
        assert_eq!(watched.called(), vec![Called::Pods; 10]);
        assert_eq!(watched.source.opened(), opened, "left alone");
        let stats = watched.it.bench.pleg.stats();
        assert_eq!(stats.event_streams_lost, 0, "nothing is lost that never was");
        assert!(stats.event_stream_unsupported && !stats.event_stream_open);

        // Rarely, once each time.
        for n in 1..4 {
            tokio::time::advance(PlegOptions::default().unsupported_retry).await;
            settle().await;
            assert_eq!(watched.source.opened(), opened + n);
        }
        // When it may be another, at once.
        *watched.source.has_none.lock() = None;
        watched.source.replaced.notify_one();
        settle().await;
        watched.source.send(ContainerEventKind::Created, "c", Some("u"));
        settle().await;
        let stats = watched.it.bench.pleg.stats();
        assert_eq!((stats.runtime_events, stats.event_streams_lost), (1, 0));
        assert!(stats.event_stream_open && !stats.event_stream_unsupported);
        watched.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ended_without_an_event_after_a_while_is_lost_and_one_that_ended_at_once_few_times_is_none() {
    let watched = Watched::start(PlegOptions::default()).await;
    tokio::time::advance(Duration::from_secs(5)).await;
    // Two ends at once, as of a runtime that is about to stop, after a stream that has lasted.
    *watched.source.has_none.lock() = Some(NoEvents::EndsAtOnce);
    drop(watched.source.open.lock().take());
    settle().await;
    assert_eq!(watched.it.bench.pleg.stats().event_streams_lost, 1);
    while watched.source.opened() < 3 {
        tokio::time::advance(Duration::from_millis(50)).await;
        settle().await;
    }
    *watched.source.has_none.lock() = None;
    while watched.source.open.lock().is_none() {
        tokio::time::advance(Duration::from_millis(100)).await;
        settle().await;
    }
    watched.source.send(ContainerEventKind::Created, "c", Some("u"));
    settle().await;
    let stats = watched.it.bench.pleg.stats();
    assert_eq!((stats.runtime_events, stats.event_streams_lost, stats.event_stream_unsupported), (1, 1, false));
    watched.stop().await;
}

#[test]
fn an_early_status_counts_only_where_the_list_says_the_same() {
    use super::super::bring_forward;
    use crate::{ContainerId, ContainerStatus, PodStatus};
    let status = |id: &str, state, exit_code| ContainerStatus {
        id: ContainerId::new("fake", id),
        state,
        exit_code,
        ..ContainerStatus::default()
    };
    let before = pod("u", &[("a", Running), ("b", Running)]);
    let mut known = PodStatus::new("u".into(), "ns", "name-u");
    known.containers = vec![status("a", Running, 0), status("b", Running, 0)];

    let listed = pod("u", &[("a", Exited), ("b", Running)]);
    let (forward, brought) = bring_forward(&listed, &before, &known, status("a", Exited, 3)).expect("the same");
    assert_eq!(forward, listed);
    assert_eq!(brought.containers, [status("a", Exited, 3), status("b", Running, 0)]);
    // It was asked for a moment before it ended, or is no container of the pod's, or was not known before.
    assert_eq!(bring_forward(&listed, &before, &known, status("a", Running, 0)), None);
    assert_eq!(bring_forward(&listed, &before, &known, status("c", Exited, 3)), None);
    let new = pod("u", &[("c", Exited)]);
    assert_eq!(bring_forward(&new, &before, &known, status("c", Exited, 3)), None);
}
