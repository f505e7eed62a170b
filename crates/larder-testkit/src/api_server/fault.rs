//! Faults on command: what the simulated API server does wrong, and to which requests.

use super::object::Kind;
use super::request::{Target, Verb};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// What goes wrong with a request, and with which. Built from one of the constructors, narrowed by the other methods.
///
/// ```
/// use larder_testkit::api_server::{Fault, Kind, Verb};
/// use std::time::Duration;
///
/// let twice_busy = Fault::status(429).retry_after(Duration::from_secs(2)).verb(Verb::Get).kind(Kind::Secret).times(2);
/// let one_hangs = Fault::hang().namespace("shop").name("tls");
/// # let _ = (twice_busy, one_hangs);
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    pub(crate) action: Action,
    verb: Option<Verb>,
    kind: Option<Kind>,
    namespace: Option<String>,
    name: Option<String>,
    times: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Status { code: u16, message: Option<String>, retry_after: Option<Duration> },
    Hang,
    Slow(Duration),
    Truncate,
    Garbage,
    WrongShape,
    Cut,
}

/// Names a fault that was injected, to take it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FaultId(u64);

impl Fault {
    fn new(action: Action) -> Self {
        Self { action, verb: None, kind: None, namespace: None, name: None, times: None }
    }

    /// Answers with this HTTP status and a matching `metav1.Status`.
    pub fn status(code: u16) -> Self {
        Self::new(Action::Status { code, message: None, retry_after: None })
    }

    /// Never answers, until the fault is taken back; then the request is answered.
    pub fn hang() -> Self {
        Self::new(Action::Hang)
    }

    /// Answers after a while.
    pub fn slow(by: Duration) -> Self {
        Self::new(Action::Slow(by))
    }

    /// Sends half of the answer's body and then cuts it off. A watch is cut in the middle of its first event.
    pub fn truncate() -> Self {
        Self::new(Action::Truncate)
    }

    /// Answers 200 with a body that is not JSON.
    pub fn garbage() -> Self {
        Self::new(Action::Garbage)
    }

    /// Answers 200 with JSON that is neither an object of the kind nor a Status.
    pub fn wrong_shape() -> Self {
        Self::new(Action::WrongShape)
    }

    /// Closes the connection without an answer; with HTTP/2 the others on it are cut too.
    pub fn cut() -> Self {
        Self::new(Action::Cut)
    }

    /// With [`status`](Self::status): the header `Retry-After`, in whole seconds, rounded up.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        if let Action::Status { retry_after, .. } = &mut self.action {
            *retry_after = Some(after);
        }
        self
    }

    /// With [`status`](Self::status): what the `metav1.Status` says.
    #[must_use]
    pub fn message(mut self, text: &str) -> Self {
        if let Action::Status { message, .. } = &mut self.action {
            *message = Some(text.to_owned());
        }
        self
    }

    /// Only for this verb.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Only for this kind.
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Only for this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only for the object of this name, whether named in the path or by the field selector.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only for so many requests.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    fn matches(&self, target: &Target) -> bool {
        self.times != Some(0)
            && self.verb.is_none_or(|verb| verb == target.verb)
            && self.kind.is_none_or(|kind| Some(kind) == target.kind)
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == target.namespace)
            && self.name.as_ref().is_none_or(|name| *name == target.name)
    }
}

/// The faults that are in force.
pub(crate) struct Faults {
    list: Mutex<Vec<(FaultId, Fault)>>,
    next: AtomicU64,
    /// Counts the removals, so that requests that hang can look whether it was theirs.
    removals: watch::Sender<u64>,
}

impl Default for Faults {
    fn default() -> Self {
        Self { list: Mutex::default(), next: AtomicU64::new(1), removals: watch::channel(0).0 }
    }
}

impl Faults {
    pub(crate) fn inject(&self, fault: Fault) -> FaultId {
        // Only uniqueness matters.
        let id = FaultId(self.next.fetch_add(1, Ordering::Relaxed));
        self.list.lock().push((id, fault));
        id
    }

    pub(crate) fn remove(&self, id: FaultId) -> bool {
        let mut list = self.list.lock();
        let before = list.len();
        list.retain(|(other, _)| *other != id);
        let removed = list.len() < before;
        drop(list);
        self.removals.send_modify(|count| *count += 1);
        removed
    }

    pub(crate) fn clear(&self) {
        self.list.lock().clear();
        self.removals.send_modify(|count| *count += 1);
    }

    /// The first fault that the request meets, in the order of injection; one of its times is used up.
    pub(crate) fn meet(&self, target: &Target) -> Option<(FaultId, Action)> {
        let mut list = self.list.lock();
        let (id, fault) = list.iter_mut().find(|(_, fault)| fault.matches(target))?;
        if let Some(times) = &mut fault.times {
            *times -= 1;
        }
        Some((*id, fault.action.clone()))
    }

    /// Waits until the fault is taken back.
    pub(crate) async fn removed(&self, id: FaultId) {
        let mut removals = self.removals.subscribe();
        while self.list.lock().iter().any(|(other, _)| *other == id) {
            if removals.changed().await.is_err() {
                return;
            }
        }
    }
}
