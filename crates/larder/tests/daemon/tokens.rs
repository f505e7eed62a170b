//! What a pod sees over TLS with its service-account token, and until when. The cluster's keys are a simulated API server's.

use crate::harness::{Answer, Daemon, LIMIT, until};
use crate::listen::Peer;
use crate::watch::{Watch, request_to};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use larder_file::private::PrivateFolder;
use larder_testkit::api_server::{ApiServer, Kind, User, write_private};
use larder_testkit::cri_runtime::{CriServer, SandboxSpec};
use larder_testkit::objects::{node, pod, secret};
use larder_testkit::tokens::{Forgery, TokenSigner, forge, jwks, pod_claims};
use larder_tls::Authority;
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;

pub(crate) const NODE: &str = "node-1";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
pub(crate) const DB: &str = "/api/v1/namespaces/shop/secrets/db";
pub(crate) const TLS: &str = "/api/v1/namespaces/shop/secrets/tls";

/// A node with the pods `shop/web`, of which each of two containers has another key of a Secret in its environment, and `shop/other`.
pub(crate) struct Place {
    pub(crate) api: ApiServer,
    cri: CriServer,
    pub(crate) daemon: Daemon,
    pub(crate) address: String,
    pub(crate) signer: TokenSigner,
    /// The containers of `web`, by name.
    app: String,
    side: String,
    sandbox: String,
    folder: TempDir,
}

fn web(uid: &str) -> larder_testkit::objects::PodBuilder {
    let pod = pod("shop", "web").uid(uid).node(NODE).service_account("shop");
    pod.container("app", "shop/web:1").env_secret("db", "password").container("side", "side:1").env_secret("db", "user")
}

impl Place {
    pub(crate) async fn start(more: &[&str]) -> Self {
        let signer = TokenSigner::rsa().unwrap();
        let keys = jwks([&signer]);
        Self::start_with(signer, Some(&keys), more).await
    }

    async fn start_with(signer: TokenSigner, keys: Option<&str>, more: &[&str]) -> Self {
        let api = ApiServer::start().await.unwrap();
        let kubeconfig = api.kubeconfig(&api.add_user(User::node(NODE)));
        Self::start_at(api, &kubeconfig, signer, keys, more).await
    }

    /// The same, at this API server, with the kubeconfig of this text.
    pub(crate) async fn start_at(
        api: ApiServer,
        kubeconfig: &str,
        signer: TokenSigner,
        keys: Option<&str>,
        more: &[&str],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        if let Some(keys) = keys {
            api.set_token_keys(ISSUER, keys);
        }
        let store = api.store();
        store.create(node(NODE)).unwrap();
        store.create(secret("shop", "db", &[("password", "one"), ("user", "two"), ("root", "three")])).unwrap();
        store.create(secret("shop", "tls", &[("key", "four")])).unwrap();
        store.create(web("uid-web").build()).unwrap();
        let other = pod("shop", "other").uid("uid-other").node(NODE).service_account("shop");
        store.create(other.container("app", "shop/other:1").env_secret("tls", "key").build()).unwrap();
        let text = kubeconfig;
        let kubeconfig = folder.path().join("kubeconfig");
        write_private(&kubeconfig, text).unwrap();
        let cri = CriServer::start(&folder.path().join("cri.sock")).await.unwrap();
        let sandbox = cri.containers().run_sandbox(&SandboxSpec::new("shop", "web", "uid-web"));
        let [app, side] = ["app", "side"].map(|name| run(&cri, &sandbox, name));
        let of_other = cri.containers().run_sandbox(&SandboxSpec::new("shop", "other", "uid-other"));
        run(&cri, &of_other, "app");
        let endpoint = cri.endpoint();
        let kubeconfig = kubeconfig.to_str().unwrap();
        let mut arguments = vec!["--kubeconfig", kubeconfig, "--runtime-endpoint", &endpoint, "--node-name", NODE];
        arguments.extend(["--listen", "127.0.0.1:0", "--tls-directory", "tls"]);
        arguments.extend(more);
        let daemon = Daemon::spawn(tempfile::tempdir().unwrap(), &arguments);
        daemon.ready().await;
        let address = daemon.listen_address().await;
        Self { api, cri, daemon, address, signer, app, side, sandbox, folder }
    }

    /// The token of `web`.
    pub(crate) fn token(&self) -> String {
        self.signer.token(&claims("web", "uid-web"))
    }

    pub(crate) fn authority(&self) -> Authority {
        Authority::open(&PrivateFolder::open(&self.daemon.folder.path().join("tls")).unwrap()).unwrap()
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> Answer {
        self.ask("GET", token, path, "").await
    }

    pub(crate) async fn ask(&self, method: &str, token: &str, path: &str, body: &str) -> Answer {
        let authority = self.authority();
        let stream = Peer::new(&authority, None).connect(&self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let request = http::Request::builder().method(method).uri(path).header("host", "larder");
        let request = request.header("authorization", format!("Bearer {token}")).header("connection", "close");
        let request = request.body(Full::<bytes::Bytes>::from(body.to_owned())).unwrap();
        let exchange = async {
            let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
            let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
            Answer { code: parts.status.as_u16(), headers: parts.headers, text }
        };
        let (answer, _) =
            tokio::time::timeout(LIMIT, async { tokio::join!(exchange, connection) }).await.expect("it answers");
        answer
    }

    /// A watch with a token.
    pub(crate) async fn watch(&self, token: &str, path: &str, over: &'static [u8]) -> Watch {
        let authority = self.authority();
        let stream = Peer { over, ..Peer::new(&authority, None) }.connect(&self.address).await.unwrap();
        let is_http2 = over == b"h2";
        let request = request_to(is_http2, "GET", path).header("authorization", format!("Bearer {token}"));
        Watch::on(stream, is_http2, request).await
    }

    pub(crate) async fn metrics(&self) -> String {
        self.daemon.get("/metrics").await.text
    }
}

fn run(cri: &CriServer, sandbox: &str, name: &str) -> String {
    let id = cri.containers().create_container(sandbox, name, "shop/web:1").unwrap();
    cri.containers().start_container(&id).unwrap();
    id
}

pub(crate) fn claims(name: &str, uid: &str) -> Value {
    pod_claims(ISSUER, NODE, "shop", [name, uid], "shop", Timestamp::now())
}

/// Asserts that an answer is this refusal.
fn refused(answer: &Answer, code: u16, why: &str) {
    assert!(answer.code == code && answer.text.contains(why), "{why}: {answer:?}");
    assert_eq!(answer.json()["kind"], "Status", "{answer:?}");
}

#[tokio::test]
async fn a_pod_sees_the_keys_of_all_its_containers_by_its_token_and_nothing_of_others() {
    let place = Place::start(&[]).await;
    let token = place.token();
    let own = place.get(&token, DB).await;
    assert_eq!((own.code, &own.json()["data"]), (200, &json!({"password": "b25l", "user": "dHdv"})), "{own:?}");
    let pod = place.get(&token, "/api/v1/namespaces/shop/pods/web").await;
    assert_eq!((pod.code, &pod.json()["metadata"]["uid"]), (200, &json!("uid-web")), "{pod:?}");
    let list = place.get(&token, "/api/v1/pods").await;
    assert_eq!((list.code, list.json()["items"].as_array().unwrap().len()), (200, 1), "{list:?}");
    let status = place.get(&token, "/larder/v1/pods/uid-web/status").await;
    assert!(status.code == 200 && status.text.contains(&place.app), "{status:?}");
    for path in [
        TLS,
        "/api/v1/namespaces/shop/secrets/missing",
        "/api/v1/namespaces/shop/pods/other",
        "/api/v1/namespaces",
        "/larder/v1/pods/uid-other/status",
        "/larder/v1/status",
        "/metrics",
    ] {
        refused(&place.get(&token, path).await, 403, r#"pod \"shop/web\" may not "#);
    }
    // The other pod sees its own.
    let other = place.signer.token(&claims("other", "uid-other"));
    assert_eq!(place.get(&other, TLS).await.code, 200);
    refused(&place.get(&other, DB).await, 403, r#"pod \"shop/other\" may not get "#);
    // Who it is, and what it may.
    let review = place.ask("POST", &token, "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}").await;
    assert_eq!(
        (review.code, &review.json()["status"]["userInfo"]["username"]),
        (201, &json!("system:serviceaccount:shop:shop"))
    );
    let asks = |name: &str| json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "shop", "name": name}}});
    for (name, allowed) in [("db", true), ("tls", false)] {
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let review = place.ask("POST", &token, path, &asks(name).to_string()).await;
        assert_eq!((review.code, &review.json()["status"]["allowed"]), (201, &json!(allowed)), "{review:?}");
    }
    let metrics = place.metrics().await;
    for line in [
        r#"larder_access_decisions_total{subject="pod",rule="reference",allowed="true"}"#,
        r#"larder_access_decisions_total{subject="pod",rule="none",allowed="false"}"#,
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    // The keys were read once, and the status says where.
    let status = place.daemon.get("/larder/v1/status").await.json();
    let tokens = &status["listen"]["tokens"];
    assert_eq!(
        (&tokens["keys"], &tokens["issuer"], &tokens["audiences"]),
        (&json!(1), &json!(ISSUER), &json!([ISSUER]))
    );
    let told = place.daemon.larder("status").await.ok();
    let line = format!("tokens      1 key from {}/openid/v1/jwks, read ", place.api.url());
    assert!(told.contains(&line), "{told}");
    assert!(told.contains("passed on   nothing (--pass-through is off)\n"), "{told}");
    assert!(status["listen"].get("passThrough").is_none(), "{status}");
    assert!(!place.daemon.log().contains(&token[..20]), "{}", place.daemon.log());
}

#[tokio::test]
async fn a_token_that_is_not_good_is_refused_without_a_name_and_counted() {
    let place = Place::start(&[]).await;
    let good = place.token();
    assert_eq!(place.get(&good, DB).await.code, 200);
    let signers = [TokenSigner::rsa().unwrap(), TokenSigner::p256().unwrap()];
    let strangers = [TokenSigner::p256().unwrap()];
    for (forgery, code, why, reason) in [
        (Forgery::Expired, 401, "it has expired", "expired"),
        (Forgery::Unsigned, 401, "it names another algorithm", "algorithm"),
        (Forgery::Resigned, 401, "its signature is wrong", "signature"),
        (Forgery::PublicKeyAsSecret, 401, "it names another algorithm", "algorithm"),
        (Forgery::KeyInHeader, 401, "no key that larder knows has signed it", "unknown-key"),
        (Forgery::OtherAudience, 401, "it is for another audience", "audience"),
        (Forgery::OtherIssuer, 401, "another issuer", "issuer"),
        (Forgery::OtherNode, 403, "it is of a pod on another node", "other-node"),
        (Forgery::NoPod, 403, "it is bound to no pod", "no-pod"),
        (Forgery::Doubled, 401, "it is malformed", "malformed"),
        (Forgery::HugeHeader, 401, "it is malformed", "malformed"),
    ] {
        let token = forge(forgery, &claims("web", "uid-web"), &signers[..1], &strangers, [0, 0]);
        let answer = place.get(&token, DB).await;
        refused(&answer, code, why);
        assert!(!answer.text.contains(NODE) && !answer.text.contains("shop"), "{forgery:?}: {answer:?}");
        let line = format!("larder_tokens_refused_total{{reason=\"{reason}\"}}");
        let metrics = place.metrics().await;
        assert!(metrics.contains(&line), "{line}: {metrics}");
        // The audit has a line of it, without the token.
        let rule = format!("rule=\"token:{reason}\"");
        place.daemon.logged(&rule).await;
        let log = place.daemon.log();
        let line = log.lines().find(|line| line.contains(&rule)).unwrap();
        for part in ["a client whose token is refused", r#"source="listen""#, &format!("what=\"{DB}\"")] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(token.split('.').all(|part| part.len() < 20 || !log.contains(&part[..20])), "{log}");
    }
    let elsewhere = place.signer.token(&claims("gone", "uid-gone"));
    refused(&place.get(&elsewhere, DB).await, 403, "its pod is not a pod of this node, or no longer");
    let mut of_other = claims("web", "uid-web");
    of_other["kubernetes.io"]["serviceaccount"]["name"] = "admin".into();
    of_other["sub"] = "system:serviceaccount:shop:admin".into();
    refused(&place.get(&place.signer.token(&of_other), DB).await, 401, "another service account");
    // A refusal says nothing of whether larder is ready, and the token is not needed for that.
    assert_eq!(place.get("garbage", "/readyz").await.code, 200);
    refused(&place.get("garbage", DB).await, 401, "it is malformed");
    // Each request has its own token, also on one connection.
    let authority = place.authority();
    let stream = Peer { over: b"h2", ..Peer::new(&authority, None) }.connect(&place.address).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let requests = async {
        for (token, expected) in [(Some(&*good), 200), (None, 401), (Some("a.b.c"), 401), (Some(&*good), 200)] {
            let mut request = request_to(true, "GET", DB);
            if let Some(token) = token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            let answer = sender.send_request(request.body(Full::<bytes::Bytes>::default()).unwrap()).await.unwrap();
            assert_eq!(answer.status().as_u16(), expected, "{token:?}");
        }
    };
    tokio::select! {
        () = requests => {}
        ended = connection => panic!("{ended:?}"),
    }
}

#[tokio::test]
async fn a_watch_ends_with_the_pod_of_its_token() {
    let place = Place::start(&[]).await;
    let token = place.token();
    for over in [&b"http/1.1"[..], b"h2"] {
        let mut watch = place.watch(&token, "/api/v1/secrets?watch=true", over).await;
        let first = watch.next().await.expect("an event");
        assert_eq!((&first["type"], &first["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("db")), "{first}");
        place.api.store().apply(secret("shop", "tls", &[("key", "five")])).unwrap();
        until("root sees the change", async || {
            (place.daemon.get(TLS).await.json()["data"]["key"] == "Zml2ZQ==").then_some(())
        })
        .await;
        let value = format!("of {}", String::from_utf8_lossy(over));
        place.api.store().apply(secret("shop", "db", &[("password", &value), ("user", "two")])).unwrap();
        let next = watch.next().await.expect("an event");
        assert_eq!((&next["type"], &next["object"]["metadata"]["name"]), (&json!("MODIFIED"), &json!("db")), "{next}");
        place.api.store().apply(secret("shop", "tls", &[("key", "four")])).unwrap();
    }
    // A change of the pod that takes nothing from it ends nothing.
    let mut watch = place.watch(&token, "/api/v1/secrets?watch=true", b"http/1.1").await;
    assert_eq!(watch.next().await.expect("an event")["type"], "ADDED");
    place.api.store().apply(web("uid-web").label("a", "b").build()).unwrap();
    until("larder knows", async || {
        let pod = place.daemon.get("/api/v1/namespaces/shop/pods/web").await.json();
        (pod["metadata"]["labels"]["a"] == "b").then_some(())
    })
    .await;
    place.api.store().apply(secret("shop", "db", &[("password", "six"), ("user", "two")])).unwrap();
    assert_eq!(watch.next().await.expect("an event")["type"], "MODIFIED");
    // The pod is made again, with another UID.
    place.api.store().delete(Kind::Pod, "shop", "web").unwrap();
    let deleted = Instant::now();
    assert!(watch.next_or_error().await.is_none_or(|event| event.is_err()), "nothing comes any more");
    assert!(deleted.elapsed() < Duration::from_secs(5), "{:?}", deleted.elapsed());
    refused(&place.get(&token, DB).await, 403, "its pod is not a pod of this node");
    place.api.store().create(web("uid-new").build()).unwrap();
    until("the new pod is there", async || {
        let pod = place.daemon.get("/api/v1/namespaces/shop/pods/web").await.json();
        (pod["metadata"]["uid"] == "uid-new").then_some(())
    })
    .await;
    refused(&place.get(&token, DB).await, 401, "made again, with another UID");
    let sandbox = place.cri.containers().run_sandbox(&SandboxSpec::new("shop", "web", "uid-new"));
    run(&place.cri, &sandbox, "app");
    let successor = place.signer.token(&claims("web", "uid-new"));
    let own = place.get(&successor, DB).await;
    assert_eq!((own.code, &own.json()["data"]), (200, &json!({"password": "c2l4"})), "only `app` runs: {own:?}");
}

#[tokio::test]
async fn what_a_token_shows_ends_with_the_containers_and_the_token() {
    let place = Place::start(&[]).await;
    let token = place.token();
    let mut watch = place.watch(&token, "/api/v1/secrets?watch=true", b"http/1.1").await;
    assert_eq!(watch.next().await.expect("an event")["type"], "ADDED");
    let exit = async |id: &str| {
        place.cri.containers().exit_container(id, 0).unwrap();
        let path = format!("/larder/v1/whois?containerID={id}");
        until("the runtime tells that it has ended", async || {
            (place.daemon.get(&path).await.json()["container"]["exitCode"] == 0).then_some(())
        })
        .await;
        Instant::now()
    };
    let told = exit(&place.side).await;
    assert!(watch.next_or_error().await.is_none_or(|event| event.is_err()), "what it may see has changed");
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
    let metrics = place.metrics().await;
    assert!(metrics.contains(r#"larder_tokens_refused_total{reason="changed"} 1"#), "{metrics}");
    place.daemon.logged(r#"rule="token:changed""#).await;
    let own = place.get(&token, DB).await;
    assert_eq!((own.code, &own.json()["data"]), (200, &json!({"password": "b25l"})), "only `app` runs: {own:?}");
    let mut watch = place.watch(&token, "/api/v1/secrets?watch=true", b"h2").await;
    assert_eq!(watch.next().await.expect("an event")["type"], "ADDED");
    let told = exit(&place.app).await;
    assert!(watch.next_or_error().await.is_none_or(|event| event.is_err()), "all have ended");
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
    refused(&place.get(&token, DB).await, 403, "its containers have ended");
    // A container that starts is waited for.
    let asked = place.get(&token, DB);
    let started = async {
        until("it waits", async || place.metrics().await.contains("larder_pod_status_open_waits 1\n").then_some(()))
            .await;
        run(&place.cri, &place.sandbox, "app");
    };
    let (answer, ()) = tokio::join!(asked, started);
    assert_eq!(answer.code, 200, "{answer:?}");
    // The token's own end, with a minute of leeway.
    let mut short = claims("web", "uid-web");
    short["exp"] = (Timestamp::now().as_second() - 57).into();
    let short = place.signer.token(&short);
    let mut watch = place.watch(&short, "/api/v1/secrets?watch=true", b"http/1.1").await;
    assert_eq!(watch.next().await.expect("an event")["type"], "ADDED");
    assert!(watch.next_or_error().await.is_none_or(|event| event.is_err()), "it has expired");
    refused(&place.get(&short, DB).await, 401, "it has expired");
}

#[tokio::test]
async fn new_keys_are_fetched_and_old_ones_outlast_the_api_server() {
    let place = Place::start(&[]).await;
    assert_eq!(place.get(&place.token(), DB).await.code, 200);
    // The cluster gets another key, and keeps the old one.
    let newer = TokenSigner::p256().unwrap();
    place.api.set_token_keys(ISSUER, &jwks([&place.signer, &newer]));
    let token = newer.token(&claims("web", "uid-web"));
    let answer = until("the new key is known", async || {
        let answer = place.get(&token, DB).await;
        (answer.code == 200).then_some(answer)
    })
    .await;
    assert_eq!(answer.json()["data"]["password"], "b25l");
    place.api.outage().await;
    until("it is stale", async || place.daemon.get("/api/v1/namespaces/shop/pods/web").await.is_stale().then_some(()))
        .await;
    for token in [&token, &place.token()] {
        assert_eq!(place.get(token, DB).await.code, 200);
        refused(&place.get(token, TLS).await, 403, "may not get");
    }
    // Neither does an unknown key take the known ones away.
    let unknown = TokenSigner::p256().unwrap().token(&claims("web", "uid-web"));
    refused(&place.get(&unknown, DB).await, 401, "no key that larder knows");
    until("larder has asked again", async || {
        let tokens = place.daemon.get("/larder/v1/status").await.json()["listen"]["tokens"].clone();
        if tokens["lastError"].is_null() {
            place.get(&unknown, DB).await;
            return None;
        }
        assert_eq!(tokens["keys"], 2, "{tokens}");
        Some(())
    })
    .await;
    assert_eq!(place.get(&token, DB).await.code, 200);
}

#[tokio::test]
async fn keys_that_cannot_be_read_are_told_with_what_to_do() {
    let place = Place::start_with(TokenSigner::rsa().unwrap(), None, &[]).await;
    let token = place.token();
    // Nobody has larder read the keys, and fail, with what no key could make good.
    let stranger = |name: &str, uid: &str| TokenSigner::p256().unwrap().token(&claims(name, uid));
    let mut elsewhere = claims("web", "uid-web");
    elsewhere["kubernetes.io"]["node"]["name"] = "node-2".into();
    for forged in [
        "abc",
        "a.b.c",
        "e30.e30.e30",
        &stranger("nobody", "uid-nobody"),
        &stranger("web", "uid-before"),
        &TokenSigner::p256().unwrap().token(&elsewhere),
    ] {
        let answer = place.get(forged, DB).await;
        assert!(matches!(answer.code, 401 | 403), "{answer:?}");
    }
    let status = place.daemon.larder("status").await.ok();
    assert!(status.contains("healthy") && !status.contains("last error"), "{status}");
    assert!(!place.daemon.log().contains("cannot read the keys"), "{}", place.daemon.log());
    assert!(place.metrics().await.contains("\nlarder_degraded 0\n"));
    let answer = place.get(&token, DB).await;
    refused(&answer, 503, "larder does not know the keys yet");
    assert!(place.metrics().await.contains("\nlarder_degraded 1\n"));
    assert_eq!(answer.header("retry-after"), "1");
    let status = place.daemon.larder("status").await.ok();
    assert!(status.contains("tokens      no keys yet from ") && status.contains("DEGRADED"), "{status}");
    assert!(status.contains("system:service-account-issuer-discovery") && status.contains("--jwks-file"), "{status}");
    place.api.set_token_keys(ISSUER, &jwks([&place.signer]));
    until("they are read", async || (place.get(&token, DB).await.code == 200).then_some(())).await;
    let status = place.daemon.larder("status").await.ok();
    assert!(status.contains("healthy") && status.contains("last error: "), "{status}");
}

/// A kubelet's credentials may not read the keys, and may ask whose a token is.
#[tokio::test]
async fn where_the_keys_may_not_be_read_the_api_server_is_asked_once_and_remembered() {
    let place = Place::start_with(TokenSigner::rsa().unwrap(), None, &[]).await;
    let token = place.token();
    let user = json!({
        "username": "system:serviceaccount:shop:shop",
        "extra": {"authentication.kubernetes.io/pod-uid": ["uid-web"]},
    });
    place.api.set_reviewed_tokens([(token.clone(), user)]);
    for _ in 0..3 {
        assert_eq!(place.get(&token, DB).await.code, 200);
    }
    refused(&place.get(&token, TLS).await, 403, r#"pod \"shop/web\" may not "#);
    // Of another cluster, with the same claims.
    let forged = TokenSigner::p256().unwrap().token(&claims("web", "uid-web"));
    for _ in 0..3 {
        refused(&place.get(&forged, DB).await, 401, "the API server does not take it");
    }
    let reviews = || place.api.requests().iter().filter(|request| request.name == "tokenreviews").count();
    assert_eq!(reviews(), 2);
    // Whose pod is not here is not asked about, nor is one of an earlier pod.
    for elsewhere in [claims("gone", "uid-gone"), claims("web", "uid-earlier")] {
        refused(&place.get(&place.signer.token(&elsewhere), DB).await, 401, "no key that larder knows has signed it");
    }
    assert_eq!(reviews(), 2);
    let status = place.daemon.larder("status").await.ok();
    assert!(status.contains("healthy") && status.contains("; 1 token by TokenReview\n"), "{status}");

    place.api.outage().await;
    assert_eq!(place.get(&token, DB).await.code, 200);
    let unknown = place.signer.token(&claims("other", "uid-other"));
    refused(&place.get(&unknown, TLS).await, 503, "larder does not know the keys yet");
    place.api.restore().await.unwrap();
    // Its end is that of its pod, as with keys.
    place.api.store().delete(Kind::Pod, "shop", "web").unwrap();
    until("it has ended", async || (place.get(&token, DB).await.code == 403).then_some(())).await;
    assert!(!place.daemon.log().contains(&token[..20]), "{}", place.daemon.log());
}

#[tokio::test]
async fn keys_of_a_file_need_no_api_server() {
    let (signer, folder) = (TokenSigner::p256().unwrap(), tempfile::tempdir().unwrap());
    let file = folder.path().join("sa.pub");
    fs::write(&file, signer.pem()).unwrap();
    let more = ["--jwks-file", file.to_str().unwrap(), "--token-issuer", ISSUER];
    let place = Place::start_with(signer, None, &more).await;
    assert_eq!(place.get(&place.token(), DB).await.code, 200);
    let tokens = place.daemon.get("/larder/v1/status").await.json()["listen"]["tokens"].clone();
    assert_eq!((&tokens["from"], &tokens["keys"]), (&json!(file.to_str().unwrap()), &json!(1)));
    // A key that is added is read when a token names it.
    let newer = TokenSigner::rsa().unwrap();
    fs::write(&file, place.signer.pem() + &newer.pem()).unwrap();
    let token = newer.token(&claims("web", "uid-web"));
    until("it is read again", async || (place.get(&token, DB).await.code == 200).then_some(())).await;
    assert!(place.folder.path().exists());
}

#[tokio::test]
async fn pods_with_tokens_keep_neither_each_other_nor_admins_out() {
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), "limits: {podConnections: 2, listenForeignConnections: 2}\n").unwrap();
    let place = Place::start(&["--config", config.path().to_str().unwrap()]).await;
    let token = place.token();
    let mut watches = Vec::new();
    for _ in 0..2 {
        let mut watch = place.watch(&token, "/api/v1/secrets?watch=true", b"http/1.1").await;
        assert_eq!(watch.next().await.expect("an event")["type"], "ADDED");
        watches.push(watch);
    }
    refused(&place.get(&token, DB).await, 503, "too many connections");
    let other = place.signer.token(&claims("other", "uid-other"));
    assert_eq!(place.get(&other, TLS).await.code, 200);
    let authority = place.authority();
    let admin = authority.issue_client("jane", "larder:admins", Duration::from_hours(1), Timestamp::now()).unwrap();
    assert_eq!(Peer::new(&authority, Some(&admin)).get(&place.address, DB).await.code, 200);
    drop(watches);
    until("there is room again", async || (place.get(&token, DB).await.code == 200).then_some(())).await;
}

#[tokio::test]
async fn a_pod_has_as_many_watches_and_requests_by_its_tokens_as_it_may() {
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), "limits: {podWatches: 2, podRequests: 3}\n").unwrap();
    let place = Place::start(&["--config", config.path().to_str().unwrap()]).await;
    // Tokens of one pod count together, and on every connection.
    let mut watches = Vec::new();
    for over in [&b"http/1.1"[..], b"h2"] {
        let mut watch = place.watch(&place.token(), "/api/v1/secrets?watch=true", over).await;
        assert_eq!(watch.next().await.expect("an event")["type"], "ADDED");
        watches.push(watch);
    }
    let token = place.token();
    let answer = place.get(&token, "/api/v1/secrets?watch=true").await;
    refused(&answer, 429, "as many watches open as it may (2)");
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(place.get(&token, DB).await.code, 200, "it may still read");
    let wait = "/larder/v1/pods/uid-web/status?newerThan=2099-01-01T00:00:00Z&timeout=5m";
    let asking = async {
        until("it waits", async || place.metrics().await.contains("larder_pod_status_open_waits 1\n").then_some(()))
            .await;
        refused(&place.get(&token, DB).await, 429, "as many requests in flight as it may (3)");
        let other = place.signer.token(&claims("other", "uid-other"));
        assert_eq!(place.get(&other, TLS).await.code, 200);
        let mut watch = place.watch(&other, "/api/v1/secrets?watch=true", b"h2").await;
        assert_eq!(watch.next().await.expect("an event")["type"], "ADDED");
    };
    tokio::select! {
        answer = place.ask("GET", &token, wait, "") => panic!("{answer:?}"),
        () = asking => {}
    }
    drop(watches);
    let again = "/api/v1/secrets?watch=true&timeoutSeconds=1";
    until("there is room again", async || (place.get(&token, again).await.code == 200).then_some(())).await;
}
