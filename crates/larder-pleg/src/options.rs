//! The PLEG's settings.

use std::num::NonZeroUsize;
use std::time::Duration;

/// Settings of a [`Pleg`](crate::Pleg). The defaults are the kubelet's.
///
/// ```
/// use larder_pleg::PlegOptions;
/// use std::time::Duration;
///
/// let options = PlegOptions { relist_period: Duration::from_secs(5), ..PlegOptions::default() };
/// options.validate().unwrap();
/// let never = PlegOptions { relist_period: Duration::ZERO, ..PlegOptions::default() };
/// assert_eq!(never.validate().unwrap_err().field, "relist_period");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlegOptions {
    /// The pause between the end of one relist and the beginning of the next. Default 1 s.
    pub relist_period: Duration,
    /// How long ago the last successful relist may have begun for the PLEG to count as healthy; longer than a period and a
    /// slow relist together. Default 3 min.
    pub relist_threshold: Duration,
    /// How many events are kept for subscribers that have not received them yet; rounded up to a power of two. A
    /// subscriber that is further behind gets a gap. Default 1,024 (the kubelet: 1,000).
    pub event_capacity: NonZeroUsize,
    /// How many pods may wait for a relist of their own. When more do, all are relisted at once. Default 200.
    pub relist_queue: NonZeroUsize,
    /// Whether a newer-than wait on the cache that is not answered at once has its pod relisted at once. Default no: the
    /// wait's owner asks with [`request_relist`](crate::Pleg::request_relist), as in the kubelet, or waits for the next
    /// relist.
    pub relist_on_wait: bool,
    /// How many pods are inspected side by side within a relist. Default 1, one after the other.
    pub inspection_concurrency: NonZeroUsize,
    /// How long the inspection of one pod may take before it counts as failed. Default none: the runtime's own deadlines
    /// hold for each of its calls.
    pub inspection_deadline: Option<Duration>,
    /// Whether a pod's last status stays beside the error when an inspection fails. Default no: the error stands alone, and
    /// the addresses of before are forgotten with the status.
    pub keep_last_status: bool,
}

impl Default for PlegOptions {
    fn default() -> Self {
        const fn count(n: usize) -> NonZeroUsize {
            NonZeroUsize::MIN.saturating_add(n - 1)
        }
        Self {
            relist_period: Duration::from_secs(1),
            relist_threshold: Duration::from_mins(3),
            event_capacity: const { count(1024) },
            relist_queue: const { count(200) },
            relist_on_wait: false,
            inspection_concurrency: const { count(1) },
            inspection_deadline: None,
            keep_last_status: false,
        }
    }
}

impl PlegOptions {
    /// Checks what the types leave open.
    ///
    /// # Errors
    ///
    /// Names the first field whose value cannot work: a duration of zero, a threshold that is not above the period, or
    /// room for more than 2^20 events.
    pub fn validate(&self) -> Result<(), InvalidOption> {
        const MOST_EVENTS: usize = 1 << 20;
        let fail = |field, reason: &str| Err(InvalidOption { field, reason: reason.into() });
        if self.relist_period.is_zero() {
            return fail("relist_period", "must be above zero");
        }
        if self.relist_threshold <= self.relist_period {
            return fail("relist_threshold", "must be above relist_period");
        }
        if self.event_capacity.get() > MOST_EVENTS {
            return fail("event_capacity", "must be at most 1048576");
        }
        if self.inspection_deadline.is_some_and(|deadline| deadline.is_zero()) {
            return fail("inspection_deadline", "must be above zero, or none");
        }
        Ok(())
    }
}

/// A setting that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
#[non_exhaustive]
pub struct InvalidOption {
    /// The field's name.
    pub field: &'static str,
    /// What is wrong with its value.
    pub reason: String,
}
