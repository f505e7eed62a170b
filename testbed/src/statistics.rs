//! What is said of many durations.

use std::time::Duration;

/// A percentile of sorted durations: one of them that so many percent do not exceed, the longest for 100; none is no time.
///
/// ```
/// use larder_testbed::statistics::percentile;
/// use std::time::Duration;
///
/// let sorted = [1, 2, 3, 10].map(Duration::from_millis);
/// assert_eq!(percentile(&sorted, 50), Duration::from_millis(2));
/// ```
pub fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_that_so_many_do_not_exceed() {
        let check = |count: u64, percent, expected| {
            let sorted: Vec<_> = (1..=count).map(Duration::from_millis).collect();
            assert_eq!(percentile(&sorted, percent), Duration::from_millis(expected), "{percent} % of {count}");
        };
        check(0, 50, 0);
        check(1, 50, 1);
        check(1, 99, 1);
        check(2, 50, 1);
        check(3, 50, 2);
        check(100, 99, 99);
        check(101, 99, 100);
        check(101, 100, 101);
    }
}
