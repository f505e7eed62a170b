//! Random parts of pauses, from a source that is passed in.

use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where pauses take their random parts from, so that the clients of a server do not all return to it at once. Clones draw
/// from the same source.
///
/// The default is the thread's generator, which the operating system seeds. A simulation that is to run the same way again
/// passes one [from a seed](Self::from_seed).
///
/// ```
/// use larder_clock::Jitter;
/// use std::time::Duration;
///
/// let second = Duration::from_secs(1);
/// let (one, other) = (Jitter::from_seed(7), Jitter::from_seed(7));
/// assert_eq!(one.between(second..=second * 2), other.between(second..=second * 2));
/// assert!(Jitter::default().scale(second, 0.5..=1.0) <= second);
/// ```
#[derive(Clone, Default)]
pub struct Jitter(Option<Arc<Mutex<Xoshiro256PlusPlus>>>);

impl Jitter {
    /// A source that gives the same numbers in every run, if it is asked in the same order.
    pub fn from_seed(seed: u64) -> Self {
        Self(Some(Arc::new(Mutex::new(Xoshiro256PlusPlus::seed_from_u64(seed)))))
    }

    /// A duration between these two, to the nanosecond.
    ///
    /// # Panics
    ///
    /// If the range is empty.
    pub fn between(&self, range: RangeInclusive<Duration>) -> Duration {
        let (least, most) = range.into_inner();
        let least_nanos = u64::try_from(least.as_nanos()).unwrap_or(u64::MAX);
        let most_nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(match &self.0 {
            None => rand::random_range(least_nanos..=most_nanos),
            Some(source) => {
                source.lock().unwrap_or_else(PoisonError::into_inner).random_range(least_nanos..=most_nanos)
            }
        })
    }

    /// `duration` times a factor from `factors`, which must not be negative.
    ///
    /// # Panics
    ///
    /// If the range is empty, or a factor negative or not finite.
    pub fn scale(&self, duration: Duration, factors: RangeInclusive<f64>) -> Duration {
        let (least, most) = factors.into_inner();
        self.between(duration.mul_f64(least)..=duration.mul_f64(most))
    }
}

/// The same source, or the default in both.
impl PartialEq for Jitter {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}

impl Eq for Jitter {}

impl fmt::Debug for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Jitter(from a seed)" } else { "Jitter(random)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_lies_in_its_range_and_the_range_is_used() {
        let second = Duration::from_secs(1);
        for jitter in [Jitter::default(), Jitter::from_seed(1)] {
            let all: Vec<_> = (0..1000).map(|_| jitter.scale(second, 0.5..=1.0)).collect();
            assert!(all.iter().all(|pause| (second / 2..=second).contains(pause)), "{all:?}");
            assert!(all.iter().any(|pause| *pause < second.mul_f64(0.55)), "{all:?}");
            assert!(all.iter().any(|pause| *pause > second.mul_f64(0.95)), "{all:?}");
            assert_eq!(jitter.between(second..=second), second);
        }
    }

    #[test]
    fn sources_are_equal_where_they_are_the_same() {
        let seeded = Jitter::from_seed(1);
        assert_eq!(seeded.clone(), seeded);
        assert_ne!(seeded, Jitter::from_seed(1));
        assert_ne!(seeded, Jitter::default());
        assert_eq!(Jitter::default(), Jitter::default());
    }
}
