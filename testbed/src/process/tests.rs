//! Processes that end, and those that have to be ended.

use super::*;

fn sleeper(folder: &Path) -> Service {
    Service::new("sleeper", folder, PathBuf::from("/bin/sleep"), vec!["600".into()], Vec::new())
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("larder-testbed-process-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_service_starts_once_pauses_and_ends() {
    let folder = folder("service");
    let service = sleeper(&folder);
    assert!(!service.is_running());
    service.start().unwrap();
    let first = service.process().unwrap();
    service.start().unwrap();
    assert_eq!(service.process(), Some(first), "a second start leaves the running one alone");
    service.pause().unwrap();
    service.resume().unwrap();
    service.stop().unwrap();
    assert!(!first.is_alive());
    assert!(service.process().is_none());
    service.start().unwrap();
    let second = service.process().unwrap();
    assert_ne!(first, second);
    service.kill().unwrap();
    assert!(!second.is_alive());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn another_process_with_the_same_id_is_left_alone() {
    let folder = folder("reused");
    let service = sleeper(&folder);
    service.start().unwrap();
    let process = service.process().unwrap();
    let earlier = ProcessId { started: process.started - 1, ..process };
    assert!(!earlier.is_alive());
    assert!(!earlier.signal(Signal::KILL));
    assert!(!earlier.signal_group(Signal::KILL));
    assert!(earlier.wait(Duration::ZERO), "the earlier one has ended");
    assert!(process.is_alive());
    service.kill().unwrap();
    fs::remove_dir_all(folder).unwrap();
}
