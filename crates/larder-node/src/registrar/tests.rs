//! Pods that come, change, end and go, between a source of pods and the caches.

use super::*;
use crate::config::Policy;
use crate::metrics::Metrics;
use crate::objects::ObjectCacheConfig;
use crate::strategy::Strategy;
use larder_manifests::{ManifestOptions, ManifestSource};
use larder_objects::{AutoOptions, Source, StoreTtl};
use larder_resource::{SourceWriter, source};
use std::time::Duration;
use tokio_util::task::TaskTracker;

struct Followed {
    writer: SourceWriter<Pod>,
    registrar: Arc<Registrar>,
    token: CancellationToken,
    run: tokio::task::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

/// A registrar that follows a source that is written to by hand; the objects come from an empty folder of manifests.
fn follow(release_ended: bool) -> Followed {
    let folder = tempfile::tempdir().unwrap();
    let clock = MonotonicClock::new();
    let manifests = ManifestSource::new(folder.path(), "node-1", clock, ManifestOptions::default()).unwrap();
    let metrics = Metrics::new();
    let cache = |kind: larder_resource::ObjectKind| {
        ObjectCache::new(ObjectCacheConfig {
            kind: kind.into(),
            node: "node-1".into(),
            strategy: Strategy::Ttl,
            fetch: ObjectSource::Manifests(manifests.reader().fetcher(kind)),
            reflectors: ObjectReflectors::None,
            watch: AutoOptions::default(),
            clock,
            ttl: StoreTtl::new(source::new(Source::Manifest, clock).1, Duration::ZERO),
            source: None,
            policy: Policy { fetch_backoff_initial: Duration::ZERO, ..Policy::default() },
            token: CancellationToken::new(),
            tasks: TaskTracker::new(),
            metrics: Arc::new(metrics.of(kind.into())),
        })
    };
    let caches = Caches::from_fn(cache);
    let (writer, reader) = source::new::<Pod>(Source::Watch, clock);
    let registrar = Arc::new(Registrar::new(reader, Arc::new(caches), release_ended));
    let token = CancellationToken::new();
    let run = tokio::spawn({
        let (registrar, token) = (Arc::clone(&registrar), token.clone());
        async move { registrar.run(token).await }
    });
    Followed { writer, registrar, token, run, _folder: folder }
}

fn pod(name: &str, version: u64, phase: &str, secret: &str) -> Arc<Pod> {
    let json = format!(
        r#"{{"metadata":{{"namespace":"shop","name":"{name}","uid":"u-{name}","resourceVersion":"{version}"}},
        "spec":{{"containers":[],"volumes":[{{"name":"v","secret":{{"secretName":"{secret}"}}}}]}},
        "status":{{"phase":"{phase}"}}}}"#
    );
    Arc::new(Pod::from_json(json.as_bytes()).unwrap())
}

impl Followed {
    async fn references(&self, secret: &str) -> usize {
        self.registrar.caught_up().await;
        self.registrar.caches.secrets.references("shop", secret)
    }
}

#[tokio::test]
async fn a_read_that_begins_when_a_pod_is_known_finds_its_references() {
    let all = follow(true);
    all.writer.replace([], "");
    for n in 0..300 {
        // More than the buffer of changes holds, without a moment for the registrar in between.
        all.writer.set(pod(&format!("p{n}"), 1, "Running", "db"));
    }
    assert_eq!(all.references("db").await, 300);
    all.writer.set(pod("p0", 2, "Running", "tls"));
    assert_eq!((all.references("db").await, all.references("tls").await), (299, 1));
    all.writer.remove(pod("p0", 1, "Running", "db"));
    assert_eq!(all.references("tls").await, 0);
}

#[tokio::test]
async fn a_pod_that_has_ended_lets_go_of_its_objects_unless_it_is_to_keep_them() {
    for (release_ended, expected) in [(true, 0), (false, 1)] {
        let all = follow(release_ended);
        all.writer.replace([pod("job", 1, "Running", "db")], "");
        assert_eq!(all.references("db").await, 1);
        for (version, phase) in [(2, "Succeeded"), (3, "Failed")] {
            all.writer.set(pod("job", version, phase, "db"));
            assert_eq!(all.references("db").await, expected, "{phase}");
        }
    }
}

#[tokio::test]
async fn a_full_list_unregisters_what_is_not_in_it() {
    let all = follow(true);
    all.writer.replace([pod("a", 1, "Running", "db"), pod("b", 1, "Running", "db")], "");
    assert_eq!(all.references("db").await, 2);
    all.writer.replace([pod("b", 1, "Running", "db")], "");
    assert_eq!(all.references("db").await, 1);
}

#[tokio::test]
async fn a_pod_that_cannot_be_read_is_told_and_harms_only_itself() {
    let all = follow(true);
    let json =
        br#"{"metadata":{"namespace":"shop","name":"odd","uid":"u","resourceVersion":"1"},"spec":{"containers":7}}"#;
    all.writer.replace([Arc::new(Pod::from_json(json).unwrap()), pod("fine", 1, "Running", "db")], "");
    assert_eq!(all.references("db").await, 1);
    let told = all.registrar.unreadable(|_, _| true);
    assert!(told.len() == 1 && told[0].starts_with("pod shop/odd: "), "{told:?}");
    all.writer.remove(pod("odd", 1, "Running", "db"));
    all.registrar.caught_up().await;
    assert!(all.registrar.unreadable(|_, _| true).is_empty());
}

#[tokio::test]
async fn it_ends_with_its_token() {
    let all = follow(true);
    all.token.cancel();
    all.run.await.unwrap();
}
