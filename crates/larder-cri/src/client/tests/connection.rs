//! Runtimes that come and go, hang, or are none.

use super::server::{FakeCri, Place, SOON, Told, connected};
use crate::channel::advise;
use crate::{CriError, CriObserver, CriOptions, CriRuntime, proto};
use larder_pleg::{ContainerEvent, Runtime, RuntimeError};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tonic::Code;

/// For what is never answered.
const SHORT: Duration = Duration::from_millis(50);

async fn connect(place: &Place) -> RuntimeError {
    let options = CriOptions { status_timeout: SHORT * 20, ..CriOptions::default() };
    let connecting = CriRuntime::connect(place.endpoint(), options);
    match tokio::time::timeout(SOON, connecting).await.expect("it ends") {
        Err(CriError::Runtime(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn connecting_says_what_the_runtime_is() {
    let (place, server, client) = connected().await;
    let version = client.version().await.unwrap();
    assert_eq!((&*version.name, &*version.version, &*version.api_version), ("fake", "1.2.3", "v1"));
    assert_eq!(server.told.take_called(), [""; 0], "asked once");
    assert_eq!(client.endpoint(), Some(&place.endpoint()));
    assert_eq!(client.stats().connections, 1);
}

#[tokio::test]
async fn a_socket_that_is_not_there_or_not_one_is_said() {
    let place = Place::new();
    let error = connect(&place).await;
    assert!(error.is_unavailable());
    let expected = format!(
        "Version: no connection to the container runtime at unix://{}: No such file or directory (os error 2): there is no \
         such socket; is the runtime started?",
        place.path.display()
    );
    assert_eq!(error.to_string(), expected);

    std::fs::write(&place.path, "a file").unwrap();
    let error = connect(&place).await;
    assert!(error.is_unavailable() && error.to_string().ends_with(": it is not a socket"), "{error}");

    std::fs::remove_file(&place.path).unwrap();
    std::fs::create_dir(&place.path).unwrap();
    let error = connect(&place).await;
    assert!(error.is_unavailable() && error.to_string().ends_with(": it is not a socket"), "{error}");
}

#[tokio::test]
async fn a_socket_that_nobody_listens_on_is_said() {
    let place = Place::new();
    drop(UnixListener::bind(&place.path).unwrap());
    let error = connect(&place).await;
    assert!(error.is_unavailable());
    assert!(error.to_string().ends_with("nothing listens on the socket; is the runtime running?"), "{error}");
}

#[tokio::test]
async fn a_socket_that_may_not_be_used_is_said() {
    // As root, which tests may run as, nothing is forbidden.
    let error = io::Error::from(io::ErrorKind::PermissionDenied);
    let advice = advise("/run/x.sock".as_ref(), &error).await;
    assert_eq!(advice, "permission denied: root, or the group that owns the socket, may connect to it");
}

#[tokio::test]
async fn something_else_than_a_runtime_is_told_apart() {
    for answer in ["HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", "SSH-2.0-OpenSSH_9.9\r\n", "+OK ready\r\n"]
    {
        let place = Place::new();
        let listener = UnixListener::bind(&place.path).unwrap();
        let server = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
                // Whatever comes is not understood.
                let _ = stream.read(&mut [0; 1024]).await;
            }
        });
        let error = connect(&place).await;
        assert!(matches!(error, RuntimeError::NotCri { .. }), "{answer:?}: {error:?}");
        assert!(error.to_string().contains("is it the socket of another program?"), "{error}");
        server.abort();
    }
}

#[tokio::test]
async fn a_server_without_the_cri_is_told_apart() {
    let place = Place::new();
    let server = FakeCri::start(&place.path, Told::default());
    server.told.state.lock().fail.insert("Version", (Code::Unimplemented, "unknown service runtime.v1.RuntimeService"));
    let error = connect(&place).await;
    assert!(matches!(error, RuntimeError::NotCri { .. }), "{error:?}");
    assert!(error.to_string().contains("CRI plugin is disabled"), "{error}");
}

#[tokio::test]
async fn a_version_without_a_name_is_none() {
    let place = Place::new();
    let server = FakeCri::start(&place.path, Told::default());
    server.told.state.lock().name = Some(String::new());
    let error = connect(&place).await;
    assert!(matches!(error, RuntimeError::BadResponse { .. }), "{error:?}");
    // It is asked again.
    server.told.state.lock().name = None;
    place.client(CriOptions::default()).pods().await.unwrap();
}

#[tokio::test]
async fn a_connection_that_is_closed_at_once_is_unavailable() {
    let place = Place::new();
    let listener = UnixListener::bind(&place.path).unwrap();
    let server = tokio::spawn(async move {
        loop {
            drop(listener.accept().await.unwrap());
        }
    });
    let error = connect(&place).await;
    assert!(error.is_unavailable(), "{error:?}");
    server.abort();
}

#[tokio::test]
async fn a_runtime_that_never_answers_is_given_up() {
    // Accepted by the kernel, never read.
    let place = Place::new();
    let _listener = UnixListener::bind(&place.path).unwrap();
    let error = connect(&place).await;
    assert!(error.is_timeout(), "{error:?}");
    assert!(error.to_string().starts_with("Version: no answer from the container runtime within 1s"), "{error}");

    let place = Place::new();
    let server = FakeCri::start(&place.path, Told::default());
    server.told.state.lock().hang.insert("Version");
    assert!(connect(&place).await.is_timeout());
}

#[tokio::test]
async fn each_call_has_its_own_deadline_and_the_next_one_works() {
    let place = Place::new();
    let server = FakeCri::start(&place.path, Told::default());
    // Long enough for the calls that are answered, on a machine that is busy with something else.
    let options = CriOptions { list_timeout: Duration::from_secs(2), ..CriOptions::default() };
    let client = place.client(options);
    client.pods().await.unwrap();
    for method in ["ListPodSandbox", "ListContainers"] {
        server.told.state.lock().hang.insert(method);
        let error = client.pods().await.unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
        assert_eq!(error.call().name, method);
        server.told.state.lock().hang.clear();
    }
    client.pods().await.unwrap();
    assert_eq!(client.stats().connections, 1);
}

#[tokio::test]
async fn a_runtime_may_be_restarted_or_replaced() {
    let (place, server, client) = connected().await;
    let told = server.told.clone();
    assert_eq!(client.version().await.unwrap().name, "fake");
    drop(server);
    std::fs::remove_file(&place.path).unwrap();
    // The connections are closed a moment later.
    let gone = async {
        loop {
            if let Err(error) = client.pods().await {
                break error;
            }
        }
    };
    let error = tokio::time::timeout(SOON, gone).await.expect("the runtime is gone");
    assert!(error.is_unavailable(), "{error:?}");
    assert!(client.pods().await.unwrap_err().to_string().contains("is the runtime started?"));

    told.state.lock().name = Some("another".into());
    let server = FakeCri::start(&place.path, told);
    assert_eq!(client.pods().await.unwrap(), []);
    server.told.take_called();
    client.pods().await.unwrap();
    // The connection is known to be a new one once it has been used.
    assert_eq!(client.version().await.unwrap().name, "another");
    assert_eq!(client.stats().connections, 2);
}

#[tokio::test]
async fn a_client_may_be_there_before_the_runtime() {
    let place = Place::new();
    let client = place.client(CriOptions::default());
    assert!(client.pods().await.unwrap_err().is_unavailable());
    let _server = FakeCri::start(&place.path, Told::default());
    assert_eq!(client.pods().await.unwrap(), []);
}

#[tokio::test]
async fn an_answer_above_the_limit_is_refused() {
    let place = Place::new();
    let server = FakeCri::start(&place.path, Told::default());
    let sandbox = proto::PodSandbox { id: "x".repeat(1 << 16), ..Default::default() };
    server.told.state.lock().sandboxes = vec![sandbox; 100];
    // Above tonic's own default of 4 MiB, below ours.
    place.client(CriOptions::default()).pods().await.unwrap();
    let options = CriOptions { max_message_bytes: 1 << 20, ..CriOptions::default() };
    let error = place.client(options).pods().await.unwrap_err();
    assert!(matches!(error, RuntimeError::BadResponse { .. }), "{error:?}");
    assert!(error.to_string().contains("raise max_message_bytes (cri.maxMessageBytes"), "{error}");
}

#[tokio::test]
async fn calls_are_observed() {
    #[derive(Default)]
    struct Seen(Mutex<Vec<(&'static str, &'static str)>>);
    impl CriObserver for Seen {
        fn call(&self, name: &'static str, outcome: &'static str, _: Duration) {
            self.0.lock().push((name, outcome));
        }

        fn event(&self, _: &ContainerEvent) {}
    }
    let place = Place::new();
    let server = FakeCri::start(&place.path, Told::default());
    let seen = Arc::new(Seen::default());
    let client = CriRuntime::with_observer(place.endpoint(), CriOptions::default(), seen.clone()).unwrap();
    server.told.state.lock().fail.insert("ListContainers", (Code::Internal, "it is broken"));
    client.pods().await.unwrap_err();
    assert_eq!(
        *seen.0.lock(),
        [
            ("Version", "ok"),
            ("StreamPodSandboxes", "unsupported"),
            ("ListPodSandbox", "ok"),
            ("ListContainers", "failed")
        ]
    );
}

#[tokio::test]
async fn options_that_cannot_work_are_refused_with_the_fields_name() {
    let defaults = CriOptions::default;
    let zero = Duration::ZERO;
    for (field, options) in [
        ("connect_timeout", CriOptions { connect_timeout: zero, ..defaults() }),
        ("list_timeout", CriOptions { list_timeout: zero, ..defaults() }),
        ("status_timeout", CriOptions { status_timeout: zero, ..defaults() }),
        ("max_message_bytes", CriOptions { max_message_bytes: usize::MAX, ..defaults() }),
    ] {
        let error = CriRuntime::new(Place::new().endpoint(), options).unwrap_err();
        assert!(error.to_string().starts_with(field), "{error}");
    }
}
