//! Lines of `/proc/PID/cgroup` as runtimes and kubelets of many settings write them, and what they say.

use super::*;
use proptest::prelude::*;

const ID: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9";
const OTHER: &str = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";
const UID: &str = "2f6f3d1c-6f0e-4f4e-9d5c-0a1b2c3d4e5f";
const SYSTEMD_UID: &str = "2f6f3d1c_6f0e_4f4e_9d5c_0a1b2c3d4e5f";
const STATIC_UID: &str = "7d2f3b8c1e9a4d5f6071829304a5b6c7";

fn of(text: &str) -> Cgroups {
    text.parse().unwrap()
}

/// What a caller finds who knows both containers.
fn known(text: &str) -> Membership<String> {
    of(text).resolve(|id| [ID, OTHER].contains(&id).then(|| id.to_owned()))
}

/// What a caller finds who knows none.
fn not_known(text: &str) -> Membership<String> {
    of(text).resolve(|_| None)
}

#[test]
fn each_runtimes_name_of_a_container_is_read() {
    let container = Membership::Container(ID.to_owned());
    for path in [
        // cgroupfs: each class of service, and a static pod.
        format!("/kubepods/pod{UID}/{ID}"),
        format!("/kubepods/burstable/pod{UID}/{ID}"),
        format!("/kubepods/besteffort/pod{STATIC_UID}/{ID}"),
        format!("/kubepods/besteffort/pod{UID}/crio-{ID}"),
        // systemd.
        format!("/kubepods.slice/kubepods-pod{SYSTEMD_UID}.slice/cri-containerd-{ID}.scope"),
        format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SYSTEMD_UID}.slice/cri-containerd-{ID}.scope"
        ),
        format!("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SYSTEMD_UID}.slice/crio-{ID}.scope"),
        // The kubelet on systemd, containerd on cgroupfs.
        format!("/system.slice/containerd.service/kubepods-besteffort-pod{SYSTEMD_UID}.slice:cri-containerd:{ID}"),
        // A kubelet without cgroups of its own for pods, and a kubelet in a cgroup.
        format!("/k8s.io/{ID}"),
        format!(
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{SYSTEMD_UID}.slice/cri-containerd-{ID}.scope"
        ),
        // Below the container: systemd in it, or cgroups that it may write.
        format!("/kubepods/pod{UID}/{ID}/system.slice/cron.service"),
        format!("/kubepods/pod{UID}/{ID}/{OTHER}"),
        format!("/kubepods/pod{UID}/{ID}/kubepods/pod{STATIC_UID}/crio-{OTHER}.scope"),
        // Seen from a cgroup namespace beside it.
        format!("/../../pod{UID}/{ID}"),
    ] {
        assert_eq!(known(&format!("0::{path}\n")), container, "{path}");
        assert_eq!(not_known(&format!("0::{path}\n")), Membership::Unknown(ID.to_owned()), "{path}");
    }
}

#[test]
fn a_process_in_a_pods_cgroup_alone_is_not_the_hosts() {
    for (path, claim) in [
        (format!("/kubepods/burstable/pod{UID}"), UID),
        (format!("/kubepods.slice/kubepods-pod{SYSTEMD_UID}.slice"), UID),
        (format!("/kubepods/pod{STATIC_UID}/oddly-named"), STATIC_UID),
        (format!("/kubepods.slice/kubepods-pod{SYSTEMD_UID}.slice/crio-conmon-{ID}.scope"), UID),
        ("/kubepods/burstable".to_owned(), "kubepods"),
        ("/kubepods.slice".to_owned(), "kubepods.slice"),
        (format!("/kubelet.slice/kubelet-kubepods-pod{SYSTEMD_UID}.slice"), UID),
        ("/kubelet.slice/kubelet-kubepods.slice/x".to_owned(), "kubelet-kubepods.slice"),
    ] {
        assert_eq!(known(&format!("0::{path}\n")), Membership::Unknown(claim.to_owned()), "{path}");
    }
}

#[test]
fn a_process_of_the_host_is_in_no_such_cgroup() {
    for path in [
        "/",
        "/init.scope",
        "/system.slice/containerd.service",
        "/user.slice/user-1000.slice/session-3.scope",
        "/system.slice/podman-prune.service",
        "/system.slice/pod.service",
        "/runtime/4c9184f37cff01bcdc32dc486ec36961",
    ] {
        assert_eq!(known(&format!("0::{path}\n")), Membership::Host, "{path}");
    }
    assert_eq!(known(""), Membership::Host);
}

#[test]
fn all_hierarchies_of_version_1_count() {
    // Some controllers may be left at the root, which says nothing.
    let text = format!("9:name=systemd:/kubepods/pod{UID}/{ID}\n8:pids:/\n4:memory:/kubepods/pod{UID}/{ID}\n0::/\n");
    assert_eq!(known(&text), Membership::Container(ID.to_owned()));
    let text = format!("9:name=systemd:/kubepods/pod{UID}/{ID}\n4:cpu,cpuacct:/kubepods/pod{UID}/{OTHER}\n");
    assert_eq!(known(&text), Membership::Contradictory);
    // What is known counts, though another hierarchy names what is not.
    let text = format!("2:cpu:/docker/{OTHER}\n1:name=systemd:/docker/{ID}\n");
    assert_eq!(of(&text).resolve(|id| (id == ID).then_some(())), Membership::Container(()));
}

#[test]
fn a_node_that_is_a_container_itself_has_its_own_id_above() {
    // kind: the node's own container is not one of its runtime's.
    let text = format!("0::/docker/{OTHER}/kubelet/kubepods/pod{UID}/{ID}\n");
    let own = of(&format!("0::/docker/{OTHER}/system.slice/larder.service\n"));
    assert_eq!(of(&text).resolve_on(&own, |id| (id == ID).then_some(())), Membership::Container(()));
    // larder in a pod.
    let own = of(&format!("0::/kubepods/pod{UID}/{ID}\n"));
    assert_eq!(own.resolve_on(&own, |id| (id == ID).then_some(())), Membership::Container(()));
}

#[test]
fn a_container_that_is_not_known_yet_is_none_of_those_that_it_names_below_itself() {
    let text = format!("0::/kubepods/pod{UID}/{ID}/{OTHER}\n");
    let own = of("0::/system.slice/larder.service\n");
    for found in [
        of(&text).resolve(|id| (id == OTHER).then_some(())),
        of(&text).resolve_on(&own, |id| (id == OTHER).then_some(())),
        of(&text).resolve_within(&own, |id| (id == OTHER).then_some(())),
    ] {
        assert_eq!(found, Membership::Unknown(ID.to_owned()));
    }
}

#[test]
fn a_name_below_systemds_cgroup_of_a_user_is_no_containers() {
    let user = "/user.slice/user-1000.slice/user@1000.service";
    for path in [
        format!("{user}/app.slice/{ID}"),
        format!("{user}/kubepods.slice/kubepods-pod{SYSTEMD_UID}.slice/cri-containerd-{ID}.scope"),
        format!("/../../..{user}/{ID}"),
    ] {
        assert_eq!(known(&format!("0::{path}\n")), Membership::Unknown(ID.to_owned()), "{path}");
    }
    assert_eq!(known(&format!("0::{user}/app.slice/x.scope\n")), Membership::Host);
    let container = Membership::Container(ID.to_owned());
    assert_eq!(known(&format!("0::/kubepods/pod{UID}/{ID}/user@0.service\n")), container);
}

/// What a caller with those cgroups finds who knows `OTHER` alone.
fn seen_from(own: &str, text: &str) -> Membership<String> {
    of(text).resolve_within(&of(own), |id| (id == OTHER).then(|| id.to_owned()))
}

#[test]
fn a_process_of_the_callers_own_container_is_the_hosts() {
    let other = || Membership::Container(OTHER.to_owned());
    for (own, text, expected) in [
        // Version 2, version 1, and both.
        (format!("0::/docker/{ID}\n"), format!("0::/docker/{ID}\n"), Membership::Host),
        (format!("0::/docker/{ID}/larder\n"), format!("0::/docker/{ID}/a/shell\n"), Membership::Host),
        (format!("2:pids:/docker/{ID}\n1:cpu:/\n"), format!("2:pids:/docker/{ID}/x\n1:cpu:/\n"), Membership::Host),
        (format!("2:pids:/docker/{ID}\n0::/\n"), format!("2:pids:/docker/{ID}\n0::/kubepods/x\n"), unknown("kubepods")),
        // A pod with larder in it: the pod's other containers are not the host's.
        (format!("0::/kubepods/pod{UID}/{ID}\n"), format!("0::/kubepods/pod{UID}/{ID}/a\n"), Membership::Host),
        (format!("0::/kubepods/pod{UID}/{ID}\n"), format!("0::/kubepods/pod{UID}/{OTHER}\n"), other()),
        (format!("0::/kubepods/pod{UID}/{ID}\n"), format!("0::/kubepods/pod{UID}\n"), unknown(UID)),
        // A node that is a container, with pods below.
        (format!("0::/docker/{ID}/larder\n"), format!("0::/docker/{ID}/kubepods/pod{UID}/{OTHER}\n"), other()),
        (format!("0::/docker/{ID}/larder\n"), format!("0::/docker/{ID}/kubepods/pod{UID}\n"), unknown(UID)),
        // A cgroup namespace of the caller's own.
        ("0::/\n".to_owned(), "0::/\n".to_owned(), Membership::Host),
        ("0::/\n".to_owned(), "0::/shell\n".to_owned(), Membership::Host),
        ("0::/\n".to_owned(), format!("0::/../{OTHER}\n"), other()),
        ("0::/\n".to_owned(), format!("0::/../../pod{UID}/{OTHER}/a\n"), other()),
        ("0::/\n".to_owned(), format!("0::/../{ID}\n"), unknown(ID)),
        ("0::/\n".to_owned(), format!("0::/../../pod{UID}/x\n"), unknown(UID)),
        ("0::/\n".to_owned(), "0::/../../../system.slice/sshd.service\n".to_owned(), Membership::Host),
        // The caller is the host.
        ("0::/system.slice/larder.service\n".to_owned(), format!("0::/docker/{ID}\n"), unknown(ID)),
        // Not told which one is the caller's.
        (format!("2:a:/{ID}\n1:b:/{OTHER}\n"), format!("0::/{ID}\n"), unknown(ID)),
    ] {
        assert_eq!(seen_from(&own, &text), expected, "{text} from {own}");
    }
}

#[test]
fn no_name_below_the_callers_own_container_counts_if_the_runtime_has_the_container() {
    let own = of(&format!("0::/kubepods/pod{UID}/{ID}\n"));
    let forged = of(&format!("0::/kubepods/pod{UID}/{ID}/kubepods/{OTHER}\n"));
    assert_eq!(forged.resolve_within(&own, |id| Some(id.to_owned())), Membership::Host);
}

fn unknown(claim: &str) -> Membership<String> {
    Membership::Unknown(claim.to_owned())
}

#[test]
fn a_text_of_another_form_is_refused_with_its_line() {
    for (text, line) in [("x", 1), ("0::/a\n\n0::/b", 2), ("0:/a", 1), ("a::/x", 1), ("0::x", 1), (":x:/a", 1)] {
        assert_eq!(text.parse::<Cgroups>(), Err(BadCgroups { line }), "{text:?}");
    }
    let odd = of("1:name=a:/b:c/d\n");
    assert_eq!(odd.hierarchies[0].path, "/b:c/d", "a path may have a colon");
}

proptest! {
    /// Whatever a process in a container names its own cgroups, it stays that container's.
    #[test]
    fn nothing_below_a_containers_cgroup_changes_whose_it_is(below in "[/a-z0-9_:.-]{0,80}", forged in any::<bool>()) {
        let below = if forged { format!("{below}/pod{UID}/crio-{OTHER}.scope") } else { below };
        let text = format!("0::/kubepods/pod{UID}/{ID}/{below}");
        prop_assert_eq!(known(&text), Membership::Container(ID.to_owned()));
        prop_assert!(!matches!(not_known(&text), Membership::Host));
    }

    /// Nor does it become another container's or the host's, for a caller in whatever cgroup that is not the container's.
    #[test]
    fn a_forged_cgroup_is_never_another_containers_nor_the_hosts(
        own in prop_oneof![Just("0::/\n".to_owned()), Just(format!("0::/docker/{OTHER}/a\n")), Just("0::/a.slice\n".to_owned())],
        above in prop_oneof![Just(String::new()), Just("/../..".to_owned()), Just("/kubepods.slice".to_owned()), Just("/k8s.io".to_owned())],
        name in prop_oneof![Just(ID.to_owned()), Just(format!("crio-{ID}.scope")), Just(format!("cri-containerd-{ID}.scope"))],
        below in proptest::collection::vec(
            prop_oneof![
                "[a-z.:_-]{1,12}", Just(OTHER.to_owned()), Just(format!("crio-{OTHER}.scope")), Just("..".to_owned()),
                Just(format!("pod{UID}")), Just("system.slice".to_owned()), Just(format!("crio-conmon-{OTHER}.scope")),
            ],
            0..6,
        ),
        versions in 1_usize..4,
    ) {
        let path = format!("{above}/{name}/{}", below.join("/"));
        let text: Vec<_> = (0..versions).map(|version| format!("{version}:c{version}:{path}\n")).collect();
        let text = text.concat();
        let found = of(&text).resolve_within(&of(&own), |id| [ID, OTHER].contains(&id).then(|| id.to_owned()));
        prop_assert_eq!(found, Membership::Container(ID.to_owned()));
        prop_assert_eq!(of(&text).resolve_within(&of(&own), |_| None::<()>), Membership::Unknown(ID.to_owned()));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(?s).{0,200}") {
        if let Ok(cgroups) = text.parse::<Cgroups>() {
            let _ = cgroups.resolve(|id| Some(id.to_owned()));
        }
    }
}
