//! Every combination of what is held, of what brought it, and of what comes next.

use super::*;

/// An object that is nothing but its version and its UID.
pub(in crate::reflector_store) struct Doc(String, &'static str);

impl Object for Doc {
    fn resource_version(&self) -> &str {
        &self.0
    }

    fn uid(&self) -> &str {
        self.1
    }

    fn is_immutable(&self) -> bool {
        false
    }
}

#[derive(Debug, thiserror::Error)]
pub(in crate::reflector_store) enum Failure {
    #[error("not found")]
    NotFound,
    #[error("unavailable")]
    Unavailable,
}

impl crate::FetchError for Failure {
    fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound)
    }

    fn class(&self) -> &'static str {
        "failed"
    }
}

pub(in crate::reflector_store) fn doc(version: u64) -> Arc<Doc> {
    of_uid(version, "u")
}

fn of_uid(version: u64, uid: &'static str) -> Arc<Doc> {
    Arc::new(Doc(version.to_string(), uid))
}

fn version(doc: &Arc<Doc>) -> u64 {
    order::version(&**doc)
}

pub(in crate::reflector_store) fn at(nanos: i128) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// Stamps and times are the same numbers here.
pub(in crate::reflector_store) fn moment(stamp: Stamp) -> Moment {
    Moment { stamp, at: at(stamp.into()) }
}

const LIVE: (ReadKind, Source) = (ReadKind::Consistent, Source::LiveRead);
const CACHE: (ReadKind, Source) = (ReadKind::ApiServerCache, Source::ApiServerCache);

/// What is held, whether a fetch is ahead, whether it is doubtful, and when and by what it was confirmed.
type State = (Option<u64>, bool, bool, Timestamp, Source);

fn state(observed: &Observed<Doc>) -> State {
    assert!(observed.is_known());
    (observed.object().map(version), observed.is_ahead(), observed.is_doubtful(), observed.at(), observed.source())
}

/// A consistent fetch from 4 to 5 has brought that.
fn ahead(held: Option<u64>) -> Observed<Doc> {
    let mut observed = Observed::new();
    let (settled, _) = observed.fetched(held.map(doc).ok_or(Failure::NotFound), LIVE, 4, moment(5));
    assert!(matches!(settled, Settled::Done { went_back: false, at: 5 }));
    assert_eq!(state(&observed), (held, true, false, at(5), Source::LiveRead));
    observed
}

/// A reflector has brought that at that moment.
fn reflected(held: Option<u64>, changed: Stamp) -> Observed<Doc> {
    let mut observed = Observed::new();
    observed.set(held.map(doc), moment(changed));
    assert_eq!(state(&observed), (held, false, false, at(changed.into()), Source::Watch));
    observed
}

#[test]
fn nothing_is_known_at_first_and_after_all_is_forgotten() {
    let mut observed = Observed::<Doc>::new();
    assert!(!observed.is_known() && observed.object().is_none() && observed.clear().is_none());
    assert!(observed.next_read() == ReadKind::Consistent);
    observed.set(Some(doc(1)), moment(1));
    assert!(observed.is_known() && observed.next_read() == ReadKind::ApiServerCache);
    assert_eq!(observed.clear().as_ref().map(version), Some(1));
    assert!(!observed.is_known() && observed.object().is_none());
    observed.set(None, moment(2));
    assert!(observed.is_known() && observed.next_read() == ReadKind::Consistent);
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
        let mut observed = ahead(held);
        let out = observed.replace(new.map(doc), Some(4), moment(9));
        assert_eq!(out.as_ref().map(version), if taken { held } else { new }, "{held:?} {new:?}");
        let expected = if taken {
            // One absence is like another: what the watch tells after it may be from before the fetch.
            (new, held.is_none() && new.is_none(), doubted, at(9), Source::Watch)
        } else {
            (held, true, doubted, at(5), Source::LiveRead)
        };
        assert_eq!(state(&observed), expected, "{held:?} {new:?}");

        // One that began later is believed, as is one with no fetch to compare it with.
        let later = [(ahead(held), 6), (ahead(held), 7), (reflected(held, 5), 4)];
        for (mut observed, listed) in later {
            let out = observed.replace(new.map(doc), Some(listed), moment(9));
            assert_eq!(out.as_ref().map(version), held);
            assert_eq!(state(&observed), (new, false, false, at(9), Source::Watch), "{held:?} {new:?} {listed}");
        }
    }
}

#[test]
fn a_list_clears_doubts_from_before_it_began() {
    for (listed, doubtful) in [(6, true), (7, false), (8, false)] {
        let mut observed = reflected(Some(1), 5);
        observed.doubt(moment(7));
        observed.replace(Some(doc(1)), Some(listed), moment(9));
        assert_eq!(observed.is_doubtful(), doubtful, "{listed}");
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
        let mut observed = ahead(held);
        let out = observed.set(new.map(doc), moment(9));
        assert_eq!(out.as_ref().map(version), if taken { held } else { new }, "{held:?} {new:?}");
        let expected = if taken {
            (new, false, doubted, at(9), Source::Watch)
        } else {
            (held, true, doubted, at(5), Source::LiveRead)
        };
        assert_eq!(state(&observed), expected, "{held:?} {new:?}");

        let mut caught_up = ahead(held);
        caught_up.reached(5);
        if held.is_none() {
            // A read that found nothing has no version: only a list ends its precedence, or a restore.
            assert!(caught_up.is_ahead());
            caught_up.went_back(moment(6));
        }
        for mut observed in [caught_up, reflected(held, 5)] {
            observed.set(new.map(doc), moment(9));
            assert_eq!(state(&observed), (new, false, false, at(9), Source::Watch), "{held:?} {new:?}");
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
        (before, None, None, CACHE, Confirm, old),
        (before, None, Some(1), CACHE, Again, new),
        (before, Some(5), None, CACHE, Again, new),
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
            let mut observed = reflected(held, changed);
            observed.doubt(moment(3));
            let (settled, out) = observed.fetched(brought.map(doc).ok_or(Failure::NotFound), read, 5, moment(9));
            let is_as_expected = match did {
                Take | Confirm => matches!(settled, Settled::Done { went_back: false, at: 9 }),
                TakeBack => matches!(settled, Settled::Done { went_back: true, at: 9 }),
                Older => matches!(settled, Settled::Older),
                Again => matches!(settled, Settled::Again),
            };
            assert!(is_as_expected, "{case}: {settled:?}");
            let (object, ahead, out_of) = match did {
                Take | TakeBack => (brought, brought.is_none() || brought != held, held),
                // One absence is like another: a watch that lags may yet tell of an object between the two.
                Confirm => (held, held.is_none() && read == LIVE, brought),
                Older | Again => (held, false, brought),
            };
            assert_eq!(out.as_ref().map(version), out_of, "{case}");
            let (confirmed, source) = match did {
                Older | Again => (at(changed.into()), Source::Watch),
                Take | TakeBack | Confirm => (at(9), read.1),
            };
            assert_eq!(state(&observed), (object, ahead, doubt.is_some(), confirmed, source), "{case}");
            assert_eq!(observed.is_doubtful().then_some(observed.doubted()), doubt, "{case}");
        }
    }
}

#[test]
fn a_fetch_that_fails_changes_nothing() {
    let mut observed = reflected(Some(1), 2);
    let (settled, out) = observed.fetched(Err(Failure::Unavailable), LIVE, 5, moment(9));
    assert!(matches!(settled, Settled::Failed(_)) && out.is_none());
    assert_eq!(state(&observed), (Some(1), false, false, at(2), Source::Watch));
}

#[test]
fn a_doubt_counts_from_its_first_cause_and_lasts_until_all_are_cleared() {
    let mut observed = reflected(Some(1), 2);
    observed.doubt(moment(3));
    observed.doubt(moment(6));
    assert_eq!((observed.doubted(), observed.doubted_at()), (6, at(3)));
    let mut fetch = |began| {
        let _ = observed.fetched(Ok::<_, Failure>(doc(1)), LIVE, began, moment(began + 1));
        observed.is_doubtful()
    };
    assert!(fetch(4) && !fetch(7));
    observed.doubt(moment(9));
    assert_eq!((observed.doubted(), observed.doubted_at()), (9, at(9)));
}

#[test]
fn a_pulse_confirms_what_is_known_if_it_is_later() {
    let mut observed = Observed::<Doc>::new();
    observed.pulse(at(9));
    assert_eq!((observed.is_known(), observed.at()), (false, Timestamp::ZERO));
    for (pulse, confirmed) in [(4, (5, Source::LiveRead)), (5, (5, Source::LiveRead)), (6, (6, Source::Watch))] {
        let mut observed = ahead(Some(1));
        observed.pulse(at(pulse));
        assert_eq!((observed.at(), observed.source()), (at(confirmed.0), confirmed.1));
    }
}

#[test]
fn a_fetch_is_weighed_against_another_that_ended_before_it() {
    use Did::{Again, Confirm, Older, Take, TakeBack};
    // The other one was consistent, from 4 to 7; a doubt from 3 and another from 5 remain as far as they do.
    let held = Some((5, "u"));
    let (before, within, after) = (3, 6, 8);
    // When it began, what is held, what it brings: what came of it, what is held then, since when that is in doubt.
    let table = [
        (within, None, None, LIVE, Confirm, None, None),
        (within, None, Some((1, "u")), LIVE, Again, Some((1, "u")), Some(9)),
        (within, held, None, LIVE, Again, None, Some(9)),
        (within, held, Some((4, "u")), LIVE, Again, held, None),
        (within, held, Some((5, "u")), LIVE, Confirm, held, None),
        (within, held, Some((6, "u")), LIVE, Take, Some((6, "u")), None),
        // Deleted, and created again: what began later is believed until it has been asked.
        (within, held, Some((4, "other")), LIVE, Again, Some((4, "other")), Some(9)),
        (within, held, Some((6, "other")), LIVE, Again, Some((6, "other")), Some(9)),
        (before, None, None, LIVE, Confirm, None, Some(5)),
        (before, None, Some((1, "u")), LIVE, Again, None, Some(9)),
        (before, held, None, LIVE, Again, held, Some(9)),
        (before, held, Some((4, "u")), LIVE, Again, held, Some(5)),
        (before, held, Some((6, "u")), LIVE, Take, Some((6, "u")), Some(5)),
        (before, held, Some((4, "other")), LIVE, Again, held, Some(9)),
        (before, held, Some((6, "other")), LIVE, Again, held, Some(9)),
        (after, None, Some((1, "u")), LIVE, Take, Some((1, "u")), None),
        (after, held, None, LIVE, Take, None, None),
        (after, held, Some((4, "u")), LIVE, TakeBack, Some((4, "u")), None),
        (after, held, Some((4, "other")), LIVE, TakeBack, Some((4, "other")), None),
        (after, held, Some((6, "other")), LIVE, Take, Some((6, "other")), None),
        (within, held, Some((4, "u")), CACHE, Again, held, Some(5)),
        (within, held, Some((6, "u")), CACHE, Take, Some((6, "u")), Some(5)),
        (within, held, Some((6, "other")), CACHE, Again, held, Some(5)),
        (within, held, None, CACHE, Again, held, Some(5)),
        (after, held, Some((4, "u")), CACHE, Older, held, Some(9)),
        (after, held, Some((5, "u")), CACHE, Take, held, Some(5)),
        (after, held, None, CACHE, Again, held, Some(9)),
    ];
    let made = |object: Option<(u64, &'static str)>| object.map(|(version, uid)| of_uid(version, uid));
    for (began, first, second, read, did, kept, doubt) in table {
        let case = format!("{began} {first:?} {second:?} {read:?}");
        let mut observed = Observed::new();
        let (settled, _) = observed.fetched(made(first).ok_or(Failure::NotFound), LIVE, 4, moment(7));
        assert!(matches!(settled, Settled::Done { went_back: false, .. }));
        observed.doubt(moment(3));
        observed.doubt(moment(5));
        let (settled, _) = observed.fetched(made(second).ok_or(Failure::NotFound), read, began, moment(9));
        let is_as_expected = match did {
            Take | Confirm => matches!(settled, Settled::Done { went_back: false, .. }),
            TakeBack => matches!(settled, Settled::Done { went_back: true, .. }),
            Older => matches!(settled, Settled::Older),
            Again => matches!(settled, Settled::Again),
        };
        assert!(is_as_expected, "{case}: {settled:?}");
        assert_eq!(observed.object().map(|doc| (version(doc), doc.1)), kept, "{case}");
        assert_eq!(observed.is_doubtful().then_some(observed.doubted()), doubt, "{case}");
    }
}

#[test]
fn what_was_asked_for_before_versions_went_back_is_asked_again() {
    let live = |observed: &mut Observed<Doc>, brings: u64, began, ended| {
        observed.fetched(Ok::<_, Failure>(doc(brings)), LIVE, began, moment(ended)).0
    };
    let mut observed = Observed::new();
    live(&mut observed, 9, 1, 2);
    // One that began later sees that versions went back; one from before that arrives after it.
    assert!(matches!(live(&mut observed, 3, 4, 5), Settled::Done { went_back: true, .. }));
    assert!(matches!(live(&mut observed, 9, 3, 6), Settled::Again));
    assert_eq!((observed.object().map(version), observed.is_doubtful()), (Some(3), true));
    assert!(matches!(live(&mut observed, 4, 7, 8), Settled::Done { went_back: false, .. }));
    assert!(!observed.is_doubtful());
    // So it is where the reflector says so, or its list.
    observed.went_back(moment(10));
    assert!(matches!(live(&mut observed, 9, 9, 11), Settled::Again));
    observed.replace(Some(doc(1)), Some(12), moment(13));
    assert!(matches!(live(&mut observed, 9, 12, 14), Settled::Again));
    assert_eq!(observed.object().map(version), Some(1));
}

#[test]
fn a_list_that_may_lag_proves_nothing() {
    let mut observed = reflected(Some(5), 4);
    observed.doubt(moment(6));
    // Of the reflector that runs, or of the next one.
    for unfollowed in [false, true] {
        if unfollowed {
            observed.unfollow();
        }
        assert_eq!(observed.replace(Some(doc(3)), None, moment(7)).as_ref().map(version), Some(3));
        assert_eq!(
            (observed.object().map(version), observed.is_ahead(), observed.is_doubtful()),
            (Some(5), true, true)
        );
    }
    // Nor does one that does not lag, as far as versions tell.
    observed.replace(Some(doc(6)), None, moment(8));
    assert_eq!((observed.object().map(version), observed.is_ahead(), observed.is_doubtful()), (Some(6), false, true));
    observed.replace(None, None, moment(9));
    assert_eq!((observed.object().map(version), observed.doubted()), (None, 9));
    // An absence that lags: an event after it may be from before the absence that was read.
    let mut observed = ahead(None);
    for moment in [moment(6), moment(7)] {
        observed.replace(None, None, moment);
        assert_eq!((observed.is_ahead(), observed.is_doubtful(), observed.at()), (true, false, at(5)));
    }
    observed.set(Some(doc(1)), moment(8));
    assert_eq!((observed.object().map(version), observed.is_doubtful()), (Some(1), true));
}

#[test]
fn what_is_held_may_have_to_be_as_new_as_a_stamp() {
    let mut observed = ahead(Some(1));
    observed.doubt_before(4, moment(6));
    assert!(!observed.is_doubtful());
    observed.doubt_before(5, moment(6));
    assert_eq!((observed.is_doubtful(), observed.doubted()), (true, 6));
}
