//! List and watch, and every way in which they go wrong.

use crate::fake::{Answer, Fake, Feed, later, no_streaming, ok, pod, pods, raw, secret, status, until};
use larder_clock::{Clock, Jitter, TokioClock};
use larder_kube::{KubeClient, KubeOptions, NodeSource, PodSource};
use larder_objects::{
    Fetch, FreshState, ObjectKey, ObjectTtl, ReadKind, ReflectorSink, Reflectors, Scope, Source, StaleReason, Ttl,
};
use larder_resource::{Pod, SourceReader};
use serde_json::{Value, json};
use std::any::Any;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

const STREAMING: &str = "/api/v1/pods?watch=true&allowWatchBookmarks=true&fieldSelector=spec.nodeName%3Dn1\
     &sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=";

const LIST: &str = "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1";

/// Which version the server is at.
const PROBE: &str = "/api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Dn1%2Cspec.nodeName%3Dn1";

fn follow(fake: &Fake, options: KubeOptions) -> (SourceReader<Pod>, AbortOnDropHandle<()>) {
    let source = PodSource::new(fake.client(options), "n1", TokioClock::new()).unwrap();
    let reader = source.reader();
    (reader, AbortOnDropHandle::new(tokio::spawn(source.run(CancellationToken::new()))))
}

fn names(reader: &SourceReader<Pod>) -> Vec<String> {
    reader.list().iter().map(|pod| pod.name().to_owned()).collect()
}

fn event(name: &str, version: &str) -> Value {
    let mut pod = pod(name, version);
    pod["kind"] = "Pod".into();
    pod["apiVersion"] = "v1".into();
    pod
}

#[tokio::test(start_paused = true)]
async fn the_first_list_is_consistent_and_the_beginning_of_the_watch() {
    let (_feed, watch) = Feed::listing("10", &[pod("a", "3"), pod("b", "7")]);
    let fake = Fake::new([watch]);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    assert!(!reader.status().synced && reader.freshness().is_none());
    assert!(reader.synced().await);
    let asked = fake.until_asked(1).await;
    let timeout = asked[0].path.strip_prefix(STREAMING).unwrap_or_else(|| panic!("{}", asked[0].path));
    assert!((1800..3600).contains(&timeout.parse::<u32>().unwrap()));

    assert_eq!(names(&reader), ["a", "b"]);
    let a = reader.get("web", "a").unwrap();
    assert_eq!((a.uid(), a.resource_version(), a.node_name()), ("uid-a", "3", "n1"));
    assert!(reader.get_by_runtime_uid("uid-b").is_some_and(|b| b.name() == "b"));
    // The list's items have no kind; what is served has, and keeps what larder does not know.
    let json: Value = serde_json::from_slice(&a.json()).unwrap();
    assert_eq!((&json["kind"], &json["apiVersion"]), (&"Pod".into(), &"v1".into()));
    assert!(std::str::from_utf8(&a.json()).unwrap().contains("\"fieldOfTheFuture\":[1,2.5]"));
    until(|| reader.status().watches == 1).await;
    let status = reader.status();
    assert_eq!((status.lists, status.objects, status.failures), (1, 2, 0));
    assert!(status.connected && status.last_fault.is_none());
}

#[tokio::test(start_paused = true)]
async fn events_change_the_map_in_order() {
    let (feed, watch) = Feed::listing("10", &[pod("a", "3"), pod("b", "7")]);
    let fake = Fake::new([watch]);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    feed.event("ADDED", &event("c", "11")).await;
    let mut done = event("a", "12");
    done["status"]["phase"] = "Succeeded".into();
    feed.event("MODIFIED", &done).await;
    feed.event("DELETED", &event("b", "13")).await;
    until(|| names(&reader) == ["a", "c"]).await;
    assert!(reader.get("web", "a").unwrap().is_terminal());
    assert!(reader.get_by_runtime_uid("uid-b").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_event_may_come_in_pieces_and_several_at_once() {
    let (feed, watch) = Feed::listing("10", &[]);
    let fake = Fake::new([watch]);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    let line = |name, version| format!("{}\r\n\n", json!({"type": "ADDED", "object": event(name, version)}));
    for byte in line("a", "11").chars() {
        feed.text(&byte.to_string()).await;
    }
    feed.text(&(line("b", "12") + &line("c", "13"))).await;
    until(|| names(&reader) == ["a", "b", "c"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_where_it_was() {
    let (feed, watch) = Feed::listing("10", &[]);
    let (_second, again) = Feed::new();
    let fake = Fake::new([watch, again]);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    feed.event("ADDED", &event("a", "11")).await;
    until(|| reader.status().watches == 1).await;
    for minute in 0..60 {
        tokio::time::advance(Duration::from_mins(1)).await;
        feed.bookmark(&(20 + minute).to_string()).await;
    }
    drop(feed);
    let asked = fake.until_asked(2).await;
    assert!(asked[1].is_watch() && asked[1].path.contains("&resourceVersion=79&"), "{}", asked[1].path);
    assert!(reader.status().connected && reader.status().last_fault.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_broken_link_makes_it_stale_until_it_watches_again() {
    let (feed, watch) = Feed::listing("10", &[pod("a", "3")]);
    let (_second, again) = Feed::new();
    let fake = Fake::new([watch, Answer::Break, status(503, "", "")]);
    fake.push(ok(&pods("10", &[])));
    fake.push(status(503, "", ""));
    fake.push(ok(&pods("12", &[])));
    fake.push(again);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    fake.until_asked(1).await;
    feed.text("{\"type\":\"ADDED\",\"obj").await;
    feed.cut().await;
    until(|| reader.status().failures == 2).await;
    let freshness = reader.freshness().unwrap();
    assert_eq!(freshness.source, Source::Watch);
    assert!(matches!(
        freshness.state,
        FreshState::Stale { since, reason: StaleReason::FetchFailed { class: "unreachable" } } if since >= freshness.confirmed_at
    ));
    assert_eq!(names(&reader), ["a"]);
    until(|| reader.status().connected).await;
    assert!(reader.freshness().unwrap().is_fresh());
    // It asks where the server is, goes on where it was, and does not list again.
    let asked = fake.paths();
    let (probes, watches): (Vec<_>, Vec<_>) = asked[1..].iter().partition(|path| !path.contains("watch=true"));
    assert!(probes.len() == 4 && probes.iter().all(|path| *path == PROBE), "{asked:?}");
    assert!(watches.len() == 2 && watches.iter().all(|path| path.contains("&resourceVersion=10&")), "{asked:?}");
    let fault = reader.status().last_fault.unwrap();
    assert_eq!(fault.class, "server_error");
    assert!(fault.error.to_string().starts_with("pods of node n1: the API server answered 503"), "{}", fault.error);
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_is_listed_anew_and_what_is_gone_is_gone() {
    for by_event in [true, false] {
        let (feed, watch) = Feed::listing("10", &[pod("a", "3")]);
        let (_second, again) = Feed::listing("30", &[pod("b", "29")]);
        let fake = Fake::new([watch]);
        if !by_event {
            fake.push(status(410, "Expired", "too old resource version"));
        }
        fake.push(again);
        let (reader, _run) = follow(&fake, KubeOptions::default());
        until(|| reader.status().synced).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = tokio::time::Instant::now();
        if by_event {
            let expired =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired"});
            feed.event("ERROR", &expired).await;
        } else {
            feed.bookmark("11").await;
            drop(feed);
        }
        until(|| names(&reader) == ["b"]).await;
        assert!(before.elapsed() < Duration::from_secs(1), "it is the way of things, not a failure");
        assert!(reader.status().last_fault.is_none());
        assert!(fake.paths().last().unwrap().starts_with(STREAMING), "{:?}", fake.paths());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_know_its_own_lists_version_is_left_alone_for_a_while() {
    let fake = Fake::default();
    for _ in 0..10 {
        let (feed, watch) = Feed::listing("10", &[]);
        feed.event("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired"})).await;
        fake.push(watch);
    }
    let (_reader, _run) = follow(&fake, KubeOptions::default());
    let asked = fake.until_asked(10).await;
    assert!(asked[9].at - asked[0].at > Duration::from_mins(1), "the pauses grow");
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_to_the_limit_and_no_further() {
    let fake = Fake::new((0..20).map(|_| status(500, "InternalError", "")));
    let (reader, _run) = follow(&fake, KubeOptions::default());
    let asked = fake.until_asked(20).await;
    let pauses: Vec<Duration> = asked.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    assert!(pauses[0] <= Duration::from_millis(510), "{pauses:?}");
    assert!(
        pauses[10..].iter().all(|pause| *pause >= Duration::from_secs(15) && *pause <= Duration::from_secs(31)),
        "{pauses:?}"
    );
    // Some chance in them, so that a thousand nodes do not come back at once.
    assert!(pauses[10..].windows(2).any(|pair| pair[0] != pair[1]), "{pauses:?}");
    assert!(!reader.status().synced && reader.status().failures >= 19);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected() {
    let (feed, list) = Feed::listing("10", &[]);
    let (_feed, watch) = Feed::new();
    drop(feed);
    let fake = Fake::new([later(429, 9), list, ok(&pods("10", &[])), later(429, 20), ok(&pods("10", &[])), watch]);
    let (_reader, _run) = follow(&fake, KubeOptions::default());
    let asked = fake.until_asked(6).await;
    for (before, after, seconds) in [(0, 1, 9), (3, 4, 20)] {
        let pause = asked[after].at - asked[before].at;
        let (least, most) = (Duration::from_secs(seconds), Duration::from_secs(seconds * 5 / 4 + 1));
        assert!(pause >= least && pause <= most, "{pause:?}");
    }
    assert!(asked[5].is_watch());
}

/// Its name, what it is, and how many seconds it asks for.
type Refusal = (&'static str, fn() -> Answer, u64);

/// What fails for all is over for all with the first success of any; what the server asks for is not shortened.
#[tokio::test(start_paused = true)]
async fn the_first_success_of_another_request_ends_its_pause() {
    let refusals: [Refusal; 7] = [
        ("away", || Answer::Break, 0),
        ("401", || status(401, "Unauthorized", ""), 0),
        ("429", || status(429, "TooManyRequests", ""), 0),
        ("429 with Retry-After", || later(429, 7), 7),
        ("503 with Retry-After", || later(503, 7), 7),
        ("500", || status(500, "InternalError", ""), 0),
        ("307", || status(307, "", ""), 0),
    ];
    for (name, refuse, asked_for) in refusals {
        // In vain so often that the pauses have their full length.
        let fake = Fake::new((0..10).map(|_| refuse()));
        let client = fake.client(KubeOptions::default());
        let source = PodSource::new(client.clone(), "n1", TokioClock::new()).unwrap();
        let _run = AbortOnDropHandle::new(tokio::spawn(source.run(CancellationToken::new())));
        let refused = fake.until_asked(10).await[9].at;
        fake.push(ok(&secret("web", "tls", "1")));
        fake.push(ok(&pods("10", &[])));
        let key = ObjectKey::new("web", "tls");
        client.fetcher(larder_resource::ObjectKind::Secret).fetch(&key, ReadKind::Consistent).await.unwrap();
        let pause = fake.until_asked(12).await[11].at - refused;
        let (least, most) = (Duration::from_secs(asked_for), Duration::from_millis(asked_for * 1000 + 1100));
        assert!(pause >= least && pause <= most, "{name}: {pause:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_serves_all_but_this_is_not_asked_in_a_loop() {
    let refusals: [fn(&str) -> Answer; 4] = [
        |path| if path.contains("pods") { Answer::Break } else { ok(&secret("web", "tls", "1")) },
        |path| if path.contains("pods") { status(401, "", "") } else { ok(&secret("web", "tls", "1")) },
        |path| if path.contains("pods") { later(429, 1) } else { ok(&secret("web", "tls", "1")) },
        |path| if path.contains("pods") { status(500, "", "") } else { ok(&secret("web", "tls", "1")) },
    ];
    for (index, refuse) in refusals.into_iter().enumerate() {
        let fake = Fake::always(refuse);
        let client = fake.client(KubeOptions::default());
        let source = PodSource::new(client.clone(), "n1", TokioClock::new()).unwrap();
        let _run = AbortOnDropHandle::new(tokio::spawn(source.run(CancellationToken::new())));
        let fetcher = client.fetcher(larder_resource::ObjectKind::Secret);
        for _ in 0..6000 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            fetcher.fetch(&ObjectKey::new("web", "tls"), ReadKind::Consistent).await.unwrap();
        }
        let asked = fake.paths().iter().filter(|path| path.contains("pods")).count();
        // Of one that it cannot reach it knocks every few seconds; of others it keeps away for up to half a minute.
        let most = if index == 0 { 600 * 2 / 5 + 10 } else { 600 / 15 + 10 };
        assert!(asked <= most, "{asked} times in ten minutes, at most {most} were due");
    }
}

/// How often each of the list-watches asks in ten minutes, of a server that none of them reaches.
#[tokio::test(start_paused = true)]
async fn pods_and_the_node_alone_try_a_server_that_cannot_be_reached_every_few_seconds() {
    fn start_pods(client: &KubeClient) -> Box<dyn Any> {
        let source = PodSource::new(client.clone(), "n1", TokioClock::new()).unwrap();
        Box::new(AbortOnDropHandle::new(tokio::spawn(source.run(CancellationToken::new()))))
    }
    fn start_node(client: &KubeClient) -> Box<dyn Any> {
        let source = NodeSource::new(client.clone(), "n1", TokioClock::new()).unwrap();
        Box::new(AbortOnDropHandle::new(tokio::spawn(source.run(CancellationToken::new()))))
    }
    fn start_reflector(client: &KubeClient, scope: &Scope) -> Box<dyn Any> {
        let (sink, events) = ReflectorSink::channel();
        let reflectors = client.reflectors(larder_resource::ObjectKind::Secret);
        let reflector = reflectors.start(scope, None, sink);
        Box::new((reflector, reflectors, events))
    }
    fn start_object(client: &KubeClient) -> Box<dyn Any> {
        start_reflector(client, &Scope::Object(ObjectKey::new("web", "tls")))
    }
    fn start_namespace(client: &KubeClient) -> Box<dyn Any> {
        start_reflector(client, &Scope::Namespace("web".into()))
    }
    /// Starts a list-watch that runs until what this returns is dropped.
    type Start = fn(&KubeClient) -> Box<dyn Any>;
    // Pauses of 2.5 to 5 s, and of 15 to 30 s once they are long.
    let cases: [(&str, Start, _); 4] = [
        ("pods", start_pods, 120..=250),
        ("the node", start_node, 120..=250),
        ("an object", start_object, 20..=50),
        ("a namespace", start_namespace, 20..=50),
    ];
    for (name, start, due) in cases {
        let fake = Fake::always(|_| Answer::Break);
        let _running = start(&fake.client(KubeOptions::default()));
        tokio::time::sleep(Duration::from_mins(10)).await;
        let asked = fake.paths().len();
        assert!(due.contains(&asked), "{name}: {asked} times, {due:?} were due");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_read_changes_nothing() {
    let list = pods("10", &[pod("a", "3")]).to_string();
    let current = || ok(&pods("10", &[]));
    let bad = [
        list[..list.len() - 5].to_owned(),
        "<html>".to_owned(),
        "{}".to_owned(),
        list.replace("PodList", "SecretList"),
        list.replace("\"metadata\":{\"resourceVersion\":\"10\"}", "\"metadata\":{}"),
        list.replace("\"name\":\"a\",", ""),
    ];
    let fake = Fake::new([no_streaming()]);
    for body in &bad {
        fake.push(current());
        fake.push(raw(body));
    }
    let (reader, _run) = follow(&fake, KubeOptions::default());
    until(|| reader.status().failures as usize == bad.len()).await;
    assert!(!reader.status().synced && reader.list().is_empty());
    assert_eq!(reader.status().last_fault.unwrap().class, "decode");
    let (_feed, watch) = Feed::listing("10", &[pod("a", "3")]);
    fake.push(Answer::Break);
    fake.push(watch);
    // The hanging request of before has its deadline first.
    until(|| names(&reader) == ["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_seed_decides_all_pauses_and_the_lengths_of_watches() {
    async fn outage(seed: u64) -> Vec<(Duration, String)> {
        let (feed, watch) = Feed::listing("10", &[]);
        let fake = Fake::new([watch]);
        let mut options = KubeOptions::default();
        options.jitter = Jitter::from_seed(seed);
        let begun = Instant::now();
        let (_reader, _run) = follow(&fake, options);
        fake.until_asked(1).await;
        (0..20).for_each(|_| fake.push(status(503, "", "")));
        feed.cut().await;
        fake.until_asked(20).await.into_iter().map(|asked| (asked.at - begun, asked.path)).collect()
    }
    let (one, again, other) = (outage(1).await, outage(1).await, outage(2).await);
    assert_eq!(one, again);
    assert_ne!(one, other);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_leads_to_a_new_list() {
    let broken = [
        "nonsense\n".to_owned(),
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{}}}\n".to_owned(),
        "{\"type\":\"SHRUGGED\",\"object\":{}}\n".to_owned(),
        format!("{}\n", json!({"type": "ADDED", "object": {"kind": "Secret", "metadata": {"name": "x"}}})),
        "x".repeat(2000),
    ];
    for line in broken {
        let (feed, watch) = Feed::listing("10", &[]);
        let (_second, again) = Feed::listing("12", &[pod("a", "11")]);
        let fake = Fake::new([watch, again]);
        let mut options = KubeOptions::default();
        options.max_object_bytes = 500;
        let (reader, _run) = follow(&fake, options);
        feed.text(&line).await;
        until(|| names(&reader) == ["a"]).await;
        assert!(fake.paths()[1].starts_with(STREAMING));
        assert_eq!(reader.status().last_fault.unwrap().class, "decode");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_link_is_noticed_and_all_is_listed_again() {
    let (feed, watch) = Feed::listing("10", &[]);
    let (_second, again) = Feed::listing("40", &[pod("a", "39")]);
    let fake = Fake::new([watch, again]);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    let watched = fake.until_asked(1).await[0].at;
    tokio::time::advance(Duration::from_secs(100)).await;
    feed.bookmark("20").await;
    let asked = fake.until_asked(2).await;
    let silence = asked[1].at - watched;
    assert!(silence >= Duration::from_secs(250) && silence <= Duration::from_secs(252), "{silence:?}");
    feed.closed().await;
    until(|| names(&reader) == ["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn versions_that_go_back_lead_to_a_new_list() {
    let (feed, watch) = Feed::listing("1000", &[pod("a", "900")]);
    let (_second, again) = Feed::listing("50", &[pod("b", "49")]);
    let fake = Fake::new([watch, again]);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    until(|| reader.status().synced).await;
    feed.event("MODIFIED", &event("a", "40")).await;
    until(|| names(&reader) == ["b"]).await;
    assert!(fake.paths()[1].starts_with(STREAMING));
}

/// To a watch from its future the server says nothing.
#[tokio::test(start_paused = true)]
async fn a_lost_watch_does_not_go_on_from_a_version_that_the_server_has_not_reached() {
    for broke in [true, false] {
        let (feed, watch) = Feed::listing("1000", &[pod("a", "900")]);
        let (_second, again) = Feed::listing("50", &[pod("b", "49")]);
        let fake = Fake::new([watch]);
        // The outage is long enough for the pauses to grow.
        (0..10).for_each(|_| fake.push(Answer::Break));
        fake.push(ok(&pods("50", &[])));
        fake.push(again);
        let (reader, _run) = follow(&fake, KubeOptions::default());
        until(|| reader.status().synced).await;
        if broke {
            feed.cut().await;
        } else {
            drop(feed);
        }
        until(|| names(&reader) == ["b"]).await;
        let asked = fake.until_asked(13).await;
        assert!(asked[1..12].iter().all(|asked| asked.path == PROBE), "{:?}", fake.paths());
        assert!(asked[12].at - asked[11].at < Duration::from_secs(1), "at once");
        assert!(asked[12].path.starts_with(STREAMING));
    }
}

#[tokio::test(start_paused = true)]
async fn where_it_may_not_ask_which_version_the_server_is_at_it_lists() {
    let (feed, watch) = Feed::listing("10", &[pod("a", "3")]);
    let (_second, again) = Feed::listing("12", &[pod("b", "11")]);
    let fake = Fake::new([watch, status(403, "Forbidden", ""), again]);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    until(|| reader.status().synced).await;
    feed.cut().await;
    until(|| names(&reader) == ["b"]).await;
    assert!(fake.paths()[2].starts_with(STREAMING), "{:?}", fake.paths());
}

#[tokio::test(start_paused = true)]
async fn the_node_asks_where_the_server_is_by_its_own_list() {
    let node = |version: &str| json!({"metadata": {"name": "n1", "resourceVersion": version}});
    let probe = json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "50"}, "items": []});
    let (feed, watch) = Feed::listing("1000", &[node("1000")]);
    let (_second, again) = Feed::listing("51", &[node("51")]);
    let fake = Fake::new([watch, ok(&probe), again]);
    let source = NodeSource::new(fake.client(KubeOptions::default()), "n1", TokioClock::new()).unwrap();
    let reader = source.reader();
    let _run = AbortOnDropHandle::new(tokio::spawn(source.run(CancellationToken::new())));
    until(|| reader.status().synced).await;
    feed.cut().await;
    until(|| reader.node().is_some_and(|node| node.resource_version() == "51")).await;
    assert_eq!(fake.paths()[1], "/api/v1/nodes?fieldSelector=metadata.name%3Dn1");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_at_a_start_has_a_deadline() {
    let (feed, watch) = Feed::listing("10", &[]);
    // The watch's beginning, the question where the server is, and the list of a server without streaming lists.
    let fake = Fake::new([Answer::Hang, watch, Answer::Hang]);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    until(|| reader.status().synced).await;
    feed.cut().await;
    fake.until_asked(4).await;
    let asked = fake.asked();
    assert!((30..=32).contains(&(asked[1].at - asked[0].at).as_secs()), "{:?}", fake.paths());
    assert!((10..=12).contains(&(asked[3].at - asked[2].at).as_secs()), "{:?}", fake.paths());
    assert_eq!(reader.status().last_fault.unwrap().class, "timeout");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_closes_at_once_is_not_begun_in_a_loop() {
    let fake = Fake::always(|path| if path.contains("watch=true") { raw("") } else { ok(&pods("10", &[])) });
    let (_reader, _run) = follow(&fake, KubeOptions::default());
    let asked = fake.until_asked(20).await;
    assert!(asked[19].at - asked[1].at > Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn pods_of_other_nodes_are_passed_over() {
    let mut other = pod("other", "2");
    other["spec"]["nodeName"] = "n2".into();
    let (feed, watch) = Feed::listing("10", &[pod("a", "1"), other]);
    let fake = Fake::new([watch]);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    let mut foreign = event("foreign", "11");
    foreign["spec"]["nodeName"] = "n2".into();
    feed.event("ADDED", &foreign).await;
    feed.event("ADDED", &event("b", "12")).await;
    until(|| names(&reader) == ["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_mirror_pod_is_known_by_the_static_pods_uid() {
    let mut mirror = pod("static-n1", "1");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "0123456789abcdef"});
    let (_feed, watch) = Feed::listing("10", &[mirror]);
    let fake = Fake::new([watch]);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    reader.synced().await;
    let found = reader.get_by_runtime_uid("0123456789abcdef").unwrap();
    assert!(
        found.is_mirror() && found.uid() == "uid-static-n1" && reader.get_by_runtime_uid("uid-static-n1").is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn cancelled_it_hangs_up_and_leaves_what_was_known_as_stale() {
    let (feed, watch) = Feed::listing("10", &[pod("a", "1")]);
    let fake = Fake::new([watch]);
    let clock = TokioClock::new();
    let source = PodSource::new(fake.client(KubeOptions::default()), "n1", clock).unwrap();
    let reader = source.reader();
    let cancelled = CancellationToken::new();
    let run = tokio::spawn(source.run(cancelled.clone()));
    until(|| reader.status().watches == 1).await;
    tokio::time::advance(Duration::from_secs(5)).await;
    cancelled.cancel();
    run.await.unwrap();
    feed.closed().await;
    assert_eq!(names(&reader), ["a"]);
    assert!(matches!(
        reader.freshness().unwrap().state,
        FreshState::Stale { since, reason: StaleReason::FetchFailed { class: "stopped" } } if since == clock.now()
    ));
}

#[tokio::test(start_paused = true)]
async fn the_nodes_annotation_is_the_ttl() {
    let node = |version: &str, ttl: Value| {
        json!({"kind": "Node", "apiVersion": "v1",
            "metadata": {"name": "n1", "resourceVersion": version, "annotations": {"node.alpha.kubernetes.io/ttl": ttl}}})
    };
    let (feed, watch) = Feed::listing("5", &[node("4", "15".into())]);
    let fake = Fake::new([watch]);
    let source = NodeSource::new(fake.client(KubeOptions::default()), "n1", TokioClock::new()).unwrap();
    let reader = source.reader();
    assert_eq!(reader.object_ttl(), None);
    let _run = AbortOnDropHandle::new(tokio::spawn(source.run(CancellationToken::new())));
    until(|| reader.object_ttl() == ObjectTtl::from_annotation("15")).await;
    assert!(fake.paths()[0].starts_with("/api/v1/nodes?watch=true&"), "{:?}", fake.paths());
    feed.event("MODIFIED", &node("6", "0".into())).await;
    until(|| reader.object_ttl() == Some(ObjectTtl::default())).await;
    feed.event("MODIFIED", &node("7", "soon".into())).await;
    until(|| reader.object_ttl().is_none()).await;
    assert_eq!(reader.node().unwrap().resource_version(), "7");
    feed.event("MODIFIED", &node("8", "-1".into())).await;
    until(|| reader.object_ttl() == ObjectTtl::from_annotation("-1")).await;
    feed.event("DELETED", &node("9", "1".into())).await;
    until(|| reader.object_ttl().is_none()).await;
    assert!(reader.node().is_none() && reader.status().synced);
}

#[tokio::test(start_paused = true)]
async fn names_that_would_be_another_selector_are_refused() {
    for name in ["", "a,b", "a=b", "a/b", "..", "a!"] {
        let client = Fake::default().client(KubeOptions::default());
        assert!(PodSource::new(client, name, TokioClock::new()).is_err(), "{name:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_pod_opens_the_moment_in_which_a_403_is_doubted() {
    let (feed, watch) = Feed::listing("10", &[]);
    let fake = Fake::new([watch]);
    let client = fake.client(KubeOptions::default());
    let source = PodSource::new(client.clone(), "n1", TokioClock::new()).unwrap();
    let reader = source.reader();
    let _run = AbortOnDropHandle::new(tokio::spawn(source.run(CancellationToken::new())));
    feed.event("ADDED", &event("a", "11")).await;
    until(|| names(&reader) == ["a"]).await;
    fake.push(status(403, "Forbidden", ""));
    fake.push(ok(&secret("web", "tls", "1")));
    let fetcher = client.fetcher(larder_resource::ObjectKind::Secret);
    fetcher.fetch(&ObjectKey::new("web", "tls"), ReadKind::Consistent).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn while_the_server_was_away_a_403_is_doubted_too() {
    let (feed, watch) = Feed::listing("10", &[pod("a", "1")]);
    let (_second, again) = Feed::new();
    let fake = Fake::new([watch]);
    let client = fake.client(KubeOptions::default());
    let source = PodSource::new(client.clone(), "n1", TokioClock::new()).unwrap();
    let reader = source.reader();
    let _run = AbortOnDropHandle::new(tokio::spawn(source.run(CancellationToken::new())));
    until(|| reader.status().watches == 1).await;
    tokio::time::advance(client.options().forbidden_grace).await;
    feed.cut().await;
    until(|| !reader.status().connected).await;
    let secret = || ok(&secret("web", "tls", "1"));
    let fetcher = client.fetcher(larder_resource::ObjectKind::Secret);
    let key = ObjectKey::new("web", "tls");
    // Before the watch is back, and just after.
    fake.push(status(403, "Forbidden", ""));
    fake.push(secret());
    fetcher.fetch(&key, ReadKind::Consistent).await.unwrap();
    fake.push(ok(&pods("10", &[])));
    fake.push(again);
    until(|| reader.status().connected).await;
    fake.push(status(403, "Forbidden", ""));
    fake.push(secret());
    fetcher.fetch(&key, ReadKind::Consistent).await.unwrap();
    tokio::time::advance(client.options().forbidden_grace).await;
    fake.push(status(403, "Forbidden", ""));
    assert!(fetcher.fetch(&key, ReadKind::Consistent).await.unwrap_err().is_forbidden());
}

/// To a server without streaming lists, pods are listed from its watch cache, as of the version that it is at.
#[tokio::test(start_paused = true)]
async fn without_streaming_lists_pods_are_listed_from_the_watch_cache_as_of_now() {
    let (feed, watch) = Feed::new();
    let fake = Fake::new([no_streaming(), ok(&pods("10", &[])), ok(&pods("12", &[pod("a", "3")])), watch]);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    assert!(reader.synced().await);
    let asked = fake.until_asked(4).await;
    assert!(asked[0].path.starts_with(STREAMING));
    assert_eq!(asked[1].path, PROBE);
    assert_eq!(asked[2].path, format!("{LIST}&resourceVersion=10&resourceVersionMatch=NotOlderThan"));
    assert!(asked[3].path.contains("&resourceVersion=12&timeoutSeconds="), "{}", asked[3].path);
    assert!(reader.freshness().unwrap().is_fresh() && names(&reader) == ["a"]);

    // When everything is listed again it is so, too.
    let (_second, again) = Feed::new();
    for answer in [ok(&pods("20", &[])), ok(&pods("20", &[])), again] {
        fake.push(answer);
    }
    feed.event("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired"})).await;
    until(|| names(&reader).is_empty()).await;
    assert_eq!(fake.paths()[5], format!("{LIST}&resourceVersion=20&resourceVersionMatch=NotOlderThan"));
    for path in fake.paths().iter().filter(|path| path.starts_with(LIST)) {
        assert!(path.contains("&resourceVersion=") && !path.contains("limit="), "a read of etcd: {path}");
    }
}

fn too_large() -> Answer {
    status(504, "Timeout", "Too large resource version: 100, current: 10")
}

/// What an old watch cache has is served as stale, and what it lacks is not known to be absent, until the watch has come
/// to the version that the server was at.
#[tokio::test(start_paused = true)]
async fn what_an_old_watch_cache_has_is_stale_until_the_watch_has_caught_up() {
    for by_event in [true, false] {
        let (feed, watch) = Feed::new();
        let lists =
            [no_streaming(), ok(&pods("100", &[])), too_large(), ok(&pods("10", &[pod("a", "3"), pod("b", "4")]))];
        let fake = Fake::new(lists);
        fake.push(watch);
        let (reader, _run) = follow(&fake, KubeOptions::default());
        let asked = fake.until_asked(5).await;
        assert_eq!(asked[3].path, format!("{LIST}&resourceVersion=0"));
        let is_behind = |reader: &SourceReader<Pod>| {
            let state = reader.freshness().unwrap().state;
            matches!(state, FreshState::Stale { reason: StaleReason::FetchFailed { class: "behind" }, .. })
        };
        until(|| names(&reader) == ["a", "b"]).await;
        assert!(!reader.status().synced && is_behind(&reader));
        let why = reader.status().last_fault.unwrap().error.to_string();
        assert!(why.contains("version 10,") && why.ends_with("until its watch has reached version 100"), "{why}");
        // Followers know these pods already, so that what they refer to is served.
        let first = reader.changes().next().await;
        assert!(matches!(first, Some(larder_resource::Change::Resync(all)) if all.len() == 2));

        feed.event("DELETED", &event("b", "50")).await;
        feed.bookmark("99").await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(names(&reader) == ["a"] && !reader.status().synced && is_behind(&reader), "not there yet");
        if by_event {
            feed.event("ADDED", &event("c", "100")).await;
        } else {
            feed.bookmark("100").await;
        }
        until(|| reader.status().synced).await;
        assert!(reader.freshness().unwrap().is_fresh() && reader.status().failures == 0);
        assert_eq!(names(&reader).len(), if by_event { 2 } else { 1 });
    }
}

/// A version that was reached before is a bound for the list of a server that lags behind.
#[tokio::test(start_paused = true)]
async fn a_list_of_a_server_that_lags_is_not_older_than_what_is_known() {
    let (feed, watch) = Feed::listing("40", &[pod("a", "3")]);
    let (_second, again) = Feed::new();
    let fake = Fake::new([watch, no_streaming(), ok(&pods("100", &[])), too_large(), ok(&pods("60", &[])), again]);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    assert!(reader.synced().await);
    feed.event("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired"})).await;
    fake.until_asked(6).await;
    assert_eq!(fake.paths()[4], format!("{LIST}&resourceVersion=40&resourceVersionMatch=NotOlderThan"));
    assert!(!reader.freshness().unwrap().is_fresh());
}

/// Whose identity may not ask which version the server is at has what the watch cache has, until the watch brings something.
#[tokio::test(start_paused = true)]
async fn what_a_server_has_is_listed_at_once_if_it_lags_behind_what_is_known_and_only_then() {
    let known = format!("{LIST}&resourceVersion=40&resourceVersionMatch=NotOlderThan");
    let cases = [
        (too_large(), [&*known, &format!("{LIST}&resourceVersion=0")]),
        // The probe of the next try.
        (status(503, "", ""), [&*known, PROBE]),
    ];
    for (refusal, paths) in cases {
        let (feed, watch) = Feed::listing("40", &[pod("a", "3")]);
        let fake = Fake::new([watch, no_streaming(), ok(&pods("100", &[])), too_large(), refusal]);
        let (reader, _run) = follow(&fake, KubeOptions::default());
        assert!(reader.synced().await);
        feed.event("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired"})).await;
        let asked = fake.until_asked(6).await;
        assert_eq!([&*asked[4].path, &*asked[5].path], paths);
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_ask_for_the_version_the_first_bookmark_confirms() {
    let (feed, watch) = Feed::new();
    let fake = Fake::new([no_streaming(), status(403, "Forbidden", ""), ok(&pods("10", &[pod("a", "3")])), watch]);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    until(|| names(&reader) == ["a"]).await;
    assert!(!reader.status().synced);
    feed.bookmark("10").await;
    until(|| reader.status().synced).await;
}

/// As of a compacted or damaged etcd. client-go lists after the first such failure.
#[tokio::test(start_paused = true)]
async fn a_watch_that_keeps_failing_at_its_version_is_listed_anew() {
    let broken = json!({"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcdserver: corrupt"});
    let (feed, watch) = Feed::listing("10", &[pod("a", "3")]);
    let (second, again) = Feed::new();
    let (_third, listed) = Feed::listing("12", &[pod("b", "11")]);
    let fake = Fake::new([watch, ok(&pods("12", &[])), again, listed]);
    let client = fake.client(KubeOptions::default());
    let source = PodSource::new(client.clone(), "n1", TokioClock::new()).unwrap();
    let reader = source.reader();
    let _run = AbortOnDropHandle::new(tokio::spawn(source.run(CancellationToken::new())));
    let begun = tokio::time::Instant::now();
    feed.event("ERROR", &broken).await;
    second.event("ERROR", &broken).await;
    until(|| names(&reader) == ["b"]).await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let asked = fake.paths();
    assert!(asked[2].contains("&resourceVersion=10&") && asked[3].starts_with(STREAMING), "{asked:?}");
    assert_eq!(client.stats().relists_failing, 1);
}

/// A server that is not there, or asks for patience, says nothing about the version.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_or_makes_progress_is_not_listed_anew() {
    let broken = json!({"kind": "Status", "code": 500, "reason": "InternalError"});
    let (feed, watch) = Feed::listing("10", &[]);
    let (second, again) = Feed::new();
    let (_third, last) = Feed::new();
    let current = || ok(&pods("30", &[]));
    let fake =
        Fake::new([watch, current(), status(429, "", ""), current(), Answer::Break, current(), again, current(), last]);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    feed.event("ERROR", &broken).await;
    second.event("ADDED", &event("a", "20")).await;
    second.event("ERROR", &broken).await;
    let asked = fake.until_asked(9).await;
    assert!(asked[8].path.contains("&resourceVersion=20&"), "{:?}", fake.paths());
    assert_eq!(reader.status().lists, 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_streaming_list_is_tried_again_after_ten_minutes() {
    let fake = Fake::new([no_streaming(), ok(&pods("10", &[])), ok(&pods("10", &[]))]);
    let (feed, watch) = Feed::new();
    fake.push(watch);
    let (reader, _run) = follow(&fake, KubeOptions::default());
    assert!(reader.synced().await);
    let expired = json!({"kind": "Status", "code": 410, "reason": "Expired"});
    for _ in 0..9 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        feed.bookmark("11").await;
    }
    let (second, again) = Feed::new();
    for answer in [ok(&pods("12", &[])), ok(&pods("12", &[])), again] {
        fake.push(answer);
    }
    feed.event("ERROR", &expired).await;
    let asked = fake.until_asked(7).await;
    assert!(asked[4..].iter().all(|asked| !asked.path.starts_with(STREAMING)), "{:?}", fake.paths());
    tokio::time::sleep(Duration::from_mins(2)).await;
    let (_third, listed) = Feed::listing("13", &[pod("a", "13")]);
    fake.push(listed);
    second.event("ERROR", &expired).await;
    until(|| names(&reader) == ["a"]).await;
    assert!(fake.paths()[7].starts_with(STREAMING), "{:?}", fake.paths());
}
