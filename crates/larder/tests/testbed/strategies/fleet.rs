//! A larder for each strategy, and the reader that believes none of them.
//!
//! The rules of an answer with an object:
//!
//! - It has a value that was once written, and none that is older than the last answer's.
//! - It is as new as it says: what had been written by the time at which it was last confirmed (`Age` before the answer)
//!   shows. Stale or not, an age is a promise.
//!
//! Any other answer to a read of an object that exists must be 503, 'not known', and is only allowed to the strategy that
//! keeps nothing. 404 would say that the object is not there.

use crate::daemon::{Answer, Daemon};
use futures_util::future::join_all;
use k8s_openapi::ByteString;
use larder_testbed::poll::until;
use serde_json::Value;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// The namespace that everything is in.
pub(super) const NAMESPACE: &str = crate::cluster::NAMESPACE;
/// The objects that everybody reads: a Secret that is mounted, and a `ConfigMap` for the environment.
pub(super) const OBJECTS: [Object; 2] = [Object::Secret, Object::ConfigMap];
/// The TTL, in seconds.
pub(super) const TTL: u32 = 2;

const STRATEGIES: [&str; 4] = ["direct", "ttl", "watch", "auto"];
/// How long everything may take to be fresh again: the longest pause of a backoff, an attempt that runs into its deadline,
/// and a machine that has other things to do.
pub(super) const LIMIT: Duration = Duration::from_mins(1);
/// How often the reader reads everything.
const READ_INTERVAL: Duration = Duration::from_millis(100);
/// How late a confirmation may come after what it confirms: `Age` is in whole seconds, and a read that the API server's cache
/// may answer is as old as that.
const ALLOWANCE: Duration = Duration::from_secs(3);

/// One of the objects. Its value is a number, which every update raises by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Object {
    Secret,
    ConfigMap,
}

impl Object {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Secret => "password",
            Self::ConfigMap => "settings",
        }
    }

    fn path(self) -> String {
        let resource = match self {
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
        };
        format!("/api/v1/namespaces/{NAMESPACE}/{resource}/{}?timeout=2s", self.name())
    }

    fn value(self, body: &Value) -> Option<usize> {
        let value = body["data"]["key"].clone();
        let text = match self {
            Self::Secret => String::from_utf8(serde_json::from_value::<ByteString>(value).ok()?.0).ok()?,
            Self::ConfigMap => serde_json::from_value(value).ok()?,
        };
        text.parse().ok()
    }
}

/// A larder with its strategy, and the last value of each object that it gave.
struct Member {
    strategy: &'static str,
    daemon: Daemon,
    last: Mutex<[usize; OBJECTS.len()]>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One larder for each strategy, all with the same arguments otherwise.
pub(super) struct Fleet {
    members: Vec<Member>,
    /// When each value of an object had been written.
    written: Mutex<[Vec<Instant>; OBJECTS.len()]>,
}

impl Fleet {
    /// Starts them, and waits until each gives both objects fresh. They have the value 0.
    pub(super) async fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::start_with(folder, arguments, &[]).await
    }

    /// The same, with these variables in their environment.
    pub(super) async fn start_with(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let now = Instant::now();
        let member = |strategy| {
            let folder = folder.join(strategy);
            let all = [&["--change-detection", strategy, "--sync-period=2s"], arguments].concat();
            Member { strategy, daemon: Daemon::spawn_in(&folder, &all, environment), last: Mutex::default() }
        };
        let members = STRATEGIES.into_iter().map(member).collect();
        let fleet = Self { members, written: Mutex::new([vec![now], vec![now]]) };
        join_all(fleet.members.iter().map(|member| member.daemon.wait_until_ready())).await;
        fleet.until_fresh().await;
        fleet
    }

    /// The number that the next update writes.
    pub(super) fn next_value(&self, object: Object) -> usize {
        locked(&self.written)[object as usize].len()
    }

    /// The update has been acknowledged.
    pub(super) fn was_written(&self, object: Object) {
        locked(&self.written)[object as usize].push(Instant::now());
    }

    /// Runs what happens, while everything is read all the time.
    pub(super) async fn through<T>(&self, scenario: impl Future<Output = T>) -> T {
        let read_all = async {
            let mut ticks = interval(READ_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let members = self.members.iter();
                join_all(members.flat_map(|member| OBJECTS.map(|object| self.read(member, object)))).await;
            }
        };
        tokio::select! {
            biased;
            done = scenario => done,
            () = read_all => unreachable!("it reads for ever"),
        }
    }

    /// Reads an object and judges the answer; gives it with its value, if it has one.
    async fn read(&self, member: &Member, object: Object) -> (Answer, Option<usize>) {
        // Of two reads at a time either may end first, so each is judged by what was known when it began.
        let (began, before) = (Instant::now(), locked(&member.last)[object as usize]);
        let answer = member.daemon.get(&object.path()).await;
        let who = format!("{}, {object:?}: {answer:?}", member.strategy);
        if answer.status != 200 {
            assert!(member.strategy == "direct" && answer.status == 503, "{who}");
            return (answer, None);
        }
        let value = object.value(&answer.body).unwrap_or_else(|| panic!("no value: {who}"));
        assert!(value >= before, "it went back from {before}: {who}");
        let last = &mut locked(&member.last)[object as usize];
        *last = value.max(*last);
        let confirmed = began.checked_sub(Duration::from_secs(answer.age()) + ALLOWANCE);
        let written = locked(&self.written)[object as usize].clone();
        // One may have been written and not yet acknowledged.
        assert!(value <= written.len(), "a value that was never written: {who}");
        let newest = confirmed.map_or(0, |confirmed| written.iter().filter(|&&at| at <= confirmed).count());
        assert!(value + 1 >= newest, "not as new as it says, for {} was written by then: {who}", newest - 1);
        (answer, Some(value))
    }

    /// Waits until each gives both objects fresh, with the last value.
    pub(super) async fn until_fresh(&self) {
        for (member, object) in self.each() {
            let fresh = until("it is fresh", LIMIT, async || {
                let newest = self.next_value(object) - 1;
                let (answer, value) = self.read(member, object).await;
                if value == Some(newest) && !answer.is_stale() { Ok(()) } else { Err(format!("{answer:?}")) }
            });
            fresh.await.unwrap_or_else(|error| panic!("{}, {object:?}: {error}", member.strategy));
        }
    }

    /// Waits until each says of both objects that they are stale, or not known.
    pub(super) async fn until_stale(&self) {
        for (member, object) in self.each() {
            let stale = until("it is stale", LIMIT, async || {
                let (answer, value) = self.read(member, object).await;
                if value.is_none() || answer.is_stale() { Ok(()) } else { Err(format!("{answer:?}")) }
            });
            stale.await.unwrap_or_else(|error| panic!("{}, {object:?}: {error}", member.strategy));
        }
    }

    /// The day on which each says that it was started: by the machine's clock as it is now.
    pub(super) async fn start_days(&self) -> Vec<String> {
        let mut days = Vec::new();
        for member in &self.members {
            let report = member.daemon.get("/larder/v1/status").await.body;
            days.push(report["startedAt"].as_str().and_then(|at| at.get(..10)).expect("a time").to_owned());
        }
        days
    }

    /// The sum of a metric of the larder with that strategy, over all labels that have this in them.
    pub(super) async fn metric(&self, strategy: &str, name: &str, label: &str) -> f64 {
        let member = self.members.iter().find(|member| member.strategy == strategy).expect("a strategy");
        let text = member.daemon.text("/metrics").await;
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        lines.map(|line| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).expect("a number")).sum()
    }

    fn each(&self) -> impl Iterator<Item = (&Member, Object)> {
        self.members.iter().flat_map(|member| OBJECTS.map(|object| (member, object)))
    }
}
