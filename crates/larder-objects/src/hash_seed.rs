//! What hash tables are seeded with.

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;

/// What the hash tables of a store, or of a manager, are seeded with: it decides the order in which they are walked through,
/// and so in which readers are woken, reflectors stopped and statuses listed.
///
/// By default that is random, so that nobody who chooses the names of objects can make a table slow. A simulation that is to
/// run the same way again hands in a number.
///
/// ```
/// use larder_objects::{HashSeed, WatchOptions};
/// let options = WatchOptions::default().with_hash_seed(HashSeed::fixed(7));
/// assert_ne!(options.hash_seed, HashSeed::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashSeed(Option<u64>);

impl HashSeed {
    /// The same order in every run.
    pub const fn fixed(seed: u64) -> Self {
        Self(Some(seed))
    }

    pub(crate) fn state(self) -> SeedableRandomState {
        match self.0 {
            Some(seed) => SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()),
            None => SeedableRandomState::random(),
        }
    }
}
