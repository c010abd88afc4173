//! How much may be with the device at once: the D of SFQ(D).
//!
//! - **Requests**: a fixed number (Jin et al., SIGMETRICS 2004).
//! - **Bytes**: a ticket takes depth in proportion to its size (SFQ(D)+, vPFS+, MSST 2019), so that
//!   a few large requests do not hide behind the number of many small ones. A ticket takes 4 KiB at
//!   least, or flushes would be free.
//! - **Adaptive**: steered so that the device's latency meets a goal (`goal`).
//! - **Automatic**: the smallest at which the device gives what it can, found by trying (`knee`).
//!
//! Whatever the depth, an empty device takes the next ticket.

mod contrast;
mod goal;
mod knee;
pub mod periods;
mod presence;
mod rate;
mod scatter;
mod sparse;

use crate::ticket::{Kind, Ticket};
use crate::time::{Nanos, Span};
use goal::{Goal, Steering};
use knee::Knee;
pub use knee::LADDER;

/// The least that a ticket takes of a depth in bytes.
const CHARGE_BYTES_MIN: u64 = 4096;

/// What may be with the device at once. Bounds of zero are taken for 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepthPolicy {
    /// So many requests.
    Requests(u32),
    /// So many bytes.
    Bytes(u64),
    /// Requests, steered between two bounds so that device latency meets a goal. Starts at `max`.
    Adaptive {
        /// Fewest requests.
        min: u32,
        /// Most requests.
        max: u32,
        /// Mean device latency of reads to hold.
        read_goal: Span,
        /// Mean device latency of writes to hold.
        write_goal: Span,
    },
    /// Requests, as few as keep the device's throughput. Starts at 1, is one of [`LADDER`].
    Automatic,
}

impl DepthPolicy {
    /// The most requests of this size that it ever lets through, one at least.
    pub fn units_max(&self, unit_bytes: u64) -> u32 {
        let units = match *self {
            Self::Requests(limit) => limit,
            Self::Bytes(bytes) => u32::try_from(bytes / unit_bytes.max(1)).unwrap_or(u32::MAX),
            Self::Adaptive { min, max, .. } => max.max(min),
            Self::Automatic => LADDER[LADDER.len() - 1],
        };
        units.max(1)
    }

    /// What a ticket takes of the depth, in requests or bytes as the policy counts.
    pub fn charge(&self, ticket: &Ticket) -> u64 {
        match self {
            Self::Requests(_) | Self::Adaptive { .. } | Self::Automatic => 1,
            Self::Bytes(_) => charge_bytes(ticket),
        }
    }

    /// The least that a ticket takes.
    pub fn charge_min(&self) -> u64 {
        match self {
            Self::Requests(_) | Self::Adaptive { .. } | Self::Automatic => 1,
            Self::Bytes(_) => CHARGE_BYTES_MIN,
        }
    }

    fn goal(&self) -> Option<Goal> {
        let Self::Adaptive { min, max, read_goal: read, write_goal: write } = *self else {
            return None;
        };
        Some(Goal { min, max, read, write })
    }
}

/// Counts what is with the device, and says what still fits.
#[derive(Clone, Debug)]
pub struct Depth {
    policy: DepthPolicy,
    in_service: u32,
    in_service_bytes: u64,
    steering: Steering,
    /// There while the policy is automatic.
    knee: Option<Box<Knee>>,
}

impl Depth {
    /// A depth with nothing in service.
    pub fn new(policy: DepthPolicy) -> Self {
        let mut depth = Self {
            policy,
            in_service: 0,
            in_service_bytes: 0,
            steering: Steering::new(),
            knee: None,
        };
        depth.set_policy(policy);
        depth
    }

    /// Changes the policy. What is in service stays; an adaptive depth starts from where the last
    /// one stood, within its new bounds, and an automatic one that was in force goes on.
    pub fn set_policy(&mut self, policy: DepthPolicy) {
        self.policy = policy;
        if let Some(goal) = policy.goal() {
            self.steering.keep_within(goal);
        }
        if policy != DepthPolicy::Automatic {
            self.knee = None;
        } else if self.knee.is_none() {
            self.knee = Some(Box::new(Knee::new(self.in_service)));
        }
    }

    /// Whether the ticket may go to the device now.
    pub fn fits(&self, ticket: &Ticket) -> bool {
        self.in_service == 0
            || match self.policy {
                DepthPolicy::Bytes(limit) => {
                    self.in_service_bytes.saturating_add(charge_bytes(ticket)) <= limit
                }
                _ => u64::from(self.in_service) < self.in_force(),
            }
    }

    /// Bytes that tickets may pass a head that does not fit, while it waits; zero where no other
    /// ticket could fit either.
    pub fn backfill_bytes(&self) -> u64 {
        match self.policy {
            DepthPolicy::Bytes(limit) => limit,
            _ => 0,
        }
    }

    /// Notes that a ticket waits because it did not fit.
    pub fn note_wait(&mut self) {
        self.steering.note_wait();
    }

    /// Notes that a ticket has come, and waits. Those who never say so have no sparse requests.
    pub fn arrived(&mut self, now: Nanos, ticket: &Ticket) {
        if let Some(knee) = &mut self.knee {
            knee.arrived(now, ticket);
        }
    }

    /// Notes, instead of [`arrived`](Self::arrived), that a ticket has come that waited elsewhere
    /// for its tenant's own sake.
    pub fn arrived_late(&mut self, now: Nanos, ticket: &Ticket) {
        if let Some(knee) = &mut self.knee {
            knee.arrived_late(now, ticket);
        }
    }

    /// Notes that a ticket that waited was taken back.
    pub fn withdrawn(&mut self, now: Nanos, ticket: &Ticket) {
        if let Some(knee) = &mut self.knee {
            knee.withdrawn(now, ticket);
        }
    }

    /// Notes that everything that waited was taken back.
    pub fn drained(&mut self) {
        if let Some(knee) = &mut self.knee {
            knee.drained();
        }
    }

    /// Notes that a ticket went to the device.
    pub fn start(&mut self, now: Nanos, ticket: &Ticket) {
        self.in_service += 1;
        self.in_service_bytes += charge_bytes(ticket);
        self.steering.started(now, ticket.kind);
        if let Some(knee) = &mut self.knee {
            knee.started(now, ticket);
        }
    }

    /// Notes that the device finished a ticket.
    pub fn finish(&mut self, now: Nanos, ticket: &Ticket) {
        self.give_back(ticket);
        self.steering.finished(now, ticket.kind);
        if let Some(goal) = self.policy.goal() {
            self.steering.steer(now, goal);
        }
        if let Some(knee) = &mut self.knee {
            match ticket.kind {
                Kind::Read | Kind::Write => knee.finished(now, ticket),
                // They move no bytes, and take a device as long as it likes.
                Kind::Flush | Kind::Trim | Kind::Cache | Kind::WriteZeroes => {
                    knee.left(now, ticket);
                }
            }
        }
    }

    /// Notes that a ticket no longer counts, though the device has not served it: it has failed, or
    /// is out for too long. Nothing is learned from it.
    pub fn leave(&mut self, now: Nanos, ticket: &Ticket) {
        self.give_back(ticket);
        self.steering.finished(now, ticket.kind);
        if let Some(knee) = &mut self.knee {
            knee.left(now, ticket);
        }
    }

    fn give_back(&mut self, ticket: &Ticket) {
        assert!(self.in_service > 0, "a ticket completes once, after its dispatch");
        self.in_service -= 1;
        self.in_service_bytes -= charge_bytes(ticket);
    }

    /// Tickets with the device.
    pub fn in_service(&self) -> u32 {
        self.in_service
    }

    /// The depth in force, in requests or bytes as the policy counts.
    pub fn in_force(&self) -> u64 {
        match self.policy {
            DepthPolicy::Requests(limit) => u64::from(limit.max(1)),
            DepthPolicy::Bytes(limit) => limit.max(1),
            DepthPolicy::Adaptive { .. } => self.steering.depth(),
            DepthPolicy::Automatic => {
                u64::from(self.knee.as_ref().map_or(LADDER[0], |knee| knee.depth()))
            }
        }
    }

    /// Whether not even the least ticket fits.
    pub fn is_full(&self) -> bool {
        self.in_service > 0
            && match self.policy {
                DepthPolicy::Bytes(limit) => self.in_service_bytes + CHARGE_BYTES_MIN > limit,
                _ => u64::from(self.in_service) >= self.in_force(),
            }
    }

    /// The depth that an automatic policy has found, beside which it tries others now and then;
    /// none while it has not, or under another policy.
    pub fn found(&self) -> Option<u32> {
        self.knee.as_ref().filter(|knee| knee.is_found()).map(|knee| knee.found())
    }

    /// The part of the throughput, 0 to 1, that an automatic depth forgoes so that tenants with
    /// little wait less; none where it forgoes nothing.
    pub fn forgone(&self) -> Option<f64> {
        self.knee.as_ref().and_then(|knee| knee.forgone())
    }

    /// Tickets go out in an order that tells an automatic depth nothing, or no longer do.
    pub fn disturb(&mut self, is_disturbed: bool) {
        if let Some(knee) = &mut self.knee {
            knee.disturb(is_disturbed);
        }
    }
}

/// What a ticket takes of a depth in bytes.
pub(crate) fn charge_bytes(ticket: &Ticket) -> u64 {
    ticket.size_bytes.max(CHARGE_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::goal::PERIOD;
    use super::*;
    use crate::id::TenantId;
    use crate::prng::Prng;
    use crate::sched::testing::ticket;

    fn sized(size_bytes: u64) -> Ticket {
        Ticket { size_bytes, ..ticket(0, 0) }
    }

    #[test]
    fn an_empty_device_takes_anything() {
        for policy in [DepthPolicy::Requests(0), DepthPolicy::Bytes(1)] {
            let mut depth = Depth::new(policy);
            assert!(depth.fits(&sized(1 << 40)));
            depth.start(Nanos(0), &sized(1 << 40));
            assert!(!depth.fits(&sized(0)), "{policy:?} is full");
        }
    }

    #[test]
    fn a_depth_in_bytes_counts_bytes() {
        let mut depth = Depth::new(DepthPolicy::Bytes(64 << 10));
        depth.start(Nanos(0), &sized(32 << 10));
        assert!(depth.fits(&sized(32 << 10)) && !depth.fits(&sized((32 << 10) + 1)));
        depth.start(Nanos(0), &sized(28 << 10));
        assert!(depth.fits(&sized(0)) && !depth.fits(&sized(8 << 10)), "a flush takes 4 KiB");
    }

    const GOAL: Span = Span::from_millis(10);

    fn adaptive(min: u32, max: u32) -> Depth {
        let policy = DepthPolicy::Adaptive { min, max, read_goal: GOAL, write_goal: GOAL };
        Depth::new(policy)
    }

    /// Runs a device whose latency is `base + per_request * depth`, always full, for some periods.
    fn run(depth: &mut Depth, clock: &mut Nanos, base: Span, per_request: Span, periods: u32) {
        let end = *clock + Span(PERIOD.0 * u64::from(periods));
        while *clock < end {
            let batch = depth.in_force();
            (0..batch).for_each(|_| depth.start(*clock, &sized(4096)));
            depth.note_wait();
            *clock += Span(base.0 + per_request.0 * batch);
            (0..batch).for_each(|_| depth.finish(*clock, &sized(4096)));
        }
    }

    #[test]
    fn the_depth_settles_where_latency_meets_its_goal() {
        // 1 ms + 0.3 ms per request in service: 10 ms at a depth of 30.
        let mut clock = Nanos(0);
        let mut depth = adaptive(1, 128);
        run(&mut depth, &mut clock, Span::from_millis(1), Span::from_micros(300), 60);
        assert!((28..=31).contains(&depth.in_force()), "{}", depth.in_force());
        // The device becomes three times as slow, then quick again.
        run(&mut depth, &mut clock, Span::from_millis(1), Span::from_micros(900), 60);
        assert!((9..=10).contains(&depth.in_force()), "{}", depth.in_force());
        run(&mut depth, &mut clock, Span::from_millis(1), Span::from_micros(300), 60);
        assert!((28..=31).contains(&depth.in_force()), "{}", depth.in_force());
    }

    #[test]
    fn it_does_not_wind_up_beyond_its_bounds() {
        let mut clock = Nanos(0);
        let mut depth = adaptive(4, 16);
        run(&mut depth, &mut clock, Span::from_millis(100), Span::ZERO, 50);
        assert_eq!(depth.in_force(), 4);
        run(&mut depth, &mut clock, Span::from_micros(10), Span::ZERO, 12);
        assert_eq!(depth.in_force(), 16, "it comes off its bound at once");
    }

    #[test]
    fn it_does_not_grow_while_it_makes_nobody_wait() {
        let mut clock = Nanos(0);
        let mut depth = adaptive(1, 64);
        run(&mut depth, &mut clock, Span::from_millis(100), Span::ZERO, 50);
        assert_eq!(depth.in_force(), 1);
        for _ in 0..10_000 {
            depth.start(clock, &sized(4096));
            clock += Span::from_micros(100);
            depth.finish(clock, &sized(4096));
        }
        assert_eq!(depth.in_force(), 1);
    }

    #[test]
    fn a_mixture_weighs_its_errors_by_their_counts() {
        let [read_goal, write_goal] = [Span::from_millis(10), Span::from_millis(40)];
        let mut depth =
            Depth::new(DepthPolicy::Adaptive { min: 1, max: 100, read_goal, write_goal });
        let write = Ticket { kind: Kind::Write, ..sized(4096) };
        // 15 reads at twice their goal (-1 each) and 5 writes at half of theirs (+0.5 each):
        // the mean error is -0.625, a quarter of which is taken off the depth.
        let mut clock = Nanos(0);
        for round in 0..20 {
            let (ticket, latency) = if round % 4 == 0 { (write, 20) } else { (sized(4096), 20) };
            depth.start(clock, &ticket);
            clock += Span::from_millis(latency);
            depth.finish(clock, &ticket);
            if round == 15 {
                // 12 reads and 4 writes: one period, -0.625 as well.
                assert_eq!(depth.steering.depth_milli, 100_000 - 15_625);
            }
        }
    }

    /// A device that serves large requests of a tenant that always asks, and small ones, 100 a
    /// second at random times, of one that sends now and then.
    #[derive(Clone, Copy)]
    struct Starving {
        seed: u64,
        sends_now_and_then: bool,
        /// From one large request to the next, in microseconds, by how many it has.
        large_micros: fn(u64) -> u64,
        /// What a small one takes, in milliseconds, by how many large ones it has then.
        small_millis: fn(u64) -> u64,
        /// The most large ones that are asked for, by the time.
        asks: fn(Nanos) -> u64,
        /// The depth that was found before, or 1 if nothing was.
        begins_at: u32,
    }

    impl Starving {
        /// Plays it for five minutes.
        fn run(&self) -> Depth {
            let large = Ticket { tenant: TenantId(1), ..ticket(0, 0) };
            let mut depth = Depth::new(DepthPolicy::Automatic);
            if self.begins_at > 1 {
                depth.knee.as_mut().expect("it is automatic").set_base(self.begins_at);
            }
            let mut now = Nanos(0);
            // One always waits.
            depth.arrived(now, &large);
            let (mut large_done, mut comes, mut there, mut slot) = (Nanos(0), Nanos(0), 0, 0);
            let mut random = Prng::new(self.seed);
            let mut waiting: Vec<Ticket> = Vec::new();
            let mut served: Vec<(Nanos, Ticket)> = Vec::new();
            while now < Nanos(0) + Span::from_secs(300) {
                if self.sends_now_and_then && now >= comes {
                    let pause = random.exponential(Span::from_millis(10));
                    (comes, slot) = (now + pause, (slot + 1) % 512);
                    let small = Ticket { slot, ..ticket(0, 0) };
                    depth.arrived(now, &small);
                    waiting.push(small);
                }
                while let Some(small) = waiting.first().copied().filter(|one| depth.fits(one)) {
                    depth.start(now, &small);
                    served.push((now + Span::from_millis((self.small_millis)(there)), small));
                    waiting.remove(0);
                }
                while there < (self.asks)(now) && depth.fits(&large) {
                    depth.arrived(now, &large);
                    depth.start(now, &large);
                    there += 1;
                }
                now += Span::from_micros(100);
                if now >= large_done && there > 0 {
                    depth.finish(now, &large);
                    large_done = now + Span::from_micros((self.large_micros)(there));
                    there -= 1;
                }
                while let Some(at) = served.iter().position(|(at, _)| *at <= now) {
                    let (_, small) = served.remove(at);
                    depth.finish(now, &small);
                }
            }
            depth
        }
    }

    #[test]
    fn whoever_sends_now_and_then_pulls_the_depth_down_where_the_device_starves_it() {
        let run = |seed, sends_now_and_then| {
            Starving {
                seed,
                sends_now_and_then,
                large_micros: |there| 500 + 2000 / there,
                small_millis: |there| 5 + 20 * there.saturating_sub(4),
                asks: |_| u64::MAX,
                begins_at: 1,
            }
            .run()
        };
        let alone = run(1, false);
        assert!(alone.found().is_some_and(|depth| depth >= 16), "{:?}", alone.found());
        assert_eq!(alone.forgone(), None);
        for seed in 1..=8 {
            let beside = run(seed, true);
            let (found, forgone) = (beside.found(), beside.forgone());
            assert!(found.is_some_and(|depth| depth <= 6), "{found:?}, seed {seed}");
            let is_some = forgone.is_some_and(|part| (0.1..0.5).contains(&part));
            assert!(is_some, "{forgone:?}, seed {seed}");
        }
    }

    /// Up to 32 at once; what is sparse takes four times as long at twice the depth, as it may if a
    /// tenant makes it so.
    const PARALLEL: Starving = Starving {
        seed: 1,
        sends_now_and_then: true,
        large_micros: |there| 32_000 / if there < 32 { there } else { 32 },
        small_millis: |there| 1 + there * there / 8,
        asks: |_| u64::MAX,
        begins_at: 1,
    };

    #[test]
    fn nobody_keeps_a_depth_that_gains_nothing() {
        // A great depth makes what is sparse quicker, as it does for a tenant that has but a few
        // requests outstanding and gets more than its share then.
        for seed in 1..=8 {
            let serial = Starving {
                seed,
                large_micros: |_| 1000,
                small_millis: |there| 1 + 64 / there.max(1),
                begins_at: 64,
                ..PARALLEL
            };
            let found = serial.run().found();
            assert!(found.is_some_and(|depth| depth <= 16), "{found:?}, seed {seed}");
        }
    }

    #[test]
    fn nobody_pulls_down_a_device_that_serves_many_at_once() {
        for seed in 1..=4 {
            let found = Starving { seed, ..PARALLEL }.run().found();
            assert!(found.is_some_and(|depth| depth >= 16), "{found:?}, seed {seed}");
        }
    }

    #[test]
    fn nobody_keeps_a_device_that_serves_many_at_once_where_it_began() {
        let asks = |now| if now < Nanos(0) + Span::from_secs(10) { 4 } else { u64::MAX };
        for seed in 1..=4 {
            let found = Starving { seed, asks, ..PARALLEL }.run().found();
            assert!(found.is_some_and(|depth| depth >= 16), "{found:?}, seed {seed}");
        }
    }
}
