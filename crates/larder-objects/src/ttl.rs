//! How long an object is fresh, as the node's annotation says.

use crate::sync::{AtomicI64, Ordering};
use std::fmt;
use std::sync::Arc;

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

/// The TTL of an annotation's value in nanoseconds, or `None` if the value is not an integer.
///
/// Reads what Go's `strconv.Atoi` does: an optional sign and decimal digits, within 64 bits. Seconds beyond what 64 bits of
/// nanoseconds hold wrap, as the kubelet's do; a negative TTL, like 0, means that nothing is ever fresh.
///
/// ```
/// use larder_objects::ttl_from_annotation;
///
/// assert_eq!(ttl_from_annotation("60"), Some(60_000_000_000));
/// assert_eq!(ttl_from_annotation("+5"), Some(5_000_000_000));
/// assert_eq!(ttl_from_annotation("5m"), None);
/// ```
pub fn ttl_from_annotation(value: &str) -> Option<i64> {
    // `i64::from_str` takes exactly what `Atoi` takes: one optional sign, ASCII digits, nothing around them.
    value.parse::<i64>().ok().map(|seconds| seconds.wrapping_mul(NANOS_PER_SECOND))
}

/// Where a store takes the TTL from, at every read.
///
/// It is asked while the store holds a lock, so it must answer at once and not call the store.
///
/// ```
/// use larder_objects::Ttl;
///
/// struct Fixed(i64);
/// impl Ttl for Fixed {
///     fn object_ttl(&self) -> Option<i64> {
///         Some(self.0)
///     }
/// }
/// assert_eq!(Fixed(300_000_000_000).object_ttl(), Some(300_000_000_000));
/// ```
pub trait Ttl: Send + Sync + 'static {
    /// The TTL in nanoseconds, which may be 0 or negative; `None` means the store's default.
    fn object_ttl(&self) -> Option<i64>;
}

impl<T: Ttl + ?Sized> Ttl for Arc<T> {
    fn object_ttl(&self) -> Option<i64> {
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
    fn object_ttl(&self) -> Option<i64> {
        None
    }
}

/// The TTL that the node's annotation sets; whoever follows the node keeps it current.
///
/// Share it in an [`Arc`] between that task and the stores.
///
/// ```
/// use larder_objects::{NodeTtl, Ttl};
/// use std::sync::Arc;
///
/// let ttl = Arc::new(NodeTtl::new());
/// assert_eq!(ttl.object_ttl(), None);
/// ttl.set_annotation(Some("15"));
/// assert_eq!(ttl.object_ttl(), Some(15_000_000_000));
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
        self.nanos.store(value.and_then(ttl_from_annotation).unwrap_or(UNSET), Ordering::Relaxed);
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
    fn object_ttl(&self) -> Option<i64> {
        match self.nanos.load(Ordering::Relaxed) {
            UNSET => None,
            nanos => Some(nanos),
        }
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
            assert_eq!(ttl_from_annotation(value), ttl, "{value:?}");
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
        assert_eq!(format!("{node:?}"), "NodeTtl(Some(2000000000))");
        assert_eq!(Arc::new(node).object_ttl(), Some(2_000_000_000));
    }

    #[test]
    fn no_annotation_has_the_value_that_means_unset() {
        for seconds in [1, -1, 2, 1 << 54, (1 << 54) + 1, i64::MAX, i64::MIN, 9_223_372_037] {
            assert_eq!(ttl_from_annotation(&seconds.to_string()).map(|ttl| ttl % 512), Some(0), "{seconds}");
        }
        assert_ne!(UNSET % 512, 0);
    }
}
