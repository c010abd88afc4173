//! What a host counts of each tenant in a period, and how many requests it expects next.
//!
//! Expected arrivals: the greater of a fast and a slow exponential average of the arrival rate. The
//! fast one sees a burst within a period or two; the slow one keeps a lull between two bursts from
//! being taken for the end. Their time constants are in seconds, whatever the period.

use super::host::Sent;
use super::summary::FlowSummary;
use super::target::Target;
use crate::ticket::Cost;
use crate::time::{Nanos, Span};

/// Time constants of the two averages of the arrival rate.
const FAST: Span = Span::from_millis(200);
const SLOW: Span = Span::from_millis(2_000);

/// Who expects fewer requests per second expects none.
const SILENT_PER_S: f64 = 0.01;

/// The counters of one tenant at one host.
#[derive(Clone, Debug, Default)]
pub struct Monitor {
    /// The period under way; what is counted at its end alone stays zero until then.
    current: FlowSummary,
    outstanding: u32,
    /// Until when the time integral of outstanding requests is complete.
    integrated: Nanos,
    queued: u32,
    /// Until when the time in which something was queued is complete.
    backlogged: Nanos,
    /// That time, of the period under way.
    backlog: Span,
    /// Sum of the arrival instants of the queued requests.
    queued_arrivals_ns: u128,
    /// Bytes of the completions of the period under way.
    completed_bytes: u64,
    /// What a request costs and how many bytes it has, in the mean; none before the first.
    each: Option<[f64; 2]>,
    /// Arrivals per second, fast and slow; none before the first period.
    rates: Option<[f64; 2]>,
}

impl Monitor {
    /// A request arrived, and waits.
    pub fn arrived(&mut self, now: Nanos) {
        self.integrate_queue(now);
        self.current.arrivals += 1;
        self.queued += 1;
        self.queued_arrivals_ns += u128::from(now.0);
    }

    /// A request that waited will not be sent.
    pub fn withdrawn(&mut self, arrival: Nanos) {
        self.queued -= 1;
        self.queued_arrivals_ns -= u128::from(arrival.0);
    }

    /// Whether there is nothing to tell: nothing waits, is at the device or ended in this period,
    /// and nothing is expected.
    pub fn is_silent(&self) -> bool {
        let FlowSummary { arrivals, completions, .. } = self.current;
        let counts = [arrivals, completions, self.outstanding, self.queued];
        let is_expected = |rates: [f64; 2]| rates.into_iter().any(|rate| rate > SILENT_PER_S);
        counts.iter().all(|count| *count == 0) && !self.rates.is_some_and(is_expected)
    }

    /// A request went to the device.
    pub fn dispatched(&mut self, now: Nanos, arrival: Nanos) {
        self.integrate(now);
        self.integrate_queue(now);
        self.outstanding += 1;
        self.queued -= 1;
        self.queued_arrivals_ns -= u128::from(arrival.0);
    }

    /// The device finished a request of this cost and size.
    pub fn completed(
        &mut self,
        now: Nanos,
        sent: &Sent,
        (cost, size_bytes): (Cost, u64),
        target: Option<&Target>,
    ) {
        let (arrival, dispatch) = (sent.waiting.arrival, sent.dispatch);
        self.integrate(now);
        self.outstanding -= 1;
        self.current.completions += 1;
        self.completed_bytes = self.completed_bytes.saturating_add(size_bytes);
        self.current.cost.0 = self.current.cost.0.saturating_add(cost.0);
        self.current.device_time += now.since(dispatch);
        let response = now.since(arrival);
        self.current.response_time += response;
        let is_late = target.is_some_and(|target| response > target.latency_max);
        self.current.late += u32::from(is_late);
    }

    /// A request that is at the device no longer counts, though the device has not served it.
    pub fn left(&mut self, now: Nanos) {
        self.integrate(now);
        self.outstanding -= 1;
    }

    /// Ends the period: its counters, and the state at its end. Whose it is is for others to say.
    pub fn close(&mut self, now: Nanos, period: Span) -> FlowSummary {
        self.integrate(now);
        self.integrate_queue(now);
        let mut summary = std::mem::take(&mut self.current);
        summary.outstanding = self.outstanding;
        summary.queued = self.queued;
        summary.backlogged_percent = percent(std::mem::take(&mut self.backlog), period);
        let age_ns = u128::from(self.queued) * u128::from(now.0) - self.queued_arrivals_ns;
        summary.queued_age = Span(u64::try_from(age_ns).unwrap_or(u64::MAX));
        summary.expected_per_s = self.expect(summary.arrivals, period);
        self.weigh(summary.cost, summary.completions, period);
        summary
    }

    fn integrate(&mut self, now: Nanos) {
        let slot_ns = now.since(self.integrated).0.saturating_mul(u64::from(self.outstanding));
        self.current.slot_time += Span(slot_ns);
        self.integrated = now;
    }

    fn integrate_queue(&mut self, now: Nanos) {
        if self.queued > 0 {
            self.backlog += now.since(self.backlogged);
        }
        self.backlogged = now;
    }

    /// The cost per second of so many requests, and of so many bytes; none as long as nothing was
    /// completed.
    pub fn cost_of(&self, rate_iops: u64, rate_bytes: u64) -> Option<[f64; 2]> {
        let [cost, bytes] = self.each?;
        Some([rate_iops as f64 * cost, rate_bytes as f64 * cost / bytes.max(1.0)])
    }

    /// Takes what a period's completions were like into the means.
    fn weigh(&mut self, cost: Cost, completions: u32, period: Span) {
        let bytes = std::mem::take(&mut self.completed_bytes);
        if completions == 0 {
            return;
        }
        let seen = [cost.0 as f64, bytes as f64].map(|sum| sum / f64::from(completions));
        let part = period.0 as f64 / (period.0 + SLOW.0) as f64;
        let each = self.each.get_or_insert(seen);
        for (mean, seen) in each.iter_mut().zip(seen) {
            *mean += part * (seen - *mean);
        }
    }

    /// Takes a period's arrivals into the averages.
    fn expect(&mut self, arrivals: u32, period: Span) -> u32 {
        let rate = f64::from(arrivals) / period.as_secs_f64();
        let mut rates = self.rates.unwrap_or([rate; 2]);
        for (average, constant) in rates.iter_mut().zip([FAST, SLOW]) {
            let part = period.0 as f64 / (period.0 + constant.0) as f64;
            *average += part * (rate - *average);
        }
        self.rates = Some(rates);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let expected = rates[0].max(rates[1]).ceil() as u32;
        expected
    }
}

/// A part of a period, in percent.
fn percent(part: Span, period: Span) -> u8 {
    let percent = u128::from(part.0) * 100 / u128::from(period.0.max(1));
    u8::try_from(percent.min(100)).expect("at most 100")
}

#[cfg(test)]
mod tests {
    use super::super::order::Waiting;
    use super::*;
    use crate::id::TenantId;

    fn at_ms(ms: u64) -> Nanos {
        Nanos::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn a_period_is_counted_and_the_next_begins_from_its_state() {
        let target = Target::mean(Span::from_millis(60), Span::from_secs(1));
        let mut monitor = Monitor::default();
        for ms in [0, 10, 20] {
            monitor.arrived(at_ms(ms));
        }
        monitor.dispatched(at_ms(20), at_ms(0));
        monitor.dispatched(at_ms(40), at_ms(10));
        let waiting = Waiting { tag: 0, tenant: TenantId(3), arrival: at_ms(0), cost: Cost::ONE };
        let sent = Sent { waiting, dispatch: at_ms(20) };
        monitor.completed(at_ms(70), &sent, (Cost(7), 14), Some(&target));
        let summary = monitor.close(at_ms(100), Span::from_millis(100));
        assert_eq!((summary.arrivals, summary.completions), (3, 1));
        assert_eq!((summary.late, summary.outstanding, summary.queued), (1, 1, 1));
        assert_eq!(summary.device_time, Span::from_millis(50));
        assert_eq!(summary.response_time, Span::from_millis(70));
        assert_eq!(summary.slot_time, Span::from_millis(50 + 60));
        assert_eq!(summary.queued_age, Span::from_millis(80));
        assert_eq!(summary.expected_per_s, 30);
        assert_eq!((summary.cost, summary.backlogged_percent), (Cost(7), 100));
        assert_eq!(monitor.cost_of(10, 10), Some([70.0, 5.0]));

        let next = monitor.close(at_ms(200), Span::from_millis(100));
        assert_eq!((next.arrivals, next.outstanding, next.queued), (0, 1, 1));
        assert_eq!(next.slot_time, Span::from_millis(100));
        assert_eq!(next.queued_age, Span::from_millis(180));
    }

    #[test]
    fn a_burst_is_expected_at_once_and_a_lull_is_not_trusted() {
        let mut monitor = Monitor::default();
        let mut period = |arrivals: u32| {
            (0..arrivals).for_each(|_| monitor.current.arrivals += 1);
            monitor.close(Nanos::ZERO, Span::from_millis(100)).expected_per_s
        };
        (0..50).for_each(|_| assert_eq!(period(20), 200));
        assert!(period(60) > 300);
        (0..20).for_each(|_| assert!(period(60) <= 600));
        // A tenth of a second without arrivals out of the blue.
        assert!(period(0) > 300);
    }
}
