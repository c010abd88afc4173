//! Who was with the device while others waited.
//!
//! A wait is put to those who had units at the device with it: a unit that goes there finds what is
//! before it, and a unit that queues at the gate sees whose the device is meanwhile. So each tenant
//! that waits has sums of its own, of what its own units found:
//!
//! ```text
//! sent to the device    + weight of what is there
//! queued for a time     + each one's part of the device meanwhile
//! ```
//!
//! Whoever has much there, but seldom while v waits, is not to blame for what v waits; sums over
//! all time would say so. For each event that is one addition for each tenant that is
//! distinguished: those are the [`TOP_PARTIES`] who held most of the device lately, by place, and
//! all others share the last place.

use evenkeel_core::id::TenantId;

use super::TOP_PARTIES;

/// Places for those who are distinguished, and one for all others.
pub(super) const PLACES: usize = TOP_PARTIES + 1;
/// The place of those who are not distinguished.
pub(super) const OTHERS: usize = TOP_PARTIES;

/// Whoever has a place keeps it until another holds so many times as much.
const KEEPS_PLACE: f64 = 1.5;

/// Something of each, by place.
pub(super) type Parts = [f64; PLACES];

/// What each has with the device, by place.
#[derive(Clone, Debug, Default)]
pub(super) struct Presence {
    tenants: [Option<TenantId>; TOP_PARTIES],
    /// Weight in service.
    weights: Parts,
    /// Integral of each one's part of the device since the last tick, in nanoseconds.
    held_ns: Parts,
}

impl Presence {
    pub(super) fn tenants(&self) -> impl Iterator<Item = (usize, TenantId)> {
        let places = self.tenants.iter().enumerate();
        places.filter_map(|(place, tenant)| Some((place, (*tenant)?)))
    }

    pub(super) fn weights(&self) -> &Parts {
        &self.weights
    }

    pub(super) fn held_ns(&self) -> &Parts {
        &self.held_ns
    }

    /// A unit of whoever has this place goes to the device.
    pub(super) fn enter(&mut self, place: usize, weight: u64) {
        self.weights[place] += weight as f64;
    }

    /// It is back; whether anything is left there.
    pub(super) fn leave(&mut self, place: usize, weight: u64, is_empty: bool) {
        self.weights[place] -= weight as f64;
        if is_empty {
            // What rounding has left.
            self.weights = Parts::default();
        }
    }

    /// The integral of 1 / (weight of all) has grown by so much.
    pub(super) fn pass(&mut self, integral: f64) {
        for (held_ns, weight) in self.held_ns.iter_mut().zip(self.weights) {
            *held_ns += weight * integral;
        }
    }

    /// Begins a tick.
    pub(super) fn begin(&mut self) {
        self.held_ns = Parts::default();
    }

    /// A place for a tenant that has none, if one is free.
    pub(super) fn place_for(&mut self, tenant: TenantId) -> usize {
        let Some(free) = self.tenants.iter().position(Option::is_none) else { return OTHERS };
        self.tenants[free] = Some(tenant);
        free
    }

    /// Gives places to those who held most lately. Tells who loses its place, and who gets it.
    pub(super) fn choose(
        &mut self,
        holders: &mut [(f64, TenantId)],
        mut changed: impl FnMut(usize, TenantId, TenantId),
    ) {
        let held_ns = |tenants: &[Option<TenantId>; TOP_PARTIES],
                       &(held_ns, tenant): &(f64, TenantId)| {
            let keeps = tenants.contains(&Some(tenant));
            if keeps { held_ns * KEEPS_PLACE } else { held_ns }
        };
        let tenants = self.tenants;
        if holders.iter().all(|(_, tenant)| tenants.contains(&Some(*tenant))) {
            return;
        }
        if holders.len() > TOP_PARTIES {
            let most_first = |one: &(f64, TenantId), other: &(f64, TenantId)| {
                held_ns(&tenants, other).total_cmp(&held_ns(&tenants, one))
            };
            holders.select_nth_unstable_by(TOP_PARTIES - 1, most_first);
        }
        let top = &holders[..holders.len().min(TOP_PARTIES)];
        let is_top = |tenant: TenantId| top.iter().any(|(_, one)| *one == tenant);
        let mut leaving =
            (0..TOP_PARTIES).filter(|place| tenants[*place].is_some_and(|one| !is_top(one)));
        for &(_, tenant) in top.iter().filter(|(_, one)| !tenants.contains(&Some(*one))) {
            let Some(place) = leaving.next() else { return };
            let before = self.tenants[place].replace(tenant);
            changed(place, before.expect("it leaves"), tenant);
        }
    }

    /// What a tenant has there counts at another place from now on.
    pub(super) fn shift(&mut self, weight: u64, from: usize, to: usize) {
        self.weights[from] -= weight as f64;
        self.weights[to] += weight as f64;
    }
}
