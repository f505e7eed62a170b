//! One watch for a whole namespace: when it takes the place of those of its objects, and when it ends.

use super::item::{Link, Watch};
use super::{After, AfterOf, ReflectorStore, Rules, Shard, ShardOf, Start, count};
use crate::{Fetch, ObjectKey, Reflectors, Scope};
use foldhash::fast::{RandomState, SeedableRandomState};
use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};
use larder_clock::{Clock, Timestamp};
use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// For how long an answer counts: whether a namespace may be watched, and that it is not worth it.
const ASK_AGAIN: Duration = Duration::from_mins(10);
/// For how long nobody asks after a question that failed.
const RETRY: Duration = Duration::from_mins(1);
/// A namespace is watched where more than one in so many of its objects is referenced,
const WATCH_ONE_IN: u64 = 2;
/// and until fewer than one in so many is.
const KEEP_ONE_IN: usize = 4;

type Question = Pin<Box<dyn Future<Output = ()> + Send>>;
/// The question whether to watch a namespace, which its readers share.
pub(crate) type Considering = Shared<Question>;

/// The referenced objects of a namespace, taken together.
pub(super) struct Namespace<E, H> {
    /// How many there are.
    referenced: usize,
    /// Whether larder may watch it, and when it was asked.
    allowed: Option<(bool, Timestamp)>,
    considering: Option<WeakShared<Question>>,
    plan: Plan<E, H>,
}

enum Plan<E, H> {
    /// Each object is kept by itself; not considered again before then, unless so many are referenced.
    PerObject { until: Timestamp, or_at: usize },
    /// One reflector keeps them all.
    Namespace { link: Link<E, H>, names: Names },
}

impl<E, H> Namespace<E, H> {
    const fn new() -> Self {
        let plan = Plan::PerObject { until: Timestamp::from_nanos(i128::MIN), or_at: 0 };
        Self { referenced: 0, allowed: None, considering: None, plan }
    }

    pub(super) const fn link(&self) -> Option<&Link<E, H>> {
        match &self.plan {
            Plan::Namespace { link, .. } => Some(link),
            Plan::PerObject { .. } => None,
        }
    }

    pub(super) const fn link_mut(&mut self) -> Option<&mut Link<E, H>> {
        match &mut self.plan {
            Plan::Namespace { link, .. } => Some(link),
            Plan::PerObject { .. } => None,
        }
    }

    /// The names that its reflector knows.
    pub(super) const fn names_mut(&mut self) -> Option<&mut Names> {
        match &mut self.plan {
            Plan::Namespace { names, .. } => Some(names),
            Plan::PerObject { .. } => None,
        }
    }

    pub(super) const fn is_watched(&self) -> bool {
        self.link().is_some()
    }

    /// One more object of the namespace is referenced. Whether the namespace's watch has it.
    pub(super) fn take_in(namespaces: &mut HashMap<Box<str>, Self, SeedableRandomState>, namespace: &str) -> bool {
        if let Some(found) = namespaces.get_mut(namespace) {
            found.referenced += 1;
            return found.is_watched();
        }
        let mut new = Self::new();
        new.referenced = 1;
        namespaces.insert(namespace.into(), new);
        false
    }

    /// One object less; with the last one, the watch ends.
    pub(super) fn let_go<O>(
        namespaces: &mut HashMap<Box<str>, Self, SeedableRandomState>,
        namespace: &str,
        after: &mut After<O, E, H>,
    ) {
        let Some(found) = namespaces.get_mut(namespace) else { return };
        found.referenced = found.referenced.saturating_sub(1);
        if found.referenced == 0 {
            found.stop(Timestamp::from_nanos(i128::MIN), after);
        }
    }

    /// Ends the watch; not considered again before then.
    fn stop<O>(&mut self, until: Timestamp, after: &mut After<O, E, H>) {
        let plan = Plan::PerObject { until, or_at: self.referenced.saturating_mul(2) };
        if let Plan::Namespace { link, .. } = std::mem::replace(&mut self.plan, plan) {
            link.end(after);
        }
    }

    fn is_asked(&self, now: Timestamp) -> Option<bool> {
        self.allowed.filter(|(_, at)| now < *at + ASK_AGAIN).map(|(allowed, _)| allowed)
    }

    /// Whether there is anything to keep in mind of it.
    fn is_remembered(&self, now: Timestamp) -> bool {
        self.referenced > 0 || self.is_asked(now).is_some()
    }

    /// Whether too few of this many objects are referenced for one watch of all of them.
    const fn is_few(&self, objects: usize, least: usize) -> bool {
        self.referenced < least || self.referenced.saturating_mul(KEEP_ONE_IN) < objects
    }
}

impl<F: Fetch, R: Reflectors<Object = F::Object, Error = F::Error>, C: Clock, P: Rules> ReflectorStore<F, R, C, P> {
    /// The question whether to watch a namespace as a whole, if it is to be asked now. Readers wait for the answer, and
    /// ask only after it.
    pub(crate) fn consider(&self, namespace: &str) -> Option<Considering> {
        let (least, now) = (self.rules.namespaces_from()?, self.clock.now());
        let mut shard = self.shard(namespace).lock();
        let found = shard.namespaces.get_mut(namespace)?;
        let Plan::PerObject { until, or_at } = found.plan else { return None };
        if found.referenced < least || (now < until && found.referenced < or_at) || found.is_asked(now) == Some(false) {
            return None;
        }
        if let Some(asked) = found.considering.as_ref().and_then(WeakShared::upgrade) {
            return Some(asked);
        }
        let (this, told, allowed) = (self.this.upgrade()?, Arc::<str>::from(namespace), found.is_asked(now));
        let question = async move {
            let allowed = match allowed {
                Some(allowed) => allowed,
                None => this.reflectors.may_watch(&told).await,
            };
            let objects = if allowed { this.reflectors.count(&told).await.ok() } else { None };
            this.decide(&told, allowed, objects);
        };
        let question = question.boxed().shared();
        found.considering = question.downgrade();
        Some(question)
    }

    /// Watches the namespace, or not.
    fn decide(&self, namespace: &str, allowed: bool, objects: Option<u64>) {
        self.change(namespace, |shard, after| {
            let moment = self.moment(shard);
            let Shard { items, namespaces, .. } = shard;
            let Some(found) = namespaces.get_mut(namespace) else { return };
            if found.is_asked(moment.at).is_none() {
                found.allowed = Some((allowed, moment.at));
            }
            if found.is_watched() {
                return;
            }
            let referenced = u64::try_from(found.referenced).unwrap_or(u64::MAX);
            let least = self.rules.namespaces_from().unwrap_or(usize::MAX);
            let worth_it = objects.is_some_and(|objects| referenced.saturating_mul(WATCH_ONE_IN) > objects);
            if !worth_it || found.referenced < least {
                found.stop(moment.at + if objects.is_some() { ASK_AGAIN } else { RETRY }, after);
                return;
            }
            let link = Link::new(moment);
            count(&self.counts.started);
            let (scope, pulse) = (Scope::Namespace(namespace.into()), Arc::clone(&link.pulse));
            after.starts.push(Start { scope, generation: link.generation, resume: None, pulse });
            found.plan = Plan::Namespace { link, names: HashSet::default() };
            for (key, item) in in_namespace(items, namespace) {
                // Those that are watched, or held, are as long as the namespace's watch has not synced.
                if matches!(item.watch, Watch::Off | Watch::Idle(_)) {
                    item.watch = Watch::Namespace;
                    after.published.remove(key);
                }
            }
        });
    }

    /// Ends the watches of namespaces that are not worth it any more: nobody reads, few refer, or they fail.
    pub(super) fn stop_namespaces(&self, shard: &mut ShardOf<F, R>, now: Timestamp, after: &mut AfterOf<F, R>) {
        let max_idle = self.options.max_idle.max(self.options.min_idle);
        let least = self.rules.namespaces_from().unwrap_or(usize::MAX);
        let Shard { items, namespaces, .. } = shard;
        namespaces.retain(|_, found| found.is_remembered(now));
        for (namespace, found) in namespaces {
            let Plan::Namespace { link, names } = &found.plan else { continue };
            let few = found.is_few(names.len(), least);
            let fails = link.fails_for_longer_than(max_idle, now);
            let idle =
                link.synced && in_namespace(items, namespace).all(|(_, item)| item.is_idle(self.base, now, max_idle));
            let ends = idle || fails || (few && link.synced);
            if !ends {
                continue;
            }
            let until = if idle { now } else { now + ASK_AGAIN };
            let at = link.pulse.at(self.base).filter(|_| link.synced);
            found.stop(until, after);
            count(&self.counts.stopped_idle);
            for (key, item) in in_namespace(items, namespace) {
                if matches!(item.watch, Watch::Namespace) {
                    if let Some(at) = at {
                        item.observed.pulse(at);
                    }
                    item.observed.unfollow();
                    (item.watch, item.polled) = (Watch::Off, None);
                    after.wakers.extend(item.wake_all());
                    self.publish(key, item, None, after);
                }
            }
        }
    }
}

/// Never walked through.
pub(super) type Names = HashSet<Box<str>, RandomState>;

/// All objects of a namespace.
pub(super) fn in_namespace<'i, O, E, H>(
    items: &'i mut super::Items<O, E, H>,
    namespace: &str,
) -> impl Iterator<Item = (&'i ObjectKey, &'i mut super::Item<O, E, H>)> {
    let all = items.iter_mut().map(|(key, item)| (key, &mut **item));
    all.filter(move |(key, _)| key.namespace() == namespace)
}

#[cfg(test)]
mod tests;
