//! How much may be with the device at once: the D of SFQ(D).
//!
//! - **Requests**: a fixed number (Jin et al., SIGMETRICS 2004).
//! - **Bytes**: a ticket takes depth in proportion to its size (SFQ(D)+, vPFS+, MSST 2019), so
//!   that a few large requests do not hide behind the number of many small ones. A ticket takes
//!   4 KiB at least, or flushes would be free.
//! - **Adaptive**: an integral controller holds the device's latency to a goal (SFQ(D2), IBIS, HPDC
//!   2016). Once per control period, with L the mean latency and Lref the goal,
//!
//! ```text
//! D(k+1) = D(k) + K * (Lref - L(k)),    K = D(k) / (4 * Lref)
//! ```
//!
//! The gain is relative: the step is at most a quarter of the depth, whatever the device's scale.
//! With latency growing as `a + b*D`, that is stable for every a and b. Reads and writes have goals
//! of their own; under a mixture the two relative errors are weighted by the number of requests.
//! The integrator itself is clamped to [min, max], so it cannot wind up beyond them, and it does
//! not grow in a period in which the depth never made a request wait: a low latency of an idle
//! device says nothing about a greater depth.
//!
//! Latency is measured by Little's law, `request-time / completions`, so that no record per request
//! is kept. A period lasts until enough requests completed to make that a mean.
//!
//! Whatever the depth, an empty device takes the next ticket.

use crate::ticket::{Kind, Ticket};
use crate::time::{Nanos, Span};

/// The least that a ticket takes of a depth in bytes.
const CHARGE_BYTES_MIN: u64 = 4096;
/// The shortest control period.
const PERIOD: Span = Span::from_millis(100);
/// Completions that a control period waits for.
const PERIOD_COMPLETIONS: u64 = 16;
/// One over the part of the depth that a full error moves it by.
const GAIN_DIVISOR: i64 = 4;

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
}

impl DepthPolicy {
    /// What a ticket takes of the depth, in requests or bytes as the policy counts.
    pub fn charge(&self, ticket: &Ticket) -> u64 {
        match self {
            Self::Requests(_) | Self::Adaptive { .. } => 1,
            Self::Bytes(_) => charge_bytes(ticket),
        }
    }

    /// The least that a ticket takes.
    pub fn charge_min(&self) -> u64 {
        match self {
            Self::Requests(_) | Self::Adaptive { .. } => 1,
            Self::Bytes(_) => CHARGE_BYTES_MIN,
        }
    }
}

/// Counts what is with the device, and says what still fits.
#[derive(Clone, Debug)]
pub struct Depth {
    policy: DepthPolicy,
    in_service: u32,
    in_service_bytes: u64,
    read: Meter,
    write: Meter,
    /// Depth of the adaptive policy in thousandths: the state of the integrator.
    steered_milli: i64,
    period_start: Nanos,
    made_wait: bool,
}

/// Latency of one direction by Little's law.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    in_service: u32,
    changed: Nanos,
    request_time: Span,
    completions: u64,
}

impl Depth {
    /// A depth with nothing in service.
    pub fn new(policy: DepthPolicy) -> Self {
        let mut depth = Self {
            policy,
            in_service: 0,
            in_service_bytes: 0,
            read: Meter::default(),
            write: Meter::default(),
            steered_milli: i64::MAX,
            period_start: Nanos::ZERO,
            made_wait: false,
        };
        depth.steer_by(0);
        depth
    }

    /// Changes the policy. What is in service stays; an adaptive depth starts from where the last
    /// one stood, within its new bounds.
    pub fn set_policy(&mut self, policy: DepthPolicy) {
        self.policy = policy;
        self.steer_by(0);
    }

    /// Whether the ticket may go to the device now.
    pub fn fits(&self, ticket: &Ticket) -> bool {
        self.in_service == 0
            || match self.policy {
                DepthPolicy::Requests(limit) => self.in_service < limit,
                DepthPolicy::Bytes(limit) => {
                    self.in_service_bytes.saturating_add(charge_bytes(ticket)) <= limit
                }
                DepthPolicy::Adaptive { .. } => u64::from(self.in_service) < self.in_force(),
            }
    }

    /// Bytes that tickets may pass a head that does not fit, while it waits; zero where no other
    /// ticket could fit either.
    pub fn backfill_bytes(&self) -> u64 {
        match self.policy {
            DepthPolicy::Bytes(limit) => limit,
            DepthPolicy::Requests(_) | DepthPolicy::Adaptive { .. } => 0,
        }
    }

    /// Notes that a ticket waits because it did not fit.
    pub fn note_wait(&mut self) {
        self.made_wait = true;
    }

    /// Notes that a ticket went to the device.
    pub fn start(&mut self, now: Nanos, ticket: &Ticket) {
        self.in_service += 1;
        self.in_service_bytes += charge_bytes(ticket);
        if let Some(meter) = self.meter(ticket.kind) {
            meter.start(now);
        }
    }

    /// Notes that the device finished a ticket.
    pub fn finish(&mut self, now: Nanos, ticket: &Ticket) {
        assert!(self.in_service > 0, "a ticket completes once, after its dispatch");
        self.in_service -= 1;
        self.in_service_bytes -= charge_bytes(ticket);
        if let Some(meter) = self.meter(ticket.kind) {
            meter.finish(now);
        }
        if matches!(self.policy, DepthPolicy::Adaptive { .. }) {
            self.steer(now);
        }
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
            DepthPolicy::Adaptive { .. } => self.steered_milli.unsigned_abs() / 1000,
        }
    }

    /// The kinds that move data and so tell of the device's queue.
    fn meter(&mut self, kind: Kind) -> Option<&mut Meter> {
        match kind {
            Kind::Read => Some(&mut self.read),
            Kind::Write | Kind::WriteZeroes => Some(&mut self.write),
            Kind::Flush | Kind::Trim | Kind::Cache => None,
        }
    }

    /// Ends the control period if it is time to.
    fn steer(&mut self, now: Nanos) {
        let DepthPolicy::Adaptive { read_goal, write_goal, .. } = self.policy else { return };
        let completions = self.read.completions + self.write.completions;
        if now.since(self.period_start) < PERIOD || completions < PERIOD_COMPLETIONS {
            return;
        }
        let weighted =
            self.read.take_error(now, read_goal) + self.write.take_error(now, write_goal);
        let error_milli = weighted / i64::try_from(completions).unwrap_or(i64::MAX);
        let step_milli = self.steered_milli / GAIN_DIVISOR * error_milli / 1000;
        if step_milli < 0 || self.made_wait {
            self.steer_by(step_milli);
        }
        self.period_start = now;
        self.made_wait = false;
    }

    fn steer_by(&mut self, step_milli: i64) {
        if let DepthPolicy::Adaptive { min, max, .. } = self.policy {
            let [least, most] = [min.max(1), max.max(min).max(1)].map(|d| i64::from(d) * 1000);
            self.steered_milli = self.steered_milli.saturating_add(step_milli).clamp(least, most);
        }
    }
}

impl Meter {
    fn start(&mut self, now: Nanos) {
        self.advance(now);
        self.in_service += 1;
    }

    fn finish(&mut self, now: Nanos) {
        self.advance(now);
        self.in_service -= 1;
        self.completions += 1;
    }

    fn advance(&mut self, now: Nanos) {
        let elapsed = now.since(self.changed);
        self.request_time += Span(elapsed.0.saturating_mul(u64::from(self.in_service)));
        self.changed = now;
    }

    /// Closes the period: the relative error `(goal - latency) / goal` in thousandths, limited to
    /// +-1000, times the number of completions.
    fn take_error(&mut self, now: Nanos, goal: Span) -> i64 {
        self.advance(now);
        let completions = std::mem::take(&mut self.completions);
        let request_time = std::mem::take(&mut self.request_time);
        if completions == 0 {
            return 0;
        }
        let latency = u128::from(request_time.0 / completions);
        let relative_milli = (latency * 1000 / u128::from(goal.0.max(1))).min(2000);
        let error_milli = 1000 - i64::try_from(relative_milli).expect("at most 2000");
        error_milli * i64::try_from(completions).unwrap_or(i64::MAX / 1000)
    }
}

/// What a ticket takes of a depth in bytes.
pub(crate) fn charge_bytes(ticket: &Ticket) -> u64 {
    ticket.size_bytes.max(CHARGE_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
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
                assert_eq!(depth.steered_milli, 100_000 - 15_625);
            }
        }
    }
}
