//! What reflectors tell.

use super::copy::Copy;
use super::item::{Failing, Link, Pulse, Watch, before};
use super::{AfterOf, Copies, ItemOf, Rules, Shard, count};
use crate::{Fetch, ObjectKey, Reflect, ReflectorEvent};
use larder_clock::{Clock, Timestamp};
use std::sync::Arc;

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
        if let ReflectorEvent::Confirm(ago) = event
            && pulse.is_quiet()
        {
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
                ReflectorEvent::Replace(object) => {
                    after.objects.extend(copy.replace(object, link.listed, moment));
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
                ReflectorEvent::Failed(error) => fail(link, error, moment.at),
                ReflectorEvent::WentBack { .. } => {
                    count(&self.counts.went_back);
                    copy.caught_up();
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
        copy.caught_up();
        copy.pulse(at);
    }
}

pub(super) fn fail<E, H>(link: &mut Link<E, H>, error: Arc<E>, at: Timestamp) {
    let since = link.failing.as_ref().map_or(at, |failing| failing.since);
    link.failing = Some(Failing { since, error });
}
