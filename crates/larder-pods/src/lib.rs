#![doc(test(attr(deny(warnings))))]
//! A pod as its node knows it: the API server's pod, with the status of its containers brought up to date from the container runtime.
//!
//! The kubelet writes the status of a pod to the API server some time after it has learned the status from the runtime. While the API
//! server does not answer, it never does. [`bring_up_to_date`] does the kubelet's work for whoever reads the pod on the node.
//! [`static_pod`] makes a pod that the API server does not have.
//!
//! # The rule
//!
//! larder decides for each container whether the runtime is newer than the API server's status of this container:
//!
//! | the API status names | the runtime has | newer |
//! | --- | --- | --- |
//! | a container's ID | that container as its newest life, further on: created, then running, then ended | the runtime |
//! | a container's ID | that container as its newest life, as far or less far | the API server |
//! | a container's ID | a newer life: created later, or with more restarts | the runtime |
//! | a running container's ID | no such container, as of a whole second after its start or later | the runtime: the container is gone |
//! | a running container's ID | no such container, as of an earlier time | the API server, [for now](Brought::is_undecided) |
//! | a container that has ended | no such container: runtimes remove them | the API server |
//! | no ID | a container | the runtime |
//! | nothing, or no ID | no container | the API server |
//!
//! Nothing else counts: neither which of the two answered last, nor whether one of them is out of reach. An API status that says that a
//! container waits after it has ended (`CrashLoopBackOff`) knows of the end.
//!
//! If the runtime is newer about a container, then `state`, `lastState`, `ready`, `started`, `restartCount`, `containerID`, `image` and
//! `imageID` of this container's status are as the kubelet makes them of the runtime's status. So are the pod's phase, and its conditions
//! `Initialized`, `ContainersReady` and `Ready`. `podIP` and `podIPs` come from the runtime if the API server has none.
//!
//! # Guarantees
//!
//! - *Never a false Ready*: no container is ready that has ended or is gone for the runtime, and no pod with such a container is. A new
//!   life of a container is ready if it has neither a startup probe nor a readiness probe. With a probe, it is not ready before the API
//!   server says so.
//! - *Faithful*: what the runtime says nothing newer about stays byte for byte, in its order, with fields that larder does not know.
//! - *Repeatable*: the same pod and the same status of the runtime give the same bytes, however often the runtime was listed.
//!
//! # Limits
//!
//! The runtime does not know why a container waits (`ImagePullBackOff`), what it left in its termination message file, or what its probes say. It does not
//! know evictions and deadlines either. All of this comes with the API server's status.
//!
//! # Differs from the kubelet
//!
//! `lastTransitionTime` of a condition is the time at which the container started or ended, and not set if no such time is known. The
//! kubelet writes the time at which it noticed. `resources`, `user` and `volumeMounts` of a container's status stay the API server's.
//!
//! # Example
//!
//! ```
//! use larder_pleg::{ContainerId, ContainerState, ContainerStatus, PodStatus};
//! use larder_pods::{Seen, bring_up_to_date};
//!
//! let pod = br#"{"metadata":{"name":"web","uid":"u1"},"spec":{"containers":[{"name":"app"}],"restartPolicy":"Never"},"status":{
//!     "phase":"Running","conditions":[{"type":"Ready","status":"True"}],"containerStatuses":[{"name":"app","ready":true,
//!     "containerID":"containerd://4f5e","state":{"running":{"startedAt":"2026-01-02T03:04:05Z"}}}]}}"#;
//! let mut status = PodStatus::new("u1".into(), "", "web");
//! status.containers.push(ContainerStatus {
//!     id: ContainerId::new("containerd", "4f5e"),
//!     name: "app".into(),
//!     state: ContainerState::Exited,
//!     exit_code: 3,
//!     ..ContainerStatus::default()
//! });
//! let brought = bring_up_to_date(pod, &Seen { status: Some(&status), as_of: 0 })?;
//! let pod: serde_json::Value = serde_json::from_slice(&brought.json.unwrap()).unwrap();
//! assert_eq!(pod["status"]["phase"], "Failed");
//! assert_eq!(pod["status"]["conditions"][0]["status"], "False");
//! assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
//! # Ok::<(), larder_resource::DecodeError>(())
//! ```

mod conditions;
mod container;
mod newness;
mod phase;
mod pod;
mod static_pod;
mod version;
mod wire;
mod write;

pub use pod::{Brought, Seen, bring_up_to_date};
pub use static_pod::static_pod;
pub use version::with_resource_version;
