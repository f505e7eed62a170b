//! Clients that send garbage, hang, flood or go away harm nobody else.

use crate::harness::{Daemon, until};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
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
async fn too_many_connections_are_turned_away_and_room_is_found_again() {
    let daemon = Daemon::with_manifests(&[]).await;
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        open.push(UnixStream::connect(daemon.socket()).await.unwrap());
    }
    let turned_away =
        until("one is turned away", async || daemon.try_get("/livez").await.filter(|answer| answer.code != 200)).await;
    assert_eq!((turned_away.code, turned_away.header("retry-after")), (503, "1"), "{turned_away:?}");
    assert!(turned_away.json()["message"].as_str().unwrap().contains("too many connections"));
    drop(open);
    until("there is room again", async || daemon.try_get("/livez").await.filter(|answer| answer.code == 200)).await;
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
        metrics.contains("larder_http_connections 1\n").then_some(())
    })
    .await;
}
