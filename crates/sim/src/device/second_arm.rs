//! A drive that writes with an arm of its own, which no drive has: what writes and reads cost each
//! other by sharing one.
//!
//! ```text
//!   reads   -->  the drive as it is, with nothing but reads
//!   writes  -->  its rate in sequence, one behind the other, whatever their places
//! ```
//!
//! A layout over drives as they are can come near to what the same drives do like this, and not
//! go beyond: that is the most that keeping writes away from reads is worth.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::simple::Constant;
use super::spec::ConstantSpec;
use super::{Device, Op, Step};

/// The drive. See the [module](self).
#[derive(Clone, Debug)]
pub struct SecondArm<D> {
    reads: D,
    writes: Constant,
}

impl<D: Device> SecondArm<D> {
    /// Leaves reads to `reads`, and writes at so many bytes a second.
    pub fn new(reads: D, rate_bytes: u64) -> Self {
        let size_bytes = reads.size_bytes();
        let spec = ConstantSpec { size_bytes, fixed: Span::ZERO, rate_bytes, servers: 1 };
        Self { reads, writes: Constant::new(spec) }
    }
}

impl<D: Device> Device for SecondArm<D> {
    fn submit(&mut self, now: Nanos, op: Op) {
        if op.kind == Kind::Read {
            self.reads.submit(now, op);
        } else {
            self.writes.submit(now, op);
        }
    }

    fn poll(&mut self, now: Nanos) -> Step {
        let written = match self.writes.poll(now) {
            Step::Idle => return self.reads.poll(now),
            Step::WaitUntil(instant) => instant,
            done @ Step::Done { .. } => return done,
        };
        match self.reads.poll(now) {
            Step::Idle => Step::WaitUntil(written),
            Step::WaitUntil(instant) => Step::WaitUntil(instant.min(written)),
            done @ Step::Done { .. } => done,
        }
    }

    fn size_bytes(&self) -> u64 {
        self.reads.size_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Outcome;
    use crate::device::testing::{read, run};

    fn write(tag: u32, length: u64) -> Op {
        Op { kind: Kind::Write, ..read(tag, length) }
    }

    #[test]
    fn writes_and_reads_do_not_wait_for_each_other() {
        let spec = ConstantSpec {
            fixed: Span::from_micros(10),
            rate_bytes: 1 << 30,
            ..ConstantSpec::default()
        };
        let mut drive = SecondArm::new(Constant::new(spec), 1 << 20);
        let arrivals = [(0, write(0, 1 << 10)), (0, write(1, 1 << 10)), (1, read(2, 0))];
        let done = run(&mut drive, &arrivals);
        let write_ns = 976_563;
        assert_eq!(done, [(10_001, 2), (write_ns, 0), (2 * write_ns, 1)]);
        assert_eq!(drive.poll(Nanos(0)), Step::Idle);
        drive.submit(Nanos(0), write(3, 0));
        assert_eq!(drive.poll(Nanos(0)), Step::Done { tag: 3, outcome: Outcome::Good });
    }
}
