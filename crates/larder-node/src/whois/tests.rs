//! What a look at the runtime's containers finds. The tests of the daemon have the waits.

use super::*;
use larder_pleg::{ContainerId, SandboxStatus};

fn id(begins: &str) -> String {
    format!("{begins:0<64}")
}

/// Two pods, each with a sandbox and a container.
fn statuses() -> Vec<Arc<PodStatus>> {
    let pod = |uid: &str, container: &str, sandbox: &str| {
        let mut status = PodStatus::new(uid.into(), "shop", uid);
        let id = ContainerId::new("containerd", id(container));
        status.containers.push(ContainerStatus { id, ..ContainerStatus::default() });
        status.sandboxes.push(SandboxStatus { id: self::id(sandbox), ..SandboxStatus::default() });
        Arc::new(status)
    };
    vec![pod("a", "abcdef012", "5a"), pod("b", "abcdef013", "5b")]
}

fn look(target: &WhoisTarget) -> Result<Result<Option<String>, String>, String> {
    let statuses = statuses();
    let search = target.search().map_err(|error| error.to_string())?;
    let found = search.look(&statuses, &target.what()).map_err(|error| error.to_string())?;
    Ok(found.map(|found| found.map(|found| format!("{}: {}", found.status.name, found.id))))
}

#[test]
fn an_id_is_told_by_its_beginning_where_only_one_begins_so() {
    let by = |begins: &str| look(&WhoisTarget::Container(begins.to_owned()));
    assert_eq!(by("abcdef012"), Ok(Ok(Some(format!("a: {}", id("abcdef012"))))));
    assert_eq!(by("cri-o://abcdef013"), Ok(Ok(Some(format!("b: {}", id("abcdef013"))))));
    assert_eq!(by("5a000000"), Ok(Ok(Some(format!("a: {}", id("5a"))))), "a sandbox");
    let several = "several containers have an ID that begins with \"abcdef01\": give more of it";
    assert_eq!(by("abcdef01"), Err(several.to_owned()));
    assert_eq!(by("ffffffff"), Ok(Err("ffffffff".to_owned())));
    for short in ["", "abcdef0", "containerd://", "ééééééé"] {
        assert!(by(short).unwrap_err().starts_with("a container's ID needs at least 8 characters"), "{short}");
    }
}

#[test]
fn a_cgroup_is_the_hosts_a_containers_or_not_known() {
    let by = |path: &str| look(&WhoisTarget::Cgroup(path.to_owned()));
    assert_eq!(by(&format!("/k8s.io/{}", id("abcdef012"))), Ok(Ok(Some(format!("a: {}", id("abcdef012"))))));
    assert_eq!(by(&format!("/k8s.io/{}", id("f"))), Ok(Err(id("f"))));
    let below_one_not_known_yet = format!("/k8s.io/{}/{}", id("f"), id("abcdef012"));
    assert_eq!(by(&below_one_not_known_yet), Ok(Err(id("f"))));
    assert_eq!(by("/init.scope"), Ok(Ok(None)));
}

#[test]
fn a_process_in_the_cgroups_of_two_containers_is_told_as_none_of_them() {
    let text = format!("2:cpu:/k8s.io/{}\n1:pids:/k8s.io/{}\n", id("abcdef012"), id("abcdef013"));
    let (statuses, target) = (statuses(), WhoisTarget::Pid(7));
    let search = Search::Cgroups { cgroups: text.parse().unwrap(), own: Cgroups::of_path("/") };
    let error = search.look(&statuses, &target.what()).err().unwrap();
    assert_eq!(error.to_string(), "the process with the PID 7 is in the cgroups of several containers");
}
