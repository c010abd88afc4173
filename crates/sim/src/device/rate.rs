//! nbdkit's rate filter: token buckets of bits, one for reads and one for writes, over the whole
//! server and again for each connection.
//!
//! A request that finds enough tokens passes. One that does not takes what there is, sleeps for the
//! time in which the rest would drip in if nobody else drew from the bucket, and asks again for
//! that rest. Whoever wakes first draws first, so requests that sleep at once compete, and none is
//! sure of its turn. The clock of a bucket ticks in microseconds, and each refill rounds tokens
//! down.
//!
//! ```text
//! 8 Mbit/s, empty bucket    request of 32 KiB = 262,144 bits: sleeps 32.768 ms, then finds them
//! two such at once          both sleep 32.768 ms; the second finds nothing then and sleeps again
//! ```
//!
//! A bucket holds two seconds' worth and begins full, so a limit shows only after a burst of that.
//! Trims, writes of zeroes and flushes carry no bytes and pass.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::nbdkit::{Filter, Nbdkit, Visit};
use super::spec::RateSpec;

/// Memory behind nbdkit's rate filter.
pub type Rate = Nbdkit<RateFilter>;

/// The buckets.
#[derive(Clone, Debug)]
pub struct RateFilter {
    /// Of the whole server: reads, writes.
    total: [Bucket; 2],
    /// Of each connection: reads, writes.
    connections: Vec<[Bucket; 2]>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Bits per second; zero for no limit.
    rate_bits: u64,
    capacity_bits: u64,
    level_bits: u64,
    updated_us: u64,
}

impl Rate {
    /// A server with full buckets.
    pub fn from_spec(spec: RateSpec) -> Self {
        let pair = |rate_bits| [Bucket::new(rate_bits, spec.burstiness); 2];
        let connections = spec.service.connections.max(1) as usize;
        let filter = RateFilter {
            total: pair(spec.rate_bits),
            connections: vec![pair(spec.connection_rate_bits); connections],
        };
        Self::new(filter, spec.size_bytes, spec.service)
    }
}

impl Filter for RateFilter {
    fn hold(&mut self, now: Nanos, visit: &mut Visit) -> Option<Span> {
        let direction = match visit.op.kind {
            Kind::Read => 0,
            Kind::Write => 1,
            Kind::Flush | Kind::Trim | Kind::Cache | Kind::WriteZeroes => return None,
        };
        let bits = visit.op.length.saturating_mul(8);
        while visit.progress.stage < 2 {
            let bucket = match visit.progress.stage {
                0 => &mut self.total[direction],
                _ => &mut self.connections[visit.connection][direction],
            };
            let wanted_bits = bits - visit.progress.granted;
            let granted_bits = bucket.draw(now, wanted_bits);
            if granted_bits < wanted_bits {
                visit.progress.granted += granted_bits;
                return Some(bucket.time_for(wanted_bits - granted_bits));
            }
            visit.progress.stage += 1;
            visit.progress.granted = 0;
        }
        None
    }
}

impl Bucket {
    fn new(rate_bits: u64, burstiness: Span) -> Self {
        let capacity = u128::from(rate_bits) * u128::from(burstiness.0) / 1_000_000_000;
        let capacity_bits = u64::try_from(capacity).unwrap_or(u64::MAX);
        Self { rate_bits, capacity_bits, level_bits: capacity_bits, updated_us: 0 }
    }

    /// Takes as many of the bits wanted as there are; returns how many.
    fn draw(&mut self, now: Nanos, wanted_bits: u64) -> u64 {
        if self.rate_bits == 0 {
            return wanted_bits;
        }
        let now_us = now.0 / 1000;
        let elapsed_us = now_us.saturating_sub(self.updated_us);
        let dripped = u128::from(self.rate_bits) * u128::from(elapsed_us) / 1_000_000;
        let room = u128::from(self.capacity_bits - self.level_bits);
        self.level_bits += u64::try_from(dripped.min(room)).expect("bounded by the capacity");
        self.updated_us = now_us;
        let granted_bits = wanted_bits.min(self.level_bits);
        self.level_bits -= granted_bits;
        granted_bits
    }

    fn time_for(&self, bits: u64) -> Span {
        let ns = u128::from(bits) * 1_000_000_000 / u128::from(self.rate_bits);
        Span(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::spec::NbdkitService;
    use crate::device::testing::{read, run};

    const RATE: RateSpec = RateSpec {
        size_bytes: 1 << 30,
        rate_bits: 8_000_000,
        connection_rate_bits: 0,
        burstiness: Span::ZERO,
        service: NbdkitService {
            connections: 1,
            threads: 16,
            overhead: Span::ZERO,
            oversleep: Span::ZERO,
        },
    };

    #[test]
    fn a_full_bucket_passes_two_seconds_worth_at_once() {
        let spec = RateSpec { burstiness: Span::from_secs(2), ..RATE };
        let arrivals: Vec<_> = (0..3).map(|tag| (0, read(tag, 1_000_000))).collect();
        let done = run(&mut Rate::from_spec(spec), &arrivals);
        assert_eq!(done, [(0, 0), (0, 1), (1_000_000_000, 2)]);
    }

    /// An empty bucket holds nothing between two draws, so the capacity must be above zero for a
    /// sleeper to find its tokens: the filter's two seconds, drained by a first large request.
    fn drained() -> (Rate, super::super::Op) {
        let spec = RateSpec { burstiness: Span::from_secs(2), ..RATE };
        (Rate::from_spec(spec), read(99, 2_000_000))
    }

    #[test]
    fn a_request_sleeps_for_what_it_lacks() {
        let (mut device, first) = drained();
        let done = run(&mut device, &[(0, first), (0, read(0, 32_768))]);
        assert_eq!(done, [(0, 99), (32_768_000, 0)]);
    }

    #[test]
    fn sleepers_compete_and_the_rate_holds_in_all() {
        let (mut device, first) = drained();
        let mut arrivals = vec![(0, first)];
        arrivals.extend((0..4).map(|tag| (0, read(tag, 32_768))));
        let done = run(&mut device, &arrivals);
        let last = done.last().unwrap().0;
        assert!(done[1].0 == 32_768_000, "the first to wake finds its tokens: {done:?}");
        assert!((4 * 32_768_000..4 * 32_768_000 + 100_000).contains(&last), "{done:?}");
    }

    #[test]
    fn each_connection_has_its_own_limit_too() {
        let service = NbdkitService { connections: 2, ..RATE.service };
        let spec = RateSpec {
            rate_bits: 0,
            connection_rate_bits: 8_000_000,
            burstiness: Span::from_secs(2),
            service,
            ..RATE
        };
        // Sixteen fill the first connection and two seconds' worth; the next use the second.
        let arrivals: Vec<_> = (0..17).map(|tag| (0, read(tag, 250_000))).collect();
        let done = run(&mut Rate::from_spec(spec), &arrivals);
        let at_once = done.iter().filter(|(at, _)| *at == 0).count();
        assert_eq!(at_once, 9, "eight of the first connection, one of the second: {done:?}");
    }
}
