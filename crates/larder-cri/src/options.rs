//! The client's settings.

use crate::error::CriError;
use std::time::Duration;

/// Settings of a [`CriRuntime`](crate::CriRuntime).
///
/// Each call has a deadline of its own, so that a runtime that hangs ends a relist with an error rather than never. The
/// kubelet gives every call two minutes; larder is asked by readers who want to know sooner.
///
/// ```
/// use larder_cri::CriOptions;
/// use std::time::Duration;
///
/// let mut options = CriOptions::default();
/// options.list_timeout = Duration::from_secs(120);
/// options.validate().unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CriOptions {
    /// How long making a connection may take. Default 5 s.
    pub connect_timeout: Duration,
    /// How long a list of sandboxes or of containers may take, a new connection included. Default 30 s.
    pub list_timeout: Duration,
    /// How long the status of one sandbox or container, or the runtime's version, may take, a new connection included.
    /// Default 10 s.
    pub status_timeout: Duration,
    /// The largest message that is taken, in bytes. Default 16 MiB, as the kubelet. A list of all pods is one message, unless
    /// the runtime streams its lists (containerd from 2.4).
    pub max_message_bytes: usize,
}

impl Default for CriOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            list_timeout: Duration::from_secs(30),
            status_timeout: Duration::from_secs(10),
            max_message_bytes: 16 << 20,
        }
    }
}

impl CriOptions {
    /// Checks what the types leave open.
    ///
    /// # Errors
    ///
    /// [`CriError::InvalidOption`] names the first field whose value cannot work: a timeout of zero, or a size of zero or
    /// above 1 GiB.
    ///
    /// ```
    /// # use larder_cri::CriOptions;
    /// let mut options = CriOptions::default();
    /// options.max_message_bytes = 0;
    /// assert!(options.validate().unwrap_err().to_string().starts_with("max_message_bytes: "));
    /// ```
    pub fn validate(&self) -> Result<(), CriError> {
        let timeouts = [
            ("connect_timeout", self.connect_timeout),
            ("list_timeout", self.list_timeout),
            ("status_timeout", self.status_timeout),
        ];
        for (field, timeout) in timeouts {
            if timeout.is_zero() {
                return Err(CriError::InvalidOption { field, reason: "must be above zero".into() });
            }
        }
        if !(1..=1 << 30).contains(&self.max_message_bytes) {
            let reason = "must be between 1 and 1073741824".into();
            return Err(CriError::InvalidOption { field: "max_message_bytes", reason });
        }
        Ok(())
    }
}
