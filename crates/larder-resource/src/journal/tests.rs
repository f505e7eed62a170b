//! The rules of a journal one by one, and a model test of clients that lag, lose their connections and resume.

use super::*;
use std::collections::BTreeMap;
use std::task::{Context, Waker};

fn object(kind: Kind, name: &str, uid: &str, version: u64) -> Arc<Resource> {
    let json = format!(
        r#"{{"metadata":{{"namespace":"web","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}},"data":{{"k":"c2VjcmV0"}}}}"#
    );
    Arc::new(KubeObject::from_json(kind, json.as_bytes()).unwrap())
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("web", name)
}

fn now(follower: &mut Follower) -> Result<Vec<Arc<Entry>>, Ended> {
    let mut all = Vec::new();
    loop {
        let some = follower.take()?;
        if some.is_empty() {
            return Ok(all);
        }
        all.extend(some);
    }
}

fn told(follower: &mut Follower) -> Vec<String> {
    let entries = now(follower).unwrap();
    entries.iter().map(|entry| format!("{} {} {}", entry.event.as_str(), entry.key.name(), entry.version())).collect()
}

#[test]
fn a_follower_gets_what_comes_in_order_and_once() {
    let journal = Journal::new(Kind::Pod, Order::OfServer);
    journal.replace(vec![object(Kind::Pod, "a", "a1", 5), object(Kind::Pod, "b", "b1", 7)], 9);
    journal.begin(9);
    let (snapshot, mut follower) = journal.follow();
    assert_eq!((snapshot.objects.len(), snapshot.version), (2, 9));
    journal.set(object(Kind::Pod, "a", "a1", 10));
    journal.set(object(Kind::Pod, "a", "a1", 10));
    journal.set(object(Kind::Pod, "b", "b2", 12));
    journal.remove(&key("a"), Some(object(Kind::Pod, "a", "a1", 13)));
    journal.remove(&key("a"), None);
    assert_eq!(told(&mut follower), ["MODIFIED a 10", "DELETED b 7", "ADDED b 12", "DELETED a 13"]);
    assert_eq!((told(&mut follower).len(), follower.version()), (0, Some(13)));
    journal.progress(20);
    assert_eq!(follower.version(), Some(20));
}

#[test]
fn a_resume_in_the_servers_order_is_exact_from_any_version_or_refused() {
    let journal = Journal::new(Kind::Pod, Order::OfServer);
    journal.begin(9);
    for version in [11, 13, 15] {
        journal.set(object(Kind::Pod, "a", "a1", version));
    }
    journal.progress(18);
    let resume = |version| journal.resume(version).map(|mut follower| told(&mut follower).len());
    assert_eq!(resume(8), Err(ResumeError::Expired { asked: 8, oldest: 9 }));
    for (version, expected) in [(9, 3), (10, 3), (11, 2), (12, 2), (13, 1), (15, 0), (17, 0), (18, 0)] {
        assert_eq!(resume(version), Ok(expected), "{version}");
    }
}

#[test]
fn a_resume_from_the_future_gets_nothing_until_its_version_and_is_exact_from_there() {
    let journal = Journal::new(Kind::Pod, Order::OfServer);
    journal.begin(9);
    let (mut early, mut late, mut unread) =
        (journal.resume(12).unwrap(), journal.resume(20).unwrap(), journal.resume(12).unwrap());
    assert_eq!((early.version(), journal.followers()), (None, 3));
    for version in [11, 12] {
        journal.set(object(Kind::Pod, "a", "a1", version));
        assert_eq!((told(&mut early), told(&mut late)), (vec![], vec![]), "{version}");
    }
    assert_eq!((early.version(), late.version()), (Some(12), None));
    journal.replace(vec![object(Kind::Pod, "a", "a1", 12), object(Kind::Pod, "b", "b1", 14)], 16);
    assert_eq!((told(&mut early), told(&mut late)), (vec!["ADDED b 14".to_owned()], vec![]));
    assert_eq!(told(&mut unread), ["ADDED b 14"], "it was never woken before");
    journal.progress(21);
    assert_eq!(late.version(), Some(21), "a bookmark reaches it, too");
    journal.remove(&key("b"), Some(object(Kind::Pod, "b", "b1", 23)));
    assert_eq!((told(&mut early), told(&mut late)), (vec!["DELETED b 23".to_owned()], vec!["DELETED b 23".to_owned()]));
    assert_eq!(late.version(), Some(23));
    drop((early, late, unread));
    assert_eq!(journal.followers(), 0);
}

#[test]
fn a_resume_from_the_future_that_is_not_exact_ends() {
    let journal = Journal::new(Kind::Pod, Order::OfServer);
    journal.replace(vec![object(Kind::Pod, "a", "a1", 15), object(Kind::Pod, "b", "b1", 5)], 9);
    journal.begin(9);
    // The last version of `a` is the one that both positions could mean.
    let (mut ambiguous, mut slow) = (journal.resume(15).unwrap(), journal.resume(20).unwrap());
    journal.replace(vec![object(Kind::Pod, "b", "b1", 5)], 18);
    assert_eq!(now(&mut ambiguous).unwrap_err(), Ended::Expired(ResumeError::Ambiguous { asked: 15 }));
    // Its version passes while the log drops what followed.
    for version in 0..ENTRIES as u64 + 10 {
        journal.set(object(Kind::Pod, "b", "b1", version + 19));
    }
    assert!(matches!(now(&mut slow).unwrap_err(), Ended::Expired(ResumeError::Expired { asked: 20, .. })));
    // Nothing is known of what a version means after a restore.
    let mut restored = journal.resume(9_000).unwrap();
    journal.replace(vec![object(Kind::Pod, "b", "b1", 3)], 4);
    journal.set(object(Kind::Pod, "b", "b1", 9_001));
    assert_eq!(now(&mut restored).unwrap_err(), Ended::BeganAnew);
    drop((ambiguous, slow, restored));
    assert_eq!(journal.followers(), 0);
}

#[test]
fn what_went_between_two_lists_comes_last_and_is_followed_by_the_version_of_the_list() {
    let journal = Journal::new(Kind::Pod, Order::OfServer);
    journal.replace(vec![object(Kind::Pod, "a", "a1", 5), object(Kind::Pod, "b", "b1", 7)], 9);
    journal.begin(9);
    let (_, mut follower) = journal.follow();
    journal.replace(vec![object(Kind::Pod, "c", "c1", 14), object(Kind::Pod, "b", "b1", 11)], 20);
    let entries = now(&mut follower).unwrap();
    let needs: Vec<_> = entries.iter().map(|entry| (entry.key.name().to_owned(), entry.needs_bookmark())).collect();
    assert_eq!(needs, [("b".to_owned(), false), ("c".to_owned(), false), ("a".to_owned(), true)]);
    assert_eq!(follower.version(), Some(20));
    assert_eq!(journal.resume(14).map(|mut follower| told(&mut follower)), Ok(vec!["DELETED a 5".to_owned()]));
    assert_eq!(journal.resume(20).map(|mut follower| told(&mut follower).len()), Ok(0));
}

#[test]
fn versions_that_went_back_end_all_followers() {
    let journal = Journal::new(Kind::Pod, Order::OfServer);
    journal.replace(vec![object(Kind::Pod, "a", "a1", 5)], 9);
    let (_, mut follower) = journal.follow();
    journal.replace(vec![object(Kind::Pod, "a", "a1", 3)], 4);
    assert_eq!(now(&mut follower).unwrap_err(), Ended::BeganAnew);
    assert_eq!((journal.version(), journal.followers()), (4, 0));
    assert_eq!(journal.resume(3).unwrap_err(), ResumeError::Expired { asked: 3, oldest: 4 });
    assert_eq!(journal.resume(4).map(|mut follower| told(&mut follower).len()), Ok(0));
    drop(follower);
    assert_eq!(journal.followers(), 0);
}

#[test]
fn the_end_of_an_object_has_its_version_though_its_successor_is_there_already() {
    let journal = Journal::new(Kind::ConfigMap, Order::AsSeen);
    journal.set(object(Kind::ConfigMap, "a", "u1", 5));
    let (_, mut follower) = journal.follow();
    let (last, next) = (object(Kind::ConfigMap, "a", "u1", 7), object(Kind::ConfigMap, "a", "u2", 8));
    journal.observe(&key("a"), Some(Arc::clone(&last)), || Some(Arc::clone(&next)));
    // What is told late changes nothing.
    journal.observe(&key("a"), Some(last), || Some(next));
    let entries = now(&mut follower).unwrap();
    let seen: Vec<_> = entries.iter().map(|entry| (entry.event, entry.version())).collect();
    assert_eq!(seen, [(EventType::Deleted, 7), (EventType::Added, 8)]);
}

#[test]
fn an_old_object_that_comes_into_view_moves_the_version_by_one_and_needs_a_bookmark() {
    let journal = Journal::new(Kind::ConfigMap, Order::AsSeen);
    journal.set(object(Kind::ConfigMap, "a", "a1", 50));
    journal.begin(0);
    let (snapshot, mut follower) = journal.follow();
    assert_eq!(snapshot.version, 51, "the beginning is above every version that was seen");
    journal.set(object(Kind::ConfigMap, "old", "o1", 20));
    let entries = now(&mut follower).unwrap();
    assert!(entries[0].needs_bookmark());
    assert_eq!(follower.version(), Some(52));
    assert_eq!(journal.resume(51).map(|mut follower| told(&mut follower)), Ok(vec!["ADDED old 20".to_owned()]));
    assert_eq!(journal.resume(52).map(|mut follower| told(&mut follower).len()), Ok(0));
    for before in [20, 50] {
        assert_eq!(journal.resume(before).unwrap_err(), ResumeError::Expired { asked: before, oldest: 51 });
    }
    assert_eq!(journal.resume(53).unwrap_err(), ResumeError::Unknown { asked: 53 }, "it is not too old");
    journal.set(object(Kind::ConfigMap, "a", "a1", 60));
    assert_eq!(journal.resume(52).map(|mut follower| told(&mut follower)), Ok(vec!["MODIFIED a 60".to_owned()]));
    assert_eq!(journal.resume(55).unwrap_err(), ResumeError::Unknown { asked: 55 }, "no client got this version");
    // The same version, once as that of a position, once of an object that went.
    journal.remove(&key("a"), None);
    assert_eq!(journal.resume(60).unwrap_err(), ResumeError::Ambiguous { asked: 60 });
    assert_eq!(journal.resume(61).map(|mut follower| told(&mut follower).len()), Ok(0));
}

#[test]
fn a_journal_of_this_run_begins_at_its_newest_object_and_the_versions_of_objects_can_be_resumed_from() {
    let empty = Journal::new(Kind::ConfigMap, Order::OfThisRun);
    empty.begin(70);
    assert!(empty.resume(69).is_err() && empty.resume(70).is_ok() && empty.resume(71).is_err());
    let journal = Journal::new(Kind::ConfigMap, Order::OfThisRun);
    journal.set(object(Kind::ConfigMap, "a", "a1", 50));
    journal.begin(70);
    assert!(journal.resume(49).is_err(), "it may be of an earlier run");
    let resume = |version| journal.resume(version).map(|mut follower| told(&mut follower));
    assert_eq!(resume(50), Ok(vec![]));
    journal.set(object(Kind::ConfigMap, "a", "a1", 60));
    assert_eq!((resume(50), resume(60)), (Ok(vec!["MODIFIED a 60".to_owned()]), Ok(vec![])));
    journal.remove(&key("a"), None);
    assert!(resume(60).is_err() && resume(61).is_ok(), "the version could mean before and after the removal");
    journal.set(object(Kind::ConfigMap, "b", "b1", 80));
    assert_eq!((resume(61), resume(80)), (Ok(vec!["ADDED b 80".to_owned()]), Ok(vec![])));
}

#[test]
fn the_log_keeps_no_value_of_a_secret_that_is_not_current() {
    let journal = Journal::new(Kind::Secret, Order::AsSeen);
    let first = object(Kind::Secret, "a", "a1", 5);
    let gone = Arc::downgrade(&first);
    journal.set(first);
    let (_, mut follower) = journal.follow();
    journal.set(object(Kind::Secret, "a", "a1", 6));
    assert!(gone.upgrade().is_none(), "no follower needs it");
    let second = Arc::downgrade(&journal.snapshot().objects[0].0);
    journal.set(object(Kind::Secret, "a", "a1", 7));
    assert!(second.upgrade().is_some(), "a follower has yet to get it");
    assert_eq!(told(&mut follower), ["MODIFIED a 6", "MODIFIED a 7"]);
    assert!(second.upgrade().is_none());
    assert!(journal.resume(5).is_err(), "the value of version 6 has gone, so a resume would not be whole");
    assert_eq!(journal.resume(6).map(|mut follower| told(&mut follower)), Ok(vec!["MODIFIED a 7".to_owned()]));
    journal.remove(&key("a"), None);
    let entries = now(&mut follower).unwrap();
    let json = std::str::from_utf8(&(**entries[0].object().unwrap()).as_ref().json()).unwrap().to_owned();
    assert!(json.contains(r#""uid":"a1""#) && !json.contains("c2VjcmV0"), "{json}");
}

#[test]
fn a_follower_that_is_too_slow_ends_alone() {
    let journal = Journal::new(Kind::Pod, Order::OfServer);
    journal.begin(1);
    let ((_, mut slow), (_, mut quick)) = (journal.follow(), journal.follow());
    for version in 0..ENTRIES as u64 + 10 {
        journal.set(object(Kind::Pod, "a", "a1", version + 2));
        assert_eq!(told(&mut quick).len(), 1);
    }
    assert_eq!(now(&mut slow).unwrap_err(), Ended::TooSlow);
    assert!(slow.version().is_none());
    assert!(matches!(journal.resume(1), Err(ResumeError::Expired { .. })));
    assert!(journal.resume(100).is_ok());
}

#[test]
fn old_objects_are_bounded_by_their_bytes_and_current_ones_are_not_counted() {
    let journal = Journal::new(Kind::ConfigMap, Order::AsSeen);
    let large = |name: &str, version: u64| -> Arc<Resource> {
        let value = "x".repeat(1 << 20);
        let json = format!(
            r#"{{"metadata":{{"namespace":"web","name":"{name}","resourceVersion":"{version}"}},"data":{{"k":"{value}"}}}}"#
        );
        Arc::new(KubeObject::from_json(Kind::ConfigMap, json.as_bytes()).unwrap())
    };
    let (_, mut follower) = journal.follow();
    for version in 1..20 {
        journal.set(large(&format!("c{version}"), version));
    }
    assert_eq!(told(&mut follower).len(), 19, "all of these are current");
    for version in 20..40 {
        journal.set(large("c1", version));
    }
    assert_eq!(now(&mut follower).unwrap_err(), Ended::TooSlow);
    let kept = journal.resume(39).map(|_| ()).and(journal.resume(37).map(|_| ()));
    assert_eq!(kept, Ok(()));
    assert!(journal.resume(36).is_err());
}

#[tokio::test]
async fn a_follower_that_waits_is_woken_by_a_change_and_by_a_new_beginning() {
    let journal = Journal::new(Kind::Pod, Order::OfServer);
    let (_, mut follower) = journal.follow();
    let waiting =
        tokio::spawn(
            async move { (follower.next().await.map(|entries| entries.len()), follower.next().await.map(|_| ())) },
        );
    tokio::task::yield_now().await;
    journal.set(object(Kind::Pod, "a", "a1", 3));
    tokio::task::yield_now().await;
    journal.reset();
    assert_eq!(waiting.await.unwrap(), (Ok(1), Err(Ended::BeganAnew)));
}

#[tokio::test]
async fn a_resume_from_the_future_is_woken_by_what_follows_its_version_and_may_be_dropped() {
    let journal = Journal::new(Kind::Pod, Order::OfServer);
    journal.begin(1);
    let mut follower = journal.resume(3).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    assert!(std::pin::pin!(follower.next()).poll(&mut context).is_pending());
    let waiting = tokio::spawn(async move { follower.next().await.map(|entries| entries.len()) });
    for version in [2, 3] {
        journal.set(object(Kind::Pod, "a", "a1", version));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "{version}");
    }
    journal.set(object(Kind::Pod, "a", "a1", 4));
    assert_eq!(waiting.await.unwrap(), Ok(1));
}

#[tokio::test]
async fn a_version_is_waited_for() {
    let journal = Journal::new(Kind::Pod, Order::OfServer);
    let waiting = tokio::spawn({
        let journal = journal.clone();
        async move { journal.reached(7).await }
    });
    tokio::task::yield_now().await;
    journal.set(object(Kind::Pod, "a", "a1", 6));
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    journal.progress(7);
    waiting.await.unwrap();
}

/// A client as client-go is one: what it has, and the version from which it resumes.
struct Client {
    has: BTreeMap<ObjectKey, u64>,
    version: u64,
    follower: Follower,
    bookmarks: bool,
}

impl Client {
    fn list(journal: &Journal, bookmarks: bool) -> Self {
        let (snapshot, follower) = journal.follow();
        let has =
            snapshot.objects.iter().map(|(object, _)| ((**object).as_ref().key(), version_of(&**object))).collect();
        Self { has, version: snapshot.version, follower, bookmarks }
    }

    fn read(&mut self) {
        let Ok(entries) = now(&mut self.follower) else { return };
        for entry in &entries {
            let before = self.has.get(&entry.key).copied();
            match entry.event {
                EventType::Added => assert_eq!(before, None, "{entry:?} comes twice"),
                EventType::Modified => assert!(before.is_some_and(|before| before != entry.version()), "{entry:?}"),
                EventType::Deleted => assert!(before.is_some(), "{entry:?} was not there"),
            }
            match entry.event {
                EventType::Deleted => drop(self.has.remove(&entry.key)),
                EventType::Added | EventType::Modified => drop(self.has.insert(entry.key.clone(), entry.version())),
            }
            self.version = entry.version();
        }
        if self.bookmarks && entries.last().is_some_and(|last| last.needs_bookmark()) {
            self.version = self.follower.version().unwrap();
        }
    }

    /// Its connection is cut, and it goes on as it can.
    fn reconnect(&mut self, journal: &Journal) {
        match journal.resume(self.version) {
            Ok(follower) => self.follower = follower,
            Err(_) => *self = Self::list(journal, self.bookmarks),
        }
    }
}

/// Clients that read, lag, lose their connections, resume and list again, against a journal whose objects come, change and go in
/// and out of order: each change is seen exactly once, and what a client has is what there is.
#[test]
fn no_interleaving_loses_or_repeats_a_change() {
    let mut seed = 7_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for round in 0..300 {
        let (kind, order) = match round % 3 {
            0 => (Kind::Secret, Order::AsSeen),
            1 => (Kind::ConfigMap, Order::AsSeen),
            _ => (Kind::Pod, Order::OfServer),
        };
        let journal = Journal::new(kind, order);
        journal.begin(0);
        let (mut server, mut uids) = (10_u64, 0_u64);
        let mut there: BTreeMap<String, (String, u64)> = BTreeMap::new();
        // Those that are not in view keep their version at the server.
        let mut hidden: BTreeMap<String, (String, u64)> = BTreeMap::new();
        let mut clients: Vec<_> = (0..4).map(|at| Client::list(&journal, at % 2 == 0)).collect();
        for _ in 0..120 {
            let name = format!("o{}", random(5));
            server += random(3) + 1;
            match random(10) {
                0..=3 => {
                    let uid = there.get(&name).or(hidden.get(&name)).map_or_else(
                        || {
                            uids += 1;
                            format!("u{uids}")
                        },
                        |held| held.0.clone(),
                    );
                    hidden.remove(&name);
                    there.insert(name.clone(), (uid.clone(), server));
                    journal.set(object(kind, &name, &uid, server));
                }
                4 => {
                    if let Some((uid, _)) = there.remove(&name) {
                        let told =
                            (random(2) == 0 || order == Order::OfServer).then(|| object(kind, &name, &uid, server));
                        journal.remove(&key(&name), told);
                    }
                }
                5 if order == Order::AsSeen => {
                    if let Some(held) = there.remove(&name) {
                        journal.observe(&key(&name), None, || None);
                        hidden.insert(name, held);
                    }
                }
                6 if order == Order::AsSeen => {
                    if let Some((uid, version)) = hidden.remove(&name) {
                        journal.observe(&key(&name), None, || Some(object(kind, &name, &uid, version)));
                        there.insert(name, (uid, version));
                    }
                }
                7 if order == Order::OfServer => {
                    // A list after an outage, in which some went and some changed.
                    there.retain(|_, _| random(3) != 0);
                    let list = there.iter().map(|(name, (uid, version))| object(kind, name, uid, *version)).collect();
                    journal.replace(list, server);
                }
                _ => {
                    let at = usize::try_from(random(4)).unwrap();
                    if random(2) == 0 { clients[at].read() } else { clients[at].reconnect(&journal) }
                }
            }
        }
        for client in &mut clients {
            client.read();
            let has: Vec<_> = client.has.iter().map(|(key, version)| (key.name().to_owned(), *version)).collect();
            let expected: Vec<_> = there.iter().map(|(name, (_, version))| (name.clone(), *version)).collect();
            assert_eq!(has, expected, "round {round}");
        }
    }
}
