//! What is published, in each state of what it is kept by.

use super::super::item::Link;
use super::super::observed::tests::{Failure, at, moment};
use super::*;

const BASE: Timestamp = Timestamp::ZERO;
/// [`ObjectTtl::LEAST_BOUND`], for times.
const BOUND: i128 = 10_000_000_000;

/// Confirmed by a fetch at 5, and good for so long.
fn record(good: Good) -> Record<()> {
    Record { object: None, at: at(5), source: Source::LiveRead, good, accessed: Arc::new(AtomicI64::new(i64::MIN)) }
}

fn watched(synced: bool, beat: Option<i128>) -> Good {
    let mut link = Link::<Failure, ()>::new(moment(1));
    link.synced = synced;
    link.show(false);
    if let Some(beat) = beat {
        link.pulse.beat(BASE, at(beat));
    }
    Good::Watched(link.pulse)
}

#[test]
fn what_is_published_is_good_for_as_long_as_what_keeps_it() {
    let polls = |ttl| Some(ObjectTtl::from_nanos(ttl));
    let (fetched, none) = (Some((5, Source::LiveRead)), None);
    let by_watch = |at| Some((at, Source::Watch));
    let for_ever = i128::MAX;
    let table = [
        (Good::Held, None, for_ever, fetched),
        (Good::Held, polls(1), for_ever, fetched),
        (Good::Polled, None, 5, none),
        (Good::Polled, polls(0), 5, none),
        (Good::Polled, polls(100), 104, fetched),
        (Good::Polled, polls(100), 105, none),
        (watched(false, Some(9)), None, 9, none),
        (watched(true, None), None, for_ever, fetched),
        (watched(true, Some(4)), None, for_ever, fetched),
        (watched(true, Some(5)), None, for_ever, fetched),
        (watched(true, Some(6)), None, for_ever, by_watch(6)),
        (watched(true, None), polls(1), 5 + BOUND - 1, fetched),
        (watched(true, None), polls(1), 5 + BOUND, none),
        (watched(true, Some(9)), polls(1), 9 + BOUND - 1, by_watch(9)),
        (watched(true, Some(9)), polls(1), 9 + BOUND, none),
        (watched(true, None), polls(2 * ObjectTtl::LEAST_BOUND.as_nanos()), 5 + BOUND, fetched),
    ];
    for (row, (good, polling, now, expected)) in table.into_iter().enumerate() {
        // Time alone ends what is polled.
        let time = matches!(good, Good::Polled).then_some(std::time::Duration::from_nanos(100));
        let expected = expected.map(|(confirmed_at, source)| {
            Freshness::new(at(confirmed_at), source, FreshState::Fresh).with_fresh_for(time)
        });
        assert_eq!(record(good).freshness(polling, at(now), BASE), expected, "row {row}");
    }
}

#[test]
fn a_read_is_noted() {
    let record = record(Good::Held);
    record.clone().access(at(3), at(10));
    assert_eq!(record.accessed.load(Ordering::Relaxed), 7);
}
