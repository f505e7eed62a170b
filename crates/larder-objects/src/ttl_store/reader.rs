//! A read that did not find the object fresh: lines up, fetches when it is its turn, and leaves nothing behind.

use super::TtlStore;
use super::flight::{Flight, Running, Ticket};
use super::known::Confirmed;
use super::published::Published;
use crate::effects::Panics;
use crate::fetched::Fetched;
use crate::{Fetch, GetError, ObjectKey, Outcome, Read, ReadKind, Ttl};
use larder_clock::Clock;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

type Answer<F> = Result<Read<<F as Fetch>::Object>, GetError<<F as Fetch>::Error>>;

/// A read of one object.
pub(super) struct Get<'s, 'a, 'b, F: Fetch, C: Clock, T: Ttl> {
    store: &'s TtlStore<F, C, T>,
    namespace: &'a str,
    name: &'b str,
    /// None before the first poll, and ever if the object is fresh then.
    reader: Option<Reader<'s, F, C, T>>,
}

impl<'s, 'a, 'b, F: Fetch, C: Clock, T: Ttl> Get<'s, 'a, 'b, F, C, T> {
    #[inline]
    pub(super) fn new(store: &'s TtlStore<F, C, T>, namespace: &'a str, name: &'b str) -> Self {
        Self { store, namespace, name, reader: None }
    }

    /// Goes on with a read that could not be answered at once.
    #[cold]
    fn poll_reader(&mut self, context: &mut Context<'_>) -> Poll<Answer<F>> {
        if self.reader.is_none() {
            self.reader = Reader::enter(self.store, self.namespace, self.name);
        }
        match &mut self.reader {
            Some(reader) => Pin::new(reader).poll(context),
            None => Poll::Ready(Err(GetError::NotRegistered { key: ObjectKey::new(self.namespace, self.name) })),
        }
    }
}

impl<F: Fetch, C: Clock, T: Ttl> Future for Get<'_, '_, '_, F, C, T> {
    type Output = Answer<F>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.reader.is_none() {
            let published = this.store.registry.published();
            // What most reads are. The answer is large, so it is built where it is returned.
            let fresh = |value: &Published<F::Object>| {
                let confirmed = value.confirmed();
                let ttl = this.store.ttl_if_fresh(confirmed)?;
                Some((Arc::clone(&value.object), confirmed, ttl))
            };
            if let Some((object, confirmed, ttl)) = published.read(this.namespace, this.name, fresh).flatten() {
                return Poll::Ready(Ok(Read::new(object, confirmed.fresh(ttl))));
            }
        }
        this.poll_reader(context)
    }
}

/// One reader in a flight.
struct Reader<'s, F: Fetch, C: Clock, T: Ttl> {
    store: &'s TtlStore<F, C, T>,
    flight: Arc<Flight<F::Object, F::Error>>,
    ticket: Ticket,
    /// The fetch that this reader polls; none while it is being polled, so that one that panics is not handed on.
    running: Option<Polled<F>>,
    /// What an answer of now would be called.
    outcome: Outcome,
    left: bool,
}

/// The fetch that a reader polls.
struct Polled<F: Fetch> {
    running: Running<F::Object, F::Error>,
    begun: Begun,
}

/// Who began the fetch that a reader polls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    /// The reader itself: the outcome is its answer.
    Here,
    /// One that went away: the outcome counts as that one's, and the reader judges afresh.
    ByAnother,
}

/// What a reader is to do next.
enum Step<A> {
    Answer(A),
    Begin(ReadKind),
    GoOn,
    Wait,
}

impl<'s, F: Fetch, C: Clock, T: Ttl> Reader<'s, F, C, T> {
    /// Lines up for the object; `None` if it is not registered.
    fn enter(store: &'s TtlStore<F, C, T>, namespace: &str, name: &str) -> Option<Self> {
        let (flight, ticket) = store.registry.enter(namespace, name)?;
        Some(Self { store, flight, ticket, running: None, outcome: Outcome::Held, left: false })
    }

    /// Looks at the queue: answers if the object is fresh, else fetches or waits.
    ///
    /// This is where a reader decides. A policy by which those who wait share a failure, or are answered with the last
    /// known, belongs here.
    fn step(&mut self, context: &Context<'_>) -> Step<Answer<F>> {
        // Cloned before the lock is taken, and what it takes the place of dropped after: both are foreign code.
        let waker = context.waker().clone();
        let mut queue = self.flight.queue.lock();
        let has_turn = queue.has_turn(self.ticket);
        if has_turn && let Some(running) = queue.take_left() {
            self.running = Some(Polled { running, begun: Begun::ByAnother });
            return Step::GoOn;
        }
        if let Some(held) = self.store.fresh_known(&queue.known) {
            return Step::Answer(held.into_answer(&self.flight.key, self.outcome));
        }
        if self.outcome == Outcome::Held {
            self.outcome = Outcome::of_asking(queue.known.is_object());
        }
        if has_turn {
            if queue.is_superseding() {
                // A plain count: nothing else is read on the strength of it.
                self.store.new_reference_fetches.fetch_add(1, Relaxed);
            }
            return Step::Begin(queue.known.next_read());
        }
        let displaced = queue.wait(self.ticket, waker);
        drop(queue);
        drop(displaced);
        Step::Wait
    }

    /// Takes in what a fetch brought. The answer, if it was this reader's own.
    fn complete(&mut self, polled: Polled<F>, fetched: Fetched<F::Object, F::Error>) -> Option<Answer<F>> {
        let Polled { running: Running { read, future }, begun } = polled;
        let (store, called) = (self.store, self.outcome);
        let key = &self.flight.key;
        let ((answer, wakers, settled, known), displaced) = store.registry.settle(&self.flight, |queue| {
            let confirmed = Confirmed { at: store.clock.now(), source: store.fetch.source(read) };
            let (settled, known) = queue.take_in(fetched, confirmed);
            // If it is fresh, all who wait can leave at once; else the next one has to see to it.
            let mut wakers = if store.fresh_known(&queue.known).is_some() { queue.wake_all() } else { Vec::new() };
            let answer = (begun == Begun::Here).then(|| {
                wakers.extend(queue.pass_on(None).0);
                queue.known.answer(key, &settled, store.ttl.now(), called)
            });
            (answer, wakers, settled, known)
        });
        self.left = answer.is_some();
        let mut panics = Panics::default();
        panics.catch(|| drop(future));
        panics.catch(|| drop(settled));
        panics.catch(|| drop(known));
        displaced.drop_in(&mut panics);
        panics.wake_each(wakers);
        panics.resume();
        answer
    }

    /// Leaves the queue, and hands the turn and the fetch to the next if this reader had them.
    fn leave(&mut self) {
        if std::mem::replace(&mut self.left, true) {
            return;
        }
        let mut queue = self.flight.queue.lock();
        if !queue.has_turn(self.ticket) {
            let waker = queue.leave(self.ticket);
            drop(queue);
            drop(waker);
            return;
        }
        drop(queue);
        // Nobody else can take the turn away, so it is still here.
        let running = self.running.take().map(|polled| polled.running);
        let ((waker, unwanted), displaced) = self.store.registry.settle(&self.flight, |queue| queue.pass_on(running));
        let mut panics = Panics::default();
        panics.drop_each(unwanted);
        displaced.drop_in(&mut panics);
        panics.wake_each(waker);
        panics.resume();
    }
}

impl<F: Fetch, C: Clock, T: Ttl> Future for Reader<'_, F, C, T> {
    type Output = Answer<F>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            if let Some(mut polled) = this.running.take() {
                let Poll::Ready(fetched) = polled.running.future.as_mut().poll(context) else {
                    this.running = Some(polled);
                    return Poll::Pending;
                };
                if let Some(answer) = this.complete(polled, fetched.into()) {
                    return Poll::Ready(answer);
                }
            }
            match this.step(context) {
                Step::Answer(answer) => {
                    this.leave();
                    return Poll::Ready(answer);
                }
                Step::Begin(read) => {
                    let future = Box::pin(this.store.fetch.fetch(&this.flight.key, read));
                    this.running = Some(Polled { running: Running { read, future }, begun: Begun::Here });
                }
                Step::GoOn => {}
                Step::Wait => return Poll::Pending,
            }
        }
    }
}

impl<F: Fetch, C: Clock, T: Ttl> Drop for Reader<'_, F, C, T> {
    fn drop(&mut self) {
        self.leave();
    }
}
