//! What the simulated and the live experiments have in common: a volume over two tiers, and tenants
//! whose hit ratios are what they should be.
//!
//! The volume's first extents lie on the fast tier, and nothing moves. So a tenant has a hit ratio
//! of exactly h, on average, if it sends the part h of its requests to the fast tier's bytes, and
//! the others behind them, each place equally likely.
//!
//! ```text
//!   volume  |  on the fast tier  |        on the slow tier         |
//!  requests          h                        1 - h
//! ```

use evenkeel_core::workload::Pattern;
use evenkeel_engine::tiers::layout::{Layout, RESERVE_SLOTS};

/// Names of the backends, the slow one first, and of the volume over them.
pub(super) const TIERS: [&str; 2] = ["slow", "fast"];
pub(super) const VOLUME: &str = "volume";

/// What the tiers hold; there is no need for more.
pub(super) const TIER_BYTES: [u64; 2] = [1 << 30, 256 << 20];
pub(super) const EXTENT_BYTES: u64 = 1 << 20;

/// Bytes of a request.
pub(super) const SIZE_BYTES: u32 = 4096;

/// Requests with a device at once: enough that it has the next one when it is done.
pub(super) const DEVICE_DEPTH: u32 = 2;

/// How requests are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// One virtual time over both tiers, equal requests.
    Fair,
    /// One virtual time over both tiers, equal dominant shares.
    Drf,
    /// One virtual time over both tiers, bottleneck-aware.
    Baa,
    /// A fair queue for each tier by itself.
    PerDevice,
}

impl Order {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair queuing",
            Self::Drf => "DRF",
            Self::Baa => "BAA",
            Self::PerDevice => "per-device fair queuing",
        }
    }
}

/// Requests of which the fast tier serves this part.
pub(super) fn pattern(hit_ratio: f64) -> Pattern {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1")]
    let requests_ppm = (hit_ratio * 1e6).round() as u32;
    Pattern::Hot { hot_bytes: fast_bytes(), requests_ppm }
}

/// Bytes of the volume that lie on the fast tier.
fn fast_bytes() -> u64 {
    let layout = Layout::plan(EXTENT_BYTES, &TIER_BYTES).expect("the tiers have room");
    u64::from(layout.tiers[layout.fastest()].slots - RESERVE_SLOTS) * EXTENT_BYTES
}
