//! What happens in a simulated cluster, to be told or waited for.

use std::fmt;
use std::time::Duration;

/// Something that the simulated kubelet did or saw.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Happening {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// What it was.
    pub what: What,
}

/// What happened to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// Its sandbox is ready.
    SandboxReady,
    /// A container was started.
    Started {
        /// Its name.
        container: String,
        /// How often one of its name was started in the pod before.
        restarts: u32,
    },
    /// A container ended.
    Exited {
        /// Its name.
        container: String,
        /// Its exit code.
        code: i32,
        /// When it is started again; `None` if it is not.
        restart_in: Option<Duration>,
    },
    /// All its containers have ended for good, each with exit code 0.
    Succeeded,
    /// All its containers have ended for good, one of them with another exit code.
    Failed,
    /// It is gone from the runtime.
    Removed,
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, pod, what } = self;
        write!(f, "pod {namespace}/{pod}: ")?;
        match what {
            What::SandboxReady => f.write_str("sandbox ready"),
            What::Started { container, restarts: 0 } => write!(f, "container {container} started"),
            What::Started { container, restarts } => {
                write!(f, "container {container} restarted (restarts: {restarts})")
            }
            What::Exited { container, code, restart_in: None } => {
                write!(f, "container {container} exited with code {code}")
            }
            What::Exited { container, code, restart_in: Some(after) } => {
                write!(f, "container {container} exited with code {code}, restarts in {:.1} s", after.as_secs_f64())
            }
            What::Succeeded => f.write_str("completed"),
            What::Failed => f.write_str("failed"),
            What::Removed => f.write_str("removed"),
        }
    }
}
