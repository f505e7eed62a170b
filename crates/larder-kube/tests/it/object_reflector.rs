//! Reflectors of single objects and of namespaces, against the scripted server.

use crate::fake::{Answer, Asked, Fake, Feed, later, no_streaming, ok, pod, raw, secret, status, until};
use larder_clock::Jitter;
use larder_kube::{KubeError, KubeOptions, KubeReflector, KubeReflectors};
use larder_objects::{Fetch, ObjectKey, ReadKind, ReflectorEvent, ReflectorSink, Reflectors, Scope};
use larder_resource::{KubeObject, ObjectKind};
use serde_json::{Value, json};
use std::sync::mpsc::Receiver;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

type Event = ReflectorEvent<KubeObject, KubeError>;

const STREAMING: &str = "/api/v1/namespaces/web/secrets?watch=true&allowWatchBookmarks=true\
     &fieldSelector=metadata.name%3Dtls&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=";
const LIST: &str = "/api/v1/namespaces/web/secrets?fieldSelector=metadata.name%3Dtls";

/// A reflector and what it has told.
struct Told {
    events: Receiver<Event>,
    reflector: KubeReflector,
}

impl Told {
    fn of(reflectors: &KubeReflectors, name: &str, resume: Option<&str>) -> Self {
        let (sink, events) = ReflectorSink::channel();
        let reflector = reflectors.start(&Scope::Object(ObjectKey::new("web", name)), resume.map(str::to_owned), sink);
        Self { events, reflector }
    }

    /// In words, as it comes.
    async fn next(&self) -> String {
        let mut found = None;
        until(|| {
            found = self.events.try_recv().ok();
            found.is_some()
        })
        .await;
        words(&found.expect("it was waited for"))
    }

    async fn expect<const N: usize>(&self, expected: [&str; N]) {
        for expected in expected {
            assert_eq!(self.next().await, expected);
        }
    }

    fn nothing_more(&self) {
        assert_eq!(self.events.try_recv().ok().map(|event| words(&event)), None);
    }
}

fn words(event: &Event) -> String {
    match event {
        Event::Listing => "listing".into(),
        Event::Replace(objects, ReadKind::Consistent) => match objects.first() {
            None => "replace: none".into(),
            Some((_, object)) => format!("replace: {}", object.resource_version()),
        },
        Event::Set(_, object) => format!("set: {} of {}", object.resource_version(), object.uid()),
        Event::Delete(..) => "delete".into(),
        Event::Replace(_, ReadKind::ApiServerCache) => "replace from the cache".into(),
        Event::Confirm(_) => "confirm".into(),
        Event::Bookmark { version } => format!("bookmark: {version}"),
        Event::Failed(error) => format!("failed: {}", larder_objects::FetchError::class(&**error)),
        Event::WentBack { before, after } => format!("went back: {before} to {after}"),
    }
}

fn reflectors(fake: &Fake, options: KubeOptions) -> KubeReflectors {
    fake.client(options).reflectors(ObjectKind::Secret)
}

fn tls(version: &str) -> Value {
    secret("web", "tls", version)
}

fn secrets(version: &str, items: &[Value]) -> Answer {
    ok(&json!({"kind": "SecretList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items}))
}

/// Tells what there is, and that this is all.
async fn initial(feed: &Feed, version: &str, objects: &[Value]) {
    for object in objects {
        feed.event("ADDED", object).await;
    }
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    let metadata = json!({"resourceVersion": version, "annotations": annotations});
    feed.event("BOOKMARK", &json!({"kind": "Secret", "apiVersion": "v1", "metadata": metadata})).await;
}

/// A reflector that has its first list.
async fn synced(version: &str) -> (Fake, KubeReflectors, Feed, Told) {
    let (feed, watch) = Feed::new();
    let fake = Fake::new([watch]);
    let reflectors = reflectors(&fake, KubeOptions::default());
    let told = Told::of(&reflectors, "tls", None);
    initial(&feed, version, &[tls("3")]).await;
    told.expect(["listing", "replace: 3"]).await;
    (fake, reflectors, feed, told)
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_is_the_beginning_of_the_watch() {
    let (fake, _reflect, feed, told) = synced("10").await;
    let asked = fake.paths();
    let timeout = asked[0].strip_prefix(STREAMING).unwrap_or_else(|| panic!("{asked:?}"));
    assert!((1800..3600).contains(&timeout.parse::<u32>().unwrap()), "{timeout}");
    feed.event("MODIFIED", &tls("11")).await;
    feed.bookmark("15").await;
    feed.event("DELETED", &tls("16")).await;
    let mut other = tls("17");
    other["metadata"]["uid"] = "another".into();
    feed.event("ADDED", &other).await;
    told.expect(["set: 11 of uid-tls", "bookmark: 15", "delete", "set: 17 of another"]).await;
    assert_eq!(fake.paths().len(), 1);
}

/// Ends a watch when its time is over, and gives the version that it has reached.
async fn end_in_time(feed: Feed, told: &Told) -> &'static str {
    for minute in 20..80 {
        tokio::time::advance(Duration::from_mins(1)).await;
        feed.bookmark(&minute.to_string()).await;
        told.expect([&*format!("bookmark: {minute}")]).await;
    }
    "79"
}

/// A silence of a connection is noticed within this; so is a watch that has ended.
const NOTICED: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn what_a_watch_brought_is_stale_within_10_s_of_its_end_unless_another_is_open() {
    let (fake, _reflect, feed, told) = synced("10").await;
    // In good order, as a server closes it that is shut down; the next request is never answered.
    let ended = Instant::now();
    drop(feed);
    told.expect(["failed: unwatched"]).await;
    assert!(ended.elapsed() <= NOTICED, "{:?}", ended.elapsed());
    assert_eq!(fake.paths().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_was_listed_is_stale_within_10_s_where_no_watch_can_be_opened() {
    let fake = Fake::new([no_streaming(), secrets("10", &[tls("3")])]);
    let reflectors = reflectors(&fake, KubeOptions::default());
    let told = Told::of(&reflectors, "tls", None);
    told.expect(["listing", "listing", "replace: 3"]).await;
    let listed = Instant::now();
    told.expect(["failed: unwatched"]).await;
    assert!(listed.elapsed() <= NOTICED, "{:?}", listed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_opens_after_what_it_goes_on_from_is_stale_confirms_when_it_has_caught_up() {
    for is_listed in [false, true] {
        let (late, answer) = Answer::late();
        let (ended, streaming) = Feed::listing("10", &[tls("3")]);
        let first = if is_listed { vec![no_streaming(), secrets("10", &[tls("3")])] } else { vec![streaming] };
        let fake = Fake::new(first.into_iter().chain([answer]));
        let mut options = KubeOptions::default();
        options.fetch_deadline = NOTICED * 2;
        let reflectors = reflectors(&fake, options);
        let told = Told::of(&reflectors, "tls", None);
        told.expect(["listing"]).await;
        if is_listed {
            told.expect(["listing"]).await;
        }
        told.expect(["replace: 3"]).await;
        let version = if is_listed { "10" } else { end_in_time(ended, &told).await };
        let begun = fake.until_asked(if is_listed { 3 } else { 2 }).await.len();
        told.expect(["failed: unwatched"]).await;
        let (_first, watch) = Feed::new();
        let (feed, again) = Feed::new();
        fake.push(secrets("90", &[]));
        fake.push(again);
        late.send(watch).ok().expect("larder waits for it");
        let asked = fake.until_asked(begun + 2).await;
        assert_eq!(asked[begun].path, LIST, "it asks where the server is");
        assert!(asked[begun + 1].path.contains(&format!("&resourceVersion={version}&")), "{:?}", asked[begun + 1].path);
        told.nothing_more();
        feed.event("MODIFIED", &tls("90")).await;
        told.expect(["set: 90 of uid-tls", "bookmark: 90"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn all_whose_watches_end_at_once_are_stale_within_10_s_and_wait_for_one_lost_request_once() {
    fn open(path: &str) -> Answer {
        if !path.contains("watch=true") {
            return secrets("10", &[]);
        }
        let (feed, answer) = Feed::new();
        // Open for as long as the test runs.
        std::mem::forget(feed);
        answer
    }
    let fake = Fake::always(open);
    let mut feeds = Vec::new();
    let names: Vec<String> = (0..40).map(|n| format!("tls-{n}")).collect();
    let reflectors = reflectors(&fake, KubeOptions::default());
    let mut all = Vec::new();
    for name in &names {
        let (feed, watch) = Feed::listing("10", &[secret("web", name, "3")]);
        fake.push(watch);
        let told = Told::of(&reflectors, name, None);
        told.expect(["listing", "replace: 3"]).await;
        feeds.push(feed);
        all.push(told);
    }
    fake.push(Answer::Hang);
    let ended = Instant::now();
    drop(feeds);
    for told in &all {
        told.expect(["failed: unwatched"]).await;
    }
    assert!(ended.elapsed() <= NOTICED, "{:?}", ended.elapsed());
    for told in &all {
        let mut next = told.next().await;
        while next.starts_with("failed") {
            next = told.next().await;
        }
        assert_eq!(next, "confirm");
    }
    assert!(ended.elapsed() <= NOTICED * 2, "{:?}", ended.elapsed());
}

/// Sends a space every second, for ever.
async fn dribble(feed: Feed) {
    loop {
        feed.text(" ").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_dribbles_fails_by_its_deadline_and_holds_up_no_other() {
    let (_open, served) = Feed::listing("10", &[secret("web", "first", "3")]);
    let (feed, dribbling) = Feed::new();
    let (_last, after) = Feed::listing("11", &[secret("web", "last", "4")]);
    let fake = Fake::new([served, dribbling, after]);
    let mut options = KubeOptions::default();
    options.starts_in_flight = 1;
    let reflectors = reflectors(&fake, options);
    let first = Told::of(&reflectors, "first", None);
    first.expect(["listing", "replace: 3"]).await;
    let second = Told::of(&reflectors, "second", None);
    second.expect(["listing"]).await;
    let begun = Instant::now();
    let _dribbling = AbortOnDropHandle::new(tokio::spawn(dribble(feed)));
    let last = Told::of(&reflectors, "last", None);
    second.expect(["failed: timeout"]).await;
    assert!(begun.elapsed() <= KubeOptions::default().list_deadline + Duration::from_secs(1), "{:?}", begun.elapsed());
    last.expect(["listing", "replace: 4"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_hangs_at_a_server_that_has_served_one_is_a_failure() {
    let (_open, served) = Feed::listing("10", &[secret("web", "first", "3")]);
    let (_hangs, hanging) = Feed::new();
    let (_again, after) = Feed::listing("11", &[tls("4")]);
    let fake = Fake::new([served, hanging, after]);
    let reflectors = reflectors(&fake, KubeOptions::default());
    let first = Told::of(&reflectors, "first", None);
    first.expect(["listing", "replace: 3"]).await;
    let second = Told::of(&reflectors, "tls", None);
    second.expect(["listing", "failed: timeout", "listing", "replace: 4"]).await;
    assert!(fake.asked().iter().all(Asked::is_watch), "{:?}", fake.paths());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_begun_is_complete_within_the_deadline_of_a_read_or_its_watch_has_failed() {
    let (_fake, _reflect, feed, told) = synced("10").await;
    let begun = Instant::now();
    feed.text("{\"type\":\"MODIFIED\",").await;
    let _dribbling = AbortOnDropHandle::new(tokio::spawn(dribble(feed)));
    told.expect(["failed: timeout"]).await;
    let took = begun.elapsed();
    assert!(took <= KubeOptions::default().fetch_deadline + Duration::from_secs(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn absence_is_told_by_a_complete_list_alone() {
    let (feed, watch) = Feed::new();
    let fake = Fake::new([watch]);
    let reflectors = reflectors(&fake, KubeOptions::default());
    let told = Told::of(&reflectors, "tls", None);
    feed.bookmark("5").await;
    told.expect(["listing"]).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    // An end without a version is none: nothing could go on from it.
    initial(&feed, "", &[]).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    told.nothing_more();
    initial(&feed, "10", &[]).await;
    told.expect(["replace: none"]).await;
    feed.event("ADDED", &tls("11")).await;
    told.expect(["set: 11 of uid-tls"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_tells_nothing_of_what_it_had() {
    let (feed, watch) = Feed::new();
    let (again, second) = Feed::new();
    let fake = Fake::new([watch, second]);
    let reflectors = reflectors(&fake, KubeOptions::default());
    let told = Told::of(&reflectors, "tls", None);
    feed.event("ADDED", &tls("3")).await;
    drop(feed);
    told.expect(["listing", "failed: unreachable"]).await;
    initial(&again, "10", &[]).await;
    told.expect(["listing", "replace: none"]).await;
}

#[tokio::test(start_paused = true)]
async fn where_streaming_lists_are_refused_it_lists_and_watches_and_remembers() {
    let refusal = json!({"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": 500, "reason": "InternalError", "message": "RequestWatchProgress is disabled"}});
    for refused in [raw(&format!("{refusal}\n")), status(422, "Invalid", "sendInitialEvents: Forbidden")] {
        let (feed, watch) = Feed::new();
        let (_second, again) = Feed::new();
        let fake = Fake::new([refused, secrets("10", &[tls("3")]), watch]);
        let reflectors = reflectors(&fake, KubeOptions::default());
        let told = Told::of(&reflectors, "tls", None);
        told.expect(["listing", "listing", "replace: 3"]).await;
        let asked = fake.until_asked(3).await;
        assert!(asked[0].path.starts_with(STREAMING) && asked[1].path == LIST, "{:?}", fake.paths());
        assert!(asked[2].path.contains("&resourceVersion=10&") && !asked[2].path.contains("sendInitialEvents"));
        feed.event("MODIFIED", &tls("11")).await;
        told.expect(["confirm", "set: 11 of uid-tls"]).await;

        fake.push(secrets("12", &[]));
        fake.push(again);
        let other = Told::of(&reflectors, "other", None);
        other.expect(["listing", "replace: none"]).await;
        assert!(fake.until_asked(5).await[3].path.ends_with("metadata.name%3Dother"), "it is not asked again");

        // A server that was away may come back as a newer one.
        fake.push(Answer::Break);
        feed.cut().await;
        told.expect(["failed: unreachable", "failed: unreachable"]).await;
        let third = Told::of(&reflectors, "third", None);
        until(|| fake.paths().iter().filter(|path| path.contains("sendInitialEvents")).count() == 2).await;
        drop(third);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_never_heard_of_streaming_lists_is_not_waited_for_for_ever() {
    let (feed, watch) = Feed::new();
    let (_second, again) = Feed::new();
    let fake = Fake::new([watch, secrets("10", &[tls("3")]), again]);
    let reflectors = reflectors(&fake, KubeOptions::default());
    let told = Told::of(&reflectors, "tls", None);
    feed.event("ADDED", &tls("3")).await;
    told.expect(["listing", "listing", "replace: 3"]).await;
    let asked = fake.until_asked(3).await;
    assert_eq!((asked[1].at - asked[0].at).as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_time_is_over_goes_on_where_it_was() {
    let (fake, _reflect, feed, told) = synced("10").await;
    let (_again, second) = Feed::new();
    fake.push(second);
    let version = end_in_time(feed, &told).await;
    told.expect(["confirm"]).await;
    let asked = fake.until_asked(2).await;
    assert!(asked[1].path.contains(&format!("&resourceVersion={version}&")), "{}", asked[1].path);
}

/// Servers close watches a little before their time or after it.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_some_seconds_before_its_time_goes_on_where_it_was() {
    let (fake, _reflect, feed, told) = synced("10").await;
    let first = fake.asked().remove(0);
    let seconds = first.path.rsplit_once("timeoutSeconds=").unwrap().1.parse().unwrap();
    let ends_at = first.at + Duration::from_secs(seconds) - Duration::from_secs(4);
    let mut version = 10;
    while Instant::now() + Duration::from_mins(1) < ends_at {
        tokio::time::advance(Duration::from_mins(1)).await;
        version += 1;
        feed.bookmark(&version.to_string()).await;
        told.expect([&*format!("bookmark: {version}")]).await;
    }
    tokio::time::advance(ends_at - Instant::now()).await;
    let (_again, second) = Feed::new();
    fake.push(second);
    drop(feed);
    told.expect(["confirm"]).await;
    let asked = fake.until_asked(2).await;
    assert!(asked[1].path.contains(&format!("&resourceVersion={version}&")), "{}", asked[1].path);
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_watch_finds_no_room_is_listed_at_least_every_45_s() {
    /// A watch that is open for as long as the test runs.
    fn open((feed, answer): (Feed, Answer)) -> Answer {
        std::mem::forget(feed);
        answer
    }
    fn with_streaming_lists(path: &str) -> Answer {
        match path {
            path if path.contains("sendInitialEvents") => open(Feed::listing("10", &[])),
            path if path.contains("watch=true") => open(Feed::new()),
            _ => secrets("10", &[]),
        }
    }
    fn without_streaming_lists(path: &str) -> Answer {
        if path.contains("sendInitialEvents") { no_streaming() } else { with_streaming_lists(path) }
    }
    /// What the server answers to a path.
    type Answers = fn(&str) -> Answer;
    let cases: [(Answers, [usize; 2]); 2] = [
        // The second one's streaming list finds no room, so it lists.
        (with_streaming_lists, [1, 2]),
        // The first one's is refused, and the second one knows.
        (without_streaming_lists, [2, 1]),
    ];
    for (answer, listings) in cases {
        let fake = Fake::always(answer);
        let mut options = KubeOptions::default();
        options.jitter = Jitter::from_seed(1);
        // One for a watch, and one for reads.
        options.http1_connections = 2;
        let reflectors = reflectors(&fake, options);
        let mut all = Vec::new();
        for (name, listings) in ["tls", "other"].into_iter().zip(listings) {
            let told = Told::of(&reflectors, name, None);
            for _ in 0..listings {
                told.expect(["listing"]).await;
            }
            told.expect(["replace: none"]).await;
            all.push(told);
        }
        let is_list = |asked: &Asked| !asked.is_watch() && asked.path.ends_with("metadata.name%3Dother");
        let lists = || fake.asked().into_iter().filter(is_list).map(|asked| asked.at).collect::<Vec<_>>();
        until(|| lists().len() > 20).await;
        let longest = lists().windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest <= Some(Duration::from_secs(45)), "{longest:?}");
    }
}

/// A server that ends watches early may be about to stop: each of its clients waits a moment.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_early_is_opened_again_after_a_pause_and_nothing_is_listed() {
    let (fake, _reflect, mut feed, told) = synced("10").await;
    for round in 1..=3 {
        let (next, watch) = Feed::new();
        fake.push(secrets("10", &[]));
        fake.push(watch);
        // Long enough to be no failure at the same version.
        tokio::time::advance(Duration::from_secs(5)).await;
        let ended = Instant::now();
        drop(feed);
        let asked = fake.until_asked(1 + 2 * round).await;
        let (probe, resumed) = (&asked[2 * round - 1], &asked[2 * round]);
        assert_eq!(probe.path, LIST, "it asks where the server is");
        assert!(probe.at - ended >= Duration::from_millis(250), "{:?}", probe.at - ended);
        assert!(resumed.path.contains("&resourceVersion=10&"), "{}", resumed.path);
        told.expect(["confirm"]).await;
        feed = next;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_twice_in_a_row_is_listed_anew() {
    let (fake, _reflectors, feed, told) = synced("10").await;
    for _ in 0..2 {
        let (ended, watch) = Feed::new();
        drop(ended);
        fake.push(secrets("10", &[]));
        fake.push(watch);
    }
    let (_listed, list) = Feed::listing("12", &[tls("11")]);
    fake.push(list);
    tokio::time::advance(Duration::from_secs(5)).await;
    drop(feed);
    told.expect(["listing", "replace: 11"]).await;
    let asked = fake.paths();
    assert_eq!(asked.len(), 6, "{asked:?}");
    for (probe, resumed) in [(1, 2), (3, 4)] {
        assert_eq!(asked[probe], LIST);
        assert!(asked[resumed].contains("&resourceVersion=10&"), "{}", asked[resumed]);
    }
    assert!(asked[5].starts_with(STREAMING), "{}", asked[5]);
}

/// After a restore of etcd everything is listed at once. A server whose versions go to and fro is left alone for a moment.
#[tokio::test(start_paused = true)]
async fn versions_that_go_back_lead_to_a_list_at_once_unless_they_do_right_after_one() {
    let (fake, _reflect, feed, told) = synced("10").await;
    let (first, watch) = Feed::listing("4", &[tls("3")]);
    fake.push(watch);
    tokio::time::advance(Duration::from_secs(5)).await;
    let back = Instant::now();
    feed.event("MODIFIED", &tls("5")).await;
    told.expect(["listing", "went back: 10 to 4", "replace: 3"]).await;
    assert_eq!(fake.asked()[1].at, back);

    let (_second, watch) = Feed::listing("3", &[tls("2")]);
    fake.push(watch);
    let back = Instant::now();
    first.event("MODIFIED", &tls("2")).await;
    told.expect(["listing", "went back: 4 to 3", "replace: 2"]).await;
    let pause = fake.asked()[2].at - back;
    assert!(pause >= Duration::from_millis(250), "{pause:?}");
}

/// Two are lost, one asks where the server is.
#[tokio::test(start_paused = true)]
async fn watches_that_were_lost_go_on_where_they_were_and_confirm_when_they_have_caught_up() {
    let fake = Fake::default();
    let mut options = KubeOptions::default();
    options.starts_in_flight = 1;
    let reflectors = reflectors(&fake, options);
    let mut told = Vec::new();
    for _ in 0..2 {
        let (feed, watch) = Feed::new();
        fake.push(watch);
        let one = Told::of(&reflectors, "tls", None);
        initial(&feed, "10", &[tls("3")]).await;
        one.expect(["listing", "replace: 3"]).await;
        told.push((one, feed));
    }
    let (first, watch) = Feed::new();
    let (_second, again) = Feed::new();
    for answer in [secrets("12", &[tls("12")]), watch, again] {
        fake.push(answer);
    }
    let mut reflectors = Vec::new();
    for (one, feed) in told {
        feed.cut().await;
        one.expect(["failed: unreachable"]).await;
        reflectors.push(one);
    }
    let asked = fake.until_asked(5).await;
    assert_eq!(asked[2].path, LIST);
    assert!(asked[3..].iter().all(|asked| asked.path.contains("&resourceVersion=10&")), "{:?}", fake.paths());
    let begun = asked[3].at;
    // What it missed comes at once, where there is something.
    first.event("MODIFIED", &tls("12")).await;
    let mut ends = [reflectors[0].next().await, reflectors[1].next().await];
    ends.sort();
    assert_eq!(ends, ["confirm", "set: 12 of uid-tls"]);
    assert!(begun.elapsed() >= Duration::from_secs(1), "a quiet one is confirmed after a while");
}

#[tokio::test(start_paused = true)]
async fn versions_that_go_back_are_told_and_everything_is_listed_again() {
    // Seen at an event, at a bookmark, and when the server is asked where it is.
    for case in 0..3 {
        let (fake, reflectors, feed, told) = synced("1000").await;
        let (again, second) = Feed::new();
        if case == 2 {
            fake.push(secrets("50", &[]));
        }
        fake.push(second);
        match case {
            0 => feed.event("MODIFIED", &tls("40")).await,
            1 => feed.bookmark("40").await,
            _ => {
                feed.cut().await;
                told.expect(["failed: unreachable"]).await;
            }
        }
        told.expect(["listing"]).await;
        initial(&again, "51", &[tls("2")]).await;
        told.expect(["went back: 1000 to 51", "replace: 2"]).await;
        drop(reflectors);
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_stop_is_resumed_with_a_list_that_notices_lower_versions() {
    let (feed, watch) = Feed::new();
    let fake = Fake::new([watch]);
    let reflectors = reflectors(&fake, KubeOptions::default());
    let told = Told::of(&reflectors, "tls", Some("900"));
    initial(&feed, "10", &[tls("3")]).await;
    told.expect(["listing", "went back: 900 to 10", "replace: 3"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_is_listed_anew_at_once_and_is_no_failure() {
    let (fake, _reflect, feed, told) = synced("10").await;
    let (again, second) = Feed::new();
    fake.push(second);
    tokio::time::advance(Duration::from_secs(10)).await;
    let expired = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired"});
    feed.event("ERROR", &expired).await;
    initial(&again, "30", &[]).await;
    told.expect(["listing", "replace: none"]).await;
    // A server that does not know its own list's version is left alone for a while.
    let asked = tokio::time::Instant::now();
    let (_third, watch) = Feed::new();
    fake.push(watch);
    again.event("ERROR", &expired).await;
    told.expect(["failed: expired", "listing"]).await;
    assert!(asked.elapsed() >= Duration::from_millis(250));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_leads_to_a_new_list() {
    let wrong = json!({"type": "ADDED", "object": pod("tls", "11")}).to_string().replace("metadata", "kind");
    for line in ["nonsense".to_owned(), wrong] {
        let (fake, reflectors, feed, told) = synced("10").await;
        let (again, second) = Feed::new();
        fake.push(second);
        feed.text(&format!("{line}\n")).await;
        told.expect(["failed: decode", "listing"]).await;
        initial(&again, "12", &[tls("12")]).await;
        told.expect(["replace: 12"]).await;
        drop(reflectors);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_silence_leads_to_a_new_list() {
    let (fake, _reflect, feed, told) = synced("10").await;
    let (again, second) = Feed::new();
    fake.push(second);
    let asked = fake.until_asked(2).await;
    assert!((150..152).contains(&(asked[1].at - asked[0].at).as_secs()));
    feed.closed().await;
    initial(&again, "12", &[]).await;
    told.expect(["listing", "replace: none"]).await;
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected_and_pauses_grow_to_the_limit() {
    let fake = Fake::new([later(429, 9), later(503, 20)]);
    for _ in 0..18 {
        fake.push(status(503, "", ""));
    }
    let reflectors = reflectors(&fake, KubeOptions::default());
    let told = Told::of(&reflectors, "tls", None);
    let asked = fake.until_asked(20).await;
    let pauses: Vec<u64> = asked.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs()).collect();
    assert!((9..=12).contains(&pauses[0]) && (20..=25).contains(&pauses[1]), "{pauses:?}");
    assert!(pauses[10..].iter().all(|pause| (15..=30).contains(pause)), "{pauses:?}");
    told.expect(["listing", "failed: throttled", "listing", "failed: server_error"]).await;
}

/// As of pods and the node (`reflector::the_first_success_of_another_request_ends_its_pause`).
#[tokio::test(start_paused = true)]
async fn the_first_success_of_another_request_ends_the_pause_of_a_reflector() {
    let fake = Fake::new((0..10).map(|_| status(401, "Unauthorized", "")));
    let client = fake.client(KubeOptions::default());
    let reflectors = client.reflectors(ObjectKind::Secret);
    let _told = Told::of(&reflectors, "tls", None);
    let refused = fake.until_asked(10).await[9].at;
    fake.push(ok(&secret("web", "other", "1")));
    client.fetcher(ObjectKind::Secret).fetch(&ObjectKey::new("web", "other"), ReadKind::Consistent).await.unwrap();
    let pause = fake.until_asked(12).await[11].at - refused;
    assert!(pause <= Duration::from_millis(1100), "{pause:?}");
}

#[tokio::test(start_paused = true)]
async fn a_403_just_after_a_pods_arrival_is_asked_again_and_not_told() {
    let (feed, watch) = Feed::new();
    let fake = Fake::new([status(403, "Forbidden", ""), status(403, "Forbidden", ""), watch]);
    let client = fake.client(KubeOptions::default());
    client.note_pod("web");
    let reflectors = client.reflectors(ObjectKind::Secret);
    let told = Told::of(&reflectors, "tls", None);
    initial(&feed, "10", &[tls("3")]).await;
    told.expect(["listing", "listing", "listing", "replace: 3"]).await;
    let asked = fake.asked();
    assert!(asked[2].at - asked[0].at < Duration::from_secs(1));
    // Of a pod that has been there for long, it is believed.
    tokio::time::advance(Duration::from_secs(10)).await;
    fake.push(status(403, "Forbidden", ""));
    let other = Told::of(&reflectors, "other", None);
    other.expect(["listing", "failed: forbidden"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_closes_at_once_is_not_begun_in_a_loop() {
    let (fake, _reflect, feed, _told) = synced("10").await;
    for _ in 0..10 {
        fake.push(secrets("10", &[tls("3")]));
        fake.push(raw(""));
    }
    drop(feed);
    let asked = fake.until_asked(20).await;
    assert!(asked[19].at - asked[1].at > Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn lists_in_flight_are_bounded() {
    let fake = Fake::default();
    let mut options = KubeOptions::default();
    options.starts_in_flight = 3;
    let reflectors = reflectors(&fake, options);
    let all: Vec<Told> = (0..10).map(|index| Told::of(&reflectors, &format!("s{index}"), None)).collect();
    fake.until_asked(3).await;
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(fake.paths().len(), 3, "the first three hang");
    // Whoever is dropped while it waits or lists makes room at once.
    drop(all);
    assert_eq!(reflectors.kind(), ObjectKind::Secret);
    reflectors.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_that_are_dropped_at_once_hang_up_one_after_another() {
    let fake = Fake::default();
    let client = fake.client(KubeOptions::default());
    let reflectors = client.reflectors(ObjectKind::Secret);
    let mut all = Vec::new();
    let mut feeds = Vec::new();
    for index in 0..200 {
        let (feed, watch) = Feed::new();
        fake.push(watch);
        all.push(Told::of(&reflectors, &format!("s{index}"), None));
        initial(&feed, "10", &[]).await;
        feeds.push(feed);
    }
    for one in &all {
        one.expect(["listing", "replace: none"]).await;
    }
    assert_eq!((client.stats().reflectors, client.stats().watches_open), (200, 200));
    drop(all);
    tokio::time::advance(Duration::from_millis(100)).await;
    let early = client.stats().watches_open;
    assert!(early > 100, "{early} are still open after a twentieth of the time");
    until(|| client.stats().watches_open == 0).await;
    assert_eq!(client.stats().reflectors, 0);
    // One alone hangs up at once.
    let (feed, watch) = Feed::new();
    fake.push(watch);
    let one = Told::of(&reflectors, "one", None);
    initial(&feed, "10", &[]).await;
    one.expect(["listing", "replace: none"]).await;
    let dropped = tokio::time::Instant::now();
    drop(one.reflector);
    feed.closed().await;
    assert!(dropped.elapsed() < Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn no_task_outlives_its_owner() {
    for stop in [true, false] {
        let fake = Fake::default();
        let client = fake.client(KubeOptions::default());
        let reflectors = client.reflectors(ObjectKind::Secret);
        let mut all = Vec::new();
        let mut feeds = Vec::new();
        for index in 0..20 {
            let (feed, watch) = Feed::new();
            fake.push(watch);
            let told = Told::of(&reflectors, &format!("s{index}"), None);
            initial(&feed, "10", &[]).await;
            told.expect(["listing", "replace: none"]).await;
            all.push(told);
            feeds.push(feed);
        }
        // One that waits for an answer, too.
        all.push(Told::of(&reflectors, "hanging", None));
        fake.until_asked(21).await;
        if stop {
            reflectors.stop().await;
            assert_eq!((client.stats().reflectors, client.stats().watches_open), (0, 0));
            let late = Told::of(&reflectors, "late", None);
            reflectors.stop().await;
            late.nothing_more();
        } else {
            drop(reflectors);
        }
        for feed in &feeds {
            feed.closed().await;
        }
        until(|| client.stats().reflectors == 0 && tokio::runtime::Handle::current().metrics().num_alive_tasks() <= 1)
            .await;
        drop(all);
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_would_be_another_selector_is_refused() {
    for name in ["", "a,b", "a=b", "a/b", "..", "a!"] {
        let fake = Fake::default();
        let reflectors = reflectors(&fake, KubeOptions::default());
        let told = Told::of(&reflectors, name, None);
        let failed = told.events.try_recv().unwrap();
        assert!(
            matches!(&failed, Event::Failed(error) if matches!(**error, KubeError::InvalidName { .. })),
            "{name:?}"
        );
        assert!(fake.paths().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_other_names_are_passed_over() {
    let (_fake, _reflect, feed, told) = synced("10").await;
    feed.event("ADDED", &secret("web", "other", "11")).await;
    feed.event("DELETED", &secret("other", "tls", "12")).await;
    feed.event("MODIFIED", &tls("13")).await;
    told.expect(["set: 13 of uid-tls"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_reflected_by_one_watch() {
    let (feed, watch) = Feed::new();
    let fake = Fake::new([watch]);
    let reflectors = reflectors(&fake, KubeOptions::default());
    let (sink, events) = ReflectorSink::channel();
    let _reflector = reflectors.start(&Scope::Namespace("web".into()), None, sink);
    initial(&feed, "10", &[secret("web", "b", "7"), secret("web", "a", "3")]).await;
    feed.event("MODIFIED", &secret("web", "a", "11")).await;
    feed.event("DELETED", &secret("web", "b", "12")).await;
    feed.bookmark("13").await;
    let mut told = Vec::new();
    until(|| {
        told.extend(events.try_iter());
        told.len() == 5
    })
    .await;
    assert!(matches!(&told[..], [
        Event::Listing,
        Event::Replace(all, ReadKind::Consistent),
        Event::Set(set, _),
        Event::Delete(deleted, _),
        Event::Bookmark { version },
    ] if all.iter().map(|(name, _)| name.as_str()).eq(["a", "b"]) && set == "a" && deleted == "b" && version == "13"));
    assert!(fake.paths()[0].starts_with("/api/v1/namespaces/web/secrets?watch=true&"), "{:?}", fake.paths());
}

/// Where streaming lists are refused, a namespace is listed in pages.
#[tokio::test(start_paused = true)]
async fn a_long_list_comes_in_pages_and_begins_anew_when_a_page_has_expired() {
    let page = |items: &[Value], token: &str| {
        let metadata = json!({"resourceVersion": "10", "continue": token});
        ok(&json!({"kind": "SecretList", "apiVersion": "v1", "metadata": metadata, "items": items}))
    };
    let (_feed, watch) = Feed::new();
    let fake = Fake::new([
        no_streaming(),
        page(&[secret("web", "a", "1")], "to/ken="),
        status(410, "Expired", ""),
        page(&[secret("web", "b", "1")], "second"),
        page(&[secret("web", "c", "2")], ""),
        watch,
    ]);
    let mut options = KubeOptions::default();
    options.page_size = 1;
    let reflectors = reflectors(&fake, options);
    let (sink, events) = ReflectorSink::channel();
    let _reflector = reflectors.start(&Scope::Namespace("web".into()), None, sink);
    let mut listed = Vec::new();
    until(|| {
        listed.extend(events.try_iter().filter_map(|event| match event {
            Event::Replace(all, ReadKind::Consistent) => Some(all),
            _ => None,
        }));
        !listed.is_empty()
    })
    .await;
    assert!(listed[0].iter().map(|(name, _)| name.as_str()).eq(["b", "c"]));
    let paths = &fake.paths()[1..];
    assert!(paths[0].ends_with("&limit=1") && paths[1].ends_with("&limit=1&continue=to%2Fken%3D"), "{paths:?}");
    assert!(paths[2].ends_with("fieldSelector=") && paths[3].ends_with("fieldSelector=&continue=second"), "{paths:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_namespace_has_is_counted_and_whether_it_may_be_watched_is_asked() {
    let review = |allowed: bool| ok(&json!({"kind": "SelfSubjectAccessReview", "status": {"allowed": allowed}}));
    let metadata = json!({"resourceVersion": "1", "remainingItemCount": 41});
    let counted = json!({"kind": "PartialObjectMetadataList", "metadata": metadata, "items": [{"metadata": {}}]});
    let fake = Fake::new([ok(&counted), review(true), review(true), review(true), review(false), status(500, "", "")]);
    let reflectors = reflectors(&fake, KubeOptions::default());
    assert_eq!(reflectors.count("web").await.unwrap(), 42);
    assert_eq!(fake.paths(), ["/api/v1/namespaces/web/secrets?limit=1"]);
    assert!(reflectors.may_watch("web").await);
    assert!(!reflectors.may_watch("web").await, "it may list and not watch");
    assert!(!reflectors.may_watch("web").await, "a review that fails is no permission");
}
