//! Every combination of what is held, of what brought it, and of what comes next.

use super::*;

/// An object that is nothing but its version.
pub(in crate::copies) struct Doc(String);

impl Object for Doc {
    fn resource_version(&self) -> &str {
        &self.0
    }
}

#[derive(Debug, thiserror::Error)]
pub(in crate::copies) enum Failure {
    #[error("not found")]
    NotFound,
    #[error("unavailable")]
    Unavailable,
}

impl crate::FetchError for Failure {
    fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound)
    }
}

pub(in crate::copies) fn doc(version: u64) -> Arc<Doc> {
    Arc::new(Doc(version.to_string()))
}

pub(in crate::copies) fn at(nanos: i128) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// Stamps and times are the same numbers here.
pub(in crate::copies) fn moment(stamp: Stamp) -> Moment {
    Moment { stamp, at: at(stamp.into()) }
}

const LIVE: (ReadKind, Source) = (ReadKind::Consistent, Source::LiveRead);
const CACHE: (ReadKind, Source) = (ReadKind::ApiServerCache, Source::ApiServerCache);

/// What is held, whether a fetch is ahead, whether it is doubtful, and when and by what it was confirmed.
type State = (Option<u64>, bool, bool, Timestamp, Source);

fn state(copy: &Copy<Doc>) -> State {
    assert!(copy.is_known());
    (copy.object().map(version), copy.is_ahead(), copy.is_doubtful(), copy.at(), copy.source())
}

/// A consistent fetch from 4 to 5 has brought that.
fn ahead(held: Option<u64>) -> Copy<Doc> {
    let mut copy = Copy::new();
    let (settled, _) = copy.fetched(held.map(doc).ok_or(Failure::NotFound), LIVE, 4, moment(5));
    assert!(matches!(settled, Settled::Done { went_back: false }));
    assert_eq!(state(&copy), (held, true, false, at(5), Source::LiveRead));
    copy
}

/// A reflector has brought that at that moment.
fn reflected(held: Option<u64>, changed: Stamp) -> Copy<Doc> {
    let mut copy = Copy::new();
    copy.set(held.map(doc), moment(changed));
    assert_eq!(state(&copy), (held, false, false, at(changed.into()), Source::Watch));
    copy
}

#[test]
fn nothing_is_known_at_first_and_after_all_is_forgotten() {
    let mut copy = Copy::<Doc>::new();
    assert!(!copy.is_known() && copy.object().is_none() && copy.clear().is_none());
    assert!(copy.next_read() == ReadKind::Consistent);
    copy.set(Some(doc(1)), moment(1));
    assert!(copy.is_known() && copy.next_read() == ReadKind::ApiServerCache);
    assert_eq!(copy.clear().as_ref().map(version), Some(1));
    assert!(!copy.is_known() && copy.object().is_none());
    copy.set(None, moment(2));
    assert!(copy.is_known() && copy.next_read() == ReadKind::Consistent);
}

#[test]
fn a_list_from_before_a_fetch_ended_is_weighed_against_it() {
    // What the fetch brought, what the list brings: whether that is taken, and whether the order is in doubt.
    let table = [
        (None, None, true, false),
        (None, Some(1), true, true),
        (Some(5), None, true, true),
        (Some(5), Some(4), false, true),
        (Some(5), Some(5), true, false),
        (Some(5), Some(6), true, false),
    ];
    for (held, new, taken, doubted) in table {
        let mut copy = ahead(held);
        let out = copy.replace(new.map(doc), Some(4), moment(9));
        assert_eq!(out.as_ref().map(version), if taken { held } else { new }, "{held:?} {new:?}");
        let expected = if taken {
            (new, false, doubted, at(9), Source::Watch)
        } else {
            (held, true, doubted, at(5), Source::LiveRead)
        };
        assert_eq!(state(&copy), expected, "{held:?} {new:?}");

        // One that began no sooner than that is believed, as is one with no fetch to compare it with.
        let later = [(ahead(held), 5), (ahead(held), 6), (reflected(held, 5), 4)];
        for (mut copy, listed) in later {
            let out = copy.replace(new.map(doc), Some(listed), moment(9));
            assert_eq!(out.as_ref().map(version), held);
            assert_eq!(state(&copy), (new, false, false, at(9), Source::Watch), "{held:?} {new:?} {listed}");
        }
    }
}

#[test]
fn a_list_clears_doubts_from_before_it_began() {
    for (listed, doubtful) in [(6, true), (7, true), (8, false)] {
        let mut copy = reflected(Some(1), 5);
        copy.doubt(moment(7));
        copy.replace(Some(doc(1)), Some(listed), moment(9));
        assert_eq!(copy.is_doubtful(), doubtful, "{listed}");
    }
}

#[test]
fn an_event_of_a_watch_that_may_be_behind_a_fetch_is_weighed_against_it() {
    let table = [
        (None, None, false, false),
        (None, Some(1), true, true),
        (Some(5), None, true, true),
        (Some(5), Some(4), false, false),
        (Some(5), Some(5), true, false),
        (Some(5), Some(6), true, false),
    ];
    for (held, new, taken, doubted) in table {
        let mut copy = ahead(held);
        let out = copy.set(new.map(doc), moment(9));
        assert_eq!(out.as_ref().map(version), if taken { held } else { new }, "{held:?} {new:?}");
        let expected = if taken {
            (new, false, doubted, at(9), Source::Watch)
        } else {
            (held, true, doubted, at(5), Source::LiveRead)
        };
        assert_eq!(state(&copy), expected, "{held:?} {new:?}");

        let mut caught_up = ahead(held);
        caught_up.reached(5);
        if held.is_none() {
            // A read that found nothing has no version: only a list ends its precedence, or a restore.
            assert!(caught_up.is_ahead());
            caught_up.went_back();
        }
        for mut copy in [caught_up, reflected(held, 5)] {
            copy.set(new.map(doc), moment(9));
            assert_eq!(state(&copy), (new, false, false, at(9), Source::Watch), "{held:?} {new:?}");
        }
    }
}

/// What a fetch has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    /// What it brought is held, and ahead.
    Take,
    /// The same, though versions went back.
    TakeBack,
    /// What is held was confirmed.
    Confirm,
    /// It was older than what is held.
    Older,
    /// Readers have to look again.
    Again,
}

#[test]
fn a_fetch_is_weighed_against_what_a_reflector_told_meanwhile() {
    use Did::{Again, Confirm, Older, Take, TakeBack};
    // It begins at 5 and ends at 9, with a doubt from 3, and the reflector has told what is held
    let (before, meanwhile) = (&[4][..], &[5, 6][..]);
    // What is left of the doubt.
    let (none, old, new) = (None, Some(3), Some(9));
    let table = [
        (before, None, None, LIVE, Take, none),
        (before, None, Some(1), LIVE, Take, none),
        (before, Some(5), None, LIVE, Take, none),
        (before, Some(5), Some(4), LIVE, TakeBack, none),
        (before, Some(5), Some(5), LIVE, Take, none),
        (before, Some(5), Some(6), LIVE, Take, none),
        (before, None, None, CACHE, Take, old),
        (before, None, Some(1), CACHE, Take, old),
        (before, Some(5), None, CACHE, Take, old),
        (before, Some(5), Some(4), CACHE, Older, new),
        (before, Some(5), Some(5), CACHE, Take, old),
        (before, Some(5), Some(6), CACHE, Take, old),
        (meanwhile, None, None, LIVE, Confirm, none),
        (meanwhile, None, Some(1), LIVE, Again, new),
        (meanwhile, Some(5), None, LIVE, Again, new),
        (meanwhile, Some(5), Some(4), LIVE, Again, none),
        (meanwhile, Some(5), Some(5), LIVE, Confirm, none),
        (meanwhile, Some(5), Some(6), LIVE, Take, none),
        (meanwhile, None, None, CACHE, Confirm, old),
        (meanwhile, None, Some(1), CACHE, Again, old),
        (meanwhile, Some(5), None, CACHE, Again, old),
        (meanwhile, Some(5), Some(4), CACHE, Again, old),
        (meanwhile, Some(5), Some(5), CACHE, Confirm, old),
        (meanwhile, Some(5), Some(6), CACHE, Take, old),
    ];
    for (told, held, brought, read, did, doubt) in table {
        for &changed in told {
            let case = format!("{changed} {held:?} {brought:?} {read:?}");
            let mut copy = reflected(held, changed);
            copy.doubt(moment(3));
            let (settled, out) = copy.fetched(brought.map(doc).ok_or(Failure::NotFound), read, 5, moment(9));
            let is_as_expected = match did {
                Take | Confirm => matches!(settled, Settled::Done { went_back: false }),
                TakeBack => matches!(settled, Settled::Done { went_back: true }),
                Older => matches!(settled, Settled::Older),
                Again => matches!(settled, Settled::Again),
            };
            assert!(is_as_expected, "{case}: {settled:?}");
            let (object, ahead, out_of) = match did {
                Take | TakeBack => (brought, true, held),
                Confirm | Older | Again => (held, false, brought),
            };
            assert_eq!(out.as_ref().map(version), out_of, "{case}");
            let (confirmed, source) = match did {
                Older | Again => (at(changed.into()), Source::Watch),
                Take | TakeBack | Confirm => (at(9), read.1),
            };
            assert_eq!(state(&copy), (object, ahead, doubt.is_some(), confirmed, source), "{case}");
            assert_eq!(copy.is_doubtful().then_some(copy.doubted()), doubt, "{case}");
        }
    }
}

#[test]
fn a_fetch_that_fails_changes_nothing() {
    let mut copy = reflected(Some(1), 2);
    let (settled, out) = copy.fetched(Err(Failure::Unavailable), LIVE, 5, moment(9));
    assert!(matches!(settled, Settled::Failed(_)) && out.is_none());
    assert_eq!(state(&copy), (Some(1), false, false, at(2), Source::Watch));
}

#[test]
fn a_doubt_counts_from_its_first_cause_and_lasts_until_all_are_cleared() {
    let mut copy = reflected(Some(1), 2);
    copy.doubt(moment(3));
    copy.doubt(moment(6));
    assert_eq!((copy.doubted(), copy.doubted_at()), (6, at(3)));
    let mut fetch = |began| {
        let _ = copy.fetched(Ok::<_, Failure>(doc(1)), LIVE, began, moment(began + 1));
        copy.is_doubtful()
    };
    assert!(fetch(4) && !fetch(7));
    copy.doubt(moment(9));
    assert_eq!((copy.doubted(), copy.doubted_at()), (9, at(9)));
}

#[test]
fn a_pulse_confirms_what_is_known_if_it_is_later() {
    let mut copy = Copy::<Doc>::new();
    copy.pulse(at(9));
    assert_eq!((copy.is_known(), copy.at()), (false, Timestamp::ZERO));
    for (pulse, confirmed) in [(4, (5, Source::LiveRead)), (5, (5, Source::LiveRead)), (6, (6, Source::Watch))] {
        let mut copy = ahead(Some(1));
        copy.pulse(at(pulse));
        assert_eq!((copy.at(), copy.source()), (at(confirmed.0), confirmed.1));
    }
}
