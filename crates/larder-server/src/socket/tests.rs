//! Sockets that are made, replaced, refused and removed.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

/// Some user that is neither root nor the one that runs the tests.
const OTHER: u32 = 54_321;

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn give_away(path: &Path) {
    assert!(rustix::process::geteuid().is_root(), "this test gives files to another user, and so needs root");
    chown(path, Some(OTHER), Some(OTHER)).unwrap();
}

#[tokio::test]
async fn a_socket_is_made_with_its_directory_and_removed_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run/larder/l.sock");
    let socket = bind(&path).await.unwrap();
    assert_eq!(mode_of(&path), 0o666);
    drop(socket);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_stale_socket_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let _socket = bind(&path).await.unwrap();
    UnixStream::connect(&path).await.unwrap();
}

#[tokio::test]
async fn a_live_socket_is_left_alone_and_its_holder_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l.sock");
    let _holder = bind(&path).await.unwrap();
    let error = bind(&path).await.unwrap_err();
    let own = format!("(process {})", std::process::id());
    assert!(error.to_string().contains(&own), "{error}");
    UnixStream::connect(&path).await.unwrap();
}

#[tokio::test]
async fn what_is_not_a_socket_is_refused_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l.sock");
    fs::write(&path, "precious").unwrap();
    assert!(matches!(bind(&path).await, Err(SocketError::NotASocket { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn a_path_that_is_too_long_is_refused_with_its_length() {
    let path = PathBuf::from(format!("/tmp/{}", "x".repeat(LONGEST_PATH)));
    let error = bind(&path).await.unwrap_err();
    assert!(error.to_string().contains("112 bytes"), "{error}");
}

#[tokio::test]
async fn a_successor_of_the_socket_survives_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l.sock");
    let first = bind(&path).await.unwrap();
    fs::remove_file(&path).unwrap();
    let _second = bind(&path).await.unwrap();
    drop(first);
    UnixStream::connect(&path).await.unwrap();
}

const STEPS: [Step; 4] = [Step::FolderChecked, Step::PathFree, Step::Bound, Step::Opened];

#[tokio::test]
async fn a_link_that_takes_the_sockets_place_at_any_step_changes_nothing_of_its_target() {
    for step in STEPS {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("l.sock"), dir.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        set_mode(&victim, 0o600);
        let swap = |now| {
            if now == step {
                let _ = fs::remove_file(&path);
                symlink(&victim, &path).unwrap();
            }
        };
        let made = bind_stepwise(&path, swap).await;
        match step {
            Step::FolderChecked => assert!(matches!(made, Err(SocketError::NotASocket { .. })), "{made:?}"),
            Step::PathFree => assert!(matches!(made, Err(SocketError::Io { .. })), "{made:?}"),
            Step::Bound => assert!(matches!(made, Err(SocketError::Replaced { .. })), "{made:?}"),
            // It is our socket that was opened; the next look finds that the path is lost.
            Step::Opened => assert!(made.is_ok(), "{made:?}"),
        }
        drop(made);
        assert_eq!((mode_of(&victim), fs::read_to_string(&victim).unwrap().as_str()), (0o600, "precious"), "{step:?}");
        assert_eq!(fs::read_link(&path).unwrap(), victim, "{step:?}: the link is not ours to remove");
    }
}

#[tokio::test]
async fn another_services_socket_in_the_sockets_place_keeps_its_mode() {
    for how in ["hard link", "another user's"] {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("l.sock"), dir.path().join("other.sock"));
        let _service = std::os::unix::net::UnixListener::bind(&other).unwrap();
        set_mode(&other, 0o600);
        let made = bind_stepwise(&path, |step| {
            if step == Step::Bound {
                fs::remove_file(&path).unwrap();
                fs::hard_link(&other, &path).unwrap();
                if how == "another user's" {
                    give_away(&other);
                    fs::remove_file(&other).unwrap();
                }
            }
        })
        .await;
        assert!(matches!(made, Err(SocketError::Replaced { .. })), "{how}: {made:?}");
        assert_eq!(mode_of(&path), 0o600, "{how}");
    }
}

#[tokio::test]
async fn a_link_that_takes_the_folders_place_at_any_step_changes_nothing_of_its_target() {
    for step in STEPS {
        let dir = tempfile::tempdir().unwrap();
        let (folder, aside, target) = (dir.path().join("run"), dir.path().join("aside"), dir.path().join("target"));
        let (path, victim) = (folder.join("l.sock"), target.join("l.sock"));
        fs::create_dir(&target).unwrap();
        fs::write(&victim, "precious").unwrap();
        set_mode(&victim, 0o600);
        let made = bind_stepwise(&path, |now| {
            if now == step {
                fs::rename(&folder, &aside).unwrap();
                symlink(&target, &folder).unwrap();
            }
        })
        .await;
        assert_eq!(made.is_ok(), matches!(step, Step::Bound | Step::Opened), "{step:?}: {made:?}");
        drop(made);
        assert_eq!((mode_of(&victim), fs::read_to_string(&victim).unwrap().as_str()), (0o600, "precious"), "{step:?}");
        assert!(!aside.join("l.sock").exists(), "{step:?}: the own socket is removed where it is");
    }
}

/// What is said of a socket in a folder `a/b` after that was done to `a` and `b`.
async fn told(prepare: impl FnOnce(&Path, &Path)) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let (outer, inner) = (dir.path().join("a"), dir.path().join("a/b"));
    fs::create_dir_all(&inner).unwrap();
    for folder in [&outer, &inner] {
        set_mode(folder, 0o755);
    }
    prepare(&outer, &inner);
    let path = inner.join("l.sock");
    let made = bind(&path).await;
    assert_eq!(path.exists(), made.is_ok());
    made.map(drop).map_err(|error| {
        assert!(matches!(error, SocketError::UnsafeFolder { .. }), "{error:?}");
        error.to_string()
    })
}

#[tokio::test]
async fn a_folder_that_others_may_change_is_refused_with_what_to_do() {
    for (mode, writers) in [
        (0o777, "everybody"),
        (0o757, "everybody"),
        (0o722, "everybody"),
        (0o775, "group 54321"),
        (0o770, "group 54321"),
    ] {
        for level in ["a", "a/b"] {
            let told = told(|outer, inner| {
                let folder = if level == "a" { outer } else { inner };
                chown(folder, None, Some(OTHER)).expect("this test gives files to another group, and so needs root");
                set_mode(folder, mode);
            });
            let told = told.await.unwrap_err();
            let how = format!("its mode {mode:04o} lets {writers} write");
            let expected = [format!("/{level} on the way"), how, "chmod go-w".to_owned()];
            assert!(expected.iter().all(|part| told.contains(part)), "{told}");
        }
    }
    for level in ["a", "a/b"] {
        let told = told(|outer, inner| give_away(if level == "a" { outer } else { inner })).await.unwrap_err();
        let expected = [format!("/{level} on the way"), format!("user {OTHER}"), "chown".to_owned()];
        assert!(expected.iter().all(|part| told.contains(part)), "{told}");
    }
}

#[tokio::test]
async fn a_folder_that_the_own_group_may_write_is_safe() {
    told(|outer, inner| [outer, inner].into_iter().for_each(|folder| set_mode(folder, 0o775))).await.unwrap();
}

#[tokio::test]
async fn a_sticky_folder_of_root_is_safe_and_one_of_another_user_is_not() {
    for mode in [0o1777, 0o1775] {
        told(|outer, _| set_mode(outer, mode)).await.unwrap();
        told(|_, inner| set_mode(inner, mode)).await.unwrap();
        let sticky_of_other = |outer: &Path, _: &Path| {
            give_away(outer);
            set_mode(outer, mode);
        };
        told(sticky_of_other).await.unwrap_err();
    }
}

#[tokio::test]
async fn a_link_to_the_folder_is_followed_if_nobody_else_made_it() {
    for (is_own, is_relative) in [(true, true), (true, false), (false, true), (false, false)] {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("run"), dir.path().join("var"));
        fs::create_dir(&target).unwrap();
        symlink(if is_relative { Path::new("./run/../run") } else { &target }, &link).unwrap();
        if !is_own {
            std::os::unix::fs::lchown(&link, Some(OTHER), Some(OTHER)).unwrap();
        }
        let made = bind(&link.join("larder/l.sock")).await;
        assert_eq!(made.is_ok(), is_own, "{made:?}");
        assert_eq!(target.join("larder/l.sock").exists(), is_own);
        drop(made);
        assert!(!target.join("larder/l.sock").exists());
    }
}

#[tokio::test]
async fn links_that_go_round_in_circles_and_files_on_the_way_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    symlink("circle", dir.path().join("circle")).unwrap();
    let error = bind(&dir.path().join("circle/l.sock")).await.unwrap_err();
    assert!(matches!(error, SocketError::Io { .. }), "{error:?}");
    fs::write(dir.path().join("file"), "").unwrap();
    let error = bind(&dir.path().join("file/l.sock")).await.unwrap_err();
    assert!(matches!(error, SocketError::NotAFolder { .. }), "{error:?}");
    for path in ["/", "..", "/run/.."] {
        assert!(matches!(bind(Path::new(path)).await, Err(SocketError::NoName { .. })), "{path}");
    }
}
