//! The cause of lost ratios, and the cure, in virtual time.
//!
//! The set-up of the vPFS evaluation (PDSW 2010): four servers of 7 MB/s, two tenants of 32 clients
//! each. A client keeps one I/O outstanding, striped into one 256 KiB part per server, and asks
//! again when the slowest part is done (a barrier). The servers share their rate among the parts in
//! service (processor sharing) with exponential part sizes: by the exponential's lack of memory, a
//! busy server finishes one of its parts, each equally likely, at a constant rate.
//!
//! Cause: at most 32 of the heavy tenant's parts can be at one server, and the barrier leaves
//! fewer. Whenever all of those are in service its queue is empty, the light tenant takes the next
//! slot, and virtual time moves past the heavy tenant's tags.
//!
//! Achieved for targets of 2, 4, 8 and 16 (mean of three seeds; throughput is that of the servers
//! in every cell, because the model does not need depth to be quick):
//!
//! ```text
//!          no hold               hold 25 ms            hold 100 ms           hold 200 ms
//! D = 16   1.95 3.56 5.80 8.44   1.95 3.65 6.26 8.64   1.97 3.66 6.59 11.1   1.95 3.73 6.79 12.4
//! D = 20   1.91 3.17 4.63 5.58   1.93 3.17 4.67 4.94   1.95 3.50 6.04 10.4   1.96 3.59 6.52 11.4
//! D = 32   1.48 1.80 1.86 1.65   1.63 1.86 2.16 2.09   1.76 2.77 4.02 5.9    1.92 3.07 5.43 8.4
//! ```
//!
//! What the hold cannot give is a part that the barrier keeps away for good: with more I/Os
//! outstanding per client, or less depth, the target is met.

use evenkeel_core::id::TenantId;
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::depth::DepthPolicy;
use evenkeel_core::sched::sfq::{Sfq, SfqOptions};
use evenkeel_core::sched::{Next, Scheduler, Share};
use evenkeel_core::ticket::{Cost, Kind, Ticket};
use evenkeel_core::time::{Nanos, Span};

const SERVERS: usize = 4;
const PART_BYTES: u64 = 256 << 10;
const RATE_BYTES: u64 = 7_000_000;

#[derive(Clone, Copy)]
struct Setup {
    target: u32,
    depth: u32,
    hold: Span,
    /// Clients of the heavy and of the light tenant.
    clients: [u32; 2],
    /// I/Os that each client keeps outstanding.
    outstanding: u32,
    seed: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self { target: 16, depth: 20, hold: Span::ZERO, clients: [32; 2], outstanding: 1, seed: 1 }
    }
}

#[derive(Debug)]
struct Outcome {
    /// Parts served of the heavy tenant per part of the light one.
    ratio: f64,
    /// Bytes per second of all servers.
    throughput: f64,
}

struct Server {
    scheduler: Sfq,
    in_service: Vec<Ticket>,
    next_finish: Nanos,
    /// When a hold wants to be asked again.
    wake: Nanos,
}

const NEVER: Nanos = Nanos(u64::MAX);

impl Server {
    fn new(setup: &Setup) -> Self {
        let depth = DepthPolicy::Requests(setup.depth);
        let mut scheduler = Sfq::new(SfqOptions { depth, hold: setup.hold });
        for (tenant, weight) in [(0, setup.target), (1, 1)] {
            let share = Share { weight_milli: weight * 1000, ..Share::default() };
            scheduler.configure(Nanos::ZERO, TenantId(tenant), share);
        }
        Self { scheduler, in_service: Vec::new(), next_finish: NEVER, wake: NEVER }
    }

    fn pump(&mut self, now: Nanos, prng: &mut Prng) {
        self.wake = loop {
            match self.scheduler.poll(now) {
                Next::Dispatch(ticket) => self.in_service.push(ticket),
                Next::WaitUntil(at) => break at,
                Next::Idle => break NEVER,
            }
        };
        if self.in_service.is_empty() {
            assert_eq!(self.scheduler.queued(), 0, "the device idles with work queued");
            self.next_finish = NEVER;
        } else if self.next_finish == NEVER {
            self.next_finish = now + prng.exponential(part_time());
        }
    }

    /// Finishes a part; says whose I/O it was of.
    fn finish(&mut self, now: Nanos, prng: &mut Prng) -> Ticket {
        let lucky = usize::try_from(prng.below(self.in_service.len() as u64)).unwrap();
        let ticket = self.in_service.swap_remove(lucky);
        self.scheduler.complete(now, ticket);
        self.next_finish = NEVER;
        ticket
    }
}

fn part_time() -> Span {
    Span(PART_BYTES * 1_000_000_000 / RATE_BYTES)
}

fn part(tenant: u32, io: u32) -> Ticket {
    Ticket {
        tenant: TenantId(tenant),
        kind: Kind::Write,
        slot: io,
        size_bytes: PART_BYTES,
        cost: Cost::ONE,
        cost_elsewhere: Cost(0),
    }
}

/// Runs 300 s of virtual time, of which the first 20 do not count.
fn run(setup: &Setup) -> Outcome {
    let [warm_up, end] = [Nanos(20_000_000_000), Nanos(300_000_000_000)];
    let mut prng = Prng::new(setup.seed);
    let mut servers: Vec<Server> = (0..SERVERS).map(|_| Server::new(setup)).collect();
    let ios = setup.clients.map(|clients| clients * setup.outstanding);
    let mut parts_left = vec![SERVERS; (ios[0] + ios[1]) as usize];
    let mut served = [0u64; 2];
    for io in 0..ios[0] + ios[1] {
        let tenant = u32::from(io >= ios[0]);
        for server in &mut servers {
            server.scheduler.enqueue(Nanos::ZERO, part(tenant, io));
        }
    }
    for server in &mut servers {
        server.pump(Nanos::ZERO, &mut prng);
    }
    loop {
        let next = |server: &Server| server.next_finish.min(server.wake);
        let index = (0..SERVERS).min_by_key(|&i| next(&servers[i])).unwrap();
        let now = next(&servers[index]);
        if now > end {
            break;
        }
        if servers[index].next_finish == now {
            let ticket = servers[index].finish(now, &mut prng);
            served[ticket.tenant.index()] += u64::from(now > warm_up);
            let left = &mut parts_left[ticket.slot as usize];
            *left -= 1;
            if *left == 0 {
                *left = SERVERS;
                for server in &mut servers {
                    server.scheduler.enqueue(now, ticket);
                    server.pump(now, &mut prng);
                }
            }
        }
        servers[index].pump(now, &mut prng);
    }
    let bytes = ((served[0] + served[1]) * PART_BYTES) as f64;
    Outcome {
        ratio: served[0] as f64 / served[1] as f64,
        throughput: bytes / end.since(warm_up).as_secs_f64(),
    }
}

/// The mean ratio of three seeds, after checking that throughput stays that of the servers.
fn ratio(setup: &Setup) -> f64 {
    let outcomes = (1..=3).map(|seed| run(&Setup { seed, ..*setup }));
    let ratios = outcomes.map(|outcome| {
        let most = (SERVERS as u64 * RATE_BYTES) as f64;
        assert!(outcome.throughput > 0.95 * most, "{:.1} MB/s", outcome.throughput / 1e6);
        outcome.ratio
    });
    ratios.sum::<f64>() / 3.0
}

#[test]
fn without_a_hold_high_ratios_fall_short_as_in_the_paper() {
    // The paper, 256 KiB per server: 1.90, 3.32, 4.33, 5.84.
    for (target, expected) in [(2, 1.90), (4, 3.32), (8, 4.33), (16, 5.84)] {
        let got = ratio(&Setup { target, ..Setup::default() });
        assert!((got / expected - 1.0).abs() < 0.10, "{target} to 1: {got:.2}, not {expected}");
    }
}

#[test]
fn the_shortfall_grows_with_the_depth() {
    let ratios = [8, 16, 20, 32].map(|depth| ratio(&Setup { depth, ..Setup::default() }));
    assert!(ratios.windows(2).all(|pair| pair[0] > 1.3 * pair[1]), "{ratios:.2?}");
}

#[test]
fn a_hold_of_several_answers_recovers_most_of_the_ratio() {
    // A part takes 37 ms of a server's time; the hold lasts for five of them.
    let hold = Span::from_millis(200);
    for (depth, target, least) in [(20, 8, 6.2), (20, 16, 10.5), (32, 8, 5.0), (32, 16, 7.5)] {
        let with = ratio(&Setup { target, depth, hold, ..Setup::default() });
        let without = ratio(&Setup { target, depth, ..Setup::default() });
        assert!(with > least && with > 1.3 * without, "{with:.2} with, {without:.2} without");
    }
}

#[test]
fn a_hold_shorter_than_an_answer_helps_little() {
    let hold = Span::from_millis(25);
    let with = ratio(&Setup { hold, ..Setup::default() });
    let without = ratio(&Setup::default());
    assert!((0.8..1.2).contains(&(with / without)), "{with:.2} with, {without:.2} without");
}

#[test]
fn more_outstanding_requests_hold_the_ratio_without_a_hold() {
    for (target, tolerance) in [(8, 0.05), (16, 0.10)] {
        let got = ratio(&Setup { target, depth: 16, outstanding: 4, ..Setup::default() });
        assert!((got / f64::from(target) - 1.0).abs() < tolerance, "{target} to 1: {got:.2}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let setup = Setup { hold: Span::from_millis(100), ..Setup::default() };
    assert_eq!(run(&setup).ratio.to_bits(), run(&setup).ratio.to_bits());
}
