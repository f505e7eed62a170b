//! Who reads what when, and how stale the answers are.
//!
//! Every agent gets the same reads at the same times. A pod reads its four objects when it starts, each again and again until
//! it has it. From then on it reads the two that it mounts once a sync period, at times that spread over the period and
//! differ from one to the next, but are never a whole period apart: the TTL is as long as the period, and what is read on
//! the very moment that it expires would be a refresh for one agent and none for the other, by luck.

use crate::agent::Running;
use crate::row::Plan;
use crate::workload::{Object, Workload, pod_name};
use anyhow::{Context as _, Result, bail, ensure};
use futures_util::future::{try_join, try_join_all};
use larder_testbed::poll::until;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How many pods there are.
pub(crate) const PODS: usize = 100;
/// How many of them a rollout replaces.
const ROLLED_OUT: usize = 20;
/// How many updates there are.
const UPDATES: usize = 40;
/// How long a pod may take to get its objects.
const START_LIMIT: Duration = Duration::from_mins(2);
/// How long a pod that did not get an object waits before it asks again.
const RETRY: Duration = Duration::from_millis(500);

/// A read that was answered with an object.
struct Reading {
    object: Object,
    began: Instant,
    version: usize,
}

/// What the readers saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Reads that were answered with an object.
    pub(crate) reads: usize,
    /// Reads of pods that start that were not, and were made again.
    pub(crate) retried: usize,
    /// Other reads that were not, each with what was said.
    pub(crate) failed: Vec<String>,
    /// How many got an older version than the one before.
    pub(crate) backwards: usize,
    /// For every update, how long after it a read that began then still got an older version; sorted. Zero where the first
    /// read after it got it.
    pub(crate) staleness: Vec<Duration>,
    /// How many reads got an older version than there was when they began.
    pub(crate) stale: usize,
}

/// The readers of one agent.
pub(crate) struct Readers<'a> {
    agent: &'a Running,
    workload: &'a Workload,
    log: Mutex<Vec<Reading>>,
    retried: Mutex<usize>,
    failed: Mutex<Vec<String>>,
    /// When each update of an object had been acknowledged; the n-th made version n + 1.
    updates: Mutex<HashMap<Object, Vec<Instant>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Readers<'a> {
    pub(crate) fn new(agent: &'a Running, workload: &'a Workload) -> Self {
        Self {
            agent,
            workload,
            log: Mutex::default(),
            retried: Mutex::default(),
            failed: Mutex::default(),
            updates: Mutex::default(),
        }
    }

    /// One read.
    async fn read(&self, object: Object) -> Result<()> {
        let began = Instant::now();
        let (code, body) = self.agent.get(&object.path()).await?;
        ensure!(code == 200, "{code}: {}", body.trim_end());
        let version = object.version(&body).with_context(|| format!("read {body}"))?;
        locked(&self.log).push(Reading { object, began, version });
        Ok(())
    }

    /// A pod starts: it needs each of its objects.
    async fn start_pod(&self, pod: usize, generation: usize) -> Result<()> {
        let name = pod_name(pod, generation);
        self.agent.until_registered(&crate::workload::namespace(pod), &name).await?;
        let deadline = Instant::now() + START_LIMIT;
        for object in Object::of_pod(pod) {
            while let Err(error) = self.read(object).await {
                if Instant::now() > deadline {
                    bail!("pod {name} does not get {}: {error:#}", object.path());
                }
                *locked(&self.retried) += 1;
                tokio::time::sleep(RETRY).await;
            }
        }
        Ok(())
    }

    /// All pods start at once, as after a reboot.
    pub(crate) async fn start(&self, pods: usize) -> Result<()> {
        try_join_all((0..pods).map(|pod| self.start_pod(pod, 0))).await?;
        Ok(())
    }

    /// The sync periods, with the updates and, a quarter of the way through, the rollout: before anything counts as idle, for
    /// when exactly an idle watch stops is a matter of whose minute has passed.
    pub(crate) async fn run(&self, plan: Plan) -> Result<()> {
        // A whole period after the last read, so that every agent's TTL has passed before the first one.
        let start = Instant::now() + plan.sync_period;
        let pods = try_join_all((0..PODS).map(|pod| self.sync(pod, plan, start)));
        try_join(pods, self.update(plan, start)).await?;
        sleep_until(start + plan.sync_period * plan.periods).await;
        Ok(())
    }

    async fn sync(&self, pod: usize, plan: Plan, start: Instant) -> Result<()> {
        for period in 0..plan.periods {
            sleep_until(start + plan.sync_period.mul_f64(f64::from(period) + offset(pod, period))).await;
            if period == plan.periods / 4 && pod < ROLLED_OUT {
                self.replace(pod).await?;
                continue;
            }
            for object in Object::of_pod(pod).into_iter().filter(|object| object.mounted) {
                if let Err(error) = self.read(object).await {
                    locked(&self.failed).push(format!("{}: {error:#}", object.path()));
                }
            }
        }
        Ok(())
    }

    /// Updates of mounted objects, spread over all periods but the last, in which the last of them is read.
    async fn update(&self, plan: Plan, start: Instant) -> Result<()> {
        let span = plan.sync_period * (plan.periods - 1);
        for n in 0..UPDATES {
            sleep_until(start + span.mul_f64(fraction(n, UPDATES))).await;
            let object = Object::of_pod((n * 37) % PODS)[n % 2];
            let version = locked(&self.updates).get(&object).map_or(0, Vec::len) + 1;
            self.workload.update(object, version).await?;
            locked(&self.updates).entry(object).or_default().push(Instant::now());
        }
        Ok(())
    }

    /// The pod is replaced by a new one that refers to the same objects: that one starts, then the old one goes. It takes the
    /// place of a read, so that the time of the last fetch of each object stays the same for all agents.
    async fn replace(&self, pod: usize) -> Result<()> {
        self.workload.create_pod(pod, 1).await?;
        self.start_pod(pod, 1).await?;
        self.workload.delete_pod(pod, 0).await?;
        until("the agent has unregistered the pod", START_LIMIT, async || {
            let (namespace, name) = (crate::workload::namespace(pod), pod_name(pod, 0));
            let (code, body) = self.agent.get(&format!("/api/v1/namespaces/{namespace}/pods/{name}")).await?;
            ensure!(code == 404, "{name}: {code}: {body}");
            Ok(())
        })
        .await
    }

    /// What was seen so far.
    pub(crate) fn seen(&self) -> Seen {
        let updates = locked(&self.updates);
        let mut log = locked(&self.log);
        log.sort_by_key(|reading| reading.began);
        let mut seen = Seen {
            reads: log.len(),
            retried: *locked(&self.retried),
            failed: locked(&self.failed).clone(),
            ..Seen::default()
        };
        let mut last = HashMap::new();
        let mut staleness: HashMap<(Object, usize), Duration> = HashMap::new();
        for (object, times) in &*updates {
            staleness.extend((0..times.len()).map(|version| ((*object, version), Duration::ZERO)));
        }
        for &Reading { object, began, version } in &*log {
            seen.backwards += usize::from(last.insert(object, version).is_some_and(|before| before > version));
            let later = updates.get(&object).map_or(&[][..], |times| times.get(version..).unwrap_or_default());
            let missed = later.iter().filter(|&&update| update <= began).count();
            seen.stale += usize::from(missed > 0);
            for (n, update) in later[..missed].iter().enumerate() {
                let longest = staleness.entry((object, version + n)).or_default();
                *longest = (*longest).max(began - *update);
            }
        }
        seen.staleness = staleness.into_values().collect();
        seen.staleness.sort();
        seen
    }
}

/// Where in a period a pod reads, as a part of it. Two that follow each other differ by 0.1 at the least, for those of odd
/// periods lie between those of even ones.
fn offset(pod: usize, period: u32) -> f64 {
    // Nothing but a scatter that is the same in every run.
    let scatter = (pod * 7919 + period as usize * 104_729 + pod * period as usize * 31) % 5;
    let odd = period % 2;
    0.01 + 0.2 * fraction_of(scatter) + 0.1 * f64::from(odd) + 0.05 * fraction(pod, PODS)
}

/// The middle of the n-th of so many equal parts of 0 to 1.
fn fraction(n: usize, of: usize) -> f64 {
    (fraction_of(n) + 0.5) / fraction_of(of)
}

/// Small numbers only.
fn fraction_of(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}
