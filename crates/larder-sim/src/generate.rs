//! Random traces.

mod objects;
mod pod_status;

use crate::trace::{Kind, Trace};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// A random trace of that kind; always the same for the same seed.
///
/// Few pods, objects and times, so that they meet: equal timestamps and such that go back, pods registered again with
/// other references or under another UID, deletes without anything to delete, every class of error, resourceVersions that
/// go back, are equal, empty, no numbers or at the limits of 64 bits, TTLs that are no integers, zero or negative, and
/// steps of the clock to just before, at and after an expiry.
///
/// ```
/// use larder_sim::{Kind, generate, replay};
///
/// let trace = generate(Kind::Objects, 7);
/// assert_eq!(trace, generate(Kind::Objects, 7));
/// let mut results = Vec::new();
/// let operations = replay(trace.to_string().as_bytes(), &mut results)?;
/// assert_eq!(operations, trace.ops.len() as u64);
/// # Ok::<(), larder_sim::TraceError>(())
/// ```
pub fn generate(kind: Kind, seed: u64) -> Trace {
    let mut dice = Dice(Xoshiro256PlusPlus::seed_from_u64(seed));
    match kind {
        Kind::PodStatus => pod_status::generate(&mut dice),
        Kind::Objects => objects::generate(&mut dice),
    }
}

/// The source of all that is random in a trace.
struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// True so many times in a hundred.
    fn percent(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }

    fn between(&mut self, least: i64, most: i64) -> i64 {
        self.0.random_range(least..=most)
    }

    /// One of them; the first if there is but one.
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.0.random_range(0..from.len())]
    }

    /// One of them, each as often as its weight says.
    fn weighted<T: Copy>(&mut self, from: &[(u32, T)]) -> T {
        let mut left = self.0.random_range(0..from.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in from {
            if left < *weight {
                return *choice;
            }
            left -= weight;
        }
        // Not reached: what is left is below the sum of the weights.
        from[from.len() - 1].1
    }

    /// So many different ones of them, in random order.
    fn some<T: Clone>(&mut self, from: &[T], count: usize) -> Vec<T> {
        let mut left = from.to_vec();
        let mut chosen = Vec::new();
        while chosen.len() < count && !left.is_empty() {
            let at = self.0.random_range(0..left.len());
            chosen.push(left.swap_remove(at));
        }
        chosen
    }

    /// The number of operations of a trace: mostly a few dozen.
    fn length(&mut self) -> i64 {
        let (least, most) = self.weighted(&[(1, (0, 6)), (8, (5, 40)), (1, (40, 150))]);
        self.between(least, most)
    }
}

#[cfg(test)]
mod tests;
