//! A device of constant speed: each request takes `fixed + bytes / rate`, some are served at a
//! time, and the others wait in the order of their arrival.
//!
//! ```text
//! two servers, 10 us a request
//!   server 0  |--a--|--c--|          a, b, c arrive at 0: done at 10, 10 and 20
//!   server 1  |--b--|
//! ```
//!
//! One server is the constant-rate device, very many are the constant-delay device.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::servers::Servers;
use super::spec::ConstantSpec;
use super::{Device, Op, Step};
use crate::link::transfer;

/// The device. See the [module](self).
#[derive(Clone, Debug)]
pub struct Constant {
    spec: ConstantSpec,
    servers: Servers,
    /// The transfer time computed last: most requests are of one size.
    transfer: (u64, Span),
}

impl Constant {
    /// An idle device.
    pub fn new(spec: ConstantSpec) -> Self {
        Self { servers: Servers::new(spec.servers), transfer: (0, Span::ZERO), spec }
    }

    fn start(&mut self, now: Nanos, op: &Op) {
        let bytes = match op.kind {
            Kind::Read | Kind::Write | Kind::Cache => op.length,
            // These move no bytes, however many they affect.
            Kind::Flush | Kind::Trim | Kind::WriteZeroes => 0,
        };
        if self.transfer.0 != bytes {
            self.transfer = (bytes, transfer(bytes, self.spec.rate_bytes));
        }
        self.servers.begin(op.tag, now + self.spec.fixed + self.transfer.1);
    }
}

impl Device for Constant {
    fn submit(&mut self, now: Nanos, op: Op) {
        if let Some(op) = self.servers.submit(op) {
            self.start(now, &op);
        }
    }

    fn poll(&mut self, now: Nanos) -> Step {
        let (step, next) = self.servers.poll(now);
        if let Some((at, op)) = next {
            self.start(at, &op);
        }
        step
    }

    fn size_bytes(&self) -> u64 {
        self.spec.size_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::testing::{read, run};

    #[test]
    fn a_rate_is_shared_in_the_order_of_arrival() {
        let spec = ConstantSpec {
            fixed: Span::from_micros(10),
            rate_bytes: 1 << 30,
            ..ConstantSpec::default()
        };
        let mut device = Constant::new(spec);
        let done =
            run(&mut device, &[(0, read(0, 1 << 20)), (5, read(1, 0)), (2_000_000, read(2, 0))]);
        let first = 10_000 + 976_563;
        assert_eq!(done, [(first, 0), (first + 10_000, 1), (2_010_000, 2)]);
    }

    #[test]
    fn many_servers_are_a_delay() {
        let spec = ConstantSpec {
            fixed: Span::from_millis(1),
            servers: u32::MAX,
            ..ConstantSpec::default()
        };
        let arrivals: Vec<_> = (0..100).map(|tag| (u64::from(tag), read(tag, 4096))).collect();
        let done = run(&mut Constant::new(spec), &arrivals);
        let expected: Vec<_> = (0..100).map(|tag| (1_000_000 + u64::from(tag), tag)).collect();
        assert_eq!(done, expected);
    }
}
