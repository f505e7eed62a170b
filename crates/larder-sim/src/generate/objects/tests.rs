//! What random traces of objects cover.

use super::*;

#[test]
fn every_duration_of_the_tables_is_one() {
    for text in DEFAULT_TTLS.iter().chain(&ODD_STEPS) {
        text.parse::<GoDuration>().expect(text);
    }
}

#[test]
fn every_spelling_is_read_back() {
    use rand::SeedableRng;
    let mut dice = Dice(rand::rngs::Xoshiro256PlusPlus::seed_from_u64(3));
    for nanos in [0, 1, -1, 1_500_000_000, -3_661_000_000_001, i64::MAX, i64::MIN] {
        for _ in 0..20 {
            let duration = spelled(nanos, &mut dice);
            assert_eq!(duration.nanos(), nanos, "{duration}");
        }
    }
}
