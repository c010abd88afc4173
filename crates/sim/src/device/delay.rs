//! nbdkit's delay filter: each request sleeps in its thread, for a time by its kind, and then is
//! served from memory. With 16 threads to a connection, requests beyond 16 wait their turn.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::nbdkit::{Filter, Nbdkit, Visit};
use super::spec::DelaySpec;

/// Memory behind nbdkit's delay filter.
pub type Delay = Nbdkit<DelayFilter>;

/// How long each kind sleeps.
#[derive(Clone, Copy, Debug)]
pub struct DelayFilter {
    spec: DelaySpec,
}

impl Delay {
    /// An idle server.
    pub fn from_spec(spec: DelaySpec) -> Self {
        Self::new(DelayFilter { spec }, spec.size_bytes, spec.service)
    }
}

impl Filter for DelayFilter {
    fn hold(&mut self, _now: Nanos, visit: &mut Visit) -> Option<Span> {
        let sleep = match visit.op.kind {
            Kind::Read => self.spec.read,
            Kind::Write => self.spec.write,
            Kind::WriteZeroes => self.spec.zero,
            Kind::Trim => self.spec.trim,
            // nbdkit can delay these too, but not with the settings that are modelled.
            Kind::Flush | Kind::Cache => Span::ZERO,
        };
        visit.progress.stage += 1;
        (visit.progress.stage == 1 && sleep > Span::ZERO).then_some(sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::spec::NbdkitService;
    use crate::device::testing::{read, run};

    fn delay(connections: u32, threads: u32) -> Delay {
        let service = NbdkitService {
            connections,
            threads,
            oversleep: Span::ZERO,
            ..NbdkitService::default()
        };
        Delay::from_spec(DelaySpec { read: Span::from_millis(1), service, ..DelaySpec::default() })
    }

    #[test]
    fn as_many_sleep_at_once_as_there_are_threads() {
        let arrivals: Vec<_> = (0..8).map(|tag| (0, read(tag, 4096))).collect();
        let done = run(&mut delay(1, 3), &arrivals);
        let millis: Vec<u64> = done.iter().map(|(at, _)| at / 1_000_000).collect();
        assert_eq!(millis, [1, 1, 1, 2, 2, 2, 3, 3]);
    }

    #[test]
    fn the_second_connection_is_used_when_the_first_is_full() {
        let arrivals: Vec<_> = (0..17).map(|tag| (0, read(tag, 4096))).collect();
        let done = run(&mut delay(2, 8), &arrivals);
        let early: Vec<u32> =
            done.iter().filter(|(at, _)| *at == 1_000_000).map(|(_, tag)| *tag).collect();
        assert_eq!(early, [0, 1, 2, 3, 4, 5, 6, 7, 16], "16 calls fill a connection");
    }

    #[test]
    fn a_thread_oversleeps_and_works_beside_sleeping() {
        let service = NbdkitService {
            oversleep: Span::from_micros(60),
            overhead: Span::from_micros(20),
            ..NbdkitService::default()
        };
        let spec = DelaySpec { read: Span::from_millis(1), service, ..DelaySpec::default() };
        assert_eq!(run(&mut Delay::from_spec(spec), &[(0, read(7, 512))]), [(1_080_000, 7)]);
        let flush = super::super::Op { kind: Kind::Flush, ..read(1, 0) };
        assert_eq!(run(&mut Delay::from_spec(spec), &[(0, flush)]), [(20_000, 1)]);
    }
}
