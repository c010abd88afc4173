//! Clients in closed loops: each has so many requests under way, and asks anew when one is done.

use evenkeel_core::id::TenantId;
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::{Scheduler, Share};
use evenkeel_core::ticket::{Cost, Kind, Ticket};
use evenkeel_core::time::{Nanos, Span};

use super::device::Drawn;
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
        let all = (0..count).map(|_| one()).collect();
        Self { all, prng: Prng::new(prng.next_u64()), slots: Vec::new() }
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

    /// All ask.
    pub(super) fn begin(&mut self, now: Nanos, queue: &mut impl Scheduler, device: &Drawn) {
        for (tenant, client) in (0..).map(TenantId).zip(&self.all) {
            let share = Share { weight_milli: client.share, ..Share::default() };
            queue.configure(now, tenant, share);
        }
        let asking: Vec<_> = (0..self.all.len())
            .flat_map(|index| (0..self.all[index].under_way).map(move |_| index))
            .collect();
        for index in asking {
            let slot = u32::try_from(self.slots.len()).expect("few");
            let (ticket, offset) = self.draw_request(index, slot, device);
            self.slots.push((ticket, offset, now));
            queue.enqueue(now, ticket);
        }
    }

    /// A ticket goes to the device.
    pub(super) fn sent(&mut self, now: Nanos, ticket: &Ticket) -> Op {
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
        device: &Drawn,
    ) {
        let tenant = self.slots[slot as usize].0.tenant;
        let (ticket, offset) = self.draw_request(tenant.index(), slot, device);
        self.slots[slot as usize] = (ticket, offset, now);
        queue.enqueue(now, ticket);
    }

    fn draw_request(&mut self, index: usize, slot: u32, device: &Drawn) -> (Ticket, u64) {
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
        let cost = device.cost(kind, size_bytes);
        (Ticket { tenant, kind, slot, size_bytes, cost, cost_elsewhere: Cost(0) }, offset)
    }
}
