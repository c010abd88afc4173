//! Clients in closed loops: each has so many requests under way, and asks anew when one is done.

use evenkeel_core::id::TenantId;
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::{Scheduler, Share};
use evenkeel_core::ticket::{Cost, Kind, Ticket};
use evenkeel_core::time::{Nanos, Span};

use super::Costs;
use crate::device::Op;

/// Bytes of the device.
pub(super) const DEVICE_BYTES: u64 = 64 << 30;

/// The clients of a setting.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    all: Vec<Client>,
    prng: Prng,
    /// By slot: the ticket under way, where it lies, and when it was sent.
    slots: Vec<(Ticket, u64, Nanos)>,
    /// By client: requests in the gate's queue, since when there are none, and how long there were
    /// none in all.
    waiting: Vec<Waiting>,
}

/// What of a client's waits in the gate's queue.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    requests: u32,
    since: Nanos,
    empty: Span,
}

#[derive(Clone, Debug)]
struct Client {
    share: u32,
    under_way: u32,
    size_bytes: u64,
    /// Of a hundred requests, so many read.
    reads_percent: u64,
    is_sequential: bool,
    next: u64,
}

impl Clients {
    pub(super) fn draw(prng: &mut Prng) -> Self {
        let count = 1 + prng.below(3);
        let mut one = || Client {
            share: [1000, 2000, 4000][usize::try_from(prng.below(3)).expect("few")],
            under_way: 1 << (3 + prng.below(6)),
            size_bytes: 4096 << [0, 0, 0, 2, 4, 6][usize::try_from(prng.below(6)).expect("few")],
            reads_percent: [100, 100, 70, 0][usize::try_from(prng.below(4)).expect("few")],
            is_sequential: prng.below(4) == 0,
            next: prng.below(DEVICE_BYTES >> 20) << 20,
        };
        let all: Vec<Client> = (0..count).map(|_| one()).collect();
        let waiting = vec![Waiting::default(); all.len()];
        Self { all, prng: Prng::new(prng.next_u64()), slots: Vec::new(), waiting }
    }

    pub(super) fn describe(&self) -> String {
        let one = |client: &Client| {
            let order = if client.is_sequential { "sequential" } else { "random" };
            format!(
                "{} x {} KiB {order}, {} % reads, share {}",
                client.under_way,
                client.size_bytes >> 10,
                client.reads_percent,
                client.share / 1000
            )
        };
        self.all.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    /// The shares of all, in thousandths.
    pub(super) fn shares(&self) -> Vec<u32> {
        self.all.iter().map(|client| client.share).collect()
    }

    /// By client: how long nothing of it waited.
    pub(super) fn empty(&self, now: Nanos) -> Vec<Span> {
        let one = |waiting: &Waiting| {
            waiting.empty
                + if waiting.requests == 0 { now.since(waiting.since) } else { Span::ZERO }
        };
        self.waiting.iter().map(one).collect()
    }

    /// All ask.
    pub(super) fn begin(&mut self, now: Nanos, queue: &mut impl Scheduler, costs: &Costs) {
        for (tenant, client) in (0..).map(TenantId).zip(&self.all) {
            let share = Share { weight_milli: client.share, ..Share::default() };
            queue.configure(now, tenant, share);
        }
        let asking: Vec<_> = (0..self.all.len())
            .flat_map(|index| (0..self.all[index].under_way).map(move |_| index))
            .collect();
        for index in asking {
            let slot = u32::try_from(self.slots.len()).expect("few");
            let (ticket, offset) = self.draw_request(index, slot, costs);
            self.slots.push((ticket, offset, now));
            self.waiting[index].requests += 1;
            queue.enqueue(now, ticket);
        }
    }

    /// A ticket goes to the device.
    pub(super) fn sent(&mut self, now: Nanos, ticket: &Ticket) -> Op {
        let waiting = &mut self.waiting[ticket.tenant.index()];
        waiting.requests -= 1;
        if waiting.requests == 0 {
            waiting.since = now;
        }
        let (_, offset, sent) = &mut self.slots[ticket.slot as usize];
        *sent = now;
        Op { tag: ticket.slot, kind: ticket.kind, offset: *offset, length: ticket.size_bytes }
    }

    /// The device has done it, after so long.
    pub(super) fn done(&self, now: Nanos, slot: u32) -> (Ticket, Span) {
        let (ticket, _, sent) = self.slots[slot as usize];
        (ticket, now.since(sent))
    }

    /// Who asked for it asks for another.
    pub(super) fn ask_again(
        &mut self,
        now: Nanos,
        slot: u32,
        queue: &mut impl Scheduler,
        costs: &Costs,
    ) {
        let tenant = self.slots[slot as usize].0.tenant;
        let (ticket, offset) = self.draw_request(tenant.index(), slot, costs);
        self.slots[slot as usize] = (ticket, offset, now);
        let waiting = &mut self.waiting[tenant.index()];
        if waiting.requests == 0 {
            waiting.empty += now.since(waiting.since);
        }
        waiting.requests += 1;
        queue.enqueue(now, ticket);
    }

    fn draw_request(&mut self, index: usize, slot: u32, costs: &Costs) -> (Ticket, u64) {
        let client = &mut self.all[index];
        let size_bytes = client.size_bytes;
        let offset = if client.is_sequential {
            client.next
        } else {
            self.prng.below(DEVICE_BYTES / size_bytes) * size_bytes
        };
        client.next = (client.next + size_bytes) % DEVICE_BYTES;
        let is_read = self.prng.below(100) < client.reads_percent;
        let kind = if is_read { Kind::Read } else { Kind::Write };
        let tenant = TenantId(u32::try_from(index).expect("few"));
        let cost = costs.cost(tenant, kind, size_bytes);
        (Ticket { tenant, kind, slot, size_bytes, cost, cost_elsewhere: Cost(0) }, offset)
    }
}
