//! A full node in a simulated runtime.

use larder_testkit::cri_runtime::{Call, Containers, CriServer, SandboxSpec};
use std::time::Duration;

/// How many pods it has, of two containers each.
pub(crate) const PODS: usize = 250;

/// The UID of one of them.
pub(crate) fn uid(n: usize) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

/// Pods whose containers run; the containers' identifiers, those of a pod beside each other.
pub(crate) fn full() -> (Containers, Vec<String>) {
    let containers = Containers::new();
    let mut ids = Vec::new();
    for n in 0..PODS {
        let sandbox = containers.run_sandbox(&SandboxSpec::new("ns", &format!("web-{n}"), &uid(n)));
        for name in ["app", "sidecar"] {
            let id = containers.create_container(&sandbox, name, "registry.example/shop/app:1.2.3").expect("created");
            containers.start_container(&id).expect("started");
            ids.push(id);
        }
    }
    (containers, ids)
}

/// Has the runtime take as long as a containerd with that many pods.
pub(crate) fn set_latencies(server: &CriServer) {
    let ms = Duration::from_millis;
    server.set_latency(Call::ListPodSandbox, ms(5)..=ms(15));
    server.set_latency(Call::ListContainers, ms(8)..=ms(25));
    server.set_latency(Call::PodSandboxStatus, ms(2)..=ms(10));
    server.set_latency(Call::ContainerStatus, ms(2)..=ms(20));
}
