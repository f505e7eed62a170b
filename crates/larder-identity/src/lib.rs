#![doc(test(attr(deny(warnings))))]
//! Which container of this node a process is in.
//!
//! [`Peer`] is the process at the other end of a Unix socket. A container runtime puts each container into a cgroup of its own, and names it after the container. [`Process`] holds a process by
//! a pidfd and reads its [`Cgroups`], and [`Cgroups::resolve`] finds the container among those that the caller knows.
//!
//! # Guarantees
//!
//! - *The same process*: another process that gets the same PID later is never taken for the first one. The pidfd holds the
//!   process, and it is asked whether the process still lives after `/proc` has been read.
//! - *No false claim*: a process that can write cgroups can make them only below its own. So the cgroup that is nearest to the root
//!   decides, whatever the names below it are (KEP-5474 gives containers writable cgroups), and also before the caller knows that container.
//! - *Root names containers*: a cgroup in one of another user is no container's. systemd gives users of the machine cgroups of their own.
//! - *Not known is not the host*: a process whose cgroup has the form of a container's or pod's is never said to be the host's.
//!
//! # Limits
//!
//! A process under a runtime whose cgroups are not on this kernel (gVisor, Kata) cannot be found. A process in another PID namespace has
//! no PID here. Who owns a cgroup is known where this process sees the cgroup's file system, as on the host. A process in a pod sees its own
//! cgroups alone. There, what is below systemd's cgroups of users (`user@ID.service`) counts for nothing, and other owners are not known.
//!
//! # Example
//!
//! ```
//! use larder_identity::{Cgroups, Membership};
//!
//! let id = "4c9184f37cff01bcdc32dc486ec36961a05b0e4f5f1e1c9f4f0e2a3b5c6d7e8f";
//! let file = format!("0::/kubepods.slice/kubepods-pod7.slice/cri-containerd-{id}.scope\n");
//! let cgroups: Cgroups = file.parse()?;
//! assert_eq!(cgroups.resolve(|known| (known == id).then_some("web")), Membership::Container("web"));
//!
//! let host: Cgroups = "0::/system.slice/sshd.service\n".parse()?;
//! assert_eq!(host.resolve(|_| None::<()>), Membership::Host);
//! # Ok::<(), larder_identity::BadCgroups>(())
//! ```

mod cgroup;
mod owners;
mod peer;
mod process;

pub use cgroup::{BadCgroups, Cgroups, Membership};
pub use peer::{Peer, PeerError, PidSource};
pub use process::{Process, ProcessError};
