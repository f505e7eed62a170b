//! Faults of the runtime's calls, their latencies, and how often they are made.

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic::Status;

/// A call of the runtime that the simulation serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Call {
    /// `Version`.
    Version,
    /// `Status`.
    Status,
    /// `ListPodSandbox`, and `StreamPodSandboxes`.
    ListPodSandbox,
    /// `ListContainers`, and `StreamContainers`.
    ListContainers,
    /// `PodSandboxStatus`.
    PodSandboxStatus,
    /// `ContainerStatus`.
    ContainerStatus,
    /// `GetContainerEvents`: the opening of the stream.
    GetContainerEvents,
    /// `ListImages`, `ImageStatus` and `ImageFsInfo` of the image service.
    Images,
}

/// What goes wrong with a call, and with which.
///
/// ```
/// use larder_testkit::cri_runtime::{Call, CallFault};
/// let one_hangs = CallFault::hang().call(Call::PodSandboxStatus).id("0a1b…");
/// let thrice_gone = CallFault::fail(tonic::Code::Unavailable, "containerd is restarting").times(3);
/// # let _ = (one_hangs, thrice_gone);
/// ```
#[derive(Clone, Debug)]
pub struct CallFault {
    action: Action,
    call: Option<Call>,
    id: Option<String>,
    times: Option<u64>,
}

#[derive(Clone, Debug)]
enum Action {
    Hang,
    Slow(Duration),
    Fail(tonic::Code, String),
    Empty,
}

/// Names a fault that was injected, to take it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallFaultId(u64);

impl CallFault {
    fn new(action: Action) -> Self {
        Self { action, call: None, id: None, times: None }
    }

    /// Never answers, until the fault is taken back; then the call is answered.
    pub fn hang() -> Self {
        Self::new(Action::Hang)
    }

    /// Answers that much later than usual.
    pub fn slow(by: Duration) -> Self {
        Self::new(Action::Slow(by))
    }

    /// Fails with a code and message.
    pub fn fail(code: tonic::Code, message: &str) -> Self {
        Self::new(Action::Fail(code, message.to_owned()))
    }

    /// Answers with a message that has nothing in it: no status, no items.
    pub fn empty() -> Self {
        Self::new(Action::Empty)
    }

    /// Only for this call.
    #[must_use]
    pub fn call(mut self, call: Call) -> Self {
        self.call = Some(call);
        self
    }

    /// Only for calls about the sandbox or container of this ID.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    /// Only for so many calls.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    fn matches(&self, call: Call, id: &str) -> bool {
        self.times != Some(0)
            && self.call.is_none_or(|own| own == call)
            && self.id.as_deref().is_none_or(|own| own == id)
    }
}

/// How often a call was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallCounts {
    /// In all.
    pub made: u64,
    /// That are being served now.
    pub open: u64,
    /// The most that were being served at one time.
    pub peak: u64,
}

/// The faults, latencies and counters of all calls.
pub(crate) struct Calls {
    state: Mutex<State>,
    removals: watch::Sender<u64>,
}

struct State {
    faults: Vec<(CallFaultId, CallFault)>,
    next: u64,
    latencies: BTreeMap<Call, RangeInclusive<Duration>>,
    counts: BTreeMap<Call, CallCounts>,
    rng: StdRng,
}

/// What is to be answered after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Normal,
    Empty,
}

/// A call that is being served.
struct Open {
    calls: Arc<Calls>,
    call: Call,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.calls.state.lock().counts.entry(self.call).or_default().open -= 1;
    }
}

impl Calls {
    pub(crate) fn new(seed: u64) -> Self {
        let state = State {
            faults: Vec::new(),
            next: 1,
            latencies: BTreeMap::new(),
            counts: BTreeMap::new(),
            rng: StdRng::seed_from_u64(seed),
        };
        Self { state: Mutex::new(state), removals: watch::channel(0).0 }
    }

    pub(crate) fn inject(&self, fault: CallFault) -> CallFaultId {
        let mut state = self.state.lock();
        let id = CallFaultId(state.next);
        state.next += 1;
        state.faults.push((id, fault));
        id
    }

    pub(crate) fn remove(&self, id: CallFaultId) -> bool {
        let mut state = self.state.lock();
        let before = state.faults.len();
        state.faults.retain(|(other, _)| *other != id);
        let removed = state.faults.len() < before;
        drop(state);
        self.removals.send_modify(|count| *count += 1);
        removed
    }

    pub(crate) fn clear(&self) {
        self.state.lock().faults.clear();
        self.removals.send_modify(|count| *count += 1);
    }

    pub(crate) fn set_latency(&self, call: Call, latency: RangeInclusive<Duration>) {
        self.state.lock().latencies.insert(call, latency);
    }

    pub(crate) fn counts(&self, call: Call) -> CallCounts {
        self.state.lock().counts.get(&call).copied().unwrap_or_default()
    }

    /// Serves a call, whose right answer `answer` gives once all delays are over.
    pub(crate) async fn serve<T: Default>(
        self: &Arc<Self>,
        call: Call,
        id: &str,
        answer: impl FnOnce() -> Result<T, Status>,
    ) -> Result<T, Status> {
        let (_open, latency, met) = self.begin(call, id);
        tokio::time::sleep(latency).await;
        let mut outcome = Outcome::Normal;
        match met {
            None => {}
            Some((fault, Action::Hang)) => self.removed(fault).await,
            Some((_, Action::Slow(by))) => tokio::time::sleep(by).await,
            Some((_, Action::Fail(code, message))) => return Err(Status::new(code, message)),
            Some((_, Action::Empty)) => outcome = Outcome::Empty,
        }
        match outcome {
            Outcome::Normal => answer(),
            Outcome::Empty => Ok(T::default()),
        }
    }

    fn begin(self: &Arc<Self>, call: Call, id: &str) -> (Open, Duration, Option<(CallFaultId, Action)>) {
        let mut state = self.state.lock();
        let counts = state.counts.entry(call).or_default();
        counts.made += 1;
        counts.open += 1;
        counts.peak = counts.peak.max(counts.open);
        let open = Open { calls: Arc::clone(self), call };
        let latency = match state.latencies.get(&call).cloned() {
            None => Duration::ZERO,
            Some(range) => state.rng.random_range(range),
        };
        let met = state.faults.iter_mut().find(|(_, fault)| fault.matches(call, id)).map(|(id, fault)| {
            if let Some(times) = &mut fault.times {
                *times -= 1;
            }
            (*id, fault.action.clone())
        });
        (open, latency, met)
    }

    async fn removed(&self, id: CallFaultId) {
        let mut removals = self.removals.subscribe();
        while self.state.lock().faults.iter().any(|(other, _)| *other == id) {
            if removals.changed().await.is_err() {
                return;
            }
        }
    }
}
