//! The journal of the pods, without a runtime. larder's own tests of the daemon have one.

use super::*;
use larder_objects::Source;
use larder_resource::journal::{EventType, ResumeError};
use larder_resource::{SourceWriter, source};
use tokio_util::sync::CancellationToken;

struct Place {
    writer: SourceWriter<Pod>,
    pods: Arc<NodePods<larder_clock::ThisMachine>>,
    tasks: Tasks,
}

impl Place {
    fn new(pods: &[(&str, u64)]) -> Self {
        let clock = MonotonicClock::new();
        let (writer, reader) = source::new::<Pod>(Source::Watch, clock);
        writer.replace(pods.iter().map(|(name, version)| pod(name, *version)), "7");
        let pods = Arc::new(NodePods::new("node-1".into(), clock, reader, false, None));
        Self { writer, pods, tasks: Tasks::new(CancellationToken::new()) }
    }

    fn journal(&self) -> Journal {
        self.pods.journal(&self.tasks)
    }

    /// As if nobody had used the journal for a while.
    fn leave_for(&self, idle: Duration) {
        let mut shown = self.pods.shown.lock();
        let shown = shown.as_mut().unwrap();
        shown.used_at = Timestamp::from_nanos(shown.used_at.as_nanos() - i128::try_from(idle.as_nanos()).unwrap());
    }
}

fn pod(name: &str, version: u64) -> Arc<Pod> {
    let json = format!(
        r#"{{"metadata":{{"namespace":"shop","name":"{name}","uid":"{name}","resourceVersion":"{version}","generation":{version}}}}}"#
    );
    Arc::new(Pod::from_json(json.as_bytes()).unwrap())
}

#[tokio::test]
async fn objects_have_the_versions_of_the_journal_and_changes_come_in_order() {
    let place = Place::new(&[("a", 5), ("b", 6)]);
    let (snapshot, mut follower) = place.journal().follow();
    let versions: Vec<u64> =
        snapshot.objects.iter().map(|(object, _)| (**object).as_ref().resource_version().parse().unwrap()).collect();
    assert!(versions[0] > 1_000_000_000_000_000 && versions[1] == versions[0] + 1, "{versions:?}");
    assert_eq!(snapshot.version, versions[1]);
    place.writer.set(pod("a", 8));
    place.writer.remove(pod("b", 9));
    let mut told = Vec::new();
    while told.len() < 2 {
        for entry in follower.next().await.unwrap() {
            told.push((entry.event, entry.key.name().to_owned(), entry.version() - snapshot.version));
        }
    }
    let expected = [(EventType::Modified, "a".to_owned(), 1), (EventType::Deleted, "b".to_owned(), 2)];
    assert_eq!(told, expected);
    assert_eq!(place.pods.in_journal("shop", "a").unwrap().resource_version(), (snapshot.version + 1).to_string());
    assert!(place.pods.in_journal("shop", "b").is_none());
    assert_eq!(place.pods.list().len(), 1);
}

#[tokio::test]
async fn a_journal_that_nobody_uses_ends_and_the_next_one_takes_no_version_of_it() {
    let place = Place::new(&[("a", 5)]);
    let (snapshot, follower) = place.journal().follow();
    place.leave_for(2 * IDLE);
    assert!(!place.pods.ends(), "it is followed");
    place.leave_for(IDLE / 2);
    assert!(!place.pods.ends(), "it was followed until now");
    drop(follower);
    place.leave_for(2 * IDLE);
    assert!(place.pods.ends(), "nobody follows it");
    assert!(place.pods.shown.lock().is_none());
    let second = place.journal();
    assert!(matches!(second.resume(snapshot.version), Err(ResumeError::Expired { .. })));
    assert_eq!(second.follow().0.objects.len(), 1);
}
