//! Clients that send garbage, hang, flood or go away harm nobody else.

use crate::harness::{Daemon, LIMIT, folder_with, request, until};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;

/// The daemon's limit of connections.
const CONNECTIONS: usize = 512;

/// What a client gets that sends those bytes and then waits for the connection to end.
async fn answer_to(daemon: &Daemon, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(daemon.socket()).await.unwrap();
    // The daemon may have closed it before everything is written.
    let _ = stream.write_all(bytes).await;
    let mut got = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(45), stream.read_to_end(&mut got)).await.expect("it is closed");
    got
}

#[tokio::test]
async fn garbage_is_answered_with_400_or_the_end_of_the_connection() {
    let daemon = Daemon::with_manifests(&[]).await;
    let long = vec![b'a'; 1 << 20];
    let header = [b"GET / HTTP/1.1\r\nx: ".as_slice(), &long, b"\r\n\r\n"].concat();
    let tls = [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03];
    for bytes in [b"\0\xff\xfe\r\n\r\n".as_slice(), b"hello\r\n\r\n", b"GET\r\n\r\n", &tls, &long, &header] {
        let got = answer_to(&daemon, bytes).await;
        let refused = [b"HTTP/1.1 400".as_slice(), b"HTTP/1.1 431"];
        let text = String::from_utf8_lossy(&got);
        assert!(got.is_empty() || refused.iter().any(|head| got.starts_with(head)), "{text}");
    }
    assert_eq!(daemon.get("/livez").await.code, 200);
}

#[tokio::test]
async fn clients_that_hang_hold_up_nobody() {
    let daemon = Daemon::with_manifests(&[]).await;
    let mut hanging = Vec::new();
    for n in 0..100 {
        let mut stream = UnixStream::connect(daemon.socket()).await.unwrap();
        if n % 2 == 0 {
            stream.write_all(b"GET /livez HTTP/1.1\r\nhost:").await.unwrap();
        }
        hanging.push(stream);
    }
    let began = Instant::now();
    assert_eq!(daemon.get("/livez").await.code, 200);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn the_connection_that_is_idle_longest_makes_room_for_a_new_one() {
    let daemon = Daemon::with_manifests(&[]).await;
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        open.push(UnixStream::connect(daemon.socket()).await.unwrap());
    }
    let metrics = daemon.get("/metrics").await.text;
    // Those that asked whether the daemon is ready may not have been gone yet.
    assert!(count(&metrics, "larder_http_connections_evicted_total{listener=\"socket\"}") >= 1, "{metrics}");
    assert_eq!(count(&metrics, "larder_http_connections_turned_away_total{listener=\"socket\"}"), 0, "{metrics}");
    let mut oldest = open.swap_remove(0);
    let end = tokio::time::timeout(LIMIT, oldest.read(&mut [0])).await.expect("it is closed");
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    let newest = open.last_mut().unwrap();
    newest.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    newest.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_connection_that_is_being_answered_is_kept_and_a_new_one_is_turned_away_with_when_to_ask_again() {
    let daemon = limited("limits: {connections: 2}", &["--runtime-endpoint", "unix:///does/not/exist.sock"]);
    until("it answers", async || daemon.try_get("/livez").await.filter(|answer| answer.code == 200)).await;
    let mut watches = Vec::new();
    for _ in 0..2 {
        let mut stream = UnixStream::connect(daemon.socket()).await.unwrap();
        stream.write_all(b"GET /larder/v1/events?watch=true HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut head = [0; 15];
        tokio::time::timeout(LIMIT, stream.read_exact(&mut head)).await.expect("it is answered").unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK");
        watches.push(stream);
    }
    let turned_away =
        until("one is turned away", async || daemon.try_get("/livez").await.filter(|answer| answer.code != 200)).await;
    assert_eq!((turned_away.code, turned_away.header("retry-after")), (503, "1"), "{turned_away:?}");
    assert!(turned_away.json()["message"].as_str().unwrap().contains("too many connections"));
    drop(watches);
    until("there is room again", async || daemon.try_get("/livez").await.filter(|answer| answer.code == 200)).await;
    let metrics = daemon.get("/metrics").await.text;
    assert!(count(&metrics, "larder_http_connections_turned_away_total{listener=\"socket\"}") >= 1, "{metrics}");
}

/// The value of a metric.
fn count(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {metrics}"));
    line.trim().parse().unwrap()
}

/// A daemon of manifests with this file of settings.
fn limited(settings: &str, arguments: &[&str]) -> Daemon {
    let folder = folder_with(&[]);
    std::fs::write(folder.path().join("settings.yaml"), settings).unwrap();
    let fixed = ["--manifests", "manifests", "--config", "settings.yaml"];
    Daemon::spawn(folder, &[&fixed[..], arguments].concat())
}

#[tokio::test]
async fn idle_and_slow_clients_over_tcp_do_not_hold_up_a_probe() {
    // No time limit ends any of these clients within the test.
    let settings = "limits: {metricsHeadTimeout: 1h, metricsStallTimeout: 1h}";
    let daemon = limited(settings, &["--runtime-endpoint", "none"]);
    daemon.ready().await;
    let address = daemon.metrics_address().await;
    let mut hanging = Vec::new();
    for n in 0..120 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        match n % 3 {
            0 => {}
            1 => stream.write_all(b"GET /livez HTTP/1.1\r\nhost:").await.unwrap(),
            // It asks again and again, and reads nothing.
            _ => loop {
                let ask = stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n");
                if !matches!(tokio::time::timeout(Duration::from_millis(20), ask).await, Ok(Ok(()))) {
                    break;
                }
            },
        }
        hanging.push(stream);
        if n % 3 == 2 {
            let began = Instant::now();
            let stream = TcpStream::connect(&address).await.unwrap();
            let answer = tokio::time::timeout(LIMIT, request(stream, "GET", "/livez", "*/*")).await;
            assert_eq!(answer.expect("it is answered").expect("it is answered").code, 200, "beside {n}");
            assert!(began.elapsed() < Duration::from_secs(1), "{:?} beside {n}", began.elapsed());
        }
    }
    let metrics = daemon.get("/metrics").await.text;
    assert!(count(&metrics, "larder_http_connections_evicted_total{listener=\"metrics\"}") >= 80, "{metrics}");
    assert!(count(&metrics, "larder_http_connections{listener=\"metrics\"}") <= 32, "{metrics}");
}

#[tokio::test]
async fn a_client_over_tcp_that_is_idle_slow_or_does_not_read_loses_its_connection() {
    let settings =
        "limits: {metricsHeadTimeout: 50ms, metricsStallTimeout: 50ms, metricsRequestsPerConnection: 100000}";
    let daemon = limited(settings, &["--runtime-endpoint", "none"]);
    daemon.ready().await;
    let address = daemon.metrics_address().await;
    for head in ["", "GET /livez HTTP/1.1\r\nhost:", "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut got = Vec::new();
        let end = tokio::time::timeout(LIMIT, stream.read_to_end(&mut got)).await;
        assert!(end.is_ok(), "it is closed after {head:?}");
    }
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let asking = async { while stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.is_ok() {} };
    tokio::time::timeout(LIMIT, asking).await.expect("a client that never reads is cut off");
}

#[tokio::test]
async fn a_connection_over_tcp_ends_after_as_many_requests_as_it_may_make() {
    let daemon = limited("limits: {metricsRequestsPerConnection: 2}", &["--runtime-endpoint", "none"]);
    daemon.ready().await;
    let mut stream = TcpStream::connect(daemon.metrics_address().await).await.unwrap();
    stream.write_all("GET /livez HTTP/1.1\r\nhost: x\r\n\r\n".repeat(3).as_bytes()).await.unwrap();
    let mut got = String::new();
    // The third request may make the end a reset.
    let _ = tokio::time::timeout(LIMIT, stream.read_to_string(&mut got)).await.expect("it is closed");
    assert_eq!(got.matches("HTTP/1.1 200").count(), 2, "{got}");
    assert_eq!(got.to_lowercase().matches("connection: close").count(), 1, "{got}");
}

#[tokio::test]
async fn clients_that_go_away_leave_nothing_behind() {
    let daemon = Daemon::with_manifests(&[]).await;
    for _ in 0..100 {
        let mut stream = UnixStream::connect(daemon.socket()).await.unwrap();
        stream.write_all(b"GET /larder/v1/status HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    }
    until("only the scraper's own connection is open", async || {
        let metrics = daemon.try_get("/metrics").await?.text;
        (count(&metrics, "larder_http_connections{listener=\"socket\"}") == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn with_few_open_files_larder_takes_fewer_connections_and_says_so() {
    let arguments = ["--manifests", "manifests", "--runtime-endpoint", "none"];
    let daemon = Daemon::spawn_with_limits("ulimit -n 128", folder_with(&[]), &arguments);
    daemon.ready().await;
    let mut idle = Vec::new();
    for n in 0..200 {
        idle.push(UnixStream::connect(daemon.socket()).await.unwrap());
        if n % 50 == 0 {
            assert_eq!(daemon.get("/livez").await.code, 200, "beside {n}");
        }
    }
    let files = std::fs::read_dir(format!("/proc/{}/fd", daemon.id())).unwrap().count();
    assert!(files <= 100, "larder has files left for its own work: {files}");
    let log = daemon.log();
    let warned = log.lines().find(|line| line.contains("below what the settings may need")).expect(&log);
    for part in ["limit=128", "needed=2784", "connections=12", "pods_connections=48", "LimitNOFILE="] {
        assert!(warned.contains(part), "{part}: {warned}");
    }
    assert!(!log.contains("cannot accept a connection"), "{log}");
}

#[tokio::test]
async fn with_few_open_files_idle_clients_make_room_and_one_warning_says_what_to_do() {
    // No time limit ends any of these clients within the test.
    let settings = "limits: {headTimeout: 1h, metricsHeadTimeout: 1h}";
    let daemon = limited(settings, &["--runtime-endpoint", "none"]);
    daemon.ready().await;
    // Less than larder could count on when it started.
    let (pid, few) = (rustix::process::Pid::from_raw(daemon.id().try_into().unwrap()), Some(48));
    let limit = rustix::process::Rlimit { current: few, maximum: few };
    rustix::process::prlimit(pid, rustix::process::Resource::Nofile, limit).unwrap();
    let address = daemon.metrics_address().await;
    let (mut local, mut remote) = (Vec::new(), Vec::new());
    for n in 0..100 {
        local.push(UnixStream::connect(daemon.socket()).await.unwrap());
        if n % 10 == 0 {
            let began = Instant::now();
            assert_eq!(daemon.get("/livez").await.code, 200);
            // The clients of one listener make room for those of the other.
            let stream = TcpStream::connect(&address).await.unwrap();
            let answer = tokio::time::timeout(LIMIT, request(stream, "GET", "/livez", "*/*")).await;
            assert_eq!(answer.expect("it is answered").expect("it is answered").code, 200, "beside {n}");
            assert!(began.elapsed() < Duration::from_secs(10), "{:?} beside {n}", began.elapsed());
            remote.push(TcpStream::connect(&address).await.unwrap());
        }
    }
    let metrics = daemon.get("/metrics").await.text;
    assert!(count(&metrics, "larder_http_connections_evicted_total{listener=\"socket\"}") >= 50, "{metrics}");
    daemon.logged("LimitNOFILE=").await;
    let log = daemon.log();
    assert_eq!(log.matches("cannot accept a connection").count(), 1, "{log}");
}

#[tokio::test]
async fn the_limit_of_open_files_is_raised_as_far_as_it_may_be() {
    let arguments = ["--manifests", "manifests", "--runtime-endpoint", "none"];
    let daemon = Daemon::spawn_with_limits("ulimit -Sn 64 && ulimit -Hn 3000", folder_with(&[]), &arguments);
    daemon.ready().await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().skip(3).take(2).collect::<Vec<_>>(), ["3000", "3000"], "{files}");
    assert!(!daemon.log().contains("open files"), "{}", daemon.log());
}
