//! Who is connected, and who makes room for a newcomer.
//!
//! A client that means it sends its head at once. So whoever waits for a head is the first to go
//! when there is no room, the longest wait first: of the newcomer's own address where that has as
//! many connections as it may, else of the address that has the most.
//!
//! ```text
//! 10.0.0.9   half half half ..     (16)    the newcomer from 10.0.0.9 takes the place of its first
//! 10.0.0.1   answering                     stays
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Connections by number; `E` ends one.
#[derive(Debug)]
pub(super) struct Slots<E> {
    max: usize,
    per_address_max: usize,
    open: BTreeMap<u64, Slot<E>>,
    next: u64,
}

#[derive(Debug)]
struct Slot<E> {
    /// None if all come from the same place.
    address: Option<IpAddr>,
    /// Since when it waits for a head, in events; none while it is answered.
    waiting: Option<u64>,
    end: Option<E>,
}

/// A place for a newcomer, and who had it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Room<E> {
    pub(super) id: u64,
    pub(super) evicted: Option<E>,
}

impl<E> Slots<E> {
    pub(super) fn new(max: usize, per_address_max: usize) -> Self {
        Self { max, per_address_max, open: BTreeMap::new(), next: 0 }
    }

    /// Makes room for a connection; none if everybody in its way is being answered.
    pub(super) fn admit(&mut self, address: Option<IpAddr>) -> Option<Room<E>> {
        let mut counts: BTreeMap<Option<IpAddr>, usize> = BTreeMap::new();
        for slot in self.open.values() {
            *counts.entry(slot.address).or_default() += 1;
        }
        let is_own_full = counts.get(&address).is_some_and(|own| *own >= self.per_address_max);
        let mut evicted = None;
        if is_own_full || self.open.len() >= self.max {
            let waiting = self.open.iter().filter_map(|(id, slot)| {
                let is_in_the_way = !is_own_full || slot.address == address;
                let since = slot.waiting.filter(|_| is_in_the_way)?;
                Some((std::cmp::Reverse(counts[&slot.address]), since, *id))
            });
            let (_, _, id) = waiting.min()?;
            evicted = self.open.remove(&id).and_then(|slot| slot.end);
        }
        let id = self.event();
        self.open.insert(id, Slot { address, waiting: Some(id), end: None });
        Some(Room { id, evicted })
    }

    /// Keeps what ends a connection.
    pub(super) fn hold(&mut self, id: u64, end: E) {
        if let Some(slot) = self.open.get_mut(&id) {
            slot.end = Some(end);
        }
    }

    /// Notes that a connection waits for a head from now on, or that it is being answered.
    pub(super) fn set_waiting(&mut self, id: u64, is_waiting: bool) {
        let now = self.event();
        if let Some(slot) = self.open.get_mut(&id) {
            slot.waiting = is_waiting.then_some(now);
        }
    }

    /// A connection has ended.
    pub(super) fn leave(&mut self, id: u64) {
        self.open.remove(&id);
    }

    fn event(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Admits one from `from`, whose end is its number.
    fn admit(slots: &mut Slots<u64>, from: &str) -> Option<(u64, Option<u64>)> {
        let room = slots.admit(Some(address(from)))?;
        slots.hold(room.id, room.id);
        Some((room.id, room.evicted))
    }

    #[test]
    fn an_address_at_its_bound_takes_a_place_of_its_own() {
        let mut slots = Slots::new(8, 2);
        let (other, _) = admit(&mut slots, "10.0.0.1").expect("room");
        let (first, _) = admit(&mut slots, "10.0.0.9").expect("room");
        let (second, _) = admit(&mut slots, "10.0.0.9").expect("room");
        slots.set_waiting(first, false);
        assert_eq!(admit(&mut slots, "10.0.0.9").expect("room").1, Some(second));
        slots.set_waiting(first, true);
        let (_, evicted) = admit(&mut slots, "10.0.0.9").expect("room");
        assert!(evicted.is_some_and(|evicted| evicted != other && evicted != first));
        assert_eq!(admit(&mut slots, "10.0.0.9").expect("room").1, Some(first));
    }

    #[test]
    fn where_all_is_full_the_address_with_the_most_makes_room() {
        let mut slots = Slots::new(3, 2);
        admit(&mut slots, "10.0.0.1");
        let (first, _) = admit(&mut slots, "10.0.0.9").expect("room");
        let (second, _) = admit(&mut slots, "10.0.0.9").expect("room");
        assert_eq!(admit(&mut slots, "10.0.0.2").expect("room").1, Some(first));
        slots.leave(second);
        assert_eq!(admit(&mut slots, "10.0.0.3").expect("room").1, None);
    }

    #[test]
    fn who_is_answered_stays() {
        let mut slots = Slots::new(2, 2);
        for _ in 0..2 {
            let (id, _) = admit(&mut slots, "10.0.0.9").expect("room");
            slots.set_waiting(id, false);
        }
        assert_eq!(admit(&mut slots, "10.0.0.9"), None);
        assert_eq!(admit(&mut slots, "10.0.0.1"), None);
    }
}
