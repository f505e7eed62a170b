//! One watch for a whole namespace: when it takes the place of those of its objects, what it tells, and when it ends.

use super::item::{Link, Pulse, Watch, before};
use super::{After, AfterOf, ObjectCache, Rules, Shard, ShardOf, count};
use crate::{
    Fetch, NamespaceEvent, NamespaceReflectors, NamespaceSink, ObjectKey, ReadKind, Reflectors, resource_version_order,
};
use foldhash::fast::{RandomState, SeedableRandomState};
use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};
use larder_clock::{Clock, Timestamp};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::Pin;
use std::sync::{Arc, Weak};
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

impl<F, R, C, P> ObjectCache<F, R, C, P>
where
    F: Fetch,
    R: NamespaceReflectors<Object = F::Object, Error = F::Error>,
    C: Clock,
    P: Rules,
{
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
    fn decide(&self, namespace: &Arc<str>, allowed: bool, objects: Option<u64>) {
        let started = self.change(namespace, |shard, after| {
            let moment = self.moment(shard);
            let Shard { items, namespaces, .. } = shard;
            let found = namespaces.get_mut(&**namespace)?;
            if found.is_asked(moment.at).is_none() {
                found.allowed = Some((allowed, moment.at));
            }
            if found.is_watched() {
                return None;
            }
            let referenced = u64::try_from(found.referenced).unwrap_or(u64::MAX);
            let least = self.rules.namespaces_from().unwrap_or(usize::MAX);
            let worth_it = objects.is_some_and(|objects| referenced.saturating_mul(WATCH_ONE_IN) > objects);
            if !worth_it || found.referenced < least {
                found.stop(moment.at + if objects.is_some() { ASK_AGAIN } else { RETRY }, after);
                return None;
            }
            let link = Link::new(moment);
            count(&self.counts.started);
            let started = (link.generation, Arc::clone(&link.pulse));
            found.plan = Plan::Namespace { link, names: HashSet::default() };
            for (key, item) in of_namespace(items, namespace) {
                // Those that are watched, or held, are as long as the namespace's watch has not synced.
                if matches!(item.watch, Watch::Off | Watch::Idle(_)) {
                    item.watch = Watch::Namespace;
                    after.published.remove(key);
                }
            }
            Some(started)
        });
        if let Some((generation, pulse)) = started {
            self.start_namespace(namespace, generation, pulse);
        }
    }

    fn start_namespace(&self, namespace: &Arc<str>, generation: u64, pulse: Arc<Pulse>) {
        let (this, told) = (Weak::clone(&self.this), Arc::clone(namespace));
        let sink = NamespaceSink::from_fn(move |event| {
            if let Some(cache) = this.upgrade() {
                cache.on_namespace_event(&told, generation, &pulse, event);
            }
        });
        let handle = self.reflectors.start_namespace(namespace, sink);
        self.change(namespace, |shard, after| match linked(shard, namespace, generation) {
            Some(linked) => linked.link.handle = Some(handle),
            // It was stopped meanwhile.
            None => after.handles.push(handle),
        });
    }
}

/// Never walked through.
type Names = HashSet<Box<str>, RandomState>;

/// The reflector of a namespace, the names that it knows, and the objects of the shard.
struct Linked<'s, O, E, H> {
    link: &'s mut Link<E, H>,
    names: &'s mut Names,
    items: &'s mut super::Items<O, E, H>,
}

/// The reflector of that generation of a namespace, if it runs.
fn linked<'s, O, E, H>(shard: &'s mut Shard<O, E, H>, namespace: &str, generation: u64) -> Option<Linked<'s, O, E, H>> {
    match &mut shard.namespaces.get_mut(namespace)?.plan {
        Plan::Namespace { link, names } if link.generation == generation => {
            Some(Linked { link, names, items: &mut shard.items })
        }
        _ => None,
    }
}

fn of_namespace<'i, O, E, H>(
    items: &'i mut super::Items<O, E, H>,
    namespace: &str,
) -> impl Iterator<Item = (&'i ObjectKey, &'i mut super::Item<O, E, H>)> {
    let all = items.iter_mut().map(|(key, item)| (key, &mut **item));
    all.filter(move |(key, _)| key.namespace() == namespace)
}

impl<F, R, C, P> ObjectCache<F, R, C, P>
where
    F: Fetch,
    R: Reflectors<Object = F::Object, Error = F::Error>,
    C: Clock,
    P: Rules,
{
    /// The reflector of that generation of a namespace tells something.
    fn on_namespace_event(
        &self,
        namespace: &str,
        generation: u64,
        pulse: &Pulse,
        event: NamespaceEvent<F::Object, F::Error>,
    ) {
        let shows_life = match &event {
            NamespaceEvent::Confirm(ago) if !pulse.is_broken() => Some(*ago),
            NamespaceEvent::Bookmark { .. } if pulse.is_quiet() => Some(Duration::ZERO),
            _ => None,
        };
        if let Some(ago) = shows_life {
            pulse.beat(self.base, before(self.clock.now(), ago));
            return;
        }
        // Taken where it counts; dropped after the lock is released where it does not.
        let mut event = Some(event);
        self.change(namespace, |shard, after| {
            let moment = self.moment(shard);
            let Some(Linked { link, names, items }) = linked(shard, namespace, generation) else { return };
            let Some(event) = event.take() else { return };
            let was_healthy = link.is_healthy();
            let (mut only, mut at) = (None, moment.at);
            match event {
                NamespaceEvent::Listing => {
                    link.listed = moment.stamp;
                    return;
                }
                NamespaceEvent::Replace(objects, read) => {
                    let began = (read == ReadKind::Consistent).then_some(link.listed);
                    *names = objects.iter().map(|(name, _)| name.as_str().into()).collect();
                    let mut by_name = BTreeMap::new();
                    for (name, object) in objects {
                        after.objects.extend(by_name.insert(name, object));
                    }
                    for (key, item) in of_namespace(items, namespace) {
                        item.unlink(Watch::Namespace, self.base, after);
                        let object = by_name.remove(key.name());
                        after.objects.extend(item.observed.replace(object, began, moment));
                        if self.options.first_read_at_least_as_new {
                            item.observed.doubt_before(item.born, moment);
                        }
                    }
                    after.objects.extend(by_name.into_values());
                    link.synced = true;
                    link.recover(after);
                }
                NamespaceEvent::Set(name, object) => {
                    link.recover(after);
                    names.insert(name.as_str().into());
                    after.objects.extend(set(items, namespace, &name, Some(object), moment));
                    only = Some(name);
                }
                NamespaceEvent::Delete(name) => {
                    link.recover(after);
                    names.remove(name.as_str());
                    after.objects.extend(set(items, namespace, &name, None, moment));
                    only = Some(name);
                }
                NamespaceEvent::Confirm(ago) => {
                    at = before(at, ago);
                    link.recover(after);
                }
                NamespaceEvent::Bookmark { version } => {
                    link.recover(after);
                    let version = resource_version_order(&version);
                    of_namespace(items, namespace).for_each(|(_, item)| item.observed.reached(version));
                }
                NamespaceEvent::Failed(error) => link.fail(error, moment.at, after),
                NamespaceEvent::WentBack { .. } => {
                    count(&self.counts.went_back);
                    of_namespace(items, namespace).for_each(|(_, item)| item.observed.went_back(moment));
                }
            }
            if link.is_healthy() {
                // All that happened before has been delivered.
                link.pulse.beat(self.base, at);
            }
            let mut ahead = false;
            for (key, item) in of_namespace(items, namespace) {
                if !matches!(item.watch, Watch::Namespace) {
                    continue;
                }
                ahead |= item.observed.is_ahead();
                // What one event tells of one object changes nothing of the others.
                if !was_healthy || only.as_ref().is_none_or(|name| key.name() == name) {
                    after.wakers.extend(item.wake_all());
                    self.publish(key, item, Some(link), after);
                }
            }
            link.show(ahead);
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
                link.synced && of_namespace(items, namespace).all(|(_, item)| item.is_idle(self.base, now, max_idle));
            let ends = idle || fails || (few && link.synced);
            if !ends {
                continue;
            }
            let until = if idle { now } else { now + ASK_AGAIN };
            let at = link.pulse.at(self.base).filter(|_| link.synced);
            found.stop(until, after);
            count(&self.counts.stopped_idle);
            for (key, item) in of_namespace(items, namespace) {
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

/// A namespace's watch tells of one object.
fn set<O: crate::Object, E: crate::FetchError, H>(
    items: &mut super::Items<O, E, H>,
    namespace: &str,
    name: &str,
    object: Option<Arc<O>>,
    moment: super::Moment,
) -> Option<Arc<O>> {
    match items.get_mut(&ObjectKey::new(namespace, name)) {
        Some(item) if matches!(item.watch, Watch::Namespace) => item.observed.set(object, moment),
        // Nobody here needs it, or it has a watch of its own yet.
        _ => object,
    }
}

#[cfg(test)]
mod tests;
