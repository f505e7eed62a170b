//! What larder does not answer a pod, on its way to the API server with the pod's own token. The API server is a simulated one.

use crate::audit::line;
use crate::harness::{Answer, Daemon, LIMIT, folder_with, until};
use crate::listen::Peer;
use crate::tokens::{DB, NODE, Place, TLS, claims};
use futures_util::stream;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::ByteString;
use larder_testkit::api_server::{ApiServer, ApiServerOptions, ECHO, Fault, Grant, Kind, User, Verb};
use larder_testkit::objects::{config_map, secret};
use larder_testkit::tokens::{TokenSigner, jwks};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

const ACCOUNT: &str = "system:serviceaccount:shop:shop";
const CONFIG_MAPS: &str = "/api/v1/namespaces/shop/configmaps";
const PODS_OF_NODE: &str = "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1";

/// A place with pass-through, whose API server speaks TLS and HTTP/2, and where larder has a client certificate.
async fn start(more: &[&str]) -> Place {
    let options = ApiServerOptions { tls: true, ..ApiServerOptions::default() };
    let api = ApiServer::start_with(options).await.unwrap();
    let certificate = api.add_certificate(User::node(NODE)).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&api.kubeconfig("")).unwrap();
    let data = |pem: &str| json!(ByteString(pem.as_bytes().to_vec()));
    kubeconfig["users"][0]["user"] = json!({
        "client-certificate-data": data(&certificate.certificate_pem),
        "client-key-data": data(&certificate.key_pem),
    });
    let signer = TokenSigner::rsa().unwrap();
    let keys = jwks([&signer]);
    let more = [&["--pass-through"], more].concat();
    Place::start_at(api, &kubeconfig.to_string(), signer, Some(&keys), &more).await
}

impl Place {
    /// The token of `web`, for which the API server knows these rights.
    fn token_with(&self, grants: &[Grant]) -> String {
        let token = self.token();
        self.grant(&token, ACCOUNT, grants);
        token
    }

    fn grant(&self, token: &str, name: &str, grants: &[Grant]) {
        let user = grants.iter().cloned().fold(User::stranger(name), User::allow);
        self.api.set_token(token, user);
    }

    /// How often the API server was asked as this user.
    fn asked_as(&self, user: &str) -> usize {
        self.api.requests().iter().filter(|request| request.user == user).count()
    }

    /// Sends a request over HTTP/1.1 or HTTP/2.
    async fn send(&self, over: &'static [u8], request: http::Request<Full<bytes::Bytes>>) -> Answer {
        let authority = self.authority();
        let stream = Peer { over, ..Peer::new(&authority, None) }.connect(&self.address).await.unwrap();
        let io = TokioIo::new(stream);
        let answering = async {
            let (parts, body) = if over == b"h2" {
                let (mut sender, connection) =
                    hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
                let connection = tokio::spawn(connection);
                let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                connection.abort();
                (parts, body)
            } else {
                let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
                let connection = tokio::spawn(connection);
                let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                connection.abort();
                (parts, body)
            };
            Answer {
                code: parts.status.as_u16(),
                headers: parts.headers,
                text: String::from_utf8(body.to_vec()).unwrap(),
            }
        };
        tokio::time::timeout(LIMIT, answering).await.expect("it answers")
    }

    /// A request for the protocol `echo`, and the connection if it is upgraded.
    async fn upgrade(&self, token: &str) -> Result<Upgraded, u16> {
        let authority = self.authority();
        let stream = Peer::new(&authority, None).connect(&self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        let request = http::Request::get(ECHO).header("host", "larder").header("authorization", bearer(token));
        let request = request.header("connection", "Upgrade").header("upgrade", "echo");
        let request = request.body(Full::<bytes::Bytes>::default()).unwrap();
        let mut response = tokio::time::timeout(LIMIT, sender.send_request(request)).await.unwrap().unwrap();
        if response.status().as_u16() != 101 {
            return Err(response.status().as_u16());
        }
        assert_eq!(response.headers()["upgrade"], "echo");
        Ok(Upgraded(TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap())))
    }
}

/// A connection to the API server's echo.
struct Upgraded(TokioIo<hyper::upgrade::Upgraded>);

impl Upgraded {
    async fn exchange(&mut self, text: &str) -> String {
        self.0.write_all(text.as_bytes()).await.unwrap();
        self.line().await
    }

    async fn line(&mut self) -> String {
        let reading = async {
            let mut line = Vec::new();
            while !line.ends_with(b"\n") {
                line.push(self.0.read_u8().await.unwrap());
            }
            String::from_utf8(line).unwrap()
        };
        tokio::time::timeout(LIMIT, reading).await.expect("a line")
    }
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// Asserts that an answer came from the API server.
fn passed(answer: &Answer, code: u16) {
    assert_eq!((answer.code, answer.header("cache-status")), (code, "larder; fwd=bypass"), "{answer:?}");
}

/// Asserts that an answer is larder's own.
fn own(answer: &Answer, code: u16) {
    assert_eq!(answer.code, code, "{answer:?}");
    assert!(!answer.header("cache-status").contains("bypass"), "{answer:?}");
}

#[tokio::test]
async fn what_larder_does_not_answer_goes_to_the_api_server_as_the_caller_and_never_as_larder() {
    let place = start(&[]).await;
    place.api.store().create(config_map("shop", "flags", &[("beta", "on")])).unwrap();
    let token = place.token_with(&[Grant::namespace(Kind::ConfigMap, "shop")]);
    for (over, host) in [(&b"http/1.1"[..], ""), (b"h2", "https://larder.example")] {
        let request = http::Request::post(format!("{host}{ECHO}/a%20b/?limit=1"))
            .header("authorization", bearer(&token))
            .header("x-remote-user", "system:admin")
            .header("x-remote-extra-scopes", "all")
            .header("impersonate-user", "jane")
            .header("x-forwarded-for", "192.0.2.7");
        let request = if over == b"h2" {
            request
        } else {
            request.header("host", "larder").header("connection", "x-own").header("x-own", "1")
        };
        let answer = place.send(over, request.body(Full::from("the body")).unwrap()).await;
        passed(&answer, 200);
        let (line, body) = answer.text.split_once('\n').unwrap();
        assert_eq!(body, "the body");
        let seen: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&seen["method"], &seen["path"]), (&json!("POST"), &json!(format!("{ECHO}/a%20b/?limit=1"))));
        let headers = &seen["headers"];
        assert_eq!(headers["authorization"], json!([bearer(&token)]));
        assert_eq!(headers["x-forwarded-for"], json!(["192.0.2.7, 127.0.0.1"]));
        assert_eq!(headers["impersonate-user"], json!(["jane"]), "the API server judges by the caller's token");
        for gone in ["x-remote-user", "x-remote-extra-scopes", "x-own", "user-agent"] {
            assert_eq!(headers[gone], Value::Null, "{gone}: {headers}");
        }
    }
    // A list that is not of this node, another kind, a write, and a path that is not known.
    let list = place.get(&token, CONFIG_MAPS).await;
    passed(&list, 200);
    assert_eq!(list.json()["items"][0]["metadata"]["name"], "flags");
    passed(&place.get(&token, "/apis/apps/v1/deployments").await, 404);
    passed(&place.ask("DELETE", &token, &format!("{CONFIG_MAPS}/flags"), "").await, 405);
    passed(&place.get(&token, "/api/v1/secrets").await, 403);
    passed(&place.get(&token, "/version").await, 200);
    assert_eq!(place.api.requests().iter().filter(|request| request.user == ACCOUNT).count(), 7);
    // Whoever larder does not know is the API server's, too, but not on larder's own paths.
    place.grant("of.another.node", "system:serviceaccount:far:away", &[Grant::everywhere(Kind::ConfigMap)]);
    passed(&place.get("of.another.node", CONFIG_MAPS).await, 200);
    passed(&place.get("garbage", CONFIG_MAPS).await, 401);
    own(&place.get("of.another.node", "/larder/v1/status").await, 401);
    own(&place.get("of.another.node", "/metrics").await, 401);
    // Without a token there is nobody to decide on.
    let answer = place
        .send(b"http/1.1", http::Request::get(CONFIG_MAPS).header("host", "l").body(Full::default()).unwrap())
        .await;
    own(&answer, 401);
    let basic = http::Request::get(CONFIG_MAPS).header("host", "l").header("authorization", "Basic YTpi");
    own(&place.send(b"http/1.1", basic.body(Full::default()).unwrap()).await, 401);
    let twice = http::Request::get(CONFIG_MAPS).header("host", "l").header("authorization", bearer(&token));
    let twice = twice.header("authorization", bearer("of.another.node")).body(Full::default()).unwrap();
    own(&place.send(b"http/1.1", twice).await, 401);

    // The requests of larder itself are the node's, and of no kind that was asked for above.
    let by_node = |request: &larder_testkit::api_server::RequestRecord| request.user == format!("system:node:{NODE}");
    let lists =
        place.api.requests().into_iter().filter(by_node).filter(|request| request.kind == Some(Kind::ConfigMap));
    assert_eq!(lists.count(), 0);
    let users: Vec<_> = place.api.requests().into_iter().filter(|request| !by_node(request)).collect();
    let connections = |user: &dyn Fn(&str) -> bool| -> std::collections::BTreeSet<u64> {
        place
            .api
            .requests()
            .into_iter()
            .filter(|request| user(&request.user))
            .map(|request| request.connection)
            .collect()
    };
    let node = format!("system:node:{NODE}");
    let (of_larder, of_others) = (connections(&|user| user == node), connections(&|user| user != node));
    assert!(of_larder.is_disjoint(&of_others), "{users:?}");
    assert_eq!(of_others.len(), 1, "they share one HTTP/2 connection: {users:?}");
    let metrics = place.metrics().await;
    for line in [
        r#"larder_pass_through_requests_total{why="write",code="405"} 1"#,
        r#"larder_pass_through_requests_total{why="list",code="200"} 1"#,
        r#"larder_pass_through_requests_total{why="caller",code="401"} 1"#,
        r#"larder_pass_through_in_flight{kind="request"} 0"#,
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    for token in [&token[..20], "of.another.node"] {
        assert!(!place.daemon.log().contains(token) && !metrics.contains(token), "{}", place.daemon.log());
    }
}

#[tokio::test]
async fn what_larder_holds_and_shows_whole_comes_from_larder() {
    let place = start(&[]).await;
    let token = place.token_with(&[Grant::everywhere(Kind::Pod)]);
    let web = "/api/v1/namespaces/shop/pods/web";
    for path in [
        web,
        "/api/v1/namespaces/shop/pods/web/status",
        "/api/v1/namespaces/shop/pods?fieldSelector=metadata.name%3Dweb",
        "/api/v1/pods?fieldSelector=metadata.name%3Dweb,metadata.namespace%3Dshop",
        "/larder/v1/pods/uid-web/status",
    ] {
        own(&place.get(&token, path).await, 200);
    }
    for path in ["/larder/v1/status", "/metrics"] {
        own(&place.get(&token, path).await, 403);
    }
    let mut watch =
        place.watch(&token, "/api/v1/namespaces/shop/pods?watch=true&fieldSelector=metadata.name%3Dweb", b"h2").await;
    assert_eq!(watch.next().await.expect("an event")["object"]["metadata"]["name"], "web");
    assert_eq!(place.asked_as(ACCOUNT), 0, "{:?}", place.api.requests());
    // Another pod is not the caller's own: the API server decides.
    passed(&place.get(&token, "/api/v1/namespaces/shop/pods/other").await, 200);
    // Only the API server knows what another user sees.
    let as_jane = http::Request::get(web).header("host", "l").header("authorization", bearer(&token));
    let as_jane = as_jane.header("impersonate-user", "jane").body(Full::default()).unwrap();
    passed(&place.send(b"http/1.1", as_jane).await, 200);
    // A list that would lack other pods is the API server's.
    let list = place.get(&token, PODS_OF_NODE).await;
    passed(&list, 200);
    assert_eq!(list.json()["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn what_a_policy_file_shows_whole_comes_from_larder_too() {
    let policy = "version: 1
rules:
- {name: agent, effect: allow, subjects: [{serviceAccount: shop/shop}], objects: [{kinds: [pods, secrets]}]}
";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    fs::write(&path, policy).unwrap();
    let place = start(&["--policy", path.to_str().unwrap()]).await;
    let token = place.token_with(&[Grant::everywhere(Kind::Pod), Grant::everywhere(Kind::Secret)]);
    let list = place.get(&token, PODS_OF_NODE).await;
    own(&list, 200);
    assert_eq!(list.json()["items"].as_array().unwrap().len(), 2);
    own(&place.get(&token, TLS).await, 200);
    assert_eq!(place.asked_as(ACCOUNT), 0, "{:?}", place.api.requests());
    // What no pod of this node refers to is not held.
    place.api.store().create(secret("shop", "far", &[("key", "x")])).unwrap();
    passed(&place.get(&token, "/api/v1/namespaces/shop/secrets/far").await, 200);
    let list = place.get(&token, "/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Dfar").await;
    passed(&list, 200);
    assert_eq!(list.json()["items"].as_array().unwrap().len(), 1, "larder's own list would be empty");
    passed(&place.get(&token, "/api/v1/namespaces/shop/pods/elsewhere").await, 404);
    // All pods are not those of this node.
    passed(&place.get(&token, "/api/v1/pods").await, 200);
    place.api.outage().await;
    own(&place.get(&token, PODS_OF_NODE).await, 200);
    let away = place.get(&token, "/api/v1/pods").await;
    own(&away, 503);
    assert_eq!((away.header("retry-after"), &away.json()["reason"]), ("1", &json!("ServiceUnavailable")), "{away:?}");
    assert!(away.text.contains("GET /api/v1/pods was to go to the API server"), "{away:?}");
    assert!(away.text.contains(place.api.url()), "a pod of this node may know where: {away:?}");
    let stranger = place.get("garbage", "/api/v1/pods").await;
    own(&stranger, 503);
    assert!(!stranger.text.contains("127.0.0.1"), "{stranger:?}");
}

#[tokio::test]
async fn a_part_comes_only_where_the_api_server_refuses_or_is_away_and_is_not_written_back() {
    let place = start(&[]).await;
    let token = place.token_with(&[]);
    let keys = |answer: &Answer| answer.json()["data"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let watch = "/api/v1/namespaces/shop/secrets?watch=true&fieldSelector=metadata.name%3Ddb";
    // It has no rights of its own, so larder answers, and asks once.
    for _ in 0..3 {
        let part = place.get(&token, DB).await;
        own(&part, 200);
        assert_eq!(keys(&part), ["password", "user"]);
    }
    assert_eq!(place.asked_as(ACCOUNT), 1);
    let mut refused = place.watch(&token, watch, b"http/1.1").await;
    assert_eq!(refused.next().await.expect("an event")["object"]["data"].as_object().unwrap().len(), 2);
    let list = place.get(&token, PODS_OF_NODE).await;
    own(&list, 200);
    assert_eq!(list.json()["items"].as_array().unwrap().len(), 1, "its own");
    // The other pod may read Secrets, and gets all of its own one.
    let other = place.signer.token(&claims("other", "uid-other"));
    place.grant(&other, "other", &[Grant::everywhere(Kind::Secret)]);
    passed(&place.get(&other, TLS).await, 200);
    passed(&place.ask("PUT", &other, TLS, "{}").await, 405);
    let watch_of_other = "/api/v1/namespaces/shop/secrets?watch=true&fieldSelector=metadata.name%3Dtls";
    place.api.outage().await;
    let part = place.get(&other, TLS).await;
    own(&part, 200);
    let refusal = place.ask("PUT", &other, TLS, &part.text).await;
    own(&refusal, 409);
    assert!(refusal.text.contains("given to you by larder in part"), "{refusal:?}");
    let watch = place.watch(&other, watch_of_other, b"http/1.1").await;
    assert_eq!(watch.code, 503, "the events of a part would tell of a change that there was not");
    drop(watch);
    // Who was refused before has what it had.
    let mut watch =
        place.watch(&token, "/api/v1/namespaces/shop/secrets?watch=true&fieldSelector=metadata.name%3Ddb", b"h2").await;
    assert_eq!(watch.next().await.expect("an event")["object"]["data"].as_object().unwrap().len(), 2);
    own(&place.get(&token, "/api/v1").await, 200);
    own(&place.get(&token, "/apis/apps/v1").await, 503);
    place.api.restore().await.unwrap();
    until("the API server answers again", async || {
        let whole = place.get(&other, TLS).await;
        (whole.header("cache-status") == "larder; fwd=bypass").then_some(())
    })
    .await;
    passed(&place.ask("PUT", &other, TLS, "{}").await, 405);
}

#[tokio::test]
async fn a_frozen_api_server_does_not_hold_up_what_larder_has() {
    let place = start(&[]).await;
    let token = place.token_with(&[Grant::everywhere(Kind::Secret)]);
    passed(&place.get(&token, DB).await, 200);
    place.api.freeze(true);
    own(&place.get(&token, DB).await, 200);
    // It is not asked again for a while: each would take five seconds otherwise.
    let began = tokio::time::Instant::now();
    for _ in 0..3 {
        own(&place.get(&token, DB).await, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    place.api.freeze(false);
    until("the API server answers again", async || {
        (place.get(&token, DB).await.header("cache-status") == "larder; fwd=bypass").then_some(())
    })
    .await;
}

#[tokio::test]
async fn clients_that_larder_does_not_know_take_no_connection_from_handshakes_and_pods() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("settings.yaml");
    fs::write(&settings, "limits: {listenForeignConnections: 2}\n").unwrap();
    let place = start(&["--config", settings.to_str().unwrap()]).await;
    let token = place.token_with(&[]);
    place.grant("of.another.node", "far", &[Grant::everywhere(Kind::ConfigMap)]);
    let path = format!("{CONFIG_MAPS}?watch=true");
    let mut watches = Vec::new();
    for _ in 0..2 {
        let watch = place.watch("of.another.node", &path, b"h2").await;
        assert_eq!(watch.code, 200);
        watches.push(watch);
    }
    let refused = place.get("of.another.node", CONFIG_MAPS).await;
    own(&refused, 503);
    assert!(refused.text.contains("too many connections"), "{refused:?}");
    own(&place.get(&token, "/api/v1/namespaces/shop/pods/web").await, 200);
    watches.clear();
    until("their places are free", async || {
        (place.get("of.another.node", CONFIG_MAPS).await.code == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn bodies_and_watches_are_passed_on_as_they_come() {
    let place = start(&[]).await;
    let token = place.token_with(&[Grant::everywhere(Kind::ConfigMap)]);
    for over in [&b"http/1.1"[..], b"h2"] {
        let mut watch = place.watch(&token, &format!("{CONFIG_MAPS}?watch=true&resourceVersion=1"), over).await;
        assert_eq!(watch.headers["cache-status"], "larder; fwd=bypass");
        let name = if over == b"h2" { "over-2" } else { "over-1" };
        place.api.store().create(config_map("shop", name, &[])).unwrap();
        loop {
            let event = watch.next().await.expect("an event");
            if event["object"]["metadata"]["name"] == name {
                break;
            }
        }
        drop(watch);
        let (mut parts, sent) = echo(&place, &token, over).await;
        for part in ["one\n", "two\n"] {
            sent.send(part.into()).await.unwrap();
            assert_eq!(next_line(&mut parts).await, part);
        }
        drop(sent);
        let end = tokio::time::timeout(LIMIT, parts.frame()).await.expect("the end");
        assert!(end.is_none_or(|frame| frame.unwrap().into_data().unwrap_or_default().is_empty()));
    }
    until("nothing is in flight", async || {
        place.metrics().await.contains("larder_pass_through_in_flight{kind=\"request\"} 0\n").then_some(())
    })
    .await;
    // An answer that breaks off there breaks off here.
    place.api.inject(Fault::truncate().verb(Verb::List).times(1));
    let mut broken = place.watch(&token, CONFIG_MAPS, b"h2").await;
    assert_eq!(broken.code, 200);
    assert!(broken.next_or_error().await.is_some_and(|end| end.is_err()));
    place.api.inject(Fault::cut().verb(Verb::List).times(1));
    own(&place.get(&token, CONFIG_MAPS).await, 503);
    passed(&place.get(&token, CONFIG_MAPS).await, 200);
}

/// Sends a body whose parts come back as they are sent.
async fn echo(place: &Place, token: &str, over: &'static [u8]) -> (Incoming, mpsc::Sender<bytes::Bytes>) {
    let authority = place.authority();
    let stream = Peer { over, ..Peer::new(&authority, None) }.connect(&place.address).await.unwrap();
    let (sent, parts) = mpsc::channel::<bytes::Bytes>(1);
    let body = StreamBody::new(stream::unfold(parts, async |mut parts: mpsc::Receiver<bytes::Bytes>| {
        Some((Ok::<_, std::io::Error>(Frame::data(parts.recv().await?)), parts))
    }));
    let host = if over == b"h2" { "https://larder.example" } else { "" };
    let request = http::Request::post(format!("{host}{ECHO}")).header("authorization", bearer(token));
    let request = if over == b"h2" { request } else { request.header("host", "larder") };
    let request = request.body(Box::pin(body)).unwrap();
    let asking = async {
        if over == b"h2" {
            let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
            let (mut sender, connection) = handshake.await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        }
    };
    let mut body = tokio::time::timeout(LIMIT, asking).await.expect("the head").into_body();
    assert!(next_line(&mut body).await.contains(r#""method":"POST""#));
    (body, sent)
}

async fn next_line(body: &mut Incoming) -> String {
    let reading = async {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            line.extend(body.frame().await.unwrap().unwrap().into_data().unwrap());
        }
        String::from_utf8(line).unwrap()
    };
    tokio::time::timeout(LIMIT, reading).await.expect("a part")
}

#[tokio::test]
async fn connections_for_another_protocol_are_passed_on_within_their_limits() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("settings.yaml");
    fs::write(&settings, "passThrough: {callerUpgrades: 1, callerRequests: 2}\n").unwrap();
    let mut place = start(&["--config", settings.to_str().unwrap()]).await;
    let token = place.token_with(&[Grant::everywhere(Kind::ConfigMap)]);
    let other = place.signer.token(&claims("other", "uid-other"));
    place.grant(&other, "other", &[Grant::everywhere(Kind::ConfigMap)]);
    let mut upgraded = place.upgrade(&token).await.unwrap();
    let seen: Value = serde_json::from_str(&upgraded.line().await).unwrap();
    let (authorization, protocol) = (json!([bearer(&token)]), json!(["echo"]));
    assert_eq!((&seen["headers"]["authorization"], &seen["headers"]["upgrade"]), (&authorization, &protocol));
    assert_eq!(upgraded.exchange("hello\n").await, "hello\n");
    assert_eq!(place.upgrade(&token).await.err(), Some(429));
    let mut of_other = place.upgrade(&other).await.unwrap();
    of_other.line().await;
    assert_eq!(of_other.exchange("hello\n").await, "hello\n");
    // Who the API server does not know is refused by it.
    assert_eq!(place.upgrade("garbage").await.err(), Some(401));
    drop(upgraded);
    until("its place is free", async || place.upgrade(&token).await.ok()).await;

    let hang = place.api.inject(Fault::hang().verb(Verb::List).kind(Kind::ConfigMap));
    let (first, second) = (place.get(&token, CONFIG_MAPS), place.get(&token, CONFIG_MAPS));
    let third = async {
        until("two are in flight", async || {
            place.metrics().await.contains("larder_pass_through_in_flight{kind=\"request\"} 2\n").then_some(())
        })
        .await;
        let refused = place.get(&token, CONFIG_MAPS).await;
        own(&refused, 429);
        assert_eq!(refused.header("retry-after"), "1");
        passed(&place.get(&other, "/api/v1/namespaces/shop/configmaps/none").await, 404);
        place.api.remove_fault(hang);
    };
    let (first, second, ()) = tokio::join!(first, second, third);
    passed(&first, 200);
    passed(&second, 200);

    // It ends with the daemon, after the drain timeout.
    place.daemon.signal(rustix::process::Signal::TERM);
    let ended = tokio::time::timeout(LIMIT, of_other.0.read_u8()).await.expect("it ends");
    assert!(ended.is_err());
    assert!(place.daemon.ended().await.success());
}

#[tokio::test]
async fn the_status_tells_what_is_passed_on_and_why_the_api_server_last_did_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("settings.yaml");
    fs::write(&settings, "passThrough: {callerRequests: 1}\n").unwrap();
    let place = start(&["--config", settings.to_str().unwrap()]).await;
    let token = place.token_with(&[Grant::everywhere(Kind::ConfigMap)]);
    let status = async || place.daemon.get("/larder/v1/status").await.json()["listen"]["passThrough"].take();
    let nothing = json!({"answered": 0, "refused": 0, "limited": 0, "unanswered": 0, "fallbacks": 0});
    assert_eq!(status().await, nothing);
    // Two answers, two refusals, of which larder makes one good, and one request too many.
    passed(&place.get(&token, CONFIG_MAPS).await, 200);
    passed(&place.get(&token, "/api/v1/secrets").await, 403);
    own(&place.get(&token, DB).await, 200);
    let hang = place.api.inject(Fault::hang().verb(Verb::List).kind(Kind::ConfigMap));
    let second = async {
        until("one is in flight", async || {
            place.metrics().await.contains("larder_pass_through_in_flight{kind=\"request\"} 1\n").then_some(())
        })
        .await;
        own(&place.get(&token, CONFIG_MAPS).await, 429);
        place.api.remove_fault(hang);
    };
    let (first, ()) = tokio::join!(place.get(&token, CONFIG_MAPS), second);
    passed(&first, 200);
    let so_far = json!({"answered": 4, "refused": 2, "limited": 1, "unanswered": 0, "fallbacks": 1});
    assert_eq!(status().await, so_far);
    let told = place.daemon.larder("status").await.ok();
    let line =
        "passed on   4 answers of the API server (2 refused), 0 without, 1 over a limit, 1 answered here after all\n";
    assert!(told.contains(line), "{told}");

    place.api.outage().await;
    own(&place.get(&token, CONFIG_MAPS).await, 503);
    let now = status().await;
    let why = now["lastError"].as_str().unwrap();
    assert!(now["unanswered"] == 1 && why.contains(place.api.url()), "{now}");
    assert!(now["lastErrorAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{now}");
    let told = place.daemon.larder("status").await.ok();
    assert!(told.contains("(2 refused), 1 without,") && told.contains(&format!(" ago: {why})\n")), "{told}");
    // It is still told of when all is well again.
    place.api.restore().await.unwrap();
    until("the API server answers again", async || (place.get(&token, CONFIG_MAPS).await.code == 200).then_some(()))
        .await;
    assert_eq!(status().await["lastError"].as_str(), Some(why));
    assert!(!told.contains(&token[..20]), "{told}");
}

#[tokio::test]
async fn a_decision_counts_once_where_larder_is_asked_before_the_api_server_and_has_no_answer() {
    let place = start(&[]).await;
    let token = place.token_with(&[]);
    // The API server refuses it, and from here on larder looks for an answer of its own first.
    own(&place.get(&token, DB).await, 200);
    place.api.store().delete(Kind::Secret, "shop", "db").unwrap();
    until("larder knows that it is gone", async || (place.daemon.get(DB).await.code == 404).then_some(())).await;
    let decisions = async || -> u64 {
        let metrics = place.metrics().await;
        let of_pods = metrics.lines().filter(|line| line.starts_with("larder_access_decisions_total{subject=\"pod\""));
        of_pods.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    let before = decisions().await;
    passed(&place.get(&token, DB).await, 403);
    assert_eq!(decisions().await - before, 1);
}

#[tokio::test]
async fn the_audit_has_a_line_of_what_is_passed_on_and_does_not_say_whether_it_was_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let place = start(&["--audit", "all", "--audit-file", path.to_str().unwrap()]).await;
    let token = place.token_with(&[]);
    passed(&place.get(&token, &format!("{CONFIG_MAPS}/other?pretty=1")).await, 403);
    passed(&place.get("unknown", "/apis/apps/v1/deployments?limit=1").await, 401);
    let of_pod = line(&path, &[("what", &format!("{CONFIG_MAPS}/other"))]).await;
    assert_eq!((&of_pod["caller"], &of_pod["rule"]), (&"pod \"shop/web\"".into(), &"pass-through:policy".into()));
    let of_stranger = line(&path, &[("what", "/apis/apps/v1/deployments")]).await;
    let caller = "a client whose token is refused";
    assert_eq!((&of_stranger["caller"], &of_stranger["rule"]), (&caller.into(), &"pass-through:caller".into()));
    for line in [of_pod, of_stranger] {
        assert_eq!((line.get("allowed"), &line["verb"]), (None, &"get".into()), "{line}");
    }
}

#[tokio::test]
async fn pass_through_needs_a_listener_and_an_api_server() {
    let folder = || folder_with(&[]);
    let manifests = ["--manifests", "manifests", "--runtime-endpoint", "none", "--pass-through"];
    let mut without_listener = Daemon::spawn(folder(), &manifests);
    assert!(!without_listener.ended().await.success());
    let said = "--pass-through: needs an address to listen on over TLS: set --listen";
    without_listener.logged(said).await;
    let listening = [&manifests[..], &["--listen", "127.0.0.1:0", "--tls-directory", "tls"]].concat();
    let mut without_server = Daemon::spawn(folder(), &listening);
    assert!(!without_server.ended().await.success());
    without_server.logged("needs an API server, and larder reads manifests here").await;
}
