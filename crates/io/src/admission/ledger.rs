//! Who may have how many connections.
//!
//! ```text
//! accepted --> handshake, a pool of its own --> client of a tenant, of `connections` in all
//!              full: the oldest goes             |  reserved for each tenant  |  for whoever
//!   comes  |
//! ```
//!
//! - **Who has not said who he is** has a place in a pool beside the others. Where it is full, or
//!   one address has half of it, the oldest handshake goes: of that address, or of the one that
//!   has most. A handshake takes milliseconds, so a flood does not keep others out, from its own
//!   address neither.
//! - **Tenants**: half of all connections is reserved in equal parts, the other half is for whoever
//!   comes first. So no tenant takes all.
//! - **Addresses**: none has more than half of all connections. Of IPv6 a host has 64 bits, which
//!   count as one address. Unix sockets have none.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

use evenkeel_core::id::TenantId;

/// One over the part of its pool that the handshakes of one address may take.
const PART_OF_ORIGIN: usize = 2;
/// Bits of an address of IPv6 by which a network is known.
const NETWORK: u128 = !0 << 64;
/// Handshakes under way at a time beside a quarter of `connections`.
const HANDSHAKES_MIN: usize = 256;

/// Where a connection comes from; none for a unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin(Option<IpAddr>);

impl Origin {
    pub(super) fn of(address: Option<IpAddr>) -> Self {
        Self(address.map(network_of))
    }
}

/// What counts as one address: of IPv6 a host has the lower 64 bits for itself.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// Why a client is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// Its tenant has as many connections as the others leave it.
    Tenant,
    /// Its address has half of them.
    Address,
}

/// Connections in handshakes and of tenants. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Handshakes by where they come from, oldest first.
    handshakes: BTreeMap<Origin, VecDeque<u64>>,
    handshakes_total: usize,
    next_handshake: u64,
    by_tenant: Vec<u32>,
    by_origin: BTreeMap<Origin, u32>,
    clients: u32,
}

impl Ledger {
    /// Connections of either kind.
    pub(super) fn total(&self) -> u64 {
        self.handshakes_total as u64 + u64::from(self.clients)
    }

    /// A handshake begins, of which there is room for a quarter of `most` and some: its number, and
    /// that of one that has to go for it. O(addresses) where there is no room.
    pub(super) fn begin(&mut self, origin: Origin, most: u32) -> (u64, Option<u64>) {
        let room = most as usize / 4 + HANDSHAKES_MIN;
        let own = self.handshakes.get(&origin).map_or(0, VecDeque::len);
        let evicted = if own >= room / PART_OF_ORIGIN {
            self.evict(origin)
        } else if self.handshakes_total >= room {
            let greatest = self.handshakes.iter().max_by_key(|(_, all)| all.len());
            greatest.map(|(origin, _)| *origin).and_then(|origin| self.evict(origin))
        } else {
            None
        };
        let number = self.next_handshake;
        self.next_handshake += 1;
        self.handshakes.entry(origin).or_default().push_back(number);
        self.handshakes_total += 1;
        (number, evicted)
    }

    fn evict(&mut self, origin: Origin) -> Option<u64> {
        let oldest = *self.handshakes.get(&origin)?.front()?;
        self.end(origin, oldest);
        Some(oldest)
    }

    /// A handshake is over; nothing happens if it had to go before.
    pub(super) fn end(&mut self, origin: Origin, number: u64) {
        let Some(own) = self.handshakes.get_mut(&origin) else { return };
        let Some(at) = own.iter().position(|other| *other == number) else { return };
        own.remove(at);
        self.handshakes_total -= 1;
        if own.is_empty() {
            self.handshakes.remove(&origin);
        }
    }

    /// Lets a client of a tenant in, of `most` in all among so many tenants. O(tenants).
    pub(super) fn enter(
        &mut self,
        origin: Origin,
        tenant: TenantId,
        (most, tenants): (u32, usize),
    ) -> Result<(), Full> {
        let of_origin = self.by_origin.get(&origin).copied().unwrap_or(0);
        if origin.0.is_some() && of_origin >= (most / 2).max(1) {
            return Err(Full::Address);
        }
        if self.by_tenant.len() <= tenant.index() {
            self.by_tenant.resize(tenant.index() + 1, 0);
        }
        let tenants = u32::try_from(tenants.max(1)).unwrap_or(u32::MAX);
        let reserved = most / 2 / tenants;
        let beyond: u32 = self.by_tenant.iter().map(|used| used.saturating_sub(reserved)).sum();
        let has_own = self.by_tenant[tenant.index()] < reserved;
        if self.clients >= most || !has_own && beyond >= most - reserved * tenants {
            return Err(Full::Tenant);
        }
        self.by_tenant[tenant.index()] += 1;
        *self.by_origin.entry(origin).or_default() += 1;
        self.clients += 1;
        Ok(())
    }

    /// A client has left.
    pub(super) fn leave(&mut self, origin: Origin, tenant: TenantId) {
        self.by_tenant[tenant.index()] -= 1;
        self.clients -= 1;
        if let Some(count) = self.by_origin.get_mut(&origin) {
            *count -= 1;
            if *count == 0 {
                self.by_origin.remove(&origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIX: Origin = Origin(None);
    const ALL: (u32, usize) = (100, 3);

    fn host(n: u8) -> Origin {
        Origin::of(Some(IpAddr::from([10, 0, 0, n])))
    }

    fn fill(ledger: &mut Ledger, origin: Origin, tenant: u32) -> u32 {
        let mut entered = 0;
        while ledger.enter(origin, TenantId(tenant), ALL).is_ok() {
            entered += 1;
        }
        entered
    }

    #[test]
    fn no_tenant_takes_the_connections_of_the_others() {
        let mut ledger = Ledger::default();
        assert_eq!(fill(&mut ledger, UNIX, 1), 68, "what is reserved for it, and all that is not");
        assert_eq!(fill(&mut ledger, UNIX, 0), 16);
        assert_eq!(fill(&mut ledger, UNIX, 2), 16);
        ledger.leave(UNIX, TenantId(1));
        assert_eq!(ledger.enter(UNIX, TenantId(2), ALL), Ok(()), "what is free is anybody's");
        assert_eq!(ledger.enter(UNIX, TenantId(1), ALL), Err(Full::Tenant));
    }

    #[test]
    fn one_tenant_has_all_there_are() {
        let mut ledger = Ledger::default();
        let mut entered = 0;
        while ledger.enter(UNIX, TenantId(0), (7, 1)).is_ok() {
            entered += 1;
        }
        assert_eq!(entered, 7);
    }

    #[test]
    fn no_address_has_more_than_half() {
        let mut ledger = Ledger::default();
        assert_eq!(fill(&mut ledger, host(1), 1), 50);
        assert_eq!(ledger.enter(host(1), TenantId(0), ALL), Err(Full::Address));
        assert_eq!(ledger.enter(host(2), TenantId(0), ALL), Ok(()));
        for _ in 0..50 {
            ledger.leave(host(1), TenantId(1));
        }
        assert_eq!((ledger.total(), ledger.by_origin.len()), (1, 1), "nothing is remembered");
    }

    #[test]
    fn a_flood_of_handshakes_costs_its_own_address_the_oldest() {
        let mut ledger = Ledger::default();
        let room = 100 / 4 + HANDSHAKES_MIN;
        let first = ledger.begin(host(1), 100).0;
        for n in 1..room / PART_OF_ORIGIN {
            assert_eq!(ledger.begin(host(1), 100).1, None, "{n}");
        }
        let quiet = ledger.begin(host(2), 100).0;
        assert_eq!(ledger.begin(host(1), 100).1, Some(first));
        ledger.end(host(1), first);
        assert_eq!(ledger.handshakes_total, room / PART_OF_ORIGIN + 1, "it had gone before");
        for n in 3..200 {
            let (_, evicted) = ledger.begin(host(n), 100);
            assert_ne!(evicted, Some(quiet), "others have more");
        }
        assert_eq!(ledger.handshakes_total, room);
    }

    #[test]
    fn a_network_of_64_bits_is_one_address() {
        let origin = |text: &str| Origin::of(Some(text.parse().expect("an address")));
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:1"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:10.0.0.1"), host(1));
    }
}
