//! Where bytes and commands wait their turn outside the flash: a [`Pipe`] carries one transfer
//! after the other, and the [`HostLink`] is the pipes between host and drive.

use evenkeel_core::time::{Nanos, Span};
use serde::Deserialize;

/// Time that `bytes` take at `rate_bytes` a second, rounded up.
pub(super) fn transfer(bytes: u64, rate_bytes: u64) -> Span {
    if let Some(product) = bytes.checked_mul(1_000_000_000) {
        return Span(product.div_ceil(rate_bytes));
    }
    let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate_bytes));
    Span(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Carries one transfer after the other, in the order of asking.
#[derive(Clone, Copy, Debug)]
pub struct Pipe {
    rate_bytes: u64,
    free_at: Nanos,
}

impl Pipe {
    /// A pipe of so many bytes per second; at least 1.
    pub fn new(rate_bytes: u64) -> Self {
        Self { rate_bytes, free_at: Nanos::ZERO }
    }

    /// Queues a transfer; returns when its last byte has passed.
    pub fn carry(&mut self, now: Nanos, bytes: u64) -> Nanos {
        self.free_at = self.free_at.max(now) + transfer(bytes, self.rate_bytes);
        self.free_at
    }
}

/// The host interface in figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceSpec {
    /// Bytes per second in each direction, protocol overhead taken off.
    pub rate_bytes: u64,
    /// Whether both directions share that rate, as with SATA; PCI Express has it twice.
    pub half_duplex: bool,
    /// Time that a command takes in firmware and drivers without holding up others.
    pub latency_ns: u64,
    /// Time for which a command holds up all others; its inverse bounds the IOPS.
    pub command_ns: u64,
}

/// The link between host and drive.
#[derive(Clone, Copy, Debug)]
pub struct HostLink {
    spec: InterfaceSpec,
    commands_free_at: Nanos,
    to_drive: Pipe,
    to_host: Pipe,
}

impl HostLink {
    /// An idle link.
    pub fn new(spec: InterfaceSpec) -> Self {
        let pipe = Pipe::new(spec.rate_bytes);
        Self { spec, commands_free_at: Nanos::ZERO, to_drive: pipe, to_host: pipe }
    }

    /// Queues a command; returns when the drive starts on it.
    pub fn command(&mut self, now: Nanos) -> Nanos {
        self.commands_free_at = self.commands_free_at.max(now) + Span(self.spec.command_ns);
        self.commands_free_at + Span(self.spec.latency_ns)
    }

    /// Queues the payload of a write; returns when the drive has it.
    pub fn receive(&mut self, now: Nanos, bytes: u64) -> Nanos {
        self.to_drive.carry(now, bytes)
    }

    /// Queues the payload of a read; returns when the host has it.
    pub fn send(&mut self, now: Nanos, bytes: u64) -> Nanos {
        if self.spec.half_duplex {
            self.receive(now, bytes)
        } else {
            self.to_host.carry(now, bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_carries_at_its_rate_and_rests_when_empty() {
        let mut pipe = Pipe::new(1_000_000_000);
        assert_eq!(pipe.carry(Nanos(0), 100), Nanos(100));
        assert_eq!(pipe.carry(Nanos(10), 100), Nanos(200));
        assert_eq!(pipe.carry(Nanos(500), 1), Nanos(501));
        assert_eq!(transfer(u64::MAX, 1), Span(u64::MAX), "beyond all time");
        assert_eq!(transfer(1, 3_000_000_000), Span(1), "rounded up: nothing is free");
    }

    #[test]
    fn half_duplex_shares_what_full_duplex_has_twice() {
        let spec = InterfaceSpec {
            rate_bytes: 1_000_000_000,
            half_duplex: true,
            latency_ns: 50,
            command_ns: 10,
        };
        let mut half = HostLink::new(spec);
        let mut full = HostLink::new(InterfaceSpec { half_duplex: false, ..spec });
        let both = |link: &mut HostLink| (link.receive(Nanos(0), 100), link.send(Nanos(0), 100));
        assert_eq!(both(&mut half), (Nanos(100), Nanos(200)));
        assert_eq!(both(&mut full), (Nanos(100), Nanos(100)));
        assert_eq!([half.command(Nanos(0)), half.command(Nanos(0))], [Nanos(60), Nanos(70)]);
    }
}
