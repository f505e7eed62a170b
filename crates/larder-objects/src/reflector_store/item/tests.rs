//! How an object is judged, in each state that it and its reflector can be in.

use super::super::observed::tests::{Doc, Failure, at, doc, moment};
use super::*;
use crate::shared_map::SharedMap;

const BASE: Timestamp = Timestamp::ZERO;
/// [`ObjectTtl::LEAST_BOUND`], for times.
const BOUND: i128 = 10_000_000_000;
const POLLS: Option<ObjectTtl> = Some(ObjectTtl::from_nanos(100));

type Own = Link<Failure, u8>;

/// What is held of an object.
#[derive(Clone, Copy, Debug)]
enum Held {
    Nothing,
    /// That it does not exist.
    Absent,
    /// An object, as of 5.
    Object,
    /// The same, in doubt since 8.
    Doubted,
}

fn item(held: Held, watch: Watch<Failure, u8>) -> Item<Doc, Failure, u8> {
    let mut item = Item { watch, ..Item::new(0) };
    match held {
        Held::Nothing => {}
        Held::Absent => drop(item.observed.set(None, moment(5))),
        Held::Object | Held::Doubted => drop(item.observed.set(Some(doc(1)), moment(5))),
    }
    if matches!(held, Held::Doubted) {
        item.observed.doubt(moment(8));
    }
    item
}

/// A reflector that was started at 6, and fails since 7 if it does.
fn link(synced: bool, fails: bool) -> Own {
    let mut link = Link::new(moment(6));
    link.synced = synced;
    link.failing = fails.then(|| Box::new(Failing { since: at(7), error: Arc::new(Failure::Unavailable) }));
    link
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    Fresh,
    Stale,
    Fail,
    Consistent,
    Cached,
    Start,
    Wait,
}

fn judged(verdict: &Verdict<Failure>) -> Judged {
    match verdict {
        Verdict::Fresh => Judged::Fresh,
        Verdict::Stale(reason) => {
            assert_eq!(*reason, StaleReason::FetchFailed { class: "failed" });
            Judged::Stale
        }
        Verdict::Fail(error) => {
            assert!(matches!(**error, Failure::Unavailable));
            Judged::Fail
        }
        Verdict::Fetch(ReadKind::Consistent) => Judged::Consistent,
        Verdict::Fetch(ReadKind::ApiServerCache) => Judged::Cached,
        Verdict::Start => Judged::Start,
        Verdict::Wait => Judged::Wait,
    }
}

#[test]
fn a_reflector_has_failed_for_longer_than_a_time_once_that_has_passed() {
    let time = Duration::from_nanos(3);
    for (now, longer) in [(7, false), (10, false), (11, true)] {
        assert_eq!(link(true, true).fails_for_longer_than(time, at(now)), longer, "at {now}");
        assert!(!link(true, false).fails_for_longer_than(time, at(now)));
    }
}

#[test]
fn a_read_of_what_a_reflector_keeps() {
    use Held::{Absent, Doubted, Nothing, Object};
    use Judged::{Cached, Consistent, Fail, Fresh, Stale, Wait};
    let (well, failing) = ((true, false), (true, true));
    let (unsynced, never_synced) = ((false, false), (false, true));
    let patience = 6 + BOUND;
    let table = [
        (well, None, i128::MAX, Nothing, Consistent),
        (well, None, i128::MAX, Absent, Fresh),
        (well, None, i128::MAX, Object, Fresh),
        (well, None, i128::MAX, Doubted, Consistent),
        (failing, None, 9, Nothing, Fail),
        (failing, None, 9, Absent, Stale),
        (failing, None, 9, Object, Stale),
        (failing, None, 9, Doubted, Consistent),
        (unsynced, None, i128::MAX, Nothing, Wait),
        (unsynced, None, i128::MAX, Object, Wait),
        (unsynced, None, i128::MAX, Doubted, Wait),
        (never_synced, None, 9, Nothing, Fail),
        (never_synced, None, 9, Object, Stale),
        (never_synced, None, 9, Doubted, Stale),
        (well, POLLS, 9, Nothing, Consistent),
        (well, POLLS, 9, Doubted, Consistent),
        (well, POLLS, 5 + BOUND - 1, Object, Fresh),
        (well, POLLS, 5 + BOUND, Object, Cached),
        (well, POLLS, 5 + BOUND, Absent, Consistent),
        (failing, POLLS, 104, Nothing, Consistent),
        (failing, POLLS, 104, Doubted, Consistent),
        (failing, POLLS, 104, Object, Fresh),
        (failing, POLLS, 105, Object, Cached),
        (never_synced, POLLS, 104, Object, Fresh),
        (never_synced, POLLS, 105, Object, Cached),
        (unsynced, POLLS, patience - 1, Object, Wait),
        (unsynced, POLLS, patience - 1, Nothing, Wait),
        (unsynced, POLLS, patience, Object, Cached),
        (unsynced, POLLS, patience, Doubted, Consistent),
        (unsynced, POLLS, patience, Nothing, Consistent),
    ];
    for ((synced, fails), polling, now, held, expected) in table {
        let link = link(synced, fails);
        let verdict = item(held, Watch::Namespace).judge(Some(&link), polling, at(now), BASE);
        let polls = polling.is_some();
        assert_eq!(judged(&verdict), expected, "synced {synced}, fails {fails}, polls {polls}, {held:?} at {now}");
    }
}

#[test]
fn a_read_of_what_no_reflector_keeps() {
    use Judged::{Cached, Consistent, Fresh, Start};
    let judge = |item: &Item<Doc, Failure, u8>, polling, now| judged(&item.judge(None, polling, at(now), BASE));
    for polling in [None, POLLS] {
        assert_eq!(judge(&item(Held::Object, Watch::Held), polling, i128::MAX), Fresh);
        assert_eq!(judge(&item(Held::Doubted, Watch::Held), polling, 9), Consistent);
    }
    assert_eq!(judge(&item(Held::Object, Watch::Off), None, 9), Start);
    assert_eq!(judge(&item(Held::Object, Watch::Idle(at(9))), None, 9), Start);

    // Where it is polled: whether it is mounted, and when it was last polled.
    let window = 50 + 4 * BOUND;
    let table = [
        (Held::Nothing, false, None, 9, Consistent),
        (Held::Nothing, false, Some(9), 9, Consistent),
        (Held::Nothing, true, None, 9, Start),
        (Held::Absent, false, None, 9, Start),
        (Held::Doubted, false, None, 9, Consistent),
        (Held::Doubted, true, None, 9, Start),
        (Held::Object, false, None, 104, Fresh),
        (Held::Object, true, Some(50), 104, Fresh),
        (Held::Object, false, None, 105, Cached),
        (Held::Object, true, None, 105, Start),
        (Held::Object, false, Some(50), window - 1, Start),
        (Held::Object, false, Some(50), window, Cached),
    ];
    for (held, mounted, polled, now, expected) in table {
        let item = Item { mounted, polled: polled.map(at), ..item(held, Watch::Off) };
        assert_eq!(judge(&item, POLLS, now), expected, "{held:?}, mounted {mounted}, polled {polled:?} at {now}");
    }
}

#[test]
fn what_is_held_goes_stale_by_the_rules_that_it_is_kept_by() {
    let for_ever = i128::MAX;
    let polls = |ttl| Some(ObjectTtl::from_nanos(ttl));
    // Since when it is stale, and for how long after it was confirmed it is good by time alone.
    let table = [
        (Watch::Idle(at(20)), None, None, Held::Object, 20, None),
        (Watch::Idle(at(20)), None, None, Held::Doubted, 8, None),
        (Watch::Idle(at(6)), None, None, Held::Doubted, 6, None),
        (Watch::Idle(at(4)), None, None, Held::Object, 5, None),
        (Watch::Held, None, None, Held::Object, for_ever, None),
        (Watch::Held, None, POLLS, Held::Object, for_ever, None),
        (Watch::Held, None, None, Held::Doubted, 8, None),
        (Watch::Off, None, None, Held::Object, 5, None),
        (Watch::Off, None, POLLS, Held::Object, 105, Some(100)),
        (Watch::Off, None, POLLS, Held::Absent, 105, Some(100)),
        (Watch::Off, None, polls(-1), Held::Object, 5, None),
        (Watch::Off, None, POLLS, Held::Doubted, 8, Some(100)),
        (Watch::Namespace, Some(link(true, false)), None, Held::Object, for_ever, None),
        (Watch::Namespace, Some(link(true, false)), POLLS, Held::Object, 5 + BOUND, None),
        (Watch::Namespace, Some(link(true, false)), POLLS, Held::Doubted, 8, None),
        (Watch::Namespace, Some(link(true, true)), None, Held::Object, 7, None),
        (Watch::Namespace, Some(link(true, true)), POLLS, Held::Object, 105, Some(100)),
        (Watch::Namespace, Some(link(true, true)), polls(1), Held::Object, 7, Some(1)),
        (Watch::Namespace, Some(link(false, false)), None, Held::Object, 6, None),
        (Watch::Namespace, Some(link(false, false)), POLLS, Held::Object, 105, Some(100)),
        (Watch::Namespace, Some(link(false, true)), POLLS, Held::Doubted, 8, Some(100)),
    ];
    for (row, (watch, link, polling, held, since, time)) in table.into_iter().enumerate() {
        let item = item(held, watch);
        assert_eq!(item.stale_since(link.as_ref(), polling, BASE), at(since), "row {row}");
        let time = time.map(Duration::from_nanos);
        assert_eq!(item.fresh_for(link.as_ref(), polling).duration(), time.unwrap_or_default(), "row {row}");
        // And so a status page shows it, and a read that is answered at once.
        let fails = link.as_ref().is_some_and(|link| link.failing.is_some());
        let reason = if fails { StaleReason::FetchFailed { class: "failed" } } else { StaleReason::Expired };
        for now in [since - 1, since] {
            let shown = item.at_rest(link.as_ref(), polling, at(now), BASE);
            assert_eq!((shown.confirmed_at, shown.source, shown.fresh_for()), (at(5), Source::Watch, time));
            let verdict = item.judge(link.as_ref(), polling, at(now), BASE);
            let is_fresh = matches!(verdict, Verdict::Fresh) || (matches!(held, Held::Absent) && now < since);
            assert_eq!(shown.is_fresh(), is_fresh, "row {row} at {now}");
            if let FreshState::Stale { since: shown, reason: why } = shown.state {
                assert_eq!((shown, why), (at(since.min(now.max(5))), reason), "row {row} at {now}");
            }
        }
    }
}

#[test]
fn a_pulse_confirms_what_a_reflector_that_has_synced_keeps() {
    let polled = || {
        let mut item = item(Held::Nothing, Watch::Namespace);
        let read = (ReadKind::Consistent, Source::LiveRead);
        let _ = item.observed.fetched(Ok::<_, Failure>(doc(1)), read, 4, moment(5));
        item
    };
    let (by_fetch, by_watch) = ((at(5), Source::LiveRead), (at(6), Source::Watch));
    let table =
        [(true, None, by_fetch), (true, Some(5), by_fetch), (true, Some(6), by_watch), (false, Some(6), by_fetch)];
    for (synced, beat, expected) in table {
        let own = Link { handle: Some(7), ..link(synced, false) };
        if let Some(beat) = beat {
            own.pulse.beat(BASE, at(beat));
        }
        let mut item = polled();
        assert_eq!(item.confirmed(Some(&own), BASE), expected);
        assert_eq!(item.confirmed(None, BASE), by_fetch);
        // Nor is that lost with the reflector.
        item.watch = Watch::Own(own);
        let published = SharedMap::new();
        let mut after = After::new(&published);
        item.unlink(Watch::Off, BASE, &mut after);
        assert_eq!(after.handles, [7]);
        assert_eq!(item.confirmed(None, BASE), expected);
        item.unlink(Watch::Held, BASE, &mut after);
        assert_eq!(after.handles, [7]);
        assert_eq!(item.kept(true), Kept::Held);
    }
}

#[test]
fn a_reflector_shows_whether_it_fails_and_whether_its_pulse_changes_anything_else() {
    // Synced, failing, a fetch ahead: broken, quiet.
    let table = [
        (false, false, false, true, false),
        (true, true, false, true, false),
        (false, true, false, true, false),
        (true, false, false, false, true),
        (true, false, true, false, false),
        (false, false, true, true, false),
    ];
    let first = link(false, false);
    assert!(first.pulse.is_broken() && !first.pulse.is_quiet() && first.pulse.at(BASE).is_none());
    for (synced, fails, ahead, broken, quiet) in table {
        let link = link(synced, fails);
        link.show(ahead);
        assert_eq!((link.pulse.is_broken(), link.pulse.is_quiet()), (broken, quiet), "{synced} {fails} {ahead}");
        assert_eq!(link.is_healthy(), !broken);
    }
}

#[test]
fn times_that_are_too_far_away_are_as_far_as_can_be_told() {
    let (least, most) = (i128::from(i64::MIN), i128::from(i64::MAX));
    let table = [(0, 0), (-3, -3), (most, i64::MAX), (most + 1, i64::MAX), (least, i64::MIN), (least - 1, i64::MIN)];
    for (after, expected) in table {
        assert_eq!(offset(at(0), at(after)), expected);
        assert_eq!(offset(at(20), at(after.saturating_add(20))), expected);
    }
    assert_eq!(offset(at(i128::MIN), at(i128::MAX)), i64::MAX);
}

#[test]
fn idle_is_what_was_not_read_for_longer_than_that() {
    let item = item(Held::Object, Watch::Off);
    let is_idle = |now| item.is_idle(at(3), at(now), Duration::from_nanos(20));
    assert!(is_idle(0));
    item.access(at(3), at(10));
    assert!(!is_idle(10) && !is_idle(30) && is_idle(31));
}

#[test]
fn one_that_waits_no_more_is_not_woken() {
    let mut item = item(Held::Nothing, Watch::Off);
    for ticket in 1..=3 {
        item.wait(ticket, &mut Some(Waker::noop().clone()));
    }
    assert!(item.leave(2).is_some() && item.leave(2).is_none() && item.leave(4).is_none());
    assert_eq!(item.wake_all().count(), 2);
    assert_eq!(item.wake_all().count(), 0);
}

#[test]
fn references_are_counted_for_each_pod() {
    let mut item = item(Held::Nothing, Watch::Off);
    for uid in ["a", "a", "b"] {
        item.add_reference(&uid.into());
    }
    let expected = [("c", 3, false), ("a", 2, false), ("b", 1, false), ("b", 1, false), ("a", 0, true), ("a", 0, true)];
    for (uid, left, none) in expected {
        assert_eq!((item.delete_reference(uid), item.references()), (none, left), "{uid}");
    }
}

/// What a node's daemon has: its handle of a reflector is five words.
#[test]
fn an_item_is_small() {
    let size = size_of::<Item<Doc, Failure, (Box<()>, [usize; 4])>>();
    // A size that allocators have; the next is 384.
    assert!(size <= 320, "{size} bytes");
}

#[test]
fn a_reflector_resumes_from_the_version_that_is_held() {
    assert_eq!(item(Held::Object, Watch::Off).resume().as_deref(), Some("1"));
    assert_eq!(item(Held::Absent, Watch::Off).resume(), None);
    assert_eq!(item(Held::Nothing, Watch::Off).resume(), None);
}

#[test]
fn a_status_page_says_how_it_is_kept() {
    let table = [
        (Watch::Off, true, Kept::Polled),
        (Watch::Off, false, Kept::Idle),
        (Watch::Idle(at(1)), true, Kept::Idle),
        (Watch::Idle(at(1)), false, Kept::Idle),
        (Watch::Own(link(false, false)), true, Kept::Watched),
        (Watch::Namespace, true, Kept::NamespaceWatched),
        (Watch::Held, false, Kept::Held),
    ];
    for (watch, polls, kept) in table {
        assert_eq!(item(Held::Object, watch).kept(polls), kept);
    }
}
