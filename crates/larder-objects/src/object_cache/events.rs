//! What reflectors tell.

use super::item::{Link, Pulse, Watch, before};
use super::observed::Observed;
use super::{After, AfterOf, ItemOf, ObjectCache, Rules, Shard, count};
use crate::{Fetch, ObjectKey, ReadKind, ReflectorEvent, Reflectors, resource_version_order};
use larder_clock::{Clock, Timestamp};
use std::time::Duration;

impl<F, R, C, P> ObjectCache<F, R, C, P>
where
    F: Fetch,
    R: Reflectors<Object = F::Object, Error = F::Error>,
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
        // Taken where it counts; dropped after the lock is released where it does not.
        let mut event = Some(event);
        self.change(key.namespace(), |shard, after| {
            let moment = self.moment(shard);
            let Shard { items, .. } = shard;
            let Some(item) = items.get_mut(key) else { return };
            let Watch::Own(link) = &mut item.watch else { return };
            if link.generation != generation {
                return;
            }
            let Some(event) = event.take() else { return };
            let observed = &mut item.observed;
            match event {
                ReflectorEvent::Listing => {
                    link.listed = moment.stamp;
                    return;
                }
                ReflectorEvent::Replace(object, read) => {
                    let began = (read == ReadKind::Consistent).then_some(link.listed);
                    after.objects.extend(observed.replace(object, began, moment));
                    if self.options.first_read_at_least_as_new {
                        observed.doubt_before(item.born, moment);
                    }
                    link.synced = true;
                    link.recover(after);
                }
                ReflectorEvent::Set(object) => {
                    after.objects.extend(observed.set(Some(object), moment));
                    link.recover(after);
                }
                ReflectorEvent::Delete => {
                    after.objects.extend(observed.set(None, moment));
                    link.recover(after);
                }
                ReflectorEvent::Confirm(ago) => confirm(observed, link, (base, before(moment.at, ago)), after),
                ReflectorEvent::Bookmark { version } => {
                    // One that resumed has nothing new to tell; one that has told nothing at all cannot confirm it.
                    link.synced |= observed.is_known();
                    observed.reached(resource_version_order(&version));
                    confirm(observed, link, (base, moment.at), after);
                }
                ReflectorEvent::Failed(error) => link.fail(error, moment.at, after),
                ReflectorEvent::WentBack { .. } => {
                    count(&self.counts.went_back);
                    observed.went_back(moment);
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
        link.show(item.observed.is_ahead());
        self.publish(key, item, Some(link), after);
    }
}

fn confirm<O: crate::Object, E, H>(
    observed: &mut Observed<O>,
    link: &mut Link<E, H>,
    (base, at): (Timestamp, Timestamp),
    after: &mut After<O, E, H>,
) {
    // A sign of life of one that has told nothing yet shows nothing.
    if link.synced {
        link.recover(after);
        link.pulse.beat(base, at);
        observed.pulse(at);
    }
}
