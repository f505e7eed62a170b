//! Why a call to the container runtime failed.

use larder_pod_status::PodUid;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A call to the container runtime that failed. Cheap to clone: it is cached beside a pod's status and shared by those
/// who read it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// There is no connection to the runtime.
    #[error("{call}: no connection to the container runtime at {endpoint}: {reason}")]
    Unavailable {
        /// The call that failed.
        call: Arc<RuntimeCall>,
        /// Where the runtime was looked for.
        endpoint: Arc<str>,
        /// What went wrong, and what to do about it where that is known.
        reason: Arc<str>,
    },
    /// The runtime did not answer in time.
    #[error("{call}: no answer from the container runtime within {after:?}; it is overloaded or hangs, see its log")]
    TimedOut {
        /// The call that failed.
        call: Arc<RuntimeCall>,
        /// How long it was waited for.
        after: Duration,
    },
    /// What was asked for is not there (any more).
    #[error("{call}: not found: {reason}")]
    NotFound {
        /// The call that failed.
        call: Arc<RuntimeCall>,
        /// The runtime's words.
        reason: Arc<str>,
    },
    /// What answers is not a container runtime that speaks CRI v1.
    #[error("{call}: {endpoint} does not speak CRI v1: {reason}")]
    NotCri {
        /// The call that failed.
        call: Arc<RuntimeCall>,
        /// Where the runtime was looked for.
        endpoint: Arc<str>,
        /// What it said instead, and what to do about it where that is known.
        reason: Arc<str>,
    },
    /// The runtime does not have this call.
    #[error("{call}: the container runtime does not have this: {reason}")]
    Unsupported {
        /// The call that failed.
        call: Arc<RuntimeCall>,
        /// The runtime's words.
        reason: Arc<str>,
    },
    /// The runtime answered with an error of its own.
    #[error("{call}: the container runtime answered {code}: {reason}")]
    Failed {
        /// The call that failed.
        call: Arc<RuntimeCall>,
        /// The gRPC status code's name, such as `Internal`.
        code: &'static str,
        /// The runtime's words.
        reason: Arc<str>,
    },
    /// The runtime answered with something that the CRI does not allow.
    #[error("{call}: the container runtime's answer cannot be used: {reason}")]
    BadResponse {
        /// The call that failed.
        call: Arc<RuntimeCall>,
        /// What is wrong with the answer.
        reason: Arc<str>,
    },
}

impl RuntimeError {
    /// The call that failed.
    ///
    /// ```
    /// # use larder_pleg::{RuntimeCall, RuntimeError};
    /// let error = RuntimeError::NotFound { call: RuntimeCall::new("ContainerStatus").into(), reason: "gone".into() };
    /// assert_eq!(error.call().name, "ContainerStatus");
    /// ```
    pub fn call(&self) -> &RuntimeCall {
        match self {
            Self::Unavailable { call, .. }
            | Self::TimedOut { call, .. }
            | Self::NotFound { call, .. }
            | Self::NotCri { call, .. }
            | Self::Unsupported { call, .. }
            | Self::Failed { call, .. }
            | Self::BadResponse { call, .. } => call,
        }
    }

    /// Whether there is no connection to the runtime, so that it may well work again once it has been (re)started.
    ///
    /// ```
    /// # use larder_pleg::{RuntimeCall, RuntimeError};
    /// let error = RuntimeError::NotFound { call: RuntimeCall::new("ContainerStatus").into(), reason: "gone".into() };
    /// assert!(!error.is_unavailable());
    /// ```
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Whether the runtime did not answer in time.
    ///
    /// ```
    /// # use larder_pleg::{RuntimeCall, RuntimeError};
    /// let after = std::time::Duration::from_secs(10);
    /// assert!(RuntimeError::TimedOut { call: RuntimeCall::new("ListPodSandbox").into(), after }.is_timeout());
    /// ```
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }

    /// Whether the runtime answered that it has no such pod, sandbox or container.
    ///
    /// ```
    /// # use larder_pleg::{RuntimeCall, RuntimeError};
    /// let error = RuntimeError::NotFound { call: RuntimeCall::new("ContainerStatus").into(), reason: "gone".into() };
    /// assert!(error.is_not_found());
    /// ```
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether the runtime does not have the call at all, so that it is of no use to try again soon.
    ///
    /// ```
    /// # use larder_pleg::{RuntimeCall, RuntimeError};
    /// let call = RuntimeCall::new("GetContainerEvents").into();
    /// assert!(RuntimeError::Unsupported { call, reason: "unknown method".into() }.is_unsupported());
    /// ```
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Unsupported { .. })
    }

    /// A word for the kind of failure, of a fixed set, for metrics.
    ///
    /// ```
    /// # use larder_pleg::{RuntimeCall, RuntimeError};
    /// let error = RuntimeError::NotFound { call: RuntimeCall::new("ContainerStatus").into(), reason: "gone".into() };
    /// assert_eq!(error.kind(), "not_found");
    /// ```
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "unavailable",
            Self::TimedOut { .. } => "timeout",
            Self::NotFound { .. } => "not_found",
            Self::NotCri { .. } => "not_cri",
            Self::Unsupported { .. } => "unsupported",
            Self::Failed { .. } => "failed",
            Self::BadResponse { .. } => "bad_response",
        }
    }
}

/// Which call to the runtime, and of what: `ContainerStatus of 4f5e in pod default/web (uid-1)`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeCall {
    /// The call's name in the CRI.
    pub name: &'static str,
    /// The container or sandbox that it was about, if it was about one.
    pub object: Option<String>,
    /// The pod that it was about, if it was about one.
    pub pod: Option<PodName>,
}

impl RuntimeCall {
    /// A call that is about the runtime as a whole.
    ///
    /// ```
    /// assert_eq!(larder_pleg::RuntimeCall::new("ListPodSandbox").to_string(), "ListPodSandbox");
    /// ```
    pub fn new(name: &'static str) -> Self {
        Self { name, object: None, pod: None }
    }

    /// The same call, about a container or a sandbox.
    ///
    /// ```
    /// # use larder_pleg::RuntimeCall;
    /// assert_eq!(RuntimeCall::new("ContainerStatus").of("4f5e").to_string(), "ContainerStatus of 4f5e");
    /// ```
    #[must_use]
    pub fn of(mut self, object: impl Into<String>) -> Self {
        self.object = Some(object.into());
        self
    }

    /// The same call, about a pod or something in it.
    ///
    /// ```
    /// # use larder_pleg::{PodName, RuntimeCall};
    /// let pod = PodName { uid: "uid-1".into(), namespace: "default".into(), name: "web".into() };
    /// let call = RuntimeCall::new("ContainerStatus").of("4f5e").in_pod(pod);
    /// assert_eq!(call.to_string(), "ContainerStatus of 4f5e in pod default/web (uid-1)");
    /// ```
    #[must_use]
    pub fn in_pod(mut self, pod: PodName) -> Self {
        self.pod = Some(pod);
        self
    }
}

impl fmt::Display for RuntimeCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if let Some(object) = &self.object {
            write!(f, " of {object}")?;
        }
        if let Some(pod) = &self.pod {
            write!(f, " {} {pod}", if self.object.is_some() { "in pod" } else { "of pod" })?;
        }
        Ok(())
    }
}

/// A pod as errors name it: `default/web (uid-1)`, or only its UID where the rest is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodName {
    /// The UID that the runtime knows the pod by.
    pub uid: PodUid,
    /// The pod's namespace; empty if not known.
    pub namespace: String,
    /// The pod's name; empty if not known.
    pub name: String,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            write!(f, "{}", self.uid)
        } else {
            write!(f, "{}/{} ({})", self.namespace, self.name, self.uid)
        }
    }
}
