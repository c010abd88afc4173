//! Who may have how many connections.
//!
//! ```text
//! accepted --> handshake, a pool of its own --> client of a tenant, of `connections` in all
//!              full: one of the greatest origin  |  reserved for each tenant  |  for whoever
//!              goes                              |                            |  comes
//! ```
//!
//! - **Who has not said who he is** has a place in a pool beside the others. An origin is an
//!   address, or the process at the other end of a unix socket. Where the pool is full, or one
//!   origin has half of it, a handshake goes: of that origin, or of the one that has most. Those
//!   of which nothing has been read go first, then the oldest. A handshake takes milliseconds, so
//!   a flood does not keep others out, from its own origin neither.
//! - **Tenants**: half of all connections is reserved in equal parts, the other half is for whoever
//!   comes first. So no tenant takes all.
//! - **Addresses**: none has more than half of all connections. Of IPv6 a host has 64 bits, which
//!   count as one address. Processes have no such bound.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

use evenkeel_core::id::TenantId;

/// One over the part of its pool that the handshakes of one origin may take.
const PART_OF_ORIGIN: usize = 2;
/// Bits of an address of IPv6 by which a network is known.
const NETWORK: u128 = !0 << 64;
/// Handshakes under way at a time beside a quarter of `connections`.
const HANDSHAKES_MIN: usize = 256;

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// A host, or a network of IPv6.
    Address(IpAddr),
    /// The process that connected to a unix socket; none if the kernel does not tell.
    Process(Option<i32>),
}

impl Origin {
    pub(crate) fn of(address: Option<IpAddr>, process: Option<i32>) -> Self {
        address.map_or(Self::Process(process), |address| Self::Address(network_of(address)))
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

/// Handshakes of one origin, oldest first.
#[derive(Debug, Default)]
struct Handshakes {
    /// Nothing has been read of these yet.
    silent: VecDeque<u64>,
    speaking: VecDeque<u64>,
}

impl Handshakes {
    fn len(&self) -> usize {
        self.silent.len() + self.speaking.len()
    }

    fn next_to_go(&self) -> Option<u64> {
        self.silent.front().or_else(|| self.speaking.front()).copied()
    }

    fn remove(&mut self, number: u64) -> bool {
        remove(&mut self.silent, number) || remove(&mut self.speaking, number)
    }
}

/// Numbers grow, so that each queue is in order.
fn remove(queue: &mut VecDeque<u64>, number: u64) -> bool {
    queue.binary_search(&number).is_ok_and(|at| queue.remove(at).is_some())
}

/// Connections in handshakes and of tenants. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Ledger {
    handshakes: BTreeMap<Origin, Handshakes>,
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

    /// The handshake that has to go for one from there, of which there is room for a quarter of
    /// `most` and some. O(origins) where there is no room.
    pub(super) fn next_to_go(&self, origin: Origin, most: u32) -> Option<(Origin, u64)> {
        let room = most as usize / 4 + HANDSHAKES_MIN;
        let own = self.handshakes.get(&origin).filter(|own| own.len() >= room / PART_OF_ORIGIN);
        if let Some(own) = own {
            return Some((origin, own.next_to_go()?));
        }
        let greatest = self.handshakes.iter().max_by_key(|(_, all)| all.len());
        let (greatest, all) = greatest.filter(|_| self.handshakes_total >= room)?;
        Some((*greatest, all.next_to_go()?))
    }

    /// A handshake begins; for its number.
    pub(super) fn begin(&mut self, origin: Origin) -> u64 {
        let number = self.next_handshake;
        self.next_handshake += 1;
        self.handshakes.entry(origin).or_default().silent.push_back(number);
        self.handshakes_total += 1;
        number
    }

    /// Something has been read of a handshake; nothing happens if it had to go before.
    pub(super) fn speaks(&mut self, origin: Origin, number: u64) {
        let Some(own) = self.handshakes.get_mut(&origin) else { return };
        if remove(&mut own.silent, number) {
            let at = own.speaking.partition_point(|other| *other < number);
            own.speaking.insert(at, number);
        }
    }

    /// A handshake is over; nothing happens if it had to go before.
    pub(super) fn end(&mut self, origin: Origin, number: u64) {
        let Some(own) = self.handshakes.get_mut(&origin) else { return };
        if own.remove(number) {
            self.handshakes_total -= 1;
        }
        if own.len() == 0 {
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
        if matches!(origin, Origin::Address(_)) && of_origin >= (most / 2).max(1) {
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

    const UNIX: Origin = Origin::Process(Some(7));
    const ALL: (u32, usize) = (100, 3);

    fn host(n: u8) -> Origin {
        Origin::of(Some(IpAddr::from([10, 0, 0, n])), None)
    }

    /// Begins a handshake; which had to go for it.
    fn begin(ledger: &mut Ledger, origin: Origin) -> (u64, Option<u64>) {
        let gone = ledger.next_to_go(origin, 100);
        if let Some((origin, number)) = gone {
            ledger.end(origin, number);
        }
        (ledger.begin(origin), gone.map(|(_, number)| number))
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
        let first = begin(&mut ledger, host(1)).0;
        for n in 1..room / PART_OF_ORIGIN {
            assert_eq!(begin(&mut ledger, host(1)).1, None, "{n}");
        }
        let quiet = begin(&mut ledger, host(2)).0;
        assert_eq!(begin(&mut ledger, host(1)).1, Some(first));
        ledger.end(host(1), first);
        assert_eq!(ledger.handshakes_total, room / PART_OF_ORIGIN + 1, "it had gone before");
        for n in 3..200 {
            let (_, evicted) = begin(&mut ledger, host(n));
            assert_ne!(evicted, Some(quiet), "others have more");
        }
        assert_eq!(ledger.handshakes_total, room);
    }

    #[test]
    fn who_has_said_something_stays_where_silent_ones_can_go() {
        let mut ledger = Ledger::default();
        let room = (100 / 4 + HANDSHAKES_MIN) / PART_OF_ORIGIN;
        let speaking: Vec<u64> = (0..2).map(|_| begin(&mut ledger, UNIX).0).collect();
        for number in speaking.iter().rev() {
            ledger.speaks(UNIX, *number);
        }
        let silent: Vec<u64> = (2..room).map(|_| begin(&mut ledger, UNIX).0).collect();
        let mut gone = |_| {
            let (number, evicted) = begin(&mut ledger, UNIX);
            ledger.speaks(UNIX, number);
            evicted.expect("one has to go")
        };
        assert_eq!((2..room).map(&mut gone).collect::<Vec<_>>(), silent);
        assert_eq!((0..2).map(&mut gone).collect::<Vec<_>>(), speaking, "then the oldest");
        ledger.speaks(UNIX, silent[0]);
        assert_eq!(ledger.handshakes_total, room);
    }

    #[test]
    fn a_process_costs_itself_its_handshakes() {
        let mut ledger = Ledger::default();
        let other = begin(&mut ledger, Origin::of(None, Some(8))).0;
        let evicted: Vec<u64> = (0..1000).filter_map(|_| begin(&mut ledger, UNIX).1).collect();
        assert!(!evicted.is_empty() && !evicted.contains(&other));
    }

    #[test]
    fn a_network_of_64_bits_is_one_address() {
        let origin = |text: &str| Origin::of(Some(text.parse().expect("an address")), None);
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:1"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:10.0.0.1"), host(1));
    }
}
