//! The settings of the PLEG.

use larder_clock::Jitter;
use std::num::NonZeroUsize;
use std::time::Duration;

/// Settings of a [`Pleg`](crate::Pleg). The defaults are the kubelet's.
///
/// ```
/// use larder_pleg::PlegOptions;
/// use std::time::Duration;
///
/// let mut options = PlegOptions::default();
/// options.relist_period = Duration::from_secs(5);
/// options.validate().unwrap();
/// options.relist_period = Duration::ZERO;
/// assert_eq!(options.validate().unwrap_err().field, "relist_period");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// How many pods are inspected side by side within a relist, at most 65,536. Default 1, one after the other.
    pub inspection_concurrency: NonZeroUsize,
    /// How long the inspection of one pod may take before it counts as failed. Default none: the runtime's own deadlines
    /// hold for each of its calls.
    pub inspection_deadline: Option<Duration>,
    /// Whether a pod's last status stays beside the error when an inspection fails. Default no: the error stands alone, and
    /// the addresses of before are forgotten with the status.
    pub keep_last_status: bool,
    /// Whether the inspection of a pod that differs from before asks the runtime only for what can have changed; see
    /// [`Runtime::pod_status`](crate::Runtime::pod_status). With [`independent_pods`](Self::independent_pods) the container of
    /// an event is asked for at once; see the [crate's documentation](crate#events-of-the-runtime).
    /// Default no: everything is asked for.
    pub keep_unchanged: bool,
    /// Whether [`run`](crate::Pleg::run) brings each pod up to date on its own, so that one whose inspection hangs or fails
    /// holds back its own waits only: inspections go on beside listings, and a listing confirms at once every pod that it
    /// shows unchanged. Default no: as in the kubelet, a relist ends with its last inspection. The fields below count only
    /// where this is yes. See the [crate's documentation](crate#independent-pods).
    pub independent_pods: bool,
    /// How long an inspection holds one of the [`inspection_concurrency`](Self::inspection_concurrency) places. One that
    /// takes longer goes on, but another may begin beside it. Default 1 s.
    pub inspection_patience: Duration,
    /// The pause before a pod whose inspection failed is inspected again, if its listing shows nothing new; doubled with
    /// each failure in a row. Default 1 s.
    pub inspection_backoff_initial: Duration,
    /// The longest of those pauses. Default 10 s.
    pub inspection_backoff_max: Duration,
    /// The shortest pause between a relist of all pods that was asked for and the one before. Default 100 ms: whatever the
    /// runtime's events ask for, the lists of all pods stay few.
    pub relist_pause: Duration,
    /// The pause before the runtime's event stream is opened again after it was lost; doubled with each loss in a row, and
    /// shortened at random by up to a half. Default 100 ms.
    pub reconnect_initial: Duration,
    /// The longest of those pauses. Default 10 s.
    pub reconnect_max: Duration,
    /// Where those pauses take their random part from. Default random; a simulation passes a source with a seed.
    pub jitter: Jitter,
    /// How long after a runtime was found to have no events its stream is tried again, if the runtime has not been replaced
    /// before. Default 10 min.
    pub unsupported_retry: Duration,
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
            keep_unchanged: false,
            independent_pods: false,
            inspection_patience: Duration::from_secs(1),
            inspection_backoff_initial: Duration::from_secs(1),
            inspection_backoff_max: Duration::from_secs(10),
            relist_pause: Duration::from_millis(100),
            reconnect_initial: Duration::from_millis(100),
            reconnect_max: Duration::from_secs(10),
            jitter: Jitter::default(),
            unsupported_retry: Duration::from_mins(10),
        }
    }
}

impl PlegOptions {
    /// Checks what the types leave open.
    ///
    /// # Errors
    ///
    /// Names the first field whose value cannot work: a duration of zero, a threshold that is not above the period, the
    /// longest of a kind of pause below the first, or room for more than 2^20 events.
    pub fn validate(&self) -> Result<(), InvalidOption> {
        const MOST_EVENTS: usize = 1 << 20;
        const MOST_INSPECTIONS: usize = 1 << 16;
        let refuse = |field, reason: &str, other| Err(InvalidOption { field, reason: reason.into(), other });
        let fail = |field, reason: &str| refuse(field, reason, None);
        if self.inspection_concurrency.get() > MOST_INSPECTIONS {
            return fail("inspection_concurrency", &format!("must be at most {MOST_INSPECTIONS}"));
        }
        if self.relist_period.is_zero() {
            return fail("relist_period", "must be above zero");
        }
        if self.relist_threshold <= self.relist_period {
            return refuse("relist_threshold", "must be above", Some("relist_period"));
        }
        if self.event_capacity.get() > MOST_EVENTS {
            return fail("event_capacity", "must be at most 1048576");
        }
        if self.inspection_deadline.is_some_and(|deadline| deadline.is_zero()) {
            return fail("inspection_deadline", "must be above zero, or none");
        }
        for (field, duration) in [
            ("inspection_backoff_initial", self.inspection_backoff_initial),
            ("reconnect_initial", self.reconnect_initial),
            ("unsupported_retry", self.unsupported_retry),
        ] {
            if duration.is_zero() {
                return fail(field, "must be above zero");
            }
        }
        if self.inspection_backoff_max < self.inspection_backoff_initial {
            return refuse("inspection_backoff_max", "must not be below", Some("inspection_backoff_initial"));
        }
        if self.reconnect_max < self.reconnect_initial {
            return refuse("reconnect_max", "must not be below", Some("reconnect_initial"));
        }
        Ok(())
    }
}

/// A setting that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}{}", other.map(|other| format!(" {other}")).unwrap_or_default())]
#[non_exhaustive]
pub struct InvalidOption {
    /// The field's name.
    pub field: &'static str,
    /// What is wrong with its value.
    pub reason: String,
    /// The field that it does not go with, after `reason`: "must be above".
    pub other: Option<&'static str>,
}
