//! A point in time in nanoseconds, with room for every sum.

use std::fmt;
use std::time::Duration;

/// A point in time: nanoseconds since the epoch of the clock that it came from.
///
/// 128 bits wide, so that no sum of the durations that a trace, an annotation or a configuration can hold wraps.
///
/// ```
/// use larder_clock::Timestamp;
/// use std::time::Duration;
///
/// let t = Timestamp::from_nanos(1_500);
/// assert_eq!(t + Duration::from_nanos(500), Timestamp::from_nanos(2_000));
/// assert!(Timestamp::ZERO < t);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i128);

impl Timestamp {
    /// The epoch of the clock.
    pub const ZERO: Self = Self(0);

    /// A timestamp that many nanoseconds after the epoch; before it, if negative.
    ///
    /// ```
    /// # use larder_clock::Timestamp;
    /// assert!(Timestamp::from_nanos(-1) < Timestamp::ZERO);
    /// ```
    pub const fn from_nanos(nanos: i128) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch; negative before it.
    ///
    /// ```
    /// # use larder_clock::Timestamp;
    /// assert_eq!(Timestamp::from_nanos(7).as_nanos(), 7);
    /// ```
    pub const fn as_nanos(self) -> i128 {
        self.0
    }

    /// This time moved by a number of nanoseconds of either sign; stops at the limits of the type.
    ///
    /// ```
    /// # use larder_clock::Timestamp;
    /// assert_eq!(Timestamp::from_nanos(5).saturating_add_nanos(-7), Timestamp::from_nanos(-2));
    /// ```
    #[must_use]
    pub const fn saturating_add_nanos(self, nanos: i128) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// How long ago `earlier` was, seen from here; zero if it lies ahead, `Duration::MAX` if it is further than that.
    ///
    /// ```
    /// # use larder_clock::Timestamp;
    /// # use std::time::Duration;
    /// let (a, b) = (Timestamp::from_nanos(1), Timestamp::from_nanos(4));
    /// assert_eq!(b.saturating_duration_since(a), Duration::from_nanos(3));
    /// assert_eq!(a.saturating_duration_since(b), Duration::ZERO);
    /// ```
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        const NANOS_PER_SEC: u128 = 1_000_000_000;
        let Ok(nanos) = u128::try_from(self.0.saturating_sub(earlier.0)) else {
            return Duration::ZERO;
        };
        let subsecond = u32::try_from(nanos % NANOS_PER_SEC).unwrap_or_default();
        u64::try_from(nanos / NANOS_PER_SEC).map_or(Duration::MAX, |secs| Duration::new(secs, subsecond))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        // A `Duration` is below 2^64 seconds, and so below 2^94 nanoseconds: the conversion cannot fail.
        self.saturating_add_nanos(i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ns", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_beyond_64_bits_do_not_wrap() {
        let far = Timestamp::from_nanos(i64::MAX.into()).saturating_add_nanos(i64::MAX.into());
        assert!(far > Timestamp::from_nanos(i64::MAX.into()));
        assert_eq!(far.saturating_duration_since(Timestamp::ZERO).as_nanos(), 2 * u128::from(i64::MAX.unsigned_abs()));
    }

    #[test]
    fn differences_saturate_at_both_ends() {
        let (first, last) = (Timestamp::from_nanos(i128::MIN), Timestamp::from_nanos(i128::MAX));
        assert_eq!(first.saturating_duration_since(last), Duration::ZERO);
        assert_eq!(last.saturating_duration_since(first), Duration::MAX);
    }
}
