//! What may replace what: the one rule by which every store orders what it holds and what it is told next.
//!
//! Every event of a store has a *stamp*, a number that grows. A consistent look at the source (a fetch or a list) begins at
//! one stamp and arrives at another, and brings a state that was true between the two. An event of a watch and a read of the
//! API server's cache may lag: they bring a state that was true at some moment before they arrive. So the new state stands
//! to the held one in one of four ways ([`Relation`]), and that decides:
//!
//! | the new state | it is |
//! | --- | --- |
//! | follows: the look began after the held state had arrived, or the same watch told both | newer, whatever its version: a lower one shows that versions went back |
//! | lags | newer, unless its version is lower |
//! | overlaps: the look began before the held state had arrived | of one UID, newer by a higher version; of another UID, unknown |
//! | is outdated: the look began before versions went back | unknown |
//!
//! Whether an object is there carries no version: unless the new state follows, that cannot be ordered against an object.
//! Where the order is unknown, a store that watches asks by a consistent fetch that begins after both. The TTL store never
//! has two fetches of one generation at a time, so none overlaps there; it believes its last fetch, as the kubelet does.

use crate::{Object, resource_version_order};
use std::cmp::Ordering;

/// A number that grows with each event of a store.
pub(crate) type Stamp = u64;

/// How a new state stands to the held one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It was true after the held state had arrived.
    Follows,
    /// It may be from before, though it was asked for later.
    Lags,
    /// It was asked for before the held state had arrived.
    Overlaps,
    /// It was asked for before versions went back.
    Outdated,
}

/// What a new state is, seen from the held one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// It replaces the held state.
    Newer {
        /// Its version is lower all the same: the source was restored.
        went_back: bool,
    },
    /// It is the held state.
    Same,
    /// The held state stays.
    Older,
    /// Versions and stamps do not tell.
    Unknown,
}

/// The order of a new state against the held one; `None` is the absence of an object.
pub(crate) fn order<O: Object>(held: Option<&O>, new: Option<&O>, relation: Relation) -> Order {
    let newer = Order::Newer { went_back: false };
    let (held, new) = match (held, new) {
        (Some(held), Some(new)) => (held, new),
        (None | Some(_), None) | (None, Some(_)) if relation == Relation::Follows => return newer,
        (None, None) => return Order::Same,
        (Some(_), None) | (None, Some(_)) => return Order::Unknown,
    };
    let versions = version(new).cmp(&version(held));
    let is_ordered = match relation {
        Relation::Follows => return Order::Newer { went_back: versions == Ordering::Less },
        Relation::Lags => true,
        Relation::Overlaps => !are_different(held, new),
        Relation::Outdated => false,
    };
    match versions {
        Ordering::Less if is_ordered => Order::Older,
        Ordering::Greater if is_ordered => newer,
        // Versions that are no numbers have no order: what was asked for last counts.
        Ordering::Equal if relation == Relation::Lags => newer,
        Ordering::Equal if is_same_state(held, new) => Order::Same,
        Ordering::Less | Ordering::Equal | Ordering::Greater => Order::Unknown,
    }
}

/// Where an object's version stands.
pub(crate) fn version<O: Object>(object: &O) -> u64 {
    resource_version_order(object.resource_version())
}

/// Whether two objects are known to have different UIDs: the one was deleted, and the other created under its name.
fn are_different<O: Object>(one: &O, other: &O) -> bool {
    let (one, other) = (one.uid(), other.uid());
    !one.is_empty() && !other.is_empty() && one != other
}

/// Whether two objects are the same state of one object.
pub(crate) fn is_same_state<O: Object>(one: &O, other: &O) -> bool {
    !one.resource_version().is_empty()
        && one.resource_version() == other.resource_version()
        && !are_different(one, other)
}

#[cfg(test)]
mod tests;
