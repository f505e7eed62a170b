//! Reads of the configuration that do not end.

use super::*;
use larder_clock::Jitter;
use rustix::fs::{CWD, Mode, mkfifoat};
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use tokio::sync::oneshot;

fn keeper(origin: Origin, files: &Files) -> Keeper {
    Keeper {
        origin,
        options: KubeOptions::default(),
        transport: Transport::new(),
        availability: Arc::default(),
        files: files.clone(),
        reading: None,
        current: None,
        issued: None,
        backoff: Backoff::new(PAUSE_INITIAL, PAUSE_MAX, &Jitter::default()),
        attempts: 0,
    }
}

/// A kubeconfig whose token file is `token` in the same folder.
fn kubeconfig(folder: &Path) -> Origin {
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- {name: c, context: {cluster: k, user: u}}\n\
                clusters:\n- {name: k, cluster: {server: 'http://127.0.0.1:1'}}\nusers:\n- {name: u, user: {tokenFile: token}}\n";
    let path = folder.join("kubeconfig");
    fs::write(&path, text).unwrap();
    fs::write(folder.join("token"), "t").unwrap();
    Origin::Kubeconfig { path, context: None }
}

/// A read that ends with this text when it is let.
fn stuck(keeper: &mut Keeper, text: &'static str) -> oneshot::Sender<()> {
    let (end, ended) = oneshot::channel();
    let error = keeper.origin.config(text);
    keeper.reading = Some(tokio::spawn(async move {
        let _ = ended.await;
        Err(error)
    }));
    end
}

#[tokio::test]
async fn a_read_that_hangs_does_not_keep_the_next_attempt_from_reading() {
    let folder = TempDir::new().unwrap();
    let mut keeper = keeper(kubeconfig(folder.path()), &Files::default());
    let _end = stuck(&mut keeper, "earlier");
    let (found, _) = keeper.read().await.ok().unwrap();
    assert_eq!(found.headers[AUTHORIZATION], "Bearer t");
    assert!(keeper.reading.is_none(), "what the earlier read brings is older");
}

#[tokio::test]
async fn a_file_whose_read_hangs_is_named_and_not_read_a_second_time() {
    let folder = TempDir::new().unwrap();
    let files = Files::default();
    let mut keeper = keeper(kubeconfig(folder.path()), &files);
    let token = folder.path().join("token");
    let busy = files.begin(&token).unwrap();
    let end = stuck(&mut keeper, "earlier");
    tokio::time::pause();
    for _ in 0..3 {
        let told = keeper.read().await.err().unwrap().to_string();
        assert!(told.contains(&format!("reading {} has not ended within 10s", token.display())), "{told}");
        // The test's handle and the keeper's.
        assert_eq!(files.reads_in_flight(), 1, "no read is left behind");
    }
    end.send(()).unwrap();
    let told = keeper.read().await.err().unwrap().to_string();
    assert!(told.ends_with("earlier"), "a read that is slow is waited for: {told}");
    drop(busy);
    assert!(keeper.read().await.is_ok());
}

#[tokio::test]
async fn reads_that_hang_are_few() {
    let folder = TempDir::new().unwrap();
    let files = Files::default();
    let mut keeper = keeper(kubeconfig(folder.path()), &files);
    let _stuck = vec![files.clone(); READS];
    let end = stuck(&mut keeper, "earlier");
    end.send(()).unwrap();
    let told = keeper.read().await.err().unwrap().to_string();
    assert!(told.ends_with("earlier"), "{told}");
}

#[test]
fn the_files_of_a_service_account_are_regular_files() {
    for name in ["ca.crt", "token"] {
        let folder = TempDir::new().unwrap();
        for file in ["ca.crt", "token"] {
            fs::write(folder.path().join(file), "text").unwrap();
        }
        fs::remove_file(folder.path().join(name)).unwrap();
        mkfifoat(CWD, folder.path().join(name), Mode::RUSR).unwrap();
        let origin = Origin::ServiceAccount { server: "https://k".to_owned(), folder: folder.path().to_owned() };
        let told = origin.read(&KubeOptions::default(), &Files::default()).err().unwrap().to_string();
        assert!(told.ends_with(&format!("/{name}: it is a FIFO; put a regular file in its place")), "{told}");
    }
}
