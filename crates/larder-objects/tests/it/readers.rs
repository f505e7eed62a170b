//! Readers that wait, and an executor that polls only those that were woken.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Set when a reader is woken.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        // A single thread runs the test.
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Reader<A> {
    future: Pin<Box<dyn Future<Output = A>>>,
    woken: Arc<Woken>,
}

/// The readers that wait, by the numbers in which they came.
pub(crate) struct Readers<A> {
    waiting: BTreeMap<usize, Reader<A>>,
    next: usize,
}

impl<A> Readers<A> {
    pub(crate) fn new() -> Self {
        Self { waiting: BTreeMap::new(), next: 0 }
    }

    /// A reader arrives; it is polled when readers are run. The number by which it is known.
    pub(crate) fn begin(&mut self, read: impl Future<Output = A> + 'static) -> usize {
        let id = self.next;
        self.next += 1;
        self.waiting.insert(id, Reader { future: Box::pin(read), woken: Arc::new(Woken(AtomicBool::new(true))) });
        id
    }

    /// A reader goes away.
    pub(crate) fn drop(&mut self, id: usize) {
        self.waiting.remove(&id);
    }

    /// The readers that wait.
    pub(crate) fn waiting(&self) -> Vec<usize> {
        self.waiting.keys().copied().collect()
    }

    /// Polls readers that were woken until none is, or as often as said; `pick` chooses among those that are. The answers
    /// by reader.
    pub(crate) fn run(&mut self, polls: usize, mut pick: impl FnMut(usize) -> usize) -> BTreeMap<usize, A> {
        let mut answers = BTreeMap::new();
        for _ in 0..polls {
            let is_woken = |reader: &Reader<A>| reader.woken.0.load(Ordering::Relaxed);
            let woken: Vec<usize> =
                self.waiting.iter().filter(|(_, reader)| is_woken(reader)).map(|(&id, _)| id).collect();
            if woken.is_empty() {
                break;
            }
            let id = woken[pick(woken.len())];
            let reader = self.waiting.get_mut(&id).unwrap();
            reader.woken.0.store(false, Ordering::Relaxed);
            let waker = Waker::from(Arc::clone(&reader.woken));
            if let Poll::Ready(answer) = reader.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.waiting.remove(&id);
                answers.insert(id, answer);
            }
        }
        answers
    }
}
