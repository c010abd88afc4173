//! Who asks: a tenant's client at one gate.

use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

/// A client of one tenant at one gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Client {
    /// Which gate.
    pub gate: u32,
    /// Which tenant.
    pub tenant: u32,
    /// How it asks.
    pub asks: Asks,
    /// The size of its requests.
    pub size_bytes: u64,
    /// What they do.
    pub kind: Kind,
    /// When it begins.
    pub from: Nanos,
    /// When it asks for the last time.
    pub until: Nanos,
}

/// How a client asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asks {
    /// So many requests are under way at any time.
    Closed(u32),
    /// So many requests come in a second, at random times.
    Open(f64),
}

impl Client {
    /// One that reads 4 KiB at a time, from the start to the end.
    pub fn reads(gate: u32, tenant: u32, asks: Asks) -> Self {
        let (from, until) = (Nanos::ZERO, Nanos(u64::MAX));
        Self { gate, tenant, asks, size_bytes: 4096, kind: Kind::Read, from, until }
    }

    /// The requests that it begins with.
    pub(super) fn first(&self) -> u32 {
        match self.asks {
            Asks::Closed(requests) => requests,
            Asks::Open(_) => 1,
        }
    }

    /// The time until the next request of one that asks at random times.
    pub(super) fn pause(&self, prng: &mut Prng) -> Option<Span> {
        let Asks::Open(per_s) = self.asks else { return None };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
        let mean = Span((1e9 / per_s) as u64);
        Some(prng.exponential(mean))
    }
}
