//! What reflectors tell.

use super::copy::Copy;
use super::item::{Failing, Link, Pulse, Watch, before};
use super::{AfterOf, Copies, ItemOf, Rules, Shard, count};
use crate::{Fetch, ObjectKey, ReadKind, Reflect, ReflectorEvent, resource_version_order};
use larder_clock::{Clock, Timestamp};
use std::sync::Arc;
use std::time::Duration;

impl<F, R, C, P> Copies<F, R, C, P>
where
    F: Fetch,
    R: Reflect<Object = F::Object, Error = F::Error>,
    C: Clock,
    P: Rules,
{
    /// The reflector of that generation of an object tells something.
    pub(super) fn on_event(
        &self,
        key: &ObjectKey,
        generation: u64,
        pulse: &Pulse,
        base: Timestamp,
        event: ReflectorEvent<F::Object, F::Error>,
    ) {
        let shows_life = match &event {
            ReflectorEvent::Confirm(ago) if !pulse.is_broken() => Some(*ago),
            ReflectorEvent::Bookmark { .. } if pulse.is_quiet() => Some(Duration::ZERO),
            _ => None,
        };
        if let Some(ago) = shows_life {
            // A pulse that no reader looks at any more may beat on.
            pulse.beat(base, before(self.clock.now(), ago));
            return;
        }
        self.change(key.namespace(), |shard, after| {
            let moment = self.moment(shard);
            let Shard { items, .. } = shard;
            let Some(item) = items.get_mut(key) else { return };
            let Watch::Own(link) = &mut item.watch else { return };
            if link.generation != generation {
                return;
            }
            let copy = &mut item.copy;
            match event {
                ReflectorEvent::Listing => {
                    link.listed = moment.stamp;
                    return;
                }
                ReflectorEvent::Replace(object, read) => {
                    let began = (read == ReadKind::Consistent).then_some(link.listed);
                    after.objects.extend(copy.replace(object, began, moment));
                    (link.synced, link.failing) = (true, None);
                }
                ReflectorEvent::Set(object) => {
                    after.objects.extend(copy.set(Some(object), moment));
                    (link.synced, link.failing) = (true, None);
                }
                ReflectorEvent::Delete => {
                    after.objects.extend(copy.set(None, moment));
                    (link.synced, link.failing) = (true, None);
                }
                ReflectorEvent::Confirm(ago) => confirm(copy, link, base, before(moment.at, ago)),
                ReflectorEvent::Bookmark { version } => {
                    copy.reached(resource_version_order(&version));
                    confirm(copy, link, base, moment.at);
                }
                ReflectorEvent::Failed(error) => fail(link, error, moment.at),
                ReflectorEvent::WentBack { .. } => {
                    count(&self.counts.went_back);
                    copy.went_back();
                }
            }
            self.told(key, item, after);
        });
    }

    /// Shows what a reflector of an object's own has told.
    fn told(&self, key: &ObjectKey, item: &mut ItemOf<F, R>, after: &mut AfterOf<F, R>) {
        after.wakers.extend(item.wake_all());
        let item = &*item;
        let Watch::Own(link) = &item.watch else { return };
        link.show(item.copy.is_ahead());
        self.publish(key, item, Some(link), after);
    }
}

fn confirm<O: crate::Object, E, H>(copy: &mut Copy<O>, link: &mut Link<E, H>, base: Timestamp, at: Timestamp) {
    // One that resumed has nothing new to tell; one that has told nothing at all cannot confirm it.
    if copy.is_known() {
        (link.synced, link.failing) = (true, None);
        link.pulse.beat(base, at);
        copy.pulse(at);
    }
}

pub(super) fn fail<E, H>(link: &mut Link<E, H>, error: Arc<E>, at: Timestamp) {
    let since = link.failing.as_ref().map_or(at, |failing| failing.since);
    link.failing = Some(Failing { since, error });
}
