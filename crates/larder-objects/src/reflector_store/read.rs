//! Reads of what is not [published](super::published): under the lock, once a reflector or a fetch has said something.

use super::item::{Flight, SharedFetch, Verdict, Watch};
use super::observed::Settled;
use super::{AfterOf, ItemOf, LinkOf, ReflectorStore, Rules, Shard, count, link_of};
use crate::fetched::Fetched;
use crate::{
    Fetch, FetchError, Freshness, GetError, Held, Object, ObjectKey, Outcome, Read, ReadKind, Reflectors, Source,
    StaleReason,
};
use futures_util::FutureExt;
use larder_clock::Clock;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

pub(super) type Answer<F> = Result<Read<<F as Fetch>::Object>, GetError<<F as Fetch>::Error>>;

/// What a reader does next.
enum Step<F: Fetch> {
    Answer(Answer<F>),
    /// Goes on when the fetch has ended.
    Join(SharedFetch<F::Error>),
}

/// A reader that may wait for a reflector; its waker goes with it.
struct Waiter<'c, F, R, C, P>
where
    F: Fetch,
    R: Reflectors<Object = F::Object, Error = F::Error>,
    C: Clock,
    P: Rules,
{
    cache: &'c ReflectorStore<F, R, C, P>,
    key: ObjectKey,
    ticket: Option<u64>,
    /// What an answer of now would be called.
    outcome: Outcome,
}

impl<F: Fetch, R: Reflectors<Object = F::Object, Error = F::Error>, C: Clock, P: Rules> ReflectorStore<F, R, C, P> {
    /// Reads an object that is not [published](Self::get_published).
    pub(super) async fn get_unpublished(&self, namespace: &str, name: &str) -> Answer<F> {
        let mut waiter =
            Waiter { cache: self, key: ObjectKey::new(namespace, name), ticket: None, outcome: Outcome::Held };
        loop {
            match poll_fn(|context| self.step(&mut waiter, context)).await {
                Step::Answer(answer) => return answer,
                Step::Join(fetch) => {
                    let settled = fetch.await;
                    if let Some(answer) = self.answer_settled(&waiter, &settled) {
                        return answer;
                    }
                }
            }
        }
    }

    /// Looks at the object under its lock.
    fn step(&self, waiter: &mut Waiter<'_, F, R, C, P>, context: &Context<'_>) -> Poll<Step<F>> {
        // Cloned before the lock is taken: it is foreign code, as is dropping one.
        let mut waker = Some(context.waker().clone());
        let key = waiter.key.clone();
        let polling = self.rules.polling();
        self.change(key.namespace(), |shard, after| {
            let moment = self.moment(shard);
            let Shard { items, namespaces, .. } = shard;
            let Some(item) = items.get_mut(&key) else {
                return Poll::Ready(Step::Answer(Err(GetError::NotRegistered { key: key.clone() })));
            };
            let queued = waiter.ticket.take();
            after.dropped_wakers.extend(queued.and_then(|ticket| item.leave(ticket)));
            let verdict = {
                let link = link_of(&item.watch, namespaces, key.namespace());
                item.judge(link, polling, moment.at, self.base)
            };
            // It is read when the reader comes and when it is answered, not all the while that it waits.
            if queued.is_none() || !matches!(verdict, Verdict::Wait) {
                item.access(self.base, moment.at);
            }
            if matches!(verdict, Verdict::Fetch(_) | Verdict::Start | Verdict::Wait) && waiter.outcome == Outcome::Held
            {
                waiter.outcome = Outcome::of_asking(item.observed.object().is_some());
            }
            let reason = match verdict {
                Verdict::Fresh => None,
                Verdict::Stale(reason) => Some(reason),
                Verdict::Fail(source) => {
                    return Poll::Ready(Step::Answer(Err(GetError::Fetch { key: key.clone(), source })));
                }
                Verdict::Fetch(kind) => return Poll::Ready(Step::Join(self.fetch(&key, item, kind, moment))),
                Verdict::Start => {
                    self.link(&key, item, moment, after);
                    item.wait(moment.stamp, &mut waker);
                    waiter.ticket = Some(moment.stamp);
                    return Poll::Pending;
                }
                Verdict::Wait => {
                    item.wait(moment.stamp, &mut waker);
                    waiter.ticket = Some(moment.stamp);
                    return Poll::Pending;
                }
            };
            let link = link_of(&item.watch, namespaces, key.namespace());
            let freshness = item.freshness(link, polling, (moment.at, self.base), reason);
            // Nobody was asked by a reader that is answered while the reflector fails.
            let outcome = if freshness.is_fresh() { waiter.outcome } else { Outcome::Held };
            let answer = answer(&key, item, freshness, outcome);
            if freshness.is_fresh() {
                self.hold(&key, item, after);
            }
            Poll::Ready(Step::Answer(answer))
        })
    }

    /// The fetch that a reader of now is answered by: one that is under way, if it is good enough, or a new one.
    fn fetch(
        &self,
        key: &ObjectKey,
        item: &mut ItemOf<F, R>,
        kind: ReadKind,
        moment: super::Moment,
    ) -> SharedFetch<F::Error> {
        if let Some(flight) = &item.flight
            && (flight.kind == ReadKind::Consistent || kind == ReadKind::ApiServerCache)
            && flight.began > item.observed.doubted()
            && let Some(fetch) = flight.fetch.upgrade()
        {
            return fetch;
        }
        if item.observed.is_doubtful() {
            count(&self.counts.verified);
        } else {
            count(&self.counts.polled);
            item.polled = Some(moment.at);
        }
        let (this, told, began) = (self.this.upgrade(), key.clone(), moment.stamp);
        let fetch = async move {
            match this {
                Some(this) => {
                    let fetched = this.fetch.fetch(&told, kind).await;
                    this.settle(&told, fetched.into(), kind, began)
                }
                // The store is being dropped, and with it its readers.
                None => Settled::Again,
            }
        };
        let fetch = fetch.boxed().shared();
        item.flight = fetch.downgrade().map(|fetch| Box::new(Flight { kind, began, fetch }));
        fetch
    }

    /// Takes in what a fetch brought.
    fn settle(
        &self,
        key: &ObjectKey,
        fetched: Fetched<F::Object, F::Error>,
        kind: ReadKind,
        began: u64,
    ) -> Settled<F::Error> {
        self.change(key.namespace(), |shard, after| {
            let moment = self.moment(shard);
            let Shard { items, namespaces, .. } = shard;
            let Some(item) = items.get_mut(key) else {
                after.discard(fetched);
                return Settled::Again;
            };
            if began < item.born {
                // It was released, and referenced again: this is from before the reference.
                after.discard(fetched);
                return Settled::Again;
            }
            // One that came after it and begins anew is another one's.
            item.flight.take_if(|flight| flight.began == began);
            let read = (kind, self.fetch.source(kind));
            let (settled, displaced) = item.observed.fetched(fetched, read, began, moment);
            after.objects.extend(displaced);
            // Those who wait for a reflector that is silent need not any more.
            after.wakers.extend(item.wake_all());
            if matches!(settled, Settled::Done { went_back: true, .. }) {
                count(&self.counts.went_back);
            }
            if matches!(item.watch, Watch::Held) && !item.observed.object().is_some_and(|object| object.is_immutable())
            {
                // Another object, or none: whoever reads it next has it watched again.
                item.watch = if P::POLLS { Watch::Off } else { Watch::Idle(moment.at) };
            }
            let ahead = item.observed.is_ahead();
            let link = link_of(&item.watch, namespaces, key.namespace());
            if let Some(link) = link
                && ahead
            {
                link.show(true);
            }
            self.publish(key, item, link, after);
            settled
        })
    }

    /// The answer to those who queued for a fetch; `None` if they have to look again.
    fn answer_settled(&self, waiter: &Waiter<'_, F, R, C, P>, settled: &Settled<F::Error>) -> Option<Answer<F>> {
        let key = &waiter.key;
        let polling = self.rules.polling();
        self.change(key.namespace(), |shard, after| {
            let Shard { items, namespaces, .. } = shard;
            let Some(item) = items.get_mut(key) else {
                return Some(Err(GetError::NotRegistered { key: key.clone() }));
            };
            let reason = match settled {
                Settled::Again => return None,
                // What has come since is not known to be as new.
                Settled::Done { at, .. } if item.observed.arrived() > *at && item.observed.is_doubtful() => {
                    return None;
                }
                Settled::Done { .. } => None,
                Settled::Older => Some(StaleReason::OlderVersion),
                Settled::Failed(source) => {
                    if !item.observed.is_known() {
                        return Some(Err(GetError::Fetch { key: key.clone(), source: Arc::clone(source) }));
                    }
                    Some(StaleReason::FetchFailed { class: source.class() })
                }
            };
            if !item.observed.is_known() {
                return None;
            }
            let link = link_of(&item.watch, namespaces, key.namespace());
            let freshness = item.freshness(link, polling, (self.clock.now(), self.base), reason);
            let outcome = if reason.is_none() { waiter.outcome } else { Outcome::FetchFailed };
            let answer = answer(key, item, freshness, outcome);
            if reason.is_none() {
                self.hold(key, item, after);
            }
            Some(answer)
        })
    }

    /// An immutable object that is read is held from here on, and watched no more.
    fn hold(&self, key: &ObjectKey, item: &mut ItemOf<F, R>, after: &mut AfterOf<F, R>) {
        let immutable = item.observed.object().is_some_and(|object| object.is_immutable());
        if !immutable || !self.options.hold_immutable || item.observed.is_doubtful() {
            return;
        }
        if matches!(item.watch, Watch::Own(_) | Watch::Off | Watch::Idle(_)) {
            item.unlink(Watch::Held, self.base, after);
            // Those who wait for its reflector need not any more.
            after.wakers.extend(item.wake_all());
            self.publish(key, item, None::<&LinkOf<F, R>>, after);
        }
    }
}

fn answer<O: Object, E, H>(
    key: &ObjectKey,
    item: &super::Item<O, E, H>,
    freshness: Freshness,
    outcome: Outcome,
) -> Result<Read<O>, GetError<E>>
where
    E: FetchError,
{
    // A watch confirms what is held without being asked.
    let by_watch = outcome == Outcome::Refreshed && freshness.source == Source::Watch;
    let outcome = if by_watch { Outcome::Held } else { outcome };
    Held::new(item.observed.object().cloned(), freshness).into_answer(key, outcome)
}

impl<F, R, C, P> Drop for Waiter<'_, F, R, C, P>
where
    F: Fetch,
    R: Reflectors<Object = F::Object, Error = F::Error>,
    C: Clock,
    P: Rules,
{
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        self.cache.change(self.key.namespace(), |shard, after| {
            if let Some(item) = shard.items.get_mut(&self.key) {
                after.dropped_wakers.extend(item.leave(ticket));
            }
        });
    }
}
