//! Forged attempts to see the Secret of another pod, by a generator: tokens, cgroups, groups and namespaces. None succeeds, and each is counted.

use crate::access::{NOBODY, Place};
use crate::harness::{LIMIT, Output, run};
use crate::listen::Peer;
use crate::policy::PolicyFile;
use crate::watch::request_to;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use larder_file::private::PrivateFolder;
use larder_testkit::tokens::{Forgery, TokenSigner, forge, jwks, pod_claims};
use larder_tls::Authority;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use std::process::Command;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The Secret of `shop/other`, and its value in base64.
const TLS: &str = "/api/v1/namespaces/shop/secrets/tls";
const VALUE: &str = "dGhyZWU=";
const TOKENS: usize = 9_000;
/// Processes, and the connections that each of them opens.
const PROCESSES: usize = 100;
const CONNECTIONS: usize = 10;

/// Of rules that contradict each other the denial holds.
const RULES: &str = "\
- {name: all, effect: allow, subjects: [{user: 65534}, {namespace: shop}], objects: [{kinds: [secrets]}]}
- {name: none, effect: deny, subjects: [{user: 65534}, {namespace: shop}], objects: [{kinds: [secrets], names: [tls]}]}
- {name: again, effect: allow, subjects: [{user: 65534}, {serviceAccount: shop/shop}], objects: [{kinds: [secrets], names: [tls]}]}
";

#[tokio::test(flavor = "multi_thread")]
async fn of_ten_thousand_forged_attempts_none_sees_anything_and_each_is_counted() {
    let seed = std::env::var("LARDER_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"));
    println!("LARDER_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let file = PolicyFile::new(RULES);
    let listen = ["--listen", "127.0.0.1:0", "--tls-directory", "tls", "--node-name", "node-1"];
    let more = [&listen[..], &["--socket-admin-group", "4242", "--policy", file.path()]].concat();
    let place = Place::start(&more).await;
    by_token(&place, &mut random).await;
    by_process(&place, &mut random).await;
    let log = place.daemon.log();
    assert!(!log.contains(VALUE), "{log}");
}

/// The sum of the samples of a metric whose labels contain that.
async fn count(place: &Place, metric: &str, labels: &str) -> u64 {
    let metrics = place.daemon.get("/metrics").await.text;
    let lines = metrics.lines().filter(|line| line.starts_with(metric) && line.contains(labels));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

async fn by_token(place: &Place, random: &mut StdRng) {
    let good = [TokenSigner::rsa().unwrap(), TokenSigner::p256().unwrap()];
    let strange = [TokenSigner::p256().unwrap()];
    place.api.set_token_keys(ISSUER, &jwks(&good));
    let address = place.daemon.listen_address().await;
    let authority = Authority::open(&PrivateFolder::open(&place.daemon.folder.path().join("tls")).unwrap()).unwrap();
    // A header of that size is refused before anybody looks for a token.
    let forgeries: Vec<_> = Forgery::ALL.into_iter().filter(|forgery| *forgery != Forgery::HugeHeader).collect();
    let claims = |pod: [&str; 2]| pod_claims(ISSUER, "node-1", "shop", pod, "default", Timestamp::now());
    let mut left = TOKENS;
    while left > 0 {
        let stream = Peer { over: b"h2", ..Peer::new(&authority, None) }.connect(&address).await.unwrap();
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.unwrap();
        let connection = tokio::spawn(connection);
        for _ in 0..left.min(500) {
            let (what, token) = match random.random_range(0..12) {
                // Signed by the cluster, of pods that are not there, or not any more.
                0 => ("gone", good[0].token(&claims(["gone", "uid-gone"]))),
                1 => ("recreated", good[1].token(&claims(["other", "uid-earlier"]))),
                _ => {
                    let forgery = forgeries.choose(random).unwrap();
                    let pod = [["web", "uid-web"], ["other", "uid-other"]];
                    let token =
                        forge(*forgery, &claims(*pod.choose(random).unwrap()), &good, &strange, random.random());
                    ("forged", token)
                }
            };
            // What is no header is refused by the client.
            let request = request_to(true, "GET", TLS).header("authorization", format!("Bearer {token}"));
            let request = request.body(Full::<bytes::Bytes>::default()).unwrap();
            let answer = tokio::time::timeout(LIMIT, sender.send_request(request)).await.expect("an answer").unwrap();
            let code = answer.status().as_u16();
            let text = answer.into_body().collect().await.unwrap().to_bytes();
            let text = String::from_utf8_lossy(&text);
            assert!(matches!(code, 401 | 403) && !text.contains(VALUE), "{what} {token}: {code} {text}");
            left -= 1;
        }
        connection.abort();
    }
    // One that is cut to nothing is no token.
    assert_eq!(count(place, "larder_access_decisions_total{", "subject=\"unknown\"").await, TOKENS as u64);
}

async fn by_process(place: &Place, random: &mut StdRng) {
    let (app, other) = (place.run("app"), place.run_other("app"));
    let of_other = &other.id;
    let own = place.ask(&app, NOBODY, "/api/v1/namespaces/shop/secrets/db").await;
    assert_eq!(own.0, 200, "{}", own.1);
    // Administrators see it: it is there to be seen.
    assert!(place.daemon.get(TLS).await.text.contains(VALUE));
    let before = count(place, "larder_access_decisions_total{", "allowed=\"false\"").await;
    let url = format!("http://larder{TLS}");
    let curl = |mut command: Command| {
        command.args(["curl", "--silent", "--header", "Connection: close", "--unix-socket"]).arg(place.daemon.socket());
        command.args(["--write-out", "\n%{http_code}\n"]).args([&url; CONNECTIONS]);
        run(command)
    };
    for _ in 0..PROCESSES {
        let user = *[0, NOBODY].choose(random).unwrap();
        let groups = *["0", "4242", "0,4242", "65534"].choose(random).unwrap();
        let below = [
            of_other.clone(),
            format!("{of_other}/{of_other}"),
            format!("cri-containerd-{of_other}.scope"),
            format!("kubepods/poduid-other/{of_other}"),
            format!("crio-{of_other}.scope/{of_other}"),
            "init.scope".to_owned(),
        ];
        let (what, output): (String, Output) = match random.random_range(0..4) {
            // A child of its own cgroup that is named like another container's.
            0 | 1 => {
                let below = below.choose(random).unwrap();
                (format!("cgroup {below}"), curl(app.command_below(below, user, groups)).await)
            }
            2 => (format!("user {user}, groups {groups}"), curl(app.command_below("", user, groups)).await),
            // Of the host, and not an admin: as root of a user namespace, or of a PID namespace.
            _ => {
                let mut words = vec!["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"];
                let namespaces = [&["unshare", "--user", "--map-root-user", "--"][..], &[]];
                words.extend(*namespaces.choose(random).unwrap());
                let mut command = Command::new(words[0]);
                command.args(&words[1..]);
                (words.join(" "), curl(command).await)
            }
        };
        let printed = output.ok();
        let refused = printed.lines().filter(|line| *line == "403").count();
        assert!(refused == CONNECTIONS && !printed.contains(VALUE), "{what}: {printed}");
    }
    let counted = count(place, "larder_access_decisions_total{", "allowed=\"false\"").await - before;
    assert_eq!(counted, (PROCESSES * CONNECTIONS) as u64);
}
