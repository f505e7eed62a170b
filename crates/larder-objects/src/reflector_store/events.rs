//! What reflectors tell, of one object or of a namespace.

use super::item::{Link, Pulse, Watch, before};
use super::namespaces::{Namespace, in_namespace};
use super::observed::{Moment, Stamp};
use super::{AfterOf, Item, Items, ReflectorStore, Rules, Shard, ShardOf, Start, count, link_of};
use crate::{
    Fetch, Object, ObjectKey, ReadKind, ReflectorEvent, ReflectorSink, Reflectors, Scope, resource_version_order,
};
use larder_clock::Clock;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

impl<F: Fetch, R: Reflectors<Object = F::Object, Error = F::Error>, C: Clock, P: Rules> ReflectorStore<F, R, C, P> {
    pub(super) fn start(&self, start: Start) {
        let Start { scope, generation, resume, pulse } = start;
        let (this, told) = (Weak::clone(&self.this), scope.clone());
        let sink = ReflectorSink::from_fn(move |event| {
            if let Some(cache) = this.upgrade() {
                cache.on_event(&told, generation, &pulse, event);
            }
        });
        let handle = self.reflectors.start(&scope, resume, sink);
        self.change(scope.namespace(), |shard, after| match shard.link_mut(&scope, generation) {
            Some(link) => link.handle = Some(handle),
            // It was stopped meanwhile.
            None => after.handles.push(handle),
        });
    }

    /// The reflector of that generation tells something.
    fn on_event(&self, scope: &Scope, generation: Stamp, pulse: &Pulse, event: ReflectorEvent<F::Object, F::Error>) {
        let shows_life = match &event {
            ReflectorEvent::Confirm(ago) if !pulse.is_broken() => Some(*ago),
            ReflectorEvent::Bookmark { .. } if pulse.is_quiet() => Some(Duration::ZERO),
            _ => None,
        };
        if let Some(ago) = shows_life {
            // A pulse that no reader looks at any more may beat on.
            pulse.beat(self.base, before(self.clock.now(), ago));
            return;
        }
        // Taken where it counts; dropped after the lock is released where it does not.
        let mut event = Some(event);
        self.change(scope.namespace(), |shard, after| {
            let moment = self.moment(shard);
            let Some(link) = shard.link_mut(scope, generation) else { return };
            let Some(event) = event.take() else { return };
            let was_healthy = link.is_healthy();
            let (mut confirmed, mut is_known, mut only) = (None, false, None);
            match event {
                ReflectorEvent::Listing => {
                    link.listed = moment.stamp;
                    return;
                }
                ReflectorEvent::Replace(objects, read) => {
                    let began = (read == ReadKind::Consistent).then_some(link.listed);
                    link.synced = true;
                    link.recover(after);
                    self.replace(shard, scope, objects, (began, moment), after);
                }
                ReflectorEvent::Set(name, object) => {
                    link.recover(after);
                    after.objects.extend(shard.set(scope, &name, Some(object), moment));
                    only = Some(name);
                }
                ReflectorEvent::Delete(name, last) => {
                    after.objects.extend(last);
                    link.recover(after);
                    after.objects.extend(shard.set(scope, &name, None, moment));
                    only = Some(name);
                }
                ReflectorEvent::Confirm(ago) => confirmed = Some(before(moment.at, ago)),
                ReflectorEvent::Bookmark { version } => {
                    confirmed = Some(moment.at);
                    let version = resource_version_order(&version);
                    for (_, item) in kept(&mut shard.items, scope) {
                        is_known |= item.observed.is_known();
                        item.observed.reached(version);
                    }
                }
                ReflectorEvent::Failed(error) => link.fail(error, moment.at, after),
                ReflectorEvent::WentBack { .. } => {
                    count(&self.counts.went_back);
                    kept(&mut shard.items, scope).for_each(|(_, item)| item.observed.went_back(moment));
                }
            }
            let Some(link) = shard.link_mut(scope, generation) else { return };
            let current = match scope {
                Scope::Object(_) => {
                    // One that resumed has nothing new to tell; one that has told nothing at all cannot confirm it.
                    link.synced |= is_known;
                    confirmed
                }
                // All that happened before has been delivered.
                Scope::Namespace(_) => confirmed.or(Some(moment.at)),
            };
            // A sign of life of one that has told nothing yet shows nothing.
            if confirmed.is_some() && link.synced {
                link.recover(after);
            }
            if let Some(at) = current
                && link.is_healthy()
            {
                pulse.beat(self.base, at);
            }
            let Shard { items, namespaces, .. } = shard;
            let mut ahead = false;
            for (key, item) in kept(items, scope) {
                ahead |= item.observed.is_ahead();
                // What one event tells of one object changes nothing of the others.
                if !was_healthy || only.as_ref().is_none_or(|name| key.name() == name) {
                    after.wakers.extend(item.wake_all());
                    self.publish(key, item, link_of(&item.watch, namespaces, key.namespace()), after);
                }
            }
            if let Some(link) = shard.link_mut(scope, generation) {
                link.show(ahead);
            }
        });
    }

    /// Takes in a complete list. A namespace's reflector keeps all its objects from then on.
    fn replace(
        &self,
        shard: &mut ShardOf<F, R>,
        scope: &Scope,
        objects: Vec<(String, Arc<F::Object>)>,
        (began, moment): (Option<Stamp>, Moment),
        after: &mut AfterOf<F, R>,
    ) {
        let mut by_name = BTreeMap::new();
        for (name, object) in objects {
            after.objects.extend(by_name.insert(name, object));
        }
        if let Scope::Namespace(namespace) = scope {
            if let Some(names) = shard.namespaces.get_mut(namespace).and_then(Namespace::names_mut) {
                *names = by_name.keys().map(|name| name.as_str().into()).collect();
            }
            in_scope(&mut shard.items, scope).for_each(|(_, item)| item.unlink(Watch::Namespace, self.base, after));
        }
        for (key, item) in kept(&mut shard.items, scope) {
            after.objects.extend(item.observed.replace(by_name.remove(key.name()), began, moment));
            if self.options.first_read_at_least_as_new {
                item.observed.doubt_before(item.born, moment);
            }
        }
        after.objects.extend(by_name.into_values());
    }
}

impl<O: Object, E, H> Shard<O, E, H> {
    /// The reflector of that generation, if it runs.
    fn link_mut(&mut self, scope: &Scope, generation: Stamp) -> Option<&mut Link<E, H>> {
        let link = match scope {
            Scope::Object(key) => match &mut self.items.get_mut(key)?.watch {
                Watch::Own(link) => link,
                Watch::Off | Watch::Idle(_) | Watch::Namespace | Watch::Held => return None,
            },
            Scope::Namespace(namespace) => self.namespaces.get_mut(namespace)?.link_mut()?,
        };
        (link.generation == generation).then_some(link)
    }

    /// Takes in what a running reflector tells of one object. Returns the object that is not held, for the caller to drop.
    fn set(&mut self, scope: &Scope, name: &str, object: Option<Arc<O>>, moment: Moment) -> Option<Arc<O>> {
        let key = ObjectKey::new(scope.namespace(), name);
        if let Scope::Namespace(namespace) = scope
            && let Some(names) = self.namespaces.get_mut(namespace).and_then(Namespace::names_mut)
        {
            if object.is_some() {
                names.insert(name.into())
            } else {
                names.remove(name)
            };
        }
        match self.items.get_mut(&key) {
            Some(item) if item.is_kept(&key, scope) => item.observed.set(object, moment),
            // Nobody here needs it, or it has a watch of its own yet.
            _ => object,
        }
    }
}

impl<O, E, H> Item<O, E, H> {
    /// Whether the running reflector of that scope keeps the object.
    fn is_kept(&self, key: &ObjectKey, scope: &Scope) -> bool {
        match scope {
            Scope::Object(of) => key == of,
            Scope::Namespace(_) => matches!(self.watch, Watch::Namespace),
        }
    }
}

/// The objects that the running reflector of a scope keeps.
fn kept<'i, O, E, H>(
    items: &'i mut Items<O, E, H>,
    scope: &'i Scope,
) -> impl Iterator<Item = (&'i ObjectKey, &'i mut Item<O, E, H>)> {
    in_scope(items, scope).filter(move |(key, item)| item.is_kept(key, scope))
}

/// All objects of a scope.
fn in_scope<'i, O, E, H>(
    items: &'i mut Items<O, E, H>,
    scope: &'i Scope,
) -> impl Iterator<Item = (&'i ObjectKey, &'i mut Item<O, E, H>)> {
    let (one, all) = match scope {
        Scope::Object(key) => (items.get_mut(key).map(|item| (key, &mut **item)), None),
        Scope::Namespace(namespace) => (None, Some(in_namespace(items, namespace))),
    };
    one.into_iter().chain(all.into_iter().flatten())
}
