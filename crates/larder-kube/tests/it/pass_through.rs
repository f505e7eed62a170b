//! Requests of others on their way to the server: as whom, over which connections, and beside clients that do not read.

use crate::server::{connect, start, start_with, until};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use larder_kube::{KubeClient, KubeOptions, PassError, PassThrough, PassedAnswer};
use larder_testkit::api_server::{ApiServer, ApiServerOptions, ECHO, Fault, Kind, User, Verb};
use larder_testkit::objects::secret;
use std::time::Duration;
use tokio::time::timeout;

const SECRET: &str = "/api/v1/namespaces/shop/secrets/large";

fn request(path: &str, token: &str) -> Request<Empty<Bytes>> {
    Request::get(path).header("authorization", format!("Bearer {token}")).body(Empty::new()).unwrap()
}

async fn send(pass: &PassThrough, path: &str, token: &str) -> http::Response<PassedAnswer> {
    pass.send(request(path, token), path.contains("watch=true")).await.unwrap()
}

/// A server with a Secret of 512 KiB, and a way there.
async fn with_large_secret(options: ApiServerOptions) -> (ApiServer, KubeClient, PassThrough) {
    let server = start_with(options).await;
    server.store().create(secret("shop", "large", &[("key", &"x".repeat(512 << 10))])).unwrap();
    let client = connect(&server, KubeOptions::default()).await;
    let pass = client.pass_through(200);
    (server, client, pass)
}

#[tokio::test]
async fn a_request_is_of_its_own_token_and_shares_no_connection_with_larder() {
    let (server, client, pass) = with_large_secret(ApiServerOptions::default()).await;
    crate::pool::read(&client, "large").await.unwrap();
    let token = server.add_user(User::stranger("jane"));
    assert_eq!(send(&pass, SECRET, &token).await.status(), StatusCode::FORBIDDEN);
    let anonymous = pass.send(Request::get(SECRET).body(Empty::<Bytes>::new()).unwrap(), false).await.unwrap();
    assert_eq!(anonymous.status(), StatusCode::UNAUTHORIZED, "nothing of larder's is added");
    let seen: Vec<_> = server.requests().iter().map(|request| (request.user.clone(), request.connection)).collect();
    let expected = ["admin", "jane", ""].map(str::to_owned).into_iter().zip([1, 2, 2]).collect::<Vec<_>>();
    assert_eq!(seen, expected);
    assert_eq!(client.stats().connections_open, 1, "statistics are of larder's own requests");
}

/// Over the windows of larder's own connections, 16 answers that nobody reads would hold up all others.
#[tokio::test]
async fn clients_that_do_not_read_hold_up_no_other() {
    let (server, _client, pass) = with_large_secret(ApiServerOptions::default()).await;
    let token = server.admin_token();
    let mut unread = Vec::new();
    for _ in 0..80 {
        let answer = send(&pass, SECRET, token).await;
        assert_eq!(answer.status(), StatusCode::OK);
        unread.push(answer);
    }
    let connections = |server: &ApiServer| {
        server.requests().iter().map(|request| request.connection).collect::<std::collections::BTreeSet<_>>().len()
    };
    assert_eq!(connections(&server), 1);
    let read = async {
        let body = send(&pass, SECRET, token).await.into_body().collect().await.unwrap().to_bytes();
        body.len()
    };
    let length = timeout(Duration::from_mins(1), read).await.expect("it is not held up");
    assert!(length > 512 << 10, "{length}");
    assert_eq!(connections(&server), 1);
    // The bytes that the client has not read are still there.
    let first = unread.swap_remove(0).into_body().collect().await.unwrap().to_bytes();
    assert_eq!(first.len(), length);
}

#[tokio::test]
async fn watches_leave_room_for_requests_and_get_more_connections() {
    let options = ApiServerOptions { max_concurrent_streams: 10, ..ApiServerOptions::default() };
    let (server, _client, pass) = with_large_secret(options).await;
    let token = server.admin_token();
    let mut watches = Vec::new();
    for _ in 0..20 {
        let watch = send(&pass, "/api/v1/namespaces/shop/configmaps?watch=true", token).await;
        assert_eq!(watch.status(), StatusCode::OK);
        watches.push(watch);
    }
    assert_eq!(server.counts().watches_open, 20);
    assert_eq!(send(&pass, SECRET, token).await.status(), StatusCode::OK);
    drop(watches);
    until(|| server.counts().watches_open == 0).await;
}

#[tokio::test]
async fn an_outage_is_told_and_over_when_the_server_is_back() {
    let (server, _client, pass) = with_large_secret(ApiServerOptions::default()).await;
    let token = server.admin_token();
    server.inject(Fault::cut().verb(Verb::Get).kind(Kind::Secret).times(1));
    let error = pass.send(request(SECRET, token), false).await.unwrap_err();
    assert!(matches!(error, PassError::Broken { .. }), "it may have been received: {error}");
    server.outage().await;
    for error in [
        pass.send(request(SECRET, token), false).await.unwrap_err(),
        pass.upgrade(request(SECRET, token)).await.unwrap_err(),
    ] {
        assert!(matches!(error, PassError::Unreached { .. }), "{error}");
        assert!(error.to_string().contains(server.url()), "{error}");
    }
    server.restore().await.unwrap();
    let back = larder_testkit::poll_until(Duration::from_mins(1), async || {
        pass.send(request(SECRET, token), false).await.ok()
    });
    assert_eq!(back.await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn an_upgrade_has_a_connection_of_its_own() {
    let server = start().await;
    let client = connect(&server, KubeOptions::default()).await;
    let pass = client.pass_through(2);
    let token = server.admin_token();
    let mut upgraded = Vec::new();
    for _ in 0..3 {
        let mut request = request(ECHO, token);
        request.headers_mut().insert("connection", "Upgrade".parse().unwrap());
        request.headers_mut().insert("upgrade", "echo".parse().unwrap());
        let mut answer = pass.upgrade(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
        upgraded.push(hyper::upgrade::on(&mut answer).await.unwrap());
    }
    assert!(server.requests().iter().all(|request| !request.http2));
    assert_eq!(server.counts().connections_accepted, 3);
    // One that is refused is answered as any other.
    let refused = pass.upgrade(request(ECHO, "unknown")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert!(refused.into_body().collect().await.unwrap().to_bytes().starts_with(b"{"));
}
