//! The TTL rule: where the TTL comes from, and what it makes of an object.
//!
//! - *Where from*: the node's annotation, read as Go reads it, wrap-around included ([`ObjectTtl::from_annotation`],
//!   [`NodeTtl`]); where there is none, the default ([`StoreTtl`]). A store asks for it at every read.
//! - *What it makes of an object*: until when an object is fresh after it was confirmed ([`ObjectTtl::expiry`]), whether it
//!   is fresh now, since when it is stale, and what an answer says of that. The TTL store and the adaptive store ask here.
//! - *What else goes by the TTL*: the adaptive store watches an object that is asked for again within four TTLs, and backs a
//!   watch that has been silent for a TTL, and at least 10 s, by a read. An object that says it is immutable is fresh for ever.

use crate::sync::{AtomicI64, Ordering};
use larder_clock::Timestamp;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

/// The node annotation that sets the TTL of Secrets and ConfigMaps, in seconds. The control plane raises it with the
/// size of the cluster.
///
/// ```
/// assert_eq!(larder_objects::TTL_ANNOTATION, "node.alpha.kubernetes.io/ttl");
/// ```
pub const TTL_ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// What is stored for 'no TTL is set'. No annotation's TTL has this value: each is a multiple of 10^9 modulo 2^64, and
/// so of 512.
const UNSET: i64 = 1;

/// For how long an object is fresh after it was confirmed.
///
/// It is what the kubelet keeps: nanoseconds in a signed 64-bit integer. A TTL that is 0 or negative means that nothing is ever
/// fresh; an annotation may say that, and a [`Duration`] cannot.
///
/// ```
/// use larder_objects::ObjectTtl;
/// use std::time::Duration;
///
/// let ttl = ObjectTtl::from(Duration::from_secs(60));
/// assert_eq!(ObjectTtl::from_annotation("60"), Some(ttl));
/// assert_eq!(ttl.duration(), Duration::from_secs(60));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectTtl {
    nanos: i64,
}

impl ObjectTtl {
    /// No answer that is called fresh is older than this or the TTL, whichever is longer.
    pub(crate) const LEAST_BOUND: Self = Self::from_nanos(10_000_000_000);

    /// The TTL of an annotation's value in seconds, or `None` if the value is not an integer.
    ///
    /// Reads what Go's `strconv.Atoi` does: an optional sign and decimal digits, within 64 bits. Seconds beyond what 64 bits of
    /// nanoseconds hold wrap, as the kubelet's do.
    ///
    /// ```
    /// use larder_objects::ObjectTtl;
    ///
    /// assert_eq!(ObjectTtl::from_annotation("+5"), Some(ObjectTtl::from_nanos(5_000_000_000)));
    /// assert_eq!(ObjectTtl::from_annotation("-1"), Some(ObjectTtl::from_nanos(-1_000_000_000)));
    /// assert_eq!(ObjectTtl::from_annotation("5m"), None);
    /// ```
    pub fn from_annotation(value: &str) -> Option<Self> {
        // `i64::from_str` takes exactly what `Atoi` takes: one optional sign, ASCII digits, nothing around them.
        let seconds = value.parse::<i64>().ok()?;
        Some(Self { nanos: seconds.wrapping_mul(NANOS_PER_SECOND) })
    }

    /// A TTL in nanoseconds, which may be 0 or negative.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    /// The TTL in nanoseconds, which may be 0 or negative.
    pub const fn as_nanos(self) -> i64 {
        self.nanos
    }

    /// The TTL, at least 0.
    pub const fn duration(self) -> Duration {
        match self.fresh_for() {
            Some(nanos) => Duration::from_nanos(nanos.get()),
            None => Duration::ZERO,
        }
    }

    /// How many nanoseconds an answer stays fresh; `None` for a TTL of 0 or less, with which every read asks.
    #[inline]
    pub(crate) const fn fresh_for(self) -> Option<NonZeroU64> {
        if self.nanos > 0 { NonZeroU64::new(self.nanos.unsigned_abs()) } else { None }
    }

    /// For how long a watch may be silent, where objects are polled by this TTL.
    pub(crate) fn silence_bound(self) -> Self {
        self.max(Self::LEAST_BOUND)
    }

    /// An object that is polled again within this time is watched instead: four TTLs, and at least 40 s.
    pub(crate) fn watch_window(self) -> Self {
        Self { nanos: self.silence_bound().nanos.saturating_mul(4) }
    }

    /// The first moment at which an object that was confirmed then is not fresh any more.
    ///
    /// ```
    /// use larder_clock::Timestamp;
    /// use larder_objects::ObjectTtl;
    ///
    /// assert_eq!(ObjectTtl::from_nanos(5).expiry(Timestamp::ZERO), Timestamp::from_nanos(5));
    /// ```
    #[inline]
    pub fn expiry(self, confirmed: Timestamp) -> Timestamp {
        confirmed.saturating_add_nanos(self.nanos.into())
    }

    /// Whether an object that was confirmed then is fresh now: before its [expiry](Self::expiry), strictly.
    #[inline]
    pub(crate) fn is_fresh(self, confirmed: Timestamp, now: Timestamp) -> bool {
        now < self.expiry(confirmed)
    }

    /// Since when an object that was confirmed then is stale, once it is: not from before it was confirmed, whatever a
    /// negative TTL says.
    pub(crate) fn stale_since(self, confirmed: Timestamp) -> Timestamp {
        self.expiry(confirmed).max(confirmed)
    }
}

impl From<Duration> for ObjectTtl {
    /// At most 292 years, which is what 64 bits hold.
    fn from(ttl: Duration) -> Self {
        Self { nanos: ttl.as_nanos().try_into().unwrap_or(i64::MAX) }
    }
}

/// Where a store takes the TTL from, at every read.
///
/// It is asked while the store holds a lock, so it must answer at once and not call the store.
///
/// ```
/// use larder_objects::{ObjectTtl, Ttl};
/// use std::time::Duration;
///
/// struct Fixed(Duration);
/// impl Ttl for Fixed {
///     fn object_ttl(&self) -> Option<ObjectTtl> {
///         Some(self.0.into())
///     }
/// }
/// assert_eq!(Fixed(Duration::from_secs(5)).object_ttl(), ObjectTtl::from_annotation("5"));
/// ```
pub trait Ttl: Send + Sync + 'static {
    /// The TTL; `None` means the store's default.
    fn object_ttl(&self) -> Option<ObjectTtl>;
}

impl<T: Ttl + ?Sized> Ttl for Arc<T> {
    fn object_ttl(&self) -> Option<ObjectTtl> {
        (**self).object_ttl()
    }
}

/// Always the store's default TTL.
///
/// ```
/// use larder_objects::{DefaultTtl, Ttl};
/// assert_eq!(DefaultTtl.object_ttl(), None);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultTtl;

impl Ttl for DefaultTtl {
    fn object_ttl(&self) -> Option<ObjectTtl> {
        None
    }
}

/// The TTL that the node's annotation sets; whoever follows the node keeps it current.
///
/// Share it in an [`Arc`] between that task and the stores.
///
/// ```
/// use larder_objects::{NodeTtl, ObjectTtl, Ttl};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let ttl = Arc::new(NodeTtl::new());
/// assert_eq!(ttl.object_ttl(), None);
/// ttl.set_annotation(Some("15"));
/// assert_eq!(ttl.object_ttl(), Some(ObjectTtl::from(Duration::from_secs(15))));
/// // No annotation, one that is not an integer, or no node at all: the default.
/// ttl.set_annotation(Some("soon"));
/// assert_eq!(ttl.object_ttl(), None);
/// ```
pub struct NodeTtl {
    nanos: AtomicI64,
}

impl NodeTtl {
    /// No TTL is set.
    pub fn new() -> Self {
        Self { nanos: AtomicI64::new(UNSET) }
    }

    /// Sets the TTL from the value of the node's [`TTL_ANNOTATION`]; `None` where the annotation is absent or the node is
    /// not known.
    pub fn set_annotation(&self, value: Option<&str>) {
        // The number stands for itself: no other memory is published with it.
        let ttl = value.and_then(ObjectTtl::from_annotation);
        self.nanos.store(ttl.map_or(UNSET, ObjectTtl::as_nanos), Ordering::Relaxed);
    }
}

impl Default for NodeTtl {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for NodeTtl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeTtl").field(&self.object_ttl()).finish()
    }
}

impl Ttl for NodeTtl {
    fn object_ttl(&self) -> Option<ObjectTtl> {
        match self.nanos.load(Ordering::Relaxed) {
            UNSET => None,
            nanos => Some(ObjectTtl::from_nanos(nanos)),
        }
    }
}

/// The TTL that a store goes by: one that may be set, or else a default. The kubelet's default is a minute.
///
/// ```
/// use larder_objects::{NodeTtl, StoreTtl};
/// use std::time::Duration;
///
/// let ttl = StoreTtl::new(NodeTtl::new(), Duration::from_mins(1));
/// assert_eq!(ttl.now().duration(), Duration::from_mins(1));
/// ```
#[derive(Clone, Debug)]
pub struct StoreTtl<T> {
    ttl: T,
    /// Counts where `ttl` has none.
    pub(crate) default: ObjectTtl,
}

impl<T: Ttl> StoreTtl<T> {
    /// The TTL of `ttl`, or `default`, a [`Duration`] or an [`ObjectTtl`], where that has none.
    pub fn new(ttl: T, default: impl Into<ObjectTtl>) -> Self {
        Self { ttl, default: default.into() }
    }

    /// The TTL as it is now.
    #[inline]
    pub fn now(&self) -> ObjectTtl {
        self.ttl.object_ttl().unwrap_or(self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_read_as_go_reads_them() {
        let table = [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("+0", Some(0)),
            ("60", Some(60_000_000_000)),
            ("+5", Some(5_000_000_000)),
            ("-1", Some(-1_000_000_000)),
            ("007", Some(7_000_000_000)),
            ("9223372036", Some(9_223_372_036_000_000_000)),
            // One second more than 64 bits of nanoseconds hold.
            ("9223372037", Some(-9_223_372_036_709_551_616)),
            ("9223372036854775807", Some(-1_000_000_000)),
            ("-9223372036854775808", Some(0)),
            // 2^54 seconds wrap to the lowest number there is.
            ("18014398509481984", Some(i64::MIN)),
            ("00000000000000000000000000000000000001", Some(1_000_000_000)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999999", None),
            ("", None),
            ("+", None),
            ("-", None),
            ("++1", None),
            ("+-1", None),
            (" 5", None),
            ("5 ", None),
            ("5s", None),
            ("1_000", None),
            ("0x10", None),
            ("1e3", None),
            ("1.5", None),
            ("٣", None),
            ("bad", None),
        ];
        for (value, ttl) in table {
            let ttl = ttl.map(ObjectTtl::from_nanos);
            assert_eq!(ObjectTtl::from_annotation(value), ttl, "{value:?}");
            let node = NodeTtl::new();
            node.set_annotation(Some(value));
            assert_eq!(node.object_ttl(), ttl, "{value:?} at the node");
            node.set_annotation(None);
            assert_eq!(node.object_ttl(), None);
        }
    }

    #[test]
    fn the_default_is_no_ttl() {
        assert_eq!((DefaultTtl.object_ttl(), Arc::new(NodeTtl::default()).object_ttl()), (None, None));
        let node = NodeTtl::new();
        node.set_annotation(Some("2"));
        assert_eq!(format!("{node:?}"), "NodeTtl(Some(ObjectTtl { nanos: 2000000000 }))");
        assert_eq!(Arc::new(node).object_ttl(), Some(Duration::from_secs(2).into()));
    }

    #[test]
    fn a_ttl_is_a_duration_within_what_64_bits_hold() {
        let table = [
            (Duration::ZERO, 0),
            (Duration::from_mins(1), 60_000_000_000),
            (Duration::from_nanos(u64::MAX / 2), i64::MAX),
            (Duration::from_nanos(u64::MAX / 2 + 1), i64::MAX),
            (Duration::MAX, i64::MAX),
        ];
        for (duration, nanos) in table {
            let ttl = ObjectTtl::from(duration);
            assert_eq!(ttl.as_nanos(), nanos);
            assert_eq!(ttl.duration(), duration.min(Duration::from_nanos(u64::MAX / 2)));
        }
        assert_eq!(ObjectTtl::from_nanos(-1).duration(), Duration::ZERO);
        let fresh_for = [(-1, None), (0, None), (1, Some(1)), (i64::MAX, Some(u64::MAX / 2))];
        for (nanos, time) in fresh_for {
            assert_eq!(ObjectTtl::from_nanos(nanos).fresh_for().map(NonZeroU64::get), time);
        }
        assert_eq!(
            [20_000_000_000, i64::MAX, -1].map(|nanos| ObjectTtl::from_nanos(nanos).watch_window().as_nanos()),
            [80_000_000_000, i64::MAX, 40_000_000_000]
        );
    }

    #[test]
    fn an_object_expires_a_ttl_after_it_was_confirmed() {
        let at = Timestamp::from_nanos(100);
        for (nanos, expiry) in [(60, 160), (0, 100), (-60, 40), (i64::MIN, 100 - (1 << 63))] {
            let (ttl, expiry) = (ObjectTtl::from_nanos(nanos), Timestamp::from_nanos(expiry));
            assert_eq!((ttl.expiry(at), ttl.stale_since(at)), (expiry, expiry.max(at)));
            assert!(ttl.is_fresh(at, expiry.saturating_add_nanos(-1)) && !ttl.is_fresh(at, expiry));
        }
    }

    #[test]
    fn no_annotation_has_the_value_that_means_unset() {
        for seconds in [1, -1, 2, 1 << 54, (1 << 54) + 1, i64::MAX, i64::MIN, 9_223_372_037] {
            assert_eq!(
                ObjectTtl::from_annotation(&seconds.to_string()).map(|ttl| ttl.as_nanos() % 512),
                Some(0),
                "{seconds}"
            );
        }
        assert_ne!(UNSET % 512, 0);
    }
}
