//! Foreign code that waits until no lock is held.
//!
//! # Guarantees
//!
//! - **Each runs**: a waker, a `Drop` or a reflector's start that panics keeps none of the others from running. The first
//!   panic goes on once all have run, unless the thread is unwinding already; the panic hook reports each.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;

/// What a change of references leads to, run by the caller once it holds no lock: readers are woken, objects and reflectors
/// are dropped, reflectors are started.
///
/// [`run`](Self::run) them soon: readers wait for them. Effects that are dropped run too. If one of them panics, the others
/// run first; then the first panic goes on.
///
/// ```
/// use larder_objects::Effects;
/// use std::cell::Cell;
///
/// let ran = Cell::new(0);
/// let effects = Effects::none().and(Effects::new(|| ran.set(1)));
/// assert_eq!(ran.get(), 0);
/// effects.run();
/// assert_eq!(ran.get(), 1);
/// ```
#[must_use = "effects wait until they are run: call `run` where no lock is held"]
pub struct Effects<'s> {
    run: Option<Box<dyn FnOnce() + 's>>,
}

impl<'s> Effects<'s> {
    /// Nothing is left to do.
    pub const fn none() -> Self {
        Self { run: None }
    }

    /// Runs a function, which may run foreign code.
    pub fn new(run: impl FnOnce() + 's) -> Self {
        Self { run: Some(Box::new(run)) }
    }

    /// These effects, then others.
    pub fn and(mut self, mut other: Self) -> Self {
        match (self.run.take(), other.run.take()) {
            (None, run) | (run, None) => Self { run },
            (Some(first), Some(second)) => Self::new(move || {
                let mut panics = Panics::default();
                panics.catch(first);
                panics.catch(second);
                panics.resume();
            }),
        }
    }

    /// Runs them.
    pub fn run(self) {
        drop(self);
    }
}

impl Drop for Effects<'_> {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            let mut panics = Panics::default();
            panics.catch(run);
            panics.resume();
        }
    }
}

impl fmt::Debug for Effects<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effects").field("some", &self.run.is_some()).finish()
    }
}

/// The first panic of several pieces of foreign code that all run.
#[derive(Default)]
pub(crate) struct Panics(Option<Box<dyn Any + Send>>);

impl Panics {
    /// Runs foreign code. What it leaves half done when it panics is its own.
    pub(crate) fn catch(&mut self, run: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            match &self.0 {
                None => self.0 = Some(panic),
                // To drop it could panic again.
                Some(_) => std::mem::forget(panic),
            }
        }
    }

    /// Drops each.
    pub(crate) fn drop_each<T>(&mut self, all: impl IntoIterator<Item = T>) {
        all.into_iter().for_each(|each| self.catch(|| drop(each)));
    }

    /// Wakes each.
    pub(crate) fn wake_each(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        wakers.into_iter().for_each(|waker| self.catch(|| waker.wake()));
    }

    /// Goes on with the first panic, if there was one.
    pub(crate) fn resume(self) {
        match self.0 {
            Some(panic) if std::thread::panicking() => std::mem::forget(panic),
            Some(panic) => resume_unwind(panic),
            None => {}
        }
    }
}
